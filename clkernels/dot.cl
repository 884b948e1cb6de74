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
 *     DOT_ROUNDED_TF32  TF32 on any device: a float of which 10 bits behind the point are left
 *     DOT_MMA_BF16      the same as DOT_ROUNDED and as DOT_ROUNDED_TF32, by instructions that
 *     DOT_MMA_TF32      multiply matrices: 32 work-items together, only in the core of tile.cl
 *                       (tile_mma.cl). They may take numbers below 2^-126 as 0.
 *     DOT_MMA_PAIRS     the first of these, of operands that are pairs in memory (pairs.cl): what
 *                       is a float elsewhere is a part here
 *     DOT_ROUNDED_F16   half on any device: a float that is one of a half, too
 *     DOT_MMA_F16       the same by instructions that multiply matrices, which take halves below
 *     DOT_MMA_PAIRS_F16 2^-14 as they are; and of operands that are pairs in memory
 *
 * What rounds alike differs by the rounding of sums alone. lib/device/dot.c finds out which units
 * a device has, and has the same numbers for them.
 *
 * Rounding is to the nearest, ties to even, of TF32 away from 0. What is too large becomes infinite
 * (of half from 65520 on), and NaN stays NaN. Halves below 2^-14 are multiples of 2^-24, as
 * vstore_half_rte makes them.
 *
 * With -DDOT_MMA_PLAIN those of matrices are made of ordinary code, for tests.
 *
 * DOT_OPERAND(x) is x as the core of tile.cl keeps it in local memory.
 *
 * A file that includes this ends with DOT_END: everything between is compiled for the unit.
 */
#define DOT_FMA           0
#define DOT_ROUNDED       1
#define DOT_AVX512_BF16   2
#define DOT_ROUNDED_TF32  3
#define DOT_MMA_BF16      4
#define DOT_MMA_TF32      5
#define DOT_MMA_PAIRS     6
#define DOT_ROUNDED_F16   7
#define DOT_MMA_F16       8
#define DOT_MMA_PAIRS_F16 9
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

#if DOT == DOT_ROUNDED_F16 || (DOT >= DOT_MMA_F16 && defined(DOT_MMA_PLAIN))
/* dot_f16_N: N floats rounded to halves. Below 2^-14, 0.5 and a multiple of 2^-24 are a float, and
 * nothing between two of them is. */
#define DOT_DEFINE_F16(n, uintn, floatn)                                                      \
    floatn dot_f16_##n(floatn x)                                                              \
    {                                                                                         \
        uintn bits = YKI_PASTE(as_, uintn)(x), size = bits & 0x7fffffffu;                     \
        uintn low = YKI_PASTE(as_, uintn)((YKI_PASTE(as_, floatn)(size) + 0.5f) - 0.5f);      \
        uintn up = (size + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;                         \
        uintn high = up > 0x477fe000u ? (uintn)(0x7f800000u) : up;                            \
        uintn y = size < 0x38800000u ? low : high;                                            \
                                                                                              \
        y = size > 0x7f800000u ? size : y;                                                    \
        return YKI_PASTE(as_, floatn)(y | (bits & 0x80000000u));                              \
    }
DOT_DEFINE_F16(1, uint, float)
#if W == 16
DOT_DEFINE_F16(16, uint16, float16)
#elif W == 8
DOT_DEFINE_F16(8, uint8, float8)
#else
DOT_DEFINE_F16(4, uint4, float4)
#endif
/* The half itself. */
uint dot_half(float x)
{
    uint bits = as_uint(dot_f16_1(x)), size = bits & 0x7fffffffu;
    uint low = (uint)(as_float(size) * 0x1p24f), high = (size - 0x38000000u) >> 13;
    uint y = size < 0x38800000u ? low : min(high, 0x7c00u);

    return (size > 0x7f800000u ? 0x7e00u : y) | (bits >> 16 & 0x8000u);
}
/* Two halves, the earlier one in the low half of a word. */
uint dot_half_pair(float first, float second)
{
    return dot_half(first) | dot_half(second) << 16;
}
#endif

#if DOT == DOT_MMA_BF16 || DOT == DOT_MMA_TF32 || DOT == DOT_MMA_PAIRS || DOT >= DOT_MMA_F16
/* The instructions are written in PTX: another compiler shall say no before it sees them. */
#if !defined(__NVPTX__) && !defined(__PTX__) && !defined(__NV_CL_C_VERSION) && !defined(DOT_MMA_PLAIN)
#error "dot.cl: this compiler does not make PTX"
#endif
#endif

/* What the instructions for numbers of 16 bits call them. */
#if DOT >= DOT_MMA_F16
#define DOT_TYPE "f16"
#else
#define DOT_TYPE "bf16"
#endif
#define DOT_MMA_16 "mma.sync.aligned.m16n8k16.row.col.f32." DOT_TYPE "." DOT_TYPE ".f32"

#if DOT == DOT_ROUNDED
#define DOT_OPERAND(x) as_float(dot_round1(x) & 0xffff0000u)
#elif DOT == DOT_ROUNDED_TF32 || (DOT == DOT_MMA_TF32 && defined(DOT_MMA_PLAIN))
float dot_tf32(float x)
{
    uint bits = as_uint(x);

    return (bits & 0x7fffffffu) > 0x7f800000u ? x : as_float((bits + 0x1000u) & 0xffffe000u);
}
#if DOT == DOT_ROUNDED_TF32
#define DOT_OPERAND(x) dot_tf32(x)
#else
#define DOT_OPERAND(x) as_uint(dot_tf32(x))
#define DOT_MMA
#endif
#elif DOT == DOT_ROUNDED_F16
#define DOT_OPERAND(x) dot_f16_1(x)
#elif DOT == DOT_MMA_PAIRS || DOT == DOT_MMA_PAIRS_F16
#define DOT_OPERAND(x) as_uint(x)
#ifdef DOT_MMA_PLAIN
#define DOT_MMA
#else
#define DOT_MMA DOT_MMA_16
#endif
#elif DOT == DOT_MMA_BF16 && defined(DOT_MMA_PLAIN)
#define DOT_OPERAND(x) ((ushort)(dot_round1(x) >> 16))
#define DOT_MMA
#elif DOT == DOT_MMA_F16 && defined(DOT_MMA_PLAIN)
#define DOT_OPERAND(x) ((ushort)dot_half(x))
#define DOT_MMA
#elif DOT == DOT_MMA_BF16 || DOT == DOT_MMA_F16
#define DOT_MMA DOT_MMA_16
__attribute__((always_inline)) static ushort dot_operand(float x)
{
    ushort y;

    __asm__("cvt.rn." DOT_TYPE ".f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
__attribute__((always_inline)) static uint dot_pair(float first, float second)
{
    uint y;

    __asm__("cvt.rn." DOT_TYPE "x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
    return y;
}
#define DOT_OPERAND(x) dot_operand(x)
#elif DOT == DOT_MMA_TF32
#define DOT_MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
__attribute__((always_inline)) static uint dot_operand(float x)
{
    /* The unit ignores the last 13 bits. `cvt.rna.tf32` takes four instructions, and adds half of the
     * last place to NaN, too, of which infinity may be left. */
    return isnan(x) ? 0x7fc00000u : as_uint(x) + 0x1000u;
}
#define DOT_OPERAND(x) dot_operand(x)
#else
#define DOT_OPERAND(x) (x)
#endif

/* The terms of a part as numbers: what tests multiply in the place of an instruction. */
#ifdef DOT_MMA_PLAIN
#if DOT >= DOT_MMA_F16
float dot_number(uint half_bits)
{
    uint e = half_bits >> 10 & 31u, m = half_bits & 1023u, sign = (half_bits & 0x8000u) << 16;
    uint y = e == 0u ? as_uint((float)m * 0x1p-24f) : (e == 31u ? 255u : e + 112u) << 23 | m << 13;

    return as_float(y | sign);
}
#define DOT_LOW(x)  dot_number((x)&0xffffu)
#define DOT_HIGH(x) dot_number((x) >> 16)
#else
#define DOT_LOW(x)  as_float((x) << 16)
#define DOT_HIGH(x) as_float((x)&0xffff0000u)
#endif
#endif

/* Whether an operand is pairs in memory. */
#define DOT_OF_PAIRS (DOT == DOT_MMA_PAIRS || DOT == DOT_MMA_PAIRS_F16)

#if DOT == DOT_FMA || DOT == DOT_ROUNDED_TF32 || DOT == DOT_MMA_TF32 || DOT == DOT_ROUNDED_F16 ||  \
    DOT_OF_PAIRS
#define DOT_TERMS 1
#define dot_part  float
#define dot_parts floatw
#define DOT_LOAD  YKI_PASTE(vload, W)
/* c + a * b: for floats c and parts b, lane by lane, and one part a. */
#define DOT_ADD(a, b, c) YKI_FMA((floatw)(a), b, c)
#if DOT == DOT_ROUNDED_F16
#define DOT_PAIR(n, first, second) dot_half_pair(first, second) /* one at a time */
#endif
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
