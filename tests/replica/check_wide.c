/* SPDX-License-Identifier: Apache-2.0
 *
 * check_wide.c - a tensor of 4 GiB, the largest that PoCL makes, is really computed: places in it
 * are no ints in bytes. It is skipped where memory is short, and without YOKE_TEST_THOROUGH=1.
 */
#include <stdio.h>
#include <stdlib.h>

#include "support/opened.h"
#include "support/support.h"

enum { WIDTH = 65536, BATCH = 16384 };
static const uint64_t tensor = (uint64_t)WIDTH * BATCH * sizeof(float);

static uint64_t
available_memory(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    unsigned long long kib = 0;

    while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %llu", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return (uint64_t)kib * 1024;
}

/* The sum of each sample's row. */
static yoke_model *
make_model(void)
{
    const yoke_dense_options ones = {
        .units = WIDTH, .no_bias = true, .weight_init = {.kind = YOKE_INIT_CONSTANT, .a = 1}};
    yoke_graph *g;
    yoke_model *m;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(1)), &ones);
    yoke_graph_set_output(g, "y", yoke_sum(g, yoke_relu(g, y), NULL, 0));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    return m;
}

START_TEST(four_gib_are_computed)
{
    const yoke_predictor_options o = {.batch = BATCH, .level = YOKE_PLAN_ESTIMATE};
    yoke_device_info info;
    float *x, *y;
    yoke_model *m;
    yoke_predictor *p;

    ASSERT_OK(yoke_device_get_info(devices.device[0], &info));
    if (!test_is_thorough() || available_memory() < 3 * tensor || info.max_allocation < tensor)
        TEST_NOT_HERE("takes YOKE_TEST_THOROUGH=1, 12 GiB of memory, and a buffer of 4 GiB");
    m = make_model();
    x = malloc(2 * BATCH * sizeof *x);
    ck_assert_ptr_nonnull(x);
    y = x + BATCH;
    ASSERT_OK(yoke_predictor_create(devices.context, test_selector(), m, &o, &p));
    for (int i = 0; i < BATCH; i++)
        x[i] = (float)(i % 5 - 2);
    ASSERT_OK(yoke_predictor_run(p, BATCH, yoke_feed_make("x", YOKE_F32, x, BATCH), y, BATCH));
    for (int i = 0; i < BATCH; i++)
        ck_assert_msg(y[i] == (x[i] > 0 ? x[i] * WIDTH : 0), "sample %d: %g of %g", i, y[i], x[i]);
    yoke_predictor_destroy(p);
    yoke_model_destroy(m);
    free(x);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("wide");
    TCase *tcase = test_case(suite, "wide");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_test(tcase, four_gib_are_computed);
    return suite;
}
