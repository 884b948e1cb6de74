/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - removes the lines of a log about steps that will be trained again.
 *
 * Lines are in the order of steps, so the file is only made shorter.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

/* Whether a line stays: it is complete, and not about a step or epoch that is trained again. */
static bool
stays(const char *line, int64_t steps, int64_t epochs)
{
    static const char name[] = "\"step\": ";
    const char *found = strstr(line, name);
    bool epoch = strstr(line, "\"kind\": \"epoch\"") != NULL;

    if (!strchr(line, '\n'))
        return false;
    return !found || strtoll(found + sizeof name - 1, NULL, 10) <= (epoch ? epochs : steps);
}

/* The number of bytes that stay. */
static off_t
measure(FILE *in, int64_t steps, int64_t epochs)
{
    size_t capacity = 0;
    char *line = NULL;
    ssize_t length;
    off_t end = 0;

    while ((length = getline(&line, &capacity, in)) > 0 && stays(line, steps, epochs))
        end += length;
    free(line);
    return end;
}

int
yki_tool_log_cut(FILE *log, const char *path, int64_t steps, int64_t epochs)
{
    struct stat about;
    off_t end;
    FILE *in;
    int error;

    if (fstat(fileno(log), &about) != 0)
        return errno;
    if (!S_ISREG(about.st_mode))
        return 0;
    in = fopen(path, "r");
    if (!in)
        return errno;
    end = measure(in, steps, epochs);
    error = ferror(in) ? EIO : 0;
    fclose(in);
    if (!error && end < about.st_size && ftruncate(fileno(log), end) != 0)
        error = errno;
    return error;
}
