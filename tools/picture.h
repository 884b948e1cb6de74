/* SPDX-License-Identifier: Apache-2.0
 *
 * picture.h - a training as a picture in SVG.
 */
#ifndef YOKE_TOOLS_PICTURE_H
#define YOKE_TOOLS_PICTURE_H

#include <stdio.h>

#include "frame.h"
#include "history.h"

/* Draws the element svg; `title` NULL: none is shown; `styled`: with the rules of style inside, as
 * a picture by itself needs. */
void yki_tool_picture(FILE *stream, const yki_tool_history *history, const char *title,
                      bool styled);

/* ---- picture_lines.c ---- */

typedef struct yki_tool_line {
    const yki_tool_curve *curve;
    const char *name, *class; /* beside its end; of the style */
    bool dots;
} yki_tool_line;

typedef struct yki_tool_panel {
    const char *title, *unit;
    const char *sign; /* behind numbers; NULL: none */
    double factor;    /* of values, as they are shown */
    bool from_zero;
    yki_tool_line lines[2]; /* a curve without points is none */
} yki_tool_panel;

/* Draws curves into a frame, whose scale it chooses. */
void yki_tool_draw_lines(yki_tool_frame *frame, const yki_tool_panel *panel);

/* ---- picture_shares.c ---- */

void yki_tool_draw_shares(yki_tool_frame *frame, const yki_tool_history *history);

#endif
