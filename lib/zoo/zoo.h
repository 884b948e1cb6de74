/* SPDX-License-Identifier: Apache-2.0
 *
 * zoo.h - the built-in models: how each is built, on the public functions of graphs.
 */
#ifndef YKI_ZOO_H
#define YKI_ZOO_H

#include "base/base.h"

enum { YKI_ZOO_MOST_SPREAD = 16 };

/* Adds the layers between the input and `outputs` values. Errors are the graph's. */
typedef yoke_node *yki_zoo_layers(yoke_graph *graph, yoke_node *x, int64_t outputs);
/* Adds the layers between an image and `outputs` maps of its height and width. `width` is the
 * number of maps of the first layers. */
typedef yoke_node *yki_zoo_maps(yoke_graph *graph, yoke_node *x, int64_t outputs, int64_t width);
/* Adds a whole language model, which predicts the next of each token of a sequence: an input and a
 * target of integers, -1 in it where nothing is to be predicted; the output "logits" (tokens,
 * vocabulary); and as loss the mean cross-entropy of the tokens that have a target. All options are
 * given; `input` is (tokens). */
typedef void yki_zoo_language(yoke_graph *graph, const yoke_zoo_options *options);

yki_zoo_layers yki_zoo_tiny, yki_zoo_mlp, yki_zoo_simplecnn, yki_zoo_lenet; /* small.c */
yki_zoo_layers yki_zoo_resnet18, yki_zoo_resnet34, yki_zoo_resnet50;        /* resnet.c */
yki_zoo_layers yki_zoo_mobilenet;                                           /* mobilenet.c */
yki_zoo_maps yki_zoo_unet, yki_zoo_autoencoder;                             /* maps.c */
/* GPT-2 and Llama of any size, with the names of Hugging Face: the head of gpt is its embedding,
 * and qkv_proj and gate_up_proj of llama are their parts in one. */
yki_zoo_language yki_zoo_gpt, yki_zoo_llama; /* language.c */

/* The built-in models; the last row has no name. */
typedef struct yki_zoo_row {
    yoke_zoo_model about;
    yki_zoo_layers *layers; /* one of these three */
    yki_zoo_maps *maps;
    yki_zoo_language *language;
} yki_zoo_row;

extern const yki_zoo_row yki_zoo_rows[];

/* Returns the row of a name; NULL: there is none, which it makes the detail. */
const yki_zoo_row *yki_zoo_find(const char *name);
/* Checks options, and gives those that are 0 the model's values. */
yoke_status yki_zoo_complete(const yki_zoo_row *row, yoke_zoo_options *options);

/* ---- layers.c ---- */

yoke_node *yki_zoo_dense(yoke_graph *graph, yoke_node *x, int64_t units, const char *name);
/* Of square windows, without a bias, as a batch norm follows. */
yoke_node *yki_zoo_conv(yoke_graph *graph, yoke_node *x, int64_t filters, int64_t size,
                        int64_t stride, int64_t pad, const char *name);
yoke_node *yki_zoo_conv_bias(yoke_graph *graph, yoke_node *x, int64_t filters, int64_t size,
                             int64_t stride, int64_t pad, const char *name);
/* Doubles the height and width, or makes one less of them: exactly `like`'s. */
yoke_node *yki_zoo_enlarge(yoke_graph *graph, yoke_node *x, int64_t filters, int64_t size,
                           yoke_shape like, const char *name);
yoke_node *yki_zoo_norm(yoke_graph *graph, yoke_node *x, const char *name);
yoke_pool2d_options yki_zoo_window(int64_t size);
/* Whether images are so small that nets for large ones begin without making them smaller. */
bool yki_zoo_is_small(const yoke_node *image);

#endif
