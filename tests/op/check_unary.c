/* SPDX-License-Identifier: Apache-2.0
 *
 * check_unary.c - activations and scale, on awkward sizes.
 */
#include <math.h>
#include <string.h>

#include "harness.h"

static yoke_node *
build(yoke_graph *g, yoke_node *x, int kind)
{
    switch (kind) {
    case YKI_UNARY_RELU: return yoke_relu(g, x);
    case YKI_UNARY_LEAKY_RELU: return yoke_leaky_relu(g, x, 0.01f);
    case YKI_UNARY_SIGMOID: return yoke_sigmoid(g, x);
    case YKI_UNARY_TANH: return yoke_tanh(g, x);
    case YKI_UNARY_GELU: return yoke_gelu(g, x);
    case YKI_UNARY_SILU: return yoke_silu(g, x);
    default: return yoke_scale(g, x, 1.5f, -0.25f);
    }
}

START_TEST(unary_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(0), yoke_shape(1, 17), yoke_shape(3, 5, 3, 7),
                                 yoke_shape(2, 33, 129)};

    for (size_t i = 0; i < YKI_COUNT(shapes); i++) {
        yoke_graph *g;
        yoke_node *x;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, shapes[i]);
        op_check_graph(g, build(g, x, _i), &(op_check_options){.scale = 2});
    }
}
END_TEST

START_TEST(unary_refuses_a_negative_slope)
{
    const float slopes[] = {-0.5f, NAN};

    for (size_t i = 0; i < YKI_COUNT(slopes); i++) {
        yoke_graph *g;

        ASSERT_OK(yoke_graph_create(&g));
        yoke_leaky_relu(g, yoke_input(g, "x", YOKE_F32, yoke_shape(0)), slopes[i]);
        ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_status(g));
        ASSERT_DETAIL("slope");
        yoke_graph_destroy(g);
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("unary");
    TCase *tcase = test_case(suite, "unary");

    tcase_add_loop_test(tcase, unary_matches_oracle, 0, YKI_UNARY_KINDS);
    tcase_add_test(tcase, unary_refuses_a_negative_slope);
    return suite;
}
