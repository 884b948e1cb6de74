/* SPDX-License-Identifier: Apache-2.0
 *
 * infer.c - a trained model answers from several threads, with no trainer around.
 *
 *   cc infer.c -o infer $(pkg-config --cflags --libs yoke) -pthread
 *   ./infer [SELECTOR]
 *
 * First a small network learns which of two numbers is the larger, and is saved; that
 * part would be another program. Then the file is loaded and two threads ask it.
 */
#include <pthread.h>
#include <stdio.h>

#include <yoke.h>

enum { BATCH = 128, STEPS = 300, THREADS = 2, ASKED = 4 };
static const char file[] = "infer.safetensors";

/* Any numbers in 0 .. 1. */
static float
number(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 16777216.0f;
}

static yoke_status
learn(yoke_trainer *trainer)
{
    static float pair[2 * BATCH];
    static int label[BATCH];
    yoke_feed feeds[2] = {yoke_feed_f32("pair", pair, 2 * BATCH),
                          yoke_feed_i32("label", label, BATCH)};
    yoke_status status = YOKE_OK;
    unsigned state = 1;

    for (int i = 0; i < STEPS && status == YOKE_OK; i++) {
        for (int j = 0; j < BATCH; j++) {
            pair[2 * j] = number(&state);
            pair[2 * j + 1] = number(&state);
            label[j] = pair[2 * j + 1] > pair[2 * j];
        }
        status = yoke_trainer_step(trainer, BATCH, feeds, 2, NULL);
    }
    return status == YOKE_OK ? yoke_trainer_save(trainer, file) : status;
}

static yoke_status
make_file(yoke_context *context, const char *selector)
{
    yoke_trainer_options options = {.optimizer = yoke_adam(0.02f), .batch = BATCH};
    yoke_team *team = NULL;
    yoke_graph *g = NULL;
    yoke_trainer *trainer = NULL;
    yoke_status status = yoke_team_create(context, selector, NULL, &team);

    if (status == YOKE_OK)
        status = yoke_graph_create(&g);
    if (status == YOKE_OK) {
        yoke_node *y = yoke_dense(g, yoke_input(g, "pair", YOKE_F32, yoke_shape(2)),
                                  &(yoke_dense_options){.units = 2});
        yoke_node *label = yoke_target(g, "label", YOKE_I32, yoke_shape());

        yoke_graph_set_output(g, "larger", y);
        yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
        status = yoke_trainer_create(team, g, &options, &trainer);
    }
    if (status == YOKE_OK)
        status = learn(trainer);
    yoke_trainer_destroy(trainer);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return status;
}

/* One for each thread; they share the weights. */
typedef struct asker {
    yoke_predictor *predictor;
    float pair[2 * ASKED], answer[2 * ASKED];
    yoke_status status;
} asker;

static void *
ask(void *argument)
{
    asker *a = argument;

    a->status = yoke_predictor_run(a->predictor, ASKED, yoke_feed_f32("pair", a->pair, 2 * ASKED),
                                   a->answer, 2 * ASKED);
    if (a->status != YOKE_OK) /* the sentence belongs to the thread */
        fprintf(stderr, "infer: %s\n", yoke_last_error());
    return NULL;
}

static yoke_status
use_file(yoke_context *context, const char *selector)
{
    asker askers[THREADS] = {{0}};
    pthread_t threads[THREADS];
    yoke_model *model = NULL;
    yoke_status status = yoke_model_load(file, &model);
    unsigned state = 77;
    int started = 0;

    for (int i = 0; i < THREADS && status == YOKE_OK; i++) {
        status = yoke_predictor_create(context, selector, model, NULL, &askers[i].predictor);
        for (int j = 0; j < 2 * ASKED; j++)
            askers[i].pair[j] = number(&state);
    }
    while (started < THREADS && status == YOKE_OK &&
           pthread_create(&threads[started], NULL, ask, &askers[started]) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        status = askers[i].status != YOKE_OK ? askers[i].status : status;
        for (int j = 0; j < ASKED && status == YOKE_OK; j++)
            printf("%.3f and %.3f: the second is larger with probability %.3f\n",
                   askers[i].pair[2 * j], askers[i].pair[2 * j + 1], askers[i].answer[2 * j + 1]);
    }
    for (int i = 0; i < THREADS; i++)
        yoke_predictor_destroy(askers[i].predictor);
    yoke_model_destroy(model);
    return status;
}

int
main(int argc, char **argv)
{
    const char *selector = argc > 1 ? argv[1] : NULL;
    yoke_context *context = NULL;
    yoke_status status = yoke_context_create(NULL, &context);

    if (status == YOKE_OK)
        status = make_file(context, selector);
    if (status == YOKE_OK)
        status = use_file(context, selector);
    if (status != YOKE_OK)
        fprintf(stderr, "infer: %s\n", yoke_last_error());
    yoke_context_destroy(context);
    remove(file);
    return status == YOKE_OK ? 0 : 1;
}
