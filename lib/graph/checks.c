/* SPDX-License-Identifier: Apache-2.0
 *
 * checks.c - checks shapes and initializers that a caller gives, before a node is made of them.
 */
#include <math.h>
#include <stdio.h>

#include "graph/graph.h"

yoke_status
yki_check_shape(yoke_shape shape)
{
    char what[32];

    if (shape.rank < 0 || shape.rank >= YOKE_MAX_RANK)
        return yki_fail_range(YOKE_ERROR_SHAPE, "the rank of the shape", shape.rank, 0,
                              YOKE_MAX_RANK - 1);
    if (shape.reserved)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "reserved of the shape is %d; must be 0: yoke_shape() makes shapes",
                        shape.reserved);
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] <= 0 || shape.dim[i] > INT32_MAX) {
            snprintf(what, sizeof what, "the size of axis %d", i);
            return yki_fail_range(YOKE_ERROR_SHAPE, what, shape.dim[i], 1, INT32_MAX);
        }
    return YOKE_OK;
}

yoke_status
yki_check_initializer(const yoke_initializer *init)
{
    const yoke_status status = YOKE_ERROR_INVALID_ARGUMENT;

    if ((unsigned)init->kind > YOKE_INIT_KAIMING_NORMAL)
        return yki_fail_range(status, "the initializer's kind", (int)init->kind, YOKE_INIT_DEFAULT,
                              YOKE_INIT_KAIMING_NORMAL);
    if (!isfinite(init->a) || !isfinite(init->b))
        return yki_fail(status, "%s of the initializer is %g; must be finite",
                        isfinite(init->a) ? "b" : "a",
                        (double)(isfinite(init->a) ? init->b : init->a));
    if (init->kind == YOKE_INIT_UNIFORM && init->a > init->b)
        return yki_fail(status,
                        "the initializer's uniform values are from %g to %g; a must not be "
                        "above b",
                        (double)init->a, (double)init->b);
    if (init->kind == YOKE_INIT_NORMAL && init->b < 0)
        return yki_fail(status, "the initializer's deviation b is %g; must be at least 0",
                        (double)init->b);
    if (init->reserved)
        return yki_fail(status, "reserved of the initializer is %u; must be 0", init->reserved);
    return YOKE_OK;
}
