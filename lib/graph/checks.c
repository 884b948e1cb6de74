/* SPDX-License-Identifier: Apache-2.0
 *
 * checks.c - checks shapes and initializers that a caller gives, before a node is made of them, and
 * reports nodes that do not fit.
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
                        "reserved of the shape is %d; must be 0; yoke_shape makes such shapes",
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
        return yki_fail(status, "the initializer's a is %g; must not be above b, %g",
                        (double)init->a, (double)init->b);
    if (init->kind == YOKE_INIT_NORMAL && init->b < 0)
        return yki_fail(status, "the initializer's deviation b is %g; must be at least 0",
                        (double)init->b);
    if (init->reserved)
        return yki_fail(status, "reserved of the initializer is %u; must be 0", init->reserved);
    return YOKE_OK;
}

yoke_status
yki_fail_node(const char *what, const yoke_node *node)
{
    if (!node)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s is NULL; must be a node of this graph",
                        what);
    return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                    "%s \"%s\" is a node of another graph; must be a node of this graph", what,
                    node->name);
}

yoke_status
yki_fail_type(const char *what, const yoke_node *node, const char *must)
{
    return yki_fail(YOKE_ERROR_TYPE, "%s \"%s\" has type %s; must be %s", what, node->name,
                    yki_value_type_name(node->type), must);
}

yoke_status
yki_check_f32(const char *what, const yoke_node *node)
{
    return node->type == YOKE_F32 ? YOKE_OK : yki_fail_type(what, node, "f32");
}

yoke_status
yki_fail_shape(const char *what, const yoke_node *node, const char *must)
{
    char text[128];

    return yki_fail(YOKE_ERROR_SHAPE, "%s \"%s\" has %sshape %s; must be %s", what, node->name,
                    node->length ? "rows of " : "", yki_shape_text(node->shape, text, sizeof text),
                    must);
}

yoke_status
yki_fail_axis(const char *what, int32_t axis, const yoke_node *node)
{
    char text[128];

    if (node->shape.rank == 0)
        return yki_fail(YOKE_ERROR_SHAPE, "%s is %d; \"%s\" is a scalar and has no axes", what,
                        axis, node->name);
    return yki_fail(YOKE_ERROR_SHAPE, "%s is %d; must be between 0 and %d, as \"%s\" has shape %s",
                    what, axis, node->shape.rank - 1, node->name,
                    yki_shape_text(node->shape, text, sizeof text));
}

yoke_status
yki_infer_joined(yoke_node *node)
{
    return yki_fail_bug("%s: only the planner makes %s", node->name, node->op->name);
}
