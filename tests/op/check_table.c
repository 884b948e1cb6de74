/* SPDX-License-Identifier: Apache-2.0
 *
 * check_table.c - what an operator needs to be whole: says of each what it lacks.
 *
 * Inside, an operator has a solver, an oracle and a tolerance; outside, a function of yoke-graph.h,
 * an entry in the manual. The lists of activations (ops.h) make their rows in the tests of NaN and
 * JSON.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/graph_json.h"
#include "oracles.h"

/* Views move nothing, and what only fusions or teams make is compared with its pieces
 * (check_joined.c) or by whole teams. */
static bool
is_compared_otherwise(const yki_op *op)
{
    return op == &yki_op_fused_loss || op == &yki_op_matmul_pair || op == &yki_op_merge;
}

static bool
has_solver(const yki_op *op)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == op)
            return true;
    return false;
}

START_TEST(operators_are_whole)
{
    for (const yki_op *const *op = yki_ops; *op; op++) {
        const bool computes = has_solver(*op);

        if (is_compared_otherwise(*op))
            continue;
        ck_assert_msg(computes || *op == &yki_op_reshape,
                      "%s: no solver (YKI_SOLVERS in lib/op/ops.h)", (*op)->name);
        ck_assert_msg(op_find_row(*op) != NULL,
                      "%s: no oracle and tolerance (tests/op/oracle_<family>.c)", (*op)->name);
    }
}
END_TEST

/* What a solver computes is in the table. */
START_TEST(solvers_have_operators)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++) {
        const yki_op *const *op = yki_ops;

        while (*op && *op != *(*s)->op)
            op++;
        ck_assert_msg(*op != NULL, "%s: operator %s is not in YKI_OPS of lib/op/ops.h", (*s)->name,
                      (*(*s)->op)->name);
    }
}
END_TEST

static char *
read_source(const char *path)
{
    char *name = yki_format("%s/%s", getenv("YOKE_SRCDIR"), path), *text;
    FILE *file = fopen(name, "rb");
    size_t size;

    ck_assert_msg(file != NULL, "%s cannot be read", name);
    fseek(file, 0, SEEK_END);
    size = (size_t)ftell(file);
    rewind(file);
    text = calloc(size + 1, 1);
    ck_assert(text != NULL && fread(text, 1, size, file) == size);
    fclose(file);
    yki_free(name);
    return text;
}

/* Whether a page has an entry for the function: a line such as ".It Fn yoke_sum , Fn yoke_mean". */
static bool
has_entry(const char *page, const char *function)
{
    const char *line = page;

    while ((line = strstr(line, "\n.It Fn ")) != NULL) {
        const char *end = strchr(line + 1, '\n'), *name = strstr(line, function);

        while (name && name < end) {
            if (!isalnum((unsigned char)name[strlen(function)]) && name[strlen(function)] != '_')
                return true;
            name = strstr(name + 1, function);
        }
        line = end;
    }
    return false;
}

/* Every word that graphs in JSON know is a function with a contract and a manual page. */
START_TEST(functions_are_told_of)
{
    char *header = read_source("lib/yoke-graph.h"), *page = read_source("man/yoke_operators.3");
    char *nodes = read_source("man/yoke_graph.3");
    const yki_json_op *op;

    for (size_t i = 0; (op = yki_json_op_at(i)) != NULL; i++) {
        char *name = yki_format("yoke_%s", op->name);
        char *declared = yki_format(" *%s(", name), *inlined = yki_format("\n%s(", name);
        char *told = yki_format("\n.Fn %s\n", name); /* in a section of its own */

        ck_assert_msg(strstr(header, declared) || strstr(header, inlined),
                      "%s: not in lib/yoke-graph.h", op->name);
        ck_assert_msg(has_entry(page, name) || strstr(page, told) || strstr(nodes, told),
                      "%s: no entry in man/yoke_operators.3", op->name);
        yki_free(name);
        yki_free(declared);
        yki_free(inlined);
        yki_free(told);
    }
    free(header);
    free(page);
    free(nodes);
}
END_TEST

/* The reverse: every function that makes a node is a word of graphs in JSON. */
START_TEST(functions_have_words)
{
    static const char begin[] = "\nYOKE_API yoke_node *yoke_";
    char *header = read_source("lib/yoke-graph.h"), *at = header;
    int found = 0;

    while ((at = strstr(at, begin)) != NULL) {
        char name[64];

        at += sizeof begin - 1;
        ck_assert_int_eq(sscanf(at, "%63[a-z0-9_]", name), 1);
        if (strncmp(name, "graph_get_", 10) == 0)
            continue; /* finds a node */
        if (strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_sized") == 0)
            name[strlen(name) - 6] = '\0';
        ck_assert_msg(yki_json_find_op(name) != NULL, "%s: not in lib/data/graph_json_ops.c", name);
        found++;
    }
    ck_assert_int_ge(found, 40);
    free(header);
}
END_TEST

/* Checkpoints know a graph again by a hash, to which the kinds' numbers belong. */
START_TEST(numbers_of_kinds_stay)
{
    ck_assert_int_eq(YKI_UNARY_RELU, 0);
    ck_assert_int_eq(YKI_UNARY_LEAKY_RELU, 1);
    ck_assert_int_eq(YKI_UNARY_SIGMOID, 2);
    ck_assert_int_eq(YKI_UNARY_TANH, 3);
    ck_assert_int_eq(YKI_UNARY_GELU, 4);
    ck_assert_int_eq(YKI_UNARY_SILU, 5);
    ck_assert_int_eq(YKI_UNARY_SCALE, 6);
    ck_assert_int_eq(YKI_UNARY_HARDSWISH, 7);
    ck_assert_int_eq(YKI_UNARY_ELU, 8);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("table");
    TCase *tcase = test_case(suite, "table");

    tcase_add_test(tcase, operators_are_whole);
    tcase_add_test(tcase, solvers_have_operators);
    tcase_add_test(tcase, functions_are_told_of);
    tcase_add_test(tcase, functions_have_words);
    tcase_add_test(tcase, numbers_of_kinds_stay);
    return suite;
}
