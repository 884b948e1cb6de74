/* SPDX-License-Identifier: Apache-2.0
 *
 * types.c - the types of values: their sizes, MPI's names for them, and their sums.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

enum { BLOCK = 2048 }; /* values of which the compiler knows that there are so many */

static const struct {
    const char *name;
    size_t size;
    bool summed;
} types[] = {
    [YOKE_F32] = {"f32", 4, true},  [YOKE_I32] = {"i32", 4, true}, [YOKE_U8] = {"u8", 1, false},
    [YOKE_F64] = {"f64", 8, true},  [YOKE_I64] = {"i64", 8, true}, [YOKE_BF16] = {"bf16", 2, false},
    [YOKE_F16] = {"f16", 2, false}, [YOKE_I16] = {"i16", 2, true}};

yoke_status
yki_mpi_check_type(int32_t type, bool summed)
{
    char sentence[120];

    if (type < 0 || (size_t)type >= sizeof types / sizeof types[0])
        snprintf(sentence, sizeof sentence, "libyoke-mpi does not know type %d of values",
                 (int)type);
    else if (summed && !types[type].summed)
        snprintf(sentence, sizeof sentence, "libyoke-mpi sums f32, f64, i16, i32 and i64, not %s",
                 types[type].name);
    else
        return YOKE_OK;
    return yoke_fail(YOKE_ERROR_UNSUPPORTED, sentence);
}

size_t
yki_mpi_type_size(int32_t type)
{
    return types[type].size;
}

MPI_Datatype
yki_mpi_type(int32_t type)
{
    switch (type) {
    case YOKE_F64:
        return MPI_DOUBLE;
    case YOKE_I16:
        return MPI_INT16_T;
    case YOKE_I32:
        return MPI_INT32_T;
    case YOKE_I64:
        return MPI_INT64_T;
    default:
        return MPI_FLOAT;
    }
}

/* Adds whole blocks first, whose length the compiler knows. */
#define ADD(name, number)                                                                          \
    static void name(number *restrict to, const number *restrict from, size_t count)               \
    {                                                                                              \
        for (; count >= BLOCK; count -= BLOCK, to += BLOCK, from += BLOCK)                         \
            for (size_t i = 0; i < BLOCK; i++)                                                     \
                to[i] += from[i];                                                                  \
        for (size_t i = 0; i < count; i++)                                                         \
            to[i] += from[i];                                                                      \
    }
ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_i16, uint16_t)
ADD(add_i32, uint32_t) /* the same bits as with a sign, and defined if a sum does not fit */
ADD(add_i64, uint64_t)

void
yki_mpi_add(int32_t type, void *to, const void *from, size_t count)
{
    switch (type) {
    case YOKE_F64:
        add_f64(to, from, count);
        break;
    case YOKE_I16:
        add_i16(to, from, count);
        break;
    case YOKE_I32:
        add_i32(to, from, count);
        break;
    case YOKE_I64:
        add_i64(to, from, count);
        break;
    default:
        add_f32(to, from, count);
    }
}
