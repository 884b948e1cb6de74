/* SPDX-License-Identifier: Apache-2.0
 *
 * strike.h - what happens to a rank in the tests of libyoke-mpi: it is killed, stopped, leaves, or
 * hangs.
 *
 * When that was is written to the file $STRIKE_FILE, as `date +%s.%N` has it, and when somebody
 * first noticed to $STRIKE_FILE.noticed: what takes its time is counted from these, not from the
 * start of mpirun.
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

/* The first one to write holds. */
static inline void
note_time(const char *suffix)
{
    const char *path = getenv("STRIKE_FILE");
    char name[4096];
    struct timespec t;
    FILE *file;

    if (!path || snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name)
        return;
    clock_gettime(CLOCK_REALTIME, &t);
    file = fopen(name, "wx");
    if (!file)
        return;
    fprintf(file, "%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
    fclose(file);
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
