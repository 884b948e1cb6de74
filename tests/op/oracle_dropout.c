/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_dropout.c - dropout with the library's generator on the host: a device that
 * draws other words drops other elements.
 */
#include "oracles.h"

static void
oracle_dropout(const op_run *run, double *out)
{
    const yki_dropout_attrs a = yki_dropout_attrs_get(&run->problem->attrs);
    const uint32_t key[2] = {a.key[0] ^ run->step->seed[0], a.key[1] ^ run->step->seed[1]};
    int64_t count = yki_shape_count(run->problem->out.shape);
    bool batched = run->problem->out.batched;
    uint64_t first = run->step->first_sample[0] | (uint64_t)run->step->first_sample[1] << 32;

    for (int64_t n = 0; n < (batched ? run->n : 1); n++)
        for (int64_t i = 0; i < count; i++) {
            uint64_t sample = batched ? first + (uint64_t)n : 0;
            uint32_t words[4], counter[4] = {(uint32_t)(i / 64 * 16 + i % 16), (uint32_t)sample,
                                             (uint32_t)(sample >> 32), run->step->step};

            yki_philox(key, counter, words);
            out[n * count + i] = words[i / 16 % 4] >= a.threshold
                                     ? run->in[0][n * count + i] * (1 / (1 - (double)a.probability))
                                     : 0;
        }
}

const op_row op_rows_dropout[] = {
    {&yki_op_dropout, oracle_dropout, 2e-7, "a product with a rounded factor", 0},
    {0},
};
