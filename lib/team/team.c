/* SPDX-License-Identifier: Apache-2.0
 *
 * team.c - the devices that train together. A selector picks those of this process;
 * they are numbered through all processes of a comm.
 *
 * A team keeps the hardware of its devices in their present split. What they train,
 * and with which shares, is up to the trainer.
 */
#include <stdio.h>
#include <string.h>

#include "shares/shares.h"
#include "team/place_ranks.h"
#include "team/team.h"

/* Processes on one host divide its devices, unless the user has named them. */
static yoke_status
select_devices(yoke_team *team, yoke_context *context, const char *selector)
{
    const yoke_selection_options options = {.holder = "a team"};
    char placed[YKI_RANK_SELECTOR] = "";

    if (yki_team_comm(team))
        YKI_TRY(yki_place_ranks(context, team->comm, selector, placed, sizeof placed));
    YKI_TRY(
        yoke_selection_create(context, placed[0] ? placed : selector, &options, &team->selection));
    team->count = yoke_selection_count(team->selection);
    return YOKE_OK;
}

/* Counts the devices of the ranks before this one, and of all. */
static yoke_status
number_devices(yoke_team *team)
{
    int64_t own = (int64_t)team->count, *counts;
    yoke_status status;

    team->total = team->count;
    if (!yki_team_comm(team))
        return YOKE_OK;
    counts = yki_alloc((size_t)team->comm->ranks, sizeof *counts, "device counts");
    if (!counts)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = team->comm->allgather(team->comm, &own, sizeof own, counts);
    team->total = 0;
    for (int32_t r = 0; r < team->comm->ranks; r++) {
        if (r == team->comm->rank)
            team->first = team->total;
        team->total += (size_t)counts[r];
    }
    yki_free(counts);
    return status;
}

/* Gathers the names of all devices for messages. All processes call it. */
static yoke_status
name_devices(yoke_team *team)
{
    const yoke_comm *comm = yki_team_comm(team);

    team->names = yki_alloc(team->total, YKI_TEAM_NAME, "names of devices");
    if (!team->names)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < team->count; k++) {
        char *name = team->names + (team->first + k) * YKI_TEAM_NAME;
        const char *id = yki_device_id(yoke_team_get_device(team, k));

        if (comm)
            snprintf(name, YKI_TEAM_NAME, "rank %d %s", comm->rank, id);
        else
            snprintf(name, YKI_TEAM_NAME, "%s", id);
    }
    return yki_team_share_rows(team, NULL, YKI_TEAM_NAME, team->names);
}

/* What a device does not promise of its arithmetic. */
typedef struct arithmetic {
    int32_t not_to_nearest; /* rounding */
    int32_t no_denormals, no_quotients;
} arithmetic;

/* Decides what updates may rely on. A device that does not round to the nearest number cannot keep
 * its replica equal to the others. What else one does not promise, all get in software. */
static yoke_status
compare_arithmetic(yoke_team *team, const arithmetic *of)
{
    for (size_t k = 0; k < team->total; k++)
        if (of[k].not_to_nearest)
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "%s does not round to the nearest number, so its weights would drift "
                            "from those of other devices; must be the only device of a team",
                            yoke_team_get_device_name(team, k));
    for (size_t k = 0; k < team->total && !team->settle; k++) {
        team->settle = of[k].no_denormals || of[k].no_quotients;
        if (team->settle)
            yki_log(YOKE_LOG_INFO,
                    "%s does not promise %s; updates do without on all devices of the team",
                    yoke_team_get_device_name(team, k),
                    of[k].no_denormals ? "to keep numbers below 1.2e-38"
                                       : "to round quotients correctly");
    }
    return YOKE_OK;
}

/* Gathers what all devices say of their arithmetic. All processes call it. */
static yoke_status
agree_on_arithmetic(yoke_team *team)
{
    arithmetic *of = yki_alloc(team->total, sizeof *of, "the arithmetic of devices");
    yoke_status status;

    if (!of)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < team->count; k++) {
        const yki_device_traits *traits = yki_device_get_traits(yoke_team_get_device(team, k));

        of[team->first + k] =
            (arithmetic){!traits->to_nearest, !traits->denormals, !traits->rounded};
    }
    status = yki_team_share_rows(team, NULL, sizeof *of, of);
    if (status == YOKE_OK && team->total > 1)
        status = compare_arithmetic(team, of);
    yki_free(of);
    return status;
}

yoke_status
yoke_team_create_sized(yoke_context *context, const char *selector, const yoke_team_options *given,
                       size_t size, yoke_team **out)
{
    yoke_team_options options = {0};
    yoke_comm *comm;
    yoke_team *team;
    yoke_status status;

    if (!context || !out)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_team_create: %s is NULL",
                        context ? "team" : "context");
    if (given)
        memcpy(&options, given, YKI_MIN(size, sizeof options));
    comm = options.comm;
    if (comm && (comm->size < offsetof(yoke_comm, reserved) || comm->ranks < 1 || comm->rank < 0 ||
                 comm->rank >= comm->ranks))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_team_create: the comm says that this is rank %d of %d; must be at "
                        "least 0 and below the number of ranks",
                        comm->rank, comm->ranks);
    for (size_t i = 0; comm && comm->size >= sizeof *comm && i < YKI_COUNT(comm->reserved); i++)
        if (comm->reserved[i])
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "yoke_team_create: reserved[%zu] of the comm is not NULL; set the "
                            "whole struct to 0 before filling it in",
                            i);
    team = yki_alloc(1, sizeof *team, "a team");
    if (!team)
        return YOKE_ERROR_OUT_OF_MEMORY;
    atomic_store(&team->references, 1);
    team->comm = yki_comm_retain(comm);
    status = select_devices(team, context, selector);
    if (status == YOKE_OK)
        status = number_devices(team);
    if (status == YOKE_OK)
        status = name_devices(team);
    if (status == YOKE_OK)
        status = agree_on_arithmetic(team);
    if (status != YOKE_OK) {
        yki_team_fail(team); /* the others wait for this process's count or names */
        yoke_team_destroy(team);
        return status;
    }
    *out = team;
    return YOKE_OK;
}

yoke_team *
yki_team_retain(yoke_team *team)
{
    atomic_fetch_add(&team->references, 1);
    return team;
}

void
yoke_team_destroy(yoke_team *team)
{
    if (!team || atomic_fetch_sub(&team->references, 1) != 1)
        return;
    for (size_t i = 0; i < team->place_count; i++)
        yki_free(team->places[i].name);
    yki_free(team->places);
    yoke_selection_destroy(team->selection);
    yoke_comm_destroy(team->comm);
    yki_free(team->names);
    yki_free(team);
}

yoke_comm *
yki_team_comm(const yoke_team *team)
{
    return team->comm && team->comm->ranks > 1 ? team->comm : NULL;
}

void
yki_team_fail(const yoke_team *team)
{
    yoke_comm *comm = yki_team_comm(team);

    if (comm && comm->fail)
        comm->fail(comm, yoke_last_error());
}

size_t
yoke_team_local_count(const yoke_team *team)
{
    return team ? team->count : 0;
}

size_t
yoke_team_count(const yoke_team *team)
{
    return team ? team->total : 0;
}

yoke_device *
yoke_team_get_device(const yoke_team *team, size_t index)
{
    return team && index < team->count ? yoke_selection_get(team->selection, index) : NULL;
}

const char *
yoke_team_get_device_name(const yoke_team *team, size_t index)
{
    return team && index < team->total ? team->names + index * YKI_TEAM_NAME : NULL;
}

/* ---- places ---- */

/* Finds the one device that a selector means: its index in this process. */
static yoke_status
find_device(const yoke_team *team, const char *place, const char *selector, size_t *device)
{
    const yoke_selection_options options = {.holder = "the binding of a place"};
    yoke_context *context = yki_device_context(yoke_selection_get(team->selection, 0));
    yoke_selection *selection;
    yoke_status status = YOKE_OK;
    const char *id;

    YKI_TRY(yoke_selection_create(context, selector, &options, &selection));
    id = yki_device_id(yoke_selection_get(selection, 0));
    *device = 0;
    if (yoke_selection_count(selection) != 1)
        status =
            yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                     "the selector \"%s\" for the place \"%s\" stands for %zu devices; must be one",
                     selector, place, yoke_selection_count(selection));
    while (status == YOKE_OK && *device < team->count &&
           strcmp(yki_device_id(yoke_team_get_device(team, *device)), id) != 0)
        ++*device;
    if (*device == team->count)
        status = yki_fail(YOKE_ERROR_NO_DEVICE,
                          "the place \"%s\" is to be bound to %s; must be a device of the team",
                          place, id);
    yoke_selection_destroy(selection);
    return status;
}

yoke_status
yoke_team_bind_place(yoke_team *team, const char *place, const char *selector)
{
    size_t device;
    char *name;

    YKI_GIVEN("yoke_team_bind_place", {"team", team}, {"place", place}, {"selector", selector});
    if (!*place)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_team_bind_place: place is empty; must be the name of a place");
    YKI_TRY(find_device(team, place, selector, &device));
    for (size_t i = 0; i < team->place_count; i++)
        if (strcmp(team->places[i].name, place) == 0) {
            team->places[i].device = device;
            return YOKE_OK;
        }
    YKI_TRY(yki_grow((void **)&team->places, &team->place_capacity, team->place_count + 1,
                     sizeof *team->places, "places"));
    name = yki_strdup(place, "a place's name");
    if (!name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    team->places[team->place_count++] = (yki_place_binding){name, device};
    return YOKE_OK;
}

yoke_status
yki_team_find_place(const yoke_team *team, const char *name, size_t *device)
{
    for (size_t i = 0; i < team->place_count; i++)
        if (strcmp(team->places[i].name, name) == 0) {
            *device = team->places[i].device;
            return YOKE_OK;
        }
    return yki_fail(
        YOKE_ERROR_NOT_FOUND,
        "the graph's place \"%s\" is bound to no device; call yoke_team_bind_place before", name);
}

yoke_status
yoke_team_split(const yoke_team *team, const char *shares, int64_t n, int64_t *counts)
{
    YKI_GIVEN("yoke_team_split", {"team", team}, {"counts", counts});
    if (n < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_team_split: n", n, 0, INT64_MAX);
    return yki_shares_split(shares, team->total, n, counts);
}
