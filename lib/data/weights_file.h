/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_file.h - parameters and states of a graph in a safetensors file, and
 * what else makes them a model: the graph, the data it wants, the names of classes.
 *
 * Knows no device: values come and go through functions.
 */
#ifndef YKI_WEIGHTS_FILE_H
#define YKI_WEIGHTS_FILE_H

#include "data/dataset.h"
#include "data/safetensors.h"
#include "graph/graph.h"

#define YKI_GRAPH_KEY   "yoke.graph"
#define YKI_INPUT_KEY   "yoke.input"
#define YKI_CLASSES_KEY "yoke.classes"

/* The data that a model wants, and what is said of it. Zero is empty; all of it is owned. */
typedef struct yki_model_info {
    yoke_field field; /* of the graph's first input: name, type and shape; name NULL: unknown */
    struct yki_scaling scaling;
    char **class_names;
    size_t class_count;
} yki_model_info;

void yki_model_info_clear(yki_model_info *info);
yoke_status yki_model_info_set(yki_model_info *info, const yoke_field *field, const float *mean,
                               const float *scale, size_t scaling_count,
                               const char *const *class_names, size_t class_count);
/* The texts of a file, and back; what a file does not say stays zero. */
yoke_status yki_model_info_write(const yki_model_info *info, yki_text texts[2], size_t *count);
yoke_status yki_model_info_read(const yki_safetensors *file, yki_model_info *info);

/* A parameter or a state. */
bool yki_is_weight(const yoke_node *node);

/* Writes all of them, with the graph and the info (NULL: none). `get` gives a node's values. */
yoke_status
yki_weights_file_save(const char *path, const yoke_graph *graph, const yki_model_info *info,
                      yoke_status (*get)(void *user, const yoke_node *node, float *values),
                      void *user);
/* Reads and checks everything that is wanted, then gives it node by node. */
yoke_status yki_weights_file_load(
    const yki_safetensors *file, const yoke_graph *graph, const yoke_load_options *options,
    yoke_status (*put)(void *user, const yoke_node *node, const float *values), void *user);
/* The graph of a file's metadata; YOKE_ERROR_FORMAT if it has none. */
yoke_status yki_weights_file_graph(const yki_safetensors *file, yoke_graph **graph);

#endif
