/* SPDX-License-Identifier: Apache-2.0
 *
 * replica.c - a graph on one device: its weights, a training plan, an evaluation plan
 * that is made when it is first needed, and the optimizer.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "replica/compilers.h"
#include "replica/replica.h"

/* ---- creation ---- */

/* Refuses a batch for which the size of a value would overflow. */
static yoke_status
check_batch(const yoke_replica_options *o, const yoke_graph *graph)
{
    char text[160];

    if (o->batch < 1 || o->batch > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "batch", o->batch, 1, INT32_MAX);
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->batched &&
            yki_shape_count(yki_whole_shape(graph->nodes[i])) > (INT64_C(1) << 48) / o->batch)
            return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                            "\"%s\" has shape %s, and %lld samples of it are more than any device "
                            "holds; take a smaller batch",
                            graph->nodes[i]->name,
                            yki_shape_text(yki_whole_shape(graph->nodes[i]), text, sizeof text),
                            (long long)o->batch);
    return YOKE_OK;
}

static yoke_status
check_options(const yoke_replica_options *o, const yoke_graph *graph)
{
    YKI_TRY(check_batch(o, graph));
    YKI_TRY(yki_precision_check(o->precision, graph));
    if ((unsigned)o->recompute > YOKE_RECOMPUTE_CHEAP)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "recompute", (int)o->recompute,
                              YOKE_RECOMPUTE_NOTHING, YOKE_RECOMPUTE_CHEAP);
    if ((unsigned)o->state > YOKE_STATE_BF16)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "state is %d; must be YOKE_STATE_F32 or YOKE_STATE_BF16", (int)o->state);
    if ((unsigned)o->level > YOKE_PLAN_PATIENT)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "level", (int)o->level, 0,
                              YOKE_PLAN_PATIENT);
    if (!o->evaluation_only && !graph->loss)
        return yki_fail(
            YOKE_ERROR_STATE,
            "the graph has no loss; call yoke_graph_set_loss before, or set evaluation_only");
    return YOKE_OK;
}

static yoke_status
collect_inputs(yoke_replica *r)
{
    yoke_graph *graph = r->weights->graph;

    r->inputs = yki_alloc(graph->node_count, sizeof *r->inputs, "a replica's inputs");
    if (!r->inputs)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_INPUT)
            r->inputs[r->input_count++].node = graph->nodes[i];
    return YOKE_OK;
}

yoke_status
yki_open_wisdom(yoke_device *device, const char *given, yki_wisdom **wisdom)
{
    const char *path = given ? given : getenv("YOKE_WISDOM");
    const char *cache = yki_context_cache_dir(yki_device_context(device));
    char *in_cache = NULL;
    yoke_status status;

    if (!path && cache) {
        in_cache = yki_format("%s/wisdom", cache);
        if (!in_cache)
            return YOKE_ERROR_OUT_OF_MEMORY;
        path = in_cache;
    }
    status = yki_wisdom_open(path, wisdom);
    yki_free(in_cache);
    return status;
}

static yki_plan_options
plan_options(const yoke_replica *r, bool training, bool team)
{
    return (yki_plan_options){.max.batch = r->options.batch,
                              .training = training,
                              .strict = r->options.strict,
                              .precision = r->precision,
                              .scales_loss = training && r->scales_loss,
                              .team = team,
                              .small = r->options.recompute == YOKE_RECOMPUTE_CHEAP &&
                                       !r->options.recompute_bytes,
                              .most = training ? r->options.recompute_bytes : 0,
                              .repeats = r->repeats,
                              .canonical = r->canonical,
                              .lag = r->lag,
                              .late_sums = training && !r->overlaps,
                              .level = r->options.level,
                              .classes = r->classes,
                              .class_count = r->class_count,
                              .tick = r->tick,
                              .tick_user = r->tick_user,
                              .rehearsal = yki_compilers_rehearsal(r->compilers),
                              .wisdom = r->wisdom};
}

/* Saves wisdom. A failure is only logged: the next run measures again. */
static void
keep_wisdom(const yoke_replica *r)
{
    if (yki_wisdom_save(r->wisdom) != YOKE_OK)
        yki_log(YOKE_LOG_WARNING, "%s", yoke_last_error());
}

yoke_status
yki_replica_plan_again(yoke_replica *r, yki_weights *weights, yki_plan **plan)
{
    const yki_plan_options *made = &r->training->options;
    yki_plan_options options = plan_options(r, true, made->team);

    options.small = made->small; /* also where it was made again, as memory was short */
    options.no_join = made->no_join;
    if (r->canonical) /* else two plans may differ */
        options.packer = r->training;
    return yki_plan_create(weights, r->queue, &options, plan);
}

static yoke_status
make_plan(yoke_replica *r, bool training, bool team, yki_plan **plan)
{
    yki_plan_options options = plan_options(r, training, team);

    options.spent = training ? r->surveyed : 0;
    YKI_TRY(yki_plan_create(r->weights, r->queue, &options, plan));
    keep_wisdom(r);
    return YOKE_OK;
}

yoke_status
yki_replica_survey(yoke_replica *r, const yki_replica_in_team *in_team, yki_costs *costs)
{
    yki_plan_options options = plan_options(r, !r->options.evaluation_only, in_team->merges);

    YKI_TRY(yki_plan_survey(r->weights, r->queue, &options, costs, &r->surveyed));
    keep_wisdom(r);
    return YOKE_OK;
}

yoke_status
yki_replica_estimate(yoke_replica *r, const yki_replica_in_team *in_team, const yki_estimate *of,
                     uint64_t *bytes)
{
    yki_plan_options options = plan_options(r, !of->evaluation, in_team->merges && !of->evaluation);

    options.most = of->most ? of->most : options.most;
    r->weights->transient = of->transient;
    r->weights->divided = of->divided;
    return of->least ? yki_plan_least(r->weights, r->queue, &options, bytes)
                     : yki_plan_estimate(r->weights, r->queue, &options, bytes);
}

yoke_status
yki_replica_find_loads(yoke_replica *r, yki_load *loads, bool *measured)
{
    yki_plan_options options = plan_options(r, true, false);

    YKI_TRY(yki_plan_find_loads(r->weights, r->queue, &options, loads, measured));
    keep_wisdom(r);
    return YOKE_OK;
}

yoke_status
yki_replica_make_updater(yoke_replica *r, const yoke_replica_options *o,
                         const yki_replica_in_team *in_team)
{
    yki_updater_options options = {.optimizer = r->options.optimizer,
                                   .groups = o->groups,
                                   .group_count = o->group_count,
                                   .clip_norm = o->clip_norm,
                                   .clip_value = o->clip_value,
                                   .owner = in_team->owner,
                                   .owners = in_team->owners,
                                   .ranges = in_team->ranges,
                                   .shard = in_team->shard,
                                   .divides = in_team->divides,
                                   .norm_parts = in_team->norm_parts,
                                   .settle = in_team->settle,
                                   .state = o->state,
                                   .average = in_team->average};
    yki_buffer *loss = in_team->totals;

    if (!loss)
        loss = yki_plan_buffer(r->training, r->weights->graph->loss_sum);
    return yki_updater_create(r->weights, r->queue, loss, r->training->step_values, &options,
                              &r->updater);
}

static yoke_status
make_training(yoke_replica *r, const yoke_replica_options *o, const yki_replica_in_team *in_team)
{
    YKI_TRY(make_plan(r, true, in_team->merges, &r->training));
    return in_team->waits ? YOKE_OK : yki_replica_make_updater(r, o, in_team);
}

void
yki_replica_unplan(yoke_replica *r)
{
    yki_updater_destroy(r->updater);
    yki_plan_destroy(r->training);
    r->updater = NULL;
    r->training = NULL;
}

yoke_status
yki_replica_plan(yoke_replica *r, const yoke_replica_options *o, const yki_replica_in_team *in_team)
{
    yoke_status status;

    if (o->evaluation_only)
        return make_plan(r, false, false, &r->evaluation);
    status = make_training(r, o, in_team);
    if (status != YOKE_OK)
        yki_replica_unplan(r);
    return status;
}

static yoke_status
open(yoke_replica *r, yoke_device *device, yoke_graph *graph, const yoke_replica_options *o,
     const yki_replica_in_team *in_team)
{
    r->tick = in_team->tick;
    r->tick_user = in_team->tick_user;
    r->repeats = in_team->accumulates;
    r->overlaps = in_team->overlaps;
    r->canonical = in_team->canonical;
    r->lag = in_team->lag;
    r->scales_loss = in_team->scales_loss;
    r->loss_scale = 1;
    if (in_team->weights)
        r->weights = yki_weights_retain(in_team->weights);
    else if (in_team->divides)
        YKI_TRY(yki_weights_create_transient(device, graph, in_team->bucket_size, in_team->lender,
                                             in_team->gathers, &r->weights));
    else
        YKI_TRY(yki_weights_create(device, graph, !o->evaluation_only, in_team->bucket_size,
                                   in_team->lender, &r->weights));
    YKI_TRY(yki_queue_create(device, in_team->timed, &r->queue));
    if (!in_team->lender)
        YKI_TRY(yki_weights_initialize(r->weights, o->seed));
    YKI_TRY(collect_inputs(r));
    if (o->precision) {
        r->precision = yki_strdup(o->precision, "a precision");
        if (!r->precision)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (!r->weights->placed) /* a stage's plan is not the whole graph's */
        YKI_TRY(yki_compilers_create(device, graph, &r->compilers));
    return yki_open_wisdom(device, o->wisdom, &r->wisdom);
}

yoke_status
yki_replica_open(yoke_device *device, yoke_graph *graph, const yoke_replica_options *options,
                 const yki_replica_in_team *in_team, yoke_replica **out)
{
    yoke_replica_options o = *options;
    yoke_replica *r;
    yoke_status status;

    YKI_TRY(yoke_graph_status(graph));
    YKI_TRY(check_options(&o, graph));
    yki_optimizer_complete(&o.optimizer);
    r = yki_alloc(1, sizeof *r, "a replica");
    if (!r)
        return YOKE_ERROR_OUT_OF_MEMORY;
    r->options = o;
    r->options.groups = NULL;
    r->options.wisdom = NULL;
    r->options.precision = NULL;
    r->step = 1;
    r->seed = o.seed;
    r->batch = -1;
    status = open(r, device, graph, &o, in_team);
    if (status != YOKE_OK) {
        yoke_replica_destroy(r);
        return status;
    }
    *out = r;
    return YOKE_OK;
}

yoke_status
yki_replica_create(yoke_device *device, yoke_graph *graph, const yoke_replica_options *options,
                   const yki_replica_in_team *in_team, yoke_replica **out)
{
    const yki_replica_in_team alone = {.owners = 1};
    yoke_replica *r;
    yoke_status status;

    in_team = in_team ? in_team : &alone;
    YKI_TRY(yki_replica_open(device, graph, options, in_team, &r));
    status = yki_replica_plan(r, options, in_team);
    if (status != YOKE_OK) {
        yoke_replica_destroy(r);
        return status;
    }
    *out = r;
    return YOKE_OK;
}

yoke_status
yoke_replica_create_sized(yoke_device *device, yoke_graph *graph,
                          const yoke_replica_options *options, size_t size, yoke_replica **out)
{
    yoke_replica_options o = {0};

    YKI_GIVEN("yoke_replica_create", {"device", device}, {"graph", graph}, {"options", options},
              {"replica", out});
    memcpy(&o, options, YKI_MIN(size, sizeof o));
    YKI_TRY(yoke_graph_status(graph));
    YKI_TRY(yki_check_settings(&o, graph));
    return yki_replica_create(device, graph, &o, NULL, out);
}

void
yoke_replica_destroy(yoke_replica *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->input_count; i++)
        for (size_t k = 0; k < YKI_RING; k++)
            yki_staging_free(&r->inputs[i].ring[k]);
    for (size_t k = 0; k < YKI_COUNT(r->steps); k++)
        yki_staging_free(&r->steps[k]);
    yki_free(r->inputs);
    for (size_t i = 0; i < r->lent.count; i++)
        yki_free(r->lent.list[i]);
    yki_free(r->lent.list);
    yki_updater_destroy(r->updater);
    yki_plan_destroy(r->training);
    yki_plan_destroy(r->evaluation);
    yki_queue_destroy(r->transfer);
    yki_queue_destroy(r->queue);
    yki_wisdom_close(r->wisdom);
    yki_compilers_destroy(r->compilers);
    yki_free(r->precision);
    yki_weights_release(r->weights);
    yki_free(r);
}

/* ---- parameters by name ---- */

static yoke_status
check_count(const yki_weight *weight, int64_t count)
{
    char text[128];

    if ((uint64_t)count != weight->size / 4)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" has shape %s; the number of values is %lld; must be %lld",
                        weight->node->name, yki_shape_text(weight->node->shape, text, sizeof text),
                        (long long)count, (long long)(weight->size / 4));
    return YOKE_OK;
}

yoke_status
yoke_replica_write(yoke_replica *r, const char *name, const float *values, int64_t count)
{
    yki_weight *weight;

    YKI_GIVEN(__func__, {"replica", r}, {"name", name}, {"values", values});
    weight = yki_weights_find(r->weights, name);
    if (!weight)
        return YOKE_ERROR_NOT_FOUND;
    YKI_TRY(check_count(weight, count));
    YKI_TRY(yki_queue_finish(r->queue));
    YKI_TRY(yki_buffer_put(weight->value, 0, weight->size, values));
    r->weights->version++;
    return YOKE_OK;
}

yoke_status
yoke_replica_read(yoke_replica *r, const char *name, float *values, int64_t count)
{
    yki_weight *weight;

    YKI_GIVEN(__func__, {"replica", r}, {"name", name}, {"values", values});
    weight = yki_weights_find(r->weights, name);
    if (!weight)
        return YOKE_ERROR_NOT_FOUND;
    YKI_TRY(check_count(weight, count));
    YKI_TRY(yki_queue_finish(r->queue));
    return yki_buffer_get(weight->value, 0, weight->size, values);
}

yoke_status
yoke_replica_read_gradient(yoke_replica *r, const char *name, float *values, int64_t count)
{
    yki_weight *weight;

    YKI_GIVEN(__func__, {"replica", r}, {"name", name}, {"values", values});
    weight = yki_weights_find(r->weights, name);
    if (!weight)
        return YOKE_ERROR_NOT_FOUND;
    if (!weight->gradient || !weight->node->gradient)
        return yki_fail(YOKE_ERROR_STATE,
                        "\"%s\" has no gradient; must be a parameter that is trained", name);
    YKI_TRY(check_count(weight, count));
    YKI_TRY(yki_queue_finish(r->queue));
    return yki_buffer_get(weight->gradient, 0, weight->size, values);
}

yoke_status
yoke_replica_initialize(yoke_replica *r, uint32_t seed)
{
    YKI_GIVEN(__func__, {"replica", r});
    YKI_TRY(yki_queue_finish(r->queue));
    YKI_TRY(yki_weights_initialize(r->weights, seed));
    if (r->updater)
        YKI_TRY(yki_updater_reset(r->updater));
    r->seed = seed;
    r->step = 1;
    r->stage = YKI_STAGE_NONE;
    return yki_queue_finish(r->queue);
}

/* ---- steps ---- */

yoke_status
yki_replica_make_evaluation(yoke_replica *r)
{
    yoke_status status;

    if (r->evaluation)
        return YOKE_OK;
    status = make_plan(r, false, false, &r->evaluation);
    if (!yki_lacks_memory(status) || r->in_line)
        return status;
    YKI_TRY(yki_replica_close_way(r));
    return make_plan(r, false, false, &r->evaluation);
}

yoke_status
yki_replica_give(yoke_replica *r, yki_plan *plan, const char *name, int64_t length, int64_t first,
                 int64_t n, const void *data)
{
    for (size_t i = 0; i < r->input_count; i++) {
        yki_replica_input *in = &r->inputs[i];
        uint64_t row = (uint64_t)yki_sample_count(in->node, length) * yki_type_size(in->node->type);

        if (strcmp(in->node->name, name) == 0)
            return yki_replica_upload(r, in, plan, (const char *)data + (uint64_t)first * row,
                                      (uint64_t)n * row);
    }
    return yki_graph_no_input(r->weights->graph, name);
}

yoke_status
yoke_replica_set_input(yoke_replica *r, int64_t n, yoke_feed feed)
{
    YKI_GIVEN(__func__, {"replica", r}, {"the name of the feed", feed.name});
    if (n < 0 || n > r->options.batch)
        return yki_fail(
            YOKE_ERROR_INVALID_ARGUMENT,
            "input \"%s\": the number of samples is %lld; must be between 0 and %lld, the batch",
            feed.name, (long long)n, (long long)r->options.batch);
    for (size_t i = 0; i < r->input_count; i++) {
        yki_replica_input *in = &r->inputs[i];
        int64_t length = 0;
        uint64_t size = (uint64_t)feed.count * yki_type_size(in->node->type);

        if (strcmp(in->node->name, feed.name) != 0)
            continue;
        YKI_TRY(yki_check_feed(__func__, &feed, in->node, n, &length));
        YKI_TRY(yki_check_labels(in->node, length, n, feed.data));
        YKI_TRY(yki_replica_upload(r, in, r->training, feed.data, size));
        YKI_TRY(yki_replica_upload(r, in, r->evaluation, feed.data, size));
        in->given = n;
        in->length = length;
        return YOKE_OK;
    }
    return yki_graph_no_input(r->weights->graph, feed.name);
}

yoke_status
yki_replica_send_step(yoke_replica *r, yki_plan *plan, float rate_factor)
{
    yki_staging *s = &r->steps[r->next_step];
    yki_step_values values = {.step = r->step,
                              .seed = {r->seed, 0},
                              .loss_scale = r->loss_scale,
                              .unscale = 1 / r->loss_scale};
    uint64_t first = r->first_sample;

    values.first_sample[0] = (uint32_t)first;
    values.first_sample[1] = (uint32_t)(first >> 32);
    if (r->updater)
        yki_updater_fill(r->updater, r->step - r->skipped, rate_factor, &values);
    r->next_step = (r->next_step + 1) % YKI_COUNT(r->steps);
    YKI_TRY(yki_staging_get(s, r->weights->device, sizeof values));
    memcpy(s->memory, &values, sizeof values);
    return yki_queue_write(r->queue, plan->step_values, 0, offsetof(yki_step_values, inverse_count),
                           s->memory, YKI_NO_WAIT, &s->busy);
}

/* Finds an input that the plan reads and that was given for fewer than n samples; NULL: none. */
static const yki_replica_input *
find_missing(const yoke_replica *r, const yki_plan *plan, int64_t n)
{
    for (size_t i = 0; i < r->input_count; i++)
        if (r->inputs[i].given < n && yki_plan_buffer(plan, r->inputs[i].node))
            return &r->inputs[i];
    return NULL;
}

static yoke_status
fail_missing(const yki_replica_input *in, int64_t n)
{
    return yki_fail(YOKE_ERROR_STATE,
                    "input \"%s\" has %lld samples; must have at least %lld; call "
                    "yoke_replica_set_input before",
                    in->node->name, (long long)in->given, (long long)n);
}

/* Gives the length of the sequences that the plan reads and that were given; they must agree. */
static yoke_status
find_length(const yoke_replica *r, const yki_plan *plan, int64_t n, int64_t *length)
{
    const yki_replica_input *first = NULL;

    for (size_t i = 0; i < r->input_count; i++) {
        const yki_replica_input *in = &r->inputs[i];

        if (!in->length || in->given < n || !yki_plan_buffer(plan, in->node))
            continue;
        first = first ? first : in;
        if (in->length != first->length)
            return yki_fail_lengths("yoke_replica_set_input", in->node->name, in->length,
                                    first->node->name, first->length);
    }
    *length = first ? first->length : 0;
    return YOKE_OK;
}

static yoke_status
check_given(const yoke_replica *r, const yki_plan *plan, int64_t n, int64_t *length)
{
    const yki_replica_input *in = find_missing(r, plan, n);

    return in ? fail_missing(in, n) : find_length(r, plan, n, length);
}

/* Marks, by node id, what cannot be computed because inputs were not given. */
static void
mark_unknown(const yoke_replica *r, int64_t n, bool *unknown)
{
    const yoke_graph *graph = r->weights->graph;

    for (size_t i = 0; i < r->input_count; i++)
        unknown[r->inputs[i].node->id] = r->inputs[i].given < n;
    for (size_t i = 0; i < graph->node_count; i++) {
        yoke_node *inputs[YKI_MAX_INPUTS];
        const yki_op *op;
        uint32_t count;

        if (!graph->nodes[i]->op)
            continue;
        count = yki_effective(graph->nodes[i], false, &op, inputs);
        for (uint32_t k = 0; k < count; k++)
            unknown[i] |= unknown[inputs[k]->id];
    }
}

/* Lists the results that can be computed; `known` has room for all. */
static size_t
list_known(const yoke_graph *graph, const bool *unknown, const yoke_node **known)
{
    size_t count = 0;

    for (size_t i = 0; i < graph->output_count; i++)
        if (!unknown[graph->outputs[i].node->id])
            known[count++] = graph->outputs[i].node;
    if (graph->loss_sum && !unknown[graph->loss_sum->id])
        known[count++] = graph->loss_sum;
    for (size_t i = 0; i < graph->metric_count; i++)
        if (!unknown[graph->metrics[i].sum->id])
            known[count++] = graph->metrics[i].sum;
    return count;
}

/* Asks the evaluation plan for the results that can be computed: without targets those are the
 * outputs, but neither loss nor metrics. Fails if no result can be computed. */
static yoke_status
ask_for_known(yoke_replica *r, int64_t n)
{
    const yoke_graph *graph = r->weights->graph;
    const yki_replica_input *in = find_missing(r, r->evaluation, n);
    const yoke_node **known;
    yoke_status status = YOKE_OK;
    bool *unknown;
    size_t count;

    if (!in) {
        r->missing = NULL;
        return yki_plan_ask(r->evaluation, NULL, 0);
    }
    unknown = yki_alloc(graph->node_count, sizeof *unknown, "what can be evaluated");
    known = yki_alloc(graph->output_count + 1 + graph->metric_count, sizeof(const yoke_node *),
                      "what can be evaluated");
    if (unknown && known) {
        mark_unknown(r, n, unknown);
        count = list_known(graph, unknown, known);
        status = count ? yki_plan_ask(r->evaluation, known, count) : fail_missing(in, n);
    }
    status = unknown && known ? status : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        r->missing = in->node;
    yki_free(unknown);
    yki_free(known);
    return status;
}

static yoke_status
check_range(const yoke_replica *r, int64_t n)
{
    if (n < 0 || n > r->options.batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the number of samples is %lld; must be between 0 and %lld, the batch",
                        (long long)n, (long long)r->options.batch);
    return YOKE_OK;
}

yoke_status
yoke_replica_forward(yoke_replica *r, int64_t n)
{
    int64_t length;

    YKI_GIVEN(__func__, {"replica", r});
    if (!r->training)
        return yki_fail(
            YOKE_ERROR_STATE,
            "the replica was made for evaluation only; make one without evaluation_only");
    YKI_TRY(check_range(r, n));
    YKI_TRY(check_given(r, r->training, n, &length));
    r->stage = YKI_STAGE_NONE;
    YKI_TRY(yki_replica_send_step(r, r->training, 1));
    YKI_TRY(yki_plan_enqueue(r->training, YKI_FORWARD, (yki_extents){n, length}, NULL));
    r->newest = r->training;
    r->batch = n;
    r->stage = YKI_STAGE_FORWARD;
    return YOKE_OK;
}

yoke_status
yoke_replica_backward(yoke_replica *r)
{
    YKI_GIVEN(__func__, {"replica", r});
    if (r->stage != YKI_STAGE_FORWARD)
        return yki_fail(YOKE_ERROR_STATE,
                        "yoke_replica_forward must come before each yoke_replica_backward");
    r->stage = YKI_STAGE_NONE;
    YKI_TRY(yki_plan_enqueue(r->training, YKI_BACKWARD, r->training->extents, NULL));
    r->stage = YKI_STAGE_BACKWARD;
    return YOKE_OK;
}

yoke_status
yoke_replica_update(yoke_replica *r, float rate_factor)
{
    YKI_GIVEN(__func__, {"replica", r});
    if (!(rate_factor >= 0 && rate_factor <= FLT_MAX))
        return yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, "yoke_replica_update: rate_factor",
                                   (double)rate_factor, 0, FLT_MAX);
    if (r->stage != YKI_STAGE_BACKWARD)
        return yki_fail(YOKE_ERROR_STATE, "yoke_replica_forward and yoke_replica_backward must "
                                          "come before each yoke_replica_update");
    r->stage = YKI_STAGE_NONE;
    if (rate_factor != 1)
        YKI_TRY(yki_replica_send_step(r, r->training, rate_factor));
    YKI_TRY(yki_updater_enqueue(r->updater));
    YKI_TRY(yki_plan_commit_states(r->training));
    YKI_TRY(yki_queue_flush(r->queue));
    r->step++;
    return YOKE_OK;
}

yoke_status
yoke_replica_evaluate(yoke_replica *r, int64_t n)
{
    int64_t length;
    bool first;

    YKI_GIVEN(__func__, {"replica", r});
    first = !r->evaluation;
    YKI_TRY(check_range(r, n));
    YKI_TRY(yki_replica_make_evaluation(r));
    /* Inputs that were given before this plan was made are in the training plan's buffers. */
    for (size_t i = 0; first && r->training && i < r->input_count; i++) {
        yki_buffer *from = yki_plan_buffer(r->training, r->inputs[i].node);
        yki_buffer *to = yki_plan_buffer(r->evaluation, r->inputs[i].node);

        if (from && to)
            YKI_TRY(
                yki_queue_copy(r->queue, from, 0, to, 0, yki_buffer_size(to), YKI_NO_WAIT, NULL));
    }
    r->stage = YKI_STAGE_NONE;
    YKI_TRY(find_length(r, r->evaluation, n, &length));
    YKI_TRY(ask_for_known(r, n));
    YKI_TRY(yki_plan_enqueue(r->evaluation, YKI_FORWARD, (yki_extents){n, length}, NULL));
    r->newest = r->evaluation;
    r->batch = n;
    return YOKE_OK;
}

/* ---- results ---- */

/* Finds the buffer of a result; fails if the newest run has not computed it. */
static yoke_status
find_result(const yoke_replica *r, const yoke_node *node, yki_buffer **buffer)
{
    *buffer = r->newest ? yki_plan_buffer(r->newest, node) : NULL;
    if (!*buffer)
        return yki_fail(
            YOKE_ERROR_STATE,
            "nothing was computed yet; call yoke_replica_forward or yoke_replica_evaluate before");
    if (!yki_plan_is_asked(r->newest, node))
        return yki_fail(YOKE_ERROR_STATE,
                        "it was not computed, because yoke_replica_evaluate had no data for the "
                        "input \"%s\"; give it with yoke_replica_set_input",
                        r->missing->name);
    return YOKE_OK;
}

static yoke_status
read_pair(yoke_replica *r, const char *name, const yoke_node *node, double *sum, double *count)
{
    float pair[2] = {0, (float)r->batch};
    yki_buffer *buffer;
    yoke_status status = find_result(r, node, &buffer);

    if (status != YOKE_OK)
        return yki_fail_in(status, name);
    YKI_TRY(yki_queue_finish(r->queue));
    YKI_TRY(yki_buffer_get(buffer, 0, YKI_MIN(yki_buffer_size(buffer), sizeof pair), pair));
    *sum = (double)pair[0];
    *count = (double)pair[1];
    return YOKE_OK;
}

yoke_status
yoke_replica_read_loss(yoke_replica *r, double *sum, double *count)
{
    YKI_GIVEN(__func__, {"replica", r}, {"sum", sum}, {"count", count});
    if (!r->weights->graph->loss_sum)
        return yki_fail(YOKE_ERROR_STATE, "the graph has no loss; call yoke_graph_set_loss before");
    return read_pair(r, "the loss", r->weights->graph->loss_sum, sum, count);
}

yoke_status
yoke_replica_read_metric(yoke_replica *r, const char *name, double *sum, double *count)
{
    const yoke_graph *graph;

    YKI_GIVEN(__func__, {"replica", r}, {"name", name}, {"sum", sum}, {"count", count});
    graph = r->weights->graph;
    for (size_t i = 0; i < graph->metric_count; i++)
        if (strcmp(graph->metrics[i].name, name) == 0)
            return read_pair(r, name, graph->metrics[i].sum, sum, count);
    return yki_graph_no_metric(graph, name);
}

yoke_status
yoke_replica_read_output(yoke_replica *r, const char *name, float *values, int64_t count)
{
    const yoke_graph *graph;

    YKI_GIVEN(__func__, {"replica", r}, {"name", name},
              {"values", count ? (const void *)values : ""});
    graph = r->weights->graph;
    for (size_t i = 0; i < graph->output_count; i++) {
        const yoke_node *node = graph->outputs[i].node;
        const yki_operand operand = yki_operand_of(node);
        yki_buffer *buffer;
        yoke_status status;
        int64_t have;

        if (strcmp(graph->outputs[i].name, name) != 0)
            continue;
        status = find_result(r, node, &buffer);
        if (status != YOKE_OK)
            return yki_fail_in(status, name);
        if (node->type != YOKE_F32)
            return yki_fail(YOKE_ERROR_TYPE, "output \"%s\" has type %s; must be f32", name,
                            yki_value_type_name(node->type));
        have = yki_value_count(&operand, r->newest->extents);
        if (count != have)
            return yki_fail(YOKE_ERROR_SHAPE,
                            "output \"%s\": the number of values is %lld; must be %lld", name,
                            (long long)count, (long long)have);
        YKI_TRY(yki_queue_finish(r->queue));
        return yki_buffer_get(buffer, 0, (uint64_t)have * 4, values);
    }
    return yki_graph_no_output(graph, name);
}

yoke_status
yoke_replica_wait(yoke_replica *r)
{
    YKI_GIVEN(__func__, {"replica", r});
    return yki_queue_finish(r->queue);
}

yoke_status
yoke_replica_print_plan(yoke_replica *r, void (*line)(void *, const char *), void *user)
{
    YKI_GIVEN(__func__, {"replica", r});
    if (!line)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: line is NULL", __func__);
    return yki_plan_print(r->training ? r->training : r->evaluation, line, user);
}

yoke_status
yoke_replica_profile(yoke_replica *r, int64_t n, unsigned repeats,
                     void (*each)(void *, const yoke_task_info *), void *user)
{
    YKI_GIVEN(__func__, {"replica", r});
    if (!each)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: each is NULL", __func__);
    if (repeats < 1)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "repeats", repeats, 1, INT64_MAX);
    YKI_TRY(check_range(r, n));
    r->stage = YKI_STAGE_NONE;
    return yki_plan_profile(r->training ? r->training : r->evaluation, (yki_extents){.batch = n},
                            repeats, each, user);
}

double
yoke_replica_flops(const yoke_replica *r, int64_t n)
{
    const yki_plan *plan;
    double flops = 0;

    if (!r)
        return 0;
    plan = r->training ? r->training : r->evaluation;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_extents extents =
            yki_task_extents(&plan->tasks[t], (yki_extents){n, plan->options.max.length});

        if (plan->tasks[t].recipe.call)
            flops += (double)yki_expr_value(plan->tasks[t].recipe.call_flops, extents);
        for (size_t k = 0; k < plan->tasks[t].recipe.launch_count; k++)
            flops += (double)yki_expr_value(plan->tasks[t].recipe.launches[k].flops, extents);
    }
    return flops;
}
