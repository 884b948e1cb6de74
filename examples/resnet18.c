/* SPDX-License-Identifier: Apache-2.0
 *
 * resnet18.c - ResNet-18 for small images, with PyTorch's names of parameters.
 *
 *   ./resnet18 [DIR [EPOCHS]]
 *
 * DIR has images and labels under their usual names (CIFAR-10's binary files, say); without it two
 * steps are made on images of 16x16 out of nothing, to see that it runs. All devices train
 * together; each has a share of a batch that follows its speed.
 */
#include <stdio.h>
#include <stdlib.h>

#include <yoke.h>

enum { MADE_UP = 16, SIDE = 16, CLASSES = 10 };

/* Stripes whose distance is the label. */
static yoke_status
make_up(yoke_dataset **data)
{
    static unsigned char images[MADE_UP][3][SIDE][SIDE];
    static int labels[MADE_UP];
    static yoke_field fields[2];

    for (int i = 0; i < MADE_UP; i++) {
        labels[i] = i % CLASSES;
        for (int j = 0; j < 3 * SIDE * SIDE; j++)
            (&images[i][0][0][0])[j] = (unsigned char)(j % (labels[i] + 2) ? 60 : 200);
    }
    fields[0].name = "image";
    fields[0].type = YOKE_U8;
    fields[0].shape = yoke_shape(3, SIDE, SIDE);
    fields[0].data = images;
    fields[1].name = "label";
    fields[1].type = YOKE_I32;
    fields[1].data = labels;
    return yoke_dataset_create(MADE_UP, fields, 2, NULL, data);
}

/* A convolution without a bias, and batch norm over the whole batch of the team. */
static yoke_node *
conv_norm(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride,
          const char *conv, const char *norm)
{
    yoke_conv2d_options c = {.filters = filters,
                             .kernel = {size, size},
                             .stride = {stride, stride},
                             .pad = {size / 2, size / 2},
                             .no_bias = true,
                             .name = conv};
    yoke_batch_norm_options n = {.name = norm};

    return yoke_batch_norm(g, yoke_conv2d(g, x, &c), &n);
}

static yoke_node *
block(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride, int layer, int number)
{
    static const char *const parts[] = {"conv1", "bn1",          "conv2",
                                        "bn2",   "downsample.0", "downsample.1"};
    yoke_node *y, *shortcut = x;
    char name[6][32];

    for (int i = 0; i < 6; i++)
        snprintf(name[i], sizeof name[i], "layer%d.%d.%s", layer, number, parts[i]);
    y = yoke_relu(g, conv_norm(g, x, filters, 3, stride, name[0], name[1]));
    y = conv_norm(g, y, filters, 3, 1, name[2], name[3]);
    if (stride != 1)
        shortcut = conv_norm(g, x, filters, 1, stride, name[4], name[5]);
    return yoke_relu(g, yoke_add(g, y, shortcut));
}

static yoke_graph *
build(yoke_shape image)
{
    yoke_dense_options fc = {.units = CLASSES, .name = "fc"};
    yoke_graph *g = NULL;
    yoke_node *x, *label;

    if (yoke_graph_create(&g))
        return NULL;
    x = yoke_input(g, "image", YOKE_F32, image);
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    x = yoke_relu(g, conv_norm(g, x, 64, 3, 1, "conv1", "bn1"));
    for (int i = 0; i < 8; i++)
        x = block(g, x, 64 << i / 2, i > 1 && i % 2 == 0 ? 2 : 1, i / 2 + 1, i % 2);
    x = yoke_dense(g, yoke_global_avgpool(g, x), &fc);
    yoke_graph_set_output(g, "logits", x);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, label, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, x, label));
    return g; /* an error of any line is returned by what compiles the graph */
}

static bool
report(void *user, const yoke_epoch *e)
{
    (void)user;
    printf("epoch %d: loss %.4f, accuracy %.1f %%, %.1f images/s\n", (int)e->epoch + 1,
           e->train->loss, 100 * e->train->metrics[0], e->samples_per_second);
    return false; /* go on */
}

int
main(int argc, char **argv)
{
    /* With data the planner measures; made-up images are not worth it. */
    yoke_trainer_options options = {.optimizer = yoke_sgd(0.05f, 0.9f),
                                    .batch = argc > 1 ? 128 : 8,
                                    .level = argc > 1 ? YOKE_PLAN_MEASURE : YOKE_PLAN_ESTIMATE};
    yoke_fit_options fit = {.epochs = argc > 2 ? atoi(argv[2]) : 1, .on_epoch = report};
    yoke_augmentation change = {.flip = true, .shift = 2};
    yoke_dataset *data = NULL;
    yoke_context *context = NULL;
    yoke_team *team = NULL;
    yoke_trainer *trainer = NULL;
    yoke_graph *graph = NULL;
    yoke_status status = argc > 1 ? yoke_dataset_open(argv[1], NULL, &data) : make_up(&data);

    if (!status)
        status = yoke_dataset_set_augmentation(data, &change);
    if (!status)
        graph = build(yoke_dataset_get_field(data, 0)->shape);
    if (!status)
        status = yoke_context_create(NULL, &context);
    if (!status)
        status = yoke_team_create(context, NULL, NULL, &team);
    if (!status)
        status = yoke_trainer_create(team, graph, &options, &trainer);
    if (!status)
        status = yoke_trainer_fit(trainer, data, NULL, &fit);
    if (status)
        fprintf(stderr, "%s\n", yoke_last_error());
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_graph_destroy(graph);
    yoke_dataset_destroy(data);
    return status != YOKE_OK;
}
