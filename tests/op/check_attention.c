/* SPDX-License-Identifier: Apache-2.0
 *
 * check_attention.c - attention and its gradient: lengths around the blocks of queries
 * and keys, widths around a vector, shared keys, causal or not, samples of unequal
 * length; heads of 32 to 128, which GPUs compute as tiles; scores that no exponent could take;
 * memory, which grows as the length does; and what is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "alone.h"
#include "harness.h"

typedef struct attention_case {
    int64_t length, width;
    int32_t heads, shared;
    bool causal, lengths;
    float dropout;
} attention_case;

static const attention_case cases[] = {
    {1, 1, 1, 1, false, false, 0},    {3, 4, 2, 2, true, false, 0},
    {5, 3, 4, 2, true, true, 0},      {32, 16, 2, 1, true, false, 0},
    {33, 17, 1, 1, false, true, 0},   {64, 64, 1, 1, true, false, 0},
    {65, 80, 2, 2, true, true, 0},    {97, 20, 3, 1, false, false, 0},
    {130, 16, 2, 2, true, false, 0},  {200, 32, 1, 1, false, false, 0},
    {5, 64, 2, 1, true, true, 0},     {130, 64, 1, 1, false, true, 0},
    {97, 128, 2, 1, true, true, 0},   {2, 64, 1, 1, true, true, 0},
    {71, 17, 4, 2, true, true, 0.3f}, {130, 64, 2, 1, true, false, 0.5f},
    {3, 64, 2, 1, false, true, 0.1f}, {3, 32, 2, 1, true, true, 0.1f},
};

START_TEST(attention_matches_oracle)
{
    const attention_case *c = &cases[_i];
    yoke_attention_options o = {
        .heads = c->heads, .shared = c->shared, .causal = c->causal, .dropout = c->dropout};
    /* Simulators run tiles of these, which have as many work-items for few rows. */
    const bool tiny = c->length <= 3 && c->width >= 32;
    yoke_node *x, *lengths = NULL;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(c->length, (c->heads + 2 * c->shared) * c->width));
    if (c->lengths)
        lengths = yoke_input(g, "lengths", YOKE_I32, yoke_shape());
    op_check_graph(g, yoke_attention(g, x, lengths, &o),
                   &(op_check_options){.batch = c->length > 64 || tiny ? 2 : 4,
                                       .labels = (int32_t)c->length + 1,
                                       .simulator_flops = tiny ? 100000 : 0,
                                       .may_be_refused = true});
}
END_TEST

/* Scores of thousands, which are exact here: float could not tell such scores apart otherwise. */
START_TEST(large_scores_are_finite)
{
    yoke_attention_options o = {.heads = 2, .causal = _i, .scale = 1000};
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(70, 24));
    op_check_graph(g, yoke_attention(g, x, NULL, &o),
                   &(op_check_options){.whole = true, .no_gradient = true, .may_be_refused = true});
}
END_TEST

/* ---- tiles ---- */

/* More rows than keys that are taken together; two heads share keys. */
enum { TILED_LENGTH = 70, TILED_HEADS = 2, TILED_BATCH = 2, TILED_ARRAYS = 5 };

/* What attention and its gradient read and write. */
typedef struct tiled_values {
    float *x, *y, *lse, *dy, *dx;
    int32_t *lengths; /* NULL: all rows are there */
} tiled_values;

/* Runs both by the solver that alone_only and alone_last name. */
static void
run_both(const yki_problem *forward, const yki_problem *gradient, unsigned tuning,
         const tiled_values *v)
{
    void *const to[] = {v->x, v->y, v->lse}, *const back[] = {v->x, v->y, v->dy, v->lse, v->dx};
    void *const to_length[] = {v->x, v->lengths, v->y, v->lse};
    void *const back_length[] = {v->x, v->y, v->dy, v->lse, v->lengths, v->dx};

    alone_run(forward, tuning, TILED_BATCH, v->lengths ? to_length : to);
    alone_run(gradient, tuning, TILED_BATCH, v->lengths ? back_length : back);
}

/* Every tile gives the same bits, which are near those of the processor's kernels; the last piece
 * of a head is whole or narrow. Causal, or over what is there of samples of unequal length. */
START_TEST(tiles_give_equal_bits)
{
    /* Of the first two one has a narrow piece, and each has tiles of its own. */
    static const int32_t widths[] = {32, 80, 48, 112};
    const yki_attention_attrs attrs = {.heads = TILED_HEADS,
                                       .shared = 1,
                                       .width = widths[_i],
                                       .causal = _i % 2 == 0,
                                       .lengths = _i % 2,
                                       .lse = 1,
                                       .scale = 0.2f};
    const int64_t columns = TILED_HEADS * widths[_i], packed = columns + 2 * widths[_i];
    const yki_operand x = alone_tensor(YOKE_F32, true, yoke_shape(TILED_LENGTH, packed));
    const yki_operand y = alone_tensor(YOKE_F32, true, yoke_shape(TILED_LENGTH, columns));
    const yki_operand lse = alone_tensor(YOKE_F32, true, yoke_shape(TILED_HEADS, TILED_LENGTH));
    const yki_operand some = alone_tensor(YOKE_I32, true, yoke_shape());
    int32_t lengths[TILED_BATCH] = {TILED_LENGTH - 3, 5};
    yki_problem forward = {.op = &yki_op_attention,
                           .input_count = attrs.lengths ? 2 : 1,
                           .in = {x, some},
                           .out = y,
                           .extra_count = 1,
                           .extra = {lse},
                           .max.batch = TILED_BATCH};
    yki_problem gradient = {.op = &yki_op_attention_grad,
                            .input_count = attrs.lengths ? 5 : 4,
                            .in = {x, y, y, lse, some},
                            .out = x,
                            .max.batch = TILED_BATCH};
    const size_t size_x = (size_t)(TILED_BATCH * TILED_LENGTH * packed);
    const size_t size_y = (size_t)(TILED_BATCH * TILED_LENGTH * columns);
    const size_t size_lse = TILED_BATCH * TILED_LENGTH * TILED_HEADS;
    const size_t sizes[TILED_ARRAYS] = {size_x, size_y, size_lse, size_y, size_x};
    float *arrays[3][TILED_ARRAYS];
    tiled_values v[3];
    unsigned tunings;

    SKIP_ON_SIMULATOR;
    SKIP_SLOW_ATTENTION;
    yki_attention_attrs_set(&forward.attrs, &attrs);
    yki_attention_attrs_set(&gradient.attrs, &attrs);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < TILED_ARRAYS; i++)
            arrays[k][i] = malloc(sizes[i] * sizeof(float));
        v[k] = (tiled_values){arrays[k][0], arrays[k][1], arrays[k][2],
                              arrays[k][3], arrays[k][4], attrs.lengths ? lengths : NULL};
        alone_fill(v[k].x, size_x, 1);
        alone_fill(v[k].dy, size_y, 2);
    }
    alone_open();
    alone_traits.type = YOKE_DEVICE_GPU; /* all tiles for which there is room */
    alone_last = true;
    run_both(&forward, &gradient, 0, &v[0]);
    alone_only = "tiled";
    tunings = alone_solver(&forward, false)->tunings(&forward, &alone_traits);
    ck_assert_uint_eq(tunings, alone_solver(&gradient, false)->tunings(&gradient, &alone_traits));
    if (alone_traits.max_group >= 256 && alone_traits.local_memory >= 49152)
        ck_assert_uint_eq(tunings, widths[_i] <= 64 ? 5 : 2);
    if (test_in_short())
        tunings = YKI_MIN(tunings, 2u);
    for (unsigned tuning = 0; tuning < tunings; tuning++) {
        tiled_values *got = &v[tuning ? 2 : 1];

        run_both(&forward, &gradient, tuning, got);
        for (int i = 0; i < TILED_ARRAYS; i++) {
            alone_near(arrays[1][i], arrays[0][i], (int64_t)sizes[i]);
            if (tuning)
                ck_assert_msg(memcmp(arrays[1][i], arrays[2][i], sizes[i] * sizeof(float)) == 0,
                              "tuning %u: array %d differs", tuning, i);
        }
    }
    alone_close();
    for (int i = 0; i < 3 * TILED_ARRAYS; i++)
        free(arrays[i / TILED_ARRAYS][i % TILED_ARRAYS]);
}
END_TEST

/* ---- memory ---- */

/* Two heads of 32, so that tiles apply; the gradient by x. */
static yoke_graph *
long_graph(int64_t length)
{
    const yoke_attention_options o = {.heads = 2, .shared = 1, .causal = true};
    yoke_node *x, *y, *dy;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(length, 4 * 32));
    y = yoke_attention(g, x, NULL, &o);
    dy = yoke_input(g, "dy", YOKE_F32, yoke_shape(length, 2 * 32));
    ASSERT_OK(yki_graph_differentiate_from(g, op_sum_of_two, y, dy, &x, 1));
    return g;
}

/* Returns what a solver needs for a node, operands included, or 0 if it does not apply. */
static int64_t
bytes_of(const yki_solver *solver, unsigned tuning, const yoke_node *node,
         const yki_device_traits *traits)
{
    const yki_extents max = {.batch = 16};
    yki_problem problem;
    yki_recipe recipe;
    int64_t bytes = 0;

    yki_problem_of_node(node, max, &problem);
    if (*solver->op != node->op || !solver->applies(&problem, traits) ||
        tuning >= (solver->tunings ? solver->tunings(&problem, traits) : 1))
        return 0;
    ASSERT_OK(yki_solver_emit(solver, &problem, traits, tuning, &recipe));
    for (uint32_t i = 0; i < recipe.slot_count; i++)
        bytes += yki_expr_value(recipe.slots[i].bytes, max);
    yki_recipe_clear(&recipe);
    return bytes;
}

/* No solver keeps the scores, forward or backward: of four times the length they would be 16 times
 * as many. There are as many samples as groups, more of which would have scratch of their own. */
START_TEST(memory_grows_as_the_length_does)
{
    enum { LENGTH = 128, MOST_TUNINGS = 8 };
    const yki_device_traits traits = {.compute_units = 4,
                                      .vector_width = _i ? 1 : 8,
                                      .local_memory = 49152,
                                      .max_group = 256,
                                      .type = _i ? YOKE_DEVICE_GPU : YOKE_DEVICE_CPU};
    yoke_graph *few = long_graph(LENGTH), *many = long_graph(4 * LENGTH);
    unsigned tried = 0;

    ck_assert_uint_eq(few->node_count, many->node_count);
    for (size_t i = 0; i < few->node_count; i++)
        for (const yki_solver *const *s = yki_solvers; *s; s++)
            for (unsigned tuning = 0; few->nodes[i]->op && tuning < MOST_TUNINGS; tuning++) {
                int64_t bytes = bytes_of(*s, tuning, few->nodes[i], &traits);

                tried += bytes > 0;
                ck_assert_msg(bytes_of(*s, tuning, many->nodes[i], &traits) <= 4 * bytes,
                              "%s, tuning %u", (*s)->name, tuning);
            }
    /* Forward, the logarithms and the gradient: as tiles, of which a GPU has five, and plainly. */
    ck_assert_uint_eq(tried, _i ? 3 * (5 + 1) : 3 * (1 + 1));
    yoke_graph_destroy(few);
    yoke_graph_destroy(many);
}
END_TEST

typedef struct refused {
    yoke_shape shape;
    yoke_attention_options options;
    yoke_status status;
    const char *sentence;
} refused;

START_TEST(attention_names_what_does_not_fit)
{
    const refused list[] = {
        {yoke_shape(4, 6),
         {.heads = 0},
         YOKE_ERROR_INVALID_ARGUMENT,
         "attention1: heads is 0; must be between 1 and 1024"},
        {yoke_shape(4, 12),
         {.heads = 4, .shared = 3},
         YOKE_ERROR_INVALID_ARGUMENT,
         "attention1: shared is 3; must divide heads, which is 4"},
        {yoke_shape(12),
         {.heads = 2},
         YOKE_ERROR_SHAPE,
         "attention1: the input \"x\" has shape (12); must be (length, columns)"},
        {yoke_shape(4, 13),
         {.heads = 2, .shared = 1},
         YOKE_ERROR_SHAPE,
         "attention1: the input \"x\" has 13 columns; must be a multiple of 4 (2 heads of queries, "
         "1 of keys and 1 of values), each at most 256 wide"},
        {yoke_shape(4, 12),
         {.heads = 2, .scale = -1},
         YOKE_ERROR_INVALID_ARGUMENT,
         "attention1: scale is -1; must be between 0 and 1e+30"},
        {yoke_shape(4, 12),
         {.heads = 2, .dropout = 1},
         YOKE_ERROR_VALUE,
         "attention1: dropout is 1; must be at least 0 and below 1"},
        {yoke_shape(65537, 12),
         {.heads = 2, .dropout = 0.1f},
         YOKE_ERROR_UNSUPPORTED,
         "attention1: the length of samples with dropout is 65537; must be between 0 and 65536"},
    };
    const refused *r = &list[_i];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(
        yoke_attention(g, yoke_input(g, "x", YOKE_F32, r->shape), NULL, &r->options));
    ASSERT_STATUS(r->status, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), r->sentence);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(lengths_are_one_integer_a_sample)
{
    yoke_attention_options o = {.heads = 2};
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(4, 12));
    yoke_attention(g, x, yoke_input(g, "lengths", YOKE_I32, yoke_shape(4)), &o);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("the lengths \"lengths\" has shape (4); must be (), one number for each sample");
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(4, 12));
    yoke_attention(g, x, yoke_input(g, "lengths", YOKE_F32, yoke_shape()), &o);
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_graph_status(g));
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("attention");
    TCase *tcase = test_case(suite, "attention");

    tcase_add_loop_test(tcase, attention_matches_oracle, 0, (int)YKI_COUNT(cases));
    tcase_add_loop_test(tcase, large_scores_are_finite, 0, 2);
    tcase_add_loop_test(tcase, attention_names_what_does_not_fit, 0, 7);
    tcase_add_test(tcase, lengths_are_one_integer_a_sample);
    tcase_add_loop_test(tcase, memory_grows_as_the_length_does, 0, 2);
    tcase = test_case(suite, "tiles");
    tcase_add_loop_test(tcase, tiles_give_equal_bits, 0, getenv("YOKE_TEST_QUICK") ? 2 : 4);
    return suite;
}
