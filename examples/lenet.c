/* SPDX-License-Identifier: Apache-2.0
 *
 * lenet.c - two convolutions and two dense layers learn handwritten digits.
 *
 *   ./lenet [DIR]
 *
 * DIR has images and labels under their usual names (examples/data, say); without it the digits are
 * made up: blobs at ten places. What many processes need besides is in lenet_mpi.c, line by line.
 */
#include <stdio.h>
#include <string.h>

#include <yoke.h>

enum { COUNT = 400, SIDE = 12, CLASSES = 10 };

/* A bright blob whose place is the label, on noise. */
static yoke_status
make_up(yoke_dataset **data)
{
    static unsigned char images[COUNT][SIDE][SIDE];
    static int labels[COUNT];
    static yoke_field fields[2];
    unsigned state = 1;

    for (int i = 0; i < COUNT; i++) {
        labels[i] = i % CLASSES;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                bool bright = y / 6 == labels[i] / 5 && x / 2 == labels[i] % 5;

                state = state * 1664525u + 1013904223u;
                images[i][y][x] = (unsigned char)((state >> 24) / 3 + (bright ? 150 : 0));
            }
    }
    fields[0].name = "image";
    fields[0].type = YOKE_U8;
    fields[0].shape = yoke_shape(1, SIDE, SIDE);
    fields[0].data = images;
    fields[1].name = "label";
    fields[1].type = YOKE_I32;
    fields[1].data = labels;
    return yoke_dataset_create(COUNT, fields, 2, NULL, data);
}

static yoke_graph *
build(yoke_shape image)
{
    yoke_conv2d_options conv1 = {.filters = 20, .kernel = {3, 3}, .pad = {1, 1}, .name = "conv1"};
    yoke_conv2d_options conv2 = {.filters = 50, .kernel = {3, 3}, .pad = {1, 1}, .name = "conv2"};
    yoke_dense_options fc1 = {.units = 128, .name = "fc1"}, fc2 = {.units = CLASSES, .name = "fc2"};
    yoke_pool2d_options pool = {.kernel = {2, 2}};
    yoke_graph *g = NULL;
    yoke_node *x, *label;

    if (yoke_graph_create(&g))
        return NULL;
    x = yoke_input(g, "image", YOKE_F32, image);
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    x = yoke_maxpool2d(g, yoke_relu(g, yoke_conv2d(g, x, &conv1)), &pool);
    x = yoke_maxpool2d(g, yoke_relu(g, yoke_conv2d(g, x, &conv2)), &pool);
    x = yoke_relu(g, yoke_dense(g, yoke_flatten(g, x), &fc1));
    x = yoke_dense(g, x, &fc2);
    yoke_graph_set_output(g, "logits", x);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, label, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, x, label));
    return g; /* an error of any line is returned by what compiles the graph */
}

static bool
report(void *user, const yoke_epoch *e)
{
    (void)user;
    printf("epoch %d: loss %.4f, test accuracy %.1f %%\n", (int)e->epoch + 1, e->train->loss,
           100 * e->test->metrics[0]);
    return false; /* go on */
}

int
main(int argc, char **argv)
{
    yoke_trainer_options options = {.optimizer = yoke_sgd(0.05f, 0.9f), .batch = 40};
    yoke_fit_options fit = {.epochs = 4, .on_epoch = report};
    yoke_dataset *all = NULL, *train = NULL, *test = NULL;
    yoke_context *context = NULL;
    yoke_team *team = NULL;
    yoke_trainer *trainer = NULL;
    yoke_graph *graph = NULL;
    yoke_status status;

    status = argc > 1 ? yoke_dataset_open(argv[1], NULL, &all) : make_up(&all);
    if (!status)
        status = yoke_dataset_split(all, 0.2, 1, &train, &test);
    if (!status)
        graph = build(yoke_dataset_get_field(all, 0)->shape);
    if (!status)
        status = yoke_context_create(NULL, &context);
    if (!status)
        status = yoke_team_create(context, NULL, NULL, &team);
    if (!status)
        status = yoke_trainer_create(team, graph, &options, &trainer);
    if (!status)
        status = yoke_trainer_fit(trainer, train, test, &fit);
    if (status)
        fprintf(stderr, "%s\n", yoke_last_error());
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_graph_destroy(graph);
    yoke_dataset_destroy(test);
    yoke_dataset_destroy(train);
    yoke_dataset_destroy(all);
    return status != YOKE_OK;
}
