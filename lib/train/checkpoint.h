/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - everything that training goes on from, in a folder of files.
 */
#ifndef YKI_CHECKPOINT_H
#define YKI_CHECKPOINT_H

#include "train/trainer.h"

/* The text in a file that makes it a checkpoint. */
#define YKI_STATE_KEY "yoke.state"

/* Where fit is: what the trainer itself does not know. */
typedef struct yki_progress {
    int64_t position; /* samples of the epoch that were trained */
    int64_t count;    /* of the dataset: the order of an epoch depends on it */
    bool sequential;
    bool keep_rate, same_seed; /* yoke_fit_options, for yki_checkpoint_resume */
    int64_t samples;           /* and sums of the epoch so far, for its history */
    double sums[2 * YKI_PAIRS];
    double seconds;      /* that it took so far */
    double *device_sums; /* (sum, count) of the loss, by device of the whole team; lent */
} yki_progress;

/* Before the first save: the folder is made if it is not there. Checkpoints of later steps than the
 * trainer's are another training's, which is refused. Every process calls these. */
yoke_status yki_checkpoint_begin(yoke_trainer *trainer, const char *dir);
/* Waits for all steps, writes a file, and removes all but the newest `keep` (0: 3). */
yoke_status yki_checkpoint_save(yoke_trainer *trainer, const yki_progress *progress,
                                const char *dir, uint32_t keep);
/* The newest good one, if there is any: `found`. Damaged ones get another name and are told of in
 * the log. `progress` has count and order of the data, and what is asked for, when it is called. */
yoke_status yki_checkpoint_resume(yoke_trainer *trainer, const char *dir, yki_progress *progress,
                                  bool *found);

/* ---- checkpoint_folder.c ---- */

/* Steps of the checkpoints in a folder, newest first; the caller frees them. A folder that is not
 * there has none. */
yoke_status yki_checkpoint_list(const char *dir, int64_t **steps, size_t *count);
/* The file of a step; the caller frees it. */
char *yki_checkpoint_path(const char *dir, int64_t step);
yoke_status yki_checkpoint_make_folder(const char *dir);
/* Removes all but the newest `keep` up to `step`, and what processes left that are no more. */
void yki_checkpoint_prune(const char *dir, int64_t step, uint32_t keep);

#endif
