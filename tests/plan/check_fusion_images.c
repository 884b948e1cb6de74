/* SPDX-License-Identifier: Apache-2.0
 *
 * check_fusion_images.c - the fusions of convolutions, pooling and batch norms, as check_fusion.c
 * checks the others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"
#include "plan/fuse.h"
#include "plan/fusing.h"

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units});
}

/* ---- pooling ---- */

static bool
is_gate(const yki_task *task)
{
    return task->problem.op == &yki_op_unary_grad &&
           yki_unary_attrs_get(&task->problem.attrs).kind == YKI_UNARY_RELU;
}

/* Elements of the largest relu's gradient of a plan. */
static int64_t
largest_gate(const yki_plan *plan)
{
    int64_t largest = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        if (is_gate(&plan->tasks[t]))
            largest = YKI_MAX(largest, yki_shape_count(plan->tasks[t].problem.out.shape));
    return largest;
}

static yoke_graph *
pooled_graph(const yoke_pool2d_options *options, bool average, bool read_twice)
{
    yoke_shape shape = yoke_shape(5, 12, 10);
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_relu(
        g, yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init)));
    y = average ? yoke_avgpool2d(g, x, options) : yoke_maxpool2d(g, x, options);
    if (read_twice)
        y = yoke_add(g, y, yoke_maxpool2d(g, x, options));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

typedef enum gate_size { NO_GATE, SMALL_GATE, WHOLE_GATE } gate_size;

static gate_size
gate_of(yoke_device *device, yoke_graph *graph)
{
    int64_t whole = 5 * 12 * 10, largest;
    fusing_side s;

    fusing_open(&s, device, graph, 6, true, false);
    largest = largest_gate(s.plan);
    fusing_close(&s);
    return largest == 0 ? NO_GATE : largest < whole ? SMALL_GATE : WHOLE_GATE;
}

static void
check_gate(yoke_device *device, yoke_graph *graph, const void *wanted)
{
    ck_assert_int_eq(gate_of(device, graph), *(const gate_size *)wanted);
}

/* Destroys the graph. */
static void
check_gates(yoke_graph *g, gate_size wanted)
{
    fusing_each(g, check_gate, &wanted);
    fusing_check(g, true, &(fusing_expected){NULL, 0, 0, 0, 6, false});
}

/* relu's gradient comes before that of the maximum, on its small side, with the same bits: windows
 * that do not overlap, that do, and that leave elements out. Not where a sum is between them. */
START_TEST(a_maximum_is_gated_on_its_small_side)
{
    static const yoke_pool2d_options windows[] = {
        {.kernel = {2, 2}},
        {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}},
        {.kernel = {2, 3}, .stride = {3, 4}},
        {.kernel = {2, 2}},
    };
    bool twice = _i == 3;

    check_gates(pooled_graph(&windows[_i], false, twice), twice ? WHOLE_GATE : SMALL_GATE);
}
END_TEST

/* Of an average no gate is left: dx is gated as it is written, with the same bits. */
START_TEST(an_average_is_gated_as_it_is_written)
{
    static const yoke_pool2d_options windows[] = {
        {.kernel = {2, 2}},
        {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .exclude_pad = true},
        {.kernel = {2, 2}},
    };
    bool twice = _i == 2;

    check_gates(pooled_graph(&windows[_i], true, twice), twice ? WHOLE_GATE : NO_GATE);
}
END_TEST

/* ---- a convolution and its pooling ---- */

typedef enum image_use { ONE_READER, AS_OUTPUT, READ_TWICE, INPUT_HAS_GRADIENT, WIDE } image_use;

/* A convolution with bias, relu and pooling, and a dense layer behind them. */
static yoke_graph *
first_layer_graph(bool max, bool relu, bool bias, image_use use)
{
    const yoke_pool2d_options two = {.kernel = {2, 2}}, odd = {.kernel = {2, 2}, .stride = {1, 1}};
    const yoke_pool2d_options *window = use == WIDE ? &odd : &two;
    yoke_shape shape = yoke_shape(2, 9, 8);
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, shape);
    if (use == INPUT_HAS_GRADIENT)
        x = yoke_mul(
            g, x, yoke_parameter(g, "p", shape, (yoke_initializer){YOKE_INIT_UNIFORM, -1, 1, 0}));
    x = yoke_conv2d(
        g, x,
        &(yoke_conv2d_options){.filters = 7, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = !bias});
    if (relu)
        x = yoke_relu(g, x);
    y = max ? yoke_maxpool2d(g, x, window) : yoke_avgpool2d(g, x, window);
    if (use == READ_TWICE)
        y = yoke_add(g, y, yoke_maxpool2d(g, x, &two));
    if (use == AS_OUTPUT)
        yoke_graph_set_output(g, "image", x);
    y = dense(g, yoke_flatten(g, y), 5);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(5));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

/* Forward, without training, and with the gradients of its parameters as one task more; the mean
 * needs no image for its gradient if there is no relu, so that stays as it was. */
START_TEST(a_first_layer_goes_with_its_pooling)
{
    bool max = _i & 1, relu = _i & 2, bias = _i & 4, grad = max || relu;

    fusing_check(first_layer_graph(max, relu, bias, ONE_READER), false,
                 &(fusing_expected){"conv-pooled", 1, relu ? 2 : 1, 1e-6, 6, true});
    fusing_check(first_layer_graph(max, relu, bias, ONE_READER), true,
                 &(fusing_expected){"conv-pooled", 1, relu ? 4 : 2, 1e-5, 6, true});
    fusing_check(first_layer_graph(max, relu, bias, ONE_READER), true,
                 &(fusing_expected){"conv-pooled-grad", grad, relu ? 4 : 2, 1e-5, 6, true});
}
END_TEST

/* Not where the image has other readers, or windows overlap; where the input has a gradient, it is
 * not in training. */
START_TEST(an_image_that_others_read_is_not_joined)
{
    image_use use = AS_OUTPUT + _i / 2;
    bool max = _i & 1;

    fusing_check(first_layer_graph(max, true, true, use), true,
                 &(fusing_expected){"conv-pooled", 0, 0, 1e-5, 6, true});
    fusing_check(
        first_layer_graph(max, true, true, use), false,
        &(fusing_expected){"conv-pooled", use == INPUT_HAS_GRADIENT ? 1 : 0, 0, 1e-6, 6, true});
}
END_TEST

/* ---- both gradients of a convolution ---- */

typedef struct joined_case {
    bool small, strict;
} joined_case;

static void
check_joined_gradients(yoke_device *device, yoke_graph *graph, const void *with)
{
    const joined_case *how = with;
    yki_plan_options options = {.max.batch = 8,
                                .training = true,
                                .small = how->small,
                                .strict = how->strict,
                                .level = YOKE_PLAN_ESTIMATE};
    unsigned gated = 0;
    const int64_t batches[] = {8, 4, 0};
    fusing_side joined, apart;

    fusing_create(&joined, device, graph, &options);
    options.no_fusion = true;
    fusing_create(&apart, device, graph, &options);
    for (size_t t = 0; t < joined.plan->task_count; t++) {
        const yki_problem *p = &joined.plan->tasks[t].problem;

        gated += (p->op == &yki_op_conv2d_grads || p->op == &yki_op_conv2d_grad_input) &&
                 yki_conv_attrs_get(&p->attrs).act == YKI_CONV_ACT_GATED_SUM;
    }
    if (yki_device_get_traits(device)->type != YOKE_DEVICE_CPU) {
        ck_assert_uint_eq(fusing_tasks(joined.plan, "conv2d-grads-winograd4-tiles"),
                          how->small || how->strict ? 0 : 4);
        ck_assert_uint_eq(gated, how->small ? 0 : 2);
    }
    fusing_compare(&joined, &apart, batches, YKI_COUNT(batches), 1e-5);
}

/* Two blocks with shortcuts. Where both gradients of a convolution are Winograd's for GPUs, they
 * are one task, and the first of a block adds the shortcut's and gates the sum; the gradient by the
 * input does so too where it is a product of tiles. Not in a plan that saves memory. */
START_TEST(gradients_of_a_convolution_go_together)
{
    yoke_conv2d_options o = {.filters = 32, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true};
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_shape shape = yoke_shape(32, 8, 6);
    const joined_case how = {.small = _i == 1, .strict = _i == 2};
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init));
    y = yoke_relu(g, y);
    for (int i = 0; i < 2; i++)
        y = yoke_relu(g, yoke_add(g, y, yoke_conv2d(g, yoke_relu(g, yoke_conv2d(g, y, &o)), &o)));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    fusing_each(g, check_joined_gradients, &how);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- a convolution and the batch norm behind it ---- */

typedef enum parts_case {
    PARTS,
    PARTS_TRANSPOSED,
    PARTS_ALONE,
    PARTS_SMALL,
    PARTS_STRICT,
    PARTS_BUDGET
} parts_case;
enum { PARTS_MOST = 400 /* samples: so large a channel is no group's */ };

static void
check_parts(yoke_device *device, yoke_graph *graph, const void *with)
{
    const parts_case how = *(const parts_case *)with;
    yki_plan_options options = {.max.batch = PARTS_MOST,
                                .training = true,
                                .small = how == PARTS_SMALL,
                                .strict = how == PARTS_STRICT,
                                .most = how == PARTS_BUDGET ? UINT64_C(1) << 40 : 0,
                                .level = YOKE_PLAN_ESTIMATE};
    /* Transposed, of 24 samples one has an argument of relu within rounding of 0 (groups of 64):
     * another order of sums switches its gradient. */
    const int64_t batches[] = {how == PARTS_TRANSPOSED ? 20 : 24, 3, 0};
    const unsigned forward = how == PARTS              ? 4
                             : how == PARTS_TRANSPOSED ? 2
                             : how == PARTS_ALONE      ? 1
                                                       : 0;
    const unsigned backward = how == PARTS ? 3 : how == PARTS_TRANSPOSED ? 1 : 0;
    fusing_side joined, apart;

    fusing_create(&joined, device, graph, &options);
    options.no_fusion = true;
    fusing_create(&apart, device, graph, &options);
    if (yki_device_get_traits(device)->type != YOKE_DEVICE_CPU) {
        ck_assert_uint_eq(fusing_tasks(joined.plan, "conv2d-parts-winograd4-tiles"), forward);
        ck_assert_uint_eq(fusing_tasks(joined.plan, "bn-apply-parts-groups"), forward);
        ck_assert_uint_eq(fusing_tasks(joined.plan, "conv2d-grads-parts-winograd4-tiles"),
                          backward);
        ck_assert_uint_eq(fusing_tasks(joined.plan, "bn-grad-parts-groups"), backward);
        ck_assert(forward == 0 || joined.plan->joined);
    }
    fusing_compare(&joined, &apart, batches, YKI_COUNT(batches), 1e-4);
}

/* Two blocks of a ResNet: each norm has its statistics from the convolution before it, and that
 * of its gradient from both gradients of the convolution behind it, but for the last norm. One has
 * a relu before it. Where that is all there is to join, the plan says so. A
 * transposed convolution gives neither: its gradient by x is a convolution, which could give
 * statistics alone. Not in a plan that saves memory or keeps to a budget, and without Winograd. */
START_TEST(a_convolution_gives_parts_to_a_norm)
{
    yoke_conv2d_options o = {.filters = 32, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true};
    yoke_conv_transpose2d_options turned = {
        .filters = 32, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true};
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_shape shape = yoke_shape(32, 16, 11);
    const parts_case how = (parts_case)_i;
    yoke_node *y, *z, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, shape);
    if (how == PARTS_ALONE)
        y = yoke_relu(g, yoke_batch_norm(g, yoke_conv2d(g, y, &o), NULL));
    else
        y = yoke_relu(g, yoke_mul(g, y, yoke_parameter(g, "p", shape, init)));
    for (int i = 0; i < 2 && how != PARTS_ALONE; i++) {
        z = yoke_conv2d(g, y, &o);
        if (how == PARTS && i == 0)
            z = yoke_relu(g, z);
        z = yoke_relu(g, yoke_batch_norm(g, z, NULL));
        z = how == PARTS_TRANSPOSED ? yoke_conv_transpose2d(g, z, &turned) : yoke_conv2d(g, z, &o);
        z = yoke_batch_norm(g, z, NULL);
        y = yoke_relu(g, yoke_add(g, z, y));
    }
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    fusing_each(g, check_parts, &how);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- batch norm ---- */

typedef enum norm_case {
    NORM,
    NORM_WITHOUT_PARAMETERS,
    NORM_AND_SHORTCUT,
    NORM_READ_TWICE
} norm_case;

/* A parameter before the norm has a gradient that goes through it. */
static yoke_graph *
normed_graph(norm_case which)
{
    yoke_batch_norm_options o = {.no_affine = which == NORM_WITHOUT_PARAMETERS};
    yoke_shape shape = yoke_shape(5, 12, 10);
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init));
    y = yoke_batch_norm(g, x, &o);
    if (which == NORM_AND_SHORTCUT)
        y = yoke_add(g, y, yoke_batch_norm(g, x, &o));
    y = yoke_relu(g, y);
    if (which == NORM_READ_TWICE)
        y = yoke_add(g, yoke_sigmoid(g, y), yoke_tanh(g, y));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

/* x tells what relu let pass, with the same bits, also where several read relu's result; not with a
 * shortcut between the two. */
/* Other devices than CPUs join a norm with its statistics, whose parts they add in another order.
 */
START_TEST(a_norm_finds_the_gate_again)
{
    check_gates(normed_graph((norm_case)_i), _i == NORM_AND_SHORTCUT ? WHOLE_GATE : NO_GATE);
}
END_TEST

/* Statistics go with their use, in both directions, and the gradients of gamma and beta with them.
 * Parts are joined in another order. Small channels are a launch, large ones two. */
START_TEST(statistics_go_with_their_use)
{
    static const int norms[] = {1, 1, 2, 1};

    fusing_check(normed_graph((norm_case)_i), true,
                 &(fusing_expected){_i == NORM ? "bn-layer-groups" : "bn-layer-whole",
                                    (unsigned)norms[_i],
                                    (unsigned)norms[_i] * (_i == NORM_WITHOUT_PARAMETERS ? 2 : 4),
                                    1e-5, _i == NORM ? 600 : 5, NO_CPU});
}
END_TEST

/* ---- running statistics ---- */

/* Two batch norms of different widths and momenta: their states move on without tasks, to the same
 * bits. */
START_TEST(running_statistics_take_no_tasks)
{
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, yoke_shape(5, 3, 4));
    y = yoke_batch_norm(g, y, &(yoke_batch_norm_options){.momentum = 0.3f});
    y = yoke_relu(g, y);
    /* A bias here would have the gradient 0, and nothing but rounding to be compared. */
    y = yoke_dense(g, yoke_flatten(g, y), &(yoke_dense_options){.units = 9, .no_bias = true});
    y = yoke_batch_norm(g, y, NULL);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(9));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    fusing_check(g, true, &(fusing_expected){"bn-running", 0, 4 + 2, 1e-5, 6, false});
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("fusion of images");
    TCase *tcase = test_case(suite, "images");

    tcase_add_loop_test(tcase, gradients_of_a_convolution_go_together, 0, 3);
    tcase_add_loop_test(tcase, a_convolution_gives_parts_to_a_norm, 0, PARTS_BUDGET + 1);
    tcase_add_loop_test(tcase, a_norm_finds_the_gate_again, 0, NORM_READ_TWICE + 1);
    tcase_add_loop_test(tcase, statistics_go_with_their_use, 0, NORM_READ_TWICE + 1);
    tcase_add_test(tcase, running_statistics_take_no_tasks);
    tcase_add_loop_test(tcase, a_maximum_is_gated_on_its_small_side, 0, 4);
    tcase_add_loop_test(tcase, an_average_is_gated_as_it_is_written, 0, 3);
    tcase_add_loop_test(tcase, a_first_layer_goes_with_its_pooling, 0, 8);
    tcase_add_loop_test(tcase, an_image_that_others_read_is_not_joined, 0, 8);
    return suite;
}
