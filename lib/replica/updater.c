/* SPDX-License-Identifier: Apache-2.0
 *
 * updater.c - an optimizer over the buckets of one device: its state, and the
 * launches that turn summed gradients into new parameters.
 *
 * The parameters are cut into segments: runs that are updated alike (the same rate and
 * decay, not frozen). One launch updates all segments of a pool, so usually it is all of an
 * update; a table tells the kernel where the segments are. Where several devices own a part
 * of the buckets each, there is a launch for each bucket. The state has the same order in
 * memory as the parameters. Where it is sharded, an updater has a range of each bucket, and
 * state for that alone; gradients too, if they are as well.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/flat.h"
#include "replica/updater.h"

enum {
    NORM_GROUPS = 16, /* work-groups for a bucket's norm, at least */
    NORM_PARTS = 16,  /* partial sums of it, at least, */
    MOST_PARTS = 256, /* and at most, unless they would be longer than MAX_ITERATIONS */
    NORM_PART = 256,  /* iterations of one, in between */
    NORM_LANES = 16,  /* SIMD lanes of the sums, on every device: the order decides the bits */
    MAX_ITERATIONS =
        32768, /* iterations of a work-item's loop: llvmpipe ends longer ones silently */
};

/* A range of a bucket, in bytes. */
typedef struct frozen_range {
    uint32_t bucket;
    uint64_t offset, size;
} frozen_range;

/* Memory in which segments lie, with the launch for them: a pool of the weights, or one bucket that
 * this updater owns. */
typedef struct unit {
    yki_buffer *values, *gradients; /* lent */
    yki_buffer *part[2];            /* what these two are, if it is a part of a bucket; or NULL */
    yki_buffer *m, *v;              /* state; NULL if it is not kept */
    yki_buffer *average;            /* of the values; NULL if it is not kept */
    uint64_t size;                  /* bytes */
    yki_buffer *table;              /* of the segments; update.cl says what a row has */
    yki_kernel *kernel;             /* NULL: nothing to be updated */
    yki_grid grid;
    yki_kernel *averages, *exchange; /* NULL without an average */
    yki_grid all;                    /* of these two */
} unit;

typedef struct segment {
    uint32_t unit;
    uint64_t offset, size; /* bytes, within the unit */
    uint64_t number;       /* of its first byte among all parameters of the graph */
    float rate_scale, decay;
} segment;

struct yki_updater {
    yki_weights *weights;
    yki_queue *queue;
    yoke_device *device; /* the kernels are for it and for those of its space, */
    bool lacks;          /* unless some could not be made */
    yki_updater_options options;
    yoke_parameter_group *groups; /* a copy, which options.groups names */
    yki_flat flat;
    unit *units;
    size_t unit_count;
    uint32_t *unit_of; /* by bucket */
    yki_buffer *parts, *empty;
    yki_buffer *loss, *step; /* lent */
    segment *segments;
    size_t segment_count, segment_capacity;
    size_t next; /* launch to be enqueued, if an update was interrupted: two of a unit; else 0 */
    yki_kernel *count, *finish;
    yki_kernel **norms;   /* by bucket */
    frozen_range *frozen; /* gradients that backward computes but that update nothing */
    size_t frozen_count, frozen_capacity;
};

static bool
keeps_m(const yoke_optimizer *o)
{
    return o->kind == YOKE_OPTIMIZER_ADAM || o->kind == YOKE_OPTIMIZER_ADAMW || o->momentum != 0;
}

static bool
keeps_v(const yoke_optimizer *o)
{
    return o->kind != YOKE_OPTIMIZER_SGD;
}

bool
yki_updater_wants_norm(const yki_updater *u)
{
    return u->options.clip_norm > 0;
}

bool
yki_updater_has_begun(const yki_updater *u)
{
    return u->next > 0;
}

/* Whether the update's kernels find the count of the loss themselves. The count has a launch of its
 * own if the norms need it before the update, or if there is no segment. */
static bool
counts_itself(const yki_updater *u)
{
    return u->segment_count > 0 && !yki_updater_wants_norm(u);
}

/* Whether it computes the norm of this bucket's gradients. */
static bool
measures(const yki_updater *u, size_t bucket)
{
    return yki_weights_has(u->weights, bucket) &&
           (u->options.owners == 0 || bucket % u->options.owners == u->options.owner);
}

/* What it updates of a bucket; size 0: nothing. */
static yki_range
owned(const yki_updater *u, size_t bucket)
{
    if (!measures(u, bucket))
        return (yki_range){0};
    if (!u->options.ranges)
        return (yki_range){0, u->weights->buckets[bucket].size};
    return yki_ranges_of(u->options.ranges, bucket, u->options.shard, 1);
}

static bool
owns(const yki_updater *u, size_t bucket)
{
    return owned(u, bucket).size > 0;
}

static bool
owns_all(const yki_updater *u)
{
    return u->options.owners <= 1 && !u->options.ranges;
}

/* Where what it owns of a bucket begins in its unit. */
static uint64_t
start_in_unit(const yki_updater *u, size_t bucket)
{
    return owns_all(u) ? u->weights->buckets[bucket].start : 0;
}

/* The number of partial norms of a bucket. It follows from the size alone, so it is the same on
 * every device. */
static uint32_t
norm_parts(const yki_bucket *bucket)
{
    uint64_t iterations = bucket->size / 4 / NORM_LANES;
    uint64_t parts = YKI_MIN(iterations / NORM_PART, (uint64_t)MOST_PARTS);

    return (uint32_t)YKI_MAX(YKI_MAX(parts, (uint64_t)NORM_PARTS), iterations / MAX_ITERATIONS + 1);
}

/* The work-items of a group that sums a norm: update.cl says how. */
static uint32_t
norm_items(const yki_updater *u)
{
    return u->flat.group >= NORM_LANES ? u->flat.group : 1;
}

static yki_grid
norm_grid(const yki_updater *u, const yki_bucket *bucket)
{
    uint64_t groups = bucket->size / 4 / NORM_LANES / MAX_ITERATIONS + 1,
             parts = norm_parts(bucket);

    if (norm_items(u) > 1)
        groups = (parts + norm_items(u) / NORM_LANES - 1) / (norm_items(u) / NORM_LANES);
    else
        groups = YKI_MIN(YKI_MAX(groups, (uint64_t)NORM_GROUPS), parts);
    return (yki_grid){{(size_t)groups, 1, 1}, {norm_items(u), 1, 1}};
}

size_t
yki_updater_norm_count(const yki_weights *weights)
{
    size_t parts = 0;

    for (size_t b = 0; b < weights->bucket_count; b++)
        parts += norm_parts(&weights->buckets[b]);
    return parts;
}

/* Finds a parameter's rate and decay: the first group whose pattern matches decides. */
static void
treatment(const yki_updater *u, const yoke_node *node, float *rate_scale, float *decay)
{
    *rate_scale = 1;
    *decay = u->options.optimizer.weight_decay;
    for (size_t i = 0; i < u->options.group_count; i++) {
        const yoke_parameter_group *group = &u->options.groups[i];

        if (fnmatch(group->pattern, node->name, 0) != 0)
            continue;
        if (group->learning_rate_scale != 0)
            *rate_scale = group->learning_rate_scale;
        if (group->has_weight_decay)
            *decay = group->weight_decay;
        return;
    }
}

/* Leaves the gradient of a parameter out of the norm. The parameter was frozen after backward was
 * planned, so backward still computes the gradient. */
static yoke_status
leave_out(yki_updater *u, uint32_t bucket, uint64_t offset, uint64_t size)
{
    frozen_range *last = u->frozen_count ? &u->frozen[u->frozen_count - 1] : NULL;

    if (last && last->bucket == bucket && last->offset + last->size == offset) {
        last->size += size;
        return YOKE_OK;
    }
    YKI_TRY(yki_grow((void **)&u->frozen, &u->frozen_capacity, u->frozen_count + 1,
                     sizeof *u->frozen, "frozen parameters"));
    u->frozen[u->frozen_count++] = (frozen_range){bucket, offset, size};
    return YOKE_OK;
}

/* Buckets have the parameters in reverse order, so this loop meets them by rising offset.
 * Parameters are numbered in that order, all of them, so that the numbers follow from the graph
 * alone. */
static yoke_status
cut_segments(yki_updater *u)
{
    uint64_t number = 0, end = 0;

    for (size_t i = u->weights->weight_count; i-- > 0;) {
        const yki_weight *weight = &u->weights->weights[i];
        segment *last = u->segment_count ? &u->segments[u->segment_count - 1] : NULL;
        uint64_t size = (weight->size + YKI_WEIGHT_ALIGN - 1) / YKI_WEIGHT_ALIGN * YKI_WEIGHT_ALIGN;
        yki_range own, part;
        segment made;

        number = end;
        end += size;
        if (!weight->node->gradient || !measures(u, weight->bucket)) /* or it has no bucket */
            continue;
        own = owned(u, weight->bucket);
        part = yki_range_common((yki_range){weight->offset, size}, own);
        made = (segment){.size = part.size, .number = number + part.offset - weight->offset};
        if (weight->node->frozen) {
            YKI_TRY(leave_out(u, weight->bucket, weight->offset, size));
            continue;
        }
        if (part.size == 0)
            continue;
        made.unit = u->unit_of[weight->bucket];
        made.offset = start_in_unit(u, weight->bucket) + part.offset - own.offset;
        treatment(u, weight->node, &made.rate_scale, &made.decay);
        if (last && last->unit == made.unit && last->offset + last->size == made.offset &&
            last->number + last->size == made.number && last->rate_scale == made.rate_scale &&
            last->decay == made.decay) {
            last->size += part.size;
            continue;
        }
        YKI_TRY(yki_grow((void **)&u->segments, &u->segment_capacity, u->segment_count + 1,
                         sizeof *u->segments, "an optimizer's segments"));
        u->segments[u->segment_count++] = made;
    }
    return YOKE_OK;
}

static yoke_status
make_part(const yki_updater *u, uint64_t size, const char *what, yki_buffer **part)
{
    YKI_TRY(yki_buffer_create(u->weights->device, size, 0, what, part));
    return yki_buffer_touch(u->queue, *part);
}

/* A unit for what it owns of one bucket. */
static yoke_status
add_unit(yki_updater *u, size_t b)
{
    const yki_bucket *bucket = &u->weights->buckets[b];
    const yki_pool *pool = &u->weights->pools[bucket->pool];
    const yki_range own = owned(u, b);
    unit *at = &u->units[u->unit_count++];

    *at = (unit){.values = bucket->values, .gradients = bucket->gradients, .size = own.size};
    if (own.size == bucket->size && !u->options.divides)
        return YOKE_OK;
    if (u->weights->divided)
        YKI_TRY(make_part(u, own.size, "parameters", &at->part[0]));
    else
        YKI_TRY(yki_buffer_view(pool->values, bucket->start + own.offset, own.size, &at->part[0]));
    if (u->options.divides) {
        YKI_TRY(make_part(u, own.size, "gradients", &at->part[1]));
    } else {
        YKI_TRY(
            yki_buffer_view(pool->gradients, bucket->start + own.offset, own.size, &at->part[1]));
    }
    at->values = at->part[0];
    at->gradients = at->part[1];
    return YOKE_OK;
}

/* Decides in which memory segments lie; makes no state. */
static yoke_status
make_units(yki_updater *u)
{
    const yki_weights *w = u->weights;
    size_t most = YKI_MAX(w->pool_count, w->bucket_count);

    u->units = yki_alloc(most, sizeof *u->units, "optimizer state");
    u->unit_of = yki_alloc(w->bucket_count, sizeof *u->unit_of, "optimizer state");
    if (!u->units || !u->unit_of)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < w->pool_count && owns_all(u); i++)
        u->units[u->unit_count++] = (unit){.values = w->pools[i].values,
                                           .gradients = w->pools[i].gradients,
                                           .size = w->pools[i].size};
    for (size_t b = 0; b < w->bucket_count; b++) {
        u->unit_of[b] = owns_all(u) ? w->buckets[b].pool : (uint32_t)u->unit_count;
        if (owns(u, b) && !owns_all(u))
            YKI_TRY(add_unit(u, b));
    }
    return YOKE_OK;
}

/* Makes the state of the units. */
static yoke_status
allocate_units(yki_updater *u)
{
    const uint64_t part = u->options.state == YOKE_STATE_BF16 ? 2 : 1;

    for (size_t i = 0; i < u->unit_count; i++) {
        unit *at = &u->units[i];

        if (keeps_m(&u->options.optimizer))
            YKI_TRY(yki_buffer_create(u->weights->device, at->size / part, 0, "optimizer state",
                                      &at->m));
        if (keeps_v(&u->options.optimizer))
            YKI_TRY(yki_buffer_create(u->weights->device, at->size / part, 0, "optimizer state",
                                      &at->v));
        if (u->options.average > 0)
            YKI_TRY(yki_buffer_create(u->weights->device, at->size, 0, "averages", &at->average));
    }
    return YOKE_OK;
}

static yoke_status
allocate_state(yki_updater *u)
{
    size_t buckets = u->weights->bucket_count;
    yoke_device *device = u->weights->device;

    u->norms = yki_alloc(buckets, sizeof *u->norms, "optimizer kernels");
    if (!u->norms)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (u->options.norm_parts)
        u->parts = u->options.norm_parts;
    else
        YKI_TRY(yki_buffer_create(device,
                                  YKI_MAX(yki_updater_norm_count(u->weights) * 4, (size_t)64), 0,
                                  "partial norms", &u->parts));
    YKI_TRY(yki_buffer_create(device, 64, 0, "no optimizer state", &u->empty));
    YKI_TRY(allocate_units(u));
    return yki_updater_reset(u);
}

static yoke_status
make_kernel(yki_updater *u, const char *name, yki_kernel **kernel)
{
    char options[128];

    snprintf(options, sizeof options, "-DVEC=%u -DWG=%u%s%s", u->flat.vector, u->flat.group,
             u->options.settle ? " -DSETTLE=1" : "",
             u->options.state == YOKE_STATE_BF16 ? " -DSMALL_STATE=1" : "");
    yki_kernel_destroy(*kernel);
    *kernel = NULL;
    return yki_kernel_get(u->device, "update.cl", options, name, kernel);
}

static yoke_status
set_optimizer_args(const yoke_optimizer *o, yki_kernel *kernel, unsigned i)
{
    switch (o->kind) {
    case YOKE_OPTIMIZER_SGD:
        YKI_TRY(yki_kernel_set_float(kernel, i++, o->momentum));
        return yki_kernel_set_int(kernel, i, o->nesterov);
    case YOKE_OPTIMIZER_ADAM:
    case YOKE_OPTIMIZER_ADAMW:
        YKI_TRY(yki_kernel_set_float(kernel, i++, o->beta1));
        YKI_TRY(yki_kernel_set_float(kernel, i++, o->beta2));
        YKI_TRY(yki_kernel_set_float(kernel, i++, o->epsilon));
        return yki_kernel_set_int(kernel, i, o->kind == YOKE_OPTIMIZER_ADAMW);
    case YOKE_OPTIMIZER_RMSPROP:
        YKI_TRY(yki_kernel_set_float(kernel, i++, o->beta2));
        YKI_TRY(yki_kernel_set_float(kernel, i++, o->epsilon));
        return yki_kernel_set_float(kernel, i, o->momentum);
    }
    return YOKE_OK;
}

enum { ROW = 5, NUMBERED = 512 /* bytes that have a number */ };

/* Makes the table of `count` segments of a unit, and gives the number of their vectors. */
static yoke_status
make_table(yki_updater *u, unit *at, const segment *segments, size_t count, int64_t *vectors)
{
    uint64_t size = count * ROW * sizeof(int32_t);
    int32_t *rows = yki_alloc(count, ROW * sizeof *rows, "an optimizer's segments");
    yoke_status status;

    if (!rows)
        return YOKE_ERROR_OUT_OF_MEMORY;
    *vectors = 0;
    for (size_t s = 0; s < count; s++) {
        rows[ROW * s] = (int32_t)(segments[s].offset / 4 / u->flat.vector);
        rows[ROW * s + 1] = (int32_t)*vectors;
        memcpy(&rows[ROW * s + 2], &segments[s].rate_scale, sizeof *rows);
        memcpy(&rows[ROW * s + 3], &segments[s].decay, sizeof *rows);
        rows[ROW * s + 4] = (int32_t)(uint32_t)(segments[s].number / NUMBERED);
        *vectors += (int64_t)(segments[s].size / 4 / u->flat.vector);
    }
    status = yki_buffer_create(u->device, size, 0, "an optimizer's segments", &at->table);
    if (status == YOKE_OK)
        status = yki_buffer_put(at->table, 0, size, rows);
    yki_free(rows);
    return status;
}

static yki_grid
grid_for(const yki_updater *u, int64_t vectors)
{
    yki_grid grid = {.local = {u->flat.group}};

    grid.groups[0] =
        (size_t)YKI_MAX(YKI_MIN(YKI_MAX(vectors / 64, INT64_C(1)), (int64_t)u->flat.groups),
                        vectors / u->flat.group / MAX_ITERATIONS + 1);
    return grid;
}

/* Makes the launch of a unit, which has `count` segments. counts: see update.cl. */
static yoke_status
make_update(yki_updater *u, unit *at, const segment *segments, size_t count, int counts)
{
    static const char *const names[] = {"yki_sgd", "yki_adam", "yki_adam", "yki_rmsprop"};
    int64_t vectors;
    unsigned i = 0;

    YKI_TRY(make_table(u, at, segments, count, &vectors));
    YKI_TRY(make_kernel(u, names[u->options.optimizer.kind], &at->kernel));
    YKI_TRY(yki_kernel_set_buffer(at->kernel, i++, at->values));
    YKI_TRY(yki_kernel_set_buffer(at->kernel, i++, at->gradients));
    YKI_TRY(yki_kernel_set_buffer(at->kernel, i++, at->m ? at->m : u->empty));
    YKI_TRY(yki_kernel_set_buffer(at->kernel, i++, at->v ? at->v : u->empty));
    YKI_TRY(yki_kernel_set_buffer(at->kernel, i++, u->step));
    YKI_TRY(yki_kernel_set_buffer(at->kernel, i++, u->loss));
    YKI_TRY(yki_kernel_set_int(at->kernel, i++, counts));
    YKI_TRY(yki_kernel_set_buffer(at->kernel, i++, at->table));
    YKI_TRY(yki_kernel_set_int(at->kernel, i++, (int64_t)count));
    YKI_TRY(yki_kernel_set_int(at->kernel, i++, vectors));
    YKI_TRY(yki_kernel_set_float(at->kernel, i++, u->options.clip_value));
    YKI_TRY(set_optimizer_args(&u->options.optimizer, at->kernel, i));
    at->grid = grid_for(u, vectors);
    return YOKE_OK;
}

/* Makes a launch of each unit that has segments; they are sorted by unit. */
static yoke_status
make_updates(yki_updater *u)
{
    for (size_t s = 0, end; s < u->segment_count; s = end) {
        uint32_t at = u->segments[s].unit;

        for (end = s + 1; end < u->segment_count && u->segments[end].unit == at;)
            end++;
        YKI_TRY(make_update(u, &u->units[at], &u->segments[s], end - s,
                            !counts_itself(u) ? 0
                            : s == 0          ? 2
                                              : 1));
    }
    return YOKE_OK;
}

static yoke_status
make_norms(yki_updater *u, yki_buffer *step)
{
    uint32_t first = 0;
    unsigned i;

    for (size_t b = 0; b < u->weights->bucket_count; b++) {
        const yki_bucket *bucket = &u->weights->buckets[b];

        i = 0;
        if (measures(u, b)) {
            YKI_TRY(make_kernel(u, "yki_norm_part", &u->norms[b]));
            YKI_TRY(yki_kernel_set_buffer(u->norms[b], i++, bucket->gradients));
            YKI_TRY(yki_kernel_set_buffer(u->norms[b], i++, u->parts));
            YKI_TRY(yki_kernel_set_int(u->norms[b], i++, (int64_t)(bucket->size / 4 / NORM_LANES)));
            YKI_TRY(yki_kernel_set_int(u->norms[b], i++, norm_parts(bucket)));
            YKI_TRY(yki_kernel_set_int(u->norms[b], i++, first));
        }
        first += norm_parts(bucket);
    }
    i = 0;
    YKI_TRY(make_kernel(u, "yki_norm_finish", &u->finish));
    YKI_TRY(yki_kernel_set_buffer(u->finish, i++, u->parts));
    YKI_TRY(yki_kernel_set_int(u->finish, i++, (int64_t)yki_updater_norm_count(u->weights)));
    YKI_TRY(yki_kernel_set_buffer(u->finish, i++, step));
    return yki_kernel_set_float(u->finish, i, u->options.clip_norm);
}

/* Makes the launches that keep and use the averages: over all of each unit. */
static yoke_status
make_averages(yki_updater *u)
{
    for (size_t k = 0; k < u->unit_count && u->options.average > 0; k++) {
        unit *at = &u->units[k];
        const int64_t vectors = (int64_t)(at->size / 4 / u->flat.vector);
        unsigned i = 0;

        YKI_TRY(make_kernel(u, "yki_average", &at->averages));
        YKI_TRY(yki_kernel_set_buffer(at->averages, i++, at->values));
        YKI_TRY(yki_kernel_set_buffer(at->averages, i++, at->average));
        YKI_TRY(yki_kernel_set_buffer(at->averages, i++, u->step));
        YKI_TRY(yki_kernel_set_int(at->averages, i++, vectors));
        YKI_TRY(yki_kernel_set_float(at->averages, i, u->options.average));
        i = 0;
        YKI_TRY(make_kernel(u, "yki_exchange", &at->exchange));
        YKI_TRY(yki_kernel_set_buffer(at->exchange, i++, at->values));
        YKI_TRY(yki_kernel_set_buffer(at->exchange, i++, at->average));
        YKI_TRY(yki_kernel_set_int(at->exchange, i, vectors));
        at->all = grid_for(u, vectors);
    }
    return YOKE_OK;
}

static yoke_status
make_launches(yki_updater *u, yki_buffer *loss, yki_buffer *step)
{
    YKI_TRY(make_kernel(u, "yki_step_count", &u->count));
    YKI_TRY(yki_kernel_set_buffer(u->count, 0, loss));
    YKI_TRY(yki_kernel_set_buffer(u->count, 1, step));
    if (yki_updater_wants_norm(u))
        YKI_TRY(make_norms(u, step));
    YKI_TRY(make_averages(u));
    return make_updates(u);
}

/* The caller may free its groups; freezing reads them again. */
static yoke_status
copy_groups(yki_updater *u)
{
    const yoke_parameter_group *given = u->options.groups;
    const size_t count = u->options.group_count;

    u->options.groups = NULL;
    u->options.group_count = 0;
    if (count == 0)
        return YOKE_OK;
    u->groups = yki_alloc(count, sizeof *u->groups, "groups of parameters");
    if (!u->groups)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (; u->options.group_count < count; u->options.group_count++) {
        yoke_parameter_group *group = &u->groups[u->options.group_count];

        *group = given[u->options.group_count];
        group->pattern = yki_strdup(group->pattern, "a group of parameters");
        if (!group->pattern)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    u->options.groups = u->groups;
    return YOKE_OK;
}

yoke_status
yki_updater_create(yki_weights *weights, yki_queue *queue, yki_buffer *loss, yki_buffer *step,
                   const yki_updater_options *options, yki_updater **out)
{
    yki_updater *u = yki_alloc(1, sizeof *u, "an optimizer");
    yoke_status status;

    if (!u)
        return YOKE_ERROR_OUT_OF_MEMORY;
    u->weights = yki_weights_retain(weights);
    u->queue = queue;
    u->options = *options;
    u->loss = loss;
    u->step = step;
    u->device = weights->device;
    u->flat = yki_flat_for(yki_device_get_traits(u->device));
    status = copy_groups(u);
    if (status == YOKE_OK)
        status = make_units(u);
    if (status == YOKE_OK)
        status = cut_segments(u);
    if (status == YOKE_OK)
        status = allocate_state(u);
    if (status == YOKE_OK)
        status = make_launches(u, loss, step);
    if (status != YOKE_OK) {
        yki_updater_destroy(u);
        return status;
    }
    *out = u;
    return YOKE_OK;
}

static void
drop_updates(yki_updater *u)
{
    for (size_t i = 0; i < u->unit_count; i++) {
        yki_kernel_destroy(u->units[i].kernel);
        yki_buffer_destroy(u->units[i].table);
        u->units[i].kernel = NULL;
        u->units[i].table = NULL;
    }
}

static void
drop_segments(yki_updater *u)
{
    drop_updates(u);
    u->segment_count = u->frozen_count = 0;
}

void
yki_updater_destroy(yki_updater *u)
{
    if (!u)
        return;
    drop_segments(u);
    for (size_t b = 0; u->norms && b < u->weights->bucket_count; b++)
        yki_kernel_destroy(u->norms[b]);
    for (size_t i = 0; i < u->unit_count; i++) {
        yki_buffer_destroy(u->units[i].m);
        yki_buffer_destroy(u->units[i].v);
        yki_buffer_destroy(u->units[i].average);
        yki_kernel_destroy(u->units[i].averages);
        yki_kernel_destroy(u->units[i].exchange);
        yki_buffer_destroy(u->units[i].part[0]);
        yki_buffer_destroy(u->units[i].part[1]);
    }
    yki_kernel_destroy(u->count);
    yki_kernel_destroy(u->finish);
    if (!u->options.norm_parts)
        yki_buffer_destroy(u->parts);
    yki_buffer_destroy(u->empty);
    yki_weights_release(u->weights);
    for (size_t i = 0; i < u->options.group_count; i++)
        yki_free((void *)u->groups[i].pattern);
    yki_free(u->groups);
    yki_free(u->segments);
    yki_free(u->frozen);
    yki_free(u->units);
    yki_free(u->unit_of);
    yki_free(u->norms);
    yki_free(u);
}

yoke_status
yki_updater_reset(yki_updater *u)
{
    for (size_t i = 0; i < u->unit_count; i++) {
        if (u->units[i].m)
            YKI_TRY(yki_buffer_touch(u->queue, u->units[i].m));
        if (u->units[i].v)
            YKI_TRY(yki_buffer_touch(u->queue, u->units[i].v));
        if (u->units[i].average)
            YKI_TRY(yki_buffer_touch(u->queue, u->units[i].average));
    }
    return YOKE_OK;
}

yoke_status
yki_updater_enqueue_count(yki_updater *u)
{
    const yki_grid one = {{1, 1, 1}, {1, 1, 1}};

    return yki_queue_launch(u->queue, u->count, &one, YKI_NO_WAIT, NULL);
}

static yoke_status
enqueue_norm(yki_updater *u, size_t bucket)
{
    const yki_bucket *at = &u->weights->buckets[bucket];
    const yki_grid grid = norm_grid(u, at);

    if (!yki_updater_wants_norm(u) || !measures(u, bucket))
        return YOKE_OK;
    for (size_t i = 0; i < u->frozen_count; i++)
        if (u->frozen[i].bucket == bucket)
            YKI_TRY(yki_queue_fill(u->queue, at->gradients, u->frozen[i].offset, u->frozen[i].size,
                                   0, YKI_NO_WAIT, NULL));
    return yki_queue_launch(u->queue, u->norms[bucket], &grid, YKI_NO_WAIT, NULL);
}

yoke_status
yki_updater_enqueue_norms(yki_updater *u)
{
    if (!counts_itself(u))
        YKI_TRY(yki_updater_enqueue_count(u));
    for (size_t b = 0; !u->options.divides && b < u->weights->bucket_count; b++)
        YKI_TRY(enqueue_norm(u, b));
    return YOKE_OK;
}

yoke_status
yki_updater_enqueue_norm(yki_updater *u, size_t bucket)
{
    const yki_range own = owned(u, bucket);

    YKI_TRY(enqueue_norm(u, bucket));
    if (own.size == 0)
        return YOKE_OK;
    return yki_queue_copy(u->queue, u->weights->buckets[bucket].gradients, own.offset,
                          yki_updater_gradients(u, bucket), 0, own.size, YKI_NO_WAIT, NULL);
}

/* Makes all launches anew for a device that has the same memory. The order of sums is the same on
 * every device, so the bits are. What was enqueued stays, and u->next. */
static yoke_status
move_to(yki_updater *u, yoke_device *device)
{
    if (!u->lacks && yki_device_space(device) == yki_device_space(u->device))
        return YOKE_OK;
    u->lacks = true;
    drop_updates(u);
    u->device = device;
    u->flat = yki_flat_for(yki_device_get_traits(device));
    YKI_TRY(make_launches(u, u->loss, u->step));
    u->lacks = false;
    return YOKE_OK;
}

yoke_status
yki_updater_enqueue_updates(yki_updater *u, yki_queue *queue)
{
    yki_grid one = {.groups = {1}};

    YKI_TRY(move_to(u, yki_queue_device(queue)));
    one.local[0] = norm_items(u);
    if (u->next == 0 && yki_updater_wants_norm(u))
        YKI_TRY(yki_queue_launch(queue, u->finish, &one, YKI_NO_WAIT, NULL));
    for (; u->next < 2 * u->unit_count; u->next++) {
        const unit *at = &u->units[u->next / 2];
        yki_kernel *kernel = u->next % 2 ? at->averages : at->kernel;

        if (kernel)
            YKI_TRY(yki_queue_launch(queue, kernel, u->next % 2 ? &at->all : &at->grid, YKI_NO_WAIT,
                                     NULL));
    }
    u->next = 0;
    u->weights->version++;
    return YOKE_OK;
}

yoke_status
yki_updater_exchange(yki_updater *u)
{
    YKI_TRY(move_to(u, yki_queue_device(u->queue)));
    for (size_t i = 0; i < u->unit_count; i++)
        if (u->units[i].exchange)
            YKI_TRY(yki_queue_launch(u->queue, u->units[i].exchange, &u->units[i].all, YKI_NO_WAIT,
                                     NULL));
    return YOKE_OK;
}

yoke_status
yki_updater_enqueue(yki_updater *u)
{
    YKI_TRY(yki_updater_enqueue_norms(u));
    return yki_updater_enqueue_updates(u, u->queue);
}

void
yki_updater_set_rate(yki_updater *u, float learning_rate)
{
    u->options.optimizer.learning_rate = learning_rate;
}

yoke_status
yki_updater_refresh(yki_updater *u)
{
    YKI_TRY(yki_queue_finish(u->queue));
    drop_segments(u);
    YKI_TRY(cut_segments(u));
    return make_updates(u);
}

void
yki_updater_fill(const yki_updater *u, uint32_t step, float rate_factor, yki_step_values *values)
{
    const yoke_optimizer *o = &u->options.optimizer;

    values->learning_rate = o->learning_rate * rate_factor;
    values->bias1 = (float)(1 - pow((double)o->beta1, step));
    values->bias2 = (float)sqrt(1 - pow((double)o->beta2, step));
}

yki_buffer *
yki_updater_norms(const yki_updater *u, size_t bucket, uint64_t *offset, uint64_t *size)
{
    *offset = 0;
    for (size_t b = 0; b < bucket; b++)
        *offset += norm_parts(&u->weights->buckets[b]) * sizeof(float);
    *size = norm_parts(&u->weights->buckets[bucket]) * sizeof(float);
    return u->parts;
}

yki_state_place
yki_updater_state(const yki_updater *u, size_t bucket, unsigned which, yki_range *range)
{
    yki_state_place place = {.small = which < 2 && u->options.state == YOKE_STATE_BF16};

    *range = owned(u, bucket);
    if (owns(u, bucket)) {
        const unit *at = &u->units[u->unit_of[bucket]];

        place.buffer = which == 0 ? at->m : which == 1 ? at->v : at->average;
    }
    return place.buffer ? yki_state_behind(place, start_in_unit(u, bucket)) : place;
}

yki_buffer *
yki_updater_gradients(const yki_updater *u, size_t bucket)
{
    return u->options.divides && owns(u, bucket) ? u->units[u->unit_of[bucket]].gradients : NULL;
}

yki_buffer *
yki_updater_values(const yki_updater *u, size_t bucket, yki_range *range)
{
    *range = owned(u, bucket);
    return u->weights->divided && range->size ? u->units[u->unit_of[bucket]].values : NULL;
}

bool
yki_updater_keeps(const yki_updater *u, unsigned which)
{
    return which == 0   ? keeps_m(&u->options.optimizer)
           : which == 1 ? keeps_v(&u->options.optimizer)
                        : u->options.average > 0;
}

const yki_updater_options *
yki_updater_get_options(const yki_updater *u)
{
    return &u->options;
}

uint64_t
yki_updater_bytes(const yki_updater *u)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < u->segment_count; i++)
        bytes += u->segments[i].size;
    return bytes;
}

uint64_t
yki_updater_state_bytes(const yki_updater *u)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < u->unit_count; i++)
        bytes += u->units[i].size;
    return bytes / 2 * yki_updater_halves(&u->options);
}

size_t
yki_updater_halves(const yki_updater_options *o)
{
    const size_t each = o->state == YOKE_STATE_BF16 ? 1 : 2;

    return each * ((size_t)keeps_m(&o->optimizer) + keeps_v(&o->optimizer)) +
           (o->average > 0 ? 2 : 0);
}
