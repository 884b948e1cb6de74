/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - layers as the built-in models need them, with few arguments.
 */
#include "zoo/zoo.h"

enum { LARGE_IMAGE = 112 };

yoke_node *
yki_zoo_dense(yoke_graph *g, yoke_node *x, int64_t units, const char *name)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .name = name});
}

static yoke_node *
conv(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride, int64_t pad,
     bool no_bias, const char *name)
{
    const yoke_conv2d_options o = {.filters = filters,
                                   .kernel = {size, size},
                                   .stride = {stride, stride},
                                   .pad = {pad, pad},
                                   .no_bias = no_bias,
                                   .name = name};

    return yoke_conv2d(g, x, &o);
}

yoke_node *
yki_zoo_conv(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride,
             int64_t pad, const char *name)
{
    return conv(g, x, filters, size, stride, pad, true, name);
}

yoke_node *
yki_zoo_conv_bias(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride,
                  int64_t pad, const char *name)
{
    return conv(g, x, filters, size, stride, pad, false, name);
}

yoke_node *
yki_zoo_enlarge(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, yoke_shape like,
                const char *name)
{
    const int64_t pad = (size - 1) / 2;
    yoke_conv_transpose2d_options o = {.filters = filters,
                                       .kernel = {size, size},
                                       .stride = {2, 2},
                                       .pad = {pad, pad},
                                       .name = name};

    for (int i = 0; i < 2; i++)
        o.output_pad[i] =
            like.dim[i + 1] - (2 * (yoke_node_shape(x).dim[i + 1] - 1) + size - 2 * pad);
    return yoke_conv_transpose2d(g, x, &o);
}

yoke_node *
yki_zoo_norm(yoke_graph *g, yoke_node *x, const char *name)
{
    return yoke_batch_norm(g, x, &(yoke_batch_norm_options){.name = name});
}

yoke_pool2d_options
yki_zoo_window(int64_t size)
{
    return (yoke_pool2d_options){.kernel = {size, size}};
}

bool
yki_zoo_is_small(const yoke_node *image)
{
    const yoke_shape shape = yoke_node_shape(image);

    return shape.dim[1] < LARGE_IMAGE || shape.dim[2] < LARGE_IMAGE;
}
