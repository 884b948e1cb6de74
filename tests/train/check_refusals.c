/* SPDX-License-Identifier: Apache-2.0
 *
 * check_refusals.c - what a graph and a replica do not take: each a status and a
 * sentence that names the node, the sample, the sizes; and nothing is lost by it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/opened.h"
#include "support/scratch.h"
#include "support/support.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 4, CLASSES = 3 };

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units});
}

/* x (5) -> dense -> relu -> dense -> cross-entropy over three classes. */
static yoke_graph *
network(int64_t width)
{
    yoke_graph *g;
    yoke_node *y, *label;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_relu(g, dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(5)), width));
    y = dense(g, y, CLASSES);
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, label));
    return g;
}

static yoke_replica_options
base(void)
{
    return (yoke_replica_options){.batch = BATCH, .level = YOKE_PLAN_ESTIMATE};
}

static yoke_replica *
made(yoke_graph *g)
{
    yoke_replica_options o = base();
    yoke_replica *r;

    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    return r;
}

static void
give(yoke_replica *r, int64_t n)
{
    static const float x[BATCH * 5] = {1, -1, 0.5f, 2, 3};
    static const int32_t labels[BATCH] = {0, 2, 1, 1};

    ASSERT_OK(yoke_replica_set_input(r, n, yoke_feed_f32("x", x, n * 5)));
    ASSERT_OK(yoke_replica_set_input(r, n, yoke_feed_i32("label", labels, n)));
}

static void
step(yoke_replica *r, int64_t n)
{
    give(r, n);
    ASSERT_OK(yoke_replica_forward(r, n));
    ASSERT_OK(yoke_replica_backward(r));
    ASSERT_OK(yoke_replica_update(r, 1));
}

static uint64_t
memory_in_use(void)
{
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(devices.device[0], &usage));
    return usage.used;
}

/* ---- graphs ---- */

typedef yoke_node *(*mistake)(yoke_graph *g, yoke_node *x);

static yoke_node *
add_of_other_shapes(yoke_graph *g, yoke_node *x)
{
    return yoke_add(g, x, yoke_input(g, "other", YOKE_F32, yoke_shape(2, 7)));
}

static yoke_node *
matmul_of_other_shapes(yoke_graph *g, yoke_node *x)
{
    return yoke_matmul(g, x, yoke_input(g, "other", YOKE_F32, yoke_shape(5, 7)), NULL);
}

static yoke_node *
float_label(yoke_graph *g, yoke_node *x)
{
    return yoke_softmax_cross_entropy(g, yoke_flatten(g, x),
                                      yoke_target(g, "label", YOKE_F32, yoke_shape()), NULL);
}

static yoke_node *
integer_value(yoke_graph *g, yoke_node *x)
{
    return yoke_mean_squared_error(g, x, yoke_target(g, "label", YOKE_I32, yoke_shape(4, 6)), NULL);
}

static yoke_node *
value_of_other_shape(yoke_graph *g, yoke_node *x)
{
    return yoke_mean_squared_error(g, x, yoke_target(g, "label", YOKE_F32, yoke_shape(4, 7)), NULL);
}

static yoke_node *
no_units(yoke_graph *g, yoke_node *x)
{
    return dense(g, x, 0);
}

static yoke_node *
negative_units(yoke_graph *g, yoke_node *x)
{
    return dense(g, x, -3);
}

static yoke_node *
empty_input(yoke_graph *g, yoke_node *x)
{
    (void)x;
    return yoke_input(g, "other", YOKE_F32, yoke_shape(3, 0));
}

static yoke_node *
negative_input(yoke_graph *g, yoke_node *x)
{
    (void)x;
    return yoke_input(g, "other", YOKE_F32, yoke_shape(3, -7));
}

static yoke_node *
uncountable_input(yoke_graph *g, yoke_node *x)
{
    (void)x;
    return yoke_input(g, "other", YOKE_F32, yoke_shape(2000000000, 2000000000, 2000000000));
}

static yoke_node *
reshape_to_other_count(yoke_graph *g, yoke_node *x)
{
    return yoke_reshape(g, x, yoke_shape(25));
}

static yoke_node *
convolution_of_a_matrix(yoke_graph *g, yoke_node *x)
{
    return yoke_conv2d(g, x, &(yoke_conv2d_options){.filters = 2, .kernel = {3, 3}});
}

/* What the sentence has to say: the node's name or kind, and the sizes. */
static const struct {
    mistake make;
    yoke_status status;
    const char *parts[3];
} mistakes[] = {
    {add_of_other_shapes, YOKE_ERROR_SHAPE, {"add", "(4, 6)", "(2, 7)"}},
    {matmul_of_other_shapes, YOKE_ERROR_SHAPE, {"matmul", "(4, 6)", "(5, 7)"}},
    {float_label, YOKE_ERROR_TYPE, {"cross_entropy"}},
    {integer_value, YOKE_ERROR_TYPE, {"squared_error"}},
    {value_of_other_shape, YOKE_ERROR_SHAPE, {"squared_error", "(4, 6)", "(4, 7)"}},
    {no_units, YOKE_ERROR_INVALID_ARGUMENT, {"dense", "units", "0"}},
    {negative_units, YOKE_ERROR_INVALID_ARGUMENT, {"dense", "units", "-3"}},
    {empty_input, YOKE_ERROR_SHAPE, {"other", "0", "axis 1"}},
    {negative_input, YOKE_ERROR_SHAPE, {"other", "-7", "axis 1"}},
    {uncountable_input, YOKE_ERROR_SHAPE, {"other", "2000000000", "elements"}},
    {reshape_to_other_count, YOKE_ERROR_SHAPE, {"reshape", "(4, 6)", "(25)"}},
    {convolution_of_a_matrix, YOKE_ERROR_SHAPE, {"conv", "(4, 6)"}},
};

START_TEST(graph_keeps_its_first_mistake)
{
    yoke_replica_options o = base();
    yoke_replica *r = NULL;
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(4, 6));
    ck_assert_ptr_null(mistakes[_i].make(g, x));
    ck_assert_ptr_null(yoke_relu(g, x)); /* nothing is taken any more */
    yoke_graph_set_loss(g, yoke_mean(g, yoke_sub(g, x, NULL), NULL, 0));
    ASSERT_STATUS(mistakes[_i].status, yoke_graph_status(g));
    for (int i = 0; i < 3 && mistakes[_i].parts[i]; i++)
        ASSERT_DETAIL(mistakes[_i].parts[i]);
    ASSERT_STATUS(mistakes[_i].status, yoke_replica_create(devices.device[0], g, &o, &r));
    ASSERT_DETAIL(mistakes[_i].parts[0]);
    ck_assert_ptr_null(r);
    yoke_graph_destroy(g);
    ck_assert_uint_eq(memory_in_use(), 0);
}
END_TEST

START_TEST(loss_is_a_scalar_and_depends_on_parameters)
{
    yoke_replica_options o = base();
    yoke_replica *r;
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_loss(g, dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(5)), 2));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_graph_status(g));
    ASSERT_DETAIL("dense1");
    ASSERT_DETAIL("(2)");
    yoke_graph_destroy(g);

    ASSERT_OK(yoke_graph_create(&g)); /* no loss */
    yoke_graph_set_output(g, "y", dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(5)), 2));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_create(devices.device[0], g, &o, &r));
    ASSERT_DETAIL("no loss");
    yoke_graph_destroy(g);

    ASSERT_OK(yoke_graph_create(&g)); /* no parameter */
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(5));
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, x, x), NULL, 0));
    for (int i = 0; i < 2; i++) { /* also the second time */
        ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_create(devices.device[0], g, &o, &r));
        ASSERT_DETAIL("depends on no parameter");
    }
    o.evaluation_only = true;
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
    ck_assert_uint_eq(memory_in_use(), 0);
}
END_TEST

/* Frozen before the graph is compiled: untrained for good. Afterwards: for replicas made later. */
START_TEST(freezing_before_and_after_compiling)
{
    float before[2][5 * 6], after[2][5 * 6];
    yoke_replica_options o = base();
    yoke_graph *g = network(6);
    yoke_replica *first, *second;

    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_graph_freeze(g, "conv*"));
    ASSERT_DETAIL("conv*");
    ASSERT_OK(yoke_graph_freeze(g, "*"));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_create(devices.device[0], g, &o, &first));
    ASSERT_DETAIL("depends on no parameter");
    ASSERT_OK(yoke_graph_unfreeze(g, "*")); /* nothing was compiled yet */
    ASSERT_OK(yoke_graph_freeze(g, "dense2.*"));
    o.optimizer = yoke_sgd(0.5f, 0);
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &first));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_graph_unfreeze(g, "*"));
    ASSERT_DETAIL("dense2.weight");
    ASSERT_OK(yoke_graph_freeze(g, "dense1.weight"));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_graph_unfreeze(g, "dense2.bias"));
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &second));
    ASSERT_OK(yoke_replica_read(first, "dense1.weight", before[0], 30));
    ASSERT_OK(yoke_replica_read(second, "dense1.weight", before[1], 30));
    ck_assert_mem_eq(before[0], before[1], sizeof before[0]);
    step(first, BATCH);
    step(second, BATCH);
    ASSERT_OK(yoke_replica_read(first, "dense1.weight", after[0], 30));
    ASSERT_OK(yoke_replica_read(second, "dense1.weight", after[1], 30));
    ck_assert(memcmp(before[0], after[0], sizeof after[0]) != 0);
    ck_assert_mem_eq(before[1], after[1], sizeof after[1]);
    ASSERT_STATUS(YOKE_ERROR_STATE,
                  yoke_replica_read_gradient(first, "dense2.weight", after[0], 18));
    ASSERT_OK(yoke_graph_unfreeze(g, "dense1.weight"));
    yoke_replica_destroy(second);
    yoke_replica_destroy(first);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- creating ---- */

static void
refused(yoke_graph *g, const yoke_replica_options *o, const char *part)
{
    yoke_replica *r = NULL;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_replica_create(devices.device[0], g, o, &r));
    ASSERT_DETAIL(part);
    ck_assert_ptr_null(r);
}

START_TEST(replica_options_are_checked)
{
    yoke_parameter_group group = {.pattern = NULL};
    yoke_replica_options o = base();
    yoke_graph *g = network(6);
    yoke_replica *r;

    ck_assert_ptr_nonnull(g);
    refused(NULL, &o, "graph");
    refused(g, NULL, "options");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_replica_create(NULL, g, &o, &r));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_replica_create(devices.device[0], g, &o, NULL));
    for (int i = 0; i < 3; i++) {
        o = base();
        o.batch = (int64_t[]){0, -1, INT64_MAX}[i];
        refused(g, &o, "batch");
    }
    o = base();
    o.level = (yoke_plan_level)7;
    refused(g, &o, "level");
    o = base();
    o.optimizer.kind = (yoke_optimizer_kind)9;
    refused(g, &o, "the optimizer's kind is 9; must be between 0 and 3");
    o.optimizer = yoke_sgd(-0.1f, 0);
    refused(g, &o, "learning rate");
    o.optimizer = yoke_sgd(NAN, 0);
    refused(g, &o, "learning rate");
    o.optimizer = yoke_adam(0.1f);
    o.optimizer.beta1 = 1;
    refused(g, &o, "beta1 is 1; must be at least 0 and below 1");
    o.optimizer = yoke_adam(0.1f);
    o.optimizer.beta2 = -0.5f;
    refused(g, &o, "beta2 is -0.5; must be at least 0 and below 1");
    o = base();
    o.clip_norm = -1;
    refused(g, &o, "clip_norm is -1; must be at least 0");
    o = base();
    o.clip_value = INFINITY;
    refused(g, &o, "clip_value is inf; must be at least 0 and finite");
    o = base();
    o.group_count = 1;
    refused(g, &o, "groups");
    o.groups = &group;
    refused(g, &o, "group 0");
    group.pattern = "conv*";
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_replica_create(devices.device[0], g, &o, &r));
    ASSERT_DETAIL(
        "group 0: no parameter matches \"conv*\"; the first parameter is \"dense1.weight\"");
    o = base();
    o.batch = INT32_MAX; /* nobody holds that: some limit is named */
    ck_assert_int_ne(yoke_replica_create(devices.device[0], g, &o, &r), YOKE_OK);
    ck_assert_str_ne(yoke_last_error(), "");
    yoke_graph_destroy(g);
    ck_assert_uint_eq(memory_in_use(), 0);
}
END_TEST

START_TEST(plan_beyond_quota_leaves_the_device_usable)
{
    yoke_replica_options o = base();
    yoke_selection *selection;
    yoke_device_info info;
    yoke_memory_usage usage;
    yoke_device *device;
    yoke_replica *r = NULL;
    yoke_graph *g = network(700000); /* 14 MB of weights alone */
    char selector[96];

    ASSERT_OK(yoke_device_get_info(devices.device[0], &info));
    if (info.virtual_kind != YOKE_VIRTUAL_NONE)
        TEST_NOT_HERE("%s is a part already", info.id);
    yoke_selection_destroy(devices.selection);
    devices.selection = NULL;
    snprintf(selector, sizeof selector, "%s@8MiB", info.id);
    ASSERT_OK(yoke_selection_create(devices.context, selector, NULL, &selection));
    device = yoke_selection_get(selection, 0);
    ASSERT_STATUS(YOKE_ERROR_QUOTA, yoke_replica_create(device, g, &o, &r));
    ASSERT_DETAIL(info.id);
    ASSERT_DETAIL("8388608");
    ck_assert_ptr_null(r);
    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_eq(usage.used, 0);
    yoke_graph_destroy(g);

    g = network(6);
    ASSERT_OK(yoke_replica_create(device, g, &o, &r));
    step(r, BATCH);
    ASSERT_OK(yoke_replica_wait(r));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
    yoke_selection_destroy(selection);
}
END_TEST

/* ---- using ---- */

static void
ignore_task(void *user, const yoke_task_info *info)
{
    (void)user;
    (void)info;
}

START_TEST(nothing_takes_null)
{
    yoke_graph *g = network(6);
    yoke_replica *r = made(g);
    float f[64] = {0};
    double sum, count;

    yoke_replica_destroy(NULL);
    yoke_graph_destroy(NULL);
    ASSERT_INVALID(yoke_graph_create(NULL));
    ASSERT_INVALID(yoke_graph_status(NULL));
    ASSERT_INVALID(yoke_graph_freeze(NULL, "*"));
    ASSERT_INVALID(yoke_graph_freeze(g, NULL));
    ASSERT_INVALID(yoke_replica_write(NULL, "dense1.bias", f, 6));
    ASSERT_INVALID(yoke_replica_write(r, NULL, f, 6));
    ASSERT_INVALID(yoke_replica_write(r, "dense1.bias", NULL, 6));
    ASSERT_INVALID(yoke_replica_read(NULL, "dense1.bias", f, 6));
    ASSERT_INVALID(yoke_replica_read(r, NULL, f, 6));
    ASSERT_INVALID(yoke_replica_read(r, "dense1.bias", NULL, 6));
    ASSERT_INVALID(yoke_replica_read_gradient(NULL, "dense1.bias", f, 6));
    ASSERT_INVALID(yoke_replica_read_gradient(r, NULL, f, 6));
    ASSERT_INVALID(yoke_replica_read_gradient(r, "dense1.bias", NULL, 6));
    ASSERT_INVALID(yoke_replica_initialize(NULL, 1));
    ASSERT_INVALID(yoke_replica_set_input(NULL, 1, yoke_feed_f32("x", f, 5)));
    ASSERT_INVALID(yoke_replica_set_input(r, 1, yoke_feed_f32(NULL, f, 5)));
    ASSERT_INVALID(yoke_replica_set_input(r, 1, yoke_feed_f32("x", NULL, 5)));
    ASSERT_OK(yoke_replica_set_input(r, 0, yoke_feed_f32("x", NULL, 0)));
    ASSERT_INVALID(yoke_replica_forward(NULL, 1));
    ASSERT_INVALID(yoke_replica_backward(NULL));
    ASSERT_INVALID(yoke_replica_update(NULL, 1));
    ASSERT_INVALID(yoke_replica_evaluate(NULL, 1));
    ASSERT_INVALID(yoke_replica_read_loss(NULL, &sum, &count));
    ASSERT_INVALID(yoke_replica_read_loss(r, NULL, &count));
    ASSERT_INVALID(yoke_replica_read_loss(r, &sum, NULL));
    ASSERT_INVALID(yoke_replica_read_metric(NULL, "accuracy", &sum, &count));
    ASSERT_INVALID(yoke_replica_read_metric(r, NULL, &sum, &count));
    ASSERT_INVALID(yoke_replica_read_metric(r, "accuracy", NULL, &count));
    ASSERT_INVALID(yoke_replica_read_metric(r, "accuracy", &sum, NULL));
    ASSERT_INVALID(yoke_replica_read_output(NULL, "y", f, 3));
    ASSERT_INVALID(yoke_replica_read_output(r, NULL, f, 3));
    ASSERT_INVALID(yoke_replica_read_output(r, "y", NULL, 3));
    ASSERT_INVALID(yoke_replica_wait(NULL));
    ASSERT_INVALID(yoke_replica_print_plan(NULL, test_drop_line, NULL));
    ASSERT_INVALID(yoke_replica_print_plan(r, NULL, NULL));
    ASSERT_INVALID(yoke_replica_profile(NULL, 1, 1, ignore_task, NULL));
    ASSERT_INVALID(yoke_replica_profile(r, 1, 1, NULL, NULL));
    ASSERT_INVALID(yoke_replica_profile(r, 1, 0, ignore_task, NULL));
    ASSERT_INVALID(yoke_replica_profile(r, BATCH + 1, 1, ignore_task, NULL));
    ck_assert(yoke_replica_flops(NULL, 1) == 0);
    step(r, BATCH);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(names_and_counts_are_checked)
{
    yoke_graph *g = network(6);
    yoke_replica *r = made(g);
    float f[64] = {0};
    double sum, count;

    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_replica_set_input(r, 1, yoke_feed_f32("image", f, 5)));
    ASSERT_DETAIL("image");
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "no input \"lable\"; did you mean \"label\"?",
                   yoke_replica_set_input(r, 1, yoke_feed_f32("lable", f, 5)));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "\"Dense1.bais\"; did you mean \"dense1.bias\"?",
                   yoke_replica_write(r, "Dense1.bais", f, 6));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_replica_read(r, "dense9.bias", f, 6));
    ASSERT_DETAIL("dense9.bias");
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_replica_write(r, "x", f, 5));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_replica_read(r, "dense1.weight", f, 29));
    ASSERT_DETAIL("(6, 5)");
    ASSERT_DETAIL("29");
    /* 4 times this is 24 in 64 bits. */
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_replica_write(r, "dense1.bias", f, ((size_t)1 << 62) + 6));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_read_output(r, "y", f, 3));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_read_loss(r, &sum, &count));
    step(r, 2);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_replica_read_output(r, "z", f, 3));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "no output \"Y\"; did you mean \"y\"?",
                   yoke_replica_read_output(r, "Y", f, 3));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "no metric \"acuracy\"; did you mean \"accuracy\"?",
                   yoke_replica_read_metric(r, "acuracy", &sum, &count));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_replica_read_metric(r, "z", &sum, &count));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_replica_read_output(r, "y", f, 7));
    ASSERT_DETAIL("output \"y\": the number of values is 7; must be 6");
    ASSERT_OK(yoke_replica_read_output(r, "y", f, 6));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(batches_are_checked)
{
    yoke_graph *g = network(6);
    yoke_replica *r = made(g);
    float x[BATCH * 5] = {0};
    double sum, count;

    give(r, BATCH);
    for (int i = 0; i < 2; i++) {
        int64_t n = (int64_t[]){-1, BATCH + 1}[i];

        ASSERT_INVALID(yoke_replica_set_input(r, n, yoke_feed_f32("x", x, n * 5)));
        ASSERT_DETAIL("0 and 4");
        ASSERT_INVALID(yoke_replica_forward(r, n));
        ASSERT_DETAIL("0 and 4");
        ASSERT_INVALID(yoke_replica_evaluate(r, n));
    }
    step(r, 0); /* no sample: a step like any other, that changes nothing */
    ASSERT_OK(yoke_replica_read_loss(r, &sum, &count));
    ck_assert(sum == 0 && count == 0);
    give(r, 2);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_forward(r, 3)); /* the third is an old one */
    ASSERT_DETAIL("has 2 samples; must have at least 3");
    ASSERT_OK(yoke_replica_forward(r, 2));
    ASSERT_OK(yoke_replica_read_loss(r, &sum, &count));
    ck_assert(sum > 0 && count == 2);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(labels_out_of_range_are_named)
{
    static const int32_t bad[][BATCH] = {{0, 1, 3, 2}, {0, -1, 1, 2}, {0, 1, 2, INT32_MAX}};
    static const char *const parts[][2] = {
        {"sample 2", "label 3"}, {"sample 1", "label -1"}, {"sample 3", "2147483647"}};
    yoke_graph *g = network(6);
    yoke_replica *r = made(g);

    give(r, BATCH);
    for (int i = 0; i < 3; i++) {
        ASSERT_STATUS(YOKE_ERROR_VALUE,
                      yoke_replica_set_input(r, BATCH, yoke_feed_i32("label", bad[i], BATCH)));
        ASSERT_DETAIL(parts[i][0]);
        ASSERT_DETAIL(parts[i][1]);
        ASSERT_DETAIL("must be between 0 and 2");
    }
    step(r, BATCH);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(steps_have_an_order)
{
    float f[5 * 6];
    yoke_graph *g = network(6);
    yoke_replica *r = made(g);
    yoke_replica_options o = base();

    give(r, BATCH);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_backward(r));
    ASSERT_DETAIL("yoke_replica_forward must come before each yoke_replica_backward");
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_update(r, 1));
    ASSERT_OK(yoke_replica_forward(r, BATCH));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_update(r, 1));
    ASSERT_OK(yoke_replica_forward(r, BATCH)); /* again, before anything came of it */
    ASSERT_OK(yoke_replica_backward(r));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_backward(r)); /* would find other values */
    ASSERT_OK(yoke_replica_forward(r, BATCH));
    ASSERT_OK(yoke_replica_backward(r));
    ASSERT_INVALID(yoke_replica_update(r, NAN));
    ASSERT_INVALID(yoke_replica_update(r, -1));
    ASSERT_OK(yoke_replica_update(r, 0));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_update(r, 1));
    ASSERT_OK(yoke_replica_forward(r, BATCH));
    ASSERT_OK(yoke_replica_evaluate(r, BATCH)); /* drops the step that was begun */
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_backward(r));
    step(r, BATCH);
    yoke_replica_destroy(r);

    o.evaluation_only = true;
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    give(r, BATCH);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_forward(r, BATCH));
    ASSERT_DETAIL("evaluation only");
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_backward(r));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_read_gradient(r, "dense1.weight", f, 30));
    ASSERT_OK(yoke_replica_evaluate(r, BATCH));
    ASSERT_OK(yoke_replica_wait(r));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* Two replicas of one graph, which its maker lets go of first, know nothing of each other. */
START_TEST(replicas_share_a_graph)
{
    float a[5 * 6], b[5 * 6], before[5 * 6], logits[2][BATCH * CLASSES];
    yoke_graph *g = network(6);
    yoke_replica *first = made(g), *second = made(g);

    yoke_graph_destroy(g);
    ASSERT_OK(yoke_replica_read(second, "dense1.weight", before, 30));
    step(first, BATCH);
    step(first, BATCH);
    ASSERT_OK(yoke_replica_read(first, "dense1.weight", a, 30));
    ASSERT_OK(yoke_replica_read(second, "dense1.weight", b, 30));
    ck_assert_mem_eq(b, before, sizeof b);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    step(second, BATCH);
    step(second, BATCH);
    ASSERT_OK(yoke_replica_read(second, "dense1.weight", b, 30));
    ck_assert_mem_eq(a, b, sizeof a);
    /* Evaluating between steps sees the newest weights and changes nothing. */
    ASSERT_OK(yoke_replica_evaluate(first, BATCH));
    ASSERT_OK(yoke_replica_read_output(first, "y", logits[0], BATCH * CLASSES));
    step(first, BATCH);
    step(second, BATCH);
    ASSERT_OK(yoke_replica_evaluate(first, BATCH));
    ASSERT_OK(yoke_replica_read_output(first, "y", logits[1], BATCH * CLASSES));
    ck_assert(memcmp(logits[0], logits[1], sizeof logits[0]) != 0);
    ASSERT_OK(yoke_replica_read(first, "dense1.weight", a, 30));
    ASSERT_OK(yoke_replica_read(second, "dense1.weight", b, 30));
    ck_assert_mem_eq(a, b, sizeof a);
    yoke_replica_destroy(first);
    yoke_replica_destroy(second);
    ck_assert_uint_eq(memory_in_use(), 0);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("refusals");
    TCase *tcase = test_case(suite, "refusals");

    tcase_add_checked_fixture(tcase, open_devices_in_scratch, leave_devices);
    tcase_add_loop_test(tcase, graph_keeps_its_first_mistake, 0,
                        (int)(sizeof mistakes / sizeof mistakes[0]));
    tcase_add_test(tcase, loss_is_a_scalar_and_depends_on_parameters);
    tcase_add_test(tcase, freezing_before_and_after_compiling);
    tcase_add_test(tcase, replica_options_are_checked);
    tcase_add_test(tcase, plan_beyond_quota_leaves_the_device_usable);
    tcase_add_test(tcase, nothing_takes_null);
    tcase_add_test(tcase, names_and_counts_are_checked);
    tcase_add_test(tcase, batches_are_checked);
    tcase_add_test(tcase, labels_out_of_range_are_named);
    tcase_add_test(tcase, steps_have_an_order);
    tcase_add_test(tcase, replicas_share_a_graph);
    return suite;
}
