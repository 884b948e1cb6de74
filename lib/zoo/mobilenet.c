/* SPDX-License-Identifier: Apache-2.0
 *
 * mobilenet.c - MobileNetV2, with the names of torchvision.
 */
#include <stdio.h>
#include <string.h>

#include "zoo/zoo.h"

/* 3x3, each channel by itself. */
static yoke_node *
depthwise(yoke_graph *g, yoke_node *x, int64_t stride, const char *name)
{
    yoke_conv2d_options o;

    memset(&o, 0, sizeof o);
    o.filters = o.groups = yoke_node_shape(x).dim[0];
    o.kernel[0] = o.kernel[1] = 3;
    o.stride[0] = o.stride[1] = stride;
    o.pad[0] = o.pad[1] = 1;
    o.no_bias = true;
    o.name = name;
    return yoke_conv2d(g, x, &o);
}

/* The names of a part of an inverted residual, a convolution and its batch norm. Those that relu
 * follows are a layer of two, as in torchvision. */
typedef struct mobile_names {
    char conv[40], norm[40];
} mobile_names;

static mobile_names
name_part(int block, int part, bool with_relu)
{
    mobile_names n;

    snprintf(n.conv, sizeof n.conv, "features.%d.conv.%d%s", block, part, with_relu ? ".0" : "");
    if (with_relu)
        snprintf(n.norm, sizeof n.norm, "features.%d.conv.%d.1", block, part);
    else
        snprintf(n.norm, sizeof n.norm, "features.%d.conv.%d", block, part + 1);
    return n;
}

/* 1x1 to `expansion` times the channels, 3x3 depthwise, 1x1 without relu. */
static yoke_node *
inverted_residual(yoke_graph *g, yoke_node *x, int64_t filters, int64_t expansion, int64_t stride,
                  int block)
{
    int64_t channels = yoke_node_shape(x).dim[0];
    mobile_names n = name_part(block, 0, true);
    yoke_node *y = x;
    int part = 0;

    if (expansion > 1) {
        y = yki_zoo_conv(g, y, expansion * channels, 1, 1, 0, n.conv);
        y = yoke_relu(g, yki_zoo_norm(g, y, n.norm));
        n = name_part(block, ++part, true);
    }
    y = yoke_relu(g, yki_zoo_norm(g, depthwise(g, y, stride, n.conv), n.norm));
    n = name_part(block, ++part, false);
    y = yki_zoo_norm(g, yki_zoo_conv(g, y, filters, 1, 1, 0, n.conv), n.norm);
    return stride == 1 && filters == channels ? yoke_add(g, x, y) : y;
}

/* MobileNetV2, with relu instead of relu6. For small images the first two strides are 1. */
yoke_node *
yki_zoo_mobilenet(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    static const struct {
        int64_t expansion, filters, blocks, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    bool small = yki_zoo_is_small(x);
    int block = 1;

    x = yki_zoo_conv(g, x, 32, 3, small ? 1 : 2, 1, "features.0.0");
    x = yoke_relu(g, yki_zoo_norm(g, x, "features.0.1"));
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
        for (int64_t i = 0; i < stages[s].blocks; i++)
            x = inverted_residual(g, x, stages[s].filters, stages[s].expansion,
                                  i > 0 || (small && s == 1) ? 1 : stages[s].stride, block++);
    x = yki_zoo_conv(g, x, 1280, 1, 1, 0, "features.18.0");
    x = yoke_relu(g, yki_zoo_norm(g, x, "features.18.1"));
    return yki_zoo_dense(g, yoke_global_avgpool(g, x), outputs, "classifier.1");
}
