/* SPDX-License-Identifier: Apache-2.0
 *
 * eval.c - `yoke eval FILE --data DIR`: loss and metrics of a trained model.
 *
 * The file has the graph, the weights and the scaling of the data, so nothing else is
 * needed. A trainer of the library evaluates the model on all devices.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "json.h"
#include "progress.h"
#include "source.h"
#include "training.h"

enum { BATCH = 256, TOKENS = 8192 };

typedef struct request {
    const char *file;
    yki_tool_training training;
    bool json;
} request;

static const yki_tool_option options[] = {
    TOOL_ROW_JSON(request),
    {0},
};

typedef struct session {
    yki_tool_job job;
    yki_tool_source source;
    yoke_model *model;
    yoke_context *context;
    yoke_team *team;
    yoke_trainer *trainer;
    yoke_result result;
    double seconds;
} session;

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w)
{
    int status = yki_tool_read(self, argc, argv, w);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "file",
            "no model is given; must be a file that \"yoke train --out\" wrote", &w->file);
    if (status == TOOL_OK && !w->training.data)
        return yki_tool_usage(self, "no data is given; must be --data=DIR, a folder or a file");
    return status;
}

static yoke_status
open_data(session *s, const request *w)
{
    const float *mean, *scale;
    size_t count = yoke_model_get_scaling(s->model, &mean, &scale);
    const yki_tool_reading how = {.channels_last = w->training.channels_last,
                                  .integers = yoke_model_get_input(s->model)->type == YOKE_I32};
    yki_tool_text text;
    yoke_status status = yki_tool_text_of(yoke_model_get_graph(s->model), &text);

    if (!status)
        status = text.context
                     ? yki_tool_source_open_test_text(w->training.data, s->model, &text, &s->source)
                     : yki_tool_source_open_test(w->training.data, &how, &s->source);
    if (!status && count)
        status =
            yoke_dataset_set_scaling(s->source.train, s->source.data->name, mean, scale, count);
    return status;
}

/* How many samples are computed at once: of long texts fewer. */
static unsigned
choose_batch(const session *s, const request *w)
{
    const int64_t context = s->source.context;

    if (w->training.batch)
        return w->training.batch;
    return !context ? BATCH : context < TOKENS ? (unsigned)(TOKENS / context) : 1;
}

static yoke_status
evaluate(session *s, const request *w)
{
    yoke_trainer_options o = yki_tool_trainer_options(&w->training, (yoke_optimizer){0});
    yoke_load_options load;
    yoke_status status = yki_tool_load_model(w->file, &s->model);
    double begun;

    memset(&load, 0, sizeof load);
    if (w->training.adapters)
        load.except = "*.lora_[AB].weight"; /* they come from the folder */

    if (!status && w->training.adapters)
        status = yoke_model_load_adapters(s->model, w->training.adapters);
    if (!status)
        status = open_data(s, w);
    o.batch = choose_batch(s, w);
    if (!status)
        status = yoke_context_create(NULL, &s->context);
    if (!status)
        status = yoke_team_create(s->context, w->training.devices,
                                  &(yoke_team_options){.comm = s->job.comm}, &s->team);
    if (!status)
        status = yoke_trainer_create(s->team, yoke_model_get_graph(s->model), &o, &s->trainer);
    if (!status)
        status = yoke_trainer_load_weights(s->trainer, w->file, &load);
    if (!status && w->training.adapters)
        status = yoke_trainer_load_adapters(s->trainer, w->training.adapters);
    begun = yki_tool_now();
    if (!status)
        status = yki_tool_source_blame(
            w->training.data, yoke_trainer_evaluate(s->trainer, s->source.train, &s->result));
    s->seconds = yki_tool_now() - begun;
    return status;
}

static double
tokens_per_second(const session *s)
{
    return (double)yoke_dataset_text_tokens(s->source.train) / s->seconds;
}

static void
print_text(const session *s, const yoke_graph *graph)
{
    char loss[TOOL_LOSS];

    printf("samples %lld\nloss %s\n", (long long)s->result.samples,
           yki_tool_loss_text(s->result.loss, loss));
    if (s->source.context) {
        const double bits = yki_tool_bits_per_byte(s->source.train, s->result.loss);

        printf("tokens %lld\n", (long long)yoke_dataset_text_tokens(s->source.train));
        printf("perplexity %s\n", yki_tool_loss_text(exp(s->result.loss), loss));
        if (!isnan(bits))
            printf("bits a byte %.4f\n", bits);
        if (s->seconds > 0)
            printf("tokens/s %.0f\n", tokens_per_second(s));
    }
    for (size_t i = 0; i < s->result.metric_count; i++) {
        const char *name = yoke_graph_get_metric_name(graph, i);

        if (strcmp(name, "accuracy") == 0)
            printf("%s %.2f %%\n", name, 100 * s->result.metrics[i]);
        else
            printf("%s %.6g\n", name, s->result.metrics[i]);
    }
}

static void
print_json(const session *s, const yoke_graph *graph)
{
    yki_tool_json j;

    yki_tool_json_start_line(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_integer(&j, "samples", (uint64_t)s->result.samples);
    yki_tool_json_real(&j, "loss", s->result.loss);
    if (s->source.context) {
        yki_tool_json_integer(&j, "tokens", (uint64_t)yoke_dataset_text_tokens(s->source.train));
        yki_tool_json_real(&j, "perplexity", exp(s->result.loss));
        yki_tool_json_real(&j, "bits_per_byte",
                           yki_tool_bits_per_byte(s->source.train, s->result.loss));
        yki_tool_json_real(&j, "tokens_per_second", s->seconds > 0 ? tokens_per_second(s) : 0);
    }
    yki_tool_json_open_object(&j, "metrics");
    for (size_t i = 0; i < s->result.metric_count; i++)
        yki_tool_json_real(&j, yoke_graph_get_metric_name(graph, i), s->result.metrics[i]);
    yki_tool_json_close_object(&j);
    yki_tool_json_real(&j, "samples_per_second",
                       s->seconds > 0 ? (double)s->result.samples / s->seconds : 0);
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

static void
clear(session *s)
{
    yoke_trainer_destroy(s->trainer);
    yoke_team_destroy(s->team);
    yoke_context_destroy(s->context);
    yoke_model_destroy(s->model);
    yki_tool_source_close(&s->source);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.training = {.level = YOKE_PLAN_ESTIMATE}};
    session s = {0};
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    status = yki_tool_job_start(self, NULL, &s.job);
    if (status == TOOL_OK) {
        failed = evaluate(&s, &wanted);
        if (failed)
            status = yki_tool_fail(self, failed);
        else if (wanted.json)
            print_json(&s, yoke_model_get_graph(s.model));
        else
            print_text(&s, yoke_model_get_graph(s.model));
    }
    clear(&s);
    return yki_tool_job_end(&s.job, status);
}

const yki_tool_command yki_tool_eval = {
    .name = "yoke eval",
    .synopsis = "--data=DIR [OPTION]... FILE",
    .summary = "test a trained model",
    .description =
        "Compute loss and metrics of a model over the test part of a folder, or all of a\n"
        "file of samples. FILE is what \"yoke train --out\" wrote, or a folder of Hugging Face.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_EVAL, request, training),
    .run = run,
    .example = "yoke eval --data=examples/data digits.safetensors",
};
