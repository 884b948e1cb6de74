/* SPDX-License-Identifier: Apache-2.0
 *
 * check_feed.c - what arrives in a plan's inputs, bit by bit, is what a loop on the
 * host computes: however the data gets there, and on every device.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replica/loader.h"
#include "support/devices.h"
#include "support/support.h"

enum { COUNT = 23, C = 3, H = 4, W = 11, BATCH = 9, PIXELS = C * H * W, SEED = 77 };

static test_devices devices;
static uint8_t images[COUNT][C][H][W];
static uint8_t labels[COUNT];
static float targets[COUNT][4];

static void
open_devices(void)
{
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < PIXELS; j++)
            (&images[i][0][0][0])[j] = (uint8_t)((i * 131 + j * 29) ^ (j >> 2));
        labels[i] = (uint8_t)(i % 10);
        for (int j = 0; j < 4; j++)
            targets[i][j] = (float)(i * 4 + j) / 7.f;
    }
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

static yoke_dataset *
data(void)
{
    const yoke_field fields[] = {{"image", YOKE_U8, yoke_shape(C, H, W), images, 0},
                                 {"label", YOKE_U8, yoke_shape(), labels, 0},
                                 {"target", YOKE_F32, yoke_shape(4), targets, 0}};
    yoke_dataset *dataset;

    ASSERT_OK(yoke_dataset_create(COUNT, fields, 3, NULL, &dataset));
    return dataset;
}

/* Inputs image (C, h, w), label, target, in this order. */
static yoke_graph *
network(int h, int w)
{
    yoke_graph *g;
    yoke_node *y, *label, *target;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "image", YOKE_F32, yoke_shape(C, h, w));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(4));
    y = yoke_dense(g, yoke_flatten(g, y), &(yoke_dense_options){.units = 10});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
    yoke_graph_add_metric(g, "error",
                          yoke_mean_absolute_error(g, yoke_slice(g, y, 0, 0, 4), target));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* ---- the same on the host ---- */

static uint32_t
below(uint32_t word, uint32_t range)
{
    return (uint32_t)((uint64_t)word * range >> 32);
}

/* One sample as `training` sees it in this epoch: out (C, h, w). */
static void
expect(const yoke_dataset *dataset, int64_t sample, uint32_t epoch, bool training, int h, int w,
       float *out)
{
    const struct yki_augmentation *a = &dataset->augmentation;
    const struct yki_scaling *s = &dataset->scaling[0];
    const uint32_t key[2] = {SEED, 0x66656564u}, noise_key[2] = {SEED, 0x6E6F6973u};
    const uint32_t counter[4] = {UINT32_MAX, (uint32_t)sample, (uint32_t)(sample >> 32), epoch};
    int x0 = (W - w) / 2, y0 = (H - h) / 2, shift = a->shift;
    bool flip = false;
    uint32_t word[4];

    yki_philox(key, counter, word);
    if (a->shift_part > 0 && word[3] >> 8 >= (uint32_t)(a->shift_part * 0x1p24f))
        shift = 0;
    if (training) {
        x0 = (int)below(word[1], (uint32_t)(W - w + 2 * shift + 1)) - shift;
        y0 = (int)below(word[2], (uint32_t)(H - h + 2 * shift + 1)) - shift;
        flip = a->flip && word[0] >> 31;
    }
    for (int c = 0, i = 0; c < C; c++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++, i++) {
                int from_x = x0 + (flip ? w - 1 - x : x), from_y = y0 + y;
                bool inside = from_x >= 0 && from_x < W && from_y >= 0 && from_y < H;
                float mean = s->count ? s->mean[s->count > 1 ? c : 0] : 0;
                float scale = s->count ? s->scale[s->count > 1 ? c : 0] : 1 / 255.f;

                out[i] = ((inside ? (float)images[sample][c][from_y][from_x] : 0.f) - mean) * scale;
                if (training && a->noise > 0) {
                    const uint32_t at[4] = {(uint32_t)i, (uint32_t)sample, 0, epoch};
                    int sum = 0;

                    yki_philox(noise_key, at, word);
                    for (int k = 0; k < 16; k++)
                        sum += (int)(word[k / 4] >> k % 4 * 8 & 255);
                    out[i] = fmaf((float)(sum - 2040), a->noise / 295.6033828f, out[i]);
                }
            }
}

/* ---- feeding ---- */

typedef struct fed {
    yki_queue *queue;
    yki_loader *feed;
    yki_buffer *inputs[3];
    int h, w;
} fed;

static fed
open_feed(yoke_device *device, yoke_dataset *dataset, int h, int w,
          const yki_loader_options *options)
{
    fed f = {.h = h, .w = w};
    yoke_graph *g = network(h, w);

    ASSERT_OK(yki_queue_create(device, false, &f.queue));
    ASSERT_OK(yki_loader_create(device, dataset, g, BATCH, options, &f.feed));
    yoke_graph_destroy(g);
    ASSERT_OK(yki_buffer_create(device, (uint64_t)BATCH * PIXELS * 4, 0, "image", &f.inputs[0]));
    ASSERT_OK(yki_buffer_create(device, BATCH * 4, 0, "label", &f.inputs[1]));
    ASSERT_OK(yki_buffer_create(device, BATCH * 4 * 4, 0, "target", &f.inputs[2]));
    return f;
}

static yoke_status
batch(fed *f, const int64_t *indices, int64_t n, uint32_t epoch)
{
    const yki_samples samples = {.indices = indices, .n = n, .epoch = epoch};

    return yki_loader_load(f->feed, f->queue, &samples, f->inputs);
}

static void
close_feed(fed *f)
{
    yki_loader_destroy(f->feed);
    for (int i = 0; i < 3; i++)
        yki_buffer_destroy(f->inputs[i]);
    yki_queue_destroy(f->queue);
}

static void
check_batch(fed *f, const yoke_dataset *dataset, const int64_t *indices, int n, uint32_t epoch,
            bool training)
{
    static float image[BATCH * PIXELS], right[PIXELS], target[BATCH][4];
    static int32_t label[BATCH];
    const struct yki_scaling *columns = &dataset->scaling[2];
    const int size = C * f->h * f->w;

    ASSERT_OK(yki_queue_finish(f->queue));
    ASSERT_OK(yki_buffer_get(f->inputs[0], 0, (uint64_t)(n * size) * 4, image));
    ASSERT_OK(yki_buffer_get(f->inputs[1], 0, (uint64_t)n * 4, label));
    ASSERT_OK(yki_buffer_get(f->inputs[2], 0, (uint64_t)n * 16, target));
    for (int i = 0; i < n; i++) {
        expect(dataset, indices[i], epoch, training, f->h, f->w, right);
        for (int j = 0; j < size; j++)
            ck_assert_msg(memcmp(&image[i * size + j], &right[j], 4) == 0,
                          "sample %d, element %d: %.9g instead of %.9g", (int)indices[i], j,
                          (double)image[i * size + j], (double)right[j]);
        ck_assert_int_eq(label[i], labels[indices[i]]);
        for (int j = 0; j < 4; j++) {
            float column = columns->count
                               ? (targets[indices[i]][j] - columns->mean[j]) * columns->scale[j]
                               : targets[indices[i]][j];

            ck_assert_msg(memcmp(&target[i][j], &column, 4) == 0,
                          "sample %d, column %d: %.9g instead of %.9g", (int)indices[i], j,
                          (double)target[i][j], (double)column);
        }
    }
}

/* More batches than slots, of several sizes, in random order; nothing is waited for in between but
 * the last batch is looked at. */
static void
feed_all(yoke_device *device, yoke_dataset *dataset, int h, int w,
         const yki_loader_options *options)
{
    static const int sizes[] = {BATCH, 1, 0, 4, BATCH};
    fed f = open_feed(device, dataset, h, w, options);

    for (uint32_t epoch = 0; epoch < 2; epoch++)
        for (size_t k = 0; k < (devices.slow ? 2 : YKI_COUNT(sizes)); k++) {
            yki_order order = {.count = COUNT, .seed = 3, .epoch = epoch};
            int64_t indices[BATCH];

            for (int i = 0; i < sizes[k]; i++)
                indices[i] = yki_order_at(&order, (int64_t)(k * 3) + i);
            ASSERT_OK(batch(&f, indices, sizes[k], epoch));
            if (k % 2)
                check_batch(&f, dataset, indices, sizes[k], epoch, options->training);
        }
    close_feed(&f);
}

/* On the device, through the ring, and with a limit between the two. */
static void
feed_every_way(yoke_dataset *dataset, int h, int w, bool training)
{
    static const uint64_t limits[] = {0, YKI_FEED_STREAM, COUNT * 20};

    for (size_t d = 0; d < devices.count; d++)
        for (size_t i = 0; i < (devices.slow ? 1 : YKI_COUNT(limits)); i++)
            feed_all(devices.device[d], dataset, h, w,
                     &(yki_loader_options){
                         .seed = SEED, .training = training, .resident_limit = limits[i]});
}

static void
feed_with(const yoke_augmentation *augmentation, int h, int w, bool training)
{
    yoke_dataset *dataset = data();

    ASSERT_OK(yoke_dataset_set_augmentation(dataset, augmentation));
    feed_every_way(dataset, h, w, training);
    yoke_dataset_destroy(dataset);
}

START_TEST(plain)
{
    feed_with(NULL, H, W, true);
}
END_TEST

START_TEST(scaled)
{
    static const float mean[C] = {10, 20.5f, 0}, scale[C] = {0.1f, 3, -1};
    yoke_dataset *dataset = data();

    ASSERT_OK(yoke_dataset_set_scaling(dataset, "image", mean, scale, 1));
    feed_every_way(dataset, H, W, false);
    ASSERT_OK(yoke_dataset_set_scaling(dataset, "image", mean, scale, C));
    feed_every_way(dataset, H, W, true);
    yoke_dataset_destroy(dataset);
}
END_TEST

/* Each column of a table by itself. */
START_TEST(scaled_columns)
{
    static const float mean[4] = {1e5f, -2, 0, 0.25f}, scale[4] = {1e-5f, 3, 1, -7};
    yoke_dataset *dataset = data();

    ASSERT_OK(yoke_dataset_set_scaling(dataset, "target", mean, scale, 4));
    feed_every_way(dataset, H, W, true);
    yoke_dataset_destroy(dataset);
}
END_TEST

START_TEST(moved)
{
    feed_with(&(yoke_augmentation){.flip = true}, H, W, true);
    feed_with(&(yoke_augmentation){.flip = true, .shift = 2, .noise = 0.25f}, H, W, true);
    /* Not in evaluation. */
    feed_with(&(yoke_augmentation){.flip = true, .shift = 2, .noise = 0.25f}, H, W, false);
}
END_TEST

START_TEST(cut)
{
    feed_with(&(yoke_augmentation){.crop = true}, H - 2, W - 1, true);
    feed_with(&(yoke_augmentation){.crop = true}, H - 2, W - 1, false);
    feed_with(&(yoke_augmentation){.crop = true, .shift = 1, .flip = true}, H - 1, W, true);
}
END_TEST

/* The others are cropped, mirrored and made noisy as ever. */
START_TEST(shifted_in_part)
{
    yoke_augmentation a = {.crop = true, .shift = 2, .flip = true, .noise = 0.25f};

    a.shift_part = 0.4f;
    feed_with(&a, H - 1, W - 2, true);
    feed_with(&a, H - 1, W - 2, false);
    a.shift_part = 1;
    feed_with(&a, H, W, true);
    a.shift_part = 1e-30f; /* of 23 samples none, but not "all" */
    feed_with(&a, H, W, true);
}
END_TEST

/* What a device makes of all samples in this epoch: (COUNT, C, H, W). */
static void
epoch_of(fed *f, uint32_t epoch, float *out)
{
    for (int64_t first = 0; first < COUNT; first += BATCH) {
        int64_t indices[BATCH], n = YKI_MIN((int64_t)BATCH, COUNT - first);

        for (int64_t i = 0; i < n; i++)
            indices[i] = first + i;
        ASSERT_OK(batch(f, indices, n, epoch));
        ASSERT_OK(yki_queue_finish(f->queue));
        ASSERT_OK(yki_buffer_get(f->inputs[0], 0, (uint64_t)n * PIXELS * 4, out + first * PIXELS));
    }
}

/* A sample is as without a shift or as when all are shifted, and as many are shifted as asked,
 * wherever to, mirrored or not. Does not know which word chooses. */
START_TEST(as_many_are_shifted)
{
    enum { NONE, PART, ALL, WAYS };
    static const float parts[] = {0.3f, 0.1f, 0.9f};
    static float out[WAYS][COUNT][PIXELS];
    const uint32_t epochs = devices.slow ? 2 : 60;

    for (size_t k = 0; k < (devices.slow ? 1 : YKI_COUNT(parts)); k++) {
        const yoke_augmentation ways[WAYS] = {
            [NONE] = {.flip = true, .noise = 0.25f},
            [PART] = {.flip = true, .noise = 0.25f, .shift = 2, .shift_part = parts[k]},
            [ALL] = {.flip = true, .noise = 0.25f, .shift = 2},
        };
        /* [0] all samples; [1, 2] shifted to the left and not; [3, 4] up and not; [5, 6]
         * mirrored and not. */
        double seen[7] = {0}, shifted[7] = {0};
        yoke_dataset *dataset[WAYS];
        fed f[WAYS];

        for (int way = 0; way < WAYS; way++) {
            dataset[way] = data();
            ASSERT_OK(yoke_dataset_set_augmentation(dataset[way], &ways[way]));
            f[way] = open_feed(devices.device[0], dataset[way], H, W,
                               &(yki_loader_options){.seed = SEED, .training = true});
        }
        for (uint32_t epoch = 0; epoch < epochs; epoch++) {
            for (int way = 0; way < WAYS; way++)
                epoch_of(&f[way], epoch, out[way][0]);
            for (int i = 0; i < COUNT; i++) {
                const uint32_t key[2] = {SEED, 0x66656564u};
                const uint32_t counter[4] = {UINT32_MAX, (uint32_t)i, 0, epoch};
                bool none = memcmp(out[PART][i], out[NONE][i], sizeof out[PART][i]) == 0;
                bool all = memcmp(out[PART][i], out[ALL][i], sizeof out[PART][i]) == 0;
                uint32_t word[4];

                ck_assert_msg(none || all, "sample %d in epoch %u is neither", i, epoch);
                if (none && all) /* the shift is by 0 */
                    continue;
                yki_philox(key, counter, word);
                for (int j = 0; j < 7; j++)
                    if (j == 0 || j == 1 + (int)(word[1] >> 31) || j == 3 + (int)(word[2] >> 31) ||
                        j == 5 + (int)(word[0] >> 31)) {
                        seen[j]++;
                        shifted[j] += all;
                    }
            }
        }
        for (int j = 0; j < 7; j++)
            ck_assert_msg(fabs(shifted[j] - seen[j] * (double)parts[k]) <
                              4 * sqrt(seen[j] * (double)(parts[k] * (1 - parts[k]))),
                          "%g of %g samples of kind %d are shifted; must be near the part %g",
                          shifted[j], seen[j], j, (double)parts[k]);
        for (int way = 0; way < WAYS; way++) {
            close_feed(&f[way]);
            yoke_dataset_destroy(dataset[way]);
        }
    }
}
END_TEST

/* What a model sets of a dataset whose images are larger keeps what is set already. */
START_TEST(what_a_cut_keeps)
{
    yoke_dataset *dataset = data();
    yoke_graph *g = network(H - 1, W - 2);
    const struct yki_augmentation *a = &dataset->augmentation;

    ASSERT_OK(yoke_dataset_set_augmentation(
        dataset,
        &(yoke_augmentation){.flip = true, .shift = 2, .noise = 0.5f, .shift_part = 0.25f}));
    ASSERT_OK(yki_dataset_cut(dataset, g));
    ck_assert(a->crop && a->flip && a->shift == 2);
    ck_assert(a->noise == 0.5f && a->shift_part == 0.25f);
    yoke_graph_destroy(g);
    yoke_dataset_destroy(dataset);
}
END_TEST

/* As on devices whose memory is not the host's. */
START_TEST(through_pinned_memory)
{
    test_devices_hide_host_memory(&devices);
    feed_with(&(yoke_augmentation){.flip = true, .shift = 1}, H, W, true);
    feed_with(NULL, H, W, true);
}
END_TEST

START_TEST(what_stays)
{
    yoke_dataset *dataset = data();
    yoke_memory_usage before, after;
    uint64_t resident, all;
    fed f;

    ASSERT_OK(yoke_device_get_memory(devices.device[0], &before));
    f = open_feed(devices.device[0], dataset, H, W, &(yki_loader_options){0});
    yki_loader_resident(f.feed, &resident, &all);
    ck_assert_uint_eq(resident, all);
    ck_assert_uint_eq(all, (uint64_t)COUNT * (PIXELS + 1 + 16));
    close_feed(&f);
    f = open_feed(devices.device[0], dataset, H, W,
                  &(yki_loader_options){.resident_limit = COUNT * 20});
    yki_loader_resident(f.feed, &resident, &all);
    ck_assert_uint_eq(resident, COUNT * 17); /* labels and targets, not images */
    close_feed(&f);
    ASSERT_OK(yoke_device_get_memory(devices.device[0], &after));
    ck_assert_uint_eq(before.used, after.used);
    yoke_dataset_destroy(dataset);
}
END_TEST

/* Two devices with one memory keep the data once; others keep their own. */
START_TEST(twins)
{
    test_devices halves;
    yoke_dataset *dataset = data();
    yoke_memory_usage usage[2];
    yki_loader_options options = {.seed = SEED};
    uint64_t before, resident, all;
    int64_t indices[] = {22, 0, 7};
    fed first, second;

    test_devices_close(&devices);
    if (test_in_matrix() || !test_devices_open(TEST_POCL_HALVES, &halves)) {
        ck_assert(test_devices_open(TEST_AS_IS, &devices));
        yoke_dataset_destroy(dataset);
        TEST_NOT_HERE("PoCL's halves are for make check");
    }
    first = open_feed(halves.device[0], dataset, H, W, &options);
    ASSERT_OK(yoke_device_get_memory(halves.device[1], &usage[0]));
    before = usage[0].used;
    second = open_feed(halves.device[1], dataset, H, W, &options);
    ASSERT_OK(yoke_device_get_memory(halves.device[1], &usage[0]));
    close_feed(&second);
    options.twin = first.feed;
    second = open_feed(halves.device[1], dataset, H, W, &options);
    ASSERT_OK(yoke_device_get_memory(halves.device[1], &usage[1]));
    ck_assert_uint_gt(usage[1].used, before);
    /* Each field's buffer has a size of its own, at least 64 bytes. */
    ck_assert_uint_eq(usage[0].used - usage[1].used, COUNT * PIXELS + 64 + COUNT * 16);
    yki_loader_resident(second.feed, &resident, &all);
    ck_assert_uint_eq(resident, all);
    close_feed(&first);
    ASSERT_OK(batch(&second, indices, 3, 0));
    check_batch(&second, dataset, indices, 3, 0, false);
    close_feed(&second);
    yoke_dataset_destroy(dataset);
    test_devices_close(&halves);
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
}
END_TEST

/* An input that a plan does not need is left alone. */
START_TEST(not_wanted)
{
    yoke_dataset *dataset = data();
    fed f = open_feed(devices.device[0], dataset, H, W,
                      &(yki_loader_options){.resident_limit = YKI_FEED_STREAM});
    const int64_t indices[] = {5, 6};
    const int32_t before[2] = {-7, -8};
    int32_t label[2];

    ASSERT_OK(yki_buffer_put(f.inputs[1], 0, sizeof before, before));
    ASSERT_OK(yki_loader_load(f.feed, f.queue, &(yki_samples){.indices = indices, .n = 2},
                              (yki_buffer *[]){f.inputs[0], NULL, NULL}));
    ASSERT_OK(yki_queue_finish(f.queue));
    ASSERT_OK(yki_buffer_get(f.inputs[1], 0, sizeof label, label));
    ck_assert(label[0] == -7 && label[1] == -8);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, batch(&f, indices, BATCH + 1, 0));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, batch(&f, (int64_t[]){COUNT}, 1, 0));
    ASSERT_DETAIL("the index of a sample is 23; must be between 0 and 22");
    close_feed(&f);
    yoke_dataset_destroy(dataset);
}
END_TEST

/* ---- matching, and what is refused ---- */

static yoke_status
try_match(const yoke_field *fields, size_t field_count, yoke_node *(*build)(yoke_graph *),
          bool allow_missing, int *found)
{
    yoke_dataset *dataset;
    yoke_graph *g;
    yoke_status status;

    ASSERT_OK(yoke_dataset_create(1, fields, field_count, NULL, &dataset));
    ASSERT_OK(yoke_graph_create(&g));
    build(g);
    ASSERT_OK(yoke_graph_status(g));
    status = yki_fields_match(dataset, g, &(yki_loader_options){.allow_missing = allow_missing},
                              found, yki_loader_input_count(g));
    yoke_graph_destroy(g);
    yoke_dataset_destroy(dataset);
    return status;
}

static yoke_node *
image_and_label(yoke_graph *g)
{
    yoke_input(g, "x", YOKE_F32, yoke_shape(C, H, W));
    return yoke_target(g, "y", YOKE_I32, yoke_shape());
}

static yoke_node *
two_vectors(yoke_graph *g)
{
    yoke_input(g, "a", YOKE_F32, yoke_shape(4));
    return yoke_target(g, "b", YOKE_F32, yoke_shape(4));
}

START_TEST(matching)
{
    yoke_field fields[] = {{"label", YOKE_U8, yoke_shape(1), labels, 0},
                           {"image", YOKE_U8, yoke_shape(C, H, W), images, 0},
                           {"target", YOKE_F32, yoke_shape(4), targets, 0}};
    int found[2];

    ASSERT_OK(try_match(fields, 3, image_and_label, false, found));
    ck_assert(found[0] == 1 && found[1] == 0);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, try_match(fields, 1, image_and_label, false, found));
    ASSERT_DETAIL("input \"x\", f32 (3, 4, 11)");
    ASSERT_DETAIL("it has label");
    ASSERT_OK(try_match(fields, 1, image_and_label, true, found));
    ck_assert(found[0] == -1 && found[1] == 0);
    /* Two inputs that it could be: nothing is guessed. */
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, try_match(fields + 2, 1, two_vectors, false, found));
    fields[1].name = "b";
    ASSERT_STATUS(YOKE_ERROR_SHAPE, try_match(fields, 3, two_vectors, false, found));
    ASSERT_DETAIL(
        "the dataset's field \"b\" has shape (3, 4, 11); must be (4), as the graph's input \"b\"");
    fields[1].name = "x";
    fields[2].name = "y";
    ASSERT_STATUS(YOKE_ERROR_TYPE, try_match(fields, 3, image_and_label, false, found));
    ASSERT_DETAIL(
        "the dataset's field \"y\" has type f32; must be i32, as the graph's input \"y\"");
    fields[2].name = "b";
    fields[1] = fields[2];
    fields[1].name = "other";
    ASSERT_OK(try_match(fields, 3, two_vectors, false, found));
    ck_assert(found[0] == 1 && found[1] == 2);
}
END_TEST

START_TEST(labels_are_checked)
{
    yoke_dataset *dataset = data();
    yoke_graph *g = network(H, W);
    yki_loader *feed = NULL;

    labels[17] = 10;
    ASSERT_STATUS(YOKE_ERROR_VALUE, yki_loader_create(devices.device[0], dataset, g, BATCH,
                                                      &(yki_loader_options){0}, &feed));
    ASSERT_DETAIL("field \"label\": sample 17 has the label 10; must be between 0 and 9 for the "
                  "graph's input \"label\"");
    ck_assert_ptr_null(feed);
    yoke_graph_destroy(g);
    yoke_dataset_destroy(dataset);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("feed");
    TCase *c = test_case(suite, "feed");

    tcase_add_checked_fixture(c, open_devices, close_devices);
    tcase_add_test(c, plain);
    tcase_add_test(c, scaled);
    tcase_add_test(c, scaled_columns);
    tcase_add_test(c, moved);
    tcase_add_test(c, cut);
    tcase_add_test(c, shifted_in_part);
    tcase_add_test(c, as_many_are_shifted);
    tcase_add_test(c, what_a_cut_keeps);
    tcase_add_test(c, through_pinned_memory);
    tcase_add_test(c, what_stays);
    tcase_add_test(c, twins);
    tcase_add_test(c, not_wanted);
    tcase_add_test(c, matching);
    tcase_add_test(c, labels_are_checked);
    return suite;
}
