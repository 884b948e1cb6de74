/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c - builds a graph: nodes, names, the first error.
 *
 * A graph keeps its first error, with the node's name in front. Every call after
 * it does nothing and returns NULL. So a program that builds a network checks
 * once, where it compiles the graph (cairo does the same).
 */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

#define MAX_ELEMENTS (INT64_C(1) << 40)

yoke_status
yoke_graph_create(yoke_graph **out)
{
    yoke_graph *graph;

    if (!out)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_graph_create: graph is NULL");
    graph = yki_alloc(1, sizeof *graph, "a graph");
    if (!graph)
        return YOKE_ERROR_OUT_OF_MEMORY;
    atomic_store(&graph->references, 1);
    *out = graph;
    return YOKE_OK;
}

void
yki_node_free(yoke_node *node)
{
    if (!node)
        return;
    yki_free(node->name);
    yki_free(node->data);
    yki_free(node);
}

yoke_graph *
yki_graph_retain(yoke_graph *graph)
{
    atomic_fetch_add(&graph->references, 1);
    return graph;
}

void
yoke_graph_destroy(yoke_graph *graph)
{
    if (!graph || atomic_fetch_sub(&graph->references, 1) != 1)
        return;
    for (size_t i = 0; i < graph->node_count; i++)
        yki_node_free(graph->nodes[i]);
    for (size_t i = 0; i < graph->output_count; i++)
        yki_free(graph->outputs[i].name);
    for (size_t i = 0; i < graph->metric_count; i++)
        yki_free(graph->metrics[i].name);
    for (size_t i = 0; i < graph->place_count; i++)
        yki_free(graph->places[i]);
    yki_free(graph->places);
    yki_names_clear(graph);
    yki_free(graph->nodes);
    yki_free(graph->outputs);
    yki_free(graph->metrics);
    yki_free(graph->detail);
    yki_free(graph->refused);
    yki_free(graph);
}

/* The graph is compiled, so nothing may be added any more. */
static bool
is_fixed(const yoke_graph *graph)
{
    return graph->own_count && !graph->compiling;
}

void
yki_graph_fail(yoke_graph *graph, const char *name, yoke_status status)
{
    if (graph->status != YOKE_OK)
        return;
    if (name)
        yki_fail_in(status, name);
    if (is_fixed(graph)) {
        if (!graph->refused)
            graph->refused = yki_strdup(yoke_last_error(), "the graph's error");
        return;
    }
    graph->status = status;
    /* If there is no memory even for this copy, the graph keeps the status alone. */
    graph->detail = yki_strdup(yoke_last_error(), "the graph's error");
}

/* Tells whether something may be added or set; `name` is what an error calls it, or NULL. It may
 * not after the first error. It may not once the graph is compiled either: yoke_graph_status
 * reports that, but what was made of the graph goes on with it as it is. */
static bool
takes(yoke_graph *graph, const char *name)
{
    if (!graph || graph->status != YOKE_OK)
        return false;
    if (!is_fixed(graph))
        return true;
    yki_graph_fail(graph, name,
                   yki_fail(YOKE_ERROR_STATE,
                            "the graph is compiled for a trainer or a replica and cannot "
                            "change any more; change it before, or build another graph"));
    return false;
}

/* Operators only move integers (reshape, slice, concat), so a limit of a node is one of its inputs
 * too. With several limits, a value has to be allowed by each of them: within its range, or as its
 * exception. If two exceptions are still allowed, the first one stays. */
bool
yki_limit_values(yoke_node *node, int64_t low, int64_t limit, const int32_t *exception)
{
    const bool is_first = node->low == node->limit;
    const int64_t from = is_first ? low : YKI_MAX(node->low, low);
    const int64_t to = is_first ? limit : YKI_MIN(node->limit, limit);
    const int32_t own = node->exception, *const before = node->has_exception ? &own : NULL;
    const int32_t *const candidates[2] = {before, exception}, *left = NULL;

    if (from >= to) {
        yki_fail(YOKE_ERROR_VALUE,
                 "values must be between %lld and %lld for one operator and between %lld and %lld "
                 "for another; no value is in both ranges",
                 (long long)node->low, (long long)node->limit - 1, (long long)low,
                 (long long)limit - 1);
        yki_graph_fail(node->graph, node->name, YOKE_ERROR_VALUE);
        return false;
    }
    for (int i = 0; i < 2 && !left; i++)
        if (candidates[i] && yki_value_fits(node, *candidates[i]) &&
            yki_is_among(*candidates[i], low, limit, exception) &&
            !yki_is_among(*candidates[i], from, to, NULL))
            left = candidates[i];
    if (from == node->low && to == node->limit && left == before)
        return true;
    node->low = from;
    node->limit = to;
    node->has_exception = left != NULL;
    node->exception = left ? *left : 0;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i]->type != YOKE_F32 && !yki_limit_values(node->inputs[i], from, to, left))
            return false;
    return true;
}

yoke_status
yki_graph_status(const yoke_graph *graph)
{
    if (graph->status != YOKE_OK && graph->detail)
        yki_set_detail(graph->detail);
    return graph->status;
}

yoke_status
yoke_graph_status(const yoke_graph *graph)
{
    if (!graph)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_graph_status: graph is NULL");
    if (graph->status != YOKE_OK || !graph->refused)
        return yki_graph_status(graph);
    yki_set_detail(graph->refused);
    return YOKE_ERROR_STATE;
}

const yoke_node *
yki_graph_find_statistic(const yoke_graph *graph)
{
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op && graph->nodes[i]->op->merge)
            return graph->nodes[i];
    return NULL;
}

size_t
yki_graph_own_count(const yoke_graph *graph)
{
    return graph->own_count ? graph->own_count : graph->node_count;
}

void
yki_graph_begin_compiling(yoke_graph *graph)
{
    graph->own_count = yki_graph_own_count(graph);
    graph->compiling = true;
}

void
yki_graph_end_compiling(yoke_graph *graph)
{
    graph->compiling = false;
}

/* Appends a node, which owns `name`. On failure it frees `name`. */
static yoke_node *
append(yoke_graph *graph, char *name)
{
    yoke_node *node = NULL;
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    if (!name)
        goto fail;
    if (yoke_graph_get_node(graph, name)) {
        status =
            yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "another node has this name; must be unique");
        goto fail;
    }
    node = yki_alloc(1, sizeof *node, "a node");
    if (!node)
        goto fail;
    status = yki_grow((void **)&graph->nodes, &graph->node_capacity, graph->node_count + 1,
                      sizeof *graph->nodes, "the graph's nodes");
    if (status == YOKE_OK)
        status = yki_names_reserve(graph);
    if (status != YOKE_OK)
        goto fail;
    node->graph = graph;
    node->id = (uint32_t)graph->node_count;
    node->name = name;
    node->place = graph->place;
    node->origin = graph->origin;
    graph->nodes[graph->node_count++] = node;
    yki_names_add(graph, node);
    return node;

fail:
    yki_graph_fail(graph, name, status);
    yki_free(name);
    yki_node_free(node);
    return NULL;
}

/* Elements are counted in 64 bits. The limit leaves room for a batch, so that no product of sizes
 * overflows. */
static yoke_status
check_size(yoke_shape shape)
{
    char text[160];
    int64_t left = MAX_ELEMENTS;

    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dim[i] > left)
            return yki_fail(YOKE_ERROR_SHAPE,
                            "the shape %s has more than 2^40 elements; must have at most 2^40",
                            yki_shape_text(shape, text, sizeof text));
        left /= YKI_MAX(shape.dim[i], 1);
    }
    return YOKE_OK;
}

static bool
is_loss(const yoke_node *node)
{
    return node->op && node->op->is_loss;
}

static yoke_status
check_input(const yoke_graph *graph, const yki_op *op, const yoke_node *input, uint32_t index)
{
    if (!input || input->graph != graph) {
        char what[32];

        snprintf(what, sizeof what, "input %u", index);
        return yki_fail_node(what, input);
    }
    if (is_loss(input) && !op->takes_losses)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "input %u \"%s\" is a loss or a metric; must be neither, as no operator "
                        "computes from them",
                        index, input->name);
    return YOKE_OK;
}

/* An operator that works row by row takes sequences alone, or no sequence; what serves every sample
 * serves every row. */
static yoke_status
infer_length(yoke_node *node)
{
    const yoke_node *first = NULL;

    for (uint32_t i = 0; i < node->input_count && !node->op->whole; i++) {
        const yoke_node *input = node->inputs[i];

        if (!input->batched)
            continue;
        first = first ? first : input;
        if (input->length != first->length)
            return yki_fail(YOKE_ERROR_SHAPE,
                            "\"%s\" is a sequence and \"%s\" is not; must both be sequences, or "
                            "neither",
                            input->length ? input->name : first->name,
                            input->length ? first->name : input->name);
    }
    YKI_TRY(node->op->infer(node));
    if (!node->op->whole)
        node->length = first && node->batched ? first->length : 0;
    return check_size(yki_whole_shape(node));
}

yoke_node *
yki_node(yoke_graph *graph, const yki_op *op, const char *name, yoke_node *const *inputs,
         uint32_t input_count, const void *attrs, size_t attr_size)
{
    yoke_node *node;
    yoke_status status;

    if (!takes(graph, name ? name : op->name))
        return NULL;
    if (input_count > YKI_MAX_INPUTS) {
        yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of inputs", input_count, 0,
                       YKI_MAX_INPUTS);
        yki_graph_fail(graph, name ? name : op->name, YOKE_ERROR_INVALID_ARGUMENT);
        return NULL;
    }
    for (uint32_t i = 0; i < input_count; i++) {
        if (check_input(graph, op, inputs[i], i) != YOKE_OK) {
            yki_graph_fail(graph, name ? name : op->name, YOKE_ERROR_INVALID_ARGUMENT);
            return NULL;
        }
    }
    node =
        append(graph, name ? yki_strdup(name, "a node's name") : yki_names_number(graph, op->name));
    if (!node)
        return NULL;
    node->op = op;
    node->backward = graph->differentiated;
    node->input_count = input_count;
    memcpy(node->inputs, inputs, input_count * sizeof *inputs);
    /* A parameter that was made outside of any place moves to that of the first node in a place
     * that uses it. */
    for (uint32_t i = 0; i < input_count; i++)
        if (inputs[i]->role == YKI_ROLE_PARAMETER && !inputs[i]->place)
            inputs[i]->place = node->place;
    if (attr_size)
        memcpy(node->attrs.bytes, attrs, attr_size);
    status = infer_length(node);
    if (status != YOKE_OK) {
        yki_graph_fail(graph, node->name, status);
        graph->node_count--;
        yki_node_free(node);
        return NULL;
    }
    return node;
}

yoke_node *
yki_node1(yoke_graph *graph, const yki_op *op, yoke_node *a)
{
    return yki_node(graph, op, NULL, &a, 1, NULL, 0);
}

yoke_node *
yki_node2(yoke_graph *graph, const yki_op *op, yoke_node *a, yoke_node *b)
{
    yoke_node *inputs[] = {a, b};

    return yki_node(graph, op, NULL, inputs, 2, NULL, 0);
}

/* Adds a node that is not computed. Takes `name`, also on failure. */
static yoke_node *
given(yoke_graph *graph, char *name, yki_node_role role, yoke_type type, yoke_shape shape)
{
    yoke_node *node;
    yoke_status status;

    if (!takes(graph, name)) {
        yki_free(name);
        return NULL;
    }
    status = yki_check_shape(shape);
    if (status == YOKE_OK)
        status = check_size(shape);
    if (status != YOKE_OK) {
        yki_graph_fail(graph, name, status);
        yki_free(name);
        return NULL;
    }
    node = append(graph, name);
    if (!node)
        return NULL;
    node->role = role;
    node->type = type;
    node->shape = shape;
    node->batched = role == YKI_ROLE_INPUT;
    return node;
}

/* Returns whether a name is missing, after it failed the graph. */
static bool
is_empty(yoke_graph *graph, const char *of, const char *name)
{
    if (name && *name)
        return false;
    yki_graph_fail(graph, NULL,
                   yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "the name of %s is %s; must have at least one character", of,
                            name ? "empty" : "NULL"));
    return true;
}

static yoke_node *
batch_input(yoke_graph *graph, const char *name, yoke_type type, yoke_shape shape)
{
    if (!takes(graph, name))
        return NULL;
    if (is_empty(graph, "an input", name))
        return NULL;
    if ((unsigned)type > YOKE_U8) {
        yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                 "the type is %d; must be YOKE_F32, YOKE_I32 or YOKE_U8", (int)type);
        yki_graph_fail(graph, name, YOKE_ERROR_INVALID_ARGUMENT);
        return NULL;
    }
    return given(graph, yki_strdup(name, "an input's name"), YKI_ROLE_INPUT, type, shape);
}

yoke_node *
yoke_input(yoke_graph *graph, const char *name, yoke_type type, yoke_shape shape)
{
    return batch_input(graph, name, type, shape);
}

yoke_node *
yoke_target(yoke_graph *graph, const char *name, yoke_type type, yoke_shape shape)
{
    yoke_node *node = batch_input(graph, name, type, shape);

    if (node)
        node->target = true;
    return node;
}

static yoke_status
make_sequence(yoke_node *node)
{
    yoke_graph *graph = node->graph;

    if (node->role != YKI_ROLE_INPUT || node->length)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "it is %s; must be an input or a target that is not a sequence yet",
                        node->role == YKI_ROLE_INPUT ? "a sequence already" : "no input");
    if (node->shape.rank == 0)
        return yki_fail_shape("the input", node, "(length) or (length, ...)");
    if (graph->length && node->shape.dim[0] != graph->length)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "its length is %lld; must be %lld, the length of the graph's other "
                        "sequences",
                        (long long)node->shape.dim[0], (long long)graph->length);
    for (size_t i = node->id + 1; i < graph->node_count; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->input_count; k++)
            if (graph->nodes[i]->inputs[k] == node)
                return yki_fail(YOKE_ERROR_STATE,
                                "\"%s\" uses it; must become a sequence before it is used",
                                graph->nodes[i]->name);
    graph->length = node->length = node->shape.dim[0];
    node->shape.rank--;
    memmove(node->shape.dim, node->shape.dim + 1,
            (size_t)node->shape.rank * sizeof node->shape.dim[0]);
    node->shape.dim[node->shape.rank] = 0;
    return YOKE_OK;
}

yoke_node *
yoke_sequence(yoke_graph *graph, yoke_node *input)
{
    yoke_status status;

    if (!takes(graph, "a sequence"))
        return NULL;
    if (!input || input->graph != graph) {
        yki_graph_fail(graph, "a sequence", yki_fail_node("the input", input));
        return NULL;
    }
    status = make_sequence(input);
    if (status == YOKE_OK)
        return input;
    yki_graph_fail(graph, input->name, status);
    return NULL;
}

char *
yki_layer_name(yoke_graph *graph, const char *given, const char *kind)
{
    char *name;

    if (!takes(graph, given ? given : kind))
        return NULL;
    if (given && !*given) {
        yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                 "the name of the layer is empty; must have at least one character, or be NULL for "
                 "a name such as \"%s1\"",
                 kind);
        yki_graph_fail(graph, kind, YOKE_ERROR_INVALID_ARGUMENT);
        return NULL;
    }
    /* The layer's node has the layer's name, so the counter of node names numbers layers too. */
    name = given ? yki_strdup(given, "a layer's name") : yki_names_number(graph, kind);
    if (!name)
        yki_graph_fail(graph, kind, YOKE_ERROR_OUT_OF_MEMORY);
    return name;
}

yoke_node *
yki_parameter(yoke_graph *graph, const char *layer, const char *part, yoke_shape shape,
              yoke_initializer initializer, int64_t fan_in, int64_t fan_out)
{
    yoke_node *node;
    yoke_status status;

    if (!takes(graph, layer) || !layer)
        return NULL;
    node = given(graph, yki_format("%s%s%s", layer, part ? "." : "", part ? part : ""),
                 YKI_ROLE_PARAMETER, YOKE_F32, shape);
    if (!node)
        return NULL;
    status = yki_check_initializer(&initializer);
    if (status != YOKE_OK) {
        yki_graph_fail(graph, node->name, status);
        return NULL;
    }
    node->initializer = initializer;
    node->fan_in = fan_in;
    node->fan_out = fan_out;
    return node;
}

yoke_node *
yoke_parameter(yoke_graph *graph, const char *name, yoke_shape shape, yoke_initializer initializer)
{
    int64_t rest = shape.rank > 0 && shape.dim[0] > 0 ? yki_shape_count(shape) / shape.dim[0] : 1;

    if (!takes(graph, name))
        return NULL;
    if (is_empty(graph, "a parameter", name))
        return NULL;
    return yki_parameter(graph, name, NULL, shape, initializer, rest,
                         shape.rank > 0 ? shape.dim[0] : 1);
}

yoke_node *
yki_state(yoke_graph *graph, const char *layer, const char *part, yoke_shape shape, float initial)
{
    yoke_node *node;

    if (!takes(graph, layer) || !layer)
        return NULL;
    node = given(graph, yki_format("%s.%s", layer, part), YKI_ROLE_STATE, YOKE_F32, shape);
    if (!node)
        return NULL;
    node->initializer = (yoke_initializer){YOKE_INIT_CONSTANT, initial, 0, 0};
    return node;
}

yoke_node *
yoke_constant(yoke_graph *graph, const char *name, yoke_shape shape, const float *values)
{
    yoke_node *node;
    size_t bytes;

    if (!takes(graph, name))
        return NULL;
    if (is_empty(graph, "a constant", name))
        return NULL;
    if (!values) {
        yki_graph_fail(graph, name,
                       yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_constant: values is NULL"));
        return NULL;
    }
    node = given(graph, yki_strdup(name, "a constant's name"), YKI_ROLE_STATE, YOKE_F32, shape);
    if (!node)
        return NULL;
    bytes = (size_t)yki_shape_count(shape) * sizeof *values;
    node->data = yki_alloc(bytes, 1, "a constant");
    if (!node->data) {
        yki_graph_fail(graph, name, YOKE_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    memcpy(node->data, values, bytes);
    return node;
}

void
yoke_graph_set_output(yoke_graph *graph, const char *name, yoke_node *node)
{
    char *copy;

    if (!takes(graph, name))
        return;
    if (is_empty(graph, "an output", name))
        return;
    if (!node || node->graph != graph) {
        yki_graph_fail(graph, name, yki_fail_node("the output", node));
        return;
    }
    for (size_t i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0) {
            yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "another output has this name; must be unique");
            yki_graph_fail(graph, name, YOKE_ERROR_INVALID_ARGUMENT);
            return;
        }
    copy = yki_strdup(name, "an output's name");
    if (!copy || yki_grow((void **)&graph->outputs, &graph->output_capacity,
                          graph->output_count + 1, sizeof *graph->outputs, "outputs")) {
        yki_free(copy);
        yki_graph_fail(graph, name, YOKE_ERROR_OUT_OF_MEMORY);
        return;
    }
    graph->outputs[graph->output_count++] = (struct yki_output){copy, node};
}

/* Tells whether a node can be summed over a batch with a count. A loss operator gives (2), its sum
 * and its count. Other nodes must have one value for each sample, which counts as 1. */
static bool
counts(const yoke_node *node)
{
    return node->batched && (is_loss(node) || yki_shape_count(node->shape) == 1);
}

void
yoke_graph_add_metric(yoke_graph *graph, const char *name, yoke_node *node)
{
    char *copy;

    if (!takes(graph, name))
        return;
    if (is_empty(graph, "a metric", name))
        return;
    if (!node || node->graph != graph) {
        yki_graph_fail(graph, name, yki_fail_node("the metric", node));
        return;
    }
    for (size_t i = 0; i < graph->metric_count; i++)
        if (strcmp(graph->metrics[i].name, name) == 0) {
            yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "another metric has this name; must be unique");
            yki_graph_fail(graph, name, YOKE_ERROR_INVALID_ARGUMENT);
            return;
        }
    if (!counts(node)) {
        char text[128];

        yki_fail(YOKE_ERROR_SHAPE,
                 "the metric \"%s\" has shape %s%s; must be a metric, a loss or a scalar for each "
                 "sample",
                 name, yki_shape_text(node->shape, text, sizeof text),
                 node->batched ? "" : " for all samples");
        yki_graph_fail(graph, node->name, YOKE_ERROR_SHAPE);
        return;
    }
    copy = yki_strdup(name, "a metric's name");
    if (!copy || yki_grow((void **)&graph->metrics, &graph->metric_capacity,
                          graph->metric_count + 1, sizeof *graph->metrics, "metrics")) {
        yki_free(copy);
        yki_graph_fail(graph, name, YOKE_ERROR_OUT_OF_MEMORY);
        return;
    }
    graph->metrics[graph->metric_count++] = (struct yki_metric){copy, node, NULL};
}

size_t
yoke_graph_metric_count(const yoke_graph *graph)
{
    return graph ? graph->metric_count : 0;
}

const char *
yoke_graph_get_metric_name(const yoke_graph *graph, size_t index)
{
    return graph && index < graph->metric_count ? graph->metrics[index].name : NULL;
}

void
yoke_graph_set_loss(yoke_graph *graph, yoke_node *loss)
{
    char text[128];

    if (!takes(graph, "loss"))
        return;
    if (!loss || loss->graph != graph) {
        yki_graph_fail(graph, NULL, yki_fail_node("the loss", loss));
        return;
    }
    if (is_loss(loss) && loss->op->is_metric && loss->op->is_metric(&loss->attrs)) {
        yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "the loss is a metric, which has no gradient; must "
                                              "be a loss or a scalar for each sample");
        yki_graph_fail(graph, loss->name, YOKE_ERROR_INVALID_ARGUMENT);
        return;
    }
    if (!counts(loss)) {
        yki_fail(YOKE_ERROR_SHAPE,
                 "the loss has shape %s%s; must be a loss or a scalar for each sample",
                 yki_shape_text(loss->shape, text, sizeof text),
                 loss->batched ? "" : " for all samples");
        yki_graph_fail(graph, loss->name, YOKE_ERROR_SHAPE);
        return;
    }
    graph->loss = loss;
}

void
yoke_graph_set_place(yoke_graph *graph, const char *place)
{
    char *copy;

    if (!takes(graph, place))
        return;
    graph->place = 0;
    if (!place || !*place)
        return;
    for (size_t i = 0; i < graph->place_count && !graph->place; i++)
        if (strcmp(graph->places[i], place) == 0)
            graph->place = (uint32_t)i + 1;
    if (graph->place)
        return;
    copy = yki_strdup(place, "a place's name");
    if (!copy || yki_grow((void **)&graph->places, &graph->place_capacity, graph->place_count + 1,
                          sizeof *graph->places, "places")) {
        yki_free(copy);
        yki_graph_fail(graph, place, YOKE_ERROR_OUT_OF_MEMORY);
        return;
    }
    graph->places[graph->place_count++] = copy;
    graph->place = (uint32_t)graph->place_count;
}

static yoke_status
set_frozen(const char *function, yoke_graph *graph, const char *pattern, bool frozen)
{
    const yoke_node *first = NULL;
    bool found = false;

    YKI_GIVEN(function, {"graph", graph}, {"pattern", pattern});
    YKI_TRY(yki_graph_status(graph));
    for (size_t i = 0; !frozen && i < graph->node_count; i++) {
        const yoke_node *node = graph->nodes[i];

        /* The graph has no node that computes its gradient. */
        if (node->frozen && graph->differentiated && !node->gradient &&
            fnmatch(pattern, node->name, 0) == 0)
            return yki_fail(YOKE_ERROR_STATE,
                            "\"%s\" was frozen when the graph was compiled for training and cannot "
                            "be trained any more; unfreeze it before",
                            node->name);
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        yoke_node *node = graph->nodes[i];

        if (node->role != YKI_ROLE_PARAMETER)
            continue;
        first = first ? first : node;
        if (fnmatch(pattern, node->name, 0) == 0) {
            node->frozen = frozen;
            found = true;
        }
    }
    if (!found)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "no parameter matches \"%s\"%s%s%s", pattern,
                        first ? "; the first parameter is \"" : "", first ? first->name : "",
                        first ? "\"" : "");
    return YOKE_OK;
}

yoke_status
yoke_graph_freeze(yoke_graph *graph, const char *pattern)
{
    return set_frozen(__func__, graph, pattern, true);
}

yoke_status
yoke_graph_unfreeze(yoke_graph *graph, const char *pattern)
{
    return set_frozen(__func__, graph, pattern, false);
}

const char *
yoke_node_name(const yoke_node *node)
{
    return node ? node->name : "";
}

yoke_shape
yoke_node_shape(const yoke_node *node)
{
    return node ? yki_whole_shape(node) : yoke_shape();
}

yoke_type
yoke_node_type(const yoke_node *node)
{
    return node ? node->type : YOKE_F32;
}

size_t
yoke_graph_parameter_count(const yoke_graph *graph)
{
    size_t count = 0;

    for (size_t i = 0; graph && i < graph->node_count; i++)
        count += graph->nodes[i]->role == YKI_ROLE_PARAMETER;
    return count;
}

yoke_node *
yoke_graph_get_parameter(const yoke_graph *graph, size_t index)
{
    for (size_t i = 0; graph && i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_PARAMETER && index-- == 0)
            return graph->nodes[i];
    return NULL;
}
