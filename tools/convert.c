/* SPDX-License-Identifier: Apache-2.0
 *
 * convert.c - `yoke convert FILE --out=DIR`: a language model in the format of Hugging Face.
 */
#include <string.h>

#include "models.h"
#include "options.h"
#include "tool.h"

enum { SHARD = 5000, MOST_SHARD = 1 << 30, MEGABYTE = 1000000 };

typedef struct request {
    const char *model, *out;
    int type;
    unsigned shard;
} request;

static const yki_tool_choice types[] = {
    {"f32", YOKE_WEIGHTS_F32}, {"f16", YOKE_WEIGHTS_F16}, {"bf16", YOKE_WEIGHTS_BF16}, {0}};

static const yki_tool_option options[] = {
    {"out", 'o', "DIR", "the folder, without a model, to write to", TOOL_TEXT(request, out)},
    {"type", 't', "NAME", "numbers are f32 (default), f16 or bf16",
     TOOL_CHOICE(request, type, types)},
    {"shard", 0, "N", "a file has at most N MB (default: 5000)",
     TOOL_COUNT(request, shard, 1, MOST_SHARD)},
    {0},
};

static yoke_status
convert(const request *w)
{
    yoke_export_options o;
    yoke_model *model = NULL;
    yoke_status status = yki_tool_load_model(w->model, &model);

    memset(&o, 0, sizeof o);
    o.type = (yoke_weight_type)w->type;
    o.shard = (int64_t)w->shard * MEGABYTE;
    if (!status)
        status = yoke_model_export(model, w->out, &o);
    yoke_model_destroy(model);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.shard = SHARD};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yoke_status failed;

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "file",
            "no model is given; must be a file that \"yoke train --out\" wrote", &wanted.model);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    if (!wanted.out)
        return yki_tool_usage(self, "no folder is given; must be --out=DIR");
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = convert(&wanted);
    return failed ? yki_tool_fail(self, failed) : TOOL_OK;
}

const yki_tool_command yki_tool_convert = {
    .name = "yoke convert",
    .synopsis = "[OPTION]... FILE",
    .summary = "write a language model for Hugging Face",
    .description =
        "Write a gpt or a llama as Hugging Face's transformers read it: weights under\n"
        "their names, config.json, and the tokenizer. FILE is of \"yoke train --out\", or a\n"
        "folder of Hugging Face.",
    .options = options,
    .run = run,
    .example = "yoke convert --type=bf16 --out=rhyme rhyme.safetensors",
};
