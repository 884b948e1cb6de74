/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - the layers that users call: conv2d and conv_transpose2d with their
 * parameters, in PyTorch's order of axes and with its initial values.
 *
 * It checks only what the operators cannot know, which is the options themselves.
 */
#include <stdio.h>
#include <string.h>

#include "op/conv/conv.h"

bool
yki_take_pair(yoke_graph *graph, const char *layer, const char *field, const int64_t given[2],
              const int32_t *zero, int64_t least, int32_t out[2])
{
    for (int i = 0; i < 2; i++) {
        int64_t value = given[i] == 0 && zero ? zero[i] : given[i];

        if (value < least || value > 1 << 20) {
            char what[32];

            snprintf(what, sizeof what, "%s[%d]", field, i);
            yki_graph_fail(
                graph, layer,
                yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, what, given[i], least, 1 << 20));
            return false;
        }
        out[i] = (int32_t)value;
    }
    return true;
}

static bool
take_count(yoke_graph *graph, const char *layer, const char *field, int64_t value, int64_t least)
{
    if (value >= least && value <= INT32_MAX)
        return true;
    yki_graph_fail(graph, layer,
                   yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, field, value, least, INT32_MAX));
    return false;
}

/* Reads what both layers have in common. Returns false after it failed the graph. Both option
 * structs begin alike but may grow apart, so it copies field by field. */
static bool
take_options(yoke_graph *graph, const char *layer, const yoke_node *x, int64_t filters,
             const int64_t *kernel, const int64_t *stride, const int64_t *pad,
             const int64_t *dilation, int64_t groups, yki_conv_attrs *a)
{
    static const int32_t ones[2] = {1, 1};
    yoke_status status = YOKE_OK;

    if (!x || x->graph != graph) {
        yki_graph_fail(graph, layer, yki_fail_node("the input", x));
        return false;
    }
    if (!take_count(graph, layer, "filters", filters, 1) ||
        !yki_take_pair(graph, layer, "kernel", kernel, NULL, 1, a->kernel) ||
        !yki_take_pair(graph, layer, "stride", stride, ones, 1, a->stride) ||
        !yki_take_pair(graph, layer, "pad", pad, NULL, 0, a->pad) ||
        !yki_take_pair(graph, layer, "dilation", dilation, ones, 1, a->dilation) ||
        !take_count(graph, layer, "groups", groups ? groups : 1, 1))
        return false;
    a->groups = groups ? (int32_t)groups : 1;
    if (x->shape.rank != 3)
        status = yki_fail_shape("the input", x, "(channels, height, width)");
    else if (x->shape.dim[0] % a->groups)
        status = yki_fail(YOKE_ERROR_SHAPE,
                          "groups is %d; must divide the channels of \"%s\", which are %lld",
                          a->groups, x->name, (long long)x->shape.dim[0]);
    else if (filters % a->groups)
        status = yki_fail(YOKE_ERROR_SHAPE, "groups is %d; must divide filters, which are %lld",
                          a->groups, (long long)filters);
    if (status != YOKE_OK)
        yki_graph_fail(graph, layer, status);
    return status == YOKE_OK;
}

/* Makes the parameters and the node. `channels` is the number of the result's, for the bias. */
static yoke_node *
layer_node(yoke_graph *graph, const char *layer, const yki_op *op, yoke_node *x, yoke_shape weight,
           int64_t channels, bool no_bias, yoke_initializer weight_init, yoke_initializer bias_init,
           const yki_conv_attrs *a)
{
    int64_t area = weight.dim[2] * weight.dim[3];
    int64_t fan_in = weight.dim[1] * area, fan_out = weight.dim[0] * area;
    yoke_node *inputs[3] = {x, NULL, NULL};

    inputs[1] = yki_parameter(graph, layer, "weight", weight, weight_init, fan_in, fan_out);
    if (!no_bias)
        inputs[2] =
            yki_parameter(graph, layer, "bias", yoke_shape(channels), bias_init, fan_in, fan_out);
    return yki_node(graph, op, layer, inputs, no_bias ? 2 : 3, a, sizeof *a);
}

yoke_node *
yoke_conv2d_sized(yoke_graph *graph, yoke_node *x, const yoke_conv2d_options *options, size_t size)
{
    yoke_conv2d_options o = {0};
    yki_conv_attrs a = {0};
    yoke_node *node = NULL;
    char *layer;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    layer = yki_layer_name(graph, o.name, "conv");
    if (!layer)
        return NULL;
    if (take_options(graph, layer, x, o.filters, o.kernel, o.stride, o.pad, o.dilation, o.groups,
                     &a))
        node =
            layer_node(graph, layer, &yki_op_conv2d, x,
                       yoke_shape(o.filters, x->shape.dim[0] / a.groups, a.kernel[0], a.kernel[1]),
                       o.filters, o.no_bias, o.weight_init, o.bias_init, &a);
    yki_free(layer);
    return node;
}

/* The result's size along axis i: the smallest one whose convolution has the input's size, plus
 * output_pad. Returns false after it failed the graph. */
static bool
transposed_size(yoke_graph *graph, const char *layer, const yoke_node *x, const int64_t *output_pad,
                yki_conv_attrs *a)
{
    for (int i = 0; i < 2; i++) {
        int64_t size = (x->shape.dim[i + 1] - 1) * a->stride[i] - 2 * (int64_t)a->pad[i] +
                       (int64_t)a->dilation[i] * (a->kernel[i] - 1) + 1;
        char text[128];

        if (output_pad[i] < 0 || output_pad[i] >= a->stride[i]) {
            snprintf(text, sizeof text, "output_pad[%d]", i);
            yki_graph_fail(graph, layer,
                           yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, text, output_pad[i], 0,
                                          a->stride[i] - 1));
            return false;
        }
        size += output_pad[i];
        if (size < 1 || size > INT32_MAX) {
            yki_graph_fail(graph, layer,
                           yki_fail(YOKE_ERROR_SHAPE,
                                    "axis %d of the result for the input \"%s\" of shape %s with a "
                                    "kernel of (%d, %d) has size %lld; must be between 1 and %d",
                                    i + 1, x->name, yki_shape_text(x->shape, text, sizeof text),
                                    a->kernel[0], a->kernel[1], (long long)size, INT32_MAX));
            return false;
        }
        a->size[i] = (int32_t)size;
    }
    return true;
}

yoke_node *
yoke_conv_transpose2d_sized(yoke_graph *graph, yoke_node *x,
                            const yoke_conv_transpose2d_options *options, size_t size)
{
    yoke_conv_transpose2d_options o = {0};
    yki_conv_attrs a = {0};
    yoke_node *node = NULL;
    char *layer;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    layer = yki_layer_name(graph, o.name, "convt");
    if (!layer)
        return NULL;
    if (take_options(graph, layer, x, o.filters, o.kernel, o.stride, o.pad, o.dilation, o.groups,
                     &a) &&
        transposed_size(graph, layer, x, o.output_pad, &a))
        node =
            layer_node(graph, layer, &yki_op_conv2d_grad_input, x,
                       yoke_shape(x->shape.dim[0], o.filters / a.groups, a.kernel[0], a.kernel[1]),
                       o.filters, o.no_bias, o.weight_init, o.bias_init, &a);
    yki_free(layer);
    return node;
}
