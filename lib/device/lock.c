/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.c - advisory locks, so that of the processes of a host one builds a program and the
 * others find it. Each is on a file in the cache directory, with the host in its name,
 * because many hosts may share that directory through NFS.
 *
 * A program has one of 16 locks, by the first digit of its key: so different programs are built
 * side by side, and no file has to be removed again.
 *
 * Idea: flock() where it works, else a lock of the open file description. Both belong
 * to the open file, so they also keep the threads of a process apart. The operating
 * system drops them when the holder dies: no stale lock can remain, and nobody has to
 * judge whether a pid is alive. Waiting is polling, because a library may use neither
 * signals nor a thread to bound a blocking wait.
 *
 * A holder stamps the file when it takes the lock. A waiter gives up only if the stamp
 * stays the same for too long, so a long queue of busy builders does not make it do so.
 *
 * What it does not do: order the waiters, or keep hosts apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/cache.h"

enum {
    FIRST_PAUSE_NS = 1000000, /* nanoseconds between two tries; doubled up to the last */
    LAST_PAUSE_NS = 16000000,
    HOST_SIZE = 65, /* bytes of a host's name; a longer one is cut */
    NAME_SIZE = HOST_SIZE + 16
};

/* Writes "build-HOST-DIGIT.lock", or "compile-HOST.lock" for the key "compile", with characters
 * that are safe in a file name. */
static void
lock_name(const char *key, char name[NAME_SIZE])
{
    char host[HOST_SIZE];

    if (gethostname(host, sizeof host))
        strcpy(host, "localhost");
    host[sizeof host - 1] = '\0'; /* POSIX need not end a truncated name */
    for (char *c = host; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              *c == '-' || *c == '.'))
            *c = '_';
    if (strcmp(key, "compile") == 0)
        snprintf(name, NAME_SIZE, "compile-%s.lock", host);
    else
        snprintf(name, NAME_SIZE, "build-%s-%c.lock", host, key[0]);
}

/* Returns 1 if it took the lock, 0 if somebody has it, -1 if the file system has no locks. */
static int
try_lock(int fd)
{
    int result;

    do
        result = flock(fd, LOCK_EX | LOCK_NB);
    while (result && errno == EINTR);
    if (!result)
        return 1;
    if (errno == EWOULDBLOCK)
        return 0;
#ifdef F_OFD_SETLK
    {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        do
            result = fcntl(fd, F_OFD_SETLK, &whole);
        while (result && errno == EINTR);
        if (!result)
            return 1;
        if (errno == EAGAIN || errno == EACCES)
            return 0;
    }
#endif
    return -1;
}

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static yki_lock_state
wait_for(int fd, double patience)
{
    struct timespec pause = {0, FIRST_PAUSE_NS}, stamp = {0, 0};
    double since = yki_now();

    for (;;) {
        struct stat now;
        int got = try_lock(fd);

        if (got < 0)
            return YKI_LOCK_BROKEN;
        if (got) {
            futimens(fd, NULL); /* if the stamp fails, others only wait less */
            return YKI_LOCK_TAKEN;
        }
        if (!fstat(fd, &now) && !same_time(&now.st_mtim, &stamp)) {
            stamp = now.st_mtim;
            since = yki_now();
        }
        if (yki_now() - since > patience)
            return YKI_LOCK_STUCK;
        nanosleep(&pause, NULL);
        pause.tv_nsec = YKI_MIN(pause.tv_nsec * 2, LAST_PAUSE_NS);
    }
}

yki_lock_state
yki_lock_take(int dirfd, const char *key, double patience, yki_lock *lock)
{
    char name[NAME_SIZE];
    yki_lock_state state;
    int fd, error;

    lock->fd = -1;
    lock_name(key, name);
    fd = openat(dirfd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return YKI_LOCK_BROKEN;
    state = wait_for(fd, patience);
    if (state == YKI_LOCK_TAKEN) {
        lock->fd = fd;
        return state;
    }
    error = errno;
    close(fd);
    errno = error;
    return state;
}

void
yki_lock_release(yki_lock *lock)
{
    if (lock->fd < 0)
        return;
    /* Unlock explicitly: close() is not enough if a child forked meanwhile has the file open. */
    flock(lock->fd, LOCK_UN);
#ifdef F_OFD_SETLK
    fcntl(lock->fd, F_OFD_SETLK, &(struct flock){.l_type = F_UNLCK, .l_whence = SEEK_SET});
#endif
    close(lock->fd);
    lock->fd = -1;
}
