/* SPDX-License-Identifier: Apache-2.0
 *
 * resnet.c - ResNet-18, -34 and -50, with the names of torchvision.
 */
#include <stdio.h>

#include "zoo/zoo.h"

/* The position of a residual block: its layer, from 1, and its number in the layer, from 0. */
typedef struct place {
    int layer, block;
} place;

/* A convolution with its batch norm. Names are those of torchvision, such as layer1.0.conv2 and
 * layer1.0.bn2. */
static yoke_node *
conv_norm(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride, place at,
          int number)
{
    char name[2][40];

    snprintf(name[0], sizeof name[0], "layer%d.%d.conv%d", at.layer, at.block, number);
    snprintf(name[1], sizeof name[1], "layer%d.%d.bn%d", at.layer, at.block, number);
    return yki_zoo_norm(g, yki_zoo_conv(g, x, filters, size, stride, size / 2, name[0]), name[1]);
}

/* The input of a block, which is added to its result; it is projected if the shapes differ. */
static yoke_node *
shortcut(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride, place at)
{
    char name[2][40];

    if (stride == 1 && yoke_node_shape(x).dim[0] == filters)
        return x;
    snprintf(name[0], sizeof name[0], "layer%d.%d.downsample.0", at.layer, at.block);
    snprintf(name[1], sizeof name[1], "layer%d.%d.downsample.1", at.layer, at.block);
    return yki_zoo_norm(g, yki_zoo_conv(g, x, filters, 1, stride, 0, name[0]), name[1]);
}

/* Two 3x3 convolutions. */
static yoke_node *
basic_block(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride, place at)
{
    yoke_node *y = yoke_relu(g, conv_norm(g, x, filters, 3, stride, at, 1));

    y = conv_norm(g, y, filters, 3, 1, at, 2);
    return yoke_relu(g, yoke_add(g, y, shortcut(g, x, filters, stride, at)));
}

/* 1x1, 3x3 on a quarter of the channels, 1x1. */
static yoke_node *
bottleneck(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride, place at)
{
    yoke_node *y = yoke_relu(g, conv_norm(g, x, filters, 1, 1, at, 1));

    y = yoke_relu(g, conv_norm(g, y, filters, 3, stride, at, 2));
    y = conv_norm(g, y, 4 * filters, 1, 1, at, 3);
    return yoke_relu(g, yoke_add(g, y, shortcut(g, x, 4 * filters, stride, at)));
}

typedef yoke_node *(*residual_block)(yoke_graph *, yoke_node *, int64_t filters, int64_t stride,
                                     place at);

/* For small images the stem is 3x3 with stride 1 and no pooling; for large ones it is
 * torchvision's. */
static yoke_node *
stem(yoke_graph *g, yoke_node *x)
{
    yoke_pool2d_options pool = yki_zoo_window(3);

    if (yki_zoo_is_small(x))
        return yoke_relu(g, yki_zoo_norm(g, yki_zoo_conv(g, x, 64, 3, 1, 1, "conv1"), "bn1"));
    pool.stride[0] = pool.stride[1] = 2;
    pool.pad[0] = pool.pad[1] = 1;
    x = yoke_relu(g, yki_zoo_norm(g, yki_zoo_conv(g, x, 64, 7, 2, 3, "conv1"), "bn1"));
    return yoke_maxpool2d(g, x, &pool);
}

static yoke_node *
build_resnet(yoke_graph *g, yoke_node *x, int64_t outputs, residual_block add_block,
             const int *blocks)
{
    x = stem(g, x);
    for (place at = {.layer = 1}; at.layer <= 4; at.layer++)
        for (at.block = 0; at.block < blocks[at.layer - 1]; at.block++)
            x = add_block(g, x, (int64_t)32 << at.layer, at.layer > 1 && at.block == 0 ? 2 : 1, at);
    return yki_zoo_dense(g, yoke_global_avgpool(g, x), outputs, "fc");
}

yoke_node *
yki_zoo_resnet18(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    static const int blocks[4] = {2, 2, 2, 2};

    return build_resnet(g, x, outputs, basic_block, blocks);
}

static const int deep_blocks[4] = {3, 4, 6, 3};

yoke_node *
yki_zoo_resnet34(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    return build_resnet(g, x, outputs, basic_block, deep_blocks);
}

yoke_node *
yki_zoo_resnet50(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    return build_resnet(g, x, outputs, bottleneck, deep_blocks);
}
