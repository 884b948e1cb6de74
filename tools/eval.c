/* SPDX-License-Identifier: Apache-2.0
 *
 * eval.c - `yoke eval FILE --data DIR`: loss and metrics of a trained model.
 *
 * The test itself is in evaluation.c; this file has the command line and writes the results.
 */
#include <math.h>
#include <stdio.h>

#include "evaluation.h"
#include "fields.h"
#include "job.h"
#include "json.h"

enum { MOST = 1 << 30 };

typedef struct request {
    const char *file;
    yki_tool_training training;
    unsigned top;
    bool json, per_class, confusion;
} request;

static const yki_tool_option options[] = {
    {"per-class", 0, NULL, "show each class or value, not the worst alone",
     TOOL_FLAG(request, per_class)},
    {"confusion", 0, NULL, "show which classes are taken for which", TOOL_FLAG(request, confusion)},
    {"top", 't', "K", "count labels among the K most likely classes (default: 5)",
     TOOL_COUNT(request, top, 1, MOST)},
    TOOL_ROW_JSON(request),
    {0},
};

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
    if (status == TOOL_OK && yki_tool_ends_with(w->file, ".onnx"))
        return yki_tool_usage(self,
                              "%s is a model of ONNX, which has no loss; must be one that \"yoke "
                              "train --out\" wrote",
                              w->file);
    return status;
}

/* What is asked for must be there to be shown. */
static yoke_status
check_wishes(const yki_tool_evaluation *s, const request *w)
{
    const yki_tool_subject *j = &s->subject;
    char sentence[160];

    if (w->per_class && !j->output)
        return yoke_fail(YOKE_ERROR_VALUE, "--per-class is given; must go with a model that says "
                                           "one class or values of a sample");
    if (w->confusion && (!j->output || !j->classes))
        return yoke_fail(YOKE_ERROR_VALUE,
                         "--confusion is given; must go with a model that says one class of a "
                         "sample");
    if (!w->confusion || j->count <= TOOL_MOST_CONFUSED)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence,
             "--confusion is given for %zu classes; must be for at most %d", j->count,
             TOOL_MOST_CONFUSED);
    return yoke_fail(YOKE_ERROR_VALUE, sentence);
}

static yoke_status
evaluate(yki_tool_evaluation *s, const request *w, yoke_comm *comm)
{
    yoke_status status = yki_tool_evaluation_load(w->file, &w->training, s);

    if (!status)
        status = yki_tool_evaluation_open(&w->training, s);
    if (!status)
        status = check_wishes(s, w);
    if (!status)
        status = yki_tool_evaluation_start(w->file, &w->training, comm, s);
    return status ? status : yki_tool_evaluation_run(&w->training, w->top, s);
}

/* ---- results ---- */

static bool
print_text(const yki_tool_evaluation *s, const request *w)
{
    return yki_tool_evaluation_print(s, w->per_class, stdout) &&
           (!w->confusion || yki_tool_confusion_print(&s->classes, s->model, stdout));
}

static bool
print_json(const yki_tool_evaluation *s)
{
    const yoke_graph *graph = yoke_model_get_graph(s->model);
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
        yki_tool_json_real(&j, "tokens_per_second", yki_tool_evaluation_tokens(s));
    }
    yki_tool_json_open_object(&j, "metrics");
    for (size_t i = 0; i < s->result.metric_count; i++)
        yki_tool_json_real(&j, yoke_graph_get_metric_name(graph, i), s->result.metrics[i]);
    yki_tool_json_close_object(&j);
    yki_tool_json_real(&j, "samples_per_second",
                       s->seconds > 0 ? (double)s->result.samples / s->seconds : 0);
    if (s->subject.output && s->subject.classes)
        yki_tool_classes_json(&s->classes, s->model, &j, "classification");
    else if (s->subject.output)
        yki_tool_values_json(&s->values, &j, "regression");
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
    return true;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.training = {.level = YOKE_PLAN_ESTIMATE}, .top = 5};
    yki_tool_evaluation s = {0};
    yki_tool_job job = {0};
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    status = yki_tool_job_start(self, NULL, &job);
    if (status == TOOL_OK) {
        failed = evaluate(&s, &wanted, job.comm);
        if (!failed && !(wanted.json ? print_json(&s) : print_text(&s, &wanted)))
            failed = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a table");
        if (failed)
            status = yki_tool_fail(self, failed);
    }
    yki_tool_evaluation_close(&s);
    return yki_tool_job_end(&job, status);
}

const yki_tool_command yki_tool_eval = {
    .name = "yoke eval",
    .synopsis = "--data=DIR [OPTION]... FILE",
    .summary = "test a trained model",
    .description =
        "Compute loss and metrics of a model over the test part of a folder, or all of a\n"
        "file of samples: of classes precision, recall, F1, top-k and calibration, of values\n"
        "R2 and the mean errors. FILE is what \"yoke train --out\" wrote, or a folder of Hugging "
        "Face.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_EVAL, request, training),
    .run = run,
    .example = "yoke eval --data=examples/data digits.safetensors",
};
