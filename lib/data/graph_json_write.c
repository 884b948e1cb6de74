/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_json_write.c - writes a graph as JSON, one node a line.
 */
#include <string.h>

#include "data/graph_json.h"

/* ---- options ---- */

/* All of these return NULL if there is no memory. */

static json_t *
list_json(const int64_t *numbers, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_integer(numbers[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *
axes_json(const struct yki_json_axes *axes)
{
    int64_t numbers[YOKE_MAX_RANK];

    for (int32_t i = 0; i < axes->count; i++)
        numbers[i] = axes->list[i];
    return list_json(numbers, (size_t)axes->count);
}

static json_t *
floats_json(const struct yki_json_floats *floats)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < floats->count; i++)
        if (json_array_append_new(list, yki_json_float(floats->list[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *
ranges_json(const struct yki_json_ranges *ranges)
{
    json_t *list = json_array();

    for (int32_t i = 0; list && i < ranges->count; i++) {
        const int64_t pair[2] = {ranges->list[i].begin, ranges->list[i].end};

        if (json_array_append_new(list, list_json(pair, 2)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *
init_json(const yoke_initializer *init)
{
    const char *kind = yki_json_init_name(init->kind);

    if (init->a == 0 && init->b == 0)
        return json_string(kind);
    return json_pack("{s:s, s:o, s:o}", "kind", kind, "a", yki_json_float(init->a), "b",
                     yki_json_float(init->b));
}

bool
yki_json_is_zero(const yki_json_field *field, const void *at)
{
    static const int64_t zeros[2];
    const yoke_initializer *init = at;

    switch (field->kind) {
    case YKI_JSON_INT64:
        return *(const int64_t *)at == 0;
    case YKI_JSON_PAIR:
        return memcmp(at, zeros, sizeof zeros) == 0;
    case YKI_JSON_FLOAT:
        return *(const float *)at == 0;
    case YKI_JSON_BOOL:
        return !*(const bool *)at;
    case YKI_JSON_INIT:
        return init->kind == YOKE_INIT_DEFAULT && init->a == 0 && init->b == 0;
    case YKI_JSON_INT32:
    case YKI_JSON_AXES: /* the struct begins with the number of entries */
    case YKI_JSON_RANGES:
        return *(const int32_t *)at == 0;
    case YKI_JSON_TEXT:
    case YKI_JSON_TYPE:
    case YKI_JSON_SHAPE:
    case YKI_JSON_FLOATS:
        return false;
    }
    return false;
}

static json_t *
field_json(const yki_json_field *field, const void *at)
{
    const yoke_shape *shape = at;

    switch (field->kind) {
    case YKI_JSON_INT64:
        return json_integer(*(const int64_t *)at);
    case YKI_JSON_INT32:
        return json_integer(*(const int32_t *)at);
    case YKI_JSON_PAIR:
        return list_json(at, 2);
    case YKI_JSON_FLOAT:
        return yki_json_float(*(const float *)at);
    case YKI_JSON_BOOL:
        return json_true();
    case YKI_JSON_TEXT:
        return json_string(*(const char *const *)at);
    case YKI_JSON_TYPE:
        return json_string(yki_value_type_name(*(const yoke_type *)at));
    case YKI_JSON_SHAPE:
        return list_json(shape->dim, (size_t)shape->rank);
    case YKI_JSON_AXES:
        return axes_json(at);
    case YKI_JSON_RANGES:
        return ranges_json(at);
    case YKI_JSON_FLOATS:
        return floats_json(at);
    case YKI_JSON_INIT:
        return init_json(at);
    }
    return NULL;
}

/* ---- nodes ---- */

static json_t *
inputs_json(const yoke_node *node, uint32_t inputs)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < inputs; i++)
        if (json_array_append_new(list, json_string(node->inputs[i]->name)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *
node_json(const yoke_node *node, const yki_json_op *op, const yki_json_options *options,
          uint32_t inputs)
{
    json_t *object = json_object();
    bool good = object && json_object_set_new(object, "op", json_string(op->name)) == 0 &&
                json_object_set_new(object, "name", json_string(node->name)) == 0;

    if (good && node->place)
        good = json_object_set_new(object, "place",
                                   json_string(node->graph->places[node->place - 1])) == 0;
    if (good && inputs)
        good = json_object_set_new(object, "inputs", inputs_json(node, inputs)) == 0;
    for (const yki_json_field *field = op->fields; good && field->key; field++) {
        const void *at = (const char *)options + field->offset;

        if (field->needed || !yki_json_is_zero(field, at))
            good = json_object_set_new(object, field->key, field_json(field, at)) == 0;
    }
    if (good)
        return object;
    json_decref(object);
    return NULL;
}

/* jansson would leave out a name that is not UTF-8, without an error. */
static yoke_status
check_text(const char *text)
{
    json_t *json = json_string(text);

    if (!json)
        return yki_fail(YOKE_ERROR_VALUE, "\"%.80s\" is no UTF-8; must be, to be written as JSON",
                        text);
    json_decref(json);
    return YOKE_OK;
}

static yoke_status
add_nodes(const yoke_graph *graph, yki_json_text *text)
{
    const char *separator = "\n";
    size_t count = yki_graph_own_count(graph);

    yki_json_add(text, " \"nodes\": [");
    for (size_t i = 0; i < count; i++) {
        const yki_json_op *op;
        yki_json_options options;
        uint32_t inputs;

        YKI_TRY(yki_json_of_node(graph->nodes[i], &op, &options, &inputs));
        if (!op)
            continue;
        YKI_TRY(check_text(graph->nodes[i]->name));
        if (graph->nodes[i]->place)
            YKI_TRY(check_text(graph->places[graph->nodes[i]->place - 1]));
        if (graph->nodes[i]->op == &yki_op_custom)
            YKI_TRY(check_text(options.custom.source));
        yki_json_add(text, separator);
        yki_json_add(text, "  ");
        yki_json_add_value(text, node_json(graph->nodes[i], op, &options, inputs), 0);
        separator = ",\n";
    }
    yki_json_add(text, "\n ]");
    return YOKE_OK;
}

/* ---- what nodes are for ---- */

/* Appends one more "name": "node" to an object. */
static yoke_status
add_result(yki_json_text *text, size_t index, const char *name, const yoke_node *node)
{
    YKI_TRY(check_text(name));
    yki_json_add(text, index ? ", " : "{");
    yki_json_add_value(text, json_string(name), 0);
    yki_json_add(text, ": ");
    yki_json_add_value(text, json_string(node->name), 0);
    return YOKE_OK;
}

static yoke_status
add_purposes(const yoke_graph *graph, yki_json_text *text)
{
    yki_json_add(text, graph->output_count ? ",\n \"outputs\": " : "");
    for (size_t i = 0; i < graph->output_count; i++)
        YKI_TRY(add_result(text, i, graph->outputs[i].name, graph->outputs[i].node));
    yki_json_add(text, graph->output_count ? "}" : "");
    if (graph->loss) {
        yki_json_add(text, ",\n \"loss\": ");
        yki_json_add_value(text, json_string(graph->loss->name), 0);
    }
    yki_json_add(text, graph->metric_count ? ",\n \"metrics\": " : "");
    for (size_t i = 0; i < graph->metric_count; i++)
        YKI_TRY(add_result(text, i, graph->metrics[i].name, graph->metrics[i].node));
    yki_json_add(text, graph->metric_count ? "}" : "");
    return YOKE_OK;
}

/* Appends a pattern that matches only this name. */
static void
add_pattern(yki_json_text *text, const char *name)
{
    yki_json_text pattern = {0};
    char *taken;

    for (; *name; name++) {
        const char part[2] = {*name, '\0'};

        if (strchr("*?[\\", *name))
            yki_json_add(&pattern, "\\");
        yki_json_add(&pattern, part);
    }
    if (yki_json_take(&pattern, &taken) != YOKE_OK) {
        text->failed = true;
        return;
    }
    yki_json_add_value(text, json_string(taken), 0);
    yki_free(taken);
}

static void
add_frozen(const yoke_graph *graph, yki_json_text *text)
{
    size_t found = 0;

    for (size_t i = 0; i < yki_graph_own_count(graph); i++)
        if (graph->nodes[i]->frozen) {
            yki_json_add(text, found++ ? ", " : ",\n \"frozen\": [");
            add_pattern(text, graph->nodes[i]->name);
        }
    yki_json_add(text, found ? "]" : "");
}

static yoke_status
add_graph(const yoke_graph *graph, yki_json_text *text)
{
    yki_json_add(text, "{\"yoke\": 1,\n");
    YKI_TRY(add_nodes(graph, text));
    YKI_TRY(add_purposes(graph, text));
    add_frozen(graph, text);
    yki_json_add(text, "\n}\n");
    return YOKE_OK;
}

/* A text that cannot be read again is refused, because a file of it would be lost. */
static yoke_status
check_readable(const char *text)
{
    yoke_graph *graph;
    yoke_status status = yoke_graph_from_json(text, strlen(text), &graph);

    if (status == YOKE_OK)
        yoke_graph_destroy(graph);
    else
        yki_fail_in(status, "the graph cannot be written, as it could not be read again");
    return status;
}

yoke_status
yoke_graph_to_json(const yoke_graph *graph, char **out)
{
    yki_json_text text = {0};
    yoke_status status;
    char *made;

    YKI_GIVEN("yoke_graph_to_json", {"graph", graph}, {"text", out});
    YKI_TRY(yki_graph_status(graph));
    status = add_graph(graph, &text);
    if (status != YOKE_OK) {
        yki_free(text.text);
        return status;
    }
    YKI_TRY(yki_json_take(&text, &made));
    status = check_readable(made);
    if (status != YOKE_OK) {
        yki_free(made);
        return status;
    }
    *out = made;
    return YOKE_OK;
}
