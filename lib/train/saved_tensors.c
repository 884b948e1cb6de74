/* SPDX-License-Identifier: Apache-2.0
 *
 * saved_tensors.c - lists the tensors that training changes, and finds them in each group. A
 * checkpoint holds these tensors, and they are the same in all groups and processes.
 */
#include "train/saved_tensors.h"

enum { AVERAGE = 2 };

static yki_weights *
weights_of(const yoke_trainer *t, size_t group)
{
    return yki_crew_in_group(&t->crew, group, 0)->replica->weights;
}

static yki_buffer *
optimizer_state(const yoke_trainer *t, size_t group, size_t bucket, int which)
{
    for (size_t k = 0; k < t->crew.groups[group].count; k++) {
        const yki_member *m = yki_crew_in_group(&t->crew, group, k);

        if (yki_member_owns(&t->crew, m, bucket))
            return yki_updater_state(m->replica->updater, bucket, (unsigned)which);
    }
    return NULL;
}

yki_buffer *
yki_saved_tensor_find(const yoke_trainer *t, size_t group, const yki_saved_tensor *p,
                      uint64_t *offset)
{
    const yki_weights *w = weights_of(t, group);

    *offset = 0;
    /* The device of another stage has it. */
    if (!p->is_state && !w->weights[p->index].value)
        return NULL;
    if (p->is_state)
        return w->states[p->index].value;
    /* Before the first step the average is the value. */
    if (p->which == YKI_SAVED_VALUE || (p->which == AVERAGE && t->step == 0))
        return w->weights[p->index].value;
    *offset = w->weights[p->index].offset;
    return optimizer_state(t, group, w->weights[p->index].bucket, p->which);
}

static yoke_status
add_part(yki_saved_tensors *all, size_t index, bool is_state, int which)
{
    const yki_weights *w = weights_of(all->trainer, 0);
    const yki_weight *weight = is_state ? &w->states[index] : &w->weights[index];
    yki_saved_tensor p = {index, is_state, which, NULL, weight->node, weight->size / 4};
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
        for (size_t i = 0; i < w->weight_count && optimizer_state(t, 0, 0, which); i++)
            if (w->weights[i].bucket < w->bucket_count)
                YKI_TRY(add_part(all, i, false, which));
    return YOKE_OK;
}
