/* SPDX-License-Identifier: Apache-2.0
 *
 * vectors.cl - vectors of VEC floats, which may be 1, for kernels of groups of WG
 * work-items. Other kernel files include it behind their own defaults of the two.
 *
 *   floatv, intv                       the vector, and one of ints
 *   loadv(i, p), storev(v, i, p)       vector i of any memory, at the address of any float
 *   LOADV(i, p), STOREV(v, i, p)       the same of global memory, in one instruction of a
 *                                      work-item where there are several: there p is a
 *                                      multiple of a vector's size, as tensors are
 *   FOR_FLAT(of a vector, of one)      over all vectors and what is left
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 1
#endif

#if VEC == 1
#define floatv          float
#define intv            int
#define as_floatv       as_float
#define as_intv         as_int
#define loadv(i, p)     ((p)[i])
#define storev(v, i, p) ((p)[i] = (v))
#else
#define floatv    YKI_PASTE(float, VEC)
#define intv      YKI_PASTE(int, VEC)
#define as_floatv YKI_PASTE(as_float, VEC)
#define as_intv   YKI_PASTE(as_int, VEC)
#define loadv     YKI_PASTE(vload, VEC)
#define storev    YKI_PASTE(yki_store, VEC)
#endif

#if VEC == 1 || WG == 1
#define LOADV  loadv
#define STOREV storev
#else
#define LOADV(i, p)     (((__global const floatv *)(p))[i])
#define STOREV(v, i, p) (((__global floatv *)(p))[i] = (v))
#endif

/* The sum of the lanes, of which there are few where there are several work-items. Simulators
 * cannot run the shuffles that compilers make of it (docs/drivers.md): there each lane goes through
 * memory. */
#if WG > 1 && VEC == 1
#define yki_sum_few_lanes(v) (v)
#elif WG > 1 && VEC == 4
float
yki_sum_few_lanes(float4 v)
{
#ifdef YKI_LANES_APART
    volatile float a = v.s0, b = v.s1, c = v.s2, d = v.s3;

    return (a + b) + (c + d);
#else
    return (v.s0 + v.s1) + (v.s2 + v.s3);
#endif
}
#endif

/* Work over `count` numbers: the vectors of this work-group's piece, then the remainder one by one.
 * What is computed of a vector and of one number has to agree. */
#define FOR_FLAT(VECTOR_BODY, SCALAR_BODY)                                                    \
    int vectors = count / VEC, groups = (int)get_num_groups(0), group = (int)get_group_id(0); \
    int begin = (int)((long)vectors * group / groups);                                        \
    int end = (int)((long)vectors * (group + 1) / groups);                                    \
    for (int i = begin + (int)get_local_id(0); i < end; i += WG) {                            \
        VECTOR_BODY;                                                                          \
    }                                                                                         \
    if (group == groups - 1)                                                                  \
        for (int i = vectors * VEC + (int)get_local_id(0); i < count; i += WG) {              \
            SCALAR_BODY;                                                                      \
        }
