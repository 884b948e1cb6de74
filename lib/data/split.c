/* SPDX-License-Identifier: Apache-2.0
 *
 * split.c - views: some samples of a dataset, chosen by a list or by a permutation.
 *
 * A view retains its dataset and reads through it. So it costs its list of numbers, or nothing: the
 * two parts of a split are two ranges of one order.
 */
#include <math.h>
#include <string.h>

#include "data/dataset.h"

typedef struct view {
    yoke_dataset *base; /* retained */
    int64_t *indices;   /* NULL: `order` is used */
    yki_order order;
    int64_t first; /* position in the order */
} view;

enum { BATCH = 256 }; /* numbers looked up at a time, on the stack */

static yoke_status
view_read(void *self, size_t field, const int64_t *indices, size_t count, void *out)
{
    const view *v = self;
    size_t size = yki_field_size(&v->base->fields[field]);
    int64_t numbers[BATCH];

    for (size_t done = 0; done < count; done += BATCH) {
        size_t n = YKI_MIN(count - done, (size_t)BATCH);

        for (size_t i = 0; i < n; i++) {
            int64_t index = indices[done + i];

            numbers[i] = v->indices ? v->indices[index] : yki_order_at(&v->order, v->first + index);
        }
        YKI_TRY(yki_dataset_read(v->base, field, numbers, n, (unsigned char *)out + done * size));
    }
    return YOKE_OK;
}

static const char *
view_name(void *self, int64_t index)
{
    const view *v = self;

    return yoke_dataset_get_file(v->base, v->indices ? v->indices[index]
                                                     : yki_order_at(&v->order, v->first + index));
}

static void
view_destroy(void *self)
{
    view *v = self;

    yoke_dataset_destroy(v->base);
    yki_free(v->indices);
    yki_free(v);
}

static const yki_sample_source view_source = {view_read, view_destroy, 0, NULL, view_name};

/* Takes over the list, also on failure. */
static yoke_status
make_view(yoke_dataset *base, int64_t *indices, const yki_order *order, int64_t first,
          int64_t count, yoke_dataset **out)
{
    yoke_field fields[YKI_MAX_FIELDS];
    view *v = yki_alloc(1, sizeof *v, "a view of a dataset");
    yoke_dataset *dataset;
    yoke_status status;

    if (!v) {
        yki_free(indices);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    v->base = yki_dataset_retain(base);
    v->indices = indices;
    v->order = *order;
    v->first = first;
    for (size_t i = 0; i < base->field_count; i++) {
        fields[i] = base->fields[i];
        fields[i].data = NULL;
        fields[i].stride = 0;
    }
    YKI_TRY(yki_dataset_make(count, fields, base->field_count, &view_source, v, &dataset));
    dataset->ahead = base->ahead;
    status = yki_dataset_copy_settings(dataset, base);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return YOKE_OK;
}

yoke_status
yoke_dataset_subset(yoke_dataset *dataset, const int64_t *indices, int64_t count,
                    yoke_dataset **subset)
{
    const yki_order none = {0};
    int64_t *copy;

    YKI_GIVEN("yoke_dataset_subset", {"dataset", dataset}, {"subset", subset},
              {"indices", count ? (const void *)indices : ""});
    if (count < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of indices", count, 0,
                              INT64_MAX);
    for (int64_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= dataset->count)
            return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the index of a sample", indices[i],
                                  0, dataset->count - 1);
    copy = yki_alloc((size_t)count, sizeof *copy, "numbers of samples");
    if (!copy)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (count)
        memcpy(copy, indices, (size_t)count * sizeof *copy);
    return make_view(dataset, copy, &none, 0, count, subset);
}

yoke_status
yoke_dataset_split(yoke_dataset *dataset, double fraction, uint32_t seed, yoke_dataset **train,
                   yoke_dataset **validation)
{
    yoke_dataset *first, *second;
    yki_order order = {.seed = seed, .epoch = UINT32_MAX}; /* no training has this epoch */
    int64_t count;
    yoke_status status;

    if (!dataset || !train || !validation)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "splitting: %s is NULL",
                        !dataset ? "dataset"
                        : !train ? "train"
                                 : "validation");
    if (!(fraction >= 0 && fraction <= 1))
        return yki_fail_range_real(YOKE_ERROR_VALUE, "the fraction for validation", fraction, 0, 1);
    order.count = (uint64_t)dataset->count;
    count = (int64_t)floor(fraction * (double)dataset->count + 0.5);
    count = YKI_MIN(count, dataset->count);
    YKI_TRY(make_view(dataset, NULL, &order, 0, count, &second));
    status = make_view(dataset, NULL, &order, count, dataset->count - count, &first);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(second);
        return status;
    }
    *train = first;
    *validation = second;
    return YOKE_OK;
}
