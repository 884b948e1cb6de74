/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.h - what the solvers of attention share.
 */
#ifndef YKI_ATTENTION_H
#define YKI_ATTENTION_H

#include "op/ops.h"

/* Keys that are taken together: a part of the result, the same on all devices. */
enum { YKI_ATTENTION_KEYS = 64 };

/* The largest length of a sample. */
int64_t yki_attention_length(const yki_problem *problem);
/* The length that a sample has when it runs. */
yki_expr yki_attention_rows(const yki_problem *problem);
/* A number for each sample, or one for all where the input is not batched. */
yki_expr yki_attention_per_sample(const yki_problem *problem, int64_t count);
/* Starts the recipe of forward. The slots of the result and of the logarithms; what the problem
 * does not want is scratch memory. */
void yki_attention_results(const yki_problem *problem, yki_recipe *recipe, uint32_t *y,
                           uint32_t *lse);
/* The operations of so many products of all queries with the keys that they see. */
yki_expr yki_attention_flops(const yki_problem *problem, int64_t products);
/* The arguments of a kernel from "samples" on. 0 chunks: it has no such argument. */
void yki_attention_size_args(const yki_problem *problem, yki_recipe *recipe, int64_t chunks);
/* The option that a kernel is built with to drop weights, or "", and its arguments behind those. */
const char *yki_attention_drop_option(const yki_problem *problem);
void yki_attention_drop_args(const yki_problem *problem, yki_recipe *recipe);

#endif
