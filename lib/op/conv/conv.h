/* SPDX-License-Identifier: Apache-2.0
 *
 * conv.h - what the files of the convolution family share.
 *
 * All three operators of a convolution are seen through one geometry: x with C
 * channels of H x W, y with O channels of OH x OW, whichever of them is given.
 */
#ifndef YKI_CONV_H
#define YKI_CONV_H

#include "op/ops.h"

typedef struct yki_conv {
    int64_t c, h, w;   /* x, or its gradient */
    int64_t o, oh, ow; /* y, or its gradient */
    int64_t cg, og;    /* channels of a group */
    int64_t taps;      /* kernel height x width */
    bool has_bias;
    bool batched;
    yki_expr n; /* samples: the batch, or 1 */
    yki_conv_attrs a;
} yki_conv;

/* The geometry of a problem of any of the three operators. */
yki_conv yki_conv_of(const yki_problem *problem);
/* 2 C/groups kh kw O OH OW, all samples. */
yki_expr yki_conv_flops(const yki_conv *conv);
/* Bytes of all operands, once. */
yki_expr yki_problem_bytes(const yki_problem *problem);
/* (per sample) times an expression of the form "n" or "1". */
yki_expr yki_conv_times(const yki_conv *conv, int64_t per_sample);

/* A launch out[i] = part[0][i] + part[1][i] + ..., for i < count (bias_solver.c). */
void yki_conv_sum_parts(yki_recipe *recipe, const yki_device_traits *traits, uint32_t part,
                        uint32_t out, int64_t count, int64_t parts);

/* Size of a convolution's result along axis i, or <= 0 if the kernel does not fit. */
int64_t yki_conv_out_size(const yki_conv_attrs *a, int i, int64_t in);

/* ---- CPU solvers, channels in blocks (axis.c) ---- */

/* One axis of a grid of result positions: position i is element i * out_step + out_at of the
 * result and reads elements i * in_step + t * tap_step + in_at for its taps t, which are
 * kernel_at + t * kernel_step of the kernel. */
typedef struct yki_conv_axis {
    int64_t count, out_step, out_at, in_step, in_at, taps, tap_step, kernel_at, kernel_step;
} yki_conv_axis;

/* A convolution is one grid; i: 0 vertical, 1 horizontal. */
yki_conv_axis yki_conv_forward_axis(const yki_conv *conv, int i);
/* The gradient of the input is one grid for each residue of the position modulo the stride. */
yki_conv_axis yki_conv_gradient_axis(const yki_conv *conv, int i, int64_t residue);
/* Whether kernels of one work-item with vectors suit the device: a CPU whose compiler has vectors.
 * (Software rasterizers say they have none, and may cut loops off after 2^16 turns.) */
bool yki_conv_is_cpu(const yki_device_traits *traits);
/* Floats in a block of channels: 16, 8 or 4. */
uint32_t yki_conv_width(const yki_device_traits *traits);

#endif
