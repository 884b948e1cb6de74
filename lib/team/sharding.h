/* SPDX-License-Identifier: Apache-2.0
 *
 * sharding.h - a crew in which each group keeps a part of the optimizer's state.
 */
#ifndef YKI_SHARDING_H
#define YKI_SHARDING_H

#include "team/crew.h"

/* Returns a plan of a member that takes part in a section: the one with this number; NULL: it has
 * no more. */
typedef yki_plan *yki_plan_of(const yki_member *member, size_t index);

/* Fills in the options of member k's replica. */
typedef void yki_describe(const yki_crew *crew, size_t k, const yki_crew_options *options,
                          yoke_replica_options *o, yki_replica_in_team *in_team);

enum {
    YKI_SHARDED_VALUES = -1,
    YKI_SHARDING_LAG = 2 /* buckets that devices have to compute while the host takes one */
};

/* What every process learns of each device of the team. */
typedef struct yki_shard_row {
    int32_t rank, group;
    uint64_t left;                          /* bytes of memory, of the whole group */
    uint64_t own;                           /* of this device */
    uint64_t whole[YOKE_SHARD_WEIGHTS + 1]; /* by level: bytes of this device that nobody shares */
    uint64_t data; /* that evaluations must have besides if samples stay on the device: those may
                      take a quarter of what is left, twice (replica/loader.c) */
    uint64_t rest[YOKE_SHARD_WEIGHTS + 1]; /* by level: of these, other ones than of its plans */
    bool meets;                            /* its plans keep to the budget that is tried */
} yki_shard_row;

/* Decides what is divided: as the options say; or, if they leave it to yoke, as little as the
 * memory of all devices allows; and whether plans compute again, within crew->budgets. Fails with
 * YOKE_ERROR_OUT_OF_DEVICE_MEMORY, in all processes, if there are options->fitting and nothing
 * seems to fit. All processes call it, before replicas are made. (shard_level.c) */
yoke_status yki_sharding_choose(yki_crew *crew, const yki_crew_options *options,
                                yki_describe *describe);
/* The name of a level, as in --shard. */
const char *yki_sharding_name(yoke_shard_choice level);
/* A row of member k, without whole[]. */
yki_shard_row yki_sharding_row(const yki_crew *crew, size_t k);
/* Numbers the groups of all processes: that of each device in owners[]. Returns how many. */
size_t yki_sharding_number(const yki_shard_row *rows, size_t total, size_t *owners);
/* Makes the table of ranges: by the memory that is left now, or by `by`, a text with a weight for
 * each device of the whole team; NULL or "auto": by memory. `halves` is the state that the
 * optimizer keeps of a parameter (yki_updater_halves). Fails, in all processes, if an owner has no
 * memory for its part. All processes call it. yki_sharding_destroy frees what was made. */
yoke_status yki_sharding_create(yki_crew *crew, const char *by, size_t halves);
/* Makes the rest, once the crew knows its buckets and its updaters. */
yoke_status yki_sharding_connect(yki_crew *crew);
/* Where gradients are divided: makes the memory of the host through which buckets go, and checks
 * that no plan uses that of a bucket again before the host has taken the gradients. */
yoke_status yki_sharding_make_transit(yki_crew *crew);
/* Zeros are fine. */
void yki_sharding_destroy(yki_crew *crew);

/* The part of a bucket's gradients that arrives here from the other processes, in bytes as they
 * travel: that of this process's owners, or all. */
yki_range yki_sharding_piece(const yki_crew *crew, size_t bucket);
/* Starts the sum of a bucket over all processes, of which each gets its piece, in place. */
yoke_status yki_sharding_scatter(yki_crew *crew, size_t bucket, int32_t type);
/* Where gradients are divided: gives the groups of this process their parts of a bucket's sum. If
 * the update clips by norm, enqueues that, and `sum` stays until it is done. */
yoke_status yki_sharding_deliver(yki_crew *crew, size_t bucket, const char *sum);
/* Gives all groups of all processes the weights that others have updated. All queues are done, so
 * that nobody reads weights. Waits. All processes call it. */
yoke_status yki_sharding_share(yki_crew *crew);
/* Gathers the weights or a state (as yki_updater_state numbers them) of a bucket on each process:
 * the whole bucket, lent until the next exchange. All queues are done. All processes call it, for
 * the same buckets: weights that this function gathered last, and that have not changed, are not
 * gathered again. */
yoke_status yki_sharding_gather(yki_crew *crew, size_t bucket, int which, const float **values);

/* Where weights are divided (without that nothing is done): */

/* Writes the initial values of the groups of this process. */
yoke_status yki_sharding_initialize(yki_crew *crew, uint32_t seed);
/* At a stop: gathers the weights of a bucket, and enqueues their way to all plans. All processes
 * call it. */
yoke_status yki_sharding_bring(yki_crew *crew, size_t bucket, size_t stop, yki_plan_of *plan_of);
/* The training plan of a member. */
yki_plan *yki_training_of(const yki_member *member, size_t index);
/* Reads the values of a parameter that is divided. All processes call it, without a step under way.
 */
yoke_status yki_sharding_read(yki_crew *crew, const yki_weight *weight, float *values);
/* Writes what this process has of them. */
yoke_status yki_sharding_write(yki_crew *crew, const yki_weight *weight, const float *values);
/* Ends what a failure has left under way. */
void yki_sharding_end_gathers(yki_crew *crew);

/* Tells how much each owner has, if there are shards. */
void yki_sharding_explain(const yki_crew *crew, const yki_teller *to);

#endif
