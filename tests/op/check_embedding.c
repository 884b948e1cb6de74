/* SPDX-License-Identifier: Apache-2.0
 *
 * check_embedding.c - rows by index and their gradient, and what becomes of indices
 * that are none.
 */
#include <math.h>
#include <string.h>

#include "harness.h"

typedef struct embedding_case {
    yoke_shape shape;
    int64_t rows, width;
    yoke_type type;
} embedding_case;

START_TEST(embedding_matches_oracle)
{
    const embedding_case cases[] = {
        {yoke_shape(), 1, 1, YOKE_I32},
        {yoke_shape(7), 10, 16, YOKE_I32},
        {yoke_shape(60), 5, 33, YOKE_I32}, /* rows picked many times */
        {yoke_shape(3, 5), 100, 7, YOKE_U8},
        {yoke_shape(11), 1000, 130, YOKE_I32},
        {yoke_shape(1, 2, 1, 2, 1, 3), 17, 3, YOKE_I32},
    };
    const embedding_case *c = &cases[_i];
    yoke_graph *g;
    yoke_node *x, *y;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", c->type, c->shape);
    y = yoke_embedding(g, x, &(yoke_embedding_options){.rows = c->rows, .width = c->width});
    ck_assert_int_eq(x->limit, c->rows);
    ck_assert_int_eq(yoke_node_shape(y).dim[c->shape.rank], c->width);
    op_check_graph(g, y, &(op_check_options){.labels = (int32_t)c->rows});
}
END_TEST

/* Runs the first solver of a node that applies on the first device under test, as if it had so many
 * compute units (0: as many as it has). An input that is `out` is in the memory of the result. */
static void
run_node(const yoke_node *node, int64_t n, uint32_t units, const void *const *in, void *out)
{
    yki_buffer *buffers[YKI_MAX_INPUTS + 1] = {0}, *result;
    yoke_context *context;
    yoke_selection *selection;
    yoke_device *device;
    yki_device_traits traits;
    yki_problem problem;
    yki_runner *runner;
    yki_recipe recipe;
    yki_queue *queue;
    uint64_t size = 0;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    device = yoke_selection_get(selection, 0);
    traits = *yki_device_get_traits(device);
    if (units)
        traits.compute_units = units;
    ASSERT_OK(yki_queue_create(device, false, &queue));
    yki_problem_of_node(node, (yki_extents){.batch = n}, &problem);
    for (uint32_t i = 0; i <= problem.input_count; i++) {
        const yki_operand *operand = i < problem.input_count ? &problem.in[i] : &problem.out;

        size = (uint64_t)yki_expr_value(yki_operand_bytes(operand), problem.max);
        ASSERT_OK(yki_buffer_create(device, size, 0, "an operand", &buffers[i]));
        ASSERT_OK(yki_buffer_put(buffers[i], 0, size, i < problem.input_count ? in[i] : out));
    }
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == node->op && (*s)->applies(&problem, &traits)) {
            ASSERT_OK((*s)->emit(&problem, &traits, 0, &recipe));
            op_check_arguments(device, *s, &recipe);
            break;
        }
    result = buffers[problem.input_count];
    for (uint32_t i = 0; i < problem.input_count; i++)
        if (in[i] == out)
            buffers[problem.input_count] = buffers[i];
    ASSERT_OK(yki_runner_create(queue, &problem, &recipe, buffers, NULL, &runner));
    ASSERT_OK(yki_runner_enqueue(runner, YKI_PHASE_RUN, problem.max, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ASSERT_OK(yki_buffer_get(buffers[problem.input_count], 0, size, out));
    yki_runner_destroy(runner);
    yki_recipe_clear(&recipe);
    buffers[problem.input_count] = result;
    for (uint32_t i = 0; i <= problem.input_count; i++)
        yki_buffer_destroy(buffers[i]);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

START_TEST(indices_beyond_the_table_read_nothing)
{
    const int32_t x[4] = {-1, 1, 2, INT32_MAX};
    const float table[2][3] = {{1, 2, 3}, {4, 5, 6}}, dy[4][3] = {{1, 1, 1}, {2, 3, 4}, {1, 1, 1}};
    float y[4][3] = {{0}}, sums[2][3] = {{7, 7, 7}, {7, 7, 7}};
    yki_embedding_attrs attrs = {2};
    yoke_node *nodes[2], *node;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    node = yoke_embedding(g, yoke_input(g, "x", YOKE_I32, yoke_shape(4)),
                          &(yoke_embedding_options){.rows = 2, .width = 3});
    ASSERT_OK(yoke_graph_status(g));
    run_node(node, 1, 0, (const void *const[]){x, table}, y);
    for (int w = 0; w < 3; w++) {
        ck_assert(isnan(y[0][w]) && isnan(y[2][w]) && isnan(y[3][w]));
        ck_assert_float_eq(y[1][w], table[1][w]);
    }
    nodes[0] = node->inputs[0];
    nodes[1] = yoke_input(g, "dy", YOKE_F32, yoke_shape(4, 3));
    node = yki_node(g, &yki_op_embedding_grad, NULL, nodes, 2, &attrs, sizeof attrs);
    run_node(node, 1, 0, (const void *const[]){x, dy}, sums);
    for (int w = 0; w < 3; w++) {
        ck_assert_float_eq(sums[0][w], 0);
        ck_assert_float_eq(sums[1][w], dy[1][w]);
    }
    yoke_graph_destroy(g);
}
END_TEST

enum { ADDED_ROWS = 40, ADDED_WIDTH = 19, ADDED = ADDED_ROWS * ADDED_WIDTH, PLACES = 1300 };

/* Rows are added to another gradient, in the order of their places: in the bits of the sum by hand,
 * for any number of groups, and in its own memory too. */
START_TEST(rows_are_added_to_another_gradient)
{
    static const uint32_t units[] = {0, 1, 3, 64};
    static float dy[PLACES * ADDED_WIDTH];
    float more[ADDED], sums[ADDED], wanted[ADDED];
    yki_embedding_attrs attrs = {ADDED_ROWS};
    yoke_node *nodes[3], *node;
    int32_t x[PLACES];
    yoke_graph *g;

    for (int i = 0; i < ADDED; i++) {
        wanted[i] = more[i] = (float)op_normal(1, 0, (uint64_t)i);
        sums[i] = _i % 2 ? more[i] : NAN;
    }
    for (int i = 0; i < PLACES * ADDED_WIDTH; i++) {
        int place = i / ADDED_WIDTH, w = i % ADDED_WIDTH;

        x[place] = place % 7 == 3 ? ADDED_ROWS - 1 : place * place % 13; /* some rows often */
        dy[i] = (float)op_normal(1, 1, (uint64_t)i);
        wanted[x[place] * ADDED_WIDTH + w] += dy[i];
    }
    ASSERT_OK(yoke_graph_create(&g));
    nodes[0] = yoke_input(g, "x", YOKE_I32, yoke_shape());
    nodes[1] = yoke_input(g, "dy", YOKE_F32, yoke_shape(ADDED_WIDTH));
    nodes[2] = yoke_parameter(g, "more", yoke_shape(ADDED_ROWS, ADDED_WIDTH),
                              (yoke_initializer){.kind = YOKE_INIT_ZEROS});
    node = yki_node(g, &yki_op_embedding_grad, NULL, nodes, 3, &attrs, sizeof attrs);
    ASSERT_OK(yoke_graph_status(g));
    run_node(node, PLACES, units[_i / 2],
             (const void *const[]){x, dy, _i % 2 ? (void *)sums : (void *)more}, sums);
    ck_assert_mem_eq(sums, wanted, sizeof sums);
    yoke_graph_destroy(g);
}
END_TEST

/* What limits a slice of the tokens limits the tokens; of two limits the smaller holds. */
START_TEST(limits_reach_the_input)
{
    yoke_graph *g;
    yoke_node *tokens, *labels, *x;

    ASSERT_OK(yoke_graph_create(&g));
    tokens = yoke_input(g, "tokens", YOKE_I32, yoke_shape(9));
    yoke_embedding(g, yoke_slice(g, tokens, 0, 0, 8),
                   &(yoke_embedding_options){.rows = 100, .width = 4, .name = "e"});
    ck_assert_int_eq(tokens->limit, 100);
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(50, 8));
    yoke_softmax_cross_entropy(
        g, x, yoke_slice(g, tokens, 0, 1, 9),
        &(yoke_loss_options){.has_ignore_index = true, .ignore_index = -100});
    ck_assert_int_eq(tokens->limit, 50);
    ck_assert(!tokens->has_exception); /* the table has no row -100 */
    labels = yoke_target(g, "labels", YOKE_I32, yoke_shape(8));
    yoke_accuracy(g, x, labels);
    yoke_softmax_cross_entropy(
        g, x, labels, &(yoke_loss_options){.has_ignore_index = true, .ignore_index = -100});
    ck_assert_int_eq(labels->limit, 50);
    ck_assert(labels->has_exception && labels->exception == -100);
    ASSERT_OK(yoke_graph_status(g));
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(embedding_parameters_are_named_and_normal)
{
    yoke_graph *g;
    yoke_node *weight;

    ASSERT_OK(yoke_graph_create(&g));
    yoke_embedding(g, yoke_input(g, "x", YOKE_I32, yoke_shape()),
                   &(yoke_embedding_options){.rows = 5, .width = 3});
    ck_assert_uint_eq(yoke_graph_parameter_count(g), 1);
    weight = yoke_graph_get_parameter(g, 0);
    ck_assert_str_eq(yoke_node_name(weight), "embedding1.weight");
    ck_assert(yki_shape_equal(yoke_node_shape(weight), yoke_shape(5, 3)));
    ck_assert_int_eq(weight->initializer.kind, YOKE_INIT_NORMAL);
    ck_assert_float_eq(weight->initializer.a, 0);
    ck_assert_float_eq(weight->initializer.b, 1);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(embedding_names_what_does_not_fit)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    yoke_embedding(g, yoke_input(g, "x", YOKE_F32, yoke_shape(3)),
                   &(yoke_embedding_options){.rows = 5, .width = 3, .name = "e"});
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), "e: the input \"x\" has type f32; must be i32 or u8");
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_embedding(g, yoke_input(g, "x", YOKE_I32, yoke_shape(3)),
                   &(yoke_embedding_options){.rows = -5, .width = 3});
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), "embedding1: rows is -5; must be between 1 and 2147483647");
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_embedding(g, yoke_input(g, "x", YOKE_I32, yoke_shape(1, 1, 1, 1, 1, 1, 1)),
                   &(yoke_embedding_options){.rows = 5, .width = 3});
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("embedding1: the input \"x\" has rank 7; must be at most 6");
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("embedding");
    TCase *tcase = test_case(suite, "embedding");

    tcase_add_loop_test(tcase, embedding_matches_oracle, 0, 6);
    tcase_add_test(tcase, indices_beyond_the_table_read_nothing);
    tcase_add_loop_test(tcase, rows_are_added_to_another_gradient, 0, 8);
    tcase_add_test(tcase, limits_reach_the_input);
    tcase_add_test(tcase, embedding_parameters_are_named_and_normal);
    tcase_add_test(tcase, embedding_names_what_does_not_fit);
    return suite;
}
