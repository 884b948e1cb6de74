/* SPDX-License-Identifier: Apache-2.0
 *
 * absurd_graphs.c - the calls of check_absurd that build graphs. Each has a graph of its
 * own, since one keeps its first error.
 */
#include <string.h>

#include "train/absurd.h"

enum { WIDTH = 6 };

/* ---- graphs ---- */

/* A graph that nothing is wrong with yet, and nodes of it. */
static yoke_graph *g;
static yoke_node *image, *row, *label, *words;

static void
begin_graph(void)
{
    ASSERT_OK(yoke_graph_create(&g));
    image = yoke_input(g, "image", YOKE_F32, yoke_shape(2, 8, 8));
    row = yoke_input(g, "row", YOKE_F32, yoke_shape(WIDTH));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    words = yoke_input(g, "words", YOKE_I32, yoke_shape(5));
    ASSERT_OK(yoke_graph_status(g));
}

/* A call that gives a node: NULL, and the graph keeps the error. */
#define NO_NODE(part, call)                                                                        \
    do {                                                                                           \
        begin_graph();                                                                             \
        absurd_mark();                                                                             \
        ck_assert_msg((call) == NULL, "%s gives a node", #call);                                   \
        (void)yoke_fail(YOKE_ERROR_INTERNAL, MARK);                                                \
        absurd_judge(#call, yoke_graph_status(g), part);                                           \
        yoke_graph_destroy(g);                                                                     \
    } while (0)
/* One that gives nothing. */
#define GRAPH_FAILS(part, call)                                                                    \
    do {                                                                                           \
        begin_graph();                                                                             \
        absurd_mark();                                                                             \
        (call);                                                                                    \
        (void)yoke_fail(YOKE_ERROR_INTERNAL, MARK);                                                \
        absurd_judge(#call, yoke_graph_status(g), part);                                           \
        yoke_graph_destroy(g);                                                                     \
    } while (0)

START_TEST(inputs_and_parameters)
{
    const yoke_initializer zeros = {YOKE_INIT_ZEROS, 0, 0, 0};
    yoke_shape shape = yoke_shape(2);

    NO_NODE("name", yoke_input(g, NULL, YOKE_F32, shape));
    NO_NODE("name", yoke_input(g, "", YOKE_F32, shape));
    NO_NODE("type", yoke_input(g, "a", (yoke_type)3, shape));
    NO_NODE("type", yoke_target(g, "a", (yoke_type)-1, shape));
    NO_NODE("image", yoke_input(g, "image", YOKE_F32, shape));
    NO_NODE("name", yoke_parameter(g, NULL, shape, zeros));
    NO_NODE("name", yoke_parameter(g, "", shape, zeros));
    NO_NODE("label", yoke_parameter(g, "label", shape, zeros));
    NO_NODE("-1", yoke_parameter(g, "p", (yoke_shape){.rank = -1}, zeros));
    NO_NODE("8", yoke_parameter(g, "p", yoke_shape(1, 1, 1, 1, 1, 1, 1, 1), zeros));
    EACH (i, absurd_sizes) {
        NO_NODE("axis 1", yoke_input(g, "a", YOKE_F32, yoke_shape(3, absurd_sizes[i])));
        NO_NODE("axis 0", yoke_parameter(g, "p", yoke_shape(absurd_sizes[i]), zeros));
    }
    NO_NODE("axis 0", yoke_target(g, "a", YOKE_F32, yoke_shape(0)));
    NO_NODE("2^40", yoke_input(g, "a", YOKE_F32, yoke_shape(1 << 20, 1 << 20, 2)));
    NO_NODE("rank", yoke_input(g, "a", YOKE_F32, (yoke_shape){.rank = INT32_MAX}));
    NO_NODE("rank", yoke_input(g, "a", YOKE_F32, (yoke_shape){.rank = INT32_MIN}));
    shape.reserved = 7;
    NO_NODE("reserved of the shape is 7", yoke_input(g, "a", YOKE_F32, shape));
    NO_NODE("reserved of the shape is 7", yoke_parameter(g, "p", shape, zeros));
    NO_NODE("reserved of the shape is 7", yoke_reshape(g, row, shape));
    NOTHING(yoke_input(NULL, "a", YOKE_F32, yoke_shape()));
    NOTHING(yoke_parameter(NULL, "p", yoke_shape(), zeros));
}
END_TEST

START_TEST(initializers)
{
    const yoke_shape shape = yoke_shape(2);

    NO_NODE("p: the initializer's kind is 99; must be between 0 and 8",
            yoke_parameter(g, "p", shape, (yoke_initializer){(yoke_init_kind)99, 0, 0, 0}));
    NO_NODE("kind is -1",
            yoke_parameter(g, "p", shape, (yoke_initializer){(yoke_init_kind)-1, 0, 0, 0}));
    EACH (i, no_numbers) {
        NO_NODE("a of the initializer",
                yoke_parameter(g, "p", shape,
                               (yoke_initializer){YOKE_INIT_CONSTANT, no_numbers[i], 0, 0}));
        NO_NODE("b of the initializer",
                yoke_parameter(g, "p", shape,
                               (yoke_initializer){YOKE_INIT_NORMAL, 0, no_numbers[i], 0}));
    }
    NO_NODE("p: the initializer's a is 2; must not be above b, 1",
            yoke_parameter(g, "p", shape, (yoke_initializer){YOKE_INIT_UNIFORM, 2, 1, 0}));
    NO_NODE("deviation b is -1",
            yoke_parameter(g, "p", shape, (yoke_initializer){YOKE_INIT_NORMAL, 0, -1, 0}));
    NO_NODE("reserved of the initializer is 5",
            yoke_parameter(g, "p", shape, (yoke_initializer){YOKE_INIT_ZEROS, 0, 0, 5}));
    NO_NODE("dense1.weight: the initializer's kind is 99",
            yoke_dense(
                g, row,
                &(yoke_dense_options){.units = 2, .weight_init = {(yoke_init_kind)99, 0, 0, 0}}));
    NO_NODE("conv1.bias: a of the initializer is nan",
            yoke_conv2d(g, image,
                        &(yoke_conv2d_options){.filters = 2,
                                               .kernel = {1, 1},
                                               .bias_init = {YOKE_INIT_CONSTANT, NAN, 0, 0}}));
}
END_TEST

START_TEST(layers)
{
    NO_NODE("NULL", yoke_dense(g, NULL, &(yoke_dense_options){.units = 2}));
    NO_NODE("units is 0", yoke_dense(g, row, NULL));
    NO_NODE("dense1: the input \"label\" has shape (); must be (..., in)",
            yoke_dense(g, label, &(yoke_dense_options){.units = 2}));
    NO_NODE("", yoke_dense(g, words, &(yoke_dense_options){.units = 2}));
    NO_NODE("dense: the name of the layer is empty",
            yoke_dense(g, row, &(yoke_dense_options){.units = 2, .name = ""}));
    NO_NODE("row", yoke_dense(g, row, &(yoke_dense_options){.units = 2, .name = "row"}));
    NO_NODE(
        "name of the layer is empty",
        yoke_conv2d(g, image, &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}, .name = ""}));
    NO_NODE("name of the layer is empty",
            yoke_batch_norm(g, image, &(yoke_batch_norm_options){.name = ""}));
    NO_NODE("name of the layer is empty",
            yoke_layer_norm(g, image, &(yoke_layer_norm_options){.name = ""}));
    NO_NODE("name of the layer is empty",
            yoke_embedding(g, words, &(yoke_embedding_options){.rows = 2, .width = 2, .name = ""}));
    NO_NODE("", yoke_conv2d(g, image, NULL));
    NO_NODE("", yoke_conv2d(g, NULL, NULL));
    NO_NODE("", yoke_conv2d(g, row, &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}}));
    NO_NODE("", yoke_conv_transpose2d(g, image, NULL));
    NO_NODE("", yoke_maxpool2d(g, image, NULL));
    NO_NODE("", yoke_avgpool2d(g, NULL, NULL));
    NO_NODE("", yoke_embedding(g, row, &(yoke_embedding_options){.rows = 4, .width = 2}));
    NO_NODE("", yoke_embedding(g, words, NULL));
    NO_NODE("", yoke_batch_norm(g, NULL, NULL));
    NO_NODE("", yoke_batch_norm(g, label, NULL));
    NO_NODE("", yoke_layer_norm(g, label, NULL));
    EACH (i, absurd_sizes) {
        int64_t s = absurd_sizes[i];

        NO_NODE("units", yoke_dense(g, row, &(yoke_dense_options){.units = s}));
        NO_NODE("filters",
                yoke_conv2d(g, image, &(yoke_conv2d_options){.filters = s, .kernel = {1, 1}}));
        NO_NODE("kernel[1]",
                yoke_conv2d(g, image, &(yoke_conv2d_options){.filters = 2, .kernel = {1, s}}));
        NO_NODE("stride[0]", yoke_conv2d(g, image,
                                         &(yoke_conv2d_options){
                                             .filters = 2, .kernel = {1, 1}, .stride = {s, 1}}));
        NO_NODE("pad[0]",
                yoke_conv2d(g, image,
                            &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}, .pad = {s, 0}}));
        NO_NODE("dilation[0]",
                yoke_conv2d(
                    g, image,
                    &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}, .dilation = {s, 1}}));
        NO_NODE("groups",
                yoke_conv2d(g, image,
                            &(yoke_conv2d_options){.filters = 2, .kernel = {1, 1}, .groups = s}));
        NO_NODE("output_pad[0]",
                yoke_conv_transpose2d(g, image,
                                      &(yoke_conv_transpose2d_options){
                                          .filters = 2, .kernel = {1, 1}, .output_pad = {s, 0}}));
        NO_NODE("kernel[0]", yoke_maxpool2d(g, image, &(yoke_pool2d_options){.kernel = {s, 2}}));
        NO_NODE(
            "stride[0]",
            yoke_avgpool2d(g, image, &(yoke_pool2d_options){.kernel = {2, 2}, .stride = {s, 1}}));
        NO_NODE("pad[0]",
                yoke_avgpool2d(g, image, &(yoke_pool2d_options){.kernel = {2, 2}, .pad = {s, 0}}));
        NO_NODE("rows", yoke_embedding(g, words, &(yoke_embedding_options){.rows = s, .width = 2}));
        NO_NODE("width",
                yoke_embedding(g, words, &(yoke_embedding_options){.rows = 2, .width = s}));
        NO_NODE("slice", yoke_slice(g, row, 0, 0, s));
        NO_NODE("slice", yoke_slice(g, row, 0, s, WIDTH));
        NO_NODE("reshape", yoke_reshape(g, row, yoke_shape(s)));
    }
    EACH (i, no_numbers) {
        float x = no_numbers[i];

        NO_NODE("epsilon", yoke_batch_norm(g, image, &(yoke_batch_norm_options){.epsilon = x}));
        NO_NODE("momentum", yoke_batch_norm(g, image, &(yoke_batch_norm_options){.momentum = x}));
        NO_NODE("epsilon", yoke_layer_norm(g, image, &(yoke_layer_norm_options){.epsilon = x}));
        NO_NODE("dropout", yoke_dropout(g, row, x));
        NO_NODE("leaky_relu", yoke_leaky_relu(g, row, x));
        NO_NODE("elu", yoke_elu(g, row, x));
        NO_NODE("pow", yoke_pow(g, row, x));
        NO_NODE("scale", yoke_scale(g, row, x, 0));
        NO_NODE("scale", yoke_scale(g, row, 1, x));
    }
    NO_NODE("dropout", yoke_dropout(g, row, -0.5f));
    NO_NODE("dropout", yoke_dropout(g, row, 1));
    NO_NODE("axes", yoke_layer_norm(g, image, &(yoke_layer_norm_options){.axes = 4}));
    NO_NODE("axes", yoke_layer_norm(g, image, &(yoke_layer_norm_options){.axes = -1}));
}
END_TEST

/* Each takes one node. */
static yoke_node *(*const unary[])(yoke_graph *, yoke_node *) = {
    yoke_relu, yoke_gelu, yoke_silu, yoke_hardswish, yoke_sigmoid,       yoke_tanh,
    yoke_exp,  yoke_log,  yoke_sqrt, yoke_abs,       yoke_global_avgpool};
static yoke_node *(*const binary[])(yoke_graph *, yoke_node *, yoke_node *) = {
    yoke_add, yoke_sub, yoke_mul, yoke_div, yoke_maximum, yoke_minimum};

START_TEST(operators)
{
    static yoke_node *many[5000];
    static const int32_t axes[] = {INT32_MIN, -1, 3, INT32_MAX}, twice[] = {0, 0},
                         wrong[] = {0, 9, 1};
    const yoke_node *stranger;
    yoke_graph *other;

    ASSERT_OK(yoke_graph_create(&other));
    stranger = yoke_input(other, "x", YOKE_F32, yoke_shape(WIDTH));
    EACH (i, unary) {
        NO_NODE("NULL", unary[i](g, NULL));
        NO_NODE("", unary[i](g, words));
        NO_NODE("another graph", unary[i](g, (yoke_node *)stranger));
        NOTHING(unary[i](NULL, NULL));
    }
    EACH (i, binary) {
        NO_NODE("NULL", binary[i](g, row, NULL));
        NO_NODE("image", binary[i](g, row, image));
        NO_NODE("another graph", binary[i](g, row, (yoke_node *)stranger));
    }
    EACH (i, axes) {
        NO_NODE("softmax", yoke_softmax(g, image, axes[i]));
        NO_NODE("axes[0] is", yoke_sum(g, image, &axes[i], 1));
        NO_NODE("axes[0] is", yoke_mean(g, image, &axes[i], 1));
        NO_NODE("axis", yoke_slice(g, image, axes[i], 0, 1));
        NO_NODE("axis", yoke_concat(g, (yoke_node *[]){image, image}, 2, axes[i]));
    }
    NO_NODE("", yoke_sum(g, image, twice, 2));
    NO_NODE("", yoke_mean(g, image, twice, -1));
    NO_NODE("", yoke_sum(g, image, twice, 99));
    NO_NODE("", yoke_sum(g, image, NULL, 2));
    NO_NODE("", yoke_transpose(g, image, wrong));
    NO_NODE("", yoke_transpose(g, NULL, NULL));
    NO_NODE("", yoke_slice(g, row, 0, 4, 2));
    NO_NODE("", yoke_slice(g, row, 0, 2, 2));
    NO_NODE("", yoke_matmul(g, row, row, NULL));
    NO_NODE("", yoke_matmul(g, NULL, row, NULL));
    NO_NODE("", yoke_reshape(g, row, yoke_shape(WIDTH + 1)));
    NO_NODE("", yoke_reshape(g, NULL, yoke_shape(WIDTH)));
    NO_NODE("", yoke_flatten(g, NULL));
    NO_NODE("part", yoke_concat(g, NULL, 2, 0));
    NO_NODE("part", yoke_concat(g, (yoke_node *[]){row}, 0, 0));
    NO_NODE("", yoke_concat(g, (yoke_node *[]){row, NULL}, 2, 0));
    NO_NODE("", yoke_concat(g, (yoke_node *[]){row, words}, 2, 0));
    NO_NODE("input 0 is NULL", yoke_concat(g, many, 5000, 0));
    begin_graph();
    EACH (i, many)
        many[i] = row;
    ++*absurd_calls;
    ck_assert_int_eq(yoke_node_shape(yoke_concat(g, many, 5000, 0)).dim[0], 5000 * WIDTH);
    yoke_graph_destroy(g);
    yoke_graph_destroy(other);
}
END_TEST

static bool
no_shape(void *user, const yoke_shape *in, size_t count, yoke_shape *out)
{
    (void)in;
    (void)count;
    out->rank = user ? 99 : 1;
    out->dim[0] = -4;
    return true;
}

START_TEST(custom_operators)
{
    yoke_custom_options o = {.name = "own", .source = "__kernel void own_forward(void) {}"};

    NO_NODE("name", yoke_custom(g, &row, 1, NULL));
    NO_NODE("inputs", yoke_custom(g, &row, 0, &o));
    NO_NODE("inputs", yoke_custom(g, NULL, 1, &o));
    NO_NODE("inputs", yoke_custom(g, &row, 7, &o));
    NO_NODE("inputs", yoke_custom(g, &row, SIZE_MAX, &o));
    o.shape = no_shape;
    NO_NODE("shape", yoke_custom(g, &row, 1, &o));
    o.user = &o;
    NO_NODE("rank", yoke_custom(g, &row, 1, &o));
    o.name = "not an identifier";
    NO_NODE("identifier", yoke_custom(g, &row, 1, &o));
    o.name = "";
    NO_NODE("identifier", yoke_custom(g, &row, 1, &o));
    o.name = "own";
    o.source = NULL;
    NO_NODE("source", yoke_custom(g, &row, 1, &o));
}
END_TEST

typedef yoke_node *(*loss_function)(yoke_graph *, yoke_node *, yoke_node *,
                                    const yoke_loss_options *);

static const loss_function losses[] = {
    yoke_softmax_cross_entropy, yoke_cross_entropy, yoke_binary_cross_entropy,
    yoke_mean_squared_error,    yoke_l1_loss,       yoke_huber_loss};

START_TEST(losses_and_metrics)
{
    EACH (i, losses) {
        NO_NODE("", losses[i](g, NULL, label, NULL));
        NO_NODE("", losses[i](g, row, NULL, NULL));
        NO_NODE("", losses[i](g, row, image, NULL));
        NO_NODE("label_smoothing",
                losses[i](g, row, label, &(yoke_loss_options){.label_smoothing = NAN}));
        NO_NODE("delta", losses[i](g, row, label, &(yoke_loss_options){.delta = -1}));
    }
    NO_NODE("k is 0; must be between 1 and 6", yoke_top_k(g, row, label, 0));
    NO_NODE("k is 7; must be between 1 and 6", yoke_top_k(g, row, label, WIDTH + 1));
    NO_NODE("k is -2147483648", yoke_top_k(g, row, label, INT32_MIN));
    NO_NODE("", yoke_accuracy(g, row, row));
    NO_NODE("", yoke_accuracy(g, NULL, NULL));
    NO_NODE("", yoke_mean_absolute_error(g, row, label));
    GRAPH_FAILS("loss", yoke_graph_set_loss(g, NULL));
    GRAPH_FAILS("(6)", yoke_graph_set_loss(g, row));
    GRAPH_FAILS("metric", yoke_graph_set_loss(g, yoke_accuracy(g, row, label)));
    GRAPH_FAILS("output", yoke_graph_set_output(g, "", row));
    GRAPH_FAILS("output", yoke_graph_set_output(g, NULL, row));
    GRAPH_FAILS("output", yoke_graph_set_output(g, "y", NULL));
    GRAPH_FAILS("another output has this name",
                (yoke_graph_set_output(g, "y", row), yoke_graph_set_output(g, "y", row)));
    GRAPH_FAILS("metric", yoke_graph_add_metric(g, "", row));
    GRAPH_FAILS("metric", yoke_graph_add_metric(g, "m", NULL));
    GRAPH_FAILS("(2, 8, 8)", yoke_graph_add_metric(g, "m", image));
    GRAPH_FAILS("loss or a metric", yoke_relu(g, yoke_softmax_cross_entropy(g, row, label, NULL)));
    begin_graph();
    REFUSED("", yoke_graph_freeze(g, "*"));
    REFUSED("", yoke_graph_unfreeze(g, NULL));
    REFUSED("", yoke_graph_smooth_labels(NULL, 0.1f));
    REFUSED("", yoke_graph_freeze(NULL, "*"));
    REFUSED("", yoke_graph_print(g, NULL, NULL));
    REFUSED("", yoke_graph_count(g, NULL));
    REFUSED("", yoke_graph_create(NULL));
    REFUSED("", yoke_graph_status(NULL));
    REFUSED("", yoke_graph_to_json(g, NULL));
    REFUSED("", yoke_graph_to_json(NULL, NULL));
    NOTHING(yoke_graph_get_node(g, "nobody"));
    NOTHING(yoke_graph_get_node(g, NULL));
    NOTHING(yoke_graph_get_parameter(g, SIZE_MAX));
    NOTHING(yoke_graph_get_metric_name(g, 0));
    NOTHING(yoke_graph_metric_count(NULL));
    HARMLESS(yoke_node_shape(NULL));
    HARMLESS(yoke_node_name(NULL));
    yoke_graph_destroy(g);
    HARMLESS((yoke_graph_destroy(NULL), 0));
}
END_TEST

START_TEST(json)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "null",
                                        "{}",
                                        "{\"yoke_graph\": 1}",
                                        "{\"nodes\": 3}",
                                        "\"\"",
                                        "{\"nodes\": [{\"op\": \"relu\"}]}",
                                        "{\"nodes\": [[]]}",
                                        "\xff\xfe",
                                        "{\"a\":{\"a\":{\"a\":1}}}"};
    yoke_graph *graph = NULL;

    EACH (i, texts)
        REFUSED("", yoke_graph_from_json(texts[i], strlen(texts[i]), &graph));
    REFUSED("", yoke_graph_from_json(NULL, 4, &graph));
    REFUSED("", yoke_graph_from_json("{}", 2, NULL));
    ck_assert_ptr_null(graph);
}
END_TEST

void
absurd_add_graphs(TCase *tc)
{
    tcase_add_test(tc, inputs_and_parameters);
    tcase_add_test(tc, initializers);
    tcase_add_test(tc, layers);
    tcase_add_test(tc, operators);
    tcase_add_test(tc, custom_operators);
    tcase_add_test(tc, losses_and_metrics);
    tcase_add_test(tc, json);
}
