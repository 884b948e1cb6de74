/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_masks.c - imports what exporters make masks and broadcast shapes of: comparisons and
 * triangles of constants, Expand, and Where by a constant condition. A node that a mask hides in
 * places becomes node * keep + instead, with two frozen parameters.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "data/onnx_import.h"

/* ---- new constants ---- */

/* Reads the sizes in an input; that of the batch becomes 1. */
static yoke_status
get_sizes(yki_onnx_importer *im, yki_onnx_item *item, int64_t dim[YKI_ONNX_RANK], int32_t *rank)
{
    YKI_TRY(yki_onnx_numbers(im, item));
    if (item->is_float || item->rank != 1 || item->count > YKI_ONNX_RANK)
        return yki_onnx_refuse(im, "\"%s\" is no shape; must be a list of at most %d whole numbers",
                               item->name, YKI_ONNX_RANK);
    *rank = (int32_t)item->count;
    for (int32_t i = 0; i < *rank; i++) {
        const bool batch = item->batches && item->batches[i];

        if (batch && i > 0)
            return yki_onnx_refuse(im,
                                   "the size of the batch is in axis %d of \"%s\"; must be in "
                                   "the first",
                                   (int)i, item->name);
        dim[i] = batch ? 1 : item->ints[i];
    }
    return YOKE_OK;
}

static yoke_status
fold_filled(yki_onnx_importer *im)
{
    const yki_onnx_attr *a = yki_onnx_get_attr(im, "value");
    const yki_onnx_tensor *t = a ? a->tensor : NULL;
    int64_t dim[YKI_ONNX_RANK], whole = 0;
    float real = 0;
    int32_t rank;

    YKI_TRY(get_sizes(im, im->in[0], dim, &rank));
    if (t && t->count != 1)
        return yki_onnx_refuse(im, "its value has %lld elements; must have one",
                               (long long)t->count);
    if (t && yki_onnx_is_float(t->type))
        YKI_TRY(yki_onnx_read_floats(im->model, t, &real));
    else if (t)
        YKI_TRY(yki_onnx_read_ints(im->model, t, &whole));
    YKI_TRY(yki_onnx_new_constant(im, !t || yki_onnx_is_float(t->type), rank, dim));
    for (int64_t i = 0; i < im->out->count; i++)
        if (im->out->is_float)
            im->out->floats[i] = real;
        else
            im->out->ints[i] = whole;
    return YOKE_OK;
}

/* Whether elements are equal; the size of the batch is none of the numbers. */
static yoke_status
fold_equal(yki_onnx_importer *im)
{
    yki_onnx_item *a = im->in[0], *b = im->in[1];
    int64_t dim[YKI_ONNX_RANK];
    int32_t rank;

    YKI_TRY(yki_onnx_two_constants(im, &rank, dim));
    YKI_TRY(yki_onnx_new_constant(im, false, rank, dim));
    for (int64_t i = 0; i < im->out->count; i++) {
        const int64_t left = yki_onnx_element(a, i, rank, dim);
        const int64_t right = yki_onnx_element(b, i, rank, dim);
        const bool batches = (a->batches && a->batches[left]) == (b->batches && b->batches[right]);

        im->out->ints[i] = a->is_float ? !(a->floats[left] < b->floats[right]) &&
                                             !(a->floats[left] > b->floats[right])
                                       : batches && a->ints[left] == b->ints[right];
    }
    return YOKE_OK;
}

static yoke_status
fold_not(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0];

    YKI_TRY(yki_onnx_fold_move(im, x, x->rank, x->dim, NULL));
    for (int64_t i = 0; !x->is_float && i < x->count; i++)
        im->out->ints[i] = !x->ints[i];
    return x->is_float ? yki_onnx_refuse(im, "\"%s\" has floats; must be true or false", x->name)
                       : YOKE_OK;
}

/* The upper or the lower triangle of the last two axes; the rest is 0. */
static yoke_status
fold_triangle(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0];
    const bool upper = yki_onnx_get_int(im, "upper", 1);
    double above = 0;
    bool single = true;
    int64_t rows, columns;

    if (x->rank < 2)
        return yki_onnx_refuse(im, "\"%s\" has %d axes; must have two or more", x->name,
                               (int)x->rank);
    if (im->in_count > 1 && im->in[1])
        YKI_TRY(yki_onnx_single(im, im->in[1], &single, &above));
    if (!single || fabs(above) > 1e9)
        return yki_onnx_refuse(im, "its diagonal is no number; must be one constant");
    YKI_TRY(yki_onnx_fold_move(im, x, x->rank, x->dim, NULL));
    rows = x->dim[x->rank - 2];
    columns = x->dim[x->rank - 1];
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t away = i % columns - i / columns % rows - (int64_t)above;

        if (upper ? away >= 0 : away <= 0)
            continue;
        if (x->is_float)
            im->out->floats[i] = 0;
        else
            im->out->ints[i] = 0;
    }
    return YOKE_OK;
}

/* ---- Expand ---- */

static yoke_status
fold_expand(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0], shape = {0};
    int64_t dim[YKI_ONNX_RANK], *from;
    int32_t rank;

    YKI_TRY(get_sizes(im, im->in[1], shape.dim, &shape.rank));
    if (!yki_onnx_broadcast(x, &shape, &rank, dim))
        return yki_onnx_refuse(im, "\"%s\" does not fit the shape that it asks for", x->name);
    shape.count = 1;
    for (int32_t i = 0; i < rank; i++) {
        if (dim[i] < 1 || shape.count > INT32_MAX / dim[i])
            return yki_onnx_refuse(im, "its result is too large, or has a size below 1");
        shape.count *= dim[i];
    }
    YKI_TRY(yki_onnx_check_room(im, shape.count));
    from = yki_onnx_keep(im->model, (size_t)shape.count, sizeof *from);
    if (!from)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < shape.count; i++)
        from[i] = yki_onnx_element(x, i, rank, dim);
    return yki_onnx_fold_move(im, x, rank, dim, from);
}

/* Of a node, to the shape that it has. */
static yoke_status
make_expand(yki_onnx_importer *im)
{
    int64_t in[YKI_ONNX_RANK], dim[YKI_ONNX_RANK];
    const int32_t has = yki_onnx_dims(im->in[0], in);
    int32_t rank;

    YKI_TRY(get_sizes(im, im->in[1], dim, &rank));
    for (int32_t i = 0; i < rank; i++) {
        const int32_t own = i + has - rank;

        if (own < 0 || (in[own] > 0 && dim[i] != 1 && dim[i] != in[own]))
            return yki_onnx_refuse(im, "it repeats elements of each sample; must keep the shape");
    }
    return yki_onnx_pass(im, im->in[0]);
}

/* ---- Where ---- */

/* Of a condition and two values, a shape for all. */
static yoke_status
where_shape(yki_onnx_importer *im, int32_t *rank, int64_t *dim)
{
    yki_onnx_item both = {0};

    if (!yki_onnx_broadcast(im->in[0], im->in[1], &both.rank, both.dim) ||
        !yki_onnx_broadcast(&both, im->in[2], rank, dim))
        return yki_onnx_refuse(im, "its inputs do not fit in shape");
    return YOKE_OK;
}

static yoke_status
fold_where(yki_onnx_importer *im)
{
    yki_onnx_item *parts[] = {im->in[2], im->in[1]}, *out = im->out;
    int64_t dim[YKI_ONNX_RANK];
    int32_t rank;

    for (size_t i = 0; i < 3; i++)
        YKI_TRY(yki_onnx_numbers(im, im->in[i]));
    YKI_TRY(where_shape(im, &rank, dim));
    if (im->in[0]->is_float || parts[0]->is_float != parts[1]->is_float)
        return yki_onnx_refuse(im, "its values differ in type, or its condition has floats");
    YKI_TRY(yki_onnx_new_constant(im, parts[0]->is_float, rank, dim));
    out->batches = yki_onnx_keep(im->model, (size_t)out->count, sizeof *out->batches);
    if (!out->batches)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < out->count; i++) {
        const yki_onnx_item *part =
            parts[im->in[0]->ints[yki_onnx_element(im->in[0], i, rank, dim)] != 0];
        const int64_t at = yki_onnx_element(part, i, rank, dim);

        if (out->is_float)
            out->floats[i] = part->floats[at];
        else
            out->ints[i] = part->ints[at];
        out->batches[i] = part->batches && part->batches[at];
    }
    return YOKE_OK;
}

/* A number that multiplies, or is added, in all places of a mask; infinite ones become the largest.
 */
static void
fill(const yki_onnx_item *condition, const yki_onnx_item *other, bool node_where,
     yki_onnx_item *keep, yki_onnx_item *instead)
{
    for (int64_t i = 0; i < keep->count; i++) {
        const int64_t c = yki_onnx_element(condition, i, keep->rank, keep->dim);
        const int64_t o = yki_onnx_element(other, i, keep->rank, keep->dim);
        const bool kept = (condition->ints[c] != 0) == node_where;

        keep->floats[i] = kept;
        instead->floats[i] = kept ? 0 : fmaxf(fminf(other->floats[o], FLT_MAX), -FLT_MAX);
    }
}

/* A constant of the shape of condition and number, to be a frozen parameter. */
static yoke_status
mask_item(yki_onnx_importer *im, const yki_onnx_item *other, yki_onnx_item **out)
{
    yki_onnx_item *const result = im->out, *item = yki_onnx_keep(im->model, 1, sizeof *item);
    int64_t dim[YKI_ONNX_RANK];
    int32_t rank;
    yoke_status status;

    if (!item)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!yki_onnx_broadcast(im->in[0], other, &rank, dim))
        return yki_onnx_refuse(im, "its inputs do not fit in shape");
    *item = (yki_onnx_item){.name = result->name, .label = result->name, .factor = 1};
    im->out = item;
    status = yki_onnx_new_constant(im, true, rank, dim);
    im->out = result;
    *out = item;
    return status;
}

static yoke_status
make_where(yki_onnx_importer *im)
{
    const bool first = im->in[1]->kind == YKI_ONNX_NODE;
    yki_onnx_item *condition = im->in[0], *keep, *instead;
    yki_onnx_item *node = im->in[first ? 1 : 2], *other = im->in[first ? 2 : 1];
    yoke_node *x, *factor, *term;

    if (condition->kind != YKI_ONNX_CONSTANT || other->kind != YKI_ONNX_CONSTANT)
        return yki_onnx_refuse(im, "its condition, and one of its values, are no constants; must "
                                   "be");
    YKI_TRY(yki_onnx_numbers(im, condition));
    YKI_TRY(yki_onnx_numbers(im, other));
    if (condition->is_float || !other->is_float)
        return yki_onnx_refuse(im, "its condition has floats, or its value has none");
    YKI_TRY(yki_onnx_node_of(im, node, &x));
    YKI_TRY(mask_item(im, other, &keep));
    YKI_TRY(mask_item(im, other, &instead));
    fill(condition, other, first, keep, instead);
    YKI_TRY(yki_onnx_operand(im, keep, x, &factor));
    YKI_TRY(yki_onnx_operand(im, instead, x, &term));
    return yki_onnx_give(im, yoke_add(im->graph, yoke_mul(im->graph, x, factor), term));
}

const yki_onnx_row yki_onnx_masks[] = {
    {"ConstantOfShape", 1, 1, NULL, fold_filled},
    {"Equal", 2, 2, NULL, fold_equal},
    {"Not", 1, 1, NULL, fold_not},
    {"Trilu", 1, 2, NULL, fold_triangle},
    {"Expand", 2, 2, make_expand, fold_expand},
    {"Where", 3, 3, make_where, fold_where},
    {NULL, 0, 0, NULL, NULL},
};
