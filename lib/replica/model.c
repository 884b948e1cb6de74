/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - a graph with its weights in host memory, read from a file or written to one.
 *
 * For predicting, a model keeps a second graph without loss and metrics, which needs no
 * targets. If the loss is a cross-entropy of the first output as logits, that graph has
 * one more output: the softmax or sigmoid that is part of the cross-entropy.
 */
#include <math.h>
#include <string.h>

#include "data/onnx.h"
#include "replica/loader.h"
#include "replica/model.h"

/* ---- the graph to predict with ---- */

static void
drop_purposes(yoke_graph *g)
{
    g->loss = NULL;
    for (size_t i = 0; i < g->metric_count; i++)
        yki_free(g->metrics[i].name);
    g->metric_count = 0;
}

/* Adds the node that turns the first output into probabilities; NULL: there is none. */
static yoke_node *
add_function(yoke_graph *g, const yoke_node *loss)
{
    yoke_node *output = g->outputs[0].node;
    yki_loss_kind kind;

    if (!loss || loss->op != &yki_op_loss || loss->inputs[0] != output)
        return NULL;
    kind = (yki_loss_kind)yki_loss_attrs_get(&loss->attrs).kind;
    if (kind == YKI_LOSS_SOFTMAX_CE)
        return yoke_softmax(g, output, 0);
    return kind == YKI_LOSS_BCE ? yoke_sigmoid(g, output) : NULL;
}

/* Makes a name that no output has; the caller frees it. */
static char *
free_name(const yoke_graph *g)
{
    size_t length = 0;
    char *name;

    for (size_t i = 0; i < g->output_count; i++)
        length = YKI_MAX(length, strlen(g->outputs[i].name));
    name = yki_alloc(1, length + 2, "a name");
    if (name)
        memset(name, '_', length + 1);
    return name;
}

/* Makes the graph, and gives the node that turns the first output into probabilities; NULL: there
 * is none. */
static yoke_status
copy_predicting(const yoke_model *m, yoke_graph **graph, yoke_node **function)
{
    char *text = NULL;
    yoke_status status;

    if (m->graph->output_count == 0)
        return yki_fail(YOKE_ERROR_STATE,
                        "the model has no output; call yoke_graph_set_output before");
    YKI_TRY(yoke_graph_to_json(m->graph, &text));
    status = yoke_graph_from_json(text, strlen(text), graph);
    yki_free(text);
    YKI_TRY(status);
    *function = add_function(*graph, (*graph)->loss);
    drop_purposes(*graph);
    return YOKE_OK;
}

static yoke_status
make_predicting(yoke_model *m)
{
    yoke_node *function;
    char *name;

    YKI_TRY(copy_predicting(m, &m->predicting, &function));
    if (function) {
        name = free_name(m->predicting);
        if (!name)
            return YOKE_ERROR_OUT_OF_MEMORY;
        yoke_graph_set_output(m->predicting, name, function);
        yki_free(name);
        m->has_function = true;
    }
    return yki_graph_complete(m->predicting, false);
}

yoke_status
yki_model_make_predicting(const yoke_model *m, yoke_graph **graph)
{
    yoke_node *function;

    YKI_TRY(copy_predicting(m, graph, &function));
    if (function)
        (*graph)->outputs[0].node = function;
    return YOKE_OK;
}

/* ---- making ---- */

static bool
is_data(const yoke_node *node)
{
    return node->role == YKI_ROLE_INPUT && !node->target;
}

static const yoke_node *
first_input(const yoke_graph *graph)
{
    for (size_t i = 0; i < graph->node_count; i++)
        if (is_data(graph->nodes[i]))
            return graph->nodes[i];
    return NULL;
}

static yoke_field
field_of(const yoke_node *input)
{
    return (yoke_field){.name = input->name, .type = input->type, .shape = yki_whole_shape(input)};
}

yoke_status
yki_model_default_info(const yoke_graph *graph, yki_model_info *info)
{
    const yoke_node *input = first_input(graph);
    yoke_field field;

    if (!input)
        return yki_fail(YOKE_ERROR_STATE,
                        "the graph has no input; must have at least one: yoke_input");
    field = field_of(input);
    return yki_model_info_set(info, &field, NULL, NULL, 0, NULL, 0);
}

/* Gives inputs of the graph of which nothing is known their defaults. */
static yoke_status
complete_info(const yoke_graph *graph, yki_model_info *info)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        const yoke_node *node = graph->nodes[i];
        const yoke_field field = field_of(node);
        yki_model_input known;

        if (is_data(node) && !yki_model_info_find(info, node->name, &known))
            YKI_TRY(yki_model_info_add(info, &field, NULL, NULL, 0));
    }
    return YOKE_OK;
}

static yoke_status
check_input(const yoke_model *m, const yoke_field *field, size_t count)
{
    const yoke_node *input = yoke_graph_get_node(m->graph, field->name);

    if (!input || input->role != YKI_ROLE_INPUT)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "the graph has no input \"%s\"", field->name);
    if (input->type != YOKE_F32 && (field->type != input->type || count))
        return yki_fail(YOKE_ERROR_TYPE,
                        "the input \"%s\" has type %s and takes whole numbers as they are; must be "
                        "f32 to be scaled",
                        input->name, yki_value_type_name(input->type));
    /* The data may have another shape than the input: (8, 8) for (1, 8, 8). */
    if (count > 1 && (field->shape.rank == 0 || field->shape.dim[0] != (int64_t)count))
        return yki_fail(YOKE_ERROR_SHAPE,
                        "the number of means for the input \"%s\" is %zu; must be 1, or %lld, one "
                        "for each channel or column",
                        input->name, count,
                        (long long)(field->shape.rank ? field->shape.dim[0] : 1));
    return YOKE_OK;
}

static yoke_status
check_info(const yoke_model *m)
{
    YKI_TRY(check_input(m, &m->info.field, m->info.scaling.count));
    for (size_t i = 0; i < m->info.more_count; i++)
        YKI_TRY(check_input(m, &m->info.more[i].field, m->info.more[i].scaling.count));
    return YOKE_OK;
}

static yoke_status
make_values(yoke_model *m)
{
    m->value_count = m->graph->node_count;
    m->values = yki_alloc(m->value_count, sizeof *m->values, "a model's weights");
    if (!m->values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < m->graph->node_count; i++) {
        const yoke_node *node = m->graph->nodes[i];

        if (!yki_is_weight(node) && !yki_is_constant(node))
            continue;
        m->values[i] = yki_alloc((size_t)yki_shape_count(node->shape), sizeof(float), node->name);
        if (!m->values[i])
            return YOKE_ERROR_OUT_OF_MEMORY;
        if (yki_is_constant(node))
            yki_initialize(node, 0, 0, m->values[i]);
    }
    return YOKE_OK;
}

/* Makes a model whose values are all 0. Takes ownership of `graph` and of the contents of `info`,
 * even on failure. */
static yoke_status
make_model(yoke_graph *graph, yki_model_info *info, yoke_model **out)
{
    yoke_model *m = yki_alloc(1, sizeof *m, "a model");
    yoke_status status;

    if (!m) {
        yki_model_info_clear(info);
        yoke_graph_destroy(graph);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&m->references, 1);
    pthread_mutex_init(&m->lock, NULL);
    m->graph = graph;
    m->info = *info;
    memset(info, 0, sizeof *info);
    status = m->info.field.name ? YOKE_OK : yki_model_default_info(graph, &m->info);
    if (status == YOKE_OK)
        status = complete_info(graph, &m->info);
    if (status == YOKE_OK)
        status = check_info(m);
    if (status == YOKE_OK)
        status = make_values(m);
    if (status != YOKE_OK) {
        yoke_model_destroy(m);
        return status;
    }
    *out = m;
    return YOKE_OK;
}

yoke_model *
yki_model_retain(yoke_model *model)
{
    atomic_fetch_add(&model->references, 1);
    return model;
}

void
yoke_model_destroy(yoke_model *m)
{
    if (!m || atomic_fetch_sub(&m->references, 1) != 1)
        return;
    for (size_t i = 0; m->values && i < m->value_count; i++)
        yki_free(m->values[i]);
    for (size_t i = 0; i < m->device_count; i++)
        yki_weights_release(m->devices[i].weights);
    yki_free(m->devices);
    yki_free(m->values);
    yki_model_info_clear(&m->info);
    yoke_graph_destroy(m->predicting);
    yoke_graph_destroy(m->graph);
    pthread_mutex_destroy(&m->lock);
    yki_free(m);
}

/* Gives the same initial values as a device: parameters are numbered first, then states. */
static void
initialize(yoke_model *m, uint32_t seed)
{
    static const yki_node_role roles[] = {YKI_ROLE_PARAMETER, YKI_ROLE_STATE};
    uint32_t index = 0;

    for (size_t r = 0; r < YKI_COUNT(roles); r++)
        for (size_t i = 0; i < m->graph->node_count; i++)
            if (m->graph->nodes[i]->role == roles[r])
                yki_initialize(m->graph->nodes[i], seed, index++, m->values[i]);
}

static yoke_status
info_of_options(const yoke_graph *graph, const yoke_model_options *o, yki_model_info *info)
{
    yoke_field field;
    yoke_status status;

    if (o->scaling_count)
        YKI_GIVEN("yoke_model_create", {"mean", o->mean}, {"scale", o->scale});
    if (o->class_count)
        YKI_GIVEN("yoke_model_create", {"class_names", o->class_names});
    if ((unsigned)o->input_type > YOKE_U8)
        return yki_fail(
            YOKE_ERROR_INVALID_ARGUMENT,
            "yoke_model_create: input_type is %d; must be YOKE_F32, YOKE_I32 or YOKE_U8",
            (int)o->input_type);
    for (size_t i = 0; i < o->scaling_count; i++)
        if (!isfinite(o->mean[i]) || !isfinite(o->scale[i]))
            return yki_fail(
                YOKE_ERROR_VALUE,
                "yoke_model_create: mean[%zu] is %g and scale[%zu] is %g; must be finite", i,
                (double)o->mean[i], i, (double)o->scale[i]);
    YKI_TRY(yki_model_default_info(graph, info));
    field = info->field;
    field.name = first_input(graph)->name;
    if (field.type == YOKE_F32)
        field.type = o->input_type;
    if (o->tokenizer && field.type != YOKE_I32)
        return yki_fail(YOKE_ERROR_TYPE,
                        "yoke_model_create: the input \"%s\" has type %s; must be i32 to have a "
                        "tokenizer",
                        field.name, yki_value_type_name(field.type));
    status = yki_model_info_set(info, &field, o->mean, o->scale, o->scaling_count, o->class_names,
                                o->class_count);
    if (status == YOKE_OK && o->tokenizer)
        info->tokenizer = yki_tokenizer_retain((yoke_tokenizer *)o->tokenizer);
    return status;
}

yoke_status
yoke_model_create_sized(const yoke_graph *graph, const yoke_model_options *options, size_t size,
                        yoke_model **model)
{
    yoke_model_options o = {0};
    yki_model_info info = {0};
    yoke_graph *copy = NULL;
    char *text = NULL;
    yoke_status status;

    YKI_GIVEN("yoke_model_create", {"graph", graph}, {"model", model});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    YKI_TRY(yoke_graph_to_json(graph, &text));
    status = yoke_graph_from_json(text, strlen(text), &copy);
    yki_free(text);
    YKI_TRY(status);
    status = info_of_options(copy, &o, &info);
    if (status != YOKE_OK) {
        yki_model_info_clear(&info);
        yoke_graph_destroy(copy);
        return status;
    }
    YKI_TRY(make_model(copy, &info, model));
    initialize(*model, o.seed);
    return YOKE_OK;
}

/* ---- files ---- */

static yoke_status
get(void *user, const yoke_node *node, float *values)
{
    const yoke_model *m = user;

    memcpy(values, m->values[node->id], (size_t)yki_shape_count(node->shape) * sizeof *values);
    return YOKE_OK;
}

static yoke_status
put(void *user, const yoke_node *node, const float *values)
{
    yoke_model *m = user;

    memcpy(m->values[node->id], values, (size_t)yki_shape_count(node->shape) * sizeof *values);
    return YOKE_OK;
}

static yoke_status
load(const yki_shards *shards, yoke_model **out)
{
    const yki_safetensors *file = shards->files[0];
    /* Checkpoints are accepted too; they hold more than weights. */
    const yoke_load_options options = {.partial = yki_safetensors_text(file, "yoke.state") != NULL};
    yki_model_info info = {0};
    yoke_graph *graph = NULL;
    yoke_model *m = NULL;
    yoke_status status;

    YKI_TRY(yki_weights_file_graph(file, &graph));
    status = yki_model_info_read(file, &info);
    if (status != YOKE_OK) {
        yki_model_info_clear(&info);
        yoke_graph_destroy(graph);
        return status;
    }
    YKI_TRY(make_model(graph, &info, &m));
    status = yki_weights_file_load(shards, graph, &options, put, m);
    if (status != YOKE_OK) {
        yoke_model_destroy(m);
        return status;
    }
    *out = m;
    return YOKE_OK;
}

yoke_status
yoke_model_load(const char *path, yoke_model **model)
{
    yki_shards shards;
    yoke_status status;

    YKI_GIVEN("yoke_model_load", {"path", path}, {"model", model});
    YKI_TRY(yki_shards_open(path, &shards));
    status = load(&shards, model);
    yki_shards_close(&shards);
    return status;
}

/* Bytes are given as they are, where a file of ONNX takes them. */
static yoke_status
take_imported(yki_onnx_imported *made, yoke_model **out)
{
    static const float mean = 0, scale = 1;
    const yoke_model_options o = {.input_type = made->bytes ? YOKE_U8 : YOKE_F32,
                                  .mean = &mean,
                                  .scale = &scale,
                                  .scaling_count = made->bytes};
    yki_model_info info = {0};
    yoke_graph *const graph = made->graph;
    const yoke_status status = info_of_options(graph, &o, &info);
    yoke_model *m = NULL;

    if (status != YOKE_OK) {
        yki_model_info_clear(&info);
        return status;
    }
    made->graph = NULL;
    YKI_TRY(make_model(graph, &info, &m));
    for (size_t i = 0; i < made->count; i++)
        if (made->values[i])
            memcpy(m->values[i], made->values[i],
                   (size_t)yki_shape_count(graph->nodes[i]->shape) * sizeof(float));
    *out = m;
    return YOKE_OK;
}

yoke_status
yoke_model_load_onnx(const char *path, yoke_model **model)
{
    yki_onnx file;
    yki_onnx_imported made = {0};
    yoke_status status;

    YKI_GIVEN("yoke_model_load_onnx", {"path", path}, {"model", model});
    status = yki_onnx_open(path, &file);
    if (status == YOKE_OK)
        status = yki_onnx_import(&file, &made);
    if (status == YOKE_OK)
        status = take_imported(&made, model);
    yki_onnx_imported_clear(&made);
    yki_onnx_clear(&file);
    return status;
}

yoke_status
yoke_model_save_onnx(const yoke_model *m, const char *path)
{
    YKI_GIVEN("yoke_model_save_onnx", {"model", m}, {"path", path});
    return yki_onnx_export(path, m->graph, &m->info, get, (void *)m);
}

yoke_status
yoke_model_load_weights_sized(yoke_model *m, const char *path, const yoke_load_options *options,
                              size_t size)
{
    yoke_load_options o = {0};
    yki_shards shards;
    yoke_status status;

    YKI_GIVEN("yoke_model_load_weights", {"model", m}, {"path", path});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    YKI_TRY(yki_shards_open(path, &shards));
    status = yki_weights_file_load(&shards, m->graph, &o, put, m);
    yki_shards_close(&shards);
    m->version++;
    return status;
}

yoke_status
yoke_model_save(const yoke_model *m, const char *path)
{
    YKI_GIVEN("yoke_model_save", {"model", m}, {"path", path});
    return yki_weights_file_save(path, m->graph, &m->info, get, (void *)m);
}

yoke_status
yoke_model_export_sized(const yoke_model *m, const char *folder, const yoke_export_options *options,
                        size_t size)
{
    yoke_export_options o = {0};

    YKI_GIVEN("yoke_model_export", {"model", m}, {"folder", folder});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    return yki_hugging_face_write(folder, m->graph, m->info.tokenizer, &o, get, (void *)m);
}

/* ---- what it holds ---- */

yoke_graph *
yoke_model_get_graph(const yoke_model *m)
{
    return m ? m->graph : NULL;
}

const yoke_field *
yoke_model_get_input(const yoke_model *m)
{
    return m ? &m->info.field : NULL;
}

size_t
yoke_model_input_count(const yoke_model *m)
{
    return m ? 1 + m->info.more_count : 0;
}

const yoke_field *
yoke_model_get_input_at(const yoke_model *m, size_t index)
{
    if (!m || index > m->info.more_count)
        return NULL;
    return index ? &m->info.more[index - 1].field : &m->info.field;
}

static yoke_status
scale_field(yoke_dataset *dataset, const char *name, const struct yki_scaling *scaling)
{
    if (!scaling->count)
        return YOKE_OK;
    return yoke_dataset_set_scaling(dataset, name, scaling->mean, scaling->scale, scaling->count);
}

yoke_status
yoke_model_scale_dataset(const yoke_model *m, yoke_dataset *dataset)
{
    const yoke_field *first;

    YKI_GIVEN("yoke_model_scale_dataset", {"model", m}, {"dataset", dataset});
    /* Of a model of one input, the data may have another name. */
    first = yki_dataset_find(dataset, m->info.field.name) >= 0 || m->info.more_count
                ? &m->info.field
                : yoke_dataset_get_field(dataset, 0);
    YKI_TRY(scale_field(dataset, first->name, &m->info.scaling));
    for (size_t i = 0; i < m->info.more_count; i++)
        YKI_TRY(scale_field(dataset, m->info.more[i].field.name, &m->info.more[i].scaling));
    return yki_dataset_cut(dataset, m->graph);
}

size_t
yoke_model_get_scaling(const yoke_model *m, const float **mean, const float **scale)
{
    if (mean)
        *mean = m ? m->info.scaling.mean : NULL;
    if (scale)
        *scale = m ? m->info.scaling.scale : NULL;
    return m ? m->info.scaling.count : 0;
}

size_t
yoke_model_class_count(const yoke_model *m)
{
    return m ? m->info.class_count : 0;
}

const char *
yoke_model_get_class_name(const yoke_model *m, size_t index)
{
    return m && index < m->info.class_count ? m->info.class_names[index] : NULL;
}

const char *
yoke_model_get_encoding(const yoke_model *m)
{
    return m ? m->info.encoding : NULL;
}

const yoke_tokenizer *
yoke_model_get_tokenizer(const yoke_model *m)
{
    return m ? m->info.tokenizer : NULL;
}

static yoke_status
find(const yoke_model *m, const char *name, const void *values, int64_t count, const char *function,
     float **found)
{
    const yoke_node *node;
    char text[160];

    YKI_GIVEN(function, {"model", m}, {"name", name}, {"values", values});
    node = yoke_graph_get_node(m->graph, name);
    if (!node || !yki_is_weight(node))
        return yki_graph_no_weight(m->graph, name);
    if (count != yki_shape_count(node->shape))
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" has shape %s; the number of values is %lld; must be %lld", name,
                        yki_shape_text(node->shape, text, sizeof text), (long long)count,
                        (long long)yki_shape_count(node->shape));
    *found = m->values[node->id];
    return YOKE_OK;
}

yoke_status
yoke_model_read(const yoke_model *m, const char *name, float *values, int64_t count)
{
    float *found;

    YKI_TRY(find(m, name, values, count, "yoke_model_read", &found));
    memcpy(values, found, (size_t)count * sizeof *values);
    return YOKE_OK;
}

yoke_status
yoke_model_write(yoke_model *m, const char *name, const float *values, int64_t count)
{
    float *found;

    YKI_TRY(find(m, name, values, count, "yoke_model_write", &found));
    memcpy(found, values, (size_t)count * sizeof *values);
    m->version++;
    return YOKE_OK;
}

/* ---- on devices ---- */

static yoke_status
upload(const yoke_model *m, yki_weights *w)
{
    for (size_t i = 0; i < w->weight_count + w->state_count; i++) {
        const yki_weight *weight =
            i < w->weight_count ? &w->weights[i] : &w->states[i - w->weight_count];
        const yoke_node *node = yoke_graph_get_node(m->graph, weight->node->name);

        YKI_TRY(yki_buffer_put(weight->value, 0, weight->size, m->values[node->id]));
    }
    w->version++;
    return YOKE_OK;
}

yoke_status
yki_model_borrow(yoke_model *m, yoke_device *device, yki_weights **out)
{
    yki_weights *w = NULL;
    yoke_status status;

    if (!m->predicting)
        YKI_TRY(make_predicting(m));
    for (size_t i = 0; i < m->device_count; i++)
        if (m->devices[i].weights->device == device && m->devices[i].version == m->version) {
            m->devices[i].users++;
            *out = m->devices[i].weights;
            return YOKE_OK;
        }
    YKI_TRY(yki_grow((void **)&m->devices, &m->device_capacity, m->device_count + 1,
                     sizeof *m->devices, "the devices of a model"));
    YKI_TRY(yki_weights_create(device, m->predicting, false, 0, NULL, &w));
    status = upload(m, w);
    if (status != YOKE_OK) {
        yki_weights_release(w);
        return status;
    }
    m->devices[m->device_count++] = (yki_model_device){w, 1, m->version};
    *out = w;
    return YOKE_OK;
}

void
yki_model_give_back(yoke_model *m, yki_weights *weights)
{
    for (size_t i = 0; i < m->device_count; i++)
        if (m->devices[i].weights == weights && --m->devices[i].users == 0) {
            yki_weights_release(weights);
            m->devices[i] = m->devices[--m->device_count];
            return;
        }
}
