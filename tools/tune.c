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
#include "options.h"
#include "tool.h"

enum { MAX_BATCH = 1 << 20, GEMM = 1024 };

enum { OPTION_BATCH, OPTION_DEVICES, OPTION_LEVEL, OPTION_STRICT, OPTION_WISDOM };

static const yki_tool_option options[] = {
    {"batch", 'b', "N", "samples per step (default: the model's)"},
    {"devices", 'd', "SELECTOR", "the devices, one after another (default: all)"},
    {"level", 'l', "LEVEL", "measure or patient (default)"},
    {"strict", 's', NULL, "no Winograd"},
    {"wisdom", 'w', "FILE", "where to keep what was measured (default: in the cache)"},
    {0},
};

typedef struct request {
    const yki_tool_model *model;
    const char *selector, *wisdom;
    unsigned batch;
    yoke_plan_level level;
    bool strict;
} request;

/* ---- a product alone ---- */

static yoke_node *
build_gemm(yoke_graph *graph, yoke_node *x, int64_t outputs)
{
    yoke_dense_options o;

    memset(&o, 0, sizeof o);
    o.units = outputs;
    o.no_bias = true;
    return yoke_dense(graph, x, &o);
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
    .build = build_gemm,
};

/* ---- the work ---- */

static yoke_status
tune_on(const request *wanted, yoke_device *device)
{
    double start = yki_tool_now();
    yoke_graph *graph = NULL;
    yoke_replica *replica = NULL;
    yoke_replica_options o;
    yoke_device_info info;
    yoke_status status = yoke_device_get_info(device, &info);

    memset(&o, 0, sizeof o);
    o.batch = wanted->batch;
    o.level = wanted->level;
    o.strict = wanted->strict;
    o.wisdom = wanted->wisdom;
    o.optimizer = wanted->model->optimizer();
    if (!status)
        status = yki_tool_build_model(wanted->model, yoke_shape(), -1, &graph);
    if (!status)
        status = yoke_replica_create(device, graph, &o, &replica);
    if (!status)
        status = yoke_replica_evaluate(replica, 0);
    if (!status)
        status = yoke_replica_wait(replica);
    if (!status) {
        printf("%s, batches up to %u, on %s (%s): %.1f s\n", wanted->model->name, wanted->batch,
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
    yoke_status status = yoke_selection_create(context, wanted->selector, NULL, &selection);

    for (size_t i = 0; !status && i < yoke_selection_count(selection); i++)
        status = tune_on(wanted, yoke_selection_get(selection, i));
    yoke_selection_destroy(selection);
    return status;
}

/* ---- the command line ---- */

static bool
take_option(const yki_tool_command *self, int option, request *wanted, int *status)
{
    yki_near near;

    if (option == OPTION_BATCH && !yki_tool_parse_count(optarg, MAX_BATCH, &wanted->batch)) {
        *status = yki_tool_usage(self, "--batch takes a number from 1 to %d, not '%s'", MAX_BATCH,
                                 optarg);
        return false;
    }
    if (option == OPTION_LEVEL &&
        (!yki_tool_parse_level(optarg, &wanted->level) || wanted->level == YOKE_PLAN_ESTIMATE)) {
        *status = yki_tool_usage(self, "--level is measure or patient, not '%s'%s", optarg,
                                 yki_tool_near_level(optarg, &near));
        return false;
    }
    if (option == OPTION_DEVICES)
        wanted->selector = optarg;
    if (option == OPTION_WISDOM)
        wanted->wisdom = optarg;
    wanted->strict |= option == OPTION_STRICT;
    return true;
}

static bool
read_arguments(const yki_tool_command *self, int argc, char **argv, request *wanted, int *status)
{
    yki_near near;
    int option;

    while ((option = yki_tool_next(self, argc, argv, status)) != TOOL_END)
        if (option == TOOL_EXIT || !take_option(self, option, wanted, status))
            return false;
    if (optind >= argc) {
        *status = yki_tool_usage(self, "which model? 'yoke bench --help' lists them");
        return false;
    }
    if (optind + 1 < argc) {
        *status = yki_tool_usage(self, "one model at a time: '%s'", argv[optind + 1]);
        return false;
    }
    wanted->model =
        strcmp(argv[optind], gemm.name) == 0 ? &gemm : yki_tool_find_model(argv[optind]);
    if (!wanted->model) {
        *status = yki_tool_usage(self, "there is no model '%s'%s", argv[optind],
                                 yki_tool_near_model(argv[optind], &near));
        return false;
    }
    if (!wanted->batch)
        wanted->batch = (unsigned)wanted->model->batch;
    return true;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.level = YOKE_PLAN_PATIENT};
    yoke_context *context = NULL;
    int status = TOOL_USAGE;
    yoke_status failed;

    if (!read_arguments(self, argc, argv, &wanted, &status))
        return status;
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
        "Measure the solvers of a built-in model (or of 'gemm', a matrix product) on each\n"
        "device, search parameters of CLBlast for its products, and keep the times as wisdom:\n"
        "later runs plan by them without measuring. Takes up to ten minutes a device.",
    .options = options,
    .run = run,
    .example = "yoke tune --batch=32 --devices=gpu resnet18",
};
