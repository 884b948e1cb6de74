/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.c - IDX, the format of MNIST: two zeros, a type, the number of axes, and their sizes,
 * big-endian; then the numbers, big-endian, the last axis fastest. The first axis counts the
 * samples.
 */
#include <string.h>

#include "data/files.h"

enum { MOST_AXES = YOKE_MAX_RANK + 1, HEAD = 4 + 4 * MOST_AXES };

/* False: there is no such type. */
static bool
number_of(unsigned char code, yki_number *number)
{
    switch (code) {
    case 0x08:
        *number = YKI_NUMBER_U8;
        return true;
    case 0x09:
        *number = YKI_NUMBER_I8;
        return true;
    case 0x0B:
        *number = YKI_NUMBER_I16;
        return true;
    case 0x0C:
        *number = YKI_NUMBER_I32;
        return true;
    case 0x0D:
        *number = YKI_NUMBER_F32;
        return true;
    case 0x0E:
        *number = YKI_NUMBER_F64;
        return true;
    default:
        return false;
    }
}

static bool
is_idx(const unsigned char *head, size_t size)
{
    yki_number number;

    return size >= 4 && head[0] == 0 && head[1] == 0 && number_of(head[2], &number) &&
           head[3] >= 1 && head[3] <= MOST_AXES;
}

static uint32_t
big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Computes shape and size in bytes from the sizes of the axes. No product exceeds 64 bits. */
static yoke_status
measure(const char *name, const unsigned char *head, yki_column *made, uint64_t *total)
{
    uint64_t bytes = yki_number_size(made->number);

    made->count = big_endian(head + 4);
    for (int axis = 1; axis < head[3]; axis++) {
        uint32_t size = big_endian(head + 4 + 4 * axis);

        if (size == 0 || size > INT32_MAX)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: axis %d has size %lu; must be between 1 and 2147483647", name,
                            axis, (unsigned long)size);
        if (bytes > (UINT64_MAX >> 1) / size)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: its sizes make more than any file holds; get the whole file",
                            name);
        made->shape.dim[made->shape.rank++] = size;
        bytes *= size;
    }
    made->stride = bytes;
    if (made->count && bytes > (UINT64_MAX >> 1) / (uint64_t)made->count)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: its sizes make more than any file holds; get the whole file", name);
    *total = 4 + 4 * (uint64_t)head[3] + bytes * (uint64_t)made->count;
    return YOKE_OK;
}

static yoke_status
parse(yki_bytes *bytes, const yoke_dataset_open_options *options, yki_column *column)
{
    const char *name = yki_bytes_name(bytes);
    yki_column made = {.big_endian = true};
    unsigned char head[HEAD];
    uint64_t total = 0;
    size_t got;
    int64_t count;

    (void)options;
    YKI_TRY(yki_bytes_peek(bytes, head, sizeof head, &got));
    if (!is_idx(head, got) || !number_of(head[2], &made.number))
        return yki_fail(
            YOKE_ERROR_FORMAT,
            "%s is no IDX file; must begin with 0, 0, a type and a number of axes up to %d", name,
            MOST_AXES);
    if (got < 4 + 4 * (size_t)head[3])
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s ends within its header of %d axes; get the whole file", name, head[3]);
    YKI_TRY(measure(name, head, &made, &total));
    YKI_TRY(yki_bytes_expect(bytes, total));
    count = made.count;
    made.count = 0;
    YKI_TRY(yki_column_add(&made, bytes, 4 + 4 * (uint64_t)head[3], count));
    *column = made;
    return YOKE_OK;
}

const yki_column_format yki_format_idx = {
    .name = "IDX",
    .endings = {"ubyte", "ubyte.gz", ".idx", ".idx.gz"},
    .is = is_idx,
    .parse = parse,
};
