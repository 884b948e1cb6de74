/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_conv.c - what a convolution and its gradients mean, in double: one loop
 * over all (output, tap) pairs, which each of the three reads in its own way. It is told
 * of whole rows of outputs, as it is most of what the tests of convolutions take.
 */
#include <string.h>

#include "oracles.h"

typedef struct geometry {
    yki_conv_attrs a;
    int64_t n, c, h, w, o, oh, ow;
} geometry;

static geometry
geometry_of(const op_run *run, const yki_operand *x, const yki_operand *y)
{
    geometry g;

    g.a = yki_conv_attrs_get(&run->problem->attrs);
    g.n = x->batched ? run->n : 1;
    g.c = x->shape.dim[0];
    g.h = x->shape.dim[1];
    g.w = x->shape.dim[2];
    g.o = y->shape.dim[0];
    g.oh = y->shape.dim[1];
    g.ow = y->shape.dim[2];
    return g;
}

/* Elements that meet: `count` of them in a row of y, each one to the right of the last, with one of
 * the weight and with as many in x, each `step` to the right. The first of x, the weight and y. */
typedef struct row {
    int64_t x, weight, y, count, step;
} row;

typedef struct sums {
    const double *a, *b;
    double *out;
} sums;
typedef void (*meet)(sums *s, const row *r);

/* The first position of y, from 0 to `most`, whose x is not before `bound`. */
static int64_t
first_at(int64_t bound, int64_t start, int64_t step, int64_t most)
{
    int64_t i = bound > start ? (bound - start + step - 1) / step : 0;

    return YKI_MIN(i, most);
}

static void
for_each_row(const geometry *g, meet visit, sums *s)
{
    int64_t cg = g->c / g->a.groups, og = g->o / g->a.groups;
    int64_t kh = g->a.kernel[0], kw = g->a.kernel[1], taps = kh * kw;

    for (int64_t i = 0; i < g->n * g->o * cg * taps; i++) {
        int64_t t = i % taps, c = i / taps % cg, o = i / taps / cg % g->o, n = i / taps / cg / g->o;
        int64_t top = t / kw * g->a.dilation[0] - g->a.pad[0];
        int64_t left = t % kw * g->a.dilation[1] - g->a.pad[1];
        int64_t ox = first_at(0, left, g->a.stride[1], g->ow);
        int64_t end = first_at(g->w, left, g->a.stride[1], g->ow);
        int64_t oy = first_at(0, top, g->a.stride[0], g->oh);
        int64_t last = first_at(g->h, top, g->a.stride[0], g->oh);
        row r = {.weight = (o * cg + c) * taps + t, .count = end - ox, .step = g->a.stride[1]};

        for (; ox < end && oy < last; oy++) {
            int64_t iy = oy * g->a.stride[0] + top;

            r.x = ((n * g->c + o / og * cg + c) * g->h + iy) * g->w + ox * r.step + left;
            r.y = ((n * g->o + o) * g->oh + oy) * g->ow + ox;
            visit(s, &r);
        }
    }
}

static void
add_forward(sums *s, const row *r)
{
    const double *x = s->a + r->x, w = s->b[r->weight];
    double *y = s->out + r->y;

    for (int64_t i = 0; i < r->count; i++)
        y[i] += x[i * r->step] * w;
}

static void
add_input(sums *s, const row *r)
{
    const double *y = s->a + r->y, w = s->b[r->weight];
    double *x = s->out + r->x;

    for (int64_t i = 0; i < r->count; i++)
        x[i * r->step] += y[i] * w;
}

static void
add_weight(sums *s, const row *r)
{
    const double *x = s->a + r->x, *y = s->b + r->y;
    double sum = 0;

    for (int64_t i = 0; i < r->count; i++)
        sum += x[i * r->step] * y[i];
    s->out[r->weight] += sum;
}

/* The bias to start from, and the activation to end with. */
static void
start(const op_run *run, double *out)
{
    int64_t channels = run->problem->out.shape.dim[0];
    int64_t area = yki_shape_count(run->problem->out.shape) / channels;
    int64_t n = run->problem->out.batched ? run->n : 1;

    for (int64_t i = 0; i < n * channels * area; i++)
        out[i] = run->problem->input_count > 2 ? run->in[2][i / area % channels] : 0;
}

static void
finish(const op_run *run, double *out)
{
    const yki_conv_attrs a = yki_conv_attrs_get(&run->problem->attrs);

    for (int64_t i = 0; i < yki_operand_count(&run->problem->out, (yki_extents){.batch = run->n});
         i++)
        if (a.act == YKI_CONV_ACT_RELU && out[i] <= 0)
            out[i] = 0;
}

static void
oracle_conv2d(const op_run *run, double *out)
{
    geometry g = geometry_of(run, &run->problem->in[0], &run->problem->out);
    sums s = {run->in[0], run->in[1], out};

    start(run, out);
    for_each_row(&g, add_forward, &s);
    finish(run, out);
}

static void
oracle_conv2d_grad_input(const op_run *run, double *out)
{
    geometry g = geometry_of(run, &run->problem->out, &run->problem->in[0]);
    sums s = {run->in[0], run->in[1], out};

    start(run, out);
    for_each_row(&g, add_input, &s);
    finish(run, out);
}

static void
oracle_conv2d_grad_weight(const op_run *run, double *out)
{
    geometry g = geometry_of(run, &run->problem->in[0], &run->problem->in[1]);
    sums s = {run->in[0], run->in[1], out};

    memset(out, 0, (size_t)yki_shape_count(run->problem->out.shape) * sizeof *out);
    for_each_row(&g, add_weight, &s);
}

static void
oracle_reduce_bias(const op_run *run, double *out)
{
    const yki_operand *dy = &run->problem->in[0];
    int64_t channels = dy->shape.dim[0], area = yki_shape_count(dy->shape) / channels;
    int64_t count = (dy->batched ? run->n : 1) * channels * area;

    memset(out, 0, (size_t)channels * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        out[i / area % channels] += run->in[0][i];
}

/* The last column is of solvers with transforms of F(4x4, 3x3). These enlarge some terms that
 * cancel again: the rms error is 3 times that of a direct chain at 64 to 512 channels. Largest
 * seen, at 256: 4.1e-6 forward, 4.9e-6 by the input; by the weights 1.5e-6 (sums over tiles are
 * shorter than those over pixels). With F(3x3, 5x5) the rms error is 2.5 times that of F(4x4,
 * 3x3) at as many channels; they are 256 at most. Largest seen, simulated at 256: 7.8e-6. */
const op_row op_rows_conv[] = {
    {&yki_op_conv2d, oracle_conv2d, 2e-6,
     "chains of C/groups kh kw up to 5000; largest of many sums", 1e-5},
    {&yki_op_conv2d_grad_input, oracle_conv2d_grad_input, 2e-6, "the same, of O/groups kh kw",
     1e-5},
    {&yki_op_conv2d_grad_weight, oracle_conv2d_grad_weight, 2e-6, "the same, of N OH OW, in parts",
     1e-5},
    {&yki_op_reduce_bias, oracle_reduce_bias, 2e-6, "sums of N OH OW terms in parts", 0},
    {0},
};
