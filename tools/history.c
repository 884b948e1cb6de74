/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c - see history.h.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "source.h"

static bool
add(yki_tool_curve *c, double step, double value, double weight)
{
    yki_tool_point *more;

    while (c->count && c->points[c->count - 1].step >= step)
        c->count--;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 256;

        more = (yki_tool_point *)realloc(c->points, capacity * sizeof *more);
        if (!more)
            return false;
        c->points = more;
        c->capacity = capacity;
    }
    c->points[c->count++] = (yki_tool_point){step, value, weight};
    return true;
}

/* Values that are not numbers are null in the log; they are left out. */
static bool
add_number(yki_tool_curve *c, double step, const json_t *value)
{
    return !json_is_number(value) || add(c, step, json_number_value(value), 1);
}

static bool
add_metric(yki_tool_history *h, yki_tool_curve *c, double step, json_t *metrics)
{
    const char *name = json_object_iter_key(json_object_iter(metrics));

    if (!name)
        return true;
    if (!h->metric_name)
        h->metric_name = strdup(name);
    return h->metric_name && add_number(c, step, json_object_get(metrics, h->metric_name));
}

static bool
add_shares(yki_tool_history *h, double step, const json_t *shares)
{
    size_t count = json_array_size(shares);
    double all = 0;

    if (count > TOOL_MOST_CURVES)
        return true;
    for (size_t k = 0; k < count; k++)
        all += json_number_value(json_array_get(shares, k));
    if (count > h->devices)
        h->devices = count;
    for (size_t k = 0; k < count && all > 0; k++)
        if (!add(&h->shares[k], step, json_number_value(json_array_get(shares, k)) / all, 1))
            return false;
    return true;
}

/* Between two steps of an epoch there is nothing but training. The weight is the time, so that a
 * mean is samples by seconds. */
static bool
add_speed(yki_tool_history *h, double step, const json_t *line)
{
    const json_t *seconds = json_object_get(line, "seconds"), *epoch;
    const double before = h->seconds, last = h->epoch;
    double took;

    epoch = json_object_get(line, "epoch");
    if (!json_is_number(seconds) || !json_is_number(epoch))
        return true;
    h->seconds = json_number_value(seconds);
    h->epoch = json_number_value(epoch);
    took = h->seconds - before;
    if (h->epoch > last || h->epoch < last || !(took > 0))
        return true;
    return add(&h->speed, step, json_number_value(json_object_get(line, "samples")) / took, took);
}

/* Results come a step late, but at the end of an epoch two come at once: they become one point. */
static void
join_last(yki_tool_curve *c)
{
    yki_tool_point *last = c->count ? &c->points[c->count - 1] : NULL, *before;

    if (c->count < 2 || last[-1].step < last->step - 1)
        return;
    before = last - 1;
    before->value = (before->value * before->weight + last->value * last->weight) /
                    (before->weight + last->weight);
    before->weight += last->weight;
    before->step = last->step;
    c->count--;
}

static bool
add_start(yki_tool_history *h, const json_t *line)
{
    const json_t *devices = json_object_get(line, "devices");

    h->batch = json_number_value(json_object_get(line, "batch"));
    h->samples = json_number_value(json_object_get(line, "samples"));
    h->epoch = 0;
    for (size_t k = 0; k < json_array_size(devices) && k < TOOL_MOST_CURVES; k++) {
        const char *name = json_string_value(json_array_get(devices, k));

        free(h->names[k]);
        h->names[k] = name ? strdup(name) : NULL;
        if (name && !h->names[k])
            return false;
    }
    return true;
}

/* Returns NULL, or what is wrong with the line. */
static const char *
take_line(yki_tool_history *h, const json_t *line)
{
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const json_t *number = json_object_get(line, "step");
    double step = json_number_value(number);
    bool room = true;

    if (!kind)
        return "is not a line of a log of yoke train";
    if (strcmp(kind, "start") == 0)
        return add_start(h, line) ? NULL : "out of memory";
    if (strcmp(kind, "step") != 0 && strcmp(kind, "epoch") != 0)
        return NULL; /* a later version may write other kinds */
    if (!json_is_number(number) || !(step >= 0 && step < 1e15))
        return "has no step";
    if (strcmp(kind, "step") == 0)
        room = add_number(&h->loss, step, json_object_get(line, "loss")) &&
               add_metric(h, &h->metric, step, json_object_get(line, "metrics")) &&
               add_number(&h->rate, step, json_object_get(line, "rate")) &&
               add_speed(h, step, line) && add_shares(h, step, json_object_get(line, "shares"));
    else
        room = add_number(&h->test_loss, step, json_object_get(line, "test_loss")) &&
               add_metric(h, &h->test_metric, step, json_object_get(line, "test_metrics"));
    if (strcmp(kind, "epoch") == 0) {
        h->epochs = json_number_value(json_object_get(line, "epoch"));
        join_last(&h->speed);
    }
    if (step > h->steps)
        h->steps = step;
    return room ? NULL : "out of memory";
}

yoke_status
yki_tool_history_read(const char *path, yki_tool_history *h)
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

void
yki_tool_history_clear(yki_tool_history *h)
{
    yki_tool_curve *const curves[] = {&h->loss,        &h->test_loss, &h->metric,
                                      &h->test_metric, &h->rate,      &h->speed};

    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        free(curves[i]->points);
    for (size_t k = 0; k < TOOL_MOST_CURVES; k++) {
        free(h->shares[k].points);
        free(h->names[k]);
    }
    free(h->metric_name);
    memset(h, 0, sizeof *h);
}
