/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_attention.c - attention in double, row by row from its definition, and its
 * gradient by the chain rule over all pairs. Dropout draws with the library's generator on
 * the host.
 */
#include <math.h>
#include <stdlib.h>

#include "oracles.h"

typedef struct form {
    yki_attention_attrs a;
    int64_t samples, length, columns;
    uint32_t lengths; /* which input has them */
} form;

static form
form_of(const op_run *run, uint32_t lengths)
{
    const yki_operand *x = &run->problem->in[0];

    return (form){yki_attention_attrs_get(&run->problem->attrs), x->batched ? run->n : 1,
                  x->shape.dim[0], x->shape.dim[1], lengths};
}

static int64_t
used(const form *f, const op_run *run, int64_t n)
{
    return f->a.lengths ? (int64_t)run->in[f->lengths][n] : f->length;
}

/* Row t of head h of the queries (part 0), or of the keys (1) or values (2) that this head sees. */
static const double *
row(const form *f, const op_run *run, int64_t n, int64_t t, int64_t h, int part)
{
    int64_t column =
        part == 0 ? h : f->a.heads + (part - 1) * f->a.shared + h / (f->a.heads / f->a.shared);

    return run->in[0] + (n * f->length + t) * f->columns + column * f->a.width;
}

static double
dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The weights of softmax of query t, and the logarithm of their sum before it was divided out. */
static double
weights(const form *f, const op_run *run, int64_t n, int64_t t, int64_t h, double *p)
{
    int64_t end = f->a.causal ? t + 1 : used(f, run, n);
    double top = -INFINITY, sum = 0;

    for (int64_t k = 0; k < f->length; k++) {
        p[k] = k < end ? (double)f->a.scale *
                             dot(row(f, run, n, t, h, 0), row(f, run, n, k, h, 1), f->a.width)
                       : -INFINITY;
        top = fmax(top, p[k]);
    }
    for (int64_t k = 0; k < f->length; k++)
        sum += exp(p[k] - top);
    for (int64_t k = 0; k < f->length; k++)
        p[k] = exp(p[k] - top) / sum;
    return top + log(sum);
}

/* What remains of the weight of key k after dropout. */
static double
kept(const form *f, const op_run *run, int64_t n, int64_t t, int64_t h, int64_t k, double weight)
{
    const yki_dropout_attrs *d = &f->a.dropout;
    const yki_step_values *s = run->step;
    uint64_t sample = s->first_sample[0] | (uint64_t)s->first_sample[1] << 32;
    uint32_t key[2], counter[4], words[4];

    if (!(d->probability > 0))
        return weight;
    sample = run->problem->in[0].batched ? sample + (uint64_t)n : 0;
    key[0] = d->key[0] ^ s->seed[0];
    key[1] = d->key[1] ^ s->seed[1] ^ (uint32_t)h;
    counter[0] = (uint32_t)(t << 16 | k / 4);
    counter[1] = (uint32_t)sample;
    counter[2] = (uint32_t)(sample >> 32);
    counter[3] = s->step;
    yki_philox(key, counter, words);
    return words[k % 4] < d->threshold ? 0 : weight / (1 - (double)d->probability);
}

/* Clears the result, and calls `each` for every query that takes part, with its weights. */
static void
for_queries(const form *f, const op_run *run, double *out,
            void (*each)(const form *f, const op_run *run, int64_t n, int64_t t, int64_t h,
                         const double *p, double lse, double *out))
{
    double *p = calloc((size_t)f->length + 1, sizeof *p);

    for (int64_t i = 0; i < yki_shape_count(run->problem->out.shape) * f->samples; i++)
        out[i] = 0;
    for (int64_t n = 0; n < f->samples; n++)
        for (int64_t h = 0; h < f->a.heads; h++)
            for (int64_t t = 0; t < used(f, run, n); t++) {
                double lse = weights(f, run, n, t, h, p);

                each(f, run, n, t, h, p, lse, out);
            }
    free(p);
}

static void
add_result(const form *f, const op_run *run, int64_t n, int64_t t, int64_t h, const double *p,
           double lse, double *out)
{
    (void)lse;
    for (int64_t k = 0; k < used(f, run, n); k++) {
        double weight = kept(f, run, n, t, h, k, p[k]);

        for (int64_t d = 0; d < f->a.width; d++)
            out[((n * f->length + t) * f->a.heads + h) * f->a.width + d] +=
                weight * row(f, run, n, k, h, 2)[d];
    }
}

static void
oracle_attention(const op_run *run, double *out)
{
    form f = form_of(run, 1);

    for_queries(&f, run, out, add_result);
}

static void
store_lse(const form *f, const op_run *run, int64_t n, int64_t t, int64_t h, const double *p,
          double lse, double *out)
{
    (void)run, (void)p;
    out[(n * f->a.heads + h) * f->length + t] = lse;
}

static void
oracle_lse(const op_run *run, double *out)
{
    form f = form_of(run, 1);

    for_queries(&f, run, out, store_lse);
}

/* y_d = sum over k of m_k p_k v_kd, and dp_k / ds_j = p_k ((k == j) - p_j). */
static void
add_gradient(const form *f, const op_run *run, int64_t n, int64_t t, int64_t h, const double *p,
             double lse, double *out)
{
    const double *x = run->in[0], *q = row(f, run, n, t, h, 0);
    const double *dy = run->in[2] + ((n * f->length + t) * f->a.heads + h) * f->a.width;
    double mean = 0;

    (void)lse;
    for (int64_t k = 0; k < used(f, run, n); k++)
        mean += kept(f, run, n, t, h, k, p[k]) * dot(dy, row(f, run, n, k, h, 2), f->a.width);
    for (int64_t k = 0; k < used(f, run, n); k++) {
        const double *key = row(f, run, n, k, h, 1), *value = row(f, run, n, k, h, 2);
        double mask = kept(f, run, n, t, h, k, 1);
        double ds = (double)f->a.scale * p[k] * (mask * dot(dy, value, f->a.width) - mean);

        for (int64_t d = 0; d < f->a.width; d++) {
            out[q - x + d] += ds * key[d];
            out[key - x + d] += ds * q[d];
            out[value - x + d] += mask * p[k] * dy[d];
        }
    }
}

static void
oracle_grad(const op_run *run, double *out)
{
    form f = form_of(run, 4);

    for_queries(&f, run, out, add_gradient);
}

const op_row op_rows_attention[] = {
    {&yki_op_attention, oracle_attention, 3e-6, "scores of up to 80 terms in an exponent", 0},
    {&yki_op_attention_lse, oracle_lse, 2e-6, "the same, and a logarithm", 0},
    {&yki_op_attention_grad, oracle_grad, 1e-5, "products of two such, sums over 200 queries", 0},
    {0},
};
