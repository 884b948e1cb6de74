/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_json_ops.c - the table of functions that make nodes.
 */
#include <string.h>

#include "data/graph_json.h"

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
    END,
};
static const yki_json_field parameter_fields[] = {
    {"shape", YKI_JSON_SHAPE, AT(given.shape), true},
    {"initializer", YKI_JSON_INIT, AT(given.init), false},
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
static const yki_json_field loss_fields[] = {
    {"has_ignore_index", YKI_JSON_BOOL, AT(loss.has_ignore_index), false},
    {"ignore_index", YKI_JSON_INT32, AT(loss.ignore_index), false},
    {"label_smoothing", YKI_JSON_FLOAT, AT(loss.label_smoothing), false},
    {"delta", YKI_JSON_FLOAT, AT(loss.delta), false},
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

BUILDER(input)
{
    (void)in, (void)count;
    return yoke_input(g, name, o->given.type, o->given.shape);
}

BUILDER(target)
{
    (void)in, (void)count;
    return yoke_target(g, name, o->given.type, o->given.shape);
}

BUILDER(parameter)
{
    (void)in, (void)count;
    return yoke_parameter(g, name, o->given.shape, o->given.init);
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

/* `call` may use g, in, count and o. */
#define PLAIN(op, call)                                                                            \
    BUILDER(op)                                                                                    \
    {                                                                                              \
        (void)name, (void)count, (void)in, (void)o;                                                \
        return call;                                                                               \
    }
PLAIN(maxpool2d, yoke_maxpool2d(g, in[0], &o->pool))
PLAIN(avgpool2d, yoke_avgpool2d(g, in[0], &o->pool))
PLAIN(matmul, yoke_matmul(g, in[0], in[1], &o->matmul))
#define UNARY(kind, id, name, ...)                                                                 \
    PLAIN(name, yki_unary(g, in[0], YKI_UNARY_##kind, o->plain.a, o->plain.b))
YKI_UNARY_PLAIN(UNARY)
YKI_UNARY_NUMBER(UNARY)
UNARY(SCALE, 6, scale)
#undef UNARY
PLAIN(add, yoke_add(g, in[0], in[1]))
PLAIN(sub, yoke_sub(g, in[0], in[1]))
PLAIN(mul, yoke_mul(g, in[0], in[1]))
PLAIN(dropout, yoke_dropout(g, in[0], o->plain.probability))
PLAIN(softmax, yoke_softmax(g, in[0], o->plain.axis))
PLAIN(sum, yoke_sum(g, in[0], o->plain.axes.list, o->plain.axes.count))
PLAIN(mean, yoke_mean(g, in[0], o->plain.axes.list, o->plain.axes.count))
PLAIN(global_avgpool, yoke_global_avgpool(g, in[0]))
PLAIN(concat, yoke_concat(g, in, count, o->plain.axis))
PLAIN(slice, yoke_slice(g, in[0], o->plain.axis, o->plain.begin, o->plain.end))
PLAIN(reshape, yoke_reshape(g, in[0], o->plain.shape))
PLAIN(flatten, yoke_flatten(g, in[0]))
PLAIN(softmax_cross_entropy, yoke_softmax_cross_entropy(g, in[0], in[1], &o->loss))
PLAIN(cross_entropy, yoke_cross_entropy(g, in[0], in[1], &o->loss))
PLAIN(binary_cross_entropy, yoke_binary_cross_entropy(g, in[0], in[1], &o->loss))
PLAIN(mean_squared_error, yoke_mean_squared_error(g, in[0], in[1], &o->loss))
PLAIN(l1_loss, yoke_l1_loss(g, in[0], in[1], &o->loss))
PLAIN(huber_loss, yoke_huber_loss(g, in[0], in[1], &o->loss))
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

/* ---- the table ---- */

static const yki_json_op ops[] = {
    {"input", 0, 0, true, given_fields, build_input},
    {"target", 0, 0, true, given_fields, build_target},
    {"parameter", 0, 0, true, parameter_fields, build_parameter},
    {"dense", 1, 1, true, dense_fields, build_dense},
    {"conv2d", 1, 1, true, conv2d_fields, build_conv2d},
    {"conv_transpose2d", 1, 1, true, conv_transpose2d_fields, build_conv_transpose2d},
    {"maxpool2d", 1, 1, false, pool_fields, build_maxpool2d},
    {"avgpool2d", 1, 1, false, pool_fields, build_avgpool2d},
    {"global_avgpool", 1, 1, false, no_fields, build_global_avgpool},
    {"batch_norm", 1, 1, true, batch_norm_fields, build_batch_norm},
    {"layer_norm", 1, 1, true, layer_norm_fields, build_layer_norm},
    {"embedding", 1, 1, true, embedding_fields, build_embedding},
    {"matmul", 2, 2, false, matmul_fields, build_matmul},
    {"scale", 1, 1, false, scale_fields, build_scale},
    {"add", 2, 2, false, no_fields, build_add},
    {"sub", 2, 2, false, no_fields, build_sub},
    {"mul", 2, 2, false, no_fields, build_mul},
    {"dropout", 1, 1, false, probability_fields, build_dropout},
    {"softmax", 1, 1, false, axis_fields, build_softmax},
    {"sum", 1, 1, false, axes_fields, build_sum},
    {"mean", 1, 1, false, axes_fields, build_mean},
    {"concat", 1, YKI_GRAPH_JSON_INPUTS, false, axis_fields, build_concat},
    {"slice", 1, 1, false, slice_fields, build_slice},
    {"reshape", 1, 1, false, shape_fields, build_reshape},
    {"flatten", 1, 1, false, no_fields, build_flatten},
    {"transpose", 1, 1, false, axes_fields, build_transpose},
    {"custom", 1, YKI_MAX_INPUTS, false, custom_fields, build_custom},
    {"softmax_cross_entropy", 2, 2, false, loss_fields, build_softmax_cross_entropy},
    {"cross_entropy", 2, 2, false, loss_fields, build_cross_entropy},
    {"binary_cross_entropy", 2, 2, false, loss_fields, build_binary_cross_entropy},
    {"mean_squared_error", 2, 2, false, loss_fields, build_mean_squared_error},
    {"l1_loss", 2, 2, false, loss_fields, build_l1_loss},
    {"huber_loss", 2, 2, false, loss_fields, build_huber_loss},
    {"accuracy", 2, 2, false, no_fields, build_accuracy},
    {"top_k", 2, 2, false, top_fields, build_top_k},
    {"mean_absolute_error", 2, 2, false, no_fields, build_mean_absolute_error},
#define PLAIN_ROW(kind, id, name, ...)  {#name, 1, 1, false, no_fields, build_##name},
#define NUMBER_ROW(kind, id, name, ...) {#name, 1, 1, false, name##_fields, build_##name},
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
