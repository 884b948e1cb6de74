/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c - samples of a dataset as an input of floats gets them, for programs that feed a trainer
 * or a predictor by themselves. A device does the same when samples are loaded
 * (clkernels/feed.cl), by the same operations.
 *
 * It does not augment.
 */
#include "data/dataset.h"
#include "graph/graph.h"

static float
value_at(const yoke_field *field, const void *values, size_t i)
{
    switch (field->type) {
    case YOKE_U8:
        return (float)((const uint8_t *)values)[i];
    case YOKE_I32:
        return (float)((const int32_t *)values)[i];
    case YOKE_F32:
        break;
    }
    return ((const float *)values)[i];
}

/* From the samples as they were read. The means belong to the first axis. */
static void
convert(const yoke_dataset *dataset, size_t number, const void *from, size_t count, float *out)
{
    const yoke_field *field = &dataset->fields[number];
    const struct yki_scaling *scaling = &dataset->scaling[number];
    const size_t size = (size_t)yki_shape_count(field->shape);
    const size_t plane = scaling->count > 1 ? size / scaling->count : size;

    for (size_t i = 0; i < count * size; i++) {
        const size_t channel = scaling->count > 1 ? i % size / plane : 0;
        float mean = 0, scale = field->type == YOKE_U8 ? 1 / 255.f : 1;

        if (scaling->count) {
            mean = scaling->mean[channel];
            scale = scaling->scale[channel];
        }
        out[i] = (value_at(field, from, i) - mean) * scale;
    }
}

yoke_status
yoke_dataset_batch(const yoke_dataset *dataset, const char *name, const int64_t *indices,
                   int64_t count, float *out, int64_t values)
{
    int field;
    size_t size;
    void *samples;
    yoke_status status;

    YKI_GIVEN("yoke_dataset_batch", {"dataset", dataset}, {"field", name},
              {"indices", count ? (const void *)indices : ""},
              {"values", count ? (const void *)out : ""});
    field = yki_dataset_find(dataset, name);
    if (field < 0)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "the dataset has no field \"%s\"", name);
    size = (size_t)yki_shape_count(dataset->fields[field].shape);
    if (count < 0 || (uint64_t)values != (uint64_t)count * size)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "yoke_dataset_batch: there is room for %lld values; must be %.0f, for %lld "
                        "samples of \"%s\"",
                        (long long)values, (double)count * (double)size, (long long)count, name);
    samples = yki_alloc((size_t)count, yki_field_size(&dataset->fields[field]), "samples");
    if (!samples)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_dataset_read(dataset, (size_t)field, indices, (size_t)count, samples);
    if (status == YOKE_OK)
        convert(dataset, (size_t)field, samples, (size_t)count, out);
    yki_free(samples);
    return status;
}
