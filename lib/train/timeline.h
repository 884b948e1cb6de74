/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - the timeline of a trainer, and the file that it becomes.
 */
#ifndef YKI_TIMELINE_H
#define YKI_TIMELINE_H

#include "device/trace.h"
#include "train/trainer.h"

struct yki_timeline {
    yki_trace *trace;
    char *path;          /* of the file */
    yki_track *together; /* operations of all processes; NULL: this one is alone */
    yki_sight sights[2]; /* of rank 0's clock, at the begin and at the end; of several processes */
};

/* What one process writes. */
typedef struct yki_timeline_part {
    yki_trace *trace;
    int32_t rank, ranks;
    const char *host;    /* "": not worth telling */
    yki_sight sights[2]; /* of rank 0's clock, which gives the times; zeros: of its own */
    double zero;         /* the time of that clock from which the file counts */
    yki_track *together; /* operations of all processes, in the same order in each; NULL: none */
    size_t operations;   /* of them, those that all processes have */
    const int32_t *last; /* by operation: the process that came last; NULL: not known */
} yki_timeline_part;

/* Takes pieces of the file. */
typedef struct yki_timeline_sink {
    yoke_status (*write)(void *user, const char *text, size_t length);
    void *user;
} yki_timeline_sink;

/* ---- timeline_clocks.c ---- */

/* What each process tells the others in a round of comparing clocks. */
typedef struct yki_clock_turn {
    double entered, left; /* when it entered this round, and left the one before */
    double open;          /* between its bounds so far, in seconds */
} yki_clock_turn;

enum { YKI_CLOCKS_WHY = 120 };

/* Finds what has to be added to this process's clock, `now`, to get rank 0's. All processes call
 * it. Takes a few milliseconds; a second where messages are slow. */
yoke_status yki_clocks_look(yoke_comm *comm, double (*now)(void), yki_sight *sight);
/* Whether two looks make a line that is good enough; if not, says why. */
bool yki_clocks_agree(const yki_sight *sights, char why[YKI_CLOCKS_WHY]);

/* ---- timeline_merge.c ---- */

/* Gives all processes the first error that one of them has, and its detail. All call it. NULL for
 * `comm`: this process alone. */
yoke_status yki_timeline_agree(yoke_comm *comm, yoke_status status);
/* Writes the file. All processes call it. If their clocks cannot be compared, each writes a file of
 * its own, and all fail with YOKE_ERROR_STATE. Changes `own`. */
yoke_status yki_timeline_save(yoke_comm *comm, yki_timeline_part *own, const char *path);

/* ---- timeline_json.c ---- */

/* Turns a time of this process's clock into one of the file's clock. */
static inline double
yki_timeline_time(const yki_timeline_part *part, double own)
{
    return part->sights[0].at != 0 ? yki_sight_convert(part->sights, own) : own;
}
/* Writes what comes before and behind the events of all processes. */
yoke_status yki_timeline_write_head(const yki_timeline_sink *to);
yoke_status yki_timeline_write_tail(const yki_timeline_sink *to);
/* Writes the events of this process. Changes the records. */
yoke_status yki_timeline_write(const yki_timeline_part *part, const yki_timeline_sink *to);

#endif
