/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - a graph compiled for one device.
 *
 *   weights   what stays: parameters, gradients, states, in buckets whose order and
 *             content the graph alone fixes. Shared by any number of plans.
 *   plan      tasks in order (one recipe each: solver, layouts, slots), the values
 *             between them packed into few buffers by lifetime, kernels with their
 *             arguments set. Running one allocates and builds nothing.
 *
 * How one is made: lower (graph -> values and tasks), choose (layouts and solvers,
 * reorders between them), recompute (what is not kept, where memory is short), pack (lifetimes ->
 * offsets), bind (buffers, programs, kernels). Each is a file.
 */
#ifndef YKI_PLAN_H
#define YKI_PLAN_H

#include "op/ops.h"

/* Adds what plans need to a graph: sums over the batch, and gradients for training. Once. */
yoke_status yki_graph_complete(yoke_graph *graph, bool training);

/* ---- parts of a graph on several devices (needed_nodes.c) ---- */

/* A value that one member computes and another reads. */
typedef struct yki_crossing {
    const yoke_node *node;
    uint32_t from, to;
    yki_buffer *source, *target; /* lent to the plans; the same where memory is shared */
} yki_crossing;

/* In the order of the nodes, which is the order in which they can be made. */
typedef struct yki_crossings {
    yki_crossing *list;
    size_t count, capacity;
} yki_crossings;

/* Which member has which part of a graph. */
typedef struct yki_placed {
    uint32_t *homes; /* member by node->place; [0]: of nodes without a place */
    uint32_t members;
    yki_crossings crossings[2]; /* of plans for evaluation and for training */
} yki_placed;

/* What a plan does with a node. */
typedef struct yki_use {
    bool live;   /* leads to a result */
    bool result; /* seen from outside */
    bool own;    /* given to this plan, or computed by it */
    bool import; /* read here, but another member's */
    bool needed; /* read by another node or a weight that is here */
} yki_use;

uint32_t yki_home_of(const yki_placed *placed, const yoke_node *node);
/* `uses` by node id; `placed` NULL: the whole graph. */
void yki_find_uses(const yoke_graph *graph, bool training, const yki_placed *placed, uint32_t home,
                   yki_use *uses);
/* Appends what crosses; the buffers are the caller's to make. */
yoke_status yki_find_crossings(const yoke_graph *graph, bool training, const yki_placed *placed,
                               yki_crossings *found);
/* Operator and inputs as a plan of this kind sees them. *op NULL: input 0 passes through. */
uint32_t yki_effective(const yoke_node *node, bool training, const yki_op **op, yoke_node **inputs);

/* ---- weights (weights.c) ---- */

/* Parameters start at multiples of this within a bucket: what any device we know asks of a
 * sub-buffer (4096 bits), so that each can be handed to a kernel by itself. */
enum { YKI_WEIGHT_ALIGN = 512 };

typedef struct yki_bucket {
    uint64_t size;                  /* bytes */
    yki_buffer *values, *gradients; /* gradients NULL unless training; both if it is elsewhere */
    uint32_t home;                  /* the member that has it, where parts are placed */
} yki_bucket;

typedef struct yki_weight {
    yoke_node *node;
    uint32_t bucket;
    uint64_t offset, size;        /* bytes, within the bucket */
    yki_buffer *value, *gradient; /* views; NULL where it is another member's */
} yki_weight;

typedef struct yki_weights {
    atomic_int references;
    yoke_device *device;
    yoke_graph *graph;
    yki_weight *weights; /* parameters, in the graph's order */
    size_t weight_count;
    yki_bucket *buckets; /* in the order in which gradients come about */
    size_t bucket_count;
    yki_weight *states; /* running statistics: one bucket of their own, no gradients */
    size_t state_count;
    yki_bucket state_bucket;
    struct yki_weights *lender; /* whose values and states these are, or NULL; retained */
    const yki_placed *placed;   /* lent; NULL: the whole graph is here */
    uint32_t home;              /* which member this is */
    uint64_t version;           /* goes up when a value changes: packed copies are stale */
    bool training;
} yki_weights;

/* `bucket_size` 0: 4 MiB. Completes the graph. With a lender, of a device of the same space, the
 * same graph and bucket size, only gradients are made. */
yoke_status yki_weights_create(yoke_device *device, yoke_graph *graph, bool training,
                               uint64_t bucket_size, yki_weights *lender, yki_weights **weights);
/* Of one member's part of a graph: order and offsets of buckets are those of all, but memory is
 * only made for its own. A bucket is never of two members. `placed` outlives the weights. */
yoke_status yki_weights_create_placed(yoke_device *device, yoke_graph *graph, bool training,
                                      uint64_t bucket_size, const yki_placed *placed, uint32_t home,
                                      yki_weights **weights);
bool yki_weights_has(const yki_weights *weights, size_t bucket);
yki_weights *yki_weights_retain(yki_weights *weights);
void yki_weights_release(yki_weights *weights);
/* A parameter or state by name, here or not; NULL with the detail set if there is none. */
yki_weight *yki_weights_find(yki_weights *weights, const char *name);
/* Initial values of parameter `index` into host memory; the same on every host. */
void yki_initialize(const yoke_node *node, uint32_t seed, uint32_t index, float *values);
/* All of them, uploaded. Waits. */
yoke_status yki_weights_initialize(yki_weights *weights, uint32_t seed);

/* ---- plan ---- */

typedef enum yki_section { YKI_FORWARD, YKI_BACKWARD, YKI_SECTIONS } yki_section;

typedef enum yki_storage {
    YKI_STORE_ARENA,  /* packed by lifetime */
    YKI_STORE_LENT,   /* a weight, gradient, state or constant: exists elsewhere */
    YKI_STORE_INPUT,  /* written before a run */
    YKI_STORE_POOLED, /* in the plan's pool: statistics, until states take them up */
    YKI_STORE_KEPT    /* of its own for the plan's life: results, prepared slots */
} yki_storage;

typedef struct yki_value {
    const yoke_node *node; /* NULL: scratch, prepared, or a reordered copy */
    yki_operand operand;
    yki_storage storage;
    uint64_t size;       /* bytes at the largest batch */
    int32_t alias;       /* shares the memory of this value (views, in place); -1: none */
    int32_t first, last; /* tasks that write it first and use it last */
    uint32_t chunk;      /* arena: which buffer, and where in it */
    uint64_t offset;
    yki_buffer *buffer; /* once bound */
    bool owned;         /* the buffer is this value's */
    bool decided;       /* its layout is final */
    bool given;         /* before a run: an input, or computed by another member (inputs.c) */
    uint32_t bucket;    /* of a parameter's gradient: its bucket + 1; else 0 */
    int32_t copies;     /* the newest copy of it in another layout; 0 (never a copy): none */
    int32_t next_copy;  /* of a copy: the one before */
} yki_value;

typedef struct yki_task {
    const yoke_node *node; /* NULL: a reorder */
    yki_section section;
    yki_problem problem;
    const yki_solver *solver;
    unsigned tuning;
    double seconds; /* measured or from wisdom at the largest batch; 0: unknown */
    yki_recipe recipe;
    int32_t slots[YKI_MAX_SLOTS]; /* value of each slot of the recipe */
    yki_kernel **kernels;
    bool dropped; /* joined with another; gone when fusing is done */
} yki_task;

typedef enum yki_level { YKI_LEVEL_MEASURE = 0, YKI_LEVEL_ESTIMATE, YKI_LEVEL_PATIENT } yki_level;

typedef struct yki_plan_options {
    int64_t max_batch;
    bool training;
    bool strict;    /* direct class only */
    bool no_fusion; /* every node a task of its own: what fusions are compared with */
    yki_level level;
    bool team;                 /* statistics of the batch are merged with those of other devices */
    bool small;                /* in training: memory before speed (recompute.c) */
    bool repeats;              /* in training: several runs between updates of the weights */
    double budget;             /* seconds of measuring; 0: by level */
    double spent;              /* of them, before */
    struct yki_wisdom *wisdom; /* NULL: nothing known, nothing kept */
    const uint8_t *classes;   /* by node id: numerical class + 1; lent; NULL: the device's choice */
    size_t class_count;       /* nodes beyond have YKI_ANY_CLASS */
    void (*tick)(void *user); /* called now and then while planning takes its time; or NULL */
    void *tick_user;
} yki_plan_options;

/* Where a section has to be left: before task `task` runs, `in` of every device of the team
 * becomes `out` of each. */
typedef struct yki_stop {
    size_t task;
    yki_section section;
    yki_merge merge;
    yki_buffer *in, *out;
    size_t count; /* floats */
} yki_stop;

/* A running statistic that moves on at the end of a step, without a task (running.c). */
typedef struct yki_running {
    int32_t statistics; /* value */
    uint32_t state;     /* among the weights' states */
    bool variance;
    float momentum;
} yki_running;

typedef struct yki_plan {
    yki_plan_options options;
    yki_weights *weights;
    yki_queue *queue;
    yki_value *values;
    size_t value_count, value_capacity;
    yki_task *tasks;
    size_t task_count, task_capacity;
    int32_t *node_value; /* by node id: current value, -1: none */
    int32_t *unmerged;   /* likewise, of this device alone, where a team's plan merges */
    yki_stop *stops;     /* in order; once bound */
    size_t stop_count;
    size_t *bucket_task; /* by bucket: the last task that writes to its gradients */
    size_t node_count;
    yki_buffer **chunks;
    uint64_t *chunk_sizes;
    size_t chunk_count, chunk_capacity;
    yki_buffer *step_values;
    yki_kernel **commits; /* by state; NULL where it has no next value, or is in `runnings` */
    yki_running *runnings;
    size_t running_count, running_capacity, running_rows;
    yki_buffer *pool, *running_table;
    uint64_t pool_size;
    yki_kernel *commit_running;
    uint64_t prepared_version;
    int64_t batch;           /* what arguments are set for */
    double measured_seconds; /* spent while choosing */
    double reported;         /* when the log last told of it */
    unsigned measured_count;
    uint64_t work; /* turns of the planner's loops, measuring aside: tests hold its growth */
    struct yki_costs *costs; /* of a survey; NULL: a plan to be run */
    bool has_set;            /* for solvers whose tunings are searched: the one to take */
    unsigned set;
    bool asks;   /* only for some results (ask.c): */
    bool *asked; /* by node id: these, and what they are computed from */
    bool *skips; /* by task: left out */
} yki_plan;

yoke_status yki_plan_create(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                            yki_plan **plan);
void yki_plan_destroy(yki_plan *plan);
/* The buffer of a node's value (input, output, loss sum, gradient by an input); NULL if it does
 * not exist in this plan. Plain layout. */
yki_buffer *yki_plan_buffer(const yki_plan *plan, const yoke_node *node);
/* Enqueues a section for a batch of n. Packed weights are refreshed first where stale. */
yoke_status yki_plan_enqueue(yki_plan *plan, yki_section section, int64_t n, yki_event *done);
/* The same in pieces, between the stops of a team's plan: begin, then [0, stop), [stop, next), ...
 * up to task_count. */
yoke_status yki_plan_begin(yki_plan *plan, int64_t n);
yoke_status yki_plan_enqueue_tasks(yki_plan *plan, yki_section section, size_t first, size_t end);
/* From now on tasks that only other results need are left out; a count of 0: all run again. */
yoke_status yki_plan_ask(yki_plan *plan, const yoke_node *const *nodes, size_t count);
/* Whether a run computes it. */
bool yki_plan_is_asked(const yki_plan *plan, const yoke_node *node);
/* Enqueues what follows a step: states take their next values, unless the step values say that
 * it is skipped. */
yoke_status yki_plan_commit_states(yki_plan *plan);
/* The same on another queue of the same space. */
yoke_status yki_plan_commit_states_on(yki_plan *plan, yki_queue *queue);
uint64_t yki_plan_memory(const yki_plan *plan);
/* What a plan made like this one for another largest batch would take: exact where solvers are
 * estimated, else the larger of that and of what these solvers would take. UINT64_MAX: an
 * allocation would be larger than the device allows. Makes nothing. */
yoke_status yki_plan_memory_at(const yki_plan *plan, int64_t batch, uint64_t *bytes);
/* Its part in pack.c: these solvers. */
yoke_status yki_plan_repacked(const yki_plan *plan, int64_t batch, uint64_t *bytes);

/* ---- capacity.c ---- */

/* The same, and UINT64_MAX where no solver applies to so large a batch. */
yoke_status yki_plan_bytes_at(const yki_plan *plan, int64_t batch, uint64_t *bytes);
/* Bytes that `samples` samples at once need; `user` is the caller's. */
typedef yoke_status (*yki_bytes_of)(const void *user, int64_t samples, uint64_t *bytes);
/* The most samples whose bytes do not exceed `room`, to within a hundredth. The search begins at
 * `start`, which should be near. */
yoke_status yki_find_capacity(yki_bytes_of bytes_of, const void *user, uint64_t room, int64_t start,
                              int64_t *samples);
/* The largest batch for which this plan could have been made. */
yoke_status yki_plan_capacity(const yki_plan *plan, int64_t *samples);

/* ---- print.c ---- */

/* Lines of a table: each command, its solver, layout, FLOPs, bytes, time, part of the limit, which
 * is measured for it; the memory map. */
yoke_status yki_plan_print(const yki_plan *plan, void (*line)(void *, const char *), void *user);

/* See yoke_plan_measure. */
yoke_status yki_plan_profile(yki_plan *plan, int64_t n, unsigned repeats,
                             void (*each)(void *, const yoke_command_info *), void *user);

/* The stages; each leaves the plan destroyable whatever happens. */
yoke_status yki_plan_lower(yki_plan *plan);     /* lower.c */
yoke_status yki_plan_fuse(yki_plan *plan);      /* fuse.c */
yoke_status yki_plan_search(yki_plan *plan);    /* search.c */
yoke_status yki_plan_choose(yki_plan *plan);    /* choose.c */
yoke_status yki_plan_recompute(yki_plan *plan); /* recompute.c */
yoke_status yki_plan_pack(yki_plan *plan);      /* pack.c */
yoke_status yki_plan_bind(yki_plan *plan);      /* bind.c */

/* Values to begin with, which no kernel can be led astray by. (inputs.c) */
yoke_status yki_plan_fill_inputs(yki_plan *plan);

/* running.c */
yoke_status yki_plan_bind_running(yki_plan *plan); /* after all values have buffers */
yoke_status yki_plan_commit_running(yki_plan *plan, yki_queue *queue);
void yki_plan_free_running(yki_plan *plan);

/* Shared by the stages. */

/* Weights change between any two runs, so that packed copies of them serve one task once: they are
 * made right before it, in memory that lives no longer. Else they are kept while weights stay. */
static inline bool
yki_plan_repacks(const yki_plan *plan)
{
    return plan->options.training && (plan->options.small || !plan->options.repeats);
}
static inline void
yki_plan_tick(const yki_plan *plan)
{
    if (plan->options.tick)
        plan->options.tick(plan->options.tick_user);
}
double yki_plan_budget(const yki_plan *plan); /* seconds of measuring */
yoke_status yki_plan_add_value(yki_plan *plan, const yki_value *value, int32_t *index);
yoke_status yki_plan_add_task(yki_plan *plan, const yki_task *task);
int32_t yki_value_root(const yki_plan *plan, int32_t value);
/* The buffers of a bound task's slots. */
void yki_plan_slots(const yki_plan *plan, const yki_task *task, yki_buffer *slots[YKI_MAX_SLOTS]);

/* ---- numerical classes of a team (classes.c) ---- */

#define YKI_NOT_TO_BE_HAD (-1.0)
enum { YKI_ANY_CLASS = 0 };

/* What each class of solvers costs a device, node by node. */
typedef struct yki_costs {
    size_t nodes;
    double *of;   /* node * YKI_CLASSES + class: seconds; 0: no such solver (all 0: no task) */
    double total; /* of the device's own choice */
} yki_costs;

const char *yki_class_name(yki_class numerical_class);
yoke_status yki_costs_create(size_t nodes, yki_costs *costs);
void yki_costs_free(yki_costs *costs);
/* A task of a node: its cost by class; 0: no such solver. */
void yki_costs_add(yki_costs *costs, uint32_t node, const double task[YKI_CLASSES]);
/* As the devices' sum takes them: by the device's speed, YKI_NOT_TO_BE_HAD where one is missing. */
void yki_costs_weigh(yki_costs *costs);
void yki_costs_merge(yki_costs *into, const double *weighed);
/* The least of each node, + 1; YKI_ANY_CLASS: no task of it. Weighed or not. */
void yki_costs_choose(const yki_costs *costs, uint8_t *classes);
/* What options say of a node, class + 1 or YKI_ANY_CLASS. */
static inline uint8_t
yki_agreed_class(const yki_plan_options *o, const yoke_node *node)
{
    return o->classes && node && node->id < o->class_count ? o->classes[node->id] : YKI_ANY_CLASS;
}
/* The plan has the classes that it was told; one for evaluation may do more of it directly. */
yoke_status yki_classes_check(const yki_plan *plan);
/* As yki_plan_create goes about it, but only costs come out. *seconds: spent on measuring. */
yoke_status yki_plan_survey(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                            yki_costs *costs, double *seconds);

/* ---- measuring one recipe (measure.c) ---- */

/* Seconds of a run at the largest batch, prepared slots included if `prepare`; the least of a
 * few. Allocates operands for the time of the call. */
yoke_status yki_measure(yki_queue *queue, const yki_problem *problem, const yki_solver *solver,
                        unsigned tuning, bool prepare, double *seconds);

/* ---- wisdom (wisdom.c) ---- */

typedef struct yki_wisdom yki_wisdom;

/* What was measured, as text: one line per device, problem, solver and tuning. A file that
 * cannot be used is reported and ignored. `path` NULL: memory only. */
yoke_status yki_wisdom_open(const char *path, yki_wisdom **wisdom);
void yki_wisdom_close(yki_wisdom *wisdom);
bool yki_wisdom_get(yki_wisdom *wisdom, yoke_device *device, const char *problem,
                    const char *solver, unsigned tuning, double *seconds);
/* Everything that is known of a solver on the device; under wisdom's lock. */
void yki_wisdom_each(yki_wisdom *wisdom, yoke_device *device, const char *solver,
                     void (*each)(void *user, unsigned tuning, const char *problem, double seconds),
                     void *user);
yoke_status yki_wisdom_put(yki_wisdom *wisdom, yoke_device *device, const char *problem,
                           const char *solver, unsigned tuning, double seconds);
/* Merges with what others wrote meanwhile; atomic. */
yoke_status yki_wisdom_save(yki_wisdom *wisdom);
/* What others wrote meanwhile. */
yoke_status yki_wisdom_refresh(yki_wisdom *wisdom);
/* For another process: what all of these know, the first of two times for the same. free() it. */
yoke_status yki_wisdom_tell(yki_wisdom *const *parts, size_t count, char **text);
/* From now on what another process told is what is known of the problems that it knows, on devices
 * of these kinds; of others what was known before. It replaces what was followed before, and never
 * comes into the file. */
yoke_status yki_wisdom_follow(yki_wisdom *wisdom, const char *text);
/* A solver whose times are a device's own: nobody else is told of them. */
#define YKI_WISDOM_OWN "team-share"

#endif
