/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_json_read.c - builds a graph from JSON with the functions of <yoke.h>. What they refuse is
 * refused here in the same words, with the node's name.
 *
 * A person who writes JSON may leave out what is clear: names (the builders number their nodes),
 * and inputs, if the input is the node before. Unknown members are errors, so that a misspelt
 * option is not taken for its default.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "data/graph_json.h"

enum { MAX_TEXT = 64 << 20 };

typedef struct reader {
    yoke_graph *graph;
    json_t *names;       /* name in the file -> number of a node */
    yoke_node *previous; /* what a node without "inputs" reads */
    char place[160];     /* "node 3 (conv1)": the current node, for errors */
} reader;

static yoke_status
bad(const reader *r, const char *key, const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: \"%s\" %s", r->place, key, what);
}

/* ---- options ---- */

static bool
get_int(const json_t *json, int64_t low, int64_t high, int64_t *value)
{
    if (!json_is_integer(json) || json_integer_value(json) < low || json_integer_value(json) > high)
        return false;
    *value = json_integer_value(json);
    return true;
}

static yoke_status
get_pair(const reader *r, const char *key, const json_t *json, int64_t pair[2])
{
    if (get_int(json, INT64_MIN, INT64_MAX, &pair[0])) {
        pair[1] = pair[0];
        return YOKE_OK;
    }
    if (json_array_size(json) != 2 ||
        !get_int(json_array_get(json, 0), INT64_MIN, INT64_MAX, &pair[0]) ||
        !get_int(json_array_get(json, 1), INT64_MIN, INT64_MAX, &pair[1]))
        return bad(r, key, "must be a whole number, or two in brackets");
    return YOKE_OK;
}

static yoke_status
get_shape(const reader *r, const char *key, const json_t *json, yoke_shape *shape)
{
    memset(shape, 0, sizeof *shape);
    if (!json_is_array(json) || json_array_size(json) >= YOKE_MAX_RANK)
        return bad(r, key, "must be a list of at most 7 sizes");
    shape->rank = (int32_t)json_array_size(json);
    for (int32_t i = 0; i < shape->rank; i++)
        if (!get_int(json_array_get(json, (size_t)i), INT64_MIN, INT64_MAX, &shape->dim[i]))
            return bad(r, key, "must be a list of whole numbers");
    return YOKE_OK;
}

static yoke_status
get_axes(const reader *r, const char *key, const json_t *json, struct yki_json_axes *axes)
{
    if (!json_is_array(json) || json_array_size(json) > YOKE_MAX_RANK)
        return bad(r, key, "must be a list of axes");
    axes->count = (int32_t)json_array_size(json);
    for (int32_t i = 0; i < axes->count; i++) {
        int64_t axis;

        if (!get_int(json_array_get(json, (size_t)i), INT32_MIN, INT32_MAX, &axis))
            return bad(r, key, "must be a list of axes");
        axes->list[i] = (int32_t)axis;
    }
    return YOKE_OK;
}

static yoke_status
get_ranges(const reader *r, const char *key, const json_t *json, struct yki_json_ranges *ranges)
{
    if (!json_is_array(json) || json_array_size(json) > YKI_MAX_INPUTS)
        return bad(r, key, "must be a list of ranges");
    ranges->count = (int32_t)json_array_size(json);
    for (int32_t i = 0; i < ranges->count; i++) {
        int64_t pair[2];

        YKI_TRY(get_pair(r, key, json_array_get(json, (size_t)i), pair));
        ranges->list[i] = (yoke_range){pair[0], pair[1]};
    }
    return YOKE_OK;
}

static yoke_status
get_floats(const reader *r, const char *key, const json_t *json, struct yki_json_floats *floats)
{
    size_t count = json_array_size(json);
    float *list = yki_alloc(count, sizeof *list, "numbers of a model");

    if (!list)
        return YOKE_ERROR_OUT_OF_MEMORY;
    floats->list = list; /* free_floats frees it, also after an error */
    for (; floats->count < count; floats->count++)
        if (!yki_json_get_float(json_array_get(json, floats->count), &list[floats->count]))
            return bad(r, key, "must be a list of numbers");
    return json_is_array(json) ? YOKE_OK : bad(r, key, "must be a list of numbers");
}

static void
free_floats(const yki_json_op *op, const yki_json_options *options)
{
    for (const yki_json_field *field = op->fields; field->key; field++)
        if (field->kind == YKI_JSON_FLOATS) {
            struct yki_json_floats floats;

            memcpy(&floats, (const char *)options + field->offset, sizeof floats);
            yki_free((void *)floats.list);
        }
}

static yoke_status
get_init(const reader *r, const char *key, json_t *json, yoke_initializer *init)
{
    json_t *kind = json_is_object(json) ? json_object_get(json, "kind") : json;
    const char *name = json_string_value(kind), *member;
    json_t *value;

    memset(init, 0, sizeof *init);
    for (int i = 0; name && yki_json_init_name((yoke_init_kind)i); i++)
        if (strcmp(yki_json_init_name((yoke_init_kind)i), name) == 0) {
            init->kind = (yoke_init_kind)i;
            name = NULL;
        }
    if (name || !kind || !json_is_string(kind))
        return bad(r, key,
                   "must be an initialiser: default, zeros, constant, uniform, normal, "
                   "xavier_uniform, xavier_normal, kaiming_uniform or kaiming_normal, or an object "
                   "with \"kind\", \"a\" and \"b\"");
    if (!json_is_object(json))
        return YOKE_OK;
    json_object_foreach(json, member, value)
    {
        bool is_a = strcmp(member, "a") == 0;

        if (strcmp(member, "kind") == 0)
            continue;
        if (!is_a && strcmp(member, "b") != 0)
            return bad(r, member, "is unknown in an initialiser; must be kind, a or b");
        if (!yki_json_get_float(value, is_a ? &init->a : &init->b))
            return bad(r, member, "must be a number");
    }
    return YOKE_OK;
}

static yoke_status
get_type(const reader *r, const char *key, const json_t *json, yoke_type *type)
{
    const char *name = json_string_value(json);

    if (name && yki_value_type_find(name, type))
        return YOKE_OK;
    return bad(r, key, "must be a type: f32, i32 or u8");
}

static yoke_status
get_field(const reader *r, const yki_json_field *field, json_t *json, void *at)
{
    int64_t number;

    switch (field->kind) {
    case YKI_JSON_INT64:
        if (!get_int(json, INT64_MIN, INT64_MAX, at))
            return bad(r, field->key, "must be a whole number");
        return YOKE_OK;
    case YKI_JSON_INT32:
        if (!get_int(json, INT32_MIN, INT32_MAX, &number))
            return bad(r, field->key, "must be a whole number");
        *(int32_t *)at = (int32_t)number;
        return YOKE_OK;
    case YKI_JSON_FLOAT:
        return yki_json_get_float(json, at) ? YOKE_OK : bad(r, field->key, "must be a number");
    case YKI_JSON_BOOL:
        if (!json_is_boolean(json))
            return bad(r, field->key, "must be true or false");
        *(bool *)at = json_is_true(json);
        return YOKE_OK;
    case YKI_JSON_TEXT:
        if (!json_is_string(json))
            return bad(r, field->key, "must be a text");
        *(const char **)at = json_string_value(json);
        return YOKE_OK;
    case YKI_JSON_PAIR:
        return get_pair(r, field->key, json, at);
    case YKI_JSON_TYPE:
        return get_type(r, field->key, json, at);
    case YKI_JSON_SHAPE:
        return get_shape(r, field->key, json, at);
    case YKI_JSON_AXES:
        return get_axes(r, field->key, json, at);
    case YKI_JSON_RANGES:
        return get_ranges(r, field->key, json, at);
    case YKI_JSON_FLOATS:
        return get_floats(r, field->key, json, at);
    case YKI_JSON_INIT:
        return get_init(r, field->key, json, at);
    }
    return YOKE_OK;
}

static const char *
near_key(const char *key, const yki_json_op *op, yki_near *near)
{
    yki_near_start(near, key);
    yki_near_offer(near, "name");
    yki_near_offer(near, "place");
    yki_near_offer(near, op->most ? "inputs" : NULL);
    for (const yki_json_field *field = op->fields; field->key; field++)
        yki_near_offer(near, field->key);
    return yki_near_hint(near);
}

static yoke_status
unknown_key(const reader *r, const char *key, const yki_json_op *op)
{
    char known[400];
    yki_near near;
    size_t used =
        (size_t)snprintf(known, sizeof known, "op, name, place%s", op->most ? ", inputs" : "");

    for (const yki_json_field *field = op->fields; field->key && used < sizeof known; field++)
        used += (size_t)snprintf(known + used, sizeof known - used, ", %s", field->key);
    return yki_fail(YOKE_ERROR_FORMAT, "%s: \"%.80s\" is no option of %s; must be one of %s%s",
                    r->place, key, op->name, known, near_key(key, op, &near));
}

static yoke_status
get_options(const reader *r, json_t *node, const yki_json_op *op, yki_json_options *options)
{
    const char *key;
    json_t *value;

    memset(options, 0, sizeof *options);
    json_object_foreach(node, key, value)
    {
        const yki_json_field *field = op->fields;
        /* Older files have this key for a parameter's initial value. */
        const bool old = strcmp(key, "init") == 0 && !json_object_get(node, "initializer");
        const char *wanted = old ? "initializer" : key;

        if (strcmp(key, "op") == 0 || strcmp(key, "name") == 0 || strcmp(key, "place") == 0 ||
            (op->most && strcmp(key, "inputs") == 0))
            continue;
        while (field->key && strcmp(field->key, wanted) != 0)
            field++;
        if (!field->key)
            return unknown_key(r, key, op);
        YKI_TRY(get_field(r, field, value, (char *)options + field->offset));
    }
    for (const yki_json_field *field = op->fields; field->key; field++)
        if (field->needed && !json_object_get(node, field->key))
            return yki_fail(YOKE_ERROR_FORMAT, "%s: %s needs \"%s\"", r->place, op->name,
                            field->key);
    return YOKE_OK;
}

/* ---- nodes ---- */

static yoke_node *
find_node(const reader *r, const char *name)
{
    const json_t *number = json_object_get(r->names, name);

    if (number)
        return r->graph->nodes[json_integer_value(number)];
    return yoke_graph_get_node(r->graph, name);
}

static const char *
near_node(const reader *r, const char *name, yki_near *near)
{
    yki_near_start(near, name);
    for (size_t i = 0; i < r->graph->node_count; i++)
        yki_near_offer(near, r->graph->nodes[i]->name);
    return yki_near_hint(near);
}

static yoke_status
get_input(const reader *r, const json_t *json, yoke_node **input)
{
    const char *name = json_string_value(json);
    yki_near near;

    if (!name)
        return bad(r, "inputs", "must be a list of names");
    *input = find_node(r, name);
    if (!*input)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: its input \"%.80s\" is no node before it%s",
                        r->place, name, near_node(r, name, &near));
    return YOKE_OK;
}

static yoke_status
get_inputs(const reader *r, const json_t *node, const yki_json_op *op, yoke_node **inputs,
           size_t *count)
{
    const json_t *list = json_object_get(node, "inputs");

    *count = 0;
    if (!list && op->least == 1 && r->previous) {
        inputs[(*count)++] = r->previous;
    } else if (json_is_string(list)) {
        YKI_TRY(get_input(r, list, &inputs[(*count)++]));
    } else if (list && !json_is_array(list)) {
        return bad(r, "inputs", "must be a list of names");
    } else if (json_array_size(list) > YKI_GRAPH_JSON_INPUTS) {
        return yki_fail(YOKE_ERROR_FORMAT, "%s: %s has %zu inputs; must be at most %d", r->place,
                        op->name, json_array_size(list), YKI_GRAPH_JSON_INPUTS);
    } else {
        for (size_t i = 0; i < json_array_size(list); i++)
            YKI_TRY(get_input(r, json_array_get(list, i), &inputs[(*count)++]));
    }
    if (*count < op->least || *count > op->most)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: %s has %zu inputs; must have %" PRIu32 "%s",
                        r->place, op->name, *count, op->least,
                        op->most > op->least ? " or more" : "");
    return YOKE_OK;
}

static const char *
near_op(const char *kind, yki_near *near)
{
    yki_near_start(near, kind);
    for (size_t i = 0; yki_json_op_at(i); i++)
        yki_near_offer(near, yki_json_op_at(i)->name);
    return yki_near_hint(near);
}

/* Sets r->place for errors, and finds the operator. */
static yoke_status
begin_node(reader *r, size_t index, const json_t *node, const yki_json_op **op, const char **name)
{
    const json_t *json = json_object_get(node, "name");
    const char *kind = json_string_value(json_object_get(node, "op"));
    yki_near near;

    *name = json_string_value(json);
    snprintf(r->place, sizeof r->place, "node %zu%s%.80s%s", index, *name || kind ? " (" : "",
             *name  ? *name
             : kind ? kind
                    : "",
             *name || kind ? ")" : "");
    if (!json_is_object(node) || !kind)
        return yki_fail(YOKE_ERROR_FORMAT, "%s has no \"op\"; must be an object with one",
                        r->place);
    if (json && (!*name || !**name))
        return bad(r, "name", "must be a text");
    json = json_object_get(node, "place");
    if (json && !json_is_string(json))
        return bad(r, "place", "must be a text");
    *op = yki_json_find_op(kind);
    if (!*op)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: there is no operator \"%.80s\"%s", r->place, kind,
                        near_op(kind, &near));
    if (*name && find_node(r, *name))
        return yki_fail(YOKE_ERROR_FORMAT, "%s: another node has this name; must be unique",
                        r->place);
    if (!*name && (*op)->most == 0)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: %s needs a \"name\"", r->place, kind);
    return YOKE_OK;
}

/* Makes the node that its options and its name describe. */
static yoke_status
make_node(reader *r, const json_t *node, const yki_json_op *op, const char *name,
          const yki_json_options *options)
{
    yoke_node *inputs[YKI_GRAPH_JSON_INPUTS], *made;
    size_t count;

    YKI_TRY(get_inputs(r, node, op, inputs, &count));
    yoke_graph_set_place(r->graph, json_string_value(json_object_get(node, "place")));
    /* A concat of many inputs first makes other nodes, which would get the name. */
    if (!op->takes_name && count <= YKI_MAX_INPUTS)
        yki_names_wish(r->graph, name);
    made = op->build(r->graph, name, inputs, count, options);
    yki_names_wish(r->graph, NULL);
    if (!made)
        return yki_graph_status(r->graph)
                   ? yki_graph_status(r->graph)
                   : yki_fail(YOKE_ERROR_FORMAT, "%s cannot be made", r->place);
    if (name && strcmp(made->name, name) != 0 &&
        json_object_set_new(r->names, name, json_integer((json_int_t)made->id)) != 0)
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for a name");
    if (strcmp(op->name, "input") == 0 || op->most)
        r->previous = made;
    return YOKE_OK;
}

static yoke_status
add_node(reader *r, size_t index, json_t *node)
{
    const yki_json_op *op = NULL;
    const char *name = NULL;
    yki_json_options options;
    yoke_status status;

    YKI_TRY(begin_node(r, index, node, &op, &name));
    status = get_options(r, node, op, &options);
    if (status == YOKE_OK)
        status = make_node(r, node, op, name, &options);
    free_floats(op, &options);
    return status;
}

/* ---- the whole ---- */

/* Finds the node that is named in a member such as "loss". */
static yoke_status
get_named(reader *r, const char *what, const json_t *json, yoke_node **node)
{
    const char *name = json_string_value(json);
    yki_near near;

    if (!name)
        return yki_fail(YOKE_ERROR_FORMAT, "%s must be the name of a node", what);
    *node = find_node(r, name);
    if (!*node)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: there is no node \"%.80s\"%s", what, name,
                        near_node(r, name, &near));
    return YOKE_OK;
}

static yoke_status
add_results(reader *r, const char *what, json_t *object,
            void (*add)(yoke_graph *, const char *, yoke_node *))
{
    const char *name;
    json_t *value;

    if (object && !json_is_object(object))
        return yki_fail(YOKE_ERROR_FORMAT, "%s must be an object of names and nodes", what);
    json_object_foreach(object, name, value)
    {
        yoke_node *node;

        YKI_TRY(get_named(r, what, value, &node));
        add(r->graph, name, node);
    }
    return yki_graph_status(r->graph);
}

static yoke_status
add_purposes(reader *r, const json_t *root)
{
    const json_t *loss = json_object_get(root, "loss"), *frozen = json_object_get(root, "frozen");
    yoke_node *node;

    YKI_TRY(add_results(r, "outputs", json_object_get(root, "outputs"), yoke_graph_set_output));
    YKI_TRY(add_results(r, "metrics", json_object_get(root, "metrics"), yoke_graph_add_metric));
    if (loss) {
        YKI_TRY(get_named(r, "loss", loss, &node));
        yoke_graph_set_loss(r->graph, node);
        YKI_TRY(yki_graph_status(r->graph));
    }
    if (frozen && !json_is_array(frozen))
        return yki_fail(YOKE_ERROR_FORMAT, "frozen must be a list of patterns");
    for (size_t i = 0; i < json_array_size(frozen); i++) {
        const char *pattern = json_string_value(json_array_get(frozen, i));

        if (!pattern)
            return yki_fail(YOKE_ERROR_FORMAT, "frozen must be a list of patterns");
        YKI_TRY(yoke_graph_freeze(r->graph, pattern));
    }
    return YOKE_OK;
}

static yoke_status
check_root(json_t *root)
{
    static const char *const known[] = {"yoke", "nodes", "outputs", "loss", "metrics", "frozen"};
    const json_t *version = json_object_get(root, "yoke");
    yki_near near;
    const char *key;
    json_t *value;

    if (!json_is_object(root) || !json_is_array(json_object_get(root, "nodes")))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "the text is no model; must be an object with a list \"nodes\"");
    json_object_foreach(root, key, value)
    {
        size_t i = 0;

        while (i < YKI_COUNT(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == YKI_COUNT(known))
            return yki_fail(YOKE_ERROR_FORMAT,
                            "a model has no \"%.80s\"; it has yoke, nodes, outputs, loss, metrics "
                            "and frozen%s",
                            key, yki_near_among(&near, key, known, YKI_COUNT(known)));
    }
    if (version && json_integer_value(version) != YKI_GRAPH_JSON_VERSION)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the model has another version than this yoke reads; must be %d",
                        YKI_GRAPH_JSON_VERSION);
    return YOKE_OK;
}

static yoke_status
build(reader *r, json_t *root)
{
    json_t *nodes = json_object_get(root, "nodes");

    YKI_TRY(check_root(root));
    for (size_t i = 0; i < json_array_size(nodes); i++)
        YKI_TRY(add_node(r, i, json_array_get(nodes, i)));
    yoke_graph_set_place(r->graph, NULL);
    return add_purposes(r, root);
}

yoke_status
yoke_graph_from_json(const char *text, size_t length, yoke_graph **out)
{
    reader r = {0};
    json_error_t error;
    yoke_status status;
    json_t *root;

    YKI_GIVEN("yoke_graph_from_json", {"text", text}, {"graph", out});
    if (length > MAX_TEXT)
        return yki_fail(YOKE_ERROR_FORMAT, "the model has %zu bytes; must have at most %d", length,
                        MAX_TEXT);
    root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return yki_fail(YOKE_ERROR_FORMAT, "line %d, column %d: %s", error.line, error.column,
                        error.text);
    r.names = json_object();
    status = r.names ? yoke_graph_create(&r.graph)
                     : yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for a graph");
    if (status == YOKE_OK)
        status = build(&r, root);
    json_decref(r.names);
    json_decref(root);
    if (status != YOKE_OK) {
        yoke_graph_destroy(r.graph);
        return status;
    }
    *out = r.graph;
    return YOKE_OK;
}
