/* SPDX-License-Identifier: Apache-2.0
 *
 * big.c - a model that fits neither of two devices: together they have room for it.
 *
 *   cc big.c -o big $(pkg-config --cflags --libs yoke)
 *   ./big                          on two parts of the first CPU, with 12 MiB each
 *   ./big gpu:0@1GiB,gpu:1@1GiB    on devices of your own
 *
 * Parts of one device share their weights unless own_weights is set. Here each part has its own,
 * and a quota, and so stands for a small GPU. yoke divides no more than it must, and tells what.
 */
#include <stdio.h>
#include <stdlib.h>

#include <yoke.h>

enum { WIDTH = 256, LAYERS = 16, CLASSES = 10, BATCH = 32, STEPS = 90 };

static void
need(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "big: %s\n", yoke_last_error());
    exit(1);
}

static yoke_graph *
make_network(void)
{
    const yoke_dense_options layer = {.units = WIDTH,
                                      .weight_init = {.kind = YOKE_INIT_KAIMING_NORMAL}};
    yoke_graph *g;
    yoke_node *x, *label;

    need(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    for (int i = 0; i < LAYERS; i++)
        x = yoke_relu(g, yoke_dense(g, x, &layer));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, label, NULL));
    return g;
}

/* Samples of a class have one number that is larger. */
static void
make_batch(float *x, int32_t *label)
{
    for (int i = 0; i < BATCH; i++) {
        label[i] = rand() % CLASSES;
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = (float)rand() / (float)RAND_MAX + (k == label[i] ? 3.0f : 0.0f);
    }
}

static void
say(void *user, const char *line)
{
    (void)user;
    puts(line);
}

/* Trains for some steps on these devices, which may divide what `shard` says. */
static yoke_status
train(yoke_context *context, const char *devices, yoke_shard_choice shard)
{
    const yoke_trainer_options options = {.optimizer = yoke_adam(0.0003f),
                                          .batch = BATCH,
                                          .shares = "even",
                                          .bucket_bytes = sizeof(float) * WIDTH * WIDTH,
                                          .shard = shard,
                                          .own_weights = true};
    static float x[BATCH * WIDTH];
    static int32_t label[BATCH];
    const yoke_feed feeds[] = {yoke_feed_f32("x", x, BATCH * WIDTH),
                               yoke_feed_i32("label", label, BATCH)};
    yoke_graph *g = make_network();
    yoke_trainer *trainer = NULL;
    yoke_result result;
    yoke_team *team;
    yoke_status status;

    need(yoke_team_create(context, devices, NULL, &team));
    status = yoke_trainer_create(team, g, &options, &trainer);
    if (status == YOKE_OK) {
        need(yoke_trainer_explain(trainer, say, NULL));
        for (int step = 0; step < STEPS; step++) {
            make_batch(x, label);
            need(yoke_trainer_step(trainer, BATCH, feeds, 2, &result));
            if (step % 30 == 29)
                printf("step %2d  loss %.3f\n", step + 1, result.loss);
        }
    }
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    return status;
}

int
main(int argc, char **argv)
{
    const char *devices = argc > 1 ? argv[1] : "cpu:0/2@12MiB";
    yoke_context *context;

    need(yoke_context_create(NULL, &context));
    if (train(context, devices, YOKE_SHARD_NOTHING) == YOKE_OK)
        printf("all of it fits each of these devices\n");
    else
        printf("whole on each device: %s\n", yoke_last_error());
    need(train(context, devices, YOKE_SHARD_AUTO));
    yoke_context_destroy(context);
    return 0;
}
