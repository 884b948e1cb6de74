/* SPDX-License-Identifier: Apache-2.0
 *
 * capacity.h - the largest batches that a trainer's devices would hold; see capacity.c.
 */
#ifndef YKI_CAPACITY_H
#define YKI_CAPACITY_H

#include "train/trainer.h"

/* Samples at once for which device number `device` of this process could have been made; not of a
 * graph with places. */
yoke_status yki_trainer_capacity(const yoke_trainer *trainer, size_t device, int64_t *samples);
/* The batch that the team could have, with shares as they are; all devices are this process's. */
yoke_status yki_trainer_largest_batch(const yoke_trainer *trainer, int64_t *batch);
yoke_status yki_trainer_explain_memory(const yoke_trainer *trainer,
                                       void (*line)(void *user, const char *text), void *user);

#endif
