/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_fold.c - computes what depends on constants alone: mostly arithmetic with shapes, in which
 * the size of the batch may be a factor.
 */
#include <math.h>
#include <string.h>

#include "data/onnx_import.h"

/* ---- elements in another order ---- */

yoke_status
yki_onnx_fold_move(yki_onnx_importer *im, yki_onnx_item *x, int32_t rank, const int64_t *dim,
                   const int64_t *from)
{
    yki_onnx_item *out = im->out;

    YKI_TRY(yki_onnx_numbers(im, x));
    YKI_TRY(yki_onnx_new_constant(im, x->is_float, rank, dim));
    if (x->batches) {
        out->batches = yki_onnx_keep(im->model, (size_t)out->count, sizeof *out->batches);
        if (!out->batches)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t at = from ? from[i] : i;

        if (x->is_float)
            out->floats[i] = x->floats[at];
        else
            out->ints[i] = x->ints[at];
        if (x->batches)
            out->batches[i] = x->batches[at];
    }
    /* It is still the weight of that name. */
    out->label = x->label;
    out->literal = x->literal;
    return YOKE_OK;
}

yoke_status
yki_onnx_fold_concat(yki_onnx_importer *im)
{
    int64_t count = 0, at = 0;

    for (size_t i = 0; i < im->in_count; i++) {
        if (!im->in[i] || im->in[i]->rank != 1 || im->in[i]->is_float != im->in[0]->is_float)
            return yki_onnx_refuse(im, "it joins constants of several axes; must have one");
        YKI_TRY(yki_onnx_numbers(im, im->in[i]));
        count += im->in[i]->count;
    }
    YKI_TRY(yki_onnx_new_constant(im, im->in[0]->is_float, 1, &count));
    im->out->batches = yki_onnx_keep(im->model, (size_t)count, sizeof *im->out->batches);
    if (!im->out->batches)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < im->in_count; i++)
        for (int64_t k = 0; k < im->in[i]->count; k++, at++) {
            if (im->out->is_float)
                im->out->floats[at] = im->in[i]->floats[k];
            else
                im->out->ints[at] = im->in[i]->ints[k];
            im->out->batches[at] = im->in[i]->batches && im->in[i]->batches[k];
        }
    return YOKE_OK;
}

/* ---- one operand ---- */

static double
compute_one(const char *op, double x)
{
    switch (op[0]) {
    case 'E':
        return exp(x);
    case 'L':
        return log(x);
    case 'S':
        return sqrt(x);
    case 'A':
        return fabs(x);
    case 'N':
        return -x;
    case 'R':
        return 1 / x;
    case 'F':
        return floor(x);
    default:
        return ceil(x);
    }
}

yoke_status
yki_onnx_fold_one(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0];

    YKI_TRY(yki_onnx_fold_move(im, x, x->rank, x->dim, NULL));
    for (int64_t i = 0; i < x->count; i++) {
        if (x->is_float)
            im->out->floats[i] = (float)compute_one(im->node->op, (double)x->floats[i]);
        else if (im->node->op[0] == 'N' && x->ints[i] != INT64_MIN)
            im->out->ints[i] = -x->ints[i];
        else if (im->node->op[0] != 'F' && im->node->op[0] != 'C')
            return yki_onnx_refuse(im, "\"%s\" has whole numbers; must have floats", x->name);
    }
    im->out->literal = true;
    im->out->label = im->out->name;
    return YOKE_OK;
}

/* Whole numbers become floats, and the reverse where they keep their value. */
static yoke_status
cast_to(yki_onnx_importer *im, bool to_float)
{
    yki_onnx_item *x = im->in[0];

    if (to_float == x->is_float)
        return yki_onnx_pass(im, x);
    YKI_TRY(yki_onnx_numbers(im, x));
    YKI_TRY(yki_onnx_new_constant(im, to_float, x->rank, x->dim));
    im->out->batches = x->batches;
    for (int64_t i = 0; i < x->count; i++) {
        if (to_float) {
            im->out->floats[i] = (float)x->ints[i];
            continue;
        }
        if (!(fabsf(x->floats[i]) < 1e18f))
            return yki_onnx_refuse(im, "\"%s\" has %g; must be a whole number", x->name,
                                   (double)x->floats[i]);
        im->out->ints[i] = (int64_t)x->floats[i];
    }
    return YOKE_OK;
}

yoke_status
yki_onnx_fold_cast(yki_onnx_importer *im)
{
    return cast_to(im, yki_onnx_is_float((int32_t)yki_onnx_get_int(im, "to", 0)));
}

/* To the type of another value. */
yoke_status
yki_onnx_cast_like(yki_onnx_importer *im)
{
    const yki_onnx_item *x = im->in[0], *like = im->in[1];
    const bool to_float =
        like->kind == YKI_ONNX_NODE ? like->node->type == YOKE_F32 : like->is_float;

    if (x->kind == YKI_ONNX_CONSTANT)
        return cast_to(im, to_float);
    return to_float == (x->node->type == YOKE_F32)
               ? yki_onnx_pass(im, im->in[0])
               : yki_onnx_refuse(im, "it makes floats of whole numbers, or the reverse");
}

/* ---- two operands ---- */

/* False: the result is not defined, or too large. */
static bool
compute_ints(char op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case 'A':
        return !__builtin_add_overflow(a, b, out);
    case 'S':
        return !__builtin_sub_overflow(a, b, out);
    case 'M':
        return !__builtin_mul_overflow(a, b, out);
    case 'D':
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *out = a / b;
        return true;
    default:
        return false;
    }
}

static double
compute_floats(char op, double a, double b)
{
    return op == 'A'   ? a + b
           : op == 'S' ? a - b
           : op == 'M' ? a * b
           : op == 'D' ? a / b
                       : pow(a, b);
}

bool
yki_onnx_broadcast(const yki_onnx_item *a, const yki_onnx_item *b, int32_t *rank, int64_t *dim)
{
    *rank = YKI_MAX(a->rank, b->rank);
    for (int32_t i = 0; i < *rank; i++) {
        const int32_t left = i - (*rank - a->rank), right = i - (*rank - b->rank);
        const int64_t x = left >= 0 ? a->dim[left] : 1, y = right >= 0 ? b->dim[right] : 1;

        if (x != y && x != 1 && y != 1)
            return false;
        dim[i] = x == 1 ? y : x;
    }
    return true;
}

int64_t
yki_onnx_element(const yki_onnx_item *x, int64_t index, int32_t rank, const int64_t *dim)
{
    int64_t at = 0, step = 1;

    for (int32_t i = rank - 1; i >= 0; i--) {
        const int32_t own = i - (rank - x->rank);
        const int64_t place = index % dim[i];

        index /= dim[i];
        if (own < 0)
            continue;
        at += x->dim[own] == 1 ? 0 : place * step;
        step *= x->dim[own];
    }
    return at;
}

/* The batch times a number, or divided by one, is still the batch times a number. */
static bool
join_batches(char op, bool a, bool b, bool *out)
{
    *out = a || b;
    if (op == 'A' || op == 'S')
        return a == b;
    if (op == 'D' && a && b)
        *out = false;
    return op == 'M' ? !(a && b) : op == 'D' ? a || !b : !a && !b;
}

yoke_status
yki_onnx_two_constants(yki_onnx_importer *im, int32_t *rank, int64_t *dim)
{
    yki_onnx_item *a = im->in[0], *b = im->in[1];

    YKI_TRY(yki_onnx_numbers(im, a));
    YKI_TRY(yki_onnx_numbers(im, b));
    if (a->is_float != b->is_float || !yki_onnx_broadcast(a, b, rank, dim))
        return yki_onnx_refuse(im, "\"%s\" and \"%s\" differ in type or do not fit in shape",
                               a->name, b->name);
    return YOKE_OK;
}

yoke_status
yki_onnx_fold_two(yki_onnx_importer *im)
{
    yki_onnx_item *a = im->in[0], *b = im->in[1], *out = im->out;
    const char op = im->node->op[0];
    int64_t dim[YKI_ONNX_RANK];
    int32_t rank;

    YKI_TRY(yki_onnx_two_constants(im, &rank, dim));
    YKI_TRY(yki_onnx_new_constant(im, a->is_float, rank, dim));
    out->literal = a->literal && b->literal;
    if (a->batches || b->batches) {
        out->batches = yki_onnx_keep(im->model, (size_t)out->count, sizeof *out->batches);
        if (!out->batches)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t left = yki_onnx_element(a, i, rank, dim),
                      right = yki_onnx_element(b, i, rank, dim);

        if (a->is_float)
            out->floats[i] =
                (float)compute_floats(op, (double)a->floats[left], (double)b->floats[right]);
        else if (!compute_ints(op, a->ints[left], b->ints[right], &out->ints[i]))
            return yki_onnx_refuse(im, "its result is no whole number that fits 64 bits");
        if (out->batches && !join_batches(op, a->batches && a->batches[left],
                                          b->batches && b->batches[right], &out->batches[i]))
            return yki_onnx_refuse(im, "it adds to the size of the batch; may multiply it alone");
    }
    return YOKE_OK;
}

/* ---- new constants ---- */

static yoke_status
fold_constant(yki_onnx_importer *im)
{
    const yki_onnx_attr *a = im->node->attr_count == 1 ? &im->node->attrs[0] : NULL;
    const int64_t count = a ? (int64_t)a->count : 0;
    yki_onnx_item *out = im->out;

    if (a && strcmp(a->name, "value") == 0 && a->tensor) {
        out->kind = YKI_ONNX_CONSTANT;
        out->tensor = a->tensor;
        out->is_float = yki_onnx_is_float(a->tensor->type);
        out->literal = true;
        out->rank = a->tensor->rank;
        memcpy(out->dim, a->tensor->dim, sizeof out->dim);
        out->count = a->tensor->count;
        return YOKE_OK;
    }
    if (a && strcmp(a->name, "value_int") == 0) {
        YKI_TRY(yki_onnx_new_constant(im, false, 0, NULL));
        out->ints[0] = a->i;
    } else if (a && strcmp(a->name, "value_float") == 0) {
        YKI_TRY(yki_onnx_new_constant(im, true, 0, NULL));
        out->floats[0] = a->f;
    } else if (a && strcmp(a->name, "value_ints") == 0 && a->ints) {
        YKI_TRY(yki_onnx_new_constant(im, false, 1, &count));
        memcpy(out->ints, a->ints, a->count * sizeof *a->ints);
    } else if (a && strcmp(a->name, "value_floats") == 0 && a->floats) {
        YKI_TRY(yki_onnx_new_constant(im, true, 1, &count));
        memcpy(out->floats, a->floats, a->count * sizeof *a->floats);
    } else {
        return yki_onnx_refuse(im, "its value is no tensor, number or list of numbers");
    }
    return YOKE_OK;
}

static yoke_status
fold_shape(yki_onnx_importer *im)
{
    int64_t dim[YKI_ONNX_RANK], begin, end, count;
    const int32_t rank = yki_onnx_dims(im->in[0], dim);

    begin = yki_onnx_get_int(im, "start", 0);
    end = yki_onnx_get_int(im, "end", rank);
    begin = YKI_MIN(YKI_MAX(begin < 0 ? begin + rank : begin, 0), rank);
    end = YKI_MIN(YKI_MAX(end < 0 ? end + rank : end, begin), rank);
    count = end - begin;
    YKI_TRY(yki_onnx_new_constant(im, false, 1, &count));
    im->out->batches = yki_onnx_keep(im->model, (size_t)count, sizeof *im->out->batches);
    if (!im->out->batches)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        im->out->batches[i] = dim[begin + i] < 0;
        im->out->ints[i] = dim[begin + i] < 0 ? 1 : dim[begin + i];
    }
    return YOKE_OK;
}

const yki_onnx_row yki_onnx_constants[] = {
    {"Constant", 0, 0, NULL, fold_constant},
    {"Shape", 1, 1, NULL, fold_shape},
    {NULL, 0, 0, NULL, NULL},
};
