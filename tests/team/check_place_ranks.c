/* SPDX-License-Identifier: Apache-2.0
 *
 * check_place_ranks.c - how processes of one host divide its devices.
 */
#include <stdio.h>
#include <string.h>

#include "support/support.h"
#include "team/place_ranks.h"

/* "h1 0-3 gpu:0=pci:1,cpu:0=host-cpu*4": machine, processors, devices with their identity and
 * number of parts; "!" instead of devices: it named them. */
static yki_rank
parse(const char *text)
{
    yki_rank rank = {0};
    char devices[512] = "", *save = NULL;
    unsigned first, last;

    ck_assert_int_eq(sscanf(text, "%63s %u-%u %511s", rank.machine, &first, &last, devices), 4);
    for (unsigned i = first; i <= last; i++)
        rank.mask[i / 8] |= (uint8_t)(1u << (i % 8));
    rank.has_selector = devices[0] == '!';
    for (char *item = rank.has_selector ? NULL : strtok_r(devices, ",", &save); item;
         item = strtok_r(NULL, ",", &save)) {
        yki_rank_device *d = &rank.devices[rank.device_count++];

        d->units = UINT32_MAX;
        ck_assert_int_ge(sscanf(item, "%63[^=]=%63[^*]*%u", d->id, d->hardware, &d->units), 2);
        d->is_cpu = strncmp(d->id, "cpu", 3) == 0;
    }
    return rank;
}

/* Pairs of what a rank sees and what it gets. */
static void
check(const char *const (*cases)[2], int count)
{
    yki_rank ranks[8];
    char selector[YKI_RANK_SELECTOR];

    for (int r = 0; r < count; r++)
        ranks[r] = parse(cases[r][0]);
    for (int r = 0; r < count; r++) {
        ASSERT_OK(yki_place_rank(ranks, count, r, selector, sizeof selector));
        ck_assert_str_eq(selector, cases[r][1]);
    }
}
#define CHECK_PLACES(...)                                                                          \
    do {                                                                                           \
        static const char *const cases[][2] = {__VA_ARGS__};                                       \
        check(cases, (int)YKI_COUNT(cases));                                                       \
    } while (0)

START_TEST(place_one_rank_takes_all)
{
    CHECK_PLACES({"a 0-3 gpu:0=pci:1,cpu:0=host-cpu*4", "gpu:0,cpu:0"});
    CHECK_PLACES({"a 0-3 gpu:0=pci:1,cpu:0=host-cpu*4", "gpu:0,cpu:0"},
                 {"b 0-3 gpu:0=pci:1,cpu:0=host-cpu*4", "gpu:0,cpu:0"});
}
END_TEST

START_TEST(place_cpu_is_halved)
{
    CHECK_PLACES({"a 0-1 cpu:0=host-cpu*2", "cpu:0/2.0"}, {"a 0-1 cpu:0=host-cpu*2", "cpu:0/2.1"});
    /* more ranks than compute units */
    CHECK_PLACES({"a 0-1 cpu:0=host-cpu*2", "cpu:0/2.0"}, {"a 0-1 cpu:0=host-cpu*2", "cpu:0/2.1"},
                 {"a 0-1 cpu:0=host-cpu*2", "cpu:0/2.0"});
    /* slices */
    CHECK_PLACES({"a 0-1 cpu:0=host-cpu", "cpu:0/3.0"}, {"a 0-1 cpu:0=host-cpu", "cpu:0/3.1"},
                 {"a 0-1 cpu:0=host-cpu", "cpu:0/3.2"});
    CHECK_PLACES({"a 0-0 cpu:0=host-cpu*1", "cpu:0"}, {"a 0-0 cpu:0=host-cpu*1", "cpu:0"});
}
END_TEST

START_TEST(place_bound_ranks_get_what_they_see)
{
    CHECK_PLACES({"a 0-3 cpu:0=host-cpu*4", "cpu:0"}, {"a 4-7 cpu:0=host-cpu*4", "cpu:0"});
    /* two pairs */
    CHECK_PLACES({"a 0-3 cpu:0=host-cpu*4", "cpu:0/2.0"}, {"a 4-7 cpu:0=host-cpu*4", "cpu:0/2.0"},
                 {"a 0-3 cpu:0=host-cpu*4", "cpu:0/2.1"}, {"a 4-7 cpu:0=host-cpu*4", "cpu:0/2.1"});
    /* the first and the last through the one in the middle */
    CHECK_PLACES({"a 0-3 cpu:0=host-cpu*4", "cpu:0/3.0"}, {"a 3-4 cpu:0=host-cpu*4", "cpu:0/3.1"},
                 {"a 4-7 cpu:0=host-cpu*4", "cpu:0/3.2"});
    /* GPUs as the job manager shows them: each calls its own gpu:0 */
    CHECK_PLACES({"a 0-7 gpu:0=pci:1", "gpu:0"}, {"a 0-7 gpu:0=pci:2", "gpu:0"});
}
END_TEST

START_TEST(place_gpus_are_dealt_out)
{
    CHECK_PLACES({"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:0/2.0"},
                 {"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:1/2.0"},
                 {"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:0/2.1"},
                 {"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:1/2.1"});
    CHECK_PLACES({"a 0-7 gpu:0=pci:1,gpu:1=pci:2,gpu:2=pci:3", "gpu:0,gpu:2"},
                 {"a 0-7 gpu:0=pci:1,gpu:1=pci:2,gpu:2=pci:3", "gpu:1"});
    CHECK_PLACES({"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:0/2.0"},
                 {"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:1"},
                 {"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:0/2.1"});
    /* with a CPU, and another host with the same addresses */
    CHECK_PLACES({"a 0-1 gpu:0=pci:1,cpu:0=host-cpu*2", "gpu:0/2.0,cpu:0/2.0"},
                 {"b 0-1 gpu:0=pci:1,cpu:0=host-cpu*2", "gpu:0,cpu:0"},
                 {"a 0-1 gpu:0=pci:1,cpu:0=host-cpu*2", "gpu:0/2.1,cpu:0/2.1"});
    /* one sees both, one a part */
    CHECK_PLACES({"a 0-7 gpu:0=pci:1,gpu:1=pci:2", "gpu:0"}, {"a 0-7 gpu:0=pci:2", "gpu:0"});
}
END_TEST

START_TEST(place_selectors_win)
{
    CHECK_PLACES({"a 0-1 cpu:0=host-cpu*2", "cpu:0"}, {"a 0-1 !", ""});
    CHECK_PLACES({"a 0-7 gpu:0=pci:1", "gpu:0/2.0"}, {"a 0-7 !", ""},
                 {"a 0-7 gpu:0=pci:1", "gpu:0/2.1"});
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("place_ranks");
    TCase *tcase = test_case(suite, "place_ranks");

    tcase_add_test(tcase, place_one_rank_takes_all);
    tcase_add_test(tcase, place_cpu_is_halved);
    tcase_add_test(tcase, place_bound_ranks_get_what_they_see);
    tcase_add_test(tcase, place_gpus_are_dealt_out);
    tcase_add_test(tcase, place_selectors_win);
    return suite;
}
