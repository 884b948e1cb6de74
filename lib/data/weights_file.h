/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_file.h - parameters and states of a graph in a safetensors file, with what else makes
 * them a model: the graph, the data that it expects, the names of classes.
 *
 * Knows no device: values are passed through functions.
 */
#ifndef YKI_WEIGHTS_FILE_H
#define YKI_WEIGHTS_FILE_H

#include "data/dataset.h"
#include "data/shards.h"
#include "graph/graph.h"

#define YKI_GRAPH_KEY     "yoke.graph"
#define YKI_INPUT_KEY     "yoke.input"
#define YKI_INPUTS_KEY    "yoke.inputs"
#define YKI_CLASSES_KEY   "yoke.classes"
#define YKI_TOKENIZER_KEY "yoke.tokenizer"
#define YKI_ENCODING_KEY  "yoke.encoding"

/* The data of one input: name, type and shape of a sample, and what devices make of its values. */
typedef struct yki_model_input {
    yoke_field field;
    struct yki_scaling scaling;
} yki_model_input;

/* The input data that a model expects, and its classes. Zero is empty; everything in it is owned.
 */
typedef struct yki_model_info {
    yoke_field field; /* of the graph's first input: name, type and shape; name NULL: unknown */
    struct yki_scaling scaling;
    yki_model_input more[YKI_MAX_FIELDS - 1]; /* the graph's other inputs */
    size_t more_count;
    char **class_names;
    size_t class_count;
    yoke_tokenizer *tokenizer; /* of a text; NULL: none */
    char *encoding;            /* of a table's columns, as JSON (data/encoding.h); NULL: none */
} yki_model_info;

void yki_model_info_clear(yki_model_info *info);
yoke_status yki_model_info_set(yki_model_info *info, const yoke_field *field, const float *mean,
                               const float *scale, size_t scaling_count,
                               const char *const *class_names, size_t class_count);
/* Adds one more input; beyond YKI_MAX_FIELDS of them nothing. */
yoke_status yki_model_info_add(yki_model_info *info, const yoke_field *field, const float *mean,
                               const float *scale, size_t scaling_count);
/* Lends what is known of an input; false: nothing. */
bool yki_model_info_find(const yki_model_info *info, const char *name, yki_model_input *input);
/* Write the info as texts of a file, and read it back. Members that the file does not have stay
 * zero. */
enum { YKI_MODEL_TEXTS = 5 };
yoke_status yki_model_info_write(const yki_model_info *info, yki_text texts[YKI_MODEL_TEXTS],
                                 size_t *count);
yoke_status yki_model_info_read(const yki_safetensors *file, yki_model_info *info);

/* True for a parameter or a state that is no constant: those are written with the graph. */
bool yki_is_weight(const yoke_node *node);

/* Lists all parameters, then all states; the caller frees the list. */
yoke_status yki_list_weights(const yoke_graph *graph, const yoke_node ***nodes, size_t *count);

/* Writes all parameters and states, with the graph and the info (NULL: none). `get` copies a node's
 * values to `values`. */
yoke_status
yki_weights_file_save(const char *path, const yoke_graph *graph, const yki_model_info *info,
                      yoke_status (*get)(void *user, const yoke_node *node, float *values),
                      void *user);
/* Reads and checks every tensor that is wanted, then passes the values to `put`, node by node
 * (weights_load.c). */
yoke_status yki_weights_file_load(
    const yki_shards *shards, const yoke_graph *graph, const yoke_load_options *options,
    yoke_status (*put)(void *user, const yoke_node *node, const float *values), void *user);
/* Writes the weights as Hugging Face keeps those of a GPT-2 or a Llama, with the tokenizer (NULL:
 * none), to a folder (hugging_face_write.c). */
yoke_status yki_hugging_face_write(const char *folder, const yoke_graph *graph,
                                   const yoke_tokenizer *tokenizer, const yoke_export_options *o,
                                   yoke_status (*get)(void *user, const yoke_node *node,
                                                      float *values),
                                   void *user);
/* Round to the nearest, and where two are as near to the even one; what is too large becomes
 * infinite. */
uint16_t yki_to_f16(float value);
uint16_t yki_to_bf16(float value);
/* Makes the graph of a file's metadata; YOKE_ERROR_FORMAT if the file has none. */
yoke_status yki_weights_file_graph(const yki_safetensors *file, yoke_graph **graph);

#endif
