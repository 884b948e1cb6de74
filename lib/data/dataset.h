/* SPDX-License-Identifier: Apache-2.0
 *
 * dataset.h - samples by number, for what trains on them.
 *
 * A dataset is a count, fields and one function that copies fields of samples to
 * host memory. Files, callbacks, splits and subsets are sources behind that one
 * function; nothing here knows a device. What is done to samples on the way to a
 * device (scaling, augmentation) is data kept beside them, and is done there
 * (train/feed.c).
 */
#ifndef YKI_DATASET_H
#define YKI_DATASET_H

#include "graph/graph.h"

enum { YKI_MAX_FIELDS = 8 };

/* Where samples come from; one const table for each kind. */
typedef struct yki_source {
    /* Field `field` of these samples, one after another. Any thread, several at once. */
    yoke_status (*read)(void *self, size_t field, const int64_t *indices, size_t count, void *out);
    void (*destroy)(void *self);
    bool slow; /* reading is more than a copy of memory */
} yki_source;

struct yoke_dataset {
    atomic_int references;
    int64_t count;
    yoke_field fields[YKI_MAX_FIELDS]; /* names owned; data set where all of it is in memory */
    size_t field_count;
    const yki_source *source;
    void *self;
    /* Per channel or column (first axis; or one): what a device computes from u8 or f32, (x - mean)
     * * scale; by field; counts 0: u8 becomes x / 255, floats stay. */
    struct yki_scaling {
        size_t count;
        float *mean, *scale; /* owned */
    } scaling[YKI_MAX_FIELDS];
    /* Changes to training samples, by sample number and epoch; of one field of images (C, H, W). */
    struct yki_augmentation {
        size_t field;
        bool flip;
        int32_t shift; /* up to so many pixels each way, zeros moved in */
        bool crop;     /* to the input's size: at random, or in the middle when not training */
        float noise;   /* deviation, added after scaling */
    } augmentation;
    /* Goes up with each change of scaling or augmentation: what was made with older ones is stale.
     */
    uint64_t version;
    bool ahead;         /* a thread may read samples before they are wanted, and is worth it */
    char **class_names; /* owned; NULL: unknown */
    size_t class_count;
};

/* A dataset of some source, which it owns from here on, also on failure (`self` is destroyed).
 * Checks count and fields, and copies the names. */
yoke_status yki_dataset_make(int64_t count, const yoke_field *fields, size_t field_count,
                             const yki_source *source, void *self, yoke_dataset **dataset);
/* Scaling, augmentation and class names of another one with the same fields. */
yoke_status yki_dataset_copy_settings(yoke_dataset *dataset, const yoke_dataset *from);
yoke_dataset *yki_dataset_retain(yoke_dataset *dataset);
/* Bytes of a field of one sample. */
size_t yki_field_size(const yoke_field *field);
/* Field `field` of these samples. Any thread. */
yoke_status yki_dataset_read(const yoke_dataset *dataset, size_t field, const int64_t *indices,
                             size_t count, void *out);
/* Number of a field by name; -1: there is none. */
int yki_dataset_find(const yoke_dataset *dataset, const char *name);

/* The order of an epoch: a permutation of 0 .. count - 1 that is a function of seed and epoch
 * (order.c), computed position by position, so every process knows its part alone. */
typedef struct yki_order {
    uint64_t count;
    uint32_t seed, epoch;
    bool sequential;
} yki_order;
int64_t yki_order_at(const yki_order *order, int64_t position);

/* ---- prefetch.c: a thread that reads samples of an epoch before they are wanted ---- */

typedef struct yki_ahead yki_ahead;

/* For those of the YKI_MAX_FIELDS `fields` that are true. Keeps the dataset. */
yoke_status yki_ahead_create(yoke_dataset *dataset, const yki_order *order, const bool *fields,
                             yki_ahead **ahead);
/* When a sample that is being read was read, nothing is any more. NULL is fine. */
void yki_ahead_destroy(yki_ahead *ahead);
/* Positions [first, first + count) of the order will be wanted, behind all that were asked for.
 * Never waits. */
yoke_status yki_ahead_ask(yki_ahead *ahead, int64_t first, int64_t count);
/* A field of the samples at `position` and behind, which are `indices`: as yki_dataset_read gives
 * it, its errors too. What was asked for and lies before `position` is forgotten. */
yoke_status yki_ahead_read(yki_ahead *ahead, int64_t position, size_t field, const int64_t *indices,
                           size_t count, void *out);

#endif
