/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_json_node.c - finds which function of <yoke.h> made a node, with which options: the reverse
 * of the builders.
 *
 * A layer is several nodes (its parameters and states, the statistics of a batch norm). It is
 * written as the node that has its name. An option that has its default becomes 0 here, and so is
 * not written.
 */
#include <stdio.h>
#include <string.h>

#include "data/graph_json.h"
#include "op/custom/custom.h"

#define ATTRS(type, node) type##_get(&(node)->attrs)

/* True if it is the parameter "LAYER.part" of this layer. */
static bool
is_part(const yoke_node *parameter, const yoke_node *layer, const char *part)
{
    size_t length = strlen(layer->name);

    return parameter->role == YKI_ROLE_PARAMETER &&
           strncmp(parameter->name, layer->name, length) == 0 && parameter->name[length] == '.' &&
           strcmp(parameter->name + length + 1, part) == 0;
}

static void
copy_pair(const int32_t from[2], int64_t to[2])
{
    to[0] = from[0];
    to[1] = from[1];
}

/* A pair of defaults becomes 0. */
static void
hide_pair(int64_t pair[2], int64_t zero)
{
    if (pair[0] == zero && pair[1] == zero)
        pair[0] = pair[1] = 0;
}

static const char *
of_conv(const yoke_node *n, yki_json_options *o)
{
    const yki_conv_attrs a = ATTRS(yki_conv_attrs, n);
    yoke_conv2d_options *c = &o->conv2d;

    c->filters = n->shape.dim[0];
    copy_pair(a.kernel, c->kernel);
    copy_pair(a.stride, c->stride);
    copy_pair(a.pad, c->pad);
    copy_pair(a.dilation, c->dilation);
    hide_pair(c->stride, 1);
    hide_pair(c->dilation, 1);
    c->groups = a.groups == 1 ? 0 : a.groups;
    c->no_bias = n->input_count == 2;
    c->weight_init = n->inputs[1]->initializer;
    if (!c->no_bias)
        c->bias_init = n->inputs[2]->initializer;
    return "conv2d";
}

static const char *
of_conv_transpose(const yoke_node *n, yki_json_options *o)
{
    const yki_conv_attrs a = ATTRS(yki_conv_attrs, n);
    yki_json_options plain = {0};
    yoke_conv_transpose2d_options *c = &o->conv_transpose2d;

    (void)of_conv(n, &plain);
    c->filters = plain.conv2d.filters;
    memcpy(c->kernel, plain.conv2d.kernel, sizeof c->kernel);
    memcpy(c->stride, plain.conv2d.stride, sizeof c->stride);
    memcpy(c->pad, plain.conv2d.pad, sizeof c->pad);
    memcpy(c->dilation, plain.conv2d.dilation, sizeof c->dilation);
    for (int i = 0; i < 2; i++)
        c->output_pad[i] =
            a.size[i] - ((n->inputs[0]->shape.dim[i + 1] - 1) * a.stride[i] -
                         2 * (int64_t)a.pad[i] + (int64_t)a.dilation[i] * (a.kernel[i] - 1) + 1);
    c->groups = plain.conv2d.groups;
    c->no_bias = plain.conv2d.no_bias;
    c->weight_init = plain.conv2d.weight_init;
    c->bias_init = plain.conv2d.bias_init;
    return "conv_transpose2d";
}

static const char *
of_matmul(const yoke_node *n, yki_json_options *o, uint32_t *inputs)
{
    const yki_matmul_attrs a = ATTRS(yki_matmul_attrs, n);

    if (a.sum_batch || a.sum_axes || a.drop_axes || a.act)
        return NULL;
    if (a.transpose_b && !a.transpose_a && is_part(n->inputs[1], n, "weight") &&
        (!a.bias || is_part(n->inputs[2], n, "bias"))) {
        o->dense.units = n->inputs[1]->shape.dim[0];
        o->dense.no_bias = !a.bias;
        o->dense.weight_init = n->inputs[1]->initializer;
        if (a.bias)
            o->dense.bias_init = n->inputs[2]->initializer;
        *inputs = 1;
        return "dense";
    }
    if (a.bias)
        return NULL;
    o->matmul.transpose_a = a.transpose_a;
    o->matmul.transpose_b = a.transpose_b;
    return "matmul";
}

static const char *
of_pool(const yoke_node *n, yki_json_options *o)
{
    const yki_pool_attrs a = ATTRS(yki_pool_attrs, n);

    copy_pair(a.kernel, o->pool.kernel);
    copy_pair(a.stride, o->pool.stride);
    copy_pair(a.pad, o->pool.pad);
    if (o->pool.stride[0] == o->pool.kernel[0] && o->pool.stride[1] == o->pool.kernel[1])
        o->pool.stride[0] = o->pool.stride[1] = 0;
    o->pool.ceil_mode = a.ceil_mode;
    o->pool.exclude_pad = a.exclude_pad;
    return n->op->name;
}

/* The momentum is an attribute of the nodes after it that update the running statistics. */
static const char *
of_batch_norm(const yoke_node *n, yki_json_options *o)
{
    const yki_bn_attrs a = ATTRS(yki_bn_attrs, n);
    const yoke_node *running = NULL;

    for (size_t i = n->id + 1; !running && i < n->graph->node_count; i++)
        if (n->graph->nodes[i]->op == &yki_op_bn_running &&
            n->graph->nodes[i]->inputs[1] == n->inputs[1])
            running = n->graph->nodes[i];
    if (!running || a.act || a.residual)
        return NULL;
    o->batch_norm.epsilon = a.epsilon == 1e-5f ? 0 : a.epsilon;
    o->batch_norm.momentum = ATTRS(yki_bn_attrs, running).momentum;
    if (o->batch_norm.momentum == 0.1f)
        o->batch_norm.momentum = 0;
    o->batch_norm.local = a.local;
    o->batch_norm.no_affine = !a.affine;
    return "batch_norm";
}

static const char *
of_layer_norm(const yoke_node *n, yki_json_options *o)
{
    const yki_ln_attrs a = ATTRS(yki_ln_attrs, n);

    o->layer_norm.axes = a.axes == n->shape.rank ? 0 : a.axes;
    o->layer_norm.epsilon = a.epsilon == 1e-5f ? 0 : a.epsilon;
    o->layer_norm.no_affine = !a.affine;
    return "layer_norm";
}

static const char *
of_embedding(const yoke_node *n, yki_json_options *o)
{
    const yoke_initializer *init = &n->inputs[1]->initializer;

    o->embedding.rows = n->inputs[1]->shape.dim[0];
    o->embedding.width = n->inputs[1]->shape.dim[1];
    if (init->kind != YOKE_INIT_NORMAL || init->a != 0 || init->b != 1)
        o->embedding.weight_init = *init;
    return "embedding";
}

static const char *
of_unary(const yoke_node *n, yki_json_options *o)
{
    static const char *const names[YKI_UNARY_KINDS] = {
#define NAME(kind, id, name, ...) [YKI_UNARY_##kind] = #name,
        YKI_UNARY_PLAIN(NAME) YKI_UNARY_NUMBER(NAME) NAME(SCALE, 6, scale)
#undef NAME
    };
    const yki_unary_attrs a = ATTRS(yki_unary_attrs, n);

    o->plain.a = a.a;
    o->plain.b = a.b;
    return names[a.kind];
}

static const char *
of_reduce(const yoke_node *n, yki_json_options *o)
{
    const yki_reduce_attrs a = ATTRS(yki_reduce_attrs, n);
    const yoke_shape *x = &n->inputs[0]->shape;
    int32_t kept = 0;

    for (int32_t i = 0; i < x->rank; i++)
        if (a.axes >> i & 1)
            o->plain.axes.list[o->plain.axes.count++] = i;
        else
            kept++;
    /* No public function keeps reduced axes as axes of size 1. */
    if (kept != n->shape.rank)
        return NULL;
    return a.mean ? "mean" : "sum";
}

static const char *
of_loss(const yoke_node *n, yki_json_options *o)
{
    static const char *const names[YKI_LOSS_KINDS] = {
        [YKI_LOSS_SOFTMAX_CE] = "softmax_cross_entropy",
        [YKI_LOSS_CE] = "cross_entropy",
        [YKI_LOSS_BCE] = "binary_cross_entropy",
        [YKI_LOSS_MSE] = "mean_squared_error",
        [YKI_LOSS_L1] = "l1_loss",
        [YKI_LOSS_HUBER] = "huber_loss",
        [YKI_METRIC_ACCURACY] = "accuracy",
        [YKI_METRIC_TOP_K] = "top_k",
        [YKI_METRIC_MAE] = "mean_absolute_error",
    };
    const yki_loss_attrs a = ATTRS(yki_loss_attrs, n);

    if (a.kind == YKI_METRIC_TOP_K) {
        o->plain.k = a.k;
    } else if (a.kind < YKI_METRIC_ACCURACY) {
        o->loss.has_ignore_index = a.has_ignore_index;
        o->loss.ignore_index = a.ignore_index;
        o->loss.label_smoothing = a.label_smoothing;
        o->loss.delta = a.delta == 1 ? 0 : a.delta;
    }
    return names[a.kind];
}

static const char *
of_shape(const yoke_node *n, yki_json_options *o)
{
    if (n->op == &yki_op_concat) {
        o->plain.axis = ATTRS(yki_concat_attrs, n).axis;
        return "concat";
    }
    if (n->op == &yki_op_slice) {
        o->plain.axis = ATTRS(yki_slice_attrs, n).axis;
        o->plain.begin = ATTRS(yki_slice_attrs, n).begin;
        o->plain.end = ATTRS(yki_slice_attrs, n).end;
        return "slice";
    }
    if (n->op == &yki_op_transpose) {
        o->plain.axes.count = ATTRS(yki_transpose_attrs, n).rank;
        memcpy(o->plain.axes.list, ATTRS(yki_transpose_attrs, n).axes, sizeof o->plain.axes.list);
        return "transpose";
    }
    if (n->op == &yki_op_reshape) {
        o->plain.shape = n->shape;
        return n->shape.rank == 1 ? "flatten" : "reshape";
    }
    return NULL;
}

static const char *
of_custom(const yoke_node *n, yki_json_options *o)
{
    const yki_custom_text *text = n->data;

    o->custom.function = text->name;
    o->custom.source = text->source;
    o->custom.shape = n->shape;
    o->custom.no_backward = ATTRS(yki_custom_attrs, n).no_backward;
    for (uint32_t i = 0; i < n->input_count; i++) {
        o->custom.ranges.list[i] = text->ranges[i];
        if (text->ranges[i].begin < text->ranges[i].end)
            o->custom.ranges.count = (int32_t)n->input_count;
    }
    return "custom";
}

static const char *
of_computed(const yoke_node *n, yki_json_options *o, uint32_t *inputs)
{
    static const char *const binary[YKI_BINARY_KINDS] = {"add", "sub", "mul"};

    if (n->op == &yki_op_conv2d || n->op == &yki_op_conv2d_grad_input) {
        *inputs = 1;
        return n->op == &yki_op_conv2d ? of_conv(n, o) : of_conv_transpose(n, o);
    }
    if (n->op == &yki_op_bn_apply || n->op == &yki_op_layer_norm || n->op == &yki_op_embedding) {
        *inputs = 1;
        return n->op == &yki_op_bn_apply     ? of_batch_norm(n, o)
               : n->op == &yki_op_layer_norm ? of_layer_norm(n, o)
                                             : of_embedding(n, o);
    }
    if (n->op == &yki_op_matmul)
        return of_matmul(n, o, inputs);
    if (n->op == &yki_op_maxpool2d || n->op == &yki_op_avgpool2d)
        return of_pool(n, o);
    if (n->op == &yki_op_global_avgpool)
        return "global_avgpool";
    if (n->op == &yki_op_unary)
        return of_unary(n, o);
    if (n->op == &yki_op_binary)
        return binary[ATTRS(yki_binary_attrs, n).kind];
    if (n->op == &yki_op_reduce)
        return of_reduce(n, o);
    if (n->op == &yki_op_loss)
        return of_loss(n, o);
    if (n->op == &yki_op_custom)
        return of_custom(n, o);
    if (n->op == &yki_op_softmax) {
        o->plain.axis = ATTRS(yki_softmax_attrs, n).axis;
        return "softmax";
    }
    if (n->op == &yki_op_dropout) {
        o->plain.probability = ATTRS(yki_dropout_attrs, n).probability;
        return "dropout";
    }
    return of_shape(n, o);
}

/* A parameter of a layer is written with the layer, which is the first computed node after it,
 * apart from statistics. */
static bool
has_layer(const yoke_node *parameter)
{
    const yoke_graph *graph = parameter->graph;
    const char *dot = strrchr(parameter->name, '.');

    for (size_t i = parameter->id + 1; dot && i < yki_graph_own_count(graph); i++) {
        const yoke_node *n = graph->nodes[i];
        yki_json_options ignored = {0};
        uint32_t inputs = n->input_count;

        if (!n->op || n->op == &yki_op_bn_stats)
            continue;
        if (!is_part(parameter, n, dot + 1) || !of_computed(n, &ignored, &inputs))
            return false;
        for (uint32_t k = inputs; k < n->input_count; k++)
            if (n->inputs[k] == parameter)
                return true;
        return false;
    }
    return false;
}

yoke_status
yki_json_of_node(const yoke_node *node, const yki_json_op **op, yki_json_options *options,
                 uint32_t *inputs)
{
    const char *name = NULL;

    memset(options, 0, sizeof *options);
    *op = NULL;
    *inputs = node->input_count;
    if (node->role == YKI_ROLE_STATE || node->op == &yki_op_bn_stats ||
        node->op == &yki_op_bn_running || (node->role == YKI_ROLE_PARAMETER && has_layer(node)))
        return YOKE_OK;
    if (node->op) {
        name = of_computed(node, options, inputs);
    } else {
        options->given.type = node->type;
        options->given.shape = node->shape;
        options->given.init = node->initializer;
        name = node->role == YKI_ROLE_PARAMETER ? "parameter" : node->target ? "target" : "input";
    }
    if (!name)
        return yki_fail(
            YOKE_ERROR_UNSUPPORTED,
            "%s: %s nodes cannot be written as JSON; must be an operator of yoke-files(7)",
            node->name, node->op->name);
    *op = yki_json_find_op(name);
    return YOKE_OK;
}
