/* SPDX-License-Identifier: Apache-2.0
 *
 * check_selection.c - splitting devices and holding the parts: sub-devices or
 * slices, whichever the first device here offers; who is busy; how things end.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "support/devices.h"

static yoke_context *context;
static yoke_device_info root; /* the first device */

static void
open_context(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_device_get_info(yoke_context_get_device(context, 0), &root));
}

static void
close_context(void)
{
    yoke_context_destroy(context);
}

/* "<first device><suffix>" */
static const char *
first(const char *suffix)
{
    static char text[8][160];
    static int next;

    next = (next + 1) % 8;
    snprintf(text[next], sizeof text[next], "%s%s", root.id, suffix);
    return text[next];
}

static yoke_selection *
take_as(const char *suffix, const char *holder)
{
    const yoke_selection_options options = {.holder = holder};
    yoke_selection *selection = NULL;

    ASSERT_OK(yoke_selection_create(context, first(suffix), &options, &selection));
    return selection;
}

static yoke_selection *
take(const char *suffix)
{
    return take_as(suffix, NULL);
}

static yoke_device_info
info_of(const yoke_selection *selection, size_t index)
{
    yoke_device_info info;

    ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, index), &info));
    return info;
}

/* ---- splitting ---- */

START_TEST(a_whole_device_is_itself)
{
    yoke_selection *selection = take("");
    yoke_device_info info = info_of(selection, 0);

    ck_assert_uint_eq(yoke_selection_count(selection), 1);
    ck_assert_str_eq(info.id, root.id);
    ck_assert_str_eq(info.parent, root.id);
    ck_assert_int_eq(info.virtual_kind, YOKE_VIRTUAL_NONE);
    ck_assert_uint_eq(info.compute_units, root.compute_units);
    ck_assert_uint_eq(info.partition, root.partition);
    ck_assert_uint_eq(info.quota, 0);
    ck_assert_ptr_null(yoke_selection_get(selection, 1));
    yoke_selection_destroy(selection);
}
END_TEST

/* What every part of a split has in common. */
static void
check_part(const yoke_selection *selection, const char *split, size_t index, bool sub)
{
    yoke_device_info info = info_of(selection, index);
    char id[128];

    snprintf(id, sizeof id, "%s%s.%zu", root.id, split, index);
    ck_assert_str_eq(info.id, id);
    ck_assert_str_eq(info.parent, root.id);
    ck_assert_str_eq(info.name, root.name);
    ck_assert_str_eq(info.hardware, root.hardware);
    ck_assert_int_eq(info.virtual_kind, sub ? YOKE_VIRTUAL_SUBDEVICE : YOKE_VIRTUAL_SLICE);
    ck_assert_uint_eq(info.memory, root.memory);
    ck_assert_uint_eq(info.partition, 0);
    if (!sub)
        ck_assert_uint_eq(info.compute_units, root.compute_units);
}

START_TEST(equal_parts_are_equal)
{
    bool sub = root.partition & (YOKE_PARTITION_EQUALLY | YOKE_PARTITION_BY_COUNTS);

    for (uint32_t n = 1; n <= (sub ? root.compute_units : 4); n++) {
        yoke_selection *selection;
        char split[16];

        snprintf(split, sizeof split, "/%u", n);
        selection = take(split);
        ck_assert_uint_eq(yoke_selection_count(selection), n);
        for (size_t i = 0; i < n; i++) {
            check_part(selection, split, i, sub);
            if (sub)
                ck_assert_uint_eq(info_of(selection, i).compute_units, root.compute_units / n);
        }
        yoke_selection_destroy(selection);
    }
}
END_TEST

START_TEST(parts_by_counts_have_their_counts)
{
    bool sub = root.partition & YOKE_PARTITION_BY_COUNTS;
    uint32_t rest = sub ? root.compute_units - 1 : 3;
    yoke_selection *selection;
    char split[16];

    snprintf(split, sizeof split, "/1+%u", rest ? rest : 1);
    if (!rest) {
        ASSERT_STATUS(YOKE_ERROR_SELECTOR,
                      yoke_selection_create(context, first(split), NULL, &selection));
        return;
    }
    selection = take(split);
    ck_assert_uint_eq(yoke_selection_count(selection), 2);
    for (size_t i = 0; i < 2; i++) {
        check_part(selection, split, i, sub);
        if (sub)
            ck_assert_uint_eq(info_of(selection, i).compute_units, i ? rest : 1);
    }
    yoke_selection_destroy(selection);
}
END_TEST

START_TEST(numa_is_offered_or_refused)
{
    yoke_selection *selection = NULL;
    yoke_status status = yoke_selection_create(context, first("/numa"), NULL, &selection);

    if (root.partition & YOKE_PARTITION_NUMA) {
        ASSERT_OK(status);
        ck_assert_uint_gt(yoke_selection_count(selection), 0);
        yoke_selection_destroy(selection);
        return;
    }
    ck_assert_int_eq(status, YOKE_ERROR_UNSUPPORTED);
    ASSERT_DETAIL("cannot be split by NUMA domain");
    ASSERT_DETAIL(root.id);
}
END_TEST

/* Every id that there is selects what it names. */
START_TEST(ids_are_selectors)
{
    static const char *const splits[] = {"", "/1", "/1+1", "/2"};

    for (size_t i = 0; i < yoke_context_device_count(context); i++) {
        yoke_selection *selection;
        yoke_device_info info;

        ASSERT_OK(yoke_device_get_info(yoke_context_get_device(context, i), &info));
        ASSERT_OK(yoke_selection_create(context, info.id, NULL, &selection));
        ck_assert_str_eq(info_of(selection, 0).id, info.id);
        yoke_selection_destroy(selection);
    }
    for (size_t s = 0; s < (root.partition && root.compute_units < 2 ? 2 : YKI_COUNT(splits));
         s++) {
        yoke_selection *all = take(splits[s]), *one;
        char ids[2][64];
        size_t count = yoke_selection_count(all);

        ck_assert_uint_le(count, 2);
        for (size_t i = 0; i < count; i++)
            memcpy(ids[i], info_of(all, i).id, sizeof ids[i]);
        for (size_t i = 0; i < count; i++) { /* shared with `all` */
            ASSERT_OK(yoke_selection_create(context, ids[i], NULL, &one));
            ck_assert_uint_eq(yoke_selection_count(one), 1);
            ck_assert_ptr_eq(yoke_selection_get(one, 0), yoke_selection_get(all, i));
            yoke_selection_destroy(one);
        }
        yoke_selection_destroy(all);
        for (size_t i = count; i-- > 0;) { /* and alone */
            ASSERT_OK(yoke_selection_create(context, ids[i], NULL, &one));
            ck_assert_str_eq(info_of(one, 0).id, ids[i]);
            yoke_selection_destroy(one);
        }
    }
}
END_TEST

/* Sub-devices are other OpenCL devices, slices are the same, and all share a context that
 * works: a kernel's bytes move on every part. */
START_TEST(parts_work)
{
    static const char *const splits[] = {"", "/1", "/2", "/1+1"};

    for (size_t s = 0; s < (root.partition && root.compute_units < 2 ? 2 : YKI_COUNT(splits));
         s++) {
        yoke_selection *selection = take(splits[s]);

        for (size_t i = 0; i < yoke_selection_count(selection); i++) {
            yoke_device *device = yoke_selection_get(selection, i);
            bool own = info_of(selection, i).virtual_kind == YOKE_VIRTUAL_SUBDEVICE;
            uint32_t sent[64], got[64] = {0};
            yki_buffer *buffer;

            ck_assert((device->cl != device->root->id) == own);
            ck_assert_ptr_eq(yki_device_space(device),
                             yki_device_space(yoke_selection_get(selection, 0)));
            for (uint32_t k = 0; k < 64; k++)
                sent[k] = k * 2654435761u + (uint32_t)i;
            ASSERT_OK(yki_buffer_create(device, sizeof sent, 0, "a test", &buffer));
            ASSERT_OK(yki_buffer_put(buffer, 0, sizeof sent, sent));
            ASSERT_OK(yki_buffer_get(buffer, 0, sizeof got, got));
            ck_assert_mem_eq(sent, got, sizeof sent);
            yki_buffer_destroy(buffer);
        }
        yoke_selection_destroy(selection);
    }
}
END_TEST

/* ---- refusing ---- */

/* What is put behind the id of the first device, and what the error says. */
static const struct {
    const char *suffix, *says;
} refused[] = {
    {",%s", "is there twice"},
    {"/1,%s/1", "is there twice"},
    {"/1.0,%s/1.0", "is there twice"},
    {"/1,%s", "one selector can split a device once"},
    {"/1,%s@1MiB", "one selector can split a device once"},
    {"/1,all", "one selector can split a device once"},
    {"/1.1", "this split has 1 part, and the first has the number 0"},
    {"/2.7", "this split has 2 parts, and the first has the number 0"},
    {"@4000000TiB", "this quota is larger than the memory"},
    {"/0", "a count cannot be zero"},
    {"@0B", "a quota cannot be zero"},
    {",gpu:77", "gpu"},
    {",cpu:77", "cpu"},
    {",acc:77", "acc"},
    {",name~no such thing", "no device has this in its name"},
};

START_TEST(bad_wishes_are_refused_each_with_its_sentence)
{
    yoke_selection *selection = (yoke_selection *)&context;
    const char *suffix = refused[_i].suffix, *again = strstr(suffix, "%s"),
               *says = refused[_i].says;
    int length = again ? (int)(again - suffix) : (int)strlen(suffix);
    char selector[256];

    snprintf(selector, sizeof selector, "%s%.*s%s%s", root.id, length, suffix, again ? root.id : "",
             again ? again + 2 : "");
    if (root.partition && root.compute_units < 2 && strstr(suffix, "/2"))
        says = strchr(suffix, ',') ? says : "compute units, this split needs";
    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yoke_selection_create(context, selector, NULL, &selection));
    ASSERT_DETAIL(says);
    ASSERT_DETAIL(yoke_context_device_count(context) == 1 ? "; there is: " : "; there are: ");
    ASSERT_DETAIL(root.name);
    ck_assert_ptr_eq(selection, &context); /* outputs only on success */
    yoke_selection_destroy(take(""));      /* nothing is left held */
}
END_TEST

/* A type of which there is none is named as people do, and what there is follows. */
START_TEST(a_type_without_a_device)
{
    static const struct {
        yoke_device_type type;
        const char *selector, *says;
    } types[] = {
        {YOKE_DEVICE_GPU, "gpu", "selector \"gpu\": no GPU was found; there "},
        {YOKE_DEVICE_CPU, "cpu", "selector \"cpu\": no CPU was found; there "},
        {YOKE_DEVICE_ACCELERATOR, "acc", "selector \"acc\": no accelerator was found; there "},
    };

    for (size_t i = 0; i < YKI_COUNT(types); i++) {
        yoke_selection *selection;
        yoke_device_info info;
        bool there = false;

        for (size_t k = 0; k < yoke_context_device_count(context); k++) {
            ASSERT_OK(yoke_device_get_info(yoke_context_get_device(context, k), &info));
            there |= info.type == types[i].type;
        }
        if (there)
            continue;
        ASSERT_STATUS(YOKE_ERROR_SELECTOR,
                      yoke_selection_create(context, types[i].selector, NULL, &selection));
        ck_assert_msg(strncmp(yoke_last_error(), types[i].says, strlen(types[i].says)) == 0, "%s",
                      yoke_last_error());
        ASSERT_DETAIL(root.id);
    }
}
END_TEST

START_TEST(more_compute_units_than_there_are)
{
    yoke_selection *selection;
    char split[32];

    snprintf(split, sizeof split, "/%u", root.compute_units + 1);
    if (!(root.partition & YOKE_PARTITION_BY_COUNTS)) { /* slices are not bound by them */
        selection = take(split);
        ck_assert_uint_eq(yoke_selection_count(selection), root.compute_units + 1);
        yoke_selection_destroy(selection);
        return;
    }
    ASSERT_STATUS(YOKE_ERROR_SELECTOR,
                  yoke_selection_create(context, first(split), NULL, &selection));
    ASSERT_DETAIL("compute units, this split needs");
    snprintf(split, sizeof split, "/1+%u", root.compute_units);
    ASSERT_STATUS(YOKE_ERROR_SELECTOR,
                  yoke_selection_create(context, first(split), NULL, &selection));
    ASSERT_DETAIL("compute units, this split needs");
}
END_TEST

START_TEST(null_arguments_are_refused)
{
    yoke_selection *selection;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_selection_create(NULL, "all", NULL, &selection));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_selection_create(context, "all", NULL, NULL));
    yoke_selection_destroy(NULL);
    ck_assert_uint_eq(yoke_selection_count(NULL), 0);
    ck_assert_ptr_null(yoke_selection_get(NULL, 0));
}
END_TEST

START_TEST(no_selector_means_the_environment_or_all)
{
    yoke_selection *all, *selection;

    unsetenv("YOKE_DEVICES");
    ASSERT_OK(yoke_selection_create(context, "all", NULL, &all));
    ASSERT_OK(yoke_selection_create(context, NULL, NULL, &selection));
    ck_assert_uint_eq(yoke_selection_count(selection), yoke_selection_count(all));
    yoke_selection_destroy(selection);
    setenv("YOKE_DEVICES", "", 1);
    ASSERT_OK(yoke_selection_create(context, NULL, NULL, &selection));
    yoke_selection_destroy(selection);
    yoke_selection_destroy(all);
    setenv("YOKE_DEVICES", first("/1@1MiB"), 1);
    ASSERT_OK(yoke_selection_create(context, NULL, NULL, &selection));
    ck_assert_uint_eq(info_of(selection, 0).quota, 1 << 20);
    yoke_selection_destroy(selection);
    setenv("YOKE_DEVICES", "tpu", 1);
    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yoke_selection_create(context, NULL, NULL, &selection));
    ASSERT_DETAIL("YOKE_DEVICES: selector \"tpu\"");
    yoke_selection_destroy(take("")); /* a given selector wins */
}
END_TEST

/* ---- holding ---- */

START_TEST(another_split_waits_for_the_holder)
{
    yoke_selection *held = take_as("/1", "team 1"), *other;

    ASSERT_STATUS(YOKE_ERROR_BUSY, yoke_selection_create(context, first(""), NULL, &other));
    ASSERT_DETAIL("\"team 1\"");
    ASSERT_DETAIL(first("/1"));
    ASSERT_STATUS(YOKE_ERROR_BUSY, yoke_selection_create(context, "all", NULL, &other));
    ASSERT_DETAIL("destroy that before you select \"all\"");
    other = take_as("/1", "team 2");
    ck_assert_ptr_eq(yoke_selection_get(held, 0), yoke_selection_get(other, 0));
    ASSERT_STATUS(YOKE_ERROR_BUSY, yoke_selection_create(context, first(""), NULL, &held));
    ASSERT_DETAIL("\"team 1\"");
    ASSERT_DETAIL("\"team 2\"");
    yoke_selection_destroy(held);
    ASSERT_STATUS(YOKE_ERROR_BUSY, yoke_selection_create(context, first(""), NULL, &held));
    ck_assert_ptr_null(strstr(yoke_last_error(), "\"team 1\""));
    yoke_selection_destroy(other);
    yoke_selection_destroy(take(""));
}
END_TEST

START_TEST(what_a_selection_leaves_behind_still_holds)
{
    yoke_selection *selection = take_as("/1", "team 1");
    yoke_device *device = yki_device_retain(yoke_selection_get(selection, 0));
    yki_buffer *buffer;

    ASSERT_OK(yki_buffer_create(device, 4096, 0, "a test", &buffer));
    yoke_selection_destroy(selection);
    yki_device_release(device);
    ASSERT_STATUS(YOKE_ERROR_BUSY, yoke_selection_create(context, first(""), NULL, &selection));
    ASSERT_DETAIL("what \"team 1\" left behind");
    yki_buffer_destroy(buffer);
    yoke_selection_destroy(take(""));
}
END_TEST

/* Bytes in use after `times` selections of each of these kinds. */
static size_t
in_use_after(const char *const *splits, size_t count, size_t times)
{
    for (size_t i = 0; i < times * count; i++) {
        yoke_selection_destroy(take(splits[i % count]));
        yki_spaces_forget(context);
    }
    yki_release_kept_parts();
    return mallinfo2().uordblks;
}

/* Pools of the driver grow now and then, ever more rarely: up to some thousand splits here. What
 * is lost at a split is lost in each round, at least 32 bytes at a time. */
START_TEST(what_splits_take_they_give_back)
{
    static const char *const splits[] = {"", "/1", "/1+1", "/2@1MiB", "/2", "@1MiB"};
    enum { TIMES = 16, ROUNDS = 60 };
    size_t count = root.partition && root.compute_units < 2 ? 2 : YKI_COUNT(splits);
    size_t before, now = in_use_after(splits, count, TIMES);
    int round = 0;

    do {
        before = now;
        now = in_use_after(splits, count, TIMES);
    } while (now >= before + (size_t)TIMES * 32 && ++round < ROUNDS);
    ck_assert_msg(round < ROUNDS, "%d rounds, and each needed more memory", ROUNDS);
}
END_TEST

/* The context, two selections that share a device, and something that retains it, ended in
 * every order. */
START_TEST(the_order_of_the_end_is_free)
{
    for (int order = 0; order < 24; order++) {
        const yoke_selection_options options = {.holder = "somebody"};
        yoke_selection *a, *b;
        yoke_context *own;
        yki_buffer *buffer;
        int left[] = {0, 1, 2, 3}, code = order;

        ASSERT_OK(yoke_context_create(NULL, &own));
        ASSERT_OK(yoke_selection_create(own, first("/1"), &options, &a));
        ASSERT_OK(yoke_selection_create(own, first("/1.0"), NULL, &b));
        ASSERT_OK(yki_buffer_create(yoke_selection_get(b, 0), 64, 0, "a test", &buffer));
        for (int n = 4; n > 0; n--) {
            int pick = code % n, what = left[pick];

            code /= n;
            left[pick] = left[n - 1];
            if (what == 0)
                yoke_context_destroy(own);
            else if (what == 1)
                yoke_selection_destroy(a);
            else if (what == 2)
                yoke_selection_destroy(b);
            else
                yki_buffer_destroy(buffer);
        }
    }
}
END_TEST

START_TEST(a_lent_device_outlives_its_context)
{
    yoke_context *own;
    yoke_device *device;
    yoke_device_info info;

    ASSERT_OK(yoke_context_create(NULL, &own));
    device = yki_device_retain(yoke_context_get_device(own, 0));
    yoke_context_destroy(own);
    ASSERT_OK(yoke_device_get_info(device, &info));
    ck_assert_str_eq(info.id, root.id);
    yki_device_release(device);
}
END_TEST

/* Threads that want different splits of one device: each gets its own or is told to wait, and
 * in the end nothing is held. */
typedef struct contest {
    const char *selector;
    int got, waited;
} contest;

static void
contend(void *argument)
{
    contest *c = argument;

    for (int i = 0; i < 200; i++) {
        yoke_selection *selection;
        yoke_status status = yoke_selection_create(context, c->selector, NULL, &selection);

        if (status == YOKE_OK) {
            c->got += yoke_selection_count(selection) == 1;
            yoke_selection_destroy(selection);
        } else {
            c->waited += status == YOKE_ERROR_BUSY;
        }
    }
}

START_TEST(threads_may_share_a_context)
{
    contest contests[4] = {
        {first(""), 0, 0}, {first("/1"), 0, 0}, {first("/1.0"), 0, 0}, {first("@1MiB"), 0, 0}};
    yki_thread *threads[4];

    yoke_selection_destroy(take("")); /* the probe compiles once, not in the race */
    for (int i = 0; i < 4; i++)
        ASSERT_OK(yki_thread_start(contend, &contests[i], "contest", &threads[i]));
    for (int i = 0; i < 4; i++)
        yki_thread_join(threads[i]);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(contests[i].got + contests[i].waited, 200);
    yoke_selection_destroy(take("/1@1MiB"));
}
END_TEST

/* The n-th allocation of host memory fails, for every n. */
START_TEST(no_host_memory_is_a_status)
{
    int failed = 0;

    yoke_selection_destroy(take(""));
    for (uint64_t n = 1;; n++) {
        yoke_selection *selection = NULL;
        yoke_context *own = NULL;
        yoke_status status;

        yki_alloc_fail_at(n);
        status = yoke_context_create(NULL, &own);
        if (status == YOKE_OK)
            status = yoke_selection_create(own, first("/1@1MiB"), NULL, &selection);
        yoke_selection_destroy(selection);
        yoke_context_destroy(own);
        if (yki_alloc_fail_at(0) < n) {
            ASSERT_OK(status);
            break;
        }
        /* A probe that finds no memory only finds less. */
        if (status != YOKE_OK) {
            ck_assert_int_eq(status, YOKE_ERROR_OUT_OF_MEMORY);
            failed++;
        }
    }
    ck_assert_int_gt(failed, 20);
    printf("# %d allocations failed\n", failed);
    fflush(stdout);
}
END_TEST

/* ---- set-ups of its own ---- */

START_TEST(uneven_sub_devices_of_four_units)
{
    static const struct {
        const char *split;
        uint32_t units[4];
    } splits[] = {
        {"/1+3", {1, 3}},     {"/3+1", {3, 1}}, {"/2", {2, 2}},
        {"/3", {1, 1, 1}}, /* the fourth stays idle */
        {"/4", {1, 1, 1, 1}}, {"/1+2", {1, 2}}, {"/1", {4}},
    };

    setenv("POCL_MAX_PTHREAD_COUNT", "4", 1);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_device_get_info(yoke_context_get_device(context, 0), &root));
    if (!strstr(root.platform, "Portable Computing")) {
        yoke_context_destroy(context);
        TEST_SKIP("no PoCL here");
    }
    ck_assert_uint_eq(root.compute_units, 4);
    for (size_t s = 0; s < YKI_COUNT(splits); s++) {
        yoke_selection *selection = take(splits[s].split);

        for (size_t i = 0; i < 4; i++) {
            if (!splits[s].units[i]) {
                ck_assert_uint_eq(yoke_selection_count(selection), i);
                break;
            }
            ck_assert_uint_eq(info_of(selection, i).compute_units, splits[s].units[i]);
            check_part(selection, splits[s].split, i, true);
        }
        yoke_selection_destroy(selection);
    }
    yoke_context_destroy(context);
}
END_TEST

START_TEST(slices_where_nothing_can_be_partitioned)
{
    test_devices devices;

    if (!test_devices_open(TEST_RUSTICL_SLICES, &devices))
        TEST_SKIP("%s", devices.missing);
    ck_assert_uint_eq(devices.count, 2);
    for (size_t i = 0; i < devices.count; i++) {
        yoke_device_info info = info_of(devices.selection, i);

        ck_assert_int_eq(info.virtual_kind, YOKE_VIRTUAL_SLICE);
        ck_assert_ptr_eq(devices.device[i]->cl, devices.device[i]->root->id);
    }
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("selection");
    TCase *tcase = test_case(suite, "selection"), *own;

    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_add_test(tcase, a_whole_device_is_itself);
    tcase_add_test(tcase, equal_parts_are_equal);
    tcase_add_test(tcase, parts_by_counts_have_their_counts);
    tcase_add_test(tcase, numa_is_offered_or_refused);
    tcase_add_test(tcase, ids_are_selectors);
    tcase_add_test(tcase, parts_work);
    tcase_add_loop_test(tcase, bad_wishes_are_refused_each_with_its_sentence, 0,
                        YKI_COUNT(refused));
    tcase_add_test(tcase, a_type_without_a_device);
    tcase_add_test(tcase, more_compute_units_than_there_are);
    tcase_add_test(tcase, null_arguments_are_refused);
    tcase_add_test(tcase, no_selector_means_the_environment_or_all);
    tcase_add_test(tcase, another_split_waits_for_the_holder);
    tcase_add_test(tcase, what_a_selection_leaves_behind_still_holds);
    tcase_add_test(tcase, what_splits_take_they_give_back);
    tcase_add_test(tcase, the_order_of_the_end_is_free);
    tcase_add_test(tcase, a_lent_device_outlives_its_context);
    tcase_add_test(tcase, threads_may_share_a_context);
    tcase_add_test(tcase, no_host_memory_is_a_status);
    if (!test_in_matrix()) {
        own = test_case(suite, "set-ups");
        tcase_add_test(own, uneven_sub_devices_of_four_units);
        tcase_add_test(own, slices_where_nothing_can_be_partitioned);
    }
    return suite;
}
