/* SPDX-License-Identifier: Apache-2.0
 *
 * check_winograd5x5.c - 5x5 convolutions by Winograd: that the matrices are those of the
 * points, exactly, and that the solvers hold to the oracle where tiles do not divide the
 * image, channels do not fill blocks, and windows reach beyond the image.
 */
#include <string.h>

#include "harness.h"

/* ---- the matrices; everything here is exact in double ---- */

enum { N = 7, TAPS = 5, RESULTS = 3 };

static const double points[N - 1] = {0, 1, -1, 2, -2, .5};

/* The coefficients of the product of (x - point) over all points but `except`. */
static void
product_of_points(int except, double *c)
{
    memset(c, 0, N * sizeof *c);
    c[0] = 1;
    for (int p = 0; p < N - 1; p++)
        for (int i = N - 1; i >= 0 && p != except; i--)
            c[i] = (i ? c[i - 1] : 0) - points[p] * c[i];
}

static double
power(double x, int n)
{
    return n ? x * power(x, n - 1) : 1;
}

/* Results y[i] = sum over k of d[i + k] g[k], as a tensor in (i, k, position in d), must be 1 where
 * position == i + k and else 0. Its transposes are then the gradients. */
START_TEST(points_give_convolutions)
{
    /* As they stand in clkernels/winograd5x5.cl: BT times 2, and 180 / f. */
    static const double bt[N][N] = {{-4, 8, 5, -10, -1, 2, 0}, {0, 4, -4, -9, 1, 2, 0},
                                    {0, -4, 12, -7, -3, 2, 0}, {0, 2, -3, -4, 3, 2, 0},
                                    {0, -2, 5, 0, -5, 2, 0},   {0, 8, 0, -10, 0, 2, 0},
                                    {0, -4, 8, 5, -10, -1, 2}};
    static const double scales[N] = {-90, -60, 20, 5, -3, 128, 180};
    double g[N][TAPS], at[RESULTS][N];

    for (int e = 0; e < N; e++) {
        double c[N], f = 0;

        product_of_points(e, c); /* the last one excepts none */
        for (int i = 0; i < N; i++) {
            ck_assert_double_eq(2 * c[i], bt[e][i]);
            f += e < N - 1 ? c[i] * power(points[e], i) : 0;
        }
        ck_assert_double_eq(scales[e] * (e < N - 1 ? f : 1), 180);
        for (int k = 0; k < TAPS; k++)
            g[e][k] = scales[e] * (e < N - 1 ? power(points[e], k) : k == TAPS - 1);
        for (int i = 0; i < RESULTS; i++)
            at[i][e] = e < N - 1 ? power(points[e], i) : i == RESULTS - 1;
    }
    for (int i = 0; i < RESULTS; i++)
        for (int k = 0; k < TAPS; k++)
            for (int p = 0; p < N; p++) {
                double sum = 0;

                for (int e = 0; e < N; e++)
                    sum += at[i][e] * g[e][k] * bt[e][p];
                ck_assert_msg(sum == (p == i + k ? 360 : 0), "result %d, tap %d, input %d: %g", i,
                              k, p, sum / 360);
            }
}
END_TEST

/* ---- the solvers ---- */

typedef struct shape_case {
    int64_t c, h, w, filters, pad[2], batch;
    bool no_bias, relu;
} shape_case;

static const shape_case cases[] = {
    /* small enough for simulators: one tile, partial tiles, pads */
    {.c = 8, .h = 7, .w = 7, .filters = 8, .batch = 2},
    {.c = 9, .h = 5, .w = 6, .filters = 17, .pad = {1, 2}, .batch = 2, .relu = true},
    {.c = 16, .h = 2, .w = 3, .filters = 8, .pad = {2, 4}, .batch = 3, .no_bias = true},
    /* LeNet */
    {.c = 20, .h = 13, .w = 13, .filters = 50, .batch = 7, .relu = true},
    /* pads on all sides, tiles beyond the image; one, two and three blocks of channels */
    {.c = 16, .h = 9, .w = 7, .filters = 16, .pad = {2, 2}, .batch = 5},
    {.c = 33, .h = 8, .w = 11, .filters = 40, .pad = {2, 1}, .batch = 3, .relu = true},
    {.c = 12, .h = 14, .w = 12, .filters = 35, .pad = {3, 2}, .batch = 4, .no_bias = true},
    /* sums in many chunks; many channels */
    {.c = 10, .h = 27, .w = 26, .filters = 24, .pad = {2, 2}, .batch = 6},
    {.c = 96, .h = 9, .w = 9, .filters = 128, .pad = {2, 2}, .batch = 3},
    {.c = 256, .h = 4, .w = 5, .filters = 24, .pad = {2, 2}, .batch = 3},
    {.c = 24, .h = 6, .w = 6, .filters = 256, .pad = {2, 2}, .batch = 3},
};

static const op_check_options check = {
    .no_differences = true, .only = "winograd5x5", .simulator_flops = 1000000};

START_TEST(solvers_match_oracle)
{
    const shape_case *c = &cases[_i];
    yoke_conv2d_options o = {.filters = c->filters, .kernel = {5, 5}, .no_bias = c->no_bias};
    op_check_options options = check;
    yoke_graph *g;
    yoke_node *y;

    memcpy(o.pad, c->pad, sizeof o.pad);
    options.batch = c->batch;
    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_conv2d(g, yoke_input(g, "x", YOKE_F32, yoke_shape(c->c, c->h, c->w)), &o);
    ck_assert_ptr_nonnull(y);
    if (c->relu)
        op_set_relu(y);
    op_check_graph(g, y, &options);
}
END_TEST

/* A transposed convolution has a bias and an activation in the gradient of the input. */
START_TEST(transposed_matches_oracle)
{
    op_check_options options = check;
    yoke_graph *g;
    yoke_node *y;

    options.batch = 3;
    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_conv_transpose2d(
        g, yoke_input(g, "x", YOKE_F32, yoke_shape(9, 4, 5)),
        &(yoke_conv_transpose2d_options){.filters = 18, .kernel = {5, 5}, .pad = {1, 0}});
    ck_assert_ptr_nonnull(y);
    op_set_relu(y);
    op_check_graph(g, y, &options);
}
END_TEST

static bool
applies(const yoke_node *node)
{
    const yki_device_traits traits = {
        .type = YOKE_DEVICE_CPU, .vector_width = 16, .compute_units = 2, .cache = 32 << 20};

    for (const yki_solver *const *s = yki_solvers; *s; s++) {
        yki_problem problem;

        if (*(*s)->op != node->op || !strstr((*s)->name, "winograd5x5"))
            continue;
        ck_assert((*s)->numerical_class != YKI_CLASS_DIRECT);
        yki_problem_of_node(node, (yki_extents){.batch = 8}, &problem);
        return (*s)->layouts(&problem, &traits, 0) && (*s)->applies(&problem, &traits);
    }
    ck_abort_msg("no such solver");
    return false;
}

START_TEST(only_what_it_can_do)
{
    const struct {
        yoke_conv2d_options options;
        int64_t c, size;
        bool expected;
    } list[] = {
        {{.filters = 16, .kernel = {5, 5}, .pad = {2, 2}}, 16, 9, true},
        {{.filters = 16, .kernel = {5, 5}, .stride = {1, 2}, .pad = {2, 2}}, 16, 9, false},
        {{.filters = 16, .kernel = {5, 5}, .dilation = {2, 1}, .pad = {2, 2}}, 16, 9, false},
        {{.filters = 16, .kernel = {5, 5}, .groups = 2, .pad = {2, 2}}, 32, 9, false},
        {{.filters = 16, .kernel = {5, 3}, .pad = {2, 1}}, 16, 9, false},
        {{.filters = 16, .kernel = {5, 5}, .pad = {5, 2}}, 16, 9, false},
        {{.filters = 16, .kernel = {5, 5}, .pad = {2, 2}}, 7, 9, false},
        {{.filters = 257, .kernel = {5, 5}, .pad = {2, 2}}, 16, 9, false},
        {{.filters = 16, .kernel = {5, 5}, .pad = {2, 2}}, 16, 1, false},
    };

    for (size_t i = 0; i < YKI_COUNT(list); i++) {
        yoke_graph *g;
        yoke_node *y;

        ASSERT_OK(yoke_graph_create(&g));
        y = yoke_conv2d(
            g, yoke_input(g, "x", YOKE_F32, yoke_shape(list[i].c, list[i].size, list[i].size)),
            &list[i].options);
        ck_assert_ptr_nonnull(y);
        ck_assert_msg(applies(y) == list[i].expected, "case %zu", i);
        yoke_graph_destroy(g);
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("winograd5x5");
    TCase *tcase = test_case(suite, "winograd5x5");

    tcase_add_test(tcase, points_give_convolutions);
    tcase_add_loop_test(tcase, solvers_match_oracle, 0, (int)YKI_COUNT(cases));
    tcase_add_test(tcase, transposed_matches_oracle);
    tcase_add_test(tcase, only_what_it_can_do);
    return suite;
}
