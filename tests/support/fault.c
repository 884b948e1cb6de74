/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c - finds the fault layer, and the loops over points of failure.
 *
 * A loop runs in a forked process that tells its position through shared memory.
 * When that process dies the parent writes down where, and starts another behind
 * that point; so one crash does not hide the next.
 *
 * Most points are reached in the same way as others, from the same place through the same callers.
 * Of those with the same way the first and the last fail; with YOKE_TEST_THOROUGH=1 all do.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "device/device.h"
#include "support/fault.h"
#include "support/support.h"

enum { MOST_WAYS = 4096, MOST_CALLERS = 7 };
enum { DEFAULT_SECONDS = 120, MAX_PROBLEMS = 12, PROBLEM_SIZE = 600, TRIES = 4 };
/* LeakSanitizer goes through all memory, which takes longer than a point: it is asked after so many
 * (what is lost stays lost). With YOKE_TEST_THOROUGH=1 it is asked after each. */
enum { POINTS_A_LOOK = 8 };

/* LeakSanitizer's, where the program is built with it. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

/* ---- the layer ---- */

static void
layer_path(char *path, size_t size)
{
    const char *build = getenv("YOKE_BUILDDIR");

    snprintf(path, size, "%s/tests/faults/.libs/faultlayer.so", build && *build ? build : ".");
}

static const fault_layer *
open_layer(void)
{
    static const fault_layer *layer;
    const fault_layer *(*get)(void);
    char path[4096];
    void *module, *symbol;

    if (layer)
        return layer;
    layer_path(path, sizeof path);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = module ? dlsym(module, FAULT_LAYER_SYMBOL) : NULL;
    if (!symbol)
        return NULL;
    memcpy(&get, &symbol, sizeof get);
    setenv("OPENCL_LAYERS", path, 1);
    layer = get();
    return layer;
}

const fault_layer *
fault_open(void)
{
    const fault_layer *layer = open_layer();
    const char *why = layer ? NULL : dlerror();

    ck_assert_msg(layer != NULL, "no fault layer: %s", why ? why : "no " FAULT_LAYER_SYMBOL);
    return layer;
}

/* Whether the loader takes the layer. Any first call tells; the loader is asked, and not the
 * library, which is under test. */
static bool
layer_works(void)
{
    const fault_layer *layer = open_layer();
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = loader ? dlsym(loader, "clGetPlatformIDs") : NULL;
    int (*get_platforms)(unsigned, void *, unsigned *);
    unsigned count = 0;

    if (!layer || !symbol)
        return false;
    memcpy(&get_platforms, &symbol, sizeof symbol);
    return get_platforms(0, NULL, &count) == 0 && count > 0 && layer->active();
}

void
fault_require(void)
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(layer_works() ? EXIT_SUCCESS : EXIT_FAILURE);
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == EXIT_SUCCESS)
        return;
    puts("1..0 # SKIP the OpenCL loader loads no layers, or there is no shared fault layer");
    exit(EXIT_SUCCESS);
}

/* The library keeps sub-devices longer than their last command needs (space.c). A busy machine may
 * hold a driver's thread up for long. */
static void
release_kept_parts(void)
{
    usleep(100000);
    yki_release_kept_parts();
}

void
fault_assert_nothing_alive(const char *when)
{
    char text[PROBLEM_SIZE];
    const fault_layer *layer = fault_open();

    release_kept_parts();
    ck_assert_msg(layer->describe(text, sizeof text, true) == 0, "%s: alive: %s", when, text);
    ck_assert_msg(layer->overreleased() == 0, "%s: released what was not alive", when);
}

bool
fault_checks_leaks(void)
{
    return __lsan_do_recoverable_leak_check != NULL;
}

/* What is lost stays lost. A thread of a driver that holds the only pointer to something for a
 * moment, while it is stopped to be looked at, has lost nothing. */
static bool
has_leaks(void)
{
    bool leaks = false;

    for (int i = 0; i < TRIES; i++) {
        leaks = __lsan_do_recoverable_leak_check() != 0;
        if (!leaks)
            break;
        usleep(100000);
    }
    return leaks;
}

bool
fault_assert_no_leak(const char *when)
{
    if (!__lsan_do_recoverable_leak_check)
        return false;
    ck_assert_msg(!has_leaks(), "%s: leaked memory (see stderr)", when);
    return true;
}

bool
fault_device_name(yoke_device *device, char *name, size_t size)
{
    yoke_device_info info;
    const char *part;
    int wrote;

    if (yoke_device_get_info(device, &info) != YOKE_OK || info.virtual_kind == YOKE_VIRTUAL_SLICE)
        return false;
    part = info.virtual_kind == YOKE_VIRTUAL_NONE ? "" : strchr(info.id, '/');
    wrote = snprintf(name, size, "name~%s%s", info.name, part ? part : "");
    return wrote > 0 && (size_t)wrote < size;
}

/* ---- the loops ---- */

typedef struct report {
    uint64_t n;    /* the point being tried */
    bool retrying; /* ... and passed, now without a fault */
    bool done;     /* the scenario passed untouched */
    char call[FAULT_NAME_SIZE];
    fault_counts counts;
    bool again;                 /* the point has told nothing */
    bool looked_around;         /* `ways` is filled in */
    atomic_uint_fast64_t met;   /* points of a run without faults */
    uint64_t ways[MOST_WAYS];   /* a hash of the callers of each */
    bool looking;               /* for leaks */
    uint64_t not_looked, since; /* points whose leaks nobody looked for yet, the first of them */
    int deaths;                 /* of workers that looked, one after the other */
    int problems;
    char problem[MAX_PROBLEMS][PROBLEM_SIZE];
} report;

typedef struct loop {
    const fault_scenario *scenario;
    bool allocations; /* instead of calls */
    int code;
    bool sticky;
    const fault_layer *layer;
    report *report; /* shared with the worker */
    uint64_t step;  /* from one point to the next */
} loop;

static void problem(const loop *l, const char *format, ...) YKI_PRINTF(2, 3);
static void
problem(const loop *l, const char *format, ...)
{
    report *r = l->report;
    va_list args;
    int used;

    if (r->problems < MAX_PROBLEMS) {
        char *text = r->problem[r->problems];

        used = l->allocations
                   ? snprintf(text, PROBLEM_SIZE, "allocation %llu: ", (unsigned long long)r->n)
                   : snprintf(text, PROBLEM_SIZE,
                              "cl call %llu (%s) with %d%s: ", (unsigned long long)r->n, r->call,
                              l->code, l->sticky ? " and all after it" : "");
        va_start(args, format);
        vsnprintf(text + used, (size_t)(PROBLEM_SIZE - used), format, args);
        va_end(args);
    }
    r->problems++;
}

/* ---- which points are reached in the same way ---- */

static report *ways_into; /* of the worker's loop */

/* Notes who has called up to here. */
static void
note_way(void)
{
    void *callers[MOST_CALLERS];
    int count = backtrace(callers, MOST_CALLERS);
    uint64_t hash = 14695981039346656037ull, n = atomic_fetch_add(&ways_into->met, 1);

    if (n >= MOST_WAYS)
        return;
    for (int i = 0; i < count; i++)
        hash = (hash ^ (uintptr_t)callers[i]) * 1099511628211ull;
    ways_into->ways[n] = hash;
}

/* A run without faults, after one that leaves in a cache what the next find there. */
static void
look_around(const loop *l)
{
    const fault_scenario *s = l->scenario;

    if (l->report->looked_around || test_is_thorough())
        return;
    ways_into = l->report;
    if (s->run(s->argument) != YOKE_OK)
        return; /* the loop tells of it */
    if (l->allocations)
        yki_alloc_watch(note_way);
    else
        l->layer->watch(note_way);
    (void)s->run(s->argument);
    yki_alloc_watch(NULL);
    l->layer->watch(NULL);
    l->report->looked_around = true;
}

/* Whether another point is reached as this one is before it, and another after it. */
static bool
is_in_the_middle(const report *r, uint64_t n)
{
    uint64_t count = r->looked_around ? YKI_MIN(atomic_load(&r->met), (uint64_t)MOST_WAYS) : 0;
    bool before = false, after = false;

    for (uint64_t i = 1; i <= count && n <= count; i++) {
        before |= i < n && r->ways[i - 1] == r->ways[n - 1];
        after |= i > n && r->ways[i - 1] == r->ways[n - 1];
    }
    return before && after;
}

static uint64_t
next_point(const report *r, uint64_t n)
{
    do
        n++;
    while (is_in_the_middle(r, n));
    return n;
}

static void
arm(const loop *l, uint64_t n)
{
    l->layer->arm(l->allocations ? 0 : n, l->code, l->sticky);
    yki_alloc_fail_at(l->allocations ? n : 0);
}

/* Takes the fault away; true when it was met, with the call's name in the report. */
static bool
disarm(const loop *l, uint64_t n)
{
    uint64_t allocations = yki_alloc_fail_at(0);
    fault_hit hit;

    l->layer->get_hit(&hit);
    l->layer->arm(0, 0, false);
    memcpy(l->report->call, hit.call, sizeof hit.call);
    return l->allocations ? allocations >= n : hit.count > 0;
}

static void
look_for_leaks(const loop *l, const char *when, bool at_end)
{
    report *r = l->report;

    if (r->not_looked++ == 0)
        r->since = r->n;
    if (!at_end && !test_is_thorough() && r->not_looked < POINTS_A_LOOK)
        return;
    r->looking = true;
    if (has_leaks())
        problem(l, "%s, or of another point since %llu, leaked memory", when,
                (unsigned long long)r->since);
    r->looking = false;
    r->deaths = 0;
    r->not_looked = 0;
}

/* Sub-devices are only looked for at the end. */
static void
check_clean(const loop *l, const char *when, bool at_end)
{
    static uint64_t overreleased;
    char text[PROBLEM_SIZE / 2];

    if (at_end)
        release_kept_parts();
    if (l->layer->describe(text, sizeof text, at_end) > 0)
        problem(l, "%s, alive: %s", when, text);
    if (l->layer->overreleased() != overreleased) {
        overreleased = l->layer->overreleased();
        problem(l, "%s, something was released that was not alive", when);
    }
    if (__lsan_do_recoverable_leak_check)
        look_for_leaks(l, when, at_end);
}

/* One point; false when the scenario passed without meeting it. */
static bool
try_point(const loop *l, uint64_t n)
{
    const fault_scenario *s = l->scenario;
    report *r = l->report;
    yoke_status status;

    yki_set_detail("");
    arm(l, n);
    status = s->run(s->argument);
    if (!disarm(l, n)) {
        if (status != YOKE_OK)
            problem(l, "met no fault and returned %s: %s", yoke_status_name(status),
                    yoke_last_error());
        check_clean(l, "after a run without a fault", true);
        return false;
    }
    r->counts.failed++;
    if (status == YOKE_OK) {
        r->counts.absorbed++;
        if (!s->may_absorb || !s->may_absorb(l->allocations ? NULL : r->call))
            problem(l, "the scenario returned YOKE_OK");
    } else if (status == YOKE_ERROR_INTERNAL) {
        problem(l, "%s", yoke_last_error());
    } else if (!*yoke_last_error()) {
        problem(l, "%s without a detail", yoke_status_name(status));
    }
    check_clean(l, "after the failure", false);
    if (s->retry_once) /* the next point runs what is before it, the last one all */
        return true;
    r->retrying = true;
    status = s->run(s->argument);
    if (status != YOKE_OK)
        problem(l, "tried again without a fault: %s: %s", yoke_status_name(status),
                yoke_last_error());
    r->retrying = false;
    return true;
}

static void
work(const loop *l)
{
    report *r = l->report;
    unsigned seconds = l->scenario->seconds ? l->scenario->seconds : DEFAULT_SECONDS;

    signal(SIGALRM, SIG_DFL);
    alarm(2 * seconds);
    look_around(l);
    do {
        for (uint64_t i = 0; i < l->step && !r->again; i++)
            r->n = next_point(r, r->n);
        r->again = false;
        alarm(2 * seconds);
    } while (try_point(l, r->n) && r->problems < MAX_PROBLEMS);
    r->done = true;
    alarm(0);
}

/* Starts a worker behind the last point tried and waits for its end. */
static void
run_worker(const loop *l)
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    l->report->looking = false;
    l->report->not_looked = 0;
    child = fork();
    ck_assert_msg(child >= 0, "cannot fork");
    if (child == 0) {
        work(l);
        _exit(EXIT_SUCCESS); /* leaks were looked for at each point */
    }
    ck_assert_msg(waitpid(child, &status, 0) == child, "lost the worker");
    if (WIFSIGNALED(status)) {
        problem(l, "%s%s", WTERMSIG(status) == SIGALRM ? "hung" : strsignal(WTERMSIG(status)),
                l->report->retrying ? ", when tried again without a fault" : "");
        l->report->retrying = false;
        l->report->counts.failed++;
    } else if (WEXITSTATUS(status) != EXIT_SUCCESS && l->report->looking &&
               ++l->report->deaths < TRIES) {
        /* LeakSanitizer's tracer now and then dies while it holds a driver's threads, and ends the
         * process. That tells nothing of its points, which are tried again. */
        printf("LeakSanitizer died at point %llu\n", (unsigned long long)l->report->n);
        l->report->n = l->report->since;
        l->report->again = true;
    } else if (WEXITSTATUS(status) != EXIT_SUCCESS) {
        problem(l, "the process ended with %d", WEXITSTATUS(status));
    }
}

static fault_counts
run_loop(loop *l)
{
    char text[MAX_PROBLEMS * PROBLEM_SIZE] = "";
    fault_counts counts;
    int problems;
    size_t used = 0;

    l->layer = fault_open();
    l->step = getenv("YOKE_TEST_QUICK") ? YKI_MAX(l->scenario->quick_step, 1u) : 1;
    l->report =
        mmap(NULL, sizeof *l->report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(l->report != MAP_FAILED);
    while (!l->report->done && l->report->problems < MAX_PROBLEMS)
        run_worker(l);
    counts = l->report->counts;
    problems = l->report->problems;
    for (int i = 0; i < problems && i < MAX_PROBLEMS && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "\n  %s", l->report->problem[i]);
    munmap(l->report, sizeof *l->report);
    ck_assert_msg(problems == 0, "%s: %d problems:%s", l->scenario->name, problems, text);
    ck_assert_msg(counts.failed > 0, "%s: nothing to fail", l->scenario->name);
    return counts;
}

fault_counts
fault_loop_calls(const fault_scenario *scenario, int code, bool sticky)
{
    loop l = {.scenario = scenario, .code = code, .sticky = sticky};

    return run_loop(&l);
}

fault_counts
fault_loop_allocations(const fault_scenario *scenario)
{
    loop l = {.scenario = scenario, .allocations = true};

    return run_loop(&l);
}
