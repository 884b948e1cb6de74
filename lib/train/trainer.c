/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - a graph trained on a team: making it, a step, and everything by name.
 *
 * Up to two steps are under way: a step's results are read behind it and looked at
 * when the one after the next begins. After a failure weights are those of one
 * completed step; nothing but reading, saving and destroying is possible then.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/history.h"
#include "team/stages.h"
#include "train/trainer.h"

/* ---- making ---- */

enum { MAX_PARTS = 65536 };

/* What replicas are told of the options; the batch is each one's own. */
static yoke_replica_options
replica_options(const yoke_trainer_options *o)
{
    return (yoke_replica_options){.seed = o->seed,
                                  .strict = o->strict,
                                  .level = o->level,
                                  .memory = o->memory,
                                  .optimizer = o->optimizer,
                                  .groups = o->groups,
                                  .group_count = o->group_count,
                                  .clip_norm = o->clip_norm,
                                  .clip_value = o->clip_value,
                                  .wisdom = o->wisdom};
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
    if (!graph->loss && graph->output_count == 0)
        return yki_fail(YOKE_ERROR_STATE, "the graph has no loss and no output: call "
                                          "yoke_graph_set_loss or yoke_graph_set_output");
    if (graph->metric_count > YOKE_MAX_METRICS)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "the graph has %zu metrics, at most %d are "
                        "possible", graph->metric_count, YOKE_MAX_METRICS);
    if (o->schedule)
        YKI_TRY(yki_check_schedule(o->schedule));
    return yki_check_settings(&settings, graph);
}

static yoke_status
make_arrays(yoke_trainer *t, const yoke_team *team)
{
    const bool several = t->team->total > 1; /* of lanes nobody asks for the losses of each */
    size_t ranks = team->comm ? (size_t)team->comm->ranks : 1;

    t->counts = yki_alloc(team->total, sizeof *t->counts, "shares");
    t->seconds = yki_alloc(team->total, sizeof *t->seconds, "times");
    t->told = yki_alloc((1 + ranks) * team->total, sizeof *t->told, "times");
    t->inputs = yki_alloc(t->graph->node_count, sizeof *t->inputs, "a trainer's inputs");
    if (!t->counts || !t->seconds || !t->told || !t->inputs)
        return YOKE_ERROR_OUT_OF_MEMORY;
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

/* Samples of a part of a full step. */
static int64_t
part_size(const yoke_trainer *t)
{
    return (t->options.batch + t->options.accumulate - 1) / t->options.accumulate;
}

static yoke_status
make_shares(yoke_trainer *t)
{
    const yoke_team *team = t->team;
    const char **names = yki_alloc(team->total, sizeof *names, "names of devices");
    yki_shares_options options = {.shares = t->options.shares,
                                  .batch = part_size(t),
                                  .freeze = t->options.freeze};
    char *whole = NULL;
    yoke_status status = yki_stages_shares(team, t->graph, &whole);

    if (!names || status != YOKE_OK) {
        yki_free(names);
        return names ? status : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (whole)
        options.shares = whole;
    for (size_t k = 0; k < team->total; k++)
        names[k] = yoke_team_get_device_name(team, k);
    options.names = names;
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

/* What each device may be given at once: where shares follow the speed, everything. */
static yoke_status
make_crew(yoke_trainer *t, yoke_team *team, const yoke_trainer_options *o)
{
    const bool balances = t->team->total > 1 && is_auto(t);
    yki_crew_options options = {
        .replica = replica_options(o),
        .local_batch_norm = o->local_batch_norm && !t->lanes.taken,
        .parts = t->options.accumulate > 1,
        .timed = balances && !o->freeze,
        .may_shrink = balances,
        .bucket_bytes = o->bucket_bytes,
        .apart = o->no_overlap,
    };

    yki_trainer_divide(t, part_size(t), t->counts);
    for (size_t k = 0; k < team->total; k++)
        t->counts[k] = (balances && !o->freeze) || t->graph->place_count
                           ? part_size(t)
                           : YKI_MIN(t->counts[k] + !t->lanes.taken, part_size(t));
    options.most = t->counts + team->first;
    return yki_crew_create(team, t->graph, &options, &t->crew);
}

/* What each device was made for is all that it can be given. */
static yoke_status
set_limits(yoke_trainer *t)
{
    const yoke_team *team = t->team;
    int64_t *limits = t->counts;
    yoke_status status = YOKE_OK;

    if (t->lanes.taken)
        return YOKE_OK;
    memset(limits, 0, team->total * sizeof *limits);
    for (size_t k = 0; k < team->count; k++)
        limits[team->first + k] = t->crew.members[k].replica->options.batch;
    if (t->crew.comm) {
        int64_t *all = yki_alloc((size_t)t->crew.comm->ranks * team->total, sizeof *all, "limits");

        if (!all)
            return YOKE_ERROR_OUT_OF_MEMORY;
        status = t->crew.comm->gather(t->crew.comm, limits, team->total * sizeof *limits, all);
        for (size_t i = 0; i < (size_t)t->crew.comm->ranks * team->total && status == YOKE_OK; i++)
            limits[i % team->total] = YKI_MAX(limits[i % team->total], all[i]);
        yki_free(all);
    }
    for (size_t k = 0; k < team->total; k++)
        if (limits[k] >= part_size(t))
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

/* `team`: the user's, or the lanes of its one device. */
static yoke_status
build(yoke_trainer *t, yoke_team *team, const yoke_trainer_options *o)
{
    t->local_statistics = o->local_batch_norm || yki_graph_is_local(t->graph);
    YKI_TRY(make_arrays(t, team));
    YKI_TRY(make_shares(t));
    YKI_TRY(make_crew(t, team, o));
    t->crew.timing = t->team->total > 1 && is_auto(t) && !o->freeze;
    YKI_TRY(set_limits(t));
    return yki_trainer_calibrate(t);
}

static yoke_status
build_lanes(yoke_trainer *t, const yoke_trainer_options *o)
{
    yoke_team *lanes;
    yoke_status status;

    YKI_TRY(yki_lanes_team(t->team, t->lanes.taken, &lanes));
    status = build(t, lanes, o);
    yoke_team_destroy(lanes); /* the crew holds it */
    return status;
}

yoke_status
yki_trainer_make(yoke_team *team, yoke_graph *graph, const yoke_trainer_options *o,
                 const yki_lanes_choice *lanes, yoke_trainer **out)
{
    yoke_trainer *t = yki_alloc(1, sizeof *t, "a trainer");
    yoke_status status;

    if (!t)
        return YOKE_ERROR_OUT_OF_MEMORY;
    t->options = *o;
    t->lanes = *lanes;
    t->graph = yki_graph_retain(graph);
    t->team = yki_team_retain(team);
    if (o->schedule) {
        t->schedule = *o->schedule;
        t->has_schedule = true;
    }
    status = lanes->taken ? build_lanes(t, o) : build(t, team, o);
    t->options.shares = t->options.wisdom = NULL;
    t->options.schedule = NULL;
    t->options.groups = NULL;
    if (status != YOKE_OK)
        yoke_trainer_destroy(t);
    else
        *out = t;
    return status;
}

/* What this process alone may be refused for: the others come to the comparison and wait there. */
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
    yki_lanes_choice lanes;
    yoke_trainer *t = NULL;
    yoke_status status;

    if (!team || !graph || !out)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_trainer_create: a team, a graph and a trainer are needed");
    if (given)
        memcpy(&o, given, YKI_MIN(size, sizeof o));
    YKI_TRY(check_alone(team, graph, &o));
    yki_optimizer_complete(&o.optimizer);
    /* Without steps there are no times that shares could follow. */
    if (!graph->loss && !graph->place_count && (!o.shares || strcmp(o.shares, "auto") == 0))
        o.shares = "even";
    o.batch = o.batch ? o.batch : 32;
    o.accumulate = o.accumulate ? o.accumulate : 1;
    YKI_TRY(yki_trainer_compare(yki_team_comm(team), graph, &o));
    status = yki_lanes_decide(team, graph, &o, &lanes);
    if (status == YOKE_OK)
        status = yki_trainer_make(team, graph, &o, &lanes, &t);
    if (status == YOKE_OK)
        status = yki_lanes_measure(team, &o, &t);
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
    yki_feeds_clear(&t->train_feeds, t->crew.count);
    yki_feeds_clear(&t->test_feeds, t->crew.count);
    for (size_t i = 0; i < YKI_FLIGHT; i++) {
        yki_event_release(&t->flights[i].read);
        for (size_t k = 0; t->flights[i].device_reads && k < t->crew.count; k++)
            yki_event_release(&t->flights[i].device_reads[k]);
        yki_free(t->flights[i].device_reads);
        yki_free(t->flights[i].counts);
        yki_free(t->flights[i].devices);
    }
    yki_history_clear(t);
    yki_free(t->history);
    yki_crew_destroy(&t->crew);
    yoke_team_destroy(t->team);
    yki_shares_destroy(t->shares);
    yki_free(t->inputs);
    yki_free(t->counts);
    yki_free(t->seconds);
    yki_free(t->told);
    yki_free(t->detail);
    yoke_graph_destroy(t->graph);
    yki_free(t);
}

/* ---- failures ---- */

yoke_status
yki_trainer_ready(yoke_trainer *t, const char *function)
{
    if (!t)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: the trainer is NULL", function);
    if (t->status != YOKE_OK)
        return yki_fail(YOKE_ERROR_STATE, "%s: the trainer stands still since: %s", function,
                        t->detail ? t->detail : yoke_status_string(t->status));
    return YOKE_OK;
}

yoke_status
yki_trainer_trains(yoke_trainer *t, const char *function)
{
    YKI_TRY(yki_trainer_ready(t, function));
    if (!t->graph->loss)
        return yki_fail(YOKE_ERROR_STATE,
                        "%s: the graph has no loss, so the trainer can predict and nothing else; "
                        "give the graph one before: yoke_graph_set_loss",
                        function);
    return YOKE_OK;
}

yoke_status
yki_trainer_stand_still(yoke_trainer *t, yoke_status status)
{
    t->status = status;
    yki_free(t->detail);
    t->detail = yki_strdup(yoke_last_error(), "an error");
    return status;
}

/* The others are drained; what happened is said with device and step. */
yoke_status
yki_trainer_failed(yoke_trainer *t, yoke_status status)
{
    yoke_device *device = yoke_team_get_device(t->crew.team, t->crew.at);
    char *why = yki_strdup(yoke_last_error(), "an error");
    int64_t step = t->step + 1;

    t->status = status;
    (void)yki_crew_finish(&t->crew);
    if (yki_crew_complete_update(&t->crew))
        t->step++;
    yki_free(t->detail);
    t->detail = yki_format("step %lld, device %s: %s; the weights are those of step %lld",
                           (long long)step, device ? yki_device_id(device) : "?", why ? why : "",
                           (long long)t->step);
    yki_free(why);
    if (t->detail)
        yki_set_detail(t->detail);
    if (t->crew.comm && t->crew.comm->fail)
        t->crew.comm->fail(t->crew.comm, t->detail ? t->detail : yoke_status_string(status));
    return status;
}

/* ---- a step ---- */

static float
rate_factor(const yoke_trainer *t)
{
    return t->has_schedule ? yoke_schedule_factor(&t->schedule, t->step) : 1;
}

/* Times of all devices, gathered where there are several processes. */
static yoke_status
tell_times(yoke_trainer *t, const yki_flight *flight)
{
    const yoke_team *team = t->crew.team;

    if (!t->crew.timing)
        return YOKE_OK;
    memset(t->told, 0, team->total * sizeof *t->told);
    for (size_t k = 0; k < team->count; k++)
        t->told[team->first + k] =
            (float)(yki_member_seconds(&t->crew.members[k], (size_t)(flight - t->flights)) /
                    t->options.accumulate);
    if (t->crew.comm) {
        float *all = t->told + team->total;

        YKI_TRY(t->crew.comm->gather(t->crew.comm, t->told, team->total * sizeof *t->told, all));
        for (size_t k = 0; k < team->total; k++) {
            t->told[k] = 0;
            for (int32_t r = 0; r < t->crew.comm->ranks; r++)
                t->told[k] += all[(size_t)r * team->total + k];
        }
    }
    for (size_t k = 0; k < team->total; k++)
        t->seconds[k] = (double)t->told[k];
    yki_shares_observe(t->shares, flight->counts, t->seconds);
    return YOKE_OK;
}

/* A step is complete: its results are looked at. */
static yoke_status
land(yoke_trainer *t, yki_flight *flight)
{
    yoke_status status;

    if (!flight->busy)
        return YOKE_OK;
    status = yki_event_wait(&flight->read);
    yki_event_release(&flight->read);
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_status one = yki_event_wait(&flight->device_reads[k]);

        yki_event_release(&flight->device_reads[k]);
        status = status == YOKE_OK ? one : status;
    }
    flight->busy = false;
    YKI_TRY(status);
    t->completed = flight->step;
    YKI_TRY(tell_times(t, flight));
    if (t->on_result)
        t->on_result(t->on_result_user, flight);
    return YOKE_OK;
}

yoke_status
yki_trainer_settle(yoke_trainer *t, size_t left)
{
    for (int64_t s = t->step - YKI_FLIGHT + 1; s <= t->step - (int64_t)left; s++)
        if (s >= 1)
            YKI_TRY(land(t, &t->flights[s % YKI_FLIGHT]));
    return YOKE_OK;
}

/* The pairs of loss and metrics, as the device has them behind this step. */
static yoke_status
read_results(yoke_trainer *t, yki_flight *flight)
{
    yki_member *m = &t->crew.members[t->crew.home];

    for (size_t k = 0; k < t->crew.count && flight->devices; k++) {
        const yki_member *one = &t->crew.members[k];

        if (!one->results)
            continue;
        YKI_TRY(yki_queue_read(one->replica->queue, one->results, 0, 8, flight->devices + 2 * k,
                               YKI_NO_WAIT, &flight->device_reads[k]));
    }
    if (m->totals)
        return yki_queue_read(m->replica->queue, m->totals, 0, t->crew.pairs * 8, flight->pairs,
                              YKI_NO_WAIT, &flight->read);
    for (size_t i = 0; i < t->crew.pairs; i++) {
        const yoke_node *node = yki_pair_node(t->graph, i);

        yki_event_release(&flight->read);
        YKI_TRY(yki_queue_read(m->replica->queue, yki_plan_buffer(m->replica->training, node), 0, 8,
                               flight->pairs + 2 * i, YKI_NO_WAIT, &flight->read));
    }
    return YOKE_OK;
}

/* Lanes have parts of equal size, and are the one device of the team. */
void
yki_trainer_divide(const yoke_trainer *t, int64_t n, int64_t *counts)
{
    int64_t lanes = t->lanes.taken;

    if (lanes == 0)
        yki_shares_divide(t->shares, n, counts);
    for (int64_t k = 0; k < lanes; k++)
        counts[k] = n / lanes + (k < n % lanes);
}

/* One part: samples [first, first + n) of the batch, split over all devices, or all of them on
 * every device where each has a part of the graph. */
static yoke_status
run_part(yoke_trainer *t, yki_flight *flight, uint32_t part, int64_t first, int64_t n,
         yki_loader load, void *user)
{
    yki_crew *crew = &t->crew;

    if (part == 0)
        YKI_TRY(yki_shares_next(t->shares, n, t->counts));
    if (part > 0 || t->lanes.taken)
        yki_trainer_divide(t, n, t->counts);
    if (!load && memcmp(t->counts, t->flights[t->step % YKI_FLIGHT].counts,
                        crew->team->total * sizeof *t->counts) != 0)
        return yki_fail(YOKE_ERROR_STATE, "the data of the step before is split in other shares");
    if (part == 0)
        memcpy(flight->counts, t->counts, crew->team->total * sizeof *t->counts);
    for (size_t k = 0; k < crew->team->first; k++)
        first += t->counts[k];
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        m->first = first;
        m->n = crew->stages ? n : t->counts[crew->team->first + k];
        if (m->n && load)
            YKI_TRY(load(user, t, k, m->replica->training, first, m->n));
        first += crew->stages ? 0 : m->n;
    }
    return yki_crew_part(crew, part, t->options.accumulate, rate_factor(t));
}

static yoke_status
run_step(yoke_trainer *t, yki_flight *flight, int64_t n, yki_loader load, void *user)
{
    int64_t first = 0, parts = t->options.accumulate;

    t->crew.flight = (size_t)(flight - t->flights);
    yki_crew_drop_times(&t->crew, t->crew.flight);
    for (int64_t p = 0; p < parts; p++) {
        int64_t size = yki_part_of(n, parts, p);

        YKI_TRY(run_part(t, flight, (uint32_t)p, first, size, load, user));
        first += size;
    }
    YKI_TRY(yki_crew_update(&t->crew));
    YKI_TRY(read_results(t, flight));
    return yki_queue_flush(t->crew.members[t->crew.home].replica->queue);
}

yoke_status
yki_trainer_run(yoke_trainer *t, int64_t n, yki_loader load, void *user)
{
    yki_flight *flight = &t->flights[(t->step + 1) % YKI_FLIGHT];
    yoke_status status;

    if (t->crew.comm && t->crew.comm->beat)
        t->crew.comm->beat(t->crew.comm, t->step + 1, "a step");
    status = land(t, flight);
    flight->begun = yki_now();
    flight->samples = n;
    flight->step = t->step + 1;
    if (status == YOKE_OK)
        status = run_step(t, flight, n, load, user);
    if (status != YOKE_OK)
        return yki_trainer_failed(t, status);
    flight->busy = true;
    t->step++;
    t->states_differ = t->local_statistics;
    return YOKE_OK;
}

/* ---- from host memory ---- */

typedef struct feeds {
    const yoke_feed *feeds;
    size_t count;
} feeds;

static yoke_status
load_arrays(void *user, yoke_trainer *t, size_t member, yki_plan *plan, int64_t first, int64_t n)
{
    const feeds *from = user;
    yoke_replica *r = t->crew.members[member].replica;

    for (size_t i = 0; i < from->count; i++)
        YKI_TRY(yki_replica_give(r, plan, from->feeds[i].name, first, n, from->feeds[i].data));
    return YOKE_OK;
}

static bool
is_given(const char *name, const yoke_feed *given, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(given[i].name, name) == 0)
            return true;
    return false;
}

/* Everything that is wrong with the data is found before anything is enqueued. */
static yoke_status
check_feeds(const yoke_trainer *t, const char *function, int64_t n, const yoke_feed *given,
            size_t count)
{
    if (count && !given)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: the feeds are NULL; their number is %zu",
                        function, count);
    for (size_t i = 0; i < count; i++) {
        const yoke_node *node;

        if (!given[i].name)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: feed %zu has no name", function, i);
        node = yoke_graph_get_node(t->graph, given[i].name);
        if (!node || node->role != YKI_ROLE_INPUT)
            return yki_graph_no_input(t->graph, given[i].name);
        if (is_given(given[i].name, given, i))
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "%s: feed \"%s\" is given twice; each input takes one", function,
                            given[i].name);
        YKI_TRY(yki_check_feed(function, &given[i], node->type, node->shape, n));
        YKI_TRY(yki_check_labels(node, n, given[i].data));
    }
    return YOKE_OK;
}

/* Every input that a plan reads has its feed. */
static yoke_status
check_fed(const yoke_trainer *t, const yki_plan *plan, const yoke_feed *given, size_t count)
{
    for (size_t i = 0; i < t->graph->node_count; i++) {
        const yoke_node *node = t->graph->nodes[i];

        if (node->role == YKI_ROLE_INPUT && yki_plan_buffer(plan, node) &&
            !is_given(node->name, given, count))
            return yki_fail(YOKE_ERROR_NOT_FOUND, "nothing is given for the input \"%s\"",
                            node->name);
    }
    return YOKE_OK;
}

static yoke_status
check_step(const yoke_trainer *t, int64_t n, const yoke_feed *given, size_t count)
{
    const char *function = "yoke_trainer_step";

    if (n < 0 || n > t->options.batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: a step of %lld samples; must be between 0 and %lld, the batch",
                        function, (long long)n, (long long)t->options.batch);
    if (count == 0 && n > 0) {
        if (t->step == 0 || t->options.accumulate > 1 ||
            t->flights[t->step % YKI_FLIGHT].samples != n)
            return yki_fail(YOKE_ERROR_STATE, "%s: nothing is given for %lld samples", function,
                            (long long)n);
        return YOKE_OK;
    }
    YKI_TRY(check_feeds(t, function, n, given, count));
    for (size_t k = 0; k < (t->crew.stages ? t->crew.count : 1); k++)
        YKI_TRY(check_fed(t, t->crew.members[k].replica->training, given, count));
    return YOKE_OK;
}

static void
result_of(const yoke_trainer *t, const yki_flight *flight, yoke_result *result)
{
    double pairs[2 * YKI_PAIRS];

    for (size_t i = 0; i < 2 * t->crew.pairs; i++)
        pairs[i] = (double)flight->pairs[i];
    memset(result, 0, sizeof *result);
    yki_trainer_result(t, pairs, result);
    result->samples = flight->samples;
    result->step = flight->step;
    result->seconds = yki_now() - flight->begun;
}

yoke_status
yoke_trainer_step(yoke_trainer *t, int64_t n, const yoke_feed *given, size_t count,
                  yoke_result *result)
{
    feeds from = {given, count};

    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_step"));
    YKI_TRY(check_step(t, n, given, count));
    YKI_TRY(yki_trainer_run(t, n, count ? load_arrays : NULL, &from));
    if (!result)
        return YOKE_OK;
    YKI_TRY(yoke_trainer_wait(t));
    result_of(t, &t->flights[t->step % YKI_FLIGHT], result);
    return YOKE_OK;
}

/* An output needs the inputs that it is computed from, and no target. */
static yoke_status
check_read(const yoke_trainer *t, const char *output, const yoke_feed *given, size_t count)
{
    const yoke_graph *g = t->graph;
    bool *read = yki_alloc(g->node_count, sizeof *read, "inputs of an output");
    const yoke_node *missing = NULL;

    if (!read)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; output && i < g->output_count; i++)
        if (strcmp(g->outputs[i].name, output) == 0)
            read[g->outputs[i].node->id] = true;
    /* A node comes behind its inputs. */
    for (size_t i = g->node_count; i-- > 0;) {
        const yoke_node *node = g->nodes[i];

        for (uint32_t k = 0; read[i] && k < node->input_count; k++)
            read[node->inputs[k]->id] = true;
        if (read[i] && node->role == YKI_ROLE_INPUT && !is_given(node->name, given, count))
            missing = node;
    }
    yki_free(read);
    if (missing)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "nothing is given for the input \"%s\"",
                        missing->name);
    return YOKE_OK;
}

yoke_status
yoke_trainer_predict(yoke_trainer *t, const char *output, int64_t n, const yoke_feed *given,
                     size_t count, float *values, size_t value_count)
{
    feeds from = {given, count};

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_predict"));
    if (n < 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_trainer_predict: %lld samples; must be 0 or more", (long long)n);
    YKI_TRY(check_feeds(t, "yoke_trainer_predict", n, given, count));
    YKI_TRY(check_read(t, output, given, count));
    return yki_trainer_predict(t, output, n, load_arrays, &from, values, value_count);
}

yoke_status
yoke_trainer_wait(yoke_trainer *t)
{
    yoke_status status;

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_wait"));
    status = yki_trainer_settle(t, 0);
    if (status == YOKE_OK)
        status = yki_crew_finish(&t->crew);
    return status == YOKE_OK ? YOKE_OK : yki_trainer_failed(t, status);
}
