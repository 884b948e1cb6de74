/* SPDX-License-Identifier: Apache-2.0
 *
 * check_sequence.c - rotary positions and gates: widths around a vector, both pairings,
 * shared keys, positions far from 0, and what is refused.
 */
#include "harness.h"

typedef struct rope_case {
    int64_t length, width;
    int32_t heads, shared;
    bool interleaved, start;
    float base;
} rope_case;

static const rope_case cases[] = {
    {1, 2, 1, 1, false, false, 0},       {5, 4, 2, 1, true, false, 0},
    {7, 6, 3, 1, false, true, 0},        {9, 10, 2, 2, true, true, 500000},
    {33, 32, 2, 1, false, false, 0},     {17, 64, 1, 1, true, true, 0},
    {40, 64, 4, 2, false, true, 500000}, {3, 256, 2, 1, false, false, 1.5f},
};

START_TEST(rope_matches_oracle)
{
    const rope_case *c = &cases[_i];
    yoke_rope_options o = {
        .heads = c->heads, .shared = c->shared, .interleaved = c->interleaved, .base = c->base};
    yoke_node *x, *start = NULL;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(c->length, (c->heads + 2 * c->shared) * c->width));
    if (c->start)
        start = yoke_input(g, "start", YOKE_I32, yoke_shape());
    op_check_graph(g, yoke_rope(g, x, start, &o), &(op_check_options){.labels = 1000000});
}
END_TEST

START_TEST(swiglu_matches_oracle)
{
    const yoke_shape table[] = {
        {1, 0, {2}}, {1, 0, {34}}, {2, 0, {5, 96}}, {3, 0, {2, 3, 10}}, {2, 0, {4, 2600}}};
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    op_check_graph(g, yoke_swiglu(g, yoke_input(g, "x", YOKE_F32, table[_i / 2])),
                   &(op_check_options){.scale = _i % 2 ? 30 : 2, .no_differences = _i % 2});
}
END_TEST

typedef struct refused {
    yoke_shape shape;
    yoke_rope_options options;
    const char *sentence;
} refused;

START_TEST(rope_names_what_does_not_fit)
{
    const refused list[] = {
        {yoke_shape(4, 6), {.heads = 0}, "rope1: heads is 0; must be between 1 and 1024"},
        {yoke_shape(4, 12),
         {.heads = 4, .shared = 3},
         "rope1: shared is 3; must divide heads, which is 4"},
        {yoke_shape(4, 12),
         {.heads = 2, .base = 1},
         "rope1: base is 1; must be more than 1 and at most 1e+12"},
        {yoke_shape(12),
         {.heads = 2},
         "rope1: the input \"x\" has shape (12); must be (length, columns)"},
        {yoke_shape(4, 12),
         {.heads = 2, .shared = 1},
         "rope1: the input \"x\" has 12 columns; must be a multiple of 8 (2 heads of queries, 1 of "
         "keys and 1 of values, of even width), each at most 256 wide"},
    };
    const refused *r = &list[_i];
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(yoke_rope(g, yoke_input(g, "x", YOKE_F32, r->shape), NULL, &r->options));
    ck_assert_int_ne(yoke_graph_status(g), YOKE_OK);
    ck_assert_str_eq(yoke_last_error(), r->sentence);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(swiglu_needs_two_halves)
{
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    ck_assert_ptr_null(yoke_swiglu(g, yoke_input(g, "x", YOKE_F32, yoke_shape(4, 5))));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("the input \"x\" has shape (4, 5); must be (..., 2 C)");
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("sequence");
    TCase *tcase = test_case(suite, "sequence");

    tcase_add_loop_test(tcase, rope_matches_oracle, 0, (int)YKI_COUNT(cases));
    tcase_add_loop_test(tcase, swiglu_matches_oracle, 0, 10);
    tcase_add_loop_test(tcase, rope_names_what_does_not_fit, 0, 5);
    tcase_add_test(tcase, swiglu_needs_two_halves);
    return suite;
}
