/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_products.c - imports products of matrices. With a matrix of constants they are dense layers,
 * and what is added to nothing but their result is their bias. A table that an embedding has
 * already stays one parameter with it.
 */
#include <string.h>

#include "data/onnx_import.h"
#include "op/ops.h"

/* A copy with the two axes exchanged, times `factor`. */
static yoke_status
turn(yki_onnx_importer *im, const float *in, int64_t rows, int64_t columns, float **out)
{
    *out = yki_onnx_keep(im->model, (size_t)(rows * columns), sizeof **out);
    if (!*out)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            (*out)[c * rows + r] = in[r * columns + c];
    return YOKE_OK;
}

static yoke_status
scaled(yki_onnx_importer *im, const float *in, int64_t count, float factor, float **out)
{
    *out = yki_onnx_keep(im->model, (size_t)count, sizeof **out);
    if (!*out)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = in[i] * factor;
    return YOKE_OK;
}

/* A dense layer of the matrix: (units, in), or (in, units) with `turned`. `bias` has one number for
 * each unit, or is NULL. */
static yoke_status
make_dense(yki_onnx_importer *im, yoke_node *x, yki_onnx_item *matrix, bool turned, float factor,
           float *bias)
{
    const int64_t units = matrix->dim[turned ? 1 : 0];
    yoke_dense_options o = {.units = units, .no_bias = !bias};
    float *weight;
    yoke_node *y;

    YKI_TRY(yki_onnx_numbers(im, matrix));
    weight = matrix->floats;
    if (!weight || matrix->count == 0)
        return yki_onnx_refuse(im, "\"%s\" has no floats; must have", matrix->name);
    if (x->shape.rank == 0 || x->shape.dim[x->shape.rank - 1] != matrix->dim[turned ? 0 : 1])
        return yki_onnx_refuse(im, "\"%s\" does not have as many rows as a sample has columns",
                               matrix->name);
    if (turned)
        YKI_TRY(turn(im, weight, matrix->dim[0], matrix->dim[1], &weight));
    if (factor != 1)
        YKI_TRY(scaled(im, weight, matrix->count, factor, &weight));
    o.name = yki_onnx_layer_name(im, matrix);
    if (!o.name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    y = yoke_dense(im->graph, x, &o);
    YKI_TRY(yki_onnx_give(im, y));
    YKI_TRY(yki_onnx_set_part(im, o.name, "weight", weight));
    y->inputs[1]->frozen = matrix->literal;
    if (factor == 1) {
        matrix->parameter = y->inputs[1];
        matrix->turned = turned;
    }
    return bias ? yki_onnx_set_part(im, o.name, "bias", bias) : YOKE_OK;
}

/* ---- MatMul ---- */

/* The constant that the only reader of the result adds to each row; NULL: there is none. */
static yoke_status
find_bias(yki_onnx_importer *im, int64_t units, yki_onnx_item **bias)
{
    const yki_onnx_node *reader = im->out->uses == 1 ? &im->model->nodes[im->out->reader] : NULL;
    yki_onnx_item *item;
    size_t other;

    *bias = NULL;
    if (!reader || strcmp(reader->op, "Add") != 0 || reader->input_count != 2)
        return YOKE_OK;
    other = strcmp(reader->inputs[0], im->out->name) == 0;
    item = yki_onnx_find_value(im, reader->inputs[other]);
    if (!item || item->kind != YKI_ONNX_CONSTANT || !item->is_float || item->rank != 1 ||
        item->count != units || item->parameter)
        return YOKE_OK;
    YKI_TRY(yki_onnx_numbers(im, item));
    *bias = item;
    return YOKE_OK;
}

/* The product with a matrix of constants. */
static yoke_status
multiply_constant(yki_onnx_importer *im, yoke_node *x, yki_onnx_item *b)
{
    yki_onnx_item *const straight = b->turned_of ? b->turned_of : b;
    const bool turned = straight == b; /* the layer wants (units, in) */
    yki_onnx_item *bias;

    if (straight->parameter) {
        const yoke_matmul_options o = {.transpose_b = straight->turned == turned};

        return yki_onnx_give(im, yoke_matmul(im->graph, x, straight->parameter, &o));
    }
    YKI_TRY(find_bias(im, b->dim[1], &bias));
    YKI_TRY(make_dense(im, x, straight, turned, 1, bias ? bias->floats : NULL));
    im->out->absorbed = bias;
    return YOKE_OK;
}

static yoke_status
make_matmul(yki_onnx_importer *im)
{
    yki_onnx_item *a = im->in[0], *b = im->in[1];
    int64_t dim[YKI_ONNX_RANK];
    yoke_node *left, *right;

    if (a->kind == YKI_ONNX_NODE && b->kind == YKI_ONNX_CONSTANT && b->rank == 2) {
        YKI_TRY(yki_onnx_moved_node(im, a, &left));
        if (a->batch.at == yki_onnx_dims(a, dim) - 1)
            return yki_onnx_refuse(im, "it works along the batch; must work on each sample");
        YKI_TRY(multiply_constant(im, left, b));
        im->out->batch = a->batch;
        return YOKE_OK;
    }
    /* Matrices of samples and of what is joined to them. */
    if (a->kind == YKI_ONNX_NODE && b->kind == YKI_ONNX_NODE && a->batch.joined &&
        b->batch.joined && a->batch.at == 0 && b->batch.at == 0) {
        YKI_TRY(yki_onnx_moved_node(im, a, &left));
        YKI_TRY(yki_onnx_moved_node(im, b, &right));
        if (left->shape.rank != 3 || right->shape.rank != 3 ||
            left->shape.dim[0] != right->shape.dim[0])
            return yki_onnx_refuse(im, "it multiplies different numbers of matrices");
        return yki_onnx_give_moved(im, yoke_matmul(im->graph, left, right, NULL), a->batch);
    }
    if (a->kind == YKI_ONNX_CONSTANT) {
        YKI_TRY(yki_onnx_node_of(im, b, &right));
        YKI_TRY(yki_onnx_operand(im, a, right, &left));
    } else {
        YKI_TRY(yki_onnx_node_of(im, a, &left));
        YKI_TRY(yki_onnx_operand(im, b, left, &right));
    }
    if (left->shape.rank < 2 || right->shape.rank < 2)
        return yki_onnx_refuse(im, "it multiplies samples of different numbers; must multiply "
                                   "matrices of each sample, or by a constant matrix");
    return yki_onnx_give(im, yoke_matmul(im->graph, left, right, NULL));
}

/* ---- Gemm ---- */

/* The numbers that are added: one for each unit, or one for all. NULL: there are none. */
static yoke_status
get_bias(yki_onnx_importer *im, int64_t units, float **bias)
{
    const float beta = yki_onnx_get_float(im, "beta", 1);
    yki_onnx_item *c = im->in_count > 2 ? im->in[2] : NULL;

    *bias = NULL;
    if (!c)
        return YOKE_OK;
    YKI_TRY(yki_onnx_numbers(im, c));
    if (!c->is_float || (c->count != 1 && (c->count != units || c->dim[c->rank - 1] != units)))
        return yki_onnx_refuse(im,
                               "\"%s\" has %lld elements; must have one, or one for each of "
                               "the %lld columns",
                               c->name, (long long)c->count, (long long)units);
    *bias = yki_onnx_keep(im->model, (size_t)units, sizeof **bias);
    if (!*bias)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < units; i++)
        (*bias)[i] = c->floats[c->count == 1 ? 0 : i] * beta;
    return YOKE_OK;
}

static yoke_status
make_gemm(yki_onnx_importer *im)
{
    const bool turned = !yki_onnx_get_int(im, "transB", 0);
    yki_onnx_item *b = im->in[1];
    float *bias;
    yoke_node *x;

    if (b->kind != YKI_ONNX_CONSTANT || b->rank != 2 || yki_onnx_get_int(im, "transA", 0))
        return yki_onnx_refuse(im, "it is no product of each sample and a constant matrix; must be "
                                   "one");
    if (b->parameter)
        return yki_onnx_refuse(im,
                               "its weight \"%s\" belongs to another layer too; must have its "
                               "own",
                               b->name);
    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    if (x->shape.rank != 1)
        return yki_onnx_refuse(im, "a sample has %d axes; must have one", (int)x->shape.rank);
    YKI_TRY(get_bias(im, b->dim[turned ? 1 : 0], &bias));
    return make_dense(im, x, b, turned, yki_onnx_get_float(im, "alpha", 1), bias);
}

const yki_onnx_row yki_onnx_products[] = {
    {"MatMul", 2, 2, make_matmul, NULL},
    {"Gemm", 2, 3, make_gemm, NULL},
    {NULL, 0, 0, NULL, NULL},
};
