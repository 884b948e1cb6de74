/* SPDX-License-Identifier: Apache-2.0
 *
 * info.c - `yoke info FILE`: shows what a file of a model or a checkpoint holds.
 *
 * The name of a built-in model stands for its graph, and a file of that name needs a
 * "./". A file that begins with a brace is a graph as JSON; every other file has weights with
 * their graph; a folder has a config.json of Hugging Face, or checkpoints. A checkpoint is also a
 * model and is shown as both; a damaged one is shown as a checkpoint only.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fields.h"
#include "info.h"
#include "json.h"
#include "models.h"
#include "options.h"
#include "source.h"
#include "table.h"

typedef struct request {
    const char *path;
    bool json;
} request;

static const yki_tool_option options[] = {
    TOOL_ROW_JSON(request),
    {0},
};

enum { MODULE = 128 };

/* Parameters of one kind in all layers: those whose names differ in numbers, or behind the word
 * that follows the first number, as "h.*.attn". */
typedef struct module {
    char name[MODULE];
    uint64_t parameters;
} module;

typedef struct subject {
    const char *path;
    yoke_checkpoint *checkpoint;       /* NULL: the file is no checkpoint */
    const yoke_checkpoint_info *state; /* of the checkpoint */
    yoke_model *model;                 /* NULL: only a graph, or a damaged checkpoint */
    yoke_graph *graph;                 /* owned if there is no model */
    bool built_in;
    yoke_graph_counts counts; /* of the graph, as the next two */
    module *modules;
    size_t module_count;
} subject;

static const char *const optimizers[] = {"sgd", "adam", "adamw", "rmsprop"};

static bool
begins_with_brace(const char *path)
{
    FILE *file = fopen(path, "rb");
    int c = 0;

    if (!file)
        return false;
    do
        c = getc(file);
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n');
    fclose(file);
    return c == '{';
}

static yoke_status
is_no_model(const char *name)
{
    char sentence[256];
    yki_near near;

    snprintf(
        sentence, sizeof sentence,
        "%.100s is neither a file nor a built-in model, of which \"yoke info lenet\" names all%s",
        name, yki_tool_near_model(name, &near));
    return yoke_fail(YOKE_ERROR_NOT_FOUND, sentence);
}

static yoke_status
open_subject(subject *s)
{
    const yki_tool_model *built_in = yki_tool_find_model(s->path);
    char *text, sentence[1024];
    yki_tool_model sized;
    size_t length;
    yoke_status status;

    if (!built_in && yki_tool_has_config(s->path)) {
        status = yki_tool_read_config(s->path, &sized);
        if (status)
            return status;
        built_in = &sized;
    }
    s->built_in = built_in && built_in != &sized;
    if (built_in)
        return yki_tool_build_model(built_in, &s->graph);
    if (access(s->path, F_OK) != 0 && !strpbrk(s->path, "./"))
        return is_no_model(s->path);
    if (yki_tool_ends_with(s->path, ".onnx")) {
        status = yki_tool_load_model(s->path, &s->model);
        s->graph = yoke_model_get_graph(s->model);
        return status;
    }
    if (!begins_with_brace(s->path)) {
        status = yoke_checkpoint_open(s->path, &s->checkpoint);
        s->state = yoke_checkpoint_get_info(s->checkpoint);
        if (status && status != YOKE_ERROR_NOT_FOUND)
            return status;
        if (status && yki_tool_is_folder(s->path))
            return status;
        if (s->state && s->state->damaged)
            return YOKE_OK;
        status = yoke_model_load(s->state ? s->state->path : s->path, &s->model);
        s->graph = yoke_model_get_graph(s->model);
        return status;
    }
    status =
        yki_tool_read_text(s->path, "weights, a checkpoint, or a graph as JSON", &text, &length);
    if (status)
        return status;
    status = yoke_graph_from_json(text, length, &s->graph);
    free(text);
    if (!status)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence, "%s: %s", s->path, yoke_last_error());
    return yoke_fail(status, sentence);
}

/* ---- sizes ---- */

static void
name_module(const char *name, char out[MODULE])
{
    const char *point = strrchr(name, '.'), *end = point ? point : name + strlen(name);
    bool is_last = false;
    size_t used = 0, length;

    out[0] = '\0';
    for (const char *at = name; at < end && used < MODULE; at += length + (at[length] == '.')) {
        const bool number = (length = strcspn(at, ".")) > 0 && strspn(at, "0123456789") == length;

        used += (size_t)snprintf(out + used, MODULE - used, "%s%.*s", used ? "." : "",
                                 number ? 1 : (int)length, number ? "*" : at);
        if (is_last)
            break;
        is_last = number;
    }
}

static void
add_parameter(subject *s, const yoke_node *parameter)
{
    const yoke_shape shape = yoke_node_shape(parameter);
    char name[MODULE] = "";
    uint64_t count = 1;
    size_t i = 0;

    for (int32_t k = 0; k < shape.rank; k++)
        count *= (uint64_t)shape.dim[k];
    name_module(yoke_node_name(parameter), name);
    while (i < s->module_count && strcmp(s->modules[i].name, name) != 0)
        i++;
    if (i == s->module_count)
        memcpy(s->modules[s->module_count++].name, name, MODULE);
    s->modules[i].parameters += count;
}

static yoke_status
count_sizes(subject *s)
{
    const size_t count = yoke_graph_parameter_count(s->graph);

    if (!s->graph)
        return YOKE_OK;
    s->modules = calloc(count + 1, sizeof *s->modules);
    if (!s->modules)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for the sizes of a model");
    for (size_t i = 0; i < count; i++)
        add_parameter(s, yoke_graph_get_parameter(s->graph, i));
    return yoke_graph_count(s->graph, &s->counts);
}

/* Bytes of gradients, of which only what is trained has any. */
static uint64_t
gradient_bytes(const subject *s)
{
    return sizeof(float) * (uint64_t)(s->counts.parameters - s->counts.frozen);
}

/* Bytes of what forward computes for a sample. */
static uint64_t
activation_bytes(const subject *s)
{
    return sizeof(float) * (uint64_t)s->counts.activations;
}

/* Bytes of the state of the optimizer: that in the checkpoint, or else Adam's two values for each
 * parameter. */
static uint64_t
state_bytes(const subject *s)
{
    const yoke_checkpoint_tensor *tensor;
    uint64_t bytes = 0;

    if (!s->state)
        return 2 * gradient_bytes(s);
    for (size_t i = 0; (tensor = yoke_checkpoint_get_tensor(s->checkpoint, i)) != NULL; i++)
        bytes += strchr(tensor->name, '#') ? tensor->bytes : 0;
    return bytes;
}

/* ---- text ---- */

static void
print_line(void *user, const char *text)
{
    FILE *stream = user;

    yki_tool_print_clean(text, stream);
    putc('\n', stream);
}

static void
print_numbers(const char *name, const float *values, size_t count, FILE *stream)
{
    fprintf(stream, "%s", name);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, " %.6g", (double)values[i]);
    putc('\n', stream);
}

static const char *
optimizer_name(const yoke_checkpoint_info *c)
{
    return (size_t)c->optimizer < sizeof optimizers / sizeof optimizers[0]
               ? optimizers[c->optimizer]
               : "unknown";
}

static uint64_t
tensor_bytes(const yoke_checkpoint *checkpoint)
{
    const yoke_checkpoint_tensor *tensor;
    uint64_t bytes = 0;

    for (size_t i = 0; (tensor = yoke_checkpoint_get_tensor(checkpoint, i)) != NULL; i++)
        bytes += tensor->bytes;
    return bytes;
}

static void
print_checkpoint(const yoke_checkpoint *checkpoint, FILE *stream)
{
    const yoke_checkpoint_info *c = yoke_checkpoint_get_info(checkpoint);
    const yoke_checkpoint_tensor *tensor;
    char bytes[32];

    fprintf(stream, "%s: a checkpoint", c->path);
    if (c->others)
        fprintf(stream, ", the newest of %zu", c->others + 1);
    fprintf(stream, "\nstep       %" PRId64 "\n", c->step);
    fprintf(stream, "epochs     %" PRId64, c->epochs);
    if (c->position)
        fprintf(stream, ", and %" PRId64 " of the %" PRId64 " samples of the next", c->position,
                c->samples);
    fprintf(stream, "\nhistory    %zu epochs\n", c->history);
    fprintf(stream, "optimizer  %s, learning rate %.6g\n", optimizer_name(c),
            (double)c->learning_rate);
    fprintf(stream, "batch      %" PRId64 "\nseed       %" PRIu32 "\n", c->batch, c->seed);
    fprintf(stream, "graph      ");
    yki_tool_print_clean(c->graph, stream);
    fprintf(stream, "\nplans      ");
    yki_tool_print_clean(c->plans, stream);
    if (c->granule) {
        fprintf(stream, "\ngranules   of %" PRId64 " samples\nweights    ", c->granule);
        yki_tool_print_clean(c->weights, stream);
    }
    for (size_t k = 0; k < c->devices; k++) {
        fprintf(stream, "\n%s", k ? "           " : "devices    ");
        yki_tool_print_clean(c->device_names[k], stream);
        fprintf(stream, ", share %" PRId64, c->shares[k]);
    }
    fprintf(stream, "\nparts      %zu, %s, %s\n", c->tensors,
            yki_tool_bytes(tensor_bytes(checkpoint), bytes),
            c->damaged ? "of which these are damaged:" : "all checksums hold");
    for (size_t i = 0; (tensor = yoke_checkpoint_get_tensor(checkpoint, i)) != NULL; i++)
        if (!tensor->good) {
            fprintf(stream, "           ");
            yki_tool_print_clean(tensor->name, stream);
            putc('\n', stream);
        }
}

static void
print_sizes(const subject *s, FILE *stream)
{
    const int64_t tokens = yki_tool_text_context(s->graph);
    char bytes[4][32];

    fprintf(stream, "parameters %" PRId64 "\n", s->counts.parameters);
    for (size_t i = 0; i < s->module_count; i++) {
        fprintf(stream, "           ");
        yki_tool_print_clean(s->modules[i].name, stream);
        fprintf(stream, " %" PRIu64 "\n", s->modules[i].parameters);
    }
    fprintf(stream, "FLOPs      %.0f a %s, without backward\n",
            s->counts.flops / (tokens ? (double)tokens : 1), tokens ? "token" : "sample");
    fprintf(stream,
            "memory     weights %s, gradients %s, state of %s %s\n"
            "           activations %s a sample, of which a plan keeps what backward reads\n",
            yki_tool_bytes(sizeof(float) * (uint64_t)s->counts.parameters, bytes[0]),
            yki_tool_bytes(gradient_bytes(s), bytes[1]),
            s->state ? optimizer_name(s->state) : "adam", yki_tool_bytes(state_bytes(s), bytes[2]),
            yki_tool_bytes(activation_bytes(s), bytes[3]));
}

static void
print_others(const char *name, FILE *stream)
{
    const yki_tool_model *model;

    fprintf(stream, "others    ");
    for (size_t i = 0; (model = yki_tool_get_model(i)) != NULL; i++)
        if (strcmp(model->name, name) != 0)
            fprintf(stream, " %s", model->name);
    fprintf(stream, "\n           yoke train --model=NAME trains one, and fits it to the data\n");
}

static yoke_status
print_text(const subject *s, FILE *stream)
{
    const yoke_field *input = s->model ? yoke_model_get_input(s->model) : NULL;
    const float *mean, *scale;
    size_t scaling = yoke_model_get_scaling(s->model, &mean, &scale);

    if (s->state)
        print_checkpoint(s->checkpoint, stream);
    if (!s->graph)
        return YOKE_OK;
    if (!s->state)
        fprintf(stream, "%s: %s\n", s->path,
                s->model      ? "a model with its weights"
                : s->built_in ? "a built-in model"
                              : "a graph");
    if (s->built_in)
        print_others(s->path, stream);
    print_sizes(s, stream);
    if (input && input->name) {
        fprintf(stream, "samples    %s, %s (", input->name, yki_tool_type_name(input->type));
        for (int32_t i = 0; i < input->shape.rank; i++)
            fprintf(stream, "%s%lld", i ? ", " : "", (long long)input->shape.dim[i]);
        fprintf(stream, ")\n");
    }
    if (scaling) {
        print_numbers("mean      ", mean, scaling, stream);
        print_numbers("scale     ", scale, scaling, stream);
    }
    if (yoke_model_class_count(s->model)) {
        fprintf(stream, "classes   ");
        for (size_t i = 0; i < yoke_model_class_count(s->model); i++) {
            putc(i ? ',' : ' ', stream);
            yki_tool_print_clean(yoke_model_get_class_name(s->model, i), stream);
        }
        putc('\n', stream);
    }
    putc('\n', stream);
    return yoke_graph_print(s->graph, print_line, stream);
}

static void
add_input(yki_tool_json *j, const subject *s)
{
    const yoke_field *input = yoke_model_get_input(s->model);
    const float *mean, *scale;
    size_t scaling = yoke_model_get_scaling(s->model, &mean, &scale);

    yki_tool_json_open_object(j, "input");
    yki_tool_json_string(j, "name", input->name);
    yki_tool_json_string(j, "type", yki_tool_type_name(input->type));
    yki_tool_json_open_array(j, "shape");
    for (int32_t i = 0; i < input->shape.rank; i++)
        yki_tool_json_integer(j, NULL, (uint64_t)input->shape.dim[i]);
    yki_tool_json_close_array(j);
    yki_tool_json_open_array(j, "mean");
    for (size_t i = 0; i < scaling; i++)
        yki_tool_json_real(j, NULL, (double)mean[i]);
    yki_tool_json_close_array(j);
    yki_tool_json_open_array(j, "scale");
    for (size_t i = 0; i < scaling; i++)
        yki_tool_json_real(j, NULL, (double)scale[i]);
    yki_tool_json_close_array(j);
    yki_tool_json_close_object(j);
}

static void
add_checkpoint(yki_tool_json *j, const yoke_checkpoint *checkpoint)
{
    const yoke_checkpoint_info *c = yoke_checkpoint_get_info(checkpoint);
    const yoke_checkpoint_tensor *tensor;

    yki_tool_json_open_object(j, "checkpoint");
    yki_tool_json_string(j, "path", c->path);
    yki_tool_json_integer(j, "step", (uint64_t)c->step);
    yki_tool_json_integer(j, "epochs", (uint64_t)c->epochs);
    yki_tool_json_integer(j, "position", (uint64_t)c->position);
    yki_tool_json_integer(j, "samples", (uint64_t)c->samples);
    yki_tool_json_integer(j, "history", c->history);
    yki_tool_json_string(j, "optimizer", optimizer_name(c));
    yki_tool_json_real(j, "learning_rate", (double)c->learning_rate);
    yki_tool_json_integer(j, "batch", (uint64_t)c->batch);
    yki_tool_json_integer(j, "seed", c->seed);
    yki_tool_json_string(j, "graph", c->graph);
    yki_tool_json_string(j, "plans", c->plans);
    if (c->granule) {
        yki_tool_json_integer(j, "granule", (uint64_t)c->granule);
        yki_tool_json_string(j, "weights", c->weights);
    }
    yki_tool_json_open_array(j, "devices");
    for (size_t k = 0; k < c->devices; k++)
        yki_tool_json_string(j, NULL, c->device_names[k]);
    yki_tool_json_close_array(j);
    yki_tool_json_open_array(j, "shares");
    for (size_t k = 0; k < c->devices; k++)
        yki_tool_json_integer(j, NULL, (uint64_t)c->shares[k]);
    yki_tool_json_close_array(j);
    yki_tool_json_open_array(j, "parts");
    for (size_t i = 0; (tensor = yoke_checkpoint_get_tensor(checkpoint, i)) != NULL; i++) {
        yki_tool_json_open_object(j, NULL);
        yki_tool_json_string(j, "name", tensor->name);
        yki_tool_json_integer(j, "bytes", tensor->bytes);
        yki_tool_json_bool(j, "good", tensor->good);
        yki_tool_json_close_object(j);
    }
    yki_tool_json_close_array(j);
    yki_tool_json_integer(j, "damaged", c->damaged);
    yki_tool_json_integer(j, "others", c->others);
    yki_tool_json_close_object(j);
}

static void
add_sizes(yki_tool_json *j, const subject *s)
{
    const int64_t tokens = yki_tool_text_context(s->graph);

    yki_tool_json_integer(j, "parameters", (uint64_t)s->counts.parameters);
    yki_tool_json_integer(j, "frozen", (uint64_t)s->counts.frozen);
    yki_tool_json_integer(j, "arrays", yoke_graph_parameter_count(s->graph));
    yki_tool_json_open_array(j, "modules");
    for (size_t i = 0; i < s->module_count; i++) {
        yki_tool_json_open_object(j, NULL);
        yki_tool_json_string(j, "name", s->modules[i].name);
        yki_tool_json_integer(j, "parameters", s->modules[i].parameters);
        yki_tool_json_close_object(j);
    }
    yki_tool_json_close_array(j);
    yki_tool_json_real(j, "flops", s->counts.flops);
    yki_tool_json_real(j, "flops_per_token",
                       tokens ? s->counts.flops / (double)tokens : (double)NAN);
    yki_tool_json_open_object(j, "memory");
    yki_tool_json_integer(j, "weights", sizeof(float) * (uint64_t)s->counts.parameters);
    yki_tool_json_integer(j, "gradients", gradient_bytes(s));
    yki_tool_json_integer(j, "optimizer", state_bytes(s));
    yki_tool_json_integer(j, "activations", activation_bytes(s));
    yki_tool_json_close_object(j);
}

static void
add_model(yki_tool_json *j, const subject *s)
{
    add_sizes(j, s);
    if (s->model)
        add_input(j, s);
    yki_tool_json_open_array(j, "classes");
    for (size_t i = 0; i < yoke_model_class_count(s->model); i++)
        yki_tool_json_string(j, NULL, yoke_model_get_class_name(s->model, i));
    yki_tool_json_close_array(j);
    yki_tool_json_open_array(j, "metrics");
    for (size_t i = 0; i < yoke_graph_metric_count(s->graph); i++)
        yki_tool_json_string(j, NULL, yoke_graph_get_metric_name(s->graph, i));
    yki_tool_json_close_array(j);
}

static void
print_json(const subject *s)
{
    yki_tool_json j;

    yki_tool_json_start(&j, stdout);
    yki_tool_json_open_object(&j, NULL);
    yki_tool_json_string(&j, "kind", s->state ? "checkpoint" : s->model ? "model" : "graph");
    if (s->state)
        add_checkpoint(&j, s->checkpoint);
    if (s->graph)
        add_model(&j, s);
    yki_tool_json_close_object(&j);
    yki_tool_json_end(&j);
}

static void
close_subject(subject *s)
{
    free(s->modules);
    yoke_checkpoint_destroy(s->checkpoint);
    if (s->model)
        yoke_model_destroy(s->model);
    else
        yoke_graph_destroy(s->graph);
}

yoke_status
yki_tool_info_print(const char *path, FILE *stream)
{
    subject s = {.path = path};
    yoke_status status = open_subject(&s);

    if (!status)
        status = count_sizes(&s);
    if (!status)
        status = print_text(&s, stream);
    close_subject(&s);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    subject s = {0};
    request wanted = {0};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yoke_status failed;

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "file",
            "no file is given; must be one of weights, a checkpoint or a graph", &wanted.path);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    s.path = wanted.path;
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = open_subject(&s);
    if (!failed)
        failed = count_sizes(&s);
    if (!failed && wanted.json)
        print_json(&s);
    else if (!failed)
        failed = print_text(&s, stdout);
    if (failed) {
        status = yki_tool_fail(self, failed);
    } else if (s.state && s.state->damaged) {
        yki_tool_error(self, "%s is damaged; --resume takes the one before it", s.state->path);
        status = TOOL_FAILURE;
    }
    close_subject(&s);
    return status;
}

const yki_tool_command yki_tool_info = {
    .name = "yoke info",
    .synopsis = "[OPTION]... FILE",
    .summary = "what a file of a model or a checkpoint holds",
    .description =
        "Show what a file holds: the samples that a model takes, its classes, its layers\n"
        "with their shapes and parameters. FILE is of \"yoke train --out\", or a graph as\n"
        "JSON, or a model of ONNX, or the name of a built-in model, or a folder of Hugging\n"
        "Face, or a checkpoint or a folder of them: then also where training is, with what,\n"
        "and whether the checksums hold.",
    .options = options,
    .run = run,
    .example = "yoke info digits.safetensors",
};
