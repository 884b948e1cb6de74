/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_read.c - reads the messages of a model: its graph with nodes, initializers, inputs and
 * outputs. Numbers of tensors stay in the file (onnx_tensor.c).
 *
 * Each list is counted before memory is taken for it, so a file cannot ask for more than it has
 * entries. Unknown fields are skipped, as the format wants it.
 */
#include <string.h>

#include "data/files.h"
#include "data/onnx.h"
#include "data/tokenizer.h"

enum { MOST_BYTES = INT32_MAX, MOST_ENTRIES = 1 << 20, BLOCK = 1 << 14 };

/* Numbers of fields. */
enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_FUNCTIONS = 25 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum {
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE = 15
};
enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTR = 5,
    NODE_DOMAIN = 7
};
enum {
    ATTR_NAME = 1,
    ATTR_FLOAT = 2,
    ATTR_INT = 3,
    ATTR_TEXT = 4,
    ATTR_TENSOR = 5,
    ATTR_FLOATS = 7,
    ATTR_INTS = 8,
    ATTR_TYPE = 20
};
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_EXTERNAL = 13,
    TENSOR_PLACE = 14
};
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

/* ---- memory ---- */

struct yki_onnx_block {
    struct yki_onnx_block *next;
    size_t used, size;
    max_align_t data[];
};

void *
yki_onnx_keep(yki_onnx *m, size_t count, size_t size)
{
    const size_t unit = sizeof(max_align_t);
    struct yki_onnx_block *block = m->blocks;
    size_t bytes;

    if (size && count > (SIZE_MAX / 2 - sizeof *block) / size) {
        yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for a model of ONNX");
        return NULL;
    }
    bytes = (count * size + unit) / unit * unit; /* never none */
    if (!block || bytes > block->size - block->used) {
        const size_t room = YKI_MAX(bytes, (size_t)BLOCK);

        block = yki_alloc(1, sizeof *block + room, "a model of ONNX");
        if (!block)
            return NULL;
        block->size = room;
        block->next = m->blocks;
        m->blocks = block;
    }
    block->used += bytes;
    return (unsigned char *)block->data + (block->used - bytes);
}

void
yki_onnx_clear(yki_onnx *m)
{
    while (m->blocks) {
        struct yki_onnx_block *next = m->blocks->next;

        yki_free(m->blocks);
        m->blocks = next;
    }
    yki_free(m->data);
    memset(m, 0, sizeof *m);
}

/* ---- fields ---- */

static yoke_status
bad(const yki_onnx *m, const char *what, const char *why)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: %s %s", m->path, what, why);
}

static yoke_status
next(const yki_onnx *m, const char *what, yki_wire_span *message, yki_wire_field *field)
{
    return yki_wire_next(message, field)
               ? YOKE_OK
               : bad(m, what, "has a field that does not end inside it; get the whole file");
}

/* Counts the fields of a number that hold bytes. */
static yoke_status
count_fields(const yki_onnx *m, const char *what, yki_wire_span message, uint32_t number,
             size_t *count)
{
    yki_wire_field field;

    *count = 0;
    while (message.size) {
        YKI_TRY(next(m, what, &message, &field));
        *count += field.number == number && field.wire == YKI_WIRE_BYTES;
    }
    return *count <= MOST_ENTRIES ? YOKE_OK : bad(m, what, "has more than 1048576 entries");
}

/* Makes a list for all fields of this number. */
static yoke_status
make_list(yki_onnx *m, const char *what, yki_wire_span message, uint32_t number, size_t size,
          void **list)
{
    size_t count;

    YKI_TRY(count_fields(m, what, message, number, &count));
    *list = yki_onnx_keep(m, count, size);
    return *list ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

/* Copies a text, which must be UTF-8 without zeros. */
static yoke_status
get_text(yki_onnx *m, const char *what, const yki_wire_field *field, const char **out)
{
    char *text;
    int32_t code;

    if (field->wire != YKI_WIRE_BYTES)
        return bad(m, what, "has a number where a text must be");
    for (size_t i = 0; i < field->bytes.size;) {
        i += yki_utf8_next(field->bytes.at + i, field->bytes.size - i, &code);
        if (code <= 0)
            return bad(m, what, "has a text that is no UTF-8; must be");
    }
    text = yki_onnx_keep(m, field->bytes.size + 1, 1);
    if (!text)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (field->bytes.size)
        memcpy(text, field->bytes.at, field->bytes.size);
    *out = text;
    return YOKE_OK;
}

static yoke_status
get_message(const yki_onnx *m, const char *what, const yki_wire_field *field, yki_wire_span *out)
{
    if (field->wire != YKI_WIRE_BYTES)
        return bad(m, what, "has a number where a message must be");
    *out = field->bytes;
    return YOKE_OK;
}

/* Whole numbers of one field, which may be packed; adds them behind the *count that are there. */
static yoke_status
add_ints(const yki_onnx *m, const char *what, const yki_wire_field *field, int64_t *list,
         size_t room, size_t *count)
{
    yki_wire_span packed = field->bytes;
    uint64_t value = field->value;
    bool more = true;

    if (field->wire == YKI_WIRE_BYTES)
        more = packed.size > 0;
    while (more) {
        if (field->wire == YKI_WIRE_BYTES && !yki_wire_varint(&packed, &value))
            return bad(m, what, "has a list of numbers that does not end");
        if (*count == room)
            return bad(m, what, "has too many numbers in a list");
        list[(*count)++] = (int64_t)value;
        more = packed.size > 0;
    }
    return YOKE_OK;
}

/* ---- tensors ---- */

static yoke_status
read_external(yki_onnx *m, const yki_wire_span *entry, yki_onnx_tensor *t)
{
    const char *key = "", *text = "";
    yki_wire_span message = *entry;
    yki_wire_field field;
    uint64_t number = 0;
    size_t digits;

    while (message.size) {
        YKI_TRY(next(m, "external data", &message, &field));
        if (field.number == ENTRY_KEY)
            YKI_TRY(get_text(m, "external data", &field, &key));
        else if (field.number == ENTRY_VALUE)
            YKI_TRY(get_text(m, "external data", &field, &text));
    }
    if (strcmp(key, "location") == 0)
        t->location = text;
    if (strcmp(key, "offset") != 0 && strcmp(key, "length") != 0)
        return YOKE_OK;
    digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits])
        return bad(m, "external data", "has an offset or a length that is no number");
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (uint64_t)(text[i] - '0');
    if (*key == 'o')
        t->offset = number;
    else
        t->length = number;
    t->has_length |= *key == 'l';
    return YOKE_OK;
}

static yoke_status
count_elements(const yki_onnx *m, yki_onnx_tensor *t, size_t rank)
{
    t->rank = (int32_t)rank;
    t->count = 1;
    for (size_t i = 0; i < rank; i++) {
        if (t->dim[i] < 0 || (t->dim[i] && t->count > INT64_MAX / 8 / t->dim[i]))
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: the tensor \"%s\" has the size %lld in axis %zu", m->path, t->name,
                            (long long)t->dim[i], i);
        t->count *= t->dim[i];
    }
    return YOKE_OK;
}

static yoke_status
read_tensor(yki_onnx *m, yki_wire_span message, yki_onnx_tensor *t)
{
    const char *const what = "a tensor";
    yki_wire_field field;
    size_t rank = 0;

    t->message = message;
    t->name = "";
    while (message.size) {
        YKI_TRY(next(m, what, &message, &field));
        switch (field.number) {
        case TENSOR_DIMS:
            YKI_TRY(add_ints(m, what, &field, t->dim, YKI_ONNX_RANK, &rank));
            break;
        case TENSOR_TYPE:
            t->type = (int32_t)field.value;
            break;
        case TENSOR_NAME:
            YKI_TRY(get_text(m, what, &field, &t->name));
            break;
        case TENSOR_RAW:
            YKI_TRY(get_message(m, what, &field, &t->raw));
            t->is_raw = true;
            break;
        case TENSOR_EXTERNAL:
            YKI_TRY(get_message(m, what, &field, &field.bytes));
            YKI_TRY(read_external(m, &field.bytes, t));
            break;
        case TENSOR_PLACE:
            t->is_external = field.value == 1;
            break;
        default:
            break;
        }
    }
    return count_elements(m, t, rank);
}

/* ---- nodes ---- */

static yoke_status
read_lists(yki_onnx *m, yki_wire_span message, yki_onnx_attr *a)
{
    const char *const what = "an attribute";
    const size_t most = message.size; /* each number takes a byte at least */
    yki_wire_field field;
    size_t floats = 0;

    a->ints = yki_onnx_keep(m, most, sizeof *a->ints);
    a->floats = yki_onnx_keep(m, most / 4 + 1, sizeof *a->floats);
    if (!a->ints || !a->floats)
        return YOKE_ERROR_OUT_OF_MEMORY;
    while (message.size) {
        YKI_TRY(next(m, what, &message, &field));
        if (field.number == ATTR_INTS) {
            YKI_TRY(add_ints(m, what, &field, a->ints, most, &a->count));
        } else if (field.number == ATTR_FLOATS) {
            const size_t bytes = field.bytes.size;

            if (bytes % 4 || !field.bytes.at)
                return bad(m, what, "has a list of floats that does not end");
            for (size_t i = 0; i < bytes; i += 4) {
                const uint32_t word = (uint32_t)yki_little_endian(field.bytes.at + i, 4);

                memcpy(&a->floats[floats++], &word, sizeof word);
            }
        }
    }
    if (a->type == ATTR_FLOATS - 1) /* the type FLOATS is 6 */
        a->count = floats;
    return YOKE_OK;
}

static yoke_status
read_attr_field(yki_onnx *m, const yki_wire_field *field, yki_onnx_attr *a)
{
    const char *const what = "an attribute";
    const uint32_t word = (uint32_t)field->value;
    yki_wire_span message;

    switch (field->number) {
    case ATTR_NAME:
        return get_text(m, what, field, &a->name);
    case ATTR_FLOAT:
        memcpy(&a->f, &word, sizeof word);
        return YOKE_OK;
    case ATTR_INT:
        a->i = (int64_t)field->value;
        return YOKE_OK;
    case ATTR_TEXT:
        return get_text(m, what, field, &a->text);
    case ATTR_TENSOR:
        YKI_TRY(get_message(m, what, field, &message));
        a->tensor = yki_onnx_keep(m, 1, sizeof *a->tensor);
        return a->tensor ? read_tensor(m, message, a->tensor) : YOKE_ERROR_OUT_OF_MEMORY;
    case ATTR_TYPE:
        a->type = (int32_t)field->value;
        return YOKE_OK;
    default:
        return YOKE_OK;
    }
}

static yoke_status
read_attr(yki_onnx *m, yki_wire_span message, yki_onnx_attr *a)
{
    yki_wire_span rest = message;
    yki_wire_field field;

    a->name = a->text = "";
    while (rest.size) {
        YKI_TRY(next(m, "an attribute", &rest, &field));
        YKI_TRY(read_attr_field(m, &field, a));
    }
    return a->type == 6 || a->type == 7 ? read_lists(m, message, a) : YOKE_OK;
}

static yoke_status
read_node(yki_onnx *m, yki_wire_span message, yki_onnx_node *n)
{
    const char *const what = "a node";
    yki_wire_span rest = message;
    yki_wire_field field;
    void *lists[3];

    YKI_TRY(make_list(m, what, message, NODE_INPUT, sizeof *n->inputs, &lists[0]));
    YKI_TRY(make_list(m, what, message, NODE_OUTPUT, sizeof *n->outputs, &lists[1]));
    YKI_TRY(make_list(m, what, message, NODE_ATTR, sizeof *n->attrs, &lists[2]));
    n->inputs = lists[0];
    n->outputs = lists[1];
    n->attrs = lists[2];
    n->name = n->op = n->domain = "";
    while (rest.size) {
        YKI_TRY(next(m, what, &rest, &field));
        if (field.number == NODE_INPUT)
            YKI_TRY(get_text(m, what, &field, &n->inputs[n->input_count++]));
        else if (field.number == NODE_OUTPUT)
            YKI_TRY(get_text(m, what, &field, &n->outputs[n->output_count++]));
        else if (field.number == NODE_NAME)
            YKI_TRY(get_text(m, what, &field, &n->name));
        else if (field.number == NODE_OP)
            YKI_TRY(get_text(m, what, &field, &n->op));
        else if (field.number == NODE_DOMAIN)
            YKI_TRY(get_text(m, what, &field, &n->domain));
        else if (field.number == NODE_ATTR && field.wire == YKI_WIRE_BYTES)
            YKI_TRY(read_attr(m, field.bytes, &n->attrs[n->attr_count++]));
    }
    return YOKE_OK;
}

/* ---- inputs and outputs ---- */

static yoke_status
read_dim(yki_onnx *m, yki_wire_span message, yki_onnx_value *v)
{
    const int32_t axis = v->rank;
    yki_wire_field field;

    if (axis == YKI_ONNX_RANK)
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s: \"%s\" has more than %d axes", m->path,
                        v->name, YKI_ONNX_RANK);
    v->rank++;
    v->dim[axis] = -1;
    v->dim_name[axis] = "?";
    while (message.size) {
        YKI_TRY(next(m, "a size", &message, &field));
        if (field.number == DIM_VALUE && field.wire == YKI_WIRE_VARINT)
            v->dim[axis] = field.value > 0 && field.value <= INT64_MAX ? (int64_t)field.value : -1;
        else if (field.number == DIM_NAME)
            YKI_TRY(get_text(m, "a size", &field, &v->dim_name[axis]));
    }
    return YOKE_OK;
}

static yoke_status
read_shape(yki_onnx *m, yki_wire_span message, yki_onnx_value *v)
{
    yki_wire_field field;

    v->has_shape = true;
    while (message.size) {
        YKI_TRY(next(m, "a shape", &message, &field));
        if (field.number == SHAPE_DIM && field.wire == YKI_WIRE_BYTES)
            YKI_TRY(read_dim(m, field.bytes, v));
    }
    return YOKE_OK;
}

static yoke_status
read_type(yki_onnx *m, yki_wire_span message, yki_onnx_value *v)
{
    yki_wire_field field, inner;
    yki_wire_span tensor;

    while (message.size) {
        YKI_TRY(next(m, "a type", &message, &field));
        if (field.number != TYPE_TENSOR)
            continue;
        YKI_TRY(get_message(m, "a type", &field, &tensor));
        while (tensor.size) {
            YKI_TRY(next(m, "a type", &tensor, &inner));
            if (inner.number == TYPE_ELEMENT)
                v->type = (int32_t)inner.value;
            else if (inner.number == TYPE_SHAPE && inner.wire == YKI_WIRE_BYTES)
                YKI_TRY(read_shape(m, inner.bytes, v));
        }
    }
    return YOKE_OK;
}

static yoke_status
read_value(yki_onnx *m, yki_wire_span message, yki_onnx_value *v)
{
    yki_wire_field field;
    yki_wire_span type = {NULL, 0};

    v->name = "";
    while (message.size) {
        YKI_TRY(next(m, "an input or output", &message, &field));
        if (field.number == VALUE_NAME)
            YKI_TRY(get_text(m, "an input or output", &field, &v->name));
        else if (field.number == VALUE_TYPE)
            YKI_TRY(get_message(m, "an input or output", &field, &type));
    }
    return read_type(m, type, v);
}

/* ---- the graph ---- */

static yoke_status
make_lists(yki_onnx *m, yki_wire_span message)
{
    const char *const what = "the graph";
    void *lists[4];

    YKI_TRY(make_list(m, what, message, GRAPH_NODE, sizeof *m->nodes, &lists[0]));
    YKI_TRY(make_list(m, what, message, GRAPH_INITIALIZER, sizeof *m->tensors, &lists[1]));
    YKI_TRY(make_list(m, what, message, GRAPH_INPUT, sizeof *m->inputs, &lists[2]));
    YKI_TRY(make_list(m, what, message, GRAPH_OUTPUT, sizeof *m->outputs, &lists[3]));
    m->nodes = lists[0];
    m->tensors = lists[1];
    m->inputs = lists[2];
    m->outputs = lists[3];
    return YOKE_OK;
}

static yoke_status
read_graph(yki_onnx *m, yki_wire_span message)
{
    yki_wire_field field;

    YKI_TRY(make_lists(m, message));
    while (message.size) {
        YKI_TRY(next(m, "the graph", &message, &field));
        if (field.wire != YKI_WIRE_BYTES)
            continue;
        if (field.number == GRAPH_NODE)
            YKI_TRY(read_node(m, field.bytes, &m->nodes[m->node_count++]));
        else if (field.number == GRAPH_INITIALIZER)
            YKI_TRY(read_tensor(m, field.bytes, &m->tensors[m->tensor_count++]));
        else if (field.number == GRAPH_INPUT)
            YKI_TRY(read_value(m, field.bytes, &m->inputs[m->input_count++]));
        else if (field.number == GRAPH_OUTPUT)
            YKI_TRY(read_value(m, field.bytes, &m->outputs[m->output_count++]));
        else if (field.number == GRAPH_SPARSE)
            return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s has sparse weights; must be dense",
                            m->path);
    }
    return YOKE_OK;
}

static yoke_status
read_opset(yki_onnx *m, yki_wire_span message)
{
    const char *domain = "";
    yki_wire_field field;
    int64_t version = 0;

    while (message.size) {
        YKI_TRY(next(m, "an operator set", &message, &field));
        if (field.number == OPSET_DOMAIN)
            YKI_TRY(get_text(m, "an operator set", &field, &domain));
        else if (field.number == OPSET_VERSION)
            version = (int64_t)field.value;
    }
    if (!*domain || strcmp(domain, "ai.onnx") == 0)
        m->opset = version;
    return YOKE_OK;
}

static yoke_status
read_model(yki_onnx *m)
{
    yki_wire_span message = {m->data, m->size}, graph = {NULL, 0};
    yki_wire_field field;

    while (message.size) {
        if (!yki_wire_next(&message, &field))
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s is no model of ONNX, or ends in the middle; get the whole file",
                            m->path);
        if (field.number == MODEL_GRAPH)
            YKI_TRY(get_message(m, "the model", &field, &graph));
        else if (field.number == MODEL_OPSET && field.wire == YKI_WIRE_BYTES)
            YKI_TRY(read_opset(m, field.bytes));
        else if (field.number == MODEL_FUNCTIONS)
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "%s has functions of its own; must be exported with them inlined",
                            m->path);
    }
    if (!graph.size || !m->opset)
        return yki_fail(YOKE_ERROR_FORMAT, "%s has no %s; must be a model of ONNX", m->path,
                        graph.size ? "operator set" : "graph");
    if (m->opset < YKI_ONNX_LEAST_OPSET || m->opset > YKI_ONNX_MOST_OPSET)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s has operator set %lld; must be between %d and %d: export it with "
                        "opset_version=17, for example",
                        m->path, (long long)m->opset, YKI_ONNX_LEAST_OPSET, YKI_ONNX_MOST_OPSET);
    return read_graph(m, graph);
}

/* ---- files ---- */

static yoke_status
load(yki_bytes *bytes, yki_onnx *m)
{
    const uint64_t size = yki_bytes_stored_size(bytes);

    if (size > MOST_BYTES)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has %llu bytes; a model of ONNX has at most 2147483647, and further "
                        "weights in files beside it",
                        m->path, (unsigned long long)size);
    if (yki_bytes_compressed(bytes))
        return yki_fail(YOKE_ERROR_FORMAT, "%s is compressed by gzip; unpack it first", m->path);
    m->data = yki_alloc(1, (size_t)size + 1, "a model of ONNX");
    if (!m->data)
        return YOKE_ERROR_OUT_OF_MEMORY;
    m->size = (size_t)size;
    YKI_TRY(yki_bytes_read(bytes, 0, size, m->data));
    return read_model(m);
}

static yoke_status
read_bytes(yki_bytes *bytes, const char *name, yki_onnx *m)
{
    yoke_status status;

    m->path = name;
    status = load(bytes, m);
    yki_bytes_release(bytes);
    return status;
}

yoke_status
yki_onnx_open(const char *path, yki_onnx *m)
{
    yki_bytes *bytes;

    memset(m, 0, sizeof *m);
    YKI_TRY(yki_bytes_open(path, &bytes));
    return read_bytes(bytes, path, m);
}

yoke_status
yki_onnx_parse(const void *data, size_t size, const char *name, yki_onnx *m)
{
    yki_bytes *bytes;

    memset(m, 0, sizeof *m);
    YKI_TRY(yki_bytes_of_memory(data, size, name, &bytes));
    return read_bytes(bytes, name, m);
}
