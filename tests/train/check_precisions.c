/* SPDX-License-Identifier: Apache-2.0
 *
 * check_precisions.c - training with products in bfloat16 or half, or with the optimizer's state:
 * it learns as well as in float32. With products it sees a NaN and an infinite number as that does,
 * and explain says what multiplies.
 *
 * `strict` rounds wherever it can, so devices without a unit run the emulation.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/opened.h"
#include "support/scratch.h"
#include "train/runs.h"
#include "train/trainer.h"

/* The tasks of a trainer's plans that round to bfloat16 or half. */
static size_t
count_rounded(const yoke_trainer *t, size_t members)
{
    size_t count = 0;

    for (size_t k = 0; k < members; k++) {
        const yki_plan *plan = t->crew.members[k].replica->training;

        for (size_t i = 0; i < plan->task_count; i++)
            count += plan->tasks[i].solver &&
                     (plan->tasks[i].solver->numerical_class == YKI_CLASS_BF16 ||
                      plan->tasks[i].solver->numerical_class == YKI_CLASS_F16);
    }
    return count;
}

/* ---- quality ---- */

enum { SEEDS = 5, FEW = 3, CONTEXT = 32 };

typedef struct subject {
    const char *name; /* in the zoo, unless it has `make` */
    yoke_graph *(*make)(void);
    bool text;
    yoke_zoo_options sizes;
    int64_t epochs;
    float rate;
} subject;

static yoke_node *
convolve(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride)
{
    const yoke_conv2d_options o = {.filters = filters,
                                   .kernel = {3, 3},
                                   .pad = {1, 1},
                                   .stride = {stride, stride},
                                   .no_bias = true};

    return yoke_batch_norm(g, yoke_conv2d(g, x, &o), NULL);
}

/* A block around which its input goes, as in a ResNet, between two convolutions. */
static yoke_graph *
small_resnet(void)
{
    yoke_node *x, *y, *label;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_F32, yoke_shape(1, 8, 8));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    x = yoke_relu(g, convolve(g, x, 16, 1));
    y = convolve(g, yoke_relu(g, convolve(g, x, 16, 1)), 16, 1);
    x = yoke_relu(g, yoke_add(g, x, y));
    x = yoke_relu(g, convolve(g, x, 32, 2));
    x = yoke_dense(g, yoke_flatten(g, x), &(yoke_dense_options){.units = 10});
    yoke_graph_set_output(g, "logits", x);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, label, NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static const subject subjects[] = {
    {"mlp", NULL, false, {.input = {3, 0, {1, 8, 8}}, .classes = 10}, 4, 0.03f},
    {"simplecnn", NULL, false, {.input = {3, 0, {1, 8, 8}}, .classes = 10}, 2, 0.03f},
    {.name = "a small ResNet", .make = small_resnet, .epochs = 3, .rate = 0.01f},
    {"gpt",
     NULL,
     true,
     {.width = 32, .layers = 2, .heads = 2, .context = CONTEXT, .vocabulary = 256},
     1,
     0.003f},
};

static yoke_dataset *
open_data(const subject *s, yoke_data_part part)
{
    const char *top = getenv("YOKE_SRCDIR");
    yoke_dataset *data;
    char path[1024], *text;
    size_t size;

    ck_assert_msg(top != NULL, "YOKE_SRCDIR is not set: run by make check");
    if (!s->text) {
        snprintf(path, sizeof path, "%s/examples/data", top);
        ASSERT_OK(yoke_dataset_open(path, &(yoke_dataset_open_options){.part = part}, &data));
        return data;
    }
    snprintf(path, sizeof path, "%s/COPYING", top);
    text = scratch_read(path, &size);
    scratch_write(scratch_path("text"), text, size);
    free(text);
    ASSERT_OK(yoke_dataset_open_text(
        scratch_path("text"), &(yoke_text_options){.context = CONTEXT, .part = part}, &data));
    return data;
}

/* What has fewer bits. */
typedef struct way {
    const char *what, *precision;
    yoke_state_choice state;
    yoke_recompute_choice recompute;
} way;

static const way plain = {.what = "float32"};
static const way ways[] = {
    {.what = "products in bfloat16", .precision = "bf16"},
    {.what = "products in half", .precision = "f16"},
    {.what = "values kept in bfloat16", .precision = "bf16", .recompute = YOKE_RECOMPUTE_CHEAP},
    {.what = "state in bfloat16", .state = YOKE_STATE_BF16}};

/* Trains from a seed, and gives the loss of data that were not trained on. */
static double
learn(const subject *s, const way *w, uint32_t seed)
{
    yoke_trainer_options o = {.batch = 16,
                              .level = YOKE_PLAN_ESTIMATE,
                              .strict = true,
                              .seed = seed,
                              .precision = w->precision,
                              .state = w->state,
                              .recompute = w->recompute,
                              .optimizer = s->text ? yoke_adam(s->rate) : yoke_sgd(s->rate, 0.9f)};
    yoke_dataset *data = open_data(s, YOKE_PART_TRAIN), *test = open_data(s, YOKE_PART_TEST);
    yoke_result result;
    yoke_trainer *t;
    yoke_graph *g;
    yoke_team *team;

    if (s->make)
        g = s->make();
    else
        ASSERT_OK(yoke_zoo(s->name, &s->sizes, &g));
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    ck_assert_int_eq(count_rounded(t, t->crew.count) > 0, w->precision != NULL);
    ASSERT_OK(yoke_trainer_fit(t, data, NULL, &(yoke_fit_options){.epochs = s->epochs}));
    ASSERT_OK(yoke_trainer_evaluate(t, test, &result));
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    yoke_dataset_destroy(data);
    yoke_dataset_destroy(test);
    return result.loss;
}

/* Where a last bit changes all that follows, a seed says nothing by itself: on average fewer bits
 * are no worse than seeds make likely, by six standard errors. */
static void
compare_means(const subject *s, const way *w, const double *full, int seeds)
{
    double mean[2] = {0}, squares[2] = {0};

    for (int i = 0; i < seeds; i++) {
        const double losses[2] = {full[i], learn(s, w, (uint32_t)i)};

        printf("# %s, seed %d: %.4f, with %s %.4f\n", s->name, i, full[i], w->what, losses[1]);
        for (int k = 0; k < 2; k++) {
            mean[k] += losses[k] / seeds;
            squares[k] += losses[k] * losses[k] / seeds;
        }
    }
    for (int k = 0; k < 2; k++)
        squares[k] = fmax(squares[k] - mean[k] * mean[k], 0) / (seeds - 1);
    ck_assert_msg(mean[1] - mean[0] <= 6 * sqrt(squares[0] + squares[1]),
                  "%s, %s: %g on average, float32 %g, with standard errors of %g and %g", s->name,
                  w->what, mean[1], mean[0], sqrt(squares[1]), sqrt(squares[0]));
}

/* Seeds differ by what they begin with and by the order of samples. What fewer bits change is less
 * than that, for each seed and on the whole. */
static void
compare(const subject *s, const way *w, const double *full, int seeds)
{
    double half[SEEDS], least = HUGE_VAL, most = 0, mean = 0;

    for (int i = 0; i < seeds; i++) {
        half[i] = learn(s, w, (uint32_t)i);
        printf("# %s, seed %d: %.4f, with %s %.4f\n", s->name, i, full[i], w->what, half[i]);
        least = fmin(least, full[i]);
        most = fmax(most, full[i]);
        mean += half[i] / seeds;
    }
    ck_assert_msg(least <= mean && mean <= most, "%s, %s: %g on average, float32 from %g to %g",
                  s->name, w->what, mean, least, most);
    for (int i = 0; i < seeds; i++)
        ck_assert_msg(fabs(half[i] - full[i]) <= most - least,
                      "%s, %s, seed %d: %g, float32 %g, and all of them from %g to %g", s->name,
                      w->what, i, half[i], full[i], least, most);
}

START_TEST(fewer_bits_learn_as_well)
{
    const subject *s = &subjects[_i];
    const int seeds = test_is_thorough() || s->make ? SEEDS : FEW;
    double full[SEEDS];

    if (devices.slow)
        TEST_NOT_HERE("it takes a simulator too long");
    if (test_in_matrix() && !test_is_thorough() &&
        (_i > 0 || yki_device_get_traits(devices.device[0])->type != YOKE_DEVICE_GPU))
        TEST_NOT_HERE("make check trains it, and its kernels take some compilers minutes");
    for (int i = 0; i < seeds; i++)
        full[i] = learn(s, &plain, (uint32_t)i);
    for (size_t k = 0; k < YKI_COUNT(ways); k++)
        (s->make ? compare_means : compare)(s, &ways[k], full, seeds);
}
END_TEST

/* ---- numbers that are none ---- */

/* A step with one number of the input set. Gives the loss, and whether weights changed. */
static bool
step_with(const char *precision, float number, double *loss)
{
    team_run run = {.selector = devices.selector, .net = TEAM_REGRESSION, .precision = precision};
    yoke_trainer *t = team_trainer(devices.context, &run);
    team_outcome before, after;
    yoke_result result;
    yoke_feed feeds[2];
    bool same;

    ck_assert_int_eq(count_rounded(t, t->crew.count) > 0, precision != NULL);
    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    ASSERT_OK(team_read(t, &before));
    ck_assert_uint_eq(team_feeds(&run, 24, 24, feeds), 2);
    ((float *)(size_t)feeds[0].data)[31] = number;
    ASSERT_OK(yoke_trainer_step(t, 24, feeds, 2, &result));
    ASSERT_OK(team_read(t, &after));
    same = team_same_bits(&before, &after);
    team_free(&before);
    team_free(&after);
    yoke_trainer_destroy(t);
    *loss = result.loss;
    return !same;
}

/* tanh makes a number of an infinite sum, in any precision; of NaN it makes NaN. */
START_TEST(what_is_no_number_arrives_as_in_float32)
{
    static const float inputs[] = {1, NAN, INFINITY, -INFINITY};
    double full, half;

    for (size_t d = 0; d < devices.count; d++)
        if (!yki_device_get_traits(devices.device[d])->inf_nan)
            TEST_NOT_HERE("a device has no NaN");
    for (size_t i = 0; i < YKI_COUNT(inputs); i++) {
        const bool changed = step_with(NULL, inputs[i], &full);

        ck_assert_int_eq(step_with("bf16", inputs[i], &half), changed);
        ck_assert_int_eq(changed, isfinite(full));
        ck_assert_msg(isfinite(half) == isfinite(full) &&
                          (!isfinite(full) || fabs(half - full) < 0.02 * full),
                      "%g: a loss of %g, in float32 %g", (double)inputs[i], half, full);
        ck_assert(isfinite(full) != (i == 1));
    }
}
END_TEST

/* ---- what explain says ---- */

START_TEST(explain_names_the_unit)
{
    team_run run = {.selector = devices.selector, .net = TEAM_MLP, .any_class = true};
    yoke_device_info info;
    yoke_trainer *t;
    char wanted[200];

    run.precision = "bf16";
    t = team_trainer(devices.context, &run);
    ASSERT_OK(yoke_device_get_info(devices.device[0], &info));
    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
    if (devices.count > 1) /* the team takes what is the fastest for all, and tells what it took */
        snprintf(wanted, sizeof wanted, "precision bf16: %s does %zu of ", info.id,
                 count_rounded(t, 1));
    else if (info.bf16[0])
        snprintf(wanted, sizeof wanted, "products in bfloat16, by %s\n", info.bf16);
    else
        snprintf(wanted, sizeof wanted, " products in bfloat16; it has no unit for that\n");
    ck_assert_msg(strstr(test_lines, wanted), "no \"%s\" in\n%s", wanted, test_lines);
    ck_assert(devices.count > 1 || (count_rounded(t, t->crew.count) > 0) == (info.bf16[0] != '\0'));
    yoke_trainer_destroy(t);
    run.precision = NULL;
    t = team_trainer(devices.context, &run);
    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
    ck_assert_msg(!strstr(test_lines, "precision"), "%s", test_lines);
    yoke_trainer_destroy(t);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("precisions");
    TCase *tcase = test_case(suite, "precisions");

    tcase_add_checked_fixture(tcase, open_devices_in_scratch, leave_devices);
    tcase_add_loop_test(tcase, fewer_bits_learn_as_well, 0, (int)YKI_COUNT(subjects));
    tcase_add_test(tcase, what_is_no_number_arrives_as_in_float32);
    tcase_add_test(tcase, explain_names_the_unit);
    return suite;
}
