/* SPDX-License-Identifier: Apache-2.0
 *
 * tune.c - `yoke tune MODEL`: measures solvers and searches parameters for a model
 * on each device, and keeps the times as wisdom for later runs.
 *
 * The library does all of the work: a replica is made at level patient, with its plan for
 * evaluation. Progress comes through the library's log to standard error.
 */
#include <string.h>

#include "models.h"
#include "training.h"

enum { GEMM = 1024 };

typedef struct request {
    const yki_tool_model *model;
    const char *name;         /* as the user gives it */
    yki_tool_model of_folder; /* of Hugging Face */
    const char *wisdom;
    yki_tool_training training;
} request;

static const yki_tool_option options[] = {
    {"wisdom", 'w', "FILE", "where to keep what was measured (default: in the cache)",
     TOOL_TEXT(request, wisdom)},
    {0},
};

/* ---- a product alone ---- */

static yoke_status
build_gemm(yoke_graph **out)
{
    const yoke_dense_options o = {.units = GEMM, .no_bias = true};
    yoke_graph *g;
    yoke_status status = yoke_graph_create(&g);

    if (status)
        return status;
    yoke_graph_set_output(g, "product",
                          yoke_dense(g, yoke_input(g, "rows", YOKE_F32, yoke_shape(GEMM)), &o));
    *out = g;
    return YOKE_OK;
}

static yoke_optimizer
sgd(void)
{
    return yoke_sgd(0.01f, 0);
}

static const yki_tool_model gemm = {
    .name = "gemm",
    .summary = "a matrix product of 1024 x 1024 x 1024",
    .input = {1, 0, {GEMM}},
    .classes = GEMM,
    .optimizer = sgd,
    .batch = GEMM,
};

/* ---- the work ---- */

static yoke_status
tune_on(const request *wanted, yoke_device *device)
{
    double start = yki_tool_now();
    yoke_graph *graph = NULL;
    yoke_replica *replica = NULL;
    yoke_replica_options o =
        yki_tool_replica_options(&wanted->training, wanted->model->optimizer());
    yoke_device_info info;
    yoke_status status = yoke_device_get_info(device, &info);

    o.wisdom = wanted->wisdom;
    if (!status)
        status = wanted->model == &gemm ? build_gemm(&graph)
                                        : yki_tool_build_model(wanted->model, &graph);
    if (!status)
        status = yoke_replica_create(device, graph, &o, &replica);
    if (!status)
        status = yoke_replica_evaluate(replica, 0);
    if (!status)
        status = yoke_replica_wait(replica);
    if (!status) {
        printf("%s, batches up to %u, on %s (%s): %.1f s\n", wanted->name, wanted->training.batch,
               info.id, info.name, yki_tool_now() - start);
        fflush(stdout);
    }
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
    return status;
}

static yoke_status
tune(const request *wanted, yoke_context *context)
{
    yoke_selection *selection = NULL;
    yoke_status status = yoke_selection_create(context, wanted->training.devices, NULL, &selection);

    for (size_t i = 0; !status && i < yoke_selection_count(selection); i++)
        status = tune_on(wanted, yoke_selection_get(selection, i));
    yoke_selection_destroy(selection);
    return status;
}

/* ---- the command line ---- */

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *wanted)
{
    const char *name;
    yki_near near;
    int status = yki_tool_read(self, argc, argv, wanted);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "model",
            "no model is given; must be one that \"yoke bench --help\" lists", &wanted->name);
    if (status != TOOL_OK)
        return status;
    name = wanted->name;
    wanted->model = strcmp(name, gemm.name) == 0 ? &gemm : yki_tool_find_model(name);
    if (!wanted->model && yki_tool_has_config(name)) {
        yoke_status failed = yki_tool_read_shorter(name, &wanted->of_folder);

        if (failed)
            return yki_tool_fail(self, failed);
        wanted->model = &wanted->of_folder;
    }
    if (!wanted->model)
        return yki_tool_usage(self, "there is no model \"%s\"%s", name,
                              yki_tool_near_model(name, &near));
    if (!wanted->training.batch)
        wanted->training.batch = (unsigned)wanted->model->batch;
    return TOOL_OK;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.training.level = YOKE_PLAN_PATIENT};
    yoke_context *context = NULL;
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_INFO);
    failed = yoke_context_create(NULL, &context);
    if (!failed)
        failed = tune(&wanted, context);
    status = failed ? yki_tool_fail(self, failed) : TOOL_OK;
    yoke_context_destroy(context);
    return status;
}

const yki_tool_command yki_tool_tune = {
    .name = "yoke tune",
    .synopsis = "[OPTION]... MODEL",
    .summary = "measure solvers and search parameters for a model, once",
    .description =
        "Measure the solvers of a built-in model (or of a folder of Hugging Face, or of \"gemm\",\n"
        "a matrix product) on each device, search parameters of CLBlast for its products, and\n"
        "keep the times as wisdom: later runs plan by them without measuring. Takes up to ten\n"
        "minutes a device.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_TUNE, request, training),
    .run = run,
    .example = "yoke tune --batch=32 --devices=gpu resnet18",
};
