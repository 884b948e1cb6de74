/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - `yoke plan`: what devices would divide to train a model, and what a step would take
 * of each of them.
 *
 * The library decides, when it makes a trainer, and this trainer is made as `yoke train` would;
 * but no step is run. So the memory is there, and the time is that which the planner has measured
 * for the tasks of each device. Under mpirun all processes are one team, and rank 0 reports.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "json.h"
#include "source.h"
#include "table.h"
#include "training.h"

typedef struct request {
    yki_tool_training training;
    const yki_tool_model *built_in; /* NULL: the model is a file */
    yki_tool_model sized;
    bool json;
    unsigned size, seq;
    yki_tool_job job;
} request;

static const yki_tool_option options[] = {
    TOOL_ROW_JSON(request),
    {"size", 0, "N", "height and width of the images (default: the model's)",
     TOOL_COUNT(request, size, 1, 4096)},
    {"seq", 0, "N", "tokens of a sample of gpt (default: the model's)",
     TOOL_COUNT(request, seq, 1, 1 << 24)},
    {0},
};

/* ---- the choice ---- */

static const char *
shard_name(yoke_shard_choice shard)
{
    static const char *const names[] = {"no", "state", "gradients", "weights"};

    return (unsigned)shard < sizeof names / sizeof *names ? names[shard] : "?";
}

/* ---- telling ---- */

/* The update of the slowest device; 0: unknown. */
static double
update_of(const yoke_forecast *list, size_t count)
{
    double slowest = 0;

    for (size_t k = 0; k < count; k++)
        if (list[k].update_seconds > slowest)
            slowest = list[k].update_seconds;
    return slowest;
}

static void
print_step(const yoke_forecast *list, size_t count)
{
    const double update = update_of(list, count);

    if (!(list[0].step_seconds > 0))
        return;
    printf("; a step takes about %.3g ms", 1e3 * list[0].step_seconds);
    if (update > 0)
        printf(", of which the update %.3g", 1e3 * update);
    if (list[0].gather_seconds > 0)
        printf("%s gathers %.3g", update > 0 ? " and" : ", of which", 1e3 * list[0].gather_seconds);
}

static double
ms_of(double seconds)
{
    return seconds > 0 ? 1e3 * seconds : (double)NAN;
}

static void
print_text(const request *wanted, const yoke_team *team, const yoke_forecast *list, size_t count)
{
    yki_tool_table table;
    char memory[32], quota[32], lack[TOOL_CHOICE_TEXT], choice[TOOL_CHOICE_TEXT];

    if (yki_tool_lack_text(team, list, count, lack))
        printf("%s\n", lack);
    printf("%s, batch %u: %s", wanted->training.model, wanted->training.batch,
           yki_tool_choice_text(list, count, choice));
    print_step(list, count);
    putchar('\n');
    yki_tool_table_start(&table);
    yki_tool_table_column(&table, "device", false);
    yki_tool_table_column(&table, "samples", true);
    yki_tool_table_column(&table, "memory", true);
    yki_tool_table_column(&table, "of quota", true);
    yki_tool_table_column(&table, "ms", true);
    for (size_t k = 0; k < count; k++) {
        const yoke_forecast *f = &list[k];

        yki_tool_table_cell(&table, "%s", yoke_team_get_device_name(team, k));
        yki_tool_table_cell(&table, "%lld", (long long)f->samples);
        yki_tool_table_cell(&table, "%s", yki_tool_bytes(f->memory, memory));
        yki_tool_table_cell(&table, "%s", f->quota ? yki_tool_bytes(f->quota, quota) : "-");
        if (f->seconds > 0)
            yki_tool_table_cell(&table, "%.3g", 1e3 * f->seconds);
        else
            yki_tool_table_cell(&table, "-");
    }
    yki_tool_table_print(&table, stdout);
}

static void
print_json(const request *wanted, const yoke_team *team, const yoke_forecast *list, size_t count,
           const char *why)
{
    yki_tool_json j;

    yki_tool_json_start(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_string(&j, "model", wanted->training.model);
    yki_tool_json_integer(&j, "batch", wanted->training.batch);
    yki_tool_json_integer(&j, "processes", (uint64_t)wanted->job.ranks);
    yki_tool_json_bool(&j, "fits", !why);
    if (why) {
        yki_tool_json_string(&j, "why", why);
    } else {
        yki_tool_json_string(&j, "shard", shard_name(list[0].shard));
        yki_tool_json_integer(&j, "stages", list[0].stages);
        yki_tool_json_real(&j, "step_ms", ms_of(list[0].step_seconds));
        yki_tool_json_real(&j, "update_ms", ms_of(update_of(list, count)));
        yki_tool_json_real(&j, "gather_ms", ms_of(list[0].gather_seconds));
        yki_tool_json_open_array(&j, "devices");
        for (size_t k = 0; k < count; k++) {
            const yoke_forecast *f = &list[k];

            yki_tool_json_open_object(&j, NULL);
            yki_tool_json_string(&j, "device", yoke_team_get_device_name(team, k));
            yki_tool_json_integer(&j, "samples", (uint64_t)f->samples);
            yki_tool_json_integer(&j, "memory_bytes", f->memory);
            yki_tool_json_integer(&j, "quota_bytes", f->quota);
            yki_tool_json_integer(&j, "recompute_bytes", f->recompute_bytes);
            yki_tool_json_integer(&j, "needed_bytes", f->needed);
            yki_tool_json_integer(&j, "available_bytes", f->available);
            yki_tool_json_real(&j, "ms", ms_of(f->seconds));
            yki_tool_json_close_object(&j);
        }
        yki_tool_json_close_array(&j);
    }
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

/* ---- the work ---- */

static yoke_status
read_file(const char *path, yoke_graph **graph)
{
    char *text, sentence[1024];
    size_t length;
    yoke_status status = yki_tool_read_graph(path, &text, &length);

    if (status)
        return status;
    status = yoke_graph_from_json(text, length, graph);
    free(text);
    if (!status)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence, "%s: %s", path, yoke_last_error());
    return yoke_fail(status, sentence);
}

static yoke_status
plan(const request *wanted, yoke_context *context)
{
    const yoke_optimizer none = {0};
    const yoke_trainer_options o = yki_tool_trainer_options(
        &wanted->training, wanted->built_in ? wanted->built_in->optimizer() : none);
    yoke_team *team = NULL;
    yoke_graph *graph = NULL;
    yoke_trainer *trainer = NULL;
    yoke_forecast *list = NULL;
    size_t count = 0;
    yoke_status status = yoke_team_create(context, wanted->training.devices,
                                          &(yoke_team_options){.comm = wanted->job.comm}, &team);

    if (!status)
        status = wanted->built_in ? yki_tool_build_model(wanted->built_in, &graph)
                                  : read_file(wanted->training.model, &graph);
    if (!status)
        status = yki_tool_add_lora(&wanted->training, graph);
    if (!status)
        status = yoke_trainer_create(team, graph, &o, &trainer);
    if (!status)
        status = yki_tool_forecast(team, trainer, &list, &count);
    if (status == YOKE_ERROR_QUOTA || status == YOKE_ERROR_OUT_OF_DEVICE_MEMORY) {
        if (wanted->json)
            print_json(wanted, team, NULL, 0, yoke_last_error());
    } else if (!status) {
        if (wanted->json)
            print_json(wanted, team, list, count, NULL);
        else
            print_text(wanted, team, list, count);
    }
    free(list);
    yoke_trainer_destroy(trainer);
    yoke_graph_destroy(graph);
    yoke_team_destroy(team);
    return status;
}

/* ---- the command line ---- */

/* Gives a built-in model the sizes that are asked for. */
static int
resize(const yki_tool_command *self, request *w)
{
    const yki_tool_training *t = &w->training;
    const yki_tool_model *model = w->built_in;
    const bool given = w->seq || yki_tool_sizes_given(&t->sizes);
    char why[TOOL_MODEL_WHY];

    if (!model && (given || w->size))
        return yki_tool_usage(self, "%s has its own sizes: --layers and the like are not for it",
                              t->model);
    if (!model)
        return TOOL_OK;
    if (w->size && !model->image)
        return yki_tool_usage(self, "%s takes no images: --size is not for it", model->name);
    if (model != &w->sized)
        w->sized = *model;
    if (given && !yki_tool_size_model(model, &t->sizes, w->seq, &w->sized, why))
        return yki_tool_usage(self, "%s", why);
    if (w->size)
        w->sized.input.dim[1] = w->sized.input.dim[2] = w->size;
    w->built_in = &w->sized;
    return TOOL_OK;
}

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w)
{
    yki_tool_training *t = &w->training;
    yki_tool_model of_folder;
    int status = yki_tool_read(self, argc, argv, w);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, NULL, NULL, NULL);
    if (status != TOOL_OK)
        return status;
    status = yki_tool_training_model(self, t, &w->built_in);
    if (status != TOOL_OK)
        return status;
    if (!w->built_in && yki_tool_has_config(t->model)) {
        yoke_status failed = yki_tool_read_shorter(t->model, &of_folder);

        if (failed)
            return yki_tool_fail(self, failed);
        w->built_in = &of_folder;
    }
    if (!t->batch)
        t->batch = w->built_in ? (unsigned)w->built_in->batch : 32;
    return resize(self, w);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.training = TOOL_TRAINING_AUTO};
    yoke_context *context = NULL;
    yoke_status failed;
    int status;

    status = read_arguments(self, argc, argv, &wanted);
    if (status == TOOL_OK)
        status = yki_tool_job_start(self, NULL, &wanted.job);
    else
        return status == TOOL_EXIT ? TOOL_OK : status;
    if (status != TOOL_OK)
        return status;
    yki_tool_log(self, yki_tool_notes(false));
    failed = yoke_context_create(NULL, &context);
    if (!failed)
        failed = plan(&wanted, context);
    status = failed ? yki_tool_fail(self, failed) : TOOL_OK;
    yoke_context_destroy(context);
    return yki_tool_job_end(&wanted.job, status);
}

const yki_tool_command yki_tool_plan = {
    .name = "yoke plan",
    .synopsis = "--model=MODEL [OPTION]...",
    .summary = "tell how devices would share a model, and what a step would take",
    .description =
        "Choose how the devices share the memory that training a model takes, as yoke train\n"
        "does, and tell what a step would take of each: memory and time. Under mpirun on the\n"
        "devices of all processes. If it does not fit, say so.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_PLAN, request, training),
    .run = run,
    .example = "yoke plan --model=resnet18 --batch=256 --devices=cpu:0/2@256MiB",
};
