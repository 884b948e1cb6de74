/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_encoding.c - one input for the reader of an encoding of a table's columns.
 *
 * What holds for every input: a refusal has a sentence that names the file; what is accepted gives
 * numbers inside its sample, and is written and read as the same.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "data/encoding.h"

static void
check_columns(const yki_encoding *e)
{
    float *sample = malloc(e->width * sizeof *sample);

    require(sample != NULL, "out of memory");
    for (size_t i = 0; i < e->count; i++) {
        require(e->columns[i].first + e->columns[i].width <= e->width, "outside of the sample");
        (void)yki_encoding_apply(&e->columns[i], "1", 1, sample);
        (void)yki_encoding_apply(&e->columns[i], "", 0, sample);
    }
    free(sample);
}

int
fuzz_encoding(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *written, *again;
    yki_encoding *e, *other;
    yoke_status status;

    require(text != NULL, "out of memory");
    memcpy(text, data, size);
    text[size] = '\0';
    status = yki_encoding_read(text, "input", &e);
    free(text);
    if (status != YOKE_OK) {
        require(status == YOKE_ERROR_FORMAT, "refused with another status");
        require(*yoke_last_error() != '\0', "refused without a sentence");
        return 0;
    }
    check_columns(e);
    require(yki_encoding_write(e, &written) == YOKE_OK, "it cannot be written");
    require(yki_encoding_read(written, "input", &other) == YOKE_OK, "it cannot be read again");
    require(yki_encoding_write(other, &again) == YOKE_OK, "it cannot be written again");
    require(strcmp(written, again) == 0, "it is another one when it is read again");
    yki_free(written);
    yki_free(again);
    yki_encoding_destroy(e);
    yki_encoding_destroy(other);
    return 0;
}
