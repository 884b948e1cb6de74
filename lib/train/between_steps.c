/* SPDX-License-Identifier: Apache-2.0
 *
 * between_steps.c - what a program may do with a trainer between its steps: read and write
 * parameters by name, set shares and learning rate, freeze parameters, start anew.
 */
#include <float.h>
#include <string.h>

#include "team/pipeline.h"
#include "team/sharding.h"
#include "team/stages.h"
#include "train/capacity.h"
#include "train/history.h"
#include "train/trainer.h"

yoke_graph *
yoke_trainer_get_graph(const yoke_trainer *t)
{
    return t ? t->graph : NULL;
}

int64_t
yoke_trainer_get_step(const yoke_trainer *t)
{
    return t ? t->step : 0;
}

double
yoke_trainer_flops(const yoke_trainer *t, int64_t n)
{
    double flops = 0;

    if (!t || n < 0)
        return 0;
    yki_trainer_divide(t, n, t->counts);
    for (size_t k = 0; k < t->crew.count; k++)
        flops += yoke_replica_flops(t->crew.members[k].replica,
                                    t->crew.stages ? n : t->counts[t->crew.team->first + k]);
    return flops;
}

uint64_t
yoke_trainer_state_bytes(const yoke_trainer *t)
{
    uint64_t bytes = 0;

    for (size_t k = 0; t && k < t->crew.count; k++)
        if (t->crew.members[k].replica->updater)
            bytes += yki_updater_state_bytes(t->crew.members[k].replica->updater);
    return bytes;
}

yoke_status
yoke_trainer_get_shares(const yoke_trainer *t, int64_t *counts, size_t count)
{
    YKI_GIVEN("yoke_trainer_get_shares", {"trainer", t}, {"counts", counts});
    if (count != t->team->total)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "the number of counts is %zu; must be %zu, one for each device of the team",
                        count, t->team->total);
    yki_shares_divide(t->shares, t->options.batch, counts);
    return YOKE_OK;
}

/* Finds a weight by name on the first device that has it. Works after a failure too. */
static yoke_status
find(yoke_trainer *t, const char *name, const void *values, int64_t count, const char *function,
     yki_weight **weight)
{
    char text[128];
    size_t member;

    YKI_GIVEN(function, {"trainer", t}, {"name", name}, {"values", values});
    YKI_TRY(yki_crew_find(&t->crew, name, &member, weight));
    if ((uint64_t)count != (*weight)->size / 4)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" has shape %s; the number of values is %lld; must be %lld", name,
                        yki_shape_text((*weight)->node->shape, text, sizeof text), (long long)count,
                        (long long)((*weight)->size / 4));
    return YOKE_OK;
}

yoke_status
yki_trainer_read_weight(yoke_trainer *t, const yki_weight *weight, float *values)
{
    if (t->crew.stages && t->crew.comm)
        return yki_trainer_gathered(t, yki_stages_read(&t->crew, weight, values));
    if (weight->value)
        return yki_buffer_get(weight->value, 0, weight->size, values);
    return yki_trainer_gathered(t, yki_sharding_read(&t->crew, weight, values));
}

yoke_status
yoke_trainer_read(yoke_trainer *t, const char *name, float *values, int64_t count)
{
    yki_weight *weight;

    YKI_TRY(find(t, name, values, count, "yoke_trainer_read", &weight));
    YKI_TRY(yki_trainer_is_whole(t, "yoke_trainer_read"));
    if (t->failure.status == YOKE_OK)
        YKI_TRY(yoke_trainer_wait(t));
    return yki_trainer_read_weight(t, weight, values);
}

/* Copies the values into the weights of every group. */
static yoke_status
write_groups(yoke_trainer *t, const char *name, const float *values, uint64_t size)
{
    for (size_t g = 0; g < t->crew.group_count; g++) {
        yoke_replica *r = yki_crew_in_group(&t->crew, g, 0)->replica;
        const yki_weight *of = yki_weights_find(r->weights, name);

        if (of->value)
            YKI_TRY(yki_buffer_put(of->value, 0, size, values));
        else if (g == 0 && yki_weights_divides(r->weights, of))
            YKI_TRY(yki_sharding_write(&t->crew, of, values));
    }
    for (size_t k = 0; k < t->crew.count; k++)
        t->crew.members[k].replica->weights->version++;
    return YOKE_OK;
}

yoke_status
yoke_trainer_write(yoke_trainer *t, const char *name, const float *values, int64_t count)
{
    yki_weight *weight;
    float *agreed;
    yoke_status status;

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_write"));
    YKI_TRY(find(t, name, values, count, "yoke_trainer_write", &weight));
    YKI_TRY(yoke_trainer_wait(t));
    yki_trainer_forget_states(t);
    if (!t->crew.comm)
        return write_groups(t, name, values, weight->size);
    agreed = yki_alloc((size_t)count, sizeof *agreed, "values of a parameter");
    if (!agreed)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(agreed, values, weight->size);
    status = t->crew.comm->broadcast(t->crew.comm, agreed, weight->size, 0);
    if (status == YOKE_OK)
        status = write_groups(t, name, agreed, weight->size);
    yki_free(agreed);
    return status;
}

yoke_status
yoke_trainer_initialize(yoke_trainer *t, uint32_t seed)
{
    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_initialize"));
    YKI_TRY(yoke_trainer_wait(t));
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_replica *r = t->crew.members[k].replica;

        if (r->weights->lender) {
            if (r->updater)
                YKI_TRY(yki_updater_reset(r->updater));
            r->weights->version++;
            r->seed = seed;
            r->step = 1;
            YKI_TRY(yki_queue_finish(r->queue));
        } else {
            YKI_TRY(yoke_replica_initialize(r, seed));
        }
    }
    YKI_TRY(yki_sharding_initialize(&t->crew, seed));
    if (t->options.granule && t->graph->loss)
        YKI_TRY(yki_granules_forget(&t->crew));
    yki_trainer_forget_states(t);
    t->options.seed = seed;
    t->step = t->completed = 0;
    yki_loss_scale_start(t);
    t->epoch = 0;
    yki_history_clear(t);
    /* Feeds draw random numbers by the seed. */
    yki_loaders_clear(&t->train_loaders, t->crew.count);
    yki_loaders_clear(&t->test_loaders, t->crew.count);
    return YOKE_OK;
}

yoke_status
yoke_trainer_set_learning_rate(yoke_trainer *t, float rate)
{
    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_set_learning_rate"));
    if (!(rate >= 0 && rate <= FLT_MAX))
        return yki_fail_range_real(YOKE_ERROR_VALUE, "the learning rate", (double)rate, 0, FLT_MAX);
    yki_trainer_put_rate(t, rate);
    return YOKE_OK;
}

float
yoke_trainer_get_learning_rate(const yoke_trainer *t)
{
    return t ? t->options.optimizer.learning_rate : 0;
}

yoke_status
yoke_trainer_set_shares(yoke_trainer *t, const char *shares)
{
    int64_t limit, *counts;
    yoke_status status = YOKE_OK;

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_set_shares"));
    if (!shares)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_set_shares: shares is NULL");
    if (t->crew.stages)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "shares are \"%s\", but every device has the whole batch of a graph with "
                        "%s; must not be set",
                        shares, t->options.stages ? "stages" : "places");
    /* Plans have room for limited shares of a batch. Larger ones are refused before anything
     * changes. */
    counts = yki_alloc(t->team->total, sizeof *counts, "shares");
    if (!counts)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!yki_shares_are_auto(shares)) {
        int64_t micro_batch = yki_largest_micro_batch(&t->options);

        status = yki_shares_split(shares, t->team->total, micro_batch, counts);
        for (size_t k = 0; k < t->team->count && status == YOKE_OK && !t->core_groups.taken &&
                           !t->options.granule;
             k++) {
            limit = t->crew.members[k].replica->options.batch;
            if (counts[t->team->first + k] > limit)
                status = yki_fail(YOKE_ERROR_STATE,
                                  "device %zu was made for %lld samples at once, not %lld; create "
                                  "the trainer with shares \"auto\", or with these",
                                  t->team->first + k, (long long)limit,
                                  (long long)counts[t->team->first + k]);
        }
    }
    yki_free(counts);
    YKI_TRY(status);
    return yki_shares_set(t->shares, shares);
}

static yoke_status
refreeze(yoke_trainer *t, const char *pattern, yoke_status (*change)(yoke_graph *, const char *))
{
    YKI_TRY(yoke_trainer_wait(t));
    yki_trainer_forget_states(t); /* steps from there on would be others */
    YKI_TRY(change(t->graph, pattern));
    for (size_t k = 0; k < t->crew.count; k++)
        YKI_TRY(yki_updater_refresh(t->crew.members[k].replica->updater));
    return YOKE_OK;
}

yoke_status
yoke_trainer_freeze(yoke_trainer *t, const char *pattern)
{
    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_freeze"));
    return refreeze(t, pattern, yoke_graph_freeze);
}

yoke_status
yoke_trainer_unfreeze(yoke_trainer *t, const char *pattern)
{
    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_unfreeze"));
    return refreeze(t, pattern, yoke_graph_unfreeze);
}

/* ---- explaining ---- */

yoke_status
yoke_trainer_get_times_sized(const yoke_trainer *t, yoke_step_times *times, size_t size)
{
    YKI_GIVEN("yoke_trainer_get_times", {"trainer", t}, {"times", times});
    memset(times, 0, size);
    memcpy(times, &t->crew.times, YKI_MIN(size, sizeof *times));
    return YOKE_OK;
}

yoke_status
yoke_trainer_explain(yoke_trainer *t, void (*line)(void *user, const char *text), void *user)
{
    const yki_teller to = {line, user};

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_explain"));
    if (!line)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_explain: line is NULL");
    if (t->crew.stages)
        yki_stages_explain(&t->crew, &to);
    if (yki_pipeline_exists(&t->crew))
        yki_pipeline_explain(&t->crew, &to);
    if (!t->crew.stages)
        yki_shares_explain(t->shares, &to);
    yki_core_groups_explain(&t->core_groups, &to);
    yki_crew_explain_groups(&t->crew, &to);
    yki_crew_explain_classes(&t->crew, &to);
    yki_loss_scale_explain(t, &to);
    if (t->crew.buckets.text[0])
        yki_tell(&to, "gradients between %d processes (%s): %zu %s", t->crew.comm->ranks,
                 t->crew.comm->transport ? t->crew.comm->transport : "-", t->crew.buckets.count,
                 t->crew.buckets.text);
    yki_sharding_explain(&t->crew, &to);
    yki_trainer_explain_fitting(t, &to);
    return yki_trainer_explain_memory(t, &to);
}

yoke_status
yoke_trainer_print_plan(yoke_trainer *t, void (*line)(void *user, const char *text), void *user)
{
    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_print_plan"));
    return yoke_replica_print_plan(t->crew.members[0].replica, line, user);
}
