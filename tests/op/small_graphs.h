/* SPDX-License-Identifier: Apache-2.0
 *
 * small_graphs.h - a small graph with each function that makes nodes: one table, by which tests
 * walk all operators. check_table tells which operator is in none of them.
 */
#ifndef YOKE_TESTS_SMALL_GRAPHS_H
#define YOKE_TESTS_SMALL_GRAPHS_H

#include "op/ops.h"

enum { OP_SMALL_CHANNELS = 2, OP_SMALL_SIDE = 4, OP_SMALL_CLASSES = 5 };

typedef enum op_small_target {
    OP_NO_TARGET = 0,
    OP_VALUES, /* "target" has OP_SMALL_CLASSES floats a sample */
    OP_LABELS  /* "target" has a class a sample */
} op_small_target;

typedef struct op_small_graph {
    const char *word; /* the function without yoke_, as files of graphs call it */
    const char *note; /* what is special about this graph, or "" */
    yoke_node *(*make)(yoke_graph *g, yoke_node *x);
    op_small_target target; /* of losses and metrics */
    /* Why a NaN in x need not be one in the result; NULL: it has to be. Every metric has a reason,
     * and no loss has one. */
    const char *stops_nan;
} op_small_graph;

extern const op_small_graph op_small_graphs[];
extern const size_t op_small_graph_count;

/* The input "x": (OP_SMALL_CLASSES) for a loss or a metric, else (CHANNELS, SIDE, SIDE). */
yoke_node *op_small_input(yoke_graph *g, const op_small_graph *row);

#endif
