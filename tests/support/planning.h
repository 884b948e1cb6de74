/* SPDX-License-Identifier: Apache-2.0
 *
 * planning.h - all that a plan for evaluation needs, on one device.
 */
#ifndef YOKE_TESTS_PLANNING_H
#define YOKE_TESTS_PLANNING_H

#include "plan/plan.h"

typedef struct planning {
    yoke_context *context;
    yoke_selection *selection;
    yoke_device *device;
    yki_weights *weights;
    yki_queue *queue;
    yki_wisdom *wisdom; /* empty */
} planning;

/* Takes the first device of the selector, and destroys the graph. */
void planning_open(planning *p, const char *selector, yoke_graph *graph);
void planning_close(planning *p);

#endif
