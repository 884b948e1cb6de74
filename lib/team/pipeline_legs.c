/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline_legs.c - finds the legs of a pipeline: what members compute between two crossings.
 *
 * All processes have to find the same legs, and each knows only the plans of its own devices. So
 * they exchange a note of each task, and the legs follow from the notes alone.
 */
#include "team/pipeline_parts.h"

/* ---- what all processes know ---- */

/* Whether a state takes its next value from a task, which the micro-batch behind would read too
 * early. Running statistics do not. */
static bool
has_early_states(const yki_plan *plan)
{
    for (size_t i = 0; plan->commits && i < plan->weights->state_count; i++)
        if (plan->commits[i])
            return true;
    return false;
}

static yoke_status
make_arrays(yki_pipeline *p)
{
    p->depth = yki_alloc(p->members, sizeof *p->depth, "a pipeline");
    p->first_leg = yki_alloc(p->members, sizeof *p->first_leg, "a pipeline");
    p->last_leg = yki_alloc(p->members, sizeof *p->last_leg, "a pipeline");
    p->makers = yki_alloc(p->crossings, sizeof *p->makers, "a pipeline");
    p->takers = yki_alloc(p->crossings, sizeof *p->takers, "a pipeline");
    p->heads = yki_alloc(p->members, sizeof *p->heads, "a pipeline");
    p->first_note = yki_alloc(p->members, sizeof *p->first_note, "a pipeline");
    return p->depth && p->first_leg && p->last_leg && p->makers && p->takers && p->heads &&
                   p->first_note
               ? YOKE_OK
               : YOKE_ERROR_OUT_OF_MEMORY;
}

/* Whether a task writes the gradient of a parameter. A loss may be one with the gradients of the
 * layer before it; then forward does. */
static bool
writes_gradients(const yki_plan *plan, const yki_task *task)
{
    for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++)
        if (plan->values[task->slots[s]].bucket)
            return true;
    return false;
}

/* Notes the tasks of a plan of this process. */
static yoke_status
fill_notes(yki_pipeline *p, yki_crew *crew, size_t k)
{
    const yki_plan *plan = crew->members[k].replica->training;
    yki_note *notes = p->notes + p->first_note[crew->team->first + k];
    double *seconds = yki_alloc(plan->task_count, sizeof *seconds, "times of tasks");

    if (!seconds)
        return YOKE_ERROR_OUT_OF_MEMORY;
    p->heads[crew->team->first + k].measured = yki_plan_find_seconds(plan, seconds);
    for (size_t t = 0; t < plan->task_count; t++)
        notes[t] = (yki_note){.seconds = seconds[t],
                              .section = (uint8_t)plan->tasks[t].section,
                              .computes = plan->tasks[t].solver != NULL,
                              .writes = writes_gradients(plan, &plan->tasks[t])};
    yki_free(seconds);
    return YOKE_OK;
}

yoke_status
yki_pipeline_make_notes(yki_pipeline *p, yki_crew *crew)
{
    size_t total = 0;
    int64_t *counts = yki_alloc(p->members, sizeof *counts, "a pipeline");
    yoke_status status = counts ? make_arrays(p) : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t k = 0; k < crew->count && status == YOKE_OK; k++) {
        const yki_plan *plan = crew->members[k].replica->training;

        p->heads[crew->team->first + k] =
            (yki_head){.tasks = plan->task_count, .early = has_early_states(plan)};
    }
    if (status == YOKE_OK)
        status = yki_team_share_rows(crew->team, NULL, sizeof *p->heads, p->heads);
    for (size_t k = 0; k < p->members && status == YOKE_OK; k++) {
        counts[k] = (int64_t)p->heads[k].tasks;
        p->first_note[k] = total;
        total += (size_t)p->heads[k].tasks;
    }
    p->notes = yki_alloc(total, sizeof *p->notes, "a pipeline");
    if (!p->notes)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->count && status == YOKE_OK; k++)
        status = fill_notes(p, crew, k);
    if (status == YOKE_OK)
        status = yki_team_share_rows(crew->team, counts, sizeof *p->notes, p->notes);
    if (status == YOKE_OK)
        status = yki_team_share_rows(crew->team, NULL, sizeof *p->heads, p->heads);
    yki_free(counts);
    return status;
}

/* ---- legs ---- */

static bool
computes(const yki_pipeline *p, size_t member, yki_section section, size_t begin, size_t end)
{
    const yki_note *notes = p->notes + p->first_note[member];

    for (size_t t = begin; t < end; t++)
        if (notes[t].section == section && notes[t].computes)
            return true;
    return false;
}

static bool
begins_backward(const yki_pipeline *p, size_t member, const yki_leg_span *s)
{
    const yki_note *notes = p->notes + p->first_note[member];

    if (s->section == YKI_BACKWARD)
        return true;
    for (size_t t = s->begin; t < s->end; t++)
        if (notes[t].section == s->section && notes[t].writes)
            return true;
    return false;
}

static yoke_status
add_leg(yki_pipeline *p, const yki_crew *crew, size_t member, yki_leg_span s)
{
    const yki_crossings *all = &crew->stages->placed.crossings[true];

    YKI_TRY(yki_grow((void **)&p->legs, &p->leg_capacity, p->leg_count + 1, sizeof *p->legs,
                     "a pipeline"));
    YKI_TRY(yki_grow((void **)&p->spans, &p->span_capacity, p->leg_count + 1, sizeof *p->spans,
                     "a pipeline"));
    p->legs[p->leg_count] = (yki_leg){.member = (uint32_t)member};
    p->spans[p->leg_count] = s;
    for (size_t i = 0; i < p->crossings; i++)
        if (all->list[i].to == member && p->makers[i] != SIZE_MAX && p->takers[i] == SIZE_MAX)
            p->takers[i] = p->leg_count;
    p->leg_count++;
    return YOKE_OK;
}

/* Gives a crossing the newest leg of its sender in the section, or one without tasks. */
static yoke_status
add_maker(yki_pipeline *p, const yki_crew *crew, size_t crossing, yki_leg_span here)
{
    const uint32_t from = crew->stages->placed.crossings[true].list[crossing].from;
    size_t leg = p->leg_count;

    while (leg > 0 &&
           !(p->legs[leg - 1].member == from && p->spans[leg - 1].section == here.section))
        leg--;
    if (leg == 0) {
        YKI_TRY(add_leg(p, crew, from, here));
        leg = p->leg_count;
    }
    p->makers[crossing] = leg - 1;
    return YOKE_OK;
}

/* Cuts a section of all members where values cross. Backward of a member ends with a leg, even if
 * it has no tasks: it adds up gradients. */
static yoke_status
add_section(yki_pipeline *p, const yki_crew *crew, yki_section section)
{
    const yki_route *route = &crew->stages->routes[true];
    size_t *at = yki_alloc(p->members, sizeof *at, "a pipeline");
    yoke_status status = at ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < p->crossings && status == YOKE_OK; i++) {
        if (route->sections[i] != section)
            continue;
        for (size_t k = 0; k < p->members && status == YOKE_OK; k++) {
            const size_t end = route->ends[k * p->crossings + i];

            if (end <= at[k])
                continue;
            if (computes(p, k, section, at[k], end))
                status = add_leg(p, crew, k, (yki_leg_span){section, at[k], end});
            at[k] = end;
        }
        if (status == YOKE_OK)
            status = add_maker(p, crew, i, (yki_leg_span){section, 0, 0});
    }
    for (size_t k = 0; k < p->members && status == YOKE_OK; k++) {
        const size_t tasks = (size_t)p->heads[k].tasks;

        if (section == YKI_BACKWARD || computes(p, k, section, at[k], tasks))
            status = add_leg(p, crew, k, (yki_leg_span){section, at[k], tasks});
    }
    yki_free(at);
    return status;
}

/* Finds what legs of a member's plan take. */
static void
time_legs(yki_pipeline *p, size_t member)
{
    const yki_note *notes = p->notes + p->first_note[member];

    p->measured &= p->heads[member].measured;
    for (size_t j = 0; j < p->leg_count; j++)
        for (size_t t = p->spans[j].begin; p->legs[j].member == member && t < p->spans[j].end; t++)
            p->legs[j].seconds += notes[t].section == p->spans[j].section ? notes[t].seconds : 0;
}

yoke_status
yki_pipeline_make_legs(yki_pipeline *p, const yki_crew *crew)
{
    for (size_t i = 0; i < p->crossings; i++)
        p->makers[i] = p->takers[i] = SIZE_MAX;
    YKI_TRY(add_section(p, crew, YKI_FORWARD));
    p->home_leg = SIZE_MAX;
    for (size_t j = 0; j < p->leg_count; j++)
        p->home_leg = p->legs[j].member == crew->stages->home ? j : p->home_leg;
    YKI_TRY(add_section(p, crew, YKI_BACKWARD));
    p->measured = true;
    for (size_t k = 0; k < p->members; k++) {
        bool backward = false;

        time_legs(p, k);
        for (size_t j = 0; j < p->leg_count; j++)
            if (p->legs[j].member == k)
                p->legs[j].backward = backward |= begins_backward(p, k, &p->spans[j]);
    }
    for (size_t j = p->leg_count; j-- > 0;)
        p->first_leg[p->legs[j].member] = j;
    for (size_t j = 0; j < p->leg_count; j++)
        p->last_leg[p->legs[j].member] = j;
    return YOKE_OK;
}
