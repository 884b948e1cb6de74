/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs.c - first contents of a plan's inputs, until somebody gives data: zeros, and integers
 * in the range that their readers accept. Steps are timed before there is data, and a kernel
 * that indexes by a label must find a valid one.
 */
#include "plan/plan.h"

/* Returns an integer somewhere in the whole range, in no order, as labels and tokens are. */
static int64_t
spread(const yoke_node *node, uint64_t index)
{
    const int64_t beyond = node->type == YOKE_U8 ? UINT8_MAX + 1 : INT64_C(1) << 31;
    const int64_t count = YKI_MIN(node->limit, beyond) - node->low;

    if (count <= 0)
        return 0;
    return node->low + (int64_t)(index * UINT64_C(0x9e3779b97f4a7c15) >> 32) % count;
}

static yoke_status
fill_integers(const yki_value *value, const yoke_node *node)
{
    uint64_t size = yki_type_size(node->type), count = value->size / size;
    unsigned char *values = yki_alloc((size_t)count, (size_t)size, "values to begin with");
    yoke_status status;

    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < count; i++)
        if (node->type == YOKE_U8)
            values[i] = (uint8_t)spread(node, i);
        else
            ((int32_t *)(void *)values)[i] = (int32_t)spread(node, i);
    status = yki_buffer_put(value->buffer, 0, count * size, values);
    yki_free(values);
    return status;
}

yoke_status
yki_plan_fill_inputs(yki_plan *plan)
{
    for (size_t v = 0; v < plan->value_count; v++) {
        const yki_value *value = &plan->values[v];

        if (!value->given || !value->buffer)
            continue;
        if (value->node->type == YOKE_F32)
            YKI_TRY(
                yki_queue_fill(plan->queue, value->buffer, 0, value->size, 0, YKI_NO_WAIT, NULL));
        else
            YKI_TRY(fill_integers(value, value->node));
    }
    return YOKE_OK;
}
