/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_elements.c - imports what works on elements, and sums over axes.
 *
 * Numbers that are added or multiplied are kept beside the node (factor and offset) and computed
 * once, by what reads the value. So 0.5 * x * (1 + erf(x / sqrt(2))) is known as a GELU, whatever
 * the order of its factors.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "data/onnx_import.h"
#include "op/ops.h"

/* ---- one operand ---- */

#define MAKE_ONE(name, call)                                                                       \
    static yoke_status make_##name(yki_onnx_importer *im)                                          \
    {                                                                                              \
        yoke_graph *const g = im->graph;                                                           \
        yoke_node *x;                                                                              \
                                                                                                   \
        YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));                                           \
        return yki_onnx_give_moved(im, call, im->in[0]->batch);                                    \
    }
MAKE_ONE(relu, yoke_relu(g, x))
MAKE_ONE(leaky_relu, yoke_leaky_relu(g, x, yki_onnx_get_float(im, "alpha", 0.01f)))
MAKE_ONE(elu, yoke_elu(g, x, yki_onnx_get_float(im, "alpha", 1)))
MAKE_ONE(sigmoid, yoke_sigmoid(g, x))
MAKE_ONE(tanh, yoke_tanh(g, x))
MAKE_ONE(hardswish, yoke_hardswish(g, x))
MAKE_ONE(exp, yoke_exp(g, x))
MAKE_ONE(log, yoke_log(g, x))
MAKE_ONE(sqrt, yoke_sqrt(g, x))
MAKE_ONE(abs, yoke_abs(g, x))
MAKE_ONE(reciprocal, yoke_pow(g, x, -1))
MAKE_ONE(softsign, yoke_div(g, x, yoke_scale(g, yoke_abs(g, x), 1, 1)))

static yoke_status
make_gelu(yki_onnx_importer *im)
{
    const bool tanh_form = strcmp(yki_onnx_get_text(im, "approximate", "none"), "tanh") == 0;
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    return yki_onnx_give(im, tanh_form ? yoke_gelu_tanh(im->graph, x) : yoke_gelu(im->graph, x));
}

static yoke_status
make_selu(yki_onnx_importer *im)
{
    const float alpha = yki_onnx_get_float(im, "alpha", 1.67326319217681884765625f);
    const float gamma = yki_onnx_get_float(im, "gamma", 1.05070102214813232421875f);
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    return yki_onnx_give_scaled(im, yoke_elu(im->graph, x, alpha), (double)gamma, 0);
}

static yoke_status
make_neg(yki_onnx_importer *im)
{
    const yki_onnx_item *x = im->in[0];

    YKI_TRY(yki_onnx_give_scaled(im, x->node, -x->factor, -x->offset));
    im->out->batch = x->batch;
    im->out->gauss = x->gauss;
    return YOKE_OK;
}

/* Of x / sqrt(2), the first step of a GELU. */
static yoke_status
make_erf(yki_onnx_importer *im)
{
    const yki_onnx_item *x = im->in[0];

    if (x->gauss || x->offset != 0 || fabs(x->factor - sqrt(0.5)) > 1e-5)
        return yki_onnx_refuse(im, "yoke has erf(x) as part of a GELU alone: x * (1 + erf(x / "
                                   "sqrt(2))) / 2");
    YKI_TRY(yki_onnx_give_scaled(im, x->node, 1, 0));
    im->out->batch = x->batch;
    im->out->gauss = true;
    return YOKE_OK;
}

static yoke_status
make_softmax(yki_onnx_importer *im)
{
    yoke_node *x;
    int32_t axis;

    YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));
    YKI_TRY(yki_onnx_node_axis(im, yki_onnx_get_int(im, "axis", -1), im->in[0], &axis));
    x = yoke_softmax(im->graph, x, axis);
    return yki_onnx_give_moved(
        im, strcmp(im->node->op, "LogSoftmax") == 0 ? yoke_log(im->graph, x) : x, im->in[0]->batch);
}

/* ---- bounds ---- */

/* The larger, or else the smaller, of the node and a number. */
static yoke_status
bound(yki_onnx_importer *im, bool least, double value, yoke_node **x)
{
    yoke_node *number;

    if (least && value == 0) {
        *x = yoke_relu(im->graph, *x);
    } else {
        YKI_TRY(yki_onnx_number_node(im, im->out->name, value, &number));
        *x = least ? yoke_maximum(im->graph, *x, number) : yoke_minimum(im->graph, *x, number);
    }
    return *x ? YOKE_OK : yki_onnx_refuse(im, "%s", im->graph->detail);
}

static yoke_status
make_clip(yki_onnx_importer *im)
{
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    for (size_t i = 1; i < im->in_count; i++) {
        double value = 0;
        bool single = true;

        if (!im->in[i])
            continue;
        YKI_TRY(yki_onnx_single(im, im->in[i], &single, &value));
        if (!single)
            return yki_onnx_refuse(im, "its bound \"%s\" is no number; must be one constant",
                                   im->in[i]->name);
        if (fabs(value) < (double)FLT_MAX)
            YKI_TRY(bound(im, i == 1, value, &x));
    }
    return yki_onnx_give(im, x);
}

static yoke_status
make_hard_sigmoid(yki_onnx_importer *im)
{
    const float alpha = yki_onnx_get_float(im, "alpha", 0.2f);
    const float beta = yki_onnx_get_float(im, "beta", 0.5f);
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    x = yoke_scale(im->graph, x, alpha, beta);
    if (x)
        YKI_TRY(bound(im, true, 0, &x));
    if (x)
        YKI_TRY(bound(im, false, 1, &x));
    return yki_onnx_give(im, x);
}

/* relu(x) + slope * (x - relu(x)): the slope is a parameter. */
static yoke_status
make_prelu(yki_onnx_importer *im)
{
    yoke_graph *const g = im->graph;
    yoke_node *x, *slope, *positive;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    YKI_TRY(yki_onnx_operand(im, im->in[1], x, &slope));
    positive = yoke_relu(g, x);
    return yki_onnx_give(im, yoke_add(g, positive, yoke_mul(g, slope, yoke_sub(g, x, positive))));
}

/* ---- two operands ---- */

typedef enum two { ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM } two;

static yoke_node *
combine(yoke_graph *g, two kind, yoke_node *a, yoke_node *b)
{
    switch (kind) {
    case ADD:
        return yoke_add(g, a, b);
    case SUB:
        return yoke_sub(g, a, b);
    case MUL:
        return yoke_mul(g, a, b);
    case DIV:
        return yoke_div(g, a, b);
    case MAXIMUM:
        return yoke_maximum(g, a, b);
    default:
        return yoke_minimum(g, a, b);
    }
}

static bool
is_batched(const yki_onnx_item *item)
{
    return item->kind == YKI_ONNX_NODE && item->node->batched;
}

/* Whether two values meet axis by axis with a batch that is not the first axis alone: both have it
 * so, or one is a constant of axes behind it. */
static bool
meet(const yki_onnx_item *a, const yki_onnx_item *b)
{
    int64_t dim[YKI_ONNX_RANK];

    if (!is_batched(a) || (a->batch.at == 0 && !a->batch.joined))
        return false;
    if (b->kind == YKI_ONNX_CONSTANT)
        return b->rank < yki_onnx_dims(a, dim) - a->batch.at;
    return is_batched(b) && a->batch.at == b->batch.at && a->batch.joined == b->batch.joined &&
           a->node->shape.rank == b->node->shape.rank;
}

/* The result of two values; the constant fits itself to the other. */
static yoke_status
combine_items(yki_onnx_importer *im, two kind, yki_onnx_item *a, yki_onnx_item *b, yoke_node **out)
{
    yoke_node *left, *right;

    if (meet(a, b) || meet(b, a)) {
        YKI_TRY(yki_onnx_moved_node(im, a, &left));
        YKI_TRY(yki_onnx_moved_node(im, b, &right));
    } else if (!is_batched(a) && is_batched(b)) {
        YKI_TRY(yki_onnx_node_of(im, b, &right));
        YKI_TRY(yki_onnx_operand(im, a, right, &left));
    } else {
        YKI_TRY(yki_onnx_node_of(im, a, &left));
        YKI_TRY(yki_onnx_operand(im, b, left, &right));
    }
    *out = combine(im->graph, kind, left, right);
    return *out ? YOKE_OK : yki_onnx_refuse(im, "%s", im->graph->detail);
}

/* A node and a number, in this order or the other; false: that is no factor and no offset. */
static bool
take_number(two kind, bool number_first, double number, double *factor, double *offset)
{
    if (number_first && (kind == SUB)) {
        *factor = -*factor;
        *offset = number - *offset;
        return true;
    }
    switch (kind) {
    case ADD:
        *offset += number;
        return true;
    case SUB:
        *offset -= number;
        return true;
    case MUL:
        *factor *= number;
        *offset *= number;
        return true;
    case DIV:
        *factor /= number;
        *offset /= number;
        return !number_first && number != 0;
    default:
        return false;
    }
}

/* Whether the constant has no more axes than the node, so that the result has the node's shape. */
static bool
keeps_shape(const yki_onnx_item *node, const yki_onnx_item *constant)
{
    int64_t dim[YKI_ONNX_RANK];

    return constant->rank <= yki_onnx_dims(node, dim);
}

/* Tries to join a number to the node's factor and offset. */
static yoke_status
join_number(yki_onnx_importer *im, two kind, bool *done)
{
    const bool first = im->in[0]->kind == YKI_ONNX_CONSTANT;
    yki_onnx_item *constant = im->in[first ? 0 : 1];
    const yki_onnx_item *x = im->in[first ? 1 : 0];
    double number, factor = x->factor, offset = x->offset;
    bool single;

    *done = false;
    YKI_TRY(yki_onnx_single(im, constant, &single, &number));
    if (!single || !keeps_shape(x, constant) ||
        !take_number(kind, first, number, &factor, &offset) || !isfinite(factor) ||
        !isfinite(offset))
        return YOKE_OK;
    if (!x->gauss && x->node->type != YOKE_F32)
        return yki_onnx_refuse(im, "\"%s\" has whole numbers; yoke computes with floats", x->name);
    *done = true;
    YKI_TRY(yki_onnx_give_scaled(im, x->node, factor, offset));
    im->out->batch = x->batch;
    im->out->gauss = x->gauss;
    return YOKE_OK;
}

/* x * (1 + erf(x / sqrt(2))) is twice the GELU of x. */
static bool
is_gelu(const yki_onnx_item *gauss, const yki_onnx_item *x)
{
    return gauss->kind == YKI_ONNX_NODE && x->kind == YKI_ONNX_NODE && gauss->gauss && !x->gauss &&
           gauss->node == x->node && x->offset == 0 &&
           fabs(gauss->factor - gauss->offset) <= 1e-6 * fabs(gauss->factor);
}

static yoke_status
make_two(yki_onnx_importer *im, two kind)
{
    yki_onnx_item *a = im->in[0], *b = im->in[1];
    yoke_node *result;
    bool done;

    if (a->kind != b->kind) {
        YKI_TRY(join_number(im, kind, &done));
        if (done)
            return YOKE_OK;
    }
    if (kind == ADD && (a->absorbed == b || b->absorbed == a))
        return yki_onnx_pass(im, a->absorbed ? a : b);
    if (kind == MUL && (is_gelu(a, b) || is_gelu(b, a))) {
        YKI_TRY(
            yki_onnx_give_scaled(im, yoke_gelu(im->graph, a->node), 2 * a->factor * b->factor, 0));
        im->out->batch = a->batch;
        return YOKE_OK;
    }
    YKI_TRY(combine_items(im, kind, a, b, &result));
    return yki_onnx_give_moved(im, result, is_batched(a) ? a->batch : b->batch);
}

#define MAKE_TWO(name, KIND)                                                                       \
    static yoke_status make_##name(yki_onnx_importer *im)                                          \
    {                                                                                              \
        return make_two(im, KIND);                                                                 \
    }
MAKE_TWO(add, ADD)
MAKE_TWO(sub, SUB)
MAKE_TWO(mul, MUL)
MAKE_TWO(div, DIV)

/* Of any number of operands. */
static yoke_status
make_extreme(yki_onnx_importer *im)
{
    const bool least = strcmp(im->node->op, "Max") == 0;
    yki_onnx_item *first = im->in[0];
    yki_onnx_item so_far = {.kind = YKI_ONNX_NODE, .factor = 1, .name = im->out->name};
    double number;
    bool single;

    for (size_t i = 1; i < im->in_count; i++) {
        yki_onnx_item *a = i == 1 ? first : &so_far, *b = im->in[i];
        yki_onnx_item *node = a->kind == YKI_ONNX_NODE ? a : b, *other = node == a ? b : a;

        YKI_TRY(yki_onnx_single(im, other, &single, &number));
        if (single && node->kind == YKI_ONNX_NODE && keeps_shape(node, other)) {
            YKI_TRY(yki_onnx_node_of(im, node, &so_far.node));
            YKI_TRY(bound(im, least, number, &so_far.node));
        } else {
            YKI_TRY(combine_items(im, least ? MAXIMUM : MINIMUM, a, b, &so_far.node));
        }
    }
    return im->in_count == 1 ? yki_onnx_pass(im, first) : yki_onnx_give(im, so_far.node);
}

static yoke_status
make_sum(yki_onnx_importer *im)
{
    yki_onnx_item so_far = {.kind = YKI_ONNX_NODE, .factor = 1, .name = im->out->name};

    for (size_t i = 1; i < im->in_count; i++)
        YKI_TRY(combine_items(im, ADD, i == 1 ? im->in[0] : &so_far, im->in[i], &so_far.node));
    return im->in_count == 1 ? yki_onnx_pass(im, im->in[0]) : yki_onnx_give(im, so_far.node);
}

static yoke_status
make_pow(yki_onnx_importer *im)
{
    bool single = false;
    double exponent;
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    YKI_TRY(yki_onnx_single(im, im->in[1], &single, &exponent));
    if (!single || !keeps_shape(im->in[0], im->in[1]))
        return yki_onnx_refuse(im, "its exponent is no number; must be one constant");
    return yki_onnx_give(im, exponent == 2     ? yoke_mul(im->graph, x, x)
                             : exponent == 0.5 ? yoke_sqrt(im->graph, x)
                                               : yoke_pow(im->graph, x, (float)exponent));
}

/* ---- sums ---- */

/* The axes of a reduction, without the batch. */
static yoke_status
get_axes(yki_onnx_importer *im, int32_t axes[YOKE_MAX_RANK], int32_t *count)
{
    const int64_t *list;
    size_t given;

    YKI_TRY(yki_onnx_list(im, 1, "axes", &list, &given));
    *count = 0;
    if (!list || given == 0)
        return yki_onnx_refuse(im,
                               "it sums over all axes, the batch too; must have a list of axes");
    for (size_t i = 0; i < given && i < YOKE_MAX_RANK; i++)
        YKI_TRY(yki_onnx_node_axis(im, list[i], im->in[0], &axes[(*count)++]));
    return YOKE_OK;
}

static yoke_status
make_reduce(yki_onnx_importer *im)
{
    const bool keep = yki_onnx_get_int(im, "keepdims", 1), mean = im->node->op[6] == 'M';
    int32_t axes[YOKE_MAX_RANK], count;
    yoke_shape kept;
    yoke_node *x, *y;

    if (im->in_count > 1 && im->in[1] && im->in[1]->count == 0 &&
        yki_onnx_get_int(im, "noop_with_empty_axes", 0))
        return yki_onnx_pass(im, im->in[0]);
    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    YKI_TRY(get_axes(im, axes, &count));
    y = mean ? yoke_mean(im->graph, x, axes, count) : yoke_sum(im->graph, x, axes, count);
    if (y && keep) {
        kept = x->shape;
        for (int32_t i = 0; i < count; i++)
            kept.dim[axes[i]] = 1;
        y = yoke_reshape(im->graph, y, kept);
    }
    return yki_onnx_give(im, y);
}

const yki_onnx_row yki_onnx_elements[] = {
    {"Relu", 1, 1, make_relu, NULL},
    {"LeakyRelu", 1, 1, make_leaky_relu, NULL},
    {"PRelu", 2, 2, make_prelu, NULL},
    {"Elu", 1, 1, make_elu, NULL},
    {"Selu", 1, 1, make_selu, NULL},
    {"Sigmoid", 1, 1, make_sigmoid, NULL},
    {"HardSigmoid", 1, 1, make_hard_sigmoid, NULL},
    {"Tanh", 1, 1, make_tanh, NULL},
    {"Gelu", 1, 1, make_gelu, NULL},
    {"Erf", 1, 1, make_erf, NULL},
    {"HardSwish", 1, 1, make_hardswish, NULL},
    {"Softsign", 1, 1, make_softsign, NULL},
    {"Softmax", 1, 1, make_softmax, NULL},
    {"LogSoftmax", 1, 1, make_softmax, NULL},
    {"Exp", 1, 1, make_exp, yki_onnx_fold_one},
    {"Log", 1, 1, make_log, yki_onnx_fold_one},
    {"Sqrt", 1, 1, make_sqrt, yki_onnx_fold_one},
    {"Abs", 1, 1, make_abs, yki_onnx_fold_one},
    {"Neg", 1, 1, make_neg, yki_onnx_fold_one},
    {"Reciprocal", 1, 1, make_reciprocal, yki_onnx_fold_one},
    {"Floor", 1, 1, NULL, yki_onnx_fold_one},
    {"Ceil", 1, 1, NULL, yki_onnx_fold_one},
    {"Clip", 1, 3, make_clip, NULL},
    {"Add", 2, 2, make_add, yki_onnx_fold_two},
    {"Sub", 2, 2, make_sub, yki_onnx_fold_two},
    {"Mul", 2, 2, make_mul, yki_onnx_fold_two},
    {"Div", 2, 2, make_div, yki_onnx_fold_two},
    {"Pow", 2, 2, make_pow, yki_onnx_fold_two},
    {"Sum", 1, YKI_ONNX_MOST_INPUTS, make_sum, NULL},
    {"Max", 1, YKI_ONNX_MOST_INPUTS, make_extreme, NULL},
    {"Min", 1, YKI_ONNX_MOST_INPUTS, make_extreme, NULL},
    {"ReduceMean", 1, 2, make_reduce, NULL},
    {"ReduceSum", 1, 2, make_reduce, NULL},
    {NULL, 0, 0, NULL, NULL},
};
