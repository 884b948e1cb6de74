/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - `yoke report PATH`: a training as one page of HTML, with pictures and without scripts.
 *
 * This file finds what a run left, tests the model, and puts the sections in order. The page is
 * complete before a file is opened, so a failure leaves no half of it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fields.h"
#include "graph_picture.h"
#include "markup.h"
#include "options.h"
#include "picture.h"
#include "progress.h"
#include "report.h"

typedef struct request {
    const char *path, *out, *log; /* `out` NULL: standard output */
    yki_tool_training training;
} request;

static const yki_tool_option options[] = {
    {"out", 'o', "FILE", "write the page there (default: standard output)",
     TOOL_TEXT(request, out)},
    {"log", 'l', "FILE", "the log of the run (default: that of its options)",
     TOOL_TEXT(request, log)},
    {0},
};

/* ---- what a run left ---- */

/* Takes the newest checkpoint of a folder, or a file of weights. */
static yoke_status
find_weights(yki_tool_page *r)
{
    yoke_checkpoint *checkpoint = NULL;
    yoke_status status;

    snprintf(r->file, sizeof r->file, "%s", r->path);
    if (!yki_tool_is_folder(r->path) || yki_tool_has_config(r->path))
        return YOKE_OK;
    status = yoke_checkpoint_open(r->path, &checkpoint);
    if (!status)
        snprintf(r->file, sizeof r->file, "%s", yoke_checkpoint_get_info(checkpoint)->path);
    yoke_checkpoint_destroy(checkpoint);
    return status;
}

/* The options that `yoke train` wrote: in the folder, beside the file, or in the file's folder. */
static void
read_options(yki_tool_page *r, char path[PATH_MAX])
{
    const char *slash = strrchr(r->file, '/');
    const int folder = slash ? (int)(slash - r->file) + 1 : 0;

    snprintf(path, PATH_MAX, "%.4000s.options.json", r->file);
    if (access(path, R_OK) != 0)
        snprintf(path, PATH_MAX, "%.*soptions.json", folder < 4000 ? folder : 0, r->file);
    r->options = json_load_file(path, 0, NULL);
}

/* Finds a file that the options name: as they say or, if it is not there, beside them. NULL: there
 * is none. The caller frees it. */
static char *
find_beside(const yki_tool_page *r, const char *option, const char *beside)
{
    const char *name = json_string_value(json_object_get(r->options, option));
    const char *slash = strrchr(beside, '/'), *last = name ? strrchr(name, '/') : NULL;
    char path[2 * PATH_MAX];

    if (!name)
        return NULL;
    if (access(name, R_OK) == 0)
        return strdup(name);
    snprintf(path, sizeof path, "%.*s%.4000s", slash ? (int)(slash - beside) + 1 : 0, beside,
             last ? last + 1 : name);
    return access(path, R_OK) == 0 ? strdup(path) : NULL;
}

/* What the command line does not say is taken from the options of the run. Texts point into them.
 */
static void
take_options(yki_tool_page *r)
{
    yki_tool_training *t = &r->training;

    t->channels_last |= json_is_true(json_object_get(r->options, "channels-last"));
    if (!t->sample_weights)
        t->sample_weights = json_string_value(json_object_get(r->options, "sample-weights"));
}

/* The devices of the run, if they are here. */
static const char *
find_devices(const yki_tool_page *r)
{
    const char *devices = json_string_value(json_object_get(r->options, "devices"));
    yoke_selection *selection = NULL;
    yoke_context *context = NULL;
    bool there;

    if (!devices || yoke_context_create(NULL, &context))
        return NULL;
    there = yoke_selection_create(context, devices, NULL, &selection) == YOKE_OK;
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return there ? devices : NULL;
}

/* ---- the page ---- */

static void
write_tile(FILE *stream, const char *name, const char *format, double value)
{
    char text[64], number[TOOL_NUMBER];

    if (!isfinite(value))
        return;
    snprintf(text, sizeof text, format, yki_tool_short_number(value, number));
    fputs("<div><b>", stream);
    yki_tool_markup(stream, text);
    fputs("</b><span>", stream);
    yki_tool_markup(stream, name);
    fputs("</span></div>\n", stream);
}

static void
write_tiles(const yki_tool_page *r)
{
    const yki_tool_history *h = &r->history;
    const yki_tool_evaluation *e = &r->evaluation;
    const yoke_graph *graph = yoke_model_get_graph(e->model);
    yoke_graph_counts counts;

    fputs("<div class=\"tiles\">\n", r->stream);
    if (r->tested)
        write_tile(r->stream, "loss of the test", "%s", e->result.loss);
    for (size_t i = 0; r->tested && i < e->result.metric_count; i++) {
        const char *name = yoke_graph_get_metric_name(graph, i);
        const bool fraction = strcmp(name, "accuracy") == 0;

        write_tile(r->stream, name, fraction ? "%s %%" : "%s",
                   e->result.metrics[i] * (fraction ? 100 : 1));
    }
    if (h->loss.count) {
        write_tile(r->stream, "steps", "%s", h->steps);
        write_tile(r->stream, "epochs", "%s", h->epochs);
    }
    if (yoke_graph_count(graph, &counts) == YOKE_OK)
        write_tile(r->stream, "parameters", "%s", (double)counts.parameters);
    fputs("</div>\n", r->stream);
}

static void
write_head(const yki_tool_page *r)
{
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>",
          r->stream);
    yki_tool_markup(r->stream, r->path);
    fprintf(r->stream, " - yoke report</title>\n<style>\n%s%s%s</style>\n</head>\n<body>\n<h1>",
            yki_tool_picture_style, yki_tool_graph_style, yki_tool_report_style);
    yki_tool_markup(r->stream, r->path);
    fputs("</h1>\n<nav><a href=\"#course\">Course</a>", r->stream);
    if (r->tested)
        fputs("<a href=\"#test\">Test</a>", r->stream);
    if (r->worst.count)
        fputs("<a href=\"#samples\">Samples</a>", r->stream);
    fputs("<a href=\"#model\">Model</a><a href=\"#graph\">Graph</a>"
          "<a href=\"#devices\">Devices</a><a href=\"#run\">Options</a></nav>\n",
          r->stream);
    write_tiles(r);
}

static void
write_course(const yki_tool_page *r)
{
    yki_tool_report_begin(r->stream, "course", "Course of the training");
    if (r->history.loss.count)
        yki_tool_picture(r->stream, &r->history, NULL, false);
    else
        fputs("<p>There is no log; yoke train --log=FILE writes one.</p>\n", r->stream);
    fputs("</section>\n", r->stream);
}

static yoke_status
write_page(yki_tool_page *r)
{
    yoke_status status = YOKE_OK;

    write_head(r);
    write_course(r);
    if (r->tested)
        status = yki_tool_report_test(r);
    if (!status && r->worst.count)
        status = yki_tool_report_samples(r);
    if (!status)
        status = yki_tool_report_model(r);
    if (!status)
        status = yki_tool_report_devices(r);
    if (!status)
        status = yki_tool_report_run(r);
    fputs("</body>\n</html>\n", r->stream);
    return status;
}

/* ---- the command ---- */

/* Data that the options of the run name may be gone: then the page does without. */
static yoke_status
open_data(const yki_tool_command *self, yki_tool_page *r, bool wanted)
{
    yoke_status status;

    if (!r->training.data) {
        yki_tool_warn(self, "%s: the data of the run are not found; --data=DIR names them",
                      r->path);
        return YOKE_OK;
    }
    status = yki_tool_evaluation_open(&r->training, &r->evaluation);
    r->tested = status == YOKE_OK;
    if (status && !wanted) {
        yki_tool_warn(self, "%s", yoke_last_error());
        return YOKE_OK;
    }
    return status;
}

/* So may its log be, or have no step. */
static yoke_status
read_log(const yki_tool_command *self, yki_tool_page *r, const char *path, bool wanted)
{
    yoke_status status = path ? yki_tool_history_read(path, &r->history) : YOKE_OK;

    if (!status || wanted)
        return status;
    yki_tool_warn(self, "%s", yoke_last_error());
    yki_tool_history_clear(&r->history);
    return YOKE_OK;
}

static yoke_status
find_all(const yki_tool_command *self, yki_tool_page *r, const request *w, char *found[2])
{
    char beside[PATH_MAX] = "";
    yoke_status status = find_weights(r);

    if (status)
        return status;
    read_options(r, beside);
    take_options(r);
    found[0] = w->log ? strdup(w->log) : find_beside(r, "log", beside);
    found[1] = w->training.data ? strdup(w->training.data) : find_beside(r, "data", beside);
    r->training.data = found[1];
    if (!r->training.devices)
        r->training.devices = find_devices(r);
    status = read_log(self, r, found[0], w->log != NULL);
    if (!status)
        status = yki_tool_evaluation_load(r->file, &r->training, &r->evaluation);
    if (!status)
        status = open_data(self, r, w->training.data != NULL);
    if (!status)
        status = yki_tool_evaluation_start(r->file, &r->training, NULL, &r->evaluation);
    r->evaluation.on_class = yki_tool_report_see;
    r->evaluation.user = r;
    return status || !r->tested ? status : yki_tool_evaluation_run(&r->training, 5, &r->evaluation);
}

/* Writes the page to memory, then to the file. */
static yoke_status
write_report(yki_tool_page *r, const char *out)
{
    char *text = NULL;
    size_t size = 0;
    yoke_status status;
    FILE *file;
    bool good;

    r->stream = open_memstream(&text, &size);
    if (!r->stream)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for the page");
    status = write_page(r);
    if (fclose(r->stream) != 0 && !status)
        status = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for the page");
    if (!status) {
        file = out ? fopen(out, "w") : stdout;
        good = file && fwrite(text, 1, size, file) == size && fflush(file) == 0;
        if (file && out)
            good = fclose(file) == 0 && good;
        if (!good && out) /* main checks standard output when the command ends */
            status = yki_tool_fail_about(YOKE_ERROR_IO, out, "the page cannot be written");
    }
    free(text);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.training = {.level = YOKE_PLAN_ESTIMATE}};
    static yki_tool_page r; /* static, as it is large */
    char *found[2] = {NULL, NULL};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yoke_status failed;

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, "path",
                                        "no run is given; must be a folder of \"yoke train "
                                        "--checkpoint\", or a file of \"yoke train --out\"",
                                        &wanted.path);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    r.path = wanted.path;
    r.training = wanted.training;
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = find_all(self, &r, &wanted, found);
    if (!failed)
        failed = write_report(&r, wanted.out);
    if (failed)
        status = yki_tool_fail(self, failed);
    yki_tool_evaluation_close(&r.evaluation);
    yki_tool_history_clear(&r.history);
    json_decref(r.options);
    free(found[0]);
    free(found[1]);
    return status;
}

const yki_tool_command yki_tool_report = {
    .name = "yoke report",
    .synopsis = "[OPTION]... PATH",
    .summary = "a page about a training: course, test, model, devices",
    .description =
        "Write one page of HTML about a training: its course, a test with the confusion\n"
        "matrix and the worst and best samples, the model with its graph, the devices, the\n"
        "options, and the hash of the weights. PATH is a folder of \"yoke train --checkpoint\"\n"
        "or a file of \"yoke train --out\". Log and data are those that the options of the run\n"
        "name. The page has no scripts, and needs no other file.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_EVAL, request, training),
    .run = run,
    .example = "yoke report --out=report.html digits.safetensors",
};
