/* SPDX-License-Identifier: Apache-2.0
 *
 * check_gathers_ahead.c - weights that are divided are gathered before they are needed: a bucket
 * comes while devices compute with the one before it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "team/sharding.h"
#include "train/runs.h"
#include "train/trainer.h"

static test_devices devices;

static bool
open_setup(test_setup setup)
{
    return team_find(setup, &devices, NULL);
}

enum { LAYERS = 20, UNITS = 64, BATCH = 8 };

/* A trainer of many equal layers, each with a bucket of its own. */
static yoke_trainer *
deep_trainer(const team_run *run)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g;
    yoke_node *x, *target;
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(UNITS));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(UNITS));
    for (int i = 0; i < LAYERS; i++)
        x = yoke_tanh(g, yoke_dense(g, x, &(yoke_dense_options){.units = UNITS, .no_bias = true}));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    ASSERT_OK(yoke_graph_status(g));
    o.batch = BATCH;
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return t;
}

/* The first task of a section that reads a bucket of weights; or the number of tasks. */
static size_t
first_reader(const yki_plan *plan, yki_section section, uint32_t bucket)
{
    const uint32_t gathered = bucket + (section == YKI_BACKWARD) * plan->weights->bucket_count;

    for (size_t i = 0; i < plan->task_count; i++) {
        const yki_task *task = &plan->tasks[i];

        for (uint32_t s = 0; task->section == section && s < yki_problem_operands(&task->problem);
             s++)
            if (plan->values[yki_value_root(plan, task->slots[s])].gathered == gathered)
                return i;
    }
    return plan->task_count;
}

/* A bucket is gathered before any task reads the one that was gathered before it. */
static void
check_order(const yki_plan *plan)
{
    size_t pairs = 0;

    for (size_t s = 1; s < plan->stop_count; s++) {
        const yki_stop *one = &plan->stops[s - 1], *next = &plan->stops[s];

        if (!one->gathers || !next->gathers || one->section != next->section)
            continue;
        ck_assert_uint_le(next->task, first_reader(plan, one->section, one->gathers));
        pairs++;
    }
    ck_assert_uint_eq(pairs, 2 * (LAYERS - 1));
}

static struct {
    yki_event gates[2];
    atomic_bool done, late;
} hold;

/* Frees devices that the host waits for although it should not. */
static void *
watch(void *unused)
{
    const struct timespec pause = {0, 10000000};

    for (int i = 0; i < 2000 && !atomic_load(&hold.done); i++)
        nanosleep(&pause, NULL);
    atomic_store(&hold.late, !atomic_load(&hold.done));
    for (size_t k = 0; k < YKI_COUNT(hold.gates); k++)
        yki_gate_open(&hold.gates[k]);
    return unused;
}

/* While devices are held at what comes before, the host gathers two buckets: that which they need
 * first, and the next one. */
static void
gather_ahead(void)
{
    const team_run run = {.shares = "even",
                          .optimizer = yoke_adam(0.01f),
                          .bucket_bytes = UNITS * UNITS * 4,
                          .shard = YOKE_SHARD_WEIGHTS,
                          .shard_by = "1,1"};
    yoke_trainer *t = deep_trainer(&run);
    yki_crew *crew = &t->crew;
    const yki_plan *plan = crew->members[0].replica->training;
    pthread_t watcher;

    ck_assert_uint_eq(crew->count, YKI_COUNT(hold.gates));
    check_order(plan);
    for (size_t k = 0; k < crew->count; k++) {
        yki_queue *queue = crew->members[k].replica->queue;

        ASSERT_OK(yki_gate_create(yki_queue_device(queue), &hold.gates[k]));
        ASSERT_OK(yki_queue_marker(queue, (yki_wait){&hold.gates[k], 1}, NULL));
    }
    ck_assert_int_eq(pthread_create(&watcher, NULL, watch, NULL), 0);
    for (size_t s = 0; s < 2; s++)
        ASSERT_OK(yki_crew_merge(crew, s));
    atomic_store(&hold.done, true);
    ck_assert_int_eq(pthread_join(watcher, NULL), 0);
    ck_assert_msg(!atomic_load(&hold.late), "the host waits for devices before it gathers");
    ASSERT_OK(yki_crew_finish(crew));
    for (size_t k = 0; k < crew->count; k++)
        yki_event_release(&hold.gates[k]);
    yoke_trainer_destroy(t);
}

TEAM_SETUP(gathers_ahead, TEST_POCL_ROOTS, open_setup, gather_ahead())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("gathers_ahead");
    TCase *tcase = test_case(suite, "gathers");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, gathers_ahead);
    return suite;
}
