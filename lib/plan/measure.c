/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c - measures the ways to compute one task on one device, by running them.
 *
 * They run in turns. The first run compiles and does not count. The least time of one of them, and
 * the median of what the others take relative to it in the same round, count: other work on the
 * machine only adds to a time, and where it makes all slower for a while, relations stay. What
 * takes far longer than another has few rounds. Short runs are enqueued several at a time: the
 * host's wait for one would otherwise be most of the time, while a plan does not wait.
 */
#include <stdlib.h>

#include "plan/plan.h"

enum { FEW_ROUNDS = 3, ROUNDS = 11, MAX_REPEATS = 16 };
/* Seconds: runs that are shorter are repeated until they take so long. */
#define SHORT_RUN 3e-4
/* Seconds: after FEW_ROUNDS rounds, what took longer in all has no more of them, ... */
#define LONG_ROUNDS 0.1
/* ... nor has what takes so many times as long as the fastest. */
#define HOPELESS 1.3

typedef struct runner {
    yki_trial *trial;
    yki_runner *runner;
    int repeats; /* runs that are timed together */
    int rounds;
    double times[ROUNDS];
} runner;

typedef struct bench {
    yki_queue *queue;
    yki_buffer *operands[YKI_MAX_OPERANDS]; /* of all trials; large enough for each */
    yki_buffer *step;
    bool prepare;
    runner *runners; /* that are open */
    size_t count;
} bench;

/* Returns the bits that fill an operand. Floats are plain numbers, because denormals or NaN would
 * run at another speed. Integers are valid ones, because a kernel may use them as indices. */
static uint32_t
pattern_of(const yki_problem *problem, uint32_t index)
{
    uint32_t valid = index < problem->input_count ? (uint32_t)problem->valid[index] : 0;

    switch (yki_problem_operand(problem, index)->type) {
    case YOKE_F32:
        return 0x3f000000u;
    case YOKE_U8:
        return valid * 0x01010101u;
    case YOKE_I32:
        return valid;
    }
    return 0;
}

static yoke_status
make_operands(bench *b, const yki_trial *trials, size_t count)
{
    const yki_problem *problem = &trials[0].problem;
    yoke_device *device = yki_queue_device(b->queue);

    for (uint32_t i = 0; i < yki_problem_operands(problem); i++) {
        uint64_t size = 0;

        for (size_t t = 0; t < count; t++) {
            const yki_problem *p = &trials[t].problem;
            int64_t bytes = yki_expr_value(yki_operand_bytes(yki_problem_operand(p, i)), p->max);

            size = YKI_MAX(size, (uint64_t)bytes);
        }
        YKI_TRY(yki_buffer_create(device, size, 0, "an operand to measure with", &b->operands[i]));
        YKI_TRY(yki_queue_fill(b->queue, b->operands[i], 0, size, pattern_of(problem, i),
                               YKI_NO_WAIT, NULL));
    }
    YKI_TRY(yki_buffer_create(device, sizeof(yki_step_values), 0, "step values", &b->step));
    return yki_buffer_touch(b->queue, b->step);
}

/* Runs a trial `repeats` times. `prepare`: packs weights before each. */
static yoke_status
run(const bench *b, const runner *r, bool prepare, double *seconds)
{
    yki_extents extents = r->trial->problem.max;
    double start = yki_now();

    for (int i = 0; i < r->repeats; i++) {
        if (prepare)
            YKI_TRY(yki_runner_enqueue(r->runner, YKI_PHASE_PREPARE, extents, NULL));
        YKI_TRY(yki_runner_enqueue(r->runner, YKI_PHASE_RUN, extents, NULL));
    }
    YKI_TRY(yki_queue_finish(b->queue));
    *seconds = (yki_now() - start) / r->repeats;
    return YOKE_OK;
}

/* Makes the runner of a trial. The first run compiles; the second one says how long a run takes. */
static yoke_status
open_runner(bench *b, yki_trial *trial)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(b->queue));
    runner *r = &b->runners[b->count];
    yki_recipe recipe = {.status = YOKE_OK};
    yoke_status status =
        yki_solver_emit(trial->solver, &trial->problem, traits, trial->tuning, &recipe);
    double seconds = 0;

    *r = (runner){.trial = trial, .repeats = 1};
    if (status == YOKE_OK)
        status =
            yki_runner_create(b->queue, &trial->problem, &recipe, b->operands, b->step, &r->runner);
    yki_recipe_clear(&recipe);
    if (status == YOKE_OK)
        status = run(b, r, true, &seconds);
    if (status == YOKE_OK)
        status = run(b, r, b->prepare, &seconds);
    if (status != YOKE_OK) {
        yki_runner_destroy(r->runner);
        return status;
    }
    b->count++;
    while (seconds * r->repeats < SHORT_RUN && r->repeats < MAX_REPEATS)
        r->repeats *= 2;
    return YOKE_OK;
}

static void
close_runners(bench *b)
{
    while (b->count)
        yki_runner_destroy(b->runners[--b->count].runner);
}

static int
ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the median of a trial's times relative to those of another in the same rounds. */
static double
relative(const runner *r, const runner *other)
{
    double ratios[ROUNDS];
    int count = YKI_MIN(r->rounds, other->rounds);

    for (int k = 0; k < count; k++)
        ratios[k] = r->times[k] / other->times[k];
    qsort(ratios, (size_t)count, sizeof *ratios, ascending);
    return ratios[(count - 1) / 2];
}

/* Returns the trial that is fastest by the medians. */
static const runner *
fastest(const bench *b)
{
    const runner *found = &b->runners[0];

    for (size_t i = 1; i < b->count; i++)
        if (relative(&b->runners[i], found) < 1)
            found = &b->runners[i];
    return found;
}

/* Returns whether a trial that has run FEW_ROUNDS times needs no more rounds. */
static bool
is_done(const bench *b, const runner *r, const runner *best)
{
    double all = 0;

    for (int k = 0; k < r->rounds; k++)
        all += r->times[k] * r->repeats;
    return b->count == 1 || all > LONG_ROUNDS || relative(r, best) > HOPELESS;
}

static yoke_status
time_runners(bench *b)
{
    const runner *best = NULL;
    double least;

    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < b->count; i++) {
            runner *r = &b->runners[i];

            if (i == 0 && round == FEW_ROUNDS)
                best = fastest(b);
            if (best && (r->rounds < round || is_done(b, r, best)))
                continue;
            YKI_TRY(run(b, r, b->prepare, &r->times[r->rounds++]));
        }
    least = best->times[0];
    for (int k = 1; k < best->rounds; k++)
        least = YKI_MIN(least, best->times[k]);
    for (size_t i = 0; i < b->count; i++)
        b->runners[i].trial->seconds = least * relative(&b->runners[i], best);
    return YOKE_OK;
}

/* Measures as many trials together as memory allows; *done: their number, at least 1. */
static yoke_status
measure_some(bench *b, yki_trial *trials, size_t count, double deadline, size_t *done)
{
    yoke_status status = YOKE_OK;

    while (b->count < count && (b->count == 0 || yki_now() < deadline)) {
        status = open_runner(b, &trials[b->count]);
        if (status != YOKE_OK)
            break;
    }
    if (b->count > 0 && (status == YOKE_ERROR_QUOTA || status == YOKE_ERROR_OUT_OF_DEVICE_MEMORY))
        status = YOKE_OK;
    if (status == YOKE_OK)
        status = time_runners(b);
    *done = b->count;
    close_runners(b);
    return status;
}

yoke_status
yki_measure(yki_queue *queue, yki_trial *trials, size_t count, bool prepare, double deadline)
{
    bench b = {.queue = queue, .prepare = prepare};
    yoke_status status;

    b.runners = yki_alloc(count, sizeof *b.runners, "what is measured");
    if (!b.runners)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = make_operands(&b, trials, count);
    for (size_t t = 0, done; t < count && status == YOKE_OK; t += done) {
        if (t > 0 && yki_now() >= deadline)
            break;
        status = measure_some(&b, trials + t, count - t, deadline, &done);
    }
    for (size_t i = 0; i < YKI_COUNT(b.operands); i++)
        yki_buffer_destroy(b.operands[i]);
    yki_buffer_destroy(b.step);
    yki_free(b.runners);
    return status;
}
