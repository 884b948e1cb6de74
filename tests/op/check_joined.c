/* SPDX-License-Identifier: Apache-2.0
 *
 * check_joined.c - operators with several results, which only fusions make: the loss with
 * its sum, gradient and metrics, the two products of a dense layer's backward, a dense
 * layer with its loss, and a convolution with its pooling. Each is run alone over buffers of its
 * own, small, so that Oclgrind looks at its kernels too (within plans it loses track of memory,
 * docs/drivers.md).
 *
 * What the loss gives has the bits of the operators that it joins, which the oracles hold
 * (check_loss.c); products are held to sums in double. That fusions make them rightly is
 * shown in tests/plan/check_fusion.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"

enum { CLASSES = 5, POSITIONS = 3, COUNT = CLASSES * POSITIONS };
enum { SAMPLES = 5, SPREAD = 5000 /* a largest batch for which one group is too few */ };
enum { MOST_BUFFERS = 128, MOST_RUNNERS = 32 };

static yoke_context *context;
static yoke_selection *selection;
static yki_queue *queue;
static yki_device_traits traits;
/* Kept until the end: Oclgrind takes what follows a released buffer for that one. */
static yki_buffer *buffers[MOST_BUFFERS];
static yki_runner *runners[MOST_RUNNERS];
static size_t buffer_count, runner_count;

static void
open_device(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    ASSERT_OK(yki_queue_create(yoke_selection_get(selection, 0), false, &queue));
    traits = *yki_device_get_traits(yki_queue_device(queue));
}

static void
close_device(void)
{
    while (runner_count > 0)
        yki_runner_destroy(runners[--runner_count]);
    while (buffer_count > 0)
        yki_buffer_destroy(buffers[--buffer_count]);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

/* NULL, or a part of the name of the solvers to try. */
static const char *try_only;

/* Returns the first solver that applies, or the last one. */
static const yki_solver *
solver_of(const yki_problem *problem, bool last)
{
    const yki_solver *found = NULL;

    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == problem->op && (*s)->applies(problem, &traits) && (last || !found) &&
            (!try_only || strstr((*s)->name, try_only)))
            found = *s;
    ck_assert_msg(found != NULL, "nothing solves %s", problem->op->name);
    return found;
}

/* Whether the last solver is tried instead of the first. */
static bool try_last;

/* values[slot] are inputs, then results, of n samples; results are NaN before. */
static void
run_alone(const yki_problem *problem, unsigned tuning, int64_t n, void *const *values)
{
    const yki_extents extents = {.batch = n};
    uint32_t operands = yki_problem_operands(problem);
    yki_buffer **slots = buffers + buffer_count;
    yki_recipe recipe;

    ck_assert_uint_le(buffer_count + operands, MOST_BUFFERS);
    ck_assert_uint_lt(runner_count, MOST_RUNNERS);
    for (uint32_t i = 0; i < operands; i++) {
        uint64_t bytes = 4 * (uint64_t)yki_operand_count(yki_problem_operand(problem, i), extents);

        for (uint64_t k = 0; i >= problem->input_count && k < bytes / 4; k++)
            ((float *)values[i])[k] = NAN;
        ASSERT_OK(yki_buffer_create(yki_queue_device(queue), bytes, 0, "an operand",
                                    &buffers[buffer_count++]));
        ASSERT_OK(yki_buffer_put(slots[i], 0, bytes, values[i]));
    }
    ASSERT_OK(yki_solver_emit(solver_of(problem, try_last), problem, &traits, tuning, &recipe));
    op_check_arguments(yki_queue_device(queue), &recipe);
    ASSERT_OK(yki_runner_create(queue, problem, &recipe, slots, NULL, &runners[runner_count]));
    ASSERT_OK(yki_runner_enqueue(runners[runner_count++], YKI_PHASE_RUN, extents, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    yki_recipe_clear(&recipe);
    for (uint32_t i = problem->input_count; i < operands; i++)
        ASSERT_OK(yki_buffer_get(
            slots[i], 0, 4 * (uint64_t)yki_operand_count(yki_problem_operand(problem, i), extents),
            values[i]));
}

static yki_operand
tensor(yoke_type type, bool batched, yoke_shape shape)
{
    return (yki_operand){.type = type, .shape = shape, .batched = batched, .layout = YKI_PLAIN};
}

/* ---- losses ---- */

static const yki_loss_kind kinds[] = {YKI_LOSS_SOFTMAX_CE, YKI_LOSS_CE, YKI_LOSS_BCE,
                                      YKI_LOSS_MSE,        YKI_LOSS_L1, YKI_LOSS_HUBER};

typedef struct loss_data {
    float x[SAMPLES * COUNT], values[SAMPLES * COUNT];
    int32_t labels[SAMPLES * POSITIONS];
} loss_data;

/* One kind of loss, and the metrics that go with it. */
static yki_loss_attrs
attrs_of(yki_loss_kind kind, int32_t k)
{
    return (yki_loss_attrs){.kind = (int32_t)kind,
                            .has_ignore_index = 1,
                            .ignore_index = -1,
                            .label_smoothing = 0.1f,
                            .delta = 0.5f,
                            .k = k};
}

static bool
has_labels(yki_loss_kind kind)
{
    return kind == YKI_LOSS_SOFTMAX_CE || kind == YKI_LOSS_CE || kind == YKI_METRIC_TOP_K;
}

static yki_problem
loss_problem(const yki_op *op, yki_loss_kind kind, const void *attrs, size_t size)
{
    yki_problem p = {.op = op, .input_count = 2, .max.batch = SAMPLES};

    memcpy(&p.attrs, attrs, size);
    p.in[0] = tensor(YOKE_F32, true, yoke_shape(CLASSES, POSITIONS));
    p.in[1] = has_labels(kind) ? tensor(YOKE_I32, true, yoke_shape(POSITIONS)) : p.in[0];
    p.out = op == &yki_op_loss_grad ? p.in[0] : tensor(YOKE_F32, true, yoke_shape(2));
    return p;
}

static void *
target_of(loss_data *d, yki_loss_kind kind)
{
    return has_labels(kind) ? (void *)d->labels : d->values;
}

/* By the operators of their own. */
static void
separate_sum(loss_data *d, yki_loss_kind kind, int32_t k, int64_t max_batch, float sum[2])
{
    const yki_loss_attrs attrs = attrs_of(kind, k);
    yki_problem p = loss_problem(&yki_op_loss, kind, &attrs, sizeof attrs);
    float pairs[SAMPLES * 2];

    p.max.batch = max_batch;
    run_alone(&p, 0, SAMPLES, (void *[]){d->x, target_of(d, kind), pairs});
    p = (yki_problem){
        .op = &yki_op_batch_sum, .input_count = 1, .in = {p.out}, .out = p.out, .max = p.max};
    p.out.batched = false;
    run_alone(&p, 0, SAMPLES, (void *[]){pairs, sum});
}

static void
same(const float *a, const float *b, size_t count, const char *what, yki_loss_kind kind)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(memcmp(&a[i], &b[i], sizeof a[i]) == 0,
                      "loss %d: %s %d is %.9g, by itself %.9g", (int)kind, what, (int)i,
                      (double)a[i], (double)b[i]);
}

/* All in one, with so many metrics and with a gradient or not. */
static void
check_step(loss_data *d, yki_loss_kind kind, int32_t metrics, bool gradient, int64_t max_batch)
{
    const yki_fused_loss_attrs attrs = {
        .loss = attrs_of(kind, 0), .metrics = metrics, .k = {1, 2}, .gradient = gradient};
    const yki_loss_kind metric = has_labels(kind) ? YKI_METRIC_TOP_K : YKI_METRIC_MAE;
    yki_problem p = loss_problem(&yki_op_fused_loss, kind, &attrs, sizeof attrs);
    float sum[2], counted[2][2], slope[SAMPLES * COUNT], wanted[SAMPLES * COUNT];
    void *values[YKI_MAX_OPERANDS] = {d->x, target_of(d, kind), sum};

    p.max.batch = max_batch;
    p.out.batched = false;
    for (int32_t i = 0; i < metrics; i++) {
        values[yki_problem_operands(&p)] = counted[i];
        p.extra[p.extra_count++] = p.out;
    }
    if (gradient) {
        values[yki_problem_operands(&p)] = slope;
        p.extra[p.extra_count++] = p.in[0];
    }
    run_alone(&p, 0, SAMPLES, values);

    separate_sum(d, kind, 0, max_batch, wanted);
    same(sum, wanted, 2, "sum", kind);
    for (int32_t i = 0; i < metrics; i++) {
        separate_sum(d, metric, attrs.k[i], max_batch, wanted);
        same(counted[i], wanted, 2, "metric", kind);
    }
    if (gradient) {
        p = loss_problem(&yki_op_loss_grad, kind, &attrs.loss, sizeof attrs.loss);
        p.max.batch = max_batch;
        run_alone(&p, 0, SAMPLES, (void *[]){d->x, target_of(d, kind), wanted});
        same(slope, wanted, YKI_COUNT(wanted), "slope", kind);
    }
}

START_TEST(losses_join_what_belongs_to_them)
{
    yki_loss_kind kind = kinds[_i];
    loss_data d;

    for (int i = 0; i < SAMPLES * COUNT; i++) {
        d.x[i] = (float)op_uniform(3, 0, (uint64_t)i) * 0.9f + 0.05f; /* probabilities too */
        d.values[i] = (float)op_uniform(3, 1, (uint64_t)i) * 1.6f - 0.3f;
    }
    for (int i = 0; i < SAMPLES * POSITIONS; i++)
        d.labels[i] = i % 4 == 2 ? -1 : i % CLASSES;
    check_step(&d, kind, has_labels(kind) ? 2 : 1, true, SAMPLES);
    check_step(&d, kind, 0, false, SPREAD); /* several groups, and a launch for the sums */
    check_step(&d, kind, has_labels(kind) ? 2 : 1, true, SPREAD);
}
END_TEST

/* ---- products ---- */

typedef struct layer {
    int inputs, units;
    bool gate, sums;
} layer;

enum { MOST_INPUTS = 21, MOST_UNITS = 19 };

static const layer layers[] = {
    {10, 6, true, true}, {10, 6, false, true}, {10, 6, false, false}, {21, 19, true, true}};

/* dx = dy @ w, where the gate is open, and dw = dy^T @ x, db = dy summed. */
static yki_problem
pair_problem(const layer *l)
{
    const yki_matmul_pair_attrs attrs = {{{.act = l->gate ? YKI_MATMUL_GATE : YKI_MATMUL_NONE},
                                          {.transpose_a = 1, .sum_batch = 1, .sums = l->sums}}};
    const yki_operand rows = tensor(YOKE_F32, true, yoke_shape(l->inputs));
    const yki_operand weight = tensor(YOKE_F32, false, yoke_shape(l->units, l->inputs));
    const yki_operand dy = tensor(YOKE_F32, true, yoke_shape(l->units));
    yki_problem p = {.op = &yki_op_matmul_pair, .max.batch = SAMPLES + 2};

    yki_matmul_pair_attrs_set(&p.attrs, &attrs);
    p.in[p.input_count++] = dy;
    p.in[p.input_count++] = weight;
    if (l->gate)
        p.in[p.input_count++] = rows;
    p.in[p.input_count++] = dy;
    p.in[p.input_count++] = rows;
    p.out = rows;
    p.extra[p.extra_count++] = weight;
    if (l->sums)
        p.extra[p.extra_count++] = tensor(YOKE_F32, false, yoke_shape(l->units));
    return p;
}

typedef struct pair_data {
    float dy[SAMPLES * MOST_UNITS], w[MOST_UNITS * MOST_INPUTS], x[SAMPLES * MOST_INPUTS];
    float dx[SAMPLES * MOST_INPUTS], dw[MOST_UNITS * MOST_INPUTS], db[MOST_UNITS];
} pair_data;

static void
near(float got, double wanted, double largest, const char *what)
{
    ck_assert_msg(fabs((double)got - wanted) <=
                      op_tolerance(&yki_op_matmul, YKI_CLASS_DIRECT) * largest,
                  "%s is %.9g instead of %.9g", what, (double)got, wanted);
}

static void
check_pair_results(const layer *l, bool input, const pair_data *d)
{
    for (int n = 0; n < SAMPLES && input; n++)
        for (int i = 0; i < l->inputs; i++) {
            double sum = 0;

            for (int u = 0; u < l->units; u++)
                sum += (double)d->dy[n * l->units + u] * (double)d->w[u * l->inputs + i];
            if (l->gate && d->x[n * l->inputs + i] <= 0)
                sum = 0;
            near(d->dx[n * l->inputs + i], sum, l->units, "dx");
        }
    for (int u = 0; u < l->units; u++) {
        double bias = 0;

        for (int n = 0; n < SAMPLES; n++)
            bias += (double)d->dy[n * l->units + u];
        if (l->sums)
            near(d->db[u], bias, SAMPLES, "db");
        for (int i = 0; i < l->inputs; i++) {
            double sum = 0;

            for (int n = 0; n < SAMPLES; n++)
                sum += (double)d->dy[n * l->units + u] * (double)d->x[n * l->inputs + i];
            near(d->dw[u * l->inputs + i], sum, SAMPLES, "dw");
        }
    }
}

/* Numbers that are exact in bfloat16, so the last solver, which rounds, sees the same. */
static void
fill(float *values, size_t count, uint32_t stream)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)op_bf16(op_uniform(5, stream, i) - 0.5);
}

/* For kernels that only CPUs have; a simulator looks at them as well. */
static bool
use_vectors(uint32_t width)
{
    if (op_on_simulator()) {
        traits.type = YOKE_DEVICE_CPU;
        traits.vector_width = width;
        traits.compute_units = YKI_MAX(traits.compute_units, 2u);
    }
    return traits.type == YOKE_DEVICE_CPU && traits.vector_width >= 4;
}

START_TEST(products_of_a_layer_join)
{
    const layer *l = &layers[_i];
    yki_problem p = pair_problem(l);
    pair_data d;

    if (!use_vectors(l->units > 16 ? 16 : 4))
        TEST_NOT_HERE("a kernel for CPUs with vectors");
    fill(d.dy, YKI_COUNT(d.dy), 0);
    fill(d.w, YKI_COUNT(d.w), 1);
    fill(d.x, YKI_COUNT(d.x), 2);
    for (unsigned tuning = 0; tuning < 2; tuning++) {
        void *with_gate[] = {d.dy, d.w, d.x, d.dy, d.x, d.dx, d.dw, d.db};
        void *without[] = {d.dy, d.w, d.dy, d.x, d.dx, d.dw, d.db};

        try_last = tuning == 1;
        run_alone(&p, tuning, SAMPLES, l->gate ? with_gate : without);
        check_pair_results(l, true, &d);
    }
    try_last = false;
}
END_TEST

/* As the pair, each product by itself, in tiles: some and parts of them, sums that are divided. */
static const int64_t tiled[][3] = {{5, 4, 3}, {6, 36, 33}, {40, 70, 19}, {300, 21, 8}, {3, 8, 300}};

/* dx = dy @ w where x is positive; terms are units. */
static void
check_gated(const int64_t *size, float *dy, float *w, float *x)
{
    int64_t n = size[0], inputs = size[1], units = size[2];
    yki_problem p = {.op = &yki_op_matmul, .input_count = 3, .max.batch = n};
    float *dx = calloc((size_t)(n * inputs), sizeof *dx);

    ck_assert_ptr_nonnull(dx);
    yki_matmul_attrs_set(&p.attrs, &(yki_matmul_attrs){.act = YKI_MATMUL_GATE});
    p.in[0] = tensor(YOKE_F32, true, yoke_shape(units));
    p.in[1] = tensor(YOKE_F32, false, yoke_shape(units, inputs));
    p.in[2] = p.out = tensor(YOKE_F32, true, yoke_shape(inputs));
    run_alone(&p, 0, n, (void *[]){dy, w, x, dx});
    for (int64_t i = 0; i < n * inputs; i++) {
        double sum = 0;

        for (int64_t u = 0; u < units && !(x[i] <= 0); u++)
            sum += (double)dy[i / inputs * units + u] * (double)w[u * inputs + i % inputs];
        near(dx[i], sum, (double)units, "dx");
    }
    free(dx);
}

/* dw = dy^T @ x, db = dy summed; terms are samples. */
static void
check_summed(const int64_t *size, float *dy, float *x)
{
    int64_t n = size[0], inputs = size[1], units = size[2];
    yki_problem p = {.op = &yki_op_matmul, .input_count = 2, .extra_count = 1, .max.batch = n};
    float *dw = calloc((size_t)(units * inputs), sizeof *dw);
    float *db = calloc((size_t)units, sizeof *db);

    ck_assert(dw && db);
    yki_matmul_attrs_set(&p.attrs,
                         &(yki_matmul_attrs){.transpose_a = 1, .sum_batch = 1, .sums = 1});
    p.in[0] = tensor(YOKE_F32, true, yoke_shape(units));
    p.in[1] = tensor(YOKE_F32, true, yoke_shape(inputs));
    p.out = tensor(YOKE_F32, false, yoke_shape(units, inputs));
    p.extra[0] = tensor(YOKE_F32, false, yoke_shape(units));
    run_alone(&p, 0, n, (void *[]){dy, x, dw, db});
    for (int64_t u = 0; u < units; u++) {
        double bias = 0;

        for (int64_t i = 0; i < n; i++)
            bias += (double)dy[i * units + u];
        near(db[u], bias, (double)n, "db");
        for (int64_t i = 0; i < inputs; i++) {
            double sum = 0;

            for (int64_t k = 0; k < n; k++)
                sum += (double)dy[k * units + u] * (double)x[k * inputs + i];
            near(dw[u * inputs + i], sum, (double)n, "dw");
        }
    }
    free(dw);
    free(db);
}

START_TEST(a_tiled_product_has_a_gate_and_sums)
{
    static float dy[3000], w[3000], x[7000];

    try_last = true;
    fill(dy, YKI_COUNT(dy), 0);
    fill(w, YKI_COUNT(w), 1);
    fill(x, YKI_COUNT(x), 2);
    x[0] = NAN; /* it is not closed */
    check_gated(tiled[_i], dy, w, x);
    x[0] = 1;
    check_summed(tiled[_i], dy, x);
}
END_TEST

/* ---- a dense layer with its loss ---- */

typedef struct last_layer {
    yki_loss_kind kind;
    layer is; /* sums: there is a bias */
    bool input;
} last_layer;

static const last_layer last_layers[] = {
    {YKI_LOSS_SOFTMAX_CE, {10, 6, true, true}, true},
    {YKI_LOSS_CE, {21, 19, false, true}, true},
    {YKI_LOSS_BCE, {10, 6, false, false}, true},
    {YKI_LOSS_MSE, {21, 1, true, true}, true},
    {YKI_LOSS_L1, {16, 16, false, true}, false},
    {YKI_LOSS_HUBER, {3, 17, false, false}, false},
};

typedef struct last_data {
    float x[SAMPLES * MOST_INPUTS], w[MOST_UNITS * MOST_INPUTS], bias[MOST_UNITS];
    float values[SAMPLES * MOST_UNITS], y[SAMPLES * MOST_UNITS], loss[2], metric[2];
    int32_t labels[SAMPLES];
    pair_data back; /* x, w and dy are copies */
} last_data;

static yki_problem
last_problem(const last_layer *l, const yki_fused_loss_attrs *loss)
{
    const yki_dense_loss_attrs attrs = {
        .loss = *loss, .bias = l->is.sums, .gate = l->is.gate, .input = l->input};
    const yki_operand pair = tensor(YOKE_F32, false, yoke_shape(2));
    const yki_operand y = tensor(YOKE_F32, true, yoke_shape(l->is.units));
    const yki_operand bias = tensor(YOKE_F32, false, yoke_shape(l->is.units));
    yki_problem p = {.op = &yki_op_dense_loss, .max.batch = SAMPLES + 2, .out = pair};

    yki_dense_loss_attrs_set(&p.attrs, &attrs);
    p.in[p.input_count++] = tensor(YOKE_F32, true, yoke_shape(l->is.inputs));
    p.in[p.input_count++] = tensor(YOKE_F32, false, yoke_shape(l->is.units, l->is.inputs));
    if (l->is.sums)
        p.in[p.input_count++] = bias;
    p.in[p.input_count++] = has_labels(l->kind) ? tensor(YOKE_I32, true, yoke_shape()) : y;
    p.extra[p.extra_count++] = pair;
    p.extra[p.extra_count++] = y;
    p.extra[p.extra_count++] = p.in[1];
    if (l->is.sums)
        p.extra[p.extra_count++] = bias;
    if (l->input)
        p.extra[p.extra_count++] = p.in[0];
    return p;
}

static void
run_last(const last_layer *l, const yki_fused_loss_attrs *loss, last_data *d)
{
    const yki_problem p = last_problem(l, loss);
    void *values[YKI_MAX_OPERANDS];
    uint32_t at = 0;

    values[at++] = d->x;
    values[at++] = d->w;
    if (l->is.sums)
        values[at++] = d->bias;
    values[at++] = has_labels(l->kind) ? (void *)d->labels : d->values;
    values[at++] = d->loss;
    values[at++] = d->metric;
    values[at++] = d->y;
    values[at++] = d->back.dw;
    if (l->is.sums)
        values[at++] = d->back.db;
    if (l->input)
        values[at++] = d->back.dx;
    run_alone(&p, 0, SAMPLES, values);
}

/* The loss, the metric and the slope have the bits that the fused loss gives for that y. */
static void
check_loss_of(const last_layer *l, const yki_fused_loss_attrs *attrs, last_data *d)
{
    yki_problem p = {.op = &yki_op_fused_loss, .input_count = 2, .max.batch = SAMPLES};
    float sum[2], metric[2];

    yki_fused_loss_attrs_set(&p.attrs, attrs);
    p.in[0] = tensor(YOKE_F32, true, yoke_shape(l->is.units));
    p.in[1] = has_labels(l->kind) ? tensor(YOKE_I32, true, yoke_shape()) : p.in[0];
    p.out = p.extra[0] = tensor(YOKE_F32, false, yoke_shape(2));
    p.extra[1] = p.in[0];
    p.extra_count = 2;
    run_alone(&p, 0, SAMPLES,
              (void *[]){d->y, has_labels(l->kind) ? (void *)d->labels : d->values, sum, metric,
                         d->back.dy});
    same(d->loss, sum, 2, "sum", l->kind);
    same(d->metric, metric, 2, "metric", l->kind);
}

static void
check_layer(const last_layer *l, const last_data *d)
{
    for (int n = 0; n < SAMPLES; n++)
        for (int u = 0; u < l->is.units; u++) {
            double sum = l->is.sums ? (double)d->bias[u] : 0;

            for (int i = 0; i < l->is.inputs; i++)
                sum += (double)d->x[n * l->is.inputs + i] * (double)d->w[u * l->is.inputs + i];
            near(d->y[n * l->is.units + u], sum, l->is.inputs, "y");
        }
}

START_TEST(a_layer_joins_its_loss)
{
    const last_layer *l = &last_layers[_i];
    const yki_fused_loss_attrs attrs = {
        .loss = attrs_of(l->kind, 0), .metrics = 1, .k = {1, 0}, .gradient = 1};
    last_data d;

    if (!use_vectors(l->is.units > 16 ? 16 : 4))
        TEST_NOT_HERE("a kernel for CPUs with vectors");
    fill(d.x, YKI_COUNT(d.x), 0);
    fill(d.w, YKI_COUNT(d.w), 1);
    fill(d.bias, YKI_COUNT(d.bias), 2);
    fill(d.values, YKI_COUNT(d.values), 3);
    for (size_t i = 0; i < YKI_COUNT(d.w) && l->kind <= YKI_LOSS_BCE; i++)
        d.w[i] *= l->kind == YKI_LOSS_SOFTMAX_CE ? 1.f : 0.01f;
    for (size_t i = 0; i < YKI_COUNT(d.bias) && l->kind <= YKI_LOSS_BCE; i++)
        d.bias[i] = 0.5f + 0.1f * d.bias[i]; /* y is a probability */
    for (int i = 0; i < SAMPLES; i++)
        d.labels[i] = i == 3 ? -1 : i % l->is.units;
    memcpy(d.back.x, d.x, sizeof d.x);
    memcpy(d.back.w, d.w, sizeof d.w);
    run_last(l, &attrs, &d);
    check_layer(l, &d);
    check_loss_of(l, &attrs, &d);
    check_pair_results(&l->is, l->input, &d.back);
}
END_TEST

/* ---- a convolution with its pooling ---- */

typedef struct pooled {
    int width; /* lanes */
    bool blocked, max, relu, bias;
    int c, h, w, o, kernel, stride, pad, dilation;
} pooled;

static const pooled pooled_layers[] = {
    {16, true, true, true, true, 1, 9, 8, 20, 3, 1, 1, 1},
    {16, false, false, true, true, 3, 5, 19, 33, 3, 1, 1, 1},
    {16, false, true, true, true, 2, 10, 13, 17, 3, 2, 1, 1},
    {16, false, true, false, false, 2, 8, 9, 5, 2, 1, 0, 3},
    {8, true, false, true, false, 1, 9, 10, 9, 5, 1, 2, 1},
    {8, false, true, true, true, 1, 4, 20, 18, 3, 1, 0, 1},
    {4, true, true, true, true, 2, 6, 11, 6, 3, 1, 1, 1},
    {4, false, false, true, true, 4, 5, 6, 3, 3, 1, 1, 1},
};

enum { MOST_IMAGE = 400, MOST_SMALL = 1600, MOST_TAPS = 1000 };

/* All are multiples of 1/8 and so small that no sum is rounded. */
typedef struct pooled_data {
    float x[SAMPLES * MOST_IMAGE], weight[MOST_TAPS], bias[64], dy[SAMPLES * MOST_SMALL];
    float y[SAMPLES * MOST_SMALL], dw[MOST_TAPS], db[64];
    float wanted_y[SAMPLES * MOST_SMALL], wanted_dw[MOST_TAPS], wanted_db[64];
} pooled_data;

static int
pooled_size(const pooled *l, int size)
{
    return ((size + 2 * l->pad - l->dilation * (l->kernel - 1) - 1) / l->stride + 1) / 2;
}

/* Where channel o, position (i, j) of sample n lies in what is pooled. */
static size_t
pooled_at(const pooled *l, int n, int o, int i, int j)
{
    int block = l->blocked ? l->width : 1, blocks = (l->o + block - 1) / block;
    int oh = pooled_size(l, l->h), ow = pooled_size(l, l->w);

    return (size_t)((((n * blocks + o / block) * oh + i) * ow + j) * block + o % block);
}

static size_t
tap_at(const pooled *l, int o, int c, int r, int s)
{
    return (size_t)(((o * l->c + c) * l->kernel + r) * l->kernel + s);
}

/* The element of x that meets tap (r, s) at (i, j) of the convolution; NULL: padding. */
static const float *
met(const pooled *l, const pooled_data *d, int n, int c, int i, int j, int r, int s)
{
    int y = i * l->stride - l->pad + r * l->dilation, x = j * l->stride - l->pad + s * l->dilation;

    return y < 0 || y >= l->h || x < 0 || x >= l->w ? NULL
                                                    : &d->x[((n * l->c + c) * l->h + y) * l->w + x];
}

/* A pixel of the convolution; or, with a gradient g, what it adds to those of weights and bias. */
static float
pixel(const pooled *l, pooled_data *d, int n, int o, int i, int j, float g)
{
    float sum = l->bias ? d->bias[o] : 0;

    d->wanted_db[o] += g;
    for (int c = 0; c < l->c; c++)
        for (int r = 0; r < l->kernel; r++)
            for (int s = 0; s < l->kernel; s++) {
                const float *x = met(l, d, n, c, i, j, r, s);

                sum += x ? *x * d->weight[tap_at(l, o, c, r, s)] : 0;
                d->wanted_dw[tap_at(l, o, c, r, s)] += x ? *x * g : 0;
            }
    return l->relu && sum <= 0 ? 0 : sum;
}

static void
expect_window(const pooled *l, pooled_data *d, int n, int o, int i, int j)
{
    size_t at = pooled_at(l, n, o, i, j);
    float p[4], sum = 0, g = d->dy[at];
    int best = 0;

    for (int k = 0; k < 4; k++) {
        p[k] = pixel(l, d, n, o, 2 * i + k / 2, 2 * j + k % 2, 0);
        sum += p[k];
        if (p[k] > p[best] || isnan(p[k]))
            best = k;
    }
    d->wanted_y[at] = l->max ? p[best] : sum / 4;
    for (int k = 0; k < 4; k++)
        if (!(l->relu && p[k] <= 0) && (k == best || !l->max))
            (void)pixel(l, d, n, o, 2 * i + k / 2, 2 * j + k % 2, l->max ? g : g / 4);
}

static yki_problem
pooled_problem(const pooled *l, bool grad)
{
    const yki_conv_pooled_attrs attrs = {.conv = {.kernel = {l->kernel, l->kernel},
                                                  .stride = {l->stride, l->stride},
                                                  .pad = {l->pad, l->pad},
                                                  .dilation = {l->dilation, l->dilation},
                                                  .groups = 1,
                                                  .act = l->relu},
                                         .bias = l->bias,
                                         .max = l->max};
    const yki_operand weight =
        tensor(YOKE_F32, false, yoke_shape(l->o, l->c, l->kernel, l->kernel));
    const yki_operand bias = tensor(YOKE_F32, false, yoke_shape(l->o));
    yki_operand y =
        tensor(YOKE_F32, true, yoke_shape(l->o, pooled_size(l, l->h), pooled_size(l, l->w)));
    yki_problem p = {.op = grad ? &yki_op_conv_pooled_grad : &yki_op_conv_pooled,
                     .max.batch = SAMPLES + 2};

    y.layout.block = l->blocked ? (uint32_t)l->width : 1;
    yki_conv_pooled_attrs_set(&p.attrs, &attrs);
    p.in[p.input_count++] = tensor(YOKE_F32, true, yoke_shape(l->c, l->h, l->w));
    p.in[p.input_count++] = weight;
    if (l->bias)
        p.in[p.input_count++] = bias;
    if (grad)
        p.in[p.input_count++] = y;
    p.out = grad ? weight : y;
    if (grad && l->bias)
        p.extra[p.extra_count++] = bias;
    return p;
}

/* Multiples of `step`, from -4 to 4 of them. */
static void
fill_steps(float *values, size_t count, uint32_t stream, float step)
{
    for (size_t i = 0; i < count; i++)
        values[i] = ((float)(int)(op_uniform(7, stream, i) * 9) - 4) * step;
}

/* Notes what is expected, and compares the result. */
static void
check_windows(const pooled *l, pooled_data *d)
{
    yki_problem p = pooled_problem(l, false);
    void *with_bias[] = {d->x, d->weight, d->bias, d->y}, *without[] = {d->x, d->weight, d->y};

    run_alone(&p, 0, SAMPLES, l->bias ? with_bias : without);
    for (int n = 0; n < SAMPLES; n++)
        for (int o = 0; o < l->o; o++)
            for (int i = 0; i < pooled_size(l, l->h); i++)
                for (int j = 0; j < pooled_size(l, l->w); j++) {
                    size_t at = pooled_at(l, n, o, i, j);

                    expect_window(l, d, n, o, i, j);
                    ck_assert_msg(d->y[at] == d->wanted_y[at] ||
                                      (isnan(d->y[at]) && isnan(d->wanted_y[at])),
                                  "y[%d][%d][%d][%d] is %g instead of %g", n, o, i, j,
                                  (double)d->y[at], (double)d->wanted_y[at]);
                }
}

/* The result and the gradients, exactly; a maximum that comes twice gets its gradient once. No
 * samples give gradients of 0. A NaN stays one. */
START_TEST(a_convolution_joins_its_pooling)
{
    const pooled *l = &pooled_layers[_i];
    pooled_data *d = calloc(1, sizeof *d);
    yki_problem p = pooled_problem(l, true);
    void *with_bias[] = {d->x, d->weight, d->bias, d->dy, d->dw, d->db};
    void *without[] = {d->x, d->weight, d->dy, d->dw};

    if (!use_vectors((uint32_t)l->width) || traits.vector_width < (uint32_t)l->width)
        TEST_NOT_HERE("a kernel for CPUs with vectors");
    traits.vector_width = (uint32_t)l->width;
    fill_steps(d->x, YKI_COUNT(d->x), 0, 0.5f);
    fill_steps(d->weight, YKI_COUNT(d->weight), 1, 0.25f);
    fill_steps(d->bias, YKI_COUNT(d->bias), 2, 0.25f);
    fill_steps(d->dy, YKI_COUNT(d->dy), 3, 0.5f);
    check_windows(l, d);
    run_alone(&p, 0, SAMPLES, l->bias ? with_bias : without);
    for (int i = 0; i < l->o * l->c * l->kernel * l->kernel; i++)
        ck_assert_float_eq(d->dw[i], d->wanted_dw[i]);
    for (int i = 0; i < l->o && l->bias; i++)
        ck_assert_float_eq(d->db[i], d->wanted_db[i]);
    run_alone(&p, 0, 0, l->bias ? with_bias : without);
    for (int i = 0; i < l->o * l->c * l->kernel * l->kernel; i++)
        ck_assert_float_eq(d->dw[i], 0);
    d->x[2 * l->w + 3] = NAN;
    check_windows(l, d);
    free(d);
}
END_TEST

/* ---- batch norm with its statistics ---- */

enum { NORM_SAMPLES = 9, MOST_CHANNELS = 35, MOST_VALUES = 2400 };

typedef struct norm_data {
    float x[MOST_VALUES], more[MOST_VALUES], y[MOST_VALUES], dx[MOST_VALUES];
    float gamma[MOST_CHANNELS], beta[MOST_CHANNELS], stats[3 * MOST_CHANNELS];
    float dgamma[MOST_CHANNELS], dbeta[MOST_CHANNELS];
} norm_data;

static yki_problem
norm_problem(const yki_op *op, yoke_shape shape, yki_bn_attrs a)
{
    yki_problem p = {.op = op, .max.batch = NORM_SAMPLES};

    yki_bn_attrs_set(&p.attrs, &a);
    p.out = tensor(YOKE_F32, true, shape);
    p.in[p.input_count++] = p.out;
    return p;
}

static void
add_input(yki_problem *p, yoke_shape shape, bool batched)
{
    p->in[p->input_count++] = tensor(YOKE_F32, batched, shape);
}

static void
is_near(const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i])), "%lld: %g, not %g",
                      (long long)i, (double)a[i], (double)b[i]);
}

/* Forward with a shortcut, backward with a gate, in one launch and in two: what the operators apart
 * give, which the oracles hold (check_norm.c). */
START_TEST(a_norm_joins_its_statistics)
{
    const yoke_shape shapes[] = {yoke_shape(3, 8, 11), yoke_shape(2, 3, 7), yoke_shape(35)};
    yoke_shape shape = shapes[_i % 3], channels = yoke_shape(shape.dim[0]);
    int64_t c = shape.dim[0], count = NORM_SAMPLES * yki_shape_count(shape);
    yki_bn_attrs a = {.epsilon = 1e-3f, .affine = 1, .residual = 1}, none = {.epsilon = 1e-3f};
    yki_bn_attrs gated = {.epsilon = 1e-3f, .affine = 1, .act = YKI_BN_RELU};
    yki_problem p;
    norm_data *d, *e;

    if (traits.type == YOKE_DEVICE_CPU && traits.vector_width >= 4)
        TEST_NOT_HERE("only for devices whose work-items run side by side");
    d = calloc(2, sizeof *d);
    e = d + 1;
    for (int64_t i = 0; i < count; i++) {
        d->x[i] = (float)op_normal(1, 2, (uint64_t)i) + 3;
        d->more[i] = (float)op_normal(2, 2, (uint64_t)i);
    }
    for (int64_t i = 0; i < c; i++) {
        d->gamma[i] = (float)op_uniform(3, 2, (uint64_t)i) + 0.5f;
        d->beta[i] = (float)op_uniform(4, 2, (uint64_t)i);
    }
    p = norm_problem(&yki_op_bn_stats, shape, none);
    p.out = tensor(YOKE_F32, false, yoke_shape(3, c));
    run_alone(&p, 0, NORM_SAMPLES, (void *[]){d->x, e->stats});
    p = norm_problem(&yki_op_bn_apply, shape, a);
    add_input(&p, yoke_shape(3, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    add_input(&p, shape, true);
    run_alone(&p, 0, NORM_SAMPLES, (void *[]){d->x, e->stats, d->gamma, d->beta, d->more, e->y});
    try_last = _i >= 3;
    p = norm_problem(&yki_op_bn_layer, shape, a);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    add_input(&p, shape, true);
    p.extra[p.extra_count++] = tensor(YOKE_F32, false, yoke_shape(3, c));
    run_alone(&p, 0, NORM_SAMPLES, (void *[]){d->x, d->gamma, d->beta, d->more, d->y, d->stats});
    is_near(d->stats, e->stats, 3 * c);
    is_near(d->y, e->y, count);

    p = norm_problem(&yki_op_bn_grad_stats, shape, gated);
    add_input(&p, shape, true);
    add_input(&p, yoke_shape(3, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    p.out = tensor(YOKE_F32, false, yoke_shape(2, c));
    run_alone(&p, 0, NORM_SAMPLES,
              (void *[]){d->x, d->more, d->stats, d->gamma, d->beta, e->stats});
    p.op = &yki_op_bn_layer_grad;
    p.out = p.in[0];
    p.extra[p.extra_count++] = tensor(YOKE_F32, false, channels);
    p.extra[p.extra_count++] = tensor(YOKE_F32, false, channels);
    run_alone(&p, 0, NORM_SAMPLES,
              (void *[]){d->x, d->more, d->stats, d->gamma, d->beta, d->dx, d->dbeta, d->dgamma});
    is_near(d->dbeta, e->stats, c);
    is_near(d->dgamma, e->stats + c, c);
    p = norm_problem(&yki_op_bn_grad, shape, gated);
    add_input(&p, shape, true);
    add_input(&p, yoke_shape(3, c), false);
    add_input(&p, yoke_shape(2, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    run_alone(&p, 0, NORM_SAMPLES,
              (void *[]){d->x, d->more, d->stats, e->stats, d->gamma, d->beta, e->dx});
    is_near(d->dx, e->dx, count);
    free(d);
}
END_TEST

/* ---- both gradients of a convolution ---- */

typedef struct conv_layer {
    int64_t c, h, w, o, batch;
} conv_layer;

/* Tiles that are cut, rows that are vectors and not, so small that simulators can run them; and
 * tiles enough for two parts of the sums. */
static const conv_layer conv_layers[] = {{33, 5, 6, 40, 5}, {32, 4, 8, 34, 9}, {32, 4, 3, 33, 130}};
enum { CONV_VALUES = 52000, CONV_ACTS = 3 };

typedef struct conv_data {
    float x[CONV_VALUES], dy[CONV_VALUES], w[CONV_VALUES], other[CONV_VALUES], gate[CONV_VALUES];
    float dx[CONV_VALUES], dw[CONV_VALUES], alone_dx[CONV_VALUES], alone_dw[CONV_VALUES];
} conv_data;

static yki_problem
conv_problem(const yki_op *op, const conv_layer *l, yki_conv_act act)
{
    yki_conv_attrs a = {.kernel = {3, 3},
                        .stride = {1, 1},
                        .pad = {1, 1},
                        .dilation = {1, 1},
                        .groups = 1,
                        .act = act};
    const yki_operand x = tensor(YOKE_F32, true, yoke_shape(l->c, l->h, l->w));
    const yki_operand dy = tensor(YOKE_F32, true, yoke_shape(l->o, l->h, l->w));
    const yki_operand weight = tensor(YOKE_F32, false, yoke_shape(l->o, l->c, 3, 3));
    yki_problem p = {.op = op, .max.batch = l->batch + 2};

    if (op != &yki_op_conv2d_grad_input)
        p.in[p.input_count++] = x;
    else
        a.size[0] = (int32_t)l->h, a.size[1] = (int32_t)l->w;
    p.in[p.input_count++] = dy;
    if (op != &yki_op_conv2d_grad_weight)
        p.in[p.input_count++] = weight;
    for (int k = YKI_CONV_ACT_SUM; k <= (int)act; k++)
        p.in[p.input_count++] = x;
    p.out = op == &yki_op_conv2d_grad_weight ? weight : x;
    if (op == &yki_op_conv2d_grads)
        p.extra[p.extra_count++] = weight;
    yki_conv_attrs_set(&p.attrs, &a);
    return p;
}

/* By every block of the product: the bits of the two apart, which the oracles hold
 * (check_winograd.c), where sums have as many parts; and those of a sum and a gate behind them. */
START_TEST(gradients_of_a_convolution_join)
{
    const conv_layer *l = &conv_layers[_i / CONV_ACTS];
    const yki_conv_act acts[] = {YKI_CONV_ACT_NONE, YKI_CONV_ACT_SUM, YKI_CONV_ACT_GATED_SUM};
    const yki_conv_act act = acts[_i % CONV_ACTS];
    const int64_t count = l->batch * l->c * l->h * l->w;
    yki_problem p;
    conv_data *d;

    if (l->batch > 100 && op_on_simulator())
        TEST_NOT_HERE("too long for a simulator");
    d = calloc(1, sizeof *d);
    traits.compute_units = 64;
    fill(d->x, CONV_VALUES, 0);
    fill(d->dy, CONV_VALUES, 1);
    fill(d->w, CONV_VALUES, 2);
    fill(d->other, CONV_VALUES, 3);
    fill(d->gate, CONV_VALUES, 4);
    try_only = "winograd4-tiles";
    p = conv_problem(&yki_op_conv2d_grad_input, l, YKI_CONV_ACT_NONE);
    run_alone(&p, 0, l->batch, (void *[]){d->dy, d->w, d->alone_dx});
    p = conv_problem(&yki_op_conv2d_grad_weight, l, YKI_CONV_ACT_NONE);
    run_alone(&p, 0, l->batch, (void *[]){d->x, d->dy, d->alone_dw});
    for (int64_t i = 0; i < count && act != YKI_CONV_ACT_NONE; i++) {
        d->alone_dx[i] += d->other[i];
        if (act == YKI_CONV_ACT_GATED_SUM && d->gate[i] <= 0)
            d->alone_dx[i] = 0;
    }
    p = conv_problem(&yki_op_conv2d_grads, l, act);
    for (unsigned tuning = 0; tuning < solver_of(&p, false)->tunings(&p, &traits); tuning++) {
        void *values[] = {d->x, d->dy, d->w, d->other, d->gate, d->dx, d->dw};

        values[p.input_count] = d->dx;
        values[p.input_count + 1] = d->dw;
        run_alone(&p, tuning, l->batch, values);
        ck_assert_msg(memcmp(d->dx, d->alone_dx, (size_t)count * sizeof *d->dx) == 0,
                      "dx, tuning %u", tuning);
        is_near(d->dw, d->alone_dw, l->o * l->c * 9);
    }
    try_only = NULL;
    free(d);
}
END_TEST

/* The same of the gradient by the input alone, as a product of tiles. */
START_TEST(a_gradient_of_a_convolution_joins_its_sum)
{
    const conv_layer *l = &conv_layers[_i / 2];
    const yki_conv_act act = _i % 2 ? YKI_CONV_ACT_GATED_SUM : YKI_CONV_ACT_SUM;
    const int64_t count = l->batch * l->c * l->h * l->w;
    yki_problem p;
    conv_data *d = calloc(1, sizeof *d);

    fill(d->dy, CONV_VALUES, 1);
    fill(d->w, CONV_VALUES, 2);
    fill(d->other, CONV_VALUES, 3);
    fill(d->gate, CONV_VALUES, 4);
    try_only = "grad-input-plain";
    p = conv_problem(&yki_op_conv2d_grad_input, l, YKI_CONV_ACT_NONE);
    run_alone(&p, 0, l->batch, (void *[]){d->dy, d->w, d->alone_dx});
    p = conv_problem(&yki_op_conv2d_grad_input, l, act);
    if (p.input_count == 4)
        run_alone(&p, 0, l->batch, (void *[]){d->dy, d->w, d->other, d->gate, d->dx});
    else
        run_alone(&p, 0, l->batch, (void *[]){d->dy, d->w, d->other, d->dx});
    for (int64_t i = 0; i < count; i++) {
        float sum = d->alone_dx[i] + d->other[i];

        ck_assert(d->dx[i] == (act == YKI_CONV_ACT_GATED_SUM && d->gate[i] <= 0 ? 0 : sum));
    }
    try_only = NULL;
    free(d);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("joined");
    TCase *tcase = test_case(suite, "joined");

    tcase_add_checked_fixture(tcase, open_device, close_device);
    tcase_add_loop_test(tcase, losses_join_what_belongs_to_them, 0, (int)YKI_COUNT(kinds));
    tcase_add_loop_test(tcase, products_of_a_layer_join, 0, (int)YKI_COUNT(layers));
    tcase_add_loop_test(tcase, a_tiled_product_has_a_gate_and_sums, 0, (int)YKI_COUNT(tiled));
    tcase_add_loop_test(tcase, a_layer_joins_its_loss, 0, (int)YKI_COUNT(last_layers));
    tcase_add_loop_test(tcase, a_norm_joins_its_statistics, 0, 6);
    tcase_add_loop_test(tcase, gradients_of_a_convolution_join, 0,
                        CONV_ACTS * (int)YKI_COUNT(conv_layers));
    tcase_add_loop_test(tcase, a_gradient_of_a_convolution_joins_its_sum, 0, 4);
    tcase = test_case(suite, "pooled");
    tcase_add_checked_fixture(tcase, open_device, close_device);
    tcase_add_loop_test(tcase, a_convolution_joins_its_pooling, 0, (int)YKI_COUNT(pooled_layers));
    return suite;
}
