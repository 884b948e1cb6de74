/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_json.h - the table for reading and writing graphs as JSON: one row for each function of
 * <yoke.h> that makes nodes. Options have the names that they have in that header.
 */
#ifndef YKI_GRAPH_JSON_H
#define YKI_GRAPH_JSON_H

#include "data/json.h"
#include "op/ops.h"

enum { YKI_GRAPH_JSON_VERSION = 1, YKI_GRAPH_JSON_INPUTS = 256 };

/* The options of any one row. */
typedef union yki_json_options {
    yoke_dense_options dense;
    yoke_conv2d_options conv2d;
    yoke_conv_transpose2d_options conv_transpose2d;
    yoke_pool2d_options pool;
    yoke_batch_norm_options batch_norm;
    yoke_layer_norm_options layer_norm;
    yoke_attention_options attention;
    yoke_embedding_options embedding;
    yoke_rope_options rope;
    yoke_matmul_options matmul;
    yoke_loss_options loss;
    struct {
        yoke_type type;
        yoke_shape shape;
        yoke_initializer init;
        bool sequence;
    } given;
    struct {
        yoke_shape shape;
        struct yki_json_floats {
            size_t count;
            const float *list; /* lent; what reads JSON frees it */
        } values;
    } constant;
    struct {
        float a, b, probability; /* a, b: numbers of a yki_unary_kind */
        int32_t axis, k;
        int64_t begin, end;
        yoke_shape shape;
        struct yki_json_axes {
            int32_t count;
            int32_t list[YOKE_MAX_RANK];
        } axes;
    } plain;
    struct {
        const char *function, *source; /* lent */
        yoke_shape shape;
        bool no_backward;
        struct yki_json_ranges {
            int32_t count;
            yoke_range list[YKI_MAX_INPUTS];
        } ranges;
    } custom;
} yki_json_options;

typedef enum yki_json_kind {
    YKI_JSON_INT64,
    YKI_JSON_INT32,
    YKI_JSON_PAIR, /* int64_t[2]; one number means both */
    YKI_JSON_FLOAT,
    YKI_JSON_BOOL,
    YKI_JSON_TEXT,
    YKI_JSON_TYPE,
    YKI_JSON_SHAPE,
    YKI_JSON_AXES,
    YKI_JSON_RANGES, /* a list of pairs */
    YKI_JSON_FLOATS, /* a list of numbers */
    YKI_JSON_INIT
} yki_json_kind;

/* An option that is zero is not written, unless it is needed. */
typedef struct yki_json_field {
    const char *key;
    yki_json_kind kind;
    size_t offset;
    bool needed;
} yki_json_field;

typedef struct yki_json_op {
    const char *name;
    uint32_t least, most; /* inputs */
    bool takes_name;      /* the builder takes the name; false: it is requested by yki_names_wish */
    const yki_json_field *fields;
    yoke_node *(*build)(yoke_graph *graph, const char *name, yoke_node *const *inputs, size_t count,
                        const yki_json_options *options);
    /* The reverse: a node of operator `op` that this function made has these options. False:
     * another function made it. NULL: every node of `op` is this function's, and has no options. An
     * option that has its default becomes 0, and so is not written. */
    const yki_op *op; /* NULL: the node is not computed */
    bool (*get)(const yoke_node *node, yki_json_options *options);
} yki_json_op;

/* Finds a row by name; NULL: there is none. */
const yki_json_op *yki_json_find_op(const char *name);
/* The row with this number; NULL: the table has ended. */
const yki_json_op *yki_json_op_at(size_t index);
/* True if it is the parameter "LAYER.part" of this layer. */
bool yki_json_is_part(const yoke_node *parameter, const yoke_node *layer, const char *part);
/* The name of an initialiser; NULL: there is no such kind. */
const char *yki_json_init_name(yoke_init_kind kind);

/* Finds the function that made a node, with its options. The first `inputs` inputs are arguments of
 * the call. `op` is NULL if the node belongs to a layer, which is written instead
 * (graph_json_node.c). */
yoke_status yki_json_of_node(const yoke_node *node, const yki_json_op **op,
                             yki_json_options *options, uint32_t *inputs);

/* Whether an option has its default, which is not written (graph_json_write.c). */
bool yki_json_is_zero(const yki_json_field *field, const void *at);

#endif
