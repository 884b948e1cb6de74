/* SPDX-License-Identifier: Apache-2.0
 *
 * check_long.c - problems so large that a work-item would make more turns of its loops than
 * some devices let it: there it ends early, with no error and wrong results (llvmpipe: 65535).
 * Solvers share such work among more work-items, or do not apply.
 */
#include "harness.h"

static const op_check_options large = {
    .batch = 1, .no_differences = true, .whole = true, .targets = "t"};

static yoke_graph *
new_graph(void)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    return g;
}

START_TEST(products)
{
    static const struct {
        int64_t m, n, k;
    } cases[] = {{300, 300, 300}, {8, 8, 70000}};
    yoke_graph *g = new_graph();
    yoke_node *a = yoke_input(g, "a", YOKE_F32, yoke_shape(cases[_i].m, cases[_i].k));
    yoke_node *b = yoke_input(g, "b", YOKE_F32, yoke_shape(cases[_i].k, cases[_i].n));

    op_check_graph(g, yoke_matmul(g, a, b, NULL), &large);
}
END_TEST

/* The sums of its weights' gradient are long. */
START_TEST(convolutions)
{
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(1, 300, 300));
    yoke_conv2d_options options = {.filters = 2, .kernel = {3, 3}};
    op_check_options two = large;

    two.batch = 2;
    op_check_graph(g, yoke_conv2d(g, x, &options), &two);
}
END_TEST

/* A result of very many numbers: right, or refused. */
START_TEST(sums)
{
    enum { SIZE = 300 };
    yoke_graph *g = new_graph();
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(1, SIZE, SIZE)), *y = NULL, *t;
    yoke_pool2d_options whole = {.kernel = {SIZE, SIZE}};
    int32_t axes[] = {1, 2};
    op_check_options options = large;

    switch (_i) {
    case 0:
        y = yoke_sum(g, x, axes, 2);
        break;
    case 1:
        y = yoke_global_avgpool(g, x);
        break;
    case 2:
        y = yoke_maxpool2d(g, x, &whole);
        break;
    case 3:
        y = yoke_avgpool2d(g, x, &whole);
        break;
    case 4:
        t = yoke_input(g, "t", YOKE_F32, yoke_node_shape(x));
        y = yoke_mean_squared_error(g, x, t, NULL);
        break;
    case 5:
        y = yoke_embedding(g, yoke_input(g, "place", YOKE_I32, yoke_shape(70000)),
                           &(yoke_embedding_options){.rows = 10, .width = 3});
        break;
    }
    options.may_be_refused = true;
    op_check_graph(g, y, &options);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("long");
    TCase *tcase = test_case(suite, "long");

    tcase_add_loop_test(tcase, products, 0, 2);
    tcase_add_test(tcase, convolutions);
    tcase_add_loop_test(tcase, sums, 0, 6);
    return suite;
}
