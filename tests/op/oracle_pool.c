/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_pool.c - what pooling and its gradients mean, in double: one walk over the
 * windows, in which forward reads and the gradient adds.
 */
#include <math.h>

#include "oracles.h"

typedef struct window {
    int64_t y0, y1, x0, x1; /* inside the input */
    double count;           /* what a mean divides by */
} window;

static int64_t
clip(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static window
window_at(const yki_pool_attrs *a, int64_t oy, int64_t ox, int64_t h, int64_t w)
{
    int64_t y0 = oy * a->stride[0] - a->pad[0], x0 = ox * a->stride[1] - a->pad[1];
    int64_t y1 = y0 + a->kernel[0], x1 = x0 + a->kernel[1];
    window v = {clip(y0, 0, h), clip(y1, 0, h), clip(x0, 0, w), clip(x1, 0, w), 0};

    if (a->exclude_pad)
        v.count = (double)((v.y1 - v.y0) * (v.x1 - v.x0));
    else
        v.count = (double)((clip(y1, y1, h + a->pad[0]) - y0) * (clip(x1, x1, w + a->pad[1]) - x0));
    return v;
}

/* x or NULL, dy or NULL; y or dx is written. */
static void
walk(const op_run *run, const yki_operand *xo, const yki_operand *yo, bool is_max, const double *x,
     const double *dy, double *y, double *dx)
{
    const yki_pool_attrs a = yki_pool_attrs_get(&run->problem->attrs);
    int64_t planes = (xo->batched ? run->n : 1) * xo->shape.dim[0];
    int64_t h = xo->shape.dim[1], w = xo->shape.dim[2], oh = yo->shape.dim[1],
            ow = yo->shape.dim[2];

    for (int64_t i = 0; dx && i < planes * h * w; i++)
        dx[i] = 0;
    for (int64_t o = 0; o < planes * oh * ow; o++) {
        window v = window_at(&a, o / ow % oh, o % ow, h, w);
        int64_t plane = o / ow / oh * h * w, at = -1;
        double sum = 0;

        for (int64_t r = v.y0; r < v.y1; r++)
            for (int64_t s = v.x0; s < v.x1; s++) {
                int64_t i = plane + r * w + s;

                if (is_max && (at < 0 || x[i] > x[at]))
                    at = i;
                if (!is_max && y)
                    sum += x[i];
                if (!is_max && dx)
                    dx[i] += dy[o] / v.count;
            }
        if (y)
            y[o] = is_max ? x[at] : sum / v.count;
        else if (is_max)
            dx[at] += dy[o];
    }
}

static void
oracle_pool(const op_run *run, double *out)
{
    walk(run, &run->problem->in[0], &run->problem->out, run->problem->op == &yki_op_maxpool2d,
         run->in[0], NULL, out, NULL);
}

static void
oracle_pool_grad(const op_run *run, double *out)
{
    bool is_max = run->problem->op == &yki_op_maxpool2d_grad;
    uint32_t dy = run->problem->input_count - 1;

    walk(run, &run->problem->out, &run->problem->in[dy], is_max, run->in[0], run->in[dy], NULL,
         out);
    for (int64_t i = 0; !is_max && dy == 1 &&
                        i < yki_operand_count(&run->problem->out, (yki_extents){.batch = run->n});
         i++)
        if (run->in[0][i] <= 0)
            out[i] = 0;
}

static void
oracle_global_avgpool(const op_run *run, double *out)
{
    const yki_operand *x = &run->problem->in[0];
    int64_t area = x->shape.dim[1] * x->shape.dim[2];

    for (int64_t i = 0; i < (x->batched ? run->n : 1) * x->shape.dim[0]; i++) {
        out[i] = 0;
        for (int64_t k = 0; k < area; k++)
            out[i] += run->in[0][i * area + k] / (double)area;
    }
}

static void
oracle_global_avgpool_grad(const op_run *run, double *out)
{
    const yki_operand *dx = &run->problem->out;
    int64_t area = dx->shape.dim[1] * dx->shape.dim[2];
    int64_t count = (dx->batched ? run->n : 1) * dx->shape.dim[0] * area;

    for (int64_t i = 0; i < count; i++)
        out[i] = run->in[0][i / area] / (double)area;
}

const op_row op_rows_pool[] = {
    {&yki_op_maxpool2d, oracle_pool, 1e-7, "exact, but for the rounding of the oracle's input", 0},
    {&yki_op_avgpool2d, oracle_pool, 1e-6, "sums over a window, up to 100, and two roundings", 0},
    {&yki_op_maxpool2d_grad, oracle_pool_grad, 1e-6,
     "sums over the windows of an element, up to 100", 0},
    {&yki_op_avgpool2d_grad, oracle_pool_grad, 1e-6, "the same over the windows of an element", 0},
    {&yki_op_global_avgpool, oracle_global_avgpool, 2e-6, "a mean over up to 3000, in vectors", 0},
    {&yki_op_global_avgpool_grad, oracle_global_avgpool_grad, 4e-7,
     "a quotient to 2.5 ulp and a product", 0},
    {0},
};
