/* SPDX-License-Identifier: Apache-2.0
 *
 * shards.c - opens weights that are in one file or in several. An index tells which tensor is in
 * which file; nothing of it is trusted before the files have shown the same.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/files.h"
#include "data/shards.h"

enum { MOST_INDEX = 64 << 20 };
static const char index_ending[] = ".index.json";

/* ---- the index ---- */

void
yki_index_clear(yki_index *index)
{
    json_decref(index->json);
    yki_free(index->entries);
    memset(index, 0, sizeof *index);
}

static yoke_status
list_entries(const char *name, yki_index *index)
{
    json_t *map = json_object_get(index->json, "weight_map"), *file;
    const char *tensor;

    if (!json_is_object(map) || json_object_size(map) == 0)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has no \"weight_map\"; must be an object of names of tensors and files",
                        name);
    index->entries = yki_alloc(json_object_size(map), sizeof *index->entries, "an index");
    if (!index->entries)
        return YOKE_ERROR_OUT_OF_MEMORY;
    json_object_foreach(map, tensor, file)
    {
        const char *text = json_string_value(file);

        if (!text || !*text || strchr(text, '/') || strcmp(text, ".") == 0 ||
            strcmp(text, "..") == 0)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: the file of \"%.200s\" is %.200s; must be the name of a file "
                            "beside the index",
                            name, tensor, text && *text ? text : "no text");
        index->entries[index->count++] = (yki_index_entry){tensor, text};
    }
    return YOKE_OK;
}

yoke_status
yki_index_parse(const char *text, size_t length, const char *name, yki_index *index)
{
    json_error_t error;
    yoke_status status;

    memset(index, 0, sizeof *index);
    index->json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!index->json)
        return yki_fail(YOKE_ERROR_FORMAT, "%s is no JSON: %s in line %d", name, error.text,
                        error.line);
    status = list_entries(name, index);
    if (status != YOKE_OK)
        yki_index_clear(index);
    return status;
}

static yoke_status
read_index(const char *path, yki_index *index)
{
    yki_bytes *bytes = NULL;
    char *text = NULL;
    uint64_t size;
    yoke_status status;

    YKI_TRY(yki_bytes_open(path, &bytes));
    size = yki_bytes_stored_size(bytes);
    if (size > MOST_INDEX)
        status =
            yki_fail(YOKE_ERROR_FORMAT, "%s has %llu bytes; must be an index of at most 64 MiB",
                     path, (unsigned long long)size);
    else
        status = yki_bytes_expect(bytes, size);
    if (status == YOKE_OK) {
        text = yki_alloc(1, (size_t)size + 1, "an index");
        status = text ? yki_bytes_read(bytes, 0, size, text) : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (status == YOKE_OK)
        status = yki_index_parse(text, (size_t)size, path, index);
    yki_free(text);
    yki_bytes_release(bytes);
    return status;
}

/* ---- files ---- */

void
yki_shards_close(yki_shards *s)
{
    for (size_t i = 0; i < s->count; i++)
        yki_safetensors_close(s->files[i]);
    yki_free(s->files);
    yki_free(s->path);
    memset(s, 0, sizeof *s);
}

/* Finds the open file of this path. */
static yki_safetensors *
find_file(const yki_shards *s, const char *path)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->files[i]->path, path) == 0)
            return s->files[i];
    return NULL;
}

/* Opens the file of an entry, unless it is open, and looks for the tensor. */
static yoke_status
open_entry(yki_shards *s, const yki_index_entry *entry)
{
    const char *slash = strrchr(s->path, '/');
    char *path = yki_format("%.*s%s", slash ? (int)(slash + 1 - s->path) : 0, s->path, entry->file);
    yki_safetensors *file;
    yoke_status status = YOKE_OK;

    if (!path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    file = find_file(s, path);
    if (!file && access(path, F_OK) != 0)
        status =
            yki_fail(YOKE_ERROR_NOT_FOUND,
                     "%s names the file %.200s, which is not there; get all files of the model",
                     s->path, entry->file);
    else if (!file)
        status = yki_safetensors_open(path, &file);
    if (status == YOKE_OK && !find_file(s, path))
        s->files[s->count++] = file;
    if (status == YOKE_OK && !yki_safetensors_find(file, entry->tensor))
        status = yki_fail(YOKE_ERROR_FORMAT, "%s says that \"%.200s\" is in %.200s; it is not",
                          s->path, entry->tensor, entry->file);
    yki_free(path);
    return status;
}

/* A tensor must be in one file only. */
static yoke_status
check_names(const yki_shards *s)
{
    for (size_t i = 1; i < s->count; i++)
        for (size_t t = 0; t < s->files[i]->count; t++)
            for (size_t k = 0; k < i; k++)
                if (yki_safetensors_find(s->files[k], s->files[i]->tensors[t].name))
                    return yki_fail(
                        YOKE_ERROR_FORMAT, "\"%.200s\" is in %s and in %s; must be in one of them",
                        s->files[i]->tensors[t].name, s->files[k]->path, s->files[i]->path);
    return YOKE_OK;
}

static yoke_status
open_index(yki_shards *s)
{
    yki_index index;
    yoke_status status;

    YKI_TRY(read_index(s->path, &index));
    s->files = yki_alloc(index.count, sizeof *s->files, "a list of files");
    status = s->files ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; status == YOKE_OK && i < index.count; i++)
        status = open_entry(s, &index.entries[i]);
    yki_index_clear(&index);
    return status == YOKE_OK ? check_names(s) : status;
}

static yoke_status
open_one(yki_shards *s)
{
    s->files = yki_alloc(1, sizeof *s->files, "a list of files");
    if (!s->files)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_safetensors_open(s->path, &s->files[0]));
    s->count = 1;
    return YOKE_OK;
}

static bool
is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Returns the index or the file of weights in a folder; the folder itself if it has none. */
static char *
find_in(const char *folder)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "adapter_model.safetensors"};

    for (size_t i = 0; i < YKI_COUNT(names); i++) {
        char *path = yki_format("%s/%s", folder, names[i]);

        if (!path || access(path, F_OK) == 0)
            return path;
        yki_free(path);
    }
    return yki_strdup(folder, "a path");
}

static bool
is_index(const char *path)
{
    size_t length = strlen(path), ending = sizeof index_ending - 1;

    return length >= ending && strcmp(path + length - ending, index_ending) == 0;
}

yoke_status
yki_shards_open(const char *path, yki_shards *s)
{
    yoke_status status;

    memset(s, 0, sizeof *s);
    s->path = is_folder(path) ? find_in(path) : yki_strdup(path, "a path");
    if (!s->path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = is_index(s->path) ? open_index(s) : open_one(s);
    if (status != YOKE_OK)
        yki_shards_close(s);
    return status;
}
