/* SPDX-License-Identifier: Apache-2.0
 *
 * check_winograd.c - Winograd's convolutions: that the matrices are those of the
 * five points, exactly, and that the solvers hold to the oracle where tiles do not
 * divide the image, channels do not fill blocks, and blocks of tiles are partial.
 *
 * What fits tiles so small that simulators can run it, with several blocks of
 * channels, is more than their usual limit of operations.
 */
#include <string.h>

#include "harness.h"

/* ---- the matrices, in rational numbers ---- */

typedef struct rational {
    int64_t over, under;
} rational;

static rational
reduced(int64_t over, int64_t under)
{
    int64_t a = over < 0 ? -over : over, b = under < 0 ? -under : under;

    while (b) {
        int64_t t = a % b;

        a = b;
        b = t;
    }
    if (under < 0)
        a = -a;
    return (rational){over / a, under / a};
}

static rational
plus(rational a, rational b)
{
    return reduced(a.over * b.under + b.over * a.under, a.under * b.under);
}

static rational
times(rational a, rational b)
{
    return reduced(a.over * b.over, a.under * b.under);
}

static rational
over(rational a, rational b)
{
    return reduced(a.over * b.under, a.under * b.over);
}

static const rational zero = {0, 1}, one = {1, 1};
static const rational points[5] = {{0, 1}, {1, 1}, {-1, 1}, {1, 2}, {-2, 1}};

/* The coefficients of the product of (x - point) over all points but `except`. */
static void
product_of_points(int except, rational *c)
{
    int degree = 0;

    for (int i = 0; i < 6; i++)
        c[i] = i ? zero : one;
    for (int p = 0; p < 5; p++) {
        rational root = points[p];

        if (p == except)
            continue;
        root.over = -root.over;
        degree++;
        for (int i = degree; i >= 0; i--)
            c[i] = plus(times(root, c[i]), i ? c[i - 1] : zero);
    }
}

static rational
power(rational x, int n)
{
    rational y = one;

    while (n-- > 0)
        y = times(y, x);
    return y;
}

/* Results y[i] = sum over k of d[i + k] g[k] for `taps` taps and 7 - taps results, as a tensor in
 * (i, k, position in d), must be 1 where position == i + k and else 0, exactly. */
static void
check_identity(int taps)
{
    rational bt[6][6], g[6][4], at[4][6];

    for (int e = 0; e < 6; e++) {
        rational f = zero;

        product_of_points(e, bt[e]); /* e == 5 excepts none */
        for (int i = 0; e < 5 && i < 6; i++)
            f = plus(f, times(bt[e][i], power(points[e], i)));
        for (int k = 0; k < taps; k++)
            g[e][k] = e < 5 ? over(power(points[e], k), f) : k == taps - 1 ? one : zero;
        for (int i = 0; i < 7 - taps; i++)
            at[i][e] = e < 5 ? power(points[e], i) : i == 6 - taps ? one : zero;
    }
    for (int i = 0; i < 7 - taps; i++)
        for (int k = 0; k < taps; k++)
            for (int p = 0; p < 6; p++) {
                rational sum = zero;

                for (int e = 0; e < 6; e++)
                    sum = plus(sum, times(at[i][e], times(g[e][k], bt[e][p])));
                ck_assert_msg(sum.over == (p == i + k) && sum.under == 1,
                              "taps %d: result %d, tap %d, input %d: %lld/%lld", taps, i, k, p,
                              (long long)sum.over, (long long)sum.under);
            }
}

START_TEST(points_give_convolutions)
{
    /* As they stand in clkernels/winograd.cl, over 2. */
    static const int bt[6][6] = {{2, -3, -4, 3, 2, 0}, {0, -2, 1, 5, 2, 0},  {0, 2, -5, 1, 2, 0},
                                 {0, -4, -2, 4, 2, 0}, {0, 1, -2, -1, 2, 0}, {0, 2, -3, -4, 3, 2}};

    for (int e = 0; e < 6; e++) {
        rational c[6];

        product_of_points(e, c);
        for (int i = 0; i < 6; i++)
            ck_assert_int_eq(c[i].over * 2, bt[e][i] * c[i].under);
    }
    check_identity(3);
    check_identity(4);
}
END_TEST

/* ---- the solvers ---- */

typedef struct shape_case {
    int64_t c, h, w, filters, pad[2], batch;
    bool no_bias, relu;
} shape_case;

static const shape_case cases[] = {
    /* small enough for simulators: one tile, partial tiles, pads of 0 to 2 */
    {.c = 16, .h = 4, .w = 4, .filters = 16, .pad = {1, 1}, .batch = 2},
    {.c = 17, .h = 5, .w = 6, .filters = 19, .batch = 2, .relu = true},
    {.c = 16, .h = 3, .w = 7, .filters = 33, .pad = {1, 1}, .batch = 2, .no_bias = true},
    {.c = 18, .h = 6, .w = 2, .filters = 16, .pad = {0, 2}, .batch = 3, .relu = true},
    /* tiles that fill a block, and leave one, two and three thirds of one */
    {.c = 20, .h = 11, .w = 14, .filters = 40, .pad = {1, 1}, .batch = 5},
    {.c = 33, .h = 14, .w = 14, .filters = 17, .pad = {2, 1}, .batch = 7, .relu = true},
    {.c = 48, .h = 7, .w = 7, .filters = 48, .pad = {1, 1}, .batch = 13, .no_bias = true},
    {.c = 16, .h = 17, .w = 31, .filters = 16, .pad = {0, 1}, .batch = 2},
    /* more tiles than are transformed together, input channels in several chunks */
    {.c = 16, .h = 28, .w = 27, .filters = 20, .pad = {1, 1}, .batch = 3, .relu = true},
    {.c = 70, .h = 6, .w = 5, .filters = 81, .pad = {1, 1}, .batch = 40},
    /* layers of a ResNet */
    {.c = 64, .h = 12, .w = 16, .filters = 64, .pad = {1, 1}, .batch = 2, .no_bias = true},
    {.c = 128, .h = 8, .w = 8, .filters = 96, .pad = {1, 1}, .batch = 5},
    {.c = 256, .h = 4, .w = 4, .filters = 256, .pad = {1, 1}, .batch = 9, .no_bias = true},
};

/* For groups whose work-items run side by side: from 32 channels and 16 tiles on. */
static const shape_case tile_cases[] = {
    /* small enough for simulators: partial tiles, pads of 0 to 2, channels that fill no block */
    {.c = 33, .h = 5, .w = 6, .filters = 40, .pad = {1, 1}, .batch = 5, .relu = true},
    {.c = 32, .h = 4, .w = 8, .filters = 34, .pad = {1, 1}, .batch = 9, .no_bias = true},
    {.c = 24, .h = 6, .w = 2, .filters = 48, .pad = {0, 2}, .batch = 20, .relu = true},
    /* rows of one and of several vectors, tiles in several blocks, splits of a sum over them */
    {.c = 40, .h = 13, .w = 10, .filters = 36, .pad = {2, 0}, .batch = 4},
    {.c = 70, .h = 4, .w = 4, .filters = 130, .pad = {1, 1}, .batch = 67, .no_bias = true},
    {.c = 34, .h = 28, .w = 27, .filters = 33, .pad = {0, 1}, .batch = 5, .relu = true},
};

static void
check_case(const shape_case *c, const char *only, int64_t simulator_flops)
{
    yoke_conv2d_options o = {.filters = c->filters, .kernel = {3, 3}, .no_bias = c->no_bias};
    yoke_graph *g;
    yoke_node *y;

    memcpy(o.pad, c->pad, sizeof o.pad);
    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_conv2d(g, yoke_input(g, "x", YOKE_F32, yoke_shape(c->c, c->h, c->w)), &o);
    ck_assert_ptr_nonnull(y);
    if (c->relu)
        op_set_relu(y);
    op_check_graph(g, y,
                   &(op_check_options){.batch = c->batch,
                                       .no_differences = true,
                                       .only = only,
                                       .simulator_flops = simulator_flops});
}

START_TEST(winograd_matches_oracle)
{
    check_case(&cases[_i], "winograd", 1000000);
}
END_TEST

START_TEST(tiles_match_oracle)
{
    check_case(&tile_cases[_i], "winograd4-tiles", 5000000);
}
END_TEST

/* A transposed convolution has a bias and an activation in the gradient of the input. */
START_TEST(transposed_matches_oracle)
{
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_conv_transpose2d(
        g, yoke_input(g, "x", YOKE_F32, yoke_shape(16, 6, 5)),
        &(yoke_conv_transpose2d_options){.filters = 18, .kernel = {3, 3}, .pad = {1, 0}});
    ck_assert_ptr_nonnull(y);
    op_set_relu(y);
    op_check_graph(
        g, y,
        &(op_check_options){
            .batch = 3, .no_differences = true, .only = "winograd", .simulator_flops = 1000000});
}
END_TEST

static bool
any_applies(const yoke_node *node)
{
    yki_device_traits traits = {
        .type = YOKE_DEVICE_CPU, .vector_width = 16, .compute_units = 2, .cache = 32 << 20};

    for (const yki_solver *const *s = yki_solvers; *s; s++) {
        yki_problem problem;

        if (*(*s)->op != node->op || !strstr((*s)->name, "winograd"))
            continue;
        ck_assert_int_eq((*s)->numerical_class, YKI_CLASS_WINOGRAD4);
        yki_problem_of_node(node, (yki_extents){.batch = 8}, &problem);
        if ((!(*s)->layouts || (*s)->layouts(&problem, &traits, 0)) &&
            (*s)->applies(&problem, &traits))
            return true;
    }
    return false;
}

START_TEST(only_what_it_can_do)
{
    const struct {
        yoke_conv2d_options options;
        int64_t c, size;
        bool expected;
    } list[] = {
        {{.filters = 16, .kernel = {3, 3}, .pad = {1, 1}}, 16, 8, true},
        {{.filters = 16, .kernel = {3, 3}}, 16, 6, true},
        {{.filters = 16, .kernel = {3, 3}, .stride = {1, 2}, .pad = {1, 1}}, 16, 8, false},
        {{.filters = 16, .kernel = {3, 3}, .dilation = {2, 1}, .pad = {1, 1}}, 16, 8, false},
        {{.filters = 16, .kernel = {3, 3}, .groups = 2, .pad = {1, 1}}, 32, 8, false},
        {{.filters = 16, .kernel = {3, 1}, .pad = {1, 1}}, 16, 8, false},
        {{.filters = 16, .kernel = {3, 3}, .pad = {3, 1}}, 16, 8, false},
        {{.filters = 16, .kernel = {3, 3}, .pad = {1, 1}}, 15, 8, false},
        {{.filters = 15, .kernel = {3, 3}, .pad = {1, 1}}, 16, 8, false},
        {{.filters = 16, .kernel = {3, 3}, .pad = {1, 1}}, 16, 2, false},
    };

    for (size_t i = 0; i < YKI_COUNT(list); i++) {
        yoke_graph *g;
        yoke_node *y;

        ASSERT_OK(yoke_graph_create(&g));
        y = yoke_conv2d(
            g, yoke_input(g, "x", YOKE_F32, yoke_shape(list[i].c, list[i].size, list[i].size)),
            &list[i].options);
        ck_assert_ptr_nonnull(y);
        ck_assert_msg(any_applies(y) == list[i].expected, "case %zu", i);
        yoke_graph_destroy(g);
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("winograd");
    TCase *tcase = test_case(suite, "winograd");

    tcase_add_test(tcase, points_give_convolutions);
    tcase_add_loop_test(tcase, winograd_matches_oracle, 0, (int)YKI_COUNT(cases));
    tcase_add_loop_test(tcase, tiles_match_oracle, 0, (int)YKI_COUNT(tile_cases));
    tcase_add_test(tcase, transposed_matches_oracle);
    tcase_add_test(tcase, only_what_it_can_do);
    return suite;
}
