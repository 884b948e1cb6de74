/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.h - what the solvers by clkernels/winograd.cl share.
 */
#ifndef YKI_WINOGRAD_H
#define YKI_WINOGRAD_H

#include "op/conv/conv.h"

/* Floats between matrices in scratch beyond their size, as in the kernels. */
enum { YKI_WINOGRAD_SKEW = 16 };

/* The convolution is one of 3x3 with stride 1, large enough for the transforms to pay, and sizes
 * fit the kernels' integers. */
bool yki_winograd_fits(const yki_problem *problem, const yki_device_traits *traits);
/* Tiles of 4 x 4 in an image of h x w. */
int64_t yki_winograd_tiles(int64_t h, int64_t w);

/* What a convolution, or the gradient of its input, reads and writes; channels in whole blocks. */
typedef struct yki_winograd_side {
    int64_t c, h, w, o, oh, ow, pad[2];
    int64_t v, in_blocks, pairs; /* pairs of blocks of output channels */
    int64_t tiles, most_tiles;   /* of a sample, of the largest batch */
    int64_t step;                /* tiles that are multiplied at a time, P in the kernels */
    bool transposed;
} yki_winograd_side;
yki_winograd_side yki_winograd_side_of(const yki_problem *problem, const yki_device_traits *traits);

/* Of a solver for both: images in blocks of channels, weights plain. */
bool yki_winograd_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant);
bool yki_winograd_applies(const yki_problem *problem, const yki_device_traits *traits);
/* What comes last in a launch of it, behind the buffers: the kernel's numbers, the grid, the cost.
 */
yoke_status yki_winograd_finish(yki_recipe *recipe, yki_launch *launch, const yki_problem *problem,
                                const yki_device_traits *traits, const int64_t *values,
                                size_t count);

#endif
