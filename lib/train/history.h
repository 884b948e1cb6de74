/* SPDX-License-Identifier: Apache-2.0
 *
 * history.h - the epochs that a trainer has trained.
 */
#ifndef YKI_HISTORY_H
#define YKI_HISTORY_H

#include "data/json.h"
#include "train/trainer.h"

/* Appends a copy of the epoch. `added` (may be NULL) is lent until the next call. */
yoke_status yki_history_add(yoke_trainer *trainer, const yoke_epoch *epoch,
                            const yoke_epoch **added);
void yki_history_clear(yoke_trainer *trainer);
/* Frees those behind the first `count`. */
void yki_history_cut(yoke_trainer *trainer, size_t count);
/* The history as JSON, for a checkpoint; `take` replaces the history by that of a checkpoint. */
json_t *yki_history_json(const yoke_trainer *trainer);
yoke_status yki_history_take(yoke_trainer *trainer, const json_t *list);
/* Write and read numbers with all their digits, with a point in every locale. `take` reads up to
 * `most` of them and returns how many it read. */
json_t *yki_history_numbers(const double *values, size_t count);
size_t yki_history_take_numbers(const json_t *list, double *values, size_t most);

#endif
