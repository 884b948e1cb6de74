/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_drop.cl - which weights of attention a training step keeps (dropout), on the
 * vectors of vectors.cl, which stands before it. Without DROP it is nothing: kernels that
 * drop nothing are the same as if it were not there.
 *
 * Of head h, the weight of a query and a key has word key % 4 of the counter query << 16 |
 * key / 4. As in dropout.cl the other words of the counter are the sample's global index
 * and the step, and the key is the seed and the layer's key, here with h. So the mask does
 * not depend on blocks, lanes, lengths or the split of a batch. Queries are below 65536.
 */
#ifdef DROP
#ifndef floatv /* compiled alone */
#define VEC    4
#define floatv float4
#endif
#define UINTV  YKI_PASTE(uint, VEC)
#define ULONGV YKI_PASTE(ulong, VEC)

typedef struct yki_drop {
    uint key0, key1, sample0, sample1, step, threshold;
    float kept; /* what weights that stay are multiplied by */
} yki_drop;

/* values: struct yki_step_values. batched 0: one tensor for all samples. */
yki_drop yki_drop_of(__global const uint *values, int batched, uint key0, uint key1, uint threshold,
                     float kept, int n, int head)
{
    ulong sample = batched ? (values[3] | (ulong)values[4] << 32) + n : 0;
    yki_drop drop;

    drop.key0 = key0 ^ values[1];
    drop.key1 = key1 ^ values[2] ^ (uint)head;
    drop.sample0 = (uint)sample;
    drop.sample1 = (uint)(sample >> 32);
    drop.step = values[0];
    drop.threshold = threshold;
    drop.kept = kept;
    return drop;
}

/* Factors of the weights of four keys, the first a multiple of 4; lanes are queries. */
void yki_drop_keys(floatv factors[4], const yki_drop *drop, UINTV query, int key)
{
    UINTV c0 = query << 16 | (UINTV)((uint)key >> 2), c1 = (UINTV)(drop->sample0);
    UINTV c2 = (UINTV)(drop->sample1), c3 = (UINTV)(drop->step);

    YKI_PHILOX(UINTV, ULONGV, c0, c1, c2, c3, drop->key0, drop->key1);
    factors[0] = select((floatv)(drop->kept), (floatv)(0.f), c0 < drop->threshold);
    factors[1] = select((floatv)(drop->kept), (floatv)(0.f), c1 < drop->threshold);
    factors[2] = select((floatv)(drop->kept), (floatv)(0.f), c2 < drop->threshold);
    factors[3] = select((floatv)(drop->kept), (floatv)(0.f), c3 < drop->threshold);
}

/* The same of one query; lanes are keys. */
float4 yki_drop_row(const yki_drop *drop, int query, int key)
{
    uint c0 = (uint)query << 16 | (uint)key >> 2, c1 = drop->sample0, c2 = drop->sample1;
    uint c3 = drop->step;

    YKI_PHILOX(uint, ulong, c0, c1, c2, c3, drop->key0, drop->key1);
    return select((float4)(drop->kept), (float4)(0.f), (uint4)(c0, c1, c2, c3) < drop->threshold);
}

/* The arguments of a kernel, and what it does with them; of its functions. */
#define DROP_ARGS                                                                             \
    , __global const uint *step_values, int batched, uint key0, uint key1, uint threshold,    \
        float kept
#define DROP_START(n, head)                                                                   \
    const yki_drop drop =                                                                     \
        yki_drop_of(step_values, batched, key0, key1, threshold, kept, n, head);
#define DROP_TAKE     , const yki_drop *drop
#define DROP_GIVE     , &drop
#define IF_DROP(code) code
#else
#define DROP_ARGS
#define DROP_START(n, head)
#define DROP_TAKE
#define DROP_GIVE
#define IF_DROP(code)
#endif
