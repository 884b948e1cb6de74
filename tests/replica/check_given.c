/* SPDX-License-Identifier: Apache-2.0
 *
 * check_given.c - what is given to an input has the type and the number of values that
 * are wanted, and nothing is read where that is not so: arrays end at a page that
 * nobody may touch.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/opened.h"
#include "support/support.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 8, PIXELS = 28 * 28, CLASSES = 10 };

/* Zeros, with a page behind them that faults. */
static void *
guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    char *memory =
        mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert(memory != MAP_FAILED);
    ck_assert_int_eq(mprotect(memory + size, page, PROT_NONE), 0);
    return memory + size - bytes;
}

static yoke_graph *
make_graph(void)
{
    yoke_graph *g;
    yoke_node *image, *label, *y;

    ASSERT_OK(yoke_graph_create(&g));
    image = yoke_input(g, "image", YOKE_F32, yoke_shape(1, 28, 28));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    y = yoke_dense(g, yoke_flatten(g, image), &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
    return g;
}

static yoke_trainer *
make_trainer(void)
{
    const yoke_trainer_options o = {
        .batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .core_groups = YOKE_CORE_GROUPS_NEVER};
    yoke_graph *g = make_graph();
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, test_selector(), NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    return t;
}

static yoke_replica *
make_replica(void)
{
    const yoke_replica_options o = {.batch = BATCH, .level = YOKE_PLAN_ESTIMATE};
    yoke_graph *g = make_graph();
    yoke_replica *r;

    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    yoke_graph_destroy(g);
    return r;
}

/* ---- the number of samples comes first ---- */

START_TEST(too_many_samples)
{
    const int64_t n = BATCH + 1;
    const yoke_feed feeds[2] = {
        yoke_feed_f32("image", guarded(BATCH * PIXELS * sizeof(float)), n * PIXELS),
        yoke_feed_i32("label", guarded(BATCH * sizeof(int32_t)), n)};
    yoke_trainer *t = make_trainer();
    yoke_replica *r = make_replica();
    yoke_result result;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_step(t, n, feeds, 2, &result));
    ASSERT_DETAIL("9 samples; must be between 0 and 8");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_step(t, -1, feeds, 2, &result));
    ASSERT_DETAIL("-1 samples");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_replica_set_input(r, n, feeds[1]));
    ASSERT_DETAIL(
        "input \"label\": the number of samples is 9; must be between 0 and 8, the batch");
    yoke_replica_destroy(r);
    yoke_trainer_destroy(t);
}
END_TEST

/* ---- type and count ---- */

/* Both are as long as they say, and for 8 samples too short or of another type. */
typedef struct mistake {
    yoke_status status;
    yoke_feed feed;
    const char *sentence;
} mistake;

enum { MISTAKES = 6 };

static void
make_mistakes(mistake mistakes[MISTAKES])
{
    const uint8_t *bytes = guarded(BATCH * PIXELS);
    const float *floats = guarded(PIXELS * sizeof *floats);
    const int32_t *labels = guarded(sizeof *labels);
    yoke_feed reserved = yoke_feed_f32("image", floats, BATCH * PIXELS);
    const mistake all[MISTAKES] = {
        {YOKE_ERROR_TYPE, yoke_feed_u8("image", bytes, BATCH * PIXELS),
         ": feed \"image\" has type u8; must be f32"},
        {YOKE_ERROR_TYPE, yoke_feed_make("image", (yoke_type)9, bytes, BATCH * PIXELS),
         ": feed \"image\" has type 9; must be YOKE_F32, YOKE_I32 or YOKE_U8"},
        {YOKE_ERROR_SHAPE, yoke_feed_f32("image", floats, PIXELS),
         ": feed \"image\" has 784 values; must be 6272 for 8 samples of (1, 28, 28)"},
        {YOKE_ERROR_SHAPE, yoke_feed_f32("image", floats, -1),
         ": feed \"image\" has -1 values; must be 6272 for 8 samples of (1, 28, 28)"},
        {YOKE_ERROR_SHAPE, yoke_feed_i32("label", labels, 1),
         ": feed \"label\" has 1 value; must be 8 for 8 samples of ()"},
        {YOKE_ERROR_INVALID_ARGUMENT, reserved, ": feed \"image\": reserved must be 0"},
    };

    memcpy(mistakes, all, sizeof all);
    mistakes[MISTAKES - 1].feed.reserved[1] = 1;
}

START_TEST(feeds_of_steps)
{
    yoke_feed feeds[2] = {
        yoke_feed_f32("image", guarded(BATCH * PIXELS * sizeof(float)), BATCH * PIXELS),
        yoke_feed_i32("label", guarded(BATCH * sizeof(int32_t)), BATCH)};
    float y[BATCH * CLASSES];
    mistake mistakes[MISTAKES];
    yoke_trainer *t = make_trainer();
    yoke_replica *r = make_replica();

    make_mistakes(mistakes);
    for (int i = 0; i < MISTAKES; i++) {
        const mistake *m = &mistakes[i];
        yoke_feed given[2] = {feeds[0], feeds[1]};

        given[strcmp(m->feed.name, "label") == 0] = m->feed;
        ASSERT_STATUS(m->status, yoke_trainer_step(t, BATCH, given, 2, NULL));
        ASSERT_DETAIL("yoke_trainer_step: feed");
        ASSERT_DETAIL(m->sentence);
        ASSERT_STATUS(m->status, yoke_trainer_predict(t, "y", BATCH, given, 2, y, BATCH * CLASSES));
        ASSERT_DETAIL("yoke_trainer_predict: feed");
        ASSERT_DETAIL(m->sentence);
        ASSERT_STATUS(m->status, yoke_replica_set_input(r, BATCH, m->feed));
        ASSERT_DETAIL("yoke_replica_set_input: feed");
        ASSERT_DETAIL(m->sentence);
    }
    ASSERT_OK(yoke_trainer_step(t, BATCH, feeds, 2, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    yoke_replica_destroy(r);
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(one_feed_twice)
{
    const yoke_feed label = yoke_feed_i32("label", guarded(sizeof(int32_t)), 1);
    const yoke_feed image = yoke_feed_f32("image", guarded(PIXELS * sizeof(float)), PIXELS);
    const yoke_feed feeds[3] = {image, label, image};
    yoke_trainer *t = make_trainer();

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_step(t, 1, feeds, 3, NULL));
    ASSERT_DETAIL("feed \"image\" is given twice");
    yoke_trainer_destroy(t);
}
END_TEST

/* More samples than 64 bits can count values of. */
START_TEST(counts_that_overflow)
{
    const int64_t n = INT64_MAX / 2;
    const yoke_feed wraps = yoke_feed_f32("image", guarded(4), (int64_t)((uint64_t)n * PIXELS));
    yoke_trainer *t = make_trainer();
    float y[1];

    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_trainer_predict(t, "y", n, &wraps, 1, y, 1));
    ASSERT_DETAIL("feed \"image\"");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_predict(t, "y", -1, &wraps, 1, y, 1));
    ASSERT_DETAIL("n is -1; must be at least 0");
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(feeds_of_predictors)
{
    yoke_graph *g = make_graph();
    mistake mistakes[MISTAKES];
    yoke_predictor *p;
    yoke_model *m;
    float *y = guarded(CLASSES * sizeof *y);

    make_mistakes(mistakes);
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_OK(yoke_predictor_create(
        devices.context, test_selector(), m,
        &(yoke_predictor_options){.batch = 2, .level = YOKE_PLAN_ESTIMATE}, &p));
    for (int i = 0; i < MISTAKES; i++) {
        if (strcmp(mistakes[i].feed.name, "image") != 0)
            continue;
        ASSERT_STATUS(mistakes[i].status,
                      yoke_predictor_run(p, BATCH, mistakes[i].feed, y, CLASSES));
        ASSERT_DETAIL("yoke_predictor_run: feed");
        ASSERT_DETAIL(mistakes[i].sentence);
    }
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_predictor_run(p, BATCH, mistakes[4].feed, y, CLASSES));
    ASSERT_DETAIL("the name of the feed is \"label\"; must be \"image\", the model's input");
    ASSERT_STATUS(YOKE_ERROR_SHAPE,
                  yoke_predictor_run(p, 2, yoke_feed_f32("image", guarded(8 * PIXELS), 2 * PIXELS),
                                     y, CLASSES));
    ASSERT_DETAIL("output has room for 10 values; must be 20 for 2 results of (10)");
    ASSERT_OK(
        yoke_predictor_run(p, 1, yoke_feed_f32("image", guarded(4 * PIXELS), PIXELS), y, CLASSES));
    yoke_predictor_destroy(p);
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
}
END_TEST

/* Bytes read as floats: the array is four times as long as what comes, or a fourth of it. */
START_TEST(samples_of_a_dataset)
{
    static const uint8_t pixels[2][PIXELS];
    const yoke_field field = {
        .name = "image", .type = YOKE_U8, .shape = yoke_shape(1, 28, 28), .data = pixels};
    const int64_t indices[2] = {1, 0};
    uint8_t *out = guarded(sizeof pixels);
    yoke_dataset *dataset;

    ASSERT_OK(yoke_dataset_create(2, &field, 1, NULL, &dataset));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_dataset_read(dataset, "image", indices, 2, out,
                                                      sizeof pixels * sizeof(float)));
    ASSERT_DETAIL("out has 6272 bytes; 2 samples of \"image\", which is u8, need 1568");
    ASSERT_STATUS(YOKE_ERROR_SHAPE,
                  yoke_dataset_read(dataset, "image", indices, 2, out + PIXELS, PIXELS));
    ASSERT_DETAIL("out has 784 bytes");
    ASSERT_OK(yoke_dataset_read(dataset, "image", indices, 2, out, sizeof pixels));
    yoke_dataset_destroy(dataset);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("given");
    TCase *tcase = test_case(suite, "given");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_test(tcase, too_many_samples);
    tcase_add_test(tcase, feeds_of_steps);
    tcase_add_test(tcase, one_feed_twice);
    tcase_add_test(tcase, counts_that_overflow);
    tcase_add_test(tcase, feeds_of_predictors);
    tcase_add_test(tcase, samples_of_a_dataset);
    return suite;
}
