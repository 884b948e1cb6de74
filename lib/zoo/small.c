/* SPDX-License-Identifier: Apache-2.0
 *
 * small.c - tiny, mlp, simplecnn and lenet.
 */
#include "zoo/zoo.h"

yoke_node *
yki_zoo_tiny(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    x = yoke_relu(g, yki_zoo_dense(g, yoke_flatten(g, x), 32, "fc1"));
    return yki_zoo_dense(g, x, outputs, "fc2");
}

yoke_node *
yki_zoo_mlp(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    x = yoke_relu(g, yki_zoo_dense(g, yoke_flatten(g, x), 128, "fc1"));
    return yki_zoo_dense(g, x, outputs, "fc2");
}

yoke_node *
yki_zoo_simplecnn(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    yoke_pool2d_options pool = yki_zoo_window(2);

    x = yoke_maxpool2d(g, yoke_relu(g, yki_zoo_conv_bias(g, x, 32, 3, 1, 1, "conv1")), &pool);
    return yki_zoo_dense(g, yoke_flatten(g, x), outputs, "fc1");
}

/* If images are too small for a second convolution of 5x5, it is 3x3 and both have padding. */
yoke_node *
yki_zoo_lenet(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    yoke_shape shape = yoke_node_shape(x);
    bool small = shape.dim[1] < 16 || shape.dim[2] < 16;
    yoke_pool2d_options pool = yki_zoo_window(2);

    x = yoke_relu(g, yki_zoo_conv_bias(g, x, 20, 3, 1, small ? 1 : 0, "conv1"));
    x = yoke_avgpool2d(g, x, &pool);
    x = yoke_relu(g, yki_zoo_conv_bias(g, x, 50, small ? 3 : 5, 1, small ? 1 : 0, "conv2"));
    x = yoke_avgpool2d(g, x, &pool);
    x = yoke_relu(g, yki_zoo_dense(g, yoke_flatten(g, x), 128, "fc1"));
    return yki_zoo_dense(g, x, outputs, "fc2");
}
