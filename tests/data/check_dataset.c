/* SPDX-License-Identifier: Apache-2.0
 *
 * check_dataset.c - samples by number: what comes out is what was put in, every
 * sample once an epoch, whatever their number and that of the processes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "support/support.h"

enum { COUNT = 7, WIDTH = 3 };

typedef struct record {
    uint8_t pixels[WIDTH];
    int32_t label;
    float target[2];
} record;

static record records[COUNT];
static int released;

static void
count_release(void *user)
{
    ck_assert_ptr_eq(user, records);
    released++;
}

static void
fill_records(void)
{
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < WIDTH; j++)
            records[i].pixels[j] = (uint8_t)(10 * i + j);
        records[i].label = i % 3;
        records[i].target[0] = (float)i + 0.5f;
        records[i].target[1] = (float)-i;
    }
    released = 0;
}

static yoke_dataset *
of_records(void)
{
    const yoke_field fields[] = {
        {"x", YOKE_U8, yoke_shape(WIDTH), records[0].pixels, sizeof(record)},
        {"label", YOKE_I32, yoke_shape(), &records[0].label, sizeof(record)},
        {"target", YOKE_F32, yoke_shape(2), records[0].target, sizeof(record)},
    };
    yoke_dataset *dataset = NULL;

    fill_records();
    ASSERT_OK(yoke_dataset_create(
        COUNT, fields, 3, &(yoke_dataset_options){.release = count_release, .user = records},
        &dataset));
    return dataset;
}

/* ---- arrays ---- */

START_TEST(memory_with_strides)
{
    yoke_dataset *dataset = of_records();
    const int64_t indices[] = {6, 0, 3, 3};
    uint8_t x[4][WIDTH];
    int32_t label[4];
    float target[4][2];

    ck_assert_int_eq(yoke_dataset_count(dataset), COUNT);
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 3);
    ck_assert_str_eq(yoke_dataset_get_field(dataset, 1)->name, "label");
    ck_assert_ptr_null(yoke_dataset_get_field(dataset, 3));
    ASSERT_OK(yoke_dataset_read(dataset, "x", indices, 4, x, sizeof x));
    ASSERT_OK(yoke_dataset_read(dataset, "label", indices, 4, label, sizeof label));
    ASSERT_OK(yoke_dataset_read(dataset, "target", indices, 4, target, sizeof target));
    for (int i = 0; i < 4; i++) {
        const record *r = &records[indices[i]];

        ck_assert_mem_eq(x[i], r->pixels, WIDTH);
        ck_assert_int_eq(label[i], r->label);
        ck_assert_mem_eq(target[i], r->target, sizeof target[i]);
    }
    ASSERT_OK(yoke_dataset_read(dataset, "x", NULL, 0, NULL, 0));
    yoke_dataset_destroy(dataset);
    ck_assert_int_eq(released, 1);
}
END_TEST

START_TEST(kept_as_long_as_used)
{
    yoke_dataset *dataset = of_records(), *kept = yki_dataset_retain(dataset);
    const int64_t last = COUNT - 1;
    int32_t label;

    yoke_dataset_destroy(dataset);
    ck_assert_int_eq(released, 0);
    ASSERT_OK(yoke_dataset_read(kept, "label", &last, 1, &label, sizeof label));
    yoke_dataset_destroy(kept);
    ck_assert_int_eq(released, 1);
    yoke_dataset_destroy(NULL);
}
END_TEST

static yoke_status
squares(void *user, int64_t index, size_t field, void *out)
{
    ck_assert_ptr_eq(user, records);
    if (index == 13)
        return YOKE_ERROR_IO;
    *(float *)out = (float)(index * index + (int64_t)field);
    return YOKE_OK;
}

START_TEST(a_function_fills)
{
    const yoke_field fields[] = {{"x", YOKE_F32, yoke_shape(), NULL, 0},
                                 {"y", YOKE_F32, yoke_shape(1), NULL, 0}};
    const int64_t indices[] = {4, 9}, bad[] = {1, 13};
    yoke_dataset *dataset;
    float y[2];

    ASSERT_OK(yoke_dataset_create(
        100, fields, 2,
        &(yoke_dataset_options){.fill = squares, .release = count_release, .user = records},
        &dataset));
    ASSERT_OK(yoke_dataset_read(dataset, "y", indices, 2, y, sizeof y));
    ck_assert(y[0] == 17 && y[1] == 82);
    ASSERT_STATUS(YOKE_ERROR_IO, yoke_dataset_read(dataset, "x", bad, 2, y, sizeof y));
    ASSERT_DETAIL("sample 13");
    yoke_dataset_destroy(dataset);
    ck_assert_int_eq(released, 1);
}
END_TEST

START_TEST(refusals)
{
    static const float data[4];
    yoke_field field = {"x", YOKE_F32, yoke_shape(2), data, 0}, two[2];
    yoke_dataset *dataset = NULL, *right = of_records();
    const int64_t beyond = COUNT, below = -1;
    float out[8];

#define REFUSED(status, part, ...)                                                                 \
    do {                                                                                           \
        ASSERT_STATUS(status, __VA_ARGS__);                                                        \
        ASSERT_DETAIL(part);                                                                       \
        ck_assert_ptr_null(dataset);                                                               \
    } while (0)
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples is -1; must be at least 0",
            yoke_dataset_create(-1, &field, 1, NULL, &dataset));
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "the number of fields is 0; must be between 1 and",
            yoke_dataset_create(2, &field, 0, NULL, &dataset));
    two[0] = two[1] = field;
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "field \"x\": another field has this name; must be unique",
            yoke_dataset_create(2, two, 2, NULL, &dataset));
    field.stride = 4;
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "stride is 4; must be at least 8, the bytes of a sample",
            yoke_dataset_create(2, &field, 1,
                                &(yoke_dataset_options){.release = count_release, .user = records},
                                &dataset));
    ck_assert_int_eq(released, 0); /* what failed takes nothing */
    field.stride = 0;
    field.data = NULL;
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "data is NULL and there is no fill function",
            yoke_dataset_create(2, &field, 1, NULL, &dataset));
    field.shape = yoke_shape(1 << 20, 1 << 20);
    REFUSED(YOKE_ERROR_SHAPE, "axis 1", yoke_dataset_create(2, &field, 1, NULL, &dataset));
    field.shape = yoke_shape(3, 0);
    REFUSED(YOKE_ERROR_SHAPE, "axis 1", yoke_dataset_create(2, &field, 1, NULL, &dataset));
    field.shape.rank = 9;
    REFUSED(YOKE_ERROR_SHAPE, "the rank of its shape is 9; must be between 0 and",
            yoke_dataset_create(2, &field, 1, NULL, &dataset));
    field.shape.rank = 0;
    field.type = (yoke_type)7;
    REFUSED(YOKE_ERROR_TYPE, "has type 7; must be YOKE_F32, YOKE_I32 or YOKE_U8",
            yoke_dataset_create(2, &field, 1, NULL, &dataset));
    field.type = YOKE_F32;
    field.name = NULL;
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "must have at least one character",
            yoke_dataset_create(2, &field, 1, NULL, &dataset));
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "the index of a sample is 7; must be between 0 and 6",
            yoke_dataset_read(right, "x", &beyond, 1, out, WIDTH));
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "the index of a sample is -1; must be between 0 and 6",
            yoke_dataset_read(right, "x", &below, 1, out, WIDTH));
    REFUSED(YOKE_ERROR_NOT_FOUND, "\"z\"", yoke_dataset_read(right, "z", &below, 1, out, WIDTH));
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "the index of a sample is 7; must be between 0 and 6",
            yoke_dataset_subset(right, &beyond, 1, &dataset));
    REFUSED(YOKE_ERROR_VALUE, "1.5", yoke_dataset_split(right, 1.5, 1, &dataset, &dataset));
    REFUSED(YOKE_ERROR_VALUE, "nan", yoke_dataset_split(right, (double)NAN, 1, &dataset, &dataset));
    yoke_dataset_destroy(right);
}
END_TEST

/* ---- orders ---- */

/* Every number below count exactly once. */
static void
assert_permutation(const yki_order *order)
{
    unsigned char *seen = calloc(order->count + 1, 1);

    for (uint64_t i = 0; i < order->count; i++) {
        int64_t at = yki_order_at(order, (int64_t)i);

        ck_assert_msg(at >= 0 && (uint64_t)at < order->count, "position %llu of %llu is %lld",
                      (unsigned long long)i, (unsigned long long)order->count, (long long)at);
        ck_assert_msg(!seen[at], "%lld twice among %llu", (long long)at,
                      (unsigned long long)order->count);
        seen[at] = 1;
    }
    free(seen);
}

START_TEST(orders_are_permutations)
{
    static const uint64_t large[] = {1023, 1024, 1025, 60000, 65536, 65537, 100003};

    for (uint64_t count = 0; count <= 300; count++)
        for (uint32_t epoch = 0; epoch < 3; epoch++)
            assert_permutation(&(yki_order){.count = count, .seed = 5, .epoch = epoch});
    for (size_t i = 0; i < YKI_COUNT(large); i++)
        assert_permutation(&(yki_order){.count = large[i], .seed = (uint32_t)i, .epoch = 7});
    for (int64_t i = 0; i < 100; i++) {
        yki_order sequential = {.count = 100, .sequential = true};
        yki_order huge = {.count = (uint64_t)INT64_MAX, .seed = 1};

        ck_assert_int_eq(yki_order_at(&sequential, i), i);
        ck_assert_int_ge(yki_order_at(&huge, i), 0);
        ck_assert_int_ne(yki_order_at(&huge, i), yki_order_at(&huge, i + 1));
    }
}
END_TEST

/* Where sample 0 .. n-1 comes first, over many seeds or epochs: chi square within what n - 1
 * degrees of freedom give (mean n - 1, deviation sqrt(2 (n - 1))); 5 deviations. */
static void
assert_uniform(int64_t n, bool by_epoch, int64_t position)
{
    enum { DRAWS = 20000 };
    double *counts = calloc((size_t)n, sizeof *counts), chi = 0,
           expected = (double)DRAWS / (double)n;

    for (uint32_t i = 0; i < DRAWS; i++) {
        yki_order order = {
            .count = (uint64_t)n, .seed = by_epoch ? 3 : i, .epoch = by_epoch ? i : 3};

        counts[yki_order_at(&order, position)]++;
    }
    for (int64_t i = 0; i < n; i++)
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    free(counts);
    ck_assert_msg(fabs(chi - (double)(n - 1)) < 5 * sqrt(2.0 * (double)(n - 1)),
                  "chi square %g for %lld samples", chi, (long long)n);
}

START_TEST(orders_are_random)
{
    static const int64_t counts[] = {3, 10, 64, 100, 1000};

    for (size_t i = 0; i < YKI_COUNT(counts); i++) {
        assert_uniform(counts[i], true, 0);
        assert_uniform(counts[i], false, counts[i] / 2);
    }
}
END_TEST

/* How often neighbours stay neighbours: once an order on average, by chance. */
START_TEST(neighbours_are_parted)
{
    int64_t kept = 0;

    for (uint32_t epoch = 0; epoch < 100; epoch++) {
        yki_order order = {.count = 1000, .seed = 1, .epoch = epoch};

        for (int64_t i = 0; i + 1 < 1000; i++)
            kept += yki_order_at(&order, i + 1) == yki_order_at(&order, i) + 1;
    }
    ck_assert_int_gt(kept, 50);
    ck_assert_int_lt(kept, 150);
}
END_TEST

/* An epoch cut into batches, batches into parts of unequal processes: each process computes its own
 * positions alone, and together they see every sample once. */
START_TEST(no_sample_is_lost_between_processes)
{
    enum { BATCH = 24 };

    for (int processes = 1; processes <= 7; processes++)
        for (int64_t count = 1; count <= 200; count += 13) {
            unsigned char seen[256] = {0};

            for (int p = 0; p < processes; p++) {
                const yki_order mine = {.count = (uint64_t)count, .seed = 9, .epoch = 2};

                for (int64_t first = 0; first < count; first += BATCH) {
                    int64_t n = YKI_MIN(count - first, (int64_t)BATCH);
                    int64_t begin = n * p * p / (processes * processes);
                    int64_t end = n * (p + 1) * (p + 1) / (processes * processes);

                    for (int64_t i = begin; i < end; i++)
                        seen[yki_order_at(&mine, first + i)]++;
                }
            }
            for (int64_t i = 0; i < count; i++)
                ck_assert_msg(seen[i] == 1, "%d processes, %lld samples: sample %lld seen %d times",
                              processes, (long long)count, (long long)i, seen[i]);
        }
}
END_TEST

/* ---- views ---- */

START_TEST(subsets)
{
    yoke_dataset *dataset = of_records(), *odd, *one;
    int64_t numbers[] = {1, 3, 5}, middle = 1;
    const int64_t all[] = {2, 1, 0};
    float target[3][2];
    uint8_t x[WIDTH];

    ASSERT_OK(yoke_dataset_set_class_names(dataset, (const char *[]){"a", "b", "c"}, 3));
    ASSERT_OK(yoke_dataset_subset(dataset, numbers, 3, &odd));
    numbers[0] = 0; /* was copied */
    ASSERT_OK(yoke_dataset_subset(odd, &middle, 1, &one));
    yoke_dataset_destroy(dataset);
    ck_assert_int_eq(yoke_dataset_count(odd), 3);
    ck_assert_str_eq(yoke_dataset_get_class_name(one, 2), "c");
    ASSERT_OK(yoke_dataset_read(odd, "target", all, 3, target, sizeof target));
    ck_assert(target[0][1] == -5 && target[1][1] == -3 && target[2][1] == -1);
    yoke_dataset_destroy(odd);
    ASSERT_OK(yoke_dataset_read(one, "x", (int64_t[]){0}, 1, x, sizeof x));
    ck_assert_int_eq(x[0], 30);
    ck_assert_int_eq(released, 0);
    yoke_dataset_destroy(one);
    ck_assert_int_eq(released, 1);
}
END_TEST

START_TEST(a_split_loses_nothing)
{
    static float values[1000];
    const yoke_field field = {"x", YOKE_F32, yoke_shape(), values, 0};

    for (int i = 0; i < 1000; i++)
        values[i] = (float)i;
    for (int64_t count = 0; count <= 1000; count = count * 3 + 1)
        for (int tenths = 0; tenths <= 10; tenths += 5) {
            yoke_dataset *all, *parts[2];
            unsigned char seen[1000] = {0};

            ASSERT_OK(yoke_dataset_create(count, &field, 1, NULL, &all));
            ASSERT_OK(yoke_dataset_split(all, tenths / 10.0, 4, &parts[0], &parts[1]));
            ck_assert_int_eq(yoke_dataset_count(parts[1]), (count * tenths + 5) / 10);
            yoke_dataset_destroy(all);
            for (int p = 0; p < 2; p++) {
                for (int64_t i = 0; i < yoke_dataset_count(parts[p]); i++) {
                    float value;

                    ASSERT_OK(yoke_dataset_read(parts[p], "x", &i, 1, &value, sizeof value));
                    seen[(int)value]++;
                }
                yoke_dataset_destroy(parts[p]);
            }
            for (int64_t i = 0; i < count; i++)
                ck_assert_int_eq(seen[i], 1);
        }
}
END_TEST

/* ---- scaling ---- */

START_TEST(scaling)
{
    static const uint8_t pixels[2][2][2] = {{{1, 3}, {10, 10}}, {{5, 7}, {10, 10}}};
    static const float floats[4] = {1, 2, 3, 6};
    const yoke_field fields[] = {{"image", YOKE_U8, yoke_shape(2, 2), pixels, 0},
                                 {"x", YOKE_F32, yoke_shape(2), floats, 0}};
    const float *mean, *scale, nan = NAN, one = 1;
    float out[8];
    yoke_dataset *dataset, *half, *other;

    ASSERT_OK(yoke_dataset_create(2, fields, 2, NULL, &dataset));
    ck_assert_uint_eq(yoke_dataset_get_scaling(dataset, "image", &mean, &scale), 0);
    ASSERT_OK(yoke_dataset_measure_scaling(dataset, "image"));
    ck_assert_uint_eq(yoke_dataset_get_scaling(dataset, "image", &mean, &scale), 2);
    ck_assert(mean[0] == 4 && scale[0] == (float)(1 / sqrt(5.0)));
    ck_assert(mean[1] == 10 && scale[1] == 1); /* a constant channel */
    ASSERT_OK(yoke_dataset_measure_scaling(dataset, "x"));
    ck_assert_uint_eq(yoke_dataset_get_scaling(dataset, "x", &mean, &scale), 2);
    ck_assert(mean[0] == 2 && scale[0] == 1); /* column by column: 1 and 3, 2 and 6 */
    ck_assert(mean[1] == 4 && scale[1] == 0.5f);
    ASSERT_OK(yoke_dataset_split(dataset, 0.5, 1, &half, &other));
    ck_assert_uint_eq(yoke_dataset_get_scaling(half, "image", &mean, &scale), 2);
    ck_assert(mean[0] == 4);
    ASSERT_OK(yoke_dataset_set_scaling(dataset, "image", &one, &one, 1));
    ck_assert_uint_eq(yoke_dataset_get_scaling(dataset, "image", &mean, &scale), 1);
    ASSERT_OK(yoke_dataset_set_scaling(dataset, "image", NULL, NULL, 0));
    ck_assert_uint_eq(yoke_dataset_get_scaling(dataset, "image", &mean, &scale), 0);
    ASSERT_OK(yoke_dataset_batch(dataset, "image", (const int64_t[]){1, 0}, 2, out, 8));
    ck_assert(out[0] == 5 * (1 / 255.f) && out[4] == 1 / 255.f && out[7] == 10 * (1 / 255.f));
    ASSERT_OK(yoke_dataset_batch(dataset, "x", (const int64_t[]){1}, 1, out, 2));
    ck_assert(out[0] == 1 && out[1] == 1); /* (3 - 2) * 1, (6 - 4) / 2 */
    ASSERT_STATUS(YOKE_ERROR_SHAPE,
                  yoke_dataset_batch(dataset, "x", (const int64_t[]){1}, 1, out, 4));
    ASSERT_DETAIL("there is room for 4 values; must be 2, for 1 samples of \"x\"");
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  yoke_dataset_batch(dataset, "y", (const int64_t[]){1}, 1, out, 2));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_dataset_set_scaling(dataset, "image", floats, floats, 3));
    ASSERT_DETAIL("the number of means is 3; must be 1, or 2, one for each of the channels");
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_dataset_set_scaling(dataset, "x", floats, floats, 3));
    ASSERT_DETAIL("the number of means is 3; must be 1, or 2, one for each of the columns");
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_dataset_set_scaling(dataset, "x", &nan, &one, 1));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_dataset_set_scaling(dataset, "y", &one, &one, 1));
    yoke_dataset_destroy(half);
    yoke_dataset_destroy(other);
    yoke_dataset_destroy(dataset);
}
END_TEST

START_TEST(augmentation)
{
    static const uint8_t pixels[2 * 3 * 4 * 4];
    const yoke_field fields[] = {{"image", YOKE_U8, yoke_shape(3, 4, 4), pixels, 0},
                                 {"mask", YOKE_U8, yoke_shape(1, 4, 4), pixels, 0},
                                 {"label", YOKE_U8, yoke_shape(), pixels, 0}};
    /* An older caller's struct ends before the part: all are shifted. */
    const yoke_augmentation beyond = {.field = "image", .shift = 1, .shift_part = 1.5f};
    const float no_parts[] = {(float)NAN, -0.1f, 1.001f, (float)INFINITY, (float)-INFINITY};
    yoke_dataset *dataset;

    ASSERT_OK(yoke_dataset_create(2, fields, 3, NULL, &dataset));
    ASSERT_STATUS(YOKE_ERROR_SHAPE,
                  yoke_dataset_set_augmentation(dataset, &(yoke_augmentation){.flip = true}));
    ASSERT_DETAIL("2 fields hold images");
    ASSERT_STATUS(
        YOKE_ERROR_SHAPE,
        yoke_dataset_set_augmentation(dataset, &(yoke_augmentation){.field = "label", .shift = 1}));
    ASSERT_STATUS(YOKE_ERROR_VALUE,
                  yoke_dataset_set_augmentation(
                      dataset, &(yoke_augmentation){.field = "image", .shift = -1}));
    ASSERT_STATUS(YOKE_ERROR_VALUE,
                  yoke_dataset_set_augmentation(
                      dataset, &(yoke_augmentation){.field = "image", .noise = (float)NAN}));
    for (size_t i = 0; i < YKI_COUNT(no_parts); i++) {
        const yoke_augmentation a = {.field = "image", .shift = 1, .shift_part = no_parts[i]};
        const yoke_augmentation alone = {.field = "image", .shift_part = no_parts[i]};

        ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_dataset_set_augmentation(dataset, &a));
        ASSERT_DETAIL("; must be between 0 and 1");
        ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_dataset_set_augmentation(dataset, &alone));
    }
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_dataset_set_augmentation(dataset, &beyond));
    ASSERT_DETAIL("shift_part is 1.5; must be between 0 and 1");
    ASSERT_OK(yoke_dataset_set_augmentation_sized(dataset, &beyond,
                                                  offsetof(yoke_augmentation, shift_part)));
    ck_assert(dataset->augmentation.shift == 1 && dataset->augmentation.shift_part == 0);
    ASSERT_OK(yoke_dataset_set_augmentation(
        dataset, &(yoke_augmentation){.field = "mask", .shift = 2, .flip = true, .shift_part = 1}));
    ck_assert_uint_eq(dataset->augmentation.field, 1);
    ck_assert(dataset->augmentation.shift_part == 1);
    ASSERT_OK(yoke_dataset_set_augmentation(dataset, NULL));
    ck_assert(!dataset->augmentation.flip);
    yoke_dataset_destroy(dataset);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("dataset");
    TCase *c = test_case(suite, "samples");

    tcase_add_test(c, memory_with_strides);
    tcase_add_test(c, kept_as_long_as_used);
    tcase_add_test(c, a_function_fills);
    tcase_add_test(c, refusals);
    tcase_add_test(c, subsets);
    tcase_add_test(c, a_split_loses_nothing);
    tcase_add_test(c, scaling);
    tcase_add_test(c, augmentation);
    c = test_case(suite, "orders");
    tcase_add_test(c, orders_are_permutations);
    tcase_add_test(c, orders_are_random);
    tcase_add_test(c, neighbours_are_parted);
    tcase_add_test(c, no_sample_is_lost_between_processes);
    return suite;
}
