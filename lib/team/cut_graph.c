/* SPDX-License-Identifier: Apache-2.0
 *
 * cut_graph.c - cuts a graph into stages for the devices of a crew, by what its nodes take of each.
 *
 * Units are the computed nodes in the order of the graph, each with what is computed of it in
 * backward, and with the parameters that it reads first. A device's times and bytes are those of a
 * plan of the whole graph, of which only the decisions are made (plan/loads.c). The graph is not
 * cut where a value would cross that this plan does not make, because its task is joined with
 * another. cut.c then finds the best cut.
 */
#include <string.h>

#include "team/cut.h"
#include "team/stages.h"

enum {
    NOWHERE = UINT32_MAX,
    AT_ONCE = 2 /* tasks of an evaluation whose values live at a time, about */
};
/* Assumed of what crosses: where memory is shared, and where the host copies. */
#define SECONDS_PER_BYTE      5e-11
#define SECONDS_PER_SENT_BYTE 5e-10

/* What the process of a device knows of it. Devices are those of all processes. */
typedef struct known {
    uint64_t memory; /* bytes that are left */
    double speed;    /* a guess */
    double kept;     /* of the first device */
    bool measured;
    bool shares; /* memory with the first device */
} known;

typedef struct cutting {
    const yki_crew *crew;
    const yki_crew_options *options;
    const yoke_graph *graph;
    size_t own;             /* nodes that are not gradients or sums over the batch */
    bool *live;             /* by node */
    uint32_t *unit;         /* by node; or NOWHERE */
    uint32_t *until;        /* by node: the last unit that reads it */
    const yoke_node **sums; /* by node: whose gradient a sum of gradients is */
    yki_load *loads;        /* by device and node */
    bool measured;
    yki_cut_unit *units;
    double *seconds; /* by device and unit */
    yki_cut_device *devices;
    known *known;        /* by device */
    uint32_t *device_of; /* by unit */
    size_t count;        /* of units */
    double kept;         /* part of what backward reads that stays, if it computes again; 1: all */
} cutting;

static bool
make(cutting *c)
{
    const size_t nodes = c->graph->node_count, devices = c->crew->team->total;

    c->live = yki_alloc(nodes, sizeof *c->live, "stages");
    c->unit = yki_alloc(nodes, sizeof *c->unit, "stages");
    c->until = yki_alloc(nodes, sizeof *c->until, "stages");
    c->sums = yki_alloc(nodes, sizeof *c->sums, "stages");
    c->loads = yki_alloc(devices * nodes, sizeof *c->loads, "stages");
    c->units = yki_alloc(nodes, sizeof *c->units, "stages");
    c->seconds = yki_alloc(devices * nodes, sizeof *c->seconds, "stages");
    c->devices = yki_alloc(devices, sizeof *c->devices, "stages");
    c->known = yki_alloc(devices, sizeof *c->known, "stages");
    c->device_of = yki_alloc(nodes, sizeof *c->device_of, "stages");
    return c->live && c->unit && c->until && c->sums && c->loads && c->units && c->seconds &&
           c->devices && c->known && c->device_of;
}

static void
unmake(cutting *c)
{
    yki_free(c->live);
    yki_free(c->unit);
    yki_free(c->until);
    yki_free(c->sums);
    yki_free(c->loads);
    yki_free(c->units);
    yki_free(c->seconds);
    yki_free(c->devices);
    yki_free(c->known);
    yki_free(c->device_of);
}

/* ---- units ---- */

/* Notes that a unit reads a node: the first one has it too, if it is no unit itself. */
static void
read_by(cutting *c, const yoke_node *node, uint32_t unit)
{
    if (c->unit[node->id] == NOWHERE)
        c->unit[node->id] = unit;
    c->until[node->id] = YKI_MAX(c->until[node->id], unit);
    if (node->op && node->op->is_view)
        read_by(c, node->inputs[0], unit);
}

/* A running statistic is where the statistic of the batch is, which does not cross: it stays in the
 * memory of the plan until the micro-batch is done. */
static bool
is_running(const cutting *c, const yoke_node *node)
{
    for (size_t i = 0; i < c->own; i++)
        if (c->graph->nodes[i]->next == node)
            return true;
    return false;
}

static void
keep_together(cutting *c, const yoke_node *running)
{
    for (uint32_t k = 0; k < running->input_count; k++) {
        const yoke_node *statistic = running->inputs[k];

        for (uint32_t u = c->unit[statistic->id] + 1; statistic->op && u <= c->until[statistic->id];
             u++)
            c->units[u].cuts = false;
    }
}

static void
find_units(cutting *c)
{
    for (size_t i = 0; i < c->graph->node_count; i++)
        c->unit[i] = NOWHERE;
    for (size_t i = 0; i < c->own; i++) {
        const yoke_node *node = c->graph->nodes[i];
        uint32_t unit = (uint32_t)c->count;

        if (!node->op || node->op->is_view || !c->live[i])
            continue;
        if (is_running(c, node)) {
            unit = 0;
            for (uint32_t k = 0; k < node->input_count; k++)
                if (node->inputs[k]->op && c->unit[node->inputs[k]->id] != NOWHERE)
                    unit = YKI_MAX(unit, c->unit[node->inputs[k]->id]);
        } else {
            c->count++;
        }
        c->unit[i] = unit;
        for (uint32_t k = 0; k < node->input_count; k++)
            read_by(c, node->inputs[k], unit);
    }
}

/* Notes of sums of gradients which node they belong to. */
static void
find_sums(cutting *c)
{
    for (size_t i = 0; i < c->own; i++) {
        const yoke_node *sum = c->graph->nodes[i]->gradient;

        for (; sum && sum->backward && !sum->origin; sum = sum->inputs[0])
            c->sums[sum->id] = c->graph->nodes[i];
    }
}

/* The unit of any node. */
static uint32_t
unit_of(const cutting *c, const yoke_node *node)
{
    const yoke_node *of = node->origin        ? node->origin
                          : c->sums[node->id] ? c->sums[node->id]
                                              : node;

    if (of->id >= c->own)
        of = c->graph->loss;
    return c->unit[of->id] == NOWHERE ? 0 : c->unit[of->id];
}

/* ---- what units cost ---- */

/* Whether devices may compute again within what is left of their memory. */
static bool
recomputes(const cutting *c)
{
    return c->options->fitting && c->options->fitting->recomputes;
}

/* Takes what computing again would leave of a plan of the whole graph for what it leaves of each
 * unit. */
static yoke_status
find_kept(cutting *c, yoke_replica *r, const yki_replica_in_team *in_team)
{
    yki_estimate of = {0};
    uint64_t all, least;

    YKI_TRY(yki_replica_estimate(r, in_team, &of, &all));
    of.least = true;
    YKI_TRY(yki_replica_estimate(r, in_team, &of, &least));
    if (least < all)
        c->kept = (double)least / (double)all;
    return YOKE_OK;
}

/* Other processes wait. */
static void
say_alive(void *user)
{
    yoke_comm *comm = user;

    comm->heartbeat(comm, 0, "compiling and measuring");
}

/* Plans the whole graph for a device of this process, with weights that have no memory. */
static yoke_status
find_loads(cutting *c, size_t k)
{
    const size_t at = c->crew->team->first + k;
    yoke_device *device = yoke_team_get_device(c->crew->team, k);
    yoke_replica_options o = c->options->replica;
    yki_replica_in_team in_team = {.accumulates = c->options->accumulates, .overlaps = true};
    yoke_replica *r = NULL;
    bool measured = false;
    yoke_status status;

    if (c->crew->comm && c->crew->comm->heartbeat) {
        in_team.tick = say_alive;
        in_team.tick_user = c->crew->comm;
    }
    o.batch = YKI_MAX(c->options->most[k], 1);
    YKI_TRY(yki_weights_create_bare(device, c->crew->graph, &in_team.weights));
    status = yki_replica_open(device, c->crew->graph, &o, &in_team, &r);
    if (status == YOKE_OK && at == 0 && recomputes(c))
        status = find_kept(c, r, &in_team);
    if (status == YOKE_OK)
        status = yki_replica_find_loads(r, c->loads + at * c->graph->node_count, &measured);
    yoke_replica_destroy(r);
    yki_weights_release(in_team.weights);
    c->known[at].measured = measured;
    c->known[at].kept = c->kept;
    return status;
}

/* Finds what there is to know of the devices of this process. */
static yoke_status
find_own(cutting *c)
{
    const yoke_team *team = c->crew->team;

    for (size_t k = 0; k < team->count; k++) {
        yoke_device *device = yoke_team_get_device((yoke_team *)team, k);
        const yki_device_traits *traits = yki_device_get_traits(device);
        known *own = &c->known[team->first + k];
        uint64_t left;

        YKI_TRY(find_loads(c, k));
        left = yki_quota_left(device);
        own->memory = left - left / YKI_SPARE;
        own->speed = (double)traits->compute_units * traits->vector_width;
        own->shares = yki_devices_share(device, yoke_team_get_device((yoke_team *)team, 0)) &&
                      team->count == team->total;
    }
    return YOKE_OK;
}

/* The processes of a host take turns, so that nobody measures beside another, and those that come
 * later find what was measured before. */
static yoke_status
find_in_turn(cutting *c)
{
    yoke_comm *comm = c->crew->comm;
    int32_t *locals, last = 0;
    yoke_status status;

    if (!comm)
        return find_own(c);
    locals = yki_alloc((size_t)comm->ranks, sizeof *locals, "stages");
    if (!locals)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = comm->allgather(comm, &comm->local_rank, sizeof *locals, locals);
    for (int32_t r = 0; r < comm->ranks; r++)
        last = YKI_MAX(last, locals[r]);
    yki_free(locals);
    for (int32_t turn = 0; turn <= last && status == YOKE_OK; turn++) {
        if (turn == comm->local_rank)
            status = find_own(c);
        if (status == YOKE_OK)
            status = comm->barrier(comm);
    }
    return status;
}

/* All processes know the same numbers. */
static yoke_status
share_loads(cutting *c)
{
    const yoke_team *team = c->crew->team;

    YKI_TRY(yki_team_share_rows(team, NULL, sizeof *c->known, c->known));
    YKI_TRY(yki_team_share_rows(team, NULL, c->graph->node_count * sizeof *c->loads, c->loads));
    c->kept = c->known[0].kept;
    for (size_t k = 0; k < team->total; k++)
        c->measured &= c->known[k].measured;
    return YOKE_OK;
}

/* A guess is of no device: a device with twice the units is taken to be twice as fast. */
static double
slowness(const cutting *c, size_t k)
{
    return c->measured ? 1 : c->known[0].speed / c->known[k].speed;
}

/* Bytes that the device of a parameter has of it, with gradient, sums and state. */
static uint64_t
bytes_of_parameter(const cutting *c, const yoke_node *node)
{
    const yki_updater_options kept = {.optimizer = c->options->replica.optimizer,
                                      .state = c->options->replica.state,
                                      .average = c->options->average};
    const uint64_t bytes = (uint64_t)yki_shape_count(node->shape) * 4;
    const uint64_t aligned = (bytes + YKI_WEIGHT_ALIGN - 1) / YKI_WEIGHT_ALIGN * YKI_WEIGHT_ALIGN;

    if (!node->gradient)
        return aligned;
    return (2 + c->options->accumulates) * aligned + yki_updater_halves(&kept) * aligned / 2;
}

static uint64_t
bytes_of_input(const cutting *c, const yoke_node *node)
{
    const yki_extents max = {.batch = YKI_MAX(c->options->most[0], 1), .length = c->graph->length};
    const yki_operand operand = yki_operand_of(node);

    return (uint64_t)yki_value_bytes(&operand, max);
}

static void
weigh_units(cutting *c)
{
    const size_t nodes = c->graph->node_count;

    for (size_t i = 0; i < nodes; i++) {
        yki_cut_unit *unit = &c->units[unit_of(c, c->graph->nodes[i])];
        uint64_t kept = 0, packed = 0, prepared = 0;

        for (size_t k = 0; k < c->crew->team->total; k++) {
            const yki_load *load = &c->loads[k * nodes + i];

            kept = YKI_MAX(kept, load->kept);
            packed = YKI_MAX(packed, load->packed);
            unit->working = YKI_MAX(unit->working, load->working);
            unit->evaluation = YKI_MAX(unit->evaluation, AT_ONCE * load->forward);
            prepared = YKI_MAX(prepared, load->prepared);
            c->seconds[k * nodes + unit_of(c, c->graph->nodes[i])] +=
                load->seconds * slowness(c, k);
        }
        unit->kept += (uint64_t)((double)kept * c->kept);
        unit->fixed += packed;
        unit->prepared += prepared;
        if (c->graph->nodes[i]->role == YKI_ROLE_INPUT)
            unit->prepared += YKI_PASSING * bytes_of_input(c, c->graph->nodes[i]);
        if (c->graph->nodes[i]->role == YKI_ROLE_PARAMETER)
            unit->fixed += bytes_of_parameter(c, c->graph->nodes[i]);
    }
}

/* Finds what would cross before each unit, and whether the graph may be cut there. */
static void
find_crossings(cutting *c)
{
    const yki_extents max = {.batch = YKI_MAX(c->options->most[0], 1), .length = c->graph->length};
    bool any = false;

    for (size_t u = 1; u < c->count; u++)
        c->units[u].cuts = true;
    for (size_t i = 0; i < c->own; i++) {
        const yoke_node *node = c->graph->nodes[i];
        const yki_operand operand = yki_operand_of(node);
        const uint64_t bytes = (uint64_t)yki_value_bytes(&operand, max);

        if (node->role == YKI_ROLE_INPUT || (node->op && node->op->is_view) ||
            c->unit[i] == NOWHERE)
            continue;
        for (uint32_t u = c->unit[i] + 1; u <= c->until[i]; u++) {
            c->units[u].crosses += node->gradient ? 2 * bytes : bytes;
            c->units[u].cuts &= !node->op || c->loads[i].there;
        }
    }
    for (size_t u = 1; u < c->count; u++)
        any |= c->units[u].cuts;
    for (size_t u = 1; u < c->count && !any; u++)
        c->units[u].cuts = true;
    for (size_t i = 0; i < c->own; i++)
        if (c->live[i] && is_running(c, c->graph->nodes[i]))
            keep_together(c, c->graph->nodes[i]);
}

/* ---- the cut ---- */

static yoke_status
fail_to_fit(const cutting *c, const yki_cut_problem *p)
{
    const double mb = 1e6;
    uint64_t most = 0, all = 0, needed = 0;
    size_t largest = 0;

    for (size_t k = 0; k < p->device_count; k++) {
        largest = p->devices[k].memory > p->devices[largest].memory ? k : largest;
        all += p->devices[k].memory;
    }
    most = p->devices[largest].memory;
    for (size_t i = 0; i < c->own; i++) {
        const yoke_node *node = c->graph->nodes[i];
        const uint32_t unit = c->unit[i];

        if (!node->op || node->op->is_view || unit == NOWHERE)
            continue;
        if (yki_cut_bytes(p, unit, unit + 1, 0, 1) > most)
            return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                            "\"%s\" alone takes about %.1f MB in training, and %s, which has most "
                            "memory, has %.1f MB left; give it more memory, or take a smaller "
                            "batch or more micro-batches",
                            node->name, (double)yki_cut_bytes(p, unit, unit + 1, 0, 1) / mb,
                            yoke_team_get_device_name(c->crew->team, largest), (double)most / mb);
    }
    for (size_t u = 0; u < p->unit_count; u++)
        needed += p->units[u].fixed + p->units[u].kept;
    return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                    "no cut of the graph into stages fits: it takes about %.1f MB in training, not "
                    "counting micro-batches that wait, and the devices have %.1f MB left together; "
                    "take more devices, larger quotas, a smaller batch or more micro-batches",
                    (double)needed / mb, (double)all / mb);
}

static yoke_status
check_places(const cutting *c, const yki_cut_problem *p)
{
    size_t most = 1;

    for (size_t u = 1; u < c->count; u++)
        most += c->units[u].cuts;
    if (p->stages > most)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "stages is %zu, but the graph can be cut into %zu; must be at most that",
                        p->stages, most);
    return YOKE_OK;
}

/* Leaves each stage what its device has for it. */
static void
set_budgets(const cutting *c, const yki_cut_problem *p, size_t stages, uint64_t *budgets)
{
    const size_t most = p->stages ? p->stages : p->device_count;

    for (size_t first = 0, end = 0, behind = stages; first < c->count; first = end) {
        const uint32_t device = c->device_of[first];
        uint64_t budget;

        while (end < c->count && c->device_of[end] == device)
            end++;
        budget = yki_cut_budget(p, device, first, end, --behind, most);
        if (yki_is_here(c->crew, device)) /* a plan refuses 1 */
            budgets[yki_here(c->crew, device)] = YKI_MAX(budget, UINT64_C(1));
    }
}

/* The same numbers may lead to another cut where a compiler rounds otherwise, so that of rank 0 is
 * taken. */
static yoke_status
share_cut(cutting *c, size_t *stages)
{
    yoke_comm *comm = c->crew->comm;
    uint64_t count = *stages;

    if (!comm)
        return YOKE_OK;
    YKI_TRY(comm->broadcast(comm, &count, sizeof count, 0));
    *stages = (size_t)count;
    return comm->broadcast(comm, c->device_of, c->count * sizeof *c->device_of, 0);
}

static yoke_status
cut(cutting *c, uint64_t *budgets)
{
    const yki_crew *crew = c->crew;
    const size_t nodes = c->graph->node_count;
    yki_cut_problem p = {.units = c->units,
                         .unit_count = c->count,
                         .devices = c->devices,
                         .device_count = crew->team->total,
                         .stages = c->options->stages == YOKE_STAGES_AUTO ? 0 : c->options->stages,
                         .micro_batches = c->options->micro_batches,
                         .evaluates = c->options->fitting != NULL,
                         .seconds_per_byte = SECONDS_PER_BYTE};
    size_t stages;
    double seconds;

    for (size_t k = 0; k < crew->team->total; k++) {
        c->devices[k] = (yki_cut_device){c->seconds + k * nodes, c->known[k].memory};
        if (!c->known[k].shares)
            p.seconds_per_byte = SECONDS_PER_SENT_BYTE;
    }
    YKI_TRY(check_places(c, &p));
    YKI_TRY(yki_cut(&p, c->device_of, &stages, &seconds));
    YKI_TRY(share_cut(c, &stages));
    if (stages == 0) {
        if (c->options->fitting)
            c->options->fitting->alike = true;
        return fail_to_fit(c, &p);
    }
    if (budgets)
        set_budgets(c, &p, stages, budgets);
    yki_log(YOKE_LOG_INFO, "the graph is cut into %zu stages; a step should take %.3g s", stages,
            seconds);
    return YOKE_OK;
}

/* Gives each node the device of its unit. A sum of gradients that are on one device is there too.
 */
static void
place(const cutting *c, uint32_t *homes)
{
    for (size_t i = 0; i < c->graph->node_count; i++) {
        const yoke_node *node = c->graph->nodes[i];

        homes[i] = c->device_of[unit_of(c, node)];
        if (c->sums[i] && node->input_count == 2 &&
            homes[node->inputs[0]->id] == homes[node->inputs[1]->id])
            homes[i] = homes[node->inputs[0]->id];
    }
}

static yoke_status
find(cutting *c, uint32_t *homes, uint64_t *budgets)
{
    yki_use *uses = yki_alloc(c->graph->node_count, sizeof *uses, "stages");

    if (!uses)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_find_uses(c->graph, true, NULL, 0, uses);
    for (size_t i = 0; i < c->graph->node_count; i++)
        c->live[i] = uses[i].live;
    yki_free(uses);
    find_units(c);
    find_sums(c);
    YKI_TRY(find_in_turn(c));
    YKI_TRY(share_loads(c));
    weigh_units(c);
    find_crossings(c);
    YKI_TRY(cut(c, budgets));
    place(c, homes);
    return YOKE_OK;
}

yoke_status
yki_stages_cut(const yki_crew *crew, const yki_crew_options *options, uint32_t *homes,
               uint64_t *budgets)
{
    cutting c = {.crew = crew,
                 .options = options,
                 .graph = crew->graph,
                 .own = yki_graph_own_count(crew->graph),
                 .measured = true,
                 .kept = 1};
    yoke_status status = make(&c) ? find(&c, homes, budgets) : YOKE_ERROR_OUT_OF_MEMORY;

    unmake(&c);
    return status;
}
