/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout.c - sets elements to zero with a probability, and scales the others so that
 * the expectation stays. In evaluation it does nothing.
 *
 * Whether an element stays is a function of seed, layer, step, the sample's global
 * index and the element's index in the sample. So any split of a batch draws the same
 * mask. The gradient is the same operator on dy: it draws the mask again instead of
 * keeping it. The layer's part of the key comes from its name.
 */
#include <stdio.h>

#include "op/ops.h"

/* The key is left out, so wisdom is the same for all layers. */
static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "p %.9g", (double)yki_dropout_attrs_get(attrs).probability);
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];

    YKI_TRY(yki_check_f32("the input", x));
    yki_node_like(node, x);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    if (wanted[0]) {
        dx[0] =
            yki_node(node->graph, &yki_op_dropout, NULL, &dy, 1, &node->attrs, sizeof node->attrs);
        if (dx[0])
            dx[0]->random_key = node->random_key;
    }
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    return (double)yki_shape_count(node->shape);
}

static uint32_t
evaluation(const yoke_node *node, const yki_op **op, yoke_node **inputs)
{
    *op = NULL;
    inputs[0] = node->inputs[0];
    return 1;
}

const yki_op yki_op_dropout = {
    .name = "dropout",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
    .in_place = 1,
    .evaluation = evaluation,
    .cheap = true,
    .whole = true,
};

/* A hash of 64 bits of the layer's name, the same on every host. */
static uint64_t
key_of(const char *name)
{
    yki_hash hash;
    char hex[33];
    uint64_t key = 0;

    yki_hash_start(&hash);
    yki_hash_string(&hash, "dropout");
    yki_hash_string(&hash, name);
    yki_hash_hex(&hash, hex);
    for (int i = 0; i < 16; i++)
        key = key << 4 | (uint64_t)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
    return key;
}

yki_dropout_attrs
yki_dropout_of(const char *name, float probability)
{
    const uint64_t key = key_of(name);

    return (yki_dropout_attrs){.probability = probability,
                               .scale = 1 / (1 - probability),
                               .threshold = (uint32_t)((double)probability * 4294967296.0),
                               .key = {(uint32_t)key, (uint32_t)(key >> 32)}};
}

yoke_node *
yoke_dropout(yoke_graph *graph, yoke_node *x, float probability)
{
    yki_dropout_attrs attrs;
    yoke_node *node;
    char *name = yki_layer_name(graph, NULL, "dropout");

    if (!name)
        return NULL;
    if (!(probability >= 0 && probability < 1)) {
        yki_fail_range_below(YOKE_ERROR_VALUE, "probability", (double)probability, 0, 1);
        yki_graph_fail(graph, name, YOKE_ERROR_VALUE);
        yki_free(name);
        return NULL;
    }
    attrs = yki_dropout_of(name, probability);
    node = yki_node(graph, &yki_op_dropout, name, &x, 1, &attrs, sizeof attrs);
    if (node)
        node->random_key = yki_dropout_key(&attrs);
    yki_free(name);
    return node;
}
