/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - finds nodes by name, and numbers layers that have no name. Both take
 * constant time, so the time to build and differentiate a graph is linear in its
 * nodes.
 *
 * The index is an open-addressing table of node ids, at most half full. Nodes are
 * never renamed. Where nodes get other ids (rearrange.c), the index is made anew.
 */
#include <string.h>

#include "graph/graph.h"

enum { FIRST_SLOTS = 64 };

/* FNV-1a. */
static size_t
hash_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return (size_t)(hash ^ hash >> 32);
}

yoke_node *
yoke_graph_get_node(const yoke_graph *graph, const char *name)
{
    const yki_names *names;

    if (!graph || !name || !graph->names.slot_count)
        return NULL;
    names = &graph->names;
    for (size_t i = hash_of(name) & (names->slot_count - 1); names->slots[i];
         i = (i + 1) & (names->slot_count - 1)) {
        size_t id = names->slots[i] - 1;

        if (id < graph->node_count && strcmp(graph->nodes[id]->name, name) == 0)
            return graph->nodes[id];
    }
    return NULL;
}

static void
put(yki_names *names, const yoke_node *node)
{
    size_t i = hash_of(node->name) & (names->slot_count - 1);

    while (names->slots[i])
        i = (i + 1) & (names->slot_count - 1);
    names->slots[i] = node->id + 1;
}

yoke_status
yki_names_reserve(yoke_graph *graph)
{
    yki_names *names = &graph->names, larger = *names;

    if (2 * (graph->node_count + 1) <= names->slot_count)
        return YOKE_OK;
    larger.slot_count = names->slot_count ? 2 * names->slot_count : FIRST_SLOTS;
    larger.slots = yki_alloc(larger.slot_count, sizeof *larger.slots, "the graph's names");
    if (!larger.slots)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->node_count; i++)
        put(&larger, graph->nodes[i]);
    yki_free(names->slots);
    *names = larger;
    return YOKE_OK;
}

void
yki_names_add(yoke_graph *graph, const yoke_node *node)
{
    put(&graph->names, node);
}

void
yki_names_renew(yoke_graph *graph)
{
    memset(graph->names.slots, 0, graph->names.slot_count * sizeof *graph->names.slots);
    for (size_t i = 0; i < graph->node_count; i++)
        put(&graph->names, graph->nodes[i]);
}

/* Returns the counter of a kind of layer, which it makes if needed; NULL: there is no memory. */
static struct yki_kind *
kind_of(yki_names *names, const char *kind)
{
    char *copy;

    for (size_t i = 0; i < names->kind_count; i++)
        if (strcmp(names->kinds[i].name, kind) == 0)
            return &names->kinds[i];
    copy = yki_strdup(kind, "a kind of layer");
    if (!copy || yki_grow((void **)&names->kinds, &names->kind_capacity, names->kind_count + 1,
                          sizeof *names->kinds, "kinds of layers")) {
        yki_free(copy);
        return NULL;
    }
    names->kinds[names->kind_count] = (struct yki_kind){copy, 1};
    return &names->kinds[names->kind_count++];
}

char *
yki_names_number(yoke_graph *graph, const char *kind)
{
    const char *wish = graph->names.wish;
    struct yki_kind *counter;

    graph->names.wish = NULL;
    if (wish)
        return yki_strdup(wish, "a node's name");
    counter = kind_of(&graph->names, kind);
    for (; counter; counter->next++) {
        char *name = yki_format("%s%u", kind, counter->next);

        if (!name || !yoke_graph_get_node(graph, name))
            return name;
        yki_free(name);
    }
    return NULL;
}

void
yki_names_wish(yoke_graph *graph, const char *name)
{
    graph->names.wish = name;
}

void
yki_names_clear(yoke_graph *graph)
{
    for (size_t i = 0; i < graph->names.kind_count; i++)
        yki_free(graph->names.kinds[i].name);
    yki_free(graph->names.kinds);
    yki_free(graph->names.slots);
}

/* If several nodes have this gradient, the title is that of the last one, which is the nearest. A
 * node that is no gradient helps to compute one, so it gets the title of the node that reads it. */
const char *
yki_node_title(const yoke_node *node)
{
    const yoke_graph *graph = node->graph;

    if (!node->backward)
        return node->name;
    for (size_t i = yki_graph_own_count(graph); i-- > 0;)
        if (graph->nodes[i]->gradient == node)
            return graph->nodes[i]->name;
    for (size_t i = node->id + 1; i < graph->node_count; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->input_count; k++)
            if (graph->nodes[i]->inputs[k] == node)
                return yki_node_title(graph->nodes[i]);
    return node->name;
}

const char *
yki_node_function(const yoke_node *node)
{
    const yoke_node *of = node->backward && node->origin ? node->origin : node;

    return of->op->called ? of->op->called(&of->attrs) : of->op->name;
}
