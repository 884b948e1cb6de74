/* SPDX-License-Identifier: Apache-2.0
 *
 * conv.h - what the files of the convolution family share.
 *
 * All three operators of a convolution have one geometry: x with C channels of H x W,
 * and y with O channels of OH x OW, whichever of the two is given.
 */
#ifndef YKI_CONV_H
#define YKI_CONV_H

#include "op/ops.h"

typedef struct yki_conv {
    int64_t c, h, w;   /* of x, or its gradient */
    int64_t o, oh, ow; /* of y, or its gradient */
    int64_t cg, og;    /* channels of a group, of x and of y */
    int64_t taps;      /* kernel height x width */
    bool has_bias;
    bool batched;
    yki_expr n; /* samples: the batch, or 1 */
    yki_conv_attrs a;
} yki_conv;

/* Returns the geometry of a problem of any of the three operators. */
yki_conv yki_conv_of(const yki_problem *problem);
/* Returns 2 C/groups kh kw O OH OW, for all samples. */
yki_expr yki_conv_flops(const yki_conv *conv);
/* Returns the bytes of all operands, each counted once. */
yki_expr yki_problem_bytes(const yki_problem *problem);
/* Returns per_sample times the number of samples, conv->n, which is n or 1. */
yki_expr yki_conv_times(const yki_conv *conv, int64_t per_sample);

/* Returns into how many parts the sum of a gradient of weights over its samples is divided in
 * canonical plans: one where there are weights enough to keep a device busy. The k-th part begins
 * with sample n k / parts of n. */
int64_t yki_conv_canonical_parts(const yki_conv *conv);
/* Adds a launch that computes out[i] = part[0][i] + part[1][i] + ... for i < count
 * (bias_solver.c). */
void yki_conv_sum_parts(yki_recipe *recipe, const yki_device_traits *traits, uint32_t part,
                        uint32_t out, int64_t count, int64_t parts);

/* Reads one field of two numbers, such as stride; a 0 stands for zero[i], unless `zero` is NULL. If
 * a number is below `least` or too large, it fails the graph, names the field and returns false
 * (layers.c; pooling uses it too). */
bool yki_take_pair(yoke_graph *graph, const char *layer, const char *field, const int64_t given[2],
                   const int32_t *zero, int64_t least, int32_t out[2]);

/* ---- CPU solvers, channels in blocks (axis.c) ---- */

/* One axis of a grid of result positions. Position i is element i * out_step + out_at of the
 * result. It reads elements i * in_step + t * tap_step + in_at for its taps t, which are
 * elements kernel_at + t * kernel_step of the kernel. */
typedef struct yki_conv_axis {
    int64_t count, out_step, out_at, in_step, in_at, taps, tap_step, kernel_at, kernel_step;
} yki_conv_axis;

/* Returns an axis of a convolution, which is one grid. i: 0 vertical, 1 horizontal. */
yki_conv_axis yki_conv_forward_axis(const yki_conv *conv, int i);
/* Returns an axis of the gradient of the input, which is one grid for each residue of the
 * position modulo the stride. */
yki_conv_axis yki_conv_gradient_axis(const yki_conv *conv, int i, int64_t residue);
/* These add what several kernels take alike: how the window lies over the image; which weights of
 * it a grid uses, for kernels that pack them; how a grid walks over the image. */
void yki_arg_window(yki_recipe *recipe, const yki_conv *conv);
void yki_arg_packed_taps(yki_recipe *recipe, const yki_conv *conv, const yki_conv_axis *vertical,
                         const yki_conv_axis *horizontal);
void yki_arg_axes(yki_recipe *recipe, const yki_conv_axis *vertical,
                  const yki_conv_axis *horizontal);
/* Returns whether kernels of one work-item with vectors suit the device: whether it is a CPU
 * whose compiler has vectors. Software rasterizers say that they have none, and may end loops
 * after 2^16 iterations. */
bool yki_conv_is_cpu(const yki_device_traits *traits);
/* Returns the floats in a block of channels: 16, 8 or 4. */
uint32_t yki_conv_width(const yki_device_traits *traits);

#endif
