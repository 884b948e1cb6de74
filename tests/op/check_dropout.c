/* SPDX-License-Identifier: Apache-2.0
 *
 * check_dropout.c - masks: those of the library's generator, the same for any split
 * of a batch, others for another step, seed or layer, and of the right density.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

START_TEST(dropout_matches_oracle)
{
    const yoke_shape shapes[] = {yoke_shape(), yoke_shape(5), yoke_shape(64), yoke_shape(7, 41),
                                 yoke_shape(2, 3, 151)};
    const float probabilities[] = {0, 0.1f, 0.5f, 0.999f};

    for (size_t i = 0; i < YKI_COUNT(probabilities); i++) {
        yoke_graph *g;
        yoke_node *x;

        ASSERT_OK(yoke_graph_create(&g));
        x = yoke_input(g, "x", YOKE_F32, shapes[_i]);
        op_check_graph(g, yoke_dropout(g, x, probabilities[i]), NULL);
    }
}
END_TEST

/* The generator itself, word by word. */
START_TEST(generator_is_the_hosts)
{
    static const char source[] = "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void\n"
                                 "draw(__global const uint *in, __global uint *out)\n"
                                 "{\n"
                                 "    uint4 a = (uint4)(in[2]), b = (uint4)(in[3]), c = "
                                 "(uint4)(in[4]), d = (uint4)(in[5]);\n"
                                 "    a += (uint4)(0, 1, 2, 3);\n"
                                 "    YKI_PHILOX(uint4, ulong4, a, b, c, d, in[0], in[1]);\n"
                                 "    vstore4(a, 0, out);\n"
                                 "    vstore4(b, 1, out);\n"
                                 "    vstore4(c, 2, out);\n"
                                 "    vstore4(d, 3, out);\n"
                                 "}\n";
    const uint32_t in[6] = {0xdeadbeefu, 0x12345678u, 0xfffffffeu, 77, 0x80000000u, 5};
    const yki_grid grid = {{1, 1, 1}, {1, 1, 1}};
    uint32_t out[4][4], expected[4];
    yoke_context *context;
    yoke_selection *selection;
    yoke_device *device;
    yki_program *program;
    yki_buffer *from, *to;
    yki_kernel *kernel;
    yki_queue *queue;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    device = yoke_selection_get(selection, 0);
    ASSERT_OK(yki_queue_create(device, false, &queue));
    ASSERT_OK(yki_program_get_source(device, "draw", source, "", &program));
    ASSERT_OK(yki_kernel_create(program, "draw", &kernel));
    ASSERT_OK(yki_buffer_create(device, sizeof in, 0, "words", &from));
    ASSERT_OK(yki_buffer_create(device, sizeof out, 0, "words", &to));
    ASSERT_OK(yki_buffer_put(from, 0, sizeof in, in));
    ASSERT_OK(yki_kernel_set_buffer(kernel, 0, from));
    ASSERT_OK(yki_kernel_set_buffer(kernel, 1, to));
    ASSERT_OK(yki_queue_launch(queue, kernel, &grid, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ASSERT_OK(yki_buffer_get(to, 0, sizeof out, out));
    for (uint32_t lane = 0; lane < 4; lane++) {
        const uint32_t counter[4] = {in[2] + lane, in[3], in[4], in[5]};

        yki_philox(in, counter, expected);
        for (int w = 0; w < 4; w++)
            ck_assert_uint_eq(out[w][lane], expected[w]);
    }
    yki_buffer_destroy(from);
    yki_buffer_destroy(to);
    yki_kernel_destroy(kernel);
    yki_program_release(program);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

enum { COUNT = 1000 };

/* Ones through the dropout of `node`, n samples from `first`; caller frees. */
static float *
mask(const yoke_node *node, int64_t n, uint64_t first, uint32_t step, uint32_t seed)
{
    yki_step_values values = {.step = step,
                              .seed = {seed, 0},
                              .first_sample = {(uint32_t)first, (uint32_t)(first >> 32)}};
    size_t size = (size_t)n * COUNT * sizeof(float);
    float *data = malloc(size);
    yki_buffer *buffers[2], *step_values;
    yoke_context *context;
    yoke_selection *selection;
    yoke_device *device;
    yki_problem problem;
    yki_runner *runner;
    yki_recipe recipe;
    yki_queue *queue;

    for (int64_t i = 0; i < n * COUNT; i++)
        data[i] = 1;
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    device = yoke_selection_get(selection, 0);
    ASSERT_OK(yki_queue_create(device, false, &queue));
    yki_problem_of_node(node, (yki_extents){.batch = n}, &problem);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(yki_buffer_create(device, size, 0, "an operand", &buffers[i]));
        ASSERT_OK(yki_buffer_put(buffers[i], 0, size, data));
    }
    ASSERT_OK(yki_buffer_create(device, sizeof values, 0, "step values", &step_values));
    ASSERT_OK(yki_buffer_put(step_values, 0, sizeof values, &values));
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == &yki_op_dropout)
            ASSERT_OK((*s)->emit(&problem, yki_device_get_traits(device), 0, &recipe));
    ASSERT_OK(yki_runner_create(queue, &problem, &recipe, buffers, step_values, &runner));
    ASSERT_OK(yki_runner_enqueue(runner, YKI_PHASE_RUN, problem.max, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ASSERT_OK(yki_buffer_get(buffers[1], 0, size, data));
    yki_runner_destroy(runner);
    yki_recipe_clear(&recipe);
    yki_buffer_destroy(step_values);
    yki_buffer_destroy(buffers[0]);
    yki_buffer_destroy(buffers[1]);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return data;
}

static double
share_of_equal(const float *a, const float *b, int64_t count)
{
    int64_t equal = 0;

    for (int64_t i = 0; i < count; i++)
        equal += a[i] == b[i];
    return (double)equal / (double)count;
}

START_TEST(masks_depend_on_what_they_should)
{
    /* Across the end of the low word of the sample's index. */
    const uint64_t first = 0xfffffffeu;
    float *whole, *part, *other;
    yoke_node *x, *a, *b;
    yoke_graph *g;
    double kept = 0;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(COUNT));
    a = yoke_dropout(g, x, 0.25f);
    b = yoke_dropout(g, x, 0.25f);
    ASSERT_OK(yoke_graph_status(g));
    whole = mask(a, 5, first, 3, 1);
    for (int i = 0; i < 5 * COUNT; i++) {
        ck_assert(whole[i] == 0 || whole[i] == 1 / 0.75f);
        kept += whole[i] != 0;
    }
    /* Five deviations of a binomial distribution. */
    ck_assert_double_le(kept / (5 * COUNT), 0.75 + 5 * 0.0062);
    ck_assert_double_ge(kept / (5 * COUNT), 0.75 - 5 * 0.0062);
    /* A split of the batch draws the same. */
    part = mask(a, 2, first + 3, 3, 1);
    ck_assert_mem_eq(part, whole + 3 * COUNT, 2 * COUNT * sizeof *part);
    free(part);
    /* Samples, steps, seeds and layers draw something else: 0.625 are equal by chance. */
    ck_assert_double_le(share_of_equal(whole, whole + COUNT, COUNT), 0.7);
    other = mask(a, 5, first, 4, 1);
    ck_assert_double_le(share_of_equal(whole, other, 5 * COUNT), 0.7);
    free(other);
    other = mask(a, 5, first, 3, 2);
    ck_assert_double_le(share_of_equal(whole, other, 5 * COUNT), 0.7);
    free(other);
    other = mask(b, 5, first, 3, 1);
    ck_assert_double_le(share_of_equal(whole, other, 5 * COUNT), 0.7);
    free(other);
    free(whole);
    yoke_graph_destroy(g);
}
END_TEST

/* In a replica: a mask in training, which the gradient repeats and the next step does not, and
 * none in evaluation. */
START_TEST(dropout_trains_in_a_replica)
{
    enum { N = 3, SIZE = 100 };
    yoke_initializer one = {YOKE_INIT_CONSTANT, 1, 0, 0};
    float x[N * SIZE], y[2][N * SIZE], gradient[SIZE];
    yoke_context *context;
    yoke_selection *selection;
    yoke_replica *replica;
    yoke_graph *g;
    yoke_node *h;

    SKIP_ON_SIMULATOR;
    for (int i = 0; i < N * SIZE; i++)
        x[i] = 1 + (float)(i % 5);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    ASSERT_OK(yoke_graph_create(&g));
    h = yoke_mul(g, yoke_input(g, "x", YOKE_F32, yoke_shape(SIZE)),
                 yoke_parameter(g, "w", yoke_shape(SIZE), one));
    h = yoke_dropout(g, h, 0.5f);
    yoke_graph_set_output(g, "y", h);
    yoke_graph_set_loss(g, yoke_sum(g, h, NULL, 0));
    ASSERT_OK(yoke_replica_create(
        yoke_selection_get(selection, 0), g,
        &(yoke_replica_options){.batch = N, .seed = 7, .level = YOKE_PLAN_ESTIMATE}, &replica));
    for (int step = 0; step < 2; step++) {
        ASSERT_OK(yoke_replica_set_input(replica, N, yoke_feed_f32("x", x, N * SIZE)));
        ASSERT_OK(yoke_replica_forward(replica, N));
        ASSERT_OK(yoke_replica_backward(replica));
        ASSERT_OK(yoke_replica_read_output(replica, "y", y[step], N * SIZE));
        ASSERT_OK(yoke_replica_read_gradient(replica, "w", gradient, SIZE));
        for (int i = 0; step == 0 && i < SIZE; i++) {
            float sum = 0;

            for (int n = 0; n < N; n++) {
                float own = y[0][n * SIZE + i];

                ck_assert(own == 0 || own == 2 * x[n * SIZE + i]);
                sum += own; /* w is 1: the gradient by it is the result */
            }
            ck_assert_float_eq(gradient[i], sum);
        }
        ASSERT_OK(yoke_replica_update(replica, 0));
    }
    ck_assert_mem_ne(y[0], y[1], sizeof y[0]);
    ASSERT_OK(yoke_replica_set_input(replica, N, yoke_feed_f32("x", x, N * SIZE)));
    ASSERT_OK(yoke_replica_evaluate(replica, N));
    ASSERT_OK(yoke_replica_read_output(replica, "y", y[0], N * SIZE));
    ck_assert_mem_eq(y[0], x, sizeof x);
    yoke_replica_destroy(replica);
    yoke_graph_destroy(g);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

START_TEST(evaluation_passes_through)
{
    yoke_node *inputs[YKI_MAX_INPUTS] = {0}, *x, *y;
    const yki_op *op = &yki_op_dropout;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));
    y = yoke_dropout(g, x, 0.5f);
    ck_assert_uint_eq(yki_op_dropout.evaluation(y, &op, inputs), 1);
    ck_assert_ptr_null(op);
    ck_assert_ptr_eq(inputs[0], x);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(dropout_names_what_does_not_fit)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    yoke_dropout(g, yoke_input(g, "x", YOKE_F32, yoke_shape(4)), 1);
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(),
                     "dropout1: probability is 1; must be at least 0 and below 1");
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_dropout(g, yoke_input(g, "x", YOKE_I32, yoke_shape(4)), 0.5f);
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_graph_status(g));
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("dropout");
    TCase *tcase = test_case(suite, "dropout");

    tcase_add_loop_test(tcase, dropout_matches_oracle, 0, 5);
    tcase_add_test(tcase, generator_is_the_hosts);
    tcase_add_test(tcase, masks_depend_on_what_they_should);
    tcase_add_test(tcase, dropout_trains_in_a_replica);
    tcase_add_test(tcase, evaluation_passes_through);
    tcase_add_test(tcase, dropout_names_what_does_not_fit);
    return suite;
}
