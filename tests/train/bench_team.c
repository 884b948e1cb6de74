/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_team.c - what a team costs that one device does not pay, in one process and
 * interleaved, so that a busy machine disturbs both sides alike.
 *
 *   bench_team reduce MODEL BATCH SELECTOR    sums of gradients: bytes a second beside a
 *       copy by all devices at once, and how much longer a step is with them than without
 *   bench_team balance MODEL BATCH SELECTOR   steps with shares that follow the speed
 *       beside steps with the same shares given
 *   bench_team follow MODEL BATCH SELECTOR    under the fault layer: its second device
 *       becomes three times as slow and as fast again; how many steps until shares have
 *       followed
 *
 * Built with the tests and run by tests/train/bench.sh. Devices of one space only: where
 * gradients go through the host, other things are to be measured.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/models.h"
#include "faults/layer.h"
#include "train/bench.h"
#include "train/trainer.h"

enum { REPEATS = 15, MOST_ROUNDS = 400, MAX_DEVICES = 16, FOLLOW_STEPS = 40 };
static const double ROUNDS_SECONDS = 24, TURN_SECONDS = 0.05;

typedef struct side {
    yoke_trainer *trainer;
    double seconds[MOST_ROUNDS];
} side;

typedef struct bench {
    const yki_tool_model *model;
    int64_t batch;
    yoke_context *context;
    yoke_team *team;
    yoke_feed feeds[2];
} bench;

static yoke_trainer *
make_trainer(const bench *b, const char *shares)
{
    yoke_trainer_options o = {
        .batch = b->batch,
        .optimizer = b->model->optimizer(),
        .shares = shares,
        .core_groups = YOKE_CORE_GROUPS_NEVER}; /* the whole device is what teams are measured by */
    yoke_graph *graph;
    yoke_trainer *trainer;

    bench_must(yki_tool_build_model(b->model, &graph));
    bench_must(yoke_trainer_create(b->team, graph, &o, &trainer));
    yoke_graph_destroy(graph);
    return trainer;
}

/* Seconds a step takes, of `steps` queued ones that are waited for at the end. */
static double
run_steps(const bench *b, yoke_trainer *trainer, int steps)
{
    double begin = yki_now();

    for (int i = 0; i < steps; i++)
        bench_must(yoke_trainer_step(trainer, b->batch, b->feeds, 2, NULL));
    bench_must(yoke_trainer_wait(trainer));
    return (yki_now() - begin) / steps;
}

/* ---- reduce ---- */

/* Bytes a second that all devices together move in a copy of as much as the gradients have. */
static double
copy_rate(const bench *b, uint64_t size)
{
    yki_buffer *from[MAX_DEVICES], *to[MAX_DEVICES];
    yki_queue *queues[MAX_DEVICES];
    size_t count = yoke_team_local_count(b->team);
    double seconds[REPEATS];

    size = size / count & ~(uint64_t)4095;
    for (size_t k = 0; k < count; k++) {
        yoke_device *device = yoke_team_get_device(b->team, k);

        bench_must(yki_queue_create(device, false, &queues[k]));
        bench_must(yki_buffer_create(device, size, 0, "a copy's source", &from[k]));
        bench_must(yki_buffer_create(device, size, 0, "a copy", &to[k]));
        bench_must(yki_buffer_touch(queues[k], from[k]));
        bench_must(yki_buffer_touch(queues[k], to[k]));
    }
    for (int i = 0; i < REPEATS; i++) {
        double begin;

        for (size_t k = 0; k < count; k++)
            bench_must(yki_queue_finish(queues[k]));
        begin = yki_now();
        for (size_t k = 0; k < count; k++) {
            bench_must(yki_queue_copy(queues[k], from[k], 0, to[k], 0, size, YKI_NO_WAIT, NULL));
            bench_must(yki_queue_flush(queues[k]));
        }
        for (size_t k = 0; k < count; k++)
            bench_must(yki_queue_finish(queues[k]));
        seconds[i] = yki_now() - begin;
    }
    for (size_t k = 0; k < count; k++) {
        yki_buffer_destroy(from[k]);
        yki_buffer_destroy(to[k]);
        yki_queue_destroy(queues[k]);
    }
    return 2 * (double)size * (double)count / bench_median(seconds, REPEATS);
}

/* All buckets once more, with nothing else to do. */
static double
sum_seconds(yki_crew *crew)
{
    double seconds[REPEATS];

    for (int i = 0; i < REPEATS; i++) {
        double begin;

        bench_must(yki_crew_finish(crew));
        begin = yki_now();
        crew->buckets.next = 0;
        bench_must(yki_crew_reduce(crew, SIZE_MAX));
        bench_must(yki_crew_finish(crew));
        seconds[i] = yki_now() - begin;
    }
    return bench_median(seconds, REPEATS);
}

/* Takes the sums out of the step, or puts them back. */
static void
skip_sums(yki_crew *crew, bool skip, size_t *kept)
{
    for (size_t k = 0; k < crew->count; k++)
        for (size_t b = 0; b < crew->buckets.count; b++) {
            size_t *count = &crew->members[k].sums[b].count;

            if (skip)
                *kept++ = *count;
            *count = skip ? 0 : *kept++;
        }
}

static void
measure_reduce(const bench *b)
{
    side with = {.trainer = make_trainer(b, "even")}, without = with;
    yki_crew *crew = &with.trainer->crew;
    size_t *kept = yki_alloc(crew->count * crew->buckets.count, sizeof *kept, "sums"), rounds = 0;
    uint64_t bytes = 0;
    double summing, copying, step, lone, start;
    int steps;

    if (crew->through_host || crew->count < 2 || crew->count > MAX_DEVICES || !kept) {
        fprintf(stderr, "bench_team: 2 to %d devices of one space are needed\n", MAX_DEVICES);
        exit(77);
    }
    for (size_t i = 0; i < crew->buckets.count; i++)
        bytes += crew->members[0].replica->weights->buckets[i].size;
    run_steps(b, with.trainer, 3);
    steps = (int)(TURN_SECONDS / run_steps(b, with.trainer, 3)) + 1;
    for (start = yki_now(); rounds < MOST_ROUNDS && yki_now() - start < ROUNDS_SECONDS; rounds++) {
        with.seconds[rounds] = run_steps(b, with.trainer, steps);
        skip_sums(crew, true, kept);
        without.seconds[rounds] = run_steps(b, with.trainer, steps);
        skip_sums(crew, false, kept);
    }
    step = bench_median(with.seconds, rounds);
    lone = bench_median(without.seconds, rounds);
    summing = sum_seconds(crew);
    copying = copy_rate(b, bytes);
    printf("{\"model\": \"%s\", \"batch\": %lld, \"gradient_bytes\": %llu, \"sum_ms\": %.4f, "
           "\"sum_gbs\": %.2f, \"copy_gbs\": %.2f, \"of_copy\": %.3f, \"step_ms\": %.4f, "
           "\"step_ms_without\": %.4f, \"exposed\": %.4f}\n",
           b->model->name, (long long)b->batch, (unsigned long long)bytes, 1e3 * summing,
           1e-9 * (double)(bytes * (crew->count + 1)) / summing, 1e-9 * copying,
           (double)(bytes * (crew->count + 1)) / summing / copying, 1e3 * step, 1e3 * lone,
           step / lone - 1);
    yki_free(kept);
    yoke_trainer_destroy(with.trainer);
}

/* ---- balance ---- */

static void
measure_balance(const bench *b)
{
    static side following, given;
    double ratios[MOST_ROUNDS], start;
    int64_t counts[MAX_DEVICES];
    size_t devices = yoke_team_count(b->team), rounds = 0;
    char shares[32 * MAX_DEVICES] = "";
    int steps;

    following.trainer = make_trainer(b, "auto");
    run_steps(b, following.trainer, 20);
    bench_must(yoke_trainer_get_shares(following.trainer, counts, devices));
    for (size_t k = 0; k < devices; k++)
        snprintf(shares + strlen(shares), 32, "%s%lld", k ? "," : "", (long long)counts[k]);
    given.trainer = make_trainer(b, shares);
    run_steps(b, given.trainer, 3);
    steps = (int)(TURN_SECONDS / run_steps(b, given.trainer, 3)) + 1;
    /* Who goes first alternates. */
    for (start = yki_now(); rounds < MOST_ROUNDS && yki_now() - start < ROUNDS_SECONDS; rounds++) {
        side *first = rounds % 2 ? &given : &following, *second = rounds % 2 ? &following : &given;

        first->seconds[rounds] = run_steps(b, first->trainer, steps);
        second->seconds[rounds] = run_steps(b, second->trainer, steps);
        ratios[rounds] = following.seconds[rounds] / given.seconds[rounds];
    }
    printf("{\"model\": \"%s\", \"batch\": %lld, \"shares\": \"%s\", \"rounds\": %zu, "
           "\"step_ms\": %.4f, \"step_ms_given\": %.4f, \"cost\": %.4f}\n",
           b->model->name, (long long)b->batch, shares, rounds,
           1e3 * bench_median(following.seconds, rounds), 1e3 * bench_median(given.seconds, rounds),
           bench_median(ratios, rounds) - 1);
    yoke_trainer_destroy(following.trainer);
    yoke_trainer_destroy(given.trainer);
}

/* ---- follow ---- */

/* The layer that the loader has opened: the same library once more. */
static const fault_layer *
find_layer(void)
{
    const char *path = getenv("OPENCL_LAYERS");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    const fault_layer *(*get)(void) = NULL;

    if (library)
        *(void **)&get = dlsym(library, FAULT_LAYER_SYMBOL);
    if (!get) {
        fprintf(stderr, "bench_team: OPENCL_LAYERS names no fault layer\n");
        exit(77);
    }
    return get();
}

/* Steps until the second device's part of the batch is between these; -1: never. */
static int
steps_until(const bench *b, yoke_trainer *trainer, double low, double high)
{
    int64_t counts[MAX_DEVICES];

    for (int i = 0; i < FOLLOW_STEPS; i++) {
        double part;

        run_steps(b, trainer, 1);
        bench_must(yoke_trainer_get_shares(trainer, counts, yoke_team_count(b->team)));
        part = (double)counts[1] / (double)b->batch;
        if (part >= low && part <= high)
            return i;
    }
    return -1;
}

/* Shares of 3 : 1, and 1 : 1 again, each within a fifth of the slow one's. */
static void
measure_follow(const bench *b, const char *device)
{
    const fault_layer *layer = find_layer();
    yoke_trainer *trainer = make_trainer(b, "auto");
    int slow, recovered;

    if (yoke_team_local_count(b->team) != 2) {
        fprintf(stderr, "bench_team: two devices are needed\n");
        exit(77);
    }
    run_steps(b, trainer, FOLLOW_STEPS);
    if (!layer->slow(device, 3, 0, UINT64_MAX))
        exit(1);
    slow = steps_until(b, trainer, 0.2, 0.3);
    run_steps(b, trainer, FOLLOW_STEPS);
    layer->slow(device, 1, 0, UINT64_MAX);
    recovered = steps_until(b, trainer, 0.4, 0.6);
    printf("{\"model\": \"%s\", \"batch\": %lld, \"steps_to_slow\": %d, "
           "\"steps_to_recover\": %d}\n",
           b->model->name, (long long)b->batch, slow, recovered);
    yoke_trainer_destroy(trainer);
}

static void
make_data(bench *b)
{
    float *image =
        yki_alloc((size_t)b->batch * yki_tool_model_values(b->model), sizeof *image, "samples");
    int32_t *target = yki_alloc((size_t)b->batch, sizeof *target, "targets");

    if (!image || !target)
        exit(1);
    yki_tool_random_batch(b->model, b->batch, 1, image, target);
    yki_tool_batch_feeds(b->model, b->batch, image, target, b->feeds);
}

static const char *
second_device(const bench *b)
{
    yoke_device *device = yoke_team_get_device(b->team, 1);

    return device ? yki_device_id(device) : "?";
}

int
main(int argc, char **argv)
{
    bench b = {.model = argc == 5 ? yki_tool_find_model(argv[2]) : NULL,
               .batch = argc == 5 ? atoll(argv[3]) : 0};

    if (!b.model || b.batch < 1) {
        fprintf(stderr, "usage: bench_team reduce|balance|follow MODEL BATCH SELECTOR\n");
        return 2;
    }
    make_data(&b);
    bench_must(yoke_context_create(NULL, &b.context));
    bench_must(yoke_team_create(b.context, argv[4], NULL, &b.team));
    if (strcmp(argv[1], "reduce") == 0)
        measure_reduce(&b);
    else if (strcmp(argv[1], "follow") == 0)
        measure_follow(&b, second_device(&b));
    else
        measure_balance(&b);
    yoke_team_destroy(b.team);
    yoke_context_destroy(b.context);
    yki_free((void *)b.feeds[0].data);
    yki_free((void *)b.feeds[1].data);
    return 0;
}
