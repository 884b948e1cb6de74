/* SPDX-License-Identifier: Apache-2.0
 *
 * shard_level.c - chooses what the devices of a team divide: as little as their memory allows.
 *
 * Less is faster. So the levels are tried from the first: nothing, the optimizer's state, gradients
 * too, weights too. What a device would have whole at a level is added up: its plan, at level
 * estimate, with whole buckets in it where they come and go, and what has memory of its own. It
 * must have room for that, and all devices together for what is divided. Nothing is made for that
 * but a graph's running statistics and frozen parameters.
 */
#include "shares/shares.h"
#include "team/sharding.h"

enum { LEVELS = YOKE_SHARD_WEIGHTS + 1, SPARE = 32 }; /* one part in so many is for small things */

/* What every process learns of each device of the team. */
typedef struct row {
    int32_t rank, group;
    uint64_t left;          /* of its group */
    uint64_t whole[LEVELS]; /* bytes of this device that are not divided at a level */
} row;

static uint64_t
bytes_of(const yki_weights *w, size_t first, size_t end)
{
    uint64_t bytes = 0;

    for (size_t b = first; b < end; b++)
        bytes += w->buckets[b].size;
    return bytes;
}

/* Adds up what member k would have. The first of a group has what the group has once. */
static yoke_status
fill_row(const yki_crew *crew, size_t k, const yki_crew_options *options, yoke_replica *r,
         const yki_replica_in_team *in_team, size_t states, row *to)
{
    const yki_weights *w = r->weights;
    const yki_member *m = &crew->members[k];
    const bool first = m->index_in_group == 0;
    const uint64_t trained = bytes_of(w, 0, w->bucket_count);
    const uint64_t frozen = bytes_of(w, w->bucket_count, w->bucket_count + w->frozen_buckets);
    uint64_t sums = 0;

    if (options->accumulates)
        sums = crew->exact.granule ? trained / 4 * crew->exact.wire->bytes : trained;
    sums *= options->rechecks ? 2 : 1;
    *to = (row){.rank = crew->comm ? crew->comm->rank : 0, .group = (int32_t)m->group};
    to->left = yki_sharding_memory_left(crew, &crew->groups[m->group]);
    to->left += frozen + w->state_bucket.size; /* which this estimate takes itself */
    for (int level = 0; level < LEVELS; level++) {
        uint64_t plan;

        YKI_TRY(yki_replica_estimate(r, in_team, level >= YOKE_SHARD_GRADIENTS,
                                     level >= YOKE_SHARD_WEIGHTS, &plan));
        to->whole[level] = plan == UINT64_MAX ? UINT64_MAX / LEVELS / SPARE : plan + sums;
        to->whole[level] += first ? frozen + w->state_bucket.size : 0;
        to->whole[level] += level < YOKE_SHARD_GRADIENTS ? trained : 0;
        to->whole[level] += first && level < YOKE_SHARD_WEIGHTS ? trained : 0;
        to->whole[level] += first && level < YOKE_SHARD_STATE ? states * trained : 0;
        to->whole[level] += to->whole[level] / SPARE;
    }
    return YOKE_OK;
}

/* Opens a replica of member k that has no weights yet, for the estimates alone. */
static yoke_status
estimate(const yki_crew *crew, size_t k, const yki_crew_options *options, yki_describe *describe,
         size_t states, row *to, uint64_t *trained)
{
    yoke_replica_options o;
    yki_replica_in_team in_team;
    yoke_replica *r;
    yoke_status status;

    describe(crew, k, options, &o, &in_team);
    in_team.divides = in_team.gathers = true;
    in_team.lender = NULL;
    YKI_TRY(yki_replica_open(yoke_team_get_device(crew->team, k), crew->graph, &o, &in_team, &r));
    *trained = bytes_of(r->weights, 0, r->weights->bucket_count);
    status = fill_row(crew, k, options, r, &in_team, states, to);
    r->weights->transient = r->weights->divided = true;
    yoke_replica_destroy(r);
    return status;
}

/* Whether all groups have room at a level for what they have whole, and for their parts of the
 * `divided` bytes: by the weights in by[], or NULL: by what they have left. */
static bool
fits(const row *rows, size_t count, int level, uint64_t divided, const double *by)
{
    double room = 0, sum = 0;
    bool all = true;

    for (size_t k = 0; k < count && by; k++)
        sum += by[k];
    for (size_t k = 0, end; k < count; k = end) {
        uint64_t whole = 0;
        double weight = 0;

        for (end = k; end < count && rows[end].rank == rows[k].rank; end++) {
            if (rows[end].group != rows[k].group)
                break;
            whole += rows[end].whole[level];
            weight += by ? by[end] : 0;
        }
        all = all && whole <= rows[k].left &&
              (!by || weight / sum * (double)divided <= (double)(rows[k].left - whole));
        room += whole <= rows[k].left ? (double)(rows[k].left - whole) : 0;
    }
    return all && room >= (double)divided;
}

static yoke_status
choose(yki_crew *crew, const yki_crew_options *options, yki_describe *describe, row *rows,
       double *by)
{
    const yki_updater_options kept = {.optimizer = options->replica.optimizer,
                                      .average = options->average};
    const size_t states = yki_updater_states(&kept), total = crew->team->total;
    const int most = options->rechecks ? YOKE_SHARD_GRADIENTS : YOKE_SHARD_WEIGHTS;
    yki_shares_kind kind = YKI_SHARES_AUTO;
    uint64_t trained = 0;
    int level = 0;

    YKI_TRY(yki_shares_parse(options->shard_by, YKI_SHARES_AUTO, total, &kind, by));
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(
            estimate(crew, k, options, describe, states, &rows[crew->team->first + k], &trained));
    YKI_TRY(yki_sharding_gather_rows(crew, sizeof *rows, rows));
    /* State, gradients and weights are as large as one another, but of states there are several. */
    while (level < most &&
           !fits(rows, total, level, level ? (states + (uint64_t)level - 1) * trained : 0,
                 kind == YKI_SHARES_AUTO ? NULL : by))
        level++;
    crew->sharding.level = (yoke_shard_choice)level;
    yki_log(YOKE_LOG_INFO, "shards: auto chose %s", yki_sharding_name(crew->sharding.level));
    return YOKE_OK;
}

yoke_status
yki_sharding_choose(yki_crew *crew, const yki_crew_options *options, yki_describe *describe)
{
    const size_t total = crew->team->total;
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;
    double *by;
    row *rows;

    crew->sharding.level = options->shard;
    if (options->shard != YOKE_SHARD_AUTO)
        return YOKE_OK;
    crew->sharding.chosen = true;
    crew->sharding.level = YOKE_SHARD_NOTHING;
    if (!crew->through_host || !crew->graph->loss)
        return YOKE_OK;
    rows = yki_alloc(total, sizeof *rows, "what is divided");
    by = yki_alloc(total, sizeof *by, "what is divided");
    if (rows && by)
        status = choose(crew, options, describe, rows, by);
    yki_free(rows);
    yki_free(by);
    return status;
}
