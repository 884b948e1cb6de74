/* SPDX-License-Identifier: Apache-2.0
 *
 * history.h - the epochs that a trainer has been through.
 */
#ifndef YKI_HISTORY_H
#define YKI_HISTORY_H

#include "data/json.h"
#include "train/trainer.h"

/* A copy of it at the end; `added` (may be NULL) is lent until the next. */
yoke_status yki_history_add(yoke_trainer *trainer, const yoke_epoch *epoch,
                            const yoke_epoch **added);
void yki_history_clear(yoke_trainer *trainer);
/* For checkpoints, and from them; the latter replaces what is there. */
json_t *yki_history_json(const yoke_trainer *trainer);
yoke_status yki_history_take(yoke_trainer *trainer, const json_t *list);
/* Numbers in full, without a locale's comma. take: how many there were, up to `most`. */
json_t *yki_history_numbers(const double *values, size_t count);
size_t yki_history_take_numbers(const json_t *list, double *values, size_t most);

#endif
