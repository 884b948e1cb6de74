/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - one line for each epoch of training: on a terminal with a bar that fills,
 * elsewhere plain.
 */
#ifndef YOKE_TOOLS_PROGRESS_H
#define YOKE_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What is known of the current epoch. */
typedef struct yki_tool_view {
    int64_t epoch, epochs;         /* its number, from 0; the number of all */
    int64_t done, samples;         /* samples of this epoch: trained so far; all */
    double loss, metric;           /* means so far; NaN: none */
    const char *metric_name;       /* NULL: none; "accuracy" is shown in per cent */
    double test_loss, test_metric; /* NaN: not tested */
    double rate;                   /* samples a second; 0: not known */
    int64_t tokens;                /* in a sample, which are shown instead; 0: no text */
    double left;                   /* seconds; negative: not known */
    size_t devices;                /* 0: no bars */
    const int64_t *shares;         /* of a batch */
    const char *const *names;      /* of the devices */
} yki_tool_view;

enum { TOOL_LINE = 2048 };

enum { TOOL_LOSS = 32 };
/* Writes a loss as every subcommand prints it, with four significant digits: "2.300", "0.01234".
 * Returns `text`. */
const char *yki_tool_loss_text(double loss, char text[TOOL_LOSS]);

typedef struct yki_tool_style {
    size_t width; /* columns; 0: as many as it takes, and no bars */
    bool utf8, color;
} yki_tool_style;

/* Writes the line, without a newline. If it does not fit the width, bars become shorter; then only
 * the shares of devices are shown, without names; then items are left out from the right. */
void yki_tool_progress_line(char line[TOOL_LINE], const yki_tool_view *view,
                            const yki_tool_style *style);

typedef struct yki_tool_progress {
    FILE *stream;
    yki_tool_style style;
    bool live;     /* the stream is a terminal */
    double drawn;  /* when the line was last written */
    bool standing; /* the terminal shows a line without its newline */
} yki_tool_progress;

/* Looks at the stream, NO_COLOR, TERM and the locale. */
void yki_tool_progress_start(yki_tool_progress *progress, FILE *stream);
/* Draws the line again, on a terminal only and at most ten times a second. */
void yki_tool_progress_update(yki_tool_progress *progress, const yki_tool_view *view);
/* Writes the final line of an epoch. */
void yki_tool_progress_epoch(yki_tool_progress *progress, const yki_tool_view *view);
/* Removes an unfinished line, so that something else can be written. */
void yki_tool_progress_clear(yki_tool_progress *progress);

#endif
