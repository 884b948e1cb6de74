/* SPDX-License-Identifier: Apache-2.0
 *
 * png_write.c - see png_write.h. The rows, each behind a byte 0 that says "no filter", are stored
 * blocks of deflate (RFC 1951) in the frame of zlib (RFC 1950).
 */
#include <stdlib.h>

#include "png_write.h"

enum { BLOCK = 65535 }; /* bytes of a stored block, at most */

typedef struct bytes {
    uint8_t *data;
    size_t count;
} bytes;

static void
put(bytes *b, uint8_t byte)
{
    b->data[b->count++] = byte;
}

static void
put_32(bytes *b, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        put(b, (uint8_t)(number >> shift));
}

static uint32_t
crc_of(const uint8_t *data, size_t count)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < count; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* Ends a chunk, whose length, name and data begin at `start`. */
static void
end_chunk(bytes *b, size_t start)
{
    const size_t length = b->count - start - 8;

    for (size_t i = 0; i < 4; i++)
        b->data[start + i] = (uint8_t)(length >> (24 - 8 * i));
    put_32(b, crc_of(b->data + start + 4, b->count - start - 4));
}

static size_t
begin_chunk(bytes *b, const char *name)
{
    const size_t start = b->count;

    put_32(b, 0); /* the length comes later */
    for (size_t i = 0; i < 4; i++)
        put(b, (uint8_t)name[i]);
    return start;
}

/* The rows in blocks, each with a header, and their checksum (Adler-32). */
static void
put_rows(bytes *b, const uint8_t *pixels, uint32_t height, size_t row)
{
    const size_t count = height * (row + 1);
    uint32_t low = 1, high = 0;

    put(b, 0x78);
    put(b, 0x01);
    for (size_t i = 0; i < count; i++) {
        const size_t left = count - i;
        const uint8_t byte =
            i % (row + 1) == 0 ? 0 : pixels[i / (row + 1) * row + i % (row + 1) - 1];

        if (i % BLOCK == 0) {
            const uint16_t length = (uint16_t)(left < BLOCK ? left : BLOCK);

            put(b, left <= BLOCK); /* the last one */
            put(b, (uint8_t)length);
            put(b, (uint8_t)(length >> 8));
            put(b, (uint8_t)~length);
            put(b, (uint8_t)(~length >> 8));
        }
        put(b, byte);
        low = (low + byte) % 65521;
        high = (high + low) % 65521;
    }
    put_32(b, high << 16 | low);
}

static bool
make(bytes *b, const uint8_t *pixels, uint32_t height, uint32_t width, uint32_t channels)
{
    static const uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const size_t row = (size_t)width * channels, count = height * (row + 1);
    size_t chunk;

    b->count = 0;
    b->data = malloc(128 + count + 5 * (count / BLOCK + 1));
    if (!b->data)
        return false;
    for (size_t i = 0; i < sizeof signature; i++)
        put(b, signature[i]);
    chunk = begin_chunk(b, "IHDR");
    put_32(b, width);
    put_32(b, height);
    put(b, 8);                     /* bits of a number */
    put(b, channels == 3 ? 2 : 0); /* colours or greys */
    put(b, 0);
    put(b, 0);
    put(b, 0);
    end_chunk(b, chunk);
    chunk = begin_chunk(b, "IDAT");
    put_rows(b, pixels, height, row);
    end_chunk(b, chunk);
    end_chunk(b, begin_chunk(b, "IEND"));
    return true;
}

bool
yki_tool_png_write(FILE *stream, const uint8_t *pixels, uint32_t height, uint32_t width,
                   uint32_t channels)
{
    bytes b;

    if (!make(&b, pixels, height, width, channels))
        return false;
    fwrite(b.data, 1, b.count, stream);
    free(b.data);
    return true;
}

bool
yki_tool_png_write_uri(FILE *stream, const uint8_t *pixels, uint32_t height, uint32_t width,
                       uint32_t channels)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes b;

    if (!make(&b, pixels, height, width, channels))
        return false;
    fputs("data:image/png;base64,", stream);
    for (size_t i = 0; i < b.count; i += 3) {
        uint32_t three = 0;

        for (size_t k = 0; k < 3; k++)
            three = three << 8 | (i + k < b.count ? b.data[i + k] : 0u);
        for (size_t k = 0; k < 4; k++)
            putc(k <= b.count - i ? digits[three >> (18 - 6 * k) & 63] : '=', stream);
    }
    free(b.data);
    return true;
}
