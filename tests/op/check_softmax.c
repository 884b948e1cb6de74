/* SPDX-License-Identifier: Apache-2.0
 *
 * check_softmax.c - softmax along every axis, over rows of any length, with its
 * gradient; and large values, which must not overflow.
 */
#include <string.h>

#include "harness.h"

typedef struct softmax_case {
    yoke_shape shape;
    int32_t axis;
} softmax_case;

START_TEST(softmax_matches_oracle)
{
    const softmax_case cases[] = {
        {yoke_shape(1), 0},
        {yoke_shape(10), 0},
        {yoke_shape(1000), 0},
        {yoke_shape(7, 16), 1},
        {yoke_shape(7, 67), 1},
        {yoke_shape(7, 67), 0},
        {yoke_shape(5, 3, 4), 0},
        {yoke_shape(5, 3, 4), 1},
        {yoke_shape(2, 21, 33), 1},
        {yoke_shape(3, 17, 17), 2},
        {yoke_shape(2, 1, 3, 1, 2, 1, 2), 2},
    };
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, cases[_i].shape);
    op_check_graph(g, yoke_softmax(g, x, cases[_i].axis), NULL);
}
END_TEST

/* Of a parameter: the same for all samples. */
START_TEST(softmax_of_a_parameter_matches_oracle)
{
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    yoke_graph *g;
    yoke_node *p;

    ASSERT_OK(yoke_graph_create(&g));
    p = yoke_parameter(g, "p", yoke_shape(19, 21), init);
    op_check_graph(g, yoke_softmax(g, p, _i), NULL);
}
END_TEST

/* e^3000 does not exist; its softmax does. (The gradient is all cancellation there.) */
START_TEST(softmax_of_large_values_is_finite)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(19, 21));
    op_check_graph(g, yoke_softmax(g, x, _i),
                   &(op_check_options){.scale = 1000, .no_gradient = true});
}
END_TEST

START_TEST(softmax_names_what_does_not_fit)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    yoke_softmax(g, yoke_input(g, "x", YOKE_F32, yoke_shape(3, 4)), 2);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(),
                     "softmax1: axis is 2; must be between 0 and 1, as \"x\" has shape (3, 4)");
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_softmax(g, yoke_input(g, "x", YOKE_I32, yoke_shape(3, 4)), 0);
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_graph_status(g));
    ASSERT_DETAIL("softmax1: the input \"x\" has type i32; must be f32");
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("softmax");
    TCase *tcase = test_case(suite, "softmax");

    tcase_add_loop_test(tcase, softmax_matches_oracle, 0, 11);
    tcase_add_loop_test(tcase, softmax_of_a_parameter_matches_oracle, 0, 2);
    tcase_add_loop_test(tcase, softmax_of_large_values_is_finite, 0, 2);
    tcase_add_test(tcase, softmax_names_what_does_not_fit);
    return suite;
}
