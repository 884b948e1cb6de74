/* SPDX-License-Identifier: Apache-2.0
 *
 * check_buffer.c - buffers and the commands that move them, on the devices of the
 * environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/devices.h"

static test_devices devices;
static yoke_device *device;
static yki_queue *queue;

static void
open_devices(void)
{
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    device = devices.device[0];
    ASSERT_OK(yki_queue_create(device, false, &queue));
}

static void
open_devices_without_host_memory(void)
{
    open_devices();
    test_devices_hide_host_memory(&devices);
}

static void
close_devices(void)
{
    yki_queue_destroy(queue);
    test_devices_close(&devices);
}

static yki_buffer *
make_buffer(uint64_t size, unsigned flags)
{
    yki_buffer *buffer;

    ASSERT_OK(yki_buffer_create(device, size, flags, "a buffer", &buffer));
    ck_assert_uint_eq(yki_buffer_size(buffer), size);
    ck_assert_ptr_eq(yki_buffer_owner(buffer), device);
    return buffer;
}

/* Bytes that differ from place to place and from seed to seed. */
static unsigned char *
make_bytes(size_t size, unsigned seed)
{
    unsigned char *bytes = malloc(size + 1);

    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((i + seed) * 2654435761u >> 13);
    return bytes;
}

static const size_t sizes[] = {0, 1, 3, 4, 5, 255, 4096, (1 << 20) + 1};

START_TEST(buffer_keeps_bytes_of_any_size)
{
    for (size_t i = 0; i < YKI_COUNT(sizes) - (devices.slow ? 1 : 0); i++) {
        size_t size = sizes[i];
        yki_buffer *buffer = make_buffer(size, 0);
        unsigned char *in = make_bytes(size, (unsigned)i), *out = make_bytes(size, 99);

        ASSERT_OK(yki_buffer_put(buffer, 0, size, in));
        ASSERT_OK(yki_buffer_get(buffer, 0, size, out));
        ck_assert_mem_eq(in, out, size);
        memset(out, 0, size);
        ASSERT_OK(yki_queue_write(queue, buffer, size / 3, size - size / 3, in, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_read(queue, buffer, size / 3, size - size / 3, out, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_finish(queue));
        ck_assert_mem_eq(in, out, size - size / 3);
        free(in);
        free(out);
        yki_buffer_destroy(buffer);
    }
}
END_TEST

/* offset and size that do not fit 16 bytes */
static const uint64_t outside[][2] = {
    {0, 17}, {16, 1}, {17, 0}, {8, 9}, {UINT64_MAX, 2}, {2, UINT64_MAX}, {UINT64_MAX - 3, 8}};

START_TEST(buffer_bounds_are_checked)
{
    yki_buffer *buffer = make_buffer(16, 0), *big = make_buffer(64, 0);
    char data[64] = {0};

    for (size_t i = 0; i < YKI_COUNT(outside); i++) {
        uint64_t offset = outside[i][0], size = outside[i][1];

        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_buffer_put(buffer, offset, size, data));
        ASSERT_DETAIL("must end within its 16 bytes");
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_buffer_get(buffer, offset, size, data));
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yki_queue_write(queue, buffer, offset, size, data, YKI_NO_WAIT, NULL));
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yki_queue_read(queue, buffer, offset, size, data, YKI_NO_WAIT, NULL));
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yki_queue_fill(queue, buffer, offset, size, 0, YKI_NO_WAIT, NULL));
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yki_queue_copy(queue, buffer, offset, big, 0, size, YKI_NO_WAIT, NULL));
        ASSERT_DETAIL("copying from");
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yki_queue_copy(queue, big, 0, buffer, offset, size, YKI_NO_WAIT, NULL));
    }
    yki_buffer_destroy(buffer);
    yki_buffer_destroy(big);
}
END_TEST

START_TEST(buffer_of_no_bytes_behaves)
{
    yki_buffer *empty = make_buffer(0, 0);
    yki_event done;
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_eq(usage.used, 0);
    ASSERT_OK(yki_queue_fill(queue, empty, 0, 0, 1, YKI_NO_WAIT, &done));
    ASSERT_OK(yki_event_wait(&done));
    yki_event_release(&done);
    ASSERT_OK(yki_queue_copy(queue, empty, 0, empty, 0, 0, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_buffer_touch(queue, empty));
    ASSERT_OK(yki_buffer_put(empty, 0, 0, NULL));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_buffer_put(empty, 0, 1, "x"));
    ASSERT_OK(yki_queue_finish(queue));
    yki_buffer_destroy(empty);
}
END_TEST

START_TEST(buffer_fills_start_at_the_offset)
{
    static const unsigned char pattern[4] = {1, 2, 3, 4};
    uint32_t word;

    memcpy(&word, pattern, sizeof word);
    for (uint64_t offset = 0; offset < 9; offset++) {
        for (uint64_t size = 0; size < 14; size++) {
            yki_buffer *buffer = make_buffer(24, 0);
            unsigned char out[24];

            ASSERT_OK(yki_buffer_touch(queue, buffer));
            ASSERT_OK(yki_queue_fill(queue, buffer, offset, size, word, YKI_NO_WAIT, NULL));
            ASSERT_OK(yki_queue_read(queue, buffer, 0, 24, out, YKI_NO_WAIT, NULL));
            ASSERT_OK(yki_queue_finish(queue));
            for (uint64_t i = 0; i < 24; i++)
                ck_assert_uint_eq(out[i],
                                  i < offset || i >= offset + size ? 0 : pattern[(i - offset) % 4]);
            yki_buffer_destroy(buffer);
        }
    }
}
END_TEST

START_TEST(buffer_fills_reach_every_word)
{
    size_t count = devices.slow ? 40000 : 3000001;
    yki_buffer *buffer = make_buffer(count * 4, 0);
    uint32_t *out = malloc(count * 4);

    ck_assert_ptr_nonnull(out);
    ASSERT_OK(yki_buffer_touch(queue, buffer));
    ASSERT_OK(yki_queue_fill(queue, buffer, 4, count * 4 - 8, 0xabcdef01u, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_read(queue, buffer, 0, count * 4, out, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    for (size_t i = 0; i < count; i++)
        if (out[i] != (i && i + 1 < count ? 0xabcdef01u : 0))
            ck_abort_msg("word %zu is %x", i, out[i]);
    free(out);
    yki_buffer_destroy(buffer);
}
END_TEST

static void
check_copy(yki_buffer *from, uint64_t from_offset, yki_buffer *to, uint64_t to_offset,
           uint64_t size)
{
    uint64_t to_size = yki_buffer_size(to);
    unsigned char *in = make_bytes(yki_buffer_size(from), (unsigned)size);
    unsigned char *out = make_bytes(to_size, 0);

    ASSERT_OK(yki_buffer_put(from, 0, yki_buffer_size(from), in));
    memset(out, 0xee, to_size);
    ASSERT_OK(yki_buffer_put(to, 0, to_size, out));
    ASSERT_OK(yki_queue_copy(queue, from, from_offset, to, to_offset, size, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ASSERT_OK(yki_buffer_get(to, 0, to_size, out));
    ck_assert_mem_eq(out + to_offset, in + from_offset, size);
    for (uint64_t i = 0; i < to_size; i++)
        if ((i < to_offset || i >= to_offset + size) && out[i] != 0xee)
            ck_abort_msg("copying %llu bytes to %llu wrote byte %llu", (unsigned long long)size,
                         (unsigned long long)to_offset, (unsigned long long)i);
    free(in);
    free(out);
}

START_TEST(buffer_copies_move_exactly_their_bytes)
{
    size_t big = devices.slow ? 5000 : (3 << 20) + 40;
    yki_buffer *from = make_buffer(64, 0), *to = make_buffer(64, 0);

    for (uint64_t size = 0; size < 10; size++)
        for (uint64_t a = 0; a < 6; a++)
            for (uint64_t b = 0; b < 6; b += devices.slow ? 4 : 1)
                check_copy(from, a, to, b, size);
    yki_buffer_destroy(from);
    yki_buffer_destroy(to);
    from = make_buffer(big, 0);
    to = make_buffer(big, 0);
    check_copy(from, 4, to, 8, big - 11);
    check_copy(from, 1, to, 2, big - 11);
    yki_buffer_destroy(from);
    yki_buffer_destroy(to);
}
END_TEST

START_TEST(buffer_copies_inside_one_do_not_overlap)
{
    yki_buffer *buffer = make_buffer(64, 0);
    unsigned char *in = make_bytes(64, 3), out[64];

    ASSERT_OK(yki_buffer_put(buffer, 0, 64, in));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_copy(queue, buffer, 0, buffer, 8, 12, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("overlap");
    ASSERT_OK(yki_queue_copy(queue, buffer, 0, buffer, 32, 32, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ASSERT_OK(yki_buffer_get(buffer, 0, 64, out));
    ck_assert_mem_eq(out, in, 32);
    ck_assert_mem_eq(out + 32, in, 32);
    free(in);
    yki_buffer_destroy(buffer);
}
END_TEST

START_TEST(buffer_host_memory_is_the_device_memory)
{
    const yki_device_traits *traits = yki_device_get_traits(device);
    size_t size = devices.slow ? 8192 : 8 << 20;
    yki_buffer *buffer = make_buffer(size, 0);
    uint32_t *host = yki_buffer_host(buffer), seen;

    ck_assert_int_eq(host != NULL, traits->direct_host);
    if (host) {
        ck_assert_uint_eq((uintptr_t)host % (size >= 4 << 20 ? 2 << 20 : 4096), 0);
        ASSERT_OK(yki_queue_fill(queue, buffer, 0, size, 7, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_finish(queue));
        ck_assert_uint_eq(host[0], 7);
        ck_assert_uint_eq(host[size / 4 - 1], 7);
        host[size / 8] = 8;
        ASSERT_OK(
            yki_queue_read(queue, buffer, size / 8 * 4, sizeof seen, &seen, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_finish(queue));
        ck_assert_uint_eq(seen, 8);
    }
    yki_buffer_destroy(buffer);
}
END_TEST

START_TEST(buffer_can_go_before_its_work_is_done)
{
    size_t size = devices.slow ? 4096 : 16 << 20;

    for (int i = 0; i < 8; i++) {
        yki_buffer *buffer = make_buffer(size, 0), *other = make_buffer(size, 0);

        ASSERT_OK(yki_queue_fill(queue, buffer, 0, size, (uint32_t)i, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_copy(queue, buffer, 0, other, 0, size, YKI_NO_WAIT, NULL));
        yki_buffer_destroy(buffer);
        yki_buffer_destroy(other);
    }
    ASSERT_OK(yki_queue_finish(queue));
}
END_TEST

START_TEST(buffer_pinned_is_for_the_host_and_copies)
{
    enum { SIZE = 5000 };
    yki_buffer *pinned = make_buffer(SIZE, YKI_BUFFER_PINNED), *plain = make_buffer(SIZE, 0);
    unsigned char *bytes = make_bytes(SIZE, 1), *host = yki_buffer_host(pinned);

    ck_assert_ptr_nonnull(host);
    ASSERT_OK(yki_buffer_touch(queue, pinned));
    ck_assert_uint_eq(host[SIZE - 1], 0);
    memcpy(host, bytes, SIZE);
    ASSERT_OK(yki_queue_copy(queue, pinned, 0, plain, 3, SIZE - 3, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_copy(queue, plain, 3, pinned, 1, SIZE - 3, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ck_assert_mem_eq(host + 1, bytes, SIZE - 3);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_fill(queue, pinned, 0, 4, 0, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("pinned");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_write(queue, pinned, 0, 4, bytes, YKI_NO_WAIT, NULL));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_read(queue, pinned, 0, 4, bytes, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_buffer_put(pinned, 0, 1, "z"));
    ck_assert_uint_eq(host[0], 'z');
    free(bytes);
    yki_buffer_destroy(pinned);
    yki_buffer_destroy(plain);
}
END_TEST

START_TEST(buffer_larger_than_the_device_takes)
{
    uint64_t most = yki_device_get_traits(device)->max_allocation;
    yoke_memory_usage usage;
    yki_buffer *buffer;

    ASSERT_STATUS(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                  yki_buffer_create(device, most + 1, 0, "conv1.weight", &buffer));
    ASSERT_DETAIL("conv1.weight");
    ASSERT_DETAIL("largest single buffer");
    ASSERT_DETAIL(yki_device_id(device));
    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_eq(usage.used, 0);
}
END_TEST

START_TEST(buffer_obeys_the_quota)
{
    yoke_context *context;
    yoke_selection *selection;
    yoke_device_info info;
    yoke_memory_usage usage;
    yki_buffer *first, *second;
    char selector[80];

    ASSERT_OK(yoke_device_get_info(device, &info));
    snprintf(selector, sizeof selector, "%s@10KiB", info.parent);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, selector, NULL, &selection));
    device = yoke_selection_get(selection, 0);
    ASSERT_OK(yki_buffer_create(device, 8 << 10, 0, "first", &first));
    ASSERT_STATUS(YOKE_ERROR_QUOTA, yki_buffer_create(device, 3 << 10, 0, "second", &second));
    ASSERT_DETAIL("second");
    /* Pinned memory is the device's only where both are the host's. */
    if (yki_device_get_traits(device)->host_memory)
        ASSERT_STATUS(YOKE_ERROR_QUOTA,
                      yki_buffer_create(device, 3 << 10, YKI_BUFFER_PINNED, "second", &second));
    else {
        ASSERT_OK(yki_buffer_create(device, 3 << 10, YKI_BUFFER_PINNED, "second", &second));
        yki_buffer_destroy(second);
    }
    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_eq(usage.used, 8 << 10);
    yki_buffer_destroy(first);
    ASSERT_OK(yki_buffer_create(device, 10 << 10, 0, "second", &second));
    yki_buffer_destroy(second);
    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_eq(usage.used, 0);
    ck_assert_uint_eq(usage.peak, 10 << 10);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

/* Host memory runs out at each of the places where it can. */
START_TEST(buffer_leaks_nothing_without_memory)
{
    yoke_memory_usage usage;
    yki_buffer *buffer;
    uint64_t n = 0;
    yoke_status status;

    do {
        yki_alloc_fail_at(++n);
        status = yki_buffer_create(device, 4096, 0, "a buffer", &buffer);
        yki_alloc_fail_at(0);
        if (status != YOKE_OK)
            ck_assert_int_eq(status, YOKE_ERROR_OUT_OF_MEMORY);
    } while (status != YOKE_OK && n < 100);
    ck_assert_uint_gt(n, 1);
    ASSERT_OK(status);
    yki_buffer_destroy(buffer);
    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_eq(usage.used, 0);
}
END_TEST

static void
add_tests(TCase *tcase)
{
    tcase_add_test(tcase, buffer_keeps_bytes_of_any_size);
    tcase_add_test(tcase, buffer_bounds_are_checked);
    tcase_add_test(tcase, buffer_of_no_bytes_behaves);
    tcase_add_test(tcase, buffer_fills_start_at_the_offset);
    tcase_add_test(tcase, buffer_fills_reach_every_word);
    tcase_add_test(tcase, buffer_copies_move_exactly_their_bytes);
    tcase_add_test(tcase, buffer_copies_inside_one_do_not_overlap);
    tcase_add_test(tcase, buffer_host_memory_is_the_device_memory);
    tcase_add_test(tcase, buffer_can_go_before_its_work_is_done);
    tcase_add_test(tcase, buffer_pinned_is_for_the_host_and_copies);
    tcase_add_test(tcase, buffer_larger_than_the_device_takes);
    tcase_add_test(tcase, buffer_obeys_the_quota);
    tcase_add_test(tcase, buffer_leaks_nothing_without_memory);
}

Suite *
test_suite(void)
{
    Suite *suite = suite_create("buffer");
    TCase *direct = test_case(suite, "buffer"), *plain = test_case(suite, "plain");

    tcase_add_checked_fixture(direct, open_devices, close_devices);
    add_tests(direct);
    tcase_add_checked_fixture(plain, open_devices_without_host_memory, close_devices);
    add_tests(plain);
    return suite;
}
