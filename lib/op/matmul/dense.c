/* SPDX-License-Identifier: Apache-2.0
 *
 * dense.c - the fully connected layer: a matrix product with the layer's weight over
 * the last axis, and a bias. The order of axes and the initial values are PyTorch's.
 */
#include <string.h>

#include "op/matmul/matmul.h"

static yoke_status
check(const yoke_node *x, const yoke_dense_options *options)
{
    if (!x) /* yki_node compares the graphs */
        return yki_fail_node("the input", x);
    if (options->units <= 0 || options->units > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "units", options->units, 1, INT32_MAX);
    if (x->shape.rank < 1)
        return yki_fail_shape("the input", x, "(..., in)");
    return YOKE_OK;
}

yoke_node *
yoke_dense_sized(yoke_graph *graph, yoke_node *x, const yoke_dense_options *options, size_t size)
{
    yoke_dense_options o = {0};
    yki_matmul_attrs attrs = {.transpose_b = 1};
    yoke_node *inputs[3] = {x}, *node;
    char *name;
    int64_t in;
    yoke_status status;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    name = yki_layer_name(graph, o.name, "dense");
    if (!name)
        return NULL;
    status = check(x, &o);
    if (status != YOKE_OK) {
        yki_graph_fail(graph, name, status);
        yki_free(name);
        return NULL;
    }
    in = x->shape.dim[x->shape.rank - 1];
    inputs[1] =
        yki_parameter(graph, name, "weight", yoke_shape(o.units, in), o.weight_init, in, o.units);
    if (!o.no_bias) {
        attrs.bias = 1;
        inputs[2] =
            yki_parameter(graph, name, "bias", yoke_shape(o.units), o.bias_init, in, o.units);
    }
    node = yki_node(graph, &yki_op_matmul, name, inputs, o.no_bias ? 2 : 3, &attrs, sizeof attrs);
    yki_free(name);
    return node;
}
