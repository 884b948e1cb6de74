/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.c - see bench.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "train/bench.h"

void
bench_must(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "bench: %s\n", yoke_last_error());
    exit(1);
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double
bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}
