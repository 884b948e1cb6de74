/* SPDX-License-Identifier: Apache-2.0
 *
 * board.h - what TensorBoard shows of a training: --tensorboard.
 */
#ifndef YOKE_TOOLS_BOARD_H
#define YOKE_TOOLS_BOARD_H

#include <yoke.h>

typedef struct yki_tool_board {
    const char *folder; /* NULL: none is wanted */
    yoke_board *board;  /* NULL: this is not rank 0, or it cannot be written any more */
    char why[512];      /* the first failure to write; "": none */
    double flushed;     /* when */
    bool begun;
    const yoke_dataset *samples; /* of whose field `data` some are shown, if they are images */
    const yoke_field *data;
} yki_tool_board;

/* What a step brings beside its result. */
typedef struct yki_tool_board_step {
    const yoke_result *result;
    const char *const *metrics; /* their names */
    double rate;                /* of learning */
    const int64_t *shares;      /* of devices, and their names */
    const char *const *names;
    size_t devices;
} yki_tool_board_step;

/* Rank 0 makes a file in the folder; NULL: none. */
yoke_status yki_tool_board_open(yki_tool_board *board, const char *folder, bool speaks);
/* Rank 0 adds a step. The first one also brings samples. */
void yki_tool_board_add_step(yki_tool_board *board, const yki_tool_board_step *step);
/* All ranks add an epoch, as each of them reads the weights. */
void yki_tool_board_add_epoch(yki_tool_board *board, yoke_trainer *trainer, const yoke_epoch *epoch,
                              const char *const *metrics);
/* Returns `status`, or an error if something could not be written. */
yoke_status yki_tool_board_close(yki_tool_board *board, yoke_status status);

#endif
