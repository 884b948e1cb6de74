/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange.c - what devices exchange in a step: statistics of the batch, gradients,
 * losses.
 *
 * Within a group nothing is copied: a kernel of one member reads what the others
 * wrote, after their events. Between groups and processes the host merges the
 * values in the order of the devices. It uses the memory of a device where it may;
 * else values go through pinned memory of that device, gradients on a queue of their
 * own. For a statistic the host waits, once. Gradients and losses are added by another thread
 * (landing.c). Where a driver has no gates, the host adds gradients when they have
 * arrived, while devices go on, and waits for the last ones. Between processes, and
 * where gradients are divided, it waits for each bucket. All processes make the exchanges in the
 * same order, because it follows from the graph.
 */
#include <stdio.h>
#include <string.h>

#include "op/flat.h"
#include "team/sharding.h"
#include "team/stages.h"

/* ---- kernels that combine ---- */

/* Makes one launch, of the inputs from `first` on. In all launches but the first one, input 0 is
 * the result so far. */
static yoke_status
make_turn(yki_program *program, const char *name, yki_buffer *const *inputs, size_t count,
          size_t first, yki_buffer *out, size_t floats, yki_kernel **kernel)
{
    size_t used = 0;
    unsigned index = 0;

    YKI_TRY(yki_kernel_create(program, name, kernel));
    if (first > 0) {
        YKI_TRY(yki_kernel_set_buffer(*kernel, index++, out));
        used++;
    }
    for (; index < YKI_TEAM_INPUTS; index++) {
        bool there = first < count;

        YKI_TRY(yki_kernel_set_buffer(*kernel, index, there ? inputs[first++] : inputs[0]));
        used += there;
    }
    YKI_TRY(yki_kernel_set_int(*kernel, index++, (int64_t)used));
    YKI_TRY(yki_kernel_set_buffer(*kernel, index++, out));
    return yki_kernel_set_int(*kernel, index, (int64_t)floats);
}

yoke_status
yki_combine_make(yoke_device *device, const char *name, yki_buffer *const *inputs, size_t count,
                 yki_buffer *out, size_t floats, yki_combine *combine)
{
    yki_flat flat = yki_flat_for(yki_device_get_traits(device));
    const bool large =
        strcmp(name, "yki_team_sum") == 0 || strncmp(name, "yki_team_sum_i", 14) == 0;
    const bool side_by_side = flat.group > 1;
    size_t turns = count <= YKI_TEAM_INPUTS ? 1
                                            : 1 + (count - YKI_TEAM_INPUTS + YKI_TEAM_INPUTS - 2) /
                                                      (YKI_TEAM_INPUTS - 1);
    yki_program *program;
    yoke_status status = YOKE_OK;
    char options[64];

    combine->kernels = yki_alloc(turns, sizeof *combine->kernels, "kernels of a team");
    if (!combine->kernels)
        return YOKE_ERROR_OUT_OF_MEMORY;
    combine->count = turns;
    /* Work-items that run one after the other are fastest in one group. */
    combine->grid = (yki_grid){{1, 1, 1}, {flat.group, 1, 1}};
    if (!large && side_by_side)
        combine->grid.groups[0] = YKI_MIN(floats / flat.group + 1, (size_t)flat.groups);
    if (large) {
        floats /= flat.vector;
        /* At most 16384 iterations a work-item: llvmpipe ends longer loops silently. */
        combine->grid.groups[0] = YKI_MAX(YKI_MIN(floats / 256 + 1, (size_t)flat.groups),
                                          floats / flat.group / 16384 + 1);
    }
    snprintf(options, sizeof options, "-DVEC=%u -DWG=%u", flat.vector, flat.group);
    YKI_TRY(yki_program_get(device, "team.cl", options, &program));
    for (size_t t = 0; t < turns && status == YOKE_OK; t++)
        status = make_turn(program, name, inputs, count,
                           t == 0 ? 0 : YKI_TEAM_INPUTS + (t - 1) * (YKI_TEAM_INPUTS - 1), out,
                           floats, &combine->kernels[t]);
    yki_program_release(program);
    return status;
}

void
yki_combine_clear(yki_combine *combine)
{
    for (size_t t = 0; t < combine->count; t++)
        yki_kernel_destroy(combine->kernels[t]);
    yki_free(combine->kernels);
    memset(combine, 0, sizeof *combine);
}

yoke_status
yki_combine_enqueue(yki_queue *queue, const yki_combine *combine, yki_wait wait)
{
    for (size_t t = 0; t < combine->count; t++)
        YKI_TRY(yki_queue_launch(queue, combine->kernels[t], &combine->grid,
                                 t == 0 ? wait : YKI_NO_WAIT, NULL));
    return YOKE_OK;
}

/* ---- waiting within a group ---- */

/* Sets `event` to an event behind everything in the queue. */
static yoke_status
mark(yki_queue *queue, yki_event *event)
{
    yki_event_release(event);
    YKI_TRY(yki_queue_marker(queue, YKI_NO_WAIT, event));
    return yki_queue_flush(queue);
}

yoke_status
yki_crew_arrive(yki_crew *crew)
{
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        if (crew->groups[crew->members[k].group].count > 1)
            YKI_TRY(mark(crew->members[k].replica->queue, &crew->members[k].arrived));
    }
    return YOKE_OK;
}

enum { EVENTS = 16 }; /* that one command waits for, at most */

yoke_status
yki_wait_for_group(yki_crew *crew, size_t group, yki_queue *queue, const yki_member *but,
                   const yki_event *(*pick)(const yki_member *, size_t), size_t index)
{
    yki_event events[EVENTS];
    size_t count = 0;

    for (size_t i = 0; i < crew->groups[group].count; i++) {
        const yki_member *other = yki_crew_in_group(crew, group, i);
        const yki_event *event = pick(other, index);

        if (other != but && event->cl)
            events[count++] = *event;
        if (count == EVENTS || (count && i + 1 == crew->groups[group].count)) {
            YKI_TRY(yki_queue_marker(queue, (yki_wait){events, count}, NULL));
            count = 0;
        }
    }
    return YOKE_OK;
}

static const yki_event *
pick_arrived(const yki_member *m, size_t index)
{
    (void)index;
    return &m->arrived;
}

static const yki_event *
pick_complete(const yki_member *m, size_t bucket)
{
    return &m->complete[bucket];
}

yoke_status
yki_crew_meet(yki_crew *crew, yki_member *m)
{
    return yki_wait_for_group(crew, m->group, m->replica->queue, m, pick_arrived, 0);
}

/* ---- through the host ---- */

static float *
host_row(const yki_crew *crew, size_t row)
{
    return crew->host + row * crew->host_floats;
}

/* With d = mean2 - mean1 and n = n1 + n2, the merged mean is mean1 + d n2 / n and the merged sum of
 * squared deviations M1 + M2 + d^2 n1 n2 / n. team.cl computes the same. */
static void
merge_moments(float *into, const float *from, size_t count)
{
    size_t channels = count / 3;

    for (size_t c = 0; c < channels; c++) {
        float n = into[c], more = from[c], total = n + more;
        float d = from[channels + c] - into[channels + c], part = more / total;

        if (!(more > 0))
            continue;
        into[2 * channels + c] += from[2 * channels + c];
        into[2 * channels + c] += d * d * (n * part);
        into[channels + c] += d * part;
        into[c] = total;
    }
}

void
yki_merge_rows(yki_merge merge, float *into, const float *from, size_t count)
{
    if (merge == YKI_MERGE_MOMENTS) {
        merge_moments(into, from, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        into[i] += from[i];
}

/* Enqueues the way of a few floats to the host. m->arrived is the event behind it. */
static yoke_status
fetch_few(yki_member *m, yki_buffer *from, size_t bytes)
{
    if (yki_buffer_host(from))
        return mark(m->replica->queue, &m->arrived);
    yki_event_release(&m->arrived);
    YKI_TRY(yki_queue_read(m->replica->queue, from, 0, bytes, yki_buffer_host(m->few), YKI_NO_WAIT,
                           &m->arrived));
    return yki_queue_flush(m->replica->queue);
}

/* Gives a device the merged values. Its queue has nothing left to do, as the host has waited for
 * the newest command. */
static yoke_status
send_few(const yki_crew *crew, yki_member *m, yki_buffer *to, const float *result, size_t bytes)
{
    float *few;

    if (yki_buffer_host(to)) {
        memcpy(yki_buffer_host(to), result, bytes);
        return YOKE_OK;
    }
    few = (float *)yki_buffer_host(m->few) + crew->host_floats;
    memcpy(few, result, bytes);
    return yki_queue_write(m->replica->queue, to, 0, bytes, few, YKI_NO_WAIT, NULL);
}

yoke_status
yki_crew_gather(yki_crew *crew, const char *what, const void *in, size_t bytes, void *out)
{
    double begin = yki_span_begin(crew->comm_track);

    YKI_TRY(crew->comm->allgather(crew->comm, in, bytes, out));
    yki_span_end_moved(crew->comm_track, begin, what, -1, bytes);
    return YOKE_OK;
}

/* Reads a few floats of each device, merges them over devices and processes, and writes the result
 * to each device. */
static yoke_status
exchange_few(yki_crew *crew, yki_merge merge, yki_buffer *(*in)(const yki_member *, size_t),
             yki_buffer *(*out)(const yki_member *, size_t), size_t index, size_t count)
{
    float *result = host_row(crew, 0), *all = host_row(crew, 1);
    size_t bytes = count * sizeof *result;

    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        YKI_TRY(fetch_few(&crew->members[k], in(&crew->members[k], index), bytes));
    }
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        YKI_TRY(yki_event_wait(&crew->members[k].arrived));
    }
    for (size_t k = 0; k < crew->count; k++) {
        const yki_member *m = &crew->members[k];
        const float *row = yki_buffer_host(in(m, index));

        row = row ? row : yki_buffer_host(m->few);
        if (k == 0)
            memcpy(result, row, bytes);
        else
            yki_merge_rows(merge, result, row, count);
    }
    if (crew->comm) {
        YKI_TRY(yki_crew_gather(crew, "all-gather statistic", result, bytes, all));
        memcpy(result, all, bytes);
        for (int32_t r = 1; r < crew->comm->ranks; r++)
            yki_merge_rows(merge, result, all + count * (size_t)r, count);
    }
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        YKI_TRY(send_few(crew, &crew->members[k], out(&crew->members[k], index), result, bytes));
    }
    return YOKE_OK;
}

/* ---- statistics ---- */

yki_buffer *
yki_member_stop(const yki_member *m, size_t stop)
{
    return m->replica->training->stops[stop].in;
}

static yki_buffer *
stop_out(const yki_member *m, size_t stop)
{
    return m->replica->training->stops[stop].out;
}

yoke_status
yki_crew_merge(yki_crew *crew, size_t stop)
{
    const yki_stop *what = &crew->members[0].replica->training->stops[stop];

    if (what->gathers)
        return yki_sharding_bring(crew, what->gathers - 1, stop, yki_training_of);
    if (crew->through_host) {
        double begin = yki_span_begin(crew->host_track);

        YKI_TRY(exchange_few(crew, what->merge, yki_member_stop, stop_out, stop, what->count));
        yki_span_end(crew->host_track, begin, "merge statistic", (int64_t)stop);
        return YOKE_OK;
    }
    YKI_TRY(yki_crew_arrive(crew));
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        YKI_TRY(yki_crew_meet(crew, m));
        YKI_TRY(yki_combine_enqueue(m->replica->queue, &m->merges[stop], YKI_NO_WAIT));
    }
    return YOKE_OK;
}

/* ---- gradients of groups and processes ---- */

yki_buffer *
yki_travelling(const yki_crew *crew, const yki_member *m, size_t bucket)
{
    return crew->exact.granule ? m->accumulated[bucket]
                               : m->replica->weights->buckets[bucket].gradients;
}

/* Integers without a sign have the same bits as with one. */
#define ADD_VALUES(number)                                                                         \
    for (size_t i = 0; i < bytes / sizeof(number); i++)                                            \
    ((number *)to)[i] = (number)(((number *)to)[i] + ((const number *)from)[i])

/* Adds floats, or integers of granules. */
static void
add_values(const yki_crew *crew, void *to, const void *from, size_t bytes)
{
    switch (crew->exact.granule ? crew->exact.wire->type : YOKE_F32) {
    case YOKE_I64:
        ADD_VALUES(uint64_t);
        break;
    case YOKE_I32:
        ADD_VALUES(uint32_t);
        break;
    case YOKE_I16:
        ADD_VALUES(uint16_t);
        break;
    default:
        ADD_VALUES(float);
    }
}

yoke_status
yki_sum_in_group(yki_crew *crew, size_t group, size_t bucket, yki_member **owner, yki_event *done)
{
    yki_member *m = yki_crew_owner(crew, group, bucket);
    yki_queue *queue = m->side ? m->side : m->replica->queue;

    *owner = m;
    crew->at = (size_t)(m - crew->members);
    if (!m->sums[bucket].count) { /* one member and one micro-batch: there is nothing to sum */
        *done = yki_event_retain(m->complete[bucket]);
        return YOKE_OK;
    }
    YKI_TRY(yki_wait_for_group(crew, group, queue, NULL, pick_complete, bucket));
    YKI_TRY(yki_combine_enqueue(queue, &m->sums[bucket], YKI_NO_WAIT));
    for (size_t i = 0; i < crew->groups[group].count; i++)
        yki_track_flow(yki_queue_track(queue),
                       yki_member_flow(crew, yki_crew_in_group(crew, group, i), bucket), 't');
    YKI_TRY(mark(queue, &m->reduced));
    *done = yki_event_retain(m->reduced);
    return YOKE_OK;
}

static yoke_status receive_until(yki_crew *crew, size_t end);

static yoke_status
add_group(yki_crew *crew, size_t group, size_t bucket, void *sum, void *other)
{
    yki_member *owner;
    yki_event done = {0};
    yki_buffer *gradients;
    uint64_t size;
    yoke_status status = yki_sum_in_group(crew, group, bucket, &owner, &done);

    if (status == YOKE_OK) {
        crew->at = (size_t)(owner - crew->members);
        status = yki_event_wait(&done);
    }
    yki_event_release(&done);
    YKI_TRY(status);
    gradients = yki_travelling(crew, owner, bucket);
    size = yki_buffer_size(gradients);
    if (group == 0)
        return yki_buffer_get(gradients, 0, size, sum);
    if (yki_buffer_host(gradients)) {
        add_values(crew, sum, yki_buffer_host(gradients), size);
        return YOKE_OK;
    }
    YKI_TRY(yki_buffer_get(gradients, 0, size, other));
    add_values(crew, sum, other, size);
    return YOKE_OK;
}

static yoke_status
send_bucket(yki_crew *crew, size_t bucket)
{
    yki_transit *t = &crew->buckets.transit[bucket];
    size_t count = crew->members[0].replica->weights->buckets[bucket].size / 4;
    int32_t type = crew->exact.granule ? crew->exact.wire->type : (int32_t)YOKE_F32;
    double begin = yki_span_begin(crew->host_track);

    crew->sharding.held = 0; /* gradients travel where it lies */
    YKI_TRY(receive_until(crew, t->after));
    for (size_t g = 0; g < crew->group_count; g++)
        YKI_TRY(add_group(crew, g, bucket, t->own, t->sum));
    yki_span_end(crew->host_track, begin, "wait for and add bucket", (int64_t)bucket);
    if (!crew->comm)
        return YOKE_OK;
    t->begun = yki_span_begin(crew->comm_track);
    if (crew->sharding.scatters)
        return yki_sharding_scatter(crew, bucket, type);
    return crew->comm->allreduce_start(crew->comm, type, t->own, t->sum, count,
                                       crew->buckets.algorithm, &t->request);
}

/* ---- gradients of several groups of one process ---- */

/* Where the host finds the gradients of a group, and leaves those of the team. */
static char *
piece_of(const yki_crew *crew, size_t group, size_t bucket)
{
    yki_buffer *pinned = crew->groups[group].pinned[bucket];

    return yki_buffer_host(
        pinned ? pinned : yki_travelling(crew, yki_crew_owner(crew, group, bucket), bucket));
}

/* Enqueues the way of each group's sum to the host. */
static yoke_status
fetch_bucket(yki_crew *crew, size_t bucket)
{
    for (size_t g = 0; g < crew->group_count; g++) {
        yki_event *arrived = &crew->buckets.transit[bucket].arrived[g], done = {0};
        yki_buffer *pinned = crew->groups[g].pinned[bucket], *gradients;
        yki_member *m;
        yoke_status status;

        yki_event_release(arrived);
        YKI_TRY(yki_sum_in_group(crew, g, bucket, &m, &done));
        if (!pinned) {
            *arrived = done;
            continue;
        }
        gradients = yki_travelling(crew, m, bucket);
        status = yki_queue_read(m->side, gradients, 0, yki_buffer_size(gradients),
                                yki_buffer_host(pinned), (yki_wait){&done, 1}, arrived);
        yki_event_release(&done);
        YKI_TRY(status);
        YKI_TRY(yki_queue_flush(m->side));
    }
    return YOKE_OK;
}

void
yki_add_pieces(const yki_crew *crew, size_t bucket)
{
    enum { CHUNK = 16384 }; /* bytes that stay in the first-level cache */
    size_t bytes = yki_buffer_size(yki_travelling(crew, yki_crew_owner(crew, 0, bucket), bucket));
    char *sum = piece_of(crew, 0, bucket);

    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t count = YKI_MIN((size_t)CHUNK, bytes - at);

        for (size_t g = 1; g < crew->group_count; g++)
            add_values(crew, sum + at, piece_of(crew, g, bucket) + at, count);
        for (size_t g = 1; g < crew->group_count; g++)
            memcpy(piece_of(crew, g, bucket) + at, sum + at, count);
    }
}

static yoke_status
has_arrived(const yki_crew *crew, size_t bucket, bool *all)
{
    *all = true;
    for (size_t g = 0; g < crew->group_count && *all; g++)
        YKI_TRY(yki_event_is_complete(&crew->buckets.transit[bucket].arrived[g], all));
    return YOKE_OK;
}

/* Lets arrows of a timeline pass the newest record of a track: those of the gradients of all
 * members. */
static void
pass_flows(const yki_crew *crew, yki_track *track, size_t bucket)
{
    for (size_t k = 0; track && k < crew->count; k++)
        yki_track_flow(track, yki_member_flow(crew, &crew->members[k], bucket), 't');
}

void
yki_note_addition(const yki_crew *crew, int64_t step, size_t bucket, double begin, double end)
{
    yki_track *track = crew->adds_track ? crew->adds_track : crew->host_track;
    yki_trace_record *record = track && begin >= track->trace->begun ? yki_track_add(track) : NULL;

    if (!record)
        return;
    record->begin = begin;
    record->end = end;
    record->verb = "add bucket";
    record->number = (int64_t)bucket;
    for (size_t k = 0; k < crew->count; k++)
        yki_track_flow(track, yki_flow_of_step(crew, step, k, bucket), 't');
}

/* Adds the buckets that have arrived, in their order, and sends them back. `wait`: all that are
 * under way. */
static yoke_status
land_buckets(yki_crew *crew, bool wait)
{
    for (; crew->buckets.landed < crew->buckets.next; crew->buckets.landed++) {
        size_t bucket = crew->buckets.landed;
        bool arrived = true;
        double begin;

        if (!wait)
            YKI_TRY(has_arrived(crew, bucket, &arrived));
        if (!arrived)
            return YOKE_OK;
        for (size_t g = 0; g < crew->group_count; g++)
            YKI_TRY(yki_event_wait(&crew->buckets.transit[bucket].arrived[g]));
        begin = yki_now();
        yki_add_pieces(crew, bucket);
        yki_note_addition(crew, (int64_t)crew->members[0].replica->step, bucket, begin, yki_now());
        for (size_t g = 0; g < crew->group_count; g++) {
            yki_member *m = yki_crew_owner(crew, g, bucket);
            yki_buffer *gradients = yki_travelling(crew, m, bucket);

            if (!crew->groups[g].pinned[bucket])
                continue;
            yki_event_release(&m->reduced);
            YKI_TRY(yki_queue_write(m->side, gradients, 0, yki_buffer_size(gradients),
                                    piece_of(crew, g, bucket), YKI_NO_WAIT, &m->reduced));
            YKI_TRY(yki_queue_flush(m->side));
        }
    }
    return YOKE_OK;
}

/* ---- gradients ---- */

static yoke_status
reduce_bucket(yki_crew *crew, size_t bucket)
{
    yki_event done = {0};
    yki_member *owner;

    if (crew->landings)
        return yki_landings_bucket(crew, bucket);
    if (yki_crew_adds_pinned(crew))
        return fetch_bucket(crew, bucket);
    if (crew->through_host)
        return send_bucket(crew, bucket);
    if (crew->count > 1 || crew->members[0].accumulated)
        YKI_TRY(yki_sum_in_group(crew, 0, bucket, &owner, &done));
    yki_event_release(&done);
    return YOKE_OK;
}

yoke_status
yki_crew_reduce(yki_crew *crew, size_t stops_passed)
{
    if (crew->stages)
        return yki_stages_reduce(crew);
    for (; crew->buckets.next < crew->buckets.count; crew->buckets.next++) {
        if (crew->buckets.ready_stop[crew->buckets.next] > stops_passed)
            break;
        YKI_TRY(reduce_bucket(crew, crew->buckets.next));
    }
    return yki_crew_adds_pinned(crew) && !crew->landings ? land_buckets(crew, false) : YOKE_OK;
}

yoke_status
yki_crew_take(yki_crew *crew, size_t end)
{
    for (; crew->buckets.next < end; crew->buckets.next++)
        YKI_TRY(reduce_bucket(crew, crew->buckets.next));
    return YOKE_OK;
}

/* Writes what has arrived of the sum: all, or the part that is updated here. */
static yoke_status
write_bucket(yki_crew *crew, size_t bucket, const char *sum)
{
    yki_range piece = {0, yki_crew_travel_size(crew, bucket)};

    if (crew->sharding.ranges)
        piece = yki_sharding_piece(crew, bucket);
    for (size_t g = 0; g < crew->group_count; g++) {
        yki_member *owner = yki_crew_owner(crew, g, bucket);
        yki_buffer *gradients = yki_travelling(crew, owner, bucket);

        if (yki_buffer_host(gradients))
            memcpy((char *)yki_buffer_host(gradients) + piece.offset, sum + piece.offset,
                   piece.size);
        else if (piece.size)
            YKI_TRY(yki_queue_write(owner->replica->queue, gradients, piece.offset, piece.size,
                                    sum + piece.offset, YKI_NO_WAIT, NULL));
    }
    return YOKE_OK;
}

/* Waits for the sum of a bucket over all processes, and gives it to those who update. */
static yoke_status
receive_bucket(yki_crew *crew, size_t bucket)
{
    yki_transit *t = &crew->buckets.transit[bucket];
    const char *sum = crew->comm && !crew->sharding.scatters ? t->sum : t->own;
    bool done;

    if (crew->comm) {
        YKI_TRY(crew->comm->test(crew->comm, &t->request, true, &done));
        yki_span_end_moved(crew->comm_track, t->begun,
                           crew->sharding.scatters ? "reduce-scatter bucket" : "all-reduce bucket",
                           (int64_t)bucket, yki_crew_travel_size(crew, bucket));
    }
    pass_flows(crew, crew->comm_track, bucket);
    return crew->sharding.gradients ? yki_sharding_deliver(crew, bucket, sum)
                                    : write_bucket(crew, bucket, sum);
}

/* Receives the buckets before number `end`. */
static yoke_status
receive_until(yki_crew *crew, size_t end)
{
    for (; crew->buckets.landed < end; crew->buckets.landed++)
        YKI_TRY(receive_bucket(crew, crew->buckets.landed));
    return YOKE_OK;
}

yoke_status
yki_crew_receive(yki_crew *crew)
{
    if (!crew->through_host || crew->landings)
        return YOKE_OK;
    return yki_crew_adds_pinned(crew) ? land_buckets(crew, true)
                                      : receive_until(crew, crew->buckets.count);
}

/* ---- losses and metrics ---- */

yki_buffer *
yki_member_results(const yki_member *m, size_t index)
{
    (void)index;
    return m->results;
}

static yki_buffer *
member_totals(const yki_member *m, size_t index)
{
    (void)index;
    return m->totals;
}

const yoke_node *
yki_pair_node(const yoke_graph *graph, size_t pair)
{
    return pair == 0 ? graph->loss_sum : graph->metrics[pair - 1].sum;
}

yoke_status
yki_member_pack(yki_crew *crew, yki_member *m, const yki_plan *plan, size_t row, bool more)
{
    const yki_grid one = {{1, 1, 1}, {1, 1, 1}};

    for (size_t first = 0; m->results && first < crew->pairs; first += YKI_TEAM_INPUTS) {
        size_t used = YKI_MIN(crew->pairs - first, (size_t)YKI_TEAM_INPUTS);
        yki_kernel *kernel = m->pack[first / YKI_TEAM_INPUTS];

        for (unsigned i = 0; i < YKI_TEAM_INPUTS; i++)
            YKI_TRY(yki_kernel_set_buffer(
                kernel, i,
                yki_plan_buffer(plan, yki_pair_node(crew->graph, first + (i < used ? i : 0)))));
        YKI_TRY(yki_kernel_set_int(kernel, 8, (int64_t)used));
        YKI_TRY(yki_kernel_set_buffer(kernel, 9, m->results));
        YKI_TRY(yki_kernel_set_int(kernel, 10, (int64_t)(row * crew->pairs + first)));
        YKI_TRY(yki_kernel_set_int(kernel, 11, more));
        YKI_TRY(yki_queue_launch(m->replica->queue, kernel, &one, YKI_NO_WAIT, NULL));
    }
    return YOKE_OK;
}

yoke_status
yki_crew_results(yki_crew *crew, bool evaluation, bool more)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        YKI_TRY(yki_member_pack(crew, m, evaluation ? m->replica->evaluation : m->replica->training,
                                0, more));
    }
    return YOKE_OK;
}

yoke_status
yki_crew_total(yki_crew *crew)
{
    if (crew->stages)
        return yki_stages_total(crew);
    if (crew->landings)
        return yki_landings_results(crew);
    if (crew->through_host)
        return exchange_few(crew, YKI_MERGE_SUM, yki_member_results, member_totals, 0,
                            crew->pairs * 2);
    YKI_TRY(yki_crew_arrive(crew));
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        if (m->index_in_group >= crew->groups[m->group].owners) /* it updates nothing */
            continue;
        crew->at = k;
        YKI_TRY(yki_crew_meet(crew, m));
        YKI_TRY(yki_combine_enqueue(m->replica->queue, &m->total, YKI_NO_WAIT));
    }
    return YOKE_OK;
}
