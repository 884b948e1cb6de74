/* SPDX-License-Identifier: Apache-2.0
 *
 * eval.c - `yoke eval FILE --data DIR`: loss and metrics of a trained model.
 *
 * The file has the graph, the weights and the scaling of the data, so nothing else is
 * needed. A trainer of the library evaluates the model on all devices. If samples have one
 * label, or values, it also predicts them, some at a time, for the metrics of metrics.c. Of other
 * models, as those of texts, there is the loss and what metrics the graph has.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "job.h"
#include "json.h"
#include "metrics.h"
#include "progress.h"
#include "source.h"
#include "training.h"

enum { BATCH = 256, AT_ONCE = 1 << 14, TOKENS = 8192, ROOM = 64 << 20, MOST = 1 << 30 };

typedef struct request {
    const char *file;
    yki_tool_training training;
    unsigned top;
    bool json, per_class, confusion;
} request;

static const yki_tool_option options[] = {
    {"per-class", 0, NULL, "show each class or value, not the worst alone",
     TOOL_FLAG(request, per_class)},
    {"confusion", 0, NULL, "show which classes are taken for which", TOOL_FLAG(request, confusion)},
    {"top", 't', "K", "count labels among the K most likely classes (default: 5)",
     TOOL_COUNT(request, top, 1, MOST)},
    TOOL_ROW_JSON(request),
    {0},
};

/* What a model says of a sample. */
typedef struct subject {
    char *output; /* of the graph, by name; NULL: neither one class nor values */
    size_t count; /* of classes or values */
    bool classes; /* the output has a number for each class */
    bool logits;  /* these are logits, not probabilities */
    bool ignores; /* labels that are `ignored` do not count */
    int64_t ignored;
} subject;

typedef struct session {
    subject subject;
    yki_tool_classes classes;
    yki_tool_values values;
    yki_tool_job job;
    yki_tool_source source;
    yoke_model *model;
    yoke_context *context;
    yoke_team *team;
    yoke_trainer *trainer;
    yoke_result result;
    double seconds;
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
    if (status == TOOL_OK && yki_tool_ends_with(w->file, ".onnx"))
        return yki_tool_usage(self,
                              "%s is a model of ONNX, which has no loss; must be one that \"yoke "
                              "train --out\" wrote",
                              w->file);
    return status;
}

static yoke_status
open_data(session *s, const request *w)
{
    const float *mean, *scale;
    size_t count = yoke_model_get_scaling(s->model, &mean, &scale);
    const yoke_field *input = yoke_model_get_input(s->model);
    const yki_tool_reading how = {.channels_last = w->training.channels_last,
                                  .integers = input->type == YOKE_I32,
                                  .image = input->shape.rank == 3 ? input->shape : yoke_shape(),
                                  .skip_bad = w->training.bad_images == 1,
                                  .weights = w->training.sample_weights,
                                  .model = s->model};
    yki_tool_text text;
    yoke_status status = yki_tool_text_of(yoke_model_get_graph(s->model), &text);

    if (!status)
        status = text.context
                     ? yki_tool_source_open_test_text(w->training.data, s->model, &text, &s->source)
                     : yki_tool_source_open_test(w->training.data, &how, &s->source);
    if (!status && count)
        status =
            yoke_dataset_set_scaling(s->source.train, s->source.data->name, mean, scale, count);
    return status;
}

/* How many samples are computed at once: of long texts fewer. */
static unsigned
choose_batch(const session *s, const request *w)
{
    const int64_t context = s->source.context;

    if (w->training.batch)
        return w->training.batch;
    return !context ? BATCH : context < TOKENS ? (unsigned)(TOKENS / context) : 1;
}

/* ---- what the model says ---- */

static const char *
text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static const json_t *
node_of(const json_t *graph, const char *name)
{
    const json_t *nodes = json_object_get(graph, "nodes");

    for (size_t i = 0; i < json_array_size(nodes); i++)
        if (strcmp(text_of(json_array_get(nodes, i), "name"), name) == 0)
            return json_array_get(nodes, i);
    return NULL;
}

/* The loss is a cross-entropy of an output, with a number for each class. */
static void
find_classes(const yoke_graph *graph, json_t *json, const json_t *loss, subject *out)
{
    const char *op = text_of(loss, "op"), *name;
    const char *x = json_string_value(json_array_get(json_object_get(loss, "inputs"), 0));
    const yoke_node *node = x ? yoke_graph_get_node(graph, x) : NULL;
    json_t *value;

    out->classes = true;
    out->logits = strcmp(op, "softmax_cross_entropy") == 0;
    out->ignores = json_is_true(json_object_get(loss, "has_ignore_index"));
    out->ignored = json_integer_value(json_object_get(loss, "ignore_index"));
    if ((!out->logits && strcmp(op, "cross_entropy") != 0) || !node ||
        yoke_node_shape(node).rank != 1)
        return;
    out->count = yki_tool_values_of(yoke_node_shape(node));
    json_object_foreach(json_object_get(json, "outputs"), name, value)
    {
        if (!out->output && strcmp(json_string_value(value), x) == 0)
            out->output = strdup(name);
    }
}

/* The loss is of values, and the first output has as many as the target. */
static void
find_values(const yoke_graph *graph, json_t *json, const json_t *loss, size_t count, subject *out)
{
    static const char *const losses[] = {"mean_squared_error", "l1_loss", "huber_loss"};
    json_t *outputs = json_object_get(json, "outputs");
    void *first = json_object_iter(outputs);
    const yoke_node *node;

    node =
        first ? yoke_graph_get_node(graph, json_string_value(json_object_iter_value(first))) : NULL;
    if (!node || yoke_node_type(node) != YOKE_F32 ||
        yki_tool_values_of(yoke_node_shape(node)) != count)
        return;
    out->count = count;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++)
        if (strcmp(text_of(loss, "op"), losses[i]) == 0)
            out->output = strdup(json_object_iter_key(first));
}

/* The graph's text as JSON tells what its loss is of. */
static yoke_status
find_subject(session *s)
{
    const yoke_graph *graph = yoke_model_get_graph(s->model);
    const yoke_field *target = s->source.target;
    const json_t *loss;
    char *text = NULL;
    json_t *json;
    yoke_status status;

    if (s->source.context || !target)
        return YOKE_OK;
    status = yoke_graph_to_json(graph, &text);
    if (status)
        return status;
    json = json_loads(text, 0, NULL);
    yoke_free(text);
    loss = node_of(json, text_of(json, "loss"));
    if (json_is_true(
            json_object_get(node_of(json, yoke_model_get_input(s->model)->name), "sequence")))
        loss = NULL; /* its outputs may have a row for each of the input's */
    if (target->type == YOKE_F32)
        find_values(graph, json, loss, yki_tool_values_of(target->shape), &s->subject);
    else if (target->shape.rank == 0)
        find_classes(graph, json, loss, &s->subject);
    json_decref(json);
    return YOKE_OK;
}

/* What is asked for must be there to be shown. */
static yoke_status
check_wishes(const session *s, const request *w)
{
    const subject *j = &s->subject;
    char sentence[160];

    if (w->per_class && !j->output)
        return yoke_fail(YOKE_ERROR_VALUE, "--per-class is given; must go with a model that says "
                                           "one class or values of a sample");
    if (w->confusion && (!j->output || !j->classes))
        return yoke_fail(YOKE_ERROR_VALUE,
                         "--confusion is given; must go with a model that says one class of a "
                         "sample");
    if (!w->confusion || j->count <= TOOL_MOST_CONFUSED)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence,
             "--confusion is given for %zu classes; must be for at most %d", j->count,
             TOOL_MOST_CONFUSED);
    return yoke_fail(YOKE_ERROR_VALUE, sentence);
}

/* ---- predictions ---- */

/* Some samples at a time. */
typedef struct part {
    size_t room, n; /* of samples; how many there are now */
    int64_t *indices;
    float *results;
    void *targets; /* int32_t or float */
} part;

static yoke_status
make_part(const session *s, size_t most, part *p)
{
    const size_t targets = yki_tool_values_of(s->source.target->shape);
    const size_t size = 4 * (targets + s->subject.count) + sizeof *p->indices;

    p->room = ROOM / size < most ? ROOM / size : most;
    p->room = p->room ? p->room : 1;
    p->indices = malloc(p->room * sizeof *p->indices);
    p->results = malloc(p->room * s->subject.count * sizeof *p->results);
    p->targets = malloc(p->room * targets * 4);
    return p->indices && p->results && p->targets
               ? YOKE_OK
               : yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for samples");
}

static void
free_part(part *p)
{
    free(p->indices);
    free(p->results);
    free(p->targets);
}

/* Bytes become int32_t in place, from the last to the first. */
static yoke_status
read_targets(const session *s, const part *p)
{
    const yoke_field *field = s->source.target;
    const size_t count = p->n * yki_tool_values_of(field->shape);
    yoke_status status = yoke_dataset_read(s->source.train, field->name, p->indices, (int64_t)p->n,
                                           p->targets, count * yki_tool_type_bytes(field->type));

    for (size_t i = count; !status && field->type == YOKE_U8 && i-- > 0;)
        ((int32_t *)p->targets)[i] = ((const uint8_t *)p->targets)[i];
    return status;
}

static void
add_part(session *s, const part *p)
{
    const subject *j = &s->subject;
    const int32_t *labels = p->targets;

    for (size_t i = 0; i < p->n; i++) {
        const float *result = p->results + i * j->count;

        if (!j->classes)
            yki_tool_values_add(&s->values, result, (const float *)p->targets + i * j->count);
        else if (!(j->ignores && labels[i] == j->ignored) && labels[i] >= 0 &&
                 (size_t)labels[i] < j->count)
            yki_tool_classes_add(&s->classes, result, j->logits, (size_t)labels[i]);
    }
}

static yoke_status
judge_part(session *s, part *p)
{
    yoke_status status =
        yoke_trainer_predict_dataset(s->trainer, s->subject.output, s->source.train, p->indices[0],
                                     (int64_t)p->n, p->results, (int64_t)(p->n * s->subject.count));

    if (!status)
        status = read_targets(s, p);
    if (!status)
        add_part(s, p);
    return status;
}

/* Every process gets all results. */
static yoke_status
judge(session *s, const request *w)
{
    const subject *j = &s->subject;
    const int64_t count = yoke_dataset_count(s->source.train);
    part p = {0};
    yoke_status status = make_part(s, AT_ONCE, &p);

    if (!status && !(j->classes ? yki_tool_classes_start(&s->classes, j->count, w->top)
                                : yki_tool_values_start(&s->values, j->count)))
        status = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for metrics");
    for (int64_t first = 0; !status && first < count; first += (int64_t)p.room) {
        p.n = count - first < (int64_t)p.room ? (size_t)(count - first) : p.room;
        for (size_t i = 0; i < p.n; i++)
            p.indices[i] = first + (int64_t)i;
        status = judge_part(s, &p);
    }
    free_part(&p);
    return status;
}

/* ---- evaluation ---- */

static yoke_status
evaluate(session *s, const request *w)
{
    yoke_trainer_options o = yki_tool_trainer_options(&w->training, (yoke_optimizer){0});
    yoke_load_options load;
    yoke_status status = yki_tool_load_model(w->file, &s->model);
    double begun;

    memset(&load, 0, sizeof load);
    if (w->training.adapters)
        load.except = "*.lora_[AB].weight"; /* they come from the folder */

    if (!status && w->training.adapters)
        status = yoke_model_load_adapters(s->model, w->training.adapters);
    if (!status)
        status = open_data(s, w);
    if (!status)
        status = find_subject(s);
    if (!status)
        status = check_wishes(s, w);
    o.batch = choose_batch(s, w);
    if (!status)
        status = yoke_context_create(NULL, &s->context);
    if (!status)
        status = yoke_team_create(s->context, w->training.devices,
                                  &(yoke_team_options){.comm = s->job.comm}, &s->team);
    if (!status)
        status = yoke_trainer_create(s->team, yoke_model_get_graph(s->model), &o, &s->trainer);
    if (!status)
        status = yoke_trainer_load_weights(s->trainer, w->file, &load);
    if (!status && w->training.adapters)
        status = yoke_trainer_load_adapters(s->trainer, w->training.adapters);
    begun = yki_tool_now();
    if (!status)
        status = yki_tool_source_blame(
            w->training.data, yoke_trainer_evaluate(s->trainer, s->source.train, &s->result));
    s->seconds = yki_tool_now() - begun;
    return !status && s->subject.output ? judge(s, w) : status;
}

/* ---- results ---- */

static double
tokens_per_second(const session *s)
{
    return (double)yoke_dataset_text_tokens(s->source.train) / s->seconds;
}

/* False: out of memory. */
static bool
print_metrics(const session *s, const request *w)
{
    if (!s->subject.output)
        return true;
    if (!s->subject.classes)
        return yki_tool_values_print(&s->values, w->per_class, stdout);
    return yki_tool_classes_print(&s->classes, s->model, w->per_class, stdout) &&
           (!w->confusion || yki_tool_confusion_print(&s->classes, s->model, stdout));
}

static bool
print_text(const session *s, const request *w)
{
    const yoke_graph *graph = yoke_model_get_graph(s->model);
    char loss[TOOL_LOSS];

    printf("samples %lld\nloss %s\n", (long long)s->result.samples,
           yki_tool_loss_text(s->result.loss, loss));
    if (s->source.context) {
        const double bits = yki_tool_bits_per_byte(s->source.train, s->result.loss);

        printf("tokens %lld\n", (long long)yoke_dataset_text_tokens(s->source.train));
        printf("perplexity %s\n", yki_tool_loss_text(exp(s->result.loss), loss));
        if (!isnan(bits))
            printf("bits a byte %.4f\n", bits);
        if (s->seconds > 0)
            printf("tokens/s %.0f\n", tokens_per_second(s));
    }
    for (size_t i = 0; i < s->result.metric_count; i++) {
        const char *name = yoke_graph_get_metric_name(graph, i);

        if (strcmp(name, "accuracy") == 0)
            printf("%s %.2f %%\n", name, 100 * s->result.metrics[i]);
        else
            printf("%s %.6g\n", name, s->result.metrics[i]);
    }
    return print_metrics(s, w);
}

static bool
print_json(const session *s)
{
    const yoke_graph *graph = yoke_model_get_graph(s->model);
    yki_tool_json j;

    yki_tool_json_start_line(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_integer(&j, "samples", (uint64_t)s->result.samples);
    yki_tool_json_real(&j, "loss", s->result.loss);
    if (s->source.context) {
        yki_tool_json_integer(&j, "tokens", (uint64_t)yoke_dataset_text_tokens(s->source.train));
        yki_tool_json_real(&j, "perplexity", exp(s->result.loss));
        yki_tool_json_real(&j, "bits_per_byte",
                           yki_tool_bits_per_byte(s->source.train, s->result.loss));
        yki_tool_json_real(&j, "tokens_per_second", s->seconds > 0 ? tokens_per_second(s) : 0);
    }
    yki_tool_json_open_object(&j, "metrics");
    for (size_t i = 0; i < s->result.metric_count; i++)
        yki_tool_json_real(&j, yoke_graph_get_metric_name(graph, i), s->result.metrics[i]);
    yki_tool_json_close_object(&j);
    yki_tool_json_real(&j, "samples_per_second",
                       s->seconds > 0 ? (double)s->result.samples / s->seconds : 0);
    if (s->subject.output && s->subject.classes)
        yki_tool_classes_json(&s->classes, s->model, &j, "classification");
    else if (s->subject.output)
        yki_tool_values_json(&s->values, &j, "regression");
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
    return true;
}

static void
clear(session *s)
{
    yoke_trainer_destroy(s->trainer);
    yoke_team_destroy(s->team);
    yoke_context_destroy(s->context);
    yoke_model_destroy(s->model);
    yki_tool_source_close(&s->source);
    yki_tool_classes_end(&s->classes);
    yki_tool_values_end(&s->values);
    free(s->subject.output);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.training = {.level = YOKE_PLAN_ESTIMATE}, .top = 5};
    session s = {0};
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    status = yki_tool_job_start(self, NULL, &s.job);
    if (status == TOOL_OK) {
        failed = evaluate(&s, &wanted);
        if (!failed && !(wanted.json ? print_json(&s) : print_text(&s, &wanted)))
            failed = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a table");
        if (failed)
            status = yki_tool_fail(self, failed);
    }
    clear(&s);
    return yki_tool_job_end(&s.job, status);
}

const yki_tool_command yki_tool_eval = {
    .name = "yoke eval",
    .synopsis = "--data=DIR [OPTION]... FILE",
    .summary = "test a trained model",
    .description =
        "Compute loss and metrics of a model over the test part of a folder, or all of a\n"
        "file of samples: of classes precision, recall, F1, top-k and calibration, of values\n"
        "R2 and the mean errors. FILE is what \"yoke train --out\" wrote, or a folder of Hugging "
        "Face.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_EVAL, request, training),
    .run = run,
    .example = "yoke eval --data=examples/data digits.safetensors",
};
