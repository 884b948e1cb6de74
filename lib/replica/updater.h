/* SPDX-License-Identifier: Apache-2.0
 *
 * updater.h - training on one device and, above it, on many.
 */
#ifndef YKI_TRAIN_H
#define YKI_TRAIN_H

#include "plan/plan.h"

/* ---- updater (updater.c): the launches of an optimizer over the buckets of a device ---- */

typedef struct yki_updater yki_updater;

typedef struct yki_updater_options {
    yoke_optimizer optimizer;
    const yoke_parameter_group *groups;
    size_t group_count;
    float clip_norm, clip_value;
    uint32_t owner, owners; /* of buckets: `owner`, `owner` + `owners`, ...; owners 0: all */
    yki_buffer *norm_parts; /* for all buckets, shared by the owners; lent; NULL: its own */
} yki_updater_options;

/* `loss` is the buffer of (sum, count) over the whole batch; `step` that of the step values. */
yoke_status yki_updater_create(yki_weights *weights, yki_queue *queue, yki_buffer *loss,
                               yki_buffer *step, const yki_updater_options *options,
                               yki_updater **updater);
void yki_updater_destroy(yki_updater *updater);
/* Optimizer state back to zero. */
yoke_status yki_updater_reset(yki_updater *updater);
/* Enqueues count, norm (if wanted) and the update of every bucket it owns. */
yoke_status yki_updater_enqueue(yki_updater *updater);
/* The same in two parts: between them every owner's norms have to be complete. */
yoke_status yki_updater_enqueue_count(yki_updater *updater); /* is part of the norms */
yoke_status yki_updater_enqueue_norms(yki_updater *updater);
/* On a queue of the same space. After a failure it goes on where it stopped, if it is called again:
 * an update that was begun can be completed by another queue. */
yoke_status yki_updater_enqueue_updates(yki_updater *updater, yki_queue *queue);
/* Whether there are norms to be exchanged. */
bool yki_updater_wants_norm(const yki_updater *updater);
/* Floats that norm_parts holds. */
size_t yki_updater_norm_count(const yki_weights *weights);
/* The buffer of partial norms, and where a bucket's are (bytes): for those who own others. */
yki_buffer *yki_updater_norms(const yki_updater *updater, size_t bucket, uint64_t *offset,
                              uint64_t *size);
void yki_updater_set_rate(yki_updater *updater, float learning_rate);
/* After nodes were frozen or are trained again. Waits. */
yoke_status yki_updater_refresh(yki_updater *updater);
/* The host's part of the step values for step `step` (from 1). */
void yki_updater_fill(const yki_updater *updater, uint32_t step, float rate_factor,
                      yki_step_values *values);
/* State buffers of a bucket, for checkpoints; NULL where the optimizer keeps none. */
yki_buffer *yki_updater_state(const yki_updater *updater, size_t bucket, unsigned which);

#endif
