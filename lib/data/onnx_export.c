/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_export.c - writes a graph as a model of ONNX: what its outputs need, as it evaluates. The
 * table of functions that JSON has tells which function made a node (graph_json_ops.c).
 *
 * Nodes are collected in memory, and weights go to the file one by one. The length of a message
 * stands before it, so it is counted first.
 */
#include <string.h>

#include "data/onnx_export.h"

enum { IR_VERSION = 9, OPSET = 20, CHUNK = 1 << 12 };

static const yki_onnx_export_row *const tables[] = {
    yki_onnx_export_layers, yki_onnx_export_elements, yki_onnx_export_sequences};

/* ---- what the outputs need ---- */

/* The result of a node has the name of the output that it is, or else of the node. */
static const char *
choose_name(yki_onnx_exporter *ex, const yoke_node *n)
{
    for (size_t i = 0; n->op && n->op != &yki_op_dropout && i < ex->graph->output_count; i++)
        if (ex->graph->outputs[i].node == n)
            return ex->graph->outputs[i].name;
    return yki_onnx_is_output(ex->graph, n->name) ? yki_onnx_new_name(ex) : n->name;
}

/* The states of a batch norm are read in evaluation, in place of its statistics. */
static void
mark(yki_onnx_exporter *ex)
{
    for (size_t i = 0; i < ex->graph->output_count; i++)
        ex->needed[ex->graph->outputs[i].node->id] = true;
    for (size_t i = yki_graph_own_count(ex->graph); i-- > 0;)
        for (uint32_t k = 0; ex->needed[i] && k < ex->graph->nodes[i]->input_count; k++)
            ex->needed[ex->graph->nodes[i]->inputs[k]->id] = true;
}

static yoke_status
write_node(yki_onnx_exporter *ex, const yoke_node *n)
{
    const char *in[YKI_MAX_INPUTS];
    yki_json_options options;
    const yki_json_op *op;
    uint32_t count;

    YKI_TRY(yki_json_of_node(n, &op, &options, &count));
    if (!op || !n->op)
        return YOKE_OK;
    for (uint32_t i = 0; i < count; i++)
        in[i] = yki_onnx_name(ex, n->inputs[i]);
    for (size_t t = 0; t < YKI_COUNT(tables); t++)
        for (const yki_onnx_export_row *row = tables[t]; row->function; row++)
            if (strcmp(row->function, op->name) == 0)
                return row->write(ex, n, &options, in, ex->names[n->id]);
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "\"%s\" is a %s, which yoke does not write for ONNX (yoke-files(7))", n->name,
                    op->name);
}

static yoke_status
write_nodes(yki_onnx_exporter *ex)
{
    for (size_t i = 0; i < yki_graph_own_count(ex->graph); i++) {
        const yoke_node *n = ex->graph->nodes[i];

        if (!ex->needed[i] || n->role == YKI_ROLE_INPUT)
            continue;
        if (n->op == &yki_op_dropout) /* in evaluation it does nothing */
            ex->names[i] = ex->names[n->inputs[0]->id];
        else
            YKI_TRY(write_node(ex, n));
    }
    for (size_t i = 0; i < ex->graph->output_count; i++) {
        const struct yki_output *output = &ex->graph->outputs[i];
        const char *name = yki_onnx_name(ex, output->node);

        if (strcmp(name, output->name) != 0)
            yki_onnx_emit(ex, "Identity", output->name, name, NULL);
    }
    return YOKE_OK;
}

/* ---- inputs and outputs ---- */

enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

static void
put_dim(yki_wire_out *shape, int64_t size, const char *name)
{
    yki_wire_out dim = {0};

    if (name)
        yki_wire_put_text(&dim, DIM_NAME, name);
    else
        yki_wire_put_int(&dim, DIM_VALUE, size);
    yki_wire_put_message(shape, SHAPE_DIM, &dim);
}

/* Describes a value with these axes behind the batch. */
static void
put_value(yki_wire_out *graph, uint32_t number, const char *name, yki_onnx_type type,
          const yoke_node *n, yoke_shape axes)
{
    yki_wire_out value = {0}, kind = {0}, tensor = {0}, shape = {0};

    if (n->batched)
        put_dim(&shape, 0, "N");
    if (n->batched && n->length)
        put_dim(&shape, 0, "T");
    for (int32_t i = 0; i < axes.rank; i++)
        put_dim(&shape, axes.dim[i], NULL);
    yki_wire_put_int(&tensor, TYPE_ELEMENT, type);
    yki_wire_put_message(&tensor, TYPE_SHAPE, &shape);
    yki_wire_put_message(&kind, TYPE_TENSOR, &tensor);
    yki_wire_put_text(&value, VALUE_NAME, name);
    yki_wire_put_message(&value, VALUE_TYPE, &kind);
    yki_wire_put_message(graph, number, &value);
}

/* (x - mean) * scale of the data; a number for all, or one for each index of the first axis. */
static const char *
write_scaling(yki_onnx_exporter *ex, const yki_model_input *info, const char *x)
{
    const struct yki_scaling *s = &info->scaling;
    yoke_shape shape = yoke_shape();

    if (s->count > 1) {
        shape.rank = info->field.shape.rank;
        for (int32_t i = 0; i < shape.rank; i++)
            shape.dim[i] = i ? 1 : (int64_t)s->count;
    }
    x = yki_onnx_emit(ex, "Sub", NULL, x, yki_onnx_floats(ex, s->mean, shape.rank, shape.dim),
                      NULL);
    return yki_onnx_emit(ex, "Mul", NULL, x, yki_onnx_floats(ex, s->scale, shape.rank, shape.dim),
                         NULL);
}

/* The data as the model takes them, which are then scaled. */
static void
write_data(yki_onnx_exporter *ex, const yki_model_input *info, const yoke_node *n)
{
    const bool bytes = info->field.type == YOKE_U8;
    const yoke_shape *has = &info->field.shape;
    int64_t dim[YOKE_MAX_RANK + 1] = {-1};
    const char *x = n->name;

    put_value(&ex->nodes, GRAPH_INPUT, x, bytes ? YKI_ONNX_U8 : YKI_ONNX_F32, n,
              n->length ? n->shape : *has);
    if (bytes) {
        yki_onnx_attr_int(ex, "to", YKI_ONNX_F32);
        x = yki_onnx_emit(ex, "Cast", NULL, x, NULL);
    }
    if (info->scaling.count)
        x = write_scaling(ex, info, x);
    else if (bytes)
        x = yki_onnx_emit(ex, "Mul", NULL, x, yki_onnx_number(ex, 1 / 255.f), NULL);
    if (!n->length && !yki_shape_equal(*has, n->shape)) {
        memcpy(dim + 1, n->shape.dim, sizeof n->shape.dim);
        x = yki_onnx_emit(ex, "Reshape", NULL, x, yki_onnx_ints(ex, dim, (size_t)n->shape.rank + 1),
                          NULL);
    }
    ex->names[n->id] = x;
}

static yoke_status
write_inputs(yki_onnx_exporter *ex, const yki_model_info *info)
{
    for (size_t i = 0; i < yki_graph_own_count(ex->graph); i++) {
        const yoke_node *n = ex->graph->nodes[i];
        yki_model_input data;

        if (!ex->needed[i] || n->role != YKI_ROLE_INPUT)
            continue;
        if (n->type == YOKE_U8)
            return yki_onnx_cannot(n, "takes bytes that nothing scales");
        if (yki_onnx_is_output(ex->graph, n->name))
            return yki_onnx_cannot(n, "is the name of an input and of an output");
        if (n->type == YOKE_F32 && yki_model_info_find(info, n->name, &data))
            write_data(ex, &data, n);
        else
            put_value(&ex->nodes, GRAPH_INPUT, n->name,
                      n->type == YOKE_I32 ? YKI_ONNX_I64 : YKI_ONNX_F32, n, n->shape);
    }
    for (size_t i = 0; i < ex->graph->output_count; i++)
        put_value(&ex->nodes, GRAPH_OUTPUT, ex->graph->outputs[i].name, YKI_ONNX_F32,
                  ex->graph->outputs[i].node, ex->graph->outputs[i].node->shape);
    return YOKE_OK;
}

/* ---- the file ---- */

enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_TENSOR = 5, TENSOR_RAW = 9 };

typedef struct file {
    yki_replace *replace;
    yki_onnx_exporter *ex;
    yoke_status (*get)(void *user, const yoke_node *node, float *values);
    void *user;
} file;

static uint64_t
bytes_of(const yoke_node *n)
{
    return (uint64_t)yki_shape_count(n->shape) * sizeof(float);
}

/* What stands before the numbers of a weight. */
static yki_wire_out
tensor_head(const yki_onnx_exporter *ex, const yoke_node *n)
{
    yki_wire_out head = {0}, tensor = yki_onnx_start_tensor(ex->names[n->id], YKI_ONNX_F32,
                                                            n->shape.rank, n->shape.dim);

    yki_wire_put_start(&tensor, TENSOR_RAW, bytes_of(n));
    yki_wire_put_start(&head, GRAPH_TENSOR, tensor.size + bytes_of(n));
    yki_wire_put_raw(&head, tensor.data, tensor.size);
    head.failed |= tensor.failed;
    yki_wire_clear(&tensor);
    return head;
}

static bool
is_written(const yki_onnx_exporter *ex, size_t index)
{
    const yoke_node *n = ex->graph->nodes[index];

    return ex->written[index] && (yki_is_weight(n) || yki_is_constant(n));
}

static yoke_status
count_bytes(const yki_onnx_exporter *ex, uint64_t *size)
{
    bool failed = false;

    *size = ex->nodes.size;
    for (size_t i = 0; i < yki_graph_own_count(ex->graph); i++)
        if (is_written(ex, i)) {
            yki_wire_out head = tensor_head(ex, ex->graph->nodes[i]);

            failed |= head.failed;
            *size += head.size + bytes_of(ex->graph->nodes[i]);
            yki_wire_clear(&head);
        }
    if (failed)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (*size > INT32_MAX - CHUNK)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the model has %llu bytes; a file of ONNX has at most 2147483647",
                        (unsigned long long)*size);
    return YOKE_OK;
}

static yoke_status
write_values(const file *f, const float *values, int64_t count)
{
    unsigned char bytes[4 * CHUNK];

    for (int64_t i = 0; i < count; i += CHUNK) {
        const int64_t some = YKI_MIN(count - i, (int64_t)CHUNK);

        for (int64_t k = 0; k < some; k++) {
            uint32_t word;

            memcpy(&word, &values[i + k], sizeof word);
            for (unsigned b = 0; b < 4; b++)
                bytes[4 * k + b] = (unsigned char)(word >> 8 * b);
        }
        YKI_TRY(yki_replace_write(f->replace, bytes, (size_t)some * 4));
    }
    return YOKE_OK;
}

static yoke_status
write_weight(const file *f, const yoke_node *n)
{
    const int64_t count = yki_shape_count(n->shape);
    float *values = yki_alloc((size_t)count, sizeof *values, n->name);
    yki_wire_out head = tensor_head(f->ex, n);
    yoke_status status =
        values && !head.failed ? f->get(f->user, n, values) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        status = yki_replace_write(f->replace, head.data, head.size);
    if (status == YOKE_OK)
        status = write_values(f, values, count);
    yki_wire_clear(&head);
    yki_free(values);
    return status;
}

static yoke_status
write_file(const file *f)
{
    yki_wire_out model = {0}, opset = {0};
    uint64_t size;
    yoke_status status;

    YKI_TRY(count_bytes(f->ex, &size));
    yki_wire_put_int(&model, MODEL_IR, IR_VERSION);
    yki_wire_put_text(&model, MODEL_PRODUCER, "yoke");
    yki_wire_put_text(&opset, 1, "");
    yki_wire_put_int(&opset, OPSET_VERSION, OPSET);
    yki_wire_put_message(&model, MODEL_OPSET, &opset);
    yki_wire_put_start(&model, MODEL_GRAPH, size);
    status = model.failed ? YOKE_ERROR_OUT_OF_MEMORY
                          : yki_replace_write(f->replace, model.data, model.size);
    yki_wire_clear(&model);
    if (status == YOKE_OK)
        status = yki_replace_write(f->replace, f->ex->nodes.data, f->ex->nodes.size);
    for (size_t i = 0; status == YOKE_OK && i < yki_graph_own_count(f->ex->graph); i++)
        if (is_written(f->ex, i))
            status = write_weight(f, f->ex->graph->nodes[i]);
    return status;
}

/* ---- all of it ---- */

static yoke_status
build(yki_onnx_exporter *ex, const yki_model_info *info)
{
    const size_t count = ex->graph->node_count;

    ex->names = yki_onnx_keep(&ex->names_memory, count, sizeof *ex->names);
    ex->needed = yki_onnx_keep(&ex->names_memory, count, sizeof *ex->needed);
    ex->written = yki_onnx_keep(&ex->names_memory, count, sizeof *ex->written);
    if (!ex->names || !ex->needed || !ex->written)
        return YOKE_ERROR_OUT_OF_MEMORY;
    mark(ex);
    for (size_t i = 0; i < count; i++)
        ex->names[i] = choose_name(ex, ex->graph->nodes[i]);
    yki_wire_put_text(&ex->nodes, GRAPH_NAME, "yoke");
    YKI_TRY(write_inputs(ex, info));
    YKI_TRY(write_nodes(ex));
    return ex->failed || ex->nodes.failed ? YOKE_ERROR_OUT_OF_MEMORY : YOKE_OK;
}

yoke_status
yki_onnx_export(const char *path, const yoke_graph *graph, const yki_model_info *info,
                yoke_status (*get)(void *, const yoke_node *, float *), void *user)
{
    yki_onnx_exporter ex = {.graph = graph};
    file f = {.ex = &ex, .get = get, .user = user};
    yoke_status status;

    if (graph->output_count == 0)
        return yki_fail(YOKE_ERROR_STATE,
                        "the model has no output; call yoke_graph_set_output before");
    status = build(&ex, info);
    if (status == YOKE_OK)
        status = yki_replace_begin(path, &f.replace);
    if (status == YOKE_OK) {
        status = write_file(&f);
        if (status == YOKE_OK)
            status = yki_replace_commit(f.replace);
        else
            yki_replace_drop(f.replace);
    }
    yki_wire_clear(&ex.nodes);
    yki_wire_clear(&ex.attrs);
    yki_onnx_clear(&ex.names_memory);
    return status;
}
