/* SPDX-License-Identifier: Apache-2.0
 *
 * check_loss_scale.c - trainings with products in half: a step whose gradients overflow changes
 * nothing on any device, the scale moves as it should, goes into checkpoints, and is taken out
 * exactly. check_precisions.c compares what is learned, check_team.c a team with one device,
 * check_bf16.c the products.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"
#include "train/checkpoint.h"
#include "train/runs.h"
#include "train/saved_tensors.h"
#include "train/trainer.h"

#define HUGE_SCALE 0x1p40f /* a half has no number for what becomes of it */

static test_devices devices;
static char whole[64];

static bool
open_setup(test_setup setup)
{
    yoke_device_info info[2];

    scratch_set_up();
    if (!team_find(setup, &devices, info))
        return false;
    snprintf(whole, sizeof whole, "%s", info[0].parent);
    return true;
}

static void
open_any(void)
{
    ck_assert_msg(open_setup(TEST_AS_IS), "%s", devices.missing);
}

static void
leave(void)
{
    test_devices_close(&devices);
    scratch_tear_down();
}

static bool
changed_since(yoke_trainer *t, const team_kept *before)
{
    team_kept now = team_read_kept(t);
    bool same;

    ck_assert_uint_eq(now.count, before->count);
    same = memcmp(now.values, before->values, now.count * sizeof *now.values) == 0;
    free(now.values);
    return !same;
}

static void
assert_scale(const yoke_trainer *t, double wanted, int64_t steps)
{
    int64_t skipped;
    float scale;

    ASSERT_OK(yoke_trainer_get_loss_scale(t, &scale, &skipped));
    ck_assert_msg((double)scale == wanted, "the scale is %g, not %g", (double)scale, wanted);
    ck_assert_int_eq(skipped, steps);
}

/* ---- a step that overflows ---- */

/* Two good steps, then one with a scale that is far too large, and more until it is not. */
static void
overflow(team_run run, const char *what)
{
    yoke_trainer *t;
    team_kept before;
    int step = 2;

    run.precision = "f16";
    run.average = run.shard ? 0 : 0.9f;
    t = team_trainer(devices.context, &run);
    assert_scale(t, 65536, 0);
    t->loss_scale.scale = 1024;
    for (int i = 0; i < step; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    before = team_read_kept(t);
    assert_scale(t, 1024, 0);
    t->loss_scale.scale = HUGE_SCALE;
    for (int64_t skipped = 1; skipped <= 3; skipped++) {
        ASSERT_OK(team_step(&run, t, step++, NULL));
        ck_assert_msg(!changed_since(t, &before), "%s: a step that overflowed changed a number",
                      what);
        assert_scale(t, ldexp(HUGE_SCALE, -(int)skipped), skipped);
        ck_assert_int_eq(yoke_trainer_get_step(t), step);
    }
    ASSERT_OK(yki_trainer_compare_weights(t));
    t->loss_scale.scale = 1024;
    ASSERT_OK(team_step(&run, t, step, NULL));
    ck_assert_msg(changed_since(t, &before), "%s: a good step changed nothing", what);
    assert_scale(t, 1024, 3);
    ASSERT_OK(yki_trainer_compare_weights(t));
    free(before.values);
    yoke_trainer_destroy(t);
}

static void
overflow_everywhere(void)
{
    const char *two = devices.selector;
    const bool few = test_in_matrix() && !test_is_thorough();

    overflow(
        (team_run){
            .selector = two, .shares = "80,20", .net = TEAM_CONV, .optimizer = yoke_adam(0.01f)},
        "two devices");
    if (few)
        return;
    overflow((team_run){.selector = whole, .net = TEAM_MLP, .optimizer = yoke_sgd(0.1f, 0.9f)},
             "one device");
    overflow((team_run){.selector = two,
                        .shares = "even",
                        .own_weights = true,
                        .net = TEAM_MLP,
                        .optimizer = yoke_adam(0.01f),
                        .bucket_bytes = 256,
                        .clip_norm = 0.3f,
                        .accumulate = 3},
             "two sets of weights");
    for (int s = YOKE_SHARD_STATE; s <= YOKE_SHARD_WEIGHTS; s++)
        overflow((team_run){.selector = two,
                            .shares = "even",
                            .own_weights = true,
                            .net = TEAM_SEQUENCE,
                            .optimizer = yoke_adam(0.01f),
                            .bucket_bytes = 512,
                            .shard = (yoke_shard_choice)s},
                 "shards");
    overflow((team_run){.selector = two,
                        .net = TEAM_MLP,
                        .optimizer = yoke_adam(0.01f),
                        .accumulate = 2,
                        .stages = 2},
             "stages");
}

TEAM_SETUP(an_overflow_changes_nothing, TEST_POCL_HALVES, open_setup, overflow_everywhere();
           scratch_tear_down())
TEAM_SETUP(an_overflow_changes_nothing_as_is, TEST_AS_IS, open_setup, overflow_everywhere();
           scratch_tear_down())

/* A number of the data that is none for a half, but one for a float. */
START_TEST(a_huge_input_is_skipped)
{
    team_run run = {.selector = whole, .net = TEAM_MLP, .precision = "f16"};
    yoke_trainer *t = team_trained(devices.context, &run, 1);
    yoke_feed feeds[2];
    team_kept before = team_read_kept(t);

    ck_assert_uint_eq(team_feeds(&run, 0, 24, feeds), 2);
    ((float *)(size_t)feeds[0].data)[31] = 1e30f;
    ASSERT_OK(yoke_trainer_step(t, 24, feeds, 2, NULL));
    ck_assert(!changed_since(t, &before));
    assert_scale(t, 32768, 1);
    free(before.values);
    yoke_trainer_destroy(t);
}
END_TEST

/* Data that are not finite are skipped for ever: one warning tells of it, whether the scale has
 * become the least or is fixed. */
START_TEST(a_scale_in_vain_is_told_once)
{
    const bool fixed = _i == 1;
    team_run run = {
        .selector = whole, .net = TEAM_MLP, .precision = "f16", .loss_scale = fixed ? 1024 : 0};
    const int told = fixed ? 40 : 2, steps = told + 3;
    yoke_trainer *t = team_trained(devices.context, &run, 1);
    yoke_feed feeds[2];
    team_kept before = team_read_kept(t);

    if (!fixed)
        t->loss_scale.scale = 0x1p-22f;
    for (int i = 1; i <= steps; i++) {
        ck_assert_uint_eq(team_feeds(&run, 0, 24, feeds), 2);
        ((float *)(size_t)feeds[0].data)[31] = NAN;
        ASSERT_OK(yoke_trainer_step(t, 24, feeds, 2, NULL));
        ASSERT_OK(yoke_trainer_wait(t));
        ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "no more is said"), i >= told);
    }
    ck_assert_msg(scratch_log_count(YOKE_LOG_WARNING,
                                    fixed ? "scale of 1024: the training diverges, its data are "
                                            "not finite, or that scale is too large; "
                                          : "scale of 5.96046e-08: the training diverges, ") == 1,
                  "%s", scratch_log());
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, "so the step is skipped"),
                      (unsigned)told - 1);
    assert_scale(t, fixed ? 1024 : 0x1p-24, steps);
    ck_assert(!changed_since(t, &before));
    free(before.values);
    yoke_trainer_destroy(t);
}
END_TEST

/* Only steps in a row are in vain. */
START_TEST(a_good_step_is_not_in_vain)
{
    team_run run = {.selector = whole, .net = TEAM_MLP, .precision = "f16", .loss_scale = 1024};
    yoke_trainer *t = team_trainer(devices.context, &run);

    for (int i = 0; i < 100; i++)
        yki_loss_scale_land(t, &(yki_flight){.good = i % 39 == 0, .pairs = {1, 1}});
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "no more is said"), 0);
    yoke_trainer_destroy(t);
}
END_TEST

/* A step of no valid sample tells nothing. */
START_TEST(no_sample_moves_no_scale)
{
    team_run run = {.selector = whole, .net = TEAM_MLP, .precision = "f16"};
    yoke_trainer *t = team_trained(devices.context, &run, 1);

    run.ignored = TEAM_ALL_IGNORED;
    ASSERT_OK(team_step(&run, t, 1, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    assert_scale(t, 65536, 0);
    yoke_trainer_destroy(t);
}
END_TEST

/* ---- the way of the scale ---- */

START_TEST(good_steps_double_the_scale)
{
    team_run run = {.selector = whole, .net = TEAM_MLP, .precision = "f16"};
    yoke_trainer *t = team_trainer(devices.context, &run);
    int step = 0;

    ck_assert_int_eq(t->loss_scale.every, 2000);
    t->loss_scale.every = 3;
    t->loss_scale.scale = 256;
    for (; step < 7; step++)
        ASSERT_OK(team_step(&run, t, step, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    assert_scale(t, 1024, 0);
    t->loss_scale.scale = HUGE_SCALE; /* after one of three */
    for (int k = 0; k < 3; k++) {
        ASSERT_OK(team_step(&run, t, step++, NULL));
        ASSERT_OK(yoke_trainer_wait(t));
        t->loss_scale.scale = 256;
    }
    assert_scale(t, 256, 1);
    ASSERT_OK(team_step(&run, t, step++, NULL)); /* the third since then */
    ASSERT_OK(yoke_trainer_wait(t));
    assert_scale(t, 512, 1);
    t->loss_scale.scale = 0x1p24f;
    for (int k = 0; k < 3; k++)
        t->loss_scale.good = 2, yki_loss_scale_land(t, &(yki_flight){.good = 1});
    assert_scale(t, 0x1p24, 1);
    ASSERT_OK(yoke_trainer_initialize(t, 1));
    assert_scale(t, 65536, 0);
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(a_fixed_scale_stays)
{
    team_run run = {
        .selector = whole, .net = TEAM_MLP, .precision = "f16", .loss_scale = HUGE_SCALE};
    yoke_trainer *t = team_trained(devices.context, &run, 2);

    assert_scale(t, HUGE_SCALE, 2);
    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
    ck_assert_msg(strstr(test_lines, "loss scale: 1.09951e+12, fixed; 2 steps were skipped"), "%s",
                  test_lines);
    yoke_trainer_destroy(t);
    run.precision = "bf16";
    run.loss_scale = 0;
    t = team_trained(devices.context, &run, 1);
    assert_scale(t, 1, 0);
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(other_scales_are_refused)
{
    static const struct {
        float scale;
        const char *precision, *detail;
    } wrong[] = {
        {3, "f16", "loss_scale is 3; must be 0, or a power of 2 between 2^-24 and 2^60"},
        {-2, "f16", "loss_scale is -2; must be"},
        {NAN, "f16", "; must be 0, or a power of 2"},
        {0x1p61f, "f16", "; must be 0, or a power of 2"},
        {8, "bf16", "loss_scale is 8, but no product is computed in f16"},
        {8, NULL, "loss_scale is 8, but no product is computed in f16"},
        {8, "f8", "precision \"f8\"; must be"},
    };
    yoke_graph *g = team_graph(TEAM_MLP);
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, whole, NULL, &team));
    for (size_t i = 0; i < YKI_COUNT(wrong); i++) {
        team_run run = {.precision = wrong[i].precision, .loss_scale = wrong[i].scale};
        yoke_trainer_options o = team_options(&run);
        yoke_trainer *t;

        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_create(team, g, &o, &t));
        ASSERT_DETAIL(wrong[i].detail);
    }
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- it is taken out again ---- */

/* The last layers of networks: each scales the gradient of its loss in another place. */
static yoke_graph *
ending(int kind)
{
    yoke_graph *g;
    yoke_node *x, *y, *label;

    if (kind == 0)
        return team_graph(TEAM_MLP);
    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(12));
    label = yoke_target(g, "target", YOKE_I32, yoke_shape());
    y = yoke_tanh(g, yoke_dense(g, x, &(yoke_dense_options){.units = 24}));
    if (kind == 1) {
        y = yoke_linear_cross_entropy(
            g, y, yoke_parameter(g, "head", yoke_shape(5, 24), (yoke_initializer){0}), label,
            &(yoke_loss_options){.has_ignore_index = true, .ignore_index = TEAM_IGNORED});
        yoke_graph_set_loss(g, y);
        return g;
    }
    y = yoke_dense(g, y, &(yoke_dense_options){.units = 3});
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, y, y), NULL, 0)); /* a scalar */
    return g;
}

static bool has_unit;

static team_kept
trained(int kind, const char *precision, float scale)
{
    team_run run = {.net = TEAM_MLP,
                    .precision = precision,
                    .any_class = true,
                    .loss_scale = scale,
                    .clip_norm = 0.5f,
                    .optimizer = yoke_adam(0.01f)};
    yoke_trainer_options o = team_options(&run);
    yoke_graph *g = ending(kind);
    yoke_device_info info;
    yoke_trainer *t;
    yoke_team *team;
    team_kept k;

    o.core_groups = YOKE_CORE_GROUPS_NEVER;
    ASSERT_OK(yoke_team_create(devices.context, whole, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    for (int i = 0; i < 4; i++) {
        yoke_feed feeds[2];

        team_feeds(&run, 24 * i, 24, feeds);
        ASSERT_OK(yoke_trainer_step(t, 24, feeds, kind == 2 ? 1 : 2, NULL));
    }
    k = team_read_kept(t);
    assert_scale(t, precision ? (double)scale : 1, 0);
    ASSERT_OK(yoke_device_get_info(yoke_team_get_device(t->team, 0), &info));
    has_unit = info.f16[0] != 0;
    yoke_trainer_destroy(t);
    return k;
}

/* A device without a unit, alone, computes in float, where a power of 2 changes no digit. */
START_TEST(the_scale_changes_no_bits)
{
    const team_kept one = trained(_i, "f16", 1), full = trained(_i, NULL, 0);
    double most = 0, off = 0;

    if (has_unit)
        TEST_NOT_HERE("a device with a unit computes in half");
    for (int k = 1; k <= 2; k++) {
        team_kept other = trained(_i, "f16", k == 1 ? 65536 : 0x1p-10f);

        ck_assert_msg(memcmp(one.values, other.values, one.count * sizeof *one.values) == 0,
                      "another scale gives other weights");
        free(other.values);
    }
    ck_assert_uint_eq(one.count, full.count);
    for (size_t i = 0; i < one.count; i++) {
        most = fmax(most, fabs((double)full.values[i]));
        off = fmax(off, fabs((double)one.values[i] - (double)full.values[i]));
    }
    ck_assert_msg(off < 1e-5 * most, "off by %g of %g", off, most);
    free(one.values);
    free(full.values);
}
END_TEST

/* The optimizer does not count steps that were skipped: one, then four good ones, is as four. */
START_TEST(skipped_steps_do_not_count)
{
    team_run run = {.selector = whole,
                    .net = TEAM_MLP,
                    .precision = "f16",
                    .loss_scale = 1024,
                    .optimizer = yoke_adam(0.01f)};
    yoke_trainer *t = team_trained(devices.context, &run, 4), *other;
    const team_kept plain = team_read_kept(t);

    other = team_trainer(devices.context, &run);
    other->loss_scale.scale = HUGE_SCALE;
    ASSERT_OK(team_step(&run, other, 0, NULL));
    ASSERT_OK(yoke_trainer_wait(other));
    other->loss_scale.scale = 1024;
    for (int i = 0; i < 4; i++)
        ASSERT_OK(team_step(&run, other, i, NULL));
    ck_assert(!changed_since(other, &plain));
    assert_scale(other, 1024, 1);
    free(plain.values);
    yoke_trainer_destroy(t);
    yoke_trainer_destroy(other);
}
END_TEST

/* A step needs the scale that the one before has left, whether the caller waits for that or not. */
START_TEST(a_step_knows_of_the_one_before)
{
    team_run run = {
        .selector = whole, .net = TEAM_MLP, .precision = "f16", .optimizer = yoke_adam(0.01f)};
    team_kept first = {0};
    float scale = 0;

    for (int waits = 1; waits >= 0; waits--) {
        yoke_trainer *t = team_trainer(devices.context, &run);

        t->loss_scale.scale = 0x1p26f;
        for (int i = 0; i < 12; i++) {
            ASSERT_OK(team_step(&run, t, i, NULL));
            if (waits)
                ASSERT_OK(yoke_trainer_wait(t));
        }
        if (waits) {
            first = team_read_kept(t);
            scale = t->loss_scale.scale;
            ck_assert(t->loss_scale.skipped > 1 && t->loss_scale.skipped < 12);
        } else {
            ck_assert(!changed_since(t, &first));
            ck_assert_float_eq(t->loss_scale.scale, scale);
        }
        yoke_trainer_destroy(t);
    }
    free(first.values);
}
END_TEST

/* ---- checkpoints ---- */

/* Trains an epoch from the newest checkpoint, or from nothing. */
static yoke_trainer *
fitted(const char *precision, int64_t epochs, float scale)
{
    team_run run = {
        .selector = whole, .net = TEAM_MLP, .precision = precision, .optimizer = yoke_adam(0.01f)};
    yoke_trainer *t = team_trainer(devices.context, &run);
    yoke_dataset *data = team_dataset(&run, 0, 96);

    if (scale > 0)
        t->loss_scale.scale = scale;
    ASSERT_OK(yoke_trainer_fit(t, data, NULL,
                               &(yoke_fit_options){.epochs = epochs,
                                                   .checkpoint_dir = scratch_path("saved"),
                                                   .checkpoint_every = 3,
                                                   .resume = scale == 0}));
    yoke_dataset_destroy(data);
    return t;
}

START_TEST(checkpoints_keep_the_scale)
{
    yoke_trainer *t = fitted("f16", 1, HUGE_SCALE); /* four steps, all skipped */
    team_kept there, again;
    double scale;

    assert_scale(t, ldexp(HUGE_SCALE, -4), 4);
    yoke_trainer_destroy(t);
    t = fitted("f16", 1, 0); /* it has no step to make */
    assert_scale(t, ldexp(HUGE_SCALE, -4), 4);
    yoke_trainer_destroy(t);
    t = fitted("f32", 2, 0);
    assert_scale(t, 1, 4);
    ck_assert_int_eq(t->crew.members[0].replica->skipped, 4);
    yoke_trainer_destroy(t);
    t = fitted("f16", 3, 0); /* a float32 checkpoint has none */
    assert_scale(t, 65536, 4);
    scale = (double)t->loss_scale.scale;
    ck_assert_int_eq(t->loss_scale.good, 4);
    there = team_read_kept(t);
    yoke_trainer_destroy(t);
    t = fitted("f16", 3, 0);
    assert_scale(t, scale, 4);
    ck_assert_int_eq(t->loss_scale.good, 4);
    again = team_read_kept(t);
    ck_assert_mem_eq(there.values, again.values, there.count * sizeof *there.values);
    free(there.values);
    free(again.values);
    yoke_trainer_destroy(t);
}
END_TEST

/* A scale that fell to 1 is one as any other. */
START_TEST(a_scale_of_1_is_kept)
{
    yoke_trainer *t = fitted("f16", 1, 1);

    yoke_trainer_destroy(t);
    t = fitted("f16", 1, 0);
    assert_scale(t, 1, 0);
    ck_assert_int_eq(t->loss_scale.good, 4);
    yoke_trainer_destroy(t);
}
END_TEST

/* What no training can have is not taken: the scale begins anew. */
START_TEST(other_scales_of_checkpoints_are_left)
{
    yoke_trainer *t = fitted("f16", 1, 1024);
    const char *dir = scratch_path("saved");
    double sums[2 * 8] = {0};
    yki_progress progress = {.count = 96, .device_sums = sums};
    yki_loss_scale *s = &t->loss_scale;
    bool found;
    static const float wrong[] = {3, -2, 0, 0x1p61f, 0x1p-25f, INFINITY};

    for (size_t i = 0; i < YKI_COUNT(wrong); i++) {
        s->scale = wrong[i];
        s->good = -7;
        s->skipped = i % 2 ? -1 : 100; /* of four steps */
        ASSERT_OK(yki_checkpoint_save(t, &progress, dir, 1));
        ASSERT_OK(yki_checkpoint_resume(t, dir, &progress, &found));
        ck_assert(found);
        assert_scale(t, 65536, i % 2 ? 0 : 4);
        ck_assert_int_eq(s->good, 0);
    }
    yoke_trainer_destroy(t);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("loss_scale");
    TCase *tcase = test_case(suite, "overflow");

    tcase_add_test(tcase, an_overflow_changes_nothing);
    tcase_add_test(tcase, an_overflow_changes_nothing_as_is);
    tcase = test_case(suite, "scale");
    tcase_add_checked_fixture(tcase, open_any, leave);
    tcase_add_test(tcase, a_huge_input_is_skipped);
    tcase_add_loop_test(tcase, a_scale_in_vain_is_told_once, 0, 2);
    tcase_add_test(tcase, a_good_step_is_not_in_vain);
    tcase_add_test(tcase, no_sample_moves_no_scale);
    tcase_add_test(tcase, good_steps_double_the_scale);
    tcase_add_test(tcase, a_fixed_scale_stays);
    tcase_add_test(tcase, other_scales_are_refused);
    tcase_add_loop_test(tcase, the_scale_changes_no_bits, 0, 3);
    tcase_add_test(tcase, skipped_steps_do_not_count);
    tcase_add_test(tcase, a_step_knows_of_the_one_before);
    tcase_add_test(tcase, checkpoints_keep_the_scale);
    tcase_add_test(tcase, a_scale_of_1_is_kept);
    tcase_add_test(tcase, other_scales_of_checkpoints_are_left);
    return suite;
}
