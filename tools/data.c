/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - `yoke data PATH`: what a folder or a file has for training.
 *
 * Samples of each part, their fields, the range of each channel or column of the training part, and
 * how often each class is there. --out draws sixteen samples (sheet.c).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "json.h"
#include "sheet.h"
#include "source.h"
#include "table.h"
#include "training.h"

enum { MOST_BYTES = 1 << 20, MOST_AT_ONCE = 4096, MOST_CHANNELS = 4096, MOST_CLASSES = 1 << 20 };

typedef struct request {
    const char *path, *sheet;
    yki_tool_training training;
    bool json;
} request;

static const yki_tool_option options[] = {
    {"out", 'o', "FILE", "draw sixteen samples into this file: .png, .ppm or .pgm",
     TOOL_TEXT(request, sheet)},
    TOOL_ROW_JSON(request),
    {0},
};

/* Of the numbers of one channel or column. */
typedef struct range {
    double least, most;
    double shift, sum, squares; /* of what is finite, less the first such number */
    uint64_t count, odd;        /* numbers that are finite, and others */
} range;

typedef struct session {
    const request *wanted;
    yoke_dataset *parts[2]; /* train and test; the second may be NULL */
    const yoke_field *data, *target;
    range *ranges[2]; /* of the training part's data and of its targets */
    size_t channels[2];
    int64_t *counts[2]; /* of each class, in each part */
    size_t classes;
    uint64_t without; /* labels that are no class: negative, as those that a loss ignores */
} session;

static const char *const part_names[] = {"train", "test"};

/* ---- looking ---- */

static void
add_number(range *r, double number)
{
    if (!isfinite(number)) {
        r->odd++;
        return;
    }
    if (r->count++ == 0)
        r->least = r->most = r->shift = number;
    r->least = fmin(r->least, number);
    r->most = fmax(r->most, number);
    r->sum += number - r->shift;
    r->squares += (number - r->shift) * (number - r->shift);
}

/* Makes room for counts of `classes` classes in all. */
static yoke_status
make_classes(session *s, size_t classes)
{
    char sentence[120];

    if (classes <= s->classes)
        return YOKE_OK;
    if (classes > MOST_CLASSES) {
        snprintf(sentence, sizeof sentence, "a label is %zu; must be below %d", classes - 1,
                 MOST_CLASSES);
        return yoke_fail(YOKE_ERROR_VALUE, sentence);
    }
    for (int i = 0; i < 2; i++) {
        int64_t *more = realloc(s->counts[i], classes * sizeof *more);

        if (!more)
            return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for classes");
        memset(more + s->classes, 0, (classes - s->classes) * sizeof *more);
        s->counts[i] = more;
    }
    s->classes = classes;
    return YOKE_OK;
}

static yoke_status
count_class(session *s, int part, int64_t label)
{
    yoke_status status = label < 0 ? YOKE_OK : make_classes(s, (size_t)label + 1);

    if (label < 0)
        s->without++;
    else if (!status)
        s->counts[part][label]++;
    return status;
}

static bool
is_label(const yoke_field *field)
{
    return field->type != YOKE_F32 && field->shape.rank == 0;
}

/* Takes `n` samples of a field: labels are counted, other numbers are measured. */
static yoke_status
take(session *s, int part, int which, const void *values, size_t n)
{
    const yoke_field *field = which ? s->target : s->data;
    size_t count = yki_tool_values_of(field->shape), rest = count / s->channels[which];
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < n * count && !status; i++) {
        double number = yki_tool_number_at(field->type, values, i);

        if (which && is_label(field))
            status = count_class(s, part, (int64_t)number);
        else
            add_number(&s->ranges[which][i % count / rest], number);
    }
    return status;
}

/* Reads all samples of a field, about a megabyte at a time. */
static yoke_status
look_at(session *s, int part, int which)
{
    const yoke_field *field = which ? s->target : s->data;
    size_t bytes = yki_tool_values_of(field->shape) * yki_tool_type_bytes(field->type);
    size_t at_once = bytes < MOST_BYTES ? MOST_BYTES / bytes : 1;
    int64_t count = yoke_dataset_count(s->parts[part]), indices[MOST_AT_ONCE];
    yoke_status status = YOKE_OK;
    void *values;

    if (at_once > MOST_AT_ONCE)
        at_once = MOST_AT_ONCE;
    values = malloc(at_once * bytes);
    if (!values)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for samples");
    for (int64_t first = 0; first < count && !status; first += (int64_t)at_once) {
        size_t n = (size_t)(count - first) < at_once ? (size_t)(count - first) : at_once;

        for (size_t i = 0; i < n; i++)
            indices[i] = first + (int64_t)i;
        status =
            yoke_dataset_read(s->parts[part], field->name, indices, (int64_t)n, values, n * bytes);
        if (!status)
            status = take(s, part, which, values, n);
    }
    free(values);
    return status;
}

/* Channels of an image and columns of a table are told apart; of longer samples all is one. */
static yoke_status
look(session *s)
{
    yoke_status status = YOKE_OK;

    for (int which = 0; which < 2 && !status; which++) {
        const yoke_field *field = which ? s->target : s->data;
        bool apart;

        if (!field)
            continue;
        apart = field->shape.rank == 1 || field->shape.rank == 3;
        s->channels[which] =
            apart && field->shape.dim[0] <= MOST_CHANNELS ? (size_t)field->shape.dim[0] : 1;
        s->ranges[which] = calloc(s->channels[which], sizeof(range));
        if (!s->ranges[which])
            return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for ranges");
        status = look_at(s, 0, which);
        if (!status && s->parts[1] && which && is_label(field))
            status = look_at(s, 1, which);
    }
    return status;
}

/* ---- telling ---- */

static double
mean_of(const range *r)
{
    return r->count ? r->shift + r->sum / (double)r->count : NAN;
}

static double
deviation_of(const range *r)
{
    double n = (double)r->count;

    return r->count ? sqrt(fmax(r->squares / n - r->sum / n * (r->sum / n), 0)) : NAN;
}

static const char *
class_name(const session *s, size_t index, char number[24])
{
    const char *name = yoke_dataset_get_class_name(s->parts[0], index);

    snprintf(number, 24, "%zu", index);
    return name ? name : number;
}

static void
print_field(const yoke_field *field, const char *before)
{
    printf("%s%s %s (", before, field->name, yki_tool_type_name(field->type));
    for (int32_t i = 0; i < field->shape.rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)field->shape.dim[i]);
    putchar(')');
}

static void
add_number_cell(yki_tool_table *t, const range *r, double number)
{
    if (r->count)
        yki_tool_table_cell(t, "%.5g", number);
    else
        yki_tool_table_cell(t, "-");
}

static void
print_ranges(const session *s, int which)
{
    const yoke_field *field = which ? s->target : s->data;
    yki_tool_table t;
    bool odd = false;

    for (size_t i = 0; i < s->channels[which]; i++)
        odd |= s->ranges[which][i].odd > 0;
    yki_tool_table_start(&t);
    yki_tool_table_column(&t, field->name, false);
    yki_tool_table_column(&t, "LEAST", true);
    yki_tool_table_column(&t, "MOST", true);
    yki_tool_table_column(&t, "MEAN", true);
    yki_tool_table_column(&t, "DEVIATION", true);
    if (odd)
        yki_tool_table_column(&t, "NOT FINITE", true);
    for (size_t i = 0; i < s->channels[which]; i++) {
        const range *r = &s->ranges[which][i];

        if (s->channels[which] > 1)
            yki_tool_table_cell(&t, "%zu", i);
        else
            yki_tool_table_cell(&t, "all");
        add_number_cell(&t, r, r->least);
        add_number_cell(&t, r, r->most);
        add_number_cell(&t, r, mean_of(r));
        add_number_cell(&t, r, deviation_of(r));
        if (odd)
            yki_tool_table_cell(&t, "%llu", (unsigned long long)r->odd);
    }
    yki_tool_table_print(&t, stdout);
}

static void
print_classes(const session *s)
{
    yki_tool_table t;
    char number[24];

    yki_tool_table_start(&t);
    yki_tool_table_column(&t, "CLASS", false);
    yki_tool_table_column(&t, "TRAIN", true);
    if (s->parts[1])
        yki_tool_table_column(&t, "TEST", true);
    for (size_t i = 0; i < s->classes; i++) {
        yki_tool_table_cell(&t, "%s", class_name(s, i, number));
        for (int part = 0; part < (s->parts[1] ? 2 : 1); part++)
            yki_tool_table_cell(&t, "%lld", (long long)s->counts[part][i]);
    }
    yki_tool_table_print(&t, stdout);
    if (s->without)
        printf("no class: %llu\n", (unsigned long long)s->without);
}

static void
tell_people(const session *s)
{
    for (int part = 0; part < 2 && s->parts[part]; part++)
        printf("%s: %lld samples\n", part_names[part],
               (long long)yoke_dataset_count(s->parts[part]));
    print_field(s->data, "a sample: ");
    if (s->target)
        print_field(s->target, ", ");
    printf("\n\n");
    print_ranges(s, 0);
    if (!s->target)
        return;
    putchar('\n');
    if (is_label(s->target))
        print_classes(s);
    else
        print_ranges(s, 1);
}

static void
write_field(yki_tool_json *j, const session *s, int which)
{
    const yoke_field *field = which ? s->target : s->data;

    yki_tool_json_open_object(j, which ? "target" : "data");
    yki_tool_json_string(j, "name", field->name);
    yki_tool_json_string(j, "type", yki_tool_type_name(field->type));
    yki_tool_json_open_array(j, "shape");
    for (int32_t i = 0; i < field->shape.rank; i++)
        yki_tool_json_integer(j, NULL, (uint64_t)field->shape.dim[i]);
    yki_tool_json_close_array(j);
    if (!which || !is_label(field)) {
        yki_tool_json_open_array(j, "ranges");
        for (size_t i = 0; i < s->channels[which]; i++) {
            const range *r = &s->ranges[which][i];

            yki_tool_json_open_object(j, NULL);
            yki_tool_json_real(j, "least", r->count ? r->least : NAN);
            yki_tool_json_real(j, "most", r->count ? r->most : NAN);
            yki_tool_json_real(j, "mean", mean_of(r));
            yki_tool_json_real(j, "deviation", deviation_of(r));
            yki_tool_json_integer(j, "not_finite", r->odd);
            yki_tool_json_close_object(j);
        }
        yki_tool_json_close_array(j);
    }
    yki_tool_json_close_object(j);
}

static void
tell_programs(const session *s)
{
    yki_tool_json j;
    char number[24];

    yki_tool_json_start(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    for (int part = 0; part < 2 && s->parts[part]; part++)
        yki_tool_json_integer(&j, part_names[part], (uint64_t)yoke_dataset_count(s->parts[part]));
    for (int which = 0; which < (s->target ? 2 : 1); which++)
        write_field(&j, s, which);
    if (s->target && is_label(s->target)) {
        yki_tool_json_open_array(&j, "classes");
        for (size_t i = 0; i < s->classes; i++) {
            yki_tool_json_open_object(&j, NULL);
            yki_tool_json_string(&j, "name", class_name(s, i, number));
            for (int part = 0; part < (s->parts[1] ? 2 : 1); part++)
                yki_tool_json_integer(&j, part_names[part], (uint64_t)s->counts[part][i]);
            yki_tool_json_close_object(&j);
        }
        yki_tool_json_close_array(&j);
        yki_tool_json_integer(&j, "no_class", s->without);
    }
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

/* ---- the command ---- */

static yoke_status
open_parts(session *s)
{
    const yki_tool_training *t = &s->wanted->training;
    yki_tool_reading how = {
        .channels_last = t->channels_last, .skip_bad = t->bad_images == 1, .columns = t->columns};
    int height = 0, width = 0;
    yoke_status status;
    char why[TOOL_WHY];

    if (t->image_size && yki_tool_parse_image_size(t->image_size, &height, &width, why))
        how.image = yoke_shape(0, height, width);
    status = yki_tool_source_open_parts(s->wanted->path, &how, &s->parts[0], &s->parts[1]);
    if (status)
        return status;
    s->data = yoke_dataset_get_field(s->parts[0], 0);
    s->target =
        yoke_dataset_field_count(s->parts[0]) > 1 ? yoke_dataset_get_field(s->parts[0], 1) : NULL;
    return YOKE_OK;
}

/* What is not bytes is drawn from the least number to the most. */
static yoke_status
draw(const session *s)
{
    double least = INFINITY, most = -INFINITY;

    for (size_t i = 0; i < s->channels[0]; i++)
        if (s->ranges[0][i].count) {
            least = fmin(least, s->ranges[0][i].least);
            most = fmax(most, s->ranges[0][i].most);
        }
    if (s->data->type == YOKE_U8) {
        least = 0;
        most = 255;
    }
    return yki_tool_draw_sheet(s->parts[0], s->data, least, most, s->wanted->sheet);
}

static yoke_status
show(session *s)
{
    yoke_status status = open_parts(s);

    if (!status)
        status = make_classes(s, yoke_dataset_class_count(s->parts[0]));
    if (!status)
        status = look(s);
    if (!status && s->wanted->sheet)
        status = draw(s);
    if (!status)
        (s->wanted->json ? tell_programs : tell_people)(s);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {0};
    session s = {.wanted = &wanted};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yoke_status failed;

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "path", "no data is given; must be a folder or a file", &wanted.path);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = show(&s);
    if (failed)
        status = yki_tool_fail(self, failed);
    for (int i = 0; i < 2; i++) {
        yoke_dataset_destroy(s.parts[i]);
        free(s.ranges[i]);
        free(s.counts[i]);
    }
    return status;
}

const yki_tool_command yki_tool_data = {
    .name = "yoke data",
    .synopsis = "[OPTION]... PATH",
    .summary = "show what a folder or a file has for training",
    .description =
        "Tell the samples of each part, the fields, the range of each channel or column of the\n"
        "training part, and how often each class is there. PATH is what --data of\n"
        "\"yoke train\" takes, but no text.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_DATA, request, training),
    .run = run,
    .example = "yoke data --out=digits.png examples/data",
};
