/* SPDX-License-Identifier: Apache-2.0
 *
 * digits.c - from files to a trained network: handwritten digits, on every device
 * there is.
 *
 *   cc digits.c -o digits $(pkg-config --cflags --libs yoke)
 *   ./digits                   the digits in ./data, every device
 *   ./digits FOLDER            others, such as MNIST's files
 *   ./digits FOLDER cpu:0/2    two halves of one device
 *
 * Changes to the images happen on the device, anew in each epoch.
 */
#include <stdio.h>
#include <stdlib.h>

#include <yoke.h>

static void
need(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "digits: %s\n", yoke_last_error());
    exit(1);
}

static yoke_dataset *
open_part(const char *folder, yoke_data_part part)
{
    yoke_dataset_open_options options = {.part = part};
    yoke_dataset *dataset;

    need(yoke_dataset_open(folder, &options, &dataset));
    return dataset;
}

/* Two convolutions; `image` is the shape of a sample, (1, H, W). */
static yoke_graph *
network(yoke_shape image)
{
    yoke_conv2d_options conv1 = {.filters = 16, .kernel = {3, 3}, .pad = {1, 1}, .name = "conv1"};
    yoke_conv2d_options conv2 = {.filters = 32, .kernel = {3, 3}, .pad = {1, 1}, .name = "conv2"};
    yoke_pool2d_options half = {.kernel = {2, 2}};
    yoke_dense_options classes = {.units = 10, .name = "classes"};
    yoke_node *x, *label;
    yoke_graph *g;

    need(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_F32, image);
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    x = yoke_relu(g, yoke_conv2d(g, x, &conv1));
    x = yoke_maxpool2d(g, yoke_relu(g, yoke_conv2d(g, x, &conv2)), &half);
    x = yoke_dense(g, yoke_flatten(g, x), &classes);
    yoke_graph_set_output(g, "logits", x);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, label, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, x, label));
    return g;
}

static bool
show(void *user, const yoke_epoch *epoch)
{
    (void)user;
    printf("epoch %2d  loss %.4f  test accuracy %.1f %%  %.0f samples/s\n", (int)epoch->epoch + 1,
           epoch->train->loss, 100 * epoch->test->metrics[0], epoch->samples_per_second);
    return false;
}

int
main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "data";
    yoke_dataset *train = open_part(folder, YOKE_PART_TRAIN);
    yoke_dataset *test = open_part(folder, YOKE_PART_TEST);
    yoke_augmentation moved = {.shift = 1};
    yoke_trainer_options options = {.optimizer = yoke_adam(0.003f), .batch = 64};
    yoke_fit_options fit = {.epochs = 30, .on_epoch = show};
    yoke_context *context;
    yoke_trainer *trainer;
    yoke_team *team;
    yoke_graph *g;

    need(yoke_dataset_set_augmentation(train, &moved));
    need(yoke_context_create(NULL, &context));
    need(yoke_team_create(context, argc > 2 ? argv[2] : NULL, NULL, &team));
    g = network(yoke_dataset_get_field(train, 0)->shape);
    need(yoke_trainer_create(team, g, &options, &trainer));
    need(yoke_trainer_fit(trainer, train, test, &fit));

    yoke_trainer_destroy(trainer);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_dataset_destroy(train);
    yoke_dataset_destroy(test);
    return 0;
}
