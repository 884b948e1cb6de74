/* SPDX-License-Identifier: Apache-2.0
 *
 * check_memory.c - a processor and an integrated GPU of one platform: when they have one memory,
 * and what follows for their buffers, kernels, limits and ends. The GPU is PoCL behind the GPU
 * face, so all of it is really run.
 */
#include <stdio.h>
#include <string.h>

#include "device/cache.h"
#include "device/runtime.h"
#include "support/devices.h"
#include "support/scratch.h"

enum { BYTES = 1 << 16 };

static yoke_context *context;
static char lines[16384];

static void
keep_line(void *user, yoke_log_level level, const char *line)
{
    (void)user, (void)level;
    if (strstr(line, "memory"))
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
}

static yoke_selection *
take(const char *selector)
{
    yoke_selection *selection;

    ASSERT_OK(yoke_selection_create(context, selector, NULL, &selection));
    return selection;
}

static yoke_device *
at(const yoke_selection *selection, size_t index)
{
    yoke_device *device = yoke_selection_get(selection, index);

    ck_assert_ptr_nonnull(device);
    return device;
}

static void
open_log(void)
{
    lines[0] = '\0';
    yoke_log_set(keep_line, NULL, YOKE_LOG_DEBUG);
}

/* A test that has `context`. */
#define BESIDE(name)                                                                               \
    static void name##_beside(void);                                                               \
    START_TEST(name)                                                                               \
    {                                                                                              \
        test_devices devices;                                                                      \
                                                                                                   \
        if (!test_devices_find(TEST_POCL_BESIDE, &devices))                                        \
            TEST_SKIP("%s", devices.missing);                                                      \
        context = devices.context;                                                                 \
        name##_beside();                                                                           \
        yoke_context_destroy(context);                                                             \
    }                                                                                              \
    END_TEST                                                                                       \
    static void name##_beside(void)

/* ---- who has it ---- */

/* The devices at all places of the selection share, or none of another one's. */
static void
assert_shares(const char *selector, bool share)
{
    yoke_selection *selection = take(selector);
    size_t count = yoke_selection_count(selection);

    ck_assert_uint_ge(count, 2);
    ck_assert_msg(yki_devices_share(at(selection, 0), at(selection, count - 1)) == share, "%s: %s",
                  selector, share ? "they have no common memory" : "they have one memory");
    yoke_selection_destroy(selection);
}

BESIDE(those_that_are_selected_together_share)
{
    yoke_selection *one, *both;

    open_log();
    assert_shares("cpu:0,gpu:0", true);
    ck_assert_msg(strstr(lines, "gpu:0 and cpu:0 have one memory") != NULL, "%s", lines);
    assert_shares("gpu:0,cpu:0", true);
    assert_shares("gpu:0/2,cpu:0", true); /* slices: a GPU cannot be partitioned */
    assert_shares("gpu:0,cpu:0/2", true); /* sub-devices */
    assert_shares("cpu:0@1GiB,gpu:0@1GiB", true);
    /* A space that is there keeps its memory, and the next ones are free again. */
    one = take("cpu:0");
    lines[0] = '\0';
    assert_shares("cpu:0,gpu:0", false);
    ck_assert_msg(strstr(lines, "no common memory: they were not selected together") != NULL, "%s",
                  lines);
    yoke_selection_destroy(one);
    both = take("cpu:0,gpu:0");
    one = take("gpu:0");
    ck_assert_ptr_eq(at(one, 0), at(both, 1));
    ck_assert(yki_devices_share(at(one, 0), at(both, 0)));
    yoke_selection_destroy(one);
    yoke_selection_destroy(both);
    yoke_log_set(NULL, NULL, YOKE_LOG_DEBUG);
}

/* What a device would do differently for its own kernels stays its own. */
BESIDE(programs_stay_those_of_one_device)
{
    const yki_grid one = {{1, 1, 1}, {1, 1, 1}};
    yoke_selection *both = take("cpu:0,gpu:0");
    yki_queue *queue;
    yki_kernel *kernel;

    ck_assert_ptr_ne(yki_device_space(at(both, 0)), yki_device_space(at(both, 1)));
    for (size_t i = 0; i < 2; i++) {
        ASSERT_OK(yki_kernel_get(at(both, i), "fill.cl", "", "yki_fill", &kernel));
        ASSERT_OK(yki_queue_create(at(both, 1 - i), false, &queue));
        ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "belongs to another device",
                       yki_queue_launch(queue, kernel, &one, YKI_NO_WAIT, NULL));
        yki_queue_destroy(queue);
        yki_kernel_destroy(kernel);
    }
    yoke_selection_destroy(both);
}

/* A view of a buffer of either must suit the other one, and so must its size. The face says that
 * the GPU wants 512 bytes. */
BESIDE(buffers_suit_both)
{
    yoke_selection *alone = take("cpu:0"), *both;
    yki_device_traits cpu = *yki_device_get_traits(at(alone, 0)), gpu;

    yoke_selection_destroy(alone);
    alone = take("gpu:0");
    gpu = *yki_device_get_traits(at(alone, 0));
    yoke_selection_destroy(alone);
    ck_assert_uint_ne(cpu.base_align, gpu.base_align);
    both = take("cpu:0,gpu:0");
    for (size_t i = 0; i < 2; i++) {
        const yki_device_traits *traits = yki_device_get_traits(at(both, i));

        ck_assert_uint_eq(traits->base_align, YKI_MAX(cpu.base_align, gpu.base_align));
        ck_assert_uint_eq(traits->max_allocation, YKI_MIN(cpu.max_allocation, gpu.max_allocation));
    }
    yoke_selection_destroy(both);
}

/* ---- limits ---- */

static uint64_t
used(yoke_device *device)
{
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(device, &usage));
    return usage.used;
}

/* Each device has its quota and its root's limit, and both together have no more than there is. */
BESIDE(what_one_takes_the_other_lacks)
{
    yoke_selection *both = take("cpu:0,gpu:0");
    yoke_device *cpu = at(both, 0), *gpu = at(both, 1);
    const uint64_t all = yki_quota_left(cpu), part = all / 2;
    yki_buffer *buffer;

    ck_assert_uint_eq(yki_quota_left(gpu), all);
    ASSERT_OK(yki_buffer_create(gpu, BYTES, 0, "a buffer", &buffer));
    ck_assert_uint_eq(used(gpu), BYTES);
    ck_assert_uint_eq(used(cpu), 0);
    ck_assert_uint_eq(yki_quota_left(cpu), all - BYTES);
    yki_buffer_destroy(buffer);
    ASSERT_OK(yki_quota_charge(cpu, part, "a half"));
    ck_assert_uint_eq(yki_quota_left(gpu), all - part);
    ASSERT_REFUSED(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, "all devices that have its memory",
                   yki_quota_charge(gpu, all - part + 1, "more than a half"));
    ck_assert_uint_eq(used(gpu), 0); /* nothing of it stays */
    ASSERT_OK(yki_quota_charge(gpu, all - part, "the other half"));
    yki_quota_return(gpu, all - part);
    yki_quota_return(cpu, part);
    ck_assert_uint_eq(yki_quota_left(gpu), all);
    yoke_selection_destroy(both);
    both = take("cpu:0,gpu:0@1MiB");
    ASSERT_REFUSED(YOKE_ERROR_QUOTA, "quota 1 MiB",
                   yki_quota_charge(at(both, 1), 2 << 20, "too much"));
    ASSERT_OK(yki_quota_charge(at(both, 0), 2 << 20, "not too much"));
    yki_quota_return(at(both, 0), 2 << 20);
    yoke_selection_destroy(both);
}

/* Core groups have a context of their own, but what they take is the whole device's. */
BESIDE(core_groups_lack_it_too)
{
    const uint64_t quota = UINT64_C(1) << 30, rest = 1 << 20;
    yoke_selection *both = take("cpu:0@1GiB,gpu:0"), *groups;
    uint64_t all;

    if (yki_core_groups_count(at(both, 0), 2) < 2)
        TEST_SKIP("one compute unit");
    ASSERT_OK(yki_core_groups_create(at(both, 0), 2, &groups));
    ck_assert_uint_eq(yki_quota_left(at(groups, 1)), quota);
    ASSERT_OK(yki_quota_charge(at(groups, 0), rest, "a part"));
    ck_assert_uint_eq(yki_quota_left(at(groups, 1)), quota - rest);
    yki_quota_return(at(groups, 0), rest);
    all = yki_quota_left(at(both, 1));
    ASSERT_OK(yki_quota_charge(at(both, 1), all - rest, "nearly all"));
    ck_assert_uint_eq(yki_quota_left(at(groups, 1)), rest);
    ck_assert_uint_eq(yki_root_left(at(groups, 1)), rest);
    yki_quota_return(at(both, 1), all - rest);
    yoke_selection_destroy(groups);
    yoke_selection_destroy(both);
}

/* ---- use and end ---- */

static void
assert_filled(yki_buffer *buffer, uint32_t pattern)
{
    static uint32_t words[BYTES / 4];

    ASSERT_OK(yki_buffer_get(buffer, 0, BYTES, words));
    for (size_t i = 0; i < BYTES / 4; i++)
        ck_assert_uint_eq(words[i], pattern);
}

/* Buffers of one device are written by the other, behind its events, and nothing else: nobody
 * flushes or waits. A destroyed buffer waits for both. */
BESIDE(each_writes_what_the_other_has)
{
    yoke_selection *both = take("cpu:0,gpu:0");
    yki_buffer *buffers[2];
    yki_queue *queues[2];
    yki_event event = {0};

    for (size_t i = 0; i < 2; i++) {
        ASSERT_OK(yki_buffer_create(at(both, i), BYTES, 0, "a buffer", &buffers[i]));
        ASSERT_OK(yki_queue_create(at(both, i), false, &queues[i]));
    }
    for (uint32_t turn = 0; turn < 50; turn++) {
        const size_t i = turn % 2;
        yki_event before = event;

        ASSERT_OK(yki_queue_fill(queues[i], buffers[1 - i], 0, BYTES, turn, (yki_wait){&before, 1},
                                 NULL));
        ASSERT_OK(yki_queue_copy(queues[i], buffers[1 - i], 0, buffers[i], 0, BYTES, YKI_NO_WAIT,
                                 &event));
        yki_event_release(&before);
    }
    ASSERT_OK(yki_event_wait(&event));
    yki_event_release(&event);
    for (size_t i = 0; i < 2; i++)
        assert_filled(buffers[i], 49);
    for (size_t i = 0; i < 2; i++)
        ASSERT_OK(yki_queue_fill(queues[i], buffers[1 - i], 0, BYTES, 7, YKI_NO_WAIT, NULL));
    for (size_t i = 0; i < 2; i++)
        yki_buffer_destroy(buffers[i]);
    for (size_t i = 0; i < 2; i++)
        yki_queue_destroy(queues[i]);
    yoke_selection_destroy(both);
}

/* The memory lives as long as one of them; another split of the one that has gone has its own. */
BESIDE(one_may_go_before_the_other)
{
    for (size_t first = 0; first < 2; first++) {
        yoke_selection *both = take("cpu:0,gpu:0"), *again;
        yoke_device *kept = yki_device_retain(at(both, first));
        yki_buffer *buffer;
        yki_queue *queue;

        ASSERT_OK(yki_buffer_create(kept, BYTES, 0, "a buffer", &buffer));
        ASSERT_OK(yki_queue_create(kept, false, &queue));
        yoke_selection_destroy(both);
        ASSERT_OK(yki_queue_fill(queue, buffer, 0, BYTES, 5, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_finish(queue));
        assert_filled(buffer, 5);
        again = take(first ? "cpu:0/2,gpu:0" : "cpu:0,gpu:0/2");
        ck_assert(!yki_devices_share(at(again, 0), at(again, yoke_selection_count(again) - 1)));
        yki_buffer_destroy(buffer);
        yki_queue_destroy(queue);
        yki_device_release(kept);
        yoke_selection_destroy(again);
        assert_shares("cpu:0,gpu:0", true);
    }
}

/* Another context finds the programs of both in the cache, each those of its own kind. */
BESIDE(programs_of_both_are_kept)
{
    const yoke_context_options options = {.cache_dir = scratch_path("cache")};
    uint64_t builds[3] = {yki_program_builds()};
    yoke_context *first = context;

    for (int i = 0; i < 2; i++) {
        yoke_selection *both;

        ASSERT_OK(yoke_context_create(&options, &context));
        both = take("cpu:0,gpu:0");
        for (size_t k = 0; k < 2; k++) {
            yki_program *program;

            ASSERT_OK(yki_program_set_asking(at(both, k), 1e-6)); /* the driver copies binaries */
            ASSERT_OK(yki_program_get(at(both, k), "copy.cl", "", &program));
            yki_program_release(program);
        }
        yoke_selection_destroy(both);
        yoke_context_destroy(context);
        builds[i + 1] = yki_program_builds();
    }
    context = first;
    ck_assert_uint_eq(builds[1] - builds[0], 2);
    ck_assert_uint_eq(builds[2], builds[1]);
}

Suite *
test_suite(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = test_case(suite, "memory");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    if (test_in_matrix())
        return suite;
    tcase_add_test(tcase, those_that_are_selected_together_share);
    tcase_add_test(tcase, programs_stay_those_of_one_device);
    tcase_add_test(tcase, buffers_suit_both);
    tcase_add_test(tcase, what_one_takes_the_other_lacks);
    tcase_add_test(tcase, core_groups_lack_it_too);
    tcase_add_test(tcase, each_writes_what_the_other_has);
    tcase_add_test(tcase, one_may_go_before_the_other);
    tcase_add_test(tcase, programs_of_both_are_kept);
    return suite;
}
