/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - allocates host memory, with checked sizes and a test hook that makes
 * the n-th allocation fail.
 *
 * The whole library allocates here. So a test that runs a function with n = 1, 2,
 * ... covers every way in which it can run out of memory (tests/faults).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static atomic_uint_fast64_t allocations; /* since the last yki_alloc_fail_at */
static atomic_uint_fast64_t fail_at;     /* 0: never */
static atomic_uint_fast64_t largest;     /* since the last yki_alloc_largest */
static void (*_Atomic watcher)(void);

uint64_t
yki_alloc_fail_at(uint64_t n)
{
    uint64_t made = atomic_exchange(&allocations, 0);

    atomic_store(&fail_at, n);
    return made;
}

void
yki_alloc_watch(void (*seen)(void))
{
    atomic_store(&watcher, seen);
}

uint64_t
yki_alloc_largest(void)
{
    return atomic_exchange(&largest, 0);
}

/* Counts an allocation and tells whether it is the one that has to fail. The largest size is that
 * of all requests, including those that fail. */
static bool
injected(size_t count, size_t size)
{
    uint64_t n = atomic_fetch_add(&allocations, 1) + 1;
    uint64_t bytes = size && count > UINT64_MAX / size ? UINT64_MAX : (uint64_t)count * size;
    void (*seen)(void) = atomic_load(&watcher);

    if (seen)
        seen();
    if (bytes > atomic_load(&largest))
        atomic_store(&largest, bytes);
    return n == atomic_load(&fail_at);
}

static void *
out_of_memory(size_t count, size_t size, const char *what)
{
    if (count == 1)
        yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for %s (%zu bytes)", what, size);
    else
        yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for %s (%zu of %zu bytes)", what, count,
                 size);
    return NULL;
}

void *
yki_alloc(size_t count, size_t size, const char *what)
{
    /* calloc checks the product; malloc(0) may be NULL, which would read as a failure. */
    void *memory = injected(count, size) ? NULL : calloc(count ? count : 1, size ? size : 1);

    return memory ? memory : out_of_memory(count, size, what);
}

yoke_status
yki_grow(void **array, size_t *capacity, size_t count, size_t size, const char *what)
{
    size_t wanted = *capacity ? *capacity : 8;
    void *memory;

    if (count <= *capacity)
        return YOKE_OK;
    while (wanted < count) {
        if (wanted > SIZE_MAX / 2 / (size ? size : 1)) {
            out_of_memory(count, size, what);
            return YOKE_ERROR_OUT_OF_MEMORY;
        }
        wanted *= 2;
    }
    memory = yki_alloc(wanted, size, what);
    if (!memory)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (*array)
        memcpy(memory, *array, *capacity * size);
    free(*array);
    *array = memory;
    *capacity = wanted;
    return YOKE_OK;
}

void *
yki_alloc_aligned(size_t alignment, size_t size, const char *what)
{
    void *memory = NULL;

    if (injected(1, size) || posix_memalign(&memory, alignment, size ? size : alignment))
        return out_of_memory(1, size, what);
    return memory;
}

void
yki_free(void *memory)
{
    free(memory);
}

void
yki_free_aligned(void *memory)
{
    free(memory);
}

char *
yki_strdup(const char *string, const char *what)
{
    size_t size = strlen(string) + 1;
    char *copy = yki_alloc(1, size, what);

    return copy ? memcpy(copy, string, size) : NULL;
}

char *
yki_format(const char *format, ...)
{
    va_list args;
    int length;
    char *text;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        yki_fail(YOKE_ERROR_INTERNAL, "bad format \"%s\"", format);
        return NULL;
    }
    text = yki_alloc(1, (size_t)length + 1, "a line of text");
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

void
yoke_free(void *memory)
{
    free(memory);
}
