/* SPDX-License-Identifier: Apache-2.0
 *
 * state_place.c - reads and writes the state of an optimizer, which may be kept as bfloat16, as
 * floats. A bfloat16 is the upper half of a float: what was read is written with the same bits.
 */
#include <string.h>

#include "data/weights_file.h"
#include "replica/updater.h"

yki_state_place
yki_state_behind(yki_state_place place, uint64_t offset)
{
    place.start += yki_state_size(place, offset);
    return place;
}

uint64_t
yki_state_size(yki_state_place place, uint64_t size)
{
    return place.small ? size / 2 : size;
}

yoke_status
yki_state_get(yki_state_place place, uint64_t size, float *values)
{
    const char *halves = (const char *)values + size / 2;

    if (!place.small)
        return yki_buffer_get(place.buffer, place.start, size, values);
    /* They lie in the second half of the memory, which is written last. */
    YKI_TRY(yki_buffer_get(place.buffer, place.start, size / 2, (char *)values + size / 2));
    for (uint64_t i = 0; i < size / 4; i++) {
        uint16_t half;
        uint32_t bits;

        memcpy(&half, halves + 2 * i, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&values[i], &bits, sizeof bits);
    }
    return YOKE_OK;
}

yoke_status
yki_state_put(yki_state_place place, uint64_t size, const float *values)
{
    uint16_t *halves;
    yoke_status status;

    if (!place.small)
        return yki_buffer_put(place.buffer, place.start, size, values);
    halves = yki_alloc((size_t)size / 4, sizeof *halves, "optimizer state");
    if (!halves)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < size / 4; i++)
        halves[i] = yki_to_bf16(values[i]);
    status = yki_buffer_put(place.buffer, place.start, size / 2, halves);
    yki_free(halves);
    return status;
}
