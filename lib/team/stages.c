/* SPDX-License-Identifier: Apache-2.0
 *
 * stages.c - one graph over several devices: each device has the nodes of its places,
 * and all have the whole batch.
 *
 * A value that another member reads is a crossing. If both members share memory, a
 * crossing is one buffer and an event, else a copy. The thread that enqueues makes
 * the crossings in the order of the graph. Before each one it lets every member run
 * as far as it can: up to its next value that others wait for, or up to the first
 * value that it lacks. The inputs of a value have smaller numbers in the graph than
 * the value, so they crossed before it, and nothing can deadlock.
 *
 * Parameters, their gradients and the optimizer's state stay on the device of their
 * place. Each device updates its own parameters, with the loss's count and, for
 * clipping, the norms of all devices. One batch goes through at a time; pipeline.c
 * lets several micro-batches through.
 */
#include <stdio.h>
#include <string.h>

#include "team/stages.h"

/* ---- places and devices ---- */

static bool
is_place(const yoke_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->place_count; i++)
        if (strcmp(graph->places[i], name) == 0)
            return true;
    return false;
}

/* Where a graph has statistics of the batch, all micro-batches of a full step have as many samples:
 * each changes the running statistics by as much, and so a sample of a smaller one by more. */
static yoke_status
check_micro_batches(const yoke_graph *graph, const yoke_trainer_options *o)
{
    const int64_t batch = o->batch ? o->batch : 32, count = YKI_MAX(o->accumulate, 1u);
    int64_t fewer = YKI_MIN(count, batch);

    if (batch % count == 0 || !yki_graph_find_statistic(graph))
        return YOKE_OK;
    while (batch % fewer != 0)
        fewer--;
    return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                    "accumulate is %lld, but the graph has batch norms, which take statistics of "
                    "each micro-batch; with stages it must divide the batch, %lld, then: take "
                    "%lld, or another batch",
                    (long long)count, (long long)batch, (long long)fewer);
}

/* What a cut excludes. */
static yoke_status
check_cut(const yoke_team *team, const yoke_graph *graph, const yoke_trainer_options *o)
{
    if (graph->place_count)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the graph has places (\"%s\"), which say where its nodes are; stages must "
                        "be 0",
                        graph->places[0]);
    if (!graph->loss)
        return yki_fail(YOKE_ERROR_STATE,
                        "the graph has no loss, so there are no steps by which it "
                        "could be cut; stages must be 0");
    if (yki_team_comm(team) && (!team->comm->send_start || !team->comm->receive_start))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "stages of several processes send each other messages, and this comm "
                        "sends none (send_start, receive_start); stages must be 0");
    if (o->stages != YOKE_STAGES_AUTO && o->stages > team->total)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "stages is %u, and the team has %zu device%s; must be at most that, or "
                        "YOKE_STAGES_AUTO",
                        o->stages, team->total, team->total == 1 ? "" : "s");
    return check_micro_batches(graph, o);
}

/* What both exclude. */
static yoke_status
check_others(const yoke_team *team, const yoke_trainer_options *o, const char *why)
{
    if (yki_team_comm(team) && !o->stages)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the graph has %s and the team has %d processes; must have one", why,
                        team->comm->ranks);
    if (o->shares)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "shares are \"%s\", but every device has the whole batch of a graph with "
                        "%s; must be NULL",
                        o->shares, why);
    if (o->shard != YOKE_SHARD_NOTHING && o->shard != YOKE_SHARD_AUTO)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "each device of a graph with %s has the state of its own "
                        "parameters, so there are no shards; shard must be YOKE_SHARD_NOTHING or "
                        "YOKE_SHARD_AUTO",
                        why);
    return YOKE_OK;
}

yoke_status
yki_stages_check(const yoke_team *team, const yoke_graph *graph, const yoke_trainer_options *o)
{
    char why[128];
    size_t member;

    if (o->stages)
        YKI_TRY(check_cut(team, graph, o));
    else if (graph->place_count == 0)
        return YOKE_OK;
    if (o->stages)
        snprintf(why, sizeof why, "stages");
    else
        snprintf(why, sizeof why, "places (\"%.80s\")", graph->places[0]);
    YKI_TRY(check_others(team, o, why));
    for (size_t i = 0; i < graph->place_count; i++)
        YKI_TRY(yki_team_find_place(team, graph->places[i], &member));
    for (size_t i = 0; i < team->place_count && graph->place_count; i++)
        if (!is_place(graph, team->places[i].name))
            return yki_fail(YOKE_ERROR_NOT_FOUND,
                            "the team binds the place \"%s\"; must be a place of the graph",
                            team->places[i].name);
    return YOKE_OK;
}

yoke_status
yki_stages_shares(const yoke_team *team, size_t home, char **shares)
{
    *shares = yki_alloc(2 * team->total, 1, "shares");
    if (!*shares)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < team->total; k++) {
        (*shares)[2 * k] = k == home ? '1' : '0';
        (*shares)[2 * k + 1] = k + 1 < team->total ? ',' : '\0';
    }
    return YOKE_OK;
}

/* Gives each node the member of its place; those without one have the first. */
static yoke_status
follow_places(const yki_crew *crew, uint32_t *homes)
{
    const yoke_graph *graph = crew->graph;

    for (size_t i = 0; i < graph->node_count; i++) {
        const uint32_t place = graph->nodes[i]->place;
        size_t member = 0;

        if (place)
            YKI_TRY(yki_team_find_place(crew->team, graph->places[place - 1], &member));
        homes[i] = (uint32_t)member;
    }
    return YOKE_OK;
}

static yoke_status
find_homes(yki_crew *crew, const yki_crew_options *options, struct yki_stages *s)
{
    const yoke_graph *graph = crew->graph;
    const bool limits = options->stages && options->fitting && options->fitting->recomputes;
    bool *used = yki_alloc(crew->team->total, sizeof *used, "stages");
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    if (limits)
        crew->budgets = yki_alloc(crew->count, sizeof *crew->budgets, "budgets of memory");
    s->placed.members = (uint32_t)crew->team->total;
    s->placed.homes = yki_alloc(graph->node_count, sizeof *s->placed.homes, "stages");
    if (used && s->placed.homes && (crew->budgets || !limits))
        status = options->stages ? yki_stages_cut(crew, options, s->placed.homes, crew->budgets)
                                 : follow_places(crew, s->placed.homes);
    for (size_t i = 0; i < graph->node_count && status == YOKE_OK; i++)
        used[s->placed.homes[i]] = true;
    for (size_t k = 0; k < crew->count && status == YOKE_OK; k++)
        if (!used[crew->team->first + k])
            yki_log(YOKE_LOG_WARNING, "%s has no part of the graph: %s",
                    yki_device_id(yoke_team_get_device(crew->team, k)),
                    options->stages ? "it is no stage" : "no place is bound to it");
    if (status == YOKE_OK && graph->loss)
        s->home = s->placed.homes[graph->loss->id];
    crew->home = yki_is_here(crew, s->home) ? yki_here(crew, s->home) : 0;
    yki_free(used);
    return status;
}

/* ---- what crosses ---- */

static yoke_status
make_buffer(struct yki_stages *s, yoke_device *device, const yoke_node *node, yki_extents max,
            yki_buffer **buffer)
{
    yki_operand operand = yki_operand_of(node);

    max.length = node->graph->length;
    YKI_TRY(yki_grow((void **)&s->owned, &s->owned_capacity, s->owned_count + 1, sizeof *s->owned,
                     "crossings"));
    YKI_TRY(
        yki_buffer_create(device, (uint64_t)yki_value_bytes(&operand, max), 0, node->name, buffer));
    s->owned[s->owned_count++] = *buffer;
    return YOKE_OK;
}

/* Finds or makes the buffer of a value on the device that computes it. A weight has one already.
 * All crossings of a value share one buffer there. */
static yoke_status
find_source(yki_crew *crew, yki_crossings *all, size_t index, yki_extents max)
{
    yki_crossing *c = &all->list[index];
    yki_weight *weight = NULL;

    if (c->node->role == YKI_ROLE_PARAMETER || c->node->role == YKI_ROLE_STATE)
        weight = yki_weights_find(crew->stages->weights[yki_here(crew, c->from)], c->node->name);
    if (weight)
        c->source = weight->value;
    else if (index > 0 && all->list[index - 1].node == c->node)
        c->source = all->list[index - 1].source;
    else
        YKI_TRY(
            make_buffer(crew->stages, yki_device_here(crew, c->from), c->node, max, &c->source));
    return YOKE_OK;
}

static yoke_status
make_link(yki_crew *crew, size_t from, size_t to, uint64_t size)
{
    yki_link **link = &crew->stages->links[yki_here(crew, from) * crew->count + yki_here(crew, to)];

    return *link ? YOKE_OK
                 : yki_link_create(yki_device_here(crew, from), yki_device_here(crew, to), size,
                                   link);
}

/* Makes the links that the update needs: the loss's count goes from its device to all others, norms
 * go between all devices, through the host if there are several processes. A link that crossings
 * use exists by now, with a larger buffer. */
static yoke_status
make_links(yki_crew *crew, bool norms)
{
    const size_t first = crew->team->first, end = first + crew->count;

    for (size_t from = first; from < end; from++)
        for (size_t to = first; to < end; to++)
            if (from != to && ((norms && !crew->comm) || from == crew->stages->home))
                YKI_TRY(make_link(crew, from, to, 4096));
    return YOKE_OK;
}

/* Makes letters for what crosses between processes; in training, for the totals of the loss too. */
static yoke_status
make_letters(yki_crew *crew, bool training, yki_extents max)
{
    struct yki_stages *s = crew->stages;
    uint64_t *bytes;
    uint32_t *ends;
    size_t count;
    yoke_status status = yki_stages_list(crew, training, max, &count, &bytes, &ends);

    if (status == YOKE_OK)
        status = yki_letters_make(crew, count, bytes, ends, 1, &s->letters[training],
                                  &s->letter_memory[training]);
    yki_free(bytes);
    yki_free(ends);
    return status;
}

static yoke_status
make_crossings(yki_crew *crew, bool training, yki_extents max)
{
    struct yki_stages *s = crew->stages;
    yki_crossings *all = &s->placed.crossings[training];

    if (all->count == 0) {
        yoke_status status = yki_find_crossings(crew->graph, training, &s->placed, all);

        if (status != YOKE_OK) {
            all->count = 0;
            return status;
        }
    }
    for (size_t i = 0; i < all->count; i++) {
        yki_crossing *c = &all->list[i];

        if (yki_is_here(crew, c->from) && !c->source)
            YKI_TRY(find_source(crew, all, i, max));
        if (!yki_is_here(crew, c->to))
            continue;
        if (yki_is_here(crew, c->from) &&
            yki_devices_share(yki_device_here(crew, c->from), yki_device_here(crew, c->to))) {
            c->target = c->source;
            continue;
        }
        if (!c->target)
            YKI_TRY(make_buffer(s, yki_device_here(crew, c->to), c->node, max, &c->target));
        if (yki_is_here(crew, c->from))
            YKI_TRY(make_link(crew, c->from, c->to, yki_buffer_size(c->source)));
    }
    return s->letters[training] ? YOKE_OK : make_letters(crew, training, max);
}

/* ---- routes: how far each member may run ---- */

/* Where a member's plan writes and reads a value, as numbers of tasks. */
typedef struct touch {
    size_t made;               /* behind the last task that writes it; 0: no task does */
    size_t read[YKI_SECTIONS]; /* first task that reads it, by section; SIZE_MAX: never */
} touch;

static yoke_status
find_touches(const yki_plan *plan, touch **out)
{
    touch *touches = yki_alloc(plan->value_count, sizeof *touches, "crossings");

    if (!touches)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t v = 0; v < plan->value_count; v++)
        for (int s = 0; s < YKI_SECTIONS; s++)
            touches[v].read[s] = SIZE_MAX;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        /* A view neither reads nor writes. */
        for (uint32_t i = 0; task->solver && i < task->recipe.slot_count; i++) {
            touch *touched = &touches[yki_value_root(plan, task->slots[i])];

            if (i >= task->problem.input_count)
                touched->made = t + 1;
            else if (touched->read[task->section] == SIZE_MAX)
                touched->read[task->section] = t;
        }
    }
    *out = touches;
    return YOKE_OK;
}

static const touch *
touch_of(const yki_plan *plan, const touch *touches, const yoke_node *node)
{
    static const touch never = {0, {SIZE_MAX, SIZE_MAX}};
    int32_t value = plan->node_value[node->id];

    return value < 0 ? &never : &touches[yki_value_root(plan, value)];
}

/* Finds where one member stops before each crossing: behind the value that it makes for others, and
 * before the first task that reads a value that it has not got. Goes from the last crossing to the
 * first. */
static yoke_status
find_ends(const yki_crew *crew, const yki_crossings *all, yki_route *route, size_t member,
          const yki_plan *plan, const touch *touches)
{
    size_t made[YKI_SECTIONS] = {SIZE_MAX, SIZE_MAX}, lacks[YKI_SECTIONS];

    for (int s = 0; s < YKI_SECTIONS; s++)
        lacks[s] = plan->task_count;
    for (size_t i = all->count; i-- > 0;) {
        const yki_crossing *c = &all->list[i];
        yki_section s = route->sections[i];
        const touch *touched = touch_of(plan, touches, c->node);

        if (c->to == crew->team->first + member)
            lacks[s] = YKI_MIN(lacks[s], touched->read[s]);
        if (c->from == crew->team->first + member) {
            made[s] = touched->made;
            if (made[s] > lacks[s])
                return yki_fail_bug("%s crosses before what it is made of", c->node->name);
        }
        route->ends[(crew->team->first + member) * all->count + i] = YKI_MIN(lacks[s], made[s]);
    }
    return YOKE_OK;
}

static yki_plan *
plan_of(const yki_crew *crew, size_t member, bool training)
{
    const yoke_replica *r = crew->members[member].replica;

    return training ? r->training : r->evaluation;
}

/* Notes how much of the graph a member has, and which inputs it reads. */
static void
measure(yki_crew *crew, size_t k, const yki_crossings *all, yki_plan *plan)
{
    const yki_weights *w = crew->stages->weights[k];
    yki_stage_size size = {.commands = plan->task_count};

    for (size_t i = 0; i < w->weight_count; i++)
        size.parameters += w->weights[i].value ? w->weights[i].size / sizeof(float) : 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].to == crew->team->first + k && all->list[i].target != all->list[i].source)
            size.copied += yki_buffer_size(all->list[i].target);
    crew->stages->sizes[crew->team->first + k] = size;
    for (size_t i = 0; i < crew->graph->node_count; i++)
        crew->stages->reads[i] |= crew->graph->nodes[i]->role == YKI_ROLE_INPUT &&
                                  yki_plan_buffer(plan, crew->graph->nodes[i]) != NULL;
}

/* Gives all processes what members of others make and need: where they stop, how much they have,
 * and which inputs they read. */
static yoke_status
share_routes(yki_crew *crew, bool training)
{
    struct yki_stages *s = crew->stages;
    const size_t nodes = crew->graph->node_count, ranks = (size_t)crew->comm->ranks;
    bool *reads;
    yoke_status status;

    YKI_TRY(yki_team_share_rows(crew->team, NULL,
                                s->placed.crossings[training].count * sizeof(size_t),
                                s->routes[training].ends));
    YKI_TRY(yki_team_share_rows(crew->team, NULL, sizeof *s->sizes, s->sizes));
    reads = yki_alloc(ranks * nodes, sizeof *reads, "inputs of stages");
    if (!reads)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = crew->comm->allgather(crew->comm, s->reads, nodes * sizeof *reads, reads);
    for (size_t i = 0; i < ranks * nodes && status == YOKE_OK; i++)
        s->reads[i % nodes] |= reads[i];
    yki_free(reads);
    return status;
}

yoke_status
yki_stages_connect(yki_crew *crew, bool training)
{
    const yki_crossings *all = &crew->stages->placed.crossings[training];
    yki_route *route = &crew->stages->routes[training];

    route->sections = yki_alloc(all->count, sizeof *route->sections, "crossings");
    route->ends = yki_alloc(all->count * crew->team->total, sizeof *route->ends, "crossings");
    if (!route->sections || !route->ends)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < all->count; i++)
        route->sections[i] = all->list[i].node->backward ? YKI_BACKWARD : YKI_FORWARD;
    for (size_t k = 0; k < crew->count; k++) {
        yki_plan *plan = plan_of(crew, k, training);
        touch *touches;
        yoke_status status;

        if (training || !crew->graph->loss)
            measure(crew, k, all, plan);
        YKI_TRY(find_touches(plan, &touches));
        status = find_ends(crew, all, route, k, plan, touches);
        yki_free(touches);
        YKI_TRY(status);
    }
    return crew->comm ? share_routes(crew, training) : YOKE_OK;
}

/* ---- making ---- */

/* Finds the process of each member. */
static yoke_status
find_ranks(yki_crew *crew)
{
    struct yki_stages *s = crew->stages;

    s->mail = (yki_mail){.comm = crew->comm, .at = &crew->at};
    s->rank_of = yki_alloc(crew->team->total, sizeof *s->rank_of, "places");
    if (!s->rank_of)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->team->total; k++)
        s->rank_of[k] = crew->comm ? crew->comm->rank : 0;
    return yki_team_share_rows(crew->team, NULL, sizeof *s->rank_of, s->rank_of);
}

yoke_status
yki_stages_create(yki_crew *crew, const yki_crew_options *options)
{
    struct yki_stages *s = yki_alloc(1, sizeof *s, "places");
    const bool training = crew->graph->loss;

    if (!s)
        return YOKE_ERROR_OUT_OF_MEMORY;
    crew->stages = s;
    YKI_TRY(yki_graph_complete(crew->graph, training));
    YKI_TRY(find_ranks(crew));
    YKI_TRY(find_homes(crew, options, s));
    s->weights = yki_alloc(crew->count, sizeof *s->weights, "places");
    s->links = yki_alloc(crew->count * crew->count, sizeof *s->links, "places");
    s->reads = yki_alloc(crew->graph->node_count, sizeof *s->reads, "places");
    s->sizes = yki_alloc(crew->team->total, sizeof *s->sizes, "places");
    if (!s->weights || !s->links || !s->reads || !s->sizes)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(yki_weights_create_placed(yoke_team_get_device(crew->team, k), crew->graph,
                                          training, options->bucket_bytes, &s->placed,
                                          (uint32_t)(crew->team->first + k), &s->weights[k]));
    YKI_TRY(make_crossings(crew, training, (yki_extents){.batch = YKI_MAX(options->most[0], 1)}));
    if (!training)
        return YOKE_OK;
    return make_links(crew, options->replica.clip_norm > 0);
}

static yoke_status
make_evaluations(yki_crew *crew, void *unused)
{
    (void)unused;
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(yki_replica_make_evaluation(crew->members[k].replica));
    return YOKE_OK;
}

yoke_status
yki_crew_make_evaluation(yki_crew *crew)
{
    bool complete = true;

    for (size_t k = 0; k < crew->count; k++)
        complete &= crew->members[k].replica->evaluation != NULL;
    if (complete)
        return YOKE_OK;
    if (crew->stages)
        YKI_TRY(make_crossings(crew, false,
                               (yki_extents){.batch = crew->members[0].replica->options.batch}));
    YKI_TRY(yki_crew_in_turn(crew, make_evaluations, NULL));
    return crew->stages ? yki_stages_connect(crew, false) : YOKE_OK;
}

void
yki_stages_end_mail(yki_crew *crew)
{
    struct yki_stages *s = crew->stages;

    for (size_t i = 0; s && i < YKI_COUNT(s->letters); i++) {
        yki_letters_free(crew, s->letters[i],
                         s->placed.crossings[i].count + (i ? crew->team->total : 0),
                         s->letter_memory[i]);
        s->letters[i] = NULL;
        s->letter_memory[i] = NULL;
    }
}

void
yki_stages_destroy(yki_crew *crew)
{
    struct yki_stages *s = crew->stages;

    if (!s)
        return;
    for (size_t i = 0; s->links && i < crew->count * crew->count; i++)
        yki_link_destroy(s->links[i]);
    for (size_t i = 0; i < s->owned_count; i++)
        yki_buffer_destroy(s->owned[i]);
    for (size_t k = 0; s->weights && k < crew->count; k++)
        yki_weights_release(s->weights[k]);
    for (size_t i = 0; i < YKI_COUNT(s->routes); i++) {
        yki_free(s->routes[i].sections);
        yki_free(s->routes[i].ends);
        yki_free(s->placed.crossings[i].list);
    }
    yki_free(s->placed.homes);
    yki_free(s->rank_of);
    yki_free(s->reads);
    yki_free(s->sizes);
    yki_free(s->links);
    yki_free(s->owned);
    yki_free(s->weights);
    yki_free(s);
    crew->stages = NULL;
}

/* ---- running ---- */

static yoke_status
run_to(yki_crew *crew, size_t member, yki_plan *plan, yki_section section, size_t end)
{
    yki_member *m = &crew->members[member];

    if (m->position >= end)
        return YOKE_OK;
    crew->at = member;
    YKI_TRY(yki_plan_enqueue_tasks(plan, section, m->position, end));
    m->position = end;
    return yki_queue_flush(m->replica->queue);
}

/* Copies bytes [offset, offset + size) of one member's buffer to another's, behind all that both
 * have enqueued. If both have the same buffer, the receiver's queue just waits for the sender's.
 * Both are of this process. */
static yoke_status
pass(yki_crew *crew, size_t from, yki_buffer *source, size_t to, yki_buffer *target,
     uint64_t offset, uint64_t size)
{
    const size_t here = yki_here(crew, from), there = yki_here(crew, to);
    yki_queue *sender = crew->members[here].replica->queue;
    yki_queue *receiver = crew->members[there].replica->queue;
    yki_event made = {0};
    yoke_status status;

    crew->at = here;
    if (source != target)
        return yki_link_copy(crew->stages->links[here * crew->count + there], sender, source,
                             offset, receiver, target, offset, size, YKI_NO_WAIT, NULL);
    YKI_TRY(yki_queue_marker(sender, YKI_NO_WAIT, &made));
    status = yki_queue_marker(receiver, (yki_wait){&made, 1}, NULL);
    yki_event_release(&made);
    return status;
}

/* The same for any two members: a letter goes to another process, or comes from there. */
static yoke_status
pass_anywhere(yki_crew *crew, size_t from, yki_buffer *source, size_t to, yki_buffer *target,
              uint64_t size, yki_letter *letter)
{
    yki_mail *mail = &crew->stages->mail;

    if (yki_is_here(crew, from) && yki_is_here(crew, to))
        return pass(crew, from, source, to, target, 0, size);
    mail->step = (int64_t)crew->members[0].replica->step;
    if (yki_is_here(crew, from))
        return yki_mail_send(mail, letter, crew->members[yki_here(crew, from)].replica->queue,
                             source, 0, size);
    if (yki_is_here(crew, to))
        return yki_mail_receive(mail, letter, crew->members[yki_here(crew, to)].replica->queue,
                                target, 0, size);
    return YOKE_OK;
}

yoke_status
yki_stages_run(yki_crew *crew, bool training, yki_section section)
{
    const yki_crossings *all = &crew->stages->placed.crossings[training];
    const yki_route *route = &crew->stages->routes[training];
    const size_t first = crew->team->first;

    for (size_t k = 0; k < crew->count; k++)
        crew->members[k].position = 0;
    for (size_t i = 0; i < all->count; i++) {
        const yki_crossing *c = &all->list[i];
        yki_operand operand = yki_operand_of(c->node);
        yki_extents extents = plan_of(crew, 0, training)->extents;

        if (route->sections[i] != section)
            continue;
        for (size_t k = 0; k < crew->count; k++)
            YKI_TRY(run_to(crew, k, plan_of(crew, k, training), section,
                           route->ends[(first + k) * all->count + i]));
        YKI_TRY(pass_anywhere(crew, c->from, c->source, c->to, c->target,
                              (uint64_t)yki_value_bytes(&operand, extents),
                              &crew->stages->letters[training][i]));
    }
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(run_to(crew, k, plan_of(crew, k, training), section,
                       plan_of(crew, k, training)->task_count));
    return YOKE_OK;
}

yoke_status
yki_stages_meet(yki_crew *crew)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        yki_event_release(&m->arrived);
        YKI_TRY(yki_queue_marker(m->replica->queue, YKI_NO_WAIT, &m->arrived));
        YKI_TRY(yki_queue_flush(m->replica->queue));
    }
    for (size_t k = 0; k < crew->count; k++) {
        crew->at = k;
        for (size_t i = 0; i < crew->count; i++)
            if (i != k)
                YKI_TRY(yki_queue_marker(crew->members[k].replica->queue,
                                         (yki_wait){&crew->members[i].arrived, 1}, NULL));
    }
    return YOKE_OK;
}

/* ---- the update ---- */

yoke_status
yki_stages_reduce(yki_crew *crew)
{
    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        crew->at = k;
        for (size_t b = 0; b < crew->buckets.count; b++)
            YKI_TRY(yki_combine_enqueue(m->replica->queue, &m->sums[b], YKI_NO_WAIT));
    }
    return YOKE_OK;
}

yoke_status
yki_stages_total(yki_crew *crew)
{
    const struct yki_stages *s = crew->stages;
    yki_letter *letters = s->letters[true] + s->placed.crossings[true].count;
    yki_member *home = yki_is_here(crew, s->home) ? &crew->members[crew->home] : NULL;

    if (home)
        YKI_TRY(yki_combine_enqueue(home->replica->queue, &home->total, YKI_NO_WAIT));
    for (size_t k = 0; k < crew->team->total; k++)
        if (k != s->home)
            YKI_TRY(
                pass_anywhere(crew, s->home, home ? home->totals : NULL, k,
                              yki_is_here(crew, k) ? crew->members[yki_here(crew, k)].totals : NULL,
                              crew->pairs * 8, &letters[k]));
    return YOKE_OK;
}

/* Sends the partial norms of a bucket from the member that has it to all others. */
static yoke_status
tell_norms(yki_crew *crew, size_t bucket)
{
    size_t from = crew->members[0].replica->weights->buckets[bucket].home;
    uint64_t offset, size;
    yki_buffer *source =
        yki_updater_norms(crew->members[from].replica->updater, bucket, &offset, &size);

    for (size_t k = 0; k < crew->count; k++)
        if (k != from)
            YKI_TRY(
                pass(crew, from, source, k,
                     yki_updater_norms(crew->members[k].replica->updater, bucket, &offset, &size),
                     offset, size));
    return YOKE_OK;
}

yoke_status
yki_stages_agree(yki_crew *crew)
{
    YKI_TRY(yki_stages_settle(crew));
    if (yki_updater_wants_norm(crew->members[0].replica->updater) && crew->comm)
        YKI_TRY(yki_stages_gather_norms(crew));
    else if (yki_updater_wants_norm(crew->members[0].replica->updater))
        for (size_t b = 0; b < crew->buckets.count; b++)
            YKI_TRY(tell_norms(crew, b));
    return yki_stages_meet(crew);
}

/* ---- explaining ---- */

void
yki_stages_explain(const yki_crew *crew, const yki_teller *to)
{
    yki_tell(to, "%s: every device has a part of the graph, and all samples",
             crew->graph->place_count ? "places" : "stages");
    yki_tell(to, "%-20s %10s %12s %18s", "device", "commands", "parameters", "copied to it, MB");
    for (size_t k = 0; k < crew->team->total; k++) {
        const yki_stage_size *size = &crew->stages->sizes[k];

        yki_tell(to, "%-20s %10llu %12llu %18.3f", yoke_team_get_device_name(crew->team, k),
                 (unsigned long long)size->commands, (unsigned long long)size->parameters,
                 (double)size->copied / 1e6);
    }
}
