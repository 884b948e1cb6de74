/* SPDX-License-Identifier: Apache-2.0
 *
 * harness.h - holds operators to their oracles.
 *
 * A test builds a small graph through the public API and calls op_check_graph().
 * That differentiates it (from `result`, with a random dy), computes every node in
 * double with the oracles, compares analytic gradients with finite differences of
 * the oracles, and then, for every computed node, forward and gradient, runs every
 * solver that applies, in every layout, tuning and vector width, on every device
 * under test, and compares. It also holds each solver to:
 *   - the same bits when run twice;
 *   - the first k samples of a batch get the same bits as a batch of those k;
 *   - nothing written beyond a batch, padding lanes finite, poison in padding lanes
 *     of inputs and in unwritten memory does no harm;
 *   - an empty batch.
 */
#ifndef YOKE_TESTS_HARNESS_H
#define YOKE_TESTS_HARNESS_H

#include "op/ops.h"
#include "support/support.h"

/* What an oracle sees: operands as doubles, plain layout, batch first. */
typedef struct op_run {
    const yki_problem *problem;
    int64_t n;
    const double *const *in;
    const yki_step_values *step;
} op_run;
typedef void (*op_oracle)(const op_run *run, double *out);

/* The operator that joins gradients; in oracles.c. */
extern const yki_op *const op_sum_of_two;

/* oracles.c: the rows of the result are different quantities, each compared by itself. */
bool op_rows_differ(const yoke_node *node);
/* oracles.c: max|a-b| / max|b| allowed for an operator and class. */
double op_tolerance(const yki_op *op, yki_class numerical_class);
/* evaluate.c: a number as bfloat16: rounded to the nearest, ties to even. */
double op_bf16(double value);
/* The same as TF32, ties away from 0. */
double op_tf32(double value);
/* The same as half: infinite from 65520 on, below 2^-14 a multiple of 2^-24. */
double op_f16(double value);
/* The same as numbers of a class that rounds. */
double op_rounded(double value, yki_class rounds);
/* evaluate.c: what a node is in double, where a solver rounds its operands (op_row). Caller frees.
 */
double *op_evaluate_rounded(const yoke_node *node, yki_class rounds, int64_t n,
                            const yki_step_values *step, double *const *values);

typedef struct op_check_options {
    int64_t batch;       /* the largest; 0: 5 */
    uint32_t seed;       /* 0: from the environment or fixed */
    bool no_gradient;    /* forward only */
    bool no_differences; /* gradients against the oracle but not against differences */
    int32_t labels;      /* integer inputs are drawn from 0 .. labels-1; 0: 10 */
    float scale;         /* deviation of float inputs; 0: 1 */
    float offset;        /* added to float inputs, but for dy */
    bool positive;       /* float inputs drawn from (0, 1) */
    bool whole;          /* float inputs are -2 .. 2: however long a sum is, it is exact */
    bool may_be_refused; /* where work-items end early (traits->loop_limit) */
    const char *targets; /* this input is a target: no gradient by it */
    const char *only;    /* only solvers whose name contains this; else none whose row has sets, or
                          * emulates */
    /* Only canonical solvers, as canonical plans use them: all must give a node the same bits. It
     * is told the hash of each node's result. */
    void (*canonical)(const yoke_node *node, uint64_t hash);
    /* On a processor not all vector widths: bit 0 leaves out 8 lanes, bit 1 leaves out 4. */
    unsigned skipped_widths;
    int64_t simulator_flops; /* the largest problem for simulators; 0: the usual limits */
    /* Units for matrices made of ordinary code, and copies ahead, on any device but simulators. Of
     * the tunings only the last, with the smallest tile: larger ones take minutes to compile. */
    bool plain_units;
} op_check_options;

/* Destroys the graph. `result` is the node whose gradients are checked. */
void op_check_graph(yoke_graph *graph, yoke_node *result, const op_check_options *options);

/* YOKE_TEST_THOROUGH=1: all graphs in all vector widths, and by the solvers of GPUs on a processor
 * too, with every tuning: it compiles kernels for minutes. */
bool op_thorough(void);
/* A test that runs a whole plan leaves with SKIP_ON_SIMULATOR: Oclgrind takes what plans write in
 * parts for uninitialised (docs/drivers.md). Directly in the body of a START_TEST. */
bool op_on_simulator(void);
#define SKIP_ON_SIMULATOR                                                                          \
    if (op_on_simulator())                                                                         \
    TEST_NOT_HERE("Oclgrind loses track of memory that is written in parts")

/* llvmpipe compiles a processor's attention for many minutes. YOKE_TEST_THOROUGH=1 waits for it. */
bool op_attention_is_slow(void);
#define SKIP_SLOW_ATTENTION                                                                        \
    if (op_attention_is_slow())                                                                    \
    TEST_NOT_HERE("attention is compiled for many minutes; YOKE_TEST_THOROUGH=1 waits for it")

/* Gives a convolution an activation, as a fusion does. */
void op_set_relu(yoke_node *conv);

/* arguments.c: holds the arguments of each launch of a solver to the parameters of its kernel:
 * number, kinds and names. Adds options to the launches: without one drivers do not tell names;
 * with the other a processor does not optimise what is made for GPUs. */
void op_check_arguments(yoke_device *device, const yki_solver *solver, yki_recipe *recipe);

/* evaluate.c: the first `count` nodes in double. values[id] has yki_shape_count (times n if
 * batched) elements; given nodes are filled already. Caller frees each with free(). */
void op_evaluate(const yoke_graph *graph, size_t count, int64_t n, const yki_step_values *step,
                 double **values);
int64_t op_value_count(const yoke_node *node, int64_t n);

/* A small generator for test data: uniform in [0, 1), by position. */
double op_uniform(uint32_t seed, uint32_t stream, uint64_t index);
double op_normal(uint32_t seed, uint32_t stream, uint64_t index);

#endif
