/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - the memory of a timeline, and the arithmetic of its clocks. Knows no OpenCL.
 *
 * A trace must not stop what it looks at: a record that finds no room or no memory is counted as
 * lost, and that is all.
 */
#include "device/trace.h"

#include <math.h>
#include <string.h>

/* ---- clocks ---- */

void
yki_sight_take(yki_sight *sight, double before, double theirs, double after)
{
    bool first = sight->at == 0;

    sight->low = first ? before - theirs : YKI_MAX(sight->low, before - theirs);
    sight->high = first ? after - theirs : YKI_MIN(sight->high, after - theirs);
    sight->at = after;
}

bool
yki_sight_is_good(const yki_sight *sight, double seconds)
{
    /* A clock that stands still misses all of the time, a good one next to nothing. One that shows
     * when a command was enqueued misses what it waited. */
    return sight->at > 0 && sight->low - sight->high < YKI_MIN(0.02 * seconds, 5e-4);
}

static double
middle(const yki_sight *sight)
{
    return 0.5 * (sight->low + sight->high);
}

double
yki_sight_convert(const yki_sight *sights, double theirs)
{
    double first = middle(&sights[0]), span = sights[1].at - sights[0].at, part;

    if (!(sights[1].at > 0) || !(span > 0))
        return theirs + first;
    part = (theirs + first - sights[0].at) / span;
    part = YKI_MAX(0, YKI_MIN(part, 1));
    return theirs + first + part * (middle(&sights[1]) - first);
}

/* ---- life ---- */

yoke_status
yki_trace_create(size_t most, yki_trace **out)
{
    yki_trace *trace = yki_alloc(1, sizeof *trace, "a timeline");

    if (!trace)
        return YOKE_ERROR_OUT_OF_MEMORY;
    trace->most = most;
    trace->begun = yki_now();
    *out = trace;
    return YOKE_OK;
}

void
yki_trace_destroy(yki_trace *trace)
{
    if (!trace)
        return;
    for (size_t i = 0; i < trace->track_count; i++) {
        yki_free(trace->tracks[i]->records);
        yki_free(trace->tracks[i]->name);
        yki_free(trace->tracks[i]);
    }
    for (size_t i = 0; i < trace->clock_count; i++)
        yki_free(trace->clocks[i]);
    yki_free(trace->clocks);
    yki_free(trace->tracks);
    yki_free(trace->samples);
    yki_free(trace->flows);
    yki_free(trace);
}

yoke_status
yki_trace_add_track(yki_trace *trace, yki_track_kind kind, const char *name, yki_track **out)
{
    yki_track *track;

    YKI_TRY(yki_grow((void **)&trace->tracks, &trace->track_capacity, trace->track_count + 1,
                     sizeof *trace->tracks, "tracks of a timeline"));
    track = yki_alloc(1, sizeof *track, "a track of a timeline");
    if (!track)
        return YOKE_ERROR_OUT_OF_MEMORY;
    track->trace = trace;
    track->kind = kind;
    track->name = yki_strdup(name, "the name of a track");
    if (!track->name) {
        yki_free(track);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    trace->tracks[trace->track_count++] = track;
    *out = track;
    return YOKE_OK;
}

yoke_status
yki_trace_get_clock(yki_trace *trace, const void *of, yki_trace_clock **out)
{
    yki_trace_clock *clock;

    for (size_t i = 0; i < trace->clock_count; i++)
        if (trace->clocks[i]->of == of) {
            *out = trace->clocks[i];
            return YOKE_OK;
        }
    YKI_TRY(yki_grow((void **)&trace->clocks, &trace->clock_capacity, trace->clock_count + 1,
                     sizeof(yki_trace_clock *), "clocks of a timeline"));
    clock = yki_alloc(1, sizeof *clock, "a clock of a timeline");
    if (!clock)
        return YOKE_ERROR_OUT_OF_MEMORY;
    clock->of = of;
    trace->clocks[trace->clock_count++] = clock;
    *out = clock;
    return YOKE_OK;
}

/* ---- records ---- */

/* Takes room for one record of any kind in an array. Returns false if it is lost. */
static bool
take_room(yki_trace *trace, void **array, size_t *capacity, size_t count, size_t size)
{
    if (atomic_fetch_add(&trace->count, 1) < trace->most &&
        (count < *capacity ||
         yki_grow(array, capacity, YKI_MAX(1024, 2 * count), size, "a timeline") == YOKE_OK))
        return true;
    atomic_fetch_sub(&trace->count, 1);
    atomic_fetch_add(&trace->lost, 1);
    return false;
}

yki_trace_record *
yki_track_add(yki_track *track)
{
    yki_trace_record *record;

    if (!take_room(track->trace, (void **)&track->records, &track->capacity, track->count,
                   sizeof *track->records))
        return NULL;
    record = &track->records[track->count++];
    memset(record, 0, sizeof *record);
    record->number = -1;
    return record;
}

double
yki_span_begin(const yki_track *track)
{
    return track ? yki_now() : 0;
}

void
yki_span_end(yki_track *track, double begin, const char *verb, int64_t number)
{
    yki_span_end_moved(track, begin, verb, number, 0);
}

void
yki_span_end_moved(yki_track *track, double begin, const char *verb, int64_t number, uint64_t bytes)
{
    yki_trace_record *record = track && begin > 0 ? yki_track_add(track) : NULL;

    if (!record)
        return;
    record->begin = begin;
    record->end = yki_now();
    record->verb = verb;
    record->number = number;
    record->bytes = bytes;
}

void
yki_trace_count(yki_trace *trace, double at, const char *counter, const char *series, double value)
{
    if (isfinite(value) && take_room(trace, (void **)&trace->samples, &trace->sample_capacity,
                                     trace->sample_count, sizeof *trace->samples))
        trace->samples[trace->sample_count++] = (yki_trace_sample){counter, series, at, value};
}

void
yki_track_flow(yki_track *track, uint64_t id, char phase)
{
    yki_trace *trace = track ? track->trace : NULL;

    if (track && track->count &&
        take_room(trace, (void **)&trace->flows, &trace->flow_capacity, trace->flow_count,
                  sizeof *trace->flows))
        trace->flows[trace->flow_count++] = (yki_trace_flow){track, track->count - 1, id, phase};
}
