/* SPDX-License-Identifier: Apache-2.0
 *
 * solvers.c - every solver, one row each. The order is the order of preference
 * when nothing is measured: the special before the general.
 */
#include "op/recipe.h"

extern const yki_solver yki_solver_merge;
extern const yki_solver yki_solver_unary;
extern const yki_solver yki_solver_unary_grad;
extern const yki_solver yki_solver_binary;
extern const yki_solver yki_solver_binary_broadcast;
extern const yki_solver yki_solver_ones;
extern const yki_solver yki_solver_copy;
extern const yki_solver yki_solver_reorder;
extern const yki_solver yki_solver_loss;
extern const yki_solver yki_solver_loss_grad;
extern const yki_solver yki_solver_batch_sum;
extern const yki_solver yki_solver_counted;
extern const yki_solver yki_solver_reduce;
extern const yki_solver yki_solver_concat;
extern const yki_solver yki_solver_slice;
extern const yki_solver yki_solver_unslice;
extern const yki_solver yki_solver_transpose_tiles;
extern const yki_solver yki_solver_transpose_rows;
extern const yki_solver yki_solver_softmax_rows;
extern const yki_solver yki_solver_softmax_columns;
extern const yki_solver yki_solver_softmax_grad_rows;
extern const yki_solver yki_solver_softmax_grad_columns;
extern const yki_solver yki_solver_embedding;
extern const yki_solver yki_solver_embedding_grad;
extern const yki_solver yki_solver_dropout;
extern const yki_solver yki_solver_custom;
extern const yki_solver yki_solver_custom_grad;
extern const yki_solver yki_solver_conv_plain;
extern const yki_solver yki_solver_conv_plain_grad_input;
extern const yki_solver yki_solver_conv_plain_grad_weight;
extern const yki_solver yki_solver_reduce_bias;
extern const yki_solver yki_solver_gemm_cpu;
extern const yki_solver yki_solver_gemm_clblast;
extern const yki_solver yki_solver_gemm_tiled;
extern const yki_solver yki_solver_sum_rows;
/* elementwise/ */
extern const yki_solver yki_solver_unary, yki_solver_unary_grad, yki_solver_binary,
    yki_solver_binary_broadcast, yki_solver_ones, yki_solver_copy, yki_solver_reorder;
/* reduce/ */
extern const yki_solver yki_solver_batch_sum, yki_solver_reduce;

/* conv/ */
extern const yki_solver yki_solver_conv_plain, yki_solver_conv_plain_grad_input,
    yki_solver_conv_plain_grad_weight, yki_solver_reduce_bias;
extern const yki_solver yki_solver_conv_blocked, yki_solver_conv_blocked_grad_input;
extern const yki_solver yki_solver_maxpool2d_2x2;
extern const yki_solver yki_solver_maxpool2d_blocked;
extern const yki_solver yki_solver_maxpool2d_plain;
extern const yki_solver yki_solver_maxpool2d_grad_2x2;
extern const yki_solver yki_solver_maxpool2d_grad_blocked;
extern const yki_solver yki_solver_maxpool2d_grad_plain;
extern const yki_solver yki_solver_avgpool2d_blocked;
extern const yki_solver yki_solver_avgpool2d_plain;
extern const yki_solver yki_solver_avgpool2d_grad_blocked;
extern const yki_solver yki_solver_avgpool2d_grad_plain;
extern const yki_solver yki_solver_global_avgpool;
extern const yki_solver yki_solver_global_avgpool_grad;
extern const yki_solver yki_solver_conv_stacked, yki_solver_conv_stacked_grad_input;
extern const yki_solver yki_solver_conv_lanes, yki_solver_conv_lanes_grad_input;
extern const yki_solver yki_solver_conv_lanes_grad_weight;
extern const yki_solver yki_solver_conv_blocked, yki_solver_conv_blocked_grad_input,
    yki_solver_conv_blocked_grad_weight, yki_solver_conv_depthwise,
    yki_solver_conv_depthwise_grad_input, yki_solver_conv_depthwise_grad_weight;
extern const yki_solver yki_solver_bn_stats;
extern const yki_solver yki_solver_bn_apply;
extern const yki_solver yki_solver_bn_grad_stats;
extern const yki_solver yki_solver_bn_grad;
extern const yki_solver yki_solver_bn_running;
extern const yki_solver yki_solver_bn_known;
extern const yki_solver yki_solver_row;
extern const yki_solver yki_solver_layer_norm;
extern const yki_solver yki_solver_layer_norm_grad;
extern const yki_solver yki_solver_layer_norm_grad_params;
extern const yki_solver yki_solver_winograd, yki_solver_winograd_grad_input,
    yki_solver_winograd_grad_weight, yki_solver_winograd_unpacked,
    yki_solver_winograd_unpacked_grad_input;

extern const yki_solver yki_solver_loss_step;
extern const yki_solver yki_solver_gemm_cpu_pair;

const yki_solver *const yki_solvers[] = {
    &yki_solver_unary,
    &yki_solver_unary_grad,
    &yki_solver_binary,
    &yki_solver_binary_broadcast,
    &yki_solver_ones,
    &yki_solver_copy,
    &yki_solver_reorder,
    &yki_solver_loss,
    &yki_solver_loss_grad,
    &yki_solver_loss_step,
    &yki_solver_merge,
    &yki_solver_batch_sum,
    &yki_solver_counted,
    &yki_solver_reduce,
    &yki_solver_conv_depthwise,
    &yki_solver_conv_depthwise_grad_input,
    &yki_solver_conv_depthwise_grad_weight,
    &yki_solver_winograd_unpacked,
    &yki_solver_winograd_unpacked_grad_input,
    &yki_solver_winograd,
    &yki_solver_winograd_grad_input,
    &yki_solver_winograd_grad_weight,
    &yki_solver_conv_stacked,
    &yki_solver_conv_stacked_grad_input,
    &yki_solver_conv_blocked,
    &yki_solver_conv_blocked_grad_input,
    &yki_solver_conv_blocked_grad_weight,
    &yki_solver_conv_lanes,
    &yki_solver_conv_lanes_grad_input,
    &yki_solver_conv_lanes_grad_weight,
    &yki_solver_concat,
    &yki_solver_slice,
    &yki_solver_unslice,
    &yki_solver_transpose_tiles,
    &yki_solver_transpose_rows,
    &yki_solver_softmax_rows,
    &yki_solver_softmax_columns,
    &yki_solver_softmax_grad_rows,
    &yki_solver_softmax_grad_columns,
    &yki_solver_embedding,
    &yki_solver_embedding_grad,
    &yki_solver_dropout,
    &yki_solver_custom,
    &yki_solver_custom_grad,
    &yki_solver_conv_plain,
    &yki_solver_conv_plain_grad_input,
    &yki_solver_conv_plain_grad_weight,
    &yki_solver_reduce_bias,
    &yki_solver_gemm_cpu,
    &yki_solver_gemm_cpu_pair,
    &yki_solver_gemm_clblast,
    &yki_solver_gemm_tiled,
    &yki_solver_sum_rows,
    &yki_solver_maxpool2d_2x2,
    &yki_solver_maxpool2d_blocked,
    &yki_solver_maxpool2d_plain,
    &yki_solver_maxpool2d_grad_2x2,
    &yki_solver_maxpool2d_grad_blocked,
    &yki_solver_maxpool2d_grad_plain,
    &yki_solver_avgpool2d_blocked,
    &yki_solver_avgpool2d_plain,
    &yki_solver_avgpool2d_grad_blocked,
    &yki_solver_avgpool2d_grad_plain,
    &yki_solver_global_avgpool,
    &yki_solver_global_avgpool_grad,
    &yki_solver_bn_stats,
    &yki_solver_bn_apply,
    &yki_solver_bn_grad_stats,
    &yki_solver_bn_grad,
    &yki_solver_bn_running,
    &yki_solver_bn_known,
    &yki_solver_row,
    &yki_solver_layer_norm,
    &yki_solver_layer_norm_grad,
    &yki_solver_layer_norm_grad_params,
    NULL,
};
