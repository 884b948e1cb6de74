/* SPDX-License-Identifier: Apache-2.0
 *
 * predictor.c - a model on one device.
 *
 * Samples go through a loader (replica/loader.c), as in an evaluation, so they are scaled to
 * the same bits. All predictors of a model on a device share its weights there. A lock
 * makes predictors of one model one after the other; afterwards they share nothing that
 * changes.
 */
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "replica/loader.h"
#include "replica/model.h"
#include "replica/replica.h"

struct yoke_predictor {
    yoke_model *model;         /* retained */
    yoke_selection *selection; /* keeps the hardware in its present split */
    yki_weights *weights;      /* borrowed from the model */
    yoke_replica *replica;
    /* The data of each input that the output is computed from, the model's first input first. */
    const yoke_field *fields[YKI_MAX_FIELDS];
    const unsigned char *given[YKI_MAX_FIELDS]; /* the caller's samples; NULL: zeros */
    size_t field_count;
    yoke_dataset *samples; /* one batch, read from `given` */
    yki_loader *loader;
    yki_buffer **inputs; /* of the plan; the loader writes them */
    int64_t *indices;    /* 0, 1, ... */
    const yoke_node *output;
    bool sequence; /* the one input is a sequence, which goes to the device as it is */
    int64_t batch;
};

/* ---- samples ---- */

static yoke_status
fill(void *user, int64_t index, size_t field, void *out)
{
    const yoke_predictor *p = user;
    const size_t bytes = yki_field_size(p->fields[field]);

    if (p->given[field])
        memcpy(out, p->given[field] + (size_t)index * bytes, bytes);
    else
        memset(out, 0, bytes);
    return YOKE_OK;
}

static yoke_status
make_samples(yoke_predictor *p)
{
    const yoke_dataset_options options = {.fill = fill, .user = p};
    yoke_field fields[YKI_MAX_FIELDS];

    for (size_t i = 0; i < p->field_count; i++)
        fields[i] = *p->fields[i];
    YKI_TRY(yoke_dataset_create(p->batch, fields, p->field_count, &options, &p->samples));
    for (size_t i = 0; i < p->field_count; i++) {
        yki_model_input input;

        if (yki_model_info_find(&p->model->info, fields[i].name, &input) && input.scaling.count)
            YKI_TRY(yoke_dataset_set_scaling(p->samples, fields[i].name, input.scaling.mean,
                                             input.scaling.scale, input.scaling.count));
    }
    return yki_dataset_cut(p->samples, p->weights->graph);
}

/* Sequences go to the device as they are. */
static yoke_status
check_sequence(const yoke_predictor *p, const yoke_node *node)
{
    const yki_model_info *info = &p->model->info;

    if (p->field_count > 1)
        return yki_fail(
            YOKE_ERROR_UNSUPPORTED,
            "the model computes from the sequence \"%s\" and from \"%s\"; must have one "
            "input for a predictor, or no sequences",
            node->name, p->fields[strcmp(p->fields[0]->name, node->name) == 0]->name);
    if (info->field.type != node->type || info->scaling.count)
        return yki_fail(
            YOKE_ERROR_UNSUPPORTED,
            "the sequence \"%s\" is made of %s data%s; must be %s without a scaling for "
            "a predictor",
            node->name, yki_value_type_name(info->field.type),
            info->scaling.count ? " with a scaling" : "", yki_value_type_name(node->type));
    return YOKE_OK;
}

static bool
is_read(const yoke_predictor *p, const yoke_node *input)
{
    return yki_plan_is_asked(p->replica->evaluation, input);
}

/* Finds the inputs that the output is computed from. */
static yoke_status
find_inputs(yoke_predictor *p)
{
    const yoke_graph *graph = p->weights->graph;
    yki_model_input input;

    for (size_t i = 0; i < yoke_model_input_count(p->model); i++) {
        const yoke_field *field = yoke_model_get_input_at(p->model, i);

        if (is_read(p, yoke_graph_get_node(graph, field->name)))
            p->fields[p->field_count++] = field;
    }
    for (size_t i = 0; i < yki_loader_input_count(graph); i++) {
        const yoke_node *node = yki_loader_get_input(graph, i);

        if (is_read(p, node) && !yki_model_info_find(&p->model->info, node->name, &input))
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "the model computes from \"%s\" too; must have at most %d inputs, and "
                            "none of them a target, for a predictor",
                            node->name, YKI_MAX_FIELDS);
    }
    return YOKE_OK;
}

static yoke_status
make_feed(yoke_predictor *p)
{
    const yki_loader_options options = {.allow_missing = true, .resident_limit = YKI_FEED_STREAM};
    const yoke_graph *graph = p->weights->graph;
    size_t count = yki_loader_input_count(graph);

    YKI_TRY(find_inputs(p));
    for (size_t i = 0; i < p->field_count; i++) {
        const yoke_node *node = yoke_graph_get_node(graph, p->fields[i]->name);

        if (node->length)
            YKI_TRY(check_sequence(p, node));
        p->sequence = p->sequence || node->length;
    }
    if (p->sequence)
        return YOKE_OK;
    YKI_TRY(make_samples(p));
    YKI_TRY(
        yki_loader_create(p->weights->device, p->samples, graph, p->batch, &options, &p->loader));
    p->inputs = yki_alloc(count, sizeof(yki_buffer *), "a predictor's inputs");
    p->indices = yki_alloc((size_t)p->batch, sizeof *p->indices, "sample numbers");
    if (!p->inputs || !p->indices)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < p->batch; i++)
        p->indices[i] = i;
    for (size_t i = 0; i < count; i++)
        if (is_read(p, yki_loader_get_input(graph, i)))
            p->inputs[i] = yki_plan_buffer(p->replica->evaluation, yki_loader_get_input(graph, i));
    return YOKE_OK;
}

/* ---- making ---- */

/* Returns "; did you mean \"y\"?", or "" if no output has a name near `name`. `near` holds the
 * text. */
static const char *
near_output(const yoke_graph *g, size_t count, const char *name, yki_near *near)
{
    yki_near_start(near, name);
    for (size_t i = 0; i < count; i++)
        yki_near_offer(near, g->outputs[i].name);
    return yki_near_hint(near);
}

static yoke_status
choose_output(yoke_predictor *p, const yoke_predictor_options *o)
{
    const yoke_model *m = p->model;
    const yoke_graph *g = m->predicting;
    size_t count = g->output_count - m->has_function, index = 0;
    yki_near near;

    while (o->output && index < count && strcmp(g->outputs[index].name, o->output) != 0)
        index++;
    if (index == count)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "there is no output \"%s\" of the model%s", o->output,
                        near_output(g, count, o->output, &near));
    if (index == 0 && m->has_function && !o->raw)
        index = count;
    p->output = g->outputs[index].node;
    if (p->output->type != YOKE_F32 || !p->output->batched)
        return yki_fail(YOKE_ERROR_TYPE,
                        "the output \"%s\" does not have floats for each sample; must be f32 and "
                        "depend on an input",
                        g->outputs[index].name);
    return YOKE_OK;
}

static yoke_status
make_on_device(yoke_predictor *p, const yoke_predictor_options *o)
{
    yoke_replica_options options = {.batch = p->batch,
                                    .evaluation_only = true,
                                    .strict = o->strict,
                                    .level = o->level,
                                    .wisdom = o->wisdom,
                                    .precision = o->precision};
    yki_replica_in_team in_team = {0};
    yoke_device *device = yoke_selection_get(p->selection, 0);

    YKI_TRY(yki_model_borrow(p->model, device, &p->weights));
    in_team.lender = p->weights;
    YKI_TRY(choose_output(p, o));
    YKI_TRY(yki_replica_create(device, p->weights->graph, &options, &in_team, &p->replica));
    YKI_TRY(yki_plan_ask(p->replica->evaluation, &p->output, 1));
    return make_feed(p);
}

static yoke_status
make(yoke_predictor *p, yoke_context *context, const char *selector,
     const yoke_predictor_options *o)
{
    const yoke_selection_options holder = {.holder = "a predictor"};
    yoke_status status;

    YKI_TRY(yoke_selection_create(context, selector, &holder, &p->selection));
    pthread_mutex_lock(&p->model->lock);
    status = make_on_device(p, o);
    pthread_mutex_unlock(&p->model->lock);
    return status;
}

yoke_status
yoke_predictor_create_sized(yoke_context *context, const char *selector, yoke_model *model,
                            const yoke_predictor_options *options, size_t size,
                            yoke_predictor **out)
{
    yoke_predictor_options o = {0};
    yoke_predictor *p;
    yoke_status status;

    YKI_GIVEN("yoke_predictor_create", {"context", context}, {"model", model}, {"predictor", out});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (o.batch < 0 || o.batch > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "batch", o.batch, 0, INT32_MAX);
    p = yki_alloc(1, sizeof *p, "a predictor");
    if (!p)
        return YOKE_ERROR_OUT_OF_MEMORY;
    p->model = yki_model_retain(model);
    p->batch = o.batch ? o.batch : 64;
    status = make(p, context, selector, &o);
    if (status != YOKE_OK) {
        yoke_predictor_destroy(p);
        return status;
    }
    *out = p;
    return YOKE_OK;
}

void
yoke_predictor_destroy(yoke_predictor *p)
{
    if (!p)
        return;
    yki_loader_destroy(p->loader);
    yoke_replica_destroy(p->replica);
    yoke_dataset_destroy(p->samples);
    if (p->weights) {
        pthread_mutex_lock(&p->model->lock);
        yki_model_give_back(p->model, p->weights);
        pthread_mutex_unlock(&p->model->lock);
    }
    yki_free(p->inputs);
    yki_free(p->indices);
    yoke_selection_destroy(p->selection);
    yoke_model_destroy(p->model);
    yki_free(p);
}

yoke_shape
yoke_predictor_get_shape(const yoke_predictor *p)
{
    return p ? yki_whole_shape(p->output) : yoke_shape();
}

/* ---- predicting ---- */

/* The caller's samples, of one call. */
typedef struct given {
    const yoke_feed *feeds[YKI_MAX_FIELDS]; /* in the order of the predictor's fields */
    int64_t n, length;
} given;

/* Enqueues samples [first, first + n) of the inputs on their way to the plan. */
static yoke_status
give(yoke_predictor *p, const given *g, int64_t first, int64_t n)
{
    if (p->sequence)
        return yki_replica_give(p->replica, p->replica->evaluation, p->fields[0]->name, g->length,
                                first, n, g->feeds[0]->data);
    for (size_t i = 0; i < p->field_count; i++)
        p->given[i] =
            (const unsigned char *)g->feeds[i]->data + (size_t)first * yki_field_size(p->fields[i]);
    return yki_loader_load(p->loader, p->replica->queue,
                           &(yki_samples){.indices = p->indices, .n = n}, p->inputs);
}

static yoke_status
predict_chunk(yoke_predictor *p, const given *g, int64_t first, int64_t n, float *output)
{
    yki_plan *plan = p->replica->evaluation;
    int64_t row = yki_sample_count(p->output, g->length);

    YKI_TRY(give(p, g, first, n));
    YKI_TRY(yki_plan_enqueue(plan, YKI_FORWARD, (yki_extents){n, g->length}, NULL));
    return yki_queue_read(p->replica->queue, yki_plan_buffer(plan, p->output), 0,
                          (uint64_t)(n * row) * sizeof *output, output + first * row, YKI_NO_WAIT,
                          NULL);
}

static yoke_status
wrong_name(const yoke_predictor *p, const char *name)
{
    char names[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < p->field_count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%s\"", i ? ", " : "",
                                 p->fields[i]->name);
    if (p->field_count == 1)
        return yki_fail(
            YOKE_ERROR_NOT_FOUND,
            "yoke_predictor_run: the name of the feed is \"%s\"; must be %s, the model's input",
            name ? name : "", names);
    return yki_fail(
        YOKE_ERROR_NOT_FOUND,
        "yoke_predictor_run: the name of a feed is \"%s\"; must be one of %s, the model's inputs",
        name ? name : "", names);
}

/* Puts the feeds in the order of the fields: one for each. */
static yoke_status
match_feeds(const yoke_predictor *p, const yoke_feed *feeds, size_t count, given *g)
{
    for (size_t i = 0; i < count; i++) {
        size_t f = 0;

        while (f < p->field_count && feeds[i].name && strcmp(p->fields[f]->name, feeds[i].name))
            f++;
        if (f == p->field_count || !feeds[i].name)
            return wrong_name(p, feeds[i].name);
        if (g->feeds[f])
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "yoke_predictor_run: feed \"%s\" is given twice; must be given once",
                            feeds[i].name);
        g->feeds[f] = &feeds[i];
    }
    for (size_t f = 0; f < p->field_count; f++)
        if (!g->feeds[f])
            return yki_fail(
                YOKE_ERROR_NOT_FOUND,
                "yoke_predictor_run: nothing is given for the input \"%s\"; must have a "
                "feed",
                p->fields[f]->name);
    return YOKE_OK;
}

static yoke_status
check_inputs(const yoke_predictor *p, const yoke_feed *feeds, size_t count, given *g)
{
    YKI_TRY(match_feeds(p, feeds, count, g));
    for (size_t i = 0; i < p->field_count; i++) {
        const yoke_field *field = p->fields[i];
        const yoke_node *node = yoke_graph_get_node(p->weights->graph, field->name);

        if (p->sequence)
            YKI_TRY(yki_check_feed("yoke_predictor_run", g->feeds[i], node, g->n, &g->length));
        else
            YKI_TRY(yki_check_feed_of("yoke_predictor_run", g->feeds[i], field->type, field->shape,
                                      g->n));
        YKI_TRY(yki_check_labels(node, g->length, g->n, g->feeds[i]->data));
    }
    return YOKE_OK;
}

static yoke_status
check_output(const yoke_predictor *p, int64_t n, int64_t length, int64_t count)
{
    int64_t row = yki_sample_count(p->output, n ? length : p->output->length);
    char text[128];

    if (count / row != n || count % row != 0)
        return yki_fail(
            YOKE_ERROR_SHAPE,
            "yoke_predictor_run: output has room for %lld values; must be %.0f for %lld "
            "results of %s%s",
            (long long)count, (double)n * (double)row, (long long)n,
            yki_shape_text(p->output->shape, text, sizeof text),
            p->output->length ? " for each row" : "");
    return YOKE_OK;
}

yoke_status
yoke_predictor_run_feeds(yoke_predictor *p, int64_t n, const yoke_feed *feeds, size_t feed_count,
                         float *output, int64_t count)
{
    yoke_status status = YOKE_OK, finished;
    given g = {.n = n};

    YKI_GIVEN("yoke_predictor_run", {"predictor", p}, {"output", n ? (const void *)output : ""},
              {"feeds", feed_count ? (const void *)feeds : ""});
    if (n < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples", n, 0,
                              INT64_MAX);
    YKI_TRY(check_inputs(p, feeds, feed_count, &g));
    YKI_TRY(check_output(p, n, g.length, count));
    for (int64_t first = 0; first < n && status == YOKE_OK; first += p->batch)
        status = predict_chunk(p, &g, first, YKI_MIN(p->batch, n - first), output);
    memset(p->given, 0, sizeof p->given);
    /* Also after a failure, because enqueued reads write to the caller's output. */
    finished = yki_queue_finish(p->replica->queue);
    return status == YOKE_OK ? finished : status;
}

yoke_status
yoke_predictor_run(yoke_predictor *p, int64_t n, yoke_feed input, float *output, int64_t count)
{
    return yoke_predictor_run_feeds(p, n, &input, 1, output, count);
}
