/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c - the encoding of Protocol Buffers: fields with a number and one of four kinds of
 * values. Groups, which are long out of use, are refused.
 */
#include <string.h>

#include "data/wire.h"

enum { MOST_VARINT = 10, LAST_SHIFT = 63, BYTE = 128 };

/* ---- reading ---- */

bool
yki_wire_varint(yki_wire_span *span, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < MOST_VARINT && i < span->size; i++) {
        const uint64_t bits = span->at[i] & (BYTE - 1);

        if (7 * i == LAST_SHIFT && bits > 1)
            return false;
        *value |= bits << 7 * i;
        if (span->at[i] < BYTE) {
            span->at += i + 1;
            span->size -= i + 1;
            return true;
        }
    }
    return false;
}

static bool
take(yki_wire_span *span, uint64_t size, yki_wire_span *out)
{
    if (size > span->size)
        return false;
    *out = (yki_wire_span){span->at, (size_t)size};
    span->at += size;
    span->size -= (size_t)size;
    return true;
}

bool
yki_wire_next(yki_wire_span *message, yki_wire_field *field)
{
    uint64_t key, size;

    memset(field, 0, sizeof *field);
    if (!yki_wire_varint(message, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
        return false;
    field->number = (uint32_t)(key >> 3);
    field->wire = (yki_wire_kind)(key & 7);
    switch (key & 7) {
    case YKI_WIRE_VARINT:
        return yki_wire_varint(message, &field->value);
    case YKI_WIRE_FIXED64:
    case YKI_WIRE_FIXED32:
        size = field->wire == YKI_WIRE_FIXED64 ? 8 : 4;
        if (!take(message, size, &field->bytes))
            return false;
        field->value = yki_little_endian(field->bytes.at, (size_t)size);
        return true;
    case YKI_WIRE_BYTES:
        return yki_wire_varint(message, &size) && take(message, size, &field->bytes);
    default:
        return false;
    }
}

/* ---- writing ---- */

void
yki_wire_put_raw(yki_wire_out *out, const void *data, size_t size)
{
    void *memory = out->data;

    if (out->failed || size == 0)
        return;
    if (size > SIZE_MAX - out->size ||
        yki_grow(&memory, &out->capacity, out->size + size, 1, "a message") != YOKE_OK) {
        out->failed = true;
        return;
    }
    out->data = memory;
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void
add_varint(yki_wire_out *out, uint64_t value)
{
    unsigned char bytes[MOST_VARINT];
    size_t count = 0;

    do {
        bytes[count] = (unsigned char)(value & (BYTE - 1));
        value >>= 7;
        if (value)
            bytes[count] |= BYTE;
        count++;
    } while (value);
    yki_wire_put_raw(out, bytes, count);
}

static void
add_key(yki_wire_out *out, uint32_t number, yki_wire_kind wire)
{
    add_varint(out, (uint64_t)number << 3 | (uint64_t)wire);
}

void
yki_wire_put_int(yki_wire_out *out, uint32_t number, int64_t value)
{
    add_key(out, number, YKI_WIRE_VARINT);
    add_varint(out, (uint64_t)value);
}

/* A word of so many bytes, the lowest first. */
static void
put_word(yki_wire_out *out, uint64_t word, unsigned size)
{
    unsigned char bytes[8];

    yki_put_little_endian(bytes, word, size);
    yki_wire_put_raw(out, bytes, size);
}

void
yki_wire_put_float(yki_wire_out *out, uint32_t number, float value)
{
    uint32_t word;

    memcpy(&word, &value, sizeof word);
    add_key(out, number, YKI_WIRE_FIXED32);
    put_word(out, word, sizeof word);
}

static void
put_bits(yki_wire_out *out, double value)
{
    uint64_t word;

    memcpy(&word, &value, sizeof word);
    put_word(out, word, sizeof word);
}

void
yki_wire_put_double(yki_wire_out *out, uint32_t number, double value)
{
    add_key(out, number, YKI_WIRE_FIXED64);
    put_bits(out, value);
}

void
yki_wire_put_doubles(yki_wire_out *out, uint32_t number, const double *values, size_t count)
{
    yki_wire_put_start(out, number, count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        put_bits(out, values[i]);
}

void
yki_wire_put_start(yki_wire_out *out, uint32_t number, uint64_t size)
{
    add_key(out, number, YKI_WIRE_BYTES);
    add_varint(out, size);
}

void
yki_wire_put_bytes(yki_wire_out *out, uint32_t number, const void *data, size_t size)
{
    yki_wire_put_start(out, number, size);
    yki_wire_put_raw(out, data, size);
}

void
yki_wire_put_text(yki_wire_out *out, uint32_t number, const char *text)
{
    yki_wire_put_bytes(out, number, text, strlen(text));
}

void
yki_wire_put_message(yki_wire_out *out, uint32_t number, yki_wire_out *message)
{
    yki_wire_put_bytes(out, number, message->data, message->size);
    out->failed |= message->failed;
    yki_wire_clear(message);
}

void
yki_wire_clear(yki_wire_out *out)
{
    yki_free(out->data);
    memset(out, 0, sizeof *out);
}
