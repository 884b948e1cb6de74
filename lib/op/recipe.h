/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h - problem, solver, recipe: how an operator becomes kernel launches.
 *
 * A *problem* is one operator with the types, shapes and layouts of its operands. It
 * has all that matters for speed, and nothing of the network around it. A *solver*
 * knows one way to compute it. It says whether it applies to a problem on a device,
 * and writes a *recipe*: launches over numbered slots (operands, then scratch memory),
 * with sizes that are expressions in the extents. A recipe names no buffer. So a test
 * runs it, the planner measures it, and a plan binds it to its memory.
 *
 * A solver is one row, in a file of its family, and its name in lib/op/ops.h.
 */
#ifndef YKI_RECIPE_H
#define YKI_RECIPE_H

#include "device/device.h"
#include "graph/graph.h"

enum { YKI_MAX_ARGS = 48, YKI_MAX_SLOTS = 24, YKI_MAX_EXTRAS = 6, YKI_PROBLEM_TEXT = 512 };

/* The sizes that are known only when a plan runs. */
typedef struct yki_extents {
    int64_t batch;  /* samples; in a problem that works row by row: rows, of all samples */
    int64_t length; /* rows of each sample that is a sequence; 0: as many as there may be */
} yki_extents;
static inline bool
yki_extents_equal(yki_extents a, yki_extents b)
{
    return a.batch == b.batch && a.length == b.length;
}
/* What is in rows, instead of samples, has the rows of all samples as its batch. */
static inline yki_extents
yki_extents_for(yki_extents extents, bool rows)
{
    if (rows)
        extents.batch *= extents.length;
    return extents;
}
/* Fails unless each extent is at least 0 and at most as large as in `max`. */
yoke_status yki_extents_check(yki_extents extents, yki_extents max);

/* ---- expressions in extents:
 * min(max, ceil((per_sample * batch + per_row * length + constant) / divisor)) ---- */
typedef struct yki_expr {
    int64_t per_sample; /* how much each sample of the batch adds */
    int64_t constant;
    int64_t divisor; /* 0 counts as 1 */
    int64_t max;     /* 0: no maximum */
    int64_t per_row; /* how much each row of a sample adds */
} yki_expr;
#define YKI_CONST(c)      ((yki_expr){0, (c), 1, 0, 0})
#define YKI_PER_SAMPLE(c) ((yki_expr){(c), 0, 1, 0, 0})
#define YKI_PER_ROW(c)    ((yki_expr){0, 0, 1, 0, (c)})
#define YKI_BATCH         YKI_PER_SAMPLE(1) /* the batch itself */
int64_t yki_expr_value(yki_expr expr, yki_extents extents);

/* How a tensor lies in memory. With block == 1 it is row-major, batch first: (N, shape...). With
 * block b > 1 the first axis of the shape is split: (N, C/b, rest..., b), with C rounded up to a
 * multiple of b. Producers write finite values into the padding lanes (0 where they can), and
 * reductions skip them. */
typedef struct yki_layout {
    uint32_t block;
} yki_layout;
#define YKI_PLAIN ((yki_layout){1})

typedef struct yki_operand {
    yoke_type type;
    yoke_shape shape;
    bool batched;
    yki_layout layout;
    bool rows; /* one for each row of a sequence, not for each sample */
} yki_operand;

/* Numerical classes, the most exact first. All devices of a team use one class for a node. In the
 * class of Winograd the kernel decides about the arithmetic: F(4x4, 3x3) or F(3x3, 5x5). In those
 * of bfloat16, TF32 and half the operands of products are rounded to it, and summed in float32.
 * They are only for nodes whose precision allows it. */
typedef enum yki_class {
    YKI_CLASS_DIRECT = 0,
    YKI_CLASS_WINOGRAD4 = 1,
    YKI_CLASS_BF16 = 2,
    YKI_CLASS_TF32 = 3,
    YKI_CLASS_F16 = 4
} yki_class;
enum { YKI_CLASSES = 5 };
/* Returns whether the operands of products are rounded. */
static inline bool
yki_class_rounds(yki_class numerical_class)
{
    return numerical_class >= YKI_CLASS_BF16;
}

typedef struct yki_problem {
    const yki_op *op;
    yki_attrs attrs;
    uint32_t input_count;
    yki_operand in[YKI_MAX_INPUTS];
    yki_operand out;
    /* Further results. Only operators that fusions make have them; a node never has. */
    uint32_t extra_count;
    yki_operand extra[YKI_MAX_EXTRAS];
    yki_extents max;  /* the largest that it is computed for */
    bool rows;        /* it works row by row: its batch are the rows */
    bool repacks;     /* weights change before each run: packing them apart is no gain */
    const void *data; /* the node's data, lent by its graph; NULL for most */
    int32_t valid[YKI_MAX_INPUTS]; /* for an integer input: a value that is valid there */
} yki_problem;

enum { YKI_MAX_OPERANDS = YKI_MAX_INPUTS + 1 + YKI_MAX_EXTRAS };
/* The number of operands. The inputs come first, then the results; the first slots of a recipe
 * have the same order. */
static inline uint32_t
yki_problem_operands(const yki_problem *problem)
{
    return problem->input_count + 1 + problem->extra_count;
}
/* Returns the operand of a slot. */
const yki_operand *yki_problem_operand(const yki_problem *problem, uint32_t slot);

/* The operand of a node in the plain layout. */
yki_operand yki_operand_of(const yoke_node *node);
/* Writes the problem of a node, with all layouts plain. `max` are the largest extents of a plan. It
 * borrows the node's data. */
void yki_problem_of_node(const yoke_node *node, yki_extents max, yki_problem *problem);
/* Replaces the inputs of a problem by these nodes, in plain layouts. */
void yki_problem_set_inputs(yki_problem *problem, yoke_node *const *inputs, uint32_t count);
/* Returns the number of elements in memory, padding included, for the extents of a problem. */
int64_t yki_operand_count(const yki_operand *operand, yki_extents extents);
/* The same number, and the bytes, for the extents of a plan. */
int64_t yki_value_count(const yki_operand *operand, yki_extents extents);
int64_t yki_value_bytes(const yki_operand *operand, yki_extents extents);
/* The same number, and the size in bytes, as expressions in the extents. */
yki_expr yki_operand_elements(const yki_operand *operand);
yki_expr yki_operand_bytes(const yki_operand *operand);
/* Writes a text that names the problem uniquely, such as "conv2d 3x3 s1 p1 | f32 N 64,32,32 /16
 * | f32 64,64,3,3 -> ...". It is the key of wisdom, and is cut to `size` bytes. */
void yki_problem_text(const yki_problem *problem, char *text, size_t size);

/* ---- recipes ---- */

typedef enum yki_arg_kind {
    YKI_ARG_SLOT, /* a buffer */
    YKI_ARG_INT,  /* an int: the value of an expression */
    YKI_ARG_FLOAT,
    YKI_ARG_STEP /* the plan's buffer of step values (struct yki_step_values) */
} yki_arg_kind;

/* Values that change from step to step. Kernels read them from a device buffer, so arguments
 * stay set. A kernel sees it as __global const uint *, and reads floats by as_float. */
typedef struct yki_step_values {
    /* written by the host */
    uint32_t step; /* counts from 1 */
    uint32_t seed[2];
    uint32_t first_sample[2]; /* global index of this device's sample 0, low and high word */
    float learning_rate;
    float bias1, bias2; /* Adam: 1 - beta1^step, sqrt(1 - beta2^step) */
    float loss_scale;   /* of gradients, a power of 2; 1: they have none */
    float unscale;      /* 1 / loss_scale */
    /* written by the device, between backward and the update */
    float inverse_count; /* 1 / valid samples of the whole batch; 0 if there are none */
    float clip_scale;
    uint32_t good; /* 0: a gradient is not finite, or no sample counted; then there is no update */
    uint32_t reserved[3];
} yki_step_values;

typedef struct yki_arg {
    yki_arg_kind kind;
    uint32_t slot;
    yki_expr expr;
    float value;
    const char *name; /* of an int or a float: the kernel's parameter; NULL: it is the user's */
    int number;       /* ends the name: "k" and 3 are "k3"; -1: the name has none */
} yki_arg;

/* An int with the name of the kernel's parameter. */
typedef struct yki_named_int {
    const char *name;
    int64_t value;
} yki_named_int;

/* When a launch runs. */
typedef enum yki_phase {
    YKI_PHASE_PREPARE, /* whenever the parameters that it reads have changed: packing weights */
    YKI_PHASE_RUN
} yki_phase;

typedef struct yki_launch {
    yki_phase phase;
    const char *file; /* "gemm.cl"; these strings live as long as the library or the graph */
    const char *kernel;
    const char *source; /* NULL: `file` is one of clkernels/; else the program's text */
    char options[256];  /* "-DTILE=8": only tiles are macros, shapes are arguments */
    yki_arg args[YKI_MAX_ARGS];
    uint32_t arg_count;
    yki_expr groups[3];
    uint32_t local[3];
    yki_expr flops, bytes; /* for yoke_replica_print_plan; 0: unknown */
    int64_t iterations;    /* the most iterations that a work-item makes of its loops; 0: few */
    bool adds_parts;       /* yki_conv_sum_parts made it; a plan may add later (plan/late_sums.c) */
} yki_launch;

typedef enum yki_slot_kind {
    YKI_SLOT_INPUT,   /* slots 0 .. input_count-1 */
    YKI_SLOT_OUTPUT,  /* slot input_count; further results follow it */
    YKI_SLOT_SCRATCH, /* the contents last for one run of the recipe */
    YKI_SLOT_PREPARED /* written by PREPARE launches and kept between runs */
} yki_slot_kind;

typedef struct yki_slot {
    yki_slot_kind kind;
    yki_expr bytes;
} yki_slot;

/* A call into another library, which enqueues to a queue. It runs before the RUN launches of its
 * recipe, which may work on what it leaves. */
typedef struct yki_library_call {
    const char *name;
    /* Builds what the call needs for any extents up to `max`. It may run the call once, which
     * leaves the result undefined. Waits. */
    yoke_status (*prepare)(yki_queue *queue, yki_buffer *const *slots, yki_extents max,
                           const void *data);
    /* Enqueues the call. */
    yoke_status (*run)(yki_queue *queue, yki_buffer *const *slots, yki_extents extents,
                       const void *data);
} yki_library_call;

typedef struct yki_recipe {
    yki_slot slots[YKI_MAX_SLOTS];
    uint32_t slot_count;
    yki_launch *launches;
    size_t launch_count, launch_capacity;
    yoke_status status;           /* the first error while the recipe was built */
    const yki_library_call *call; /* or NULL */
    yki_expr call_flops, call_bytes;
    unsigned char call_data[256];
} yki_recipe;

/* Begins a recipe, which need not be initialized: adds the slots of the problem's operands. */
void yki_recipe_start(yki_recipe *recipe, const yki_problem *problem);
/* Frees the launches, and leaves an empty recipe. */
void yki_recipe_clear(yki_recipe *recipe);
/* Adds a slot and returns its number. */
uint32_t yki_recipe_slot(yki_recipe *recipe, yki_slot_kind kind, yki_expr bytes);
/* Adds a launch of phase RUN. Returns NULL when memory is short; recipe->status then says so.
 * `options` is a printf format. */
yki_launch *yki_recipe_launch(yki_recipe *recipe, const char *file, const char *kernel,
                              const char *options, ...) YKI_PRINTF(4, 5);
/* An option for a kernel whose groups have so many work-items and need most of a compute unit's
 * registers: so few registers that a unit can hold two groups, one of which waits while the other
 * computes. Compilers that cannot be told so ignore it. */
const char *yki_two_groups(int64_t items);
/* For how many rounds of so many terms the core of tile.cl has room in local memory. */
int64_t yki_rounds(const yki_device_traits *traits, int64_t terms);
/* The option that says so, where a device copies into local memory beside what items compute
 * (clkernels/tile_ahead.cl), else none. */
const char *yki_ahead_option(const yki_device_traits *traits, yki_dot_unit unit, int64_t terms);
/* Each adds an argument to the newest launch, in the kernel's order. An error is kept in
 * recipe->status. `name` is that of the kernel's parameter, with which tests compare it. */
void yki_arg_slot(yki_recipe *recipe, uint32_t slot);
void yki_arg_int(yki_recipe *recipe, const char *name, int64_t value);
void yki_arg_expr(yki_recipe *recipe, const char *name, yki_expr expr);
void yki_arg_float(yki_recipe *recipe, const char *name, float value);
void yki_arg_step(yki_recipe *recipe);
/* The same for a parameter whose name ends in a number. */
void yki_arg_int_at(yki_recipe *recipe, const char *name, int number, int64_t value);
void yki_arg_expr_at(yki_recipe *recipe, const char *name, int number, yki_expr expr);
/* Adds several ints. */
void yki_arg_ints(yki_recipe *recipe, const yki_named_int *ints, size_t count);
/* Sets the number of groups, and the work-items in a group (0 counts as 1), along three
 * dimensions. A dimension whose number is the constant 0 has one group. NULL does nothing. */
void yki_launch_grid(yki_launch *launch, yki_expr g0, yki_expr g1, yki_expr g2, uint32_t l0,
                     uint32_t l1, uint32_t l2);

/* Notes how many loop iterations a work-item of this launch makes at most (launch->iterations).
 * `iterations` is the number that all work-items share at the largest extents; `each` is what every
 * work-item makes besides. Call it after yki_launch_grid. See also traits->loop_limit. */
void yki_launch_iterations(yki_launch *launch, const yki_problem *problem, double iterations,
                           int64_t each);
/* Computes the grid for these extents. Returns false if there is nothing to do. */
bool yki_launch_grid_at(const yki_launch *launch, yki_extents extents, yki_grid *grid);
/* Gets the program of a launch, and builds it if need be. The caller releases it. (run.c) */
yoke_status yki_launch_program(yoke_device *device, const yki_launch *launch,
                               yki_program **program);
/* Makes the kernel of a launch, and sets its arguments but for the ints. `slots` are the buffers of
 * the recipe's slots. The caller destroys the kernel, also after an error. */
yoke_status yki_launch_bind(const yki_launch *launch, yoke_device *device, yki_buffer *const *slots,
                            yki_buffer *step_values, yki_kernel **kernel);
/* Sets the ints, which are expressions in the extents. */
yoke_status yki_launch_set_extents(const yki_launch *launch, yki_kernel *kernel,
                                   yki_extents extents);
/* Enqueues the launch for these extents; does nothing, with `done` too, where there is nothing to
 * do. */
yoke_status yki_launch_enqueue(const yki_launch *launch, yki_kernel *kernel, yki_queue *queue,
                               yki_extents extents, yki_event *done);

/* ---- solvers ---- */

/* What a search needs to know of a solver whose tunings are sets of parameters, too many to be
 * listed: a tuning is the number of a set. Sets belong to a device, not to a problem, because
 * changing the set builds kernels. */
enum { YKI_MAX_NEIGHBOURS = 4 };
typedef struct yki_parameter_sets {
    const char *title; /* what messages call it: "CLBlast" */
    unsigned own;      /* stands for the library's own parameters, until another set is used */
    unsigned moves;    /* number of moves: each changes one thing of a set */
    /* Returns the operations of the problem at the largest extents, and writes its sizes as a text,
     * such as "64x128x32". Returns 0 if the solver cannot compute it. */
    double (*work)(const yki_problem *problem, char *text, size_t size);
    /* Gives the sets from which a search starts, and returns how many there are. The caller skips
     * those that are not valid on its device. */
    size_t (*seeds)(const unsigned **sets);
    /* Returns whether there is such a set, and it fits the device. */
    bool (*valid)(unsigned set, const yki_device_traits *traits);
    /* Gives the sets that are one move away from a set that exists, and returns how many there
     * are. They exist, but need not be valid. */
    size_t (*neighbours)(unsigned set, unsigned move, unsigned found[YKI_MAX_NEIGHBOURS]);
    /* Writes the parameters of a set, such as "MWG=64 NWG=64". */
    void (*describe)(unsigned set, char *text, size_t size);
    /* Builds the kernels of a set, compares a sample of the result with one in double (a wrong one
     * is YOKE_ERROR_VALUE), and measures it: `seconds` is the least time of a few runs at the
     * largest extents. Waits; takes seconds where kernels must be built. */
    yoke_status (*measure)(yki_queue *queue, const yki_problem *problem, unsigned set,
                           double *seconds);
    /* Makes the queue's device use this set. A number without a set is an error. */
    yoke_status (*use)(yki_queue *queue, unsigned set);
    /* Gives the set that this process uses on the queue's device. Returns false while that is the
     * library's own. */
    bool (*in_force)(yki_queue *queue, unsigned *set);
} yki_parameter_sets;

/* Whether a solver gives the same bits on every device, so that canonical plans may use it. All
 * such solvers of an operator give the same bits as one another (docs/design.md). */
typedef enum yki_canonical {
    YKI_NOT_CANONICAL = 0,
    /* Its bits depend neither on the traits, nor on the tuning, nor on the layouts. */
    YKI_CANONICAL_FREE,
    /* They may depend on all of them: it is told of one and the same device everywhere, and it gets
     * plain layouts and its guess. */
    YKI_CANONICAL_FIXED
} yki_canonical;

typedef struct yki_solver {
    const char *name; /* "conv2d-direct-blocked" */
    const yki_op *const *op;
    yki_class numerical_class;
    /* Its tunings are sets of parameters that a search finds (`yoke tune`). The planner uses it
     * only with a set for which wisdom has a time. NULL: its tunings are listed. */
    const yki_parameter_sets *sets;
    /* Made for work-items of a group that run side by side. A processor runs them one after
     * another. There the planner asks such a solver only if no other of its class applies,
     * wherever the table has it, or at level patient: compiling it takes longer than a small
     * model trains. */
    bool side_by_side;
    /* It computes what other devices have a unit for, and is no faster than a more exact solver.
     * The planner takes it only where the class is settled: by a team, or by `strict`. */
    bool emulates;
    yki_canonical canonical;
    /* NULL, or two solvers of which this one computes both results in fewer launches, with their
     * bits, but that a gradient by weights may be summed in another number of parts. It is no
     * choice: the planner puts it in the place of the two (plan/join.c). */
    const struct yki_solver *joins[2];
    /* Its recipe can add another gradient to that of a convolution's input, and gate the sum
     * (YKI_CONV_ACT_SUM); the planner asks for that alone (plan/join.c). */
    bool adds;
    /* Of a convolution: the same that also gives parts of the statistics or sums of the batch norm
     * that reads its result. Of a norm: the same that takes them. NULL: none. Both are no choice
     * (plan/join.c). */
    const struct yki_solver *with_parts;
    /* Of a convolution that gives parts: how many. */
    int64_t (*parts)(const yki_problem *problem, const yki_device_traits *traits);
    /* Returns whether it can compute the problem, with the layouts as they are, on such a
     * device. */
    bool (*applies)(const yki_problem *problem, const yki_device_traits *traits);
    /* Proposes layouts for a problem whose layouts are all plain: sets the layout of the
     * operands (inputs and result) and returns true, or returns false. The caller passes variant
     * 0, 1, ... until it returns false, so a solver can offer several blocks. NULL: all layouts
     * are plain. */
    bool (*layouts)(yki_problem *problem, const yki_device_traits *traits, unsigned variant);
    /* Returns the number of tunings. NULL: one. */
    unsigned (*tunings)(const yki_problem *problem, const yki_device_traits *traits);
    /* Writes the recipe. `tuning` 0 .. tunings-1 are alternatives to measure; 0 is the guess. */
    yoke_status (*emit)(const yki_problem *problem, const yki_device_traits *traits,
                        unsigned tuning, yki_recipe *recipe);
    /* Takes its place in solvers whose products are made by a dot unit: multiply-adds, in a class
     * that rounds the device's unit, or rounding where it `emulates` one. */
    yoke_status (*emit_by)(const yki_problem *problem, const yki_device_traits *traits,
                           yki_dot_unit unit, unsigned tuning, yki_recipe *recipe);
} yki_solver;

/* Calls emit() or emit_by(). Some devices end a work-item after traits->loop_limit iterations of
 * its loops. There emit() is told of more compute units, twice as many each time, so that solvers
 * cut the work finer, until each launch stays within the limit. Where that does not help, returns
 * YOKE_ERROR_UNSUPPORTED without a message. A number of a kernel that is no int in the largest
 * batch is YOKE_ERROR_UNSUPPORTED too. All callers of emit() go through this. */
yoke_status yki_solver_emit(const yki_solver *solver, const yki_problem *problem,
                            const yki_device_traits *traits, unsigned tuning, yki_recipe *recipe);
/* Returns whether the recipe for a problem to which the solver applies stays within
 * traits->loop_limit, and all numbers of its kernels are ints. */
bool yki_solver_ends(const yki_solver *solver, const yki_problem *problem,
                     const yki_device_traits *traits, unsigned tuning);
/* Returns whether the solver applies, and its guess (tuning 0) stays within traits->loop_limit. */
bool yki_solver_suits(const yki_solver *solver, const yki_problem *problem,
                      const yki_device_traits *traits);

/* Returns the numerical class in which a canonical plan computes a problem, which follows from the
 * problem alone (conv/winograd.c). Solvers of other classes have other bits. */
yki_class yki_canonical_class(const yki_problem *problem);

/* What a solver is told of the device in a canonical plan: the device's own traits, or for
 * YKI_CANONICAL_FIXED those of a small GPU, which are the same on every device, as far as bits may
 * depend on them. */
void yki_canonical_traits(const yki_device_traits *own, yki_canonical solver,
                          yki_device_traits *traits);

/* What `applies` is for a solver that computes any problem whose operands lie row by row. */
bool yki_plain_applies(const yki_problem *problem, const yki_device_traits *traits);

/* All solvers and all operators (table.c); NULL stands at the end. */
extern const yki_solver *const yki_solvers[];
extern const yki_op *const yki_ops[];

/* ---- running a recipe by itself (run.c): tests, and the planner's measurements ---- */

typedef struct yki_runner yki_runner;

/* Builds programs and kernels, and allocates the slots after the operands on the queue's device.
 * `operands` are the buffers of the inputs, then of the results; they and `step_values` are
 * borrowed and must outlive the runner. The recipe is copied. */
yoke_status yki_runner_create(yki_queue *queue, const yki_problem *problem,
                              const yki_recipe *recipe, yki_buffer *const *operands,
                              yki_buffer *step_values, yki_runner **runner);
void yki_runner_destroy(yki_runner *runner);
/* Enqueues the launches of a phase for extents up to the problem's largest. Does not wait. `done`,
 * if not NULL, gets an event that completes after the last launch. */
yoke_status yki_runner_enqueue(yki_runner *runner, yki_phase phase, yki_extents extents,
                               yki_event *done);

#endif
