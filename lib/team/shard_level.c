/* SPDX-License-Identifier: Apache-2.0
 *
 * shard_level.c - chooses what the devices of a team divide, and whether they compute again: as
 * little as their memory allows.
 *
 * Less is faster. So the ways are tried from the first: nothing; to compute again in backward what
 * memory does not hold (plan/budget.c); to divide the optimizer's state, gradients too, weights
 * too; both. What a device would have whole at a level is added up: its plan, as it is made without
 * measuring, with whole buckets in it where they come and go, and what has memory of its own. It
 * must have room for that, and all devices together for what is divided. What then is left is the
 * budget of its plan. Nothing is made for that but a graph's running statistics and frozen
 * parameters.
 *
 * Where shares follow the speed of devices, a device may get the whole batch, but needs to hold its
 * even share only. Then the way is the one that suffices for even shares, and the limit of a device
 * the largest batch, of a few, for which that way suffices too.
 *
 * To compute again is considered only where the options leave it to yoke (yki_fitting). Then plans
 * for evaluation count as well, and samples: on their way, and in the first way alone those that
 * stay on a device (train/loaders.c). A network that fits in no way here may be cut: cut_graph.c.
 */
#include <string.h>

#include "shares/shares.h"
#include "team/sharding.h"

enum { LEVELS = YOKE_SHARD_WEIGHTS + 1 };

static const struct way {
    int level;
    bool recomputes;
} ways[YKI_WAYS] = {{YOKE_SHARD_NOTHING, false},  {YOKE_SHARD_NOTHING, true},
                    {YOKE_SHARD_STATE, false},    {YOKE_SHARD_GRADIENTS, false},
                    {YOKE_SHARD_WEIGHTS, false},  {YOKE_SHARD_STATE, true},
                    {YOKE_SHARD_GRADIENTS, true}, {YOKE_SHARD_WEIGHTS, true}};

/* What is known of the whole team. */
typedef struct known {
    yki_crew *crew;
    const yki_crew_options *options;
    yki_describe *describe;
    yki_shard_row *rows;
    size_t *owners;    /* by device: the group that has its part */
    double *by;        /* by device: its weight */
    uint64_t *budgets; /* by device: of the way that was looked at last */
    size_t total, count;
    int low, high;    /* levels that the options leave open */
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

static uint64_t
with_spare(uint64_t bytes)
{
    return bytes > UINT64_MAX / 2 ? UINT64_MAX / 2 : bytes + bytes / YKI_SPARE;
}

/* A product; what is no size of memory is limited, so that sums of several do not overflow. */
static uint64_t
times(uint64_t count, uint64_t bytes)
{
    const uint64_t most = UINT64_MAX / LEVELS / YKI_SPARE;

    return bytes > most / count ? most : count * bytes;
}

/* ---- a member ---- */

/* Opens a replica of member k that has no weights yet, for the estimates alone. */
static yoke_status
open_member(const known *team, size_t k, yki_replica_in_team *in_team, yoke_replica **r)
{
    yoke_replica_options o;

    team->describe(team->crew, k, team->options, &o, in_team);
    in_team->divides = in_team->gathers = true;
    in_team->lender = NULL;
    return yki_replica_open(yoke_team_get_device(team->crew->team, k), team->crew->graph, &o,
                            in_team, r);
}

static yki_estimate
estimate_at(int level)
{
    return (yki_estimate){.transient = level >= YOKE_SHARD_GRADIENTS,
                          .divided = level >= YOKE_SHARD_WEIGHTS};
}

/* What is nobody's part and no plan for training. The first of a group has what the group has once,
 * its owners the state. */
static uint64_t
rest_of(const known *team, size_t k, int level, uint64_t once)
{
    const yki_crew *crew = team->crew;
    const yki_crew_options *options = team->options;
    const yki_group *group = &crew->groups[crew->members[k].group];
    const size_t index = crew->members[k].index_in_group;
    uint64_t rest = 0;

    if (options->accumulates)
        rest = crew->exact.granule ? team->trained / 4 * crew->exact.wire->bytes : team->trained;
    rest *= options->rechecks ? 2 : 1;
    rest += index == 0 ? once : 0;
    rest += level < YOKE_SHARD_GRADIENTS ? plans_of(crew) * team->trained : 0;
    rest += index == 0 && level < YOKE_SHARD_WEIGHTS ? team->trained : 0;
    if (index < group->owners && level < YOKE_SHARD_STATE)
        rest += team->halves * team->trained / 2 / group->owners;
    return rest;
}

/* What samples on their way to member k need. */
static uint64_t
passing_of(const known *team, size_t k, int64_t batch)
{
    const yoke_graph *graph = team->crew->graph;
    const yki_device_traits *traits =
        yki_device_get_traits(yoke_team_get_device(team->crew->team, k));
    uint64_t bytes = sizeof(int64_t); /* its number */

    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_INPUT)
            bytes += (uint64_t)yki_shape_count(yki_whole_shape(graph->nodes[i])) *
                     yki_type_size(graph->nodes[i]->type);
    return times(YKI_PASSING * (traits->direct_host ? 1 : 2) * (uint64_t)batch, bytes);
}

/* Adds up what member k would have. */
static yoke_status
fill_row(const known *team, size_t k, yoke_replica *r, const yki_replica_in_team *in_team)
{
    const yki_weights *w = r->weights;
    const uint64_t frozen = bytes_of(w, w->bucket_count, w->bucket_count + w->frozen_buckets);
    const uint64_t once = frozen + w->state_bucket.size; /* which this estimate takes itself */
    yki_shard_row *to = &team->rows[team->crew->team->first + k];

    *to = yki_sharding_row(team->crew, k);
    to->left += once;
    to->own += once;
    for (int level = team->low; level <= team->high; level++) {
        yki_estimate of = estimate_at(level);
        uint64_t plan, evaluation = 0;

        YKI_TRY(yki_replica_estimate(r, in_team, &of, &plan));
        of.evaluation = true;
        if (team->options->fitting && !team->options->fitting->last) {
            YKI_TRY(yki_replica_estimate(r, in_team, &of, &evaluation));
            evaluation = times(1, evaluation) + passing_of(team, k, r->options.batch);
        }
        to->rest[level] = rest_of(team, k, level, once) + times(1, evaluation);
        if (level == team->low)
            to->data = times(1, evaluation / 9 * 7);
        to->whole[level] = times(plans_of(team->crew), plan) + to->rest[level];
    }
    return YOKE_OK;
}

static yoke_status
estimate_member(known *team, size_t k)
{
    yki_replica_in_team in_team;
    yoke_replica *r;
    yoke_status status;

    YKI_TRY(open_member(team, k, &in_team, &r));
    team->trained = bytes_of(r->weights, 0, r->weights->bucket_count);
    status = fill_row(team, k, r, &in_team);
    yoke_replica_destroy(r);
    return status;
}

/* Whether a plan of member k keeps to its budget. *least: the bytes if it does not; or NULL. */
static yoke_status
try_budget(const known *team, size_t k, int level, uint64_t most, bool *meets, uint64_t *least)
{
    yki_estimate of = estimate_at(level);
    yki_replica_in_team in_team;
    uint64_t bytes = UINT64_MAX;
    yoke_replica *r;
    yoke_status status;

    *meets = false;
    if (!most && !least)
        return YOKE_OK;
    YKI_TRY(open_member(team, k, &in_team, &r));
    of.most = most;
    status = most ? yki_replica_estimate(r, &in_team, &of, &bytes) : YOKE_OK;
    *meets = status == YOKE_OK && bytes <= most;
    of.least = true;
    if (status == YOKE_OK && !*meets && least)
        status = yki_replica_estimate(r, &in_team, &of, least);
    yoke_replica_destroy(r);
    return status;
}

/* ---- the team ---- */

/* State, gradients and weights are as large as one another, but of states there are several. */
static uint64_t
divided_at(const known *team, int level)
{
    return level ? (team->halves + 2 * (uint64_t)(level - 1)) * team->trained / 2 : 0;
}

static uint64_t
whole_of_owner(const known *team, size_t owner, int level)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < team->total; k++)
        sum += team->owners[k] == owner ? team->rows[k].whole[level] : 0;
    return sum;
}

static uint64_t
left_of_owner(const known *team, size_t owner)
{
    for (size_t k = 0; k < team->total; k++)
        if (team->owners[k] == owner)
            return team->rows[k].left;
    return 0;
}

/* The fraction of what is divided that an owner gets: by weight, or by memory. */
static double
part_of(const known *team, size_t owner)
{
    double sum = 0, own = 0;

    for (size_t o = 0; o < team->count && !team->weighted; o++)
        sum += (double)left_of_owner(team, o);
    for (size_t k = 0; k < team->total && team->weighted; k++) {
        sum += team->by[k];
        own += team->owners[k] == owner ? team->by[k] : 0;
    }
    if (!team->weighted)
        own = (double)left_of_owner(team, owner);
    return sum > 0 ? own / sum : 0;
}

/* Whether all devices have room at a level for what they have whole, and all groups for their parts
 * of what is divided. */
static bool
fits(const known *team, int level)
{
    const uint64_t divided = divided_at(team, level);
    double room = 0;

    for (size_t k = 0; k < team->total; k++) {
        const yki_shard_row *row = &team->rows[k];
        const uint64_t data = level == team->low ? row->data : 0;

        if (with_spare(row->whole[level] + data) > row->own)
            return false;
    }
    for (size_t owner = 0; owner < team->count; owner++) {
        const uint64_t left = left_of_owner(team, owner);
        const uint64_t whole = with_spare(whole_of_owner(team, owner, level));

        if (whole > left ||
            (team->weighted && part_of(team, owner) * (double)divided > (double)(left - whole)))
            return false;
        room += (double)(left - whole);
    }
    return room >= (double)divided;
}

/* What is left of a device's memory for its plans, if it computes again at a level. Parts without
 * quotas share what the hardware has. */
static uint64_t
budget_of(const known *team, size_t k, int level)
{
    const yki_shard_row *row = &team->rows[k];
    const size_t owner = team->owners[k];
    const double part = part_of(team, owner) * (double)divided_at(team, level);
    double own = (double)(row->own - row->own / YKI_SPARE) - (double)row->rest[level] - part;
    double all = (double)(row->left - row->left / YKI_SPARE) - part, quotas = 0, devices = 0;

    for (size_t i = 0; i < team->total; i++) {
        if (team->owners[i] != owner)
            continue;
        devices++;
        quotas += (double)team->rows[i].own;
        all -= (double)team->rows[i].rest[level];
    }
    if (quotas > (double)row->left)
        own = YKI_MIN(own, all / devices);
    own /= (double)plans_of(team->crew);
    return own > 0 ? (uint64_t)own : 0;
}

/* Whether the plans of all devices keep to budgets of what is left at a level. */
static yoke_status
meets(known *team, int level, bool *all)
{
    const yki_crew *crew = team->crew;

    for (size_t k = 0; k < team->total; k++)
        team->budgets[k] = budget_of(team, k, level);
    for (size_t k = 0; k < crew->count; k++) {
        const size_t device = crew->team->first + k;

        YKI_TRY(try_budget(team, k, level, team->budgets[device], &team->rows[device].meets, NULL));
    }
    YKI_TRY(yki_team_share_rows(crew->team, NULL, sizeof *team->rows, team->rows));
    *all = true;
    for (size_t k = 0; k < team->total; k++)
        *all &= team->rows[k].meets;
    return YOKE_OK;
}

/* The first way below `end` that fits, if devices get at most so many samples; or `end`. */
static yoke_status
first_that_fits(known *team, int64_t batch, size_t end, size_t *way)
{
    yki_crew *crew = team->crew;
    const yki_fitting *fitting = team->options->fitting;

    crew->sharding.batch = batch;
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(estimate_member(team, k));
    YKI_TRY(yki_team_share_rows(crew->team, NULL, sizeof *team->rows, team->rows));
    team->count = yki_sharding_number(team->rows, team->total, team->owners);
    for (*way = fitting ? fitting->first : 0; *way < end; ++*way) {
        bool fit = false;

        if (ways[*way].level < team->low || ways[*way].level > team->high)
            continue;
        if (!ways[*way].recomputes)
            fit = fits(team, ways[*way].level);
        else if (fitting && fitting->recomputes && !fitting->last)
            YKI_TRY(meets(team, ways[*way].level, &fit));
        if (fit)
            break;
    }
    return YOKE_OK;
}

/* ---- the choice ---- */

/* Notes how much each device would need in the first way, if that is too much for one. Where parts
 * of a device have too little together, each is told of all of them. */
static bool
note_shortages(const known *team, yki_shortage *list)
{
    bool any = false;

    for (size_t k = 0; k < team->total; k++) {
        const uint64_t all =
            whole_of_owner(team, team->owners[k], team->low) +
            (uint64_t)(part_of(team, team->owners[k]) * (double)divided_at(team, team->low));
        const yki_shard_row *row = &team->rows[k];
        const bool together = all > row->left && row->whole[team->low] <= row->own;

        list[k].needed = with_spare((together ? all : row->whole[team->low]) + row->data);
        list[k].left = together ? row->left : row->own;
        any |= list[k].needed > list[k].left;
    }
    return any;
}

/* Finds to how many bytes the device of this process that lacks most could come. */
static yoke_status
find_least(const known *team, yki_fitting *fitting)
{
    const yki_crew *crew = team->crew;
    uint64_t lack = 0, plan = UINT64_MAX;
    size_t most = 0;
    bool met;

    for (size_t k = 0; k < crew->count; k++) {
        const yki_shortage *one = &fitting->shortages[crew->team->first + k];

        if (one->needed > one->left && one->needed - one->left > lack) {
            lack = one->needed - one->left;
            most = k;
        }
    }
    YKI_TRY(try_budget(team, most, team->low, 0, &met, &plan));
    if (plan < UINT64_MAX)
        fitting->least = with_spare(times(plans_of(crew), plan) +
                                    team->rows[crew->team->first + most].rest[team->low]);
    return YOKE_OK;
}

static yoke_status
take(known *team, size_t way, int64_t batch, const uint64_t *budgets)
{
    yki_crew *crew = team->crew;
    yki_fitting *fitting = team->options->fitting;
    const int level = way < YKI_WAYS ? ways[way].level : team->high;

    if (fitting) {
        fitting->taken = way;
        if (way == YKI_WAYS && fitting->recomputes && !fitting->last)
            YKI_TRY(find_least(team, fitting));
        if (way == YKI_WAYS && !fitting->last)
            return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                            "the memory of the devices does not suffice");
    }
    if (way == YKI_WAYS && level)
        yki_log(YOKE_LOG_WARNING, "shards: nothing that could be divided seems to make it fit");
    crew->sharding.batch = batch;
    crew->sharding.level = (yoke_shard_choice)level;
    if (crew->sharding.chosen)
        yki_log(level ? YOKE_LOG_INFO : YOKE_LOG_DEBUG, "shards: auto chose %s",
                yki_sharding_name(crew->sharding.level));
    if (way == YKI_WAYS || !ways[way].recomputes)
        return YOKE_OK;
    crew->budgets = yki_alloc(crew->count, sizeof *crew->budgets, "budgets of memory");
    if (!crew->budgets)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(crew->budgets, budgets + crew->team->first, crew->count * sizeof *budgets);
    return YOKE_OK;
}

/* `budgets`: room for those of the best way so far. */
static yoke_status
choose(known *team, uint64_t *budgets)
{
    const yki_crew_options *options = team->options;
    const int64_t total = (int64_t)team->total, all = options->micro_batch;
    const int64_t least = options->may_shrink ? (all + total - 1) / total : all;
    yki_shares_kind kind = YKI_SHARES_AUTO;
    size_t way, best = YKI_WAYS;
    int64_t batch = all;
    const bool notes = options->fitting && !options->fitting->last;
    bool is_short = false;

    YKI_TRY(yki_shares_parse(options->shard_by, YKI_SHARES_AUTO, team->total, &kind, team->by));
    team->weighted = kind != YKI_SHARES_AUTO;
    for (int64_t tried = all; best > 0; tried = YKI_MAX((tried + 1) / 2, least)) {
        YKI_TRY(first_that_fits(team, tried, best, &way));
        if (way < best || tried == all) {
            batch = tried;
            memcpy(budgets, team->budgets, team->total * sizeof *budgets);
        }
        best = YKI_MIN(best, way);
        if (notes)
            is_short = note_shortages(team, options->fitting->shortages);
        if (tried <= least)
            break;
    }
    if (notes && !is_short && !options->fitting->first)
        memset(options->fitting->shortages, 0, team->total * sizeof *options->fitting->shortages);
    return take(team, best, batch, budgets);
}

/* Whether each device has so much memory that no plan need be made to see that all fits: many times
 * what all values take that the graph has, with weights, gradients and state. */
static bool
have_plenty(const yki_crew *crew, const yki_crew_options *options)
{
    const double plenty = 32 * (double)crew->count;
    double floats = 0;

    for (size_t i = 0; i < yki_graph_own_count(crew->graph); i++) {
        const yoke_node *node = crew->graph->nodes[i];
        const double n = (double)yki_shape_count(yki_whole_shape(node));

        floats += node->batched ? n * (double)options->micro_batch : n;
    }
    for (size_t k = 0; k < crew->count; k++)
        if (plenty * 4 * floats > (double)yki_quota_left(yoke_team_get_device(crew->team, k)))
            return false;
    return true;
}

yoke_status
yki_sharding_choose(yki_crew *crew, const yki_crew_options *options, yki_describe *describe)
{
    const yki_updater_options kept = {.optimizer = options->replica.optimizer,
                                      .state = options->replica.state,
                                      .average = options->average};
    const size_t total = crew->team->total;
    const bool divides = crew->through_host && crew->graph->loss;
    known team = {.crew = crew,
                  .options = options,
                  .describe = describe,
                  .total = total,
                  .halves = yki_updater_halves(&kept)};
    uint64_t *budgets;
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    crew->sharding.level = options->shard;
    crew->sharding.chosen = options->shard == YOKE_SHARD_AUTO;
    if (crew->sharding.chosen)
        crew->sharding.level = YOKE_SHARD_NOTHING;
    if (!crew->graph->loss || crew->stages ||
        !(options->fitting || (crew->sharding.chosen && divides)))
        return YOKE_OK;
    /* Processes would have to agree on that. */
    if (options->fitting && !crew->comm && options->fitting->first == 0 &&
        have_plenty(crew, options)) {
        options->fitting->taken = 0;
        return YOKE_OK;
    }
    if (divides && crew->sharding.chosen)
        team.high = options->rechecks ? YOKE_SHARD_GRADIENTS : YOKE_SHARD_WEIGHTS;
    else if (divides)
        team.low = team.high = (int)options->shard;
    team.rows = yki_alloc(total, sizeof *team.rows, "what is divided");
    team.owners = yki_alloc(total, sizeof *team.owners, "what is divided");
    team.by = yki_alloc(total, sizeof *team.by, "what is divided");
    team.budgets = yki_alloc(total, sizeof *team.budgets, "what is divided");
    budgets = yki_alloc(total, sizeof *budgets, "what is divided");
    if (team.rows && team.owners && team.by && team.budgets && budgets)
        status = choose(&team, budgets);
    yki_free(team.rows);
    yki_free(team.owners);
    yki_free(team.by);
    yki_free(team.budgets);
    yki_free(budgets);
    return status;
}
