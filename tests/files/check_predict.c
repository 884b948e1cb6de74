/* SPDX-License-Identifier: Apache-2.0
 *
 * check_predict.c - models on devices: PyTorch's weights give PyTorch's results,
 * what was trained predicts as its trainer does, data is scaled as in training, any
 * number of samples, several threads with one set of weights.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"
#include "support/devices.h"
#include "support/scratch.h"

static const char *
in_source(const char *name)
{
    static char path[2][500];
    static unsigned turn;
    const char *folder = getenv("YOKE_SRCDIR");

    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/tests/files/%s", folder ? folder : ".", name);
    return path[turn];
}

/* max |a - b| / max |b| */
static double
error_of(const float *a, const float *b, size_t count)
{
    double worst = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);

        worst = difference > worst || isnan(difference) ? difference : worst;
        largest = fmax(largest, fabs((double)b[i]));
    }
    return worst / largest;
}

/* ---- PyTorch's ResNet-18 ---- */

static yoke_node *
conv_norm(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride, int64_t pad,
          const char *prefix, const char *conv, const char *norm)
{
    char name[2][60];

    snprintf(name[0], sizeof name[0], "%s%s", prefix, conv);
    snprintf(name[1], sizeof name[1], "%s%s", prefix, norm);
    x = yoke_conv2d(g, x,
                    &(yoke_conv2d_options){.filters = filters,
                                           .kernel = {size, size},
                                           .stride = {stride, stride},
                                           .pad = {pad, pad},
                                           .no_bias = true,
                                           .name = name[0]});
    return yoke_batch_norm(g, x, &(yoke_batch_norm_options){.name = name[1]});
}

static yoke_graph *
resnet18(int64_t width)
{
    yoke_graph *g;
    yoke_node *x, *y, *shortcut;
    char prefix[30];

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_F32, yoke_shape(3, 40, 36));
    x = yoke_relu(g, conv_norm(g, x, width, 7, 2, 3, "", "conv1", "bn1"));
    x = yoke_maxpool2d(g, x,
                       &(yoke_pool2d_options){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
    for (int layer = 0; layer < 4; layer++)
        for (int block = 0; block < 2; block++) {
            int64_t filters = width << layer, stride = layer && !block ? 2 : 1;

            snprintf(prefix, sizeof prefix, "layer%d.%d.", layer + 1, block);
            y = yoke_relu(g, conv_norm(g, x, filters, 3, stride, 1, prefix, "conv1", "bn1"));
            y = conv_norm(g, y, filters, 3, 1, 1, prefix, "conv2", "bn2");
            shortcut = stride == 1 ? x
                                   : conv_norm(g, x, filters, 1, 2, 0, prefix, "downsample.0",
                                               "downsample.1");
            x = yoke_relu(g, yoke_add(g, y, shortcut));
        }
    y = yoke_dense(g, yoke_global_avgpool(g, x), &(yoke_dense_options){.units = 10, .name = "fc"});
    yoke_graph_set_output(g, "logits", y);
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

START_TEST(pytorch_resnet18)
{
    test_devices devices;
    yki_safetensors *io;
    yoke_graph *g = resnet18(2);
    yoke_model *m;
    yoke_predictor *p;
    float *input = malloc(2 * 3 * 40 * 36 * sizeof *input), expected[20], got[20];

    ASSERT_OK(yki_safetensors_open(in_source("resnet-io.safetensors"), &io));
    ASSERT_OK(yki_safetensors_read_f32(io, yki_safetensors_find(io, "input"), input));
    ASSERT_OK(yki_safetensors_read_f32(io, yki_safetensors_find(io, "logits"), expected));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_OK(yoke_model_load_weights(m, in_source("resnet.safetensors"), NULL));
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_predictor_create(
        devices.context, test_selector(), m,
        &(yoke_predictor_options){.strict = true, .batch = 2, .level = YOKE_PLAN_ESTIMATE}, &p));
    ASSERT_OK(yoke_predictor_run(p, 2, yoke_feed_f32("image", input, 2 * 3 * 40 * 36), got, 20));
    ck_assert_msg(error_of(got, expected, 20) < 2e-6, "error %g", error_of(got, expected, 20));
    yoke_predictor_destroy(p);
    test_devices_close(&devices);
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    yki_safetensors_close(io);
    free(input);
}
END_TEST

/* ---- what was trained ---- */

enum { SIDE = 6, CLASSES = 3, SAMPLES = 23, PIXELS = 2 * SIDE * SIDE };

static yoke_graph *
classifier(bool sigmoid)
{
    yoke_graph *g;
    yoke_node *x, *y, *t;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_F32, yoke_shape(2, SIDE, SIDE));
    y = yoke_conv2d(g, x, &(yoke_conv2d_options){.filters = 4, .kernel = {3, 3}});
    y = yoke_relu(g, yoke_batch_norm(g, y, NULL));
    y = yoke_dense(g, yoke_flatten(g, yoke_dropout(g, y, 0.2f)),
                   &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_output(g, "logits", y);
    if (sigmoid) {
        t = yoke_target(g, "label", YOKE_F32, yoke_shape(CLASSES));
        yoke_graph_set_loss(g, yoke_binary_cross_entropy(g, y, t, NULL));
    } else {
        t = yoke_target(g, "label", YOKE_I32, yoke_shape());
        yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, t, NULL));
    }
    yoke_graph_set_output(g, "second", yoke_scale(g, y, 2, 1));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* Bytes and labels of samples; made from their numbers. */
typedef struct samples {
    uint8_t image[SAMPLES][PIXELS];
    int32_t label[SAMPLES];
    yoke_dataset *dataset;
} samples;

static const float mean[2] = {100, 127.5f}, scale[2] = {1 / 60.f, 1 / 128.f};

static samples *
make_samples(bool scaled)
{
    samples *s = calloc(1, sizeof *s);
    yoke_field fields[2] = {
        {.name = "image", .type = YOKE_U8, .shape = yoke_shape(2, SIDE, SIDE), .data = s->image},
        {.name = "label", .type = YOKE_I32, .shape = yoke_shape(), .data = s->label},
    };
    static const char *const names[CLASSES] = {"a", "b", "c"};

    for (int i = 0; i < SAMPLES; i++) {
        s->label[i] = i % CLASSES;
        for (int k = 0; k < PIXELS; k++)
            s->image[i][k] = (uint8_t)(i * 71 + k * (13 + i % CLASSES * 5));
    }
    ASSERT_OK(yoke_dataset_create(SAMPLES, fields, 2, NULL, &s->dataset));
    ASSERT_OK(yoke_dataset_set_class_names(s->dataset, names, CLASSES));
    if (scaled)
        ASSERT_OK(yoke_dataset_set_scaling(s->dataset, "image", mean, scale, 2));
    return s;
}

static void
free_samples(samples *s)
{
    yoke_dataset_destroy(s->dataset);
    free(s);
}

static yoke_feed
bytes_of(const samples *s)
{
    return yoke_feed_u8("image", s->image[0], SAMPLES * PIXELS);
}

/* The data as the network sees it. */
static float *
as_floats(const samples *s, bool scaled)
{
    float *x = malloc(SAMPLES * PIXELS * sizeof *x);

    for (int i = 0; i < SAMPLES * PIXELS; i++) {
        float value = s->image[i / PIXELS][i % PIXELS];
        int channel = i % PIXELS / (SIDE * SIDE);

        x[i] = scaled ? (value - mean[channel]) * scale[channel] : value / 255;
    }
    return x;
}

static void
softmax(float *rows)
{
    for (int i = 0; i < SAMPLES; i++) {
        double sum = 0;

        for (int k = 0; k < CLASSES; k++)
            sum += exp((double)rows[i * CLASSES + k]);
        for (int k = 0; k < CLASSES; k++)
            rows[i * CLASSES + k] = (float)(exp((double)rows[i * CLASSES + k]) / sum);
    }
}

/* A model as its trainer sees it: trained on bytes, saved, loaded, asked with bytes. */
static yoke_trainer *
make_trained(yoke_team *team, yoke_graph *g, const samples *s)
{
    const yoke_trainer_options options = {.batch = 8,
                                          .seed = 3,
                                          .strict = true,
                                          .optimizer = yoke_adam(1e-2f),
                                          .level = YOKE_PLAN_ESTIMATE};
    yoke_trainer *t;

    ASSERT_OK(yoke_trainer_create(team, g, &options, &t));
    ASSERT_OK(yoke_trainer_fit(t, s->dataset, NULL, &(yoke_fit_options){.epochs = 3}));
    return t;
}

START_TEST(predicts_as_trained)
{
    const bool scaled = _i == 1;
    const char *path = scratch_path("trained.safetensors");
    test_devices devices;
    yoke_graph *g = classifier(false);
    samples *s = make_samples(scaled);
    float expected[SAMPLES * CLASSES], got[SAMPLES * CLASSES], raw[SAMPLES * CLASSES], *x;
    yoke_team *team;
    yoke_trainer *t;
    yoke_model *m;
    yoke_predictor *p, *p_raw;
    yoke_feed floats;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_team_create(devices.context, test_selector(), NULL, &team));
    t = make_trained(team, g, s);
    ASSERT_OK(yoke_trainer_save(t, path));
    x = as_floats(s, scaled);
    floats = yoke_feed_f32("image", x, SAMPLES * PIXELS);
    ASSERT_OK(yoke_trainer_predict(t, "logits", SAMPLES, &floats, 1, expected, SAMPLES * CLASSES));
    ASSERT_OK(yoke_model_load(path, &m));
    ck_assert_int_eq(yoke_model_get_input(m)->type, YOKE_U8);
    ck_assert_uint_eq(yoke_model_class_count(m), CLASSES);
    ck_assert_str_eq(yoke_model_get_class_name(m, 1), "b");
    ASSERT_OK(yoke_predictor_create(
        devices.context, test_selector(), m,
        &(yoke_predictor_options){.batch = 5, .strict = true, .level = YOKE_PLAN_ESTIMATE}, &p));
    ASSERT_OK(yoke_predictor_create(
        devices.context, test_selector(), m,
        &(yoke_predictor_options){.raw = true, .strict = true, .level = YOKE_PLAN_ESTIMATE},
        &p_raw));
    ck_assert(yoke_predictor_get_shape(p).rank == 1 &&
              yoke_predictor_get_shape(p).dim[0] == CLASSES);
    ASSERT_OK(yoke_predictor_run(p_raw, SAMPLES, bytes_of(s), raw, SAMPLES * CLASSES));
    ck_assert_msg(error_of(raw, expected, SAMPLES * CLASSES) < 2e-6, "error %g",
                  error_of(raw, expected, SAMPLES * CLASSES));
    ASSERT_OK(yoke_predictor_run(p, SAMPLES, bytes_of(s), got, SAMPLES * CLASSES));
    softmax(expected);
    ck_assert_msg(error_of(got, expected, SAMPLES * CLASSES) < 2e-6, "error %g",
                  error_of(got, expected, SAMPLES * CLASSES));
    /* Loaded into the trainer it is what it was. */
    ASSERT_OK(yoke_trainer_initialize(t, 99));
    ASSERT_OK(yoke_trainer_load_weights(t, path, NULL));
    ASSERT_OK(yoke_trainer_predict(t, "logits", SAMPLES, &floats, 1, raw, SAMPLES * CLASSES));
    softmax(raw);
    ck_assert(error_of(raw, expected, SAMPLES * CLASSES) < 1e-6);
    yoke_predictor_destroy(p);
    yoke_model_destroy(m); /* in any order */
    yoke_predictor_destroy(p_raw);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    test_devices_close(&devices);
    free_samples(s);
    free(x);
}
END_TEST

/* A built-in model that learnt values of mean 0 and deviation 1 predicts in their units: each its
 * own, where there are several. */
START_TEST(values_in_their_units)
{
    const float means[2] = {3e5f, -2}, deviations[2] = {1e5f, 0.5f};
    const yoke_zoo_options o = {.input_name = "x",
                                .target_name = "y",
                                .input = yoke_shape(3),
                                .target = yoke_shape(2),
                                .spread_count = 2,
                                .mean = means,
                                .deviation = deviations};
    const float bias[2] = {0, 3}, weights[2 * 32] = {0}, x[3] = {1, 2, 3};
    float y[2];
    test_devices devices;
    yoke_graph *g;
    yoke_model *m;
    yoke_predictor *p;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_zoo("tiny", &o, &g));
    ck_assert_str_eq(yoke_graph_get_metric_name(g, 0), "r2");
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_OK(yoke_model_write(m, "fc2.weight", weights, 2 * 32));
    ASSERT_OK(yoke_model_write(m, "fc2.bias", bias, 2));
    ASSERT_OK(yoke_predictor_create(devices.context, test_selector(), m, NULL, &p));
    ASSERT_OK(yoke_predictor_run(p, 1, yoke_feed_f32("x", x, 3), y, 2));
    ck_assert_msg(y[0] == 3e5f && y[1] == -0.5f, "%g and %g", (double)y[0], (double)y[1]);
    yoke_predictor_destroy(p);
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    test_devices_close(&devices);
}
END_TEST

/* A replica's file, floats as they are, the sigmoid of a binary cross-entropy, other outputs. */
static yoke_replica *
make_replica(yoke_device *device, yoke_graph *g, uint32_t seed)
{
    const yoke_replica_options options = {.batch = SAMPLES,
                                          .seed = seed,
                                          .evaluation_only = true,
                                          .strict = true,
                                          .level = YOKE_PLAN_ESTIMATE};
    yoke_replica *replica;

    ASSERT_OK(yoke_replica_create(device, g, &options, &replica));
    return replica;
}

START_TEST(replicas_and_outputs)
{
    const char *path = scratch_path("replica.safetensors");
    test_devices devices;
    yoke_graph *g = classifier(true);
    samples *s = make_samples(false);
    float *x = as_floats(s, false), logits[SAMPLES * CLASSES], got[SAMPLES * CLASSES];
    const yoke_feed image = yoke_feed_f32("image", x, SAMPLES * PIXELS);
    yoke_replica *r, *other;
    yoke_model *m;
    yoke_predictor *p = NULL;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    r = make_replica(devices.device[0], g, 4);
    ASSERT_OK(yoke_replica_save(r, path));
    other = make_replica(devices.device[0], g, 5);
    ASSERT_OK(yoke_replica_load_weights(other, path, NULL));
    ASSERT_OK(yoke_replica_set_input(r, SAMPLES, image));
    ASSERT_OK(yoke_replica_set_input(other, SAMPLES, image));
    ASSERT_OK(yoke_replica_evaluate(r, SAMPLES));
    ASSERT_OK(yoke_replica_evaluate(other, SAMPLES));
    ASSERT_OK(yoke_replica_read_output(r, "logits", logits, SAMPLES * CLASSES));
    ASSERT_OK(yoke_replica_read_output(other, "logits", got, SAMPLES * CLASSES));
    ck_assert_int_eq(memcmp(logits, got, sizeof got), 0);
    ASSERT_OK(yoke_model_load(path, &m));
    ck_assert_int_eq(yoke_model_get_input(m)->type, YOKE_F32);
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(yoke_predictor_create(devices.context, test_selector(), m,
                                        &(yoke_predictor_options){.output = k ? "second" : NULL,
                                                                  .strict = true,
                                                                  .level = YOKE_PLAN_ESTIMATE},
                                        &p));
        ASSERT_OK(yoke_predictor_run(p, SAMPLES, image, got, SAMPLES * CLASSES));
        yoke_predictor_destroy(p);
        for (int i = 0; i < SAMPLES * CLASSES; i++) {
            double y = (double)logits[i], expected = k ? 2 * y + 1 : 1 / (1 + exp(-y));

            ck_assert_msg(fabs((double)got[i] - expected) < 2e-6, "%d: %g is not %g", i,
                          (double)got[i], expected);
        }
    }
    p = NULL;
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  yoke_predictor_create(devices.context, test_selector(), m,
                                        &(yoke_predictor_options){.output = "third"}, &p));
    ASSERT_DETAIL("there is no output \"third\" of the model");
    ck_assert_ptr_null(p);
    yoke_model_destroy(m);
    yoke_replica_destroy(r);
    yoke_replica_destroy(other);
    yoke_graph_destroy(g);
    test_devices_close(&devices);
    free_samples(s);
    free(x);
}
END_TEST

/* ---- threads ---- */

typedef struct worker {
    pthread_t thread;
    yoke_context *context;
    yoke_model *model;
    const samples *samples;
    float got[SAMPLES * CLASSES];
    yoke_status status;
    char detail[300];
} worker;

static void *
work(void *user)
{
    worker *w = user;
    yoke_predictor *p;

    w->status = yoke_predictor_create(
        w->context, test_selector(), w->model,
        &(yoke_predictor_options){.batch = 4, .level = YOKE_PLAN_ESTIMATE}, &p);
    if (w->status == YOKE_OK) {
        for (int i = 0; i < 10 && w->status == YOKE_OK; i++)
            w->status =
                yoke_predictor_run(p, SAMPLES, bytes_of(w->samples), w->got, SAMPLES * CLASSES);
        yoke_predictor_destroy(p);
    }
    snprintf(w->detail, sizeof w->detail, "%s", yoke_last_error());
    return NULL;
}

START_TEST(several_threads)
{
    enum { THREADS = 3 };
    test_devices devices;
    yoke_graph *g = classifier(false);
    samples *s = make_samples(false);
    worker workers[THREADS];
    yoke_model *m;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    if (devices.slow) {
        test_devices_close(&devices);
        free_samples(s);
        TEST_NOT_HERE("the simulator has no threads");
    }
    ASSERT_OK(yoke_model_create(g, &(yoke_model_options){.input_type = YOKE_U8, .seed = 8}, &m));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.context = devices.context, .model = m, .samples = s};
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_msg(workers[i].status == YOKE_OK, "%s", workers[i].detail);
        ck_assert_int_eq(memcmp(workers[i].got, workers[0].got, sizeof workers[i].got), 0);
    }
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    test_devices_close(&devices);
    free_samples(s);
}
END_TEST

/* A large layer is on the device once, however many predictors there are; new values reach those
 * that are made afterwards. */
START_TEST(weights_are_shared)
{
    enum { WIDTH = 512 };
    test_devices devices;
    yoke_memory_usage before, one, two;
    yoke_graph *g;
    yoke_model *m;
    yoke_predictor *p[3];
    float *weight = calloc(WIDTH * WIDTH, sizeof *weight), x[WIDTH] = {1}, y[3][WIDTH];

    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(g, "y",
                          yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH)),
                                     &(yoke_dense_options){.units = WIDTH, .no_bias = true}));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_device_get_memory(devices.device[0], &before));
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            ASSERT_OK(yoke_model_write(m, "dense1.weight", weight, WIDTH * WIDTH));
        ASSERT_OK(yoke_predictor_create(
            devices.context, test_selector(), m,
            &(yoke_predictor_options){.batch = 1, .level = YOKE_PLAN_ESTIMATE}, &p[i]));
        ASSERT_OK(yoke_device_get_memory(devices.device[0], i == 0 ? &one : &two));
        if (i == 1)
            ck_assert_msg(two.used - one.used + 4 * WIDTH * WIDTH / 2 <= one.used - before.used,
                          "%llu bytes, then %llu more",
                          (unsigned long long)(one.used - before.used),
                          (unsigned long long)(two.used - one.used));
    }
    for (int i = 0; i < 3; i++)
        ASSERT_OK(yoke_predictor_run(p[i], 1, yoke_feed_f32("x", x, WIDTH), y[i], WIDTH));
    ck_assert_int_eq(memcmp(y[0], y[1], sizeof y[0]), 0);
    ck_assert(y[0][0] != 0 && y[2][0] == 0);
    for (int i = 0; i < 3; i++)
        yoke_predictor_destroy(p[i]);
    ASSERT_OK(yoke_device_get_memory(devices.device[0], &two));
    ck_assert_uint_eq(two.used, before.used);
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    test_devices_close(&devices);
    free(weight);
}
END_TEST

START_TEST(refusals)
{
    test_devices devices;
    yoke_graph *g;
    yoke_node *a, *b;
    yoke_model *m;
    yoke_predictor *p = NULL;
    float y[4];
    int32_t words[2] = {3, 11};
    const yoke_feed one = yoke_feed_i32("words", words, 1);

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_graph_create(&g));
    a = yoke_input(g, "a", YOKE_F32, yoke_shape(2));
    b = yoke_target(g, "b", YOKE_F32, yoke_shape(2));
    a = yoke_add(g, a, b);
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_STATUS(YOKE_ERROR_STATE,
                  yoke_predictor_create(devices.context, test_selector(), m, NULL, &p));
    ASSERT_DETAIL("the model has no output");
    yoke_model_destroy(m);
    yoke_graph_set_output(g, "y", a);
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED,
                  yoke_predictor_create(devices.context, test_selector(), m, NULL, &p));
    ASSERT_DETAIL("the model computes from \"b\" too");
    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yoke_predictor_create(devices.context, "?", m, NULL, &p));
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    a = yoke_sequence(g, yoke_input(g, "a", YOKE_F32, yoke_shape(3, 2)));
    b = yoke_sequence(g, yoke_input(g, "b", YOKE_F32, yoke_shape(3, 2)));
    yoke_graph_set_output(g, "y", yoke_add(g, a, b));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED,
                  yoke_predictor_create(devices.context, test_selector(), m, NULL, &p));
    ASSERT_DETAIL("from the sequence \"a\" and from \"b\"");
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    /* Numbers that are no rows of a table do not reach a device. */
    ASSERT_OK(yoke_graph_create(&g));
    a = yoke_embedding(g, yoke_input(g, "words", YOKE_I32, yoke_shape()),
                       &(yoke_embedding_options){.rows = 11, .width = 2});
    yoke_graph_set_output(g, "y", a);
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_OK(yoke_predictor_create(devices.context, test_selector(), m, NULL, &p));
    ASSERT_STATUS(YOKE_ERROR_VALUE,
                  yoke_predictor_run(p, 2, yoke_feed_i32("words", words, 2), y, 4));
    ASSERT_OK(yoke_predictor_run(p, 1, one, y, 2));
    ASSERT_OK(yoke_predictor_run(p, 0, yoke_feed_i32("words", NULL, 0), NULL, 0));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_predictor_run(p, -1, one, y, 2));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_predictor_run(NULL, 1, one, y, 2));
    yoke_predictor_destroy(p);
    yoke_predictor_destroy(NULL);
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("predict");
    TCase *predict = test_case(suite, "predict");

    tcase_add_checked_fixture(predict, scratch_set_up, scratch_tear_down);
    tcase_add_test(predict, pytorch_resnet18);
    tcase_add_loop_test(predict, predicts_as_trained, 0, 2);
    tcase_add_test(predict, values_in_their_units);
    tcase_add_test(predict, replicas_and_outputs);
    tcase_add_test(predict, several_threads);
    tcase_add_test(predict, weights_are_shared);
    tcase_add_test(predict, refusals);
    return suite;
}
