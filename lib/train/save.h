/* SPDX-License-Identifier: Apache-2.0
 *
 * save.h - what saving weights and saving checkpoints share.
 */
#ifndef YKI_SAVE_H
#define YKI_SAVE_H

#include "data/weights_file.h"
#include "train/trainer.h"

/* Fills in the input data, scaling and class names of the dataset that the trainer was fitted to,
 * or the graph's defaults if there was none. The caller clears `info`. */
yoke_status yki_trainer_info(const yoke_trainer *trainer, yki_model_info *info);
/* Every process calls it and returns the status of rank 0, with its error detail. Where another
 * rank has failed, training ends, as all go on together. */
yoke_status yki_trainer_agree(yoke_trainer *trainer, yoke_status status);

#endif
