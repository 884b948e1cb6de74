/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_file.c - saves weights by name. Names and axis order are PyTorch's, so a state_dict needs
 * no translation.
 */
#include <stdio.h>
#include <string.h>

#include "data/weights_file.h"

bool
yki_is_weight(const yoke_node *node)
{
    return node->role == YKI_ROLE_PARAMETER ||
           (node->role == YKI_ROLE_STATE && !yki_is_constant(node));
}

yoke_status
yki_list_weights(const yoke_graph *graph, const yoke_node ***nodes, size_t *count)
{
    static const yki_node_role roles[] = {YKI_ROLE_PARAMETER, YKI_ROLE_STATE};

    *count = 0;
    *nodes = yki_alloc(graph->node_count, sizeof **nodes, "a list of weights");
    if (!*nodes)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t r = 0; r < YKI_COUNT(roles); r++)
        for (size_t i = 0; i < graph->node_count; i++)
            if (graph->nodes[i]->role == roles[r] && yki_is_weight(graph->nodes[i]))
                (*nodes)[(*count)++] = graph->nodes[i];
    return YOKE_OK;
}

/* ---- saving ---- */

typedef struct saving {
    const yoke_node **nodes;
    yoke_status (*get)(void *user, const yoke_node *node, float *values);
    void *user;
} saving;

static yoke_status
give(void *user, size_t index, void *out)
{
    const saving *s = user;

    return s->get(s->user, s->nodes[index], out);
}

static yoke_status
save_nodes(const char *path, const yki_text *texts, size_t text_count, saving *s, size_t count)
{
    yki_tensor_source *tensors = yki_alloc(count, sizeof *tensors, "a list of weights");
    yoke_status status;

    if (!tensors)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        tensors[i] = (yki_tensor_source){s->nodes[i]->name, YKI_DTYPE_F32,
                                         (uint32_t)s->nodes[i]->shape.rank, s->nodes[i]->shape.dim};
    status = yki_safetensors_write(path, texts, text_count, tensors, count, give, s);
    yki_free(tensors);
    return status;
}

yoke_status
yki_weights_file_save(const char *path, const yoke_graph *graph, const yki_model_info *info,
                      yoke_status (*get)(void *, const yoke_node *, float *), void *user)
{
    yki_text texts[2 + YKI_MODEL_TEXTS] = {{(char *)"format", (char *)"pt"},
                                           {(char *)YKI_GRAPH_KEY, NULL}};
    saving s = {.get = get, .user = user};
    size_t count = 0, infos = 0;
    yoke_status status;

    YKI_TRY(yoke_graph_to_json(graph, &texts[1].value));
    status = info ? yki_model_info_write(info, texts + 2, &infos) : YOKE_OK;
    if (status == YOKE_OK)
        status = yki_list_weights(graph, &s.nodes, &count);
    if (status == YOKE_OK)
        status = save_nodes(path, texts, 2 + infos, &s, count);
    yki_free(s.nodes);
    for (size_t i = 0; i < infos; i++)
        yki_free(texts[2 + i].value);
    yki_free(texts[1].value);
    return status;
}

/* ---- the graph of a file ---- */

yoke_status
yki_weights_file_graph(const yki_safetensors *file, yoke_graph **graph)
{
    const char *text = yki_safetensors_text(file, YKI_GRAPH_KEY);
    yoke_status status;

    if (!text)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has weights but no graph: make a model of the graph, and load them "
                        "into it",
                        file->path);
    status = yoke_graph_from_json(text, strlen(text), graph);
    return status == YOKE_OK ? YOKE_OK : yki_fail_in(status, file->path);
}
