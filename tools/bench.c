/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.c - `yoke bench`: measurements, one subcommand each.
 *
 * A new benchmark is a function, a yki_tool_command, a line in `subcommands`
 * and a section in man/yoke-bench.1. The library does the measuring.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json.h"
#include "options.h"
#include "table.h"

enum { MAX_REPEATS = 10000, DEFAULT_REPEATS = 5 };

/* Options of `yoke bench devices`. */
typedef struct request {
    const char *selector;
    unsigned repeats;
    bool json;
} request;

static const yki_tool_option options[] = {
    TOOL_ROW_JSON(request),
    {"repeats", 'n', "N", "measure N times and take the median (default: 5)",
     TOOL_COUNT(request, repeats, 1, MAX_REPEATS)},
    {0},
};

/* ---- devices: do logical devices run side by side? ---- */

/* Selects two halves of the first CPU that can be split, or else all devices. */
static yoke_status
default_selector(yoke_context *context, char *selector, size_t size)
{
    size_t count = yoke_context_device_count(context);

    snprintf(selector, size, "all");
    for (size_t i = 0; i < count; i++) {
        yoke_device_info info;
        yoke_status failed = yoke_device_get_info(yoke_context_get_device(context, i), &info);

        if (failed)
            return failed;
        if (info.type == YOKE_DEVICE_CPU && info.compute_units >= 2 &&
            (info.partition & YOKE_PARTITION_EQUALLY)) {
            snprintf(selector, size, "%s/2", info.id);
            break;
        }
    }
    return YOKE_OK;
}

static yoke_status
select_devices(const yki_tool_command *self, yoke_context *context, const char *wanted,
               yoke_selection **selection)
{
    const char *environment = getenv("YOKE_DEVICES");
    char selector[80];

    if (!wanted && !(environment && *environment)) {
        yoke_status failed = default_selector(context, selector, sizeof selector);

        if (failed)
            return failed;
        wanted = selector;
    }
    return yoke_selection_create(context, wanted, &(yoke_selection_options){.holder = self->name},
                                 selection);
}

static void
overlap_json(const yoke_selection *selection, yoke_device_info *infos, const yoke_overlap *overlap,
             unsigned repeats)
{
    yki_tool_json json;

    yki_tool_json_start(&json, stdout);
    yki_tool_json_open_object(&json, NULL);
    yki_tool_json_open_array(&json, "devices");
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        yki_tool_json_string(&json, NULL, infos[i].id);
    yki_tool_json_close_array(&json);
    yki_tool_json_integer(&json, "repeats", repeats);
    yki_tool_json_real(&json, "alone_seconds", overlap->alone_seconds);
    yki_tool_json_real(&json, "together_seconds", overlap->together_seconds);
    yki_tool_json_real(&json, "ratio", overlap->together_seconds / overlap->alone_seconds);
    yki_tool_json_close_object(&json);
    yki_tool_json_end(&json);
}

static void
overlap_text(const yoke_selection *selection, yoke_device_info *infos, const yoke_overlap *overlap)
{
    size_t count = yoke_selection_count(selection);

    printf("devices   ");
    for (size_t i = 0; i < count; i++)
        printf(" %s", infos[i].id);
    printf("\nalone      %.3f ms, the slowest by itself\n", 1e3 * overlap->alone_seconds);
    printf("together   %.3f ms, all at once\n", 1e3 * overlap->together_seconds);
    printf("ratio      %.2f; ", overlap->together_seconds / overlap->alone_seconds);
    if (count > 1)
        printf("1 when each has its own hardware, %zu when they take turns\n", count);
    else
        printf("of one device: how far from 1 shows how disturbed it was\n");
}

static int
measure_overlap(const yki_tool_command *self, const request *wanted, yoke_selection *selection)
{
    size_t count = yoke_selection_count(selection);
    yoke_device_info *infos = calloc(count ? count : 1, sizeof *infos);
    yoke_overlap overlap;
    yoke_status failed = YOKE_OK;

    if (!infos) {
        yki_tool_error(self, "out of memory");
        return TOOL_FAILURE;
    }
    for (size_t i = 0; !failed && i < count; i++)
        failed = yoke_device_get_info(yoke_selection_get(selection, i), &infos[i]);
    if (!failed)
        failed = yoke_selection_measure_overlap(selection, wanted->repeats, &overlap);
    if (!failed && wanted->json)
        overlap_json(selection, infos, &overlap, wanted->repeats);
    else if (!failed)
        overlap_text(selection, infos, &overlap);
    free(infos);
    return failed ? yki_tool_fail(self, failed) : TOOL_OK;
}

static int
run_devices(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.repeats = DEFAULT_REPEATS};
    yoke_context *context = NULL;
    yoke_selection *selection = NULL;
    yoke_status failed;
    int status = yki_tool_read(self, argc, argv, &wanted);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, "selector (a list has commas)", NULL,
                                        &wanted.selector);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = yoke_context_create(NULL, &context);
    if (!failed)
        failed = select_devices(self, context, wanted.selector, &selection);
    status = failed ? yki_tool_fail(self, failed) : measure_overlap(self, &wanted, selection);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return status;
}

static const yki_tool_command bench_devices = {
    .name = "yoke bench devices",
    .synopsis = "[OPTION]... [SELECTOR]",
    .summary = "whether logical devices run side by side",
    .description =
        "Run the same load on each device that SELECTOR makes, first one by one, then on\n"
        "all at once. Without one: YOKE_DEVICES, else two halves of the first CPU that can\n"
        "be partitioned, else all devices.",
    .options = options,
    .run = run_devices,
    .example = "yoke bench devices --repeats=11 cpu:0/2",
};

static const yki_tool_command *const subcommands[] = {
    &bench_devices,
    &yki_tool_bench_peak,
    &yki_tool_bench_gemm,
    &yki_tool_bench_conv,
    &yki_tool_bench_attention,
    &yki_tool_bench_eltwise,
    &yki_tool_bench_tiny,
    &yki_tool_bench_mlp,
    &yki_tool_bench_simplecnn,
    &yki_tool_bench_lenet,
    &yki_tool_bench_resnet18,
    &yki_tool_bench_resnet34,
    &yki_tool_bench_resnet50,
    &yki_tool_bench_mobilenet,
    &yki_tool_bench_unet,
    &yki_tool_bench_autoencoder,
    &yki_tool_bench_gpt,
    &yki_tool_bench_char,
    &yki_tool_bench_gpt2,
    &yki_tool_bench_llama,
    NULL,
};

const yki_tool_command yki_tool_bench = {
    .name = "yoke bench",
    .synopsis = "COMMAND [ARGUMENT]...",
    .summary = "measure devices and models",
    .description = "Measure what devices can do, and how fast the built-in models train.",
    .subcommands = subcommands,
    .run = yki_tool_run_group,
    .example = "yoke bench mlp --batch=256 --devices=cpu:0/2",
};
