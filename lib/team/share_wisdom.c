/* SPDX-License-Identifier: Apache-2.0
 *
 * share_wisdom.c - the order in which processes plan, and whose wisdom they use.
 *
 * Rank 0 plans first and sends its wisdom to all: what its file holds and what it has just
 * measured. Devices of the same kind as one of rank 0's choose by it, whatever their own files
 * say, so they compute alike (lib/plan/wisdom.c has the rule). If the first process of a host has
 * no such device it does not wait: it measures at the same time as rank 0. The other processes of
 * a host read the file of the first one.
 */
#include <stdlib.h>
#include <string.h>

#include "team/crew.h"

/* Sends rank 0's text to all. The other ranks own what they get. */
static yoke_status
spread(yoke_comm *comm, char **text)
{
    uint64_t size = *text ? strlen(*text) : 0;

    YKI_TRY(comm->broadcast(comm, &size, sizeof size, 0));
    if (comm->rank != 0) {
        *text = size < SIZE_MAX ? yki_alloc((size_t)size + 1, 1, "wisdom of rank 0") : NULL;
        if (!*text)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    return size ? comm->broadcast(comm, *text, (size_t)size, 0) : YOKE_OK;
}

/* Lists the kinds of this process's devices as "|NAME|NAME|". Names are taken to have no bar. */
static char *
kinds_of(const yki_crew *crew)
{
    char *text = yki_strdup("|", "kinds of devices");

    for (size_t k = 0; k < crew->count && text; k++) {
        char name[1024], *longer;

        yki_device_describe(yoke_team_get_device(crew->team, k), name, sizeof name);
        longer = yki_format("%s%s|", text, name);
        yki_free(text);
        text = longer;
    }
    return text;
}

static bool
has_kind(const yki_crew *crew, const char *kinds)
{
    bool found = false;

    for (size_t k = 0; k < crew->count && !found; k++) {
        char name[1024], *sought;

        yki_device_describe(yoke_team_get_device(crew->team, k), name, sizeof name);
        sought = yki_format("|%s|", name);
        found = sought && strstr(kinds, sought);
        yki_free(sought);
    }
    return found;
}

/* Whether one of this process's devices is of a kind that rank 0 has. */
static yoke_status
is_alike(const yki_crew *crew, bool *alike)
{
    char *kinds = crew->comm->rank == 0 ? kinds_of(crew) : NULL;
    yoke_status status = crew->comm->rank == 0 && !kinds ? YOKE_ERROR_OUT_OF_MEMORY : YOKE_OK;

    if (status == YOKE_OK)
        status = spread(crew->comm, &kinds);
    *alike = status == YOKE_OK && has_kind(crew, kinds);
    yki_free(kinds);
    return status;
}

/* Sends rank 0's wisdom to all. */
static yoke_status
teach(const yki_crew *crew)
{
    yki_wisdom **parts;
    char *text = NULL;
    yoke_status status = YOKE_OK;

    parts = yki_alloc(crew->count, sizeof *parts, "wisdom");
    if (!parts)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->count; k++)
        parts[k] = crew->members[k].replica->wisdom;
    if (crew->comm->rank == 0)
        status = yki_wisdom_tell(parts, crew->count, &text);
    if (status == YOKE_OK)
        status = spread(crew->comm, &text);
    for (size_t k = 0; k < crew->count && crew->comm->rank != 0 && status == YOKE_OK; k++)
        status = yki_wisdom_follow(parts[k], text);
    free(crew->comm->rank == 0 ? text : NULL); /* allocated by open_memstream */
    yki_free(crew->comm->rank == 0 ? NULL : text);
    yki_free(parts);
    return status;
}

static yoke_status
read_again(const yki_crew *crew)
{
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(yki_wisdom_refresh(crew->members[k].replica->wisdom));
    return YOKE_OK;
}

yoke_status
yki_crew_in_turn(yki_crew *crew, yoke_status (*act)(yki_crew *crew, void *user), void *user)
{
    yoke_comm *comm = crew->comm;
    bool alike, opens, early;

    if (!comm)
        return act(crew, user);
    YKI_TRY(is_alike(crew, &alike));
    opens = comm->rank == 0 || comm->local_rank == 0;
    early = comm->rank == 0 || (opens && !alike);
    if (early)
        YKI_TRY(act(crew, user));
    YKI_TRY(teach(crew));
    if (opens && !early)
        YKI_TRY(act(crew, user));
    YKI_TRY(comm->barrier(comm));
    if (opens)
        return YOKE_OK;
    YKI_TRY(read_again(crew));
    return act(crew, user);
}
