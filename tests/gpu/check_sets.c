/* SPDX-License-Identifier: Apache-2.0
 *
 * check_sets.c - how plans for a GPU come to CLBlast, whose tunings are sets of parameters: a large
 * product makes level measure look for one, which is then measured beside the other solvers and
 * taken where it is faster by more than noise. On the null driver, so no figure depends on a clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/open_null.h"
#include "support/fake_sets.h"
#include "support/planning.h"
#include "support/scratch.h"
#include "support/support.h"

enum { LARGE = 512, SMALL = 64, SET = 12585637 /* 32 x 32, 8 x 8 work-items */ };

static const null_driver *driver;
static planning m;

static void
open_gpu(int units, const char *selector)
{
    yoke_dense_options o = {.units = units, .no_bias = true};
    yoke_graph *g;

    driver = null_open("h200");
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(g, "y",
                          yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(units)), &o));
    planning_open(&m, selector, g);
}

static yki_plan *
plan_of(int batch, yoke_plan_level level)
{
    const yki_plan_options o = {.max.batch = batch, .level = level, .wisdom = m.wisdom};
    yki_plan *plan;

    ASSERT_OK(yki_plan_create(m.weights, m.queue, &o, &plan));
    ck_assert_uint_eq(plan->task_count, 1);
    return plan;
}

/* The seeds alone are tried; nothing at all for a small product. */
START_TEST(large_products_look_for_a_set)
{
    fake_search_options o = {YOKE_PLAN_MEASURE, 1e12, false};

    open_gpu(SMALL, "gpu:0");
    ck_assert_uint_eq(fake_search(m.device, &o), 3);
    for (unsigned set = 0; set < FAKE_SETS; set++)
        ck_assert_uint_eq(fake_measured[set], set == 3 || set == 8);
    o.work = 1e6;
    ck_assert_uint_eq(fake_search(m.device, &o), FAKE_SETS);
    ck_assert_uint_eq(fake_measured[3], 0);
    planning_close(&m);
}
END_TEST

/* The results of the null driver are not those of a product, so no set of CLBlast works there. A
 * plan does without it, also where there is no memory to try one: the last product has 48 MiB,
 * and CLBlast copies them. */
static const struct {
    int units;
    const char *selector;
    bool tried;
} plans[] = {{SMALL, "gpu:0", false}, {LARGE, "gpu:0", true}, {4 * LARGE, "gpu:0@80MiB", false}};

START_TEST(what_does_not_work_is_not_taken)
{
    const int units = plans[_i].units;
    size_t size;
    char *log;
    yki_plan *plan;

    open_gpu(units, plans[_i].selector);
    driver->log(scratch_path("log"));
    plan = plan_of(units, YOKE_PLAN_MEASURE);
    ck_assert_str_eq(plan->tasks[0].solver->name, "gemm-tiled");
    ck_assert_ptr_null(plan->sets.list);
    driver->log(NULL);
    log = scratch_read(scratch_path("log"), &size);
    ck_assert_int_eq(strstr(log, " Xgemm ") != NULL, plans[_i].tried);
    free(log);
    yki_plan_destroy(plan);
    planning_close(&m);
}
END_TEST

/* Puts a time for the product, as a plan has it, into wisdom. */
static void
put(const yki_plan *plan, const char *solver, unsigned tuning, double seconds)
{
    char text[YKI_PROBLEM_TEXT];

    yki_problem_text(&plan->tasks[0].problem, text, sizeof text);
    ASSERT_OK(yki_wisdom_put(m.wisdom, m.device, text, solver, tuning, seconds));
}

static double
seconds_of(const yki_plan *plan, const char *solver, unsigned tuning)
{
    char text[YKI_PROBLEM_TEXT];
    double seconds = 0;

    yki_problem_text(&plan->tasks[0].problem, text, sizeof text);
    ck_assert(yki_wisdom_get(m.wisdom, m.device, text, solver, tuning, &seconds));
    return seconds;
}

/* What a search found is measured again beside solvers that nobody has measured yet. */
START_TEST(a_set_is_measured_beside_the_others)
{
    yki_plan *plan;

    open_gpu(SMALL, "gpu:0");
    plan = plan_of(SMALL, YOKE_PLAN_ESTIMATE);
    put(plan, "gemm-clblast", SET, 1e-12);
    yki_plan_destroy(plan);
    plan = plan_of(SMALL, YOKE_PLAN_MEASURE);
    ck_assert_double_gt(seconds_of(plan, "gemm-clblast", SET), 1e-9);
    ck_assert_double_gt(seconds_of(plan, "gemm-tiled", 0), 1e-9);
    yki_plan_destroy(plan);
    planning_close(&m);
}
END_TEST

/* Where there is no time for that, a set that was measured alone is not taken. */
START_TEST(a_set_that_met_nobody_is_not_taken)
{
    yki_plan_options o = {
        .max.batch = SMALL, .level = YOKE_PLAN_MEASURE, .wisdom = NULL, .budget = 1e-9};
    yki_plan *plan;

    open_gpu(SMALL, "gpu:0");
    plan = plan_of(SMALL, YOKE_PLAN_ESTIMATE);
    put(plan, "gemm-clblast", SET, 1e-12);
    yki_plan_destroy(plan);
    o.wisdom = m.wisdom;
    ASSERT_OK(yki_plan_create(m.weights, m.queue, &o, &plan));
    ck_assert_str_eq(plan->tasks[0].solver->name, "gemm-tiled");
    yki_plan_destroy(plan);
    planning_close(&m);
}
END_TEST

/* Where all is known, CLBlast is taken if it is faster by more than noise. */
START_TEST(a_set_is_taken_where_it_is_faster)
{
    static const double relative[] = {1.1, 0.98, 0.9};
    const yki_problem *problem;
    yki_plan *plan;

    open_gpu(SMALL, "gpu:0");
    plan = plan_of(SMALL, YOKE_PLAN_MEASURE); /* for the names of all that applies */
    problem = &plan->tasks[0].problem;
    for (unsigned t = 0;
         t < plan->tasks[0].solver->tunings(problem, yki_device_get_traits(m.device)); t++)
        put(plan, plan->tasks[0].solver->name, t, 1);
    ck_assert_str_eq(plan->tasks[0].solver->name, "gemm-tiled");
    put(plan, "gemm-clblast", SET, relative[_i]);
    yki_plan_destroy(plan);
    plan = plan_of(SMALL, YOKE_PLAN_MEASURE);
    ck_assert_str_eq(plan->tasks[0].solver->name, _i == 2 ? "gemm-clblast" : "gemm-tiled");
    yki_plan_destroy(plan);
    planning_close(&m);
}
END_TEST

/* A compiler that can be told so leaves registers for a second group of 256 work-items. It does not
 * heed that where the kernel requires a group. */
START_TEST(two_large_groups_fit_a_unit)
{
    yoke_dense_options o = {.units = 4 * LARGE, .no_bias = true};
    yoke_graph *g;
    yki_plan *plan;
    size_t size;
    char *program;

    setenv("YOKE_NULL_DUMP", scratch_path(""), 1);
    driver = null_open(_i ? "h100" : "h200");
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(g, "y",
                          yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(4 * LARGE)), &o));
    planning_open(&m, "gpu:0", g);
    plan = plan_of(4 * LARGE, YOKE_PLAN_ESTIMATE);
    for (int number = 1;; number++) { /* the product's, behind those that look at the device */
        char name[16];

        snprintf(name, sizeof name, "%d.cl", number);
        program = scratch_read(scratch_path(name), &size);
        if (strstr(program, "-DYKI_REGISTERS=128"))
            break;
        free(program);
    }
    ck_assert_int_eq(_i, strstr(program, "-cl-nv-maxrregcount=128 -DYKI_ANY_GROUP") != NULL);
    free(program);
    yki_plan_destroy(plan);
    planning_close(&m);
    unsetenv("YOKE_NULL_DUMP");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("sets");
    TCase *tcase = test_case(suite, "sets");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_test(tcase, large_products_look_for_a_set);
    tcase_add_loop_test(tcase, what_does_not_work_is_not_taken, 0, 3);
    tcase_add_test(tcase, a_set_is_measured_beside_the_others);
    tcase_add_test(tcase, a_set_that_met_nobody_is_not_taken);
    tcase_add_loop_test(tcase, a_set_is_taken_where_it_is_faster, 0, 3);
    tcase_add_loop_test(tcase, two_large_groups_fit_a_unit, 0, 2);
    return suite;
}
