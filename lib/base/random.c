/* SPDX-License-Identifier: Apache-2.0
 *
 * random.c - Philox 4x32-10, a counter-based generator.
 *
 * Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC'11). A number
 * is a function of key and counter alone. So sample i of step s gets the same
 * numbers on every device and in every order. Kernels have the same function
 * (clkernels/); a test compares the two.
 */
#include "base/base.h"

enum { ROUNDS = 10 };

static const uint32_t M0 = 0xD2511F53u, M1 = 0xCD9E8D57u; /* multipliers */
static const uint32_t W0 = 0x9E3779B9u, W1 = 0xBB67AE85u; /* key increments: Weyl sequence */

void
yki_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)M0 * c0, p1 = (uint64_t)M1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += W0;
        k1 += W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}
