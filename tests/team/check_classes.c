/* SPDX-License-Identifier: Apache-2.0
 *
 * check_classes.c - a team computes each node in one numerical class, whatever its
 * devices, or those of another process, would choose alone.
 *
 * What devices "measured" is written into wisdom here: one says that Winograd is fast,
 * the other that it is slow.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/scratch.h"
#include "train/runs.h"
#include "train/trainer.h"

enum { BATCH = 24, NODES = 3 /* forward and two gradients of the wide convolution */ };

static test_devices devices;
static yoke_device_info info[2];

static bool
open_setup(test_setup setup)
{
    scratch_set_up();
    if (team_find(setup, &devices, info))
        return true;
    scratch_tear_down();
    return false;
}

static bool
is_convolution(const yki_op *op)
{
    return op == &yki_op_conv2d || op == &yki_op_conv2d_grad_input ||
           op == &yki_op_conv2d_grad_weight;
}

/* ---- wisdom ---- */

/* One problem in every layout that a solver takes. */
static void
invent(yki_wisdom *w, yoke_device *device, const yki_problem *plain, const yki_solver *solver,
       double seconds)
{
    const yki_device_traits *traits = yki_device_get_traits(device);
    char text[YKI_PROBLEM_TEXT];

    for (unsigned variant = 0;; variant++) {
        yki_problem problem = *plain;

        if (solver->layouts ? !solver->layouts(&problem, traits, variant) : variant > 0)
            return;
        if (!solver->applies(&problem, traits))
            continue;
        yki_problem_text(&problem, text, sizeof text);
        ASSERT_OK(yki_wisdom_put(w, device, text, solver->name, 0, seconds));
    }
}

static void
invent_for(yki_wisdom *w, yoke_device *device, int64_t batch, double direct, double winograd)
{
    const yoke_replica_options o = {.batch = batch, .level = YOKE_PLAN_ESTIMATE, .strict = true};
    yoke_graph *g = team_graph(TEAM_WIDE);
    yoke_replica *r;

    ASSERT_OK(yoke_replica_create(device, g, &o, &r));
    for (size_t t = 0; t < r->training->task_count; t++) {
        yki_problem problem = r->training->tasks[t].problem;

        for (uint32_t k = 0; k < problem.input_count; k++)
            problem.in[k].layout.block = 1;
        problem.out.layout.block = 1;
        for (const yki_solver *const *s = yki_solvers; *s && is_convolution(problem.op); s++)
            if (*(*s)->op == problem.op && !(*s)->sets)
                invent(w, device, &problem, *s,
                       (*s)->numerical_class == YKI_CLASS_DIRECT ? direct : winograd);
    }
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

/* A file in which the selector's devices are as fast as this at each class. */
static void
write_wisdom(const char *path, const char *selector, const double seconds[][2])
{
    static const int64_t batches[] = {BATCH / 2 + 1, BATCH};
    yoke_selection *selection;
    yki_wisdom *w;

    ASSERT_OK(yki_wisdom_open(path, &w));
    ASSERT_OK(yoke_selection_create(devices.context, selector, NULL, &selection));
    for (size_t k = 0; k < yoke_selection_count(selection); k++)
        for (size_t b = 0; b < YKI_COUNT(batches); b++)
            invent_for(w, yoke_selection_get(selection, k), batches[b], seconds[k][0],
                       seconds[k][1]);
    ASSERT_OK(yki_wisdom_save(w));
    yki_wisdom_close(w);
    yoke_selection_destroy(selection);
}

/* ---- what a trainer does ---- */

/* How many convolutions of a plan are done by Winograd. */
static size_t
winograds(const yki_plan *plan)
{
    size_t count = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        count +=
            plan->tasks[t].solver && plan->tasks[t].solver->numerical_class != YKI_CLASS_DIRECT;
    return count;
}

/* In training and in evaluation; and the printed plan says so. */
static void
assert_class(yoke_trainer *t, bool winograd)
{
    static float y[TEAM_CLASSES];
    const team_run run = {.net = TEAM_WIDE};
    yoke_feed feeds[2];

    team_feeds(&run, 0, 1, feeds);
    ASSERT_OK(yoke_trainer_predict(t, "y", 1, feeds, 1, y, TEAM_CLASSES));
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_replica *r = t->crew.members[k].replica;

        ck_assert_uint_eq(winograds(r->training), winograd ? NODES : 0);
        ck_assert_uint_eq(winograds(r->evaluation), winograd ? 1 : 0);
        test_forget_lines();
        ASSERT_OK(yoke_replica_print_plan(r, test_keep_line, NULL));
        ck_assert_msg((strstr(test_lines, " Winograd ") != NULL) == winograd, "%s", test_lines);
    }
}

static void
assert_told(yoke_trainer *t, const char *id, const char *otherwise)
{
    char wanted[160];

    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
    ck_assert_msg(strstr(test_lines, "the same on every device") != NULL, "%s", test_lines);
    snprintf(wanted, sizeof wanted, "%s alone would compute %d otherwise:", id, NODES);
    ck_assert_msg(strstr(test_lines, wanted) != NULL, "no \"%s\" in\n%s", wanted, test_lines);
    ck_assert_msg(strstr(test_lines, otherwise) != NULL, "no \"%s\" in\n%s", otherwise, test_lines);
}

static void
train(const team_run *run, team_outcome *outcome)
{
    team_train(devices.context, run, outcome);
}

/* Two devices of other opinions: `winograd` is what the team makes of it, the one numbered
 * `overruled` gives in. The weights are those of one device that computes in that class. */
static void
check_pair(const double seconds[2][2], bool winograd, size_t overruled)
{
    const double one[1][2] = {{winograd ? 1 : 1e-6, winograd ? 1e-6 : 1}};
    team_run run = {.selector = devices.selector,
                    .shares = "even",
                    .net = TEAM_WIDE,
                    .any_class = true,
                    .wisdom = scratch_path(winograd ? "fast" : "slow")};
    team_run alone = run;
    team_outcome a, b;
    yoke_trainer *t;

    write_wisdom(run.wisdom, devices.selector, seconds);
    t = team_trainer(devices.context, &run);
    assert_class(t, winograd);
    assert_told(t, info[overruled].id, winograd ? " as direct" : " as Winograd");
    yoke_trainer_destroy(t);
    alone.selector = info[0].parent;
    alone.wisdom = scratch_path(winograd ? "one-fast" : "one-slow");
    write_wisdom(alone.wisdom, alone.selector, one);
    t = team_trainer(devices.context, &alone);
    ck_assert_uint_eq(winograds(t->crew.members[0].replica->training), winograd ? NODES : 0);
    yoke_trainer_destroy(t);
    train(&run, &a);
    train(&alone, &b);
    team_assert_near(&a, &b, winograd ? "Winograd" : "direct");
    team_free(&a);
    team_free(&b);
}

/* Seconds direct and by Winograd. Who would lose more by the other class has it his way. */
static void
check_opinions(void)
{
    static const double much[2][2] = {{1e-2, 1e-6}, {1e-5, 1e-3}};
    static const double little[2][2] = {{1e-4, 1e-6}, {1e-5, 1e-3}};

    check_pair(much, true, 1);
    check_pair(little, false, 0);
    scratch_tear_down();
}

TEAM_SETUP(devices_of_two_opinions, TEST_POCL_UNEVEN, open_setup, check_opinions())

/* ---- processes ---- */

/* A comm of two threads: whoever comes waits for the other. */
typedef struct meeting {
    pthread_barrier_t barrier;
    unsigned char board[2][1 << 16];
} meeting;

typedef struct rank {
    yoke_comm comm;
    meeting *place;
    yoke_context *context;
    team_run run;
    yoke_trainer *trainer;
    team_outcome outcome;
    char selector[80];
} rank;

static void
meet(const rank *r)
{
    pthread_barrier_wait(&r->place->barrier);
}

static yoke_status
comm_gather(yoke_comm *comm, const void *in, size_t bytes, void *out)
{
    rank *r = comm->self;

    ck_assert_uint_le(bytes, sizeof r->place->board[0]);
    memcpy(r->place->board[comm->rank], in, bytes);
    meet(r);
    for (size_t k = 0; k < 2; k++)
        memcpy((unsigned char *)out + k * bytes, r->place->board[k], bytes);
    meet(r);
    return YOKE_OK;
}

static yoke_status
comm_allreduce(yoke_comm *comm, int32_t type, const void *in, void *result, size_t count,
               size_t algorithm, void **request)
{
    rank *r = comm->self;
    float *out = result,
          *boards[2] = {(float *)(void *)r->place->board[0], (float *)(void *)r->place->board[1]};

    *request = NULL;
    ck_assert_int_eq(type, YOKE_F32);
    ck_assert_uint_eq(algorithm, 0);
    ck_assert_uint_le(count * sizeof *out, sizeof r->place->board[0]);
    memcpy(boards[comm->rank], in, count * sizeof *out);
    meet(r);
    for (size_t i = 0; i < count; i++)
        out[i] = boards[0][i] + boards[1][i];
    meet(r);
    return YOKE_OK;
}

static yoke_status
comm_test(yoke_comm *comm, void **request, bool wait, bool *done)
{
    (void)comm;
    (void)request;
    (void)wait;
    *done = true;
    return YOKE_OK;
}

static yoke_status
comm_broadcast(yoke_comm *comm, void *data, size_t bytes, int32_t root)
{
    rank *r = comm->self;

    ck_assert_uint_le(bytes, sizeof r->place->board[0]);
    if (comm->rank == root)
        memcpy(r->place->board[0], data, bytes);
    meet(r);
    memcpy(data, r->place->board[0], bytes);
    meet(r);
    return YOKE_OK;
}

static yoke_status
comm_barrier(yoke_comm *comm)
{
    meet(comm->self);
    return YOKE_OK;
}

static void
join(rank *r, meeting *place, int32_t number)
{
    *r = (rank){.place = place, .context = devices.context};
    r->comm = (yoke_comm){.size = sizeof r->comm,
                          .self = r,
                          .rank = number,
                          .ranks = 2,
                          .local_rank = number,
                          .local_ranks = 2,
                          .host = "here",
                          .allreduce_start = comm_allreduce,
                          .test = comm_test,
                          .broadcast = comm_broadcast,
                          .allgather = comm_gather,
                          .barrier = comm_barrier};
    /* A half is of another kind: of its own, rank 0's times are what both choose by. */
    snprintf(r->selector, sizeof r->selector, "%.63s%s", info[number].id, number ? "/2.0" : "");
    r->run = (team_run){.selector = r->selector,
                        .shares = "even",
                        .net = TEAM_WIDE,
                        .any_class = true,
                        .bucket_bytes = 4096,
                        .wisdom = number ? scratch_path("rank1") : scratch_path("rank0")};
}

/* Every process gives the whole batch and uses its part. */
static void *
work(void *user)
{
    rank *r = user;
    yoke_trainer_options o = team_options(&r->run);
    yoke_graph *g = team_graph(r->run.net);
    yoke_team *team;

    ASSERT_OK(yoke_team_create(r->context, r->run.selector, &(yoke_team_options){.comm = &r->comm},
                               &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &r->trainer));
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    return NULL;
}

/* Each process knows what it measured, and both do the same. */
static void
check_ranks(void)
{
    static const double much[1][2] = {{1e-2, 1e-6}}, little[1][2] = {{1e-5, 1e-3}};
    static meeting place;
    static rank ranks[2];
    pthread_t threads[2];

    ck_assert_int_eq(pthread_barrier_init(&place.barrier, NULL, 2), 0);
    for (int32_t k = 0; k < 2; k++) {
        join(&ranks[k], &place, k);
        write_wisdom(ranks[k].run.wisdom, ranks[k].run.selector, k ? little : much);
    }
    for (size_t k = 0; k < 2; k++)
        ck_assert_int_eq(pthread_create(&threads[k], NULL, work, &ranks[k]), 0);
    for (size_t k = 0; k < 2; k++)
        ck_assert_int_eq(pthread_join(threads[k], NULL), 0);
    for (size_t k = 0; k < 2; k++) {
        yoke_trainer *t = ranks[k].trainer;

        ck_assert_uint_eq(winograds(t->crew.members[0].replica->training), NODES);
        ck_assert_mem_eq(t->crew.classes, ranks[0].trainer->crew.classes, t->crew.class_count);
    }
    assert_told(ranks[1].trainer, ranks[1].selector, " as direct");
    for (size_t k = 0; k < 2; k++)
        yoke_trainer_destroy(ranks[k].trainer);
    scratch_tear_down();
}

TEAM_SETUP(ranks_of_two_opinions, TEST_POCL_ROOTS, open_setup, check_ranks())

/* ---- arithmetic ---- */

START_TEST(classes_are_those_that_all_have)
{
    enum { A, B, C, N };
    yki_costs costs[2], sum;
    uint8_t classes[N];

    ASSERT_OK(yki_costs_create(N, &sum));
    for (int k = 0; k < 2; k++)
        ASSERT_OK(yki_costs_create(N, &costs[k]));
    yki_costs_add(&costs[0], A, (double[YKI_CLASSES]){4, 1});
    yki_costs_add(&costs[0], B, (double[YKI_CLASSES]){4, 1});
    yki_costs_add(&costs[0], B,
                  (double[YKI_CLASSES]){2, 0}); /* a second task, directly in any case */
    yki_costs_choose(&costs[0], classes);
    ck_assert(classes[A] == YKI_CLASS_WINOGRAD4 + 1 && classes[B] == YKI_CLASS_WINOGRAD4 + 1);
    ck_assert_int_eq(classes[C], YKI_ANY_CLASS);
    ck_assert_double_eq(costs[0].total, 4);
    ck_assert_double_eq(costs[0].of[B * YKI_CLASSES + YKI_CLASS_WINOGRAD4], 3);
    yki_costs_add(&costs[1], A, (double[YKI_CLASSES]){8, 0}); /* no Winograd here */
    yki_costs_add(&costs[1], B, (double[YKI_CLASSES]){1, 400});
    for (int k = 0; k < 2; k++) {
        yki_costs_weigh(&costs[k]);
        yki_costs_merge(&sum, costs[k].of);
    }
    yki_costs_choose(&sum, classes);
    ck_assert_int_eq(classes[A], YKI_CLASS_DIRECT + 1);
    ck_assert_int_eq(classes[B], YKI_CLASS_DIRECT + 1);
    ck_assert_int_eq(classes[C], YKI_ANY_CLASS);
    for (int k = 0; k < 2; k++)
        yki_costs_free(&costs[k]);
    yki_costs_free(&sum);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("numerical classes");
    TCase *tc = test_case(suite, "classes");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, classes_are_those_that_all_have);
    tcase_add_test(tc, devices_of_two_opinions);
    tcase_add_test(tc, ranks_of_two_opinions);
    return suite;
}
