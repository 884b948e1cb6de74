/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_file.c - saves and loads weights by name.
 *
 * Names and axis order are PyTorch's, so a state_dict needs no translation. Every name and shape is
 * compared before any value is read, and every value is read before any is passed on. So a file
 * that does not fit, or is damaged, changes nothing.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "data/weights_file.h"

bool
yki_is_weight(const yoke_node *node)
{
    return node->role == YKI_ROLE_PARAMETER || node->role == YKI_ROLE_STATE;
}

/* Lists all parameters and states; the caller frees the list. */
static yoke_status
list_weights(const yoke_graph *graph, const yoke_node ***nodes, size_t *count)
{
    static const yki_node_role roles[] = {YKI_ROLE_PARAMETER, YKI_ROLE_STATE};

    *count = 0;
    *nodes = yki_alloc(graph->node_count, sizeof **nodes, "a list of weights");
    if (!*nodes)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t r = 0; r < YKI_COUNT(roles); r++)
        for (size_t i = 0; i < graph->node_count; i++)
            if (graph->nodes[i]->role == roles[r])
                (*nodes)[(*count)++] = graph->nodes[i];
    return YOKE_OK;
}

/* ---- saving ---- */

typedef struct saving {
    const yoke_node **nodes;
    yoke_status (*get)(void *user, const yoke_node *node, float *values);
    void *user;
} saving;

static yoke_status
give(void *user, size_t index, void *out)
{
    const saving *s = user;

    return s->get(s->user, s->nodes[index], out);
}

static yoke_status
save_nodes(const char *path, const yki_text *texts, size_t text_count, saving *s, size_t count)
{
    yki_tensor_source *tensors = yki_alloc(count, sizeof *tensors, "a list of weights");
    yoke_status status;

    if (!tensors)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        tensors[i] = (yki_tensor_source){s->nodes[i]->name, YKI_DTYPE_F32,
                                         (uint32_t)s->nodes[i]->shape.rank, s->nodes[i]->shape.dim};
    status = yki_safetensors_write(path, texts, text_count, tensors, count, give, s);
    yki_free(tensors);
    return status;
}

yoke_status
yki_weights_file_save(const char *path, const yoke_graph *graph, const yki_model_info *info,
                      yoke_status (*get)(void *, const yoke_node *, float *), void *user)
{
    yki_text texts[4] = {{(char *)"format", (char *)"pt"}, {(char *)YKI_GRAPH_KEY, NULL}};
    saving s = {.get = get, .user = user};
    size_t count = 0, infos = 0;
    yoke_status status;

    YKI_TRY(yoke_graph_to_json(graph, &texts[1].value));
    status = info ? yki_model_info_write(info, texts + 2, &infos) : YOKE_OK;
    if (status == YOKE_OK)
        status = list_weights(graph, &s.nodes, &count);
    if (status == YOKE_OK)
        status = save_nodes(path, texts, 2 + infos, &s, count);
    yki_free(s.nodes);
    for (size_t i = 0; i < infos; i++)
        yki_free(texts[2 + i].value);
    yki_free(texts[1].value);
    return status;
}

/* ---- loading ---- */

typedef struct wanted {
    const yoke_node *node;
    const yki_tensor *tensor; /* NULL: the weight keeps its value */
    float *values;
} wanted;

typedef struct loading {
    const yki_safetensors *file;
    const yoke_graph *graph;
    const yoke_load_options *options;
    wanted *wanted;
    size_t count;
    unsigned problems;
    char sentence[600]; /* the first few problems */
} loading;

static bool
matches(const yoke_load_options *o, const char *name)
{
    return (!o->pattern || fnmatch(o->pattern, name, 0) == 0) &&
           !(o->except && fnmatch(o->except, name, 0) == 0);
}

static bool
same_shape(const yki_tensor *tensor, const yoke_shape *shape)
{
    if (tensor->rank != (uint32_t)shape->rank)
        return false;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] != shape->dim[i])
            return false;
    return true;
}

static const char *
tensor_text(const yki_tensor *tensor, char *text, size_t size)
{
    yoke_shape shape = {0};

    if (tensor->rank > YOKE_MAX_RANK) {
        snprintf(text, size, "of %u axes", tensor->rank);
        return text;
    }
    shape.rank = (int32_t)tensor->rank;
    memcpy(shape.dim, tensor->shape, tensor->rank * sizeof *tensor->shape);
    return yki_shape_text(shape, text, size);
}

/* Counts a problem and adds the first few to the sentence. */
static void
note(loading *l, const char *format, const char *name, const char *there, const char *here)
{
    size_t used = strlen(l->sentence);

    if (l->problems++ < 3 && used < sizeof l->sentence - 1) {
        if (used)
            used += (size_t)snprintf(l->sentence + used, sizeof l->sentence - used, "; ");
        if (used < sizeof l->sentence)
            snprintf(l->sentence + used, sizeof l->sentence - used, format, name, there, here);
    }
}

static yoke_status
report(const loading *l, yoke_status status)
{
    if (l->problems > 3)
        return yki_fail(status, "%s: %s; and %u more", l->file->path, l->sentence, l->problems - 3);
    return yki_fail(status, "%s: %s", l->file->path, l->sentence);
}

static yoke_status
find_tensor(const loading *l, const yoke_node *node, const yki_tensor **tensor)
{
    char *name = yki_format("%s%s", l->options->prefix ? l->options->prefix : "", node->name);

    if (!name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    *tensor = yki_safetensors_find(l->file, name);
    yki_free(name);
    return YOKE_OK;
}

/* Finds a tensor for each weight of the graph that is wanted. */
static yoke_status
match_names(loading *l)
{
    bool any = false;

    for (size_t i = 0; i < l->count; i++) {
        wanted *w = &l->wanted[i];

        if (!matches(l->options, w->node->name))
            continue;
        YKI_TRY(find_tensor(l, w->node, &w->tensor));
        any |= w->tensor != NULL;
        if (!w->tensor && !l->options->partial)
            note(l, "\"%.100s\" is missing%s%s", w->node->name, "", "");
    }
    if (l->problems)
        return report(l, YOKE_ERROR_NOT_FOUND);
    if (!any && l->count)
        return yki_fail(YOKE_ERROR_NOT_FOUND,
                        "%s has no weights of this graph%s; must have at least one", l->file->path,
                        l->options->pattern ? " that match the pattern" : "");
    return YOKE_OK;
}

static yoke_status
match_shapes(loading *l)
{
    char there[200], here[200];

    for (size_t i = 0; i < l->count; i++) {
        const wanted *w = &l->wanted[i];

        if (w->tensor && !same_shape(w->tensor, &w->node->shape))
            note(l, "\"%.100s\" has shape %.90s; must be %.90s", w->node->name,
                 tensor_text(w->tensor, there, sizeof there),
                 yki_shape_text(w->node->shape, here, sizeof here));
    }
    return l->problems ? report(l, YOKE_ERROR_SHAPE) : YOKE_OK;
}

/* PyTorch counts batches beside running statistics; the count has no use here. */
static bool
is_counter(const char *name)
{
    static const char suffix[] = "num_batches_tracked";
    size_t length = strlen(name);

    return length >= sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

/* Finds tensors of the file that have no place in the graph. */
static yoke_status
match_rest(loading *l)
{
    const char *prefix = l->options->prefix ? l->options->prefix : "";
    size_t length = strlen(prefix);

    for (size_t i = 0; i < l->file->count; i++) {
        const char *name = l->file->tensors[i].name;
        const yoke_node *node;

        if (strncmp(name, prefix, length) != 0 || !matches(l->options, name + length))
            continue;
        node = yoke_graph_get_node(l->graph, name + length);
        if (!(node && yki_is_weight(node)) && !is_counter(name))
            note(l, "\"%.100s\" has no place in the graph%s%s", name, "", "");
    }
    if (!l->problems)
        return YOKE_OK;
    if (!l->options->partial)
        return report(l, YOKE_ERROR_NOT_FOUND);
    yki_log(YOKE_LOG_INFO, "%s: %u tensors are not used, such as: %s", l->file->path, l->problems,
            l->sentence);
    return YOKE_OK;
}

static yoke_status
read_all(loading *l)
{
    for (size_t i = 0; i < l->count; i++) {
        wanted *w = &l->wanted[i];

        if (!w->tensor)
            continue;
        w->values = yki_alloc(w->tensor->count, sizeof(float), "weights of a file");
        if (!w->values)
            return YOKE_ERROR_OUT_OF_MEMORY;
        YKI_TRY(yki_safetensors_read_f32(l->file, w->tensor, w->values));
    }
    return YOKE_OK;
}

static yoke_status
prepare(loading *l)
{
    const yoke_node **nodes = NULL;
    yoke_status status = list_weights(l->graph, &nodes, &l->count);

    l->wanted =
        status == YOKE_OK ? yki_alloc(l->count, sizeof *l->wanted, "a list of weights") : NULL;
    if (!l->wanted)
        l->count = 0;
    for (size_t i = 0; i < l->count; i++)
        l->wanted[i].node = nodes[i];
    yki_free(nodes);
    return l->wanted ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

yoke_status
yki_weights_file_load(const yki_safetensors *file, const yoke_graph *graph,
                      const yoke_load_options *options,
                      yoke_status (*put)(void *, const yoke_node *, const float *), void *user)
{
    loading l = {.file = file, .graph = graph, .options = options};
    yoke_status status = prepare(&l);

    if (status == YOKE_OK)
        status = match_names(&l);
    if (status == YOKE_OK)
        status = match_shapes(&l);
    if (status == YOKE_OK)
        status = match_rest(&l);
    if (status == YOKE_OK)
        status = read_all(&l);
    for (size_t i = 0; status == YOKE_OK && i < l.count; i++)
        if (l.wanted[i].values)
            status = put(user, l.wanted[i].node, l.wanted[i].values);
    for (size_t i = 0; i < l.count; i++)
        yki_free(l.wanted[i].values);
    yki_free(l.wanted);
    return status;
}

yoke_status
yki_weights_file_graph(const yki_safetensors *file, yoke_graph **graph)
{
    const char *text = yki_safetensors_text(file, YKI_GRAPH_KEY);
    yoke_status status;

    if (!text)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has weights but no graph: make a model of the graph, and load them "
                        "into it",
                        file->path);
    status = yoke_graph_from_json(text, strlen(text), graph);
    return status == YOKE_OK ? YOKE_OK : yki_fail_in(status, file->path);
}
