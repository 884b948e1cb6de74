/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_names.h - what reading and writing adapters share: names of files, the modules of PEFT
 * that are parts of a layer, and the configuration.
 */
#ifndef YKI_ADAPTER_NAMES_H
#define YKI_ADAPTER_NAMES_H

#include <jansson.h>

#include "graph/graph.h"

#define YKI_ADAPTER_TENSORS "adapter_model.safetensors"
#define YKI_ADAPTER_CONFIG  "adapter_config.json"
#define YKI_ADAPTER_PREFIX  "base_model.model."

/* Finds the rows of the weight's first axis that one of `parts` modules has. False: not known. */
bool yki_adapter_rows(const yoke_node *layer, unsigned part, unsigned parts, int64_t *first,
                      int64_t *rows);

/* ---- adapter_config.c ---- */

typedef struct yki_adapter_config {
    json_t *json; /* owned */
    int64_t rank;
    double alpha; /* of a module that has none of its own */
} yki_adapter_config;

/* Read the configuration from memory, with a name for errors, or from a file. */
yoke_status yki_adapter_config_parse(const char *text, size_t length, const char *name,
                                     yki_adapter_config *config);
yoke_status yki_adapter_config_read(const char *path, yki_adapter_config *config);
/* Returns the alpha of a module: a name in alpha_pattern is the module's, or its end. */
double yki_adapter_config_alpha(const yki_adapter_config *config, const char *module);

#endif
