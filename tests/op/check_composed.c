/* SPDX-License-Identifier: Apache-2.0
 *
 * check_composed.c - layers that are made of others: their values by formula, and the gradients of
 * their parts against differences, on each device.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { N = 2, C = 4, H = 3, W = 5, PLANE = H * W, SIZE = C * PLANE };

/* The node's values for N samples, in double, with parameters as they are given; x is the first
 * node. */
static double *
values_of(yoke_graph *g, const yoke_node *y, const double *x, const double *weight,
          const double *bias)
{
    const yki_step_values step = {.step = 1};
    double **values = calloc(g->node_count, sizeof *values), *result;

    for (size_t i = 0; i < g->node_count; i++) {
        const yoke_node *node = g->nodes[i];
        const double *given = strstr(node->name, ".weight") ? weight : bias;
        const int64_t count = op_value_count(node, N);

        if (node->op)
            continue;
        values[i] = calloc((size_t)count, sizeof **values);
        for (int64_t k = 0; k < count; k++)
            values[i][k] = i == 0                  ? x[k]
                           : yki_is_constant(node) ? (double)((const float *)node->data)[k]
                                                   : given[k];
    }
    op_evaluate(g, g->node_count, N, &step, values);
    result = values[y->id];
    for (size_t i = 0; i < g->node_count; i++)
        if (i != y->id)
            free(values[i]);
    free(values);
    return result;
}

static void
fill(double *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = op_normal(seed, 0, i);
}

static yoke_graph *
begin(yoke_shape shape, yoke_node **x)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    *x = yoke_input(g, "x", YOKE_F32, shape);
    return g;
}

static void
expect(const double *got, const double *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs(got[i] - wanted[i]) < 1e-6, "value %zu: %g instead of %g", i, got[i],
                      wanted[i]);
}

START_TEST(conv1d_is_a_sum_of_products)
{
    enum { L = 9, FILTERS = 6, KERNEL = 3, GROUPS = 2, OUT = 4 };
    const yoke_conv1d_options o = {
        .filters = FILTERS, .kernel = KERNEL, .stride = 2, .pad = 1, .dilation = 2, .groups = 2};
    double x[N * C * L], w[FILTERS * C / GROUPS * KERNEL], b[FILTERS], y[N * FILTERS * OUT] = {0};
    yoke_node *in, *out;
    yoke_graph *g = begin(yoke_shape(C, L), &in);
    double *got;

    out = yoke_conv1d(g, in, &o);
    ASSERT_OK(yoke_graph_status(g));
    ck_assert(yki_shape_equal(out->shape, yoke_shape(FILTERS, OUT)));
    fill(x, YKI_COUNT(x), 1);
    fill(w, YKI_COUNT(w), 2);
    fill(b, YKI_COUNT(b), 3);
    for (int n = 0; n < N; n++)
        for (int f = 0; f < FILTERS; f++)
            for (int p = 0; p < OUT; p++) {
                double *sum = &y[(n * FILTERS + f) * OUT + p];

                *sum = b[f];
                for (int c = 0; c < C / GROUPS; c++)
                    for (int k = 0; k < KERNEL; k++) {
                        const int at = p * 2 - 1 + k * 2, channel = f / (FILTERS / GROUPS) * 2 + c;

                        if (at >= 0 && at < L)
                            *sum += w[(f * (C / GROUPS) + c) * KERNEL + k] *
                                    x[(n * C + channel) * L + at];
                    }
            }
    got = values_of(g, out, x, w, b);
    expect(got, y, YKI_COUNT(y));
    free(got);
    op_check_graph(g, out, NULL);
}
END_TEST

START_TEST(group_norm_normalises_groups)
{
    const int groups[] = {1, 2, C}, count = groups[_i], row = SIZE / count;
    double x[N * SIZE], w[C], b[C], y[N * SIZE];
    yoke_node *in, *out;
    yoke_graph *g = begin(yoke_shape(C, H, W), &in);
    double *got;

    out = yoke_group_norm(g, in, &(yoke_group_norm_options){.groups = count, .epsilon = 0.01f});
    ASSERT_OK(yoke_graph_status(g));
    ck_assert(yki_shape_equal(out->shape, in->shape));
    ck_assert_ptr_nonnull(yoke_graph_get_node(g, "gn1.weight"));
    fill(x, YKI_COUNT(x), 1);
    fill(w, C, 2);
    fill(b, C, 3);
    for (int k = 0; k < N * count; k++) {
        double mean = 0, square = 0;

        for (int i = 0; i < row; i++)
            mean += x[k * row + i] / row;
        for (int i = 0; i < row; i++)
            square += (x[k * row + i] - mean) * (x[k * row + i] - mean) / row;
        for (int i = k * row; i < (k + 1) * row; i++)
            y[i] =
                (x[i] - mean) / sqrt(square + (double)0.01f) * w[i / PLANE % C] + b[i / PLANE % C];
    }
    got = values_of(g, out, x, w, b);
    expect(got, y, YKI_COUNT(y));
    free(got);
    op_check_graph(g, out, NULL);
}
END_TEST

START_TEST(prelu_multiplies_what_is_negative)
{
    double x[N * SIZE], w[C], y[N * SIZE];
    yoke_node *in, *out;
    yoke_graph *g = begin(yoke_shape(C, H, W), &in);
    double *got;

    out = yoke_prelu(g, in, "own");
    ASSERT_OK(yoke_graph_status(g));
    fill(x, YKI_COUNT(x), 1);
    fill(w, C, 2);
    for (int i = 0; i < N * SIZE; i++)
        y[i] = x[i] < 0 ? x[i] * w[i / PLANE % C] : x[i];
    ck_assert_float_eq(yoke_graph_get_node(g, "own.weight")->initializer.a, 0.25f);
    got = values_of(g, out, x, w, NULL);
    expect(got, y, YKI_COUNT(y));
    free(got);
    op_check_graph(g, out, NULL);
}
END_TEST

/* Between the centres of the two elements around a place; beyond them there is one. */
static double
between(const double *line, int size, int step, int factor, int at)
{
    double place = (at + 0.5) / factor - 0.5, low = fmax(floor(place), 0);
    int next = (int)fmin(low + 1, size - 1);

    place = fmax(place, 0);
    return line[(int)low * step] * (1 - (place - low)) + line[next * step] * (place - low);
}

START_TEST(upsampling_fills_in)
{
    enum { ROWS = 2, COLUMNS = 3, OUT = SIZE * ROWS * COLUMNS };
    const bool bilinear = _i != 0;
    double x[N * SIZE], y[N * OUT];
    yoke_node *in, *out;
    yoke_graph *g = begin(yoke_shape(C, H, W), &in);
    double *got;

    out = yoke_upsample2d(g, in, ROWS, COLUMNS, bilinear);
    ASSERT_OK(yoke_graph_status(g));
    ck_assert(yki_shape_equal(out->shape, yoke_shape(C, H * ROWS, W * COLUMNS)));
    fill(x, YKI_COUNT(x), 1);
    for (int p = 0; p < N * C; p++)
        for (int i = 0; i < H * ROWS; i++)
            for (int k = 0; k < W * COLUMNS; k++) {
                const double *plane = x + p * PLANE;
                double *to = &y[(p * H * ROWS + i) * W * COLUMNS + k], row[W];

                for (int c = 0; c < W; c++)
                    row[c] = between(plane + c, H, W, ROWS, i);
                *to = bilinear ? between(row, W, 1, COLUMNS, k) : plane[i / ROWS * W + k / COLUMNS];
            }
    got = values_of(g, out, x, NULL, NULL);
    expect(got, y, YKI_COUNT(y));
    free(got);
    op_check_graph(g, out, NULL);
}
END_TEST

/* A plan computes all of them together, of a graph that was written and read; a file has no other
 * operators, and the constants. */
START_TEST(plans_compute_what_is_composed)
{
    static float x[N * SIZE], t[N * 3];
    const yoke_replica_options options = {
        .batch = N, .level = YOKE_PLAN_ESTIMATE, .optimizer = yoke_sgd(0.02f, 0)};
    double first = 0, sum, count;
    yoke_selection *selection;
    yoke_context *context;
    yoke_replica *replica;
    yoke_graph *made, *g;
    yoke_node *y;
    char *text;

    SKIP_ON_SIMULATOR;
    made = begin(yoke_shape(C, H, W), &y);
    y = yoke_prelu(made, yoke_group_norm(made, y, &(yoke_group_norm_options){.groups = 2}), NULL);
    y = yoke_upsample2d(made, yoke_upsample2d(made, y, 2, 1, true), 1, 2, false);
    y = yoke_reshape(made, y, yoke_shape(C, 2 * PLANE * 2));
    y = yoke_conv1d(made, y, &(yoke_conv1d_options){.filters = 3, .kernel = 5, .stride = 3});
    y = yoke_mean(made, y, (const int32_t[]){1}, 1);
    yoke_graph_set_loss(made, yoke_mean_squared_error(
                                  made, y, yoke_target(made, "t", YOKE_F32, yoke_shape(3)), NULL));
    ASSERT_OK(yoke_graph_to_json(made, &text));
    ASSERT_OK(yoke_graph_from_json(text, strlen(text), &g));
    yoke_free(text);
    for (int i = 0; i < N * SIZE; i++)
        x[i] = (float)op_normal(4, 0, (uint64_t)i);
    for (int i = 0; i < N * 3; i++)
        t[i] = (float)op_normal(5, 0, (uint64_t)i);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    ASSERT_OK(yoke_replica_create(yoke_selection_get(selection, 0), g, &options, &replica));
    ASSERT_OK(yoke_replica_set_input(replica, N, yoke_feed_f32("x", x, N * SIZE)));
    ASSERT_OK(yoke_replica_set_input(replica, N, yoke_feed_f32("t", t, N * 3)));
    for (int i = 0; i < 20; i++) {
        ASSERT_OK(yoke_replica_forward(replica, N));
        ASSERT_OK(yoke_replica_backward(replica));
        ASSERT_OK(yoke_replica_update(replica, 1));
        ASSERT_OK(yoke_replica_read_loss(replica, &sum, &count));
        first = i ? first : sum;
    }
    ck_assert_msg(sum < 0.9 * first, "the loss went from %g to %g", first, sum);
    yoke_replica_destroy(replica);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    yoke_graph_destroy(made);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(composed_layers_name_what_does_not_fit)
{
    yoke_node *x;
    yoke_graph *g = begin(yoke_shape(C, H, W), &x);

    yoke_conv1d(g, x, &(yoke_conv1d_options){.filters = 1, .kernel = 1});
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("conv1d: the input \"x\" has shape (4, 3, 5); must be (channels, length)");
    yoke_graph_destroy(g);
    g = begin(yoke_shape(C, H, W), &x);
    yoke_group_norm(g, x, &(yoke_group_norm_options){.groups = 3});
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_status(g));
    ASSERT_DETAIL("gn1: groups is 3; must divide 4, the number of channels");
    yoke_graph_destroy(g);
    g = begin(yoke_shape(C, H, W), &x);
    yoke_upsample2d(g, x, 2, 0, false);
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_status(g));
    ASSERT_DETAIL("upsample1: the factor is 0; must be between 1 and 64");
    yoke_graph_destroy(g);
    g = begin(yoke_shape(), &x);
    yoke_prelu(g, x, NULL);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("composed");
    TCase *tcase = test_case(suite, "composed");

    tcase_add_test(tcase, conv1d_is_a_sum_of_products);
    tcase_add_loop_test(tcase, group_norm_normalises_groups, 0, 3);
    tcase_add_test(tcase, prelu_multiplies_what_is_negative);
    tcase_add_loop_test(tcase, upsampling_fills_in, 0, 2);
    tcase_add_test(tcase, plans_compute_what_is_composed);
    tcase_add_test(tcase, composed_layers_name_what_does_not_fit);
    return suite;
}
