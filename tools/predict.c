/* SPDX-License-Identifier: Apache-2.0
 *
 * predict.c - `yoke predict FILE --data DIR`: what a trained model predicts for samples.
 *
 * Each sample gets a line: its number, the most likely class and its probability, or the
 * predicted values. The file has everything that is needed. Labels in the data are
 * shown, but not used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "json.h"
#include "results.h"
#include "source.h"
#include "training.h"

enum { BATCH = 256, AT_ONCE = 1 << 14, ROOM = 64 << 20, MOST = 1 << 30 };

typedef struct request {
    const char *file;
    yki_tool_training training;
    unsigned count, first, top; /* `count` 0: all */
    bool json;
    const char *out; /* NULL: results are shown */
} request;

static const yki_tool_option options[] = {
    {"count", 'n', "N", "how many samples (default: all)", TOOL_COUNT(request, count, 1, MOST)},
    {"first", 'f', "N", "the number of the first, from 0",
     TOOL_COUNT(request, first, 0, UINT32_MAX)},
    {"top", 't', "N", "classes to show for each (default: 1)", TOOL_COUNT(request, top, 1, MOST)},
    {"out", 'o', "FILE", "write all values there: FILE.csv or FILE.npy", TOOL_TEXT(request, out)},
    TOOL_ROW_JSON(request),
    {0},
};

typedef struct session {
    const request *wanted;
    yki_tool_source source;
    yoke_model *model;
    yoke_context *context;
    yoke_team *team;
    yoke_trainer *trainer;
    yoke_dataset *samples; /* those of the source, or: */
    yoke_dataset *renamed; /* the same as the model's input calls and shapes them; NULL: not made */
    size_t values;         /* number of values in a result */
    size_t room;           /* samples of which results are computed at once */
    bool classes;          /* results are probabilities of classes */
    float *results;
    int32_t *labels;       /* of the current samples; NULL: the data has none */
    int64_t *indices;      /* of the current samples */
    yki_tool_results file; /* of --out */
} session;

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w)
{
    int status = yki_tool_read(self, argc, argv, w);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "file",
            "no model is given; must be a file that \"yoke train --out\" wrote", &w->file);
    if (status == TOOL_OK && !w->training.data)
        return yki_tool_usage(self, "no data is given; must be --data=DIR, a folder or a file");
    if (status == TOOL_OK && w->out && !yki_tool_results_named(w->out))
        return yki_tool_usage(self, "--out is \"%s\"; must end with .csv or .npy", w->out);
    return status;
}

/* ---- data that the model takes ---- */

static bool
fits(const yoke_field *data, const yoke_field *input)
{
    return data->type == input->type &&
           yki_tool_values_of(data->shape) == yki_tool_values_of(input->shape);
}

/* Opens a table in which all columns are data: new samples have no labels yet. */
static yoke_status
open_without_label(const char *path, const yki_tool_reading *how, yki_tool_source *source)
{
    yoke_dataset_open_options o;
    yoke_dataset *dataset;
    yoke_status status;

    memset(&o, 0, sizeof o);
    o.csv_no_label = true;
    o.csv_integers = how->integers;
    o.channels_last = how->channels_last;
    status = yoke_dataset_open(path, &o, &dataset);
    if (status)
        return status;
    yki_tool_source_close(source);
    source->train = dataset;
    source->data = yoke_dataset_get_field(dataset, 0);
    return YOKE_OK;
}

static yoke_status
refuse_text(const request *w)
{
    char sentence[512];

    snprintf(
        sentence, sizeof sentence,
        "%s is a language model; must be one of samples (\"yoke generate\" writes with it, and "
        "\"yoke eval\" tests it)",
        w->file);
    return yoke_fail(YOKE_ERROR_UNSUPPORTED, sentence);
}

static yoke_status
does_not_fit(const request *w, const yoke_field *data, const yoke_field *input)
{
    char sentence[512];

    snprintf(sentence, sizeof sentence,
             "%s: a sample has %zu values of type %s, the model takes %zu of type %s",
             w->training.data, yki_tool_values_of(data->shape), yki_tool_type_name(data->type),
             yki_tool_values_of(input->shape), yki_tool_type_name(input->type));
    return yoke_fail(YOKE_ERROR_SHAPE, sentence);
}

static yoke_status
check_data(const session *s)
{
    const size_t count = yoke_model_input_count(s->model);

    if (count == 1 && !fits(s->source.data, yoke_model_get_input(s->model)))
        return does_not_fit(s->wanted, s->source.data, yoke_model_get_input(s->model));
    for (size_t i = 0; count > 1 && i < count; i++) {
        const yoke_field *input = yoke_model_get_input_at(s->model, i);
        const yoke_field *data = yki_tool_find_field(s->source.train, input->name);

        if (data && !fits(data, input))
            return does_not_fit(s->wanted, data, input);
    }
    return YOKE_OK;
}

/* Gives a sample to a dataset in which it has the name and the shape of the model's input. */
static yoke_status
give_sample(void *user, int64_t index, size_t field, void *out)
{
    const session *s = user;
    const yoke_field *data = s->source.data;

    (void)field;
    return yoke_dataset_read(s->source.train, data->name, &index, 1, out,
                             yki_tool_values_of(data->shape) * yki_tool_type_bytes(data->type));
}

static bool
same_shape(yoke_shape a, yoke_shape b)
{
    for (int32_t i = 0; i < a.rank && i < b.rank; i++)
        if (a.dim[i] != b.dim[i])
            return false;
    return a.rank == b.rank;
}

static yoke_status
make_samples(session *s)
{
    const yoke_field *input = yoke_model_get_input(s->model), *data = s->source.data;
    const yoke_dataset_options o = {.fill = give_sample, .user = s};
    yoke_status status = YOKE_OK;

    if (!s->source.fields.count &&
        (strcmp(data->name, input->name) != 0 || !same_shape(data->shape, input->shape)))
        status =
            yoke_dataset_create(yoke_dataset_count(s->source.train), input, 1, &o, &s->renamed);
    s->samples = s->renamed ? s->renamed : s->source.train;
    return status ? status : yoke_model_scale_dataset(s->model, s->samples);
}

static yoke_status
open_data(session *s)
{
    const request *w = s->wanted;
    const yoke_field *input = yoke_model_get_input(s->model);
    yki_tool_reading how = {.channels_last = w->training.channels_last,
                            .integers = input->type == YOKE_I32,
                            .image = input->shape.rank == 3 ? input->shape : yoke_shape(),
                            .skip_bad = w->training.bad_images == 1,
                            .model = s->model};
    yoke_status status = yki_tool_fields_of(yoke_model_get_graph(s->model), &how.fields);

    if (!status)
        status = yki_tool_source_open_test(w->training.data, &how, &s->source);
    if (!status && !how.fields.count && !fits(s->source.data, input))
        status = open_without_label(w->training.data, &how, &s->source);
    if (!status)
        status = check_data(s);
    return status ? status : make_samples(s);
}

static yoke_status
make_room(session *s)
{
    const yoke_field *target = s->source.target;
    const size_t size = sizeof *s->indices + sizeof *s->labels;

    s->values = yki_tool_values_of(
        yoke_node_shape(yki_tool_first_output(yoke_trainer_get_graph(s->trainer))));
    s->room = ROOM / (size + s->values * sizeof *s->results);
    s->room = s->room > AT_ONCE ? AT_ONCE : s->room ? s->room : 1;
    s->results = malloc(s->room * s->values * sizeof *s->results);
    s->indices = malloc(s->room * sizeof *s->indices);
    if (target && target->type != YOKE_F32 && target->shape.rank == 0)
        s->labels = malloc(s->room * sizeof *s->labels);
    return s->results && s->indices
               ? YOKE_OK
               : yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for results");
}

/* ---- what is written ---- */

/* The index of the largest value that is not `taken`; the first of equal ones. */
static size_t
next_largest(const float *values, size_t count, const bool *taken)
{
    size_t best = count;

    for (size_t i = 0; i < count; i++)
        if (!taken[i] && (best == count || values[i] > values[best]))
            best = i;
    return best;
}

static void
write_classes(const session *s, const float *values, yki_tool_json *j)
{
    bool *taken = calloc(s->values, sizeof *taken);
    char number[24];

    for (unsigned k = 0; taken && k < s->wanted->top && k < s->values; k++) {
        size_t i = next_largest(values, s->values, taken);

        taken[i] = true;
        if (!j) {
            printf("\t%s\t%.4f", yki_tool_class_name(s->model, i, number), (double)values[i]);
            continue;
        }
        yki_tool_json_open_object(j, NULL);
        yki_tool_json_string(j, "class", yki_tool_class_name(s->model, i, number));
        yki_tool_json_real(j, "probability", (double)values[i]);
        yki_tool_json_close_object(j);
    }
    free(taken);
}

static void
write_text(const session *s, int64_t index, const float *values, const int32_t *label)
{
    char number[24];

    printf("%lld", (long long)index);
    if (s->classes)
        write_classes(s, values, NULL);
    for (size_t i = 0; !s->classes && i < s->values; i++)
        printf("\t%.7g", (double)values[i]);
    if (label)
        printf("\t(%s)", yki_tool_class_name(s->model, (size_t)(*label < 0 ? 0 : *label), number));
    if (yoke_dataset_get_file(s->source.train, index))
        printf("\t%s", yoke_dataset_get_file(s->source.train, index));
    putchar('\n');
}

static void
write_json(const session *s, int64_t index, const float *values, const int32_t *label)
{
    yki_tool_json j;
    char number[24];

    yki_tool_json_start_line(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_integer(&j, "sample", (uint64_t)index);
    yki_tool_json_open_array(&j, s->classes ? "classes" : "values");
    if (s->classes)
        write_classes(s, values, &j);
    for (size_t i = 0; !s->classes && i < s->values; i++)
        yki_tool_json_real(&j, NULL, (double)values[i]);
    yki_tool_json_close_array(&j);
    if (label)
        yki_tool_json_string(
            &j, "label", yki_tool_class_name(s->model, (size_t)(*label < 0 ? 0 : *label), number));
    if (yoke_dataset_get_file(s->source.train, index))
        yki_tool_json_string(&j, "file", yoke_dataset_get_file(s->source.train, index));
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

/* Reads n labels. Those of one byte are widened in place, from the last to the first. */
static yoke_status
read_labels(session *s, size_t n)
{
    const yoke_field *target = s->source.target;
    yoke_status status;

    status = yoke_dataset_read(s->source.train, target->name, s->indices, n, s->labels,
                               n * yki_tool_type_bytes(target->type));
    for (size_t i = n; !status && target->type == YOKE_U8 && i-- > 0;)
        s->labels[i] = ((const uint8_t *)s->labels)[i];
    return status;
}

/* Computes the results for n samples from `first` on. */
static yoke_status
compute(session *s, int64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->indices[i] = first + (int64_t)i;
    return yoke_trainer_predict_dataset(s->trainer, NULL, s->samples, first, (int64_t)n, s->results,
                                        (int64_t)(n * s->values));
}

static yoke_status
predict_some(session *s, int64_t first, size_t n)
{
    yoke_status status = compute(s, first, n);

    if (!status && s->labels)
        status = read_labels(s, n);
    for (size_t i = 0; !status && s->file.file && i < n; i++)
        yki_tool_results_add(&s->file, s->results + i * s->values,
                             yoke_dataset_get_file(s->source.train, s->indices[i]));
    for (size_t i = 0; !status && !s->file.file && i < n; i++)
        (s->wanted->json ? write_json : write_text)(s, s->indices[i], s->results + i * s->values,
                                                    s->labels ? &s->labels[i] : NULL);
    return status;
}

/* Whether a result is probabilities of classes: values from 0 to 1 that add up to 1. */
static bool
are_probabilities(const session *s, const float *values)
{
    double sum = 0;

    for (size_t i = 0; i < s->values; i++) {
        if (!(values[i] >= 0 && values[i] <= 1))
            return false;
        sum += (double)values[i];
    }
    return s->values > 1 && sum > 0.999 && sum < 1.001;
}

static yoke_status
make_trainer(session *s)
{
    const yki_tool_training *t = &s->wanted->training;
    yoke_trainer_options o = yki_tool_trainer_options(t, (yoke_optimizer){0});
    yoke_status status = yoke_context_create(NULL, &s->context);

    o.batch = BATCH;
    if (!status)
        status = yoke_team_create(s->context, t->devices, NULL, &s->team);
    if (!status)
        status = yoke_trainer_from_model(s->team, s->model, &o, &s->trainer);
    return status;
}

static yoke_status
predict(session *s)
{
    const request *w = s->wanted;
    yoke_status status = yki_tool_load_model(w->file, &s->model);
    int64_t count, end;
    char sentence[100];

    if (!status && yki_tool_text_context(yoke_model_get_graph(s->model)))
        status = refuse_text(w);
    if (!status)
        status = open_data(s);
    if (!status)
        status = make_trainer(s);
    if (!status)
        status = make_room(s);
    if (status)
        return status;
    count = yoke_dataset_count(s->source.train);
    if ((int64_t)w->first >= count) {
        snprintf(sentence, sizeof sentence,
                 "--first is %u; must be below %lld, the number of samples", w->first,
                 (long long)count);
        return yoke_fail(YOKE_ERROR_VALUE, sentence);
    }
    end = w->count && w->count < count - w->first ? (int64_t)w->first + w->count : count;
    /* One sample tells whether the results are probabilities. */
    status = compute(s, w->first, 1);
    s->classes = yoke_model_class_count(s->model) == s->values || are_probabilities(s, s->results);
    if (!status && w->out)
        status = yki_tool_results_open(w->out, s->model, w->first, end - w->first, s->values,
                                       yoke_dataset_get_file(s->source.train, 0) != NULL, &s->file);
    for (int64_t first = w->first, n; !status && first < end; first += n) {
        n = end - first < (int64_t)s->room ? end - first : (int64_t)s->room;
        status = predict_some(s, first, (size_t)n);
    }
    return yki_tool_results_close(&s->file, status);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.training = {.level = YOKE_PLAN_ESTIMATE}, .top = 1};
    session s = {.wanted = &wanted};
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = predict(&s);
    if (failed)
        status = yki_tool_fail(self, failed);
    free(s.results);
    free(s.labels);
    free(s.indices);
    yoke_trainer_destroy(s.trainer);
    yoke_dataset_destroy(s.renamed);
    yoke_team_destroy(s.team);
    yoke_context_destroy(s.context);
    yoke_model_destroy(s.model);
    yki_tool_source_close(&s.source);
    return status;
}

const yki_tool_command yki_tool_predict = {
    .name = "yoke predict",
    .synopsis = "--data=DIR [OPTION]... FILE",
    .summary = "ask a trained model",
    .description =
        "Say of each sample which class it is, and how likely that is; or its values. Samples\n"
        "are those of the test part of a folder, or of a file. FILE is what\n"
        "\"yoke train --out\" wrote. With labels in the data, they stand in parentheses.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_PREDICT, request, training),
    .run = run,
    .example = "yoke predict --data=examples/data --count=10 digits.safetensors",
};
