/* SPDX-License-Identifier: Apache-2.0
 *
 * check_recheck.c - bits that flip on a device are found, and training goes on as if none had.
 *
 * The layer flips bits in what a device computes, or in its buffers, while it computes granules
 * that are checked. Whatever happens, the weights after each step are those of a run without
 * faults. A flip that is not found has changed nothing (a bit of what nobody reads).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fault.h"
#include "support/scratch.h"
#include "train/checkpoint.h"
#include "train/runs.h"
#include "train/trainer.h"

enum { MOST_STEPS = 1000, MOST_DEVICES = 3 };

static test_devices devices;
static char names[MOST_DEVICES][FAULT_NAME_SIZE], root[128];
static const fault_layer *faults;
static uint64_t announced;

static void
open_devices(void)
{
    yoke_device_info info[2];

    setenv("POCL_MAX_PTHREAD_COUNT", "6", 1); /* for three parts */
    faults = fault_open();
    ck_assert(team_find(TEST_AS_IS, &devices, info));
    snprintf(root, sizeof root, "%s", info[0].parent);
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

static uint32_t
draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A trainer on so many parts of the device; the layer's names of them go to `names`. */
static yoke_trainer *
make(team_run *run, const char *parts)
{
    static char selector[160];
    yoke_trainer *t;

    snprintf(selector, sizeof selector, "%s%s", root, parts);
    run->selector = selector;
    run->any_split = true;
    t = team_trainer(devices.context, run);
    for (size_t k = 0; k < t->crew.count; k++)
        ck_assert(fault_device_name(yoke_team_get_device(t->team, k), names[k], sizeof names[k]));
    return t;
}

/* One step, which the layer knows by a number that no other one has. */
static yoke_status
step(const team_run *run, yoke_trainer *t, int index)
{
    faults->step(++announced);
    return team_step(run, t, index, NULL);
}

/* A step after which the layer knows which buffers several devices share. */
static void
warm_up(const team_run *run, yoke_trainer *t)
{
    const fault_flip none = {.device = names[0], .nth = 1};

    ck_assert(faults->flip(&none));
    ASSERT_OK(step(run, t, 0));
}

/* Hashes of the weights after each step without faults, on one device. */
static void
expect(team_run run, int steps, char (*hashes)[33])
{
    yoke_trainer *t;

    run.recheck = 0;
    run.shares = NULL;
    t = make(&run, "");
    warm_up(&run, t);
    for (int i = 0; i < steps; i++) {
        ASSERT_OK(step(&run, t, i));
        ASSERT_OK(yoke_trainer_hash(t, NULL, hashes[i]));
    }
    yoke_trainer_destroy(t);
}

static void
check_hash(yoke_trainer *t, const char *expected, int index)
{
    char hash[33];

    ASSERT_OK(yoke_trainer_hash(t, NULL, hash));
    ck_assert_msg(strcmp(hash, expected) == 0, "the weights after step %d are not those expected",
                  index + 1);
}

/* ---- one bit, once ---- */

/* Launches of a device for its own granules in a step in which it is checked. */
static uint64_t
count_launches(const team_run *run, yoke_trainer *t, size_t device)
{
    uint64_t low = 1, high = 4096;

    warm_up(run, t);
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2, before = faults->flips();
        fault_flip flip = {.device = names[device],
                           .from = announced + 1,
                           .to = announced + 2,
                           .nth = middle,
                           .until = "yki_team_sum_i64",
                           .before = true};

        for (size_t i = 0; i < t->crew.team->total; i++) {
            const bool its = (size_t)(t->step + 1) % t->crew.count == device;

            flip.from = flip.to = announced + 1;
            if (its)
                ck_assert(faults->flip(&flip));
            ASSERT_OK(step(run, t, 0));
            memset(t->recheck.times, 0, t->crew.team->total);
        }
        *(faults->flips() > before ? &low : &high) = middle;
    }
    return low;
}

/* So many flips, one in each step, in what launches change or in buffers. */
static void
flip_once(team_run run, const char *parts, int steps, bool before)
{
    static char expected[MOST_STEPS][33];
    uint32_t state = before ? 7 : 1;
    uint64_t launches[MOST_DEVICES], flips, found = 0, wanted = 0;
    char first[2][33];
    yoke_trainer *t;

    run.recheck = 1;
    run.shares = "even";
    t = make(&run, parts);
    ASSERT_OK(yoke_trainer_hash(t, NULL, first[0]));
    for (size_t k = 0; k < t->crew.count; k++)
        launches[k] = count_launches(&run, t, k);
    yoke_trainer_destroy(t);
    expect(run, steps, expected);
    t = make(&run, parts);
    warm_up(&run, t);
    ASSERT_OK(yoke_trainer_hash(t, NULL, first[1]));
    flips = faults->flips();
    for (int i = 0, back; i < steps; i++) {
        const size_t device = (size_t)(t->step + 1) % t->crew.count;
        const fault_flip flip = {.device = names[device],
                                 .from = announced + 1,
                                 .to = announced + 1,
                                 .nth = 1 + draw(&state) % launches[device],
                                 .bit = draw(&state),
                                 .before = before};
        /* With micro-batches the first device keeps statistics between them, which is no granule.
         */
        const bool flips_now = device > 0 || run.accumulate <= 1;

        if (flips_now)
            ck_assert(faults->flip(&flip));
        wanted += flips_now;
        if (step(&run, t, i) != YOKE_OK) {
            /* A bit that nobody writes again: with two devices nobody can say whose it is. */
            ASSERT_DETAIL("nobody can say which");
            back = (int)t->step - 2;
            check_hash(t, back < 0 ? first[t->step] : expected[back], back);
            found += 1 + t->recheck.found;
            yoke_trainer_destroy(t);
            t = make(&run, parts);
            warm_up(&run, t);
            for (int k = 0; k <= i; k++)
                ASSERT_OK(step(&run, t, k));
        }
        check_hash(t, expected[i], i);
        memset(t->recheck.times, 0, t->crew.team->total); /* all is forgiven */
    }
    flips = faults->flips() - flips;
    found += t->recheck.found;
    ck_assert_msg(flips >= wanted * 9 / 10, "%d flips of %d", (int)flips, (int)wanted);
    ck_assert_msg(found >= flips / 8, "%d of %d flips found", (int)found, (int)flips);
    ck_assert(found <= flips);
    yoke_trainer_destroy(t);
}

/* Each step has another launch, and another bit. */
static int
flip_steps(void)
{
    return test_is_thorough() ? 450 : 150;
}

START_TEST(flips_in_results)
{
    flip_once((team_run){.net = TEAM_REGRESSION}, "/2", flip_steps(), false);
}
END_TEST

/* Statistics of batch norms, over two micro-batches, of which the last one has few samples. */
START_TEST(flips_with_statistics)
{
    flip_once((team_run){.net = TEAM_CONV, .batch = 12, .accumulate = 2, .granule = 2}, "/2", 100,
              false);
}
END_TEST

START_TEST(flips_in_buffers)
{
    flip_once((team_run){.net = TEAM_REGRESSION}, "/2", flip_steps(), true);
}
END_TEST

/* ---- a device that stays broken ---- */

static char said[4096];

static void
hear(void *user, yoke_log_level level, const char *text)
{
    size_t used = strlen(said);

    (void)user;
    if (level == YOKE_LOG_WARNING)
        snprintf(said + used, sizeof said - used, "%s\n", text);
}

static void
listen(void)
{
    said[0] = '\0';
    yoke_log_set(hear, NULL, YOKE_LOG_WARNING);
}

static void
check_said(const char *text)
{
    ck_assert_msg(strstr(said, text) != NULL, "no \"%s\" in: %s", text, said);
}

/* All granules of the device are wrong from step `from` of the layer on, in the same way each time:
 * a bit of the gradients that are added. */
static fault_flip
broken(size_t device, uint64_t from)
{
    return (fault_flip){.device = names[device],
                        .from = from,
                        .to = UINT64_MAX,
                        .nth = 1,
                        .on = true,
                        .kernel = "yki_granule_add",
                        .bit = 8 * 5 + 6,
                        .before = true};
}

/* The device is whole again. */
static void
mend(size_t device)
{
    const fault_flip none = {.device = names[device], .nth = 1};

    ck_assert(faults->flip(&none));
}

/* Where training goes back, the steps from there on have to be given again: returns the number
 * before that of the first one. */
static int
goes_back(const yoke_trainer *t)
{
    ASSERT_DETAIL("give all steps from there on once more");
    return (int)t->step - 2; /* the very first step was that to warm up */
}

/* With three devices the third one decides. Every device in turn is the broken one, in its turn or
 * from before that on. */
START_TEST(broken_one_of_three)
{
    enum { STEPS = 12, BEGIN = 4 };
    static char expected[STEPS][33];
    team_run run = {.net = TEAM_REGRESSION};
    char text[128];

    expect(run, STEPS, expected);
    run.recheck = 1;
    run.shares = "even";
    for (size_t k = 0; k < MOST_DEVICES; k++) {
        yoke_trainer *t = make(&run, "/3");
        int back = 0;

        listen();
        warm_up(&run, t);
        for (int i = 0; i < STEPS; i++) {
            if (i == BEGIN && !back) {
                const fault_flip flip = broken(k, announced + 1);

                ck_assert(faults->flip(&flip));
            }
            if (step(&run, t, YKI_MAX(i, 0)) != YOKE_OK) {
                ck_assert_int_lt(i - BEGIN, 3); /* steps: each of three devices has had its turn */
                i = goes_back(t);
                back++;
            }
        }
        ck_assert_int_eq(back, 1);
        check_hash(t, expected[STEPS - 1], STEPS - 1);
        snprintf(text, sizeof text, "device %s is left out from now on",
                 yoke_team_get_device_name(t->team, k));
        check_said(text);
        ck_assert_uint_eq(t->recheck.found, 1);
        mend(k);
        yoke_trainer_destroy(t);
    }
}
END_TEST

/* With two nobody can say, and training ends with the weights of a step before the fault. */
START_TEST(broken_one_of_two)
{
    team_run run = {.net = TEAM_REGRESSION, .recheck = 1, .shares = "even"};
    yoke_trainer *t = make(&run, "/2");
    char before[33];
    fault_flip flip;

    listen();
    ASSERT_OK(yoke_trainer_hash(t, NULL, before));
    warm_up(&run, t);
    ASSERT_OK(step(&run, t, 1));
    flip = broken((size_t)(t->step + 1) % 2, announced + 1);
    ck_assert(faults->flip(&flip));
    ASSERT_REFUSED(YOKE_ERROR_DEVICE, "nobody can say which", step(&run, t, 2));
    check_said("each gives the same again");
    ck_assert_int_eq(t->step, 0);
    check_hash(t, before, -1);
    yoke_trainer_destroy(t);
}
END_TEST

/* A device that gives something else each time is found by one other, and by itself. */
START_TEST(unsteady)
{
    team_run run = {.net = TEAM_REGRESSION, .recheck = 1, .shares = "even"};

    for (int parts = 1; parts <= 2; parts++) {
        yoke_trainer *t = make(&run, parts == 1 ? "" : "/2");
        fault_flip flip = broken(0, 0);

        listen();
        warm_up(&run, t);
        ASSERT_OK(step(&run, t, 1));
        while ((t->step + 1) % parts != 0)
            ASSERT_OK(step(&run, t, 1));
        flip.from = announced + 1;
        flip.before = false;
        flip.moves = true;
        flip.bit = 8 * 400 + 6;
        flip.device = names[0];
        ck_assert(faults->flip(&flip));
        if (parts == 1) {
            ASSERT_REFUSED(YOKE_ERROR_DEVICE, "no device is left", step(&run, t, 2));
            ck_assert(!t->recheck.states[0].there); /* the step before it was checked */
        } else {
            ASSERT_REFUSED(YOKE_ERROR_DEVICE, "once more", step(&run, t, 2));
            ck_assert(t->recheck.out[0] != 0);
        }
        check_said("was wrong, and wrong again");
        yoke_trainer_destroy(t);
    }
}
END_TEST

/* The last device that is in is wrong once in each of four steps, and goes on. */
START_TEST(last_one_of_two)
{
    enum { STEPS = 4 };
    static char expected[STEPS][33];
    team_run run = {.net = TEAM_REGRESSION};
    yoke_trainer *t;

    expect(run, STEPS, expected);
    run.recheck = 1;
    run.shares = "even";
    t = make(&run, "/2");
    warm_up(&run, t);
    t->recheck.out[0] = 2;
    for (int i = 0; i < STEPS; i++) {
        fault_flip flip = broken(1, announced + 1);

        flip.on = false;
        ck_assert(faults->flip(&flip));
        ASSERT_OK(step(&run, t, i));
        check_hash(t, expected[i], i);
    }
    ck_assert_uint_eq(t->recheck.found, STEPS);
    mend(1);
    yoke_trainer_destroy(t);
}
END_TEST

/* ---- going back ---- */

static bool
announce(void *user, const yoke_result *result)
{
    (void)user;
    (void)result;
    faults->step(++announced);
    return false;
}

/* A device breaks, in its turn or between its turns; training goes back, over the end of an epoch
 * too. The weights are those without a fault. */
static void
go_back(int64_t recheck)
{
    enum { EPOCHS = 7, STEPS = 5 * EPOCHS };
    static const yoke_fit_options fit = {.epochs = EPOCHS, .on_step = announce};
    team_run run = {.net = TEAM_REGRESSION, .seed = 3};
    yoke_dataset *dataset = team_dataset(&run, 0, 100);
    const uint64_t apart = test_is_thorough() ? 4 : 8; /* in each turn of three devices */
    char expected[33];
    yoke_trainer *t = make(&run, "");

    ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &fit));
    ASSERT_OK(yoke_trainer_hash(t, NULL, expected));
    yoke_trainer_destroy(t);
    for (size_t k = 0; k < MOST_DEVICES; k++)
        for (uint64_t begin = 2; begin < 26; begin += apart) {
            fault_flip flip;

            run.recheck = recheck;
            run.shares = "even";
            t = make(&run, "/3");
            listen();
            flip = broken(k, announced + begin);
            ck_assert(faults->flip(&flip));
            ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &fit));
            check_said("training goes back to step");
            check_hash(t, expected, (int)t->step - 1);
            ck_assert_int_eq(t->step, STEPS);
            ck_assert_uint_eq(yoke_trainer_epoch_count(t), EPOCHS);
            ck_assert(t->recheck.out[k] != 0);
            mend(k);
            yoke_trainer_destroy(t);
        }
    yoke_dataset_destroy(dataset);
}

START_TEST(going_back)
{
    go_back(1);
}
END_TEST

START_TEST(going_back_further)
{
    go_back(2);
}
END_TEST

/* No checkpoint is newer than the step before: those of wrong weights are gone. */
static bool
look_for_later(void *user, const yoke_result *result)
{
    int64_t *steps;
    size_t count;

    ASSERT_OK(yki_checkpoint_list(scratch_path("saved"), &steps, &count));
    ck_assert(count == 0 || steps[0] < result->step);
    free(steps);
    return announce(user, result);
}

START_TEST(going_back_with_checkpoints)
{
    const yoke_fit_options fit = {.epochs = 4,
                                  .on_step = look_for_later,
                                  .checkpoint_dir = scratch_path("saved"),
                                  .checkpoint_every = 1,
                                  .checkpoint_keep = 50};
    team_run run = {.net = TEAM_REGRESSION, .seed = 3, .recheck = 1, .shares = "even"};
    yoke_dataset *dataset = team_dataset(&run, 0, 100);
    yoke_trainer *t = make(&run, "/3");
    fault_flip flip;

    listen();
    faults->step(++announced);
    flip = broken(1, announced + 12);
    ck_assert(faults->flip(&flip));
    ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &fit));
    check_said("training goes back to step");
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(dataset);
}
END_TEST

/* Steps with feeds of the caller's: it has to give them again. */
START_TEST(going_back_by_steps)
{
    enum { STEPS = 20 };
    static char expected[STEPS][33];
    team_run run = {.net = TEAM_REGRESSION};
    yoke_trainer *t;
    int back = 0;

    expect(run, STEPS, expected);
    run.recheck = 2;
    run.shares = "even";
    t = make(&run, "/3");
    warm_up(&run, t);
    for (int i = 0; i < STEPS; i++) {
        if (i == 7) {
            const fault_flip flip = broken(1, announced + 1);

            ck_assert(back || faults->flip(&flip));
        }
        if (step(&run, t, YKI_MAX(i, 0)) == YOKE_OK)
            continue;
        ck_assert_int_lt(i - 7, 2 * 3); /* every second step is one device's turn */
        i = goes_back(t);
        back++;
    }
    ck_assert_int_eq(back, 1);
    check_hash(t, expected[STEPS - 1], STEPS - 1);
    yoke_trainer_destroy(t);
}
END_TEST

/* Training does not go back to before a change of what is trained. */
START_TEST(freezing)
{
    team_run run = {.net = TEAM_REGRESSION, .recheck = 2, .shares = "even"};
    yoke_trainer *t = make(&run, "/3");
    fault_flip flip;
    yoke_status status = YOKE_OK;

    warm_up(&run, t);
    ASSERT_OK(step(&run, t, 0));
    ASSERT_OK(yoke_trainer_freeze(t, "*bias"));
    flip = broken(1, announced + 1);
    ck_assert(faults->flip(&flip));
    for (int i = 1; i < 10 && status == YOKE_OK; i++)
        status = step(&run, t, i);
    ck_assert_int_eq(status, YOKE_ERROR_DEVICE);
    ck_assert_int_eq(t->step, 2);
    yoke_trainer_destroy(t);
}
END_TEST

/* ---- without faults ---- */

/* `make check-recheck` takes more steps. */
START_TEST(clean_steps)
{
    const char *wanted = getenv("YOKE_TEST_STEPS");
    const int steps = wanted ? atoi(wanted) : 300;
    team_run run = {.net = TEAM_DROPOUT, .recheck = 1, .last = 7};
    yoke_trainer *t = make(&run, "/3");

    listen();
    for (int i = 0; i < steps; i++)
        ASSERT_OK(team_step(&run, t, i % 1000, NULL));
    ck_assert_msg(said[0] == '\0', "%s", said);
    ck_assert_uint_eq(t->recheck.found, 0);
    ck_assert_uint_ge(t->recheck.checks, (uint64_t)steps / 2);
    yoke_trainer_destroy(t);
}
END_TEST

/* ---- options ---- */

START_TEST(what_is_refused)
{
    team_run run = {.net = TEAM_MLP, .selector = root, .recheck = 1};
    yoke_trainer_options o = team_options(&run);
    yoke_graph *g = team_graph(TEAM_MLP);
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, root, NULL, &team));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "recheck is 1; must be 0",
                   yoke_trainer_create(team, g, &o, &t));
    o.reproducible = YOKE_REPRODUCIBLE_ANY_SPLIT;
    o.recheck = -1;
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "recheck", yoke_trainer_create(team, g, &o, &t));
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite;
    TCase *tc;

    fault_require();
    suite = suite_create("recheck");
    tc = test_case(suite, "flips");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, flips_in_results);
    tcase_add_test(tc, flips_in_buffers);
    tcase_add_test(tc, flips_with_statistics);
    tc = test_case(suite, "broken");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, broken_one_of_three);
    tcase_add_test(tc, broken_one_of_two);
    tcase_add_test(tc, unsteady);
    tcase_add_test(tc, last_one_of_two);
    tcase_add_test(tc, going_back);
    tcase_add_test(tc, going_back_further);
    tcase_add_test(tc, going_back_by_steps);
    tcase_add_test(tc, freezing);
    tc = test_case(suite, "files");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_test(tc, going_back_with_checkpoints);
    tc = test_case(suite, "clean");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_set_timeout(tc, 900);
    tcase_add_test(tc, clean_steps);
    tcase_add_test(tc, what_is_refused);
    return suite;
}
