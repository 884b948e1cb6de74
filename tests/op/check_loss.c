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
    /* Where work-items run side by side, a group takes a sample of the last two: the first of them
     * class by class, the other position by position. */
    const yoke_shape shapes[] = {yoke_shape(7),       yoke_shape(1),      yoke_shape(5, 3),
                                 yoke_shape(3, 2, 4), yoke_shape(301, 2), yoke_shape(5, 3, 37)};
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

/* Classes side by side: widths around a vector, of one class, and longer than a group. */
START_TEST(loss_of_rows_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(5, 1), yoke_shape(3, 16), yoke_shape(2, 3, 33),
                                 yoke_shape(4, 1500)};
    const yoke_loss_options options[] = {
        {.axis = -1},
        {.axis = -1, .has_ignore_index = true, .label_smoothing = 0.1f},
    };
    const yoke_shape *s = &shapes[_i / 2];
    yoke_shape rest = {.rank = s->rank - 1};
    yoke_node *x, *label;
    yoke_graph *g;

    memcpy(rest.dim, s->dim, (size_t)rest.rank * sizeof rest.dim[0]);
    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, *s);
    label = yoke_target(g, "label", _i % 2 ? YOKE_U8 : YOKE_I32, rest);
    op_check_graph(
        g, yoke_softmax_cross_entropy(g, x, label, &options[_i % 2]),
        &(op_check_options){.labels = (int32_t)YKI_MIN(s->dim[s->rank - 1], 200), .scale = 3});
}
END_TEST

/* Fewer rows than a chunk, and more: of the largest batch, and of smaller ones. */
START_TEST(linear_loss_matches_oracle)
{
    const struct linear {
        int64_t rows, width, classes, batch;
    } table[] = {{1, 1, 1, 3}, {3, 5, 7, 4}, {7, 16, 33, 5}, {260, 8, 20, 3}, {173, 1, 3, 3}};
    const struct linear *t = &table[_i / 2];
    const yoke_loss_options ignore = {.has_ignore_index = true};
    yoke_node *x, *weight, *label;
    yoke_graph *g;

    /* llvmpipe takes half a minute to compile one. */
    if (test_in_short() && op_attention_is_slow() && _i != 2)
        return;
    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(t->rows, t->width));
    weight = yoke_parameter(g, "weight", yoke_shape(t->classes, t->width),
                            (yoke_initializer){YOKE_INIT_NORMAL, 0, 1, 0});
    label = yoke_target(g, "label", YOKE_I32, yoke_shape(t->rows));
    op_check_graph(g, yoke_linear_cross_entropy(g, x, weight, label, _i % 2 ? &ignore : NULL),
                   &(op_check_options){.labels = (int32_t)t->classes,
                                       .batch = t->batch,
                                       .no_differences = t->rows > 100,
                                       .simulator_flops = t->width == 1 ? 10000 : 0,
                                       .may_be_refused = true});
}
END_TEST

static int64_t
scratch_of(const yoke_node *node, const yki_device_traits *traits, int64_t batch)
{
    const yki_extents max = {.batch = batch};
    yki_problem problem;
    yki_recipe recipe;
    int64_t bytes = 0;

    yki_problem_of_node(node, max, &problem);
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == node->op && (*s)->applies(&problem, traits)) {
            ASSERT_OK(yki_solver_emit(*s, &problem, traits, 0, &recipe));
            for (uint32_t i = yki_problem_operands(&problem); i < recipe.slot_count; i++)
                bytes += yki_expr_value(recipe.slots[i].bytes, max);
            yki_recipe_clear(&recipe);
            break;
        }
    return bytes;
}

/* A batch that is four times as large takes no more than a pair for each row; on a GPU with much
 * memory chunks are larger. */
START_TEST(linear_loss_keeps_no_logits)
{
    enum { ROWS = 512, CLASSES = 5000 };
    yoke_context *context;
    yoke_selection *selection;
    yoke_node *x, *weight, *label, *loss;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(ROWS, 8));
    weight = yoke_parameter(g, "weight", yoke_shape(CLASSES, 8),
                            (yoke_initializer){.kind = YOKE_INIT_ZEROS});
    label = yoke_target(g, "label", YOKE_I32, yoke_shape(ROWS));
    loss = yoke_linear_cross_entropy(g, x, weight, label, NULL);
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++) {
        yki_device_traits traits = *yki_device_get_traits(yoke_selection_get(selection, i));
        int64_t few, many;

        if (traits.loop_limit)
            continue;
        traits.memory = (uint64_t)1 << 30;
        few = scratch_of(loss, &traits, 4), many = scratch_of(loss, &traits, 16);
        ck_assert_int_gt(few, 4 * ROWS * CLASSES);
        ck_assert_int_lt(few, 4 * 4 * ROWS * CLASSES);
        ck_assert_int_le(many, few + 8 * 12 * ROWS);
        traits.memory <<= 6;
        if (traits.type == YOKE_DEVICE_CPU)
            ck_assert_int_eq(scratch_of(loss, &traits, 16), many);
        else /* an accelerator is taken for a GPU */
            ck_assert_int_gt(scratch_of(loss, &traits, 16), 2 * many);
    }
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(loss_of_values_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(), yoke_shape(7), yoke_shape(3, 2, 5), yoke_shape(301)};

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

/* Classes have weights, or samples or labels, or both; with ignored labels and smoothing. */
START_TEST(weighted_loss_of_labels_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(7), yoke_shape(3, 2, 4), yoke_shape(301, 2),
                                 yoke_shape(5, 3, 37)};
    const yoke_shape *shape = &shapes[_i / 4];
    float values[301];
    yoke_shape rest = {.rank = shape->rank - 1};
    yoke_loss_options options = {
        .label_smoothing = _i % 2 ? 0.1f : 0, .has_ignore_index = true, .ignore_index = 1};
    yoke_node *x, *label;
    yoke_graph *g;

    if (test_in_short() && _i % 5 != 0) /* each shape once, each loss with and without smoothing */
        return;
    for (int c = 0; c < 301; c++)
        values[c] = (float)(c % 5) * 0.75f; /* some are 0 */
    memcpy(rest.dim, shape->dim + 1, (size_t)rest.rank * sizeof rest.dim[0]);
    for (int given = 1; given < 4; given++) {
        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, *shape);
        label = yoke_target(g, "label", YOKE_U8, rest);
        options.class_weights =
            given & 1 ? yoke_constant(g, "classes", yoke_shape(shape->dim[0]), values) : NULL;
        options.weights =
            given & 2 ? yoke_target(g, "w", YOKE_F32, _i % 2 ? rest : yoke_shape()) : NULL;
        op_check_graph(g, with_labels[_i / 2 % 2](g, x, label, &options),
                       &(op_check_options){.labels = (int32_t)YKI_MIN(shape->dim[0], 200),
                                           .positive = _i / 2 % 2 == 1});
    }
}
END_TEST

/* Of classes side by side. */
START_TEST(weighted_loss_of_rows_matches_oracle)
{
    const float values[] = {1, 0.5f, 3, 0, 2};
    yoke_loss_options options = {.axis = -1};
    yoke_node *x, *label;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(2, 3, 5));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape(2, 3));
    options.class_weights = yoke_constant(g, "classes", yoke_shape(5), values);
    options.weights = yoke_target(g, "w", YOKE_F32, yoke_shape(2, 3));
    op_check_graph(g, yoke_softmax_cross_entropy(g, x, label, &options),
                   &(op_check_options){.labels = 5});
}
END_TEST

START_TEST(weighted_loss_of_values_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(), yoke_shape(3, 2, 5), yoke_shape(301)};

    for (size_t i = 0; i < 2 * YKI_COUNT(shapes); i++) {
        const yoke_shape *shape = &shapes[i / 2];
        yoke_loss_options options = {0};
        yoke_graph *g;
        yoke_node *x, *t;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, *shape);
        t = yoke_target(g, "t", YOKE_F32, *shape);
        options.weights = yoke_target(g, "w", YOKE_F32, i % 2 ? *shape : yoke_shape());
        op_check_graph(g, with_values[_i](g, x, t, &options), &(op_check_options){.targets = "t"});
    }
}
END_TEST

/* A graph that is complete gets what the options would have given it. */
START_TEST(complete_graphs_take_weights)
{
    const float values[] = {1, 0.5f, 3};
    yoke_node *x, *label, *loss;
    yoke_graph *g, *again;
    char *text;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(4)),
                   &(yoke_dense_options){.units = 3});
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    loss = yoke_softmax_cross_entropy(g, x, label, NULL);
    yoke_graph_set_loss(g, loss);
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, x, label));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_weigh_loss(g, values, 2, NULL));
    ASSERT_DETAIL("softmax_cross_entropy1: the class weights "
                  "\"softmax_cross_entropy1.class_weights\" has shape (2); must be (3)");
    yoke_graph_destroy(g);

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(4)),
                   &(yoke_dense_options){.units = 3});
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    loss = yoke_softmax_cross_entropy(g, x, label, NULL);
    yoke_graph_set_loss(g, loss);
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, x, label));
    ASSERT_OK(yoke_graph_weigh_loss(g, values, 3, "weight"));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_graph_weigh_loss(g, values, 3, NULL));
    ck_assert_str_eq(yoke_node_name(loss), "softmax_cross_entropy1");
    ck_assert_uint_eq(loss->input_count, 4);
    for (uint32_t i = 0; i < loss->input_count; i++)
        ck_assert_uint_lt(loss->inputs[i]->id, loss->id);
    ASSERT_OK(yoke_graph_to_json(g, &text));
    ASSERT_OK(yoke_graph_from_json(text, strlen(text), &again));
    x = yoke_graph_get_node(again, "softmax_cross_entropy1.class_weights");
    ck_assert(x && x->data && memcmp(x->data, values, sizeof values) == 0);
    ck_assert_uint_eq(yoke_graph_get_node(again, "softmax_cross_entropy1")->input_count, 4);
    yoke_graph_destroy(again);
    yoke_free(text);
    op_check_graph(g, loss, &(op_check_options){.labels = 3});
}
END_TEST

/* The graph is as if the loss had been made with it. */
START_TEST(complete_graphs_take_smoothing)
{
    yoke_node *x, *label, *loss;
    yoke_graph *g;
    yki_loss_attrs a;

    ASSERT_OK(yoke_graph_create(&g));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, yoke_graph_smooth_labels(g, 0.1f));
    ASSERT_DETAIL("the graph has no loss; must have one");
    x = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(4)),
                   &(yoke_dense_options){.units = 3});
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    loss = yoke_softmax_cross_entropy(g, x, label, NULL);
    yoke_graph_set_loss(g, loss);
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_smooth_labels(g, 1));
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_smooth_labels(g, NAN));
    ASSERT_OK(yoke_graph_smooth_labels(g, 0.25f));
    a = yki_loss_attrs_get(&loss->attrs);
    ck_assert(a.label_smoothing == 0.25f && a.kind == YKI_LOSS_SOFTMAX_CE);
    op_check_graph(g, loss, &(op_check_options){.labels = 3});

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));
    label = yoke_target(g, "y", YOKE_F32, yoke_shape(4));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, label, NULL));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, yoke_graph_smooth_labels(g, 0.1f));
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(weights_that_do_not_fit_are_refused)
{
    const float values[] = {1, 0.5f, 3}, negative[] = {1, -1, 1};
    yoke_loss_options options = {0};
    yoke_node *x, *label;
    yoke_graph *g;

    for (int i = 0; i < 4; i++) {
        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, yoke_shape(3));
        label = yoke_target(g, "label", YOKE_I32, yoke_shape());
        if (i == 0) {
            options.class_weights = yoke_constant(g, "classes", yoke_shape(3), negative);
            yoke_softmax_cross_entropy(g, x, label, &options);
            ASSERT_DETAIL("the weight of class 1 is -1; must be between 0 and ");
        } else if (i == 1) {
            options.class_weights = yoke_constant(g, "classes", yoke_shape(3), values);
            yoke_mean_squared_error(g, x, yoke_target(g, "t", YOKE_F32, yoke_shape(3)), &options);
            ASSERT_DETAIL("class_weights are given; only a cross-entropy of labels takes them");
        } else if (i == 2) {
            options.weights = yoke_target(g, "w", YOKE_F32, yoke_shape(3));
            yoke_softmax_cross_entropy(g, x, label, &options);
            ASSERT_DETAIL(
                "the weights \"w\" has shape (3); must be (), and be given for each sample");
        } else {
            yoke_constant(g, "classes", yoke_shape(3), NULL);
            ASSERT_DETAIL("classes: yoke_constant: values is NULL");
        }
        ck_assert_int_ne(yoke_graph_status(g), YOKE_OK);
        yoke_graph_destroy(g);
        options = (yoke_loss_options){0};
    }
}
END_TEST

START_TEST(metric_matches_oracle)
{
    int64_t classes = _i ? 101 : 7;

    for (int32_t k = 1; k < 4; k++) {
        yoke_graph *g;
        yoke_node *x, *label;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, yoke_shape(classes, 3));
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
    tcase_add_loop_test(tcase, loss_of_rows_matches_oracle, 0, 8);
    tcase_add_loop_test(tcase, linear_loss_matches_oracle, 0, 10);
    tcase_add_test(tcase, linear_loss_keeps_no_logits);
    tcase_add_loop_test(tcase, loss_of_values_matches_oracle, 0, 4);
    tcase_add_loop_test(tcase, weighted_loss_of_labels_matches_oracle, 0, 16);
    tcase_add_test(tcase, weighted_loss_of_rows_matches_oracle);
    tcase_add_loop_test(tcase, weighted_loss_of_values_matches_oracle, 0, 4);
    tcase_add_test(tcase, complete_graphs_take_weights);
    tcase_add_test(tcase, complete_graphs_take_smoothing);
    tcase_add_test(tcase, weights_that_do_not_fit_are_refused);
    tcase_add_loop_test(tcase, metric_matches_oracle, 0, 2);
    tcase_add_test(tcase, loss_names_what_does_not_fit);
    tcase_add_test(tcase, loss_asks_for_a_forgotten_flatten);
    return suite;
}
