/* SPDX-License-Identifier: Apache-2.0
 *
 * check_capacity.c - the largest batch that fits: a trainer with it can be made, one with a tenth
 * more is refused by the quota; and a plan's memory for another batch is what the plan made for it
 * takes.
 */
#include <stdio.h>
#include <string.h>

#include "train/capacity.h"
#include "train/runs.h"

TESTS_SHARE_A_PROCESS

static test_devices devices;

static void
open_devices(void)
{
    ck_assert(test_devices_find(TEST_AS_IS, &devices));
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

static yoke_status
try_trainer(const char *selector, const team_run *run, int64_t batch,
            yoke_core_groups_choice core_groups, yoke_trainer **trainer)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = team_graph(run->net);
    yoke_status status;
    yoke_team *team;

    o.batch = batch;
    o.core_groups = core_groups;
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    status = yoke_trainer_create(team, g, &o, trainer);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return status;
}

static void
explain(yoke_trainer *t)
{
    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
}

/* The first device with two units that can be split. */
static bool
find_device(char id[64])
{
    for (size_t i = 0; i < yoke_context_device_count(devices.context); i++) {
        yoke_device_info info;

        ASSERT_OK(yoke_device_get_info(yoke_context_get_device(devices.context, i), &info));
        if (info.compute_units < 2 || !(info.partition & YOKE_PARTITION_EQUALLY))
            continue;
        snprintf(id, 64, "%s", info.id);
        return true;
    }
    return false;
}

typedef struct capacity_case {
    const char *split, *quota;
    team_run run;
    yoke_core_groups_choice core_groups;
} capacity_case;

static const capacity_case cases[] = {
    {"", "2MiB", {.net = TEAM_CONV}, YOKE_CORE_GROUPS_NEVER},
    {"", "2MiB", {.net = TEAM_MLP}, YOKE_CORE_GROUPS_NEVER},
    {"", "2MiB", {.net = TEAM_CONV, .accumulate = 3}, YOKE_CORE_GROUPS_NEVER},
    {"", "4MiB", {.net = TEAM_CONV}, YOKE_CORE_GROUPS_ALWAYS},
    {"/2", "2MiB", {.net = TEAM_CONV, .shares = "even"}, YOKE_CORE_GROUPS_NEVER},
    {"/2", "2MiB", {.net = TEAM_CONV, .shares = "80,20"}, YOKE_CORE_GROUPS_NEVER},
    {"/2", "2MiB", {.net = TEAM_CONV}, YOKE_CORE_GROUPS_NEVER},
};

START_TEST(the_largest_batch_fits)
{
    const capacity_case *c = &cases[_i];
    const uint32_t parts = c->run.accumulate ? c->run.accumulate : 1;
    char id[64], selector[128], told[64];
    yoke_trainer *t;
    yoke_status status;
    int64_t batch, again;

    if (test_in_matrix())
        TEST_NOT_HERE("the matrix has its own devices");
    if (!find_device(id))
        TEST_SKIP("no device that can be split");
    snprintf(selector, sizeof selector, "%s%s@%s", id, c->split, c->quota);
    ASSERT_OK(try_trainer(selector, &c->run, 24, c->core_groups, &t));
    ASSERT_OK(yki_trainer_largest_batch(t, &batch));
    explain(t);
    snprintf(told, sizeof told, "the largest batch that fits: %lld samples", (long long)batch);
    ck_assert_msg(strstr(test_lines, told) && strstr(test_lines, "; the most that fit are "), "%s",
                  test_lines);
    yoke_trainer_destroy(t);
    ck_assert_int_gt(batch, 50);
    ck_assert_int_lt(batch, 100000);

    ASSERT_OK(try_trainer(selector, &c->run, batch, c->core_groups, &t));
    ASSERT_OK(yki_trainer_largest_batch(t, &again));
    ck_assert_msg(again >= batch && again < batch + batch / 20 + parts,
                  "%lld samples fit, later %lld", (long long)batch, (long long)again);
    yoke_trainer_destroy(t);

    t = NULL;
    status = try_trainer(selector, &c->run, batch + batch / 10, c->core_groups, &t);
    ck_assert_msg(status == YOKE_ERROR_QUOTA || status == YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                  "%s for %lld samples and a tenth more", yoke_status_name(status),
                  (long long)batch);
}
END_TEST

/* A batch that one of two devices cannot hold alone, while half of it is less than it can: each is
 * made for all that fits, not for the half. */
START_TEST(a_device_takes_what_it_holds)
{
    const team_run run = {.net = TEAM_CONV};
    char id[64], selector[128];
    yoke_trainer *t;
    int64_t batch;

    if (test_in_matrix())
        TEST_NOT_HERE("the matrix has its own devices");
    if (!find_device(id))
        TEST_SKIP("no device that can be split");
    snprintf(selector, sizeof selector, "%s/2@2MiB", id);
    ASSERT_OK(try_trainer(selector, &run, 24, YOKE_CORE_GROUPS_NEVER, &t));
    ASSERT_OK(yki_trainer_largest_batch(t, &batch));
    yoke_trainer_destroy(t);
    ASSERT_OK(try_trainer(selector, &run, batch * 3 / 4, YOKE_CORE_GROUPS_NEVER, &t));
    for (size_t k = 0; k < 2; k++) {
        int64_t held = t->crew.members[k].replica->options.batch;

        ck_assert_msg(held >= batch * 45 / 100 && held <= batch * 55 / 100,
                      "device %zu is made for %lld samples, both hold %lld", k, (long long)held,
                      (long long)batch);
    }
    yoke_trainer_destroy(t);
}
END_TEST

/* For the batch that it has, and for others: those of a plan made for them. */
START_TEST(memory_of_another_batch)
{
    static const int64_t batches[] = {24, 1, 7, 96, 200};
    static const team_net nets[] = {TEAM_CONV, TEAM_WIDE, TEAM_MLP};
    team_run run = {.net = nets[_i]};
    yoke_trainer *t[YKI_COUNT(batches)];
    char id[64];

    if (test_in_matrix())
        TEST_NOT_HERE("the matrix has its own devices");
    if (!find_device(id))
        TEST_SKIP("no device that can be split");
    for (size_t i = 0; i < YKI_COUNT(batches); i++)
        ASSERT_OK(try_trainer(id, &run, batches[i], YOKE_CORE_GROUPS_NEVER, &t[i]));
    for (size_t i = 0; i < YKI_COUNT(batches); i++) {
        uint64_t made = yki_plan_memory(t[i]->crew.members[0].replica->training), told;

        ASSERT_OK(yki_plan_memory_at(t[0]->crew.members[0].replica->training,
                                     (yki_extents){.batch = batches[i]}, &told));
        ck_assert_msg(told == made, "net %d, batch %d: %llu bytes, %llu told", (int)run.net,
                      (int)batches[i], (unsigned long long)made, (unsigned long long)told);
    }
    for (size_t i = 0; i < YKI_COUNT(batches); i++) {
        const yki_plan *plan = t[i]->crew.members[0].replica->training;
        uint64_t same;

        ASSERT_OK(yki_plan_repacked(plan, (yki_extents){.batch = batches[i]}, &same));
        ck_assert_uint_eq(same, yki_plan_memory(plan));
        yoke_trainer_destroy(t[i]);
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("capacity");
    TCase *tc = test_case(suite, "capacity");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_loop_test(tc, the_largest_batch_fits, 0, YKI_COUNT(cases));
    tcase_add_test(tc, a_device_takes_what_it_holds);
    tcase_add_loop_test(tc, memory_of_another_batch, 0, 3);
    return suite;
}
