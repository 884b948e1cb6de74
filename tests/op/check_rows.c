/* SPDX-License-Identifier: Apache-2.0
 *
 * check_rows.c - operators that no graph of whole samples has, each run alone: attention of new
 * rows to a cache, which only generators have, and the sum over samples of sequences. Streams
 * stand at different positions, and rows that are nowhere are among those that are somewhere.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { STREAMS = 3 };

static yoke_context *context;
static yoke_selection *selection;

static void
open_devices(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
}

static void
close_devices(void)
{
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

static yki_operand
tensor(yoke_type type, bool batched, yoke_shape shape)
{
    return (yki_operand){.type = type, .shape = shape, .batched = batched, .layout = YKI_PLAIN};
}

/* One problem on one device, on buffers of its own. */
typedef struct trial {
    yki_queue *queue;
    yki_problem problem;
    yki_buffer *buffers[YKI_MAX_OPERANDS];
    yki_runner *runner;
} trial;

static void
put(const trial *t, uint32_t slot, const void *values)
{
    const yki_operand *operand = yki_problem_operand(&t->problem, slot);

    ASSERT_OK(yki_buffer_put(t->buffers[slot], 0,
                             4 * (uint64_t)yki_operand_count(operand, t->problem.max), values));
}

/* Makes the runner of the only solver; all operands are NaN. Returns false if the solver does not
 * suit these traits. */
static bool
begin(trial *t, const yki_device_traits *traits)
{
    yoke_device *device = yki_queue_device(t->queue);
    const yki_solver *solver = NULL;
    yki_recipe recipe;

    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == t->problem.op)
            solver = *s;
    ck_assert(solver != NULL);
    if (!yki_solver_suits(solver, &t->problem, traits))
        return false;
    ASSERT_OK(yki_solver_emit(solver, &t->problem, traits, 0, &recipe));
    op_check_arguments(device, solver, &recipe);
    for (uint32_t i = 0; i < yki_problem_operands(&t->problem); i++) {
        int64_t count = yki_operand_count(yki_problem_operand(&t->problem, i), t->problem.max);
        float *nothing = malloc((size_t)count * sizeof *nothing);

        for (int64_t k = 0; k < count; k++)
            nothing[k] = NAN;
        ASSERT_OK(yki_buffer_create(device, 4 * (uint64_t)count, 0, "an operand", &t->buffers[i]));
        put(t, i, nothing);
        free(nothing);
    }
    ASSERT_OK(yki_runner_create(t->queue, &t->problem, &recipe, t->buffers, NULL, &t->runner));
    yki_recipe_clear(&recipe);
    return true;
}

static void
run(const trial *t, yki_extents extents, float *out)
{
    uint32_t slot = t->problem.input_count;

    ASSERT_OK(yki_runner_enqueue(t->runner, YKI_PHASE_RUN, extents, NULL));
    ASSERT_OK(yki_queue_finish(t->queue));
    ASSERT_OK(yki_buffer_get(t->buffers[slot], 0,
                             4 * (uint64_t)yki_operand_count(&t->problem.out, t->problem.max),
                             out));
}

static void
end(trial *t)
{
    yki_runner_destroy(t->runner);
    for (uint32_t i = 0; i < yki_problem_operands(&t->problem); i++)
        yki_buffer_destroy(t->buffers[i]);
    yki_queue_destroy(t->queue);
}

/* The traits of a device; `other`: as if it were a processor and not a GPU, or the reverse. Each
 * has kernels of its own, and all devices can run both. One of them in a process: Oclgrind takes a
 * buffer for the one that was released before it. */
static yki_device_traits
traits_of(yoke_device *device, bool other)
{
    yki_device_traits traits = *yki_device_get_traits(device);

    if (!other)
        return traits;
    if (traits.type == YOKE_DEVICE_CPU) {
        traits.type = YOKE_DEVICE_GPU;
        return traits;
    }
    traits.type = YOKE_DEVICE_CPU;
    traits.vector_width = 16;
    traits.compute_units = YKI_MAX(traits.compute_units, 2u);
    return traits;
}

/* ---- attention ---- */

typedef struct attention_case {
    int64_t length, rows, width; /* rows: of a stream in one step */
    int32_t heads, shared;
    uint32_t most; /* work-items of a group; 0: as many as the device has */
} attention_case;

static const attention_case cases[] = {
    {5, 2, 3, 4, 2, 0},      {3, 4, 16, 1, 1, 0},   {66, 5, 20, 2, 2, 0}, {70, 70, 64, 2, 1, 0},
    {130, 17, 128, 3, 1, 0}, {9, 2, 256, 1, 1, 0},  {5, 1, 3, 4, 2, 0},   {66, 1, 2, 1, 1, 64},
    {90, 1, 80, 2, 1, 0},    {300, 1, 64, 2, 2, 0},
};

/* All rows of all streams: what is given, and what attention makes of it, by its oracle. */
typedef struct truth {
    yoke_graph *graph;
    yoke_node *x, *y;
    double *values[2];
} truth;

static void
find_truth(const attention_case *c, truth *t)
{
    const yoke_attention_options o = {.heads = c->heads, .shared = c->shared, .causal = true};
    const yki_step_values step = {.step = 1};
    int64_t count;

    ASSERT_OK(yoke_graph_create(&t->graph));
    t->x = yoke_input(t->graph, "x", YOKE_F32,
                      yoke_shape(c->length, (c->heads + 2 * c->shared) * c->width));
    t->y = yoke_attention(t->graph, t->x, NULL, &o);
    ASSERT_OK(yoke_graph_status(t->graph));
    ck_assert_uint_eq(t->graph->node_count, 2);
    count = op_value_count(t->x, STREAMS);
    t->values[0] = calloc((size_t)count, sizeof *t->values[0]);
    t->values[1] = NULL;
    for (int64_t i = 0; i < count; i++)
        t->values[0][i] = (double)(float)op_normal(7, 0, (uint64_t)i);
    op_evaluate(t->graph, 2, STREAMS, &step, t->values);
}

static void
forget_truth(truth *t)
{
    free(t->values[0]);
    free(t->values[1]);
    yoke_graph_destroy(t->graph);
}

static yki_problem
step_problem(const attention_case *c, const truth *t)
{
    yki_problem p = {.op = &yki_op_attention_step, .input_count = 3, .max.batch = STREAMS};
    yki_attention_attrs a = yki_attention_attrs_get(&t->y->attrs);

    p.attrs = t->y->attrs;
    p.in[0] = tensor(YOKE_F32, true, yoke_shape(c->rows, t->x->shape.dim[1]));
    p.in[1] = tensor(YOKE_I32, true, yoke_shape(c->rows));
    p.in[2] = tensor(YOKE_F32, false, yki_attention_cache(&a, STREAMS, c->length));
    p.out = tensor(YOKE_F32, true, yoke_shape(c->rows, t->y->shape.dim[1]));
    return p;
}

/* A stream's first step is that of its number; then the next rows follow, and at the end none. */
static int64_t
position_of(const attention_case *c, int64_t step, int64_t stream, int64_t row)
{
    const int64_t counts[STREAMS] = {c->length, 1, c->length / 2 + 1};
    int64_t at = (step - stream) * c->rows + row;

    return step >= stream && at < counts[stream] ? at : -1;
}

static void
compare_row(const truth *t, int64_t stream, int64_t at, const float *got)
{
    int64_t length = t->y->shape.dim[0], columns = t->y->shape.dim[1];
    const double *wanted = t->values[1] + (stream * length + YKI_MAX(at, 0)) * columns;
    double worst = 0, largest = 0;

    for (int64_t k = 0; k < columns; k++) {
        double e = at < 0 ? 0 : wanted[k], difference = fabs((double)got[k] - e);

        largest = fmax(largest, fabs(e));
        if (!isnan(worst) && !(difference <= worst))
            worst = difference;
    }
    ck_assert_msg(worst <= op_tolerance(t->y->op, YKI_CLASS_DIRECT) * largest,
                  "stream %lld, position %lld: off by %g of %g", (long long)stream, (long long)at,
                  worst, largest);
}

/* Rows that are nowhere are NaN, as is what the cache has of later positions. */
static void
take_step(const trial *t, const attention_case *c, const truth *all, int64_t step)
{
    int64_t places = STREAMS * c->rows, columns = all->x->shape.dim[1];
    int64_t out_columns = all->y->shape.dim[1];
    float *x = malloc((size_t)(places * columns) * sizeof *x);
    float *y = malloc((size_t)(places * out_columns) * sizeof *y);
    int32_t *positions = malloc((size_t)places * sizeof *positions);

    for (int64_t i = 0; i < places; i++) {
        int64_t at = position_of(c, step, i / c->rows, i % c->rows);
        int64_t from = (i / c->rows * c->length + at) * columns;

        positions[i] = (int32_t)at;
        for (int64_t k = 0; k < columns; k++)
            x[i * columns + k] = at < 0 ? NAN : (float)all->values[0][from + k];
    }
    put(t, 0, x);
    put(t, 1, positions);
    run(t, t->problem.max, y);
    for (int64_t i = 0; i < places; i++)
        compare_row(all, i / c->rows, positions[i], y + i * out_columns);
    free(x);
    free(y);
    free(positions);
}

static void
check_steps(const attention_case *c, const truth *all, yoke_device *device, bool other)
{
    yki_device_traits traits = traits_of(device, other);
    trial t = {.problem = step_problem(c, all)};

    if (c->most)
        traits.max_group = YKI_MIN(traits.max_group, c->most);
    ASSERT_OK(yki_queue_create(device, false, &t.queue));
    if (begin(&t, &traits))
        for (int64_t step = 0; step * c->rows < c->length + 2 * c->rows; step++)
            take_step(&t, c, all, step);
    end(&t);
}

START_TEST(steps_of_attention_are_those_of_the_whole)
{
    const attention_case *c = &cases[_i / 2];
    truth all;

    if (op_on_simulator() && c->length * c->width > 150)
        TEST_NOT_HERE("too large for a simulator");
    find_truth(c, &all);
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check_steps(c, &all, yoke_selection_get(selection, i), _i % 2);
    forget_truth(&all);
}
END_TEST

/* ---- sums over samples ---- */

typedef struct sum_case {
    int64_t length, width, used; /* used: rows of the samples that are summed */
} sum_case;

static const sum_case sums[] = {{5, 3, 5}, {7, 6, 4}, {9, 2, 1}, {40, 150, 33}};

static void
check_sum(const sum_case *c, yoke_device *device, bool other)
{
    const yki_extents used = {.batch = STREAMS, .length = c->used};
    const yki_device_traits traits = traits_of(device, other);
    int64_t count = c->length * c->width, some = c->used * c->width;
    float *x = malloc((size_t)(STREAMS * count) * sizeof *x);
    float *sum = malloc((size_t)count * sizeof *sum);
    trial t = {.problem = {.op = &yki_op_position_sum,
                           .input_count = 1,
                           .max = {.batch = STREAMS, .length = c->length}}};

    for (int64_t i = 0; i < STREAMS * count; i++)
        x[i] = i < STREAMS * some ? (float)op_normal(3, 0, (uint64_t)i) : NAN;
    t.problem.in[0] = tensor(YOKE_F32, true, yoke_shape(c->length, c->width));
    t.problem.out = tensor(YOKE_F32, false, t.problem.in[0].shape);
    ASSERT_OK(yki_queue_create(device, false, &t.queue));
    if (begin(&t, &traits)) {
        put(&t, 0, x);
        run(&t, used, sum);
        for (int64_t k = 0; k < count; k++) {
            float wanted = 0;

            for (int64_t n = 0; k < some && n < STREAMS; n++)
                wanted += x[n * some + k];
            ck_assert_msg(memcmp(&sum[k], &wanted, sizeof wanted) == 0, "%lld is %g, by hand %g",
                          (long long)k, (double)sum[k], (double)wanted);
        }
    }
    end(&t);
    free(x);
    free(sum);
}

/* Rows that all samples have are summed in the order of the samples, so the bits are those of the
 * sum by hand; the rest is 0. */
START_TEST(sums_of_positions_are_those_by_hand)
{
    const sum_case *c = &sums[_i / 2];

    if (op_on_simulator() && c->length > 9)
        TEST_NOT_HERE("too large for a simulator");
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check_sum(c, yoke_selection_get(selection, i), _i % 2);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = test_case(suite, "rows");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_loop_test(tcase, steps_of_attention_are_those_of_the_whole, 0,
                        2 * (int)YKI_COUNT(cases));
    tcase_add_loop_test(tcase, sums_of_positions_are_those_by_hand, 0, 2 * (int)YKI_COUNT(sums));
    return suite;
}
