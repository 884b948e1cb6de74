/* SPDX-License-Identifier: Apache-2.0
 *
 * shadow.c - what Oclgrind 21 cannot follow, as small as it gets; shadow.sh runs it.
 *
 * shadow whole: a buffer is written in one piece and copied by a kernel; nothing is
 * wrong and nothing is said. shadow parts: the same bytes in two pieces. shadow
 * again: in one piece, but a smaller buffer was there, and released, before. Both
 * are right as well, and Oclgrind takes part of the buffer for uninitialised: its
 * record of a buffer is replaced, at the size of the write, by each write from the
 * host, and is not made anew for a buffer that follows a released one.
 */
#include <stdio.h>
#include <string.h>

#include "device/device.h"

enum { WORDS = 64, BYTES = 4 * WORDS };

/* By a kernel, as programs do; commands that copy have no part in it. */
static yoke_status
launch(yki_queue *queue, const char *file, const char *name, yki_buffer *from, yki_buffer *to)
{
    const uint64_t numbers[] = {0, 0, WORDS};
    const uint32_t last = 0; /* the bytes of a tail, or the pattern */
    const yki_grid grid = {{1, 1, 1}, {1, 1, 1}};
    yki_program *program;
    yki_kernel *kernel;
    unsigned next = 0;
    yoke_status status;

    YKI_TRY(yki_program_get(yki_queue_device(queue), file, "", &program));
    status = yki_kernel_create(program, name, &kernel);
    yki_program_release(program);
    YKI_TRY(status);
    if (from)
        YKI_TRY(yki_kernel_set_buffer(kernel, next++, from));
    YKI_TRY(yki_kernel_set_buffer(kernel, next++, to));
    for (size_t i = from ? 0 : 1; i < YKI_COUNT(numbers); i++) {
        uint64_t value = from || i < 2 ? numbers[i] : BYTES;

        YKI_TRY(yki_kernel_set(kernel, next++, sizeof value, &value));
    }
    YKI_TRY(yki_kernel_set(kernel, next, sizeof last, &last));
    YKI_TRY(yki_queue_launch(queue, kernel, &grid, YKI_NO_WAIT, NULL));
    YKI_TRY(yki_queue_finish(queue));
    yki_kernel_destroy(kernel);
    return YOKE_OK;
}

static yoke_status
run(yoke_device *device, const char *how)
{
    float zeros[WORDS] = {0};
    yki_buffer *from, *to;
    yki_queue *queue;
    yoke_status status;

    YKI_TRY(yki_queue_create(device, false, &queue));
    YKI_TRY(yki_buffer_create(device, BYTES, 0, "to", &to));
    YKI_TRY(yki_buffer_put(to, 0, BYTES, zeros));
    if (strcmp(how, "again") == 0) {
        YKI_TRY(yki_buffer_create(device, BYTES / 2, 0, "before", &from));
        YKI_TRY(yki_buffer_put(from, 0, BYTES / 2, zeros));
        yki_buffer_destroy(from);
        YKI_TRY(yki_buffer_create(device, BYTES, 0, "from", &from));
        YKI_TRY(launch(queue, "fill.cl", "yki_fill", NULL, from));
    } else {
        YKI_TRY(yki_buffer_create(device, BYTES, 0, "from", &from));
        YKI_TRY(yki_buffer_put(from, 0, BYTES, zeros));
        if (strcmp(how, "parts") == 0)
            YKI_TRY(yki_buffer_put(from, 0, 4, zeros));
    }
    status = launch(queue, "copy.cl", "yki_copy", from, to);
    yki_buffer_destroy(from);
    yki_buffer_destroy(to);
    yki_queue_destroy(queue);
    return status;
}

int
main(int argc, char **argv)
{
    yoke_context *context = NULL;
    yoke_selection *selection = NULL;
    yoke_status status = yoke_context_create(NULL, &context);

    if (argc != 2)
        return 2;
    if (status == YOKE_OK)
        status = yoke_selection_create(context, "all", NULL, &selection);
    if (status == YOKE_OK)
        status = run(yoke_selection_get(selection, 0), argv[1]);
    if (status != YOKE_OK)
        fprintf(stderr, "shadow: %s\n", yoke_last_error());
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return status != YOKE_OK;
}
