/* SPDX-License-Identifier: Apache-2.0
 *
 * replica_arrays.c - lends a replica's parameters, gradients and loss as arrays, so that
 * users can write their own training loops over a team.
 *
 * A lent array is a window on the replica's buffer. A read or write through it waits
 * for all that the replica has enqueued.
 */
#include "replica/replica.h"
#include "team/team.h"

static yoke_status
lend(yoke_replica *r, yki_buffer *buffer, int64_t count, bool is_weight, yoke_array **out)
{
    for (size_t i = 0; i < r->lent.count; i++)
        if (r->lent.list[i]->buffer == buffer) {
            *out = r->lent.list[i];
            return YOKE_OK;
        }
    YKI_TRY(yki_grow((void **)&r->lent.list, &r->lent.capacity, r->lent.count + 1,
                     sizeof *r->lent.list, "arrays of a replica"));
    *out = yki_alloc(1, sizeof **out, "an array of a replica");
    if (!*out)
        return YOKE_ERROR_OUT_OF_MEMORY;
    (*out)->buffer = buffer;
    (*out)->type = YOKE_F32;
    (*out)->count = count;
    (*out)->replica = r;
    (*out)->is_weight = is_weight;
    r->lent.list[r->lent.count++] = *out;
    return YOKE_OK;
}

yoke_status
yoke_replica_get_parameter(yoke_replica *r, const char *name, yoke_array **array)
{
    yki_weight *weight;

    YKI_GIVEN("yoke_replica_get_parameter", {"replica", r}, {"name", name}, {"array", array});
    weight = yki_weights_find(r->weights, name);
    if (!weight)
        return YOKE_ERROR_NOT_FOUND;
    return lend(r, weight->value, (int64_t)weight->size / 4, true, array);
}

yoke_status
yoke_replica_get_gradient(yoke_replica *r, const char *name, yoke_array **array)
{
    yki_weight *weight;

    YKI_GIVEN("yoke_replica_get_gradient", {"replica", r}, {"name", name}, {"array", array});
    weight = yki_weights_find(r->weights, name);
    if (!weight)
        return YOKE_ERROR_NOT_FOUND;
    if (!weight->gradient || !weight->node->gradient)
        return yki_fail(YOKE_ERROR_STATE,
                        "\"%s\" has no gradient; must be a parameter that is trained", name);
    return lend(r, weight->gradient, (int64_t)weight->size / 4, false, array);
}

yoke_status
yoke_replica_get_loss(yoke_replica *r, yoke_array **array)
{
    YKI_GIVEN("yoke_replica_get_loss", {"replica", r}, {"array", array});
    if (!r->training)
        return yki_fail(
            YOKE_ERROR_STATE,
            "the replica was made for evaluation only; make one without evaluation_only");
    return lend(r, yki_plan_buffer(r->training, r->weights->graph->loss_sum), 2, false, array);
}
