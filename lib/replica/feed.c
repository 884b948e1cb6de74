/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - brings samples of a dataset into the inputs of a plan on one device.
 *
 * Fields that fit stay on the device in their own type (u8 stays u8). For them a batch
 * is just the numbers of its samples: a kernel gathers, augments and scales the rows
 * (clkernels/feed.cl). Rows of other fields are read into a slot of a ring, beside the
 * numbers, usually ahead by a thread (data/prefetch.c); the same kernel takes them from
 * there. If the device can use host memory, a slot is host memory. Else it is pinned
 * memory with a copy on the device, which a queue of its own writes while the device
 * computes the step before. So a step allocates nothing, and it waits only if all slots
 * are under way.
 *
 * This file does not choose samples (data/order.c) and does not know plans.
 */
#include <stdio.h>
#include <string.h>

#include "op/flat.h"
#include "replica/feed.h"

enum {
    SLOTS = 4,         /* two for steps under way, one being prepared, one to spare */
    ALIGN = 64,        /* of each array in a slot, bytes */
    CHUNK = 256,       /* elements of a kernel's task; feed.cl has the same number */
    TASK_TURNS = 32,   /* loop iterations that a task takes, about */
    MAX_TURNS = 32768, /* iterations of a work-item's loop: llvmpipe ends longer ones silently */
    MAX_GROUPS = 65535,
    UPLOAD_BYTES = 1 << 23 /* copied at once to the device to stay there */
};

/* The sum of 16 random bytes is nearly normal (Irwin-Hall), with variance 16 (256^2 - 1) / 12. */
#define NOISE_DEVIATION 295.6033828f

typedef struct channel {
    const yoke_node *node;      /* lent; read only while the feed is made */
    int field;                  /* -1: none */
    uint64_t elements;          /* of the result for one sample; sets the grid */
    bool moved;                 /* the kernel crops, flips, shifts or adds noise */
    int32_t means, rows, width; /* of one sample; rows and width only if not moved */
    yki_buffer *scaling;
    yki_kernel *kernel;
    char *name;
} channel;

typedef struct slot {
    yki_buffer *device, *pinned; /* pinned is NULL if the host can write to `device` */
    yki_event sent, used;
} slot;

struct yki_feed {
    yoke_device *device;   /* retained */
    yoke_dataset *dataset; /* retained */
    yki_feed_options options;
    struct yki_augmentation augmentation;
    int64_t max_batch;
    channel *channels;
    size_t channel_count;
    yki_buffer *resident[YKI_MAX_FIELDS];
    bool wanted[YKI_MAX_FIELDS];
    slot slots[SLOTS];
    unsigned next;
    yki_queue *transfer; /* NULL: the host writes to the device's memory */
    uint32_t group;
};

static uint64_t
align(uint64_t offset)
{
    return (offset + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t
row_bytes(const yki_feed *feed, size_t field)
{
    return yki_field_size(&feed->dataset->fields[field]);
}

/* ---- what stays on the device ---- */

static uint64_t
resident_limit(const yki_feed *feed)
{
    yoke_memory_usage usage = {0};
    uint64_t room = yki_device_get_traits(feed->device)->memory;

    if (feed->options.resident_limit)
        return feed->options.resident_limit;
    if (yoke_device_get_memory(feed->device, &usage) == YOKE_OK && usage.quota)
        room = YKI_MIN(room, usage.quota - YKI_MIN(usage.used, usage.quota));
    return room / 4;
}

static yoke_status
upload_chunks(yki_feed *feed, size_t field, yki_buffer *buffer)
{
    uint64_t size = row_bytes(feed, field);
    size_t step = (size_t)YKI_MAX(UPLOAD_BYTES / size, (uint64_t)1);
    unsigned char *rows = yki_alloc(step, size, "samples on their way to a device");
    int64_t *indices = yki_alloc(step, sizeof *indices, "numbers of samples");
    yoke_status status = rows && indices ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (int64_t first = 0; first < feed->dataset->count && status == YOKE_OK;
         first += (int64_t)step) {
        size_t count = (size_t)YKI_MIN((int64_t)step, feed->dataset->count - first);

        for (size_t i = 0; i < count; i++)
            indices[i] = first + (int64_t)i;
        status = yki_dataset_read(feed->dataset, field, indices, count, rows);
        if (status == YOKE_OK)
            status = yki_buffer_put(buffer, (uint64_t)first * size, count * size, rows);
    }
    yki_free(rows);
    yki_free(indices);
    return status;
}

/* Copies a field to the device to stay there. If the device has no room, the field is copied batch
 * by batch instead. */
static yoke_status
make_resident(yki_feed *feed, size_t field)
{
    uint64_t size = (uint64_t)feed->dataset->count * row_bytes(feed, field);
    yki_buffer *buffer;
    yoke_status status;

    status = yki_buffer_create(feed->device, YKI_MAX(size, (uint64_t)ALIGN), 0,
                               feed->dataset->fields[field].name, &buffer);
    if (status == YOKE_ERROR_QUOTA || status == YOKE_ERROR_OUT_OF_DEVICE_MEMORY)
        return YOKE_OK;
    YKI_TRY(status);
    status = upload_chunks(feed, field, buffer);
    if (status != YOKE_OK) {
        yki_buffer_destroy(buffer);
        return status;
    }
    feed->resident[field] = buffer;
    return YOKE_OK;
}

/* Finds a twin whose memory this device can use; NULL: there is none. */
static const yki_feed *
find_twin(const yki_feed *feed)
{
    const yki_feed *twin = feed->options.twin;

    while (twin && yki_device_space(twin->device) != yki_device_space(feed->device))
        twin = twin->options.twin;
    return twin;
}

/* Shares the fields that the twin keeps. A view of its buffers keeps the memory alive, and the
 * memory counts once. */
static yoke_status
share_residents(yki_feed *feed, const yki_feed *twin)
{
    for (size_t f = 0; f < feed->dataset->field_count; f++)
        if (twin->resident[f])
            YKI_TRY(yki_buffer_view(twin->resident[f], 0, yki_buffer_size(twin->resident[f]),
                                    &feed->resident[f]));
    return YOKE_OK;
}

/* Tries the smallest field first, so labels stay on the device even if images do not. */
static yoke_status
make_all_resident(yki_feed *feed)
{
    uint64_t left = resident_limit(feed);
    const uint64_t count = (uint64_t)feed->dataset->count;
    const yki_feed *twin = find_twin(feed);
    bool tried[YKI_MAX_FIELDS] = {false};

    if (twin)
        return share_residents(feed, twin);
    for (;;) {
        int best = -1;

        for (size_t f = 0; f < feed->dataset->field_count; f++)
            if (feed->wanted[f] && !tried[f] &&
                (best < 0 || row_bytes(feed, f) < row_bytes(feed, (size_t)best)))
                best = (int)f;
        if (best < 0)
            return YOKE_OK;
        tried[best] = true;
        if (count > yki_device_get_traits(feed->device)->max_allocation /
                        row_bytes(feed, (size_t)best) ||
            count * row_bytes(feed, (size_t)best) > left ||
            feed->options.resident_limit == YKI_FEED_STREAM)
            continue;
        YKI_TRY(make_resident(feed, (size_t)best));
        if (feed->resident[best])
            left -= count * row_bytes(feed, (size_t)best);
    }
}

bool
yki_feed_streams(const yki_feed *feed, size_t field)
{
    return feed->wanted[field] && !feed->resident[field];
}

void
yki_feed_resident(const yki_feed *feed, uint64_t *resident, uint64_t *all)
{
    *resident = *all = 0;
    for (size_t f = 0; f < feed->dataset->field_count; f++) {
        uint64_t size = (uint64_t)feed->dataset->count * row_bytes(feed, f);

        *all += feed->wanted[f] ? size : 0;
        *resident += feed->resident[f] ? size : 0;
    }
}

/* ---- the ring ---- */

static yoke_status
make_slot(yki_feed *feed, slot *s, uint64_t size)
{
    YKI_TRY(yki_buffer_create(feed->device, size, 0, "a batch on its way", &s->device));
    if (yki_buffer_host(s->device))
        return YOKE_OK;
    YKI_TRY(
        yki_buffer_create(feed->device, size, YKI_BUFFER_PINNED, "a batch on its way", &s->pinned));
    if (feed->transfer)
        return YOKE_OK;
    return yki_queue_create(feed->device, YKI_QUEUE_TRANSFER, false, &feed->transfer);
}

static yoke_status
make_ring(yki_feed *feed)
{
    uint64_t size = align((uint64_t)feed->max_batch * sizeof(int64_t));

    for (size_t f = 0; f < feed->dataset->field_count; f++)
        if (feed->wanted[f] && !feed->resident[f])
            size = align(size + (uint64_t)feed->max_batch * row_bytes(feed, f));
    for (size_t i = 0; i < SLOTS; i++)
        YKI_TRY(make_slot(feed, &feed->slots[i], size));
    return YOKE_OK;
}

/* ---- kernels ---- */

static const char *
kernel_name(yoke_type from, yoke_type to, bool moved, bool columns)
{
    if (moved)
        return from == YOKE_U8 ? "yki_feed_moved_u8_f32" : "yki_feed_moved_f32_f32";
    if (columns)
        return from == YOKE_U8 ? "yki_feed_columns_u8_f32" : "yki_feed_columns_f32_f32";
    if (to == YOKE_F32)
        return from == YOKE_U8    ? "yki_feed_u8_f32"
               : from == YOKE_I32 ? "yki_feed_i32_f32"
                                  : "yki_feed_f32_f32";
    if (to == YOKE_I32)
        return from == YOKE_U8 ? "yki_feed_u8_i32" : "yki_feed_i32_i32";
    return "yki_feed_u8_u8";
}

/* Writes the means, then the scales, in one piece: after a partial write, Oclgrind takes the rest
 * for uninitialized. */
static yoke_status
make_scaling(yki_feed *feed, channel *c, const yoke_field *field)
{
    const struct yki_scaling *scaling = &feed->dataset->scaling[c->field];
    const bool bytes = field->type == YOKE_U8 && !c->node->target;
    size_t count = YKI_MAX(scaling->count, (size_t)1), size = 2 * count * sizeof(float);
    float *values = yki_alloc(2 * count, sizeof *values, "the scaling of an input");
    yoke_status status;

    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    c->means = (int32_t)count;
    values[1] = bytes ? 1 / 255.f : 1;
    if (scaling->count) {
        memcpy(values, scaling->mean, size / 2);
        memcpy(values + count, scaling->scale, size / 2);
    }
    status = yki_buffer_create(feed->device, YKI_MAX(size, (size_t)ALIGN), 0,
                               "the scaling of an input", &c->scaling);
    if (status == YOKE_OK)
        status = yki_buffer_put(c->scaling, 0, size, values);
    yki_free(values);
    return status;
}

static yoke_status
set_int(yki_kernel *kernel, unsigned index, int64_t value)
{
    int32_t narrow = (int32_t)value;

    return yki_kernel_set(kernel, index, sizeof narrow, &narrow);
}

/* Arguments from ARG_FIXED on are set once, apart from ARG_EPOCH, and so are SCALING, MEANS and
 * IDENTITY. The others change with each batch. */
enum {
    ARG_FROM,
    ARG_FIRST,
    ARG_INDICES,
    ARG_OUT,
    ARG_SCALING,
    ARG_MEANS,
    ARG_N,
    ARG_IDENTITY,
    ARG_FIXED
};

static yoke_status
set_fixed(yki_feed *feed, channel *c, const yoke_field *field)
{
    const struct yki_augmentation *a = &feed->augmentation;
    const bool training = feed->options.training;
    const int64_t *in = field->shape.dim, *out = c->node->shape.dim;
    const int64_t moved[] = {in[0], in[1], in[2], out[1], out[2], training, a->flip, a->shift};
    float noise = training ? a->noise / NOISE_DEVIATION : 0;
    unsigned i = ARG_FIXED;

    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_SCALING, c->scaling));
    YKI_TRY(set_int(c->kernel, ARG_MEANS, c->means));
    YKI_TRY(set_int(c->kernel, ARG_IDENTITY, !feed->resident[c->field]));
    if (!c->moved) {
        YKI_TRY(set_int(c->kernel, i, c->rows));
        return set_int(c->kernel, i + 1, c->width);
    }
    for (size_t k = 0; k < YKI_COUNT(moved); k++)
        YKI_TRY(set_int(c->kernel, i++, moved[k]));
    YKI_TRY(yki_kernel_set(c->kernel, i++, sizeof noise, &noise));
    YKI_TRY(yki_kernel_set(c->kernel, i++, sizeof feed->options.seed, &feed->options.seed));
    return set_int(c->kernel, i, 0);
}

enum { ARG_EPOCH = ARG_FIXED + 10 };

static yoke_status
make_channel(yki_feed *feed, channel *c)
{
    const yoke_field *field = &feed->dataset->fields[c->field];
    const struct yki_augmentation *a = &feed->augmentation;
    const bool image = (a->flip || a->shift || a->crop || a->noise > 0) &&
                       a->field == (size_t)c->field && c->node->shape.rank == 3 &&
                       c->node->type == YOKE_F32;
    yki_program *program;
    char options[32];
    yoke_status status;
    bool columns;

    c->moved = image && (yki_feed_is_cut(field, c->node) ||
                         (feed->options.training && (a->flip || a->shift || a->noise > 0)));
    c->elements = (uint64_t)yki_shape_count(c->node->shape);
    YKI_TRY(make_scaling(feed, c, field));
    columns = c->means > 1 && field->shape.rank == 1 && c->node->type == YOKE_F32;
    c->rows = c->means > 1 && !columns ? c->means : 1;
    c->width = (int32_t)(yki_shape_count(field->shape) / c->rows);
    snprintf(options, sizeof options, "-DWG=%u", feed->group);
    YKI_TRY(yki_program_get(feed->device, "feed.cl", options, &program));
    status = yki_kernel_create(program, kernel_name(field->type, c->node->type, c->moved, columns),
                               &c->kernel);
    yki_program_release(program);
    YKI_TRY(status);
    return set_fixed(feed, c, field);
}

/* Any number of groups can share the tasks. There are as many as keep the device busy, and more if
 * a work-item's loop would have too many iterations. */
static yki_grid
grid_for(const yki_feed *feed, const channel *c, int64_t n)
{
    uint64_t elements = c->elements * (uint64_t)n, turns = elements / feed->group;
    uint64_t units = yki_device_get_traits(feed->device)->compute_units;
    uint64_t groups = YKI_MIN(elements / 1024 + 1, feed->group == 1 ? units * 4 : units * 32);

    /* Each row of one or two elements is a task of its own, with its own iterations. */
    turns = YKI_MAX(turns, elements / CHUNK * TASK_TURNS);
    groups = YKI_MAX(groups, 2 * turns / MAX_TURNS + 1);
    return (yki_grid){{(size_t)YKI_MIN(groups, (uint64_t)MAX_GROUPS), 1, 1}, {feed->group, 1, 1}};
}

static yoke_status
launch(yki_feed *feed, yki_queue *queue, channel *c, slot *s, uint64_t first, int64_t n,
       uint32_t epoch, yki_buffer *out)
{
    yki_buffer *resident = feed->resident[c->field];
    const yki_wait wait = {&s->sent, s->pinned ? 1 : 0};
    uint64_t element = first / yki_type_size(feed->dataset->fields[c->field].type);
    yki_grid grid = grid_for(feed, c, n);
    yki_event done = {0};

    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_FROM, resident ? resident : s->device));
    YKI_TRY(yki_kernel_set(c->kernel, ARG_FIRST, sizeof element, &element));
    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_INDICES, s->device));
    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_OUT, out));
    YKI_TRY(set_int(c->kernel, ARG_N, n));
    if (c->moved)
        YKI_TRY(yki_kernel_set(c->kernel, ARG_EPOCH, sizeof epoch, &epoch));
    YKI_TRY(yki_queue_launch(queue, c->kernel, &grid, wait, &done));
    yki_event_release(&s->used);
    s->used = done;
    return YOKE_OK;
}

/* Launches each kernel once for no samples: drivers compile a kernel at its first launch, which
 * should not happen in a step. */
static yoke_status
launch_all_once(yki_feed *feed)
{
    yki_buffer *nothing;
    yki_queue *queue;
    yoke_status status;

    YKI_TRY(yki_buffer_create(feed->device, 64, 0, "nothing", &nothing));
    status = yki_queue_create(feed->device, YKI_QUEUE_COMPUTE, false, &queue);
    if (status != YOKE_OK)
        goto destroy_buffer;
    for (size_t i = 0; i < feed->channel_count && status == YOKE_OK; i++)
        if (feed->channels[i].field >= 0) {
            slot *s = &feed->slots[0];
            const yki_grid one = {{1, 1, 1}, {feed->group, 1, 1}};
            channel *c = &feed->channels[i];

            status = yki_kernel_set_buffer(c->kernel, ARG_FROM,
                                           feed->resident[c->field] ? feed->resident[c->field]
                                                                    : s->device);
            if (status == YOKE_OK)
                status = yki_kernel_set(c->kernel, ARG_FIRST, 8, &(uint64_t){0});
            if (status == YOKE_OK)
                status = yki_kernel_set_buffer(c->kernel, ARG_INDICES, s->device);
            if (status == YOKE_OK)
                status = yki_kernel_set_buffer(c->kernel, ARG_OUT, nothing);
            if (status == YOKE_OK)
                status = set_int(c->kernel, ARG_N, 0);
            if (status == YOKE_OK)
                status = yki_queue_launch(queue, c->kernel, &one, YKI_NO_WAIT, NULL);
        }
    if (status == YOKE_OK)
        status = yki_queue_finish(queue);
    yki_queue_destroy(queue);
destroy_buffer:
    yki_buffer_destroy(nothing);
    return status;
}

/* ---- making and keeping ---- */

static yoke_status
match(yki_feed *feed, const yoke_graph *graph)
{
    int *fields;
    yoke_status status;

    feed->channel_count = yki_feed_input_count(graph);
    feed->channels = yki_alloc(feed->channel_count, sizeof *feed->channels, "inputs");
    fields = yki_alloc(feed->channel_count, sizeof *fields, "inputs");
    status = feed->channels && fields ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = yki_feed_match(feed->dataset, graph, feed->options.allow_missing, fields,
                                feed->channel_count);
    for (size_t i = 0; i < feed->channel_count && status == YOKE_OK; i++) {
        channel *c = &feed->channels[i];

        c->node = yki_feed_get_input(graph, i);
        c->field = fields[i];
        if (feed->options.reads && !feed->options.reads(feed->options.user, c->node))
            c->field = -1;
        if (!(c->name = yki_strdup(c->node->name, "an input's name")))
            status = YOKE_ERROR_OUT_OF_MEMORY;
        else if (c->field >= 0) {
            feed->wanted[c->field] = true;
            if (!feed->options.twin)
                status = yki_feed_check_labels(feed->dataset, (size_t)c->field, c->node);
        }
    }
    yki_free(fields);
    return status;
}

static yoke_status
make_all(yki_feed *feed, const yoke_graph *graph)
{
    YKI_TRY(match(feed, graph));
    YKI_TRY(make_all_resident(feed));
    YKI_TRY(make_ring(feed));
    for (size_t i = 0; i < feed->channel_count; i++)
        if (feed->channels[i].field >= 0)
            YKI_TRY(make_channel(feed, &feed->channels[i]));
    return launch_all_once(feed);
}

yoke_status
yki_feed_create(yoke_device *device, yoke_dataset *dataset, const yoke_graph *graph,
                int64_t max_batch, const yki_feed_options *options, yki_feed **out)
{
    yki_feed *feed;
    yoke_status status;

    if (max_batch < 1 || max_batch > INT32_MAX)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "batches of up to %lld samples",
                        (long long)max_batch);
    if (!(feed = yki_alloc(1, sizeof *feed, "a feed")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    feed->device = yki_device_retain(device);
    feed->dataset = yki_dataset_retain(dataset);
    feed->options = *options;
    feed->augmentation = dataset->augmentation;
    feed->max_batch = max_batch;
    feed->group = yki_flat_for(yki_device_get_traits(device)).group;
    status = make_all(feed, graph);
    if (status != YOKE_OK) {
        yki_feed_destroy(feed);
        return status;
    }
    *out = feed;
    return YOKE_OK;
}

void
yki_feed_destroy(yki_feed *feed)
{
    if (!feed)
        return;
    for (size_t i = 0; i < SLOTS; i++) {
        slot *s = &feed->slots[i];

        if (s->used.cl)
            yki_event_wait(&s->used);
        yki_event_release(&s->used);
        yki_event_release(&s->sent);
    }
    yki_queue_destroy(feed->transfer);
    for (size_t i = 0; i < SLOTS; i++) {
        yki_buffer_destroy(feed->slots[i].device);
        yki_buffer_destroy(feed->slots[i].pinned);
    }
    for (size_t i = 0; feed->channels && i < feed->channel_count; i++) {
        yki_kernel_destroy(feed->channels[i].kernel);
        yki_buffer_destroy(feed->channels[i].scaling);
        yki_free(feed->channels[i].name);
    }
    for (size_t f = 0; f < YKI_MAX_FIELDS; f++)
        yki_buffer_destroy(feed->resident[f]);
    yki_free(feed->channels);
    yoke_dataset_destroy(feed->dataset);
    yki_device_release(feed->device);
    yki_free(feed);
}

/* ---- batches ---- */

static bool
feeds(const yki_feed *feed, size_t field, yki_buffer *const *inputs)
{
    for (size_t i = 0; i < feed->channel_count; i++)
        if (inputs[i] && feed->channels[i].field == (int)field)
            return true;
    return false;
}

static yoke_status
read_rows(const yki_feed *feed, const yki_samples *s, size_t field, void *out)
{
    if (s->ahead)
        return yki_ahead_read(s->ahead, s->position, field, s->indices, (size_t)s->n, out);
    return yki_dataset_read(feed->dataset, field, s->indices, (size_t)s->n, out);
}

/* Writes the sample numbers to a slot, then the rows of the fields that are not on the device.
 * offsets[field] is where the rows of a field begin, in bytes. */
static yoke_status
fill_slot(yki_feed *feed, slot *s, const yki_samples *samples, yki_buffer *const *inputs,
          uint64_t offsets[YKI_MAX_FIELDS])
{
    unsigned char *memory = yki_buffer_host(s->pinned ? s->pinned : s->device);
    const uint64_t n = (uint64_t)samples->n;
    uint64_t size = align(n * sizeof *samples->indices);

    memcpy(memory, samples->indices, (size_t)n * sizeof *samples->indices);
    for (size_t f = 0; f < feed->dataset->field_count; f++) {
        offsets[f] = 0;
        if (feed->resident[f] || !feeds(feed, f, inputs))
            continue;
        YKI_TRY(read_rows(feed, samples, f, memory + size));
        offsets[f] = size;
        size = align(size + n * row_bytes(feed, f));
    }
    if (!s->pinned)
        return YOKE_OK;
    yki_event_release(&s->sent);
    YKI_TRY(yki_queue_write(feed->transfer, s->device, 0, size, memory, YKI_NO_WAIT, &s->sent));
    return yki_queue_flush(feed->transfer);
}

static yoke_status
check_batch(const yki_feed *feed, const yki_samples *samples, yki_buffer *const *inputs)
{
    const int64_t n = samples->n, *indices = samples->indices;

    if (n < 0 || n > feed->max_batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "a batch of %lld samples, between 0 and %lld are possible", (long long)n,
                        (long long)feed->max_batch);
    for (int64_t i = 0; i < n; i++)
        if (indices[i] < 0 || indices[i] >= feed->dataset->count)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "sample %lld of a dataset of %lld",
                            (long long)indices[i], (long long)feed->dataset->count);
    for (size_t i = 0; i < feed->channel_count; i++)
        if (inputs[i] && feed->channels[i].field < 0)
            return yki_fail(YOKE_ERROR_NOT_FOUND,
                            "the dataset has no field for the graph's input %s",
                            feed->channels[i].name);
    return YOKE_OK;
}

yoke_status
yki_feed_batch(yki_feed *feed, yki_queue *queue, const yki_samples *samples,
               yki_buffer *const *inputs)
{
    slot *s = &feed->slots[feed->next];
    uint64_t offsets[YKI_MAX_FIELDS];

    YKI_TRY(check_batch(feed, samples, inputs));
    if (samples->n == 0)
        return YOKE_OK;
    /* If a batch failed, its slot may have been sent to the device but not used. */
    if (s->used.cl || s->sent.cl)
        YKI_TRY(yki_event_wait(s->used.cl ? &s->used : &s->sent));
    yki_event_release(&s->used);
    YKI_TRY(fill_slot(feed, s, samples, inputs, offsets));
    feed->next = (feed->next + 1) % SLOTS;
    for (size_t i = 0; i < feed->channel_count; i++)
        if (inputs[i])
            YKI_TRY(launch(feed, queue, &feed->channels[i], s, offsets[feed->channels[i].field],
                           samples->n, samples->epoch, inputs[i]));
    return YOKE_OK;
}
