/* SPDX-License-Identifier: Apache-2.0
 *
 * from_scratch.c - what a trainer does, written out: a replica of one network on
 * each device of a team, parts of a batch, gradients summed, the same update
 * everywhere.
 *
 *   cc from_scratch.c -o from_scratch $(pkg-config --cflags --libs yoke)
 *   ./from_scratch           every device
 *   ./from_scratch cpu:0/2   two halves of one
 */
#include <stdio.h>
#include <stdlib.h>

#include <yoke.h>

enum { BATCH = 64, STEPS = 40, MOST = 16, WIDTH = 3 };

static void
need(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "from_scratch: %s\n", yoke_last_error());
    exit(1);
}

/* [1 1] on one device and [2 2] on the next make [3 3] on both. */
static void
show_sum(yoke_team *team)
{
    size_t devices = yoke_team_local_count(team);
    yoke_array *arrays[MOST];
    float values[2];

    for (size_t k = 0; k < devices; k++) {
        values[0] = values[1] = (float)(k + 1);
        need(yoke_array_create(yoke_team_get_device(team, k), YOKE_F32, 2, &arrays[k]));
        need(yoke_array_write(arrays[k], values, 2));
    }
    need(yoke_team_allreduce(team, arrays, 1));
    for (size_t k = 0; k < devices; k++) {
        need(yoke_array_read(arrays[k], values, 2));
        printf("sum on device %zu: [%g %g]\n", k, (double)values[0], (double)values[1]);
        yoke_array_destroy(arrays[k]);
    }
}

/* Six rows of two, the first ones to the first device. */
static void
show_scatter(yoke_team *team)
{
    static const float rows[6][2] = {{0, 0}, {1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}};
    size_t devices = yoke_team_local_count(team);
    int64_t counts[MOST];
    yoke_array *arrays[MOST];
    float part[12];

    need(yoke_team_split(team, "even", 6, counts));
    for (size_t k = 0; k < devices; k++)
        need(yoke_array_create(yoke_team_get_device(team, k), YOKE_F32, 12, &arrays[k]));
    need(yoke_team_scatter(team, counts, 2, rows, arrays));
    for (size_t k = 0; k < devices; k++) {
        need(yoke_array_read(arrays[k], part, 12));
        printf("rows on device %zu:", k);
        for (int64_t i = 0; i < counts[k]; i++)
            printf(" [%g %g]", (double)part[2 * i], (double)part[2 * i + 1]);
        printf("\n");
        yoke_array_destroy(arrays[k]);
    }
}

/* y = w x + b, fitted to y = x1 - 2 x2 + 3 x3 + 0.5. */
static yoke_graph *
build(void)
{
    yoke_dense_options line = {.units = 1, .name = "line"};
    yoke_graph *g;
    yoke_node *x, *y;

    need(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    y = yoke_target(g, "y", YOKE_F32, yoke_shape(1));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, yoke_dense(g, x, &line), y, NULL));
    need(yoke_graph_status(g));
    return g;
}

static void
make_batch(float x[BATCH][WIDTH], float y[BATCH])
{
    static unsigned state = 1;

    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < WIDTH; k++) {
            state = state * 1664525u + 1013904223u;
            x[i][k] = (float)(state >> 8) / 8388608.0f - 1.0f;
        }
        y[i] = x[i][0] - 2 * x[i][1] + 3 * x[i][2] + 0.5f;
    }
}

/* The arrays that are summed: the loss and both gradients, of each replica. */
static void
collect(yoke_replica *const *replicas, size_t devices, yoke_array **arrays)
{
    for (size_t k = 0; k < devices; k++) {
        need(yoke_replica_get_loss(replicas[k], &arrays[k]));
        need(yoke_replica_get_gradient(replicas[k], "line.weight", &arrays[devices + k]));
        need(yoke_replica_get_gradient(replicas[k], "line.bias", &arrays[2 * devices + k]));
    }
}

static void
train(yoke_team *team, yoke_replica *const *replicas)
{
    size_t devices = yoke_team_local_count(team);
    yoke_array *arrays[3 * MOST];
    int64_t counts[MOST];
    float x[BATCH][WIDTH], y[BATCH];
    double sum, count;

    collect(replicas, devices, arrays);
    need(yoke_team_split(team, "even", BATCH, counts));
    for (int step = 1; step <= STEPS; step++) {
        int64_t first = 0;

        make_batch(x, y);
        for (size_t k = 0; k < devices; first += counts[k++]) {
            need(yoke_replica_set_input(replicas[k], counts[k],
                                        yoke_feed_f32("x", x[first], counts[k] * WIDTH)));
            need(yoke_replica_set_input(replicas[k], counts[k],
                                        yoke_feed_f32("y", y + first, counts[k])));
            need(yoke_replica_forward(replicas[k], counts[k]));
            need(yoke_replica_backward(replicas[k]));
        }
        need(yoke_team_allreduce(team, arrays, 3));
        need(yoke_replica_read_loss(replicas[0], &sum, &count));
        for (size_t k = 0; k < devices; k++)
            need(yoke_replica_update(replicas[k], 1));
        if (step % 10 == 0)
            printf("step %d: loss %.6f over %g samples\n", step, sum / count, count);
    }
}

int
main(int argc, char **argv)
{
    yoke_replica_options options = {.batch = BATCH, .optimizer = yoke_sgd(0.3f, 0)};
    yoke_replica *replicas[MOST];
    yoke_context *context;
    yoke_team *team;
    yoke_graph *graph;
    float weight[WIDTH];
    size_t devices;

    need(yoke_context_create(NULL, &context));
    need(yoke_team_create(context, argc > 1 ? argv[1] : NULL, NULL, &team));
    devices = yoke_team_local_count(team);
    if (devices > MOST)
        return 1;
    show_sum(team);
    show_scatter(team);
    graph = build();
    for (size_t k = 0; k < devices; k++) /* the same seed: the same initial values */
        need(yoke_replica_create(yoke_team_get_device(team, k), graph, &options, &replicas[k]));
    train(team, replicas);
    for (size_t k = 0; k < devices; k++) {
        need(yoke_replica_read(replicas[k], "line.weight", weight, WIDTH));
        printf("weights on device %zu: %.4f %.4f %.4f\n", k, (double)weight[0], (double)weight[1],
               (double)weight[2]);
        yoke_replica_destroy(replicas[k]);
    }
    yoke_graph_destroy(graph);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    return 0;
}
