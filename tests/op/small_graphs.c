/* SPDX-License-Identifier: Apache-2.0
 *
 * small_graphs.c - see small_graphs.h. check_nan sends a NaN through each graph, check_graph_json
 * writes and reads it, check_table differentiates it.
 */
#include "small_graphs.h"
#include "support/support.h"

enum { CHANNELS = OP_SMALL_CHANNELS, SIDE = OP_SMALL_SIDE, CLASSES = OP_SMALL_CLASSES };
enum { PLANE = SIDE * SIDE };

static const yoke_pool2d_options pool = {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}};

static yoke_node *
other(yoke_graph *g)
{
    yoke_initializer init = {YOKE_INIT_CONSTANT, 0, 0, 0};

    return yoke_parameter(g, "other", yoke_shape(CHANNELS, SIDE, SIDE), init);
}

static yoke_node *
words(yoke_graph *g)
{
    return yoke_input(g, "words", YOKE_I32, yoke_shape(3));
}

static yoke_node *
values(yoke_graph *g)
{
    return yoke_target(g, "target", YOKE_F32, yoke_shape(CLASSES));
}

static yoke_node *
label(yoke_graph *g)
{
    return yoke_target(g, "target", YOKE_I32, yoke_shape());
}

/* A number of which this is a number, whatever x is. */
static yoke_node *
in_domain(yoke_graph *g, yoke_node *x, yki_unary_kind kind)
{
    return kind == YKI_UNARY_LOG || kind == YKI_UNARY_SQRT || kind == YKI_UNARY_POW
               ? yoke_sigmoid(g, x)
               : x;
}

#define OP(identifier, expression)                                                                 \
    static yoke_node *identifier(yoke_graph *g, yoke_node *x)                                      \
    {                                                                                              \
        return expression;                                                                         \
    }
#define PLAIN(kind, id, name, ...) OP(of_##name, yoke_##name(g, in_domain(g, x, YKI_UNARY_##kind)))
#define NUMBER(kind, id, name, ...)                                                                \
    OP(of_##name, yoke_##name(g, in_domain(g, x, YKI_UNARY_##kind), 0.3f))
YKI_UNARY_PLAIN(PLAIN)
YKI_UNARY_NUMBER(NUMBER)
OP(scale, yoke_scale(g, x, 0, 1))
OP(add, yoke_add(g, x, other(g)))
OP(sub, yoke_sub(g, other(g), x))
OP(mul, yoke_mul(g, x, other(g))) /* by 0 */
OP(div, yoke_div(g, other(g), yoke_exp(g, x)))
OP(maximum, yoke_maximum(g, other(g), x))
OP(minimum, yoke_minimum(g, x, other(g)))
OP(maxpool, yoke_maxpool2d(g, x, &pool))
OP(avgpool, yoke_avgpool2d(g, x, &pool))
OP(global, yoke_global_avgpool(g, x))
OP(softmax, yoke_softmax(g, x, 0))
OP(layer_norm, yoke_layer_norm(g, x, NULL))
OP(rms_norm, yoke_rms_norm(g, x, &(yoke_layer_norm_options){.axes = 1, .epsilon = 1e-3f}))
OP(batch_norm, yoke_batch_norm(g, x, NULL))
OP(dense, yoke_dense(g, yoke_flatten(g, x), &(yoke_dense_options){.units = 3}))
OP(dense_relu, yoke_relu(g, dense(g, x)))
OP(conv, yoke_conv2d(g, x, &(yoke_conv2d_options){.filters = 3, .kernel = {3, 3}, .pad = {1, 1}}))
OP(conv_relu, yoke_relu(g, conv(g, x)))
OP(depthwise,
   yoke_conv2d(g, x,
               &(yoke_conv2d_options){.filters = 2, .kernel = {3, 3}, .pad = {1, 1}, .groups = 2}))
OP(conv_transpose, yoke_conv_transpose2d(g, x,
                                         &(yoke_conv_transpose2d_options){
                                             .filters = 3, .kernel = {3, 3}, .pad = {1, 1}}))
OP(slice,
   yoke_concat(g, (yoke_node *[]){yoke_slice(g, x, 1, 0, 2), yoke_slice(g, x, 1, 2, 4)}, 2, 1))
OP(reshape, yoke_reshape(g, x, yoke_shape(PLANE, CHANNELS)))
OP(flatten, yoke_flatten(g, x))
OP(dropout, yoke_dropout(g, x, 0.5f)) /* in evaluation */
OP(matmul, yoke_matmul(g, x, x, NULL))
OP(sum, yoke_sum(g, x, NULL, 0))
OP(mean, yoke_mean(g, x, NULL, 0))
OP(concat, yoke_concat(g, (yoke_node *[]){other(g), x}, 2, 0))
OP(transpose, yoke_transpose(g, x, NULL))
OP(swiglu, yoke_swiglu(g, x))

/* Two heads of queries share one of keys and values. */
static yoke_node *
attention(yoke_graph *g, yoke_node *x)
{
    yoke_node *rows = yoke_reshape(g, x, yoke_shape(CHANNELS * PLANE / 4, 4));

    return yoke_attention(
        g, rows, NULL,
        &(yoke_attention_options){
            .heads = 2, .shared = 1, .causal = true, .scale = 0.3f, .dropout = 0.25f});
}

static yoke_node *
rope(yoke_graph *g, yoke_node *x)
{
    yoke_node *rows = yoke_reshape(g, x, yoke_shape(CHANNELS * PLANE / 8, 8));

    return yoke_rope(
        g, rows, NULL,
        &(yoke_rope_options){.heads = 2, .shared = 1, .interleaved = true, .base = 100});
}

static yoke_node *
embedding(yoke_graph *g, yoke_node *x)
{
    (void)x;
    return yoke_embedding(g, words(g), &(yoke_embedding_options){.rows = 7, .width = 4});
}

static bool
first_shape(void *user, const yoke_shape *in, size_t count, yoke_shape *out)
{
    (void)user, (void)count;
    *out = in[0];
    return true;
}

/* No test compiles it. */
OP(custom, yoke_custom(g, &x, 1,
                       &(yoke_custom_options){.name = "own",
                                              .source = "__kernel void own_forward(...) {}",
                                              .shape = first_shape}))

OP(squared, yoke_mean_squared_error(g, x, values(g), NULL))
OP(absolute, yoke_l1_loss(g, x, values(g), NULL))
OP(huber, yoke_huber_loss(g, x, values(g), NULL))
OP(binary, yoke_binary_cross_entropy(g, x, values(g), NULL))
OP(logits, yoke_softmax_cross_entropy(g, x, label(g), NULL))
OP(smooth,
   yoke_softmax_cross_entropy(g, x, label(g), &(yoke_loss_options){.label_smoothing = 0.1f}))
OP(weighted,
   yoke_softmax_cross_entropy(g, x, label(g),
                              &(yoke_loss_options){.class_weights = yoke_constant(
                                                       g, "weights", yoke_shape(CLASSES),
                                                       (const float[CLASSES]){0.5f, 2, 0.25f})}))
/* The parameter is 0, so a NaN of x makes every logit one. */
OP(linear,
   yoke_linear_cross_entropy(g, x,
                             yoke_parameter(g, "table", yoke_shape(CLASSES, CLASSES),
                                            (yoke_initializer){YOKE_INIT_CONSTANT, 0, 0, 0}),
                             label(g),
                             &(yoke_loss_options){.has_ignore_index = true, .ignore_index = -1}))
OP(probabilities, yoke_cross_entropy(g, x, label(g), NULL))
OP(accuracy, yoke_accuracy(g, x, label(g)))
OP(top_k, yoke_top_k(g, x, label(g), 2))
OP(absolute_error, yoke_mean_absolute_error(g, x, values(g)))

static const char users[] = "it is the user's", integers[] = "it reads integers",
                  metric[] = "it is a metric";

const op_small_graph op_small_graphs[] = {
    {"scale", "", scale, OP_NO_TARGET, NULL},
    {"add", "", add, OP_NO_TARGET, NULL},
    {"sub", "", sub, OP_NO_TARGET, NULL},
    {"mul", "", mul, OP_NO_TARGET, NULL},
    {"div", "", div, OP_NO_TARGET, NULL},
    {"maximum", "", maximum, OP_NO_TARGET, NULL},
    {"minimum", "", minimum, OP_NO_TARGET, NULL},
    {"maxpool2d", "", maxpool, OP_NO_TARGET, NULL},
    {"avgpool2d", "", avgpool, OP_NO_TARGET, NULL},
    {"global_avgpool", "", global, OP_NO_TARGET, NULL},
    {"softmax", "", softmax, OP_NO_TARGET, NULL},
    {"layer_norm", "", layer_norm, OP_NO_TARGET, NULL},
    {"rms_norm", "", rms_norm, OP_NO_TARGET, NULL},
    {"batch_norm", "", batch_norm, OP_NO_TARGET, NULL},
    {"dense", "", dense, OP_NO_TARGET, NULL},
    {"dense", "and relu", dense_relu, OP_NO_TARGET, NULL},
    {"conv2d", "", conv, OP_NO_TARGET, NULL},
    {"conv2d", "and relu", conv_relu, OP_NO_TARGET, NULL},
    {"conv2d", "depthwise", depthwise, OP_NO_TARGET, NULL},
    {"conv_transpose2d", "", conv_transpose, OP_NO_TARGET, NULL},
    {"slice", "put together", slice, OP_NO_TARGET, NULL},
    {"reshape", "", reshape, OP_NO_TARGET, NULL},
    {"flatten", "", flatten, OP_NO_TARGET, NULL},
    {"dropout", "", dropout, OP_NO_TARGET, NULL},
    {"matmul", "", matmul, OP_NO_TARGET, NULL},
    {"sum", "", sum, OP_NO_TARGET, NULL},
    {"mean", "", mean, OP_NO_TARGET, NULL},
    {"concat", "", concat, OP_NO_TARGET, NULL},
    {"transpose", "", transpose, OP_NO_TARGET, NULL},
    {"attention", "", attention, OP_NO_TARGET, NULL},
    {"rope", "", rope, OP_NO_TARGET, NULL},
    {"swiglu", "", swiglu, OP_NO_TARGET, NULL},
    {"embedding", "", embedding, OP_NO_TARGET, integers},
    {"custom", "", custom, OP_NO_TARGET, users},
#define ROW(kind, id, name, ...) {#name, "", of_##name, OP_NO_TARGET, NULL},
    YKI_UNARY_PLAIN(ROW) YKI_UNARY_NUMBER(ROW)
#undef ROW
        {"mean_squared_error", "", squared, OP_VALUES, NULL},
    {"l1_loss", "", absolute, OP_VALUES, NULL},
    {"huber_loss", "", huber, OP_VALUES, NULL},
    {"binary_cross_entropy", "", binary, OP_VALUES, NULL},
    {"softmax_cross_entropy", "", logits, OP_LABELS, NULL},
    {"softmax_cross_entropy", "with smoothing", smooth, OP_LABELS, NULL},
    {"softmax_cross_entropy", "with weights", weighted, OP_LABELS, NULL},
    {"linear_cross_entropy", "", linear, OP_LABELS, NULL},
    {"cross_entropy", "", probabilities, OP_LABELS, NULL},
    {"accuracy", "", accuracy, OP_LABELS, metric},
    {"top_k", "", top_k, OP_LABELS, metric},
    {"mean_absolute_error", "", absolute_error, OP_VALUES, metric},
};
const size_t op_small_graph_count = YKI_COUNT(op_small_graphs);

yoke_node *
op_small_input(yoke_graph *g, const op_small_graph *row)
{
    return yoke_input(g, "x", YOKE_F32,
                      row->target == OP_NO_TARGET ? yoke_shape(CHANNELS, SIDE, SIDE)
                                                  : yoke_shape(CLASSES));
}
