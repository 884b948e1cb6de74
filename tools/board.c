/* SPDX-License-Identifier: Apache-2.0
 *
 * board.c - what TensorBoard shows of a training: loss, metrics, learning rate, speed and shares of
 * each step; of each epoch the test, and the weights as histograms; and some samples.
 *
 * What cannot be written is told at the end, as training goes on without it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "fields.h"
#include "options.h"

enum { SHOWN = 4, NAME = 160 };
#define BETWEEN_FLUSHES 2.0 /* seconds */

yoke_status
yki_tool_board_open(yki_tool_board *b, const char *folder, bool speaks)
{
    b->folder = folder;
    return folder && speaks ? yoke_board_create(folder, &b->board) : YOKE_OK;
}

/* After a failure nothing more is written. */
static void
note(yki_tool_board *b, yoke_status status)
{
    if (!status || !b->board)
        return;
    snprintf(b->why, sizeof b->why, "%s", yoke_last_error());
    yoke_board_destroy(b->board);
    b->board = NULL;
}

static void
add_scalar(yki_tool_board *b, const char *group, const char *name, int64_t step, double number)
{
    char tag[NAME];

    snprintf(tag, sizeof tag, "%s/%s", group, name);
    if (b->board)
        note(b, yoke_board_add_scalar(b->board, tag, step, number));
}

static void
add_result(yki_tool_board *b, const char *group, int64_t step, const yoke_result *result,
           const char *const *metrics)
{
    add_scalar(b, group, "loss", step, result->loss);
    for (size_t i = 0; i < result->metric_count && i < YOKE_MAX_METRICS; i++)
        if (metrics[i])
            add_scalar(b, group, metrics[i], step, result->metrics[i]);
}

/* ---- samples ---- */

/* Images of two axes have one channel; others are shown if they are gray or have colours. */
static bool
as_image(yoke_shape *shape)
{
    if (shape->rank == 2)
        *shape = yoke_shape(1, shape->dim[0], shape->dim[1]);
    return shape->rank == 3 && (shape->dim[0] == 1 || shape->dim[0] == 3);
}

/* Bytes go from 0 to 255, other numbers from the least to the largest of the image. */
static yoke_status
add_sample(yki_tool_board *b, int place, int64_t step, const void *sample, float *pixels)
{
    yoke_shape shape = b->data->shape;
    const size_t count = yki_tool_values_of(shape);
    float least = INFINITY, most = -INFINITY;
    char tag[NAME];

    as_image(&shape);
    for (size_t i = 0; i < count; i++) {
        pixels[i] = (float)yki_tool_number_at(b->data->type, sample, i);
        least = fminf(least, pixels[i]);
        most = fmaxf(most, pixels[i]);
    }
    if (b->data->type == YOKE_U8) {
        least = 0;
        most = 255;
    }
    snprintf(tag, sizeof tag, "samples/%d", place + 1);
    return yoke_board_add_image(b->board, tag, step, pixels, shape, least, most);
}

/* Without libpng, and for shapes that are no images, there are none. */
static void
add_samples(yki_tool_board *b, int64_t step)
{
    const int64_t count = yoke_dataset_count(b->samples);
    yoke_shape shape = b->data->shape;
    size_t values = yki_tool_values_of(shape), bytes = values * yki_tool_type_bytes(b->data->type);
    yoke_status status = YOKE_OK;
    void *sample;
    float *pixels;

    if (!as_image(&shape))
        return;
    sample = malloc(bytes);
    pixels = malloc(values * sizeof *pixels);
    for (int i = 0; i < SHOWN && i < count && sample && pixels && !status; i++) {
        const int64_t index = count < SHOWN ? i : count * i / SHOWN;

        status = yoke_dataset_read(b->samples, b->data->name, &index, 1, sample, bytes);
        if (!status)
            status = add_sample(b, i, step, sample, pixels);
    }
    free(sample);
    free(pixels);
    if (status == YOKE_ERROR_IO)
        note(b, status);
}

/* ---- steps and epochs ---- */

/* Whoever looks on sees what happened up to now. */
static void
flush(yki_tool_board *b, bool at_once)
{
    const double now = yki_tool_now();

    if (!b->board || (!at_once && now - b->flushed < BETWEEN_FLUSHES))
        return;
    b->flushed = now;
    note(b, yoke_board_flush(b->board));
}

/* A training that is resumed may go back behind steps that it lost. */
static void
begin(yki_tool_board *b, int64_t step)
{
    b->begun = true;
    if (step > 1)
        note(b, yoke_board_restart(b->board, step));
    if (b->board && b->samples && b->data)
        add_samples(b, step - 1);
}

void
yki_tool_board_add_step(yki_tool_board *b, const yki_tool_board_step *s)
{
    const yoke_result *r = s->result;

    if (!b->board)
        return;
    if (!b->begun)
        begin(b, r->step);
    add_result(b, "train", r->step, r, s->metrics);
    add_scalar(b, "train", "learning_rate", r->step, s->rate);
    if (r->seconds > 0)
        add_scalar(b, "train", "samples_per_second", r->step, (double)r->samples / r->seconds);
    for (size_t k = 0; k < s->devices; k++)
        add_scalar(b, "shares", s->names[k], r->step, (double)s->shares[k]);
    flush(b, false);
}

/* With several processes each has to read. */
static void
add_weights(yki_tool_board *b, yoke_trainer *trainer, int64_t step)
{
    const yoke_graph *graph = yoke_trainer_get_graph(trainer);
    const size_t parameters = yoke_graph_parameter_count(graph);
    char tag[NAME];

    for (size_t i = 0; i < parameters; i++) {
        const yoke_node *parameter = yoke_graph_get_parameter(graph, i);
        const char *name = yoke_node_name(parameter);
        const size_t count = yki_tool_values_of(yoke_node_shape(parameter));
        float *values = malloc(count * sizeof *values);

        if (values && !yoke_trainer_read(trainer, name, values, (int64_t)count) && b->board) {
            snprintf(tag, sizeof tag, "weights/%s", name);
            note(b, yoke_board_add_histogram(b->board, tag, step, values, (int64_t)count));
        }
        free(values);
    }
}

void
yki_tool_board_add_epoch(yki_tool_board *b, yoke_trainer *trainer, const yoke_epoch *e,
                         const char *const *metrics)
{
    if (!b->folder)
        return;
    add_result(b, "epoch", e->step, e->train, metrics);
    if (e->test->samples)
        add_result(b, "test", e->step, e->test, metrics);
    add_scalar(b, "epoch", "samples_per_second", e->step, e->samples_per_second);
    add_weights(b, trainer, e->step);
    flush(b, true);
}

yoke_status
yki_tool_board_close(yki_tool_board *b, yoke_status status)
{
    flush(b, true);
    yoke_board_destroy(b->board);
    b->board = NULL;
    return status || !b->why[0] ? status : yoke_fail(YOKE_ERROR_IO, b->why);
}
