/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - opens the data that a command line names, and finds out which field is the
 * target and how many classes it has.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fields.h"
#include "source.h"

enum { CHUNK = 4096, MAX_TEXT = 64 << 20 };
static const double TENTH = 0.1;

bool
yki_tool_is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* ---- classes ---- */

static int64_t
largest(const yoke_field *field, const void *values, size_t count, int64_t so_far)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = (int64_t)yki_tool_number_at(field->type, values, i);

        if (value > so_far)
            so_far = value;
    }
    return so_far;
}

/* Raises *classes to one more than the largest label. */
static yoke_status
count_labels(const yoke_dataset *dataset, const yoke_field *field, int64_t *classes)
{
    const size_t each = yki_tool_values_of(field->shape), room = each < CHUNK ? CHUNK / each : 1;
    int64_t count = yoke_dataset_count(dataset), most = *classes - 1, indices[CHUNK];
    int32_t *values = malloc(room * each * sizeof *values);
    yoke_status status = YOKE_OK;

    if (!values)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for labels");
    for (int64_t first = 0; first < count && !status; first += (int64_t)room) {
        size_t n = count - first < (int64_t)room ? (size_t)(count - first) : room;

        for (size_t i = 0; i < n; i++)
            indices[i] = first + (int64_t)i;
        status = yoke_dataset_read(dataset, field->name, indices, n, values,
                                   n * each * yki_tool_type_bytes(field->type));
        if (!status)
            most = largest(field, values, n * each, most);
    }
    free(values);
    if (!status)
        *classes = most + 1;
    return status;
}

/* The first field is data; the second, if there is one, is the target. Of several inputs, names
 * tell. */
static void
find_fields(const yki_tool_fields *fields, yki_tool_source *s)
{
    s->data = yoke_dataset_get_field(s->train, 0);
    s->target = yoke_dataset_field_count(s->train) > 1 ? yoke_dataset_get_field(s->train, 1) : NULL;
    s->fields = *fields;
    if (!fields->count)
        return;
    s->data = yki_tool_find_field(s->train, fields->names[0]);
    s->target = fields->count > fields->inputs
                    ? yki_tool_find_field(s->train, fields->names[fields->inputs])
                    : NULL;
}

static yoke_status
look(const char *path, const yki_tool_reading *how, yki_tool_source *s)
{
    const yoke_dataset *d = s->train;
    yoke_status status = YOKE_OK;
    char axes[80];

    find_fields(&how->fields, s);
    if (how->no_target)
        s->target = NULL;
    s->classes = 0;
    if (yoke_dataset_count(d) == 0)
        return yki_tool_fail_about(YOKE_ERROR_VALUE, path,
                                   "there are no samples; must be at least one");
    if (!s->target || s->target->type == YOKE_F32)
        return YOKE_OK;
    if (s->target->shape.rank != 0 && !how->maps) {
        snprintf(axes, sizeof axes, "labels have %d ax%s; must be one number for each sample",
                 (int)s->target->shape.rank, s->target->shape.rank == 1 ? "is" : "es");
        return yki_tool_fail_about(YOKE_ERROR_SHAPE, path, axes);
    }
    s->classes = (int64_t)yoke_dataset_class_count(d);
    if (s->classes == 0)
        status = count_labels(d, s->target, &s->classes);
    if (!status && s->test && yoke_dataset_class_count(d) == 0)
        status = count_labels(s->test, s->target, &s->classes);
    if (!status && s->classes < 2)
        return yki_tool_fail_about(YOKE_ERROR_VALUE, path,
                                   "the labels have one class; must have at least two");
    return status;
}

/* ---- several inputs ---- */

/* Appends the names of nodes of this operator, and counts those for which there is no room too. */
static size_t
add_names(const yoke_graph *graph, const json_t *json, const char *op, yki_tool_fields *fields)
{
    size_t i, count = 0;
    json_t *node;

    json_array_foreach(json_object_get(json, "nodes"), i, node)
    {
        const char *is = json_string_value(json_object_get(node, "op"));
        const char *name = json_string_value(json_object_get(node, "name"));

        if (!is || !name || strcmp(is, op) != 0)
            continue;
        if (fields->count < TOOL_MOST_FIELDS)
            fields->names[fields->count++] = yoke_node_name(yoke_graph_get_node(graph, name));
        count++;
    }
    return count;
}

yoke_status
yki_tool_fields_of(const yoke_graph *graph, yki_tool_fields *out)
{
    yki_tool_fields fields = {.graph = graph};
    char *text = NULL, sentence[128];
    size_t targets;
    json_t *json;
    yoke_status status;

    memset(out, 0, sizeof *out);
    status = yoke_graph_to_json(graph, &text);
    if (status)
        return status;
    json = json_loads(text, 0, NULL);
    yoke_free(text);
    fields.inputs = add_names(graph, json, "input", &fields);
    targets = add_names(graph, json, "target", &fields);
    json_decref(json);
    if (fields.inputs < 2)
        return YOKE_OK;
    if (fields.inputs + targets > TOOL_MOST_FIELDS) {
        snprintf(sentence, sizeof sentence,
                 "the model has %zu inputs and %zu targets; must be at most %d together",
                 fields.inputs, targets, TOOL_MOST_FIELDS);
        return yoke_fail(YOKE_ERROR_UNSUPPORTED, sentence);
    }
    *out = fields;
    return YOKE_OK;
}

const yoke_field *
yki_tool_find_field(const yoke_dataset *dataset, const char *name)
{
    const yoke_field *field;

    for (size_t i = 0; (field = yoke_dataset_get_field(dataset, i)) != NULL; i++)
        if (strcmp(field->name, name) == 0)
            return field;
    return NULL;
}

/* ---- opening ---- */

/* Returns the names of the model's classes, for free(); NULL: it has none. */
static const char **
classes_of(const yoke_model *model, size_t *count)
{
    const char **names;

    *count = model ? yoke_model_class_count(model) : 0;
    names = *count ? malloc(*count * sizeof *names) : NULL;
    for (size_t i = 0; names && i < *count; i++)
        names[i] = yoke_model_get_class_name(model, i);
    return names;
}

static yoke_status
open_part(const char *path, const yki_tool_reading *how, yoke_data_part part,
          yoke_dataset **dataset)
{
    yoke_dataset_open_options options;
    const char **names;
    yoke_status status;

    memset(&options, 0, sizeof options);
    options.part = part;
    options.channels_last = how->channels_last;
    options.csv_integers = how->integers;
    options.csv_weights = how->weights;
    options.csv_columns = how->columns;
    options.csv_encoding = yoke_model_get_encoding(how->model);
    options.image_channels = (int32_t)how->image.dim[0];
    options.image_height = (int32_t)how->image.dim[1];
    options.image_width = (int32_t)how->image.dim[2];
    options.skip_bad_images = how->skip_bad;
    if (how->fields.count) {
        options.field_names = how->fields.names;
        options.field_count = how->fields.count;
        options.optional_fields = how->fields.count - how->fields.inputs;
    }
    options.class_names = names = classes_of(how->model, &options.class_count);
    status = options.class_count && !names
                 ? yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for names of classes")
                 : yoke_dataset_open(path, &options, dataset);
    free(names);
    return status;
}

/* The same samples of other files: images have the size that those of `like` have. */
static yoke_status
open_test_part(const char *path, const yki_tool_reading *how, const yoke_dataset *like,
               yoke_dataset **dataset)
{
    yki_tool_reading same = *how;

    for (size_t i = yoke_dataset_field_count(like); i-- > 0;) {
        const yoke_field *field = yoke_dataset_get_field(like, i);

        if (field->shape.rank == 3)
            same.image = field->shape;
    }
    return open_part(path, &same, YOKE_PART_TEST, dataset);
}

static yoke_status
split(yki_tool_source *s, double fraction, uint32_t seed)
{
    yoke_dataset *all = s->train;
    yoke_status status;

    s->train = NULL;
    s->split = true;
    status = yoke_dataset_split(all, fraction > 0 ? fraction : TENTH, seed, &s->train, &s->test);
    yoke_dataset_destroy(all);
    return status;
}

yoke_status
yki_tool_source_open_parts(const char *path, const yki_tool_reading *how, yoke_dataset **train,
                           yoke_dataset **test)
{
    yoke_status status = open_part(path, how, YOKE_PART_ANY, train);

    *test = NULL;
    if (status || !yki_tool_is_folder(path))
        return status;
    status = open_test_part(path, how, *train, test);
    return status == YOKE_ERROR_NOT_FOUND ? YOKE_OK : status;
}

yoke_status
yki_tool_source_open(const char *path, const yki_tool_reading *how, yki_tool_source *out)
{
    yki_tool_source s = {0};
    yoke_status status = how->validation == 0
                             ? yki_tool_source_open_parts(path, how, &s.train, &s.test)
                             : open_part(path, how, YOKE_PART_ANY, &s.train);

    if (!status && s.test && yoke_dataset_field_count(s.test) < yoke_dataset_field_count(s.train)) {
        yoke_dataset_destroy(s.test); /* images that have no classes test nothing */
        s.test = NULL;
    }
    if (!status && !s.test)
        status = split(&s, how->validation, how->seed);
    if (!status)
        status = look(path, how, &s);
    if (!status && !s.target && !how->no_target)
        status = yki_tool_fail_about(
            YOKE_ERROR_NOT_FOUND, path,
            "has samples but neither labels nor targets; yoke-data(7) tells where "
            "they are looked for");
    if (status)
        yki_tool_source_close(&s);
    else
        *out = s;
    return status;
}

yoke_status
yki_tool_source_open_test(const char *path, const yki_tool_reading *how, yki_tool_source *out)
{
    yki_tool_source s = {0};
    yoke_status status = YOKE_ERROR_NOT_FOUND;

    if (yki_tool_is_folder(path))
        status = open_part(path, how, YOKE_PART_TEST, &s.train);
    if (status == YOKE_ERROR_NOT_FOUND)
        status = open_part(path, how, YOKE_PART_ANY, &s.train);
    if (!status) {
        find_fields(&how->fields, &s);
        *out = s;
    }
    return status;
}

/* ---- texts ---- */

int64_t
yki_tool_text_context(const yoke_graph *graph)
{
    const yoke_node *tokens = yoke_graph_get_node(graph, "tokens");
    const yoke_node *next = yoke_graph_get_node(graph, "next");

    if (!tokens || !next || yoke_node_type(tokens) != YOKE_I32 ||
        yoke_node_type(next) != YOKE_I32 || yoke_node_shape(tokens).rank != 1)
        return 0;
    return yoke_node_shape(tokens).dim[0];
}

/* The graph's text as JSON has the rows of its first embedding, and what its loss ignores. */
yoke_status
yki_tool_text_of(const yoke_graph *graph, yki_tool_text *out)
{
    yki_tool_text found = {.context = yki_tool_text_context(graph)};
    json_t *json = NULL, *node;
    const char *loss;
    yoke_status status;
    char *text = NULL;
    size_t i;

    *out = found;
    if (!found.context)
        return YOKE_OK;
    status = yoke_graph_to_json(graph, &text);
    if (status)
        return status;
    json = json_loads(text, 0, NULL);
    yoke_free(text);
    loss = json_string_value(json_object_get(json, "loss"));
    json_array_foreach(json_object_get(json, "nodes"), i, node)
    {
        const char *name = json_string_value(json_object_get(node, "name"));
        const char *op = json_string_value(json_object_get(node, "op"));

        if (!found.vocabulary && op && strcmp(op, "embedding") == 0)
            found.vocabulary = json_integer_value(json_object_get(node, "rows"));
        if (loss && name && strcmp(name, loss) == 0)
            found.ignores = json_is_true(json_object_get(node, "has_ignore_index")) &&
                            json_integer_value(json_object_get(node, "ignore_index")) == -1;
    }
    json_decref(json);
    *out = found;
    return YOKE_OK;
}

yoke_status
yki_tool_open_tokenizer(const char *name, const char *text, yoke_tokenizer **tokenizer)
{
    yoke_tokenizer_options o;

    memset(&o, 0, sizeof o);
    if (strcmp(name, "bytes") != 0 && strcmp(name, "characters") != 0)
        return yoke_tokenizer_open(name, tokenizer);
    o.kind = name[0] == 'c' ? YOKE_TOKENIZER_CHARACTERS : YOKE_TOKENIZER_BYTES;
    return yoke_tokenizer_train(text, &o, tokenizer);
}

/* The tokenizer that the user names, or that of a model; NULL: the text's. */
static yoke_status
choose_tokenizer(const char *path, const char *name, const char *const models[2],
                 yoke_tokenizer **tokenizer)
{
    yoke_status status = YOKE_ERROR_NOT_FOUND;

    *tokenizer = NULL;
    if (name)
        return yki_tool_open_tokenizer(name, path, tokenizer);
    for (int i = 0; i < 2 && status == YOKE_ERROR_NOT_FOUND; i++)
        if (models[i])
            status = yoke_tokenizer_open(models[i], tokenizer);
    return status == YOKE_ERROR_NOT_FOUND ? YOKE_OK : status;
}

yoke_status
yki_tool_source_open_text(const char *path, const yki_tool_reading *how, const yki_tool_text *text,
                          const char *tokenizer, const char *const models[2], yki_tool_source *out)
{
    yki_tool_source s = {0};
    yoke_tokenizer *opened = NULL;
    yoke_text_options o;
    yoke_status status = choose_tokenizer(path, tokenizer, models, &opened);

    memset(&o, 0, sizeof o);
    o.context = s.context = text->context;
    o.vocabulary = text->vocabulary;
    o.tokenizer = opened;
    o.test_fraction = how->validation;
    o.part = YOKE_PART_TRAIN;
    if (!status)
        status = yoke_dataset_open_text(path, &o, &s.train);
    o.part = YOKE_PART_TEST;
    o.short_last = text->ignores;
    if (!status)
        status = yoke_dataset_open_text(path, &o, &s.test);
    yoke_tokenizer_destroy(opened);
    if (status) {
        yki_tool_source_close(&s);
        return status;
    }
    s.data = yoke_dataset_get_field(s.train, 0);
    s.target = yoke_dataset_get_field(s.train, 1);
    s.classes = yoke_dataset_vocabulary(s.train);
    if (yoke_dataset_vocabulary(s.test) > s.classes)
        s.classes = yoke_dataset_vocabulary(s.test);
    *out = s;
    return YOKE_OK;
}

yoke_status
yki_tool_source_open_test_text(const char *path, const yoke_model *model, const yki_tool_text *text,
                               yki_tool_source *out)
{
    yki_tool_source s = {.context = text->context};
    yoke_text_options o;
    yoke_status status;

    memset(&o, 0, sizeof o);
    o.context = text->context;
    o.vocabulary = text->vocabulary;
    o.tokenizer = yoke_model_get_tokenizer(model);
    o.part = YOKE_PART_TEST;
    o.short_last = text->ignores;
    status = yoke_dataset_open_text(path, &o, &s.train);
    if (status)
        return status;
    s.data = yoke_dataset_get_field(s.train, 0);
    s.target = yoke_dataset_get_field(s.train, 1);
    *out = s;
    return YOKE_OK;
}

double
yki_tool_bits_per_byte(const yoke_dataset *text, double loss)
{
    const double bytes = (double)yoke_dataset_text_bytes(text);

    return bytes > 0 ? loss / log(2) * (double)yoke_dataset_text_tokens(text) / bytes : (double)NAN;
}

yoke_status
yki_tool_source_blame(const char *path, yoke_status status)
{
    char sentence[1024];

    if (status != YOKE_ERROR_VALUE && status != YOKE_ERROR_SHAPE && status != YOKE_ERROR_TYPE)
        return status;
    snprintf(sentence, sizeof sentence, "%s: %s", path, yoke_last_error());
    return yoke_fail(status, sentence);
}

void
yki_tool_source_close(yki_tool_source *source)
{
    yoke_dataset_destroy(source->train);
    yoke_dataset_destroy(source->test);
    memset(source, 0, sizeof *source);
}

/* ---- scaling ---- */

/* Mean and scale of all values, from those of parts of equal size. A constant part has scale 1. */
static void
join_parts(const float *mean, const float *scale, size_t count, float *all_mean, float *all_scale)
{
    double sum = 0, variance = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)mean[i];
    sum /= (double)count;
    for (size_t i = 0; i < count; i++) {
        double away = (double)mean[i] - sum, deviation = scale[i] == 1 ? 0 : 1 / (double)scale[i];

        variance += (deviation * deviation + away * away) / (double)count;
    }
    *all_mean = (float)sum;
    *all_scale = variance > 0 ? (float)(1 / sqrt(variance)) : 1;
}

static yoke_status
measure(yoke_dataset *data, const char *field, bool whole)
{
    yoke_status status = yoke_dataset_measure_scaling(data, field);
    const float *mean, *scale;
    size_t count = yoke_dataset_get_scaling(data, field, &mean, &scale);
    float one[2];

    if (status || count < 2 || !whole)
        return status;
    join_parts(mean, scale, count, &one[0], &one[1]);
    return yoke_dataset_set_scaling(data, field, &one[0], &one[1], 1);
}

static yoke_status
normalize(yki_tool_source *source, const char *field, bool whole)
{
    yoke_status status = measure(source->train, field, whole);
    const float *mean, *scale;
    size_t count = yoke_dataset_get_scaling(source->train, field, &mean, &scale);

    return status ? status : yoke_dataset_set_scaling(source->test, field, mean, scale, count);
}

yoke_status
yki_tool_source_normalize(yki_tool_source *source, bool whole)
{
    const yki_tool_fields *fields = &source->fields;
    yoke_status status = YOKE_OK;

    if (!fields->count)
        return normalize(source, source->data->name, whole);
    for (size_t i = 0; i < fields->inputs && !status; i++)
        if (yki_tool_can_scale(source, fields->names[i]))
            status = normalize(source, fields->names[i], false);
    return status;
}

bool
yki_tool_can_scale(const yki_tool_source *source, const char *name)
{
    const yoke_node *input =
        source->fields.graph ? yoke_graph_get_node(source->fields.graph, name) : NULL;

    return yki_tool_find_field(source->train, name)->type != YOKE_I32 &&
           (!input || yoke_node_type(input) == YOKE_F32);
}

/* Mean and deviation of targets: one pair for all values, or one for each index of the first axis.
 * A count of 0: not known. */
enum { MAX_PARTS = 16 };
typedef struct spread_of_targets {
    size_t count;
    float mean[MAX_PARTS], deviation[MAX_PARTS];
} spread_of_targets;

/* Measures the targets. They are not scaled themselves, so their scaling is removed again. */
static yoke_status
measure_spread(yki_tool_source *source, spread_of_targets *spread)
{
    const yoke_field *target = source->target;
    bool whole = target->shape.rank > 0 && target->shape.dim[0] > MAX_PARTS;
    yoke_status status = measure(source->train, target->name, whole);
    const float *mean, *scale;

    if (status)
        return status;
    spread->count = yoke_dataset_get_scaling(source->train, target->name, &mean, &scale);
    for (size_t i = 0; i < spread->count; i++) {
        spread->mean[i] = mean[i];
        spread->deviation[i] = 1 / scale[i];
    }
    return yoke_dataset_set_scaling(source->train, target->name, NULL, NULL, 0);
}

static yoke_shape
at_least_one_axis(yoke_shape shape)
{
    return shape.rank == 0 ? yoke_shape(1) : shape;
}

yoke_status
yki_tool_source_fit(yki_tool_source *source, const yki_tool_model *model, bool scaled,
                    yoke_graph **graph)
{
    yoke_zoo_options o = yki_tool_zoo_options(model);
    spread_of_targets spread = {0};
    yoke_status status = YOKE_OK;

    o.input_name = source->data->name;
    o.input = at_least_one_axis(source->data->shape);
    if (model->language)
        o.vocabulary = source->classes;
    else if (source->classes > 0)
        o.classes = source->classes;
    else if (source->target)
        o.target = at_least_one_axis(source->target->shape);
    if (source->target)
        o.target_name = source->target->name;
    if (scaled && o.target.rank > 0)
        status = measure_spread(source, &spread);
    o.spread_count = spread.count;
    o.mean = spread.mean;
    o.deviation = spread.deviation;
    return status ? status : yoke_zoo(model->name, &o, graph);
}

static json_t *
describe(const yoke_graph *graph)
{
    char *text = NULL;
    json_t *json;

    if (yoke_graph_to_json(graph, &text))
        return NULL;
    json = json_loads(text, 0, NULL);
    yoke_free(text);
    return json;
}

yoke_node *
yki_tool_first_output(const yoke_graph *graph)
{
    json_t *json = describe(graph);
    const char *name = json_string_value(
        json_object_iter_value(json_object_iter(json_object_get(json, "outputs"))));
    yoke_node *node = name ? yoke_graph_get_node(graph, name) : NULL;

    json_decref(json);
    return node;
}

/* That, unless the graph has a loss already. */
static yoke_node *
last_layer(const yoke_graph *graph)
{
    json_t *json = describe(graph);
    const bool has_loss = json_object_get(json, "loss") != NULL;

    json_decref(json);
    return has_loss ? NULL : yki_tool_first_output(graph);
}

yoke_status
yki_tool_source_complete(const yki_tool_source *source, yoke_graph *graph)
{
    yoke_node *y = last_layer(graph), *target;

    if (!y)
        return YOKE_OK;
    if (source->classes > 0) {
        target = yoke_target(graph, source->target->name, YOKE_I32, yoke_shape());
        yoke_graph_set_loss(graph, yoke_softmax_cross_entropy(graph, y, target, NULL));
        yoke_graph_add_metric(graph, "accuracy", yoke_accuracy(graph, y, target));
        return yoke_graph_status(graph);
    }
    target = yoke_target(graph, source->target->name, YOKE_F32, source->target->shape);
    y = yoke_reshape(graph, y, source->target->shape);
    yoke_graph_set_loss(graph, yoke_mean_squared_error(graph, y, target, NULL));
    yoke_graph_add_metric(graph, "absolute_error", yoke_mean_absolute_error(graph, y, target));
    return yoke_graph_status(graph);
}

/* ---- text ---- */

static yoke_status
read_stream(FILE *file, const char *path, char **text, size_t *length)
{
    size_t capacity = 1 << 16, used = 0, got;
    char *memory = malloc(capacity + 1), *more;

    while (memory && (got = fread(memory + used, 1, capacity - used, file)) > 0) {
        used += got;
        if (used < capacity)
            continue;
        if (capacity >= MAX_TEXT) {
            free(memory);
            return yki_tool_fail_about(
                YOKE_ERROR_FORMAT, path,
                "is larger than 64 MiB; must be a text of at most that size");
        }
        capacity *= 2;
        more = realloc(memory, capacity + 1);
        if (!more)
            free(memory);
        memory = more;
    }
    if (!memory)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a file's text");
    if (ferror(file)) {
        free(memory);
        return yki_tool_fail_about(YOKE_ERROR_IO, path, strerror(errno));
    }
    memory[used] = '\0';
    *text = memory;
    *length = used;
    return YOKE_OK;
}

yoke_status
yki_tool_read_text(const char *path, const char *wanted, char **text, size_t *length)
{
    FILE *file = yki_tool_is_folder(path) ? NULL : fopen(path, "rb");
    char sentence[160];
    yoke_status status;

    if (!file && yki_tool_is_folder(path)) {
        snprintf(sentence, sizeof sentence, "is a folder, not a file; must be %s", wanted);
        return yki_tool_fail_about(YOKE_ERROR_IO, path, sentence);
    }
    if (!file)
        return yki_tool_fail_about(YOKE_ERROR_IO, path, strerror(errno));
    status = read_stream(file, path, text, length);
    fclose(file);
    return status;
}

static yoke_status
read_model(const char *path, char **text, size_t *length)
{
    yoke_model *model = NULL;
    yoke_status status = yoke_model_load(path, &model);
    char *json = NULL;

    if (!status)
        status = yoke_graph_to_json(yoke_model_get_graph(model), &json);
    yoke_model_destroy(model);
    *text = json ? strdup(json) : NULL;
    yoke_free(json);
    if (!status && !*text)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a graph");
    *length = *text ? strlen(*text) : 0;
    return status;
}

yoke_status
yki_tool_read_graph(const char *path, char **text, size_t *length)
{
    return yki_tool_ends_with(path, ".safetensors")
               ? read_model(path, text, length)
               : yki_tool_read_text(path, "a graph as JSON, or a folder with a config.json", text,
                                    length);
}
