/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.h - the operators, by name, for gradient rules that build nodes of other
 * families, for fusions, and for tests. One extern per row of table.c.
 */
#ifndef YKI_OPS_H
#define YKI_OPS_H

#include "op/recipe.h"

/* elementwise/unary.c: y = f(x); and dx from (x or y, dy), see yki_unary_attrs */
extern const yki_op yki_op_unary, yki_op_unary_grad;

/* The activations: X(KIND, name, whether the gradient reads the result, operations an element). The
 * function is yoke_NAME, its kernels are made by UNARY(NAME, ...) in unary.cl, and files have its
 * name. */
#define YKI_UNARY_PLAIN(X)                                                                         \
    X(RELU, relu, true, 1)                                                                         \
    X(SIGMOID, sigmoid, true, 4)                                                                   \
    X(TANH, tanh, true, 8)                                                                         \
    X(GELU, gelu, false, 12)                                                                       \
    X(SILU, silu, false, 5)                                                                        \
    X(HARDSWISH, hardswish, false, 5)
/* Those with a number, which is not negative: its name stands last. */
#define YKI_UNARY_NUMBER(X)                                                                        \
    X(LEAKY_RELU, leaky_relu, true, 2, slope)                                                      \
    X(ELU, elu, true, 10, alpha)

typedef enum yki_unary_kind {
#define KIND(kind, ...) YKI_UNARY_##kind,
    YKI_UNARY_PLAIN(KIND) YKI_UNARY_NUMBER(KIND)
#undef KIND
        YKI_UNARY_SCALE, /* a x + b */
    YKI_UNARY_KINDS
} yki_unary_kind;

typedef struct yki_unary_attrs {
    int32_t kind; /* yki_unary_kind */
    float a, b;
} yki_unary_attrs;

/* y = kind of x, with the kind's numbers; what is wrong with them fails the graph. */
yoke_node *yki_unary(yoke_graph *graph, yoke_node *x, yki_unary_kind kind, float a, float b);

/* elementwise/binary.c: add, sub, mul with numpy's broadcasting (an unbatched operand serves
 * every sample). Gradients are binary and reduce_to nodes. */
extern const yki_op yki_op_binary;

typedef enum yki_binary_kind {
    YKI_BINARY_ADD,
    YKI_BINARY_SUB,
    YKI_BINARY_MUL,
    YKI_BINARY_KINDS
} yki_binary_kind;

typedef struct yki_binary_attrs {
    int32_t kind; /* yki_binary_kind; 0, add, so that yki_node2(g, &yki_op_binary, ...) adds */
} yki_binary_attrs;

/* elementwise/ones.c: a tensor of ones like the input */
extern const yki_op yki_op_ones;
/* elementwise/reorder.c: the same tensor in another layout (or a copy); made by the planner */
extern const yki_op yki_op_reorder;
/* team/merge.c: where the devices of a team make one value of theirs; attrs: a yki_merge */
extern const yki_op yki_op_merge;
/* reduce/batch_sum.c: (N, S...) -> (S...), the sum over the batch in a fixed order */
extern const yki_op yki_op_batch_sum;
/* reduce/batch_sum.c: a scalar per sample with its count: (2), the value and 1 */
extern const yki_op yki_op_counted;
/* reduce/reduce.c: sum or mean over axes of the sample */
extern const yki_op yki_op_reduce;

typedef struct yki_reduce_attrs {
    uint32_t axes; /* bit mask */
    int32_t mean;
    yoke_shape shape; /* of the result: the kept axes, with ones or without */
} yki_reduce_attrs;
yoke_node *yki_reduce(yoke_graph *graph, yoke_node *x, uint32_t axes, bool mean, yoke_shape shape);

/* loss/loss.c: (2) per sample, sum and count; and the gradient of the sum by x */
extern const yki_op yki_op_loss, yki_op_loss_grad;

typedef enum yki_loss_kind {
    YKI_LOSS_SOFTMAX_CE,
    YKI_LOSS_CE,
    YKI_LOSS_BCE,
    YKI_LOSS_MSE,
    YKI_LOSS_L1,
    YKI_LOSS_HUBER,
    YKI_METRIC_ACCURACY,
    YKI_METRIC_TOP_K,
    YKI_METRIC_MAE,
    YKI_LOSS_KINDS
} yki_loss_kind;

typedef struct yki_loss_attrs {
    int32_t kind; /* yki_loss_kind */
    int32_t has_ignore_index, ignore_index;
    float label_smoothing, delta;
    int32_t k;
} yki_loss_attrs;

/* loss/step.c: x, target -> the loss (2) summed over the batch; further results: metrics of the
 * same operands (2), summed too, then the gradient of the loss by x. Made by fusing. */
extern const yki_op yki_op_loss_step;

typedef struct yki_loss_step_attrs {
    yki_loss_attrs loss;
    int32_t metrics; /* 0 to 2: top k[i] for losses of labels, mean absolute errors for others */
    int32_t k[2];
    int32_t gradient; /* is wanted */
} yki_loss_step_attrs;

/* shape/reshape.c */
extern const yki_op yki_op_reshape;

/* shape/concat.c: parts along an axis of the sample; unbatched parts serve every sample */
extern const yki_op yki_op_concat;

typedef struct yki_concat_attrs {
    int32_t axis;
} yki_concat_attrs;

/* shape/slice.c: begin .. end of an axis; unslice puts such a range back among zeros */
extern const yki_op yki_op_slice, yki_op_unslice;

typedef struct yki_slice_attrs {
    int32_t axis, reserved;
    int64_t begin, end;
    int64_t size; /* of the whole axis */
} yki_slice_attrs;

/* shape/transpose.c: axis i of the result is axis axes[i] of the input */
extern const yki_op yki_op_transpose;

typedef struct yki_transpose_attrs {
    int32_t rank;
    int32_t axes[YOKE_MAX_RANK];
} yki_transpose_attrs;

/* softmax/softmax.c: along an axis; and dx from (y, dy) */
extern const yki_op yki_op_softmax, yki_op_softmax_grad;

typedef struct yki_softmax_attrs {
    int32_t axis;
} yki_softmax_attrs;

/* embedding/embedding.c: x integers (S...), weight (rows, width) -> (S..., width); embedding_grad:
 * x, dy -> (rows, width), the sum over the batch */
extern const yki_op yki_op_embedding, yki_op_embedding_grad;

typedef struct yki_embedding_attrs {
    int64_t rows; /* embedding_grad; embedding itself has none */
} yki_embedding_attrs;

/* custom/custom.c: a user's operator; custom_grad: inputs..., y, dy -> the gradient by one input,
 * for each sample */
extern const yki_op yki_op_custom, yki_op_custom_grad;

typedef struct yki_custom_attrs {
    yoke_shape shape; /* of the result */
    uint64_t hash;    /* of source and ranges, which are the node's data */
    int32_t input;    /* custom_grad: by which */
    int32_t no_backward;
    char name[40]; /* for explaining; cut */
} yki_custom_attrs;

/* dropout/dropout.c: its own gradient, on dy */
extern const yki_op yki_op_dropout;

typedef struct yki_dropout_attrs {
    float probability, scale;
    uint32_t threshold; /* a random word below it drops the element */
    uint32_t key[2];    /* the layer's part of the key, by its name; low word first */
} yki_dropout_attrs;

/* conv/conv2d.c. conv2d: x (C, H, W), weight (O, C / groups, kh, kw)[, bias (O)] -> (O, OH, OW).
 * conv2d_grad_input: dy (O, OH, OW), weight[, bias (C)] -> (C, size[0], size[1]); with a bias it is
 * the forward of a transposed convolution. conv2d_grad_weight: x, dy -> weight's shape, the sum
 * over the batch. */
extern const yki_op yki_op_conv2d, yki_op_conv2d_grad_input, yki_op_conv2d_grad_weight;

typedef enum yki_conv_act { YKI_CONV_ACT_NONE = 0, YKI_CONV_ACT_RELU = 1 } yki_conv_act;

/* All three take the attributes of the convolution; [0] is the vertical one. */
typedef struct yki_conv_attrs {
    int32_t kernel[2], stride[2], pad[2], dilation[2];
    int32_t groups;
    int32_t act;     /* yki_conv_act, of the result; set by fusion */
    int32_t size[2]; /* conv2d_grad_input: H and W of its result; else 0 */
} yki_conv_attrs;

/* conv/bias.c: dy (C, rest...) -> (C), the sum over the batch and the other axes. */
extern const yki_op yki_op_reduce_bias;
/* matmul/matmul.c: op(a) op(b) (+ bias), leading axes broadcast, samples too. A vector as `a` is
 * one row, which the result does not keep unless it is transposed. sum_rows: (..., C), batched or
 * not -> (C), the sum over samples and all axes but the last. */
extern const yki_op yki_op_matmul, yki_op_sum_rows;

typedef enum yki_matmul_act {
    YKI_MATMUL_NONE = 0,
    YKI_MATMUL_RELU = 1,
    YKI_MATMUL_GATE = 2 /* kept where the last input, of the result's shape, is positive */
} yki_matmul_act;

typedef struct yki_matmul_attrs {
    int32_t transpose_a, transpose_b; /* the last two axes, as stored, are exchanged */
    int32_t sum_batch;                /* the result is the sum over samples, not batched */
    int32_t sum_axes;  /* bit i: leading axis i, counted from the matrix outward, is summed to 1 */
    int32_t drop_axes; /* this many outermost leading axes are summed over and left out */
    int32_t bias;      /* a third input (N), added to every row */
    int32_t act;       /* yki_matmul_act; for fusions */
    int32_t sums;      /* further result: op(a) summed over its columns; for fusions */
} yki_matmul_attrs;

/* matmul/pair.c: two products without bias or outer axes: inputs and results of the first, then
 * those of the second. Made by fusing. */
extern const yki_op yki_op_matmul_pair;

typedef struct yki_matmul_pair_attrs {
    yki_matmul_attrs part[2];
} yki_matmul_pair_attrs;

/* pool/pool.c: x (C, H, W) -> (C, OH, OW), the maximum or the mean of each window. Gradients:
 * maxpool2d_grad: x, y, dy -> dx, a window's dy at its first maximum in row-major order;
 * avgpool2d_grad: [gate,] dy -> dx, 0 where the gate is not positive. global_avgpool: (C, H, W) ->
 * (C), so that a dense layer can follow; global_avgpool_grad: dy (C) -> (C, size[0], size[1]). */
extern const yki_op yki_op_maxpool2d, yki_op_maxpool2d_grad;
extern const yki_op yki_op_avgpool2d, yki_op_avgpool2d_grad;
extern const yki_op yki_op_global_avgpool, yki_op_global_avgpool_grad;

/* [0] is the vertical one. */
typedef struct yki_pool_attrs {
    int32_t kernel[2], stride[2], pad[2];
    int32_t ceil_mode;
    int32_t exclude_pad;
    int32_t size[2]; /* gradients: H and W of x; else 0 */
} yki_pool_attrs;

/* norm/batch_norm.c. x is (C, rest...); statistics are not batched:
 *   bn_stats       x -> (3, C): count, mean, M2 (sum of squared deviations from the mean), over
 *                  the batch and the rest; all 0 for no samples
 *   bn_apply       x, stats[, gamma, beta][, residual] -> y = act((x - mean) / sqrt(M2 / count +
 *                  epsilon) * gamma + beta + residual)
 *   bn_grad_stats  x, dy, stats[, gamma, beta] -> (2, C): sum of dy, sum of dy * normalised x; its
 *                  rows are the gradients of beta and gamma
 *   bn_grad        x, dy, stats, sums[, gamma[, beta]] -> dx, where `sums` are bn_grad_stats
 *                  With attrs.act, dy is that of act(y), and x, gamma and beta say what passed.
 *   bn_running     state, stats -> the state's next value; unchanged where the count is 0 (1 for
 *                  the variance, which is the unbiased one)
 *   bn_known       mean, variance -> stats of count 1: what stands for bn_stats in evaluation
 * A team puts a merge over its devices behind bn_stats, and one between bn_grad_stats and bn_grad
 * (the rows that are gradients stay the device's own: gradients are summed anyway), unless
 * attrs.local. Two statistics (n, m, M) become, with d = m2 - m1 and n = n1 + n2 (0: all 0),
 * (n, m1 + d n2 / n, M1 + M2 + d d n1 n2 / n); two sums of a gradient add. Fix the order. */
extern const yki_op yki_op_bn_stats, yki_op_bn_apply, yki_op_bn_grad_stats, yki_op_bn_grad;
extern const yki_op yki_op_bn_running, yki_op_bn_known;

typedef enum yki_bn_act { YKI_BN_NONE = 0, YKI_BN_RELU = 1 } yki_bn_act;

typedef struct yki_bn_attrs {
    float epsilon, momentum;
    int32_t local;    /* statistics of each device alone */
    int32_t affine;   /* gamma and beta are given */
    int32_t act;      /* yki_bn_act; set by fusion, also in gradients */
    int32_t residual; /* the last input is added before the activation; set by fusion */
    int32_t variance; /* bn_running: which of the two */
} yki_bn_attrs;

/* norm/layer_norm.c: rows are the last `axes` axes, I their shape. layer_norm: x[, gamma (I), beta
 * (I)] -> y; layer_norm_grad: x, dy[, gamma] -> dx; layer_norm_grad_params: x, dy -> (2, I...), the
 * sums over rows and samples of dy and of dy * normalised x: gradients of beta and gamma. */
extern const yki_op yki_op_layer_norm, yki_op_layer_norm_grad, yki_op_layer_norm_grad_params;

typedef struct yki_ln_attrs {
    float epsilon;
    int32_t axes;
    int32_t affine; /* gamma (and beta) are given */
} yki_ln_attrs;

/* norm/batch_norm.c: row `row` of x (R, S...), not batched -> (S...) */
extern const yki_op yki_op_row;

typedef struct yki_row_attrs {
    int32_t row;
} yki_row_attrs;
yoke_node *yki_row(yoke_graph *graph, yoke_node *x, int32_t row);

#endif
