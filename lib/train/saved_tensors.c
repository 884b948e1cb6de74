/* SPDX-License-Identifier: Apache-2.0
 *
 * saved_tensors.c - lists the tensors that training changes, and finds them in each group. A
 * checkpoint holds these tensors, and they are the same in all groups and processes.
 */
#include <string.h>

#include "team/sharding.h"
#include "team/stages.h"
#include "train/saved_tensors.h"

enum { AVERAGE = 2 };

static yki_weights *
weights_of(const yoke_trainer *t, size_t group)
{
    return yki_crew_in_group(&t->crew, group, 0)->replica->weights;
}

/* `which`: YKI_SAVED_VALUE for parameters that are divided. */
static yki_state_place
optimizer_state(const yoke_trainer *t, size_t group, size_t bucket, int which, yki_range *range)
{
    for (size_t k = 0; k < t->crew.groups[group].count; k++) {
        const yki_member *m = yki_crew_in_group(&t->crew, group, k);

        if (yki_member_owns(&t->crew, m, bucket) && which == YKI_SAVED_VALUE)
            return (yki_state_place){.buffer =
                                         yki_updater_values(m->replica->updater, bucket, range)};
        if (yki_member_owns(&t->crew, m, bucket))
            return yki_updater_state(m->replica->updater, bucket, (unsigned)which, range);
    }
    return (yki_state_place){0};
}

static bool
is_value(const yoke_trainer *t, const yki_saved_tensor *p)
{
    /* Before the first step the average is the value. */
    return p->is_state || p->which == YKI_SAVED_VALUE || (p->which == AVERAGE && t->step == 0);
}

/* Whether it is the values of a parameter that is divided. */
static bool
is_divided(const yoke_trainer *t, const yki_saved_tensor *p)
{
    const yki_weights *w = weights_of(t, 0);

    return !p->is_state && is_value(t, p) && yki_weights_divides(w, &w->weights[p->index]);
}

bool
yki_saved_tensors_are_spread(const yoke_trainer *t)
{
    return t->crew.sharding.ranges || (t->crew.stages && t->crew.comm);
}

bool
yki_saved_tensor_is_sharded(const yoke_trainer *t, const yki_saved_tensor *p)
{
    return yki_saved_tensors_are_spread(t) &&
           (t->crew.stages || !is_value(t, p) || is_divided(t, p));
}

yki_state_place
yki_saved_tensor_find(const yoke_trainer *t, size_t group, const yki_saved_tensor *p,
                      yki_range *part)
{
    const yki_weights *w = weights_of(t, group);
    const yki_weight *weight = p->is_state ? &w->states[p->index] : &w->weights[p->index];
    yki_range held;
    yki_state_place place;

    *part = (yki_range){0, p->count * 4};
    /* The device of another stage has it. */
    if (!p->is_state && !weight->value && !weights_of(t, group)->divided)
        return (yki_state_place){0};
    if (is_value(t, p) && !is_divided(t, p))
        return (yki_state_place){.buffer = weight->value};
    place = optimizer_state(t, group, weight->bucket, is_value(t, p) ? YKI_SAVED_VALUE : p->which,
                            &held);
    *part = yki_range_common((yki_range){weight->offset, p->count * 4}, held);
    if (!place.buffer || part->size == 0)
        return (yki_state_place){0};
    place = yki_state_behind(place, part->offset - held.offset);
    part->offset -= weight->offset;
    return place;
}

static bool
keeps(const yoke_trainer *t, int which)
{
    const yki_updater *updater = t->crew.members[0].replica->updater;

    return updater && yki_updater_keeps(updater, (unsigned)which);
}

/* Takes the tensors of a bucket out of it. */
static void
take_bucket(const yki_saved_tensors *all, size_t bucket, int which, const float *from, float *to)
{
    const yki_weights *w = weights_of(all->trainer, 0);

    for (size_t i = 0; i < all->count; i++) {
        const yki_saved_tensor *p = &all->list[i];
        const yki_weight *weight = &w->weights[p->is_state ? 0 : p->index];

        if (!p->is_state && (is_value(all->trainer, p) ? YKI_SAVED_VALUE : p->which) == which &&
            weight->bucket == bucket)
            memcpy(to + p->start, from + weight->offset / 4, p->count * 4);
    }
}

/* The same for stages of several processes: each tensor is in one of them. */
static yoke_status
gather_stages(const yki_saved_tensors *all, float *values)
{
    const yki_crew *crew = &all->trainer->crew;
    uint64_t largest = 0;
    float *one;
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < all->count; i++)
        largest = YKI_MAX(largest, all->list[i].count);
    one = yki_alloc((size_t)largest, sizeof *one, "a checkpoint");
    if (!one)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < all->count && status == YOKE_OK; i++) {
        const yki_saved_tensor *p = &all->list[i];
        float *to = values ? values + p->start : one;
        yki_range part;

        for (size_t g = 0; g < crew->group_count && status == YOKE_OK; g++) {
            yki_state_place place = yki_saved_tensor_find(all->trainer, g, p, &part);

            if (place.buffer)
                status = yki_state_get(place, part.size, to);
        }
        if (status == YOKE_OK)
            status = crew->comm->broadcast(
                crew->comm, to, (size_t)p->count * sizeof *to,
                crew->stages->rank_of[crew->stages->placed.homes[p->node->id]]);
    }
    yki_free(one);
    return status;
}

yoke_status
yki_saved_tensors_gather(const yki_saved_tensors *all, float *values)
{
    yki_crew *crew = &((yoke_trainer *)all->trainer)->crew;

    if (crew->stages && crew->comm)
        return gather_stages(all, values);

    for (int which = YKI_SAVED_VALUE; which <= AVERAGE && crew->sharding.ranges; which++)
        for (size_t b = 0; b < crew->buckets.count; b++) {
            const float *bucket;

            if (which == YKI_SAVED_VALUE ? !crew->sharding.weights : !keeps(all->trainer, which))
                continue;
            YKI_TRY(yki_sharding_gather(crew, b, which, &bucket));
            if (values)
                take_bucket(all, b, which, bucket, values);
        }
    return YOKE_OK;
}

static bool
is_small(const yoke_trainer *t, int which)
{
    return t->options.state == YOKE_STATE_BF16 && which >= 0 && which < AVERAGE;
}

static yoke_status
add_part(yki_saved_tensors *all, size_t index, bool is_state, int which)
{
    const yki_weights *w = weights_of(all->trainer, 0);
    const yki_weight *weight = is_state ? &w->states[index] : &w->weights[index];
    yki_saved_tensor p = {index,
                          is_state,
                          which,
                          NULL,
                          weight->node,
                          is_small(all->trainer, which),
                          weight->size / 4,
                          all->floats};
    const bool averaged =
        !is_state && weight->bucket < w->bucket_count && all->trainer->options.average > 0;
    const char *ending = which == 0                             ? "#m"
                         : which == 1                           ? "#v"
                         : which == YKI_SAVED_VALUE && averaged ? "#w"
                                                                : "";

    YKI_TRY(yki_grow((void **)&all->list, &all->capacity, all->count + 1, sizeof *all->list,
                     "tensors of a model"));
    p.name = yki_format("%s%s", weight->node->name, ending);
    if (!p.name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    all->list[all->count++] = p;
    all->floats += p.count;
    return YOKE_OK;
}

void
yki_saved_tensors_clear(yki_saved_tensors *all)
{
    for (size_t i = 0; i < all->count; i++)
        yki_free(all->list[i].name);
    yki_free(all->list);
}

yoke_status
yki_saved_tensors_list(const yoke_trainer *t, yki_saved_tensors *all)
{
    const yki_weights *w = weights_of(t, 0);

    all->trainer = t;
    for (size_t i = 0; i < w->weight_count; i++)
        YKI_TRY(add_part(all, i, false, YKI_SAVED_VALUE));
    for (size_t i = 0; i < w->state_count; i++)
        if (!yki_is_constant(w->states[i].node))
            YKI_TRY(add_part(all, i, true, YKI_SAVED_VALUE));
    for (int which = 0; which <= AVERAGE && w->bucket_count; which++)
        for (size_t i = 0; i < w->weight_count && keeps(t, which); i++)
            if (w->weights[i].bucket < w->bucket_count)
                YKI_TRY(add_part(all, i, false, which));
    return YOKE_OK;
}

yoke_status
yki_saved_tensors_get(const yki_saved_tensors *all, float *values)
{
    const yoke_trainer *t = all->trainer;

    for (size_t i = 0; i < all->count; values += all->list[i++].count) {
        const yki_saved_tensor *p = &all->list[i];
        bool whole = false;

        for (size_t g = 0; g < t->crew.group_count && !whole; g++) {
            yki_range part;
            yki_state_place place = yki_saved_tensor_find(t, g, p, &part);

            if (place.buffer)
                YKI_TRY(yki_state_get(place, part.size, values + part.offset / 4));
            whole = place.buffer && !yki_saved_tensor_is_sharded(t, p);
        }
    }
    return YOKE_OK;
}

yoke_status
yki_saved_tensors_put(const yki_saved_tensors *all, const float *values)
{
    const yoke_trainer *t = all->trainer;

    for (size_t i = 0; i < all->count; values += all->list[i++].count)
        for (size_t g = 0; g < t->crew.group_count; g++) {
            yki_range part;
            yki_state_place place = yki_saved_tensor_find(t, g, &all->list[i], &part);

            if (place.buffer)
                YKI_TRY(yki_state_put(place, part.size, values + part.offset / 4));
        }
    return YOKE_OK;
}
