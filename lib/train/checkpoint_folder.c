/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_folder.c - the files of checkpoints, named by step:
 * checkpoint-000000000120.safetensors.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/checkpoint.h"

static int
newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* The step in a file's name; -1: the file is not a checkpoint. */
static int64_t
step_of(const char *name)
{
    static const char before[] = "checkpoint-", after[] = ".safetensors";
    const char *digits = name + sizeof before - 1;
    size_t length;

    if (strncmp(name, before, sizeof before - 1) != 0)
        return -1;
    length = strspn(digits, "0123456789");
    if (length < 1 || length > 18 || strcmp(digits + length, after) != 0)
        return -1;
    return strtoll(digits, NULL, 10);
}

yoke_status
yki_checkpoint_list(const char *dir, int64_t **out, size_t *out_count)
{
    DIR *folder = opendir(dir);
    int64_t *steps = NULL;
    size_t count = 0, capacity = 0;
    struct dirent *entry;
    yoke_status status = YOKE_OK;

    if (!folder && errno != ENOENT)
        return yki_fail(YOKE_ERROR_IO, "%s: cannot look into the folder: %s", dir, strerror(errno));
    while (folder && status == YOKE_OK && (entry = readdir(folder)) != NULL) {
        int64_t step = step_of(entry->d_name);

        if (step < 0)
            continue;
        status = yki_grow((void **)&steps, &capacity, count + 1, sizeof *steps, "checkpoints");
        if (status == YOKE_OK)
            steps[count++] = step;
    }
    if (folder)
        closedir(folder);
    if (status != YOKE_OK) {
        yki_free(steps);
        return status;
    }
    if (count)
        qsort(steps, count, sizeof *steps, newest_first);
    *out = steps;
    *out_count = count;
    return YOKE_OK;
}

char *
yki_checkpoint_path(const char *dir, int64_t step)
{
    return yki_format("%s/checkpoint-%012lld.safetensors", dir, (long long)step);
}

yoke_status
yki_checkpoint_make_folder(const char *dir)
{
    struct stat found;

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return yki_fail(YOKE_ERROR_IO, "%s: cannot make the folder: %s", dir, strerror(errno));
    if (stat(dir, &found) != 0 || !S_ISDIR(found.st_mode))
        return yki_fail(YOKE_ERROR_IO, "%s is no folder; must be one for checkpoints", dir);
    return YOKE_OK;
}

/* Removes temporary files of processes that were killed while they wrote. */
static void
remove_leftovers(const char *dir)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL) {
        long process;
        unsigned number;
        int end = 0;
        char *path;

        if (sscanf(entry->d_name, ".yoke-%ld-%u.tmp%n", &process, &number, &end) != 2 || end == 0 ||
            entry->d_name[end] || process <= 0 || kill((pid_t)process, 0) == 0 || errno != ESRCH)
            continue;
        path = yki_format("%s/%s", dir, entry->d_name);
        if (path)
            unlink(path);
        yki_free(path);
    }
    if (folder)
        closedir(folder);
}

static void
remove_step(const char *dir, int64_t step)
{
    char *path = yki_checkpoint_path(dir, step);

    if (path && unlink(path) != 0)
        yki_log(YOKE_LOG_WARNING, "%s: cannot remove it: %s", path, strerror(errno));
    yki_free(path);
}

void
yki_checkpoint_remove_later(const char *dir, int64_t step)
{
    int64_t *steps = NULL;
    size_t count = 0;

    if (yki_checkpoint_list(dir, &steps, &count) != YOKE_OK)
        return;
    for (size_t i = 0; i < count && steps[i] > step; i++)
        remove_step(dir, steps[i]);
    yki_free(steps);
}

void
yki_checkpoint_prune(const char *dir, int64_t step, uint32_t keep, int64_t best)
{
    int64_t *steps = NULL;
    size_t count = 0;
    uint32_t kept = 0;

    if (yki_checkpoint_list(dir, &steps, &count) != YOKE_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (steps[i] <= step && kept++ >= keep && steps[i] != best)
            remove_step(dir, steps[i]);
    yki_free(steps);
    remove_leftovers(dir);
}
