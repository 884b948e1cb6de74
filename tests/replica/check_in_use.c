/* SPDX-License-Identifier: Apache-2.0
 *
 * check_in_use.c - a graph that a trainer or a replica was made of takes no change: each is
 * refused, and what was made of the graph goes on, and saves what can be loaded.
 */
#include <string.h>

#include "graph/graph.h"
#include "support/scratch.h"
#include "train/runs.h"

TESTS_SHARE_A_PROCESS

static test_devices devices;

static void
open_devices(void)
{
    scratch_set_up();
    ck_assert(team_find(TEST_AS_IS, &devices, NULL));
}

static void
close_devices(void)
{
    test_devices_close(&devices);
    scratch_tear_down();
}

/* ---- changes ---- */

static yoke_node *
output(yoke_graph *g)
{
    return yoke_graph_get_node(g, "dense2");
}

static yoke_node *
add_layer(yoke_graph *g)
{
    return yoke_dense(g, output(g), &(yoke_dense_options){.units = 2, .name = "late"});
}

static yoke_node *
add_convolution(yoke_graph *g)
{
    return yoke_conv2d(g, output(g), &(yoke_conv2d_options){.filters = 1});
}

static yoke_node *
add_norm(yoke_graph *g)
{
    return yoke_batch_norm(g, output(g), NULL);
}

static yoke_node *
add_operator(yoke_graph *g)
{
    return yoke_relu(g, output(g));
}

static yoke_node *
add_loss(yoke_graph *g)
{
    return yoke_softmax_cross_entropy(g, output(g), yoke_graph_get_node(g, "target"), NULL);
}

/* Wrong by itself, too. */
static yoke_node *
add_nonsense(yoke_graph *g)
{
    return yoke_reshape(g, output(g), yoke_shape(1000));
}

static yoke_node *
add_input(yoke_graph *g)
{
    return yoke_input(g, "late", YOKE_F32, yoke_shape(3));
}

static yoke_node *
add_target(yoke_graph *g)
{
    return yoke_target(g, "late", YOKE_I32, yoke_shape());
}

static yoke_node *
add_parameter(yoke_graph *g)
{
    return yoke_parameter(g, "late", yoke_shape(3), (yoke_initializer){YOKE_INIT_ZEROS, 0, 0, 0});
}

static yoke_node *
add_custom(yoke_graph *g)
{
    yoke_node *in = output(g);

    return yoke_custom(g, &in, 1, &(yoke_custom_options){.name = "late", .source = ""});
}

static yoke_node *
add_concat(yoke_graph *g)
{
    yoke_node *in[2] = {output(g), output(g)};

    return yoke_concat(g, in, 2, 0);
}

static yoke_node *
add_constant(yoke_graph *g)
{
    static const float value = 1;

    return yoke_constant(g, "late", yoke_shape(1), &value);
}

static yoke_node *
add_sequence(yoke_graph *g)
{
    return yoke_sequence(g, output(g));
}

static yoke_node *
set_loss(yoke_graph *g)
{
    yoke_graph_set_loss(g, g->loss);
    return NULL;
}

static yoke_node *
set_output(yoke_graph *g)
{
    yoke_graph_set_output(g, "late", output(g));
    return NULL;
}

static yoke_node *
add_metric(yoke_graph *g)
{
    yoke_graph_add_metric(g, "late", g->loss);
    return NULL;
}

static yoke_node *
set_place(yoke_graph *g)
{
    yoke_graph_set_place(g, "late");
    return NULL;
}

static yoke_node *(*const changes[])(yoke_graph *) = {
    add_layer,    add_convolution, add_norm,      add_operator, add_loss,   add_nonsense,
    add_input,    add_target,      add_parameter, add_custom,   add_concat, add_constant,
    add_sequence, set_loss,        set_output,    add_metric,   set_place,
};

static yoke_status
train(const team_run *run, yoke_graph *g, yoke_trainer **t)
{
    yoke_trainer_options o = team_options(run);
    yoke_team *team;
    yoke_status status;

    ASSERT_OK(yoke_team_create(devices.context, run->selector, NULL, &team));
    status = yoke_trainer_create(team, g, &o, t);
    yoke_team_destroy(team);
    return status;
}

static void
assert_refused(yoke_graph *g, yoke_node *(*change)(yoke_graph *))
{
    ck_assert_ptr_null(change(g));
    ASSERT_DETAIL("the graph is compiled for a trainer or a replica and cannot change any more");
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_graph_status(g));
    ASSERT_DETAIL("the graph is compiled for a trainer or a replica");
}

/* The trainer goes on: it trains, evaluates for the first time, saves; the file is read. */
START_TEST(a_change_is_refused_and_training_goes_on)
{
    team_run run = {.selector = devices.selector};
    const char *path = scratch_path("model.safetensors");
    yoke_graph *g = team_graph(run.net);
    yoke_trainer *t, *other;
    yoke_dataset *data;
    yoke_model *model;
    yoke_result result;
    size_t nodes;

    ASSERT_OK(train(&run, g, &t));
    nodes = g->node_count;
    assert_refused(g, changes[_i]);
    ck_assert_uint_eq(g->node_count, nodes);
    ASSERT_OK(team_step(&run, t, 0, &result));
    data = team_dataset(&run, 0, 24);
    ASSERT_OK(yoke_trainer_evaluate(t, data, &result));
    yoke_dataset_destroy(data);
    ASSERT_OK(yoke_trainer_freeze(t, "dense1.*"));
    ASSERT_OK(yoke_trainer_save(t, path));
    ASSERT_OK(yoke_model_load(path, &model));
    yoke_model_destroy(model);
    /* Whoever makes another one learns that the graph is not what was wanted. */
    ASSERT_STATUS(YOKE_ERROR_STATE, train(&run, g, &other));
    ASSERT_DETAIL("cannot change any more");
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
}
END_TEST

/* This returns the status, and makes no node. (So do adapters: check_lora.c.) */
START_TEST(weights_of_classes_are_refused_too)
{
    const team_run run = {.selector = devices.selector};
    const float weights[TEAM_CLASSES] = {1};
    yoke_graph *g = team_graph(TEAM_MLP);
    yoke_trainer *t;

    ASSERT_OK(train(&run, g, &t));
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_graph_weigh_loss(g, weights, TEAM_CLASSES, NULL));
    ASSERT_DETAIL("cannot change any more");
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_graph_smooth_labels(g, 0.1f));
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
}
END_TEST

/* Of a replica; what is frozen may change, for what is made later. */
START_TEST(a_replica_fixes_its_graph_too)
{
    const yoke_replica_options o = {.batch = 4};
    yoke_graph *g = team_graph(TEAM_MLP);
    yoke_replica *r = test_replica(&devices, g, &o);

    ASSERT_OK(yoke_graph_freeze(g, "dense1.*"));
    ASSERT_OK(yoke_graph_unfreeze(g, "dense1.*"));
    ASSERT_OK(yoke_graph_status(g));
    assert_refused(g, add_layer);
    ASSERT_OK(yoke_replica_save(r, scratch_path("replica.safetensors")));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* An output that is none of the user's nodes: its JSON would name a node that is not there. */
START_TEST(what_could_not_be_read_is_not_written)
{
    const yoke_replica_options o = {.batch = 4};
    yoke_graph *g = team_graph(TEAM_MLP);
    yoke_replica *r = test_replica(&devices, g, &o);
    char *text = NULL;

    g->outputs[0].node = g->loss_sum;
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_graph_to_json(g, &text));
    ASSERT_DETAIL("the graph cannot be written, as it could not be read again: outputs: there is "
                  "no node");
    ck_assert_ptr_null(text);
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_replica_save(r, scratch_path("replica.safetensors")));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("in_use");
    TCase *tcase = test_case(suite, "in_use");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_loop_test(tcase, a_change_is_refused_and_training_goes_on, 0,
                        (int)YKI_COUNT(changes));
    tcase_add_test(tcase, weights_of_classes_are_refused_too);
    tcase_add_test(tcase, a_replica_fixes_its_graph_too);
    tcase_add_test(tcase, what_could_not_be_read_is_not_written);
    return suite;
}
