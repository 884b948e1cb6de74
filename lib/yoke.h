/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke.h - train neural networks on every OpenCL device within reach.
 *
 * This is a header, not the manual: `man 7 yoke` is the tour, and every
 * function has its page. Conventions that hold throughout:
 *
 *  - `create` gives (the caller destroys), `destroy` takes (NULL is fine, it
 *    never fails), `get` lends for the life of the object it came from.
 *    Children keep their parents alive, so the order of destruction is free.
 *  - Every function that can fail returns yoke_status; outputs come last and
 *    are written only on success. yoke_last_error() tells this thread more.
 *  - Options are structs whose zero is the default; NULL means all defaults.
 *  - One object, one thread at a time, except yoke_context, which is locked
 *    inside and may be shared.
 */
#ifndef YOKE_H
#define YOKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define YOKE_API __attribute__((visibility("default")))
#else
#define YOKE_API
#endif

/* ---------------------------------------------------------------- status */

/* Code, name without prefix, message: the one table of what can go wrong. */
#define YOKE_STATUS_MAP(X)                                                                         \
    X(0, OK, "success")                                                                            \
    X(-1, ERROR_INVALID_ARGUMENT, "invalid argument")                                              \
    X(-2, ERROR_OUT_OF_MEMORY, "out of host memory")                                               \
    X(-3, ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory")                                      \
    X(-4, ERROR_QUOTA, "the device's memory quota is used up")                                     \
    X(-5, ERROR_NO_OPENCL, "no OpenCL driver is installed")                                        \
    X(-6, ERROR_NO_DEVICE, "no such device")                                                       \
    X(-7, ERROR_SELECTOR, "bad device selector")                                                   \
    X(-8, ERROR_BUSY, "in use")                                                                    \
    X(-9, ERROR_UNSUPPORTED, "not supported")                                                      \
    X(-10, ERROR_BUILD, "a kernel does not compile")                                               \
    X(-11, ERROR_DEVICE, "an OpenCL call failed")                                                  \
    X(-12, ERROR_IO, "a file cannot be read or written")                                           \
    X(-13, ERROR_FORMAT, "a file is damaged or of the wrong kind")                                 \
    X(-14, ERROR_NOT_FOUND, "no such name")                                                        \
    X(-15, ERROR_STATE, "not possible in this state")                                              \
    X(-16, ERROR_SHAPE, "shapes do not fit")                                                       \
    X(-17, ERROR_TYPE, "types do not fit")                                                         \
    X(-18, ERROR_VALUE, "a value is out of range")                                                 \
    X(-19, ERROR_COMM, "communication between processes failed")                                   \
    X(-20, ERROR_STOPPED, "stopped on request")                                                    \
    X(-21, ERROR_INTERNAL, "a mistake in yoke itself")

typedef enum yoke_status {
#define YOKE_STATUS_ENUM(code, name, message) YOKE_##name = code,
    YOKE_STATUS_MAP(YOKE_STATUS_ENUM)
#undef YOKE_STATUS_ENUM
        YOKE_STATUS_RESERVED = -0x7fff
} yoke_status;

/* Name ("YOKE_ERROR_QUOTA") and message of a code; constant strings, also for unknown codes. */
YOKE_API const char *yoke_status_name(yoke_status status);
YOKE_API const char *yoke_status_string(yoke_status status);

/* One sentence on this thread's last failure: which argument, device, file, build log.
 * "" before the first. Valid until this thread's next failing call. */
YOKE_API const char *yoke_last_error(void);

/* For callbacks and tables that an application fills in: makes `sentence` (up to some thousand
 * bytes of it) this thread's yoke_last_error() and returns `status`. */
YOKE_API yoke_status yoke_fail(yoke_status status, const char *sentence);

/* Frees memory that yoke gave away. NULL is fine. */
YOKE_API void yoke_free(void *memory);

/* The library's version, "0.1.0". */
YOKE_API const char *yoke_version(void);

/* ------------------------------------------------------------------- log */

typedef enum yoke_log_level {
    YOKE_LOG_ERROR = 0,
    YOKE_LOG_WARNING = 1,
    YOKE_LOG_INFO = 2,
    YOKE_LOG_DEBUG = 3
} yoke_log_level;

/* Called with one line, no newline, from any thread; must not call yoke. */
typedef void (*yoke_log_callback)(void *user, yoke_log_level level, const char *line);

/* The library never prints: lines up to `level` go to `callback`; NULL, the default, drops them. */
YOKE_API void yoke_log_set(yoke_log_callback callback, void *user, yoke_log_level level);

/* Adds a line of another's, a transport's say, to the log. */
YOKE_API void yoke_log_write(yoke_log_level level, const char *line);

/* --------------------------------------------------------------- context */

/* Knows every OpenCL device of this host, and owns compiled kernels and their cache. */
typedef struct yoke_context yoke_context;

typedef struct yoke_context_options {
    const char *cache_dir; /* compiled kernels; NULL: $YOKE_CACHE_DIR, else $XDG_CACHE_HOME/yoke */
    bool no_cache;         /* keep nothing on disk */
} yoke_context_options;

/* Lists the devices of every platform, less those that $YOKE_VISIBLE_DEVICES hides. A broken
 * platform is a warning (log) and a problem (below); none at all is YOKE_ERROR_NO_OPENCL with the
 * package to install. */
YOKE_API yoke_status yoke_context_create_sized(const yoke_context_options *options, size_t size,
                                               yoke_context **context);
static inline yoke_status
yoke_context_create(const yoke_context_options *options, yoke_context **context)
{
    return yoke_context_create_sized(options, sizeof(yoke_context_options), context);
}
YOKE_API void yoke_context_destroy(yoke_context *context);

/* Platforms that were found but cannot be used, a sentence each; lent. */
YOKE_API size_t yoke_context_problem_count(const yoke_context *context);
YOKE_API const char *yoke_context_get_problem(const yoke_context *context, size_t index);

/* --------------------------------------------------------------- devices */

/* A logical device: a whole OpenCL device, a sub-device, or a slice. */
typedef struct yoke_device yoke_device;

typedef enum yoke_device_type {
    YOKE_DEVICE_GPU = 0,
    YOKE_DEVICE_CPU = 1,
    YOKE_DEVICE_ACCELERATOR = 2 /* also simulators, which claim every type */
} yoke_device_type;

typedef enum yoke_virtual_kind {
    YOKE_VIRTUAL_NONE = 0,      /* a whole device */
    YOKE_VIRTUAL_SUBDEVICE = 1, /* its own compute units, by clCreateSubDevices */
    YOKE_VIRTUAL_SLICE = 2      /* own queues and quota, shared hardware */
} yoke_virtual_kind;

/* How a device can be partitioned, or-ed. */
#define YOKE_PARTITION_EQUALLY   1u
#define YOKE_PARTITION_BY_COUNTS 2u
#define YOKE_PARTITION_NUMA      4u

typedef struct yoke_device_info {
    char id[64]; /* "cpu:0", "cpu:0/2.1": accepted by every selector */
    char name[128];
    char vendor[128];
    char platform[128];
    char driver[128];
    char version[128];  /* the OpenCL version string */
    char parent[64];    /* id of the whole device; its own for a whole one */
    char hardware[64];  /* identity of the chip: "pci:0000:01:00.0", "uuid:...", "host-cpu" */
    char preferred[64]; /* id of the driver that `all` takes for this hardware */
    yoke_device_type type;
    yoke_virtual_kind virtual_kind;
    uint32_t partition; /* YOKE_PARTITION_* that the driver offers */
    uint32_t compute_units;
    uint32_t vector_width;   /* native float lanes */
    bool host_memory;        /* device memory is the host's */
    bool fp16, fp64;         /* fp16 by compiling, not by extension string */
    uint64_t memory;         /* bytes of the hardware; shared by all its parts */
    uint64_t max_allocation; /* bytes, largest single buffer */
    uint64_t quota;          /* bytes this logical device may use; 0: no limit but memory */
} yoke_device_info;

typedef struct yoke_memory_usage {
    uint64_t quota; /* 0: none */
    uint64_t used;
    uint64_t peak;
} yoke_memory_usage;

/* Whole devices in the order of their ids: GPUs, CPUs, accelerators. Lent. */
YOKE_API size_t yoke_context_device_count(const yoke_context *context);
YOKE_API yoke_device *yoke_context_get_device(yoke_context *context, size_t index);

/* What a device is. May compile a probe the first time (fp16). */
YOKE_API yoke_status yoke_device_get_info_sized(yoke_device *device, yoke_device_info *info,
                                                size_t size);
static inline yoke_status
yoke_device_get_info(yoke_device *device, yoke_device_info *info)
{
    return yoke_device_get_info_sized(device, info, sizeof(yoke_device_info));
}
/* Bytes allocated by yoke on this logical device. Any thread. */
YOKE_API yoke_status yoke_device_get_memory_sized(yoke_device *device, yoke_memory_usage *usage,
                                                  size_t size);
static inline yoke_status
yoke_device_get_memory(yoke_device *device, yoke_memory_usage *usage)
{
    return yoke_device_get_memory_sized(device, usage, sizeof(yoke_memory_usage));
}

/* ------------------------------------------------------------- selection */

/* Logical devices picked by a selector such as "all", "gpu", "gpu:1", "cpu:0/2",
 * "cpu:0/1+3", "cpu:0/numa", "gpu:0/4@1GiB", "name~llvmpipe", in lists with commas.
 * While it lives it holds its hardware in that split. */
typedef struct yoke_selection yoke_selection;

typedef struct yoke_selection_options {
    const char *holder; /* named to others who want another split; NULL: "a selection" */
} yoke_selection_options;

/* NULL selector: $YOKE_DEVICES, else "all". Splits devices as needed. Another split of held
 * hardware is YOKE_ERROR_BUSY and names the holder; a bad token is YOKE_ERROR_SELECTOR. */
YOKE_API yoke_status yoke_selection_create_sized(yoke_context *context, const char *selector,
                                                 const yoke_selection_options *options, size_t size,
                                                 yoke_selection **selection);
static inline yoke_status
yoke_selection_create(yoke_context *context, const char *selector,
                      const yoke_selection_options *options, yoke_selection **selection)
{
    return yoke_selection_create_sized(context, selector, options, sizeof(yoke_selection_options),
                                       selection);
}
YOKE_API void yoke_selection_destroy(yoke_selection *selection);
YOKE_API size_t yoke_selection_count(const yoke_selection *selection);
YOKE_API yoke_device *yoke_selection_get(const yoke_selection *selection, size_t index);

/* --------------------------------------------------------------- measure */

typedef struct yoke_overlap {
    double alone_seconds;    /* the longest of the devices, each running alone */
    double together_seconds; /* all running at once */
} yoke_overlap;

/* How well logical devices run side by side: one compute-bound load on each, alone and
 * together (medians of `repeats`, 0: 5). Waits. */
YOKE_API yoke_status yoke_selection_measure_overlap_sized(yoke_selection *selection,
                                                          unsigned repeats, yoke_overlap *overlap,
                                                          size_t size);
static inline yoke_status
yoke_selection_measure_overlap(yoke_selection *selection, unsigned repeats, yoke_overlap *overlap)
{
    return yoke_selection_measure_overlap_sized(selection, repeats, overlap, sizeof(yoke_overlap));
}

/* The limits of a device: what fractions of the peak are fractions of. */
typedef struct yoke_peak {
    double gflops;                /* 1e9 float32 operations a second, by multiply-adds */
    double triad_gbytes;          /* 1e9 bytes a second, two read for each written */
    double copy_gbytes;           /* ... one read for each written */
    double launch_seconds;        /* of an empty launch, queued back to back */
    double waited_launch_seconds; /* ... waited for */
} yoke_peak;

/* Measures them, in about a second. Waits. */
YOKE_API yoke_status yoke_device_measure_peak_sized(yoke_device *device, yoke_peak *peak,
                                                    size_t size);
static inline yoke_status
yoke_device_measure_peak(yoke_device *device, yoke_peak *peak)
{
    return yoke_device_measure_peak_sized(device, peak, sizeof(yoke_peak));
}

/* ----------------------------------------------------------------- graph */

/* A network, described for one sample; the batch is given when it runs. A graph keeps its first
 * error with the node's name; later calls return NULL, and what compiles it returns the error. */
typedef struct yoke_graph yoke_graph;
/* A result in a graph; lent by it. NULL inputs are taken as "an error happened before". */
typedef struct yoke_node yoke_node;

typedef enum yoke_type { YOKE_F32 = 0, YOKE_I32 = 1, YOKE_U8 = 2 } yoke_type;

#define YOKE_MAX_RANK 8

/* Sizes of one sample, outermost first; rank 0 is a scalar. */
typedef struct yoke_shape {
    int32_t rank;
    int32_t reserved;
    int64_t dim[YOKE_MAX_RANK];
} yoke_shape;

static inline yoke_shape
yoke_shape_make(int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f,
                int64_t g, int64_t h)
{
    yoke_shape shape;

    shape.rank = rank;
    shape.reserved = 0;
    shape.dim[0] = a;
    shape.dim[1] = b;
    shape.dim[2] = c;
    shape.dim[3] = d;
    shape.dim[4] = e;
    shape.dim[5] = f;
    shape.dim[6] = g;
    shape.dim[7] = h;
    return shape;
}
#define YOKE_SHAPE_ARGS(r, a, b, c, d, e, f, g, h, ...)                                            \
    yoke_shape_make((r), (a), (b), (c), (d), (e), (f), (g), (h))
/* yoke_shape(3, 1, 28, 28): the rank, then the sizes. */
#define yoke_shape(...) YOKE_SHAPE_ARGS(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0)

YOKE_API yoke_status yoke_graph_create(yoke_graph **graph);
YOKE_API void yoke_graph_destroy(yoke_graph *graph);
/* The first error of building it, with the node's name in yoke_last_error(). Once a trainer or a
 * replica was made of it a graph takes no change: YOKE_ERROR_STATE, and those go on as before. */
YOKE_API yoke_status yoke_graph_status(const yoke_graph *graph);
/* What each batch brings: data ("image") and targets ("label"). */
YOKE_API yoke_node *yoke_input(yoke_graph *graph, const char *name, yoke_type type,
                               yoke_shape shape);
YOKE_API yoke_node *yoke_target(yoke_graph *graph, const char *name, yoke_type type,
                                yoke_shape shape);
/* Names a result that evaluation returns. */
YOKE_API void yoke_graph_set_output(yoke_graph *graph, const char *name, yoke_node *node);
/* What training minimises: a loss node, or a scalar per sample. Losses and metrics are no operands
 * of other nodes. */
YOKE_API void yoke_graph_set_loss(yoke_graph *graph, yoke_node *loss);
/* Reported beside the loss: a metric, a loss, or a scalar per sample. */
YOKE_API void yoke_graph_add_metric(yoke_graph *graph, const char *name, yoke_node *metric);
/* Metrics in the order in which results have them; NULL from get: there is none. Lent. */
YOKE_API size_t yoke_graph_metric_count(const yoke_graph *graph);
YOKE_API const char *yoke_graph_get_metric_name(const yoke_graph *graph, size_t index);
/* Parameters whose names match the pattern (* and ?) are not trained, or are again. Holds for
 * replicas made afterwards; what was frozen when the first one for training was made stays so. */
YOKE_API yoke_status yoke_graph_freeze(yoke_graph *graph, const char *pattern);
YOKE_API yoke_status yoke_graph_unfreeze(yoke_graph *graph, const char *pattern);
/* Nodes made from here on belong to this place (NULL: to none); a team binds places to devices
 * (yoke_team_bind_place), and what crosses from one to another is copied. */
YOKE_API void yoke_graph_set_place(yoke_graph *graph, const char *place);
/* Gives each line of a table of layers, output shapes, parameters and FLOPs to `line`. */
YOKE_API yoke_status yoke_graph_print(const yoke_graph *graph,
                                      void (*line)(void *user, const char *text), void *user);
/* A graph as JSON, which a person can write too (yoke-files(7)), and back: the same names, shapes
 * and initial values. The text ends with a 0; yoke_free() it. */
YOKE_API yoke_status yoke_graph_to_json(const yoke_graph *graph, char **text);
YOKE_API yoke_status yoke_graph_from_json(const char *text, size_t length, yoke_graph **graph);
YOKE_API yoke_node *yoke_graph_get_node(const yoke_graph *graph, const char *name);
YOKE_API const char *yoke_node_name(const yoke_node *node);
YOKE_API yoke_shape yoke_node_shape(const yoke_node *node);
YOKE_API yoke_type yoke_node_type(const yoke_node *node);

/* Parameters in the order in which gradients, optimizer state and files keep them. */
YOKE_API size_t yoke_graph_parameter_count(const yoke_graph *graph);
YOKE_API yoke_node *yoke_graph_get_parameter(const yoke_graph *graph, size_t index);

/* How a parameter starts. Computed on the host from the seed and the parameter's position. */
typedef enum yoke_init_kind {
    YOKE_INIT_DEFAULT = 0, /* PyTorch's: Kaiming uniform, a = sqrt(5), for weights and biases */
    YOKE_INIT_ZEROS,
    YOKE_INIT_CONSTANT,       /* a */
    YOKE_INIT_UNIFORM,        /* a .. b */
    YOKE_INIT_NORMAL,         /* mean a, deviation b */
    YOKE_INIT_XAVIER_UNIFORM, /* gain a, 0: 1 */
    YOKE_INIT_XAVIER_NORMAL,
    YOKE_INIT_KAIMING_UNIFORM, /* gain a, 0: sqrt 2; fan in */
    YOKE_INIT_KAIMING_NORMAL
} yoke_init_kind;

typedef struct yoke_initializer {
    yoke_init_kind kind;
    float a, b;
    uint32_t reserved;
} yoke_initializer;

/* ------------------------------------------------------------- operators */

/* x @ W^T + b over the last axis; parameters NAME.weight (units, in), NAME.bias (units). */
typedef struct yoke_dense_options {
    int64_t units;
    const char *name; /* NULL: "dense1", ... */
    bool no_bias;
    yoke_initializer weight_init, bias_init;
} yoke_dense_options;
/* (C, H, W) by (filters, C / groups, kh, kw); zeros mean stride 1, pad 0, dilation 1, groups 1. */
typedef struct yoke_conv2d_options {
    int64_t filters;
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t groups;
    const char *name; /* NULL: "conv1", ... */
    bool no_bias;
    yoke_initializer weight_init, bias_init;
} yoke_conv2d_options;
/* The gradient of conv2d by its input, as a layer; weight (C, filters / groups, kh, kw). */
typedef struct yoke_conv_transpose2d_options {
    int64_t filters;
    int64_t kernel[2], stride[2], pad[2], dilation[2], output_pad[2];
    int64_t groups;
    const char *name; /* NULL: "convt1", ... */
    bool no_bias;
    yoke_initializer weight_init, bias_init;
} yoke_conv_transpose2d_options;
/* Stride 0 means the kernel's size. */
typedef struct yoke_pool2d_options {
    int64_t kernel[2], stride[2], pad[2];
    bool ceil_mode;
    bool exclude_pad; /* average: divide by the elements inside the input */
} yoke_pool2d_options;
typedef struct yoke_batch_norm_options {
    float epsilon;  /* 0: 1e-5 */
    float momentum; /* weight of the new statistics; 0: 0.1 */
    bool local;     /* statistics per device instead of over the whole batch */
    bool no_affine;
    const char *name; /* NULL: "bn1", ... */
} yoke_batch_norm_options;
typedef struct yoke_layer_norm_options {
    int32_t axes;  /* how many last axes; 0: all */
    float epsilon; /* 0: 1e-5 */
    bool no_affine;
    const char *name; /* NULL: "ln1", ... */
} yoke_layer_norm_options;
typedef struct yoke_embedding_options {
    int64_t rows, width;
    const char *name;             /* NULL: "embedding1", ... */
    yoke_initializer weight_init; /* default: normal(0, 1) */
} yoke_embedding_options;
typedef struct yoke_matmul_options {
    bool transpose_a, transpose_b;
} yoke_matmul_options;

#define YOKE_OP_WITH_OPTIONS(op, options_type)                                                     \
    YOKE_API yoke_node *yoke_##op##_sized(yoke_graph *graph, yoke_node *x,                         \
                                          const options_type *options, size_t size);               \
    static inline yoke_node *yoke_##op(yoke_graph *graph, yoke_node *x,                            \
                                       const options_type *options)                                \
    {                                                                                              \
        return yoke_##op##_sized(graph, x, options, sizeof(options_type));                         \
    }
YOKE_OP_WITH_OPTIONS(dense, yoke_dense_options)
YOKE_OP_WITH_OPTIONS(conv2d, yoke_conv2d_options)
YOKE_OP_WITH_OPTIONS(conv_transpose2d, yoke_conv_transpose2d_options)
YOKE_OP_WITH_OPTIONS(maxpool2d, yoke_pool2d_options)
YOKE_OP_WITH_OPTIONS(avgpool2d, yoke_pool2d_options)
YOKE_OP_WITH_OPTIONS(batch_norm, yoke_batch_norm_options)
YOKE_OP_WITH_OPTIONS(layer_norm, yoke_layer_norm_options)
YOKE_OP_WITH_OPTIONS(embedding, yoke_embedding_options)

/* (..., M, K) @ (..., K, N); leading axes broadcast. */
YOKE_API yoke_node *yoke_matmul_sized(yoke_graph *graph, yoke_node *a, yoke_node *b,
                                      const yoke_matmul_options *options, size_t size);
static inline yoke_node *
yoke_matmul(yoke_graph *graph, yoke_node *a, yoke_node *b, const yoke_matmul_options *options)
{
    return yoke_matmul_sized(graph, a, b, options, sizeof(yoke_matmul_options));
}

YOKE_API yoke_node *yoke_relu(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_leaky_relu(yoke_graph *graph, yoke_node *x, float slope);
YOKE_API yoke_node *yoke_elu(yoke_graph *graph, yoke_node *x, float alpha);
YOKE_API yoke_node *yoke_gelu(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_silu(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_hardswish(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_sigmoid(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_tanh(yoke_graph *graph, yoke_node *x);
YOKE_API yoke_node *yoke_scale(yoke_graph *graph, yoke_node *x, float factor, float offset);
YOKE_API yoke_node *yoke_add(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_sub(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_mul(yoke_graph *graph, yoke_node *a, yoke_node *b);
YOKE_API yoke_node *yoke_dropout(yoke_graph *graph, yoke_node *x, float probability);
/* Axes count the sample's: 0 is the outermost. */
YOKE_API yoke_node *yoke_softmax(yoke_graph *graph, yoke_node *x, int32_t axis);
YOKE_API yoke_node *yoke_sum(yoke_graph *graph, yoke_node *x, const int32_t *axes, int32_t count);
YOKE_API yoke_node *yoke_mean(yoke_graph *graph, yoke_node *x, const int32_t *axes, int32_t count);
YOKE_API yoke_node *yoke_global_avgpool(yoke_graph *graph, yoke_node *x);
/* A part that does not depend on the sample serves every one. */
YOKE_API yoke_node *yoke_concat(yoke_graph *graph, yoke_node *const *parts, size_t count,
                                int32_t axis);
/* begin .. end - 1 of an axis. */
YOKE_API yoke_node *yoke_slice(yoke_graph *graph, yoke_node *x, int32_t axis, int64_t begin,
                               int64_t end);
YOKE_API yoke_node *yoke_reshape(yoke_graph *graph, yoke_node *x, yoke_shape shape);
YOKE_API yoke_node *yoke_flatten(yoke_graph *graph, yoke_node *x);
/* Axis i of the result is axis axes[i] of x; as many as x has. NULL: in reverse. */
YOKE_API yoke_node *yoke_transpose(yoke_graph *graph, yoke_node *x, const int32_t *axes);
/* A parameter of one's own, to be used by any number of nodes. */
YOKE_API yoke_node *yoke_parameter(yoke_graph *graph, const char *name, yoke_shape shape,
                                   yoke_initializer initializer);

/* Losses: a sum with a count, divided once, over the whole batch. */
typedef struct yoke_loss_options {
    bool has_ignore_index; /* cross-entropies: samples or positions with this label do not count */
    int32_t ignore_index;
    float label_smoothing;
    float delta; /* Huber; 0: 1 */
} yoke_loss_options;
#define YOKE_LOSS(op)                                                                              \
    YOKE_API yoke_node *yoke_##op##_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,      \
                                          const yoke_loss_options *options, size_t size);          \
    static inline yoke_node *yoke_##op(yoke_graph *graph, yoke_node *x, yoke_node *target,         \
                                       const yoke_loss_options *options)                           \
    {                                                                                              \
        return yoke_##op##_sized(graph, x, target, options, sizeof(yoke_loss_options));            \
    }
/* Integer targets; x is (classes) or (classes, positions...); counts labels. */
YOKE_LOSS(softmax_cross_entropy)
YOKE_LOSS(cross_entropy) /* the same on probabilities */
/* Targets of x's shape and type; count elements. */
YOKE_LOSS(binary_cross_entropy) /* on logits */
YOKE_LOSS(mean_squared_error)
YOKE_LOSS(l1_loss)
YOKE_LOSS(huber_loss)

/* Metrics: likewise a sum with a count. */
YOKE_API yoke_node *yoke_accuracy(yoke_graph *graph, yoke_node *x, yoke_node *target);
YOKE_API yoke_node *yoke_top_k(yoke_graph *graph, yoke_node *x, yoke_node *target, int32_t k);
YOKE_API yoke_node *yoke_mean_absolute_error(yoke_graph *graph, yoke_node *x, yoke_node *target);

/* A user's operator. `source` is OpenCL C 1.2 with these kernels, NAME being options.name; all
 * are called with n samples, one after the other in memory, and sizes in elements per sample:
 *
 *   __kernel void NAME_forward(inputs..., __global float *y, int n, int size of each input...,
 *                              int size of y)
 *   __kernel void NAME_backwardI(inputs..., __global const float *y, __global const float *dy,
 *                                __global float *dx, int n, int size of each input...,
 *                                int size of y)
 *
 * An input is a __global const float *, int * or uchar *, as its type is; one that does not depend
 * on the sample (a parameter) is there once, not n times. backwardI, for I from 0, is needed for
 * each input that a gradient has to pass: it writes, for each sample and overwriting what dx
 * held, the gradient by input I; for a parameter too, whose samples are summed afterwards.
 * Kernels run over one dimension, in groups of YOKE_GROUP items, fewer or more than elements:
 *   for (int i = get_global_id(0); i < n * size; i += get_global_size(0)).
 * They are timed before there is data: on zeros, and on integers in their range. */

/* Values of an integer input: begin .. end - 1; both 0: any. */
typedef struct yoke_range {
    int64_t begin, end;
} yoke_range;
typedef struct yoke_custom_options {
    const char *name;   /* "swish": an identifier of C; names kernels, nodes and errors */
    const char *source; /* copied */
    /* The result's shape, false: not from these. Asked once, at once; NULL: as the first input. */
    bool (*shape)(void *user, const yoke_shape *in, size_t count, yoke_shape *out);
    void *user;
    bool no_backward;         /* gradients stop here */
    const yoke_range *ranges; /* of each input; what is given is checked. Copied; NULL: none */
} yoke_custom_options;
/* At most 6 inputs; copies the array. */
YOKE_API yoke_node *yoke_custom_sized(yoke_graph *graph, yoke_node *const *inputs, size_t count,
                                      const yoke_custom_options *options, size_t size);
static inline yoke_node *
yoke_custom(yoke_graph *graph, yoke_node *const *inputs, size_t count,
            const yoke_custom_options *options)
{
    return yoke_custom_sized(graph, inputs, count, options, sizeof(yoke_custom_options));
}

/* ------------------------------------------------------------- optimizer */

typedef enum yoke_optimizer_kind {
    YOKE_SGD = 0,
    YOKE_ADAM = 1,
    YOKE_ADAMW = 2,
    YOKE_RMSPROP = 3
} yoke_optimizer_kind;

/* By value; the functions below fill in PyTorch's defaults. */
typedef struct yoke_optimizer {
    yoke_optimizer_kind kind;
    float learning_rate;
    float momentum;     /* SGD, RMSprop */
    float beta1, beta2; /* Adam; beta2 is RMSprop's alpha */
    float epsilon;
    float weight_decay; /* AdamW: decoupled; else added to the gradient */
    uint32_t nesterov;  /* SGD */
    uint32_t reserved[8];
} yoke_optimizer;

YOKE_API yoke_optimizer yoke_sgd(float learning_rate, float momentum);
YOKE_API yoke_optimizer yoke_adam(float learning_rate);
YOKE_API yoke_optimizer yoke_adamw(float learning_rate, float weight_decay);
YOKE_API yoke_optimizer yoke_rmsprop(float learning_rate);

typedef enum yoke_schedule_kind {
    YOKE_SCHEDULE_CONSTANT = 0,
    YOKE_SCHEDULE_STEP,     /* times `factor` every `period` steps */
    YOKE_SCHEDULE_COSINE,   /* from 1 to `final_factor`, all in `steps` */
    YOKE_SCHEDULE_LINEAR,   /* from 1 to `final_factor`, all in `steps` */
    YOKE_SCHEDULE_ONE_CYCLE /* from `initial` up to 1 in `warmup` steps, and down to `final_factor`,
                             * both by cosine, all in `steps` */
} yoke_schedule_kind;

/* What the learning rate is multiplied with at each step. `warmup` steps of growth come first with
 * every kind, linear but for ONE_CYCLE; `steps` counts them in, `period` begins after them. */
typedef struct yoke_schedule {
    yoke_schedule_kind kind;
    float factor, initial, final_factor;
    int64_t warmup, period, steps;
    uint32_t reserved[4];
} yoke_schedule;

/* The factor at a step, counted from 0. NULL: 1. NaN, and yoke_last_error() says why: the step is
 * negative, or the schedule is one that yoke_trainer_create refuses. */
YOKE_API float yoke_schedule_factor(const yoke_schedule *schedule, int64_t step);

/* Parameters whose name matches take these instead: the first pattern that matches counts. */
typedef struct yoke_parameter_group {
    const char *pattern;       /* "*.bias" */
    float learning_rate_scale; /* 0: 1 */
    float weight_decay;
    bool has_weight_decay;
    uint32_t reserved[4];
} yoke_parameter_group;

/* --------------------------------------------------------------- replica */

/* A graph with its parameters, gradients and optimizer state on one device, compiled for batches
 * up to a size: what a training loop of one's own is made of. Calls enqueue unless they say that
 * they wait; an error of enqueued work is returned by the next call that waits. */
typedef struct yoke_replica yoke_replica;

typedef enum yoke_plan_level {
    YOKE_PLAN_MEASURE = 0, /* solvers are measured for some seconds, and remembered */
    YOKE_PLAN_ESTIMATE,    /* nothing is measured */
    YOKE_PLAN_PATIENT      /* measured for up to ten minutes */
} yoke_plan_level;

typedef enum yoke_memory_choice {
    YOKE_MEMORY_FAST = 0, /* what backward reads is kept */
    YOKE_MEMORY_SMALL     /* what is cheap to compute is computed again; same bits, less memory */
} yoke_memory_choice;

typedef struct yoke_replica_options {
    int64_t batch;        /* the largest */
    uint32_t seed;        /* initial values and dropout */
    bool evaluation_only; /* no gradients, no optimizer state */
    bool strict;          /* no Winograd: sums in the direct order only */
    yoke_plan_level level;
    yoke_optimizer optimizer;           /* zero: SGD with rate 0.01 */
    const yoke_parameter_group *groups; /* copied */
    size_t group_count;
    float clip_norm;    /* 0: none; of all gradients together, after the division */
    float clip_value;   /* 0: none; of each element */
    const char *wisdom; /* file of measured times; NULL: $YOKE_WISDOM, else in the cache */
    yoke_memory_choice memory;
} yoke_replica_options;

/* Takes hold of the graph; compiles it and initialises the parameters. Waits. */
YOKE_API yoke_status yoke_replica_create_sized(yoke_device *device, yoke_graph *graph,
                                               const yoke_replica_options *options, size_t size,
                                               yoke_replica **replica);
static inline yoke_status
yoke_replica_create(yoke_device *device, yoke_graph *graph, const yoke_replica_options *options,
                    yoke_replica **replica)
{
    return yoke_replica_create_sized(device, graph, options, sizeof(yoke_replica_options), replica);
}
YOKE_API void yoke_replica_destroy(yoke_replica *replica);

/* Parameters and states by name, from and to host arrays of exactly `count` floats. Wait. */
YOKE_API yoke_status yoke_replica_write(yoke_replica *replica, const char *name,
                                        const float *values, size_t count);
YOKE_API yoke_status yoke_replica_read(yoke_replica *replica, const char *name, float *values,
                                       size_t count);
/* Gradients: sums over the samples, not divided. Waits. */
YOKE_API yoke_status yoke_replica_read_gradient(yoke_replica *replica, const char *name,
                                                float *values, size_t count);
/* The model alone, as yoke_trainer_save. Waits. */
YOKE_API yoke_status yoke_replica_save(yoke_replica *replica, const char *path);
/* New initial values; optimizer state and step number start again. Waits. */
YOKE_API yoke_status yoke_replica_initialize(yoke_replica *replica, uint32_t seed);

/* Values in host memory for the input or target of this name: those of all samples, one after the
 * other. Type and count are checked before any is read. */
typedef struct yoke_feed {
    const char *name;
    yoke_type type;    /* of the input, and of what `data` points to */
    const void *data;  /* may be reused when the call returns */
    int64_t count;     /* values: samples times the values of one */
    uint64_t reserved; /* 0 */
} yoke_feed;

static inline yoke_feed
yoke_feed_make(const char *name, yoke_type type, const void *data, int64_t count)
{
    yoke_feed feed;

    feed.name = name;
    feed.type = type;
    feed.data = data;
    feed.count = count;
    feed.reserved = 0;
    return feed;
}
static inline yoke_feed
yoke_feed_f32(const char *name, const float *values, int64_t count)
{
    return yoke_feed_make(name, YOKE_F32, values, count);
}
static inline yoke_feed
yoke_feed_i32(const char *name, const int32_t *values, int64_t count)
{
    return yoke_feed_make(name, YOKE_I32, values, count);
}
static inline yoke_feed
yoke_feed_u8(const char *name, const uint8_t *values, int64_t count)
{
    return yoke_feed_make(name, YOKE_U8, values, count);
}

/* Gives an input or target of the graph for n samples. */
YOKE_API yoke_status yoke_replica_set_input(yoke_replica *replica, int64_t n, yoke_feed feed);
/* Forward and backward for training, then update: in this order, once each. Every input that the
 * loss needs must have been given for at least n samples. */
YOKE_API yoke_status yoke_replica_forward(yoke_replica *replica, int64_t n);
YOKE_API yoke_status yoke_replica_backward(yoke_replica *replica);
/* One optimizer step: gradients divided by the batch's count, clipped, applied; states too.
 * The learning rate is multiplied by `rate_factor` (see yoke_schedule_factor). If the loss is not
 * finite, or with clip_norm the norm, or if the loss counted no sample, parameters, optimizer and
 * running statistics stay as they are. */
YOKE_API yoke_status yoke_replica_update(yoke_replica *replica, float rate_factor);
/* Forward as in evaluation: running statistics, no dropout. Shares the weights. A training step
 * that was begun is dropped. Results that need an input without n samples are left out. */
YOKE_API yoke_status yoke_replica_evaluate(yoke_replica *replica, int64_t n);
/* Of the newest forward or evaluate. Wait. */
YOKE_API yoke_status yoke_replica_read_loss(yoke_replica *replica, double *sum, double *count);
YOKE_API yoke_status yoke_replica_read_metric(yoke_replica *replica, const char *name, double *sum,
                                              double *count);
YOKE_API yoke_status yoke_replica_read_output(yoke_replica *replica, const char *name,
                                              float *values, size_t count);
YOKE_API yoke_status yoke_replica_wait(yoke_replica *replica);
/* Lines of a table of the training plan's commands (evaluation's, if there is no other): solver,
 * layout, FLOPs, bytes, measured time, its part of the device's limit, and the memory map. Measures
 * that limit where there are times. Waits. */
YOKE_API yoke_status yoke_plan_print(yoke_replica *replica,
                                     void (*line)(void *user, const char *text), void *user);
/* One command of a plan, and what it takes by the device's clock. */
typedef struct yoke_command_info {
    const char *name; /* the node's; in backward, of what it is the gradient of */
    const char *op;   /* "conv2d_grad_weight" */
    const char *solver;
    bool backward;
    uint32_t launches;
    double flops, bytes;
    double seconds; /* packed weights included */
} yoke_command_info;
/* Runs the plan for n samples `repeats` times, command by command, and reports each with the
 * least of its times. The contents of results are undefined afterwards. Waits. */
YOKE_API yoke_status yoke_plan_measure(yoke_replica *replica, int64_t n, unsigned repeats,
                                       void (*each)(void *user, const yoke_command_info *command),
                                       void *user);
/* FLOPs of a training step (or an evaluation) of n samples, as the plan counts them. */
YOKE_API double yoke_replica_flops(const yoke_replica *replica, int64_t n);

#ifdef __cplusplus
}
#endif

#include "yoke-train.h"
#endif
