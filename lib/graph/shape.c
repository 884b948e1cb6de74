/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.c - arithmetic on shapes and types.
 */
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

int64_t
yki_shape_count(yoke_shape shape)
{
    int64_t count = 1;

    for (int32_t i = 0; i < shape.rank; i++)
        count *= shape.dim[i];
    return count;
}

void
yki_node_like(yoke_node *node, const yoke_node *other)
{
    node->type = other->type;
    node->shape = other->shape;
    node->batched = other->batched;
    node->length = other->length;
}

yoke_shape
yki_whole_shape(const yoke_node *node)
{
    yoke_shape whole = node->shape;

    if (!node->length)
        return whole;
    memmove(whole.dim + 1, whole.dim, (size_t)whole.rank++ * sizeof whole.dim[0]);
    whole.dim[0] = node->length;
    return whole;
}

bool
yki_shape_equal(yoke_shape a, yoke_shape b)
{
    return a.rank == b.rank && memcmp(a.dim, b.dim, (size_t)a.rank * sizeof a.dim[0]) == 0;
}

const char *
yki_shape_text(yoke_shape shape, char *text, size_t size)
{
    size_t used = 0;

    used += (size_t)snprintf(text, size, "(");
    for (int32_t i = 0; i < shape.rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                                 (long long)shape.dim[i]);
    if (used < size)
        snprintf(text + used, size - used, ")");
    return text;
}

bool
yki_shape_broadcast(yoke_shape a, yoke_shape b, yoke_shape *result)
{
    yoke_shape out = {0};

    out.rank = YKI_MAX(a.rank, b.rank);
    for (int32_t i = 0; i < out.rank; i++) {
        int32_t ia = i - (out.rank - a.rank), ib = i - (out.rank - b.rank);
        int64_t da = ia < 0 ? 1 : a.dim[ia], db = ib < 0 ? 1 : b.dim[ib];

        if (da != db && da != 1 && db != 1)
            return false;
        out.dim[i] = da == 1 ? db : da;
    }
    *result = out;
    return true;
}

size_t
yki_type_size(yoke_type type)
{
    return type == YOKE_U8 ? 1 : yki_type_is_half(type) ? 2 : 4;
}

const char *
yki_value_type_name(yoke_type type)
{
    static const char *const names[] = {[YOKE_F32] = "f32",
                                        [YOKE_I32] = "i32",
                                        [YOKE_U8] = "u8",
                                        [YKI_TYPE_BF16] = "bf16",
                                        [YKI_TYPE_F16] = "f16"};

    return (unsigned)type < YKI_COUNT(names) ? names[type] : NULL;
}

bool
yki_value_type_find(const char *name, yoke_type *type)
{
    for (int i = 0; i <= YOKE_U8; i++)
        if (strcmp(yki_value_type_name((yoke_type)i), name) == 0) {
            *type = (yoke_type)i;
            return true;
        }
    return false;
}
