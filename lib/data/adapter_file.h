/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_file.h - the adapters of a graph in a folder of their own, as Hugging Face's PEFT keeps
 * them: adapter_model.safetensors and adapter_config.json.
 *
 * Knows no device: values are passed through functions.
 */
#ifndef YKI_ADAPTER_FILE_H
#define YKI_ADAPTER_FILE_H

#include "data/weights_file.h"

typedef struct yki_adapter_file yki_adapter_file;

/* Writes the adapters of the graph, and makes the folder if needed. `get` copies a node's values to
 * `values`. */
yoke_status yki_adapters_save(const char *folder, const yoke_graph *graph,
                              yoke_status (*get)(void *user, const yoke_node *node, float *values),
                              void *user);

/* Opens a folder's files and checks all that can be checked without a graph. The caller closes it.
 */
yoke_status yki_adapters_open(const char *folder, yki_adapter_file **file);
void yki_adapters_close(yki_adapter_file *file);
/* Gives the graph's layers the adapters that the file has; those that they have already must have
 * the file's rank and factor. */
yoke_status yki_adapters_add(yki_adapter_file *file, yoke_graph *graph);
/* Reads and checks all values of adapters that the graph has, then passes them to `put`. */
yoke_status yki_adapters_load(yki_adapter_file *file, yoke_graph *graph,
                              yoke_status (*put)(void *user, const yoke_node *node,
                                                 const float *values),
                              void *user);

#endif
