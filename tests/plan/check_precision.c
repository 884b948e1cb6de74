/* SPDX-License-Identifier: Apache-2.0
 *
 * check_precision.c - which products a plan rounds to bfloat16: as the text says, node by node, the
 * gradients as the node that they belong to; and what is refused.
 */
#include <string.h>

#include "support/planning.h"
#include "support/support.h"

enum { BATCH = 4, WIDTH = 48, CLASSES = 40 };

static yoke_graph *
network(void)
{
    yoke_graph *g;
    yoke_node *x, *y, *label;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    y = yoke_dense(g, x, &(yoke_dense_options){.units = WIDTH, .name = "first"});
    y = yoke_dense(g, yoke_relu(g, y), &(yoke_dense_options){.units = CLASSES, .name = "second"});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
    return g;
}

/* Counts the products of a node and of its gradients, and those of them that are rounded. */
static void
count(const yki_plan *plan, const char *name, size_t *products, size_t *rounded)
{
    *products = *rounded = 0;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];
        const yoke_node *node = task->node && task->node->origin ? task->node->origin : task->node;

        if (!task->solver || !yki_has_products(task->problem.op) || strcmp(node->name, name) != 0)
            continue;
        ++*products;
        *rounded += task->solver->numerical_class == YKI_CLASS_BF16;
    }
}

typedef struct wish {
    const char *precision;
    bool strict, first, second; /* whether that layer is rounded */
} wish;

static const wish wishes[] = {
    {NULL, true, false, false},
    {"f32", true, false, false},
    {"bf16", true, true, true},
    {"first=f32,bf16", true, false, true},
    {"bf16,first=f32", true, false, true},
    {"f*=bf16", true, true, false},
    {"first=bf16,*=f32", true, true, false},
    {"bf16", false, true, true}, /* where the device has a unit */
};

START_TEST(products_are_rounded_as_the_text_says)
{
    const wish *w = &wishes[_i];
    yki_plan_options options = {.max.batch = BATCH,
                                .training = true,
                                .no_fusion = true,
                                .level = YOKE_PLAN_ESTIMATE,
                                .strict = w->strict,
                                .precision = w->precision};
    const char *names[] = {"first", "second"};
    yoke_graph *g;
    planning m;
    yki_plan *p;

    planning_open(&m, test_selector(), network());
    yki_weights_release(m.weights); /* which have no gradients */
    g = network();
    ASSERT_OK(yki_weights_create(m.device, g, true, 0, NULL, &m.weights));
    yoke_graph_destroy(g);
    options.wisdom = m.wisdom;
    ASSERT_OK(yki_plan_create(m.weights, m.queue, &options, &p));
    for (int i = 0; i < 2; i++) {
        bool unit = yki_has_bf16(yki_device_get_traits(m.device));
        bool wanted = (i == 0 ? w->first : w->second) && (w->strict || unit);
        size_t products, rounded;

        count(p, names[i], &products, &rounded);
        ck_assert_uint_eq(products, i == 0 ? 2 : 3);
        ck_assert_uint_eq(rounded, wanted ? products : 0);
    }
    yki_plan_destroy(p);
    planning_close(&m);
}
END_TEST

START_TEST(other_texts_are_refused)
{
    static const struct {
        const char *text, *detail;
        yoke_status status;
    } wrong[] = {
        {"bf17", "\"bf17\"; must be f32 or bf16", YOKE_ERROR_INVALID_ARGUMENT},
        {"", "\"\"; must be f32 or bf16", YOKE_ERROR_INVALID_ARGUMENT},
        {"bf16,", "\"\"; must be", YOKE_ERROR_INVALID_ARGUMENT},
        {"first=", "\"\"; must be", YOKE_ERROR_INVALID_ARGUMENT},
        {"=bf16", "a pattern has 0 characters", YOKE_ERROR_INVALID_ARGUMENT},
        {"bf16,f32", "two kinds without a pattern", YOKE_ERROR_INVALID_ARGUMENT},
        {"third=bf16", "no node matches \"third\"", YOKE_ERROR_NOT_FOUND},
    };
    yoke_graph *g = network();

    for (size_t i = 0; i < YKI_COUNT(wrong); i++) {
        ck_assert_int_eq(yki_precision_check(wrong[i].text, g), wrong[i].status);
        ck_assert_msg(strstr(yoke_last_error(), wrong[i].detail), "%s: %s", wrong[i].text,
                      yoke_last_error());
    }
    ASSERT_OK(yki_precision_check(NULL, g));
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("precision");
    TCase *tcase = test_case(suite, "precision");

    tcase_add_loop_test(tcase, products_are_rounded_as_the_text_says, 0, (int)YKI_COUNT(wishes));
    tcase_add_test(tcase, other_texts_are_refused);
    return suite;
}
