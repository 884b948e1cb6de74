/* SPDX-License-Identifier: Apache-2.0
 *
 * dot.cl - dot units: how the core of a product multiplies and adds.
 *
 * A kernel file includes it, and writes its inner loop in *parts*: a part has DOT_TERMS terms
 * of the sum that follow one another. -DDOT says with what they are multiplied:
 *
 *     DOT_FMA           float32: a part is a float
 *     DOT_ROUNDED       bfloat16 on any device: a part is two terms, each rounded when it is
 *                       packed, the earlier one in the low half. A product of two such numbers
 *                       is exact in float32, so what follows is plain multiply-adds.
 *     DOT_AVX512_BF16   the same parts, and the processor's instructions for them, which OpenCL
 *                       C has no words for. They take and give numbers below 2^-126 as 0.
 *
 * The last two differ by the rounding of sums alone. lib/device/dot.c finds out which units a
 * device has, and has the same numbers for them.
 *
 * Rounding is to the nearest, ties to even. What is too large becomes infinite, and NaN stays NaN.
 *
 * A file that includes this ends with DOT_END: everything between is compiled for the unit.
 */
#define DOT_FMA         0
#define DOT_ROUNDED     1
#define DOT_AVX512_BF16 2
#ifndef DOT
#define DOT DOT_FMA
#endif
#ifndef W
#define W 16
#endif

#define floatw YKI_PASTE(float, W)
#define uintw  YKI_PASTE(uint, W)

#if DOT == DOT_AVX512_BF16
#define DOT_END _Pragma("clang attribute pop")
#pragma clang attribute push(                                                                 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))), apply_to = function)
#else
#define DOT_END
#endif

/* dot_roundN: N floats as bfloat16, each in the upper half of a word; the lower half is to be
 * ignored. */
#define DOT_DEFINE_ROUND(n, uintn, floatn)                                                    \
    uintn dot_round##n(floatn x)                                                              \
    {                                                                                         \
        uintn bits = YKI_PASTE(as_, uintn)(x);                                                \
        uintn up = bits + 0x7fffu + (bits >> 16 & 1u);                                        \
                                                                                              \
        return (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : up;                    \
    }
DOT_DEFINE_ROUND(1, uint, float)
DOT_DEFINE_ROUND(4, uint4, float4)
#if W == 8
DOT_DEFINE_ROUND(8, uint8, float8)
#elif W == 16
DOT_DEFINE_ROUND(16, uint16, float16)
#endif

#if DOT == DOT_FMA
#define DOT_TERMS 1
#define dot_part  float
#define dot_parts floatw
#define DOT_LOAD  YKI_PASTE(vload, W)
/* c + a * b: for floats c and parts b, lane by lane, and one part a. */
#define DOT_ADD(a, b, c) YKI_FMA((floatw)(a), b, c)
#else
#define DOT_TERMS 2
#define dot_part  uint
#define dot_parts uintw
#define DOT_LOAD  YKI_PASTE(vload, W)
/* N times two terms as parts. */
#define DOT_PAIR(n, first, second)                                                            \
    (YKI_PASTE(dot_round, n)(first) >> 16 | (YKI_PASTE(dot_round, n)(second) & 0xffff0000u))
/* The same for vectors: W first terms and as many second ones, or 2 W terms that follow one
 * another. */
#if DOT == DOT_AVX512_BF16
typedef short dot_short32 __attribute__((ext_vector_type(32)));
__attribute__((always_inline)) uint16 dot_in_order(float16 low, float16 high)
{
    uint16 x;

    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(x) : "v"(high), "v"(low));
    return x;
}
__attribute__((always_inline)) uint16 dot_pairs(float16 first, float16 second)
{
    union {
        uint16 parts;
        dot_short32 terms;
    } x;

    x.parts = dot_in_order(first, second);
    x.terms = __builtin_shufflevector(x.terms, x.terms, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                      22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                      30, 15, 31);
    return x.parts;
}
#define DOT_PAIRS    dot_pairs
#define DOT_IN_ORDER dot_in_order
#else
#define DOT_PAIRS(first, second) DOT_PAIR(W, first, second)
#define DOT_IN_ORDER(low, high)                                                               \
    DOT_PAIR(W, (floatw)((low).even, (high).even), (floatw)((low).odd, (high).odd))
#endif
#if DOT == DOT_AVX512_BF16
__attribute__((always_inline)) float16 dot_add(uint16 a, uint16 b, float16 c)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}
#define DOT_ADD(a, b, c) dot_add((uint16)(a), b, c)
#else
#define DOT_FIRST(x)  (YKI_PASTE(as_, floatw)((x) << 16))
#define DOT_SECOND(x) (YKI_PASTE(as_, floatw)((x)&0xffff0000u))
#define DOT_ADD(a, b, c)                                                                      \
    YKI_FMA((floatw)(as_float((a)&0xffff0000u)), DOT_SECOND(b),                               \
            YKI_FMA((floatw)(as_float((a) << 16)), DOT_FIRST(b), c))
#endif
#endif
