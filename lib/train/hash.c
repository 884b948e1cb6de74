/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c - one text for all weights, or for one tensor: it is the same if and only if their bits
 * are, as good as surely.
 */
#include <string.h>

#include "team/sharding.h"
#include "train/saved_tensors.h"

static yoke_status
add_divided(yoke_trainer *t, const yki_weight *weight, yki_hash *hash)
{
    const float *bucket;

    YKI_TRY(yki_sharding_gather(&t->crew, weight->bucket, YKI_SHARDED_VALUES, &bucket));
    yki_hash_add(hash, bucket + weight->offset / 4, weight->size);
    return YOKE_OK;
}

/* Of one device, or of a stage of any process. */
static yoke_status
add_whole(yoke_trainer *t, const yki_weight *weight, yki_hash *hash)
{
    float *values = yki_alloc(weight->size, 1, "weights to be compared");
    yoke_status status =
        values ? yki_trainer_read_weight(t, weight, values) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        yki_hash_add(hash, values, weight->size);
    yki_free(values);
    return status;
}

static yoke_status
add_all(yoke_trainer *t, const yki_saved_tensors *all, const char *name, yki_hash *hash)
{
    for (size_t i = 0; i < all->count; i++) {
        const yki_saved_tensor *p = &all->list[i];
        yki_weight *weight;
        size_t member;

        if (p->which != YKI_SAVED_VALUE || (name && strcmp(p->name, name) != 0))
            continue;
        YKI_TRY(yki_crew_find(&t->crew, p->node->name, &member, &weight));
        yki_hash_string(hash, p->name);
        YKI_TRY(weight->value || t->crew.stages ? add_whole(t, weight, hash)
                                                : add_divided(t, weight, hash));
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
        status = add_all(t, &all, name, &hash);
    status = yki_trainer_gathered(t, status);
    yki_saved_tensors_clear(&all);
    yki_hash_hex(&hash, text);
    return status;
}
