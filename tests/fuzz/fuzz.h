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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "yoke.h"

typedef struct fuzz_target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
    const char *const *words; /* that mutations put in; ends with NULL */
} fuzz_target;

static inline void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s (%s)\n", what, yoke_last_error());
    abort();
}

/* Of bytes that are called "input". */
static inline void
check_refusal(yoke_status status)
{
    require(status == YOKE_ERROR_FORMAT || status == YOKE_ERROR_UNSUPPORTED,
            "refused with another status");
    require(strncmp(yoke_last_error(), "input", 5) == 0, "refused without naming the file");
}

#define FUZZ_TARGET(name, ...) int fuzz_##name(const uint8_t *data, size_t size);
#include "fuzz/targets.h"
#undef FUZZ_TARGET

#endif
