/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.h - the operators and solvers by name. Gradient rules build nodes of other families with
 * operators; fusions and tests use them too. Below the list of operators stand their attributes; a
 * comment says of each its file, its inputs and its result.
 *
 * Shapes are those of one sample, unless a letter N is written.
 */
#ifndef YKI_OPS_H
#define YKI_OPS_H

#include "op/recipe.h"

/* All operators: X(name) makes yki_op_NAME and its row in yki_ops (table.c). */
#define YKI_OPS(X)                                                                                 \
    X(unary)                                                                                       \
    X(unary_grad)                                                                                  \
    X(binary)                                                                                      \
    X(ones)                                                                                        \
    X(reorder)                                                                                     \
    X(narrow)                                                                                      \
    X(widen)                                                                                       \
    X(merge)                                                                                       \
    X(batch_sum)                                                                                   \
    X(position_sum)                                                                                \
    X(counted)                                                                                     \
    X(reduce)                                                                                      \
    X(loss)                                                                                        \
    X(loss_grad)                                                                                   \
    X(loss_scale)                                                                                  \
    X(fused_loss)                                                                                  \
    X(dense_loss)                                                                                  \
    X(linear_loss)                                                                                 \
    X(linear_loss_grad)                                                                            \
    X(reshape)                                                                                     \
    X(concat)                                                                                      \
    X(slice)                                                                                       \
    X(unslice)                                                                                     \
    X(transpose)                                                                                   \
    X(softmax)                                                                                     \
    X(softmax_grad)                                                                                \
    X(attention)                                                                                   \
    X(attention_lse)                                                                               \
    X(attention_grad)                                                                              \
    X(rope)                                                                                        \
    X(swiglu)                                                                                      \
    X(swiglu_grad)                                                                                 \
    X(attention_step)                                                                              \
    X(embedding)                                                                                   \
    X(embedding_grad)                                                                              \
    X(dropout)                                                                                     \
    X(custom)                                                                                      \
    X(custom_grad)                                                                                 \
    X(conv2d)                                                                                      \
    X(conv2d_grad_input)                                                                           \
    X(conv2d_grad_weight)                                                                          \
    X(conv2d_grads)                                                                                \
    X(conv2d_parts)                                                                                \
    X(conv2d_grads_parts)                                                                          \
    X(conv_pooled)                                                                                 \
    X(conv_pooled_grad)                                                                            \
    X(reduce_bias)                                                                                 \
    X(matmul)                                                                                      \
    X(matmul_pair)                                                                                 \
    X(sum_rows)                                                                                    \
    X(maxpool2d)                                                                                   \
    X(maxpool2d_grad)                                                                              \
    X(avgpool2d)                                                                                   \
    X(avgpool2d_grad)                                                                              \
    X(global_avgpool)                                                                              \
    X(global_avgpool_grad)                                                                         \
    X(bn_stats)                                                                                    \
    X(bn_apply)                                                                                    \
    X(bn_grad_stats)                                                                               \
    X(bn_grad)                                                                                     \
    X(bn_layer)                                                                                    \
    X(bn_layer_grad)                                                                               \
    X(bn_apply_parts)                                                                              \
    X(bn_grad_parts)                                                                               \
    X(bn_running)                                                                                  \
    X(bn_known)                                                                                    \
    X(row)                                                                                         \
    X(layer_norm)                                                                                  \
    X(layer_norm_grad)                                                                             \
    X(layer_norm_grad_params)                                                                      \
    X(layer_norm_grads)

#define YKI_OP(name) extern const yki_op yki_op_##name;
YKI_OPS(YKI_OP)
#undef YKI_OP

/* unary, unary_grad (elementwise/unary.c): y = f(x). The gradient takes (x or y, dy) and gives dx;
 * the kind decides whether it reads x or y. A fusion may give relu's gradient dy as two terms. */

/* The activations: X(KIND, its number, name, whether the gradient reads the result, operations an
 * element). Checkpoints hold the number, so it never changes. The function is yoke_NAME, its
 * kernels are made by UNARY(NAME, ...) in unary.cl, and files of graphs have its name. Operations
 * are counted in arithmetic instructions of the kernel, roughly. */
#define YKI_UNARY_PLAIN(X)                                                                         \
    X(RELU, 0, relu, true, 1)                                                                      \
    X(SIGMOID, 2, sigmoid, true, 4)                                                                \
    X(TANH, 3, tanh, true, 8)                                                                      \
    X(GELU, 4, gelu, false, 12)                                                                    \
    X(SILU, 5, silu, false, 5)                                                                     \
    X(HARDSWISH, 7, hardswish, false, 5)                                                           \
    X(GELU_TANH, 9, gelu_tanh, false, 12)                                                          \
    X(EXP, 10, exp, true, 8)                                                                       \
    X(LOG, 11, log, false, 8)                                                                      \
    X(SQRT, 12, sqrt, true, 2)                                                                     \
    X(ABS, 13, abs, false, 1)
/* Those with a number of their own, whose name stands last. Where the gradient reads the result,
 * it reads its sign, which a negative number would make ambiguous. */
#define YKI_UNARY_NUMBER(X)                                                                        \
    X(LEAKY_RELU, 1, leaky_relu, true, 2, slope)                                                   \
    X(ELU, 8, elu, true, 10, alpha)                                                                \
    X(POW, 14, pow, false, 16, exponent)

typedef enum yki_unary_kind {
#define KIND(kind, id, ...) YKI_UNARY_##kind = id,
    YKI_UNARY_PLAIN(KIND) YKI_UNARY_NUMBER(KIND)
#undef KIND
        YKI_UNARY_SCALE = 6, /* a x + b */
    YKI_UNARY_KINDS = 15
} yki_unary_kind;

typedef struct yki_unary_attrs {
    int32_t kind; /* yki_unary_kind */
    float a, b;
} yki_unary_attrs;
YKI_ATTRS(yki_unary_attrs)

/* y = kind of x, with the kind's numbers; what is wrong with them fails the graph. */
yoke_node *yki_unary(yoke_graph *graph, yoke_node *x, yki_unary_kind kind, float a, float b);

/* binary (elementwise/binary.c): two operands with numpy's broadcasting; an unbatched operand
 * serves every sample. Beside a sequence, it may have a row for each row, (length, ...). Its
 * gradients are built of binary and reduce nodes. */

/* X(KIND, its number, name). Checkpoints hold the number, so it never changes. The function is
 * yoke_NAME, its kernels are made by BINARY(NAME, ...) in flat.cl, and files of graphs have its
 * name. */
#define YKI_BINARY(X)                                                                              \
    X(ADD, 0, add)                                                                                 \
    X(SUB, 1, sub)                                                                                 \
    X(MUL, 2, mul)                                                                                 \
    X(DIV, 3, div)                                                                                 \
    X(MAXIMUM, 4, maximum)                                                                         \
    X(MINIMUM, 5, minimum)

typedef enum yki_binary_kind {
#define KIND(kind, id, name) YKI_BINARY_##kind = id,
    YKI_BINARY(KIND)
#undef KIND
        YKI_BINARY_AT_LEAST = 6, /* 1 where a >= b, else 0: a factor of gradients alone */
    YKI_BINARY_KINDS = 7
} yki_binary_kind;

typedef struct yki_binary_attrs {
    int32_t kind; /* yki_binary_kind; 0 is add, so yki_node2(g, &yki_op_binary, ...) adds */
} yki_binary_attrs;
YKI_ATTRS(yki_binary_attrs)

/* ones (elementwise/ones.c): a tensor of ones like the input.
 * reorder (elementwise/reorder.c): the same tensor in another layout, or a copy. Only the planner
 * makes it.
 * narrow, widen (elementwise/convert.c): floats -> the same rounded to bfloat16 or half, and, as a
 * further result, in that type; and these -> floats. Only the planner makes them.
 * merge (team/merge.c): merges a value of each device of a team into one. attrs: a yki_merge. */
YKI_ATTRS(yki_merge)

/* batch_sum (reduce/batch_sum.c): (N, S...) -> (S...), the sum over the batch in a fixed order.
 * position_sum (reduce/batch_sum.c): of a sequence (T, S...) -> (T, S...), the sum over the batch
 * of each row. Rows that are not there have the sum 0. counted (reduce/batch_sum.c): a scalar per
 * sample -> (2), the scalar and the count 1. reduce (reduce/reduce.c): the sum or the mean over
 * axes of the sample. */

typedef struct yki_reduce_attrs {
    uint32_t axes; /* bit i: axis i is reduced */
    int32_t mean;
    yoke_shape shape; /* of the result: reduced axes are left out, or kept with size 1 */
} yki_reduce_attrs;
YKI_ATTRS(yki_reduce_attrs)
/* Makes a reduce node. `shape` is as in the attributes. */
yoke_node *yki_reduce(yoke_graph *graph, yoke_node *x, uint32_t axes, bool mean, yoke_shape shape);

/* loss, loss_grad (loss/loss.c): x, target[, class weights (C)][, weights, () or like the target]
 * -> (2) per sample, the sum and the count. The gradient is that of the sum by x. */

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
    int32_t rows; /* softmax: whether the classes are the last axis, not the first */
    int32_t class_weights, weights; /* whether they are given */
} yki_loss_attrs;
YKI_ATTRS(yki_loss_attrs)

/* fused_loss (loss/fused_loss.c): x, target -> the loss (2), summed over the batch. Further
 * results: up to two metrics of the same operands (2), summed too, then the gradient of the loss by
 * x. Only fusions make it. */

typedef struct yki_fused_loss_attrs {
    yki_loss_attrs loss;
    int32_t metrics; /* 0 to 2: top k[i] where there are labels, else mean absolute errors */
    int32_t k[2];
    int32_t gradient; /* whether the gradient is a result */
} yki_fused_loss_attrs;
YKI_ATTRS(yki_fused_loss_attrs)

/* dense_loss (loss/dense_loss.c): x (K), weight (C, K)[, bias (C)], target -> the loss (2) of a
 * dense layer's result, summed over the batch. Further results: the metrics, as of fused_loss,
 * the layer's own result, then the gradients by weight and bias, and that by x. Only fusions make
 * it. */

typedef struct yki_dense_loss_attrs {
    yki_fused_loss_attrs loss; /* with its gradient */
    int32_t bias;              /* whether there is one, and its gradient */
    int32_t input;             /* whether the gradient by x is a result */
    int32_t gate;              /* whether it is 0 where x is not positive */
} yki_dense_loss_attrs;
YKI_ATTRS(yki_dense_loss_attrs)

/* linear_loss (loss/linear_loss.c): x (S..., C), weight (V, C), target (S...) -> (2), the softmax
 * cross-entropy of x weight^T. Further results, which fusion sets: the gradients by x and by the
 * weight, as of linear_loss_grad, which takes the same inputs and has one of the two. */

typedef struct yki_linear_loss_attrs {
    int32_t has_ignore_index, ignore_index;
    int32_t dx, dw; /* whether the gradient is a result */
    int32_t scaled; /* gradients have the loss scale (loss/loss_scale.c) */
} yki_linear_loss_attrs;
YKI_ATTRS(yki_linear_loss_attrs)

/* reshape (shape/reshape.c): the same bytes under another shape.
 * concat (shape/concat.c): joins its inputs along an axis of the sample. An unbatched input serves
 * every sample. */

typedef struct yki_concat_attrs {
    int32_t axis;
} yki_concat_attrs;
YKI_ATTRS(yki_concat_attrs)

/* slice, unslice (shape/slice.c): takes begin .. end of an axis. unslice puts such a range back
 * into zeros. */

typedef struct yki_slice_attrs {
    int32_t axis, reserved;
    int64_t begin, end;
    int64_t size; /* of the whole axis */
} yki_slice_attrs;
YKI_ATTRS(yki_slice_attrs)

/* transpose (shape/transpose.c): axis i of the result is axis axes[i] of the input */

typedef struct yki_transpose_attrs {
    int32_t rank;
    int32_t axes[YOKE_MAX_RANK];
} yki_transpose_attrs;
YKI_ATTRS(yki_transpose_attrs)

/* softmax, softmax_grad (softmax/softmax.c): along one axis. The gradient takes (y, dy) and gives
 * dx. */

typedef struct yki_softmax_attrs {
    int32_t axis;
} yki_softmax_attrs;
YKI_ATTRS(yki_softmax_attrs)

/* dropout (dropout/dropout.c): applied to dy, it is its own gradient. */

typedef struct yki_dropout_attrs {
    float probability, scale;
    uint32_t threshold; /* a random word below it drops the element */
    uint32_t key[2];    /* the layer's part of the key, made from its name; low word first */
} yki_dropout_attrs;
YKI_ATTRS(yki_dropout_attrs)
/* Returns the attributes of a layer of this name, which is where its key comes from. */
yki_dropout_attrs yki_dropout_of(const char *name, float probability);
/* Returns the key in one number. */
static inline uint64_t
yki_dropout_key(const yki_dropout_attrs *attrs)
{
    return attrs->key[0] | (uint64_t)attrs->key[1] << 32;
}

/* attention (attention/attention.c): x (T, (heads + 2 shared) width)[, lengths ()] -> (T, heads
 * width). The columns of x are the queries of all heads, then the keys, then the values.
 * attention_lse: the same inputs -> (heads, T), log(sum(exp(scores))) of each query.
 * attention_grad: x, y, dy, lse[, lengths] -> dx. Rows from a sample's length on have the result
 * 0. attention_step (attention/step.c): x (R, columns), positions (R), cache -> (R, heads width):
 * causal attention of rows that stand at these positions of their streams (-1: nowhere, the result
 * is 0). It puts their keys and values into the cache, a state of the shape that
 * yki_attention_cache says, and looks at all that is there up to each row's position. Only
 * generators have it (replica/decoding.c). */

typedef struct yki_attention_attrs {
    int32_t heads, shared; /* heads of queries; heads of keys and values, each for heads / shared */
    int32_t width;         /* of a head */
    int32_t causal;        /* whether a query sees no later keys */
    int32_t lengths;       /* whether the samples' lengths are given */
    int32_t lse;           /* further result: that of attention_lse; set by fusion */
    float scale;           /* of the scores */
    yki_dropout_attrs dropout; /* of the weights, in training; zeros: none is dropped */
} yki_attention_attrs;
YKI_ATTRS(yki_attention_attrs)
/* Checks the packed rows (length, columns) of x: `heads` of queries, *shared of keys (0 becomes
 * `heads`) and as many of values. *width gets the width of a head; `even`: it must be. */
yoke_status yki_packed_heads(const yoke_node *x, int32_t heads, int32_t *shared, bool even,
                             int32_t *width);
/* Returns the shape of the cache for so many streams of at most `length` rows. */
yoke_shape yki_attention_cache(const yki_attention_attrs *attrs, int64_t streams, int64_t length);

/* rope (sequence/rope.c): x (T, (heads + 2 shared) width)[, start ()] -> the same shape. The
 * columns are those of attention; queries and keys are turned by their position, which is start +
 * t. With `back` it is its own gradient. */

typedef struct yki_rope_attrs {
    int32_t heads, shared, width; /* as in yki_attention_attrs */
    int32_t interleaved;          /* pairs are neighbours; otherwise half a head apart */
    int32_t back;                 /* whether it turns the other way */
    float base;
} yki_rope_attrs;
YKI_ATTRS(yki_rope_attrs)

/* swiglu (sequence/swiglu.c): x (..., 2 C) -> (..., C), silu of the first half times the second.
 * swiglu_grad: x, dy -> dx. */

/* embedding (embedding/embedding.c): x integers (S...), weight (rows, width) -> (S..., width).
 * embedding_grad: x, dy[, more (rows, width)] -> (rows, width), the sum over the batch; `more`,
 * which fusions give (plan/fuse_embedding.c), is added. */

typedef struct yki_embedding_attrs {
    int64_t rows; /* for embedding_grad alone; embedding leaves it 0 */
} yki_embedding_attrs;
YKI_ATTRS(yki_embedding_attrs)

/* custom (custom/custom.c): a user's operator. custom_grad: inputs..., y, dy -> the gradient by one
 * input, for each sample. */

typedef struct yki_custom_attrs {
    yoke_shape shape; /* of the result */
    uint64_t hash;    /* of source and ranges, which the node's data holds */
    int32_t input;    /* custom_grad: the input by which it differentiates */
    int32_t no_backward;
    char name[40]; /* for describing the node; cut to fit */
} yki_custom_attrs;
YKI_ATTRS(yki_custom_attrs)

/* conv2d (conv/conv2d.c): x (C, H, W), weight (O, C / groups, kh, kw)[, bias (O)] -> (O, OH, OW).
 * conv2d_grad_input: dy (O, OH, OW), weight[, bias (C)] -> (C, size[0], size[1]). With a bias it
 * is the forward of a transposed convolution. conv2d_grad_weight: x, dy -> weight's shape, the
 * sum over the batch. conv2d_grads (conv/winograd_tiles.c; only the planner makes it, plan/join.c):
 * x, dy, weight[, other[, y]] -> both gradients, that of x with `other` added, and gated by y.
 * The planner adds these two to conv2d_grad_input as well.
 *
 * conv2d_parts and conv2d_grads_parts (likewise) also give what the batch norm needs that reads the
 * first result next, for bn_apply_parts and bn_grad_parts. The second one takes the norm's x and
 * stats[, gamma, beta] behind its own inputs. */

typedef enum yki_conv_act {
    YKI_CONV_ACT_NONE = 0,
    YKI_CONV_ACT_RELU = 1,
    YKI_CONV_ACT_SUM = 2,      /* of gradients by the input alone */
    YKI_CONV_ACT_GATED_SUM = 3 /* likewise */
} yki_conv_act;

/* All of them take the attributes of the convolution. Index 0 is the vertical axis. */
typedef struct yki_conv_attrs {
    int32_t kernel[2], stride[2], pad[2], dilation[2];
    int32_t groups;
    int32_t act;     /* yki_conv_act, applied to the result; set by fusion */
    int32_t size[2]; /* conv2d_grad_input: H and W of its result; otherwise 0 */
} yki_conv_attrs;
YKI_ATTRS(yki_conv_attrs)

/* conv_pooled, conv_pooled_grad (conv/pooled.c; only fusions make them): conv2d with its relu, then
 * the maximum or the mean of each 2 x 2 results, without padding; a last odd row or column is left
 * out. The gradient: x, weight[, bias], the gradient by the pooled result -> weight's shape[, (O)].
 */

typedef struct yki_conv_pooled_attrs {
    yki_conv_attrs conv;
    int32_t bias; /* whether it is given */
    int32_t max;  /* the maximum instead of the mean */
} yki_conv_pooled_attrs;
YKI_ATTRS(yki_conv_pooled_attrs)

/* conv2d_parts, conv2d_grads_parts; with gamma and beta where both of the norm's are set. */
typedef struct yki_conv_parts_attrs {
    yki_conv_attrs conv;
    int32_t norm_act, norm_affine; /* as in yki_bn_attrs */
    float epsilon;
} yki_conv_parts_attrs;
YKI_ATTRS(yki_conv_parts_attrs)

/* reduce_bias (conv/bias.c): dy (C, rest...) -> (C), the sum over the batch and the other axes. */

/* matmul, sum_rows (matmul/matmul.c, matmul/sum_rows.c): op(a) op(b) (+ bias). Leading axes and
 * samples broadcast. A vector as `a` is one row; the result leaves that axis out, unless `a` is
 * transposed. sum_rows: (..., C), batched or not -> (C), the sum over samples and all axes but the
 * last. */

typedef enum yki_matmul_act {
    YKI_MATMUL_NONE = 0,
    YKI_MATMUL_RELU = 1,
    YKI_MATMUL_GATE = 2 /* 0 where the last input, of the result's shape, is not positive */
} yki_matmul_act;

typedef struct yki_matmul_attrs {
    int32_t transpose_a, transpose_b; /* whether the last two axes, as stored, are exchanged */
    int32_t sum_batch;                /* whether the result is summed over samples, not batched */
    int32_t sum_axes;  /* bit i: leading axis i, from the matrix outward, is summed to size 1 */
    int32_t drop_axes; /* this many of the outermost leading axes are summed over and left out */
    int32_t bias;      /* whether there is a third input (N), added to every row */
    int32_t act;       /* yki_matmul_act; set by fusion */
    int32_t sums;      /* further result: op(a) summed over its columns; set by fusion */
} yki_matmul_attrs;
YKI_ATTRS(yki_matmul_attrs)

/* matmul_pair (matmul/pair.c): two products without bias or outer axes. The operands are the inputs
 * and results of the first, then those of the second. Only fusions make it. */

typedef struct yki_matmul_pair_attrs {
    yki_matmul_attrs part[2];
} yki_matmul_pair_attrs;
YKI_ATTRS(yki_matmul_pair_attrs)

/* maxpool2d, avgpool2d (pool/pool.c): x (C, H, W) -> (C, OH, OW), the maximum or the mean of each
 * window. maxpool2d_grad: x, y, dy -> dx; a window's dy goes to its first maximum in row-major
 * order. avgpool2d_grad: [gate,] dy -> dx, which is 0 where the gate is not positive.
 * global_avgpool: (C, H, W) -> (C), so that a dense layer can follow. global_avgpool_grad: dy (C)
 * -> (C, size[0], size[1]). */

/* Index 0 is the vertical axis. */
typedef struct yki_pool_attrs {
    int32_t kernel[2], stride[2], pad[2];
    int32_t ceil_mode;
    int32_t exclude_pad;
    int32_t size[2]; /* gradients: H and W of x; otherwise 0 */
} yki_pool_attrs;
YKI_ATTRS(yki_pool_attrs)

/* norm/batch_norm.c. x is (C, rest...); statistics are not batched:
 *   bn_stats       x -> (3, C): count, mean, M2 (sum of squared deviations from the mean), over
 *                  the batch and the rest; all are 0 if there are no samples
 *   bn_apply       x, stats[, gamma, beta][, residual] -> y = act((x - mean) / sqrt(M2 / count +
 *                  epsilon) * gamma + beta + residual)
 *   bn_grad_stats  x, dy, stats[, gamma, beta] -> (2, C): sum of dy, sum of dy * normalised x; its
 *                  rows are the gradients of beta and gamma
 *   bn_grad        x, dy, stats, sums[, gamma[, beta]] -> dx, where `sums` is the result of
 *                  bn_grad_stats. With attrs.act, dy is the gradient by act(y); x, gamma and beta
 *                  tell which elements the activation passed.
 *   bn_running     state, stats -> the next value of a running mean or variance. The variance is
 *                  the unbiased one. The state stays as it is where the count is 0, and for the
 *                  variance also where it is 1.
 *   bn_known       mean, variance -> stats of count 1, which replace bn_stats in evaluation
 * Fusions make (norm/batch_norm_groups.c):
 *   bn_layer       x[, gamma, beta][, residual] -> y of bn_apply, and stats
 *   bn_layer_grad  x, dy, stats[, gamma[, beta]] -> dx of bn_grad, and sums or its two rows
 *   bn_apply_parts, bn_grad_parts  the same where who wrote x or dy has given the statistics or the
 *                  sums in parts: x, parts (n, 3, C), ... and x, dy, stats, parts (n, 2, C), ...
 * Unless attrs.local is set, a team merges over its devices the result of bn_stats, and that of
 * bn_grad_stats before bn_grad reads it. The rows that are gradients of beta and gamma are not
 * merged: each device keeps its own, because gradients are summed anyway. Two statistics (n, m, M)
 * merge, with d = m2 - m1 and n = n1 + n2, to (n, m1 + d n2 / n, M1 + M2 + d d n1 n2 / n); for n =
 * 0 all are 0. Two sums of a gradient are added. The order of merging must be fixed. */

typedef enum yki_bn_act { YKI_BN_NONE = 0, YKI_BN_RELU = 1 } yki_bn_act;

typedef struct yki_bn_attrs {
    float epsilon, momentum;
    int32_t local;    /* whether each device uses its own statistics */
    int32_t affine;   /* whether gamma and beta are given */
    int32_t act;      /* yki_bn_act; set by fusion, also in gradients */
    int32_t residual; /* whether the last input is added before the activation; set by fusion */
    int32_t variance; /* bn_running: the state is the variance, not the mean */
} yki_bn_attrs;
YKI_ATTRS(yki_bn_attrs)

/* norm/layer_norm.c: a row is the last `axes` axes, and I is their shape. layer_norm: x[, gamma
 * (I), beta (I)] -> y. layer_norm_grad: x, dy[, gamma] -> dx. layer_norm_grad_params: x, dy ->
 * (2, I...), the sums of dy and of dy * normalised x over rows and samples, which are the
 * gradients of beta and gamma. With rms there is no mean and no beta, and layer_norm_grad_params
 * gives (I...), the gradient of gamma. Fusions make layer_norm_grads (norm/layer_norm_grads.c): x,
 * dy, gamma -> dx, and the gradients of beta (not with rms) and gamma. */

typedef struct yki_ln_attrs {
    float epsilon;
    int32_t axes;
    int32_t affine; /* whether gamma is given (to layer_norm also beta) */
    int32_t rms;    /* whether a row is divided by its root mean square alone */
} yki_ln_attrs;
YKI_ATTRS(yki_ln_attrs)

/* row (norm/batch_norm.c): x (R, S...), not batched -> (S...), its row `row`. */

typedef struct yki_row_attrs {
    int32_t row;
} yki_row_attrs;
YKI_ATTRS(yki_row_attrs)
yoke_node *yki_row(yoke_graph *graph, yoke_node *x, int32_t row);

/* All solvers: X(name) makes the row yki_solver_NAME of yki_solvers (table.c). The order is that of
 * preference where nothing is measured, so a special solver stands before a general one. */
#define YKI_SOLVERS(X)                                                                             \
    X(unary)                                                                                       \
    X(unary_grad)                                                                                  \
    X(binary)                                                                                      \
    X(binary_broadcast)                                                                            \
    X(ones)                                                                                        \
    X(narrow)                                                                                      \
    X(widen)                                                                                       \
    X(copy)                                                                                        \
    X(reorder)                                                                                     \
    X(loss_rows)                                                                                   \
    X(loss_grad_rows)                                                                              \
    X(loss)                                                                                        \
    X(loss_grad)                                                                                   \
    X(loss_scale)                                                                                  \
    X(fused_loss)                                                                                  \
    X(dense_loss)                                                                                  \
    X(linear_loss)                                                                                 \
    X(linear_loss_bf16)                                                                            \
    X(linear_loss_rounded)                                                                         \
    X(linear_loss_tf32)                                                                            \
    X(linear_loss_rounded_tf32)                                                                    \
    X(linear_loss_f16)                                                                             \
    X(linear_loss_rounded_f16)                                                                     \
    X(linear_loss_grad)                                                                            \
    X(linear_loss_grad_bf16)                                                                       \
    X(linear_loss_grad_rounded)                                                                    \
    X(linear_loss_grad_tf32)                                                                       \
    X(linear_loss_grad_rounded_tf32)                                                               \
    X(linear_loss_grad_f16)                                                                        \
    X(linear_loss_grad_rounded_f16)                                                                \
    X(merge)                                                                                       \
    X(batch_sum_groups)                                                                            \
    X(batch_sum)                                                                                   \
    X(position_sum)                                                                                \
    X(counted)                                                                                     \
    X(reduce_groups)                                                                               \
    X(reduce)                                                                                      \
    X(conv_depthwise)                                                                              \
    X(conv_depthwise_grad_input)                                                                   \
    X(conv_depthwise_grad_weight)                                                                  \
    X(winograd_unpacked)                                                                           \
    X(winograd_unpacked_grad_input)                                                                \
    X(winograd)                                                                                    \
    X(winograd_grad_input)                                                                         \
    X(winograd_grad_weight)                                                                        \
    X(winograd5x5)                                                                                 \
    X(winograd5x5_grad_input)                                                                      \
    X(winograd5x5_grad_weight)                                                                     \
    X(winograd_tiles)                                                                              \
    X(winograd_tiles_grad_input)                                                                   \
    X(winograd_tiles_grad_weight)                                                                  \
    X(winograd_tiles_parts)                                                                        \
    X(winograd_tiles_grads_parts)                                                                  \
    X(winograd_tiles_grads)                                                                        \
    X(conv_stacked)                                                                                \
    X(conv_stacked_grad_input)                                                                     \
    X(conv_blocked)                                                                                \
    X(conv_blocked_grad_input)                                                                     \
    X(conv_blocked_grad_weight)                                                                    \
    X(conv_lanes)                                                                                  \
    X(conv_lanes_grad_input)                                                                       \
    X(conv_lanes_grad_weight)                                                                      \
    X(conv_pooled)                                                                                 \
    X(conv_pooled_grad)                                                                            \
    X(concat)                                                                                      \
    X(slice)                                                                                       \
    X(unslice)                                                                                     \
    X(transpose_tiles_groups)                                                                      \
    X(transpose_rows_groups)                                                                       \
    X(transpose_tiles)                                                                             \
    X(transpose_rows)                                                                              \
    X(softmax_rows)                                                                                \
    X(softmax_columns)                                                                             \
    X(softmax_grad_rows)                                                                           \
    X(softmax_grad_columns)                                                                        \
    X(attention_tiled)                                                                             \
    X(attention_lse_tiled)                                                                         \
    X(attention_grad_tiled)                                                                        \
    X(attention)                                                                                   \
    X(attention_lse)                                                                               \
    X(attention_grad)                                                                              \
    X(rope)                                                                                        \
    X(swiglu)                                                                                      \
    X(swiglu_grad)                                                                                 \
    X(attention_step)                                                                              \
    X(embedding)                                                                                   \
    X(embedding_grad)                                                                              \
    X(embedding_grad_groups)                                                                       \
    X(dropout)                                                                                     \
    X(custom)                                                                                      \
    X(custom_grad)                                                                                 \
    X(depthwise_groups)                                                                            \
    X(depthwise_groups_grad_input)                                                                 \
    X(depthwise_groups_grad_weight)                                                                \
    X(conv_plain)                                                                                  \
    X(conv_plain_grad_input)                                                                       \
    X(conv_plain_grad_weight)                                                                      \
    X(conv_plain_bf16)                                                                             \
    X(conv_plain_grad_input_bf16)                                                                  \
    X(conv_plain_grad_weight_bf16)                                                                 \
    X(conv_plain_tf32)                                                                             \
    X(conv_plain_grad_input_tf32)                                                                  \
    X(conv_plain_grad_weight_tf32)                                                                 \
    X(conv_plain_f16)                                                                              \
    X(conv_plain_grad_input_f16)                                                                   \
    X(conv_plain_grad_weight_f16)                                                                  \
    X(conv_plain_rounded)                                                                          \
    X(conv_plain_grad_input_rounded)                                                               \
    X(conv_plain_grad_weight_rounded)                                                              \
    X(conv_plain_rounded_tf32)                                                                     \
    X(conv_plain_grad_input_rounded_tf32)                                                          \
    X(conv_plain_grad_weight_rounded_tf32)                                                         \
    X(conv_plain_rounded_f16)                                                                      \
    X(conv_plain_grad_input_rounded_f16)                                                           \
    X(conv_plain_grad_weight_rounded_f16)                                                          \
    X(reduce_bias_groups)                                                                          \
    X(reduce_bias)                                                                                 \
    X(gemv)                                                                                        \
    X(gemv_groups)                                                                                 \
    X(gemm_cpu)                                                                                    \
    X(gemm_cpu_bf16)                                                                               \
    X(gemm_cpu_rounded)                                                                            \
    X(gemm_cpu_rounded_f16)                                                                        \
    X(gemm_cpu_pair)                                                                               \
    X(gemm_cpu_pair_bf16)                                                                          \
    X(gemm_cpu_pair_rounded)                                                                       \
    X(gemm_cpu_pair_rounded_f16)                                                                   \
    X(gemm_tiled)                                                                                  \
    X(gemm_pairs_bf16)                                                                             \
    X(gemm_pairs_f16)                                                                              \
    X(gemm_tiled_bf16)                                                                             \
    X(gemm_tiled_tf32)                                                                             \
    X(gemm_tiled_f16)                                                                              \
    X(gemm_tiled_rounded)                                                                          \
    X(gemm_tiled_rounded_tf32)                                                                     \
    X(gemm_tiled_rounded_f16)                                                                      \
    X(gemm_clblast)                                                                                \
    X(sum_rows)                                                                                    \
    X(maxpool2d_2x2)                                                                               \
    X(maxpool2d_blocked)                                                                           \
    X(maxpool2d_plain)                                                                             \
    X(maxpool2d_grad_2x2)                                                                          \
    X(maxpool2d_grad_blocked)                                                                      \
    X(maxpool2d_grad_plain)                                                                        \
    X(avgpool2d_blocked)                                                                           \
    X(avgpool2d_plain)                                                                             \
    X(avgpool2d_grad_blocked)                                                                      \
    X(avgpool2d_grad_plain)                                                                        \
    X(global_avgpool_groups)                                                                       \
    X(global_avgpool)                                                                              \
    X(global_avgpool_grad_groups)                                                                  \
    X(global_avgpool_grad)                                                                         \
    X(bn_stats_whole)                                                                              \
    X(bn_stats_groups)                                                                             \
    X(bn_stats)                                                                                    \
    X(bn_apply_groups)                                                                             \
    X(bn_apply)                                                                                    \
    X(bn_grad_stats_groups)                                                                        \
    X(bn_grad_stats)                                                                               \
    X(bn_grad_groups)                                                                              \
    X(bn_grad)                                                                                     \
    X(bn_layer_whole)                                                                              \
    X(bn_layer_groups)                                                                             \
    X(bn_layer_grad_whole)                                                                         \
    X(bn_layer_grad_groups)                                                                        \
    X(bn_apply_parts_groups)                                                                       \
    X(bn_grad_parts_groups)                                                                        \
    X(bn_running)                                                                                  \
    X(bn_known)                                                                                    \
    X(row)                                                                                         \
    X(layer_norm)                                                                                  \
    X(layer_norm_grad)                                                                             \
    X(layer_norm_grad_params)                                                                      \
    X(layer_norm_grads)

/* ---- adapters (matmul/lora.c) ---- */

/* The adapter of a dense layer: layer + factor (x a^T) b^T. */
typedef struct yki_adapter {
    const yoke_node *layer, *sum; /* the sum is what others read */
    const yoke_node *a, *b;       /* parameters: (rank, in) and (out, rank) */
    int64_t rank;
    float factor;
} yki_adapter;

/* Finds the adapter of a layer, by names and by what the nodes compute. False: the node is no dense
 * layer, or has none; then *adapter is unchanged. */
bool yki_find_adapter(const yoke_node *layer, yki_adapter *adapter);
/* Whether a node is a dense layer without an adapter. */
bool yki_is_adaptable(const yoke_node *node);
/* Fails if a dense layer is too small for an adapter of this rank. */
yoke_status yki_check_adapter_rank(const yoke_node *layer, int64_t rank);
/* Adds adapters to the layers that are marked, by id, and freezes all that is no adapter. All
 * options but the targets must be given. */
yoke_status yki_add_adapters(yoke_graph *graph, const yoke_lora_options *options,
                             const bool *chosen);
/* Fails if anything but adapters reads a node of one, other than the sum. */
yoke_status yki_check_removable(const yoke_graph *graph);
/* Takes all adapters out again, and thaws all parameters. yki_check_removable comes before. */
yoke_status yki_remove_adapters(yoke_graph *graph);

#endif
