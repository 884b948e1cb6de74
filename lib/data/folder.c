/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.c - finds the files of a folder that belong together, by their names.
 *
 * A name is split into words ("train-images-idx3-ubyte.gz": train, images, idx3, ubyte). Words tell
 * the part of the data set (train; test, t10k, validation) and the role (images, x; labels, y); the
 * ending tells the format. Data and labels of a pair belong to the same part. CIFAR's files have
 * fixed names. A folder without such files may have one folder for each part.
 *
 * If two files are possible, neither is taken: the error names both.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/files.h"
#include "data/text.h"

enum { MOST_NAMES = 1 << 22 };

typedef enum role { ROLE_NONE, ROLE_DATA, ROLE_TARGET } role;
typedef const yki_column_format *format; /* NULL: none */

#define YKI_COLUMN_FORMAT(name) &yki_format_##name,
const yki_column_format *const yki_column_formats[] = {YKI_COLUMN_FORMATS(YKI_COLUMN_FORMAT) NULL};
#undef YKI_COLUMN_FORMAT

/* Tables stand for themselves: they hold data and labels. */
static const yki_column_format tables = {.name = "CSV", .endings = {".csv", ".tsv"}};

/* ---- names ---- */

/* True if `word` is one of the words of a name. */
static bool
has_word(const char *name, const char *word)
{
    size_t length = strlen(word);

    for (const char *p = name; *p;) {
        size_t here = strcspn(p, "-_. ");

        if (here == length && strncasecmp(p, word, length) == 0)
            return true;
        p += here + (p[here] != '\0');
    }
    return false;
}

static bool
has_any_word(const char *name, const char *const *words)
{
    for (; *words; words++)
        if (has_word(name, *words))
            return true;
    return false;
}

yoke_data_part
yki_part_of_name(const char *name)
{
    static const char *const train[] = {"train", "training", NULL};
    static const char *const test[] = {"test",       "t10k", "testing", "valid",
                                       "validation", "val",  "eval",    NULL};

    return has_any_word(name, train)  ? YOKE_PART_TRAIN
           : has_any_word(name, test) ? YOKE_PART_TEST
                                      : YOKE_PART_ANY;
}

static role
role_of(const char *name)
{
    static const char *const data[] = {"images", "image", "x",        "data",
                                       "inputs", "input", "features", NULL};
    static const char *const target[] = {"labels", "label",   "y", "targets",
                                         "target", "classes", NULL};

    return has_any_word(name, target) ? ROLE_TARGET
           : has_any_word(name, data) ? ROLE_DATA
                                      : ROLE_NONE;
}

static bool
has_format(const char *name, format f)
{
    for (const char *const *end = f->endings; *end; end++)
        if (yki_ends_with(name, *end))
            return true;
    return false;
}

/* ---- listing ---- */

void
yki_listing_clear(yki_listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        yki_free(l->names[i]);
    yki_free(l->names);
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static yoke_status
add_name(yki_listing *l, const char *name)
{
    if (name[0] == '.')
        return YOKE_OK;
    if (l->count == MOST_NAMES)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s has more than %d files; give a folder with fewer", l->path, MOST_NAMES);
    YKI_TRY(yki_grow((void **)&l->names, &l->capacity, l->count + 1, sizeof *l->names,
                     "names of files"));
    l->names[l->count] = yki_strdup(name, "a file's name");
    if (!l->names[l->count])
        return YOKE_ERROR_OUT_OF_MEMORY;
    l->count++;
    return YOKE_OK;
}

yoke_status
yki_list_folder(const char *path, yki_listing *l)
{
    struct dirent *entry;
    DIR *dir = opendir(path);
    yoke_status status = YOKE_OK;

    *l = (yki_listing){.path = path};
    if (!dir)
        return yki_fail(YOKE_ERROR_IO, "%s cannot be listed: %s", path, strerror(errno));
    while (status == YOKE_OK && (entry = readdir(dir)))
        status = add_name(l, entry->d_name);
    closedir(dir);
    if (status != YOKE_OK) {
        yki_listing_clear(l);
        return status;
    }
    if (l->count)
        qsort(l->names, l->count, sizeof *l->names, by_name);
    return YOKE_OK;
}

static const char *
find_name(const yki_listing *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->names[i], name) == 0)
            return l->names[i];
    return NULL;
}

static yoke_status
join(const yki_listing *l, const char *name, char **path)
{
    *path = yki_format("%s/%s", l->path, name);
    return *path ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

/* ---- what is there ---- */

void
yki_found_clear(yki_found *found)
{
    for (size_t i = 0; i < found->data_count; i++)
        yki_free(found->data[i]);
    yki_free(found->target);
    yki_free(found->train);
    yki_free(found->classes);
    *found = (yki_found){0};
}

static yoke_status
find_classes(const yki_listing *l, yki_found *found)
{
    static const char *const usual[] = {"classes.txt", "class_names.txt", "batches.meta.txt",
                                        "fine_label_names.txt"};

    for (size_t i = 0; i < YKI_COUNT(usual); i++)
        if (find_name(l, usual[i]))
            return join(l, usual[i], &found->classes);
    return YOKE_OK;
}

/* Finds data_batch_1.bin ... and test_batch.bin, or train.bin and test.bin. */
static yoke_status
find_cifar(const yki_listing *l, yoke_data_part part, yki_found *found)
{
    for (size_t i = 0; i < l->count; i++) {
        const char *name = l->names[i];
        const bool train = strcmp(name, "train.bin") == 0 ||
                           (strncmp(name, "data_batch_", 11) == 0 && yki_ends_with(name, ".bin"));
        const bool test = strcmp(name, "test_batch.bin") == 0 || strcmp(name, "test.bin") == 0;

        if (part == YOKE_PART_TEST ? !test : !train)
            continue;
        if (found->data_count == YKI_COUNT(found->data))
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "%s has more than %zu files of CIFAR; give a folder with fewer",
                            l->path, YKI_COUNT(found->data));
        YKI_TRY(join(l, name, &found->data[found->data_count]));
        found->data_count++;
        found->kind = YKI_KIND_CIFAR;
    }
    return YOKE_OK;
}

/* Finds the one file of a format with this part and role; NULL: none. */
static yoke_status
find_one(const yki_listing *l, format f, yoke_data_part part, role r, const char **found)
{
    *found = NULL;
    for (size_t i = 0; i < l->count; i++) {
        const char *name = l->names[i];
        size_t length = *found ? strlen(*found) : 0;

        if (!has_format(name, f) || yki_part_of_name(name) != part || (r && role_of(name) != r))
            continue;
        if (*found && strncmp(name, *found, length) == 0 && strcmp(name + length, ".gz") == 0)
            continue; /* the same file, compressed */
        if (*found)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s has %s and %s; must have one of them, or give the file itself",
                            l->path, *found, name);
        *found = name;
    }
    return YOKE_OK;
}

/* Finds files of one format. If there are none, found->kind does not change. */
static yoke_status
find_format(const yki_listing *l, format f, yoke_data_part part, yki_found *found)
{
    const char *data, *target = NULL, *train = NULL;

    YKI_TRY(find_one(l, f, part, f == &tables ? ROLE_NONE : ROLE_DATA, &data));
    if (!data)
        return YOKE_OK;
    if (f == &tables) {
        YKI_TRY(find_one(l, f, YOKE_PART_TRAIN, ROLE_NONE, &train));
    } else {
        YKI_TRY(find_one(l, f, part, ROLE_TARGET, &target));
        if (!target)
            return yki_fail(YOKE_ERROR_NOT_FOUND,
                            "%s has %s, but no file with its labels; must have both", l->path,
                            data);
    }
    found->kind = f == &tables ? YKI_KIND_CSV : YKI_KIND_PAIR;
    YKI_TRY(join(l, data, &found->data[0]));
    found->data_count = 1;
    if (target)
        YKI_TRY(join(l, target, &found->target));
    if (train && part == YOKE_PART_TEST)
        YKI_TRY(join(l, train, &found->train));
    return YOKE_OK;
}

static yoke_status
search_files(const yki_listing *l, yoke_data_part part, yki_found *found)
{
    /* Files that name no part hold everything, so they are for training. */
    const yoke_data_part parts[] = {part == YOKE_PART_ANY ? YOKE_PART_TRAIN : part, YOKE_PART_ANY};

    YKI_TRY(find_cifar(l, part, found));
    for (size_t p = 0; p < YKI_COUNT(parts); p++) {
        if (p == 1 && part != YOKE_PART_ANY)
            break;
        for (format const *f = yki_column_formats; *f && found->kind == YKI_KIND_NONE; f++)
            YKI_TRY(find_format(l, *f, parts[p], found));
        if (found->kind == YKI_KIND_NONE)
            YKI_TRY(find_format(l, &tables, parts[p], found));
    }
    return YOKE_OK;
}

/* A folder whose name tells this part, or NULL. */
static const char *
find_subfolder(const yki_listing *l, yoke_data_part part)
{
    for (size_t i = 0; i < l->count; i++) {
        const char *name = l->names[i];
        struct stat about;
        char *path;
        bool folder;

        if (yki_part_of_name(name) != (part == YOKE_PART_ANY ? YOKE_PART_TRAIN : part) ||
            strchr(name, '.'))
            continue;
        if (join(l, name, &path) != YOKE_OK)
            return NULL;
        folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
        yki_free(path);
        if (folder)
            return name;
    }
    return NULL;
}

static yoke_status
search(const char *path, yoke_data_part part, yki_found *found)
{
    yki_listing l;
    const char *folder;
    char *below = NULL;
    yoke_status status;

    YKI_TRY(yki_list_folder(path, &l));
    status = search_files(&l, part, found);
    if (status == YOKE_OK)
        status = find_classes(&l, found);
    if (status == YOKE_OK && found->kind == YKI_KIND_NONE && (folder = find_subfolder(&l, part)))
        status = join(&l, folder, &below);
    yki_listing_clear(&l);
    if (status != YOKE_OK || !below)
        return status;
    /* The folder's name tells the part, so names in it need not. */
    status = yki_list_folder(below, &l);
    if (status == YOKE_OK) {
        status = search_files(&l, YOKE_PART_ANY, found);
        if (status == YOKE_OK && found->kind == YKI_KIND_NONE && part == YOKE_PART_TEST)
            status = search_files(&l, part, found);
        yki_listing_clear(&l);
    }
    yki_free(below);
    return status;
}

yoke_status
yki_folder_search(const char *path, yoke_data_part part, yki_found *out)
{
    yki_found found = {0};
    yoke_status status = search(path, part, &found);

    if (status == YOKE_OK && found.kind == YKI_KIND_NONE)
        status =
            yki_fail(YOKE_ERROR_NOT_FOUND,
                     "%s: no %s here; yoke-data(7) has the names of files that are found", path,
                     part == YOKE_PART_TEST    ? "test data"
                     : part == YOKE_PART_TRAIN ? "training data"
                                               : "data");
    if (status != YOKE_OK) {
        yki_found_clear(&found);
        return status;
    }
    *out = found;
    return YOKE_OK;
}
