/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h - what can be fuzzed: a name, a function that takes one input as libFuzzer
 * gives it, a folder of seeds. A new one is a line in targets.h, an input or two in
 * tests/fuzz/seeds/NAME, and its function, which aborts when something does not hold.
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

int fuzz_idx(const uint8_t *data, size_t size);
int fuzz_npy(const uint8_t *data, size_t size);
int fuzz_cifar(const uint8_t *data, size_t size);
int fuzz_csv(const uint8_t *data, size_t size);

#endif
