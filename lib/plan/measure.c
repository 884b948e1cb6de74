/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c - measures the ways to compute one task on one device, by running them.
 *
 * They run in turns. The first run compiles and does not count. The least time of one of them, and
 * the median of what the others take relative to it in the same round, count: other work on the
 * machine only adds to a time, and where it makes all slower for a while, relations stay. What
 * takes far longer than another has few rounds, and what loses each of them has no more. Short runs
 * are enqueued several at a time: the host's wait for one would otherwise be most of the time,
 * while a plan does not wait. Devices that are not processors idle at a fraction of their clock, so
 * they work for a moment before anything is timed, and more runs are enqueued at a time, because
 * starting one takes longer.
 *
 * A trial that does not build, launch or fit is left out. Whether it was the trial or the device
 * that failed, a command that does next to nothing tells.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

enum { FEW_ROUNDS = 3, SOME_ROUNDS = 5, ROUNDS = 11 };

/* How runs are repeated: those that take less than `seconds` are, until they take so long, but at
 * most `most` times. */
typedef struct repeats {
    double seconds;
    int most;
} repeats;
static const repeats on_processors = {3e-4, 16}, on_others = {2e-3, 256};

/* Seconds for which a device that is no processor works before it is timed: at least, and at most
 * while it becomes faster by STEADY. */
#define WARM_LEAST 0.02
#define WARM_MOST  0.3
#define STEADY     0.03
/* Seconds: after FEW_ROUNDS rounds, what took longer in all has no more of them, ... */
#define LONG_ROUNDS 0.1
/* ... nor has what takes so many times as long as the fastest, ... */
#define HOPELESS 1.3
/* ... nor, after SOME_ROUNDS, what took so many times as long in each of them. After one round that
 * has what took so many times as long as the fastest in it, and before it. */
#define LOSES   1.03
#define FAR_OFF 2

typedef struct runner {
    yki_trial *trial;
    yki_runner *runner;
    int repeats; /* runs that are timed together */
    int rounds;
    bool open;     /* has another round */
    double before; /* seconds of a run before the rounds */
    double times[ROUNDS];
} runner;

typedef struct bench {
    yki_queue *queue;
    bool processor;
    repeats repeats;
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

/* With `only_integers`, floats keep what the memory has: they are for runs that are not timed. */
static yoke_status
make_operands(bench *b, const yki_trial *trials, size_t count, bool only_integers)
{
    const yki_problem *problem = &trials[0].problem;
    yoke_device *device = yki_queue_device(b->queue);

    for (uint32_t i = 0; i < yki_problem_operands(problem); i++) {
        uint64_t size = 0;

        for (size_t t = 0; t < count; t++) {
            const yki_problem *p = &trials[t].problem;
            yki_expr bytes = yki_operand_bytes(yki_problem_operand(p, i));

            size = YKI_MAX(size, (uint64_t)yki_expr_value(bytes, p->max));
        }
        YKI_TRY(yki_buffer_create(device, size, 0, "an operand to measure with", &b->operands[i]));
        if (only_integers && yki_problem_operand(problem, i)->type == YOKE_F32)
            continue;
        YKI_TRY(yki_queue_fill(b->queue, b->operands[i], 0, size, pattern_of(problem, i),
                               YKI_NO_WAIT, NULL));
    }
    YKI_TRY(yki_buffer_create(device, sizeof(yki_step_values), 0, "step values", &b->step));
    return yki_buffer_touch(b->queue, b->step);
}

static void
free_operands(bench *b)
{
    for (size_t i = 0; i < YKI_COUNT(b->operands); i++)
        yki_buffer_destroy(b->operands[i]);
    yki_buffer_destroy(b->step);
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

/* Sets how often a trial runs at a time, from the seconds of one run. */
static void
repeat(const bench *b, runner *r, double seconds)
{
    r->repeats = 1;
    while (seconds * r->repeats < b->repeats.seconds && r->repeats < b->repeats.most)
        r->repeats *= 2;
}

/* Writes the operands of a trial. A result that takes over the memory of an input wherever plans
 * use it does so here too. */
static void
place_operands(const bench *b, const yki_problem *problem, yki_buffer **operands)
{
    memcpy(operands, b->operands, sizeof b->operands);
    for (uint32_t k = 0; problem->op->measured_in_place && k < problem->input_count; k++)
        if (problem->op->in_place >> k & 1)
            operands[problem->input_count] = operands[k];
}

/* Makes the runner of a trial. The first run compiles; the second one says how long a run takes. */
static yoke_status
open_runner(bench *b, yki_trial *trial)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(b->queue));
    runner *r = &b->runners[b->count];
    yki_buffer *operands[YKI_MAX_OPERANDS];
    yki_recipe recipe = {.status = YOKE_OK};
    yoke_status status =
        yki_solver_emit(trial->solver, &trial->problem, traits, trial->tuning, &recipe);
    double seconds = 0;

    *r = (runner){.trial = trial, .repeats = 1, .open = true};
    place_operands(b, &trial->problem, operands);
    if (status == YOKE_OK)
        status =
            yki_runner_create(b->queue, &trial->problem, &recipe, operands, b->step, &r->runner);
    yki_recipe_clear(&recipe);
    if (status == YOKE_OK)
        status = run(b, r, true, &seconds);
    if (status == YOKE_OK)
        status = run(b, r, b->prepare, &seconds);
    repeat(b, r, seconds);
    /* One run alone was mostly the host's wait, where starting a kernel takes long. */
    if (status == YOKE_OK && !b->processor && r->repeats > 1) {
        status = run(b, r, b->prepare, &seconds);
        repeat(b, r, seconds);
    }
    r->before = seconds;
    if (status == YOKE_OK)
        b->count++;
    else
        yki_runner_destroy(r->runner);
    return status;
}

/* Finds out whether a trial failed, or its device. If it was the trial, it is marked. Returns the
 * error of a device that does nothing any more. */
static yoke_status
leave_out(const bench *b, yki_trial *trial, yoke_status why)
{
    const yoke_status harmless[] = {YOKE_ERROR_BUILD,
                                    YOKE_ERROR_DEVICE,
                                    YOKE_ERROR_UNSUPPORTED,
                                    YOKE_ERROR_OUT_OF_MEMORY,
                                    YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                                    YOKE_ERROR_QUOTA};
    char *detail = yki_strdup(yoke_last_error(), "an error");
    yoke_status status = why;

    for (size_t i = 0; i < YKI_COUNT(harmless); i++)
        if (why == harmless[i])
            status = YOKE_OK;
    if (status == YOKE_OK) {
        (void)yki_queue_finish(b->queue); /* returns what is known already */
        status = yki_buffer_touch(b->queue, b->step);
    }
    if (status == YOKE_OK)
        status = yki_queue_finish(b->queue);
    if (status == YOKE_OK) {
        trial->failed = why;
        yki_log(YOKE_LOG_INFO, "%s: %s is left out: %s", yki_device_id(yki_queue_device(b->queue)),
                trial->solver->name, detail ? detail : "");
        if (detail)
            yki_set_detail(detail);
    }
    yki_free(detail);
    return status;
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

/* Returns the trial that is fastest by the medians, of those that have run as often. */
static const runner *
fastest(const bench *b)
{
    const runner *found = NULL;

    for (size_t i = 0; i < b->count; i++)
        if (b->runners[i].open && (!found || relative(&b->runners[i], found) < 1))
            found = &b->runners[i];
    return found;
}

/* Returns whether a trial that has run FEW_ROUNDS times or more needs no more rounds. */
static bool
is_done(const runner *r, const runner *best)
{
    double all = 0;
    bool loses = r->rounds >= SOME_ROUNDS;

    for (int k = 0; k < r->rounds; k++) {
        all += r->times[k] * r->repeats;
        loses &= r->times[k] > LOSES * best->times[k];
    }
    return loses || all > LONG_ROUNDS || relative(r, best) > HOPELESS;
}

/* Marks the trials that need no round but the first. One that was the fastest in it stays open. */
static void
close_far_off(bench *b)
{
    const runner *best = &b->runners[0];

    for (size_t i = 1; i < b->count; i++)
        if (b->runners[i].times[0] < best->times[0])
            best = &b->runners[i];
    for (size_t i = 0; i < b->count; i++) {
        runner *r = &b->runners[i];

        r->open = r->times[0] <= FAR_OFF * best->times[0] || r->before <= FAR_OFF * best->before;
    }
}

/* Marks the trials that have another round, and the best one if there are any to compare with it.
 * Returns whether there are. */
static bool
choose_runners(bench *b, const runner *best)
{
    size_t open = 0;

    for (size_t i = 0; i < b->count; i++) {
        runner *r = &b->runners[i];

        r->open = r->open && r != best && !is_done(r, best);
        open += r->open;
    }
    b->runners[best - b->runners].open = open > 0;
    return open > 0;
}

/* Keeps a device at work until it is no longer becoming faster. */
static yoke_status
warm_up(const bench *b)
{
    double begin = yki_now(), before = 0, seconds = 0;
    bool steady = false;

    while (!steady) {
        double start = yki_now(), used = start - begin;

        if (used > WARM_MOST)
            break;
        YKI_TRY(run(b, &b->runners[0], b->prepare, &seconds));
        steady = used > WARM_LEAST && seconds > (1 - STEADY) * before;
        before = seconds;
    }
    return YOKE_OK;
}

static yoke_status
time_runners(bench *b)
{
    const runner *best = NULL;
    double least;

    if (!b->processor)
        YKI_TRY(warm_up(b));
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 1)
            close_far_off(b);
        if (round == FEW_ROUNDS)
            best = fastest(b);
        if (best && !choose_runners(b, best))
            break;
        for (size_t i = 0; i < b->count; i++) {
            runner *r = &b->runners[i];

            if (r->open)
                YKI_TRY(run(b, r, b->prepare, &r->times[r->rounds++]));
        }
    }
    least = best->times[0];
    for (int k = 1; k < best->rounds; k++)
        least = YKI_MIN(least, best->times[k]);
    for (size_t i = 0; i < b->count; i++) {
        const runner *r = &b->runners[i];

        /* Of one round alone, the best may have had bad luck in that. */
        r->trial->seconds =
            r->rounds == 1 ? YKI_MIN(r->before, r->times[0]) : least * relative(r, best);
    }
    return YOKE_OK;
}

/* Measures as many trials together as memory allows; *done: their number, at least 1. */
static yoke_status
measure_some(bench *b, yki_trial *trials, size_t count, double deadline, size_t *done)
{
    yoke_status status = YOKE_OK;

    for (*done = 0; *done < count && (b->count == 0 || yki_now() < deadline); ++*done) {
        status = open_runner(b, &trials[*done]);
        if (b->count > 0 && yki_lacks_memory(status)) { /* it may fit when these are closed */
            status = YOKE_OK;
            break;
        }
        if (status != YOKE_OK)
            status = leave_out(b, &trials[*done], status);
        if (status != YOKE_OK)
            break;
    }
    if (status == YOKE_OK && b->count > 0)
        status = time_runners(b);
    close_runners(b);
    return status;
}

yoke_status
yki_measure(yki_queue *queue, yki_trial *trials, size_t count, bool prepare, double deadline)
{
    bool processor = yki_device_get_traits(yki_queue_device(queue))->type == YOKE_DEVICE_CPU;
    bench b = {.queue = queue,
               .processor = processor,
               .repeats = processor ? on_processors : on_others,
               .prepare = prepare};
    yoke_status status;

    b.runners = yki_alloc(count, sizeof *b.runners, "what is measured");
    if (!b.runners)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = make_operands(&b, trials, count, false);
    for (size_t t = 0, done; t < count && status == YOKE_OK; t += done) {
        if (t > 0 && yki_now() >= deadline)
            break;
        status = measure_some(&b, trials + t, count - t, deadline, &done);
    }
    free_operands(&b);
    yki_free(b.runners);
    return status;
}

yoke_status
yki_run_once(yki_queue *queue, yki_trial *trial, bool prepare)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));
    yki_buffer *operands[YKI_MAX_OPERANDS];
    yki_extents one = trial->problem.max;
    bench b = {.queue = queue};
    yki_recipe recipe = {.status = YOKE_OK};
    yki_runner *made = NULL;
    yoke_status status =
        yki_solver_emit(trial->solver, &trial->problem, traits, trial->tuning, &recipe);

    one.batch = YKI_MIN(one.batch, 1);
    if (status == YOKE_OK)
        status = make_operands(&b, trial, 1, true);
    place_operands(&b, &trial->problem, operands);
    if (status == YOKE_OK)
        status = yki_runner_create(queue, &trial->problem, &recipe, operands, b.step, &made);
    yki_recipe_clear(&recipe);
    if (status == YOKE_OK && prepare)
        status = yki_runner_enqueue(made, YKI_PHASE_PREPARE, one, NULL);
    if (status == YOKE_OK)
        status = yki_runner_enqueue(made, YKI_PHASE_RUN, one, NULL);
    if (status == YOKE_OK)
        status = yki_queue_finish(queue);
    yki_runner_destroy(made);
    free_operands(&b);
    return status;
}
