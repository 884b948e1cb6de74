/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_loss.c - losses and metrics in double, from their definitions.
 */
#include <math.h>
#include <stdlib.h>

#include "oracles.h"

typedef struct shape {
    int64_t classes, positions, count;
    int64_t step, next; /* from a class to the next one, and from a position to the next */
} shape;

static shape
shape_of(const op_run *run)
{
    const yoke_shape *s = &run->problem->in[0].shape;
    shape out = {.count = yki_shape_count(*s)};

    bool rows = yki_loss_attrs_get(&run->problem->attrs).rows;

    out.classes = s->rank ? s->dim[rows ? s->rank - 1 : 0] : 1;
    out.positions = out.count / out.classes;
    out.step = rows ? 1 : out.positions;
    out.next = rows ? out.classes : 1;
    return out;
}

/* What the softmax of a column divides by: once for all its classes. */
typedef struct divisor {
    double most, sum;
} divisor;

static divisor
divisor_of(const double *column, const shape *s)
{
    divisor d = {column[0], 0};

    for (int64_t i = 0; i < s->classes; i++)
        d.most = fmax(d.most, column[i * s->step]);
    for (int64_t i = 0; i < s->classes; i++)
        d.sum += exp(column[i * s->step] - d.most);
    return d;
}

/* Probability of class c at a position, by softmax. */
static double
softmax(const double *column, const shape *s, divisor d, int64_t c)
{
    return exp(column[c * s->step] - d.most) / d.sum;
}

static double
wanted(const yki_loss_attrs *a, const shape *s, int64_t c, int64_t label)
{
    double smoothing = (double)a->label_smoothing;

    return (c == label ? 1 - smoothing : 0) + smoothing / (double)s->classes;
}

/* Of a class; 1 where there are no such weights. */
static double
class_weight(const op_run *run, int64_t c)
{
    return yki_loss_attrs_get(&run->problem->attrs).class_weights ? run->in[2][c] : 1;
}

/* Of the value of a sample's target that stands at `at` of `count`. */
static double
own_weight(const op_run *run, int64_t n, int64_t at, int64_t count)
{
    const uint32_t last = run->problem->input_count - 1;

    if (!yki_loss_attrs_get(&run->problem->attrs).weights)
        return 1;
    return run->in[last][run->problem->in[last].shape.rank ? n * count + at : n];
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
label_loss(const op_run *run, const shape *s, const double *column, int64_t label)
{
    const yki_loss_attrs attrs = yki_loss_attrs_get(&run->problem->attrs), *a = &attrs;

    double loss = 0;
    int64_t before = 0;
    divisor d;

    if (a->kind == YKI_METRIC_ACCURACY || a->kind == YKI_METRIC_TOP_K) {
        for (int64_t c = 0; c < s->classes; c++)
            before += column[c * s->step] > column[label * s->step] ||
                      (c < label && column[c * s->step] == column[label * s->step]);
        return before < a->k ? 1 : 0;
    }
    d = divisor_of(column, s);
    for (int64_t c = 0; c < s->classes; c++) {
        double p = a->kind == YKI_LOSS_CE ? column[c * s->step] : softmax(column, s, d, c);

        loss -= class_weight(run, c) * wanted(a, s, c, label) * log(p);
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
            double weight = own_weight(run, n, p, s.positions);

            if (ignored(&a, label))
                continue;
            sum += weight * label_loss(run, &s, run->in[0] + n * s.count + p * s.next, label);
            count += weight * class_weight(run, label);
        }
        for (int64_t i = 0; !uses_labels(&a) && i < s.count; i++) {
            double weight = own_weight(run, n, i, s.count);

            sum +=
                weight * element_loss(&a, run->in[0][n * s.count + i], run->in[1][n * s.count + i]);
            count += weight;
        }
        out[2 * n] = sum;
        out[2 * n + 1] = count;
    }
}

/* All that a label wants of the classes, weighted; 1 without weights. */
static double
mass(const op_run *run, const yki_loss_attrs *a, const shape *s, int64_t label)
{
    double sum = 0;

    for (int64_t c = 0; c < s->classes; c++)
        sum += class_weight(run, c) * wanted(a, s, c, label);
    return sum;
}

/* Of the classes at position p of sample n. */
static void
label_grad(const op_run *run, const shape *s, int64_t n, int64_t p, double *out)
{
    const yki_loss_attrs a = yki_loss_attrs_get(&run->problem->attrs);
    const double *column = run->in[0] + n * s->count + p * s->next;
    int64_t label = (int64_t)run->in[1][n * s->positions + p];
    double own = own_weight(run, n, p, s->positions), all = mass(run, &a, s, label);
    divisor d = divisor_of(column, s);

    out += n * s->count + p * s->next;
    for (int64_t c = 0; c < s->classes; c++) {
        double share = class_weight(run, c) * wanted(&a, s, c, label);

        out[c * s->step] = ignored(&a, label)      ? 0
                           : a.kind == YKI_LOSS_CE ? -share / column[c * s->step] * own
                                                   : (all * softmax(column, s, d, c) - share) * own;
    }
}

static void
oracle_loss_grad(const op_run *run, double *out)
{
    const yki_loss_attrs a = yki_loss_attrs_get(&run->problem->attrs);
    shape s = shape_of(run);

    for (int64_t n = 0; n < run->n; n++) {
        const double *x = run->in[0] + n * s.count, *t = run->in[1] + n * s.count;

        for (int64_t p = 0; uses_labels(&a) && p < s.positions; p++)
            label_grad(run, &s, n, p, out);
        for (int64_t i = 0; !uses_labels(&a) && i < s.count; i++)
            out[n * s.count + i] = own_weight(run, n, i, s.count) * element_grad(&a, x[i], t[i]);
    }
}

/* ---- a dense layer with its cross-entropy ---- */

/* The logits of row r, and the logarithm of the sum of their exponentials. */
static double
logits_of(const op_run *run, int64_t r, double *logits)
{
    const yoke_shape *w = &run->problem->in[1].shape;
    double m = -INFINITY, sum = 0;

    for (int64_t c = 0; c < w->dim[0]; c++) {
        logits[c] = 0;
        for (int64_t i = 0; i < w->dim[1]; i++)
            logits[c] += run->in[0][r * w->dim[1] + i] * run->in[1][c * w->dim[1] + i];
        m = fmax(m, logits[c]);
    }
    for (int64_t c = 0; c < w->dim[0]; c++)
        sum += exp(logits[c] - m);
    return m + log(sum);
}

static void
oracle_linear_loss(const op_run *run, double *out)
{
    const yki_linear_loss_attrs a = yki_linear_loss_attrs_get(&run->problem->attrs);
    int64_t rows = yki_shape_count(run->problem->in[2].shape);
    double *logits = calloc((size_t)run->problem->in[1].shape.dim[0], sizeof *logits);

    for (int64_t n = 0; n < run->n; n++) {
        out[2 * n] = out[2 * n + 1] = 0;
        for (int64_t r = n * rows; r < (n + 1) * rows; r++) {
            int64_t label = (int64_t)run->in[2][r];
            double log_sum = logits_of(run, r, logits);

            if (a.has_ignore_index && label == a.ignore_index)
                continue;
            out[2 * n] += log_sum - logits[label];
            out[2 * n + 1] += 1;
        }
    }
    free(logits);
}

static void
oracle_linear_loss_grad(const op_run *run, double *out)
{
    const yki_linear_loss_attrs a = yki_linear_loss_attrs_get(&run->problem->attrs);
    const yoke_shape *w = &run->problem->in[1].shape;
    int64_t rows = run->n * yki_shape_count(run->problem->in[2].shape), width = w->dim[1];
    double *logits = calloc((size_t)w->dim[0], sizeof *logits);

    for (int64_t i = 0; i < (a.dw ? w->dim[0] : rows) * width; i++)
        out[i] = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t label = (int64_t)run->in[2][r];
        double log_sum = logits_of(run, r, logits);

        if (a.has_ignore_index && label == a.ignore_index)
            continue;
        for (int64_t c = 0; c < w->dim[0]; c++) {
            double slope = exp(logits[c] - log_sum) - (c == label);

            for (int64_t i = 0; i < width; i++)
                if (a.dw)
                    out[c * width + i] += slope * run->in[0][r * width + i];
                else
                    out[r * width + i] += slope * run->in[1][c * width + i];
        }
    }
    free(logits);
}

const op_row op_rows_loss[] = {
    {&yki_op_linear_loss, oracle_linear_loss, 4e-6, "as loss", 0},
    {&yki_op_linear_loss_grad, oracle_linear_loss_grad, 5e-6,
     "a product of such quotients, sums over up to 700 rows", 0},
    {&yki_op_loss, oracle_loss, 4e-6, "exp and log to 4 ulp, sums of up to 1000 terms", 0},
    {&yki_op_loss_grad, oracle_loss_grad, 2e-6, "a quotient of such sums", 0},
    {0},
};
