/* SPDX-License-Identifier: Apache-2.0
 *
 * placement.c - one model over two devices: what each computes is said while the graph
 * is built, where it is computed when it is trained.
 *
 *   cc placement.c -o placement $(pkg-config --cflags --libs yoke)
 *   ./placement
 *   ./placement gpu:0,cpu:0
 *
 * Without an argument two halves of the first device do. First a matrix product
 * whose operands live on the two devices, then a network that is trained: its first
 * layers, with their parameters and all that the optimizer keeps of them, are in the
 * memory of the one device, the others in that of the other.
 */
#include <stdio.h>

#include <yoke.h>

enum { SIZE = 3, BATCH = 128, STEPS = 300, HIDDEN = 32 };

/* The first two devices of the team are "front" and "back". */
static yoke_status
bind_places(yoke_team *team)
{
    const char *const places[] = {"front", "back"};
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < 2 && status == YOKE_OK; i++) {
        yoke_device_info info;

        status = yoke_device_get_info(yoke_team_get_device(team, i), &info);
        if (status == YOKE_OK)
            status = yoke_team_bind_place(team, places[i], info.id);
        if (status == YOKE_OK)
            printf("%s: %s, %s\n", places[i], info.id, info.name);
    }
    return status;
}

/* c = a @ b: a lives in front, b and the product in the back, and a is brought there. A graph
 * without a loss needs neither inputs nor targets: it only predicts. */
static yoke_status
product(yoke_team *team)
{
    const float a[SIZE * SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const float b[SIZE * SIZE] = {1, 0, 2, 0, 1, 0, 0, 0, 1};
    const yoke_initializer zeros = {.kind = YOKE_INIT_ZEROS};
    float c[SIZE * SIZE];
    yoke_trainer *t = NULL;
    yoke_node *left, *right;
    yoke_graph *g;
    yoke_status status = yoke_graph_create(&g);

    if (status != YOKE_OK)
        return status;
    yoke_graph_set_place(g, "front");
    left = yoke_parameter(g, "a", yoke_shape(SIZE, SIZE), zeros);
    yoke_graph_set_place(g, "back");
    right = yoke_parameter(g, "b", yoke_shape(SIZE, SIZE), zeros);
    yoke_graph_set_output(g, "c", yoke_matmul(g, left, right, NULL));
    status = yoke_trainer_create(team, g, NULL, &t);
    if (status == YOKE_OK)
        status = yoke_trainer_write(t, "a", a, SIZE * SIZE);
    if (status == YOKE_OK)
        status = yoke_trainer_write(t, "b", b, SIZE * SIZE);
    if (status == YOKE_OK)
        status = yoke_trainer_predict(t, "c", 1, NULL, 0, c, SIZE * SIZE);
    for (int i = 0; i < SIZE && status == YOKE_OK; i++)
        printf("%4g %4g %4g\n", (double)c[SIZE * i], (double)c[SIZE * i + 1],
               (double)c[SIZE * i + 2]);
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
    return status;
}

/* Points inside a circle are told from those outside, as in first.c. */
static void
build(yoke_graph *g)
{
    yoke_dense_options wide = {.units = HIDDEN}, classes = {.units = 2};
    yoke_node *label = yoke_target(g, "label", YOKE_I32, yoke_shape()), *y;

    yoke_graph_set_place(g, "front");
    y = yoke_input(g, "point", YOKE_F32, yoke_shape(2));
    y = yoke_relu(g, yoke_dense(g, y, &wide));
    yoke_graph_set_place(g, "back");
    y = yoke_relu(g, yoke_dense(g, y, &wide));
    y = yoke_dense(g, y, &classes);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, label));
}

/* Points that cover the square evenly. */
static void
make_batch(int step, float *point, int32_t *label)
{
    for (int i = 0; i < BATCH; i++) {
        uint32_t k = (uint32_t)(step * BATCH + i);
        float x = (float)(k * 3242174889u >> 8) / 8388608.0f - 1;
        float y = (float)(k * 2447445414u >> 8) / 8388608.0f - 1;

        point[2 * i] = x;
        point[2 * i + 1] = y;
        label[i] = x * x + y * y < 0.5f;
    }
}

static yoke_status
train(yoke_team *team)
{
    static float point[2 * BATCH];
    static int32_t label[BATCH];
    const yoke_feed feeds[] = {yoke_feed_f32("point", point, 2 * BATCH),
                               yoke_feed_i32("label", label, BATCH)};
    const yoke_trainer_options options = {.optimizer = yoke_adam(0.01f), .batch = BATCH};
    yoke_trainer *t = NULL;
    yoke_graph *g;
    yoke_status status = yoke_graph_create(&g);

    if (status != YOKE_OK)
        return status;
    build(g);
    status = yoke_trainer_create(team, g, &options, &t);
    for (int i = 0; i <= STEPS && status == YOKE_OK; i++) {
        yoke_result result;

        make_batch(i, point, label);
        status = yoke_trainer_step(t, BATCH, feeds, 2, i % 100 ? NULL : &result);
        if (status == YOKE_OK && i % 100 == 0)
            printf("step %3d  loss %.4f  accuracy %.1f %%\n", i, result.loss,
                   100 * result.metrics[0]);
    }
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
    return status;
}

int
main(int argc, char **argv)
{
    yoke_context *context = NULL;
    yoke_team *team = NULL;
    yoke_status status = yoke_context_create(NULL, &context);

    if (status == YOKE_OK)
        status = yoke_team_create(context, argc > 1 ? argv[1] : "all/2", NULL, &team);
    if (status == YOKE_OK)
        status = bind_places(team);
    if (status == YOKE_OK)
        status = product(team);
    if (status == YOKE_OK)
        status = train(team);
    if (status != YOKE_OK)
        fprintf(stderr, "placement: %s: %s\n", yoke_status_string(status), yoke_last_error());
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    return status == YOKE_OK ? 0 : 1;
}
