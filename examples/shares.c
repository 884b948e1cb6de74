/* SPDX-License-Identifier: Apache-2.0
 *
 * shares.c - devices of different speed train one model, and get shares that fit.
 *
 *   cc shares.c -o shares $(pkg-config --cflags --libs yoke)
 *   ./shares                  all devices, shares by measured speed
 *   ./shares gpu:0,cpu:0 80,20
 *
 * Whatever the shares are, the weights are those of one device: only the time differs.
 */
#include <stdio.h>

#include <yoke.h>

enum { BATCH = 120, STEPS = 60, WIDTH = 64, CLASSES = 4 };

/* (WIDTH) -> 256 -> (CLASSES) */
static void
build(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    yoke_node *label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    yoke_node *y = yoke_relu(g, yoke_dense(g, x, &(yoke_dense_options){.units = 256}));

    y = yoke_dense(g, y, &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
}

/* The class of a sample is which quarter of it is the brightest. */
static void
make_batch(unsigned *state, float *x, int *label)
{
    for (int i = 0; i < BATCH; i++) {
        label[i] = i % CLASSES;
        for (int j = 0; j < WIDTH; j++) {
            *state = *state * 1664525u + 1013904223u;
            x[i * WIDTH + j] = (float)(*state >> 8) / 16777216.0f;
            if (j / (WIDTH / CLASSES) == label[i])
                x[i * WIDTH + j] += 0.3f;
        }
    }
}

static void
print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static yoke_status
train(yoke_trainer *trainer)
{
    static float x[BATCH * WIDTH];
    static int label[BATCH];
    yoke_feed feeds[2] = {yoke_feed_f32("x", x, BATCH * WIDTH),
                          yoke_feed_i32("label", label, BATCH)};
    unsigned state = 1;

    for (int i = 0; i < STEPS; i++) {
        yoke_result result;
        bool last = i + 1 == STEPS;
        yoke_status status;

        make_batch(&state, x, label);
        /* Without a result the call returns at once, and devices work while we make the next. */
        status = yoke_trainer_step(trainer, BATCH, feeds, 2, last ? &result : NULL);
        if (status != YOKE_OK)
            return status;
        if (last)
            printf("loss %.4f after %d steps\n", result.loss, STEPS);
    }
    return yoke_trainer_explain(trainer, print_line, NULL);
}

int
main(int argc, char **argv)
{
    yoke_trainer_options options = {.optimizer = {.learning_rate = 0.05f}, .batch = BATCH};
    yoke_context *context = NULL;
    yoke_team *team = NULL;
    yoke_graph *graph = NULL;
    yoke_trainer *trainer = NULL;
    yoke_status status = yoke_context_create(NULL, &context);

    options.shares = argc > 2 ? argv[2] : NULL; /* NULL: "auto" */
    if (status == YOKE_OK)
        status = yoke_team_create(context, argc > 1 ? argv[1] : NULL, NULL, &team);
    if (status == YOKE_OK)
        status = yoke_graph_create(&graph);
    if (status == YOKE_OK) {
        build(graph);
        status = yoke_trainer_create(team, graph, &options, &trainer);
    }
    if (status == YOKE_OK)
        status = train(trainer);
    if (status != YOKE_OK)
        fprintf(stderr, "shares: %s\n", yoke_last_error());
    yoke_trainer_destroy(trainer);
    yoke_graph_destroy(graph);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    return status == YOKE_OK ? 0 : 1;
}
