/* SPDX-License-Identifier: Apache-2.0
 *
 * language.c - gpt, which is GPT-2 of any size, and llama.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "zoo/zoo.h"

enum { NAME = 64, EXPANSION = 4 };
/* The standard deviation of GPT-2's initial weights. */
#define SPREAD 0.02f

/* A layer of the model. */
typedef struct block {
    yoke_graph *graph;
    const yoke_zoo_options *sizes;
    int64_t number;
} block;

static const char *
name_of(const block *b, const char *part, char name[NAME])
{
    snprintf(name, NAME, "h.%lld.%s", (long long)b->number, part);
    return name;
}

static const char *
llama_name(const block *b, const char *part, char name[NAME])
{
    snprintf(name, NAME, "model.layers.%lld.%s", (long long)b->number, part);
    return name;
}

static yoke_initializer
spread(float deviation)
{
    return (yoke_initializer){YOKE_INIT_NORMAL, 0, deviation, 0};
}

static yoke_node *
dense(const block *b, yoke_node *x, int64_t units, float deviation, const char *part)
{
    char name[NAME];
    const yoke_dense_options o = {.units = units,
                                  .name = name_of(b, part, name),
                                  .weight_init = spread(deviation),
                                  .bias_init = {YOKE_INIT_ZEROS, 0, 0, 0}};

    return yoke_dense(b->graph, x, &o);
}

/* Of each row by itself. */
static yoke_node *
norm(yoke_graph *g, yoke_node *x, const yoke_zoo_options *s, const char *name)
{
    const yoke_layer_norm_options o = {.axes = 1, .epsilon = s->epsilon, .name = name};

    return yoke_layer_norm(g, x, &o);
}

/* Embeddings, or what is added to the rows, as training sees them. */
static yoke_node *
drop(yoke_graph *g, const yoke_zoo_options *s, yoke_node *x)
{
    return s->dropout > 0 ? yoke_dropout(g, x, s->dropout) : x;
}

/* Rows and what a layer adds to them. */
static yoke_node *
add(const block *b, yoke_node *x, yoke_node *y)
{
    return yoke_add(b->graph, x, drop(b->graph, b->sizes, y));
}

/* The tokens of a sample and what follows each of them. */
static yoke_node *
add_tokens(yoke_graph *g, const yoke_zoo_options *s, yoke_node **next)
{
    yoke_node *tokens = yoke_sequence(g, yoke_input(g, s->input_name, YOKE_I32, s->input));

    *next = yoke_sequence(g, yoke_target(g, s->target_name, YOKE_I32, s->input));
    return tokens;
}

/* Each row looks back at the rows before it, then is computed by itself. What is added to the rows
 * starts smaller the more layers add to them. */
static yoke_node *
gpt_block(const block *b, yoke_node *x)
{
    const yoke_attention_options causal = {
        .heads = (int32_t)b->sizes->heads, .causal = true, .dropout = b->sizes->dropout};
    const int64_t width = b->sizes->width;
    const float less = SPREAD / sqrtf(2 * (float)b->sizes->layers);
    char name[NAME];
    yoke_node *y = norm(b->graph, x, b->sizes, name_of(b, "ln_1", name));

    y = dense(b, y, 3 * width, SPREAD, "attn.c_attn");
    y = yoke_attention(b->graph, y, NULL, &causal);
    x = add(b, x, dense(b, y, width, less, "attn.c_proj"));
    y = norm(b->graph, x, b->sizes, name_of(b, "ln_2", name));
    y = yoke_gelu_tanh(b->graph, dense(b, y, EXPANSION * width, SPREAD, "mlp.c_fc"));
    return add(b, x, dense(b, y, width, less, "mlp.c_proj"));
}

/* The product of each row and the weight of each token, and the loss, which takes the rows in
 * chunks: the logits of a whole batch are there only where somebody asks for them. */
static void
add_head(yoke_graph *g, yoke_node *x, yoke_node *weight, yoke_node *next)
{
    const yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = -1};

    yoke_graph_set_output(g, "logits",
                          yoke_matmul(g, x, weight, &(yoke_matmul_options){.transpose_b = true}));
    yoke_graph_set_loss(g, yoke_linear_cross_entropy(g, x, weight, next, &ignore));
}

void
yki_zoo_gpt(yoke_graph *g, const yoke_zoo_options *sizes)
{
    const int64_t length = sizes->input.dim[0];
    yoke_node *next, *tokens = add_tokens(g, sizes, &next);
    const yoke_embedding_options embedding = {sizes->vocabulary, sizes->width, "wte",
                                              spread(SPREAD)};
    yoke_node *x = yoke_embedding(g, tokens, &embedding);
    yoke_node *position =
        yoke_parameter(g, "wpe.weight", yoke_shape(sizes->context, sizes->width), spread(SPREAD));

    if (length < sizes->context)
        position = yoke_slice(g, position, 0, 0, length);
    x = drop(g, sizes, yoke_add(g, x, position));
    for (block b = {g, sizes, 0}; b.number < sizes->layers; b.number++)
        x = gpt_block(&b, x);
    add_head(g, norm(g, x, sizes, "ln_f"), yoke_graph_get_node(g, "wte.weight"), next);
}

/* ---- llama ---- */

static yoke_node *
llama_norm(yoke_graph *g, yoke_node *x, const yoke_zoo_options *s, const char *name)
{
    const yoke_layer_norm_options o = {.axes = 1, .epsilon = s->epsilon, .name = name};

    return yoke_rms_norm(g, x, &o);
}

static yoke_node *
llama_dense(const block *b, yoke_node *x, int64_t units, const char *part)
{
    char name[NAME];
    const yoke_dense_options o = {.units = units,
                                  .no_bias = true,
                                  .name = llama_name(b, part, name),
                                  .weight_init = spread(SPREAD)};

    return yoke_dense(b->graph, x, &o);
}

/* As a block of gpt, with positions that turn queries and keys, heads of queries that share keys
 * and values, and gated units. */
static yoke_node *
llama_block(const block *b, yoke_node *x)
{
    const yoke_zoo_options *s = b->sizes;
    const yoke_rope_options turn = {
        .heads = (int32_t)s->heads, .shared = (int32_t)s->shared, .base = s->base};
    const yoke_attention_options causal = {.heads = (int32_t)s->heads,
                                           .shared = (int32_t)s->shared,
                                           .causal = true,
                                           .dropout = s->dropout};
    const int64_t columns = s->width / s->heads * (s->heads + 2 * s->shared);
    char name[NAME];
    yoke_node *y = llama_norm(b->graph, x, s, llama_name(b, "input_layernorm", name));

    y = llama_dense(b, y, columns, "self_attn.qkv_proj");
    y = yoke_attention(b->graph, yoke_rope(b->graph, y, NULL, &turn), NULL, &causal);
    x = add(b, x, llama_dense(b, y, s->width, "self_attn.o_proj"));
    y = llama_norm(b->graph, x, s, llama_name(b, "post_attention_layernorm", name));
    y = yoke_swiglu(b->graph, llama_dense(b, y, 2 * s->inner, "mlp.gate_up_proj"));
    return add(b, x, llama_dense(b, y, s->width, "mlp.down_proj"));
}

void
yki_zoo_llama(yoke_graph *g, const yoke_zoo_options *sizes)
{
    yoke_node *next, *tokens = add_tokens(g, sizes, &next);
    const yoke_embedding_options embedding = {sizes->vocabulary, sizes->width, "model.embed_tokens",
                                              spread(SPREAD)};
    yoke_node *x = drop(g, sizes, yoke_embedding(g, tokens, &embedding));

    for (block b = {g, sizes, 0}; b.number < sizes->layers; b.number++)
        x = llama_block(&b, x);
    x = llama_norm(g, x, sizes, "model.norm");
    add_head(g, x,
             sizes->tied
                 ? yoke_graph_get_node(g, "model.embed_tokens.weight")
                 : yoke_parameter(g, "lm_head.weight", yoke_shape(sizes->vocabulary, sizes->width),
                                  spread(SPREAD)),
             next);
}
