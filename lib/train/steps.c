/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c - the steps of a trainer.
 *
 * Up to two steps are under way. The results of a step are copied to the host right after it; the
 * host looks at them when the step after the next begins. After a failure the weights are those of
 * one completed step, and only reading, saving and destroying are possible.
 *
 * Not here: where samples come from (from_arrays.c, fit.c).
 */
#include <string.h>

#include "team/pipeline.h"
#include "train/trainer.h"

/* ---- failures ---- */

yoke_status
yki_trainer_ready(yoke_trainer *t, const char *function)
{
    if (!t)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: trainer is NULL", function);
    if (t->failure.status != YOKE_OK)
        return yki_fail(
            YOKE_ERROR_STATE,
            "%s: the trainer takes no more steps, because an earlier call failed: %s", function,
            t->failure.detail ? t->failure.detail : yoke_status_string(t->failure.status));
    return YOKE_OK;
}

yoke_status
yki_trainer_is_whole(yoke_trainer *t, const char *function)
{
    if (t->crew.torn)
        return yki_fail(YOKE_ERROR_STATE,
                        "%s: a part of this process's weights is of another state, because a "
                        "failure came in an update, or while "
                        "shards or averages were exchanged: %s; go on from a checkpoint",
                        function, t->failure.detail ? t->failure.detail : "?");
    if ((t->crew.sharding.weights || t->crew.stages) && t->crew.comm &&
        t->failure.status != YOKE_OK)
        return yki_fail(YOKE_ERROR_STATE,
                        "%s: each process has a part of the weights, and they exchange nothing "
                        "after a failure: %s; go on from a checkpoint",
                        function, t->failure.detail ? t->failure.detail : "?");
    return YOKE_OK;
}

yoke_status
yki_trainer_trains(yoke_trainer *t, const char *function)
{
    YKI_TRY(yki_trainer_ready(t, function));
    if (!t->graph->loss)
        return yki_fail(YOKE_ERROR_STATE,
                        "%s: the graph has no loss, so the trainer can predict and nothing else; "
                        "call yoke_graph_set_loss before",
                        function);
    return YOKE_OK;
}

yoke_status
yki_trainer_stand_still(yoke_trainer *t, yoke_status status)
{
    t->failure.status = status;
    yki_free(t->failure.detail);
    t->failure.detail = yki_strdup(yoke_last_error(), "an error");
    return status;
}

/* What this thread noticed may follow from what another device did before: then that one is named.
 * Of the same device this thread may have heard more. */
static yoke_status
blame(yoke_trainer *t, yoke_status status, size_t *at, char **why)
{
    const yoke_status one = yki_landings_check(&t->crew, INT64_MAX);

    if (one == YOKE_OK || t->crew.at == *at)
        return status;
    *at = t->crew.at;
    yki_free(*why);
    *why = yki_strdup(yoke_last_error(), "an error");
    return one;
}

/* Notes that a device which has all weights has done all up to the results of a step. Other devices
 * of its memory may still update weights; they have done that when the next results are there. */
static void
note_results(yoke_trainer *t, const yki_flight *flight)
{
    const bool alone = !t->crew.stages && t->crew.groups[0].count == 1;

    t->completed = YKI_MAX(t->completed, flight->step - !alone);
}

/* Says whether updates that were enqueued may not be done, though no call has failed for that. */
static bool
lacks_updates(yoke_trainer *t)
{
    for (size_t i = 0; i < YKI_FLIGHT; i++)
        if (t->flights[i].busy && yki_event_has_succeeded(&t->flights[i].read))
            note_results(t, &t->flights[i]);
    return t->step > t->completed && yki_crew_has_failed(&t->crew);
}

/* Waits for all devices, completes an update that was begun, and sets a detail that names device
 * and step. The other processes are told. */
yoke_status
yki_trainer_failed(yoke_trainer *t, yoke_status status)
{
    size_t at = t->crew.at;
    char *why = yki_strdup(yoke_last_error(), "an error");
    int64_t step = t->step + 1;
    yoke_device *device;

    t->failure.status = status;
    (void)yki_crew_finish(&t->crew);
    if (yki_landings_broke(&t->crew, &t->step)) {
        step = t->step + 1;
        status = blame(t, status, &at, &why);
        t->failure.status = status;
    } else if (yki_crew_complete_update(&t->crew)) {
        t->step++;
    }
    t->crew.torn |= lacks_updates(t);
    device = yoke_team_get_device(t->crew.team, at);
    yki_free(t->failure.detail);
    t->failure.detail =
        t->crew.torn
            ? yki_format("step %lld, device %s: %s; a part of the weights is of another state",
                         (long long)step, device ? yki_device_id(device) : "?", why ? why : "")
            : yki_format("step %lld, device %s: %s; the weights are those of step %lld",
                         (long long)step, device ? yki_device_id(device) : "?", why ? why : "",
                         (long long)t->step);
    yki_free(why);
    if (t->failure.detail)
        yki_set_detail(t->failure.detail);
    if (t->crew.comm && t->crew.comm->fail)
        t->crew.comm->fail(t->crew.comm,
                           t->failure.detail ? t->failure.detail : yoke_status_string(status));
    return status;
}

yoke_status
yki_trainer_gathered(yoke_trainer *t, yoke_status status)
{
    const bool waited_for = t->crew.comm && (t->crew.sharding.weights || t->crew.stages);

    return status == YOKE_OK || !waited_for || t->failure.status != YOKE_OK
               ? status
               : yki_trainer_failed(t, status);
}

/* ---- a step ---- */

static float
rate_factor(const yoke_trainer *t)
{
    return t->has_schedule ? yoke_schedule_factor(&t->schedule, t->step) : 1;
}

/* Gives the shares the times of all devices, gathered from all processes. */
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

        YKI_TRY(yki_crew_gather(&t->crew, "all-gather times", t->told,
                                team->total * sizeof *t->told, all));
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

/* Waits for a step and takes its results. */
static yoke_status
land(yoke_trainer *t, yki_flight *flight)
{
    double begin = yki_span_begin(t->crew.host_track);
    yoke_status status;

    if (!flight->busy)
        return YOKE_OK;
    t->crew.at = t->crew.home;
    status = yki_event_wait(&flight->read);
    yki_event_release(&flight->read);
    if (status == YOKE_OK)
        note_results(t, flight);
    /* The first error is told. After it yki_trainer_failed waits for all. */
    for (size_t k = 0; k < t->crew.count; k++) {
        if (status == YOKE_OK) {
            t->crew.at = k;
            status = yki_event_wait(&flight->device_reads[k]);
        }
        yki_event_release(&flight->device_reads[k]);
    }
    flight->busy = false;
    YKI_TRY(status);
    YKI_TRY(yki_landings_check(&t->crew, flight->step));
    yki_loss_scale_land(t, flight);
    YKI_TRY(tell_times(t, flight));
    yki_span_end(t->crew.host_track, begin, "wait for step", flight->step);
    yki_timeline_count(t, flight);
    if (t->on_result.call)
        t->on_result.call(t->on_result.user, flight);
    return YOKE_OK;
}

/* Waits until at most `left` steps are under way. */
static yoke_status
settle(yoke_trainer *t, size_t left)
{
    for (int64_t s = t->step - YKI_FLIGHT + 1; s <= t->step - (int64_t)left; s++)
        if (s >= 1)
            YKI_TRY(land(t, &t->flights[s % YKI_FLIGHT]));
    return YOKE_OK;
}

/* With granules the host has the results already. */
static yoke_status
take_results(yoke_trainer *t, yki_flight *flight)
{
    memcpy(flight->pairs, t->crew.exact.totals, 2 * t->crew.pairs * sizeof *flight->pairs);
    for (size_t k = 0; k < t->crew.count && flight->devices; k++)
        for (size_t i = 0; i < 2; i++)
            flight->devices[2 * k + i] = (float)t->crew.members[k].adder.loss[i];
    return yki_queue_marker(t->crew.members[t->crew.home].replica->queue, YKI_NO_WAIT,
                            &flight->read);
}

/* Reads the pairs of loss and metrics after this step. */
static yoke_status
read_results(yoke_trainer *t, yki_flight *flight)
{
    yki_member *m = &t->crew.members[t->crew.home];

    if (t->options.granule)
        return take_results(t, flight);
    for (size_t k = 0; k < t->crew.count && flight->devices; k++) {
        const yki_member *one = &t->crew.members[k];

        if (!one->results)
            continue;
        t->crew.at = k;
        YKI_TRY(yki_queue_read(one->replica->queue, one->results, 0, 8, flight->devices + 2 * k,
                               YKI_NO_WAIT, &flight->device_reads[k]));
    }
    t->crew.at = t->crew.home;
    YKI_TRY(yki_loss_scale_read(t, flight));
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

/* Moves the borders between devices to the nearest ones of granules. */
static void
keep_granules_whole(const yoke_trainer *t, int64_t n, int64_t *counts)
{
    const int64_t granule = t->options.granule;
    const size_t devices = t->core_groups.taken ? t->core_groups.taken : t->team->total;
    int64_t end = 0, before = 0;

    for (size_t k = 0; granule && k < devices; k++) {
        int64_t border;

        end += counts[k];
        border = end == n ? n : YKI_MIN((end + granule / 2) / granule * granule, n);
        counts[k] = border - before;
        before = border;
    }
    yki_trainer_spread(t, n, devices, counts);
}

/* Core groups get equal numbers of samples; the shares know them as the one device of the team. */
void
yki_trainer_divide(const yoke_trainer *t, int64_t n, int64_t *counts)
{
    int64_t core_groups = t->core_groups.taken;

    if (core_groups == 0)
        yki_shares_divide(t->shares, n, counts);
    for (int64_t k = 0; k < core_groups; k++)
        counts[k] = n / core_groups + (k < n % core_groups);
    keep_granules_whole(t, n, counts);
}

/* Enqueues samples for one member, or for one plan of it. */
static yoke_status
load_plan(yoke_trainer *t, size_t k, yki_plan *plan, yki_load_function load, void *user)
{
    yki_crew *crew = &t->crew;
    yki_member *m = &crew->members[k];
    double begin = yki_span_begin(crew->host_track);

    if (m->n == 0 || !load)
        return YOKE_OK;
    YKI_TRY(load(user, t, k, plan, m->first, m->n));
    yki_span_end(crew->host_track, begin, "load samples of device", (int64_t)k);
    return YOKE_OK;
}

static yoke_status
load_member(yoke_trainer *t, size_t k, yki_load_function load, void *user)
{
    return load_plan(t, k, t->crew.members[k].replica->training, load, user);
}

/* Whether sums of granules travel while the last granules are computed. A step that is judged to be
 * bad has then sent them in vain. Not where granules are compared, which needs the sums of one
 * device, nor where all devices read weights in shards together. */
static bool
sends_early(const yoke_trainer *t)
{
    const yki_crew *crew = &t->crew;

    return (crew->comm || crew->count > 1) && !crew->buckets.apart && !crew->sharding.weights &&
           !crew->rechecks;
}

/* Enqueues the granules of a micro-batch all together. */
static yoke_status
run_passes(yoke_trainer *t, uint32_t index, int64_t first, yki_load_function load, void *user)
{
    const int64_t granule = t->options.granule;
    yki_crew *crew = &t->crew;

    crew->exact.micro_batch = index;
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];
        int64_t left = t->counts[crew->team->first + k];

        crew->at = k;
        YKI_TRY(yki_passes_take(crew, m, (size_t)((left + granule - 1) / granule)));
        for (size_t i = 0; left > 0; i++, first += granule, left -= granule) {
            m->passes[i].first = m->first = first;
            m->passes[i].n = m->n = YKI_MIN(granule, left);
            YKI_TRY(load_plan(t, k, m->passes[i].plan, load, user));
        }
        first += YKI_MIN(left, 0);
    }
    yki_passes_divide(crew, t->counts);
    YKI_TRY(
        yki_passes_run(crew, rate_factor(t), sends_early(t) && index + 1 == t->options.accumulate));
    return index + 1 < t->options.accumulate ? yki_granules_keep(crew, index) : YOKE_OK;
}

static yoke_status
run_granule(yoke_trainer *t, const yki_step *step, size_t k, bool last)
{
    YKI_TRY(load_member(t, k, step->load, step->user));
    return yki_crew_granule(&t->crew, &t->crew.members[k], rate_factor(t), last);
}

static yoke_status
run_again(yoke_trainer *t, const yki_step *step, size_t k, int64_t micro_batch, int64_t index)
{
    yki_member *m = &t->crew.members[k];

    if (!t->crew.exact.together)
        return run_granule(t, step, k, false);
    YKI_TRY(load_plan(t, k, m->passes[0].plan, step->load, step->user));
    return yki_passes_again(&t->crew, m, (uint32_t)micro_batch, (size_t)index, rate_factor(t));
}

/* Enqueues the granules of a micro-batch, in turns one of each device. The samples of this process
 * begin with `first`. `ends`: it is the last of the step. */
static yoke_status
run_granules(yoke_trainer *t, const yki_step *step, int64_t first, bool ends)
{
    yki_crew *crew = &t->crew;
    const int64_t *counts = t->counts + crew->team->first;
    const bool together = crew->sharding.weights; /* all devices of all processes gather weights */
    int64_t most = 0;

    for (size_t k = 0; k < crew->team->total; k++)
        most = YKI_MAX(most, t->counts[k]);
    for (int64_t done = 0; done < most; done += t->options.granule) {
        int64_t begin = first;

        for (size_t k = 0; k < crew->count; begin += counts[k++]) {
            yki_member *m = &crew->members[k];

            crew->at = k;
            m->first = begin + done;
            m->n = YKI_MAX(YKI_MIN(t->options.granule, counts[k] - done), 0);
            if (together)
                YKI_TRY(load_member(t, k, step->load, step->user));
            else if (m->n > 0)
                YKI_TRY(run_granule(
                    t, step, k, ends && sends_early(t) && done + t->options.granule >= counts[k]));
        }
        if (together)
            YKI_TRY(yki_crew_granules(crew, rate_factor(t)));
    }
    return YOKE_OK;
}

/* Waits for the granules of a step. Devices that got none take part with none. */
static yoke_status
end_granules(yoke_trainer *t, bool *good)
{
    yki_crew *crew = &t->crew;

    const bool early = sends_early(t);

    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        crew->members[k].n = 0;
        if (crew->members[k].adder.count == 0 && !crew->members[k].adder.ended)
            YKI_TRY(yki_crew_granule(crew, &crew->members[k], rate_factor(t), false));
        YKI_TRY(yki_member_end_granules(crew, &crew->members[k]));
    }
    if (early)
        YKI_TRY(yki_crew_reduce(crew, SIZE_MAX));
    YKI_TRY(yki_granules_judge(crew, good));
    if (*good || !early)
        return YOKE_OK;
    /* Sums on a device may still read what the step that is made again writes. */
    YKI_TRY(yki_crew_receive(crew));
    return yki_crew_finish(crew);
}

/* Enqueues one micro-batch of n samples, those of this process from `first` on. All devices divide
 * it; or, with places, each of them gets all of it. */
static yoke_status
run_micro_batch(yoke_trainer *t, const yki_step *step, uint32_t index, int64_t first, int64_t n)
{
    yki_crew *crew = &t->crew;

    if (t->crew.exact.together)
        return run_passes(t, index, first, step->load, step->user);
    if (t->options.granule)
        return run_granules(t, step, first, index + 1 == t->options.accumulate);
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        m->first = first;
        m->n = crew->stages ? n : t->counts[crew->team->first + k];
        YKI_TRY(load_member(t, k, step->load, step->user));
        first += crew->stages ? 0 : m->n;
    }
    return yki_crew_micro_batch(crew, index, t->options.accumulate, rate_factor(t));
}

/* Decides the counts of the first micro-batch of a step, of n samples. */
static yoke_status
choose_counts(yoke_trainer *t, yki_flight *flight, int64_t n, bool loads)
{
    const size_t bytes = t->crew.team->total * sizeof *t->counts;

    YKI_TRY(yki_shares_next(t->shares, n, t->counts));
    keep_granules_whole(t, n, t->counts);
    if (t->core_groups.taken)
        yki_trainer_divide(t, n, t->counts);
    if (!loads && memcmp(t->counts, t->flights[t->step % YKI_FLIGHT].counts, bytes) != 0)
        return yki_fail(YOKE_ERROR_STATE, "the shares have changed since the step before, so its "
                                          "data cannot be used again; give the data anew");
    memcpy(flight->counts, t->counts, bytes);
    return YOKE_OK;
}

static int64_t
begin_micro_batch(yoke_trainer *t, const yki_step *step, int64_t index)
{
    const int64_t count = t->options.accumulate;
    int64_t first = 0;

    for (int64_t p = 0; p < index; p++)
        first += yki_micro_batch_size(step->n, count, p);
    if (index == 0)
        memcpy(t->counts, step->flight->counts, t->crew.team->total * sizeof *t->counts);
    else
        yki_trainer_divide(t, yki_micro_batch_size(step->n, count, index), t->counts);
    for (size_t k = 0; k < t->crew.team->first && !t->crew.stages; k++)
        first += t->counts[k];
    return first;
}

/* A step whose micro-batches are enqueued by a pipeline. */
typedef struct piped {
    yoke_trainer *trainer;
    const yki_step *step;
} piped;

static yoke_status
load_piped(void *user, size_t k, yki_plan *plan, uint32_t index)
{
    const piped *p = user;
    yoke_trainer *t = p->trainer;
    const int64_t count = t->options.accumulate;
    yki_member *m = &t->crew.members[k];

    m->first = 0;
    for (int64_t i = 0; i < (int64_t)index; i++)
        m->first += yki_micro_batch_size(p->step->n, count, i);
    m->n = yki_micro_batch_size(p->step->n, count, index);
    return load_plan(t, k, plan, p->step->load, p->step->user);
}

static int64_t
samples_piped(void *user, uint32_t index)
{
    const piped *p = user;

    return yki_micro_batch_size(p->step->n, p->trainer->options.accumulate, index);
}

/* Enqueues all micro-batches of a step. */
static yoke_status
run_micro_batches(yoke_trainer *t, const yki_step *step)
{
    const int64_t count = t->options.accumulate;
    piped all = {t, step};
    const yki_pipeline_source source = {load_piped, samples_piped, &all};

    if (yki_pipeline_exists(&t->crew))
        return yki_pipeline_run(&t->crew, &source, rate_factor(t));
    for (int64_t p = 0; p < count; p++)
        YKI_TRY(run_micro_batch(t, step, (uint32_t)p, begin_micro_batch(t, step, p),
                                yki_micro_batch_size(step->n, count, p)));
    return YOKE_OK;
}

static yoke_status
run_step(yoke_trainer *t, yki_flight *flight, int64_t n, yki_load_function load, void *user)
{
    const int64_t first = yki_micro_batch_size(n, t->options.accumulate, 0);
    const yki_step step = {flight, n, load, user, begin_micro_batch, run_again};
    bool good = true, wrong = true;
    yoke_status status;
    int misfits = 0;

    if (yki_trainer_keeps_state(t)) {
        YKI_TRY(yoke_trainer_wait(t));
        YKI_TRY(yki_trainer_keep_state(t));
    }
    t->crew.flight = (size_t)(flight - t->flights);
    do {
        if (wrong)
            YKI_TRY(choose_counts(t, flight, first, load != NULL));
        yki_crew_drop_times(&t->crew, t->crew.flight);
        yki_trainer_begin_recheck(t);
        YKI_TRY(run_micro_batches(t, &step));
        YKI_TRY(yki_trainer_recheck(t, &step));
        if (t->options.granule)
            YKI_TRY(end_granules(t, &good));
        status = yki_trainer_leave_out(t, &wrong);
        if (yki_trainer_doubts(t)) {
            YKI_TRY(yoke_trainer_wait(t));
            YKI_TRY(yki_trainer_go_back(t));
            return status;
        }
        YKI_TRY(status);
        if (!good && !wrong && misfits++ > 0)
            return yki_fail(YOKE_ERROR_STATE,
                            "the same step gave other gradients the second time, so its bits are "
                            "those of no other device; train without any-split");
    } while (!good);
    yki_trainer_let_in(t);
    YKI_TRY(yki_crew_update(&t->crew));
    status = read_results(t, flight);
    if (status == YOKE_OK)
        status = yki_queue_flush(t->crew.members[t->crew.home].replica->queue);
    t->crew.updating = status != YOKE_OK; /* the update is there: the step counts */
    return status;
}

yoke_status
yki_trainer_run(yoke_trainer *t, int64_t n, yki_load_function load, void *user)
{
    yki_flight *flight = &t->flights[(t->step + 1) % YKI_FLIGHT];
    double begin = yki_span_begin(t->crew.host_track);
    yoke_status status;

    if (t->crew.comm && t->crew.comm->heartbeat)
        t->crew.comm->heartbeat(t->crew.comm, t->step + 1, "a step");
    status = land(t, flight);
    if (status == YOKE_OK && t->loss_scale.scales)
        status = settle(t, 0);
    yki_loss_scale_give(t);
    flight->begun = yki_now();
    flight->samples = n;
    flight->step = t->step + 1;
    if (status == YOKE_OK)
        status = run_step(t, flight, n, load, user);
    if (status != YOKE_OK)
        return yki_trainer_failed(t, status);
    if (t->recheck.went_back)
        return YOKE_OK;
    flight->busy = true;
    t->step++;
    yki_span_end(t->crew.host_track, begin, "step", t->step);
    t->states_differ = t->local_statistics;
    return YOKE_OK;
}

yoke_status
yoke_trainer_wait(yoke_trainer *t)
{
    yoke_status status;

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_wait"));
    status = settle(t, 0);
    if (status == YOKE_OK)
        status = yki_crew_finish(&t->crew);
    if (status != YOKE_OK)
        return yki_trainer_failed(t, status);
    t->completed = t->step;
    return YOKE_OK;
}

void
yki_trainer_result(const yoke_trainer *t, const double *pairs, yoke_result *result)
{
    result->loss = pairs[1] > 0 ? pairs[0] / pairs[1] : pairs[0] == pairs[0] ? 0 : pairs[0];
    result->count = pairs[1];
    result->metric_count = t->crew.pairs - 1;
    for (size_t i = 1; i < t->crew.pairs; i++)
        result->metrics[i - 1] = pairs[2 * i + 1] > 0 ? pairs[2 * i] / pairs[2 * i + 1] : 0;
}
