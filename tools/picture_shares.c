/* SPDX-License-Identifier: Apache-2.0
 *
 * picture_shares.c - the stacked shares of the devices: an area for each, outlined, with its name
 * beside it.
 */
#include <math.h>
#include <string.h>

#include "markup.h"
#include "picture.h"

enum { APART = 15, NAME = 26 };

/* The sum of the shares of the devices before this one, at its point i. */
static double
below(const yki_tool_history *h, size_t device, size_t i)
{
    double sum = 0;

    for (size_t k = 0; k < device; k++)
        if (i < h->shares[k].count)
            sum += h->shares[k].points[i].value;
    return 100 * sum;
}

static void
tell(FILE *stream, const yki_tool_history *h, size_t k)
{
    const yki_tool_curve *c = &h->shares[k];
    double sum = 0, least = INFINITY, most = 0;

    for (size_t i = 0; i < c->count; i++) {
        sum += c->points[i].value;
        least = fmin(least, c->points[i].value);
        most = fmax(most, c->points[i].value);
    }
    fputs("<title>", stream);
    yki_tool_markup(stream, h->names[k]);
    yki_tool_markup_print(stream, ": %.1f %% in the mean, from %.1f to %.1f %%",
                          100 * sum / (double)c->count, 100 * least, 100 * most);
    fputs("</title>", stream);
}

/* The name is as long as fits; the tooltip has all of it. */
static void
name(const yki_tool_frame *f, const yki_tool_history *h, size_t k, double y)
{
    const yki_tool_curve *c = &h->shares[k];
    const char *full = h->names[k] ? h->names[k] : "device";
    char text[2 * NAME + 16];

    snprintf(text, sizeof text, "%.0f %% %.*s%s", 100 * c->points[c->count - 1].value, NAME - 6,
             full, strlen(full) > NAME - 6 ? "..." : "");
    yki_tool_frame_text(f->stream, TOOL_LEFT + TOOL_ACROSS + 8, y, "start", "name", text);
}

static void
area(const yki_tool_frame *f, const yki_tool_history *h, size_t k)
{
    const yki_tool_curve *c = &h->shares[k];
    const size_t stride = c->count / TOOL_ACROSS + 1, last = (c->count - 1) / stride * stride;

    fprintf(f->stream, "<path class=\"area\" style=\"fill:hsl(%zu,52%%,%zu%%)\" d=\"",
            (212 + k * 137) % 360, 52 + k % 3 * 6);
    for (size_t i = 0; i < c->count; i += stride)
        fprintf(f->stream, "%s%.1f %.1f", i ? "L" : "M", yki_tool_frame_x(f, c->points[i].step),
                yki_tool_frame_y(f, below(h, k, i) + 100 * c->points[i].value));
    for (size_t i = last + stride; i >= stride; i -= stride)
        fprintf(f->stream, "L%.1f %.1f", yki_tool_frame_x(f, c->points[i - stride].step),
                yki_tool_frame_y(f, below(h, k, i - stride)));
    fputs("Z\">", f->stream);
    tell(f->stream, h, k);
    fputs("</path>\n", f->stream);
}

void
yki_tool_draw_shares(yki_tool_frame *f, const yki_tool_history *h)
{
    double lowest = f->top + f->height + 4;

    f->low = 0;
    f->high = 100;
    f->logarithmic = false;
    yki_tool_frame_draw(f, "shares of the devices", "% of a batch", NULL);
    for (size_t k = 0; k < h->devices; k++)
        if (h->shares[k].count)
            area(f, h, k);
    /* From below, each name at least a line above the one before it; those that do not fit are only
     * in tooltips. */
    for (size_t k = 0; k < h->devices; k++) {
        const yki_tool_curve *c = &h->shares[k];
        double y;

        if (!c->count)
            continue;
        y = yki_tool_frame_y(f, below(h, k, c->count - 1) + 50 * c->points[c->count - 1].value) + 4;
        y = fmin(y, lowest);
        if (y < f->top)
            break;
        name(f, h, k, y);
        lowest = y - APART;
    }
}
