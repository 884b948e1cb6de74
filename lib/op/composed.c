/* SPDX-License-Identifier: Apache-2.0
 *
 * composed.c - layers that are made of others, exactly and without kernels of their own: conv1d is
 * conv2d of height 1, group norm a layer norm of groups, upsampling a product with constants. Files
 * of graphs have their parts.
 */
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

/* ---- conv1d ---- */

yoke_node *
yoke_conv1d_sized(yoke_graph *graph, yoke_node *x, const yoke_conv1d_options *options, size_t size)
{
    yoke_conv1d_options o = {0};
    yoke_conv2d_options two = {0};
    yoke_node *y;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (x && x->shape.rank != 2) {
        yki_graph_fail(graph, o.name ? o.name : "conv1d",
                       yki_fail_shape("the input", x, "(channels, length)"));
        return NULL;
    }
    two = (yoke_conv2d_options){.filters = o.filters,
                                .kernel = {1, o.kernel},
                                .stride = {1, o.stride ? o.stride : 1},
                                .pad = {0, o.pad},
                                .dilation = {1, o.dilation ? o.dilation : 1},
                                .groups = o.groups,
                                .name = o.name,
                                .no_bias = o.no_bias,
                                .weight_init = o.weight_init,
                                .bias_init = o.bias_init};
    y = x ? yoke_reshape(graph, x, yoke_shape(x->shape.dim[0], 1, x->shape.dim[1])) : NULL;
    y = yoke_conv2d(graph, y, &two);
    return y ? yoke_reshape(graph, y, yoke_shape(y->shape.dim[0], y->shape.dim[2])) : NULL;
}

/* ---- one number for each channel ---- */

/* A parameter NAME.PART of (channels), as (channels, 1, ...) beside x. */
static yoke_node *
per_channel(yoke_graph *graph, const yoke_node *x, const char *name, const char *part, float start)
{
    const yoke_initializer init = {YOKE_INIT_CONSTANT, start, 0, 0};
    const int64_t channels = x->shape.dim[0];
    yoke_shape shape = {.rank = x->shape.rank, .dim = {channels}};
    yoke_node *p = yki_parameter(graph, name, part, yoke_shape(channels), init, channels, channels);

    for (int32_t i = 1; i < shape.rank; i++)
        shape.dim[i] = 1;
    return p ? yoke_reshape(graph, p, shape) : NULL;
}

/* ---- group norm ---- */

yoke_node *
yoke_group_norm_sized(yoke_graph *graph, yoke_node *x, const yoke_group_norm_options *options,
                      size_t size)
{
    yoke_group_norm_options o = {0};
    yoke_layer_norm_options rows = {.axes = 1, .no_affine = true};
    yoke_node *y = NULL;
    char *name;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (!(name = yki_layer_name(graph, o.name, "gn")))
        return NULL;
    rows.epsilon = o.epsilon;
    if (!x || x->graph != graph || x->shape.rank < 1)
        yki_graph_fail(graph, name,
                       x && x->graph == graph
                           ? yki_fail_shape("the input", x, "(channels) or (channels, ...)")
                           : yki_fail_node("the input", x));
    else if (o.groups < 1 || x->shape.dim[0] % o.groups != 0)
        yki_graph_fail(graph, name,
                       yki_fail(YOKE_ERROR_VALUE,
                                "groups is %lld; must divide %lld, the number of channels",
                                (long long)o.groups, (long long)x->shape.dim[0]));
    else {
        const int64_t row = yki_shape_count(x->shape) / o.groups;

        y = yoke_layer_norm(graph, yoke_reshape(graph, x, yoke_shape(o.groups, row)), &rows);
        y = y ? yoke_reshape(graph, y, x->shape) : NULL;
        if (y && !o.no_affine)
            y = yoke_add(graph, yoke_mul(graph, y, per_channel(graph, x, name, "weight", 1)),
                         per_channel(graph, x, name, "bias", 0));
    }
    yki_free(name);
    return y;
}

/* ---- prelu ---- */

/* relu(x) - slope relu(-x) */
yoke_node *
yoke_prelu(yoke_graph *graph, yoke_node *x, const char *given)
{
    char *name = yki_layer_name(graph, given, "prelu");
    yoke_node *slope = NULL;

    if (!name)
        return NULL;
    if (x && x->graph == graph && x->shape.rank >= 1)
        slope = per_channel(graph, x, name, "weight", 0.25f);
    else
        yki_graph_fail(graph, name,
                       x && x->graph == graph ? yki_fail_shape("the input", x, "(channels, ...)")
                                              : yki_fail_node("the input", x));
    yki_free(name);
    if (!slope)
        return NULL;
    return yoke_sub(graph, yoke_relu(graph, x),
                    yoke_mul(graph, yoke_relu(graph, yoke_scale(graph, x, -1, 0)), slope));
}

/* ---- upsampling ---- */

/* Each element becomes a block of rows x columns. */
static yoke_node *
repeat(yoke_graph *graph, yoke_node *x, const char *name, int64_t rows, int64_t columns)
{
    const int64_t *d = x->shape.dim, count = rows * columns;
    float *ones = yki_alloc((size_t)count, sizeof *ones, "ones");
    yoke_node *block, *y;

    if (!ones) {
        yki_graph_fail(graph, name, YOKE_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        ones[i] = 1;
    block = yoke_constant(graph, name, yoke_shape(rows, 1, columns), ones);
    yki_free(ones);
    y = yoke_mul(graph, yoke_reshape(graph, x, yoke_shape(d[0], d[1], 1, d[2], 1)), block);
    return y ? yoke_reshape(graph, y, yoke_shape(d[0], d[1] * rows, d[2] * columns)) : NULL;
}

/* The matrix (size * factor, size) that interpolates between the centres of elements; beyond the
 * first and the last centre their values go on. */
static yoke_node *
interpolation(yoke_graph *graph, const char *name, int64_t size, int64_t factor)
{
    float *m = yki_alloc((size_t)(size * factor * size), sizeof *m, "an interpolation");
    yoke_node *node;

    if (!m) {
        yki_graph_fail(graph, name, YOKE_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    for (int64_t i = 0; i < size * factor; i++) {
        double at = ((double)i + 0.5) / (double)factor - 0.5;
        int64_t low;

        at = YKI_MAX(at, 0.0);
        low = YKI_MIN((int64_t)at, size - 1);
        m[i * size + low] = (float)(1 - (at - (double)low));
        if (low + 1 < size)
            m[i * size + low + 1] = (float)(at - (double)low);
        else
            m[i * size + low] = 1;
    }
    node = yoke_constant(graph, name, yoke_shape(size * factor, size), m);
    yki_free(m);
    return node;
}

static yoke_node *
interpolate(yoke_graph *graph, yoke_node *x, const char *name, int64_t rows, int64_t columns)
{
    const yoke_matmul_options transposed = {.transpose_b = true};
    char part[256];
    yoke_node *down, *across;

    snprintf(part, sizeof part, "%.200s.rows", name);
    down = interpolation(graph, part, x->shape.dim[1], rows);
    snprintf(part, sizeof part, "%.200s.columns", name);
    across = interpolation(graph, part, x->shape.dim[2], columns);
    return yoke_matmul(graph, yoke_matmul(graph, down, x, NULL), across, &transposed);
}

yoke_node *
yoke_upsample2d(yoke_graph *graph, yoke_node *x, int64_t rows, int64_t columns, bool bilinear)
{
    enum { MOST = 64 };
    char *name = yki_layer_name(graph, NULL, "upsample");
    yoke_node *y = NULL;

    if (!name)
        return NULL;
    if (!x || x->graph != graph || x->shape.rank != 3)
        yki_graph_fail(graph, name,
                       x && x->graph == graph
                           ? yki_fail_shape("the input", x, "(channels, height, width)")
                           : yki_fail_node("the input", x));
    else if (rows < 1 || columns < 1 || rows > MOST || columns > MOST)
        yki_graph_fail(graph, name,
                       yki_fail_range(YOKE_ERROR_VALUE, "the factor",
                                      rows < 1 || rows > MOST ? rows : columns, 1, MOST));
    else
        y = (bilinear ? interpolate : repeat)(graph, x, name, rows, columns);
    yki_free(name);
    return y;
}
