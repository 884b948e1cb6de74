/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c - a thread that runs one function, and a clock.
 *
 * Threads of the library block all signals, so the application's threads get them.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/base.h"

struct yki_thread {
    pthread_t id;
    void (*run)(void *);
    void *argument;
};

static void *
trampoline(void *pointer)
{
    yki_thread *thread = pointer;

    thread->run(thread->argument);
    return NULL;
}

yoke_status
yki_thread_start(void (*run)(void *), void *argument, const char *name, yki_thread **out)
{
    yki_thread *thread = yki_alloc(1, sizeof *thread, "a thread");
    sigset_t all, before;
    int error;

    if (!thread)
        return YOKE_ERROR_OUT_OF_MEMORY;
    thread->run = run;
    thread->argument = argument;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread->id, NULL, trampoline, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        yki_free(thread);
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "cannot start thread %s: %s", name,
                        strerror(error));
    }
    *out = thread;
    return YOKE_OK;
}

void
yki_thread_join(yki_thread *thread)
{
    if (!thread)
        return;
    pthread_join(thread->id, NULL);
    yki_free(thread);
}

double
yki_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
