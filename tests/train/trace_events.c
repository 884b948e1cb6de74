/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_events.c - checks the events of a timeline against the format of Chrome's trace events, and
 * against what they are to mean.
 */
#include "train/trace_events.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 8, TOGETHER = 64 };

static char sentence[400];

static const char *
fault(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return sentence;
}

static const char *
text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text ? text : "";
}

static double
number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static char
phase_of(const json_t *event)
{
    return text_of(event, "ph")[0];
}

/* ---- members ---- */

/* Each kind of event has these members. */
static const char *
check_members(const json_t *event)
{
    static const struct {
        char phase;
        const char *numbers[4];
    } kinds[] = {{'M', {"pid"}},
                 {'C', {"pid", "ts"}},
                 {'X', {"pid", "tid", "ts", "dur"}},
                 {'s', {"pid", "tid", "ts"}},
                 {'t', {"pid", "tid", "ts"}},
                 {'f', {"pid", "tid", "ts"}}};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (kinds[k].phase != phase_of(event))
            continue;
        if (!*text_of(event, "name"))
            return fault("an event of kind %c has no name", kinds[k].phase);
        for (size_t i = 0; i < 4 && kinds[k].numbers[i]; i++)
            if (!json_is_number(json_object_get(event, kinds[k].numbers[i])))
                return fault("\"%s\" has no %s", text_of(event, "name"), kinds[k].numbers[i]);
        return NULL;
    }
    return fault("\"%s\" is of no kind that is known", text_of(event, "name"));
}

/* ---- threads ---- */

typedef struct span {
    double begin, end;
    const char *name;
} span;

typedef struct thread {
    int pid, tid;
    const char *name;
    span *spans; /* in their order */
    size_t count;
} thread;

typedef struct table {
    thread *threads;
    size_t count;
    size_t processes;
    int pids[TOGETHER]; /* that have a name */
} table;

static thread *
find_thread(const table *t, const json_t *event)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->threads[i].pid == (int)number_of(event, "pid") &&
            t->threads[i].tid == (int)number_of(event, "tid"))
            return &t->threads[i];
    return NULL;
}

static bool
is_named(const table *t, int pid)
{
    for (size_t i = 0; i < t->processes; i++)
        if (t->pids[i] == pid)
            return true;
    return false;
}

static const char *
take_name(table *t, const json_t *event)
{
    const json_t *arguments = json_object_get(event, "args");

    if (strcmp(text_of(event, "name"), "process_name") == 0) {
        if (t->processes == TOGETHER || is_named(t, (int)number_of(event, "pid")))
            return fault("process %d has two names", (int)number_of(event, "pid"));
        t->pids[t->processes++] = (int)number_of(event, "pid");
    } else if (strcmp(text_of(event, "name"), "thread_name") == 0) {
        if (find_thread(t, event))
            return fault("thread %d has two names", (int)number_of(event, "tid"));
        t->threads = realloc(t->threads, (t->count + 1) * sizeof *t->threads);
        t->threads[t->count++] = (thread){.pid = (int)number_of(event, "pid"),
                                          .tid = (int)number_of(event, "tid"),
                                          .name = text_of(arguments, "name")};
    }
    return NULL;
}

static const char *
take_span(const table *t, const json_t *event)
{
    thread *on = find_thread(t, event);
    double begin = number_of(event, "ts"), length = number_of(event, "dur");
    const char *name = text_of(event, "name");

    if (!on || !*on->name || !is_named(t, on->pid))
        return fault("\"%s\" is on a thread or in a process without a name", name);
    if (!(length >= 0))
        return fault("\"%s\" takes %g us", name, length);
    if (on->count && begin < on->spans[on->count - 1].begin)
        return fault("\"%s\" begins before the one before it", name);
    if ((on->count & (on->count + 1)) == 0)
        on->spans = realloc(on->spans, (2 * on->count + 2) * sizeof *on->spans);
    on->spans[on->count++] = (span){begin, begin + length, name};
    return NULL;
}

/* Spans lie in one another, or side by side. */
static const char *
check_nesting(const thread *t)
{
    double ends[DEPTH];
    int depth = 0;

    for (size_t i = 0; i < t->count; i++) {
        const span *s = &t->spans[i];

        while (depth > 0 && ends[depth - 1] <= s->begin + 1e-4)
            depth--;
        if (depth == DEPTH || (depth > 0 && s->end > ends[depth - 1] + 1e-4))
            return fault("\"%s\" is half in another span of \"%s\"", s->name, t->name);
        ends[depth++] = s->end;
    }
    return NULL;
}

/* ---- arrows ---- */

typedef struct point {
    const json_t *event;
    const char *name, *id;
    double at;
} point;

static int
along(const void *a, const void *b)
{
    const point *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    order = order ? order : strcmp(x->id, y->id);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static bool
is_on_span(const thread *t, double at)
{
    for (size_t i = 0; t && i < t->count; i++)
        if (t->spans[i].begin - 1e-3 <= at && at <= t->spans[i].end + 1e-3)
            return true;
    return false;
}

/* `points` are those of one arrow, by time. */
static const char *
check_arrow(const table *t, const point *points, size_t count, bool clocks, double slack)
{
    double begin = -1, end = -1;
    int begins = 0, ends = 0;

    for (size_t i = 0; i < count; i++) {
        char phase = phase_of(points[i].event);

        if (!is_on_span(find_thread(t, points[i].event), points[i].at))
            return fault("arrow %s %s has a point beside all spans", points->name, points->id);
        begins += phase == 's';
        ends += phase == 'f';
        begin = phase == 's' ? points[i].at : begin;
        end = phase == 'f' ? points[i].at : end;
    }
    if (begins != 1 || ends != 1)
        return fault("arrow %s %s has %d begins and %d ends", points->name, points->id, begins,
                     ends);
    if (clocks && (begin > points[0].at + slack || end < points[count - 1].at - slack))
        return fault("arrow %s %s goes back", points->name, points->id);
    return NULL;
}

static const char *
check_arrows(const json_t *events, const table *t, bool clocks, trace_counts *counts)
{
    point *points = calloc(json_array_size(events), sizeof *points);
    const char *wrong = NULL;
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);

        if (strchr("stf", phase_of(event)))
            points[count++] = (point){event, text_of(event, "name"), text_of(event, "id"),
                                      number_of(event, "ts")};
    }
    qsort(points, count, sizeof *points, along);
    for (size_t i = 0, end; i < count && !wrong; i = end) {
        for (end = i; end < count && strcmp(points[end].name, points[i].name) == 0 &&
                      strcmp(points[end].id, points[i].id) == 0;
             end++)
            ;
        wrong = check_arrow(t, &points[i], end - i, clocks, counts->slack);
        counts->gradients += strcmp(points[i].name, "gradient") == 0;
        counts->last += strcmp(points[i].name, "last") == 0;
    }
    free(points);
    return wrong;
}

/* ---- all processes ---- */

static int
by_begin(const void *a, const void *b)
{
    const span *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* What a process does with all others is in rows of one track: those spans, by their begin. */
static span *
collect(const table *t, int pid, size_t *count)
{
    span *all = NULL;

    *count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const thread *on = &t->threads[i];

        if (on->pid != pid || strncmp(on->name, "all processes", 13) != 0)
            continue;
        all = realloc(all, (*count + on->count + 1) * sizeof *all);
        if (on->count)
            memcpy(all + *count, on->spans, on->count * sizeof *all);
        *count += on->count;
    }
    if (*count)
        qsort(all, *count, sizeof *all, by_begin);
    return all;
}

/* Nobody ends an operation that another process has not begun. */
static const char *
check_operations(const table *t, trace_counts *counts)
{
    span *first, *other;
    size_t count, others;
    const char *wrong = NULL;

    first = collect(t, t->pids[0], &count);
    for (size_t p = 1; p < t->processes && !wrong; p++) {
        other = collect(t, t->pids[p], &others);
        if (others != count)
            wrong = fault("process %d has %zu operations, %d has %zu", t->pids[0], count,
                          t->pids[p], others);
        for (size_t i = 0; i < count && !wrong; i++)
            if (strcmp(first[i].name, other[i].name) != 0)
                wrong = fault("\"%s\" is \"%s\" in process %d", first[i].name, other[i].name,
                              t->pids[p]);
            else if (first[i].begin > other[i].end + counts->slack ||
                     other[i].begin > first[i].end + counts->slack)
                wrong = fault("\"%s\" from %.3f to %.3f is from %.3f to %.3f in process %d",
                              first[i].name, first[i].begin, first[i].end, other[i].begin,
                              other[i].end, t->pids[p]);
        free(other);
    }
    free(first);
    counts->operations = (int)count;
    return wrong;
}

/* ---- all of it ---- */

/* A time may be wrong by what the clock of its device is, and that of its process. */
static double
slack_of(const json_t *events)
{
    double threads = 0, processes = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        double open = number_of(json_object_get(event, "args"), "uncertainty_us");
        double *most = strcmp(text_of(event, "name"), "thread_name") == 0 ? &threads : &processes;

        if (phase_of(event) == 'M' && open > *most)
            *most = open;
    }
    return 2 * (threads + processes) + 1;
}

static const char *
read_events(const json_t *events, table *t, trace_counts *counts)
{
    const char *wrong = json_array_size(events) ? NULL : fault("there are no events");

    for (size_t i = 0; i < json_array_size(events) && !wrong; i++) {
        const json_t *event = json_array_get(events, i);

        wrong = check_members(event);
        if (!wrong && phase_of(event) == 'M')
            wrong = take_name(t, event);
        if (!wrong && phase_of(event) == 'X')
            wrong = take_span(t, event);
        if (!wrong && phase_of(event) == 'C' &&
            (json_object_size(json_object_get(event, "args")) == 0 ||
             !is_named(t, (int)number_of(event, "pid"))))
            wrong = fault("counter \"%s\" has no value or no process", text_of(event, "name"));
        counts->spans += phase_of(event) == 'X';
        counts->counters += phase_of(event) == 'C';
    }
    return wrong;
}

const char *
trace_events_fault(const json_t *events, bool clocks, trace_counts *counts)
{
    table t = {0};
    const char *wrong;

    memset(counts, 0, sizeof *counts);
    counts->slack = slack_of(events);
    wrong = read_events(events, &t, counts);
    for (size_t i = 0; i < t.count && !wrong; i++)
        wrong = check_nesting(&t.threads[i]);
    if (!wrong)
        wrong = check_arrows(events, &t, clocks, counts);
    if (!wrong)
        wrong = check_operations(&t, counts);
    counts->processes = (int)t.processes;
    counts->threads = (int)t.count;
    for (size_t i = 0; i < t.count; i++)
        free(t.threads[i].spans);
    free(t.threads);
    return wrong;
}
