/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - the encoding of Protocol Buffers: a message is fields with a number and a value, which
 * may be a message. Models of ONNX are messages, and what TensorBoard reads.
 *
 * What is read is in memory; a span is a piece of it. No length is trusted before it is compared
 * with the span that it is in.
 */
#ifndef YKI_WIRE_H
#define YKI_WIRE_H

#include "base/base.h"

typedef struct yki_wire_span {
    const unsigned char *at;
    size_t size;
} yki_wire_span;

typedef enum yki_wire_kind {
    YKI_WIRE_VARINT = 0,
    YKI_WIRE_FIXED64 = 1,
    YKI_WIRE_BYTES = 2,
    YKI_WIRE_FIXED32 = 5
} yki_wire_kind;

typedef struct yki_wire_field {
    uint32_t number;
    yki_wire_kind wire;
    uint64_t value;      /* of numbers */
    yki_wire_span bytes; /* of texts, arrays and messages */
} yki_wire_field;

/* Takes the first field off a message; false: it is damaged. The message must not be empty. */
bool yki_wire_next(yki_wire_span *message, yki_wire_field *field);
/* Takes a number of seven bits a byte off a span; false: it is damaged. */
bool yki_wire_varint(yki_wire_span *span, uint64_t *value);

/* A message that is being written. After an allocation fails, nothing is added any more. */
typedef struct yki_wire_out {
    unsigned char *data;
    size_t size, capacity;
    bool failed;
} yki_wire_out;

void yki_wire_put_int(yki_wire_out *out, uint32_t number, int64_t value);
void yki_wire_put_double(yki_wire_out *out, uint32_t number, double value);
/* Adds a list of numbers as one field. */
void yki_wire_put_doubles(yki_wire_out *out, uint32_t number, const double *values, size_t count);
void yki_wire_put_float(yki_wire_out *out, uint32_t number, float value);
void yki_wire_put_bytes(yki_wire_out *out, uint32_t number, const void *data, size_t size);
void yki_wire_put_text(yki_wire_out *out, uint32_t number, const char *text);
/* Adds bytes as they are, such as fields that were encoded before. */
void yki_wire_put_raw(yki_wire_out *out, const void *data, size_t size);
/* Adds a message, and clears it. */
void yki_wire_put_message(yki_wire_out *out, uint32_t number, yki_wire_out *message);
/* Adds the start of a field of so many bytes, which the caller writes behind it. */
void yki_wire_put_start(yki_wire_out *out, uint32_t number, uint64_t size);
void yki_wire_clear(yki_wire_out *out);

#endif
