/* SPDX-License-Identifier: Apache-2.0
 *
 * check_offers.c - which solvers and layouts the planner takes into account for a task: what is
 * measured, and what it takes of two that need about the same time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/ops.h"
#include "support/planning.h"
#include "support/support.h"

enum { BATCH = 4, CHANNELS = 16 };

static yki_plan *
plan_within(const planning *m, yoke_plan_level level, double seconds)
{
    yki_plan_options options = {
        .max.batch = BATCH, .level = level, .wisdom = m->wisdom, .budget = seconds};
    yki_plan *p;

    ASSERT_OK(yki_plan_create(m->weights, m->queue, &options, &p));
    return p;
}

/* What a plan measures, it measures to the end: a busy machine changes nothing. */
static yki_plan *
plan(const planning *m, yoke_plan_level level)
{
    return plan_within(m, level, 600);
}

/* ---- about the same time ---- */

static yoke_graph *
sum(void)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(CHANNELS));
    yoke_graph_set_output(g, "y",
                          yoke_add(g, x, yoke_input(g, "z", YOKE_F32, yoke_shape(CHANNELS))));
    return g;
}

/* Returns whether a plan takes the second of the two solvers for a sum, where that takes
 * `fraction` of the first one's time. */
static bool
takes_second(double fraction)
{
    static const char first[] = "binary-flat", other[] = "binary-broadcast";
    planning m;
    yki_plan *p;
    char text[YKI_PROBLEM_TEXT];
    bool second;

    planning_open(&m, test_selector(), sum());
    p = plan(&m, YOKE_PLAN_ESTIMATE);
    ck_assert_uint_eq(p->task_count, 1);
    ck_assert_str_eq(p->tasks[0].solver->name, first);
    yki_problem_text(&p->tasks[0].problem, text, sizeof text);
    yki_plan_destroy(p);
    ASSERT_OK(yki_wisdom_put(m.wisdom, m.device, text, first, 0, 1e-3));
    ASSERT_OK(yki_wisdom_put(m.wisdom, m.device, text, other, 0, fraction * 1e-3));
    p = plan(&m, YOKE_PLAN_ESTIMATE);
    second = strcmp(p->tasks[0].solver->name, other) == 0;
    yki_plan_destroy(p);
    planning_close(&m);
    return second;
}

START_TEST(of_two_that_take_the_same_the_first_is_taken)
{
    ck_assert(!takes_second(1.02));
    ck_assert(!takes_second(0.98));
    ck_assert(takes_second(0.95));
}
END_TEST

/* ---- what is measured ---- */

static yoke_graph *
convolution(void)
{
    yoke_conv2d_options conv = {.filters = CHANNELS, .kernel = {3, 3}, .pad = {1, 1}};
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(CHANNELS, 4, 4));
    yoke_graph_set_output(g, "y", yoke_tanh(g, yoke_conv2d(g, x, &conv)));
    return g;
}

/* Returns a bit, by its size, for each block in the lines that begin with a time and this word, and
 * counts the lines. */
static unsigned
blocks_of(const char *text, const char *word, unsigned *lines)
{
    unsigned blocks = 0;

    *lines = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        size_t length;
        const char *at;

        line += *line == '\n';
        length = strcspn(line, "\n");
        at = memchr(line, ' ', length);
        if (!at || strncmp(at + 1, word, strlen(word)) != 0)
            continue;
        ++*lines;
        while ((at = memchr(at, '/', length - (size_t)(at - line))) != NULL)
            blocks |= 1u << strtol(++at, NULL, 10);
    }
    return blocks;
}

/* An activation works in blocks of any size. Beside convolutions, which have one size on a device,
 * the others are not tried. */
START_TEST(blocks_that_nobody_else_works_in_are_not_tried)
{
    planning m;
    char *text;
    unsigned convolutions, activations, wanted, tried;

    planning_open(&m, test_selector(), convolution());
    yki_plan_destroy(plan(&m, YOKE_PLAN_MEASURE));
    ASSERT_OK(yki_wisdom_tell(&m.wisdom, 1, &text));
    wanted = blocks_of(text, "conv2d", &convolutions);
    tried = blocks_of(text, "unary", &activations);
    ck_assert_uint_gt(convolutions, 0);
    ck_assert_uint_gt(activations, 0);
    if (wanted)
        ck_assert_msg((tried & ~wanted) == 0, "blocks %#x of convolutions, %#x of activations: %s",
                      wanted, tried, text);
    free(text);
    planning_close(&m);
}
END_TEST

static yoke_graph *
small_and_large(void)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(CHANNELS));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = CHANNELS});
    yoke_graph_set_output(g, "y", yoke_dense(g, x, &(yoke_dense_options){.units = 8 * CHANNELS}));
    return g;
}

/* A budget that ends at once is spent on the operator that takes longest, wherever it stands. */
START_TEST(the_largest_is_measured_first)
{
    planning m;
    char *text;

    planning_open(&m, test_selector(), small_and_large());
    yki_plan_destroy(plan_within(&m, YOKE_PLAN_MEASURE, 1e-9));
    ASSERT_OK(yki_wisdom_tell(&m.wisdom, 1, &text));
    ck_assert_msg(strstr(text, "f32 128,16") && !strstr(text, "f32 16,16"), "%s", text);
    free(text);
    planning_close(&m);
}
END_TEST

/* ---- what nobody offers ---- */

/* No solver takes its operand as integers. */
static yoke_graph *
unsolvable(bool gradient)
{
    yoke_node *x, *y, *dx;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(CHANNELS, 2));
    y = yoke_leaky_relu(g, yoke_reshape(g, x, yoke_shape(2, CHANNELS)), 0.25f);
    if (gradient) {
        yoke_node *inputs[2] = {y, y};

        dx = yki_node(g, &yki_op_unary_grad, NULL, inputs, 2, &y->attrs, sizeof(yki_unary_attrs));
        dx->origin = y;
        dx->backward = true;
        y->gradient = dx;
        y = dx;
    }
    yoke_graph_set_output(g, "y", y);
    y->type = YOKE_I32;
    return g;
}

/* The layer and its function, as in the table of the graph, and no key of wisdom. */
START_TEST(what_no_solver_does_is_told_in_the_words_of_the_graph)
{
    static const char *const of[] = {"", "the gradient of "};
    const yki_plan_options options = {.max.batch = BATCH};
    char expected[256];
    planning m;
    yki_plan *p;

    planning_open(&m, test_selector(), unsolvable(_i));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, yki_plan_create(m.weights, m.queue, &options, &p));
    snprintf(expected, sizeof expected,
             "leaky_relu1: no solver on %s for %sleaky_relu of (2, 16) in a batch of 4",
             yki_device_id(m.device), of[_i]);
    ck_assert_str_eq(yoke_last_error(), expected);
    planning_close(&m);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("offers");
    TCase *tcase = test_case(suite, "offers");

    tcase_add_test(tcase, of_two_that_take_the_same_the_first_is_taken);
    tcase_add_test(tcase, blocks_that_nobody_else_works_in_are_not_tried);
    tcase_add_test(tcase, the_largest_is_measured_first);
    tcase_add_loop_test(tcase, what_no_solver_does_is_told_in_the_words_of_the_graph, 0, 2);
    return suite;
}
