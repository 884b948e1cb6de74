/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - checks the options of training before anything is compiled: optimizer,
 * clipping, groups of parameters and the schedule.
 */
#include <float.h>
#include <fnmatch.h>
#include <stdio.h>

#include "replica/replica.h"

void
yki_optimizer_complete(yoke_optimizer *o)
{
    if (o->kind == YOKE_OPTIMIZER_SGD && o->learning_rate == 0)
        o->learning_rate = 0.01f;
}

/* Refuses a number that is negative or not finite. */
static yoke_status
check_number(const char *name, float value)
{
    if (value >= 0 && value <= FLT_MAX)
        return YOKE_OK;
    return yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, name, (double)value, 0, FLT_MAX);
}

/* Refuses a decay factor, applied at each step, that is not below 1. At 1 the corrections of Adam
 * would divide by 0, and a momentum would never decay. */
static yoke_status
check_fraction(const char *name, float value)
{
    if (value >= 0 && value < 1)
        return YOKE_OK;
    return yki_fail_range_below(YOKE_ERROR_INVALID_ARGUMENT, name, (double)value, 0, 1);
}

static yoke_status
check_count(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return YOKE_OK;
    return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, name, value, low, high);
}

static yoke_status
check_reserved(const char *what, const uint32_t *reserved, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (reserved[i])
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "reserved[%zu] of %s is %u; must be 0; zero the struct first", i, what,
                            reserved[i]);
    return YOKE_OK;
}

static yoke_status
check_optimizer(const yoke_optimizer *o)
{
    YKI_TRY(check_count("the optimizer's kind", (int)o->kind, YOKE_OPTIMIZER_SGD,
                        YOKE_OPTIMIZER_RMSPROP));
    YKI_TRY(check_number("the learning rate", o->learning_rate));
    YKI_TRY(check_fraction("the momentum", o->momentum));
    YKI_TRY(check_fraction("beta1", o->beta1));
    YKI_TRY(check_fraction("beta2", o->beta2));
    YKI_TRY(check_number("epsilon", o->epsilon));
    YKI_TRY(check_number("weight_decay", o->weight_decay));
    return check_reserved("an optimizer", o->reserved, YKI_COUNT(o->reserved));
}

/* Refuses a pattern that matches no parameter: it is a slip, and a parameter would train at another
 * rate than the user wants. */
static yoke_status
check_match(const yoke_parameter_group *group, size_t index, const yoke_graph *graph)
{
    const yoke_node *first = yoke_graph_get_parameter(graph, 0);

    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_PARAMETER &&
            fnmatch(group->pattern, graph->nodes[i]->name, 0) == 0)
            return YOKE_OK;
    return yki_fail(YOKE_ERROR_NOT_FOUND,
                    "group %zu: no parameter matches \"%s\"; the first parameter is \"%s\"", index,
                    group->pattern, yoke_node_name(first));
}

static yoke_status
check_group(const yoke_parameter_group *group, size_t index, const yoke_graph *graph)
{
    if (!group->pattern)
        return yki_fail(
            YOKE_ERROR_INVALID_ARGUMENT,
            "the pattern of group %zu is NULL; must name parameters, such as \"*.bias\"", index);
    YKI_TRY(check_number("a group's learning_rate_scale", group->learning_rate_scale));
    YKI_TRY(check_number("a group's weight_decay", group->weight_decay));
    YKI_TRY(check_reserved("a group", group->reserved, YKI_COUNT(group->reserved)));
    return check_match(group, index, graph);
}

yoke_status
yki_check_settings(const yoke_replica_options *o, const yoke_graph *graph)
{
    YKI_TRY(check_optimizer(&o->optimizer));
    YKI_TRY(check_number("clip_norm", o->clip_norm));
    YKI_TRY(check_number("clip_value", o->clip_value));
    if (o->group_count && !o->groups)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "groups is NULL and group_count is %zu; must be 0 without groups",
                        o->group_count);
    for (size_t i = 0; i < o->group_count; i++)
        YKI_TRY(check_group(&o->groups[i], i, graph));
    return YOKE_OK;
}

yoke_status
yki_check_schedule(const yoke_schedule *s)
{
    const bool ends = s->kind == YOKE_SCHEDULE_COSINE || s->kind == YOKE_SCHEDULE_LINEAR ||
                      s->kind == YOKE_SCHEDULE_ONE_CYCLE;

    YKI_TRY(check_count("the schedule's kind", (int)s->kind, YOKE_SCHEDULE_CONSTANT,
                        YOKE_SCHEDULE_ONE_CYCLE));
    YKI_TRY(check_number("the schedule's factor", s->factor));
    YKI_TRY(check_number("the schedule's initial", s->initial));
    YKI_TRY(check_number("the schedule's final_factor", s->final_factor));
    YKI_TRY(check_count("the schedule's warmup", s->warmup, 0, INT64_MAX));
    YKI_TRY(
        check_count("the schedule's period", s->period, s->kind == YOKE_SCHEDULE_STEP, INT64_MAX));
    YKI_TRY(check_count("the schedule's steps", s->steps, ends, INT64_MAX));
    return check_reserved("a schedule", s->reserved, YKI_COUNT(s->reserved));
}
