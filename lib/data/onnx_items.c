/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_items.c - values of a model of ONNX while it is imported: constants with their numbers, and
 * how they become parameters beside nodes.
 */
#include <stdio.h>
#include <string.h>

#include "data/onnx_import.h"
#include "op/ops.h"

/* A constant may be copied so often. */
enum { MOST_COPIES = 8 };

static const char weight_ending[] = ".weight";

/* ---- constants ---- */

yoke_status
yki_onnx_numbers(yki_onnx_importer *im, yki_onnx_item *item)
{
    if (item->kind != YKI_ONNX_CONSTANT)
        return yki_onnx_refuse(im, "\"%s\" is computed from the data; must be a constant",
                               item->name);
    if (item->floats || item->ints)
        return YOKE_OK;
    YKI_TRY(yki_onnx_check_size(im->model, item->tensor));
    if (item->is_float)
        item->floats = yki_onnx_keep(im->model, (size_t)item->count, sizeof *item->floats);
    else
        item->ints = yki_onnx_keep(im->model, (size_t)item->count, sizeof *item->ints);
    if (!item->floats && !item->ints)
        return YOKE_ERROR_OUT_OF_MEMORY;
    im->room += YKI_MIN(item->count, INT32_MAX) * MOST_COPIES;
    return item->is_float ? yki_onnx_read_floats(im->model, item->tensor, item->floats)
                          : yki_onnx_read_ints(im->model, item->tensor, item->ints);
}

yoke_status
yki_onnx_list(yki_onnx_importer *im, size_t index, const char *attr, const int64_t **list,
              size_t *count)
{
    yki_onnx_item *item = index < im->in_count ? im->in[index] : NULL;
    const yki_onnx_attr *a = attr ? yki_onnx_get_attr(im, attr) : NULL;

    *list = NULL;
    *count = 0;
    if (a) {
        *list = a->ints;
        *count = a->count;
    }
    if (!item)
        return YOKE_OK;
    YKI_TRY(yki_onnx_numbers(im, item));
    if (item->is_float)
        return yki_onnx_refuse(im, "\"%s\" has floats; must have whole numbers", item->name);
    for (int64_t i = 0; item->batches && i < item->count; i++)
        if (item->batches[i])
            return yki_onnx_refuse(im, "\"%s\" depends on the size of the batch; must not",
                                   item->name);
    *list = item->ints;
    *count = (size_t)item->count;
    return YOKE_OK;
}

/* So a small file cannot ask for much memory. */
yoke_status
yki_onnx_check_room(const yki_onnx_importer *im, int64_t count)
{
    return count <= im->room
               ? YOKE_OK
               : yki_onnx_refuse(im,
                                 "its result has %lld elements; constants that are computed "
                                 "may have %lld more",
                                 (long long)count, (long long)im->room);
}

yoke_status
yki_onnx_new_constant(yki_onnx_importer *im, bool is_float, int32_t rank, const int64_t *dim)
{
    yki_onnx_item *out = im->out;

    if (rank > YKI_ONNX_RANK)
        return yki_onnx_refuse(im, "its result has %d axes; must have at most %d", (int)rank,
                               YKI_ONNX_RANK);
    out->kind = YKI_ONNX_CONSTANT;
    out->is_float = is_float;
    out->literal = true;
    out->rank = rank;
    out->count = 1;
    for (int32_t i = 0; i < rank; i++) {
        if (dim[i] < 0 || (dim[i] && out->count > INT32_MAX / dim[i]))
            return yki_onnx_refuse(im, "its result is too large, or has a size below 0");
        out->dim[i] = dim[i];
        out->count *= dim[i];
    }
    YKI_TRY(yki_onnx_check_room(im, out->count));
    im->room -= out->count;
    if (is_float)
        out->floats = yki_onnx_keep(im->model, (size_t)out->count, sizeof *out->floats);
    else
        out->ints = yki_onnx_keep(im->model, (size_t)out->count, sizeof *out->ints);
    return out->floats || out->ints ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

yoke_status
yki_onnx_single(yki_onnx_importer *im, yki_onnx_item *item, bool *is, double *value)
{
    *is = item->kind == YKI_ONNX_CONSTANT && item->count == 1;
    if (!*is)
        return YOKE_OK;
    YKI_TRY(yki_onnx_numbers(im, item));
    if (item->batches && item->batches[0])
        return yki_onnx_refuse(im, "\"%s\" depends on the size of the batch; must not", item->name);
    *value = item->is_float ? (double)item->floats[0] : (double)item->ints[0];
    return YOKE_OK;
}

/* ---- names ---- */

static bool
is_taken(const yoke_graph *graph, const char *name)
{
    char part[512];

    if (yoke_graph_get_node(graph, name))
        return true;
    snprintf(part, sizeof part, "%.400s%s", name, weight_ending);
    return yoke_graph_get_node(graph, part) != NULL;
}

/* A copy of `length` bytes of a name, with a number behind it if that is taken. */
static const char *
free_name(yki_onnx_importer *im, const char *name, size_t length)
{
    const size_t room = length + 16;
    char *out = yki_onnx_keep(im->model, room, 1);

    if (!out)
        return NULL;
    snprintf(out, room, "%.*s", (int)length, name);
    for (unsigned i = 2; is_taken(im->graph, out); i++)
        snprintf(out, room, "%.*s.%u", (int)length, name, i);
    return out;
}

const char *
yki_onnx_layer_name(yki_onnx_importer *im, const yki_onnx_item *weight)
{
    const size_t length = strlen(weight->label), ending = sizeof weight_ending - 1;

    if (length > ending && strcmp(weight->label + length - ending, weight_ending) == 0)
        return free_name(im, weight->label, length - ending);
    return free_name(im, *weight->label ? weight->label : "weight",
                     *weight->label ? length : strlen("weight"));
}

/* ---- values of weights ---- */

yoke_status
yki_onnx_set_values(yki_onnx_importer *im, const yoke_node *node, float *values)
{
    void *list = im->made->values;
    const yoke_status status = yki_grow(&list, &im->capacity, (size_t)node->id + 1,
                                        sizeof *im->made->values, "a list of weights");

    im->made->values = list;
    YKI_TRY(status);
    im->made->values[node->id] = values;
    im->made->count = YKI_MAX(im->made->count, (size_t)node->id + 1);
    return YOKE_OK;
}

yoke_status
yki_onnx_set_part(yki_onnx_importer *im, const char *layer, const char *part, float *values)
{
    char *name = yki_format("%s.%s", layer, part);
    const yoke_node *node;

    if (!name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    node = yoke_graph_get_node(im->graph, name);
    yki_free(name);
    if (!node)
        return yki_onnx_refuse(im, "%s",
                               yki_graph_status(im->graph) ? im->graph->detail : "has no weight");
    return yki_onnx_set_values(im, node, values);
}

/* ---- as nodes ---- */

/* A parameter with the numbers of the constant; `drop`: without the first axis, which is 1. */
static yoke_status
make_parameter(yki_onnx_importer *im, yki_onnx_item *item, int32_t drop)
{
    const yoke_initializer zeros = {YOKE_INIT_ZEROS, 0, 0, 0};
    const char *name;

    YKI_TRY(yki_onnx_numbers(im, item));
    if (!item->is_float)
        return yki_onnx_refuse(im, "\"%s\" has whole numbers; must have floats beside data",
                               item->name);
    if (item->rank - drop >= YOKE_MAX_RANK || item->count == 0)
        return yki_onnx_refuse(im,
                               "\"%s\" has %d axes and %lld elements; must have at most %d "
                               "axes, and elements",
                               item->name, (int)item->rank, (long long)item->count,
                               YOKE_MAX_RANK - 1);
    name = free_name(im, item->label, strlen(item->label));
    if (!name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    item->parameter = yoke_parameter(
        im->graph, name, yoke_shape_of((size_t)(item->rank - drop), item->dim + drop), zeros);
    if (!item->parameter)
        return yki_onnx_refuse(im, "%s", im->graph->detail);
    item->parameter->frozen = item->literal;
    return yki_onnx_set_values(im, item->parameter, item->floats);
}

/* The scaled node as a node of its own. */
static yoke_status
finish(yki_onnx_importer *im, yki_onnx_item *item)
{
    if (item->gauss)
        return yki_onnx_refuse(im,
                               "\"%s\" is an Erf; must be part of a GELU: x * (1 + erf(x / "
                               "sqrt(2))) / 2",
                               item->name);
    if (item->factor == 1 && item->offset == 0)
        return YOKE_OK;
    item->node = yoke_scale(im->graph, item->node, (float)item->factor, (float)item->offset);
    item->factor = 1;
    item->offset = 0;
    return item->node ? YOKE_OK : yki_onnx_refuse(im, "%s", im->graph->detail);
}

static yoke_status
parameter_of(yki_onnx_importer *im, yki_onnx_item *item, int32_t drop, yoke_node **node)
{
    if (!item->parameter)
        YKI_TRY(make_parameter(im, item, drop));
    *node = item->parameter;
    if (item->turned)
        *node = yoke_transpose(im->graph, *node, NULL);
    if (*node && (*node)->shape.rank != item->rank - drop)
        *node = yoke_reshape(im->graph, *node,
                             yoke_shape_of((size_t)(item->rank - drop), item->dim + drop));
    return *node ? YOKE_OK : yki_onnx_refuse(im, "%s", im->graph->detail);
}

yoke_status
yki_onnx_moved_node(yki_onnx_importer *im, yki_onnx_item *item, yoke_node **node)
{
    if (item->kind == YKI_ONNX_CONSTANT)
        return parameter_of(im, item, 0, node);
    YKI_TRY(finish(im, item));
    if (item->node->type != YOKE_F32)
        return yki_onnx_refuse(im,
                               "\"%s\" has whole numbers; yoke looks up rows of a table with "
                               "them, and computes with floats",
                               item->name);
    *node = item->node;
    return YOKE_OK;
}

yoke_status
yki_onnx_node_of(yki_onnx_importer *im, yki_onnx_item *item, yoke_node **node)
{
    if (item->kind == YKI_ONNX_NODE && (item->batch.at != 0 || item->batch.joined))
        return yki_onnx_refuse(im, "\"%s\" has the batch %sin axis %d; must be in the first%s",
                               item->name, item->batch.joined ? "and another axis " : "",
                               (int)item->batch.at, item->batch.joined ? ", alone" : "");
    return yki_onnx_moved_node(im, item, node);
}

yoke_status
yki_onnx_operand(yki_onnx_importer *im, yki_onnx_item *item, const yoke_node *beside,
                 yoke_node **node)
{
    const int32_t rank = beside->shape.rank;
    int64_t dim[YKI_ONNX_RANK];
    const int32_t has = yki_onnx_dims(item, dim);

    if (item->kind == YKI_ONNX_CONSTANT || !item->node->batched) {
        if (!beside->batched || has <= rank)
            return yki_onnx_node_of(im, item, node);
        if (item->kind == YKI_ONNX_CONSTANT && has == rank + 1 && dim[0] == 1)
            return parameter_of(im, item, 1, node);
        return yki_onnx_refuse(im,
                               "\"%s\" has %d axes beside a value of %d; must have fewer, or 1 "
                               "as its first size, which is that of the batch",
                               item->name, (int)has, (int)rank + 1);
    }
    if (beside->batched && has != rank + 1)
        return yki_onnx_refuse(im,
                               "\"%s\" has %d axes beside a value of %d; must have as many, as "
                               "their batches would not meet",
                               item->name, (int)has, (int)rank + 1);
    return yki_onnx_node_of(im, item, node);
}

yoke_status
yki_onnx_number_node(yki_onnx_importer *im, const char *name, double value, yoke_node **node)
{
    yki_onnx_item *item = yki_onnx_keep(im->model, 1, sizeof *item);
    float *floats = yki_onnx_keep(im->model, 1, sizeof *floats);

    if (!item || !floats)
        return YOKE_ERROR_OUT_OF_MEMORY;
    *floats = (float)value;
    *item = (yki_onnx_item){.name = name,
                            .label = name,
                            .kind = YKI_ONNX_CONSTANT,
                            .is_float = true,
                            .literal = true,
                            .rank = 1,
                            .dim = {1},
                            .count = 1,
                            .floats = floats};
    return parameter_of(im, item, 0, node);
}

/* ---- axes ---- */

int32_t
yki_onnx_dims(const yki_onnx_item *item, int64_t dim[YKI_ONNX_RANK])
{
    int32_t rank = 0;

    if (item->kind == YKI_ONNX_CONSTANT) {
        memcpy(dim, item->dim, sizeof item->dim);
        return item->rank;
    }
    for (int32_t i = 0; i <= item->node->shape.rank; i++) {
        const bool batch = item->node->batched && i == item->batch.at;

        if (batch)
            dim[rank++] = -1;
        if (i < item->node->shape.rank && !(batch && item->batch.joined))
            dim[rank++] = item->node->shape.dim[i];
    }
    return rank;
}

yoke_status
yki_onnx_axis(const yki_onnx_importer *im, int64_t axis, int32_t rank, int32_t *out)
{
    if (axis < -rank || axis >= rank)
        return yki_onnx_refuse(im, "its axis is %lld; must be between %d and %d", (long long)axis,
                               (int)-rank, (int)rank - 1);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return YOKE_OK;
}

yoke_status
yki_onnx_node_axis(const yki_onnx_importer *im, int64_t axis, const yki_onnx_item *item,
                   int32_t *out)
{
    const yoke_node *node = item->node;

    YKI_TRY(yki_onnx_axis(im, axis, node->shape.rank + node->batched - item->batch.joined, out));
    if (node->batched && *out == item->batch.at)
        return yki_onnx_refuse(im, "it works along the batch; must work on each sample");
    *out -= node->batched && !item->batch.joined && *out > item->batch.at;
    return YOKE_OK;
}
