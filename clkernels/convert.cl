/* SPDX-License-Identifier: Apache-2.0
 *
 * convert.cl - floats in half their bytes, and back: bfloat16, or with YKI_F16 half.
 *
 * A float becomes the nearest such number, of two as near the even one, and infinite where that is
 * beyond the largest; NaN stays NaN. Integers do it, so that every device has the same bits, also
 * below 2^-14, where halves are the multiples of 2^-24: added to 0.5 such a number is the last bits
 * of a float.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"

#if VEC == 1
#define uintv           uint
#define ushortv         ushort
#define as_uintv        as_uint
#define convert_uintv   convert_uint
#define convert_ushortv convert_ushort
#else
#define uintv           YKI_PASTE(uint, VEC)
#define ushortv         YKI_PASTE(ushort, VEC)
#define as_uintv        YKI_PASTE(as_uint, VEC)
#define convert_uintv   YKI_PASTE(convert_uint, VEC)
#define convert_ushortv YKI_PASTE(convert_ushort, VEC)
#endif

/* Vectors of shorts, as LOADV and STOREV are of floats. */
#if VEC == 1
#define LOAD_SHORTS(i, p)     ((p)[i])
#define STORE_SHORTS(v, i, p) ((p)[i] = (v))
#elif WG == 1
#define LOAD_SHORTS(i, p)     YKI_PASTE(vload, VEC)(i, p)
#define STORE_SHORTS(v, i, p) YKI_PASTE(vstore, VEC)(v, i, p)
#else
#define LOAD_SHORTS(i, p)     (((__global const ushortv *)(p))[i])
#define STORE_SHORTS(v, i, p) (((__global ushortv *)(p))[i] = (v))
#endif

/* narrow_NAME and widen_NAME, of one number and of a vector. */
#ifdef YKI_F16
#define DEFINE(name, floatn, uintn, ushortn, as_floatn, as_uintn, to_ushortn, to_uintn)      \
    ushortn narrow_##name(floatn x)                                                          \
    {                                                                                        \
        uintn bits = as_uintn(x), size = bits & 0x7fffffffu;                                 \
        uintn low = as_uintn(as_floatn(size) + 0.5f) - 0x3f000000u;                          \
        uintn high = (size + 0xfffu + (bits >> 13 & 1u) - 0x38000000u) >> 13;                \
        uintn y = size < 0x38800000u ? low : min(high, (uintn)(0x7c00u));                    \
                                                                                             \
        y = size > 0x7f800000u ? (uintn)(0x7e00u) : y;                                       \
        return to_ushortn(y | (bits >> 16 & 0x8000u));                                       \
    }                                                                                        \
    floatn widen_##name(ushortn x)                                                           \
    {                                                                                        \
        uintn bits = to_uintn(x), size = bits & 0x7fffu;                                     \
        uintn low = as_uintn(as_floatn(size + 0x3f000000u) - 0.5f);                          \
        uintn high = size < 0x7c00u ? (size << 13) + 0x38000000u : size << 13 | 0x7f800000u; \
                                                                                             \
        return as_floatn((size < 0x400u ? low : high) | (bits & 0x8000u) << 16);             \
    }
#else
#define DEFINE(name, floatn, uintn, ushortn, as_floatn, as_uintn, to_ushortn, to_uintn)      \
    ushortn narrow_##name(floatn x)                                                          \
    {                                                                                        \
        uintn bits = as_uintn(x);                                                            \
        uintn up = bits + 0x7fffu + (bits >> 16 & 1u);                                       \
                                                                                             \
        up = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : up;                     \
        return to_ushortn(up >> 16);                                                         \
    }                                                                                        \
    floatn widen_##name(ushortn x)                                                           \
    {                                                                                        \
        return as_floatn(to_uintn(x) << 16);                                                 \
    }
#endif
DEFINE(one, float, uint, ushort, as_float, as_uint, convert_ushort, convert_uint)
DEFINE(all, floatv, uintv, ushortv, as_floatv, as_uintv, convert_ushortv, convert_uintv)

/* Rounds floats, and keeps them in half their bytes as well. `in` and `out` may be one. */
__kernel YKI_GROUP(WG, 1) void
yki_narrow(__global const float *in, __global float *out, __global ushort *kept, int count)
{
    FOR_FLAT(ushortv h = narrow_all(LOADV(i, in)); STORE_SHORTS(h, i, kept);
             STOREV(widen_all(h), i, out), ushort h = narrow_one(in[i]);
             kept[i] = h; out[i] = widen_one(h))
}

__kernel YKI_GROUP(WG, 1) void
yki_widen(__global const ushort *in, __global float *out, int count)
{
    FOR_FLAT(STOREV(widen_all(LOAD_SHORTS(i, in)), i, out), out[i] = widen_one(in[i]))
}
