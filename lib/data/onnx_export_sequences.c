/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_export_sequences.c - writes for ONNX what language models have: attention, rotary positions
 * and gated units, as the operators that they are made of.
 *
 * Rows of a sample are (N, T, columns), whether they are a sequence or not. Heads that share keys
 * are an axis of their own, over which the keys are repeated by broadcasting.
 */
#include <math.h>
#include <string.h>

#include "data/onnx_export.h"

#define WRITE(name)                                                                                \
    static yoke_status write_##name(yki_onnx_exporter *ex, const yoke_node *n,                     \
                                    const yki_json_options *o, const char *const *in,              \
                                    const char *out)

/* What the softmax makes 0 of, beside any score. */
#define HIDDEN -1e30f

static const char *
slice(yki_onnx_exporter *ex, const char *x, int64_t axis, int64_t begin, int64_t end)
{
    return yki_onnx_emit(ex, "Slice", NULL, x, yki_onnx_ints(ex, &begin, 1),
                         yki_onnx_ints(ex, &end, 1), yki_onnx_ints(ex, &axis, 1), NULL);
}

/* A size of 0 stays as it is. */
static const char *
reshape(yki_onnx_exporter *ex, const char *x, const char *out, const int64_t *dim, size_t rank)
{
    return yki_onnx_emit(ex, "Reshape", out, x, yki_onnx_ints(ex, dim, rank), NULL);
}

static const char *
transpose(yki_onnx_exporter *ex, const char *x, const int64_t perm[5])
{
    yki_onnx_attr_ints(ex, "perm", perm, 5);
    return yki_onnx_emit(ex, "Transpose", NULL, x, NULL);
}

/* ---- attention ---- */

/* Columns of x as (N, shared, heads / shared, T, width). */
static const char *
heads_of(yki_onnx_exporter *ex, const char *x, int64_t begin, const int64_t dim[5],
         const int64_t perm[5])
{
    x = slice(ex, x, 2, begin, begin + dim[2] * dim[3] * dim[4]);
    return transpose(ex, reshape(ex, x, NULL, dim, 5), perm);
}

/* 0 where a row may look, (T, T). */
static const char *
mask_of(yki_onnx_exporter *ex, const yoke_node *x)
{
    const int64_t one[2] = {1, 1};
    const float hidden = HIDDEN;
    const char *sides[2], *mask;

    if (x->length && ex->mask)
        return ex->mask;
    sides[0] = sides[1] = yki_onnx_rows(ex, x);
    yki_onnx_attr_int(ex, "axis", 0);
    mask = yki_onnx_emit_list(ex, "Concat", NULL, sides, 2);
    mask = yki_onnx_emit(ex, "Expand", NULL, yki_onnx_floats(ex, &hidden, 2, one), mask, NULL);
    sides[1] = yki_onnx_ints(ex, one, 1);
    yki_onnx_attr_int(ex, "upper", 1);
    mask = yki_onnx_emit(ex, "Trilu", NULL, mask, sides[1], NULL);
    if (x->length)
        ex->mask = mask;
    return mask;
}

WRITE(attention)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&n->attrs);
    const int64_t many = a.heads / a.shared, whole = (int64_t)a.heads * a.width;
    const int64_t queries[5] = {0, 0, a.shared, many, a.width};
    const int64_t keys[5] = {0, 0, a.shared, 1, a.width};
    const int64_t rows[5] = {0, 2, 3, 1, 4}, columns[5] = {0, 2, 3, 4, 1},
                  back[5] = {0, 3, 1, 2, 4};
    const char *q, *k, *v;

    (void)o;
    if (a.lengths || !n->batched)
        return yki_onnx_cannot(n, "is attention with lengths of its own");
    q = heads_of(ex, in[0], 0, queries, rows);
    k = heads_of(ex, in[0], whole, keys, columns);
    v = heads_of(ex, in[0], whole + (int64_t)a.shared * a.width, keys, rows);
    q = yki_onnx_emit(ex, "MatMul", NULL, q, k, NULL);
    q = yki_onnx_emit(ex, "Mul", NULL, q, yki_onnx_number(ex, a.scale), NULL);
    if (a.causal)
        q = yki_onnx_emit(ex, "Add", NULL, q, mask_of(ex, n->inputs[0]), NULL);
    yki_onnx_attr_int(ex, "axis", -1);
    q = yki_onnx_emit(ex, "Softmax", NULL, q, NULL);
    q = transpose(ex, yki_onnx_emit(ex, "MatMul", NULL, q, v, NULL), back);
    reshape(ex, q, out, (const int64_t[]){0, 0, whole}, 3);
    return YOKE_OK;
}

/* ---- rotary positions ---- */

/* Cosines or sines of all positions: (most rows, 1, ...) with the angles of a head in the other
 * axis than that of a pair. */
static const char *
table(yki_onnx_exporter *ex, const yki_rope_attrs *a, int64_t rows, bool sine)
{
    const int64_t half = a->width / 2;
    const int64_t dim[4] = {rows, 1, a->interleaved ? half : 1, a->interleaved ? 1 : half};
    float *values = yki_alloc((size_t)(rows * half), sizeof *values, "rotary positions");
    const char *name;

    if (!values) {
        ex->failed = true;
        return "";
    }
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < half; i++) {
            const double angle =
                (double)t * pow((double)a->base, -2.0 * (double)i / (double)a->width);

            values[t * half + i] = (float)(sine ? sin(angle) : cos(angle));
        }
    name = yki_onnx_floats(ex, values, 4, dim);
    yki_free(values);
    return name;
}

/* Of the positions that this batch has. */
static const char *
turns_of(yki_onnx_exporter *ex, const yki_rope_attrs *a, const yoke_node *x, bool sine)
{
    const char *all = table(ex, a, x->length ? x->length : x->shape.dim[0], sine);
    const int64_t zero = 0;
    const char *begin, *end;

    if (!x->length)
        return all;
    begin = yki_onnx_ints(ex, &zero, 1);
    end = yki_onnx_rows(ex, x);
    return yki_onnx_emit(ex, "Slice", NULL, all, begin, end, begin, NULL);
}

/* a * b + c * d, or with a minus. */
static const char *
two_products(yki_onnx_exporter *ex, const char *op, const char *a, const char *b, const char *c,
             const char *d)
{
    a = yki_onnx_emit(ex, "Mul", NULL, a, b, NULL);
    c = yki_onnx_emit(ex, "Mul", NULL, c, d, NULL);
    return yki_onnx_emit(ex, op, NULL, a, c, NULL);
}

/* The heads that turn are pairs of numbers: half a head apart, or neighbours. */
static const char *
turn(yki_onnx_exporter *ex, const yki_rope_attrs *a, const char *x, const char *cosine,
     const char *sine)
{
    const int64_t half = a->width / 2, axis = a->interleaved ? 4 : 3;
    const int64_t heads = a->heads + a->shared;
    const char *first, *second, *both[2];

    x = reshape(
        ex, x, NULL,
        (const int64_t[]){0, 0, heads, a->interleaved ? half : 2, a->interleaved ? 2 : half}, 5);
    first = slice(ex, x, axis, 0, 1);
    second = slice(ex, x, axis, 1, 2);
    both[0] = two_products(ex, "Sub", first, cosine, second, sine);
    both[1] = two_products(ex, "Add", second, cosine, first, sine);
    yki_onnx_attr_int(ex, "axis", axis);
    x = yki_onnx_emit_list(ex, "Concat", NULL, both, 2);
    return reshape(ex, x, NULL, (const int64_t[]){0, 0, heads * a->width}, 3);
}

WRITE(rope)
{
    const yki_rope_attrs a = yki_rope_attrs_get(&n->attrs);
    const int64_t turned = (int64_t)(a.heads + a.shared) * a.width;
    const yoke_node *x = n->inputs[0];
    const char *parts[2], *cosine, *sine;

    (void)o;
    if (n->input_count > 1 || !n->batched)
        return yki_onnx_cannot(n, "turns from a position of its own");
    cosine = turns_of(ex, &a, x, false);
    sine = turns_of(ex, &a, x, true);
    parts[0] = turn(ex, &a, slice(ex, in[0], 2, 0, turned), cosine, sine);
    parts[1] = slice(ex, in[0], 2, turned, turned + (int64_t)a.shared * a.width);
    yki_onnx_attr_int(ex, "axis", 2);
    yki_onnx_emit_list(ex, "Concat", out, parts, 2);
    return YOKE_OK;
}

/* ---- gated units ---- */

WRITE(swiglu)
{
    const int64_t width = n->shape.dim[n->shape.rank - 1];
    const int64_t axis = yki_onnx_lead(n) + n->shape.rank - 1;
    const char *gate = slice(ex, in[0], axis, 0, width), *other;

    (void)o;
    other = slice(ex, in[0], axis, width, 2 * width);
    gate =
        yki_onnx_emit(ex, "Mul", NULL, gate, yki_onnx_emit(ex, "Sigmoid", NULL, gate, NULL), NULL);
    yki_onnx_emit(ex, "Mul", out, gate, other, NULL);
    return YOKE_OK;
}

const yki_onnx_export_row yki_onnx_export_sequences[] = {
    {"attention", write_attention},
    {"rope", write_rope},
    {"swiglu", write_swiglu},
    {NULL, NULL},
};
