/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - softmax(scale Q K^T) V for each head, where queries, keys and values lie
 * side by side in the rows of one tensor, as the dense layer before leaves them.
 *
 * The gradient needs log(sum(exp(scores))) of each query, which is a node of its own
 * (attention_lse). In a plan one launch computes it together with the result.
 *
 * Dropout sets weights to zero behind softmax: y = sum over k of m_k p_k v_k, where m is 0 or 1 /
 * (1 - probability). The sums of softmax are of all weights, so the logarithms do not know of it.
 * Like dropout, attention draws its mask in backward again, and none in evaluation.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

/* A random word is that of a query below 2^16 (clkernels/attention_drop.cl). */
enum { MAX_WIDTH = 256, MAX_HEADS = 1024, MAX_DROPPED = 65536 };

/* The key of dropout is left out, so wisdom is the same for all layers. */
static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_attention_attrs a = yki_attention_attrs_get(attrs);
    char drops[32] = "";

    if (a.dropout.probability > 0)
        snprintf(drops, sizeof drops, " p %.9g", (double)a.dropout.probability);
    snprintf(text, size, "%d/%d x %d s%.9g%s%s%s%s", a.heads, a.shared, a.width, (double)a.scale,
             a.causal ? " causal" : "", a.lengths ? " lengths" : "", a.lse ? " lse" : "", drops);
}

/* The rows of a sample at most. */
static int64_t
length_of(const yoke_node *x)
{
    return yki_whole_shape(x).dim[0];
}

static int64_t
columns_of(const yoke_node *x)
{
    return yki_whole_shape(x).dim[1];
}

static yoke_status
check_lengths(const yki_attention_attrs *a, const yoke_node *x, const yoke_node *lengths)
{
    if (!a->lengths)
        return YOKE_OK;
    if (lengths->type != YOKE_I32)
        return yki_fail_type("the lengths", lengths, "i32");
    if (lengths->shape.rank != 0 || lengths->batched != x->batched || lengths->length)
        return yki_fail_shape("the lengths", lengths, "(), one number for each sample");
    return YOKE_OK;
}

/* Checks x and the lengths, which stand at `lengths`. */
static yoke_status
check(const yoke_node *node, uint32_t lengths)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];
    int64_t columns = ((int64_t)a.heads + 2 * (int64_t)a.shared) * a.width;
    char text[80];

    YKI_TRY(yki_check_f32("the input", x));
    snprintf(text, sizeof text, "(length, %lld)", (long long)columns);
    if (yki_whole_shape(x).rank != 2 || columns_of(x) != columns)
        return yki_fail_shape("the input", x, text);
    return check_lengths(&a, x, a.lengths ? node->inputs[lengths] : NULL);
}

static yoke_status
infer(yoke_node *node)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);

    YKI_TRY(check(node, 1));
    yki_node_like(node, node->inputs[0]);
    node->shape.dim[node->shape.rank - 1] = (int64_t)a.heads * a.width;
    return YOKE_OK;
}

static yoke_status
infer_lse(yoke_node *node)
{
    YKI_TRY(check(node, 1));
    yki_node_like(node, node->inputs[0]);
    node->shape =
        yoke_shape(yki_attention_attrs_get(&node->attrs).heads, length_of(node->inputs[0]));
    node->length = 0;
    return YOKE_OK;
}

/* x, y, dy, lse[, lengths] -> dx */
static yoke_status
infer_grad(yoke_node *node)
{
    YKI_TRY(check(node, 4));
    yki_node_like(node, node->inputs[0]);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);
    yki_attention_attrs lse = a;
    yoke_node *inputs[5] = {node->inputs[0], node, dy, NULL, a.lengths ? node->inputs[1] : NULL};

    if (!wanted[0])
        return YOKE_OK;
    lse.dropout = (yki_dropout_attrs){0};
    inputs[3] = yki_node(node->graph, &yki_op_attention_lse, NULL, node->inputs, node->input_count,
                         &lse, sizeof lse);
    if (inputs[3])
        dx[0] = yki_node(node->graph, &yki_op_attention_grad, NULL, inputs,
                         4 + node->input_count - 1, &a, sizeof a);
    if (dx[0])
        dx[0]->random_key = node->random_key;
    return yki_graph_status(node->graph);
}

/* Operations of one product of all scores with something as wide as a head. */
static double
product(const yoke_node *node)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);
    double length = (double)length_of(node->inputs[0]);

    return 2 * length * (a.causal ? length + 1 : 2 * length) / 2 * a.heads * a.width;
}

static double
flops(const yoke_node *node)
{
    return 2 * product(node);
}

static double
flops_grad(const yoke_node *node)
{
    return 5 * product(node);
}

static void
drop_nothing(yki_attrs *attrs)
{
    yki_attention_attrs a = yki_attention_attrs_get(attrs);

    a.dropout = (yki_dropout_attrs){0};
    yki_attention_attrs_set(attrs, &a);
}

const yki_op yki_op_attention = {
    .name = "attention",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
    .evaluation_attrs = drop_nothing,
    .whole = true,
};

const yki_op yki_op_attention_lse = {
    .name = "attention_lse",
    .infer = infer_lse,
    .flops = product,
    .describe = describe,
    .whole = true,
};

const yki_op yki_op_attention_grad = {
    .name = "attention_grad",
    .infer = infer_grad,
    .flops = flops_grad,
    .describe = describe,
    .whole = true,
};

yoke_status
yki_packed_heads(const yoke_node *x, int32_t heads, int32_t *shared, bool even, int32_t *width)
{
    const yoke_shape whole = yki_whole_shape(x);
    int64_t parts, columns, unit;

    if (*shared == 0)
        *shared = heads;
    if (heads < 1 || heads > MAX_HEADS)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "heads", heads, 1, MAX_HEADS);
    if (*shared < 1 || *shared > heads || heads % *shared != 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "shared is %d; must divide heads, which is %d",
                        *shared, heads);
    if (whole.rank != 2)
        return yki_fail_shape("the input", x, "(length, columns)");
    columns = whole.dim[1];
    parts = (int64_t)heads + 2 * (int64_t)*shared;
    unit = even ? 2 * parts : parts;
    if (columns % unit != 0 || columns / parts > MAX_WIDTH)
        return yki_fail(
            YOKE_ERROR_SHAPE,
            "the input \"%s\" has %lld columns; must be a multiple of %lld (%d heads of "
            "queries, %d of keys and %d of values%s), each at most %d wide",
            x->name, (long long)columns, (long long)unit, heads, *shared, *shared,
            even ? ", of even width" : "", MAX_WIDTH);
    *width = (int32_t)(columns / parts);
    return YOKE_OK;
}

/* Fills the attributes of the layer; what is wrong with them is the graph's error. */
static yoke_status
read_options(const yoke_node *x, const char *name, const yoke_attention_options *o,
             yki_attention_attrs *a)
{
    int32_t shared = o->shared, width;

    if (!(o->scale >= 0 && isfinite(o->scale)))
        return yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, "scale", (double)o->scale, 0, 1e30);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return yki_fail_range_below(YOKE_ERROR_VALUE, "dropout", (double)o->dropout, 0, 1);
    YKI_TRY(yki_packed_heads(x, o->heads, &shared, false, &width));
    if (o->dropout > 0 && length_of(x) > MAX_DROPPED)
        return yki_fail_range(YOKE_ERROR_UNSUPPORTED, "the length of samples with dropout",
                              length_of(x), 0, MAX_DROPPED);
    *a = (yki_attention_attrs){.heads = o->heads,
                               .shared = shared,
                               .width = width,
                               .causal = o->causal,
                               .scale = o->scale};
    if (o->scale == 0)
        a->scale = 1 / sqrtf((float)a->width);
    if (o->dropout > 0)
        a->dropout = yki_dropout_of(name, o->dropout);
    return YOKE_OK;
}

yoke_node *
yoke_attention_sized(yoke_graph *graph, yoke_node *x, yoke_node *lengths,
                     const yoke_attention_options *options, size_t size)
{
    yoke_attention_options o = {0};
    yki_attention_attrs attrs;
    yoke_node *inputs[2] = {x, lengths}, *node = NULL;
    yoke_status status;
    char *name = yki_layer_name(graph, NULL, "attention");

    if (!name)
        return NULL;
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    status =
        !x || x->graph != graph ? yki_fail_node("the input", x) : read_options(x, name, &o, &attrs);
    if (status != YOKE_OK)
        yki_graph_fail(graph, name, status);
    else {
        attrs.lengths = lengths != NULL;
        node =
            yki_node(graph, &yki_op_attention, name, inputs, lengths ? 2 : 1, &attrs, sizeof attrs);
        if (node)
            node->random_key = yki_dropout_key(&attrs.dropout);
        if (node && lengths && !yki_limit_values(lengths, 0, length_of(x) + 1, NULL))
            node = NULL;
    }
    yki_free(name);
    return node;
}
