/* SPDX-License-Identifier: Apache-2.0
 *
 * check_inputs.c - what stands in inputs that nobody has given: steps are timed on values that
 * kernels can take, and predictions run no loss.
 *
 * The loss is an operator of one's own that indexes by its label, far from any memory where the
 * label is out of its range: the process dies of it.
 */
#include <stdio.h>
#include <string.h>

#include "replica/replica.h"
#include "support/opened.h"
#include "support/scratch.h"
#include "train/trainer.h"

TESTS_SHARE_A_PROCESS

enum {
    WIDTH = 6,
    CLASSES = 5,
    BATCH = 16,
    MOST_GROUPS = YKI_MIN(BATCH, YKI_TEAM_INPUTS),
    FAR = 1 << 28
};

/* Labels count from BASE. */
static const char source[] =
    "__kernel void pick_forward(__global const float *x, __global const int *k,\n"
    "                           __global float *y, int n, int nx, int nk, int ny)\n"
    "{\n"
    "    for (int i = get_global_id(0); i < n; i += get_global_size(0))\n"
    "        y[i] = x[(long)i * nx + (k[i] - BASE)];\n"
    "}\n"
    "__kernel void pick_backward0(__global const float *x, __global const int *k,\n"
    "                             __global const float *y, __global const float *dy,\n"
    "                             __global float *dx, int n, int nx, int nk, int ny)\n"
    "{\n"
    "    for (int i = get_global_id(0); i < n; i += get_global_size(0)) {\n"
    "        for (int j = 0; j < nx; j++)\n"
    "            dx[(long)i * nx + j] = 0.f;\n"
    "        dx[(long)i * nx + (k[i] - BASE)] = dy[i];\n"
    "    }\n"
    "}\n";

static bool
scalar(void *user, const yoke_shape *in, size_t count, yoke_shape *out)
{
    (void)user, (void)in, (void)count;
    *out = yoke_shape();
    return true;
}

/* dense -> "y", and the picked value of it as loss and metric. Labels are base .. base + 4. */
static yoke_graph *
network(int base, bool declared)
{
    const yoke_range ranges[2] = {{0, 0}, {base, base + CLASSES}};
    char text[sizeof source + 32];
    yoke_custom_options options = {
        .name = "pick", .source = text, .shape = scalar, .ranges = declared ? ranges : NULL};
    yoke_node *inputs[2];
    yoke_graph *g;

    snprintf(text, sizeof text, "#define BASE %d\n%s", base, source);
    ASSERT_OK(yoke_graph_create(&g));
    inputs[0] = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH)),
                           &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_output(g, "y", inputs[0]);
    inputs[1] = yoke_target(g, "label", YOKE_I32, yoke_shape());
    yoke_graph_set_loss(g, yoke_custom(g, inputs, 2, &options));
    yoke_graph_add_metric(g, "picked", yoke_custom(g, inputs, 2, &options));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static float x[BATCH * WIDTH], y[BATCH * CLASSES], again[BATCH * CLASSES];
static int32_t labels[BATCH];

static void
make_data(int base)
{
    for (int i = 0; i < BATCH * WIDTH; i++)
        x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < BATCH; i++)
        labels[i] = base + i % CLASSES;
}

static yoke_dataset *
dataset(void)
{
    const yoke_field fields[2] = {
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH), .data = x},
        {.name = "label", .type = YOKE_I32, .shape = yoke_shape(), .data = labels}};
    yoke_dataset *made;

    ASSERT_OK(yoke_dataset_create(BATCH, fields, 2, NULL, &made));
    return made;
}

/* Several devices run no core groups: with `whole`, the selector is that of a whole CPU among them.
 * False: there are not several, or none of them is one. */
static bool
select_devices(bool whole, char *selector, size_t size)
{
    yoke_selection *selection;
    bool found = !whole;

    snprintf(selector, size, "%s", devices.selector);
    if (!whole)
        return true;
    ASSERT_OK(yoke_selection_create(devices.context, devices.selector, NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection) && !found; i++) {
        yoke_device *device = yoke_selection_get(selection, i);

        found =
            yoke_selection_count(selection) > 1 && yki_core_groups_count(device, MOST_GROUPS) > 1;
        if (found)
            snprintf(selector, size, "%s", yki_device_id(device));
    }
    yoke_selection_destroy(selection);
    return found;
}

static yoke_trainer *
trainer(yoke_graph *g, const char *selector)
{
    /* Its own: nothing is measured that wisdom knows. */
    const yoke_trainer_options o = {
        .optimizer = yoke_sgd(0.1f, 0), .batch = BATCH, .wisdom = scratch_path("wisdom")};
    yoke_team *team;
    yoke_trainer *t;

    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_team_destroy(team);
    return t;
}

static void
predict(yoke_trainer *t, const yoke_feed *feeds, size_t count, float *values)
{
    ASSERT_OK(yoke_trainer_predict(t, "y", BATCH, feeds, count, values, BATCH * CLASSES));
}

static bool
may_be_core_groups(const yoke_team *team)
{
    return yki_core_groups_count(yoke_selection_get(team->selection, 0), MOST_GROUPS) > 1;
}

/* Plans and core groups are measured when it is made; then everything that it is for. */
START_TEST(loss_that_indexes_by_a_label_trains)
{
    char selector[sizeof devices.selector];
    yoke_trainer *t;
    yoke_dataset *data;
    yoke_result result;
    yoke_feed feeds[2];
    yoke_graph *g;

    if (!select_devices(_i, selector, sizeof selector))
        return;
    g = network(FAR, true);
    make_data(FAR);
    t = trainer(g, selector);
    if (t->team->total == 1)
        ck_assert_int_eq(t->core_groups.measures, may_be_core_groups(t->team));
    feeds[0] = yoke_feed_f32("x", x, BATCH * WIDTH);
    feeds[1] = yoke_feed_i32("label", labels, BATCH);
    ASSERT_OK(yoke_trainer_step(t, BATCH, feeds, 2, &result));
    predict(t, feeds, 1, y); /* without the label */
    data = dataset();
    ASSERT_OK(yoke_trainer_evaluate(t, data, &result));
    ck_assert_double_eq(result.count, BATCH);
    ck_assert_double_eq_tol(result.loss, result.metrics[0], 1e-6);
    predict(t, feeds, 1, again);
    ck_assert_mem_eq(y, again, sizeof y);
    labels[3] = FAR + CLASSES;
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_trainer_step(t, BATCH, feeds, 2, NULL));
    ASSERT_DETAIL("label: sample 3 has the label 268435461; must be between 268435456 and "
                  "268435460");
    yoke_dataset_destroy(data);
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
}
END_TEST

/* A label that nobody declares is not checked: if a prediction ran the loss, it would end here. */
START_TEST(prediction_runs_no_loss)
{
    yoke_graph *g = network(0, false);
    yoke_trainer *t;
    yoke_feed feeds[2];

    make_data(0);
    t = trainer(g, devices.selector);
    feeds[0] = yoke_feed_f32("x", x, BATCH * WIDTH);
    feeds[1] = yoke_feed_i32("label", labels, BATCH);
    ASSERT_OK(yoke_trainer_step(t, BATCH, feeds, 2, NULL));
    predict(t, feeds, 1, y);
    for (int i = 0; i < BATCH; i++)
        labels[i] = -FAR;
    predict(t, feeds, 2, again);
    ck_assert_mem_eq(y, again, sizeof y);
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
}
END_TEST

static void
count_task(void *user, const yoke_task_info *info)
{
    (void)info;
    *(int *)user += 1;
}

static yoke_replica *
replica(yoke_graph *g, bool training)
{
    const yoke_replica_options o = {.batch = BATCH, .evaluation_only = !training};

    return test_replica(&devices, g, &o);
}

START_TEST(replica_evaluates_what_was_given)
{
    yoke_graph *g = network(FAR, true);
    yoke_replica *r = replica(g, _i);
    double sum, count;
    int commands = 0;

    make_data(FAR);
    ASSERT_OK(yoke_replica_profile(r, BATCH, 1, count_task, &commands)); /* nothing was given */
    ck_assert_int_gt(commands, 1);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_evaluate(r, BATCH));
    ASSERT_DETAIL(
        "input \"x\" has 0 samples; must have at least 16; call yoke_replica_set_input before");
    ASSERT_OK(yoke_replica_set_input(r, BATCH, yoke_feed_f32("x", x, BATCH * WIDTH)));
    ASSERT_OK(yoke_replica_evaluate(r, BATCH));
    ASSERT_OK(yoke_replica_read_output(r, "y", y, BATCH * CLASSES));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_read_loss(r, &sum, &count));
    ck_assert_str_eq(yoke_last_error(),
                     "the loss: it was not computed, because yoke_replica_evaluate had no data for "
                     "the input \"label\"; give it with yoke_replica_set_input");
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_replica_read_metric(r, "picked", &sum, &count));
    ASSERT_DETAIL("picked: it was not computed");
    ASSERT_OK(yoke_replica_set_input(r, BATCH, yoke_feed_i32("label", labels, BATCH)));
    ASSERT_OK(yoke_replica_evaluate(r, BATCH));
    ASSERT_OK(yoke_replica_read_loss(r, &sum, &count));
    ck_assert_double_eq(count, BATCH);
    ASSERT_OK(yoke_replica_read_output(r, "y", again, BATCH * CLASSES));
    ck_assert_mem_eq(y, again, sizeof y);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* Before anything is given: integers in the range of those who read them, over all of it. */
START_TEST(inputs_begin_with_values_that_fit)
{
    enum { ROWS = 300 };
    static int32_t tokens[BATCH * 20];
    uint8_t classes[BATCH];
    bool seen[CLASSES] = {false};
    yoke_node *node, *label;
    yoke_replica *r;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    node = yoke_input(g, "tokens", YOKE_I32, yoke_shape(20));
    label = yoke_target(g, "label", YOKE_U8, yoke_shape());
    node = yoke_embedding(g, node, &(yoke_embedding_options){.rows = ROWS, .width = 2});
    node = yoke_dense(g, yoke_flatten(g, node), &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, node, label, NULL));
    r = replica(g, true);
    ASSERT_OK(yki_buffer_get(yki_plan_buffer(r->training, yoke_graph_get_node(g, "tokens")), 0,
                             sizeof tokens, tokens));
    ASSERT_OK(yki_buffer_get(yki_plan_buffer(r->training, label), 0, sizeof classes, classes));
    for (int i = 0; i < BATCH * 20; i++)
        ck_assert(tokens[i] >= 0 && tokens[i] < ROWS);
    for (int i = 0; i < BATCH; i++) {
        ck_assert_uint_lt(classes[i], CLASSES);
        seen[classes[i]] = true;
    }
    for (int i = 0; i < CLASSES; i++)
        ck_assert_msg(seen[i], "no label %d", i);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* A batch whose bytes fill no whole words: none is left that its reader could not take. */
START_TEST(bytes_are_valid_to_the_last)
{
    static const char far_source[] =
        "__kernel void far_forward(__global const float *x, __global const uchar *k,\n"
        "                          __global float *y, int n, int nx, int nk, int ny)\n"
        "{\n"
        "    for (int i = get_global_id(0); i < n; i += get_global_size(0))\n"
        "        y[i] = x[i * nx + (k[i] - 200L) * (1 << 28)];\n"
        "}\n";
    const yoke_range ranges[2] = {{0, 0}, {200, 201}};
    const yoke_replica_options o = {.batch = BATCH + 3, .evaluation_only = true};
    yoke_selection *selection;
    yoke_node *inputs[2];
    yoke_replica *r;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    inputs[0] = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    inputs[1] = yoke_input(g, "k", YOKE_U8, yoke_shape());
    yoke_graph_set_output(g, "y",
                          yoke_custom(g, inputs, 2,
                                      &(yoke_custom_options){.name = "far",
                                                             .source = far_source,
                                                             .shape = scalar,
                                                             .no_backward = true,
                                                             .ranges = ranges}));
    ASSERT_OK(yoke_selection_create(devices.context, devices.selector, NULL, &selection));
    ASSERT_OK(yoke_replica_create(yoke_selection_get(selection, 0), g, &o, &r));
    yoke_selection_destroy(selection);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

static void
digest(const yoke_graph *g, char hex[33])
{
    yki_hash hash;

    yki_graph_hash(g, &hash);
    yki_hash_hex(&hash, hex);
}

/* As JSON and back, and in the digest. */
START_TEST(ranges_are_part_of_the_graph)
{
    yoke_graph *g = network(FAR, true), *other = network(FAR, false), *back;
    char first[33], second[33], *text;

    digest(g, first);
    digest(other, second);
    ck_assert_str_ne(first, second);
    ASSERT_OK(yoke_graph_to_json(g, &text));
    ck_assert_ptr_nonnull(strstr(text, "\"ranges\": [[0, 0], [268435456, 268435461]]"));
    ASSERT_OK(yoke_graph_from_json(text, strlen(text), &back));
    digest(back, second);
    ck_assert_str_eq(first, second);
    ck_assert_int_eq(yoke_graph_get_node(back, "label")->low, FAR);
    ck_assert_int_eq(yoke_graph_get_node(back, "label")->limit, FAR + CLASSES);
    yoke_free(text);
    yoke_graph_destroy(back);
    yoke_graph_destroy(other);
    yoke_graph_destroy(g);
}
END_TEST

static void
refuse(yoke_type type, yoke_range range, int64_t rows, yoke_status status, const char *sentence)
{
    const yoke_custom_options options = {.name = "f", .source = "", .ranges = &range};
    yoke_node *input;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    input = yoke_input(g, "k", type, yoke_shape());
    if (rows)
        yoke_embedding(g, input, &(yoke_embedding_options){.rows = rows, .width = 1});
    ck_assert_ptr_null(yoke_custom(g, &input, 1, &options));
    ASSERT_STATUS(status, yoke_graph_status(g));
    ck_assert_str_eq(yoke_last_error(), sentence);
    yoke_graph_destroy(g);
}

START_TEST(ranges_that_cannot_be_are_named)
{
    refuse(YOKE_F32, (yoke_range){0, 5}, 0, YOKE_ERROR_TYPE,
           "f1: its input \"k\" has type f32; must be i32 or u8 to have a range");
    refuse(YOKE_I32, (yoke_range){5, 5}, 0, YOKE_ERROR_VALUE,
           "f1: the range of its input \"k\" is 5 to 5 - 1; must not be empty, and its values must "
           "be between -2147483648 and 2147483647");
    refuse(
        YOKE_U8, (yoke_range){0, 257}, 0, YOKE_ERROR_VALUE,
        "f1: the range of its input \"k\" is 0 to 257 - 1; must not be empty, and its values must "
        "be between 0 and 255");
    refuse(YOKE_I32, (yoke_range){7, 9}, 7, YOKE_ERROR_VALUE,
           "k: values must be between 0 and 6 for one operator and between 7 and 8 for another; "
           "no value is in both ranges");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("inputs");
    TCase *tcase = test_case(suite, "inputs");

    tcase_add_checked_fixture(tcase, find_devices, leave_devices);
    tcase_add_loop_test(tcase, loss_that_indexes_by_a_label_trains, 0, 2);
    tcase_add_test(tcase, prediction_runs_no_loss);
    tcase_add_loop_test(tcase, replica_evaluates_what_was_given, 0, 2);
    tcase_add_test(tcase, inputs_begin_with_values_that_fit);
    tcase_add_test(tcase, bytes_are_valid_to_the_last);
    tcase_add_test(tcase, ranges_are_part_of_the_graph);
    tcase_add_test(tcase, ranges_that_cannot_be_are_named);
    return suite;
}
