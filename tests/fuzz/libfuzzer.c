/* SPDX-License-Identifier: Apache-2.0
 *
 * libfuzzer.c - one target as libFuzzer wants it; libfuzzer.sh compiles it with
 * -DTARGET=fuzz_idx or another.
 */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return TARGET(data, size);
}
