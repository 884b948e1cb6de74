/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_export.h - what the files that export operators to ONNX share.
 *
 * A value of ONNX has the batch as its first axis, where its node depends on the sample, and behind
 * it the rows of a sequence; then come the axes of the node. Numbers that belong to the network,
 * and not to its weights, are nodes "Constant".
 */
#ifndef YKI_ONNX_EXPORT_H
#define YKI_ONNX_EXPORT_H

#include "data/graph_json.h"
#include "data/onnx.h"

typedef struct yki_onnx_exporter {
    const yoke_graph *graph;
    yki_wire_out nodes, attrs; /* of the graph; of the next node */
    yki_onnx names_memory;     /* of the names below */
    const char **names;        /* of the value of each node, by its id */
    bool *needed;              /* which nodes the outputs depend on */
    bool *written;             /* which weights nodes refer to */
    unsigned made;             /* names */
    const char *mask;          /* of causal attention, once it is made */
    const char *length;        /* of sequences in this batch, once it is made */
    bool failed;               /* there was no memory */
} yki_onnx_exporter;

/* How a function of <yoke.h> is exported. `in` are its arguments; layers find their weights in the
 * node. */
typedef struct yki_onnx_export_row {
    const char *function; /* without "yoke_"; NULL ends a table */
    yoke_status (*write)(yki_onnx_exporter *ex, const yoke_node *n, const yki_json_options *o,
                         const char *const *in, const char *out);
} yki_onnx_export_row;

extern const yki_onnx_export_row yki_onnx_export_layers[], yki_onnx_export_elements[],
    yki_onnx_export_sequences[];

/* ---- onnx_exporter.c ---- */

/* How many axes stand before those of the node. */
int yki_onnx_lead(const yoke_node *n);
/* The name of the value of a node. */
const char *yki_onnx_name(yki_onnx_exporter *ex, const yoke_node *n);
/* Whether an output of the graph has this name. */
bool yki_onnx_is_output(const yoke_graph *graph, const char *name);
/* A new name for a value. */
const char *yki_onnx_new_name(yki_onnx_exporter *ex);
/* Set attributes of the next node. */
void yki_onnx_attr_int(yki_onnx_exporter *ex, const char *name, int64_t value);
void yki_onnx_attr_ints(yki_onnx_exporter *ex, const char *name, const int64_t *values, size_t n);
void yki_onnx_attr_float(yki_onnx_exporter *ex, const char *name, float value);
void yki_onnx_attr_text(yki_onnx_exporter *ex, const char *name, const char *text);
/* Add a node of up to 8 inputs, the last of which is before a NULL; returns the name of its result:
 * `out`, or a new one if that is NULL. */
const char *yki_onnx_emit(yki_onnx_exporter *ex, const char *op, const char *out, ...);
/* The same of a list of inputs. */
const char *yki_onnx_emit_list(yki_onnx_exporter *ex, const char *op, const char *out,
                               const char *const *in, size_t count);
/* Add constants, and return their names. */
const char *yki_onnx_ints(yki_onnx_exporter *ex, const int64_t *values, size_t count);
const char *yki_onnx_floats(yki_onnx_exporter *ex, const float *values, int32_t rank,
                            const int64_t *dim);
const char *yki_onnx_number(yki_onnx_exporter *ex, float value);
/* How many rows the samples of a batch have, as a list of one number. */
const char *yki_onnx_rows(yki_onnx_exporter *ex, const yoke_node *x);
/* Starts a tensor; `name` NULL: it has none. */
yki_wire_out yki_onnx_start_tensor(const char *name, yki_onnx_type type, int32_t rank,
                                   const int64_t *dim);
/* Fails with YOKE_ERROR_UNSUPPORTED and the node's name. */
yoke_status yki_onnx_cannot(const yoke_node *n, const char *why);

#endif
