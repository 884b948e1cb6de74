/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_processes.c - checks that all processes are about to train the same graph in the same
 * way.
 *
 * Everything that must be equal is written as text, field by field, and gathered. The error names
 * the rank that differs from rank 0, the field and both values. All processes take the seed of rank
 * 0. Devices, and how the planner measures them, may differ.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

enum { FIELDS = 20, NAME = 24, VALUE = 104 };

typedef struct field {
    char name[NAME];
    char value[VALUE];
} field;

typedef struct statement {
    field fields[FIELDS];
} statement;

static void state(statement *s, size_t *count, const char *name, const char *format, ...)
    YKI_PRINTF(4, 5);

static void
state(statement *s, size_t *count, const char *name, const char *format, ...)
{
    field *f = &s->fields[(*count)++];
    va_list args;

    snprintf(f->name, sizeof f->name, "%s", name);
    va_start(args, format);
    vsnprintf(f->value, sizeof f->value, format, args);
    va_end(args);
}

/* Of a text that is longer than a value the beginning and a hash. */
static void
state_text(statement *s, size_t *count, const char *name, const char *text)
{
    yki_hash hash;
    char hex[33];

    yki_hash_start(&hash);
    yki_hash_string(&hash, text);
    yki_hash_hex(&hash, hex);
    if (strlen(text) < VALUE)
        state(s, count, name, "%s", text);
    else
        state(s, count, name, "%.64s..., %.8s", text, hex);
}

static void
state_groups(statement *s, size_t *count, const yoke_trainer_options *o)
{
    yki_hash hash;
    char hex[33];

    yki_hash_start(&hash);
    for (size_t i = 0; i < o->group_count && o->groups; i++) {
        const yoke_parameter_group *g = &o->groups[i];

        yki_hash_string(&hash, g->pattern ? g->pattern : "");
        yki_hash_add(&hash, &g->learning_rate_scale, sizeof g->learning_rate_scale);
        yki_hash_add(&hash, &g->weight_decay, sizeof g->weight_decay);
        yki_hash_add(&hash, &g->has_weight_decay, sizeof g->has_weight_decay);
    }
    yki_hash_hex(&hash, hex);
    state(s, count, "parameter groups", "%zu, %.8s", o->group_count, hex);
}

static void
state_frozen(statement *s, size_t *count, const yoke_graph *graph)
{
    yki_hash hash;
    char hex[33];
    size_t frozen = 0;

    yki_hash_start(&hash);
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->frozen) {
            yki_hash_string(&hash, graph->nodes[i]->name);
            frozen++;
        }
    yki_hash_hex(&hash, hex);
    state(s, count, "frozen parameters", "%zu, %.8s", frozen, hex);
}

static void
state_all(statement *s, const yoke_graph *graph, const yoke_trainer_options *o)
{
    const yoke_optimizer *p = &o->optimizer;
    static const yoke_schedule none;
    const yoke_schedule *c = o->schedule ? o->schedule : &none;
    size_t count = 0;
    yki_hash hash;
    char hex[33];

    memset(s, 0, sizeof *s);
    yki_hash_start(&hash);
    yki_graph_hash(graph, &hash);
    yki_hash_hex(&hash, hex);
    state(s, &count, "yoke's version", "%s", yoke_version());
    state(s, &count, "graph", "%zu parameters, %.16s", yoke_graph_parameter_count(graph), hex);
    state(s, &count, "batch", "%lld", (long long)o->batch);
    state(s, &count, "accumulate", "%u", o->accumulate);
    state_text(s, &count, "shares", o->shares ? o->shares : "auto");
    state(s, &count, "optimizer",
          "%d: rate %g, momentum %g, betas %g %g, epsilon %g, decay %g, %u, average %g, state %d",
          (int)p->kind, (double)p->learning_rate, (double)p->momentum, (double)p->beta1,
          (double)p->beta2, (double)p->epsilon, (double)p->weight_decay, p->nesterov,
          (double)o->average, (int)o->state);
    state(s, &count, "schedule", "%d: %g %g %g, %lld %lld %lld", (int)c->kind, (double)c->factor,
          (double)c->initial, (double)c->final_factor, (long long)c->warmup, (long long)c->period,
          (long long)c->steps);
    state(s, &count, "clipping", "norm %g, value %g, loss scale %g", (double)o->clip_norm,
          (double)o->clip_value, (double)o->loss_scale);
    state_groups(s, &count, o);
    state_frozen(s, &count, graph);
    state(s, &count, "strict", "%d", o->strict);
    state_text(s, &count, "precision", yki_precision_text(o->precision));
    state(s, &count, "reproducible", "%d, granules of %lld, recheck %lld, wire %d", o->reproducible,
          (long long)o->granule, (long long)o->recheck, o->wire);
    state(s, &count, "batch norm", "%s", o->local_batch_norm ? "local" : "sync");
    state(s, &count, "overlap", "%d", !o->no_overlap);
    state(s, &count, "shards", "%d%s", (int)o->shard,
          o->recompute == YOKE_RECOMPUTE_AUTO ? ", or computing again" : "");
    state_text(s, &count, "weights of shards", o->shard_by ? o->shard_by : "auto");
    if (o->stages == YOKE_STAGES_AUTO || o->stages == YOKE_STAGES_FIT)
        state(s, &count, "stages", o->stages == YOKE_STAGES_FIT ? "fit" : "auto");
    else
        state(s, &count, "stages", "%u", o->stages);
    state(s, &count, "own weights", "%d", o->own_weights);
    state(s, &count, "bucket size", "%llu", (unsigned long long)o->bucket_bytes);
}

static yoke_status
compare(const yoke_comm *comm, const statement *all)
{
    for (int32_t r = 1; r < comm->ranks; r++)
        for (size_t i = 0; i < FIELDS; i++) {
            const field *first = &all[0].fields[i], *other = &all[r].fields[i];

            if (memcmp(first, other, sizeof *first) != 0)
                return yki_fail(YOKE_ERROR_STATE,
                                "rank %d differs from rank 0 in the %s: \"%.*s\", not \"%.*s\"; "
                                "must be the same in all processes",
                                r, first->name, VALUE - 1, other->value, VALUE - 1, first->value);
        }
    return YOKE_OK;
}

yoke_status
yki_trainer_compare_processes(yoke_comm *comm, const yoke_graph *graph,
                              yoke_trainer_options *options)
{
    statement own, *all;
    yoke_status status;

    if (!comm)
        return YOKE_OK;
    all = yki_alloc((size_t)comm->ranks, sizeof *all, "what other processes mean");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    state_all(&own, graph, options);
    status = comm->allgather(comm, &own, sizeof own, all);
    if (status == YOKE_OK)
        status = compare(comm, all);
    yki_free(all);
    YKI_TRY(status);
    return comm->broadcast(comm, &options->seed, sizeof options->seed, 0);
}

yoke_status
yki_trainer_compare_counts(const yoke_trainer *t, const char *function, const char *what,
                           int64_t count)
{
    yoke_comm *comm = t->crew.comm;
    int64_t *all;
    yoke_status status;

    if (!comm)
        return YOKE_OK;
    all = yki_alloc((size_t)comm->ranks, sizeof *all, "sizes of datasets");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = comm->allgather(comm, &count, sizeof count, all);
    for (int32_t r = 1; r < comm->ranks && status == YOKE_OK; r++)
        if (all[r] != all[0])
            status = yki_fail(YOKE_ERROR_STATE,
                              "%s: rank %d has %lld samples for %s, rank 0 has %lld; must be the "
                              "same in all processes",
                              function, r, (long long)all[r], what, (long long)all[0]);
    yki_free(all);
    return status;
}
