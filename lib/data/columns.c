/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.c - a dataset of columns of numbers in files: finds the samples that are asked for, reads
 * them, and converts them to u8, i32 or f32.
 *
 * Samples that follow one another in the file are read together. Integers that do not fit into an
 * i32, and labels beyond the limit, are errors that name file and sample.
 */
#include <math.h>
#include <string.h>

#include "data/files.h"

enum { PIECE = 1 << 14 }; /* bytes converted at a time, on the stack */

typedef struct table {
    yki_column *columns;
    size_t count;
} table;

/* ---- numbers ---- */

size_t
yki_number_size(yki_number number)
{
    static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};

    return sizes[number];
}

yoke_type
yki_number_type(yki_number number)
{
    return number == YKI_NUMBER_U8 ? YOKE_U8 : number >= YKI_NUMBER_F16 ? YOKE_F32 : YOKE_I32;
}

static uint64_t
bits_of(const unsigned char *p, size_t size, bool big)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < size; i++)
        bits |= (uint64_t)p[i] << 8 * (big ? size - 1 - i : i);
    return bits;
}

static float
half_to_float(uint32_t half)
{
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexpf((float)(fraction | 1024), (int)exponent - 25)
                                 : ldexpf((float)fraction, -24);

    return half >> 15 ? -value : value;
}

static float
to_float(yki_number number, uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float single;
    double wide;

    if (number == YKI_NUMBER_F16)
        return half_to_float(low);
    if (number == YKI_NUMBER_F32) {
        memcpy(&single, &low, sizeof single);
        return single;
    }
    memcpy(&wide, &bits, sizeof wide);
    return (float)wide;
}

/* As a signed integer of 64 bits. One that does not fit becomes INT64_MAX, which is refused. */
static int64_t
to_integer(yki_number number, uint64_t bits)
{
    switch (number) {
    case YKI_NUMBER_I8:
        return (int8_t)bits;
    case YKI_NUMBER_I16:
        return (int16_t)bits;
    case YKI_NUMBER_I32:
        return (int32_t)bits;
    case YKI_NUMBER_I64:
        return (int64_t)bits;
    default:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    }
}

/* ---- reading ---- */

static const struct yki_column_part *
find_part(const yki_column *column, int64_t *index)
{
    size_t p = 0;

    while (p + 1 < column->part_count && *index >= column->parts[p].count)
        *index -= column->parts[p++].count;
    return &column->parts[p];
}

static bool
is_plain(const yki_column *column)
{
    const uint16_t one = 1;
    const bool host_big = *(const unsigned char *)&one == 0;

    return !column->channels_last && !column->limit &&
           (column->number == YKI_NUMBER_U8 ||
            ((column->number == YKI_NUMBER_I32 || column->number == YKI_NUMBER_F32) &&
             column->big_endian == host_big));
}

static yoke_status
check_value(const yki_column *column, const struct yki_column_part *part, int64_t sample,
            int64_t value)
{
    if (column->limit && (value < 0 || value >= column->limit))
        return yki_fail(YOKE_ERROR_VALUE,
                        "%s: sample %lld has the label %lld; must be at least 0 and below %lld, "
                        "the number of classes",
                        yki_bytes_name(part->bytes), (long long)sample, (long long)value,
                        (long long)column->limit);
    if (value < INT32_MIN || value > INT32_MAX)
        return yki_fail(YOKE_ERROR_VALUE,
                        "%s: a number of sample %lld is beyond 32 bits; must fit into an int32",
                        yki_bytes_name(part->bytes), (long long)sample);
    return YOKE_OK;
}

/* The index in the result of element `i` of a sample in the file. */
static size_t
place_of(const yki_column *column, size_t i)
{
    size_t channels, pixels;

    if (!column->channels_last)
        return i;
    channels = (size_t)column->shape.dim[0];
    pixels = (size_t)yki_shape_count(column->shape) / channels;
    return i % channels * pixels + i / channels;
}

/* Reads and converts one sample. */
static yoke_status
read_sample(const yki_column *column, const struct yki_column_part *part, int64_t sample, void *out)
{
    size_t size = yki_number_size(column->number), count = (size_t)yki_shape_count(column->shape);
    uint64_t at = part->offset + (uint64_t)sample * column->stride;
    yoke_type type = yki_number_type(column->number);
    unsigned char piece[PIECE];

    for (size_t done = 0; done < count;) {
        size_t n = YKI_MIN(count - done, PIECE / size);

        YKI_TRY(yki_bytes_read(part->bytes, at + done * size, n * size, piece));
        for (size_t i = 0; i < n; i++) {
            uint64_t bits = bits_of(piece + i * size, size, column->big_endian);
            size_t to = place_of(column, done + i);

            if (type == YOKE_F32) {
                ((float *)out)[to] = to_float(column->number, bits);
                continue;
            }
            YKI_TRY(check_value(column, part, sample, to_integer(column->number, bits)));
            if (type == YOKE_U8)
                ((uint8_t *)out)[to] = (uint8_t)bits;
            else
                ((int32_t *)out)[to] = (int32_t)to_integer(column->number, bits);
        }
        done += n;
    }
    return YOKE_OK;
}

yoke_status
yki_column_read_numbers(const yki_column *column, int64_t first, size_t count, int32_t *out)
{
    const size_t size = yki_number_size(column->number);
    unsigned char piece[PIECE];

    while (count) {
        int64_t index = first;
        const struct yki_column_part *part = find_part(column, &index);
        size_t n = YKI_MIN(count, PIECE / size);

        n = (size_t)YKI_MIN((int64_t)n, part->count - index);
        YKI_TRY(
            yki_bytes_read(part->bytes, part->offset + (uint64_t)index * size, n * size, piece));
        for (size_t i = 0; i < n; i++) {
            uint64_t bits = bits_of(piece + i * size, size, column->big_endian);

            YKI_TRY(
                check_value(column, part, index + (int64_t)i, to_integer(column->number, bits)));
            out[i] = (int32_t)to_integer(column->number, bits);
        }
        first += (int64_t)n;
        out += n;
        count -= n;
    }
    return YOKE_OK;
}

static yoke_status
table_read(void *self, size_t field, const int64_t *indices, size_t count, void *out)
{
    const yki_column *column = &((const table *)self)->columns[field];
    size_t size =
        (size_t)yki_shape_count(column->shape) * yki_type_size(yki_number_type(column->number));
    unsigned char *to = out;

    for (size_t i = 0, run; i < count; i += run, to += run * size) {
        int64_t index = indices[i];
        const struct yki_column_part *part = find_part(column, &index);

        run = 1;
        if (!is_plain(column)) {
            YKI_TRY(read_sample(column, part, index, to));
            continue;
        }
        while (column->stride == size && i + run < count &&
               indices[i + run] == indices[i] + (int64_t)run && index + (int64_t)run < part->count)
            run++;
        YKI_TRY(yki_bytes_read(part->bytes, part->offset + (uint64_t)index * column->stride,
                               run * size, to));
    }
    return YOKE_OK;
}

static void
table_destroy(void *self)
{
    table *t = self;

    for (size_t i = 0; i < t->count; i++)
        yki_column_clear(&t->columns[i]);
    yki_free(t->columns);
    yki_free(t);
}

static const yki_sample_source table_source = {table_read, table_destroy, 1, NULL, NULL};

/* ---- making ---- */

yoke_status
yki_column_add(yki_column *column, yki_bytes *bytes, uint64_t offset, int64_t count)
{
    struct yki_column_part *part = &column->parts[column->part_count];

    if (column->part_count == YKI_COUNT(column->parts))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s is a file too many for one field; must be at most %zu",
                        yki_bytes_name(bytes), YKI_COUNT(column->parts));
    part->bytes = yki_bytes_retain(bytes);
    part->offset = offset;
    part->count = count;
    column->part_count++;
    column->count += count;
    return YOKE_OK;
}

void
yki_column_clear(yki_column *column)
{
    for (size_t i = 0; i < column->part_count; i++)
        yki_bytes_release(column->parts[i].bytes);
    column->part_count = 0;
}

static yoke_status
check_counts(const yki_column *columns, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (columns[i].count != columns[0].count)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s has %lld samples, %s has %lld; must have the same number",
                            yki_bytes_name(columns[0].parts[0].bytes), (long long)columns[0].count,
                            yki_bytes_name(columns[i].parts[0].bytes), (long long)columns[i].count);
    return YOKE_OK;
}

yoke_status
yki_columns_make(yki_column *columns, const char *const *names, size_t count, yoke_dataset **out)
{
    table *t = yki_alloc(1, sizeof *t, "a dataset");
    yki_column *copies = yki_alloc(count, sizeof *copies, "a dataset");
    yoke_field fields[YKI_MAX_FIELDS] = {{0}};
    yoke_status status = t && copies ? check_counts(columns, count) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status != YOKE_OK) {
        yki_free(t);
        yki_free(copies);
        for (size_t i = 0; i < count; i++)
            yki_column_clear(&columns[i]);
        return status;
    }
    memcpy(copies, columns, count * sizeof *copies);
    t->columns = copies;
    t->count = count;
    for (size_t i = 0; i < count && i < YKI_MAX_FIELDS; i++) {
        fields[i].name = names[i];
        fields[i].type = yki_number_type(columns[i].number);
        fields[i].shape = columns[i].shape;
    }
    return yki_dataset_make(copies[0].count, fields, count, &table_source, t, out);
}
