/* SPDX-License-Identifier: Apache-2.0
 *
 * check_checkpoint.c - training that is stopped and goes on: with the same bits on
 * the same devices, in the same order on others; checkpoints that are damaged, disks
 * that are full.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/safetensors.h"
#include "support/devices.h"
#include "support/scratch.h"
#include "train/checkpoint.h"

TESTS_SHARE_A_PROCESS

enum { SIDE = 5, PIXELS = SIDE * SIDE, CLASSES = 3, SAMPLES = 22, BATCH = 6 };
enum { CONTEXT = 8, WORDS = 30 };

/* What a test works with. */
typedef struct bench {
    test_devices devices;
    yoke_graph *graph;
    yoke_dataset *data;
    yoke_team *team;
    yoke_trainer *trainer;
    const char *precision;
    yoke_dataset *test; /* NULL: data; a text has windows of its own for tests */
    bool text;
    uint8_t image[SAMPLES][PIXELS];
    int32_t label[SAMPLES];
    /* of training */
    int64_t stop_at; /* steps; 0: never */
    double losses[100];
    int64_t seen;
} bench;

static yoke_graph *
network(void)
{
    yoke_graph *g;
    yoke_node *x, *y, *t;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_F32, yoke_shape(1, SIDE, SIDE));
    t = yoke_target(g, "label", YOKE_I32, yoke_shape());
    /* No bias: before a batch norm its gradient is rounding, of which Adam makes whole steps. */
    y = yoke_conv2d(g, x, &(yoke_conv2d_options){.filters = 3, .kernel = {3, 3}, .no_bias = true});
    y = yoke_dropout(g, yoke_relu(g, yoke_batch_norm(g, y, NULL)), 0.3f);
    y = yoke_dense(g, yoke_flatten(g, y), &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_output(g, "logits", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, t, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, t));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* Of a text. */
static yoke_graph *
words_network(void)
{
    const yoke_embedding_options table = {.rows = WORDS, .width = 8};
    const yoke_dense_options head = {.units = WORDS};
    yoke_graph *g;
    yoke_node *x, *y, *t;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_sequence(g, yoke_input(g, "tokens", YOKE_I32, yoke_shape(CONTEXT)));
    t = yoke_sequence(g, yoke_target(g, "next", YOKE_I32, yoke_shape(CONTEXT)));
    y = yoke_dropout(g, yoke_embedding(g, x, &table), 0.3f);
    y = yoke_dense(g, yoke_tanh(g, y), &head);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, t, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, t));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* As many samples as there are of images: windows that each epoch shifts. */
static void
make_text(bench *b)
{
    static const yoke_text_options of_training = {.context = CONTEXT, .vocabulary = WORDS};
    static const yoke_text_options of_test = {
        .context = CONTEXT, .vocabulary = WORDS, .part = YOKE_PART_TEST, .test_fraction = 0.4};
    uint16_t words[(SAMPLES + 1) * CONTEXT + 1];

    for (size_t i = 0; i < YKI_COUNT(words); i++)
        words[i] = (uint16_t)(i * i / 3 % WORDS);
    scratch_write_npy(scratch_path("words.npy"), "<u2", YKI_COUNT(words), words, sizeof words);
    ASSERT_OK(yoke_dataset_open_text(scratch_path("words.npy"), &of_training, &b->data));
    ASSERT_OK(yoke_dataset_open_text(scratch_path("words.npy"), &of_test, &b->test));
    ck_assert_int_eq(yoke_dataset_count(b->data), SAMPLES);
}

static void
make_data(bench *b)
{
    const yoke_field fields[2] = {
        {.name = "image", .type = YOKE_U8, .shape = yoke_shape(1, SIDE, SIDE), .data = b->image},
        {.name = "label", .type = YOKE_I32, .shape = yoke_shape(), .data = b->label},
    };
    const yoke_augmentation augmentation = {
        .flip = true, .shift = 1, .noise = 0.01f, .shift_part = 0.5f};

    for (int i = 0; i < SAMPLES; i++) {
        b->label[i] = i % CLASSES;
        for (int k = 0; k < PIXELS; k++)
            b->image[i][k] = (uint8_t)(i * 57 + k * (11 + 7 * (i % CLASSES)));
    }
    ASSERT_OK(yoke_dataset_create(SAMPLES, fields, 2, NULL, &b->data));
    ASSERT_OK(yoke_dataset_set_augmentation(b->data, &augmentation));
}

static void
make_trainer(bench *b, const char *selector, uint32_t seed)
{
    const yoke_schedule schedule = {
        .kind = YOKE_SCHEDULE_COSINE, .final_factor = 0.1f, .steps = 20, .warmup = 3};

    ASSERT_OK(yoke_team_create(b->devices.context, selector, NULL, &b->team));
    ASSERT_OK(yoke_trainer_create(b->team, b->graph,
                                  &(yoke_trainer_options){.optimizer = yoke_adam(1e-2f),
                                                          .batch = BATCH,
                                                          .seed = seed,
                                                          .shares = "even",
                                                          .reproducible = YOKE_REPRODUCIBLE_RUNS,
                                                          .schedule = &schedule,
                                                          .strict = true,
                                                          .clip_norm = 1,
                                                          .precision = b->precision,
                                                          .level = YOKE_PLAN_ESTIMATE},
                                  &b->trainer));
}

static bench *
set_up_for(bool text)
{
    bench *b = calloc(1, sizeof *b);

    ck_assert(test_devices_open(TEST_AS_IS, &b->devices));
    b->text = text;
    b->graph = text ? words_network() : network();
    (text ? make_text : make_data)(b);
    make_trainer(b, test_selector(), 5);
    return b;
}

static bench *
set_up(void)
{
    return set_up_for(false);
}

static void
drop_trainer(bench *b)
{
    yoke_trainer_destroy(b->trainer);
    yoke_team_destroy(b->team);
    b->trainer = NULL;
    b->team = NULL;
}

static void
tear_down(bench *b)
{
    drop_trainer(b);
    yoke_dataset_destroy(b->data);
    yoke_dataset_destroy(b->test);
    yoke_graph_destroy(b->graph);
    test_devices_close(&b->devices);
    free(b);
}

/* A process that begins again: nothing of the old trainer is left. */
static void
begin_again(bench *b, const char *selector, uint32_t seed)
{
    drop_trainer(b);
    yoke_graph_destroy(b->graph);
    b->graph = b->text ? words_network() : network();
    make_trainer(b, selector, seed);
}

static bool
on_step(void *user, const yoke_result *result)
{
    bench *b = user;

    ck_assert_int_lt(result->step, 100);
    b->losses[result->step] = result->loss;
    b->seen++;
    return b->stop_at && result->step >= b->stop_at;
}

static yoke_status
fit(bench *b, const char *dir, int64_t every, bool resume, int64_t epochs)
{
    return yoke_trainer_fit(b->trainer, b->data, b->test ? b->test : b->data,
                            &(yoke_fit_options){.epochs = epochs,
                                                .on_step = on_step,
                                                .user = b,
                                                .checkpoint_dir = dir,
                                                .checkpoint_every = every,
                                                .resume = resume});
}

/* All weights and states, one after the other; free() them. */
static float *
weights(bench *b, size_t *count)
{
    float *values = malloc(10000 * sizeof *values);

    *count = 0;
    for (size_t i = 0; i < b->graph->node_count; i++) {
        const yoke_node *node = b->graph->nodes[i];
        size_t size = (size_t)yki_shape_count(node->shape);

        if (node->role != YKI_ROLE_PARAMETER && node->role != YKI_ROLE_STATE)
            continue;
        ck_assert_uint_le(*count + size, 10000);
        ASSERT_OK(yoke_trainer_read(b->trainer, node->name, values + *count, size));
        *count += size;
    }
    return values;
}

static void
check_weights(bench *b, const float *expected, double tolerance)
{
    size_t count;
    float *got = weights(b, &count);
    double worst = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs((double)got[i] - (double)expected[i]));
        largest = fmax(largest, fabs((double)expected[i]));
        ck_assert(isfinite(got[i]));
    }
    if (tolerance == 0)
        ck_assert_msg(memcmp(got, expected, count * sizeof *got) == 0, "not the same bits");
    else
        ck_assert_msg(worst <= tolerance * largest, "error %g", worst / largest);
    free(got);
}

static void *
copy_of(const void *data, size_t size)
{
    return memcpy(malloc(size), data, size);
}

/* free_history() frees the copy. */
static void
copy_history(const bench *b, yoke_epoch epochs[4])
{
    ck_assert_uint_eq(yoke_trainer_epoch_count(b->trainer), 4);
    for (size_t i = 0; i < 4; i++) {
        const yoke_epoch *e = yoke_trainer_get_epoch(b->trainer, i);

        epochs[i] = *e;
        epochs[i].train = copy_of(e->train, sizeof *e->train);
        epochs[i].test = copy_of(e->test, sizeof *e->test);
        epochs[i].shares = copy_of(e->shares, e->devices * sizeof(double));
        epochs[i].device_losses = copy_of(e->device_losses, e->devices * sizeof(double));
    }
}

static void
free_history(yoke_epoch epochs[4])
{
    for (size_t i = 0; i < 4; i++) {
        free((void *)epochs[i].train);
        free((void *)epochs[i].test);
        free((void *)epochs[i].shares);
        free((void *)epochs[i].device_losses);
    }
}

/* All but times are as they were. */
static void
check_history(const bench *b, const yoke_epoch expected[4])
{
    ck_assert_uint_eq(yoke_trainer_epoch_count(b->trainer), 4);
    for (size_t i = 0; i < 4; i++) {
        const yoke_epoch *e = &expected[i], *g = yoke_trainer_get_epoch(b->trainer, i);

        ck_assert(g->epoch == e->epoch && g->step == e->step && g->train->step == e->train->step &&
                  g->train->samples == e->train->samples && g->train->count == e->train->count &&
                  g->train->loss == e->train->loss &&
                  g->train->metric_count == e->train->metric_count &&
                  g->train->metrics[0] == e->train->metrics[0]);
        ck_assert(g->test->samples == e->test->samples && g->test->loss == e->test->loss &&
                  g->test->metrics[0] == e->test->metrics[0]);
        ck_assert(g->train->seconds > 0 && g->samples_per_second > 0);
        ck_assert_uint_eq(g->devices, e->devices);
        /* One device alone has no loss of its own: NaN. */
        for (size_t k = 0; k < e->devices; k++)
            ck_assert(g->shares[k] == e->shares[k] &&
                      (g->device_losses[k] == e->device_losses[k] ||
                       (isnan(g->device_losses[k]) && isnan(e->device_losses[k]))));
    }
}

static size_t
checkpoints(const char *dir, int64_t *newest)
{
    int64_t *steps = NULL;
    size_t count = 0;

    ASSERT_OK(yki_checkpoint_list(dir, &steps, &count));
    *newest = count ? steps[0] : -1;
    yki_free(steps);
    return count;
}

/* ---- going on ---- */

/* Stopped within an epoch, or between two; 4 steps are an epoch. The seed is the checkpoint's. The
 * third time the samples are a text's. */
START_TEST(the_same_bits)
{
    static const int64_t stops[] = {5, 8, 5}; /* told up to two steps late */
    const char *dir = scratch_path("run");
    bench *b = set_up_for(_i == 2);
    double losses[100];
    yoke_epoch whole[4];
    size_t count;
    float *expected;
    int64_t newest;

    ASSERT_OK(fit(b, NULL, 0, false, 4));
    expected = weights(b, &count);
    memcpy(losses, b->losses, sizeof losses);
    copy_history(b, whole);
    begin_again(b, test_selector(), 5);
    b->stop_at = stops[_i];
    ASSERT_OK(fit(b, dir, 5, false, 4));
    ck_assert(yoke_trainer_was_stopped(b->trainer));
    b->stop_at = b->seen = 0;
    memset(b->losses, 0, sizeof b->losses);
    (void)checkpoints(dir, &newest);
    ck_assert_int_ge(newest, stops[_i]);
    begin_again(b, test_selector(), 77);
    ASSERT_OK(fit(b, dir, 5, true, 4));
    ck_assert_int_eq(b->seen, 16 - newest);
    for (int64_t s = newest + 1; s <= 16; s++)
        ck_assert_msg(losses[s] == b->losses[s], "step %lld", (long long)s);
    ck_assert(_i == 1 || newest < 8);
    check_history(b, whole);
    check_weights(b, expected, 0);
    /* Nothing is left to do. */
    begin_again(b, test_selector(), 5);
    b->seen = 0;
    ASSERT_OK(fit(b, dir, 5, true, 4));
    ck_assert_int_eq(b->seen, 0);
    check_weights(b, expected, 0);
    check_history(b, whole);
    free_history(whole);
    free(expected);
    tear_down(b);
}
END_TEST

/* Frozen plans that are others than the checkpoint's are refused, and nothing has changed. */
START_TEST(other_plans)
{
    const char *dir = scratch_path("run");
    bench *b = set_up();
    yki_task *task = &b->trainer->crew.members[0].replica->training->tasks[0];
    float *before;
    size_t count;

    task->tuning ^= 1; /* it has been measured and kept: only its identity is another */
    ASSERT_OK(fit(b, dir, 0, false, 1));
    task->tuning ^= 1;
    begin_again(b, test_selector(), 5);
    before = weights(b, &count);
    ASSERT_STATUS(YOKE_ERROR_STATE, fit(b, dir, 0, true, 2));
    ASSERT_DETAIL("other plans on these devices");
    ck_assert_int_eq(yoke_trainer_get_step(b->trainer), 0);
    check_weights(b, before, 0);
    /* Not frozen, it goes on. */
    b->trainer->options.reproducible = YOKE_REPRODUCIBLE_NO;
    scratch_log_clear();
    ASSERT_OK(fit(b, dir, 0, true, 2));
    ck_assert_int_eq(yoke_trainer_get_step(b->trainer), 8);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, "the plans are not those"), 1);
    free(before);
    tear_down(b);
}
END_TEST

/* Weights and the optimizer's state are floats in any precision, so a run goes on in another one,
 * and back. */
START_TEST(other_precisions)
{
    static const char *const precisions[] = {NULL, "bf16", "f32"};
    const char *dir = scratch_path("run");
    bench *b = set_up();

    for (int i = 0; i < 3; i++) {
        const yki_plan *plan;
        size_t count, rounded = 0;
        float *after;

        b->precision = precisions[i];
        begin_again(b, test_selector(), 5);
        b->trainer->options.reproducible = YOKE_REPRODUCIBLE_NO;
        b->seen = 0;
        ASSERT_OK(fit(b, dir, 0, i > 0, i + 1));
        ck_assert_int_eq(b->seen, 4);
        ck_assert_int_eq(yoke_trainer_get_step(b->trainer), 4 * (i + 1));
        after = weights(b, &count);
        for (size_t k = 0; k < count; k++)
            ck_assert(isfinite(after[k]));
        free(after);
        plan = b->trainer->crew.members[0].replica->training;
        for (size_t t = 0; t < plan->task_count; t++)
            rounded +=
                plan->tasks[t].solver && plan->tasks[t].solver->numerical_class == YKI_CLASS_BF16;
        ck_assert_int_eq(rounded > 0, i == 1);
    }
    tear_down(b);
}
END_TEST

/* On one device what was begun on two, and the other way: the same samples, sums in another order.
 */
START_TEST(other_devices)
{
    const char *dir = scratch_path("run");
    const char *few = "cpu:0", *many = "cpu:0/2";
    bench *b = set_up();
    yoke_selection *selection;
    size_t count;
    float *expected;

    if (yoke_selection_create(b->devices.context, many, NULL, &selection) != YOKE_OK)
        many = few;
    else
        yoke_selection_destroy(selection);
    if (strncmp(yki_device_id(b->devices.device[0]), "cpu", 3) != 0) {
        tear_down(b);
        TEST_NOT_HERE("no CPU to be split");
    }
    tear_down(b);
    b = calloc(1, sizeof *b);
    ASSERT_OK(yoke_context_create(NULL, &b->devices.context));
    b->graph = network();
    make_data(b);
    make_trainer(b, _i ? many : few, 5);
    ASSERT_OK(fit(b, NULL, 0, false, 3));
    expected = weights(b, &count);
    begin_again(b, _i ? many : few, 5);
    b->stop_at = 5;
    ASSERT_OK(fit(b, dir, 0, false, 3));
    ck_assert(yoke_trainer_was_stopped(b->trainer));
    b->stop_at = 0;
    begin_again(b, _i ? few : many, 5);
    ASSERT_OK(fit(b, dir, 0, true, 3));
    check_weights(b, expected, 1e-4);
    free(expected);
    drop_trainer(b);
    yoke_dataset_destroy(b->data);
    yoke_graph_destroy(b->graph);
    yoke_context_destroy(b->devices.context);
    free(b);
}
END_TEST

/* A checkpoint is a model, too. */
START_TEST(as_a_model)
{
    const char *dir = scratch_path("run");
    bench *b = set_up();
    yoke_model *m;
    float values[3], expected[3];
    int64_t newest;
    char *path;

    ASSERT_OK(fit(b, dir, 0, false, 1));
    ck_assert_uint_eq(checkpoints(dir, &newest), 1);
    path = yki_checkpoint_path(dir, newest);
    ASSERT_OK(yoke_model_load(path, &m));
    ASSERT_OK(yoke_model_read(m, "dense1.bias", values, 3));
    ASSERT_OK(yoke_trainer_read(b->trainer, "dense1.bias", expected, 3));
    ck_assert_int_eq(memcmp(values, expected, sizeof values), 0);
    yoke_model_destroy(m);
    yki_free(path);
    tear_down(b);
}
END_TEST

/* ---- the set of files ---- */

START_TEST(the_newest_are_kept)
{
    const char *dir = scratch_path("run");
    bench *b = set_up();
    int64_t newest;
    char path[400];

    ASSERT_OK(yoke_trainer_fit(
        b->trainer, b->data, NULL,
        &(yoke_fit_options){
            .epochs = 3, .checkpoint_dir = dir, .checkpoint_every = 1, .checkpoint_keep = 2}));
    ck_assert_uint_eq(checkpoints(dir, &newest), 2);
    ck_assert_int_eq(newest, 12);
    /* Leftovers of a process that is no more go, other files stay. */
    snprintf(path, sizeof path, "%s/.yoke-999999999-0.tmp", dir);
    scratch_write(path, "x", 1);
    ASSERT_OK(yoke_trainer_fit(b->trainer, b->data, NULL,
                               &(yoke_fit_options){.epochs = 1, .checkpoint_dir = dir}));
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_uint_eq(checkpoints(dir, &newest), 3);
    ck_assert_int_eq(newest, 16);
    tear_down(b);
}
END_TEST

static bool
ask_for_one(void *user, const yoke_epoch *epoch)
{
    const bench *b = user;

    if (epoch->epoch == 0)
        yoke_trainer_request_save(b->trainer);
    return false;
}

/* Asked for while no step runs: after the last step of an epoch, or in its evaluation. */
START_TEST(asked_for_between_epochs)
{
    const char *dir = scratch_path("run");
    bench *b = set_up();
    int64_t newest;

    ASSERT_OK(yoke_trainer_fit(b->trainer, b->data, b->data,
                               &(yoke_fit_options){.epochs = 2,
                                                   .on_epoch = ask_for_one,
                                                   .user = b,
                                                   .checkpoint_dir = dir,
                                                   .checkpoint_every = 1000}));
    ck_assert_uint_eq(checkpoints(dir, &newest), 2); /* that one, and the last */
    ck_assert_int_eq(newest, 8);
    tear_down(b);
}
END_TEST

/* Losses of the epochs, made up, so that it is known which is the best. */
static bool
make_up_loss(void *user, const yoke_epoch *epoch)
{
    static const double losses[] = {3, 1, 2, 1, NAN, 0.5};
    const bench *b = user;
    yki_epoch *e = b->trainer->history.epochs[epoch->epoch];

    *(e->test.samples ? &e->test.loss : &e->train.loss) = losses[epoch->epoch];
    return false;
}

static void
fit_with_patience(bench *b, yoke_dataset *test, const char *dir, int64_t patience)
{
    ASSERT_OK(yoke_trainer_fit(b->trainer, b->data, test,
                               &(yoke_fit_options){.epochs = 6,
                                                   .on_epoch = make_up_loss,
                                                   .user = b,
                                                   .checkpoint_dir = dir,
                                                   .checkpoint_every = 3,
                                                   .checkpoint_keep = 1,
                                                   .resume = dir != NULL,
                                                   .patience = patience,
                                                   .keep_best = dir != NULL}));
    ck_assert(!yoke_trainer_was_stopped(b->trainer));
}

/* The second epoch, which ends at step 8, is the best, until the sixth. */
START_TEST(the_best_is_kept)
{
    const char *dir = scratch_path("run");
    bench *b = set_up();
    int64_t newest;
    char *path = yki_checkpoint_path(dir, 8);

    ck_assert_ptr_null(yoke_trainer_best_epoch(b->trainer));
    fit_with_patience(b, b->data, dir, 3);
    ck_assert_uint_eq(yoke_trainer_epoch_count(b->trainer), 5);
    ck_assert_int_eq(yoke_trainer_best_epoch(b->trainer)->epoch, 1);
    ck_assert_uint_eq(checkpoints(dir, &newest), 2);
    ck_assert_int_eq(newest, 20);
    ck_assert_int_eq(access(path, F_OK), 0);
    /* It knows this from the checkpoint: nothing is left to do for who waits no longer. */
    begin_again(b, test_selector(), 5);
    fit_with_patience(b, b->data, dir, 3);
    ck_assert_uint_eq(yoke_trainer_epoch_count(b->trainer), 5);
    ck_assert_int_eq(yoke_trainer_get_step(b->trainer), 20);
    begin_again(b, test_selector(), 5);
    fit_with_patience(b, b->data, dir, 4);
    ck_assert_int_eq(yoke_trainer_best_epoch(b->trainer)->epoch, 5);
    ck_assert_uint_eq(checkpoints(dir, &newest), 1);
    ck_assert_int_eq(newest, 24);
    yki_free(path);
    tear_down(b);
}
END_TEST

/* Without a test the loss of the training counts. */
START_TEST(patience_without_a_test)
{
    bench *b = set_up();

    fit_with_patience(b, NULL, NULL, 1);
    ck_assert_uint_eq(yoke_trainer_epoch_count(b->trainer), 3);
    ck_assert_int_eq(yoke_trainer_best_epoch(b->trainer)->epoch, 1);
    for (size_t i = 0; i < 3; i++)
        b->trainer->history.epochs[i]->train.loss = NAN;
    ck_assert_ptr_null(yoke_trainer_best_epoch(b->trainer));
    fit_with_patience(b, NULL, NULL, 3);
    ck_assert_uint_eq(yoke_trainer_epoch_count(b->trainer), 3);
    tear_down(b);
}
END_TEST

static void
fit_on_plateau(bench *b, const char *dir, int64_t epochs, int64_t plateau, float factor)
{
    ASSERT_OK(yoke_trainer_fit(b->trainer, b->data, b->data,
                               &(yoke_fit_options){.epochs = epochs,
                                                   .on_epoch = make_up_loss,
                                                   .user = b,
                                                   .checkpoint_dir = dir,
                                                   .resume = dir != NULL,
                                                   .plateau = plateau,
                                                   .plateau_factor = factor}));
}

/* Of 3, 1, 2, 1, NaN, 0.5 the third to the fifth are not lower. What is interrupted goes on with
 * the rate that it had, and counts on from where it was. */
START_TEST(the_rate_falls_on_a_plateau)
{
    static const struct plateau {
        int64_t epochs;
        float factor, rates[6]; /* after each epoch, in parts of the first */
    } table[] = {{1, 0.5f, {1, 1, 0.5f, 0.25f, 0.125f, 0.125f}},
                 {2, 0, {1, 1, 1, 0.1f, 0.1f, 0.1f}},
                 {3, 0.5f, {1, 1, 1, 1, 0.5f, 0.5f}},
                 {4, 0.5f, {1, 1, 1, 1, 1, 1}}};
    const struct plateau *row = &table[_i];
    const char *dir = scratch_path("run");
    bench *b = set_up();

    for (int64_t i = 0; i < 6; i++) {
        fit_on_plateau(b, dir, i + 1, row->epochs, row->factor);
        ck_assert_uint_eq(yoke_trainer_epoch_count(b->trainer), (size_t)i + 1);
        ck_assert_float_eq_tol(yoke_trainer_get_learning_rate(b->trainer), 1e-2f * row->rates[i],
                               1e-8f);
        begin_again(b, test_selector(), 5);
    }
    fit_on_plateau(b, NULL, 6, row->epochs, row->factor);
    ck_assert_float_eq_tol(yoke_trainer_get_learning_rate(b->trainer), 1e-2f * row->rates[5],
                           1e-8f);
    tear_down(b);
}
END_TEST

START_TEST(refusals)
{
    const char *dir = scratch_path("run"), *file = scratch_path("file");
    bench *b = set_up();
    yoke_dataset *fewer;
    int64_t few[7] = {0, 1, 2, 3, 4, 5, 6};

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, fit(b, NULL, 0, true, 1));
    ASSERT_STATUS(
        YOKE_ERROR_INVALID_ARGUMENT,
        yoke_trainer_fit(b->trainer, b->data, NULL, &(yoke_fit_options){.keep_best = true}));
    ASSERT_DETAIL("must be a folder to keep the best checkpoint in");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_trainer_fit(b->trainer, b->data, NULL, &(yoke_fit_options){.patience = -1}));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_trainer_fit(b->trainer, b->data, NULL, &(yoke_fit_options){.plateau = -1}));
    ASSERT_STATUS(
        YOKE_ERROR_INVALID_ARGUMENT,
        yoke_trainer_fit(b->trainer, b->data, NULL, &(yoke_fit_options){.plateau_factor = 1}));
    scratch_write(file, "", 0);
    ASSERT_STATUS(YOKE_ERROR_IO, fit(b, file, 0, false, 1));
    ASSERT_STATUS(YOKE_ERROR_IO, fit(b, scratch_path("no/such"), 0, false, 1));
    /* An empty folder is a training from the start. */
    b->stop_at = 5;
    ASSERT_OK(fit(b, dir, 0, true, 4));
    ck_assert(yoke_trainer_was_stopped(b->trainer));
    b->stop_at = 0;
    /* Another training does not take its place. */
    begin_again(b, test_selector(), 5);
    ASSERT_STATUS(YOKE_ERROR_STATE, fit(b, dir, 0, false, 4));
    ASSERT_DETAIL("has a checkpoint of step");
    ASSERT_DETAIL("resume it, or take another folder");
    /* The order of other data is another. */
    ASSERT_OK(yoke_dataset_subset(b->data, few, 7, &fewer));
    ASSERT_STATUS(YOKE_ERROR_STATE,
                  yoke_trainer_fit(b->trainer, fewer, NULL,
                                   &(yoke_fit_options){.checkpoint_dir = dir, .resume = true}));
    ASSERT_DETAIL("in the middle of an epoch of 22 samples");
    yoke_dataset_destroy(fewer);
    /* Another graph. */
    drop_trainer(b);
    (void)yoke_relu(b->graph, yoke_graph_get_node(b->graph, "dense1"));
    yoke_graph_destroy(b->graph);
    b->graph = network();
    yoke_graph_set_output(b->graph, "more", yoke_graph_get_node(b->graph, "conv1"));
    make_trainer(b, test_selector(), 5);
    ASSERT_STATUS(YOKE_ERROR_STATE, fit(b, dir, 0, true, 4));
    ASSERT_DETAIL("is a checkpoint of another graph");
    tear_down(b);
}
END_TEST

/* ---- damage ---- */

/* What a resume would make of this file. */
static bool
noticed(const unsigned char *bytes, size_t size)
{
    static unsigned char out[100000];
    yki_safetensors *file = NULL;
    yoke_status status = yki_safetensors_open_memory(bytes, size, "damaged", &file);

    if (status == YOKE_OK && !(file->has_header_sum && yki_safetensors_text(file, "yoke.state")))
        status = YOKE_ERROR_FORMAT;
    for (size_t i = 0; status == YOKE_OK && i < file->count; i++)
        status = yki_safetensors_read(file, &file->tensors[i], out);
    yki_safetensors_close(file);
    return status == YOKE_ERROR_FORMAT;
}

/* Every bit of the header, bits of the data all over it, every length. */
START_TEST(every_damage_is_found)
{
    const char *dir = scratch_path("run");
    bool quick = getenv("YOKE_TEST_QUICK") != NULL;
    bench *b = set_up();
    int64_t newest;
    size_t size, header, bits, step;
    unsigned char *bytes;
    char *path;

    ASSERT_OK(fit(b, dir, 0, false, 1));
    ck_assert_uint_eq(checkpoints(dir, &newest), 1);
    path = yki_checkpoint_path(dir, newest);
    bytes = (unsigned char *)scratch_read(path, &size);
    header = 8 + (bytes[0] | (size_t)bytes[1] << 8);
    ck_assert(!noticed(bytes, size));
    for (size_t bit = 0; bit < 8 * header; bit += quick ? 7 : 1) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        ck_assert_msg(noticed(bytes, size), "bit %zu of the header", bit);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    bits = 8 * (size - header);
    step = quick ? bits / 1000 + 1 : bits / 10000 + 1;
    for (size_t bit = 0; bit < bits; bit += step) {
        bytes[header + bit / 8] ^= (unsigned char)(1u << bit % 8);
        ck_assert_msg(noticed(bytes, size), "bit %zu of the data", bit);
        bytes[header + bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t length = 0; length < size; length += quick ? 11 : 1)
        ck_assert_msg(noticed(bytes, length), "%zu of %zu bytes", length, size);
    free(bytes);
    yki_free(path);
    tear_down(b);
}
END_TEST

/* Some of them through everything: the one before is used, and training ends as it would have. */
START_TEST(the_one_before_is_used)
{
    enum { DAMAGES = 6 };
    const char *dir = scratch_path("run");
    bench *b = set_up();
    size_t count, size;
    float *expected;
    unsigned char *bytes;
    int64_t newest;
    char *path, *aside;

    ASSERT_OK(fit(b, dir, 2, false, 2));
    expected = weights(b, &count);
    path = yki_checkpoint_path(dir, 8);
    aside = yki_format("%s.damaged", path);
    for (int d = 0; d < DAMAGES; d++) {
        bytes = (unsigned char *)scratch_read(path, &size);
        if (d % 2)
            bytes[size * (size_t)d / DAMAGES] ^= 0x10;
        scratch_write(path, bytes, d % 2 ? size : size * (size_t)d / DAMAGES);
        free(bytes);
        scratch_log_clear();
        b->seen = 0;
        begin_again(b, test_selector(), 5);
        ASSERT_OK(fit(b, dir, 2, true, 2));
        ck_assert_int_eq(b->seen, 2);
        ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "the checkpoint before it is used"),
                          1);
        ck_assert_int_eq(access(aside, F_OK), 0);
        check_weights(b, expected, 0);
        (void)checkpoints(dir, &newest);
        ck_assert_int_eq(newest, 8);
    }
    yki_free(path);
    yki_free(aside);
    free(expected);
    tear_down(b);
}
END_TEST

/* A full disk, a broken disk, at each call: training goes on, the set stays as good as it was, and
 * the end tells of it. */
START_TEST(disks_that_fail)
{
    const char *dir = scratch_path("run");
    double device_sums[2 * 64] = {0};
    const yki_progress progress = {.count = SAMPLES, .device_sums = device_sums};
    bench *b = set_up();
    uint64_t calls;
    int64_t newest;
    size_t size;
    char *path, *bytes;

    ASSERT_OK(fit(b, dir, 0, false, 1));
    (void)yki_replace_fail_at(0, 0);
    ASSERT_OK(yki_checkpoint_save(b->trainer, &progress, dir, 2));
    calls = yki_replace_fail_at(0, 0);
    ck_assert_uint_gt(calls, 20);
    path = yki_checkpoint_path(dir, 4);
    for (uint64_t n = 1; n <= calls; n++) {
        (void)yki_replace_fail_at(n, n % 2 ? ENOSPC : EIO);
        ASSERT_STATUS(YOKE_ERROR_IO, yki_checkpoint_save(b->trainer, &progress, dir, 2));
        (void)yki_replace_fail_at(0, 0);
        ck_assert_uint_eq(checkpoints(dir, &newest), 1);
        bytes = scratch_read(path, &size);
        ck_assert(!noticed((unsigned char *)bytes, size));
        free(bytes);
    }
    /* Within fit: one save of several. */
    scratch_log_clear();
    (void)yki_replace_fail_at(3, ENOSPC);
    ASSERT_OK(fit(b, dir, 1, false, 1));
    (void)yki_replace_fail_at(0, 0);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "no checkpoint of step 5"), 1);
    (void)checkpoints(dir, &newest);
    ck_assert_int_eq(newest, 8);
    yki_free(path);
    tear_down(b);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *resume = test_case(suite, "resume"), *files = test_case(suite, "files");
    TCase *damage = test_case(suite, "damage");

    tcase_add_checked_fixture(resume, scratch_set_up, scratch_tear_down);
    tcase_add_checked_fixture(files, scratch_set_up, scratch_tear_down);
    tcase_add_checked_fixture(damage, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(resume, the_same_bits, 0, 3);
    tcase_add_test(resume, other_plans);
    tcase_add_test(resume, other_precisions);
    tcase_add_loop_test(resume, other_devices, 0, 2);
    tcase_add_test(resume, as_a_model);
    tcase_add_test(files, the_newest_are_kept);
    tcase_add_test(files, asked_for_between_epochs);
    tcase_add_test(files, the_best_is_kept);
    tcase_add_test(files, patience_without_a_test);
    tcase_add_loop_test(files, the_rate_falls_on_a_plateau, 0, 4);
    tcase_add_test(files, refusals);
    tcase_add_test(damage, every_damage_is_found);
    tcase_add_test(damage, the_one_before_is_used);
    tcase_add_test(damage, disks_that_fail);
    return suite;
}
