/* SPDX-License-Identifier: Apache-2.0
 *
 * check_graph_json.c - graphs as JSON and back: every operator and every built-in
 * model comes out the same, a person's file is understood, and what is wrong in one
 * is said with its line or its node.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/graph_json.h"
#include "fuzz/fuzz.h"
#include "op/small_graphs.h"
#include "plan/plan.h"
#include "support/support.h"

static void
same_parameters(const yoke_graph *a, const yoke_graph *b)
{
    for (size_t i = 0; i < a->node_count; i++) {
        const yoke_node *x = a->nodes[i], *y = b->nodes[i];

        ck_assert_str_eq(x->name, y->name);
        ck_assert(!x->place == !y->place);
        if (x->place)
            ck_assert_str_eq(a->places[x->place - 1], b->places[y->place - 1]);
        ck_assert(memcmp(&x->initializer, &y->initializer, sizeof x->initializer) == 0);
        ck_assert(x->fan_in == y->fan_in && x->fan_out == y->fan_out && x->frozen == y->frozen);
        ck_assert(x->limit == y->limit && x->has_exception == y->has_exception &&
                  x->exception == y->exception && x->random_key == y->random_key);
    }
}

/* To JSON and back: the same; the text is the caller's. Destroys the graph. */
static char *
round_trip(yoke_graph *graph)
{
    yki_hash before, after;
    yoke_graph *again;
    char *text, *second;

    ASSERT_OK(yoke_graph_to_json(graph, &text));
    ck_assert_msg(yoke_graph_from_json(text, strlen(text), &again) == YOKE_OK, "%s\n%s",
                  yoke_last_error(), text);
    yki_graph_hash(graph, &before);
    yki_graph_hash(again, &after);
    ck_assert_msg(memcmp(&before, &after, sizeof before) == 0, "another graph:\n%s", text);
    ck_assert_uint_eq(graph->node_count, again->node_count);
    same_parameters(graph, again);
    ASSERT_OK(yoke_graph_to_json(again, &second));
    ck_assert_str_eq(text, second);
    yoke_free(second);
    yoke_graph_destroy(again);
    yoke_graph_destroy(graph);
    return text;
}

START_TEST(built_in_models)
{
    const yoke_zoo_model *model;

    for (size_t k = 0; (model = yoke_zoo_get(k)) != NULL; k++)
        for (int i = 0; i < 2; i++) {
            yoke_zoo_options o = {0};
            yoke_graph *graph;

            if (i)
                o.input = model->kind == YOKE_ZOO_TEXTS ? yoke_shape(12) : yoke_shape(3, 12, 12);
            ASSERT_OK(yoke_zoo(model->name, &o, &graph));
            yoke_free(round_trip(graph));
        }
}
END_TEST

/* ---- every operator, with options that are not the defaults ---- */

static yoke_graph *
new_graph(void)
{
    yoke_graph *graph;

    ASSERT_OK(yoke_graph_create(&graph));
    return graph;
}

static bool
halved(void *user, const yoke_shape *in, size_t count, yoke_shape *out)
{
    (void)user, (void)count;
    *out = in[0];
    out->dim[0] /= 2;
    return true;
}

static const yoke_initializer uniform = {YOKE_INIT_UNIFORM, -0.1f, 1.f / 3, 0};
static const yoke_initializer zeros = {YOKE_INIT_ZEROS, 0, 0, 0};

static yoke_node *
images(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "image", YOKE_F32, yoke_shape(4, 9, 10)), *y;

    y = yoke_conv2d(g, x,
                    &(yoke_conv2d_options){.filters = 6,
                                           .kernel = {3, 2},
                                           .stride = {2, 1},
                                           .pad = {1, 0},
                                           .dilation = {1, 2},
                                           .groups = 2,
                                           .name = "first",
                                           .no_bias = true,
                                           .weight_init = uniform});
    y = yoke_relu(g, yoke_batch_norm(g, y, NULL));
    y = yoke_batch_norm(g, y,
                        &(yoke_batch_norm_options){.epsilon = 1e-3f,
                                                   .momentum = 0.3f,
                                                   .local = true,
                                                   .no_affine = true,
                                                   .name = "odd name/*[a]"});
    y = yoke_conv2d(g, y, &(yoke_conv2d_options){.filters = 4, .kernel = {1, 1}});
    y = yoke_conv_transpose2d(g, y,
                              &(yoke_conv_transpose2d_options){.filters = 4,
                                                               .kernel = {3, 3},
                                                               .stride = {2, 2},
                                                               .pad = {1, 1},
                                                               .output_pad = {1, 0},
                                                               .groups = 2,
                                                               .bias_init = zeros});
    y = yoke_maxpool2d(g, y, &(yoke_pool2d_options){.kernel = {2, 2}, .ceil_mode = true});
    y = yoke_avgpool2d(g, y,
                       &(yoke_pool2d_options){
                           .kernel = {2, 2}, .stride = {1, 2}, .pad = {1, 1}, .exclude_pad = true});
    y = yoke_layer_norm(g, yoke_leaky_relu(g, y, 0.2f),
                        &(yoke_layer_norm_options){.axes = 1, .epsilon = 1e-4f});
    y = yoke_layer_norm(g, y, &(yoke_layer_norm_options){.no_affine = true, .name = "whole"});
    return yoke_global_avgpool(g, yoke_dropout(g, yoke_dropout(g, y, 0.1f), 0.5f));
}

static yoke_node *
vectors(yoke_graph *g, yoke_node *x)
{
    static const int32_t axes[2] = {1, 0};
    static const char source[] = "/* \"quoted\"\n\ttabs \\ and \xc3\xa9 */\n"
                                 "__kernel void half_forward(...) {}";
    yoke_node *words = yoke_input(g, "words", YOKE_I32, yoke_shape(5)), *y, *own, *parts[3];

    y = yoke_embedding(g, words, &(yoke_embedding_options){.rows = 11, .width = 4});
    y = yoke_add(
        g, y,
        yoke_embedding(g, words,
                       &(yoke_embedding_options){
                           .rows = 7, .width = 4, .name = "second", .weight_init = uniform}));
    yoke_graph_set_place(g, "second \"half\"");
    y = yoke_matmul(g, y, yoke_transpose(g, y, NULL), NULL); /* (5, 5) */
    y = yoke_matmul(g, y, y, &(yoke_matmul_options){.transpose_a = true, .transpose_b = true});
    /* The table of the first embedding serves a second time. */
    y = yoke_matmul(g, yoke_slice(g, y, 1, 1, 5), yoke_graph_get_node(g, "embedding1.weight"),
                    &(yoke_matmul_options){.transpose_b = true}); /* (5, 11) */
    own = yoke_parameter(g, "own.weight", yoke_shape(5, 11),
                         (yoke_initializer){YOKE_INIT_NORMAL, 0, FLT_MAX, 0});
    y = yoke_mul(g, yoke_sub(g, y, own), yoke_parameter(g, "scale", yoke_shape(), zeros));
#define PLAIN(kind, id, name, ...)  y = yoke_##name(g, y);
#define NUMBER(kind, id, name, ...) y = yoke_##name(g, y, 0.7f);
    YKI_UNARY_PLAIN(PLAIN)
    YKI_UNARY_NUMBER(NUMBER)
    y = yoke_scale(g, yoke_scale(g, y, 0.1f, -0.7f), 0, 1e20f);
    y = yoke_softmax(g, yoke_transpose(g, y, axes), 1); /* (11, 5) */
    y = yoke_mean(g, yoke_sum(g, yoke_reshape(g, y, yoke_shape(1, 11, 5)), axes, 1), axes, 0);
    yoke_graph_set_place(g, NULL);
    parts[0] = yoke_reshape(g, y, yoke_shape(1));
    parts[1] = x;
    parts[2] =
        yoke_custom(g, &x, 1,
                    &(yoke_custom_options){
                        .name = "half", .source = source, .shape = halved, .no_backward = true});
    y = yoke_concat(g, parts, 3, 0); /* 1 + 4 + 2 */
    y = yoke_dense(g, y, &(yoke_dense_options){.units = 6, .bias_init = zeros});
    return yoke_dense(g, y,
                      &(yoke_dense_options){.units = 3,
                                            .no_bias = true,
                                            .name = "last",
                                            .weight_init = {YOKE_INIT_XAVIER_NORMAL, 0.5f, 0, 0}});
}

static yoke_graph *
everything(void)
{
    yoke_graph *g = new_graph();
    yoke_node *y = vectors(g, images(g)), *label, *value, *loss;

    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    value = yoke_target(g, "value", YOKE_F32, yoke_shape(3));
    loss = yoke_softmax_cross_entropy(g, y, label,
                                      &(yoke_loss_options){.has_ignore_index = true,
                                                           .ignore_index = -100,
                                                           .label_smoothing = 0.1f});
    yoke_graph_set_loss(g, loss);
    yoke_graph_add_metric(g, "z", yoke_accuracy(g, y, label));
    yoke_graph_add_metric(g, "a", yoke_top_k(g, y, label, 2));
    yoke_graph_add_metric(g, "ce", yoke_cross_entropy(g, yoke_softmax(g, y, 0), label, NULL));
    yoke_graph_add_metric(g, "bce", yoke_binary_cross_entropy(g, y, value, NULL));
    yoke_graph_add_metric(g, "mse", yoke_mean_squared_error(g, y, value, NULL));
    yoke_graph_add_metric(g, "l1", yoke_l1_loss(g, y, value, NULL));
    yoke_graph_add_metric(g, "h",
                          yoke_huber_loss(g, y, value, &(yoke_loss_options){.delta = 0.3f}));
    yoke_graph_add_metric(g, "mae", yoke_mean_absolute_error(g, y, value));
    yoke_graph_set_output(g, "z", y);
    yoke_graph_set_output(g, "a \"quoted\" one", yoke_relu(g, y));
    ASSERT_OK(yoke_graph_freeze(g, "first.*"));
    ASSERT_OK(yoke_graph_freeze(g, "last.weight"));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

START_TEST(everything_together)
{
    yoke_free(round_trip(everything()));
}
END_TEST

/* Each by itself. tests/op/check_table.c holds that there is a graph for each function. */
START_TEST(every_operator)
{
    const op_small_graph *row = &op_small_graphs[_i];
    yoke_graph *g = new_graph();
    yoke_node *y = row->make(g, op_small_input(g, row));
    char *text, member[80];

    ASSERT_OK(yoke_graph_status(g));
    yoke_graph_set_output(g, "y", y);
    text = round_trip(g);
    snprintf(member, sizeof member, "\"op\": \"%s\"", row->word);
    ck_assert_msg(strstr(text, member) != NULL, "no %s in\n%s", member, text);
    yoke_free(text);
}
END_TEST

/* What compiling adds is not the graph. */
START_TEST(compiled_graphs)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(4)), *y;
    char *before, *after;

    y = yoke_dense(g, x, &(yoke_dense_options){.units = 2});
    yoke_graph_set_loss(
        g, yoke_mean_squared_error(g, y, yoke_target(g, "t", YOKE_F32, yoke_shape(2)), NULL));
    ASSERT_OK(yoke_graph_to_json(g, &before));
    ASSERT_OK(yki_graph_complete(g, true));
    ASSERT_OK(yoke_graph_to_json(g, &after));
    ck_assert_str_eq(before, after);
    yoke_free(before);
    yoke_free(after);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- a person's file ---- */

START_TEST(written_by_hand)
{
    static const char text[] =
        "{\"nodes\": [\n"
        " {\"op\": \"input\", \"name\": \"image\", \"type\": \"f32\", \"shape\": [1, 8, 8]},\n"
        " {\"op\": \"conv2d\", \"filters\": 4, \"kernel\": 3, \"pad\": 1},\n"
        " {\"op\": \"relu\", \"name\": \"stem\"},\n"
        " {\"op\": \"dropout\", \"name\": \"drop\", \"probability\": 0.5},\n"
        " {\"op\": \"dropout\", \"probability\": 0.5},\n"
        " {\"op\": \"conv2d\", \"name\": \"c2\", \"filters\": 4, \"kernel\": [3, 3], \"pad\": 1},\n"
        " {\"op\": \"target\", \"name\": \"label\", \"type\": \"i32\", \"shape\": []},\n"
        " {\"op\": \"add\", \"inputs\": [\"c2\", \"stem\"]},\n"
        " {\"op\": \"flatten\", \"name\": \"flat\"},\n"
        " {\"op\": \"flatten\", \"name\": \"flatter\"},\n"
        " {\"op\": \"concat\", \"name\": \"all\", \"axis\": 0, \"inputs\": [\"flat\", \"flatter\","
        "   \"flat\", \"flat\", \"flat\", \"flat\", \"flat\", \"flat\", \"flat\"]},\n"
        " {\"op\": \"dense\", \"units\": 10, \"inputs\": \"all\", \"bias_init\": \"zeros\","
        "  \"weight_init\": {\"kind\": \"normal\", \"b\": 0.01}}],\n"
        " \"outputs\": {\"logits\": \"dense1\"},\n"
        " \"frozen\": [\"c2.*\"]}";
    yoke_graph *g;
    const yoke_node *a, *b, *dense;

    ASSERT_OK(yoke_graph_from_json(text, sizeof text - 1, &g));
    ck_assert_ptr_nonnull(yoke_graph_get_node(g, "conv1.weight"));
    ck_assert_ptr_nonnull(yoke_graph_get_node(g, "stem"));
    a = yoke_graph_get_node(g, "drop");
    b = yoke_graph_get_node(g, "dropout1");
    ck_assert(a && b && a->random_key != b->random_key);
    ck_assert(yoke_graph_get_node(g, "c2.weight")->frozen);
    ck_assert(!yoke_graph_get_node(g, "conv1.weight")->frozen);
    dense = yoke_graph_get_node(g, "dense1.weight");
    ck_assert_int_eq(dense->shape.dim[1], 9 * 256);
    ck_assert(dense->initializer.kind == YOKE_INIT_NORMAL && dense->initializer.b == 0.01f);
    yoke_free(round_trip(g));
}
END_TEST

/* The initial value of a parameter has its name in C, and files of before are read. */
START_TEST(initial_values_have_two_names)
{
    static const char *const texts[] = {
        "{\"nodes\": [{\"op\": \"parameter\", \"name\": \"p\", \"shape\": [4], "
        "\"initializer\": \"zeros\"}]}",
        "{\"nodes\": [{\"op\": \"parameter\", \"name\": \"p\", \"shape\": [4], "
        "\"init\": \"zeros\"}]}",
    };

    for (int i = 0; i < 2; i++) {
        yoke_graph *g;
        char *text;

        ASSERT_OK(yoke_graph_from_json(texts[i], strlen(texts[i]), &g));
        ck_assert_int_eq(yoke_graph_get_node(g, "p")->initializer.kind, YOKE_INIT_ZEROS);
        text = round_trip(g);
        ck_assert_ptr_nonnull(strstr(text, "\"initializer\": \"zeros\""));
        yoke_free(text);
    }
}
END_TEST

static const struct {
    const char *text;
    const char *detail;
} mistakes[] = {
    {"{\"nodes\": [\n{\"op\": \"relu\",}]}", "line 2, column 15: "},
    {"", "line 1"},
    {"{}", "the text is no model; must be an object with a list \"nodes\""},
    {"[]", "the text is no model; must be an object with a list \"nodes\""},
    {"{\"nodes\": [], \"nodes\": []}", "duplicate"},
    {"{\"nodes\": [], \"output\": {}}", "a model has no \"output\""},
    {"{\"nodes\": [1]}", "node 0 has no \"op\"; must be an object with one"},
    {"{\"nodes\": [{\"op\": \"rleu\", \"name\": \"r\"}]}",
     "node 0 (r): there is no operator \"rleu\"; did you mean \"relu\"?"},
    {"{\"nodes\": [{\"op\": \"relu\"}]}", "node 0 (relu): relu has 0 inputs; must have 1"},
    {"{\"nodes\": [X, {\"op\": \"add\"}]}", "node 1 (add): add has 0 inputs; must have 2"},
    {"{\"nodes\": [X, {\"op\": \"relu\", \"inputs\": [\"y\"]}]}",
     "its input \"y\" is no node before it"},
    {"{\"nodes\": [X, {\"op\": \"relu\", \"inputs\": [1]}]}", "\"inputs\" must be a list of names"},
    {"{\"nodes\": [X, {\"op\": \"relu\", \"name\": \"x\"}]}",
     "another node has this name; must be unique"},
    {"{\"nodes\": [X, {\"op\": \"relu\", \"name\": 3}]}", "\"name\" must be a text"},
    {"{\"nodes\": [{\"op\": \"input\", \"type\": \"f32\", \"shape\": [1]}]}",
     "input needs a \"name\""},
    {"{\"nodes\": [X, {\"op\": \"dense\", \"name\": \"d\", \"unit\": 3}]}",
     "node 1 (d): \"unit\" is no option of dense; must be one of op, name, place, inputs, "
     "units, no_bias"},
    {"{\"nodes\": [X, {\"op\": \"dense\", \"name\": \"d\"}]}", "dense needs \"units\""},
    {"{\"nodes\": [X, {\"op\": \"dense\", \"units\": 1.5}]}", "\"units\" must be a whole"},
    {"{\"nodes\": [X, {\"op\": \"dense\", \"units\": -1}]}", "dense1: units is -1"},
    {"{\"nodes\": [X, {\"op\": \"dense\", \"units\": 3, \"no_bias\": 1}]}",
     "\"no_bias\" must be true or false"},
    {"{\"nodes\": [X, {\"op\": \"dense\", \"units\": 3, \"bias_init\": \"ones\"}]}",
     "\"bias_init\" must be an initialiser"},
    {"{\"nodes\": [X, {\"op\": \"scale\", \"factor\": 1e300}]}", "\"factor\" must be a number"},
    {"{\"nodes\": [X, {\"op\": \"maxpool2d\", \"kernel\": [2, 2]}]}", "maxpool2d1: "},
    {"{\"nodes\": [X, {\"op\": \"maxpool2d\", \"kernel\": [2, 2, 2]}]}",
     "\"kernel\" must be a whole number, or two"},
    {"{\"nodes\": [X, {\"op\": \"reshape\", \"name\": \"r\", \"shape\": [5]}]}",
     "r: the shape (5) has 5 elements; must have 4"},
    {"{\"nodes\": [X, {\"op\": \"transpose\", \"axes\": [0, 1]}]}",
     "the number of axes is 2; must be 1"},
    {"{\"nodes\": [{\"op\": \"input\", \"name\": \"x\", \"type\": \"f64\", \"shape\": []}]}",
     "\"type\" must be a type: f32, i32 or u8"},
    {"{\"nodes\": [X], \"outputs\": {\"y\": \"z\"}}", "outputs: there is no node \"z\""},
    {"{\"nodes\": [X], \"loss\": \"x\"}",
     "x: the loss has shape (4); must be a loss or a scalar for each sample"},
    {"{\"nodes\": [X], \"frozen\": [\"z\"]}", "no parameter matches \"z\""},
    {"{\"yoke\": 2, \"nodes\": []}", "has another version than this yoke reads; must be 1"},
};

START_TEST(mistakes_are_named)
{
    static const char x[] =
        "{\"op\": \"input\", \"name\": \"x\", \"type\": \"f32\", \"shape\": [4]}";
    char text[400];

    for (size_t i = 0; i < YKI_COUNT(mistakes); i++) {
        const char *mark = strstr(mistakes[i].text, "[X");
        yoke_graph *g = NULL;

        if (mark)
            snprintf(text, sizeof text, "%.*s[%s%s", (int)(mark - mistakes[i].text),
                     mistakes[i].text, x, mark + 2);
        else
            snprintf(text, sizeof text, "%s", mistakes[i].text);
        ck_assert_int_ne(yoke_graph_from_json(text, strlen(text), &g), YOKE_OK);
        ASSERT_DETAIL(mistakes[i].detail);
        ck_assert_ptr_null(g);
    }
}
END_TEST

/* As many inputs as the file has are told, not as many as were read. */
START_TEST(more_inputs_than_are_possible)
{
    enum { PARTS = 5000 };
    static const char begin[] =
        "{\"nodes\": [{\"op\": \"input\", \"name\": \"x\", \"type\": \"f32\","
        "\"shape\": [4]}, {\"op\": \"concat\", \"name\": \"all\", \"axis\": 0, \"inputs\": [";
    char *text = malloc(sizeof begin + 4 * PARTS + 32);
    size_t length = sizeof begin - 1;
    yoke_graph *g = NULL;

    memcpy(text, begin, length);
    for (size_t i = 0; i < PARTS; i++, length += 4)
        memcpy(text + length, "\"x\",", 4);
    length += (size_t)sprintf(text + length - 1, "]}]}") - 1;
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_graph_from_json(text, length, &g));
    ASSERT_DETAIL("node 1 (all): concat has 5000 inputs; must be at most 256");
    free(text);
}
END_TEST

START_TEST(what_cannot_be_written)
{
    yoke_graph *g = new_graph();
    char *text = NULL;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_to_json(NULL, &text));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_from_json(NULL, 0, &g));
    (void)yoke_input(g, "\xff\xfe", YOKE_F32, yoke_shape());
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_to_json(g, &text));
    ASSERT_DETAIL("is no UTF-8");
    (void)yoke_input(g, "\xff\xfe", YOKE_F32, yoke_shape());
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_to_json(g, &text));
    ck_assert_ptr_null(text);
    yoke_graph_destroy(g);
    g = new_graph();
    (void)yki_node1(g, &yki_op_ones, yoke_input(g, "x", YOKE_F32, yoke_shape(2)));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, yoke_graph_to_json(g, &text));
    ASSERT_DETAIL("ones nodes cannot be written");
    yoke_graph_destroy(g);
}
END_TEST

/* Shortest texts, and the same floats again. */
START_TEST(floats)
{
    static const float values[] = {0.1f,    1.f / 3,   1e-5f, -0.f,     3,         16777217.f,
                                   FLT_MAX, 0x1p-149f, 1e20f, INFINITY, -INFINITY, 123456.7f};

    for (size_t i = 0; i < YKI_COUNT(values); i++) {
        yki_json_text text = {0};
        char *written;
        json_t *json;
        float again;

        yki_json_add_value(&text, yki_json_float(values[i]), 0);
        ASSERT_OK(yki_json_take(&text, &written));
        json = json_loads(written, JSON_DECODE_ANY, NULL);
        ck_assert(yki_json_get_float(json, &again));
        ck_assert_msg(memcmp(&again, &values[i], 4) == 0, "%g is %s", (double)values[i], written);
        if (i == 0)
            ck_assert_str_eq(written, "0.1");
        json_decref(json);
        yki_free(written);
    }
}
END_TEST

/* Texts with random changes: what the fuzzer does for longer. */
START_TEST(mutations)
{
    static const char *const pieces[] = {
        "\"op\"",  "null",           "[]",   "-1",       "1e9", "{", "}",
        "9999999", "\"inputs\": []", "true", "\"relu\"", "0"};
    const char *rounds = getenv("YOKE_TEST_QUICK") ? "300" : "3000";
    yoke_graph *g = everything();
    char *text, *changed;
    size_t size;

    ASSERT_OK(yoke_graph_to_json(g, &text));
    yoke_graph_destroy(g);
    size = strlen(text);
    changed = malloc(size + 64);
    for (uint32_t round = 0; round < (uint32_t)atoi(rounds); round++) {
        uint32_t key[2] = {round, 6}, counter[4] = {0}, random[4];
        size_t at, length;

        yki_philox(key, counter, random);
        memcpy(changed, text, size);
        at = random[0] % size;
        if (random[1] % 2) { /* a digit or a letter becomes another */
            changed[at] = (char)random[2];
            changed[random[3] % size] = "0123456789abc,[]{}:\" "[random[2] % 21];
        } else {
            const char *piece = pieces[random[2] % YKI_COUNT(pieces)];

            length = YKI_MIN(strlen(piece), size - at);
            memcpy(changed + at, piece, length);
        }
        (void)fuzz_graph_json((const uint8_t *)changed, random[3] % 8 ? size : at);
    }
    free(changed);
    yoke_free(text);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("graph_json");
    TCase *both = test_case(suite, "both ways"), *reading = test_case(suite, "reading");

    tcase_add_test(both, built_in_models);
    tcase_add_test(both, everything_together);
    tcase_add_loop_test(both, every_operator, 0, (int)op_small_graph_count);
    tcase_add_test(both, compiled_graphs);
    tcase_add_test(both, more_inputs_than_are_possible);
    tcase_add_test(both, what_cannot_be_written);
    tcase_add_test(both, floats);
    tcase_add_test(reading, written_by_hand);
    tcase_add_test(reading, initial_values_have_two_names);
    tcase_add_test(reading, mistakes_are_named);
    tcase_add_test(reading, mutations);
    return suite;
}
