/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_data.c - how long a step waits for its samples, on an idle machine:
 *
 *   bench_data MODEL BATCH SELECTOR PART WORK
 *
 * Three trainers take turns: one whose samples stay on the devices, and two that ask a function for
 * them, which takes PART of the time of a step for a batch; it is called ahead by a thread, or
 * by the caller when samples are wanted. WORK says how it spends its time: "sleep", as who
 * waits for a disk, or "compute", as who decodes. What a step takes longer than where
 * the samples stay is what it waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tools/models.h"
#include "train/bench.h"
#include "train/trainer.h"

enum { WAYS = 3, ROUNDS = 7, STEPS = 24, FIRST = 4 /* that fill the pipeline */, SAMPLES = 64 };

static const char *const names[WAYS] = {"resident", "ahead", "not_ahead"};

typedef struct source {
    const unsigned char *image;
    const int32_t *label;
    size_t size;
    double pause; /* seconds a sample takes */
    double owed;  /* of them, not yet spent: no sleep is shorter than some time */
    bool computes;
} source;

typedef struct side {
    yoke_trainer *trainer;
    yoke_dataset *data;
    source source;
    double begun[STEPS];
    int steps;
    double seconds[ROUNDS];
} side;

static void
spend(source *s)
{
    double begin = yki_now();

    if (s->owed < 1e-3)
        return;
    if (!s->computes)
        nanosleep(&(struct timespec){0, (long)(s->owed * 1e9)}, NULL);
    while (s->computes && yki_now() < begin + s->owed)
        ;
    s->owed -= yki_now() - begin;
}

static yoke_status
fill(void *user, int64_t index, size_t field, void *out)
{
    source *s = user;

    if (field == 1) {
        *(int32_t *)out = s->label[index % SAMPLES];
        return YOKE_OK;
    }
    memcpy(out, s->image + (size_t)(index % SAMPLES) * s->size, s->size);
    s->owed += s->pause;
    spend(s);
    return YOKE_OK;
}

/* So many samples that they stay on the device, or do not. */
static yoke_dataset *
make_dataset(const yoke_graph *graph, source *s, int64_t count, bool ahead)
{
    yoke_field fields[2] = {{"image", YOKE_F32, yoke_shape(), NULL, 0},
                            {"label", YOKE_I32, yoke_shape(), NULL, 0}};
    yoke_dataset *data;

    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_INPUT && strcmp(graph->nodes[i]->name, "image") == 0)
            fields[0].shape = graph->nodes[i]->shape;
    bench_must(yoke_dataset_create(
        count, fields, 2, &(yoke_dataset_options){.fill = fill, .user = s, .no_ahead = !ahead},
        &data));
    return data;
}

static bool
note_step(void *user, const yoke_result *result)
{
    side *s = user;

    (void)result;
    if (s->steps < STEPS)
        s->begun[s->steps++] = yki_now();
    return s->steps == STEPS;
}

/* Seconds of a step. */
static double
run(side *s)
{
    yoke_fit_options o = {.on_step = note_step, .user = s};
    double steps[STEPS];

    s->steps = 0;
    s->source.owed = 0;
    bench_must(yoke_trainer_fit(s->trainer, s->data, NULL, &o));
    for (int i = FIRST; i < STEPS; i++)
        steps[i] = s->begun[i] - s->begun[i - 1];
    return bench_median(steps + FIRST, STEPS - FIRST);
}

int
main(int argc, char **argv)
{
    const yki_tool_model *model = argc == 6 ? yki_tool_find_model(argv[1]) : NULL;
    yoke_trainer_options o = {.batch = argc == 6 ? atoll(argv[2]) : 0, .shares = "even"};
    double part = argc == 6 ? atof(argv[4]) : 0, pause;
    static side sides[WAYS];
    yoke_context *context;
    yoke_graph *graph;
    yoke_team *team;
    float *image;
    int32_t label[SAMPLES];
    size_t values;

    if (!model || !model->classes || o.batch < 1 || part <= 0) {
        fprintf(stderr, "usage: bench_data MODEL BATCH SELECTOR PART sleep|compute\n");
        return 2;
    }
    o.optimizer = model->optimizer();
    values = yki_tool_model_values(model);
    if (!(image = yki_alloc(SAMPLES * values, sizeof *image, "samples")))
        return 1;
    yki_tool_random_batch(model, SAMPLES, 1, image, label);
    bench_must(yoke_context_create(NULL, &context));
    bench_must(yoke_team_create(context, argv[3], NULL, &team));
    bench_must(yki_tool_build_model(model, &graph));
    for (int w = 0; w < WAYS; w++) {
        uint64_t memory = yki_device_get_traits(yoke_team_get_device(team, 0))->memory;
        int64_t many = (int64_t)(memory / 4 / (values * sizeof *image)) + 1;

        sides[w].source = (source){.image = (unsigned char *)image,
                                   .label = label,
                                   .size = values * sizeof *image,
                                   .computes = strcmp(argv[5], "compute") == 0};
        bench_must(yoke_trainer_create(team, graph, &o, &sides[w].trainer));
        sides[w].data =
            make_dataset(graph, &sides[w].source, w ? many : (STEPS + 4) * o.batch, w == 1);
        (void)run(&sides[w]);
    }
    pause = part * run(&sides[0]) / (double)o.batch;
    for (int w = 1; w < WAYS; w++)
        sides[w].source.pause = pause;
    for (int r = 0; r < ROUNDS; r++)
        for (int w = 0; w < WAYS; w++)
            sides[w].seconds[r] = run(&sides[w]);
    printf("{\"model\": \"%s\", \"batch\": %lld, \"devices\": \"%s\", \"work\": \"%s\", "
           "\"reading_ms\": %.3f",
           model->name, (long long)o.batch, argv[3], argv[5], pause * (double)o.batch * 1e3);
    for (int w = 0; w < WAYS; w++)
        printf(", \"%s_ms\": %.3f", names[w], bench_median(sides[w].seconds, ROUNDS) * 1e3);
    printf("}\n");
    for (int w = 0; w < WAYS; w++) {
        yoke_trainer_destroy(sides[w].trainer);
        yoke_dataset_destroy(sides[w].data);
    }
    yoke_graph_destroy(graph);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yki_free(image);
    return 0;
}
