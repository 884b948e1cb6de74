/* SPDX-License-Identifier: Apache-2.0
 *
 * npy.c - NumPy's .npy: a magic number, a version, the length of a header, the header, and the
 * numbers. The header is a Python dictionary of exactly three entries ('descr', 'fortran_order',
 * 'shape'). The first axis counts the samples.
 *
 * Reads little-endian numbers of up to 8 bytes in C order. Refuses big-endian numbers, structs,
 * text, objects (pickles, which are programs), and several axes in Fortran order.
 */
#include <stdlib.h>
#include <string.h>

#include "data/files.h"

enum { MAGIC = 6, MOST_HEADER = 4096 };

typedef struct reader {
    const char *p, *end;
    const char *name;
} reader;

static bool
is_npy(const unsigned char *head, size_t size)
{
    return size >= MAGIC && memcmp(head, "\x93NUMPY", MAGIC) == 0;
}

static void
skip_spaces(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n'))
        r->p++;
}

static bool
take(reader *r, const char *token)
{
    size_t length = strlen(token);

    skip_spaces(r);
    if ((size_t)(r->end - r->p) < length || memcmp(r->p, token, length) != 0)
        return false;
    r->p += length;
    return true;
}

static yoke_status
bad_header(const reader *r, const char *expected)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: its header is not NumPy's; must have %s here", r->name,
                    expected);
}

/* 'text' or "text", at most size - 1 characters. */
static yoke_status
take_text(reader *r, char *text, size_t size)
{
    size_t length = 0;
    char quote;

    skip_spaces(r);
    if (r->p == r->end || (*r->p != '\'' && *r->p != '"'))
        return bad_header(r, "a quoted text");
    quote = *r->p++;
    while (r->p < r->end && *r->p != quote && length + 1 < size)
        text[length++] = *r->p++;
    text[length] = '\0';
    if (r->p == r->end || *r->p != quote)
        return bad_header(r, "a short quoted text");
    r->p++;
    return YOKE_OK;
}

static yoke_status
take_number(reader *r, uint64_t *value)
{
    uint64_t n = 0;

    skip_spaces(r);
    if (r->p == r->end || *r->p < '0' || *r->p > '9')
        return bad_header(r, "the size of an axis");
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
        if (n > INT64_MAX / 10 - 1)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: its sizes make more than any file holds; get the whole file",
                            r->name);
        n = n * 10 + (uint64_t)(*r->p++ - '0');
    }
    *value = n;
    return YOKE_OK;
}

static yoke_status
take_descr(reader *r, yki_number *number)
{
    static const struct {
        const char *text;
        yki_number number;
    } known[] = {{"|u1", YKI_NUMBER_U8},  {"|b1", YKI_NUMBER_U8},  {"|i1", YKI_NUMBER_I8},
                 {"<u2", YKI_NUMBER_U16}, {"<i2", YKI_NUMBER_I16}, {"<u4", YKI_NUMBER_U32},
                 {"<i4", YKI_NUMBER_I32}, {"<u8", YKI_NUMBER_U64}, {"<i8", YKI_NUMBER_I64},
                 {"<f2", YKI_NUMBER_F16}, {"<f4", YKI_NUMBER_F32}, {"<f8", YKI_NUMBER_F64}};
    char text[16];

    skip_spaces(r);
    if (r->p < r->end && *r->p == '[')
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s is an array of structs; must be one of plain numbers", r->name);
    YKI_TRY(take_text(r, text, sizeof text));
    for (size_t i = 0; i < YKI_COUNT(known); i++)
        if (strcmp(text, known[i].text) == 0 || /* a single byte has no byte order */
            (known[i].text[0] == '|' && strcmp(text + (text[0] != '\0'), known[i].text + 1) == 0)) {
            *number = known[i].number;
            return YOKE_OK;
        }
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "%s is an array of type %s%s; must be little-endian numbers of up to 8 bytes",
                    r->name, text,
                    text[0] && text[1] == 'O' ? ", Python objects"
                    : text[0] == '>'          ? ", big-endian"
                                              : "");
}

static yoke_status
take_bool(reader *r, bool *value)
{
    if (take(r, "True"))
        *value = true;
    else if (take(r, "False"))
        *value = false;
    else
        return bad_header(r, "True or False");
    return YOKE_OK;
}

static yoke_status
take_shape(reader *r, uint64_t *sizes, size_t *rank)
{
    *rank = 0;
    if (!take(r, "("))
        return bad_header(r, "a shape");
    while (!take(r, ")")) {
        if (*rank > YOKE_MAX_RANK)
            return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s has too many axes; must have at most %d",
                            r->name, YOKE_MAX_RANK + 1);
        YKI_TRY(take_number(r, &sizes[(*rank)++]));
        if (!take(r, ",")) {
            if (!take(r, ")"))
                return bad_header(r, "\")\" after a shape");
            break;
        }
    }
    return YOKE_OK;
}

typedef struct header {
    yki_number number;
    bool fortran;
    uint64_t sizes[YOKE_MAX_RANK + 1];
    size_t rank;
} header;

static yoke_status
take_header(reader *r, header *h)
{
    unsigned seen = 0;

    if (!take(r, "{"))
        return bad_header(r, "\"{\"");
    while (!take(r, "}")) {
        char key[16];
        unsigned bit;

        YKI_TRY(take_text(r, key, sizeof key));
        if (!take(r, ":"))
            return bad_header(r, "\":\"");
        bit = strcmp(key, "descr") == 0           ? 1
              : strcmp(key, "fortran_order") == 0 ? 2
              : strcmp(key, "shape") == 0         ? 4
                                                  : 0;
        if (!bit || (seen & bit))
            return bad_header(r, "descr, fortran_order and shape, once each");
        seen |= bit;
        YKI_TRY(bit == 1   ? take_descr(r, &h->number)
                : bit == 2 ? take_bool(r, &h->fortran)
                           : take_shape(r, h->sizes, &h->rank));
        if (!take(r, ",")) {
            if (!take(r, "}"))
                return bad_header(r, "\"}\"");
            break;
        }
    }
    return seen == 7 ? YOKE_OK : bad_header(r, "descr, fortran_order and shape, once each");
}

/* yoke's images are (C, H, W). NumPy's are often (H, W, C), and nothing in the file says so. */
static void
warn_of_channels(const char *name, const yoke_shape *s)
{
    const int64_t *dim = s->dim;
    const bool last = dim[2] == 1 || dim[2] == 3 || dim[2] == 4;

    if (s->rank == 3 && last && dim[0] > 4 && dim[1] > 4)
        yki_log(YOKE_LOG_WARNING,
                "%s: its samples of (%lld, %lld, %lld) are taken for images of %lld channels; if "
                "they are (height, width, channels), open them with channels_last (yoke: "
                "--channels-last)",
                name, (long long)dim[0], (long long)dim[1], (long long)dim[2], (long long)dim[0]);
}

/* Computes the shape of a sample and the size of all samples. */
static yoke_status
measure(const char *name, const header *h, bool channels_last, yki_column *made, uint64_t *total)
{
    uint64_t bytes = yki_number_size(h->number);

    if (h->rank == 0)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s is a single number; must have a first axis that counts "
                        "samples",
                        name);
    if (h->fortran && h->rank > 1)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s is in Fortran order; save "
                        "numpy.ascontiguousarray of it",
                        name);
    for (size_t i = 1; i < h->rank; i++) {
        if (h->sizes[i] == 0 || h->sizes[i] > INT32_MAX)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: axis %zu has size %llu; must be between 1 and 2147483647", name, i,
                            (unsigned long long)h->sizes[i]);
        if (bytes > (UINT64_MAX >> 1) / h->sizes[i])
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: its sizes make more than any file holds; get the whole file",
                            name);
        bytes *= h->sizes[i];
        made->shape.dim[made->shape.rank++] = (int64_t)h->sizes[i];
    }
    if (h->sizes[0] && bytes > (UINT64_MAX >> 1) / h->sizes[0])
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: its sizes make more than any file holds; get the whole file", name);
    if (!channels_last)
        warn_of_channels(name, &made->shape);
    if (channels_last && made->shape.rank == 3) {
        made->shape = yoke_shape(made->shape.dim[2], made->shape.dim[0], made->shape.dim[1]);
        made->channels_last = made->shape.dim[0] > 1;
    }
    made->number = h->number;
    made->stride = bytes;
    *total = bytes * h->sizes[0];
    return YOKE_OK;
}

static yoke_status
parse(yki_bytes *bytes, const yoke_dataset_open_options *options, yki_column *column)
{
    const char *name = yki_bytes_name(bytes);
    char head[MOST_HEADER];
    const unsigned char *u = (const unsigned char *)head;
    yki_column made = {0};
    header h = {0};
    size_t got, start, length;
    uint64_t total = 0;
    reader r;

    YKI_TRY(yki_bytes_peek(bytes, head, sizeof head, &got));
    if (!is_npy(u, got) || got < 12)
        return yki_fail(YOKE_ERROR_FORMAT, "%s is no .npy file; must be one that numpy.save wrote",
                        name);
    if (u[6] < 1 || u[6] > 3)
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s is of version %d of the format; must be 1 to 3",
                        name, u[6]);
    start = u[6] == 1 ? 10 : 12;
    length = u[8] | (size_t)u[9] << 8;
    if (u[6] > 1)
        length |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (length > got - YKI_MIN(start, got))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: a header of %zu bytes: the file ends before, or it "
                        "is not of numbers",
                        name, length);
    r = (reader){head + start, head + start + length, name};
    YKI_TRY(take_header(&r, &h));
    YKI_TRY(measure(name, &h, options->channels_last, &made, &total));
    if (total > (UINT64_MAX >> 1) - start - length)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: its sizes make more than any file holds; get the whole file", name);
    YKI_TRY(yki_bytes_expect(bytes, start + length + total));
    YKI_TRY(yki_column_add(&made, bytes, start + length, (int64_t)h.sizes[0]));
    *column = made;
    return YOKE_OK;
}

const yki_column_format yki_format_npy = {
    .name = ".npy",
    .endings = {".npy"},
    .is = is_npy,
    .parse = parse,
};
