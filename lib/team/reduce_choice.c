/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_choice.c - picks how gradients are exchanged between processes: by which of the
 * transport's reduction algorithms, and in buckets of which size.
 *
 * Idea: a transport may offer several reduction algorithms. Which one is fast depends on the
 * network, and on whether the processor that moves the bytes is also the device that computes.
 * So, when a trainer is made, each algorithm reduces a bucket of each size a few times, for less
 * than a second in all. All ranks take part; rank 0's times decide for all. Buckets have the same
 * boundaries everywhere because they follow from the graph and one number. The times are kept in
 * wisdom, by size, ranks and transport; they do not depend on the model.
 *
 * The cost of a model's gradients is taken to be the time of all buckets and of one more: the last
 * bucket is complete when backward ends, so backward cannot hide its exchange.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "team/stages.h"

enum { ALGORITHMS = 8, SIZES = 4, REPEATS = 3 };

static const uint64_t MB = 1u << 20, USUAL = 4u << 20;
static const double BUDGET = 0.8;  /* seconds of measuring */
static const double MARGIN = 0.95; /* another choice must cost less than this part of the usual */

/* All candidates and their costs. */
typedef struct choice {
    size_t algorithms, sizes;
    const char *names[ALGORITHMS];
    uint64_t bytes[SIZES];          /* of a bucket */
    uint64_t tried[SIZES];          /* of the reduction that is measured */
    double cost[SIZES][ALGORITHMS]; /* seconds; 0: unknown */
    uint64_t total;                 /* bytes of the model's gradients */
    size_t usual;                   /* index of the size that is taken if no other is better */
    yoke_comm *comm;
    yoke_device *device;
    yki_wisdom *wisdom; /* on rank 0 */
} choice;

/* ---- the candidates ---- */

static yoke_status
given_size(const yki_crew_options *options, uint64_t *bytes)
{
    const char *text = getenv("YOKE_BUCKET_BYTES");
    char *end;

    *bytes = options->bucket_bytes;
    if (!*bytes && options->granule) /* the order of the parts of a norm follows from it */
        *bytes = USUAL;
    if (*bytes || !text || !*text)
        return YOKE_OK;
    *bytes = strtoull(text, &end, 10);
    if (*end != '\0' || *bytes < 1024 || *bytes > (uint64_t)1 << 40)
        return yki_fail(YOKE_ERROR_VALUE,
                        "YOKE_BUCKET_BYTES is %.40s; must be a number from 1024 to 2^40", text);
    return YOKE_OK;
}

static void
list_sizes(choice *c, uint64_t given)
{
    uint64_t small = 4096;

    if (given) {
        c->bytes[0] = given;
        c->tried[0] = YKI_MIN(given, 8 * MB);
        c->sizes = 1;
        return;
    }
    while (small < c->total && small < MB)
        small *= 2;
    if (c->total <= MB) { /* all gradients in one bucket */
        c->bytes[0] = USUAL;
        c->tried[0] = small;
        c->sizes = 1;
        return;
    }
    for (uint64_t size = MB; c->sizes < SIZES && size / 2 < c->total; size *= 2) {
        if (size == USUAL)
            c->usual = c->sizes;
        c->bytes[c->sizes] = c->tried[c->sizes] = size;
        c->sizes++;
    }
}

static void
list_algorithms(choice *c)
{
    const char *name;

    while (c->algorithms < ALGORITHMS && c->comm->algorithm &&
           (name = c->comm->algorithm(c->comm, c->algorithms)) != NULL)
        c->names[c->algorithms++] = name;
    if (c->algorithms == 0)
        c->names[c->algorithms++] = "reduce";
}

/* ---- wisdom ---- */

static void
describe(const choice *c, size_t size, size_t algorithm, char *problem, char *solver, size_t room)
{
    snprintf(
        problem, room, "all-reduce %llu bytes | %s -> %d ranks", (unsigned long long)c->tried[size],
        c->comm->transport ? c->comm->transport : "a transport of the program's", c->comm->ranks);
    snprintf(solver, room, "travel-%s", c->names[algorithm]);
}

static bool
recall(choice *c)
{
    char problem[256], solver[256];
    bool all = true;

    for (size_t s = 0; s < c->sizes; s++)
        for (size_t a = 0; a < c->algorithms; a++) {
            describe(c, s, a, problem, solver, sizeof problem);
            all &= yki_wisdom_get(c->wisdom, c->device, problem, solver, 0, &c->cost[s][a]);
        }
    return all;
}

static void
keep(const choice *c)
{
    char problem[256], solver[256];
    yoke_status status = YOKE_OK;

    for (size_t s = 0; s < c->sizes; s++)
        for (size_t a = 0; a < c->algorithms; a++) {
            describe(c, s, a, problem, solver, sizeof problem);
            if (c->cost[s][a] > 0 && status == YOKE_OK)
                status = yki_wisdom_put(c->wisdom, c->device, problem, solver, 0, c->cost[s][a]);
        }
    if (status != YOKE_OK || yki_wisdom_save(c->wisdom) != YOKE_OK)
        yki_log(YOKE_LOG_DEBUG, "how fast gradients travel is not kept");
}

/* ---- measuring ---- */

static double
processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Times one reduction, in seconds. If the device is this processor, adds the processor time that
 * the reduction takes from it. */
static yoke_status
reduce_once(const choice *c, size_t size, size_t algorithm, const float *in, float *out,
            double *cost)
{
    double begin, busy;
    yoke_device_info info;
    void *request = NULL;
    bool done = false;

    YKI_TRY(yoke_device_get_info(c->device, &info));
    YKI_TRY(c->comm->barrier(c->comm));
    begin = yki_now();
    busy = processor_seconds();
    YKI_TRY(c->comm->allreduce_start(c->comm, YOKE_F32, in, out, c->tried[size] / 4, algorithm,
                                     &request));
    YKI_TRY(c->comm->test(c->comm, &request, true, &done));
    *cost = yki_now() - begin;
    if (info.type == YOKE_DEVICE_CPU)
        *cost += processor_seconds() - busy;
    return YOKE_OK;
}

/* Takes the best time of a few reductions, after one to warm up. */
static yoke_status
reduce_few(choice *c, size_t size, size_t algorithm, const float *in, float *out)
{
    double best = INFINITY, one;

    for (int i = 0; i <= REPEATS; i++) {
        YKI_TRY(reduce_once(c, size, algorithm, in, out, &one));
        if (i > 0)
            best = YKI_MIN(best, one);
    }
    c->cost[size][algorithm] = best;
    return YOKE_OK;
}

/* Measures one size if rank 0 finds that there is time for it. */
static yoke_status
measure_size(choice *c, size_t size, size_t algorithm, float *in, float *out, double end)
{
    uint8_t go = 1;

    if (size > 0) {
        double last = c->cost[size - 1][algorithm];

        go = last > 0 && yki_now() + 2 * (REPEATS + 1) * last < end;
    }
    YKI_TRY(c->comm->broadcast(c->comm, &go, 1, 0));
    return go ? reduce_few(c, size, algorithm, in, out) : YOKE_OK;
}

static yoke_status
measure_algorithm(choice *c, size_t algorithm, double end)
{
    uint64_t most = c->tried[c->sizes - 1];
    float *in = yki_comm_alloc(c->comm, most, algorithm, "a trial");
    float *out = yki_comm_alloc(c->comm, most, algorithm, "a trial");
    yoke_status status = YOKE_OK;

    if (!in || !out)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    else
        memset(in, 0, most);
    for (size_t s = 0; s < c->sizes && status == YOKE_OK; s++)
        status = measure_size(c, s, algorithm, in, out, end);
    yki_comm_release(c->comm, in);
    yki_comm_release(c->comm, out);
    return status;
}

static yoke_status
measure(choice *c)
{
    double begin = yki_now();

    for (size_t a = 0; a < c->algorithms; a++)
        YKI_TRY(measure_algorithm(c, a, begin + BUDGET * (double)(a + 1) / (double)c->algorithms));
    return YOKE_OK;
}

/* ---- choosing ---- */

/* The time of all buckets, and of the last one once more. */
static double
total_cost(const choice *c, size_t size, size_t algorithm)
{
    double one = c->cost[size][algorithm];
    uint64_t buckets = (c->total + c->bytes[size] - 1) / c->bytes[size];

    return one > 0 ? ((double)buckets + 1) * one : INFINITY;
}

static void
take_best(const choice *c, size_t *size, size_t *algorithm)
{
    double usual = total_cost(c, c->usual, 0), best = isfinite(usual) ? MARGIN * usual : usual;

    *size = c->usual;
    *algorithm = 0;
    for (size_t s = 0; s < c->sizes; s++)
        for (size_t a = 0; a < c->algorithms; a++)
            if (total_cost(c, s, a) < best) {
                best = total_cost(c, s, a);
                *size = s;
                *algorithm = a;
            }
}

static uint64_t
gradient_bytes(const yoke_graph *graph)
{
    uint64_t total = 0;

    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_PARAMETER)
            total += (uint64_t)yki_shape_count(graph->nodes[i]->shape) * 4;
    return total;
}

/* What rank 0 decided. */
typedef struct decision {
    uint64_t bytes, measure;
    uint64_t size, algorithm;
    uint64_t known; /* the time of the choice was measured, now or before, */
    double seconds; /* as this, of all buckets */
} decision;

static yoke_status
decide(yki_crew *crew, const yki_crew_options *options, choice *c)
{
    bool first = c->comm->rank == 0;
    decision d = {0};

    /* Rank 0's environment decides the size, and with it the list of sizes. */
    YKI_TRY(given_size(options, &d.bytes));
    YKI_TRY(c->comm->broadcast(c->comm, &d, sizeof d, 0));
    list_sizes(c, d.bytes);
    if (first && c->algorithms * c->sizes > 1)
        d.measure = !recall(c) && options->replica.level != YOKE_PLAN_ESTIMATE;
    YKI_TRY(c->comm->broadcast(c->comm, &d, sizeof d, 0));
    if (d.measure) {
        YKI_TRY(measure(c));
        if (first)
            keep(c);
    }
    if (first) {
        size_t size, algorithm;

        take_best(c, &size, &algorithm);
        d.size = size;
        d.algorithm = algorithm;
        d.known = c->cost[size][algorithm] > 0;
        d.seconds = d.known ? total_cost(c, size, algorithm) : 0;
    }
    YKI_TRY(c->comm->broadcast(c->comm, &d, sizeof d, 0));
    crew->buckets.algorithm = (size_t)d.algorithm;
    crew->buckets.limit = c->bytes[d.size];
    crew->buckets.seconds = d.seconds;
    snprintf(crew->buckets.text, sizeof crew->buckets.text, "buckets of up to %.2f MB, %s (%s)",
             (double)crew->buckets.limit / (double)MB, c->names[d.algorithm],
             d.measure ? "measured"
             : d.known ? "known from before"
                       : "as usual");
    return YOKE_OK;
}

yoke_status
yki_crew_choose_reduction(yki_crew *crew, const yki_crew_options *options)
{
    choice c = {.comm = crew->comm, .total = gradient_bytes(crew->graph)};
    yoke_status status = YOKE_OK;

    crew->buckets.limit = options->bucket_bytes;
    if (!crew->comm || crew->graph->place_count || options->stages)
        return YOKE_OK;
    c.device = yoke_team_get_device(crew->team, 0);
    list_algorithms(&c);
    if (c.comm->rank == 0)
        status = yki_open_wisdom(c.device, options->replica.wisdom, &c.wisdom);
    if (status == YOKE_OK)
        status = decide(crew, options, &c);
    yki_wisdom_close(c.wisdom);
    if (status == YOKE_OK && c.comm->rank == 0)
        yki_log(YOKE_LOG_INFO, "gradients travel in %s", crew->buckets.text);
    return status;
}
