/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_elementwise.c - what elementwise operators mean, in double.
 */
#include <math.h>

#include "oracles.h"

static int64_t
elements(const op_run *run)
{
    return yki_operand_count(&run->problem->out, (yki_extents){.batch = run->n});
}

static double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double
gelu_cdf(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2.0)));
}

static double
gelu_angle(double x)
{
    return sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x);
}

static void
oracle_unary(const op_run *run, double *out)
{
    const yki_unary_attrs a = yki_unary_attrs_get(&run->problem->attrs);

    for (int64_t i = 0; i < elements(run); i++) {
        double x = run->in[0][i];

        switch ((yki_unary_kind)a.kind) {
        case YKI_UNARY_RELU:
            out[i] = x <= 0 ? 0 : x;
            break;
        case YKI_UNARY_LEAKY_RELU:
            out[i] = x <= 0 ? (double)a.a * x : x;
            break;
        case YKI_UNARY_SIGMOID:
            out[i] = sigmoid(x);
            break;
        case YKI_UNARY_TANH:
            out[i] = tanh(x);
            break;
        case YKI_UNARY_GELU:
            out[i] = x * gelu_cdf(x);
            break;
        case YKI_UNARY_GELU_TANH:
            out[i] = x * sigmoid(2 * gelu_angle(x));
            break;
        case YKI_UNARY_SILU:
            out[i] = x * sigmoid(x);
            break;
        case YKI_UNARY_HARDSWISH:
            out[i] = x * fmin(fmax(x + 3, 0), 6) / 6;
            break;
        case YKI_UNARY_ELU:
            out[i] = x <= 0 ? (double)a.a * expm1(x) : x;
            break;
        case YKI_UNARY_EXP:
            out[i] = exp(x);
            break;
        case YKI_UNARY_LOG:
            out[i] = log(x);
            break;
        case YKI_UNARY_SQRT:
            out[i] = sqrt(x);
            break;
        case YKI_UNARY_ABS:
            out[i] = fabs(x);
            break;
        case YKI_UNARY_POW:
            out[i] = pow(x, (double)a.a);
            break;
        case YKI_UNARY_SCALE:
            out[i] = (double)a.a * x + (double)a.b;
            break;
        case YKI_UNARY_KINDS:
            break;
        }
    }
}

static void
oracle_unary_grad(const op_run *run, double *out)
{
    const yki_unary_attrs a = yki_unary_attrs_get(&run->problem->attrs);

    for (int64_t i = 0; i < elements(run); i++) {
        double v = run->in[0][i], dy = run->in[1][i], s;

        if (run->problem->input_count == 3)
            dy += run->in[2][i];
        switch ((yki_unary_kind)a.kind) {
        case YKI_UNARY_RELU:
            out[i] = v <= 0 ? 0 : dy;
            break;
        case YKI_UNARY_LEAKY_RELU:
            out[i] = v <= 0 ? (double)a.a * dy : dy;
            break;
        case YKI_UNARY_SIGMOID:
            out[i] = dy * v * (1 - v);
            break;
        case YKI_UNARY_TANH:
            out[i] = dy * (1 - v * v);
            break;
        case YKI_UNARY_GELU:
            out[i] = dy * (gelu_cdf(v) + v * exp(-v * v / 2) / sqrt(2 * acos(-1.0)));
            break;
        case YKI_UNARY_GELU_TANH:
            s = tanh(gelu_angle(v));
            out[i] = dy * ((1 + s) / 2 +
                           v / 2 * (1 - s * s) * sqrt(2 / acos(-1.0)) * (1 + 3 * 0.044715 * v * v));
            break;
        case YKI_UNARY_SILU:
            s = sigmoid(v);
            out[i] = dy * s * (1 + v * (1 - s));
            break;
        case YKI_UNARY_HARDSWISH:
            out[i] = v < -3 ? 0 : v > 3 ? dy : dy * (v / 3 + 0.5);
            break;
        case YKI_UNARY_ELU:
            out[i] = v <= 0 ? dy * (v + (double)a.a) : dy;
            break;
        case YKI_UNARY_EXP:
            out[i] = dy * v;
            break;
        case YKI_UNARY_LOG:
            out[i] = dy / v;
            break;
        case YKI_UNARY_SQRT:
            out[i] = dy / (2 * v);
            break;
        case YKI_UNARY_ABS:
            out[i] = v < 0 ? -dy : v > 0 ? dy : 0;
            break;
        case YKI_UNARY_POW:
            out[i] = dy * (double)a.a * pow(v, (double)a.a - 1);
            break;
        case YKI_UNARY_SCALE:
            out[i] = dy * (double)a.a;
            break;
        case YKI_UNARY_KINDS:
            break;
        }
    }
}

static double
of_two(yki_binary_kind kind, double x, double y)
{
    switch (kind) {
    case YKI_BINARY_ADD:
        return x + y;
    case YKI_BINARY_SUB:
        return x - y;
    case YKI_BINARY_MUL:
        return x * y;
    case YKI_BINARY_DIV:
        return x / y;
    case YKI_BINARY_MAXIMUM:
        return x >= y ? x : y;
    case YKI_BINARY_MINIMUM:
        return x <= y ? x : y;
    case YKI_BINARY_AT_LEAST:
        return x >= y;
    case YKI_BINARY_KINDS:
        break;
    }
    return NAN;
}

static void
oracle_binary(const op_run *run, double *out)
{
    const yki_problem *p = run->problem;
    const yki_binary_attrs a = yki_binary_attrs_get(&p->attrs);
    int64_t per_sample = yki_shape_count(p->out.shape);

    for (int64_t i = 0; i < elements(run); i++) {
        int64_t n = p->out.batched ? i / per_sample : 0, at[2] = {0, 0};

        for (int k = 0; k < 2; k++) {
            const yoke_shape *shape = &p->in[k].shape;
            int64_t rest = i % per_sample, stride = 1;

            for (int32_t d = p->out.shape.rank - 1; d >= 0; d--) {
                int32_t own = d - (p->out.shape.rank - shape->rank);
                int64_t c = rest % p->out.shape.dim[d];

                rest /= p->out.shape.dim[d];
                if (own < 0)
                    continue;
                at[k] += shape->dim[own] == 1 ? 0 : c * stride;
                stride *= shape->dim[own];
            }
            if (p->in[k].batched)
                at[k] += n * yki_shape_count(*shape);
        }
        out[i] = of_two((yki_binary_kind)a.kind, run->in[0][at[0]], run->in[1][at[1]]);
    }
}

static void
oracle_ones(const op_run *run, double *out)
{
    for (int64_t i = 0; i < elements(run); i++)
        out[i] = 1;
}

static void
oracle_view(const op_run *run, double *out)
{
    for (int64_t i = 0; i < elements(run); i++)
        out[i] = run->in[0][i];
}

const op_row op_rows_elementwise[] = {
    {&yki_op_unary, oracle_unary, 1e-6,
     "exp of OpenCL to 4 ulp, tanh and cdf of the kernels to 3, and products", 0},
    {&yki_op_unary_grad, oracle_unary_grad, 2e-6, "products of two such functions", 0},
    {&yki_op_binary, oracle_binary, 1e-7, "correctly rounded: u, twice for safety", 0},
    {&yki_op_ones, oracle_ones, 0, "exact", 0},
    {&yki_op_reorder, oracle_view, 1e-7, "exact, but for the rounding of the oracle's input", 0},
    {&yki_op_reshape, oracle_view, 0, "a view: nothing is computed", 0},
    {0},
};
