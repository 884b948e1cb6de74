/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_matmul.c - what matrix products mean, in double: one loop for each axis,
 * nothing folded.
 */
#include "oracles.h"

/* Samples, then up to five leading axes, of an operand: strides, 0 where broadcast. */
typedef struct operand {
    int64_t lead[YOKE_MAX_RANK];
    int64_t sample, row, column, rows, columns;
} operand;

static operand
operand_of(const yki_operand *from, bool transpose, const yoke_shape *lead)
{
    operand o = {.rows = 1, .columns = 1};
    int32_t rank = from->shape.rank, own = rank > 2 ? rank - 2 : 0;
    int64_t stride;

    o.columns = from->shape.dim[rank - 1];
    o.rows = rank > 1 ? from->shape.dim[rank - 2] : 1;
    o.row = o.columns;
    o.column = 1;
    stride = o.rows * o.columns;
    if (transpose) {
        int64_t rows = o.rows, row = o.row;

        o.rows = o.columns;
        o.columns = rows;
        o.row = o.column;
        o.column = row;
    }
    for (int32_t i = own; i-- > 0;) {
        if (from->shape.dim[i] > 1)
            o.lead[lead->rank - own + i] = stride;
        stride *= from->shape.dim[i];
    }
    o.sample = from->batched ? stride : 0;
    return o;
}

static yoke_shape
joined_lead(const yki_problem *problem)
{
    yoke_shape lead = {0}, a = problem->in[0].shape, b = problem->in[1].shape;

    lead.rank = YKI_MAX(YKI_MAX(a.rank, b.rank) - 2, 0);
    for (int32_t i = 0; i < lead.rank; i++) {
        int32_t ia = i - (lead.rank - (a.rank - 2)), ib = i - (lead.rank - (b.rank - 2));

        lead.dim[i] = 1;
        if (ia >= 0 && a.rank > 2 && a.dim[ia] > 1)
            lead.dim[i] = a.dim[ia];
        if (ib >= 0 && b.rank > 2 && b.dim[ib] > 1)
            lead.dim[i] = b.dim[ib];
    }
    return lead;
}

/* Adds the product of one pair of matrices to `out`. */
static void
add_product(const double *a, const operand *oa, const double *b, const operand *ob, double *out)
{
    for (int64_t i = 0; i < oa->rows; i++)
        for (int64_t j = 0; j < ob->columns; j++)
            for (int64_t k = 0; k < oa->columns; k++)
                out[i * ob->columns + j] +=
                    a[i * oa->row + k * oa->column] * b[k * ob->row + j * ob->column];
}

static void
oracle_matmul(const op_run *run, double *out)
{
    const yki_problem *problem = run->problem;
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&problem->attrs);
    yoke_shape lead = joined_lead(problem);
    operand a = operand_of(&problem->in[0], attrs.transpose_a, &lead);
    operand b = operand_of(&problem->in[1], attrs.transpose_b, &lead);
    bool batched = problem->in[0].batched || problem->in[1].batched;
    int64_t samples = batched ? run->n : 1, leads = yki_shape_count(lead);
    int64_t count = yki_operand_count(&problem->out, (yki_extents){.batch = run->n}),
            matrix = a.rows * b.columns;

    for (int64_t i = 0; i < count; i++)
        out[i] = 0;
    for (int64_t s = 0; s < samples; s++)
        for (int64_t l = 0; l < leads; l++) {
            int64_t left = l, at_a = s * a.sample, at_b = s * b.sample, at = 0, stride = 1;

            for (int32_t i = lead.rank; i-- > 0;) {
                int64_t index = left % lead.dim[i];
                bool summed = i < attrs.drop_axes || (attrs.sum_axes >> (lead.rank - 1 - i) & 1);

                left /= lead.dim[i];
                at_a += index * a.lead[i];
                at_b += index * b.lead[i];
                if (summed)
                    continue;
                at += index * stride;
                stride *= lead.dim[i];
            }
            if (!attrs.sum_batch)
                at += s * stride;
            add_product(run->in[0] + at_a, &a, run->in[1] + at_b, &b, out + at * matrix);
        }
    for (int64_t i = 0; i < count; i++) {
        if (attrs.bias)
            out[i] += run->in[2][i % b.columns];
        if (attrs.act == YKI_MATMUL_RELU && out[i] <= 0)
            out[i] = 0;
    }
}

static void
oracle_sum_rows(const op_run *run, double *out)
{
    int64_t columns = run->problem->out.shape.dim[0];
    int64_t count = yki_operand_count(&run->problem->in[0], (yki_extents){.batch = run->n});

    for (int64_t i = 0; i < columns; i++)
        out[i] = 0;
    for (int64_t i = 0; i < count; i++)
        out[i % columns] += run->in[0][i];
}

const op_row op_rows_matmul[] = {
    {&yki_op_matmul, oracle_matmul, 5e-6, "a chain of up to 2000 terms", 0},
    {&yki_op_sum_rows, oracle_sum_rows, 5e-6, "a chain of up to 2000 terms", 0},
    {0},
};
