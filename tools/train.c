/* SPDX-License-Identifier: Apache-2.0
 *
 * train.c - `yoke train`: trains a model on data, on every device, in one process or
 * under mpirun.
 *
 * The library does all of the work. This file has the command line, the order in which
 * objects are made, and the messages when training ends or is stopped.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hint.h"
#include "job.h"
#include "json.h"
#include "models.h"
#include "options.h"
#include "recipe.h"
#include "source.h"
#include "watch.h"

enum { WHY = 160, MAX_ACCUMULATE = 65536, MAX_EVERY = 1 << 30 };

enum {
    OPTION_MODEL,
    OPTION_DATA,
    OPTION_EPOCHS,
    OPTION_BATCH,
    OPTION_OPTIMIZER,
    OPTION_LR,
    OPTION_SCHEDULE,
    OPTION_DEVICES,
    OPTION_SHARES,
    OPTION_SEED,
    OPTION_ACCUMULATE,
    OPTION_BN,
    OPTION_FREEZE,
    OPTION_INIT,
    OPTION_AUGMENT,
    OPTION_NORMALIZE,
    OPTION_NO_NORMALIZE,
    OPTION_CHANNELS_LAST,
    OPTION_VALIDATION,
    OPTION_CHECKPOINT,
    OPTION_EVERY,
    OPTION_KEEP,
    OPTION_RESUME,
    OPTION_OUT,
    OPTION_LOG,
    OPTION_LOG_DIR,
    OPTION_JSON
};

static const yki_tool_option options[] = {
    {"model", 'm', "MODEL", "tiny, mlp, simplecnn, lenet, resnet18, 34 or 50, or JSON"},
    TOOL_ROW_DATA,
    {"epochs", 'e', "N", "times through the data (default: the recipe's)"},
    TOOL_ROW_BATCH("the recipe's"),
    {"optimizer", 0, "NAME", "sgd, adam, adamw or rmsprop, as in sgd,momentum=0.9"},
    {"lr", 0, "RATE", "learning rate (default: the recipe's, or the optimizer's)"},
    {"schedule", 0, "NAME", "constant, step, cosine, linear or one-cycle"},
    TOOL_ROW_DEVICES,
    TOOL_ROW_SHARES,
    TOOL_ROW_SEED,
    {"accumulate", 0, "N", "parts that a step is computed in (default: 1)"},
    {"bn", 0, "KIND", "statistics of batch norm: sync (default) or local"},
    {"freeze", 0, NULL, "keep shares and plans: the same bits every time"},
    {"init", 0, "FILE", "start from the weights of a safetensors file"},
    {"augment", 0, "LIST", "flip, shift=N, crop, noise=X, with commas; or none"},
    {"normalize", 0, NULL, "bring each channel or column to mean 0, deviation 1"},
    {"no-normalize", 0, NULL, "leave numbers as they are; bytes are divided by 255"},
    TOOL_ROW_CHANNELS_LAST,
    {"validation", 0, "X", "part of the data kept for tests, such as 0.1"},
    {"checkpoint", 'c', "DIR", "write checkpoints there"},
    {"every", 0, "N", "steps from one to the next (default: an epoch's)"},
    {"keep", 0, "N", "checkpoints to keep (default: 3)"},
    {"resume", 'r', NULL, "go on from the newest checkpoint, if there is one"},
    {"out", 'o', "FILE", "write the model there, as safetensors"},
    {"log", 'l', "FILE", "write a line of JSON for each step"},
    TOOL_ROW_LOG_DIR,
    TOOL_ROW_JSON,
    {0},
};

typedef struct request {
    const char *model, *data, *selector, *shares, *init, *out, *checkpoint, *log, *log_dir;
    const yki_tool_model *built_in; /* NULL: the model is a file */
    yki_tool_settings settings;     /* those that are given; a recipe chooses the others */
    unsigned accumulate, every, keep;
    uint32_t seed;
    double validation;
    bool channels_last, local, freeze, resume, json;
} request;

/* The objects of a training. */
typedef struct session {
    const yki_tool_command *self;
    const request *wanted;
    yki_tool_settings settings;    /* all of them */
    const yki_tool_recipe *recipe; /* it chose the settings that the command line does not give */
    char chosen[256];              /* the chosen ones as options; "": none */
    yki_tool_job job;
    yki_tool_source source;
    yoke_graph *graph;
    bool integers; /* the graph has integer inputs only */
    yoke_context *context;
    yoke_team *team;
    yoke_trainer *trainer;
    yki_tool_watch watch;
    int signal; /* the one that stopped training */
    bool stopped;
} session;

/* ---- the command line ---- */

static int
bad(const yki_tool_command *self, const char *name, const char *takes)
{
    return yki_tool_usage(self, "--%s takes %s, not '%s'", name, takes, optarg);
}

/* Options whose argument is a number. */
static int
take_number(const yki_tool_command *self, int option, request *w)
{
    switch (option) {
    case OPTION_EPOCHS:
        return yki_tool_parse_count(optarg, TOOL_MAX_EPOCHS, &w->settings.epochs)
                   ? TOOL_OK
                   : bad(self, "epochs", "a number from 1 to 16777216");
    case OPTION_BATCH:
        return yki_tool_parse_count(optarg, TOOL_MAX_BATCH, &w->settings.batch)
                   ? TOOL_OK
                   : bad(self, "batch", "a number from 1 to 1048576");
    case OPTION_ACCUMULATE:
        return yki_tool_parse_count(optarg, MAX_ACCUMULATE, &w->accumulate)
                   ? TOOL_OK
                   : bad(self, "accumulate", "a number from 1 to 65536");
    case OPTION_EVERY:
        return yki_tool_parse_count(optarg, MAX_EVERY, &w->every)
                   ? TOOL_OK
                   : bad(self, "every", "a number from 1 to 1073741824");
    case OPTION_KEEP:
        return yki_tool_parse_count(optarg, 1000, &w->keep)
                   ? TOOL_OK
                   : bad(self, "keep", "a number from 1 to 1000");
    case OPTION_SEED:
        return yki_tool_parse_seed(optarg, &w->seed) ? TOOL_OK
                                                     : bad(self, "seed", "a number up to 2^32 - 1");
    case OPTION_LR:
        return yki_tool_parse_real(optarg, 1e-30, &w->settings.rate)
                   ? TOOL_OK
                   : bad(self, "lr", "a number above 0");
    case OPTION_VALIDATION:
        return yki_tool_parse_real(optarg, 1e-9, &w->validation) && w->validation < 1
                   ? TOOL_OK
                   : bad(self, "validation", "a number between 0 and 1");
    }
    return TOOL_OK;
}

/* Options whose argument is a list of settings. */
static int
take_list(const yki_tool_command *self, int option, request *w)
{
    static const char *const kinds[] = {"sync", "local"};
    yoke_optimizer optimizer;
    yki_tool_schedule schedule;
    yoke_augmentation augmentation;
    yki_near near;
    char why[WHY];

    switch (option) {
    case OPTION_OPTIMIZER:
        w->settings.optimizer = optarg;
        if (!yki_tool_parse_optimizer(optarg, 0, &optimizer, why))
            return yki_tool_usage(self, "--optimizer=%s: %s", optarg, why);
        break;
    case OPTION_SCHEDULE:
        w->settings.schedule = optarg;
        if (!yki_tool_parse_schedule(optarg, &schedule, why))
            return yki_tool_usage(self, "--schedule=%s: %s", optarg, why);
        break;
    case OPTION_AUGMENT:
        w->settings.augment = optarg;
        if (!yki_tool_parse_augmentation(optarg, &augmentation, why))
            return yki_tool_usage(self, "--augment=%s: %s", optarg, why);
        break;
    case OPTION_BN:
        w->local = strcmp(optarg, "local") == 0;
        if (!w->local && strcmp(optarg, "sync") != 0)
            return yki_tool_usage(self, "--bn takes sync or local, not '%s'%s", optarg,
                                  yki_near_among(&near, optarg, kinds, 2));
        break;
    }
    return TOOL_OK;
}

static int
take_option(const yki_tool_command *self, int option, void *user)
{
    request *w = user;
    const char **texts[] = {[OPTION_MODEL] = &w->model,
                            [OPTION_DATA] = &w->data,
                            [OPTION_DEVICES] = &w->selector,
                            [OPTION_SHARES] = &w->shares,
                            [OPTION_INIT] = &w->init,
                            [OPTION_OUT] = &w->out,
                            [OPTION_CHECKPOINT] = &w->checkpoint,
                            [OPTION_LOG] = &w->log,
                            [OPTION_LOG_DIR] = &w->log_dir};
    bool *flags[] = {[OPTION_FREEZE] = &w->freeze,
                     [OPTION_NORMALIZE] = &w->settings.normalize,
                     [OPTION_NO_NORMALIZE] = &w->settings.no_normalize,
                     [OPTION_CHANNELS_LAST] = &w->channels_last,
                     [OPTION_RESUME] = &w->resume,
                     [OPTION_JSON] = &w->json};
    int status = take_number(self, option, w);

    if (status == TOOL_OK)
        status = take_list(self, option, w);
    if ((size_t)option < sizeof texts / sizeof texts[0] && texts[option])
        *texts[option] = optarg;
    if ((size_t)option < sizeof flags / sizeof flags[0] && flags[option])
        *flags[option] = true;
    return status;
}

static int
check_request(const yki_tool_command *self, request *w)
{
    yki_near near;

    if (!w->model)
        return yki_tool_usage(self, "which model? --model=lenet, say");
    if (!w->data)
        return yki_tool_usage(self, "which data? --data=DIR");
    w->built_in = yki_tool_find_model(w->model);
    if (!w->built_in && !strchr(w->model, '.') && !strchr(w->model, '/'))
        return yki_tool_usage(self,
                              "there is no model '%s', and it is no file of JSON by its name%s",
                              w->model, yki_tool_near_model(w->model, &near));
    if (w->settings.normalize && w->settings.no_normalize)
        return yki_tool_usage(self, "--normalize and --no-normalize contradict: give one of them");
    if ((w->resume || w->every || w->keep) && !w->checkpoint)
        return yki_tool_usage(self, "--resume, --every and --keep go with --checkpoint=DIR");
    return TOOL_OK;
}

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w)
{
    int status = yki_tool_read_options(self, argc, argv, take_option, w);

    if (status != TOOL_OK)
        return status;
    if (optind < argc)
        return yki_tool_usage(self, "what is '%s'? Everything is an option here", argv[optind]);
    return check_request(self, w);
}

/* ---- model and data ---- */

/* Whether all inputs of a graph as JSON are integers. The text was read without an error before. */
static bool
takes_integers(const char *text, size_t length)
{
    json_t *json = json_loadb(text, length, 0, NULL), *node;
    size_t i, integers = 0, others = 0;

    json_array_foreach(json_object_get(json, "nodes"), i, node)
    {
        const char *op = json_string_value(json_object_get(node, "op"));
        const char *type = json_string_value(json_object_get(node, "type"));
        const bool is_integer = type && strcmp(type, "i32") == 0;

        if (op && strcmp(op, "input") == 0) {
            integers += is_integer;
            others += !is_integer;
        }
    }
    json_decref(json);
    return integers > 0 && others == 0;
}

static yoke_status
read_graph(const char *path, yoke_graph **graph, bool *integers)
{
    yoke_status status;
    size_t length;
    char *text, sentence[1024];

    status = yki_tool_read_text(path, &text, &length);
    if (status)
        return status;
    status = yoke_graph_from_json(text, length, graph);
    if (!status)
        *integers = takes_integers(text, length);
    free(text);
    if (!status)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence, "%s: %s", path, yoke_last_error());
    return yoke_fail(status, sentence);
}

static yoke_status
open_data(session *s)
{
    const request *w = s->wanted;
    yki_tool_source *source = &s->source;
    const yki_tool_reading how = {.channels_last = w->channels_last,
                                  .integers = s->integers,
                                  .validation = w->validation,
                                  .seed = w->seed};
    yoke_status status = yki_tool_source_open(w->data, &how, source);

    if (!status && source->split)
        yki_tool_note(s->self, "%s has no test part: %lld of its samples are kept for it", w->data,
                      (long long)yoke_dataset_count(source->test));
    return status;
}

/* Whether inputs can be scaled: the data are not integers of 32 bits, and the graph of a file takes
 * floats. */
static bool
can_scale(const session *s)
{
    const yoke_node *input = s->graph ? yoke_graph_get_node(s->graph, s->source.data->name) : NULL;

    return s->source.data->type != YOKE_I32 && (!input || yoke_node_type(input) == YOKE_F32);
}

/* Chooses the settings that the command line does not give. */
static void
choose_settings(session *s)
{
    s->recipe = yki_tool_find_recipe(s->wanted->built_in, &s->source);
    s->settings = s->wanted->settings;
    yki_tool_take_recipe(s->recipe, &s->source, can_scale(s), &s->settings, s->chosen);
}

/* Sets how samples are scaled and augmented. */
static yoke_status
prepare_data(session *s)
{
    const yki_tool_model *model = s->wanted->built_in;
    yki_tool_source *source = &s->source;
    yoke_augmentation augmentation;
    yoke_status status = YOKE_OK;
    char why[WHY];

    /* Images without an axis of channels have one channel, and so one mean and one scale. */
    if (s->settings.normalize)
        status = yki_tool_source_normalize(source,
                                           model && model->image && source->data->shape.rank == 2);
    if (status || !s->settings.augment)
        return status;
    yki_tool_parse_augmentation(s->settings.augment, &augmentation, why); /* checked before */
    return yoke_dataset_set_augmentation(source->train, &augmentation);
}

/* The graph of a file tells how to read the data, so it is opened first. A built-in model is made
 * to fit the data. */
static yoke_status
open_both(session *s)
{
    const request *w = s->wanted;
    yoke_status status = w->built_in ? YOKE_OK : read_graph(w->model, &s->graph, &s->integers);

    if (!status)
        status = open_data(s);
    if (status)
        return status;
    choose_settings(s);
    if (w->built_in)
        status = yki_tool_source_fit(&s->source, w->built_in, s->settings.normalize, &s->graph);
    return status ? status : prepare_data(s);
}

/* ---- the trainer ---- */

static void
plan_steps(session *s)
{
    const yki_tool_settings *set = &s->settings;
    yki_tool_watch *watch = &s->watch;
    yki_tool_schedule schedule;
    char why[WHY];

    watch->batch = set->batch;
    watch->samples = yoke_dataset_count(s->source.train);
    watch->epochs = set->epochs;
    yki_tool_parse_schedule(set->schedule, &schedule, why); /* checked before */
    watch->schedule = yki_tool_make_schedule(
        &schedule, (watch->samples + watch->batch - 1) / watch->batch, watch->epochs);
}

static yoke_status
make_trainer(session *s)
{
    const request *w = s->wanted;
    yki_tool_watch *watch = &s->watch;
    yoke_trainer_options o;
    char why[WHY];
    yoke_status status = yoke_team_create(s->context, w->selector, s->job.comm, &s->team);

    plan_steps(s);
    memset(&o, 0, sizeof o);
    yki_tool_parse_optimizer(s->settings.optimizer, s->settings.rate, &o.optimizer, why);
    o.batch = watch->batch;
    o.seed = w->seed;
    o.accumulate = w->accumulate;
    o.shares = w->shares;
    o.freeze = w->freeze;
    o.local_batch_norm = w->local;
    o.schedule = &watch->schedule;
    if (!status)
        status = yoke_trainer_create(s->team, s->graph, &o, &s->trainer);
    if (!status && w->init)
        status = yoke_trainer_load_weights(s->trainer, w->init, NULL);
    return status;
}

static yoke_status
open_log(session *s)
{
    yki_tool_watch *watch = &s->watch;
    char sentence[512];

    watch->log_path = s->wanted->log;
    if (!watch->log_path || s->job.rank > 0)
        return YOKE_OK;
    watch->log_appends = s->wanted->resume;
    watch->log = fopen(watch->log_path, watch->log_appends ? "a" : "w");
    if (watch->log)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence, "%s: the log cannot be written: %s", watch->log_path,
             strerror(errno));
    return yoke_fail(YOKE_ERROR_IO, sentence);
}

static yoke_status
fit(session *s)
{
    const request *w = s->wanted;
    yki_tool_watch *watch = &s->watch;
    yoke_fit_options o;
    yoke_status status;

    if (s->chosen[0])
        yki_tool_note(s->self, "the recipe \"%s\" chooses %s", s->recipe->model, s->chosen);
    watch->team = s->team;
    watch->trainer = s->trainer;
    watch->speaks = s->job.rank == 0;
    watch->json = w->json;
    yki_tool_watch_start(watch);
    memset(&o, 0, sizeof o);
    o.epochs = s->settings.epochs;
    o.on_step = yki_tool_watch_step;
    o.on_epoch = yki_tool_watch_epoch;
    o.user = watch;
    o.checkpoint_dir = w->checkpoint;
    o.checkpoint_every = w->every;
    o.checkpoint_keep = w->keep;
    o.resume = w->resume;
    o.keep_learning_rate = w->settings.rate > 0;
    o.same_seed = true; /* with another seed, trained samples would be in the test part */
    yki_tool_signals_start(s->trainer);
    if (!s->wanted->log_dir) /* notes are for the preparation; epochs have lines of their own */
        yki_tool_log(s->self, YOKE_LOG_WARNING);
    status = yoke_trainer_fit(s->trainer, s->source.train, s->source.test, &o);
    s->signal = yki_tool_signals_end();
    s->stopped = status == YOKE_ERROR_STOPPED;
    return s->stopped ? YOKE_OK : yki_tool_source_blame(w->data, status);
}

/* ---- the end ---- */

/* The mean over all epochs but the first, which includes warm-up; over the first if it is alone. */
static double
mean_rate(const yoke_epoch *epochs, size_t count)
{
    double samples = 0, seconds = 0;

    for (size_t i = count > 1; i < count; i++) {
        samples += (double)epochs[i].train.samples;
        seconds += epochs[i].train.seconds;
    }
    return seconds > 0 ? samples / seconds : 0;
}

/* A metric of the last test; NaN: the model has none of that name. */
static double
metric_of(const session *s, const yoke_epoch *last, const char *name)
{
    for (size_t i = 0; last && i < last->test.metric_count; i++)
        if (s->watch.metrics[i] && strcmp(s->watch.metrics[i], name) == 0)
            return last->test.metrics[i];
    return (double)NAN;
}

static void
print_result(const session *s)
{
    const yoke_epoch *epochs, *last;
    size_t count = yoke_trainer_get_history(s->trainer, &epochs);
    double accuracy, r2, loss, rate = mean_rate(epochs, count);
    long long done;
    char text[TOOL_LOSS];
    yki_tool_json j;

    last = count ? &epochs[count - 1] : NULL;
    accuracy = metric_of(s, last, "accuracy");
    r2 = metric_of(s, last, "r2");
    loss = last ? last->test.loss : (double)NAN;
    if (!s->wanted->json) {
        if (!isnan(accuracy))
            printf("test accuracy %.2f %%, ", 100 * accuracy);
        if (!isnan(r2))
            printf("test R2 %.4g, ", r2);
        if (last)
            printf("test loss %s, %.0f samples/s, ", yki_tool_loss_text(loss, text), rate);
        done = last ? (long long)last->epoch + 1 : 0;
        printf("%lld epoch%s\n", done, done == 1 ? "" : "s");
        return;
    }
    yki_tool_json_start_line(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_real(&j, "test_accuracy", accuracy);
    yki_tool_json_real(&j, "test_r2", r2);
    yki_tool_json_real(&j, "test_loss", loss);
    yki_tool_json_real(&j, "samples_per_second", rate);
    yki_tool_json_integer(&j, "epochs", last ? (uint64_t)last->epoch + 1 : 0);
    yki_tool_json_integer(&j, "steps", (uint64_t)yoke_trainer_get_step(s->trainer));
    yki_tool_json_bool(&j, "stopped", s->stopped);
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

/* Tells if a resumed training already had all its epochs. */
static void
say_if_nothing_was_left(const session *s)
{
    const yoke_epoch *epochs;
    size_t count = yoke_trainer_get_history(s->trainer, &epochs);

    if (s->wanted->resume && s->watch.steps == 0 && count)
        yki_tool_note(s->self,
                      "%s: the training has %lld epochs already, --epochs=%u asks for no more: "
                      "nothing was left to do",
                      s->wanted->checkpoint, (long long)epochs[count - 1].epoch + 1,
                      s->settings.epochs);
}

/* Gives at most one hint, if this run learned nothing. There is none with --json, because a program
 * sees the loss itself. */
static void
give_hint(const session *s)
{
    const yoke_epoch *epochs;
    size_t count = yoke_trainer_get_history(s->trainer, &epochs);
    yki_tool_course course = {.step = s->watch.first_loss,
                              .early = s->watch.early_sum / s->watch.early,
                              .epochs = count,
                              .rate = (double)yoke_trainer_get_learning_rate(s->trainer),
                              .normalized = s->settings.normalize,
                              .raw_targets = s->source.classes == 0 && !s->wanted->built_in};
    char text[TOOL_HINT];

    if (count == 0 || s->wanted->json || s->wanted->resume || s->wanted->init)
        return;
    course.last = epochs[count - 1].train.loss;
    if (yki_tool_hint(&course, text))
        yki_tool_note(s->self, "hint: %s", text);
}

/* Shows the command that the user typed, with --resume added. */
static void
say_how_to_resume(const session *s, int argc, char **argv)
{
    char line[2048] = "";
    size_t used = 0;

    if (!s->wanted->checkpoint) {
        yki_tool_note(s->self,
                      "stopped after step %lld; with --checkpoint=DIR it could go on later",
                      (long long)yoke_trainer_get_step(s->trainer));
        return;
    }
    for (int i = 1; i < argc && used < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used,
                                 strpbrk(argv[i], " \t'\"$&;|<>()*?\\") ? " '%s'" : " %s", argv[i]);
    yki_tool_note(s->self, "stopped after step %lld; to go on: %s%s%s",
                  (long long)yoke_trainer_get_step(s->trainer), s->self->name, line,
                  s->wanted->resume ? "" : " --resume");
}

/* Checks now that the model can be written at the end, because training may take days. */
static yoke_status
check_out(const session *s)
{
    const char *path = s->wanted->out, *slash = path ? strrchr(path, '/') : NULL;
    char folder[PATH_MAX], sentence[PATH_MAX + 128];
    struct stat about;

    if (!path || s->job.rank > 0)
        return YOKE_OK;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        snprintf(sentence, sizeof sentence, "%s is a folder: --out takes the name of a file", path);
    else if (access(folder, W_OK | X_OK) != 0 ||
             (access(path, F_OK) == 0 && access(path, W_OK) != 0))
        snprintf(sentence, sizeof sentence, "%s: the model cannot be written: %s", path,
                 strerror(errno));
    else
        return YOKE_OK;
    return yoke_fail(YOKE_ERROR_IO, sentence);
}

static yoke_status
train(session *s)
{
    yoke_status status = check_out(s);

    if (!status)
        status = open_both(s);
    if (!status)
        status = open_log(s);
    if (!status)
        status = yoke_context_create(NULL, &s->context);
    if (!status)
        status = make_trainer(s);
    if (!status)
        status = fit(s);
    if (!status && s->wanted->out)
        status = yoke_trainer_save(s->trainer, s->wanted->out);
    /* Last, so that a log that cannot be written does not prevent the model from being saved. */
    return yki_tool_watch_end(&s->watch, status);
}

static void
clear(session *s)
{
    if (s->watch.log)
        fclose(s->watch.log);
    yoke_trainer_destroy(s->trainer);
    yoke_team_destroy(s->team);
    yoke_context_destroy(s->context);
    yoke_graph_destroy(s->graph);
    yki_tool_source_close(&s->source);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {0};
    static session s; /* static, as it is large: it has the names of devices */
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    s.self = self;
    s.wanted = &wanted;
    yki_tool_log(self, yki_tool_notes(wanted.log_dir));
    status = yki_tool_job_start(self, wanted.log_dir, &s.job);
    if (status == TOOL_OK) {
        failed = train(&s);
        if (!failed && s.job.rank == 0) {
            print_result(&s);
            give_hint(&s);
        }
        if (failed)
            status = yki_tool_fail(self, failed);
        else if (s.stopped)
            say_how_to_resume(&s, argc, argv);
        else
            say_if_nothing_was_left(&s);
        if (status == TOOL_OK && s.stopped)
            status = TOOL_STOPPED;
    }
    clear(&s);
    return yki_tool_job_end(&s.job, status);
}

const yki_tool_command yki_tool_train = {
    .name = "yoke train",
    .synopsis = "--model=MODEL --data=DIR [OPTION]...",
    .summary = "train a model on data",
    .description =
        "Train a model on the samples of a folder or file, on all devices together; under\n"
        "mpirun on those of all processes. Built-in models fit themselves to the data. Each\n"
        "epoch ends with a test. Ctrl-C stops at the end of a step, a second one at once.",
    .options = options,
    .run = run,
    .example = "yoke train --model=lenet --data=examples/data --epochs=20 --out=digits.safetensors",
};
