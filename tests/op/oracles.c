/* SPDX-License-Identifier: Apache-2.0
 *
 * oracles.c - the oracle of every operator: one row each.
 */
#include "oracles.h"

const yki_op *const op_sum_of_two = &yki_op_binary;

op_oracle op_custom_oracle;

static void
oracle_custom(const op_run *run, double *out)
{
    op_custom_oracle(run, out);
}

const op_oracle_row op_oracles[] = {
    {&yki_op_unary, oracle_unary},
    {&yki_op_unary_grad, oracle_unary_grad},
    {&yki_op_binary, oracle_binary},
    {&yki_op_ones, oracle_ones},
    {&yki_op_reorder, oracle_view},
    {&yki_op_loss, oracle_loss},
    {&yki_op_loss_grad, oracle_loss_grad},
    {&yki_op_batch_sum, oracle_batch_sum},
    {&yki_op_counted, oracle_counted},
    {&yki_op_reduce, oracle_reduce},
    {&yki_op_reshape, oracle_view},
    {&yki_op_concat, oracle_concat},
    {&yki_op_slice, oracle_slice},
    {&yki_op_unslice, oracle_unslice},
    {&yki_op_transpose, oracle_transpose},
    {&yki_op_softmax, oracle_softmax},
    {&yki_op_softmax_grad, oracle_softmax_grad},
    {&yki_op_embedding, oracle_embedding},
    {&yki_op_embedding_grad, oracle_embedding_grad},
    {&yki_op_dropout, oracle_dropout},
    {&yki_op_custom, oracle_custom},
    {&yki_op_custom_grad, oracle_custom},
    {&yki_op_conv2d, oracle_conv2d},
    {&yki_op_conv2d_grad_input, oracle_conv2d_grad_input},
    {&yki_op_conv2d_grad_weight, oracle_conv2d_grad_weight},
    {&yki_op_reduce_bias, oracle_reduce_bias},
    {&yki_op_matmul, oracle_matmul},
    {&yki_op_sum_rows, oracle_sum_rows},
    {&yki_op_maxpool2d, oracle_pool},
    {&yki_op_avgpool2d, oracle_pool},
    {&yki_op_maxpool2d_grad, oracle_pool_grad},
    {&yki_op_avgpool2d_grad, oracle_pool_grad},
    {&yki_op_global_avgpool, oracle_global_avgpool},
    {&yki_op_global_avgpool_grad, oracle_global_avgpool_grad},
    {&yki_op_bn_stats, oracle_bn_stats},
    {&yki_op_bn_apply, oracle_bn_apply},
    {&yki_op_bn_grad_stats, oracle_bn_grad_stats},
    {&yki_op_bn_grad, oracle_bn_grad},
    {&yki_op_bn_running, oracle_bn_running},
    {&yki_op_bn_known, oracle_bn_known},
    {&yki_op_row, oracle_row},
    {&yki_op_layer_norm, oracle_layer_norm},
    {&yki_op_layer_norm_grad, oracle_layer_norm_grad},
    {&yki_op_layer_norm_grad_params, oracle_layer_norm_grad_params},
    {NULL, NULL},
};
