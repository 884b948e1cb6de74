/* SPDX-License-Identifier: Apache-2.0
 *
 * graphs.c - see graphs.h.
 */
#include "train/graphs.h"
#include "support/support.h"

yoke_graph *
graph_two_parameters(int64_t width)
{
    yoke_initializer init = {YOKE_INIT_NORMAL, 0, 1, 0};
    yoke_graph *g;
    yoke_node *x, *h;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(width));
    h = yoke_tanh(g, yoke_mul(g, x, yoke_parameter(g, "p.weight", yoke_shape(width), init)));
    h = yoke_add(g, h, yoke_parameter(g, "q.bias", yoke_shape(1), init));
    yoke_graph_set_output(g, "y", h);
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, h, h), NULL, 0));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}
