/* SPDX-License-Identifier: Apache-2.0
 *
 * dataset.h - samples by number, for whoever trains on them.
 *
 * A dataset is a count, fields, and one function that copies fields of samples to host memory.
 * Files, callbacks, splits and subsets are sources behind that function. Nothing here knows a
 * device. Scaling and augmentation are stored beside the samples and applied on the device
 * (replica/loader.c).
 */
#ifndef YKI_DATASET_H
#define YKI_DATASET_H

#include "device/trace.h"
#include "graph/graph.h"

enum { YKI_MAX_FIELDS = 8 };

/* A source of samples; one const table for each kind. */
typedef struct yki_sample_source {
    /* Copies field `field` of these samples to `out`, one after another. Several threads may call
     * it at once. */
    yoke_status (*read)(void *self, size_t field, const int64_t *indices, size_t count, void *out);
    void (*destroy)(void *self);
    /* Samples that are best read at once, ahead of their use; 0: reading is a copy of memory. */
    size_t ahead;
    /* An epoch of training begins, nobody reads: returns whether the samples are others now. NULL:
     * they never are. */
    bool (*begin)(void *self, uint32_t seed, uint32_t epoch);
    /* Lends the name of the file of a sample. NULL: samples have no files of their own. */
    const char *(*name)(void *self, int64_t index);
} yki_sample_source;

struct yoke_dataset {
    atomic_int references;
    int64_t count;
    yoke_field fields[YKI_MAX_FIELDS]; /* names are owned; data is set if all of it is in memory */
    size_t field_count;
    const yki_sample_source *source;
    void *self;
    /* By field: a device computes (x - mean) * scale from u8 or f32, with one mean and scale for
     * each entry of the first axis (channel or column), or one for all. Count 0: u8 becomes x /
     * 255, floats stay. */
    struct yki_scaling {
        size_t count;
        float *mean, *scale; /* owned */
    } scaling[YKI_MAX_FIELDS];
    /* Random changes to training samples, by sample number and epoch, of one field of images (C, H,
     * W). */
    struct yki_augmentation {
        size_t field;
        bool flip;
        int32_t shift;    /* at most so many pixels each way; zeros move in */
        bool crop;        /* to the input's size: at random in training, else from the middle */
        float noise;      /* standard deviation; added after scaling */
        float shift_part; /* of the samples that shift moves in an epoch; 0: all */
    } augmentation;
    /* Every change of scaling or augmentation increments it. What was made for an older version is
     * stale. */
    uint64_t version;
    size_t ahead;       /* that of the source; 0 also if no thread may read ahead */
    char **class_names; /* owned; NULL: unknown */
    size_t class_count;
    char *encoding; /* of a table's columns, as JSON (data/encoding.h); owned; NULL: none */
    /* Of a text: */
    yoke_tokenizer *tokenizer; /* retained; NULL: unknown */
    int64_t vocabulary;        /* 0: no text */
    int64_t text_tokens;       /* that all windows predict */
    int64_t text_bytes;        /* of these tokens; 0: unknown */
};

/* Makes a dataset of a source. It owns `self` from here on: also on failure `self` is destroyed.
 * Checks count and fields, and copies their names. */
yoke_status yki_dataset_make(int64_t count, const yoke_field *fields, size_t field_count,
                             const yki_sample_source *source, void *self, yoke_dataset **dataset);
/* Copies scaling, augmentation and class names from a dataset with the same fields. */
yoke_status yki_dataset_copy_settings(yoke_dataset *dataset, const yoke_dataset *from);
yoke_dataset *yki_dataset_retain(yoke_dataset *dataset);
yoke_tokenizer *yki_tokenizer_retain(yoke_tokenizer *tokenizer); /* (tokenizer.c) */
/* Bytes of a field of one sample. */
size_t yki_field_size(const yoke_field *field);
/* Copies field `field` of these samples to `out`. Any thread may call it. */
yoke_status yki_dataset_read(const yoke_dataset *dataset, size_t field, const int64_t *indices,
                             size_t count, void *out);
/* Tells that an epoch of training begins, so that samples may change with it. */
void yki_dataset_begin_epoch(yoke_dataset *dataset, uint32_t seed, uint32_t epoch);
/* Finds a field by name and returns its number; -1: there is none. */
int yki_dataset_find(const yoke_dataset *dataset, const char *name);

/* The order of an epoch: a permutation of 0 .. count - 1 that is a function of seed and epoch
 * (order.c). It is computed position by position, so every process finds its samples alone. */
typedef struct yki_order {
    uint64_t count;
    uint32_t seed, epoch;
    bool sequential;
} yki_order;
int64_t yki_order_at(const yki_order *order, int64_t position);

/* ---- prefetch.c: a thread that reads samples of an epoch before they are wanted ---- */

typedef struct yki_prefetch yki_prefetch;

/* Starts the thread. It reads those of the YKI_MAX_FIELDS `fields` that are true. Retains the
 * dataset. */
yoke_status yki_prefetch_create(yoke_dataset *dataset, const yki_order *order, const bool *fields,
                                yki_prefetch **ahead);
/* Records on this track what the thread reads, from the next range on; NULL: nowhere any more. */
void yki_prefetch_trace(yki_prefetch *ahead, yki_track *track);
/* Waits until the sample that is being read is finished, and stops the thread. NULL is fine. */
void yki_prefetch_destroy(yki_prefetch *ahead);
/* Announces that positions [first, first + count) of the order will be wanted, after all that were
 * asked for before. Never waits. */
yoke_status yki_prefetch_ask(yki_prefetch *ahead, int64_t first, int64_t count);
/* Copies a field of the samples from `position` on to `out`; `indices` are their numbers. Gives the
 * same as yki_dataset_read, including errors. Waits for samples that the thread is reading. Ranges
 * that end before `position` are forgotten. */
yoke_status yki_prefetch_read(yki_prefetch *ahead, int64_t position, size_t field,
                              const int64_t *indices, size_t count, void *out);

#endif
