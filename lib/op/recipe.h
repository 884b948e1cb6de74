/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h - problem, solver, recipe: how an operator becomes kernel launches.
 *
 * A *problem* is one operator with the types, shapes and layouts of its operands:
 * all that matters for speed, nothing of the network around it. A *solver* knows
 * one way to do it: it says whether it applies to a problem on a device, and
 * writes a *recipe*: launches over numbered slots (operands, then scratch), with
 * sizes that are expressions in the batch. A recipe names no buffer, so the same
 * one is run by a test, measured by the planner, and placed in a plan.
 *
 * A solver is one file and one row in lib/op/solvers.c.
 */
#ifndef YKI_RECIPE_H
#define YKI_RECIPE_H

#include "device/device.h"
#include "graph/graph.h"

enum { YKI_MAX_ARGS = 48, YKI_MAX_SLOTS = 20, YKI_MAX_EXTRAS = 4, YKI_PROBLEM_TEXT = 512 };

/* ---- expressions in the batch n: min(max, ceil((per_sample * n + constant) / divisor)) ---- */
typedef struct yki_expr {
    int64_t per_sample, constant;
    int64_t divisor; /* 0 counts as 1 */
    int64_t max;     /* 0: none */
} yki_expr;
#define YKI_CONST(c)      ((yki_expr){0, (c), 1, 0})
#define YKI_PER_SAMPLE(c) ((yki_expr){(c), 0, 1, 0})
int64_t yki_expr_value(yki_expr expr, int64_t n);

/* How a tensor lies in memory. block == 1: row-major, batch first: (N, shape...). block b > 1:
 * the first axis of the shape is split, (N, C/b, rest..., b), C rounded up to a multiple of b;
 * producers write padding lanes with finite values (0 where they can), reductions skip them. */
typedef struct yki_layout {
    uint32_t block;
} yki_layout;
#define YKI_PLAIN ((yki_layout){1})

typedef struct yki_operand {
    yoke_type type;
    yoke_shape shape;
    bool batched;
    yki_layout layout;
} yki_operand;

/* Numerical classes, from exact to less so; one per node for a whole team. */
typedef enum yki_class {
    YKI_CLASS_DIRECT = 0,
    YKI_CLASS_WINOGRAD2 = 1,
    YKI_CLASS_WINOGRAD4 = 2
} yki_class;
enum { YKI_CLASSES = 3 };

typedef struct yki_problem {
    const yki_op *op;
    yki_attrs attrs;
    uint32_t input_count;
    yki_operand in[YKI_MAX_INPUTS];
    yki_operand out;
    /* Further results: of operators that only fusions make, never of a node's. */
    uint32_t extra_count;
    yki_operand extra[YKI_MAX_EXTRAS];
    int64_t max_batch;
    const void *data;              /* the node's, lent by its graph; NULL for most */
    int32_t valid[YKI_MAX_INPUTS]; /* of an integer input: a value that may stand there */
} yki_problem;

enum { YKI_MAX_OPERANDS = YKI_MAX_INPUTS + 1 + YKI_MAX_EXTRAS };
/* Inputs, then the results: their order is that of a recipe's first slots. */
static inline uint32_t
yki_problem_operands(const yki_problem *problem)
{
    return problem->input_count + 1 + problem->extra_count;
}
const yki_operand *yki_problem_operand(const yki_problem *problem, uint32_t slot);

/* A node's problem, all layouts plain. */
void yki_problem_of_node(const yoke_node *node, int64_t max_batch, yki_problem *problem);
/* Reads these instead. */
void yki_problem_set_inputs(yki_problem *problem, yoke_node *const *inputs, uint32_t count);
/* Elements in memory for a batch of n, padding included. */
int64_t yki_operand_count(const yki_operand *operand, int64_t n);
/* The same, and the size in bytes, as expressions in the batch. */
yki_expr yki_operand_elements(const yki_operand *operand);
yki_expr yki_operand_bytes(const yki_operand *operand);
/* As text, unique: "conv2d 3x3 s1 p1 | f32 N 64,32,32 /16 | f32 64,64,3,3 -> ..."; wisdom's key. */
void yki_problem_text(const yki_problem *problem, char *text, size_t size);

/* ---- recipes ---- */

typedef enum yki_arg_kind {
    YKI_ARG_SLOT, /* a buffer */
    YKI_ARG_INT,  /* int: an expression's value */
    YKI_ARG_FLOAT,
    YKI_ARG_LOCAL, /* bytes of __local memory */
    YKI_ARG_STEP   /* the plan's buffer of step values (struct yki_step_values) */
} yki_arg_kind;

/* What changes from step to step is read from a device buffer, so arguments stay set.
 * Kernels see it as __global const uint *; floats by as_float. */
typedef struct yki_step_values {
    /* written by the host */
    uint32_t step; /* counts from 1 */
    uint32_t seed[2];
    uint32_t first_sample[2]; /* global index of this device's sample 0, low and high word */
    float learning_rate;
    float bias1, bias2; /* Adam: 1 - beta1^step, sqrt(1 - beta2^step) */
    /* written by the device, between backward and the update */
    float inverse_count; /* 1 / valid samples of the whole batch; 0 if there are none */
    float clip_scale;
    uint32_t good; /* 0: a gradient is not finite or no sample counted; no update */
    uint32_t reserved[5];
} yki_step_values;

typedef struct yki_arg {
    yki_arg_kind kind;
    uint32_t slot;
    yki_expr expr;
    float value;
} yki_arg;

/* When a launch runs. */
typedef enum yki_phase {
    YKI_PHASE_PREPARE, /* whenever the parameters it reads have changed: packing weights */
    YKI_PHASE_RUN
} yki_phase;

typedef struct yki_launch {
    yki_phase phase;
    const char *file; /* "gemm.cl"; strings live as long as the library or the graph */
    const char *kernel;
    const char *source; /* NULL: `file` of clkernels/; else the text, and `file` names it */
    char options[256];  /* "-DTILE=8": tiles only, shapes are arguments */
    yki_arg args[YKI_MAX_ARGS];
    uint32_t arg_count;
    yki_expr groups[3];
    uint32_t local[3];
    yki_expr flops, bytes; /* for explaining; 0: unknown */
    int64_t turns;         /* of its loops, that a work-item makes at most; 0: few */
} yki_launch;

typedef enum yki_slot_kind {
    YKI_SLOT_INPUT,   /* slots 0 .. input_count-1 */
    YKI_SLOT_OUTPUT,  /* slot input_count, and those of further results behind it */
    YKI_SLOT_SCRATCH, /* contents last for one run of the recipe */
    YKI_SLOT_PREPARED /* written by PREPARE launches, kept between runs */
} yki_slot_kind;

typedef struct yki_slot {
    yki_slot_kind kind;
    yki_expr bytes;
} yki_slot;

/* A call into another library, which enqueues to a queue. It comes before the RUN launches of
 * its recipe, which may finish what it leaves. */
typedef struct yki_library_call {
    const char *name;
    /* Builds what it needs, for any batch up to the largest; may run once and leaves the result
     * undefined. Waits. */
    yoke_status (*prepare)(yki_queue *queue, yki_buffer *const *slots, int64_t max_batch,
                           const void *data);
    yoke_status (*run)(yki_queue *queue, yki_buffer *const *slots, int64_t n, const void *data);
} yki_library_call;

typedef struct yki_recipe {
    yki_slot slots[YKI_MAX_SLOTS];
    uint32_t slot_count;
    yki_launch *launches;
    size_t launch_count, launch_capacity;
    yoke_status status;           /* the first thing that went wrong while building it */
    const yki_library_call *call; /* or NULL */
    yki_expr call_flops, call_bytes;
    unsigned char call_data[256];
} yki_recipe;

void yki_recipe_start(yki_recipe *recipe, const yki_problem *problem);
void yki_recipe_clear(yki_recipe *recipe);
/* A new slot's number. */
uint32_t yki_recipe_slot(yki_recipe *recipe, yki_slot_kind kind, yki_expr bytes);
/* A new launch, phase RUN; NULL when out of memory. options is a printf format. */
yki_launch *yki_recipe_launch(yki_recipe *recipe, const char *file, const char *kernel,
                              const char *options, ...) YKI_PRINTF(4, 5);
/* Arguments of the newest launch, in the kernel's order. */
void yki_arg_slot(yki_recipe *recipe, uint32_t slot);
void yki_arg_int(yki_recipe *recipe, int64_t value);
void yki_arg_expr(yki_recipe *recipe, yki_expr expr);
void yki_arg_float(yki_recipe *recipe, float value);
void yki_arg_local(yki_recipe *recipe, uint32_t bytes);
void yki_arg_step(yki_recipe *recipe);
void yki_launch_grid(yki_launch *launch, yki_expr g0, yki_expr g1, yki_expr g2, uint32_t l0,
                     uint32_t l1, uint32_t l2);

/* Notes that its work-items make `turns` of their loops all together, for the largest batch, and
 * each of them some more: traits->turns. */
void yki_launch_turns(yki_launch *launch, const yki_problem *problem, double turns, int64_t each);
/* The grid for a batch of n; false: there is nothing to do. */
bool yki_launch_grid_at(const yki_launch *launch, int64_t n, yki_grid *grid);
/* Its program, built if need be (run.c). */
yoke_status yki_launch_program(yoke_device *device, const yki_launch *launch,
                               yki_program **program);

/* ---- solvers ---- */

typedef struct yki_solver {
    const char *name; /* "conv2d-direct-blocked" */
    const yki_op *const *op;
    yki_class numerical_class;
    /* Its tunings are numbers of its own that a search finds (`yoke tune`): the planner takes
     * it only with one that wisdom has a time for. */
    bool searched;
    /* Made for work-items of a group that run side by side. A processor runs them in turn: there
     * it is measured only where no other of its class does the problem, or by level patient, as
     * translating it takes longer than a small model trains. */
    bool side_by_side;
    /* Whether it can do the problem, with the layouts as they stand, on such a device. */
    bool (*applies)(const yki_problem *problem, const yki_device_traits *traits);
    /* The layouts it wants, for a problem whose layouts are all plain; sets the layout of
     * operands (inputs by index, then out) and returns true, or false: not for this problem.
     * NULL: plain everywhere only. May be called several times with variant 0, 1, ... until
     * false, for solvers that work with several blocks. */
    bool (*layouts)(yki_problem *problem, const yki_device_traits *traits, unsigned variant);
    /* Writes the recipe. `tuning` 0 .. tunings-1 are alternatives to measure; 0 is the guess. */
    unsigned (*tunings)(const yki_problem *problem, const yki_device_traits *traits); /* NULL: 1 */
    yoke_status (*emit)(const yki_problem *problem, const yki_device_traits *traits,
                        unsigned tuning, yki_recipe *recipe);
} yki_solver;

/* emit(), on a device that ends a work-item after so many turns of its loops (traits->turns): as if
 * it had more compute units, so that solvers cut finer, until no launch says that it makes more; a
 * plain failure where that does not help. Everybody emits through this. */
yoke_status yki_solver_emit(const yki_solver *solver, const yki_problem *problem,
                            const yki_device_traits *traits, unsigned tuning, yki_recipe *recipe);
/* Whether what it emits for a problem that it applies to comes to its end there. */
bool yki_solver_ends(const yki_solver *solver, const yki_problem *problem,
                     const yki_device_traits *traits, unsigned tuning);
/* It applies, and its guess ends. */
bool yki_solver_suits(const yki_solver *solver, const yki_problem *problem,
                      const yki_device_traits *traits);

/* All solvers, NULL at the end (solvers.c), and all operators (table.c). */
extern const yki_solver *const yki_solvers[];
extern const yki_op *const yki_ops[];

/* ---- running a recipe by itself (run.c): tests, and the planner's measurements ---- */

typedef struct yki_runner yki_runner;

/* Builds programs and kernels, allocates scratch and prepared slots on the queue's device;
 * operands are bound to buffers (inputs..., results...). */
yoke_status yki_runner_create(yki_queue *queue, const yki_problem *problem,
                              const yki_recipe *recipe, yki_buffer *const *operands,
                              yki_buffer *step_values, yki_runner **runner);
void yki_runner_destroy(yki_runner *runner);
/* Enqueues the launches of a phase for a batch of n <= max_batch. */
yoke_status yki_runner_enqueue(yki_runner *runner, yki_phase phase, int64_t n, yki_event *done);

#endif
