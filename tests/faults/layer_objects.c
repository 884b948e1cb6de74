/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_objects.c - counts the references an application holds to OpenCL
 * objects, so that a test can say what leaked and who made it.
 *
 * A chained hash table by handle. Only the application's own references are
 * counted: what a driver keeps alive behind them (a queue its context) is the
 * driver's. Devices that are not sub-devices have no count, as in OpenCL.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/layer_internal.h"

enum { BUCKETS = 4096 };

typedef struct object {
    struct object *next;
    void *handle;
    fault_kind kind;
    int64_t references;
    const char *call; /* that made it */
} object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *buckets[BUCKETS];
static int64_t live[FAULT_KINDS];
static uint64_t overreleased;

static object **
find(fault_kind kind, void *handle)
{
    object **at = &buckets[((uintptr_t)handle >> 4) % BUCKETS];

    while (*at && ((*at)->handle != handle || (*at)->kind != kind))
        at = &(*at)->next;
    return at;
}

static void
add(fault_kind kind, void *handle, const char *call)
{
    object **at = find(kind, handle);

    /* A handle that comes again is one more reference. */
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            abort(); /* a harness that lost count must not go on */
        (*at)->handle = handle;
        (*at)->kind = kind;
        (*at)->call = call;
    }
    (*at)->references++;
    live[kind]++;
}

void
fault_object_add(fault_kind kind, void *handle, const char *call)
{
    if (!handle)
        return;
    pthread_mutex_lock(&lock);
    add(kind, handle, call);
    pthread_mutex_unlock(&lock);
}

void
fault_object_retain(fault_kind kind, void *handle, const char *call)
{
    pthread_mutex_lock(&lock);
    /* Retaining a whole device does nothing; so does releasing it below. */
    if (kind != FAULT_SUBDEVICE || *find(kind, handle))
        add(kind, handle, call);
    pthread_mutex_unlock(&lock);
}

bool
fault_object_release(fault_kind kind, void *handle, const char *call)
{
    object **at, *gone = NULL;

    (void)call;
    pthread_mutex_lock(&lock);
    at = find(kind, handle);
    if (*at) {
        live[kind]--;
        if (--(*at)->references == 0) {
            gone = *at;
            *at = gone->next;
        }
    } else if (kind != FAULT_SUBDEVICE) {
        overreleased++;
    }
    pthread_mutex_unlock(&lock);
    free(gone);
    return gone != NULL;
}

bool
fault_object_known(fault_kind kind, void *handle)
{
    bool known;

    pthread_mutex_lock(&lock);
    known = *find(kind, handle) != NULL;
    pthread_mutex_unlock(&lock);
    return known;
}

int64_t
fault_object_live(fault_kind kind)
{
    int64_t count;

    pthread_mutex_lock(&lock);
    count = kind < FAULT_KINDS ? live[kind] : 0;
    pthread_mutex_unlock(&lock);
    return count;
}

uint64_t
fault_object_overreleased(void)
{
    uint64_t count;

    pthread_mutex_lock(&lock);
    count = overreleased;
    pthread_mutex_unlock(&lock);
    return count;
}

static const char *
kind_name(fault_kind kind)
{
    switch (kind) {
#define NAME(name, text)                                                                           \
    case FAULT_##name:                                                                             \
        return text;
        FAULT_KIND_MAP(NAME)
#undef NAME
    case FAULT_KINDS:
        break;
    }
    return "object";
}

size_t
fault_object_describe(char *text, size_t size, bool subdevices)
{
    size_t count = 0, used = 0;

    if (size)
        text[0] = '\0';
    pthread_mutex_lock(&lock);
    for (int b = 0; b < BUCKETS; b++)
        for (const object *o = buckets[b]; o; o = o->next) {
            if (o->kind == FAULT_SUBDEVICE && !subdevices)
                continue;
            if (used < size) {
                int wrote = snprintf(text + used, size - used, "%s%s (%s, %lld references)",
                                     count ? ", " : "", kind_name(o->kind), o->call,
                                     (long long)o->references);

                used += wrote > 0 ? (size_t)wrote : 0;
            }
            count++;
        }
    pthread_mutex_unlock(&lock);
    return count;
}
