/* SPDX-License-Identifier: Apache-2.0
 *
 * open.c - yoke_dataset_open: recognises a file's format and makes a dataset of it.
 *
 * Files of one column are recognised by their first bytes, CIFAR's files, tables and images by
 * their names. folder.c finds the files of a part of a data set in a folder; where it finds none,
 * image_folder.c looks for images.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/files.h"
#include "data/image.h"
#include "data/text.h"

enum { HEAD = 16, MOST_CLASS_BYTES = 1 << 20, MOST_CLASSES = 1 << 15 };

/* ---- columns ---- */

static yoke_status
parse_column(yki_bytes *bytes, const yoke_dataset_open_options *o, yki_column *column)
{
    unsigned char head[HEAD];
    char names[128] = "";
    size_t got, used = 0;

    YKI_TRY(yki_bytes_peek(bytes, head, sizeof head, &got));
    for (const yki_column_format *const *f = yki_column_formats; *f; f++) {
        if ((*f)->is(head, got))
            return (*f)->parse(bytes, o, column);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                 (*f)->name);
        used = YKI_MIN(used, sizeof names - 1);
    }
    if (got >= 4 && memcmp(head, "PK\3\4", 4) == 0)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s is a zip archive, as .npz is; unpack it and give its files",
                        yki_bytes_name(bytes));
    return yki_fail(YOKE_ERROR_FORMAT,
                    "%s is none of %s by its first bytes, and its name does not end in .csv or "
                    ".bin; must be one of these",
                    yki_bytes_name(bytes), names);
}

static yoke_status
open_column(const char *path, const yoke_dataset_open_options *o, yki_column *column)
{
    yki_bytes *bytes;
    yoke_status status;

    YKI_TRY(yki_bytes_open(path, &bytes));
    status = parse_column(bytes, o, column);
    yki_bytes_release(bytes);
    return status;
}

/* A plane of bytes is an image of one channel. */
static void
make_image(yki_column *column)
{
    if (column->shape.rank == 2 && column->number == YKI_NUMBER_U8)
        column->shape = yoke_shape(1, column->shape.dim[0], column->shape.dim[1]);
}

/* Labels of shape (1) are scalars. */
static void
make_scalar(yki_column *column)
{
    if (column->shape.rank == 1 && column->shape.dim[0] == 1)
        column->shape.rank = 0;
}

static const char *
data_name(const yoke_dataset_open_options *o, const yki_column *column)
{
    return o->data_name ? o->data_name : column->shape.rank == 3 ? "image" : "x";
}

static const char *
target_name(const yoke_dataset_open_options *o, const yki_column *column)
{
    return o->target_name                                ? o->target_name
           : yki_number_type(column->number) == YOKE_F32 ? "target"
                                                         : "label";
}

static yoke_status
open_pair(const char *data, const char *target, const yoke_dataset_open_options *o,
          yoke_dataset **dataset)
{
    yki_column columns[2] = {{0}};
    const char *names[2];
    yoke_status status;

    YKI_TRY(open_column(data, o, &columns[0]));
    make_image(&columns[0]);
    names[0] = data_name(o, &columns[0]);
    if (!target)
        return yki_columns_make(columns, names, 1, dataset);
    status = open_column(target, o, &columns[1]);
    if (status != YOKE_OK) {
        yki_column_clear(&columns[0]);
        return status;
    }
    make_scalar(&columns[1]);
    names[1] = target_name(o, &columns[1]);
    return yki_columns_make(columns, names, 2, dataset);
}

/* ---- CIFAR ---- */

static yoke_status
open_cifar(char *const *paths, size_t count, const yoke_dataset_open_options *o,
           yoke_dataset **dataset)
{
    const char *names[] = {o->data_name ? o->data_name : "image",
                           o->target_name ? o->target_name : "label"};
    yki_bytes *files[YKI_MAX_PARTS_OF_COLUMN] = {NULL};
    yki_column columns[2];
    yoke_status status = YOKE_OK;
    size_t opened = 0;

    while (opened < count && status == YOKE_OK) {
        status = yki_bytes_open(paths[opened], &files[opened]);
        opened += status == YOKE_OK;
    }
    if (status == YOKE_OK)
        status = yki_cifar_parse(files, count, &columns[0], &columns[1]);
    for (size_t i = 0; i < opened; i++)
        yki_bytes_release(files[i]);
    YKI_TRY(status);
    return yki_columns_make(columns, names, 2, dataset);
}

/* ---- tables ---- */

static yoke_status
read_table(const char *path, const yki_csv_options *options, yoke_dataset **dataset)
{
    yki_bytes *bytes;
    yoke_status status;

    YKI_TRY(yki_bytes_open(path, &bytes));
    status = yki_csv_read(bytes, options, dataset);
    yki_bytes_release(bytes);
    return status;
}

/* A table of test data numbers its classes as the table of training data does. */
yoke_status
yki_table_open(const char *path, const char *train, const yoke_dataset_open_options *o,
               yoke_dataset **dataset)
{
    yki_csv_options options = {.label = o->csv_label,
                               .targets = o->csv_targets,
                               .no_label = o->csv_no_label,
                               .integers = o->csv_integers,
                               .weights = o->csv_weights,
                               .columns = o->csv_columns,
                               .encoding = o->csv_encoding,
                               .data_name = o->data_name,
                               .target_name = o->target_name};
    yoke_dataset *first = NULL;
    yoke_status status;

    if (train) {
        YKI_TRY(read_table(train, &options, &first));
        options.known = (const char *const *)first->class_names;
        options.known_count = first->class_count;
        options.encoding = first->encoding;
    }
    status = read_table(path, &options, dataset);
    yoke_dataset_destroy(first);
    return status;
}

/* ---- names of classes ---- */

/* Splits `text` into lines, trims them and drops empty ones. Returns their number; `names` NULL:
 * only counts. */
static size_t
split_lines(char *text, const char **names)
{
    size_t count = 0;

    while (*text) {
        size_t length = strcspn(text, "\n"), kept;
        char *next = text + length + (text[length] == '\n');

        text[length] = names ? '\0' : text[length];
        kept = names ? yki_trim(text, length) : length;
        if (kept && names)
            names[count] = text;
        count += kept > 0;
        text = next;
    }
    return count;
}

static yoke_status
read_classes(const char *path, yoke_dataset *dataset)
{
    const char **names = NULL;
    char *text = NULL;
    yki_bytes *bytes;
    uint64_t size;
    size_t count;
    yoke_status status;

    YKI_TRY(yki_bytes_open(path, &bytes));
    size = yki_bytes_stored_size(bytes);
    if (size > MOST_CLASS_BYTES)
        status = yki_fail(YOKE_ERROR_FORMAT, "%s is too large for names of classes", path);
    else if (!(text = yki_alloc(1, (size_t)size + 1, "names of classes")))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    else
        status = yki_bytes_read(bytes, 0, size, text);
    yki_bytes_release(bytes);
    count = status == YOKE_OK ? split_lines(text, NULL) : 0;
    if (status == YOKE_OK && !(names = yki_alloc(count, sizeof *names, "names of classes")))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK) {
        count = split_lines(text, names);
        status = yoke_dataset_set_class_names(dataset, names, count);
    }
    yki_free(names);
    yki_free(text);
    return status;
}

/* ---- all of them ---- */

/* Opens images; without any it returns YOKE_ERROR_NOT_FOUND, and the present detail stays. */
static yoke_status
open_images(const char *path, const yoke_dataset_open_options *o, yoke_dataset **dataset)
{
    yki_image_list list;

    YKI_TRY(yki_image_list_make(path, o->part, o->class_names, o->class_names ? o->class_count : 0,
                                &list));
    if (list.count)
        return yki_images_make(&list, o, dataset);
    yki_image_list_clear(&list);
    return YOKE_ERROR_NOT_FOUND;
}

static yoke_status
open_folder(const char *path, const yoke_dataset_open_options *o, yoke_dataset **out)
{
    yoke_dataset *dataset = NULL;
    yki_found found;
    yoke_status status = yki_folder_search(path, o->part, &found);

    if (status == YOKE_ERROR_NOT_FOUND)
        return open_images(path, o, out);
    YKI_TRY(status);
    if (found.kind == YKI_KIND_CIFAR)
        status = open_cifar(found.data, found.data_count, o, &dataset);
    else if (found.kind == YKI_KIND_CSV)
        status = yki_table_open(found.data[0], found.train, o, &dataset);
    else
        status = open_pair(found.data[0], found.target, o, &dataset);
    if (status == YOKE_OK && found.classes && !dataset->class_count)
        status = read_classes(found.classes, dataset);
    yki_found_clear(&found);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return YOKE_OK;
}

yoke_status
yoke_dataset_open_sized(const char *path, const yoke_dataset_open_options *options, size_t size,
                        yoke_dataset **dataset)
{
    yoke_dataset_open_options o = {0};
    struct stat about;
    char *copy;
    yoke_status status;

    YKI_GIVEN("yoke_dataset_open", {"path", path}, {"dataset", dataset});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (stat(path, &about) != 0)
        return yki_fail(errno == ENOENT ? YOKE_ERROR_NOT_FOUND : YOKE_ERROR_IO, "%s: %s", path,
                        errno == ENOENT ? "there is no such file or folder" : strerror(errno));
    if (o.field_names)
        return yki_fields_open(path, &o, dataset);
    if (S_ISDIR(about.st_mode))
        return open_folder(path, &o, dataset);
    if (yki_ends_with(path, ".csv") || yki_ends_with(path, ".tsv"))
        return yki_table_open(path, NULL, &o, dataset);
    if (yki_image_name(path))
        return open_images(path, &o, dataset);
    if (!yki_ends_with(path, ".bin"))
        return open_pair(path, o.target_file, &o, dataset);
    if (!(copy = yki_strdup(path, "a file's name")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = open_cifar(&copy, 1, &o, dataset);
    yki_free(copy);
    return status;
}
