/* SPDX-License-Identifier: Apache-2.0
 *
 * check_selector.c - the selector parser: what it accepts and what that means, what
 * it refuses and how it says so, and random texts. No OpenCL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/fuzz_selector.h"
#include "support/support.h"

/* A selector and its canonical form. */
static const struct {
    const char *text, *means;
} good[] = {
    {"all", "all"},
    {"gpu", "gpu"},
    {"cpu", "cpu"},
    {"acc", "acc"},
    {"gpu:1", "gpu:1"},
    {"cpu:00", "cpu:0"},
    {"acc:4294967295", "acc:4294967295"},
    {"cpu:0/2", "cpu:0/2"},
    {"cpu:0/02", "cpu:0/2"},
    {"cpu:0/1", "cpu:0/1"},
    {"gpu/4", "gpu/4"},
    {"all/2.1", "all/2.1"},
    {"cpu:0/1024", "cpu:0/1024"},
    {"cpu:0/1+3", "cpu:0/1+3"},
    {"cpu:0/01+003.1", "cpu:0/1+3.1"},
    {"cpu:0/1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1.15", "cpu:0/1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1.15"},
    {"cpu:0/numa", "cpu:0/numa"},
    {"cpu:0/numa.3@1KiB", "cpu:0/numa.3@1024B"},
    {"cpu:0@512MiB", "cpu:0@536870912B"},
    {"cpu:0@512M,gpu:0@1.5K", "cpu:0@536870912B,gpu:0@1536B"},
    {"gpu:0@3G,gpu:1@2T", "gpu:0@3221225472B,gpu:1@2199023255552B"},
    {"gpu:0/4@1GiB", "gpu:0/4@1073741824B"},
    {"gpu:0@1.5GB", "gpu:0@1500000000B"},
    {"gpu:0@0.5KiB", "gpu:0@512B"},
    {"gpu:0@1.B", "gpu:0@1B"},
    {"gpu:0@3TB", "gpu:0@3000000000000B"},
    {"gpu:0@2TiB", "gpu:0@2199023255552B"},
    {"gpu:0@7KB,gpu:1@7MB", "gpu:0@7000B,gpu:1@7000000B"},
    {"gpu:0@18446744073709551615B", "gpu:0@18446744073709551615B"},
    {"name~llvmpipe", "name~llvmpipe"},
    {"name~llvmpipe (LLVM 15.0.6, 256 bits)", NULL}, /* the comma ends it */
    {"name~GeForce RTX/2@1MiB", "name~GeForce RTX/2@1048576B"},
    {"name~a:b.c+d~e", "name~a:b.c+d~e"},
    {"cpu:0,gpu:0,name~x", "cpu:0,gpu:0,name~x"},
    {" cpu:0 ,\tgpu:0/2 ", "cpu:0,gpu:0/2"},
    {"name~x ,cpu", "name~x,cpu"},
};

START_TEST(good_selectors_mean_what_they_say)
{
    char means[256];
    yki_selector selector;
    size_t length = 0;

    if (!good[_i].means) {
        ASSERT_STATUS(YOKE_ERROR_SELECTOR, yki_selector_parse(good[_i].text, &selector));
        return;
    }
    ASSERT_OK(yki_selector_parse(good[_i].text, &selector));
    for (size_t i = 0; i < selector.count; i++) {
        if (i)
            means[length++] = ',';
        length += fuzz_write_part(&selector.parts[i], means + length, sizeof means - length);
    }
    ck_assert_str_eq(means, good[_i].means);
    yki_selector_free(&selector);
}
END_TEST

/* A selector and what the error says of it. */
static const struct {
    const char *text, *token, *reason;
} bad[] = {
    {"", "\"\" is empty", "expected all, gpu, cpu, acc or name~"},
    {" \t", "is empty", "expected all"},
    {"gpux", "selector \"gpux\": expected ", "expected all, gpu, cpu, acc or name~"},
    {"GPU", "selector \"GPU\": expected ", "expected all"},
    {"cpu:0,", "at the end", "expected all"},
    {",cpu:0", "\",\" at character 1", "expected all"},
    {"cpu:0,,gpu", "\",\" at character 7", "expected all"},
    {"all:1", "\":\" at character 4", "expected /split"},
    {"gpu:", "at the end", "expected a device's number"},
    {"gpu:x", "\"x\" at character 5", "expected a device's number"},
    {"gpu:-1", "\"-1\" at character 5", "expected a device's number"},
    {"gpu:1x", "\"1x\" at character 5", "expected a device's number"},
    {"gpu:4294967296", "\"4294967296\" at character 5", "too large"},
    {"gpu:99999999999999999999999999999", "at character 5", "too large"},
    {"cpu:0/", "at the end", "expected a number of parts"},
    {"cpu:0/x", "\"x\" at character 7", "expected a number of parts"},
    {"cpu:0/numad", "\"numad\" at character 7", "expected a number of parts"},
    {"cpu:0/0", "\"0\" at character 7", "cannot be zero"},
    {"cpu:0/1+0", "\"0\" at character 9", "cannot be zero"},
    {"cpu:0/1+", "at the end", "expected a number of parts"},
    {"cpu:0/1025", "\"1025\" at character 7", "more than 1024 parts"},
    {"cpu:0/1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1", "at character 39", "more than 16 counts"},
    {"cpu:0/1000000000+1000000000+1000000000+1000000000", "at character 7", "too long"},
    {"cpu:0/2.", "at the end", "expected the number of one part"},
    {"cpu:0/2.x", "\"x\" at character 9", "expected the number of one part"},
    {"cpu:0/2.1.1", "\".\" at character 10", "expected @size"},
    {"cpu:0.1", "\".\" at character 6", "expected /split"},
    {"cpu:0/2/2", "\"/\" at character 8", "expected +N, .N, @size"},
    {"cpu:0@", "at the end", "expected a size like"},
    {"cpu:0@MiB", "\"MiB\" at character 7", "expected a size like"},
    {"cpu:0@512", "\"512\" at character 7", "expected a size like"},
    {"cpu:0@512mib", "\"512mib\" at character 7", "expected a size like"},
    {"cpu:0@512MiBs", "\"512MiBs\" at character 7", "expected a size like"},
    {"cpu:0@-1B", "\"-1B\" at character 7", "expected a size like"},
    {"cpu:0@1.0000000001GiB", "\"1.0000000001GiB\" at character 7", "expected a size like"},
    {"cpu:0@0MiB", "\"0MiB\" at character 7", "cannot be zero"},
    {"cpu:0@0.1B", "\"0.1B\" at character 7", "cannot be zero"},
    {"cpu:0@99999999999TiB", "at character 7", "too large"},
    {"cpu:0@99999999999999999999999B", "at character 7", "too large"},
    {"cpu:0@18446744073709551616B", "at character 7", "too large"},
    {"cpu:0@1MiB/2", "\"/\" at character 11", "expected a comma or the end"},
    {"cpu:0 gpu:0", "\"gpu\" at character 7", "expected /split"},
    {"name~", "at the end", "expected a part of a device's name"},
    {"name~/2", "\"/\" at character 6", "expected a part of a device's name"},
    {"name~  ,cpu", "\",\" at character 8", "expected a part of a device's name"},
    {"name", "selector \"name\": expected ", "expected all"},
    {"cpu:0\n", "\"0\n\" at character 5", "expected a device's number"},
};

START_TEST(bad_selectors_name_the_token_and_its_place)
{
    yki_selector selector = {.count = 77};

    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yki_selector_parse(bad[_i].text, &selector));
    ASSERT_DETAIL(bad[_i].token);
    ASSERT_DETAIL(bad[_i].reason);
    ck_assert_uint_eq(selector.count, 77); /* outputs only on success */
}
END_TEST

START_TEST(a_long_selector_is_read_and_quoted_in_part)
{
    enum { ITEMS = 5000 };
    char *text = malloc(ITEMS * 6 + 2);
    yki_selector selector;

    for (int i = 0; i < ITEMS; i++)
        memcpy(text + i * 6, "cpu:0,", 6);
    text[ITEMS * 6] = 'x';
    text[ITEMS * 6 + 1] = '\0';
    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yki_selector_parse(text, &selector));
    ASSERT_DETAIL("\"x\" at character 30001");
    ck_assert_uint_lt(strlen(yoke_last_error()), 400);
    text[ITEMS * 6 - 1] = '\0';
    ASSERT_OK(yki_selector_parse(text, &selector));
    ck_assert_uint_eq(selector.count, ITEMS);
    yki_selector_free(&selector);
    free(text);
}
END_TEST

START_TEST(running_out_of_memory_is_a_status)
{
    yki_selector selector;

    yki_alloc_fail_at(1);
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_MEMORY, yki_selector_parse("cpu", &selector));
    yki_alloc_fail_at(2); /* the list of parts grows at the ninth */
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_MEMORY,
                  yki_selector_parse("cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", &selector));
    yki_alloc_fail_at(0);
}
END_TEST

START_TEST(sizes_read_well)
{
    char text[24];

    ck_assert_str_eq(yki_size_text(0, text), "0 B");
    ck_assert_str_eq(yki_size_text(1023, text), "1023 B");
    ck_assert_str_eq(yki_size_text(UINT64_C(256) << 20, text), "256 MiB");
    ck_assert_str_eq(yki_size_text(UINT64_C(3) << 29, text), "1.50 GiB");
    ck_assert_str_eq(yki_size_text(UINT64_MAX, text), "16777216.00 TiB");
}
END_TEST

/* ---- random texts ---- */

static uint32_t random_key[2], random_counter[4];

static uint32_t
random_below(uint32_t n)
{
    uint32_t words[4];

    random_counter[0]++;
    yki_philox(random_key, random_counter, words);
    return words[0] % n;
}

enum { TEXT_SIZE = 96 };

/* Deletes, repeats, replaces, or inserts a piece of the grammar. */
static size_t
mutate(uint8_t *text, size_t length)
{
    static const char *const pieces[] = {
        "all", "gpu",   "cpu:", "acc", ":0", "/2",         "/1+3",        "numa", ".1", "@1GiB",
        ",",   "name~", "/",    "@",   "0",  "4294967295", "99999999999", "+1",   " ",  "KiB"};
    size_t at = length ? random_below((uint32_t)length + 1) : 0, n;
    const char *piece = pieces[random_below(YKI_COUNT(pieces))];

    switch (random_below(4)) {
    case 0:
        if (at < length) {
            memmove(text + at, text + at + 1, length - at - 1);
            length--;
        }
        break;
    case 1:
        if (at < length)
            text[at] = (uint8_t)random_below(256);
        break;
    default:
        n = strlen(piece);
        if (length + n < TEXT_SIZE) {
            memmove(text + at + n, text + at, length - at);
            memcpy(text + at, piece, n);
            length += n;
        }
    }
    return length;
}

START_TEST(random_texts_do_no_harm)
{
    enum { ROUNDS = 200000 };
    const char *given = getenv("YOKE_TEST_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 0) : (uint32_t)time(NULL);
    uint8_t text[TEXT_SIZE];
    int accepted = 0;

    printf("# YOKE_TEST_SEED=%u\n", seed);
    fflush(stdout);
    random_key[0] = seed;
    for (int i = 0; i < ROUNDS; i++) {
        const char *start = good[random_below(YKI_COUNT(good))].text;
        size_t length = strlen(start);
        yki_selector selector;

        memcpy(text, start, length);
        for (uint32_t n = random_below(6); n > 0; n--)
            length = mutate(text, length);
        LLVMFuzzerTestOneInput(text, length);
        text[length < TEXT_SIZE ? length : TEXT_SIZE - 1] = '\0';
        if (yki_selector_parse((const char *)text, &selector) == YOKE_OK) {
            accepted++;
            yki_selector_free(&selector);
        }
    }
    /* Neither side of the parser is left out. */
    ck_assert_int_gt(accepted, ROUNDS / 20);
    ck_assert_int_lt(accepted, ROUNDS - ROUNDS / 20);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("selector");
    TCase *tcase = test_case(suite, "selector");

    tcase_add_loop_test(tcase, good_selectors_mean_what_they_say, 0, YKI_COUNT(good));
    tcase_add_loop_test(tcase, bad_selectors_name_the_token_and_its_place, 0, YKI_COUNT(bad));
    tcase_add_test(tcase, a_long_selector_is_read_and_quoted_in_part);
    tcase_add_test(tcase, running_out_of_memory_is_a_status);
    tcase_add_test(tcase, sizes_read_well);
    tcase_add_test(tcase, random_texts_do_no_harm);
    return suite;
}
