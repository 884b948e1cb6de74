/* SPDX-License-Identifier: Apache-2.0
 *
 * check_planner.c - how the planner measures on a GPU, and what it does with kernels that do not
 * build, launch or fit there; that a processor gets kernels of its own. On the null driver, which
 * fails where it is told to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/open_null.h"
#include "support/planning.h"
#include "support/scratch.h"
#include "support/support.h"

enum { BATCH = 4, VALUES = 16 };
/* Of OpenCL, whose headers tests do not include. */
enum {
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_INVALID_WORK_GROUP_SIZE = -54
};

static const null_driver *driver;
static planning m;

static void
keep_line(void *user, yoke_log_level level, const char *line)
{
    (void)level;
    test_keep_line(user, line);
}

/* A sum has two solvers, whose layouts are the same. */
static yoke_graph *
sum_graph(void)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(VALUES));
    yoke_graph_set_output(g, "y", yoke_add(g, x, yoke_input(g, "z", YOKE_F32, yoke_shape(VALUES))));
    return g;
}

static void
set_up_on(const char *model, const char *selector)
{
    scratch_set_up();
    driver = null_open(model);
    planning_open(&m, selector, sum_graph());
    test_forget_lines();
    yoke_log_set(keep_line, NULL, YOKE_LOG_INFO);
}

static void
set_up(void)
{
    set_up_on("h200", "gpu:0");
}

static void
set_up_processor(void)
{
    set_up_on("cpu", "cpu:0");
}

static void
tear_down(void)
{
    driver->set_faults(&(null_faults){0});
    yoke_log_set(NULL, NULL, YOKE_LOG_INFO);
    planning_close(&m);
    scratch_tear_down();
}

static yoke_status
try_plan(yoke_plan_level level, yki_wisdom *wisdom, yki_plan **plan)
{
    const yki_plan_options o = {.max.batch = BATCH, .level = level, .wisdom = wisdom};

    return yki_plan_create(m.weights, m.queue, &o, plan);
}

/* The solver that a plan takes for the sum, and its kernel. */
static const char *
solver_taken(yoke_plan_level level, char kernel[80])
{
    const char *name;
    yki_plan *p;

    ASSERT_OK(try_plan(level, NULL, &p));
    ck_assert_uint_eq(p->task_count, 1);
    name = p->tasks[0].solver->name;
    if (kernel)
        snprintf(kernel, 80, "%s", p->tasks[0].recipe.launches[0].kernel);
    yki_plan_destroy(p);
    return name;
}

/* Each fault makes the planner take another solver than it would, and say so. */
static void
takes_another(yoke_plan_level level, null_faults faults)
{
    char kernel[80];
    const char *first = solver_taken(level, kernel), *other;

    faults.launch = faults.launch ? kernel : NULL;
    faults.narrow = faults.narrow ? kernel : NULL;
    driver->set_faults(&faults);
    test_forget_lines();
    other = solver_taken(level, NULL);
    ck_assert_str_ne(first, other);
    ck_assert_ptr_nonnull(strstr(test_lines, first));
    ck_assert_ptr_nonnull(strstr(test_lines, "is left out"));
    driver->set_faults(&(null_faults){0});
}

static const yoke_plan_level levels[] = {YOKE_PLAN_MEASURE, YOKE_PLAN_ESTIMATE};

START_TEST(what_does_not_fit_is_left_out)
{
    takes_another(levels[_i], (null_faults){.narrow = "", .narrow_group = 64});
    ck_assert_ptr_nonnull(strstr(test_lines, "it can have at most 64"));
}
END_TEST

/* A driver that names one number for all kernels, below what they are compiled for, names no limit.
 */
START_TEST(a_number_for_all_kernels_is_no_limit)
{
    const char *before = solver_taken(levels[_i], NULL), *after;

    driver->set_faults(&(null_faults){.narrow = "*", .narrow_group = 16});
    test_forget_lines();
    after = solver_taken(levels[_i], NULL);
    driver->set_faults(&(null_faults){0});
    ck_assert_str_eq(before, after);
    ck_assert_ptr_null(strstr(test_lines, "is left out"));
}
END_TEST

/* A driver is asked how many work-items it runs at a time. */
START_TEST(groups_that_leave_lanes_idle_are_told)
{
    yoke_log_set(keep_line, NULL, YOKE_LOG_DEBUG);
    solver_taken(YOKE_PLAN_ESTIMATE, NULL);
    ck_assert_ptr_null(strstr(test_lines, "at a time"));
    test_forget_lines();
    driver->set_faults(&(null_faults){.multiple = 4096});
    solver_taken(YOKE_PLAN_ESTIMATE, NULL);
    driver->set_faults(&(null_faults){0});
    ck_assert_ptr_nonnull(strstr(test_lines, "runs 4096 at a time"));
}
END_TEST

/* Nothing is built yet, and binary-flat is tried first. Both are in one program, so the other one
 * builds it again. */
START_TEST(what_does_not_build_is_left_out)
{
    driver->set_faults(&(null_faults){.builds = 1});
    ck_assert_str_eq(solver_taken(levels[_i], NULL), "binary-broadcast");
    ck_assert_ptr_nonnull(strstr(test_lines, "binary-flat is left out"));
    ck_assert_ptr_nonnull(strstr(test_lines, "CL_BUILD_PROGRAM_FAILURE"));
}
END_TEST

START_TEST(what_does_not_launch_is_left_out)
{
    static const int errors[] = {CL_OUT_OF_RESOURCES, CL_INVALID_WORK_GROUP_SIZE,
                                 CL_OUT_OF_HOST_MEMORY, CL_MEM_OBJECT_ALLOCATION_FAILURE};

    takes_another(YOKE_PLAN_MEASURE, (null_faults){.launch = "", .launch_error = errors[_i]});
}
END_TEST

START_TEST(a_plan_fails_where_nothing_is_left)
{
    yki_plan *p;

    driver->set_faults(&(null_faults){.builds = 1000});
    ASSERT_STATUS(YOKE_ERROR_BUILD, try_plan(levels[_i], NULL, &p));
    ASSERT_DETAIL("CL_BUILD_PROGRAM_FAILURE");
}
END_TEST

/* A block with a shortcut, whose convolutions have Winograd's gradients. */
static yoke_graph *
block_graph(void)
{
    yoke_conv2d_options o = {.filters = 32, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true};
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_shape shape = yoke_shape(32, 8, 6);
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init));
    y = yoke_add(g, y, yoke_conv2d(g, yoke_relu(g, yoke_conv2d(g, y, &o)), &o));
    target = yoke_target(g, "target", YOKE_F32, shape);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* Gives a plan of the block; *used: the memory that it takes. */
static yki_plan *
block_plan(yki_weights *weights, bool no_join, uint64_t *used)
{
    const yki_plan_options o = {
        .max.batch = BATCH, .training = true, .no_join = no_join, .level = YOKE_PLAN_ESTIMATE};
    uint64_t left = yki_quota_left(m.device);
    yki_plan *plan;

    ASSERT_OK(yki_plan_create(weights, m.queue, &o, &plan));
    *used = left - yki_quota_left(m.device);
    return plan;
}

/* Gradients that are joined take more memory. Where only the separate ones fit, these are taken. */
START_TEST(what_does_not_fit_is_not_joined)
{
    yoke_graph *g = block_graph();
    uint64_t joined, apart, again, rest;
    yki_weights *weights;
    yki_plan *plan;

    ASSERT_OK(yki_weights_create(m.device, g, true, 0, NULL, &weights));
    plan = block_plan(weights, false, &joined);
    ck_assert(plan->joined);
    yki_plan_destroy(plan);
    plan = block_plan(weights, true, &apart);
    ck_assert(!plan->joined);
    yki_plan_destroy(plan);
    ck_assert_uint_gt(joined, apart);
    rest = yki_quota_left(m.device) - apart;
    ASSERT_OK(yki_quota_charge(m.device, rest, "what others use"));
    plan = block_plan(weights, false, &again);
    ck_assert(!plan->joined);
    ck_assert_uint_eq(again, apart);
    yki_plan_destroy(plan);
    yki_quota_return(m.device, rest);
    yki_weights_release(weights);
    yoke_graph_destroy(g);
}
END_TEST

/* The memory of a plan of a head of 50000 classes, for the first device of the selector. */
static uint64_t
head_memory(const char *selector, bool canonical)
{
    enum { ROWS = 1024, WIDTH = 64, CLASSES = 50000 };
    const yki_plan_options o = {
        .max.batch = 4, .training = true, .canonical = canonical, .level = YOKE_PLAN_ESTIMATE};
    yoke_node *x, *weight, *label;
    yki_plan *plan;
    planning head;
    yoke_graph *g;
    uint64_t bytes;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(ROWS, WIDTH));
    weight = yoke_parameter(g, "weight", yoke_shape(CLASSES, WIDTH), (yoke_initializer){0});
    label = yoke_target(g, "label", YOKE_I32, yoke_shape(ROWS));
    yoke_graph_set_loss(g, yoke_linear_cross_entropy(g, x, weight, label, NULL));
    planning_open(&head, selector, g);
    ASSERT_OK(yki_plan_create(head.weights, head.queue, &o, &plan));
    bytes = yki_plan_memory(plan);
    yki_plan_destroy(plan);
    planning_close(&head);
    return bytes;
}

/* Logits of a chunk take a share of what a device may use, which may be less than it has; in a
 * canonical plan they are as many on all. */
START_TEST(a_quota_bounds_the_logits_of_a_chunk)
{
    const uint64_t MIB = (uint64_t)1 << 20;
    uint64_t whole = head_memory("gpu:0", false), part = head_memory("gpu:0@2GiB", false);

    ck_assert_uint_gt(whole, 400 * MIB);
    ck_assert_uint_lt(part, 200 * MIB);
    ck_assert_uint_eq(head_memory("gpu:0", false), whole);
    ck_assert_uint_eq(head_memory("gpu:0", true), head_memory("gpu:0@2GiB", true));
}
END_TEST

START_TEST(a_lost_device_fails)
{
    yki_plan *p;

    driver->set_faults(&(null_faults){.dead = true});
    test_forget_lines();
    ASSERT_STATUS(YOKE_ERROR_DEVICE, try_plan(YOKE_PLAN_MEASURE, NULL, &p));
    ASSERT_DETAIL("CL_OUT_OF_RESOURCES");
    ck_assert_ptr_null(strstr(test_lines, "is left out"));
}
END_TEST

static bool
has_gates(void)
{
    const yoke_context_options options = {.no_cache = true};
    yoke_selection *selection;
    yoke_context *context;
    bool gates;

    ASSERT_OK(yoke_context_create(&options, &context));
    ASSERT_OK(yoke_selection_create(context, "gpu:0", NULL, &selection));
    gates = yki_device_get_traits(yoke_selection_get(selection, 0))->gates;
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return gates;
}

/* A thread that opens a gate after it has enqueued what waits for it would wait for ever; and so
 * would what another queue has to do before the gate opens. */
START_TEST(a_driver_that_holds_the_host_at_gates_gets_none)
{
    ck_assert(has_gates());
    driver->set_faults(&(null_faults){.gates_hold = _i == 0, .gates_hold_queues = _i == 1});
    test_forget_lines();
    ck_assert(!has_gates());
    ck_assert_ptr_nonnull(strstr(test_lines, "waits for sums of gradients"));
}
END_TEST

/* An idle GPU is slow, and the host's wait takes longer than a short kernel. */
START_TEST(short_kernels_are_timed_back_to_back_and_warm)
{
    null_counts before, after;
    yki_plan *p;

    driver->get_counts(&before);
    ASSERT_OK(try_plan(YOKE_PLAN_MEASURE, NULL, &p));
    driver->get_counts(&after);
    ck_assert_uint_gt(after.launches - before.launches, 32 * (after.stops - before.stops));
    ck_assert_double_gt(p->measuring.seconds, 0.02);
    yki_plan_destroy(p);
}
END_TEST

/* Of two solvers, wisdom knows one: the other must be faster by more than noise. */
START_TEST(what_wisdom_knows_stays_within_noise)
{
    const char *names[] = {"binary-flat", "binary-broadcast"};
    char text[YKI_PROBLEM_TEXT];
    double seconds;
    yki_plan *p;

    ASSERT_OK(try_plan(YOKE_PLAN_MEASURE, m.wisdom, &p));
    yki_problem_text(&p->tasks[0].problem, text, sizeof text);
    yki_plan_destroy(p);
    for (int i = 0; i < 2; i++) {
        yki_wisdom *wisdom;

        ck_assert(yki_wisdom_get(m.wisdom, m.device, text, names[!_i], 0, &seconds));
        ASSERT_OK(yki_wisdom_open(NULL, &wisdom));
        /* The null driver's kernels take next to nothing, all of them: 0 to many times as long. */
        ASSERT_OK(yki_wisdom_put(wisdom, m.device, text, names[_i], 0, i ? 1e3 : 1e-12));
        ASSERT_OK(try_plan(YOKE_PLAN_MEASURE, wisdom, &p));
        ck_assert_str_eq(p->tasks[0].solver->name, names[i ? !_i : _i]);
        yki_plan_destroy(p);
        yki_wisdom_close(wisdom);
    }
}
END_TEST

/* Of two solvers whose times are known the first of the table stays, unless the other takes less by
 * 3 %. */
START_TEST(of_equal_times_the_first_stays)
{
    static const struct {
        double flat, broadcast;
        const char *takes;
    } cases[] = {{1e-3, 1.02e-3, "binary-flat"},
                 {1e-3, 0.98e-3, "binary-flat"},
                 {1e-3, 0.96e-3, "binary-broadcast"}};
    char text[YKI_PROBLEM_TEXT];
    yki_wisdom *wisdom;
    yki_plan *p;

    ASSERT_OK(try_plan(YOKE_PLAN_MEASURE, m.wisdom, &p));
    yki_problem_text(&p->tasks[0].problem, text, sizeof text);
    yki_plan_destroy(p);
    ASSERT_OK(yki_wisdom_open(NULL, &wisdom));
    ASSERT_OK(yki_wisdom_put(wisdom, m.device, text, "binary-flat", 0, cases[_i].flat));
    ASSERT_OK(yki_wisdom_put(wisdom, m.device, text, "binary-broadcast", 0, cases[_i].broadcast));
    ASSERT_OK(try_plan(YOKE_PLAN_MEASURE, wisdom, &p));
    ck_assert_str_eq(p->tasks[0].solver->name, cases[_i].takes);
    yki_plan_destroy(p);
    yki_wisdom_close(wisdom);
}
END_TEST

/* ---- a processor ---- */

static yoke_graph *
attention_graph(int64_t width)
{
    enum { LENGTH = 20, HEADS = 2 };
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_shape wide = yoke_shape(LENGTH, 3 * HEADS * width);
    yoke_node *x, *y;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_mul(g, yoke_input(g, "x", YOKE_F32, wide), yoke_parameter(g, "p", wide, init));
    y = yoke_attention(g, x, NULL, &(yoke_attention_options){.heads = HEADS});
    yoke_graph_set_loss(
        g, yoke_mean_squared_error(
               g, y, yoke_target(g, "target", YOKE_F32, yoke_shape(LENGTH, HEADS * width)), NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* How many tasks of a plan are attention, its gradient included; *tiled: how many of them by the
 * kernels of GPUs. */
static unsigned
attention_tasks(const yki_plan *plan, unsigned *tiled)
{
    unsigned count = 0;

    *tiled = 0;
    for (size_t t = 0; t < plan->task_count; t++) {
        const char *name = plan->tasks[t].solver ? plan->tasks[t].solver->name : "";

        count += strncmp(name, "attention", strlen("attention")) == 0;
        *tiled += strstr(name, "-tiled") != NULL;
    }
    return count;
}

/* Attention by tiles stands before the kernels of processors, and applies to them. */
START_TEST(processors_keep_their_own_kernels)
{
    static const int64_t widths[] = {32, 64};
    yki_plan_options o = {.max.batch = BATCH, .training = true, .budget = 600};
    yoke_graph *g = attention_graph(widths[_i]);
    yki_weights *weights;
    unsigned tiled;
    char *text;

    ASSERT_OK(yki_weights_create(m.device, g, true, 0, NULL, &weights));
    for (size_t i = 0; i < YKI_COUNT(levels); i++) {
        yki_plan *plan;

        o.level = levels[i];
        o.wisdom = o.level == YOKE_PLAN_MEASURE ? m.wisdom : NULL;
        ASSERT_OK(yki_plan_create(weights, m.queue, &o, &plan));
        ck_assert_uint_ge(attention_tasks(plan, &tiled), 2);
        ck_assert_uint_eq(tiled, 0);
        yki_plan_destroy(plan);
    }
    ASSERT_OK(yki_wisdom_tell(&m.wisdom, 1, &text));
    ck_assert_msg(strstr(text, " attention ") && !strstr(text, " attention-tiled "), "%s", text);
    free(text);
    yki_weights_release(weights);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(a_patient_processor_tries_all_kernels)
{
    const yki_plan_options o = {.max.batch = BATCH,
                                .training = true,
                                .wisdom = m.wisdom,
                                .level = YOKE_PLAN_PATIENT,
                                .budget = 600};
    yoke_graph *g = attention_graph(32);
    yki_weights *weights;
    yki_plan *plan;
    char *text;

    ASSERT_OK(yki_weights_create(m.device, g, true, 0, NULL, &weights));
    ASSERT_OK(yki_plan_create(weights, m.queue, &o, &plan));
    yki_plan_destroy(plan);
    ASSERT_OK(yki_wisdom_tell(&m.wisdom, 1, &text));
    ck_assert_msg(strstr(text, " attention ") && strstr(text, " attention-tiled "), "%s", text);
    free(text);
    yki_weights_release(weights);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("planner");
    TCase *tcase = test_case(suite, "candidates");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, what_does_not_fit_is_left_out, 0, 2);
    tcase_add_loop_test(tcase, a_number_for_all_kernels_is_no_limit, 0, 2);
    tcase_add_test(tcase, groups_that_leave_lanes_idle_are_told);
    tcase_add_loop_test(tcase, what_does_not_build_is_left_out, 0, 2);
    tcase_add_loop_test(tcase, what_does_not_launch_is_left_out, 0, 4);
    tcase_add_loop_test(tcase, a_plan_fails_where_nothing_is_left, 0, 2);
    tcase_add_test(tcase, what_does_not_fit_is_not_joined);
    tcase_add_test(tcase, a_quota_bounds_the_logits_of_a_chunk);
    tcase_add_test(tcase, a_lost_device_fails);
    tcase_add_loop_test(tcase, a_driver_that_holds_the_host_at_gates_gets_none, 0, 2);
    tcase_add_test(tcase, short_kernels_are_timed_back_to_back_and_warm);
    tcase_add_loop_test(tcase, what_wisdom_knows_stays_within_noise, 0, 2);
    tcase_add_loop_test(tcase, of_equal_times_the_first_stays, 0, 3);
    tcase = test_case(suite, "processor");
    tcase_add_checked_fixture(tcase, set_up_processor, tear_down);
    tcase_add_loop_test(tcase, processors_keep_their_own_kernels, 0, 2);
    tcase_add_test(tcase, a_patient_processor_tries_all_kernels);
    return suite;
}
