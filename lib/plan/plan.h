/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - a graph compiled for one device.
 *
 *   weights   parameters, gradients and states, in buckets. The graph alone fixes the order and
 *             the content of the buckets. Any number of plans share one yki_weights.
 *   plan      tasks in order, each with its recipe (solver, layouts, slots); the values between
 *             them, packed into few buffers by lifetime; kernels with their arguments set.
 *             Running a plan allocates and builds nothing.
 *
 * yki_plan_create runs these stages, each in a file of its own:
 *
 *   lower       turns the graph into values and tasks
 *   fuse        joins tasks
 *   search      picks a parameter set for each solver that has them
 *   choose      picks solvers and layouts, and adds reorders between them
 *   join        joins tasks whose solvers have a common one, or one that gives the other parts
 *   hasten      in a stage of a graph, lets backward first compute what other members wait for
 *   recompute   where memory is short, computes values again instead of keeping them, or keeps
 *               them in half their bytes
 *   pack        turns lifetimes into offsets
 *   bind        makes buffers, programs and kernels
 */
#ifndef YKI_PLAN_H
#define YKI_PLAN_H

#include "op/ops.h"

/* Adds the nodes that only plans need: sums over the batch and, for training, gradients. Nodes
 * that are there already are not added again. */
yoke_status yki_graph_complete(yoke_graph *graph, bool training);

/* ---- stages: a graph whose nodes are placed on several devices (needed_nodes.c) ---- */

/* A value that one member computes and another reads. */
typedef struct yki_crossing {
    const yoke_node *node;
    uint32_t from, to;           /* members */
    yki_buffer *source, *target; /* lent to the plans; the same buffer where memory is shared */
} yki_crossing;

/* Crossings in the order of the nodes, which is the order in which they can be made. */
typedef struct yki_crossings {
    yki_crossing *list;
    size_t count, capacity;
} yki_crossings;

/* Which member computes which nodes of a graph. */
typedef struct yki_placed {
    uint32_t *homes; /* member by node id, of the completed graph */
    uint32_t members;
    yki_crossings crossings[2]; /* [0] of plans for evaluation, [1] of plans for training */
} yki_placed;

/* What a plan does with a node. `needed` and `import` are set only where nodes are placed. */
typedef struct yki_use {
    bool live;   /* a result depends on it */
    bool result; /* seen from outside the plan */
    bool own;    /* given to this plan, or computed by it */
    bool import; /* read here, but computed by another member */
    bool needed; /* read by another node or a weight that is here */
} yki_use;

/* Returns the member that computes the node. */
uint32_t yki_home_of(const yki_placed *placed, const yoke_node *node);
/* Fills `uses`, one entry for each node id, for a plan of member `home`. With `placed` NULL the
 * plan has the whole graph. */
void yki_find_uses(const yoke_graph *graph, bool training, const yki_placed *placed, uint32_t home,
                   yki_use *uses);
/* Appends each value that crosses from one member to another. The buffers stay NULL: the caller
 * makes them. */
yoke_status yki_find_crossings(const yoke_graph *graph, bool training, const yki_placed *placed,
                               yki_crossings *found);
/* Gives the operator and the inputs of a node in a plan for training or for evaluation, and returns
 * the number of inputs. *op is NULL where the node computes nothing: input 0 passes through, or the
 * node is no operator and has no inputs. */
uint32_t yki_effective(const yoke_node *node, bool training, const yki_op **op, yoke_node **inputs);

/* ---- weights (weights.c) ---- */

/* Parameters start at multiples of this many bytes within a bucket. Each can then be a sub-buffer,
 * which a kernel takes by itself: 4096 bits is the largest alignment of sub-buffers on any device
 * that we know. */
enum { YKI_WEIGHT_ALIGN = 512 };

typedef struct yki_bucket {
    uint64_t size;                  /* bytes */
    yki_buffer *values, *gradients; /* views; gradients: NULL unless training; both: if elsewhere */
    uint32_t home;                  /* the member that has the bucket, where nodes are placed */
    uint32_t pool;                  /* where its memory is, if it is here */
    uint64_t start;                 /* bytes, within the pool */
} yki_bucket;

/* Neighbouring buckets lie in one buffer, so one launch can update them all. There are several only
 * where the device does not allow so large a buffer. */
typedef struct yki_pool {
    uint64_t size;
    yki_buffer *values, *gradients;
} yki_pool;

typedef struct yki_weight {
    yoke_node *node;
    uint32_t bucket;
    uint64_t offset, size;        /* bytes, within the bucket */
    yki_buffer *value, *gradient; /* views; NULL if another member has the weight; value: also if
                                     it is divided; gradient: also if it is transient */
} yki_weight;

typedef struct yki_weights {
    atomic_int references;
    yoke_device *device;
    yoke_graph *graph;
    yki_weight *weights; /* parameters, in the graph's order */
    size_t weight_count;
    yki_bucket *buckets; /* in the order in which backward completes their gradients */
    size_t bucket_count;
    size_t frozen_buckets; /* behind those: of frozen parameters, which have no gradients */
    yki_pool *pools;
    size_t pool_count;
    size_t frozen_pools; /* behind those, likewise */
    yki_weight *states;  /* running statistics: in one bucket of their own, without gradients */
    size_t state_count;
    yki_bucket state_bucket;
    struct yki_weights *lender; /* owns the values and states; retained; or NULL */
    const yki_placed *placed;   /* lent; NULL: the whole graph is here */
    uint32_t home;              /* which member this is */
    uint64_t version;           /* goes up when a value changes: packed copies are stale */
    bool training;
    bool transient; /* gradients have no memory of their own: a plan gives buckets some of its
                       memory, while they are computed and summed (buckets.c) */
    bool divided; /* nor have values that are trained, but for the parts that updaters keep: a plan
                     gives buckets memory while tasks read them (gathers.c) */
    bool bare;    /* nothing has memory */
    uint32_t *gather_order; /* if divided: the buckets of forward, as they are gathered, and those
                               of backward; the lender's, if there is one */
} yki_weights;

/* Completes the graph and makes its weights, filled with zeros, with one reference. A `bucket_size`
 * of 0 means 4 MiB. With a `lender`, only gradients are made, and values and states are the
 * lender's; states only if it has any. The lender's device must have the same memory, its bucket
 * size the same, and its graph the same as far as parameters and states go. Waits. */
yoke_status yki_weights_create(yoke_device *device, yoke_graph *graph, bool training,
                               uint64_t bucket_size, yki_weights *lender, yki_weights **weights);
/* The same for training, but gradients are transient, also those of weights that borrow from these.
 * With `divided`, so are the values, which the caller initializes. */
yoke_status yki_weights_create_transient(yoke_device *device, yoke_graph *graph,
                                         uint64_t bucket_size, yki_weights *lender, bool divided,
                                         yki_weights **weights);
/* Makes the weights of member `home` of a graph with places. The order and the offsets of the
 * buckets are those of the whole graph, but only the member's own buckets get memory. No bucket
 * holds weights of two members. `placed` must outlive the weights. Waits. */
yoke_status yki_weights_create_placed(yoke_device *device, yoke_graph *graph, bool training,
                                      uint64_t bucket_size, const yki_placed *placed, uint32_t home,
                                      yki_weights **weights);
/* Makes weights for training that have no memory, for those who only ask what a plan would do. */
yoke_status yki_weights_create_bare(yoke_device *device, yoke_graph *graph, yki_weights **weights);
/* Returns whether this member has the bucket. */
bool yki_weights_has(const yki_weights *weights, size_t bucket);
/* Returns whether the values of a parameter have no memory of their own. */
static inline bool
yki_weights_divides(const yki_weights *weights, const yki_weight *weight)
{
    return weights->divided && weight->bucket < weights->bucket_count &&
           weight->node->role == YKI_ROLE_PARAMETER;
}
/* Returns whether this member computes the gradient of a parameter. */
bool yki_weights_trains(const yki_weights *weights, const yki_weight *weight);
/* Each reference is released once; the last release frees the weights. Release accepts NULL. */
yki_weights *yki_weights_retain(yki_weights *weights);
void yki_weights_release(yki_weights *weights);
/* Returns the parameter or state of this name, even if another member has it. Returns NULL and sets
 * the error's detail if there is none. */
yki_weight *yki_weights_find(yki_weights *weights, const char *name);
/* Writes the initial values of a parameter or state into host memory. `index` is its number among
 * the parameters and then the states. The bits are the same on every host. */
void yki_initialize(const yoke_node *node, uint32_t seed, uint32_t index, float *values);
/* Uploads the initial values of all parameters and states that are here. Waits. */
yoke_status yki_weights_initialize(yki_weights *weights, uint32_t seed);

/* ---- plan ---- */

typedef enum yki_section { YKI_FORWARD, YKI_BACKWARD, YKI_SECTIONS } yki_section;

typedef enum yki_storage {
    YKI_STORE_ARENA,  /* packed by lifetime */
    YKI_STORE_LENT,   /* a weight, gradient, state or crossing: its buffer is lent to the plan */
    YKI_STORE_INPUT,  /* written by the caller before a run */
    YKI_STORE_POOLED, /* in the plan's pool: statistics, kept until the states are updated, and
                         parts of gradients, until they are added */
    YKI_STORE_KEPT    /* a buffer for the plan's life: results, packed weights */
} yki_storage;

typedef struct yki_value {
    const yoke_node *node; /* NULL: scratch, packed weights, or a reordered copy */
    yki_operand operand;
    yki_storage storage;
    uint64_t size;       /* bytes at the largest extents */
    int32_t alias;       /* the value whose memory this one uses (views, in place); -1: none */
    int32_t first, last; /* tasks that write it first and use it last */
    uint32_t chunk;      /* arena: which buffer, and where in it */
    uint64_t offset;     /* of a parameter's gradient: in the pool of the weights */
    yki_buffer *buffer;  /* set by bind, or lent */
    bool owned;          /* the value owns its buffer */
    bool decided;        /* its layout is final */
    bool given;          /* written before a run: an input, or from another member (inputs.c) */
    uint32_t bucket;     /* of a parameter's gradient: its bucket + 1; else 0 */
    uint32_t within;     /* the bucket + 1 in whose memory it lies, at `offset`; else 0 */
    uint32_t gathered;   /* of a parameter without memory of its own: its bucket + 1; in backward
                          * there are as many more; else 0 */
    int32_t copies;      /* its newest copy in another layout; 0: none (value 0 is never a copy) */
    int32_t next_copy;   /* of a copy: the copy made before it */
} yki_value;

typedef struct yki_task {
    const yoke_node *node; /* NULL: the planner added it: a reorder, a copied gradient, a change of
                            * type */
    yki_section section;
    yki_problem problem;
    const yki_solver *solver; /* NULL: a view */
    unsigned tuning;
    double seconds; /* measured or from wisdom, at the largest extents; 0: unknown */
    yki_recipe recipe;
    int32_t slots[YKI_MAX_SLOTS]; /* the value of each slot of the recipe */
    yki_kernel **kernels;
    bool dropped;     /* joined with another task; removed when fusing ends */
    bool again;       /* a task of forward that is run again in backward (again.c); */
    int32_t first;    /* the task that is its first run */
    bool opens;       /* the first that writes to some transient bucket */
    yki_class rounds; /* of a product: the class that rounds its operands, if it may; else direct */
} yki_task;

/* The extents of a task where its plan has these. */
static inline yki_extents
yki_task_extents(const yki_task *task, yki_extents extents)
{
    return yki_extents_for(extents, task->problem.rows);
}

typedef struct yki_plan_options {
    yki_extents max; /* the largest that the plan can run with; the length is the graph's */
    bool training;
    bool strict;           /* direct class only, or that of the precision */
    const char *precision; /* of products: see yki_precision_check; lent; NULL: f32 */
    bool scales_loss;      /* gradients have the loss scale of the step values */
    bool no_fusion;        /* every node is a task of its own: tests compare fusions with this */
    bool no_join;          /* no stage `join`, no `hasten`: yki_plan_create sets it where memory is
                            * short */
    yoke_plan_level level;
    bool team;       /* statistics of the batch are merged with those of other devices */
    bool small;      /* in training: saves memory at the cost of speed (recompute.c) */
    uint64_t most;   /* in training: bytes that its values may take (budget.c); 0: no limit */
    bool only_bytes; /* with `most`: only the bytes of the plan are asked for, of which any number
                      * within it will do (yki_plan_memory_at) */
    bool repeats;    /* in training: several micro-batches before each update */
    bool canonical;  /* the same bits on every device: solvers of a fixed order, and
                      * nothing that follows from measuring */
    /* A plan of the same weights and options, which was made like this one: nothing that planning
     * depends on was measured. Its packed weights serve both; it has to live as long. */
    struct yki_plan *packer;
    bool late_sums;            /* nobody reads a gradient before backward ends (late_sums.c) */
    double budget;             /* seconds for measuring; 0: by level */
    double spent;              /* seconds of the budget that are used up already */
    uint32_t lag;              /* with transient gradients: buckets that are computed before one is
                                * taken from its memory; 0: it is taken by the plan's queue */
    struct yki_wisdom *wisdom; /* lent; NULL: nothing is known and nothing is kept */
    const uint8_t *classes;    /* by node id: numerical class + 1; lent; NULL: the device chooses */
    size_t class_count;        /* nodes beyond it have YKI_ANY_CLASS */
    void (*tick)(void *user);  /* called now and then during planning; or NULL */
    void *tick_user;
    /* What is measured is first run once, and other processes compile some of it meanwhile
     * (rehearse.c); lent; NULL: this process compiles everything as it is measured. */
    const struct yki_rehearsal *rehearsal;
} yki_plan_options;

/* The caller leaves a section here: before task `task` runs, it merges `in` of all devices of the
 * team into `out` of each; or it gathers the weights of a bucket into `out`. */
typedef struct yki_stop {
    size_t task;
    yki_section section;
    yki_merge merge;
    yki_buffer *in, *out; /* out: NULL if no task of the section reads the bucket */
    size_t count;         /* floats of a statistic */
    uint32_t gathers;     /* the bucket + 1; 0: it is a statistic */
} yki_stop;

/* A running statistic that is updated at the end of a step, without a task (running.c). */
typedef struct yki_running {
    int32_t statistics; /* value */
    uint32_t state;     /* among the weights' states */
    bool variance;
    float momentum;
} yki_running;

/* The one launch that updates all running statistics (running.c). */
typedef struct yki_running_update {
    yki_running *list;
    size_t count, capacity;
    yki_buffer *pool; /* the statistics of the batch, which the launch reads */
    uint64_t pool_size;
    yki_buffer *table; /* says which statistics belong to which state */
    size_t rows;       /* of the table */
    yki_kernel *kernel;
} yki_running_update;

/* A weight's gradient that is there in parts until the end of backward (late_sums.c). */
typedef struct yki_late_sum {
    uint64_t from, to;    /* bytes: in the plan's pool, and among the gradients */
    int64_t count, parts; /* elements of the sum */
} yki_late_sum;

/* The one launch that adds them. */
typedef struct yki_late_sums {
    yki_late_sum *list;
    size_t count, capacity;
    uint64_t bytes; /* of all parts */
    yki_buffer *table;
    size_t rows;
    yki_kernel *kernel;
} yki_late_sums;

/* The results that runs compute, if not all (ask.c). */
typedef struct yki_asked {
    bool some;   /* only some: */
    bool *nodes; /* by node id: these results, and what they are computed from */
    bool *skips; /* by task: left out */
} yki_asked;

/* The set of parameters that a plan takes for all problems of a solver. */
typedef struct yki_taken_set {
    const yki_solver *solver;
    unsigned set;
} yki_taken_set;

typedef struct yki_plan {
    yki_plan_options options;
    yki_weights *weights;                                 /* retained */
    yki_queue *queue;                                     /* lent */
    yki_device_traits canonical[YKI_CANONICAL_FIXED + 1]; /* what solvers are told */
    yki_value *values;
    size_t value_count, value_capacity;
    yki_task *tasks;
    size_t task_count, task_capacity;
    int32_t *node_value; /* by node id: its value; -1: none */
    int32_t *unmerged;   /* by node id: this device's own value where the team merges it; or -1 */
    yki_stop *stops;     /* in the order of tasks; set by bind */
    size_t stop_count;
    size_t *bucket_task;   /* by bucket: the last task that writes to its gradients */
    int32_t bucket_value;  /* the value that is the memory of bucket 0, if gradients are transient;
                              those of the others follow */
    bool lends_buckets;    /* it has given buckets memory */
    int32_t weights_value; /* the value that is the memory of the weights of bucket 0 in forward, if
                              they are divided; those of the others and those in backward follow */
    size_t node_count;
    struct {
        yki_buffer **buffers;
        uint64_t *sizes;
        size_t count, capacity;
    } chunks; /* of memory, in which values are packed */
    yki_buffer *step_values;
    yki_kernel **commits; /* by state; NULL where it has no next value, or is in `running` */
    yki_running_update running;
    yoke_device *commits_on; /* the kernels of both are for its space; NULL: there are none */
    yki_late_sums late;
    uint64_t prepared_version; /* the version of the weights that packed copies were made of */
    yki_extents extents;       /* for which kernel arguments are set; a batch of -1: none yet */
    struct {
        double seconds;  /* spent, options.spent included */
        double reported; /* when the log last reported progress */
        unsigned count;
    } measuring;
    struct {
        uint64_t before;       /* bytes that the plan would have taken; 0: nothing was asked */
        uint64_t least;        /* bytes that were found possible, where the budget is below */
        size_t tasks;          /* that run again, */
        double seconds, whole; /* their time and that of all tasks before; measured or guessed */
        bool measured;         /* all of it */
        bool tight;            /* so much memory is too much: late sums do not have any */
    } recomputed;              /* to stay within options.most (budget.c) */
    struct {
        size_t values;
        uint64_t bytes;    /* that they take, half of what they would */
    } halved;              /* kept from forward for backward (halves.c) */
    bool joined, hastened; /* by these stages: more memory is in use at a time */
    uint64_t work; /* iterations of the planner's loops, measuring aside: tests limit its growth */
    struct yki_costs *costs; /* of a survey; NULL: a plan to be run */
    struct {
        yki_taken_set *list;
        size_t count, capacity;
    } sets; /* taken, of the solvers whose tunings are sets of parameters */
    yki_asked asked;
    struct yki_plan *twin_of; /* the plan whose tasks these are; NULL: none (twin.c), */
    struct yki_plan *memory;  /* and the one whose memory it uses; NULL: its own */
} yki_plan;

/* Makes a plan. The plan retains `weights`. `queue` and the pointers in `options` must outlive the
 * plan; `options` itself is copied. Measures solvers if the level says so. Waits. */
yoke_status yki_plan_create(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                            yki_plan **plan);
void yki_plan_destroy(yki_plan *plan);
/* Makes a twin of a bound plan (twin.c), which is destroyed before it. `memory`: the plan or
 * another twin of it, which outlives this one and is never under way together with it; NULL: memory
 * of its own. lent[i]: the buffer of the value of node i, where it crosses; NULL: as in the plan.
 * Waits. */
yoke_status yki_plan_twin(yki_plan *plan, yki_plan *memory, yki_buffer *const *lent,
                          yki_plan **twin);
/* Returns the buffer of an input, an output, a sum over the batch, or a gradient by an input; NULL
 * if the plan has no value for the node. The layout is plain, and the plan keeps the buffer. */
yki_buffer *yki_plan_buffer(const yki_plan *plan, const yoke_node *node);
/* Enqueues a section, and a marker if `done` is not NULL. Packed weights that are stale are made
 * anew first. */
yoke_status yki_plan_enqueue(yki_plan *plan, yki_section section, yki_extents extents,
                             yki_event *done);
/* These two do the same in pieces, between the stops of a team's plan: begin once, then enqueue
 * tasks [0, stop), [stop, next stop), ... up to task_count. */
yoke_status yki_plan_begin(yki_plan *plan, yki_extents extents);
yoke_status yki_plan_enqueue_tasks(yki_plan *plan, yki_section section, size_t first, size_t end);
/* From now on runs leave out the tasks that none of these nodes needs. A count of 0 lets all tasks
 * run again. Only for plans for evaluation. */
yoke_status yki_plan_ask(yki_plan *plan, const yoke_node *const *nodes, size_t count);
/* Returns whether runs compute the node. */
bool yki_plan_is_asked(const yki_plan *plan, const yoke_node *node);
/* Enqueues the end of a training step: states take their next values, unless the step values say
 * that the step is skipped. */
yoke_status yki_plan_commit_states(yki_plan *plan);
/* Does the same on another queue of the same memory; may compile. */
yoke_status yki_plan_commit_states_on(yki_plan *plan, yki_queue *queue);
/* Returns the bytes of a packed plan's values; UINT64_MAX if one allocation would be larger than
 * the device allows. */
uint64_t yki_plan_memory(const yki_plan *plan);
/* Gives the bytes that a plan made like this one would take for other largest extents. For level
 * estimate this is exact. For other levels it is the larger of an estimated plan's bytes and of
 * what this plan's solvers would take. Where options.most may ask for more recomputation it is that
 * of an estimated plan, perhaps not of the fastest one within that limit. UINT64_MAX: an allocation
 * would be larger than the device allows, or that limit cannot be met. Makes no buffer. */
yoke_status yki_plan_memory_at(const yki_plan *plan, yki_extents max, uint64_t *bytes);
/* Gives the bytes that a plan would take, at level estimate; otherwise like yki_plan_memory_at. */
yoke_status yki_plan_estimate(yki_weights *weights, yki_queue *queue,
                              const yki_plan_options *options, uint64_t *bytes);
/* Gives the fewest bytes to which a budget was found to bring a training plan, at level estimate.
 * Makes no buffer. Takes some seconds for a large graph. */
yoke_status yki_plan_least(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                           uint64_t *bytes);
/* Gives the bytes for other largest extents with this plan's solvers (pack.c). */
yoke_status yki_plan_repacked(const yki_plan *plan, yki_extents max, uint64_t *bytes);

/* ---- capacity.c ---- */

/* Like yki_plan_memory_at, but UINT64_MAX where no solver applies to so large a batch. */
yoke_status yki_plan_bytes_at(const yki_plan *plan, int64_t samples, uint64_t *bytes);
/* Gives the bytes that `samples` samples at once need; `user` is the caller's. */
typedef yoke_status (*yki_bytes_of)(const void *user, int64_t samples, uint64_t *bytes);
/* Finds the most samples whose bytes do not exceed `room`, to within a hundredth; 0 if not even one
 * sample fits. The search begins at `start`, which must be at least 1 and should be near. `level`:
 * bytes need not grow with the samples, as recomputation keeps them at a budget. */
yoke_status yki_find_capacity(yki_bytes_of bytes_of, const void *user, bool level, uint64_t room,
                              int64_t start, int64_t *samples);
/* Finds the largest batch that this plan could have been made for, with its own memory and what is
 * left of the quota. */
yoke_status yki_plan_capacity(const yki_plan *plan, int64_t *samples);

/* ---- buckets.c: memory for transient gradients; without those nothing is done ---- */

/* Adds a value for each bucket. */
yoke_status yki_plan_add_buckets(yki_plan *plan);
/* Sets the lifetimes of these values. All others have theirs. */
void yki_plan_keep_buckets(yki_plan *plan);
/* Gives buckets and gradients their memory; and takes it back. */
yoke_status yki_plan_lend_buckets(yki_plan *plan);
void yki_plan_withdraw_buckets(yki_plan *plan);
/* Enqueues zeros for the buckets that begin with a task. */
yoke_status yki_plan_open_buckets(yki_plan *plan, size_t task);
/* The last task during which a bucket keeps its memory; task_count: it does to the end. */
size_t yki_plan_bucket_end(const yki_plan *plan, size_t bucket);
/* The most bytes that `count` values from `first` on have at a time. */
uint64_t yki_plan_most_at_once(const yki_plan *plan, int32_t first, size_t count);
/* The most bytes of buckets that have memory at a time. */
uint64_t yki_plan_bucket_bytes(const yki_plan *plan);

/* Writes `gather_order` of weights whose buckets are laid out. The graph is complete.
 * (gather_order.c) */
yoke_status yki_weights_order_gathers(yki_weights *weights);

/* ---- gathers.c: memory for weights that are divided; without those nothing is done ---- */

/* Adds a value for each bucket in each section. */
yoke_status yki_plan_add_gathers(yki_plan *plan);
/* Sets the lifetimes of these values, and where they are gathered. All tasks' values have theirs.
 */
void yki_plan_keep_gathers(yki_plan *plan);
/* Gives weights their memory. */
yoke_status yki_plan_lend_gathers(yki_plan *plan);
/* The number of gathers of a plan. */
size_t yki_plan_gather_count(const yki_plan *plan);
/* The gather of this number, in their order, as a stop. */
yki_stop yki_plan_gather(const yki_plan *plan, size_t index);
/* The first gather in backward from task `task` on; task_count: there is none. */
int32_t yki_plan_next_gather(const yki_plan *plan, int32_t task);
/* The most bytes of whole buckets of weights that have memory at a time. */
uint64_t yki_plan_gathered_bytes(const yki_plan *plan);

/* ---- seconds.c ---- */

/* Fills in the seconds of each task at the largest extents. Returns whether all are measured; those
 * that are not are guessed, in proportion to those that are. The tasks must have recipes. */
bool yki_plan_find_seconds(const yki_plan *plan, double *seconds);

/* ---- loads.c ---- */

/* What a node costs a device in training. The nodes of gradients have their own. */
typedef struct yki_load {
    double seconds;
    uint64_t packed;   /* bytes of packed weights that stay */
    uint64_t kept;     /* of values that forward makes and backward reads, for each batch */
    uint64_t working;  /* while its largest task runs */
    uint64_t forward;  /* the same of its tasks in forward, but for packed weights */
    uint64_t prepared; /* packed weights of these, which plans for evaluation keep */
    bool there;        /* its value is made: its task is not joined with a reader's */
} yki_load;

/* Adds up, by node id, what a plan costs whose decisions are made. *measured: all times are. */
yoke_status yki_plan_count_loads(const yki_plan *plan, yki_load *loads, bool *measured);
/* Makes the decisions of yki_plan_create, and gives what they cost. May measure. */
yoke_status yki_plan_find_loads(yki_weights *weights, yki_queue *queue,
                                const yki_plan_options *options, yki_load *loads, bool *measured);

/* ---- print.c ---- */

/* Calls `line` with each line of a table: every task with its solver, layout, FLOPs, bytes, time
 * and fraction of the device's limit, then the memory map. Where tasks have times, it measures the
 * limits for the table and waits. */
yoke_status yki_plan_print(const yki_plan *plan, void (*line)(void *, const char *), void *user);

/* Writes what it costs a packed plan to stay within options.most, and returns the text. */
const char *yki_plan_recomputed_text(const yki_plan *plan, char *text, size_t size);

/* See yoke_replica_profile. (profile.c) */
yoke_status yki_plan_profile(yki_plan *plan, yki_extents extents, unsigned repeats,
                             void (*each)(void *, const yoke_task_info *), void *user);

/* The stages of yki_plan_create. A stage that fails leaves a plan that can be destroyed. */
yoke_status yki_plan_lower(yki_plan *plan);     /* lower.c */
yoke_status yki_plan_fuse(yki_plan *plan);      /* fuse.c */
yoke_status yki_plan_search(yki_plan *plan);    /* search.c */
yoke_status yki_plan_choose(yki_plan *plan);    /* choose.c */
yoke_status yki_plan_join(yki_plan *plan);      /* join.c */
yoke_status yki_plan_hasten(yki_plan *plan);    /* hasten.c */
yoke_status yki_plan_recompute(yki_plan *plan); /* recompute.c, budget.c, halves.c */
yoke_status yki_plan_pack(yki_plan *plan);      /* pack.c */
yoke_status yki_plan_bind(yki_plan *plan);      /* bind.c */

/* Returns whether `hasten` puts what other members wait for before gradients by weights. (hasten.c)
 */
bool yki_plan_hastens(const yki_plan *plan);

/* Writes first contents into the given values: zeros, which it enqueues on the plan's queue, and
 * integers that are valid for their readers, for which it waits. (inputs.c) */
yoke_status yki_plan_fill_inputs(yki_plan *plan);

/* search.c */

/* Does what yki_plan_search does for one solver, which has sets of parameters. */
yoke_status yki_plan_search_sets(yki_plan *plan, const yki_solver *solver);
/* Returns the set that the plan takes for a solver; NULL: none. */
const unsigned *yki_plan_set_of(const yki_plan *plan, const yki_solver *solver);

/* running.c */

/* Makes the table that updates running statistics. All values must have buffers. */
yoke_status yki_plan_bind_running(yki_plan *plan);
/* Makes the kernel, for a device, in place of one for another device. */
yoke_status yki_plan_make_running(yki_plan *plan, yoke_device *device);
/* Enqueues a copy of the statistics of the batch into *kept, which is made if it is NULL, so that
 * others may follow before running statistics are updated; and the update with those. The caller
 * frees *kept. */
yoke_status yki_plan_keep_running(yki_plan *plan, yki_buffer **kept);
yoke_status yki_plan_commit_kept(yki_plan *plan, yki_queue *queue, yki_buffer *kept);
/* Enqueues the update of all running statistics. */
yoke_status yki_plan_commit_running(yki_plan *plan, yki_queue *queue);
void yki_plan_free_running(yki_plan *plan);

/* late_sums.c */

/* Takes launches that can wait out of their tasks. All values must be there. */
yoke_status yki_plan_find_late_sums(yki_plan *plan);
/* Makes the launch for them. The plan's pool must have its buffer. */
yoke_status yki_plan_bind_late_sums(yki_plan *plan);
yoke_status yki_plan_enqueue_late_sums(yki_plan *plan);
void yki_plan_free_late_sums(yki_plan *plan);

/* Shared by the stages. */

/* Returns whether weights are packed anew in each run. It is so in training where weights change
 * between any two runs: a packed copy then serves one task once, so it is made right before that
 * task, in memory that lives no longer. So it is where weights do not stay. Other plans keep packed
 * copies while they do. */
static inline bool
yki_plan_repacks(const yki_plan *plan)
{
    return plan->weights->divided ||
           (plan->options.training && (plan->options.small || !plan->options.repeats));
}
/* Rounds bytes up to where the next value may begin: on a line of the device, and where buckets are
 * values too, where a weight may. */
static inline uint64_t
yki_plan_aligned(const yki_plan *plan, uint64_t bytes)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));
    uint64_t align = YKI_MAX((uint64_t)traits->base_align,
                             plan->weights->transient ? (uint64_t)YKI_WEIGHT_ALIGN : 256u);

    return (bytes + align - 1) / align * align;
}
/* Returns what the plan tells a solver of its device. */
static inline const yki_device_traits *
yki_plan_traits(const yki_plan *plan, const yki_solver *solver)
{
    return plan->options.canonical ? &plan->canonical[solver->canonical]
                                   : yki_device_get_traits(yki_queue_device(plan->queue));
}
/* Returns the first solver of the table that computes a problem with its layouts; NULL: none does.
 * (offers.c) */
const yki_solver *yki_plan_solver(const yki_plan *plan, const yki_problem *problem);
/* Returns whether the plan may use a solver. */
static inline bool
yki_plan_allows(const yki_plan *plan, const yki_solver *solver)
{
    return !plan->options.canonical || solver->canonical != YKI_NOT_CANONICAL;
}
static inline void
yki_plan_tick(const yki_plan *plan)
{
    if (plan->options.tick)
        plan->options.tick(plan->options.tick_user);
}
/* Returns the seconds that planning may measure for. */
double yki_plan_budget(const yki_plan *plan);
/* Appends a copy of a value; sets its size for the largest extents. */
yoke_status yki_plan_add_value(yki_plan *plan, const yki_value *value, int32_t *index);
/* Appends a copy of a task. */
yoke_status yki_plan_add_task(yki_plan *plan, const yki_task *task);
/* Follows aliases to the value that has the memory. */
int32_t yki_value_root(const yki_plan *plan, int32_t value);
/* Makes the kernels with which states take their next values, unless they are for this device or
 * one of its space: when a plan is bound for its own, and for another one of the memory that does
 * it in its place (bind.c). */
yoke_status yki_plan_make_commits(yki_plan *plan, yoke_device *device);
/* Makes a kernel of update.cl for a device. The options are those of the optimizer's kernels, so
 * one build serves both. */
yoke_status yki_plan_update_kernel(yoke_device *device, const char *name, yki_kernel **kernel);
/* Returns the work-items in a group of such a kernel, if it does not have just one. */
uint32_t yki_plan_update_group(const yoke_device *device);
/* Returns the step values that the optimizer completes: a twin's plan has them. */
static inline yki_buffer *
yki_plan_update_values(const yki_plan *plan)
{
    return plan->twin_of ? plan->twin_of->step_values : plan->step_values;
}
/* Gives the buffers of a bound task's slots. */
void yki_plan_slots(const yki_plan *plan, const yki_task *task, yki_buffer *slots[YKI_MAX_SLOTS]);

/* ---- precision (precision.c) ---- */

/* Fails unless `text` is a precision: a kind (f32, tf32, bf16 or f16), or a list of PATTERN=KIND,
 * where the first pattern that matches a node's name counts, and a kind alone is that of all other
 * nodes. Each pattern must match a node of the graph. NULL is fine. */
yoke_status yki_precision_check(const char *text, const yoke_graph *graph);
/* The text, or that of the default instead of NULL. */
const char *yki_precision_text(const char *text);
/* Returns the class that rounds a node's operands, if its precision allows one, else the direct
 * class. A gradient has the precision of the node that it is the gradient of. */
yki_class yki_precision_of(const char *text, const yoke_node *node);
/* Returns whether the operator has solvers of a class. */
bool yki_has_class(const yki_op *op, yki_class numerical_class);
/* Returns whether some node of the graph may be computed in half. Then the gradient of the loss is
 * scaled. */
bool yki_precision_scales_loss(const char *text, const yoke_graph *graph);

/* ---- numerical classes of a team (classes.c) ---- */

/* A cost where a device has no solver of a class. */
#define YKI_NOT_TO_BE_HAD (-1.0)
enum { YKI_ANY_CLASS = 0 };

/* What each class of solvers costs a device, node by node. */
typedef struct yki_costs {
    size_t nodes;
    double *of;   /* [node * YKI_CLASSES + class]: seconds; 0: no such solver; all 0: no task */
    double total; /* seconds of the device's own choice */
} yki_costs;

const char *yki_class_name(yki_class numerical_class);
yoke_status yki_costs_create(size_t nodes, yki_costs *costs);
void yki_costs_free(yki_costs *costs);
/* Adds the costs of one task of a node, by class; 0: no such solver. A class that the task does not
 * have counts with the cost of its direct class. */
void yki_costs_add(yki_costs *costs, uint32_t node, const double task[YKI_CLASSES]);
/* Weighs the costs by the device's speed, so that those of several devices can be added. A missing
 * class of a node that has tasks becomes YKI_NOT_TO_BE_HAD. */
void yki_costs_weigh(yki_costs *costs);
/* Adds another device's weighed costs, an array like yki_costs.of. */
void yki_costs_merge(yki_costs *into, const double *weighed);
/* Gives the cheapest class of each node, + 1; YKI_ANY_CLASS for a node without tasks. The costs may
 * be weighed or not. */
void yki_costs_choose(const yki_costs *costs, uint8_t *classes);
/* Returns the class that the options give a node, + 1, or YKI_ANY_CLASS. */
static inline uint8_t
yki_agreed_class(const yki_plan_options *o, const yoke_node *node)
{
    return o->classes && node && node->id < o->class_count ? o->classes[node->id] : YKI_ANY_CLASS;
}
/* Returns whether other devices compute the same nodes, perhaps in other tasks. Then nodes of which
 * one may be rounded are joined only if they are of one class. */
static inline bool
yki_plan_agrees(const yki_plan *plan)
{
    return plan->costs || plan->options.classes;
}
/* Fails unless the plan has the classes that its options give. A plan for evaluation may compute
 * more of a node directly. */
yoke_status yki_classes_check(const yki_plan *plan);
/* Makes the choices of yki_plan_create, but gives their costs only. `costs` must be made for all
 * nodes of the completed graph. *seconds: spent on measuring, options->spent included. */
yoke_status yki_plan_survey(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                            yki_costs *costs, double *seconds);

/* ---- measuring (measure.c) ---- */

/* A way to compute a task. */
typedef struct yki_trial {
    yki_problem problem;
    const yki_solver *solver;
    unsigned tuning;
    double seconds;     /* 0: unknown */
    yoke_status failed; /* why it cannot be computed this way here; YOKE_OK: it can, or unknown */
} yki_trial;

/* Measures trials, which compute the same but for their layouts, at the largest extents. They run
 * in turns, and the median time of each counts. With `prepare`, the times include packing weights.
 * What does not build, launch or fit is marked as failed, unless the device does nothing any more.
 * At least one is measured; those that are not reached before `deadline` (yki_now) keep their
 * `seconds`. Allocates operands for the time of the call. Waits. */
yoke_status yki_measure(yki_queue *queue, yki_trial *trials, size_t count, bool prepare,
                        double deadline);
/* Runs a trial once, with one sample, so that its kernels are compiled. Allocates its operands for
 * the time of the call. Waits. */
yoke_status yki_run_once(yki_queue *queue, yki_trial *trial, bool prepare);
/* Gives the seconds of what the planner adds, from wisdom or by measuring; 0 if neither knows.
 * (offers.c) */
yoke_status yki_plan_time(yki_plan *plan, yki_trial *trial);

/* ---- rehearsing (rehearse.c) ---- */

/* Names of kernels that a process has begun to compile, in memory that processes share. Zero at the
 * beginning. */
typedef struct yki_claims {
    atomic_uint_least64_t keys[4096];
    atomic_bool over; /* nothing more is compiled */
} yki_claims;

/* Who compiles the kernels of a plan beside this process. */
typedef struct yki_rehearsal {
    /* Whether there may be any. */
    bool (*may)(void *user, const yki_plan_options *options);
    /* Starts them. What `known` has is compiled already. Returns what they claim, or NULL: there
     * are none, so nothing is rehearsed. */
    yki_claims *(*begin)(void *user, const yki_plan_options *options, const yki_claims *known);
    void (*end)(void *user); /* waits until they are done; only after a begin that started some */
    void *user;
} yki_rehearsal;

/* Compiles, on the plan's device, the kernels that a plan with these options would measure and that
 * nobody has claimed. */
yoke_status yki_plan_compile(yki_weights *weights, yki_queue *queue,
                             const yki_plan_options *options, yki_claims *claims);
/* The same of a plan whose tasks are fused (rehearse.c). */
yoke_status yki_plan_compile_tasks(yki_plan *plan, yki_claims *claims);

/* ---- wisdom (wisdom.c) ---- */

typedef struct yki_wisdom yki_wisdom;

/* Reads measured times from a text file: one line for each device, problem, solver and tuning. A
 * file that cannot be used is reported in the log and ignored. `path` NULL: memory only. Several
 * threads may use one wisdom. */
yoke_status yki_wisdom_open(const char *path, yki_wisdom **wisdom);
void yki_wisdom_close(yki_wisdom *wisdom);
/* Returns whether a time is known, and gives it. */
bool yki_wisdom_get(yki_wisdom *wisdom, yoke_device *device, const char *problem,
                    const char *solver, unsigned tuning, double *seconds);
/* Calls `each` with every known time of a solver on the device. `each` runs under the lock of the
 * wisdom, so it must not use it. */
void yki_wisdom_each(yki_wisdom *wisdom, yoke_device *device, const char *solver,
                     void (*each)(void *user, unsigned tuning, const char *problem, double seconds),
                     void *user);
/* Notes a time in memory; a newer one replaces an older one. */
yoke_status yki_wisdom_put(yki_wisdom *wisdom, yoke_device *device, const char *problem,
                           const char *solver, unsigned tuning, double seconds);
/* Merges new times with what others wrote meanwhile, and replaces the file in one step. Does
 * nothing without a path or without news. */
yoke_status yki_wisdom_save(yki_wisdom *wisdom);
/* Reads what others wrote meanwhile. Known times stay. */
yoke_status yki_wisdom_refresh(yki_wisdom *wisdom);
/* Gives the text of what all of `parts` know, for another process. Of two times for the same it
 * takes the first; entries of YKI_WISDOM_OWN are left out. The caller frees *text with free(). */
yoke_status yki_wisdom_tell(yki_wisdom *const *parts, size_t count, char **text);
/* From now on another process's text decides about the problems that it has times for, on devices
 * of the kinds in it: times that are not in the text count as unknown. Elsewhere this wisdom's own
 * times count. The text replaces the one followed before, and is never written to the file. */
yoke_status yki_wisdom_follow(yki_wisdom *wisdom, const char *text);
/* The name of a solver whose times concern one device alone: yki_wisdom_tell leaves them out. */
#define YKI_WISDOM_OWN "team-share"

#endif
