/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - a timeline: what each queue and each thread of this process did, and when.
 *
 * A trace has tracks, each of one queue or one kind of work of the host. A queue that is traced
 * notes each command when it is enqueued, and the command's times when the queue sees that it is
 * complete. Nothing is written and no text is made before the end. Where nothing is traced, this
 * costs one comparison for each command.
 *
 * The times of a device are those of its own clock. A yki_sight says where that clock stands beside
 * the host's: it is taken when a trace begins and when it ends, and times between are found by a
 * line. A driver whose clock does not run is found so, and its commands have times of the host.
 *
 * Not here: the file (lib/train/timeline.c).
 */
#ifndef YKI_TRACE_H
#define YKI_TRACE_H

#include "device/device.h"

typedef struct yki_trace yki_trace;

/* ---- clocks ---- */

/* Bounds of what has to be added to another clock to get the host's, in seconds. */
typedef struct yki_sight {
    double at;        /* by the host's clock; 0: nothing is known */
    double low, high; /* low > high: no number is right, so the other clock does not run */
} yki_sight;

/* Narrows the bounds: the other clock showed `theirs` at some time from `before` to `after`. */
void yki_sight_take(yki_sight *sight, double before, double theirs, double after);
/* Says whether the clock runs as the host's does, by sights that took `seconds` together. */
bool yki_sight_is_good(const yki_sight *sight, double seconds);
/* Turns a time of the other clock into one of the host's, by two sights. The second, a later one,
 * may be unknown. */
double yki_sight_convert(const yki_sight *sights, double theirs);

/* A clock of a device, which all queues on the same hardware have in common. */
typedef struct yki_trace_clock {
    const void *of;
    bool runs;           /* as the host's does; if not, times of the host are taken */
    yki_sight sights[2]; /* at the begin and at the end */
} yki_trace_clock;

/* ---- what is recorded ---- */

/* What a command computes. */
typedef struct yki_trace_details {
    const char *name, *op, *solver; /* NULL: unknown */
    char shape[80];
    double flops, bytes;
} yki_trace_details;

/* How to find that out when the file is written; a NULL function: nothing is known. */
typedef struct yki_trace_about {
    void (*tell)(const struct yki_trace_about *about, yki_trace_details *details);
    const void *subject;
    size_t part;
    int64_t batch, length;
} yki_trace_about;

typedef struct yki_trace_record {
    double enqueued;   /* by the host's clock; 0: work of the host */
    double begin, end; /* by the track's clock; end 0: unknown. A command begins no earlier than it
                          was enqueued, and than the one before it ended */
    const char *verb;  /* a constant, such as "writing" */
    char name[40];
    uint64_t bytes; /* that are copied */
    int64_t number; /* of a step, a bucket or a device; -1: none */
    yki_trace_about about;
    void *seen;   /* where the driver leaves the host's time of the end; NULL: nowhere */
    uint32_t row; /* of the track, for the file */
} yki_trace_record;

typedef enum yki_track_kind {
    YKI_TRACK_HOST,    /* spans that lie in one another */
    YKI_TRACK_QUEUE,   /* commands, one after the other */
    YKI_TRACK_EXCHANGE /* spans that may overlap */
} yki_track_kind;

typedef struct yki_track {
    yki_trace *trace;
    yki_track_kind kind;
    char *name;
    const yki_trace_clock *clock; /* of its times; NULL: the host's */
    yki_trace_record *records;
    size_t count, capacity;
} yki_track;

/* A number at a time. */
typedef struct yki_trace_sample {
    const char *counter; /* a constant */
    const char *series;  /* lent until the trace is destroyed */
    double at, value;
} yki_trace_sample;

/* Where an arrow begins, passes or ends. */
typedef struct yki_trace_flow {
    const yki_track *track;
    size_t record; /* its index on the track */
    uint64_t id;   /* of the arrow */
    char phase;    /* 's', 't' or 'f' */
} yki_trace_flow;

struct yki_trace {
    double begun;
    yki_track **tracks;
    size_t track_count, track_capacity;
    yki_trace_clock **clocks;
    size_t clock_count, clock_capacity;
    yki_trace_sample *samples;
    size_t sample_count, sample_capacity;
    yki_trace_flow *flows;
    size_t flow_count, flow_capacity;
    size_t most;         /* records of all kinds */
    atomic_size_t count; /* of them so far */
    atomic_size_t lost;  /* records that found no room */
};

/* Makes a trace that takes at most `most` records; further ones are counted as lost. */
yoke_status yki_trace_create(size_t most, yki_trace **trace);
/* No queue may use it any more. NULL is fine. */
void yki_trace_destroy(yki_trace *trace);
/* Makes a track; lends it. One thread at a time records on it. */
yoke_status yki_trace_add_track(yki_trace *trace, yki_track_kind kind, const char *name,
                                yki_track **track);

/* Finds the clock of `of`, or makes one that nobody has seen. */
yoke_status yki_trace_get_clock(yki_trace *trace, const void *of, yki_trace_clock **clock);

/* Returns when a span of the host begins; 0 without a track. */
double yki_span_begin(const yki_track *track);
/* Records a span that ends now. `verb` is a constant. Does nothing without a track, or for a span
 * that began before there was one. */
void yki_span_end(yki_track *track, double begin, const char *verb, int64_t number);
/* The same of work that moves so many bytes. */
void yki_span_end_moved(yki_track *track, double begin, const char *verb, int64_t number,
                        uint64_t bytes);
/* Both are for the thread of the trainer. Records a number, unless it is not finite; series of one
 * counter that have the same time are shown together. */
void yki_trace_count(yki_trace *trace, double at, const char *counter, const char *series,
                     double value);
/* Lets an arrow begin ('s'), pass ('t') or end ('f') at the newest record of a track, if there is
 * one. */
void yki_track_flow(yki_track *track, uint64_t id, char phase);
/* Finds room for a record; NULL: it is lost. It stays in place until the next one on the track. */
yki_trace_record *yki_track_add(yki_track *track);

/* ---- queues (trace_queue.c, trace_commands.c) ---- */

/* Records the commands of a queue on a track of its own, from now on. Waits for the queue, whose
 * events have times from then on. */
yoke_status yki_queue_trace(yki_queue *queue, yki_trace *trace, const char *name);
/* Ends that. Waits. The queue becomes as it was. Does nothing if the queue is not traced. */
yoke_status yki_queue_untrace(yki_queue *queue);
/* The track of a queue; NULL: it is not traced. */
yki_track *yki_queue_track(const yki_queue *queue);
/* Records what a library has enqueued by itself since `begin` (yki_span_begin of the track) as one
 * command, which begins when the one before it ends. Does nothing without a track. */
yoke_status yki_queue_trace_call(yki_queue *queue, double begin, const char *name);
/* Tells of the commands that follow; NULL: nothing is known of them. Without a track it has no
 * effect. */
void yki_queue_about(yki_queue *queue, const yki_trace_about *about);

#endif
