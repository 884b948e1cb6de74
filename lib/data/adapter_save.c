/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_save.c - writes the adapters of a graph as PEFT does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/adapter_file.h"
#include "data/adapter_names.h"
#include "data/json.h"
#include "op/ops.h"

enum { NAME = 256, PARTS = 3 };

/* ---- parts of a layer ---- */

/* Finds the attention that reads a node's packed rows, perhaps turned or adapted. */
static const yoke_node *
attention_of(const yoke_node *node)
{
    const yoke_graph *graph = node->graph;

    for (size_t i = node->id + 1; i < yki_graph_own_count(graph); i++) {
        const yoke_node *reader = graph->nodes[i], *found;

        if (reader->input_count == 0 || reader->inputs[0] != node)
            continue;
        if (reader->op == &yki_op_attention)
            return reader;
        if (!yki_shape_equal(reader->shape, node->shape))
            continue;
        found = attention_of(reader);
        if (found)
            return found;
    }
    return NULL;
}

bool
yki_adapter_rows(const yoke_node *layer, unsigned part, unsigned parts, int64_t *first,
                 int64_t *rows)
{
    const int64_t out = layer->inputs[1]->shape.dim[0];
    const yoke_node *attention;
    yki_attention_attrs a;
    int64_t shared;

    if (parts < 3) {
        *rows = out / parts;
        *first = part * *rows;
        return true;
    }
    attention = attention_of(layer);
    if (!attention)
        return false;
    a = yki_attention_attrs_get(&attention->attrs);
    shared = out / (a.heads + 2 * a.shared) * a.shared;
    *rows = part == 0 ? out - 2 * shared : shared;
    *first = part == 0 ? 0 : out - (3 - part) * shared;
    return true;
}

/* The number of modules that a layer is in PEFT: one, if its parts are not known. */
static unsigned
parts_of(const yoke_node *layer)
{
    const unsigned parts = yki_parts_of(layer->inputs[1]->name);
    int64_t first, rows;

    return yki_adapter_rows(layer, 0, parts, &first, &rows) ? parts : 1;
}

/* The name of a module. Hugging Face's GPT-2 with a head has its layers in "transformer". */
static void
module_name(const yoke_node *layer, unsigned part, char name[NAME])
{
    const char *weight = layer->inputs[1]->name;
    const bool inner = yki_is_conv1d(weight) && strncmp(weight, "h.", 2) == 0;
    char text[NAME];

    if (parts_of(layer) > 1)
        yki_translate_back(weight, part, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s", weight);
    snprintf(name, NAME, "%s%.*s", inner ? "transformer." : "", (int)strlen(text) - 7, text);
}

/* ---- the configuration ---- */

static bool
ends_in(const char *name, const char *ending)
{
    const size_t length = strlen(name), its = strlen(ending);

    return length >= its && strcmp(name + length - its, ending) == 0 &&
           (length == its || name[length - its - 1] == '.');
}

/* Whether a name of target_modules would also mean a layer that has no adapter. */
static bool
means_others(const yoke_graph *graph, const char *target)
{
    char name[NAME];

    for (size_t i = 0; i < yki_graph_own_count(graph); i++)
        if (yki_is_adaptable(graph->nodes[i]))
            for (unsigned p = 0; p < parts_of(graph->nodes[i]); p++) {
                module_name(graph->nodes[i], p, name);
                if (ends_in(name, target))
                    return true;
            }
    return false;
}

/* Adds the shortest end of the name that means no other layers, unless it is there. */
static void
add_target(const yoke_graph *graph, const char *module, json_t *targets)
{
    const char *best = module + strlen(module);
    size_t i;
    json_t *value;

    do
        while (best > module && *--best != '.')
            ;
    while (best > module && means_others(graph, best + 1));
    best += *best == '.';
    json_array_foreach(targets, i, value)
    {
        if (strcmp(json_string_value(value), best) == 0)
            return;
    }
    json_array_append_new(targets, json_string(best));
}

/* Layers whose rank or factor is not the first one's are in patterns. */
static json_t *
make_config(const yoke_graph *graph)
{
    json_t *targets = json_array(), *ranks = json_object(), *alphas = json_object();
    yki_adapter adapter, first = {0};
    bool conv1d = false;
    char name[NAME];

    for (size_t i = 0; i < yki_graph_own_count(graph); i++) {
        if (!yki_find_adapter(graph->nodes[i], &adapter))
            continue;
        first = first.layer ? first : adapter;
        conv1d |= yki_is_conv1d(adapter.layer->inputs[1]->name);
        for (unsigned p = 0; p < parts_of(adapter.layer); p++) {
            module_name(adapter.layer, p, name);
            add_target(graph, name, targets);
            if (adapter.rank != first.rank)
                json_object_set_new(ranks, name, json_integer(adapter.rank));
            if (adapter.rank != first.rank || adapter.factor != first.factor)
                json_object_set_new(alphas, name,
                                    yki_json_float(adapter.factor * (float)adapter.rank));
        }
    }
    return json_pack(
        "{s:s, s:s, s:n, s:I, s:o, s:f, s:o, s:b, s:s, s:b, s:n, s:o, s:o}", "peft_type", "LORA",
        "task_type", "CAUSAL_LM", "base_model_name_or_path", "r", (json_int_t)first.rank,
        "lora_alpha", yki_json_float(first.factor * (float)first.rank), "lora_dropout", 0.0,
        "target_modules", targets, "fan_in_fan_out", conv1d, "bias", "none", "inference_mode", 1,
        "modules_to_save", "rank_pattern", ranks, "alpha_pattern", alphas);
}

static yoke_status
write_config(const char *folder, const yoke_graph *graph)
{
    char *path = yki_format("%s/%s", folder, YKI_ADAPTER_CONFIG), *text = NULL;
    yki_json_text json = {0};
    yki_replace *file = NULL;
    yoke_status status = path ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    yki_json_add_value(&json, make_config(graph), JSON_INDENT(2));
    yki_json_add(&json, "\n");
    if (status == YOKE_OK)
        status = yki_json_take(&json, &text);
    if (status == YOKE_OK)
        status = yki_replace_begin(path, &file);
    if (status == YOKE_OK)
        status = yki_replace_write(file, text, strlen(text));
    if (status == YOKE_OK)
        status = yki_replace_commit(file);
    else
        yki_replace_drop(file);
    yki_free(json.text);
    yki_free(text);
    yki_free(path);
    return status;
}

/* ---- tensors ---- */

/* A tensor of the file: A, or rows of B. */
typedef struct piece {
    const yoke_node *node;
    int64_t shape[2], first; /* the first row of the node's */
    char name[NAME + 40];
} piece;

typedef struct saving {
    piece *pieces;
    size_t count, capacity;
    yoke_status (*get)(void *user, const yoke_node *node, float *values);
    void *user;
} saving;

static yoke_status
give(void *user, size_t index, void *out)
{
    const saving *s = user;
    const piece *p = &s->pieces[index];
    const size_t count = (size_t)(p->shape[0] * p->shape[1]);
    float *values =
        yki_alloc((size_t)yki_shape_count(p->node->shape), sizeof *values, "values of an adapter");
    yoke_status status;

    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = s->get(s->user, p->node, values);
    if (status == YOKE_OK)
        memcpy(out, values + p->first * p->shape[1], count * sizeof *values);
    yki_free(values);
    return status;
}

static yoke_status
add_piece(saving *s, const yoke_node *node, const char *module, char which, int64_t first,
          int64_t rows)
{
    piece *p;

    YKI_TRY(yki_grow((void **)&s->pieces, &s->capacity, s->count + 1, sizeof *s->pieces,
                     "tensors of adapters"));
    p = &s->pieces[s->count++];
    *p = (piece){.node = node, .shape = {rows, node->shape.dim[1]}, .first = first};
    snprintf(p->name, sizeof p->name, YKI_ADAPTER_PREFIX "%s.lora_%c.weight", module, which);
    return YOKE_OK;
}

static yoke_status
list_pieces(const yoke_graph *graph, saving *s)
{
    yki_adapter adapter;
    char name[NAME];
    int64_t first = 0, rows = 0;

    for (size_t i = 0; i < yki_graph_own_count(graph); i++) {
        if (!yki_find_adapter(graph->nodes[i], &adapter))
            continue;
        for (unsigned p = 0, parts = parts_of(adapter.layer); p < parts; p++) {
            (void)yki_adapter_rows(adapter.layer, p, parts, &first, &rows);
            module_name(adapter.layer, p, name);
            YKI_TRY(add_piece(s, adapter.a, name, 'A', 0, adapter.rank));
            YKI_TRY(add_piece(s, adapter.b, name, 'B', first, rows));
        }
    }
    if (s->count == 0)
        return yki_fail(YOKE_ERROR_STATE,
                        "the graph has no adapters; must have some: yoke_graph_add_lora");
    return YOKE_OK;
}

static yoke_status
write_tensors(const char *folder, saving *s)
{
    static const yki_text format = {(char *)"format", (char *)"pt"};
    yki_tensor_source *tensors = yki_alloc(s->count, sizeof *tensors, "tensors of adapters");
    char *path = yki_format("%s/%s", folder, YKI_ADAPTER_TENSORS);
    yoke_status status = tensors && path ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < s->count && tensors; i++)
        tensors[i] = (yki_tensor_source){s->pieces[i].name, YKI_DTYPE_F32, 2, s->pieces[i].shape};
    if (status == YOKE_OK)
        status = yki_safetensors_write(path, &format, 1, tensors, s->count, give, s);
    yki_free(path);
    yki_free(tensors);
    return status;
}

yoke_status
yki_adapters_save(const char *folder, const yoke_graph *graph,
                  yoke_status (*get)(void *, const yoke_node *, float *), void *user)
{
    saving s = {.get = get, .user = user};
    yoke_status status = list_pieces(graph, &s);

    if (status == YOKE_OK && mkdir(folder, 0777) != 0 && errno != EEXIST)
        status =
            yki_fail(YOKE_ERROR_IO, "%s: the folder cannot be made: %s", folder, strerror(errno));
    if (status == YOKE_OK)
        status = write_tensors(folder, &s);
    if (status == YOKE_OK)
        status = write_config(folder, graph);
    yki_free(s.pieces);
    return status;
}
