/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c - one text for all weights, or for one tensor: it is the same if and only if their bits
 * are, as good as surely.
 */
#include <string.h>

#include "train/saved_tensors.h"

static yoke_status
add_tensor(const yoke_trainer *t, const yki_saved_tensor *p, yki_hash *hash)
{
    float *values = yki_alloc((size_t)p->count, sizeof *values, "weights to be compared");
    yki_buffer *buffer = NULL;
    uint64_t offset = 0;
    yki_range part;
    yoke_status status;

    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t g = 0; g < t->crew.group_count && !buffer; g++)
        buffer = yki_saved_tensor_find(t, g, p, &part, &offset);
    status = buffer ? yki_buffer_get(buffer, offset, p->count * sizeof *values, values)
                    : yki_fail_bug("no device has \"%s\"", p->name);
    yki_hash_string(hash, p->name);
    yki_hash_add(hash, values, p->count * sizeof *values);
    yki_free(values);
    return status;
}

static yoke_status
add_all(const yki_saved_tensors *all, const char *name, yki_hash *hash)
{
    for (size_t i = 0; i < all->count; i++) {
        const yki_saved_tensor *p = &all->list[i];

        if (p->which != YKI_SAVED_VALUE || (name && strcmp(p->name, name) != 0))
            continue;
        YKI_TRY(add_tensor(all->trainer, p, hash));
    }
    return YOKE_OK;
}

yoke_status
yoke_trainer_hash(yoke_trainer *t, const char *name, char text[33])
{
    yki_saved_tensors all = {0};
    yki_weight *weight;
    yoke_status status;
    yki_hash hash;
    size_t member;

    YKI_GIVEN("yoke_trainer_hash", {"trainer", t}, {"text", text});
    YKI_TRY(yki_trainer_is_whole(t, "yoke_trainer_hash"));
    if (name)
        YKI_TRY(yki_crew_find(&t->crew, name, &member, &weight));
    if (t->failure.status == YOKE_OK)
        YKI_TRY(yoke_trainer_wait(t));
    yki_hash_start(&hash);
    status = yki_saved_tensors_list(t, &all);
    if (status == YOKE_OK)
        status = add_all(&all, name, &hash);
    yki_saved_tensors_clear(&all);
    yki_hash_hex(&hash, text);
    return status;
}
