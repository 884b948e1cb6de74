/* SPDX-License-Identifier: Apache-2.0
 *
 * dataset.c - the dataset object: its fields, the source behind them, and what a device does to
 * samples. Also two sources that a program provides itself: arrays in memory, and a function.
 *
 * Reads no files and does not change samples.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/near.h"
#include "data/dataset.h"

/* ---- making and keeping ---- */

size_t
yki_field_size(const yoke_field *field)
{
    return (size_t)yki_shape_count(field->shape) * yki_type_size(field->type);
}

static yoke_status
check_field(const yoke_field *field, const yoke_field *others, size_t count)
{
    int64_t elements = 1;

    if (!field->name || !field->name[0])
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the name of field %zu is %s; must have at least one character", count,
                        field->name ? "empty" : "NULL");
    for (size_t i = 0; i < count; i++)
        if (strcmp(others[i].name, field->name) == 0)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "field \"%s\": another field has this name; must be unique",
                            field->name);
    if (field->type != YOKE_F32 && field->type != YOKE_I32 && field->type != YOKE_U8)
        return yki_fail(YOKE_ERROR_TYPE,
                        "field \"%s\" has type %d; must be YOKE_F32, YOKE_I32 or YOKE_U8",
                        field->name, (int)field->type);
    if (field->shape.reserved)
        return yki_fail(
            YOKE_ERROR_INVALID_ARGUMENT,
            "field \"%s\": reserved of its shape is %d; must be 0; yoke_shape makes such shapes",
            field->name, (int)field->shape.reserved);
    if (field->shape.rank < 0 || field->shape.rank > YOKE_MAX_RANK)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "field \"%s\": the rank of its shape is %d; must be between 0 and %d",
                        field->name, (int)field->shape.rank, YOKE_MAX_RANK);
    for (int32_t i = 0; i < field->shape.rank; i++) {
        if (field->shape.dim[i] < 1 || field->shape.dim[i] > INT32_MAX / elements)
            return yki_fail(YOKE_ERROR_SHAPE,
                            "field \"%s\": the size of axis %d is %lld; must be between 1 and %lld",
                            field->name, (int)i, (long long)field->shape.dim[i],
                            (long long)(INT32_MAX / elements));
        elements *= field->shape.dim[i];
    }
    return YOKE_OK;
}

static yoke_status
set_fields(yoke_dataset *dataset, const yoke_field *fields, size_t field_count)
{
    for (size_t i = 0; i < field_count; i++) {
        YKI_TRY(check_field(&fields[i], dataset->fields, i));
        dataset->fields[i] = fields[i];
        dataset->fields[i].name = yki_strdup(fields[i].name, "a field's name");
        if (!dataset->fields[i].name)
            return YOKE_ERROR_OUT_OF_MEMORY;
        dataset->field_count++;
    }
    return YOKE_OK;
}

yoke_status
yki_dataset_make(int64_t count, const yoke_field *fields, size_t field_count,
                 const yki_sample_source *source, void *self, yoke_dataset **out)
{
    yoke_dataset *dataset = NULL;
    yoke_status status = YOKE_OK;

    if (count < 0)
        status = yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples", count, 0,
                                INT64_MAX);
    else if (!fields || field_count < 1 || field_count > YKI_MAX_FIELDS)
        status = yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s%zu; must be between 1 and %d",
                          fields ? "the number of fields is " : "fields is NULL and their number ",
                          field_count, YKI_MAX_FIELDS);
    if (status == YOKE_OK && !(dataset = yki_alloc(1, sizeof *dataset, "a dataset")))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (!dataset) {
        source->destroy(self);
        return status;
    }
    atomic_init(&dataset->references, 1);
    dataset->count = count;
    dataset->source = source;
    dataset->ahead = source->ahead;
    dataset->self = self;
    status = set_fields(dataset, fields, field_count);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return YOKE_OK;
}

yoke_dataset *
yki_dataset_retain(yoke_dataset *dataset)
{
    atomic_fetch_add(&dataset->references, 1);
    return dataset;
}

static void
free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        yki_free(names[i]);
    yki_free(names);
}

void
yoke_dataset_destroy(yoke_dataset *dataset)
{
    if (!dataset || atomic_fetch_sub(&dataset->references, 1) > 1)
        return;
    dataset->source->destroy(dataset->self);
    for (size_t i = 0; i < dataset->field_count; i++) {
        yki_free((char *)dataset->fields[i].name);
        yki_free(dataset->scaling[i].mean);
        yki_free(dataset->scaling[i].scale);
    }
    free_names(dataset->class_names, dataset->class_count);
    yki_free(dataset->encoding);
    yoke_tokenizer_destroy(dataset->tokenizer);
    yki_free(dataset);
}

void
yki_dataset_begin_epoch(yoke_dataset *dataset, uint32_t seed, uint32_t epoch)
{
    if (dataset->source->begin && dataset->source->begin(dataset->self, seed, epoch))
        dataset->version++;
}

int64_t
yoke_dataset_count(const yoke_dataset *dataset)
{
    return dataset ? dataset->count : 0;
}

size_t
yoke_dataset_field_count(const yoke_dataset *dataset)
{
    return dataset ? dataset->field_count : 0;
}

const yoke_field *
yoke_dataset_get_field(const yoke_dataset *dataset, size_t index)
{
    return dataset && index < dataset->field_count ? &dataset->fields[index] : NULL;
}

const char *
yoke_dataset_get_file(const yoke_dataset *dataset, int64_t index)
{
    return dataset && index >= 0 && index < dataset->count && dataset->source->name
               ? dataset->source->name(dataset->self, index)
               : NULL;
}

int
yki_dataset_find(const yoke_dataset *dataset, const char *name)
{
    for (size_t i = 0; i < dataset->field_count; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* ---- reading ---- */

yoke_status
yki_dataset_read(const yoke_dataset *dataset, size_t field, const int64_t *indices, size_t count,
                 void *out)
{
    for (size_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= dataset->count)
            return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the index of a sample", indices[i],
                                  0, dataset->count - 1);
    return count ? dataset->source->read(dataset->self, field, indices, count, out) : YOKE_OK;
}

static const char *
near_field(const yoke_dataset *dataset, const char *name, yki_near *near)
{
    yki_near_start(near, name);
    for (size_t i = 0; i < dataset->field_count; i++)
        yki_near_offer(near, dataset->fields[i].name);
    return yki_near_hint(near);
}

/* Finds the field of this name; the error lists the names that exist. */
static yoke_status
find_field(const yoke_dataset *dataset, const char *name, size_t *field)
{
    yki_near near;
    int found;

    if (!dataset || !name)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "the %s is NULL",
                        dataset ? "name of the field" : "dataset");
    found = yki_dataset_find(dataset, name);
    if (found < 0)
        return yki_fail(YOKE_ERROR_NOT_FOUND,
                        "the dataset has no field \"%s\", its first is \"%s\"%s", name,
                        dataset->fields[0].name, near_field(dataset, name, &near));
    *field = (size_t)found;
    return YOKE_OK;
}

yoke_status
yoke_dataset_read(const yoke_dataset *dataset, const char *name, const int64_t *indices,
                  int64_t count, void *out, size_t bytes)
{
    size_t field, size;

    YKI_TRY(find_field(dataset, name, &field));
    if (count && (!indices || !out))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "reading %s: %s is NULL", name,
                        indices ? "out" : "indices");
    size = yki_field_size(&dataset->fields[field]);
    if (count < 0 || bytes / size != (size_t)count || bytes % size != 0)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "yoke_dataset_read: out has %zu bytes; %lld sample%s "
                        "of \"%s\", which is %s, need%s %.0f",
                        bytes, (long long)count, count == 1 ? "" : "s", name,
                        yki_value_type_name(dataset->fields[field].type), count == 1 ? "s" : "",
                        (double)count * (double)size);
    return yki_dataset_read(dataset, field, indices, (size_t)count, out);
}

/* ---- samples that the program has in memory, or makes when asked ---- */

typedef struct given {
    yoke_dataset_options options;
    struct {
        const unsigned char *data;
        int64_t stride;
        size_t size;
    } fields[YKI_MAX_FIELDS];
    pthread_mutex_t lock; /* held during a call of `fill` */
} given;

static yoke_status
memory_read(void *self, size_t field, const int64_t *indices, size_t count, void *out)
{
    const given *g = self;
    size_t size = g->fields[field].size;

    for (size_t i = 0; i < count; i++)
        memcpy((unsigned char *)out + i * size,
               g->fields[field].data + indices[i] * g->fields[field].stride, size);
    return YOKE_OK;
}

static yoke_status
fill_read(void *self, size_t field, const int64_t *indices, size_t count, void *out)
{
    given *g = self;
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        pthread_mutex_lock(&g->lock);
        status = g->options.fill(g->options.user, indices[i], field,
                                 (unsigned char *)out + i * g->fields[field].size);
        pthread_mutex_unlock(&g->lock);
        if (status != YOKE_OK)
            yki_fail(status, "the dataset's fill function: sample %lld, field %zu: %s",
                     (long long)indices[i], field, yoke_status_string(status));
    }
    return status;
}

static void
given_destroy(void *self)
{
    given *g = self;

    if (g->options.release)
        g->options.release(g->options.user);
    pthread_mutex_destroy(&g->lock);
    yki_free(g);
}

static const yki_sample_source memory_source = {memory_read, given_destroy, 0, NULL, NULL};
static const yki_sample_source fill_source = {fill_read, given_destroy, 1, NULL, NULL};

/* Checks that all arrays are given and that samples do not overlap. */
static yoke_status
check_memory(const yoke_dataset *dataset, const given *g)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        const yoke_field *field = &dataset->fields[i];

        if (!field->data && dataset->count > 0)
            return yki_fail(
                YOKE_ERROR_INVALID_ARGUMENT,
                "field \"%s\": data is NULL and there is no fill function; must be one of both",
                field->name);
        if (field->stride < 0 || (size_t)g->fields[i].stride < g->fields[i].size)
            return yki_fail(
                YOKE_ERROR_INVALID_ARGUMENT,
                "field \"%s\": stride is %lld; must be at least %zu, the bytes of a sample",
                field->name, (long long)field->stride, g->fields[i].size);
    }
    return YOKE_OK;
}

yoke_status
yoke_dataset_create_sized(int64_t count, const yoke_field *fields, size_t field_count,
                          size_t field_size, const yoke_dataset_options *options, size_t size,
                          yoke_dataset **out)
{
    yoke_field known[YKI_MAX_FIELDS] = {{0}}; /* the fields, as this version has them */
    yoke_dataset *dataset = NULL;
    yoke_dataset_options o = {0};
    yoke_status status;
    given *g;

    if (!out)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "dataset is NULL");
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (!(g = yki_alloc(1, sizeof *g, "a dataset")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&g->lock, NULL);
    /* Of an impossible number of fields none is read: yki_dataset_make refuses it. */
    for (size_t i = 0; fields && field_count <= YKI_COUNT(known) && i < field_count; i++)
        memcpy(&known[i], (const char *)fields + i * field_size,
               YKI_MIN(field_size, sizeof known[i]));
    YKI_TRY(yki_dataset_make(count, fields ? known : NULL, field_count,
                             o.fill ? &fill_source : &memory_source, g, &dataset));
    for (size_t i = 0; i < field_count; i++) {
        yoke_field *field = &dataset->fields[i];

        g->fields[i].size = yki_field_size(field);
        g->fields[i].data = field->data;
        g->fields[i].stride = field->stride ? field->stride : (int64_t)g->fields[i].size;
        field->stride = o.fill ? 0 : g->fields[i].stride;
        if (o.fill)
            field->data = NULL;
    }
    dataset->ahead = o.fill && !o.no_ahead;
    g->options = o;
    g->options.release = NULL; /* the memory remains the caller's until this succeeds */
    status = o.fill ? YOKE_OK : check_memory(dataset, g);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(dataset);
        return status;
    }
    g->options.release = o.release;
    *out = dataset;
    return YOKE_OK;
}

/* ---- names of classes ---- */

yoke_status
yoke_dataset_set_class_names(yoke_dataset *dataset, const char *const *names, size_t count)
{
    char **copies;

    if (!dataset || (count && !names))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_dataset_set_class_names: %s is NULL",
                        dataset ? "names" : "dataset");
    if (!(copies = yki_alloc(count, sizeof *copies, "names of classes")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        copies[i] = yki_strdup(names[i] ? names[i] : "", "the name of a class");
        if (!copies[i]) {
            free_names(copies, i);
            return YOKE_ERROR_OUT_OF_MEMORY;
        }
    }
    free_names(dataset->class_names, dataset->class_count);
    dataset->class_names = copies;
    dataset->class_count = count;
    return YOKE_OK;
}

size_t
yoke_dataset_class_count(const yoke_dataset *dataset)
{
    return dataset ? dataset->class_count : 0;
}

const char *
yoke_dataset_get_class_name(const yoke_dataset *dataset, size_t index)
{
    return dataset && index < dataset->class_count ? dataset->class_names[index] : NULL;
}

/* ---- scaling and augmentation ---- */

/* How many means a field has: one for each entry of its first axis (channel of an image, column of
 * a table). */
static size_t
channels_of(const yoke_field *field)
{
    return field->shape.rank >= 1 ? (size_t)field->shape.dim[0] : 1;
}

static yoke_status
set_scaling(yoke_dataset *dataset, size_t field, const float *mean, const float *scale,
            size_t count)
{
    struct yki_scaling made = {.count = count};

    made.mean = yki_alloc(count, sizeof *made.mean, "means");
    made.scale = yki_alloc(count, sizeof *made.scale, "scales");
    if (!made.mean || !made.scale) {
        yki_free(made.mean);
        yki_free(made.scale);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (count) {
        memcpy(made.mean, mean, count * sizeof *mean);
        memcpy(made.scale, scale, count * sizeof *scale);
    }
    yki_free(dataset->scaling[field].mean);
    yki_free(dataset->scaling[field].scale);
    dataset->scaling[field] = made;
    dataset->version++;
    return YOKE_OK;
}

yoke_status
yoke_dataset_set_scaling(yoke_dataset *dataset, const char *name, const float *mean,
                         const float *scale, size_t count)
{
    size_t field;

    YKI_TRY(find_field(dataset, name, &field));
    if (count && (!mean || !scale))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "field \"%s\": %s is NULL", name,
                        mean ? "scale" : "mean");
    if (dataset->fields[field].type == YOKE_I32)
        return yki_fail(YOKE_ERROR_TYPE,
                        "field \"%s\" has integers, which are not scaled; must be f32 or u8", name);
    if (count > 1 && count != channels_of(&dataset->fields[field]))
        return yki_fail(
            YOKE_ERROR_SHAPE,
            "field \"%s\": the number of means is %zu; must be 1, or %zu, one for each of the %s",
            name, count, channels_of(&dataset->fields[field]),
            dataset->fields[field].shape.rank == 1 ? "columns" : "channels");
    for (size_t i = 0; i < count; i++)
        if (!isfinite(mean[i]) || !isfinite(scale[i]))
            return yki_fail(YOKE_ERROR_VALUE,
                            "field \"%s\": mean[%zu] is %g and scale[%zu] is %g; must be finite",
                            name, i, (double)mean[i], i, (double)scale[i]);
    return set_scaling(dataset, field, mean, scale, count);
}

size_t
yoke_dataset_get_scaling(const yoke_dataset *dataset, const char *name, const float **mean,
                         const float **scale)
{
    int field = dataset && name ? yki_dataset_find(dataset, name) : -1;

    if (field < 0)
        return 0;
    if (mean)
        *mean = dataset->scaling[field].mean;
    if (scale)
        *scale = dataset->scaling[field].scale;
    return dataset->scaling[field].count;
}

static bool
holds_images(const yoke_field *field)
{
    return field->shape.rank == 3 && field->type != YOKE_I32;
}

/* Finds the named field, or the only field of images. */
static yoke_status
find_images(const yoke_dataset *dataset, const char *name, size_t *field)
{
    size_t images = 0;

    if (name) {
        YKI_TRY(find_field(dataset, name, field));
        if (!holds_images(&dataset->fields[*field]))
            return yki_fail(YOKE_ERROR_SHAPE,
                            "field \"%s\" does not hold images; must be (channels, height, width)",
                            name);
        return YOKE_OK;
    }
    for (size_t i = 0; i < dataset->field_count; i++)
        if (holds_images(&dataset->fields[i])) {
            *field = i;
            images++;
        }
    if (images != 1)
        return yki_fail(YOKE_ERROR_SHAPE, "%zu fields hold images (C, H, W); %s", images,
                        images ? "name the one to augment" : "must have one to augment");
    return YOKE_OK;
}

yoke_status
yoke_dataset_set_augmentation_sized(yoke_dataset *dataset, const yoke_augmentation *augmentation,
                                    size_t size)
{
    yoke_augmentation a = {0};
    struct yki_augmentation made = {0};

    if (!dataset)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "dataset is NULL");
    if (augmentation)
        memcpy(&a, augmentation, YKI_MIN(size, sizeof a));
    if (a.flip || a.shift || a.crop || a.noise != 0 || a.shift_part != 0) {
        YKI_TRY(find_images(dataset, a.field, &made.field));
        if (a.shift < 0 || a.shift > 4096)
            return yki_fail_range(YOKE_ERROR_VALUE, "shift", a.shift, 0, 4096);
        if (!isfinite(a.noise) || a.noise < 0)
            return yki_fail_range_real(YOKE_ERROR_VALUE, "noise", (double)a.noise, 0, FLT_MAX);
        if (!(a.shift_part >= 0 && a.shift_part <= 1))
            return yki_fail_range_real(YOKE_ERROR_VALUE, "shift_part", (double)a.shift_part, 0, 1);
        made.flip = a.flip;
        made.shift = a.shift;
        made.crop = a.crop;
        made.noise = a.noise;
        made.shift_part = a.shift_part;
    }
    dataset->augmentation = made;
    dataset->version++;
    return YOKE_OK;
}

const char *
yoke_dataset_get_encoding(const yoke_dataset *dataset)
{
    return dataset ? dataset->encoding : NULL;
}

yoke_status
yki_dataset_copy_settings(yoke_dataset *dataset, const yoke_dataset *from)
{
    for (size_t i = 0; i < from->field_count; i++)
        if (from->scaling[i].count)
            YKI_TRY(set_scaling(dataset, i, from->scaling[i].mean, from->scaling[i].scale,
                                from->scaling[i].count));
    dataset->augmentation = from->augmentation;
    dataset->vocabulary = from->vocabulary;
    if (from->encoding && !(dataset->encoding = yki_strdup(from->encoding, "an encoding")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (from->tokenizer)
        dataset->tokenizer = yki_tokenizer_retain(from->tokenizer);
    return yoke_dataset_set_class_names(dataset, (const char *const *)from->class_names,
                                        from->class_count);
}

/* ---- measuring ---- */

enum { CHUNK_BYTES = 1 << 20 };

typedef struct moments {
    double count, mean, m2;
} moments;

/* Adds a plane of values. For u8 the sums are integers, so exact; else moments are merged as
 * Welford does. */
static void
add_values(moments *m, const yoke_field *field, const void *values, size_t count)
{
    double sum = 0, mean, m2 = 0, delta, total;

#define AT(i)                                                                                      \
    (field->type == YOKE_U8 ? (double)((const uint8_t *)values)[i]                                 \
                            : (double)((const float *)values)[i])
    for (size_t i = 0; i < count; i++)
        sum += AT(i);
    mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        m2 += (AT(i) - mean) * (AT(i) - mean);
#undef AT
    delta = mean - m->mean;
    total = m->count + (double)count;
    m->m2 += m2 + delta * delta * m->count * (double)count / total;
    m->mean += delta * (double)count / total;
    m->count = total;
}

static yoke_status
measure(const yoke_dataset *dataset, size_t f, moments *m, size_t channels)
{
    const yoke_field *field = &dataset->fields[f];
    size_t size = yki_field_size(field), plane = (size_t)yki_shape_count(field->shape) / channels;
    size_t step = YKI_MAX(CHUNK_BYTES / size, 1u), bytes = plane * yki_type_size(field->type);
    unsigned char *samples = yki_alloc(step, size, "samples to be measured");
    int64_t *indices = yki_alloc(step, sizeof *indices, "numbers of samples");
    yoke_status status = samples && indices ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (int64_t first = 0; first < dataset->count && status == YOKE_OK; first += (int64_t)step) {
        size_t count = (size_t)YKI_MIN((int64_t)step, dataset->count - first);

        for (size_t i = 0; i < count; i++)
            indices[i] = first + (int64_t)i;
        status = yki_dataset_read(dataset, f, indices, count, samples);
        for (size_t i = 0; i < count * channels && status == YOKE_OK; i++)
            add_values(&m[i % channels], field, samples + i * bytes, plane);
    }
    yki_free(samples);
    yki_free(indices);
    return status;
}

yoke_status
yoke_dataset_measure_scaling(yoke_dataset *dataset, const char *name)
{
    size_t field, channels;
    moments *m;
    float *values;
    yoke_status status;

    YKI_TRY(find_field(dataset, name, &field));
    if (dataset->fields[field].type == YOKE_I32)
        return yki_fail(YOKE_ERROR_TYPE,
                        "field \"%s\" has integers, which are not scaled; must be f32 or u8", name);
    if (dataset->count == 0)
        return yki_fail(YOKE_ERROR_STATE,
                        "field \"%s\": there is no sample to measure; must be at least one", name);
    channels = channels_of(&dataset->fields[field]);
    m = yki_alloc(channels, sizeof *m, "means");
    values = yki_alloc(2 * channels, sizeof *values, "means");
    status = m && values ? measure(dataset, field, m, channels) : YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t c = 0; c < channels && status == YOKE_OK; c++) {
        double deviation = sqrt(m[c].m2 / m[c].count);

        values[c] = (float)m[c].mean;
        values[channels + c] = deviation > 0 ? (float)(1 / deviation) : 1;
    }
    if (status == YOKE_OK)
        status = yoke_dataset_set_scaling(dataset, name, values, values + channels, channels);
    yki_free(m);
    yki_free(values);
    return status;
}
