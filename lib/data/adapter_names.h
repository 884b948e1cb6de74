/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_names.h - what reading and writing adapters share: names of files, and the modules of
 * PEFT that are parts of a layer.
 */
#ifndef YKI_ADAPTER_NAMES_H
#define YKI_ADAPTER_NAMES_H

#include "graph/graph.h"

#define YKI_ADAPTER_TENSORS "adapter_model.safetensors"
#define YKI_ADAPTER_CONFIG  "adapter_config.json"
#define YKI_ADAPTER_PREFIX  "base_model.model."

/* Finds the rows of the weight's first axis that one of `parts` modules has. False: not known. */
bool yki_adapter_rows(const yoke_node *layer, unsigned part, unsigned parts, int64_t *first,
                      int64_t *rows);

#endif
