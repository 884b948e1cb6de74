/* SPDX-License-Identifier: Apache-2.0
 *
 * check_joined.c - operators with several results, which only fusions make: the loss with
 * its sum, gradient and metrics, the two products of a dense layer's backward, and a dense
 * layer with its loss. Each is run alone. Those of convolutions and norms are in
 * check_joined_layers.c.
 *
 * What the loss gives has the bits of the operators that it joins, which the oracles hold
 * (check_loss.c); products are held to sums in double. That fusions make them rightly is
 * shown in tests/plan/check_fusion.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/alone.h"

enum { CLASSES = 5, POSITIONS = 3, COUNT = CLASSES * POSITIONS };
enum { SAMPLES = 5, SPREAD = 5000 /* a largest batch for which one group is too few */ };
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
    p.in[0] = alone_tensor(YOKE_F32, true, yoke_shape(CLASSES, POSITIONS));
    p.in[1] = has_labels(kind) ? alone_tensor(YOKE_I32, true, yoke_shape(POSITIONS)) : p.in[0];
    p.out = op == &yki_op_loss_grad ? p.in[0] : alone_tensor(YOKE_F32, true, yoke_shape(2));
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
    alone_run(&p, 0, SAMPLES, (void *[]){d->x, target_of(d, kind), pairs});
    p = (yki_problem){
        .op = &yki_op_batch_sum, .input_count = 1, .in = {p.out}, .out = p.out, .max = p.max};
    p.out.batched = false;
    alone_run(&p, 0, SAMPLES, (void *[]){pairs, sum});
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
    alone_run(&p, 0, SAMPLES, values);

    separate_sum(d, kind, 0, max_batch, wanted);
    same(sum, wanted, 2, "sum", kind);
    for (int32_t i = 0; i < metrics; i++) {
        separate_sum(d, metric, attrs.k[i], max_batch, wanted);
        same(counted[i], wanted, 2, "metric", kind);
    }
    if (gradient) {
        p = loss_problem(&yki_op_loss_grad, kind, &attrs.loss, sizeof attrs.loss);
        p.max.batch = max_batch;
        alone_run(&p, 0, SAMPLES, (void *[]){d->x, target_of(d, kind), wanted});
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
    const yki_operand rows = alone_tensor(YOKE_F32, true, yoke_shape(l->inputs));
    const yki_operand weight = alone_tensor(YOKE_F32, false, yoke_shape(l->units, l->inputs));
    const yki_operand dy = alone_tensor(YOKE_F32, true, yoke_shape(l->units));
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
        p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, yoke_shape(l->units));
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

START_TEST(products_of_a_layer_join)
{
    const layer *l = &layers[_i];
    yki_problem p = pair_problem(l);
    pair_data d;

    if (!alone_vectors(l->units > 16 ? 16 : 4))
        TEST_NOT_HERE("a kernel for CPUs with vectors");
    alone_fill(d.dy, YKI_COUNT(d.dy), 0);
    alone_fill(d.w, YKI_COUNT(d.w), 1);
    alone_fill(d.x, YKI_COUNT(d.x), 2);
    for (unsigned tuning = 0; tuning < 2; tuning++) {
        void *with_gate[] = {d.dy, d.w, d.x, d.dy, d.x, d.dx, d.dw, d.db};
        void *without[] = {d.dy, d.w, d.dy, d.x, d.dx, d.dw, d.db};

        alone_last = tuning == 1;
        alone_run(&p, tuning, SAMPLES, l->gate ? with_gate : without);
        check_pair_results(l, true, &d);
    }
}
END_TEST

/* As the pair, each product by itself, in tiles: some and parts of them, sums that are divided.
 * Operands are both read in vectors, or neither, which are kernels of their own: check_matmul.c has
 * the other two. */
static const int64_t tiled[][3] = {{5, 5, 3}, {6, 37, 33}, {40, 70, 19}, {290, 24, 8}, {3, 8, 300}};

/* dx = dy @ w where x is positive; terms are units. */
static void
check_gated(const int64_t *size, float *dy, float *w, float *x)
{
    int64_t n = size[0], inputs = size[1], units = size[2];
    yki_problem p = {.op = &yki_op_matmul, .input_count = 3, .max.batch = n};
    float *dx = calloc((size_t)(n * inputs), sizeof *dx);

    ck_assert_ptr_nonnull(dx);
    yki_matmul_attrs_set(&p.attrs, &(yki_matmul_attrs){.act = YKI_MATMUL_GATE});
    p.in[0] = alone_tensor(YOKE_F32, true, yoke_shape(units));
    p.in[1] = alone_tensor(YOKE_F32, false, yoke_shape(units, inputs));
    p.in[2] = p.out = alone_tensor(YOKE_F32, true, yoke_shape(inputs));
    alone_run(&p, 0, n, (void *[]){dy, w, x, dx});
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
    p.in[0] = alone_tensor(YOKE_F32, true, yoke_shape(units));
    p.in[1] = alone_tensor(YOKE_F32, true, yoke_shape(inputs));
    p.out = alone_tensor(YOKE_F32, false, yoke_shape(units, inputs));
    p.extra[0] = alone_tensor(YOKE_F32, false, yoke_shape(units));
    alone_run(&p, 0, n, (void *[]){dy, x, dw, db});
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

/* Of the solvers with these in their names the first is taken. All see the same numbers. */
static const char *const tiled_solvers[] = {"gemm-tiled", "tiled-rounded", "tiled-rounded-tf32",
                                            "tiled-bf16", "tiled-tf32",    "tiled-f16"};

START_TEST(a_tiled_product_has_a_gate_and_sums)
{
    static float dy[3000], w[3000], x[7000];
    const bool has_units[] = {alone_traits.bf16 == YKI_DOT_MMA_BF16, yki_has_tf32(&alone_traits),
                              yki_has_f16(&alone_traits)};

    alone_fill(dy, YKI_COUNT(dy), 0);
    alone_fill(w, YKI_COUNT(w), 1);
    alone_fill(x, YKI_COUNT(x), 2);
    for (int i = 0; i < (int)YKI_COUNT(tiled_solvers); i++) {
        /* What rounds by itself takes long to compile: in one size, of several tiles. */
        if (i >= 3 ? !has_units[i - 3] : i > 0 && tiled[_i][0] != 40)
            continue;
        alone_only = tiled_solvers[i];
        x[0] = NAN; /* it is not closed */
        check_gated(tiled[_i], dy, w, x);
        x[0] = 1;
        check_summed(tiled[_i], dy, x);
    }
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
    const yki_operand pair = alone_tensor(YOKE_F32, false, yoke_shape(2));
    const yki_operand y = alone_tensor(YOKE_F32, true, yoke_shape(l->is.units));
    const yki_operand bias = alone_tensor(YOKE_F32, false, yoke_shape(l->is.units));
    yki_problem p = {.op = &yki_op_dense_loss, .max.batch = SAMPLES + 2, .out = pair};

    yki_dense_loss_attrs_set(&p.attrs, &attrs);
    p.in[p.input_count++] = alone_tensor(YOKE_F32, true, yoke_shape(l->is.inputs));
    p.in[p.input_count++] = alone_tensor(YOKE_F32, false, yoke_shape(l->is.units, l->is.inputs));
    if (l->is.sums)
        p.in[p.input_count++] = bias;
    p.in[p.input_count++] = has_labels(l->kind) ? alone_tensor(YOKE_I32, true, yoke_shape()) : y;
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
    alone_run(&p, 0, SAMPLES, values);
}

/* The loss, the metric and the slope have the bits that the fused loss gives for that y. */
static void
check_loss_of(const last_layer *l, const yki_fused_loss_attrs *attrs, last_data *d)
{
    yki_problem p = {.op = &yki_op_fused_loss, .input_count = 2, .max.batch = SAMPLES};
    float sum[2], metric[2];

    yki_fused_loss_attrs_set(&p.attrs, attrs);
    p.in[0] = alone_tensor(YOKE_F32, true, yoke_shape(l->is.units));
    p.in[1] = has_labels(l->kind) ? alone_tensor(YOKE_I32, true, yoke_shape()) : p.in[0];
    p.out = p.extra[0] = alone_tensor(YOKE_F32, false, yoke_shape(2));
    p.extra[1] = p.in[0];
    p.extra_count = 2;
    alone_run(&p, 0, SAMPLES,
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

    if (!alone_vectors(l->is.units > 16 ? 16 : 4))
        TEST_NOT_HERE("a kernel for CPUs with vectors");
    alone_fill(d.x, YKI_COUNT(d.x), 0);
    alone_fill(d.w, YKI_COUNT(d.w), 1);
    alone_fill(d.bias, YKI_COUNT(d.bias), 2);
    alone_fill(d.values, YKI_COUNT(d.values), 3);
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

Suite *
test_suite(void)
{
    Suite *suite = suite_create("joined");
    TCase *tcase = test_case(suite, "joined");

    tcase_add_checked_fixture(tcase, alone_open, alone_close);
    tcase_add_loop_test(tcase, losses_join_what_belongs_to_them, 0, (int)YKI_COUNT(kinds));
    tcase_add_loop_test(tcase, products_of_a_layer_join, 0, (int)YKI_COUNT(layers));
    tcase_add_loop_test(tcase, a_tiled_product_has_a_gate_and_sums, 0, (int)YKI_COUNT(tiled));
    tcase_add_loop_test(tcase, a_layer_joins_its_loss, 0, (int)YKI_COUNT(last_layers));
    return suite;
}
