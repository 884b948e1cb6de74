/* SPDX-License-Identifier: Apache-2.0
 *
 * strike.h - what happens to a rank in the tests of libyoke-mpi: it is killed, stopped, leaves, or
 * hangs.
 *
 * When that was is written to the file $STRIKE_FILE, as `date +%s.%N` has it, and when somebody
 * first noticed to $STRIKE_FILE.noticed: what takes its time is counted from these, not from the
 * start of mpirun. What ranks say when they give up goes to $STRIKE_FILE.said too: launchers lose
 * what a rank writes just before its end, the more so on a busy machine.
 */
#ifndef TESTS_MPI_STRIKE_H
#define TESTS_MPI_STRIKE_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void
rest(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static inline FILE *
open_note(const char *suffix, const char *mode)
{
    const char *path = getenv("STRIKE_FILE");
    char name[4096];

    if (!path || snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name)
        return NULL;
    return fopen(name, mode);
}

/* The first one to write holds. */
static inline void
note_time(const char *suffix)
{
    struct timespec t;
    FILE *file;

    clock_gettime(CLOCK_REALTIME, &t);
    file = open_note(suffix, "wx");
    if (!file)
        return;
    fprintf(file, "%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
    fclose(file);
}

/* What a rank says of the failure of another: on the terminal, and in the file that no launcher
 * loses. Then it has noticed. */
static inline void
notice(const char *program, const char *kind, const char *error)
{
    FILE *file = open_note(".said", "a");

    fprintf(stderr, "%s: %s: %s\n", program, kind, error);
    fflush(stderr);
    if (file) {
        fprintf(file, "%s: %s: %s\n", program, kind, error);
        fclose(file);
    }
    note_time(".noticed");
}

/* Waits until another rank has noticed; a minute is only there to end what hangs. */
static inline void
await_notice(void)
{
    for (int i = 0; i < 600; i++) {
        FILE *file = open_note(".noticed", "r");

        if (file) {
            fclose(file);
            return;
        }
        rest(0.1);
    }
}

/* Returns if it is none of these. */
static inline void
strike(const char *what)
{
    note_time("");
    if (strcmp(what, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(what, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(what, "exit") == 0)
        _exit(0);
    if (strcmp(what, "hang") == 0)
        rest(1000);
}

#endif
