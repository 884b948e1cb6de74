/* SPDX-License-Identifier: Apache-2.0
 *
 * check_precision.c - which products a plan rounds to bfloat16, TF32 or half: as the text says,
 * node by node, the gradients as the node that they belong to; and what is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/planning.h"
#include "support/support.h"

#define F32  YKI_CLASS_DIRECT
#define BF16 YKI_CLASS_BF16
#define TF32 YKI_CLASS_TF32
#define F16  YKI_CLASS_F16

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

/* Counts the products of a node and of its gradients, and those of them in a class. */
static void
count(const yki_plan *plan, const char *name, yki_class wanted, size_t *products, size_t *rounded)
{
    *products = *rounded = 0;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];
        const yoke_node *node = task->node && task->node->origin ? task->node->origin : task->node;

        if (!task->solver || !yki_has_class(task->problem.op, BF16) ||
            strcmp(node->name, name) != 0)
            continue;
        ++*products;
        *rounded += task->solver->numerical_class == wanted;
    }
}

/* As planning_open, with weights that have gradients. */
static void
open_training(planning *m)
{
    yoke_graph *g = network();

    planning_open(m, test_selector(), network());
    yki_weights_release(m->weights);
    ASSERT_OK(yki_weights_create(m->device, g, true, 0, NULL, &m->weights));
    yoke_graph_destroy(g);
}

/* Finds the products that are the gradients of a layer, by its input and by its weight. */
static void
find_gradients(const yoke_graph *graph, const char *name, const yoke_node *gradients[2])
{
    int count = 0;

    for (size_t i = 0; i < graph->node_count; i++) {
        const yoke_node *node = graph->nodes[i];

        if (node->origin && node->op == &yki_op_matmul && strcmp(node->origin->name, name) == 0)
            gradients[count++] = node;
    }
    ck_assert_int_eq(count, 2);
}

/* Checks that a node has a task of that class, or is computed beside another one that has. */
static void
assert_class(const yki_plan *plan, const yoke_node *node, uint8_t wanted)
{
    int32_t value = plan->node_value[node->id];
    const yki_task *found = NULL;

    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++)
            if (task->solver && (task->node == node || task->slots[s] == value))
                found = task;
    }
    ck_assert_msg(found, "%s has no task", node->name);
    ck_assert_msg(found->solver->numerical_class + 1 == wanted, "%s is computed by %s", node->name,
                  found->solver->name);
}

typedef struct wish {
    const char *precision;
    bool strict;
    yki_class first, second; /* of that layer */
} wish;

static const wish wishes[] = {
    {NULL, true, F32, F32},
    {"f32", true, F32, F32},
    {"bf16", true, BF16, BF16},
    {"tf32", true, TF32, TF32},
    {"f16", true, F16, F16},
    {"first=f32,bf16", true, F32, BF16},
    {"first=f16,bf16", true, F16, BF16},
    {"bf16,first=f32", true, F32, BF16},
    {"f*=bf16", true, BF16, F32},
    {"first=bf16,*=f32", true, BF16, F32},
    {"first=tf32,bf16", true, TF32, BF16},
    {"bf16", false, BF16, BF16}, /* where the device has a unit */
    {"tf32", false, TF32, TF32},
    {"f16", false, F16, F16},
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
    const yki_class classes[] = {F32, BF16, TF32, F16};
    planning m;
    yki_plan *p;

    open_training(&m);
    options.wisdom = m.wisdom;
    ASSERT_OK(yki_plan_create(m.weights, m.queue, &options, &p));
    for (int i = 0; i < 2; i++) {
        const yki_device_traits *traits = yki_device_get_traits(m.device);
        yki_class wanted = i == 0 ? w->first : w->second;
        bool unit = wanted == BF16   ? yki_has_bf16(traits)
                    : wanted == TF32 ? yki_has_tf32(traits)
                                     : yki_has_f16(traits);
        size_t products, rounded;

        if (!w->strict && !unit)
            wanted = F32;
        for (size_t c = 0; c < YKI_COUNT(classes); c++) {
            count(p, names[i], classes[c], &products, &rounded);
            ck_assert_uint_eq(products, i == 0 ? 2 : 3);
            ck_assert_uint_eq(rounded, classes[c] == wanted ? products : 0);
        }
    }
    yki_plan_destroy(p);
    planning_close(&m);
}
END_TEST

/* A team agrees on the gradients of a layer one by one. Devices that make one task of both, or of
 * the layer and its loss, say what each would cost them, and compute each as agreed. */
START_TEST(gradients_keep_their_own_classes)
{
    yki_plan_options options = {
        .max.batch = BATCH, .training = true, .level = YOKE_PLAN_ESTIMATE, .precision = "bf16"};
    const yoke_node *gradients[2];
    yki_costs costs;
    planning m;

    open_training(&m);
    options.wisdom = m.wisdom;
    find_gradients(m.weights->graph, "second", gradients);
    options.class_count = m.weights->graph->node_count;
    ASSERT_OK(yki_costs_create(options.class_count, &costs));
    ASSERT_OK(yki_plan_survey(m.weights, m.queue, &options, &costs, &(double){0}));
    for (int i = 0; i < 2; i++)
        for (int c = 0; c < YKI_CLASSES; c++)
            ck_assert((costs.of[gradients[i]->id * YKI_CLASSES + (size_t)c] > 0) ==
                      (c == YKI_CLASS_DIRECT || c == YKI_CLASS_BF16));
    yki_costs_free(&costs);
    for (unsigned rounded = 0; rounded < 4; rounded++) {
        uint8_t *classes = calloc(options.class_count, 1);
        yki_plan *p;

        for (size_t i = 0; i < options.class_count; i++)
            classes[i] = YKI_CLASS_DIRECT + 1;
        for (int i = 0; i < 2; i++)
            if (rounded >> i & 1)
                classes[gradients[i]->id] = YKI_CLASS_BF16 + 1;
        options.classes = classes;
        ASSERT_OK(yki_plan_create(m.weights, m.queue, &options, &p));
        for (int i = 0; i < 2; i++)
            assert_class(p, gradients[i], classes[gradients[i]->id]);
        yki_plan_destroy(p);
        free(classes);
    }
    planning_close(&m);
}
END_TEST

START_TEST(other_texts_are_refused)
{
    static const struct {
        const char *text, *detail;
        yoke_status status;
    } wrong[] = {
        {"bf17", "\"bf17\"; must be f32, tf32, bf16 or f16", YOKE_ERROR_INVALID_ARGUMENT},
        {"", "\"\"; must be f32, tf32, bf16 or f16", YOKE_ERROR_INVALID_ARGUMENT},
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

/* It would have no effect. */
START_TEST(the_name_of_a_gradient_is_refused)
{
    const yoke_node *gradients[2];
    char text[200];
    planning m;

    open_training(&m);
    find_gradients(m.weights->graph, "second", gradients);
    snprintf(text, sizeof text, "%s=bf16", gradients[1]->name);
    ck_assert_int_eq(yki_precision_check(text, m.weights->graph), YOKE_ERROR_NOT_FOUND);
    ASSERT_OK(yki_precision_check("second=bf16", m.weights->graph));
    planning_close(&m);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("precision");
    TCase *tcase = test_case(suite, "precision");

    tcase_add_loop_test(tcase, products_are_rounded_as_the_text_says, 0, (int)YKI_COUNT(wishes));
    tcase_add_test(tcase, gradients_keep_their_own_classes);
    tcase_add_test(tcase, other_texts_are_refused);
    tcase_add_test(tcase, the_name_of_a_gradient_is_refused);
    return suite;
}
