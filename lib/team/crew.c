/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - makes the replicas of this process's devices, and the kernels, queues and
 * buffers with which they exchange results. A step allocates nothing.
 */
#include <stdio.h>
#include <string.h>

#include "team/sharding.h"
#include "team/stages.h"

/* ---- groups ---- */

/* Finds the group of a member that has the same memory; NULL: there is none yet. Devices of a graph
 * with places have different weights. */
static yki_group *
find_group(const yki_crew *crew, size_t member, const yki_crew_options *options)
{
    const yoke_device *device = yoke_team_get_device(crew->team, member);

    for (size_t g = 0; g < crew->group_count && !crew->stages && !options->own_weights; g++)
        if (yki_devices_share(yoke_team_get_device(crew->team, crew->groups[g].members[0]), device))
            return &crew->groups[g];
    return NULL;
}

static yoke_status
make_groups(yki_crew *crew, const yki_crew_options *options)
{
    crew->groups = yki_alloc(crew->count, sizeof *crew->groups, "groups of devices");
    if (!crew->groups)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->count; k++) {
        yki_group *group = find_group(crew, k, options);

        if (!group) {
            group = &crew->groups[crew->group_count];
            group->members = yki_alloc(crew->count, sizeof *group->members, "a group of devices");
            if (!group->members)
                return YOKE_ERROR_OUT_OF_MEMORY;
            crew->group_count++;
        }
        crew->members[k].group = (uint32_t)(group - crew->groups);
        crew->members[k].index_in_group = (uint32_t)group->count;
        group->members[group->count++] = k;
    }
    for (size_t g = 0; g < crew->group_count; g++)
        crew->groups[g].owners = (uint32_t)YKI_MIN(crew->groups[g].count, YKI_TEAM_INPUTS);
    crew->through_host = !crew->stages && (crew->group_count > 1 || crew->comm);
    return YOKE_OK;
}

void
yki_crew_explain_groups(const yki_crew *crew, const yki_teller *to)
{
    for (size_t g = 0; g < crew->group_count; g++) {
        const yki_group *group = &crew->groups[g];
        char text[512] = "";
        bool several = false;
        size_t used = 0;

        for (size_t i = 0; i < group->count && used < sizeof text; i++) {
            const yoke_device *device = yoke_team_get_device(crew->team, group->members[i]);

            several |= yki_device_space(device) !=
                       yki_device_space(yoke_team_get_device(crew->team, group->members[0]));
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
                                     yki_device_id(device));
        }
        if (several)
            yki_tell(to, "one set of weights: %s", text);
    }
}

yoke_status
yki_crew_find(const yki_crew *crew, const char *name, size_t *member, yki_weight **weight)
{
    size_t k = 0;
    yki_weight *found = yki_weights_find(crew->members[k].replica->weights, name);

    while (found && !found->value && crew->stages && ++k < crew->count)
        found = yki_weights_find(crew->members[k].replica->weights, name);
    if (!found)
        return YOKE_ERROR_NOT_FOUND;
    *member = k;
    *weight = found;
    return YOKE_OK;
}

bool
yki_member_owns(const yki_crew *crew, const yki_member *m, size_t bucket)
{
    if (crew->stages)
        return yki_weights_has(m->replica->weights, bucket);
    return bucket % crew->groups[m->group].owners == m->index_in_group;
}

/* ---- members ---- */

/* Planning may take minutes while other ranks wait: tells them that this rank does not hang. */
static void
say_alive(void *user)
{
    yoke_comm *comm = user;

    comm->heartbeat(comm, 0, "compiling and measuring");
}

/* Whether there are shards: a group that is alone has all. */
static bool
shards(const yki_crew *crew)
{
    return crew->sharding.level && crew->through_host && crew->graph->loss;
}

/* Fills in the options of member k's replica. */
static void
describe(const yki_crew *crew, size_t k, const yki_crew_options *options, yoke_replica_options *o,
         yki_replica_in_team *in_team)
{
    const yki_member *m = &crew->members[k];
    const yki_group *group = &crew->groups[m->group];
    const yoke_replica *first = yki_crew_in_group(crew, m->group, 0)->replica;

    *o = options->replica;
    o->batch = YKI_MAX(options->most[k], 1);
    if (crew->sharding.batch)
        o->batch = YKI_MIN(o->batch, crew->sharding.batch);
    if (crew->budgets)
        o->recompute_bytes = crew->budgets[k];
    o->evaluation_only = !crew->graph->loss;
    *in_team = (yki_replica_in_team){
        .merges = (crew->team->total > 1 || crew->exact.together) && !options->local_batch_norm &&
                  !crew->stages,
        .lender = m->index_in_group && first ? first->weights : NULL, /* none in an estimate */
        .weights = crew->stages ? crew->stages->weights[k] : NULL,
        .timed = options->timed,
        .accumulates = options->accumulates,
        .overlaps = !crew->exact.granule && (crew->count > 1 || crew->comm),
        .settle = crew->team->settle || crew->exact.granule,
        .canonical = crew->exact.granule > 0,
        .average = options->average,
        .scales_loss = options->scales_loss,
        .bucket_size = crew->buckets.limit,
        .owner =
            m->index_in_group < group->owners ? m->index_in_group : UINT32_MAX, /* owns no bucket */
        .owners = group->owners,
        .divides = crew->sharding.gradients,
        .gathers = crew->sharding.weights,
        .lag = options->accumulates ? 0 : YKI_SHARDING_LAG,
        .ranges = crew->sharding.ranges,
        .shard = crew->sharding.first + m->group,
        .waits = shards(crew) && !crew->sharding.ranges,
        .totals = m->totals,
        .norm_parts = group->norm_parts};
    if (crew->comm && crew->comm->heartbeat) {
        in_team->tick = say_alive;
        in_team->tick_user = crew->comm;
    }
}

/* Makes a replica without its plan. */
static yoke_status
open_replica(yki_crew *crew, size_t k, const yki_crew_options *options)
{
    yki_member *m = &crew->members[k];
    yoke_device *device = yoke_team_get_device(crew->team, k);
    yoke_replica_options o;
    yki_replica_in_team in_team;

    if (crew->team->total > 1 || options->accumulates || crew->stages) {
        size_t rows = YKI_MAX(crew->exact.most, (size_t)1);

        if (!crew->stages || crew->team->first + k == crew->stages->home)
            YKI_TRY(yki_buffer_create(device, rows * crew->pairs * 8, 0, "results", &m->results));
        YKI_TRY(yki_buffer_create(device, crew->pairs * 8, 0, "results of the team", &m->totals));
    }
    /* make_norm_parts has made the buffer that all owners of the group share. */
    if (m->index_in_group > 0 && options->replica.clip_norm > 0 &&
        !crew->groups[m->group].norm_parts)
        return yki_fail_bug("the buffer for partial norms was not made");
    describe(crew, k, options, &o, &in_team);
    return yki_replica_open(device, crew->graph, &o, &in_team, &m->replica);
}

/* What is done with each replica: a survey or a plan. If the device's memory does not hold the
 * largest batch, the replica is made for half of it, and so on, and gets fewer samples. The plan
 * that fits then tells how many samples would fit. */
typedef yoke_status (*with_replica)(yoke_replica *replica, const yoke_replica_options *options,
                                    const yki_replica_in_team *in_team, yki_costs *costs);

/* Makes a plan for less than `wanted` samples again, for as many as fit, if those are more. */
static yoke_status
grow_again(yoke_replica *r, const yoke_replica_options *o, const yki_replica_in_team *in_team,
           int64_t wanted)
{
    int64_t made = r->options.batch, most;
    yoke_status status;

    YKI_TRY(yki_plan_capacity(r->training, &most));
    most = YKI_MIN(most, wanted);
    if (most <= made)
        return YOKE_OK;
    yki_replica_unplan(r);
    r->options.batch = most;
    status = yki_replica_plan(r, o, in_team);
    if (!yki_lacks_memory(status))
        return status;
    r->options.batch = made;
    return yki_replica_plan(r, o, in_team);
}

static yoke_status
shrink_until_it_fits(yki_crew *crew, size_t k, const yki_crew_options *options, with_replica act,
                     yki_costs *costs)
{
    yoke_replica *r = crew->members[k].replica;
    int64_t wanted = r->options.batch;
    yoke_replica_options o;
    yki_replica_in_team in_team;
    yoke_status status;

    describe(crew, k, options, &o, &in_team);
    while (true) {
        status = act(r, &o, &in_team, costs);
        if (!yki_lacks_memory(status) || !options->may_shrink || r->options.batch == 1)
            break;
        r->options.batch = (r->options.batch + 1) / 2;
    }
    if (status == YOKE_OK && r->training && r->options.batch < wanted)
        status = grow_again(r, &o, &in_team, wanted);
    if (status == YOKE_OK && r->options.batch < wanted)
        yki_log(YOKE_LOG_INFO, "%s: its memory holds %lld samples, not %lld",
                yki_device_id(r->weights->device), (long long)r->options.batch, (long long)wanted);
    return status;
}

static yoke_status
survey(yoke_replica *replica, const yoke_replica_options *options,
       const yki_replica_in_team *in_team, yki_costs *costs)
{
    (void)options;
    yki_costs_free(costs); /* of the attempt with a larger batch */
    YKI_TRY(yki_costs_create(replica->weights->graph->node_count, costs));
    return yki_replica_survey(replica, in_team, costs);
}

static yoke_status
plan(yoke_replica *replica, const yoke_replica_options *options, const yki_replica_in_team *in_team,
     yki_costs *costs)
{
    (void)costs;
    return yki_replica_plan(replica, options, in_team);
}

/* Makes the buffer of partial norms that the owners of a group share. It is needed before the first
 * replica is made, so a temporary set of weights is made just to count the norms. */
static yoke_status
make_norm_parts(yki_crew *crew, const yki_crew_options *options)
{
    for (size_t g = 0; g < crew->group_count; g++) {
        yoke_device *device = yoke_team_get_device(crew->team, crew->groups[g].members[0]);
        yki_weights *weights;
        uint64_t size;

        if (crew->groups[g].count < 2 || options->replica.clip_norm <= 0)
            continue;
        if (crew->sharding.weights)
            YKI_TRY(yki_weights_create_transient(device, crew->graph, crew->buckets.limit, NULL,
                                                 true, &weights));
        else
            YKI_TRY(yki_weights_create(device, crew->graph, false, crew->buckets.limit, NULL,
                                       &weights));
        size = (uint64_t)yki_updater_norm_count(weights) * 4;
        yki_weights_release(weights);
        YKI_TRY(yki_buffer_create(device, size, 0, "partial norms", &crew->groups[g].norm_parts));
    }
    return YOKE_OK;
}

typedef struct deed {
    const yki_crew_options *options;
    with_replica act;
    yki_costs *costs; /* by member; or NULL */
} deed;

static yoke_status
do_all(yki_crew *crew, void *user)
{
    const deed *d = user;

    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(shrink_until_it_fits(crew, k, d->options, d->act, d->costs ? &d->costs[k] : NULL));
    return YOKE_OK;
}

static yoke_status
with_each(yki_crew *crew, const yki_crew_options *options, with_replica act, yki_costs *costs)
{
    deed d = {options, act, costs};

    return yki_crew_in_turn(crew, do_all, &d);
}

static yoke_status
agree(yki_crew *crew, const yki_crew_options *options)
{
    yki_costs *costs = yki_alloc(crew->count, sizeof *costs, "costs of numerical classes");
    yoke_status status;

    if (!costs)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = with_each(crew, options, survey, costs);
    if (status == YOKE_OK)
        status = yki_crew_agree_classes(crew, costs);
    for (size_t k = 0; k < crew->count; k++)
        yki_costs_free(&costs[k]);
    yki_free(costs);
    return status;
}

static yoke_status
make_replicas(yki_crew *crew, const yki_crew_options *options)
{
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(open_replica(crew, k, options));
    if (yki_crew_agrees_classes(crew, options))
        YKI_TRY(agree(crew, options));
    return with_each(crew, options, plan, NULL);
}

/* Whether gradients of this member go to the host and back, through pinned memory. */
static bool
passes_pinned(const yki_crew *crew, const yki_member *m)
{
    return yki_crew_adds_pinned(crew) &&
           !yki_device_get_traits(m->replica->weights->device)->direct_host;
}

static yoke_status
make_side_queue(yki_crew *crew, yki_member *m)
{
    if (m->index_in_group >= crew->groups[m->group].owners ||
        (crew->groups[m->group].count < 2 && !passes_pinned(crew, m)))
        return YOKE_OK;
    return yki_queue_create(m->replica->weights->device, false, &m->side);
}

/* ---- kernels ---- */

/* Collects a buffer of each member of a group, by `pick`, in the order of the devices. */
static size_t
collect(const yki_crew *crew, size_t group, yki_buffer *(*pick)(const yki_member *, size_t),
        size_t index, yki_buffer **buffers)
{
    for (size_t i = 0; i < crew->groups[group].count; i++)
        buffers[i] = pick(yki_crew_in_group(crew, group, i), index);
    return crew->groups[group].count;
}

/* The gradients to be summed: the sums over micro-batches, if a step may have several. */
static yki_buffer *
pick_gradients(const yki_member *m, size_t bucket)
{
    return m->accumulated ? m->accumulated[bucket] : m->replica->weights->buckets[bucket].gradients;
}

static yoke_status
make_pack(yki_crew *crew, yki_member *m)
{
    for (size_t i = 0; i * YKI_TEAM_INPUTS < crew->pairs; i++)
        YKI_TRY(yki_kernel_get(m->replica->weights->device, "team.cl", "", "yki_team_results",
                               &m->pack[i]));
    return YOKE_OK;
}

static yoke_status
make_merges(yki_crew *crew, yki_member *m, yki_buffer **buffers)
{
    const yki_plan *plan = m->replica->training;

    for (size_t s = 0; s < plan->stop_count; s++) {
        const yki_stop *stop = &plan->stops[s];
        size_t count;

        if (stop->gathers)
            continue;
        count = collect(crew, m->group, yki_member_stop, s, buffers);

        YKI_TRY(
            yki_combine_make(m->replica->weights->device,
                             stop->merge == YKI_MERGE_SUM ? "yki_team_sum_few" : "yki_team_moments",
                             buffers, count, stop->out, stop->count, &m->merges[s]));
    }
    return YOKE_OK;
}

static yoke_status
make_sums(yki_crew *crew, yki_member *m, yki_buffer **buffers)
{
    for (size_t b = 0; b < crew->buckets.count; b++) {
        size_t floats = m->replica->weights->buckets[b].size / 4;
        size_t count;

        if (!yki_weights_has(m->replica->weights, b))
            continue;
        if (m->accumulated && !crew->exact.granule) {
            yki_buffer *both[2] = {m->accumulated[b], m->replica->weights->buckets[b].gradients};

            YKI_TRY(yki_combine_make(m->replica->weights->device, "yki_team_sum", both, 2, both[0],
                                     floats, &m->accumulates[b]));
        }
        count = collect(crew, m->group, pick_gradients, b, buffers);
        if (crew->exact.granule) {
            if (yki_member_owns(crew, m, b) && count > 1)
                YKI_TRY(yki_combine_make(m->replica->weights->device, crew->exact.wire->sum,
                                         buffers, count, m->accumulated[b], floats, &m->sums[b]));
            continue;
        }
        /* The update reads the plan's own gradients, so sums over micro-batches end there too. */
        if (yki_member_owns(crew, m, b) && (count > 1 || m->accumulated))
            YKI_TRY(yki_combine_make(m->replica->weights->device, "yki_team_sum", buffers, count,
                                     m->replica->weights->buckets[b].gradients, floats,
                                     &m->sums[b]));
    }
    return YOKE_OK;
}

static yoke_status
make_accumulated(yki_crew *crew, yki_member *m)
{
    m->accumulated =
        yki_alloc(crew->buckets.count, sizeof *m->accumulated, "accumulated gradients");
    if (!m->accumulated)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t b = 0; b < crew->buckets.count; b++) {
        if (!yki_weights_has(m->replica->weights, b))
            continue;
        YKI_TRY(yki_buffer_create(m->replica->weights->device, yki_crew_travel_size(crew, b), 0,
                                  "accumulated gradients", &m->accumulated[b]));
        YKI_TRY(yki_buffer_touch(m->replica->queue, m->accumulated[b]));
    }
    return YOKE_OK;
}

static yoke_status
make_exchange(yki_crew *crew, yki_member *m, const yki_crew_options *options, yki_buffer **buffers)
{
    size_t buckets = YKI_MAX(crew->buckets.count, (size_t)1);

    m->merges = yki_alloc(crew->buckets.stop_count, sizeof *m->merges, "kernels of a team");
    m->sums = yki_alloc(buckets, sizeof *m->sums, "kernels of a team");
    m->accumulates = yki_alloc(buckets, sizeof *m->accumulates, "kernels of a team");
    m->complete = yki_alloc(buckets, sizeof *m->complete, "events of a team");
    if (!m->merges || !m->sums || !m->accumulates || !m->complete)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (m->results) {
        size_t count = collect(crew, m->group, yki_member_results, 0, buffers);

        YKI_TRY(make_pack(crew, m));
        YKI_TRY(yki_combine_make(m->replica->weights->device, "yki_team_sum_few", buffers, count,
                                 m->totals, crew->pairs * 2, &m->total));
        YKI_TRY(make_merges(crew, m, buffers));
    }
    (void)options;
    return make_sums(crew, m, buffers);
}

/* ---- exchange through the host ---- */

static yoke_status
check_alike(yki_crew *crew)
{
    const yki_plan *plan = crew->members[0].replica->training;

    for (size_t k = 1; k < crew->count; k++) {
        const yki_plan *other = crew->members[k].replica->training;
        bool alike = other->stop_count == plan->stop_count;

        for (size_t s = 0; alike && s < plan->stop_count; s++)
            alike = other->stops[s].count == plan->stops[s].count &&
                    other->stops[s].merge == plan->stops[s].merge &&
                    other->stops[s].gathers == plan->stops[s].gathers &&
                    other->stops[s].section == plan->stops[s].section;
        if (!alike && crew->sharding.weights && other->stop_count == plan->stop_count)
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "%s gathers weights and merges statistics of the batch in another "
                            "order than %s; divide gradients only",
                            yoke_team_get_device_name(crew->team, crew->team->first + k),
                            yoke_team_get_device_name(crew->team, crew->team->first));
        if (!alike)
            return yki_fail_bug("the plans of devices 0 and %zu merge different statistics", k);
    }
    return YOKE_OK;
}

/* Finds, for each bucket, after how many stops of backward it is complete on all devices of all
 * processes. */
static yoke_status
find_ready_stops(yki_crew *crew)
{
    uint32_t *own, *all;
    size_t buckets = crew->buckets.count;
    yoke_status status = YOKE_OK;

    crew->buckets.ready_stop = yki_alloc(buckets, sizeof *crew->buckets.ready_stop, "buckets");
    if (!crew->buckets.ready_stop)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t b = 0; b < buckets; b++)
        for (size_t k = 0; k < crew->count; k++) {
            const yki_plan *plan = crew->members[k].replica->training;
            size_t passed = 0;

            for (size_t s = 0; s < plan->stop_count; s++)
                passed += plan->stops[s].section == YKI_BACKWARD &&
                          plan->stops[s].task <= plan->bucket_task[b];
            /* The task that completes it is enqueued once the next stop is passed. Devices have
             * more to compute at the one behind it, if there are many. */
            passed += 1 + crew->sharding.weights;
            crew->buckets.ready_stop[b] = YKI_MAX(crew->buckets.ready_stop[b], passed);
        }
    if (!crew->comm || buckets == 0)
        return YOKE_OK;
    own = yki_alloc(buckets, sizeof *own, "buckets");
    all = yki_alloc(buckets * (size_t)crew->comm->ranks, sizeof *all, "buckets");
    if (!own || !all)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t b = 0; status == YOKE_OK && b < buckets; b++)
        own[b] = (uint32_t)crew->buckets.ready_stop[b];
    if (status == YOKE_OK)
        status = crew->comm->allgather(crew->comm, own, buckets * sizeof *own, all);
    for (size_t i = 0; status == YOKE_OK && i < buckets * (size_t)crew->comm->ranks; i++)
        crew->buckets.ready_stop[i % buckets] =
            YKI_MAX(crew->buckets.ready_stop[i % buckets], all[i]);
    yki_free(own);
    yki_free(all);
    return status;
}

/* Statistics pass through the host's memory, and through pinned memory of devices whose memory the
 * host cannot use. */
static yoke_status
make_few(yki_crew *crew)
{
    size_t most = crew->pairs * 2, rows = 1 + (crew->comm ? (size_t)crew->comm->ranks : 0);

    for (size_t s = 0; s < crew->buckets.stop_count; s++)
        most = YKI_MAX(most, crew->members[0].replica->training->stops[s].count);
    crew->host_floats = most;
    crew->host = yki_alloc(most * rows, sizeof *crew->host, "results on their way");
    if (!crew->host)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        if (!yki_device_get_traits(m->replica->weights->device)->direct_host)
            YKI_TRY(yki_buffer_create(m->replica->weights->device, 2 * most * sizeof(float),
                                      YKI_BUFFER_PINNED, "results on their way", &m->few));
    }
    return YOKE_OK;
}

/* Makes what buckets need that go from group to group of this process. */
static yoke_status
make_pinned(yki_crew *crew)
{
    for (size_t b = 0; b < crew->buckets.count; b++) {
        yki_transit *t = &crew->buckets.transit[b];

        t->arrived = yki_alloc(crew->group_count, sizeof *t->arrived, "gradients on their way");
        if (!t->arrived)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (size_t g = 0; g < crew->group_count; g++) {
        yki_group *group = &crew->groups[g];

        group->pinned =
            yki_alloc(crew->buckets.count, sizeof *group->pinned, "gradients on their way");
        if (!group->pinned)
            return YOKE_ERROR_OUT_OF_MEMORY;
        for (size_t b = 0; b < crew->buckets.count; b++) {
            yki_member *m = yki_crew_owner(crew, g, b);

            if (passes_pinned(crew, m))
                YKI_TRY(yki_buffer_create(m->replica->weights->device,
                                          yki_crew_travel_size(crew, b), YKI_BUFFER_PINNED,
                                          "gradients on their way", &group->pinned[b]));
        }
    }
    return YOKE_OK;
}

/* Makes what gradients and statistics pass through between groups and processes. For processes all
 * buckets share one piece of memory: a transport can share one large piece between them more easily
 * than many small ones. */
static yoke_status
make_transit(yki_crew *crew)
{
    uint64_t total = 0;
    char *at;

    YKI_TRY(make_few(crew));
    crew->buckets.transit =
        yki_alloc(crew->buckets.count, sizeof *crew->buckets.transit, "gradients on their way");
    if (!crew->buckets.transit)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (crew->sharding.gradients)
        return yki_sharding_make_transit(crew);
    if (!crew->comm) {
        YKI_TRY(make_pinned(crew));
        return yki_landings_create(crew);
    }
    for (size_t b = 0; b < crew->buckets.count; b++)
        total += 2 * yki_crew_transit_size(crew, b);
    crew->buckets.transit_memory = at =
        yki_comm_alloc(crew->comm, total, crew->buckets.algorithm, "gradients on their way");
    if (!at)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t b = 0; b < crew->buckets.count; b++) {
        uint64_t size = yki_crew_transit_size(crew, b);

        crew->buckets.transit[b].own = at;
        crew->buckets.transit[b].sum = at + size;
        at += 2 * size;
    }
    return YOKE_OK;
}

/* ---- making and unmaking ---- */

/* Makes what training needs besides the plans: sums of gradients and of results. */
static yoke_status
make_training(yki_crew *crew, const yki_crew_options *options, yki_buffer **buffers)
{
    YKI_TRY(check_alike(crew));
    crew->buckets.stop_count = crew->members[0].replica->training->stop_count;
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(make_side_queue(crew, &crew->members[k]));
    for (size_t k = 0; options->accumulates && k < crew->count; k++)
        YKI_TRY(make_accumulated(crew, &crew->members[k]));
    if (crew->exact.granule)
        YKI_TRY(yki_granules_create(crew));
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(make_exchange(crew, &crew->members[k], options, buffers));
    YKI_TRY(find_ready_stops(crew));
    return crew->through_host ? make_transit(crew) : YOKE_OK;
}

/* Beside a processor that computes, the host sleeps while it waits for GPUs. */
static void
wait_asleep(const yki_crew *crew)
{
    bool processor = false;

    for (size_t k = 0; k < crew->count; k++)
        processor |=
            yki_device_get_traits(yoke_team_get_device(crew->team, k))->type == YOKE_DEVICE_CPU;
    for (size_t k = 0; k < crew->count && processor; k++) {
        yoke_device *device = yoke_team_get_device(crew->team, k);

        if (yki_device_get_traits(device)->type == YOKE_DEVICE_GPU)
            yki_device_wait_asleep(device);
    }
}

/* A graph without a loss can only be evaluated. */
static yoke_status
build(yki_crew *crew, const yki_crew_options *options, yki_buffer **buffers)
{
    wait_asleep(crew);
    YKI_TRY(yki_crew_choose_reduction(crew, options));
    if (crew->graph->place_count || options->stages)
        YKI_TRY(yki_stages_create(crew, options));
    YKI_TRY(make_groups(crew, options));
    YKI_TRY(yki_sharding_choose(crew, options, describe));
    crew->sharding.weights = shards(crew) && crew->sharding.level == YOKE_SHARD_WEIGHTS;
    crew->sharding.gradients = shards(crew) && crew->sharding.level >= YOKE_SHARD_GRADIENTS;
    crew->sharding.norms = options->replica.clip_norm > 0;
    YKI_TRY(make_norm_parts(crew, options));
    YKI_TRY(make_replicas(crew, options));
    crew->buckets.count = crew->members[0].replica->weights->bucket_count;
    if (crew->graph->loss)
        YKI_TRY(make_training(crew, options, buffers));
    if (crew->stages)
        YKI_TRY(yki_stages_connect(crew, crew->graph->loss != NULL));
    return yki_crew_finish(crew);
}

/* Whether devices merge a statistic of the batch. */
static bool
merges_statistics(const yoke_graph *graph)
{
    bool merges = false;

    for (size_t i = 0; i < graph->node_count && !merges; i++) {
        const yoke_node *node = graph->nodes[i];

        merges = node->op && node->op->merge && node->op->merge(&node->attrs) != YKI_MERGE_NONE;
    }
    return merges;
}

yoke_status
yki_crew_create(yoke_team *team, yoke_graph *graph, const yki_crew_options *options, yki_crew *crew)
{
    yki_buffer **buffers;
    yoke_status status;

    memset(crew, 0, sizeof *crew);
    crew->team = yki_team_retain(team);
    crew->comm = yki_team_comm(team);
    crew->graph = graph;
    crew->count = team->count;
    crew->buckets.apart = options->apart;
    crew->rechecks = options->rechecks;
    crew->exact.granule = options->granule;
    crew->exact.most = options->granules;
    crew->exact.wire = yki_granules_wire(options->wire);
    crew->exact.micro_batches = options->micro_batches;
    crew->exact.together = options->granule && graph->loss && merges_statistics(graph);
    crew->pairs = 1 + graph->metric_count;
    crew->members = yki_alloc(crew->count, sizeof *crew->members, "members of a team");
    buffers = yki_alloc(crew->count, sizeof *buffers, "members of a team");
    status = crew->members && buffers ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = build(crew, options, buffers);
    yki_free(buffers);
    if (status != YOKE_OK)
        yki_crew_destroy(crew);
    return status;
}

yoke_status
yki_crew_divide_state(yki_crew *crew, const yki_crew_options *options)
{
    const yki_updater_options kept = {.optimizer = options->replica.optimizer,
                                      .state = options->replica.state,
                                      .average = options->average};

    if (!shards(crew))
        return YOKE_OK;
    YKI_TRY(yki_sharding_create(crew, options->shard_by, yki_updater_halves(&kept)));
    for (size_t k = 0; k < crew->count; k++) {
        yoke_replica_options o;
        yki_replica_in_team in_team;

        describe(crew, k, options, &o, &in_team);
        YKI_TRY(yki_replica_make_updater(crew->members[k].replica, &o, &in_team));
    }
    YKI_TRY(yki_sharding_connect(crew));
    if (crew->sharding.gradients && crew->exact.granule && !crew->sharding.norms)
        YKI_TRY(yki_granules_divide(crew));
    YKI_TRY(yki_crew_finish(crew)); /* parts are zeros until then */
    return yki_sharding_initialize(crew, options->replica.seed);
}

static void
clear_member(yki_crew *crew, yki_member *m)
{
    yki_combine_clear(&m->total);
    for (size_t i = 0; i < YKI_COUNT(m->pack); i++)
        yki_kernel_destroy(m->pack[i]);
    for (size_t s = 0; m->merges && s < crew->buckets.stop_count; s++)
        yki_combine_clear(&m->merges[s]);
    for (size_t b = 0; b < crew->buckets.count; b++) {
        if (m->sums)
            yki_combine_clear(&m->sums[b]);
        if (m->accumulates)
            yki_combine_clear(&m->accumulates[b]);
        if (m->accumulated)
            yki_buffer_destroy(m->accumulated[b]);
        if (m->complete)
            yki_event_release(&m->complete[b]);
    }
    yki_event_release(&m->arrived);
    yki_event_release(&m->reduced);
    yki_event_release(&m->updated);
    yki_buffer_destroy(m->few);
    yki_buffer_destroy(m->results);
    yki_buffer_destroy(m->totals);
    yki_queue_destroy(m->side);
    yki_queue_destroy(m->back);
    yki_free(m->merges);
    yki_free(m->sums);
    yki_free(m->accumulates);
    yki_free(m->accumulated);
    yki_free(m->complete);
    yki_free(m->own_classes);
    for (size_t f = 0; f < YKI_FLIGHT; f++)
        yki_free(m->spans[f].events);
}

void
yki_crew_destroy(yki_crew *crew)
{
    if (!crew->team)
        return;
    if (crew->members)
        (void)yki_crew_finish(crew);
    yki_landings_destroy(crew);
    yki_sharding_end_gathers(crew);
    yki_stages_end_mail(crew);
    /* Ends all requests before their memory is freed. */
    for (size_t b = 0; crew->buckets.transit && b < crew->buckets.count; b++) {
        bool done;

        if (crew->buckets.transit[b].request)
            (void)crew->comm->test(crew->comm, &crew->buckets.transit[b].request, true, &done);
        for (size_t g = 0; crew->buckets.transit[b].arrived && g < crew->group_count; g++)
            yki_event_release(&crew->buckets.transit[b].arrived[g]);
        yki_free(crew->buckets.transit[b].arrived);
        for (size_t g = 0; g < crew->group_count; g++)
            if (crew->groups[g].pinned)
                yki_buffer_destroy(crew->groups[g].pinned[b]);
    }
    for (size_t f = 0; crew->members && f < YKI_FLIGHT; f++)
        yki_crew_drop_times(crew, f);
    yki_granules_destroy(crew);
    for (size_t k = 0; crew->members && k < crew->count; k++)
        clear_member(crew, &crew->members[k]);
    for (size_t k = crew->members ? crew->count : 0; k-- > 0;)
        yoke_replica_destroy(crew->members[k].replica);
    yki_stages_destroy(crew);
    yki_sharding_destroy(crew);
    for (size_t g = 0; crew->groups && g < crew->group_count; g++) {
        yki_buffer_destroy(crew->groups[g].norm_parts);
        yki_free(crew->groups[g].pinned);
        yki_free(crew->groups[g].members);
    }
    yki_comm_release(crew->comm, crew->buckets.transit_memory);
    yki_free(crew->buckets.transit);
    yki_free(crew->buckets.ready_stop);
    yki_free(crew->classes);
    yki_free(crew->budgets);
    yki_free(crew->groups);
    yki_free(crew->members);
    yki_free(crew->host);
    yoke_team_destroy(crew->team);
    memset(crew, 0, sizeof *crew);
}
