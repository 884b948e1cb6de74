/* SPDX-License-Identifier: Apache-2.0
 *
 * report_test.c - the model on the test samples: what `yoke eval` says, and of few classes the
 * confusion matrix as a table, whose colours are parts of a row.
 */
#include <inttypes.h>
#include <string.h>

#include "fields.h"
#include "markup.h"
#include "report.h"

enum { MOST_COLUMNS = 30, SHORT = 4 };

static yoke_status
print_metrics(void *user, FILE *to)
{
    const yki_tool_evaluation *e = &((yki_tool_page *)user)->evaluation;
    const bool all = e->subject.classes && e->subject.count <= MOST_COLUMNS;

    return yki_tool_evaluation_print(e, all, to)
               ? YOKE_OK
               : yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a table");
}

static yoke_status
print_pairs(void *user, FILE *to)
{
    const yki_tool_evaluation *e = &((yki_tool_page *)user)->evaluation;

    return yki_tool_confusion_print(&e->classes, e->model, to)
               ? YOKE_OK
               : yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a table");
}

static void
write_heads(const yki_tool_page *r)
{
    const yki_tool_evaluation *e = &r->evaluation;
    char number[24];

    fputs("<thead><tr><th></th>", r->stream);
    for (size_t i = 0; i < e->classes.count; i++) {
        const char *name = yki_tool_class_name(e->model, i, number);

        fprintf(r->stream, "<th><span class=\"%s\">", strlen(name) > SHORT ? "long" : "short");
        yki_tool_markup(r->stream, name);
        fputs("</span></th>", r->stream);
    }
    fputs("</tr></thead>\n", r->stream);
}

static void
write_pair(const yki_tool_page *r, size_t label, size_t answer)
{
    const yki_tool_classes *c = &r->evaluation.classes;
    const uint64_t count = c->confusion[label * c->count + answer], all = c->labels[label];
    char number[2][24];

    if (count == 0) {
        fputs("<td></td>", r->stream);
        return;
    }
    fprintf(r->stream, "<td class=\"%s\" style=\"--part:%.2f\" title=\"",
            label == answer ? "good" : "bad", 0.2 + 0.55 * (double)count / (double)all);
    yki_tool_markup(r->stream, yki_tool_class_name(r->evaluation.model, label, number[0]));
    fputs(" is taken for ", r->stream);
    yki_tool_markup(r->stream, yki_tool_class_name(r->evaluation.model, answer, number[1]));
    fprintf(r->stream, ": %" PRIu64 " of %" PRIu64 "\">%" PRIu64 "</td>", count, all, count);
}

static void
write_matrix(const yki_tool_page *r)
{
    const yki_tool_classes *c = &r->evaluation.classes;
    char number[24];

    fputs("<p>A row for each label, a column for each answer.</p>\n<table class=\"confusion\">\n",
          r->stream);
    write_heads(r);
    for (size_t i = 0; i < c->count; i++) {
        fputs("<tr><th>", r->stream);
        yki_tool_markup(r->stream, yki_tool_class_name(r->evaluation.model, i, number));
        fputs("</th>", r->stream);
        for (size_t k = 0; k < c->count; k++)
            write_pair(r, i, k);
        fputs("</tr>\n", r->stream);
    }
    fputs("</table>\n", r->stream);
}

yoke_status
yki_tool_report_test(yki_tool_page *r)
{
    const yki_tool_evaluation *e = &r->evaluation;
    const bool classes = e->subject.output && e->subject.classes;
    yoke_status status;

    yki_tool_report_begin(r->stream, "test", "Test");
    fputs("<p>All samples of the test part of ", r->stream);
    yki_tool_markup(r->stream, r->training.data);
    fputs(" or, if it has none, of all of it.</p>\n", r->stream);
    status = yki_tool_report_text(r->stream, print_metrics, r);
    if (!status && classes && e->classes.confusion) {
        fputs("<h3>What is taken for what</h3>\n", r->stream);
        if (e->classes.count <= MOST_COLUMNS)
            write_matrix(r);
        else
            status = yki_tool_report_text(r->stream, print_pairs, r);
    }
    fputs("</section>\n", r->stream);
    return status;
}
