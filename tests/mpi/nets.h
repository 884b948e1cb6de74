/* SPDX-License-Identifier: Apache-2.0
 *
 * nets.h - the small networks that train.c trains.
 */
#ifndef TESTS_MPI_NETS_H
#define TESTS_MPI_NETS_H

#include <yoke-mpi.h>

enum { SIDE = 8, CLASSES = 4, TOKENS = 32 };

/* Smooth all over (where an argument of relu is 0 within rounding, two orders of sums part), and no
 * bias before a normalisation: its gradient is 0 but for rounding, which Adam makes large. */
static void
build(yoke_graph *g)
{
    yoke_conv2d_options conv = {
        .filters = 6, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true, .name = "conv"};
    yoke_dense_options dense = {.units = CLASSES, .name = "dense"};
    yoke_batch_norm_options norm = {.name = "norm"};
    yoke_pool2d_options pool = {.kernel = {2, 2}};
    yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = -1};
    yoke_node *x = yoke_input(g, "image", YOKE_F32, yoke_shape(1, SIDE, SIDE));
    yoke_node *label = yoke_target(g, "label", YOKE_I32, yoke_shape()), *y;

    y = yoke_tanh(g, yoke_batch_norm(g, yoke_conv2d(g, x, &conv), &norm));
    y = yoke_dense(g, yoke_flatten(g, yoke_avgpool2d(g, y, &pool)), &dense);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, &ignore));
}

/* Images as sequences of their rows, with a label for each row. */
static void
build_sequences(yoke_graph *g)
{
    yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = -1};
    yoke_attention_options causal = {.heads = 2, .causal = true};
    yoke_node *x = yoke_sequence(g, yoke_input(g, "image", YOKE_F32, yoke_shape(SIDE, SIDE))), *y;
    yoke_node *label = yoke_sequence(g, yoke_target(g, "label", YOKE_I32, yoke_shape(SIDE)));

    /* Without a bias: that of keys has no gradient but rounding, of which Adam makes steps. */
    y = yoke_dense(g, x, &(yoke_dense_options){.units = 24, .no_bias = true, .name = "qkv"});
    y = yoke_dense(g, yoke_attention(g, y, NULL, &causal),
                   &(yoke_dense_options){.units = CLASSES, .name = "dense"});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, &ignore));
}

/* A language model without its attention: the head is the embedding. */
static void
build_tokens(yoke_graph *g)
{
    yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = -1};
    yoke_matmul_options transposed = {.transpose_b = true};
    yoke_node *x = yoke_sequence(g, yoke_input(g, "tokens", YOKE_I32, yoke_shape(SIDE))), *y;
    yoke_node *next = yoke_sequence(g, yoke_target(g, "next", YOKE_I32, yoke_shape(SIDE))), *rows;

    x = yoke_embedding(g, x, &(yoke_embedding_options){TOKENS, 16, "wte", {0}});
    x = yoke_dropout(g, x, 0.1f);
    y = yoke_dense(g, x, &(yoke_dense_options){.units = 48, .name = "in"});
    y = yoke_dense(g, yoke_tanh(g, y), &(yoke_dense_options){.units = 16, .name = "out"});
    x = yoke_add(g, x, yoke_dropout(g, y, 0.1f));
    rows = yoke_graph_get_node(g, "wte.weight");
    yoke_graph_set_output(g, "logits", yoke_matmul(g, x, rows, &transposed));
    yoke_graph_set_loss(g, yoke_linear_cross_entropy(g, x, rows, next, &ignore));
}

#endif
