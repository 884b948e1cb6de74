/* SPDX-License-Identifier: Apache-2.0
 *
 * first.c - a first network: points inside a circle are told from those outside.
 *
 *   cc first.c -o first $(pkg-config --cflags --libs yoke)
 *   ./first
 *   ./first cpu:0/2
 *
 * The network has two dense layers. The training loop is written out: give the
 * batch, go forward, go backward, update. The data are made up on the way.
 */
#include <stdio.h>

#include <yoke.h>

enum { BATCH = 256, STEPS = 500, HIDDEN = 32 };

/* (2) -> (HIDDEN) -> (2): how likely the point lies outside (0) or inside the circle (1). The
 * graph is for one sample, and keeps its first error: whoever compiles it gets to know. */
static void
build(yoke_graph *g)
{
    yoke_dense_options hidden = {.units = HIDDEN, .name = "hidden"};
    yoke_dense_options classes = {.units = 2, .name = "classes"};
    yoke_node *point = yoke_input(g, "point", YOKE_F32, yoke_shape(2));
    yoke_node *label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    yoke_node *y = yoke_dense(g, yoke_relu(g, yoke_dense(g, point, &hidden)), &classes);

    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, label));
}

/* Numbers in -1 .. 1; good enough for a demonstration. */
static float
next_number(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* point (BATCH, 2), label (BATCH) */
static void
make_batch(unsigned *state, float *point, int *label)
{
    for (int i = 0; i < BATCH; i++) {
        float x = next_number(state), y = next_number(state);

        point[2 * i] = x;
        point[2 * i + 1] = y;
        label[i] = x * x + y * y < 0.5f;
    }
}

/* Enqueues a step and returns: the device works while the next batch is made. */
static yoke_status
step(yoke_replica *r, const float *point, const int *label)
{
    yoke_status status = yoke_replica_set_input(r, BATCH, yoke_feed_f32("point", point, 2 * BATCH));

    if (status == YOKE_OK)
        status = yoke_replica_set_input(r, BATCH, yoke_feed_i32("label", label, BATCH));
    if (status == YOKE_OK)
        status = yoke_replica_forward(r, BATCH);
    if (status == YOKE_OK)
        status = yoke_replica_backward(r);
    if (status == YOKE_OK)
        status = yoke_replica_update(r, 1);
    return status;
}

/* Reading waits until the step is done. Both are sums with a count. */
static yoke_status
report(yoke_replica *r, int number)
{
    double loss, losses, right, points;
    yoke_status status = yoke_replica_read_loss(r, &loss, &losses);

    if (status == YOKE_OK)
        status = yoke_replica_read_metric(r, "accuracy", &right, &points);
    if (status == YOKE_OK)
        printf("step %3d  loss %.4f  accuracy %.1f %%\n", number, loss / losses,
               100 * right / points);
    return status;
}

static yoke_status
train(yoke_device *device, yoke_graph *g)
{
    static float point[2 * BATCH];
    static int label[BATCH];
    yoke_replica_options options = {.batch = BATCH, .optimizer = yoke_adam(0.02f)};
    yoke_replica *r = NULL;
    yoke_status status = yoke_replica_create(device, g, &options, &r);
    unsigned state = 1;

    for (int i = 0; i <= STEPS && status == YOKE_OK; i++) {
        make_batch(&state, point, label);
        status = step(r, point, label);
        if (status == YOKE_OK && i % 100 == 0)
            status = report(r, i);
    }
    yoke_replica_destroy(r);
    return status;
}

int
main(int argc, char **argv)
{
    yoke_context *context = NULL;
    yoke_selection *devices = NULL;
    yoke_graph *g = NULL;
    yoke_status status = yoke_context_create(NULL, &context);

    if (status == YOKE_OK) /* NULL: $YOKE_DEVICES, else all of them */
        status = yoke_selection_create(context, argc > 1 ? argv[1] : NULL, NULL, &devices);
    if (status == YOKE_OK)
        status = yoke_graph_create(&g);
    if (status == YOKE_OK) {
        build(g);
        status = train(yoke_selection_get(devices, 0), g);
    }
    if (status != YOKE_OK)
        fprintf(stderr, "first: %s: %s\n", yoke_status_string(status), yoke_last_error());
    yoke_graph_destroy(g);
    yoke_selection_destroy(devices);
    yoke_context_destroy(context);
    return status == YOKE_OK ? 0 : 1;
}
