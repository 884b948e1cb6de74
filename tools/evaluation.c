/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluation.c - see evaluation.h. A trainer of the library evaluates the model on all devices. If
 * samples have one label, or values, it also predicts them, some at a time, for the metrics of
 * metrics.c. Of other models, as those of texts, there is the loss and what metrics the graph has.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluation.h"
#include "fields.h"
#include "options.h"
#include "progress.h"

enum { BATCH = 256, AT_ONCE = 1 << 14, TOKENS = 8192, ROOM = 64 << 20 };

static yoke_status
open_data(yki_tool_evaluation *s, const yki_tool_training *w)
{
    const yoke_field *input = yoke_model_get_input(s->model);
    yki_tool_reading how = {.channels_last = w->channels_last,
                            .integers = input->type == YOKE_I32,
                            .image = input->shape.rank == 3 ? input->shape : yoke_shape(),
                            .skip_bad = w->bad_images == 1,
                            .weights = w->sample_weights,
                            .model = s->model};
    yki_tool_text text;
    yoke_status status = yki_tool_text_of(yoke_model_get_graph(s->model), &text);

    if (!status && !text.context)
        status = yki_tool_fields_of(yoke_model_get_graph(s->model), &how.fields);
    if (!status)
        status = text.context ? yki_tool_source_open_test_text(w->data, s->model, &text, &s->source)
                              : yki_tool_source_open_test(w->data, &how, &s->source);
    return status ? status : yoke_model_scale_dataset(s->model, s->source.train);
}

/* How many samples are computed at once: of long texts fewer. */
static unsigned
choose_batch(const yki_tool_evaluation *s, const yki_tool_training *w)
{
    const int64_t context = s->source.context;

    if (w->batch)
        return w->batch;
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
find_classes(const yoke_graph *graph, json_t *json, const json_t *loss, yki_tool_subject *out)
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
find_values(const yoke_graph *graph, json_t *json, const json_t *loss, size_t count,
            yki_tool_subject *out)
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
find_subject(yki_tool_evaluation *s)
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

/* ---- predictions ---- */

/* Some samples at a time. */
typedef struct part {
    size_t room, n; /* of samples; how many there are now */
    int64_t *indices;
    float *results;
    void *targets; /* int32_t or float */
} part;

static yoke_status
make_part(const yki_tool_evaluation *s, size_t most, part *p)
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
read_targets(const yki_tool_evaluation *s, const part *p)
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
add_class(yki_tool_evaluation *s, int64_t sample, const float *result, size_t label)
{
    yki_tool_classes_add(&s->classes, result, s->subject.logits, label);
    if (s->on_class)
        s->on_class(s->user, sample, result, label);
}

static void
add_part(yki_tool_evaluation *s, const part *p)
{
    const yki_tool_subject *j = &s->subject;
    const int32_t *labels = p->targets;

    for (size_t i = 0; i < p->n; i++) {
        const float *result = p->results + i * j->count;

        if (!j->classes)
            yki_tool_values_add(&s->values, result, (const float *)p->targets + i * j->count);
        else if (!(j->ignores && labels[i] == j->ignored) && labels[i] >= 0 &&
                 (size_t)labels[i] < j->count)
            add_class(s, p->indices[i], result, (size_t)labels[i]);
    }
}

static yoke_status
judge_part(yki_tool_evaluation *s, part *p)
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
judge(yki_tool_evaluation *s, unsigned top)
{
    const yki_tool_subject *j = &s->subject;
    const int64_t count = yoke_dataset_count(s->source.train);
    part p = {0};
    yoke_status status = make_part(s, AT_ONCE, &p);

    if (!status && !(j->classes ? yki_tool_classes_start(&s->classes, j->count, top)
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

yoke_status
yki_tool_evaluation_load(const char *file, const yki_tool_training *w, yki_tool_evaluation *s)
{
    yoke_status status = yki_tool_load_model(file, &s->model);

    return !status && w->adapters ? yoke_model_load_adapters(s->model, w->adapters) : status;
}

yoke_status
yki_tool_evaluation_open(const yki_tool_training *w, yki_tool_evaluation *s)
{
    yoke_status status = open_data(s, w);

    return status ? status : find_subject(s);
}

yoke_status
yki_tool_evaluation_start(const char *file, const yki_tool_training *w, yoke_comm *comm,
                          yki_tool_evaluation *s)
{
    yoke_trainer_options o = yki_tool_trainer_options(w, (yoke_optimizer){0});
    yoke_load_options load;
    yoke_status status;

    memset(&load, 0, sizeof load);
    if (w->adapters)
        load.except = "*.lora_[AB].weight"; /* they come from the folder */
    o.batch = choose_batch(s, w);
    status = yoke_context_create(NULL, &s->context);
    if (!status)
        status =
            yoke_team_create(s->context, w->devices, &(yoke_team_options){.comm = comm}, &s->team);
    if (!status)
        status = yoke_trainer_create(s->team, yoke_model_get_graph(s->model), &o, &s->trainer);
    if (!status)
        status = yoke_trainer_load_weights(s->trainer, file, &load);
    return !status && w->adapters ? yoke_trainer_load_adapters(s->trainer, w->adapters) : status;
}

yoke_status
yki_tool_evaluation_run(const yki_tool_training *w, unsigned top, yki_tool_evaluation *s)
{
    const double begun = yki_tool_now();
    yoke_status status = yki_tool_source_blame(
        w->data, yoke_trainer_evaluate(s->trainer, s->source.train, &s->result));

    s->seconds = yki_tool_now() - begun;
    return !status && s->subject.output ? judge(s, top) : status;
}

double
yki_tool_evaluation_tokens(const yki_tool_evaluation *s)
{
    return s->seconds > 0 ? (double)yoke_dataset_text_tokens(s->source.train) / s->seconds : 0;
}

static void
print_text_model(const yki_tool_evaluation *s, FILE *stream)
{
    const double bits = yki_tool_bits_per_byte(s->source.train, s->result.loss);
    char loss[TOOL_LOSS];

    fprintf(stream, "tokens %lld\n", (long long)yoke_dataset_text_tokens(s->source.train));
    fprintf(stream, "perplexity %s\n", yki_tool_loss_text(exp(s->result.loss), loss));
    if (!isnan(bits))
        fprintf(stream, "bits a byte %.4f\n", bits);
    if (s->seconds > 0)
        fprintf(stream, "tokens/s %.0f\n", yki_tool_evaluation_tokens(s));
}

bool
yki_tool_evaluation_print(const yki_tool_evaluation *s, bool all, FILE *stream)
{
    const yoke_graph *graph = yoke_model_get_graph(s->model);
    char loss[TOOL_LOSS];

    fprintf(stream, "samples %lld\nloss %s\n", (long long)s->result.samples,
            yki_tool_loss_text(s->result.loss, loss));
    if (s->source.context)
        print_text_model(s, stream);
    for (size_t i = 0; i < s->result.metric_count; i++) {
        const char *name = yoke_graph_get_metric_name(graph, i);

        if (strcmp(name, "accuracy") == 0)
            fprintf(stream, "%s %.2f %%\n", name, 100 * s->result.metrics[i]);
        else
            fprintf(stream, "%s %.6g\n", name, s->result.metrics[i]);
    }
    if (!s->subject.output)
        return true;
    return s->subject.classes ? yki_tool_classes_print(&s->classes, s->model, all, stream)
                              : yki_tool_values_print(&s->values, all, stream);
}

void
yki_tool_evaluation_close(yki_tool_evaluation *s)
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
