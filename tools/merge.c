/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - `yoke merge BASE [ADAPTERS] --out FILE`: a model whose adapters are part of its
 * weights.
 */
#include <string.h>

#include "models.h"
#include "tool.h"

typedef struct request {
    const char *base, *adapters, *out;
} request;

static const yki_tool_option options[] = {
    {"out", 'o', "FILE", "write the model there, as safetensors", TOOL_TEXT(request, out)},
    {0},
};

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w)
{
    int status = yki_tool_read(self, argc, argv, w);

    if (status != TOOL_OK)
        return status;
    if (optind >= argc)
        return yki_tool_usage(self, "no model is given; must be a file that \"yoke train --out\" "
                                    "wrote");
    w->base = argv[optind++];
    status = yki_tool_read_argument(self, argc, argv, "folder of adapters", NULL, &w->adapters);
    if (status == TOOL_OK && !w->out)
        return yki_tool_usage(self, "no file to write is given; must be --out=FILE");
    return status;
}

static yoke_status
merge(const request *w)
{
    yoke_model *model = NULL;
    yoke_status status = yki_tool_load_model(w->base, &model);

    if (!status && w->adapters)
        status = yoke_model_load_adapters(model, w->adapters);
    if (!status)
        status = yoke_model_merge_adapters(model);
    if (!status)
        status = yoke_model_save(model, w->out);
    yoke_model_destroy(model);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {0};
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = merge(&wanted);
    return failed ? yki_tool_fail(self, failed) : TOOL_OK;
}

const yki_tool_command yki_tool_merge = {
    .name = "yoke merge",
    .synopsis = "--out=FILE BASE [ADAPTERS]",
    .summary = "make adapters part of the weights",
    .description =
        "Write the model BASE with its low-rank adapters, or those of the folder ADAPTERS,\n"
        "added to the weights. The result has no adapters and computes the same. BASE may be\n"
        "a folder of Hugging Face.",
    .options = options,
    .run = run,
    .example = "yoke merge --out=merged.safetensors adapted.safetensors",
};
