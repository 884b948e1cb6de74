/* SPDX-License-Identifier: Apache-2.0
 *
 * check_graph.c - building graphs: errors that are kept and named, arguments that
 * are none, names, parameters, and that many nodes cost no more than their number.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "op/ops.h"
#include "support/support.h"

static const yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};

static yoke_graph *
new_graph(void)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    return g;
}

/* The graph has failed like this; destroys it. */
static void
failed(yoke_graph *g, yoke_status status, const char *sentence)
{
    ASSERT_STATUS(status, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), sentence);
    yoke_graph_destroy(g);
}

START_TEST(first_error_is_kept)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(4)), *y;

    y = yoke_reshape(g, x, yoke_shape(5));
    ck_assert_ptr_null(y);
    /* What follows does nothing and changes nothing. */
    ck_assert_ptr_null(yoke_relu(g, x));
    ck_assert_ptr_null(yoke_softmax(g, y, 9));
    ck_assert_ptr_null(yoke_input(g, "", YOKE_F32, yoke_shape()));
    yoke_graph_set_output(g, NULL, NULL);
    yoke_graph_set_loss(g, NULL);
    yoke_graph_add_metric(g, NULL, NULL);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_freeze(g, "*"));
    failed(g, YOKE_ERROR_SHAPE,
           "reshape1: the shape (5) has 5 elements; must have 4, as \"x\" of shape (4) has");
}
END_TEST

/* Every builder with this graph and no node, and with no options. */
static void
call_all(yoke_graph *g)
{
    static const int32_t axes[1] = {0};
    yoke_node *none[2] = {NULL, NULL};

    ck_assert_ptr_null(yoke_dense(g, NULL, NULL));
    ck_assert_ptr_null(yoke_conv2d(g, NULL, NULL));
    ck_assert_ptr_null(yoke_conv_transpose2d(g, NULL, NULL));
    ck_assert_ptr_null(yoke_maxpool2d(g, NULL, NULL));
    ck_assert_ptr_null(yoke_avgpool2d(g, NULL, NULL));
    ck_assert_ptr_null(yoke_global_avgpool(g, NULL));
    ck_assert_ptr_null(yoke_batch_norm(g, NULL, NULL));
    ck_assert_ptr_null(yoke_embedding(g, NULL, NULL));
    ck_assert_ptr_null(yoke_matmul(g, NULL, NULL, NULL));
    ck_assert_ptr_null(yoke_relu(g, NULL));
    ck_assert_ptr_null(yoke_leaky_relu(g, NULL, 0.1f));
    ck_assert_ptr_null(yoke_elu(g, NULL, 1));
    ck_assert_ptr_null(yoke_hardswish(g, NULL));
    ck_assert_ptr_null(yoke_gelu(g, NULL));
    ck_assert_ptr_null(yoke_silu(g, NULL));
    ck_assert_ptr_null(yoke_sigmoid(g, NULL));
    ck_assert_ptr_null(yoke_tanh(g, NULL));
    ck_assert_ptr_null(yoke_exp(g, NULL));
    ck_assert_ptr_null(yoke_log(g, NULL));
    ck_assert_ptr_null(yoke_sqrt(g, NULL));
    ck_assert_ptr_null(yoke_abs(g, NULL));
    ck_assert_ptr_null(yoke_pow(g, NULL, 2));
    ck_assert_ptr_null(yoke_scale(g, NULL, 1, 0));
    ck_assert_ptr_null(yoke_add(g, NULL, NULL));
    ck_assert_ptr_null(yoke_sub(g, NULL, NULL));
    ck_assert_ptr_null(yoke_mul(g, NULL, NULL));
    ck_assert_ptr_null(yoke_div(g, NULL, NULL));
    ck_assert_ptr_null(yoke_maximum(g, NULL, NULL));
    ck_assert_ptr_null(yoke_minimum(g, NULL, NULL));
    ck_assert_ptr_null(yoke_dropout(g, NULL, 0.5f));
    ck_assert_ptr_null(yoke_softmax(g, NULL, 0));
    ck_assert_ptr_null(yoke_sum(g, NULL, axes, 1));
    ck_assert_ptr_null(yoke_mean(g, NULL, NULL, 0));
    ck_assert_ptr_null(yoke_concat(g, NULL, 2, 0));
    ck_assert_ptr_null(yoke_concat(g, none, 2, 0));
    ck_assert_ptr_null(yoke_concat(g, none, 1, 0));
    ck_assert_ptr_null(yoke_concat(g, none, 0, 0));
    ck_assert_ptr_null(yoke_slice(g, NULL, 0, 0, 1));
    ck_assert_ptr_null(yoke_reshape(g, NULL, yoke_shape()));
    ck_assert_ptr_null(yoke_flatten(g, NULL));
    ck_assert_ptr_null(yoke_transpose(g, NULL, NULL));
    ck_assert_ptr_null(yoke_softmax_cross_entropy(g, NULL, NULL, NULL));
    ck_assert_ptr_null(yoke_cross_entropy(g, NULL, NULL, NULL));
    ck_assert_ptr_null(yoke_binary_cross_entropy(g, NULL, NULL, NULL));
    ck_assert_ptr_null(yoke_mean_squared_error(g, NULL, NULL, NULL));
    ck_assert_ptr_null(yoke_l1_loss(g, NULL, NULL, NULL));
    ck_assert_ptr_null(yoke_huber_loss(g, NULL, NULL, NULL));
    ck_assert_ptr_null(yoke_accuracy(g, NULL, NULL));
    ck_assert_ptr_null(yoke_top_k(g, NULL, NULL, 1));
    ck_assert_ptr_null(yoke_mean_absolute_error(g, NULL, NULL));
    ck_assert_ptr_null(yoke_custom(g, NULL, 1, NULL));
    ck_assert_ptr_null(yoke_custom(g, none, 1, NULL));
    ck_assert_ptr_null(yoke_input(g, NULL, YOKE_F32, yoke_shape()));
    ck_assert_ptr_null(yoke_target(g, NULL, YOKE_F32, yoke_shape()));
    ck_assert_ptr_null(yoke_parameter(g, NULL, yoke_shape(), init));
    yoke_graph_set_output(g, NULL, NULL);
    yoke_graph_add_metric(g, NULL, NULL);
    yoke_graph_set_loss(g, NULL);
}

START_TEST(nothing_falls_over_null)
{
    yoke_graph *g = new_graph();

    call_all(NULL);
    call_all(g);
    ck_assert_int_ne(yoke_graph_status(g), YOKE_OK);
    yoke_graph_destroy(g);
    yoke_graph_destroy(NULL);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_create(NULL));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_status(NULL));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_freeze(NULL, "*"));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_unfreeze(NULL, "*"));
    ck_assert_ptr_null(yoke_graph_get_node(NULL, "x"));
    ck_assert_ptr_null(yoke_graph_get_parameter(NULL, 0));
    ck_assert_uint_eq(yoke_graph_parameter_count(NULL), 0);
    ck_assert_uint_eq(yoke_graph_metric_count(NULL), 0);
    ck_assert_ptr_null(yoke_graph_get_metric_name(NULL, 0));
    ck_assert_str_eq(yoke_node_name(NULL), "");
    ck_assert_int_eq(yoke_node_shape(NULL).rank, 0);
    ck_assert_int_eq(yoke_node_type(NULL), YOKE_F32);
    g = new_graph();
    ck_assert_ptr_null(yoke_graph_get_node(g, NULL));
    ck_assert_ptr_null(yoke_graph_get_node(g, "x"));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_freeze(g, NULL));
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(shapes_without_elements_are_refused)
{
    yoke_graph *g = new_graph();

    yoke_input(g, "x", YOKE_F32, yoke_shape(3, 0));
    failed(g, YOKE_ERROR_SHAPE, "x: the size of axis 1 is 0; must be between 1 and 2147483647");
    g = new_graph();
    yoke_parameter(g, "p", yoke_shape(-4), init);
    failed(g, YOKE_ERROR_SHAPE, "p: the size of axis 0 is -4; must be between 1 and 2147483647");
    g = new_graph();
    yoke_input(g, "x", YOKE_F32, yoke_shape(INT64_C(1099511627776)));
    failed(g, YOKE_ERROR_SHAPE,
           "x: the size of axis 0 is 1099511627776; must be between 1 and 2147483647");
    g = new_graph();
    yoke_input(g, "x", YOKE_F32, yoke_shape(1, 1, 1, 1, 1, 1, 1, 1));
    failed(g, YOKE_ERROR_SHAPE, "x: the rank of the shape is 8; must be between 0 and 7");
    g = new_graph();
    yoke_input(g, "x", YOKE_F32, (yoke_shape){.rank = -1});
    failed(g, YOKE_ERROR_SHAPE, "x: the rank of the shape is -1; must be between 0 and 7");
    g = new_graph();
    yoke_input(g, "x", (yoke_type)9, yoke_shape());
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "x: the type is 9; must be YOKE_F32, YOKE_I32 or YOKE_U8");
}
END_TEST

START_TEST(names_are_unique)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));

    yoke_parameter(g, "relu2", yoke_shape(), init);
    ck_assert_str_eq(yoke_node_name(yoke_relu(g, x)), "relu1");
    ck_assert_str_eq(yoke_node_name(yoke_relu(g, x)), "relu3"); /* relu2 is the user's */
    ck_assert_str_eq(yoke_node_name(yoke_tanh(g, x)), "tanh1");
    ck_assert_ptr_eq(yoke_graph_get_node(g, "relu3"), yoke_graph_get_node(g, "relu3"));
    ck_assert_str_eq(yoke_node_name(yoke_graph_get_node(g, "relu3")), "relu3");
    ck_assert_ptr_null(yoke_graph_get_node(g, "relu4"));
    ASSERT_OK(yoke_graph_status(g));
    yoke_input(g, "x", YOKE_F32, yoke_shape());
    failed(g, YOKE_ERROR_INVALID_ARGUMENT, "x: another node has this name; must be unique");
}
END_TEST

START_TEST(failed_node_is_not_found)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));

    yoke_slice(g, x, 5, 0, 1);
    ck_assert_ptr_null(yoke_graph_get_node(g, "slice1"));
    ck_assert_ptr_eq(yoke_graph_get_node(g, "x"), x);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(outputs_and_metrics_have_one_name_each)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));

    yoke_graph_set_output(g, "y", x);
    yoke_graph_set_output(g, "z", x);
    ASSERT_OK(yoke_graph_status(g));
    yoke_graph_set_output(g, "y", x);
    failed(g, YOKE_ERROR_INVALID_ARGUMENT, "y: another output has this name; must be unique");
    g = new_graph();
    x = yoke_input(g, "x", YOKE_F32, yoke_shape());
    yoke_graph_add_metric(g, "n", x);
    yoke_graph_add_metric(g, "m", x);
    ck_assert_uint_eq(yoke_graph_metric_count(g), 2);
    ck_assert_str_eq(yoke_graph_get_metric_name(g, 0), "n");
    ck_assert_str_eq(yoke_graph_get_metric_name(g, 1), "m");
    ck_assert_ptr_null(yoke_graph_get_metric_name(g, 2));
    yoke_graph_add_metric(g, "m", x);
    failed(g, YOKE_ERROR_INVALID_ARGUMENT, "m: another metric has this name; must be unique");
}
END_TEST

START_TEST(nodes_of_another_graph_are_refused)
{
    yoke_graph *g = new_graph(), *other = new_graph();
    yoke_node *x = yoke_input(other, "x", YOKE_F32, yoke_shape(4));

    yoke_add(g, yoke_input(g, "a", YOKE_F32, yoke_shape(4)), x);
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "add1: input 1 \"x\" is a node of another graph; must be a node of this graph");
    g = new_graph();
    yoke_graph_set_output(g, "y", x);
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "y: the output \"x\" is a node of another graph; must be a node of this graph");
    g = new_graph();
    yoke_graph_set_loss(g, x);
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "the loss \"x\" is a node of another graph; must be a node of this graph");
    g = new_graph();
    yoke_graph_add_metric(g, "m", x);
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "m: the metric \"x\" is a node of another graph; must be a node of this graph");
    yoke_graph_destroy(other);
}
END_TEST

START_TEST(loss_is_a_scalar_of_the_sample)
{
    yoke_graph *g = new_graph();

    yoke_graph_set_loss(g, yoke_input(g, "x", YOKE_F32, yoke_shape(4)));
    failed(g, YOKE_ERROR_SHAPE,
           "x: the loss has shape (4); must be a loss or a scalar for each sample");
    g = new_graph();
    yoke_graph_set_loss(g, yoke_parameter(g, "p", yoke_shape(), init));
    failed(g, YOKE_ERROR_SHAPE,
           "p: the loss has shape () for all samples; must be a loss or a scalar for each sample");
}
END_TEST

START_TEST(a_metric_is_a_scalar_of_the_sample)
{
    yoke_graph *g = new_graph();

    yoke_graph_add_metric(g, "spread", yoke_input(g, "x", YOKE_F32, yoke_shape(4)));
    failed(g, YOKE_ERROR_SHAPE,
           "x: the metric \"spread\" has shape (4); must be a metric, a loss or a scalar for each "
           "sample");
    g = new_graph();
    yoke_graph_add_metric(g, "size", yoke_parameter(g, "p", yoke_shape(), init));
    failed(g, YOKE_ERROR_SHAPE,
           "p: the metric \"size\" has shape () for all samples; must be a metric, a loss or a "
           "scalar for each sample");
}
END_TEST

/* A loss or a metric of logits; label is the target. */
static yoke_node *
reported(yoke_graph *g, bool metric)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));
    yoke_node *label = yoke_target(g, "label", YOKE_I32, yoke_shape());

    return metric ? yoke_accuracy(g, x, label) : yoke_softmax_cross_entropy(g, x, label, NULL);
}

START_TEST(a_metric_is_no_loss)
{
    yoke_graph *g = new_graph();

    yoke_graph_set_loss(g, reported(g, true));
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "accuracy1: the loss is a metric, which has no gradient; must be a loss or a scalar for "
           "each sample");
}
END_TEST

START_TEST(a_loss_is_no_operand)
{
    yoke_graph *g = new_graph();

    yoke_scale(g, reported(g, false), 2, 0);
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "scale1: input 0 \"softmax_cross_entropy1\" is a loss or a metric; must be neither, as "
           "no operator computes from them");
    g = new_graph();
    yoke_reshape(g, reported(g, true), yoke_shape(2, 1));
    failed(g, YOKE_ERROR_INVALID_ARGUMENT,
           "reshape1: input 0 \"accuracy1\" is a loss or a metric; must be neither, as no operator "
           "computes from them");
}
END_TEST

static yoke_status
differentiate(yoke_graph *g)
{
    return yki_graph_differentiate(g, &yki_op_binary, &yki_op_ones, NULL, 0);
}

START_TEST(something_must_be_trained)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape());

    ASSERT_STATUS(YOKE_ERROR_STATE, differentiate(g));
    ck_assert_str_eq(yoke_last_error(), "the graph has no loss; call yoke_graph_set_loss before");
    yoke_graph_set_loss(g, yoke_tanh(g, x));
    ASSERT_STATUS(YOKE_ERROR_STATE, differentiate(g));
    ck_assert_str_eq(
        yoke_last_error(),
        "\"tanh1\" depends on no parameter that is trained; must depend on at least one");
    yoke_graph_destroy(g);
}
END_TEST

/* Two layers and a parameter of one's own, unused. */
static yoke_graph *
layers(void)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));

    x = yoke_dense(g, x, &(yoke_dense_options){.units = 3, .name = "first"});
    x = yoke_dense(g, x, &(yoke_dense_options){.units = 1});
    yoke_parameter(g, "extra", yoke_shape(2), init);
    yoke_graph_set_loss(g, yoke_reshape(g, x, yoke_shape()));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

START_TEST(parameters_are_in_the_order_of_their_layers)
{
    static const char *const names[] = {"first.weight", "first.bias", "dense1.weight",
                                        "dense1.bias", "extra"};
    yoke_graph *g = layers();

    ck_assert_uint_eq(yoke_graph_parameter_count(g), YKI_COUNT(names));
    for (size_t i = 0; i < YKI_COUNT(names); i++) {
        ck_assert_str_eq(yoke_node_name(yoke_graph_get_parameter(g, i)), names[i]);
        ck_assert_ptr_eq(yoke_graph_get_node(g, names[i]), yoke_graph_get_parameter(g, i));
    }
    ck_assert_ptr_null(yoke_graph_get_parameter(g, YKI_COUNT(names)));
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(patterns_freeze_parameters)
{
    yoke_graph *g = layers();

    ASSERT_OK(yoke_graph_freeze(g, "*.weight"));
    ASSERT_OK(yoke_graph_freeze(g, "dense?.*"));
    ASSERT_OK(yoke_graph_unfreeze(g, "first.weight"));
    ASSERT_OK(yoke_graph_unfreeze(g, "*"));
    ASSERT_OK(yoke_graph_freeze(g, "first.*"));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_graph_freeze(g, "second.*"));
    ck_assert_str_eq(yoke_last_error(),
                     "no parameter matches \"second.*\"; the first parameter is \"first.weight\"");
    ASSERT_OK(yoke_graph_status(g)); /* that is no error of the graph */
    ck_assert(yoke_graph_get_node(g, "first.weight")->frozen);
    ck_assert(yoke_graph_get_node(g, "first.bias")->frozen);
    ck_assert(!yoke_graph_get_node(g, "dense1.weight")->frozen);
    ck_assert(!yoke_graph_get_node(g, "extra")->frozen);
    ASSERT_OK(differentiate(g));
    ck_assert_ptr_null(yoke_graph_get_node(g, "first.weight")->gradient);
    ck_assert_ptr_nonnull(yoke_graph_get_node(g, "dense1.weight")->gradient);
    ck_assert_ptr_null(yoke_graph_get_node(g, "extra")->gradient);
    yoke_graph_destroy(g);
    g = layers();
    ASSERT_OK(yoke_graph_freeze(g, "*"));
    ASSERT_STATUS(YOKE_ERROR_STATE, differentiate(g));
    yoke_graph_destroy(g);
}
END_TEST

/* A network with one of each layer; NULL nodes are passed on. */
static void
build_network(yoke_graph *g)
{
    static const char source[] = "";
    yoke_node *parts[9], *x = yoke_input(g, "x", YOKE_I32, yoke_shape(6)), *h;

    h = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 9, .width = 4});
    h = yoke_softmax(g, yoke_dropout(g, yoke_transpose(g, h, NULL), 0.5f), 1);
    for (int i = 0; i < 9; i++)
        parts[i] = yoke_slice(g, h, 1, i / 2, i / 2 + 2);
    h = yoke_concat(g, parts, 9, 0);
    h = yoke_custom(g, &h, 1, &(yoke_custom_options){.name = "f", .source = source});
    h = yoke_dense(g, yoke_flatten(g, h), &(yoke_dense_options){.units = 3});
    yoke_graph_set_output(g, "y", h);
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, h, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
}

/* Whichever allocation fails, the graph says so, and nothing is lost or read. */
START_TEST(memory_may_run_out_anywhere)
{
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;
    uint64_t n = 0;

    while (status == YOKE_ERROR_OUT_OF_MEMORY) {
        yoke_graph *g = NULL;

        yki_alloc_fail_at(++n);
        status = yoke_graph_create(&g);
        if (status == YOKE_OK) {
            build_network(g);
            status = yoke_graph_status(g);
        }
        if (status == YOKE_OK)
            status = differentiate(g);
        yki_alloc_fail_at(0);
        yoke_graph_destroy(g);
    }
    ASSERT_OK(status);
    ck_assert_uint_gt(n, 100);
}
END_TEST

/* What limits a node limits what it is made of; an exception stays where all others take it, as
 * theirs or as one of their values, in whatever order they come. */
START_TEST(values_fit_all_that_read_them)
{
    static const int32_t ignored = -100, padding = 0;
    static const struct {
        struct {
            int64_t low, limit;
            const int32_t *exception;
        } of[2];
        int64_t low, limit;
        bool takes_ignored;
    } rows[] = {
        {{{0, 10, &ignored}, {-200, 300, NULL}}, 0, 10, true},
        {{{0, 10, &ignored}, {-200, 5, NULL}}, 0, 5, true},
        {{{0, 10, &ignored}, {0, 300, NULL}}, 0, 10, false},
        {{{0, 10, &ignored}, {0, 7, &ignored}}, 0, 7, true},
        {{{0, 10, &ignored}, {0, 7, &padding}}, 0, 7, false},
        {{{0, 10, &padding}, {1, 20, NULL}}, 1, 10, false},
        {{{0, 10, &padding}, {-200, 7, &ignored}}, 0, 7, false},
    };

    for (size_t i = 0; i < 2 * YKI_COUNT(rows); i++) {
        yoke_graph *g = new_graph();
        yoke_node *x = yoke_input(g, "x", YOKE_I32, yoke_shape(4));
        yoke_node *y = yoke_slice(g, x, 0, 1, 3);

        for (size_t k = 0; k < 2; k++) {
            size_t of = (k + i) % 2;

            ck_assert(yki_limit_values(k ? x : y, rows[i / 2].of[of].low, rows[i / 2].of[of].limit,
                                       rows[i / 2].of[of].exception));
        }
        ck_assert_int_eq(x->low, rows[i / 2].low);
        ck_assert_int_eq(x->limit, rows[i / 2].limit);
        ck_assert(yki_value_fits(x, x->low) && yki_value_fits(x, x->limit - 1));
        ck_assert(!yki_value_fits(x, x->low - 1) && !yki_value_fits(x, x->limit));
        ck_assert_msg(yki_value_fits(x, ignored) == rows[i / 2].takes_ignored, "row %zu", i / 2);
        yoke_graph_destroy(g);
    }
}
END_TEST

/* With costs in the square of the nodes this takes minutes. */
START_TEST(many_nodes_are_no_trouble)
{
    enum { NODES = 50000 };
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_parameter(g, "p", yoke_shape(), init);
    clock_t start = clock();
    yki_hash hash;

    x = yoke_mul(g, x, yoke_input(g, "x", YOKE_F32, yoke_shape()));
    for (int i = 0; i < NODES; i++)
        x = yoke_tanh(g, x);
    yoke_graph_set_loss(g, x);
    ASSERT_OK(differentiate(g));
    yki_graph_hash(g, &hash);
    ck_assert_ptr_nonnull(yoke_graph_get_node(g, "tanh49999"));
    ck_assert_uint_gt(g->node_count, 2 * NODES);
    yoke_graph_destroy(g);
    ck_assert_double_le((double)(clock() - start) / CLOCKS_PER_SEC, 10);
}
END_TEST

START_TEST(shapes_count_their_sizes)
{
    const yoke_shape image = yoke_shape(1, 28, 29), scalar = yoke_shape();
    yoke_graph *g;

    ck_assert_int_eq(image.rank, 3);
    ck_assert_int_eq(image.dim[0], 1);
    ck_assert_int_eq(image.dim[2], 29);
    ck_assert_int_eq(image.dim[3], 0);
    ck_assert_int_eq(scalar.rank, 0);
    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(yoke_input(g, "x", YOKE_F32, yoke_shape(1, 2, 3, 4, 5, 6, 7, 8, 9)));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("9");
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("graph");
    TCase *tcase = test_case(suite, "graph");

    tcase_add_test(tcase, shapes_count_their_sizes);
    tcase_add_test(tcase, first_error_is_kept);
    tcase_add_test(tcase, nothing_falls_over_null);
    tcase_add_test(tcase, shapes_without_elements_are_refused);
    tcase_add_test(tcase, names_are_unique);
    tcase_add_test(tcase, failed_node_is_not_found);
    tcase_add_test(tcase, outputs_and_metrics_have_one_name_each);
    tcase_add_test(tcase, nodes_of_another_graph_are_refused);
    tcase_add_test(tcase, loss_is_a_scalar_of_the_sample);
    tcase_add_test(tcase, a_metric_is_a_scalar_of_the_sample);
    tcase_add_test(tcase, a_metric_is_no_loss);
    tcase_add_test(tcase, a_loss_is_no_operand);
    tcase_add_test(tcase, something_must_be_trained);
    tcase_add_test(tcase, parameters_are_in_the_order_of_their_layers);
    tcase_add_test(tcase, patterns_freeze_parameters);
    tcase_add_test(tcase, values_fit_all_that_read_them);
    tcase_add_test(tcase, memory_may_run_out_anywhere);
    tcase_add_test(tcase, many_nodes_are_no_trouble);
    return suite;
}
