/* SPDX-License-Identifier: Apache-2.0
 *
 * check_place.c - a graph whose parts are on several devices gives what it gives on one.
 *
 * Networks that cross from place to place in every way we know (there and back, by a
 * shortcut, from two sides into one product, a parameter of both) are trained for ten
 * steps with their places on different devices and without places on the first of them:
 * weights and running statistics within 1e-5, and the same evaluation and prediction.
 * Where the same solvers run on equal devices, the same bits.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"
#include "train/runs.h"

/* In exact arithmetic they are equal; the bound is that of runs.h. */
enum { STEPS = 10, BATCH = 12, SAMPLES = 40, WIDTH = 48, CLASSES = 4 };

typedef enum net {
    THERE,    /* two layers, one in each place */
    BACK,     /* there and back: the loss is where the input was */
    SHORTCUT, /* convolutions and batch norm; a shortcut, a view and dropout cross */
    PRODUCT,  /* a matrix product of what two places computed */
    SHARED,   /* one parameter, used in both */
    NETS
} net;

static test_devices devices;
static char ids[2][sizeof((yoke_device_info){0}.id)]; /* of the devices that places are bound to */

static bool
open_setup(test_setup setup)
{
    yoke_device_info info[2];

    if (!team_find(setup, &devices, info))
        return false;
    for (size_t k = 0; k < 2; k++)
        memcpy(ids[k], info[k].id, sizeof ids[k]);
    return true;
}

/* ---- networks ---- */

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units});
}

static yoke_node *
block(yoke_graph *g, yoke_node *x, int64_t filters)
{
    x = yoke_conv2d(g, x,
                    &(yoke_conv2d_options){.filters = filters, .kernel = {3, 3}, .pad = {1, 1}});
    return yoke_batch_norm(g, x, NULL);
}

static void
place(yoke_graph *g, bool placed, const char *name)
{
    yoke_graph_set_place(g, placed ? name : NULL);
}

static yoke_node *
shortcut_net(yoke_graph *g, yoke_node *x, bool placed)
{
    yoke_node *side;

    place(g, placed, "front");
    x = yoke_reshape(g, x, yoke_shape(3, 4, 4));
    side = yoke_silu(g, block(g, x, 6));
    x = yoke_tanh(g, block(g, side, 6));
    place(g, placed, "back");
    x = block(g, x, 6);
    x = yoke_silu(g, yoke_add(g, x, side));
    place(g, placed, "front");
    x = yoke_dropout(g, yoke_flatten(g, x), 0.25f);
    place(g, placed, "back");
    return dense(g, x, CLASSES);
}

static yoke_node *
product_net(yoke_graph *g, yoke_node *x, bool placed)
{
    yoke_node *a, *b;

    place(g, placed, "front");
    a = yoke_reshape(g, dense(g, x, 12), yoke_shape(2, 6));
    place(g, placed, "back");
    b = yoke_reshape(g, dense(g, x, 12), yoke_shape(6, 2));
    return yoke_flatten(g, yoke_matmul(g, a, b, NULL));
}

static yoke_node *
shared_net(yoke_graph *g, yoke_node *x, bool placed)
{
    yoke_node *w = yoke_parameter(g, "shared", yoke_shape(WIDTH, WIDTH),
                                  (yoke_initializer){.kind = YOKE_INIT_NORMAL, .b = 0.1f});

    place(g, placed, "front");
    x = yoke_tanh(g, yoke_matmul(g, yoke_reshape(g, x, yoke_shape(1, WIDTH)), w, NULL));
    place(g, placed, "back");
    x = yoke_tanh(g, yoke_matmul(g, x, w, &(yoke_matmul_options){.transpose_b = true}));
    return dense(g, yoke_flatten(g, x), CLASSES);
}

static yoke_graph *
make_graph(net which, bool placed)
{
    yoke_graph *g;
    yoke_node *x, *y = NULL, *target;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    target = yoke_target(g, "target", YOKE_I32, yoke_shape());
    switch (which) {
    case THERE:
    case BACK:
    case NETS:
        place(g, placed, "front");
        x = yoke_tanh(g, dense(g, x, 24));
        place(g, placed, "back");
        y = dense(g, yoke_tanh(g, dense(g, x, 16)), CLASSES);
        break;
    case SHORTCUT:
        y = shortcut_net(g, x, placed);
        break;
    case PRODUCT:
        y = product_net(g, x, placed);
        break;
    case SHARED:
        y = shared_net(g, x, placed);
        break;
    }
    if (which == BACK)
        place(g, placed, "front");
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, target, NULL));
    place(g, placed, "front");
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, target));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* ---- data ---- */

static float images[SAMPLES * WIDTH];
static int32_t labels[SAMPLES];

static void
fill_data(void)
{
    uint32_t x = 99;

    for (size_t i = 0; i < YKI_COUNT(images); i++) {
        x = x * 1664525u + 1013904223u;
        images[i] = (float)(x >> 8) / 8388608.f - 1;
    }
    for (size_t i = 0; i < SAMPLES; i++)
        labels[i] = (int32_t)((images[i * WIDTH] > 0) + 2 * (images[i * WIDTH + 1] > 0));
}

static size_t
feeds_from(int64_t first, int64_t n, yoke_feed feeds[2])
{
    feeds[0] = yoke_feed_f32("x", images + first * WIDTH, n * WIDTH);
    feeds[1] = yoke_feed_i32("target", labels + first, n);
    return 2;
}

static yoke_dataset *
make_dataset(void)
{
    const yoke_field fields[] = {
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH), .data = images},
        {.name = "target", .type = YOKE_I32, .shape = yoke_shape(), .data = labels},
    };
    yoke_dataset *dataset;

    ASSERT_OK(yoke_dataset_create(SAMPLES, fields, 2, NULL, &dataset));
    return dataset;
}

/* ---- runs ---- */

typedef struct how {
    yoke_optimizer optimizer;
    uint32_t accumulate;
    float clip_norm;
    bool fit; /* by epochs over a dataset */
} how;

typedef struct outcome {
    team_outcome weights;
    yoke_result evaluated;
    float y[SAMPLES * CLASSES];
} outcome;

static bool hide_memory; /* teams pass for ones of devices with memory of their own */

static yoke_team *
make_team(const char *selector, bool placed)
{
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    if (placed) {
        ASSERT_OK(yoke_team_bind_place(team, "front", ids[0]));
        ASSERT_OK(yoke_team_bind_place(team, "back", ids[1]));
    }
    for (size_t k = 0; hide_memory && k < yoke_team_local_count(team); k++) {
        test_devices one = {.device = {yoke_team_get_device(team, k)}, .count = 1};

        test_devices_hide_host_memory(&one);
    }
    return team;
}

static yoke_trainer *
make_trainer(yoke_team *team, yoke_graph *g, const how *h)
{
    const yoke_trainer_options o = {.optimizer = h->optimizer,
                                    .batch = BATCH,
                                    .seed = 5,
                                    .strict = true,
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .accumulate = h->accumulate,
                                    .clip_norm = h->clip_norm,
                                    .bucket_bytes = 4096};
    yoke_trainer *t;

    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    return t;
}

static void
train(yoke_trainer *t, const how *h, yoke_dataset *dataset, outcome *out)
{
    yoke_result result = {0};
    yoke_feed feeds[2];

    if (h->fit)
        ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &(yoke_fit_options){.epochs = 2}));
    for (int i = 0; i < STEPS; i++) {
        /* The last batch of a few is short; all but the last are enqueued without waiting. */
        int64_t first = i * 3, n = i % 4 == 3 ? 5 : BATCH;

        ASSERT_OK(yoke_trainer_step(t, n, feeds, feeds_from(first, n, feeds),
                                    i == STEPS - 1 ? &result : NULL));
    }
    ASSERT_OK(team_read(t, &out->weights));
    out->weights.loss = result.loss;
    ASSERT_OK(yoke_trainer_evaluate(t, dataset, &out->evaluated));
    ASSERT_OK(yoke_trainer_predict(t, "y", SAMPLES, feeds, feeds_from(0, SAMPLES, feeds), out->y,
                                   YKI_COUNT(out->y)));
}

static void
run(net which, bool placed, const how *h, outcome *out)
{
    yoke_graph *g = make_graph(which, placed);
    yoke_team *team = make_team(placed ? devices.selector : ids[0], placed);
    yoke_dataset *dataset = make_dataset();
    yoke_trainer *t = make_trainer(team, g, h);

    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    train(t, h, dataset, out);
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(dataset);
}

static void
assert_alike(net which, const how *h)
{
    outcome apart, one;
    char what[64];
    double most = 0, largest = 0;

    run(which, true, h, &apart);
    run(which, false, h, &one);
    snprintf(what, sizeof what, "net %d, parts %u", (int)which, h->accumulate);
    team_assert_near(&apart.weights, &one.weights, what);
    ck_assert_double_le(fabs(apart.evaluated.loss - one.evaluated.loss), 1e-5 * one.evaluated.loss);
    ck_assert_double_eq(apart.evaluated.metrics[0], one.evaluated.metrics[0]);
    ck_assert_double_eq(apart.evaluated.count, SAMPLES);
    for (size_t i = 0; i < YKI_COUNT(one.y); i++) {
        most = fmax(most, fabs((double)(apart.y[i] - one.y[i])));
        largest = fmax(largest, fabs((double)one.y[i]));
        ck_assert(isfinite(apart.y[i]));
    }
    ck_assert_double_le(most, 1e-5 * largest);
    team_free(&apart.weights);
    team_free(&one.weights);
}

static void
check_nets(bool everything)
{
    const how plain = {.optimizer = yoke_sgd(0.1f, 0)};
    const how parts = {.optimizer = yoke_sgd(0.1f, 0.9f), .accumulate = 3, .clip_norm = 0.2f};
    const how epochs = {.optimizer = yoke_sgd(0.05f, 0), .fit = true};

    fill_data();
    assert_alike(SHORTCUT, &parts);
    assert_alike(PRODUCT, &plain);
    assert_alike(SHARED, &plain);
    if (!everything)
        return;
    assert_alike(SHORTCUT, &epochs);
    assert_alike(THERE, &plain);
    assert_alike(BACK, &plain);
    assert_alike(BACK, &parts);
    assert_alike(SHARED, &parts);
}

/* Rusticl takes long to make kernels ready. */
static void
check_slow_drivers(net quick)
{
    const how parts = {.optimizer = yoke_sgd(0.1f, 0.9f), .accumulate = 3, .clip_norm = 0.2f};

    if (!getenv("YOKE_TEST_QUICK")) {
        check_nets(false);
        return;
    }
    fill_data();
    assert_alike(quick, &parts);
}

static void
check_same_bits(const how *h, bool placed)
{
    outcome first, second;

    run(THERE, true, h, &first);
    run(THERE, placed, h, &second);
    ck_assert_msg(team_same_bits(&first.weights, &second.weights),
                  "clip %g, places %d: bits differ", (double)h->clip_norm, placed);
    ck_assert_mem_eq(first.y, second.y, sizeof first.y);
    team_free(&first.weights);
    team_free(&second.weights);
}

/* The same solvers on equal devices, whenever the thread came to them. Without places a norm is
 * added up over other buckets. */
static void
check_bits(void)
{
    const how clipped = {.optimizer = yoke_adam(0.01f), .clip_norm = 0.5f};
    const how adam = {.optimizer = yoke_adam(0.01f)};

    fill_data();
    check_same_bits(&clipped, true);
    check_same_bits(&adam, false);
}

TEAM_SETUP(places_of_the_matrix, TEST_AS_IS, open_setup, check_nets(false))
TEAM_SETUP(places_on_halves, TEST_POCL_HALVES, open_setup, check_nets(true), check_bits())
TEAM_SETUP(places_on_two_platforms, TEST_POCL_AND_RUSTICL, open_setup, check_slow_drivers(SHORTCUT))
TEAM_SETUP(places_on_slices, TEST_RUSTICL_SLICES, open_setup, check_nets(false))

/* Neither can read the other's memory: everything goes through pinned memory of the host. */
static void
check_memory_apart(void)
{
    const how plain = {.optimizer = yoke_sgd(0.1f, 0)};
    const how clipped = {.optimizer = yoke_sgd(0.1f, 0.9f), .clip_norm = 0.2f, .accumulate = 2};

    hide_memory = true;
    fill_data();
    assert_alike(SHORTCUT, &plain);
    assert_alike(SHARED, &clipped);
}

TEAM_SETUP(places_with_memory_of_their_own, TEST_POCL_ROOTS, open_setup, check_memory_apart())

/* ---- what a device has ---- */

static uint64_t
used_by(const yoke_team *team, size_t device)
{
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(team, device), &usage));
    return usage.used;
}

static void
find_line(void *user, const char *text)
{
    size_t *found = user;

    found[0] += strstr(text, "all samples") != NULL;
    found[1] += strstr(text, ids[1]) && strstr(text, " 1049600 ");
}

/* The file of a trainer with places is that of one without. */
static void
check_file(yoke_trainer *t, const float *values, size_t count)
{
    const char *path = scratch_path("placed.safetensors");
    float *read = malloc(count * sizeof *read);

    ASSERT_OK(yoke_trainer_save(t, path));
    ASSERT_OK(yoke_trainer_initialize(t, 77));
    ASSERT_OK(yoke_trainer_load_weights(t, path, NULL));
    ASSERT_OK(yoke_trainer_read(t, "wide.weight", read, count));
    ck_assert_mem_eq(read, values, count * sizeof *read);
    free(read);
}

/* A wide layer on one device leaves the other next to nothing. */
static void
check_memory_of_places(void)
{
    enum { WIDE = 1024, BYTES = WIDE * WIDE * 4 };
    const how h = {.optimizer = yoke_adam(0.01f)};
    yoke_graph *g;
    yoke_node *x;
    yoke_team *team;
    yoke_trainer *t;
    float *values = malloc(BYTES);
    size_t found[2] = {0};

    scratch_set_up();
    team = make_team(devices.selector, true);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_place(g, "back");
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDE));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = WIDE, .name = "wide"});
    yoke_graph_set_place(g, "front");
    x = dense(g, yoke_tanh(g, x), CLASSES);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(
                               g, x, yoke_target(g, "target", YOKE_I32, yoke_shape()), NULL));
    t = make_trainer(team, g, &h);
    /* Weight, gradient, and Adam's two. */
    ck_assert_uint_ge(used_by(team, 1), 4 * (uint64_t)BYTES);
    ck_assert_uint_le(used_by(team, 0), BYTES / 4);
    ASSERT_OK(yoke_trainer_read(t, "wide.weight", values, WIDE * WIDE));
    values[7] = 3;
    ASSERT_OK(yoke_trainer_write(t, "wide.weight", values, WIDE * WIDE));
    values[7] = 0;
    ASSERT_OK(yoke_trainer_read(t, "wide.weight", values, WIDE * WIDE));
    ck_assert_float_eq(values[7], 3);
    check_file(t, values, WIDE * WIDE);
    ASSERT_OK(yoke_trainer_explain(t, find_line, found));
    ck_assert_uint_eq(found[0], 1);
    ck_assert_uint_eq(found[1], 1);
    ASSERT_OK(yoke_trainer_initialize(t, 8));
    ASSERT_OK(yoke_trainer_read(t, "wide.weight", values, WIDE * WIDE));
    ck_assert_float_ne(values[7], 3);
    free(values);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    scratch_tear_down();
}

TEAM_SETUP(memory_is_where_the_place_is, TEST_POCL_HALVES, open_setup, check_memory_of_places())

/* ---- products without a loss ---- */

enum { SIDE = 3, ROWS = 7 };

/* c = a b of parameters, which are in two places, and y = x c of an input. */
static yoke_graph *
make_product(bool placed, bool metric)
{
    const yoke_initializer zeros = {.kind = YOKE_INIT_ZEROS};
    yoke_node *a, *b, *c, *x;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    place(g, placed, "front");
    a = yoke_parameter(g, "a", yoke_shape(SIDE, SIDE), zeros);
    place(g, placed, "back");
    b = yoke_parameter(g, "b", yoke_shape(SIDE, SIDE), zeros);
    c = yoke_matmul(g, a, b, NULL);
    yoke_graph_set_output(g, "c", c);
    place(g, placed, "front");
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(1, SIDE));
    yoke_graph_set_output(g, "y", yoke_matmul(g, x, c, NULL));
    if (metric)
        yoke_graph_add_metric(
            g, "error",
            yoke_reshape(g, yoke_matmul(g, x, x, &(yoke_matmul_options){.transpose_b = true}),
                         yoke_shape()));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static const float left[SIDE * SIDE] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
static const float right[SIDE * SIDE] = {1, 0, 2, 0, 1, 0, 0, 0, 1};
static const float product[SIDE * SIDE] = {1, 2, 5, 4, 5, 14, 7, 8, 23};

/* What only training can do says why not. */
static void
refuses_training(yoke_trainer *t)
{
    const char *const reason = "the graph has no loss";
    yoke_dataset *dataset;
    yoke_result result;

    fill_data();
    dataset = make_dataset();
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_step(t, 1, NULL, 0, &result));
    ASSERT_DETAIL(reason);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_fit(t, dataset, NULL, NULL));
    ASSERT_DETAIL(reason);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_evaluate(t, dataset, &result));
    ASSERT_DETAIL(reason);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_set_learning_rate(t, 0.1f));
    ASSERT_DETAIL(reason);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_freeze(t, "a"));
    ASSERT_DETAIL(reason);
    yoke_dataset_destroy(dataset);
}

static void
use_product(yoke_trainer *t)
{
    float x[ROWS * SIDE] = {0}, c[SIDE * SIDE], y[ROWS * SIDE];
    const yoke_feed feed = yoke_feed_f32("x", x, YKI_COUNT(x));

    for (size_t i = 0; i < YKI_COUNT(x); i++)
        x[i] = (float)(i % SIDE == i / SIDE % SIDE); /* rows of unit matrices */
    ASSERT_OK(yoke_trainer_initialize(t, 3));
    ASSERT_OK(yoke_trainer_write(t, "a", left, SIDE * SIDE));
    ASSERT_OK(yoke_trainer_write(t, "b", right, SIDE * SIDE));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(yoke_trainer_predict(t, "c", 1, NULL, 0, c, SIDE * SIDE));
        ck_assert_mem_eq(c, product, sizeof c);
        ASSERT_OK(yoke_trainer_predict(t, "y", ROWS, &feed, 1, y, YKI_COUNT(y)));
        for (size_t k = 0; k < YKI_COUNT(y); k++)
            ck_assert_float_eq(y[k], product[k % (SIDE * SIDE)]);
    }
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_trainer_predict(t, "c", 2, NULL, 0, c, SIDE * SIDE));
    ASSERT_DETAIL("must be 1");
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_trainer_predict(t, "c", 1, NULL, 0, c, 4));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  yoke_trainer_predict(t, "y", ROWS, NULL, 0, y, YKI_COUNT(y)));
    ASSERT_OK(yoke_trainer_read(t, "b", c, SIDE * SIDE));
    ck_assert_mem_eq(c, right, sizeof c);
}

/* `apart`: each place on its device; else both on the second. */
static void
check_products(bool apart)
{
    yoke_graph *g = make_product(true, apart);
    yoke_team *team = make_team(devices.selector, true);
    size_t found[2] = {0};
    yoke_trainer *t;

    if (!apart)
        ASSERT_OK(yoke_team_bind_place(team, "front", ids[1]));
    ASSERT_OK(yoke_trainer_create(team, g, NULL, &t));
    use_product(t);
    refuses_training(t);
    use_product(t);
    ASSERT_OK(yoke_trainer_explain(t, find_line, found));
    ck_assert_uint_eq(found[0], 1);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

/* Both places on a team of one device. */
static void
check_products_together(void)
{
    yoke_graph *g = make_product(true, false);
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, ids[0], NULL, &team));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_trainer_create(team, g, NULL, &t));
    ASSERT_DETAIL("\"front\" is bound to no device");
    ASSERT_OK(yoke_team_bind_place(team, "front", ids[0]));
    ASSERT_OK(yoke_team_bind_place(team, "back", ids[0]));
    ASSERT_OK(yoke_trainer_create(team, g, NULL, &t));
    use_product(t);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

static void
check_products_without_places(const char *selector)
{
    yoke_graph *g = make_product(false, false);
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, NULL, &t));
    use_product(t);
    refuses_training(t);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

static void
check_products_apart(void)
{
    hide_memory = true;
    check_products(true);
}

TEAM_SETUP(products_on_halves, TEST_POCL_HALVES, open_setup, check_products(true),
           check_products(false), check_products_together(), check_products_without_places(ids[0]),
           check_products_without_places(devices.selector))
TEAM_SETUP(products_of_the_matrix, TEST_AS_IS, open_setup, check_products(true))
TEAM_SETUP(products_with_memory_of_their_own, TEST_POCL_ROOTS, open_setup, check_products_apart())

/* ---- what is refused ---- */

static void
refused(yoke_team *team, yoke_graph *g, const char *shares, yoke_status status, const char *detail)
{
    const yoke_trainer_options o = {.batch = BATCH, .shares = shares, .level = YOKE_PLAN_ESTIMATE};
    yoke_trainer *t = NULL;

    ASSERT_STATUS(status, yoke_trainer_create(team, g, &o, &t));
    ASSERT_DETAIL(detail);
    ck_assert_ptr_null(t);
}

static void
check_mistakes(void)
{
    yoke_graph *g;
    yoke_team *team, *pair;
    char both[160];

    g = make_graph(THERE, true);
    team = make_team(devices.selector, false);
    refused(team, g, NULL, YOKE_ERROR_NOT_FOUND, "\"front\" is bound to no device");
    ASSERT_OK(yoke_team_bind_place(team, "front", ids[0]));
    refused(team, g, NULL, YOKE_ERROR_NOT_FOUND, "\"back\" is bound to no device");
    ASSERT_OK(yoke_team_bind_place(team, "back", ids[1]));
    refused(team, g, "80,20", YOKE_ERROR_UNSUPPORTED, "places");
    ASSERT_OK(yoke_team_bind_place(team, "bakc", ids[1]));
    refused(team, g, NULL, YOKE_ERROR_NOT_FOUND, "\"bakc\"; must be a place of the graph");

    snprintf(both, sizeof both, "%s,%s", ids[0], ids[1]);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_team_bind_place(team, "back", both));
    ASSERT_DETAIL("stands for 2 devices; must be one");
    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yoke_team_bind_place(team, "back", "nonsense:"));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_team_bind_place(team, "back", NULL));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_team_bind_place(team, "", ids[0]));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_team_bind_place(NULL, "back", ids[0]));
    ASSERT_OK(yoke_team_create(devices.context, ids[0], NULL, &pair));
    ASSERT_STATUS(YOKE_ERROR_NO_DEVICE, yoke_team_bind_place(pair, "back", ids[1]));
    ASSERT_DETAIL("is to be bound to");
    ASSERT_DETAIL("must be a device of the team");
    yoke_team_destroy(pair);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

TEAM_SETUP(mistakes_are_told, TEST_POCL_HALVES, open_setup, check_mistakes())

/* Places of a trainer's graph: shares stay refused, and one device may have all places. */
static void
check_shared_device(void)
{
    const how h = {.optimizer = yoke_sgd(0.1f, 0)};
    int64_t counts[2];
    yoke_graph *g;
    yoke_team *team;
    yoke_trainer *t;
    yoke_feed feeds[2];
    yoke_result result;

    fill_data();
    g = make_graph(BACK, true);
    team = make_team(devices.selector, true);
    ASSERT_OK(yoke_team_bind_place(team, "front", ids[1])); /* a second binding counts */
    t = make_trainer(team, g, &h);
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, yoke_trainer_set_shares(t, "1,1"));
    ASSERT_DETAIL("places");
    ASSERT_OK(yoke_trainer_get_shares(t, counts, 2));
    ck_assert_int_eq(counts[0], 0);
    ck_assert_int_eq(counts[1], BATCH);
    ASSERT_OK(yoke_trainer_step(t, BATCH, feeds, feeds_from(0, BATCH, feeds), &result));
    ck_assert_double_eq(result.count, BATCH);
    ASSERT_OK(yoke_trainer_step(t, 0, feeds, feeds_from(0, 0, feeds), &result));
    ck_assert_double_eq(result.count, 0);
    feeds_from(0, 1, feeds);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_trainer_step(t, 1, feeds, 1, &result));
    ASSERT_DETAIL("target");
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

TEAM_SETUP(places_may_share_a_device, TEST_POCL_HALVES, open_setup, check_shared_device())

/* There is nothing to divide: who asks for as little as possible gets that. */
static void
check_shards(void)
{
    yoke_trainer_options o = {
        .batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .shard = YOKE_SHARD_AUTO};
    yoke_graph *g = make_graph(BACK, true);
    yoke_team *team = make_team(devices.selector, true);
    yoke_trainer *t;

    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_trainer_destroy(t);
    o.shard = YOKE_SHARD_STATE;
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, yoke_trainer_create(team, g, &o, &t));
    ASSERT_DETAIL("there are no shards");
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

TEAM_SETUP(places_have_no_shards, TEST_POCL_HALVES, open_setup, check_shards())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("place");
    TCase *tc = test_case(suite, "places");

    /* What kernels do here takes llvmpipe longer than to optimise them. */
    unsetenv("GALLIVM_PERF");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, places_of_the_matrix);
    tcase_add_test(tc, places_on_halves);
    tcase_add_test(tc, places_on_two_platforms);
    if (!getenv("YOKE_TEST_QUICK")) /* its driver is one of the two platforms */
        tcase_add_test(tc, places_on_slices);
    tcase_add_test(tc, places_with_memory_of_their_own);
    tcase_add_test(tc, memory_is_where_the_place_is);
    tcase_add_test(tc, products_on_halves);
    tcase_add_test(tc, products_of_the_matrix);
    tcase_add_test(tc, products_with_memory_of_their_own);
    tcase_add_test(tc, mistakes_are_told);
    tcase_add_test(tc, places_may_share_a_device);
    tcase_add_test(tc, places_have_no_shards);
    return suite;
}
