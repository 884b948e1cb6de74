/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline_merge.c - the timelines of all processes as one file, which rank 0 writes.
 *
 * Each process makes the text of its own events, in times of rank 0's clock, and sends it in pieces
 * when it is its turn; so none holds more than a piece. A broadcast carries them: every comm has
 * it. If the clock of a process cannot be compared with rank 0's, a merged file would show what
 * never was. Then there is none, and each process writes its own beside it.
 *
 * Operations of all processes that belong together are joined by arrows: from the process that came
 * last, for which all others waited, to each of them.
 */
#include <stdio.h>
#include <string.h>

#include "train/timeline.h"

enum { DETAIL = 1000, AT_ONCE = 4096, BOX = 1 << 18 };

/* What each process tells all others at the end. */
typedef struct part {
    yki_sight sights[2];
    double begun;
    uint64_t operations;
    char host[64];
} part;

/* ---- all or none ---- */

yoke_status
yki_timeline_agree(yoke_comm *comm, yoke_status status)
{
    int32_t own = status, *all, first = -1;
    char detail[DETAIL] = "";
    yoke_status got;

    if (!comm)
        return status;
    all = yki_alloc((size_t)comm->ranks, sizeof *all, "answers of other processes");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (status != YOKE_OK)
        strncpy(detail, yoke_last_error(), sizeof detail - 1);
    got = comm->allgather(comm, &own, sizeof own, all);
    for (int32_t r = comm->ranks; r-- > 0 && got == YOKE_OK;)
        first = all[r] == YOKE_OK ? first : r;
    if (first >= 0)
        got = comm->broadcast(comm, detail, sizeof detail, first);
    if (got == YOKE_OK && first >= 0) {
        got = (yoke_status)all[first];
        yki_set_detail(detail);
    }
    yki_free(all);
    return got;
}

/* ---- who came last ---- */

/* Finds the process that came last to each operation. */
static yoke_status
find_last(yoke_comm *comm, const yki_timeline_part *own, int32_t *last)
{
    double begins[AT_ONCE];
    double *all =
        yki_alloc((size_t)comm->ranks * AT_ONCE, sizeof *all, "operations of other processes");
    yoke_status status = yki_timeline_agree(comm, all ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY);

    for (size_t at = 0; at < own->operations && status == YOKE_OK; at += AT_ONCE) {
        size_t some = YKI_MIN(own->operations - at, (size_t)AT_ONCE);

        for (size_t i = 0; i < some; i++)
            begins[i] = yki_timeline_time(own, own->together->records[at + i].begin);
        status = comm->allgather(comm, begins, some * sizeof *begins, all);
        for (size_t i = 0; i < some && status == YOKE_OK; i++) {
            last[at + i] = 0;
            for (int32_t r = 1; r < comm->ranks; r++)
                if (all[(size_t)r * some + i] > all[(size_t)last[at + i] * some + i])
                    last[at + i] = r;
        }
    }
    yki_free(all);
    return status;
}

/* ---- pieces ---- */

/* Gives the piece of another process, or of this one, to all: a size, then so many bytes. The end
 * is a piece of 0 bytes. */
static yoke_status
send_text(void *user, const char *text, size_t length)
{
    yoke_comm *comm = user;

    for (size_t at = 0; at < length || length == 0; at += BOX) {
        uint32_t size = (uint32_t)YKI_MIN(length - at, (size_t)BOX);

        YKI_TRY(comm->broadcast(comm, &size, sizeof size, comm->rank));
        if (size == 0)
            return YOKE_OK;
        YKI_TRY(comm->broadcast(comm, (char *)(uintptr_t)(text + at), size, comm->rank));
    }
    return YOKE_OK;
}

/* Takes all pieces of another process, even if they cannot be kept: *kept is that error. */
static yoke_status
take_text(yoke_comm *comm, int32_t from, char *box, const yki_timeline_sink *to, yoke_status *kept)
{
    uint32_t size;

    for (;;) {
        YKI_TRY(comm->broadcast(comm, &size, sizeof size, from));
        if (size == 0)
            return YOKE_OK;
        YKI_TRY(comm->broadcast(comm, box, size, from));
        if (to && *kept == YOKE_OK)
            *kept = to->write(to->user, box, size);
    }
}

/* Writes the events of all processes, in the order of ranks. `to` is rank 0's. */
static yoke_status
write_all(yoke_comm *comm, const yki_timeline_part *own, char *box, const yki_timeline_sink *to)
{
    const yki_timeline_sink away = {send_text, comm};
    yoke_status kept = YOKE_OK;

    if (to)
        kept = yki_timeline_write_head(to);
    if (to && kept == YOKE_OK)
        kept = yki_timeline_write(own, to);
    for (int32_t r = 1; comm && r < comm->ranks; r++) {
        if (r != comm->rank) {
            YKI_TRY(take_text(comm, r, box, to, &kept));
            continue;
        }
        kept = yki_timeline_write(own, &away);
        YKI_TRY(send_text(comm, NULL, 0));
    }
    return to && kept == YOKE_OK ? yki_timeline_write_tail(to) : kept;
}

/* ---- the file ---- */

static yoke_status
write_piece(void *user, const char *text, size_t length)
{
    return yki_replace_write(user, text, length);
}

/* Writes one file of all processes; without a comm, of this one. */
static yoke_status
write_file(const char *path, yoke_comm *comm, const yki_timeline_part *own)
{
    const bool writes = !comm || comm->rank == 0;
    char *box = yki_alloc(BOX, 1, "parts of a timeline");
    yki_timeline_sink to = {.write = write_piece};
    yki_replace *file = NULL;
    yoke_status status = box ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK && writes)
        status = yki_replace_begin(path, &file);
    to.user = file;
    status = yki_timeline_agree(comm, status);
    if (status == YOKE_OK)
        status = yki_timeline_agree(comm, write_all(comm, own, box, writes ? &to : NULL));
    if (status == YOKE_OK)
        status = yki_timeline_agree(comm, writes ? yki_replace_commit(file) : YOKE_OK);
    else if (file)
        yki_replace_drop(file);
    yki_free(box);
    return status;
}

/* A file of this process, in times of its own clock. */
static yoke_status
write_apart(const char *path, const yki_timeline_part *own)
{
    yki_timeline_part alone = {
        .trace = own->trace, .rank = own->rank, .host = own->host, .zero = own->trace->begun};
    char *name = yki_format("%s.rank-%d", path, own->rank);
    yoke_status status = name ? write_file(name, NULL, &alone) : YOKE_ERROR_OUT_OF_MEMORY;

    yki_free(name);
    return status;
}

/* ---- all of it ---- */

/* Fills in what depends on the other processes. `why` is empty, or says why there is no merged
 * file. */
static yoke_status
complete(yoke_comm *comm, yki_timeline_part *own, part *all, char *why, size_t size)
{
    part mine = {.begun = own->trace->begun, .operations = own->together->count};
    char reason[YKI_CLOCKS_WHY];

    memcpy(mine.sights, own->sights, sizeof mine.sights);
    memcpy(mine.host, comm->host, sizeof mine.host);
    YKI_TRY(comm->allgather(comm, &mine, sizeof mine, all));
    own->zero = all[0].begun;
    own->operations = (size_t)all[0].operations;
    *why = '\0';
    for (int32_t r = 1; r < comm->ranks; r++) {
        own->operations = YKI_MIN(own->operations, (size_t)all[r].operations);
        if (!*why && !yki_clocks_agree(all[r].sights, reason))
            snprintf(why, size, "the clocks of rank 0 (%s) and rank %d (%s) cannot be compared: %s",
                     all[0].host, r, all[r].host, reason);
    }
    if (comm->rank == 0) /* its clock is the one that counts */
        memset(own->sights, 0, sizeof own->sights);
    return YOKE_OK;
}

static yoke_status
write_merged(yoke_comm *comm, yki_timeline_part *own, const char *path)
{
    int32_t *last = yki_alloc(own->operations + 1, sizeof *last, "operations of all processes");
    yoke_status status = yki_timeline_agree(comm, last ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY);

    if (status == YOKE_OK)
        status = find_last(comm, own, last);
    own->last = last;
    if (status == YOKE_OK)
        status = write_file(path, comm, own);
    own->last = NULL;
    yki_free(last);
    return status;
}

yoke_status
yki_timeline_save(yoke_comm *comm, yki_timeline_part *own, const char *path)
{
    char why[512];
    part *all;
    yoke_status status;

    if (!comm)
        return write_file(path, NULL, own);
    all = yki_alloc((size_t)comm->ranks, sizeof *all, "timelines of other processes");
    status = yki_timeline_agree(comm, all ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY);
    if (status == YOKE_OK)
        status = complete(comm, own, all, why, sizeof why);
    yki_free(all);
    YKI_TRY(status);
    if (!*why)
        return write_merged(comm, own, path);
    YKI_TRY(yki_timeline_agree(comm, write_apart(path, own)));
    return yki_fail(YOKE_ERROR_STATE,
                    "%s: not written, because %s; each process has written its own timeline, in "
                    "times of its own clock: %s.rank-0 and so on",
                    path, why, path);
}
