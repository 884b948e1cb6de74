/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_flip.c - flips one bit of a buffer, before a launch or after it.
 *
 * The layer notes the buffers among a kernel's arguments. A bit of what a launch changes is found
 * by comparing its buffers before and after. A bit of what it uses is one of the buffers that only
 * one device has used so far: what several devices share is no mistake of one of them.
 *
 * Both wait for the launch, so the flip is over before anybody else reads the buffer.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "faults/layer_internal.h"

enum { MAX_ARGUMENTS = 64 };

typedef struct arguments {
    struct arguments *next;
    cl_kernel kernel;
    cl_mem buffers[MAX_ARGUMENTS];
    unsigned char *before[MAX_ARGUMENTS]; /* what was in them */
} arguments;

typedef struct user {
    struct user *next;
    cl_mem mem;       /* the whole buffer */
    uintptr_t device; /* 0: several */
} user;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static arguments *kernels;
static user *users;
static bool begun;
static uint64_t flipped;

static arguments *
find(cl_kernel kernel)
{
    arguments *a = kernels;

    while (a && a->kernel != kernel)
        a = a->next;
    return a;
}

void
fault_flip_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    cl_mem mem = NULL;
    arguments *a;

    if (size == sizeof mem && value)
        memcpy(&mem, value, sizeof mem);
    if (mem && !fault_object_known(FAULT_MEM, mem))
        mem = NULL;
    pthread_mutex_lock(&lock);
    a = find(kernel);
    if (!a && mem) {
        a = calloc(1, sizeof *a);
        if (!a)
            abort();
        a->kernel = kernel;
        a->next = kernels;
        kernels = a;
    }
    if (a && index < MAX_ARGUMENTS)
        a->buffers[index] = mem;
    pthread_mutex_unlock(&lock);
}

void
fault_flip_kernel_gone(cl_kernel kernel)
{
    pthread_mutex_lock(&lock);
    for (arguments **at = &kernels; *at;) {
        arguments *gone = *at;

        if (gone->kernel != kernel) {
            at = &gone->next;
            continue;
        }
        *at = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&lock);
}

void
fault_flip_mem_gone(void *mem)
{
    pthread_mutex_lock(&lock);
    for (user **at = &users; *at;) {
        user *gone = *at;

        if (gone->mem != mem) {
            at = &gone->next;
            continue;
        }
        *at = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&lock);
}

void
fault_flip_begin(void)
{
    pthread_mutex_lock(&lock);
    begun = true;
    pthread_mutex_unlock(&lock);
}

bool
fault_flip_begun(void)
{
    bool yes;

    pthread_mutex_lock(&lock);
    yes = begun;
    pthread_mutex_unlock(&lock);
    return yes;
}

uint64_t
fault_flip_count(void)
{
    uint64_t count;

    pthread_mutex_lock(&lock);
    count = flipped;
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- who uses what ---- */

static user *
user_of(cl_mem mem)
{
    cl_mem whole = NULL;
    user *u = users;

    fault_next->clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL);
    whole = whole ? whole : mem;
    while (u && u->mem != whole)
        u = u->next;
    if (u)
        return u;
    u = calloc(1, sizeof *u);
    if (!u)
        abort();
    u->mem = whole;
    u->next = users;
    users = u;
    return u;
}

static void
note_users(const arguments *a, uintptr_t device)
{
    for (size_t i = 0; i < MAX_ARGUMENTS; i++) {
        const user *known = users;
        user *u;

        if (!a->buffers[i])
            continue;
        u = user_of(a->buffers[i]);
        if (users != known) /* it is a new one */
            u->device = device;
        else if (u->device != device)
            u->device = 0;
    }
}

/* ---- flipping ---- */

static size_t
size_of(cl_mem mem)
{
    size_t size = 0;

    fault_next->clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof size, &size, NULL);
    return size;
}

static unsigned char *
content(cl_command_queue queue, cl_mem mem)
{
    size_t size = size_of(mem);
    unsigned char *bytes = malloc(size + 1);

    if (!bytes || fault_next->clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, size, bytes, 0, NULL,
                                                  NULL) != CL_SUCCESS)
        abort();
    return bytes;
}

static void
flip_bit(cl_command_queue queue, cl_mem mem, size_t byte, unsigned bit)
{
    unsigned char value;

    if (fault_next->clEnqueueReadBuffer(queue, mem, CL_TRUE, byte, 1, &value, 0, NULL, NULL) !=
        CL_SUCCESS)
        abort();
    value = (unsigned char)(value ^ (1u << bit));
    if (fault_next->clEnqueueWriteBuffer(queue, mem, CL_TRUE, byte, 1, &value, 0, NULL, NULL) !=
        CL_SUCCESS)
        abort();
    flipped++;
}

static void
flip_used(cl_command_queue queue, const arguments *a, uint64_t bit)
{
    const uintptr_t device = fault_queue_device(queue);
    uint64_t bytes = 0, at;

    for (size_t i = 0; i < MAX_ARGUMENTS; i++)
        if (a->buffers[i] && user_of(a->buffers[i])->device == device)
            bytes += size_of(a->buffers[i]);
    at = bytes ? bit / 8 % bytes : 0;
    for (size_t i = 0; bytes && i < MAX_ARGUMENTS; i++) {
        size_t size;

        if (!a->buffers[i] || user_of(a->buffers[i])->device != device)
            continue;
        size = size_of(a->buffers[i]);
        if (at < size) {
            flip_bit(queue, a->buffers[i], at, bit % 8);
            return;
        }
        at -= size;
    }
}

/* Flips the bit in the changed bytes whose number is given; counts them if that is UINT64_MAX. */
static uint64_t
visit_changed(cl_command_queue queue, arguments *a, uint64_t wanted, unsigned bit)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < MAX_ARGUMENTS; i++) {
        unsigned char *after;

        if (!a->buffers[i])
            continue;
        after = content(queue, a->buffers[i]);
        for (size_t b = 0; b < size_of(a->buffers[i]); b++)
            if (after[b] != a->before[i][b] && seen++ == wanted)
                flip_bit(queue, a->buffers[i], b, bit);
        free(after);
    }
    return seen;
}

void
fault_flip_before(cl_command_queue queue, cl_kernel kernel, const fault_flip *flip)
{
    arguments *a;

    pthread_mutex_lock(&lock);
    a = begun ? find(kernel) : NULL;
    if (a)
        note_users(a, fault_queue_device(queue));
    if (a && flip && flip->before)
        flip_used(queue, a, flip->bit);
    for (size_t i = 0; a && flip && i < MAX_ARGUMENTS; i++)
        a->before[i] = a->buffers[i] ? content(queue, a->buffers[i]) : NULL;
    pthread_mutex_unlock(&lock);
}

void
fault_flip_after(cl_command_queue queue, cl_kernel kernel, const fault_flip *flip)
{
    arguments *a;

    pthread_mutex_lock(&lock);
    a = find(kernel);
    if (a && !flip->before) {
        uint64_t changed = visit_changed(queue, a, UINT64_MAX, 0);

        if (changed)
            visit_changed(queue, a, flip->bit / 8 % changed, flip->bit % 8);
    }
    for (size_t i = 0; a && i < MAX_ARGUMENTS; i++) {
        free(a->before[i]);
        a->before[i] = NULL;
    }
    pthread_mutex_unlock(&lock);
}
