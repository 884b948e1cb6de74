/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - the internal representation of a network: nodes with shapes, in
 * topological order, and the row that describes an operator.
 *
 * A graph describes one sample. A node that depends on the sample is `batched`:
 * in memory its shape has the batch in front. Where a sample is a sequence of rows, a
 * node describes one row: its batch are the rows of all samples, which lie side by side
 * without gaps. So an operator that knows nothing of sequences works row by row, and
 * costs what the rows that are there cost. Parameters and sums
 * over samples (gradients of parameters, statistics) are not batched.
 *
 * Every operator has one result. A second result (the statistics of a batch norm,
 * the gradient of a loss) is a node of its own, and a fusion lets one solver
 * compute both. Gradients are nodes too: differentiation appends them to the
 * graph, so the planner sees one list.
 *
 * A graph knows no device and no kernel.
 */
#ifndef YKI_GRAPH_H
#define YKI_GRAPH_H

#include <string.h>

#include "base/base.h"

enum { YKI_MAX_INPUTS = 8, YKI_ATTR_BYTES = 128 };

typedef struct yki_op yki_op;

/* The attributes of an operator. They are plain numbers, and unused bytes are zero, so attributes
 * can be compared and hashed as bytes. Each family of operators defines its own struct, which is
 * copied in and out (YKI_ATTRS): if it were read through a cast, the compiler might assume that
 * writes through another type do not change it. */
typedef union yki_attrs {
    unsigned char bytes[YKI_ATTR_BYTES];
    int64_t align_int;
    double align_float;
} yki_attrs;

/* Defines TYPE_get(), which returns a copy of the attributes, and TYPE_set(), which replaces them.
 */
#define YKI_ATTRS(type)                                                                            \
    _Static_assert(sizeof(type) <= YKI_ATTR_BYTES, #type " fits");                                 \
    static inline type type##_get(const yki_attrs *attrs)                                          \
    {                                                                                              \
        type value;                                                                                \
                                                                                                   \
        memcpy(&value, attrs->bytes, sizeof value);                                                \
        return value;                                                                              \
    }                                                                                              \
    static inline void type##_set(yki_attrs *attrs, const type *value)                             \
    {                                                                                              \
        memset(attrs, 0, sizeof *attrs);                                                           \
        memcpy(attrs->bytes, value, sizeof *value);                                                \
    }

typedef enum yki_node_role {
    YKI_ROLE_COMPUTED = 0,
    YKI_ROLE_INPUT,     /* given with each batch: data and targets */
    YKI_ROLE_PARAMETER, /* trained, or frozen */
    YKI_ROLE_STATE      /* kept between steps, but not trained: running statistics, constants */
} yki_node_role;

struct yoke_node {
    yoke_graph *graph;
    uint32_t id;      /* position in graph->nodes; a node's inputs have lower ones */
    const yki_op *op; /* NULL for nodes that are not computed */
    yki_node_role role;
    char *name; /* unique in the graph; of a parameter "conv1.weight" */
    yoke_type type;
    yoke_shape shape; /* of one sample if batched, or of one row of it */
    bool batched;
    int64_t length;          /* of a sequence: the most rows of a sample; 0: it is none */
    bool target;             /* an input that a loss compares with */
    bool backward;           /* appended by differentiation */
    const yoke_node *origin; /* of a node of a gradient: the node that it is the gradient of */
    uint32_t place;          /* 1 + position in graph->places; 0: none */
    uint32_t input_count;
    yoke_node *inputs[YKI_MAX_INPUTS];
    yki_attrs attrs;
    uint64_t random_key; /* the node's part of the key of random numbers (dropout) */
    /* of parameters */
    yoke_initializer initializer;
    int64_t fan_in, fan_out; /* for Xavier and Kaiming */
    bool frozen;
    yoke_node *gradient; /* after differentiation: the gradient by this node, or NULL */
    /* of states: the new value, which each training step computes (running statistics), or NULL */
    yoke_node *next;
    void *data; /* of constants: host values; owned */
    /* of integer inputs: values are in [low, limit) or are `exception`; low and limit are equal
     * where any value may come */
    int64_t low, limit;
    bool has_exception;
    int32_t exception;
};

/* How a team merges the values that its devices computed from their samples into one. */
typedef enum yki_merge {
    YKI_MERGE_NONE = 0,
    YKI_MERGE_SUM,
    YKI_MERGE_MOMENTS /* rows: count, mean, sum of squared deviations */
} yki_merge;

/* An operator: one const row, listed in lib/op/ops.h. A function may be NULL where its comment
 * says what that means. */
struct yki_op {
    const char *name; /* "conv2d" */
    /* Returns the function that users call for it, where its name is another. NULL: it is `name`.
     */
    const char *(*called)(const yki_attrs *attrs);
    /* Sets type, shape and batched of `node` from its inputs and attributes. If they do not fit, it
     * calls yki_fail() with a sentence that has both shapes; the caller puts the node's name in
     * front. */
    yoke_status (*infer)(yoke_node *node);
    /* Appends the nodes that compute the gradient by each input, and stores them in dx[i]. `dy` is
     * the gradient of the loss by the node's result and has its shape; at a loss it is NULL. dx[i]
     * stays NULL where there is no gradient, or wanted[i] is false. NULL function: the operator
     * cannot be differentiated, so the gradient stops there. */
    yoke_status (*gradient)(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx);
    /* Returns the floating-point operations for one sample, or for the whole result if it is not
     * batched. */
    double (*flops)(const yoke_node *node);
    /* Writes the attributes as a short text ("3x3 s2 p1 g4") for people and for keys of wisdom.
     * Different attributes have different texts. NULL: the operator has no attributes. */
    void (*describe)(const yki_attrs *attrs, char *text, size_t size);
    /* Bit i: the result may share memory with input i (elementwise operators). */
    uint32_t in_place;
    /* The planner measures it in place: with two memories it would copy what plans do not copy. */
    bool measured_in_place;
    /* It takes a few operations an element, so computing it again costs about as much as reading
     * it twice (yki_plan_recompute). */
    bool cheap;
    /* The result is the input's bytes under another shape (reshape, flatten). Nothing is computed.
     */
    bool is_view;
    /* Tells what replaces the node in an evaluation plan. *op becomes another operator (batch norm
     * by the running statistics) over `inputs`, whose number is returned; or *op becomes NULL, and
     * input 0 passes through (dropout). NULL function: operator and inputs are the same in training
     * and evaluation. */
    uint32_t (*evaluation)(const yoke_node *node, const yki_op **op, yoke_node **inputs);
    /* Changes the attributes for an evaluation plan (attention drops nothing there). NULL: they
     * stay. */
    void (*evaluation_attrs)(yki_attrs *attrs);
    /* The result is (2) for each sample: a sum and a count. Only operators with `takes_losses` have
     * such results as inputs: a gradient starts at a loss and does not pass through one. */
    bool is_loss;
    bool takes_losses;
    /* Whether a loss is a metric: only reported, without a gradient. NULL: it never is. */
    bool (*is_metric)(const yki_attrs *attrs);
    /* How a team merges the result, if it is a statistic of the batch: readers need that of the
     * whole team. NULL: it is not merged. */
    yki_merge (*merge)(const yki_attrs *attrs);
    /* It reads such a statistic as it is before the merge: this device's part of a gradient. */
    bool reads_unmerged;
    /* It takes sequences as whole samples, (rows, ...), and not row by row. Then `infer` checks
     * which of the inputs are sequences, and sets `length` of the node. */
    bool whole;
};

/* `infer` of operators that no graph has, as only the planner makes them: of several that it joins.
 */
yoke_status yki_infer_joined(yoke_node *node);

/* The index of nodes by name, and the next number for each kind of layer (names.c). */
typedef struct yki_names {
    uint32_t *slots;   /* hash table by name: id + 1 of a node, or 0 */
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
    size_t own_count; /* number of the user's nodes; compiling adds more after them. 0: the graph
                       * was not compiled yet */
    bool compiling;   /* nodes that are added now belong to compiling */
    char *refused;    /* the error of the first change after compiling; NULL: none was tried */
    yki_names names;
    yoke_status status; /* the first error of building; kept */
    char *detail;       /* the sentence of that error, beginning with the node's name */
    yoke_node *loss;
    yoke_node *loss_sum; /* over the batch: (2) sum and count; made when first compiled */
    struct yki_output {
        char *name;
        yoke_node *node;
    } * outputs;
    size_t output_count, output_capacity;
    struct yki_metric {
        char *name;
        yoke_node *node; /* for each sample: (2) value and count, or a scalar */
        yoke_node *sum;  /* over the batch; made when first compiled */
    } * metrics;
    size_t metric_count, metric_capacity;
    int64_t length; /* of its sequences, which all have the same; 0: there are none */
    bool differentiated;
    char **places;
    size_t place_count, place_capacity;
    uint32_t place;          /* of the nodes that are added now, as in yoke_node */
    const yoke_node *origin; /* the same */
};

/* ---- building (graph.c); functions that return a node return NULL after the first error ---- */

/* Adds a computed node and calls op->infer. `name` is copied; NULL: the operator's name with a
 * number. `attrs` (attr_size bytes) are copied. The graph keeps an error. */
yoke_node *yki_node(yoke_graph *graph, const yki_op *op, const char *name, yoke_node *const *inputs,
                    uint32_t input_count, const void *attrs, size_t attr_size);
/* Add a node of an operator without attributes over one or two inputs. */
yoke_node *yki_node1(yoke_graph *graph, const yki_op *op, yoke_node *a);
yoke_node *yki_node2(yoke_graph *graph, const yki_op *op, yoke_node *a, yoke_node *b);
/* Add a parameter or a state named "<layer>.<part>"; with a `part` of NULL, a parameter is named
 * "<layer>". A state starts with `initial` in each element. */
yoke_node *yki_parameter(yoke_graph *graph, const char *layer, const char *part, yoke_shape shape,
                         yoke_initializer initializer, int64_t fan_in, int64_t fan_out);
yoke_node *yki_state(yoke_graph *graph, const char *layer, const char *part, yoke_shape shape,
                     float initial);
/* Whether a node is a constant: a state that starts with `data` and never changes. It belongs to
 * the graph, as attributes do, and not to the weights. */
static inline bool
yki_is_constant(const yoke_node *node)
{
    return node->role == YKI_ROLE_STATE && node->data;
}
/* Returns the name of a new layer, which the caller frees: a copy of `given` or, if that is NULL,
 * the kind and a number ("conv1"). It returns NULL if the graph has an error then. */
char *yki_layer_name(yoke_graph *graph, const char *given, const char *kind);
/* Puts `name` (NULL: nothing) in front of the thread's detail and keeps status and detail, if they
 * are the graph's first error. Once the graph is compiled, only the detail is kept, in `refused`.
 */
void yki_graph_fail(yoke_graph *graph, const char *name, yoke_status status);
/* Returns the first error of building, as yoke_graph_status does, but not a change that was refused
 * after compiling. */
yoke_status yki_graph_status(const yoke_graph *graph);
/* Notes that the values of an integer node have to be in [low, limit) or be `exception` (NULL:
 * none), because they are used as indices. It notes this at the inputs that the values come from,
 * where values are checked. Returns false if no value is left, and then the graph has failed. */
bool yki_limit_values(yoke_node *node, int64_t low, int64_t limit, const int32_t *exception);
static inline bool
yki_is_among(int64_t value, int64_t low, int64_t limit, const int32_t *exception)
{
    return (value >= low && value < limit) || (exception && value == *exception);
}
/* Tells whether all readers of this integer node can use the value. */
static inline bool
yki_value_fits(const yoke_node *node, int64_t value)
{
    return node->low == node->limit || yki_is_among(value, node->low, node->limit,
                                                    node->has_exception ? &node->exception : NULL);
}

/* Takes a reference, which yoke_graph_destroy gives back, and returns the graph. */
yoke_graph *yki_graph_retain(yoke_graph *graph);

/* Returns the first node that takes a statistic of the batch, as a batch norm does, over the team
 * or over the samples of a device. NULL: there is none. */
const yoke_node *yki_graph_find_statistic(const yoke_graph *graph);

/* Returns how many nodes the user made. The number is fixed when compiling adds others first. */
size_t yki_graph_own_count(const yoke_graph *graph);
/* Compiling adds nodes between these two calls. After the first of them the user can add none. */
void yki_graph_begin_compiling(yoke_graph *graph);
void yki_graph_end_compiling(yoke_graph *graph);

/* Frees a node that is in no graph any more. NULL is fine. */
void yki_node_free(yoke_node *node);

/* ---- rearranging a graph that was built (rearrange.c) ---- */

/* Fails if the graph has an error, or is compiled and cannot change any more. */
yoke_status yki_graph_check_open(const yoke_graph *graph);
/* Lets the first `count` nodes, outputs, metrics and the loss that read `from` read `to` instead.
 */
void yki_graph_redirect(yoke_node *from, yoke_node *to, size_t count);
/* Replaces the nodes by those of `order`, each of which was in the graph and stands behind its
 * inputs. Nodes that are not in it, which nothing may read any more, are freed. */
yoke_status yki_graph_reorder(yoke_graph *graph, yoke_node *const *order, size_t count);

/* ---- names that do not exist (missing.c) ---- */

/* Fail with YOKE_ERROR_NOT_FOUND and suggest the nearest name that exists. */
yoke_status yki_graph_no_input(const yoke_graph *graph, const char *name);
yoke_status yki_graph_no_output(const yoke_graph *graph, const char *name);
yoke_status yki_graph_no_metric(const yoke_graph *graph, const char *name);
yoke_status yki_graph_no_weight(const yoke_graph *graph, const char *name);

/* ---- names (names.c) ---- */

/* Makes room for one more node in the index. */
yoke_status yki_names_reserve(yoke_graph *graph);
/* Enters the newest node, which is in graph->nodes already. yki_names_reserve comes before. */
void yki_names_add(yoke_graph *graph, const yoke_node *node);
/* Makes the index again, after nodes got other ids. */
void yki_names_renew(yoke_graph *graph);
/* Returns a name that is free, the kind and a number ("relu3"). The caller frees it. NULL: there is
 * no memory. */
char *yki_names_number(yoke_graph *graph, const char *kind);
/* Makes the next yki_names_number return a copy of `name` instead, for functions whose callers
 * cannot give a name. The text is lent until then. NULL takes the wish back. */
void yki_names_wish(yoke_graph *graph, const char *name);
/* Frees the index. */
void yki_names_clear(yoke_graph *graph);
/* Returns the name that tables show for a node. A node of backward is shown by the node whose
 * gradient it is or helps to compute ("conv1.weight"). It searches the graph. Lent. */
const char *yki_node_title(const yoke_node *node);
/* Returns the function that made the node, "relu"; for a node of a gradient, that of the node whose
 * gradient it is. */
const char *yki_node_function(const yoke_node *node);

/* ---- shapes (shape.c) ---- */

/* Returns the number of elements. */
int64_t yki_shape_count(yoke_shape shape);
/* checks.c: check what a caller of the public functions gives. */
yoke_status yki_check_shape(yoke_shape shape);
yoke_status yki_check_initializer(const yoke_initializer *initializer);
/* Report what is wrong with a node that a caller gives as `what`, such as "the input": that it is
 * not of this graph, its type, its shape, or an axis of it. `must` says what is allowed. */
yoke_status yki_fail_node(const char *what, const yoke_node *node);
yoke_status yki_fail_type(const char *what, const yoke_node *node, const char *must);
yoke_status yki_fail_shape(const char *what, const yoke_node *node, const char *must);
yoke_status yki_fail_axis(const char *what, int32_t axis, const yoke_node *node);
/* Fails unless the node has floats, by yki_fail_type. */
yoke_status yki_check_f32(const char *what, const yoke_node *node);
/* Gives the result of a node the type and the shape of another node, and its batch and its length
 * if it has them. */
void yki_node_like(yoke_node *node, const yoke_node *other);
bool yki_shape_equal(yoke_shape a, yoke_shape b);
/* Writes a shape as "(3, 32, 32)", and returns `text`. */
const char *yki_shape_text(yoke_shape shape, char *text, size_t size);
/* Returns the shape of a whole sample: of a sequence (length, the shape of a row). */
yoke_shape yki_whole_shape(const yoke_node *node);
/* Computes the shape that numpy's broadcasting gives; false if the shapes do not fit. */
bool yki_shape_broadcast(yoke_shape a, yoke_shape b, yoke_shape *result);
/* Types that no node has: a plan keeps floats so (plan/halves.c). */
#define YKI_TYPE_BF16 ((yoke_type)3)
#define YKI_TYPE_F16  ((yoke_type)4)
static inline bool
yki_type_is_half(yoke_type type)
{
    return type == YKI_TYPE_BF16 || type == YKI_TYPE_F16;
}
/* Returns the bytes of one value. */
size_t yki_type_size(yoke_type type);
/* Return the name of a type, such as "f32" (NULL: there is no such type), and the reverse. */
const char *yki_value_type_name(yoke_type type);
bool yki_value_type_find(const char *name, yoke_type *type);

/* ---- differentiation (gradient.c) ---- */

/* Appends the nodes that compute the gradient of the loss by all parameters that are not frozen,
 * and by the nodes in `also`. Gradients are sums over samples and are not divided. `add` is the
 * operator that adds the gradients of a node with several readers. `ones` makes a tensor of ones
 * like its input; the gradient starts from it if the loss is not a loss operator. A second call
 * does nothing. */
yoke_status yki_graph_differentiate(yoke_graph *graph, const yki_op *add, const yki_op *ones,
                                    yoke_node *const *also, size_t also_count);

/* Does the same from any node `start`, whose own gradient is `seed`. */
yoke_status yki_graph_differentiate_from(yoke_graph *graph, const yki_op *add, yoke_node *start,
                                         yoke_node *seed, yoke_node *const *also,
                                         size_t also_count);

/* Computes a hash of structure, shapes, attributes and names (digest.c). It is the same for the
 * same program on every host of one byte order. Initial values, places and what is frozen have no
 * influence. */
void yki_graph_hash(const yoke_graph *graph, yki_hash *hash);

#endif
