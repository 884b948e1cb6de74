/* SPDX-License-Identifier: Apache-2.0
 *
 * zoo.c - makes graphs of built-in models: input, layers, output, loss and metrics.
 */
#include <string.h>

#include "zoo/zoo.h"

/* x * factor + offset, with one pair for all or, if count > 1, one for each index of axis 0. */
static yoke_node *
rescale(yoke_graph *g, yoke_node *x, size_t count, const float *factor, const float *offset)
{
    yoke_node *parts[YKI_ZOO_MOST_SPREAD];

    if (count == 1)
        return yoke_scale(g, x, factor[0], offset[0]);
    for (size_t i = 0; i < count; i++)
        parts[i] =
            yoke_scale(g, yoke_slice(g, x, 0, (int64_t)i, (int64_t)i + 1), factor[i], offset[i]);
    return yoke_concat(g, parts, count, 0);
}

/* The target with mean 0 and deviation 1. */
static yoke_node *
standardise(yoke_graph *g, yoke_node *target, const yoke_zoo_options *o)
{
    float factor[YKI_ZOO_MOST_SPREAD], offset[YKI_ZOO_MOST_SPREAD];

    for (size_t i = 0; i < o->spread_count; i++) {
        factor[i] = 1 / o->deviation[i];
        offset[i] = -o->mean[i] / o->deviation[i];
    }
    return rescale(g, target, o->spread_count, factor, offset);
}

/* 1 minus the mean squared error, where the target has variance 1: 1 at best, and 0 for a model
 * that always predicts the mean. */
static yoke_node *
r2(yoke_graph *g, yoke_node *y, yoke_node *target)
{
    yoke_node *error = yoke_sub(g, y, target);

    error = yoke_flatten(g, yoke_mul(g, error, error));
    return yoke_scale(g, yoke_mean(g, error, NULL, 0), -1, 1);
}

static void
add_values_loss(yoke_graph *g, yoke_node *y, const yoke_zoo_options *o)
{
    yoke_node *target = yoke_target(g, o->target_name, YOKE_F32, o->target), *wanted = target;
    yoke_node *prediction;

    if (o->target.rank != yoke_node_shape(y).rank)
        y = yoke_reshape(g, y, o->target);
    prediction = y;
    if (o->spread_count > 0) {
        wanted = standardise(g, target, o);
        prediction = rescale(g, y, o->spread_count, o->deviation, o->mean);
    }
    yoke_graph_set_output(g, "prediction", prediction);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, wanted, NULL));
    if (o->spread_count > 0)
        yoke_graph_add_metric(g, "r2", r2(g, y, wanted));
    yoke_graph_add_metric(g, "absolute_error", yoke_mean_absolute_error(g, prediction, target));
}

/* A label of each sample or, if `positions`, of each pixel. */
static void
add_labels_loss(yoke_graph *g, yoke_node *y, yoke_shape positions, const char *name)
{
    yoke_node *target = yoke_target(g, name, YOKE_I32, positions);

    yoke_graph_set_output(g, "logits", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, target, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, target));
}

/* The target is the input itself. */
static void
add_copies_loss(yoke_graph *g, yoke_node *y, yoke_node *x)
{
    yoke_graph_set_output(g, "prediction", y);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, x, NULL));
    yoke_graph_add_metric(g, "absolute_error", yoke_mean_absolute_error(g, y, x));
}

static int64_t
count_outputs(const yoke_zoo_model *m, const yoke_zoo_options *o)
{
    int64_t outputs = 1;

    if (m->kind == YOKE_ZOO_COPIES)
        return o->input.dim[0];
    if (o->target.rank == 0)
        return o->classes;
    if (m->kind == YOKE_ZOO_PIXELS)
        return o->target.rank == 2 ? 1 : o->target.dim[0];
    for (int32_t i = 0; i < o->target.rank; i++)
        outputs *= o->target.dim[i];
    return outputs;
}

static void
build(yoke_graph *g, const yki_zoo_row *row, const yoke_zoo_options *o)
{
    const int64_t outputs = count_outputs(&row->about, o);
    yoke_node *x, *y;

    if (row->language) {
        row->language(g, o);
        return;
    }
    x = yoke_input(g, o->input_name, YOKE_F32, o->input);
    y = row->maps ? row->maps(g, x, outputs, o->width) : row->layers(g, x, outputs);
    if (row->about.kind == YOKE_ZOO_COPIES)
        add_copies_loss(g, y, x);
    else if (o->target.rank > 0)
        add_values_loss(g, y, o);
    else if (row->about.kind == YOKE_ZOO_PIXELS)
        add_labels_loss(g, y, yoke_shape(o->input.dim[1], o->input.dim[2]), o->target_name);
    else
        add_labels_loss(g, y, yoke_shape(), o->target_name);
}

yoke_status
yoke_zoo_sized(const char *name, const yoke_zoo_options *options, size_t size, yoke_graph **out)
{
    const yki_zoo_row *row;
    yoke_zoo_options o = {0};
    yoke_graph *g;
    yoke_status status;

    YKI_GIVEN("yoke_zoo", {"name", name}, {"graph", out});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    row = yki_zoo_find(name);
    if (!row)
        return YOKE_ERROR_NOT_FOUND;
    YKI_TRY(yki_zoo_complete(row, &o));
    YKI_TRY(yoke_graph_create(&g));
    build(g, row, &o);
    status = yoke_graph_status(g);
    if (status)
        yoke_graph_destroy(g);
    else
        *out = g;
    return status;
}
