/* SPDX-License-Identifier: Apache-2.0
 *
 * wisdom.c - measured times, kept as text that a person can read and merge:
 *
 *     yoke wisdom 1
 *     device pthread-AMD EPYC; 3.1; Portable Computing Language; 2 units x 16
 *     0.000123000 gemm-tile 0 matmul ta | f32 N 784 | f32 784,128 -> f32 N 128 @256
 *     ...
 *
 * A line holds the seconds of a solver and tuning for a problem, on the device named above it.
 * Saving merges with what others wrote meanwhile, under a lock on a file beside it. It replaces
 * the file by rename, so readers see the old file or the new one.
 *
 * What cannot be read is reported and ignored. After a damaged line all is ignored up to the
 * next device's line, because the damaged line may have named a device. A file that does not
 * begin like wisdom is never replaced: it may belong to somebody else. Numbers are read and
 * written without the C library, whose decimal point depends on the locale.
 *
 * Processes that train together follow the first one: its text is kept in memory and looked up
 * first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/plan.h"

static const char HEADER[] = "yoke wisdom 1";

enum {
    LINE = 2048,
    MAX_ENTRIES = 100000, /* enough for very many models; what is beyond is measured again */
    MAX_DEVICES = 1000,
    MAX_BYTES = 64 << 20, /* bytes of a file */
    FIRST_SLOTS = 1024    /* of the index, a power of two */
};
#define MAX_SECONDS 1e6

typedef struct entry {
    uint32_t device; /* index of a device */
    char *key;       /* "solver tuning problem" */
    double seconds;
} entry;

struct yki_wisdom {
    pthread_mutex_t lock;
    char *path;
    entry *entries;
    size_t count, capacity;
    uint32_t *slots; /* open addressing by device and key: index of an entry + 1; 0: free */
    size_t slot_count;
    char **devices;
    size_t device_count, device_capacity;
    struct yki_wisdom *told; /* the text of another process that this one follows; or NULL */
    bool changed;
    bool foreign; /* the file is not wisdom */
    bool full;    /* it was reported that no more fits */
};

static const char *
name_of(const yki_wisdom *w)
{
    return w->path ? w->path : "in memory";
}

/* ---- entries ---- */

static bool
find_device(const yki_wisdom *w, const char *device, uint32_t *index)
{
    for (size_t i = 0; i < w->device_count; i++)
        if (strcmp(w->devices[i], device) == 0) {
            *index = (uint32_t)i;
            return true;
        }
    return false;
}

static yoke_status
intern_device(yki_wisdom *w, const char *device, uint32_t *index)
{
    char *copy;

    if (find_device(w, device, index))
        return YOKE_OK;
    YKI_TRY(yki_grow((void **)&w->devices, &w->device_capacity, w->device_count + 1,
                     sizeof *w->devices, "wisdom"));
    copy = yki_strdup(device, "wisdom");
    if (!copy)
        return YOKE_ERROR_OUT_OF_MEMORY;
    *index = (uint32_t)w->device_count;
    w->devices[w->device_count++] = copy;
    return YOKE_OK;
}

/* FNV-1a. */
static size_t
hash_of(uint32_t device, const char *key)
{
    uint64_t h = 14695981039346656037u ^ device;

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

/* Returns the slot of an entry, or the free slot where it belongs. There is always a free one. */
static size_t
slot_of(const yki_wisdom *w, uint32_t device, const char *key)
{
    size_t slot = hash_of(device, key) & (w->slot_count - 1);

    while (w->slots[slot]) {
        const entry *e = &w->entries[w->slots[slot] - 1];

        if (e->device == device && strcmp(e->key, key) == 0)
            break;
        slot = (slot + 1) & (w->slot_count - 1);
    }
    return slot;
}

static entry *
find(const yki_wisdom *w, uint32_t device, const char *key)
{
    size_t slot = w->slot_count ? slot_of(w, device, key) : 0;

    return w->slot_count && w->slots[slot] ? &w->entries[w->slots[slot] - 1] : NULL;
}

/* Keeps at least half of the slots free. */
static yoke_status
grow_index(yki_wisdom *w)
{
    size_t count = w->slot_count ? 2 * w->slot_count : FIRST_SLOTS;
    uint32_t *slots;

    if (2 * (w->count + 1) <= w->slot_count)
        return YOKE_OK;
    slots = yki_alloc(count, sizeof *slots, "wisdom");
    if (!slots)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_free(w->slots);
    w->slots = slots;
    w->slot_count = count;
    for (size_t i = 0; i < w->count; i++)
        w->slots[slot_of(w, w->entries[i].device, w->entries[i].key)] = (uint32_t)i + 1;
    return YOKE_OK;
}

/* `replace`: the new time replaces a known one. */
static yoke_status
put(yki_wisdom *w, const char *device, const char *key, double seconds, bool replace)
{
    entry made = {.seconds = seconds};
    uint32_t ignored;
    entry *known;

    if (!find_device(w, device, &ignored) && w->device_count >= MAX_DEVICES)
        goto full;
    YKI_TRY(intern_device(w, device, &made.device));
    known = find(w, made.device, key);
    if (known) {
        if (replace)
            known->seconds = seconds;
        return YOKE_OK;
    }
    if (w->count >= MAX_ENTRIES)
        goto full;
    YKI_TRY(grow_index(w));
    YKI_TRY(
        yki_grow((void **)&w->entries, &w->capacity, w->count + 1, sizeof *w->entries, "wisdom"));
    made.key = yki_strdup(key, "wisdom");
    if (!made.key)
        return YOKE_ERROR_OUT_OF_MEMORY;
    w->slots[slot_of(w, made.device, key)] = (uint32_t)w->count + 1;
    w->entries[w->count++] = made;
    return YOKE_OK;
full:
    if (!w->full)
        yki_log(YOKE_LOG_WARNING, "wisdom %s: only %d measurements on %d devices are kept",
                name_of(w), MAX_ENTRIES, MAX_DEVICES);
    w->full = true;
    return YOKE_OK;
}

/* ---- reading ---- */

/* Reads digits, a point, digits, in no locale and without an exponent. Returns the end of the
 * number, or NULL where there is no such number. */
static const char *
read_seconds(const char *text, double *seconds)
{
    double value = 0, unit = 1;
    const char *start = text;

    for (; *text >= '0' && *text <= '9'; text++)
        value = 10 * value + (*text - '0');
    if (text == start)
        return NULL;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++) {
            unit /= 10;
            value += unit * (*text - '0');
        }
    *seconds = value;
    return value > 0 && value <= MAX_SECONDS ? text : NULL;
}

/* Returns whether all of "solver tuning problem" is there. */
static bool
is_key(const char *key)
{
    const char *tuning = strchr(key, ' '), *problem = tuning ? strchr(tuning + 1, ' ') : NULL;

    if (!problem || tuning == key || problem == tuning + 1)
        return false;
    for (const char *c = tuning + 1; c < problem; c++)
        if (*c < '0' || *c > '9')
            return false;
    return strstr(problem, " -> ") != NULL;
}

/* Reads a line without its end. Returns false if it is too long, has control characters, or has no
 * end of line. *more: there was something to read. */
static bool
read_text(FILE *file, char line[LINE], bool *more)
{
    bool good = true;
    size_t length = 0;
    int c;

    while ((c = getc_unlocked(file)) != EOF && c != '\n') {
        good = good && c >= ' ' && length + 1 < LINE;
        if (good)
            line[length] = (char)c;
        length++;
    }
    line[YKI_MIN(length, (size_t)LINE - 1)] = '\0';
    *more = c == '\n' || length > 0;
    return good && c == '\n';
}

/* Returns false if the line makes no sense. */
static bool
read_line(yki_wisdom *w, const char *line, char device[LINE], yoke_status *status)
{
    const char *end;
    double seconds;

    if (strncmp(line, "device ", 7) == 0) {
        snprintf(device, LINE, "%s", line + 7);
        return true;
    }
    end = read_seconds(line, &seconds);
    if (!end || *end != ' ' || !is_key(end + 1))
        return false;
    if (*device)
        *status = put(w, device, end + 1, seconds, false);
    return true;
}

static yoke_status
read_lines(yki_wisdom *w, FILE *file)
{
    char line[LINE], device[LINE] = "";
    unsigned damaged = 0, first = 0;
    yoke_status status = YOKE_OK;
    bool more;

    if (!read_text(file, line, &more) || strcmp(line, HEADER) != 0) {
        /* A file cut off within the header, or an empty one, is still wisdom. */
        w->foreign = strncmp(line, HEADER, strlen(line)) != 0;
        if (more)
            yki_log(YOKE_LOG_WARNING, "wisdom %s does not begin with \"%s\"; ignored", name_of(w),
                    HEADER);
        return YOKE_OK;
    }
    for (unsigned number = 2; status == YOKE_OK; number++) {
        bool good = read_text(file, line, &more);

        if (!more)
            break;
        if (good && read_line(w, line, device, &status))
            continue;
        device[0] = '\0';
        first = first ? first : number;
        damaged++;
    }
    if (damaged)
        yki_log(
            YOKE_LOG_WARNING,
            "wisdom %s: line %u makes no sense (%u such lines); ignored up to the next device's",
            name_of(w), first, damaged);
    return status;
}

/* Logs what cannot be used; only a lack of memory is a failure. */
static yoke_status
read_file(yki_wisdom *w)
{
    /* Non-blocking, because it may be a pipe without a writer. */
    int fd = open(w->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const char *reason = NULL;
    struct stat about;
    FILE *file;
    yoke_status status = YOKE_OK;

    w->foreign = false;
    if (fd < 0) {
        if (errno != ENOENT) {
            yki_log(YOKE_LOG_WARNING, "wisdom %s cannot be read: %s", w->path, strerror(errno));
            w->foreign = true;
        }
        return YOKE_OK;
    }
    if (fstat(fd, &about) != 0)
        reason = strerror(errno);
    else if (!S_ISREG(about.st_mode))
        reason = "it is no file";
    else if (about.st_size > MAX_BYTES)
        reason = "it is too large";
    if (reason) {
        yki_log(YOKE_LOG_WARNING, "wisdom %s cannot be read: %s", w->path, reason);
        w->foreign = true;
        close(fd);
        return YOKE_OK;
    }
    file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory to read wisdom %s", w->path);
    }
    status = read_lines(w, file);
    if (ferror(file))
        yki_log(YOKE_LOG_WARNING, "wisdom %s cannot be read to its end", w->path);
    fclose(file);
    return status;
}

yoke_status
yki_wisdom_open(const char *path, yki_wisdom **out)
{
    yki_wisdom *w = yki_alloc(1, sizeof *w, "wisdom");
    yoke_status status = YOKE_OK;

    if (!w)
        return YOKE_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&w->lock, NULL);
    if (path) {
        w->path = yki_strdup(path, "wisdom");
        status = w->path ? read_file(w) : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (status != YOKE_OK) {
        yki_wisdom_close(w);
        return status;
    }
    *out = w;
    return YOKE_OK;
}

void
yki_wisdom_close(yki_wisdom *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        yki_free(w->entries[i].key);
    for (size_t i = 0; i < w->device_count; i++)
        yki_free(w->devices[i]);
    yki_free(w->entries);
    yki_free(w->slots);
    yki_free(w->devices);
    yki_free(w->path);
    yki_wisdom_close(w->told);
    pthread_mutex_destroy(&w->lock);
    yki_free(w);
}

/* ---- looking up ---- */

/* An entry of this solver, which does not exist, says that the problem is known. Such entries are
 * only in `told`. */
static const char KNOWN[] = "known";

static void
make_key(char key[LINE], const char *problem, const char *solver, unsigned tuning)
{
    snprintf(key, LINE, "%s %u %s", solver, tuning, problem);
}

/* Returns the wisdom that decides about a problem on a device of this kind. `problem` NULL: about
 * any problem. */
static const yki_wisdom *
authority(const yki_wisdom *w, const char *device, const char *problem)
{
    char key[LINE];
    uint32_t index;

    if (!w->told || !find_device(w->told, device, &index))
        return w;
    if (!problem)
        return w->told;
    make_key(key, problem, KNOWN, 0);
    return find(w->told, index, key) ? w->told : w;
}

bool
yki_wisdom_get(yki_wisdom *w, yoke_device *device, const char *problem, const char *solver,
               unsigned tuning, double *seconds)
{
    char key[LINE], name[LINE / 2];
    const yki_wisdom *from;
    const entry *known = NULL;
    uint32_t index;

    yki_device_describe(device, name, sizeof name);
    make_key(key, problem, solver, tuning);
    pthread_mutex_lock(&w->lock);
    from = authority(w, name, problem);
    if (find_device(from, name, &index))
        known = find(from, index, key);
    if (known)
        *seconds = known->seconds;
    pthread_mutex_unlock(&w->lock);
    return known != NULL;
}

void
yki_wisdom_each(yki_wisdom *w, yoke_device *device, const char *solver,
                void (*each)(void *user, unsigned tuning, const char *problem, double seconds),
                void *user)
{
    size_t length = strlen(solver);
    const yki_wisdom *from;
    char name[LINE / 2];
    uint32_t index;

    yki_device_describe(device, name, sizeof name);
    pthread_mutex_lock(&w->lock);
    from = authority(w, name, NULL);
    if (find_device(from, name, &index))
        for (size_t i = 0; i < from->count; i++) {
            const entry *e = &from->entries[i];
            unsigned long tuning;
            char *end;

            if (e->device != index || strncmp(e->key, solver, length) != 0 || e->key[length] != ' ')
                continue;
            tuning = strtoul(e->key + length + 1, &end, 10);
            if (*end == ' ' && tuning <= UINT32_MAX)
                each(user, (unsigned)tuning, end + 1, e->seconds);
        }
    pthread_mutex_unlock(&w->lock);
}

yoke_status
yki_wisdom_put(yki_wisdom *w, yoke_device *device, const char *problem, const char *solver,
               unsigned tuning, double seconds)
{
    char key[LINE], name[LINE / 2];
    yoke_status status;

    if (!(seconds > 0 && seconds <= MAX_SECONDS))
        return yki_fail(YOKE_ERROR_VALUE,
                        "wisdom: the seconds of %s are %g; must be above 0 and at most %g", solver,
                        seconds, (double)MAX_SECONDS);
    yki_device_describe(device, name, sizeof name);
    make_key(key, problem, solver, tuning);
    pthread_mutex_lock(&w->lock);
    status = put(w, name, key, seconds, true);
    if (status == YOKE_OK && authority(w, name, NULL) == w->told)
        status = put(w->told, name, key, seconds, true);
    w->changed = true;
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* ---- writing ---- */

static void
write_entries(const yki_wisdom *w, FILE *file)
{
    fprintf(file, "%s\n", HEADER);
    for (size_t d = 0; d < w->device_count; d++) {
        fprintf(file, "device %s\n", w->devices[d]);
        for (size_t i = 0; i < w->count; i++) {
            uint64_t ns = (uint64_t)(w->entries[i].seconds * 1e9 + 0.5);

            ns = YKI_MAX(ns, 1u);
            if (w->entries[i].device == d)
                fprintf(file, "%llu.%09llu %s\n", (unsigned long long)(ns / 1000000000u),
                        (unsigned long long)(ns % 1000000000u), w->entries[i].key);
        }
    }
}

/* Reads the file again, writes all entries to a new file, and renames that. The caller holds the
 * lock of the file. */
static yoke_status
replace_file(yki_wisdom *w)
{
    static atomic_uint number;
    char *aside;
    yoke_status status = read_file(w); /* known times win: they are newer */
    FILE *file;

    if (status != YOKE_OK)
        return status;
    if (w->foreign)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "wisdom %s is not written, because another kind of file is there; name "
                        "another file, or move that one",
                        w->path);
    aside = yki_format("%s.%ld.%u", w->path, (long)getpid(), atomic_fetch_add(&number, 1));
    if (!aside)
        return YOKE_ERROR_OUT_OF_MEMORY;
    file = fopen(aside, "we");
    if (!file) {
        status = yki_fail(YOKE_ERROR_IO, "wisdom %s cannot be written: %s", aside, strerror(errno));
    } else {
        bool written;

        write_entries(w, file);
        written = fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;
        written = fclose(file) == 0 && written;
        if (!written || rename(aside, w->path) != 0) {
            status = yki_fail(YOKE_ERROR_IO, "wisdom %s cannot be written: %s", w->path,
                              strerror(errno));
            unlink(aside);
        }
    }
    yki_free(aside);
    return status;
}

yoke_status
yki_wisdom_save(yki_wisdom *w)
{
    char *lock_path;
    yoke_status status;
    int lock;

    if (!w->path || !w->changed)
        return YOKE_OK;
    if (!w->path[0]) /* its lock would be a file ".lock" in the current folder */
        return yki_fail(YOKE_ERROR_IO,
                        "wisdom cannot be written: its path is empty; must be that of a file");
    lock_path = yki_format("%s.lock", w->path);
    if (!lock_path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    /* Without locks the last writer wins, which costs only time. */
    while (lock >= 0 && flock(lock, LOCK_EX) != 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&w->lock);
    status = replace_file(w);
    w->changed = status != YOKE_OK;
    pthread_mutex_unlock(&w->lock);
    if (lock >= 0)
        close(lock);
    yki_free(lock_path);
    return status;
}

yoke_status
yki_wisdom_refresh(yki_wisdom *w)
{
    yoke_status status = YOKE_OK;

    pthread_mutex_lock(&w->lock);
    if (w->path)
        status = read_file(w);
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* ---- between processes ---- */

static yoke_status
add(yki_wisdom *to, yki_wisdom *from)
{
    const size_t length = strlen(YKI_WISDOM_OWN);
    yoke_status status = YOKE_OK;

    pthread_mutex_lock(&from->lock);
    for (size_t i = 0; i < from->count && status == YOKE_OK; i++) {
        const entry *e = &from->entries[i];

        if (strncmp(e->key, YKI_WISDOM_OWN, length) != 0 || e->key[length] != ' ')
            status = put(to, from->devices[e->device], e->key, e->seconds, false);
    }
    pthread_mutex_unlock(&from->lock);
    return status;
}

yoke_status
yki_wisdom_tell(yki_wisdom *const *parts, size_t count, char **text)
{
    yki_wisdom *all;
    size_t size;
    FILE *file;
    bool written;
    yoke_status status = yki_wisdom_open(NULL, &all);

    YKI_TRY(status);
    for (size_t i = 0; i < count && status == YOKE_OK; i++)
        status = add(all, parts[i]);
    file = status == YOKE_OK ? open_memstream(text, &size) : NULL;
    if (file) {
        write_entries(all, file);
        written = !ferror(file);
        if (fclose(file) != 0 || !written) {
            free(*text);
            file = NULL;
        }
    }
    yki_wisdom_close(all);
    if (status == YOKE_OK && !file)
        status = yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory to tell others what was measured");
    return status;
}

/* Notes which problems the entries are about. */
static yoke_status
note_problems(yki_wisdom *told)
{
    size_t count = told->count;
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        const char *problem = strchr(strchr(told->entries[i].key, ' ') + 1, ' ') + 1;
        char key[LINE];

        make_key(key, problem, KNOWN, 0);
        status = put(told, told->devices[told->entries[i].device], key, 1, false);
    }
    return status;
}

yoke_status
yki_wisdom_follow(yki_wisdom *w, const char *text)
{
    FILE *file = fmemopen((char *)text, strlen(text), "r");
    yki_wisdom *told = NULL;
    yoke_status status = file ? yki_wisdom_open(NULL, &told)
                              : yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory to read wisdom");

    if (status == YOKE_OK)
        status = read_lines(told, file);
    if (status == YOKE_OK)
        status = note_problems(told);
    if (file)
        fclose(file);
    if (status != YOKE_OK) {
        yki_wisdom_close(told);
        return status;
    }
    pthread_mutex_lock(&w->lock);
    yki_wisdom_close(w->told);
    w->told = told;
    pthread_mutex_unlock(&w->lock);
    return YOKE_OK;
}
