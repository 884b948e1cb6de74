/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - the order of an epoch: a permutation of 0 .. count - 1 as a function
 * of seed, epoch and position, with no table.
 *
 * A Feistel network permutes the numbers of b bits, 2^(b-1) < count <= 2^b: halves
 * of b/2 bits take turns in changing the other by a function of themselves, which
 * can be undone whatever the function is. A number that is not below count is put
 * in again until one comes out that is ("cycle walking"): less than twice on
 * average, and since the walk follows a cycle of the permutation, different
 * positions end at different samples. The function is a Philox word, keyed by the
 * seed; epoch and round are in the counter.
 */
#include "data/dataset.h"

/* Four are indistinguishable from random for long halves; short ones mix less in each. */
enum { ROUNDS = 6 };

static unsigned
bits_for(uint64_t count)
{
    unsigned bits = 2; /* a half has at least one */

    while (bits < 64 && count > (uint64_t)1 << bits)
        bits++;
    return bits;
}

static uint32_t
half_mask(unsigned bits)
{
    return bits >= 32 ? UINT32_MAX : ((uint32_t)1 << bits) - 1;
}

static uint64_t
permute(const yki_order *order, uint64_t x, unsigned bits)
{
    const uint32_t key[2] = {order->seed, 0x6F726472u}; /* "ordr" */
    unsigned low_bits = bits / 2;
    uint32_t low_mask = half_mask(low_bits), high_mask = half_mask(bits - low_bits);
    uint32_t low = (uint32_t)x & low_mask, high = (uint32_t)(x >> low_bits) & high_mask;

    for (uint32_t round = 0; round < ROUNDS; round += 2) {
        uint32_t counter[4] = {high, order->epoch, round, 0}, word[4];

        yki_philox(key, counter, word);
        low ^= word[0] & low_mask;
        counter[0] = low;
        counter[2] = round + 1;
        yki_philox(key, counter, word);
        high ^= word[0] & high_mask;
    }
    return (uint64_t)high << low_bits | low;
}

int64_t
yki_order_at(const yki_order *order, int64_t position)
{
    unsigned bits = bits_for(order->count);
    uint64_t x = (uint64_t)position;

    if (order->sequential || order->count < 2)
        return position;
    do
        x = permute(order, x, bits);
    while (x >= order->count);
    return (int64_t)x;
}
