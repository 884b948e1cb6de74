/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_export_layers.c - writes layers for ONNX: products, convolutions, pooling, norms and
 * embeddings.
 */
#include <string.h>

#include "data/onnx_export.h"

#define WRITE(name)                                                                                \
    static yoke_status write_##name(yki_onnx_exporter *ex, const yoke_node *n,                     \
                                    const yki_json_options *o, const char *const *in,              \
                                    const char *out)

/* ---- products ---- */

WRITE(dense)
{
    const char *weight = yki_onnx_name(ex, n->inputs[1]), *y;
    const char *bias = o->dense.no_bias ? NULL : yki_onnx_name(ex, n->inputs[2]);

    if (yki_onnx_lead(n->inputs[0]) + n->inputs[0]->shape.rank == 2) {
        yki_onnx_attr_int(ex, "transB", 1);
        yki_onnx_emit(ex, "Gemm", out, in[0], weight, bias, NULL);
        return YOKE_OK;
    }
    yki_onnx_attr_ints(ex, "perm", (const int64_t[]){1, 0}, 2);
    weight = yki_onnx_emit(ex, "Transpose", NULL, weight, NULL);
    y = yki_onnx_emit(ex, "MatMul", bias ? NULL : out, in[0], weight, NULL);
    if (bias)
        yki_onnx_emit(ex, "Add", out, y, bias, NULL);
    return YOKE_OK;
}

/* An operand of a product with its last two axes exchanged, if that is asked for. */
static const char *
turned(yki_onnx_exporter *ex, const yoke_node *x, bool turn, const char *name)
{
    const int rank = yki_onnx_lead(x) + x->shape.rank;
    int64_t perm[YOKE_MAX_RANK + 2];

    if (!turn)
        return name;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    yki_onnx_attr_ints(ex, "perm", perm, (size_t)rank);
    return yki_onnx_emit(ex, "Transpose", NULL, name, NULL);
}

WRITE(matmul)
{
    const yoke_node *a = n->inputs[0], *b = n->inputs[1];

    if ((a->batched || a->length) && (b->batched || b->length) && a->shape.rank != b->shape.rank)
        return yki_onnx_cannot(n, "multiplies samples of different numbers of axes");
    if (a->shape.rank < 2 && (b->batched || o->matmul.transpose_a))
        return yki_onnx_cannot(n, "multiplies a vector by a matrix of each sample");
    if (!a->batched && b->batched && a->shape.rank > b->shape.rank)
        return yki_onnx_cannot(n, "multiplies more axes than a sample has");
    yki_onnx_emit(ex, "MatMul", out, turned(ex, a, o->matmul.transpose_a, in[0]),
                  turned(ex, b, o->matmul.transpose_b, in[1]), NULL);
    return YOKE_OK;
}

/* ---- windows ---- */

/* The attributes that convolutions and pooling share; sizes of 0 are left out. */
static void
add_window(yki_onnx_exporter *ex, const int64_t kernel[2], const int64_t stride[2],
           const int64_t pad[2])
{
    const int64_t pads[4] = {pad[0], pad[1], pad[0], pad[1]};

    yki_onnx_attr_ints(ex, "kernel_shape", kernel, 2);
    if (stride[0])
        yki_onnx_attr_ints(ex, "strides", stride, 2);
    if (pad[0] || pad[1])
        yki_onnx_attr_ints(ex, "pads", pads, 4);
}

WRITE(conv2d)
{
    const yoke_conv2d_options *c = &o->conv2d;

    add_window(ex, c->kernel, c->stride, c->pad);
    if (c->dilation[0])
        yki_onnx_attr_ints(ex, "dilations", c->dilation, 2);
    if (c->groups)
        yki_onnx_attr_int(ex, "group", c->groups);
    yki_onnx_emit(ex, "Conv", out, in[0], yki_onnx_name(ex, n->inputs[1]),
                  c->no_bias ? NULL : yki_onnx_name(ex, n->inputs[2]), NULL);
    return YOKE_OK;
}

WRITE(conv_transpose2d)
{
    const yoke_conv_transpose2d_options *c = &o->conv_transpose2d;

    add_window(ex, c->kernel, c->stride, c->pad);
    if (c->dilation[0])
        yki_onnx_attr_ints(ex, "dilations", c->dilation, 2);
    if (c->output_pad[0] || c->output_pad[1])
        yki_onnx_attr_ints(ex, "output_padding", c->output_pad, 2);
    if (c->groups)
        yki_onnx_attr_int(ex, "group", c->groups);
    yki_onnx_emit(ex, "ConvTranspose", out, in[0], yki_onnx_name(ex, n->inputs[1]),
                  c->no_bias ? NULL : yki_onnx_name(ex, n->inputs[2]), NULL);
    return YOKE_OK;
}

static void
write_pool(yki_onnx_exporter *ex, const char *op, const yoke_pool2d_options *p, const char *in,
           const char *out)
{
    add_window(ex, p->kernel, p->stride[0] ? p->stride : p->kernel, p->pad);
    if (p->ceil_mode)
        yki_onnx_attr_int(ex, "ceil_mode", 1);
    if (!p->exclude_pad && strcmp(op, "AveragePool") == 0)
        yki_onnx_attr_int(ex, "count_include_pad", 1);
    yki_onnx_emit(ex, op, out, in, NULL);
}

WRITE(maxpool2d)
{
    (void)n;
    write_pool(ex, "MaxPool", &o->pool, in[0], out);
    return YOKE_OK;
}

WRITE(avgpool2d)
{
    (void)n;
    write_pool(ex, "AveragePool", &o->pool, in[0], out);
    return YOKE_OK;
}

WRITE(global_avgpool)
{
    (void)n;
    (void)o;
    yki_onnx_emit(ex, "Flatten", out, yki_onnx_emit(ex, "GlobalAveragePool", NULL, in[0], NULL),
                  NULL);
    return YOKE_OK;
}

/* ---- norms ---- */

/* As many equal numbers. */
static const char *
filled(yki_onnx_exporter *ex, float value, int32_t rank, const int64_t *dim)
{
    int64_t count = 1;
    float *values;
    const char *name;

    for (int32_t i = 0; i < rank; i++)
        count *= dim[i];
    values = yki_alloc((size_t)count, sizeof *values, "numbers");
    if (!values) {
        ex->failed = true;
        return "";
    }
    for (int64_t i = 0; i < count; i++)
        values[i] = value;
    name = yki_onnx_floats(ex, values, rank, dim);
    yki_free(values);
    return name;
}

/* By the running statistics. */
WRITE(batch_norm)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&n->attrs);
    const yoke_node *stats = n->inputs[1];
    const char *weight, *bias;
    yoke_node *states[YKI_MAX_INPUTS];
    const yki_op *known;

    if (stats->op->evaluation(stats, &known, states) != 2)
        return yki_onnx_cannot(n, "has no running statistics");
    if (o->batch_norm.no_affine) {
        weight = filled(ex, 1, 1, n->shape.dim);
        bias = filled(ex, 0, 1, n->shape.dim);
    } else {
        weight = yki_onnx_name(ex, n->inputs[2]);
        bias = yki_onnx_name(ex, n->inputs[3]);
    }
    yki_onnx_attr_float(ex, "epsilon", a.epsilon);
    yki_onnx_attr_float(ex, "momentum",
                        1 - (o->batch_norm.momentum > 0 ? o->batch_norm.momentum : 0.1f));
    yki_onnx_emit(ex, "BatchNormalization", out, in[0], weight, bias, yki_onnx_name(ex, states[0]),
                  yki_onnx_name(ex, states[1]), NULL);
    return YOKE_OK;
}

WRITE(layer_norm)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&n->attrs);
    const int64_t *dim = n->shape.dim + (n->shape.rank - a.axes);
    const bool plain = o->layer_norm.no_affine;

    yki_onnx_attr_int(ex, "axis", -a.axes);
    yki_onnx_attr_float(ex, "epsilon", a.epsilon);
    if (plain) {
        yki_wire_out attrs = ex->attrs;
        const char *ones;

        memset(&ex->attrs, 0, sizeof ex->attrs);
        ones = filled(ex, 1, a.axes, dim);
        ex->attrs = attrs;
        yki_onnx_emit(ex, "LayerNormalization", out, in[0], ones, NULL);
    } else {
        yki_onnx_emit(ex, "LayerNormalization", out, in[0], yki_onnx_name(ex, n->inputs[1]),
                      yki_onnx_name(ex, n->inputs[2]), NULL);
    }
    return YOKE_OK;
}

/* x / sqrt(the mean of x * x + epsilon) * weight. */
WRITE(rms_norm)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&n->attrs);
    int64_t axes[YOKE_MAX_RANK];
    const char *list, *y;

    for (int32_t i = 0; i < a.axes; i++)
        axes[i] = i - a.axes;
    list = yki_onnx_ints(ex, axes, (size_t)a.axes);
    y = yki_onnx_emit(ex, "Mul", NULL, in[0], in[0], NULL);
    y = yki_onnx_emit(ex, "ReduceMean", NULL, y, list, NULL);
    y = yki_onnx_emit(ex, "Add", NULL, y, yki_onnx_number(ex, a.epsilon), NULL);
    y = yki_onnx_emit(ex, "Sqrt", NULL, y, NULL);
    y = yki_onnx_emit(ex, "Div", o->layer_norm.no_affine ? out : NULL, in[0], y, NULL);
    if (!o->layer_norm.no_affine)
        yki_onnx_emit(ex, "Mul", out, y, yki_onnx_name(ex, n->inputs[1]), NULL);
    return YOKE_OK;
}

WRITE(embedding)
{
    (void)o;
    yki_onnx_emit(ex, "Gather", out, yki_onnx_name(ex, n->inputs[1]), in[0], NULL);
    return YOKE_OK;
}

const yki_onnx_export_row yki_onnx_export_layers[] = {
    {"dense", write_dense},
    {"matmul", write_matmul},
    {"conv2d", write_conv2d},
    {"conv_transpose2d", write_conv_transpose2d},
    {"maxpool2d", write_maxpool2d},
    {"avgpool2d", write_avgpool2d},
    {"global_avgpool", write_global_avgpool},
    {"batch_norm", write_batch_norm},
    {"layer_norm", write_layer_norm},
    {"rms_norm", write_rms_norm},
    {"embedding", write_embedding},
    {NULL, NULL},
};
