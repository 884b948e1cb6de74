/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_exporter.c - adds nodes of ONNX, with attributes and constants, to a graph that is being
 * written.
 */
#include <stdio.h>
#include <string.h>

#include "data/onnx_export.h"

enum { MOST_PARTS = 8 };

/* ---- names ---- */

int
yki_onnx_lead(const yoke_node *n)
{
    return n->batched ? (n->length ? 2 : 1) : 0;
}

const char *
yki_onnx_name(yki_onnx_exporter *ex, const yoke_node *n)
{
    ex->written[n->id] = true;
    return ex->names[n->id];
}

bool
yki_onnx_is_output(const yoke_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0)
            return true;
    return false;
}

const char *
yki_onnx_new_name(yki_onnx_exporter *ex)
{
    enum { ROOM = 24 };
    char *name = yki_onnx_keep(&ex->names_memory, ROOM, 1);

    if (!name) {
        ex->failed = true;
        return "";
    }
    do
        snprintf(name, ROOM, "value%u", ++ex->made);
    while (yoke_graph_get_node(ex->graph, name) || yki_onnx_is_output(ex->graph, name));
    return name;
}

/* ---- attributes ---- */

enum {
    ATTR_NAME = 1,
    ATTR_F = 2,
    ATTR_I = 3,
    ATTR_S = 4,
    ATTR_T = 5,
    ATTR_INTS = 8,
    ATTR_KIND = 20
};
enum { KIND_F = 1, KIND_I = 2, KIND_S = 3, KIND_T = 4, KIND_INTS = 7, NODE_ATTR = 5 };

static yki_wire_out
start_attr(const char *name, int64_t kind)
{
    yki_wire_out attr = {0};

    yki_wire_put_text(&attr, ATTR_NAME, name);
    yki_wire_put_int(&attr, ATTR_KIND, kind);
    return attr;
}

void
yki_onnx_attr_int(yki_onnx_exporter *ex, const char *name, int64_t value)
{
    yki_wire_out attr = start_attr(name, KIND_I);

    yki_wire_put_int(&attr, ATTR_I, value);
    yki_wire_put_message(&ex->attrs, NODE_ATTR, &attr);
}

void
yki_onnx_attr_ints(yki_onnx_exporter *ex, const char *name, const int64_t *values, size_t n)
{
    yki_wire_out attr = start_attr(name, KIND_INTS);

    for (size_t i = 0; i < n; i++)
        yki_wire_put_int(&attr, ATTR_INTS, values[i]);
    yki_wire_put_message(&ex->attrs, NODE_ATTR, &attr);
}

void
yki_onnx_attr_float(yki_onnx_exporter *ex, const char *name, float value)
{
    yki_wire_out attr = start_attr(name, KIND_F);

    yki_wire_put_float(&attr, ATTR_F, value);
    yki_wire_put_message(&ex->attrs, NODE_ATTR, &attr);
}

void
yki_onnx_attr_text(yki_onnx_exporter *ex, const char *name, const char *text)
{
    yki_wire_out attr = start_attr(name, KIND_S);

    yki_wire_put_text(&attr, ATTR_S, text);
    yki_wire_put_message(&ex->attrs, NODE_ATTR, &attr);
}

/* ---- nodes ---- */

enum { GRAPH_NODE = 1, NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4 };

const char *
yki_onnx_emit_list(yki_onnx_exporter *ex, const char *op, const char *out, const char *const *in,
                   size_t count)
{
    yki_wire_out node = {0};

    out = out ? out : yki_onnx_new_name(ex);
    for (size_t i = 0; i < count; i++)
        yki_wire_put_text(&node, NODE_INPUT, in[i]);
    yki_wire_put_text(&node, NODE_OUTPUT, out);
    yki_wire_put_text(&node, NODE_NAME, out);
    yki_wire_put_text(&node, NODE_OP, op);
    /* Each attribute is a field of the node already. */
    yki_wire_put_raw(&node, ex->attrs.data, ex->attrs.size);
    node.failed |= ex->attrs.failed;
    yki_wire_clear(&ex->attrs);
    yki_wire_put_message(&ex->nodes, GRAPH_NODE, &node);
    return out;
}

const char *
yki_onnx_emit(yki_onnx_exporter *ex, const char *op, const char *out, ...)
{
    const char *in[MOST_PARTS], *next;
    size_t count = 0;
    va_list arguments;

    va_start(arguments, out);
    while ((next = va_arg(arguments, const char *)) != NULL && count < MOST_PARTS)
        in[count++] = next;
    va_end(arguments);
    return yki_onnx_emit_list(ex, op, out, in, count);
}

/* ---- constants ---- */

enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_FLOATS = 4, TENSOR_INTS = 7, TENSOR_NAME = 8 };

yki_wire_out
yki_onnx_start_tensor(const char *name, yki_onnx_type type, int32_t rank, const int64_t *dim)
{
    yki_wire_out tensor = {0};

    for (int32_t i = 0; i < rank; i++)
        yki_wire_put_int(&tensor, TENSOR_DIMS, dim[i]);
    yki_wire_put_int(&tensor, TENSOR_TYPE, type);
    if (name)
        yki_wire_put_text(&tensor, TENSOR_NAME, name);
    return tensor;
}

static const char *
constant(yki_onnx_exporter *ex, yki_wire_out *tensor)
{
    yki_wire_out attr = start_attr("value", KIND_T);

    yki_wire_put_message(&attr, ATTR_T, tensor);
    yki_wire_put_message(&ex->attrs, NODE_ATTR, &attr);
    return yki_onnx_emit_list(ex, "Constant", NULL, NULL, 0);
}

const char *
yki_onnx_ints(yki_onnx_exporter *ex, const int64_t *values, size_t count)
{
    const int64_t dim = (int64_t)count;
    yki_wire_out tensor = yki_onnx_start_tensor(NULL, YKI_ONNX_I64, 1, &dim);

    for (size_t i = 0; i < count; i++)
        yki_wire_put_int(&tensor, TENSOR_INTS, values[i]);
    return constant(ex, &tensor);
}

const char *
yki_onnx_floats(yki_onnx_exporter *ex, const float *values, int32_t rank, const int64_t *dim)
{
    yki_wire_out tensor = yki_onnx_start_tensor(NULL, YKI_ONNX_F32, rank, dim);
    int64_t count = 1;

    for (int32_t i = 0; i < rank; i++)
        count *= dim[i];
    for (int64_t i = 0; i < count; i++)
        yki_wire_put_float(&tensor, TENSOR_FLOATS, values[i]);
    return constant(ex, &tensor);
}

const char *
yki_onnx_number(yki_onnx_exporter *ex, float value)
{
    return yki_onnx_floats(ex, &value, 0, NULL);
}

const char *
yki_onnx_rows(yki_onnx_exporter *ex, const yoke_node *x)
{
    const char *name;

    if (x->length && ex->length)
        return ex->length;
    yki_onnx_attr_int(ex, "start", 1);
    yki_onnx_attr_int(ex, "end", 2);
    name = yki_onnx_emit(ex, "Shape", NULL, yki_onnx_name(ex, x), NULL);
    if (x->length)
        ex->length = name;
    return name;
}

yoke_status
yki_onnx_cannot(const yoke_node *n, const char *why)
{
    return yki_fail(YOKE_ERROR_UNSUPPORTED, "\"%s\" %s, so the model cannot be written for ONNX",
                    n->name, why);
}
