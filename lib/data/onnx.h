/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx.h - models of ONNX: a file is one message of Protocol Buffers, whose fields have numbers,
 * and texts, arrays and further messages as their values.
 *
 * The file is in memory while it is read; a span is a piece of it. No length is trusted before it
 * is compared with the span that it is in. Messages are read down to attributes and tensors, a
 * fixed number of levels, so nothing recurses: a graph inside an attribute is never opened.
 */
#ifndef YKI_ONNX_H
#define YKI_ONNX_H

#include "data/weights_file.h"
#include "data/wire.h"

enum { YKI_ONNX_LEAST_OPSET = 13, YKI_ONNX_MOST_OPSET = 20, YKI_ONNX_RANK = YOKE_MAX_RANK };

/* ---- models (onnx_read.c) ---- */

/* Types of elements, by ONNX's numbers. */
typedef enum yki_onnx_type {
    YKI_ONNX_F32 = 1,
    YKI_ONNX_U8 = 2,
    YKI_ONNX_I8 = 3,
    YKI_ONNX_U16 = 4,
    YKI_ONNX_I16 = 5,
    YKI_ONNX_I32 = 6,
    YKI_ONNX_I64 = 7,
    YKI_ONNX_TEXT = 8,
    YKI_ONNX_BOOL = 9,
    YKI_ONNX_F16 = 10,
    YKI_ONNX_F64 = 11,
    YKI_ONNX_U32 = 12,
    YKI_ONNX_U64 = 13,
    YKI_ONNX_BF16 = 16
} yki_onnx_type;

typedef struct yki_onnx_tensor {
    const char *name;
    int32_t type; /* yki_onnx_type */
    int32_t rank;
    int64_t dim[YKI_ONNX_RANK];
    int64_t count;
    yki_wire_span message; /* all of it */
    bool is_raw, is_external;
    yki_wire_span raw;
    const char *location; /* a file beside the model */
    uint64_t offset, length;
    bool has_length;
} yki_onnx_tensor;

typedef struct yki_onnx_attr {
    const char *name;
    int32_t type; /* 1 float, 2 int, 3 text, 4 tensor, 6 floats, 7 ints; others are not read */
    float f;
    int64_t i;
    const char *text;
    yki_onnx_tensor *tensor;
    int64_t *ints;
    float *floats;
    size_t count;
} yki_onnx_attr;

typedef struct yki_onnx_node {
    const char *name, *op, *domain;
    const char **inputs, **outputs; /* "" is one that is left out */
    size_t input_count, output_count;
    yki_onnx_attr *attrs;
    size_t attr_count;
} yki_onnx_node;

/* An input or an output of the graph. A size that is a name is -1. */
typedef struct yki_onnx_value {
    const char *name;
    int32_t type; /* 0: not a tensor */
    bool has_shape;
    int32_t rank;
    int64_t dim[YKI_ONNX_RANK];
    const char *dim_name[YKI_ONNX_RANK];
} yki_onnx_value;

typedef struct yki_onnx {
    const char *path; /* lent; for errors, and for the folder of external data */
    unsigned char *data;
    size_t size;
    int64_t opset;
    yki_onnx_node *nodes;
    yki_onnx_tensor *tensors; /* the initializers */
    yki_onnx_value *inputs, *outputs;
    size_t node_count, tensor_count, input_count, output_count;
    struct yki_onnx_block *blocks; /* memory of all that is above */
} yki_onnx;

/* Reads a file; the caller clears `model`, also after an error. `path` must outlive it. */
yoke_status yki_onnx_open(const char *path, yki_onnx *model);
/* The same of memory, which is copied; `name` is for errors. */
yoke_status yki_onnx_parse(const void *data, size_t size, const char *name, yki_onnx *model);
void yki_onnx_clear(yki_onnx *model);
/* Returns zeroed memory that lives as long as the model. NULL: there is none. */
void *yki_onnx_keep(yki_onnx *model, size_t count, size_t size);

/* ---- numbers of tensors (onnx_tensor.c) ---- */

/* Whether elements are floats of any width. */
bool yki_onnx_is_float(int32_t type);
/* The name of a type, such as "float16"; "unknown" for others. */
const char *yki_onnx_type_name(int32_t type);
/* Read all elements. */
yoke_status yki_onnx_read_floats(yki_onnx *model, const yki_onnx_tensor *tensor, float *out);
yoke_status yki_onnx_read_ints(yki_onnx *model, const yki_onnx_tensor *tensor, int64_t *out);
/* Checks that as many bytes are there as the shape says, before memory is taken for it. */
yoke_status yki_onnx_check_size(const yki_onnx *model, const yki_onnx_tensor *tensor);

/* ---- a model as a graph and back ---- */

/* What an import gives: a graph, and the values of its weights, which follow the graph's nodes by
 * their ids. */
typedef struct yki_onnx_imported {
    yoke_graph *graph;
    float **values;
    size_t count; /* of `values`; NULL for nodes that are no weights */
    bool bytes;   /* the data are bytes, which are taken as they are */
} yki_onnx_imported;

/* Makes a graph of a model (onnx_import.c). The caller clears `imported`. */
yoke_status yki_onnx_import(yki_onnx *model, yki_onnx_imported *imported);
void yki_onnx_imported_clear(yki_onnx_imported *imported);

/* Writes outputs of a graph, and all that they need, as a model (onnx_export.c). */
yoke_status yki_onnx_export(const char *path, const yoke_graph *graph, const yki_model_info *info,
                            yoke_status (*get)(void *user, const yoke_node *node, float *values),
                            void *user);

#endif
