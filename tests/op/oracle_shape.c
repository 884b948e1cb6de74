/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_shape.c - data moved: every element of the result by its coordinates.
 */
#include "oracles.h"

/* Coordinates of an element of a sample, and back. */
static void
coordinates(yoke_shape shape, int64_t index, int64_t *at)
{
    for (int32_t i = shape.rank - 1; i >= 0; i--) {
        at[i] = index % shape.dim[i];
        index /= shape.dim[i];
    }
}

static int64_t
index_of(yoke_shape shape, const int64_t *at)
{
    int64_t index = 0;

    for (int32_t i = 0; i < shape.rank; i++)
        index = index * shape.dim[i] + at[i];
    return index;
}

static double
element(const op_run *run, uint32_t input, int64_t n, const int64_t *at)
{
    const yki_operand *in = &run->problem->in[input];

    return run
        ->in[input][(in->batched ? n * yki_shape_count(in->shape) : 0) + index_of(in->shape, at)];
}

static void
oracle_concat(const op_run *run, double *out)
{
    int32_t axis = yki_concat_attrs_get(&run->problem->attrs).axis;
    yoke_shape shape = run->problem->out.shape;
    int64_t count = yki_shape_count(shape), samples = run->problem->out.batched ? run->n : 1;

    for (int64_t n = 0; n < samples; n++)
        for (int64_t i = 0; i < count; i++) {
            int64_t at[YOKE_MAX_RANK];
            uint32_t part = 0;

            coordinates(shape, i, at);
            while (at[axis] >= run->problem->in[part].shape.dim[axis])
                at[axis] -= run->problem->in[part++].shape.dim[axis];
            out[n * count + i] = element(run, part, n, at);
        }
}

static void
oracle_slice(const op_run *run, double *out)
{
    const yki_slice_attrs a = yki_slice_attrs_get(&run->problem->attrs);
    yoke_shape shape = run->problem->out.shape;
    int64_t count = yki_shape_count(shape), samples = run->problem->out.batched ? run->n : 1;

    for (int64_t n = 0; n < samples; n++)
        for (int64_t i = 0; i < count; i++) {
            int64_t at[YOKE_MAX_RANK];

            coordinates(shape, i, at);
            at[a.axis] += a.begin;
            out[n * count + i] = element(run, 0, n, at);
        }
}

static void
oracle_unslice(const op_run *run, double *out)
{
    const yki_slice_attrs a = yki_slice_attrs_get(&run->problem->attrs);
    yoke_shape shape = run->problem->out.shape;
    int64_t count = yki_shape_count(shape), samples = run->problem->out.batched ? run->n : 1;

    for (int64_t n = 0; n < samples; n++)
        for (int64_t i = 0; i < count; i++) {
            int64_t at[YOKE_MAX_RANK];

            coordinates(shape, i, at);
            at[a.axis] -= a.begin;
            out[n * count + i] =
                at[a.axis] >= 0 && at[a.axis] < a.end - a.begin ? element(run, 0, n, at) : 0;
        }
}

static void
oracle_transpose(const op_run *run, double *out)
{
    const yki_transpose_attrs a = yki_transpose_attrs_get(&run->problem->attrs);
    yoke_shape shape = run->problem->out.shape;
    int64_t count = yki_shape_count(shape), samples = run->problem->out.batched ? run->n : 1;

    for (int64_t n = 0; n < samples; n++)
        for (int64_t i = 0; i < count; i++) {
            int64_t to[YOKE_MAX_RANK], from[YOKE_MAX_RANK];

            coordinates(shape, i, to);
            for (int32_t k = 0; k < shape.rank; k++)
                from[a.axes[k]] = to[k];
            out[n * count + i] = element(run, 0, n, from);
        }
}

const op_row op_rows_shape[] = {
    {&yki_op_concat, oracle_concat, 1e-7, "exact, but for the rounding of the oracle's input", 0},
    {&yki_op_slice, oracle_slice, 1e-7, "exact, but for the rounding of the oracle's input", 0},
    {&yki_op_unslice, oracle_unslice, 1e-7, "exact, but for the rounding of the oracle's input", 0},
    {&yki_op_transpose, oracle_transpose, 1e-7, "exact, but for the rounding of the oracle's input",
     0},
    {0},
};
