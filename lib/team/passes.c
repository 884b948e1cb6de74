/* SPDX-License-Identifier: Apache-2.0
 *
 * passes.c - granules of a graph with statistics of the whole batch, such as those of batch norms.
 *
 * Such a statistic is known when all granules have come to it, so they cannot be computed one after
 * the other. Each has a pass: a plan, with gradients of its own. All passes of the team go together
 * from one stop to the next, where the host merges the statistics of the granules in their order in
 * the batch. No split changes that order.
 */
#include <string.h>

#include "team/sharding.h"

/* ---- making ---- */

static yoke_status
make_pass(const yki_crew *crew, yki_member *m, yki_pass *pass)
{
    yoke_replica *r = m->replica;

    if (m->pass_count == 0) {
        *pass = (yki_pass){.weights = r->weights, .plan = r->training};
        return YOKE_OK;
    }
    YKI_TRY(yki_weights_create(r->weights->device, crew->graph, true, crew->buckets.limit,
                               r->weights, &pass->weights));
    return yki_replica_plan_again(r, pass->weights, &pass->plan);
}

yoke_status
yki_passes_take(yki_crew *crew, yki_member *m, size_t count)
{
    m->passes_taken =
        YKI_MAX(count, (size_t)1); /* one takes part in all merges, even without samples */
    while (m->pass_count < m->passes_taken) {
        yki_pass *pass;
        yoke_status status;

        YKI_TRY(yki_grow((void **)&m->passes, &m->pass_capacity, m->pass_count + 1,
                         sizeof *m->passes, "passes of granules"));
        pass = &m->passes[m->pass_count];
        memset(pass, 0, sizeof *pass);
        status = make_pass(crew, m, pass);
        if (status != YOKE_OK) {
            yki_weights_release(pass->weights);
            return status;
        }
        m->pass_count++;
    }
    for (size_t i = 0; i < m->passes_taken; i++)
        m->passes[i].n = 0;
    return YOKE_OK;
}

/* ---- merging ---- */

/* Shares are the same in all processes, so none has to be asked. */
void
yki_passes_divide(yki_crew *crew, const int64_t *counts)
{
    const int64_t granule = crew->exact.granule;
    const size_t ranks = crew->comm ? (size_t)crew->comm->ranks : 1;

    for (size_t r = 0; r < ranks; r++) {
        crew->exact.widths[r] = 0;
        for (uint32_t i = 0; i < crew->exact.devices[r]; i++)
            crew->exact.widths[r] += (uint32_t)((*counts++ + granule - 1) / granule);
    }
}

/* Reads the statistics of a member's granules into rows of `count` floats, from *row on. Waits
 * until all that the member had to do before is done. */
static yoke_status
fetch(yki_member *m, size_t stop, size_t count, float **row)
{
    yki_queue *queue = m->replica->queue;

    for (size_t i = 0; i < m->passes_taken; i++) {
        if (m->passes[i].n == 0)
            continue;
        YKI_TRY(yki_queue_read(queue, m->passes[i].plan->stops[stop].in, 0, count * sizeof **row,
                               *row, YKI_NO_WAIT, NULL));
        *row += count;
    }
    yki_event_release(&m->arrived);
    YKI_TRY(yki_queue_marker(queue, YKI_NO_WAIT, &m->arrived));
    return yki_queue_flush(queue);
}

/* Merges the rows of all processes, of which each has `widest`, into the first row. Without a
 * granule it is zeros. */
static void
merge_all(yki_crew *crew, yki_merge merge, const float *from, size_t widest, size_t count)
{
    const size_t ranks = crew->comm ? (size_t)crew->comm->ranks : 1;
    float *into = crew->exact.rows;
    bool any = false;

    memset(into, 0, count * sizeof *into);
    for (size_t r = 0; r < ranks; r++, from += widest * count)
        for (size_t i = 0; i < crew->exact.widths[r]; i++) {
            if (any)
                yki_merge_rows(merge, into, from + i * count, count);
            else
                memcpy(into, from, count * sizeof *from);
            any = true;
        }
}

static void keep_rows(yki_crew *crew, size_t stop, const float *own, size_t count);

static yki_plan *
pass_of(const yki_member *m, size_t index)
{
    return index < m->passes_taken ? m->passes[index].plan : NULL;
}

/* Merges a statistic over all granules of the team, and gives it to all passes. */
static yoke_status
merge(yki_crew *crew, size_t stop)
{
    const yki_exact *e = &crew->exact;
    const yki_stop *what = &crew->members[0].passes[0].plan->stops[stop];
    const size_t count = what->count;
    float *own = e->rows + e->row, *at = own, *all = own;
    size_t widest = 0;

    if (what->gathers)
        return yki_sharding_bring(crew, what->gathers - 1, stop, pass_of);
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(fetch(&crew->members[k], stop, count, &at));
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(yki_event_wait(&crew->members[k].arrived));
    for (int32_t r = 0; crew->comm && r < crew->comm->ranks; r++)
        widest = YKI_MAX(widest, (size_t)e->widths[r]);
    if (crew->comm) {
        all = own + e->most * e->row;
        YKI_TRY(
            yki_crew_gather(crew, "all-gather statistics", own, widest * count * sizeof *own, all));
    }
    merge_all(crew, what->merge, all, widest, count);
    keep_rows(crew, stop, own, count);
    for (size_t k = 0; k < crew->count; k++)
        for (size_t i = 0; i < crew->members[k].passes_taken; i++)
            YKI_TRY(yki_queue_write(crew->members[k].replica->queue,
                                    crew->members[k].passes[i].plan->stops[stop].out, 0,
                                    count * sizeof *e->rows, e->rows, YKI_NO_WAIT, NULL));
    return YOKE_OK;
}

/* ---- computing again (lib/train/recheck.c) ---- */

static size_t
kept_granules(const yki_crew *crew)
{
    return crew->exact.stats.most * crew->exact.micro_batches;
}

yoke_status
yki_passes_keep(yki_crew *crew)
{
    const yki_plan *plan = crew->members[0].replica->training;
    yki_kept_rows *kept = &crew->exact.stats;

    kept->most = crew->exact.most / crew->exact.micro_batches;
    kept->first = yki_alloc(YKI_MAX(plan->stop_count, (size_t)1), sizeof *kept->first, "stops");
    for (size_t s = 0; kept->first && s < plan->stop_count; s++) {
        kept->first[s] = kept->size;
        kept->size += plan->stops[s].count;
    }
    kept->merged = yki_alloc(crew->exact.micro_batches * kept->size, sizeof(float), "statistics");
    for (size_t i = 0; i < 2; i++)
        kept->granules[i] =
            yki_alloc(kept_granules(crew) * kept->size, sizeof(float), "statistics");
    return kept->first && kept->merged && kept->granules[0] && kept->granules[1]
               ? YOKE_OK
               : YOKE_ERROR_OUT_OF_MEMORY;
}

void
yki_passes_keep_no_more(yki_crew *crew)
{
    yki_kept_rows *kept = &crew->exact.stats;

    yki_free(kept->first);
    yki_free(kept->merged);
    yki_free(kept->granules[0]);
    yki_free(kept->granules[1]);
    memset(kept, 0, sizeof *kept);
}

void
yki_passes_clear_kept(yki_crew *crew, bool again)
{
    const yki_kept_rows *kept = &crew->exact.stats;

    if (kept->merged)
        memset(kept->granules[again], 0, kept_granules(crew) * kept->size * sizeof(float));
}

static float *
kept_merged(const yki_crew *crew, uint32_t micro_batch, size_t stop)
{
    const yki_kept_rows *kept = &crew->exact.stats;

    return kept->merged + micro_batch * kept->size + kept->first[stop];
}

static float *
kept_granule(const yki_crew *crew, int again, uint32_t micro_batch, size_t index, size_t stop)
{
    const yki_kept_rows *kept = &crew->exact.stats;

    return kept->granules[again] + (micro_batch * kept->most + index) * kept->size +
           kept->first[stop];
}

/* Keeps what has been merged at a stop: the result, and what the checked member gave to it. `own`
 * has the rows of all members of this process. */
static void
keep_rows(yki_crew *crew, size_t stop, const float *own, size_t count)
{
    const uint32_t micro_batch = crew->exact.micro_batch;
    size_t index = 0;

    if (!crew->exact.stats.merged)
        return;
    memcpy(kept_merged(crew, micro_batch, stop), crew->exact.rows, count * sizeof *own);
    for (size_t k = 0; k <= crew->exact.checked; k++)
        for (size_t i = 0; i < crew->members[k].passes_taken; i++) {
            if (crew->members[k].passes[i].n == 0)
                continue;
            if (k == crew->exact.checked)
                memcpy(kept_granule(crew, 0, micro_batch, index++, stop), own, count * sizeof *own);
            own += count;
        }
}

/* Runs a section of the first pass, with the statistics that were merged in the step. */
static yoke_status
run_section_again(yki_crew *crew, yki_member *m, yki_section section, uint32_t micro_batch,
                  size_t index)
{
    yki_plan *plan = m->passes[0].plan;
    yki_queue *queue = m->replica->queue;

    m->position = 0;
    for (size_t s = 0; s < plan->stop_count; s++) {
        const yki_stop *stop = &plan->stops[s];
        const size_t bytes = stop->count * sizeof(float);

        if (stop->section != section)
            continue;
        YKI_TRY(yki_member_run(crew, m, plan, section, stop->task));
        if (m->n > 0)
            YKI_TRY(yki_queue_read(queue, stop->in, 0, bytes,
                                   kept_granule(crew, 1, micro_batch, index, s), YKI_NO_WAIT,
                                   NULL));
        YKI_TRY(yki_queue_write(queue, stop->out, 0, bytes, kept_merged(crew, micro_batch, s),
                                YKI_NO_WAIT, NULL));
    }
    return yki_member_run(crew, m, plan, section, plan->task_count);
}

yoke_status
yki_passes_again(yki_crew *crew, yki_member *m, uint32_t micro_batch, size_t index,
                 float rate_factor)
{
    yki_pass *pass = &m->passes[0];

    pass->weights->version = m->replica->weights->version;
    YKI_TRY(yki_member_begin(crew, m, pass->plan, (uint32_t)m->adder.count, rate_factor));
    YKI_TRY(yki_granules_begin(m));
    YKI_TRY(run_section_again(crew, m, YKI_FORWARD, micro_batch, index));
    YKI_TRY(run_section_again(crew, m, YKI_BACKWARD, micro_batch, index));
    if (m->n > 0)
        YKI_TRY(yki_granules_add(crew, m, pass->weights, pass->plan, m->first));
    return yki_queue_flush(m->replica->queue);
}

/* ---- a step ---- */

static yoke_status
begin(yki_crew *crew, float rate_factor)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        YKI_TRY(yki_granules_begin(m));
        for (size_t i = 0; i < m->passes_taken; i++) {
            yki_pass *pass = &m->passes[i];

            m->first = pass->first;
            m->n = pass->n;
            pass->weights->version = m->replica->weights->version;
            YKI_TRY(yki_member_begin(crew, m, pass->plan, (uint32_t)i, rate_factor));
        }
    }
    return YOKE_OK;
}

/* Passes of a member that have samples: they are the first ones. */
static size_t
passes_used(const yki_member *m)
{
    size_t used = 0;

    while (used < m->passes_taken && m->passes[used].n > 0)
        used++;
    return used;
}

/* Enqueues the tasks of all passes up to a stop; SIZE_MAX: to the end. */
static yoke_status
run_to(yki_crew *crew, yki_section section, size_t stop)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];
        const size_t used = passes_used(m);

        crew->at = k;
        for (size_t i = 0; i < m->passes_taken; i++) {
            yki_pass *pass = &m->passes[i];
            const yki_plan *plan = pass->plan;

            crew->buckets.marks = crew->exact.last && i + 1 == used;
            m->position = pass->position;
            m->first = pass->first;
            m->n = pass->n;
            YKI_TRY(yki_member_run(crew, m, pass->plan, section,
                                   stop < plan->stop_count ? plan->stops[stop].task
                                                           : plan->task_count));
            pass->position = m->position;
            m->adder.at += pass->n > 0;
        }
        m->adder.at = m->adder.count;
    }
    return YOKE_OK;
}

static yoke_status
run_section(yki_crew *crew, yki_section section)
{
    const yki_plan *plan = crew->members[0].passes[0].plan;
    size_t passed = 0;

    for (size_t k = 0; k < crew->count; k++)
        for (size_t i = 0; i < crew->members[k].passes_taken; i++)
            crew->members[k].passes[i].position = 0;
    for (size_t s = 0; s < plan->stop_count; s++) {
        if (plan->stops[s].section != section)
            continue;
        YKI_TRY(run_to(crew, section, s));
        YKI_TRY(merge(crew, s));
        passed++;
        if (section == YKI_BACKWARD && crew->exact.last)
            YKI_TRY(yki_crew_reduce(crew, passed));
    }
    return run_to(crew, section, SIZE_MAX);
}

yoke_status
yki_passes_run(yki_crew *crew, float rate_factor, bool last)
{
    crew->exact.last = last;
    crew->buckets.next = crew->buckets.landed = 0;
    YKI_TRY(begin(crew, rate_factor));
    YKI_TRY(run_section(crew, YKI_FORWARD));
    for (size_t k = 0; k < crew->count && last; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        m->adder.ended = passes_used(m) > 0;
        YKI_TRY(yki_member_end_granules(crew, m));
    }
    YKI_TRY(run_section(crew, YKI_BACKWARD));
    crew->buckets.marks = false;
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        for (size_t i = 0; i < m->passes_taken; i++)
            if (m->passes[i].n > 0)
                YKI_TRY(yki_granules_add(crew, m, m->passes[i].weights, m->passes[i].plan,
                                         m->passes[i].first));
        YKI_TRY(yki_queue_flush(m->replica->queue));
    }
    crew->exact.last = false;
    return YOKE_OK;
}
