/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding.c - rows of a table, selected by integers: x (S...) and weight (rows,
 * width) give (S..., width). The gradient by the table sums, over the whole batch, the
 * rows of dy whose index selected each row of the table.
 *
 * Indices are checked where they come in from the host (yoke_node.limit). The kernels
 * only make sure that nothing is read out of bounds: an index beyond the table gives a
 * row of NaN, which stops the step.
 */
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

static void
describe_grad(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "%lld rows", (long long)yki_embedding_attrs_get(attrs).rows);
}

static yoke_status
check_indices(const yoke_node *x)
{
    if (x->type == YOKE_F32)
        return yki_fail_type("the input", x, "i32 or u8");
    if (x->shape.rank + 1 >= YOKE_MAX_RANK)
        return yki_fail(YOKE_ERROR_SHAPE, "the input \"%s\" has rank %d; must be at most %d",
                        x->name, x->shape.rank, YOKE_MAX_RANK - 2);
    return YOKE_OK;
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0], *weight = node->inputs[1];

    YKI_TRY(check_indices(x));
    YKI_TRY(yki_check_f32("the weight", weight));
    if (weight->batched || weight->shape.rank != 2)
        return yki_fail_shape("the weight", weight, "(rows, width)");
    node->type = YOKE_F32;
    node->batched = x->batched;
    node->shape = x->shape;
    node->shape.dim[node->shape.rank++] = weight->shape.dim[1];
    return YOKE_OK;
}

/* x (S...), dy (S..., width)[, more (rows, width)] -> (rows, width) */
static yoke_status
infer_grad(yoke_node *node)
{
    const yoke_node *dy = node->inputs[1];

    YKI_TRY(check_indices(node->inputs[0]));
    node->type = YOKE_F32;
    node->batched = false;
    node->shape =
        yoke_shape(yki_embedding_attrs_get(&node->attrs).rows, dy->shape.dim[dy->shape.rank - 1]);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yki_embedding_attrs attrs = {node->inputs[1]->shape.dim[0]};
    yoke_node *inputs[2] = {node->inputs[0], dy};

    if (wanted[1])
        dx[1] =
            yki_node(node->graph, &yki_op_embedding_grad, NULL, inputs, 2, &attrs, sizeof attrs);
    return yki_graph_status(node->graph);
}

static double
flops_grad(const yoke_node *node)
{
    return (double)yki_shape_count(node->inputs[1]->shape);
}

const yki_op yki_op_embedding = {
    .name = "embedding",
    .infer = infer,
    .gradient = gradient,
};

const yki_op yki_op_embedding_grad = {
    .name = "embedding_grad",
    .infer = infer_grad,
    .flops = flops_grad,
    .describe = describe_grad,
    .in_place = 1u << 2,
    .measured_in_place = true,
};

static yoke_node *
build(yoke_graph *graph, const char *name, yoke_node *x, const yoke_embedding_options *o)
{
    yoke_initializer init = o->weight_init;
    yoke_node *inputs[2] = {x, NULL}, *node;

    if (init.kind == YOKE_INIT_DEFAULT)
        init = (yoke_initializer){YOKE_INIT_NORMAL, 0, 1, 0};
    inputs[1] = yki_parameter(graph, name, "weight", yoke_shape(o->rows, o->width), init, o->width,
                              o->rows);
    node = yki_node(graph, &yki_op_embedding, name, inputs, 2, NULL, 0);
    return node && yki_limit_values(x, 0, o->rows, NULL) ? node : NULL;
}

yoke_node *
yoke_embedding_sized(yoke_graph *graph, yoke_node *x, const yoke_embedding_options *options,
                     size_t size)
{
    yoke_embedding_options o = {0};
    yoke_node *node;
    char *name;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    name = yki_layer_name(graph, o.name, "embedding");
    if (!name)
        return NULL;
    if (o.rows < 1 || o.rows > INT32_MAX || o.width < 1 || o.width > INT32_MAX) {
        bool rows = o.rows < 1 || o.rows > INT32_MAX;

        yki_graph_fail(graph, name,
                       yki_fail_range(YOKE_ERROR_VALUE, rows ? "rows" : "width",
                                      rows ? o.rows : o.width, 1, INT32_MAX));
        yki_free(name);
        return NULL;
    }
    node = build(graph, name, x, &o);
    yki_free(name);
    return node;
}
