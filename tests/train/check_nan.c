/* SPDX-License-Identifier: Apache-2.0
 *
 * check_nan.c - a NaN is seen: it passes every operator on its way to the loss, and
 * a step whose loss is not finite changes nothing, nor does one to which no sample counts. On
 * devices that have NaN (CL_FP_INF_NAN).
 *
 * Known exceptions, where PyTorch has none either, are listed in yoke_operators(3); those
 * of losses and metrics are held to here: ignored labels, probabilities of other classes than
 * the label's, and accuracy, which compares.
 */
#include <math.h>
#include <string.h>

#include "op/small_graphs.h"
#include "support/opened.h"
#include "support/support.h"

TESTS_SHARE_A_PROCESS

enum { N = 2, SIZE = OP_SMALL_CHANNELS * OP_SMALL_SIDE * OP_SMALL_SIDE };

static bool
has_nan(size_t index)
{
    return yki_device_get_traits(devices.device[index])->inf_nan;
}

/* ---- operators ---- */

/* A NaN in sample 1: some of its results are NaN, and none of sample 0's. */
static void
check_op(const op_small_graph *op, yoke_device *device, int position)
{
    const yoke_replica_options o = {
        .batch = N, .level = YOKE_PLAN_ESTIMATE, .evaluation_only = true};
    float x[N * SIZE], y[N * 4 * SIZE];
    yoke_replica *r;
    yoke_graph *g;
    yoke_node *result;
    size_t count = 1, found[N] = {0};

    ASSERT_OK(yoke_graph_create(&g));
    result = op->make(g, op_small_input(g, op));
    yoke_graph_set_output(g, "y", result);
    ASSERT_OK(yoke_graph_status(g));
    for (int32_t i = 0; i < yoke_node_shape(result).rank; i++)
        count *= (size_t)yoke_node_shape(result).dim[i];
    for (int i = 0; i < N * SIZE; i++)
        x[i] = 0.25f * (float)(i % 7) - 0.5f;
    x[SIZE + position] = NAN;
    ASSERT_OK(yoke_replica_create(device, g, &o, &r));
    ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_f32("x", x, N * SIZE)));
    ASSERT_OK(yoke_replica_evaluate(r, N));
    ASSERT_OK(yoke_replica_read_output(r, "y", y, N * count));
    for (size_t i = 0; i < N * count; i++)
        found[i / count] += isnan(y[i]) != 0;
    ck_assert_msg(found[0] == 0, "%s %s: a NaN came to the other sample", op->word, op->note);
    ck_assert_msg(found[1] > 0, "%s %s: the NaN at %d is gone", op->word, op->note, position);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

START_TEST(operator_passes_nan_on)
{
    for (size_t d = 0; d < devices.count; d++)
        for (int k = 0; has_nan(d) && k < (devices.slow ? 1 : 3); k++)
            check_op(&op_small_graphs[_i], devices.device[d], (int[]){21, 0, SIZE - 1}[k]);
}
END_TEST

/* Those that are made of others, and have no row of their own. */
static yoke_node *
conv1d(yoke_graph *g, yoke_node *x)
{
    x = yoke_reshape(g, x, yoke_shape(2, SIZE / 2));
    return yoke_conv1d(g, x, &(yoke_conv1d_options){.filters = 3, .kernel = 3, .pad = 1});
}

static yoke_node *
group_norm(yoke_graph *g, yoke_node *x)
{
    return yoke_group_norm(g, x, &(yoke_group_norm_options){.groups = 2});
}

static yoke_node *
prelu(yoke_graph *g, yoke_node *x)
{
    return yoke_prelu(g, x, NULL);
}

static yoke_node *
nearest(yoke_graph *g, yoke_node *x)
{
    return yoke_upsample2d(g, x, 2, 2, false);
}

static yoke_node *
bilinear(yoke_graph *g, yoke_node *x)
{
    return yoke_upsample2d(g, x, 2, 2, true);
}

START_TEST(composed_operator_passes_nan_on)
{
    static const op_small_graph composed[] = {
        {"conv1d", "", conv1d, OP_NO_TARGET, NULL},
        {"group_norm", "", group_norm, OP_NO_TARGET, NULL},
        {"prelu", "", prelu, OP_NO_TARGET, NULL},
        {"upsample2d", "nearest", nearest, OP_NO_TARGET, NULL},
        {"upsample2d", "bilinear", bilinear, OP_NO_TARGET, NULL},
    };

    for (size_t d = 0; d < devices.count; d++)
        for (size_t i = 0; has_nan(d) && i < YKI_COUNT(composed); i++)
            check_op(&composed[i], devices.device[d], 21);
}
END_TEST

/* ---- losses ---- */

static yoke_node *
plain(yoke_graph *g, yoke_node *x)
{
    return yoke_mean(g, x, NULL, 0);
}

/* dense -> relu -> batch norm -> dense -> sigmoid -> loss: has states, too. */
static yoke_graph *
network(const op_small_graph *loss)
{
    yoke_graph *g;
    yoke_node *h;

    ASSERT_OK(yoke_graph_create(&g));
    h = yoke_input(g, "x", YOKE_F32, yoke_shape(5));
    h = yoke_relu(g, yoke_dense(g, h, &(yoke_dense_options){.units = 6}));
    h = yoke_flatten(g, yoke_batch_norm(g, yoke_reshape(g, h, yoke_shape(6, 1, 1)), NULL));
    h = yoke_sigmoid(g, yoke_dense(g, h, &(yoke_dense_options){.units = 5}));
    yoke_graph_set_loss(g, loss->make(g, h));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static const struct {
    const char *name;
    size_t count;
} kept[] = {
    {"dense1.weight", 30}, {"dense1.bias", 6},      {"dense2.weight", 30},  {"dense2.bias", 5},
    {"bn1.weight", 6},     {"bn1.running_mean", 6}, {"bn1.running_var", 6},
};
enum { KEPT = 7, KEPT_FLOATS = 89 };

static void
read_kept(yoke_replica *r, float values[KEPT_FLOATS])
{
    for (int i = 0; i < KEPT; i++) {
        ASSERT_OK(yoke_replica_read(r, kept[i].name, values, kept[i].count));
        values += kept[i].count;
    }
}

static double
train(yoke_replica *r, const op_small_graph *loss)
{
    static const float x[4 * 5] = {1,  0.5f, -1,   2, 0, 3, -2, 1, 1,  0.5f,
                                   -1, 2,    0.5f, 1, 1, 0, 1,  2, -3, 0.25f};
    static const float values[4 * 5] = {0, 1, 1, 0, 1, 1, 0, 0, 1, 1};
    static const int32_t labels[4] = {0, 4, 2, 1};
    double sum, count;

    ASSERT_OK(yoke_replica_set_input(r, 4, yoke_feed_f32("x", x, YKI_COUNT(x))));
    if (loss->target != OP_NO_TARGET)
        ASSERT_OK(yoke_replica_set_input(r, 4,
                                         loss->target == OP_VALUES
                                             ? yoke_feed_f32("target", values, 4 * 5)
                                             : yoke_feed_i32("target", labels, 4)));
    ASSERT_OK(yoke_replica_forward(r, 4));
    ASSERT_OK(yoke_replica_backward(r));
    ASSERT_OK(yoke_replica_update(r, 1));
    ASSERT_OK(yoke_replica_read_loss(r, &sum, &count));
    return sum;
}

static void
check_loss(const op_small_graph *loss, yoke_device *device, float clip_norm)
{
    const yoke_replica_options o = {.batch = 4,
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .optimizer = yoke_adam(0.01f),
                                    .clip_norm = clip_norm};
    float good[KEPT_FLOATS], before[KEPT_FLOATS], after[KEPT_FLOATS], weight[30];
    yoke_graph *g = network(loss);
    yoke_replica *r;

    ASSERT_OK(yoke_replica_create(device, g, &o, &r));
    ck_assert(isfinite(train(r, loss)));
    read_kept(r, good);
    memcpy(weight, good, sizeof weight);
    weight[7] = NAN;
    ASSERT_OK(yoke_replica_write(r, "dense1.weight", weight, 30));
    read_kept(r, before);
    ck_assert_msg(isnan(train(r, loss)), "%s %s: the loss does not tell of a NaN", loss->word,
                  loss->note);
    read_kept(r, after);
    ck_assert_msg(memcmp(before, after, sizeof before) == 0,
                  "%s %s: a step with a NaN changed a weight or a state", loss->word, loss->note);
    /* Mended, it goes on from where it was. */
    ASSERT_OK(yoke_replica_write(r, "dense1.weight", good, 30));
    ck_assert(isfinite(train(r, loss)));
    read_kept(r, after);
    ck_assert(memcmp(good, after, sizeof good) != 0);
    for (int i = 0; i < KEPT_FLOATS; i++)
        ck_assert(isfinite(after[i]));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

static void
check_loss_on_all(const op_small_graph *loss)
{
    for (size_t d = 0; d < devices.count; d++)
        if (has_nan(d)) {
            check_loss(loss, devices.device[d], 0);
            check_loss(loss, devices.device[d], 1);
        }
}

START_TEST(loss_tells_of_nan_and_the_step_is_skipped)
{
    check_loss_on_all(&op_small_graphs[_i]);
}
END_TEST

START_TEST(mean_as_the_loss_tells_of_nan)
{
    check_loss_on_all(&(op_small_graph){"mean", "as the loss", plain, OP_NO_TARGET, NULL});
}
END_TEST

/* ---- steps of nothing ---- */

/* Four samples, of which none counts, or no samples. */
static void
step_of_nothing(yoke_replica *r, int64_t n)
{
    static const float x[4 * 5] = {1, 2, 3};
    static const int32_t ignored[4] = {-1, -1, -1, -1};
    double sum, count;

    ASSERT_OK(yoke_replica_set_input(r, n, yoke_feed_f32("x", x, n * 5)));
    ASSERT_OK(yoke_replica_set_input(r, n, yoke_feed_i32("target", ignored, n)));
    ASSERT_OK(yoke_replica_forward(r, n));
    ASSERT_OK(yoke_replica_backward(r));
    ASSERT_OK(yoke_replica_update(r, 1));
    ASSERT_OK(yoke_replica_read_loss(r, &sum, &count));
    ck_assert(sum == 0 && count == 0);
}

static yoke_node *
ignoring(yoke_graph *g, yoke_node *x)
{
    return yoke_softmax_cross_entropy(
        g, x, yoke_target(g, "target", YOKE_I32, yoke_shape()),
        &(yoke_loss_options){.has_ignore_index = 1, .ignore_index = -1});
}

/* Neither decay nor momentum moves anything, nor is the optimizer's state another afterwards. */
static void
check_nothing(yoke_device *device, yoke_optimizer optimizer, float clip_norm)
{
    static const op_small_graph loss = {"softmax_cross_entropy", "with ignored labels", ignoring,
                                        OP_LABELS, NULL};
    yoke_replica_options o = {
        .batch = 4, .level = YOKE_PLAN_ESTIMATE, .optimizer = optimizer, .clip_norm = clip_norm};
    float kept_values[3][KEPT_FLOATS];
    yoke_graph *g = network(&loss);
    yoke_replica *r, *other_one;

    o.optimizer.weight_decay = 0.1f;
    ASSERT_OK(yoke_replica_create(device, g, &o, &r));
    ASSERT_OK(yoke_replica_create(device, g, &o, &other_one));
    (void)train(r, &loss);
    (void)train(other_one, &loss);
    read_kept(r, kept_values[0]);
    for (int64_t n = 4; n >= 0; n -= 4) {
        step_of_nothing(r, n);
        read_kept(r, kept_values[1]);
        ck_assert_mem_eq(kept_values[0], kept_values[1], sizeof kept_values[0]);
    }
    /* The corrections of Adam go by the number of the step. */
    if (optimizer.kind != YOKE_OPTIMIZER_ADAM && optimizer.kind != YOKE_OPTIMIZER_ADAMW) {
        (void)train(r, &loss);
        (void)train(other_one, &loss);
        read_kept(r, kept_values[1]);
        read_kept(other_one, kept_values[2]);
        ck_assert_mem_eq(kept_values[1], kept_values[2], sizeof kept_values[1]);
        ck_assert_mem_ne(kept_values[0], kept_values[1], sizeof kept_values[1]);
    }
    yoke_replica_destroy(other_one);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

START_TEST(a_step_to_which_nothing_counts_is_skipped)
{
    const yoke_optimizer optimizers[] = {yoke_sgd(0.1f, 0.9f), yoke_adam(0.01f),
                                         yoke_adamw(0.01f, 0.1f), yoke_rmsprop(0.01f)};

    for (size_t d = 0; d < devices.count; d++) {
        check_nothing(devices.device[d], optimizers[_i], 0);
        check_nothing(devices.device[d], optimizers[_i], 1);
    }
}
END_TEST

/* As an output a loss has two values a sample: its own, and what it counts. */
START_TEST(a_loss_as_an_output_tells_what_counts)
{
    const yoke_replica_options o = {
        .batch = 3, .level = YOKE_PLAN_ESTIMATE, .evaluation_only = true};
    static const float x[3 * 4] = {1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0};
    static const int32_t labels[3] = {0, -1, 1};

    for (size_t d = 0; d < devices.count; d++) {
        float each[3 * 2];
        double sum, count;
        yoke_replica *r;
        yoke_graph *g;
        yoke_node *y;

        ASSERT_OK(yoke_graph_create(&g));
        y = yoke_input(g, "x", YOKE_F32, yoke_shape(4));
        y = yoke_mul(g, y,
                     yoke_parameter(g, "one", yoke_shape(1),
                                    (yoke_initializer){YOKE_INIT_CONSTANT, 1, 0, 0}));
        y = ignoring(g, y);
        yoke_graph_set_loss(g, y);
        yoke_graph_set_output(g, "each", y);
        ASSERT_OK(yoke_replica_create(devices.device[d], g, &o, &r));
        ASSERT_OK(yoke_replica_set_input(r, 3, yoke_feed_f32("x", x, 3 * 4)));
        ASSERT_OK(yoke_replica_set_input(r, 3, yoke_feed_i32("target", labels, 3)));
        ASSERT_OK(yoke_replica_evaluate(r, 3));
        ASSERT_OK(yoke_replica_read_loss(r, &sum, &count));
        ASSERT_OK(yoke_replica_read_output(r, "each", each, 3 * 2));
        ck_assert(each[1] == 1 && each[3] == 0 && each[5] == 1 && count == 2);
        ck_assert(each[0] > 0 && each[2] == 0 && each[4] > each[0]);
        ck_assert_double_eq_tol((double)each[0] + (double)each[4], sum, 1e-5 * sum);
        yoke_replica_destroy(r);
        yoke_graph_destroy(g);
    }
}
END_TEST

/* ---- known exceptions ---- */

/* Loss and metric of three rows of probabilities, or logits, of which NaN is in row 1. */
static void
evaluate_rows(yoke_device *device, bool is_logits, int32_t label, int at, double loss[2],
              double right[2])
{
    const yoke_replica_options o = {
        .batch = 3, .level = YOKE_PLAN_ESTIMATE, .evaluation_only = true};
    const yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = -1};
    const int32_t labels[3] = {0, label, 2};
    float x[3][4] = {{0.7f, 0.1f, 0.1f, 0.1f}, {0.1f, 0.7f, 0.1f, 0.1f}, {0.1f, 0.1f, 0.7f, 0.1f}};
    yoke_replica *r;
    yoke_graph *g;
    yoke_node *y, *target;

    x[1][at] = NAN;
    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, yoke_shape(4));
    y = yoke_mul(
        g, y,
        yoke_parameter(g, "one", yoke_shape(1), (yoke_initializer){YOKE_INIT_CONSTANT, 1, 0, 0}));
    target = yoke_target(g, "target", YOKE_I32, yoke_shape());
    yoke_graph_set_loss(g, is_logits ? yoke_softmax_cross_entropy(g, y, target, &ignore)
                                     : yoke_cross_entropy(g, y, target, &ignore));
    yoke_graph_add_metric(g, "right", yoke_accuracy(g, y, target));
    ASSERT_OK(yoke_replica_create(device, g, &o, &r));
    ASSERT_OK(yoke_replica_set_input(r, 3, yoke_feed_f32("x", x[0], 3 * 4)));
    ASSERT_OK(yoke_replica_set_input(r, 3, yoke_feed_i32("target", labels, 3)));
    ASSERT_OK(yoke_replica_evaluate(r, 3));
    ASSERT_OK(yoke_replica_read_loss(r, &loss[0], &loss[1]));
    ASSERT_OK(yoke_replica_read_metric(r, "right", &right[0], &right[1]));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

START_TEST(exceptions_are_those_of_the_manual)
{
    for (size_t d = 0; d < devices.count; d++) {
        double loss[2], right[2];

        if (!has_nan(d))
            continue;
        /* An ignored label; what is not the label's; and the label's own, which is seen. */
        evaluate_rows(devices.device[d], true, -1, 2, loss, right);
        ck_assert(isfinite(loss[0]) && loss[1] == 2);
        evaluate_rows(devices.device[d], false, 1, 2, loss, right);
        ck_assert(isfinite(loss[0]) && loss[1] == 3);
        evaluate_rows(devices.device[d], false, 1, 1, loss, right);
        ck_assert(isnan(loss[0]) && loss[1] == 3);
        ck_assert(right[0] == 2 && right[1] == 3); /* NaN is no right answer */
        evaluate_rows(devices.device[d], true, 1, 2, loss, right);
        ck_assert(isnan(loss[0]));
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("nan");
    TCase *tcase = test_case(suite, "nan");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    for (int i = 0; i < (int)op_small_graph_count; i++) {
        if (op_small_graphs[i].stops_nan)
            continue;
        if (op_small_graphs[i].target == OP_NO_TARGET)
            tcase_add_loop_test(tcase, operator_passes_nan_on, i, i + 1);
        else
            tcase_add_loop_test(tcase, loss_tells_of_nan_and_the_step_is_skipped, i, i + 1);
    }
    tcase_add_test(tcase, composed_operator_passes_nan_on);
    tcase_add_test(tcase, mean_as_the_loss_tells_of_nan);
    tcase_add_loop_test(tcase, a_step_to_which_nothing_counts_is_skipped, 0, 4);
    tcase_add_test(tcase, a_loss_as_an_output_tells_what_counts);
    tcase_add_test(tcase, exceptions_are_those_of_the_manual);
    return suite;
}
