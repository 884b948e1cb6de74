/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - what a user sees of a running training.
 *
 * The library calls this file after each step and each epoch. Each call writes a line
 * of the log; the terminal is drawn at most ten times a second.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "log.h"
#include "options.h"
#include "watch.h"

/* ---- what is known from the start ---- */

static yki_tool_watch *on_terminal;

static void
clear_terminal(void)
{
    if (on_terminal)
        yki_tool_progress_clear(&on_terminal->progress);
}

static void
name_devices(yki_tool_watch *w)
{
    w->devices = yoke_team_count(w->team);
    if (w->devices > TOOL_MAX_DEVICES)
        w->devices = 0;
    for (size_t k = 0; k < w->devices; k++)
        w->name_list[k] = yoke_team_get_device_name(w->team, k);
}

/* Begins the epoch after the last one in the history, of this run or of the checkpoint. */
static void
begin_epoch(yki_tool_watch *w)
{
    const yoke_epoch *last =
        yoke_trainer_get_epoch(w->trainer, yoke_trainer_epoch_count(w->trainer) - 1);

    w->epoch = last ? last->epoch + 1 : 0;
    w->epoch_step = last ? last->step : 0;
    w->epoch_begun = yki_tool_now();
    w->done = 0;
    w->loss_sum = w->metric_sum = w->count = 0;
}

/* Begins the log. Training goes on after step `steps`, and after an epoch that ended at step
 * `epochs`. If the log is appended to, its lines about later steps and epochs are removed: these
 * were lost with the process that wrote them, and are trained again. */
static void
log_start(yki_tool_watch *w, int64_t steps, int64_t epochs)
{
    yki_tool_json j;

    if (!w->log.file || w->log.begun)
        return;
    w->log.begun = true;
    if (w->log.appends && !w->log.error)
        w->log.error = yki_tool_log_cut(w->log.file, w->log.path, steps, epochs);
    yki_tool_json_start_line(&j, w->log.file);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_string(&j, "kind", "start");
    yki_tool_json_integer(&j, "batch", (uint64_t)w->batch);
    yki_tool_json_integer(&j, "samples", (uint64_t)w->samples);
    yki_tool_json_open_array(&j, "devices");
    for (size_t k = 0; k < w->devices; k++)
        yki_tool_json_string(&j, NULL, w->name_list[k]);
    yki_tool_json_close_array(&j);
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

yoke_status
yki_tool_watch_open(yki_tool_watch *w, const char *log, bool appends, const char *tensorboard,
                    bool speaks)
{
    char sentence[512];

    w->log.path = log;
    w->log.appends = appends;
    if (log && speaks) {
        w->log.file = fopen(log, appends ? "a" : "w");
        if (!w->log.file) {
            snprintf(sentence, sizeof sentence, "%s: the log cannot be written: %s", log,
                     strerror(errno));
            return yoke_fail(YOKE_ERROR_IO, sentence);
        }
    }
    return yki_tool_board_open(&w->board, tensorboard, speaks);
}

void
yki_tool_watch_start(yki_tool_watch *w)
{
    const yoke_graph *graph = yoke_trainer_get_graph(w->trainer);

    for (size_t i = 0; i < YOKE_MAX_METRICS; i++)
        w->metrics[i] = yoke_graph_get_metric_name(graph, i);
    name_devices(w);
    yki_tool_progress_start(&w->progress, stderr);
    w->begun = yki_tool_now();
    w->early.first = (double)NAN;
    begin_epoch(w);
    on_terminal = w;
    yki_tool_on_message(clear_terminal);
    if (w->log.file)
        setvbuf(w->log.file, NULL, _IOLBF,
                BUFSIZ); /* so that lines are whole if the process is ended */
    if (!w->log.appends)
        log_start(w, 0, 0);
}

/* ---- the log ---- */

static void
add_metrics(yki_tool_json *j, const yki_tool_watch *w, const char *key, const yoke_result *result)
{
    yki_tool_json_open_object(j, key);
    for (size_t i = 0; i < result->metric_count && i < YOKE_MAX_METRICS; i++)
        yki_tool_json_real(j, w->metrics[i], result->metrics[i]);
    yki_tool_json_close_object(j);
}

static void
add_shares(yki_tool_json *j, const yki_tool_watch *w)
{
    yki_tool_json_open_array(j, "shares");
    for (size_t k = 0; k < w->devices; k++)
        yki_tool_json_integer(j, NULL, (uint64_t)w->shares[k]);
    yki_tool_json_close_array(j);
}

static double
rate_of(const yki_tool_watch *w, int64_t step)
{
    return (double)(yoke_trainer_get_learning_rate(w->trainer) *
                    yoke_schedule_factor(&w->schedule, step - 1));
}

static void
log_step(const yki_tool_watch *w, const yoke_result *result)
{
    yoke_memory_usage usage;
    yki_tool_json j;

    yki_tool_json_start_line(&j, w->log.file);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_string(&j, "kind", "step");
    yki_tool_json_integer(&j, "step", (uint64_t)result->step);
    yki_tool_json_integer(&j, "epoch", (uint64_t)w->epoch + 1);
    yki_tool_json_real(&j, "loss", result->loss);
    add_metrics(&j, w, "metrics", result);
    yki_tool_json_real(&j, "rate", rate_of(w, result->step));
    add_shares(&j, w);
    yki_tool_json_open_array(&j, "memory");
    for (size_t k = 0; k < yoke_team_local_count(w->team); k++)
        if (!yoke_device_get_memory(yoke_team_get_device(w->team, k), &usage))
            yki_tool_json_integer(&j, NULL, usage.used);
    yki_tool_json_close_array(&j);
    yki_tool_json_integer(&j, "samples", (uint64_t)result->samples);
    yki_tool_json_real(&j, "seconds", yki_tool_now() - w->begun);
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

/* Keeps the first error, which tells the reason. */
static void
check_log(yki_tool_watch *w)
{
    if ((fflush(w->log.file) != 0 || ferror(w->log.file)) && !w->log.error)
        w->log.error = errno;
}

/* Writes the object of an epoch, for the log and for --json. */
static void
write_epoch(const yki_tool_watch *w, FILE *stream, const yoke_epoch *e)
{
    yki_tool_json j;

    yki_tool_json_start_line(&j, stream);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_string(&j, "kind", "epoch");
    yki_tool_json_integer(&j, "step", (uint64_t)e->step);
    yki_tool_json_integer(&j, "epoch", (uint64_t)e->epoch + 1);
    yki_tool_json_real(&j, "loss", e->train->loss);
    add_metrics(&j, w, "metrics", e->train);
    yki_tool_json_real(&j, "test_loss", e->test->samples ? e->test->loss : (double)NAN);
    add_metrics(&j, w, "test_metrics", e->test);
    yki_tool_json_real(&j, "samples_per_second", e->samples_per_second);
    if (w->context)
        yki_tool_json_real(&j, "tokens_per_second", e->samples_per_second * (double)w->context);
    add_shares(&j, w);
    yki_tool_json_open_array(&j, "device_losses");
    for (size_t k = 0; k < e->devices; k++)
        yki_tool_json_real(&j, NULL, e->device_losses[k]);
    yki_tool_json_close_array(&j);
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

/* ---- the terminal ---- */

/* Of a text, the perplexity and tokens a second are shown. */
static void
show_as_text(const yki_tool_watch *w, yki_tool_view *view)
{
    if (w->context == 0)
        return;
    view->metric_name = "perplexity";
    view->metric = exp(view->loss);
    view->test_metric = exp(view->test_loss);
    view->tokens = w->context;
}

/* The time left is that of the rest of all epochs, at the speed of this epoch so far. */
static void
show_step(yki_tool_watch *w, int64_t in_epoch)
{
    double seconds = yki_tool_now() - w->epoch_begun;
    yki_tool_view view = {.epoch = w->epoch,
                          .epochs = w->epochs,
                          .done = in_epoch,
                          .samples = w->samples,
                          .loss = w->count > 0 ? w->loss_sum / w->count : (double)NAN,
                          .metric = w->count > 0 ? w->metric_sum / w->count : (double)NAN,
                          .metric_name = w->metrics[0],
                          .test_loss = (double)NAN,
                          .test_metric = (double)NAN,
                          .left = -1,
                          .devices = w->devices > 1 ? w->devices : 0,
                          .shares = w->shares,
                          .names = w->name_list};

    if (w->done > 0 && seconds > 0.5) {
        view.rate = (double)w->done / seconds;
        view.left =
            ((double)(w->epochs - w->epoch) * (double)w->samples - (double)in_epoch) / view.rate;
    }
    show_as_text(w, &view);
    yki_tool_progress_update(&w->progress, &view);
}

static void
show_epoch(yki_tool_watch *w, const yoke_epoch *e)
{
    bool tested = e->test->samples > 0;
    yki_tool_view view = {.epoch = e->epoch,
                          .epochs = w->epochs,
                          .done = w->samples,
                          .samples = w->samples,
                          .loss = e->train->loss,
                          .metric = e->train->metric_count ? e->train->metrics[0] : (double)NAN,
                          .metric_name = w->metrics[0],
                          .test_loss = tested ? e->test->loss : (double)NAN,
                          .test_metric =
                              tested && e->test->metric_count ? e->test->metrics[0] : (double)NAN,
                          .rate = e->samples_per_second,
                          .left = -1,
                          .devices = w->devices > 1 ? w->devices : 0,
                          .shares = w->shares,
                          .names = w->name_list};

    show_as_text(w, &view);
    yki_tool_progress_epoch(&w->progress, &view);
}

/* ---- called by the library ---- */

static void
note_early(yki_tool_watch *w, double loss)
{
    if (isnan(w->early.first))
        w->early.first = loss;
    if (w->early.count == TOOL_EARLY || !isfinite(loss))
        return;
    w->early.sum += loss;
    w->early.count++;
}

bool
yki_tool_watch_step(void *user, const yoke_result *result)
{
    yki_tool_watch *w = (yki_tool_watch *)user;
    int64_t in_epoch;

    /* By now the history has the epochs of the checkpoint, or of the step that training has gone
     * back to. */
    if (w->steps++ == 0 || result->step <= w->last_step)
        begin_epoch(w);
    w->last_step = result->step;
    if (w->devices && yoke_trainer_get_shares(w->trainer, w->shares, w->devices))
        w->devices = 0;
    log_start(w, result->step - 1, result->step - 1);
    w->done += result->samples;
    note_early(w, result->loss);
    if (isfinite(result->loss)) {
        w->loss_sum += result->loss * result->count;
        w->metric_sum += (result->metric_count ? result->metrics[0] : 0) * result->count;
        w->count += result->count;
    }
    if (w->speaks && w->log.file) {
        log_step(w, result);
        check_log(w);
    }
    if (w->board.board)
        yki_tool_board_add_step(&w->board, &(yki_tool_board_step){.result = result,
                                                                  .metrics = w->metrics,
                                                                  .rate = rate_of(w, result->step),
                                                                  .shares = w->shares,
                                                                  .names = w->name_list,
                                                                  .devices = w->devices});
    in_epoch = (result->step - 1 - w->epoch_step) * w->batch + result->samples;
    if (w->speaks && !w->quiet)
        show_step(w, in_epoch < w->samples ? in_epoch : w->samples);
    return false;
}

bool
yki_tool_watch_epoch(void *user, const yoke_epoch *e)
{
    yki_tool_watch *w = (yki_tool_watch *)user;

    begin_epoch(w);
    yki_tool_board_add_epoch(&w->board, w->trainer, e, w->metrics);
    if (!w->speaks)
        return false;
    for (size_t k = 0; k < w->devices && k < e->devices; k++)
        w->shares[k] = (int64_t)e->shares[k];
    if (!w->quiet)
        show_epoch(w, e);
    if (w->log.file) {
        log_start(w, e->step, e->step - 1);
        write_epoch(w, w->log.file, e);
        check_log(w);
    }
    if (w->json) {
        write_epoch(w, stdout, e);
        fflush(stdout);
    }
    return false;
}

yoke_status
yki_tool_watch_end(yki_tool_watch *w, yoke_status status)
{
    char sentence[512];

    yki_tool_on_message(NULL);
    on_terminal = NULL;
    yki_tool_progress_clear(&w->progress);
    status = yki_tool_board_close(&w->board, status);
    if (!w->log.file)
        return status;
    check_log(w);
    if (fclose(w->log.file) != 0 && !w->log.error)
        w->log.error = errno;
    w->log.file = NULL;
    if (status || !w->log.error)
        return status;
    snprintf(sentence, sizeof sentence, "%s: the log cannot be written: %s", w->log.path,
             strerror(w->log.error));
    return yoke_fail(YOKE_ERROR_IO, sentence);
}

/* ---- signals ---- */

static _Atomic(yoke_trainer *) signalled;
static volatile sig_atomic_t came;
static struct sigaction before[3];
static const int numbers[3] = {SIGINT, SIGTERM, SIGUSR2};

static void
on_signal(int number)
{
    static const char text[] = "\nyoke: stopping after this step; once more ends it at once\n";
    yoke_trainer *trainer = atomic_load(&signalled);
    int saved = errno;

    if (number == SIGUSR2) {
        if (trainer)
            yoke_trainer_request_save(trainer);
    } else {
        came = number;
        if (trainer) {
            yoke_trainer_request_save(trainer);
            yoke_trainer_request_stop(trainer);
        }
        if (number == SIGINT && write(STDERR_FILENO, text, sizeof text - 1) < 0)
            came = number; /* the message cannot be written: go on without it */
    }
    errno = saved;
}

void
yki_tool_signals_start(yoke_trainer *trainer)
{
    came = 0;
    atomic_store(&signalled, trainer);
    for (size_t i = 0; i < 3; i++) {
        struct sigaction action;

        memset(&action, 0, sizeof action);
        action.sa_handler = on_signal;
        sigemptyset(&action.sa_mask);
        /* A second signal finds the default action, which ends the process. */
        action.sa_flags = numbers[i] == SIGUSR2 ? SA_RESTART : SA_RESTART | (int)SA_RESETHAND;
        sigaction(numbers[i], &action, &before[i]);
    }
}

int
yki_tool_signals_end(void)
{
    for (size_t i = 0; i < 3; i++)
        sigaction(numbers[i], &before[i], NULL);
    atomic_store(&signalled, NULL);
    return came;
}
