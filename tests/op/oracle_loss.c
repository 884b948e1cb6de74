/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_loss.c - losses and metrics in double, from their definitions.
 */
#include <math.h>

#include "oracles.h"

typedef struct shape {
    int64_t classes, positions, count;
} shape;

static shape
shape_of(const op_run *run)
{
    const yoke_shape *s = &run->problem->in[0].shape;
    shape out = {.count = yki_shape_count(*s)};

    out.classes = s->rank ? s->dim[0] : 1;
    out.positions = out.count / out.classes;
    return out;
}

/* Probability of class c at a position, by softmax. */
static double
softmax(const double *column, const shape *s, int64_t c)
{
    double m = column[0], sum = 0;

    for (int64_t i = 0; i < s->classes; i++)
        m = fmax(m, column[i * s->positions]);
    for (int64_t i = 0; i < s->classes; i++)
        sum += exp(column[i * s->positions] - m);
    return exp(column[c * s->positions] - m) / sum;
}

static double
wanted(const yki_loss_attrs *a, const shape *s, int64_t c, int64_t label)
{
    double smoothing = (double)a->label_smoothing;

    return (c == label ? 1 - smoothing : 0) + smoothing / (double)s->classes;
}

static bool
ignored(const yki_loss_attrs *a, int64_t label)
{
    return a->has_ignore_index && label == a->ignore_index;
}

static double
element_loss(const yki_loss_attrs *a, double x, double t)
{
    double d = fabs(x - t), delta = (double)a->delta;

    switch ((yki_loss_kind)a->kind) {
    case YKI_LOSS_BCE: {
        double p = 1 / (1 + exp(-x));

        return -(t * log(p) + (1 - t) * log(1 - p));
    }
    case YKI_LOSS_MSE:
        return d * d;
    case YKI_LOSS_HUBER:
        return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
    default:
        return d;
    }
}

static double
element_grad(const yki_loss_attrs *a, double x, double t)
{
    double d = x - t, delta = (double)a->delta;

    switch ((yki_loss_kind)a->kind) {
    case YKI_LOSS_BCE:
        return 1 / (1 + exp(-x)) - t;
    case YKI_LOSS_MSE:
        return 2 * d;
    case YKI_LOSS_HUBER:
        return fmax(-delta, fmin(delta, d));
    default:
        return d > 0 ? 1 : d < 0 ? -1 : 0;
    }
}

static bool
uses_labels(const yki_loss_attrs *a)
{
    return a->kind == YKI_LOSS_SOFTMAX_CE || a->kind == YKI_LOSS_CE ||
           a->kind == YKI_METRIC_ACCURACY || a->kind == YKI_METRIC_TOP_K;
}

static double
label_loss(const yki_loss_attrs *a, const shape *s, const double *column, int64_t label)
{
    double loss = 0;
    int64_t before = 0;

    if (a->kind == YKI_METRIC_ACCURACY || a->kind == YKI_METRIC_TOP_K) {
        for (int64_t c = 0; c < s->classes; c++)
            before += column[c * s->positions] > column[label * s->positions] ||
                      (c < label && column[c * s->positions] == column[label * s->positions]);
        return before < a->k ? 1 : 0;
    }
    for (int64_t c = 0; c < s->classes; c++) {
        double p = a->kind == YKI_LOSS_CE ? column[c * s->positions] : softmax(column, s, c);

        loss -= wanted(a, s, c, label) * log(p);
    }
    return loss;
}

static void
oracle_loss(const op_run *run, double *out)
{
    const yki_loss_attrs a = yki_loss_attrs_get(&run->problem->attrs);
    shape s = shape_of(run);

    for (int64_t n = 0; n < run->n; n++) {
        double sum = 0, count = 0;

        for (int64_t p = 0; uses_labels(&a) && p < s.positions; p++) {
            int64_t label = (int64_t)run->in[1][n * s.positions + p];

            if (ignored(&a, label))
                continue;
            sum += label_loss(&a, &s, run->in[0] + n * s.count + p, label);
            count++;
        }
        for (int64_t i = 0; !uses_labels(&a) && i < s.count; i++) {
            sum += element_loss(&a, run->in[0][n * s.count + i], run->in[1][n * s.count + i]);
            count++;
        }
        out[2 * n] = sum;
        out[2 * n + 1] = count;
    }
}

static void
oracle_loss_grad(const op_run *run, double *out)
{
    const yki_loss_attrs a = yki_loss_attrs_get(&run->problem->attrs);
    shape s = shape_of(run);

    for (int64_t n = 0; n < run->n; n++)
        for (int64_t i = 0; i < s.count; i++) {
            const double *x = run->in[0] + n * s.count;
            int64_t c = i / s.positions, p = i % s.positions, label;
            double *o = &out[n * s.count + i];

            if (!uses_labels(&a)) {
                *o = element_grad(&a, x[i], run->in[1][n * s.count + i]);
                continue;
            }
            label = (int64_t)run->in[1][n * s.positions + p];
            if (ignored(&a, label))
                *o = 0;
            else if (a.kind == YKI_LOSS_CE)
                *o = -wanted(&a, &s, c, label) / x[i];
            else
                *o = softmax(x + p, &s, c) - wanted(&a, &s, c, label);
        }
}

const op_row op_rows_loss[] = {
    {&yki_op_loss, oracle_loss, 4e-6, "exp and log to 4 ulp, sums of up to 1000 terms", 0},
    {&yki_op_loss_grad, oracle_loss_grad, 2e-6, "a quotient of such sums", 0},
    {0},
};
