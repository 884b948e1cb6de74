/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.c - see frame.h.
 */
#include <math.h>
#include <string.h>

#include "frame.h"
#include "markup.h"

const char yki_tool_picture_style[] =
    "svg.yoke{--back:#fff;--ink:#24292f;--weak:#667080;--grid:#e4e7eb;--one:#2563eb;--two:#d9480f}"
    "\n"
    "@media (prefers-color-scheme:dark){svg.yoke{--back:#15181d;--ink:#e6e8eb;--weak:#98a2b0;"
    "--grid:#2d333b;--one:#6ea8fe;--two:#ff9d5c}}\n"
    ".yoke .back{fill:#fff;fill:var(--back)}\n"
    ".yoke text{font:12px system-ui,sans-serif;fill:#24292f;fill:var(--ink)}\n"
    ".yoke .title{font-weight:600}\n"
    ".yoke .weak{fill:#667080;fill:var(--weak)}\n"
    ".yoke path{fill:none;stroke-width:1.6;stroke-linejoin:round}\n"
    ".yoke .grid path{stroke:#e4e7eb;stroke:var(--grid);stroke-width:1}\n"
    ".yoke path.one{stroke:#2563eb;stroke:var(--one)}\n"
    ".yoke path.two{stroke:#d9480f;stroke:var(--two)}\n"
    ".yoke path.faint{stroke-width:1;stroke-opacity:.35}\n"
    ".yoke circle.one,.yoke text.one,.yoke path.beyond.one{fill:#2563eb;fill:var(--one)}\n"
    ".yoke circle.two,.yoke text.two,.yoke path.beyond.two{fill:#d9480f;fill:var(--two)}\n"
    ".yoke .beyond{stroke:none!important}\n"
    ".yoke path.area{stroke:#fff;stroke:var(--back);stroke-width:1.5}\n"
    ".yoke .strip{fill:#888;fill-opacity:0}\n"
    ".yoke .strip:hover{fill-opacity:.14}\n";

double
yki_tool_frame_x(const yki_tool_frame *f, double step)
{
    return TOOL_LEFT + TOOL_ACROSS * (f->steps > 0 ? step / f->steps : 0);
}

double
yki_tool_frame_y(const yki_tool_frame *f, double value)
{
    double part = f->logarithmic && value > 0 ? log(value / f->low) / log(f->high / f->low)
                  : f->logarithmic            ? 0
                                              : (value - f->low) / (f->high - f->low);

    return f->top + f->height * (1 - fmin(fmax(part, 0), 1));
}

void
yki_tool_frame_text(FILE *stream, double x, double y, const char *anchor, const char *class,
                    const char *text)
{
    fprintf(stream, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y,
            anchor);
    yki_tool_markup(stream, text);
    fputs("</text>\n", stream);
}

const char *
yki_tool_short_number(double value, char text[TOOL_NUMBER])
{
    const double size = fabs(value);
    const double unit = size >= 1e9 || size < 1e4 ? 1 : size >= 1e6 ? 1e6 : 1e3;

    snprintf(text, TOOL_NUMBER, "%.4g%s", value / unit, unit > 1e3 ? "M" : unit > 1 ? "k" : "");
    return text;
}

/* The distance of grid lines: 1, 2 or 5 times a power of ten, so that at most `most` fit. */
static double
distance_of(double range, double most)
{
    double base = pow(10, floor(log10(range / most)));

    for (size_t i = 0; i < 4; i++)
        if (range / (base * (double[]){1, 2, 5, 10}[i]) <= most)
            return base * (double[]){1, 2, 5, 10}[i];
    return base * 10;
}

static void
draw_line(const yki_tool_frame *f, double value)
{
    const double y = yki_tool_frame_y(f, value);
    char number[TOOL_NUMBER];

    fprintf(f->stream, "<path d=\"M%d %.1fh%d\"/>\n", TOOL_LEFT, y, TOOL_ACROSS);
    yki_tool_frame_text(f->stream, TOOL_LEFT - 8, y + 4, "end", "weak",
                        yki_tool_short_number(value, number));
}

/* Powers of ten or, where these are few, also 2 and 5 times them. */
static void
draw_decades(const yki_tool_frame *f)
{
    const double decades = log10(f->high / f->low), every = ceil(decades / 6);

    for (double power = floor(log10(f->low)); power <= log10(f->high); power++)
        for (int times = 1; times < 10; times = times == 2 ? 5 : times == 5 ? 10 : 2) {
            const double value = times * pow(10, power);

            if (value < f->low * 0.999 || value > f->high * 1.001 || (times > 1 && decades > 2.5) ||
                (every > 1 && fmod(fabs(power), every) > 0.5))
                continue;
            draw_line(f, value);
        }
}

void
yki_tool_frame_draw(const yki_tool_frame *f, const char *title, const char *unit, const char *note)
{
    const double step = distance_of(f->high - f->low, f->height / 24);
    const double across = fmax(1, distance_of(fmax(f->steps, 1), 8));
    const double end = f->top + f->height, middle = f->top + f->height / 2;
    char number[TOOL_NUMBER];

    fprintf(f->stream, "<g class=\"grid\">\n");
    if (f->logarithmic)
        draw_decades(f);
    else
        for (double k = ceil(f->low / step - 1e-6) + 0.0; k * step <= f->high + step * 1e-6; k++)
            draw_line(f, k * step);
    fprintf(f->stream, "</g>\n");
    for (double v = 0; v <= f->steps; v += across)
        yki_tool_frame_text(f->stream, yki_tool_frame_x(f, v), end + 16, "middle", "weak",
                            yki_tool_short_number(v, number));
    yki_tool_frame_text(f->stream, TOOL_LEFT + TOOL_ACROSS, end + 30, "end", "weak", "step");
    yki_tool_frame_text(f->stream, TOOL_LEFT, f->top - 9, "start", "title", title);
    fprintf(f->stream, "<g transform=\"rotate(-90 16 %.1f)\">", middle);
    yki_tool_frame_text(f->stream, 16, middle, "middle", "weak", unit);
    fprintf(f->stream, "</g>\n");
    if (note)
        yki_tool_frame_text(f->stream, TOOL_LEFT + TOOL_ACROSS, f->top - 9, "end", "weak", note);
}
