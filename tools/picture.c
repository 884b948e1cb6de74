/* SPDX-License-Identifier: Apache-2.0
 *
 * picture.c - see picture.h. One panel below the other: loss, the first metric, the learning rate,
 * the speed, and of several devices the shares. What a log does not have is left out.
 */
#include <string.h>

#include "markup.h"
#include "picture.h"

enum { HEAD = 18, TOP = 58, TALL = 200, LOW = 110, GAP = 58 };

/* What was trained, in a line below the title. */
static void
describe(FILE *stream, const yki_tool_history *h, double y)
{
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text, "%.0f steps", h->steps);

    if (h->epochs > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, " in %.0f epoch%s", h->epochs,
                                 h->epochs > 1 ? "s" : "");
    if (h->batch > 0)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 ", batches of %.0f of %.0f samples", h->batch, h->samples);
    if (h->devices > 1)
        snprintf(text + used, sizeof text - used, ", %zu devices", h->devices);
    else if (h->names[0])
        snprintf(text + used, sizeof text - used, ", on %.80s", h->names[0]);
    yki_tool_frame_text(stream, TOOL_LEFT, y, "start", "weak", text);
}

static void
panel(yki_tool_frame *f, const yki_tool_panel *p, double height)
{
    if (p->lines[0].curve->count + (p->lines[1].curve ? p->lines[1].curve->count : 0) == 0)
        return;
    f->height = height;
    yki_tool_draw_lines(f, p);
    f->top += height + GAP;
}

static void
draw_panels(yki_tool_frame *f, const yki_tool_history *h)
{
    const char *metric = h->metric_name ? h->metric_name : "";
    const bool fraction = strcmp(metric, "accuracy") == 0;

    panel(f,
          &(yki_tool_panel){.title = "loss",
                            .unit = "mean loss",
                            .factor = 1,
                            .lines = {{&h->loss, "trained", "one", false},
                                      {&h->test_loss, "tested", "two", true}}},
          TALL);
    panel(f,
          &(yki_tool_panel){.title = metric,
                            .unit = fraction ? "% of samples" : metric,
                            .sign = fraction ? " %" : "",
                            .factor = fraction ? 100 : 1,
                            .lines = {{&h->metric, "trained", "one", false},
                                      {&h->test_metric, "tested", "two", true}}},
          TALL);
    panel(f,
          &(yki_tool_panel){.title = "learning rate",
                            .unit = "rate",
                            .factor = 1,
                            .from_zero = true,
                            .lines = {{&h->rate, "rate", "one", false}}},
          LOW);
    panel(f,
          &(yki_tool_panel){.title = "speed of training",
                            .unit = "samples/s",
                            .factor = 1,
                            .from_zero = true,
                            .lines = {{&h->speed, "samples/s", "one", false}}},
          LOW);
    if (h->devices > 1) {
        f->height = TALL;
        yki_tool_draw_shares(f, h);
        f->top += TALL + GAP;
    }
}

/* The height is known before what is drawn, as the element begins with it. */
static int
height_of(const yki_tool_history *h)
{
    int height = TOP + TALL + GAP;

    if (h->metric.count + h->test_metric.count)
        height += TALL + GAP;
    height += h->rate.count ? LOW + GAP : 0;
    height += h->speed.count ? LOW + GAP : 0;
    return height + (h->devices > 1 ? TALL + GAP : 0) - 16;
}

void
yki_tool_picture(FILE *stream, const yki_tool_history *h, const char *title, bool styled)
{
    const int head = title ? HEAD : 0, height = head + height_of(h);
    yki_tool_frame frame = {.stream = stream, .top = TOP + head, .steps = h->steps};

    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"yoke\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n<title>",
            TOOL_PICTURE, height, TOOL_PICTURE, height);
    yki_tool_markup(stream, title ? title : "course of the training");
    fputs("</title>\n", stream);
    if (styled)
        fprintf(stream,
                "<style>\n%s</style>\n<rect class=\"back\" width=\"100%%\" "
                "height=\"100%%\"/>\n",
                yki_tool_picture_style);
    if (title)
        yki_tool_frame_text(stream, TOOL_LEFT, 20, "start", "title", title);
    describe(stream, h, 20 + head);
    draw_panels(&frame, h);
    fputs("</svg>\n", stream);
}
