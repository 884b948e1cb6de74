/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - the order of an epoch: a permutation of 0 .. count - 1 as a function of seed, epoch and
 * position, without a table.
 *
 * A Feistel network permutes the numbers of b bits, where 2^b is at least count. The two halves of
 * the bits alternate: each changes the other by a function of itself, which can be undone whatever
 * the function is. A result that is not below count is permuted again until one is ("cycle
 * walking"), at most twice on average. This walk follows a cycle of the permutation, so different
 * positions end at different samples. The function is a Philox word, keyed by the seed; epoch and
 * round are in the counter.
 */
#include "data/dataset.h"

/* Four rounds look random for long halves. Short halves mix less in each round. */
enum { ROUNDS = 6 };

static unsigned
bits_for(uint64_t count)
{
    unsigned bits = 2; /* so that each half has one */

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
