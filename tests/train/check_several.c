/* SPDX-License-Identifier: Apache-2.0
 *
 * check_several.c - models of several inputs: the file has the shape, the type and the scaling of
 * each, and a predictor takes a feed for each that its output is computed from.
 */
#include <string.h>

#include "support/devices.h"
#include "support/scratch.h"
#include "train/runs.h"

enum { N = 20, PIXELS = 12, COLUMNS = 3, CLASSES = 4 };

static test_devices devices;
static uint8_t image[N * PIXELS];
static float table[N * COLUMNS], fare[N];
static int32_t label[N];

static void
open_devices(void)
{
    scratch_set_up();
    ck_assert(team_find(TEST_AS_IS, &devices, NULL));
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < PIXELS; k++)
            image[i * PIXELS + k] = (uint8_t)(i * 31 + k * 7);
        for (int k = 0; k < COLUMNS; k++)
            table[i * COLUMNS + k] = (float)(100 * k + i * (k + 1) % 7);
        fare[i] = (float)(i % 5);
        label[i] = i % CLASSES;
    }
}

static void
close_devices(void)
{
    test_devices_close(&devices);
    scratch_tear_down();
}

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units});
}

/* Classes of an image and a table; and, of a third input alone, an output of its own. */
static yoke_graph *
make_graph(void)
{
    yoke_graph *g;
    yoke_node *a, *b, *c, *y;

    ASSERT_OK(yoke_graph_create(&g));
    a = yoke_input(g, "image", YOKE_F32, yoke_shape(1, 3, 4));
    b = yoke_input(g, "table", YOKE_F32, yoke_shape(COLUMNS));
    c = yoke_input(g, "fare", YOKE_F32, yoke_shape(1));
    a = dense(g, yoke_flatten(g, a), 5);
    y = dense(g, yoke_tanh(g, yoke_add(g, a, dense(g, b, 5))), CLASSES);
    c = dense(g, c, 1);
    yoke_graph_set_output(g, "class", y);
    yoke_graph_set_output(g, "price", c);
    y = yoke_softmax_cross_entropy(g, y, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL);
    yoke_graph_set_loss(g, y);
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static yoke_dataset *
make_data(void)
{
    const float mean[] = {3, 103, 203}, scale[] = {0.5f, 0.25f, 0.125f};
    const yoke_field fields[] = {
        {.name = "fare", .type = YOKE_F32, .shape = yoke_shape(1), .data = fare},
        {.name = "table", .type = YOKE_F32, .shape = yoke_shape(COLUMNS), .data = table},
        {.name = "label", .type = YOKE_I32, .shape = yoke_shape(), .data = label},
        {.name = "image", .type = YOKE_U8, .shape = yoke_shape(3, 4), .data = image}};
    yoke_dataset *data;

    ASSERT_OK(yoke_dataset_create(N, fields, 4, NULL, &data));
    ASSERT_OK(yoke_dataset_set_scaling(data, "table", mean, scale, COLUMNS));
    return data;
}

/* Trains a little, writes the model, and gives what the trainer predicts. */
static void
train(const char *path, float *y)
{
    yoke_graph *g = make_graph();
    yoke_dataset *data = make_data();
    yoke_trainer_options o = {
        .optimizer = yoke_sgd(0.1f, 0), .batch = 8, .level = YOKE_PLAN_ESTIMATE};
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    ASSERT_OK(yoke_trainer_fit(t, data, NULL, &(yoke_fit_options){.epochs = 2}));
    ASSERT_OK(yoke_trainer_predict_dataset(t, "class", data, 0, N, y, N * CLASSES));
    ASSERT_OK(yoke_trainer_save(t, path));
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_dataset_destroy(data);
    yoke_graph_destroy(g);
}

static yoke_predictor *
make_predictor(yoke_model *m, const char *output)
{
    const yoke_predictor_options o = {
        .output = output, .raw = true, .batch = 6, .level = YOKE_PLAN_ESTIMATE};
    yoke_predictor *p;

    ASSERT_OK(yoke_predictor_create(devices.context, devices.selector, m, &o, &p));
    return p;
}

/* Probabilities over a dataset on a team, and for feeds on one device. */
static void
expect_on_all_devices(yoke_model *m)
{
    const yoke_trainer_options o = {
        .batch = 7, .shares = "80,20", .level = YOKE_PLAN_ESTIMATE, .strict = true};
    const yoke_feed feeds[] = {yoke_feed_make("image", YOKE_U8, image, N * PIXELS),
                               yoke_feed_f32("table", table, N * COLUMNS)};
    yoke_dataset *data = make_data();
    float one[N * CLASSES], all[N * CLASSES], sum = 0;
    yoke_predictor *p;
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_predictor_create(devices.context, devices.selector, m,
                                    &(yoke_predictor_options){.level = YOKE_PLAN_ESTIMATE}, &p));
    ASSERT_OK(yoke_predictor_run_feeds(p, N, feeds, 2, one, N * CLASSES));
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_from_model(team, m, &o, &t));
    ASSERT_OK(yoke_trainer_predict_dataset(t, NULL, data, 0, N, all, N * CLASSES));
    for (int i = 0; i < N * CLASSES; i++) {
        ck_assert_float_eq_tol(all[i], one[i], 1e-5f);
        sum += all[i] / N;
    }
    ck_assert_float_eq_tol(sum, 1, 1e-5f);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_predictor_destroy(p);
    yoke_dataset_destroy(data);
}

START_TEST(file_and_predictor)
{
    const char *path = scratch_path("model");
    const yoke_feed feeds[] = {yoke_feed_f32("table", table, N * COLUMNS),
                               yoke_feed_make("image", YOKE_U8, image, N * PIXELS)};
    float trained[N * CLASSES], y[N * CLASSES];
    yoke_dataset *data = make_data();
    const float *mean;
    yoke_predictor *p;
    yoke_model *m;

    train(path, trained);
    ASSERT_OK(yoke_model_load(path, &m));
    ck_assert_uint_eq(yoke_model_input_count(m), 3);
    ck_assert_str_eq(yoke_model_get_input(m)->name, "image");
    ck_assert_int_eq(yoke_model_get_input_at(m, 0)->type, YOKE_U8);
    ck_assert_str_eq(yoke_model_get_input_at(m, 1)->name, "table");
    ck_assert_ptr_null(yoke_model_get_input_at(m, 3));
    p = make_predictor(m, NULL);
    ASSERT_OK(yoke_predictor_run_feeds(p, N, feeds, 2, y, N * CLASSES));
    for (int i = 0; i < N * CLASSES; i++)
        ck_assert_float_eq_tol(y[i], trained[i], 1e-5f);
    yoke_predictor_destroy(p);
    expect_on_all_devices(m);
    p = make_predictor(m, "price"); /* of one input, which is not the first */
    ASSERT_OK(yoke_predictor_run(p, N, yoke_feed_f32("fare", fare, N), y, N));
    yoke_predictor_destroy(p);
    ASSERT_OK(yoke_dataset_set_scaling(data, "table", NULL, NULL, 0));
    ASSERT_OK(yoke_model_scale_dataset(m, data));
    ck_assert_uint_eq(yoke_dataset_get_scaling(data, "table", &mean, NULL), COLUMNS);
    ck_assert_float_eq(mean[1], 103);
    yoke_dataset_destroy(data);
    yoke_model_destroy(m);
}
END_TEST

/* Training cuts images of 5 x 6 at random; a predictor cuts the middle, as an evaluation does. */
START_TEST(larger_images)
{
    enum { H = 5, W = 6 };
    static uint8_t large[N * H * W];
    const yoke_field fields[] = {
        {.name = "image", .type = YOKE_U8, .shape = yoke_shape(1, H, W), .data = large},
        {.name = "label", .type = YOKE_I32, .shape = yoke_shape(), .data = label}};
    const char *path = scratch_path("cut");
    float trained[N * CLASSES], y[N * CLASSES];
    yoke_dataset *data;
    yoke_predictor *p;
    yoke_trainer *t;
    yoke_model *m;
    yoke_graph *g;
    yoke_team *team;
    yoke_node *x;

    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (uint8_t)(i * 29);
    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_flatten(g, yoke_input(g, "image", YOKE_F32, yoke_shape(1, 3, 4)));
    x = dense(g, x, CLASSES);
    yoke_graph_set_output(g, "class", x);
    x = yoke_softmax_cross_entropy(g, x, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL);
    yoke_graph_set_loss(g, x);
    ASSERT_OK(yoke_dataset_create(N, fields, 2, NULL, &data));
    ASSERT_OK(yoke_dataset_set_augmentation(data, &(yoke_augmentation){.crop = true}));
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g,
                                  &(yoke_trainer_options){.optimizer = yoke_sgd(0.1f, 0),
                                                          .batch = 8,
                                                          .level = YOKE_PLAN_ESTIMATE},
                                  &t));
    ASSERT_OK(yoke_trainer_fit(t, data, NULL, NULL));
    ASSERT_OK(yoke_trainer_predict_dataset(t, NULL, data, 0, N, trained, N * CLASSES));
    ASSERT_OK(yoke_trainer_save(t, path));
    ASSERT_OK(yoke_model_load(path, &m));
    p = make_predictor(m, NULL);
    ASSERT_OK(yoke_predictor_run(p, N, yoke_feed_make("image", YOKE_U8, large, sizeof large), y,
                                 N * CLASSES));
    for (int i = 0; i < N * CLASSES; i++)
        ck_assert_float_eq_tol(y[i], trained[i], 1e-5f);
    yoke_predictor_destroy(p);
    yoke_model_destroy(m);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_dataset_destroy(data);
    yoke_graph_destroy(g);
}
END_TEST

/* A model that was made, not read: it is known of all inputs what the graph says. */
START_TEST(refusals)
{
    const yoke_feed right[] = {yoke_feed_f32("image", table, PIXELS),
                               yoke_feed_f32("table", table, COLUMNS)};
    const yoke_feed twice[] = {right[1], right[1]}, other[] = {right[0], {0}};
    yoke_feed wrong[] = {right[0], yoke_feed_f32("tabel", table, COLUMNS)};
    yoke_graph *g = make_graph();
    yoke_predictor *p;
    yoke_model *m;
    float y[CLASSES];

    ASSERT_OK(yoke_model_create(g, NULL, &m));
    p = make_predictor(m, NULL);
#define REFUSED(status, feeds, count, detail)                                                      \
    ASSERT_STATUS(status, yoke_predictor_run_feeds(p, 1, feeds, count, y, CLASSES));               \
    ASSERT_DETAIL(detail)
    REFUSED(YOKE_ERROR_NOT_FOUND, right, 1, "nothing is given for the input \"table\"");
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, twice, 2, "feed \"table\" is given twice");
    REFUSED(YOKE_ERROR_NOT_FOUND, wrong, 2,
            "a feed is \"tabel\"; must be one of \"image\", \"table\"");
    REFUSED(YOKE_ERROR_NOT_FOUND, other, 2, "a feed is \"\"");
    wrong[1] = yoke_feed_f32("table", table, COLUMNS + 1);
    REFUSED(YOKE_ERROR_SHAPE, wrong, 2, "feed \"table\"");
    ASSERT_OK(yoke_predictor_run_feeds(p, 1, right, 2, y, CLASSES));
    yoke_predictor_destroy(p);
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("several");
    TCase *tc = test_case(suite, "several");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, file_and_predictor);
    tcase_add_test(tc, larger_images);
    tcase_add_test(tc, refusals);
    return suite;
}
