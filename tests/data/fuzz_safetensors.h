/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_safetensors.h - one input for the reader of safetensors files.
 */
#ifndef YOKE_TESTS_FUZZ_SAFETENSORS_H
#define YOKE_TESTS_FUZZ_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

/* As libFuzzer calls it; a mistake aborts. */
int fuzz_safetensors(const uint8_t *data, size_t size);

#endif
