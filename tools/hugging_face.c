/* SPDX-License-Identifier: Apache-2.0
 *
 * hugging_face.c - opens a model: a file of `yoke train`, one of ONNX, or a folder of Hugging Face,
 * whose config.json has the sizes (config.c) that its weights are loaded into.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "models.h"

bool
yki_tool_has_weights(const char *folder)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* The tokenizer of a folder; NULL: it has none. */
static yoke_status
open_tokenizer(const char *folder, const yki_tool_model *model, yoke_tokenizer **tokenizer)
{
    yoke_status status = yoke_tokenizer_open(folder, tokenizer);
    char sentence[PATH_MAX + 160];

    if (status == YOKE_ERROR_NOT_FOUND) {
        *tokenizer = NULL;
        return YOKE_OK;
    }
    if (status || yoke_tokenizer_vocabulary(*tokenizer) <= (int64_t)model->sizes.vocabulary)
        return status;
    snprintf(sentence, sizeof sentence,
             "%s: its tokenizer has %lld tokens, the model a vocabulary of %u; must be the model's "
             "tokenizer",
             folder, (long long)yoke_tokenizer_vocabulary(*tokenizer), model->sizes.vocabulary);
    yoke_tokenizer_destroy(*tokenizer);
    *tokenizer = NULL;
    return yoke_fail(YOKE_ERROR_VALUE, sentence);
}

static yoke_status
load_folder(const char *folder, yoke_model **out)
{
    yoke_tokenizer *tokenizer = NULL;
    yoke_model *model = NULL;
    yoke_graph *graph = NULL;
    yoke_model_options o;
    yki_tool_model sized;
    char sentence[PATH_MAX + 80];
    yoke_status status = yki_tool_read_config(folder, &sized);

    memset(&o, 0, sizeof o);
    if (!status && !yki_tool_has_weights(folder)) {
        snprintf(sentence, sizeof sentence,
                 "%s has no model.safetensors; must have the weights of the model", folder);
        status = yoke_fail(YOKE_ERROR_NOT_FOUND, sentence);
    }
    if (!status)
        status = open_tokenizer(folder, &sized, &tokenizer);
    if (!status)
        status = yki_tool_build_model(&sized, &graph);
    o.tokenizer = tokenizer;
    if (!status)
        status = yoke_model_create(graph, &o, &model);
    if (!status)
        status = yoke_model_load_weights(model, folder, NULL);
    yoke_graph_destroy(graph);
    yoke_tokenizer_destroy(tokenizer);
    if (status) {
        yoke_model_destroy(model);
        return status;
    }
    *out = model;
    return YOKE_OK;
}

yoke_status
yki_tool_load_model(const char *path, yoke_model **model)
{
    if (yki_tool_has_config(path))
        return load_folder(path, model);
    return yki_tool_ends_with(path, ".onnx") ? yoke_model_load_onnx(path, model)
                                             : yoke_model_load(path, model);
}
