/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke.h - train neural networks on every OpenCL device within reach.
 *
 * This header is the reference in short. `man 7 yoke` is the tour, and every
 * function has a manual page. These conventions hold throughout:
 *
 *  - `create` gives an object, which the caller destroys. `destroy` takes it;
 *    it accepts NULL and never fails.
 *  - A function that returns a pointer to something inside an object lends it:
 *    the pointer is valid as long as that object, unless its comment says less.
 *    "Lent" in a comment means this. A function that fills in the caller's
 *    memory copies.
 *  - An object keeps alive the objects that it was made from, so they may be
 *    destroyed in any order. One exception: nothing keeps a yoke_comm alive.
 *  - Every function that can fail returns yoke_status. Outputs come last and
 *    are written only on success. yoke_last_error() explains this thread's
 *    last failure.
 *  - Options are structs whose zero is the default; NULL means all defaults.
 *    Where 0 is a choice of its own, a `has_...` member says that it was made.
 *  - The library exports functions that end in `_sized`. Programs call the
 *    inline function without that ending, which passes the size of the caller's
 *    struct on. So structs can grow at their end.
 *  - Only one thread at a time may use an object, unless its comment allows
 *    more. A yoke_context is locked inside and may be shared.
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

/* All status codes: code, name without its prefix, message. */
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

/* Return the name of a code ("YOKE_ERROR_QUOTA") and its message. Both are constant strings, never
 * NULL, even for a code that does not exist. */
YOKE_API const char *yoke_status_name(yoke_status status);
YOKE_API const char *yoke_status_string(yoke_status status);

/* Returns a sentence about the last call that failed in this thread: it names the argument, device
 * or file, or has the end of a compiler's log. The text is "" before the first failure, and valid
 * until this thread's next failure. A call that succeeds does not change it. */
YOKE_API const char *yoke_last_error(void);

/* Makes `sentence` this thread's yoke_last_error() and returns `status`; with YOKE_OK it does
 * nothing else. Callbacks, and function tables that an application fills in, use it to report an
 * error. The sentence is copied; it is cut at 8191 bytes. */
YOKE_API yoke_status yoke_fail(yoke_status status, const char *sentence);

/* Frees memory that yoke allocated for the caller (yoke_graph_to_json). NULL is fine. */
YOKE_API void yoke_free(void *memory);

/* Returns the version of the library, such as "0.1.0". */
YOKE_API const char *yoke_version(void);

/* ------------------------------------------------------------------- log */

typedef enum yoke_log_level {
    YOKE_LOG_ERROR = 0,
    YOKE_LOG_WARNING = 1,
    YOKE_LOG_INFO = 2,
    YOKE_LOG_DEBUG = 3
} yoke_log_level;

/* Receives one line of the log, without a newline; the line is valid during the call. It may be
 * called from any thread, but by one at a time. It must not call yoke. */
typedef void (*yoke_log_callback)(void *user, yoke_log_level level, const char *line);

/* Sets who gets the log of this process. The library never prints: it hands each line of `level`
 * or a lower number to `callback`, with `user`. NULL, the default, drops all lines. When the
 * function returns, the callback that was set before does not run any more. Any thread. */
YOKE_API void yoke_log_set(yoke_log_callback callback, void *user, yoke_log_level level);

/* Adds a line of the caller's to the log, for example of a transport (yoke_comm). Any thread. */
YOKE_API void yoke_log_write(yoke_log_level level, const char *line);

/* --------------------------------------------------------------- context */

/* A context lists the OpenCL devices of this host, and owns the kernels compiled for them and their
 * cache. One is enough for a program, and all its threads may use it. */
typedef struct yoke_context yoke_context;

typedef struct yoke_context_options {
    /* The folder of compiled kernels. NULL: $YOKE_CACHE_DIR, else $XDG_CACHE_HOME/yoke, else
     * ~/.cache/yoke. */
    const char *cache_dir;
    bool no_cache; /* keep nothing on disk */
} yoke_context_options;

/* Makes a context with the devices of every platform, except those that $YOKE_VISIBLE_DEVICES
 * hides. A platform that does not work is left out; the log warns of it, and
 * yoke_context_get_problem() describes it. YOKE_ERROR_NO_OPENCL: no driver is installed, and the
 * error names the package to install. */
YOKE_API yoke_status yoke_context_create_sized(const yoke_context_options *options, size_t size,
                                               yoke_context **context);
static inline yoke_status
yoke_context_create(const yoke_context_options *options, yoke_context **context)
{
    return yoke_context_create_sized(options, sizeof(yoke_context_options), context);
}
/* Selections that were made from the context stay valid. NULL is fine. */
YOKE_API void yoke_context_destroy(yoke_context *context);

/* Return the number of platforms that were found but cannot be used, and a sentence about one of
 * them, which is lent; NULL where there is none. */
YOKE_API size_t yoke_context_problem_count(const yoke_context *context);
YOKE_API const char *yoke_context_get_problem(const yoke_context *context, size_t index);

/* --------------------------------------------------------------- devices */

/* A logical device: a whole OpenCL device, a sub-device, or a slice. Contexts, selections and teams
 * lend it. */
typedef struct yoke_device yoke_device;

typedef enum yoke_device_type {
    YOKE_DEVICE_GPU = 0,
    YOKE_DEVICE_CPU = 1,
    YOKE_DEVICE_ACCELERATOR = 2 /* also simulators, which claim to be of every type */
} yoke_device_type;

typedef enum yoke_virtual_kind {
    YOKE_VIRTUAL_NONE = 0,      /* a whole device */
    YOKE_VIRTUAL_SUBDEVICE = 1, /* has compute units of its own, by clCreateSubDevices */
    YOKE_VIRTUAL_SLICE = 2      /* has queues and a quota of its own, on shared hardware */
} yoke_virtual_kind;

/* The ways in which a driver can partition a device; combined with or. */
#define YOKE_PARTITION_EQUALLY   1u
#define YOKE_PARTITION_BY_COUNTS 2u
#define YOKE_PARTITION_NUMA      4u

typedef struct yoke_device_info {
    char id[64]; /* "cpu:0", "cpu:0/2.1"; can be used as a selector */
    char name[128];
    char vendor[128];
    char platform[128];
    char driver[128];
    char version[128];  /* the OpenCL version string */
    char parent[64];    /* id of the whole device; a whole device has its own id here */
    char hardware[64];  /* identity of the chip: "pci:0000:01:00.0", "uuid:...", "host-cpu" */
    char preferred[64]; /* id of the device that the selector "all" takes for this chip */
    yoke_device_type type;
    yoke_virtual_kind virtual_kind;
    uint32_t partition; /* YOKE_PARTITION_* that the driver offers; 0 for a part of a device */
    uint32_t compute_units;
    uint32_t vector_width;   /* floats in a native vector */
    bool host_memory;        /* the device uses the host's memory */
    bool fp16, fp64;         /* kernels may use the type; fp16 is tried by compiling a kernel */
    uint64_t memory;         /* bytes of the hardware, shared by all parts of it */
    uint64_t max_allocation; /* bytes of the largest single buffer */
    uint64_t quota;          /* bytes that this logical device may use; 0: no limit but memory */
} yoke_device_info;

typedef struct yoke_memory_usage {
    uint64_t quota; /* bytes; 0: none */
    uint64_t used;  /* bytes now */
    uint64_t peak;  /* the most bytes so far */
} yoke_memory_usage;

/* Return the number of whole devices, and one of them: GPUs first, then CPUs, then accelerators, in
 * the order of their ids. The device is lent; NULL where there is none. To compute on a device,
 * select it. */
YOKE_API size_t yoke_context_device_count(const yoke_context *context);
YOKE_API yoke_device *yoke_context_get_device(yoke_context *context, size_t index);

/* Describes a device. The first call for a device may compile a small kernel (fp16). */
YOKE_API yoke_status yoke_device_get_info_sized(yoke_device *device, yoke_device_info *info,
                                                size_t size);
static inline yoke_status
yoke_device_get_info(yoke_device *device, yoke_device_info *info)
{
    return yoke_device_get_info_sized(device, info, sizeof(yoke_device_info));
}
/* Tells how much memory yoke has allocated on this logical device; for a device that a context
 * lends, on its whole hardware. Any thread may call it. */
YOKE_API yoke_status yoke_device_get_memory_sized(yoke_device *device, yoke_memory_usage *usage,
                                                  size_t size);
static inline yoke_status
yoke_device_get_memory(yoke_device *device, yoke_memory_usage *usage)
{
    return yoke_device_get_memory_sized(device, usage, sizeof(yoke_memory_usage));
}

/* ------------------------------------------------------------- selection */

/* The logical devices that a selector picks, such as "all", "gpu", "gpu:1", "cpu:0/2",
 * "cpu:0/1+3", "cpu:0/numa", "gpu:0/4@1GiB", "name~llvmpipe", or several with commas between them
 * (yoke-selectors(7)). While a selection exists, its hardware stays split as the selector says. */
typedef struct yoke_selection yoke_selection;

typedef struct yoke_selection_options {
    /* Who holds the hardware: a caller that asks for another split finds this text in its error.
     * Copied. NULL: "a selection". */
    const char *holder;
} yoke_selection_options;

/* Makes the devices that `selector` asks for, and splits hardware as it says. A selector of NULL is
 * $YOKE_DEVICES or, if that is unset or empty, "all". YOKE_ERROR_SELECTOR: the selector cannot be
 * read, or names what does not exist. YOKE_ERROR_BUSY: the hardware is split in another way now;
 * the error names the holder. */
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
/* Return the number of devices, and one of them, in the order of the selector. The device is lent;
 * NULL where there is none. */
YOKE_API size_t yoke_selection_count(const yoke_selection *selection);
YOKE_API yoke_device *yoke_selection_get(const yoke_selection *selection, size_t index);

/* --------------------------------------------------------------- measure */

typedef struct yoke_overlap {
    double alone_seconds;    /* of the slowest device, when each runs alone */
    double together_seconds; /* until all are done, when all run at once */
} yoke_overlap;

/* Measures how well devices run side by side: it gives each the same load of arithmetic, first one
 * device at a time, then all at once. The times are medians of `repeats` runs; 0 means 5. Waits. */
YOKE_API yoke_status yoke_selection_measure_overlap_sized(yoke_selection *selection,
                                                          unsigned repeats, yoke_overlap *overlap,
                                                          size_t size);
static inline yoke_status
yoke_selection_measure_overlap(yoke_selection *selection, unsigned repeats, yoke_overlap *overlap)
{
    return yoke_selection_measure_overlap_sized(selection, repeats, overlap, sizeof(yoke_overlap));
}

/* What a device can do at most. Other measurements are given as fractions of these figures. */
typedef struct yoke_peak {
    double gflops;                /* 1e9 float32 operations a second; a multiply-add is two */
    double triad_gbytes;          /* 1e9 bytes a second, with two bytes read for each written */
    double copy_gbytes;           /* 1e9 bytes a second, with one byte read for each written */
    double launch_seconds;        /* for an empty kernel, with many launches in the queue */
    double waited_launch_seconds; /* for an empty kernel, if the host waits for each launch */
} yoke_peak;

/* Measures the limits of a selected device, in about a second. It needs up to three arrays of
 * 128 MiB on the device. Waits. */
YOKE_API yoke_status yoke_device_measure_peak_sized(yoke_device *device, yoke_peak *peak,
                                                    size_t size);
static inline yoke_status
yoke_device_measure_peak(yoke_device *device, yoke_peak *peak)
{
    return yoke_device_measure_peak_sized(device, peak, sizeof(yoke_peak));
}

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

/* The macro yoke_shape() below calls this; it is the easier one to use. */
/* Makes a shape of `rank` sizes, and copies them. A function that takes a shape refuses a rank that
 * is too large. */
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
/* Puts the nodes that are made from now on into this place; NULL means none. A team binds each
 * place to a device (yoke_team_bind_place), and copies values from one place to another. */
YOKE_API void yoke_graph_set_place(yoke_graph *graph, const char *place);
/* Hands a table to `line`, line by line, without newlines: inputs and operators with the shape of
 * the result, the number of parameters, and the FLOPs of forward for one sample; then totals. */
YOKE_API yoke_status yoke_graph_print(const yoke_graph *graph,
                                      void (*line)(void *user, const char *text), void *user);
/* Writes the graph as JSON, in the form of yoke-files(7), which people can write too. The text ends
 * with a 0; the caller frees it with yoke_free(). */
YOKE_API yoke_status yoke_graph_to_json(const yoke_graph *graph, char **text);
/* Builds the graph that `length` bytes of JSON describe: with the same names, shapes and initial
 * values as the graph that was written. An unknown operator or option is an error. */
YOKE_API yoke_status yoke_graph_from_json(const char *text, size_t length, yoke_graph **graph);
/* Finds a node by its name; NULL: there is none. Lent. */
YOKE_API yoke_node *yoke_graph_get_node(const yoke_graph *graph, const char *name);
/* Describe a node. For NULL they return "", a scalar and YOKE_F32. */
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
/* Takes the maximum or the average of each window of x (C, H, W). A stride of 0 is the kernel's
 * size. */
typedef struct yoke_pool2d_options {
    int64_t kernel[2], stride[2], pad[2];
    bool ceil_mode;   /* round the size of the result up, not down */
    bool exclude_pad; /* average: divide by the number of elements inside the input */
} yoke_pool2d_options;
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
/* Normalises each sample over its last axes, then multiplies by NAME.weight and adds NAME.bias,
 * which have the shape of those axes. */
typedef struct yoke_layer_norm_options {
    int32_t axes;     /* how many of the last axes; 0: all */
    float epsilon;    /* 0: 1e-5 */
    bool no_affine;   /* no weight and no bias */
    const char *name; /* NULL: "ln1", ... */
} yoke_layer_norm_options;
/* Replaces each integer of x by that row of NAME.weight (rows, width). */
typedef struct yoke_embedding_options {
    int64_t rows, width;
    const char *name;             /* NULL: "embedding1", ... */
    yoke_initializer weight_init; /* default: normal(0, 1) */
} yoke_embedding_options;
typedef struct yoke_matmul_options {
    bool transpose_a, transpose_b; /* exchange the last two axes of the operand first */
} yoke_matmul_options;

/* Declares yoke_OP(graph, x, options): the layers yoke_dense to yoke_embedding below. */
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

/* Multiplies matrices: (..., M, K) @ (..., K, N) gives (..., M, N). Leading axes broadcast. */
YOKE_API yoke_node *yoke_matmul_sized(yoke_graph *graph, yoke_node *a, yoke_node *b,
                                      const yoke_matmul_options *options, size_t size);
static inline yoke_node *
yoke_matmul(yoke_graph *graph, yoke_node *a, yoke_node *b, const yoke_matmul_options *options)
{
    return yoke_matmul_sized(graph, a, b, options, sizeof(yoke_matmul_options));
}

/* These work on each element. yoke_leaky_relu multiplies negative elements by `slope`; yoke_gelu
 * uses the exact normal distribution; yoke_scale computes x * factor + offset. yoke_add, yoke_sub
 * and yoke_mul broadcast as numpy does. yoke_dropout sets elements to 0 with this probability in
 * training and divides the others by 1 - probability; in evaluation it changes nothing. */
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

/* A loss is a sum with a count. The sum over the whole batch is divided once by its count, so it
 * does not matter how the batch is split over devices. */
typedef struct yoke_loss_options {
    bool has_ignore_index; /* cross-entropies: labels that are ignore_index add 0, do not count */
    int32_t ignore_index;
    float label_smoothing; /* cross-entropies: part of the target spread over all classes */
    float delta;           /* Huber loss: where the square ends; 0: 1 */
} yoke_loss_options;
/* Declares yoke_OP(graph, x, target, options): the losses below. */
#define YOKE_LOSS(op)                                                                              \
    YOKE_API yoke_node *yoke_##op##_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,      \
                                          const yoke_loss_options *options, size_t size);          \
    static inline yoke_node *yoke_##op(yoke_graph *graph, yoke_node *x, yoke_node *target,         \
                                       const yoke_loss_options *options)                           \
    {                                                                                              \
        return yoke_##op##_sized(graph, x, target, options, sizeof(yoke_loss_options));            \
    }
/* These take integer labels from 0 to classes - 1, and count them. x is (classes) with a scalar
 * label, or (classes, positions...) with a label for each position. */
YOKE_LOSS(softmax_cross_entropy) /* of logits */
YOKE_LOSS(cross_entropy)         /* of probabilities */
/* These take float targets of the shape of x, and count elements. */
YOKE_LOSS(binary_cross_entropy) /* of logits, with targets from 0 to 1 */
YOKE_LOSS(mean_squared_error)
YOKE_LOSS(l1_loss)
YOKE_LOSS(huber_loss)

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

/* ------------------------------------------------------------- optimizer */

typedef enum yoke_optimizer_kind {
    YOKE_OPTIMIZER_SGD = 0,
    YOKE_OPTIMIZER_ADAM = 1,
    YOKE_OPTIMIZER_ADAMW = 2,
    YOKE_OPTIMIZER_RMSPROP = 3
} yoke_optimizer_kind;

/* An optimizer is passed by value. The functions below fill in PyTorch's defaults. */
typedef struct yoke_optimizer {
    yoke_optimizer_kind kind;
    float learning_rate;
    float momentum;     /* SGD, RMSprop */
    float beta1, beta2; /* Adam; beta2 is RMSprop's alpha */
    float epsilon;
    float weight_decay; /* AdamW shrinks the parameter by it; others add it * parameter to the
                         * gradient */
    uint32_t nesterov;  /* SGD: 1 or 0 */
    uint32_t reserved[8];
} yoke_optimizer;

YOKE_API yoke_optimizer yoke_sgd(float learning_rate, float momentum);
YOKE_API yoke_optimizer yoke_adam(float learning_rate);
YOKE_API yoke_optimizer yoke_adamw(float learning_rate, float weight_decay);
YOKE_API yoke_optimizer yoke_rmsprop(float learning_rate);

typedef enum yoke_schedule_kind {
    YOKE_SCHEDULE_CONSTANT = 0,
    YOKE_SCHEDULE_STEP,     /* multiply by `factor` every `period` steps */
    YOKE_SCHEDULE_COSINE,   /* from 1 to `final_factor` at step `steps`, along a cosine */
    YOKE_SCHEDULE_LINEAR,   /* from 1 to `final_factor` at step `steps`, along a line */
    YOKE_SCHEDULE_ONE_CYCLE /* from `initial` to 1 in `warmup` steps, then to `final_factor` at
                             * step `steps`, both along a cosine */
} yoke_schedule_kind;

/* A schedule gives the factor that the learning rate is multiplied by at each step. With every kind
 * the first `warmup` steps go up to 1, in a line except with ONE_CYCLE. `steps` includes them;
 * `period` is counted from their end. */
typedef struct yoke_schedule {
    yoke_schedule_kind kind;
    float factor, initial, final_factor;
    int64_t warmup, period, steps;
    uint32_t reserved[4];
} yoke_schedule;

/* Returns the factor at a step, counted from 0; for a NULL schedule, 1. It returns NaN, and
 * yoke_last_error() says why, if the step is negative or the schedule has a value out of range;
 * yoke_trainer_create refuses such a schedule. */
YOKE_API float yoke_schedule_factor(const yoke_schedule *schedule, int64_t step);

/* Settings for the parameters whose names match `pattern`. Of several groups the first that matches
 * a name counts. A pattern that matches no parameter is an error. */
typedef struct yoke_parameter_group {
    const char *pattern;       /* "*.bias", with * and ? */
    float learning_rate_scale; /* multiplies the learning rate; 0: 1 */
    float weight_decay;        /* replaces that of the optimizer, */
    bool has_weight_decay;     /* if this is true */
    uint32_t reserved[4];
} yoke_parameter_group;

/* --------------------------------------------------------------- replica */

/* A replica is a graph on one device, with its parameters, gradients and optimizer state, compiled
 * for batches up to a size. Programs with a training loop of their own use it. Its functions
 * enqueue work and return, unless they say that they wait. The next call that waits returns an
 * error of enqueued work. */
typedef struct yoke_replica yoke_replica;

typedef enum yoke_plan_level {
    YOKE_PLAN_MEASURE = 0, /* measures solvers for up to 20 seconds a plan, and keeps the times */
    YOKE_PLAN_ESTIMATE,    /* measures nothing, but uses times that are known */
    YOKE_PLAN_PATIENT      /* measures for up to ten minutes */
} yoke_plan_level;

typedef enum yoke_memory_choice {
    YOKE_MEMORY_FAST = 0, /* keeps all values of forward that backward reads */
    YOKE_MEMORY_SMALL     /* computes cheap values again in backward: less memory, the same bits */
} yoke_memory_choice;

typedef struct yoke_replica_options {
    int64_t batch;        /* the largest number of samples; has to be given */
    uint32_t seed;        /* of initial values and dropout */
    bool evaluation_only; /* no gradients and no optimizer state; the graph needs no loss */
    bool strict;          /* no Winograd: only solvers that sum as the operator is defined */
    yoke_plan_level level;
    yoke_optimizer optimizer;           /* all zero: SGD with rate 0.01 */
    const yoke_parameter_group *groups; /* copied */
    size_t group_count;
    float clip_norm;    /* largest norm of all gradients together, after the division; 0: none */
    float clip_value;   /* largest size of each element of a gradient; 0: none */
    const char *wisdom; /* file of measured times; NULL: $YOKE_WISDOM, else in the cache */
    yoke_memory_choice memory;
} yoke_replica_options;

/* Compiles the graph for a selected device and gives the parameters their initial values. `options`
 * must not be NULL, because the batch has to be given. From then on the graph cannot change. The
 * replica keeps the graph alive. Waits. */
YOKE_API yoke_status yoke_replica_create_sized(yoke_device *device, yoke_graph *graph,
                                               const yoke_replica_options *options, size_t size,
                                               yoke_replica **replica);
static inline yoke_status
yoke_replica_create(yoke_device *device, yoke_graph *graph, const yoke_replica_options *options,
                    yoke_replica **replica)
{
    return yoke_replica_create_sized(device, graph, options, sizeof(yoke_replica_options), replica);
}
/* Waits for enqueued work. NULL is fine. */
YOKE_API void yoke_replica_destroy(yoke_replica *replica);

/* Copy a parameter or a state (running statistics) by its name, from or to a host array of exactly
 * `count` floats. Wait. */
YOKE_API yoke_status yoke_replica_write(yoke_replica *replica, const char *name,
                                        const float *values, size_t count);
YOKE_API yoke_status yoke_replica_read(yoke_replica *replica, const char *name, float *values,
                                       size_t count);
/* Copies the gradient by a parameter: the sum over the samples, not divided. Waits. */
YOKE_API yoke_status yoke_replica_read_gradient(yoke_replica *replica, const char *name,
                                                float *values, size_t count);
/* Writes the graph with its weights to a safetensors file, as yoke_trainer_save does. Waits. */
YOKE_API yoke_status yoke_replica_save(yoke_replica *replica, const char *path);
/* Gives parameters and states new initial values; optimizer state and step number start again.
 * Waits. */
YOKE_API yoke_status yoke_replica_initialize(yoke_replica *replica, uint32_t seed);

/* Values in host memory for the input or target of this name: all samples, one after the other.
 * Type and count must be those of the graph; both are checked before any value is read. */
typedef struct yoke_feed {
    const char *name;
    yoke_type type;    /* of the input, and of what `data` points to */
    const void *data;  /* the caller may change it when the call returns */
    int64_t count;     /* number of values: samples times the values of one sample */
    uint64_t reserved; /* 0 */
} yoke_feed;

/* Make a feed of an array of `count` values. */
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

/* Gives the values of an input or target for n samples, at most the batch. A label or index that is
 * out of range is YOKE_ERROR_VALUE; the error names the sample. */
YOKE_API yoke_status yoke_replica_set_input(yoke_replica *replica, int64_t n, yoke_feed feed);
/* A training step is forward, backward, update: once each, in this order. yoke_replica_forward
 * computes the graph as in training. Every input that it reads must have been given for at least n
 * samples. It may also be called alone. */
YOKE_API yoke_status yoke_replica_forward(yoke_replica *replica, int64_t n);
/* Computes the gradients: sums over the samples of the forward before it. */
YOKE_API yoke_status yoke_replica_backward(yoke_replica *replica);
/* Divides the gradients by what the loss counted, clips them, lets the optimizer apply them, and
 * renews running statistics. The learning rate is multiplied by `rate_factor`
 * (yoke_schedule_factor). Parameters, optimizer state and running statistics stay as they are if
 * the loss is not finite, if with clip_norm the norm is not finite, or if the loss counted no
 * sample; the step counts all the same. */
YOKE_API yoke_status yoke_replica_update(yoke_replica *replica, float rate_factor);
/* Computes the graph as in evaluation: with running statistics, without dropout. A training step
 * that was begun is dropped. Results that need an input that was not given for n samples are left
 * out. The first call on a replica for training makes a plan and waits for it. */
YOKE_API yoke_status yoke_replica_evaluate(yoke_replica *replica, int64_t n);
/* Read results of the newest forward or evaluate. Loss and metrics are a sum over the samples and
 * what it counted; their mean is sum / count. `count` of an output is the number of values, for all
 * n samples. Wait. */
YOKE_API yoke_status yoke_replica_read_loss(yoke_replica *replica, double *sum, double *count);
YOKE_API yoke_status yoke_replica_read_metric(yoke_replica *replica, const char *name, double *sum,
                                              double *count);
YOKE_API yoke_status yoke_replica_read_output(yoke_replica *replica, const char *name,
                                              float *values, size_t count);
/* Waits for all enqueued work. */
YOKE_API yoke_status yoke_replica_wait(yoke_replica *replica);
/* Hands a table of the plan to `line`, line by line: for each command its solver, layout, FLOPs,
 * bytes, measured time and fraction of the device's limit; then where each value lies in memory.
 * It is the plan for training or, if there is none, that for evaluation. Measures the device's
 * limits where the plan has times. Waits. */
YOKE_API yoke_status yoke_replica_print_plan(yoke_replica *replica,
                                             void (*line)(void *user, const char *text),
                                             void *user);
/* One command of a plan with its time: by the device's clock, else from launch to end. */
typedef struct yoke_command_info {
    const char *name; /* the node's; in backward, of the node that the gradient belongs to */
    const char *op;   /* "conv2d_grad_weight" */
    const char *solver;
    bool backward;
    uint32_t launches;
    double flops, bytes;
    double seconds; /* with the time to pack weights */
} yoke_command_info;
/* Runs that plan for n samples, command by command, `repeats` times (at least 1), and hands each
 * command to `each` with the shortest of its times. The texts are valid during the call. Results
 * are undefined afterwards, and a training step that was begun is dropped. Waits. */
YOKE_API yoke_status yoke_replica_profile(yoke_replica *replica, int64_t n, unsigned repeats,
                                          void (*each)(void *user,
                                                       const yoke_command_info *command),
                                          void *user);
/* Returns the FLOPs of a training step with n samples, as the plan counts them; of an evaluation if
 * the replica is for evaluation only. */
YOKE_API double yoke_replica_flops(const yoke_replica *replica, int64_t n);

#ifdef __cplusplus
}
#endif

#include "yoke-train.h"
#endif
