/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_softmax.c - softmax in double, from its definition, and its gradient.
 */
#include <math.h>

#include "oracles.h"

typedef struct column {
    int64_t count, length, inner;
} column;

static column
column_of(const op_run *run)
{
    int32_t axis = yki_softmax_attrs_get(&run->problem->attrs).axis;
    yoke_shape shape = run->problem->out.shape;
    column c = {yki_shape_count(shape), shape.dim[axis], 1};

    if (run->problem->out.batched)
        c.count *= run->n;
    for (int32_t i = axis + 1; i < shape.rank; i++)
        c.inner *= shape.dim[i];
    return c;
}

/* The first element of the column of element i. */
static int64_t
first_of(const column *c, int64_t i)
{
    return i / (c->length * c->inner) * (c->length * c->inner) + i % c->inner;
}

static void
oracle_softmax(const op_run *run, double *out)
{
    column c = column_of(run);

    for (int64_t i = 0; i < c.count; i++) {
        const double *x = run->in[0] + first_of(&c, i);
        double sum = 0, top = x[0];

        for (int64_t j = 0; j < c.length; j++)
            top = fmax(top, x[j * c.inner]);
        for (int64_t j = 0; j < c.length; j++)
            sum += exp(x[j * c.inner] - top);
        out[i] = exp(run->in[0][i] - top) / sum;
    }
}

/* dx_i = sum over j of dy_j dy_j/dx_i, with dy_j/dx_i = y_j (i == j) - y_j y_i. */
static void
oracle_softmax_grad(const op_run *run, double *out)
{
    column c = column_of(run);

    for (int64_t i = 0; i < c.count; i++) {
        int64_t first = first_of(&c, i);
        const double *y = run->in[0] + first, *dy = run->in[1] + first;
        double sum = 0;

        for (int64_t j = 0; j < c.length; j++)
            sum += dy[j * c.inner] * y[j * c.inner] *
                   ((first + j * c.inner == i ? 1 : 0) - run->in[0][i]);
        out[i] = sum;
    }
}

const op_row op_rows_softmax[] = {
    {&yki_op_softmax, oracle_softmax, 2e-6, "exp to 4 ulp, sums of up to 1000 positive terms", 0},
    {&yki_op_softmax_grad, oracle_softmax_grad, 2e-6,
     "a difference of dy and a chain of 1000 terms", 0},
    {0},
};
