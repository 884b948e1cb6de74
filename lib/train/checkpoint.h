/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - files in a folder from which training goes on with the same bits.
 */
#ifndef YKI_CHECKPOINT_H
#define YKI_CHECKPOINT_H

#include "train/trainer.h"

/* The key of the text that makes a file of weights a checkpoint. */
#define YKI_STATE_KEY "yoke.state"

/* How far fit has come: what the trainer itself does not know. */
typedef struct yki_progress {
    int64_t position; /* samples of the epoch that are trained */
    int64_t count;    /* samples of the dataset: the order of an epoch depends on it */
    bool sequential;
    bool keep_rate, same_seed; /* as in yoke_fit_options; read by yki_checkpoint_resume */
    bool keep_best;            /* likewise; read by yki_checkpoint_save */
    int64_t samples;           /* of the epoch so far, as the sums below, for its history */
    double sums[2 * YKI_PAIRS];
    double seconds;      /* that the epoch took so far */
    double *device_sums; /* (sum, count) of the loss, by device of the whole team; lent */
} yki_progress;

/* Every process calls these three. Call `begin` before the first save: it makes the folder if there
 * is none. It fails if the folder has a checkpoint of a later step than the trainer's, because that
 * belongs to another training. */
yoke_status yki_checkpoint_begin(yoke_trainer *trainer, const char *dir);
/* Waits for all steps, compares all replicas, writes a file, and removes all checkpoints but the
 * newest `keep` (0: 3) and, if `keep_best` says so, that of the best epoch. */
yoke_status yki_checkpoint_save(yoke_trainer *trainer, const yki_progress *progress,
                                const char *dir, uint32_t keep);
/* Goes on from the newest good checkpoint. `found` says whether there was one. Damaged ones are
 * renamed and logged. The caller sets count, sequential, keep_rate, same_seed and device_sums of
 * `progress`; the rest is filled in. */
yoke_status yki_checkpoint_resume(yoke_trainer *trainer, const char *dir, yki_progress *progress,
                                  bool *found);

/* ---- checkpoint_folder.c ---- */

/* Lists the steps of the checkpoints in a folder, newest first. The caller frees them. A folder
 * that does not exist has none. */
yoke_status yki_checkpoint_list(const char *dir, int64_t **steps, size_t *count);
/* The path of a step's file; the caller frees it. NULL: no memory. */
char *yki_checkpoint_path(const char *dir, int64_t step);
/* Makes the folder if there is none; its parent must exist. */
yoke_status yki_checkpoint_make_folder(const char *dir);
/* Removes the checkpoints up to `step` except the newest `keep` and that of the step `best` (-1:
 * none), and temporary files of processes that no longer exist. */
void yki_checkpoint_prune(const char *dir, int64_t step, uint32_t keep, int64_t best);
/* Removes the checkpoints of steps after `step`. */
void yki_checkpoint_remove_later(const char *dir, int64_t step);

#endif
