/* SPDX-License-Identifier: Apache-2.0
 *
 * check_pool.c - pooling over windows and over planes, on awkward geometries, on
 * inputs full of ties, and what it refuses.
 */
#include <string.h>

#include "harness.h"

typedef struct geometry {
    yoke_shape x;
    yoke_pool2d_options o;
} geometry;

static const geometry geometries[] = {
    {.x = {3, 0, {1, 1, 1}}, .o = {.kernel = {1, 1}}},
    {.x = {3, 0, {3, 8, 8}}, .o = {.kernel = {2, 2}}},
    {.x = {3, 0, {5, 16, 20}}, .o = {.kernel = {2, 2}}},
    {.x = {3, 0, {2, 9, 27}}, .o = {.kernel = {2, 2}}},
    {.x = {3, 0, {2, 9, 11}}, .o = {.kernel = {2, 2}, .ceil_mode = true}},
    {.x = {3, 0, {17, 13, 11}}, .o = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}}},
    {.x = {3, 0, {3, 7, 5}}, .o = {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}}},
    {.x = {3, 0, {4, 10, 9}}, .o = {.kernel = {2, 3}, .stride = {4, 5}}},
    {.x = {3, 0, {4, 6, 8}}, .o = {.kernel = {3, 1}, .stride = {3, 2}, .pad = {1, 0}}},
    {.x = {3, 0, {19, 2, 3}}, .o = {.kernel = {7, 7}, .stride = {2, 3}, .pad = {3, 3}}},
    {.x = {3, 0, {2, 2, 1}}, .o = {.kernel = {9, 8}, .stride = {1, 1}, .pad = {4, 4}}},
    {.x = {3, 0, {3, 7, 7}},
     .o = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .ceil_mode = true}},
    {.x = {3, 0, {3, 6, 7}},
     .o = {.kernel = {2, 3}, .stride = {3, 4}, .pad = {1, 1}, .ceil_mode = true}},
    {.x = {3, 0, {1, 3, 4}}, .o = {.kernel = {5, 6}, .stride = {2, 2}, .ceil_mode = true}},
    {.x = {3, 0, {16, 28, 29}}, .o = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}}},
};
enum { TIED = 7 }; /* the first of them, with every kind of overlap, are tried with ties too */

typedef yoke_node *(*pool_function)(yoke_graph *, yoke_node *, const yoke_pool2d_options *);
static const pool_function functions[] = {yoke_maxpool2d, yoke_avgpool2d};

static void
check(pool_function function, const geometry *g, bool exclude_pad, bool ties)
{
    yoke_pool2d_options o = g->o;
    yoke_graph *graph;
    yoke_node *x;

    o.exclude_pad = exclude_pad;
    ASSERT_OK(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, g->x);
    /* Half the elements are the same zero. */
    if (ties)
        x = yoke_relu(graph, x);
    op_check_graph(graph, function(graph, x, &o), &(op_check_options){.batch = 3});
}

/* The gradient of an average with a gate, which only fusions make. */
START_TEST(gated_gradients_match_oracle)
{
    const geometry *geo = &geometries[_i];
    yoke_node *inputs[2], *y;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    inputs[0] = yoke_input(g, "gate", YOKE_F32, geo->x);
    y = yoke_avgpool2d(g, inputs[0], &geo->o);
    ASSERT_OK(yoke_graph_status(g));
    inputs[1] = yoke_input(g, "given", YOKE_F32, yoke_node_shape(y));
    yki_pool_attrs a = yki_pool_attrs_get(&y->attrs);

    a.size[0] = (int32_t)geo->x.dim[1];
    a.size[1] = (int32_t)geo->x.dim[2];
    op_check_graph(g, yki_node(g, &yki_op_avgpool2d_grad, NULL, inputs, 2, &a, sizeof a),
                   &(op_check_options){.batch = 3, .no_gradient = true});
}
END_TEST

START_TEST(pool_matches_oracle)
{
    check(functions[_i % 2], &geometries[_i / 2], false, false);
}
END_TEST

START_TEST(average_without_padding_matches_oracle)
{
    const geometry *g = &geometries[_i];

    if (g->o.pad[0] || g->o.pad[1] || g->o.ceil_mode)
        check(yoke_avgpool2d, g, true, false);
}
END_TEST

START_TEST(the_first_of_equals_gets_the_gradient)
{
    check(yoke_maxpool2d, &geometries[_i], false, true);
}
END_TEST

START_TEST(global_average_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(1, 1, 1), yoke_shape(5, 7, 7), yoke_shape(37, 3, 1),
                                 yoke_shape(16, 13, 29)};

    for (size_t i = 0; i < YKI_COUNT(shapes); i++) {
        yoke_graph *graph;
        yoke_node *y;

        ASSERT_OK(yoke_graph_create(&graph));
        y = yoke_global_avgpool(graph, yoke_input(graph, "x", YOKE_F32, shapes[i]));
        ck_assert_int_eq(yoke_node_shape(y).rank, 1);
        op_check_graph(graph, y, NULL);
    }
}
END_TEST

typedef struct refusal {
    geometry g;
    yoke_status status;
    const char *detail;
} refusal;

START_TEST(pool_names_what_is_wrong)
{
    const refusal refusals[] = {
        {{{3, 0, {1, 4, 4}}, {.stride = {1, 1}}}, YOKE_ERROR_INVALID_ARGUMENT, "kernel[0] is 0"},
        {{{3, 0, {1, 4, 4}}, {.kernel = {2, 2}, .stride = {1, -1}}},
         YOKE_ERROR_INVALID_ARGUMENT,
         "stride[1] is -1"},
        {{{3, 0, {1, 4, 4}}, {.kernel = {2, 2}, .pad = {2, 0}}},
         YOKE_ERROR_INVALID_ARGUMENT,
         "pad[0] is 2; must be between 0 and 1, half of the kernel"},
        {{{3, 0, {1, 2, 4}}, {.kernel = {3, 3}}},
         YOKE_ERROR_SHAPE,
         "maxpool2d1: kernel[0] is 3; must fit into the height of \"x\", which is 2 with its "
         "padding"},
        {{{2, 0, {2, 4}}, {.kernel = {2, 2}}},
         YOKE_ERROR_SHAPE,
         "maxpool2d1: the input \"x\" has shape (2, 4); must be (channels, height, width)"},
    };

    for (size_t i = 0; i < YKI_COUNT(refusals); i++) {
        yoke_graph *graph;

        ASSERT_OK(yoke_graph_create(&graph));
        ck_assert_ptr_null(yoke_maxpool2d(graph, yoke_input(graph, "x", YOKE_F32, refusals[i].g.x),
                                          &refusals[i].g.o));
        ASSERT_STATUS(refusals[i].status, yoke_graph_status(graph));
        ASSERT_DETAIL(refusals[i].detail);
        yoke_graph_destroy(graph);
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = test_case(suite, "pool");

    tcase_add_loop_test(tcase, gated_gradients_match_oracle, 0, YKI_COUNT(geometries));
    tcase_add_loop_test(tcase, pool_matches_oracle, 0, 2 * (int)YKI_COUNT(geometries));
    tcase_add_loop_test(tcase, average_without_padding_matches_oracle, 0,
                        (int)YKI_COUNT(geometries));
    tcase_add_loop_test(tcase, the_first_of_equals_gets_the_gradient, 0, TIED);
    tcase_add_test(tcase, global_average_matches_oracle);
    tcase_add_test(tcase, pool_names_what_is_wrong);
    return suite;
}
