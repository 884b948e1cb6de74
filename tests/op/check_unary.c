/* SPDX-License-Identifier: Apache-2.0
 *
 * check_unary.c - activations and scale, on awkward sizes.
 */
#include <math.h>
#include <string.h>

#include "harness.h"

extern const yki_solver yki_solver_unary;

static yoke_node *
build(yoke_graph *g, yoke_node *x, int kind)
{
    switch (kind) {
#define PLAIN(kind, id, name, ...)                                                                 \
    case YKI_UNARY_##kind:                                                                         \
        return yoke_##name(g, x);
#define NUMBER(kind, id, name, ...)                                                                \
    case YKI_UNARY_##kind:                                                                         \
        return yoke_##name(g, x, 0.3f);
        YKI_UNARY_PLAIN(PLAIN)
        YKI_UNARY_NUMBER(NUMBER) default : return yoke_scale(g, x, 1.5f, -0.25f);
    }
}

static bool
of_positive(int kind)
{
    return kind == YKI_UNARY_LOG || kind == YKI_UNARY_SQRT || kind == YKI_UNARY_POW;
}

START_TEST(unary_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(), yoke_shape(17), yoke_shape(5, 3, 7),
                                 yoke_shape(33, 129)};

    for (size_t i = 0; i < YKI_COUNT(shapes); i++) {
        yoke_graph *g;
        yoke_node *x;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, shapes[i]);
        op_check_graph(g, build(g, x, _i),
                       &(op_check_options){.scale = _i == YKI_UNARY_HARDSWISH ? 5 : 2,
                                           .positive = of_positive(_i)});
    }
}
END_TEST

/* tanh, e^x - 1 and gelu's distribution are ours and not the driver's: from 0 to where they are 1,
 * at the borders of their forms, and beyond. */
static const yki_unary_kind ours[] = {YKI_UNARY_TANH, YKI_UNARY_ELU, YKI_UNARY_GELU,
                                      YKI_UNARY_GELU_TANH};

static double
right_value(yki_unary_kind kind, double v)
{
    if (kind == YKI_UNARY_TANH)
        return tanh(v);
    if (kind == YKI_UNARY_ELU)
        return v <= 0 ? (double)0.3f * expm1(v) : v;
    if (kind == YKI_UNARY_GELU_TANH)
        return v / (1 + exp(-2 * sqrt(2 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
    return v * 0.5 * erfc(-v * sqrt(0.5));
}

START_TEST(ours_are_right_everywhere)
{
    enum { SWEEP = 4000, COUNT = SWEEP + 12 };
    const float odd[] = {0,     -0.f,        1e-30f, -1e-10f, 0.625f,   0.62499994f,
                         -5.5f, -5.5000005f, -20,    1e30f,   INFINITY, NAN};
    static float x[COUNT], y[COUNT];
    yoke_context *context;
    yoke_team *team;
    yoke_replica *replica;
    yoke_graph *g;

    SKIP_ON_SIMULATOR;
    for (int i = 0; i < SWEEP; i++)
        x[i] = (float)(i - SWEEP / 2) * 0.0051f;
    memcpy(x + SWEEP, odd, sizeof odd);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(g, "y",
                          build(g, yoke_input(g, "x", YOKE_F32, yoke_shape()), (int)ours[_i]));
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_team_create(context, test_selector(), NULL, &team));
    ASSERT_OK(yoke_replica_create(yoke_team_get_device(team, 0), g,
                                  &(yoke_replica_options){.batch = COUNT, .evaluation_only = true},
                                  &replica));
    ASSERT_OK(yoke_replica_set_input(replica, COUNT, yoke_feed_f32("x", x, COUNT)));
    ASSERT_OK(yoke_replica_evaluate(replica, COUNT));
    ASSERT_OK(yoke_replica_read_output(replica, "y", y, COUNT));
    for (int i = 0; i < COUNT; i++) {
        double v = (double)x[i];
        double right = right_value(ours[_i], v);
        /* gelu has the distribution as a factor, which is as exact as 1, and not nothing where it
         * is small. */
        bool gelu = ours[_i] == YKI_UNARY_GELU || ours[_i] == YKI_UNARY_GELU_TANH;
        double scale = gelu ? fabs(v) : fabs(right);

        if (gelu && v > -5 && v < 0)
            scale = fmin(scale, 40 * fabs(right));

        if (isnan(v) ? !isnan(y[i])
                     : (double)y[i] != right && !(fabs((double)y[i] - right) <= 2.4e-7 * scale))
            ck_abort_msg("of %.9g: %.9g, not %.9g", v, (double)y[i], right);
    }
    yoke_replica_destroy(replica);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(unary_refuses_a_wrong_number)
{
    const float numbers[] = {-0.5f, NAN};

    for (size_t i = 0; i < YKI_COUNT(numbers); i++) {
#undef NUMBER
#define NUMBER(kind, id, name, from_result, flops, number)                                         \
    {                                                                                              \
        yoke_graph *g;                                                                             \
                                                                                                   \
        ASSERT_OK(yoke_graph_create(&g));                                                          \
        yoke_##name(g, yoke_input(g, "x", YOKE_F32, yoke_shape()), numbers[i]);                    \
        if (from_result || isnan(numbers[i]))                                                      \
            ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_status(g));                                 \
        else                                                                                       \
            ASSERT_OK(yoke_graph_status(g));                                                       \
        yoke_graph_destroy(g);                                                                     \
    }
        YKI_UNARY_NUMBER(NUMBER)
    }
}
END_TEST

/* Padding lanes hold any finite number, and must stay finite. */
START_TEST(functions_that_may_be_infinite_take_plain_tensors)
{
    bool finite = _i != YKI_UNARY_EXP && !of_positive(_i);
    yki_device_traits traits = {0};
    yki_problem problem;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    yki_problem_of_node(build(g, yoke_input(g, "x", YOKE_F32, yoke_shape(5, 3)), _i),
                        (yki_extents){.batch = 2}, &problem);
    ck_assert(yki_solver_unary.applies(&problem, &traits));
    problem.in[0].layout.block = problem.out.layout.block = 16;
    ck_assert_int_eq(yki_solver_unary.applies(&problem, &traits), finite);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("unary");
    TCase *tcase = test_case(suite, "unary");

    tcase_add_loop_test(tcase, unary_matches_oracle, 0, YKI_UNARY_KINDS);
    tcase_add_loop_test(tcase, ours_are_right_everywhere, 0, (int)YKI_COUNT(ours));
    tcase_add_test(tcase, unary_refuses_a_wrong_number);
    tcase_add_loop_test(tcase, functions_that_may_be_infinite_take_plain_tensors, 0,
                        YKI_UNARY_KINDS);
    return suite;
}
