/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.c - `yoke plot LOG`: draws a training as SVG.
 *
 * The picture has three panels over the steps: loss, the first metric, and the stacked
 * shares of the devices. Values from training are a thin line, values from tests a line
 * with dots. If a log has a step twice, after a resumed training, the later one counts.
 * If there are more steps than pixels, each pixel shows a mean.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "source.h"

enum { MAX_DEVICES = 64, WIDTH = 860, LEFT = 70, PANEL = 200, GAP = 46, TOP = 40, PLOT = 640 };

typedef struct request {
    const char *out, *log; /* `out` NULL: standard output */
} request;

static const yki_tool_option options[] = {
    {"out", 'o', "FILE", "write the picture there (default: standard output)",
     TOOL_TEXT(request, out)},
    {0},
};

typedef struct point {
    double step, value;
} point;

typedef struct curve {
    point *points;
    size_t count, capacity;
} curve;

typedef struct history {
    curve loss, test_loss, metric, test_metric;
    curve shares[MAX_DEVICES];
    size_t devices;
    char *names[MAX_DEVICES];
    char *metric_name;
    double steps; /* the number of the last one */
} history;

/* ---- reading ---- */

static bool
add(curve *c, double step, double value)
{
    point *more;

    while (c->count && c->points[c->count - 1].step >= step)
        c->count--;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 256;

        more = (point *)realloc(c->points, capacity * sizeof *more);
        if (!more)
            return false;
        c->points = more;
        c->capacity = capacity;
    }
    c->points[c->count++] = (point){step, value};
    return true;
}

/* Values that are not numbers are null in the log; they are left out. */
static bool
add_number(curve *c, double step, const json_t *value)
{
    return !json_is_number(value) || add(c, step, json_number_value(value));
}

static bool
add_metric(history *h, curve *c, double step, json_t *metrics)
{
    const char *name = json_object_iter_key(json_object_iter(metrics));

    if (!name)
        return true;
    if (!h->metric_name)
        h->metric_name = strdup(name);
    return h->metric_name && add_number(c, step, json_object_get(metrics, h->metric_name));
}

static bool
add_shares(history *h, double step, const json_t *shares)
{
    size_t count = json_array_size(shares);
    double all = 0;

    if (count > MAX_DEVICES)
        return true;
    for (size_t k = 0; k < count; k++)
        all += json_number_value(json_array_get(shares, k));
    if (count > h->devices)
        h->devices = count;
    for (size_t k = 0; k < count && all > 0; k++)
        if (!add(&h->shares[k], step, json_number_value(json_array_get(shares, k)) / all))
            return false;
    return true;
}

static bool
add_names(history *h, const json_t *devices)
{
    for (size_t k = 0; k < json_array_size(devices) && k < MAX_DEVICES; k++) {
        const char *name = json_string_value(json_array_get(devices, k));

        free(h->names[k]);
        h->names[k] = name ? strdup(name) : NULL;
    }
    return true;
}

/* Returns NULL, or what is wrong with the line. */
static const char *
take_line(history *h, const json_t *line)
{
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const json_t *number = json_object_get(line, "step");
    double step = json_number_value(number);
    bool room = true;

    if (!kind)
        return "is not a line of a log of yoke train";
    if (strcmp(kind, "start") == 0)
        return add_names(h, json_object_get(line, "devices")) ? NULL : "out of memory";
    if (strcmp(kind, "step") != 0 && strcmp(kind, "epoch") != 0)
        return NULL; /* a later version may write other kinds */
    if (!json_is_number(number) || !(step >= 0 && step < 1e15))
        return "has no step";
    if (strcmp(kind, "step") == 0)
        room = add_number(&h->loss, step, json_object_get(line, "loss")) &&
               add_metric(h, &h->metric, step, json_object_get(line, "metrics")) &&
               add_shares(h, step, json_object_get(line, "shares"));
    else
        room = add_number(&h->test_loss, step, json_object_get(line, "test_loss")) &&
               add_metric(h, &h->test_metric, step, json_object_get(line, "test_metrics"));
    if (step > h->steps)
        h->steps = step;
    return room ? NULL : "out of memory";
}

static yoke_status
read_log(const char *path, history *h)
{
    char *text, *line, *next, sentence[512];
    const char *wrong = NULL;
    size_t length, number = 0;
    yoke_status status =
        yki_tool_read_text(path, "a log that yoke train --log wrote", &text, &length);

    if (status)
        return status;
    for (line = text; *line && !wrong; line = next) {
        size_t end = strcspn(line, "\n");
        json_error_t error;
        json_t *value;

        number++;
        next = line + end + (line[end] == '\n');
        value = json_loadb(line, end, 0, &error);
        if (json_is_object(value))
            wrong = take_line(h, value);
        else if (end > 0 && *next) /* the last line may be incomplete */
            wrong = "is no object of JSON";
        json_decref(value);
    }
    free(text);
    if (wrong)
        snprintf(sentence, sizeof sentence, "%s: line %zu %s", path, number, wrong);
    else
        snprintf(sentence, sizeof sentence,
                 "%s: has no step of a training; yoke train --log "
                 "writes such files",
                 path);
    return wrong || h->loss.count == 0 ? yoke_fail(YOKE_ERROR_FORMAT, sentence) : YOKE_OK;
}

/* ---- drawing ---- */

typedef struct panel {
    FILE *stream;
    double top, low, high, steps;
} panel;

static double
x_of(const panel *p, double step)
{
    return LEFT + PLOT * (p->steps > 0 ? step / p->steps : 0);
}

static double
y_of(const panel *p, double value)
{
    return p->top + PANEL * (1 - (value - p->low) / (p->high - p->low));
}

static void
text(FILE *f, double x, double y, const char *anchor, const char *words)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *words; words++) {
        if (*words == '<' || *words == '>' || *words == '&' || (unsigned char)*words < 0x20)
            fputs(*words == '<'   ? "&lt;"
                  : *words == '&' ? "&amp;"
                  : *words == '>' ? "&gt;"
                                  : "?",
                  f);
        else
            fputc(*words, f);
    }
    fputs("</text>\n", f);
}

/* The distance of grid lines: 1, 2 or 5 times a power of ten, 4 to 10 of which fill the range. */
static double
tick(double range)
{
    double base = pow(10, floor(log10(range)));

    return range / base < 2 ? base / 5 : range / base < 5 ? base / 2 : base;
}

static void
draw_frame(const panel *p, const char *title)
{
    double step = tick(p->high - p->low), across = tick(p->steps > 1 ? p->steps : 1);
    char number[40];

    fprintf(p->stream, "<g class=\"grid\">\n");
    for (double v = ceil(p->low / step) * step; v <= p->high + step * 1e-6; v += step)
        fprintf(p->stream, "<path d=\"M%d %.1fh%d\"/>\n", LEFT, y_of(p, v), PLOT);
    fprintf(p->stream, "</g>\n");
    for (double v = ceil(p->low / step) * step; v <= p->high + step * 1e-6; v += step) {
        snprintf(number, sizeof number, "%.4g", fabs(v) < step * 1e-6 ? 0 : v);
        text(p->stream, LEFT - 8, y_of(p, v) + 4, "end", number);
    }
    for (double v = 0; v <= p->steps; v += across) {
        snprintf(number, sizeof number, "%.6g", v);
        text(p->stream, x_of(p, v), p->top + PANEL + 16, "middle", number);
    }
    text(p->stream, LEFT, p->top - 8, "start", title);
}

/* Draws one mean for each pixel. */
static void
draw_curve(const panel *p, const curve *c, const char *class)
{
    fprintf(p->stream, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0, drawn = 0; i < c->count;) {
        double x = floor(x_of(p, c->points[i].step)), sum = 0;
        size_t first = i;

        while (i < c->count && floor(x_of(p, c->points[i].step)) <= x)
            sum += c->points[i++].value;
        fprintf(p->stream, "%s%.1f %.1f", drawn++ ? "L" : "M", x_of(p, c->points[first].step),
                y_of(p, sum / (double)(i - first)));
    }
    fprintf(p->stream, "\"/>\n");
}

static void
draw_dots(const panel *p, const curve *c)
{
    for (size_t i = 0; i < c->count && c->count <= 200; i++)
        fprintf(p->stream, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n",
                x_of(p, c->points[i].step), y_of(p, c->points[i].value));
}

static void
widen(const curve *c, double *low, double *high)
{
    for (size_t i = 0; i < c->count; i++) {
        *low = fmin(*low, c->points[i].value);
        *high = fmax(*high, c->points[i].value);
    }
}

static void
draw_pair(panel *p, const curve *train, const curve *test, const char *name)
{
    char title[200];

    p->low = INFINITY;
    p->high = -INFINITY;
    widen(train, &p->low, &p->high);
    widen(test, &p->low, &p->high);
    if (p->low > 0 && p->low < 0.5 * p->high)
        p->low = 0;
    if (!(p->high > p->low)) {
        p->low -= 0.5;
        p->high = p->low + 1;
    }
    snprintf(title, sizeof title, "%s (line: trained, dots: tested)", name);
    draw_frame(p, title);
    draw_curve(p, train, "train");
    draw_curve(p, test, "test");
    draw_dots(p, test);
}

/* The sum of the shares of the devices before this one, at its point i. */
static double
below(const history *h, size_t device, size_t i)
{
    double sum = 0;

    for (size_t k = 0; k < device; k++)
        if (i < h->shares[k].count)
            sum += h->shares[k].points[i].value;
    return sum;
}

static void
draw_shares(panel *p, const history *h)
{
    p->low = 0;
    p->high = 1;
    draw_frame(p, "share of each device");
    for (size_t k = 0; k < h->devices; k++) {
        const curve *c = &h->shares[k];
        size_t stride = c->count / PLOT + 1, last = c->count ? (c->count - 1) / stride * stride : 0;
        double middle = c->count ? below(h, k, last) + c->points[last].value / 2 : 0;

        fprintf(p->stream, "<path style=\"fill:hsl(%zu,55%%,60%%)\" d=\"", (210 + k * 137) % 360);
        for (size_t i = 0; i < c->count; i += stride)
            fprintf(p->stream, "%s%.1f %.1f", i ? "L" : "M", x_of(p, c->points[i].step),
                    y_of(p, below(h, k, i) + c->points[i].value));
        for (size_t i = last + stride; c->count && i >= stride; i -= stride)
            fprintf(p->stream, "L%.1f %.1f", x_of(p, c->points[i - stride].step),
                    y_of(p, below(h, k, i - stride)));
        fprintf(p->stream, "\"/>\n");
        if (h->names[k] && c->count)
            text(p->stream, LEFT + PLOT + 8, y_of(p, middle) + 4, "start", h->names[k]);
    }
}

static void
draw(FILE *stream, const history *h, const char *path)
{
    bool metric = h->metric.count + h->test_metric.count > 0, shares = h->devices > 0;
    int panels = 1 + metric + shares, height = TOP + panels * (PANEL + GAP);
    panel p = {.stream = stream, .top = TOP, .steps = h->steps};

    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n"
            "<style>text{font:12px sans-serif;fill:#333}.grid path{stroke:#ddd}"
            "path{fill:none;stroke-width:1.2}.train{stroke:#4a7ebb}.test{stroke:#c0504d}"
            ".dot{fill:#c0504d}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, height, WIDTH, height);
    text(stream, LEFT, 16, "start", path);
    draw_pair(&p, &h->loss, &h->test_loss, "loss");
    p.top += PANEL + GAP;
    if (metric) {
        draw_pair(&p, &h->metric, &h->test_metric, h->metric_name);
        p.top += PANEL + GAP;
    }
    if (shares)
        draw_shares(&p, h);
    fputs("</svg>\n", stream);
}

static void
clear(history *h)
{
    free(h->loss.points);
    free(h->test_loss.points);
    free(h->metric.points);
    free(h->test_metric.points);
    for (size_t k = 0; k < MAX_DEVICES; k++) {
        free(h->shares[k].points);
        free(h->names[k]);
    }
    free(h->metric_name);
}

static yoke_status
write_picture(const char *out, const history *h, const char *path)
{
    FILE *stream = out ? fopen(out, "w") : stdout;
    char sentence[512];
    bool good;

    if (stream) {
        draw(stream, h, path);
        good = fflush(stream) == 0 && !ferror(stream);
        if (out && fclose(stream) != 0)
            good = false;
        if (good || !out) /* main checks standard output when the command ends */
            return YOKE_OK;
    }
    snprintf(sentence, sizeof sentence, "%s: cannot be written: %s", out, strerror(errno));
    return yoke_fail(YOKE_ERROR_IO, sentence);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    static history h;
    request wanted = {0};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yoke_status failed;

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "log",
            "no log is given; must be a file that \"yoke train --log\" wrote", &wanted.log);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    failed = read_log(wanted.log, &h);
    if (!failed)
        failed = write_picture(wanted.out, &h, wanted.log);
    if (failed)
        status = yki_tool_fail(self, failed);
    clear(&h);
    return status;
}

const yki_tool_command yki_tool_plot = {
    .name = "yoke plot",
    .synopsis = "[OPTION]... LOG",
    .summary = "draw loss, accuracy and shares of a training",
    .description =
        "Draw what \"yoke train --log\" wrote: loss, accuracy and the shares of the devices\n"
        "over the steps, as a picture in SVG.",
    .options = options,
    .run = run,
    .example = "yoke plot --out=training.svg training.jsonl",
};
