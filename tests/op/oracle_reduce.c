/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_reduce.c - sums over the batch and over axes, in double.
 */
#include "oracles.h"

static void
oracle_batch_sum(const op_run *run, double *out)
{
    int64_t count = yki_shape_count(run->problem->out.shape);

    for (int64_t i = 0; i < count; i++)
        out[i] = 0;
    for (int64_t n = 0; n < run->n; n++)
        for (int64_t i = 0; i < count; i++)
            out[i] += run->in[0][n * count + i];
}

static void
oracle_reduce(const op_run *run, double *out)
{
    const yki_problem *p = run->problem;
    const yki_reduce_attrs a = yki_reduce_attrs_get(&p->attrs);
    const yoke_shape *shape = &p->in[0].shape;
    int64_t samples = p->in[0].batched ? run->n : 1;
    int64_t in_count = yki_shape_count(*shape), out_count = yki_shape_count(p->out.shape);

    for (int64_t i = 0; i < samples * out_count; i++)
        out[i] = 0;
    for (int64_t n = 0; n < samples; n++)
        for (int64_t i = 0; i < in_count; i++) {
            int64_t rest = i, at = 0, stride = 1;

            for (int32_t d = shape->rank - 1; d >= 0; d--) {
                int64_t c = rest % shape->dim[d];

                rest /= shape->dim[d];
                if (a.axes >> d & 1)
                    continue;
                at += c * stride;
                stride *= shape->dim[d];
            }
            out[n * out_count + at] += run->in[0][n * in_count + i];
        }
    for (int64_t i = 0; a.mean && i < samples * out_count; i++)
        out[i] *= (double)out_count / (double)in_count;
}

static void
oracle_counted(const op_run *run, double *out)
{
    for (int64_t n = 0; n < run->n; n++) {
        out[2 * n] = run->in[0][n];
        out[2 * n + 1] = 1;
    }
}

const op_row op_rows_reduce[] = {
    {&yki_op_batch_sum, oracle_batch_sum, 2e-6, "a chain of up to 300 sums", 0},
    {&yki_op_counted, oracle_counted, 1e-7, "exact, but for the rounding of the oracle's input", 0},
    {&yki_op_reduce, oracle_reduce, 4e-6, "a chain of up to 1000 sums", 0},
    {0},
};
