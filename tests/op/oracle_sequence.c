/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_sequence.c - rotary positions and gates in double.
 */
#include <math.h>

#include "oracles.h"

static void
oracle_rope(const op_run *run, double *out)
{
    const yki_rope_attrs a = yki_rope_attrs_get(&run->problem->attrs);
    const yki_operand *x = &run->problem->in[0];
    int64_t length = x->shape.dim[0], columns = x->shape.dim[1], half = a.width / 2;
    int64_t rows = length * (x->batched ? run->n : 1);

    for (int64_t i = 0; i < rows * columns; i++)
        out[i] = run->in[0][i];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < a.heads + a.shared; h++)
            for (int64_t i = 0; i < half; i++) {
                double start = run->problem->input_count > 1 ? run->in[1][r / length] : 0;
                double angle = ((double)(r % length) + start) *
                               pow((double)a.base, -2.0 * (double)i / a.width);
                double s = a.back ? -sin(angle) : sin(angle), c = cos(angle);
                int64_t at = r * columns + h * a.width;
                int64_t one = at + (a.interleaved ? 2 * i : i);
                int64_t two = a.interleaved ? one + 1 : one + half;

                out[one] = run->in[0][one] * c - run->in[0][two] * s;
                out[two] = run->in[0][two] * c + run->in[0][one] * s;
            }
}

static int64_t
half_row(const op_run *run)
{
    const yoke_shape *shape = &run->problem->in[0].shape;

    return shape->dim[shape->rank - 1] / 2;
}

static int64_t
gate_count(const op_run *run)
{
    const yki_operand *x = &run->problem->in[0];

    return yki_shape_count(x->shape) / 2 * (x->batched ? run->n : 1);
}

static double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void
oracle_swiglu(const op_run *run, double *out)
{
    int64_t width = half_row(run);

    for (int64_t i = 0; i < gate_count(run); i++) {
        const double *gate = run->in[0] + i / width * 2 * width + i % width;

        out[i] = gate[0] * sigmoid(gate[0]) * gate[width];
    }
}

static void
oracle_swiglu_grad(const op_run *run, double *out)
{
    int64_t width = half_row(run);

    for (int64_t i = 0; i < gate_count(run); i++) {
        int64_t at = i / width * 2 * width + i % width;
        double gate = run->in[0][at], up = run->in[0][at + width], s = sigmoid(gate);

        out[at] = run->in[1][i] * up * s * (1 + gate * (1 - s));
        out[at + width] = run->in[1][i] * gate * s;
    }
}

const op_row op_rows_sequence[] = {
    {&yki_op_rope, oracle_rope, 4e-7, "a sine, a cosine, two products", 0},
    {&yki_op_swiglu, oracle_swiglu, 6e-7, "a sigmoid and two products", 0},
    {&yki_op_swiglu_grad, oracle_swiglu_grad, 8e-7, "the same, and a slope", 0},
    {0},
};
