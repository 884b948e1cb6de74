/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.h - what a user sees of a running training: the progress line, the log file,
 * the objects of --json; and the signals that stop or save it.
 */
#ifndef YOKE_TOOLS_WATCH_H
#define YOKE_TOOLS_WATCH_H

#include "board.h"
#include "hint.h"
#include "progress.h"
#include "tool.h"

enum { TOOL_MAX_DEVICES = 256 };

typedef struct yki_tool_watch {
    yoke_team *team;
    yoke_trainer *trainer;
    yoke_schedule schedule;
    int64_t batch, samples, epochs; /* `samples` of an epoch */
    int64_t context;                /* tokens of a sample of text; 0: no text */
    bool speaks, json;              /* this is rank 0; it writes objects to standard output */
    bool quiet;                     /* no progress is shown */
    struct {
        FILE *file; /* NULL: none */
        const char *path;
        bool appends, begun;
        int error; /* errno of the first failure */
    } log;

    yki_tool_board board;

    yki_tool_progress progress;
    size_t devices;
    int64_t shares[TOOL_MAX_DEVICES];
    const char *name_list[TOOL_MAX_DEVICES];
    const char *metrics[YOKE_MAX_METRICS];
    int64_t epoch, epoch_step; /* the running epoch, from 0, and the last step before it */
    double epoch_begun, begun;
    int64_t steps;     /* trained by this run */
    int64_t last_step; /* that was told of */
    int64_t done;      /* samples of the epoch that this run has trained */
    double loss_sum, metric_sum, count;
    struct {
        double first; /* of the first step of this run; NaN: there was none */
        double sum;   /* of the first TOOL_EARLY steps */
        int count;    /* of losses in `sum` */
    } early;          /* losses */
} yki_tool_watch;

/* Opens the log and the folder for TensorBoard, where they are wanted and this process writes. */
yoke_status yki_tool_watch_open(yki_tool_watch *watch, const char *log, bool appends,
                                const char *tensorboard, bool speaks);
/* Fills in the members that follow from `team` and `trainer`. */
void yki_tool_watch_start(yki_tool_watch *watch);
/* The callbacks for yoke_fit_options; `user` is the watch. */
bool yki_tool_watch_step(void *user, const yoke_result *result);
bool yki_tool_watch_epoch(void *user, const yoke_epoch *epoch);
/* Closes these; returns `status`, or an error if one of them could not be written. */
yoke_status yki_tool_watch_end(yki_tool_watch *watch, yoke_status status);

/* From here on SIGINT and SIGTERM stop training at the end of the step (a second one ends the
 * process), and SIGUSR2 asks for a checkpoint. */
void yki_tool_signals_start(yoke_trainer *trainer);
/* Restores the handlers from before; returns the signal that stopped training, or 0. */
int yki_tool_signals_end(void);

#endif
