/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.c - a graph computed in double on the host, by the oracles.
 */
#include <math.h>
#include <stdlib.h>

#include "oracles.h"

double
op_uniform(uint32_t seed, uint32_t stream, uint64_t index)
{
    uint32_t key[2] = {seed, stream};
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t out[4];

    yki_philox(key, counter, out);
    return out[0] / 4294967296.0;
}

double
op_normal(uint32_t seed, uint32_t stream, uint64_t index)
{
    double u = op_uniform(seed, stream, 2 * index), v = op_uniform(seed, stream, 2 * index + 1);

    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

int64_t
op_value_count(const yoke_node *node, int64_t n)
{
    return yki_shape_count(node->shape) * (node->batched ? n : 1);
}

static op_oracle
find_oracle(const yki_op *op)
{
    const op_row *row = op_find_row(op);

    ck_assert_msg(row != NULL, "operator %s has no oracle (tests/op/oracle_<family>.c)", op->name);
    return row->oracle;
}

/* Rounds a float to one whose last `bits` bits are 0: what is halfway to even, or up. */
static double
cut(double value, unsigned bits, bool to_even)
{
    float x = (float)value;
    uint32_t word, half = 1u << (bits - 1);

    memcpy(&word, &x, sizeof word);
    word += to_even ? half - 1 + (word >> bits & 1) : half;
    word &= ~(2 * half - 1);
    memcpy(&x, &word, sizeof x);
    return (double)x;
}

double
op_bf16(double value)
{
    return cut(value, 16, true);
}

double
op_tf32(double value)
{
    return cut(value, 13, false);
}

double
op_f16(double value)
{
    const double size = fabs(value);
    double y = cut(value, 13, true);

    if (size < 0x1p-14)
        return copysign(nearbyint(size * 0x1p24) * 0x1p-24, value);
    return fabs(y) > 65504 ? copysign(INFINITY, value) : y;
}

double
op_rounded(double value, yki_class rounds)
{
    return rounds == YKI_CLASS_F16    ? op_f16(value)
           : rounds == YKI_CLASS_TF32 ? op_tf32(value)
                                      : op_bf16(value);
}

double *
op_evaluate_rounded(const yoke_node *node, yki_class rounds, int64_t n, const yki_step_values *step,
                    double *const *values)
{
    double *out = calloc((size_t)op_value_count(node, n) + 1, sizeof *out);
    double *in[YKI_MAX_INPUTS];
    yki_problem problem;
    op_run run = {&problem, n, (const double *const *)in, step};

    for (uint32_t k = 0; k < node->input_count; k++) {
        int64_t count = op_value_count(node->inputs[k], n);

        in[k] = calloc((size_t)count + 1, sizeof *in[k]);
        for (int64_t i = 0; i < count; i++) {
            double value = values[node->inputs[k]->id][i];

            in[k][i] =
                k >= op_find_rounded_row(node->op)->rounded ? value : op_rounded(value, rounds);
        }
    }
    yki_problem_of_node(node, (yki_extents){.batch = n}, &problem);
    find_oracle(node->op)(&run, out);
    for (uint32_t k = 0; k < node->input_count; k++)
        free(in[k]);
    return out;
}

void
op_evaluate(const yoke_graph *graph, size_t count, int64_t n, const yki_step_values *step,
            double **values)
{
    for (size_t i = 0; i < count; i++) {
        const yoke_node *node = graph->nodes[i];
        const double *in[YKI_MAX_INPUTS];
        yki_problem problem;
        op_run run = {&problem, n, in, step};

        if (!node->op)
            continue;
        free(values[i]);
        values[i] = calloc((size_t)op_value_count(node, n) + 1, sizeof **values);
        for (uint32_t k = 0; k < node->input_count; k++)
            in[k] = values[node->inputs[k]->id];
        yki_problem_of_node(node, (yki_extents){.batch = n}, &problem);
        find_oracle(node->op)(&run, values[i]);
    }
}
