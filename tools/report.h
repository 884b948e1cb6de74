/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - the sections of a page about a training. Each is a file report_NAME.c, with one
 * function, which writes HTML that is XML too. All text that is not of this program goes through
 * markup.h.
 */
#ifndef YOKE_TOOLS_REPORT_H
#define YOKE_TOOLS_REPORT_H

#include <jansson.h>
#include <limits.h>

#include "evaluation.h"
#include "history.h"

enum { TOOL_SHOWN = 12 }; /* of the worst samples, and of the best */

typedef struct yki_tool_answer {
    int64_t sample;
    size_t label, answer;
    double loss; /* of the label; NaN counts as infinite */
} yki_tool_answer;

typedef struct yki_tool_answers {
    yki_tool_answer list[TOOL_SHOWN]; /* the first is the worst, or the best */
    size_t count;
} yki_tool_answers;

typedef struct yki_tool_page {
    FILE *stream;
    const char *path;    /* as it is given */
    char file[PATH_MAX]; /* that has the weights */
    json_t *options;     /* of the run, by name; NULL: unknown */
    yki_tool_training training;
    yki_tool_history history;       /* without steps if there is no log */
    yki_tool_evaluation evaluation; /* the trainer is there */
    bool tested;                    /* there are samples, and the results on them */
    yki_tool_answers worst, best;   /* of classes */
} yki_tool_page;

/* Fail if memory is short, or what they ask the library for fails. */
yoke_status yki_tool_report_run(yki_tool_page *report);
yoke_status yki_tool_report_model(yki_tool_page *report);
yoke_status yki_tool_report_devices(yki_tool_page *report);
yoke_status yki_tool_report_test(yki_tool_page *report);
yoke_status yki_tool_report_samples(yki_tool_page *report);

/* The rules of style of the page. */
extern const char yki_tool_report_style[];

/* ---- report_parts.c ---- */

/* Begins a section with a heading; what ends it is "</section>". */
void yki_tool_report_begin(FILE *stream, const char *id, const char *title);
/* Writes what a function writes to a stream, as text with fixed columns. */
yoke_status yki_tool_report_text(FILE *stream, yoke_status (*print)(void *user, FILE *to),
                                 void *user);
/* Writes a row of a table with two columns. */
void yki_tool_report_row(FILE *stream, const char *name, const char *value);
/* Writes a cell; `numeric`: a number. */
void yki_tool_report_cell(FILE *stream, bool numeric, const char *text);

/* ---- report_samples.c ---- */

/* The callback of an evaluation; `user` is the report. */
void yki_tool_report_see(void *user, int64_t sample, const float *result, size_t label);

#endif
