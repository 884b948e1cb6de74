/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.c - brings samples of a dataset into the inputs of a plan on one device.
 *
 * Fields that fit stay on the device in their own type (u8 stays u8). For them a batch
 * is just the numbers of its samples: a kernel takes, augments and scales the rows
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
#include "replica/loader.h"
#include "replica/replica.h"

enum {
    SLOTS = 4,            /* two for steps under way, one being prepared, one to spare */
    ALIGN = 64,           /* of each array in a slot, bytes */
    CHUNK = 256,          /* elements of a kernel's task; feed.cl has the same number */
    TASK_ITERATIONS = 32, /* loop iterations that a task takes, about */
    MAX_ITERATIONS =
        32768, /* iterations of a work-item's loop: llvmpipe ends longer ones silently */
    MAX_GROUPS = 65535,
    UPLOAD_BYTES = 1 << 23 /* copied at once to the device to stay there */
};

/* The sum of 16 random bytes is nearly normal (Irwin-Hall), with variance 16 (256^2 - 1) / 12. */
#define NOISE_DEVIATION 295.6033828f

typedef struct channel {
    const yoke_node *node;      /* lent; read only while the loader is made */
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

struct yki_loader {
    yoke_device *device;   /* retained */
    yoke_dataset *dataset; /* retained */
    yki_loader_options options;
    struct yki_augmentation augmentation;
    int64_t max_batch;
    int64_t length; /* rows of a sample of each sequence; 0: there are none */
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
row_bytes(const yki_loader *loader, size_t field)
{
    return yki_field_size(&loader->dataset->fields[field]);
}

/* ---- what stays on the device ---- */

static uint64_t
resident_limit(const yki_loader *loader)
{
    yoke_memory_usage usage = {0};
    uint64_t room = yki_device_get_traits(loader->device)->memory;

    if (loader->options.resident_limit)
        return loader->options.resident_limit;
    if (yoke_device_get_memory(loader->device, &usage) == YOKE_OK && usage.quota)
        room = YKI_MIN(room, usage.quota - YKI_MIN(usage.used, usage.quota));
    return room / 4;
}

static yoke_status
upload_chunks(yki_loader *loader, size_t field, yki_buffer *buffer)
{
    uint64_t size = row_bytes(loader, field);
    size_t step = (size_t)YKI_MAX(UPLOAD_BYTES / size, (uint64_t)1);
    unsigned char *rows = yki_alloc(step, size, "samples on their way to a device");
    int64_t *indices = yki_alloc(step, sizeof *indices, "numbers of samples");
    yoke_status status = rows && indices ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (int64_t first = 0; first < loader->dataset->count && status == YOKE_OK;
         first += (int64_t)step) {
        size_t count = (size_t)YKI_MIN((int64_t)step, loader->dataset->count - first);

        for (size_t i = 0; i < count; i++)
            indices[i] = first + (int64_t)i;
        status = yki_dataset_read(loader->dataset, field, indices, count, rows);
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
make_resident(yki_loader *loader, size_t field)
{
    uint64_t size = (uint64_t)loader->dataset->count * row_bytes(loader, field);
    yki_buffer *buffer;
    yoke_status status;

    status = yki_buffer_create(loader->device, YKI_MAX(size, (uint64_t)ALIGN), 0,
                               loader->dataset->fields[field].name, &buffer);
    if (yki_lacks_memory(status))
        return YOKE_OK;
    YKI_TRY(status);
    status = upload_chunks(loader, field, buffer);
    if (status != YOKE_OK) {
        yki_buffer_destroy(buffer);
        return status;
    }
    loader->resident[field] = buffer;
    return YOKE_OK;
}

/* Finds the oldest twin whose memory this device can use; NULL: there is none. Younger ones have
 * views of that memory, and OpenCL makes no views of views. */
static const yki_loader *
find_twin(const yki_loader *loader)
{
    const yki_loader *found = NULL;

    for (const yki_loader *twin = loader->options.twin; twin; twin = twin->options.twin)
        if (yki_devices_share(twin->device, loader->device))
            found = twin;
    return found;
}

/* Shares the fields that the twin keeps. A view of its buffers keeps the memory alive, and the
 * memory counts once. */
static yoke_status
share_residents(yki_loader *loader, const yki_loader *twin)
{
    for (size_t f = 0; f < loader->dataset->field_count; f++)
        if (twin->resident[f])
            YKI_TRY(yki_buffer_view(twin->resident[f], 0, yki_buffer_size(twin->resident[f]),
                                    &loader->resident[f]));
    return YOKE_OK;
}

/* Tries the smallest field first, so labels stay on the device even if images do not. */
static yoke_status
make_all_resident(yki_loader *loader)
{
    uint64_t left = resident_limit(loader);
    const uint64_t count = (uint64_t)loader->dataset->count;
    const yki_loader *twin = find_twin(loader);
    bool tried[YKI_MAX_FIELDS] = {false};

    if (twin)
        return share_residents(loader, twin);
    for (;;) {
        int best = -1;

        for (size_t f = 0; f < loader->dataset->field_count; f++)
            if (loader->wanted[f] && !tried[f] &&
                (best < 0 || row_bytes(loader, f) < row_bytes(loader, (size_t)best)))
                best = (int)f;
        if (best < 0)
            return YOKE_OK;
        tried[best] = true;
        if (count > yki_device_get_traits(loader->device)->max_allocation /
                        row_bytes(loader, (size_t)best) ||
            count * row_bytes(loader, (size_t)best) > left ||
            loader->options.resident_limit == YKI_FEED_STREAM)
            continue;
        YKI_TRY(make_resident(loader, (size_t)best));
        if (loader->resident[best])
            left -= count * row_bytes(loader, (size_t)best);
    }
}

int64_t
yki_loader_length(const yki_loader *loader)
{
    return loader->length;
}

bool
yki_loader_streams(const yki_loader *loader, size_t field)
{
    return loader->wanted[field] && !loader->resident[field];
}

void
yki_loader_resident(const yki_loader *loader, uint64_t *resident, uint64_t *all)
{
    *resident = *all = 0;
    for (size_t f = 0; f < loader->dataset->field_count; f++) {
        uint64_t size = (uint64_t)loader->dataset->count * row_bytes(loader, f);

        *all += loader->wanted[f] ? size : 0;
        *resident += loader->resident[f] ? size : 0;
    }
}

/* ---- the ring ---- */

static yoke_status
make_slot(yki_loader *loader, slot *s, uint64_t size)
{
    YKI_TRY(yki_buffer_create(loader->device, size, 0, "a batch on its way", &s->device));
    if (yki_buffer_host(s->device))
        return YOKE_OK;
    YKI_TRY(yki_buffer_create(loader->device, size, YKI_BUFFER_PINNED, "a batch on its way",
                              &s->pinned));
    if (loader->transfer)
        return YOKE_OK;
    return yki_queue_create(loader->device, false, &loader->transfer);
}

static yoke_status
make_ring(yki_loader *loader)
{
    uint64_t size = align((uint64_t)loader->max_batch * sizeof(int64_t));

    for (size_t f = 0; f < loader->dataset->field_count; f++)
        if (loader->wanted[f] && !loader->resident[f])
            size = align(size + (uint64_t)loader->max_batch * row_bytes(loader, f));
    for (size_t i = 0; i < SLOTS; i++)
        YKI_TRY(make_slot(loader, &loader->slots[i], size));
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
make_scaling(yki_loader *loader, channel *c, const yoke_field *field)
{
    const struct yki_scaling *scaling = &loader->dataset->scaling[c->field];
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
    status = yki_buffer_create(loader->device, YKI_MAX(size, (size_t)ALIGN), 0,
                               "the scaling of an input", &c->scaling);
    if (status == YOKE_OK)
        status = yki_buffer_put(c->scaling, 0, size, values);
    yki_free(values);
    return status;
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
set_fixed(yki_loader *loader, channel *c, const yoke_field *field)
{
    const struct yki_augmentation *a = &loader->augmentation;
    const bool training = loader->options.training;
    const int64_t *in = field->shape.dim, *out = c->node->shape.dim;
    /* Of 2^24 samples. */
    const float shifted = a->shift_part > 0 ? a->shift_part * 0x1p24f : 0x1p24f;
    const int64_t moved[] = {in[0],    in[1],   in[2],    out[1],          out[2],
                             training, a->flip, a->shift, (int64_t)shifted};
    float noise = training ? a->noise / NOISE_DEVIATION : 0;
    unsigned i = ARG_FIXED;

    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_SCALING, c->scaling));
    YKI_TRY(yki_kernel_set_int(c->kernel, ARG_MEANS, c->means));
    YKI_TRY(yki_kernel_set_int(c->kernel, ARG_IDENTITY, !loader->resident[c->field]));
    if (!c->moved) {
        YKI_TRY(yki_kernel_set_int(c->kernel, i, c->rows));
        return yki_kernel_set_int(c->kernel, i + 1, c->width);
    }
    for (size_t k = 0; k < YKI_COUNT(moved); k++)
        YKI_TRY(yki_kernel_set_int(c->kernel, i++, moved[k]));
    YKI_TRY(yki_kernel_set_float(c->kernel, i++, noise));
    YKI_TRY(yki_kernel_set(c->kernel, i++, sizeof loader->options.seed, &loader->options.seed));
    return yki_kernel_set_int(c->kernel, i, 0);
}

enum { ARG_EPOCH = ARG_FIXED + 11 };

/* All sequences of a sample have as many rows. */
static yoke_status
note_length(yki_loader *loader, const channel *c, const yoke_field *field)
{
    const channel *first = loader->channels;

    while (first < c && !(first->node->length && first->field >= 0))
        first++;
    if (loader->length && loader->length != field->shape.dim[0])
        return yki_fail_lengths("the dataset", field->name, field->shape.dim[0],
                                loader->dataset->fields[first->field].name, loader->length);
    loader->length = field->shape.dim[0];
    return YOKE_OK;
}

static yoke_status
make_channel(yki_loader *loader, channel *c)
{
    const yoke_field *field = &loader->dataset->fields[c->field];
    const struct yki_augmentation *a = &loader->augmentation;
    const bool image = (a->flip || a->shift || a->crop || a->noise > 0) &&
                       a->field == (size_t)c->field && c->node->shape.rank == 3 &&
                       !c->node->length && c->node->type == YOKE_F32;
    char options[32];
    bool columns;

    c->moved = image && (yki_field_is_cut(field, c->node) ||
                         (loader->options.training && (a->flip || a->shift || a->noise > 0)));
    if (c->node->length)
        YKI_TRY(note_length(loader, c, field));
    c->elements = (uint64_t)yki_sample_count(c->node, loader->length);
    YKI_TRY(make_scaling(loader, c, field));
    columns = c->means > 1 && field->shape.rank == 1 && c->node->type == YOKE_F32;
    c->rows = c->means > 1 && !columns ? c->means : 1;
    c->width = (int32_t)(yki_shape_count(field->shape) / c->rows);
    snprintf(options, sizeof options, "-DWG=%u", loader->group);
    YKI_TRY(yki_kernel_get(loader->device, "feed.cl", options,
                           kernel_name(field->type, c->node->type, c->moved, columns), &c->kernel));
    return set_fixed(loader, c, field);
}

/* Any number of groups can share the tasks. There are as many as keep the device busy, and more if
 * a work-item's loop would have too many iterations. */
static yki_grid
grid_for(const yki_loader *loader, const channel *c, int64_t n)
{
    uint64_t elements = c->elements * (uint64_t)n, iterations = elements / loader->group;
    uint64_t units = yki_device_get_traits(loader->device)->compute_units;
    uint64_t groups = YKI_MIN(elements / 1024 + 1, loader->group == 1 ? units * 4 : units * 32);

    /* Each row of one or two elements is a task of its own, with its own iterations. */
    iterations = YKI_MAX(iterations, elements / CHUNK * TASK_ITERATIONS);
    groups = YKI_MAX(groups, 2 * iterations / MAX_ITERATIONS + 1);
    return (yki_grid){{(size_t)YKI_MIN(groups, (uint64_t)MAX_GROUPS), 1, 1}, {loader->group, 1, 1}};
}

static yoke_status
launch(yki_loader *loader, yki_queue *queue, channel *c, slot *s, uint64_t first, int64_t n,
       uint32_t epoch, yki_buffer *out)
{
    yki_buffer *resident = loader->resident[c->field];
    const yki_wait wait = {&s->sent, s->pinned ? 1 : 0};
    uint64_t element = first / yki_type_size(loader->dataset->fields[c->field].type);
    yki_grid grid = grid_for(loader, c, n);
    yki_event done = {0};

    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_FROM, resident ? resident : s->device));
    YKI_TRY(yki_kernel_set(c->kernel, ARG_FIRST, sizeof element, &element));
    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_INDICES, s->device));
    YKI_TRY(yki_kernel_set_buffer(c->kernel, ARG_OUT, out));
    YKI_TRY(yki_kernel_set_int(c->kernel, ARG_N, n));
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
launch_all_once(yki_loader *loader)
{
    yki_buffer *nothing;
    yki_queue *queue;
    yoke_status status;

    YKI_TRY(yki_buffer_create(loader->device, 64, 0, "nothing", &nothing));
    status = yki_queue_create(loader->device, false, &queue);
    if (status != YOKE_OK)
        goto destroy_buffer;
    for (size_t i = 0; i < loader->channel_count && status == YOKE_OK; i++)
        if (loader->channels[i].field >= 0) {
            slot *s = &loader->slots[0];
            const yki_grid one = {{1, 1, 1}, {loader->group, 1, 1}};
            channel *c = &loader->channels[i];

            status = yki_kernel_set_buffer(c->kernel, ARG_FROM,
                                           loader->resident[c->field] ? loader->resident[c->field]
                                                                      : s->device);
            if (status == YOKE_OK)
                status = yki_kernel_set(c->kernel, ARG_FIRST, 8, &(uint64_t){0});
            if (status == YOKE_OK)
                status = yki_kernel_set_buffer(c->kernel, ARG_INDICES, s->device);
            if (status == YOKE_OK)
                status = yki_kernel_set_buffer(c->kernel, ARG_OUT, nothing);
            if (status == YOKE_OK)
                status = yki_kernel_set_int(c->kernel, ARG_N, 0);
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
match(yki_loader *loader, const yoke_graph *graph)
{
    int *fields;
    yoke_status status;

    loader->channel_count = yki_loader_input_count(graph);
    loader->channels = yki_alloc(loader->channel_count, sizeof *loader->channels, "inputs");
    fields = yki_alloc(loader->channel_count, sizeof *fields, "inputs");
    status = loader->channels && fields ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = yki_fields_match(loader->dataset, graph, &loader->options, fields,
                                  loader->channel_count);
    for (size_t i = 0; i < loader->channel_count && status == YOKE_OK; i++) {
        channel *c = &loader->channels[i];

        c->node = yki_loader_get_input(graph, i);
        c->field = fields[i];
        if (loader->options.reads && !loader->options.reads(loader->options.user, c->node))
            c->field = -1;
        if (!(c->name = yki_strdup(c->node->name, "an input's name")))
            status = YOKE_ERROR_OUT_OF_MEMORY;
        else if (c->field >= 0) {
            loader->wanted[c->field] = true;
            if (!loader->options.twin)
                status = yki_field_check_labels(loader->dataset, (size_t)c->field, c->node);
        }
    }
    yki_free(fields);
    return status;
}

static yoke_status
make_all(yki_loader *loader, const yoke_graph *graph)
{
    YKI_TRY(match(loader, graph));
    YKI_TRY(make_all_resident(loader));
    YKI_TRY(make_ring(loader));
    for (size_t i = 0; i < loader->channel_count; i++)
        if (loader->channels[i].field >= 0)
            YKI_TRY(make_channel(loader, &loader->channels[i]));
    return launch_all_once(loader);
}

yoke_status
yki_loader_create(yoke_device *device, yoke_dataset *dataset, const yoke_graph *graph,
                  int64_t max_batch, const yki_loader_options *options, yki_loader **out)
{
    yki_loader *loader;
    yoke_status status;

    if (max_batch < 1 || max_batch > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the largest batch", max_batch, 1,
                              INT32_MAX);
    if (!(loader = yki_alloc(1, sizeof *loader, "a loader")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    loader->device = yki_device_retain(device);
    loader->dataset = yki_dataset_retain(dataset);
    loader->options = *options;
    loader->augmentation = dataset->augmentation;
    loader->max_batch = max_batch;
    loader->group = yki_flat_for(yki_device_get_traits(device)).group;
    status = make_all(loader, graph);
    if (status != YOKE_OK) {
        yki_loader_destroy(loader);
        return status;
    }
    *out = loader;
    return YOKE_OK;
}

void
yki_loader_destroy(yki_loader *loader)
{
    if (!loader)
        return;
    for (size_t i = 0; i < SLOTS; i++) {
        slot *s = &loader->slots[i];

        if (s->used.cl)
            yki_event_wait(&s->used);
        yki_event_release(&s->used);
        yki_event_release(&s->sent);
    }
    yki_queue_destroy(loader->transfer);
    for (size_t i = 0; i < SLOTS; i++) {
        yki_buffer_destroy(loader->slots[i].device);
        yki_buffer_destroy(loader->slots[i].pinned);
    }
    for (size_t i = 0; loader->channels && i < loader->channel_count; i++) {
        yki_kernel_destroy(loader->channels[i].kernel);
        yki_buffer_destroy(loader->channels[i].scaling);
        yki_free(loader->channels[i].name);
    }
    for (size_t f = 0; f < YKI_MAX_FIELDS; f++)
        yki_buffer_destroy(loader->resident[f]);
    yki_free(loader->channels);
    yoke_dataset_destroy(loader->dataset);
    yki_device_release(loader->device);
    yki_free(loader);
}

/* ---- batches ---- */

static bool
loaders(const yki_loader *loader, size_t field, yki_buffer *const *inputs)
{
    for (size_t i = 0; i < loader->channel_count; i++)
        if (inputs[i] && loader->channels[i].field == (int)field)
            return true;
    return false;
}

static yoke_status
read_rows(const yki_loader *loader, const yki_samples *s, size_t field, void *out)
{
    if (s->ahead)
        return yki_prefetch_read(s->ahead, s->position, field, s->indices, (size_t)s->n, out);
    return yki_dataset_read(loader->dataset, field, s->indices, (size_t)s->n, out);
}

/* Writes the sample numbers to a slot, then the rows of the fields that are not on the device.
 * offsets[field] is where the rows of a field begin, in bytes. */
static yoke_status
fill_slot(yki_loader *loader, slot *s, const yki_samples *samples, yki_buffer *const *inputs,
          uint64_t offsets[YKI_MAX_FIELDS])
{
    unsigned char *memory = yki_buffer_host(s->pinned ? s->pinned : s->device);
    const uint64_t n = (uint64_t)samples->n;
    uint64_t size = align(n * sizeof *samples->indices);

    memcpy(memory, samples->indices, (size_t)n * sizeof *samples->indices);
    for (size_t f = 0; f < loader->dataset->field_count; f++) {
        offsets[f] = 0;
        if (loader->resident[f] || !loaders(loader, f, inputs))
            continue;
        YKI_TRY(read_rows(loader, samples, f, memory + size));
        offsets[f] = size;
        size = align(size + n * row_bytes(loader, f));
    }
    if (!s->pinned)
        return YOKE_OK;
    yki_event_release(&s->sent);
    YKI_TRY(yki_queue_write(loader->transfer, s->device, 0, size, memory, YKI_NO_WAIT, &s->sent));
    return yki_queue_flush(loader->transfer);
}

static yoke_status
check_batch(const yki_loader *loader, const yki_samples *samples, yki_buffer *const *inputs)
{
    const int64_t n = samples->n, *indices = samples->indices;

    if (n < 0 || n > loader->max_batch)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples", n, 0,
                              loader->max_batch);
    for (int64_t i = 0; i < n; i++)
        if (indices[i] < 0 || indices[i] >= loader->dataset->count)
            return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the index of a sample", indices[i],
                                  0, loader->dataset->count - 1);
    for (size_t i = 0; i < loader->channel_count; i++)
        if (inputs[i] && loader->channels[i].field < 0)
            return yki_fail(YOKE_ERROR_NOT_FOUND,
                            "the dataset has no field for the graph's input \"%s\"",
                            loader->channels[i].name);
    return YOKE_OK;
}

yoke_status
yki_loader_load(yki_loader *loader, yki_queue *queue, const yki_samples *samples,
                yki_buffer *const *inputs)
{
    slot *s = &loader->slots[loader->next];
    uint64_t offsets[YKI_MAX_FIELDS];

    YKI_TRY(check_batch(loader, samples, inputs));
    if (samples->n == 0)
        return YOKE_OK;
    /* If a batch failed, its slot may have been sent to the device but not used. */
    if (s->used.cl || s->sent.cl)
        YKI_TRY(yki_event_wait(s->used.cl ? &s->used : &s->sent));
    yki_event_release(&s->used);
    YKI_TRY(fill_slot(loader, s, samples, inputs, offsets));
    loader->next = (loader->next + 1) % SLOTS;
    for (size_t i = 0; i < loader->channel_count; i++)
        if (inputs[i])
            YKI_TRY(launch(loader, queue, &loader->channels[i], s,
                           offsets[loader->channels[i].field], samples->n, samples->epoch,
                           inputs[i]));
    return YOKE_OK;
}

yki_queue *
yki_loader_transfer(const yki_loader *loader)
{
    return loader->transfer;
}
