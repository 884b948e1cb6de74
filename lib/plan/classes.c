/* SPDX-License-Identifier: Apache-2.0
 *
 * classes.c - one numerical class for each node, for all devices of a team.
 *
 * A direct convolution and one by Winograd's method differ by far more than the rounding of sums.
 * A team whose devices mixed them would train a model that depends on the split. So each device
 * first says what every class would cost it: a survey makes the planner's choice without making
 * the plan. The costs are merged, and plans are made with the classes that come out.
 *
 * The speed of the team is the sum of 1 / T over its devices, where T is the time of a device's
 * plan. If one node takes d more seconds, the team loses d / T^2. So the class of a node is the
 * one with the least sum of cost / T^2, among the classes that every device has. Devices count
 * by their speed, and one whose costs are guessed counts next to nothing. The arithmetic is
 * only +, * and / on gathered numbers in a fixed order, so all processes decide the same.
 *
 * A node may need several tasks. A task without a solver of its node's class is done directly,
 * in the survey as in the plan.
 */
#include <string.h>

#include "plan/plan.h"

const char *
yki_class_name(yki_class numerical_class)
{
    static const char *const names[YKI_CLASSES] = {"direct", "Winograd", "bfloat16", "TF32",
                                                   "half"};

    return names[numerical_class];
}

yoke_status
yki_costs_create(size_t nodes, yki_costs *costs)
{
    *costs = (yki_costs){.nodes = nodes};
    costs->of = yki_alloc(nodes * YKI_CLASSES, sizeof *costs->of, "costs of numerical classes");
    return costs->of ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

void
yki_costs_free(yki_costs *costs)
{
    yki_free(costs->of);
    *costs = (yki_costs){0};
}

void
yki_costs_add(yki_costs *costs, uint32_t node, const double task[YKI_CLASSES])
{
    double *row = costs->of + (size_t)node * YKI_CLASSES, least = task[0];
    double direct = row[YKI_CLASS_DIRECT];

    for (int c = 0; c < YKI_CLASSES; c++) {
        if (task[c] > 0 && task[c] < least)
            least = task[c];
        if (row[c] > 0 || task[c] > 0)
            row[c] =
                (row[c] > 0 ? row[c] : direct) + (task[c] > 0 ? task[c] : task[YKI_CLASS_DIRECT]);
    }
    costs->total += least;
}

/* A node without costs is no task of this device, which then has no opinion about it. */
static bool
has_opinion(const double *row)
{
    return row[YKI_CLASS_DIRECT] != 0;
}

static yki_class
best_of(const double *row)
{
    int best = YKI_CLASS_DIRECT;

    for (int c = 0; c < YKI_CLASSES; c++)
        if (row[c] > 0 && row[c] < row[best])
            best = c;
    return (yki_class)best;
}

void
yki_costs_weigh(yki_costs *costs)
{
    double weight = costs->total > 0 ? 1 / (costs->total * costs->total) : 1;

    for (size_t i = 0; i < costs->nodes; i++) {
        double *row = costs->of + i * YKI_CLASSES;

        for (int c = 0; c < YKI_CLASSES && has_opinion(row); c++)
            row[c] = row[c] > 0 ? row[c] * weight : YKI_NOT_TO_BE_HAD;
    }
}

void
yki_costs_merge(yki_costs *into, const double *weighed)
{
    for (size_t i = 0; i < into->nodes; i++) {
        double *row = into->of + i * YKI_CLASSES;
        const double *more = weighed + i * YKI_CLASSES;
        bool first = !has_opinion(row);

        for (int c = 0; c < YKI_CLASSES && has_opinion(more); c++)
            if (first)
                row[c] = more[c];
            else
                row[c] = row[c] < 0 || more[c] < 0 ? YKI_NOT_TO_BE_HAD : row[c] + more[c];
    }
}

void
yki_costs_choose(const yki_costs *costs, uint8_t *classes)
{
    for (size_t i = 0; i < costs->nodes; i++) {
        const double *row = costs->of + i * YKI_CLASSES;

        classes[i] = has_opinion(row) ? (uint8_t)(best_of(row) + 1) : YKI_ANY_CLASS;
    }
}

static yoke_status
differs(const yki_plan *plan, const yki_task *task, uint8_t agreed)
{
    return yki_fail_bug("%s: %s is computed as %s, not as %s",
                        yki_device_id(yki_queue_device(plan->queue)), task->node->name,
                        yki_class_name(task->solver->numerical_class),
                        yki_class_name((yki_class)(agreed - 1)));
}

/* Checks that each node has its class in at least one task, and otherwise the direct class. */
static yoke_status
check_tasks(const yki_plan *plan, bool *found)
{
    for (int round = 0; round < 2; round++)
        for (size_t t = 0; t < plan->task_count; t++) {
            const yki_task *task = &plan->tasks[t];
            uint8_t agreed = yki_agreed_class(&plan->options, task->node);
            int taken = task->solver ? (int)task->solver->numerical_class + 1 : YKI_ANY_CLASS;

            if (!task->solver || agreed == YKI_ANY_CLASS)
                continue;
            if (taken == agreed)
                found[task->node->id] = true;
            else if (taken != YKI_CLASS_DIRECT + 1 ||
                     (round > 0 && plan->options.training && !found[task->node->id]))
                return differs(plan, task, agreed);
        }
    return YOKE_OK;
}

yoke_status
yki_classes_check(const yki_plan *plan)
{
    bool *found;
    yoke_status status;

    if (!plan->options.classes)
        return YOKE_OK;
    found = yki_alloc(plan->options.class_count, sizeof *found, "numerical classes");
    if (!found)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = check_tasks(plan, found);
    yki_free(found);
    return status;
}
