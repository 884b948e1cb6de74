/* SPDX-License-Identifier: Apache-2.0
 *
 * check_arithmetic.c - teams whose devices do not compute alike: what they agree on, and what is
 * refused. On the null driver; tests/device/check_kernels.c shows that what they agree on gives the
 * same bits.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/open_null.h"
#include "support/scratch.h"
#include "support/support.h"

static void
keep_line(void *user, yoke_log_level level, const char *line)
{
    (void)level;
    test_keep_line(user, line);
}

static void
set_up(void)
{
    scratch_set_up();
    setenv("YOKE_NULL_DUMP", scratch_path("."), 1);
    test_forget_lines();
    yoke_log_set(keep_line, NULL, YOKE_LOG_INFO);
}

static void
tear_down(void)
{
    yoke_log_set(NULL, NULL, YOKE_LOG_INFO);
    scratch_tear_down();
}

/* Counts the programs with the optimizer that were built without and with SETTLE. */
static void
count_updates(int counts[2])
{
    char path[4096], *text = malloc(1 << 20);
    DIR *folder = opendir(scratch_path("."));

    counts[0] = counts[1] = 0;
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name), got;
        FILE *file;

        if (length < 3 || strcmp(entry->d_name + length - 3, ".cl") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", scratch_path("."), entry->d_name);
        file = fopen(path, "r");
        ck_assert_ptr_nonnull(file);
        got = fread(text, 1, (1 << 20) - 1, file);
        fclose(file);
        text[got] = '\0';
        if (strstr(text, "yki_sgd(")) /* the options are in the first line */
            counts[memmem(text, strcspn(text, "\n"), "-DSETTLE=1", 9) != NULL]++;
    }
    closedir(folder);
    free(text);
}

static yoke_graph *
small_graph(void)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(8));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = 4});
    yoke_graph_set_loss(
        g, yoke_mean_squared_error(g, x, yoke_input(g, "t", YOKE_F32, yoke_shape(4)), NULL));
    return g;
}

static const struct {
    const char *devices, *selector, *told; /* NULL: nothing is told, and nothing settled */
} teams[] = {
    {"h200 mi300x", "gpu:0,gpu:1", NULL},
    {"h200 adreno", "gpu:0,gpu:1", "gpu:0 does not promise to keep numbers below 1.2e-38"},
    {"adreno adreno", "gpu:0,gpu:1", "gpu:0 does not promise to keep numbers below 1.2e-38"},
    {"adreno", "gpu:0", NULL}, /* nobody to agree with */
};

START_TEST(small_numbers_count_where_all_keep_them)
{
    const yoke_trainer_options o = {
        .batch = 4, .shares = "even", .level = YOKE_PLAN_ESTIMATE, .optimizer = yoke_sgd(0.1f, 0)};
    yoke_graph *graph = small_graph();
    yoke_context *context;
    yoke_trainer *trainer;
    yoke_team *team;
    int updates[2];

    null_open(teams[_i].devices);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_team_create(context, teams[_i].selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, graph, &o, &trainer));
    count_updates(updates);
    ck_assert_int_gt(updates[teams[_i].told != NULL], 0);
    ck_assert_int_eq(updates[teams[_i].told == NULL], 0);
    ck_assert_ptr_nonnull(strstr(test_lines, teams[_i].told ? teams[_i].told : ""));
    ck_assert(teams[_i].told || !strstr(test_lines, "does not promise"));
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_graph_destroy(graph);
}
END_TEST

/* No replica of it would stay equal to the others; alone it is welcome. */
START_TEST(what_rounds_otherwise_works_alone)
{
    yoke_context *context;
    yoke_team *team;

    null_open("h200 embedded");
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "gpu:0 does not round to the nearest number",
                   yoke_team_create(context, "gpu:0,gpu:1", NULL, &team));
    ASSERT_OK(yoke_team_create(context, "gpu:0", NULL, &team));
    yoke_team_destroy(team);
    yoke_context_destroy(context);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("arithmetic");
    TCase *tcase = test_case(suite, "teams");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, small_numbers_count_where_all_keep_them, 0,
                        (int)(sizeof teams / sizeof teams[0]));
    tcase_add_test(tcase, what_rounds_otherwise_works_alone);
    return suite;
}
