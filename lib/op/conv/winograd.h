/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.h - what the solvers share that use clkernels/winograd.cl.
 */
#ifndef YKI_WINOGRAD_H
#define YKI_WINOGRAD_H

#include "op/conv/conv.h"

/* Floats left free between two matrices in scratch memory, the same as in the kernels. */
enum { YKI_WINOGRAD_SKEW = 16 };

/* Returns whether the convolution is 3x3 with stride 1 and large enough for the transforms to
 * pay; h x w is the size of the result, or of the image whose gradient it is. */
bool yki_winograd_pays(const yki_conv *conv, int64_t h, int64_t w);
/* Returns whether it pays, the device is a CPU, and the sizes fit its kernels' integers. */
bool yki_winograd_fits(const yki_problem *problem, const yki_device_traits *traits);
/* Returns the number of 4 x 4 tiles in an image of h x w. */
int64_t yki_winograd_tiles(int64_t h, int64_t w);

/* What a convolution, or the gradient of its input, reads and writes, with channels in whole
 * blocks. */
typedef struct yki_winograd_side {
    int64_t c, h, w, o, oh, ow, pad[2];
    int64_t v, in_blocks, pairs; /* pairs of blocks of output channels */
    int64_t tiles, most_tiles;   /* of one sample; of the largest batch */
    int64_t step;                /* tiles that are multiplied at a time; P in the kernels */
    bool transposed;
} yki_winograd_side;
yki_winograd_side yki_winograd_side_of(const yki_problem *problem, const yki_device_traits *traits);

/* The layouts of a solver for either operator: images in blocks of channels, plain weights. */
bool yki_winograd_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant);
bool yki_winograd_applies(const yki_problem *problem, const yki_device_traits *traits);
/* Ends a launch whose buffers are set: adds the kernel's numbers, the grid and the cost. */
yoke_status yki_winograd_finish(yki_recipe *recipe, yki_launch *launch, const yki_problem *problem,
                                const yki_device_traits *traits, const yki_named_int *values,
                                size_t count);

#endif
