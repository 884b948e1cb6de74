/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_picture.h - a graph as a picture in SVG.
 */
#ifndef YOKE_TOOLS_GRAPH_PICTURE_H
#define YOKE_TOOLS_GRAPH_PICTURE_H

#include <stdio.h>

#include <yoke.h>

/* The rules of its style, which come behind yki_tool_picture_style. */
extern const char yki_tool_graph_style[];

/* Draws the element svg: inputs above, results below. */
yoke_status yki_tool_graph_picture(FILE *stream, const yoke_graph *graph);

#endif
