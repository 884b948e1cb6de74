/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.h - the axes of a panel of a picture in SVG, over the steps of a training.
 */
#ifndef YOKE_TOOLS_FRAME_H
#define YOKE_TOOLS_FRAME_H

#include <stdbool.h>
#include <stdio.h>

/* In pixels: of the picture, and of the part in which values are drawn. */
enum { TOOL_PICTURE = 900, TOOL_LEFT = 72, TOOL_ACROSS = 640 };

typedef struct yki_tool_frame {
    FILE *stream;
    double top, height; /* in pixels */
    double low, high;   /* values at the lower and the upper end */
    double steps;       /* at the right end */
    bool logarithmic;   /* then `low` is above 0 */
} yki_tool_frame;

/* The rules of style of all pictures, for elements of the class "yoke"; light and dark. */
extern const char yki_tool_picture_style[];

double yki_tool_frame_x(const yki_tool_frame *frame, double step);
/* Values beyond the ends are drawn at the ends. */
double yki_tool_frame_y(const yki_tool_frame *frame, double value);
/* Draws the axes, the title above, the unit at the side and, if it is not NULL, a note at the right
 * of the title. */
void yki_tool_frame_draw(const yki_tool_frame *frame, const char *title, const char *unit,
                         const char *note);
/* Writes a text, which may be anybody's; `anchor` is start, middle or end, `class` a rule of the
 * style. */
void yki_tool_frame_text(FILE *stream, double x, double y, const char *anchor, const char *class,
                         const char *text);
/* Writes a number as people read it, as 12.5k; returns `text`. */
enum { TOOL_NUMBER = 32 };
const char *yki_tool_short_number(double value, char text[TOOL_NUMBER]);

#endif
