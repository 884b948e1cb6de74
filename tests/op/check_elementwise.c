/* SPDX-License-Identifier: Apache-2.0
 *
 * check_elementwise.c - binary operators with and without broadcasting, and sums
 * over axes.
 */
#include "harness.h"

extern const yki_solver yki_solver_binary;

typedef yoke_node *(*binary_function)(yoke_graph *, yoke_node *, yoke_node *);

#define FUNCTION(kind, id, name) yoke_##name,
static const binary_function functions[] = {YKI_BINARY(FUNCTION)};

/* Not by next to nothing. */
static const op_check_options *
options_of(binary_function function)
{
    static const op_check_options positive = {.offset = 5, .scale = 0.5f};

    return function == yoke_div ? &positive : NULL;
}

START_TEST(binary_alike_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(), yoke_shape(17), yoke_shape(5, 3, 7),
                                 yoke_shape(33, 129)};

    for (size_t i = 0; i < YKI_COUNT(shapes); i++) {
        yoke_graph *g;
        yoke_node *a, *b;

        ASSERT_OK(yoke_graph_create(&g));
        a = yoke_input(g, "a", YOKE_F32, shapes[i]);
        b = yoke_input(g, "b", YOKE_F32, shapes[i]);
        op_check_graph(g, functions[_i](g, a, b), options_of(functions[_i]));
    }
}
END_TEST

START_TEST(binary_broadcast_matches_oracle)
{
    const yoke_shape pairs[][2] = {
        {yoke_shape(5, 3, 7), yoke_shape(5, 1, 1)},
        {yoke_shape(5, 3, 7), yoke_shape(7)},
        {yoke_shape(1, 6), yoke_shape(4, 1)},
        {yoke_shape(), yoke_shape(3, 2)},
        {yoke_shape(2, 1, 3, 1, 2, 1, 2), yoke_shape(1, 2, 3, 2, 1, 2, 2)},
    };

    for (size_t i = 0; i < YKI_COUNT(pairs); i++) {
        /* The second operand varies with the sample, or is a parameter that serves all. */
        for (int with_parameter = 0; with_parameter < 2; with_parameter++) {
            yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
            yoke_graph *g;
            yoke_node *a, *b;

            ASSERT_OK(yoke_graph_create(&g));
            a = yoke_input(g, "a", YOKE_F32, pairs[i][0]);
            b = with_parameter ? yoke_parameter(g, "b", pairs[i][1], init)
                               : yoke_input(g, "b", YOKE_F32, pairs[i][1]);
            op_check_graph(g, functions[_i](g, a, b), options_of(functions[_i]));
        }
    }
}
END_TEST

/* A quotient of what padding lanes hold may be NaN. */
START_TEST(quotients_take_plain_tensors)
{
    yki_device_traits traits = {0};
    yki_problem problem;
    yoke_node *a, *b;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    a = yoke_input(g, "a", YOKE_F32, yoke_shape(5, 3));
    b = yoke_input(g, "b", YOKE_F32, yoke_shape(5, 3));
    yki_problem_of_node(functions[_i](g, a, b), (yki_extents){.batch = 2}, &problem);
    problem.in[0].layout.block = problem.in[1].layout.block = problem.out.layout.block = 16;
    ck_assert_int_eq(yki_solver_binary.applies(&problem, &traits), functions[_i] != yoke_div);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(reduce_matches_oracle)
{
    const int32_t axes[][3] = {{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}};
    const int32_t counts[] = {1, 1, 1, 2, 2, 3};

    const yoke_shape shapes[] = {yoke_shape(5, 3, 7), yoke_shape(2, 19, 7)};

    for (size_t i = 0; i < YKI_COUNT(counts) * YKI_COUNT(shapes); i++) {
        size_t k = i / YKI_COUNT(shapes);
        yoke_graph *g;
        yoke_node *x;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, shapes[i % YKI_COUNT(shapes)]);
        op_check_graph(g, (_i ? yoke_mean : yoke_sum)(g, x, axes[k], counts[k]), NULL);
    }
}
END_TEST

/* What the planner adds by itself: other layouts, and the 1 that a sample's loss counts. */
START_TEST(moves_match_oracle)
{
    const yoke_shape shapes[] = {{1, 0, {21}},      {3, 0, {19, 3, 5}}, {1, 0, {1}},
                                 {2, 0, {4, 70}},   {3, 0, {19, 3, 6}}, {3, 0, {33, 5, 7}},
                                 {3, 0, {16, 4, 4}}};
    yoke_graph *g;

    for (size_t i = 0; i < YKI_COUNT(shapes); i++) {
        ASSERT_OK(yoke_graph_create(&g));
        op_check_graph(g, yki_node1(g, &yki_op_reorder, yoke_input(g, "x", YOKE_F32, shapes[i])),
                       &(op_check_options){.no_gradient = true});
    }
}
END_TEST

START_TEST(counts_match_oracle)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    op_check_graph(g, yki_node1(g, &yki_op_counted, yoke_input(g, "x", YOKE_F32, yoke_shape())),
                   &(op_check_options){.no_gradient = true, .batch = 70});
}
END_TEST

/* The gradient of a scale is a scale; the kernel of its own has the table's form. */
START_TEST(scale_gradient_matches_oracle)
{
    const yki_unary_attrs attrs = {YKI_UNARY_SCALE, 0.5f, 3};
    yoke_node *inputs[2];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    inputs[0] = yoke_input(g, "x", YOKE_F32, yoke_shape(5, 7));
    inputs[1] = yoke_input(g, "dy", YOKE_F32, yoke_shape(5, 7));
    op_check_graph(g, yki_node(g, &yki_op_unary_grad, NULL, inputs, 2, &attrs, sizeof attrs),
                   &(op_check_options){.no_gradient = true});
}
END_TEST

/* A fusion makes it: dy as two terms. */
START_TEST(relu_gradient_of_a_sum_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(5, 7, 3), yoke_shape(1), yoke_shape(4099)};
    const yki_unary_attrs attrs = {.kind = YKI_UNARY_RELU};
    yoke_node *inputs[3];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    inputs[0] = yoke_input(g, "y", YOKE_F32, shapes[_i]);
    inputs[1] = yoke_input(g, "one", YOKE_F32, shapes[_i]);
    inputs[2] = yoke_input(g, "other", YOKE_F32, shapes[_i]);
    op_check_graph(g, yki_node(g, &yki_op_unary_grad, NULL, inputs, 3, &attrs, sizeof attrs),
                   &(op_check_options){.no_gradient = true});
}
END_TEST

START_TEST(binary_shapes_that_do_not_fit_are_named)
{
    yoke_graph *g;
    yoke_node *sum;

    ASSERT_OK(yoke_graph_create(&g));
    sum = yoke_add(g, yoke_input(g, "a", YOKE_F32, yoke_shape(3, 4)),
                   yoke_input(g, "b", YOKE_F32, yoke_shape(3, 5)));
    ck_assert_ptr_null(sum);
    ck_assert_ptr_null(yoke_relu(g, sum));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(),
                     "add1: \"a\" has shape (3, 4), \"b\" has shape (3, 5); from the last axis on, "
                     "sizes must be equal or one of them 1");
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("elementwise");
    TCase *tcase = test_case(suite, "elementwise");

    tcase_add_loop_test(tcase, binary_alike_matches_oracle, 0, (int)YKI_COUNT(functions));
    tcase_add_loop_test(tcase, binary_broadcast_matches_oracle, 0, (int)YKI_COUNT(functions));
    tcase_add_loop_test(tcase, quotients_take_plain_tensors, 0, (int)YKI_COUNT(functions));
    tcase_add_loop_test(tcase, reduce_matches_oracle, 0, 2);
    tcase_add_test(tcase, moves_match_oracle);
    tcase_add_test(tcase, counts_match_oracle);
    tcase_add_test(tcase, scale_gradient_matches_oracle);
    tcase_add_loop_test(tcase, relu_gradient_of_a_sum_matches_oracle, 0, 3);
    tcase_add_test(tcase, binary_shapes_that_do_not_fit_are_named);
    return suite;
}
