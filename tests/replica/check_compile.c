/* SPDX-License-Identifier: Apache-2.0
 *
 * check_compile.c - kernels that other processes compile for a first plan: what is claimed is left
 * to its owner, what they compile is found, and whatever becomes of them, the plan is made.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cache.h"
#include "replica/compilers.h"
#include "support/scratch.h"
#include "support/support.h"

enum { BATCH = 4, TEXT = 4096 };

static yoke_context *context;
static yoke_selection *selection;
static yoke_device *device;

static void
open_device(bool no_cache)
{
    yoke_context_options options = {.cache_dir = scratch_path("kernels"), .no_cache = no_cache};

    ASSERT_OK(yoke_context_create(&options, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    device = yoke_selection_get(selection, 0);
}

static void
close_device(void)
{
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

/* Enough operators for processes to be worth it. */
static yoke_graph *
make_graph(void)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_F32, yoke_shape(3, 8, 8));
    x = yoke_conv2d(g, x, &(yoke_conv2d_options){.filters = 16, .kernel = {3, 3}, .pad = {1, 1}});
    x = yoke_relu(g, yoke_batch_norm(g, x, NULL));
    x = yoke_dense(g, yoke_flatten(g, x), &(yoke_dense_options){.units = 10});
    yoke_graph_set_output(g, "logits", x);
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, x, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
    return g;
}

/* ---- claims ---- */

/* Compiles what nobody has claimed, or with `claims` NULL chooses as a plan does. Returns how many
 * programs were built. */
static uint64_t
builds_of(yki_claims *claims)
{
    const yki_plan_options options = {
        .max.batch = BATCH, .training = true, .level = YOKE_PLAN_MEASURE, .budget = 600};
    yoke_graph *graph = make_graph();
    yki_weights *weights;
    yki_queue *queue;
    yki_load loads[256];
    bool measured;
    uint64_t before;

    ASSERT_OK(yki_weights_create_bare(device, graph, &weights));
    ASSERT_OK(yki_queue_create(device, false, &queue));
    before = yki_program_builds();
    if (claims)
        ASSERT_OK(yki_plan_compile(weights, queue, &options, claims));
    else
        ASSERT_OK(yki_plan_find_loads(weights, queue, &options, loads, &measured));
    before = yki_program_builds() - before;
    yki_queue_destroy(queue);
    yki_weights_release(weights);
    yoke_graph_destroy(graph);
    return before;
}

static unsigned
count_claims(const yki_claims *claims)
{
    unsigned count = 0;

    for (size_t i = 0; i < YKI_COUNT(claims->keys); i++)
        count += atomic_load(&claims->keys[i]) != 0;
    return count;
}

START_TEST(what_is_claimed_is_left)
{
    yki_claims *claims = calloc(1, sizeof *claims);
    unsigned count;

    ck_assert_ptr_nonnull(claims);
    open_device(true);
    ck_assert_uint_gt(builds_of(claims), 0);
    count = count_claims(claims);
    ck_assert_uint_ge(count, 4);
    close_device();
    /* Another context has built nothing. */
    open_device(true);
    ck_assert_uint_eq(builds_of(claims), 0);
    ck_assert_uint_eq(count_claims(claims), count);
    close_device();
    free(claims);
}
END_TEST

START_TEST(what_is_compiled_is_found)
{
    yki_claims *claims = calloc(1, sizeof *claims);
    uint64_t all;

    ck_assert_ptr_nonnull(claims);
    open_device(true);
    all = builds_of(NULL);
    close_device();
    open_device(true);
    ck_assert_uint_gt(builds_of(claims), 0);
    ck_assert_uint_le(2 * builds_of(NULL), all); /* a change of layout is not rehearsed */
    close_device();
    free(claims);
}
END_TEST

START_TEST(a_full_table_ends)
{
    yki_claims *claims = calloc(1, sizeof *claims);

    ck_assert_ptr_nonnull(claims);
    for (size_t i = 0; i < YKI_COUNT(claims->keys); i++)
        atomic_store(&claims->keys[i], 1);
    open_device(true);
    ck_assert_uint_eq(builds_of(claims), 0);
    close_device();
    free(claims);
}
END_TEST

/* ---- processes ---- */

static char mark[TEXT]; /* a file to which each process that was started adds what it returned */

/* The program is a script around `command`. */
static void
use_program(const char *command, mode_t mode)
{
    char text[3 * TEXT], path[TEXT];

    snprintf(path, sizeof path, "%s", scratch_path("program"));
    snprintf(mark, sizeof mark, "%s", scratch_path("mark"));
    snprintf(text, sizeof text, "#!/bin/sh\n%s\nstatus=$?\necho $status >>'%s'\nexit $status\n",
             command, mark);
    unlink(mark);
    unlink(path);
    scratch_write(path, text, strlen(text));
    ck_assert_int_eq(chmod(path, mode), 0);
    setenv("YOKE_COMPILE", path, 1);
}

static void
use_real_program(void)
{
    char command[TEXT];

    snprintf(command, sizeof command, "'%s/lib/replica/yoke-compile'", getenv("YOKE_BUILDDIR"));
    use_program(command, 0700);
}

/* Counts the processes that have ended, and those of them that returned `status`. */
static void
count_ended(const char *status, unsigned *ended, unsigned *so)
{
    size_t size;
    char *text;

    *ended = *so = 0;
    if (access(mark, F_OK))
        return;
    text = scratch_read(mark, &size);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        ++*ended;
        *so += strcmp(line, status) == 0;
    }
    free(text);
}

/* Makes a trainer's replica and lets it train; no process is left behind. */
static void
train(yoke_plan_level level)
{
    static float image[BATCH * 3 * 8 * 8];
    static int32_t label[BATCH];
    const yoke_feed feeds[] = {yoke_feed_f32("image", image, sizeof image / sizeof *image),
                               yoke_feed_i32("label", label, BATCH)};
    const yoke_trainer_options options = {
        .batch = BATCH, .level = level, .core_groups = YOKE_CORE_GROUPS_NEVER};
    yoke_graph *graph = make_graph();
    yoke_trainer *trainer;
    yoke_result result;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(context, yki_device_id(device), NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, graph, &options, &trainer));
    ASSERT_OK(yoke_trainer_step(trainer, BATCH, feeds, 2, &result));
    ck_assert(result.loss > 0);
    ck_assert(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_graph_destroy(graph);
}

static bool
is_helped(void)
{
    return yki_device_get_traits(device)->type == YOKE_DEVICE_CPU && yki_compilers_wanted() > 0;
}

START_TEST(processes_help)
{
    unsigned ended, good;

    use_real_program();
    yki_compilers_patience = 600;
    open_device(false);
    train(YOKE_PLAN_MEASURE);
    count_ended("0", &ended, &good);
    ck_assert_uint_eq(ended, is_helped() ? yki_compilers_wanted() : 0);
    ck_assert_uint_eq(good, ended);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, "were compiled here, the others beside"),
                      ended > 0);
    /* Times are known now, so that nothing is left to compile before. */
    train(YOKE_PLAN_MEASURE);
    count_ended("0", &ended, &good);
    ck_assert_uint_eq(ended, is_helped() ? yki_compilers_wanted() : 0);
    close_device();
}
END_TEST

/* Times are forgotten, but what was compiled for this process is known. */
START_TEST(no_process_for_what_is_compiled)
{
    unsigned ended, good;

    use_real_program();
    yki_compilers_patience = 600;
    for (int i = 0; i < 2; i++) {
        open_device(false);
        train(YOKE_PLAN_MEASURE);
        close_device();
        unlink(scratch_path("kernels/wisdom"));
    }
    count_ended("0", &ended, &good);
    ck_assert_uint_le(ended, yki_compilers_wanted());
}
END_TEST

/* Another process of this host is helped. */
START_TEST(one_process_is_helped)
{
    unsigned ended, good;
    int lock;

    use_program("true", 0700);
    open_device(false);
    lock = yki_context_take_lock(context);
    ck_assert_int_ge(lock, 0);
    ck_assert_int_eq(yki_context_take_lock(context), -1);
    train(YOKE_PLAN_MEASURE);
    count_ended("0", &ended, &good);
    ck_assert_uint_eq(ended, 0);
    yki_context_drop_lock(lock);
    close_device();
}
END_TEST

START_TEST(no_process_without_need)
{
    unsigned ended, good;

    use_program("true", _i == 2 ? 0600 : 0700);
    open_device(_i == 1); /* without a cache nobody finds what they compile */
    train(_i == 0 ? YOKE_PLAN_ESTIMATE : YOKE_PLAN_MEASURE);
    count_ended("0", &ended, &good);
    ck_assert_uint_eq(ended, 0);
    close_device();
}
END_TEST

static const char *const ends[] = {"(exit 1)", "kill -KILL $$", "cat >/dev/null; (exit 3)"};

START_TEST(bad_programs_do_no_harm)
{
    use_program(ends[_i], 0700);
    open_device(false);
    train(YOKE_PLAN_MEASURE);
    close_device();
}
END_TEST

START_TEST(one_that_hangs_is_killed)
{
    yki_compilers_patience = 0.5;
    use_program("exec sleep 1000", 0700);
    open_device(false);
    train(YOKE_PLAN_MEASURE);
    close_device();
}
END_TEST

/* ---- what the program is given ---- */

static const char *const inputs[] = {"", "{", "{\"graph\": \"{\", \"device\": \"cpu:0\"}"};

START_TEST(bad_jobs_are_refused)
{
    const size_t size = sizeof(yki_compile_job) + strlen(inputs[_i]) + (_i != 1);
    char *job = calloc(1, size + 1), command[2 * TEXT];
    int status;

    ck_assert_ptr_nonnull(job);
    memcpy(((yki_compile_job *)job)->text, inputs[_i], strlen(inputs[_i]));
    scratch_write(scratch_path("job"), job, _i == 0 ? 0 : size);
    free(job);
    snprintf(command, sizeof command, "exec '%s/lib/replica/yoke-compile' <>'%s'",
             getenv("YOKE_BUILDDIR"), scratch_path("job"));
    status = system(command);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 2);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("compile");
    TCase *claims = test_case(suite, "claims"), *processes = test_case(suite, "processes");

    tcase_add_checked_fixture(claims, scratch_set_up_cold, scratch_tear_down);
    tcase_add_test(claims, what_is_claimed_is_left);
    tcase_add_test(claims, what_is_compiled_is_found);
    tcase_add_test(claims, a_full_table_ends);
    tcase_add_checked_fixture(processes, scratch_set_up_cold, scratch_tear_down);
    tcase_set_timeout(processes, 60);
    tcase_add_test(processes, processes_help);
    tcase_add_test(processes, no_process_for_what_is_compiled);
    tcase_add_test(processes, one_process_is_helped);
    tcase_add_loop_test(processes, no_process_without_need, 0, 3);
    tcase_add_loop_test(processes, bad_programs_do_no_harm, 0, 3);
    tcase_add_test(processes, one_that_hangs_is_killed);
    tcase_add_loop_test(processes, bad_jobs_are_refused, 0, 3);
    return suite;
}
