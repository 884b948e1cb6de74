/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h - what can be fuzzed: a name, a function that takes one input as libFuzzer
 * gives it, a folder of seeds. A new one is a line in targets.h, an input or two in
 * tests/fuzz/seeds/NAME, and its function, which aborts when something does not hold;
 * parsers.c makes that of each format of YKI_COLUMN_FORMATS.
 *
 * check_fuzz.c drives all of them with seeds and random changes to them, with any
 * compiler; libfuzzer.sh builds one for libFuzzer.
 */
#ifndef YOKE_TESTS_FUZZ_H
#define YOKE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
    const char *const *words; /* that mutations put in; ends with NULL */
} fuzz_target;

#define FUZZ_TARGET(name, ...) int fuzz_##name(const uint8_t *data, size_t size);
#include "fuzz/targets.h"
#undef FUZZ_TARGET

#endif
