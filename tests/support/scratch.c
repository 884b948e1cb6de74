/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch.c - a private folder for a test's files, and an ear for the log.
 */
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"
#include "support.h"

enum { LOG_SIZE = 1 << 18, PATH_SIZE = 1024, PATHS = 8 };

static char dir[PATH_SIZE - 256];
static char lines[LOG_SIZE]; /* a digit for the level, the line, a newline */
static size_t lines_length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void
hear(void *user, yoke_log_level level, const char *line)
{
    (void)user;
    pthread_mutex_lock(&lock);
    if (lines_length + strlen(line) + 3 < sizeof lines)
        lines_length += (size_t)sprintf(lines + lines_length, "%d%s\n", (int)level, line);
    pthread_mutex_unlock(&lock);
}

void
scratch_set_up(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(dir, sizeof dir, "%s/yoke-test-XXXXXX", base && *base == '/' ? base : "/tmp");
    ck_assert_msg(mkdtemp(dir) != NULL, "mkdtemp %s", dir);
    scratch_log_clear();
    yoke_log_set(hear, NULL, YOKE_LOG_DEBUG);
}

void
scratch_set_up_cold(void)
{
    scratch_set_up();
    setenv("POCL_CACHE_DIR", scratch_path("pocl"), 1);
}

static int
remove_one(const char *path, const struct stat *about, int type, struct FTW *place)
{
    (void)about;
    (void)type;
    (void)place;
    return remove(path);
}

void
scratch_tear_down(void)
{
    yoke_log_set(NULL, NULL, YOKE_LOG_ERROR);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *
scratch_dir(void)
{
    return dir;
}

const char *
scratch_path(const char *name)
{
    static char paths[PATHS][PATH_SIZE];
    static unsigned next;
    char *path = paths[next++ % PATHS];

    snprintf(path, PATH_SIZE, "%s/%s", dir, name);
    return path;
}

void
scratch_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    ck_assert_msg(file != NULL, "%s cannot be written", path);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

void
scratch_write_npy(const char *path, const char *type, size_t count, const void *data, size_t size)
{
    enum { HEAD = 128 };
    char *file = malloc(HEAD + size);

    memset(file, ' ', HEAD);
    memcpy(file, "\x93NUMPY\1\0v\0", 10); /* behind these, 118 bytes */
    file[10 + sprintf(file + 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%zu,), }", type,
                      count)] = ' ';
    file[HEAD - 1] = '\n';
    memcpy(file + HEAD, data, size);
    scratch_write(path, file, HEAD + size);
    free(file);
}

char *
scratch_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    size_t length = 0, room = 1 << 16;
    char *data = malloc(room + 1);

    ck_assert_msg(file != NULL, "%s cannot be read", path);
    while (data && !feof(file) && !ferror(file)) {
        if (length == room)
            data = realloc(data, (room *= 2) + 1);
        if (data)
            length += fread(data + length, 1, room - length, file);
    }
    ck_assert_ptr_nonnull(data);
    ck_assert(!ferror(file));
    fclose(file);
    data[length] = '\0';
    if (size)
        *size = length;
    return data;
}

unsigned
scratch_log_count(int level, const char *part)
{
    unsigned count = 0;

    pthread_mutex_lock(&lock);
    for (char *line = lines; *line;) {
        char *end = strchr(line, '\n');

        *end = '\0';
        count += line[0] - '0' <= level && strstr(line + 1, part);
        *end = '\n';
        line = end + 1;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

void
scratch_log_clear(void)
{
    pthread_mutex_lock(&lock);
    lines_length = 0;
    lines[0] = '\0';
    pthread_mutex_unlock(&lock);
}

const char *
scratch_log(void)
{
    return lines;
}
