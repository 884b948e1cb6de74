/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c - a dataset of several files, one for each field: inputs and targets of a graph, which
 * the files are called after ("train-image.npy", "train-table.csv").
 *
 * Each file is opened as if it were alone; a dataset that reads through these joins them. What a
 * name says beside the field's name is the part of the data (folder.c). A folder may stand for a
 * file, as one of images does.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/near.h"
#include "data/files.h"
#include "data/text.h"

/* ---- joining ---- */

typedef struct joined {
    yoke_dataset *parts[YKI_MAX_FIELDS]; /* owned */
    size_t part_count;
    struct {
        size_t part, field;
    } fields[YKI_MAX_FIELDS];
} joined;

static yoke_status
joined_read(void *self, size_t field, const int64_t *indices, size_t count, void *out)
{
    const joined *j = self;

    return yki_dataset_read(j->parts[j->fields[field].part], j->fields[field].field, indices, count,
                            out);
}

static const char *
joined_name(void *self, int64_t index)
{
    const joined *j = self;
    const char *name = NULL;

    for (size_t i = 0; i < j->part_count && !name; i++)
        name = yoke_dataset_get_file(j->parts[i], index);
    return name;
}

static void
joined_destroy(void *self)
{
    joined *j = self;

    for (size_t i = 0; i < j->part_count; i++)
        yoke_dataset_destroy(j->parts[i]);
    yki_free(j);
}

static const yki_sample_source joined_source = {joined_read, joined_destroy, 0, NULL, joined_name};

/* ---- names ---- */

/* What is found for each name of the options, and the path of what is searched. */
typedef struct search {
    const yoke_dataset_open_options *o;
    char *paths[YKI_MAX_FIELDS];  /* owned; NULL: none */
    char *trains[YKI_MAX_FIELDS]; /* of tables of a test part: that of the training part */
    size_t found;
} search;

static const char *const endings[] = {".npy", ".csv", ".tsv", ".idx", ".idx.gz"};

static bool
is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Whether a file can be for a field: by its ending, which is cut off, or as a folder. */
static yoke_status
cut_ending(const char *folder, char *name, bool *known)
{
    char *path;

    *known = true;
    for (size_t i = 0; i < YKI_COUNT(endings); i++)
        if (yki_ends_with(name, endings[i])) {
            name[strlen(name) - strlen(endings[i])] = '\0';
            return YOKE_OK;
        }
    if (!(path = yki_format("%s/%s", folder, name)))
        return YOKE_ERROR_OUT_OF_MEMORY;
    *known = is_folder(path);
    yki_free(path);
    return YOKE_OK;
}

/* Cuts off a word at the begin or the end that tells the part. */
static void
cut_part(char *name)
{
    char *end = name + strcspn(name, "-_. ");
    const char sign = *end;

    if (!sign)
        return;
    *end = '\0';
    if (yki_part_of_name(name) != YOKE_PART_ANY) {
        memmove(name, end + 1, strlen(end + 1) + 1);
        return;
    }
    *end = sign;
    for (end = name + strlen(name); !strchr("-_. ", end[-1]);)
        end--;
    if (yki_part_of_name(end) != YOKE_PART_ANY)
        end[-1] = '\0';
}

/* Makes the name of the field that a file is for, which the caller frees; NULL: it is for none. */
static yoke_status
field_of(const char *folder, const char *name, char **field)
{
    char *copy = yki_strdup(name, "the name of a file");
    bool known = false;
    yoke_status status = copy ? cut_ending(folder, copy, &known) : YOKE_ERROR_OUT_OF_MEMORY;

    *field = NULL;
    if (status != YOKE_OK || !known) {
        yki_free(copy);
        return status;
    }
    cut_part(copy);
    *field = copy;
    return YOKE_OK;
}

static size_t
find_field(const yoke_dataset_open_options *o, const char *name)
{
    size_t i = 0;

    while (i < o->field_count && strcmp(o->field_names[i], name) != 0)
        i++;
    return i;
}

/* ---- searching ---- */

static yoke_status
take_file(search *s, const yki_listing *l, const char *name, size_t field, char **paths)
{
    if (paths[field])
        return yki_fail(YOKE_ERROR_FORMAT, "%s has %s and %s for \"%s\"; must have one of them",
                        l->path, strrchr(paths[field], '/') + 1, name, s->o->field_names[field]);
    paths[field] = yki_format("%s/%s", l->path, name);
    s->found += paths == s->paths;
    return paths[field] ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

/* Takes the files of a part whose names are those of fields. */
static yoke_status
take_files(search *s, const yki_listing *l, yoke_data_part part, char **paths)
{
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < l->count && status == YOKE_OK; i++) {
        char *name;
        size_t field;

        if (yki_part_of_name(l->names[i]) != part)
            continue;
        status = field_of(l->path, l->names[i], &name);
        field = name ? find_field(s->o, name) : s->o->field_count;
        if (field < s->o->field_count)
            status = take_file(s, l, l->names[i], field, paths);
        yki_free(name);
    }
    return status;
}

/* Some fields were found: names the first that was not, and files that are for none. */
static yoke_status
check_found(const search *s, const yki_listing *l, yoke_data_part part)
{
    const size_t needed = s->o->field_count - YKI_MIN(s->o->optional_fields, s->o->field_count);
    size_t missing = 0;
    yki_near near;
    char *names[64];
    size_t count = 0;
    yoke_status status = YOKE_OK;

    while (missing < needed && s->paths[missing])
        missing++;
    yki_near_start(&near, missing < needed ? s->o->field_names[missing] : "");
    for (size_t i = 0; i < l->count && count < YKI_COUNT(names) && status == YOKE_OK; i++) {
        if (yki_part_of_name(l->names[i]) != part)
            continue;
        status = field_of(l->path, l->names[i], &names[count]);
        if (names[count] && find_field(s->o, names[count]) == s->o->field_count) {
            yki_log(YOKE_LOG_WARNING, "%s/%s is left out: no input or target is called \"%s\"",
                    l->path, l->names[i], names[count]);
            yki_near_offer(&near, names[count]);
        }
        count += names[count] != NULL;
    }
    if (status == YOKE_OK && missing < needed)
        status = yki_fail(YOKE_ERROR_FORMAT,
                          "%s has no file for \"%s\"; must have %s%s.npy, for example%s", l->path,
                          s->o->field_names[missing],
                          part == YOKE_PART_TEST    ? "test-"
                          : part == YOKE_PART_TRAIN ? "train-"
                                                    : "",
                          s->o->field_names[missing], yki_near_hint(&near));
    while (count)
        yki_free(names[--count]);
    return status;
}

static yoke_status
search_part(search *s, const yki_listing *l, yoke_data_part part)
{
    YKI_TRY(take_files(s, l, part, s->paths));
    if (s->found)
        YKI_TRY(check_found(s, l, part));
    return YOKE_OK;
}

/* A folder whose name tells this part; *path stays NULL if there is none. */
static yoke_status
find_below(const yki_listing *l, yoke_data_part part, char **path)
{
    for (size_t i = 0; i < l->count; i++) {
        if (yki_part_of_name(l->names[i]) != part)
            continue;
        if (!(*path = yki_format("%s/%s", l->path, l->names[i])))
            return YOKE_ERROR_OUT_OF_MEMORY;
        if (is_folder(*path))
            return YOKE_OK;
        yki_free(*path);
        *path = NULL;
    }
    return YOKE_OK;
}

static yoke_status
search_folder(search *s, const char *folder)
{
    const yoke_data_part part = s->o->part == YOKE_PART_TEST ? YOKE_PART_TEST : YOKE_PART_TRAIN;
    char *below = NULL;
    yki_listing l;
    yoke_status status;

    YKI_TRY(yki_list_folder(folder, &l));
    status = search_part(s, &l, part);
    if (status == YOKE_OK && !s->found && s->o->part == YOKE_PART_ANY)
        status = search_part(s, &l, YOKE_PART_ANY);
    if (status == YOKE_OK && s->found && part == YOKE_PART_TEST)
        status = take_files(s, &l, YOKE_PART_TRAIN, s->trains);
    if (status == YOKE_OK && !s->found)
        status = find_below(&l, part, &below);
    yki_listing_clear(&l);
    if (status != YOKE_OK || !below)
        return status;
    status = yki_list_folder(below, &l);
    if (status == YOKE_OK) {
        status = search_part(s, &l, YOKE_PART_ANY);
        yki_listing_clear(&l);
    }
    yki_free(below);
    return status;
}

/* ---- opening ---- */

/* The first field that need not have a file, and has none: a table may have it as a column. */
static const char *
column_of(const search *s)
{
    for (size_t i = s->o->field_count - s->o->optional_fields; i < s->o->field_count; i++)
        if (!s->paths[i])
            return s->o->field_names[i];
    return NULL;
}

/* Opens the file of a field. Columns of a table are data, but for one with the name of a target. */
static yoke_status
open_field(const search *s, size_t field, yoke_dataset **dataset)
{
    const char *path = s->paths[field], *train = s->trains[field], *column = column_of(s);
    const bool table = yki_ends_with(path, ".csv") || yki_ends_with(path, ".tsv");
    yoke_dataset_open_options o = *s->o;
    yoke_status status = YOKE_ERROR_NOT_FOUND;

    o.field_names = NULL;
    o.field_count = 0;
    o.part = YOKE_PART_ANY;
    o.data_name = s->o->field_names[field];
    o.target_file = o.csv_label = o.csv_targets = NULL;
    if (!table)
        return yoke_dataset_open(path, &o, dataset);
    if (column) {
        o.csv_label = o.target_name = column;
        status = yki_table_open(path, train, &o, dataset);
    }
    if (status != YOKE_ERROR_NOT_FOUND)
        return status;
    o.csv_label = NULL;
    o.csv_no_label = true;
    if (field >= s->o->field_count - s->o->optional_fields) {
        o.csv_integers = true; /* labels; if they are none, targets */
        status = yki_table_open(path, NULL, &o, dataset);
        if (status != YOKE_ERROR_FORMAT)
            return status;
        o.csv_integers = false;
    }
    return yki_table_open(path, NULL, &o, dataset);
}

static yoke_status
add_part(joined *j, yoke_dataset *part, const char *path, yoke_field *fields, size_t *count)
{
    if (part->count != j->parts[0]->count)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has %lld samples, \"%s\" has %lld; must have the same number", path,
                        (long long)part->count, fields[0].name, (long long)j->parts[0]->count);
    for (size_t f = 0; f < part->field_count; f++) {
        for (size_t i = 0; i < *count; i++)
            if (strcmp(fields[i].name, part->fields[f].name) == 0)
                return yki_fail(YOKE_ERROR_FORMAT,
                                "%s has \"%s\", which another file has too; must be in one of them",
                                path, fields[i].name);
        if (*count == YKI_MAX_FIELDS)
            return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s is a field too many; must be at most %d",
                            path, YKI_MAX_FIELDS);
        j->fields[*count].part = j->part_count - 1;
        j->fields[*count].field = f;
        fields[*count] = part->fields[f];
        fields[*count].data = NULL;
        /* A column of labels, (N, 1), has a number for each sample. */
        if (fields[*count].type != YOKE_F32 && yki_shape_count(fields[*count].shape) == 1)
            fields[*count].shape = yoke_shape();
        (*count)++;
    }
    return YOKE_OK;
}

/* Class names are those of the part that has some. */
static yoke_status
finish(const joined *j, yoke_dataset *dataset)
{
    for (size_t i = 0; i < j->part_count; i++) {
        const yoke_dataset *part = j->parts[i];

        dataset->ahead = YKI_MAX(dataset->ahead, part->ahead);
        if (part->class_count)
            YKI_TRY(yoke_dataset_set_class_names(dataset, (const char *const *)part->class_names,
                                                 part->class_count));
    }
    return YOKE_OK;
}

static yoke_status
join(const search *s, yoke_dataset **out)
{
    joined *j = yki_alloc(1, sizeof *j, "a dataset");
    yoke_field fields[YKI_MAX_FIELDS] = {{0}};
    yoke_dataset *dataset;
    size_t count = 0;
    yoke_status status = j ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < s->o->field_count && status == YOKE_OK; i++) {
        if (!s->paths[i])
            continue;
        status = open_field(s, i, &j->parts[j->part_count]);
        if (status == YOKE_OK)
            status = add_part(j, j->parts[j->part_count++], s->paths[i], fields, &count);
    }
    if (status != YOKE_OK) {
        if (j)
            joined_destroy(j);
        return status;
    }
    YKI_TRY(yki_dataset_make(j->parts[0]->count, fields, count, &joined_source, j, &dataset));
    status = finish(j, dataset);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return YOKE_OK;
}

static yoke_status
check_options(const char *path, const yoke_dataset_open_options *o)
{
    if (o->field_count > YKI_MAX_FIELDS)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "field_count", (int64_t)o->field_count,
                              0, YKI_MAX_FIELDS);
    if (o->optional_fields >= o->field_count)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "optional_fields",
                              (int64_t)o->optional_fields, 0, (int64_t)o->field_count - 1);
    if (o->csv_columns || o->csv_encoding || o->csv_weights)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "rules for columns, or a column of weights, are given for several files; "
                        "must go with one table");
    if (!is_folder(path))
        return yki_fail(
            YOKE_ERROR_FORMAT,
            "%s is no folder; must be one with a file for each of \"%s\", \"%s\" and so on", path,
            o->field_names[0], o->field_names[o->field_count > 1]);
    return YOKE_OK;
}

yoke_status
yki_fields_open(const char *path, const yoke_dataset_open_options *o, yoke_dataset **dataset)
{
    search s = {.o = o};
    yoke_status status;

    YKI_TRY(check_options(path, o));
    status = search_folder(&s, path);
    if (status == YOKE_OK && !s.found)
        status = yki_fail(YOKE_ERROR_NOT_FOUND,
                          "%s: no %s here; must have a file for \"%s\", as %s%s.npy, and for each "
                          "other input",
                          path, o->part == YOKE_PART_TEST ? "test data" : "data", o->field_names[0],
                          o->part == YOKE_PART_TEST ? "test-" : "train-", o->field_names[0]);
    if (status == YOKE_OK)
        status = join(&s, dataset);
    for (size_t i = 0; i < YKI_MAX_FIELDS; i++) {
        yki_free(s.paths[i]);
        yki_free(s.trains[i]);
    }
    return status;
}
