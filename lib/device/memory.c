/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - which spaces have one memory, that is one cl_context, and its life.
 *
 * Idea: where a processor and an integrated GPU are devices of one platform and both use
 * the host's memory, a buffer of one can be read and written by the other as it is. So
 * roots that are selected together get one cl_context, if the driver makes one, and if a trial
 * shows that each device sees what the other one has written, also where both write to parts
 * of one buffer at a time. Whoever has buffers of
 * such devices then treats them as parts of one device. All else stays with the space:
 * a program is built for the devices of one space, with options of its own.
 *
 * A root stays alone if its memory is its own, if the host may use its buffers in another way
 * than those of the other, or if it is the same hardware under another name. A space that is
 * there already keeps its memory.
 *
 * What a buffer of such a memory takes is charged to its owner and to the root as
 * everywhere, and to all roots together, because it is the same memory.
 *
 * Not here: whether it pays. --own-weights is there to measure that.
 */
#include <string.h>

#include "device/cache.h"
#include "device/internal.h"

#include "config.h"

/* ---- a trial ---- */

enum { UNTRIED = 0, SHARES, APART };                      /* of context->tried */
enum { WORDS = 4096, GROUP = 64, ROUNDS = 2, TURNS = 8 }; /* words: of a half of the buffer */

static const char source[] = "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void\n"
                             "yki_try_memory(__global uint *x)\n"
                             "{ size_t i = get_global_id(0); x[i] = 3u * x[i] + 1u; }\n";

/* One of two devices at a trial. */
typedef struct side {
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_event newest; /* of its launches; it was flushed */
} side;

typedef struct trial {
    cl_context cl;
    side sides[2];
    cl_mem whole, half; /* half: a view of the second half of the words */
    cl_uint *words;
    bool direct; /* they are the memory of the buffer, which frees them */
} trial;

static void CL_CALLBACK
free_words(cl_mem buffer, void *words)
{
    (void)buffer;
    yki_free_aligned(words);
}

/* Makes a buffer as create_direct and create_plain of buffer.c do. */
static bool
make_buffer(trial *t, bool direct)
{
    enum { PAGE = 4096 };
    const size_t size = 2 * WORDS * sizeof *t->words;
    cl_int error;

    t->words = yki_alloc_aligned(PAGE, size, "a trial");
    if (!t->words)
        return false;
    t->whole = clCreateBuffer(t->cl, CL_MEM_READ_WRITE | (direct ? CL_MEM_USE_HOST_PTR : 0), size,
                              direct ? t->words : NULL, &error);
    if (error != CL_SUCCESS)
        t->whole = NULL;
    t->direct = t->whole && direct &&
                clSetMemObjectDestructorCallback(t->whole, free_words, t->words) == CL_SUCCESS;
    return t->whole && t->direct == direct;
}

static bool
open_side(trial *t, side *s, cl_device_id id)
{
    cl_int error;

    s->queue = clCreateCommandQueue(t->cl, id, 0, &error);
    if (error != CL_SUCCESS)
        s->queue = NULL;
    s->program = s->queue ? yki_probe_program(t->cl, id, source) : NULL;
    if (!s->program)
        return false;
    s->kernel = clCreateKernel(s->program, "yki_try_memory", &error);
    if (error != CL_SUCCESS)
        s->kernel = NULL;
    return s->kernel;
}

static bool
open_trial(trial *t, const yki_root *a, const yki_root *b)
{
    const cl_buffer_region region = {WORDS * sizeof(cl_uint), WORDS * sizeof(cl_uint)};
    cl_int error;

    if (!make_buffer(t, a->traits.direct_host))
        return false;
    t->half = clCreateSubBuffer(t->whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region,
                                &error);
    if (error != CL_SUCCESS)
        t->half = NULL;
    return t->half && open_side(t, &t->sides[0], a->id) && open_side(t, &t->sides[1], b->id);
}

/* Rusticl's clFinish does not wait for what was flushed before. */
static void
end_work(side *s)
{
    if (s->newest) {
        (void)clWaitForEvents(1, &s->newest);
        clReleaseEvent(s->newest);
    }
    if (s->queue)
        clFinish(s->queue);
}

static void
close_trial(trial *t)
{
    for (int i = 0; i < 2; i++)
        end_work(&t->sides[i]);
    for (int i = 0; i < 2; i++) {
        side *s = &t->sides[i];

        if (s->kernel)
            clReleaseKernel(s->kernel);
        if (s->program)
            clReleaseProgram(s->program);
    }
    if (t->half)
        clReleaseMemObject(t->half);
    if (t->whole)
        clReleaseMemObject(t->whole);
    if (!t->direct)
        yki_free_aligned(t->words);
    for (int i = 0; i < 2; i++)
        if (t->sides[i].queue)
            clReleaseCommandQueue(t->sides[i].queue);
}

/* Changes the words of a buffer, after all that the other side has enqueued if that is given. */
static bool
change(side *s, cl_mem buffer, size_t words, const side *behind)
{
    const size_t group = GROUP;
    cl_event made = NULL;
    bool good = clSetKernelArg(s->kernel, 0, sizeof buffer, &buffer) == CL_SUCCESS &&
                clEnqueueNDRangeKernel(s->queue, s->kernel, 1, NULL, &words, &group, behind ? 1 : 0,
                                       behind ? &behind->newest : NULL, &made) == CL_SUCCESS &&
                clFlush(s->queue) == CL_SUCCESS;

    if (good && s->newest)
        clReleaseEvent(s->newest);
    else if (made && !good)
        clReleaseEvent(made);
    if (good)
        s->newest = made;
    return good;
}

/* One device changes the view, the other one all, then the first one the view again. Then each
 * changes a half of its own, several times, and neither waits for the other: a driver that moves
 * whole buffers to and fro would lose what one of them does. At last the first one changes all.
 * Nothing is mapped, and the host waits for the last event alone. */
static bool
play(trial *t, int first)
{
    side *one = &t->sides[first], *other = &t->sides[1 - first];
    bool good = change(one, t->half, WORDS, NULL) &&
                change(other, t->whole, (size_t)2 * WORDS, one) &&
                change(one, t->half, WORDS, other);

    for (int turn = 0; turn < TURNS && good; turn++)
        good =
            change(other, t->half, WORDS, turn ? NULL : one) && change(one, t->whole, WORDS, NULL);
    return good && change(one, t->whole, (size_t)2 * WORDS, other) &&
           clWaitForEvents(1, &one->newest) == CL_SUCCESS;
}

static cl_uint
changed(cl_uint word, int times)
{
    while (times-- > 0)
        word = 3 * word + 1;
    return word;
}

/* Each device begins once, with numbers that it has not seen. */
static bool
check(trial *t, int first)
{
    const size_t size = 2 * WORDS * sizeof *t->words;
    const cl_command_queue writer = t->sides[first].queue, reader = t->sides[1 - first].queue;
    cl_uint seed = 0x9e3779b9u * ((cl_uint)first + 1);
    bool good = true;

    for (cl_uint i = 0; i < 2 * WORDS; i++)
        t->words[i] = seed + i;
    if (!t->direct)
        good = clEnqueueWriteBuffer(writer, t->whole, CL_TRUE, 0, size, t->words, 0, NULL, NULL) ==
               CL_SUCCESS;
    good = good && play(t, first);
    if (!t->direct)
        good = good && clEnqueueReadBuffer(reader, t->whole, CL_TRUE, 0, size, t->words, 0, NULL,
                                           NULL) == CL_SUCCESS;
    for (cl_uint i = 0; i < 2 * WORDS && good; i++)
        good = t->words[i] == changed(seed + i, (i < WORDS ? 2 : 4) + TURNS);
    return good;
}

static cl_context
open_context(const yki_root *root, cl_uint count, const cl_device_id *ids, cl_int *error)
{
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                          (cl_context_properties)root->platform, 0};

    return clCreateContext(properties, count, ids, NULL, NULL, error);
}

/* Returns why they may not share a memory; NULL: they may. */
static const char *
try_sharing(const yki_root *a, const yki_root *b)
{
    const cl_device_id ids[2] = {a->id, b->id};
    trial t = {.cl = NULL};
    cl_int error;
    bool good;

    t.cl = open_context(a, 2, ids, &error);
    if (error != CL_SUCCESS)
        return "the driver makes no context of both";
    good = open_trial(&t, a, b);
    for (int first = 0; first < ROUNDS && good; first++)
        good = check(&t, first);
    close_trial(&t);
    clReleaseContext(t.cl);
    return good ? NULL : "one does not see what the other one has written";
}

/* Returns why it is not worth a trial. */
static const char *
find_reason(const yki_root *a, const yki_root *b)
{
    if (a->platform != b->platform)
        return "they have two drivers";
    if (!a->traits.host_memory || !b->traits.host_memory)
        return "not all of it is the host's";
    if (strcmp(a->info.hardware, b->info.hardware) == 0)
        return "they are the same hardware";
    if (a->rank >= YKI_DRIVER_SIMULATOR || b->rank >= YKI_DRIVER_SIMULATOR)
        return "one is a simulator";
    if (a->traits.direct_host != b->traits.direct_host)
        return "the host may use the memory of only one without mapping it";
    return NULL;
}

/* Hashes all that the finding may depend on. */
static void
trial_key(const yki_root *a, const yki_root *b, char key[33])
{
    const char *const parts[] = {
        PACKAGE_VERSION, source,           a->info.name, a->info.driver, a->info.platform,
        a->info.version, a->info.hardware, b->info.name, b->info.driver, b->info.hardware};
    yki_hash hash;

    yki_hash_start(&hash);
    for (size_t i = 0; i < YKI_COUNT(parts); i++)
        yki_hash_string(&hash, parts[i]);
    yki_hash_add(&hash, &a->traits.direct_host, sizeof a->traits.direct_host);
    yki_hash_hex(&hash, key);
}

/* What failed is not kept: the next context tries again. */
static const char *
find_or_try(const yki_root *a, const yki_root *b)
{
    static const char finding[] = "one memory, also at a time";
    const char *reason;
    bool kept = false;
    char key[33];
    size_t size;
    void *data;

    trial_key(a, b, key);
    if (a->context->cache_dir &&
        yki_cache_load(a->context, key, YOKE_LOG_DEBUG, &data, &size) == YOKE_OK) {
        kept = data && size == sizeof finding && memcmp(data, finding, size) == 0;
        yki_free(data);
    }
    if (kept)
        return NULL;
    reason = try_sharing(a, b);
    if (!reason && a->context->cache_dir)
        yki_cache_store(a->context, key, finding, sizeof finding);
    return reason;
}

static unsigned char *
finding_of(const yki_root *a, const yki_root *b)
{
    yoke_context *context = a->context;

    return &context->tried[(size_t)(a - context->roots) * context->root_count +
                           (size_t)(b - context->roots)];
}

void
yki_sharing_probe(yki_root *a, yki_root *b)
{
    yoke_context *context = a->context;
    const char *reason;

    pthread_mutex_lock(&context->probe_lock);
    if (*finding_of(a, b) == UNTRIED) {
        reason = find_reason(a, b);
        if (!reason)
            reason = find_or_try(a, b);
        if (reason)
            yki_log(YOKE_LOG_DEBUG, "%s and %s have no common memory: %s", a->info.id, b->info.id,
                    reason);
        *finding_of(a, b) = *finding_of(b, a) = reason ? APART : SHARES;
    }
    pthread_mutex_unlock(&context->probe_lock);
}

bool
yki_roots_share(const yki_root *a, const yki_root *b)
{
    return *finding_of(a, b) == SHARES;
}

/* ---- life ---- */

cl_uint
yki_space_list(const yki_space *space, cl_device_id *ids)
{
    if (space->devices[0].kind != YOKE_VIRTUAL_SUBDEVICE) { /* slices of a root are one device */
        ids[0] = space->root->id;
        return 1;
    }
    for (size_t i = 0; i < space->device_count; i++)
        ids[i] = space->devices[i].cl;
    return (cl_uint)space->device_count;
}

static cl_context
open_all(yki_space *const *spaces, size_t count, cl_int *error)
{
    size_t most = 0;
    cl_uint listed = 0;
    cl_device_id *ids;
    cl_context cl = NULL;

    for (size_t i = 0; i < count; i++)
        most += spaces[i]->device_count;
    ids = yki_alloc(most, sizeof *ids, "a space");
    *error = CL_OUT_OF_HOST_MEMORY;
    if (!ids)
        return NULL;
    for (size_t i = 0; i < count; i++)
        listed += yki_space_list(spaces[i], ids + listed);
    cl = open_context(spaces[0]->root, listed, ids, error);
    yki_free(ids);
    return cl;
}

/* A buffer of one device, or a view of it, must suit all. */
static void
suit_all(yki_space *const *spaces, size_t count, yki_memory *memory)
{
    uint64_t allocation = UINT64_MAX;
    uint32_t align = 0;

    for (size_t i = 0; i < count; i++) {
        const yki_device_traits *traits = &spaces[i]->root->traits;

        allocation = YKI_MIN(allocation, traits->max_allocation);
        align = YKI_MAX(align, traits->base_align);
        memory->limit = YKI_MAX(memory->limit, spaces[i]->root->info.memory);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < spaces[i]->device_count; k++) {
            spaces[i]->devices[k].traits.max_allocation = allocation;
            spaces[i]->devices[k].traits.base_align = align;
        }
}

/* Makes one memory of all spaces. Without room for it, or a context, *made stays NULL; `error` is
 * then the driver's. */
static void
make_memory(yki_space *const *spaces, size_t count, yki_memory **made, cl_int *error)
{
    yki_memory *memory = yki_alloc(1, sizeof *memory, "a memory");

    *error = CL_OUT_OF_HOST_MEMORY;
    if (!memory)
        return;
    memory->cl = open_all(spaces, count, error);
    if (*error != CL_SUCCESS) {
        yki_free(memory);
        return;
    }
    atomic_init(&memory->references, (int)count);
    atomic_init(&memory->used, 0);
    for (size_t i = 0; i < count; i++) {
        spaces[i]->memory = memory;
        spaces[i]->cl = memory->cl;
    }
    if (count > 1)
        suit_all(spaces, count, memory);
    *made = memory;
}

yoke_status
yki_memory_create(yki_space *const *spaces, size_t count)
{
    yki_memory *made = NULL;
    cl_int error;

    make_memory(spaces, count, &made, &error);
    if (made)
        return YOKE_OK;
    if (count == 1)
        return yki_cl_fail(error, "clCreateContext", spaces[0]->root->whole, "opening the device");
    for (size_t i = 0; i < count; i++)
        YKI_TRY(yki_memory_create(spaces + i, 1));
    return YOKE_OK;
}

void
yki_memory_leave(yki_space *space)
{
    yki_memory *memory = space->memory;

    if (!memory || atomic_fetch_sub(&memory->references, 1) != 1)
        return;
    clReleaseContext(memory->cl);
    yki_free(memory);
}
