/* SPDX-License-Identifier: Apache-2.0
 *
 * checksum.c - XXH64 (seed 0), a 64-bit checksum for the contents of files.
 *
 * It has four accumulators, which multiply and rotate words of stripes of 32 bytes,
 * and then mixes all bits; see the specification by Y. Collet. Bytes are read as
 * little-endian words on every host, so a file has the same checksum everywhere. It
 * detects accidents; it is no signature.
 */
#include <string.h>

#include "base/base.h"

enum { STRIPE = 32 };

static const uint64_t P1 = 0x9e3779b185ebca87u, P2 = 0xc2b2ae3d27d4eb4fu;
static const uint64_t P3 = 0x165667b19e3779f9u, P4 = 0x85ebca77c2b2ae63u;
static const uint64_t P5 = 0x27d4eb2f165667c5u;

static uint64_t
rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t
mix(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * P2, 31) * P1;
}

void
yki_checksum_start(yki_checksum *sum)
{
    memset(sum, 0, sizeof *sum);
    sum->lane[0] = P1 + P2;
    sum->lane[1] = P2;
    sum->lane[3] = 0 - P1;
}

static void
add_stripe(yki_checksum *sum, const unsigned char *bytes)
{
    for (int i = 0; i < 4; i++)
        sum->lane[i] = mix(sum->lane[i], yki_little_endian(bytes + 8 * i, 8));
}

void
yki_checksum_add(yki_checksum *sum, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    size_t kept = sum->length % STRIPE;

    sum->length += size;
    if (kept) {
        size_t taken = YKI_MIN(size, STRIPE - kept);

        memcpy(sum->rest + kept, bytes, taken);
        bytes += taken;
        size -= taken;
        if (kept + taken < STRIPE)
            return;
        add_stripe(sum, sum->rest);
    }
    for (; size >= STRIPE; bytes += STRIPE, size -= STRIPE)
        add_stripe(sum, bytes);
    if (size)
        memcpy(sum->rest, bytes, size);
}

uint64_t
yki_checksum_end(const yki_checksum *sum)
{
    static const int turns[4] = {1, 7, 12, 18};
    const unsigned char *at = sum->rest;
    size_t left = sum->length % STRIPE;
    uint64_t h = P5;

    if (sum->length >= STRIPE) {
        h = 0;
        for (int i = 0; i < 4; i++)
            h += rotate(sum->lane[i], turns[i]);
        for (int i = 0; i < 4; i++)
            h = (h ^ mix(0, sum->lane[i])) * P1 + P4;
    }
    h += sum->length;
    for (; left >= 8; at += 8, left -= 8)
        h = rotate(h ^ mix(0, yki_little_endian(at, 8)), 27) * P1 + P4;
    if (left >= 4) {
        h = rotate(h ^ yki_little_endian(at, 4) * P1, 23) * P2 + P3;
        at += 4;
        left -= 4;
    }
    for (; left; at++, left--)
        h = rotate(h ^ *at * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

uint64_t
yki_checksum_of(const void *data, size_t size)
{
    yki_checksum sum;

    yki_checksum_start(&sum);
    yki_checksum_add(&sum, data, size);
    return yki_checksum_end(&sum);
}
