/* SPDX-License-Identifier: Apache-2.0
 *
 * custom.c - operators that users write: OpenCL C for forward and backward, and a rule
 * for the shape. <yoke.h> says which arguments the kernels get.
 *
 * The gradient by each input is a node of its own, per sample, with its own kernel.
 * Where the input is not batched (a parameter), yoke sums over the samples, so a
 * kernel never has to.
 *
 * The rule is called once, when the node is made, and the source is copied into the
 * node. Nothing of the user's memory is kept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "op/custom/custom.h"

enum { MAX_NAME = 63 };

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_custom_attrs a = yki_custom_attrs_get(attrs);

    snprintf(text, size, "%s %016" PRIx64, a.name, a.hash);
}

static void
describe_grad(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_custom_attrs a = yki_custom_attrs_get(attrs);

    snprintf(text, size, "%s %016" PRIx64 " by %d", a.name, a.hash, a.input);
}

static yoke_status
infer(yoke_node *node)
{
    const yki_custom_attrs a = yki_custom_attrs_get(&node->attrs);
    char text[128];

    if (a.shape.rank < 0 || a.shape.rank >= YOKE_MAX_RANK)
        return yki_fail_range(YOKE_ERROR_SHAPE, "the rank of its shape", a.shape.rank, 0,
                              YOKE_MAX_RANK - 1);
    for (int32_t i = 0; i < a.shape.rank; i++)
        if (a.shape.dim[i] < 1 || a.shape.dim[i] > INT32_MAX)
            return yki_fail(YOKE_ERROR_SHAPE, "its shape is %s; sizes must be between 1 and %d",
                            yki_shape_text(a.shape, text, sizeof text), INT32_MAX);
    for (uint32_t i = 0; i < node->input_count; i++)
        node->batched |= node->inputs[i]->batched;
    node->type = YOKE_F32;
    node->shape = a.shape;
    return YOKE_OK;
}

/* The gradient by one input is per sample, even where the input serves all samples. */
static yoke_status
infer_grad(yoke_node *node)
{
    node->type = YOKE_F32;
    node->shape = node->inputs[yki_custom_attrs_get(&node->attrs).input]->shape;
    node->batched = node->inputs[node->input_count - 1]->batched;
    return YOKE_OK;
}

/* Gives `node` a copy of the text. */
static bool
attach(yoke_node *node, const char *name, const char *source, const char *suffix)
{
    size_t length = strlen(source) + 1;
    yki_custom_text *text = yki_alloc(1, sizeof *text + length, "a custom operator's source");

    if (!text) {
        yki_graph_fail(node->graph, node->name, YOKE_ERROR_OUT_OF_MEMORY);
        return false;
    }
    snprintf(text->name, sizeof text->name, "%s", name);
    snprintf(text->kernel, sizeof text->kernel, "%s_%s", name, suffix);
    memcpy(text->source, source, length);
    node->data = text;
    return true;
}

static yoke_node *
gradient_by(yoke_node *node, yoke_node *dy, uint32_t input)
{
    const yki_custom_text *text = node->data;
    yki_custom_attrs attrs = yki_custom_attrs_get(&node->attrs);
    yoke_node *inputs[YKI_MAX_INPUTS], *dx;
    char suffix[24];

    memcpy(inputs, node->inputs, node->input_count * sizeof *inputs);
    inputs[node->input_count] = node;
    inputs[node->input_count + 1] = dy;
    attrs.input = (int32_t)input;
    dx = yki_node(node->graph, &yki_op_custom_grad, NULL, inputs, node->input_count + 2, &attrs,
                  sizeof attrs);
    snprintf(suffix, sizeof suffix, "backward%u", input);
    if (!dx || !attach(dx, text->name, text->source, suffix))
        return NULL;
    if (dx->batched && !node->inputs[input]->batched)
        dx = yki_node1(node->graph, &yki_op_batch_sum, dx);
    return dx;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    if (yki_custom_attrs_get(&node->attrs).no_backward)
        return YOKE_OK;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (wanted[i])
            dx[i] = gradient_by(node, dy, i);
    return yki_graph_status(node->graph);
}

const yki_op yki_op_custom = {
    .name = "custom",
    .infer = infer,
    .gradient = gradient,
    .describe = describe,
};

const yki_op yki_op_custom_grad = {
    .name = "custom_grad",
    .infer = infer_grad,
    .describe = describe_grad,
};

/* ---- the builder ---- */

/* Names become the names of kernels. */
static bool
is_identifier(const char *name)
{
    size_t length = name ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789_")
                         : 0;

    return length > 0 && length <= MAX_NAME && !name[length] && !(*name >= '0' && *name <= '9');
}

static yoke_status
check(yoke_graph *graph, yoke_node *const *inputs, size_t count, const yoke_custom_options *o)
{
    if (!is_identifier(o->name))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the name is %s%.80s%s; must be an identifier of C of 1 to %d characters",
                        o->name ? "\"" : "", o->name ? o->name : "NULL", o->name ? "\"" : "",
                        MAX_NAME);
    if (!o->source)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "source is NULL; must be the text of the kernels");
    if (!inputs || count < 1 || count > YKI_CUSTOM_INPUTS)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of inputs",
                              inputs ? (int64_t)YKI_MIN(count, (size_t)INT32_MAX) : 0, 1,
                              YKI_CUSTOM_INPUTS);
    for (size_t i = 0; i < count; i++)
        if (!inputs[i] || inputs[i]->graph != graph) {
            char what[32];

            snprintf(what, sizeof what, "input %zu", i);
            return yki_fail_node(what, inputs[i]);
        }
    return YOKE_OK;
}

/* A range must be one of integers that the input's type can hold. */
static yoke_status
check_range(const yoke_node *input, const yoke_range *range)
{
    int64_t least = input->type == YOKE_U8 ? 0 : INT32_MIN;
    int64_t most = input->type == YOKE_U8 ? UINT8_MAX : INT32_MAX;

    if (range->begin == 0 && range->end == 0)
        return YOKE_OK;
    if (input->type == YOKE_F32)
        return yki_fail_type("its input", input, "i32 or u8 to have a range");
    if (range->begin >= range->end || range->begin < least || range->end - 1 > most)
        return yki_fail(YOKE_ERROR_VALUE,
                        "the range of its input \"%s\" is %lld to %lld - 1; must not be empty, and "
                        "its values must be between %lld and %lld",
                        input->name, (long long)range->begin, (long long)range->end,
                        (long long)least, (long long)most);
    return YOKE_OK;
}

static yoke_status
check_ranges(yoke_node *const *inputs, size_t count, const yoke_range *ranges)
{
    for (size_t i = 0; ranges && i < count; i++)
        YKI_TRY(check_range(inputs[i], &ranges[i]));
    return YOKE_OK;
}

static yoke_status
find_shape(yoke_node *const *inputs, size_t count, const yoke_custom_options *o, yoke_shape *shape)
{
    yoke_shape in[YKI_CUSTOM_INPUTS], out;
    char text[128];

    for (size_t i = 0; i < count; i++)
        in[i] = inputs[i]->shape;
    out = in[0];
    if (o->shape && !o->shape(o->user, in, count, &out))
        return yki_fail(YOKE_ERROR_SHAPE,
                        "its rule for the shape refuses \"%s\" of shape %s; must be a shape that "
                        "the rule takes",
                        inputs[0]->name, yki_shape_text(in[0], text, sizeof text));
    /* Numbers that the rule left beyond the rank are not part of the shape. */
    for (int32_t i = YKI_MAX(out.rank, 0); i < YOKE_MAX_RANK; i++)
        out.dim[i] = 0;
    out.reserved = 0;
    *shape = out;
    return YOKE_OK;
}

/* A hash of source and ranges. It is the same for the same operator, also if that was read from
 * a file, which leaves out ranges that allow any value. */
static uint64_t
hash_of(const yoke_custom_options *o, size_t count)
{
    yki_hash hash;

    yki_hash_start(&hash);
    yki_hash_string(&hash, o->source);
    for (size_t i = 0; o->ranges && i < count; i++)
        if (o->ranges[i].begin < o->ranges[i].end) {
            yki_hash_add(&hash, &i, sizeof i);
            yki_hash_add(&hash, &o->ranges[i], sizeof o->ranges[i]);
        }
    return hash.h[0] ^ hash.h[1];
}

/* The node keeps the ranges; values of its inputs are checked against them. */
static bool
attach_ranges(yoke_node *node, const yoke_range *ranges)
{
    yki_custom_text *text = node->data;

    for (uint32_t i = 0; ranges && i < node->input_count; i++) {
        text->ranges[i] = ranges[i];
        if (ranges[i].begin < ranges[i].end &&
            !yki_limit_values(node->inputs[i], ranges[i].begin, ranges[i].end, NULL))
            return false;
    }
    return true;
}

static yoke_node *
build(yoke_graph *graph, yoke_node *const *inputs, size_t count, const yoke_custom_options *o,
      const char *name)
{
    yki_custom_attrs attrs = {.no_backward = o->no_backward};
    yoke_status status = check(graph, inputs, count, o);
    yoke_node *node;

    if (status == YOKE_OK)
        status = check_ranges(inputs, count, o->ranges);
    if (status == YOKE_OK)
        status = find_shape(inputs, count, o, &attrs.shape);
    if (status != YOKE_OK) {
        yki_graph_fail(graph, name, status);
        return NULL;
    }
    attrs.hash = hash_of(o, count);
    snprintf(attrs.name, sizeof attrs.name, "%s", o->name);
    node = yki_node(graph, &yki_op_custom, name, inputs, (uint32_t)count, &attrs, sizeof attrs);
    if (!node || !attach(node, o->name, o->source, "forward") || !attach_ranges(node, o->ranges))
        return NULL;
    return node;
}

yoke_node *
yoke_custom_sized(yoke_graph *graph, yoke_node *const *inputs, size_t count,
                  const yoke_custom_options *options, size_t size)
{
    yoke_custom_options o = {0};
    yoke_node *node;
    char *name;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    name = yki_layer_name(graph, NULL, o.name && *o.name ? o.name : "custom");
    if (!name)
        return NULL;
    node = build(graph, inputs, count, &o, name);
    yki_free(name);
    return node;
}
