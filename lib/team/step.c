/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - one training step of a crew: forward and backward on all devices, for one
 * micro-batch or several, then the update. Gradients are summed while backward runs.
 *
 * The caller's thread enqueues for all devices, section by section: from one stop, where
 * a statistic of the whole batch is needed, to the next. Weights change only after
 * every device of the group has finished its backward, and the next forward runs
 * after the update. Events ensure both, so two steps can be in flight.
 */
#include <string.h>

#include "team/sharding.h"
#include "team/stages.h"

/* ---- time ---- */

/* Records the begin or the end of a span of computing. */
static yoke_status
note_time(yki_crew *crew, yki_member *m)
{
    struct yki_spans *spans = &m->spans[crew->flight];

    if (!crew->timing)
        return YOKE_OK;
    YKI_TRY(yki_grow((void **)&spans->events, &spans->capacity, spans->count + 1,
                     sizeof *spans->events, "times of a step"));
    memset(&spans->events[spans->count], 0, sizeof *spans->events);
    YKI_TRY(yki_queue_marker(m->replica->queue, YKI_NO_WAIT, &spans->events[spans->count]));
    spans->count++;
    return YOKE_OK;
}

void
yki_crew_drop_times(yki_crew *crew, size_t flight)
{
    for (size_t k = 0; k < crew->count; k++) {
        struct yki_spans *spans = &crew->members[k].spans[flight];

        for (size_t i = 0; i < spans->count; i++)
            yki_event_release(&spans->events[i]);
        spans->count = 0;
    }
}

double
yki_member_seconds(yki_member *m, size_t flight)
{
    struct yki_spans *spans = &m->spans[flight];
    double seconds = 0;

    for (size_t i = 0; i + 1 < spans->count; i += 2) {
        uint64_t begin[2], end[2];

        if (yki_event_wait(&spans->events[i + 1]) != YOKE_OK ||
            yki_event_times(&spans->events[i], &begin[0], &begin[1]) != YOKE_OK ||
            yki_event_times(&spans->events[i + 1], &end[0], &end[1]) != YOKE_OK)
            return 0;
        if (end[0] > begin[1])
            seconds += (double)(end[0] - begin[1]) * 1e-9;
    }
    return seconds;
}

/* ---- sections ---- */

/* Enqueues an event behind the gradients of a bucket. */
static yoke_status
mark_complete(yki_crew *crew, yki_member *m, size_t bucket)
{
    yki_queue *queue = m->replica->queue;

    if (!crew->exact.granule) /* there the launch that adds it begins the arrow */
        yki_track_flow(yki_queue_track(queue), yki_member_flow(crew, m, bucket), 's');
    yki_event_release(&m->complete[bucket]);
    return yki_queue_marker(queue, YKI_NO_WAIT, &m->complete[bucket]);
}

/* Adds the gradients of a micro-batch to those of the ones before. */
static yoke_status
accumulate_bucket(const yki_crew *crew, yki_member *m, size_t bucket)
{
    yki_buffer *sum = m->accumulated[bucket];

    if (!sum)
        return YOKE_OK;
    if (crew->buckets.first)
        YKI_TRY(
            yki_queue_fill(m->replica->queue, sum, 0, yki_buffer_size(sum), 0, YKI_NO_WAIT, NULL));
    return yki_combine_enqueue(m->replica->queue, &m->accumulates[bucket], YKI_NO_WAIT);
}

/* Enqueues what follows the gradients of a bucket. Where they are divided, their memory is soon
 * used again, so they are added to sums now; so are those of a last granule, whose sums are on
 * their way while backward goes on. */
static yoke_status
end_bucket(yki_crew *crew, yki_member *m, const yki_plan *plan, size_t bucket)
{
    if ((!crew->sharding.gradients && !crew->exact.last) || !m->accumulated)
        return mark_complete(crew, m, bucket);
    if (!crew->exact.granule)
        return accumulate_bucket(crew, m, bucket);
    if (m->n > 0)
        YKI_TRY(yki_granules_add_bucket(crew, m, plan->weights, bucket));
    /* Calibration takes them as in any other mode. */
    return crew->buckets.marks ? mark_complete(crew, m, bucket) : YOKE_OK;
}

yoke_status
yki_member_run(yki_crew *crew, yki_member *m, yki_plan *plan, yki_section section, size_t end)
{
    bool marks = section == YKI_BACKWARD &&
                 (crew->buckets.marks || crew->sharding.gradients || crew->exact.last);
    size_t begin = m->position;

    YKI_TRY(note_time(crew, m));
    for (size_t b = 0; marks && b < crew->buckets.count; b++) {
        size_t task = plan->bucket_task[b];

        if (task < begin || task >= end)
            continue;
        /* A bucket may become complete before one with a smaller number. Then the tasks up to
         * here are enqueued already, and its event is recorded here. */
        if (task >= m->position) {
            YKI_TRY(yki_plan_enqueue_tasks(plan, section, m->position, task + 1));
            m->position = task + 1;
        }
        YKI_TRY(end_bucket(crew, m, plan, b));
    }
    YKI_TRY(yki_plan_enqueue_tasks(plan, section, m->position, end));
    m->position = end;
    YKI_TRY(note_time(crew, m));
    return yki_queue_flush(m->replica->queue);
}

static yoke_status
run_all(yki_crew *crew, yki_section section, size_t stop)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];
        const yki_plan *plan = m->replica->training;
        size_t end = stop < plan->stop_count ? plan->stops[stop].task : plan->task_count;

        if (crew->exact.granule && m->n == 0)
            continue;
        crew->at = k;
        YKI_TRY(yki_member_run(crew, m, m->replica->training, section, end));
    }
    return YOKE_OK;
}

/* Whether the host takes whole buckets of gradients from the memory of plans while backward runs.
 */
static bool
takes_buckets(const yki_crew *crew)
{
    return crew->sharding.gradients && !crew->members[0].accumulated;
}

/* Runs backward, bucket by bucket on all devices. Devices have some more to compute when the host
 * waits for one. */
static yoke_status
run_and_take(yki_crew *crew)
{
    for (size_t b = 0; b < crew->buckets.count; b++) {
        for (size_t k = 0; k < crew->count; k++) {
            yki_member *m = &crew->members[k];
            yki_plan *plan = m->replica->training;

            crew->at = k;
            YKI_TRY(yki_member_run(crew, m, plan, YKI_BACKWARD,
                                   YKI_MAX(m->position, plan->bucket_task[b] + 1)));
        }
        if (b >= YKI_SHARDING_LAG)
            YKI_TRY(yki_crew_take(crew, b - YKI_SHARDING_LAG + 1));
    }
    return run_all(crew, YKI_BACKWARD, SIZE_MAX);
}

static yoke_status
run_section(yki_crew *crew, yki_section section)
{
    const yki_plan *plan = crew->members[0].replica->training;
    size_t passed = 0;

    if (crew->stages)
        return yki_stages_run(crew, true, section);
    for (size_t k = 0; k < crew->count; k++)
        crew->members[k].position = 0;
    for (size_t s = 0; s < crew->buckets.stop_count; s++) {
        if (plan->stops[s].section != section)
            continue;
        YKI_TRY(run_all(crew, section, s));
        YKI_TRY(yki_crew_merge(crew, s));
        passed++;
        if (section == YKI_BACKWARD && crew->buckets.marks &&
            (!crew->buckets.apart || takes_buckets(crew)))
            YKI_TRY(yki_crew_reduce(crew, passed));
    }
    return section == YKI_BACKWARD && takes_buckets(crew) && passed == 0
               ? run_and_take(crew)
               : run_all(crew, section, SIZE_MAX);
}

/* ---- micro-batches ---- */

static const yki_event *
pick_updated(const yki_member *m, size_t index)
{
    (void)index;
    return &m->updated;
}

yoke_status
yki_member_begin(yki_crew *crew, yki_member *m, yki_plan *plan, uint32_t index, float rate_factor)
{
    yoke_replica *r = m->replica;

    if (index == 0)
        YKI_TRY(yki_wait_for_group(crew, m->group, r->queue, m, pick_updated, 0));
    r->first_sample = (uint64_t)m->first;
    r->batch = m->n;
    r->newest = plan;
    r->stage = YKI_STAGE_NONE;
    YKI_TRY(yki_replica_send_step(r, plan, rate_factor));
    return yki_plan_begin(plan, (yki_extents){m->n, crew->length});
}

yoke_status
yki_member_accumulate(yki_crew *crew, yki_member *m, bool last)
{
    crew->at = (size_t)(m - crew->members);
    for (size_t b = 0; b < crew->buckets.count; b++) {
        if (!m->accumulated[b])
            continue;
        if (!crew->sharding.gradients)
            YKI_TRY(accumulate_bucket(crew, m, b));
        if (last)
            YKI_TRY(mark_complete(crew, m, b));
    }
    return YOKE_OK;
}

/* Each micro-batch updates the running statistics. The first member of a group does it. */
static yoke_status
commit_micro_batch(yki_crew *crew)
{
    if (crew->members[0].replica->weights->state_count == 0)
        return YOKE_OK;
    YKI_TRY(yki_crew_total(crew));
    for (size_t g = 0; g < crew->group_count; g++) {
        yoke_replica *r = yki_crew_in_group(crew, g, 0)->replica;

        crew->at = crew->groups[g].members[0];
        YKI_TRY(yki_updater_enqueue_count(r->updater));
        YKI_TRY(yki_plan_commit_states(r->training));
    }
    return YOKE_OK;
}

/* With `apart`, waits until the section is over and measures its seconds. */
static yoke_status
run_apart(yki_crew *crew, yki_section section, double *seconds)
{
    double begin = yki_now();

    YKI_TRY(run_section(crew, section));
    yki_span_end(crew->host_track, begin,
                 section == YKI_FORWARD ? "enqueue forward" : "enqueue backward", -1);
    if (!crew->buckets.apart)
        return YOKE_OK;
    YKI_TRY(yki_crew_finish(crew));
    *seconds = yki_now() - begin;
    return YOKE_OK;
}

yoke_status
yki_crew_micro_batch(yki_crew *crew, uint32_t index, uint32_t count, float rate_factor)
{
    bool last = index + 1 == count;
    bool accumulates = crew->members[0].accumulated != NULL && !crew->exact.granule;

    crew->buckets.next = crew->buckets.landed = 0;
    crew->buckets.first = index == 0;
    crew->buckets.marks = !accumulates && (crew->count > 1 || crew->comm);
    if (crew->stages && index > 0)
        YKI_TRY(yki_stages_meet(crew));
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        YKI_TRY(yki_member_begin(crew, &crew->members[k], crew->members[k].replica->training, index,
                                 rate_factor));
    }
    YKI_TRY(run_apart(crew, YKI_FORWARD, &crew->times.forward));
    YKI_TRY(run_apart(crew, YKI_BACKWARD, &crew->times.backward));
    for (size_t k = 0; k < crew->count && accumulates; k++)
        YKI_TRY(yki_member_accumulate(crew, &crew->members[k], last));
    if (crew->members[crew->home].results)
        YKI_TRY(yki_crew_results(crew, false, index > 0));
    if (!last)
        YKI_TRY(commit_micro_batch(crew));
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        YKI_TRY(yki_queue_flush(crew->members[k].replica->queue));
    }
    return YOKE_OK;
}

yoke_status
yki_crew_granule(yki_crew *crew, yki_member *m, float rate_factor, bool last)
{
    yki_plan *plan = m->replica->training;

    crew->buckets.next = crew->buckets.landed = 0;
    crew->buckets.marks = crew->exact.last = last;
    YKI_TRY(yki_member_begin(crew, m, plan, (uint32_t)m->adder.count, rate_factor));
    m->adder.ended = last;
    if (m->n == 0) /* it updates all the same */
        return YOKE_OK;
    YKI_TRY(yki_granules_begin(m));
    for (int section = YKI_FORWARD; section <= YKI_BACKWARD; section++) {
        m->position = 0;
        YKI_TRY(yki_member_run(crew, m, plan, (yki_section)section, plan->task_count));
    }
    YKI_TRY(yki_granules_add(crew, m, m->replica->weights, plan, m->first));
    crew->exact.last = false;
    return yki_queue_flush(m->replica->queue);
}

yoke_status
yki_member_end_granules(yki_crew *crew, yki_member *m)
{
    if (m->adder.ended)
        return YOKE_OK;
    if (m->adder.count == 0)
        YKI_TRY(yki_granules_none(crew, m));
    for (size_t b = 0; b < crew->buckets.count; b++)
        YKI_TRY(mark_complete(crew, m, b));
    m->adder.ended = true;
    return YOKE_OK;
}

yoke_status
yki_crew_granules(yki_crew *crew, float rate_factor)
{
    crew->buckets.next = crew->buckets.landed = 0;
    crew->buckets.marks = false;
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        if (m->n == 0)
            continue;
        YKI_TRY(
            yki_member_begin(crew, m, m->replica->training, (uint32_t)m->adder.count, rate_factor));
        YKI_TRY(yki_granules_begin(m));
    }
    YKI_TRY(run_section(crew, YKI_FORWARD));
    YKI_TRY(run_section(crew, YKI_BACKWARD));
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        if (m->n > 0)
            YKI_TRY(yki_granules_add(crew, m, m->replica->weights, m->replica->training, m->first));
        YKI_TRY(yki_queue_flush(m->replica->queue));
    }
    return YOKE_OK;
}

/* ---- the update ---- */

static bool
updates(const yki_crew *crew, const yki_member *m)
{
    return m->index_in_group < crew->groups[m->group].owners;
}

static yoke_status
prepare_updates(yki_crew *crew)
{
    bool exchange = false;

    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        if (!updates(crew, m))
            continue;
        crew->at = k;
        if (m->reduced.cl)
            YKI_TRY(yki_queue_marker(m->replica->queue, (yki_wait){&m->reduced, 1}, NULL));
        if (crew->exact.granule)
            YKI_TRY(yki_granules_round(crew, m));
        YKI_TRY(yki_updater_enqueue_norms(m->replica->updater));
        exchange |=
            yki_updater_wants_norm(m->replica->updater) && crew->groups[m->group].owners > 1;
    }
    if (crew->stages)
        return yki_stages_agree(crew);
    if (!exchange)
        return YOKE_OK;
    YKI_TRY(yki_crew_arrive(crew));
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        if (updates(crew, &crew->members[k]))
            YKI_TRY(yki_crew_meet(crew, &crew->members[k]));
    }
    return YOKE_OK;
}

/* Ends the arrows of a timeline at the newest launch of the update: those of the gradients of all
 * buckets that the member updates. */
static void
end_flows(const yki_crew *crew, const yki_member *m, const yki_queue *queue)
{
    for (size_t b = 0; yki_queue_track(queue) && b < crew->buckets.count; b++)
        for (size_t i = 0; yki_member_owns(crew, m, b) && i < crew->groups[m->group].count; i++)
            yki_track_flow(yki_queue_track(queue),
                           yki_member_flow(crew, yki_crew_in_group(crew, m->group, i), b), 'f');
}

/* Enqueues the member's share of the update on a queue of its memory. Goes on where a failed call
 * stopped. */
static yoke_status
update_member(yki_crew *crew, yki_member *m, yki_queue *queue)
{
    yoke_replica *r = m->replica;

    if (m->is_updated)
        return YOKE_OK;
    if (!updates(crew, m)) {
        r->weights->version++;
        m->is_updated = true;
        return YOKE_OK;
    }
    if (!m->is_committed)
        YKI_TRY(yki_updater_enqueue_updates(r->updater, queue));
    if (!m->is_committed)
        end_flows(crew, m, queue);
    m->is_committed = true;
    if (m->index_in_group == 0 && !m->has_states) {
        YKI_TRY(yki_granules_commit(crew, m, queue));
        YKI_TRY(yki_plan_commit_states_on(crew->stages ? r->newest : r->training, queue));
    }
    m->has_states = true;
    if (crew->groups[m->group].count > 1) {
        yki_event_release(&m->updated);
        YKI_TRY(yki_queue_marker(queue, YKI_NO_WAIT, &m->updated));
    }
    m->is_updated = true;
    return yki_queue_flush(queue);
}

/* Whoever reads the weights of this step must be done with them before others arrive. */
static yoke_status
share(yki_crew *crew)
{
    YKI_TRY(yki_crew_finish(crew));
    if (!crew->sharding.weights)
        return yki_sharding_share(crew);
    crew->torn = false;
    return YOKE_OK;
}

yoke_status
yki_crew_update(yki_crew *crew)
{
    double begin = yki_now();

    YKI_TRY(yki_crew_reduce(crew, SIZE_MAX));
    if (!crew->buckets.apart)
        begin = yki_now();
    if ((crew->stages || crew->members[crew->home].results) && !crew->exact.granule)
        YKI_TRY(yki_crew_total(crew));
    YKI_TRY(yki_crew_receive(crew));
    crew->times.exposed = yki_now() - begin;
    yki_span_end(crew->host_track, begin, "wait for gradients", -1);
    begin = yki_span_begin(crew->host_track);
    YKI_TRY(prepare_updates(crew));
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        m->is_committed = m->has_states = m->is_updated = false;
        m->kept_states = 0;
    }
    /* From here on the step counts: if a device fails, yki_crew_complete_update does the rest. */
    crew->updating = true;
    crew->torn = crew->sharding.ranges != NULL;
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        YKI_TRY(update_member(crew, &crew->members[k], crew->members[k].replica->queue));
    }
    crew->updating = false;
    if (crew->sharding.ranges)
        YKI_TRY(share(crew));
    for (size_t k = 0; k < crew->count; k++)
        crew->members[k].replica->step++;
    yki_span_end(crew->host_track, begin, "enqueue update", -1);
    return crew->exact.granule ? yki_granules_next(crew) : YOKE_OK;
}

/* Completes a member's share of the update on any queue of its group, or on a new one. */
static yoke_status
update_somehow(yki_crew *crew, yki_member *m)
{
    const yki_group *group = &crew->groups[m->group];
    yki_queue *queue;
    yoke_status status;

    for (size_t i = 0; i < group->count; i++) {
        queue = yki_crew_in_group(crew, m->group, (m->index_in_group + i) % group->count)
                    ->replica->queue;
        status = update_member(crew, m, queue);
        if (status == YOKE_OK)
            status = yki_queue_finish(queue);
        if (status == YOKE_OK)
            return YOKE_OK;
    }
    YKI_TRY(yki_queue_create(m->replica->weights->device, false, &queue));
    status = update_member(crew, m, queue);
    if (status == YOKE_OK)
        status = yki_queue_finish(queue);
    yki_event_release(&m->updated);
    yki_queue_destroy(queue);
    return status;
}

/* Whether something that was enqueued for the group has failed. Then gradients or updates may be
 * missing, and nobody can tell which. */
static bool
has_failed(const yki_crew *crew, size_t group)
{
    for (size_t i = 0; i < crew->groups[group].count; i++) {
        const yki_member *m = yki_crew_in_group(crew, group, i);
        yki_queue *queues[] = {m->replica->queue, m->side, m->back};

        for (size_t q = 0; q < YKI_COUNT(queues); q++)
            if (queues[q] && yki_queue_has_failed(queues[q]))
                return true;
    }
    return false;
}

/* Whether weights are read from this group: all have the same, or each has a part. */
static bool
is_read(const yki_crew *crew, size_t group)
{
    return group == 0 || crew->stages || crew->sharding.weights;
}

bool
yki_crew_has_failed(const yki_crew *crew)
{
    for (size_t g = 0; g < crew->group_count; g++)
        if (is_read(crew, g) && has_failed(crew, g))
            return true;
    return false;
}

bool
yki_crew_complete_update(yki_crew *crew)
{
    bool complete = true, begun = false;

    if (!crew->updating)
        return false;
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];
        const bool done = !has_failed(crew, m->group) && update_somehow(crew, m) == YOKE_OK;

        if (!is_read(crew, m->group))
            continue;
        complete &= done;
        begun |= m->is_committed || yki_updater_has_begun(m->replica->updater);
    }
    complete &= !yki_crew_has_failed(crew);
    crew->updating = !complete;
    if (!crew->sharding.ranges || crew->sharding.weights) /* no part waits for those of others */
        crew->torn = begun && !complete;
    return complete;
}

yoke_status
yki_crew_settle(yki_crew *crew)
{
    if (crew->comm && crew->buckets.next > 0) {
        YKI_TRY(yki_crew_reduce(crew, SIZE_MAX));
        YKI_TRY(yki_crew_receive(crew));
    }
    return yki_crew_finish(crew);
}

yoke_status
yki_crew_finish(yki_crew *crew)
{
    yoke_status status = YOKE_OK;

    for (size_t k = 0; k < crew->count; k++) {
        const yki_member *m = &crew->members[k];
        yki_queue *queues[] = {m->replica ? m->replica->queue : NULL, m->side, m->back};

        for (size_t q = 0; q < YKI_COUNT(queues); q++) {
            yoke_status one = queues[q] ? yki_queue_finish(queues[q]) : YOKE_OK;

            if (status != YOKE_OK || one == YOKE_OK)
                continue;
            status = one;
            crew->at = k;
        }
    }
    yki_landings_settle(crew);
    return status;
}
