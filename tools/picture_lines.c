/* SPDX-License-Identifier: Apache-2.0
 *
 * picture_lines.c - one or two curves in a panel. Of many steps a thin line has a mean for each
 * pixel, and a thick one a mean for each strip, which also has the tooltips.
 *
 * A scale that a few values would flatten is logarithmic or, if that does not help or a value is
 * not above 0, ends before them: they are marked at its end.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "markup.h"
#include "picture.h"

enum { STRIPS = 80, FLAT = 8, FLAT_LOGARITHMS = 3, APART = 16, MOST_DOTS = 120 };

typedef struct means {
    yki_tool_point points[TOOL_ACROSS + 2];
    size_t count;
} means;

/* What is drawn of a curve. */
typedef struct drawn {
    means fine, coarse;
} drawn;

/* A mean for each of `parts` parts of the width. */
static void
average(const yki_tool_frame *f, const yki_tool_curve *c, double factor, double parts, means *m)
{
    const double wide = f->steps > 0 ? f->steps / parts : 1;

    m->count = 0;
    for (size_t i = 0; i < c->count && m->count <= TOOL_ACROSS;) {
        const double end = fmin(floor(c->points[i].step / wide), parts - 1);
        double sum = 0, weight = 0, steps = 0;
        size_t first = i;

        for (; i < c->count && fmin(floor(c->points[i].step / wide), parts - 1) <= end; i++) {
            sum += c->points[i].value * c->points[i].weight;
            weight += c->points[i].weight;
            steps += c->points[i].step;
        }
        m->points[m->count++] = (yki_tool_point){steps / (double)(i - first), factor * sum / weight,
                                                 (double)(i - first)};
    }
}

/* ---- the scale ---- */

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Whether most values lie close together in the whole range. */
static bool
is_flat(double flat, double least, double low, double high, double most)
{
    return flat * (high - low) < most - least;
}

static void
choose_scale(yki_tool_frame *f, const yki_tool_panel *p, const drawn d[2])
{
    double sorted[2 * (TOOL_ACROSS + 2)], least, low, high, most;
    size_t count = 0;

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < d[k].fine.count; i++)
            sorted[count++] = d[k].fine.points[i].value;
    qsort(sorted, count, sizeof *sorted, compare);
    least = sorted[0];
    most = sorted[count - 1];
    low = sorted[count / 20];
    high = sorted[count - 1 - count / 20];
    f->logarithmic = false;
    if (!p->from_zero && least > 0 &&
        (is_flat(FLAT, least, low, high, most) || most > 1000 * least) &&
        !is_flat(FLAT_LOGARITHMS, log(least), log(low), log(high), log(most))) {
        f->logarithmic = true;
        f->low = least / 1.05;
        f->high = most * 1.05;
        return;
    }
    if (is_flat(FLAT, least, low, high, most) && high > low) {
        f->low = fmax(least, low - (high - low) / 2);
        f->high = fmin(most, high + (high - low) / 2);
    } else {
        f->low = least;
        f->high = most;
    }
    if (p->from_zero || (f->low > 0 && f->low < 0.5 * f->high))
        f->low = fmin(f->low, 0);
    if (!(f->high > f->low)) {
        const double room = f->low > 0 || f->low < 0 ? fabs(f->low) / 2 : 0.5;

        f->low -= room;
        f->high += room;
    } else if (f->low < 0 || f->low > 0 || p->from_zero) {
        f->high += (f->high - f->low) / 20;
    }
    if (p->factor > 1 && f->high > 100 && most <= 100)
        f->high = 100;
}

/* ---- drawing ---- */

static void
trace(const yki_tool_frame *f, const means *m, const char *class, const char *more)
{
    if (m->count == 0)
        return;
    fprintf(f->stream, "<path class=\"%s%s\" d=\"", class, more);
    for (size_t i = 0; i < m->count; i++)
        fprintf(f->stream, "%s%.1f %.1f", i ? "L" : "M", yki_tool_frame_x(f, m->points[i].step),
                yki_tool_frame_y(f, m->points[i].value));
    fputs("\"/>\n", f->stream);
}

/* Values beyond the scale: triangles at its end. Returns how many there are. */
static size_t
mark_beyond(const yki_tool_frame *f, const means *m, const yki_tool_line *line)
{
    size_t beyond = 0;
    char number[TOOL_NUMBER];

    for (size_t i = 0; i < m->count; i++) {
        const double value = m->points[i].value, x = yki_tool_frame_x(f, m->points[i].step);
        const bool above = value > f->high;

        if (!above && !(value < f->low))
            continue;
        beyond++;
        fprintf(f->stream, "<path class=\"beyond %s\" d=\"M%.1f %.1fl4 %dh-8z\"><title>",
                line->class, x, above ? f->top : f->top + f->height, above ? 7 : -7);
        yki_tool_markup_print(f->stream, "step %.0f: %s, beyond the scale", m->points[i].step,
                              yki_tool_short_number(value, number));
        fputs("</title></path>\n", f->stream);
    }
    return beyond;
}

static void
draw_dots(const yki_tool_frame *f, const means *m, const yki_tool_line *line)
{
    char number[TOOL_NUMBER];

    for (size_t i = 0; i < m->count && line->dots && m->count <= MOST_DOTS; i++) {
        fprintf(f->stream, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>",
                line->class, yki_tool_frame_x(f, m->points[i].step),
                yki_tool_frame_y(f, m->points[i].value), m->count > 40 ? "1.8" : "3");
        yki_tool_markup_print(f->stream, "%s after step %.0f: %s", line->name, m->points[i].step,
                              yki_tool_short_number(m->points[i].value, number));
        fputs("</title></circle>\n", f->stream);
    }
}

/* Strips over the panel that tell the mean of the first curve. They are below dots and marks, whose
 * own tooltips come first. */
static void
draw_strips(const yki_tool_frame *f, const means *m, const yki_tool_panel *p)
{
    char number[TOOL_NUMBER];

    for (size_t i = 0; i < m->count; i++) {
        const double x = yki_tool_frame_x(f, m->points[i].step);
        const double left =
            i ? (x + yki_tool_frame_x(f, m->points[i - 1].step)) / 2 : (double)TOOL_LEFT;
        const double right = i + 1 < m->count ? (x + yki_tool_frame_x(f, m->points[i + 1].step)) / 2
                                              : (double)(TOOL_LEFT + TOOL_ACROSS);

        fprintf(
            f->stream,
            "<rect class=\"strip\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>",
            left, f->top, fmax(right - left, 0.1), f->height);
        yki_tool_markup_print(f->stream, "step %.0f: %s %s", m->points[i].step, p->unit,
                              yki_tool_short_number(m->points[i].value, number));
        if (m->points[i].weight > 1)
            yki_tool_markup_print(f->stream, ", the mean of %.0f steps", m->points[i].weight);
        fputs("</title></rect>\n", f->stream);
    }
}

/* Names and last values beside the ends of the curves, which must not cover each other. */
static void
name_lines(const yki_tool_frame *f, const yki_tool_panel *p, const drawn d[2])
{
    double y[2] = {0};
    char number[TOOL_NUMBER], text[96];

    for (size_t k = 0; k < 2; k++)
        if (d[k].coarse.count)
            y[k] = yki_tool_frame_y(f, d[k].coarse.points[d[k].coarse.count - 1].value) + 4;
    if (d[0].coarse.count && d[1].coarse.count && fabs(y[0] - y[1]) < APART) {
        const double middle = fmax((y[0] + y[1]) / 2, f->top + APART / 2);
        const size_t upper = y[1] < y[0];

        y[upper] = middle - APART / 2;
        y[!upper] = middle + APART / 2;
    }
    for (size_t k = 0; k < 2; k++) {
        const means *m = &d[k].coarse;

        if (m->count == 0)
            continue;
        snprintf(text, sizeof text, "%s %s%s", p->lines[k].name,
                 yki_tool_short_number(m->points[m->count - 1].value, number),
                 p->sign ? p->sign : "");
        yki_tool_frame_text(f->stream, TOOL_LEFT + TOOL_ACROSS + 10, y[k], "start",
                            p->lines[k].class, text);
    }
}

void
yki_tool_draw_lines(yki_tool_frame *f, const yki_tool_panel *p)
{
    static drawn d[2]; /* static, as it is large */
    const char *note = NULL;
    char number[TOOL_NUMBER], text[96];
    size_t beyond = 0;
    double most = -INFINITY;

    for (size_t k = 0; k < 2; k++) {
        const yki_tool_curve none = {0}, *c = p->lines[k].curve ? p->lines[k].curve : &none;

        average(f, c, p->factor, TOOL_ACROSS, &d[k].fine);
        average(f, c, p->factor, p->lines[k].dots ? TOOL_ACROSS : STRIPS, &d[k].coarse);
    }
    choose_scale(f, p, d);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < d[k].fine.count; i++) {
            const double value = d[k].fine.points[i].value;

            beyond += value > f->high || value < f->low;
            most = fmax(most, value);
        }
    if (beyond)
        snprintf(text, sizeof text, "%zu beyond the scale, up to %s", beyond,
                 yki_tool_short_number(most, number));
    note = beyond ? text : f->logarithmic ? "logarithmic" : NULL;
    yki_tool_frame_draw(f, p->title, p->unit, note);
    for (size_t k = 0; k < 2; k++) {
        const bool many = d[k].fine.count > d[k].coarse.count;

        if (many)
            trace(f, &d[k].fine, p->lines[k].class, " faint");
        trace(f, &d[k].coarse, p->lines[k].class, "");
    }
    draw_strips(f, &d[0].coarse, p);
    for (size_t k = 0; k < 2; k++) {
        mark_beyond(f, &d[k].fine, &p->lines[k]);
        draw_dots(f, &d[k].coarse, &p->lines[k]);
    }
    name_lines(f, p, d);
}
