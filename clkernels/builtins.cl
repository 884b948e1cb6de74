/* SPDX-License-Identifier: Apache-2.0
 *
 * builtins.cl - the functions of OpenCL C that the kernels use, for PoCL.
 *
 * PoCL puts clang's header with all 15,000 functions before each program and reads it anew for each
 * build, of a program that lies in its cache as well: that is most of the time of such a build.
 * Where program.c defines _OPENCL_H_, clang's header is empty but for types and constants, and this
 * stands before common.cl instead. If a function is missing here the program is built with clang's
 * header.
 */
#ifdef YKI_OWN_BUILTINS
#define YKI_OF   __attribute__((overloadable, const))
#define YKI_DOES __attribute__((overloadable))

/* ---- work-items ---- */

size_t YKI_OF get_global_size(uint);
size_t YKI_OF get_global_id(uint);
size_t YKI_OF get_local_id(uint);
size_t YKI_OF get_num_groups(uint);
size_t YKI_OF get_group_id(uint);
void __attribute__((overloadable, convergent)) barrier(cl_mem_fence_flags);

/* ---- functions of each element ---- */

/* DO(float, int, uint) and so on, of all sizes */
#define YKI_SIZES(DO)                                                                              \
    DO(float, int, uint)                                                                           \
    DO(float2, int2, uint2)                                                                        \
    DO(float4, int4, uint4)                                                                        \
    DO(float8, int8, uint8)                                                                        \
    DO(float16, int16, uint16)

#define YKI_FUNCTIONS(F, I, U)                                                                     \
    F YKI_OF clamp(F, F, F);                                                                       \
    F YKI_OF copysign(F, F);                                                                       \
    F YKI_OF erf(F);                                                                               \
    F YKI_OF exp(F);                                                                               \
    F YKI_OF exp2(F);                                                                              \
    F YKI_OF fabs(F);                                                                              \
    F YKI_OF fma(F, F, F);                                                                         \
    F YKI_OF fmax(F, F);                                                                           \
    F YKI_OF log(F);                                                                               \
    F YKI_OF log1p(F);                                                                             \
    F YKI_OF log2(F);                                                                              \
    F YKI_OF max(F, F);                                                                            \
    F YKI_OF min(F, F);                                                                            \
    F YKI_OF pow(F, F);                                                                            \
    F YKI_OF select(F, F, I);                                                                      \
    F YKI_OF select(F, F, U);                                                                      \
    F YKI_OF sqrt(F);                                                                              \
    F YKI_OF tanh(F);                                                                              \
    F YKI_OF trunc(F);                                                                             \
    I YKI_OF isfinite(F);                                                                          \
    I YKI_OF isnan(F);                                                                             \
    I YKI_OF signbit(F);
YKI_SIZES(YKI_FUNCTIONS)

/* T, what abs() gives, and what select() decides by */
#define YKI_WHOLE(T, U, S)                                                                         \
    U YKI_OF abs(T);                                                                               \
    T YKI_OF clamp(T, T, T);                                                                       \
    T YKI_OF clz(T);                                                                               \
    T YKI_OF max(T, T);                                                                            \
    T YKI_OF min(T, T);                                                                            \
    T YKI_OF mul_hi(T, T);                                                                         \
    T YKI_OF select(T, T, S);                                                                      \
    T YKI_OF select(T, T, U);
#define YKI_WHOLES(F, I, U) YKI_WHOLE(I, U, I) YKI_WHOLE(U, U, I)
YKI_SIZES(YKI_WHOLES)
#define YKI_LONGS(N) YKI_WHOLE(long##N, ulong##N, long##N) YKI_WHOLE(ulong##N, ulong##N, long##N)
YKI_LONGS()
YKI_LONGS(2)
YKI_LONGS(4)
YKI_LONGS(8)
YKI_LONGS(16)

/* ---- conversions ---- */

#define YKI_CONVERT(TO, FROM) TO YKI_OF convert_##TO(FROM);
#define YKI_CONVERT_TO(TO, N)                                                                      \
    YKI_CONVERT(TO##N, char##N)                                                                    \
    YKI_CONVERT(TO##N, uchar##N)                                                                   \
    YKI_CONVERT(TO##N, short##N)                                                                   \
    YKI_CONVERT(TO##N, ushort##N)                                                                  \
    YKI_CONVERT(TO##N, int##N)                                                                     \
    YKI_CONVERT(TO##N, uint##N)                                                                    \
    YKI_CONVERT(TO##N, long##N)                                                                    \
    YKI_CONVERT(TO##N, ulong##N)                                                                   \
    YKI_CONVERT(TO##N, float##N)
#define YKI_CONVERTS(N)                                                                            \
    YKI_CONVERT_TO(short, N)                                                                       \
    YKI_CONVERT_TO(ushort, N)                                                                      \
    YKI_CONVERT_TO(int, N)                                                                         \
    YKI_CONVERT_TO(uint, N)                                                                        \
    YKI_CONVERT_TO(long, N)                                                                        \
    YKI_CONVERT_TO(ulong, N)                                                                       \
    YKI_CONVERT_TO(float, N)
YKI_CONVERTS()
YKI_CONVERTS(2)
YKI_CONVERTS(4)
YKI_CONVERTS(8)
YKI_CONVERTS(16)

/* ---- memory ---- */

#define YKI_LOAD_FROM(N, T, SPACE)                                                                 \
    T##N __attribute__((overloadable, pure)) vload##N(size_t, const SPACE T *);
#define YKI_MOVE(N, T, SPACE)                                                                      \
    YKI_LOAD_FROM(N, T, SPACE)                                                                     \
    void YKI_DOES vstore##N(T##N, size_t, SPACE T *);
#define YKI_MOVES(T, SPACE)                                                                        \
    YKI_MOVE(2, T, SPACE)                                                                          \
    YKI_MOVE(4, T, SPACE)                                                                          \
    YKI_MOVE(8, T, SPACE)                                                                          \
    YKI_MOVE(16, T, SPACE)
#define YKI_MOVES_IN(SPACE)                                                                        \
    YKI_MOVES(char, SPACE)                                                                         \
    YKI_MOVES(uchar, SPACE)                                                                        \
    YKI_MOVES(short, SPACE)                                                                        \
    YKI_MOVES(ushort, SPACE)                                                                       \
    YKI_MOVES(int, SPACE)                                                                          \
    YKI_MOVES(uint, SPACE)                                                                         \
    YKI_MOVES(long, SPACE)                                                                         \
    YKI_MOVES(ulong, SPACE)                                                                        \
    YKI_MOVES(float, SPACE)
YKI_MOVES_IN(__global)
YKI_MOVES_IN(__local)
YKI_MOVES_IN(__private)
YKI_LOAD_FROM(2, uint, __constant)
YKI_LOAD_FROM(4, uint, __constant)
YKI_LOAD_FROM(8, uint, __constant)
YKI_LOAD_FROM(16, uint, __constant)

int YKI_DOES atomic_max(volatile __global int *, int);
uint YKI_DOES atomic_max(volatile __global uint *, uint);

#endif
