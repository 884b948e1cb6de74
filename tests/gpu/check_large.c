/* SPDX-License-Identifier: Apache-2.0
 *
 * check_large.c - batches with more values than an int counts: what kernels cannot count is refused
 * with a sentence, and what they can is launched. On the null driver, whose GPU has the memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/open_null.h"
#include "plan/plan.h"
#include "support/scratch.h"
#include "support/support.h"

enum { WIDTH = 65536 };
static const int64_t most = INT32_MAX / WIDTH;

static yoke_context *context;
static yoke_selection *selection;
static const null_driver *driver;

static void
open_gpu(void)
{
    scratch_set_up();
    driver = null_open("h200");
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, "gpu:0", NULL, &selection));
}

static void
close_gpu(void)
{
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    scratch_tear_down();
}

static yoke_graph *
wide_graph(void)
{
    yoke_node *x, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(WIDTH));
    x = yoke_mul(g, yoke_parameter(g, "scale", yoke_shape(WIDTH), (yoke_initializer){0}), x);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, yoke_tanh(g, yoke_relu(g, x)), target, NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static yoke_status
try_batch(int64_t batch, yoke_replica **replica)
{
    const yoke_replica_options o = {.batch = batch, .level = YOKE_PLAN_ESTIMATE};
    yoke_graph *g = wide_graph();
    yoke_status status = yoke_replica_create(yoke_selection_get(selection, 0), g, &o, replica);

    yoke_graph_destroy(g);
    return status;
}

START_TEST(more_than_an_int_is_refused)
{
    char text[80];
    yoke_replica *r = NULL;

    snprintf(text, sizeof text, "a batch of %lld has %lld values", (long long)most + 1,
             (long long)(most + 1) * WIDTH);
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, text, try_batch(most + 1, &r));
    ASSERT_DETAIL("must be at most 2147483647; take a smaller batch, or accumulate");
}
END_TEST

static void
count_task(void *user, const yoke_task_info *task)
{
    *(uint64_t *)user += task->launches;
}

START_TEST(the_largest_batch_is_launched)
{
    uint64_t planned = 0;
    null_counts before, after;
    yoke_replica *r;

    ASSERT_OK(try_batch(most, &r));
    driver->get_counts(&before);
    ASSERT_OK(yoke_replica_profile(r, most, 1, count_task, &planned));
    driver->get_counts(&after);
    ck_assert_uint_gt(planned, 3);
    ck_assert_uint_ge(after.launches - before.launches, planned);
    yoke_replica_destroy(r);
}
END_TEST

/* Where parameters have more values than an int counts, no pool of them has: kernels that work on
 * all of a pool are told where something lies in it. */
START_TEST(pools_of_weights_are_counted_by_ints)
{
    enum { EACH = 750000000, COUNT = 5 };
    yki_weights *w;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    for (int i = 0; i < COUNT; i++) {
        char name[16];

        snprintf(name, sizeof name, "p%d", i);
        yoke_parameter(g, name, yoke_shape(EACH), (yoke_initializer){0});
    }
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yki_weights_create(yoke_selection_get(selection, 0), g, false, 0, NULL, &w));
    ck_assert_uint_eq(w->pool_count, 3);
    for (size_t i = 0; i < w->pool_count; i++)
        ck_assert_uint_le(w->pools[i].size / 4, INT32_MAX);
    yki_weights_release(w);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("large");
    TCase *tcase = test_case(suite, "batches");

    tcase_add_checked_fixture(tcase, open_gpu, close_gpu);
    tcase_add_test(tcase, more_than_an_int_is_refused);
    tcase_add_test(tcase, the_largest_batch_is_launched);
    tcase_add_test(tcase, pools_of_weights_are_counted_by_ints);
    return suite;
}
