/* SPDX-License-Identifier: Apache-2.0
 *
 * check_fusion.c - each fusion is taken where it should be, and gives what the
 * separate tasks give: the same network is planned with and without fusions and run
 * on the same numbers, for several batches. Those of images are in check_fusion_images.c.
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

/* Its gradient has the same bits whatever is joined: a bias' sums may have another order then. */
static yoke_node *
dense_without_bias(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .no_bias = true});
}

/* ---- the loss ---- */

static yoke_graph *
label_graph(bool reported)
{
    yoke_loss_options options = {.label_smoothing = 0.1f, .has_ignore_index = 1, .ignore_index = 3};
    yoke_node *y, *label;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense_without_bias(g, yoke_input(g, "x", YOKE_F32, yoke_shape(7)), 5);
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, &options));
    if (reported) {
        yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, label));
        yoke_graph_add_metric(g, "top2", yoke_top_k(g, y, label, 2));
        yoke_graph_add_metric(g, "top3", yoke_top_k(g, y, label, 3));
    }
    return g;
}

/* Two metrics go with the loss, the third stays by itself. */
START_TEST(loss_goes_with_its_gradient_and_metrics)
{
    fusing_check(label_graph(true), true,
                 &(fusing_expected){"loss-step", 1, 5, 0, _i ? 900 : 6, false});
}
END_TEST

START_TEST(loss_goes_with_its_sum_in_evaluation)
{
    fusing_check(label_graph(_i), false, &(fusing_expected){"loss-step", 1, 1, 0, 6, false});
}
END_TEST

static yoke_node *
loss_of(yoke_graph *g, int kind, yoke_node *y, yoke_node *target)
{
    switch (kind) {
    case 0:
        return yoke_mean_squared_error(g, y, target, NULL);
    case 1:
        return yoke_l1_loss(g, y, target, NULL);
    case 2:
        return yoke_huber_loss(g, y, target, &(yoke_loss_options){.delta = 0.5f});
    default:
        return yoke_binary_cross_entropy(g, y, target, NULL);
    }
}

START_TEST(losses_of_elements_are_joined_too)
{
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense_without_bias(g, yoke_input(g, "x", YOKE_F32, yoke_shape(3, 7)), 5);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(3, 5));
    yoke_graph_set_loss(g, loss_of(g, _i, y, target));
    yoke_graph_add_metric(g, "error", yoke_mean_absolute_error(g, y, target));
    fusing_check(g, true, &(fusing_expected){"loss-step", 1, 3, 0, 6, false});
}
END_TEST

/* Someone looks at the samples' own losses: they stay. */
START_TEST(a_loss_that_is_a_result_stays)
{
    yoke_node *y, *target, *loss;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(7)), 5);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(5));
    loss = yoke_mean_squared_error(g, y, target, NULL);
    yoke_graph_set_loss(g, loss);
    yoke_graph_set_output(g, "losses", loss);
    fusing_check(g, true, &(fusing_expected){"loss-step", 0, 0, 0, 6, false});
}
END_TEST

/* ---- dense layers ---- */

/* Layers of these widths with relu between them, on (rows, width) of each sample, or (width). */
static yoke_graph *
dense_graph(const int64_t *widths, size_t count, int64_t rows, bool bias)
{
    yoke_shape shape = rows ? yoke_shape(rows, widths[0]) : yoke_shape(widths[0]);
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, shape);
    for (size_t i = 1; i < count; i++) {
        y = yoke_dense(g, i > 1 ? yoke_relu(g, y) : y,
                       &(yoke_dense_options){.units = widths[i], .no_bias = !bias});
    }
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

/* Sums of a bias' gradient are in another order: 1e-5 of the largest. On a CPU a layer's backward
 * is one task, but for the first layer's, which has only one product, and for the last layer's,
 * which goes with the loss. */
START_TEST(backward_of_dense_layers_is_a_task_each)
{
    static const int64_t widths[][4] = {{10, 32, 7, 1}, {33, 17, 64, 5}, {1, 2, 3, 4}};
    const fusing_expected e = {"gemm-cpu-pair", 1, 11, 1e-5, 37, true};
    const fusing_expected no_bias = {"gemm-cpu-pair", 1, 8, 1e-5, 37, true};

    fusing_check(dense_graph(widths[_i % 3], 4, 0, _i / 3), true, _i / 3 ? &e : &no_bias);
}
END_TEST

/* The last layer, with its loss and its backward. */
static yoke_graph *
last_layer_graph(int64_t inputs, int64_t units, bool first, bool labels, bool bias)
{
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(inputs));
    if (!first)
        x = yoke_relu(g, dense(g, x, inputs));
    y = yoke_dense(g, x, &(yoke_dense_options){.units = units, .no_bias = !bias});
    target = labels ? yoke_target(g, "target", YOKE_I32, yoke_shape())
                    : yoke_target(g, "target", YOKE_F32, yoke_shape(units));
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, labels ? yoke_softmax_cross_entropy(g, y, target, NULL)
                                  : yoke_huber_loss(g, y, target, NULL));
    if (labels)
        yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, target));
    return g;
}

/* As the only layer or behind another, with labels and with values, with a bias and without, in
 * widths that fill vectors and that do not; its result stays an output. */
START_TEST(the_last_layer_goes_with_its_loss)
{
    static const int64_t widths[][2] = {{32, 10}, {19, 4}, {5, 33}};

    if (test_in_short() && _i % 5 != 0)
        return;
    fusing_check(last_layer_graph(widths[_i / 8][0], widths[_i / 8][1], _i & 1, _i & 2, _i & 4),
                 true, &(fusing_expected){"dense-loss", 1, _i & 1 ? 4 : 6, 1e-5, 21, true});
}
END_TEST

/* Not a layer with more work than a core should do alone, nor one with many units. */
START_TEST(a_large_last_layer_keeps_its_tasks)
{
    static const int64_t widths[][2] = {{900, 40}, {20, 65}};

    fusing_check(last_layer_graph(widths[_i][0], widths[_i][1], true, true, true), true,
                 &(fusing_expected){"dense-loss", 0, 4, 1e-5, 21, true});
}
END_TEST

/* The layer's result, or its gradient, has another reader. */
START_TEST(a_last_layer_that_others_read_keeps_its_tasks)
{
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(9));
    y = dense(g, x, 6);
    if (_i)
        yoke_graph_set_output(g, "more", yoke_sigmoid(g, y));
    else
        y = yoke_add(g, y, dense(g, x, 6));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(6));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    fusing_check(g, true, &(fusing_expected){"dense-loss", 0, 2, 1e-5, 7, true});
}
END_TEST

START_TEST(rows_of_a_sample_are_summed_too)
{
    static const int64_t widths[] = {6, 9, 3};

    fusing_check(dense_graph(widths, 3, 5, true), true,
                 &(fusing_expected){"gemm-cpu-pair", 1, 6, 1e-5, 7, true});
}
END_TEST

/* Too much work for one launch with another: two tasks, each with what belongs to it. */
START_TEST(large_layers_keep_their_products_apart)
{
    static const int64_t widths[] = {300, 310, 320};

    fusing_check(dense_graph(widths, 3, 0, true), true,
                 &(fusing_expected){"gemm-cpu-pair", 0, 6, 1e-5, 64, true});
}
END_TEST

/* relu's result has two readers, so its gradient is a sum: nothing to gate in the product. */
START_TEST(a_sum_of_gradients_is_not_gated)
{
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_relu(g, dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(9)), 8));
    y = yoke_add(g, dense(g, x, 8), x);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(8));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    fusing_check(g, true, &(fusing_expected){NULL, 0, 2, 1e-5, 7, true});
}
END_TEST

/* ---- sums ---- */

/* Several read what relu gives: one of the additions of their gradients goes with the gate, with
 * the same bits. */
START_TEST(a_gate_adds_what_meets_there)
{
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_relu(g, yoke_add(g, yoke_input(g, "x", YOKE_F32, yoke_shape(5, 7)),
                              yoke_parameter(g, "p", yoke_shape(5, 7), init)));
    y = yoke_mul(g, yoke_sigmoid(g, x), yoke_tanh(g, x));
    if (_i)
        y = yoke_mul(g, y, yoke_silu(g, x));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    /* The products: forward's and two for each of them in backward; a sum of three has one addition
     * left. */
    fusing_check(g, true, &(fusing_expected){"binary-flat", _i ? 6 + 1 : 3, 1, 0, 6, false});
}
END_TEST

static void
check_late_sums(yoke_device *device, yoke_graph *graph, const void *with)
{
    yki_plan_options options = {
        .max.batch = 40, .training = true, .strict = true, .level = YOKE_PLAN_ESTIMATE};
    const yki_device_traits *traits = yki_device_get_traits(device);
    const int64_t batches[] = {40, 20, 0};
    fusing_side late, early;

    fusing_create(&early, device, graph, &options);
    options.late_sums = true;
    fusing_create(&late, device, graph, &options);
    (void)with;
    ck_assert_uint_eq(early.plan->late.count, 0);
    if (traits->type != YOKE_DEVICE_CPU && traits->compute_units >= 4)
        ck_assert_uint_eq(late.plan->late.count, 3);
    fusing_compare(&late, &early, batches, YKI_COUNT(batches), 1e-5);
}

/* On a GPU, the parts of all gradients of weights are added at the end of backward. The order is
 * another. */
START_TEST(parts_of_gradients_are_added_late)
{
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, yoke_shape(16, 6, 7));
    for (int i = 0; i < 3; i++)
        y = yoke_conv2d(
            g, yoke_relu(g, y),
            &(yoke_conv2d_options){.filters = 16 + i, .kernel = {2, 3}, .no_bias = true});
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    fusing_each(g, check_late_sums, NULL);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- language models ---- */

/* Each of two layers gives the logarithms of its sums with its result. */
START_TEST(attention_keeps_its_sums_for_backward)
{
    const yoke_attention_options o = {.heads = 2, .shared = 1, .causal = true};
    yoke_node *x, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(6, 5));
    x = yoke_attention(g, dense(g, x, 12), NULL, &o);
    x = yoke_attention(g, dense(g, x, 12), NULL, &o);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(6, 6));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    fusing_check(g, true, &(fusing_expected){"attention", 2, 7, 1e-5, 7, true});
}
END_TEST

/* The head reads the table of the embedding, whose two gradients are added; the loss computes its
 * logits once, in more than one chunk. Integers are 0 to 3. */
START_TEST(a_tied_head_computes_its_logits_once)
{
    const yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = 3};
    yoke_node *x, *table, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "words", YOKE_I32, yoke_shape(90));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 9, .width = 8, .name = "wte"});
    x = yoke_rms_norm(g, x, &(yoke_layer_norm_options){.axes = 1});
    table = yoke_graph_get_node(g, "wte.weight");
    target = yoke_target(g, "target", YOKE_I32, yoke_shape(90));
    yoke_graph_set_loss(g, yoke_linear_cross_entropy(g, x, table, target, &ignore));
    fusing_check(g, true, &(fusing_expected){"linear-loss", 1, 3, 1e-5, 7, false});
}
END_TEST

/* The other gradient is made where the sum belongs, and not moved there. */
static void
check_place_of_sum(yoke_device *device, yoke_graph *graph, const void *with)
{
    fusing_side side;
    unsigned found = 0;

    (void)with;
    fusing_open(&side, device, graph, 7, true, false);
    for (size_t t = 0; t < side.plan->task_count; t++) {
        const yki_task *task = &side.plan->tasks[t];

        if (task->problem.op != &yki_op_embedding_grad)
            continue;
        ck_assert_uint_eq(task->problem.input_count, 3);
        ck_assert_ptr_nonnull(side.plan->values[task->slots[3]].buffer);
        ck_assert_ptr_eq(side.plan->values[task->slots[2]].buffer,
                         side.plan->values[task->slots[3]].buffer);
        found++;
    }
    ck_assert_uint_eq(found, 1);
    fusing_close(&side);
}

/* The table of the embedding has other gradients: of a head that is the same table, of another
 * embedding, or of both. No sum is left, only the products of the embeddings: the rows are added
 * where it was. */
START_TEST(an_embedding_adds_its_rows_to_another_gradient)
{
    const yoke_shape words = yoke_shape(11);
    yoke_node *x, *more, *table, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "words", YOKE_I32, words);
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 9, .width = 8, .name = "wte"});
    table = yoke_graph_get_node(g, "wte.weight");
    if (_i > 0) { /* as a second embedding of the same table, which has no function of its own */
        yoke_node *inputs[2] = {yoke_input(g, "others", YOKE_I32, words), table};

        more = yki_node(g, &yki_op_embedding, NULL, inputs, 2, NULL, 0);
        x = yoke_mul(g, x, more);
    }
    x = yoke_tanh(g, x);
    if (_i == 1) {
        target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(x));
        yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    } else {
        target = yoke_target(g, "target", YOKE_I32, words);
        x = yoke_matmul(g, x, table, &(yoke_matmul_options){.transpose_b = true});
        yoke_graph_set_loss(
            g, yoke_softmax_cross_entropy(g, x, target, &(yoke_loss_options){.axis = -1}));
    }
    if (_i == 0)
        fusing_each(g, check_place_of_sum, NULL);
    fusing_check(
        g, true,
        &(fusing_expected){"binary-flat", _i > 0 ? 3 : 0, _i == 2 ? 2 : 1, 1e-5, 7, false});
}
END_TEST

/* The head is the table and what is learned besides, whose gradient is the head's: no row is added
 * to that. */
START_TEST(an_embedding_leaves_a_gradient_that_is_another_weights)
{
    const yoke_shape words = yoke_shape(11);
    yoke_node *x, *table, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "words", YOKE_I32, words);
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 9, .width = 8, .name = "wte"});
    table = yoke_add(g, yoke_graph_get_node(g, "wte.weight"),
                     yoke_parameter(g, "difference", yoke_shape(9, 8), (yoke_initializer){0}));
    x = yoke_matmul(g, yoke_tanh(g, x), table, &(yoke_matmul_options){.transpose_b = true});
    target = yoke_target(g, "target", YOKE_I32, words);
    yoke_graph_set_loss(g,
                        yoke_softmax_cross_entropy(g, x, target, &(yoke_loss_options){.axis = -1}));
    fusing_check(g, true, &(fusing_expected){"binary-flat", 2, 0, 1e-5, 7, false});
}
END_TEST

/* Those by the input and by the parameters: a task less, and with a shift both rows. */
START_TEST(gradients_of_a_layer_norm_are_joined)
{
    const yoke_layer_norm_options options = {.axes = 1, .name = "norm"};
    yoke_node *x, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = dense_without_bias(g, yoke_input(g, "x", YOKE_F32, yoke_shape(3, 7)), 20);
    x = _i ? yoke_rms_norm(g, x, &options) : yoke_layer_norm(g, x, &options);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(3, 20));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    fusing_check(g, true,
                 &(fusing_expected){"layer-norm-grads", 1, _i ? 1 : 3, 1e-5, _i ? 300 : 7, NO_CPU});
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("fusion");
    TCase *tcase = test_case(suite, "loss");

    tcase_add_loop_test(tcase, loss_goes_with_its_gradient_and_metrics, 0, 2);
    tcase_add_loop_test(tcase, loss_goes_with_its_sum_in_evaluation, 0, 2);
    tcase_add_loop_test(tcase, losses_of_elements_are_joined_too, 0, 4);
    tcase_add_test(tcase, a_loss_that_is_a_result_stays);
    tcase = test_case(suite, "dense");
    tcase_add_loop_test(tcase, backward_of_dense_layers_is_a_task_each, 0, 6);
    tcase_add_loop_test(tcase, the_last_layer_goes_with_its_loss, 0, 24);
    tcase_add_loop_test(tcase, a_large_last_layer_keeps_its_tasks, 0, 2);
    tcase_add_loop_test(tcase, a_last_layer_that_others_read_keeps_its_tasks, 0, 2);
    tcase_add_test(tcase, rows_of_a_sample_are_summed_too);
    tcase_add_test(tcase, large_layers_keep_their_products_apart);
    tcase_add_test(tcase, a_sum_of_gradients_is_not_gated);
    tcase_add_test(tcase, parts_of_gradients_are_added_late);
    tcase_add_loop_test(tcase, a_gate_adds_what_meets_there, 0, 2);
    tcase_add_test(tcase, attention_keeps_its_sums_for_backward);
    tcase_add_loop_test(tcase, an_embedding_adds_its_rows_to_another_gradient, 0, 3);
    tcase_add_test(tcase, an_embedding_leaves_a_gradient_that_is_another_weights);
    tcase_add_test(tcase, a_tied_head_computes_its_logits_once);
    tcase_add_loop_test(tcase, gradients_of_a_layer_norm_are_joined, 0, 2);
    return suite;
}
