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

/* A dense layer, and no part of an adapter. */
static bool
is_dense(const yoke_node *node)
{
    const yoke_node *weight = node->input_count > 1 ? node->inputs[1] : NULL;
    const size_t length = strlen(node->name);

    return node->op == &yki_op_matmul && !node->backward && weight->role == YKI_ROLE_PARAMETER &&
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

bool
yki_find_adapter(const yoke_node *layer, yki_adapter *adapter)
{
    const yoke_node *a, *b, *scale;

    if (!is_dense(layer))
        return false;
    a = named(layer, "lora_A");
    b = named(layer, "lora_B");
    scale = named(layer, "lora_scale");
    *adapter = (yki_adapter){.layer = layer, .sum = named(layer, "lora")};
    if (!a || !b || !scale || !adapter->sum || a->op != &yki_op_matmul || b->op != &yki_op_matmul ||
        scale->op != &yki_op_unary || a->input_count != 2 || b->input_count != 2)
        return false;
    adapter->a = a->inputs[1];
    adapter->b = b->inputs[1];
    adapter->rank = adapter->a->shape.dim[0];
    adapter->factor = yki_unary_attrs_get(&scale->attrs).a;
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

static yoke_status
check_layer(const yoke_node *layer, int64_t rank)
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
            YKI_TRY(check_layer(graph->nodes[i], o->rank));
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

/* Whether a node is one of an adapter's, by its name: LAYER and a part of an adapter. */
static bool
is_of(const yki_adapter *adapter, const yoke_node *node)
{
    const size_t length = strlen(adapter->layer->name);

    return strncmp(node->name, adapter->layer->name, length) == 0 &&
           (strcmp(node->name + length, ".lora") == 0 ||
            strncmp(node->name + length, ".lora_", 6) == 0);
}

yoke_status
yki_remove_adapters(yoke_graph *graph)
{
    yoke_node **order;
    size_t used = 0;
    yki_adapter adapter = {0};
    yoke_status status;

    YKI_TRY(yki_graph_check_open(graph));
    order = yki_alloc(graph->node_count, sizeof *order, "nodes of a graph");
    if (!order)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->node_count; i++) {
        yoke_node *node = graph->nodes[i];

        /* The nodes of an adapter follow its layer. */
        if (adapter.layer && is_of(&adapter, node))
            continue;
        order[used++] = node;
        node->frozen = false;
        if (yki_find_adapter(node, &adapter))
            yki_graph_redirect((yoke_node *)adapter.sum, node, graph->node_count);
    }
    status = yki_graph_reorder(graph, order, used);
    yki_free(order);
    return status;
}
