/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c - the results of each epoch, kept by the trainer and by its checkpoints.
 *
 * A checkpoint has them as JSON. Numbers are texts such as "0x1.8p+1", so that the values read are
 * the values written. A very long history loses its oldest epochs there, because the header of a
 * file has a limit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/history.h"

/* Bytes of text, roughly: well below the 100 MB that a header may have. */
enum { MAX_TEXT = 1 << 24, NUMBER_TEXT = 26 };

void
yki_history_cut(yoke_trainer *t, size_t count)
{
    for (size_t i = count; i < t->history.count; i++) {
        yki_free((void *)t->history.epochs[i]->told.shares);
        yki_free((void *)t->history.epochs[i]->told.device_losses);
        yki_free(t->history.epochs[i]);
    }
    t->history.count = YKI_MIN(count, t->history.count);
}

void
yki_history_clear(yoke_trainer *t)
{
    yki_history_cut(t, 0);
}

yoke_status
yki_history_add(yoke_trainer *t, const yoke_epoch *epoch, const yoke_epoch **added)
{
    double *shares, *losses;
    yki_epoch *copy;

    YKI_TRY(yki_grow((void **)&t->history.epochs, &t->history.capacity, t->history.count + 1,
                     sizeof *t->history.epochs, "a history"));
    shares = yki_alloc(epoch->devices, sizeof *shares, "a history");
    losses = yki_alloc(epoch->devices, sizeof *losses, "a history");
    copy = yki_alloc(1, sizeof *copy, "a history");
    if (!shares || !losses || !copy) {
        yki_free(shares);
        yki_free(losses);
        yki_free(copy);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    memcpy(shares, epoch->shares, epoch->devices * sizeof *shares);
    memcpy(losses, epoch->device_losses, epoch->devices * sizeof *losses);
    copy->told = *epoch;
    copy->train = *epoch->train;
    copy->test = *epoch->test;
    copy->told.train = &copy->train;
    copy->told.test = &copy->test;
    copy->told.shares = shares;
    copy->told.device_losses = losses;
    t->history.epochs[t->history.count++] = copy;
    if (added)
        *added = &copy->told;
    return YOKE_OK;
}

/* ---- JSON ---- */

json_t *
yki_history_numbers(const double *values, size_t count)
{
    json_t *list = json_array();
    char text[40];

    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%a", values[i]);
        json_array_append_new(list, json_string(text));
    }
    return list;
}

size_t
yki_history_take_numbers(const json_t *list, double *values, size_t most)
{
    size_t count = YKI_MIN(json_array_size(list), most);

    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));

        values[i] = text ? strtod(text, NULL) : (double)NAN;
    }
    return count;
}

/* An array: loss, count, seconds, then the metrics. */
static json_t *
result_json(const yoke_result *r)
{
    double values[3 + YOKE_MAX_METRICS] = {r->loss, r->count, r->seconds};

    memcpy(values + 3, r->metrics, sizeof r->metrics);
    return json_pack("{s:I, s:I, s:o}", "samples", (json_int_t)r->samples, "step",
                     (json_int_t)r->step, "values",
                     yki_history_numbers(values, 3 + r->metric_count));
}

static bool
take_result(const json_t *json, yoke_result *r)
{
    double values[3 + YOKE_MAX_METRICS] = {0};
    size_t count =
        yki_history_take_numbers(json_object_get(json, "values"), values, 3 + YOKE_MAX_METRICS);

    if (count < 3)
        return false;
    r->loss = values[0];
    r->count = values[1];
    r->seconds = values[2];
    memcpy(r->metrics, values + 3, sizeof r->metrics);
    r->metric_count = count - 3;
    r->samples = (int64_t)json_integer_value(json_object_get(json, "samples"));
    r->step = (int64_t)json_integer_value(json_object_get(json, "step"));
    return true;
}

static json_t *
epoch_json(const yoke_epoch *e)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "epoch", (json_int_t)e->epoch, "step",
                     (json_int_t)e->step, "train", result_json(e->train), "test",
                     result_json(e->test), "rate", yki_history_numbers(&e->samples_per_second, 1),
                     "shares", yki_history_numbers(e->shares, e->devices), "losses",
                     yki_history_numbers(e->device_losses, e->devices));
}

json_t *
yki_history_json(const yoke_trainer *t)
{
    json_t *list = json_array();
    size_t text = 0, first = t->history.count;

    while (first > 0 && text < MAX_TEXT) {
        const yoke_epoch *e = &t->history.epochs[--first]->told;

        text +=
            NUMBER_TEXT * (12 + e->train->metric_count + e->test->metric_count + 2 * e->devices);
    }
    for (size_t i = first; i < t->history.count; i++)
        json_array_append_new(list, epoch_json(&t->history.epochs[i]->told));
    return list;
}

static yoke_status
take_epoch(yoke_trainer *t, const json_t *json, double *numbers)
{
    const json_t *shares = json_object_get(json, "shares");
    yoke_result train = {0}, test = {0};
    yoke_epoch e = {.train = &train, .test = &test};

    e.devices = json_array_size(shares);
    e.epoch = (int64_t)json_integer_value(json_object_get(json, "epoch"));
    e.step = (int64_t)json_integer_value(json_object_get(json, "step"));
    e.shares = numbers;
    e.device_losses = numbers + e.devices;
    if (!take_result(json_object_get(json, "train"), &train) ||
        !take_result(json_object_get(json, "test"), &test) ||
        yki_history_take_numbers(json_object_get(json, "rate"), &e.samples_per_second, 1) != 1 ||
        yki_history_take_numbers(shares, numbers, e.devices) != e.devices ||
        yki_history_take_numbers(json_object_get(json, "losses"), numbers + e.devices, e.devices) !=
            e.devices)
        return yki_fail(YOKE_ERROR_FORMAT, "the checkpoint is damaged: its history cannot be read");
    return yki_history_add(t, &e, NULL);
}

yoke_status
yki_history_take(yoke_trainer *t, const json_t *list)
{
    yki_history_clear(t);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *json = json_array_get(list, i);
        size_t devices = json_array_size(json_object_get(json, "shares"));
        double *numbers = yki_alloc(2 * devices + 1, sizeof *numbers, "a history");
        yoke_status status = numbers ? take_epoch(t, json, numbers) : YOKE_ERROR_OUT_OF_MEMORY;

        yki_free(numbers);
        YKI_TRY(status);
    }
    return YOKE_OK;
}
