/* SPDX-License-Identifier: Apache-2.0
 *
 * replace.c - writes a file so that, whatever happens, its name stands for all of
 * the old contents or for all of the new ones.
 *
 * The new file is written under another name in the same folder, synced to the
 * disk and renamed; then the folder is synced. The old file is not touched before
 * the rename. A process that is killed leaves at most a file ".yoke-PID-N.tmp"
 * behind. A link is followed: the file that it points to is replaced, not the link.
 * A path that is no regular file (a device, a pipe) cannot be replaced and is
 * refused.
 *
 * Tests can make each system call fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

struct yki_replace {
    char *path; /* the file that is replaced, with links resolved */
    char *folder;
    char *aside; /* the new file; NULL once it is renamed */
    int fd;
};

/* The most bytes of one write: some systems refuse more than 2^31 - 1. */
enum { MAX_WRITE = 1 << 30 };

static atomic_uint_fast64_t calls, fail_at;
static atomic_int fail_with;

uint64_t
yki_replace_fail_at(uint64_t n, int error)
{
    uint64_t made = atomic_exchange(&calls, 0);

    atomic_store(&fail_with, error);
    atomic_store(&fail_at, n);
    return made;
}

/* Counts a system call that is about to be made. Returns true, with errno set, if it has to fail.
 */
static bool
injected(void)
{
    uint64_t n = atomic_fetch_add(&calls, 1) + 1;

    if (n != atomic_load(&fail_at))
        return false;
    errno = atomic_load(&fail_with);
    return true;
}

static yoke_status
failed(const yki_replace *r, const char *what)
{
    return yki_fail(YOKE_ERROR_IO, "%s: cannot %s: %s", r->path, what, strerror(errno));
}

/* Returns a copy of the path, with links resolved if the file exists. */
static char *
resolve(const char *path)
{
    char *real = realpath(path, NULL), *copy;

    copy = yki_strdup(real ? real : path, "a path");
    free(real);
    return copy;
}

static char *
folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return yki_strdup(".", "a path");
    return yki_format("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static yoke_status
check_target(const yki_replace *r)
{
    size_t length = strlen(r->path);
    struct stat found;

    if (length == 0 || r->path[length - 1] == '/' || length > INT_MAX)
        return yki_fail(YOKE_ERROR_IO,
                        "the path \"%s\" is that of a folder; must end in the name of a file",
                        r->path);
    if (stat(r->path, &found) != 0)
        return errno == ENOENT ? YOKE_OK : failed(r, "look at it");
    if (S_ISDIR(found.st_mode))
        return yki_fail(YOKE_ERROR_IO, "%s is a folder; must be a file", r->path);
    if (!S_ISREG(found.st_mode))
        return yki_fail(
            YOKE_ERROR_IO,
            "%s is no regular file and cannot be replaced; must be a regular file, or not exist",
            r->path);
    /* A rename would replace a file that is read-only too. */
    if (access(r->path, W_OK) != 0)
        return failed(r, "write it");
    return YOKE_OK;
}

static yoke_status
open_aside(yki_replace *r)
{
    static atomic_uint number;

    do {
        yki_free(r->aside);
        r->aside = yki_format("%s/.yoke-%ld-%u.tmp", r->folder, (long)getpid(),
                              atomic_fetch_add(&number, 1));
        if (!r->aside)
            return YOKE_ERROR_OUT_OF_MEMORY;
        r->fd = injected() ? -1 : open(r->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (r->fd < 0 && errno == EEXIST);
    return r->fd < 0 ? failed(r, "make a file in its folder") : YOKE_OK;
}

yoke_status
yki_replace_begin(const char *path, yki_replace **out)
{
    yki_replace *r = yki_alloc(1, sizeof *r, "a file to be written");
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    if (!r)
        return YOKE_ERROR_OUT_OF_MEMORY;
    r->fd = -1;
    r->path = resolve(path);
    r->folder = r->path ? folder_of(r->path) : NULL;
    if (r->folder)
        status = check_target(r);
    if (status == YOKE_OK)
        status = open_aside(r);
    if (status != YOKE_OK) {
        yki_replace_drop(r);
        return status;
    }
    *out = r;
    return YOKE_OK;
}

/* Writes at `offset`, or at the end if that is negative. */
static yoke_status
write_all(yki_replace *r, const void *data, size_t size, int64_t offset)
{
    const unsigned char *bytes = data;

    while (size > 0) {
        size_t part = YKI_MIN(size, (size_t)MAX_WRITE);
        ssize_t done;

        if (injected())
            done = -1;
        else if (offset < 0)
            done = write(r->fd, bytes, part);
        else
            done = pwrite(r->fd, bytes, part, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return failed(r, "write it");
        bytes += done;
        size -= (size_t)done;
        if (offset >= 0)
            offset += done;
    }
    return YOKE_OK;
}

yoke_status
yki_replace_write(yki_replace *r, const void *data, size_t size)
{
    return write_all(r, data, size, -1);
}

yoke_status
yki_replace_patch(yki_replace *r, uint64_t offset, const void *data, size_t size)
{
    return write_all(r, data, size, (int64_t)offset);
}

/* Without this the rename may be lost when the power fails. */
static yoke_status
sync_folder(yki_replace *r)
{
    int fd = injected() ? -1 : open(r->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && !injected() && fsync(fd) == 0;
    int error = errno;

    if (fd >= 0)
        close(fd);
    errno = error;
    /* Some file systems cannot sync a folder and need not. */
    return done || error == EINVAL ? YOKE_OK : failed(r, "bring its folder to the disk");
}

static yoke_status
commit(yki_replace *r)
{
    int closed;

    if (injected() || fsync(r->fd) != 0)
        return failed(r, "bring it to the disk");
    closed = injected() ? -1 : close(r->fd);
    if (closed == 0)
        r->fd = -1;
    else
        return failed(r, "write it");
    if (injected() || rename(r->aside, r->path) != 0)
        return failed(r, "put it in place");
    yki_free(r->aside);
    r->aside = NULL;
    return sync_folder(r);
}

yoke_status
yki_replace_commit(yki_replace *r)
{
    yoke_status status = commit(r);

    yki_replace_drop(r);
    return status;
}

void
yki_replace_drop(yki_replace *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    if (r->aside)
        unlink(r->aside);
    yki_free(r->aside);
    yki_free(r->folder);
    yki_free(r->path);
    yki_free(r);
}
