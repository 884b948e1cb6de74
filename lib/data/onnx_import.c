/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_import.c - makes a graph of a model of ONNX, node by node in the order of the file, which
 * is one in which they can be computed: who reads a value that no earlier node makes is refused.
 */
#include <string.h>

#include "data/onnx_import.h"
#include "op/ops.h"

/* Elements of constants that a file without weights may compute: a mask of 4096 rows and columns.
 */
enum { ROOM = 1 << 25 };

static const yki_onnx_row *const tables[] = {yki_onnx_layers, yki_onnx_products,  yki_onnx_elements,
                                             yki_onnx_shapes, yki_onnx_constants, yki_onnx_masks};

/* ---- values ---- */

static yoke_status
add_item(yki_onnx_importer *im, const char *name, yki_onnx_item **out)
{
    uint32_t *slot = yki_onnx_slot(im, name);

    if (*slot)
        return yki_onnx_refuse(im, "another value is called \"%.200s\" too", name);
    *out = &im->items[im->count++];
    **out = (yki_onnx_item){.name = name, .label = name, .factor = 1};
    *slot = (uint32_t)im->count;
    return YOKE_OK;
}

static yoke_status
make_items(yki_onnx_importer *im)
{
    size_t count = im->model->tensor_count + im->model->input_count;

    for (size_t i = 0; i < im->model->node_count; i++)
        count += im->model->nodes[i].output_count;
    im->slot_count = 16;
    while (im->slot_count < 2 * count)
        im->slot_count *= 2;
    im->items = yki_onnx_keep(im->model, count, sizeof *im->items);
    im->slots = yki_onnx_keep(im->model, im->slot_count, sizeof *im->slots);
    return im->items && im->slots ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

static void
set_tensor(yki_onnx_item *item, const yki_onnx_tensor *t)
{
    item->kind = YKI_ONNX_CONSTANT;
    item->tensor = t;
    item->is_float = yki_onnx_is_float(t->type);
    item->rank = t->rank;
    memcpy(item->dim, t->dim, sizeof item->dim);
    item->count = t->count;
}

static yoke_status
add_tensors(yki_onnx_importer *im)
{
    yki_onnx_item *item;

    for (size_t i = 0; i < im->model->tensor_count; i++) {
        YKI_TRY(add_item(im, im->model->tensors[i].name, &item));
        set_tensor(item, &im->model->tensors[i]);
    }
    return YOKE_OK;
}

/* ---- inputs of the graph ---- */

static yoke_status
add_input(yki_onnx_importer *im, const yki_onnx_value *v)
{
    yki_onnx_item *item;
    yoke_shape shape = {0};
    const bool whole = v->type == YKI_ONNX_I32 || v->type == YKI_ONNX_I64;

    YKI_TRY(add_item(im, v->name, &item));
    if (!whole && v->type != YKI_ONNX_U8 && !yki_onnx_is_float(v->type))
        return yki_onnx_refuse(im,
                               "the input \"%s\" has type %s; must be float, uint8, int32 or "
                               "int64",
                               v->name, yki_onnx_type_name(v->type));
    if (!v->has_shape || v->rank == 0)
        return yki_onnx_refuse(im, "the input \"%s\" has no axes; must have the batch as its first",
                               v->name);
    if (im->batch >= 0 && v->dim[0] >= 0 && v->dim[0] != im->batch)
        return yki_onnx_refuse(im, "the input \"%s\" has a batch of %lld, and another one of %lld",
                               v->name, (long long)v->dim[0], (long long)im->batch);
    im->batch = v->dim[0] >= 0 ? v->dim[0] : im->batch;
    shape.rank = v->rank - 1;
    for (int32_t i = 1; i < v->rank; i++) {
        if (v->dim[i] < 0)
            return yki_onnx_refuse(im,
                                   "the input \"%s\" has the size \"%.80s\" in axis %d; must "
                                   "be a number in all axes but the batch",
                                   v->name, v->dim_name[i], (int)i);
        shape.dim[i - 1] = v->dim[i];
    }
    im->made->bytes |= v->type == YKI_ONNX_U8;
    item->kind = YKI_ONNX_NODE;
    item->node = yoke_input(im->graph, v->name, whole ? YOKE_I32 : YOKE_F32, shape);
    return item->node ? YOKE_OK : yki_onnx_refuse(im, "%s", im->graph->detail);
}

/* Inputs that are initializers too have their default there: older files list all weights so. */
static yoke_status
add_inputs(yki_onnx_importer *im)
{
    size_t count = 0;

    im->batch = -1;
    for (size_t i = 0; i < im->model->input_count; i++)
        if (!yki_onnx_find(im, im->model->inputs[i].name)) {
            YKI_TRY(add_input(im, &im->model->inputs[i]));
            count++;
        }
    return count ? YOKE_OK : yki_onnx_refuse(im, "the model has no input; must have one");
}

/* ---- nodes ---- */

static const yki_onnx_row *
find_row(const char *op)
{
    for (size_t t = 0; t < YKI_COUNT(tables); t++)
        for (const yki_onnx_row *row = tables[t]; row->op; row++)
            if (strcmp(row->op, op) == 0)
                return row;
    return NULL;
}

/* Counts how often each value is read, before any node is made. */
static yoke_status
add_outputs(yki_onnx_importer *im)
{
    yki_onnx_item *item;

    for (size_t i = 0; i < im->model->node_count; i++) {
        im->node = &im->model->nodes[i];
        im->number = i;
        for (size_t k = 0; k < im->node->output_count; k++)
            if (*im->node->outputs[k])
                YKI_TRY(add_item(im, im->node->outputs[k], &item));
    }
    for (size_t i = 0; i < im->model->node_count; i++)
        for (size_t k = 0; k < im->model->nodes[i].input_count; k++) {
            item = yki_onnx_find(im, im->model->nodes[i].inputs[k]);
            if (item) {
                item->uses++;
                item->reader = i;
            }
        }
    im->node = NULL;
    for (size_t i = 0; i < im->model->output_count; i++) {
        item = yki_onnx_find(im, im->model->outputs[i].name);
        if (item)
            item->uses += 2; /* never by one node alone */
    }
    return YOKE_OK;
}

static yoke_status
take_inputs(yki_onnx_importer *im, const yki_onnx_row *row, bool *constants)
{
    const yki_onnx_node *n = im->node;

    im->in_count = n->input_count;
    if (n->input_count < row->least || n->input_count > row->most || n->output_count == 0)
        return yki_onnx_refuse(im,
                               "it has %zu inputs and %zu outputs; must have between %zu and "
                               "%zu inputs, and an output",
                               n->input_count, n->output_count, row->least, row->most);
    for (size_t i = 0; i < n->input_count; i++) {
        im->in[i] = *n->inputs[i] ? yki_onnx_find_value(im, n->inputs[i]) : NULL;
        if (!im->in[i] && (*n->inputs[i] || i < row->least))
            return yki_onnx_refuse(im, "its input \"%.200s\" is missing", n->inputs[i]);
        if (im->in[i] && im->in[i]->kind == YKI_ONNX_NOTHING)
            return yki_onnx_refuse(im,
                                   "its input \"%.200s\" is made by no node before it, or is a "
                                   "result that yoke does not have",
                                   n->inputs[i]);
        *constants = *constants && (!im->in[i] || im->in[i]->kind == YKI_ONNX_CONSTANT);
    }
    return YOKE_OK;
}

static yoke_status
import_node(yki_onnx_importer *im)
{
    const yki_onnx_node *n = im->node;
    const yki_onnx_row *row = find_row(n->op);
    bool constants = true;

    if (*n->domain && strcmp(n->domain, "ai.onnx") != 0)
        return yki_onnx_refuse(im, "the operator is of \"%.80s\"; must be one of ONNX itself",
                               n->domain);
    if (!row)
        return yki_onnx_refuse(im, "yoke has no such operator (yoke-files(7) lists those that it "
                                   "has)");
    YKI_TRY(take_inputs(im, row, &constants));
    im->out = yki_onnx_output(im, 0);
    if (!im->out)
        return yki_onnx_refuse(im, "its first output is left out");
    if (row->fold && (constants || !row->make))
        return row->fold(im);
    if (constants)
        return yki_onnx_refuse(im, "all of its inputs are constants; must depend on the data");
    return row->make(im);
}

static yoke_status
add_result(yki_onnx_importer *im, const yki_onnx_value *v)
{
    yki_onnx_item *item = yki_onnx_find_value(im, v->name);
    yoke_node *node;

    if (!item || item->kind == YKI_ONNX_NOTHING)
        return yki_onnx_refuse(im, "the output \"%.200s\" is made by no node", v->name);
    if (item->kind == YKI_ONNX_CONSTANT || !item->node->batched)
        return yki_onnx_refuse(im, "the output \"%.200s\" does not depend on the data; must",
                               v->name);
    YKI_TRY(yki_onnx_node_of(im, item, &node));
    yoke_graph_set_output(im->graph, v->name, node);
    return yki_graph_status(im->graph);
}

static yoke_status
import_graph(yki_onnx_importer *im)
{
    YKI_TRY(yoke_graph_create(&im->made->graph));
    im->graph = im->made->graph;
    YKI_TRY(make_items(im));
    YKI_TRY(add_tensors(im));
    YKI_TRY(add_inputs(im));
    YKI_TRY(add_outputs(im));
    for (im->number = 0; im->number < im->model->node_count; im->number++) {
        im->node = &im->model->nodes[im->number];
        YKI_TRY(import_node(im));
    }
    im->node = NULL;
    if (im->model->output_count == 0)
        return yki_onnx_refuse(im, "the model has no output; must have one");
    for (size_t i = 0; i < im->model->output_count; i++)
        YKI_TRY(add_result(im, &im->model->outputs[i]));
    return YOKE_OK;
}

yoke_status
yki_onnx_import(yki_onnx *model, yki_onnx_imported *made)
{
    yki_onnx_importer *im = yki_alloc(1, sizeof *im, "an import");
    yoke_status status;

    memset(made, 0, sizeof *made);
    if (!im)
        return YOKE_ERROR_OUT_OF_MEMORY;
    im->model = model;
    im->made = made;
    im->room = ROOM;
    status = import_graph(im);
    yki_free(im);
    if (status != YOKE_OK)
        yki_onnx_imported_clear(made);
    return status;
}

void
yki_onnx_imported_clear(yki_onnx_imported *made)
{
    yoke_graph_destroy(made->graph);
    yki_free(made->values);
    memset(made, 0, sizeof *made);
}
