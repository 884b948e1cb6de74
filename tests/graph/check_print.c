/* SPDX-License-Identifier: Apache-2.0
 *
 * check_print.c - a graph as a table, word by word, and as a hash that tells any
 * two graphs apart.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "op/ops.h"
#include "support/support.h"

/* What makes graphs differ, one at a time. */
typedef enum change {
    SAME,
    INPUT_NAME,
    INPUT_SIZE,
    LAYER_NAME,
    UNITS,
    PROBABILITY,
    AXIS,
    ORDER,
    NO_OUTPUT,
    OUTPUT_NAME,
    OTHER_OUTPUT,
    NO_LOSS,
    METRIC,
    MORE,
    CHANGES
} change;

static yoke_graph *
network(change c)
{
    yoke_graph *g;
    yoke_node *x, *h, *y;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, c == INPUT_NAME ? "letters" : "tokens", YOKE_I32,
                   yoke_shape(c == INPUT_SIZE ? 13 : 12));
    h = yoke_embedding(g, x,
                       &(yoke_embedding_options){
                           .rows = 1000, .width = 8, .name = c == LAYER_NAME ? "table" : NULL});
    h = yoke_dropout(g, h, c == PROBABILITY ? 0.5f : 0.25f);
    h = yoke_softmax(g, h, c == AXIS ? 0 : 1);
    y = yoke_dense(g, yoke_flatten(g, h), &(yoke_dense_options){.units = c == UNITS ? 4 : 5});
    y = c == ORDER ? yoke_sub(g, y, yoke_tanh(g, y)) : yoke_sub(g, yoke_tanh(g, y), y);
    if (c == MORE)
        yoke_relu(g, y);
    if (c != NO_OUTPUT)
        yoke_graph_set_output(g, c == OUTPUT_NAME ? "z" : "y", c == OTHER_OUTPUT ? h : y);
    if (c != NO_LOSS)
        yoke_graph_set_loss(g, yoke_mean(g, y, NULL, 0));
    if (c == METRIC)
        yoke_graph_add_metric(g, "m", yoke_graph_get_node(g, "mean1"));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

typedef struct page {
    char text[4096];
    size_t used;
} page;

static void
take(void *user, const char *line)
{
    page *p = user;

    p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, "%s\n", line);
}

/* clang-format off */
static const char expected[] =
    "layer       operator                      result   parameters   FLOPs\n"
    "tokens      input i32                     (12)              0       0\n"
    "embedding1  embedding rows 1000, width 8  (12, 8)        8000       0\n"
    "dropout1    dropout probability 0.25      (12, 8)           0      96\n"
    "softmax1    softmax axis 1                (12, 8)           0     480\n"
    "flatten1    flatten                       (96)              0       0\n"
    "dense1      dense units 5                 (5)             485     960\n"
    "tanh1       tanh                          (5)               0      40\n"
    "sub1        sub                           (5)               0       5\n"
    "mean1       mean axes 0                   ()                0       5\n"
    "total                                                    8485  1.59 k\n";
/* clang-format on */

START_TEST(table_is_as_expected)
{
    yoke_graph *g = network(SAME);
    page first = {.used = 0}, second = {.used = 0};
    yoke_graph_counts counts;

    ASSERT_OK(yoke_graph_count(g, &counts));
    ck_assert_int_eq(counts.parameters, 8485);
    ck_assert_int_eq(counts.frozen, 0);
    ck_assert_double_eq(counts.flops, 1586);
    ASSERT_OK(yoke_graph_print(g, take, &first));
    ck_assert_str_eq(first.text, expected);
    /* What compiling adds is no part of it. */
    ASSERT_OK(yki_graph_differentiate(g, &yki_op_binary, &yki_op_ones, NULL, 0));
    ASSERT_OK(yoke_graph_print(g, take, &second));
    ck_assert_str_eq(second.text, expected);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(shared_and_frozen_parameters_count_once)
{
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    page p = {.used = 0};
    yoke_graph_counts counts;
    yoke_graph *g;
    yoke_node *x, *w;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(3));
    w = yoke_parameter(g, "w", yoke_shape(3), init);
    yoke_parameter(g, "unused", yoke_shape(5), init);
    yoke_mul(g, yoke_add(g, x, w), w);
    ASSERT_OK(yoke_graph_freeze(g, "w"));
    ASSERT_OK(yoke_graph_print(g, take, &p));
    ck_assert_str_eq(p.text, "layer  operator   result  parameters  FLOPs\n"
                             "x      input f32  (3)              0      0\n"
                             "add1   add        (3)              3      3\n"
                             "mul1   mul        (3)              0      3\n"
                             "total                              8      6\n"
                             "3 of the parameters are frozen\n");
    ASSERT_OK(yoke_graph_count(g, &counts));
    ck_assert_int_eq(counts.parameters, 8);
    ck_assert_int_eq(counts.frozen, 3);
    ck_assert_double_eq(counts.flops, 6);
    counts.flops = -1;
    ASSERT_OK(yoke_graph_count_sized(g, &counts, offsetof(yoke_graph_counts, flops)));
    ck_assert_double_eq(counts.flops, -1);
    yoke_graph_destroy(g);
}
END_TEST

/* A layer has one row, whatever it is made of, with the options that its user gave. */
START_TEST(layers_are_told_as_they_were_written)
{
    yoke_graph *g;
    yoke_node *x;
    page p = {.used = 0};

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(2, 4, 4));
    x = yoke_conv_transpose2d(
        g, x, &(yoke_conv_transpose2d_options){.filters = 3, .kernel = {2, 2}, .stride = {2, 2}});
    x = yoke_batch_norm(g, x, &(yoke_batch_norm_options){.epsilon = 1e-4f});
    x = yoke_leaky_relu(g, yoke_batch_norm(g, x, NULL), 0.1f);
    ASSERT_OK(yoke_graph_print(g, take, &p));
    ck_assert_ptr_nonnull(strstr(
        p.text, "convt1       conv_transpose2d filters 3, kernel 2x2, stride 2x2  (3, 8, 8)"));
    ck_assert_ptr_nonnull(strstr(p.text, "\nbn1          batch_norm epsilon 0.0001  "));
    ck_assert_ptr_nonnull(strstr(p.text, "\nbn2          batch_norm   "));
    ck_assert_ptr_nonnull(strstr(p.text, "\nleaky_relu1  leaky_relu slope 0.1  "));
    ck_assert_ptr_null(strstr(p.text, "bn_"));
    ck_assert_ptr_null(strstr(p.text, "stats"));
    yoke_graph_destroy(g);
}
END_TEST

/* Of a loss, what it needs counts, in a sequence for each row. */
START_TEST(flops_are_those_of_the_loss)
{
    yoke_graph_counts counts;
    yoke_graph *g;
    yoke_node *x, *y;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_sequence(g, yoke_input(g, "x", YOKE_F32, yoke_shape(6, 3)));
    y = yoke_dense(g, x, &(yoke_dense_options){.units = 4});
    ASSERT_OK(yoke_graph_count(g, &counts));
    ck_assert_double_eq(counts.flops, 6 * 2 * 3 * 4);
    yoke_graph_set_output(g, "more", yoke_dense(g, y, &(yoke_dense_options){.units = 9}));
    yoke_graph_set_loss(g, yoke_mean(g, y, NULL, 0));
    ASSERT_OK(yoke_graph_count(g, &counts));
    ck_assert_double_eq(counts.flops, 6 * (2 * 3 * 4 + 4));
    ck_assert_int_eq(counts.activations, 6 * (4 + 1));
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(table_refuses_what_is_no_graph)
{
    yoke_graph_counts counts;
    yoke_graph *g;
    page p = {.used = 0};

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_print(NULL, take, &p));
    ASSERT_OK(yoke_graph_create(&g));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_print(g, NULL, NULL));
    yoke_relu(g, NULL);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_print(g, take, &p));
    ASSERT_DETAIL("relu1");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_count(NULL, &counts));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_count(g, NULL));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_graph_count(g, &counts));
    ASSERT_DETAIL("relu1");
    ck_assert_uint_eq(p.used, 0);
    yoke_graph_destroy(g);
}
END_TEST

static void
hex_of(yoke_graph *g, char hex[33])
{
    yki_hash hash;

    yki_graph_hash(g, &hash);
    yki_hash_hex(&hash, hex);
}

START_TEST(hash_tells_graphs_apart)
{
    char hexes[CHANGES][33];

    for (int c = 0; c < CHANGES; c++) {
        yoke_graph *g = network((change)c);

        hex_of(g, hexes[c]);
        yoke_graph_destroy(g);
        for (int k = 0; k < c; k++)
            ck_assert_msg(strcmp(hexes[c], hexes[k]) != 0, "changes %d and %d: one hash", c, k);
    }
}
END_TEST

START_TEST(hash_of_the_same_graph_is_the_same)
{
    yoke_graph *g = network(SAME), *again = network(SAME);
    char first[33], second[33];

    hex_of(g, first);
    hex_of(again, second);
    ck_assert_str_eq(first, second);
    /* Neither compiling nor freezing changes what the graph is. */
    ASSERT_OK(yoke_graph_freeze(g, "embedding1.weight"));
    ASSERT_OK(yki_graph_differentiate(g, &yki_op_binary, &yki_op_ones, NULL, 0));
    hex_of(g, second);
    ck_assert_str_eq(first, second);
    yoke_graph_destroy(g);
    yoke_graph_destroy(again);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("print");
    TCase *tcase = test_case(suite, "print");

    tcase_add_test(tcase, table_is_as_expected);
    tcase_add_test(tcase, layers_are_told_as_they_were_written);
    tcase_add_test(tcase, shared_and_frozen_parameters_count_once);
    tcase_add_test(tcase, flops_are_those_of_the_loss);
    tcase_add_test(tcase, table_refuses_what_is_no_graph);
    tcase_add_test(tcase, hash_tells_graphs_apart);
    tcase_add_test(tcase, hash_of_the_same_graph_is_the_same);
    return suite;
}
