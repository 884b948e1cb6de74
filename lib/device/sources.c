/* SPDX-License-Identifier: Apache-2.0
 *
 * sources.c - the whole text of a program: common.cl, then a kernel file, in which a
 * line #include "other.cl" stands for the text of another kernel file. Before all of it may
 * stand builtins.cl.
 *
 * Idea: what kernels share as text is put in here and not by the compiler, which would
 * need a folder to look in. So a program needs no file on the user's disk, its text is
 * all that its cache's key needs, and no driver has to know of files. #line keeps the
 * compiler's messages right.
 *
 * Not here: an #include in the source of a user's operator, or in an included file. It
 * reads no source from the user's disk but that in $YOKE_CL_DIR, which is for those who
 * work on the kernels.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/cache.h"
#include "device/internal.h"
#include "device/sources.h"

/* Bytes; a larger kernel file in $YOKE_CL_DIR is a mistake. */
enum { MAX_OVERRIDE = 16 << 20 };

static const char COMMON[] = "common.cl", BUILTINS[] = "builtins.cl", INCLUDE[] = "#include \"";

static const yki_kernel_source *
find_source(const char *file)
{
    for (size_t i = 0; i < yki_kernel_source_count; i++)
        if (!strcmp(yki_kernel_sources[i].file, file))
            return &yki_kernel_sources[i];
    return NULL;
}

/* Texts are long, and printf would read each of them twice, character by character. */
static char *
joined(const char *const *parts, size_t count)
{
    size_t length = 0;
    char *text, *to;

    for (size_t i = 0; i < count; i++)
        length += strlen(parts[i]);
    text = to = yki_alloc(1, length + 1, "a kernel's source");
    if (!text)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(parts[i]);

        memcpy(to, parts[i], size);
        to += size;
    }
    return text;
}

/* Returns `text` behind a #line that makes the compiler call it `name`. */
static char *
named_text(const char *name, const char *text)
{
    char *whole = joined((const char *const[]){"#line 1 \"", name, "\"\n", text}, 4);

    /* The name may come from a user: replace the characters that would end the directive. */
    for (char *c = whole ? whole + strlen("#line 1 \"") : NULL; c && *name; c++, name++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '_';
    return whole;
}

static yoke_status
io_failure(const char *path, const char *reason)
{
    return yki_fail(YOKE_ERROR_IO, "kernel source %s (YOKE_CL_DIR): %s", path, reason);
}

/* Reads the whole of an open file as text. */
static yoke_status
read_open_file(int fd, const char *path, char **text)
{
    struct stat about;
    size_t size, have = 0;
    char *data;

    if (fstat(fd, &about))
        return io_failure(path, strerror(errno));
    if (!S_ISREG(about.st_mode) || about.st_size > MAX_OVERRIDE)
        return io_failure(path, "not a plain file of at most 16 MiB");
    size = (size_t)about.st_size;
    data = yki_alloc(1, size + 1, "a kernel's source");
    if (!data)
        return YOKE_ERROR_OUT_OF_MEMORY;
    while (have < size) {
        ssize_t got = read(fd, data + have, size - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            yoke_status status = io_failure(path, strerror(errno));

            yki_free(data);
            return status;
        }
        if (!got)
            break; /* the file has become shorter; the text still ends with a 0 */
        have += (size_t)got;
    }
    *text = data;
    return YOKE_OK;
}

/* Reads the file of that name in $YOKE_CL_DIR, which replaces the embedded one; *text stays NULL
 * if there is none. `file` is the name of an embedded file, so the path stays in that folder. */
static yoke_status
override_text(const char *file, char **text)
{
    const char *dir = yki_secure_env("YOKE_CL_DIR");
    yoke_status status;
    char *path, *data = NULL;
    int fd;

    if (!dir)
        return YOKE_OK;
    if (dir[0] != '/') {
        yki_log(YOKE_LOG_WARNING, "YOKE_CL_DIR=%s ignored: not an absolute path", dir);
        return YOKE_OK;
    }
    path = yki_format("%s/%s", dir, file);
    if (!path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        status = errno == ENOENT ? YOKE_OK : io_failure(path, strerror(errno));
    } else {
        status = read_open_file(fd, path, &data);
        close(fd);
    }
    if (data) {
        yki_log(YOKE_LOG_INFO, "kernel source %s taken from %s (YOKE_CL_DIR)", file, path);
        *text = named_text(file, data);
        if (!*text)
            status = YOKE_ERROR_OUT_OF_MEMORY;
        yki_free(data);
    }
    yki_free(path);
    return status;
}

/* Gives the text of a file by itself. */
static yoke_status
file_text(const char *file, char **text)
{
    const yki_kernel_source *source = find_source(file);
    char *found = NULL;

    if (!source)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "no kernel file \"%s\" in this library", file);
    YKI_TRY(override_text(file, &found));
    if (!found)
        found = joined(source->lines, source->line_count);
    if (!found)
        return YOKE_ERROR_OUT_OF_MEMORY;
    *text = found;
    return YOKE_OK;
}

/* Replaces the line at `at` of *text, the `line`th of `file`, by the file that it includes. */
static yoke_status
include_at(const char *file, char **text, size_t at, int line, size_t *length)
{
    const char *name = *text + at + strlen(INCLUDE), *rest = strchr(name, '\n');
    size_t size = strcspn(name, "\"\n");
    char *included, *whole, *wanted = yki_format("%.*s", (int)size, name), number[32];
    yoke_status status;

    if (!wanted)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = file_text(wanted, &included);
    yki_free(wanted);
    YKI_TRY(status);
    *length = strlen(included);
    snprintf(number, sizeof number, "\n#line %d \"", line + 1);
    (*text)[at] = '\0';
    whole =
        joined((const char *const[]){*text, included, number, file, "\"", rest ? rest : "\n"}, 6);
    yki_free(included);
    if (!whole)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_free(*text);
    *text = whole;
    return YOKE_OK;
}

/* Replaces each line that begins with #include and a quote. What stands in an included file is not
 * looked at. */
static yoke_status
include_files(const char *file, char **text)
{
    size_t at = 0;

    /* The first line of a text is its #line. */
    for (int line = 0;; line++) {
        size_t length = 0;
        const char *end;

        if (!strncmp(*text + at, INCLUDE, strlen(INCLUDE)))
            YKI_TRY(include_at(file, text, at, line, &length));
        if (length)
            at = (size_t)(strchr(*text + at + length + 1, '\n') - *text) + 1;
        else if ((end = strchr(*text + at, '\n')))
            at = (size_t)(end - *text) + 1;
        else
            return YOKE_OK;
    }
}

/* Puts a file before `text`. The newline between them keeps a last line without an end from
 * swallowing the #line. */
static yoke_status
put_before(const char *file, const char *text, char **whole)
{
    char *before;

    YKI_TRY(file_text(file, &before));
    *whole = joined((const char *const[]){before, "\n", text}, 3);
    yki_free(before);
    return *whole ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

/* Puts common.cl before `text`, which is freed. */
static yoke_status
whole_text(char *text, char **whole)
{
    yoke_status status = put_before(COMMON, text, whole);

    yki_free(text);
    return status;
}

yoke_status
yki_source_of_file(const char *file, char **whole)
{
    yoke_status status;
    char *text;

    YKI_TRY(file_text(file, &text));
    status = include_files(file, &text);
    if (status != YOKE_OK) {
        yki_free(text);
        return status;
    }
    return whole_text(text, whole);
}

yoke_status
yki_source_behind_builtins(const char *text, char **whole)
{
    return put_before(BUILTINS, text, whole);
}

yoke_status
yki_source_of_text(const char *name, const char *text, char **whole)
{
    char *named = named_text(name, text);

    return named ? whole_text(named, whole) : YOKE_ERROR_OUT_OF_MEMORY;
}
