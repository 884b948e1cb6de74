/* SPDX-License-Identifier: Apache-2.0
 *
 * granules.c - steps whose bits do not depend on the split.
 *
 * A batch is cut into granules, whose borders follow from the options alone. A device computes
 * whole granules, one after the other or as passes (passes.c), so the gradient of each is the same
 * bits wherever it is computed. It is added as integers, in units of a power of 2
 * (clkernels/granule.cl), and integers may be added in any order: on the device, over a group,
 * through the host, between processes. The sum is then rounded once to float, and all that follows
 * is as in any other step.
 *
 * Units. Each weight has its own, by the largest element of a granule's gradient in the step before
 * this one. That is the same in all processes, as the largest of anything has no order either. If
 * the largest element of this step is far off, so that a sum might not fit or would lose bits, the
 * step is made again with units that follow from itself. Weights have not changed by then. The
 * gradients are the same, so the second time they fit. The first step begins without units.
 *
 * Integers of 64 bits hold all of a float, beside room for growth and for the sum of all granules.
 * Narrower ones do not: there each granule's elements are rounded, at random, before they are
 * added. What would be rounded after that depended on the split.
 *
 * Losses and metrics of all granules are read and added exactly by the host, which waits for them
 * once a step.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "op/flat.h"
#include "team/crew.h"

enum {
    RUN = 128,        /* floats that belong to one weight: YKI_WEIGHT_ALIGN bytes */
    MANTISSA = 23,    /* bits of a float behind the first */
    SPECIAL = 255,    /* the exponent of what is no number */
    KEY = 0x77697265, /* of the random numbers that round, "wire" */
};

/* With eight granules the largest element has 47, 24 or 10 bits. */
static const yki_wire wires[] = {
    [YOKE_WIRE_I64] = {YOKE_I64, 8, "yki_team_sum_i64", 61, 12, 16, 22, false},
    [YOKE_WIRE_I32] = {YOKE_I32, 4, "yki_team_sum_i32", 30, 4, 8, 14, true},
    [YOKE_WIRE_I16] = {YOKE_I16, 2, "yki_team_sum_i16", 14, 2, 4, 8, true},
};

const yki_wire *
yki_granules_wire(yoke_wire_choice choice)
{
    return &wires[choice];
}

/* ---- making ---- */

static int
bits_of(size_t count)
{
    int bits = 0;

    while (bits < 62 && (UINT64_C(1) << bits) < count)
        bits++;
    return bits;
}

/* What granule.cl adds to the exponent of a float, if `exponent` is that of the largest. */
static int32_t
unit_of(const yki_crew *crew, int32_t exponent)
{
    const yki_wire *w = crew->exact.wire;

    return w->bits - w->growth - bits_of(crew->exact.most) - MANTISSA - exponent;
}

/* The most units of an element, of which the sum of all granules fits. Rounding up could give one
 * more. */
static int32_t
cap_of(const yki_crew *crew)
{
    return (int32_t)((UINT32_C(1) << (crew->exact.wire->bits + 1 - bits_of(crew->exact.most))) - 1);
}

static size_t
runs_of(const yki_weights *w, size_t buckets)
{
    size_t runs = 0;

    for (size_t b = 0; b < buckets; b++)
        runs += w->buckets[b].size / 4 / RUN;
    return runs;
}

/* The table that says, for each 128 floats of all buckets, whose they are, and then for each how
 * many there are. */
static yoke_status
make_table(const yki_weights *w, size_t buckets, yki_buffer **table)
{
    const size_t runs = runs_of(w, buckets), size = 2 * YKI_MAX(runs, (size_t)1);
    size_t first = 0;
    int32_t *rows;
    yoke_status status;

    rows = yki_alloc(size, sizeof *rows, "a table of weights");
    if (!rows)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t b = 0; b < buckets; b++) {
        for (size_t i = 0; i < w->weight_count; i++) {
            const yki_weight *weight = &w->weights[i];
            size_t begin = first + weight->offset / 4 / RUN, left = weight->size / 4;

            for (size_t r = begin; weight->bucket == b && left > 0; r++) {
                rows[r] = (int32_t)i;
                rows[runs + r] = (int32_t)YKI_MIN(left, (size_t)RUN);
                left -= (size_t)rows[runs + r];
            }
        }
        first += w->buckets[b].size / 4 / RUN;
    }
    status = yki_buffer_create(w->device, size * sizeof *rows, 0, "a table of weights", table);
    if (status == YOKE_OK)
        status = yki_buffer_put(*table, 0, size * sizeof *rows, rows);
    yki_free(rows);
    return status;
}

static yoke_status
make_group(yki_crew *crew, size_t g)
{
    yki_group *group = &crew->groups[g];
    const yki_weights *w = yki_crew_in_group(crew, g, 0)->replica->weights;

    YKI_TRY(make_table(w, crew->buckets.count, &group->weight_of));
    return yki_buffer_create(w->device, 2 * crew->exact.weights * sizeof(int32_t), 0,
                             "units of gradients", &group->units);
}

static yki_grid
grid_of(const yki_flat *flat, size_t vectors)
{
    yki_grid grid = {{1, 1, 1}, {1, 1, 1}};

    /* As in yki_combine_make. */
    grid.local[0] = flat->group;
    grid.groups[0] = YKI_MAX(YKI_MIN(vectors / 256 + 1, (size_t)flat->groups),
                             vectors / flat->group / 16384 + 1);
    return grid;
}

/* The launches for one bucket, whose first 128 floats have the number `run` in the table. */
static yoke_status
make_launches(yki_crew *crew, yki_member *m, size_t bucket, size_t run)
{
    const yki_weights *w = m->replica->weights;
    const yki_group *group = &crew->groups[m->group];
    const yki_flat flat = yki_flat_for(yki_device_get_traits(w->device));
    const size_t vectors = w->buckets[bucket].size / 4 / flat.vector;
    yki_adder *a = &m->adder;
    yki_kernel *add, *round;
    char options[64];

    snprintf(options, sizeof options, "-DVEC=%u -DWG=%u -DWORD=%zu", flat.vector, flat.group,
             crew->exact.wire->bytes);
    a->grids[bucket] = grid_of(&flat, vectors);
    YKI_TRY(yki_kernel_get(w->device, "granule.cl", options, "yki_granule_add", &a->adds[bucket]));
    add = a->adds[bucket];
    YKI_TRY(yki_kernel_set_buffer(add, 1, group->weight_of));
    YKI_TRY(yki_kernel_set_buffer(add, 2, group->units));
    YKI_TRY(yki_kernel_set_buffer(add, 3, a->largest));
    YKI_TRY(yki_kernel_set_buffer(add, 4, m->accumulated[bucket]));
    YKI_TRY(yki_kernel_set_int(add, 5, (int64_t)vectors));
    YKI_TRY(yki_kernel_set_int(add, 7, (int64_t)run));
    YKI_TRY(yki_kernel_set_int(add, 9, crew->exact.wire->random ? cap_of(crew) : 0));
    if (!yki_member_owns(crew, m, bucket))
        return YOKE_OK;
    YKI_TRY(
        yki_kernel_get(w->device, "granule.cl", options, "yki_granule_round", &a->rounds[bucket]));
    round = a->rounds[bucket];
    YKI_TRY(yki_kernel_set_buffer(round, 0, m->accumulated[bucket]));
    YKI_TRY(yki_kernel_set_buffer(round, 1, group->weight_of));
    YKI_TRY(yki_kernel_set_buffer(round, 2, group->units));
    YKI_TRY(yki_kernel_set_buffer(round, 3, w->buckets[bucket].gradients));
    YKI_TRY(yki_kernel_set_int(round, 4, (int64_t)vectors));
    YKI_TRY(yki_kernel_set_int(round, 5, (int64_t)run));
    return yki_kernel_set_int(round, 7, (int64_t)runs_of(w, crew->buckets.count));
}

yoke_status
yki_adder_create(yki_crew *crew, yki_member *m)
{
    const size_t buckets = YKI_MAX(crew->buckets.count, (size_t)1);
    yki_adder *a = &m->adder;
    size_t run = 0;

    a->adds = yki_alloc(buckets, sizeof *a->adds, "kernels of a team");
    a->rounds = yki_alloc(buckets, sizeof *a->rounds, "kernels of a team");
    a->grids = yki_alloc(buckets, sizeof *a->grids, "kernels of a team");
    a->found = yki_alloc(crew->exact.weights, sizeof *a->found, "the largest gradients");
    a->rows = yki_alloc(crew->exact.most * crew->pairs * 2, sizeof *a->rows, "losses of granules");
    if (!a->adds || !a->rounds || !a->grids || !a->found || !a->rows)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_buffer_create(m->replica->weights->device, crew->exact.weights * sizeof *a->found,
                              0, "the largest gradients", &a->largest));
    for (size_t b = 0; b < crew->buckets.count; b++) {
        YKI_TRY(make_launches(crew, m, b, run));
        run += m->replica->weights->buckets[b].size / 4 / RUN;
    }
    return YOKE_OK;
}

static size_t
sum_count(const yki_crew *crew)
{
    return 2 * crew->pairs;
}

/* Bytes that processes exchange once a step: the sums of losses and metrics, the largest elements,
 * then the verdicts. */
static size_t
message_bytes(const yki_crew *crew)
{
    size_t bytes = sum_count(crew) * sizeof(yki_exact_sum) + crew->exact.weights * sizeof(uint32_t);

    return (bytes + (crew->rechecks ? crew->team->total : 0) + 7) / 8 * 8;
}

static uint32_t *
largest_in(const yki_crew *crew, void *message)
{
    return (uint32_t *)((yki_exact_sum *)message + sum_count(crew));
}

static uint8_t *
verdicts_in(const yki_crew *crew, void *message)
{
    return (uint8_t *)(largest_in(crew, message) + crew->exact.weights);
}

/* Room for statistics: the merged one, which devices may still read when the next ones arrive; of
 * each granule here; of each granule of all processes. */
static yoke_status
make_rows(yki_crew *crew)
{
    const yki_plan *plan = crew->members[0].replica->training;
    const size_t ranks = crew->comm ? (size_t)crew->comm->ranks : 0;
    const uint32_t own = (uint32_t)crew->count;
    yki_exact *e = &crew->exact;

    for (size_t s = 0; s < plan->stop_count; s++)
        e->row = YKI_MAX(e->row, plan->stops[s].count);
    e->rows =
        yki_alloc(1 + e->most * (1 + ranks), YKI_MAX(e->row, 1) * sizeof *e->rows, "statistics");
    e->widths = yki_alloc(YKI_MAX(ranks, 1), sizeof *e->widths, "statistics");
    e->devices = yki_alloc(YKI_MAX(ranks, 1), sizeof *e->devices, "statistics");
    if (!e->rows || !e->widths || !e->devices)
        return YOKE_ERROR_OUT_OF_MEMORY;
    e->devices[0] = own;
    return crew->comm ? crew->comm->allgather(crew->comm, &own, sizeof own, e->devices) : YOKE_OK;
}

static void
free_passes(yki_crew *crew)
{
    for (size_t k = 0; crew->members && k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        for (size_t i = 1; i < m->pass_count; i++) { /* the first one is the replica's */
            yki_plan_destroy(m->passes[i].plan);
            yki_weights_release(m->passes[i].weights);
        }
        yki_free(m->passes);
    }
    for (size_t g = 0; crew->groups && g < crew->group_count; g++) {
        for (uint32_t i = 0; crew->groups[g].kept && i < crew->exact.micro_batches; i++)
            yki_buffer_destroy(crew->groups[g].kept[i]);
        yki_free(crew->groups[g].kept);
    }
    yki_free(crew->exact.rows);
    yki_free(crew->exact.widths);
    yki_free(crew->exact.devices);
}

yoke_status
yki_granules_create(yki_crew *crew)
{
    yki_exact *e = &crew->exact;
    size_t ranks = crew->comm ? (size_t)crew->comm->ranks : 0;

    if (bits_of(e->most) > e->wire->granules)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "a step has up to %zu granules; with integers of %zu bits must be at most "
                        "%d: take larger ones",
                        e->most, 8 * e->wire->bytes, 1 << e->wire->granules);
    e->weights = YKI_MAX(crew->members[0].replica->weights->weight_count, (size_t)1);
    e->exponents = yki_alloc(e->weights, sizeof *e->exponents, "units of gradients");
    e->units = yki_alloc(e->weights, sizeof *e->units, "units of gradients");
    e->message = yki_alloc(1 + ranks, message_bytes(crew), "results of processes");
    if (!e->exponents || !e->units || !e->message)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t g = 0; g < crew->group_count; g++)
        YKI_TRY(make_group(crew, g));
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(yki_adder_create(crew, &crew->members[k]));
    if (e->together)
        YKI_TRY(make_rows(crew));
    return yki_granules_forget(crew);
}

void
yki_adder_destroy(const yki_crew *crew, yki_adder *a)
{
    for (size_t b = 0; b < crew->buckets.count; b++) {
        if (a->adds)
            yki_kernel_destroy(a->adds[b]);
        if (a->rounds)
            yki_kernel_destroy(a->rounds[b]);
    }
    for (size_t i = 0; i < YKI_COUNT(a->reads); i++)
        yki_event_release(&a->reads[i]);
    yki_buffer_destroy(a->largest);
    yki_free(a->adds);
    yki_free(a->rounds);
    yki_free(a->grids);
    yki_free(a->found);
    yki_free(a->rows);
}

void
yki_granules_destroy(yki_crew *crew)
{
    for (size_t k = 0; crew->members && k < crew->count; k++)
        yki_adder_destroy(crew, &crew->members[k].adder);
    for (size_t g = 0; crew->groups && g < crew->group_count; g++) {
        yki_buffer_destroy(crew->groups[g].weight_of);
        yki_buffer_destroy(crew->groups[g].units);
    }
    free_passes(crew);
    yki_free(crew->exact.exponents);
    yki_free(crew->exact.units);
    yki_free(crew->exact.message);
}

/* ---- units ---- */

/* Gives each group the units of the step that comes next, or of this one again. Nothing that is
 * enqueued reads that half of its buffer. */
static yoke_status
send_units(yki_crew *crew, unsigned turn)
{
    const uint64_t bytes = crew->exact.weights * sizeof(int32_t);

    crew->exact.turn = turn;
    for (size_t g = 0; g < crew->group_count; g++)
        YKI_TRY(yki_buffer_put(crew->groups[g].units, turn * bytes, bytes, crew->exact.units));
    return YOKE_OK;
}

static yoke_status
take_exponents(yki_crew *crew, unsigned turn)
{
    for (size_t i = 0; i < crew->exact.weights; i++)
        crew->exact.units[i] = unit_of(crew, crew->exact.exponents[i]);
    return send_units(crew, turn);
}

yoke_status
yki_granules_forget(yki_crew *crew)
{
    memset(crew->exact.exponents, 0, crew->exact.weights * sizeof *crew->exact.exponents);
    return take_exponents(crew, crew->exact.turn);
}

yoke_status
yki_granules_resume(yki_crew *crew, const int32_t *exponents)
{
    memcpy(crew->exact.exponents, exponents, crew->exact.weights * sizeof *exponents);
    return take_exponents(crew, crew->exact.turn);
}

/* Whether a sum of such elements fits, and keeps the bits of a float. */
static bool
fits(const yki_wire *wire, int32_t known, int32_t found)
{
    return found == 0 || found == SPECIAL ||
           (known > 0 && found <= known + wire->growth && found >= known - wire->shrinkage);
}

/* Compares the largest elements with the units of this step. Then all that were found decide the
 * next units. */
static bool
judge(yki_crew *crew, const uint32_t *largest)
{
    yki_exact *e = &crew->exact;
    bool good = true;

    for (size_t i = 0; i < e->weights; i++) {
        int32_t found = (int32_t)(largest[i] >> MANTISSA);

        good &= fits(e->wire, e->exponents[i], found);
        if (found > 0 && found < SPECIAL)
            e->exponents[i] = found;
    }
    return good;
}

/* A weight whose gradient has an element that is no number gets no number. */
static yoke_status
mark_strange(yki_crew *crew, const uint32_t *largest)
{
    bool any = false;

    for (size_t i = 0; i < crew->exact.weights; i++)
        if (largest[i] >> MANTISSA == SPECIAL) {
            crew->exact.units[i] = INT32_MIN;
            any = true;
        }
    return any ? send_units(crew, crew->exact.turn) : YOKE_OK;
}

/* ---- a step ---- */

/* The keys of the random numbers that round the gradients of a granule. */
static void
draw_keys(const yki_member *m, int64_t first, uint32_t keys[4])
{
    const uint32_t key[2] = {m->replica->seed, KEY};
    const uint32_t counter[4] = {(uint32_t)first, (uint32_t)((uint64_t)first >> 32),
                                 m->replica->step, 0};

    yki_philox(key, counter, keys);
}

yoke_status
yki_granules_begin(yki_member *m)
{
    yki_adder *a = &m->adder;

    a->at = a->count;
    return a->count ? YOKE_OK
                    : yki_queue_fill(m->replica->queue, a->largest, 0, yki_buffer_size(a->largest),
                                     0, YKI_NO_WAIT, NULL);
}

yoke_status
yki_granules_add_bucket(yki_crew *crew, yki_member *m, const yki_weights *w, size_t bucket)
{
    yki_adder *a = &m->adder;
    yki_kernel *add = a->adds[bucket];
    yki_queue *queue = m->replica->queue;
    uint32_t keys[4];

    draw_keys(m, m->first, keys);
    YKI_TRY(yki_kernel_set_buffer(add, 0, w->buckets[bucket].gradients));
    YKI_TRY(yki_kernel_set_int(add, 6, a->at == 0));
    YKI_TRY(yki_kernel_set_int(add, 8, (int64_t)(crew->exact.turn * crew->exact.weights)));
    YKI_TRY(yki_kernel_set(add, 10, sizeof keys[0], &keys[0]));
    YKI_TRY(yki_kernel_set(add, 11, sizeof keys[1], &keys[1]));
    YKI_TRY(yki_queue_launch(queue, add, &a->grids[bucket], YKI_NO_WAIT, NULL));
    yki_track_flow(yki_queue_track(queue), yki_member_flow(crew, m, bucket), 's');
    return YOKE_OK;
}

yoke_status
yki_granules_add(yki_crew *crew, yki_member *m, const yki_weights *w, const yki_plan *plan,
                 int64_t first)
{
    yki_adder *a = &m->adder;

    m->first = first;
    a->at = a->count;
    for (size_t b = 0; b < crew->buckets.count && !w->transient && !crew->exact.last; b++)
        YKI_TRY(yki_granules_add_bucket(crew, m, w, b));
    YKI_TRY(yki_member_pack(crew, m, plan, a->count, false));
    a->count++;
    return YOKE_OK;
}

yoke_status
yki_granules_none(yki_crew *crew, yki_member *m)
{
    for (size_t b = 0; b < crew->buckets.count; b++)
        YKI_TRY(yki_queue_fill(m->replica->queue, m->accumulated[b], 0,
                               yki_buffer_size(m->accumulated[b]), 0, YKI_NO_WAIT, NULL));
    return YOKE_OK;
}

/* Enqueues the way of what a member has found to the host. */
static yoke_status
fetch(yki_crew *crew, yki_member *m)
{
    yki_adder *a = &m->adder;
    yki_queue *queue = m->replica->queue;

    if (a->count == 0)
        return yki_queue_marker(queue, YKI_NO_WAIT, &a->reads[0]);
    YKI_TRY(yki_queue_read(queue, a->largest, 0, yki_buffer_size(a->largest), a->found, YKI_NO_WAIT,
                           &a->reads[0]));
    YKI_TRY(yki_queue_read(queue, m->results, 0, a->count * crew->pairs * 8, a->rows, YKI_NO_WAIT,
                           &a->reads[1]));
    return yki_queue_flush(queue);
}

static void
add_member(const yki_crew *crew, yki_member *m, yki_exact_sum *sums, uint32_t *largest)
{
    yki_adder *a = &m->adder;

    a->loss[0] = a->loss[1] = 0;
    for (size_t r = 0; r < a->count; r++) {
        const float *row = a->rows + r * sum_count(crew);

        for (size_t i = 0; i < sum_count(crew); i++)
            yki_exact_add(&sums[i], row[i]);
        a->loss[0] += (double)row[0];
        a->loss[1] += (double)row[1];
    }
    for (size_t i = 0; a->count && i < crew->exact.weights; i++)
        largest[i] = YKI_MAX(largest[i], a->found[i]);
}

static yoke_status
merge_processes(yki_crew *crew, void *own)
{
    const size_t bytes = message_bytes(crew);
    char *all = (char *)own + bytes;

    if (!crew->comm)
        return YOKE_OK;
    YKI_TRY(yki_crew_gather(crew, "all-gather losses", own, bytes, all));
    memset(own, 0, bytes);
    for (int32_t r = 0; r < crew->comm->ranks; r++, all += bytes) {
        for (size_t i = 0; i < sum_count(crew); i++)
            yki_exact_merge((yki_exact_sum *)own + i, (const yki_exact_sum *)(void *)all + i);
        for (size_t i = 0; i < crew->exact.weights; i++)
            largest_in(crew, own)[i] = YKI_MAX(largest_in(crew, own)[i], largest_in(crew, all)[i]);
        for (size_t i = 0; crew->exact.verdicts && i < crew->team->total; i++)
            verdicts_in(crew, own)[i] =
                YKI_MAX(verdicts_in(crew, own)[i], verdicts_in(crew, all)[i]);
    }
    return YOKE_OK;
}

/* Takes the verdicts of all processes; true: there are none. */
static bool
take_verdicts(yki_crew *crew, void *message)
{
    bool none = true;

    for (size_t i = 0; crew->exact.verdicts && i < crew->team->total; i++) {
        crew->exact.verdicts[i] = verdicts_in(crew, message)[i];
        none &= crew->exact.verdicts[i] == YKI_VERDICT_NONE;
    }
    return none;
}

/* Gives losses and metrics of the whole team to those who update weights. */
static yoke_status
tell_totals(yki_crew *crew, const yki_exact_sum *sums)
{
    for (size_t i = 0; i < sum_count(crew); i++)
        crew->exact.totals[i] = (float)yki_exact_value(&sums[i]);
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(yki_buffer_put(crew->members[k].totals, 0, crew->pairs * 8, crew->exact.totals));
    return YOKE_OK;
}

yoke_status
yki_granules_judge(yki_crew *crew, bool *good)
{
    yki_exact *e = &crew->exact;
    yki_exact_sum *sums = e->message;
    uint32_t *largest = largest_in(crew, e->message);

    memset(e->message, 0, message_bytes(crew));
    if (e->verdicts)
        memcpy(verdicts_in(crew, e->message), e->verdicts, crew->team->total);
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        YKI_TRY(fetch(crew, &crew->members[k]));
    }
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        for (size_t i = 0; i < YKI_COUNT(m->adder.reads); i++) {
            YKI_TRY(yki_event_wait(&m->adder.reads[i]));
            yki_event_release(&m->adder.reads[i]);
        }
        add_member(crew, m, sums, largest);
        m->adder.count = 0;
        m->adder.ended = false;
    }
    YKI_TRY(merge_processes(crew, e->message));
    *good = take_verdicts(crew, e->message);
    if (!*good) /* what is known of the largest elements may be wrong as well */
        return YOKE_OK;
    *good = judge(crew, largest);
    if (!*good) {
        e->repeats++;
        yki_log(YOKE_LOG_DEBUG, "step %u is made again, with other units of gradients",
                crew->members[0].replica->step);
        return take_exponents(crew, e->turn);
    }
    YKI_TRY(mark_strange(crew, largest));
    return tell_totals(crew, sums);
}

yoke_status
yki_granules_round(yki_crew *crew, yki_member *m)
{
    yki_adder *a = &m->adder;

    for (size_t b = 0; b < crew->buckets.count; b++) {
        if (!a->rounds[b])
            continue;
        YKI_TRY(
            yki_kernel_set_int(a->rounds[b], 6, (int64_t)(crew->exact.turn * crew->exact.weights)));
        YKI_TRY(yki_queue_launch(m->replica->queue, a->rounds[b], &a->grids[b], YKI_NO_WAIT, NULL));
        if (crew->sharding.gradients && crew->sharding.norms)
            YKI_TRY(yki_updater_enqueue_norm(m->replica->updater, b));
    }
    return YOKE_OK;
}

/* Rounds the part of a bucket that the member updates. `run`: the first of the bucket. */
static yoke_status
divide_bucket(yki_crew *crew, yki_member *m, size_t bucket, size_t run)
{
    yki_kernel *round = m->adder.rounds[bucket];
    const yki_flat flat = yki_flat_for(yki_device_get_traits(m->replica->weights->device));
    const yki_range own =
        yki_ranges_of(crew->sharding.ranges, bucket, crew->sharding.first + m->group, 1);

    if (!round)
        return YOKE_OK;
    if (own.size == 0) {
        yki_kernel_destroy(round);
        m->adder.rounds[bucket] = NULL;
        return YOKE_OK;
    }
    YKI_TRY(yki_kernel_set_buffer(round, 3, yki_updater_gradients(m->replica->updater, bucket)));
    YKI_TRY(yki_kernel_set_int(round, 4, (int64_t)(own.size / 4 / flat.vector)));
    return yki_kernel_set_int(round, 5, (int64_t)(run + own.offset / 4 / RUN));
}

yoke_status
yki_granules_divide(yki_crew *crew)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];
        size_t run = 0;

        for (size_t b = 0; b < crew->buckets.count; b++) {
            YKI_TRY(divide_bucket(crew, m, b, run));
            run += m->replica->weights->buckets[b].size / 4 / RUN;
        }
    }
    return YOKE_OK;
}

yoke_status
yki_granules_next(yki_crew *crew)
{
    return take_exponents(crew, 1 - crew->exact.turn);
}

/* ---- statistics of the batch (passes.c) ---- */

/* They change when the step is known to be good. Until then a step of several micro-batches keeps
 * the statistics of each, in the first member of each group. */
yoke_status
yki_granules_keep(yki_crew *crew, uint32_t index)
{
    for (size_t g = 0; g < crew->group_count; g++) {
        yki_group *group = &crew->groups[g];

        if (!group->kept)
            group->kept = yki_alloc(crew->exact.micro_batches, sizeof *group->kept, "statistics");
        if (!group->kept)
            return YOKE_ERROR_OUT_OF_MEMORY;
        YKI_TRY(yki_plan_keep_running(yki_crew_in_group(crew, g, 0)->replica->training,
                                      &group->kept[index]));
    }
    crew->exact.kept = index + 1;
    return YOKE_OK;
}

yoke_status
yki_granules_commit(yki_crew *crew, yki_member *m, yki_queue *queue)
{
    for (; m->kept_states < crew->exact.kept; m->kept_states++)
        YKI_TRY(yki_plan_commit_kept(m->replica->training, queue,
                                     crew->groups[m->group].kept[m->kept_states]));
    return YOKE_OK;
}
