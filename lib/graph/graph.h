/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - the internal representation of a network: nodes with shapes, in
 * topological order, and the row that describes an operator.
 *
 * A graph describes one sample. A node that depends on the sample is `batched`:
 * in memory its shape has the batch in front. Parameters, constants and what is
 * summed over samples (gradients of parameters, statistics) are not batched.
 *
 * Every operator has one result; what others would return as a second one is a
 * node of its own (statistics of a batch norm, the gradient of a loss), and a
 * solver of both is a fusion. Gradients are nodes too: differentiation appends
 * them to the graph, so the planner sees one list.
 *
 * Knows no device and no kernel.
 */
#ifndef YKI_GRAPH_H
#define YKI_GRAPH_H

#include "base/base.h"

enum { YKI_MAX_INPUTS = 8, YKI_ATTR_BYTES = 128 };

typedef struct yki_op yki_op;

/* An operator's parameters: plain numbers, unused bytes zero, so that they compare and hash as
 * bytes. Each family defines its own struct and copies it in. */
typedef union yki_attrs {
    unsigned char bytes[YKI_ATTR_BYTES];
    int64_t align_int;
    double align_float;
} yki_attrs;

typedef enum yki_node_role {
    YKI_ROLE_COMPUTED = 0,
    YKI_ROLE_INPUT,     /* given with each batch: data and targets */
    YKI_ROLE_PARAMETER, /* trained, or frozen */
    YKI_ROLE_STATE,     /* kept between steps, not trained: running statistics */
    YKI_ROLE_CONSTANT   /* a host array kept with the graph */
} yki_node_role;

struct yoke_node {
    yoke_graph *graph;
    uint32_t id;      /* position in graph->nodes; inputs stand before */
    const yki_op *op; /* NULL unless computed */
    yki_node_role role;
    char *name; /* unique; parameters: "conv1.weight" */
    yoke_type type;
    yoke_shape shape; /* of one sample if batched */
    bool batched;
    bool target;    /* an input that is compared with, not computed from */
    bool backward;  /* appended by differentiation */
    uint32_t place; /* 1 + its number in graph->places; 0: none */
    uint32_t input_count;
    yoke_node *inputs[YKI_MAX_INPUTS];
    yki_attrs attrs;
    uint64_t random_key; /* node part of the random key (dropout) */
    /* parameters */
    yoke_initializer initializer;
    int64_t fan_in, fan_out; /* for Xavier and Kaiming */
    bool frozen;
    yoke_node *gradient; /* after differentiation: sum over samples, or NULL */
    /* a state's new value, computed each training step (running statistics), or NULL */
    yoke_node *next;
    void *data; /* constants: host values; owned */
    /* integer inputs: values are in [low, limit), or `exception`; both 0: anything */
    int64_t low, limit;
    bool has_exception;
    int32_t exception;
};

/* How a team makes one value of what its devices computed from their samples. */
typedef enum yki_merge {
    YKI_MERGE_NONE = 0,
    YKI_MERGE_SUM,
    YKI_MERGE_MOMENTS /* rows: count, mean, sum of squared deviations */
} yki_merge;

/* An operator: one const row, listed in lib/op/table.c. */
struct yki_op {
    const char *name; /* "conv2d" */
    /* Sets type, shape, batched of `node` from its inputs and attrs; on a mismatch yki_fail()s
     * with a sentence with both shapes (the node's name is put in front by the caller). */
    yoke_status (*infer)(yoke_node *node);
    /* Given dy (gradient of the loss by node's result, same shape), appends nodes to the graph
     * and stores the gradient by each input in dx[i]; NULL where there is none or it is not
     * `wanted[i]`. NULL function: not differentiable (gradient stops). */
    yoke_status (*gradient)(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx);
    /* Floating-point operations for one sample (or for the whole result if not batched). */
    double (*flops)(const yoke_node *node);
    /* Attributes as short text ("3x3 s2 p1 g4"), for printing and for wisdom keys; unique per
     * distinct attributes. NULL: none. */
    void (*describe)(const yki_attrs *attrs, char *text, size_t size);
    /* The result may share memory with input i (elementwise); bit mask. */
    uint32_t in_place;
    /* A few operations an element: computing it again costs about what reading it twice does
     * (yki_plan_recompute). */
    bool cheap;
    /* Result is the input's bytes under another shape (reshape, flatten): nothing is computed. */
    bool is_view;
    /* What stands for it in an evaluation plan: another operator (batch norm by the running
     * statistics) over `inputs`, whose number is returned; *op NULL: input 0 passes through
     * (dropout). Attributes stay. NULL function: the same in training and evaluation. */
    uint32_t (*evaluation)(const yoke_node *node, const yki_op **op, yoke_node **inputs);
    /* Its result is (2) per sample: sum and count. Only operators that say so take such results:
     * a gradient starts at a loss, it does not pass through one. */
    bool is_loss;
    bool takes_losses;
    /* Of a loss: whether it is only reported, having no gradient. NULL: never. */
    bool (*is_metric)(const yki_attrs *attrs);
    /* A statistic of the batch: what follows needs that of the whole team. NULL: no. */
    yki_merge (*merge)(const yki_attrs *attrs);
    /* Reads such a statistic as it was before the merge: this device's part of a gradient. */
    bool reads_unmerged;
};

/* Nodes by name, and the next number of each kind of layer (names.c). */
typedef struct yki_names {
    uint32_t *slots;   /* id + 1 of a node, or 0; hashed by name */
    size_t slot_count; /* a power of 2 */
    struct yki_kind {
        char *name;
        unsigned next;
    } * kinds;
    size_t kind_count, kind_capacity;
    const char *wish; /* see yki_names_wish; lent */
} yki_names;

struct yoke_graph {
    atomic_int references;
    yoke_node **nodes;
    size_t node_count, node_capacity;
    size_t own_count; /* the user's nodes; those of compiling come behind. 0: not compiled yet */
    bool compiling;   /* what is added now is compiling's */
    char *refused;    /* the first change that came after compiling, as a sentence; NULL: none */
    yki_names names;
    yoke_status status; /* the first error; kept */
    char *detail;       /* and its sentence, beginning with the node's name */
    yoke_node *loss;
    yoke_node *loss_sum; /* over the batch: (2) sum and count; made when first compiled */
    struct yki_output {
        char *name;
        yoke_node *node;
    } * outputs;
    size_t output_count, output_capacity;
    struct yki_metric {
        char *name;
        yoke_node *node; /* per sample: (2) value and count */
        yoke_node *sum;  /* over the batch; made when first compiled */
    } * metrics;
    size_t metric_count, metric_capacity;
    bool differentiated;
    char **places;
    size_t place_count, place_capacity;
    uint32_t place; /* of the nodes that are made now */
};

/* ---- building (graph.c); all return NULL after the graph's first error ---- */

/* A computed node; name NULL: "<op><number>". Runs op->infer. Keeps the first error. */
yoke_node *yki_node(yoke_graph *graph, const yki_op *op, const char *name, yoke_node *const *inputs,
                    uint32_t input_count, const void *attrs, size_t attr_size);
/* Shorthands for operators without attributes. */
yoke_node *yki_node1(yoke_graph *graph, const yki_op *op, yoke_node *a);
yoke_node *yki_node2(yoke_graph *graph, const yki_op *op, yoke_node *a, yoke_node *b);
/* A parameter or state named "<layer>.<part>". */
yoke_node *yki_parameter(yoke_graph *graph, const char *layer, const char *part, yoke_shape shape,
                         yoke_initializer initializer, int64_t fan_in, int64_t fan_out);
yoke_node *yki_state(yoke_graph *graph, const char *layer, const char *part, yoke_shape shape,
                     float initial);
yoke_node *yki_constant_scalar(yoke_graph *graph, float value);
/* "conv1" for the first conv2d without a name, and so on; a copy the caller frees, or NULL, and
 * then the graph has failed. */
char *yki_layer_name(yoke_graph *graph, const char *given, const char *kind);
/* Keeps the first error: status and the thread's detail, with the node's name in front. */
void yki_graph_fail(yoke_graph *graph, const char *name, yoke_status status);
/* Whether `name` (NULL: something) may be added or set. Not after the first error; and not once the
 * graph is compiled, which is an error of its own: yoke_graph_status tells it, but those who
 * compiled the graph go on with it as it is. */
bool yki_graph_takes(yoke_graph *graph, const char *name);
/* The first error of building: yoke_graph_status without what was refused later. */
yoke_status yki_graph_status(const yoke_graph *graph);
/* Values of an integer tensor are used as indices from `low` to below `limit`, or are `exception`
 * (NULL: none): noted at the inputs they come from, where they are checked. false: no value would
 * be left, and the graph has failed. */
bool yki_limit_values(yoke_node *node, int64_t low, int64_t limit, const int32_t *exception);
static inline bool
yki_is_among(int64_t value, int64_t low, int64_t limit, const int32_t *exception)
{
    return (value >= low && value < limit) || (exception && value == *exception);
}
/* Whether all that read this integer tensor can take the value. */
static inline bool
yki_value_fits(const yoke_node *node, int64_t value)
{
    return node->low == node->limit || yki_is_among(value, node->low, node->limit,
                                                    node->has_exception ? &node->exception : NULL);
}

/* A plan or a trainer keeps its graph. */
yoke_graph *yki_graph_retain(yoke_graph *graph);

/* How many nodes its user made; settled the first time that compiling is about to add others. */
size_t yki_graph_own_count(const yoke_graph *graph);
/* Compiling adds nodes between these two; its user can add none any more. */
void yki_graph_begin_compiling(yoke_graph *graph);
void yki_graph_end_compiling(yoke_graph *graph);

/* ---- names that are not there (missing.c) ---- */

/* YOKE_ERROR_NOT_FOUND, with the name that may have been meant. */
yoke_status yki_graph_no_input(const yoke_graph *graph, const char *name);
yoke_status yki_graph_no_output(const yoke_graph *graph, const char *name);
yoke_status yki_graph_no_metric(const yoke_graph *graph, const char *name);
yoke_status yki_graph_no_weight(const yoke_graph *graph, const char *name);

/* ---- names (names.c) ---- */

/* Room for one more node. */
yoke_status yki_names_reserve(yoke_graph *graph);
/* Enters the newest node, which is in graph->nodes; there is room. */
void yki_names_add(yoke_graph *graph, const yoke_node *node);
/* "relu3": a free name; a copy the caller frees, or NULL. */
char *yki_names_number(yoke_graph *graph, const char *kind);
/* The next number that is asked for is this name instead: for builders whose callers cannot give
 * one. NULL: no more. */
void yki_names_wish(yoke_graph *graph, const char *name);
void yki_names_clear(yoke_graph *graph);
/* What tables call a node: one of backward by what the gradient that it is, or leads to, belongs
 * to ("conv1.weight"). Looks through the graph. */
const char *yki_node_title(const yoke_node *node);

/* ---- shapes (shape.c) ---- */
int64_t yki_shape_count(yoke_shape shape);
/* checks.c: what a caller gives. */
yoke_status yki_check_shape(yoke_shape shape);
yoke_status yki_check_initializer(const yoke_initializer *initializer);
bool yki_shape_equal(yoke_shape a, yoke_shape b);
/* "(3, 32, 32)"; returns text. */
const char *yki_shape_text(yoke_shape shape, char *text, size_t size);
/* numpy's broadcasting; false if they do not fit. */
bool yki_shape_broadcast(yoke_shape a, yoke_shape b, yoke_shape *result);
size_t yki_type_size(yoke_type type);
const char *yki_value_type_name(yoke_type type); /* "f32"; NULL: there is none */
bool yki_value_type_find(const char *name, yoke_type *type);

/* ---- differentiation (gradient.c) ---- */

/* Appends the gradient nodes of the loss by all trainable parameters (and by inputs in
 * `also`). Sums over samples, nothing is divided. `add` joins gradients of a node that feeds
 * several, `ones` makes a tensor of ones like its input (the start, if the loss is no loss
 * operator). Idempotent. */
yoke_status yki_graph_differentiate(yoke_graph *graph, const yki_op *add, const yki_op *ones,
                                    yoke_node *const *also, size_t also_count);

/* The same from any node `start`, whose own gradient is `seed`. */
yoke_status yki_graph_differentiate_from(yoke_graph *graph, const yki_op *add, yoke_node *start,
                                         yoke_node *seed, yoke_node *const *also,
                                         size_t also_count);

/* A hash of structure, shapes, attributes and names (digest.c); the same for the same program on
 * every host. Initial values and what is frozen are no part of it. */
void yki_graph_hash(const yoke_graph *graph, yki_hash *hash);

#endif
