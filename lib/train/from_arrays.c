/* SPDX-License-Identifier: Apache-2.0
 *
 * from_arrays.c - one step or one prediction, with samples from arrays of the caller.
 *
 * All errors in the arrays are found before anything is enqueued.
 */
#include <string.h>

#include "team/stages.h"
#include "train/trainer.h"

typedef struct feeds {
    const yoke_feed *feeds;
    size_t count;
} feeds;

static yoke_status
load_arrays(void *user, yoke_trainer *t, size_t member, yki_plan *plan, int64_t first, int64_t n)
{
    const feeds *from = user;
    yoke_replica *r = t->crew.members[member].replica;

    for (size_t i = 0; i < from->count; i++)
        YKI_TRY(yki_replica_give(r, plan, from->feeds[i].name, t->crew.length, first, n,
                                 from->feeds[i].data));
    return YOKE_OK;
}

static bool
is_given(const char *name, const yoke_feed *given, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(given[i].name, name) == 0)
            return true;
    return false;
}

static yoke_status
check_feeds(const yoke_trainer *t, const char *function, int64_t n, const yoke_feed *given,
            size_t count, int64_t *length)
{
    const char *first = NULL;

    *length = 0;
    if (count && !given)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: the feeds are NULL and their number is %zu; must be 0 without feeds",
                        function, count);
    for (size_t i = 0; i < count; i++) {
        const yoke_node *node;
        int64_t own;

        if (!given[i].name)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "%s: the name of feed %zu is NULL; must be that of an input", function,
                            i);
        node = yoke_graph_get_node(t->graph, given[i].name);
        if (!node || node->role != YKI_ROLE_INPUT)
            return yki_graph_no_input(t->graph, given[i].name);
        if (is_given(given[i].name, given, i))
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "%s: feed \"%s\" is given twice; must be given once", function,
                            given[i].name);
        YKI_TRY(yki_check_feed(function, &given[i], node, n, &own));
        YKI_TRY(yki_check_labels(node, own, n, given[i].data));
        if (own && *length && own != *length)
            return yki_fail_lengths(function, node->name, own, first, *length);
        first = own && !first ? node->name : first;
        *length = own ? own : *length;
    }
    return YOKE_OK;
}

/* Checks that every input is given that the plan reads, or with stages any plan. */
static yoke_status
check_fed(const yoke_trainer *t, const yki_plan *plan, const yoke_feed *given, size_t count)
{
    for (size_t i = 0; i < t->graph->node_count; i++) {
        const yoke_node *node = t->graph->nodes[i];
        const bool read =
            t->crew.stages ? t->crew.stages->reads[i] : yki_plan_buffer(plan, node) != NULL;

        if (node->role == YKI_ROLE_INPUT && read && !is_given(node->name, given, count))
            return yki_fail(YOKE_ERROR_NOT_FOUND,
                            "nothing is given for the input \"%s\"; must have a feed", node->name);
    }
    return YOKE_OK;
}

static yoke_status
check_step(const yoke_trainer *t, int64_t n, const yoke_feed *given, size_t count, int64_t *length)
{
    const char *function = "yoke_trainer_step";

    if (n < 0 || n > t->options.batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: a step of %lld samples; must be between 0 and %lld, the batch",
                        function, (long long)n, (long long)t->options.batch);
    if (count == 0 && n > 0) {
        if (t->step == 0 || t->options.accumulate > 1 || t->options.granule ||
            t->flights[t->step % YKI_FLIGHT].samples != n)
            return yki_fail(YOKE_ERROR_STATE,
                            "%s: nothing is given for %lld samples; must be a feed for each input",
                            function, (long long)n);
        return YOKE_OK;
    }
    YKI_TRY(check_feeds(t, function, n, given, count, length));
    return check_fed(t, t->crew.members[0].replica->training, given, count);
}

static void
result_of(const yoke_trainer *t, const yki_flight *flight, yoke_result *result)
{
    double pairs[2 * YKI_PAIRS];

    for (size_t i = 0; i < 2 * t->crew.pairs; i++)
        pairs[i] = (double)flight->pairs[i];
    memset(result, 0, sizeof *result);
    yki_trainer_result(t, pairs, result);
    result->samples = flight->samples;
    result->step = flight->step;
    result->seconds = yki_now() - flight->begun;
}

yoke_status
yoke_trainer_step_sized(yoke_trainer *t, int64_t n, const yoke_feed *given, size_t count,
                        yoke_result *result, size_t size)
{
    yoke_result full;
    feeds from = {given, count};
    int64_t length;

    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_step"));
    length = t->crew.length;
    YKI_TRY(check_step(t, n, given, count, &length));
    t->crew.length = length;
    YKI_TRY(yki_trainer_run(t, n, count ? load_arrays : NULL, &from));
    if (t->recheck.went_back) {
        t->recheck.went_back = false;
        return yki_fail(YOKE_ERROR_DEVICE,
                        "yoke_trainer_step: a device computed wrongly for some steps and is left "
                        "out; the weights are those of step %lld again, so give all steps from "
                        "there on once more",
                        (long long)t->step);
    }
    if (!result)
        return YOKE_OK;
    YKI_TRY(yoke_trainer_wait(t));
    result_of(t, &t->flights[t->step % YKI_FLIGHT], &full);
    memset(result, 0, size);
    memcpy(result, &full, YKI_MIN(size, sizeof full));
    return YOKE_OK;
}

void
yki_trainer_mark_read(const yoke_trainer *t, const char *output, bool *reads)
{
    const yoke_graph *g = t->graph;

    for (size_t i = 0; output && i < g->output_count; i++)
        if (strcmp(g->outputs[i].name, output) == 0)
            reads[g->outputs[i].node->id] = true;
    /* Nodes come after their inputs, so this goes backwards. */
    for (size_t i = g->node_count; i-- > 0;)
        for (uint32_t k = 0; reads[i] && k < g->nodes[i]->input_count; k++)
            reads[g->nodes[i]->inputs[k]->id] = true;
}

/* Checks that the inputs that the output is computed from are given. Targets are not needed. */
static yoke_status
check_read(const yoke_trainer *t, const char *output, const yoke_feed *given, size_t count)
{
    const yoke_graph *g = t->graph;
    bool *read = yki_alloc(g->node_count, sizeof *read, "inputs of an output");
    const yoke_node *missing = NULL;

    if (!read)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_trainer_mark_read(t, output, read);
    for (size_t i = g->node_count; i-- > 0;)
        if (read[i] && g->nodes[i]->role == YKI_ROLE_INPUT &&
            !is_given(g->nodes[i]->name, given, count))
            missing = g->nodes[i];
    yki_free(read);
    if (missing)
        return yki_fail(YOKE_ERROR_NOT_FOUND,
                        "nothing is given for the input \"%s\"; must have a feed", missing->name);
    return YOKE_OK;
}

yoke_status
yoke_trainer_predict(yoke_trainer *t, const char *output, int64_t n, const yoke_feed *given,
                     size_t count, float *values, int64_t value_count)
{
    feeds from = {given, count};
    int64_t length, step_length;
    yoke_status status;

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_predict"));
    if (n < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_predict: n", n, 0,
                              INT64_MAX);
    YKI_TRY(check_feeds(t, "yoke_trainer_predict", n, given, count, &length));
    YKI_TRY(check_read(t, output, given, count));
    step_length = t->crew.length;
    t->crew.length = length;
    status = yki_trainer_predict(t, output, n, load_arrays, &from, values, value_count);
    t->crew.length = step_length; /* of data that the next step may use again */
    return status;
}
