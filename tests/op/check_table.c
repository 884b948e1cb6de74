/* SPDX-License-Identifier: Apache-2.0
 *
 * check_table.c - what an operator needs to be whole: says of each what it lacks.
 *
 * Inside, an operator has a solver, an oracle with a tolerance, and a small graph, which the tests
 * of NaN and JSON walk; outside, a function of yoke-graph.h, a word in files of graphs, an entry in
 * the manual.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/graph_json.h"
#include "oracles.h"
#include "plan/plan.h"
#include "small_graphs.h"

/* Views move nothing, and what only fusions, teams or generators make is compared with its pieces
 * (check_joined.c, check_convert.c), by whole teams, or with the whole graph (check_rows.c,
 * replica/check_generator.c); what only sequences have with graphs that have none (check_rows.c,
 * replica/check_sequences.c). */
static bool
is_compared_otherwise(const yki_op *op)
{
    return op == &yki_op_bn_layer || op == &yki_op_bn_layer_grad ||
           op == &yki_op_layer_norm_grads || op == &yki_op_fused_loss || op == &yki_op_dense_loss ||
           op == &yki_op_matmul_pair || op == &yki_op_merge || op == &yki_op_loss_scale ||
           op == &yki_op_narrow || op == &yki_op_widen || op == &yki_op_attention_step ||
           op == &yki_op_position_sum || op == &yki_op_conv_pooled ||
           op == &yki_op_conv_pooled_grad || op == &yki_op_conv2d_grads ||
           op == &yki_op_conv2d_parts || op == &yki_op_conv2d_grads_parts ||
           op == &yki_op_bn_apply_parts || op == &yki_op_bn_grad_parts;
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

/* ---- small graphs ---- */

static bool seen[256]; /* by the operator's place in yki_ops */

static void
see(const yki_op *op)
{
    for (size_t i = 0; op && yki_ops[i]; i++)
        if (yki_ops[i] == op)
            seen[i] = true;
}

/* The user's nodes have a form in JSON. Notes these, and what replaces them in evaluation. */
static void
see_own_nodes(const yoke_graph *g)
{
    for (size_t i = 0; i < yki_graph_own_count(g); i++) {
        const yoke_node *node = g->nodes[i];
        yoke_node *inputs[YKI_MAX_INPUTS];
        const yki_op *op = NULL;
        const yki_json_op *row;
        yki_json_options options;
        uint32_t count;

        if (!node->op)
            continue;
        ck_assert_msg(yki_json_of_node(node, &row, &options, &count) == YOKE_OK,
                      "%s: no form in JSON (lib/data/graph_json_ops.c)", node->op->name);
        if (node->op->evaluation)
            (void)node->op->evaluation(node, &op, inputs);
        see(op);
    }
}

/* Builds one as it is trained, so that its gradient's operators are there, too. */
static void
see_small_graph(const op_small_graph *row)
{
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    yoke_node *x, *y;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_mul(g, op_small_input(g, row), yoke_parameter(g, "p", yoke_shape(1), init));
    y = row->make(g, x);
    ck_assert_msg(y != NULL, "%s %s: %s", row->word, row->note, yoke_last_error());
    see_own_nodes(g);
    if (row->target != OP_NO_TARGET && row->stops_nan)
        yoke_graph_add_metric(g, "y", y);
    if (row->target != OP_NO_TARGET && !row->stops_nan)
        yoke_graph_set_loss(g, y);
    else
        yoke_graph_set_loss(g, yoke_mean(g, row->target == OP_NO_TARGET ? y : x, NULL, 0));
    ASSERT_OK(yki_graph_complete(g, true));
    for (size_t i = 0; i < g->node_count; i++)
        see(g->nodes[i]->op);
    yoke_graph_destroy(g);
}

START_TEST(small_graphs_have_all_operators)
{
    for (size_t i = 0; i < op_small_graph_count; i++)
        see_small_graph(&op_small_graphs[i]);
    for (size_t i = 0; yki_ops[i]; i++) {
        ck_assert_uint_lt(i, YKI_COUNT(seen));
        /* the planner alone makes reorder */
        ck_assert_msg(seen[i] || yki_ops[i] == &yki_op_reorder || is_compared_otherwise(yki_ops[i]),
                      "%s: in no small graph (tests/op/small_graphs.c)", yki_ops[i]->name);
    }
}
END_TEST

START_TEST(functions_have_small_graphs)
{
    const yki_json_op *op;

    for (size_t i = 0; (op = yki_json_op_at(i)) != NULL; i++) {
        size_t k = 0;

        while (k < op_small_graph_count && strcmp(op_small_graphs[k].word, op->name) != 0)
            k++;
        ck_assert_msg(k < op_small_graph_count || op->most == 0,
                      "%s: no small graph (tests/op/small_graphs.c)", op->name);
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

/* Whether a function makes several nodes (lib/op/composed.c): graphs in JSON have those. */
static bool
is_composed(const char *name)
{
    static const char *const names[] = {"conv1d", "group_norm", "prelu", "upsample2d"};

    for (size_t i = 0; i < YKI_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The reverse: every other function that makes a node is a word of graphs in JSON. */
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
        if (strcmp(name, "sequence") == 0)
            continue; /* is an option of inputs and targets there */
        if (strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_sized") == 0)
            name[strlen(name) - 6] = '\0';
        if (is_composed(name))
            continue;
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
    ck_assert_int_eq(YKI_UNARY_GELU_TANH, 9);
    ck_assert_int_eq(YKI_UNARY_EXP, 10);
    ck_assert_int_eq(YKI_UNARY_LOG, 11);
    ck_assert_int_eq(YKI_UNARY_SQRT, 12);
    ck_assert_int_eq(YKI_UNARY_ABS, 13);
    ck_assert_int_eq(YKI_UNARY_POW, 14);
    ck_assert_int_eq(YKI_BINARY_ADD, 0);
    ck_assert_int_eq(YKI_BINARY_SUB, 1);
    ck_assert_int_eq(YKI_BINARY_MUL, 2);
    ck_assert_int_eq(YKI_BINARY_DIV, 3);
    ck_assert_int_eq(YKI_BINARY_MAXIMUM, 4);
    ck_assert_int_eq(YKI_BINARY_MINIMUM, 5);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("table");
    TCase *tcase = test_case(suite, "table");

    tcase_add_test(tcase, operators_are_whole);
    tcase_add_test(tcase, solvers_have_operators);
    tcase_add_test(tcase, small_graphs_have_all_operators);
    tcase_add_test(tcase, functions_have_small_graphs);
    tcase_add_test(tcase, functions_are_told_of);
    tcase_add_test(tcase, functions_have_words);
    tcase_add_test(tcase, numbers_of_kinds_stay);
    return suite;
}
