/* SPDX-License-Identifier: Apache-2.0
 *
 * landing.c - sums over the groups of one process, which a thread of the crew adds while the
 * caller's thread goes on.
 *
 * Idea: a sum is a landing. Its reads to the host are enqueued, and, behind a gate of each group
 * (device.h), the writes back. The thread waits for the reads, adds, in the
 * order of the groups, and opens the gates. So the caller enqueues a whole step, and the
 * next one, without waiting. Gradients come back on a queue of their own, so later ones are read
 * while a gate is shut. Landings go in the order in which they were begun. The last one of a
 * step is that of the results, and what updates weights comes behind its gates.
 *
 * After the first failure gates still open, as what comes behind a gate that fails is not known.
 * But from then on the results that go back are none, of no sample. A step with such results
 * changes nothing, neither weights nor what is kept beside them (update.cl), so no device makes an
 * update that another one misses: all stay as they were after the step before. The gradients of
 * these steps are nothing, and nobody uses them. For the trainer each landing remembers its step.
 *
 * The device that failed may do what is in its queue behind the failed command, or not: OpenCL does
 * not say which. If it does, it gets the same results and changes nothing; if not, likewise. Only
 * one that makes an update without the copy in front of it, which brings the results, could change
 * its own weights, never those of others.
 *
 * Not here: statistics, for which the host waits, sums between processes, and drivers that have no
 * gates (exchange.c).
 */
#include <math.h>
#include <string.h>

#include "team/crew.h"

enum { RESULTS = -1 }; /* in place of a bucket */

typedef struct landing landing;

/* What has to be done before the host adds. */
typedef struct reading {
    yki_event event;
    size_t member;
} reading;

struct landing {
    yki_landings *all;
    landing *next;
    int64_t bucket;    /* or RESULTS */
    int64_t step;      /* its number, from 1 */
    bool handed_over;  /* nothing more is enqueued; under the lock */
    bool whole;        /* all was enqueued; false: the caller's thread has an error */
    reading *readings; /* by member, or by group */
    size_t reading_count;
    yki_event *gates; /* by group */
    double begin, end;
};

typedef struct line {
    landing *first, *last;
} line;

struct yki_landings {
    const yki_crew *crew;
    yki_thread *thread;
    landing *every;
    size_t count;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    line idle, under_way, over; /* over: the caller's thread has not seen it yet */
    int64_t broken;             /* the step of the first landing that failed; 0: none has */
    /* Because of which device, and what it says; YOKE_OK: because of none, but not all was
     * enqueued. */
    yoke_status status;
    size_t culprit;
    char *why;
    bool ending;
};

static void
append(line *to, landing *l)
{
    l->next = NULL;
    if (to->first)
        to->last->next = l;
    else
        to->first = l;
    to->last = l;
}

static landing *
take_first(line *from)
{
    landing *l = from->first;

    if (l)
        from->first = l->next;
    return l;
}

/* ---- adding ---- */

/* Where the host finds the results of a member, and leaves those of the team. */
static float *
results_in(const yki_member *m)
{
    float *direct = yki_buffer_host(m->results);

    return direct ? direct : yki_buffer_host(m->few);
}

static float *
results_out(const yki_crew *crew, const yki_member *m)
{
    float *direct = yki_buffer_host(m->totals);

    return direct ? direct : (float *)yki_buffer_host(m->few) + crew->host_floats;
}

static void
add_results(const yki_crew *crew)
{
    const size_t count = 2 * crew->pairs;
    float *sum = results_out(crew, &crew->members[0]);

    memcpy(sum, results_in(&crew->members[0]), count * sizeof *sum);
    for (size_t k = 1; k < crew->count; k++)
        yki_merge_rows(YKI_MERGE_SUM, sum, results_in(&crew->members[k]), count);
    for (size_t k = 1; k < crew->count; k++)
        memcpy(results_out(crew, &crew->members[k]), sum, count * sizeof *sum);
}

/* Gives all members results of a step that changes nothing. */
static void
void_results(const yki_crew *crew)
{
    for (size_t k = 0; k < crew->count; k++) {
        float *pairs = results_out(crew, &crew->members[k]);

        for (size_t i = 0; i < crew->pairs; i++) {
            pairs[2 * i] = NAN;
            pairs[2 * i + 1] = 0;
        }
    }
}

/* Behind a landing that is not whole no update is enqueued. It is left alone, because the device
 * that it lacks may still have to fetch the results before. */
static void
add(const landing *l, bool good)
{
    const yki_crew *crew = l->all->crew;

    if (good && l->bucket == RESULTS)
        add_results(crew);
    else if (good)
        yki_add_pieces(crew, (size_t)l->bucket);
    else if (l->bucket == RESULTS && l->whole)
        void_results(crew);
}

static void
open_gates(landing *l)
{
    for (size_t g = 0; g < l->all->crew->group_count; g++) {
        if (l->gates[g].cl)
            yki_gate_open(&l->gates[g]);
        yki_event_release(&l->gates[g]);
    }
}

/* Waits for all that was enqueued, also after a failure: a driver may still write to the host's
 * memory. Returns whether all is there, and notes the first failure. */
static bool
await(landing *l)
{
    yki_landings *all = l->all;
    yoke_status status = YOKE_OK;
    size_t culprit = 0;
    char *why = NULL;
    bool first;

    for (size_t i = 0; i < l->reading_count; i++) {
        yoke_status one = yki_event_outlast(&l->readings[i].event);

        if (status != YOKE_OK || one == YOKE_OK)
            continue;
        status = one;
        culprit = l->readings[i].member;
        why = yki_strdup(yoke_last_error(), "an error");
    }
    if (l->whole && status == YOKE_OK)
        return true;
    pthread_mutex_lock(&all->lock);
    first = !all->broken;
    if (first) {
        all->broken = l->step;
        all->status = status;
        all->culprit = culprit;
        all->why = why;
    }
    pthread_mutex_unlock(&all->lock);
    if (!first)
        yki_free(why);
    return false;
}

/* The thread. The lock is not held while it waits for devices and while it adds. */
static void
add_all(yki_landings *all)
{
    bool good = true; /* until something fails */
    landing *l;

    while (true) {
        while (all->under_way.first ? !all->under_way.first->handed_over : !all->ending)
            pthread_cond_wait(&all->changed, &all->lock);
        l = all->under_way.first;
        if (!l)
            return;
        pthread_mutex_unlock(&all->lock);
        good = await(l) && good;
        l->begin = yki_now();
        add(l, good);
        l->end = yki_now();
        open_gates(l);
        pthread_mutex_lock(&all->lock);
        append(&all->over, take_first(&all->under_way));
        pthread_cond_broadcast(&all->changed);
    }
}

static void
run(void *user)
{
    yki_landings *all = user;

    pthread_mutex_lock(&all->lock);
    add_all(all);
    pthread_mutex_unlock(&all->lock);
}

/* ---- the caller's thread ---- */

/* Gives a landing to the thread. */
static void
hand_over(landing *l, bool whole)
{
    pthread_mutex_lock(&l->all->lock);
    l->whole = whole;
    l->handed_over = true;
    pthread_cond_broadcast(&l->all->changed);
    pthread_mutex_unlock(&l->all->lock);
}

/* Ends the landings that are over. The lock is held. */
static void
look_after(yki_crew *crew)
{
    yki_landings *all = crew->landings;
    landing *l;

    while ((l = take_first(&all->over))) {
        if (l->bucket != RESULTS)
            yki_note_addition(crew, l->step, (size_t)l->bucket, l->begin, l->end);
        for (size_t i = 0; i < l->reading_count; i++)
            yki_event_release(&l->readings[i].event);
        append(&all->idle, l);
    }
}

static yoke_status
begin(yki_crew *crew, int64_t bucket, landing **out)
{
    yki_landings *all = crew->landings;
    yoke_status status = YOKE_OK;
    landing *l;

    pthread_mutex_lock(&all->lock);
    look_after(crew);
    while (!all->idle.first) {
        pthread_cond_wait(&all->changed, &all->lock);
        look_after(crew);
    }
    l = take_first(&all->idle);
    l->bucket = bucket;
    l->step = crew->members[0].replica->step;
    l->handed_over = false;
    l->reading_count = 0;
    append(&all->under_way, l);
    pthread_mutex_unlock(&all->lock);
    for (size_t g = 0; status == YOKE_OK && g < crew->group_count; g++) {
        crew->at = crew->groups[g].members[0];
        status = yki_gate_create(yoke_team_get_device(crew->team, crew->at), &l->gates[g]);
    }
    if (status != YOKE_OK)
        hand_over(l, false);
    *out = l;
    return status;
}

/* The landing waits for the event, which it takes; but not for a command that was not flushed, as
 * it may never be done. */
static yoke_status
expect(landing *l, size_t member, yki_event event)
{
    yoke_status status;

    if (!event.cl)
        return YOKE_OK;
    status = yki_queue_flush(event.queue);
    if (status != YOKE_OK) {
        yki_event_release(&event);
        return status;
    }
    l->readings[l->reading_count++] = (reading){event, member};
    return YOKE_OK;
}

static yki_wait
behind_gate(const landing *l, size_t group)
{
    return (yki_wait){&l->gates[group], 1};
}

/* ---- buckets ---- */

/* Enqueues the way of a group's sum to the host, and back. The next read to the same memory comes
 * after the backward of the next step, thus after the update, which waits for `reduced`. */
static yoke_status
enqueue_group(yki_crew *crew, landing *l, size_t group, size_t bucket)
{
    yki_buffer *pinned = crew->groups[group].pinned[bucket], *gradients;
    yki_event done = {0}, read = {0};
    yki_member *m = yki_crew_owner(crew, group, bucket);
    yoke_status status;

    crew->at = (size_t)(m - crew->members);
    YKI_TRY(yki_sum_in_group(crew, group, bucket, &m, &done));
    if (!pinned) /* what reads the sum waits for that of the results */
        return expect(l, crew->at, done);
    gradients = yki_travelling(crew, m, bucket);
    status = yki_queue_read(m->side, gradients, 0, yki_buffer_size(gradients),
                            yki_buffer_host(pinned), (yki_wait){&done, 1}, &read);
    yki_event_release(&done);
    YKI_TRY(status);
    YKI_TRY(expect(l, crew->at, read));
    yki_event_release(&m->reduced);
    YKI_TRY(yki_queue_write(m->back, gradients, 0, yki_buffer_size(gradients),
                            yki_buffer_host(pinned), behind_gate(l, group), &m->reduced));
    return yki_queue_flush(m->back);
}

yoke_status
yki_landings_bucket(yki_crew *crew, size_t bucket)
{
    yoke_status status = YOKE_OK;
    landing *l;

    YKI_TRY(begin(crew, (int64_t)bucket, &l));
    for (size_t g = 0; status == YOKE_OK && g < crew->group_count; g++)
        status = enqueue_group(crew, l, g, bucket);
    hand_over(l, status == YOKE_OK);
    return status;
}

/* ---- results ---- */

static yoke_status
enqueue_results(yki_crew *crew, landing *l, yki_member *m)
{
    const uint64_t bytes = 2 * crew->pairs * sizeof(float);
    yki_queue *queue = m->replica->queue;
    const yki_wait wait = behind_gate(l, m->group);
    yki_event there = {0};

    crew->at = (size_t)(m - crew->members);
    if (yki_buffer_host(m->results))
        YKI_TRY(yki_queue_marker(queue, YKI_NO_WAIT, &there));
    else
        YKI_TRY(yki_queue_read(queue, m->results, 0, bytes, results_in(m), YKI_NO_WAIT, &there));
    YKI_TRY(expect(l, crew->at, there));
    if (yki_buffer_host(m->totals))
        YKI_TRY(yki_queue_marker(queue, wait, NULL));
    else
        YKI_TRY(yki_queue_write(queue, m->totals, 0, bytes, results_out(crew, m), wait, NULL));
    return yki_queue_flush(queue);
}

yoke_status
yki_landings_results(yki_crew *crew)
{
    yoke_status status = YOKE_OK;
    landing *l;

    YKI_TRY(begin(crew, RESULTS, &l));
    for (size_t k = 0; status == YOKE_OK && k < crew->count; k++)
        status = enqueue_results(crew, l, &crew->members[k]);
    hand_over(l, status == YOKE_OK);
    return status;
}

/* ---- life ---- */

static yoke_status
make_landings(yki_landings *all)
{
    const yki_crew *crew = all->crew;

    all->count = YKI_FLIGHT * (crew->buckets.count + 1);
    all->every = yki_alloc(all->count, sizeof *all->every, "landings");
    for (size_t i = 0; all->every && i < all->count; i++) {
        landing *l = &all->every[i];

        l->all = all;
        l->readings = yki_alloc(crew->count, sizeof *l->readings, "landings");
        l->gates = yki_alloc(crew->group_count, sizeof *l->gates, "landings");
        if (!l->readings || !l->gates)
            return YOKE_ERROR_OUT_OF_MEMORY;
        append(&all->idle, l);
    }
    return all->every ? yki_thread_start(run, all, "that adds gradients", &all->thread)
                      : YOKE_ERROR_OUT_OF_MEMORY;
}

yoke_status
yki_landings_create(yki_crew *crew)
{
    yki_landings *all;

    if (!yki_crew_adds_pinned(crew) || crew->exact.granule || crew->buckets.apart)
        return YOKE_OK;
    for (size_t k = 0; k < crew->count; k++)
        if (!yki_device_get_traits(yoke_team_get_device(crew->team, k))->gates)
            return YOKE_OK;
    all = yki_alloc(1, sizeof *all, "landings");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->crew = crew;
    crew->landings = all;
    for (size_t g = 0; g < crew->group_count; g++)
        for (size_t b = 0; b < crew->buckets.count; b++) {
            yki_member *m = yki_crew_owner(crew, g, b);

            if (crew->groups[g].pinned[b] && !m->back)
                YKI_TRY(yki_queue_create(m->replica->weights->device, false, &m->back));
        }
    return make_landings(all);
}

void
yki_landings_destroy(yki_crew *crew)
{
    yki_landings *all = crew->landings;

    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->ending = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    yki_thread_join(all->thread);
    for (size_t i = 0; all->every && i < all->count; i++) {
        landing *l = &all->every[i];

        for (size_t r = 0; r < l->reading_count; r++)
            yki_event_release(&l->readings[r].event);
        yki_free(l->readings);
        yki_free(l->gates);
    }
    yki_free(all->why);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    yki_free(all->every);
    yki_free(all);
    crew->landings = NULL;
}

void
yki_landings_settle(yki_crew *crew)
{
    yki_landings *all = crew->landings;

    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    while (all->under_way.first)
        pthread_cond_wait(&all->changed, &all->lock);
    look_after(crew);
    pthread_mutex_unlock(&all->lock);
}

/* ---- failures ---- */

yoke_status
yki_landings_check(yki_crew *crew, int64_t step)
{
    yki_landings *all = crew->landings;
    yoke_status status = YOKE_OK;

    if (!all)
        return YOKE_OK;
    pthread_mutex_lock(&all->lock);
    if (all->broken && all->broken <= step && all->status != YOKE_OK) {
        crew->at = all->culprit;
        status = yki_fail(all->status, "%s", all->why ? all->why : "no host memory for an error");
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}

bool
yki_landings_broke(yki_crew *crew, int64_t *step)
{
    yki_landings *all = crew->landings;
    bool broke;

    if (!all)
        return false;
    yki_landings_settle(crew);
    pthread_mutex_lock(&all->lock);
    broke = all->broken > 0;
    if (broke)
        *step = all->broken - 1;
    pthread_mutex_unlock(&all->lock);
    if (broke)
        crew->updating = crew->torn = false;
    return broke;
}
