/* SPDX-License-Identifier: Apache-2.0
 *
 * precision.c - in what the products of a plan are computed, node by node: reads the
 * text that users give. `f32` allows the solvers that do not round operands; `tf32`, `bf16`
 * and `f16` allow those that round to it as well, and the planner takes whichever is faster.
 */
#include <fnmatch.h>
#include <string.h>

#include "plan/plan.h"

enum { MAX_PATTERN = 256 };

/* One item of the list. */
typedef struct item {
    char pattern[MAX_PATTERN]; /* "": none */
    yki_class rounds;
} item;

/* The kinds, and the class that each allows. */
static const struct {
    const char *word;
    yki_class rounds;
} kinds[] = {{"f32", YKI_CLASS_DIRECT},
             {"tf32", YKI_CLASS_TF32},
             {"bf16", YKI_CLASS_BF16},
             {"f16", YKI_CLASS_F16}};

static bool
is_word(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && strncmp(text, word, length) == 0;
}

/* Reads the item at *at, and moves *at behind it, or to NULL after the last. */
static yoke_status
read_item(const char **at, item *found)
{
    const char *text = *at, *kind = text;
    size_t length = strcspn(text, ","), before = 0, i = 0;
    const char *equals = memchr(text, '=', length);

    found->pattern[0] = '\0';
    if (equals) {
        before = (size_t)(equals - text);
        kind = equals + 1;
        if (before == 0 || before >= MAX_PATTERN)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "precision: a pattern has %zu characters; must have 1 to %d", before,
                            MAX_PATTERN - 1);
        memcpy(found->pattern, text, before);
        found->pattern[before] = '\0';
        length -= before + 1;
    }
    while (i < YKI_COUNT(kinds) && !is_word(kind, length, kinds[i].word))
        i++;
    if (i == YKI_COUNT(kinds))
        return yki_fail(
            YOKE_ERROR_INVALID_ARGUMENT,
            "precision \"%.*s\"; must be f32, tf32, bf16 or f16, or a list such as head=f32,bf16",
            (int)YKI_MIN(length, 64u), kind);
    found->rounds = kinds[i].rounds;
    *at = kind[length] == ',' ? kind + length + 1 : NULL;
    return YOKE_OK;
}

/* Of a gradient the name of what it is the gradient of counts. */
static const char *
name_of(const yoke_node *node)
{
    return node->origin ? node->origin->name : node->name;
}

static bool
matches_a_node(const yoke_graph *graph, const char *pattern)
{
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op && fnmatch(pattern, name_of(graph->nodes[i]), 0) == 0)
            return true;
    return false;
}

const char *
yki_precision_text(const char *text)
{
    return text ? text : "f32";
}

yoke_status
yki_precision_check(const char *text, const yoke_graph *graph)
{
    bool has_kind = false;
    item found;

    while (text) {
        YKI_TRY(read_item(&text, &found));
        if (found.pattern[0] && !matches_a_node(graph, found.pattern))
            return yki_fail(YOKE_ERROR_NOT_FOUND, "precision: no node matches \"%s\"",
                            found.pattern);
        if (!found.pattern[0] && has_kind)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "precision has two kinds without a pattern; must have one");
        has_kind |= !found.pattern[0];
    }
    return YOKE_OK;
}

yki_class
yki_precision_of(const char *text, const yoke_node *node)
{
    const char *name = name_of(node);
    yki_class other = YKI_CLASS_DIRECT;
    item found;

    while (text && read_item(&text, &found) == YOKE_OK) {
        if (!found.pattern[0])
            other = found.rounds;
        else if (fnmatch(found.pattern, name, 0) == 0)
            return found.rounds;
    }
    return other;
}

bool
yki_has_class(const yki_op *op, yki_class numerical_class)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == op && (*s)->numerical_class == numerical_class)
            return true;
    return false;
}

bool
yki_precision_scales_loss(const char *text, const yoke_graph *graph)
{
    for (size_t i = 0; text && i < graph->node_count; i++) {
        const yoke_node *node = graph->nodes[i];

        if (node->op && yki_has_class(node->op, YKI_CLASS_F16) &&
            yki_precision_of(text, node) == YKI_CLASS_F16)
            return true;
    }
    return false;
}
