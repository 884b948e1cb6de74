/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.c - runs the graph in evaluation mode over any number of samples. One device computes
 * each sample, once; nothing is padded, and no remainder is dropped.
 *
 * Samples go in chunks of a training micro-batch, split by the shares in force. The sums of a chunk
 * are read after it and added in double while the next one runs. With granules a chunk is one for
 * each device, and sums are exact.
 */
#include <math.h>
#include <string.h>

#include "team/pipeline.h"
#include "team/sharding.h"
#include "team/stages.h"
#include "train/trainer.h"

enum { CHUNKS = 2 }; /* under way at once */

/* Called after each chunk; the chunk begins with sample `first`. */
typedef yoke_status (*each_chunk)(void *user, yoke_trainer *trainer, int64_t first,
                                  const int64_t *counts);

typedef struct chunk {
    float *pairs;    /* of each member */
    yki_event *read; /* by member */
    int64_t *counts; /* by device of the whole team */
    bool busy;
} chunk;

typedef struct evaluation {
    yoke_trainer *trainer;
    yki_load_function load;
    void *user;
    double *sums;                       /* NULL: only the output is wanted */
    yki_exact_sum exact[2 * YKI_PAIRS]; /* instead, with granules */
    chunk chunks[CHUNKS];
} evaluation;

/* ---- running statistics that differ ---- */

/* With statistics of each device alone, all devices take those of the first. */
static yoke_status
share_states(yoke_trainer *t)
{
    yki_crew *crew = &t->crew;
    const yki_weights *first = crew->members[0].replica->weights;
    uint64_t size = first->state_bucket.size;
    void *values;
    yoke_status status = YOKE_OK;

    if (!t->states_differ || size == 0 || !crew->through_host)
        return YOKE_OK;
    values = yki_alloc(size, 1, "statistics");
    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_buffer_get(first->state_bucket.values, 0, size, values);
    if (status == YOKE_OK && crew->comm)
        status = crew->comm->broadcast(crew->comm, values, size, 0);
    for (size_t g = 0; g < crew->group_count && status == YOKE_OK; g++) {
        const yki_weights *w = yki_crew_in_group(crew, g, 0)->replica->weights;

        status = yki_buffer_put(w->state_bucket.values, 0, size, values);
    }
    yki_free(values);
    t->states_differ = status != YOKE_OK;
    return status;
}

/* ---- chunks ---- */

static yoke_status
make_chunks(evaluation *e)
{
    const yki_crew *crew = &e->trainer->crew;

    for (size_t i = 0; i < CHUNKS; i++) {
        chunk *c = &e->chunks[i];

        c->pairs = yki_alloc(crew->count * crew->pairs * 2, sizeof *c->pairs, "results");
        c->read = yki_alloc(crew->count, sizeof *c->read, "results");
        c->counts = yki_alloc(crew->team->total, sizeof *c->counts, "shares");
        if (!c->pairs || !c->read || !c->counts)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    return YOKE_OK;
}

static yoke_status
finish_chunk(evaluation *e, chunk *c)
{
    const yki_crew *crew = &e->trainer->crew;

    if (!c->busy)
        return YOKE_OK;
    c->busy = false;
    for (size_t k = 0; k < crew->count; k++) {
        yoke_status status = yki_event_wait(&c->read[k]);

        yki_event_release(&c->read[k]);
        YKI_TRY(status);
        for (size_t i = 0; e->sums && i < crew->pairs * 2; i++) {
            e->sums[i] += (double)c->pairs[k * crew->pairs * 2 + i];
            yki_exact_add(&e->exact[i], c->pairs[k * crew->pairs * 2 + i]);
        }
    }
    return YOKE_OK;
}

static void
free_chunks(evaluation *e)
{
    const yki_crew *crew = &e->trainer->crew;

    for (size_t i = 0; i < CHUNKS; i++) {
        chunk *c = &e->chunks[i];

        for (size_t k = 0; c->read && k < crew->count; k++) {
            (void)yki_event_wait(&c->read[k]);
            yki_event_release(&c->read[k]);
        }
        yki_free(c->pairs);
        yki_free(c->read);
        yki_free(c->counts);
    }
}

static yoke_status
begin_member(evaluation *e, size_t k, int64_t first, int64_t n)
{
    yoke_trainer *t = e->trainer;
    yoke_replica *r = t->crew.members[k].replica;

    t->crew.at = k;
    YKI_TRY(e->load(e->user, t, k, r->evaluation, first, n));
    r->newest = r->evaluation;
    r->batch = n;
    r->stage = YKI_STAGE_NONE;
    return yki_plan_begin(r->evaluation, (yki_extents){n, t->crew.length});
}

static yoke_status
read_member(evaluation *e, chunk *c, size_t k)
{
    yoke_trainer *t = e->trainer;
    yoke_replica *r = t->crew.members[k].replica;
    float *pairs = c->pairs + k * t->crew.pairs * 2;

    for (size_t i = 0; e->sums && i < t->crew.pairs; i++) {
        yki_event_release(&c->read[k]);
        YKI_TRY(yki_queue_read(r->queue, yki_plan_buffer(r->evaluation, yki_pair_node(t->graph, i)),
                               0, 8, pairs + 2 * i, YKI_NO_WAIT, &c->read[k]));
    }
    return yki_queue_flush(r->queue);
}

static yki_plan *
evaluation_of(const yki_member *m, size_t index)
{
    return index == 0 && m->n > 0 ? m->replica->evaluation : NULL;
}

/* Runs all members with samples from one gather of weights to the next, together. All processes
 * come to the same gathers. */
static yoke_status
run_together(yki_crew *crew)
{
    const yki_plan *first = crew->members[0].replica->evaluation;
    const size_t stops = first->stop_count;

    for (size_t s = 0; s <= stops; s++) {
        for (size_t k = 0; k < crew->count; k++) {
            yki_plan *plan = evaluation_of(&crew->members[k], 0);

            if (!plan)
                continue;
            crew->at = k;
            YKI_TRY(yki_plan_enqueue_tasks(plan, YKI_FORWARD, s ? plan->stops[s - 1].task : 0,
                                           s < stops ? plan->stops[s].task : plan->task_count));
        }
        if (s < stops)
            YKI_TRY(yki_sharding_bring(crew, first->stops[s].gathers - 1, s, evaluation_of));
    }
    return YOKE_OK;
}

/* Where devices keep a part of the weights, they run a chunk together. Its samples of this process
 * begin with `first`. */
static yoke_status
run_members(evaluation *e, chunk *c, int64_t first)
{
    yki_crew *crew = &e->trainer->crew;

    for (size_t k = 0; k < crew->count; k++) {
        yki_member *m = &crew->members[k];

        m->n = c->counts[crew->team->first + k];
        if (m->n > 0)
            YKI_TRY(begin_member(e, k, first, m->n));
        first += m->n;
    }
    YKI_TRY(run_together(crew));
    for (size_t k = 0; k < crew->count; k++)
        if (crew->members[k].n > 0)
            YKI_TRY(read_member(e, c, k));
    return YOKE_OK;
}

static yoke_status
run_member(evaluation *e, chunk *c, size_t k, int64_t first, int64_t n)
{
    yki_plan *plan = e->trainer->crew.members[k].replica->evaluation;

    if (n == 0)
        return YOKE_OK;
    YKI_TRY(begin_member(e, k, first, n));
    YKI_TRY(yki_plan_enqueue_tasks(plan, YKI_FORWARD, 0, plan->task_count));
    return read_member(e, c, k);
}

/* For a graph with places: each member has a stage of the graph, and gets all samples. */
static yoke_status
run_stages(evaluation *e, chunk *c, int64_t first, int64_t n)
{
    yki_crew *crew = &e->trainer->crew;

    YKI_TRY(yki_stages_meet(crew));
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(begin_member(e, k, first, n));
    YKI_TRY(yki_stages_run(crew, false, YKI_FORWARD));
    return !e->sums || yki_is_here(crew, crew->stages->home) ? read_member(e, c, crew->home)
                                                             : YOKE_OK;
}

static int64_t
chunk_size(const yoke_trainer *t)
{
    return t->options.granule ? t->options.granule * (int64_t)yki_trainer_devices_in(t)
                              : yki_largest_micro_batch(&t->options);
}

static void
divide_chunk(const yoke_trainer *t, int64_t n, int64_t *counts)
{
    const int64_t granule = t->options.granule;

    if (!granule)
        yki_trainer_divide(t, n, counts);
    for (size_t k = 0; granule && k < t->crew.team->total; n -= counts[k++])
        counts[k] = yki_trainer_is_out(t, k) ? 0 : YKI_MIN(granule, n);
}

/* Runs samples [first, first + n). */
static yoke_status
run_chunk(evaluation *e, chunk *c, int64_t first, int64_t n)
{
    yoke_trainer *t = e->trainer;
    const yoke_team *team = t->crew.team;

    divide_chunk(t, n, c->counts);
    memset(c->pairs, 0, team->count * t->crew.pairs * 2 * sizeof *c->pairs);
    c->busy = true;
    if (t->crew.stages)
        return run_stages(e, c, first, n);
    for (size_t k = 0; k < team->first; k++)
        first += c->counts[k];
    if (t->crew.sharding.weights)
        return run_members(e, c, first);
    for (size_t k = 0; k < team->count; k++) {
        int64_t count = c->counts[team->first + k];

        YKI_TRY(run_member(e, c, k, first, count));
        first += count;
    }
    return YOKE_OK;
}

/* Gathers what each process has: `all` then has `bytes` of each of them. The caller frees it. */
static yoke_status
gather(yoke_trainer *t, const void *own, size_t bytes, void **all)
{
    *all = yki_alloc((size_t)t->crew.comm->ranks, bytes, "results of other processes");
    return *all ? t->crew.comm->allgather(t->crew.comm, own, bytes, *all)
                : YOKE_ERROR_OUT_OF_MEMORY;
}

static yoke_status
add_doubles(evaluation *e)
{
    yoke_trainer *t = e->trainer;
    const size_t count = t->crew.pairs * 2;
    void *all;
    yoke_status status = gather(t, e->sums, count * sizeof *e->sums, &all);

    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        e->sums[i] = 0;
        for (int32_t r = 0; r < t->crew.comm->ranks; r++)
            e->sums[i] += ((const double *)all)[(size_t)r * count + i];
    }
    yki_free(all);
    return status;
}

static yoke_status
add_exact(evaluation *e)
{
    yoke_trainer *t = e->trainer;
    const size_t count = t->crew.pairs * 2;
    void *all;
    yoke_status status = gather(t, e->exact, count * sizeof *e->exact, &all);

    memset(e->exact, 0, sizeof e->exact);
    for (size_t i = 0; status == YOKE_OK && i < count * (size_t)t->crew.comm->ranks; i++)
        yki_exact_merge(&e->exact[i % count], (const yki_exact_sum *)all + i);
    yki_free(all);
    return status;
}

static yoke_status
add_processes(evaluation *e)
{
    yoke_trainer *t = e->trainer;

    if (t->crew.comm)
        YKI_TRY(t->options.granule ? add_exact(e) : add_doubles(e));
    for (size_t i = 0; t->options.granule && i < t->crew.pairs * 2; i++)
        e->sums[i] = yki_exact_value(&e->exact[i]);
    return YOKE_OK;
}

static yoke_status
run_chunks(evaluation *e, int64_t n, each_chunk each)
{
    yoke_trainer *t = e->trainer;
    const int64_t size = chunk_size(t);

    YKI_TRY(make_chunks(e));
    for (int64_t first = 0, i = 0; first < n; first += size, i++) {
        chunk *c = &e->chunks[i % CHUNKS];
        int64_t count = YKI_MIN(size, n - first);

        YKI_TRY(finish_chunk(e, c));
        YKI_TRY(run_chunk(e, c, first, count));
        if (each)
            YKI_TRY(each(e->user, t, first, c->counts));
        if (t->crew.comm && t->crew.comm->heartbeat)
            t->crew.comm->heartbeat(t->crew.comm, t->step, "an evaluation");
    }
    for (size_t i = 0; i < CHUNKS; i++)
        YKI_TRY(finish_chunk(e, &e->chunks[i]));
    return t->crew.stages ? yki_stages_settle(&t->crew) : YOKE_OK;
}

/* A pipeline has taken memory that was free. Where evaluation needs it, the pipeline ends: one
 * micro-batch follows the other from then on, with the same bits. A timeline knows its tasks. Other
 * processes do not know of it. */
static yoke_status
make_evaluation(yoke_trainer *t)
{
    yoke_status status = yki_crew_make_evaluation(&t->crew);

    if (!yki_lacks_memory(status) || !yki_pipeline_exists(&t->crew) || t->timeline || t->crew.comm)
        return status;
    YKI_TRY(yki_crew_finish(&t->crew));
    yki_pipeline_give_up(&t->crew);
    return yki_crew_make_evaluation(&t->crew);
}

/* Prepares plans for everything that the graph computes in evaluation, or for one output alone. */
static yoke_status
make_plans(yoke_trainer *t, const yoke_node *output)
{
    YKI_TRY(make_evaluation(t));
    for (size_t k = 0; k < t->crew.count; k++)
        YKI_TRY(yki_plan_ask(t->crew.members[k].replica->evaluation, &output, output ? 1 : 0));
    return YOKE_OK;
}

/* Sums loss and metrics into `sums`; if `output` is not NULL, computes that alone. */
static yoke_status
evaluate(yoke_trainer *t, const yoke_node *output, int64_t n, yki_load_function load, void *user,
         double *sums, each_chunk each)
{
    evaluation e = {.trainer = t, .load = load, .user = user, .sums = sums};
    yoke_status status;

    YKI_TRY(yoke_trainer_wait(t));
    status = share_states(t);
    if (status == YOKE_OK)
        status = make_plans(t, output);
    if (status != YOKE_OK) /* other processes wait for this one */
        return t->crew.comm ? yki_trainer_failed(t, status) : status;
    if (sums)
        memset(sums, 0, t->crew.pairs * 2 * sizeof *sums);
    status = yki_trainer_exchange_average(t);
    if (status == YOKE_OK)
        status = run_chunks(&e, n, each);
    free_chunks(&e);
    if (status == YOKE_OK)
        status = yki_trainer_exchange_average(t);
    if (status == YOKE_OK && sums)
        status = add_processes(&e);
    if (status != YOKE_OK)
        return yki_trainer_failed(t, status);
    return YOKE_OK;
}

/* ---- of a dataset ---- */

typedef struct dataset_source {
    yki_loaders *loaders;
} dataset_source;

yoke_status
yki_trainer_load_range(yoke_trainer *t, yki_loaders *loaders, size_t member, yki_plan *plan,
                       int64_t start, int64_t first, int64_t n)
{
    const int64_t size = chunk_size(t);
    int64_t *indices = yki_alloc((size_t)n, sizeof *indices, "sample numbers");
    yoke_status status;

    if (!indices)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++)
        indices[i] = start + first + i;
    status = yki_trainer_prefetch(t, loaders, start + first / size * size, size, 1);
    if (status == YOKE_OK)
        status =
            yki_trainer_load(t, loaders, member, plan,
                             &(yki_samples){.indices = indices, .n = n, .position = start + first});
    yki_free(indices);
    return status;
}

static yoke_status
load_dataset(void *user, yoke_trainer *t, size_t member, yki_plan *plan, int64_t first, int64_t n)
{
    const dataset_source *from = user;

    return yki_trainer_load_range(t, from->loaders, member, plan, 0, first, n);
}

yoke_status
yoke_trainer_evaluate_sized(yoke_trainer *t, yoke_dataset *dataset, yoke_result *result,
                            size_t size)
{
    yoke_result full = {0};
    double sums[2 * YKI_PAIRS], begun = yki_now();
    yki_order order = {.sequential = true};
    dataset_source from;
    int64_t length;
    yoke_status status;

    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_evaluate"));
    from.loaders = &t->test_loaders;
    YKI_GIVEN("yoke_trainer_evaluate", {"dataset", dataset}, {"result", result});
    YKI_TRY(
        yki_trainer_compare_counts(t, "yoke_trainer_evaluate", "the evaluation", dataset->count));
    YKI_TRY(yki_trainer_loaders(t, from.loaders, dataset, false));
    order.count = (uint64_t)dataset->count;
    YKI_TRY(yki_trainer_begin_prefetch(t, from.loaders, &order, 0));
    length = t->crew.length;
    status = evaluate(t, NULL, dataset->count, load_dataset, &from, sums, NULL);
    t->crew.length = length; /* of data that the next step may use again */
    yki_trainer_end_prefetch(from.loaders);
    YKI_TRY(status);
    yki_trainer_result(t, sums, &full);
    full.samples = dataset->count;
    full.step = t->step;
    full.seconds = yki_now() - begun;
    memset(result, 0, size);
    memcpy(result, &full, YKI_MIN(size, sizeof full));
    return YOKE_OK;
}

/* ---- outputs ---- */

typedef struct prediction {
    yki_load_function load;
    void *user;
    const yoke_node *node;
    size_t row; /* values per sample */
    float *values;
} prediction;

static yoke_status
load_prediction(void *user, yoke_trainer *t, size_t member, yki_plan *plan, int64_t first,
                int64_t n)
{
    const prediction *p = user;

    return p->load(p->user, t, member, plan, first, n);
}

/* Reads the rows from the one device that computes the output, and gives them to all processes. */
static yoke_status
take_rows_of_stage(const prediction *p, yoke_trainer *t, float *rows, size_t n)
{
    yki_crew *crew = &t->crew;
    const size_t home = yki_home_of(&crew->stages->placed, p->node);

    YKI_TRY(yki_stages_settle(crew));
    if (yki_is_here(crew, home)) {
        yoke_replica *r = crew->members[yki_here(crew, home)].replica;

        crew->at = yki_here(crew, home);
        YKI_TRY(yki_queue_finish(r->queue));
        YKI_TRY(yki_buffer_get(yki_plan_buffer(r->evaluation, p->node), 0, n * p->row * 4, rows));
    }
    return crew->comm ? crew->comm->broadcast(crew->comm, rows, n * p->row * 4,
                                              crew->stages->rank_of[home])
                      : YOKE_OK;
}

/* Reads the rows of this process's devices, then exchanges rows with the other processes. */
static yoke_status
take_rows(void *user, yoke_trainer *t, int64_t first, const int64_t *counts)
{
    const prediction *p = user;
    const yoke_team *team = t->crew.team;
    float *chunk_rows = p->values + (size_t)first * p->row;
    size_t at = 0;

    if (t->crew.stages)
        return take_rows_of_stage(p, t, chunk_rows, (size_t)counts[t->crew.stages->home]);
    for (size_t k = 0; k < team->first; k++)
        at += (size_t)counts[k];
    for (size_t k = 0; k < team->count; k++) {
        yoke_replica *r = t->crew.members[k].replica;
        size_t n = (size_t)counts[team->first + k];

        if (n) {
            YKI_TRY(yki_queue_finish(r->queue));
            YKI_TRY(yki_buffer_get(yki_plan_buffer(r->evaluation, p->node), 0, n * p->row * 4,
                                   chunk_rows + at * p->row));
        }
        at += n;
    }
    return yki_team_share_rows(team, counts, p->row * 4, chunk_rows);
}

yoke_status
yki_trainer_predict(yoke_trainer *t, const char *output, int64_t n, yki_load_function load,
                    void *user, float *values, int64_t count)
{
    prediction p = {.load = load, .user = user, .values = values};

    YKI_GIVEN("yoke_trainer_predict", {"output", output},
              {"values", count ? (const void *)values : ""});
    if (n < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples", n, 0,
                              INT64_MAX);
    for (size_t i = 0; i < t->graph->output_count; i++)
        if (strcmp(t->graph->outputs[i].name, output) == 0)
            p.node = t->graph->outputs[i].node;
    if (!p.node)
        return yki_graph_no_output(t->graph, output);
    if (p.node->type != YOKE_F32)
        return yki_fail(YOKE_ERROR_TYPE, "output \"%s\" has type %s; must be f32", output,
                        yki_value_type_name(p.node->type));
    if (!p.node->batched && n != 1)
        return yki_fail(
            YOKE_ERROR_INVALID_ARGUMENT,
            "output \"%s\" does not depend on any input: the number of samples is %lld; must be 1",
            output, (long long)n);
    p.row = (size_t)yki_sample_count(p.node, t->crew.length ? t->crew.length : p.node->length);
    if ((uint64_t)count != p.row * (uint64_t)n)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "output \"%s\": the number of values is %lld; must be %zu for %lld samples",
                        output, (long long)count, p.row * (size_t)n, (long long)n);
    return evaluate(t, p.node, n, load_prediction, &p, NULL, take_rows);
}
