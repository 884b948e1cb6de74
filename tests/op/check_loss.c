/* SPDX-License-Identifier: Apache-2.0
 *
 * check_loss.c - losses and metrics: values, counts, gradients, and what they
 * refuse.
 */
#include <string.h>

#include "harness.h"

typedef yoke_node *(*loss_function)(yoke_graph *, yoke_node *, yoke_node *,
                                    const yoke_loss_options *);

static const loss_function with_labels[] = {yoke_softmax_cross_entropy, yoke_cross_entropy};
static const loss_function with_values[] = {yoke_binary_cross_entropy, yoke_mean_squared_error,
                                            yoke_l1_loss, yoke_huber_loss};

START_TEST(loss_of_labels_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(7), yoke_shape(1), yoke_shape(5, 3),
                                 yoke_shape(3, 2, 4)};
    const yoke_loss_options options[] = {
        {.delta = 0}, {.label_smoothing = 0.1f}, {.has_ignore_index = true, .ignore_index = 0}};

    for (size_t i = 0; i < YKI_COUNT(shapes); i++)
        for (size_t k = 0; k < YKI_COUNT(options); k++) {
            yoke_shape rest = {.rank = shapes[i].rank - 1};
            yoke_graph *g;
            yoke_node *x, *label;

            memcpy(rest.dim, shapes[i].dim + 1, (size_t)rest.rank * sizeof rest.dim[0]);
            ASSERT_OK(yoke_graph_create(&g));
            x = yoke_input(g, "x", YOKE_F32, shapes[i]);
            label = yoke_target(g, "label", YOKE_I32, rest);
            op_check_graph(
                g, with_labels[_i](g, x, label, &options[k]),
                &(op_check_options){.labels = (int32_t)shapes[i].dim[0], .positive = _i == 1});
        }
}
END_TEST

START_TEST(loss_of_values_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(), yoke_shape(7), yoke_shape(3, 2, 5)};

    for (size_t i = 0; i < YKI_COUNT(shapes); i++) {
        yoke_graph *g;
        yoke_node *x, *t;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, shapes[i]);
        t = yoke_target(g, "t", YOKE_F32, shapes[i]);
        /* The target is no parameter, so its gradient is not asked for: forward and x only. */
        op_check_graph(g, with_values[_i](g, x, t, NULL), &(op_check_options){.targets = "t"});
    }
}
END_TEST

START_TEST(metric_matches_oracle)
{
    for (int32_t k = 1; k < 4; k++) {
        yoke_graph *g;
        yoke_node *x, *label;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, yoke_shape(7, 3));
        label = yoke_target(g, "label", k == 2 ? YOKE_U8 : YOKE_I32, yoke_shape(3));
        op_check_graph(g, k == 1 ? yoke_accuracy(g, x, label) : yoke_top_k(g, x, label, k),
                       &(op_check_options){.labels = 7, .no_gradient = true, .batch = 40});
    }
}
END_TEST

START_TEST(loss_names_what_does_not_fit)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    yoke_softmax_cross_entropy(g, yoke_input(g, "x", YOKE_F32, yoke_shape(10)),
                               yoke_target(g, "label", YOKE_F32, yoke_shape()), NULL);
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_graph_status(g));
    ASSERT_DETAIL("softmax_cross_entropy1: the target \"label\" has type f32; must be i32 or u8");
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_mean_squared_error(g, yoke_input(g, "x", YOKE_F32, yoke_shape(10)),
                            yoke_target(g, "y", YOKE_F32, yoke_shape(9)), NULL);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("(10)");
    ASSERT_DETAIL("(9)");
    yoke_graph_destroy(g);
}
END_TEST

/* Each shape of the sentence is its own; what is likely forgotten is said where it helps. */
static void
expect_sentence(yoke_node *(*loss)(yoke_graph *, yoke_node *, yoke_node *,
                                   const yoke_loss_options *),
                yoke_shape x, yoke_type type, yoke_shape target, const char *sentence)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    loss(g, yoke_input(g, "x", YOKE_F32, x), yoke_target(g, "y", type, target), NULL);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), sentence);
    yoke_graph_destroy(g);
}

START_TEST(loss_asks_for_a_forgotten_flatten)
{
    expect_sentence(yoke_softmax_cross_entropy, yoke_shape(1, 8, 10), YOKE_I32, yoke_shape(),
                    "softmax_cross_entropy1: the target \"y\" has shape (); must be (8, 10), the "
                    "axes after the classes of \"x\" (1, 8, 10); did you forget yoke_flatten?");
    expect_sentence(yoke_softmax_cross_entropy, yoke_shape(8, 10), YOKE_I32, yoke_shape(4),
                    "softmax_cross_entropy1: the target \"y\" has shape (4); must be (10), the "
                    "axes after the classes of \"x\" (8, 10)");
    expect_sentence(yoke_mean_squared_error, yoke_shape(1, 8, 3), YOKE_F32, yoke_shape(3),
                    "mean_squared_error1: the target \"y\" has shape (3); must be (1, 8, 3), the "
                    "shape of \"x\"; did you forget yoke_flatten?");
    expect_sentence(
        yoke_mean_squared_error, yoke_shape(4), YOKE_F32, yoke_shape(3),
        "mean_squared_error1: the target \"y\" has shape (3); must be (4), the shape of \"x\"");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("loss");
    TCase *tcase = test_case(suite, "loss");

    tcase_add_loop_test(tcase, loss_of_labels_matches_oracle, 0, 2);
    tcase_add_loop_test(tcase, loss_of_values_matches_oracle, 0, 4);
    tcase_add_test(tcase, metric_matches_oracle);
    tcase_add_test(tcase, loss_names_what_does_not_fit);
    tcase_add_test(tcase, loss_asks_for_a_forgotten_flatten);
    return suite;
}
