/* SPDX-License-Identifier: Apache-2.0
 *
 * check_shape.c - concat, slice and transpose against their oracles, with
 * gradients, along every axis, and what they refuse.
 */
#include <stdio.h>
#include <string.h>

#include "harness.h"

typedef struct concat_case {
    int32_t axis, count;
    yoke_shape parts[3];
    bool first_is_parameter;
} concat_case;

START_TEST(concat_matches_oracle)
{
    const concat_case cases[] = {
        {0, 2, {yoke_shape(3), yoke_shape(4)}, false},
        {0, 3, {yoke_shape(16, 3, 5), yoke_shape(32, 3, 5), yoke_shape(5, 3, 5)}, false},
        {1, 2, {yoke_shape(17, 2, 3), yoke_shape(17, 7, 3)}, false},
        {2, 3, {yoke_shape(3, 2, 1), yoke_shape(3, 2, 130), yoke_shape(3, 2, 5)}, false},
        {0, 2, {yoke_shape(1, 12), yoke_shape(6, 12)}, true}, /* a token before the others */
        {1, 2, {yoke_shape(5, 3), yoke_shape(5, 40)}, true},
        {6, 2, {yoke_shape(2, 1, 3, 1, 2, 1, 2), yoke_shape(2, 1, 3, 1, 2, 1, 1)}, false},
    };
    const concat_case *c = &cases[_i];
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    yoke_node *parts[3];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    for (int32_t i = 0; i < c->count; i++) {
        const char *const names[] = {"a", "b", "c"};

        parts[i] = i == 0 && c->first_is_parameter ? yoke_parameter(g, names[i], c->parts[i], init)
                                                   : yoke_input(g, names[i], YOKE_F32, c->parts[i]);
    }
    op_check_graph(g, yoke_concat(g, parts, (size_t)c->count, c->axis), NULL);
}
END_TEST

START_TEST(concat_of_many_parts_is_a_chain)
{
    yoke_node *parts[70], *joined;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    for (int i = 0; i < 70; i++) {
        char name[16];

        snprintf(name, sizeof name, "p%d", i);
        parts[i] = yoke_input(g, name, YOKE_F32, yoke_shape(2, 1 + i % 3));
    }
    joined = yoke_concat(g, parts, 70, 1);
    ck_assert_int_eq(yoke_node_shape(joined).dim[1], 70 + 23 + 2 * 23);
    op_check_graph(g, joined, &(op_check_options){.batch = 2, .no_gradient = true});
}
END_TEST

typedef struct slice_case {
    yoke_shape shape;
    int32_t axis;
    int64_t begin, end;
} slice_case;

START_TEST(slice_matches_oracle)
{
    const slice_case cases[] = {
        {yoke_shape(7), 0, 2, 3},
        {yoke_shape(7), 0, 0, 7},
        {yoke_shape(48, 3, 5), 0, 16, 32},
        {yoke_shape(45, 3, 5), 0, 16, 45},
        {yoke_shape(45, 3, 5), 0, 16, 37},
        {yoke_shape(20, 7, 3), 1, 1, 6},
        {yoke_shape(3, 2, 150), 2, 5, 140},
        {yoke_shape(300, 1), 0, 299, 300},
        {yoke_shape(2, 1, 3, 1, 2, 2, 3), 5, 1, 2},
    };
    const slice_case *c = &cases[_i];
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, c->shape);
    op_check_graph(g, yoke_slice(g, x, c->axis, c->begin, c->end), NULL);
}
END_TEST

typedef struct transpose_case {
    yoke_shape shape;
    int32_t axes[7];
} transpose_case;

START_TEST(transpose_matches_oracle)
{
    const transpose_case cases[] = {
        {yoke_shape(5), {0}},
        {yoke_shape(3, 5), {1, 0}},
        {yoke_shape(37, 66), {1, 0}},
        {yoke_shape(1, 9), {1, 0}},
        {yoke_shape(4, 17, 20), {2, 1, 0}},
        {yoke_shape(4, 17, 20), {0, 2, 1}},
        {yoke_shape(4, 17, 20), {1, 0, 2}}, /* heads of attention */
        {yoke_shape(16, 16, 16), {2, 0, 1}},
        {yoke_shape(6, 1, 7), {1, 2, 0}},
        {yoke_shape(2, 3, 2, 3, 2, 3, 2), {6, 5, 4, 3, 2, 1, 0}},
        {yoke_shape(2, 3, 1, 3, 2, 3, 2), {0, 2, 1, 4, 3, 6, 5}},
        {yoke_shape(2, 2, 2, 2, 2, 4, 5), {4, 6, 0, 5, 1, 3, 2}},
    };
    const transpose_case *c = &cases[_i];
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, c->shape);
    op_check_graph(g, yoke_transpose(g, x, c->axes), NULL);
}
END_TEST

START_TEST(transpose_without_axes_reverses_them)
{
    yoke_graph *g;
    yoke_shape shape;

    ASSERT_OK(yoke_graph_create(&g));
    shape =
        yoke_node_shape(yoke_transpose(g, yoke_input(g, "x", YOKE_F32, yoke_shape(2, 3, 4)), NULL));
    ck_assert(yki_shape_equal(shape, yoke_shape(4, 3, 2)));
    yoke_graph_destroy(g);
}
END_TEST

/* Words have no meaning: integers are moved as they are. */
START_TEST(integers_are_moved_too)
{
    const yoke_type type = _i ? YOKE_U8 : YOKE_I32;
    const int32_t axes[] = {1, 0};
    yoke_node *parts[2];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    parts[0] = yoke_slice(g, yoke_input(g, "x", type, yoke_shape(20, 19)), 1, 1, 19);
    parts[1] = yoke_input(g, "y", type, yoke_shape(3, 18));
    op_check_graph(g, yoke_transpose(g, yoke_concat(g, parts, 2, 0), axes),
                   &(op_check_options){.no_gradient = true, .labels = 200});
}
END_TEST

static void
refuse(yoke_graph *g, yoke_node *node, const char *sentence)
{
    ck_assert_ptr_null(node);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), sentence);
    yoke_graph_destroy(g);
}

static yoke_node *
graph_with_input(yoke_graph **g)
{
    ASSERT_OK(yoke_graph_create(g));
    return yoke_input(*g, "x", YOKE_F32, yoke_shape(3, 4));
}

START_TEST(shapes_that_do_not_fit_are_named)
{
    const int32_t twice[] = {1, 1}, beyond[] = {0, 2};
    yoke_node *parts[2];
    yoke_graph *g;

    parts[0] = graph_with_input(&g);
    parts[1] = yoke_input(g, "y", YOKE_F32, yoke_shape(2, 5));
    refuse(g, yoke_concat(g, parts, 2, 0),
           "concat1: \"y\" has shape (2, 5); must be (3, 4), the shape of \"x\", in all axes but "
           "axis 0");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_concat(g, parts, 1, 2),
           "concat: axis is 2; must be between 0 and 1, as \"x\" has shape (3, 4)");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_slice(g, parts[0], -1, 0, 1),
           "slice1: axis is -1; must be between 0 and 1, as \"x\" has shape (3, 4)");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_slice(g, parts[0], 1, 2, 5),
           "slice1: end is 5; must be between 1 and 4, the size of axis 1 of \"x\"");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_slice(g, parts[0], 1, 2, 2),
           "slice1: begin is 2; must be at least 0 and below end, 2");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_transpose(g, parts[0], twice),
           "transpose1: axes[1] is 1, as an entry before it; must name each axis once");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_transpose(g, parts[0], beyond),
           "transpose1: axes[1] is 2; must be between 0 and 1, as \"x\" has shape (3, 4)");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_sum(g, parts[0], beyond + 1, 1),
           "sum: axes[0] is 2; must be between 0 and 1, as \"x\" has shape (3, 4)");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_softmax(g, yoke_sum(g, parts[0], NULL, 0), 0),
           "softmax1: axis is 0; \"sum1\" is a scalar and has no axes");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_matmul(g, parts[0], yoke_flatten(g, parts[0]), NULL),
           "matmul1: the second operand \"flatten1\" has shape (12); must be (..., K, N)");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_global_avgpool(g, parts[0]),
           "global_avgpool1: the input \"x\" has shape (3, 4); must be (channels, height, width)");
    parts[0] = graph_with_input(&g);
    refuse(g, yoke_layer_norm(g, parts[0], &(yoke_layer_norm_options){.axes = 3}),
           "ln1: axes is 3; must be between 0 and 2, the rank of \"x\"");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("shape");
    TCase *tcase = test_case(suite, "shape");

    tcase_add_loop_test(tcase, concat_matches_oracle, 0, 7);
    tcase_add_test(tcase, concat_of_many_parts_is_a_chain);
    tcase_add_loop_test(tcase, slice_matches_oracle, 0, 9);
    tcase_add_loop_test(tcase, transpose_matches_oracle, 0, 12);
    tcase_add_test(tcase, transpose_without_axes_reverses_them);
    tcase_add_loop_test(tcase, integers_are_moved_too, 0, 2);
    tcase_add_test(tcase, shapes_that_do_not_fit_are_named);
    return suite;
}
