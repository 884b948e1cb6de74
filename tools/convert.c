/* SPDX-License-Identifier: Apache-2.0
 *
 * convert.c - `yoke convert FILE --out=PATH`: a model in another format, which the ending of its
 * name tells: a file of ONNX, a file of yoke, or, without any, a folder of Hugging Face.
 */
#include <string.h>

#include "models.h"
#include "options.h"
#include "tool.h"

enum { SHARD = 5000, MOST_SHARD = 1 << 30, MEGABYTE = 1000000 };

typedef struct request {
    const char *model, *out;
    int type;
    unsigned shard; /* 0: it is not given */
} request;

static const yki_tool_choice types[] = {
    {"f32", YOKE_WEIGHTS_F32}, {"f16", YOKE_WEIGHTS_F16}, {"bf16", YOKE_WEIGHTS_BF16}, {0}};

static const yki_tool_option options[] = {
    {"out", 'o', "PATH", "FILE.onnx, FILE.safetensors, or a folder without a model",
     TOOL_TEXT(request, out)},
    {"type", 't', "NAME", "of a folder: numbers are f32 (default), f16 or bf16",
     TOOL_CHOICE(request, type, types)},
    {"shard", 0, "N", "of a folder: a file has at most N MB (default: 5000)",
     TOOL_COUNT(request, shard, 1, MOST_SHARD)},
    {0},
};

static yoke_status
write_folder(const request *w, const yoke_model *model)
{
    yoke_export_options o;

    memset(&o, 0, sizeof o);
    o.type = (yoke_weight_type)w->type;
    o.shard = (int64_t)(w->shard ? w->shard : SHARD) * MEGABYTE;
    return yoke_model_export(model, w->out, &o);
}

static bool
is_file(const char *path)
{
    return yki_tool_ends_with(path, ".onnx") || yki_tool_ends_with(path, ".safetensors");
}

static yoke_status
convert(const request *w)
{
    yoke_model *model = NULL;
    yoke_status status = yki_tool_load_model(w->model, &model);

    if (!status && yki_tool_ends_with(w->out, ".onnx"))
        status = yoke_model_save_onnx(model, w->out);
    else if (!status && is_file(w->out))
        status = yoke_model_save(model, w->out);
    else if (!status)
        status = write_folder(w, model);
    yoke_model_destroy(model);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {0};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yoke_status failed;

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "file",
            "no model is given; must be a file that \"yoke train --out\" wrote, or one of ONNX",
            &wanted.model);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    if (!wanted.out)
        return yki_tool_usage(self, "no file or folder is given; must be --out=PATH");
    if (is_file(wanted.out) && (wanted.type || wanted.shard))
        return yki_tool_usage(self, "--%s is given for a file; must go with a folder",
                              wanted.type ? "type" : "shard");
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = convert(&wanted);
    return failed ? yki_tool_fail(self, failed) : TOOL_OK;
}

const yki_tool_command yki_tool_convert = {
    .name = "yoke convert",
    .synopsis = "[OPTION]... FILE",
    .summary = "a model from or for ONNX and Hugging Face",
    .description =
        "Write a model in another format: as ONNX if PATH ends with .onnx, as yoke's own\n"
        "if it ends with .safetensors, else as a folder of Hugging Face, which takes a gpt\n"
        "or a llama. FILE is of \"yoke train --out\", or of ONNX if it ends with .onnx, or a\n"
        "folder of Hugging Face.",
    .options = options,
    .run = run,
    .example = "yoke convert --type=bf16 --out=rhyme rhyme.safetensors",
};
