/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - the progress of a training, one line for each epoch.
 *
 * A line is made of items in the order of their importance. An item is added only if it
 * still fits the terminal, because a line that wraps cannot be removed. Either all
 * devices are shown or none; they have shorter forms for narrow terminals. Columns are
 * counted as the items are made: colours take none, a block of a bar takes one.
 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "options.h"
#include "progress.h"

enum { SHARE_BAR = 8, PART = 512 };
static const double TENTH_OF_SECOND = 0.1;

#define BOLD  "\033[1m"
#define GREEN "\033[32m"
#define CYAN  "\033[36m"
#define DIM   "\033[2m"
#define PLAIN "\033[0m"

/* How devices are shown: with bars, with their names, or as "shares 75:25". */
typedef enum form { FORM_BARS, FORM_NAMES, FORM_NUMBERS } form;

/* From the widest to the narrowest: the columns of an epoch's bar, and the form of devices. */
static const struct {
    int bar;
    form devices;
} layouts[] = {
    {20, FORM_BARS}, {20, FORM_NAMES}, {10, FORM_NAMES}, {10, FORM_NUMBERS}, {0, FORM_NUMBERS}};

/* An item of the line: its text so far, and the columns that it takes. */
typedef struct part {
    char text[PART];
    size_t used, columns;
} part;

static void add(part *p, const char *format, ...) TOOL_PRINTF(2, 3);

static void
add(part *p, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(p->text + p->used, sizeof p->text - p->used, format, args);
    va_end(args);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof p->text - p->used)
        length = (int)(sizeof p->text - p->used - 1);
    p->used += (size_t)length;
    p->columns += (size_t)length;
}

/* Adds a text that takes no columns (an escape), or fewer columns than bytes (a block). */
static void
add_wide(part *p, const char *text, size_t columns)
{
    size_t before = p->columns;

    add(p, "%s", text);
    p->columns = before + columns;
}

static void
color(part *p, const yki_tool_style *style, const char *escape)
{
    if (style->color)
        add_wide(p, escape, 0);
}

/* ---- bars ---- */

static void
add_bar(part *p, const yki_tool_style *style, int columns, double filled)
{
    int full = (int)(filled * columns + 0.5);

    if (!style->utf8)
        add(p, "[");
    color(p, style, GREEN);
    for (int i = 0; i < columns; i++) {
        if (i == full)
            color(p, style, DIM);
        if (style->utf8)
            add_wide(p, i < full ? "\u2501" : "\u2500", 1);
        else
            add(p, i < full ? "=" : "-");
    }
    color(p, style, PLAIN);
    if (!style->utf8)
        add(p, "]");
}

/* Draws a share in eighths of a block, if the terminal has such characters. */
static void
add_share(part *p, const yki_tool_style *style, double share)
{
    static const char *const eighths[] = {"\u258f", "\u258e", "\u258d", "\u258c",
                                          "\u258b", "\u258a", "\u2589"};
    int units = (int)(share * SHARE_BAR * 8 + 0.5);

    color(p, style, CYAN);
    for (int i = 0; i < SHARE_BAR; i++, units -= 8) {
        if (!style->utf8)
            add(p, units >= 4 ? "#" : ".");
        else
            add_wide(p, units >= 8 ? "\u2588" : units > 0 ? eighths[units - 1] : " ", 1);
    }
    color(p, style, PLAIN);
}

/* ---- parts ---- */

static int
digits(int64_t value)
{
    int count = 1;

    while (value >= 10) {
        value /= 10;
        count++;
    }
    return count;
}

const char *
yki_tool_loss_text(double loss, char text[TOOL_LOSS])
{
    double size = fabs(loss);
    int before = size > 0 && isfinite(size) ? (int)floor(log10(size)) : 0;

    if (!isfinite(loss))
        snprintf(text, TOOL_LOSS, "%g", loss);
    else if (before > 6 || before < -4)
        snprintf(text, TOOL_LOSS, "%.3e", loss);
    else
        snprintf(text, TOOL_LOSS, "%.*f", before > 3 ? 0 : 3 - before, loss);
    return text;
}

static void
add_number(part *p, const char *label, const char *name, double value)
{
    char text[TOOL_LOSS];

    if (isnan(value))
        return;
    if (name && strcmp(name, "accuracy") == 0)
        add(p, "  %s%s %6.2f %%", label, name, 100 * value);
    else
        add(p, "  %s%s %s", label, name ? name : "loss", yki_tool_loss_text(value, text));
}

static void
add_time(part *p, double seconds)
{
    long s = (long)(seconds + 0.5);

    if (s >= 3600)
        add(p, "  %ld:%02ld:%02ld left", s / 3600, s / 60 % 60, s % 60);
    else
        add(p, "  %ld:%02ld left", s / 60, s % 60);
}

/* Adds an item to the line if it fits; returns whether it does. */
static bool
join(char *line, size_t *columns, const part *p, const yki_tool_style *style)
{
    size_t used = strlen(line);

    if (used + p->used >= TOOL_LINE || (style->width && *columns + p->columns > style->width))
        return false;
    memcpy(line + used, p->text, p->used + 1);
    *columns += p->columns;
    return true;
}

static void
add_device(part *p, const yki_tool_view *v, size_t k, double share, form f,
           const yki_tool_style *style)
{
    if (f == FORM_NUMBERS) {
        add(p, "%s%.0f%s", k ? ":" : "  shares ", 100 * share, k + 1 < v->devices ? "" : " %");
        return;
    }
    add(p, "  %s ", v->names[k]);
    if (f == FORM_BARS && style->width)
        add_share(p, style, share);
    add(p, "%3.0f %%", 100 * share);
}

/* Adds all devices, or none if they do not fit; returns whether they fit. */
static bool
join_shares(char *line, size_t *columns, const yki_tool_view *v, form f,
            const yki_tool_style *style)
{
    size_t before = strlen(line), columns_before = *columns;
    int64_t all = 0;

    for (size_t k = 0; k < v->devices; k++)
        all += v->shares[k];
    for (size_t k = 0; k < v->devices && all > 0; k++) {
        part p = {0};

        add_device(&p, v, k, (double)v->shares[k] / (double)all, f, style);
        if (!join(line, columns, &p, style)) {
            line[before] = '\0';
            *columns = columns_before;
            return false;
        }
    }
    return true;
}

/* Writes the line in one layout; returns whether all items fit. */
static bool
write_line(char line[TOOL_LINE], const yki_tool_view *v, int bar, form devices,
           const yki_tool_style *style)
{
    part p = {0};
    size_t columns = 0;
    bool whole;

    line[0] = '\0';
    color(&p, style, BOLD);
    add(&p, "epoch %*lld/%lld", digits(v->epochs), (long long)v->epoch + 1, (long long)v->epochs);
    color(&p, style, PLAIN);
    whole = join(line, &columns, &p, style);
    p = (part){0};
    if (style->width && v->samples > 0) {
        if (bar) {
            add(&p, " ");
            add_bar(&p, style, bar, (double)v->done / (double)v->samples);
        }
        add(&p, " %3d %%", (int)(100 * v->done / v->samples));
    }
    whole &= join(line, &columns, &p, style);
    p = (part){0};
    add_number(&p, "", NULL, v->loss);
    if (v->metric_name)
        add_number(&p, "", v->metric_name, v->metric);
    whole &= join(line, &columns, &p, style);
    p = (part){0};
    add_number(&p, "test ", NULL, v->test_loss);
    if (v->metric_name)
        add_number(&p, "test ", v->metric_name, v->test_metric);
    whole &= join(line, &columns, &p, style);
    p = (part){0};
    if (v->rate > 0 && v->tokens)
        add(&p, "  %.0f tokens/s", v->rate * (double)v->tokens);
    else if (v->rate > 0)
        add(&p, "  %.0f/s", v->rate);
    if (v->left >= 0)
        add_time(&p, v->left);
    whole &= join(line, &columns, &p, style);
    return join_shares(line, &columns, v, devices, style) && whole;
}

void
yki_tool_progress_line(char line[TOOL_LINE], const yki_tool_view *v, const yki_tool_style *style)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (write_line(line, v, layouts[i].bar, layouts[i].devices, style))
            return;
}

/* ---- the terminal ---- */

static bool
set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

/* Decides as setlocale would, which the command does not call. */
static bool
is_utf8(void)
{
    const char *value = set("LC_ALL")     ? getenv("LC_ALL")
                        : set("LC_CTYPE") ? getenv("LC_CTYPE")
                        : set("LANG")     ? getenv("LANG")
                                          : "";

    return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8") ||
           strstr(value, "utf-8");
}

static size_t
columns_of(FILE *stream)
{
    struct winsize size;

    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return (size_t)size.ws_col - 1; /* a character in the last column may wrap */
    return 79;
}

void
yki_tool_progress_start(yki_tool_progress *p, FILE *stream)
{
    const char *term = getenv("TERM");
    bool dumb = !term || !*term || strcmp(term, "dumb") == 0;

    *p = (yki_tool_progress){.stream = stream, .live = isatty(fileno(stream)) && !dumb};
    p->style.utf8 = is_utf8();
    p->style.color = p->live && !set("NO_COLOR");
}

void
yki_tool_progress_clear(yki_tool_progress *p)
{
    if (!p->standing)
        return;
    fputs("\r\033[K", p->stream);
    fflush(p->stream);
    p->standing = false;
}

void
yki_tool_progress_update(yki_tool_progress *p, const yki_tool_view *view)
{
    double now = yki_tool_now();
    char line[TOOL_LINE];

    if (!p->live || now - p->drawn < TENTH_OF_SECOND)
        return;
    p->drawn = now;
    p->style.width = columns_of(p->stream);
    yki_tool_progress_line(line, view, &p->style);
    fprintf(p->stream, "\r%s\033[K", line);
    fflush(p->stream);
    p->standing = true;
}

void
yki_tool_progress_epoch(yki_tool_progress *p, const yki_tool_view *view)
{
    char line[TOOL_LINE];

    p->style.width = p->live ? columns_of(p->stream) : 0;
    yki_tool_progress_line(line, view, &p->style);
    fprintf(p->stream, "%s%s%s\n", p->live ? "\r" : "", line, p->live ? "\033[K" : "");
    fflush(p->stream);
    p->standing = false;
}
