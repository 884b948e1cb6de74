/* SPDX-License-Identifier: Apache-2.0
 *
 * common.cl - is put before every other kernel file. It has the multiply-add that
 * gives the same bits everywhere, and names for vectors of the device's width.
 *
 * A product to which something is added is written YKI_FMA(a, b, c). The compiler must
 * contract nothing else, or replicas on devices of two vendors would drift apart.
 *
 * program.c defines these for the device; the defaults are for a file that is compiled
 * alone:
 *
 *   YKI_WIDTH           native float lanes: 1, 2, 4, 8, 16
 *   YKI_HAVE_FMA        1: fma() is one fast instruction
 *   YKI_ROUNDED_DIVIDE  1: division and sqrt of floats are correctly rounded
 *
 * A trap: Mesa's llvmpipe (22.3) silently ends a work-item after 65535 iterations,
 * counted over all its loops, inner and outer. So a work-item must not loop longer
 * than that: launch more work-groups, or unroll.
 */
#pragma OPENCL FP_CONTRACT OFF

/* clang warns that vectors wider than the registers are passed by another ABI (AVX2 and
 * float16). Here that does no harm: they are passed only to the driver's own functions, which
 * were compiled for the same processor. */
#ifdef __has_warning
#if __has_warning("-Wpsabi")
#pragma clang diagnostic ignored "-Wpsabi"
#endif
#endif

#ifndef YKI_WIDTH
#define YKI_WIDTH 4
#endif
#ifndef YKI_HAVE_FMA
#define YKI_HAVE_FMA 1
#endif
#ifndef YKI_ROUNDED_DIVIDE
#define YKI_ROUNDED_DIVIDE 0
#endif

/* YKI_CANONICAL is 1 in canonical plans, whose kernels give the same bits on every device: a
 * multiply-add rounds once, in software if it must, functions are those of math.cl, and some
 * kernels add in another order (docs/design.md). */
#ifndef YKI_CANONICAL
#define YKI_CANONICAL 0
#endif

/* In canonical plans a sum over channels and taps takes so many channels for all taps, then the
 * next ones, whatever the device's vectors are: all terms of blocked images lie side by side. */
#define YKI_CANONICAL_CHANNELS 16

/* Stands on each kernel, unless its registers have a limit (program.c), which would not count
 * beside it: the size of its groups and, on processors, that it is written in
 * vectors. Otherwise a compiler may make vectors of work-items, although such a group has only one:
 * compiling gemm_cpu.cl took one of them five times as long, and it ran no faster. Others ignore
 * the hint. */
#ifdef YKI_ANY_GROUP
#define YKI_GROUP(x, y)
#elif YKI_WIDTH > 4
#define YKI_GROUP(x, y) __attribute__((reqd_work_group_size(x, y, 1), vec_type_hint(float16)))
#else
#define YKI_GROUP(x, y) __attribute__((reqd_work_group_size(x, y, 1)))
#endif

/* For floats and vectors of them. It rounds once where the device has fma, otherwise twice: that
 * is fast, and gives the same bits on all devices of one kind. */
#if YKI_HAVE_FMA || YKI_CANONICAL
#define YKI_FMA(a, b, c) fma(a, b, c)
#else
#define YKI_FMA(a, b, c) ((a) * (b) + (c))
#endif

/* It rounds once everywhere, in software if it must. It is for results that need the same bits
 * on every device (updates, sums of gradients), and are bound by memory anyway. */
#define YKI_EXACT_FMA(a, b, c) fma(a, b, c)

/* YKI_NATIVE: the compiler is clang and compiles for the processor itself, not to an
 * intermediate form, in which some things cannot be expressed. */
#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__) || defined(__powerpc64__) ||   \
                           defined(__riscv))
#define YKI_NATIVE 1
#else
#define YKI_NATIVE 0
#endif

/* yki_storeN(x, i, p) is vstoreN for floats, in one store. A driver may compile vstore16 to
 * three stores and two shuffles (PoCL 3.1 for AVX-512); a vector with the alignment of a float
 * is one store. */
#ifndef YKI_STORE_IN
#if YKI_NATIVE
#define YKI_STORE_IN(N, SPACE)                                                                \
    __attribute__((overloadable, always_inline)) void yki_store##N(float##N x, long i,        \
                                                                   SPACE float *p)            \
    {                                                                                         \
        *(SPACE yki_float##N##_at *)(p + i * N) = x;                                          \
    }
#define YKI_DEFINE_STORE(N)                                                                   \
    typedef float##N yki_float##N##_at __attribute__((aligned(4)));                           \
    YKI_STORE_IN(N, __global) YKI_STORE_IN(N, __local) YKI_STORE_IN(N, __private)
YKI_DEFINE_STORE(2)
YKI_DEFINE_STORE(4)
YKI_DEFINE_STORE(8)
YKI_DEFINE_STORE(16)
#else
#define YKI_STORE_IN(N, SPACE)
#define yki_store2  vstore2
#define yki_store4  vstore4
#define yki_store8  vstore8
#define yki_store16 vstore16
#endif
#endif

/* YKI_FLOATS is a vector of YKI_WIDTH floats. YKI_LOAD(i, p) and YKI_STORE(x, i, p) load and
 * store one at p + i * YKI_WIDTH; p needs no more than the alignment of a float. */
#define YKI_PASTE_(a, b) a##b
#define YKI_PASTE(a, b)  YKI_PASTE_(a, b)
#if YKI_WIDTH == 1
#define YKI_FLOATS         float
#define YKI_LOAD(i, p)     ((p)[i])
#define YKI_STORE(x, i, p) ((p)[i] = (x))
#else
#define YKI_FLOATS YKI_PASTE(float, YKI_WIDTH)
#define YKI_LOAD   YKI_PASTE(vload, YKI_WIDTH)
#define YKI_STORE  YKI_PASTE(yki_store, YKI_WIDTH)
#endif

/* YKI_LANESn(F) writes F(name, number) for each lane of a vector of n, with the name of
 * x.s<name>. */
#define YKI_LANES4(F)  F(0, 0) F(1, 1) F(2, 2) F(3, 3)
#define YKI_LANES8(F)  YKI_LANES4(F) F(4, 4) F(5, 5) F(6, 6) F(7, 7)
#define YKI_LANES16(F)                                                                        \
    YKI_LANES8(F) F(8, 8) F(9, 9) F(a, 10) F(b, 11) F(c, 12) F(d, 13) F(e, 14) F(f, 15)

/* YKI_DEFINE_TURN(name, m, n, by) makes name(r), in which r is m vectors of n floats. It turns the
 * address of each float, its vector times n plus its lane, to the right by log2(by) bits; with by
 * = m = n this is a transpose. It takes log2(by) steps: in each, the even elements of two
 * neighbours become a row of the first half, and the odd ones a row of the second half. Simulators
 * that cannot run a shuffle (docs/drivers.md) go through memory. */
#ifdef YKI_LANES_APART
#define YKI_DEFINE_TURN(name, m, n, by)                                                       \
    void name(YKI_PASTE(float, n) * r)                                                        \
    {                                                                                         \
        float from[(m) * n], to[(m) * n];                                                     \
                                                                                              \
        for (int i = 0; i < (m); i++)                                                         \
            YKI_PASTE(vstore, n)(r[i], i, from);                                              \
        for (int i = 0; i < (m) * n; i++)                                                     \
            to[i] = from[i % ((m) * n / (by)) * (by) + i / ((m) * n / (by))];                 \
        for (int i = 0; i < (m); i++)                                                         \
            r[i] = YKI_PASTE(vload, n)(i, to);                                                \
    }
#else
#define YKI_DEFINE_TURN(name, m, n, by)                                                       \
    void name(YKI_PASTE(float, n) * r)                                                        \
    {                                                                                         \
        YKI_PASTE(float, n) t[m];                                                             \
                                                                                              \
        _Pragma("unroll") for (int step = 1; step < (by); step *= 2)                          \
        {                                                                                     \
            _Pragma("unroll") for (int i = 0; i < (m); i++) t[i] = r[i];                      \
            _Pragma("unroll") for (int i = 0; i < (m) / 2; i++)                               \
            {                                                                                 \
                r[i] = (YKI_PASTE(float, n))(t[2 * i].even, t[2 * i + 1].even);               \
                r[(m) / 2 + i] = (YKI_PASTE(float, n))(t[2 * i].odd, t[2 * i + 1].odd);       \
            }                                                                                 \
        }                                                                                     \
    }
#endif
#define YKI_DEFINE_TRANSPOSE(name, n) YKI_DEFINE_TURN(name, n, n, n)

/* The taps first..end of an axis that lie inside it: 0 <= at + tap * step < size. */
#define YKI_FIRST_TAP(at, step) ((at) < 0 ? (-(at) + (step)-1) / (step) : 0)
#define YKI_END_TAP(at, step, size, taps)                                                     \
    ((at) < (size) ? min(((size) - (at) + (step)-1) / (step), taps) : 0)

/* YKI_STREAM(x, p) stores 16 floats at p, aligned as a float16, past the caches where the
 * compiler can do that. It is for results too large for any cache: a line that is written whole
 * need not be read first. */
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define YKI_STREAM(x, p) __builtin_nontemporal_store(x, (__global float16 *)(p))
#endif
#endif
#ifndef YKI_STREAM
#define YKI_STREAM(x, p) vstore16(x, 0, p)
#endif

/* YKI_PREFETCH(p) asks for the cache line at p, which may be a little beyond the end of a buffer; not
 * pages beyond, because looking for a page that does not exist takes long.
 * YKI_PREFETCH_TO_STORE asks for a line that is stored next. YKI_PREFETCH_FAR, only with
 * YKI_NATIVE, asks for it into the second level, for much later.
 * YKI_AHEAD: an inner loop asks this many iterations before it needs the line; 16 was the best
 * of 8, 16 and 32. */
#define YKI_AHEAD 16
#if YKI_NATIVE
#define YKI_PREFETCH(p)          __builtin_prefetch((const void *)(size_t)(p))
#define YKI_PREFETCH_TO_STORE(p) __builtin_prefetch((const void *)(size_t)(p), 1)
#define YKI_PREFETCH_FAR(p)      __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#else
#define YKI_PREFETCH(p)          ((void)0)
#define YKI_PREFETCH_TO_STORE(p) ((void)0)
#endif

/* Philox 4x32-10, the same as in lib/base/random.c. It turns the counter c0..c3 into four random
 * words. The counter's variables have type T: uint, or a vector of them with one counter in each
 * lane. W is ulong, or a vector of as many. The keys are uints. It uses products of 64 bits, not
 * mul_hi(), which PoCL does lane by lane. */
#define YKI_PHILOX(T, W, c0, c1, c2, c3, key0, key1)                                          \
    do {                                                                                      \
        uint yki_k0 = (key0), yki_k1 = (key1);                                                \
                                                                                              \
        for (int yki_round = 0; yki_round < 10; yki_round++) {                                \
            W yki_p0 = YKI_PASTE(convert_, W)(c0) * (W)(0xD2511F53u);                         \
            W yki_p1 = YKI_PASTE(convert_, W)(c2) * (W)(0xCD9E8D57u);                         \
                                                                                              \
            c0 = YKI_PASTE(convert_, T)(yki_p1 >> 32) ^ c1 ^ yki_k0;                          \
            c1 = YKI_PASTE(convert_, T)(yki_p1);                                              \
            c2 = YKI_PASTE(convert_, T)(yki_p0 >> 32) ^ c3 ^ yki_k1;                          \
            c3 = YKI_PASTE(convert_, T)(yki_p0);                                              \
            yki_k0 += 0x9E3779B9u;                                                            \
            yki_k1 += 0xBB67AE85u;                                                            \
        }                                                                                     \
    } while (0)
