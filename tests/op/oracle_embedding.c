/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_embedding.c - rows picked, and added up by where they were picked.
 */
#include "oracles.h"

static void
oracle_embedding(const op_run *run, double *out)
{
    int64_t width = run->problem->in[1].shape.dim[1];
    int64_t places = yki_operand_count(&run->problem->in[0], (yki_extents){.batch = run->n});

    for (int64_t i = 0; i < places; i++)
        for (int64_t w = 0; w < width; w++)
            out[i * width + w] = run->in[1][(int64_t)run->in[0][i] * width + w];
}

static void
oracle_embedding_grad(const op_run *run, double *out)
{
    int64_t width = run->problem->out.shape.dim[1];
    int64_t places = yki_operand_count(&run->problem->in[0], (yki_extents){.batch = run->n});

    for (int64_t i = 0; i < yki_shape_count(run->problem->out.shape); i++)
        out[i] = 0;
    for (int64_t i = 0; i < places; i++)
        for (int64_t w = 0; w < width; w++)
            out[(int64_t)run->in[0][i] * width + w] += run->in[1][i * width + w];
}

const op_row op_rows_embedding[] = {
    {&yki_op_embedding, oracle_embedding, 1e-7, "exact, but for the rounding of the oracle's input",
     0},
    {&yki_op_embedding_grad, oracle_embedding_grad, 2e-6, "a chain of up to 300 sums", 0},
    {0},
};
