/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline_json.c - writes a timeline as Chrome's trace events in JSON, which Perfetto opens.
 *
 * A process is a rank; a thread is a track: a queue, or a kind of work of the host. Times are in
 * microseconds with three digits behind the point, so that nanoseconds are kept. On a track events
 * are in the order of their begins, and lie side by side or in one another. Work that overlaps gets
 * several rows, each a thread.
 *
 * Events are written one by one, into a text that is handed on when it is long enough.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/json.h"
#include "train/timeline.h"

enum { PIECE = 1 << 20, ROWS = 32, TRACKS_APART = 64 };

typedef struct writer {
    const yki_timeline_part *part;
    const yki_timeline_sink *to;
    yki_json_text text;
} writer;

/* ---- parts of an event ---- */

static void
add_text(writer *w, const char *text)
{
    json_t *json = json_string(text);
    char *plain;

    /* A name may have been cut within a character. */
    if (!json && (plain = yki_strdup(text, "a name"))) {
        for (char *c = plain; *c; c++)
            *c = (char)((unsigned char)*c < 128 ? *c : '?');
        json = json_string(plain);
        yki_free(plain);
    }
    yki_json_add_value(&w->text, json, 0);
}

/* Adds a number with three digits behind the point, whatever the locale. */
static void
add_thousandths(writer *w, const char *key, double value)
{
    long long all = llround(1e3 * value);
    char text[96];

    snprintf(text, sizeof text, ", \"%s\": %s%lld.%03lld", key, all < 0 ? "-" : "",
             llabs(all) / 1000, llabs(all) % 1000);
    yki_json_add(&w->text, text);
}

static void
add_integer(writer *w, const char *key, long long value)
{
    char text[96];

    snprintf(text, sizeof text, ", \"%s\": %lld", key, value);
    yki_json_add(&w->text, text);
}

static void
add_named(writer *w, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    yki_json_add(&w->text, ", \"");
    yki_json_add(&w->text, key);
    yki_json_add(&w->text, "\": ");
    add_text(w, value);
}

static void
add_time(writer *w, const char *key, double seconds)
{
    add_thousandths(w, key, 1e6 * seconds);
}

/* The number of a process: some programs take 0 for a system's own. */
static int
process_of(int32_t rank)
{
    return rank + 1;
}

/* Begins an event. Every event follows another: the head of the file has one. */
static void
begin_event(writer *w, char phase, const char *name)
{
    char text[64];

    snprintf(text, sizeof text, ",\n{\"ph\": \"%c\", \"pid\": %d", phase,
             process_of(w->part->rank));
    yki_json_add(&w->text, text);
    add_named(w, "name", name);
}

static yoke_status
hand_on(writer *w)
{
    yoke_status status;

    if (w->text.failed)
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for the text of a timeline");
    status = w->to->write(w->to->user, w->text.text, w->text.length);
    w->text.length = 0;
    return status;
}

static yoke_status
end_event(writer *w)
{
    yki_json_add(&w->text, "}");
    return w->text.failed || w->text.length >= PIECE ? hand_on(w) : YOKE_OK;
}

/* ---- times ---- */

/* Brings the times of a record to rank 0's clock. No command begins before it was enqueued, or
 * before the one before it has ended: what the clocks say beyond that is their error. */
static void
settle_record(const writer *w, const yki_track *track, yki_trace_record *record, double *newest)
{
    if (record->end == 0)
        return;
    if (track->clock) {
        record->begin = yki_sight_convert(track->clock->sights, record->begin);
        record->end = yki_sight_convert(track->clock->sights, record->end);
    }
    record->begin = yki_timeline_time(w->part, record->begin);
    record->end = yki_timeline_time(w->part, record->end);
    if (record->enqueued > 0)
        record->enqueued = yki_timeline_time(w->part, record->enqueued);
    if (track->kind != YKI_TRACK_QUEUE)
        return;
    record->begin = YKI_MAX(record->begin, YKI_MAX(record->enqueued, *newest));
    record->end = YKI_MAX(record->end, record->begin);
    *newest = record->end;
}

static int
by_begin(const void *a, const void *b)
{
    const yki_trace_record *x = *(yki_trace_record *const *)a, *y = *(yki_trace_record *const *)b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) /* the longer one holds the other */
        return x->end > y->end ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Puts records that overlap into rows. */
static uint32_t
find_rows(yki_trace_record **order, size_t count)
{
    double ends[ROWS] = {0};
    uint32_t used = 1;

    for (size_t i = 0; i < count; i++) {
        uint32_t row = 0;

        while (row + 1 < ROWS && ends[row] > order[i]->begin)
            row++;
        ends[row] = YKI_MAX(ends[row], order[i]->end);
        order[i]->row = row;
        used = YKI_MAX(used, row + 1);
    }
    return used;
}

/* ---- events ---- */

/* How wrong times of a clock may be, in seconds: times between two looks are as unsure as the worse
 * of both. */
static double
uncertainty(const yki_sight *sights)
{
    double most = 0;

    for (int i = 0; i < 2; i++)
        if (sights[i].at > 0)
            most = YKI_MAX(most, 0.5 * fabs(sights[i].high - sights[i].low));
    return most;
}

/* The number of a thread. Threads are listed by it. */
static long long
thread_of(const writer *w, const yki_track *track, uint32_t row)
{
    size_t index = 0;

    while (w->part->trace->tracks[index] != track)
        index++;
    return (long long)(1 + index) * TRACKS_APART + row;
}

static yoke_status
write_thread(writer *w, const yki_track *track, uint32_t row)
{
    char name[128];

    snprintf(name, sizeof name, row ? "%s %u" : "%s", track->name, row + 1);
    begin_event(w, 'M', "thread_name");
    add_integer(w, "tid", thread_of(w, track, row));
    yki_json_add(&w->text, ", \"args\": {\"name\": ");
    add_text(w, name);
    add_named(w, "clock", track->clock ? "device" : "host");
    if (track->clock)
        add_time(w, "uncertainty_us", uncertainty(track->clock->sights));
    yki_json_add(&w->text, "}");
    YKI_TRY(end_event(w));
    begin_event(w, 'M', "thread_sort_index");
    add_integer(w, "tid", thread_of(w, track, row));
    yki_json_add(&w->text, ", \"args\": {\"sort_index\": ");
    snprintf(name, sizeof name, "%lld}", thread_of(w, track, row));
    yki_json_add(&w->text, name);
    return end_event(w);
}

static void
add_details(writer *w, const yki_trace_record *record, const yki_trace_details *details)
{
    double seconds = record->end - record->begin;
    double bytes = record->bytes ? (double)record->bytes : details->bytes;

    yki_json_add(&w->text, ", \"args\": {\"verb\": ");
    add_text(w, record->verb);
    add_named(w, "kernel", details->name ? record->name : NULL);
    add_named(w, "op", details->op);
    add_named(w, "solver", details->solver);
    add_named(w, "shape", details->shape);
    if (details->name)
        add_integer(w, "batch", (long long)record->about.batch);
    if (bytes > 0)
        add_integer(w, "bytes", llround(bytes));
    if (details->flops > 0)
        add_thousandths(w, "mflop", 1e-6 * details->flops);
    if (details->flops > 0 && seconds > 0)
        add_thousandths(w, "gflops", 1e-9 * details->flops / seconds);
    if (bytes > 0 && seconds > 0)
        add_thousandths(w, "gbytes", 1e-9 * bytes / seconds);
    if (record->enqueued > 0)
        add_time(w, "waited_us", record->begin - record->enqueued);
    yki_json_add(&w->text, "}");
}

static yoke_status
write_record(writer *w, const yki_track *track, const yki_trace_record *record)
{
    yki_trace_details details = {0};
    char name[128];

    if (record->about.tell)
        record->about.tell(&record->about, &details);
    if (details.name && strcmp(details.name, details.op) != 0)
        snprintf(name, sizeof name, "%s %s", details.name, details.op);
    else if (details.name)
        snprintf(name, sizeof name, "%s", details.name);
    else if (record->number >= 0)
        snprintf(name, sizeof name, "%s %lld", record->verb, (long long)record->number);
    else
        snprintf(name, sizeof name, "%s%s%s", record->bytes && record->name[0] ? record->verb : "",
                 record->bytes && record->name[0] ? " " : "",
                 record->name[0] ? record->name : record->verb);
    begin_event(w, 'X', name);
    add_integer(w, "tid", thread_of(w, track, record->row));
    /* Both ends are rounded alike, so that a span ends exactly where the next one begins. */
    add_time(w, "ts", record->begin - w->part->zero);
    add_time(w, "dur",
             1e-9 * (double)(llround(1e9 * (record->end - w->part->zero)) -
                             llround(1e9 * (record->begin - w->part->zero))));
    add_details(w, record, &details);
    return end_event(w);
}

static yoke_status
write_track(writer *w, yki_track *track)
{
    yki_trace_record **order = yki_alloc(track->count + 1, sizeof *order, "the order of a track");
    size_t count = 0;
    uint32_t rows = 1;
    double newest = 0;
    yoke_status status = YOKE_OK;

    if (!order)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < track->count; i++) {
        settle_record(w, track, &track->records[i], &newest);
        if (track->records[i].end > 0)
            order[count++] = &track->records[i];
    }
    if (track->kind != YKI_TRACK_QUEUE && count)
        qsort(order, count, sizeof(yki_trace_record *), by_begin);
    if (track->kind == YKI_TRACK_EXCHANGE)
        rows = find_rows(order, count);
    for (uint32_t l = 0; l < rows && status == YOKE_OK; l++)
        status = write_thread(w, track, l);
    for (size_t i = 0; i < count && status == YOKE_OK; i++)
        status = write_record(w, track, order[i]);
    yki_free(order);
    return status;
}

/* Series of one time are one event. */
static yoke_status
write_samples(writer *w)
{
    for (size_t i = 0; i < w->part->trace->sample_count;) {
        const yki_trace_sample *first = &w->part->trace->samples[i], *s = first;
        double at = yki_timeline_time(w->part, first->at);

        begin_event(w, 'C', first->counter);
        add_time(w, "ts", at - w->part->zero);
        yki_json_add(&w->text, ", \"args\": {");
        for (;
             i < w->part->trace->sample_count && s->counter == first->counter && s->at == first->at;
             s++, i++) {
            yki_json_add(&w->text, s == first ? "" : ", ");
            add_text(w, s->series);
            yki_json_add(&w->text, ": ");
            yki_json_add_value(&w->text, json_real(s->value), 0);
        }
        yki_json_add(&w->text, "}");
        YKI_TRY(end_event(w));
    }
    return YOKE_OK;
}

/* By arrow, and along it: it may pass several records, and qsort need not keep their order. */
static int
by_arrow(const void *a, const void *b)
{
    const yki_trace_flow *x = a, *y = b;
    const char order[] = "stf";
    double x_end, y_end;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->phase != y->phase)
        return strchr(order, x->phase) < strchr(order, y->phase) ? -1 : 1;
    x_end = x->track->records[x->record].end;
    y_end = y->track->records[y->record].end;
    return x_end < y_end ? -1 : x_end > y_end;
}

/* One point of an arrow. Those of one name and id belong together. */
static yoke_status
write_point(writer *w, char phase, const char *name, const char *id, const yki_track *track,
            const yki_trace_record *record, double at)
{
    begin_event(w, phase, name);
    add_named(w, "cat", name);
    add_named(w, "id", id);
    add_integer(w, "tid", thread_of(w, track, record->row));
    add_time(w, "ts", at - w->part->zero);
    if (phase == 'f')
        yki_json_add(&w->text, ", \"bp\": \"e\"");
    return end_event(w);
}

/* Near the end of a command, which is known better than its begin where the driver has no clock. */
static yoke_status
write_flow(writer *w, const yki_trace_flow *flow, char phase)
{
    const yki_trace_record *record = &flow->track->records[flow->record];
    double at = YKI_MAX(0.5 * (record->begin + record->end), record->end - 1e-6);
    char id[64];

    snprintf(id, sizeof id, "%d.%llu", w->part->rank, (unsigned long long)flow->id);
    return write_point(w, phase, "gradient", id, flow->track, record, at);
}

/* An arrow without a begin or an end, or with one that was lost, is left out. Where several
 * commands make the gradients, one after the other, it begins at the first. */
static yoke_status
write_flows(writer *w)
{
    yki_trace_flow *flows = w->part->trace->flows;
    size_t count = w->part->trace->flow_count;

    if (count)
        qsort(flows, count, sizeof *flows, by_arrow);
    for (size_t i = 0, end; i < count; i = end) {
        bool whole = flows[i].phase == 's';

        for (end = i; end < count && flows[end].id == flows[i].id; end++)
            whole &= flows[end].track->records[flows[end].record].end > 0;
        whole &= flows[end - 1].phase == 'f';
        for (size_t k = i; k < end && whole; k++)
            YKI_TRY(write_flow(w, &flows[k], k > i && k + 1 < end ? 't' : flows[k].phase));
    }
    return YOKE_OK;
}

/* Arrows from the begin of an operation in the process that came last to its end in each other
 * one. */
static yoke_status
write_waits(writer *w)
{
    const yki_timeline_part *p = w->part;
    char id[64];

    for (size_t i = 0; p->last && i < p->operations; i++) {
        const yki_trace_record *record = &p->together->records[i];
        bool came_last = p->last[i] == p->rank;
        double near = YKI_MIN(1e-6, 0.5 * (record->end - record->begin));

        for (int32_t r = 0; r < p->ranks; r++) {
            if (r == p->last[i] || (!came_last && r != p->rank))
                continue;
            snprintf(id, sizeof id, "%zu.%d", i, r);
            YKI_TRY(write_point(w, came_last ? 's' : 'f', "last", id, p->together, record,
                                came_last ? record->begin + near : record->end - near));
        }
    }
    return YOKE_OK;
}

static yoke_status
write_process(writer *w)
{
    const char *host = w->part->host;
    char name[128];

    snprintf(name, sizeof name, "rank %d%s%s", w->part->rank, *host ? " on " : "", host);
    begin_event(w, 'M', "process_name");
    yki_json_add(&w->text, ", \"args\": {\"name\": ");
    add_text(w, name);
    add_integer(w, "lost", (long long)atomic_load(&w->part->trace->lost));
    if (w->part->sights[0].at > 0)
        add_time(w, "uncertainty_us", uncertainty(w->part->sights));
    yki_json_add(&w->text, "}");
    return end_event(w);
}

yoke_status
yki_timeline_write(const yki_timeline_part *part, const yki_timeline_sink *to)
{
    writer w = {.part = part, .to = to};
    yki_trace *trace = part->trace;
    yoke_status status = write_process(&w);

    for (size_t i = 0; i < trace->track_count && status == YOKE_OK; i++)
        status = write_track(&w, trace->tracks[i]);
    if (status == YOKE_OK)
        status = write_samples(&w);
    if (status == YOKE_OK)
        status = write_flows(&w);
    if (status == YOKE_OK)
        status = write_waits(&w);
    if (status == YOKE_OK)
        status = w.text.length || w.text.failed ? hand_on(&w) : YOKE_OK;
    yki_free(w.text.text);
    return status;
}

/* ---- the file ---- */

yoke_status
yki_timeline_write_head(const yki_timeline_sink *to)
{
    char text[256];

    snprintf(text, sizeof text,
             "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"yoke\": \"%s\"}, \"traceEvents\": [\n"
             "{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_sort_index\", "
             "\"args\": {\"sort_index\": 0}}",
             yoke_version());
    return to->write(to->user, text, strlen(text));
}

yoke_status
yki_timeline_write_tail(const yki_timeline_sink *to)
{
    return to->write(to->user, "\n]}\n", 4);
}
