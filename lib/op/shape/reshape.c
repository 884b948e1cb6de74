/* SPDX-License-Identifier: Apache-2.0
 *
 * reshape.c - the same bytes under another shape: a view, so nothing is computed.
 */
#include "op/ops.h"

typedef struct reshape_attrs {
    yoke_shape shape;
} reshape_attrs;
YKI_ATTRS(reshape_attrs)

static yoke_status
infer(yoke_node *node)
{
    const reshape_attrs attrs = reshape_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];
    char from[128], to[128];

    for (int32_t i = 0; i < attrs.shape.rank; i++)
        if (attrs.shape.dim[i] <= 0)
            return yki_fail(YOKE_ERROR_SHAPE,
                            "the size of axis %d is %lld; must be between 1 and %d", i,
                            (long long)attrs.shape.dim[i], INT32_MAX);
    if (yki_shape_count(x->shape) != yki_shape_count(attrs.shape))
        return yki_fail(YOKE_ERROR_SHAPE,
                        "the shape %s has %lld elements; must have %lld, as \"%s\" of shape %s has",
                        yki_shape_text(attrs.shape, to, sizeof to),
                        (long long)yki_shape_count(attrs.shape),
                        (long long)yki_shape_count(x->shape), x->name,
                        yki_shape_text(x->shape, from, sizeof from));
    node->type = x->type;
    node->batched = x->batched;
    node->shape = attrs.shape;
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    if (wanted[0])
        dx[0] = yoke_reshape(node->graph, dy, node->inputs[0]->shape);
    return yki_graph_status(node->graph);
}

const yki_op yki_op_reshape = {
    .name = "reshape",
    .infer = infer,
    .gradient = gradient,
    .is_view = true,
};

/* `kind` names the public function, and so the node. */
static yoke_node *
reshape(yoke_graph *graph, yoke_node *x, yoke_shape shape, const char *kind)
{
    reshape_attrs attrs = {shape};
    yoke_status status;
    yoke_node *node;
    char *name;

    if (!graph)
        return NULL;
    status = yki_check_shape(shape);
    if (status != YOKE_OK) {
        yki_graph_fail(graph, kind, status);
        return NULL;
    }
    if (x && x->graph == graph && yki_shape_equal(shape, x->shape))
        return x;
    name = yki_layer_name(graph, NULL, kind);
    node = yki_node(graph, &yki_op_reshape, name, &x, 1, &attrs, sizeof attrs);
    yki_free(name);
    return node;
}

yoke_node *
yoke_reshape(yoke_graph *graph, yoke_node *x, yoke_shape shape)
{
    return reshape(graph, x, shape, "reshape");
}

yoke_node *
yoke_flatten(yoke_graph *graph, yoke_node *x)
{
    return reshape(graph, x, yoke_shape(x ? yki_shape_count(x->shape) : 1), "flatten");
}
