/* SPDX-License-Identifier: Apache-2.0
 *
 * parsers.c - one input for each reader of files of samples.
 *
 * What holds for every input: a refusal has a status of its kind and a sentence that
 * names the file; what is accepted has samples that can all be read, or are refused
 * with a sentence; and no piece of memory that was asked for is larger than twice
 * what the input holds, or, compressed, can hold.
 */
#include <stdlib.h>

#include "data/files.h"
#include "fuzz/fuzz.h"

enum {
    SMALL = 1 << 17,     /* bytes that need no reason */
    MOST_READ = 1 << 20, /* bytes of samples that are looked at */
    DEFLATE = 1032
};

static yki_bytes *
start(const uint8_t *data, size_t size)
{
    yki_bytes *bytes = NULL;

    yki_alloc_largest();
    require(yki_bytes_of_memory(data, size, "input", &bytes) == YOKE_OK, "no memory");
    return bytes;
}

static void
read_field(const yoke_dataset *dataset, size_t field)
{
    size_t size = yki_field_size(yoke_dataset_get_field(dataset, field));
    unsigned char *out = malloc(size);
    yoke_status status;

    for (int64_t i = 0; out && i < dataset->count && (size_t)i * size < MOST_READ; i++) {
        status = yki_dataset_read(dataset, field, &i, 1, out);
        require(status == YOKE_OK || status == YOKE_ERROR_VALUE, "a sample cannot be read");
    }
    free(out);
}

/* Takes the dataset and the bytes. */
static void
finish(yki_bytes *bytes, yoke_status status, yoke_dataset *dataset)
{
    uint64_t size = yki_bytes_stored_size(bytes), largest;

    if (yki_bytes_compressed(bytes))
        size *= DEFLATE;
    if (status == YOKE_OK)
        for (size_t f = 0; f < dataset->field_count; f++)
            read_field(dataset, f);
    else
        check_refusal(status);
    largest = yki_alloc_largest();
    require(largest <= 2 * size + SMALL, "more memory was asked for than the input can need");
    yoke_dataset_destroy(dataset);
    yki_bytes_release(bytes);
}

static yoke_status
make(yki_column *columns, size_t count, yoke_dataset **dataset)
{
    static const char *const names[] = {"image", "label"};

    return yki_columns_make(columns, names, count, dataset);
}

static int
fuzz_column(const yki_column_format *format, const uint8_t *data, size_t size)
{
    /* What is asked for changes with the input, so that all of it is met. */
    const yoke_dataset_open_options options = {.channels_last = size % 2};
    yki_bytes *bytes = start(data, size);
    yoke_dataset *dataset = NULL;
    yki_column column = {0};
    yoke_status status = format->parse(bytes, &options, &column);

    /* A sample of more elements than any tensor has: refused by the dataset, not by the file. */
    if (status == YOKE_OK && make(&column, 1, &dataset) != YOKE_OK) {
        yki_bytes_release(bytes);
        return 0;
    }
    finish(bytes, status, dataset);
    return 0;
}

#define FUZZ_COLUMN(name)                                                                          \
    int fuzz_##name(const uint8_t *data, size_t size)                                              \
    {                                                                                              \
        return fuzz_column(&yki_format_##name, data, size);                                        \
    }
YKI_COLUMN_FORMATS(FUZZ_COLUMN)

int
fuzz_cifar(const uint8_t *data, size_t size)
{
    yki_bytes *bytes = start(data, size);
    yoke_dataset *dataset = NULL;
    yki_column columns[2] = {{0}};
    yoke_status status = yki_cifar_parse(&bytes, 1, &columns[0], &columns[1]);

    if (status == YOKE_OK) {
        int classes = size % 3074 ? 10 : 100; /* a record of CIFAR-100 has 3074 bytes */

        require(make(columns, 2, &dataset) == YOKE_OK, "no dataset");
        for (int64_t i = 0; i < dataset->count; i++) {
            uint8_t label;

            require(yki_dataset_read(dataset, 1, &i, 1, &label) == YOKE_OK && label < classes,
                    "a label");
        }
    }
    finish(bytes, status, dataset);
    return 0;
}

int
fuzz_csv(const uint8_t *data, size_t size)
{
    static const char *const known[] = {"pear", "apple"};
    /* What is asked for changes with the input, so that all of it is met. */
    const yki_csv_options options = {
        .label = size % 7 == 1   ? "2"
                 : size % 7 == 2 ? "label"
                                 : NULL,
        .targets = size % 7 == 3 ? "1,price" : NULL,
        .no_label = size % 7 == 4,
        .known = known,
        .known_count = size % 7 == 5 ? 2 : 0,
    };
    yki_bytes *bytes = start(data, size);
    yoke_dataset *dataset = NULL;
    yoke_status status = yki_csv_read(bytes, &options, &dataset);

    if (status == YOKE_ERROR_NOT_FOUND || status == YOKE_ERROR_INVALID_ARGUMENT)
        status = yki_fail(YOKE_ERROR_FORMAT, "input: a column that is not there, or twice");
    finish(bytes, status, dataset);
    return 0;
}
