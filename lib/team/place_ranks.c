/* SPDX-License-Identifier: Apache-2.0
 *
 * place_ranks.c - divides the devices of a host among its processes.
 *
 * Idea: every process tells all others what it sees, and each computes the same division.
 * Only hardware that two processes would both take is divided: it has the same identity on
 * the same machine and, if it is a CPU, the processes' masks of processors overlap. CPUs are
 * split evenly. Other devices are dealt out: first one to each process, then the rest, so a
 * device is split only if there are more processes than devices. A process whose user has
 * named devices gets those, and the division leaves it out.
 *
 * Machines are told apart by the boot id of their kernel, not by their name: containers on one
 * machine have different names and share the hardware.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team/place_ranks.h"

static bool
same_machine(const yki_rank *a, const yki_rank *b)
{
    return strcmp(a->machine, b->machine) == 0;
}

static bool
masks_overlap(const yki_rank *a, const yki_rank *b)
{
    for (size_t i = 0; i < sizeof a->mask; i++)
        if (a->mask[i] & b->mask[i])
            return true;
    return false;
}

/* Finds the hardware of `device`, which `other` sees, in the list of `rank`: its index, or -1 if
 * `rank` does not share it. */
static int
find_device(const yki_rank *rank, const yki_rank *other, const yki_rank_device *device)
{
    if (rank->has_selector || !same_machine(rank, other))
        return -1;
    for (uint32_t d = 0; d < rank->device_count; d++)
        if (strcmp(rank->devices[d].hardware, device->hardware) == 0 &&
            rank->devices[d].is_cpu == device->is_cpu)
            return (int)d;
    return -1;
}

/* ---- CPUs ---- */

/* Finds the ranks whose masks overlap with this one's, directly or through others: in[] by rank. */
static void
find_circle(const yki_rank *ranks, int count, int rank, const yki_rank_device *cpu, bool *in)
{
    bool grown = true;

    memset(in, 0, (size_t)count * sizeof *in);
    in[rank] = true;
    while (grown) {
        grown = false;
        for (int a = 0; a < count; a++)
            for (int b = 0; in[a] && b < count; b++)
                if (!in[b] && find_device(&ranks[b], &ranks[rank], cpu) >= 0 &&
                    masks_overlap(&ranks[a], &ranks[b]))
                    in[b] = grown = true;
    }
}

/* Finds the sub-device of a CPU that `rank` takes: number `part` of `parts`. If there are more
 * ranks than compute units, several ranks take one. */
static void
divide_cpu(const yki_rank *ranks, int count, int rank, const yki_rank_device *cpu, bool *circle,
           uint32_t *part, uint32_t *parts)
{
    uint32_t sharers = 0, mine = 0, least = cpu->units;

    find_circle(ranks, count, rank, cpu, circle);
    for (int r = 0; r < count; r++) {
        const yki_rank_device *seen;

        if (!circle[r])
            continue;
        seen = &ranks[r].devices[find_device(&ranks[r], &ranks[rank], cpu)];
        least = YKI_MIN(least, seen->units);
        mine += r < rank;
        sharers++;
    }
    *parts = YKI_MAX(YKI_MIN(sharers, least), 1);
    *part = mine % *parts;
}

/* ---- other devices: dealt out ---- */

/* One device of a machine, and how many processes take it. */
typedef struct hand {
    const yki_rank_device *device;
    const yki_rank *owner; /* a process that sees it */
    uint32_t takers;
} hand;

typedef struct dealing {
    const yki_rank *ranks;
    int count;
    hand *hands;
    size_t hand_count;
    uint32_t *load;  /* by rank: devices that it takes */
    int32_t *places; /* by hand and rank: index among the takers; -1: does not take it */
} dealing;

static size_t
find_hand(const dealing *deal, const yki_rank *rank, const yki_rank_device *device)
{
    size_t h = 0;

    while (h < deal->hand_count && (!same_machine(deal->hands[h].owner, rank) ||
                                    strcmp(deal->hands[h].device->hardware, device->hardware) != 0))
        h++;
    return h;
}

static void
collect_hands(dealing *deal)
{
    for (int r = 0; r < deal->count; r++) {
        for (uint32_t d = 0; !deal->ranks[r].has_selector && d < deal->ranks[r].device_count; d++) {
            const yki_rank_device *device = &deal->ranks[r].devices[d];

            if (device->is_cpu || find_hand(deal, &deal->ranks[r], device) < deal->hand_count)
                continue;
            deal->hands[deal->hand_count++] = (hand){.device = device, .owner = &deal->ranks[r]};
        }
    }
}

static void
give(dealing *deal, size_t h, int rank)
{
    deal->places[h * (size_t)deal->count + (size_t)rank] = (int32_t)deal->hands[h].takers++;
    deal->load[rank]++;
}

static void
deal_out(dealing *deal)
{
    /* Each rank that sees any device gets one: the one with the fewest takers. */
    for (int r = 0; r < deal->count; r++) {
        size_t best = deal->hand_count;

        for (size_t h = 0; h < deal->hand_count; h++)
            if (find_device(&deal->ranks[r], deal->hands[h].owner, deal->hands[h].device) >= 0 &&
                (best == deal->hand_count || deal->hands[h].takers < deal->hands[best].takers))
                best = h;
        if (best < deal->hand_count)
            give(deal, best, r);
    }
    /* Each device that is left goes to the rank that has the fewest. */
    for (size_t h = 0; h < deal->hand_count; h++) {
        int best = -1;

        for (int r = 0; deal->hands[h].takers == 0 && r < deal->count; r++)
            if (find_device(&deal->ranks[r], deal->hands[h].owner, deal->hands[h].device) >= 0 &&
                (best < 0 || deal->load[r] < deal->load[best]))
                best = r;
        if (best >= 0)
            give(deal, h, best);
    }
}

static void
deal_clear(dealing *deal)
{
    yki_free(deal->hands);
    yki_free(deal->load);
    yki_free(deal->places);
}

static yoke_status
deal_create(const yki_rank *ranks, int count, dealing *deal)
{
    size_t most = 0;

    *deal = (dealing){.ranks = ranks, .count = count};
    for (int r = 0; r < count; r++)
        most += ranks[r].device_count;
    deal->hands = yki_alloc(most + 1, sizeof *deal->hands, "devices of all processes");
    deal->load = yki_alloc((size_t)count, sizeof *deal->load, "devices of all processes");
    if (!deal->hands || !deal->load) {
        deal_clear(deal);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    collect_hands(deal);
    deal->places = yki_alloc(deal->hand_count * (size_t)count + 1, sizeof *deal->places,
                             "devices of all processes");
    if (!deal->places) {
        deal_clear(deal);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < deal->hand_count * (size_t)count; i++)
        deal->places[i] = -1;
    deal_out(deal);
    return YOKE_OK;
}

/* ---- the selector ---- */

static void
append(char *text, size_t size, const char *id, uint32_t part, uint32_t parts)
{
    size_t length = strlen(text);
    const char *comma = length ? "," : "";

    if (parts > 1)
        snprintf(text + length, size - length, "%s%s/%u.%u", comma, id, parts, part);
    else
        snprintf(text + length, size - length, "%s%s", comma, id);
}

yoke_status
yki_place_rank(const yki_rank *ranks, int count, int rank, char *selector, size_t size)
{
    bool *circle = yki_alloc((size_t)count, sizeof *circle, "the ranks of a host");
    const yki_rank *me = &ranks[rank];
    dealing deal;
    yoke_status status = circle ? deal_create(ranks, count, &deal) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status != YOKE_OK) {
        yki_free(circle);
        return status;
    }
    selector[0] = '\0';
    for (uint32_t d = 0; d < me->device_count; d++) {
        const yki_rank_device *device = &me->devices[d];
        uint32_t part = 0, parts = 1;

        if (device->is_cpu) {
            divide_cpu(ranks, count, rank, device, circle, &part, &parts);
        } else {
            size_t h = find_hand(&deal, me, device);
            int32_t place =
                h < deal.hand_count ? deal.places[h * (size_t)count + (size_t)rank] : -1;

            if (place < 0)
                continue;
            part = (uint32_t)place;
            parts = deal.hands[h].takers;
        }
        append(selector, size, device->id, part, parts);
    }
    deal_clear(&deal);
    yki_free(circle);
    return YOKE_OK;
}

/* ---- what this process sees ---- */

static void
read_machine(const yoke_comm *comm, yki_rank *rank)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    snprintf(rank->machine, sizeof rank->machine, "%s", comm->host);
    if (!file)
        return;
    if (fscanf(file, "%63s", rank->machine) != 1)
        snprintf(rank->machine, sizeof rank->machine, "%s", comm->host);
    fclose(file);
}

/* Where the system has no masks, a process counts as running on all processors. */
static void
read_mask(yki_rank *rank)
{
#ifdef CPU_SETSIZE
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (size_t i = 0; i < CPU_SETSIZE && i < 8 * sizeof rank->mask; i++)
            if (CPU_ISSET(i, &set))
                rank->mask[i / 8] |= (uint8_t)(1u << (i % 8));
        return;
    }
#endif
    memset(rank->mask, 0xff, sizeof rank->mask);
}

static yoke_status
list_devices(yoke_context *context, yki_rank *rank)
{
    for (size_t i = 0; i < yoke_context_device_count(context); i++) {
        yki_rank_device *device = &rank->devices[rank->device_count];
        yoke_device_info info;

        YKI_TRY(yoke_device_get_info(yoke_context_get_device(context, i), &info));
        /* If a chip has several drivers, takes the one that the selector "all" takes. */
        if (strcmp(info.id, info.preferred) != 0)
            continue;
        if (rank->device_count == YKI_RANK_DEVICES)
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "a process has more than %d devices; name those to use",
                            YKI_RANK_DEVICES);
        memcpy(device->id, info.id, sizeof device->id);
        memcpy(device->hardware, info.hardware, sizeof device->hardware);
        device->is_cpu = info.type == YOKE_DEVICE_CPU;
        device->units = info.partition ? info.compute_units : UINT32_MAX; /* slices: any number */
        rank->device_count++;
    }
    return YOKE_OK;
}

yoke_status
yki_place_ranks(yoke_context *context, yoke_comm *comm, const char *given, char *selector,
                size_t size)
{
    yki_rank own = {0}, *ranks = yki_alloc((size_t)comm->ranks, sizeof *ranks, "the processes");
    const char *environment = getenv("YOKE_DEVICES");
    yoke_status status = ranks ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY, listed = YOKE_OK;

    own.has_selector = given || (environment && *environment);
    read_machine(comm, &own);
    read_mask(&own);
    if (status == YOKE_OK && !own.has_selector)
        listed = list_devices(context, &own);
    if (status == YOKE_OK) /* also if `listed` is an error: the others wait for this process */
        status = comm->allgather(comm, &own, sizeof own, ranks);
    if (status == YOKE_OK)
        status = listed;
    if (status == YOKE_OK) {
        selector[0] = '\0';
        if (!own.has_selector)
            status = yki_place_rank(ranks, comm->ranks, comm->rank, selector, size);
    }
    yki_free(ranks);
    return status;
}
