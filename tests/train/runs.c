/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.c - training runs that are compared; see runs.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/runs.h"
#include "train/saved_tensors.h"

enum { WIDTH = 12, HIDDEN = 24, VALUES = 4, CHANNELS = 3, SIZE = 8, ROWS = 6 };

/* Rounding after 20 steps of sums in another order: a few ulp each, through nets of this size. */
static const double TOLERANCE = 1e-5;

bool
team_find(test_setup setup, test_devices *devices, yoke_device_info info[2])
{
    yoke_device_info first, second;
    yoke_selection *selection;

    if (!test_devices_find(setup, devices))
        return false;
    for (int attempt = 0; attempt < 2; attempt++) {
        ASSERT_OK(yoke_selection_create(devices->context, devices->selector, NULL, &selection));
        ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, 0), &first));
        if (yoke_selection_count(selection) > 1)
            break;
        ck_assert_int_eq(attempt, 0);
        yoke_selection_destroy(selection);
        snprintf(devices->selector, sizeof devices->selector, "%s/2", first.parent);
    }
    ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, 1), &second));
    yoke_selection_destroy(selection);
    if (info) {
        info[0] = first;
        info[1] = second;
    }
    return true;
}

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units});
}

static yoke_node *
block(yoke_graph *g, yoke_node *x, int64_t filters, bool local)
{
    x = yoke_conv2d(g, x,
                    &(yoke_conv2d_options){.filters = filters, .kernel = {3, 3}, .pad = {1, 1}});
    x = yoke_batch_norm(g, x, &(yoke_batch_norm_options){.local = local});
    return yoke_silu(g, x);
}

static yoke_node *
image_net(yoke_graph *g, team_net net)
{
    const bool local = net == TEAM_LOCAL;
    const int64_t filters = net == TEAM_WIDE ? 16 : 6;
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(CHANNELS, SIZE, SIZE));

    x = block(g, x, filters, local);
    x = yoke_avgpool2d(g, x, &(yoke_pool2d_options){.kernel = {2, 2}});
    x = block(g, x, filters + 2, local);
    return dense(g, yoke_flatten(g, x), TEAM_CLASSES);
}

static yoke_node *
sequence_net(yoke_graph *g)
{
    const yoke_initializer places = {YOKE_INIT_NORMAL, 0, 0.5f, 0};
    yoke_node *x = yoke_sequence(g, yoke_input(g, "x", YOKE_F32, yoke_shape(ROWS, WIDTH)));

    x = yoke_add(g, x, yoke_parameter(g, "places", yoke_shape(ROWS, WIDTH), places));
    x = yoke_attention(g, dense(g, x, 3 * HIDDEN), NULL,
                       &(yoke_attention_options){.heads = 2, .causal = true, .dropout = 0.2f});
    x = yoke_layer_norm(g, yoke_dropout(g, x, 0.3f), NULL);
    return dense(g, x, TEAM_CLASSES);
}

static bool
has_images(team_net net)
{
    return net == TEAM_CONV || net == TEAM_LOCAL || net == TEAM_WIDE;
}

/* Of a sample a weight between 1 / 100 and 100, by its first number. */
static void
weigh(yoke_graph *g, yoke_loss_options *o)
{
    const float classes[TEAM_CLASSES] = {1, 0.25f, 3, 0, 0.5f};
    yoke_node *first = yoke_slice(g, yoke_graph_get_node(g, "x"), 0, 0, 1);

    o->class_weights = yoke_constant(g, "classes", yoke_shape(TEAM_CLASSES), classes);
    o->weights = yoke_reshape(g, yoke_exp(g, yoke_scale(g, first, 4.6f, 0)), yoke_shape());
}

yoke_graph *
team_graph(team_net net)
{
    yoke_graph *g;
    yoke_node *y, *target;

    ASSERT_OK(yoke_graph_create(&g));
    if (has_images(net)) {
        y = image_net(g, net);
    } else if (net == TEAM_SEQUENCE) {
        y = sequence_net(g);
    } else {
        y = yoke_tanh(g, dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH)), HIDDEN));
        if (net == TEAM_DROPOUT)
            y = yoke_dropout(g, y, 0.3f);
        y = dense(g, y, net == TEAM_REGRESSION ? VALUES : TEAM_CLASSES);
    }
    yoke_graph_set_output(g, "y", y);
    if (net == TEAM_REGRESSION) {
        target = yoke_target(g, "target", YOKE_F32, yoke_shape(VALUES));
        yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
        yoke_graph_add_metric(g, "distance", yoke_mean_absolute_error(g, y, target));
    } else {
        yoke_loss_options o = {.has_ignore_index = true, .ignore_index = TEAM_IGNORED};

        if (net == TEAM_SEQUENCE)
            target = yoke_sequence(g, yoke_target(g, "target", YOKE_I32, yoke_shape(ROWS)));
        else
            target = yoke_target(g, "target", YOKE_I32, yoke_shape());
        if (net == TEAM_WEIGHTED)
            weigh(g, &o);
        yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, target, &o));
        yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, target));
    }
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* ---- data: a function of the sample's number ---- */

static double
noise(uint32_t sample, uint32_t element)
{
    uint32_t x = sample * 2654435761u + element * 40503u + 12345u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    x *= 3266489917u;
    x ^= x >> 16;
    return x / 2147483648.0 - 1;
}

static int64_t
batch_of(const team_run *run)
{
    return run->batch ? run->batch : 24;
}

static bool
ignored(const team_run *run, int64_t in_batch)
{
    switch (run->ignored) {
    case TEAM_FIRST_IGNORED:
        return in_batch < batch_of(run) / 2 && in_batch % 5 != 0;
    case TEAM_ALL_BUT_LAST:
        return in_batch != batch_of(run) - 1;
    case TEAM_ALL_IGNORED:
        return true;
    default:
        return false;
    }
}

/* Every step has another length, and every sample another number of labels that count. */
static size_t
sequence_feeds(const team_run *run, int64_t first, int64_t n, yoke_feed feeds[2])
{
    static float x[TEAM_SAMPLES * ROWS * WIDTH];
    static int32_t labels[TEAM_SAMPLES * ROWS];
    const int64_t length = ROWS - first / batch_of(run) % ROWS;

    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < length; t++) {
            uint32_t sample = (uint32_t)((first + i) % TEAM_SAMPLES), row = (uint32_t)(t * WIDTH);

            for (uint32_t j = 0; j < WIDTH; j++)
                x[(i * length + t) * WIDTH + j] = (float)noise(sample, row + j);
            labels[i * length + t] =
                ignored(run, i) || (t + i) % 4 < i % 3
                    ? TEAM_IGNORED
                    : (int32_t)((noise(sample, row) + 1) * 0.4999 * TEAM_CLASSES);
        }
    feeds[0] = yoke_feed_f32("x", x, n * length * WIDTH);
    feeds[1] = yoke_feed_i32("target", labels, n * length);
    return 2;
}

size_t
team_feeds(const team_run *run, int64_t first, int64_t n, yoke_feed feeds[2])
{
    static float x[TEAM_SAMPLES * CHANNELS * SIZE * SIZE], values[TEAM_SAMPLES * VALUES];
    static int32_t labels[TEAM_SAMPLES];
    const uint32_t size = has_images(run->net) ? CHANNELS * SIZE * SIZE : WIDTH;

    ck_assert_int_le(n, TEAM_SAMPLES);
    if (run->net == TEAM_SEQUENCE)
        return sequence_feeds(run, first, n, feeds);
    for (int64_t i = 0; i < n; i++) {
        uint32_t sample = (uint32_t)((first + i) % TEAM_SAMPLES);
        double best = -9;

        for (uint32_t j = 0; j < size; j++)
            x[(size_t)i * size + j] = (float)noise(sample, j);
        for (uint32_t j = 0; j < VALUES; j++)
            values[i * VALUES + j] = (float)(noise(sample, j) * noise(sample, j + 1));
        for (int32_t c = 0; c < TEAM_CLASSES; c++)
            if (noise(sample, (uint32_t)c) > best) {
                best = noise(sample, (uint32_t)c);
                labels[i] = c;
            }
        if (ignored(run, i))
            labels[i] = TEAM_IGNORED;
    }
    feeds[0] = yoke_feed_f32("x", x, n * size);
    feeds[1] = run->net == TEAM_REGRESSION ? yoke_feed_f32("target", values, n * VALUES)
                                           : yoke_feed_i32("target", labels, n);
    return 2;
}

yoke_dataset *
team_dataset(const team_run *run, int64_t first, int64_t n)
{
    const bool values = run->net == TEAM_REGRESSION;
    yoke_field fields[2] = {
        {.name = "x",
         .type = YOKE_F32,
         .shape = has_images(run->net) ? yoke_shape(CHANNELS, SIZE, SIZE) : yoke_shape(WIDTH)},
        {.name = "target",
         .type = values ? YOKE_F32 : YOKE_I32,
         .shape = values ? yoke_shape(VALUES) : yoke_shape()}};
    yoke_feed feeds[2];
    yoke_dataset *dataset;

    team_feeds(run, first, n, feeds);
    for (int i = 0; i < 2; i++)
        fields[i].data = feeds[i].data;
    ASSERT_OK(yoke_dataset_create(n, fields, 2, NULL, &dataset));
    return dataset;
}

/* ---- runs ---- */

yoke_trainer_options
team_options(const team_run *run)
{
    return (yoke_trainer_options){
        .optimizer = run->optimizer.learning_rate > 0 ? run->optimizer : yoke_sgd(0.1f, 0),
        .batch = batch_of(run),
        .seed = run->seed ? run->seed : 1,
        .accumulate = run->accumulate,
        .shares = run->shares,
        .strict = !run->any_class,
        .wisdom = run->wisdom,
        .precision = run->precision,
        .level = YOKE_PLAN_ESTIMATE,
        .bucket_bytes = run->bucket_bytes,
        .clip_norm = run->clip_norm,
        .average = run->average,
        .shard = run->shard,
        .shard_by = run->shard_by,
        .recompute = run->recompute,
        .recompute_bytes = run->recompute_bytes,
        .reproducible = run->any_split ? YOKE_REPRODUCIBLE_ANY_SPLIT : YOKE_REPRODUCIBLE_NO,
        .granule = run->granule,
        .recheck = run->recheck,
        .wire = run->wire,
        .core_groups = run->core_groups,
        .state = run->state,
        .own_weights = run->own_weights,
        .stages = run->stages,
        .loss_scale = run->loss_scale,
    };
}

yoke_trainer *
team_trainer(yoke_context *context, const team_run *run)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = team_graph(run->net);
    yoke_trainer *trainer;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(context, run->selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &trainer));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return trainer;
}

yki_event
team_hold(yki_queue *queue)
{
    yki_event gate;

    ASSERT_OK(yki_gate_create(yki_queue_device(queue), &gate));
    ASSERT_OK(yki_queue_marker(queue, (yki_wait){&gate, 1}, NULL));
    ASSERT_OK(yki_queue_flush(queue));
    return gate;
}

yoke_status
team_step(const team_run *run, yoke_trainer *trainer, int index, yoke_result *result)
{
    int64_t n = run->last && index % 5 == 4 ? run->last : batch_of(run);
    yoke_feed feeds[2];
    size_t count = team_feeds(run, index * batch_of(run), n, feeds);

    return yoke_trainer_step(trainer, n, feeds, count, result);
}

yoke_trainer *
team_trained(yoke_context *context, const team_run *run, int steps)
{
    yoke_trainer *t = team_trainer(context, run);

    for (int i = 0; i < steps; i++)
        ASSERT_OK(team_step(run, t, i, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    return t;
}

static const char *const states[] = {"running_mean", "running_var"};

static yoke_status
read_one(yoke_trainer *trainer, const char *name, size_t count, team_outcome *outcome)
{
    size_t at = outcome->tensors;
    yoke_status status;
    float *values = malloc(count * sizeof *values);

    ck_assert_ptr_nonnull(values);
    ck_assert_uint_lt(at, TEAM_TENSORS);
    status = yoke_trainer_read(trainer, name, values, count);
    if (status) {
        free(values);
        return status;
    }
    snprintf(outcome->name[at], sizeof outcome->name[at], "%s", name);
    outcome->count[at] = count;
    outcome->values[at] = values;
    outcome->tensors++;
    return YOKE_OK;
}

yoke_status
team_read(yoke_trainer *trainer, team_outcome *outcome)
{
    const yoke_graph *g = yoke_trainer_get_graph(trainer);

    memset(outcome, 0, sizeof *outcome);
    for (size_t i = 0; i < yoke_graph_parameter_count(g); i++) {
        const yoke_node *p = yoke_graph_get_parameter(g, i);
        const char *name = yoke_node_name(p), *dot = strrchr(name, '.');
        yoke_shape shape = yoke_node_shape(p);
        size_t count = 1;
        yoke_status status;

        for (int32_t d = 0; d < shape.rank; d++)
            count *= (size_t)shape.dim[d];
        status = read_one(trainer, name, count, outcome);
        /* A batch norm has two parameters, and states beside the first. */
        for (size_t s = 0;
             !status && dot && s < 2 && strcmp(dot, ".weight") == 0 && strncmp(name, "bn", 2) == 0;
             s++) {
            char state[96];

            snprintf(state, sizeof state, "%.*s.%s", (int)(dot - name), name, states[s]);
            status = read_one(trainer, state, count, outcome);
        }
        if (status) {
            team_free(outcome);
            return status;
        }
    }
    return YOKE_OK;
}

void
team_free(team_outcome *outcome)
{
    for (size_t i = 0; i < outcome->tensors; i++)
        free(outcome->values[i]);
    outcome->tensors = 0;
}

void
team_train(yoke_context *context, const team_run *run, team_outcome *outcome)
{
    yoke_result result = {0};
    yoke_trainer *trainer = team_trainer(context, run);
    int steps = run->steps ? run->steps : TEAM_STEPS;

    for (int i = 0; i < steps; i++)
        ASSERT_OK(team_step(run, trainer, i, run->waits || i == steps - 1 ? &result : NULL));
    ASSERT_OK(yoke_trainer_wait(trainer));
    ASSERT_OK(team_read(trainer, outcome));
    outcome->loss = result.loss;
    yoke_trainer_destroy(trainer);
}

/* ---- comparing ---- */

double
team_distance(const team_outcome *a, const team_outcome *b, const char **worst)
{
    double most = 0;

    ck_assert_uint_eq(a->tensors, b->tensors);
    ck_assert_uint_gt(a->tensors, 0);
    *worst = "";
    for (size_t i = 0; i < a->tensors; i++) {
        double apart = 0, largest = 0;

        ck_assert_str_eq(a->name[i], b->name[i]);
        ck_assert_uint_eq(a->count[i], b->count[i]);
        for (size_t j = 0; j < a->count[i]; j++) {
            double d = fabs((double)a->values[i][j] - (double)b->values[i][j]);

            apart = d <= apart ? apart : d; /* NaN counts as far */
            largest = fmax(largest, fabs((double)b->values[i][j]));
        }
        if (!(apart <= most * largest)) {
            most = largest > 0 ? apart / largest : INFINITY;
            *worst = b->name[i];
        }
    }
    return most;
}

team_kept
team_read_kept(yoke_trainer *t)
{
    yki_saved_tensors all = {0};
    team_kept k = {0};

    ASSERT_OK(yoke_trainer_wait(t));
    ASSERT_OK(yki_saved_tensors_list(t, &all));
    k.count = k.state_from = (size_t)all.floats;
    k.values = calloc(k.count, sizeof *k.values);
    ck_assert_ptr_nonnull(k.values);
    ASSERT_OK(yki_saved_tensors_get(&all, k.values));
    for (size_t i = all.count; i-- > 0 && all.list[i].which >= 0;)
        if (all.list[i].which < 2)
            k.state_from = (size_t)all.list[i].start;
    yki_saved_tensors_clear(&all);
    return k;
}

bool
team_same_bits(const team_outcome *a, const team_outcome *b)
{
    for (size_t i = 0; i < b->tensors; i++)
        if (memcmp(a->values[i], b->values[i], a->count[i] * sizeof(float)) != 0)
            return false;
    return a->tensors == b->tensors;
}

void
team_assert_near(const team_outcome *a, const team_outcome *b, const char *what)
{
    const char *worst;
    double distance = team_distance(a, b, &worst);

    ck_assert_msg(distance <= TOLERANCE, "%s: %s is %.3g off (bound %.3g)", what, worst, distance,
                  TOLERANCE);
    ck_assert_msg(fabs(a->loss - b->loss) <= 1e-5 * fabs(b->loss),
                  "%s: the loss is %.9g instead of %.9g", what, a->loss, b->loss);
}
