/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.c - compiled kernels on disk, so that the second start compiles nothing.
 *
 * Idea: a private directory of small files, one per program, named by a hash of all
 * that the compiler saw. Drivers do not survive a damaged binary: of the three that
 * yoke is tested with, two abort the process. So an entry is trusted only if it is a
 * plain file of this user that nobody else can write, in such a directory, and if its
 * header, size and payload hash agree. An entry is written under another name and
 * renamed, so a reader sees a whole entry or none. A failure costs a compilation and
 * is never an error. The first one of a context is logged as a warning, the others as
 * debug lines.
 *
 * Reading an entry updates its time stamp, once a day at most. When the entries
 * together exceed YKI_CACHE_LIMIT, those with the oldest stamps are removed.
 *
 * What it does not do: share entries between users, or guard against somebody who
 * can already write to the user's files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/cache.h"
#include "device/internal.h"

#include "config.h"

enum {
    FORMAT = 1,            /* of an entry; a header of the other byte order differs in it too */
    NAME_SIZE = 96,        /* bytes of a file's name in the directory, with the 0 at its end */
    STAMP_SECONDS = 86400, /* a stamp younger than this is not updated */
    ORPHAN_SECONDS = 3600, /* a temporary file older than this has lost its writer */
    LOCK_PATIENCE = 120    /* seconds */
};

static const char MAGIC[8] = "YOKECLB";
static const char SUFFIX[] = ".bin";
static const char TEMPORARY[] = "tmp-";

/* The start of an entry, without padding between the members. */
typedef struct header {
    char magic[8];
    uint32_t format;
    uint32_t header_size;
    char version[32]; /* yoke's */
    char key[32];     /* not terminated */
    char payload[32]; /* hash of what follows the header */
    uint64_t size;    /* bytes that follow the header */
} header;

/* ---- where ---- */

const char *
yki_secure_env(const char *name)
{
    const char *value;

#ifdef HAVE_SECURE_GETENV
    value = secure_getenv(name);
#else
    value = getuid() == geteuid() && getgid() == getegid() ? getenv(name) : NULL;
#endif
    return value && *value ? value : NULL;
}

/* Makes the path of the user's directory absolute, so that it stays the same directory when the
 * working directory changes. *absolute is NULL if there is no path to it. */
static yoke_status
make_absolute(const char *path, char **absolute)
{
    char here[PATH_MAX];

    if (path[0] != '/' && !getcwd(here, sizeof here)) {
        yki_log(YOKE_LOG_WARNING, "compiled kernels are not kept: no path leads to \"%s\": %s",
                path, strerror(errno));
        *absolute = NULL;
        return YOKE_OK;
    }
    *absolute =
        path[0] == '/' ? yki_strdup(path, "the cache directory") : yki_format("%s/%s", here, path);
    return *absolute ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

yoke_status
yki_cache_choose(const char *cache_dir, bool no_cache, char **dir)
{
    const char *base;

    if (no_cache) {
        *dir = NULL;
        return YOKE_OK;
    }
    if (!cache_dir || !*cache_dir)
        cache_dir = yki_secure_env("YOKE_CACHE_DIR");
    if (cache_dir)
        return make_absolute(cache_dir, dir);
    /* The XDG rules for base directories say to ignore a relative path. */
    base = yki_secure_env("XDG_CACHE_HOME");
    if (base && base[0] == '/') {
        *dir = yki_format("%s/yoke", base);
        return *dir ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    }
    base = yki_secure_env("HOME");
    if (base && base[0] == '/') {
        *dir = yki_format("%s/.cache/yoke", base);
        return *dir ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    }
    yki_log(YOKE_LOG_WARNING, "compiled kernels are not kept: none of YOKE_CACHE_DIR, "
                              "XDG_CACHE_HOME and HOME names a directory");
    *dir = NULL;
    return YOKE_OK;
}

/* Logs a problem: the first of a context as a warning, the others for those who debug. */
static void
report(yoke_context *context, const char *problem, const char *reason)
{
    bool again = atomic_exchange(&context->cache_reported, true);

    yki_log(again ? YOKE_LOG_DEBUG : YOKE_LOG_WARNING, "cache of compiled kernels %s: %s%s%s",
            context->cache_dir, problem, reason ? ": " : "", reason ? reason : "");
}

/* Makes a private directory and its parents. On failure it returns false and sets errno. */
static bool
make_directories(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);

    if (length >= sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(part, path, length + 1);
    for (char *c = part + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        /* A parent that cannot be made may exist already (EROFS, EACCES): go on, and let the last
         * directory decide. */
        mkdir(part, 0700);
        *c = '/';
    }
    return !mkdir(part, 0700) || errno == EEXIST;
}

/* Opens the directory if its entries can be trusted. Otherwise it reports why and returns -1. */
static int
open_directory(yoke_context *context, bool make)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, fd;
    struct stat about;

    if (!context->cache_dir)
        return -1;
    fd = open(context->cache_dir, flags);
    if (fd < 0 && errno == ENOENT) {
        if (!make)
            return -1;
        if (make_directories(context->cache_dir))
            fd = open(context->cache_dir, flags);
    }
    if (fd < 0) {
        report(context, "cannot be opened", strerror(errno));
        return -1;
    }
    if (fstat(fd, &about)) {
        report(context, "cannot be examined", strerror(errno));
        close(fd);
        return -1;
    }
    if (about.st_uid != geteuid() || (about.st_mode & 022)) {
        report(context,
               about.st_uid != geteuid() ? "not used, it belongs to another user"
                                         : "not used, others can write to it (chmod 700)",
               NULL);
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- reading ---- */

/* Reads exactly `size` bytes. Returns false if there are fewer, or on an error. */
static bool
read_all(int fd, void *data, size_t size)
{
    char *to = data;

    while (size > 0) {
        ssize_t got = read(fd, to, size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        size -= (size_t)got;
    }
    return true;
}

static void
fill_header(header *head, const char *key, const void *data, size_t size)
{
    yki_hash hash;
    char hex[33];

    memset(head, 0, sizeof *head);
    memcpy(head->magic, MAGIC, sizeof head->magic);
    head->format = FORMAT;
    head->header_size = sizeof *head;
    snprintf(head->version, sizeof head->version, "%s", PACKAGE_VERSION);
    memcpy(head->key, key, sizeof head->key);
    yki_hash_start(&hash);
    yki_hash_add(&hash, data, size);
    yki_hash_hex(&hash, hex);
    memcpy(head->payload, hex, sizeof head->payload);
    head->size = size;
}

/* Returns why an open entry cannot be used; or NULL, with the size of its payload. */
static const char *
examine(int fd, size_t *size)
{
    struct stat about;

    if (fstat(fd, &about))
        return strerror(errno);
    if (!S_ISREG(about.st_mode))
        return "not a plain file";
    if (about.st_uid != geteuid())
        return "belongs to another user";
    if (about.st_mode & 022)
        return "others can write to it";
    if (about.st_size <= (off_t)sizeof(header))
        return "truncated";
    if ((uint64_t)about.st_size > YKI_CACHE_LIMIT)
        return "too large";
    *size = (size_t)about.st_size - sizeof(header);
    /* Done seldom, so that not every read costs a write. A failure does no harm. */
    if (time(NULL) - about.st_mtime > STAMP_SECONDS)
        futimens(fd, NULL);
    return NULL;
}

/* Reads the `size` payload bytes of an open entry into `data`. Returns NULL, or why it cannot. */
static const char *
read_entry(int fd, const char *key, void *data, size_t size)
{
    header head, wanted;

    if (!read_all(fd, &head, sizeof head) || !read_all(fd, data, size))
        return "cannot be read";
    fill_header(&wanted, key, data, size);
    return memcmp(&head, &wanted, sizeof head) ? "damaged, or another program's" : NULL;
}

static void
entry_name(char name[NAME_SIZE], const char *key)
{
    snprintf(name, NAME_SIZE, "%.32s%s", key, SUFFIX);
}

yoke_status
yki_cache_load(yoke_context *context, const char *key, yoke_log_level level, void **data,
               size_t *size)
{
    int dir = open_directory(context, false), fd = -1;
    yoke_status status = YOKE_OK;
    const char *reason = NULL;
    char name[NAME_SIZE];
    void *payload = NULL;
    size_t length = 0;

    entry_name(name, key);
    if (dir >= 0) {
        fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT)
            reason = errno == ELOOP ? "a symbolic link" : strerror(errno);
        close(dir);
    }
    if (fd >= 0) {
        reason = examine(fd, &length);
        if (!reason) {
            payload = yki_alloc(1, length, "a compiled kernel");
            if (payload)
                reason = read_entry(fd, key, payload, length);
            else
                status = YOKE_ERROR_OUT_OF_MEMORY;
        }
        close(fd);
    }
    if (reason) {
        yki_log(level, "compiled kernel %s/%s ignored: %s", context->cache_dir, name, reason);
        yki_free(payload);
        payload = NULL;
    }
    if (status == YOKE_OK) {
        *data = payload;
        *size = payload ? length : 0;
    }
    return status;
}

/* ---- writing ---- */

static bool
write_all(int fd, const void *data, size_t size)
{
    const char *from = data;

    while (size > 0) {
        ssize_t put = write(fd, from, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            if (!put)
                errno = ENOSPC;
            return false;
        }
        from += put;
        size -= (size_t)put;
    }
    return true;
}

/* Makes a new file. Its name is unlike that of any other thread, process or host. */
static int
open_temporary(int dir, char name[NAME_SIZE])
{
    static atomic_uint counter;

    for (int attempt = 0; attempt < 100; attempt++) {
        struct timespec now;
        int fd;

        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(name, NAME_SIZE, "%s%ld-%u-%lx%lx", TEMPORARY, (long)getpid(),
                 atomic_fetch_add(&counter, 1), (unsigned long)now.tv_sec,
                 (unsigned long)now.tv_nsec);
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* On failure it returns false and sets errno. On NFS, fsync and close report a full disk that write
 * did not. */
static bool
write_entry(int fd, const char *key, const void *data, size_t size)
{
    bool good;
    header head;
    int error;

    fill_header(&head, key, data, size);
    good = !fchmod(fd, 0600) /* whatever the umask is */
           && write_all(fd, &head, sizeof head) && write_all(fd, data, size) && !fsync(fd);
    error = errno;
    if (close(fd) && good) {
        good = false;
        error = errno;
    }
    errno = error;
    return good;
}

static bool
ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);

    return length >= tail && !strcmp(name + length - tail, suffix);
}

/* Returns the bytes of all entries together, and removes orphans. `oldest` receives the entry
 * unused for longest other than `keep`, which may be NULL; "" if there is none. */
static uint64_t
survey(DIR *stream, const char *keep, char oldest[NAME_SIZE])
{
    struct timespec when = {0, 0};
    time_t now = time(NULL);
    struct dirent *entry;
    uint64_t total = 0;

    oldest[0] = '\0';
    rewinddir(stream);
    while ((entry = readdir(stream))) {
        const char *name = entry->d_name;
        bool temporary = !strncmp(name, TEMPORARY, sizeof TEMPORARY - 1);
        struct stat about;

        if (strlen(name) >= NAME_SIZE || (!temporary && !ends_with(name, SUFFIX)) ||
            fstatat(dirfd(stream), name, &about, AT_SYMLINK_NOFOLLOW) || S_ISDIR(about.st_mode))
            continue;
        if (temporary) {
            if (now - about.st_mtime > ORPHAN_SECONDS)
                unlinkat(dirfd(stream), name, 0);
            continue;
        }
        total += (uint64_t)about.st_size;
        if (keep && !strcmp(name, keep))
            continue;
        if (!oldest[0] || about.st_mtim.tv_sec < when.tv_sec ||
            (about.st_mtim.tv_sec == when.tv_sec && about.st_mtim.tv_nsec < when.tv_nsec)) {
            when = about.st_mtim;
            strcpy(oldest, name);
        }
    }
    return total;
}

/* Each removal takes a survey of its own. That is quadratic, but needs no memory, and removals are
 * few. */
static uint64_t
trim(int dir, const char *keep, uint64_t limit)
{
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* closedir closes it */
    DIR *stream = again < 0 ? NULL : fdopendir(again);
    char oldest[NAME_SIZE];
    uint64_t total;

    if (!stream) {
        if (again >= 0)
            close(again);
        return 0;
    }
    while ((total = survey(stream, keep, oldest)) > limit && oldest[0])
        if (unlinkat(dirfd(stream), oldest, 0) && errno != ENOENT)
            break;
    closedir(stream);
    return total;
}

uint64_t
yki_cache_trim(const char *path, uint64_t limit)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t total = 0;

    if (dir >= 0) {
        total = trim(dir, NULL, limit);
        close(dir);
    }
    return total;
}

void
yki_cache_store(yoke_context *context, const char *key, const void *data, size_t size)
{
    char name[NAME_SIZE], temporary[NAME_SIZE];
    int dir, fd;

    if (size > YKI_CACHE_LIMIT - sizeof(header))
        return;
    dir = open_directory(context, true);
    if (dir < 0)
        return;
    entry_name(name, key);
    fd = open_temporary(dir, temporary);
    if (fd < 0) {
        report(context, "nothing can be kept there", strerror(errno));
    } else if (!write_entry(fd, key, data, size) || renameat(dir, temporary, dir, name)) {
        report(context, "an entry cannot be written", strerror(errno));
        unlinkat(dir, temporary, 0);
    } else {
        trim(dir, name, YKI_CACHE_LIMIT);
    }
    close(dir);
}

/* ---- building ---- */

void
yki_cache_lock(yoke_context *context, const char *key, yki_lock *lock)
{
    /* A context that gave up once only tries from then on; else each kernel would wait so long. */
    double patience = atomic_load(&context->lock_given_up) ? 0 : LOCK_PATIENCE;
    int dir = open_directory(context, true);

    lock->fd = -1;
    if (dir < 0)
        return;
    switch (yki_lock_take(dir, key, patience, lock)) {
    case YKI_LOCK_TAKEN:
        break;
    case YKI_LOCK_STUCK:
        if (!atomic_exchange(&context->lock_given_up, true))
            yki_log(YOKE_LOG_WARNING,
                    "cache of compiled kernels %s: another process has held the build lock for %d "
                    "seconds, going on without it",
                    context->cache_dir, LOCK_PATIENCE);
        break;
    case YKI_LOCK_BROKEN:
        report(context, "no lock, so kernels may be built more than once", strerror(errno));
        break;
    }
    close(dir);
}

int
yki_context_take_lock(yoke_context *context)
{
    int dir = open_directory(context, true);
    yki_lock lock = {.fd = -1};

    if (dir < 0)
        return -1;
    (void)yki_lock_take(dir, "compile", 0, &lock);
    close(dir);
    return lock.fd;
}

void
yki_context_drop_lock(int fd)
{
    yki_lock_release(&(yki_lock){.fd = fd});
}
