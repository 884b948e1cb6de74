/* SPDX-License-Identifier: Apache-2.0
 *
 * gather_order.c - in which order the buckets of divided weights come.
 *
 * All devices of all processes gather a bucket together, so the order must be the same everywhere,
 * whatever tasks a plan has. It follows from the graph: in each section a bucket comes where the
 * first node stands that reads one of its parameters. The order in which parameters are made would
 * not do: a table that is made first, and that the last layer reads as well, is the first that
 * backward needs, and all others would have to come before it.
 *
 * A bucket that no node of the section reads follows its neighbour, whose layer is near: a plan
 * that computes values of forward again in backward may read it there.
 */
#include "plan/plan.h"

/* Returns the node whose bytes a node has: itself, unless it is a view. */
static const yoke_node *
source_of(const yoke_node *node)
{
    while (node->op && node->op->is_view)
        node = node->inputs[0];
    return node;
}

/* Whether backward reads what the node reads. Gradients of the loss that has a dense layer in it
 * are computed with the loss, in forward, on each device (fuse_linear_loss.c). */
static bool
is_of_backward(const yoke_node *node)
{
    return node->backward && node->op != &yki_op_linear_loss_grad;
}

/* Notes where the first node of each section stands that reads a bucket, counted from 1. */
static void
note_readers(const yki_weights *w, const uint32_t *bucket_of, uint32_t *first)
{
    for (size_t i = 0; i < w->graph->node_count; i++) {
        const yoke_node *node = w->graph->nodes[i];

        for (uint32_t k = 0; k < node->input_count && !node->op->is_view; k++) {
            const uint32_t bucket = bucket_of[source_of(node->inputs[k])->id];
            uint32_t *of =
                bucket ? &first[is_of_backward(node) * w->bucket_count + bucket - 1] : NULL;

            if (of && !*of)
                *of = (uint32_t)i + 1;
        }
    }
}

/* Writes the order of a section, in which forward would go through the buckets from the last to the
 * first, and backward from the first to the last, if layers were read as they were made. */
static void
sort(uint32_t *first, size_t count, bool backward, uint32_t *order)
{
    uint32_t neighbour = 0;

    for (size_t i = 0; i < count; i++) {
        const uint32_t bucket = (uint32_t)(backward ? i : count - 1 - i);
        size_t at = i;

        if (!first[bucket])
            first[bucket] = neighbour;
        neighbour = first[bucket];
        for (; at > 0 && first[order[at - 1]] > neighbour; at--)
            order[at] = order[at - 1];
        order[at] = bucket;
    }
}

yoke_status
yki_weights_order_gathers(yki_weights *w)
{
    const size_t count = w->bucket_count;
    uint32_t *bucket_of = yki_alloc(w->graph->node_count, sizeof *bucket_of, "an order of weights");
    uint32_t *first = yki_alloc(2 * count, sizeof *first, "an order of weights");
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    w->gather_order = yki_alloc(2 * count, sizeof *w->gather_order, "an order of weights");
    if (bucket_of && first && w->gather_order) {
        for (size_t i = 0; i < w->weight_count; i++)
            if (w->weights[i].bucket < count)
                bucket_of[w->weights[i].node->id] = w->weights[i].bucket + 1;
        note_readers(w, bucket_of, first);
        for (size_t backward = 0; backward < 2; backward++)
            sort(first + backward * count, count, backward == 1,
                 w->gather_order + backward * count);
        status = YOKE_OK;
    }
    yki_free(bucket_of);
    yki_free(first);
    return status;
}
