/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_flags.cl - what the kernels of batch normalisation have in common (norm.cl,
 * norm_groups.cl, norm_whole.cl): the bits of `flags`, as in lib/op/norm/norm.h, and how
 * statistics are used. Kernels have an `epsilon`.
 */
#define AFFINE   1
#define RESIDUAL 2
#define RELU     4

/* 1 / deviation, from the statistics. If the count is 0, nothing is normalised with it. */
#define INVERSE(T, count, m2) INVERSE_ROOT(T, QUOTIENT(T, m2, max((count), 1.f)) + epsilon)
