/* SPDX-License-Identifier: Apache-2.0
 *
 * decoding.h - a language model's graph as a generator runs it: a few new rows of each
 * stream at a time, with the keys and values of earlier rows in a cache.
 */
#ifndef YKI_DECODING_H
#define YKI_DECODING_H

#include "plan/plan.h"

typedef struct yki_decoding {
    yoke_graph *graph;
    yoke_node *tokens, *positions; /* inputs: (rows), i32 */
    yoke_node *starts;             /* input: (), i32, the position of a stream's first row */
    yoke_node *logits;             /* (rows, vocabulary); NULL: it only fills the cache */
} yki_decoding;

/* What a model generates with. */
typedef struct yki_language {
    const yoke_node *tokens, *logits;        /* of the model's graph */
    int64_t context, vocabulary, tokens_end; /* tokens_end: 1 + the largest token that it reads */
} yki_language;

/* Finds what the output needs, or says why such a graph cannot generate. */
yoke_status yki_language_find(const yoke_graph *graph, const char *output, yki_language *found);
/* Derives the graph of `rows` new rows for each of `streams` streams of at most `context` rows. Its
 * parameters are those of the model's graph, in the same order; its only states are the caches.
 * `fills`: it computes no logits, only keys and values. The caller destroys made->graph. */
yoke_status yki_decoding_create(const yoke_graph *graph, const yki_language *language, int64_t rows,
                                int64_t streams, int64_t context, bool fills, yki_decoding *made);

/* Lends the plan of a generator that computes one row of each stream, for who looks at launches. */
const yki_plan *yki_generator_plan(const yoke_generator *generator);

#endif
