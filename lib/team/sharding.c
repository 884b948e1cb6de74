/* SPDX-License-Identifier: Apache-2.0
 *
 * sharding.c - each owner keeps the optimizer's state for a part of the parameters only.
 *
 * Owners are the groups of all processes, numbered process by process. A table (shares/ranges.h)
 * says which range of each bucket an owner has. It updates that range, and then all get the new
 * weights of all ranges, through the memory in which gradients travel. Of the gradients a process
 * gets its own part alone, if the transport can do that. Then a step sends as many bytes as without
 * shards: half of an all-reduce for gradients, the other half for weights.
 *
 * Ranges follow the memory that owners have left when plans are made, or given weights; never the
 * shares of the batch.
 *
 * Gradients may be divided by the same table. Then a process has its own parts of the sums, and
 * whole buckets only while they are computed and summed: in the memory of its plans
 * (plan/buckets.c), from which the host takes them in the course of backward, and in a piece of
 * host memory for a few buckets. Sums over micro-batches and of granules stay whole, as they are
 * complete only at the end. So do those on the host if gradients are clipped: their norm is that of
 * whole buckets.
 *
 * Weights may be divided by that table too. Then nothing is shared after an update: a plan has
 * whole buckets of weights only while it reads them (plan/gathers.c), and all processes gather each
 * bucket at a stop of their plans, into one of two pieces of host memory. From there it goes to the
 * memory of each plan, while devices compute with the bucket before.
 */
#include <string.h>

#include "shares/shares.h"
#include "team/sharding.h"

enum { RING = 4 }; /* buckets on their way between processes, about */

/* ---- the table ---- */

/* The memory that is left of the quotas of a group, and of its hardware. */
static uint64_t
memory_left(const yki_crew *crew, const yki_group *group)
{
    uint64_t sum = 0, root = 0;

    for (size_t i = 0; i < group->count; i++) {
        const yoke_device *device = yoke_team_get_device(crew->team, group->members[i]);

        sum += yki_quota_left(device);
        root = YKI_MAX(root, yki_root_left(device));
    }
    return YKI_MIN(sum, root);
}

yki_shard_row
yki_sharding_row(const yki_crew *crew, size_t k)
{
    const uint32_t group = crew->members[k].group;

    return (yki_shard_row){.rank = crew->comm ? crew->comm->rank : 0,
                           .group = (int32_t)group,
                           .left = memory_left(crew, &crew->groups[group]),
                           .own = yki_quota_left(yoke_team_get_device(crew->team, k))};
}

size_t
yki_sharding_number(const yki_shard_row *rows, size_t total, size_t *owners)
{
    size_t count = 0, first = 0; /* owner of the rank */

    for (size_t k = 0; k < total; k++) {
        if (k > 0 && rows[k].rank != rows[k - 1].rank)
            first = count;
        owners[k] = first + (size_t)rows[k].group;
        count = YKI_MAX(count, owners[k] + 1);
    }
    return count;
}

/* Numbers the owners, and gives each its weight: that of its devices in by[], or its memory. */
static void
number_owners(yki_crew *crew, const yki_shard_row *rows, const size_t *owners, const double *by,
              double *weights, uint64_t *left)
{
    yki_sharding *s = &crew->sharding;

    s->first = owners[crew->team->first] - crew->members[0].group;
    for (size_t k = crew->team->total; k-- > 0;) {
        const size_t owner = owners[k];

        s->device[owner] = k; /* the first, in the end */
        s->end_of[rows[k].rank] = YKI_MAX(s->end_of[rows[k].rank], owner + 1);
        left[owner] = rows[k].left;
        weights[owner] = by ? weights[owner] + by[k] : (double)rows[k].left;
    }
}

/* Every owner must have memory for its part, or all processes say which one has not. */
static yoke_status
check_memory(const yki_crew *crew, const uint64_t *left, const char *by)
{
    const yki_sharding *s = &crew->sharding;

    for (size_t k = 0; k < s->count; k++) {
        const uint64_t part =
            (s->halves + 2u * s->gradients + 2u * s->weights) * yki_ranges_total(s->ranges, k) / 2;

        if (part > left[k])
            return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                            "%s: its part of the optimizer's state%s is %.3f MB, and %.3f MB of "
                            "its memory are free; %s, or take a smaller batch or more devices",
                            yoke_team_get_device_name(crew->team, s->device[k]),
                            s->weights     ? ", of gradients and of weights"
                            : s->gradients ? " and of gradients"
                                           : "",
                            (double)part / 1e6, (double)left[k] / 1e6,
                            by ? "give it a smaller weight in shard_by"
                               : "the team does not hold the state");
    }
    return YOKE_OK;
}

static yoke_status
make_table(yki_crew *crew, const char *text, const yki_shard_row *rows, double *by, uint64_t *left)
{
    yki_sharding *s = &crew->sharding;
    const yki_weights *w = crew->members[0].replica->weights;
    const size_t buckets = w->bucket_count;
    uint64_t *sizes = yki_alloc(YKI_MAX(buckets, (size_t)1), sizeof *sizes, "owners of state");
    double *weights = yki_alloc(crew->team->total, sizeof *weights, "owners of state");
    size_t *owners = yki_alloc(crew->team->total, sizeof *owners, "owners of state");
    yki_shares_kind kind = YKI_SHARES_AUTO;
    yoke_status status = sizes && weights && owners ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    double sum = 0;

    if (status == YOKE_OK)
        status = yki_shares_parse(text, YKI_SHARES_AUTO, crew->team->total, &kind, by);
    if (status == YOKE_OK) {
        s->count = yki_sharding_number(rows, crew->team->total, owners);
        number_owners(crew, rows, owners, kind == YKI_SHARES_AUTO ? NULL : by, weights, left);
        for (size_t b = 0; b < buckets; b++)
            sizes[b] = w->buckets[b].size;
        for (size_t k = 0; k < s->count; k++)
            sum += weights[k];
        for (size_t k = 0; k < s->count && !(sum > 0); k++)
            weights[k] = 1; /* no memory anywhere: the check says so */
        status = yki_ranges_create(sizes, buckets, weights, s->count, &s->ranges);
    }
    yki_free(sizes);
    yki_free(weights);
    yki_free(owners);
    return status == YOKE_OK ? check_memory(crew, left, kind == YKI_SHARES_AUTO ? NULL : text)
                             : status;
}

yoke_status
yki_sharding_create(yki_crew *crew, const char *by, size_t halves)
{
    const size_t ranks = crew->comm ? (size_t)crew->comm->ranks : 1, total = crew->team->total;
    yki_sharding *s = &crew->sharding;
    yki_shard_row *rows = yki_alloc(total, sizeof *rows, "owners of state");
    double *weights = yki_alloc(total, sizeof *weights, "owners of state");
    uint64_t *left = yki_alloc(total, sizeof *left, "owners of state");
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    s->halves = halves;
    s->device = yki_alloc(total, sizeof *s->device, "owners of state");
    s->end_of = yki_alloc(ranks, sizeof *s->end_of, "owners of state");
    s->counts = yki_alloc(ranks, sizeof *s->counts, "owners of state");
    for (size_t k = 0; rows && k < crew->count; k++)
        rows[crew->team->first + k] = yki_sharding_row(crew, k);
    if (rows && weights && left && s->device && s->end_of && s->counts)
        status = yki_team_share_rows(crew->team, NULL, sizeof *rows, rows);
    if (status == YOKE_OK)
        status = make_table(crew, by, rows, weights, left);
    yki_free(rows);
    yki_free(weights);
    yki_free(left);
    return status;
}

static uint64_t
largest_bucket(const yki_crew *crew)
{
    uint64_t most = 1;

    for (size_t b = 0; b < crew->buckets.count; b++)
        most = YKI_MAX(most, crew->members[0].replica->weights->buckets[b].size);
    return most;
}

/* Makes the memory through which weights go to plans. */
static yoke_status
make_passing(yki_crew *crew)
{
    const uint64_t page = 4096, most = (largest_bucket(crew) + page - 1) / page * page;
    yki_sharding *s = &crew->sharding;

    s->passing_memory =
        yki_comm_alloc(crew->comm, 2 * most, crew->buckets.algorithm, "weights on their way");
    if (!s->passing_memory)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < 2; i++) {
        s->passing[i] = (char *)s->passing_memory + i * most;
        s->passed[i] = yki_alloc(crew->count, sizeof *s->passed[i], "weights on their way");
        if (!s->passed[i])
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    return YOKE_OK;
}

yoke_status
yki_sharding_connect(yki_crew *crew)
{
    yki_sharding *s = &crew->sharding;
    uint64_t most;

    /* The norm is that of all gradients, in the order in which one device sums it. */
    s->scatters = crew->comm && crew->comm->reduce_scatter_start && !s->norms;
    if (s->weights)
        YKI_TRY(make_passing(crew));
    if (crew->comm || s->gradients)
        return YOKE_OK;
    most = largest_bucket(crew);
    s->host = yki_alloc_aligned(4096, YKI_MAX(most, (uint64_t)1), "weights on their way");
    return s->host ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

void
yki_sharding_destroy(yki_crew *crew)
{
    yki_sharding *s = &crew->sharding;

    yki_ranges_destroy(s->ranges);
    yki_free(s->device);
    yki_free(s->end_of);
    yki_free(s->counts);
    yki_free_aligned(s->host);
    for (size_t i = 0; i < 2; i++)
        yki_free(s->passed[i]);
    yki_comm_release(crew->comm, s->passing_memory);
}

/* ---- gradients ---- */

/* Where the memory of a bucket on its way begins if it follows `at`, in a ring of `size` bytes; and
 * the first bucket that need not have left it before. */
static uint64_t
place(yki_crew *crew, size_t bucket, uint64_t at, uint64_t size, const uint64_t *starts)
{
    const uint64_t need = 2 * yki_crew_transit_size(crew, bucket);
    const uint64_t start = at + need > size ? 0 : at;
    yki_transit *t = &crew->buckets.transit[bucket];

    t->own = (char *)crew->buckets.transit_memory + start;
    t->sum = (char *)t->own + need / 2;
    for (size_t b = 0; b < bucket; b++)
        if (starts[b] < start + need && start < starts[b] + 2 * yki_crew_transit_size(crew, b))
            t->after = b + 1;
    return start;
}

/* Bytes for the most buckets that are on their way at a time; with norms, for all. */
static uint64_t
ring_size(const yki_crew *crew)
{
    const size_t few = crew->sharding.norms ? crew->buckets.count : crew->comm ? RING : 1;
    uint64_t most = 0;

    for (size_t first = 0; first < crew->buckets.count; first++) {
        uint64_t size = 0;

        for (size_t b = first; b < YKI_MIN(first + few, crew->buckets.count); b++)
            size += 2 * yki_crew_transit_size(crew, b);
        most = YKI_MAX(most, size);
    }
    return most;
}

/* Where backward has stops, all plans have to keep a bucket until the stop at which it is complete
 * on the last device. */
static yoke_status
check_ends(const yki_crew *crew)
{
    for (size_t k = 0; k < crew->count && !crew->members[k].accumulated; k++) {
        const yki_plan *plan = crew->members[k].replica->training;
        size_t stop = 0; /* of backward, up to which the bucket is not complete */

        while (stop < plan->stop_count && plan->stops[stop].section != YKI_BACKWARD)
            stop++;
        for (size_t b = 0, first = stop; b < crew->buckets.count; b++) {
            stop = YKI_MAX(stop, first + crew->buckets.ready_stop[b] - 1);
            if (first < plan->stop_count &&
                yki_plan_bucket_end(plan, b) <
                    (stop < plan->stop_count ? plan->stops[stop].task : plan->task_count))
                return yki_fail(
                    YOKE_ERROR_UNSUPPORTED,
                    "%s: its plan needs the memory of gradients (bucket %zu) again before another "
                    "device has computed its own; divide the optimizer's state only",
                    yoke_team_get_device_name(crew->team, crew->team->first + k), b);
        }
    }
    return YOKE_OK;
}

/* Gathers, and merges of statistics, are exchanges between all processes. The order of each kind
 * follows from the graph; where there are both, that of one among the other might depend on the
 * tasks of a plan. */
static yoke_status
check_order(const yki_crew *crew)
{
    const yki_plan *plan = crew->members[0].replica->training;
    const int32_t ranks = crew->comm->ranks;
    uint64_t own, *all = yki_alloc((size_t)ranks, sizeof *all, "the order of exchanges");
    uint32_t *order = yki_alloc(plan->stop_count, sizeof *order, "the order of exchanges");
    yoke_status status = all && order ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < plan->stop_count && order; i++)
        order[i] = plan->stops[i].gathers;
    own = yki_checksum_of(order, order ? plan->stop_count * sizeof *order : 0);
    if (status == YOKE_OK)
        status = crew->comm->allgather(crew->comm, &own, sizeof own, all);
    for (int32_t r = 1; r < ranks && status == YOKE_OK; r++)
        if (all[r] != all[0])
            status = yki_fail(YOKE_ERROR_UNSUPPORTED,
                              "the devices of rank %d gather weights and merge statistics of the "
                              "batch in another order than those of rank 0; divide gradients only",
                              (int)r);
    yki_free(all);
    yki_free(order);
    return status;
}

yoke_status
yki_sharding_make_transit(yki_crew *crew)
{
    const uint64_t size = ring_size(crew);
    uint64_t *starts = yki_alloc(YKI_MAX(crew->buckets.count, (size_t)1), sizeof *starts,
                                 "gradients on their way");
    yoke_status status = YOKE_OK;
    uint64_t at = 0;

    if (!starts)
        return YOKE_ERROR_OUT_OF_MEMORY;
    crew->buckets.transit_memory = yki_comm_alloc(
        crew->comm, YKI_MAX(size, (uint64_t)1), crew->buckets.algorithm, "gradients on their way");
    if (crew->sharding.weights && crew->comm)
        status = check_order(crew);
    for (size_t b = 0; crew->buckets.transit_memory && b < crew->buckets.count; b++) {
        starts[b] = place(crew, b, at, size, starts);
        at = starts[b] + 2 * yki_crew_transit_size(crew, b);
    }
    yki_free(starts);
    YKI_TRY(status);
    return crew->buckets.transit_memory ? check_ends(crew) : YOKE_ERROR_OUT_OF_MEMORY;
}

/* The owners of a process. */
static size_t
first_of(const yki_sharding *s, int32_t rank)
{
    return rank ? s->end_of[rank - 1] : 0;
}

static yki_range
piece_of(const yki_crew *crew, size_t bucket, int32_t rank)
{
    const yki_sharding *s = &crew->sharding;

    return yki_ranges_of(s->ranges, bucket, first_of(s, rank), s->end_of[rank] - first_of(s, rank));
}

/* The values, in floats, that each process has of a bucket. */
static const size_t *
count_pieces(yki_crew *crew, size_t bucket)
{
    for (int32_t r = 0; r < crew->comm->ranks; r++)
        crew->sharding.counts[r] = piece_of(crew, bucket, r).size / 4;
    return crew->sharding.counts;
}

yki_range
yki_sharding_piece(const yki_crew *crew, size_t bucket)
{
    const uint64_t size = crew->members[0].replica->weights->buckets[bucket].size;
    const uint64_t word = size ? yki_crew_travel_size(crew, bucket) / (size / 4) : 0;
    yki_range piece = {0, size};

    if (crew->sharding.scatters)
        piece = piece_of(crew, bucket, crew->comm->rank);
    return (yki_range){piece.offset / 4 * word, piece.size / 4 * word};
}

yoke_status
yki_sharding_scatter(yki_crew *crew, size_t bucket, int32_t type)
{
    yki_transit *t = &crew->buckets.transit[bucket];

    return crew->comm->reduce_scatter_start(
        crew->comm, type, t->own, (char *)t->own + yki_sharding_piece(crew, bucket).offset,
        count_pieces(crew, bucket), &t->request);
}

/* ---- weights, and state ---- */

static char *
host_of(const yki_crew *crew, size_t bucket)
{
    return crew->sharding.host ? crew->sharding.host : crew->buckets.transit[bucket].own;
}

/* What the owner of this process's group `group` has of a bucket. */
static yki_range
range_of(const yki_crew *crew, size_t bucket, size_t group)
{
    return yki_ranges_of(crew->sharding.ranges, bucket, crew->sharding.first + group, 1);
}

/* Writes a whole bucket to the memory in which it was computed, and enqueues its norm and the copy
 * of the part that the member updates. Those of granules follow when they are rounded. */
static yoke_status
deliver_whole(yki_crew *crew, yki_member *m, size_t bucket, const char *sum)
{
    yki_buffer *to = crew->exact.granule ? m->accumulated[bucket]
                                         : m->replica->weights->buckets[bucket].gradients;

    YKI_TRY(yki_queue_write(m->replica->queue, to, 0, yki_crew_travel_size(crew, bucket), sum,
                            YKI_NO_WAIT, NULL));
    return crew->exact.granule ? YOKE_OK : yki_updater_enqueue_norm(m->replica->updater, bucket);
}

yoke_status
yki_sharding_deliver(yki_crew *crew, size_t bucket, const char *sum)
{
    const uint64_t word = crew->exact.granule ? crew->exact.wire->bytes : sizeof(float);

    for (size_t g = 0; g < crew->group_count; g++) {
        yki_member *m = yki_crew_owner(crew, g, bucket);
        const yki_range own = range_of(crew, bucket, g);

        if (crew->sharding.norms)
            YKI_TRY(deliver_whole(crew, m, bucket, sum));
        else if (own.size)
            YKI_TRY(yki_buffer_put(crew->exact.granule
                                       ? m->accumulated[bucket]
                                       : yki_updater_gradients(m->replica->updater, bucket),
                                   0, own.size / 4 * word, sum + own.offset / 4 * word));
    }
    return YOKE_OK;
}

/* The place of what a group has of a bucket's values, or of a state of it. */
static yki_state_place
part_of(const yki_member *m, size_t bucket, int which, yki_range *range)
{
    if (which != YKI_SHARDED_VALUES)
        return yki_updater_state(m->replica->updater, bucket, (unsigned)which, range);
    if (m->replica->weights->divided)
        return (yki_state_place){.buffer = yki_updater_values(m->replica->updater, bucket, range)};
    return (yki_state_place){m->replica->weights->buckets[bucket].values, range->offset, false};
}

/* Copies what this process has of a bucket into its place in `to`. */
static yoke_status
fetch_own(yki_crew *crew, size_t bucket, int which, char *to)
{
    for (size_t g = 0; g < crew->group_count; g++) {
        const yki_member *m = yki_crew_owner(crew, g, bucket);
        yki_range range = range_of(crew, bucket, g);
        yki_state_place from;

        if (range.size == 0)
            continue;
        from = part_of(m, bucket, which, &range);
        crew->at = (size_t)(m - crew->members);
        YKI_TRY(yki_state_get(from, range.size, (float *)(void *)(to + range.offset)));
    }
    return YOKE_OK;
}

/* Starts the way of all pieces to all processes; a transport without all-gathers of pieces waits.
 */
static yoke_status
start_gather(yki_crew *crew, size_t bucket, char *at, void **request)
{
    const size_t *counts = count_pieces(crew, bucket);

    crew->buckets.transit[bucket].begun = yki_span_begin(crew->comm_track);
    if (crew->comm->allgather_start)
        return crew->comm->allgather_start(crew->comm, YOKE_F32,
                                           at + piece_of(crew, bucket, crew->comm->rank).offset, at,
                                           counts, request);
    for (int32_t r = 0; r < crew->comm->ranks; at += counts[r++] * 4)
        if (counts[r])
            YKI_TRY(crew->comm->broadcast(crew->comm, at, counts[r] * 4, r));
    return YOKE_OK;
}

static yoke_status
end_gather(yki_crew *crew, size_t bucket, void **request)
{
    bool done;

    if (*request)
        YKI_TRY(crew->comm->test(crew->comm, request, true, &done));
    yki_span_end_moved(crew->comm_track, crew->buckets.transit[bucket].begun, "all-gather bucket",
                       (int64_t)bucket, crew->members[0].replica->weights->buckets[bucket].size);
    return YOKE_OK;
}

/* Gives each group the weights that others have updated: what is before its range, and behind. */
static yoke_status
put_others(yki_crew *crew, size_t bucket)
{
    for (size_t g = 0; g < crew->group_count; g++) {
        const yki_bucket *to = &yki_crew_owner(crew, g, bucket)->replica->weights->buckets[bucket];
        const yki_range own = range_of(crew, bucket, g);
        const uint64_t end = own.offset + own.size;

        if (own.offset)
            YKI_TRY(yki_buffer_put(to->values, 0, own.offset, host_of(crew, bucket)));
        if (end < to->size)
            YKI_TRY(yki_buffer_put(to->values, end, to->size - end, host_of(crew, bucket) + end));
    }
    return YOKE_OK;
}

/* Waits for the weights of all buckets before number `end` from number *put on. */
static yoke_status
put_until(yki_crew *crew, size_t end, size_t *put)
{
    for (; *put < end; (*put)++) {
        YKI_TRY(end_gather(crew, *put, &crew->buckets.transit[*put].request));
        YKI_TRY(put_others(crew, *put));
    }
    return YOKE_OK;
}

yoke_status
yki_sharding_share(yki_crew *crew)
{
    const double begin = yki_span_begin(crew->host_track);
    size_t put = 0;

    for (size_t b = 0; b < crew->buckets.count; b++) {
        if (crew->comm)
            YKI_TRY(put_until(crew, crew->buckets.transit[b].after, &put));
        YKI_TRY(fetch_own(crew, b, YKI_SHARDED_VALUES, host_of(crew, b)));
        YKI_TRY(crew->comm ? start_gather(crew, b, crew->buckets.transit[b].own,
                                          &crew->buckets.transit[b].request)
                           : put_others(crew, b));
    }
    if (crew->comm)
        YKI_TRY(put_until(crew, crew->buckets.count, &put));
    for (size_t k = 0; k < crew->count; k++)
        crew->members[k].replica->weights->version++;
    yki_span_end(crew->host_track, begin, "share weights", -1);
    crew->torn = false;
    return YOKE_OK;
}

/* Gathers a bucket in `to`, and waits. */
static yoke_status
gather(yki_crew *crew, size_t bucket, int which, char *to, void **request)
{
    YKI_TRY(fetch_own(crew, bucket, which, to));
    if (!crew->comm)
        return YOKE_OK;
    YKI_TRY(start_gather(crew, bucket, to, request));
    return end_gather(crew, bucket, request);
}

yoke_status
yki_sharding_gather(yki_crew *crew, size_t bucket, int which, const float **values)
{
    yki_sharding *s = &crew->sharding;
    const uint64_t version = crew->members[0].replica->weights->version;
    char *host = host_of(crew, bucket);

    *values = (const float *)(void *)host;
    if (which == YKI_SHARDED_VALUES && s->held == bucket + 1 && s->held_version == version)
        return YOKE_OK;
    s->held = 0;
    YKI_TRY(gather(crew, bucket, which, host, &crew->buckets.transit[bucket].request));
    s->held = which == YKI_SHARDED_VALUES ? bucket + 1 : 0;
    s->held_version = version;
    return YOKE_OK;
}

/* ---- weights that are divided ---- */

/* Waits until all plans have what is in this piece of memory. */
static yoke_status
wait_passed(yki_crew *crew, unsigned turn)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_event *passed = &crew->sharding.passed[turn][k];

        crew->at = k;
        YKI_TRY(yki_event_wait(passed));
        yki_event_release(passed);
    }
    return YOKE_OK;
}

/* Also without samples: what is computed of weights alone is computed, and summed. */
yki_plan *
yki_training_of(const yki_member *m, size_t index)
{
    return index == 0 ? m->replica->training : NULL;
}

/* Enqueues the way of a bucket to the plans of a member. */
static yoke_status
pass_on(yki_crew *crew, size_t k, size_t bucket, size_t stop, yki_plan_of *plan_of)
{
    yki_member *m = &crew->members[k];
    const yki_sharding *s = &crew->sharding;
    yki_event *passed = &s->passed[s->turn][k];
    yki_plan *plan;

    crew->at = k;
    for (size_t i = 0; (plan = plan_of(m, i)) != NULL; i++) {
        if (!plan->stops[stop].out)
            continue;
        yki_event_release(passed);
        YKI_TRY(yki_queue_write(m->replica->queue, plan->stops[stop].out, 0,
                                m->replica->weights->buckets[bucket].size, s->passing[s->turn],
                                YKI_NO_WAIT, passed));
    }
    return yki_queue_flush(m->replica->queue);
}

yoke_status
yki_sharding_bring(yki_crew *crew, size_t bucket, size_t stop, yki_plan_of *plan_of)
{
    yki_sharding *s = &crew->sharding;
    const double begin = yki_span_begin(crew->host_track);

    s->turn = 1 - s->turn;
    YKI_TRY(wait_passed(crew, s->turn));
    YKI_TRY(gather(crew, bucket, YKI_SHARDED_VALUES, s->passing[s->turn], &s->request));
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(pass_on(crew, k, bucket, stop, plan_of));
    yki_span_end(crew->host_track, begin, "gather weights", (int64_t)bucket);
    return YOKE_OK;
}

void
yki_sharding_end_gathers(yki_crew *crew)
{
    yki_sharding *s = &crew->sharding;
    bool done;

    if (s->request)
        (void)crew->comm->test(crew->comm, &s->request, true, &done);
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; s->passed[i] && k < crew->count; k++)
            yki_event_release(&s->passed[i][k]);
}

yoke_status
yki_sharding_read(yki_crew *crew, const yki_weight *weight, float *values)
{
    const float *bucket;

    YKI_TRY(yki_sharding_gather(crew, weight->bucket, YKI_SHARDED_VALUES, &bucket));
    memcpy(values, bucket + weight->offset / 4, weight->size);
    return YOKE_OK;
}

yoke_status
yki_sharding_write(yki_crew *crew, const yki_weight *weight, const float *values)
{
    for (size_t g = 0; g < crew->group_count; g++) {
        const yki_member *m = yki_crew_owner(crew, g, weight->bucket);
        yki_range held, part;
        yki_buffer *to = yki_updater_values(m->replica->updater, weight->bucket, &held);

        part = yki_range_common((yki_range){weight->offset, weight->size}, held);
        if (to && part.size)
            YKI_TRY(yki_buffer_put(to, part.offset - held.offset, part.size,
                                   values + (part.offset - weight->offset) / 4));
    }
    return YOKE_OK;
}

yoke_status
yki_sharding_initialize(yki_crew *crew, uint32_t seed)
{
    const yki_weights *w = crew->members[0].replica->weights;

    for (size_t i = 0; i < w->weight_count && crew->sharding.weights; i++) {
        const yki_weight *weight = &w->weights[i];
        float *values;
        yoke_status status;

        if (!yki_weights_divides(w, weight))
            continue;
        values = yki_alloc(weight->size, 1, "initial values");
        if (!values)
            return YOKE_ERROR_OUT_OF_MEMORY;
        yki_initialize(weight->node, seed, (uint32_t)i, values);
        status = yki_sharding_write(crew, weight, values);
        yki_free(values);
        YKI_TRY(status);
    }
    return YOKE_OK;
}

/* ---- telling ---- */

const char *
yki_sharding_name(yoke_shard_choice level)
{
    static const char *const names[] = {"no", "state", "gradients", "weights"};

    return names[level];
}

static uint64_t
whole_buckets(const yki_crew *crew)
{
    uint64_t bytes = 0;

    for (size_t b = 0; b < crew->buckets.count; b++)
        bytes += crew->members[0].replica->weights->buckets[b].size;
    return bytes;
}

void
yki_sharding_explain(const yki_crew *crew, const yki_teller *to)
{
    const yki_sharding *s = &crew->sharding;
    uint64_t all = 0;

    if (s->chosen && s->level)
        yki_tell(to, "shards: auto chose %s", yki_sharding_name(s->level));
    if (!s->ranges)
        return;
    for (size_t k = 0; k < s->count; k++)
        all += s->halves * yki_ranges_total(s->ranges, k) / 2;
    yki_tell(to, "state of the optimizer, in shards: %.1f MB in all", (double)all / 1e6);
    for (size_t k = 0; k < s->count; k++)
        yki_tell(to, "  %s: %.1f MB", yoke_team_get_device_name(crew->team, s->device[k]),
                 (double)(s->halves * yki_ranges_total(s->ranges, k) / 2) / 1e6);
    for (size_t k = 0; k < s->count && s->gradients; k++)
        yki_tell(to, "  %s: %.1f MB of gradients",
                 yoke_team_get_device_name(crew->team, s->device[k]),
                 (double)yki_ranges_total(s->ranges, k) / 1e6);
    for (size_t k = 0; k < crew->count && s->gradients; k++)
        yki_tell(to, "  %s: at most %.1f of %.1f MB of whole gradients, in its plan",
                 yoke_team_get_device_name(crew->team, crew->team->first + k),
                 (double)yki_plan_bucket_bytes(crew->members[k].replica->training) / 1e6,
                 (double)whole_buckets(crew) / 1e6);
    for (size_t k = 0; k < s->count && s->weights; k++)
        yki_tell(to, "  %s: %.1f MB of weights",
                 yoke_team_get_device_name(crew->team, s->device[k]),
                 (double)yki_ranges_total(s->ranges, k) / 1e6);
    for (size_t k = 0; k < crew->count && s->weights; k++)
        yki_tell(to, "  %s: at most %.1f of %.1f MB of whole weights, in its plan",
                 yoke_team_get_device_name(crew->team, crew->team->first + k),
                 (double)yki_plan_gathered_bytes(crew->members[k].replica->training) / 1e6,
                 (double)whole_buckets(crew) / 1e6);
}
