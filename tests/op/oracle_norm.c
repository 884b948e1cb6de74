/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_norm.c - what normalisation means, in double, in two passes.
 */
#include <math.h>

#include "oracles.h"

typedef struct image {
    int64_t samples, channels, area;
} image;

static image
image_of(const op_run *run)
{
    const yki_operand *x = &run->problem->in[0];
    image m = {x->batched ? run->n : 1, x->shape.dim[0], 0};

    m.area = yki_shape_count(x->shape) / m.channels;
    return m;
}

static int64_t
index_of(const image *m, int64_t n, int64_t c, int64_t k)
{
    return (n * m->channels + c) * m->area + k;
}

static void
oracle_bn_stats(const op_run *run, double *out)
{
    image m = image_of(run);
    double count = (double)(m.samples * m.area);

    for (int64_t c = 0; c < m.channels; c++) {
        double sum = 0, m2 = 0, mean;

        for (int64_t n = 0; n < m.samples; n++)
            for (int64_t k = 0; k < m.area; k++)
                sum += run->in[0][index_of(&m, n, c, k)];
        mean = count > 0 ? sum / count : 0;
        for (int64_t n = 0; n < m.samples; n++)
            for (int64_t k = 0; k < m.area; k++)
                m2 += pow(run->in[0][index_of(&m, n, c, k)] - mean, 2);
        out[c] = count;
        out[m.channels + c] = mean;
        out[2 * m.channels + c] = m2;
    }
}

static void
oracle_bn_known(const op_run *run, double *out)
{
    int64_t channels = run->problem->in[0].shape.dim[0];

    for (int64_t c = 0; c < channels; c++) {
        out[c] = 1;
        out[channels + c] = run->in[0][c];
        out[2 * channels + c] = run->in[1][c];
    }
}

static void
oracle_bn_running(const op_run *run, double *out)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&run->problem->attrs);
    int64_t channels = run->problem->in[0].shape.dim[0];

    for (int64_t c = 0; c < channels; c++) {
        double count = run->in[1][c], mean = run->in[1][channels + c];
        double m2 = run->in[1][2 * channels + c], old = run->in[0][c], m = (double)a.momentum;

        out[c] = old;
        if (a.variance ? count > 1 : count > 0)
            out[c] = (1 - m) * old + m * (a.variance ? m2 / (count - 1) : mean);
    }
}

static double
inverse_deviation(const double *stats, const image *m, int64_t c, double epsilon)
{
    double count = stats[c];

    return 1 / sqrt((count > 0 ? stats[2 * m->channels + c] / count : 0) + epsilon);
}

static void
oracle_bn_apply(const op_run *run, double *out)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&run->problem->attrs);
    image m = image_of(run);
    const double *residual = a.residual ? run->in[run->problem->input_count - 1] : NULL;

    for (int64_t i = 0; i < m.samples * m.channels * m.area; i++) {
        int64_t c = i / m.area % m.channels;
        double y = (run->in[0][i] - run->in[1][m.channels + c]) *
                   inverse_deviation(run->in[1], &m, c, (double)a.epsilon);

        if (a.affine)
            y = y * run->in[2][c] + run->in[3][c];
        if (residual)
            y += residual[i];
        out[i] = a.act == YKI_BN_RELU && y < 0 ? 0 : y;
    }
}

/* dy before the activation, if that is part of the operator; parameters from input `at` on. */
static double
gated(const op_run *run, const image *m, int64_t i, const double *stats, uint32_t at)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&run->problem->attrs);
    int64_t c = i / m->area % m->channels;
    double y = (run->in[0][i] - stats[m->channels + c]) *
               inverse_deviation(stats, m, c, (double)a.epsilon);

    if (a.affine && a.act == YKI_BN_RELU)
        y = y * run->in[at][c] + run->in[at + 1][c];
    return a.act == YKI_BN_RELU && y <= 0 ? 0 : run->in[1][i];
}

static void
oracle_bn_grad_stats(const op_run *run, double *out)
{
    image m = image_of(run);

    for (int64_t c = 0; c < m.channels; c++) {
        double inverse = inverse_deviation(run->in[2], &m, c,
                                           (double)yki_bn_attrs_get(&run->problem->attrs).epsilon);

        out[c] = out[m.channels + c] = 0;
        for (int64_t n = 0; n < m.samples; n++)
            for (int64_t k = 0; k < m.area; k++) {
                int64_t i = index_of(&m, n, c, k);

                double dy = gated(run, &m, i, run->in[2], 3);

                out[c] += dy;
                out[m.channels + c] += dy * (run->in[0][i] - run->in[2][m.channels + c]) * inverse;
            }
    }
}

static void
oracle_bn_grad(const op_run *run, double *out)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&run->problem->attrs);
    image m = image_of(run);

    for (int64_t i = 0; i < m.samples * m.channels * m.area; i++) {
        int64_t c = i / m.area % m.channels;
        double inverse = inverse_deviation(run->in[2], &m, c, (double)a.epsilon);
        double normalised = (run->in[0][i] - run->in[2][m.channels + c]) * inverse;
        double count = fmax(run->in[2][c], 1);

        out[i] = (gated(run, &m, i, run->in[2], 4) - run->in[3][c] / count -
                  normalised * run->in[3][m.channels + c] / count) *
                 inverse * (a.affine ? run->in[4][c] : 1);
    }
}

static void
oracle_row(const op_run *run, double *out)
{
    const yki_row_attrs a = yki_row_attrs_get(&run->problem->attrs);
    int64_t count = yki_shape_count(run->problem->out.shape);

    for (int64_t i = 0; i < count; i++)
        out[i] = run->in[0][a.row * count + i];
}

/* ---- layer norm ---- */

typedef struct row {
    double mean, inverse; /* of the deviation; with rms the mean is 0 */
} row;

static int64_t
row_width(const op_run *run)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&run->problem->attrs);
    const yoke_shape *shape = &run->problem->in[0].shape;
    int64_t width = 1;

    for (int32_t i = shape->rank - a.axes; i < shape->rank; i++)
        width *= shape->dim[i];
    return width;
}

static int64_t
row_count(const op_run *run)
{
    const yki_operand *x = &run->problem->in[0];

    return (x->batched ? run->n : 1) * (yki_shape_count(x->shape) / row_width(run));
}

static row
row_at(const op_run *run, int64_t r)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&run->problem->attrs);
    int64_t width = row_width(run);
    const double *x = run->in[0] + r * width;
    row v = {0, 0};

    for (int64_t i = 0; i < width && !a.rms; i++)
        v.mean += x[i] / (double)width;
    for (int64_t i = 0; i < width; i++)
        v.inverse += pow(x[i] - v.mean, 2) / (double)width;
    v.inverse = 1 / sqrt(v.inverse + (double)a.epsilon);
    return v;
}

static void
oracle_layer_norm(const op_run *run, double *out)
{
    int64_t width = row_width(run);
    bool affine = run->problem->input_count > 1, shift = run->problem->input_count == 3;

    for (int64_t r = 0; r < row_count(run); r++) {
        row v = row_at(run, r);

        for (int64_t i = 0; i < width; i++)
            out[r * width + i] =
                (run->in[0][r * width + i] - v.mean) * v.inverse * (affine ? run->in[1][i] : 1) +
                (shift ? run->in[2][i] : 0);
    }
}

static void
oracle_layer_norm_grad(const op_run *run, double *out)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&run->problem->attrs);
    int64_t width = row_width(run);
    bool affine = run->problem->input_count == 3;

    for (int64_t r = 0; r < row_count(run); r++) {
        row v = row_at(run, r);
        const double *x = run->in[0] + r * width, *dy = run->in[1] + r * width;
        double sum = 0, dot = 0;

        for (int64_t i = 0; i < width; i++) {
            double g = dy[i] * (affine ? run->in[2][i] : 1);

            sum += a.rms ? 0 : g / (double)width;
            dot += g * (x[i] - v.mean) * v.inverse / (double)width;
        }
        for (int64_t i = 0; i < width; i++)
            out[r * width + i] =
                (dy[i] * (affine ? run->in[2][i] : 1) - sum - (x[i] - v.mean) * v.inverse * dot) *
                v.inverse;
    }
}

static void
oracle_layer_norm_grad_params(const op_run *run, double *out)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&run->problem->attrs);
    int64_t width = row_width(run);
    double *dot = a.rms ? out : out + width;

    for (int64_t i = 0; i < (a.rms ? 1 : 2) * width; i++)
        out[i] = 0;
    for (int64_t r = 0; r < row_count(run); r++) {
        row v = row_at(run, r);

        for (int64_t i = 0; i < width; i++) {
            double dy = run->in[1][r * width + i];

            if (!a.rms)
                out[i] += dy;
            dot[i] += dy * (run->in[0][r * width + i] - v.mean) * v.inverse;
        }
    }
}

const op_row op_rows_norm[] = {
    {&yki_op_bn_stats, oracle_bn_stats, 5e-6, "chains of up to 4096 terms, a tile, then merges", 0},
    {&yki_op_bn_apply, oracle_bn_apply, 2e-6, "a division, a root, two roundings of the difference",
     0},
    {&yki_op_bn_grad_stats, oracle_bn_grad_stats, 5e-6, "the same", 0},
    {&yki_op_bn_grad, oracle_bn_grad, 2e-6, "as bn_apply", 0},
    {&yki_op_bn_running, oracle_bn_running, 5e-7, "two products and a division", 0},
    {&yki_op_bn_known, oracle_bn_known, 1e-7, "exact, but for the rounding of the oracle's input",
     0},
    {&yki_op_row, oracle_row, 1e-7, "exact, but for the rounding of the oracle's input", 0},
    {&yki_op_layer_norm, oracle_layer_norm, 2e-6, "as bn_apply; a mean of up to 5000 in vectors",
     0},
    {&yki_op_layer_norm_grad, oracle_layer_norm_grad, 4e-6, "the same with two such sums", 0},
    {&yki_op_layer_norm_grad_params, oracle_layer_norm_grad_params, 5e-6,
     "a chain over up to 2000 rows", 0},
    {0},
};
