/* SPDX-License-Identifier: Apache-2.0
 *
 * check_link.c - memory between logical devices, on set-ups of its own: parts of
 * one device, devices of one driver, devices of two.
 *
 * A set-up whose implementation is not installed is reported as skipped. Run by
 * the matrix, the tests use the devices of the environment and only these.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/devices.h"

enum { ROUNDS = 50, MAX_OFFSET = 9 };

/* Two devices and what goes to and fro. */
typedef struct pair {
    test_devices devices;
    yoke_device *device[2];
    yki_queue *queue[2];
    yki_link *link[2]; /* link[i] goes from device[i] to the other */
} pair;

static void
open_pair(pair *p, uint64_t max_size)
{
    p->device[0] = p->devices.device[0];
    p->device[1] = p->devices.device[p->devices.count > 1];
    for (int i = 0; i < 2; i++)
        ASSERT_OK(yki_queue_create(p->device[i], false, &p->queue[i]));
    for (int i = 0; i < 2; i++) {
        bool shared = yki_devices_share(p->device[0], p->device[1]);

        ASSERT_OK(yki_link_create(p->device[i], p->device[1 - i], max_size, &p->link[i]));
        ck_assert_int_eq(yki_link_get_kind(p->link[i]), shared ? YKI_LINK_SHARED : YKI_LINK_STAGED);
    }
}

static void
close_pair(pair *p)
{
    for (int i = 0; i < 2; i++) {
        yki_link_destroy(p->link[i]);
        yki_queue_destroy(p->queue[i]);
    }
    test_devices_close(&p->devices);
}

static void
make_bytes(unsigned char *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(((uint32_t)i ^ seed * 40503u) * 2654435761u >> 21);
}

/* One copy each way at once, with offsets that no word has; then every byte is looked at. */
static void
check_size(pair *p, size_t size, const uint64_t offsets[4])
{
    size_t room = size + MAX_OFFSET, busy = p->devices.slow ? 4096 : 2 << 20;
    unsigned char *in[2], *out = malloc(room);
    yki_buffer *from[2], *to[2], *scratch[2];
    yki_event done[2];

    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < 2; i++) {
        in[i] = malloc(room);
        ck_assert_ptr_nonnull(in[i]);
        make_bytes(in[i], room, (uint32_t)(size + (size_t)i));
        ASSERT_OK(yki_buffer_create(p->device[i], room, 0, "from", &from[i]));
        ASSERT_OK(yki_buffer_create(p->device[1 - i], room, 0, "to", &to[i]));
        ASSERT_OK(yki_buffer_put(from[i], 0, room, in[i]));
        ASSERT_OK(yki_buffer_touch(p->queue[1 - i], to[i]));
        ASSERT_OK(yki_buffer_create(p->device[i], busy, 0, "scratch", &scratch[i]));
    }
    /* Work in front of the copies, so that what should wait has to. */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            ASSERT_OK(yki_queue_fill(p->queue[i], scratch[i], 0, busy, 1, YKI_NO_WAIT, NULL));
    for (int i = 0; i < 2; i++)
        ASSERT_OK(yki_link_copy(p->link[i], p->queue[i], from[i], offsets[2 * i], p->queue[1 - i],
                                to[i], offsets[2 * i + 1], size, YKI_NO_WAIT, &done[i]));
    for (int i = 0; i < 2; i++) {
        uint64_t a = offsets[2 * i], b = offsets[2 * i + 1];

        ASSERT_OK(yki_event_wait(&done[i]));
        yki_event_release(&done[i]);
        ASSERT_OK(yki_buffer_get(to[i], 0, room, out));
        ck_assert_msg(memcmp(out + b, in[i] + a, size) == 0, "wrong bytes: %zu from %d", size, i);
        for (size_t k = b ? 0 : size; k < room; k = k + 1 == b ? b + size : k + 1)
            if (out[k])
                ck_abort_msg("byte %zu was written by a copy of %zu to %zu", k, size, (size_t)b);
        free(in[i]);
        yki_buffer_destroy(from[i]);
        yki_buffer_destroy(to[i]);
        yki_buffer_destroy(scratch[i]);
    }
    free(out);
}

static void
check_sizes(pair *p)
{
    static const size_t sizes[] = {0,      1, 3, 4, 5, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
                                   7 << 20};
    static const uint64_t offsets[][4] = {{0, 0, 0, 0}, {4, 8, 8, 4}, {1, 3, 5, 7}, {2, 9, 9, 4}};

    for (size_t i = 0; i < YKI_COUNT(sizes); i++)
        for (size_t k = 0; k < YKI_COUNT(offsets); k++)
            if (sizes[i] <= 4096 || !p->devices.slow)
                check_size(p, sizes[i], offsets[k]);
}

/* A number goes to and fro. Each side waits for the copy, adds to all of its words with a
 * kernel, and sends them back, with nothing but events between; nobody flushes. `wide` words
 * make every step long enough that the next one, not waiting, would see old ones. */
static void
check_ping_pong(pair *p, size_t wide)
{
    static const char source[] = "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void\n"
                                 "next(__global uint *a, uint value)\n"
                                 "{\n"
                                 "    size_t i = get_global_id(0);\n"
                                 "    a[i] = 3 * a[i] + value;\n"
                                 "}\n";
    yki_program *program[2];
    yki_kernel *kernel[2];
    yki_buffer *mine[2];
    yki_queue *compute[2];
    yki_event arrived = {NULL, NULL, 0};
    uint32_t expected = 1, *out = malloc(wide * 4);

    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < 2; i++) {
        uint32_t value = 1 + (uint32_t)i;

        ASSERT_OK(yki_program_get_source(p->device[i], "next", source, "", &program[i]));
        ASSERT_OK(yki_buffer_create(p->device[i], wide * 4, 0, "words", &mine[i]));
        ASSERT_OK(yki_queue_create(p->device[i], false, &compute[i]));
        ASSERT_OK(yki_kernel_create(program[i], "next", &kernel[i]));
        ASSERT_OK(yki_kernel_set_buffer(kernel[i], 0, mine[i]));
        ASSERT_OK(yki_kernel_set(kernel[i], 1, sizeof value, &value));
    }
    for (size_t i = 0; i < wide; i++)
        out[i] = expected;
    ASSERT_OK(yki_queue_write(p->queue[0], mine[0], 0, wide * 4, out, YKI_NO_WAIT, &arrived));
    for (int round = 0; round < ROUNDS; round++) {
        int here = round % 2, there = 1 - here;
        yki_event added;

        ASSERT_OK(yki_queue_launch(compute[here], kernel[here], &(yki_grid){{wide}, {1}},
                                   (yki_wait){&arrived, 1}, &added));
        yki_event_release(&arrived);
        ASSERT_OK(yki_link_copy(p->link[here], p->queue[here], mine[here], 0, p->queue[there],
                                mine[there], 0, wide * 4, (yki_wait){&added, 1}, &arrived));
        yki_event_release(&added);
        expected = 3 * expected + 1 + (uint32_t)here;
    }
    ASSERT_OK(yki_queue_read(compute[ROUNDS % 2], mine[ROUNDS % 2], 0, wide * 4, out,
                             (yki_wait){&arrived, 1}, NULL));
    ASSERT_OK(yki_queue_finish(compute[ROUNDS % 2]));
    for (size_t i = 0; i < wide; i++)
        if (out[i] != expected)
            ck_abort_msg("word %zu is %u instead of %u", i, out[i], expected);
    yki_event_release(&arrived);
    for (int i = 0; i < 2; i++) {
        yki_kernel_destroy(kernel[i]);
        yki_program_release(program[i]);
        yki_queue_destroy(compute[i]);
        yki_buffer_destroy(mine[i]);
    }
    free(out);
}

/* Both ways at once, over and over, with no wait but what the link promises: a copy comes after
 * what is in both queues. Fills on the sender's queue change the words between copies. */
static void
check_in_turn(pair *p, size_t size)
{
    yki_buffer *from[2], *to[2];
    unsigned char *out = malloc(size);
    yki_event done[2];

    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(yki_buffer_create(p->device[i], size, 0, "from", &from[i]));
        ASSERT_OK(yki_buffer_create(p->device[1 - i], size, 0, "to", &to[i]));
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(yki_queue_fill(p->queue[i], from[i], 0, size,
                                     (round + (uint32_t)i) * 0x01010101u, YKI_NO_WAIT, NULL));
            ASSERT_OK(yki_link_copy(p->link[i], p->queue[i], from[i], 0, p->queue[1 - i], to[i], 0,
                                    size, YKI_NO_WAIT, &done[i]));
        }
        for (int i = 0; i < 2; i++) {
            /* Words of this round, and no later ones: the next fill waits for `done`. */
            ASSERT_OK(yki_event_wait(&done[i]));
            yki_event_release(&done[i]);
            ASSERT_OK(yki_buffer_get(to[i], 0, size, out));
            for (size_t k = 0; k < size; k++)
                if (out[k] != (unsigned char)(round + (uint32_t)i))
                    ck_abort_msg("round %u: byte %zu from %d is %u", round, k, i, out[k]);
        }
    }
    for (int i = 0; i < 2; i++) {
        yki_buffer_destroy(from[i]);
        yki_buffer_destroy(to[i]);
    }
    free(out);
}

static void
check_refusals(pair *p)
{
    yki_buffer *buffer[2];

    for (int i = 0; i < 2; i++)
        ASSERT_OK(yki_buffer_create(p->device[i], 8, 0, "small", &buffer[i]));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_link_copy(p->link[0], p->queue[0], buffer[0], 4, p->queue[1], buffer[1], 0, 5,
                                YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("copying from 5 bytes at offset 4");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_link_copy(p->link[0], p->queue[0], buffer[0], 0, p->queue[1], buffer[1],
                                UINT64_MAX, 5, YKI_NO_WAIT, NULL));
    if (yki_link_get_kind(p->link[0]) == YKI_LINK_STAGED) {
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yki_link_copy(p->link[0], p->queue[1], buffer[1], 0, p->queue[0], buffer[0],
                                    0, 4, YKI_NO_WAIT, NULL));
        ASSERT_DETAIL("cannot copy");
    }
    for (int i = 0; i < 2; i++)
        yki_buffer_destroy(buffer[i]);
}

/* Pinned memory at either end. */
static void
check_pinned(pair *p)
{
    enum { SIZE = 70001 };
    size_t size = p->devices.slow ? 101 : SIZE;
    yki_buffer *plain[2], *pinned[2];
    unsigned char *in = malloc(SIZE), *out = malloc(SIZE);

    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(out);
    make_bytes(in, size, 5);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(yki_buffer_create(p->device[i], size, 0, "plain", &plain[i]));
        ASSERT_OK(yki_buffer_create(p->device[i], size, YKI_BUFFER_PINNED, "pinned", &pinned[i]));
    }
    memcpy(yki_buffer_host(pinned[0]), in, size);
    ASSERT_OK(yki_link_copy(p->link[0], p->queue[0], pinned[0], 0, p->queue[1], plain[1], 0, size,
                            YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_link_copy(p->link[1], p->queue[1], plain[1], 0, p->queue[0], plain[0], 0, size,
                            YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_link_copy(p->link[0], p->queue[0], plain[0], 0, p->queue[1], pinned[1], 0, size,
                            YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(p->queue[1]));
    ck_assert_mem_eq(yki_buffer_host(pinned[1]), in, size);
    if (yki_link_get_kind(p->link[0]) == YKI_LINK_STAGED) {
        memset(yki_buffer_host(pinned[1]), 0, size);
        ASSERT_OK(yki_link_copy(p->link[0], p->queue[0], pinned[0], 0, p->queue[1], pinned[1], 0,
                                size, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_finish(p->queue[1]));
        ck_assert_mem_eq(yki_buffer_host(pinned[1]), in, size);
    }
    for (int i = 0; i < 2; i++) {
        yki_buffer_destroy(plain[i]);
        yki_buffer_destroy(pinned[i]);
    }
    free(in);
    free(out);
}

static void
check_all(pair *p, const char *name)
{
    size_t bytes = p->devices.slow ? 2048 : 1 << 18;

    printf("# %s: %s and %s, %s\n", name, yki_device_id(p->device[0]), yki_device_id(p->device[1]),
           yki_link_get_kind(p->link[0]) == YKI_LINK_SHARED ? "shared" : "staged");
    fflush(stdout);
    check_refusals(p);
    check_sizes(p);
    check_pinned(p);
    check_ping_pong(p, p->devices.slow ? 64 : 1 << 14);
    check_in_turn(p, bytes);
}

/* START_TEST gives a function of its own to each, and TEST_SKIP needs to stand in it. */
#define LINK_TEST(name, setup, hide)                                                               \
    START_TEST(name)                                                                               \
    {                                                                                              \
        pair p = {0};                                                                              \
                                                                                                   \
        if (!test_devices_open(setup, &p.devices))                                                 \
            TEST_SKIP("%s", p.devices.missing);                                                    \
        if (hide)                                                                                  \
            test_devices_hide_host_memory(&p.devices);                                             \
        open_pair(&p, 3 << 20);                                                                    \
        check_all(&p, #name);                                                                      \
        close_pair(&p);                                                                            \
    }                                                                                              \
    END_TEST

LINK_TEST(link_as_is, TEST_AS_IS, false)
LINK_TEST(link_pocl_halves, TEST_POCL_HALVES, false)
LINK_TEST(link_pocl_roots, TEST_POCL_ROOTS, false)
LINK_TEST(link_pocl_beside, TEST_POCL_BESIDE, false)
LINK_TEST(link_rusticl_slices, TEST_RUSTICL_SLICES, false)
LINK_TEST(link_pocl_and_rusticl, TEST_POCL_AND_RUSTICL, false)
/* Neither side's memory is the host's: through pinned memory, as between two GPUs. */
LINK_TEST(link_pocl_roots_through_pinned, TEST_POCL_ROOTS, true)
LINK_TEST(link_pocl_and_rusticl_through_pinned, TEST_POCL_AND_RUSTICL, true)
LINK_TEST(link_oclgrind_slices, TEST_OCLGRIND_SLICES, false)

Suite *
test_suite(void)
{
    Suite *suite = suite_create("link");
    TCase *tcase = test_case(suite, "link");

    /* What kernels do here takes llvmpipe longer than to optimise them. */
    unsetenv("GALLIVM_PERF");
    tcase_add_test(tcase, link_as_is);
    if (test_in_matrix())
        return suite;
    tcase_add_test(tcase, link_pocl_halves);
    tcase_add_test(tcase, link_pocl_roots);
    tcase_add_test(tcase, link_pocl_beside);
    tcase_add_test(tcase, link_rusticl_slices);
    tcase_add_test(tcase, link_pocl_and_rusticl);
    tcase_add_test(tcase, link_pocl_roots_through_pinned);
    tcase_add_test(tcase, link_pocl_and_rusticl_through_pinned);
    tcase_add_test(tcase, link_oclgrind_slices);
    return suite;
}
