/* SPDX-License-Identifier: Apache-2.0
 *
 * check_matmul.c - matrix products and dense layers, and their gradients: every
 * solver on awkward sizes, all transposes, broadcast axes and samples.
 */
#include <math.h>
#include <stdlib.h>

#include "harness.h"

typedef struct product {
    yoke_shape a, b;
    bool a_parameter, b_parameter; /* not batched */
    bool ta, tb;
    int64_t batch;
} product;

#define SHAPES(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
static const product products[] = {
    /* plain matrices of a sample, all transposes */
    SHAPES({2, 0, {3, 5}}, {2, 0, {5, 7}}, false, false, false, false, 0),
    SHAPES({2, 0, {5, 3}}, {2, 0, {5, 7}}, false, false, true, false, 0),
    SHAPES({2, 0, {3, 5}}, {2, 0, {7, 5}}, false, false, false, true, 0),
    SHAPES({2, 0, {5, 3}}, {2, 0, {7, 5}}, false, false, true, true, 0),
    /* one side not batched */
    SHAPES({2, 0, {6, 5}}, {2, 0, {5, 9}}, false, true, false, false, 0),
    SHAPES({2, 0, {5, 6}}, {2, 0, {9, 5}}, false, true, true, true, 0),
    SHAPES({2, 0, {6, 5}}, {2, 0, {5, 9}}, true, false, false, false, 0),
    SHAPES({2, 0, {5, 6}}, {2, 0, {9, 5}}, true, false, true, true, 0),
    /* a vector for each sample: rows of one product */
    SHAPES({1, 0, {13}}, {2, 0, {13, 11}}, false, true, false, false, 7),
    SHAPES({1, 0, {13}}, {2, 0, {11, 13}}, false, true, false, true, 7),
    /* a sum long enough to be cut into parts */
    SHAPES({1, 0, {150}}, {2, 0, {150, 3}}, false, true, false, false, 3),
    /* size 1 everywhere, and single axes of size 1 */
    SHAPES({2, 0, {1, 1}}, {2, 0, {1, 1}}, false, false, false, false, 0),
    SHAPES({2, 0, {1, 17}}, {2, 0, {17, 1}}, false, true, false, false, 0),
    SHAPES({2, 0, {19, 1}}, {2, 0, {3, 1}}, false, true, false, true, 0),
    /* leading axes, broadcast in both directions */
    SHAPES({3, 0, {2, 3, 4}}, {3, 0, {2, 4, 5}}, false, false, false, false, 3),
    SHAPES({4, 0, {2, 1, 3, 4}}, {3, 0, {3, 4, 5}}, false, true, false, false, 3),
    SHAPES({4, 0, {2, 3, 4, 3}}, {3, 0, {1, 5, 4}}, false, true, true, true, 3),
    SHAPES({3, 0, {3, 4, 6}}, {5, 0, {2, 1, 3, 6, 2}}, true, false, false, false, 2),
    SHAPES({5, 0, {2, 1, 2, 3, 4}}, {5, 0, {1, 3, 1, 4, 5}}, false, false, false, false, 2),
};

static void
check_product(const product *p)
{
    yoke_matmul_options options = {p->ta, p->tb};
    yoke_initializer init = {0};
    yoke_node *a, *b;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    a = p->a_parameter ? yoke_parameter(g, "a", p->a, init) : yoke_input(g, "a", YOKE_F32, p->a);
    b = p->b_parameter ? yoke_parameter(g, "b", p->b, init) : yoke_input(g, "b", YOKE_F32, p->b);
    op_check_graph(g, yoke_matmul(g, a, b, &options), &(op_check_options){.batch = p->batch});
}

START_TEST(products_match_oracle)
{
    check_product(&products[_i]);
}
END_TEST

/* Sizes around every tile, and beyond one step of the inner sum. */
static const int64_t sizes[][3] = {
    {64, 64, 16}, {65, 63, 17}, {12, 32, 256}, {13, 33, 257}, {25, 47, 300}, {97, 31, 61},
};

START_TEST(sizes_match_oracle)
{
    const int64_t *size = sizes[_i / 4];
    bool ta = _i % 4 & 1, tb = _i % 4 & 2;
    product p = {.b_parameter = true, .ta = ta, .tb = tb, .batch = 2};

    p.a = ta ? yoke_shape(size[2], size[0]) : yoke_shape(size[0], size[2]);
    p.b = tb ? yoke_shape(size[1], size[2]) : yoke_shape(size[2], size[1]);
    check_product(&p);
}
END_TEST

typedef struct layer {
    yoke_shape in;
    int64_t units, batch;
    bool no_bias;
} layer;

static const layer layers[] = {
    {{1, 0, {1}}, 1, 1, false},
    {{1, 0, {784}}, 128, 6, false},
    {{1, 0, {10}}, 32, 33, false},
    {{2, 0, {3, 37}}, 41, 5, true},
    {{2, 0, {7, 29}}, 10, 9, false},
    {{3, 0, {2, 5, 8}}, 3, 4, false},
    /* few rows of a matrix, all of them long */
    {{1, 0, {1100}}, 3, 3, false},
    {{1, 0, {1101}}, 2, 5, true},
};

START_TEST(dense_matches_oracle)
{
    const layer *l = &layers[_i];
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, l->in);
    /* Differences of a layer of real size take the oracle too long. */
    op_check_graph(
        g, yoke_dense(g, x, &(yoke_dense_options){.units = l->units, .no_bias = l->no_bias}),
        &(op_check_options){.batch = l->batch, .no_differences = l->in.dim[0] > 500});
}
END_TEST

/* What a fusion makes of dense and relu: the problem has an epilogue. */
START_TEST(epilogue_matches_oracle)
{
    yki_matmul_attrs attrs = {.transpose_b = 1, .bias = 1, .act = YKI_MATMUL_RELU};
    yoke_initializer init = {0};
    yoke_node *inputs[3];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    inputs[0] = yoke_input(g, "x", YOKE_F32, yoke_shape(70));
    inputs[1] = yoke_parameter(g, "w", yoke_shape(45, 70), init);
    inputs[2] = yoke_parameter(g, "b", yoke_shape(45), init);
    op_check_graph(g, yki_node(g, &yki_op_matmul, "fused", inputs, 3, &attrs, sizeof attrs),
                   &(op_check_options){.batch = 21});
}
END_TEST

/* Enough rows for sums that are cut into parts. */
START_TEST(long_sums_match_oracle)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(50, 9));
    op_check_graph(g, yoke_dense(g, x, &(yoke_dense_options){.units = 40}),
                   &(op_check_options){.batch = 40, .no_differences = true});
}
END_TEST

extern const yki_solver yki_solver_gemm_tiled;

/* 3 samples of (transposed) 132 x k times 136 x k or k x 136: it suits every tile. */
enum { TILED_M = 132, TILED_N = 136, TILED_BATCH = 3 };

/* One chain of multiply-adds for each of `parts` of the sum, at multiples of 16. */
static float
tiled_chain(const float *a, const float *b, int64_t a_k, int64_t b_k, int64_t k, int64_t parts,
            bool fused)
{
    int64_t steps = (k + 15) / 16;
    float sum = 0;

    for (int64_t p = 0; p < parts; p++) {
        float part = 0;

        for (int64_t i = steps * p / parts * 16; i < YKI_MIN(k, steps * (p + 1) / parts * 16); i++)
            if (fused) {
                part = fmaf(a[i * a_k], b[i * b_k], part);
            } else {
                volatile float term = a[i * a_k] * b[i * b_k];

                part = term + part;
            }
        sum = parts > 1 ? sum + part : part;
    }
    return sum;
}

static yki_buffer *
tiled_operand(yoke_device *device, float *values, int64_t count, uint32_t stream)
{
    yki_buffer *buffer;

    for (int64_t i = 0; i < count; i++)
        values[i] = (float)op_normal(5, stream, (uint64_t)i);
    ASSERT_OK(yki_buffer_create(device, (size_t)count * 4, 0, "an operand", &buffer));
    ASSERT_OK(yki_buffer_put(buffer, 0, (size_t)count * 4, values));
    return buffer;
}

static void
check_tilings(yoke_device *device, int64_t k, bool transpose, int64_t parts, unsigned least)
{
    enum { COUNT = TILED_M * TILED_N * TILED_BATCH };
    yki_problem problem = {.op = &yki_op_matmul, .input_count = 2, .max.batch = TILED_BATCH};
    yki_matmul_attrs attrs = {.transpose_a = transpose, .transpose_b = transpose};
    yki_device_traits traits = *yki_device_get_traits(device);
    /* A processor takes seconds to compile a tile that only a GPU would use. */
    unsigned step = traits.type == YOKE_DEVICE_CPU && !op_thorough() ? 3 : 1;
    int64_t size_a = TILED_M * k, size_b = TILED_N * k;
    float *a = malloc(sizeof *a * (size_t)size_a * TILED_BATCH);
    float *b = malloc(sizeof *b * (size_t)size_b * TILED_BATCH);
    float *wanted = malloc(sizeof *wanted * COUNT), *got = malloc(sizeof *got * COUNT);
    yki_buffer *buffers[3];
    yki_queue *queue;
    unsigned tunings;

    /* As many parts on every device, and all tiles for which there is room. */
    traits.type = YOKE_DEVICE_GPU;
    traits.compute_units = 64;
    yki_matmul_attrs_set(&problem.attrs, &attrs);
    problem.in[0] =
        (yki_operand){YOKE_F32, transpose ? yoke_shape(k, TILED_M) : yoke_shape(TILED_M, k), true,
                      YKI_PLAIN, false};
    problem.in[1] =
        (yki_operand){YOKE_F32, transpose ? yoke_shape(TILED_N, k) : yoke_shape(k, TILED_N), true,
                      YKI_PLAIN, false};
    problem.out = (yki_operand){YOKE_F32, yoke_shape(TILED_M, TILED_N), true, YKI_PLAIN, false};
    ASSERT_OK(yki_queue_create(device, false, &queue));
    buffers[0] = tiled_operand(device, a, size_a * TILED_BATCH, 1);
    buffers[1] = tiled_operand(device, b, size_b * TILED_BATCH, 2);
    buffers[2] = tiled_operand(device, got, COUNT, 3);
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t z = i / (TILED_M * TILED_N), row = i / TILED_N % TILED_M, column = i % TILED_N;

        wanted[i] =
            tiled_chain(a + z * size_a + row * (transpose ? 1 : k),
                        b + z * size_b + column * (transpose ? k : 1), transpose ? TILED_M : 1,
                        transpose ? 1 : TILED_N, k, parts, traits.fma);
    }
    tunings = yki_solver_gemm_tiled.tunings(&problem, &traits);
    ck_assert_uint_ge(tunings, least);
    for (unsigned tuning = 0; tuning < tunings; tuning += step) {
        yki_recipe recipe;
        yki_runner *runner;

        ASSERT_OK(yki_solver_emit(&yki_solver_gemm_tiled, &problem, &traits, tuning, &recipe));
        op_check_arguments(device, &yki_solver_gemm_tiled, &recipe);
        ck_assert_uint_eq(recipe.launch_count, parts > 1 ? 2 : 1);
        ASSERT_OK(yki_runner_create(queue, &problem, &recipe, buffers, NULL, &runner));
        ASSERT_OK(yki_runner_enqueue(runner, YKI_PHASE_RUN, problem.max, NULL));
        ASSERT_OK(yki_queue_finish(queue));
        ASSERT_OK(yki_buffer_get(buffers[2], 0, sizeof *got * COUNT, got));
        for (int64_t i = 0; i < COUNT; i++)
            ck_assert_msg(memcmp(&wanted[i], &got[i], sizeof *got) == 0,
                          "%s: element %lld is %a, not %a", recipe.launches[0].options,
                          (long long)i, (double)got[i], (double)wanted[i]);
        yki_runner_destroy(runner);
        yki_recipe_clear(&recipe);
    }
    for (int i = 0; i < 3; i++)
        yki_buffer_destroy(buffers[i]);
    yki_queue_destroy(queue);
    free(a);
    free(b);
    free(wanted);
    free(got);
}

/* Every tile gives the bits of one chain of multiply-adds, read as vectors or not, in one part or
 * several. On a processor some tiles do. */
START_TEST(tilings_give_equal_bits)
{
    const yki_device_traits *traits;
    yoke_selection *selection;
    yoke_context *context;
    yoke_device *device;
    unsigned least;

    SKIP_ON_SIMULATOR;
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    device = yoke_selection_get(selection, 0);
    traits = yki_device_get_traits(device);
    least = traits->max_group >= 256 ? 7 : traits->max_group >= 128 ? 5 : 2;
    check_tilings(device, 43, true, 1, least);
    check_tilings(device, 260, false, 4, least);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

/* Where the GPU face says that its compiler takes NVIDIA's options (tests/gpu/face.c), all products
 * of this and of other programs copy terms ahead. */
START_TEST(the_face_copies_ahead)
{
    yoke_context *context;
    yoke_selection *selection;

    if (!getenv("YOKE_FACE_COPIES"))
        return;
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t d = 0; d < yoke_selection_count(selection); d++)
        ck_assert(yki_device_get_traits(yoke_selection_get(selection, d))->copies_ahead);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

/* CLBlast with one set of parameters: what it does for one sample must not depend on others, in
 * either of its paths; sums over the batch, also an empty one; the epilogue that follows it. */
START_TEST(clblast_matches_oracle)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(70));
    op_check_graph(g, yoke_dense(g, x, &(yoke_dense_options){.units = 37}),
                   &(op_check_options){.batch = 45, .no_differences = true, .only = "clblast"});
}
END_TEST

extern const yki_solver yki_solver_gemm_clblast;

/* Seeds are sets, and so is what is one move away from them; on CPUs one is measured, and a number
 * that is no set is refused. */
START_TEST(clblast_sets_are_numbers)
{
    const yki_parameter_sets *sets = yki_solver_gemm_clblast.sets;
    const unsigned *seeds;
    size_t count = sets->seeds(&seeds);
    yki_device_traits traits = {.max_group = 1024, .local_memory = 1 << 16};
    char text[256], other[256];

    ck_assert_uint_ge(count, 3);
    for (size_t i = 0; i < count; i++) {
        sets->describe(seeds[i], text, sizeof text);
        ck_assert_msg(sets->valid(seeds[i], &traits), "seed %zu: %s", i, text);
        for (unsigned move = 0; move < sets->moves; move++) {
            unsigned found[YKI_MAX_NEIGHBOURS];

            for (size_t k = sets->neighbours(seeds[i], move, found); k-- > 0;) {
                sets->describe(found[k], other, sizeof other);
                ck_assert_msg(other[0] && strcmp(text, other) != 0, "%s: move %u", text, move);
            }
        }
    }
    sets->describe(seeds[0], text, sizeof text);
    ck_assert_str_eq(text, "MWG=32 NWG=32 KWG=16 MDIMC=8 NDIMC=8 MDIMA=8 NDIMB=8 KWI=2 VWM=1 "
                           "VWN=1 STRM=0 STRN=0 SA=1 SB=1");
    traits.max_group = 32;
    ck_assert(!sets->valid(seeds[0], &traits));
    traits.max_group = 1024;
    ck_assert(!sets->valid(1u << 30, &traits));
    ck_assert(!sets->valid(seeds[0] | 7u << 14, &traits)); /* the 8th of 5 widths */
    ck_assert_uint_eq(sets->neighbours(1u << 30, 0, &(unsigned[YKI_MAX_NEIGHBOURS]){0}[0]), 0);
}
END_TEST

START_TEST(clblast_set_is_measured)
{
    const yki_parameter_sets *sets = yki_solver_gemm_clblast.sets;
    const unsigned *seeds;
    yki_problem problem = {.op = &yki_op_matmul, .input_count = 2, .max.batch = 64};
    double seconds = -1;
    yoke_selection *selection;
    yoke_context *context;
    yoke_device *device;
    yki_queue *queue;

    sets->seeds(&seeds);
    problem.in[0] = (yki_operand){YOKE_F32, yoke_shape(48), true, YKI_PLAIN, false};
    problem.in[1] = (yki_operand){YOKE_F32, yoke_shape(48, 40), false, YKI_PLAIN, false};
    problem.out = (yki_operand){YOKE_F32, yoke_shape(40), true, YKI_PLAIN, false};
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    device = yoke_selection_get(selection, 0);
    if (yki_solver_gemm_clblast.applies(&problem, yki_device_get_traits(device)) &&
        yki_device_get_traits(device)->type != YOKE_DEVICE_ACCELERATOR) {
        ASSERT_OK(yki_queue_create(device, false, &queue));
        ASSERT_OK(sets->measure(queue, &problem, seeds[0], &seconds));
        ck_assert_double_gt(seconds, 0);
        ck_assert_int_eq(sets->measure(queue, &problem, 1u << 30, &seconds), YOKE_ERROR_VALUE);
        yki_queue_destroy(queue);
    }
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

START_TEST(dense_names_its_parameters)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(6));
    yoke_dense(g, yoke_dense(g, x, &(yoke_dense_options){.units = 4, .name = "fc"}),
               &(yoke_dense_options){.units = 3, .no_bias = true});
    ASSERT_OK(yoke_graph_status(g));
    ck_assert_uint_eq(yoke_graph_parameter_count(g), 3);
    ck_assert(
        yki_shape_equal(yoke_node_shape(yoke_graph_get_node(g, "fc.weight")), yoke_shape(4, 6)));
    ck_assert(yki_shape_equal(yoke_node_shape(yoke_graph_get_node(g, "fc.bias")), yoke_shape(4)));
    ck_assert(yki_shape_equal(yoke_node_shape(yoke_graph_get_node(g, "dense1.weight")),
                              yoke_shape(3, 4)));
    yoke_graph_destroy(g);
}
END_TEST

/* Builds something wrong; the graph's error must be `status` and its detail hold both texts. */
static void
expect_error(int what, yoke_status status, const char *first, const char *second)
{
    yoke_graph *g;
    yoke_node *x, *i, *m, *d;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(3, 4));
    i = yoke_input(g, "i", YOKE_I32, yoke_shape(4, 4));
    m = yoke_input(g, "m", YOKE_F32, yoke_shape(5, 6));
    d = yoke_input(g, "d", YOKE_F32, yoke_shape(2, 3, 4, 6));
    switch (what) {
    case 0:
        yoke_matmul(g, x, m, NULL);
        break;
    case 1:
        yoke_matmul(g, x, i, NULL);
        break;
    case 2:
        yoke_matmul(g, yoke_input(g, "s", YOKE_F32, yoke_shape()), m, NULL);
        break;
    case 3:
        yoke_matmul(g, yoke_input(g, "t", YOKE_F32, yoke_shape(3, 3, 4)), d, NULL);
        yoke_matmul(g, yoke_input(g, "u", YOKE_F32, yoke_shape(5, 3, 4)), d, NULL);
        break;
    case 4:
        yoke_dense(g, x, NULL);
        break;
    case 5:
        yoke_dense(g, x, &(yoke_dense_options){.units = -3, .name = "fc"});
        break;
    default:
        yoke_dense(g, yoke_input(g, "v", YOKE_F32, yoke_shape()),
                   &(yoke_dense_options){.units = 2});
    }
    ck_assert_int_eq(yoke_graph_status(g), status);
    ck_assert_msg(strstr(yoke_last_error(), first) && strstr(yoke_last_error(), second),
                  "error %d says: %s", what, yoke_last_error());
    yoke_graph_destroy(g);
}

START_TEST(errors_name_node_and_shapes)
{
    expect_error(0, YOKE_ERROR_SHAPE, "matmul1", "(3, 4) and (5, 6)");
    expect_error(1, YOKE_ERROR_TYPE, "matmul1", "the input \"i\" has type i32; must be f32");
    expect_error(2, YOKE_ERROR_SHAPE, "matmul1", "has shape (); must be (..., M, K)");
    expect_error(3, YOKE_ERROR_SHAPE, "matmul", "(5, 3, 4) and (2, 3, 4, 6)");
    expect_error(4, YOKE_ERROR_INVALID_ARGUMENT, "dense1", "units is 0");
    expect_error(5, YOKE_ERROR_INVALID_ARGUMENT, "fc", "units is -3");
    expect_error(6, YOKE_ERROR_SHAPE, "dense1", "()");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("matmul");
    TCase *tcase = test_case(suite, "matmul");

    tcase_add_loop_test(tcase, products_match_oracle, 0, (int)YKI_COUNT(products));
    tcase_add_loop_test(tcase, sizes_match_oracle, 0, 4 * (int)YKI_COUNT(sizes));
    tcase_add_loop_test(tcase, dense_matches_oracle, 0, (int)YKI_COUNT(layers));
    tcase_add_test(tcase, epilogue_matches_oracle);
    tcase_add_test(tcase, long_sums_match_oracle);
    tcase_add_test(tcase, tilings_give_equal_bits);
    tcase_add_test(tcase, the_face_copies_ahead);
    tcase_add_test(tcase, clblast_sets_are_numbers);
    tcase_add_test(tcase, dense_names_its_parameters);
    tcase_add_test(tcase, errors_name_node_and_shapes);
    /* A cold CLBlast takes many seconds to compile where there are few cores. */
    tcase = test_case(suite, "clblast");
    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, clblast_matches_oracle);
    tcase_add_test(tcase, clblast_set_is_measured);
    return suite;
}
