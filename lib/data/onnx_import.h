/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_import.h - what the files that import operators of ONNX share.
 *
 * The batch is the first axis of each input; a value that depends on it has it as its first axis
 * too, and the node of the graph has the others. What does not depend on an input is computed at
 * once, as an array of numbers (a constant): arithmetic with shapes ends there, where the size of
 * the batch is a number of its own. A constant that meets a node becomes a parameter.
 */
#ifndef YKI_ONNX_IMPORT_H
#define YKI_ONNX_IMPORT_H

#include "data/onnx.h"

typedef enum yki_onnx_kind { YKI_ONNX_NOTHING = 0, YKI_ONNX_CONSTANT, YKI_ONNX_NODE } yki_onnx_kind;

/* Which axis of a value is the batch, and whether that is one of (N, count) joined: then the axis
 * of the node at that place is the count. Most operators take a batch that is the first axis alone.
 */
typedef struct yki_onnx_batch {
    int32_t at;
    bool joined;
} yki_onnx_batch;

/* A value of the model. */
typedef struct yki_onnx_item {
    const char *name;
    yki_onnx_kind kind;
    size_t uses, reader; /* how often it is read, and the number of the last node that does */
    /* constants */
    const char *label;             /* of the parameter that it becomes */
    const yki_onnx_tensor *tensor; /* NULL: it was computed */
    bool is_float, literal;        /* literal: a number of the network, which is not trained */
    int32_t rank;
    int64_t dim[YKI_ONNX_RANK], count;
    float *floats; /* NULL: not read yet; as are */
    int64_t *ints;
    bool *batches; /* which whole numbers are times the size of the batch; NULL: none */
    yoke_node *parameter;
    bool turned;                     /* the parameter has the two axes exchanged */
    struct yki_onnx_item *turned_of; /* the constant with the two axes exchanged, or NULL */
    /* nodes: the value is factor * node + offset; with `gauss` factor * erf(node / sqrt(2)) +
     * offset, which is good for GELU alone */
    yoke_node *node;
    yki_onnx_batch batch;
    double factor, offset;
    bool gauss;
    const struct yki_onnx_item *absorbed; /* what the reader would add is in the node already */
    struct yki_onnx_item *alias;          /* it is the same value as this one, or NULL */
} yki_onnx_item;

enum { YKI_ONNX_MOST_INPUTS = 256 };

typedef struct yki_onnx_importer {
    yki_onnx *model;
    yoke_graph *graph;
    yki_onnx_imported *made;
    size_t capacity; /* of made->values */
    yki_onnx_item *items;
    size_t count;
    uint32_t *slots; /* hash table by name: number of an item + 1, or 0 */
    size_t slot_count;
    int64_t batch; /* the size of the batch in the file; -1: any */
    int64_t room;  /* elements that constants may still have; more, the more the file has */
    /* the node at work */
    const yki_onnx_node *node;
    size_t number;
    yki_onnx_item *in[YKI_ONNX_MOST_INPUTS]; /* NULL: left out */
    size_t in_count;
    yki_onnx_item *out;
} yki_onnx_importer;

/* How an operator is imported: from nodes, and from constants alone. Either may be NULL. */
typedef struct yki_onnx_row {
    const char *op; /* NULL ends a table */
    size_t least, most;
    yoke_status (*make)(yki_onnx_importer *im);
    yoke_status (*fold)(yki_onnx_importer *im);
} yki_onnx_row;

extern const yki_onnx_row yki_onnx_layers[], yki_onnx_elements[], yki_onnx_shapes[],
    yki_onnx_constants[], yki_onnx_products[], yki_onnx_masks[];

/* ---- onnx_importer.c ---- */

/* Fails with YOKE_ERROR_UNSUPPORTED; puts file, node and operator in front. */
yoke_status yki_onnx_refuse(const yki_onnx_importer *im, const char *format, ...) YKI_PRINTF(2, 3);
/* Makes a node the result; fails if the graph refused it (NULL). */
yoke_status yki_onnx_give(yki_onnx_importer *im, yoke_node *node);
/* The same with such a batch. */
yoke_status yki_onnx_give_moved(yki_onnx_importer *im, yoke_node *node, yki_onnx_batch batch);
/* Makes factor * node + offset the result; nothing is computed before somebody reads it. */
yoke_status yki_onnx_give_scaled(yki_onnx_importer *im, yoke_node *node, double factor,
                                 double offset);
/* Makes the input, as it is, the result. */
yoke_status yki_onnx_pass(yki_onnx_importer *im, yki_onnx_item *item);
/* Gives output `index`, behind the first. */
yki_onnx_item *yki_onnx_output(yki_onnx_importer *im, size_t index);
/* The slot of a name, or the free one where it belongs. */
uint32_t *yki_onnx_slot(const yki_onnx_importer *im, const char *name);
/* Finds a value; NULL: there is none. The second follows names that stand for the same value. */
yki_onnx_item *yki_onnx_find(const yki_onnx_importer *im, const char *name);
yki_onnx_item *yki_onnx_find_value(const yki_onnx_importer *im, const char *name);

/* Attributes of the node at work. */
int64_t yki_onnx_get_int(const yki_onnx_importer *im, const char *name, int64_t otherwise);
float yki_onnx_get_float(const yki_onnx_importer *im, const char *name, float otherwise);
const char *yki_onnx_get_text(const yki_onnx_importer *im, const char *name, const char *otherwise);
/* NULL: it is not there. */
const yki_onnx_attr *yki_onnx_get_attr(const yki_onnx_importer *im, const char *name);

/* ---- onnx_fold.c: of constants alone ---- */

yoke_status yki_onnx_fold_one(yki_onnx_importer *im);
yoke_status yki_onnx_fold_two(yki_onnx_importer *im);
yoke_status yki_onnx_fold_cast(yki_onnx_importer *im);
yoke_status yki_onnx_cast_like(yki_onnx_importer *im); /* of nodes too */
yoke_status yki_onnx_fold_concat(yki_onnx_importer *im);
/* The elements of a constant, in another order: element i of the result is `from[i]`. */
yoke_status yki_onnx_fold_move(yki_onnx_importer *im, yki_onnx_item *item, int32_t rank,
                               const int64_t *dim, const int64_t *from);

/* The shape of two operands as numpy broadcasts them; false: they do not fit. */
bool yki_onnx_broadcast(const yki_onnx_item *a, const yki_onnx_item *b, int32_t *rank,
                        int64_t *dim);
/* Takes both operands of a node as constants, and gives the shape of their result. */
yoke_status yki_onnx_two_constants(yki_onnx_importer *im, int32_t *rank, int64_t *dim);
/* The element of an operand that goes into element `index` of such a result. */
int64_t yki_onnx_element(const yki_onnx_item *x, int64_t index, int32_t rank, const int64_t *dim);

/* ---- onnx_items.c ---- */

/* Reads the numbers of a constant, unless they are there. */
yoke_status yki_onnx_numbers(yki_onnx_importer *im, yki_onnx_item *item);
/* Whole numbers that input `index`, or else the attribute, gives; *list NULL: neither is there.
 * Numbers of the batch are refused. */
yoke_status yki_onnx_list(yki_onnx_importer *im, size_t index, const char *attr,
                          const int64_t **list, size_t *count);
/* Checks that there is room for so many elements of a constant that is computed. */
yoke_status yki_onnx_check_room(const yki_onnx_importer *im, int64_t count);
/* Makes the result a constant of this shape, whose numbers the caller writes. */
yoke_status yki_onnx_new_constant(yki_onnx_importer *im, bool is_float, int32_t rank,
                                  const int64_t *dim);
/* Whether a constant is a single number, and which. */
yoke_status yki_onnx_single(yki_onnx_importer *im, yki_onnx_item *item, bool *is, double *value);
/* The value as a node of floats, with the batch first: a constant becomes a parameter. */
yoke_status yki_onnx_node_of(yki_onnx_importer *im, yki_onnx_item *item, yoke_node **node);
/* The same with any batch. */
yoke_status yki_onnx_moved_node(yki_onnx_importer *im, yki_onnx_item *item, yoke_node **node);
/* The same of a constant beside a node of `rank` axes without the batch: as many axes, or fewer. */
yoke_status yki_onnx_operand(yki_onnx_importer *im, yki_onnx_item *item, const yoke_node *beside,
                             yoke_node **node);
/* The axes of a value, the batch included; -1 is the batch, joined or not. */
int32_t yki_onnx_dims(const yki_onnx_item *item, int64_t dim[YKI_ONNX_RANK]);
/* Makes an axis of `rank` axes count from 0. */
yoke_status yki_onnx_axis(const yki_onnx_importer *im, int64_t axis, int32_t rank, int32_t *out);
/* The same of a value that is a node; gives the axis of the node. The batch is refused. */
yoke_status yki_onnx_node_axis(const yki_onnx_importer *im, int64_t axis, const yki_onnx_item *item,
                               int32_t *out);
/* A name for a layer whose weight the constant becomes, which no node has; lent. NULL: no memory.
 */
const char *yki_onnx_layer_name(yki_onnx_importer *im, const yki_onnx_item *weight);
/* Gives the parameter or state LAYER.part its values, which stay in the model's memory. */
yoke_status yki_onnx_set_part(yki_onnx_importer *im, const char *layer, const char *part,
                              float *values);
yoke_status yki_onnx_set_values(yki_onnx_importer *im, const yoke_node *node, float *values);
/* A new parameter with a name of its own that is not trained. */
yoke_status yki_onnx_number_node(yki_onnx_importer *im, const char *name, double value,
                                 yoke_node **node);

#endif
