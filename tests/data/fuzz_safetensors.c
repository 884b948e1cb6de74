/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_safetensors.c - one input for the reader of safetensors files.
 *
 * What holds for every input: a refusal has a sentence that names the file; in what
 * is accepted all tensors lie side by side within the data, can be found by name,
 * and are read or refused with a sentence.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"

static void
check_tensor(const yki_safetensors *file, const yki_tensor *tensor, size_t size)
{
    uint64_t bits = tensor->count * yki_dtype_bits(tensor->dtype);
    yoke_status status;
    void *out;

    require(tensor->size == bits / 8 && tensor->size <= size, "a tensor's size");
    require(tensor->begin <= size - tensor->size, "a tensor outside");
    require(yki_safetensors_find(file, tensor->name) == tensor, "a tensor is not found");
    /* A byte becomes a float at most. */
    out = malloc((size_t)tensor->size * 4 + 1);
    if (!out)
        return;
    status = yki_safetensors_read(file, tensor, out);
    require(status == YOKE_OK || status == YOKE_ERROR_FORMAT, "reading bytes");
    status = yki_safetensors_read_f32(file, tensor, out);
    require(status == YOKE_OK || status == YOKE_ERROR_FORMAT || status == YOKE_ERROR_VALUE ||
                status == YOKE_ERROR_TYPE,
            "reading floats");
    free(out);
}

int
fuzz_safetensors(const uint8_t *data, size_t size)
{
    yki_safetensors *file = NULL;
    yoke_status status = yki_safetensors_open_memory(data, size, "input", &file);

    if (status != YOKE_OK) {
        require(status == YOKE_ERROR_FORMAT, "refused with another status");
        require(strstr(yoke_last_error(), "input") != NULL, "refused without a reason");
        return 0;
    }
    for (size_t i = 0; i < file->count; i++)
        check_tensor(file, &file->tensors[i], size);
    yki_safetensors_close(file);
    return 0;
}
