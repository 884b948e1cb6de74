/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c - a graph as a table: the nodes its user made, with shapes, parameters
 * and FLOPs of the forward pass for one sample.
 *
 * A parameter counts with the first node that takes it. The rows are made twice:
 * once for the width of the columns.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

enum { COLUMNS = 5, CELL = 96, LINE = COLUMNS * (CELL + 2) };

typedef struct row {
    char cell[COLUMNS][CELL]; /* layer, operator, result, parameters, FLOPs */
} row;

typedef struct totals {
    int64_t parameters, frozen;
    double flops;
} totals;

typedef struct table {
    const yoke_graph *graph;
    bool *counted; /* parameters, by node id */
    size_t width[COLUMNS];
    totals sum;
    void (*line)(void *user, const char *text);
    void *user;
} table;

/* "1.23 M"; small numbers as they are. */
static void
flops_text(double flops, char *text, size_t size)
{
    static const char *const units[] = {" k", " M", " G", " T", " P"};
    size_t unit = 0;

    if (flops < 1000) {
        snprintf(text, size, "%.0f", flops);
        return;
    }
    for (flops /= 1000; flops >= 999.995 && unit + 1 < YKI_COUNT(units); unit++)
        flops /= 1000;
    snprintf(text, size, "%.2f%s", flops, units[unit]);
}

static int64_t
count_parameters(table *t, const yoke_node *node)
{
    int64_t count = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const yoke_node *p = node->inputs[i];
        int64_t size = yki_shape_count(p->shape);

        if (p->role != YKI_ROLE_PARAMETER || t->counted[p->id])
            continue;
        t->counted[p->id] = true;
        count += size;
        t->sum.parameters += size;
        t->sum.frozen += p->frozen ? size : 0;
    }
    return count;
}

/* Parameters and states appear with the nodes that use them, constants not at all. */
static bool
has_row(const yoke_node *node)
{
    return node->op || node->role == YKI_ROLE_INPUT;
}

static void
fill_row(table *t, const yoke_node *node, row *r)
{
    double flops = node->op && node->op->flops ? node->op->flops(node) : 0;
    char attrs[CELL] = "";

    if (node->op && node->op->describe)
        node->op->describe(&node->attrs, attrs, sizeof attrs);
    snprintf(r->cell[0], CELL, "%.*s", CELL - 1, node->name);
    snprintf(r->cell[1], CELL, "%.30s%s%.60s", node->op ? node->op->name : "input",
             *attrs ? " " : "", attrs);
    yki_shape_text(node->shape, r->cell[2], CELL);
    snprintf(r->cell[3], CELL, "%" PRId64, count_parameters(t, node));
    flops_text(flops, r->cell[4], CELL);
    t->sum.flops += flops;
}

static void
take_width(table *t, const row *r)
{
    for (int c = 0; c < COLUMNS; c++)
        t->width[c] = YKI_MAX(t->width[c], strlen(r->cell[c]));
}

/* Words to the left, numbers to the right, two blanks between. */
static void
take_line(table *t, const row *r)
{
    char text[LINE];
    size_t used = 0;

    for (int c = 0; c < COLUMNS; c++)
        used += (size_t)snprintf(text + used, sizeof text - used, c < 3 ? "%s%-*s" : "%s%*s",
                                 c ? "  " : "", (int)t->width[c], r->cell[c]);
    t->line(t->user, text);
}

/* All rows through `take`; the totals are those of this pass. */
static void
for_rows(table *t, void (*take)(table *t, const row *r))
{
    size_t count = yki_graph_own_count(t->graph);
    row r = {{"layer", "operator", "result", "parameters", "FLOPs"}};

    memset(t->counted, 0, t->graph->node_count * sizeof *t->counted);
    memset(&t->sum, 0, sizeof t->sum);
    take(t, &r);
    for (size_t i = 0; i < count; i++)
        if (has_row(t->graph->nodes[i])) {
            fill_row(t, t->graph->nodes[i], &r);
            take(t, &r);
        }
    /* What no node takes is there all the same. */
    for (size_t i = 0; i < count; i++) {
        const yoke_node *node = t->graph->nodes[i];

        if (node->role != YKI_ROLE_PARAMETER || t->counted[i])
            continue;
        t->sum.parameters += yki_shape_count(node->shape);
        t->sum.frozen += node->frozen ? yki_shape_count(node->shape) : 0;
    }
    memset(&r, 0, sizeof r);
    snprintf(r.cell[0], CELL, "total");
    snprintf(r.cell[3], CELL, "%" PRId64, t->sum.parameters);
    flops_text(t->sum.flops, r.cell[4], CELL);
    take(t, &r);
}

yoke_status
yoke_graph_print(const yoke_graph *graph, void (*line)(void *user, const char *text), void *user)
{
    table t = {.graph = graph, .line = line, .user = user};

    if (!graph || !line)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_graph_print: %s is NULL",
                        graph ? "line" : "graph");
    YKI_TRY(yoke_graph_status(graph));
    t.counted = yki_alloc(graph->node_count + 1, sizeof *t.counted, "a table of layers");
    if (!t.counted)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for_rows(&t, take_width);
    for_rows(&t, take_line);
    if (t.sum.frozen) {
        char text[LINE];

        snprintf(text, sizeof text, "%" PRId64 " of the parameters are frozen", t.sum.frozen);
        line(user, text);
    }
    yki_free(t.counted);
    return YOKE_OK;
}
