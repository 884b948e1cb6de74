/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_importer.c - what every operator's import asks for: attributes of the node at work, values
 * by their names, the result, and the sentence of a refusal.
 */
#include <stdio.h>
#include <string.h>

#include "data/onnx_import.h"

enum { REASON = 600 };

/* ---- errors ---- */

yoke_status
yki_onnx_refuse(const yki_onnx_importer *im, const char *format, ...)
{
    const yki_onnx_node *n = im->node;
    char reason[REASON];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (!n)
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s: %s", im->model->path, reason);
    if (*n->name)
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s: node \"%.200s\" (%.80s): %s", im->model->path,
                        n->name, n->op, reason);
    return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s: node %zu (%.80s): %s", im->model->path, im->number,
                    n->op, reason);
}

/* ---- attributes ---- */

const yki_onnx_attr *
yki_onnx_get_attr(const yki_onnx_importer *im, const char *name)
{
    for (size_t i = 0; i < im->node->attr_count; i++)
        if (strcmp(im->node->attrs[i].name, name) == 0)
            return &im->node->attrs[i];
    return NULL;
}

int64_t
yki_onnx_get_int(const yki_onnx_importer *im, const char *name, int64_t otherwise)
{
    const yki_onnx_attr *a = yki_onnx_get_attr(im, name);

    return a ? a->i : otherwise;
}

float
yki_onnx_get_float(const yki_onnx_importer *im, const char *name, float otherwise)
{
    const yki_onnx_attr *a = yki_onnx_get_attr(im, name);

    return a ? a->f : otherwise;
}

const char *
yki_onnx_get_text(const yki_onnx_importer *im, const char *name, const char *otherwise)
{
    const yki_onnx_attr *a = yki_onnx_get_attr(im, name);

    return a ? a->text : otherwise;
}

/* ---- values by name ---- */

uint32_t *
yki_onnx_slot(const yki_onnx_importer *im, const char *name)
{
    size_t at = (size_t)yki_checksum_of(name, strlen(name)) & (im->slot_count - 1);

    while (im->slots[at] && strcmp(im->items[im->slots[at] - 1].name, name) != 0)
        at = (at + 1) & (im->slot_count - 1);
    return &im->slots[at];
}

yki_onnx_item *
yki_onnx_find(const yki_onnx_importer *im, const char *name)
{
    const uint32_t slot = *yki_onnx_slot(im, name);

    return slot ? &im->items[slot - 1] : NULL;
}

yki_onnx_item *
yki_onnx_find_value(const yki_onnx_importer *im, const char *name)
{
    yki_onnx_item *item = yki_onnx_find(im, name);

    while (item && item->alias)
        item = item->alias;
    return item;
}

/* ---- results ---- */

static yoke_status
give(yki_onnx_importer *im, yki_onnx_item *out, yoke_node *node)
{
    if (!node)
        return yki_onnx_refuse(im, "%s",
                               im->graph->detail ? im->graph->detail : "yoke cannot compute it");
    out->kind = YKI_ONNX_NODE;
    out->node = node;
    out->factor = 1;
    out->offset = 0;
    return YOKE_OK;
}

yoke_status
yki_onnx_give(yki_onnx_importer *im, yoke_node *node)
{
    return give(im, im->out, node);
}

yoke_status
yki_onnx_give_moved(yki_onnx_importer *im, yoke_node *node, yki_onnx_batch batch)
{
    YKI_TRY(give(im, im->out, node));
    im->out->batch = batch;
    return YOKE_OK;
}

yoke_status
yki_onnx_give_scaled(yki_onnx_importer *im, yoke_node *node, double factor, double offset)
{
    YKI_TRY(give(im, im->out, node));
    im->out->factor = factor;
    im->out->offset = offset;
    return YOKE_OK;
}

yoke_status
yki_onnx_pass(yki_onnx_importer *im, yki_onnx_item *item)
{
    im->out->kind = item->kind;
    im->out->alias = item;
    return YOKE_OK;
}

yki_onnx_item *
yki_onnx_output(yki_onnx_importer *im, size_t index)
{
    return index < im->node->output_count && *im->node->outputs[index]
               ? yki_onnx_find(im, im->node->outputs[index])
               : NULL;
}
