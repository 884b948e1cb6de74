/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.c - runs the micro-batches of a step through the stages of a graph, so that members
 * compute at the same time, each with another micro-batch.
 *
 * A member has a twin of its plan (plan/twin.c) for each micro-batch that may be under way
 * anywhere, and what crosses has a buffer for each. Not all twins have memory of their own: what
 * backward reads of forward stays only as often as the member itself has micro-batches under way,
 * which for the last stage is once.
 *
 * All turns of a step are enqueued in one order, found when the pipeline is made. A queue waits for
 * what a turn reads right before that turn, not earlier. Where two members share no memory, the
 * sender reads the value into host memory, and the host waits for that before the receiver's turn.
 * Each member adds up gradients and running statistics in the order of the micro-batches, so the
 * bits are those of one micro-batch after the other.
 *
 * Where members are of several processes, all processes know what each plan computes, agree on one
 * order, and take the turns of their own members. A value then goes by a letter (mail.c) instead of
 * the pinned memory; its receiver expects it as soon as the letter is free.
 */
#include <string.h>

#include "team/pipeline_parts.h"

/* ---- how many micro-batches are under way ---- */

/* A member needs one micro-batch for itself and one for each member that comes behind it. */
static void
find_depths(yki_pipeline *p, uint32_t most)
{
    p->width = 0;
    for (size_t k = 0; k < p->members; k++) {
        uint32_t depth = 1;

        for (size_t other = 0; other < p->members; other++)
            depth +=
                p->first_leg[other] > p->first_leg[k] && p->last_leg[other] != p->first_leg[other];
        p->depth[k] = YKI_MIN(depth, most);
        p->width = YKI_MAX(p->width, p->depth[k]);
    }
}

/* How many of a member's twins have memory of their own: enough for its depth, and so many that
 * micro-batches which share it are never under way together. */
static uint32_t
memories(const yki_pipeline *p, size_t member)
{
    uint32_t count = p->depth[member];

    while (p->width % count)
        count++;
    return count;
}

/* With several processes all take the order of rank 0: what others find could differ by a rounding.
 */
static yoke_status
find_order(yki_pipeline *p, const yki_crew *crew)
{
    const size_t count = p->leg_count * p->micro_batches;
    yki_need *needs = yki_alloc(p->crossings, sizeof *needs, "a pipeline");
    yki_order_problem problem = {.legs = p->legs,
                                 .leg_count = p->leg_count,
                                 .needs = needs,
                                 .depth = p->depth,
                                 .members = p->members,
                                 .width = p->width,
                                 .micro_batches = p->micro_batches};
    yoke_status status;

    yki_free(p->turns);
    p->turns = yki_alloc(count, sizeof *p->turns, "a pipeline");
    for (size_t j = 0; needs && j < p->leg_count; j++)
        for (size_t i = 0; i < p->crossings; i++)
            if (p->takers[i] == j)
                needs[problem.need_count++] = (yki_need){(uint32_t)j, (uint32_t)p->makers[i]};
    status = needs && p->turns ? yki_pipeline_order(&problem, p->turns, &p->seconds)
                               : YOKE_ERROR_OUT_OF_MEMORY;
    yki_free(needs);
    if (status == YOKE_OK && crew->comm)
        status = crew->comm->broadcast(crew->comm, p->turns, count * sizeof *p->turns, 0);
    return status;
}

/* ---- buffers and twins ---- */

static yki_member *
member_of(yki_crew *crew, size_t member)
{
    return &crew->members[yki_here(crew, member)];
}

/* Whether both are of this process, and share memory. */
static bool
share_memory(const yki_crew *crew, size_t one, size_t other)
{
    return yki_is_here(crew, one) && yki_is_here(crew, other) &&
           yki_devices_share(yki_device_here(crew, one), yki_device_here(crew, other));
}

/* The newest statistics of the loss go from its member to all, itself too. */
static void
ends_of(const yki_pipeline *p, const yki_crew *crew, size_t i, size_t *from, size_t *to)
{
    const yki_crossing *c = crew->stages->placed.crossings[true].list;

    *from = i < p->crossings ? c[i].from : crew->stages->home;
    *to = i < p->crossings ? c[i].to : i - p->crossings;
}

/* A parameter or a constant does not change in a step: one buffer serves all micro-batches. */
static bool
is_constant(const yki_pipeline *p, const yki_crew *crew, size_t i)
{
    const yki_crossing *c = crew->stages->placed.crossings[true].list;

    return i < p->crossings &&
           (c[i].node->role == YKI_ROLE_PARAMETER || yki_is_constant(c[i].node));
}

static yoke_status
make_crossing(const yki_pipeline *p, const yki_crew *crew, size_t i, uint32_t at)
{
    const yki_crossing *c = &crew->stages->placed.crossings[true].list[i];
    yki_passage *one = &p->passages[i * p->width + at];

    one->source = c->source;
    one->target = c->target;
    if (at == 0 || is_constant(p, crew, i))
        return YOKE_OK;
    if (yki_is_here(crew, c->from) && i > 0 && c[-1].node == c->node) {
        one->source = p->passages[(i - 1) * p->width + at].source;
    } else if (yki_is_here(crew, c->from)) {
        YKI_TRY(yki_buffer_create(yki_device_here(crew, c->from), yki_buffer_size(c->source), 0,
                                  c->node->name, &one->source));
        one->owns_source = true;
    }
    if (!yki_is_here(crew, c->to))
        return YOKE_OK;
    if (c->target == c->source) {
        one->target = one->source;
        return YOKE_OK;
    }
    YKI_TRY(yki_buffer_create(yki_device_here(crew, c->to), yki_buffer_size(c->target), 0,
                              c->node->name, &one->target));
    one->owns_target = true;
    return YOKE_OK;
}

static yoke_status
make_total(const yki_pipeline *p, const yki_crew *crew, size_t member, uint32_t at)
{
    yki_passage *one = &p->passages[(p->crossings + member) * p->width + at];

    if (yki_is_here(crew, member))
        one->target = crew->members[yki_here(crew, member)].totals;
    if (!yki_is_here(crew, crew->stages->home))
        return YOKE_OK;
    if (member > 0) {
        one->source = p->passages[p->crossings * p->width + at].source;
        return YOKE_OK;
    }
    one->owns_source = true;
    return yki_buffer_create(yki_device_here(crew, crew->stages->home), crew->pairs * 8, 0,
                             "results of the team", &one->source);
}

static yki_letter *
letter_of(const yki_pipeline *p, const yki_crew *crew, size_t i, uint32_t at)
{
    yki_letter *one =
        at == 0 ? &crew->stages->letters[true][i] : &p->letters[i * (p->width - 1) + at - 1];

    return one->peer < 0 ? NULL : one;
}

static yoke_status
make_passages(yki_pipeline *p, const yki_crew *crew)
{
    const size_t count = p->crossings + (p->totals ? p->members : 0);

    p->passages = yki_alloc(count * p->width, sizeof *p->passages, "a pipeline");
    if (!p->passages)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        for (uint32_t at = 0; at < p->width; at++) {
            yki_passage *one = &p->passages[i * p->width + at];
            size_t from, to;

            ends_of(p, crew, i, &from, &to);
            one->letter = letter_of(p, crew, i, at);
            YKI_TRY(i < p->crossings ? make_crossing(p, crew, i, at) : make_total(p, crew, to, at));
            if (yki_is_here(crew, from) && yki_is_here(crew, to) && !share_memory(crew, from, to))
                YKI_TRY(yki_buffer_create(yki_device_here(crew, from), yki_buffer_size(one->source),
                                          YKI_BUFFER_PINNED, "values on their way", &one->staging));
        }
    return YOKE_OK;
}

/* Makes the twins of one member. `lent` has room for a buffer of each node. */
static yoke_status
make_twins(yki_pipeline *p, const yki_crew *crew, size_t member, yki_buffer **lent)
{
    const yki_crossings *all = &crew->stages->placed.crossings[true];
    yki_plan **plans = p->plans + member * p->width;

    plans[0] = crew->members[yki_here(crew, member)].replica->training;
    for (uint32_t at = 1; at < p->width; at++) {
        const uint32_t apart = memories(p, member);

        memset(lent, 0, plans[0]->node_count * sizeof *lent);
        for (size_t i = 0; i < all->count; i++) {
            const yki_passage *one = &p->passages[i * p->width + at];

            if (all->list[i].from == member)
                lent[all->list[i].node->id] = one->source;
            if (all->list[i].to == member)
                lent[all->list[i].node->id] = one->target;
        }
        YKI_TRY(yki_plan_twin(plans[0], at < apart ? NULL : plans[at % apart], lent, &plans[at]));
    }
    return YOKE_OK;
}

static yoke_status
make_all_twins(yki_pipeline *p, yki_crew *crew)
{
    yki_buffer **lent =
        yki_alloc(crew->members[0].replica->training->node_count, sizeof *lent, "a pipeline");
    yoke_status status = lent ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t k = 0; k < crew->count && status == YOKE_OK; k++) {
        crew->at = k;
        status = make_twins(p, crew, crew->team->first + k, lent);
    }
    yki_free(lent);
    return status;
}

/* ---- making ---- */

/* One more letter for each value and each micro-batch but the first, which has that of a step
 * without a pipeline. */
static yoke_status
make_letters(yki_pipeline *p, yki_crew *crew)
{
    const yki_extents max = {.batch = crew->members[0].replica->options.batch};
    uint64_t *bytes;
    uint32_t *ends;
    size_t count;
    yoke_status status = yki_stages_list(crew, true, max, &count, &bytes, &ends);

    p->expected = yki_alloc(count, sizeof *p->expected, "a pipeline");
    if (!p->expected)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    p->letter_count = count * (p->width - 1);
    if (status == YOKE_OK)
        status = yki_letters_make(crew, count, bytes, ends, p->width - 1, &p->letters,
                                  &p->letter_memory);
    yki_free(bytes);
    yki_free(ends);
    return status;
}

/* Tells the other processes whether there is memory for the pipeline: if one has none, none has it.
 */
static yoke_status
agree(yki_pipeline *p, yki_crew *crew, yoke_status status)
{
    if (!crew->comm || (status != YOKE_OK && !yki_lacks_memory(status)))
        return status;
    for (size_t k = 0; k < crew->count; k++)
        p->heads[crew->team->first + k].lacks = yki_lacks_memory(status);
    YKI_TRY(yki_team_share_rows(crew->team, NULL, sizeof *p->heads, p->heads));
    for (size_t k = 0; k < p->members && status == YOKE_OK; k++)
        if (p->heads[k].lacks)
            status = yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, "%s has too little",
                              yoke_team_get_device_name(crew->team, k));
    return status;
}

static yoke_status
make_memory(yki_pipeline *p, yki_crew *crew)
{
    YKI_TRY(make_passages(p, crew));
    return make_all_twins(p, crew);
}

static yoke_status
fill(yki_pipeline *p, yki_crew *crew)
{
    YKI_TRY(yki_pipeline_make_legs(p, crew));
    find_depths(p, p->micro_batches);
    if (p->width == 1)
        return YOKE_OK;
    p->plans = yki_alloc(p->members * p->width, sizeof *p->plans, "a pipeline");
    p->left = yki_alloc(p->members * p->width, sizeof *p->left, "a pipeline");
    if (!p->plans || !p->left)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(make_letters(p, crew));
    YKI_TRY(agree(p, crew, make_memory(p, crew)));
    return find_order(p, crew);
}

yoke_status
yki_pipeline_create(yki_crew *crew, uint32_t micro_batches)
{
    const yki_crossings *all = &crew->stages->placed.crossings[true];
    yki_pipeline *p;
    yoke_status status;
    bool early = false;

    if (crew->team->total < 2)
        return YOKE_OK;
    p = yki_alloc(1, sizeof *p, "a pipeline");
    if (!p)
        return YOKE_ERROR_OUT_OF_MEMORY;
    p->members = crew->team->total;
    p->micro_batches = micro_batches;
    p->crossings = crew->stages->placed.crossings[true].count;
    p->totals = crew->members[0].replica->weights->state_count > 0;
    crew->stages->pipeline = p;
    status = yki_pipeline_make_notes(p, crew);
    for (size_t k = 0; k < p->members && status == YOKE_OK; k++)
        early |= p->heads[k].early;
    for (size_t i = 0; i < all->count; i++)
        early |= all->list[i].node->role == YKI_ROLE_STATE && !yki_is_constant(all->list[i].node);
    if (early)
        yki_log(YOKE_LOG_INFO, "the stages of the graph compute one after the other, as a "
                               "micro-batch reads a state that the one before it changes");
    if (status == YOKE_OK && !early)
        status = fill(p, crew);
    if (status == YOKE_OK && p->width > 1)
        return YOKE_OK;
    if (!yki_lacks_memory(status)) {
        yki_pipeline_destroy(crew);
        return status;
    }
    (void)yki_crew_finish(crew); /* what a twin has enqueued before memory ran out */
    yki_pipeline_give_up(crew);
    return YOKE_OK;
}

void
yki_pipeline_give_up(yki_crew *crew)
{
    yki_log(
        YOKE_LOG_WARNING,
        "the stages of the graph compute one after the other, as there is no memory for several "
        "micro-batches at a time: %s",
        yoke_last_error());
    for (size_t k = 0; k < crew->count; k++)
        if (crew->members[k].replica->newest && crew->members[k].replica->newest->twin_of)
            crew->members[k].replica->newest = crew->members[k].replica->training;
    yki_pipeline_destroy(crew);
}

void
yki_pipeline_destroy(yki_crew *crew)
{
    yki_pipeline *p = crew->stages ? crew->stages->pipeline : NULL;

    if (!p)
        return;
    crew->stages->pipeline = NULL;
    yki_letters_free(crew, p->letters, p->letter_count, p->letter_memory);
    for (size_t i = p->plans ? p->members * p->width : 0; i-- > 0;)
        if (i % p->width > 0)
            yki_plan_destroy(p->plans[i]);
    for (size_t i = 0; p->passages && i < (p->crossings + (p->totals ? p->members : 0)) * p->width;
         i++) {
        yki_passage *one = &p->passages[i];

        yki_event_release(&one->made);
        (void)yki_event_wait(&one->taken);
        yki_event_release(&one->taken);
        yki_buffer_destroy(one->staging);
        if (one->owns_source)
            yki_buffer_destroy(one->source);
        if (one->owns_target)
            yki_buffer_destroy(one->target);
    }
    for (size_t i = 0; p->left && i < p->members * p->width; i++)
        yki_event_release(&p->left[i]);
    yki_free(p->depth);
    yki_free(p->legs);
    yki_free(p->spans);
    yki_free(p->first_leg);
    yki_free(p->last_leg);
    yki_free(p->makers);
    yki_free(p->takers);
    yki_free(p->passages);
    yki_free(p->plans);
    yki_free(p->turns);
    yki_free(p->left);
    yki_free(p->heads);
    yki_free(p->notes);
    yki_free(p->first_note);
    yki_free(p->expected);
    yki_free(p);
}

/* ---- running ---- */

/* Enqueues that a value leaves, behind all that its member has enqueued. */
static yoke_status
send(yki_pipeline *p, yki_crew *crew, size_t i, uint32_t micro_batch, uint64_t size)
{
    yki_passage *one = &p->passages[i * p->width + micro_batch % p->width];
    yki_queue *queue;
    size_t from, to;

    ends_of(p, crew, i, &from, &to);
    if (!yki_is_here(crew, from) || (is_constant(p, crew, i) && micro_batch > 0))
        return YOKE_OK;
    queue = member_of(crew, from)->replica->queue;
    if (one->letter)
        return yki_mail_send(&crew->stages->mail, one->letter, queue, one->source, 0, size);
    if (!yki_is_here(crew, to))
        return YOKE_OK;
    yki_event_release(&one->made);
    if (!one->staging) {
        YKI_TRY(yki_queue_marker(queue, YKI_NO_WAIT, &one->made));
        return yki_queue_flush(queue);
    }
    crew->at = yki_here(crew, to);
    YKI_TRY(yki_event_wait(&one->taken));
    crew->at = yki_here(crew, from);
    YKI_TRY(yki_queue_read(queue, one->source, 0, size, yki_buffer_host(one->staging), YKI_NO_WAIT,
                           &one->made));
    return yki_queue_flush(queue);
}

/* Enqueues that a value is there, before all that its receiver enqueues from now on. */
static yoke_status
receive(yki_pipeline *p, yki_crew *crew, size_t i, uint32_t micro_batch, uint64_t size)
{
    yki_passage *one = &p->passages[i * p->width + micro_batch % p->width];
    yki_queue *queue;
    size_t from, to;

    ends_of(p, crew, i, &from, &to);
    if (is_constant(p, crew, i) && micro_batch > 0)
        return YOKE_OK;
    queue = member_of(crew, to)->replica->queue;
    if (one->letter) {
        p->expected[i] = YKI_MAX(p->expected[i], micro_batch + 1);
        return yki_mail_receive(&crew->stages->mail, one->letter, queue, one->target, 0, size);
    }
    if (!one->staging && one->source == one->target)
        return yki_queue_marker(queue, (yki_wait){&one->made, 1}, NULL);
    if (!one->staging)
        return yki_queue_copy(queue, one->source, 0, one->target, 0, size,
                              (yki_wait){&one->made, 1}, NULL);
    crew->at = yki_here(crew, from);
    YKI_TRY(yki_event_wait(&one->made));
    crew->at = yki_here(crew, to);
    yki_event_release(&one->taken);
    return yki_queue_write(queue, one->target, 0, size, yki_buffer_host(one->staging), YKI_NO_WAIT,
                           &one->taken);
}

/* Expects what other processes send to a member for this micro-batch and for those behind it, as
 * far as letters are free. */
static yoke_status
expect(yki_pipeline *p, yki_crew *crew, size_t member, uint32_t micro_batch,
       const yki_pipeline_source *source)
{
    const yki_crossing *c = crew->stages->placed.crossings[true].list;
    const uint32_t end = YKI_MIN(micro_batch + p->width, p->micro_batches);
    yki_extents extents = p->plans[member * p->width + micro_batch % p->width]->extents;
    bool expected = true;

    for (size_t i = 0; i < p->crossings; i++, expected = true) {
        const yki_operand operand = yki_operand_of(c[i].node);

        for (uint32_t b = p->expected[i]; c[i].to == member && b < end; b++) {
            yki_letter *letter = p->passages[i * p->width + b % p->width].letter;

            if (!letter || (b > 0 && is_constant(p, crew, i)))
                break;
            extents.batch = source->samples(source->user, b);
            YKI_TRY(yki_mail_expect(&crew->stages->mail, letter,
                                    (uint64_t)yki_value_bytes(&operand, extents), &expected));
            if (!expected)
                break;
            p->expected[i] = b + 1;
        }
    }
    return YOKE_OK;
}

/* Begins a micro-batch on a member. What the one before the last `width` has left there for others
 * is overwritten, so they must be done with it. */
static yoke_status
begin(yki_pipeline *p, yki_crew *crew, size_t member, uint32_t micro_batch,
      const yki_pipeline_source *source, float rate_factor)
{
    const uint32_t at = micro_batch % p->width;
    yki_member *m = member_of(crew, member);
    yki_plan *plan = p->plans[member * p->width + at];

    for (size_t k = 0; k < p->members && micro_batch >= p->width; k++)
        if (k != member && share_memory(crew, k, member))
            YKI_TRY(yki_queue_marker(m->replica->queue, (yki_wait){&p->left[k * p->width + at], 1},
                                     NULL));
    YKI_TRY(source->load(source->user, yki_here(crew, member), plan, micro_batch));
    YKI_TRY(yki_member_begin(crew, m, plan, micro_batch, rate_factor));
    return crew->comm ? expect(p, crew, member, micro_batch, source) : YOKE_OK;
}

/* Enqueues what follows the loss of a micro-batch. */
static yoke_status
add_results(yki_pipeline *p, yki_crew *crew, uint32_t micro_batch)
{
    const uint32_t at = micro_batch % p->width;
    yki_member *home = &crew->members[crew->home];
    yki_queue *queue = home->replica->queue;

    YKI_TRY(yki_member_pack(crew, home, p->plans[crew->stages->home * p->width + at], 0,
                            micro_batch > 0));
    if (!p->totals || micro_batch + 1 == p->micro_batches)
        return YOKE_OK;
    YKI_TRY(yki_combine_enqueue(queue, &home->total, YKI_NO_WAIT));
    YKI_TRY(yki_queue_copy(queue, home->totals, 0, p->passages[p->crossings * p->width + at].source,
                           0, crew->pairs * 8, YKI_NO_WAIT, NULL));
    for (size_t k = 0; k < p->members; k++)
        YKI_TRY(send(p, crew, p->crossings + k, micro_batch, crew->pairs * 8));
    return YOKE_OK;
}

/* Enqueues what follows a micro-batch on a member: sums of gradients, and running statistics, which
 * are those of the last micro-batch only once there is an update. */
static yoke_status
end(yki_pipeline *p, yki_crew *crew, size_t member, uint32_t micro_batch)
{
    const uint32_t at = micro_batch % p->width;
    const bool last = micro_batch + 1 == p->micro_batches;
    yki_member *m = member_of(crew, member);
    yki_event *left = &p->left[member * p->width + at];

    crew->buckets.first = micro_batch == 0;
    YKI_TRY(yki_member_accumulate(crew, m, last));
    if (p->totals && !last) {
        YKI_TRY(receive(p, crew, p->crossings + member, micro_batch, crew->pairs * 8));
        YKI_TRY(yki_updater_enqueue_count(m->replica->updater));
        YKI_TRY(yki_plan_commit_states(p->plans[member * p->width + at]));
    }
    yki_event_release(left);
    return yki_queue_marker(m->replica->queue, YKI_NO_WAIT, left);
}

/* All plans of a micro-batch have the same extents. */
static uint64_t
size_of(const yki_pipeline *p, const yki_crossing *c, size_t member, uint32_t micro_batch)
{
    const yki_operand operand = yki_operand_of(c->node);

    return (uint64_t)yki_value_bytes(&operand,
                                     p->plans[member * p->width + micro_batch % p->width]->extents);
}

static yoke_status
take_turn(yki_pipeline *p, yki_crew *crew, yki_turn turn, const yki_pipeline_source *source,
          float rate_factor)
{
    const yki_crossing *c = crew->stages->placed.crossings[true].list;
    const size_t member = p->legs[turn.leg].member;
    const yki_leg_span *s = &p->spans[turn.leg];
    yki_member *m;

    if (!yki_is_here(crew, member))
        return yki_mail_advance(&crew->stages->mail);
    m = member_of(crew, member);
    crew->at = yki_here(crew, member);
    if (turn.leg == p->first_leg[member])
        YKI_TRY(begin(p, crew, member, turn.micro_batch, source, rate_factor));
    for (size_t i = 0; i < p->crossings; i++)
        if (p->takers[i] == turn.leg)
            YKI_TRY(
                receive(p, crew, i, turn.micro_batch, size_of(p, &c[i], member, turn.micro_batch)));
    m->position = s->begin;
    YKI_TRY(yki_member_run(crew, m, p->plans[member * p->width + turn.micro_batch % p->width],
                           s->section, s->end));
    for (size_t i = 0; i < p->crossings; i++)
        if (p->makers[i] == turn.leg)
            YKI_TRY(
                send(p, crew, i, turn.micro_batch, size_of(p, &c[i], member, turn.micro_batch)));
    if (turn.leg == p->home_leg)
        YKI_TRY(add_results(p, crew, turn.micro_batch));
    crew->at = yki_here(crew, member);
    if (turn.leg == p->last_leg[member])
        YKI_TRY(end(p, crew, member, turn.micro_batch));
    return yki_queue_flush(m->replica->queue);
}

yoke_status
yki_pipeline_run(yki_crew *crew, const yki_pipeline_source *source, float rate_factor)
{
    yki_pipeline *p = crew->stages->pipeline;
    const double begun = yki_now();

    crew->buckets.next = crew->buckets.landed = 0;
    crew->buckets.marks = false;
    crew->stages->mail.step = (int64_t)crew->members[0].replica->step;
    for (size_t i = 0; i < p->crossings + (p->totals ? p->members : 0); i++)
        p->expected[i] = 0;
    for (size_t i = 0; i < p->leg_count * p->micro_batches; i++)
        YKI_TRY(take_turn(p, crew, p->turns[i], source, rate_factor));
    yki_span_end(crew->host_track, begun, "enqueue micro-batches", -1);
    return YOKE_OK;
}

bool
yki_pipeline_exists(const yki_crew *crew)
{
    return crew->stages && crew->stages->pipeline;
}

/* ---- telling ---- */

double
yki_pipeline_seconds(const yki_crew *crew)
{
    return crew->stages->pipeline->seconds;
}

uint32_t
yki_pipeline_depth(const yki_crew *crew, size_t member)
{
    return crew->stages->pipeline->depth[member];
}

static double
busy(const yki_pipeline *p, size_t member)
{
    double seconds = 0;

    for (size_t j = 0; j < p->leg_count; j++)
        seconds += p->legs[j].member == member ? p->legs[j].seconds : 0;
    return seconds * p->micro_batches;
}

void
yki_pipeline_explain(const yki_crew *crew, const yki_teller *to)
{
    const yki_pipeline *p = crew->stages->pipeline;

    yki_tell(to,
             "%u micro-batches of a step go through the stages, up to %u at a time; by %s times "
             "of tasks:",
             p->micro_batches, p->width, p->measured ? "measured" : "estimated");
    yki_tell(to, "%-20s %14s %14s %14s %8s", "device", "at a time", "computes, ms", "waits, ms",
             "waits, %");
    for (size_t k = 0; k < p->members; k++)
        yki_tell(to, "%-20s %14u %14.3f %14.3f %8.1f", yoke_team_get_device_name(crew->team, k),
                 p->depth[k], busy(p, k) * 1e3, (p->seconds - busy(p, k)) * 1e3,
                 p->seconds > 0 ? 100 * (1 - busy(p, k) / p->seconds) : 0.);
}
