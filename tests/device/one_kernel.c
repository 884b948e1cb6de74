/* SPDX-License-Identifier: Apache-2.0
 *
 * one_kernel.c - see one_kernel.h.
 */
#include <math.h>
#include <stdlib.h>

#include "one_kernel.h"
#include "support/support.h"

static yoke_context *context;
static yoke_selection *selection;
yki_queue *queue;
static yki_buffer *made[24];
static size_t made_count;

void
open_device(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    ASSERT_OK(yki_queue_create(yoke_selection_get(selection, 0), false, &queue));
}

void
close_device(void)
{
    while (made_count > 0)
        yki_buffer_destroy(made[--made_count]);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

yki_buffer *
buffer(size_t size, const void *bytes)
{
    ck_assert_uint_lt(made_count, YKI_COUNT(made));
    ASSERT_OK(yki_buffer_create(yki_queue_device(queue), size, 0, "of a test", &made[made_count]));
    ASSERT_OK(yki_buffer_put(made[made_count], 0, size, bytes));
    return made[made_count++];
}

yki_buffer *
floats(size_t count, const float *values)
{
    return buffer(count * sizeof *values, values);
}

call
begin(const char *file, const char *options, const char *name, size_t local)
{
    call c = {.local = local};
    yki_program *program;

    ASSERT_OK(yki_program_get(yki_queue_device(queue), file, options, &program));
    ASSERT_OK(yki_kernel_create(program, name, &c.kernel));
    yki_program_release(program);
    return c;
}

void
pass_buffer(call *c, yki_buffer *value)
{
    ASSERT_OK(yki_kernel_set_buffer(c->kernel, c->next++, value));
}

void
pass_int(call *c, int32_t value)
{
    ASSERT_OK(yki_kernel_set(c->kernel, c->next++, sizeof value, &value));
}

void
pass_float(call *c, float value)
{
    ASSERT_OK(yki_kernel_set(c->kernel, c->next++, sizeof value, &value));
}

void
launch(call *c, size_t groups)
{
    const yki_grid grid = {{groups, 1, 1}, {c->local, 1, 1}};

    ASSERT_OK(yki_queue_launch(queue, c->kernel, &grid, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    yki_kernel_destroy(c->kernel);
}

void
ramp(float *values, size_t count, float from, float step)
{
    for (size_t i = 0; i < count; i++)
        values[i] = from + step * (float)((i * 37) % 64);
}

void
expect(yki_buffer *got, const double *wanted, size_t count, const char *what)
{
    float *values = malloc(count * sizeof *values);

    ASSERT_OK(yki_buffer_get(got, 0, count * sizeof *values, values));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs((double)values[i] - wanted[i]) <= 1e-6 * fmax(1, fabs(wanted[i])),
                      "%s %zu: %.9g instead of %.9g", what, i, (double)values[i], wanted[i]);
    free(values);
}

uint32_t
random_word(uint32_t element, const uint32_t keys[2])
{
    uint32_t x = element * 0x9e3779b1u ^ keys[0];

    x = (x ^ x >> 16) * 0x7feb352du ^ keys[1];
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}
