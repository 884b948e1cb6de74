/* SPDX-License-Identifier: Apache-2.0
 *
 * check_attention.c - attention and its gradient: lengths around the blocks of queries
 * and keys, widths around a vector, shared keys, causal or not, samples of unequal
 * length; heads of 32 to 128, which GPUs compute as tiles; scores that no exponent could take; and
 * what is refused.
 */
#include <string.h>

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
    yoke_node *x, *lengths = NULL;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(c->length, (c->heads + 2 * c->shared) * c->width));
    if (c->lengths)
        lengths = yoke_input(g, "lengths", YOKE_I32, yoke_shape());
    op_check_graph(
        g, yoke_attention(g, x, lengths, &o),
        &(op_check_options){.batch = c->length > 64 ? 2 : 4,
                            .labels = (int32_t)c->length + 1,
                            .simulator_flops = c->length <= 3 && c->width >= 32 ? 100000 : 0,
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
    return suite;
}
