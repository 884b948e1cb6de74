/* SPDX-License-Identifier: Apache-2.0
 *
 * oracles.h - the oracles, by file; oracles.c says which operator each is for.
 */
#ifndef YOKE_TESTS_ORACLES_H
#define YOKE_TESTS_ORACLES_H

#include "harness.h"

/* oracle_elementwise.c */
void oracle_unary(const op_run *run, double *out);
void oracle_unary_grad(const op_run *run, double *out);
void oracle_binary(const op_run *run, double *out);
void oracle_ones(const op_run *run, double *out);
void oracle_batch_sum(const op_run *run, double *out);
void oracle_loss(const op_run *run, double *out);
void oracle_loss_grad(const op_run *run, double *out);
void oracle_counted(const op_run *run, double *out);
void oracle_reduce(const op_run *run, double *out);
void oracle_view(const op_run *run, double *out);

/* oracle_shape.c */
void oracle_concat(const op_run *run, double *out);
void oracle_slice(const op_run *run, double *out);
void oracle_unslice(const op_run *run, double *out);
void oracle_transpose(const op_run *run, double *out);
/* oracle_softmax.c */
void oracle_softmax(const op_run *run, double *out);
void oracle_softmax_grad(const op_run *run, double *out);
/* oracle_embedding.c */
void oracle_embedding(const op_run *run, double *out);
void oracle_embedding_grad(const op_run *run, double *out);
/* oracle_dropout.c */
void oracle_dropout(const op_run *run, double *out);
/* The test's own, for custom and custom_grad (whose attributes say by which input). */
extern op_oracle op_custom_oracle;

/* oracle_conv.c */
void oracle_conv2d(const op_run *run, double *out);
void oracle_conv2d_grad_input(const op_run *run, double *out);
void oracle_conv2d_grad_weight(const op_run *run, double *out);
void oracle_reduce_bias(const op_run *run, double *out);
/* oracle_matmul.c */
void oracle_matmul(const op_run *run, double *out);
void oracle_sum_rows(const op_run *run, double *out);
/* oracle_pool.c */
void oracle_pool(const op_run *run, double *out);
void oracle_pool_grad(const op_run *run, double *out);
void oracle_global_avgpool(const op_run *run, double *out);
void oracle_global_avgpool_grad(const op_run *run, double *out);
/* oracle_norm.c */
void oracle_bn_stats(const op_run *run, double *out);
void oracle_bn_apply(const op_run *run, double *out);
void oracle_bn_grad_stats(const op_run *run, double *out);
void oracle_bn_grad(const op_run *run, double *out);
void oracle_bn_running(const op_run *run, double *out);
void oracle_bn_known(const op_run *run, double *out);
void oracle_row(const op_run *run, double *out);
void oracle_layer_norm(const op_run *run, double *out);
void oracle_layer_norm_grad(const op_run *run, double *out);
void oracle_layer_norm_grad_params(const op_run *run, double *out);

#endif
