/* SPDX-License-Identifier: Apache-2.0
 *
 * save.h - what saving weights and saving checkpoints share.
 */
#ifndef YKI_SAVE_H
#define YKI_SAVE_H

#include "data/weights_file.h"
#include "train/trainer.h"

/* `user` is the yki_weights of a device: a node's values, waited for. */
yoke_status yki_get_from_device(void *user, const yoke_node *node, float *values);
/* What the data was that the trainer was fitted to. */
yoke_status yki_trainer_info(const yoke_trainer *trainer, yki_model_info *info);
/* Every process returns the status of the first one, and its sentence. */
yoke_status yki_trainer_agree(yoke_trainer *trainer, yoke_status status);

#endif
