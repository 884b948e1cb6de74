/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_print.c - prints a graph as a table: the layers that the user made, with their options,
 * shapes, parameters and FLOPs of forward for one sample.
 *
 * Functions and options have the names of the JSON form, which are those of C. A parameter counts
 * with the first layer that uses it. A layer of several nodes has one row. The rows are made twice:
 * the first time only to measure the width of the columns. The sizes of a
 * graph are counted in the same way, without rows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/graph_json.h"

enum { COLUMNS = 5, CELL = 96, LINE = COLUMNS * (CELL + 2) };

typedef struct row {
    char cell[COLUMNS][CELL]; /* layer, operator, result, parameters, FLOPs */
} row;

typedef struct table {
    const yoke_graph *graph;
    bool *counted; /* parameters, by node id */
    size_t width[COLUMNS];
    yoke_graph_counts sum;
    double pending; /* FLOPs of nodes without a row; the next row adds them */
    yki_teller to;
} table;

/* "1.23 M"; small numbers in full */
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

static double
flops_of(const yoke_node *node)
{
    const double rows = node->length && !(node->op && node->op->whole) ? (double)node->length : 1;

    return node->op && node->op->flops ? rows * node->op->flops(node) : 0;
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

/* Parameters and states appear with the nodes that use them. Constants do not appear. */
static bool
has_row(const yoke_node *node)
{
    return node->op || node->role == YKI_ROLE_INPUT;
}

static void
axes_text(const struct yki_json_axes *axes, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int32_t i = 0; i < axes->count && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "axes ", axes->list[i]);
}

/* "stride 2x2"; "" for what other columns show, or what does not fit into a line. */
static void
option_text(const yki_json_field *field, const void *at, char *text, size_t size)
{
    const int64_t *pair = at;

    text[0] = '\0';
    switch (field->kind) {
    case YKI_JSON_INT64:
        snprintf(text, size, "%s %" PRId64, field->key, *pair);
        break;
    case YKI_JSON_INT32:
        snprintf(text, size, "%s %" PRId32, field->key, *(const int32_t *)at);
        break;
    case YKI_JSON_PAIR:
        snprintf(text, size, "%s %" PRId64 "x%" PRId64, field->key, pair[0], pair[1]);
        break;
    case YKI_JSON_FLOAT:
        snprintf(text, size, "%s %g", field->key, (double)*(const float *)at);
        break;
    case YKI_JSON_BOOL:
        snprintf(text, size, "%s", field->key);
        break;
    case YKI_JSON_TYPE:
        snprintf(text, size, "%s", yki_value_type_name(*(const yoke_type *)at));
        break;
    case YKI_JSON_AXES:
        axes_text(at, text, size);
        break;
    case YKI_JSON_TEXT:
        if (strcmp(field->key, "source") != 0)
            snprintf(text, size, "%.60s", *(const char *const *)at);
        break;
    case YKI_JSON_SHAPE:
    case YKI_JSON_INIT:
    case YKI_JSON_RANGES:
    case YKI_JSON_FLOATS:
        break;
    }
}

/* "conv2d filters 8, kernel 3x3": the function that made the node, and its options. */
static void
operator_text(const yki_json_op *op, const yki_json_options *options, char text[CELL])
{
    const char *separator = " ";
    size_t used = (size_t)snprintf(text, CELL, "%s", op->name);

    for (const yki_json_field *field = op->fields; field->key && used < CELL; field++) {
        const void *at = (const char *)options + field->offset;
        char option[80] = "";

        if (field->needed || !yki_json_is_zero(field, at))
            option_text(field, at, option, sizeof option);
        if (!*option)
            continue;
        used += (size_t)snprintf(text + used, CELL - used, "%s%s", separator, option);
        separator = ", ";
    }
}

/* Fills in a row; false: the node belongs to a layer, whose row comes later. */
static bool
fill_row(table *t, const yoke_node *node, row *r)
{
    const double flops = flops_of(node);
    yki_json_options options;
    const yki_json_op *op;
    uint32_t inputs;

    t->sum.flops += flops;
    t->pending += flops;
    /* A node that JSON cannot express is shown by the name of its operator. */
    if (yki_json_of_node(node, &op, &options, &inputs) != YOKE_OK)
        snprintf(r->cell[1], CELL, "%s", node->op ? node->op->name : "constant");
    else if (!op)
        return false;
    else
        operator_text(op, &options, r->cell[1]);
    snprintf(r->cell[0], CELL, "%.*s", CELL - 1, node->name);
    yki_shape_text(yki_whole_shape(node), r->cell[2], CELL);
    snprintf(r->cell[3], CELL, "%" PRId64, count_parameters(t, node));
    flops_text(t->pending, r->cell[4], CELL);
    t->pending = 0;
    return true;
}

static void
take_nothing(table *t, const row *r)
{
    (void)t;
    (void)r;
}

static void
take_width(table *t, const row *r)
{
    for (int c = 0; c < COLUMNS; c++)
        t->width[c] = YKI_MAX(t->width[c], strlen(r->cell[c]));
}

/* Prints a row: words to the left, numbers to the right, two spaces between. */
static void
take_line(table *t, const row *r)
{
    char text[LINE];
    size_t used = 0;

    for (int c = 0; c < COLUMNS; c++)
        used += (size_t)snprintf(text + used, sizeof text - used, c < 3 ? "%s%-*s" : "%s%*s",
                                 c ? "  " : "", (int)t->width[c], r->cell[c]);
    t->to.line(t->to.user, text);
}

/* Passes all rows to `take`, and sums the totals. */
static void
for_rows(table *t, void (*take)(table *t, const row *r))
{
    size_t count = yki_graph_own_count(t->graph);
    row r = {{"layer", "operator", "result", "parameters", "FLOPs"}};

    memset(t->counted, 0, t->graph->node_count * sizeof *t->counted);
    memset(&t->sum, 0, sizeof t->sum);
    t->pending = 0;
    take(t, &r);
    for (size_t i = 0; i < count; i++)
        if (has_row(t->graph->nodes[i]) && fill_row(t, t->graph->nodes[i], &r))
            take(t, &r);
    /* Parameters that no node uses count too. */
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

/* Sums over the nodes that the loss is computed from: a head that gives the logits beside it does
 * not count. */
static void
count_needed(const yoke_graph *graph, bool *needed, yoke_graph_counts *sum)
{
    const size_t count = yki_graph_own_count(graph);

    sum->flops = 0;
    for (size_t i = 0; i < count; i++)
        needed[i] = !graph->loss || graph->nodes[i] == graph->loss;
    for (size_t i = count; i-- > 0;) {
        const yoke_node *node = graph->nodes[i];

        if (!needed[i])
            continue;
        sum->flops += flops_of(node);
        if (node->op && node->op != &yki_op_reshape && node->batched)
            sum->activations += yki_shape_count(yki_whole_shape(node));
        for (uint32_t k = 0; k < node->input_count; k++)
            needed[node->inputs[k]->id] = true;
    }
}

/* Begins a table, whose `counted` the caller frees. */
static yoke_status
begin(table *t)
{
    YKI_TRY(yki_graph_status(t->graph));
    t->counted = yki_alloc(t->graph->node_count + 1, sizeof *t->counted, "a table of layers");
    return t->counted ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

yoke_status
yoke_graph_count_sized(const yoke_graph *graph, yoke_graph_counts *counts, size_t size)
{
    table t = {.graph = graph};

    YKI_GIVEN("yoke_graph_count", {"graph", graph}, {"counts", counts});
    YKI_TRY(begin(&t));
    for_rows(&t, take_nothing);
    count_needed(graph, t.counted, &t.sum);
    memcpy(counts, &t.sum, YKI_MIN(size, sizeof t.sum));
    yki_free(t.counted);
    return YOKE_OK;
}

yoke_status
yoke_graph_print(const yoke_graph *graph, void (*line)(void *user, const char *text), void *user)
{
    table t = {.graph = graph, .to = {line, user}};

    if (!graph || !line)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_graph_print: %s is NULL",
                        graph ? "line" : "graph");
    YKI_TRY(begin(&t));
    for_rows(&t, take_width);
    for_rows(&t, take_line);
    if (t.sum.frozen)
        yki_tell(&t.to, "%" PRId64 " of the parameters are frozen", t.sum.frozen);
    yki_free(t.counted);
    return YOKE_OK;
}
