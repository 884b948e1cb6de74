/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_json_node.c - finds which function of <yoke.h> made a node, by the table of
 * graph_json_ops.c.
 *
 * A layer is several nodes (its parameters and states, the statistics of a batch norm). It is
 * written as the node that has its name; its row takes the name, and its one input is the
 * argument.
 */
#include <string.h>

#include "data/graph_json.h"

/* The row of the function that made the node; NULL: none did. */
static const yki_json_op *
find_row(const yoke_node *n, yki_json_options *options)
{
    const yki_json_op *row;

    for (size_t i = 0; (row = yki_json_op_at(i)) != NULL; i++) {
        if (row->op != n->op)
            continue;
        memset(options, 0, sizeof *options);
        if (!row->get || row->get(n, options))
            return row;
    }
    return NULL;
}

static uint32_t
argument_count(const yki_json_op *row, const yoke_node *n)
{
    return row->takes_name ? row->most : n->input_count;
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
        yki_json_options ignored;
        const yki_json_op *row;

        if (!n->op || n->op == &yki_op_bn_stats)
            continue;
        row = yki_json_is_part(parameter, n, dot + 1) ? find_row(n, &ignored) : NULL;
        if (!row)
            return false;
        for (uint32_t k = argument_count(row, n); k < n->input_count; k++)
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
    memset(options, 0, sizeof *options);
    *op = NULL;
    *inputs = 0;
    if ((node->role == YKI_ROLE_STATE && !yki_is_constant(node)) || node->op == &yki_op_bn_stats ||
        node->op == &yki_op_bn_running || (node->role == YKI_ROLE_PARAMETER && has_layer(node)))
        return YOKE_OK;
    *op = find_row(node, options);
    if (!*op)
        return yki_fail(
            YOKE_ERROR_UNSUPPORTED,
            "%s: %s nodes cannot be written as JSON; must be an operator of yoke-files(7)",
            node->name, node->op->name);
    *inputs = argument_count(*op, node);
    return YOKE_OK;
}
