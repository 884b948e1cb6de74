/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_export_elements.c - writes for ONNX what works on elements, sums, and what moves elements.
 */
#include <string.h>

#include "data/onnx_export.h"

#define WRITE(name)                                                                                \
    static yoke_status write_##name(yki_onnx_exporter *ex, const yoke_node *n,                     \
                                    const yki_json_options *o, const char *const *in,              \
                                    const char *out)

/* ---- one operand ---- */

#define WRITE_ONE(name, op)                                                                        \
    WRITE(name)                                                                                    \
    {                                                                                              \
        (void)n;                                                                                   \
        (void)o;                                                                                   \
        yki_onnx_emit(ex, op, out, in[0], NULL);                                                   \
        return YOKE_OK;                                                                            \
    }
WRITE_ONE(relu, "Relu")
WRITE_ONE(sigmoid, "Sigmoid")
WRITE_ONE(tanh, "Tanh")
WRITE_ONE(gelu, "Gelu")
WRITE_ONE(hardswish, "HardSwish")
WRITE_ONE(exp, "Exp")
WRITE_ONE(log, "Log")
WRITE_ONE(sqrt, "Sqrt")
WRITE_ONE(abs, "Abs")

WRITE(gelu_tanh)
{
    (void)n;
    (void)o;
    yki_onnx_attr_text(ex, "approximate", "tanh");
    yki_onnx_emit(ex, "Gelu", out, in[0], NULL);
    return YOKE_OK;
}

WRITE(silu)
{
    (void)n;
    (void)o;
    yki_onnx_emit(ex, "Mul", out, in[0], yki_onnx_emit(ex, "Sigmoid", NULL, in[0], NULL), NULL);
    return YOKE_OK;
}

WRITE(leaky_relu)
{
    (void)n;
    yki_onnx_attr_float(ex, "alpha", o->plain.a);
    yki_onnx_emit(ex, "LeakyRelu", out, in[0], NULL);
    return YOKE_OK;
}

WRITE(elu)
{
    (void)n;
    yki_onnx_attr_float(ex, "alpha", o->plain.a);
    yki_onnx_emit(ex, "Elu", out, in[0], NULL);
    return YOKE_OK;
}

WRITE(pow)
{
    (void)n;
    yki_onnx_emit(ex, "Pow", out, in[0], yki_onnx_number(ex, o->plain.a), NULL);
    return YOKE_OK;
}

WRITE(scale)
{
    const char *factor = yki_onnx_number(ex, o->plain.a);

    (void)n;
    if (o->plain.b == 0) {
        yki_onnx_emit(ex, "Mul", out, in[0], factor, NULL);
        return YOKE_OK;
    }
    factor = yki_onnx_emit(ex, "Mul", NULL, in[0], factor, NULL);
    yki_onnx_emit(ex, "Add", out, factor, yki_onnx_number(ex, o->plain.b), NULL);
    return YOKE_OK;
}

WRITE(softmax)
{
    yki_onnx_attr_int(ex, "axis", o->plain.axis + yki_onnx_lead(n));
    yki_onnx_emit(ex, "Softmax", out, in[0], NULL);
    return YOKE_OK;
}

/* ---- two operands ---- */

/* The rows of a parameter for positions that this batch of sequences has. */
static const char *
first_rows(yki_onnx_exporter *ex, const yoke_node *n, const char *in)
{
    const yoke_node *x = n->inputs[0]->length ? n->inputs[0] : n->inputs[1];

    return yki_onnx_emit(ex, "Slice", NULL, in, yki_onnx_ints(ex, (const int64_t[]){0}, 1),
                         yki_onnx_rows(ex, x), yki_onnx_ints(ex, (const int64_t[]){0}, 1), NULL);
}

/* Beside an operand of more axes, axes of size 1 behind the batch take their place. */
static const char *
widen(yki_onnx_exporter *ex, const yoke_node *x, int32_t rank, const char *in)
{
    int64_t axes[YOKE_MAX_RANK];
    const int32_t more = rank - x->shape.rank;

    if (!x->batched || more <= 0)
        return in;
    for (int32_t i = 0; i < more; i++)
        axes[i] = yki_onnx_lead(x) + i;
    return yki_onnx_emit(ex, "Unsqueeze", NULL, in, yki_onnx_ints(ex, axes, (size_t)more), NULL);
}

static yoke_status
write_two(yki_onnx_exporter *ex, const char *op, const yoke_node *n, const char *const *in,
          const char *out)
{
    const char *names[2];

    for (int i = 0; i < 2; i++) {
        const yoke_node *x = n->inputs[i];
        const bool positions = n->length && !x->batched && x->shape.rank > n->shape.rank;

        names[i] = positions ? first_rows(ex, n, in[i]) : widen(ex, x, n->shape.rank, in[i]);
    }
    yki_onnx_emit(ex, op, out, names[0], names[1], NULL);
    return YOKE_OK;
}

#define WRITE_TWO(name, op)                                                                        \
    WRITE(name)                                                                                    \
    {                                                                                              \
        (void)o;                                                                                   \
        return write_two(ex, op, n, in, out);                                                      \
    }
WRITE_TWO(add, "Add")
WRITE_TWO(sub, "Sub")
WRITE_TWO(mul, "Mul")
WRITE_TWO(div, "Div")
WRITE_TWO(maximum, "Max")
WRITE_TWO(minimum, "Min")

/* ---- sums ---- */

static yoke_status
write_reduce(yki_onnx_exporter *ex, const char *op, const yoke_node *x, const yki_json_options *o,
             const char *in, const char *out)
{
    int64_t axes[YOKE_MAX_RANK];
    const char *list;

    for (int32_t i = 0; i < o->plain.axes.count; i++)
        axes[i] = o->plain.axes.list[i] + yki_onnx_lead(x);
    list = yki_onnx_ints(ex, axes, (size_t)o->plain.axes.count);
    yki_onnx_attr_int(ex, "keepdims", 0);
    yki_onnx_emit(ex, op, out, in, list, NULL);
    return YOKE_OK;
}

WRITE(sum)
{
    return write_reduce(ex, "ReduceSum", n->inputs[0], o, in[0], out);
}

WRITE(mean)
{
    return write_reduce(ex, "ReduceMean", n->inputs[0], o, in[0], out);
}

/* ---- other places ---- */

WRITE(reshape)
{
    int64_t dim[YOKE_MAX_RANK + 2] = {0};
    const int lead = yki_onnx_lead(n);

    (void)o;
    memcpy(dim + lead, n->shape.dim, (size_t)n->shape.rank * sizeof *dim);
    yki_onnx_emit(ex, "Reshape", out, in[0], yki_onnx_ints(ex, dim, (size_t)(n->shape.rank + lead)),
                  NULL);
    return YOKE_OK;
}

WRITE(flatten)
{
    if (yki_onnx_lead(n) != 1)
        return write_reshape(ex, n, o, in, out);
    yki_onnx_emit(ex, "Flatten", out, in[0], NULL);
    return YOKE_OK;
}

WRITE(transpose)
{
    int64_t perm[YOKE_MAX_RANK + 2] = {0, 1};
    const int lead = yki_onnx_lead(n);

    for (int32_t i = 0; i < n->shape.rank; i++)
        perm[i + lead] = o->plain.axes.list[i] + lead;
    yki_onnx_attr_ints(ex, "perm", perm, (size_t)(n->shape.rank + lead));
    yki_onnx_emit(ex, "Transpose", out, in[0], NULL);
    return YOKE_OK;
}

/* A part that is the same for all samples, once for each. */
static const char *
repeated(yki_onnx_exporter *ex, const yoke_node *part, const yoke_node *beside, const char *in)
{
    const char *shape[2];

    yki_onnx_attr_int(ex, "start", 0);
    yki_onnx_attr_int(ex, "end", 1);
    shape[0] = yki_onnx_emit(ex, "Shape", NULL, yki_onnx_name(ex, beside), NULL);
    shape[1] = yki_onnx_ints(ex, part->shape.dim, (size_t)part->shape.rank);
    yki_onnx_attr_int(ex, "axis", 0);
    return yki_onnx_emit(ex, "Expand", NULL, in, yki_onnx_emit_list(ex, "Concat", NULL, shape, 2),
                         NULL);
}

WRITE(concat)
{
    const char *parts[YKI_MAX_INPUTS];
    const yoke_node *batched = NULL;

    for (uint32_t i = 0; i < n->input_count; i++)
        if (n->inputs[i]->batched)
            batched = n->inputs[i];
    for (uint32_t i = 0; i < n->input_count; i++) {
        const bool repeats = batched && !n->inputs[i]->batched;

        if (repeats && n->length)
            return yki_onnx_cannot(n, "joins a parameter to each row");
        parts[i] = repeats ? repeated(ex, n->inputs[i], batched, in[i]) : in[i];
    }
    yki_onnx_attr_int(ex, "axis", o->plain.axis + yki_onnx_lead(n));
    yki_onnx_emit_list(ex, "Concat", out, parts, n->input_count);
    return YOKE_OK;
}

WRITE(slice)
{
    yki_onnx_emit(ex, "Slice", out, in[0], yki_onnx_ints(ex, &o->plain.begin, 1),
                  yki_onnx_ints(ex, &o->plain.end, 1),
                  yki_onnx_ints(ex, (const int64_t[]){o->plain.axis + yki_onnx_lead(n)}, 1), NULL);
    return YOKE_OK;
}

const yki_onnx_export_row yki_onnx_export_elements[] = {
#define ROW(kind, id, name, ...) {#name, write_##name},
    YKI_UNARY_PLAIN(ROW) YKI_UNARY_NUMBER(ROW) YKI_BINARY(ROW)
#undef ROW
        {"scale", write_scale},
    {"softmax", write_softmax},
    {"sum", write_sum},
    {"mean", write_mean},
    {"flatten", write_flatten},
    {"reshape", write_reshape},
    {"transpose", write_transpose},
    {"concat", write_concat},
    {"slice", write_slice},
    {NULL, NULL},
};
