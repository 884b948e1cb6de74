/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.h - samples of a dataset on their way into the inputs of a plan, for one
 * device.
 */
#ifndef YKI_FEED_H
#define YKI_FEED_H

#include "data/dataset.h"
#include "device/device.h"

typedef struct yki_feed yki_feed;

/* `resident_limit` of a feed that keeps nothing on the device. */
#define YKI_FEED_STREAM 1u

typedef struct yki_feed_options {
    uint32_t seed;      /* of flips, shifts and noise */
    bool training;      /* samples are augmented */
    bool allow_missing; /* inputs without a field are an error only when they are fed */
    /* Bytes of the dataset kept on the device; 0: a quarter of its memory. */
    uint64_t resident_limit;
    /* A feed of the same dataset and graph on another device, or NULL: what it checked is not
     * checked again, and what stays in memory that both devices share is there once. It, and the
     * twin that it was made with, have to be there while the new one is made, not afterwards. */
    const yki_feed *twin;
    /* Whether an input is wanted on this device; NULL: all are. Asked when the feed is made. */
    bool (*reads)(void *user, const yoke_node *input);
    void *user;
} yki_feed_options;

/* Matches fields with the graph's inputs, checks labels, brings what fits to the device, compiles.
 * Keeps the device and the dataset; scaling and augmentation are what they are now. Waits. */
yoke_status yki_feed_create(yoke_device *device, yoke_dataset *dataset, const yoke_graph *graph,
                            int64_t max_batch, const yki_feed_options *options, yki_feed **feed);
/* Waits for the batches that were enqueued, so before their queue is destroyed. NULL is fine. */
void yki_feed_destroy(yki_feed *feed);

typedef struct yki_samples {
    const int64_t *indices; /* n; may be reused when the call returns */
    int64_t n;
    uint32_t epoch;
    yki_ahead *ahead; /* has read some of them; NULL: nobody has */
    int64_t position; /* of the first one, in its order */
} yki_samples;

/* Enqueues on `queue`, of the same space: samples into inputs[i], the buffer of the graph's i-th
 * node of role input (NULL: not wanted). Waits for what is read ahead, and when more than a few
 * batches are under way. */
yoke_status yki_feed_batch(yki_feed *feed, yki_queue *queue, const yki_samples *samples,
                           yki_buffer *const *inputs);
/* Bytes of the dataset that are on the device, of those that the graph wants. */
void yki_feed_resident(const yki_feed *feed, uint64_t *resident, uint64_t *all);
/* Rows of the field come to the device batch by batch. */
bool yki_feed_streams(const yki_feed *feed, size_t field);

/* ---- match_fields.c ---- */

/* The field for each of the graph's inputs, -1: none. `fields` has room for `count`, the number of
 * inputs. By name; else, if there is exactly one way, by shape and type. */
yoke_status yki_feed_match(const yoke_dataset *dataset, const yoke_graph *graph, bool allow_missing,
                           int *fields, size_t count);
size_t yki_feed_input_count(const yoke_graph *graph);
const yoke_node *yki_feed_get_input(const yoke_graph *graph, size_t index);
/* The field's images have to be cut to be the input's. */
bool yki_feed_is_cut(const yoke_field *field, const yoke_node *node);
/* Every value of the field is one that the input takes; else the sample is named. Reads them all.
 */
yoke_status yki_feed_check_labels(const yoke_dataset *dataset, size_t field, const yoke_node *node);

#endif
