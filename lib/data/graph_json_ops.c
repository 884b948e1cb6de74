/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_json_ops.c - the table of functions that make nodes: their options, their calls, and the
 * reverse, which tells from a node which function made it.
 */
#include <math.h>
#include <string.h>

#include "data/graph_json.h"
#include "op/custom/custom.h"

#define AT(member) offsetof(yki_json_options, member)
#define END                                                                                        \
    {                                                                                              \
        NULL, YKI_JSON_BOOL, 0, false                                                              \
    }

/* ---- options ---- */

static const yki_json_field no_fields[] = {END};
static const yki_json_field given_fields[] = {
    {"type", YKI_JSON_TYPE, AT(given.type), true},
    {"shape", YKI_JSON_SHAPE, AT(given.shape), true},
    {"sequence", YKI_JSON_BOOL, AT(given.sequence), false},
    END,
};
static const yki_json_field parameter_fields[] = {
    {"shape", YKI_JSON_SHAPE, AT(given.shape), true},
    {"initializer", YKI_JSON_INIT, AT(given.init), false},
    END,
};
static const yki_json_field constant_fields[] = {
    {"shape", YKI_JSON_SHAPE, AT(constant.shape), true},
    {"values", YKI_JSON_FLOATS, AT(constant.values), true},
    END,
};
static const yki_json_field dense_fields[] = {
    {"units", YKI_JSON_INT64, AT(dense.units), true},
    {"no_bias", YKI_JSON_BOOL, AT(dense.no_bias), false},
    {"weight_init", YKI_JSON_INIT, AT(dense.weight_init), false},
    {"bias_init", YKI_JSON_INIT, AT(dense.bias_init), false},
    END,
};
static const yki_json_field conv2d_fields[] = {
    {"filters", YKI_JSON_INT64, AT(conv2d.filters), true},
    {"kernel", YKI_JSON_PAIR, AT(conv2d.kernel), true},
    {"stride", YKI_JSON_PAIR, AT(conv2d.stride), false},
    {"pad", YKI_JSON_PAIR, AT(conv2d.pad), false},
    {"dilation", YKI_JSON_PAIR, AT(conv2d.dilation), false},
    {"groups", YKI_JSON_INT64, AT(conv2d.groups), false},
    {"no_bias", YKI_JSON_BOOL, AT(conv2d.no_bias), false},
    {"weight_init", YKI_JSON_INIT, AT(conv2d.weight_init), false},
    {"bias_init", YKI_JSON_INIT, AT(conv2d.bias_init), false},
    END,
};
static const yki_json_field conv_transpose2d_fields[] = {
    {"filters", YKI_JSON_INT64, AT(conv_transpose2d.filters), true},
    {"kernel", YKI_JSON_PAIR, AT(conv_transpose2d.kernel), true},
    {"stride", YKI_JSON_PAIR, AT(conv_transpose2d.stride), false},
    {"pad", YKI_JSON_PAIR, AT(conv_transpose2d.pad), false},
    {"dilation", YKI_JSON_PAIR, AT(conv_transpose2d.dilation), false},
    {"output_pad", YKI_JSON_PAIR, AT(conv_transpose2d.output_pad), false},
    {"groups", YKI_JSON_INT64, AT(conv_transpose2d.groups), false},
    {"no_bias", YKI_JSON_BOOL, AT(conv_transpose2d.no_bias), false},
    {"weight_init", YKI_JSON_INIT, AT(conv_transpose2d.weight_init), false},
    {"bias_init", YKI_JSON_INIT, AT(conv_transpose2d.bias_init), false},
    END,
};
static const yki_json_field pool_fields[] = {
    {"kernel", YKI_JSON_PAIR, AT(pool.kernel), true},
    {"stride", YKI_JSON_PAIR, AT(pool.stride), false},
    {"pad", YKI_JSON_PAIR, AT(pool.pad), false},
    {"ceil_mode", YKI_JSON_BOOL, AT(pool.ceil_mode), false},
    {"exclude_pad", YKI_JSON_BOOL, AT(pool.exclude_pad), false},
    END,
};
static const yki_json_field batch_norm_fields[] = {
    {"epsilon", YKI_JSON_FLOAT, AT(batch_norm.epsilon), false},
    {"momentum", YKI_JSON_FLOAT, AT(batch_norm.momentum), false},
    {"local", YKI_JSON_BOOL, AT(batch_norm.local), false},
    {"no_affine", YKI_JSON_BOOL, AT(batch_norm.no_affine), false},
    END,
};
static const yki_json_field layer_norm_fields[] = {
    {"axes", YKI_JSON_INT32, AT(layer_norm.axes), false},
    {"epsilon", YKI_JSON_FLOAT, AT(layer_norm.epsilon), false},
    {"no_affine", YKI_JSON_BOOL, AT(layer_norm.no_affine), false},
    END,
};
static const yki_json_field embedding_fields[] = {
    {"rows", YKI_JSON_INT64, AT(embedding.rows), true},
    {"width", YKI_JSON_INT64, AT(embedding.width), true},
    {"weight_init", YKI_JSON_INIT, AT(embedding.weight_init), false},
    END,
};
static const yki_json_field matmul_fields[] = {
    {"transpose_a", YKI_JSON_BOOL, AT(matmul.transpose_a), false},
    {"transpose_b", YKI_JSON_BOOL, AT(matmul.transpose_b), false},
    END,
};
static const yki_json_field rope_fields[] = {
    {"heads", YKI_JSON_INT32, AT(rope.heads), true},
    {"shared", YKI_JSON_INT32, AT(rope.shared), false},
    {"interleaved", YKI_JSON_BOOL, AT(rope.interleaved), false},
    {"base", YKI_JSON_FLOAT, AT(rope.base), false},
    END,
};
static const yki_json_field attention_fields[] = {
    {"heads", YKI_JSON_INT32, AT(attention.heads), true},
    {"shared", YKI_JSON_INT32, AT(attention.shared), false},
    {"causal", YKI_JSON_BOOL, AT(attention.causal), false},
    {"scale", YKI_JSON_FLOAT, AT(attention.scale), false},
    {"dropout", YKI_JSON_FLOAT, AT(attention.dropout), false},
    END,
};
static const yki_json_field loss_fields[] = {
    {"has_ignore_index", YKI_JSON_BOOL, AT(loss.has_ignore_index), false},
    {"ignore_index", YKI_JSON_INT32, AT(loss.ignore_index), false},
    {"label_smoothing", YKI_JSON_FLOAT, AT(loss.label_smoothing), false},
    {"delta", YKI_JSON_FLOAT, AT(loss.delta), false},
    {"axis", YKI_JSON_INT32, AT(loss.axis), false},
    END,
};
#define NUMBER(kind, id, name, from_result, flops, number)                                         \
    static const yki_json_field name##_fields[] = {                                                \
        {#number, YKI_JSON_FLOAT, AT(plain.a), true},                                              \
        END,                                                                                       \
    };
YKI_UNARY_NUMBER(NUMBER)
#undef NUMBER
static const yki_json_field scale_fields[] = {
    {"factor", YKI_JSON_FLOAT, AT(plain.a), true},
    {"offset", YKI_JSON_FLOAT, AT(plain.b), false},
    END,
};
static const yki_json_field probability_fields[] = {
    {"probability", YKI_JSON_FLOAT, AT(plain.probability), true},
    END,
};
static const yki_json_field axis_fields[] = {
    {"axis", YKI_JSON_INT32, AT(plain.axis), true},
    END,
};
static const yki_json_field axes_fields[] = {
    {"axes", YKI_JSON_AXES, AT(plain.axes), false},
    END,
};
static const yki_json_field slice_fields[] = {
    {"axis", YKI_JSON_INT32, AT(plain.axis), true},
    {"begin", YKI_JSON_INT64, AT(plain.begin), true},
    {"end", YKI_JSON_INT64, AT(plain.end), true},
    END,
};
static const yki_json_field shape_fields[] = {
    {"shape", YKI_JSON_SHAPE, AT(plain.shape), true},
    END,
};
static const yki_json_field top_fields[] = {
    {"k", YKI_JSON_INT32, AT(plain.k), true},
    END,
};
static const yki_json_field custom_fields[] = {
    {"function", YKI_JSON_TEXT, AT(custom.function), true},
    {"source", YKI_JSON_TEXT, AT(custom.source), true},
    {"shape", YKI_JSON_SHAPE, AT(custom.shape), true},
    {"no_backward", YKI_JSON_BOOL, AT(custom.no_backward), false},
    {"ranges", YKI_JSON_RANGES, AT(custom.ranges), false},
    END,
};

/* ---- builders ---- */

#define BUILDER(op)                                                                                \
    static yoke_node *build_##op(yoke_graph *g, const char *name, yoke_node *const *in,            \
                                 size_t count, const yki_json_options *o)

static yoke_node *
given(yoke_graph *g, yoke_node *node, const yki_json_options *o)
{
    return node && o->given.sequence ? yoke_sequence(g, node) : node;
}

BUILDER(input)
{
    (void)in, (void)count;
    return given(g, yoke_input(g, name, o->given.type, o->given.shape), o);
}

BUILDER(target)
{
    (void)in, (void)count;
    return given(g, yoke_target(g, name, o->given.type, o->given.shape), o);
}

BUILDER(parameter)
{
    (void)in, (void)count;
    return yoke_parameter(g, name, o->given.shape, o->given.init);
}

BUILDER(constant)
{
    const yoke_shape *shape = &o->constant.shape;

    (void)in, (void)count;
    /* A shape that makes no sense is yoke_constant's to refuse. */
    if (yki_check_shape(*shape) == YOKE_OK &&
        (uint64_t)yki_shape_count(*shape) != o->constant.values.count) {
        yki_graph_fail(g, name,
                       yki_fail(YOKE_ERROR_SHAPE, "the number of values is %zu; must be %lld",
                                o->constant.values.count, (long long)yki_shape_count(*shape)));
        return NULL;
    }
    return yoke_constant(g, name, *shape, o->constant.values.list);
}

#define LAYER(op)                                                                                  \
    BUILDER(op)                                                                                    \
    {                                                                                              \
        yoke_##op##_options options = o->op;                                                       \
                                                                                                   \
        (void)count;                                                                               \
        options.name = name;                                                                       \
        return yoke_##op(g, in[0], &options);                                                      \
    }
LAYER(dense)
LAYER(conv2d)
LAYER(conv_transpose2d)
LAYER(batch_norm)
LAYER(layer_norm)
LAYER(embedding)

BUILDER(rms_norm)
{
    yoke_layer_norm_options options = o->layer_norm;

    (void)count;
    options.name = name;
    return yoke_rms_norm(g, in[0], &options);
}

/* `call` may use g, in, count and o. */
#define PLAIN(op, call)                                                                            \
    BUILDER(op)                                                                                    \
    {                                                                                              \
        (void)name, (void)count, (void)in, (void)o;                                                \
        return call;                                                                               \
    }
PLAIN(maxpool2d, yoke_maxpool2d(g, in[0], &o->pool))
PLAIN(avgpool2d, yoke_avgpool2d(g, in[0], &o->pool))
PLAIN(attention, yoke_attention(g, in[0], count == 2 ? in[1] : NULL, &o->attention))
PLAIN(rope, yoke_rope(g, in[0], count == 2 ? in[1] : NULL, &o->rope))
PLAIN(swiglu, yoke_swiglu(g, in[0]))
PLAIN(matmul, yoke_matmul(g, in[0], in[1], &o->matmul))
#define UNARY(kind, id, name, ...)                                                                 \
    PLAIN(name, yki_unary(g, in[0], YKI_UNARY_##kind, o->plain.a, o->plain.b))
YKI_UNARY_PLAIN(UNARY)
YKI_UNARY_NUMBER(UNARY)
UNARY(SCALE, 6, scale)
#undef UNARY
#define BINARY(kind, id, name) PLAIN(name, yoke_##name(g, in[0], in[1]))
YKI_BINARY(BINARY)
#undef BINARY
PLAIN(dropout, yoke_dropout(g, in[0], o->plain.probability))
PLAIN(softmax, yoke_softmax(g, in[0], o->plain.axis))
PLAIN(sum, yoke_sum(g, in[0], o->plain.axes.list, o->plain.axes.count))
PLAIN(mean, yoke_mean(g, in[0], o->plain.axes.list, o->plain.axes.count))
PLAIN(global_avgpool, yoke_global_avgpool(g, in[0]))
PLAIN(concat, yoke_concat(g, in, count, o->plain.axis))
PLAIN(slice, yoke_slice(g, in[0], o->plain.axis, o->plain.begin, o->plain.end))
PLAIN(reshape, yoke_reshape(g, in[0], o->plain.shape))
PLAIN(flatten, yoke_flatten(g, in[0]))
/* Weights are further inputs: those of classes serve all samples, the others do not. */
#define LOSS(op)                                                                                   \
    BUILDER(op)                                                                                    \
    {                                                                                              \
        yoke_loss_options options = o->loss;                                                       \
                                                                                                   \
        (void)name;                                                                                \
        for (size_t i = 2; i < count; i++)                                                         \
            *(in[i]->batched ? &options.weights : &options.class_weights) = in[i];                 \
        return yoke_##op(g, in[0], in[1], &options);                                               \
    }
LOSS(softmax_cross_entropy)
PLAIN(linear_cross_entropy, yoke_linear_cross_entropy(g, in[0], in[1], in[2], &o->loss))
LOSS(cross_entropy)
LOSS(binary_cross_entropy)
LOSS(mean_squared_error)
LOSS(l1_loss)
LOSS(huber_loss)
PLAIN(accuracy, yoke_accuracy(g, in[0], in[1]))
PLAIN(top_k, yoke_top_k(g, in[0], in[1], o->plain.k))
PLAIN(mean_absolute_error, yoke_mean_absolute_error(g, in[0], in[1]))

/* The builder reads as many axes as x has, so the number is checked here. */
BUILDER(transpose)
{
    char text[128];

    (void)name, (void)count;
    if (o->plain.axes.count == 0)
        return yoke_transpose(g, in[0], NULL);
    if (o->plain.axes.count != in[0]->shape.rank) {
        yki_graph_fail(
            g, "transpose",
            yki_fail(YOKE_ERROR_SHAPE,
                     "the number of axes is %d; must be %d, as the shape of \"%s\" is %s",
                     o->plain.axes.count, in[0]->shape.rank, in[0]->name,
                     yki_shape_text(in[0]->shape, text, sizeof text)));
        return NULL;
    }
    return yoke_transpose(g, in[0], o->plain.axes.list);
}

static bool
known_shape(void *user, const yoke_shape *in, size_t count, yoke_shape *out)
{
    (void)in, (void)count;
    *out = *(const yoke_shape *)user;
    return true;
}

BUILDER(custom)
{
    yoke_shape shape = o->custom.shape;
    yoke_custom_options options = {.name = o->custom.function,
                                   .source = o->custom.source,
                                   .shape = known_shape,
                                   .user = &shape,
                                   .no_backward = o->custom.no_backward,
                                   .ranges = o->custom.ranges.count ? o->custom.ranges.list : NULL};

    (void)name;
    if (o->custom.ranges.count && (size_t)o->custom.ranges.count != count) {
        yki_graph_fail(g, o->custom.function,
                       yki_fail(YOKE_ERROR_VALUE,
                                "the number of ranges is %d; must be %zu, one for each input",
                                o->custom.ranges.count, count));
        return NULL;
    }
    return yoke_custom(g, in, count, &options);
}

/* ---- the reverse: which function made a node, with which options ---- */

#define ATTRS(type, node) type##_get(&(node)->attrs)
#define GET(op)           static bool get_##op(const yoke_node *n, yki_json_options *o)

bool
yki_json_is_part(const yoke_node *parameter, const yoke_node *layer, const char *part)
{
    size_t length = strlen(layer->name);

    return parameter->role == YKI_ROLE_PARAMETER &&
           strncmp(parameter->name, layer->name, length) == 0 && parameter->name[length] == '.' &&
           strcmp(parameter->name + length + 1, part) == 0;
}

GET(input)
{
    o->given.type = n->type;
    o->given.shape = yki_whole_shape(n);
    o->given.sequence = n->length > 0;
    return n->role == YKI_ROLE_INPUT && !n->target;
}

GET(target)
{
    o->given.type = n->type;
    o->given.shape = yki_whole_shape(n);
    o->given.sequence = n->length > 0;
    return n->role == YKI_ROLE_INPUT && n->target;
}

GET(parameter)
{
    o->given.shape = n->shape;
    o->given.init = n->initializer;
    return n->role == YKI_ROLE_PARAMETER;
}

GET(constant)
{
    o->constant.shape = n->shape;
    o->constant.values.count = (size_t)yki_shape_count(n->shape);
    o->constant.values.list = n->data;
    return yki_is_constant(n);
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

GET(conv2d)
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
    return true;
}

GET(conv_transpose2d)
{
    const yki_conv_attrs a = ATTRS(yki_conv_attrs, n);
    yki_json_options plain = {0};
    yoke_conv_transpose2d_options *c = &o->conv_transpose2d;

    (void)get_conv2d(n, &plain);
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
    return true;
}

/* Whether a product is the user's: attributes that gradients and fusions set are not. */
static bool
is_plain_product(const yki_matmul_attrs *a)
{
    return !a->sum_batch && !a->sum_axes && !a->drop_axes && !a->act;
}

GET(dense)
{
    const yki_matmul_attrs a = ATTRS(yki_matmul_attrs, n);

    if (!is_plain_product(&a) || !a.transpose_b || a.transpose_a ||
        !yki_json_is_part(n->inputs[1], n, "weight") ||
        (a.bias && !yki_json_is_part(n->inputs[2], n, "bias")))
        return false;
    o->dense.units = n->inputs[1]->shape.dim[0];
    o->dense.no_bias = !a.bias;
    o->dense.weight_init = n->inputs[1]->initializer;
    if (a.bias)
        o->dense.bias_init = n->inputs[2]->initializer;
    return true;
}

/* Of what is no dense layer, which stands before it in the table. */
GET(matmul)
{
    const yki_matmul_attrs a = ATTRS(yki_matmul_attrs, n);

    o->matmul.transpose_a = a.transpose_a;
    o->matmul.transpose_b = a.transpose_b;
    return is_plain_product(&a) && !a.bias;
}

GET(rope)
{
    const yki_rope_attrs a = ATTRS(yki_rope_attrs, n);

    o->rope.heads = a.heads;
    o->rope.shared = a.shared == a.heads ? 0 : a.shared;
    o->rope.interleaved = a.interleaved;
    o->rope.base = a.base == 10000 ? 0 : a.base;
    return !a.back;
}

GET(attention)
{
    const yki_attention_attrs a = ATTRS(yki_attention_attrs, n);

    o->attention.heads = a.heads;
    o->attention.shared = a.shared == a.heads ? 0 : a.shared;
    o->attention.causal = a.causal;
    o->attention.scale = a.scale == 1 / sqrtf((float)a.width) ? 0 : a.scale;
    o->attention.dropout = a.dropout.probability;
    return true;
}

GET(pool)
{
    const yki_pool_attrs a = ATTRS(yki_pool_attrs, n);

    copy_pair(a.kernel, o->pool.kernel);
    copy_pair(a.stride, o->pool.stride);
    copy_pair(a.pad, o->pool.pad);
    if (o->pool.stride[0] == o->pool.kernel[0] && o->pool.stride[1] == o->pool.kernel[1])
        o->pool.stride[0] = o->pool.stride[1] = 0;
    o->pool.ceil_mode = a.ceil_mode;
    o->pool.exclude_pad = a.exclude_pad;
    return true;
}

/* The momentum is an attribute of the nodes after it that update the running statistics. */
GET(batch_norm)
{
    const yki_bn_attrs a = ATTRS(yki_bn_attrs, n);
    const yoke_node *running = NULL;

    for (size_t i = n->id + 1; !running && i < n->graph->node_count; i++)
        if (n->graph->nodes[i]->op == &yki_op_bn_running &&
            n->graph->nodes[i]->inputs[1] == n->inputs[1])
            running = n->graph->nodes[i];
    if (!running || a.act || a.residual)
        return false;
    o->batch_norm.epsilon = a.epsilon == 1e-5f ? 0 : a.epsilon;
    o->batch_norm.momentum = ATTRS(yki_bn_attrs, running).momentum;
    if (o->batch_norm.momentum == 0.1f)
        o->batch_norm.momentum = 0;
    o->batch_norm.local = a.local;
    o->batch_norm.no_affine = !a.affine;
    return true;
}

GET(layer_norm)
{
    const yki_ln_attrs a = ATTRS(yki_ln_attrs, n);

    o->layer_norm.axes = a.axes == n->shape.rank ? 0 : a.axes;
    o->layer_norm.epsilon = a.epsilon == 1e-5f ? 0 : a.epsilon;
    o->layer_norm.no_affine = !a.affine;
    return !a.rms;
}

GET(rms_norm)
{
    return !get_layer_norm(n, o);
}

GET(embedding)
{
    const yoke_initializer *init = &n->inputs[1]->initializer;

    o->embedding.rows = n->inputs[1]->shape.dim[0];
    o->embedding.width = n->inputs[1]->shape.dim[1];
    if (init->kind != YOKE_INIT_NORMAL || init->a != 0 || init->b != 1)
        o->embedding.weight_init = *init;
    return true;
}

#define GET_UNARY(kind_of, id, name, ...)                                                          \
    GET(name)                                                                                      \
    {                                                                                              \
        const yki_unary_attrs a = ATTRS(yki_unary_attrs, n);                                       \
                                                                                                   \
        o->plain.a = a.a;                                                                          \
        o->plain.b = a.b;                                                                          \
        return a.kind == YKI_UNARY_##kind_of;                                                      \
    }
YKI_UNARY_PLAIN(GET_UNARY)
YKI_UNARY_NUMBER(GET_UNARY)
GET_UNARY(SCALE, 6, scale)

#define GET_BINARY(kind_of, id, name)                                                              \
    GET(name)                                                                                      \
    {                                                                                              \
        (void)o;                                                                                   \
        return ATTRS(yki_binary_attrs, n).kind == YKI_BINARY_##kind_of;                            \
    }
YKI_BINARY(GET_BINARY)

/* No public function keeps reduced axes as axes of size 1. */
static bool
get_reduced(const yoke_node *n, bool mean, yki_json_options *o)
{
    const yki_reduce_attrs a = ATTRS(yki_reduce_attrs, n);
    const yoke_shape *x = &n->inputs[0]->shape;
    int32_t kept = 0;

    for (int32_t i = 0; i < x->rank; i++)
        if (a.axes >> i & 1)
            o->plain.axes.list[o->plain.axes.count++] = i;
        else
            kept++;
    return kept == n->shape.rank && !a.mean == !mean;
}

GET(sum)
{
    return get_reduced(n, false, o);
}

GET(mean)
{
    return get_reduced(n, true, o);
}

#define GET_LOSS(kind_of, name)                                                                    \
    GET(name)                                                                                      \
    {                                                                                              \
        const yki_loss_attrs a = ATTRS(yki_loss_attrs, n);                                         \
                                                                                                   \
        o->loss.has_ignore_index = a.has_ignore_index;                                             \
        o->loss.ignore_index = a.ignore_index;                                                     \
        o->loss.label_smoothing = a.label_smoothing;                                               \
        o->loss.delta = a.delta == 1 ? 0 : a.delta;                                                \
        o->loss.axis = a.rows ? -1 : 0;                                                            \
        return a.kind == YKI_LOSS_##kind_of;                                                       \
    }
GET_LOSS(SOFTMAX_CE, softmax_cross_entropy)
GET_LOSS(CE, cross_entropy)
GET_LOSS(BCE, binary_cross_entropy)
GET_LOSS(MSE, mean_squared_error)
GET_LOSS(L1, l1_loss)
GET_LOSS(HUBER, huber_loss)

GET(linear_cross_entropy)
{
    const yki_linear_loss_attrs a = ATTRS(yki_linear_loss_attrs, n);

    o->loss.has_ignore_index = a.has_ignore_index;
    o->loss.ignore_index = a.ignore_index;
    return true;
}

GET(accuracy)
{
    (void)o;
    return ATTRS(yki_loss_attrs, n).kind == YKI_METRIC_ACCURACY;
}

GET(top_k)
{
    o->plain.k = ATTRS(yki_loss_attrs, n).k;
    return ATTRS(yki_loss_attrs, n).kind == YKI_METRIC_TOP_K;
}

GET(mean_absolute_error)
{
    (void)o;
    return ATTRS(yki_loss_attrs, n).kind == YKI_METRIC_MAE;
}

GET(dropout)
{
    o->plain.probability = ATTRS(yki_dropout_attrs, n).probability;
    return true;
}

GET(softmax)
{
    o->plain.axis = ATTRS(yki_softmax_attrs, n).axis;
    return true;
}

GET(concat)
{
    o->plain.axis = ATTRS(yki_concat_attrs, n).axis;
    return true;
}

GET(slice)
{
    const yki_slice_attrs a = ATTRS(yki_slice_attrs, n);

    o->plain.axis = a.axis;
    o->plain.begin = a.begin;
    o->plain.end = a.end;
    return true;
}

GET(transpose)
{
    const yki_transpose_attrs a = ATTRS(yki_transpose_attrs, n);

    o->plain.axes.count = a.rank;
    memcpy(o->plain.axes.list, a.axes, sizeof o->plain.axes.list);
    return true;
}

GET(flatten)
{
    (void)o;
    return n->shape.rank == 1;
}

/* Of what is not flat, as flatten stands before it in the table. */
GET(reshape)
{
    o->plain.shape = n->shape;
    return true;
}

GET(custom)
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
    return true;
}

/* ---- the table ---- */

static const yki_json_op ops[] = {
    {"input", 0, 0, true, given_fields, build_input, NULL, get_input},
    {"target", 0, 0, true, given_fields, build_target, NULL, get_target},
    {"parameter", 0, 0, true, parameter_fields, build_parameter, NULL, get_parameter},
    {"constant", 0, 0, true, constant_fields, build_constant, NULL, get_constant},
    {"dense", 1, 1, true, dense_fields, build_dense, &yki_op_matmul, get_dense},
    {"conv2d", 1, 1, true, conv2d_fields, build_conv2d, &yki_op_conv2d, get_conv2d},
    {"conv_transpose2d", 1, 1, true, conv_transpose2d_fields, build_conv_transpose2d,
     &yki_op_conv2d_grad_input, get_conv_transpose2d},
    {"maxpool2d", 1, 1, false, pool_fields, build_maxpool2d, &yki_op_maxpool2d, get_pool},
    {"avgpool2d", 1, 1, false, pool_fields, build_avgpool2d, &yki_op_avgpool2d, get_pool},
    {"global_avgpool", 1, 1, false, no_fields, build_global_avgpool, &yki_op_global_avgpool, NULL},
    {"batch_norm", 1, 1, true, batch_norm_fields, build_batch_norm, &yki_op_bn_apply,
     get_batch_norm},
    {"layer_norm", 1, 1, true, layer_norm_fields, build_layer_norm, &yki_op_layer_norm,
     get_layer_norm},
    {"rms_norm", 1, 1, true, layer_norm_fields, build_rms_norm, &yki_op_layer_norm, get_rms_norm},
    {"embedding", 1, 1, true, embedding_fields, build_embedding, &yki_op_embedding, get_embedding},
    {"attention", 1, 2, false, attention_fields, build_attention, &yki_op_attention, get_attention},
    {"rope", 1, 2, false, rope_fields, build_rope, &yki_op_rope, get_rope},
    {"swiglu", 1, 1, false, no_fields, build_swiglu, &yki_op_swiglu, NULL},
    {"matmul", 2, 2, false, matmul_fields, build_matmul, &yki_op_matmul, get_matmul},
    {"scale", 1, 1, false, scale_fields, build_scale, &yki_op_unary, get_scale},
#define BINARY_ROW(kind, id, name)                                                                 \
    {#name, 2, 2, false, no_fields, build_##name, &yki_op_binary, get_##name},
    YKI_BINARY(BINARY_ROW){"dropout", 1, 1, false, probability_fields, build_dropout,
                           &yki_op_dropout, get_dropout},
    {"softmax", 1, 1, false, axis_fields, build_softmax, &yki_op_softmax, get_softmax},
    {"sum", 1, 1, false, axes_fields, build_sum, &yki_op_reduce, get_sum},
    {"mean", 1, 1, false, axes_fields, build_mean, &yki_op_reduce, get_mean},
    {"concat", 1, YKI_GRAPH_JSON_INPUTS, false, axis_fields, build_concat, &yki_op_concat,
     get_concat},
    {"slice", 1, 1, false, slice_fields, build_slice, &yki_op_slice, get_slice},
    {"flatten", 1, 1, false, no_fields, build_flatten, &yki_op_reshape, get_flatten},
    {"reshape", 1, 1, false, shape_fields, build_reshape, &yki_op_reshape, get_reshape},
    {"transpose", 1, 1, false, axes_fields, build_transpose, &yki_op_transpose, get_transpose},
    {"custom", 1, YKI_MAX_INPUTS, false, custom_fields, build_custom, &yki_op_custom, get_custom},
    {"softmax_cross_entropy", 2, 4, false, loss_fields, build_softmax_cross_entropy, &yki_op_loss,
     get_softmax_cross_entropy},
    {"linear_cross_entropy", 3, 3, false, loss_fields, build_linear_cross_entropy,
     &yki_op_linear_loss, get_linear_cross_entropy},
    {"cross_entropy", 2, 4, false, loss_fields, build_cross_entropy, &yki_op_loss,
     get_cross_entropy},
    {"binary_cross_entropy", 2, 3, false, loss_fields, build_binary_cross_entropy, &yki_op_loss,
     get_binary_cross_entropy},
    {"mean_squared_error", 2, 3, false, loss_fields, build_mean_squared_error, &yki_op_loss,
     get_mean_squared_error},
    {"l1_loss", 2, 3, false, loss_fields, build_l1_loss, &yki_op_loss, get_l1_loss},
    {"huber_loss", 2, 3, false, loss_fields, build_huber_loss, &yki_op_loss, get_huber_loss},
    {"accuracy", 2, 2, false, no_fields, build_accuracy, &yki_op_loss, get_accuracy},
    {"top_k", 2, 2, false, top_fields, build_top_k, &yki_op_loss, get_top_k},
    {"mean_absolute_error", 2, 2, false, no_fields, build_mean_absolute_error, &yki_op_loss,
     get_mean_absolute_error},
#define PLAIN_ROW(kind, id, name, ...)                                                             \
    {#name, 1, 1, false, no_fields, build_##name, &yki_op_unary, get_##name},
#define NUMBER_ROW(kind, id, name, ...)                                                            \
    {#name, 1, 1, false, name##_fields, build_##name, &yki_op_unary, get_##name},
    YKI_UNARY_PLAIN(PLAIN_ROW) YKI_UNARY_NUMBER(NUMBER_ROW)};

const yki_json_op *
yki_json_find_op(const char *name)
{
    for (size_t i = 0; i < YKI_COUNT(ops); i++)
        if (strcmp(ops[i].name, name) == 0)
            return &ops[i];
    return NULL;
}

const yki_json_op *
yki_json_op_at(size_t index)
{
    return index < YKI_COUNT(ops) ? &ops[index] : NULL;
}

const char *
yki_json_init_name(yoke_init_kind kind)
{
    static const char *const names[] = {
        "default",        "zeros",         "constant",        "uniform",        "normal",
        "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal",
    };

    return (unsigned)kind < YKI_COUNT(names) ? names[kind] : NULL;
}
