/* SPDX-License-Identifier: Apache-2.0
 *
 * check_budgets.c - what a training step asks of a GPU: launches, stops of the host, bytes between
 * host and device. Counted by the null driver, so no GPU is needed and no figure depends on a
 * clock.
 *
 * A budget is what a step takes today: a change that takes more has to say why, and one that takes
 * less lowers it. The goals stand beside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tools/models.h"
#include "gpu/open_null.h"
#include "support/scratch.h"
#include "support/support.h"

enum { WARM = 3, STEPS = 4 };

typedef struct budget {
    const char *devices, *selector, *model;
    int64_t batch;
    uint64_t launches; /* of all devices together, a step */
    uint64_t stops;    /* for which the host waits, a step */
    double bytes;      /* each way, a step, in multiples of the weights */
} budget;

/* The goals: 8 launches of mlp, 130 of resnet18; no stop on one device, on two one for each batch
 * norm and direction; the weights once each way. */
static const budget budgets[] = {
    {"h200", "gpu:0", "mlp", 64, 12, 4, 0.5},
    {"h200", "gpu:0", "resnet18", 128, 273, 4, 0.04},
    {"mi300x", "gpu:0", "resnet18", 128, 276, 4, 0.04},
    {"arc", "gpu:0", "resnet18", 32, 266, 4, 0.01},
    {"mali", "gpu:0", "resnet18", 16, 222, 4, 0.01},
    {"h200 h200", "gpu:0,gpu:1", "resnet18", 128, 546, 220, 2.05},
};

static void
open_scratch(void)
{
    scratch_set_up();
}

typedef struct run {
    yoke_context *context;
    yoke_team *team;
    yoke_graph *graph;
    yoke_trainer *trainer;
    const yki_tool_model *model;
    float *image;
    void *target;
} run;

static void
start(const budget *b, run *r)
{
    yoke_trainer_options o = {.batch = b->batch, .shares = "even", .level = YOKE_PLAN_ESTIMATE};
    size_t values;

    r->model = yki_tool_find_model(b->model);
    ck_assert_ptr_nonnull(r->model);
    values = (size_t)b->batch * yki_tool_model_values(r->model);
    r->image = calloc(values, sizeof *r->image);
    r->target = calloc((size_t)b->batch, sizeof(int32_t));
    ck_assert(r->image && r->target);
    yki_tool_random_batch(r->model, b->batch, 1, r->image, r->target);
    o.optimizer = r->model->optimizer();
    ASSERT_OK(yoke_context_create(NULL, &r->context));
    ASSERT_OK(yoke_team_create(r->context, b->selector, NULL, &r->team));
    ASSERT_OK(yki_tool_build_model(r->model, (yoke_shape){0}, -1, &r->graph));
    ASSERT_OK(yoke_trainer_create(r->team, r->graph, &o, &r->trainer));
}

static void
steps(const budget *b, run *r, int count)
{
    yoke_feed feeds[2];

    yki_tool_batch_feeds(r->model, b->batch, r->image, r->target, feeds);
    for (int i = 0; i < count; i++)
        ASSERT_OK(yoke_trainer_step(r->trainer, b->batch, feeds, 2, NULL));
}

static void
stop(run *r)
{
    yoke_trainer_destroy(r->trainer);
    yoke_graph_destroy(r->graph);
    yoke_team_destroy(r->team);
    yoke_context_destroy(r->context);
    free(r->image);
    free(r->target);
}

/* Bytes of all parameters. */
static double
weight_bytes(const yoke_graph *graph)
{
    double bytes = 0;

    for (size_t i = 0; i < yoke_graph_parameter_count(graph); i++) {
        yoke_shape shape = yoke_node_shape(yoke_graph_get_parameter(graph, i));
        double values = 1;

        for (int d = 0; d < shape.rank; d++)
            values *= (double)shape.dim[d];
        bytes += sizeof(float) * values;
    }
    return bytes;
}

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

START_TEST(a_step_keeps_its_budget)
{
    const budget *b = &budgets[_i];
    const null_driver *driver = null_open(b->devices);
    null_counts before, after;
    double begin, weights;
    run r = {0};

    start(b, &r);
    weights = weight_bytes(r.graph);
    steps(b, &r, WARM);
    driver->get_counts(&before);
    begin = now();
    steps(b, &r, STEPS);
    begin = (now() - begin) / STEPS;
    driver->get_counts(&after);
    printf("# %s on %s: %g launches, %g stops, %g bytes written, %g read, of weights %g, "
           "%.2f ms of the host\n",
           b->model, b->devices, (double)(after.launches - before.launches) / STEPS,
           (double)(after.stops - before.stops) / STEPS,
           (double)(after.bytes_written - before.bytes_written) / STEPS,
           (double)(after.bytes_read - before.bytes_read) / STEPS, weights, 1e3 * begin);
    ck_assert_uint_le(after.launches - before.launches, b->launches * STEPS);
    ck_assert_uint_le(after.stops - before.stops, b->stops * STEPS);
    ck_assert_double_le((double)(after.bytes_written - before.bytes_written),
                        b->bytes * weights * STEPS);
    ck_assert_double_le((double)(after.bytes_read - before.bytes_read), b->bytes * weights * STEPS);
    stop(&r);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("budgets");
    TCase *tcase = test_case(suite, "steps");

    tcase_add_checked_fixture(tcase, open_scratch, scratch_tear_down);
    tcase_add_loop_test(tcase, a_step_keeps_its_budget, 0,
                        (int)(sizeof budgets / sizeof budgets[0]));
    return suite;
}
