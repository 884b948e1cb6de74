/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - the timeline of a trainer: which queues and which work of the host it shows, its
 * begin, its end, and its file.
 *
 * The crew and the trainer record spans of the host where they do the work; here tracks are made
 * for them. A timeline begins and ends between steps.
 */
#include "train/timeline.h"

#include <stdio.h>
#include <string.h>

/* Of all processes, about 150 bytes each: a file of a few hundred MB, which is as much as viewers
 * take. */
enum { MOST_RECORDS = 1 << 20 };

/* ---- queues ---- */

/* Writes the name of a member's track. Core groups have the id of the whole device. */
static void
name_track(const yoke_trainer *t, size_t member, const char *work, char name[128])
{
    const char *id = yki_device_id(yki_queue_device(t->crew.members[member].replica->queue));

    if (t->core_groups.taken)
        snprintf(name, 128, "%s group %zu %s", id, member, work);
    else
        snprintf(name, 128, "%s %s", id, work);
}

static yoke_status
trace_queue(yoke_trainer *t, size_t member, yki_queue *queue, const char *work)
{
    char name[128];

    if (!queue)
        return YOKE_OK;
    name_track(t, member, work, name);
    return yki_queue_trace(queue, t->timeline->trace, name);
}

/* The queue of what is given to inputs is made when something is. */
static yoke_status
trace_transfers(yoke_trainer *t, size_t member)
{
    yoke_replica *r = t->crew.members[member].replica;

    name_track(t, member, "transfers", r->traced.name);
    r->traced.trace = t->timeline->trace;
    return trace_queue(t, member, r->transfer, "transfers");
}

yoke_status
yki_timeline_add_prefetch(yoke_trainer *t, yki_loaders *loaders)
{
    if (!t->timeline || !loaders->ahead)
        return YOKE_OK;
    if (!loaders->track)
        YKI_TRY(yki_trace_add_track(t->timeline->trace, YKI_TRACK_HOST, "reading ahead",
                                    &loaders->track));
    yki_prefetch_trace(loaders->ahead, loaders->track);
    return YOKE_OK;
}

yoke_status
yki_timeline_add_loaders(yoke_trainer *t, yki_loaders *loaders)
{
    for (size_t k = 0; t->timeline && loaders->loaders && k < t->crew.count; k++)
        YKI_TRY(trace_queue(t, k, yki_loader_transfer(loaders->loaders[k]), "transfers"));
    return yki_timeline_add_prefetch(t, loaders);
}

static yoke_status
trace_all(yoke_trainer *t)
{
    yki_trace *trace = t->timeline->trace;

    for (size_t k = 0; k < t->crew.count; k++) {
        YKI_TRY(trace_queue(t, k, t->crew.members[k].replica->queue, "commands"));
        YKI_TRY(trace_transfers(t, k));
        YKI_TRY(trace_queue(t, k, t->crew.members[k].side, "sums"));
        YKI_TRY(trace_queue(t, k, t->crew.members[k].back, "sums of all devices"));
    }
    YKI_TRY(yki_timeline_add_loaders(t, &t->train_loaders));
    YKI_TRY(yki_timeline_add_loaders(t, &t->test_loaders));
    YKI_TRY(yki_timeline_add_loaders(t, &t->predict_loaders));
    YKI_TRY(yki_trace_add_track(trace, YKI_TRACK_HOST, "host", &t->crew.host_track));
    if (t->crew.landings)
        YKI_TRY(yki_trace_add_track(trace, YKI_TRACK_HOST, "sums of devices", &t->crew.adds_track));
    if (t->crew.comm)
        YKI_TRY(yki_trace_add_track(trace, YKI_TRACK_EXCHANGE, "all processes",
                                    &t->timeline->together));
    t->crew.comm_track = t->timeline->together;
    return YOKE_OK;
}

static yoke_status
untrace_loaders(yoke_trainer *t, yki_loaders *loaders)
{
    yoke_status status = YOKE_OK;

    if (loaders->ahead)
        yki_prefetch_trace(loaders->ahead, NULL);
    loaders->track = NULL;
    for (size_t k = 0; loaders->loaders && k < t->crew.count; k++) {
        yki_queue *queue = yki_loader_transfer(loaders->loaders[k]);
        yoke_status one = queue ? yki_queue_untrace(queue) : YOKE_OK;

        status = status == YOKE_OK ? one : status;
    }
    return status;
}

/* Frees all queues from the trace, whatever fails, and returns the first error. */
static yoke_status
untrace_all(yoke_trainer *t)
{
    yoke_status status = YOKE_OK, one;

    yki_landings_settle(&t->crew);
    t->crew.host_track = t->crew.comm_track = t->crew.adds_track = NULL;
    for (size_t k = 0; k < t->crew.count; k++) {
        yki_queue *transfer = t->crew.members[k].replica->transfer;

        t->crew.members[k].replica->traced.trace = NULL;
        one = yki_queue_untrace(t->crew.members[k].replica->queue);
        status = status == YOKE_OK ? one : status;
        one = transfer ? yki_queue_untrace(transfer) : YOKE_OK;
        status = status == YOKE_OK ? one : status;
        one = t->crew.members[k].side ? yki_queue_untrace(t->crew.members[k].side) : YOKE_OK;
        status = status == YOKE_OK ? one : status;
        one = t->crew.members[k].back ? yki_queue_untrace(t->crew.members[k].back) : YOKE_OK;
        status = status == YOKE_OK ? one : status;
    }
    one = untrace_loaders(t, &t->train_loaders);
    status = status == YOKE_OK ? one : status;
    one = untrace_loaders(t, &t->test_loaders);
    status = status == YOKE_OK ? one : status;
    one = untrace_loaders(t, &t->predict_loaders);
    return status == YOKE_OK ? one : status;
}

/* ---- numbers ---- */

void
yki_timeline_count(yoke_trainer *t, const yki_flight *flight)
{
    const yoke_team *team = t->team;
    yoke_memory_usage usage;
    double at;

    if (!t->timeline)
        return;
    at = yki_now();
    if (!t->crew.comm || t->crew.comm->rank == 0) {
        if (flight->pairs[1] > 0)
            yki_trace_count(t->timeline->trace, at, "loss", "loss",
                            (double)(flight->pairs[0] / flight->pairs[1]));
        for (size_t k = 0; k < team->total && !t->core_groups.taken; k++)
            yki_trace_count(t->timeline->trace, at, "samples", yoke_team_get_device_name(team, k),
                            (double)flight->counts[k]);
    }
    for (size_t k = 0; k < team->count; k++)
        if (yoke_device_get_memory(yoke_team_get_device(team, k), &usage) == YOKE_OK)
            yki_trace_count(t->timeline->trace, at, "memory",
                            yki_device_id(yoke_team_get_device(team, k)), (double)usage.used);
}

/* ---- begin and end ---- */

/* Fails now if the file cannot be written at the end, because training may take long. */
static yoke_status
try_path(const char *path)
{
    yki_replace *file;

    YKI_TRY(yki_replace_begin(path, &file));
    yki_replace_drop(file);
    return YOKE_OK;
}

void
yki_timeline_drop(yoke_trainer *t)
{
    if (!t->timeline)
        return;
    (void)untrace_all(t);
    yki_trace_destroy(t->timeline->trace);
    yki_free(t->timeline->path);
    yki_free(t->timeline);
    t->timeline = NULL;
}

static yoke_status
make(yoke_trainer *t, const char *path)
{
    const size_t most = MOST_RECORDS / (t->crew.comm ? (size_t)t->crew.comm->ranks : 1);

    t->timeline = yki_alloc(1, sizeof *t->timeline, "a timeline");
    if (!t->timeline)
        return YOKE_ERROR_OUT_OF_MEMORY;
    t->timeline->path = yki_strdup(path, "a path");
    if (!t->timeline->path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_trace_create(most, &t->timeline->trace));
    return trace_all(t);
}

static yoke_status
begin(yoke_trainer *t, const char *path)
{
    yoke_comm *comm = t->crew.comm;
    yoke_status status = YOKE_OK;

    if (t->timeline)
        return yki_fail(YOKE_ERROR_STATE,
                        "yoke_trainer_trace: a timeline is recorded already, for %s; end it with a "
                        "path that is NULL",
                        t->timeline->path);
    YKI_TRY(yoke_trainer_wait(t));
    if (!comm || comm->rank == 0)
        status = try_path(path);
    if (status == YOKE_OK)
        status = make(t, path);
    status = yki_timeline_agree(comm, status);
    if (status == YOKE_OK && comm)
        status = yki_clocks_look(comm, yki_now, &t->timeline->sights[0]);
    if (status != YOKE_OK)
        yki_timeline_drop(t);
    return status;
}

static yoke_status
save(yoke_trainer *t)
{
    yoke_comm *comm = t->crew.comm;
    const yki_timeline *line = t->timeline;
    yki_timeline_part part = {.trace = line->trace,
                              .rank = comm ? comm->rank : 0,
                              .ranks = comm ? comm->ranks : 1,
                              .host = comm ? comm->host : "",
                              .zero = line->trace->begun,
                              .together = line->together};

    memcpy(part.sights, line->sights, sizeof part.sights);
    return yki_timeline_save(comm, &part, line->path);
}

static yoke_status
end(yoke_trainer *t)
{
    yki_timeline *line = t->timeline;
    yoke_comm *comm = t->crew.comm;
    yoke_status status;

    if (!line)
        return yki_fail(YOKE_ERROR_STATE, "yoke_trainer_trace: no timeline is recorded; begin one "
                                          "with the path of its file");
    status = yoke_trainer_wait(t);
    if (status == YOKE_OK)
        status = yki_timeline_agree(comm, untrace_all(t));
    if (status == YOKE_OK && comm)
        status = yki_clocks_look(comm, yki_now, &line->sights[1]);
    if (status == YOKE_OK)
        status = save(t);
    if (status == YOKE_OK && atomic_load(&line->trace->lost))
        yki_log(YOKE_LOG_WARNING, "%s: the timeline ends early: it takes %d records at most",
                line->path, MOST_RECORDS);
    yki_timeline_drop(t);
    return status;
}

yoke_status
yoke_trainer_trace(yoke_trainer *t, const char *path)
{
    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_trace"));
    return path ? begin(t, path) : end(t);
}
