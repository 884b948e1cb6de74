/* SPDX-License-Identifier: Apache-2.0
 *
 * language.h - the built-in language models, on the public API.
 */
#ifndef YOKE_TOOLS_LANGUAGE_H
#define YOKE_TOOLS_LANGUAGE_H

#include <yoke.h>

/* Zeros are the model's own. */
typedef struct yki_tool_sizes {
    unsigned layers, heads, width;
    unsigned context;    /* the most tokens of a sample */
    unsigned vocabulary; /* tokens are 0 to vocabulary - 1 */
    unsigned shared;     /* llama: heads of keys and values; they divide the heads */
    unsigned inner;      /* llama: the width inside a gated layer */
    float epsilon;       /* of norms; 0: 1e-5 */
    float base;          /* llama: of rotary positions; 0: 10000 */
    bool tied;           /* llama: the head is the embedding, as gpt's always is */
    double dropout;      /* in training, of embeddings, of weights of attention, and of what layers
                            add to the rows */
} yki_tool_sizes;

/* Builds a model that predicts the next of each token of a sequence, which has up to `length` of
 * them, at most `context`: an input and a target of integers, -1 in it where nothing is to be
 * predicted; the output "logits" (length, vocabulary); and as loss the mean cross-entropy of the
 * tokens that have a target. Errors are the graph's. */
typedef void yki_tool_language(yoke_graph *graph, const yki_tool_sizes *sizes, int64_t length,
                               const char *input, const char *target);

/* GPT-2, with the names of Hugging Face; the head is tied to the embedding. */
yki_tool_language yki_tool_build_gpt;
/* Llama, with the names of Hugging Face; qkv_proj and gate_up_proj are their parts in one. */
yki_tool_language yki_tool_build_llama;

#endif
