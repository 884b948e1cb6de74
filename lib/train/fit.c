/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c - epochs over a dataset, with a history.
 *
 * The order of an epoch follows from seed and epoch alone. Each process feeds its devices their
 * samples of it. The last batch of an epoch has the samples that are left.
 */
#include <math.h>
#include <string.h>

#include "train/checkpoint.h"
#include "train/history.h"

typedef struct fitting {
    yoke_trainer *trainer;
    yoke_fit_options options;
    yoke_dataset *train; /* lent */
    yki_order order;
    int64_t position; /* in the epoch, of the next batch */
    int64_t *indices;
    double sums[2 * YKI_PAIRS]; /* of the epoch */
    double *device_sums;        /* (sum, count) of the loss, by device of the whole team */
    double begun;
    int64_t samples;
    double seconds; /* that the epoch took before training was resumed */
    int64_t saved;  /* step of the newest checkpoint; -1: none */
    bool stop;
    bool resumed; /* in the middle of an epoch: the sums so far are set */
    struct kept {
        int64_t position, samples;
        double seconds, sums[2 * YKI_PAIRS], *device_sums;
    } kept[2]; /* beside the states that the trainer may go back to */
} fitting;

/* ---- going back (verified.c) ---- */

static void
keep_progress(void *user, size_t which)
{
    const fitting *f = user;
    struct kept *kept = &((fitting *)user)->kept[which];

    kept->position = f->position;
    kept->samples = f->samples;
    kept->seconds = yki_now() - f->begun;
    memcpy(kept->sums, f->sums, sizeof f->sums);
    memcpy(kept->device_sums, f->device_sums, 2 * f->trainer->team->total * sizeof *f->device_sums);
}

static void
go_back(void *user, size_t which)
{
    fitting *f = user;
    const yoke_comm *comm = f->trainer->crew.comm;
    const struct kept *kept = &f->kept[which];

    f->position = kept->position;
    f->samples = kept->samples;
    f->seconds = kept->seconds;
    memcpy(f->sums, kept->sums, sizeof f->sums);
    memcpy(f->device_sums, kept->device_sums, 2 * f->trainer->team->total * sizeof *f->device_sums);
    f->resumed = true;
    f->saved = -1;
    /* Later ones may have wrong weights. One process writes for all. */
    if (f->options.checkpoint_dir && (!comm || comm->rank == 0))
        yki_checkpoint_remove_later(f->options.checkpoint_dir, f->trainer->step);
}

/* ---- steps ---- */

static yoke_status
load_epoch(void *user, yoke_trainer *t, size_t member, yki_plan *plan, int64_t first, int64_t n)
{
    fitting *f = user;

    const yki_samples samples = {
        .indices = f->indices, .n = n, .epoch = f->order.epoch, .position = f->position + first};

    for (int64_t i = 0; i < n; i++)
        f->indices[i] = yki_order_at(&f->order, samples.position + i);
    return yki_trainer_load(t, &t->train_loaders, member, plan, &samples);
}

static void
step_done(void *user, const yki_flight *flight)
{
    fitting *f = user;
    yoke_trainer *t = f->trainer;
    yoke_result result = {.samples = flight->samples, .step = flight->step};
    double pairs[2 * YKI_PAIRS];

    for (size_t i = 0; i < 2 * t->crew.pairs; i++) {
        pairs[i] = (double)flight->pairs[i];
        f->sums[i] += pairs[i];
    }
    for (size_t k = 0; k < t->team->count; k++) {
        const float *of = flight->devices ? flight->devices + 2 * k : flight->pairs;

        f->device_sums[2 * (t->team->first + k)] += (double)of[0];
        f->device_sums[2 * (t->team->first + k) + 1] += (double)of[1];
    }
    f->samples += flight->samples;
    yki_trainer_result(t, pairs, &result);
    result.seconds = yki_now() - flight->begun;
    if (f->options.on_step && f->options.on_step(f->options.user, &result))
        f->stop = true;
}

/* Whether any process was asked to stop or to save. All processes decide alike. */
static yoke_status
agree(fitting *f, bool *stop, bool *save)
{
    yoke_trainer *t = f->trainer;
    yoke_comm *comm = t->crew.comm;
    unsigned char own[2], *all;
    yoke_status status;

    own[0] = f->stop || atomic_load(&t->stop);
    own[1] = (unsigned char)(atomic_exchange(&t->save, 0) != 0);
    *stop = own[0];
    *save = own[1];
    if (!comm)
        return YOKE_OK;
    all = yki_alloc((size_t)comm->ranks, sizeof own, "requests");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_crew_gather(&t->crew, "all-gather requests", own, sizeof own, all);
    for (int32_t r = 0; r < comm->ranks && status == YOKE_OK; r++) {
        *stop |= all[2 * r] != 0;
        *save |= all[2 * r + 1] != 0;
    }
    yki_free(all);
    return status;
}

/* ---- checkpoints ---- */

/* Each process has the sums of its own devices; `all` gets those of all processes. */
static yoke_status
gather_devices(const fitting *f, double *all)
{
    yoke_comm *comm = f->trainer->crew.comm;
    size_t count = 2 * f->trainer->team->total;
    double *each;
    yoke_status status;

    memcpy(all, f->device_sums, count * sizeof *all);
    if (!comm)
        return YOKE_OK;
    each = yki_alloc(count * (size_t)comm->ranks, sizeof *each, "losses of other processes");
    if (!each)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = comm->allgather(comm, f->device_sums, count * sizeof *each, each);
    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        all[i] = 0;
        for (int32_t r = 0; r < comm->ranks; r++)
            all[i] += each[(size_t)r * count + i];
    }
    yki_free(each);
    return status;
}

/* The checkpoint includes fit's own progress, so it waits for all steps first. */
static yoke_status
save_now(fitting *f)
{
    yoke_trainer *t = f->trainer;
    yki_progress progress = {.position = f->position,
                             .count = (int64_t)f->order.count,
                             .sequential = f->order.sequential,
                             .keep_best = f->options.keep_best};
    yoke_status status;

    if (!f->options.checkpoint_dir || f->saved == t->step)
        return YOKE_OK;
    YKI_TRY(yoke_trainer_wait(t));
    progress.samples = f->samples;
    progress.seconds = yki_now() - f->begun;
    memcpy(progress.sums, f->sums, sizeof f->sums);
    progress.device_sums = yki_alloc(2 * t->team->total, sizeof *progress.device_sums, "losses");
    if (!progress.device_sums)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = gather_devices(f, progress.device_sums);
    if (status == YOKE_OK)
        status = yki_checkpoint_save(t, &progress, f->options.checkpoint_dir,
                                     f->options.checkpoint_keep);
    yki_free(progress.device_sums);
    if (status == YOKE_OK)
        f->saved = t->step;
    return status;
}

/* A checkpoint that cannot be written (a full disk) does not end training: the older ones are still
 * there, and the next one is tried. Only the last one of fit is an error. */
static yoke_status
save_between(fitting *f)
{
    yoke_status status = save_now(f);

    if (status != YOKE_ERROR_IO || f->trainer->failure.status != YOKE_OK)
        return status;
    yki_log(YOKE_LOG_WARNING, "no checkpoint of step %lld: %s", (long long)f->trainer->step,
            yoke_last_error());
    return YOKE_OK;
}

static bool
is_due(const fitting *f)
{
    int64_t every = f->options.checkpoint_every;

    return every > 0 && f->trainer->step % every == 0;
}

/* Prepares the folder of checkpoints. With options.resume, goes on from the newest good checkpoint.
 */
static yoke_status
begin_checkpoints(fitting *f)
{
    yoke_trainer *t = f->trainer;
    yki_progress progress = {.count = (int64_t)f->order.count,
                             .sequential = f->order.sequential,
                             .keep_rate = f->options.keep_learning_rate,
                             .same_seed = f->options.same_seed,
                             .device_sums = f->device_sums};
    const char *dir = f->options.checkpoint_dir;
    bool found = false;

    f->saved = -1;
    if (!dir)
        return f->options.resume
                   ? yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_fit: checkpoint_dir is "
                                                           "NULL; must be a folder to resume from")
                   : YOKE_OK;
    if (f->options.resume)
        YKI_TRY(yki_checkpoint_resume(t, dir, &progress, &found));
    YKI_TRY(yki_checkpoint_begin(t, dir));
    if (!found)
        return YOKE_OK;
    f->saved = t->step;
    f->position = progress.position;
    f->resumed = f->position > 0;
    f->samples = progress.samples;
    f->seconds = progress.seconds;
    memcpy(f->sums, progress.sums, sizeof f->sums);
    f->order.seed = t->options.seed;
    yki_log(YOKE_LOG_INFO, "%s: training goes on after %lld steps and %u whole epochs", dir,
            (long long)t->step, t->epoch);
    return YOKE_OK;
}

static yoke_status
run_steps(fitting *f, bool *stop)
{
    yoke_trainer *t = f->trainer;
    int64_t count = (int64_t)f->order.count;

    *stop = false;
    while (f->position < count && !*stop) {
        int64_t n = YKI_MIN(t->options.batch, count - f->position);
        bool save;

        YKI_TRY(yki_trainer_prefetch(t, &t->train_loaders, f->position, t->options.batch,
                                     t->options.accumulate));
        YKI_TRY(yki_trainer_run(t, n, load_epoch, f));
        if (t->recheck.went_back)
            return YOKE_OK;
        f->position += n;
        YKI_TRY(agree(f, stop, &save));
        if (save || is_due(f))
            YKI_TRY(save_between(f));
    }
    return yoke_trainer_wait(t);
}

/* ---- the learning rate ---- */

static double
loss_of(const yoke_epoch *e)
{
    return e->test->samples ? e->test->loss : e->train->loss;
}

/* Whether the newest epoch is the last of so many without a lower loss than the best before them,
 * counted anew after each time that it was so. The history alone tells: it is the same in all
 * processes, and in a training that goes on from a checkpoint. */
static bool
on_plateau(const fitting *f)
{
    const yoke_trainer *t = f->trainer;
    double least = INFINITY;
    int64_t since = 0;
    bool now = false;

    for (size_t i = 0; f->options.plateau > 0 && i < t->history.count; i++) {
        const double loss = loss_of(&t->history.epochs[i]->told);

        since = loss < least ? 0 : since + 1;
        least = loss < least ? loss : least;
        now = since == f->options.plateau;
        since = now ? 0 : since;
    }
    return now;
}

static yoke_status
reduce_rate(fitting *f)
{
    const float factor = f->options.plateau_factor > 0 ? f->options.plateau_factor : 0.1f;
    float rate = yoke_trainer_get_learning_rate(f->trainer) * factor;

    if (!on_plateau(f))
        return YOKE_OK;
    yki_log(YOKE_LOG_INFO, "the loss was not lower for %lld epochs: the learning rate is now %g",
            (long long)f->options.plateau, (double)rate);
    return yoke_trainer_set_learning_rate(f->trainer, rate);
}

/* Trains the rest of the epoch. */
static yoke_status
run_epoch(fitting *f, bool *stop)
{
    yki_loaders *loaders = &f->trainer->train_loaders;
    yoke_status status;

    YKI_TRY(yki_trainer_begin_prefetch(f->trainer, loaders, &f->order, f->position));
    status = run_steps(f, stop);
    yki_trainer_end_prefetch(loaders);
    return status;
}

/* ---- epochs ---- */

static yoke_status
add_history(fitting *f, const yoke_result *test, const yoke_epoch **added)
{
    yoke_trainer *t = f->trainer;
    size_t devices = t->team->total;
    double *numbers = yki_alloc(4 * devices, sizeof *numbers, "a history");
    double *sums = numbers, *shares = numbers + 2 * devices, *losses = numbers + 3 * devices;
    yoke_result train = {0};
    yoke_epoch epoch = {.epoch = f->order.epoch, .step = t->step, .train = &train, .test = test};
    yoke_status status = numbers ? gather_devices(f, sums) : YOKE_ERROR_OUT_OF_MEMORY;

    yki_shares_divide(t->shares, t->options.batch, t->counts);
    for (size_t k = 0; k < devices && status == YOKE_OK; k++) {
        shares[k] = (double)t->counts[k];
        losses[k] = sums[2 * k + 1] > 0 ? sums[2 * k] / sums[2 * k + 1] : (double)NAN;
    }
    yki_trainer_result(t, f->sums, &train);
    train.samples = f->samples;
    train.step = t->step;
    train.seconds = yki_now() - f->begun;
    epoch.samples_per_second = train.seconds > 0 ? (double)f->samples / train.seconds : 0;
    epoch.devices = devices;
    epoch.shares = shares;
    epoch.device_losses = losses;
    if (status == YOKE_OK)
        status = yki_history_add(t, &epoch, added);
    yki_free(numbers);
    return status;
}

static yoke_status
one_epoch(fitting *f, yoke_dataset *test, bool *stop)
{
    yoke_trainer *t = f->trainer;
    yoke_result result = {0};
    const yoke_epoch *epoch;

    yki_dataset_begin_epoch(f->train, f->order.seed, t->epoch);
    /* A callback may have changed the augmentation. */
    YKI_TRY(yki_trainer_loaders(t, &t->train_loaders, f->train, true));
    if (!f->resumed) {
        memset(f->device_sums, 0, 2 * t->team->total * sizeof *f->device_sums);
        memset(f->sums, 0, sizeof f->sums);
        f->samples = 0;
        f->seconds = 0;
    }
    f->resumed = false;
    f->order.epoch = t->epoch;
    f->begun = yki_now() - f->seconds;
    YKI_TRY(run_epoch(f, stop));
    if (t->recheck.went_back)
        return YOKE_OK;
    if (*stop && f->position < (int64_t)f->order.count)
        return YOKE_OK;
    YKI_TRY(yki_trainer_compare_weights(t));
    if (test)
        YKI_TRY(yoke_trainer_evaluate(t, test, &result));
    f->position = 0;
    YKI_TRY(add_history(f, &result, &epoch));
    t->epoch++;
    if (f->options.on_epoch && f->options.on_epoch(f->options.user, epoch))
        f->stop = true;
    YKI_TRY(reduce_rate(f));
    if (f->options.keep_best && yoke_trainer_best_epoch(t) == epoch)
        f->saved = -1; /* one of this step, from before the test, does not know the best */
    else if (f->options.checkpoint_every)
        return YOKE_OK;
    return save_between(f);
}

/* Whether the loss has not fallen for as long as the caller waits. The history tells, so it is the
 * same in all processes, and in a training that goes on from a checkpoint. */
static bool
has_stalled(const fitting *f)
{
    const yoke_trainer *t = f->trainer;
    const size_t count = t->history.count;
    const yoke_epoch *best = yoke_trainer_best_epoch(t);
    int64_t since = (int64_t)count;

    if (best)
        since = t->history.epochs[count - 1]->told.epoch - best->epoch;
    return f->options.patience > 0 && since >= f->options.patience;
}

static yoke_status
run_fit(fitting *f, yoke_dataset *test)
{
    yoke_trainer *t = f->trainer;
    /* `end` is set before a checkpoint changes t->epoch, so epochs of a resumed training count. */
    int64_t end = t->epoch + (f->options.epochs ? f->options.epochs : 1);
    bool stop = false, save;

    f->indices = yki_alloc((size_t)t->options.batch, sizeof *f->indices, "sample numbers");
    f->device_sums = yki_alloc(2 * t->team->total, sizeof *f->device_sums, "losses");
    for (size_t i = 0; i < YKI_COUNT(f->kept); i++)
        f->kept[i].device_sums = yki_alloc(2 * t->team->total, sizeof *f->device_sums, "losses");
    if (!f->indices || !f->device_sums || !f->kept[0].device_sums || !f->kept[1].device_sums)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_trainer_compare_counts(t, "yoke_trainer_fit", "training", f->train->count));
    YKI_TRY(yki_trainer_compare_counts(t, "yoke_trainer_fit", "the test", test ? test->count : 0));
    YKI_TRY(begin_checkpoints(f));
    YKI_TRY(yki_trainer_loaders(t, &t->train_loaders, f->train, true));
    while (t->epoch < end && !stop && !has_stalled(f)) {
        YKI_TRY(one_epoch(f, test, &stop));
        if (t->recheck.went_back) {
            t->recheck.went_back = false;
            continue;
        }
        if (stop)
            break;
        YKI_TRY(agree(f, &stop, &save));
        if (save)
            YKI_TRY(save_between(f));
    }
    YKI_TRY(save_now(f));
    t->stopped = stop;
    if (stop)
        atomic_store(&t->stop, 0);
    return YOKE_OK;
}

yoke_status
yoke_trainer_fit_sized(yoke_trainer *t, yoke_dataset *train, yoke_dataset *test,
                       const yoke_fit_options *options, size_t size)
{
    fitting f = {.trainer = t};
    yoke_status status;

    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_fit"));
    YKI_GIVEN("yoke_trainer_fit", {"dataset", train});
    if (options)
        memcpy(&f.options, options, YKI_MIN(size, sizeof f.options));
    if (f.options.epochs < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_fit: epochs",
                              f.options.epochs, 0, INT64_MAX);
    if (f.options.patience < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_fit: patience",
                              f.options.patience, 0, INT64_MAX);
    if (f.options.plateau < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_fit: plateau",
                              f.options.plateau, 0, INT64_MAX);
    if (!(f.options.plateau_factor >= 0 && f.options.plateau_factor < 1))
        return yki_fail_range_below(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_fit: plateau_factor",
                                    (double)f.options.plateau_factor, 0, 1);
    if (f.options.keep_best && !f.options.checkpoint_dir)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_trainer_fit: checkpoint_dir is NULL; must be a folder to keep the "
                        "best checkpoint in");
    f.train = train;
    f.order = (yki_order){.count = (uint64_t)train->count,
                          .seed = t->options.seed,
                          .sequential = f.options.no_shuffle};
    t->stopped = false;
    t->on_result.call = step_done;
    t->on_result.user = &f;
    yki_trainer_forget_states(t); /* fit has kept nothing beside them */
    t->recheck.fit.keep = keep_progress;
    t->recheck.fit.go_back = go_back;
    t->recheck.fit.user = &f;
    status = run_fit(&f, test);
    yki_trainer_forget_states(t);
    memset(&t->recheck.fit, 0, sizeof t->recheck.fit);
    t->on_result.call = NULL;
    yki_free(f.indices);
    yki_free(f.device_sums);
    yki_free(f.kept[0].device_sums);
    yki_free(f.kept[1].device_sums);
    return status;
}

size_t
yoke_trainer_epoch_count(const yoke_trainer *t)
{
    return t ? t->history.count : 0;
}

const yoke_epoch *
yoke_trainer_get_epoch(const yoke_trainer *t, size_t index)
{
    return t && index < t->history.count ? &t->history.epochs[index]->told : NULL;
}

const yoke_epoch *
yoke_trainer_best_epoch(const yoke_trainer *t)
{
    const yoke_epoch *best = NULL;
    double least = INFINITY;

    for (size_t i = 0; t && i < t->history.count; i++) {
        const yoke_epoch *e = &t->history.epochs[i]->told;
        const double loss = loss_of(e);

        if (loss < least) {
            best = e;
            least = loss;
        }
    }
    return best;
}

bool
yoke_trainer_was_stopped(const yoke_trainer *t)
{
    return t && t->stopped;
}

void
yoke_trainer_request_stop(yoke_trainer *t)
{
    if (t)
        atomic_store(&t->stop, 1);
}

void
yoke_trainer_request_save(yoke_trainer *t)
{
    if (t)
        atomic_store(&t->save, 1);
}
