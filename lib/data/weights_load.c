/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_load.c - loads weights by name.
 *
 * Every name and shape is compared before any value is read, and every value is read before any is
 * passed on. So a file that does not fit, or is damaged, changes nothing.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/weights_file.h"

/* A tensor of a file that belongs to a weight: all of it or a part. */
typedef struct piece {
    const yki_safetensors *file;
    const yki_tensor *tensor;
} piece;

typedef struct wanted {
    const yoke_node *node;
    piece pieces[3]; /* along the first axis; without a tensor: the weight keeps its value */
    unsigned count;  /* of the pieces that make the weight */
    float *values;
} wanted;

typedef struct loading {
    const yki_shards *shards;
    const yoke_graph *graph;
    const yoke_load_options *options;
    wanted *wanted;
    wanted **of_node; /* by id */
    size_t count;
    bool conv1d; /* weights of these names are (in, out) in the file */
    unsigned problems;
    char sentence[600]; /* the first few problems */
} loading;

static bool
matches(const yoke_load_options *o, const char *name)
{
    return (!o->pattern || fnmatch(o->pattern, name, 0) == 0) &&
           !(o->except && fnmatch(o->except, name, 0) == 0);
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
        return yki_fail(status, "%s: %s; and %u more", l->shards->path, l->sentence,
                        l->problems - 3);
    return yki_fail(status, "%s: %s", l->shards->path, l->sentence);
}

static bool
has_weight(const void *graph, const char *name)
{
    const yoke_node *node = yoke_graph_get_node(graph, name);

    return node && yki_is_weight(node);
}

/* PyTorch counts batches beside running statistics; the count has no use here. */
static bool
is_counter(const char *name)
{
    static const char suffix[] = "num_batches_tracked";
    size_t length = strlen(name);

    return length >= sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

/* What a checkpoint keeps beside a weight, as "fc.weight#m". */
static bool
is_beside(const loading *l, const char *name)
{
    const char *mark = strrchr(name, '#');
    char weight[512];

    if (!mark || strlen(mark) != 2 || (size_t)(mark - name) >= sizeof weight)
        return false;
    snprintf(weight, sizeof weight, "%.*s", (int)(mark - name), name);
    return has_weight(l->graph, weight);
}

/* Whether the tensor is a matrix that fits when its axes are exchanged. */
static bool
is_turned(const yki_tensor *tensor, const yoke_shape *shape)
{
    return tensor->rank == 2 && shape->rank == 2 && tensor->shape[0] == shape->dim[1] &&
           tensor->shape[1] == shape->dim[0];
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

/* A matrix that is not square shows how all of them are stored, wanted or not. */
static void
find_conv1d(loading *l, const yki_tensor *tensor, const yki_place_in *place)
{
    const yoke_shape *shape;

    if (place->parts != 1 || !yki_is_conv1d(place->name) || !has_weight(l->graph, place->name))
        return;
    shape = &yoke_graph_get_node(l->graph, place->name)->shape;
    l->conv1d |= is_turned(tensor, shape) && !same_shape(tensor, shape);
}

/* Gives a tensor to the weight that it belongs to, if that is wanted. False: it has no place in the
 * graph. */
static bool
place_tensor(loading *l, const yki_safetensors *file, const yki_tensor *tensor)
{
    const char *prefix = l->options->prefix ? l->options->prefix : "", *name = tensor->name;
    yki_place_in place;
    wanted *w;

    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return true;
    name += strlen(prefix);
    yki_translate(name, has_weight, l->graph, &place);
    find_conv1d(l, tensor, &place);
    if (place.name[0] == '\0' || !matches(l->options, place.name))
        return true;
    if (!has_weight(l->graph, place.name))
        return is_counter(name) || is_beside(l, name);
    w = l->of_node[yoke_graph_get_node(l->graph, place.name)->id];
    w->count = place.parts;
    w->pieces[place.part] = (piece){file, tensor};
    return true;
}

/* Gives each tensor to its weight. Returns the tensors that have no place in the graph as a list
 * that the caller frees. */
static yoke_status
place_all(loading *l, const char ***rest, size_t *rest_count)
{
    size_t count = 0;

    for (size_t k = 0; k < l->shards->count; k++)
        count += l->shards->files[k]->count;
    *rest_count = 0;
    *rest = yki_alloc(count, sizeof **rest, "a list of tensors");
    if (!*rest)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < l->shards->count; k++)
        for (size_t i = 0; i < l->shards->files[k]->count; i++) {
            const yki_tensor *tensor = &l->shards->files[k]->tensors[i];

            if (!place_tensor(l, l->shards->files[k], tensor))
                (*rest)[(*rest_count)++] = tensor->name;
        }
    return YOKE_OK;
}

static bool
is_complete(const wanted *w)
{
    for (unsigned p = 0; p < w->count; p++)
        if (!w->pieces[p].tensor)
            return false;
    return w->count > 0;
}

/* Whether each weight that is wanted has its tensors. */
static yoke_status
match_names(loading *l)
{
    bool any = false;

    for (size_t i = 0; i < l->count; i++) {
        wanted *w = &l->wanted[i];

        any |= is_complete(w);
        if (w->count > 1 && !is_complete(w))
            note(l, "of \"%.100s\" a part is missing%s%s", w->node->name, "", "");
        else if (!w->count && !l->options->partial && matches(l->options, w->node->name))
            note(l, "\"%.100s\" is missing%s%s", w->node->name, "", "");
    }
    if (l->problems)
        return report(l, YOKE_ERROR_NOT_FOUND);
    if (!any && l->count)
        return yki_fail(YOKE_ERROR_NOT_FOUND,
                        "%s has no weights of this graph%s; must have at least one",
                        l->shards->path, l->options->pattern ? " that match the pattern" : "");
    return YOKE_OK;
}

static bool
is_conv1d(const loading *l, const wanted *w)
{
    return l->conv1d && w->count == 1 && yki_is_conv1d(w->node->name);
}

/* Whether the pieces of a weight have its shape together. */
static bool
pieces_fit(const loading *l, const wanted *w)
{
    const yoke_shape *shape = &w->node->shape;
    int64_t rows = 0;

    if (is_conv1d(l, w))
        return is_turned(w->pieces[0].tensor, shape);
    if (w->count == 1)
        return same_shape(w->pieces[0].tensor, shape);
    for (unsigned p = 0; p < w->count; p++) {
        const yki_tensor *tensor = w->pieces[p].tensor;
        yoke_shape part = *shape;

        if (tensor->rank < 1 || tensor->shape[0] > shape->dim[0])
            return false;
        part.dim[0] = tensor->shape[0];
        rows += part.dim[0];
        if (!same_shape(tensor, &part))
            return false;
    }
    return rows == shape->dim[0];
}

static yoke_status
match_shapes(loading *l)
{
    char there[200], here[200];

    for (size_t i = 0; i < l->count; i++) {
        const wanted *w = &l->wanted[i];

        if (w->count && !pieces_fit(l, w))
            note(l,
                 w->count > 1 ? "the parts of \"%.100s\" have shapes such as %.90s; must be %.90s "
                                "together"
                              : "\"%.100s\" has shape %.90s; must be %.90s",
                 w->node->name, tensor_text(w->pieces[0].tensor, there, sizeof there),
                 yki_shape_text(w->node->shape, here, sizeof here));
    }
    return l->problems ? report(l, YOKE_ERROR_SHAPE) : YOKE_OK;
}

static yoke_status
match_rest(loading *l, const char *const *rest, size_t count)
{
    for (size_t i = 0; i < count; i++)
        note(l, "\"%.100s\" has no place in the graph%s%s", rest[i], "", "");
    if (!l->problems)
        return YOKE_OK;
    if (!l->options->partial)
        return report(l, YOKE_ERROR_NOT_FOUND);
    yki_log(YOKE_LOG_INFO, "%s: %u tensors are not used, such as: %s", l->shards->path, l->problems,
            l->sentence);
    return YOKE_OK;
}

static yoke_status
match(loading *l)
{
    const char **rest = NULL;
    size_t count = 0;
    yoke_status status = place_all(l, &rest, &count);

    if (status == YOKE_OK)
        status = match_names(l);
    if (status == YOKE_OK)
        status = match_shapes(l);
    if (status == YOKE_OK)
        status = match_rest(l, rest, count);
    yki_free(rest);
    return status;
}

/* Exchanges the axes of values that are (in, out). */
static yoke_status
turn(wanted *w)
{
    const int64_t out = w->node->shape.dim[0], in = w->node->shape.dim[1];
    float *turned = yki_alloc((size_t)(in * out), sizeof *turned, "weights of a file");

    if (!turned)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++)
            turned[o * in + i] = w->values[i * out + o];
    yki_free(w->values);
    w->values = turned;
    return YOKE_OK;
}

static yoke_status
check_numbers(const piece *p, const float *values)
{
    for (uint64_t i = 0; i < p->tensor->count; i++)
        if (isnan(values[i]))
            return yki_fail(YOKE_ERROR_VALUE,
                            "%s: element %llu of \"%.200s\" is NaN; weights must be numbers",
                            p->file->path, (unsigned long long)i, p->tensor->name);
    return YOKE_OK;
}

static yoke_status
read_all(loading *l)
{
    for (size_t i = 0; i < l->count; i++) {
        wanted *w = &l->wanted[i];
        uint64_t done = 0;

        if (!w->count)
            continue;
        w->values =
            yki_alloc((size_t)yki_shape_count(w->node->shape), sizeof(float), "weights of a file");
        if (!w->values)
            return YOKE_ERROR_OUT_OF_MEMORY;
        for (unsigned p = 0; p < w->count; p++) {
            const piece *from = &w->pieces[p];

            YKI_TRY(yki_safetensors_read_f32(from->file, from->tensor, w->values + done));
            if (!yki_safetensors_text(from->file, YKI_GRAPH_KEY))
                YKI_TRY(check_numbers(from, w->values + done));
            done += from->tensor->count;
        }
        if (is_conv1d(l, w))
            YKI_TRY(turn(w));
    }
    return YOKE_OK;
}

static yoke_status
prepare(loading *l)
{
    const yoke_node **nodes = NULL;
    size_t count = 0;
    yoke_status status = yki_list_weights(l->graph, &nodes, &count);

    if (status == YOKE_OK) {
        l->wanted = yki_alloc(count, sizeof *l->wanted, "a list of weights");
        l->of_node = yki_alloc(l->graph->node_count, sizeof *l->of_node, "a list of weights");
        status = l->wanted && l->of_node ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (status == YOKE_OK) {
        l->count = count;
        for (size_t i = 0; i < l->count; i++) {
            l->wanted[i].node = nodes[i];
            l->of_node[nodes[i]->id] = &l->wanted[i];
        }
    }
    yki_free(nodes);
    return status;
}

yoke_status
yki_weights_file_load(const yki_shards *shards, const yoke_graph *graph,
                      const yoke_load_options *options,
                      yoke_status (*put)(void *, const yoke_node *, const float *), void *user)
{
    loading l = {.shards = shards, .graph = graph, .options = options};
    yoke_status status = prepare(&l);

    if (status == YOKE_OK)
        status = match(&l);
    if (status == YOKE_OK)
        status = read_all(&l);
    for (size_t i = 0; status == YOKE_OK && i < l.count; i++)
        if (l.wanted[i].values)
            status = put(user, l.wanted[i].node, l.wanted[i].values);
    for (size_t i = 0; i < l.count; i++)
        yki_free(l.wanted[i].values);
    yki_free(l.wanted);
    yki_free(l.of_node);
    return status;
}
