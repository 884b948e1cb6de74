/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_memory.c - makes a trainer in the first way for which the memory of the devices suffices.
 *
 * The crew foresees whether devices have room for what the options say, or else for what they leave
 * open: to compute again, to divide, or both (team/shard_level.c). If none of that seems to fit,
 * the graph may be cut into stages, which may compute again as well (team/cut_graph.c). What was
 * foreseen may turn out wrong, as solvers are chosen by measuring afterwards. Then all of it is
 * given back, and the next way is tried, each once.
 *
 * Several processes foresee together. Where they foresee that a way does not fit, all take the next
 * one; any other failure ends them all: those that have not failed are somewhere else.
 */
#include <stdio.h>
#include <string.h>

#include "team/sharding.h"
#include "team/stages.h"
#include "train/trainer.h"

/* What a trainer is made of, and what became of it so far. */
typedef struct attempt {
    yki_make_trainer *make;
    yoke_team *team;
    yoke_graph *graph;
    yoke_trainer_options options;
    yki_core_groups_choice core_groups;
    yki_fitting fitting;
    bool cuts;
    bool alike;    /* all processes have failed in the last way */
    char why[480]; /* the graph cannot be cut, or its stages do not fit; "": it was not tried */
} attempt;

/* Whether another way may do where this status came of one that yoke has chosen. Some ways are
 * refused for plans that only then are known. */
static bool
may_go_on(const attempt *a, yoke_status status)
{
    return (!yki_team_comm(a->team) || a->alike) &&
           (yki_lacks_memory(status) || (status == YOKE_ERROR_UNSUPPORTED && a->fitting.taken > 0));
}

/* The device that lacks most; that has least left, if none lacks any. */
static size_t
shortest(const yoke_team *team, const yki_shortage *list)
{
    size_t most = 0;

    for (size_t k = 1; k < team->total; k++)
        if ((double)list[k].needed - (double)list[k].left >
            (double)list[most].needed - (double)list[most].left)
            most = k;
    return most;
}

/* ---- without stages ---- */

/* Tries the ways that seem to fit, one after the other. */
static yoke_status
try_ways(attempt *a, yoke_trainer **t)
{
    yoke_status status = YOKE_ERROR_OUT_OF_DEVICE_MEMORY;

    for (a->fitting.first = 0; a->fitting.first < YKI_WAYS;
         a->fitting.first = a->fitting.taken + 1) {
        a->fitting.taken = a->fitting.first;
        status = a->make(a->team, a->graph, &a->options, &a->core_groups, &a->fitting, t);
        if (a->fitting.taken == YKI_WAYS || !may_go_on(a, status))
            break;
        yki_log(YOKE_LOG_WARNING, "this should have fit, and the next way is tried: %s",
                yoke_last_error());
    }
    return status;
}

/* ---- stages ---- */

/* Tries stages that keep all that backward reads, and then, if they may, that compute again. */
static yoke_status
try_stages(attempt *a, yoke_trainer **t)
{
    yoke_trainer_options o = a->options;
    yoke_status status = YOKE_OK;

    o.stages = o.stages ? o.stages : YOKE_STAGES_AUTO;
    for (int again = 0; again <= a->fitting.recomputes; again++) {
        yki_fitting fitting = {.recomputes = again};

        status = a->make(a->team, a->graph, &o, &a->core_groups, &fitting, t);
        a->alike = fitting.alike;
        if (!may_go_on(a, status))
            break;
        snprintf(a->why, sizeof a->why, "%s", yoke_last_error());
    }
    return status;
}

/* Whether nothing that the options say excludes stages. */
static bool
may_cut(const attempt *a)
{
    yoke_trainer_options o = a->options;

    o.stages = YOKE_STAGES_AUTO;
    return a->cuts && a->team->total > 1 && !o.shard_by &&
           o.reproducible != YOKE_REPRODUCIBLE_ANY_SPLIT &&
           yki_stages_check(a->team, a->graph, &o) == YOKE_OK;
}

/* ---- all of them ---- */

/* Says by how much it does not fit, and what would help. */
static yoke_status
fail_to_fit(const attempt *a, yoke_status status)
{
    const size_t most = shortest(a->team, a->fitting.shortages);
    const yki_shortage *one = &a->fitting.shortages[most];
    char least[96] = "";

    if (one->needed <= one->left)
        return status;
    if (a->fitting.least && a->fitting.least < one->needed)
        snprintf(least, sizeof least, ", or %.1f MB if backward computes again what it can",
                 (double)a->fitting.least / 1e6);
    return yki_fail(status,
                    "training needs about %.1f MB on %s, which has %.1f MB left (its quota, or its "
                    "memory)%s%s%s",
                    (double)one->needed / 1e6, yoke_team_get_device_name(a->team, most),
                    (double)one->left / 1e6, least, a->why[0] ? "; in stages: " : "",
                    a->why[0] ? a->why
                              : "; take a smaller batch, more micro-batches, more devices or "
                                "larger quotas");
}

static yoke_status
try_all(attempt *a, yoke_trainer **t)
{
    yoke_status status = YOKE_ERROR_OUT_OF_DEVICE_MEMORY;

    if (!a->options.stages) {
        status = try_ways(a, t);
        if (a->fitting.taken < YKI_WAYS && !may_go_on(a, status))
            return status;
    }
    if (a->options.stages || may_cut(a)) {
        status = try_stages(a, t);
        if (!may_go_on(a, status))
            return status;
    }
    /* The estimates are not exact. */
    a->fitting.first = 0;
    a->fitting.last = true;
    yki_log(YOKE_LOG_INFO, "the memory of the devices seems to be too little: it is tried");
    status = a->make(a->team, a->graph, &a->options, &a->core_groups, &a->fitting, t);
    return yki_lacks_memory(status) ? fail_to_fit(a, status) : status;
}

static bool
is_short(const yoke_team *team, const yki_shortage *list)
{
    bool any = false;

    for (size_t k = 0; k < team->total; k++)
        any |= list[k].needed > 0;
    return any;
}

static yoke_status
fit(attempt *a, yoke_trainer **out)
{
    yoke_trainer *t = NULL;
    yoke_status status = YOKE_ERROR_OUT_OF_DEVICE_MEMORY;

    /* Core groups are for steps that are short, and so small. */
    if (a->core_groups.taken) {
        status = a->make(a->team, a->graph, &a->options, &a->core_groups, NULL, out);
        if (!yki_lacks_memory(status) || a->options.core_groups == YOKE_CORE_GROUPS_ALWAYS)
            return status;
        memset(&a->core_groups, 0, sizeof a->core_groups);
    }
    YKI_TRY(try_all(a, &t));
    if (is_short(a->team, a->fitting.shortages)) {
        t->shortages = a->fitting.shortages;
        a->fitting.shortages = NULL;
    }
    *out = t;
    return YOKE_OK;
}

yoke_status
yki_trainer_fit_memory(yki_make_trainer *make, yoke_team *team, yoke_graph *graph,
                       const yoke_trainer_options *o, const yki_core_groups_choice *core_groups,
                       bool cuts, yoke_trainer **out)
{
    const bool recomputes = o->recompute == YOKE_RECOMPUTE_AUTO && !o->recompute_bytes;
    attempt a = {.make = make,
                 .team = team,
                 .graph = graph,
                 .options = *o,
                 .core_groups = *core_groups,
                 .fitting = {.recomputes = recomputes},
                 .cuts = cuts};
    yoke_status status;

    if (graph->place_count || !graph->loss || (!recomputes && !may_cut(&a)))
        return make(team, graph, o, core_groups, NULL, out);
    a.fitting.shortages = yki_alloc(team->total, sizeof *a.fitting.shortages, "lacks of memory");
    if (!a.fitting.shortages)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = fit(&a, out);
    yki_free(a.fitting.shortages);
    return status;
}

void
yki_trainer_explain_fitting(const yoke_trainer *t, const yki_teller *to)
{
    const yki_crew *crew = &t->crew;
    const char *again = crew->budgets ? "backward computes again what does not fit" : "";
    char done[160] = "";
    size_t most;

    if (!t->shortages)
        return;
    most = shortest(t->team, t->shortages);
    if (crew->stages)
        snprintf(done, sizeof done, "the graph is cut into stages");
    else if (crew->sharding.level)
        snprintf(done, sizeof done, "the devices divide %s",
                 yki_sharding_name(crew->sharding.level));
    yki_tell(to, "%s has %.1f MB for what would need about %.1f MB: %s%s%s",
             yoke_team_get_device_name(t->team, most), (double)t->shortages[most].left / 1e6,
             (double)t->shortages[most].needed / 1e6, done, done[0] && again[0] ? ", and " : "",
             done[0] || again[0] ? again : "it is tried nevertheless");
}
