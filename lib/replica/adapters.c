/* SPDX-License-Identifier: Apache-2.0
 *
 * adapters.c - the low-rank adapters of a model: read from a folder, written to one, and merged
 * into the weights.
 *
 * Adding and merging change the nodes of the model's graph, and with them their numbers, so the
 * values are brought along by name.
 */
#include <string.h>

#include "data/adapter_file.h"
#include "op/ops.h"
#include "replica/model.h"

/* What a model has must not change under a predictor. */
static yoke_status
check_unused(const yoke_model *m, const char *function)
{
    if (!m->predicting)
        return yki_graph_check_open(m->graph);
    return yki_fail(YOKE_ERROR_STATE,
                    "%s: predictors or generators were made of the model; must come before them",
                    function);
}

/* The values by the numbers and names that nodes have now. */
typedef struct kept {
    char **names;
    float **values;
    size_t count;
} kept;

static void
kept_clear(kept *k)
{
    for (size_t i = 0; i < k->count; i++) {
        if (k->names)
            yki_free(k->names[i]);
        if (k->values)
            yki_free(k->values[i]);
    }
    yki_free(k->names);
    yki_free(k->values);
}

/* Notes the names of the model's weights; takes no values yet. */
static yoke_status
keep_names(const yoke_model *m, kept *k)
{
    k->names = yki_alloc(m->graph->node_count, sizeof *k->names, "names of weights");
    if (!k->names)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (; k->count < m->graph->node_count; k->count++) {
        const yoke_node *node = m->graph->nodes[k->count];

        if (!m->values[k->count])
            continue;
        k->names[k->count] = yki_strdup(node->name, "names of weights");
        if (!k->names[k->count])
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    return YOKE_OK;
}

/* Makes room for the values of the graph as it is now, and moves those that were kept there. */
static yoke_status
move_values(yoke_model *m, kept *k)
{
    float **values = yki_alloc(m->graph->node_count, sizeof *values, "a model's weights");

    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    k->values = m->values;
    m->values = values;
    m->value_count = m->graph->node_count;
    for (size_t i = 0; i < k->count; i++) {
        const yoke_node *node = k->names[i] ? yoke_graph_get_node(m->graph, k->names[i]) : NULL;

        if (!node)
            continue;
        values[node->id] = k->values[i];
        k->values[i] = NULL;
    }
    for (size_t i = 0; i < m->value_count; i++) {
        const yoke_node *node = m->graph->nodes[i];

        if (!yki_is_weight(node) || values[i])
            continue;
        values[i] = yki_alloc((size_t)yki_shape_count(node->shape), sizeof(float), node->name);
        if (!values[i])
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    m->version++;
    return YOKE_OK;
}

/* Changes the graph, and brings the values along. */
static yoke_status
change(yoke_model *m, yki_adapter_file *file)
{
    kept k = {0};
    yoke_status status = keep_names(m, &k), moved;

    if (status == YOKE_OK) {
        status = file ? yki_adapters_add(file, m->graph) : yki_remove_adapters(m->graph);
        moved = move_values(m, &k);
        status = status == YOKE_OK ? moved : status;
    }
    kept_clear(&k);
    return status;
}

static yoke_status
put(void *user, const yoke_node *node, const float *values)
{
    const yoke_model *m = user;

    memcpy(m->values[node->id], values, (size_t)yki_shape_count(node->shape) * sizeof *values);
    return YOKE_OK;
}

yoke_status
yoke_model_load_adapters(yoke_model *m, const char *folder)
{
    yki_adapter_file *file = NULL;
    yoke_status status;

    YKI_GIVEN("yoke_model_load_adapters", {"model", m}, {"folder", folder});
    YKI_TRY(check_unused(m, "yoke_model_load_adapters"));
    YKI_TRY(yki_adapters_open(folder, &file));
    status = change(m, file);
    if (status == YOKE_OK)
        status = yki_adapters_load(file, m->graph, put, m);
    yki_adapters_close(file);
    return status;
}

static yoke_status
get(void *user, const yoke_node *node, float *values)
{
    const yoke_model *m = user;

    memcpy(values, m->values[node->id], (size_t)yki_shape_count(node->shape) * sizeof *values);
    return YOKE_OK;
}

yoke_status
yoke_model_save_adapters(const yoke_model *m, const char *folder)
{
    YKI_GIVEN("yoke_model_save_adapters", {"model", m}, {"folder", folder});
    return yki_adapters_save(folder, m->graph, get, (void *)m);
}

/* Adds factor B A to the weight, in double. */
static yoke_status
merge_one(const yoke_model *m, const yki_adapter *adapter)
{
    const yoke_node *weight = adapter->layer->inputs[1];
    const float *a = m->values[adapter->a->id], *b = m->values[adapter->b->id];
    float *w = m->values[weight->id];
    const int64_t out = weight->shape.dim[0], in = weight->shape.dim[1];
    double *row = yki_alloc((size_t)in, sizeof *row, "a row of a weight");

    if (!row)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t o = 0; o < out; o++) {
        memset(row, 0, (size_t)in * sizeof *row);
        for (int64_t r = 0; r < adapter->rank; r++)
            for (int64_t i = 0; i < in; i++)
                row[i] += (double)b[o * adapter->rank + r] * (double)a[r * in + i];
        for (int64_t i = 0; i < in; i++)
            w[o * in + i] = (float)((double)w[o * in + i] + (double)adapter->factor * row[i]);
    }
    yki_free(row);
    return YOKE_OK;
}

yoke_status
yoke_model_merge_adapters(yoke_model *m)
{
    size_t count = 0;
    yki_adapter adapter;

    YKI_GIVEN("yoke_model_merge_adapters", {"model", m});
    YKI_TRY(check_unused(m, "yoke_model_merge_adapters"));
    YKI_TRY(yki_check_removable(m->graph));
    for (size_t i = 0; i < m->graph->node_count; i++)
        if (yki_find_adapter(m->graph->nodes[i], &adapter)) {
            YKI_TRY(merge_one(m, &adapter));
            count++;
        }
    if (count == 0)
        return yki_fail(YOKE_ERROR_STATE, "the model has no adapters; must have some to merge");
    return change(m, NULL);
}
