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
    bool divides;            /* it has gradients of those alone, which others write */
    yki_buffer *norm_parts;  /* partial norms of all buckets, of all owners; lent; NULL: its own */
    bool settle;             /* what devices do differently comes out alike (clkernels/exact.cl) */
    yoke_state_choice state; /* in what m and v are kept */
    float average;           /* decay of a moving average of the weights; 0: none is kept */
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
/* Enqueues the second half, on any queue of the same memory. Called again after a failure, it goes
 * on where it stopped: another queue can complete an update. For another kind of device it first
 * makes its launches anew, which may compile. */
yoke_status yki_updater_enqueue_updates(yki_updater *updater, yki_queue *queue);
/* Whether a part of the second half was enqueued, and the rest was not. */
bool yki_updater_has_begun(const yki_updater *updater);
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
/* Fills in the step values that depend on the optimizer, for its step `step` (from 1). */
void yki_updater_fill(const yki_updater *updater, uint32_t step, float rate_factor,
                      yki_step_values *values);
/* Enqueues that the weights that it owns and their average take each other's places. Packed copies
 * of the weights are then stale, those of other members too. */
yoke_status yki_updater_exchange(yki_updater *updater);
/* Where a state lies. */
typedef struct yki_state_place {
    yki_buffer *buffer; /* lent; NULL: there is none */
    uint64_t start;     /* where it begins there, in bytes */
    bool small;         /* bfloat16, half as many bytes as those of floats */
} yki_state_place;

/* Finds state `which` (0 or 1; 2 is the average) of what it owns of a bucket, `range`, in bytes of
 * floats; nothing if the optimizer keeps none, or it owns nothing. */
yki_state_place yki_updater_state(const yki_updater *updater, size_t bucket, unsigned which,
                                  yki_range *range);
/* Returns what it owns of a bucket's gradients, lent; NULL if it owns nothing, or has them whole.
 */
yki_buffer *yki_updater_gradients(const yki_updater *updater, size_t bucket);
/* Returns what it owns of a bucket's values where weights are divided, lent; else NULL. */
yki_buffer *yki_updater_values(const yki_updater *updater, size_t bucket, yki_range *range);
/* Whether there is such a state, of any bucket. */
bool yki_updater_keeps(const yki_updater *updater, unsigned which);
/* Returns the options that it was made with, lent. */
const yki_updater_options *yki_updater_get_options(const yki_updater *updater);
/* The bytes of values that it updates. */
uint64_t yki_updater_bytes(const yki_updater *updater);
/* The bytes of all state that it has. */
uint64_t yki_updater_state_bytes(const yki_updater *updater);
/* The state that there is for each parameter, in halves of a float. */
size_t yki_updater_halves(const yki_updater_options *options);

/* ---- state_place.c ---- */

/* The place of what begins `offset` bytes of floats behind another. */
yki_state_place yki_state_behind(yki_state_place place, uint64_t offset);
/* The bytes that so many bytes of floats take there. */
uint64_t yki_state_size(yki_state_place place, uint64_t size);
/* Read a place as floats, `size` bytes of them, or write it; floats are rounded to the nearest.
 * Both wait. */
yoke_status yki_state_get(yki_state_place place, uint64_t size, float *values);
yoke_status yki_state_put(yki_state_place place, uint64_t size, const float *values);

#endif
