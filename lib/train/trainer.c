/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - makes a trainer of a graph and a team, and frees it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "team/pipeline.h"
#include "team/stages.h"
#include "train/history.h"
#include "train/trainer.h"

/* ---- making ---- */

enum { MAX_PARTS = 65536 };

/* The options that each replica gets; make_crew sets the batch of each. */
static yoke_replica_options
replica_options(const yoke_trainer_options *o)
{
    const bool waits = o->recompute == YOKE_RECOMPUTE_AUTO; /* until memory is short */

    return (yoke_replica_options){.seed = o->seed,
                                  .strict = o->strict,
                                  .precision = o->precision,
                                  .level = o->level,
                                  .recompute = waits ? YOKE_RECOMPUTE_NOTHING : o->recompute,
                                  .recompute_bytes = o->recompute_bytes,
                                  .state = o->state,
                                  .optimizer = o->optimizer,
                                  .groups = o->groups,
                                  .group_count = o->group_count,
                                  .clip_norm = o->clip_norm,
                                  .clip_value = o->clip_value,
                                  .wisdom = o->wisdom};
}

/* What they exclude in a graph with a statistic of the batch. */
static yoke_status
check_statistics(const yoke_trainer_options *o, const yoke_node *node)
{
    if (o->local_batch_norm || node->op->merge(&node->attrs) == YKI_MERGE_NONE)
        return yki_fail(
            YOKE_ERROR_UNSUPPORTED,
            "\"%s\" takes statistics of the samples of each device, which depend on the "
            "split; with YOKE_REPRODUCIBLE_ANY_SPLIT it must take those of the batch",
            node->name);
    return YOKE_OK;
}

/* What the same bits on any split exclude. */
static yoke_status
check_granule(const yoke_trainer_options *o, const yoke_graph *graph)
{
    const yoke_node *statistic;

    if (o->granule < 0 || o->granule > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "granule", o->granule, 0, INT32_MAX);
    if (o->granule && o->reproducible != YOKE_REPRODUCIBLE_ANY_SPLIT)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "granule is %lld; must be 0 unless reproducible is "
                        "YOKE_REPRODUCIBLE_ANY_SPLIT",
                        (long long)o->granule);
    if (o->recheck < 0 || o->recheck > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "recheck", o->recheck, 0, INT32_MAX);
    if (o->recheck && o->reproducible != YOKE_REPRODUCIBLE_ANY_SPLIT)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "recheck is %lld; must be 0 unless reproducible is "
                        "YOKE_REPRODUCIBLE_ANY_SPLIT",
                        (long long)o->recheck);
    if ((unsigned)o->wire > YOKE_WIRE_I16)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "wire is %d; must be YOKE_WIRE_I64, YOKE_WIRE_I32 or YOKE_WIRE_I16",
                        (int)o->wire);
    if (o->wire && o->reproducible != YOKE_REPRODUCIBLE_ANY_SPLIT)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "wire is YOKE_WIRE_I%d; must be YOKE_WIRE_I64 unless reproducible is "
                        "YOKE_REPRODUCIBLE_ANY_SPLIT",
                        o->wire == YOKE_WIRE_I32 ? 32 : 16);
    if (o->reproducible != YOKE_REPRODUCIBLE_ANY_SPLIT)
        return YOKE_OK;
    if (graph->place_count || o->stages)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the graph has %s, so no batch is split; reproducible must be "
                        "YOKE_REPRODUCIBLE_NO or YOKE_REPRODUCIBLE_RUNS",
                        o->stages ? "stages" : "places");
    statistic = graph->loss ? yki_graph_find_statistic(graph) : NULL;
    return statistic ? check_statistics(o, statistic) : YOKE_OK;
}

/* The usual granule depends on the batch alone, because the bits depend on it. */
static void
complete_granule(yoke_trainer_options *o)
{
    enum { GRANULES = 8 };
    const int64_t micro_batch = yki_largest_micro_batch(o);

    if (o->reproducible != YOKE_REPRODUCIBLE_ANY_SPLIT)
        return;
    if (!o->granule)
        o->granule = (micro_batch + GRANULES - 1) / GRANULES;
    o->granule = YKI_MIN(o->granule, micro_batch);
}

static yoke_status
check_shards(const yoke_trainer_options *o)
{
    if ((unsigned)o->shard > YOKE_SHARD_AUTO)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "shard is %d; must be YOKE_SHARD_NOTHING, YOKE_SHARD_STATE, "
                        "YOKE_SHARD_GRADIENTS, YOKE_SHARD_WEIGHTS or YOKE_SHARD_AUTO",
                        (int)o->shard);
    if (o->shard == YOKE_SHARD_WEIGHTS && o->recheck)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "recheck is %lld, but a device that keeps a part of the weights computes "
                        "nothing again alone; must be 0 with YOKE_SHARD_WEIGHTS",
                        (long long)o->recheck);
    if (o->shard_by && !o->shard)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "shard_by is \"%.80s\", but there are no shards; must be NULL unless shard "
                        "is another choice than YOKE_SHARD_NOTHING",
                        o->shard_by);
    return YOKE_OK;
}

static yoke_status
check_options(const yoke_trainer_options *o, const yoke_graph *graph)
{
    const yoke_replica_options settings = replica_options(o);

    if (o->batch < 0 || o->batch > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "batch", o->batch, 0, INT32_MAX);
    if (o->accumulate > MAX_PARTS)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "accumulate", o->accumulate, 0,
                              MAX_PARTS);
    if ((unsigned)o->recompute > YOKE_RECOMPUTE_AUTO)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "recompute", (int)o->recompute,
                              YOKE_RECOMPUTE_NOTHING, YOKE_RECOMPUTE_AUTO);
    YKI_TRY(check_granule(o, graph));
    if (!graph->loss && graph->output_count == 0)
        return yki_fail(YOKE_ERROR_STATE, "the graph has no loss and no output; call "
                                          "yoke_graph_set_loss or yoke_graph_set_output before");
    if (graph->metric_count > YOKE_MAX_METRICS)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the number of metrics of the graph is %zu; must be at most %d",
                        graph->metric_count, YOKE_MAX_METRICS);
    if (o->schedule)
        YKI_TRY(yki_check_schedule(o->schedule));
    YKI_TRY(check_shards(o));
    YKI_TRY(yki_loss_scale_check(o, graph));
    if (!(o->average >= 0 && o->average < 1))
        return yki_fail_range_below(YOKE_ERROR_INVALID_ARGUMENT, "average", (double)o->average, 0,
                                    1);
    return yki_check_settings(&settings, graph);
}

static yoke_status
make_arrays(yoke_trainer *t, const yoke_team *team)
{
    const bool several = t->team->total > 1; /* nobody asks for the loss of each core group */
    size_t ranks = team->comm ? (size_t)team->comm->ranks : 1;

    t->counts = yki_alloc(team->total, sizeof *t->counts, "shares");
    t->seconds = yki_alloc(team->total, sizeof *t->seconds, "times");
    t->told = yki_alloc((1 + ranks) * team->total, sizeof *t->told, "times");
    t->inputs = yki_alloc(t->graph->node_count, sizeof *t->inputs, "a trainer's inputs");
    if (!t->counts || !t->seconds || !t->told || !t->inputs)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (t->options.recheck) {
        t->recheck.out = yki_alloc(team->total, sizeof *t->recheck.out, "devices left out");
        t->recheck.times = yki_alloc(team->total, sizeof *t->recheck.times, "devices left out");
        t->recheck.members = yki_alloc(team->count, sizeof *t->recheck.members, "devices");
        if (!t->recheck.out || !t->recheck.times || !t->recheck.members)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < YKI_FLIGHT; i++) {
        t->flights[i].counts = yki_alloc(team->total, sizeof *t->counts, "shares");
        t->flights[i].device_reads =
            yki_alloc(team->count, sizeof *t->flights[i].device_reads, "losses of devices");
        if (several)
            t->flights[i].devices =
                yki_alloc(2 * team->count, sizeof *t->flights[i].devices, "losses of devices");
        if (!t->flights[i].counts || !t->flights[i].device_reads ||
            (several && !t->flights[i].devices))
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    return YOKE_OK;
}

/* Whether each device has nodes of its own. */
static bool
has_stages(const yoke_trainer *t)
{
    return t->graph->place_count > 0 || t->options.stages > 0;
}

/* With stages the one of the loss counts the samples: `home`, of the whole team. */
static yoke_status
make_shares(yoke_trainer *t, size_t home)
{
    const yoke_team *team = t->team;
    const char **names = yki_alloc(team->total, sizeof *names, "names of devices");
    yki_shares_options options = {.shares = t->options.shares,
                                  .batch = yki_largest_micro_batch(&t->options),
                                  .fixed = t->options.reproducible == YOKE_REPRODUCIBLE_RUNS};
    char *whole = NULL;
    yoke_status status = has_stages(t) ? yki_stages_shares(team, home, &whole) : YOKE_OK;

    if (!names || status != YOKE_OK) {
        yki_free(names);
        return names ? status : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (whole)
        options.shares = whole;
    for (size_t k = 0; k < team->total; k++)
        names[k] = yoke_team_get_device_name(team, k);
    options.names = names;
    yki_shares_destroy(t->shares);
    t->shares = NULL;
    status = yki_shares_create(team->total, &options, &t->shares);
    yki_free(whole);
    yki_free(names);
    return status;
}

static bool
is_auto(const yoke_trainer *t)
{
    yki_shares_state state;

    yki_shares_get_state(t->shares, &state);
    return state.kind == YKI_SHARES_AUTO;
}

static int64_t
granules_of(int64_t micro_batch, int64_t granule)
{
    return (micro_batch + granule - 1) / granule;
}

/* Makes plans for the most samples that each device may get at once: where shares follow the speed,
 * the whole micro-batch; else its share, and one more that rounding may give it. */
static yoke_status
make_crew(yoke_trainer *t, yoke_team *team, const yoke_trainer_options *o)
{
    const bool balances = t->team->total > 1 && is_auto(t);
    const bool fixed = o->reproducible == YOKE_REPRODUCIBLE_RUNS;
    const int64_t micro_batch = yki_largest_micro_batch(&t->options);
    yki_crew_options options = {
        .replica = replica_options(o),
        .local_batch_norm = o->local_batch_norm && !t->core_groups.taken,
        .accumulates = t->options.accumulate > 1 || o->granule,
        .timed = balances && !fixed,
        .may_shrink = balances && !o->granule, /* the bits may depend on the size of a plan */
        .bucket_bytes = o->bucket_bytes,
        .apart = o->no_overlap,
        .granule = o->granule,
        .wire = o->wire,
        .micro_batches = t->options.accumulate,
        .rechecks = o->recheck > 0,
        .average = o->average,
        .scales_loss = t->loss_scale.scales,
        .shard = o->shard,
        .shard_by = o->shard_by,
        .own_weights = o->own_weights && !t->core_groups.taken,
        .stages = o->stages,
        .fitting = t->fitting,
    };

    if (t->loss_scale.scales)
        options.replica.clip_norm = yki_loss_scale_clip_norm(o->clip_norm);
    if (t->core_groups.taken && o->recompute_bytes) /* for the device, of which each is a part */
        options.replica.recompute_bytes =
            YKI_MAX(o->recompute_bytes / t->core_groups.taken, UINT64_C(1));
    if (o->granule)
        options.granules = (size_t)granules_of(micro_batch, o->granule) * o->accumulate;
    yki_trainer_divide(t, micro_batch, t->counts);
    for (size_t k = 0; k < team->total; k++)
        t->counts[k] = o->granule ? o->granule
                       : (balances && !fixed) || has_stages(t)
                           ? micro_batch
                           : YKI_MIN(t->counts[k] + !t->core_groups.taken, micro_batch);
    options.most = t->counts + team->first;
    options.micro_batch = micro_batch;
    YKI_TRY(yki_crew_create(team, t->graph, &options, &t->crew));
    if (t->crew.stages && t->graph->loss && options.accumulates && !o->no_overlap)
        YKI_TRY(yki_pipeline_create(&t->crew, t->options.accumulate));
    if (o->recheck && t->graph->loss)
        YKI_TRY(yki_recheck_create(&t->crew));
    return yki_crew_divide_state(&t->crew, &options);
}

/* Forbids shares that are larger than the plans of a device. */
static yoke_status
set_limits(yoke_trainer *t)
{
    const yoke_team *team = t->team;
    int64_t *limits = t->counts;
    yoke_status status = YOKE_OK;

    if (t->core_groups.taken || t->options.granule)
        return YOKE_OK;
    memset(limits, 0, team->total * sizeof *limits);
    for (size_t k = 0; k < team->count; k++)
        limits[team->first + k] = t->crew.members[k].replica->options.batch;
    if (t->crew.comm) {
        int64_t *all = yki_alloc((size_t)t->crew.comm->ranks * team->total, sizeof *all, "limits");

        if (!all)
            return YOKE_ERROR_OUT_OF_MEMORY;
        status = t->crew.comm->allgather(t->crew.comm, limits, team->total * sizeof *limits, all);
        for (size_t i = 0; i < (size_t)t->crew.comm->ranks * team->total && status == YOKE_OK; i++)
            limits[i % team->total] = YKI_MAX(limits[i % team->total], all[i]);
        yki_free(all);
    }
    for (size_t k = 0; k < team->total; k++)
        if (limits[k] >= yki_largest_micro_batch(&t->options))
            limits[k] = INT64_MAX;
    return status == YOKE_OK ? yki_shares_set_limits(t->shares, limits) : status;
}

bool
yki_graph_is_local(const yoke_graph *graph)
{
    bool local = false;

    for (size_t i = 0; i < graph->node_count && !local; i++) {
        const yoke_node *node = graph->nodes[i];

        local = node->op && node->op->merge && node->op->merge(&node->attrs) == YKI_MERGE_NONE;
    }
    return local;
}

/* `team` is the user's, or that of the core groups of its one device. */
static yoke_status
build(yoke_trainer *t, yoke_team *team, const yoke_trainer_options *o)
{
    t->local_statistics = o->local_batch_norm || yki_graph_is_local(t->graph);
    YKI_TRY(make_arrays(t, team));
    YKI_TRY(make_shares(t, 0));
    YKI_TRY(make_crew(t, team, o));
    if (has_stages(t)) /* now it is known where the loss is */
        YKI_TRY(make_shares(t, t->crew.stages->home));
    t->crew.timing = t->team->total > 1 && is_auto(t) && o->reproducible != YOKE_REPRODUCIBLE_RUNS;
    YKI_TRY(set_limits(t));
    return yki_trainer_calibrate(t);
}

static yoke_status
build_core_groups(yoke_trainer *t, const yoke_trainer_options *o)
{
    yoke_team *core_groups;
    yoke_status status;

    YKI_TRY(yki_core_groups_team(t->team, t->core_groups.taken, &core_groups));
    status = build(t, core_groups, o);
    yoke_team_destroy(core_groups); /* the crew retains it */
    return status;
}

yoke_status
yki_trainer_make(yoke_team *team, yoke_graph *graph, const yoke_trainer_options *o,
                 const yki_core_groups_choice *core_groups, yki_fitting *fitting,
                 yoke_trainer **out)
{
    yoke_trainer *t = yki_alloc(1, sizeof *t, "a trainer");
    yoke_status status;

    if (!t)
        return YOKE_ERROR_OUT_OF_MEMORY;
    t->options = *o;
    t->core_groups = *core_groups;
    t->fitting = fitting;
    t->graph = yki_graph_retain(graph);
    t->team = yki_team_retain(team);
    t->loss_scale.scales = graph->loss && yki_precision_scales_loss(o->precision, graph);
    yki_loss_scale_start(t);
    if (o->schedule) {
        t->schedule = *o->schedule;
        t->has_schedule = true;
    }
    status = core_groups->taken ? build_core_groups(t, o) : build(t, team, o);
    t->options.shares = t->options.wisdom = t->options.precision = t->options.shard_by = NULL;
    t->options.schedule = NULL;
    t->options.groups = NULL;
    t->fitting = NULL;
    if (status != YOKE_OK)
        yoke_trainer_destroy(t);
    else
        *out = t;
    return status;
}

/* Checks what can fail in this process alone. On a failure it tells the other processes, which
 * would otherwise wait in the comparison. */
static yoke_status
check_alone(yoke_team *team, yoke_graph *graph, yoke_trainer_options *o)
{
    yoke_status status = yoke_graph_status(graph);

    if (status == YOKE_OK)
        status = check_options(o, graph);
    if (status == YOKE_OK)
        status = yki_stages_check(team, graph, o);
    if (status != YOKE_OK)
        yki_team_fail(team);
    return status;
}

yoke_status
yoke_trainer_create_sized(yoke_team *team, yoke_graph *graph, const yoke_trainer_options *given,
                          size_t size, yoke_trainer **out)
{
    yoke_trainer_options o = {0};
    yki_core_groups_choice core_groups;
    yoke_trainer *t = NULL;
    uint32_t stages;
    bool cuts;
    yoke_status status;

    YKI_GIVEN("yoke_trainer_create", {"team", team}, {"graph", graph}, {"trainer", out});
    if (given)
        memcpy(&o, given, YKI_MIN(size, sizeof o));
    if ((unsigned)o.reproducible > YOKE_REPRODUCIBLE_ANY_SPLIT)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "reproducible is %d; must be YOKE_REPRODUCIBLE_NO, "
                        "YOKE_REPRODUCIBLE_RUNS or YOKE_REPRODUCIBLE_ANY_SPLIT",
                        (int)o.reproducible);
    stages = o.stages;
    cuts = stages == YOKE_STAGES_FIT;
    o.stages = cuts ? 0 : stages;
    YKI_TRY(check_alone(team, graph, &o));
    yki_optimizer_complete(&o.optimizer);
    /* A graph without a loss has no steps, so there are no times for shares to follow. */
    if (!graph->loss && !graph->place_count && yki_shares_are_auto(o.shares))
        o.shares = "even";
    o.batch = o.batch ? o.batch : 32;
    o.accumulate = o.accumulate ? o.accumulate : 1;
    complete_granule(&o);
    o.stages = stages;
    YKI_TRY(yki_trainer_compare_processes(yki_team_comm(team), graph, &o));
    o.stages = cuts ? 0 : stages;
    status = yki_core_groups_decide(team, graph, &o, &core_groups);
    if (status == YOKE_OK)
        status = yki_trainer_fit_memory(yki_trainer_make, team, graph, &o, &core_groups, cuts, &t);
    if (status == YOKE_OK && !t->shortages)
        status = yki_core_groups_measure(team, &o, &t);
    if (status != YOKE_OK) {
        yki_team_fail(team);
        yoke_trainer_destroy(t);
        return status;
    }
    *out = t;
    return YOKE_OK;
}

void
yoke_trainer_destroy(yoke_trainer *t)
{
    if (!t)
        return;
    if (t->crew.team)
        (void)yki_crew_finish(&t->crew);
    yki_timeline_drop(t);
    yki_loaders_clear(&t->train_loaders, t->crew.count);
    yki_loaders_clear(&t->test_loaders, t->crew.count);
    yki_loaders_clear(&t->predict_loaders, t->crew.count);
    for (size_t i = 0; i < YKI_FLIGHT; i++) {
        yki_event_release(&t->flights[i].read);
        for (size_t k = 0; t->flights[i].device_reads && k < t->crew.count; k++)
            yki_event_release(&t->flights[i].device_reads[k]);
        yki_free(t->flights[i].device_reads);
        yki_free(t->flights[i].counts);
        yki_free(t->flights[i].devices);
    }
    yki_history_clear(t);
    yki_free(t->history.epochs);
    yki_recheck_destroy(&t->crew);
    yki_pipeline_destroy(&t->crew);
    yki_crew_destroy(&t->crew);
    yoke_team_destroy(t->team);
    yki_shares_destroy(t->shares);
    yki_free(t->inputs);
    yki_free(t->counts);
    yki_free(t->seconds);
    yki_free(t->told);
    yki_trainer_free_states(t);
    yki_free(t->recheck.out);
    yki_free(t->recheck.times);
    yki_free(t->recheck.members);
    yki_free(t->shortages);
    yki_free(t->failure.detail);
    yoke_graph_destroy(t->graph);
    yki_free(t);
}
