/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_file.c - reads the adapters of PEFT into a graph.
 *
 * A tensor is called base_model.model.MODULE.lora_A.weight, (rank, in), or lora_B, (out, rank).
 * Queries, keys and values of Llama, and gate and up, are modules of their own there and one layer
 * here. Their adapters become one: the rows of their A below one another, and B with a block for
 * each, which is the same function. Where all have the same A, as yoke writes them, it stands once.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/adapter_file.h"
#include "data/adapter_names.h"
#include "op/ops.h"

enum { PARTS = 3 };

/* The adapters of a layer in the file. */
typedef struct entry {
    char *layer;
    unsigned parts; /* modules of the file that make the layer */
    const yki_tensor *a[PARTS], *b[PARTS];
    bool joined; /* all parts have the same A */
    double factors[PARTS];
    float factor; /* the first part's; B of another is multiplied by what it has more */
} entry;

struct yki_adapter_file {
    char *folder;
    yki_safetensors *tensors;
    yki_adapter_config config;
    entry *entries;
    size_t count, capacity;
};

/* ---- opening ---- */

void
yki_adapters_close(yki_adapter_file *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        yki_free(f->entries[i].layer);
    yki_free(f->entries);
    yki_safetensors_close(f->tensors);
    json_decref(f->config.json);
    yki_free(f->folder);
    yki_free(f);
}

static yoke_status
open_files(yki_adapter_file *f, const char *folder)
{
    char *path;
    yoke_status status;

    f->folder = yki_strdup(folder, "a path");
    path = yki_format("%s/%s", folder, YKI_ADAPTER_TENSORS);
    if (!f->folder || !path) {
        yki_free(path);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    status = yki_safetensors_open(path, &f->tensors);
    yki_free(path);
    YKI_TRY(status);
    path = yki_format("%s/%s", folder, YKI_ADAPTER_CONFIG);
    if (!path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_adapter_config_read(path, &f->config);
    yki_free(path);
    return status;
}

yoke_status
yki_adapters_open(const char *folder, yki_adapter_file **out)
{
    yki_adapter_file *f = yki_alloc(1, sizeof *f, "a file of adapters");
    yoke_status status;

    if (!f)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = open_files(f, folder);
    if (status != YOKE_OK) {
        yki_adapters_close(f);
        return status;
    }
    *out = f;
    return YOKE_OK;
}

/* ---- tensors and layers ---- */

static bool
has_weight(const void *graph, const char *name)
{
    const yoke_node *node = yoke_graph_get_node(graph, name);

    return node && yki_is_weight(node);
}

static entry *
entry_of(yki_adapter_file *f, const char *layer)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->entries[i].layer, layer) == 0)
            return &f->entries[i];
    if (yki_grow((void **)&f->entries, &f->capacity, f->count + 1, sizeof *f->entries, "adapters"))
        return NULL;
    f->entries[f->count].layer = yki_strdup(layer, "a layer's name");
    return f->entries[f->count].layer ? &f->entries[f->count++] : NULL;
}

/* Gives a tensor to the layer of the graph that it adapts. */
static yoke_status
place_tensor(yki_adapter_file *f, const yoke_graph *graph, const yki_tensor *tensor)
{
    const size_t prefix = sizeof YKI_ADAPTER_PREFIX - 1, length = strlen(tensor->name);
    const char *ending = length > 14 ? tensor->name + length - 14 : "";
    const bool is_a = strcmp(ending, ".lora_A.weight") == 0;
    const yki_tensor **slot;
    char module[256];
    yki_place_in place;
    entry *e;

    /* One point may not end the prefix and begin the ending. */
    if (strncmp(tensor->name, YKI_ADAPTER_PREFIX, prefix) != 0 || length < prefix + 15 ||
        length - prefix > 240 || (!is_a && strcmp(ending, ".lora_B.weight") != 0))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: \"%.200s\" is no adapter; must be " YKI_ADAPTER_PREFIX
                        "MODULE.lora_A.weight or lora_B.weight",
                        f->tensors->path, tensor->name);
    snprintf(module, sizeof module, "%.*s.weight", (int)(length - prefix - 14),
             tensor->name + prefix);
    yki_translate(module, has_weight, graph, &place);
    if (!has_weight(graph, place.name) || strlen(place.name) < sizeof ".weight")
        return yki_fail(YOKE_ERROR_NOT_FOUND, "%s: \"%.200s\" adapts no layer of the graph",
                        f->tensors->path, tensor->name);
    module[length - prefix - 14] = '\0';
    place.name[strlen(place.name) - 7] = '\0';
    e = entry_of(f, place.name);
    if (!e)
        return YOKE_ERROR_OUT_OF_MEMORY;
    slot = is_a ? &e->a[place.part] : &e->b[place.part];
    if (*slot || (e->parts && e->parts != place.parts))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: the adapter of \"%.200s\" is there twice, or beside parts of it",
                        f->tensors->path, tensor->name);
    e->parts = place.parts;
    *slot = tensor;
    if (is_a)
        e->factors[place.part] = yki_adapter_config_alpha(&f->config, module) /
                                 (double)YKI_MAX(tensor->shape[0], INT64_C(1));
    return YOKE_OK;
}

/* Compares the shapes of a part with the weight's. */
static yoke_status
check_part(const yki_adapter_file *f, const entry *e, const yoke_node *layer, unsigned part)
{
    const yki_tensor *a = e->a[part], *b = e->b[part];
    const int64_t in = layer->inputs[1]->shape.dim[1];
    int64_t first, rows;

    if (!a != !b)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: \"%.200s\" is there without its lora_%c",
                        f->tensors->path, a ? a->name : b->name, a ? 'B' : 'A');
    if (!a)
        return YOKE_OK;
    if (!yki_adapter_rows(layer, part, e->parts, &first, &rows))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s: \"%s\" is no layer whose parts are known, so an adapter of one of "
                        "them has no place",
                        f->tensors->path, layer->name);
    if (a->rank == 2 && b->rank == 2 && a->shape[0] == b->shape[1] && a->shape[0] > 0 &&
        a->shape[1] == in && b->shape[0] == rows)
        return json_object_size(json_object_get(f->config.json, "rank_pattern")) ||
                       a->shape[0] == f->config.rank
                   ? YOKE_OK
                   : yki_fail(YOKE_ERROR_SHAPE,
                              "%s: \"%.200s\" has rank %lld; must be %lld, as in "
                              "%s",
                              f->tensors->path, a->name, (long long)a->shape[0],
                              (long long)f->config.rank, YKI_ADAPTER_CONFIG);
    return yki_fail(YOKE_ERROR_SHAPE,
                    "%s: the adapter \"%.200s\" does not fit; must be A (rank, %lld) and B (%lld, "
                    "rank)",
                    f->tensors->path, a->name, (long long)in, (long long)rows);
}

/* Finds out whether all parts of a layer have the same A. */
static yoke_status
compare_parts(const yki_adapter_file *f, entry *e)
{
    float *values[2] = {NULL, NULL};
    yoke_status status = YOKE_OK;

    e->joined = true;
    for (unsigned p = 1; p < e->parts && e->joined; p++)
        e->joined = e->a[0] && e->a[p] && e->a[p]->count == e->a[0]->count;
    for (int i = 0; i < 2 && e->joined && e->parts > 1; i++) {
        values[i] = yki_alloc(e->a[0]->count, sizeof(float), "values of an adapter");
        status = values[i] ? status : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (status == YOKE_OK && values[0])
        status = yki_safetensors_read_f32(f->tensors, e->a[0], values[0]);
    for (unsigned p = 1; p < e->parts && e->joined && status == YOKE_OK; p++) {
        status = yki_safetensors_read_f32(f->tensors, e->a[p], values[1]);
        e->joined =
            status == YOKE_OK && memcmp(values[0], values[1], e->a[0]->count * sizeof(float)) == 0;
    }
    yki_free(values[0]);
    yki_free(values[1]);
    return status;
}

static int64_t
rank_of(const entry *e)
{
    int64_t rank = 0;

    for (unsigned p = 0; p < e->parts; p++)
        rank += e->a[p] && (p == 0 || !e->joined) ? e->a[p]->shape[0] : 0;
    return rank;
}

static unsigned
first_part(const entry *e)
{
    unsigned p = 0;

    while (p + 1 < e->parts && !e->a[p])
        p++;
    return p;
}

static yoke_status
match(yki_adapter_file *f, const yoke_graph *graph)
{
    if (f->tensors->count == 0)
        return yki_fail(YOKE_ERROR_FORMAT, "%s has no adapters; must have at least one",
                        f->tensors->path);
    for (size_t i = 0; i < f->count; i++)
        yki_free(f->entries[i].layer);
    f->count = 0;
    if (f->entries)
        memset(f->entries, 0, f->capacity * sizeof *f->entries);
    for (size_t i = 0; i < f->tensors->count; i++)
        YKI_TRY(place_tensor(f, graph, &f->tensors->tensors[i]));
    for (size_t i = 0; i < f->count; i++) {
        entry *e = &f->entries[i];
        const yoke_node *layer = yoke_graph_get_node(graph, e->layer);
        yki_adapter adapter;

        if (!layer || !(yki_is_adaptable(layer) || yki_find_adapter(layer, &adapter)))
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "%s adapts \"%s\", which is no dense layer; must be one",
                            f->tensors->path, e->layer);
        for (unsigned p = 0; p < e->parts; p++)
            YKI_TRY(check_part(f, e, layer, p));
        e->factor = (float)e->factors[first_part(e)];
        YKI_TRY(compare_parts(f, e));
    }
    return YOKE_OK;
}

/* ---- into a graph ---- */

/* Compares with the adapter that the layer has, if there is one. */
static yoke_status
check_entry(const yki_adapter_file *f, const entry *e, const yoke_graph *graph)
{
    const yoke_node *layer = yoke_graph_get_node(graph, e->layer);
    const int64_t rank = rank_of(e);
    yki_adapter has;

    if (!yki_find_adapter(layer, &has))
        return yki_check_adapter_rank(layer, rank);
    if (has.rank == rank && fabsf(has.factor - e->factor) <= 1e-6f * e->factor)
        return YOKE_OK;
    return yki_fail(YOKE_ERROR_SHAPE,
                    "%s: the adapter of \"%s\" has rank %lld and is multiplied by %g; must be "
                    "%lld and %g, as in the graph",
                    f->tensors->path, e->layer, (long long)rank, (double)e->factor,
                    (long long)has.rank, (double)has.factor);
}

static yoke_status
read_part(const yki_adapter_file *f, const yki_tensor *tensor, float **values)
{
    *values = yki_alloc(tensor->count, sizeof **values, "values of an adapter");
    if (!*values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_safetensors_read_f32(f->tensors, tensor, *values));
    for (uint64_t i = 0; i < tensor->count; i++)
        if (isnan((*values)[i]))
            return yki_fail(YOKE_ERROR_VALUE,
                            "%s: element %llu of \"%.200s\" is NaN; weights must be numbers",
                            f->tensors->path, (unsigned long long)i, tensor->name);
    return YOKE_OK;
}

/* Whether all values are there and are numbers. */
static yoke_status
check_values(const yki_adapter_file *f, const entry *e)
{
    for (unsigned i = 0; i < 2 * e->parts; i++) {
        const yki_tensor *tensor = i % 2 ? e->b[i / 2] : e->a[i / 2];
        float *values = NULL;
        yoke_status status = tensor ? read_part(f, tensor, &values) : YOKE_OK;

        yki_free(values);
        YKI_TRY(status);
    }
    return YOKE_OK;
}

static yoke_status
add_entry(const entry *e, yoke_graph *graph)
{
    const yoke_node *layer = yoke_graph_get_node(graph, e->layer);
    const yoke_lora_options o = {.rank = rank_of(e), .alpha = e->factor * (float)rank_of(e)};
    yki_adapter has;
    bool *chosen;
    yoke_status status;

    if (yki_find_adapter(layer, &has))
        return YOKE_OK;
    chosen = yki_alloc(graph->node_count, sizeof *chosen, "targets of adapters");
    if (!chosen)
        return YOKE_ERROR_OUT_OF_MEMORY;
    chosen[layer->id] = true;
    status = yki_add_adapters(graph, &o, chosen);
    yki_free(chosen);
    return status;
}

/* Whether the file has an adapter for each one of the graph. */
static yoke_status
check_all(const yki_adapter_file *f, const yoke_graph *graph)
{
    for (size_t i = 0; i < yki_graph_own_count(graph); i++) {
        const char *layer = graph->nodes[i]->name;
        yki_adapter adapter;
        size_t e = 0;

        if (!yki_find_adapter(graph->nodes[i], &adapter))
            continue;
        while (e < f->count && strcmp(f->entries[e].layer, layer) != 0)
            e++;
        if (e == f->count)
            return yki_fail(YOKE_ERROR_NOT_FOUND,
                            "%s has no adapter of \"%s\"; must have all that the graph has",
                            f->tensors->path, layer);
    }
    return YOKE_OK;
}

/* Everything is checked before the first adapter is added, so a bad file changes nothing. */
yoke_status
yki_adapters_add(yki_adapter_file *f, yoke_graph *graph)
{
    YKI_TRY(yki_graph_check_open(graph));
    YKI_TRY(match(f, graph));
    YKI_TRY(check_all(f, graph));
    for (size_t i = 0; i < f->count; i++) {
        YKI_TRY(check_entry(f, &f->entries[i], graph));
        YKI_TRY(check_values(f, &f->entries[i]));
    }
    for (size_t i = 0; i < f->count; i++)
        YKI_TRY(add_entry(&f->entries[i], graph));
    return YOKE_OK;
}

yoke_status
yoke_graph_add_adapters(yoke_graph *graph, const char *folder)
{
    yki_adapter_file *file = NULL;
    yoke_status status;

    YKI_GIVEN("yoke_graph_add_adapters", {"graph", graph}, {"folder", folder});
    YKI_TRY(yki_adapters_open(folder, &file));
    status = yki_adapters_add(file, graph);
    yki_adapters_close(file);
    return status;
}

/* Fills in the values of a layer's A and B. */
static yoke_status
fill(const yki_adapter_file *f, const entry *e, const yki_adapter *to, float *a, float *b)
{
    int64_t column = 0, first, rows;
    float *part = NULL;
    yoke_status status = YOKE_OK;

    for (unsigned p = 0; p < e->parts && status == YOKE_OK; p++) {
        const int64_t rank = e->a[p] ? e->a[p]->shape[0] : 0, in = to->a->shape.dim[1];
        const float more = (float)(e->factors[p] / e->factors[first_part(e)]);

        if (!e->a[p])
            continue;
        if (p == 0 || !e->joined) {
            status = read_part(f, e->a[p], &part);
            if (status == YOKE_OK)
                memcpy(a + column * in, part, (size_t)(rank * in) * sizeof *a);
            yki_free(part);
            part = NULL;
        }
        if (status == YOKE_OK)
            status = read_part(f, e->b[p], &part);
        (void)yki_adapter_rows(to->layer, p, e->parts, &first, &rows);
        for (int64_t r = 0; r < rows && status == YOKE_OK; r++)
            for (int64_t c = 0; c < rank; c++)
                b[(first + r) * to->rank + column + c] = more * part[r * rank + c];
        yki_free(part);
        part = NULL;
        column += e->joined ? 0 : rank;
    }
    return status;
}

static yoke_status
load_entry(const yki_adapter_file *f, const entry *e, const yoke_graph *graph,
           yoke_status (*put)(void *, const yoke_node *, const float *), void *user)
{
    const yoke_node *layer = yoke_graph_get_node(graph, e->layer);
    yki_adapter to;
    float *a, *b;
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    (void)yki_find_adapter(layer, &to);
    a = yki_alloc((size_t)yki_shape_count(to.a->shape), sizeof *a, "values of an adapter");
    b = yki_alloc((size_t)yki_shape_count(to.b->shape), sizeof *b, "values of an adapter");
    if (a && b)
        status = fill(f, e, &to, a, b);
    if (status == YOKE_OK && put)
        status = put(user, to.a, a);
    if (status == YOKE_OK && put)
        status = put(user, to.b, b);
    yki_free(a);
    yki_free(b);
    return status;
}

/* Each adapter of the graph must be in the file, with its rank and factor. */
static yoke_status
match_graph(yki_adapter_file *f, yoke_graph *graph)
{
    yki_adapter adapter;

    YKI_TRY(match(f, graph));
    YKI_TRY(check_all(f, graph));
    for (size_t i = 0; i < f->count; i++) {
        if (!yki_find_adapter(yoke_graph_get_node(graph, f->entries[i].layer), &adapter))
            return yki_fail(YOKE_ERROR_NOT_FOUND, "%s adapts \"%s\", which has no adapter here",
                            f->tensors->path, f->entries[i].layer);
        YKI_TRY(check_entry(f, &f->entries[i], graph));
    }
    return YOKE_OK;
}

yoke_status
yki_adapters_load(yki_adapter_file *f, yoke_graph *graph,
                  yoke_status (*put)(void *, const yoke_node *, const float *), void *user)
{
    YKI_TRY(match_graph(f, graph));
    /* All are read once before any is passed on, so a damaged file changes nothing. */
    for (size_t i = 0; i < f->count; i++)
        YKI_TRY(load_entry(f, &f->entries[i], graph, NULL, NULL));
    for (size_t i = 0; i < f->count; i++)
        YKI_TRY(load_entry(f, &f->entries[i], graph, put, user));
    return YOKE_OK;
}
