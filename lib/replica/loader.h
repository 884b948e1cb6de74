/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.h - a loader brings samples of a dataset into the inputs of a plan, on one
 * device.
 */
#ifndef YKI_LOADER_H
#define YKI_LOADER_H

#include "data/dataset.h"
#include "device/device.h"

typedef struct yki_loader yki_loader;

/* The `resident_limit` with which a loader keeps nothing on the device. */
#define YKI_FEED_STREAM 1u

typedef struct yki_loader_options {
    uint32_t seed;      /* of flips, shifts and noise */
    bool training;      /* samples are augmented */
    bool allow_missing; /* an input without a field is an error only when it is asked for */
    /* Bytes of the dataset to keep on the device, at most. 0: a quarter of its memory, or of what
     * its quota leaves. */
    uint64_t resident_limit;
    /* A loader of the same dataset and graph on another device, or NULL. The new loader does not
     * check again what the twin has checked. If both devices share memory, the data is kept there
     * once. The twin, and the twin of that one, must exist while the new loader is made, not
     * afterwards. */
    const yki_loader *twin;
    /* Whether an input is wanted on this device; NULL: all are. Of others nothing is checked.
     * Called when the loader is made. */
    bool (*reads)(void *user, const yoke_node *input);
    void *user;
} yki_loader_options;

/* Matches the dataset's fields with the graph's inputs, checks labels, copies the fields that fit
 * to the device, and compiles kernels. Retains the device and the dataset; copies the dataset's
 * present scaling and augmentation. Needs the graph only during the call. Waits. */
yoke_status yki_loader_create(yoke_device *device, yoke_dataset *dataset, const yoke_graph *graph,
                              int64_t max_batch, const yki_loader_options *options,
                              yki_loader **loader);
/* Waits for the batches that were enqueued, so call it before their queue is destroyed. NULL is
 * fine. */
void yki_loader_destroy(yki_loader *loader);

typedef struct yki_samples {
    const int64_t *indices; /* n of them; may be reused when the call returns */
    int64_t n;
    uint32_t epoch;
    yki_prefetch *ahead; /* a thread that has read some of them; NULL: there is none */
    int64_t position;    /* of the first sample in the order of `ahead` */
} yki_samples;

/* Enqueues on `queue`, of the same space, the copy of the samples into inputs[i], the buffer of the
 * graph's i-th node of role input (NULL: not wanted). Reads the rows that are not on the device, or
 * waits until `ahead` has read them. Also waits if four batches are under way. */
yoke_status yki_loader_load(yki_loader *loader, yki_queue *queue, const yki_samples *samples,
                            yki_buffer *const *inputs);
/* Tests only: gives the bytes of the dataset that the graph wants, and how many of them are on the
 * device. */
void yki_loader_resident(const yki_loader *loader, uint64_t *resident, uint64_t *all);
/* Returns the rows of a sample of each sequence that it loads; 0: it loads none. */
int64_t yki_loader_length(const yki_loader *loader);
/* Whether rows of the field are copied to the device batch by batch. */
bool yki_loader_streams(const yki_loader *loader, size_t field);

/* The queue by which rows are copied to the device; NULL: they go another way. */
yki_queue *yki_loader_transfer(const yki_loader *loader);

/* ---- match_fields.c ---- */

/* Finds the field for each of the graph's inputs, -1: none. `fields` has room for `count`, the
 * number of inputs. Matches by name, else by shape and type if only one match is possible. An input
 * that the options want and that has no field is an error unless they allow that; NULL: they do. */
yoke_status yki_fields_match(const yoke_dataset *dataset, const yoke_graph *graph,
                             const yki_loader_options *options, int *fields, size_t count);
/* The graph's nodes of role input: their number, and the node at an index (NULL: none there). */
size_t yki_loader_input_count(const yoke_graph *graph);
const yoke_node *yki_loader_get_input(const yoke_graph *graph, size_t index);
/* Whether the field's images are larger than the input, so that they would have to be cropped. */
bool yki_field_is_cut(const yoke_field *field, const yoke_node *node);
/* Makes evaluations cut images that are larger than the input from their middle, as those are that
 * training cut at random. */
yoke_status yki_dataset_cut(yoke_dataset *dataset, const yoke_graph *graph);
/* Checks that the input takes every value of the field; the error names the first sample that is
 * wrong. Reads all values. */
yoke_status yki_field_check_labels(const yoke_dataset *dataset, size_t field,
                                   const yoke_node *node);

#endif
