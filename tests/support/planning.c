/* SPDX-License-Identifier: Apache-2.0
 *
 * planning.c - see planning.h.
 */
#include "support/planning.h"
#include "support/support.h"

void
planning_open(planning *p, const char *selector, yoke_graph *graph)
{
    ASSERT_OK(yoke_graph_status(graph));
    ASSERT_OK(yoke_context_create(NULL, &p->context));
    ASSERT_OK(yoke_selection_create(p->context, selector, NULL, &p->selection));
    p->device = yoke_selection_get(p->selection, 0);
    ASSERT_OK(yki_weights_create(p->device, graph, false, 0, NULL, &p->weights));
    yoke_graph_destroy(graph);
    ASSERT_OK(yki_queue_create(p->device, false, &p->queue));
    ASSERT_OK(yki_wisdom_open(NULL, &p->wisdom));
}

void
planning_close(planning *p)
{
    yki_wisdom_close(p->wisdom);
    yki_queue_destroy(p->queue);
    yki_weights_release(p->weights);
    yoke_selection_destroy(p->selection);
    yoke_context_destroy(p->context);
}
