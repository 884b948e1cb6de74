/* SPDX-License-Identifier: Apache-2.0
 *
 * solvers.c - all solvers, one row each. The order is the order of preference when
 * nothing is measured, so a special solver stands before a general one.
 */
#include "op/recipe.h"

#define SOLVERS(X)                                                                                 \
    X(unary)                                                                                       \
    X(unary_grad)                                                                                  \
    X(binary)                                                                                      \
    X(binary_broadcast)                                                                            \
    X(ones)                                                                                        \
    X(copy)                                                                                        \
    X(reorder)                                                                                     \
    X(loss)                                                                                        \
    X(loss_grad)                                                                                   \
    X(fused_loss)                                                                                  \
    X(merge)                                                                                       \
    X(batch_sum)                                                                                   \
    X(counted)                                                                                     \
    X(reduce)                                                                                      \
    X(conv_depthwise)                                                                              \
    X(conv_depthwise_grad_input)                                                                   \
    X(conv_depthwise_grad_weight)                                                                  \
    X(winograd_unpacked)                                                                           \
    X(winograd_unpacked_grad_input)                                                                \
    X(winograd)                                                                                    \
    X(winograd_grad_input)                                                                         \
    X(winograd_grad_weight)                                                                        \
    X(conv_stacked)                                                                                \
    X(conv_stacked_grad_input)                                                                     \
    X(conv_blocked)                                                                                \
    X(conv_blocked_grad_input)                                                                     \
    X(conv_blocked_grad_weight)                                                                    \
    X(conv_lanes)                                                                                  \
    X(conv_lanes_grad_input)                                                                       \
    X(conv_lanes_grad_weight)                                                                      \
    X(concat)                                                                                      \
    X(slice)                                                                                       \
    X(unslice)                                                                                     \
    X(transpose_tiles)                                                                             \
    X(transpose_rows)                                                                              \
    X(softmax_rows)                                                                                \
    X(softmax_columns)                                                                             \
    X(softmax_grad_rows)                                                                           \
    X(softmax_grad_columns)                                                                        \
    X(embedding)                                                                                   \
    X(embedding_grad)                                                                              \
    X(dropout)                                                                                     \
    X(custom)                                                                                      \
    X(custom_grad)                                                                                 \
    X(conv_plain)                                                                                  \
    X(conv_plain_grad_input)                                                                       \
    X(conv_plain_grad_weight)                                                                      \
    X(reduce_bias)                                                                                 \
    X(gemm_cpu)                                                                                    \
    X(gemm_cpu_pair)                                                                               \
    X(gemm_clblast)                                                                                \
    X(gemm_tiled)                                                                                  \
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
    X(global_avgpool)                                                                              \
    X(global_avgpool_grad)                                                                         \
    X(bn_stats)                                                                                    \
    X(bn_apply)                                                                                    \
    X(bn_grad_stats)                                                                               \
    X(bn_grad)                                                                                     \
    X(bn_running)                                                                                  \
    X(bn_known)                                                                                    \
    X(row)                                                                                         \
    X(layer_norm)                                                                                  \
    X(layer_norm_grad)                                                                             \
    X(layer_norm_grad_params)

#define DECLARE(name) extern const yki_solver yki_solver_##name;
SOLVERS(DECLARE)

#define ROW(name) &yki_solver_##name,
const yki_solver *const yki_solvers[] = {SOLVERS(ROW) NULL};
