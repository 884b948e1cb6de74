/* SPDX-License-Identifier: Apache-2.0
 *
 * images.c - a dataset of image files, which are decoded when samples are read.
 *
 * Several samples are decoded at once, by as many threads as there are processors, each with one
 * file, a row and a result of its own; what is read ahead, and how much, is up to who reads
 * (prefetch.c). A sample has its number by the order of names alone. So that damaged files can be
 * left out and numbers still mean the same samples in every part, process and epoch, they are found
 * before the first is read: all images are decoded once then.
 *
 * Changes no pixels but for size and channels. Keeps no pixels.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "data/image.h"

enum { HEAD = 8, MOST_THREADS = 64, AT_ONCE = 4 /* images for each thread */ };

typedef struct images {
    yki_image_list list;
    uint32_t height, width, channels; /* of samples */
    bool labelled;
} images;

/* ---- one image ---- */

yoke_status
yki_image_decode(yki_image *image, yki_resize *resize)
{
    if (image->size >= HEAD && memcmp(image->data, "\x89PNG\r\n\x1a\n", HEAD) == 0)
        return yki_png_decode(image, resize);
    if (image->size >= HEAD && memcmp(image->data, "\xff\xd8\xff", 3) == 0)
        return yki_jpeg_decode(image, resize);
    return yki_fail(YOKE_ERROR_FORMAT,
                    "%s is neither PNG nor JPEG by its first bytes; must be one of both",
                    image->name);
}

/* What a thread needs to decode; it keeps its memory from one image to the next. */
typedef struct decoding {
    yki_resize resize;
    unsigned char *data;
    size_t capacity;
} decoding;

static void
decoding_clear(decoding *d)
{
    yki_resize_clear(&d->resize);
    yki_free(d->data);
}

static yoke_status
read_bytes(decoding *d, const yki_bytes *bytes, size_t *size)
{
    const uint64_t stored = yki_bytes_stored_size(bytes);

    if (stored > YKI_IMAGE_MOST_BYTES)
        return yki_fail(YOKE_ERROR_FORMAT, "%s has %llu bytes; an image must have at most %d",
                        yki_bytes_name(bytes), (unsigned long long)stored, YKI_IMAGE_MOST_BYTES);
    YKI_TRY(yki_grow((void **)&d->data, &d->capacity, (size_t)stored, 1, "an image"));
    *size = (size_t)stored;
    return yki_bytes_read(bytes, 0, stored, d->data);
}

/* Decodes a file to `out`; NULL: only the header. */
static yoke_status
decode_file(decoding *d, const char *path, yki_image *image, uint8_t *out)
{
    yki_bytes *bytes;
    yoke_status status;

    *image = (yki_image){.name = path};
    status = yki_bytes_open(path, &bytes);
    if (status != YOKE_OK) /* "not found" would tell that there is no such part of the data */
        return status == YOKE_ERROR_NOT_FOUND ? YOKE_ERROR_IO : status;
    status = read_bytes(d, bytes, &image->size);
    yki_bytes_release(bytes);
    YKI_TRY(status);
    image->data = d->data;
    YKI_TRY(yki_image_decode(image, out ? &d->resize : NULL));
    if (out)
        yki_resize_end(&d->resize, out);
    return YOKE_OK;
}

/* ---- many images ---- */

static size_t
count_processors(void)
{
#ifdef CPU_COUNT
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return YKI_MAX((size_t)CPU_COUNT(&set), (size_t)1);
#endif
    return 1;
}

/* Images to decode, which threads take one by one. */
typedef struct work {
    const images *set;
    const int64_t *indices;
    size_t count;
    uint8_t *out; /* NULL: only whether they can be decoded */
    char **bad;   /* if not NULL, what is damaged is no failure, but its sentence is put here */
    pthread_mutex_t lock;
    size_t next, failed; /* the first that failed; `count`: none */
    yoke_status status;
    char *detail;
} work;

static size_t
take(work *w)
{
    size_t next;

    pthread_mutex_lock(&w->lock);
    next = w->next < w->failed ? w->next++ : w->count;
    pthread_mutex_unlock(&w->lock);
    return next;
}

static void
note(work *w, size_t i, yoke_status status)
{
    pthread_mutex_lock(&w->lock);
    if (w->bad && status == YOKE_ERROR_FORMAT &&
        (w->bad[i] = yki_strdup(yoke_last_error(), "an error"))) {
        pthread_mutex_unlock(&w->lock);
        return;
    }
    if (i < w->failed) {
        yki_free(w->detail);
        w->detail = yki_strdup(yoke_last_error(), "an error");
        w->status = status;
        w->failed = i;
    }
    pthread_mutex_unlock(&w->lock);
}

static void
run(void *argument)
{
    work *w = argument;
    const images *set = w->set;
    const size_t size = (size_t)set->channels * set->height * set->width;
    decoding d = {.resize = {set->height, set->width, set->channels}};
    uint8_t *spare = w->out ? NULL : yki_alloc(1, size, "an image");
    yki_image image;

    for (size_t i = take(w); i < w->count; i = take(w)) {
        uint8_t *out = w->out ? w->out + i * size : spare;
        yoke_status status =
            out ? decode_file(&d, set->list.paths[w->indices ? w->indices[i] : (int64_t)i], &image,
                              out)
                : YOKE_ERROR_OUT_OF_MEMORY;

        if (status != YOKE_OK)
            note(w, i, status);
    }
    yki_free(spare);
    decoding_clear(&d);
}

/* Does the work in this thread and in others. If they cannot be started, this one does it alone. */
static yoke_status
run_all(work *w)
{
    yki_thread *threads[MOST_THREADS] = {NULL};
    size_t count = YKI_MIN(YKI_MIN(count_processors(), (size_t)MOST_THREADS), w->count);

    w->failed = w->count;
    pthread_mutex_init(&w->lock, NULL);
    for (size_t i = 1; i < count; i++)
        if (yki_thread_start(run, w, "that decodes images", &threads[i]) != YOKE_OK)
            break;
    run(w);
    for (size_t i = 1; i < count; i++)
        yki_thread_join(threads[i]);
    pthread_mutex_destroy(&w->lock);
    if (w->detail)
        yki_set_detail(w->detail);
    yki_free(w->detail);
    return w->status;
}

/* ---- the dataset ---- */

static yoke_status
images_read(void *self, size_t field, const int64_t *indices, size_t count, void *out)
{
    const images *set = self;

    if (field == 0)
        return run_all(&(work){.set = set, .indices = indices, .count = count, .out = out});
    for (size_t i = 0; i < count; i++)
        ((int32_t *)out)[i] = set->list.labels[indices[i]];
    return YOKE_OK;
}

static void
images_destroy(void *self)
{
    images *set = self;

    yki_image_list_clear(&set->list);
    yki_free(set);
}

static const char *
images_name(void *self, int64_t index)
{
    const images *set = self;

    return set->list.paths[index];
}

static const yki_sample_source images_source = {images_read, images_destroy, AT_ONCE, NULL,
                                                images_name};

static yoke_status
check_options(const yoke_dataset_open_options *o)
{
    if (o->image_height < 0 || o->image_height > YKI_IMAGE_MOST_RESULT)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "image_height", o->image_height, 0,
                              YKI_IMAGE_MOST_RESULT);
    if (o->image_width < 0 || o->image_width > YKI_IMAGE_MOST_RESULT)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "image_width", o->image_width, 0,
                              YKI_IMAGE_MOST_RESULT);
    if (o->image_channels != 0 && o->image_channels != 1 && o->image_channels != 3)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "image_channels is %d; must be 0, 1 or 3",
                        (int)o->image_channels);
    return YOKE_OK;
}

/* The size that is not given is that of the first image; of those that may be bad, of the first
 * whose header is not. */
static yoke_status
choose_size(images *set, const yoke_dataset_open_options *o)
{
    decoding d = {.capacity = 0};
    yki_image image = {0};
    yoke_status status = YOKE_OK;

    YKI_TRY(check_options(o));
    if (!o->image_height || !o->image_width || !o->image_channels)
        for (size_t i = 0; i < set->list.count; i++) {
            status = decode_file(&d, set->list.paths[i], &image, NULL);
            if (status != YOKE_ERROR_FORMAT || !o->skip_bad_images)
                break;
        }
    decoding_clear(&d);
    if (status == YOKE_ERROR_FORMAT && o->skip_bad_images)
        image = (yki_image){.width = 1, .height = 1, .channels = 1}; /* all will be left out */
    else
        YKI_TRY(status);
    set->height = o->image_height ? (uint32_t)o->image_height : image.height;
    set->width = o->image_width ? (uint32_t)o->image_width : image.width;
    set->channels = o->image_channels ? (uint32_t)o->image_channels : image.channels;
    if (set->height > YKI_IMAGE_MOST_RESULT || set->width > YKI_IMAGE_MOST_RESULT)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has %u x %u pixels; samples must have at most %d a side: give their "
                        "size",
                        image.name, (unsigned)image.width, (unsigned)image.height,
                        YKI_IMAGE_MOST_RESULT);
    return YOKE_OK;
}

/* Decodes all images, and drops those that are damaged, each with a warning. */
static yoke_status
drop_bad(images *set)
{
    yki_image_list *l = &set->list;
    char **bad = yki_alloc(l->count, sizeof *bad, "which images are damaged");
    const size_t all = l->count;
    yoke_status status;

    if (!bad)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = run_all(&(work){.set = set, .count = all, .bad = bad});
    l->count = 0;
    for (size_t i = 0; i < all; i++) {
        char *path = l->paths[i];

        if (bad[i]) {
            yki_log(YOKE_LOG_WARNING, "left out: %s", bad[i]);
            yki_free(bad[i]);
            yki_free(path);
            continue;
        }
        l->labels[l->count] = l->labels[i];
        l->paths[l->count++] = path;
    }
    yki_free(bad);
    YKI_TRY(status);
    if (l->count)
        return YOKE_OK;
    return yki_fail(YOKE_ERROR_FORMAT,
                    "none of the %zu images can be decoded; the warnings say why", all);
}

static yoke_status
prepare(images *set, const yoke_dataset_open_options *o)
{
    YKI_TRY(choose_size(set, o));
    return o->skip_bad_images ? drop_bad(set) : YOKE_OK;
}

yoke_status
yki_images_make(yki_image_list *list, const yoke_dataset_open_options *o, yoke_dataset **out)
{
    images *set = yki_alloc(1, sizeof *set, "a dataset of images");
    yoke_dataset *dataset;
    yoke_field fields[2];
    yoke_status status;

    if (!set) {
        yki_image_list_clear(list);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    set->list = *list;
    set->labelled = list->labels[0] >= 0;
    status = prepare(set, o);
    if (status != YOKE_OK) {
        images_destroy(set);
        return status;
    }
    fields[0] = (yoke_field){.name = o->data_name ? o->data_name : "image",
                             .type = YOKE_U8,
                             .shape = yoke_shape(set->channels, set->height, set->width)};
    fields[1] = (yoke_field){
        .name = o->target_name ? o->target_name : "label", .type = YOKE_I32, .shape = yoke_shape()};
    YKI_TRY(yki_dataset_make((int64_t)set->list.count, fields, set->labelled ? 2 : 1,
                             &images_source, set, &dataset));
    dataset->ahead = AT_ONCE * count_processors();
    if (set->labelled)
        status = yoke_dataset_set_class_names(dataset, (const char *const *)set->list.classes,
                                              set->list.class_count);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return YOKE_OK;
}
