/* SPDX-License-Identifier: Apache-2.0
 *
 * check_measure.c - how trials are timed beside one another: measure.c with a clock and runners of
 * the test's own, so that each run takes as long as the test says.
 */
#include <string.h>

#include "plan/plan.h"
#include "support/support.h"

enum { TRIALS = 4, OPENING = 2, MOST = 2000 };

/* The seconds of a run, of all runs of all trials the one with this number. */
typedef double (*duration)(size_t trial, int number);

static struct {
    duration seconds;
    double now;
    yki_trial trials[TRIALS];
    size_t count;
    size_t order[MOST]; /* the trial of each run */
    int all, runs[TRIALS], open;
    size_t lacks_memory, does_not_build; /* trials, if less than `count` */
} world;

static const yki_device_traits cpu = {.type = YOKE_DEVICE_CPU};

/* ---- what measure.c calls, in place of the library's ---- */

static double
fake_now(void)
{
    return world.now;
}

static yoke_status
fake_runner(yki_queue *queue, const yki_problem *problem, const yki_recipe *recipe,
            yki_buffer *const *operands, yki_buffer *step, yki_runner **runner)
{
    size_t trial = (size_t)((const yki_trial *)problem - world.trials); /* its first member */

    (void)queue, (void)recipe, (void)operands, (void)step;
    if (trial == world.does_not_build)
        return yki_fail(YOKE_ERROR_BUILD, "it does not build");
    if (trial == world.lacks_memory && world.open > 0)
        return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, "no memory beside others");
    world.open++;
    *runner = (yki_runner *)(void *)&world.trials[trial];
    return YOKE_OK;
}

static void
fake_destroy(yki_runner *runner)
{
    world.open -= runner != NULL;
}

static yoke_status
fake_enqueue(yki_runner *runner, yki_phase phase, yki_extents extents, yki_event *done)
{
    size_t trial = (size_t)((yki_trial *)(void *)runner - world.trials);

    (void)extents, (void)done;
    if (phase != YKI_PHASE_RUN)
        return YOKE_OK;
    ck_assert_int_lt(world.all, MOST);
    world.now += world.seconds(trial, world.all);
    world.order[world.all++] = trial;
    world.runs[trial]++;
    return YOKE_OK;
}

#define yki_now                                    fake_now
#define yki_runner_create                          fake_runner
#define yki_runner_destroy                         fake_destroy
#define yki_runner_enqueue                         fake_enqueue
#define yki_solver_emit(s, p, t, tuning, r)        ((void)(s), (void)(t), (void)(r), YOKE_OK)
#define yki_recipe_clear(r)                        ((void)(r))
#define yki_queue_finish(q)                        ((void)(q), YOKE_OK)
#define yki_queue_device(q)                        ((void)(q), (yoke_device *)NULL)
#define yki_device_id(d)                           ((void)(d), "a device")
#define yki_device_get_traits(d)                   ((void)(d), &cpu)
#define yki_buffer_create(d, size, f, what, b)     ((void)(d), (void)(size), (void)(b), YOKE_OK)
#define yki_buffer_touch(q, b)                     ((void)(q), (void)(b), YOKE_OK)
#define yki_buffer_destroy(b)                      ((void)(b))
#define yki_queue_fill(q, b, at, size, word, w, e) ((void)(b), (void)(word), YOKE_OK)
#include "plan/measure.c"

/* ---- tests ---- */

static const yki_solver solver = {.name = "fake"};

static void
measure_trials(size_t count, duration seconds, double deadline)
{
    memset(&world, 0, sizeof world);
    world.seconds = seconds;
    world.count = count;
    world.lacks_memory = world.does_not_build = TRIALS;
    for (size_t i = 0; i < count; i++) {
        world.trials[i].solver = &solver;
        world.trials[i].problem.op = &yki_op_unary;
        world.trials[i].problem.max.batch = 1;
    }
    if (deadline > 0)
        ASSERT_OK(yki_measure(NULL, world.trials, count, false, deadline));
}

static double
quotient(size_t a, size_t b)
{
    return world.trials[a].seconds / world.trials[b].seconds;
}

/* The number of a run among those that count: its round, if all trials have one. */
static int
round_of(int number)
{
    return (number - OPENING * (int)world.count) / (int)world.count;
}

static double
slow_for_a_while(size_t trial, int number)
{
    static const double times[] = {1.02e-3, 1e-3, 1.01e-3};

    return times[trial] * (round_of(number) % 3 == 1 ? 5 : 1);
}

/* Trials take turns, so other work that makes a round slow leaves the relations as they are. */
START_TEST(trials_take_turns)
{
    measure_trials(3, slow_for_a_while, 1);
    for (int i = 3 * OPENING; i < world.all; i++)
        ck_assert_uint_eq(world.order[i], (size_t)i % 3);
    ck_assert_int_eq(world.all, 3 * (OPENING + 11));
    ck_assert_double_eq_tol(quotient(0, 1), 1.02, 1e-9);
    ck_assert_double_eq_tol(quotient(2, 1), 1.01, 1e-9);
    ck_assert_double_eq_tol(world.trials[1].seconds, 1e-3, 1e-9);
    ck_assert_int_eq(world.open, 0);
}
END_TEST

static double
sometimes_hit(size_t trial, int number)
{
    bool hit = round_of(number) % 3 == 0 && number >= OPENING * 2;

    return trial == 1 ? 1.02e-3 : hit ? 10e-3 : 1e-3;
}

/* Medians decide, not sums. */
START_TEST(a_few_hits_decide_nothing)
{
    measure_trials(2, sometimes_hit, 1);
    ck_assert_double_eq_tol(quotient(1, 0), 1.02, 1e-9);
}
END_TEST

static double
unlike(size_t trial, int number)
{
    static const double times[] = {1.01e-3, 1e-3, 1.1e-3, 1.5e-3};

    (void)number;
    return times[trial];
}

static double
of_60_ms(size_t trial, int number)
{
    (void)number;
    return trial ? 61e-3 : 60e-3;
}

/* What is far from the best has the fewest rounds; what loses each of some has no more; what takes
 * long has few, however near; one that is alone is compared with nothing. */
START_TEST(rounds_go_where_they_decide)
{
    measure_trials(4, unlike, 1);
    ck_assert_int_eq(world.runs[0], OPENING + 11);
    ck_assert_int_eq(world.runs[1], OPENING + 11);
    ck_assert_int_eq(world.runs[2], OPENING + 5);
    ck_assert_int_eq(world.runs[3], OPENING + 3);
    ck_assert_double_eq_tol(quotient(3, 1), 1.5, 1e-9);
    ck_assert_double_eq_tol(quotient(2, 1), 1.1, 1e-9);
    measure_trials(2, of_60_ms, 9);
    ck_assert_int_eq(world.runs[0], OPENING + 3);
    ck_assert_int_eq(world.runs[1], OPENING + 3);
    measure_trials(1, unlike, 1);
    ck_assert_int_eq(world.runs[0], OPENING + 3);
}
END_TEST

static double
in_turns_best(size_t trial, int number)
{
    return 1e-3 * (trial == 0 || round_of(number) % 2 ? 1.1 : 1.2);
}

static double
far_off(size_t trial, int number)
{
    return trial == 0 ? 1e-3 : number < 2 * OPENING ? 3e-3 : 1.5e-3;
}

static double
three_times(size_t trial, int number)
{
    (void)number;
    return trial ? 3e-3 : 1e-3;
}

/* What is far off before the rounds and in the first of them has no more; one of both may be
 * chance. */
START_TEST(what_is_far_off_has_one_round)
{
    measure_trials(2, three_times, 1);
    ck_assert_int_eq(world.runs[1], OPENING + 1);
    ck_assert_int_eq(world.runs[0], OPENING + 3);
    ck_assert_double_eq_tol(quotient(1, 0), 3, 1e-9);
    measure_trials(2, far_off, 1);
    ck_assert_int_eq(world.runs[1], OPENING + 3);
    ck_assert_double_eq_tol(quotient(1, 0), 1.5, 1e-9);
}
END_TEST

static double
hit_at_first(size_t trial, int number)
{
    static const double times[] = {1e-3, 0.9e-3, 3e-3};

    return trial == 1 && number >= 3 * OPENING && round_of(number) == 0 ? 10e-3 : times[trial];
}

/* The one round of what is far off says nothing beside one that was hit in it. */
START_TEST(who_is_hit_at_first_is_no_worse)
{
    measure_trials(3, hit_at_first, 1);
    ck_assert_double_eq_tol(world.trials[1].seconds, 0.9e-3, 1e-9);
    ck_assert_double_eq_tol(quotient(0, 1), 1 / 0.9, 1e-9);
    ck_assert_int_eq(world.runs[1], OPENING + 11);
    ck_assert_double_eq_tol(world.trials[2].seconds, 3e-3, 1e-9);
}
END_TEST

/* One that wins a round now and then goes on, however bad the others are: noise is no loss. */
START_TEST(who_wins_a_round_goes_on)
{
    measure_trials(2, in_turns_best, 1);
    ck_assert_int_eq(world.runs[1], OPENING + 11);
}
END_TEST

static double
of_10_us(size_t trial, int number)
{
    (void)trial, (void)number;
    return 10e-6;
}

/* Short runs are timed together. */
START_TEST(short_runs_are_repeated)
{
    measure_trials(1, of_10_us, 1);
    ck_assert_int_eq(world.runs[0], OPENING + 3 * 16);
    ck_assert_double_eq_tol(world.trials[0].seconds, 10e-6, 1e-12);
}
END_TEST

START_TEST(what_fails_is_left_out)
{
    measure_trials(3, unlike, 0);
    world.does_not_build = 1;
    ASSERT_OK(yki_measure(NULL, world.trials, 3, false, 1));
    ck_assert_int_eq(world.trials[1].failed, YOKE_ERROR_BUILD);
    ck_assert(world.trials[1].seconds == 0 && world.trials[0].failed == YOKE_OK);
    ck_assert_double_eq_tol(quotient(2, 0), 1.1 / 1.01, 1e-9);
}
END_TEST

/* Then it has all memory for itself, after the others. */
START_TEST(what_does_not_fit_beside_others_comes_later)
{
    measure_trials(3, unlike, 0);
    world.lacks_memory = 2;
    ASSERT_OK(yki_measure(NULL, world.trials, 3, false, 1));
    ck_assert_int_eq(world.trials[2].failed, YOKE_OK);
    ck_assert_double_eq_tol(world.trials[2].seconds, 1.1e-3, 1e-9);
    for (int i = world.all - OPENING - 3; i < world.all; i++)
        ck_assert_uint_eq(world.order[i], 2);
    ck_assert_int_eq(world.open, 0);
}
END_TEST

/* At least one is measured. */
START_TEST(a_deadline_leaves_the_rest_unknown)
{
    measure_trials(3, unlike, 1e-9);
    ck_assert(world.trials[0].seconds > 0);
    ck_assert(world.trials[1].seconds == 0 && world.trials[2].seconds == 0);
    ck_assert(world.trials[1].failed == YOKE_OK);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("measure");
    TCase *tcase = test_case(suite, "measure");

    tcase_add_test(tcase, trials_take_turns);
    tcase_add_test(tcase, a_few_hits_decide_nothing);
    tcase_add_test(tcase, rounds_go_where_they_decide);
    tcase_add_test(tcase, what_is_far_off_has_one_round);
    tcase_add_test(tcase, who_is_hit_at_first_is_no_worse);
    tcase_add_test(tcase, who_wins_a_round_goes_on);
    tcase_add_test(tcase, short_runs_are_repeated);
    tcase_add_test(tcase, what_fails_is_left_out);
    tcase_add_test(tcase, what_does_not_fit_beside_others_comes_later);
    tcase_add_test(tcase, a_deadline_leaves_the_rest_unknown);
    return suite;
}
