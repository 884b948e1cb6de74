/* SPDX-License-Identifier: Apache-2.0
 *
 * graphs.h - networks that several tests of this folder train.
 */
#ifndef YOKE_TESTS_GRAPHS_H
#define YOKE_TESTS_GRAPHS_H

#include "yoke.h"

/* loss = mean over elements of (tanh(x p) + q)^2, output "y" what is squared: few kernels, as
 * llvmpipe compiles them one by one, and two parameters, of `width` and 1, whose sizes leave gaps.
 */
yoke_graph *graph_two_parameters(int64_t width);

#endif
