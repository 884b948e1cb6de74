/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_selector.h - what check_selector.c uses of fuzz_selector.c.
 */
#ifndef YOKE_TESTS_FUZZ_SELECTOR_H
#define YOKE_TESTS_FUZZ_SELECTOR_H

#include "device/internal.h"

/* The name that libFuzzer looks for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes one part in canonical form, sizes in bytes; its length. */
size_t fuzz_write_part(const yki_selector_item *part, char *out, size_t size);

#endif
