/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_replicas.c - checks that all replicas still have the same weights, optimizer state and
 * running statistics, bit by bit.
 *
 * They got the same gradients and made the same updates, so they must be equal. Where they differ,
 * a device or its memory has made a mistake, and training would go on with a mixture of two models.
 * Each process computes a checksum of each tensor; the processes compare the checksum of these
 * checksums. The error names the replicas that the majority contradicts; where there is no majority
 * (two processes), it names all. Devices that share memory have one copy of everything (of
 * optimizer state at its owner), so there is nothing to compare among them.
 *
 * With local batch normalisation each device takes its own statistics, and they differ as they
 * should. They are compared only between an evaluation, which gives those of the first device to
 * all, and the next step.
 */
#include <stdio.h>
#include <string.h>

#include "train/saved_tensors.h"

/* What a process reports of itself. */
typedef struct record {
    uint64_t sum;     /* checksum of the checksums of all tensors */
    char where[160];  /* host and first device */
    char inside[224]; /* how its own devices differ; "": they do not */
} record;

static const char *
device_of(const yoke_trainer *t, size_t group)
{
    return yki_device_id(yki_crew_in_group(&t->crew, group, 0)->replica->weights->device);
}

/* Local statistics differ until an evaluation gives those of the first device to all. Of a shard
 * there is one copy. */
static bool
is_compared(const yoke_trainer *t, const yki_saved_tensor *p)
{
    return p->is_state ? !t->states_differ : !yki_saved_tensor_is_sharded(t, p);
}

/* The checksum of each tensor of a group. */
static yoke_status
sum_group(const yki_saved_tensors *all, size_t group, uint64_t *sums)
{
    uint64_t most = 0;
    void *values;
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < all->count; i++)
        most = YKI_MAX(most, all->list[i].count * 4);
    values = yki_alloc((size_t)most + 1, 1, "weights to be compared");
    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < all->count && status == YOKE_OK; i++) {
        const yki_saved_tensor *p = &all->list[i];
        yki_range part;
        yki_state_place place = yki_saved_tensor_find(all->trainer, group, p, &part);

        sums[i] = 0;
        if (!place.buffer || !is_compared(all->trainer, p))
            continue;
        status = yki_state_get(place, p->count * 4, values);
        sums[i] = yki_checksum_of(values, (size_t)p->count * 4);
    }
    yki_free(values);
    return status;
}

static size_t
first_difference(const uint64_t *a, const uint64_t *b, size_t count)
{
    size_t i = 0;

    while (i < count && a[i] == b[i])
        i++;
    return i;
}

/* The checksum of each tensor of the first group of this process; own->inside says how another
 * group differs. */
static yoke_status
sum_process(const yki_saved_tensors *tensors, uint64_t *sums, record *own)
{
    const yoke_trainer *t = tensors->trainer;
    const size_t count = tensors->count;
    uint64_t *other = yki_alloc(count + 1, sizeof *other, "checksums of weights");
    yoke_status status = other ? sum_group(tensors, 0, sums) : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t g = 1; g < t->crew.group_count && status == YOKE_OK; g++) {
        size_t at;

        status = sum_group(tensors, g, other);
        at = status == YOKE_OK ? first_difference(sums, other, count) : count;
        if (at < count && !own->inside[0])
            snprintf(own->inside, sizeof own->inside, "%.64s has another %.64s than %.64s",
                     device_of(t, g), tensors->list[at].name, device_of(t, 0));
    }
    yki_free(other);
    own->sum = yki_checksum_of(sums, count * sizeof *sums);
    return status;
}

/* The sum that most processes have; `votes` is their number. */
static uint64_t
most_frequent(const record *all, int32_t ranks, int32_t *votes)
{
    uint64_t best = all[0].sum;

    *votes = 0;
    for (int32_t r = 0; r < ranks; r++) {
        int32_t count = 0;

        for (int32_t k = 0; k < ranks; k++)
            count += all[k].sum == all[r].sum;
        if (count > *votes) {
            *votes = count;
            best = all[r].sum;
        }
    }
    return best;
}

/* Names the ranks that the majority contradicts, or all where there is none; four at most. */
static void
name_guilty(const record *all, int32_t ranks, char *text, size_t size)
{
    int32_t votes, named = 0;
    uint64_t good = most_frequent(all, ranks, &votes);
    bool known = 2 * votes > ranks;
    size_t used = 0;

    for (int32_t r = 0; r < ranks && used < size; r++) {
        if (known && all[r].sum == good)
            continue;
        if (named++ == 4) {
            snprintf(text + used, size - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, size - used, "%srank %d (%.96s)",
                                 named > 1 ? ", " : "", (int)r, all[r].where);
    }
}

/* Finds the first tensor in which processes differ. All processes call it. */
static yoke_status
find_tensor(const yki_saved_tensors *tensors, const uint64_t *sums, const char **name)
{
    yoke_comm *comm = tensors->trainer->crew.comm;
    const size_t count = tensors->count;
    uint64_t *all = yki_alloc(count * (size_t)comm->ranks + 1, sizeof *all, "checksums of weights");
    size_t first = count;
    yoke_status status = all ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        status = comm->allgather(comm, sums, count * sizeof *sums, all);
    for (int32_t r = 1; r < comm->ranks && status == YOKE_OK; r++)
        first = YKI_MIN(first, first_difference(all, all + (size_t)r * count, count));
    *name = first < count ? tensors->list[first].name : "a parameter";
    yki_free(all);
    return status;
}

/* `all` has the records of all processes, so every process comes to the same verdict. */
static yoke_status
judge(const yki_saved_tensors *tensors, const record *all, int32_t ranks, const uint64_t *sums)
{
    const yoke_trainer *t = tensors->trainer;
    const char *tensor = "";
    char names[512] = "";
    bool same = true;

    for (int32_t r = 0; r < ranks; r++) {
        if (all[r].inside[0])
            return yki_fail(YOKE_ERROR_DEVICE,
                            "after step %lld replicas are not the same any more: rank %d (%s): %s",
                            (long long)t->step, (int)r, all[r].where, all[r].inside);
        same = same && all[r].sum == all[0].sum;
    }
    if (same)
        return YOKE_OK;
    YKI_TRY(find_tensor(tensors, sums, &tensor));
    name_guilty(all, ranks, names, sizeof names);
    return yki_fail(YOKE_ERROR_DEVICE,
                    "after step %lld replicas are not the same any more: %.64s is another at %s; a "
                    "device or its memory has made a mistake",
                    (long long)t->step, tensor, names);
}

static yoke_status
compare(const yki_saved_tensors *tensors)
{
    const yoke_trainer *t = tensors->trainer;
    yoke_comm *comm = t->crew.comm;
    int32_t ranks = comm ? comm->ranks : 1;
    uint64_t *sums = yki_alloc(tensors->count + 1, sizeof *sums, "checksums of weights");
    record own = {0}, *all = yki_alloc((size_t)ranks, sizeof *all, "checksums of weights");
    yoke_status status = sums && all ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    snprintf(own.where, sizeof own.where, "%.90s%s%.64s", comm ? comm->host : "", comm ? ", " : "",
             device_of(t, 0));
    if (status == YOKE_OK)
        status = sum_process(tensors, sums, &own);
    if (status != YOKE_OK)
        yki_team_fail(t->crew.team); /* the others wait in the gather */
    if (status == YOKE_OK && comm)
        status = comm->allgather(comm, &own, sizeof own, all);
    else if (status == YOKE_OK)
        *all = own;
    if (status == YOKE_OK)
        status = judge(tensors, all, ranks, sums);
    yki_free(all);
    yki_free(sums);
    return status;
}

yoke_status
yki_trainer_compare_weights(yoke_trainer *t)
{
    yki_saved_tensors tensors = {0};
    yoke_status status;

    /* Members that each have a stage of the graph have no tensor twice. */
    if (t->crew.stages || (!t->crew.comm && t->crew.group_count == 1))
        return YOKE_OK;
    YKI_TRY(yoke_trainer_wait(t));
    status = yki_saved_tensors_list(t, &tensors);
    if (status == YOKE_OK)
        status = compare(&tensors);
    yki_saved_tensors_clear(&tensors);
    return status == YOKE_OK ? YOKE_OK : yki_trainer_stand_still(t, status);
}
