/* SPDX-License-Identifier: Apache-2.0
 *
 * capacity.h - the largest batches that fit into the memory of a trainer's devices (capacity.c).
 */
#ifndef YKI_CAPACITY_H
#define YKI_CAPACITY_H

#include "train/trainer.h"

/* Tests only: finds the largest batch of the team with the shares as they are. All devices must
 * belong to this process. */
yoke_status yki_trainer_largest_batch(const yoke_trainer *trainer, int64_t *batch);
/* Tells a line about the memory of each device of this process, and one about the largest batch
 * that fits, if all devices of the team belong to this process and the graph has no places. */
yoke_status yki_trainer_explain_memory(const yoke_trainer *trainer, const yki_teller *to);
/* The members that use the memory of device number `device` of this process: its own, or all its
 * core groups. */
void yki_trainer_members_of(const yoke_trainer *trainer, size_t device, size_t *first, size_t *end);

#endif
