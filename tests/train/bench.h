/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - what the bench_ programs of this folder share.
 */
#ifndef YOKE_TESTS_TRAIN_BENCH_H
#define YOKE_TESTS_TRAIN_BENCH_H

#include "yoke.h"

/* Ends the program with yoke's sentence, unless all is well. */
void bench_must(yoke_status status);
/* Sorts them; of an even number the upper one. */
double bench_median(double *values, size_t count);

#endif
