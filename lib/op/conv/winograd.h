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

#endif
