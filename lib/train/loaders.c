/* SPDX-License-Identifier: Apache-2.0
 *
 * loaders.c - the loaders of all members of a trainer for one dataset, and the thread that reads
 * ahead for them.
 *
 * Feeds are kept from one call to the next, as long as the dataset, its scaling and its
 * augmentation are the same. The thread lives for one epoch or one evaluation; between them nothing
 * is read. It is asked for the ranges that the shares in force give this process. If the shares
 * have moved when the step comes, the difference is read then.
 */
#include <stdio.h>
#include <string.h>

#include "team/stages.h"
#include "train/trainer.h"

enum { STEPS_AHEAD = 2 }; /* after the one that comes next */

void
yki_loaders_clear(yki_loaders *loaders, size_t count)
{
    yki_trainer_end_prefetch(loaders);
    for (size_t k = 0; loaders->loaders && k < count; k++)
        yki_loader_destroy(loaders->loaders[k]);
    yki_free(loaders->loaders);
    yki_free(loaders->reads);
    yoke_dataset_destroy(loaders->dataset);
    memset(loaders, 0, sizeof *loaders);
}

/* A device, and the loaders that it gets one of. */
typedef struct reader {
    const yki_loaders *loaders;
    const yki_plan *plan; /* with places: what this device computes; else NULL */
} reader;

/* Whether this device needs an input. Evaluation reads no other inputs than the training plan. */
static bool
is_read(void *user, const yoke_node *input)
{
    const reader *r = user;

    return (!r->plan || yki_plan_buffer(r->plan, input)) &&
           (!r->loaders->reads || r->loaders->reads[input->id]);
}

/* What a process tells of its loaders, where each reads other inputs. */
typedef struct told {
    int32_t status;
    int64_t length;
    char detail[500];
} told;

/* Gives all processes the length, or the failure, of any of them. */
static yoke_status
agree(const yoke_trainer *t, yki_loaders *loaders, yoke_status status)
{
    yoke_comm *comm = t->crew.comm;
    told own = {.status = (int32_t)status, .length = loaders->length}, *all;

    if (!comm || !t->crew.stages)
        return status;
    if (status != YOKE_OK)
        snprintf(own.detail, sizeof own.detail, "%s", yoke_last_error());
    all = yki_alloc((size_t)comm->ranks, sizeof *all, "feeds");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = comm->allgather(comm, &own, sizeof own, all);
    for (int32_t r = 0; r < comm->ranks && status == YOKE_OK; r++) {
        loaders->length = YKI_MAX(loaders->length, all[r].length);
        if (all[r].status != YOKE_OK)
            status = yki_fail((yoke_status)all[r].status, "%s", all[r].detail);
    }
    yki_free(all);
    return status;
}

static yoke_status
make_each(yoke_trainer *t, yki_loaders *loaders, yoke_dataset *dataset, yki_loader_options options)
{
    reader at = {.loaders = loaders};

    options.seed = t->options.seed;
    options.reads = is_read;
    options.user = &at;
    loaders->loaders = yki_alloc(t->crew.count, sizeof *loaders->loaders, "feeds");
    if (!loaders->loaders)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_replica *r = t->crew.members[k].replica;
        yoke_status status;

        at.plan = t->crew.stages ? r->training : NULL;
        status = yki_loader_create(r->weights->device, dataset, t->graph, r->options.batch,
                                   &options, &loaders->loaders[k]);
        if (status != YOKE_OK)
            return status;
        /* With places each loader checks the inputs that it reads by itself, and a loader that
         * reads no sequence knows no length. */
        options.twin = t->crew.stages ? NULL : loaders->loaders[k];
        loaders->length = YKI_MAX(loaders->length, yki_loader_length(loaders->loaders[k]));
    }
    return YOKE_OK;
}

static yoke_status
make_loaders(yoke_trainer *t, yki_loaders *loaders, yoke_dataset *dataset,
             yki_loader_options options)
{
    yoke_status status = agree(t, loaders, make_each(t, loaders, dataset, options));

    if (status != YOKE_OK) {
        yki_loaders_clear(loaders, t->crew.count);
        return status;
    }
    loaders->dataset = yki_dataset_retain(dataset);
    loaders->version = dataset->version;
    return yki_timeline_add_loaders(t, loaders);
}

/* Whether the loaders are of this dataset, as it is now. */
static bool
are_for(const yki_loaders *loaders, const yoke_dataset *dataset)
{
    return loaders->dataset == dataset && loaders->version == dataset->version;
}

yoke_status
yki_trainer_loaders(yoke_trainer *t, yki_loaders *loaders, yoke_dataset *dataset, bool training)
{
    const bool is_short = t->shortages || t->crew.budgets; /* no samples stay on devices then */
    const yki_loader_options options = {.training = training,
                                        .resident_limit = is_short ? YKI_FEED_STREAM : 0};

    if (are_for(loaders, dataset))
        return YOKE_OK;
    yki_loaders_clear(loaders, t->crew.count);
    return make_loaders(t, loaders, dataset, options);
}

yoke_status
yki_trainer_loaders_of(yoke_trainer *t, yki_loaders *loaders, yoke_dataset *dataset,
                       const bool *reads)
{
    const yki_loader_options options = {.resident_limit = YKI_FEED_STREAM};
    const size_t count = t->graph->node_count;

    if (are_for(loaders, dataset) && memcmp(loaders->reads, reads, count * sizeof *reads) == 0)
        return YOKE_OK;
    yki_loaders_clear(loaders, t->crew.count);
    loaders->reads = yki_alloc(count, sizeof *reads, "inputs of an output");
    if (!loaders->reads)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(loaders->reads, reads, count * sizeof *reads);
    return make_loaders(t, loaders, dataset, options);
}

yoke_status
yki_trainer_load(yoke_trainer *t, yki_loaders *loaders, size_t member, yki_plan *plan,
                 const yki_samples *samples)
{
    yki_queue *queue = t->crew.members[member].replica->queue;
    yki_samples ahead = *samples;
    size_t count = 0;

    ahead.ahead = loaders->ahead;
    t->crew.length = loaders->length;
    for (size_t i = 0; i < t->graph->node_count; i++)
        if (t->graph->nodes[i]->role == YKI_ROLE_INPUT)
            t->inputs[count++] = !loaders->reads || loaders->reads[i]
                                     ? yki_plan_buffer(plan, t->graph->nodes[i])
                                     : NULL;
    return yki_loader_load(loaders->loaders[member], queue, &ahead, t->inputs);
}

/* ---- reading ahead ---- */

yoke_status
yki_trainer_begin_prefetch(yoke_trainer *t, yki_loaders *loaders, const yki_order *order,
                           int64_t position)
{
    bool fields[YKI_MAX_FIELDS] = {false}, any = false;

    for (size_t f = 0; f < loaders->dataset->field_count && loaders->dataset->ahead; f++)
        for (size_t k = 0; k < t->crew.count; k++)
            any |= fields[f] |= yki_loader_streams(loaders->loaders[k], f);
    loaders->asked = position;
    loaders->count = (int64_t)order->count;
    if (any)
        YKI_TRY(yki_prefetch_create(loaders->dataset, order, fields, &loaders->ahead));
    return yki_timeline_add_prefetch(t, loaders);
}

void
yki_trainer_end_prefetch(yki_loaders *loaders)
{
    yki_prefetch_destroy(loaders->ahead);
    loaders->ahead = NULL;
}

/* Asks for the samples of this process among the n samples from `position` on. */
static yoke_status
ask(yoke_trainer *t, yki_loaders *loaders, int64_t position, int64_t n, int64_t micro_batches)
{
    const yoke_team *team = t->crew.team;

    for (int64_t p = 0; p < micro_batches; p++) {
        int64_t size = yki_micro_batch_size(n, micro_batches, p), first = position, own = 0;

        yki_trainer_divide(t, size, t->counts);
        for (size_t k = 0; k < team->first; k++)
            first += t->counts[k];
        for (size_t k = 0; k < team->count; k++)
            own += t->counts[team->first + k];
        YKI_TRY(t->crew.stages ? yki_prefetch_ask(loaders->ahead, position, size)
                               : yki_prefetch_ask(loaders->ahead, first, own));
        position += size;
    }
    return YOKE_OK;
}

yoke_status
yki_trainer_prefetch(yoke_trainer *t, yki_loaders *loaders, int64_t position, int64_t step,
                     int64_t micro_batches)
{
    int64_t end = YKI_MIN(position + (1 + STEPS_AHEAD) * step, loaders->count);

    while (loaders->ahead && loaders->asked < end) {
        int64_t n = YKI_MIN(step, loaders->count - loaders->asked);

        YKI_TRY(ask(t, loaders, loaders->asked, n, micro_batches));
        loaders->asked += n;
    }
    return YOKE_OK;
}
