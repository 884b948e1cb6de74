/* SPDX-License-Identifier: Apache-2.0
 *
 * updater.c - an optimizer over the buckets of one device: its state, and the
 * launches that turn summed gradients into new parameters.
 *
 * A bucket is cut into segments: runs of parameters that are updated alike (the same
 * rate and decay, not frozen). Usually a bucket is one segment, so an update is one
 * launch for each bucket. The state has the same order in memory as the parameters.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/flat.h"
#include "replica/updater.h"

enum {
    NORM_PARTS = 16, /* partial sums of a bucket's norm, at least */
    NORM_LANES = 16, /* SIMD lanes of the sums, on every device: the order decides the bits */
    MAX_ITERATIONS =
        32768, /* iterations of a work-item's loop: llvmpipe ends longer ones silently */
};

/* A range of a bucket, in bytes. */
typedef struct range {
    uint32_t bucket;
    uint64_t offset, size;
} range;

typedef struct segment {
    uint32_t bucket;
    uint64_t offset, size; /* bytes */
    float rate_scale, decay;
    yki_kernel *kernel;
    yki_grid grid;
} segment;

struct yki_updater {
    yki_weights *weights;
    yki_queue *queue;
    yki_updater_options options;
    yoke_parameter_group *groups; /* a copy, which options.groups names */
    yki_flat flat;
    yki_buffer **m, **v; /* state by bucket; an entry is NULL if it is not kept */
    yki_buffer *parts, *empty;
    yki_buffer *loss, *step; /* lent */
    segment *segments;
    size_t segment_count, segment_capacity;
    size_t next_segment; /* next to be enqueued, if an update was interrupted; else 0 */
    yki_kernel *count, *finish;
    yki_kernel **norms; /* by bucket */
    range *frozen;      /* gradients that backward computes but that update nothing */
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

/* Whether the update's kernels find the count of the loss themselves. The count has a launch of its
 * own if the norms need it before the update, or if there is no segment. */
static bool
counts_itself(const yki_updater *u)
{
    return u->segment_count > 0 && !yki_updater_wants_norm(u);
}

static bool
owns(const yki_updater *u, size_t bucket)
{
    return yki_weights_has(u->weights, bucket) &&
           (u->options.owners == 0 || bucket % u->options.owners == u->options.owner);
}

/* The number of partial norms of a bucket. It follows from the size alone, so it is the same on
 * every device. */
static uint32_t
norm_parts(const yki_bucket *bucket)
{
    uint64_t iterations = bucket->size / 4 / NORM_LANES;

    return (uint32_t)YKI_MAX(iterations / MAX_ITERATIONS + 1, (uint64_t)NORM_PARTS);
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
    range *last = u->frozen_count ? &u->frozen[u->frozen_count - 1] : NULL;

    if (last && last->bucket == bucket && last->offset + last->size == offset) {
        last->size += size;
        return YOKE_OK;
    }
    YKI_TRY(yki_grow((void **)&u->frozen, &u->frozen_capacity, u->frozen_count + 1,
                     sizeof *u->frozen, "frozen parameters"));
    u->frozen[u->frozen_count++] = (range){bucket, offset, size};
    return YOKE_OK;
}

/* Buckets have the parameters in reverse order, so this loop meets them by rising offset. */
static yoke_status
cut_segments(yki_updater *u)
{
    for (size_t i = u->weights->weight_count; i-- > 0;) {
        const yki_weight *weight = &u->weights->weights[i];
        segment *last = u->segment_count ? &u->segments[u->segment_count - 1] : NULL;
        uint64_t size = (weight->size + YKI_WEIGHT_ALIGN - 1) / YKI_WEIGHT_ALIGN * YKI_WEIGHT_ALIGN;
        segment made = {.bucket = weight->bucket, .offset = weight->offset, .size = size};

        if (!weight->node->gradient || !owns(u, weight->bucket))
            continue;
        if (weight->node->frozen) {
            YKI_TRY(leave_out(u, made.bucket, made.offset, size));
            continue;
        }
        treatment(u, weight->node, &made.rate_scale, &made.decay);
        if (last && last->bucket == made.bucket && last->offset + last->size == made.offset &&
            last->rate_scale == made.rate_scale && last->decay == made.decay) {
            last->size += size;
            continue;
        }
        YKI_TRY(yki_grow((void **)&u->segments, &u->segment_capacity, u->segment_count + 1,
                         sizeof *u->segments, "an optimizer's segments"));
        u->segments[u->segment_count++] = made;
    }
    return YOKE_OK;
}

static yoke_status
allocate_state(yki_updater *u)
{
    size_t buckets = u->weights->bucket_count;
    yoke_device *device = u->weights->device;

    u->m = yki_alloc(buckets, sizeof *u->m, "optimizer state");
    u->v = yki_alloc(buckets, sizeof *u->v, "optimizer state");
    u->norms = yki_alloc(buckets, sizeof *u->norms, "optimizer kernels");
    if (!u->m || !u->v || !u->norms)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (u->options.norm_parts)
        u->parts = u->options.norm_parts;
    else
        YKI_TRY(yki_buffer_create(device,
                                  YKI_MAX(yki_updater_norm_count(u->weights) * 4, (size_t)64), 0,
                                  "partial norms", &u->parts));
    YKI_TRY(yki_buffer_create(device, 64, 0, "no optimizer state", &u->empty));
    for (size_t b = 0; b < buckets; b++) {
        uint64_t size = u->weights->buckets[b].size;

        if (!owns(u, b))
            continue;
        if (keeps_m(&u->options.optimizer))
            YKI_TRY(yki_buffer_create(device, size, 0, "optimizer state", &u->m[b]));
        if (keeps_v(&u->options.optimizer))
            YKI_TRY(yki_buffer_create(device, size, 0, "optimizer state", &u->v[b]));
    }
    return yki_updater_reset(u);
}

static yoke_status
make_kernel(yki_updater *u, const char *name, yki_kernel **kernel)
{
    char options[128];

    snprintf(options, sizeof options, "-DVEC=%u -DWG=%u", u->flat.vector, u->flat.group);
    return yki_kernel_get(u->weights->device, "update.cl", options, name, kernel);
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

static yoke_status
make_segment(yki_updater *u, segment *s, yki_buffer *step)
{
    static const char *const names[] = {"yki_sgd", "yki_adam", "yki_adam", "yki_rmsprop"};
    const yki_bucket *bucket = &u->weights->buckets[s->bucket];
    uint64_t vectors = s->size / 4 / u->flat.vector;
    unsigned i = 0;

    YKI_TRY(make_kernel(u, names[u->options.optimizer.kind], &s->kernel));
    YKI_TRY(yki_kernel_set_buffer(s->kernel, i++, bucket->values));
    YKI_TRY(yki_kernel_set_buffer(s->kernel, i++, bucket->gradients));
    YKI_TRY(yki_kernel_set_buffer(s->kernel, i++, u->m[s->bucket] ? u->m[s->bucket] : u->empty));
    YKI_TRY(yki_kernel_set_buffer(s->kernel, i++, u->v[s->bucket] ? u->v[s->bucket] : u->empty));
    YKI_TRY(yki_kernel_set_buffer(s->kernel, i++, step));
    YKI_TRY(yki_kernel_set_buffer(s->kernel, i++, u->loss));
    YKI_TRY(yki_kernel_set_int(s->kernel, i++, !counts_itself(u) ? 0 : s == u->segments ? 2 : 1));
    YKI_TRY(yki_kernel_set_int(s->kernel, i++, (int64_t)(s->offset / 4 / u->flat.vector)));
    YKI_TRY(yki_kernel_set_int(s->kernel, i++, (int32_t)vectors));
    YKI_TRY(yki_kernel_set_float(s->kernel, i++, s->rate_scale));
    YKI_TRY(yki_kernel_set_float(s->kernel, i++, s->decay));
    YKI_TRY(yki_kernel_set_float(s->kernel, i++, u->options.clip_value));
    YKI_TRY(set_optimizer_args(&u->options.optimizer, s->kernel, i));
    s->grid.local[0] = u->flat.group;
    s->grid.groups[0] =
        (size_t)YKI_MAX(YKI_MIN(YKI_MAX(vectors / 64, 1u), (uint64_t)u->flat.groups),
                        vectors / u->flat.group / MAX_ITERATIONS + 1);
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
        if (owns(u, b)) {
            YKI_TRY(make_kernel(u, "yki_norm_part", &u->norms[b]));
            YKI_TRY(yki_kernel_set_buffer(u->norms[b], i++, bucket->gradients));
            YKI_TRY(yki_kernel_set_buffer(u->norms[b], i++, u->parts));
            YKI_TRY(yki_kernel_set_int(u->norms[b], i++, (int32_t)(bucket->size / 4 / NORM_LANES)));
            YKI_TRY(yki_kernel_set_int(u->norms[b], i++, (int32_t)first));
        }
        first += norm_parts(bucket);
    }
    i = 0;
    YKI_TRY(make_kernel(u, "yki_norm_finish", &u->finish));
    YKI_TRY(yki_kernel_set_buffer(u->finish, i++, u->parts));
    YKI_TRY(yki_kernel_set_int(u->finish, i++, (int32_t)yki_updater_norm_count(u->weights)));
    YKI_TRY(yki_kernel_set_buffer(u->finish, i++, step));
    return yki_kernel_set_float(u->finish, i, u->options.clip_norm);
}

static yoke_status
make_launches(yki_updater *u, yki_buffer *loss, yki_buffer *step)
{
    YKI_TRY(make_kernel(u, "yki_step_count", &u->count));
    YKI_TRY(yki_kernel_set_buffer(u->count, 0, loss));
    YKI_TRY(yki_kernel_set_buffer(u->count, 1, step));
    if (yki_updater_wants_norm(u))
        YKI_TRY(make_norms(u, step));
    for (size_t s = 0; s < u->segment_count; s++)
        YKI_TRY(make_segment(u, &u->segments[s], step));
    return YOKE_OK;
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
    u->flat = yki_flat_for(yki_device_get_traits(weights->device));
    status = copy_groups(u);
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
drop_segments(yki_updater *u)
{
    for (size_t s = 0; s < u->segment_count; s++)
        yki_kernel_destroy(u->segments[s].kernel);
    u->segment_count = u->frozen_count = 0;
}

void
yki_updater_destroy(yki_updater *u)
{
    if (!u)
        return;
    drop_segments(u);
    for (size_t b = 0; b < u->weights->bucket_count; b++) {
        if (u->m)
            yki_buffer_destroy(u->m[b]);
        if (u->v)
            yki_buffer_destroy(u->v[b]);
        if (u->norms)
            yki_kernel_destroy(u->norms[b]);
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
    yki_free(u->m);
    yki_free(u->v);
    yki_free(u->norms);
    yki_free(u);
}

yoke_status
yki_updater_reset(yki_updater *u)
{
    for (size_t b = 0; b < u->weights->bucket_count; b++) {
        if (u->m[b])
            YKI_TRY(yki_buffer_touch(u->queue, u->m[b]));
        if (u->v[b])
            YKI_TRY(yki_buffer_touch(u->queue, u->v[b]));
    }
    return YOKE_OK;
}

yoke_status
yki_updater_enqueue_count(yki_updater *u)
{
    const yki_grid one = {{1, 1, 1}, {1, 1, 1}};

    return yki_queue_launch(u->queue, u->count, &one, YKI_NO_WAIT, NULL);
}

yoke_status
yki_updater_enqueue_norms(yki_updater *u)
{
    if (!counts_itself(u))
        YKI_TRY(yki_updater_enqueue_count(u));
    for (size_t i = 0; yki_updater_wants_norm(u) && i < u->frozen_count; i++)
        YKI_TRY(yki_queue_fill(u->queue, u->weights->buckets[u->frozen[i].bucket].gradients,
                               u->frozen[i].offset, u->frozen[i].size, 0, YKI_NO_WAIT, NULL));
    for (size_t b = 0; yki_updater_wants_norm(u) && b < u->weights->bucket_count; b++) {
        const yki_grid parts = {{norm_parts(&u->weights->buckets[b]), 1, 1}, {1, 1, 1}};

        if (owns(u, b))
            YKI_TRY(yki_queue_launch(u->queue, u->norms[b], &parts, YKI_NO_WAIT, NULL));
    }
    return YOKE_OK;
}

yoke_status
yki_updater_enqueue_updates(yki_updater *u, yki_queue *queue)
{
    const yki_grid one = {{1, 1, 1}, {1, 1, 1}};

    if (u->next_segment == 0 && yki_updater_wants_norm(u))
        YKI_TRY(yki_queue_launch(queue, u->finish, &one, YKI_NO_WAIT, NULL));
    for (; u->next_segment < u->segment_count; u->next_segment++)
        YKI_TRY(yki_queue_launch(queue, u->segments[u->next_segment].kernel,
                                 &u->segments[u->next_segment].grid, YKI_NO_WAIT, NULL));
    u->next_segment = 0;
    u->weights->version++;
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
    for (size_t s = 0; s < u->segment_count; s++)
        YKI_TRY(make_segment(u, &u->segments[s], u->step));
    return YOKE_OK;
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

yki_buffer *
yki_updater_state(const yki_updater *u, size_t bucket, unsigned which)
{
    return which == 0 ? u->m[bucket] : u->v[bucket];
}
