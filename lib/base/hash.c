/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c - a 128-bit hash for keys of the cache and to detect changes.
 *
 * It runs two FNV-1a hashes of 64 bits over the same bytes, with different starts,
 * and mixes all bits at the end. It protects against accidents, not against
 * attackers: the folder of the cache is private. Its data is short (the source of
 * a kernel), so speed does not matter; checkpoints use checksum.c, which is faster.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static const uint64_t PRIME = 0x100000001b3u;

void
yki_hash_start(yki_hash *hash)
{
    hash->h[0] = 0xcbf29ce484222325u;
    hash->h[1] = 0x6c62272e07bb0142u;
    hash->length = 0;
}

void
yki_hash_add(yki_hash *hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t a = hash->h[0], b = hash->h[1];

    for (size_t i = 0; i < size; i++) {
        a = (a ^ bytes[i]) * PRIME;
        b = (b ^ bytes[i]) * PRIME;
        b ^= b >> 29; /* makes the second hash differ in more than its start */
    }
    hash->h[0] = a;
    hash->h[1] = b;
    hash->length += size;
}

void
yki_hash_string(yki_hash *hash, const char *string)
{
    yki_hash_add(hash, string, strlen(string) + 1);
}

/* The finaliser of MurmurHash3: every input bit reaches every output bit. */
static uint64_t
avalanche(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

void
yki_hash_hex(const yki_hash *hash, char hex[33])
{
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)avalanche(hash->h[0] ^ hash->length),
             (unsigned long long)avalanche(hash->h[1] + hash->length));
}
