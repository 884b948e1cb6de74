/* SPDX-License-Identifier: Apache-2.0
 *
 * check_fuzz.c - the fuzz targets without a fuzzer: every seed as it is, and then
 * YOKE_FUZZ_RUNS inputs (default 4000) made of them by random changes, which are a
 * function of YOKE_FUZZ_SEED (default 1) and of the number of the run.
 *
 * The input of the moment is in a file that is mapped into memory, tests/fuzz/NAME.input
 * in the build folder: when a target crashes it is still there, as it was.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "fuzz/fuzz.h"
#include "support/support.h"

enum { MOST_SEEDS = 64, MOST_BYTES = 1 << 15, MOST_CHANGES = 6, DEFAULT_RUNS = 4000 };

#define FUZZ_TARGET(name, ...) static const char *const words_##name[] = {__VA_ARGS__, NULL};
#include "fuzz/targets.h"
#undef FUZZ_TARGET

static const fuzz_target targets[] = {
#define FUZZ_TARGET(name, ...) {#name, fuzz_##name, words_##name},
#include "fuzz/targets.h"
#undef FUZZ_TARGET
};

typedef struct seed {
    uint8_t *data;
    size_t size;
} seed;

static seed seeds[MOST_SEEDS];
static size_t seed_count;

static void
read_seed(const char *path)
{
    FILE *file = fopen(path, "rb");
    seed *s = &seeds[seed_count];

    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_lt(seed_count, MOST_SEEDS);
    s->data = malloc(MOST_BYTES);
    ck_assert_ptr_nonnull(s->data);
    s->size = fread(s->data, 1, MOST_BYTES, file);
    fclose(file);
    seed_count++;
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void
read_seeds(const char *name)
{
    const char *source = getenv("YOKE_SRCDIR");
    struct dirent **entries;
    char folder[2048], path[4096];
    int count;

    snprintf(folder, sizeof folder, "%s/tests/fuzz/seeds/%s", source ? source : "..", name);
    count = scandir(folder, &entries, NULL, by_name);
    ck_assert_msg(count > 0, "%s has no seeds", folder);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            read_seed(path);
        free(entries[i]);
    }
    free(entries);
    ck_assert_uint_gt(seed_count, 0);
}

/* ---- the input of the moment: its size, then its bytes ---- */

typedef struct input {
    uint64_t size;
    uint8_t data[MOST_BYTES];
} input;

static input *
map_input(const char *name, char *path, size_t size)
{
    const char *build = getenv("YOKE_BUILDDIR");
    input *in;
    int file;

    snprintf(path, size, "%s/tests/fuzz", build ? build : ".");
    mkdir(path, 0777);
    snprintf(path, size, "%s/tests/fuzz/%s.input", build ? build : ".", name);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    ck_assert_msg(file >= 0 && ftruncate(file, sizeof *in) == 0, "%s", path);
    in = mmap(NULL, sizeof *in, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(in, MAP_FAILED);
    close(file);
    return in;
}

/* In memory of exactly its size, so that reading beyond it is noticed. */
static void
run(const fuzz_target *target, const input *in)
{
    uint8_t *copy = malloc(in->size ? in->size : 1);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, in->data, in->size);
    target->run(copy, in->size);
    free(copy);
}

/* ---- changes ---- */

typedef struct dice {
    uint32_t key[2], counter[4], word[4];
    unsigned used;
} dice;

static uint32_t
roll(dice *d, uint32_t below)
{
    if (d->used == 0) {
        yki_philox(d->key, d->counter, d->word);
        d->counter[0]++;
    }
    d->used = (d->used + 1) % 4;
    return below ? d->word[(d->used + 3) % 4] % below : 0;
}

/* Replaces `gone` bytes at `at` by `size` others. */
static void
exchange(input *in, size_t at, size_t gone, const void *data, size_t size)
{
    size_t rest;

    at = YKI_MIN(at, in->size);
    gone = YKI_MIN(gone, in->size - at);
    rest = in->size - at - gone;
    if (at + size + rest > MOST_BYTES)
        return;
    memmove(in->data + at + size, in->data + at + gone, rest);
    if (size)
        memcpy(in->data + at, data, size);
    in->size = at + size + rest;
}

static void
put_number(input *in, dice *d, size_t at)
{
    static const uint64_t values[] = {0,          1,          2,          127,        128,
                                      255,        256,        32767,      65535,      65536,
                                      INT32_MAX,  1ull << 31, UINT32_MAX, 1ull << 32, INT64_MAX,
                                      1ull << 63, UINT64_MAX};
    uint64_t value = values[roll(d, YKI_COUNT(values))];
    size_t size = (size_t)1 << roll(d, 4);
    bool big = roll(d, 2);
    uint8_t bytes[8];
    char text[24];

    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> 8 * (big ? size - 1 - i : i));
    if (roll(d, 3) == 0) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        exchange(in, at, roll(d, 2) ? strlen(text) : 0, text, strlen(text));
    } else {
        exchange(in, at, size, bytes, size);
    }
}

static void
change(input *in, dice *d, const fuzz_target *target)
{
    size_t at = roll(d, (uint32_t)in->size + 1), length = 1 + roll(d, roll(d, 8) ? 8 : 256), words;
    const seed *other = &seeds[roll(d, (uint32_t)seed_count)];
    uint8_t byte = (uint8_t)roll(d, 256);

    /* Where a format says most: at its start. */
    if (roll(d, 3) == 0)
        at = roll(d, (uint32_t)YKI_MIN(in->size + 1, (uint64_t)64));
    switch (roll(d, 8)) {
    case 0:
        if (at < in->size)
            in->data[at] ^= (uint8_t)(1u << roll(d, 8));
        break;
    case 1:
        exchange(in, at, 1, &byte, 1);
        break;
    case 2:
        exchange(in, at, length, NULL, 0);
        break;
    case 3:
        exchange(in, at, 0, &byte, 1);
        break;
    case 4:
        put_number(in, d, at);
        break;
    case 5: /* a piece of another seed, there or from there on */
        if (other->size) {
            size_t from = roll(d, (uint32_t)other->size);

            length = roll(d, 4) ? YKI_MIN(length, other->size - from) : other->size - from;
            exchange(in, at, roll(d, 2) ? length : in->size, other->data + from, length);
        }
        break;
    case 6:
        for (words = 0; target->words[words];)
            words++;
        words = roll(d, (uint32_t)words);
        exchange(in, at, roll(d, 2) ? length : 0, target->words[words],
                 strlen(target->words[words]));
        break;
    default:
        if (roll(d, 4) == 0)
            in->size = at;
        break;
    }
}

static uint64_t
setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

START_TEST(fuzz)
{
    const fuzz_target *target = &targets[_i];
    const uint64_t runs = setting("YOKE_FUZZ_RUNS", DEFAULT_RUNS);
    const uint32_t key = (uint32_t)setting("YOKE_FUZZ_SEED", 1);
    char path[4096];
    input *in = map_input(target->name, path, sizeof path);

    read_seeds(target->name);
    for (uint64_t i = 0; i < seed_count + runs; i++) {
        const seed *s = &seeds[i % seed_count];
        dice d = {.key = {key, (uint32_t)_i}, .counter = {0, (uint32_t)i, (uint32_t)(i >> 32), 0}};

        in->size = s->size;
        memcpy(in->data, s->data, s->size);
        for (uint32_t k = i < seed_count ? 0 : 1 + roll(&d, MOST_CHANGES); k > 0; k--)
            change(in, &d, target);
        run(target, in);
    }
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].data);
    munmap(in, sizeof *in);
    unlink(path);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("fuzz");
    TCase *c = test_case(suite, "targets");

    tcase_add_loop_test(c, fuzz, 0, (int)YKI_COUNT(targets));
    return suite;
}
