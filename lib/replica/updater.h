/* SPDX-License-Identifier: Apache-2.0
 *
 * updater.h - the optimizer of one device.
 */
#ifndef YKI_TRAIN_H
#define YKI_TRAIN_H

#include "plan/plan.h"
#include "shares/ranges.h"

/* ---- updater.c: the launches of an optimizer over the buckets of a device ---- */

typedef struct yki_updater yki_updater;

typedef struct yki_updater_options {
    yoke_optimizer optimizer;
    const yoke_parameter_group *groups;
    size_t group_count;
    float clip_norm, clip_value;
    uint32_t owner, owners;   /* owns buckets `owner`, `owner` + `owners`, ...; owners 0: all */
    const yki_ranges *ranges; /* it owns what `shard` has of these buckets; lent; NULL: all */
    size_t shard;
    bool divides;           /* it has gradients of those alone, which others write */
    yki_buffer *norm_parts; /* partial norms of all buckets, of all owners; lent; NULL: its own */
    bool settle;            /* what devices do differently comes out alike (clkernels/exact.cl) */
    float average;          /* decay of a moving average of the weights; 0: none is kept */
} yki_updater_options;

/* Makes an updater with its state at zero. Retains the weights; queue and buffers are lent. `loss`
 * has (sum, count) of the whole batch, `step` the step values. options->groups is copied. */
yoke_status yki_updater_create(yki_weights *weights, yki_queue *queue, yki_buffer *loss,
                               yki_buffer *step, const yki_updater_options *options,
                               yki_updater **updater);
void yki_updater_destroy(yki_updater *updater);
/* Sets the optimizer's state to zero. */
yoke_status yki_updater_reset(yki_updater *updater);
/* Enqueues the whole update: the count, the norms if wanted, and each bucket that it owns. */
yoke_status yki_updater_enqueue(yki_updater *updater);
/* Enqueues the step values that follow from the loss: the inverse of its count, and whether there
 * is an update at all (the loss is finite, the count above 0). yki_updater_enqueue_norms includes
 * it where it needs a launch of its own. */
yoke_status yki_updater_enqueue_count(yki_updater *updater);
/* Enqueues the first half of an update, the partial norms of the buckets that it owns. Those of all
 * owners must be complete before the second half. */
yoke_status yki_updater_enqueue_norms(yki_updater *updater);
/* With parts of gradients: does the first half for the bucket whose gradients a plan's memory holds
 * now, and copies from there what it owns. yki_updater_enqueue_norms then does the rest. */
yoke_status yki_updater_enqueue_norm(yki_updater *updater, size_t bucket);
/* Enqueues the second half, on any queue of the same space. Called again after a failure, it goes
 * on where it stopped: another queue can complete an update. */
yoke_status yki_updater_enqueue_updates(yki_updater *updater, yki_queue *queue);
/* Whether the update clips by norm, so that owners have to exchange their norms. */
bool yki_updater_wants_norm(const yki_updater *updater);
/* The size of norm_parts, in floats. */
size_t yki_updater_norm_count(const yki_weights *weights);
/* Returns the buffer of partial norms, lent, and where a bucket's are in it, in bytes. */
yki_buffer *yki_updater_norms(const yki_updater *updater, size_t bucket, uint64_t *offset,
                              uint64_t *size);
/* Sets the learning rate from the next yki_updater_fill on. */
void yki_updater_set_rate(yki_updater *updater, float learning_rate);
/* Adapts the launches after nodes were frozen or unfrozen. Waits. */
yoke_status yki_updater_refresh(yki_updater *updater);
/* Fills in the step values that depend on the optimizer, for step `step` (from 1). */
void yki_updater_fill(const yki_updater *updater, uint32_t step, float rate_factor,
                      yki_step_values *values);
/* Enqueues that the weights that it owns and their average take each other's places. Packed copies
 * of the weights are then stale, those of other members too. */
yoke_status yki_updater_exchange(yki_updater *updater);
/* Returns state buffer `which` (0 or 1; 2 is the average) of what it owns of a bucket, `range`,
 * lent, for checkpoints; NULL if the optimizer keeps none, or it owns nothing. */
yki_buffer *yki_updater_state(const yki_updater *updater, size_t bucket, unsigned which,
                              yki_range *range);
/* Returns what it owns of a bucket's gradients, lent; NULL if it owns nothing, or has them whole.
 */
yki_buffer *yki_updater_gradients(const yki_updater *updater, size_t bucket);
/* Returns what it owns of a bucket's values where weights are divided, lent; else NULL. */
yki_buffer *yki_updater_values(const yki_updater *updater, size_t bucket, yki_range *range);
/* Whether there is such a state, of any bucket. */
bool yki_updater_keeps(const yki_updater *updater, unsigned which);
/* The bytes of all state that it has. */
uint64_t yki_updater_state_bytes(const yki_updater *updater);
/* The number of states that there are for each parameter. */
size_t yki_updater_states(const yki_updater_options *options);

#endif
