/* SPDX-License-Identifier: Apache-2.0
 *
 * check_conv.c - convolutions, transposed ones, and the gradient of a bias, over
 * awkward and real shapes; and what the layers refuse.
 */
#include <string.h>

#include "harness.h"

typedef struct shape_case {
    int64_t c, h, w, filters;
    int64_t kernel[2], stride[2], pad[2], dilation[2], groups;
    int64_t batch;
    bool transposed, no_bias;
    int64_t output_pad[2];
} shape_case;

static const shape_case cases[] = {
    /* size 1, odd sizes, one pixel */
    {.c = 1, .h = 1, .w = 1, .filters = 1, .kernel = {1, 1}},
    {.c = 3, .h = 5, .w = 7, .filters = 2, .kernel = {3, 3}, .pad = {1, 1}},
    {.c = 2, .h = 3, .w = 3, .filters = 3, .kernel = {3, 3}},
    {.c = 5, .h = 7, .w = 5, .filters = 7, .kernel = {1, 3}, .pad = {0, 1}, .no_bias = true},
    {.c = 20, .h = 5, .w = 4, .filters = 50, .kernel = {3, 2}, .batch = 3},
    /* strides larger than kernels, pads larger than the input, dilation */
    {.c = 3, .h = 9, .w = 8, .filters = 4, .kernel = {2, 1}, .stride = {3, 4}},
    {.c = 2, .h = 2, .w = 3, .filters = 5, .kernel = {3, 3}, .pad = {4, 5}},
    {.c = 4, .h = 9, .w = 11, .filters = 6, .kernel = {3, 2}, .pad = {2, 1}, .dilation = {2, 3}},
    {.c = 17,
     .h = 8,
     .w = 8,
     .filters = 18,
     .kernel = {3, 3},
     .stride = {2, 2},
     .pad = {1, 1},
     .dilation = {2, 1},
     .batch = 3},
    {.c = 3,
     .h = 10,
     .w = 9,
     .filters = 4,
     .kernel = {5, 4},
     .stride = {2, 3},
     .pad = {2, 0},
     .dilation = {1, 2}},
    /* groups and depthwise */
    {.c = 6, .h = 5, .w = 5, .filters = 4, .kernel = {3, 3}, .pad = {1, 1}, .groups = 2},
    {.c = 24,
     .h = 5,
     .w = 6,
     .filters = 48,
     .kernel = {3, 3},
     .pad = {1, 1},
     .groups = 3,
     .batch = 2},
    {.c = 32,
     .h = 6,
     .w = 5,
     .filters = 32,
     .kernel = {3, 3},
     .pad = {1, 1},
     .groups = 2,
     .batch = 2},
    {.c = 7, .h = 6, .w = 5, .filters = 7, .kernel = {3, 3}, .pad = {1, 1}, .groups = 7},
    {.c = 19,
     .h = 7,
     .w = 9,
     .filters = 19,
     .kernel = {3, 3},
     .stride = {2, 2},
     .pad = {1, 1},
     .groups = 19,
     .batch = 3},
    {.c = 18,
     .h = 9,
     .w = 8,
     .filters = 18,
     .kernel = {5, 3},
     .stride = {1, 3},
     .pad = {3, 0},
     .dilation = {2, 1},
     .groups = 18,
     .batch = 2},
    {.c = 16,
     .h = 4,
     .w = 3,
     .filters = 16,
     .kernel = {3, 3},
     .stride = {2, 2},
     .pad = {1, 1},
     .groups = 16,
     .batch = 2},
    {.c = 4, .h = 5, .w = 8, .filters = 4, .kernel = {3, 3}, .pad = {1, 1}, .groups = 4},
    {.c = 3,
     .h = 8,
     .w = 9,
     .filters = 3,
     .kernel = {5, 4},
     .stride = {1, 2},
     .pad = {2, 3},
     .groups = 3,
     .batch = 5},
    /* more padding than image: tiles of samples */
    {.c = 5, .h = 3, .w = 2, .filters = 6, .kernel = {3, 3}, .pad = {2, 2}, .batch = 4},
    {.c = 18, .h = 4, .w = 4, .filters = 33, .kernel = {3, 3}, .pad = {1, 1}, .batch = 11},
    {.c = 2, .h = 4, .w = 5, .filters = 20, .kernel = {3, 5}, .pad = {1, 2}, .batch = 19},
    {.c = 20, .h = 9, .w = 9, .filters = 50, .kernel = {5, 5}, .batch = 9},
    {.c = 24,
     .h = 5,
     .w = 5,
     .filters = 16,
     .kernel = {3, 3},
     .stride = {2, 2},
     .pad = {2, 1},
     .dilation = {2, 1},
     .groups = 2,
     .batch = 10},
    {.c = 5, .h = 6, .w = 5, .filters = 15, .kernel = {3, 3}, .pad = {1, 1}, .groups = 5},
    /* LeNet, and layers of a ResNet with few samples */
    {.c = 1, .h = 28, .w = 28, .filters = 6, .kernel = {5, 5}, .pad = {2, 2}, .batch = 3},
    {.c = 6, .h = 14, .w = 14, .filters = 16, .kernel = {5, 5}, .batch = 3},
    {.c = 3,
     .h = 33,
     .w = 31,
     .filters = 24,
     .kernel = {7, 7},
     .stride = {2, 2},
     .pad = {3, 3},
     .batch = 2},
    {.c = 3, .h = 16, .w = 16, .filters = 64, .kernel = {3, 3}, .pad = {1, 1}, .batch = 2},
    {.c = 64,
     .h = 16,
     .w = 16,
     .filters = 64,
     .kernel = {3, 3},
     .pad = {1, 1},
     .batch = 2,
     .no_bias = true},
    {.c = 32,
     .h = 14,
     .w = 14,
     .filters = 64,
     .kernel = {3, 3},
     .stride = {2, 2},
     .pad = {1, 1},
     .batch = 3,
     .no_bias = true},
    {.c = 64, .h = 8, .w = 8, .filters = 96, .kernel = {1, 1}, .stride = {2, 2}, .batch = 3},
    {.c = 96, .h = 7, .w = 7, .filters = 32, .kernel = {1, 1}, .batch = 4},
    /* the same with a multiple of 4 positions: images are matrices */
    {.c = 20, .h = 4, .w = 3, .filters = 36, .kernel = {1, 1}, .batch = 7},
    {.c = 18, .h = 2, .w = 2, .filters = 22, .kernel = {1, 1}, .groups = 2, .batch = 3},
    {.c = 40, .h = 8, .w = 8, .filters = 130, .kernel = {1, 1}, .batch = 5, .no_bias = true},
    {.c = 128,
     .h = 4,
     .w = 4,
     .filters = 128,
     .kernel = {3, 3},
     .pad = {1, 1},
     .batch = 5,
     .no_bias = true},
    /* a kernel with more rows and columns than a mask has bits */
    {.c = 2,
     .h = 3,
     .w = 45,
     .filters = 9,
     .kernel = {2, 31},
     .stride = {1, 2},
     .pad = {1, 5},
     .batch = 2},
    /* transposed */
    {.c = 3, .h = 4, .w = 5, .filters = 2, .kernel = {3, 3}, .transposed = true},
    {.c = 4,
     .h = 3,
     .w = 5,
     .filters = 5,
     .kernel = {3, 2},
     .stride = {2, 3},
     .pad = {1, 0},
     .output_pad = {1, 2},
     .transposed = true},
    {.c = 16,
     .h = 7,
     .w = 7,
     .filters = 32,
     .kernel = {4, 4},
     .stride = {2, 2},
     .pad = {1, 1},
     .transposed = true,
     .batch = 3},
    {.c = 6,
     .h = 5,
     .w = 4,
     .filters = 9,
     .kernel = {2, 3},
     .stride = {3, 1},
     .dilation = {1, 2},
     .groups = 3,
     .transposed = true},
};

static yoke_node *
build(yoke_graph *g, const shape_case *c)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(c->c, c->h, c->w));
    yoke_conv2d_options o = {.filters = c->filters, .groups = c->groups, .no_bias = c->no_bias};
    yoke_conv_transpose2d_options t = {
        .filters = c->filters, .groups = c->groups, .no_bias = c->no_bias};

    memcpy(o.kernel, c->kernel, sizeof o.kernel);
    memcpy(o.stride, c->stride, sizeof o.stride);
    memcpy(o.pad, c->pad, sizeof o.pad);
    memcpy(o.dilation, c->dilation, sizeof o.dilation);
    memcpy(t.kernel, c->kernel, sizeof t.kernel);
    memcpy(t.stride, c->stride, sizeof t.stride);
    memcpy(t.pad, c->pad, sizeof t.pad);
    memcpy(t.dilation, c->dilation, sizeof t.dilation);
    memcpy(t.output_pad, c->output_pad, sizeof t.output_pad);
    return c->transposed ? yoke_conv_transpose2d(g, x, &t) : yoke_conv2d(g, x, &o);
}

START_TEST(conv_matches_oracle)
{
    const shape_case *c = &cases[_i];
    /* Differences evaluate the whole graph two dozen times in double. */
    bool large = c->c * c->filters * c->h * c->w > 20000;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    op_check_graph(g, build(g, c), &(op_check_options){.batch = c->batch, .no_differences = large});
}
END_TEST

/* A fused activation is an attribute that no public function sets. */
START_TEST(fused_relu_matches_oracle)
{
    const shape_case list[] = {
        {.c = 5, .h = 6, .w = 7, .filters = 9, .kernel = {3, 3}, .pad = {1, 1}},
        {.c = 16, .h = 6, .w = 7, .filters = 32, .kernel = {3, 3}, .pad = {1, 1}},
        {.c = 16, .h = 6, .w = 7, .filters = 16, .kernel = {3, 3}, .pad = {1, 1}, .groups = 16},
        {.c = 16,
         .h = 5,
         .w = 5,
         .filters = 16,
         .kernel = {2, 2},
         .stride = {2, 2},
         .transposed = true},
    };

    for (size_t i = 0; i < YKI_COUNT(list); i++) {
        yoke_graph *g;
        yoke_node *y;

        ASSERT_OK(yoke_graph_create(&g));
        y = build(g, &list[i]);
        ck_assert_ptr_nonnull(y);
        op_set_relu(y);
        op_check_graph(g, y, NULL);
    }
}
END_TEST

/* Dense layers use it with rank 1. */
START_TEST(bias_gradient_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(1),         yoke_shape(10),    yoke_shape(48),
                                 yoke_shape(1000),      yoke_shape(5, 33), yoke_shape(37, 1, 3),
                                 yoke_shape(20, 17, 19)};

    for (size_t i = 0; i < YKI_COUNT(shapes); i++) {
        yoke_graph *g;
        yoke_node *x;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "dy", YOKE_F32, shapes[i]);
        op_check_graph(g, yki_node1(g, &yki_op_reduce_bias, x),
                       &(op_check_options){.no_gradient = true, .batch = _i ? 130 : 5});
    }
}
END_TEST

/* The layer's own graph: names, shapes, cost. */
START_TEST(layers_are_pytorchs)
{
    yoke_graph *g;
    yoke_node *x, *y, *w;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(6, 28, 28));
    y = yoke_conv2d(
        g, x,
        &(yoke_conv2d_options){
            .filters = 8, .kernel = {5, 3}, .stride = {2, 1}, .pad = {2, 0}, .groups = 2});
    ASSERT_OK(yoke_graph_status(g));
    ck_assert_str_eq(yoke_node_name(y), "conv1");
    ck_assert(yki_shape_equal(yoke_node_shape(y), yoke_shape(8, 14, 26)));
    w = yoke_graph_get_node(g, "conv1.weight");
    ck_assert(yki_shape_equal(yoke_node_shape(w), yoke_shape(8, 3, 5, 3)));
    ck_assert_int_eq(w->fan_in, 45);
    ck_assert_int_eq(yoke_graph_get_node(g, "conv1.bias")->fan_in, 45);
    ck_assert(y->op->flops(y) == 2.0 * 8 * 14 * 26 * 45);
    y = yoke_conv_transpose2d(g, y,
                              &(yoke_conv_transpose2d_options){.filters = 4,
                                                               .kernel = {3, 3},
                                                               .stride = {2, 2},
                                                               .pad = {1, 1},
                                                               .output_pad = {1, 1},
                                                               .no_bias = true});
    ASSERT_OK(yoke_graph_status(g));
    ck_assert_str_eq(yoke_node_name(y), "convt1");
    ck_assert(yki_shape_equal(yoke_node_shape(y), yoke_shape(4, 28, 52)));
    w = yoke_graph_get_node(g, "convt1.weight");
    ck_assert(yki_shape_equal(yoke_node_shape(w), yoke_shape(8, 4, 3, 3)));
    ck_assert_ptr_null(yoke_graph_get_node(g, "convt1.bias"));
    yoke_graph_destroy(g);
}
END_TEST

typedef struct bad_case {
    yoke_conv2d_options options;
    yoke_status status;
    const char *detail;
} bad_case;

static const bad_case bad_cases[] = {
    {{.kernel = {3, 3}}, YOKE_ERROR_INVALID_ARGUMENT, "filters is 0"},
    {{.filters = -4, .kernel = {3, 3}}, YOKE_ERROR_INVALID_ARGUMENT, "filters is -4"},
    {{.filters = 4}, YOKE_ERROR_INVALID_ARGUMENT, "kernel[0] is 0"},
    {{.filters = 4, .kernel = {3, -1}}, YOKE_ERROR_INVALID_ARGUMENT, "kernel[1] is -1"},
    {{.filters = 4, .kernel = {3, 3}, .stride = {1, -2}}, YOKE_ERROR_INVALID_ARGUMENT, "stride[1]"},
    {{.filters = 4, .kernel = {3, 3}, .pad = {-1, 0}}, YOKE_ERROR_INVALID_ARGUMENT, "pad[0] is -1"},
    {{.filters = 4, .kernel = {3, 3}, .dilation = {0, 1ll << 40}},
     YOKE_ERROR_INVALID_ARGUMENT,
     "dilation[1]"},
    {{.filters = 4, .kernel = {3, 3}, .groups = 4},
     YOKE_ERROR_SHAPE,
     "edges: groups is 4; must divide the channels of \"picture\", which are 6"},
    {{.filters = 4, .kernel = {3, 3}, .groups = 3},
     YOKE_ERROR_SHAPE,
     "edges: groups is 3; must divide filters, which are 4"},
    {{.filters = 4, .kernel = {9, 3}},
     YOKE_ERROR_SHAPE,
     "edges: the kernel spans 9 rows; must span at most 8, the height of \"picture\" with its "
     "padding"},
};

START_TEST(bad_options_are_named)
{
    const bad_case *c = &bad_cases[_i];
    yoke_graph *g;
    yoke_node *x;
    yoke_conv2d_options o = c->options;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "picture", YOKE_F32, yoke_shape(6, 8, 8));
    o.name = "edges";
    ck_assert_ptr_null(yoke_conv2d(g, x, &o));
    ASSERT_STATUS(c->status, yoke_graph_status(g));
    ASSERT_DETAIL("edges");
    ASSERT_DETAIL(c->detail);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(bad_inputs_are_named)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(yoke_conv2d(g, yoke_input(g, "i", YOKE_I32, yoke_shape(2, 4, 4)),
                                   &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}}));
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_graph_status(g));
    yoke_graph_destroy(g);

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(yoke_conv2d(g, yoke_input(g, "flat", YOKE_F32, yoke_shape(16)),
                                   &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}}));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("conv1: the input \"flat\" has shape (16); must be (channels, height, width)");
    yoke_graph_destroy(g);

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(yoke_conv_transpose2d(
        g, yoke_input(g, "x", YOKE_F32, yoke_shape(2, 4, 4)),
        &(yoke_conv_transpose2d_options){.filters = 2, .kernel = {2, 2}, .output_pad = {0, 1}}));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_status(g));
    ASSERT_DETAIL("output_pad[1] is 1");
    yoke_graph_destroy(g);

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(yoke_conv_transpose2d(
        g, yoke_input(g, "x", YOKE_F32, yoke_shape(2, 1, 1)),
        &(yoke_conv_transpose2d_options){.filters = 2, .kernel = {2, 2}, .pad = {1, 1}}));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("(2, 1, 1)");
    yoke_graph_destroy(g);

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(
        yoke_conv2d(g, NULL, &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}}));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_status(g));
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("conv");
    TCase *tcase = test_case(suite, "conv");

    tcase_add_loop_test(tcase, conv_matches_oracle, 0, (int)YKI_COUNT(cases));
    tcase_add_test(tcase, fused_relu_matches_oracle);
    tcase_add_loop_test(tcase, bias_gradient_matches_oracle, 0, 2);
    tcase_add_test(tcase, layers_are_pytorchs);
    tcase_add_loop_test(tcase, bad_options_are_named, 0, (int)YKI_COUNT(bad_cases));
    tcase_add_test(tcase, bad_inputs_are_named);
    return suite;
}
