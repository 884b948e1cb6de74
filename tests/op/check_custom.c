/* SPDX-License-Identifier: Apache-2.0
 *
 * check_custom.c - operators of a user's own: against oracles given here, in a plan,
 * and what becomes of sources and shapes that are wrong.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/custom/custom.h"
#include "oracles.h"

/* y = x^2 w where k is even, else x; w serves all samples. */
static const char gate_source[] =
    "__kernel __attribute__((reqd_work_group_size(YOKE_GROUP, 1, 1))) void\n"
    "gate_forward(__global const float *x, __global const float *w, __global const int *k,\n"
    "             __global float *y, int n, int nx, int nw, int nk, int ny)\n"
    "{\n"
    "    for (int i = get_global_id(0); i < n * ny; i += get_global_size(0))\n"
    "        y[i] = k[i] & 1 ? x[i] : x[i] * x[i] * w[i % nw];\n"
    "}\n"
    "__kernel void\n"
    "gate_backward0(__global const float *x, __global const float *w, __global const int *k,\n"
    "               __global const float *y, __global const float *dy, __global float *dx, int n,\n"
    "               int nx, int nw, int nk, int ny)\n"
    "{\n"
    "    for (int i = get_global_id(0); i < n * nx; i += get_global_size(0))\n"
    "        dx[i] = k[i] & 1 ? dy[i] : 2.f * dy[i] * x[i] * w[i % nw];\n"
    "}\n"
    "__kernel void\n"
    "gate_backward1(__global const float *x, __global const float *w, __global const int *k,\n"
    "               __global const float *y, __global const float *dy, __global float *dx, int n,\n"
    "               int nx, int nw, int nk, int ny)\n"
    "{\n"
    "    for (int i = get_global_id(0); i < n * nw; i += get_global_size(0))\n"
    "        dx[i] = k[i] & 1 ? 0.f : dy[i] * x[i] * x[i];\n"
    "}\n";

static void
gate_oracle(const op_run *run, double *out)
{
    const yki_custom_attrs a = yki_custom_attrs_get(&run->problem->attrs);
    const double *x = run->in[0], *w = run->in[1], *k = run->in[2];
    int64_t count = yki_shape_count(run->problem->in[0].shape);

    for (int64_t i = 0; i < run->n * count; i++) {
        bool odd = (int64_t)k[i] & 1;

        if (run->problem->op == &yki_op_custom)
            out[i] = odd ? x[i] : x[i] * x[i] * w[i % count];
        else if (a.input == 0)
            out[i] = run->in[4][i] * (odd ? 1 : 2 * x[i] * w[i % count]);
        else
            out[i] = odd ? 0 : run->in[4][i] * x[i] * x[i];
    }
}

static yoke_node *
gate(yoke_graph *g, const char *source)
{
    yoke_initializer init = {YOKE_INIT_CONSTANT, 0.5f, 0, 0};
    yoke_node *inputs[3] = {yoke_input(g, "x", YOKE_F32, yoke_shape(3, 23)),
                            yoke_parameter(g, "w", yoke_shape(3, 23), init),
                            yoke_input(g, "k", YOKE_I32, yoke_shape(3, 23))};

    return yoke_custom(g, inputs, 3, &(yoke_custom_options){.name = "gate", .source = source});
}

START_TEST(custom_matches_its_oracle)
{
    char *copy = strdup(gate_source);
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = gate(g, copy);
    ASSERT_OK(yoke_graph_status(g));
    memset(copy, '!', strlen(copy)); /* the source was copied */
    free(copy);
    ck_assert_str_eq(yoke_node_name(y), "gate1");
    op_custom_oracle = gate_oracle;
    op_check_graph(g, y, NULL);
}
END_TEST

/* (R, C) -> (R): another shape, by a rule. With fma, as Intel's compiler adds a plain sum up in
 * another order where it joins no work-items (docs/drivers.md): the first samples would depend on
 * how many there are. */
static const char row_sum_source[] =
    "__kernel void row_sum_forward(__global const float *x, __global float *y, int n, int nx,\n"
    "                              int ny)\n"
    "{\n"
    "    for (int i = get_global_id(0); i < n * ny; i += get_global_size(0)) {\n"
    "        float sum = 0.f;\n"
    "        for (int k = 0; k < nx / ny; k++)\n"
    "            sum = fma(1.f, x[i * (nx / ny) + k], sum);\n"
    "        y[i] = sum;\n"
    "    }\n"
    "}\n"
    "__kernel void row_sum_backward0(__global const float *x, __global const float *y,\n"
    "                                __global const float *dy, __global float *dx, int n, int nx,\n"
    "                                int ny)\n"
    "{\n"
    "    for (int i = get_global_id(0); i < n * nx; i += get_global_size(0))\n"
    "        dx[i] = dy[i / (nx / ny)];\n"
    "}\n";

static void
row_sum_oracle(const op_run *run, double *out)
{
    int64_t columns = run->problem->in[0].shape.dim[1];
    int64_t count = run->n * yki_shape_count(run->problem->out.shape);

    for (int64_t i = 0; i < count; i++) {
        out[i] = 0;
        if (run->problem->op == &yki_op_custom_grad)
            out[i] = run->in[2][i / columns];
        for (int64_t k = 0; run->problem->op == &yki_op_custom && k < columns; k++)
            out[i] += run->in[0][i * columns + k];
    }
}

static bool
first_axis(void *user, const yoke_shape *in, size_t count, yoke_shape *out)
{
    *(int *)user += 1;
    if (count != 1 || in[0].rank != 2)
        return false;
    *out = in[0];
    out->rank = 1;
    return true;
}

START_TEST(custom_of_another_shape_matches_its_oracle)
{
    int asked = 0;
    yoke_custom_options options = {
        .name = "row_sum", .source = row_sum_source, .shape = first_axis, .user = &asked};
    yoke_graph *g;
    yoke_node *x, *y;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(37, 10));
    y = yoke_custom(g, &x, 1, &options);
    ck_assert_int_eq(asked, 1);
    ck_assert(yki_shape_equal(yoke_node_shape(y), yoke_shape(37)));
    op_custom_oracle = row_sum_oracle;
    op_check_graph(g, y, NULL);
    ck_assert_int_eq(asked, 1);
}
END_TEST

/* A replica of a graph with the gate and a loss, on the first device. */
static yoke_status
compile(const char *source, yoke_context **context, yoke_replica **replica)
{
    yoke_selection *selection;
    yoke_status status;
    yoke_graph *g;

    ASSERT_OK(yoke_context_create(NULL, context));
    ASSERT_OK(yoke_selection_create(*context, test_selector(), NULL, &selection));
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_loss(g, yoke_sum(g, gate(g, source), NULL, 0));
    ASSERT_OK(yoke_graph_status(g));
    status = yoke_replica_create(yoke_selection_get(selection, 0), g,
                                 &(yoke_replica_options){.batch = 2, .level = YOKE_PLAN_ESTIMATE},
                                 replica);
    yoke_graph_destroy(g);
    yoke_selection_destroy(selection);
    return status;
}

START_TEST(custom_trains_in_a_replica)
{
    enum { COUNT = 3 * 23 };
    float x[2 * COUNT], gradient[COUNT];
    int32_t k[2 * COUNT];
    yoke_context *context;
    yoke_replica *replica;
    double sum, count, expected = 0;

    SKIP_ON_SIMULATOR;
    for (int i = 0; i < 2 * COUNT; i++) {
        x[i] = (float)(i % 7) * 0.25f;
        k[i] = i % 3;
        expected += k[i] & 1 ? (double)x[i] : 0.5 * (double)(x[i] * x[i]);
    }
    ASSERT_OK(compile(gate_source, &context, &replica));
    ASSERT_OK(yoke_replica_set_input(replica, 2, yoke_feed_f32("x", x, 2 * COUNT)));
    ASSERT_OK(yoke_replica_set_input(replica, 2, yoke_feed_i32("k", k, 2 * COUNT)));
    ASSERT_OK(yoke_replica_forward(replica, 2));
    ASSERT_OK(yoke_replica_backward(replica));
    ASSERT_OK(yoke_replica_read_loss(replica, &sum, &count));
    ck_assert_double_eq_tol(sum, expected, 1e-4);
    ASSERT_OK(yoke_replica_read_gradient(replica, "w", gradient, COUNT));
    for (int i = 0; i < COUNT; i++) {
        int other = i + COUNT; /* of the second sample */
        float first = k[i] & 1 ? 0 : x[i] * x[i], second = k[other] & 1 ? 0 : x[other] * x[other];

        ck_assert_float_eq_tol(gradient[i], first + second, 1e-5f);
    }
    yoke_replica_destroy(replica);
    yoke_context_destroy(context);
}
END_TEST

START_TEST(wrong_sources_are_named)
{
    yoke_context *context;
    yoke_replica *replica = NULL;

    ASSERT_STATUS(YOKE_ERROR_BUILD,
                  compile("__kernel void gate_forward(undeclared *x) {}", &context, &replica));
    ASSERT_DETAIL("gate does not compile for ");
    ASSERT_DETAIL("undeclared");
    ck_assert_ptr_null(replica);
    yoke_context_destroy(context);
    ASSERT_STATUS(
        YOKE_ERROR_NOT_FOUND,
        compile("__kernel void other(__global float *x) { x[0] = 0.f; }", &context, &replica));
    ASSERT_DETAIL("gate has no kernel \"gate_forward\"");
    yoke_context_destroy(context);
}
END_TEST

static void
refuse(const yoke_custom_options *options, size_t count, yoke_status status, const char *sentence)
{
    yoke_node *inputs[9];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    inputs[0] = yoke_input(g, "x", YOKE_F32, yoke_shape(1, 2, 3));
    for (int i = 1; i < 9; i++)
        inputs[i] = inputs[0];
    ck_assert_ptr_null(yoke_custom(g, inputs, count, options));
    ASSERT_STATUS(status, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), sentence);
    yoke_graph_destroy(g);
}

START_TEST(wrong_arguments_are_named)
{
    int asked = 0;

    refuse(
        &(yoke_custom_options){.name = "two words", .source = ""}, 1, YOKE_ERROR_INVALID_ARGUMENT,
        "two words1: the name is \"two words\"; must be an identifier of C of 1 to 63 characters");
    refuse(NULL, 1, YOKE_ERROR_INVALID_ARGUMENT,
           "custom1: the name is NULL; must be an identifier of C of 1 to 63 characters");
    refuse(&(yoke_custom_options){.name = "f"}, 1, YOKE_ERROR_INVALID_ARGUMENT,
           "f1: source is NULL; must be the text of the kernels");
    refuse(&(yoke_custom_options){.name = "f", .source = ""}, 7, YOKE_ERROR_INVALID_ARGUMENT,
           "f1: the number of inputs is 7; must be between 1 and 6");
    refuse(&(yoke_custom_options){.name = "f", .source = "", .shape = first_axis, .user = &asked},
           1, YOKE_ERROR_SHAPE,
           "f1: its rule for the shape refuses \"x\" of shape (1, 2, 3); must be a shape that the "
           "rule takes");
}
END_TEST

START_TEST(gradients_stop_where_there_is_no_backward)
{
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    yoke_graph *g;
    yoke_node *p;

    ASSERT_OK(yoke_graph_create(&g));
    p = yoke_parameter(g, "p", yoke_shape(), init);
    p = yoke_mul(g, p, yoke_input(g, "x", YOKE_F32, yoke_shape()));
    yoke_graph_set_loss(
        g, yoke_custom(g, &p, 1,
                       &(yoke_custom_options){.name = "f", .source = "", .no_backward = true}));
    ASSERT_OK(yki_graph_differentiate(g, &yki_op_binary, &yki_op_ones, NULL, 0));
    ck_assert_ptr_null(yoke_graph_get_node(g, "p")->gradient);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("custom");
    TCase *tcase = test_case(suite, "custom");

    tcase_add_test(tcase, custom_matches_its_oracle);
    tcase_add_test(tcase, custom_of_another_shape_matches_its_oracle);
    tcase_add_test(tcase, custom_trains_in_a_replica);
    tcase_add_test(tcase, wrong_sources_are_named);
    tcase_add_test(tcase, wrong_arguments_are_named);
    tcase_add_test(tcase, gradients_stop_where_there_is_no_backward);
    return suite;
}
