/* SPDX-License-Identifier: Apache-2.0
 *
 * shard_level.c - chooses what the devices of a team divide: as little as their memory allows.
 *
 * Less is faster. So the levels are tried from the first: nothing, the optimizer's state, gradients
 * too, weights too. What a device would have whole at a level is added up: its plan, as it is made
 * without measuring, with whole buckets in it where they come and go, and what has memory of its
 * own. It must have room for that, and all devices together for what is divided. Nothing is made
 * for that but a graph's running statistics and frozen parameters.
 *
 * Where shares follow the speed of devices, a device may get the whole batch, but needs to hold its
 * even share only. Then the level is the one that suffices for even shares, and the limit of a
 * device the largest batch, of a few, for which that level suffices too.
 */
#include "shares/shares.h"
#include "team/sharding.h"

enum {
    LEVELS = YOKE_SHARD_WEIGHTS + 1,
    SPARE = 32 /* one part in so many is for small things */
};

/* What is known of the whole team. */
typedef struct known {
    yki_shard_row *rows;
    size_t *owners; /* by device: the group that has its part */
    double *by;     /* by device: its weight */
    size_t total, count;
    bool weighted;    /* parts follow by[], not the memory that is left */
    size_t halves;    /* of a float: state of a parameter */
    uint64_t trained; /* bytes of parameters */
} known;

static uint64_t
bytes_of(const yki_weights *w, size_t first, size_t end)
{
    uint64_t bytes = 0;

    for (size_t b = first; b < end; b++)
        bytes += w->buckets[b].size;
    return bytes;
}

/* The plans of a device: with statistics of the whole batch each of its granules has one, and
 * gradients. */
static uint64_t
plans_of(const yki_crew *crew)
{
    const size_t total = crew->team->total;

    return crew->exact.together ? (crew->exact.most / crew->exact.micro_batches + total - 1) / total
                                : 1;
}

/* Adds up what member k would have. The first of a group has what the group has once. */
static yoke_status
fill_row(const yki_crew *crew, size_t k, const yki_crew_options *options, yoke_replica *r,
         const yki_replica_in_team *in_team, size_t halves, yki_shard_row *to)
{
    const yki_weights *w = r->weights;
    const bool first = crew->members[k].index_in_group == 0;
    const uint64_t trained = bytes_of(w, 0, w->bucket_count);
    const uint64_t frozen = bytes_of(w, w->bucket_count, w->bucket_count + w->frozen_buckets);
    const uint64_t plans = plans_of(crew);
    uint64_t sums = 0;

    if (options->accumulates)
        sums = crew->exact.granule ? trained / 4 * crew->exact.wire->bytes : trained;
    sums *= options->rechecks ? 2 : 1;
    *to = yki_sharding_row(crew, k);
    to->left += frozen + w->state_bucket.size; /* which this estimate takes itself */
    for (int level = 0; level < LEVELS; level++) {
        uint64_t plan;

        YKI_TRY(yki_replica_estimate(r, in_team, level >= YOKE_SHARD_GRADIENTS,
                                     level >= YOKE_SHARD_WEIGHTS, &plan));
        to->whole[level] =
            plan > UINT64_MAX / LEVELS / SPARE / plans ? UINT64_MAX / LEVELS / SPARE : plan * plans;
        to->whole[level] += sums;
        to->whole[level] += first ? frozen + w->state_bucket.size : 0;
        to->whole[level] += level < YOKE_SHARD_GRADIENTS ? plans * trained : 0;
        to->whole[level] += first && level < YOKE_SHARD_WEIGHTS ? trained : 0;
        to->whole[level] += first && level < YOKE_SHARD_STATE ? halves * trained / 2 : 0;
        to->whole[level] += to->whole[level] / SPARE;
    }
    return YOKE_OK;
}

/* Opens a replica of member k that has no weights yet, for the estimates alone. */
static yoke_status
estimate(const yki_crew *crew, size_t k, const yki_crew_options *options, yki_describe *describe,
         known *team)
{
    yoke_replica_options o;
    yki_replica_in_team in_team;
    yoke_replica *r;
    yoke_status status;

    describe(crew, k, options, &o, &in_team);
    in_team.divides = in_team.gathers = true;
    in_team.lender = NULL;
    YKI_TRY(yki_replica_open(yoke_team_get_device(crew->team, k), crew->graph, &o, &in_team, &r));
    team->trained = bytes_of(r->weights, 0, r->weights->bucket_count);
    status =
        fill_row(crew, k, options, r, &in_team, team->halves, &team->rows[crew->team->first + k]);
    yoke_replica_destroy(r);
    return status;
}

/* Whether all groups have room at a level for what they have whole, and for their parts of what is
 * divided. */
static bool
fits(const known *team, int level)
{
    /* State, gradients and weights are as large as one another, but of states there are several. */
    const uint64_t divided =
        level ? (team->halves + 2 * (uint64_t)(level - 1)) * team->trained / 2 : 0;
    double room = 0, sum = 0;

    for (size_t k = 0; k < team->total; k++)
        sum += team->by[k];
    for (size_t owner = 0; owner < team->count; owner++) {
        uint64_t whole = 0, left = 0;
        double weight = 0;

        for (size_t k = 0; k < team->total; k++) {
            if (team->owners[k] != owner)
                continue;
            left = team->rows[k].left;
            whole += team->rows[k].whole[level];
            weight += team->by[k];
        }
        if (whole > left ||
            (team->weighted && weight / sum * (double)divided > (double)(left - whole)))
            return false;
        room += (double)(left - whole);
    }
    return room >= (double)divided;
}

/* The first level that fits, if devices get at most so many samples; or the one behind the last. */
static yoke_status
first_that_fits(yki_crew *crew, const yki_crew_options *options, yki_describe *describe,
                int64_t batch, known *team, int *level)
{
    const int most = options->rechecks ? YOKE_SHARD_GRADIENTS : YOKE_SHARD_WEIGHTS;

    crew->sharding.batch = batch;
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(estimate(crew, k, options, describe, team));
    YKI_TRY(yki_sharding_gather_rows(crew, team->rows));
    team->count = yki_sharding_number(team->rows, team->total, team->owners);
    for (*level = 0; *level <= most && !fits(team, *level);)
        ++*level;
    return YOKE_OK;
}

static yoke_status
choose(yki_crew *crew, const yki_crew_options *options, yki_describe *describe, known *team)
{
    const int64_t total = (int64_t)team->total, all = options->micro_batch;
    const int64_t least = options->may_shrink ? (all + total - 1) / total : all;
    int level, best = LEVELS + 1;
    yki_shares_kind kind = YKI_SHARES_AUTO;
    int64_t batch = all;

    YKI_TRY(yki_shares_parse(options->shard_by, YKI_SHARES_AUTO, team->total, &kind, team->by));
    team->weighted = kind != YKI_SHARES_AUTO;
    for (int64_t tried = all; best > 0; tried = YKI_MAX((tried + 1) / 2, least)) {
        YKI_TRY(first_that_fits(crew, options, describe, tried, team, &level));
        if (level < best)
            batch = tried;
        best = YKI_MIN(best, level);
        if (tried <= least)
            break;
    }
    level = YKI_MIN(best, options->rechecks ? YOKE_SHARD_GRADIENTS : YOKE_SHARD_WEIGHTS);
    if (level < best)
        yki_log(YOKE_LOG_WARNING, "shards: nothing that could be divided seems to make it fit");
    crew->sharding.batch = batch;
    crew->sharding.level = (yoke_shard_choice)level;
    yki_log(level ? YOKE_LOG_INFO : YOKE_LOG_DEBUG, "shards: auto chose %s",
            yki_sharding_name(crew->sharding.level));
    return YOKE_OK;
}

yoke_status
yki_sharding_choose(yki_crew *crew, const yki_crew_options *options, yki_describe *describe)
{
    const yki_updater_options kept = {.optimizer = options->replica.optimizer,
                                      .state = options->replica.state,
                                      .average = options->average};
    const size_t total = crew->team->total;
    known team = {.total = total, .halves = yki_updater_halves(&kept)};
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    crew->sharding.level = options->shard;
    if (options->shard != YOKE_SHARD_AUTO)
        return YOKE_OK;
    crew->sharding.chosen = true;
    crew->sharding.level = YOKE_SHARD_NOTHING;
    if (!crew->through_host || !crew->graph->loss)
        return YOKE_OK;
    team.rows = yki_alloc(total, sizeof *team.rows, "what is divided");
    team.owners = yki_alloc(total, sizeof *team.owners, "what is divided");
    team.by = yki_alloc(total, sizeof *team.by, "what is divided");
    if (team.rows && team.owners && team.by)
        status = choose(crew, options, describe, &team);
    yki_free(team.rows);
    yki_free(team.owners);
    yki_free(team.by);
    return status;
}
