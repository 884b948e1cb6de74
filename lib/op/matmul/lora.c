/* SPDX-License-Identifier: Apache-2.0
 *
 * lora.c - low-rank adapters (Hu et al. 2021) beside dense layers: y + (alpha / rank) (x A^T) B^T.
 *
 * An adapter is ordinary nodes, named after its layer: LAYER.lora_A and LAYER.lora_B are dense
 * layers, LAYER.lora_scale multiplies the narrow result between them, and LAYER.lora is the sum
 * that all readers of the layer read from then on. So differentiation, plans, files and teams need
 * not know of adapters, and an adapter of a graph that was read from a file is found by its names.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "op/ops.h"

enum { PATTERN = 200, USUAL_RANK = 8, USUAL_ALPHA = 16 };
static const char usual_targets[] = "*attn.*";

/* ---- which layers there are ---- */

static bool
ends_in(const char *name, const char *ending)
{
    const size_t length = strlen(name), its = strlen(ending);

    return length > its && strcmp(name + length - its, ending) == 0;
}

/* The product of rows with a parameter (out, in), as dense layers have it. An `out` of 0 may be
 * any. */
static bool
is_product(const yoke_node *node, int64_t out, int64_t in)
{
    const yoke_node *weight = node->inputs[1];
    yki_matmul_attrs attrs;

    if (node->op != &yki_op_matmul || node->backward || weight->role != YKI_ROLE_PARAMETER)
        return false;
    attrs = yki_matmul_attrs_get(&node->attrs);
    return !attrs.transpose_a && attrs.transpose_b && weight->shape.rank == 2 &&
           weight->shape.dim[1] == in && (!out || weight->shape.dim[0] == out);
}

/* A dense layer, and no part of an adapter. */
static bool
is_dense(const yoke_node *node)
{
    const size_t length = strlen(node->name);
    const yoke_node *weight = node->inputs[1];

    return weight && is_product(node, 0, weight->shape.dim[1]) &&
           strncmp(weight->name, node->name, length) == 0 &&
           strcmp(weight->name + length, ".weight") == 0 && !ends_in(node->name, ".lora_A") &&
           !ends_in(node->name, ".lora_B");
}

static yoke_node *
named(const yoke_node *layer, const char *part)
{
    char name[256];

    snprintf(name, sizeof name, "%s.%s", layer->name, part);
    return yoke_graph_get_node(layer->graph, name);
}

/* Whether the nodes compute layer + factor (x a^T) b^T, with a dropout behind x or none. */
static bool
is_adapter(const yoke_node *layer, const yoke_node *a, const yoke_node *scale, const yoke_node *b,
           const yoke_node *sum)
{
    const yoke_shape *weight = &layer->inputs[1]->shape;
    const yoke_node *x;
    yki_unary_attrs factor;

    if (!is_product(a, 0, weight->dim[1]) || a->input_count != 2 || b->input_count != 2 ||
        !is_product(b, weight->dim[0], a->inputs[1]->shape.dim[0]) || scale->op != &yki_op_unary ||
        sum->op != &yki_op_binary)
        return false;
    x = a->inputs[0];
    if (x != layer->inputs[0] && x->op == &yki_op_dropout)
        x = x->inputs[0];
    factor = yki_unary_attrs_get(&scale->attrs);
    return x == layer->inputs[0] && scale->inputs[0] == a && factor.kind == YKI_UNARY_SCALE &&
           factor.b == 0 && b->inputs[0] == scale && sum->inputs[0] == layer &&
           sum->inputs[1] == b && yki_binary_attrs_get(&sum->attrs).kind == YKI_BINARY_ADD;
}

bool
yki_find_adapter(const yoke_node *layer, yki_adapter *adapter)
{
    const yoke_node *a, *b, *scale, *sum;

    if (!is_dense(layer))
        return false;
    a = named(layer, "lora_A");
    b = named(layer, "lora_B");
    scale = named(layer, "lora_scale");
    sum = named(layer, "lora");
    /* A file may have anything under these names. */
    if (!a || !b || !scale || !sum || !is_adapter(layer, a, scale, b, sum))
        return false;
    *adapter = (yki_adapter){.layer = layer,
                             .sum = sum,
                             .a = a->inputs[1],
                             .b = b->inputs[1],
                             .rank = a->inputs[1]->shape.dim[0],
                             .factor = yki_unary_attrs_get(&scale->attrs).a};
    return true;
}

bool
yki_is_adaptable(const yoke_node *node)
{
    yki_adapter adapter;

    return is_dense(node) && !yki_find_adapter(node, &adapter);
}

/* The pattern matches all of the name, or what follows one of its points. */
static bool
matches_name(const char *pattern, const char *name)
{
    for (; name; name = strchr(name, '.'), name += name != NULL)
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    return false;
}

/* Hugging Face has the parts of some layers as layers of their own. */
static bool
matches(const char *pattern, const char *name)
{
    static const struct {
        const char *whole, *part;
    } packed[] = {{"qkv_proj", "q_proj"},
                  {"qkv_proj", "k_proj"},
                  {"qkv_proj", "v_proj"},
                  {"gate_up_proj", "gate_proj"},
                  {"gate_up_proj", "up_proj"}};
    char text[256];

    if (matches_name(pattern, name))
        return true;
    for (size_t i = 0; i < YKI_COUNT(packed); i++) {
        const size_t length = strlen(name), whole = strlen(packed[i].whole);

        if (length < whole || strcmp(name + length - whole, packed[i].whole) != 0)
            continue;
        snprintf(text, sizeof text, "%.*s%s", (int)(length - whole), name, packed[i].part);
        if (matches_name(pattern, text))
            return true;
    }
    return false;
}

/* Copies the next pattern of a list; returns what follows it, or NULL at the end. */
static const char *
next_pattern(const char *list, char pattern[PATTERN])
{
    size_t length;

    list += strspn(list, ", ");
    length = strcspn(list, ",");
    if (!*list)
        return NULL;
    snprintf(pattern, PATTERN, "%.*s", (int)length, list);
    return list + length;
}

static yoke_status
no_layer(const yoke_graph *graph, const char *pattern)
{
    yki_near near;
    const char *first = NULL;

    yki_near_start(&near, pattern);
    for (size_t i = 0; i < graph->node_count; i++) {
        const yoke_node *node = graph->nodes[i];

        if (!yki_is_adaptable(node))
            continue;
        first = first ? first : node->name;
        yki_near_offer(&near, node->name);
        for (const char *at = strchr(node->name, '.'); at; at = strchr(at + 1, '.'))
            yki_near_offer(&near, at + 1);
    }
    return yki_fail(YOKE_ERROR_NOT_FOUND,
                    "no dense layer without an adapter matches the target \"%s\"%s%s%s%s", pattern,
                    first ? "; the first dense layer is \"" : "", first ? first : "",
                    first ? "\"" : "", yki_near_hint(&near));
}

/* Marks the layers that a pattern of the list matches. */
static yoke_status
choose(const yoke_graph *graph, const char *targets, bool *chosen)
{
    char pattern[PATTERN];
    size_t patterns = 0;

    for (const char *rest = targets; (rest = next_pattern(rest, pattern)); patterns++) {
        bool found = false;

        for (size_t i = 0; i < graph->node_count; i++)
            if (yki_is_adaptable(graph->nodes[i]) && matches(pattern, graph->nodes[i]->name))
                chosen[i] = found = true;
        if (!found)
            return no_layer(graph, pattern);
    }
    if (patterns == 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the targets are empty; must be at least one pattern of names");
    return YOKE_OK;
}

/* ---- adding one ---- */

static yoke_status
check_options(const yoke_lora_options *o)
{
    if (o->rank < 1 || o->rank > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the rank of the adapters", o->rank, 1,
                              INT32_MAX);
    if (!(o->alpha > 0) || o->alpha > 1e30f)
        return yki_fail(YOKE_ERROR_VALUE,
                        "the alpha of the adapters is %g; must be above 0 and finite",
                        (double)o->alpha);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return yki_fail_range_below(YOKE_ERROR_VALUE, "the dropout of the adapters",
                                    (double)o->dropout, 0, 1);
    return YOKE_OK;
}

yoke_status
yki_check_adapter_rank(const yoke_node *layer, int64_t rank)
{
    const yoke_shape *weight = &layer->inputs[1]->shape;
    const int64_t most = YKI_MIN(weight->dim[0], weight->dim[1]);

    if (rank <= most)
        return YOKE_OK;
    return yki_fail(YOKE_ERROR_SHAPE,
                    "%s: the rank of the adapter is %lld; must be between 1 and %lld, as the "
                    "weight is (%lld, %lld)",
                    layer->name, (long long)rank, (long long)most, (long long)weight->dim[0],
                    (long long)weight->dim[1]);
}

/* Appends the nodes of an adapter, and returns the sum. */
static yoke_node *
append(yoke_node *layer, const yoke_lora_options *o)
{
    yoke_graph *graph = layer->graph;
    yoke_node *x = layer->inputs[0];
    yoke_dense_options dense = {.no_bias = true};
    char name[256];

    graph->place = layer->place;
    if (o->dropout > 0) {
        snprintf(name, sizeof name, "%s.lora_dropout", layer->name);
        yki_names_wish(graph, name);
        x = yoke_dropout(graph, x, o->dropout);
    }
    snprintf(name, sizeof name, "%s.lora_A", layer->name);
    dense.name = name;
    dense.units = o->rank;
    x = yoke_dense(graph, x, &dense);
    snprintf(name, sizeof name, "%s.lora_scale", layer->name);
    yki_names_wish(graph, name);
    x = yoke_scale(graph, x, o->alpha / (float)o->rank, 0);
    snprintf(name, sizeof name, "%s.lora_B", layer->name);
    dense.units = layer->inputs[1]->shape.dim[0];
    dense.weight_init.kind = YOKE_INIT_ZEROS;
    x = yoke_dense(graph, x, &dense);
    snprintf(name, sizeof name, "%s.lora", layer->name);
    yki_names_wish(graph, name);
    x = yoke_add(graph, layer, x);
    yki_names_wish(graph, NULL);
    return x;
}

/* Puts the nodes of adapters, which were appended behind the first `count`, directly behind their
 * layers: readers of the sum must have higher numbers. `sums` is by layer. */
static yoke_status
bring_in_order(yoke_graph *graph, size_t count, yoke_node *const *sums)
{
    yoke_node **order = yki_alloc(graph->node_count, sizeof *order, "nodes of adapters");
    size_t used = 0, next = count;
    yoke_status status;

    if (!order)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        order[used++] = graph->nodes[i];
        while (sums[i] && next <= sums[i]->id)
            order[used++] = graph->nodes[next++];
    }
    status = yki_graph_reorder(graph, order, used);
    yki_free(order);
    return status;
}

/* Adds adapters to the layers that are marked, and lets their readers read the sums. */
static yoke_status
add_marked(yoke_graph *graph, const yoke_lora_options *o, const bool *chosen)
{
    const size_t count = graph->node_count;
    const uint32_t place = graph->place;
    yoke_node **sums = yki_alloc(count, sizeof *sums, "nodes of adapters");
    yoke_status status = YOKE_OK;

    if (!sums)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && status == YOKE_OK; i++)
        if (chosen[i]) {
            sums[i] = append(graph->nodes[i], o);
            status = yki_graph_status(graph);
            /* At once: the adapter of a reader reads the sum too. */
            if (status == YOKE_OK)
                yki_graph_redirect(graph->nodes[i], sums[i], count);
        }
    graph->place = place;
    if (status == YOKE_OK)
        status = bring_in_order(graph, count, sums);
    yki_free(sums);
    return status;
}

/* Adapters alone are trained. */
static void
freeze_others(yoke_graph *graph)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        yoke_node *node = graph->nodes[i];

        if (node->role == YKI_ROLE_PARAMETER)
            node->frozen =
                !ends_in(node->name, ".lora_A.weight") && !ends_in(node->name, ".lora_B.weight");
    }
}

yoke_status
yki_add_adapters(yoke_graph *graph, const yoke_lora_options *o, const bool *chosen)
{
    YKI_TRY(check_options(o));
    for (size_t i = 0; i < graph->node_count; i++)
        if (chosen[i])
            YKI_TRY(yki_check_adapter_rank(graph->nodes[i], o->rank));
    YKI_TRY(add_marked(graph, o, chosen));
    freeze_others(graph);
    return YOKE_OK;
}

yoke_status
yoke_graph_add_lora_sized(yoke_graph *graph, const yoke_lora_options *options, size_t size)
{
    yoke_lora_options o = {0};
    bool *chosen;
    yoke_status status;

    YKI_GIVEN("yoke_graph_add_lora", {"graph", graph});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    o.rank = o.rank ? o.rank : USUAL_RANK;
    o.alpha = o.alpha != 0 ? o.alpha : USUAL_ALPHA;
    YKI_TRY(yki_graph_check_open(graph));
    chosen = yki_alloc(graph->node_count, sizeof *chosen, "targets of adapters");
    if (!chosen)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = check_options(&o);
    if (status == YOKE_OK)
        status = choose(graph, o.targets ? o.targets : usual_targets, chosen);
    if (status == YOKE_OK)
        status = yki_add_adapters(graph, &o, chosen);
    yki_free(chosen);
    return status;
}

/* ---- taking them out ---- */

enum { INSIDE = 1, SUM };

/* Marks the nodes of adapters, by id: the sums, which others read, and what only they read. */
static yoke_status
mark_adapters(const yoke_graph *graph, unsigned char **marks)
{
    yki_adapter adapter;

    *marks = yki_alloc(graph->node_count, sizeof **marks, "nodes of adapters");
    if (!*marks)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->node_count; i++) {
        const yoke_node *node;

        if (!yki_find_adapter(graph->nodes[i], &adapter))
            continue;
        (*marks)[adapter.sum->id] = SUM;
        (*marks)[adapter.a->id] = (*marks)[adapter.b->id] = INSIDE;
        for (node = adapter.sum->inputs[1]; node != adapter.layer->inputs[0];
             node = node->inputs[0])
            (*marks)[node->id] = INSIDE;
    }
    return YOKE_OK;
}

static yoke_status
check_reader(const char *what, const char *name, const yoke_node *node, const unsigned char *marks)
{
    if (marks[node->id] != INSIDE)
        return YOKE_OK;
    return yki_fail(YOKE_ERROR_STATE,
                    "the %s \"%s\" reads \"%s\", which is inside an adapter; must read its sum",
                    what, name, node->name);
}

static yoke_status
check_readers(const yoke_graph *graph, const unsigned char *marks)
{
    for (size_t i = 0; i < graph->node_count; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->input_count && !marks[i]; k++)
            YKI_TRY(check_reader("node", graph->nodes[i]->name, graph->nodes[i]->inputs[k], marks));
    for (size_t i = 0; i < graph->output_count; i++)
        YKI_TRY(check_reader("output", graph->outputs[i].name, graph->outputs[i].node, marks));
    for (size_t i = 0; i < graph->metric_count; i++)
        YKI_TRY(check_reader("metric", graph->metrics[i].name, graph->metrics[i].node, marks));
    return graph->loss ? check_reader("loss", graph->loss->name, graph->loss, marks) : YOKE_OK;
}

yoke_status
yki_check_removable(const yoke_graph *graph)
{
    unsigned char *marks;
    yoke_status status = mark_adapters(graph, &marks);

    if (status == YOKE_OK)
        status = check_readers(graph, marks);
    yki_free(marks);
    return status;
}

/* The nodes that `marks` leaves, with the layers read in place of the sums. */
static yoke_status
remove_marked(yoke_graph *graph, const unsigned char *marks)
{
    yoke_node **order = yki_alloc(graph->node_count, sizeof *order, "nodes of a graph");
    size_t used = 0;
    yoke_status status;

    if (!order)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->node_count; i++) {
        yoke_node *node = graph->nodes[i];

        if (marks[i] == SUM)
            yki_graph_redirect(node, node->inputs[0], graph->node_count);
        if (marks[i])
            continue;
        order[used++] = node;
        node->frozen = false;
    }
    status = yki_graph_reorder(graph, order, used);
    yki_free(order);
    return status;
}

yoke_status
yki_remove_adapters(yoke_graph *graph)
{
    unsigned char *marks;
    yoke_status status;

    YKI_TRY(yki_graph_check_open(graph));
    status = mark_adapters(graph, &marks);
    if (status == YOKE_OK)
        status = remove_marked(graph, marks);
    yki_free(marks);
    return status;
}
