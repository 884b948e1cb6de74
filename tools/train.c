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
#include "option_file.h"
#include "recipe.h"
#include "source.h"
#include "watch.h"

enum { MAX_EPOCHS = 1 << 24, MAX_EVERY = 1 << 30, MAX_KEPT = 1000 };
/* Of the samples, the fractions that may be kept for tests. */
#define LEAST_PART 1e-6
#define MOST_PART  0.999

typedef struct request {
    yki_tool_settings settings;     /* those that are given; a recipe chooses the others */
    const yki_tool_model *built_in; /* NULL: the model is a file */
    yki_tool_model sized;           /* a language model of the sizes that are given or read */
    const char *folder;             /* of Hugging Face, that has them; NULL: none */
    const char *init, *init_adapters, *out, *checkpoint, *log, *log_dir, *tensorboard, *tokenizer,
        *config;
    yki_tool_sizes sizes; /* as they are given */
    unsigned every, keep, early_stop, plateau;
    double validation, plateau_factor;
    bool keep_best, resume, quiet, json;
} request;

static bool
check_augmentation(const char *text, char why[TOOL_WHY])
{
    yoke_augmentation augmentation;

    return yki_tool_parse_augmentation(text, &augmentation, why);
}

static const yki_tool_option options[] = {
    {"config", 0, "FILE", "options as JSON; those of the command line come first",
     TOOL_TEXT(request, config)},
    {"epochs", 'e', "N", "times through the data (default: the recipe's)",
     TOOL_COUNT(request, settings.epochs, 1, MAX_EPOCHS)},
    {"init", 0, "FILE", "start from the weights of a safetensors file", TOOL_TEXT(request, init)},
    {"init-adapters", 0, "DIR", "train the adapters of this folder on",
     TOOL_TEXT(request, init_adapters)},
    {"tokenizer", 0, "NAME", "of a text: bytes, characters, or a file (default: the text's)",
     TOOL_TEXT(request, tokenizer)},
    {"augment", 0, "LIST", "flip, shift=N, part=X, crop, noise=X, with commas; or none",
     TOOL_LIST(request, settings.augment, check_augmentation)},
    {"normalize", 0, NULL, "bring each channel or column to mean 0, deviation 1",
     TOOL_FLAG(request, settings.normalize)},
    {"no-normalize", 0, NULL, "leave numbers as they are; bytes are divided by 255",
     TOOL_FLAG(request, settings.no_normalize)},
    {"validation", 0, "X", "part of the data kept for tests, such as 0.1",
     TOOL_REAL(request, validation, LEAST_PART, MOST_PART)},
    {"checkpoint", 'c', "DIR", "write checkpoints there", TOOL_TEXT(request, checkpoint)},
    {"every", 0, "N", "steps from one to the next (default: an epoch's)",
     TOOL_COUNT(request, every, 1, MAX_EVERY)},
    {"keep", 0, "N", "checkpoints to keep (default: 3)", TOOL_COUNT(request, keep, 1, MAX_KEPT)},
    {"keep-best", 0, NULL, "keep the checkpoint of the best epoch too",
     TOOL_FLAG(request, keep_best)},
    {"early-stop", 0, "N", "end after N epochs without a lower test loss (default: never)",
     TOOL_COUNT(request, early_stop, 1, MAX_EPOCHS)},
    {"plateau", 0, "N", "lower the learning rate after N such epochs (default: never)",
     TOOL_COUNT(request, plateau, 1, MAX_EPOCHS)},
    {"plateau-factor", 0, "X", "what it is multiplied by then (default: 0.1)",
     TOOL_REAL(request, plateau_factor, LEAST_PART, MOST_PART)},
    {"resume", 'r', NULL, "go on from the newest checkpoint, if there is one",
     TOOL_FLAG(request, resume)},
    {"out", 'o', "FILE", "write the model there, as safetensors", TOOL_TEXT(request, out)},
    {"log", 'l', "FILE", "write a line of JSON for each step", TOOL_TEXT(request, log)},
    {"tensorboard", 0, "DIR", "write a file for TensorBoard into this folder",
     TOOL_TEXT(request, tensorboard)},
    {"log-dir", 0, "DIR", "under mpirun: a file for what each process has to say",
     TOOL_TEXT(request, log_dir)},
    {"quiet", 'q', NULL, "show no progress and no notes", TOOL_FLAG(request, quiet)},
    TOOL_ROW_JSON(request),
    {0},
};

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
    bool integers;          /* the graph has integer inputs only */
    yki_tool_fields fields; /* of a graph of several inputs */
    yoke_context *context;
    yoke_team *team;
    yoke_trainer *trainer;
    yki_tool_watch watch;
    int signal; /* the one that stopped training */
    bool stopped;
    json_t *config; /* what texts of the options point to */
    bool told;      /* the options of this run are written */
} session;

/* ---- the command line ---- */

static int
check_request(const yki_tool_command *self, request *w)
{
    const yki_tool_training *t = &w->settings.training;
    yki_tool_sizes given = t->sizes;
    char why[TOOL_MODEL_WHY];
    int status;

    status = yki_tool_training_model(self, t, &w->built_in);
    if (status != TOOL_OK)
        return status;
    if (!t->data)
        return yki_tool_usage(self, "no data is given; must be --data=DIR, a folder or a file");
    if (!w->built_in && yki_tool_ends_with(t->model, ".onnx"))
        return yki_tool_usage(self,
                              "%s is a model of ONNX; must be converted first: yoke convert "
                              "--out=FILE.safetensors",
                              t->model);
    if (!w->built_in && !w->init && yki_tool_ends_with(t->model, ".safetensors"))
        w->init = t->model;
    if (!w->built_in && yki_tool_has_config(t->model)) {
        w->folder = t->model;
        given.context = 0; /* samples may be shorter than the model's */
        given.dropout = 0;
    }
    if (yki_tool_sizes_given(&given)) {
        if (!w->built_in)
            return yki_tool_usage(
                self, "%s has its own sizes: --layers and the like are not for it", t->model);
        if (!yki_tool_size_model(w->built_in, &t->sizes, 0, &w->sized, why))
            return yki_tool_usage(self, "%s", why);
        w->built_in = &w->sized;
    }
    if (t->lora && w->init_adapters)
        return yki_tool_usage(self, "--lora and --init-adapters are given; must be one of both");
    if (t->adapters && !t->lora && !w->init_adapters)
        return yki_tool_usage(self, "--adapters is given without any; must go with --lora=LIST or "
                                    "--init-adapters=DIR");
    if (w->settings.normalize && w->settings.no_normalize)
        return yki_tool_usage(self,
                              "--normalize and --no-normalize are given; must be one of both");
    if (w->plateau_factor > 0 && !w->plateau)
        return yki_tool_usage(self, "--plateau-factor is given alone; must go with --plateau=N");
    if ((w->resume || w->every || w->keep || w->keep_best) && !w->checkpoint)
        return yki_tool_usage(self, "--%s is given without a folder; must go with --checkpoint=DIR",
                              w->resume  ? "resume"
                              : w->every ? "every"
                              : w->keep  ? "keep"
                                         : "keep-best");
    return TOOL_OK;
}

/* Options of the command line are read twice: before those of a file, which they name, and after
 * them, to take their place. Of two that exclude each other, that of the file goes. */
static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w, json_t **config)
{
    int status = yki_tool_read(self, argc, argv, w);
    const bool normalize = w->settings.normalize, no_normalize = w->settings.no_normalize;
    const char *path = w->config;

    if (status == TOOL_OK && path) {
        status = yki_tool_read_options(self, path, w, config);
        if (status == TOOL_OK && w->config != path)
            return yki_tool_usage(self, "%s: \"config\" is for the command line alone", path);
        optind = 0; /* restarts getopt */
        if (status == TOOL_OK)
            status = yki_tool_read(self, argc, argv, w);
        if (normalize != no_normalize) {
            w->settings.normalize = normalize;
            w->settings.no_normalize = no_normalize;
        }
    }
    w->sizes = w->settings.training.sizes;
    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, NULL, NULL, NULL);
    return status == TOOL_OK ? check_request(self, w) : status;
}

/* ---- model and data ---- */

/* Takes sizes and weights of the folder of the model. */
static yoke_status
take_folder(const yki_tool_command *self, request *w)
{
    yki_tool_sizes *sizes = &w->settings.training.sizes;
    char why[TOOL_MODEL_WHY];
    yki_tool_model model;
    yoke_status status;

    if (!w->folder)
        return YOKE_OK;
    status = yki_tool_read_config(w->folder, &model);
    if (status)
        return status;
    if (!yki_tool_size_model(&model, &(yki_tool_sizes){.dropout = sizes->dropout}, sizes->context,
                             &w->sized, why))
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT, why);
    sizes->vocabulary = w->sized.sizes.vocabulary;
    w->built_in = &w->sized;
    if (!w->init && yki_tool_has_weights(w->folder))
        w->init = w->folder;
    else if (!w->init)
        yki_tool_note(self, "%s has no model.safetensors: the model starts anew", w->folder);
    return YOKE_OK;
}

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

    status = yki_tool_read_graph(path, &text, &length);
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

/* How images of a folder become samples: a graph of a file says it all, and a built-in model only
 * the size, as it fits itself to the channels. */
static yoke_shape
choose_image(const session *s)
{
    const yki_tool_model *model = s->wanted->built_in;
    const yoke_node *input = s->graph ? yoke_graph_get_node(s->graph, "image") : NULL;
    const char *given = s->wanted->settings.training.image_size;
    yoke_shape image = yoke_shape(0, 0, 0);
    int height, width;
    char why[TOOL_WHY];

    if (input && yoke_node_shape(input).rank == 3)
        image = yoke_node_shape(input);
    else if (model && model->image)
        image = yoke_shape(0, model->input.dim[1], model->input.dim[2]);
    if (given) {
        yki_tool_parse_image_size(given, &height, &width, why); /* checked before */
        image.dim[1] = height;
        image.dim[2] = width;
    }
    return image;
}

static yoke_status
open_data(session *s)
{
    const request *w = s->wanted;
    const yki_tool_training *t = &w->settings.training;
    yki_tool_source *source = &s->source;
    const yki_tool_reading how = {.channels_last = t->channels_last,
                                  .integers = s->integers,
                                  .image = choose_image(s),
                                  .skip_bad = t->bad_images == 1,
                                  .weights = t->sample_weights,
                                  .columns = t->columns,
                                  .fields = s->fields,
                                  .maps = w->built_in && w->built_in->kind == YOKE_ZOO_PIXELS,
                                  .no_target = w->built_in && w->built_in->kind == YOKE_ZOO_COPIES,
                                  .validation = w->validation,
                                  .seed = t->seed};
    yoke_status status = yki_tool_source_open(t->data, &how, source);

    if (!status && source->split)
        yki_tool_note(s->self, "%s has no test part: %lld of its samples are kept for it", t->data,
                      (long long)yoke_dataset_count(source->test));
    return status;
}

/* Whether some input can be scaled. */
static bool
can_scale(const session *s)
{
    const yki_tool_fields *fields = &s->source.fields;
    const yoke_node *input = s->graph ? yoke_graph_get_node(s->graph, s->source.data->name) : NULL;

    for (size_t i = 0; i < fields->inputs; i++)
        if (yki_tool_can_scale(&s->source, fields->names[i]))
            return true;
    return !fields->count && s->source.data->type != YOKE_I32 &&
           (!input || yoke_node_type(input) == YOKE_F32);
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
    char why[TOOL_WHY];

    /* Images without an axis of channels have one channel, and so one mean and one scale. */
    if (s->settings.normalize)
        status = yki_tool_source_normalize(source,
                                           model && model->image && source->data->shape.rank == 2);
    if (status || !s->settings.augment)
        return status;
    yki_tool_parse_augmentation(s->settings.augment, &augmentation, why); /* checked before */
    if (source->target && source->target->shape.rank > 1 &&
        (augmentation.flip || augmentation.shift || augmentation.crop))
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                         "--augment would move images, but not the maps that belong to them; must "
                         "be noise=X or none");
    status = yoke_dataset_set_augmentation(source->train, &augmentation);
    if (status || !augmentation.crop)
        return status;
    return yoke_dataset_set_augmentation(source->test, &(yoke_augmentation){.crop = true});
}

/* What the model takes of texts. The data decide the vocabulary of a built-in model, unless the
 * user does. */
static yoke_status
read_text(const session *s, yki_tool_text *text)
{
    const yki_tool_model *model = s->wanted->built_in;

    if (s->graph)
        return yki_tool_text_of(s->graph, text);
    text->context = model && model->language ? model->input.dim[0] : 0;
    text->vocabulary = s->wanted->settings.training.sizes.vocabulary;
    text->ignores = true;
    return YOKE_OK;
}

static yoke_status
open_text(session *s, const yki_tool_text *text)
{
    const request *w = s->wanted;
    const yki_tool_reading how = {.validation = w->validation};
    const char *const models[2] = {w->init, w->folder};

    return yki_tool_source_open_text(w->settings.training.data, &how, text, w->tokenizer, models,
                                     &s->source);
}

/* The graph of a file tells how to read the data, so it is opened first. A built-in model is made
 * to fit the data. */
static yoke_status
open_both(session *s)
{
    const request *w = s->wanted;
    yoke_status status =
        w->built_in ? YOKE_OK : read_graph(w->settings.training.model, &s->graph, &s->integers);
    yki_tool_text text = {0};

    if (!status)
        status = read_text(s, &text);
    if (!status && w->tokenizer && !text.context)
        status = yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                           "--tokenizer is given, but the model is not for text");
    if (!status && s->graph && !text.context)
        status = yki_tool_fields_of(s->graph, &s->fields);
    if (!status)
        status = text.context ? open_text(s, &text) : open_data(s);
    if (status)
        return status;
    choose_settings(s);
    if (w->built_in && w->settings.training.sizes.vocabulary)
        s->source.classes = w->settings.training.sizes.vocabulary;
    if (w->built_in)
        status = yki_tool_source_fit(&s->source, w->built_in, s->settings.normalize, &s->graph);
    else if (!text.context)
        status = yki_tool_source_complete(&s->source, s->graph);
    if (!status)
        status = yki_tool_weigh(&s->settings.training, &s->source, s->graph);
    if (!status)
        status = w->init_adapters ? yoke_graph_add_adapters(s->graph, w->init_adapters)
                                  : yki_tool_add_lora(&w->settings.training, s->graph);
    return status ? status : prepare_data(s);
}

/* ---- the trainer ---- */

static void
plan_steps(session *s)
{
    const yki_tool_settings *set = &s->settings;
    yki_tool_watch *watch = &s->watch;
    yki_tool_schedule schedule;
    char why[TOOL_WHY];

    watch->batch = set->training.batch;
    watch->samples = yoke_dataset_count(s->source.train);
    watch->epochs = set->epochs;
    yki_tool_parse_schedule(set->training.schedule, &schedule, why); /* checked before */
    watch->schedule = yki_tool_make_schedule(
        &schedule, (watch->samples + watch->batch - 1) / watch->batch, watch->epochs);
}

/* A base has no adapters; those of --lora start anew. */
static yoke_status
load_initial(session *s)
{
    const request *w = s->wanted;
    yoke_load_options o;
    yoke_status status = YOKE_OK;

    memset(&o, 0, sizeof o);
    if (w->settings.training.lora || w->init_adapters)
        o.except = "*.lora_[AB].weight";
    if (w->init)
        status = yoke_trainer_load_weights(s->trainer, w->init, &o);
    if (!status && w->init_adapters)
        status = yoke_trainer_load_adapters(s->trainer, w->init_adapters);
    return status;
}

static yoke_status
make_trainer(session *s)
{
    yki_tool_watch *watch = &s->watch;
    yoke_trainer_options o = yki_tool_trainer_options(&s->settings.training, (yoke_optimizer){0});
    yoke_status status = yoke_team_create(s->context, s->settings.training.devices,
                                          &(yoke_team_options){.comm = s->job.comm}, &s->team);

    plan_steps(s);
    o.schedule = &watch->schedule;
    if (!status)
        status = yoke_trainer_create(s->team, s->graph, &o, &s->trainer);
    if (!status && (o.shard == YOKE_SHARD_AUTO || o.stages == YOKE_STAGES_FIT ||
                    o.recompute == YOKE_RECOMPUTE_AUTO))
        status = yki_tool_note_choice(s->self, s->team, s->trainer);
    return status ? status : load_initial(s);
}

static yoke_status
open_log(session *s)
{
    const request *w = s->wanted;

    s->watch.board.samples = s->source.train;
    s->watch.board.data = s->source.data;
    return yki_tool_watch_open(&s->watch, w->log, w->resume, w->tensorboard, s->job.rank == 0);
}

/* Writes the options of this run, with those that the recipe chose, beside what it writes. A device
 * such as /dev/null has nothing beside it. */
static void
write_options(const session *s, const char *path, const char *ending)
{
    static const char *const except[] = {"config", "resume", NULL};
    request all = *s->wanted;
    char name[PATH_MAX];
    struct stat about;

    if (!path || (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)))
        return;
    all.settings = s->settings;
    all.settings.training.sizes = s->wanted->sizes;
    snprintf(name, sizeof name, "%s%s", path, ending);
    if (yki_tool_write_options(s->self, name, &all, except))
        yki_tool_warn(s->self, "%s", yoke_last_error());
}

/* Once training has begun, its folders are there, and are those of no other training. */
static bool
on_step(void *user, const yoke_result *result)
{
    session *s = user;

    if (s->job.rank == 0 && !s->told) {
        write_options(s, s->wanted->checkpoint, "/options.json");
        write_options(s, s->wanted->out, ".options.json");
    }
    s->told = true;
    return yki_tool_watch_step(&s->watch, result);
}

static bool
on_epoch(void *user, const yoke_epoch *epoch)
{
    session *s = user;

    return yki_tool_watch_epoch(&s->watch, epoch);
}

static yoke_status
fit(session *s)
{
    const request *w = s->wanted;
    const char *trace = w->settings.training.trace;
    yki_tool_watch *watch = &s->watch;
    yoke_fit_options o;
    yoke_status status;

    if (s->chosen[0])
        yki_tool_note(s->self, "the recipe \"%s\" chooses %s", s->recipe->model, s->chosen);
    watch->team = s->team;
    watch->trainer = s->trainer;
    watch->speaks = s->job.rank == 0;
    watch->context = s->source.context;
    watch->json = w->json;
    watch->quiet = w->quiet;
    yki_tool_watch_start(watch);
    memset(&o, 0, sizeof o);
    o.epochs = s->settings.epochs;
    o.on_step = on_step;
    o.on_epoch = on_epoch;
    o.user = s;
    o.checkpoint_dir = w->checkpoint;
    o.checkpoint_every = w->every;
    o.checkpoint_keep = w->keep;
    o.keep_best = w->keep_best;
    o.patience = w->early_stop;
    o.plateau = w->plateau;
    o.plateau_factor = (float)w->plateau_factor;
    o.resume = w->resume;
    o.keep_learning_rate = w->settings.training.rate > 0;
    o.same_seed = true; /* with another seed, trained samples would be in the test part */
    yki_tool_signals_start(s->trainer);
    if (!w->log_dir) /* notes are for the preparation; epochs have lines of their own */
        yki_tool_log(s->self, YOKE_LOG_WARNING);
    status = trace ? yoke_trainer_trace(s->trainer, trace) : YOKE_OK;
    if (!status)
        status = yoke_trainer_fit(s->trainer, s->source.train, s->source.test, &o);
    s->signal = yki_tool_signals_end();
    s->stopped = yoke_trainer_was_stopped(s->trainer);
    return yki_tool_source_blame(w->settings.training.data, status);
}

/* ---- the end ---- */

/* The mean over all epochs but the first, which includes warm-up; over the first if it is alone. */
static double
mean_rate(const yoke_trainer *trainer, size_t count)
{
    double samples = 0, seconds = 0;

    for (size_t i = count > 1; i < count; i++) {
        const yoke_result *train = yoke_trainer_get_epoch(trainer, i)->train;

        samples += (double)train->samples;
        seconds += train->seconds;
    }
    return seconds > 0 ? samples / seconds : 0;
}

/* A metric of the last test; NaN: the model has none of that name. */
static double
metric_of(const session *s, const yoke_epoch *last, const char *name)
{
    for (size_t i = 0; last && i < last->test->metric_count; i++)
        if (s->watch.metrics[i] && strcmp(s->watch.metrics[i], name) == 0)
            return last->test->metrics[i];
    return (double)NAN;
}

/* The last line of a training on text. */
static void
print_text_result(const session *s, const yoke_epoch *last, double rate)
{
    const double loss = last ? last->test->loss : (double)NAN;
    const double bits = yki_tool_bits_per_byte(s->source.test, loss);
    const long long done = last ? (long long)last->epoch + 1 : 0;
    char text[TOOL_LOSS];

    if (last) {
        printf("test perplexity %s, ", yki_tool_loss_text(exp(loss), text));
        if (!isnan(bits))
            printf("%.3f bits a byte, ", bits);
        printf("test loss %s, ", yki_tool_loss_text(loss, text));
        printf("%.0f tokens/s, ", rate * (double)s->source.context);
    }
    printf("%lld epoch%s\n", done, done == 1 ? "" : "s");
}

static void
print_result(const session *s, const char *hash)
{
    size_t count = yoke_trainer_epoch_count(s->trainer);
    const yoke_epoch *last = yoke_trainer_get_epoch(s->trainer, count - 1);
    const yoke_epoch *best = yoke_trainer_best_epoch(s->trainer);
    double accuracy, r2, loss, rate = mean_rate(s->trainer, count);
    long long done;
    char text[TOOL_LOSS];
    yki_tool_json j;

    accuracy = metric_of(s, last, "accuracy");
    r2 = metric_of(s, last, "r2");
    loss = last ? last->test->loss : (double)NAN;
    if (!s->wanted->json && s->source.context) {
        print_text_result(s, last, rate);
        if (hash)
            printf("weights %s\n", hash);
        return;
    }
    if (!s->wanted->json) {
        if (!isnan(accuracy))
            printf("test accuracy %.2f %%, ", 100 * accuracy);
        if (!isnan(r2))
            printf("test R2 %.4g, ", r2);
        if (last)
            printf("test loss %s, %.0f samples/s, ", yki_tool_loss_text(loss, text), rate);
        done = last ? (long long)last->epoch + 1 : 0;
        printf("%lld epoch%s\n", done, done == 1 ? "" : "s");
        if (hash)
            printf("weights %s\n", hash);
        return;
    }
    yki_tool_json_start_line(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_real(&j, "test_accuracy", accuracy);
    yki_tool_json_real(&j, "test_r2", r2);
    yki_tool_json_real(&j, "test_loss", loss);
    yki_tool_json_real(&j, "samples_per_second", rate);
    if (s->source.context) {
        yki_tool_json_real(&j, "test_perplexity", exp(loss));
        yki_tool_json_real(&j, "test_bits_per_byte", yki_tool_bits_per_byte(s->source.test, loss));
        yki_tool_json_real(&j, "tokens_per_second", rate * (double)s->source.context);
    }
    yki_tool_json_integer(&j, "epochs", last ? (uint64_t)last->epoch + 1 : 0);
    yki_tool_json_integer(&j, "steps", (uint64_t)yoke_trainer_get_step(s->trainer));
    yki_tool_json_integer(&j, "best_epoch", best ? (uint64_t)best->epoch + 1 : 0);
    yki_tool_json_real(&j, "best_test_loss", best ? best->test->loss : (double)NAN);
    yki_tool_json_bool(&j, "stopped", s->stopped);
    if (hash)
        yki_tool_json_string(&j, "weights", hash);
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

/* Tells which epoch was the best, if the user asks for it. */
static void
say_what_was_best(const session *s)
{
    const yoke_epoch *best = yoke_trainer_best_epoch(s->trainer);
    char text[TOOL_LOSS];

    if ((s->wanted->early_stop || s->wanted->keep_best) && best)
        yki_tool_note(s->self, "epoch %lld is the best, with a test loss of %s after step %lld",
                      (long long)best->epoch + 1, yki_tool_loss_text(best->test->loss, text),
                      (long long)best->step);
}

/* Tells if training ended before its last epoch, or if a resumed one had all its epochs already. */
static void
say_why_it_ended(const session *s)
{
    size_t count = yoke_trainer_epoch_count(s->trainer);
    const yoke_epoch *last = yoke_trainer_get_epoch(s->trainer, count - 1);

    if (!last)
        return;
    if (last->epoch + 1 < (int64_t)s->settings.epochs)
        yki_tool_note(s->self,
                      "the test loss was not lower for %u epoch%s: training ends after %lld of %u",
                      s->wanted->early_stop, s->wanted->early_stop == 1 ? "" : "s",
                      (long long)last->epoch + 1, s->settings.epochs);
    else if (s->wanted->resume && s->watch.steps == 0)
        yki_tool_note(s->self,
                      "%s: the training has %lld epoch%s already, --epochs=%u asks for no more: "
                      "nothing was left to do",
                      s->wanted->checkpoint, (long long)last->epoch + 1, last->epoch ? "s" : "",
                      s->settings.epochs);
}

/* Gives at most one hint, if this run learned nothing. There is none with --json, because a program
 * sees the loss itself. */
static void
give_hint(const session *s)
{
    size_t count = yoke_trainer_epoch_count(s->trainer);
    yki_tool_course course = {.step = s->watch.early.first,
                              .early = s->watch.early.sum / s->watch.early.count,
                              .epochs = count,
                              .rate = (double)yoke_trainer_get_learning_rate(s->trainer),
                              .normalized = s->settings.normalize,
                              .raw_targets = s->source.classes == 0 && !s->wanted->built_in};
    char text[TOOL_HINT];

    if (count == 0 || s->wanted->json || s->wanted->resume || s->wanted->init || s->source.context)
        return;
    course.last = yoke_trainer_get_epoch(s->trainer, count - 1)->train->loss;
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
        snprintf(sentence, sizeof sentence, "%s is a folder; must be a file for --out", path);
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
    if (!status && s->wanted->settings.training.adapters)
        status = yoke_trainer_save_adapters(s->trainer, s->wanted->settings.training.adapters);
    /* Last, so that what cannot be written of these does not prevent the model from being saved. */
    if (!status && s->wanted->settings.training.trace)
        status = yoke_trainer_trace(s->trainer, NULL);
    return yki_tool_watch_end(&s->watch, status);
}

static void
clear(session *s)
{
    if (s->watch.log.file)
        fclose(s->watch.log.file);
    yoke_trainer_destroy(s->trainer);
    yoke_team_destroy(s->team);
    yoke_context_destroy(s->context);
    yoke_graph_destroy(s->graph);
    yki_tool_source_close(&s->source);
    json_decref(s->config);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.settings.training = TOOL_TRAINING_AUTO};
    static session s; /* static, as it is large: it has the names of devices */
    int status = read_arguments(self, argc, argv, &wanted, &s.config);
    char hash[33] = "";
    yoke_status failed;

    if (status != TOOL_OK) {
        json_decref(s.config);
        return status == TOOL_EXIT ? TOOL_OK : status;
    }
    s.self = self;
    s.wanted = &wanted;
    if (wanted.quiet)
        yki_tool_hush();
    yki_tool_log(self, yki_tool_notes(wanted.log_dir));
    status = yki_tool_job_start(self, wanted.log_dir, &s.job);
    if (status == TOOL_OK) {
        failed = take_folder(self, &wanted);
        if (!failed)
            failed = train(&s);
        if (!failed && wanted.settings.training.reproducible == YOKE_REPRODUCIBLE_ANY_SPLIT)
            failed = yoke_trainer_hash(s.trainer, NULL, hash);
        if (!failed && s.job.rank == 0) {
            print_result(&s, hash[0] ? hash : NULL);
            say_what_was_best(&s);
            give_hint(&s);
        }
        if (failed)
            status = yki_tool_fail(self, failed);
        else if (s.stopped)
            say_how_to_resume(&s, argc, argv);
        else
            say_why_it_ended(&s);
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
    TOOL_TRAINING(TOOL_FOR_TRAIN, request, settings.training),
    .run = run,
    .example = "yoke train --model=lenet --data=examples/data --epochs=20 --out=digits.safetensors",
};
