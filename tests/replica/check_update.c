/* SPDX-License-Identifier: Apache-2.0
 *
 * check_update.c - replicas and optimizers: some steps on every device under test
 * against the same steps in double, written down from PyTorch's documentation.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"
#include "plan/plan.h"
#include "support/devices.h"
#include "train/graphs.h"

enum { N = 4, WIDTH = 150, STEPS = 6 };

typedef struct reference {
    double p[WIDTH], q;
    double m[WIDTH + 1], v[WIDTH + 1], g[WIDTH + 1];
} reference;

static void
gradients(reference *r, const float *x)
{
    memset(r->g, 0, sizeof r->g);
    for (int n = 0; n < N; n++)
        for (int i = 0; i < WIDTH; i++) {
            double xi = (double)x[n * WIDTH + i], t = tanh(xi * r->p[i]), e = t + r->q;

            r->g[i] += 2 * e / WIDTH * (1 - t * t) * xi / N;
            r->g[WIDTH] += 2 * e / WIDTH / N;
        }
}

static void
clip(reference *r, const yoke_replica_options *o)
{
    double norm = 0;

    for (int i = 0; i <= WIDTH; i++)
        norm += r->g[i] * r->g[i];
    norm = sqrt(norm);
    for (int i = 0; i <= WIDTH; i++) {
        if (o->clip_norm > 0 && norm > (double)o->clip_norm)
            r->g[i] *= (double)o->clip_norm / (norm + 1e-6);
        if (o->clip_value > 0)
            r->g[i] = fmax(-(double)o->clip_value, fmin((double)o->clip_value, r->g[i]));
    }
}

static void
update(reference *r, const yoke_replica_options *o, int step, double factor)
{
    const yoke_optimizer *opt = &o->optimizer;

    for (int i = 0; i <= WIDTH; i++) {
        double *p = i < WIDTH ? &r->p[i] : &r->q, g = r->g[i];
        bool bias = i == WIDTH && o->group_count;
        double rate = (double)opt->learning_rate * factor * (bias ? 2 : 1);
        double decay = bias ? 0 : (double)opt->weight_decay;
        double b1 = (double)opt->beta1, b2 = (double)opt->beta2;
        double mu = (double)opt->momentum;

        if (opt->kind == YOKE_OPTIMIZER_ADAMW)
            *p -= rate * decay * *p;
        else
            g += decay * *p;
        switch (opt->kind) {
        case YOKE_OPTIMIZER_SGD:
            r->m[i] = mu * r->m[i] + g;
            *p -= rate * (opt->nesterov ? g + mu * r->m[i] : mu != 0 ? r->m[i] : g);
            break;
        case YOKE_OPTIMIZER_ADAM:
        case YOKE_OPTIMIZER_ADAMW:
            r->m[i] = b1 * r->m[i] + (1 - b1) * g;
            r->v[i] = b2 * r->v[i] + (1 - b2) * g * g;
            *p -= rate / (1 - pow(b1, step)) * r->m[i] /
                  (sqrt(r->v[i]) / sqrt(1 - pow(b2, step)) + (double)opt->epsilon);
            break;
        case YOKE_OPTIMIZER_RMSPROP:
            r->v[i] = b2 * r->v[i] + (1 - b2) * g * g;
            r->m[i] = mu * r->m[i] + g / (sqrt(r->v[i]) + (double)opt->epsilon);
            *p -= rate * r->m[i];
            break;
        }
    }
}

static void
train_on(yoke_device *device, const yoke_replica_options *options)
{
    yoke_schedule schedule = {.kind = YOKE_SCHEDULE_COSINE, .warmup = 2, .steps = STEPS};
    yoke_graph *graph = graph_two_parameters(WIDTH);
    yoke_replica *replica;
    reference r = {.q = 0};
    float x[N * WIDTH], p[WIDTH], q;

    ASSERT_OK(yoke_replica_create(device, graph, options, &replica));
    ASSERT_OK(yoke_replica_read(replica, "p.weight", p, WIDTH));
    ASSERT_OK(yoke_replica_read(replica, "q.bias", &q, 1));
    for (int i = 0; i < WIDTH; i++)
        r.p[i] = (double)p[i];
    r.q = (double)q;
    for (int step = 1; step <= STEPS; step++) {
        float factor = yoke_schedule_factor(&schedule, step - 1);

        for (int i = 0; i < N * WIDTH; i++)
            x[i] = (float)op_normal(3, (uint32_t)step, (uint64_t)i);
        ASSERT_OK(yoke_replica_set_input(replica, N, yoke_feed_f32("x", x, N * WIDTH)));
        ASSERT_OK(yoke_replica_forward(replica, N));
        ASSERT_OK(yoke_replica_backward(replica));
        ASSERT_OK(yoke_replica_update(replica, factor));
        gradients(&r, x);
        clip(&r, options);
        update(&r, options, step, (double)factor);
    }
    ASSERT_OK(yoke_replica_read(replica, "p.weight", p, WIDTH));
    ASSERT_OK(yoke_replica_read(replica, "q.bias", &q, 1));
    for (int i = 0; i < WIDTH; i++)
        ck_assert_msg(fabs((double)p[i] - r.p[i]) <= 2e-5, "p[%d] is %g, %g expected", i,
                      (double)p[i], r.p[i]);
    ck_assert_msg(fabs((double)q - r.q) <= 2e-5, "q is %g, %g expected", (double)q, r.q);
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
}

static void
train_everywhere(const yoke_replica_options *options)
{
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_context_create(&(yoke_context_options){.no_cache = true}, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        train_on(yoke_selection_get(selection, i), options);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

static yoke_replica_options
base(yoke_optimizer optimizer)
{
    return (yoke_replica_options){
        .batch = N, .seed = 9, .level = YOKE_PLAN_ESTIMATE, .optimizer = optimizer};
}

START_TEST(update_sgd_matches_reference)
{
    yoke_replica_options o = base(yoke_sgd(0.5f, 0));

    train_everywhere(&o);
    o.optimizer.momentum = 0.9f;
    o.optimizer.weight_decay = 0.01f;
    train_everywhere(&o);
    o.optimizer.nesterov = true;
    train_everywhere(&o);
}
END_TEST

START_TEST(update_adam_matches_reference)
{
    yoke_replica_options o = base(yoke_adam(0.01f));

    train_everywhere(&o);
    o.optimizer.weight_decay = 0.1f;
    train_everywhere(&o);
    o.optimizer = yoke_adamw(0.01f, 0.1f);
    train_everywhere(&o);
}
END_TEST

START_TEST(update_rmsprop_matches_reference)
{
    yoke_replica_options o = base(yoke_rmsprop(0.01f));

    train_everywhere(&o);
    o.optimizer.momentum = 0.9f;
    train_everywhere(&o);
}
END_TEST

START_TEST(update_groups_and_clipping_match_reference)
{
    static const yoke_parameter_group groups[] = {
        {.pattern = "*.bias", .learning_rate_scale = 2, .has_weight_decay = true}};
    yoke_replica_options o = base(yoke_sgd(0.5f, 0.5f));

    o.optimizer.weight_decay = 0.05f;
    o.groups = groups;
    o.group_count = 1;
    train_everywhere(&o);
    o.clip_norm = 0.05f;
    train_everywhere(&o);
    o.clip_norm = 0;
    o.clip_value = 0.001f;
    train_everywhere(&o);
}
END_TEST

/* A loss that is not finite: no parameter changes, until the next good step. */
START_TEST(update_nan_changes_no_parameter)
{
    yoke_replica_options o = base(yoke_adam(0.01f));
    yoke_context *context;
    yoke_selection *selection;
    yoke_graph *graph = graph_two_parameters(WIDTH);
    float x[N * WIDTH] = {NAN}, before[WIDTH], after[WIDTH];

    ASSERT_OK(yoke_context_create(&(yoke_context_options){.no_cache = true}, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++) {
        yoke_replica *r;

        ASSERT_OK(yoke_replica_create(yoke_selection_get(selection, i), graph, &o, &r));
        ASSERT_OK(yoke_replica_read(r, "p.weight", before, WIDTH));
        for (int step = 0; step < 2; step++) {
            bool good = step == 1;

            x[0] = good ? 1 : NAN;
            ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_f32("x", x, N * WIDTH)));
            ASSERT_OK(yoke_replica_forward(r, N));
            ASSERT_OK(yoke_replica_backward(r));
            ASSERT_OK(yoke_replica_update(r, 1));
            ASSERT_OK(yoke_replica_read(r, "p.weight", after, WIDTH));
            ck_assert_int_eq(memcmp(before, after, sizeof before) != 0, good);
        }
        for (int k = 0; k < WIDTH; k++)
            ck_assert(isfinite(after[k]));
        yoke_replica_destroy(r);
    }
    yoke_graph_destroy(graph);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

/* The factor of every kind at chosen steps. */
START_TEST(schedules_have_their_values)
{
    const yoke_schedule constant = {.kind = YOKE_SCHEDULE_CONSTANT, .warmup = 4};
    const yoke_schedule steps = {.kind = YOKE_SCHEDULE_STEP, .factor = 0.5f, .period = 10};
    const yoke_schedule cosine = {.kind = YOKE_SCHEDULE_COSINE, .steps = 100, .final_factor = 0.1f};
    const yoke_schedule linear = {
        .kind = YOKE_SCHEDULE_LINEAR, .steps = 20, .warmup = 10, .final_factor = 0.2f};
    const yoke_schedule cycle = {.kind = YOKE_SCHEDULE_ONE_CYCLE,
                                 .steps = 100,
                                 .warmup = 20,
                                 .initial = 0.04f,
                                 .final_factor = 0.001f};
    const struct {
        const yoke_schedule *schedule;
        int64_t step;
        double factor;
    } rows[] = {
        {NULL, 7, 1},
        {&constant, 0, 0.25},
        {&constant, 3, 1},
        {&constant, 1000000, 1},
        {&steps, 0, 1},
        {&steps, 9, 1},
        {&steps, 10, 0.5},
        {&steps, 39, 0.125},
        {&cosine, 0, 1},
        {&cosine, 50, 0.55},
        {&cosine, 25, 0.1 + 0.9 * (2 + sqrt(2)) / 4},
        {&cosine, 100, 0.1},
        {&cosine, 5000, 0.1},
        {&linear, 0, 0.1},
        {&linear, 9, 1},
        {&linear, 10, 1},
        {&linear, 15, 0.6},
        {&linear, 20, 0.2},
        {&linear, 999, 0.2},
        {&cycle, 0, 0.04},
        {&cycle, 10, 0.52},
        {&cycle, 19, 1 - 0.96 * (1 - cos(0.05 * 3.14159265358979323846)) / 2},
        {&cycle, 20, 1},
        {&cycle, 60, 0.5005},
        {&cycle, 100, 0.001},
        {&cycle, 200, 0.001},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        double factor = (double)yoke_schedule_factor(rows[i].schedule, rows[i].step);

        ck_assert_msg(fabs(factor - rows[i].factor) < 1e-6, "row %zu: %g, %g expected", i, factor,
                      rows[i].factor);
    }
    /* Kinds that end, or have a period, cannot be without one. */
    for (int kind = YOKE_SCHEDULE_STEP; kind <= YOKE_SCHEDULE_ONE_CYCLE; kind++) {
        const yoke_schedule empty = {.kind = (yoke_schedule_kind)kind};

        ck_assert(isnan(yoke_schedule_factor(&empty, 1)));
        ASSERT_DETAIL(kind == YOKE_SCHEDULE_STEP ? "period is 0; must be at least 1"
                                                 : "steps is 0; must be at least 1");
    }
}
END_TEST

/* ---- on one device each ---- */

static void
take_steps(yoke_replica *replica, int steps)
{
    float x[N * WIDTH];

    for (int step = 1; step <= steps; step++) {
        for (int i = 0; i < N * WIDTH; i++)
            x[i] = (float)op_normal(3, (uint32_t)step, (uint64_t)i);
        ASSERT_OK(yoke_replica_set_input(replica, N, yoke_feed_f32("x", x, N * WIDTH)));
        ASSERT_OK(yoke_replica_forward(replica, N));
        ASSERT_OK(yoke_replica_backward(replica));
        ASSERT_OK(yoke_replica_update(replica, 1));
    }
}

static void
read_all(yoke_replica *replica, float values[WIDTH + 1])
{
    ASSERT_OK(yoke_replica_read(replica, "p.weight", values, WIDTH));
    ASSERT_OK(yoke_replica_read(replica, "q.bias", values + WIDTH, 1));
}

static void
on_each_device(void (*check)(yoke_device *device))
{
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_context_create(&(yoke_context_options){.no_cache = true}, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check(yoke_selection_get(selection, i));
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

/* Parameters, optimizer state and step number: the same steps give the same bits again. */
static void
check_initialize(yoke_device *device)
{
    yoke_replica_options o = base(yoke_adam(0.05f));
    float start[WIDTH + 1], first[WIDTH + 1], again[WIDTH + 1];
    yoke_graph *graph = graph_two_parameters(WIDTH);
    yoke_replica *replica;

    ASSERT_OK(yoke_replica_create(device, graph, &o, &replica));
    read_all(replica, start);
    take_steps(replica, 3);
    read_all(replica, first);
    ck_assert(memcmp(start, first, sizeof start) != 0);
    ASSERT_OK(yoke_replica_initialize(replica, o.seed));
    read_all(replica, again);
    ck_assert_mem_eq(again, start, sizeof start);
    take_steps(replica, 3);
    read_all(replica, again);
    ck_assert_mem_eq(again, first, sizeof first);
    ASSERT_OK(yoke_replica_initialize(replica, o.seed + 1));
    read_all(replica, again);
    ck_assert(memcmp(start, again, sizeof start) != 0);
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
}

START_TEST(update_starts_again_after_initialize)
{
    on_each_device(check_initialize);
}
END_TEST

/* What is frozen keeps its bits, decay or not. */
static void
check_groups_and_frozen(yoke_device *device)
{
    static const yoke_parameter_group groups[] = {
        {.pattern = "[qz].bias", .learning_rate_scale = 3},
        {.pattern = "q*", .learning_rate_scale = 50}, /* the first that matches counts */
    };
    yoke_replica_options o = base(yoke_sgd(0.1f, 0.9f));
    float start[WIDTH + 1], plain[WIDTH + 1], grouped[WIDTH + 1], frozen[WIDTH + 1];
    yoke_graph *graph = graph_two_parameters(WIDTH), *half = graph_two_parameters(WIDTH);
    yoke_replica *replica;

    o.optimizer.weight_decay = 0.1f;
    ASSERT_OK(yoke_replica_create(device, graph, &o, &replica));
    read_all(replica, start);
    take_steps(replica, 1);
    read_all(replica, plain);
    yoke_replica_destroy(replica);
    o.groups = groups;
    o.group_count = YKI_COUNT(groups);
    ASSERT_OK(yoke_replica_create(device, graph, &o, &replica));
    take_steps(replica, 1);
    read_all(replica, grouped);
    yoke_replica_destroy(replica);
    ck_assert_mem_eq(grouped, plain, WIDTH * sizeof *plain);
    ck_assert_msg(fabsf((grouped[WIDTH] - start[WIDTH]) - 3 * (plain[WIDTH] - start[WIDTH])) <
                      1e-5f,
                  "the bias goes from %g to %g, to %g in its group", (double)start[WIDTH],
                  (double)plain[WIDTH], (double)grouped[WIDTH]);

    ASSERT_OK(yoke_graph_freeze(half, "p.*"));
    ASSERT_OK(yoke_replica_create(device, half, &o, &replica));
    take_steps(replica, 5);
    read_all(replica, frozen);
    ck_assert_mem_eq(frozen, start, WIDTH * sizeof *start);
    ck_assert(frozen[WIDTH] != start[WIDTH]);
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
    yoke_graph_destroy(half);
}

START_TEST(update_leaves_frozen_and_unmatched_alone)
{
    on_each_device(check_groups_and_frozen);
}
END_TEST

/* ---- two drivers ---- */

/* Many numbers and few updates: Rusticl takes a millisecond for a launch, however small it is. */
enum { SIZE = 4002, UPDATES = 25 };

/* loss = mean of w x: the gradient of w is x / SIZE summed over samples by adding two numbers,
 * which is exact or rounded once, so both devices get the same and only the update counts. */
static yoke_graph *
build_linear(void)
{
    yoke_initializer init = {YOKE_INIT_NORMAL, 0, 1, 0};
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(SIZE));
    yoke_graph_set_loss(
        g, yoke_sum(g, yoke_mul(g, x, yoke_parameter(g, "w", yoke_shape(SIZE), init)), NULL, 0));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static void
update_often(yoke_device *device, const yoke_replica_options *options, float *w)
{
    yoke_graph *graph = build_linear();
    yoke_replica *replica;
    float x[2 * SIZE], gradient[SIZE];

    ASSERT_OK(yoke_replica_create(device, graph, options, &replica));
    for (int step = 0; step < UPDATES; step++) {
        for (int i = 0; i < 2 * SIZE; i++)
            x[i] = (float)op_normal(5, (uint32_t)step, (uint64_t)i);
        ASSERT_OK(yoke_replica_set_input(replica, 2, yoke_feed_f32("x", x, 2 * SIZE)));
        ASSERT_OK(yoke_replica_forward(replica, 2));
        ASSERT_OK(yoke_replica_backward(replica));
        if (step == 0) {
            ASSERT_OK(yoke_replica_read_gradient(replica, "w", gradient, SIZE));
            for (int i = 0; i < SIZE; i++)
                ck_assert(gradient[i] == x[i] + x[SIZE + i]);
        }
        ASSERT_OK(yoke_replica_update(replica, 1 - (float)step / (1.5f * UPDATES)));
    }
    ASSERT_OK(yoke_replica_read(replica, "w", w, SIZE));
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
}

static void
hold_to_same_bits(const test_devices *devices, const yoke_replica_options *o, const char *what)
{
    float a[SIZE], b[SIZE];
    int different = 0;

    update_often(devices->device[0], o, a);
    update_often(devices->device[1], o, b);
    for (int i = 0; i < SIZE; i++)
        different += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    ck_assert_msg(different == 0, "%s: %d of %d weights differ after %d updates", what, different,
                  SIZE, UPDATES);
}

START_TEST(updates_of_two_drivers_have_the_same_bits)
{
    test_devices devices;
    yoke_replica_options o;

    if (test_in_matrix())
        TEST_NOT_HERE("the matrix has its own devices");
    if (!test_devices_open(TEST_POCL_AND_RUSTICL, &devices))
        TEST_SKIP("%s", devices.missing);
    o = base(yoke_sgd(0.1f, 0));
    hold_to_same_bits(&devices, &o, "SGD");
    o.optimizer.momentum = 0.9f;
    o.optimizer.nesterov = true;
    o.optimizer.weight_decay = 0.01f;
    hold_to_same_bits(&devices, &o, "SGD with Nesterov's momentum and decay");
    o.clip_norm = 0.7f;
    hold_to_same_bits(&devices, &o, "SGD clipped by norm");
    o.clip_norm = 0;
    o.clip_value = 0.5f;
    hold_to_same_bits(&devices, &o, "SGD clipped by value");
    o = base(yoke_adam(0.01f));
    hold_to_same_bits(&devices, &o, "Adam");
    o.optimizer = yoke_adamw(0.01f, 0.1f);
    hold_to_same_bits(&devices, &o, "AdamW");
    o.optimizer = yoke_rmsprop(0.01f);
    hold_to_same_bits(&devices, &o, "RMSprop");
    o.optimizer.momentum = 0.9f;
    hold_to_same_bits(&devices, &o, "RMSprop with momentum");
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("update");
    TCase *tcase = test_case(suite, "update");

    tcase_add_test(tcase, update_sgd_matches_reference);
    tcase_add_test(tcase, update_adam_matches_reference);
    tcase_add_test(tcase, update_rmsprop_matches_reference);
    tcase_add_test(tcase, update_groups_and_clipping_match_reference);
    tcase_add_test(tcase, update_nan_changes_no_parameter);
    tcase_add_test(tcase, schedules_have_their_values);
    tcase_add_test(tcase, update_starts_again_after_initialize);
    tcase_add_test(tcase, update_leaves_frozen_and_unmatched_alone);
    tcase_add_test(tcase, updates_of_two_drivers_have_the_same_bits);
    return suite;
}
