/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-graph.h - networks: graphs, their nodes, and the operators that make nodes.
 *
 * Programs include <yoke.h>, which includes this file and has the conventions that hold here.
 */
#ifndef YOKE_GRAPH_H
#define YOKE_GRAPH_H

#include "yoke-device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- graph */

/* A graph describes a network for one sample; the size of the batch is given when it runs. A graph
 * keeps its first error, with the node's name. After an error, functions that add nodes do nothing
 * and return NULL, and functions that make something of the graph return the error. So a program
 * need not check each node. */
typedef struct yoke_graph yoke_graph;
/* A node is an input, a parameter, or the result of an operator. Its graph owns it. */
typedef struct yoke_node yoke_node;

typedef enum yoke_type { YOKE_F32 = 0, YOKE_I32 = 1, YOKE_U8 = 2 } yoke_type;

#define YOKE_MAX_RANK 8

/* The sizes of one sample, the outermost axis first, without the batch. Rank 0 is a scalar; the
 * rank is below YOKE_MAX_RANK, and each size is at least 1. */
typedef struct yoke_shape {
    int32_t rank;
    int32_t reserved;
    int64_t dim[YOKE_MAX_RANK];
} yoke_shape;

/* Makes a shape of `rank` sizes, and copies them; yoke_shape() below is easier to use. A function
 * that takes a shape refuses a rank that is too large. */
static inline yoke_shape
yoke_shape_of(size_t rank, const int64_t *sizes)
{
    yoke_shape shape = {0, 0, {0}};

    shape.rank = rank < 1000 ? (int32_t)rank : 1000;
    for (size_t i = 0; i < rank && i < YOKE_MAX_RANK; i++)
        shape.dim[i] = sizes[i];
    return shape;
}
/* Makes a shape of its arguments, the outermost size first: yoke_shape(1, 28, 28) is an image of
 * one channel. yoke_shape() is a scalar. */
#ifdef __cplusplus
extern "C++" {
template <typename... Sizes>
inline yoke_shape
yoke_shape_of_sizes(Sizes... sizes)
{
    const int64_t list[] = {0, static_cast<int64_t>(sizes)...};

    return yoke_shape_of(sizeof...(sizes), list + 1);
}
}
#define yoke_shape(...) yoke_shape_of_sizes(__VA_ARGS__)
#else
#define yoke_shape(...)                                                                            \
    yoke_shape_of(sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1,                 \
                  (const int64_t[]){0, __VA_ARGS__} + 1)
#endif

/* Makes an empty graph. */
YOKE_API yoke_status yoke_graph_create(yoke_graph **graph);
YOKE_API void yoke_graph_destroy(yoke_graph *graph);
/* Returns the first error of building the graph; yoke_last_error() then names the node. A graph
 * cannot change any more once a trainer or a replica was made of it. After such a change was tried
 * this is YOKE_ERROR_STATE, but what was made of the graph before goes on unharmed. */
YOKE_API yoke_status yoke_graph_status(const yoke_graph *graph);
/* Add what each batch brings under `name`: data ("image"), and targets ("label") that the loss
 * compares with. `shape` is that of one sample. */
YOKE_API yoke_node *yoke_input(yoke_graph *graph, const char *name, yoke_type type,
                               yoke_shape shape);
YOKE_API yoke_node *yoke_target(yoke_graph *graph, const char *name, yoke_type type,
                                yoke_shape shape);
/* Makes an input or target, before any operator uses it, a sequence: the first size of its shape is
 * the most rows that a sample has. Each step may bring fewer; all samples of a step have as many.
 * Of a sequence, an operator sees a row where it would see a sample, and the axes and shapes that
 * it is given are those of a row; a loss counts rows. yoke_attention sees all rows of a sample, and
 * the functions of two elements, as yoke_add, take the first rows of a parameter of shape (length,
 * ...), for positions. All sequences of a graph have one length. Returns `input`. */
YOKE_API yoke_node *yoke_sequence(yoke_graph *graph, yoke_node *input);
/* Makes a node an output: its values can be read by this name. A graph may have several outputs. */
YOKE_API void yoke_graph_set_output(yoke_graph *graph, const char *name, yoke_node *node);
/* Sets what training minimises: the result of a loss function, or a node with one value for each
 * sample. No operator takes a loss or a metric as its input. */
YOKE_API void yoke_graph_set_loss(yoke_graph *graph, yoke_node *loss);
/* Adds a value that is reported beside the loss: a metric, a loss, or a node with one value for
 * each sample. */
YOKE_API void yoke_graph_add_metric(yoke_graph *graph, const char *name, yoke_node *metric);
/* Return the number of metrics, and the name of one, in the order in which results have them. The
 * name is lent; NULL where there is none. */
YOKE_API size_t yoke_graph_metric_count(const yoke_graph *graph);
YOKE_API const char *yoke_graph_get_metric_name(const yoke_graph *graph, size_t index);
/* Exclude the parameters whose names match `pattern` (with * and ?) from training, or include them
 * again. This holds for replicas and trainers that are made afterwards. A parameter that is frozen
 * when the first of them for training is made cannot be trained later (YOKE_ERROR_STATE).
 * YOKE_ERROR_NOT_FOUND: no parameter matches. */
YOKE_API yoke_status yoke_graph_freeze(yoke_graph *graph, const char *pattern);
YOKE_API yoke_status yoke_graph_unfreeze(yoke_graph *graph, const char *pattern);
/* Low-rank adapters (LoRA). */
typedef struct yoke_lora_options {
    int64_t rank; /* 0: 8 */
    float alpha;  /* 0: 16; adapters are multiplied by alpha / rank */
    /* Patterns with commas between them; each matches the whole name of a dense layer, or what
     * follows any point in it. NULL: "*attn.*", the dense layers of attention */
    const char *targets;
    float dropout; /* of the input of adapters, in training */
} yoke_lora_options;
/* Gives the dense layers that a target matches an adapter: the layer's result becomes y +
 * (alpha / rank) (x A^T) B^T, with the parameters LAYER.lora_A.weight (rank, in), which starts as
 * weights of dense layers do, and LAYER.lora_B.weight (units, rank), which starts with zeros. All
 * other parameters are frozen. Everything that read the layer reads the sum, whose node is
 * LAYER.lora. Call it when the graph is complete. YOKE_ERROR_NOT_FOUND: a target matches no dense
 * layer without an adapter. */
YOKE_API yoke_status yoke_graph_add_lora_sized(yoke_graph *graph, const yoke_lora_options *options,
                                               size_t size);
static inline yoke_status
yoke_graph_add_lora(yoke_graph *graph, const yoke_lora_options *options)
{
    return yoke_graph_add_lora_sized(graph, options, sizeof(yoke_lora_options));
}
/* Puts the nodes that are made from now on into this place; NULL means none. A team binds each
 * place to a device (yoke_team_bind_place), and copies values from one place to another. */
YOKE_API void yoke_graph_set_place(yoke_graph *graph, const char *place);
/* Hands a table to `line`, line by line, without newlines: inputs and operators with the shape of
 * the result, the number of parameters, and the FLOPs of forward for one sample; then totals. */
YOKE_API yoke_status yoke_graph_print(const yoke_graph *graph,
                                      void (*line)(void *user, const char *text), void *user);
/* The sizes of a graph. */
typedef struct yoke_graph_counts {
    int64_t parameters;  /* elements of all of them */
    int64_t frozen;      /* of these, those that are not trained */
    double flops;        /* of the loss of one sample, without backward; if there is no loss, of all
                          * operators. A sequence has all its rows. */
    int64_t activations; /* numbers that these operators compute for one sample */
} yoke_graph_counts;
YOKE_API yoke_status yoke_graph_count_sized(const yoke_graph *graph, yoke_graph_counts *counts,
                                            size_t size);
static inline yoke_status
yoke_graph_count(const yoke_graph *graph, yoke_graph_counts *counts)
{
    return yoke_graph_count_sized(graph, counts, sizeof(yoke_graph_counts));
}
/* Writes the graph as JSON, in the form of yoke-files(7), which people can write too. The text ends
 * with a 0; the caller frees it with yoke_free(). */
YOKE_API yoke_status yoke_graph_to_json(const yoke_graph *graph, char **text);
/* Builds the graph that `length` bytes of JSON describe: with the same names, shapes and initial
 * values as the graph that was written. An unknown operator or option is an error. */
YOKE_API yoke_status yoke_graph_from_json(const char *text, size_t length, yoke_graph **graph);
/* Finds a node by its name; NULL: there is none. Lent. */
YOKE_API yoke_node *yoke_graph_get_node(const yoke_graph *graph, const char *name);
/* Describe a node. The shape is that of a sample: of a sequence the length, then a row. For NULL
 * they return "", a scalar and YOKE_F32. */
YOKE_API const char *yoke_node_name(const yoke_node *node);
YOKE_API yoke_shape yoke_node_shape(const yoke_node *node);
YOKE_API yoke_type yoke_node_type(const yoke_node *node);

/* Return the number of parameters, and one of them, in the order in which they were made; NULL
 * where there is none. Gradients, optimizer state and initial values depend on this order. */
YOKE_API size_t yoke_graph_parameter_count(const yoke_graph *graph);
YOKE_API yoke_node *yoke_graph_get_parameter(const yoke_graph *graph, size_t index);

/* How a parameter starts. The host computes initial values from the seed and the parameter's
 * position in the graph, so they are the same bits on every machine. */
typedef enum yoke_init_kind {
    YOKE_INIT_DEFAULT = 0, /* as PyTorch: Kaiming uniform, a = sqrt(5), for weights and biases */
    YOKE_INIT_ZEROS,
    YOKE_INIT_CONSTANT,        /* every element is a */
    YOKE_INIT_UNIFORM,         /* from a to b */
    YOKE_INIT_NORMAL,          /* mean a, standard deviation b */
    YOKE_INIT_XAVIER_UNIFORM,  /* the gain is a; 0 means 1 */
    YOKE_INIT_XAVIER_NORMAL,   /* likewise */
    YOKE_INIT_KAIMING_UNIFORM, /* by fan in; the gain is a, 0 means sqrt(2) */
    YOKE_INIT_KAIMING_NORMAL   /* likewise */
} yoke_init_kind;

typedef struct yoke_initializer {
    yoke_init_kind kind;
    float a, b;
    uint32_t reserved;
} yoke_initializer;

/* ------------------------------------------------------------- operators */

/* Each function adds an operator to the graph and returns its result, which the graph owns, or NULL
 * after an error. Shapes are those of one sample, and axis 0 is the outermost one of a sample. An
 * operand that does not depend on the sample, such as a parameter, serves all samples. In options,
 * a name of NULL gives the layer a name and a number, such as "conv1". */

/* Computes x @ W^T + b over the last axis, with W = NAME.weight (units, in) and b = NAME.bias
 * (units). */
typedef struct yoke_dense_options {
    int64_t units;
    const char *name; /* NULL: "dense1", ... */
    bool no_bias;
    yoke_initializer weight_init, bias_init;
} yoke_dense_options;
YOKE_API yoke_node *yoke_dense_sized(yoke_graph *graph, yoke_node *x,
                                     const yoke_dense_options *options, size_t size);
static inline yoke_node *
yoke_dense(yoke_graph *graph, yoke_node *x, const yoke_dense_options *options)
{
    return yoke_dense_sized(graph, x, options, sizeof(yoke_dense_options));
}

/* Convolves x (C, H, W) with NAME.weight (filters, C / groups, kh, kw) and adds NAME.bias
 * (filters). Pairs are (height, width). A 0 means stride 1, pad 0, dilation 1, groups 1; filters
 * and kernel have to be given. */
typedef struct yoke_conv2d_options {
    int64_t filters;
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t groups;
    const char *name; /* NULL: "conv1", ... */
    bool no_bias;
    yoke_initializer weight_init, bias_init;
} yoke_conv2d_options;
YOKE_API yoke_node *yoke_conv2d_sized(yoke_graph *graph, yoke_node *x,
                                      const yoke_conv2d_options *options, size_t size);
static inline yoke_node *
yoke_conv2d(yoke_graph *graph, yoke_node *x, const yoke_conv2d_options *options)
{
    return yoke_conv2d_sized(graph, x, options, sizeof(yoke_conv2d_options));
}

/* Computes the gradient of conv2d by its input, as a layer. NAME.weight has the shape
 * (C, filters / groups, kh, kw). `output_pad` adds rows and columns to the result; it is smaller
 * than the stride. */
typedef struct yoke_conv_transpose2d_options {
    int64_t filters;
    int64_t kernel[2], stride[2], pad[2], dilation[2], output_pad[2];
    int64_t groups;
    const char *name; /* NULL: "convt1", ... */
    bool no_bias;
    yoke_initializer weight_init, bias_init;
} yoke_conv_transpose2d_options;
YOKE_API yoke_node *yoke_conv_transpose2d_sized(yoke_graph *graph, yoke_node *x,
                                                const yoke_conv_transpose2d_options *options,
                                                size_t size);
static inline yoke_node *
yoke_conv_transpose2d(yoke_graph *graph, yoke_node *x, const yoke_conv_transpose2d_options *options)
{
    return yoke_conv_transpose2d_sized(graph, x, options, sizeof(yoke_conv_transpose2d_options));
}

/* Takes the maximum or the average of each window of x (C, H, W). A stride of 0 is the kernel's
 * size. */
typedef struct yoke_pool2d_options {
    int64_t kernel[2], stride[2], pad[2];
    bool ceil_mode;   /* round the size of the result up, not down */
    bool exclude_pad; /* average: divide by the number of elements inside the input */
} yoke_pool2d_options;
YOKE_API yoke_node *yoke_maxpool2d_sized(yoke_graph *graph, yoke_node *x,
                                         const yoke_pool2d_options *options, size_t size);
static inline yoke_node *
yoke_maxpool2d(yoke_graph *graph, yoke_node *x, const yoke_pool2d_options *options)
{
    return yoke_maxpool2d_sized(graph, x, options, sizeof(yoke_pool2d_options));
}
YOKE_API yoke_node *yoke_avgpool2d_sized(yoke_graph *graph, yoke_node *x,
                                         const yoke_pool2d_options *options, size_t size);
static inline yoke_node *
yoke_avgpool2d(yoke_graph *graph, yoke_node *x, const yoke_pool2d_options *options)
{
    return yoke_avgpool2d_sized(graph, x, options, sizeof(yoke_pool2d_options));
}

/* Normalises each channel of x (C, ...) over the batch and all other axes, then multiplies it by
 * NAME.weight (C) and adds NAME.bias (C). Evaluation uses the running statistics, which are the
 * states NAME.running_mean and NAME.running_var (C). */
typedef struct yoke_batch_norm_options {
    float epsilon;    /* 0: 1e-5 */
    float momentum;   /* weight of the new statistics in the running ones; 0: 0.1 */
    bool local;       /* use the statistics of each device, not those of the whole batch */
    bool no_affine;   /* no weight and no bias */
    const char *name; /* NULL: "bn1", ... */
} yoke_batch_norm_options;
YOKE_API yoke_node *yoke_batch_norm_sized(yoke_graph *graph, yoke_node *x,
                                          const yoke_batch_norm_options *options, size_t size);
static inline yoke_node *
yoke_batch_norm(yoke_graph *graph, yoke_node *x, const yoke_batch_norm_options *options)
{
    return yoke_batch_norm_sized(graph, x, options, sizeof(yoke_batch_norm_options));
}

/* Normalises each sample over its last axes, then multiplies by NAME.weight and adds NAME.bias,
 * which have the shape of those axes. */
typedef struct yoke_layer_norm_options {
    int32_t axes;     /* how many of the last axes; 0: all */
    float epsilon;    /* 0: 1e-5 */
    bool no_affine;   /* no weight and no bias */
    const char *name; /* NULL: "ln1", ... or "rms1", ... */
} yoke_layer_norm_options;
YOKE_API yoke_node *yoke_layer_norm_sized(yoke_graph *graph, yoke_node *x,
                                          const yoke_layer_norm_options *options, size_t size);
static inline yoke_node *
yoke_layer_norm(yoke_graph *graph, yoke_node *x, const yoke_layer_norm_options *options)
{
    return yoke_layer_norm_sized(graph, x, options, sizeof(yoke_layer_norm_options));
}

/* Divides each row, the last axes of a sample, by its root mean square (the root of the mean of
 * squares plus epsilon), then multiplies by NAME.weight. */
YOKE_API yoke_node *yoke_rms_norm_sized(yoke_graph *graph, yoke_node *x,
                                        const yoke_layer_norm_options *options, size_t size);
static inline yoke_node *
yoke_rms_norm(yoke_graph *graph, yoke_node *x, const yoke_layer_norm_options *options)
{
    return yoke_rms_norm_sized(graph, x, options, sizeof(yoke_layer_norm_options));
}

/* Replaces each integer of x by that row of NAME.weight (rows, width). */
typedef struct yoke_embedding_options {
    int64_t rows, width;
    const char *name;             /* NULL: "embedding1", ... */
    yoke_initializer weight_init; /* default: normal(0, 1) */
} yoke_embedding_options;
YOKE_API yoke_node *yoke_embedding_sized(yoke_graph *graph, yoke_node *x,
                                         const yoke_embedding_options *options, size_t size);
static inline yoke_node *
yoke_embedding(yoke_graph *graph, yoke_node *x, const yoke_embedding_options *options)
{
    return yoke_embedding_sized(graph, x, options, sizeof(yoke_embedding_options));
}

typedef struct yoke_matmul_options {
    bool transpose_a, transpose_b; /* exchange the last two axes of the operand first */
} yoke_matmul_options;
/* Multiplies matrices: (..., M, K) @ (..., K, N) gives (..., M, N). Leading axes broadcast. */
YOKE_API yoke_node *yoke_matmul_sized(yoke_graph *graph, yoke_node *a, yoke_node *b,
                                      const yoke_matmul_options *options, size_t size);
static inline yoke_node *
yoke_matmul(yoke_graph *graph, yoke_node *a, yoke_node *b, const yoke_matmul_options *options)
{
    return yoke_matmul_sized(graph, a, b, options, sizeof(yoke_matmul_options));
}

typedef struct yoke_attention_options {
    int32_t heads;  /* of queries */
    int32_t shared; /* heads of keys and values, each for heads / shared of queries; 0: heads */
    bool causal;    /* a row sees itself and earlier rows only */
    float scale;    /* of the scores; 0: 1 / sqrt(the width of a head) */
    float dropout;  /* in training, the probability that a weight is set to 0, as by yoke_dropout */
} yoke_attention_options;
/* Computes softmax(scale Q K^T) V for each head. x is (T, columns): the queries of all heads side
 * by side, then the keys, then the values, each head as wide as the others, as one dense layer
 * gives them. The result is (T, heads * width). `lengths`, or NULL, has the length of each sample,
 * 0 to T: later rows are not seen, and their results are 0. With a dropout T is at most 65536. */
YOKE_API yoke_node *yoke_attention_sized(yoke_graph *graph, yoke_node *x, yoke_node *lengths,
                                         const yoke_attention_options *options, size_t size);
static inline yoke_node *
yoke_attention(yoke_graph *graph, yoke_node *x, yoke_node *lengths,
               const yoke_attention_options *options)
{
    return yoke_attention_sized(graph, x, lengths, options, sizeof(yoke_attention_options));
}

typedef struct yoke_rope_options {
    int32_t heads, shared; /* as in yoke_attention_options */
    bool interleaved;      /* pairs are neighbours (GPT-J); false: half a head apart (Llama) */
    float base;            /* 0: 10000 */
} yoke_rope_options;
/* Turns the queries and keys in the rows of x, which are those of yoke_attention, by their position
 * (rotary embedding); values stay. Pair i of a head is turned by position * base^(-2 i / width).
 * `start`, or NULL for 0, has the position of each sample's first row. */
YOKE_API yoke_node *yoke_rope_sized(yoke_graph *graph, yoke_node *x, yoke_node *start,
                                    const yoke_rope_options *options, size_t size);
static inline yoke_node *
yoke_rope(yoke_graph *graph, yoke_node *x, yoke_node *start, const yoke_rope_options *options)
{
    return yoke_rope_sized(graph, x, start, options, sizeof(yoke_rope_options));
}

/* Of x (..., 2 C): silu of the first C columns times the others. */
YOKE_API yoke_node *yoke_swiglu(yoke_graph *graph, yoke_node *x);

/* These work on each element. yoke_leaky_relu multiplies negative elements by `slope`; yoke_gelu
 * uses the exact normal distribution, yoke_gelu_tanh its approximation by tanh, as GPT-2 does;
 * yoke_scale computes x * factor + offset. Those of two operands broadcast as numpy does; of equal
 * elements, the gradient of yoke_maximum and yoke_minimum goes to `a`.
 * yoke_dropout sets elements to 0 with this probability in training and divides the others by 1 -
 * probability; in evaluation it changes nothing. */
YOKE_API yoke_node *yoke_relu(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_leaky_relu(yoke_graph *graph, yoke_node *x, float slope);
YOKE_API yoke_node *yoke_elu(yoke_graph *graph, yoke_node *x, float alpha);
YOKE_API yoke_node *yoke_gelu(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_gelu_tanh(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_silu(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_hardswish(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_sigmoid(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_tanh(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_exp(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_log(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_sqrt(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_abs(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_pow(yoke_graph *graph, yoke_node *x, float exponent);
YOKE_API yoke_node *yoke_scale(yoke_graph *graph, yoke_node *x, float factor, float offset);
YOKE_API yoke_node *yoke_add(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_sub(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_mul(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_div(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_maximum(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_minimum(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_dropout(yoke_graph *graph, yoke_node *x, float probability);
/* yoke_softmax works along one axis. yoke_sum and yoke_mean remove `count` axes; a count of 0 means
 * all. yoke_global_avgpool makes (C) of (C, H, W). */
YOKE_API yoke_node *yoke_softmax(yoke_graph *graph, yoke_node *x, int32_t axis);
YOKE_API yoke_node *yoke_sum(yoke_graph *graph, yoke_node *x, const int32_t *axes, int32_t count);
YOKE_API yoke_node *yoke_mean(yoke_graph *graph, yoke_node *x, const int32_t *axes, int32_t count);
YOKE_API yoke_node *yoke_global_avgpool(yoke_graph *graph, yoke_node *x);
/* Joins `count` nodes along `axis`; their other sizes are the same. */
YOKE_API yoke_node *yoke_concat(yoke_graph *graph, yoke_node *const *parts, size_t count,
                                int32_t axis);
/* Takes the elements begin to end - 1 of an axis. */
YOKE_API yoke_node *yoke_slice(yoke_graph *graph, yoke_node *x, int32_t axis, int64_t begin,
                               int64_t end);
/* Give the elements another shape with as many elements; yoke_flatten gives them one axis. Nothing
 * is moved. */
YOKE_API yoke_node *yoke_reshape(yoke_graph *graph, yoke_node *x, yoke_shape shape);
YOKE_API yoke_node *yoke_flatten(yoke_graph *graph, yoke_node *x);
/* Reorders the axes: axis i of the result is axis axes[i] of x. `axes` has as many entries as x has
 * axes; NULL reverses their order. */
YOKE_API yoke_node *yoke_transpose(yoke_graph *graph, yoke_node *x, const int32_t *axes);
/* Adds a parameter that is trained like those of layers. Any number of nodes may use it; its
 * gradient is the sum over them. */
YOKE_API yoke_node *yoke_parameter(yoke_graph *graph, const char *name, yoke_shape shape,
                                   yoke_initializer initializer);

/* These are made of other operators, which files of graphs have in their place. */
/* Convolves x (C, L) with NAME.weight (filters, C / groups, 1, kernel), as conv2d does. */
typedef struct yoke_conv1d_options {
    int64_t filters, kernel, stride, pad, dilation, groups;
    const char *name; /* NULL: "conv1", ... */
    bool no_bias;
    yoke_initializer weight_init, bias_init;
} yoke_conv1d_options;
YOKE_API yoke_node *yoke_conv1d_sized(yoke_graph *graph, yoke_node *x,
                                      const yoke_conv1d_options *options, size_t size);
static inline yoke_node *
yoke_conv1d(yoke_graph *graph, yoke_node *x, const yoke_conv1d_options *options)
{
    return yoke_conv1d_sized(graph, x, options, sizeof(yoke_conv1d_options));
}
/* Normalises x (C, ...) of each sample in groups of C / groups channels, then multiplies by
 * NAME.weight (C) and adds NAME.bias (C). With C groups it is instance norm. */
typedef struct yoke_group_norm_options {
    int64_t groups;
    float epsilon;    /* 0: 1e-5 */
    bool no_affine;   /* no weight and no bias */
    const char *name; /* NULL: "gn1", ... */
} yoke_group_norm_options;
YOKE_API yoke_node *yoke_group_norm_sized(yoke_graph *graph, yoke_node *x,
                                          const yoke_group_norm_options *options, size_t size);
static inline yoke_node *
yoke_group_norm(yoke_graph *graph, yoke_node *x, const yoke_group_norm_options *options)
{
    return yoke_group_norm_sized(graph, x, options, sizeof(yoke_group_norm_options));
}
/* Multiplies what is negative in x (C, ...) by NAME.weight (C), which starts with 0.25 and is
 * trained; a name of NULL is "prelu1", ... */
YOKE_API yoke_node *yoke_prelu(yoke_graph *graph, yoke_node *x, const char *name);
/* Makes (C, rows H, columns W) of x (C, H, W), with factors from 1 to 64: each element is repeated
 * or, if `bilinear`, values between the centres of elements are interpolated. */
YOKE_API yoke_node *yoke_upsample2d(yoke_graph *graph, yoke_node *x, int64_t rows, int64_t columns,
                                    bool bilinear);
/* Adds values that never change, such as the weights of classes; they are copied. A file of the
 * model has them in its graph. */
YOKE_API yoke_node *yoke_constant(yoke_graph *graph, const char *name, yoke_shape shape,
                                  const float *values);

/* A loss is a sum with a count. The sum over the whole batch is divided once by its count, so it
 * does not matter how the batch is split over devices. */
typedef struct yoke_loss_options {
    bool has_ignore_index; /* cross-entropies: labels that are ignore_index add 0, do not count */
    int32_t ignore_index;
    float label_smoothing; /* cross-entropies: part of the target spread over all classes */
    float delta;           /* Huber loss: where the square ends; 0: 1 */
    int32_t axis;          /* softmax: of the classes; 0: the first, -1: the last */
    /* Cross-entropies: a weight for each class, (classes), such as a yoke_constant; NULL: none. */
    yoke_node *class_weights;
    /* A weight for each sample, or for each value of the target: an input or target of the shape ()
     * or of the target's; NULL: none. Weights are not negative. What has weight w adds w times its
     * loss to the sum and w to the count, so means are divided by sums of weights. Not for
     * yoke_linear_cross_entropy. */
    yoke_node *weights;
} yoke_loss_options;
/* Weigh the loss of a graph that is complete, as the options of the same names do: `class_weights`
 * (`count` values, copied; NULL: none) by a constant LOSS.class_weights, `weights` (NULL: none) by
 * a new target of this name, () for each sample. */
YOKE_API yoke_status yoke_graph_weigh_loss(yoke_graph *graph, const float *class_weights,
                                           size_t count, const char *weights);
/* Sets the label_smoothing of a loss that is a cross-entropy of labels, in a graph that is
 * complete. */
YOKE_API yoke_status yoke_graph_smooth_labels(yoke_graph *graph, float label_smoothing);
/* These take integer labels from 0 to classes - 1, and count them. x is (classes) with a scalar
 * label, or (classes, positions...) with a label for each position; with an axis of -1,
 * (positions..., classes). */
/* of logits */
YOKE_API yoke_node *yoke_softmax_cross_entropy_sized(yoke_graph *graph, yoke_node *x,
                                                     yoke_node *target,
                                                     const yoke_loss_options *options, size_t size);
static inline yoke_node *
yoke_softmax_cross_entropy(yoke_graph *graph, yoke_node *x, yoke_node *target,
                           const yoke_loss_options *options)
{
    return yoke_softmax_cross_entropy_sized(graph, x, target, options, sizeof(yoke_loss_options));
}
/* The same of the rows x weight^T, with x (..., columns) and weight (classes, columns), such as an
 * embedding's table: as if yoke_matmul gave the logits, but in chunks of rows, so that the logits
 * of a batch never exist. There is a label for each row. */
YOKE_API yoke_node *yoke_linear_cross_entropy_sized(yoke_graph *graph, yoke_node *x,
                                                    yoke_node *weight, yoke_node *target,
                                                    const yoke_loss_options *options, size_t size);
static inline yoke_node *
yoke_linear_cross_entropy(yoke_graph *graph, yoke_node *x, yoke_node *weight, yoke_node *target,
                          const yoke_loss_options *options)
{
    return yoke_linear_cross_entropy_sized(graph, x, weight, target, options,
                                           sizeof(yoke_loss_options));
}
/* of probabilities */
YOKE_API yoke_node *yoke_cross_entropy_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                                             const yoke_loss_options *options, size_t size);
static inline yoke_node *
yoke_cross_entropy(yoke_graph *graph, yoke_node *x, yoke_node *target,
                   const yoke_loss_options *options)
{
    return yoke_cross_entropy_sized(graph, x, target, options, sizeof(yoke_loss_options));
}
/* These take float targets of the shape of x, and count elements. */
/* of logits, with targets from 0 to 1 */
YOKE_API yoke_node *yoke_binary_cross_entropy_sized(yoke_graph *graph, yoke_node *x,
                                                    yoke_node *target,
                                                    const yoke_loss_options *options, size_t size);
static inline yoke_node *
yoke_binary_cross_entropy(yoke_graph *graph, yoke_node *x, yoke_node *target,
                          const yoke_loss_options *options)
{
    return yoke_binary_cross_entropy_sized(graph, x, target, options, sizeof(yoke_loss_options));
}
YOKE_API yoke_node *yoke_mean_squared_error_sized(yoke_graph *graph, yoke_node *x,
                                                  yoke_node *target,
                                                  const yoke_loss_options *options, size_t size);
static inline yoke_node *
yoke_mean_squared_error(yoke_graph *graph, yoke_node *x, yoke_node *target,
                        const yoke_loss_options *options)
{
    return yoke_mean_squared_error_sized(graph, x, target, options, sizeof(yoke_loss_options));
}
YOKE_API yoke_node *yoke_l1_loss_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                                       const yoke_loss_options *options, size_t size);
static inline yoke_node *
yoke_l1_loss(yoke_graph *graph, yoke_node *x, yoke_node *target, const yoke_loss_options *options)
{
    return yoke_l1_loss_sized(graph, x, target, options, sizeof(yoke_loss_options));
}
YOKE_API yoke_node *yoke_huber_loss_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                                          const yoke_loss_options *options, size_t size);
static inline yoke_node *
yoke_huber_loss(yoke_graph *graph, yoke_node *x, yoke_node *target,
                const yoke_loss_options *options)
{
    return yoke_huber_loss_sized(graph, x, target, options, sizeof(yoke_loss_options));
}

/* A metric is a sum with a count, as a loss is, but has no gradient. The first two count labels
 * whose class has the largest x, or is among the `k` largest. */
YOKE_API yoke_node *yoke_accuracy(yoke_graph *graph, yoke_node *x, yoke_node *target);
YOKE_API yoke_node *yoke_top_k(yoke_graph *graph, yoke_node *x, yoke_node *target, int32_t k);
YOKE_API yoke_node *yoke_mean_absolute_error(yoke_graph *graph, yoke_node *x, yoke_node *target);

/* An operator that the user writes. `source` is OpenCL C 1.2 and has these kernels, where NAME is
 * options.name. They get n samples, one after the other in memory; sizes are numbers of elements of
 * one sample:
 *
 *   __kernel void NAME_forward(inputs..., __global float *y, int n, int size of each input...,
 *                              int size of y)
 *   __kernel void NAME_backwardI(inputs..., __global const float *y, __global const float *dy,
 *                                __global float *dx, int n, int size of each input...,
 *                                int size of y)
 *
 * An input is a __global const float *, int * or uchar *, by its type. An input that does not
 * depend on the sample (a parameter) is there once, not n times. backwardI, with I from 0, is
 * needed for each input through which a gradient has to pass. It writes the gradient by input I
 * for each sample and overwrites what dx held. It does so for a parameter too; yoke then sums these
 * gradients over the samples.
 * Kernels run over one dimension, in work-groups of YOKE_GROUP items. There may be fewer or more
 * items than elements, so a kernel loops:
 *   for (int i = get_global_id(0); i < n * size; i += get_global_size(0)).
 * The planner times kernels before there is data: on zeros, and on integers in their range. */

/* The values of an integer input: begin to end - 1. Both are 0 where any value may come. */
typedef struct yoke_range {
    int64_t begin, end;
} yoke_range;
typedef struct yoke_custom_options {
    const char *name;   /* an identifier of C such as "swish"; names kernels, nodes and errors */
    const char *source; /* copied */
    /* Computes the shape of the result from those of the inputs; returns false if they do not fit.
     * yoke_custom calls it once, before it returns. NULL: the shape of the first input. */
    bool (*shape)(void *user, const yoke_shape *in, size_t count, yoke_shape *out);
    void *user;       /* for `shape` */
    bool no_backward; /* gradients stop here, so no backward kernel is needed */
    /* One range for each input; a value outside is an error of the call that gives it. Copied.
     * NULL: none. */
    const yoke_range *ranges;
} yoke_custom_options;
/* Adds an operator of the user's with at most 6 inputs. The source is compiled when a replica or a
 * trainer is made; an error in it is YOKE_ERROR_BUILD then. */
YOKE_API yoke_node *yoke_custom_sized(yoke_graph *graph, yoke_node *const *inputs, size_t count,
                                      const yoke_custom_options *options, size_t size);
static inline yoke_node *
yoke_custom(yoke_graph *graph, yoke_node *const *inputs, size_t count,
            const yoke_custom_options *options)
{
    return yoke_custom_sized(graph, inputs, count, options, sizeof(yoke_custom_options));
}

/* ------------------------------------------------------- built-in models */

/* What a model takes and predicts. */
typedef enum yoke_zoo_kind {
    YOKE_ZOO_ROWS = 0, /* samples of any shape; a label or values */
    YOKE_ZOO_IMAGES,   /* (channels, height, width); a label or values */
    YOKE_ZOO_PIXELS,   /* images; a label for each pixel, or maps of values */
    YOKE_ZOO_COPIES,   /* images, which it learns to predict themselves */
    YOKE_ZOO_TEXTS     /* tokens; the next of each */
} yoke_zoo_kind;

/* A built-in model as it is without options. Sizes that it does not have are 0. */
typedef struct yoke_zoo_model {
    const char *name, *summary;
    yoke_zoo_kind kind;
    yoke_shape input;
    int64_t classes; /* of labels; 0: it predicts values */
    int64_t layers, heads, width, context, vocabulary, shared, inner;
} yoke_zoo_model;

/* Zeros are the model's own. A size that a model does not have is an error. */
typedef struct yoke_zoo_options {
    yoke_shape input;   /* of a sample; of texts (tokens), at most `context` of them */
    int64_t classes;    /* of labels */
    yoke_shape target;  /* of a rank above 0: predict values of this shape, not a class */
    int64_t width;      /* of texts, numbers for each token; of maps, how many there are at first */
    int64_t layers;     /* of texts, as all below */
    int64_t heads;      /* of attention; they divide the width */
    int64_t shared;     /* heads of keys and values; they divide the heads */
    int64_t inner;      /* the width inside a gated layer */
    int64_t context;    /* the most tokens that it looks back at */
    int64_t vocabulary; /* tokens are from 0 to vocabulary - 1 */
    float dropout;      /* in training: of embeddings, of weights of attention, and of what layers
                         * add to rows */
    float epsilon;      /* of norms; 0: 1e-5 */
    float base;         /* of rotary positions; 0: 10000 */
    bool tied;          /* the head is the embedding, as that of gpt always is */
    /* NULL: "image" or "tokens"; "label", "value" or "next" */
    const char *input_name, *target_name;
    /* Of values: their mean and standard deviation, one of each for all or one for each index of
     * the first axis, at most 16. The model learns values of mean 0 and deviation 1, and predicts
     * them in their own units. A count of 0: they are learned as they are. */
    size_t spread_count;
    const float *mean, *deviation;
} yoke_zoo_options;

/* Makes the graph of a built-in model: its input and target, an output "logits", or "prediction" of
 * values, a loss and metrics. Names of parameters are those of torchvision or Hugging Face where
 * they have the model. YOKE_ERROR_NOT_FOUND: there is no such model; the error names a near one. */
YOKE_API yoke_status yoke_zoo_sized(const char *name, const yoke_zoo_options *options, size_t size,
                                    yoke_graph **graph);
static inline yoke_status
yoke_zoo(const char *name, const yoke_zoo_options *options, yoke_graph **graph)
{
    return yoke_zoo_sized(name, options, sizeof(yoke_zoo_options), graph);
}
/* Returns a built-in model, in an order that stays; NULL: there are no more. Lent. */
YOKE_API const yoke_zoo_model *yoke_zoo_get(size_t index);

#ifdef __cplusplus
}
#endif
#endif
