/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_device.c - which device a queue belongs to, and the rules for devices
 * and steps: be slower, fail an enqueue.
 *
 * A device is named by text:
 *
 *   name = root ["/" layout "." part] ["#" queue]
 *   root = ("gpu" | "cpu" | "acc") ":" number | "name~" text
 *
 * Numbers of a type count in the order the loader lists devices; where drivers of
 * several platforms offer one type, yoke may number them otherwise, and "name~" (a
 * part of the device's name) is exact. `part` is the index of a sub-device in its
 * clCreateSubDevices; the layout is not looked at. Without a part only queues on
 * the whole device match, and slices are such: "#2" picks the third queue made on
 * the device, counted from the first rule or queue on.
 *
 * A step begins when a test says so, else with each launch of the kernel named by
 * YOKE_FAULT_STEP_KERNEL on the rule's device, else each launch on it is a step.
 *
 * YOKE_SLOW="cpu:0/2.1:3:100" is: three times as slow from step 100 on; a fourth
 * number is the last such step. Several rules have commas between them.
 *
 * YOKE_FLIP="cpu:0/2.1:100:3:17" is: in step 100 a bit flips in what the third launch changes,
 * number 17 of them; a fourth number is the last such step.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/layer_internal.h"

enum { MAX_RULES = 16, ROOT_SIZE = 160, BUCKETS = 256 };

typedef struct device_name {
    char root[ROOT_SIZE];
    long part;  /* -1: the whole device */
    long queue; /* -1: any */
} device_name;

typedef enum rule_kind { RULE_FREE, RULE_SLOW, RULE_FAIL, RULE_FLIP } rule_kind;

typedef struct rule {
    rule_kind kind;
    device_name device;
    void *handle; /* a queue, instead of `device` */
    double ratio;
    uint64_t from, to;
    uint64_t nth, enqueues, enqueues_step; /* a failing enqueue: which, and how far we are */
    int code;
    char kernel[64], until[64]; /* a bit that flips: whose launches count, and what ends them; "" */
    uint64_t bit;
    bool on, before, moves, ended;
    uint64_t launches, step_launches;
} rule;

typedef struct queue_record {
    struct queue_record *next;
    cl_command_queue queue;
    cl_device_id root;
    char id[16];          /* "cpu:0" */
    char name[ROOT_SIZE]; /* CL_DEVICE_NAME of the root */
    long part, number;    /* -1 for a whole device; number among the device's queues */
    bool timed;           /* the application asked for profiling */
} queue_record;

typedef struct part_record {
    struct part_record *next;
    cl_device_id device, parent;
    long index;
} part_record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rule rules[MAX_RULES];
static queue_record *queues[BUCKETS];
static part_record *parts;
static uint64_t announced_step;
static bool steps_announced;
static const char *step_kernel;

/* ---- names ---- */

static bool
digits(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return length > 0;
}

static bool
parse_name(const char *text, device_name *name)
{
    const char *end = text + strlen(text), *slash = strrchr(text, '/');
    const char *hash = strrchr(text, '#'), *dot;
    size_t length;

    memset(name, 0, sizeof *name);
    name->part = name->queue = -1;
    if (hash && digits(hash + 1, (size_t)(end - hash - 1))) {
        name->queue = atol(hash + 1);
        end = hash;
    }
    if (slash && slash < end) {
        dot = memchr(slash, '.', (size_t)(end - slash));
        if (dot && digits(dot + 1, (size_t)(end - dot - 1))) {
            name->part = atol(dot + 1);
            end = slash;
        }
    }
    length = (size_t)(end - text);
    if (length == 0 || length >= sizeof name->root)
        return false;
    memcpy(name->root, text, length);
    if (strncmp(name->root, "name~", 5) == 0)
        return name->root[5] != '\0';
    return (strncmp(name->root, "gpu:", 4) == 0 || strncmp(name->root, "cpu:", 4) == 0 ||
            strncmp(name->root, "acc:", 4) == 0) &&
           digits(name->root + 4, strlen(name->root + 4));
}

static bool
matches(const rule *r, const queue_record *q)
{
    const device_name *d = &r->device;

    if (r->handle)
        return r->handle == (void *)q->queue;
    if (d->part != q->part || (d->queue >= 0 && d->queue != q->number))
        return false;
    if (strncmp(d->root, "name~", 5) == 0)
        return strstr(q->name, d->root + 5) != NULL;
    return strcmp(d->root, q->id) == 0;
}

static const char *
type_name(cl_device_id device)
{
    cl_device_type type = 0;

    fault_next->clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    type &= ~(cl_device_type)CL_DEVICE_TYPE_DEFAULT;
    return type == CL_DEVICE_TYPE_GPU ? "gpu" : type == CL_DEVICE_TYPE_CPU ? "cpu" : "acc";
}

/* "cpu:1": the second of its type in the loader's order. */
static void
find_id(cl_device_id wanted, char *id, size_t size)
{
    enum { MOST = 32 };
    cl_platform_id platforms[MOST];
    cl_device_id devices[MOST];
    cl_uint platform_count = 0, device_count, number = 0;
    const char *type = type_name(wanted);

    snprintf(id, size, "?");
    if (fault_next->clGetPlatformIDs(MOST, platforms, &platform_count) != CL_SUCCESS)
        return;
    for (cl_uint p = 0; p < platform_count && p < MOST; p++) {
        if (fault_next->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST, devices,
                                       &device_count) != CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < device_count && d < MOST; d++) {
            if (devices[d] == wanted) {
                snprintf(id, size, "%s:%u", type, number);
                return;
            }
            if (strcmp(type_name(devices[d]), type) == 0)
                number++;
        }
    }
}

/* ---- queues and sub-devices ---- */

void
fault_subdevices_made(cl_device_id parent, const cl_device_id *made, cl_uint count)
{
    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; i < count; i++) {
        part_record *part = parts;

        while (part && part->device != made[i])
            part = part->next;
        if (!part) {
            part = calloc(1, sizeof *part);
            if (!part)
                abort();
            part->next = parts;
            parts = part;
        }
        part->device = made[i];
        part->parent = parent;
        part->index = (long)i;
    }
    pthread_mutex_unlock(&lock);
}

static queue_record **
find_queue(cl_command_queue queue)
{
    queue_record **at = &queues[((uintptr_t)queue >> 4) % BUCKETS];

    while (*at && (*at)->queue != queue)
        at = &(*at)->next;
    return at;
}

/* The whole device behind a device, and which part of it that is. A driver may give a new
 * whole device the address of a part that is gone, so the driver is asked. */
static cl_device_id
find_root(cl_device_id device, long *index)
{
    cl_device_id parent = NULL;

    *index = -1;
    if (fault_next->clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent,
                                    NULL) != CL_SUCCESS ||
        !parent)
        return device;
    for (const part_record *part = parts; part; part = part->next)
        if (part->device == device)
            *index = part->index;
    return parent;
}

void
fault_queue_made(cl_command_queue queue, cl_device_id device, bool timed)
{
    queue_record *q = calloc(1, sizeof *q);

    if (!q)
        abort();
    pthread_mutex_lock(&lock);
    q->queue = queue;
    q->timed = timed;
    q->root = find_root(device, &q->part);
    find_id(q->root, q->id, sizeof q->id);
    fault_next->clGetDeviceInfo(q->root, CL_DEVICE_NAME, sizeof q->name, q->name, NULL);
    for (int b = 0; b < BUCKETS; b++)
        for (const queue_record *other = queues[b]; other; other = other->next)
            if (other->root == q->root && other->part == q->part && other->number >= q->number)
                q->number = other->number + 1;
    *find_queue(queue) = q;
    pthread_mutex_unlock(&lock);
}

void
fault_queue_gone(cl_command_queue queue)
{
    queue_record **at, *gone;

    pthread_mutex_lock(&lock);
    at = find_queue(queue);
    gone = *at;
    if (gone)
        *at = gone->next;
    /* The next queue may get this address. */
    for (rule *r = rules; r < rules + MAX_RULES; r++)
        if (r->handle == (void *)queue)
            r->kind = RULE_FREE;
    pthread_mutex_unlock(&lock);
    free(gone);
}

bool
fault_queue_timed_by_us(cl_command_queue queue)
{
    const queue_record *q;
    bool ours;

    pthread_mutex_lock(&lock);
    q = *find_queue(queue);
    ours = q && !q->timed;
    pthread_mutex_unlock(&lock);
    return ours;
}

/* ---- rules ---- */

static uint64_t
step_of(const rule *r)
{
    if (steps_announced)
        return announced_step;
    return step_kernel ? r->step_launches : r->launches;
}

cl_int
fault_enqueue_error(cl_command_queue queue)
{
    cl_int error = CL_SUCCESS;
    const queue_record *q;

    pthread_mutex_lock(&lock);
    q = *find_queue(queue);
    for (rule *r = rules; q && r < rules + MAX_RULES; r++) {
        if (r->kind != RULE_FAIL || !matches(r, q))
            continue;
        if (step_of(r) != r->enqueues_step) {
            r->enqueues_step = step_of(r);
            r->enqueues = 0;
        }
        r->enqueues++;
        if ((r->enqueues == r->nth || (r->on && r->enqueues > r->nth)) &&
            r->enqueues_step == r->from) {
            error = r->code;
            if (!r->on)
                r->nth = 0; /* once */
        }
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static bool
is_step_kernel(cl_kernel kernel)
{
    char name[256] = "";

    return step_kernel &&
           fault_next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL) ==
               CL_SUCCESS &&
           strcmp(name, step_kernel) == 0;
}

double
fault_launch_ratio(cl_command_queue queue, cl_kernel kernel)
{
    bool begins = is_step_kernel(kernel);
    double ratio = 1;
    const queue_record *q;

    pthread_mutex_lock(&lock);
    q = *find_queue(queue);
    for (rule *r = rules; q && r < rules + MAX_RULES; r++) {
        if (r->kind == RULE_FREE || !matches(r, q))
            continue;
        r->launches++;
        r->step_launches += begins;
        if (r->kind == RULE_SLOW && step_of(r) >= r->from && step_of(r) <= r->to)
            ratio = r->ratio;
    }
    pthread_mutex_unlock(&lock);
    return ratio;
}

void
fault_set_step(uint64_t step)
{
    pthread_mutex_lock(&lock);
    announced_step = step;
    steps_announced = true;
    pthread_mutex_unlock(&lock);
}

/* The rule of that kind for that device, else a free one, else NULL. */
static rule *
place_rule(rule_kind kind, const device_name *device, void *handle)
{
    rule *place = NULL;

    for (rule *r = rules; r < rules + MAX_RULES; r++) {
        if (r->kind == kind && r->handle == handle &&
            (handle || memcmp(&r->device, device, sizeof *device) == 0))
            return r;
        if (r->kind == RULE_FREE && !place)
            place = r;
    }
    return place;
}

static bool
add_rule(rule_kind kind, const char *text, void *handle, const rule *values)
{
    device_name device;
    rule *r;

    memset(&device, 0, sizeof device);
    if (!handle && (!text || !parse_name(text, &device)))
        return false;
    pthread_mutex_lock(&lock);
    r = place_rule(kind, &device, handle);
    if (r) {
        uint64_t launches = r->launches, step_launches = r->step_launches;

        *r = *values;
        r->kind = kind;
        r->device = device;
        r->handle = handle;
        r->launches = launches; /* counted on: `from` is a step since the first rule */
        r->step_launches = step_launches;
    }
    pthread_mutex_unlock(&lock);
    return r != NULL;
}

bool
fault_add_slow(const char *device, double ratio, uint64_t from, uint64_t to)
{
    rule values = {.ratio = ratio, .from = from, .to = to};

    return ratio >= 1 && add_rule(RULE_SLOW, device, NULL, &values);
}

bool
fault_add_slow_queue(void *queue, double ratio, uint64_t from, uint64_t to)
{
    rule values = {.ratio = ratio, .from = from, .to = to};

    return ratio >= 1 && queue && add_rule(RULE_SLOW, NULL, queue, &values);
}

bool
fault_add_enqueue_error(const char *device, uint64_t step, uint64_t n, int code)
{
    rule values = {.from = step, .nth = n, .code = code};

    return n > 0 && add_rule(RULE_FAIL, device, NULL, &values);
}

bool
fault_add_loss(const char *device, uint64_t step, uint64_t n, int code)
{
    rule values = {.from = step, .nth = n, .code = code, .on = true};

    return n > 0 && add_rule(RULE_FAIL, device, NULL, &values);
}

/* Counts in `enqueues`, as failing enqueues do. */
static bool
flips_now(rule *r, const char *kernel)
{
    if (step_of(r) != r->enqueues_step) {
        r->enqueues_step = step_of(r);
        r->enqueues = 0;
        r->ended = false;
    }
    r->ended |= strcmp(kernel, r->until) == 0;
    if (r->ended || (r->kernel[0] && strcmp(kernel, r->kernel) != 0))
        return false;
    r->enqueues++;
    return (r->enqueues == r->nth || (r->on && r->enqueues > r->nth)) &&
           r->enqueues_step >= r->from && r->enqueues_step <= r->to;
}

bool
fault_launch_flips(cl_command_queue queue, cl_kernel kernel, fault_flip *flip)
{
    char name[256] = "";
    const queue_record *q;
    bool flips = false;

    if (!fault_flip_begun()) /* the usual case costs nothing */
        return false;
    fault_next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    pthread_mutex_lock(&lock);
    q = *find_queue(queue);
    for (rule *r = rules; q && r < rules + MAX_RULES; r++)
        if (r->kind == RULE_FLIP && matches(r, q) && flips_now(r, name)) {
            *flip = (fault_flip){.bit = r->bit, .before = r->before};
            r->bit += r->moves ? 8 : 0;
            flips = true;
        }
    pthread_mutex_unlock(&lock);
    return flips;
}

uintptr_t
fault_queue_device(cl_command_queue queue)
{
    const queue_record *q;
    uintptr_t number = 0;

    pthread_mutex_lock(&lock);
    q = *find_queue(queue);
    if (q)
        number = (uintptr_t)q->root + (uintptr_t)(q->part + 1);
    pthread_mutex_unlock(&lock);
    return number;
}

bool
fault_add_flip(const fault_flip *f)
{
    rule values = {.from = f->from,
                   .to = f->to,
                   .nth = f->nth,
                   .bit = f->bit,
                   .on = f->on,
                   .moves = f->moves,
                   .before = f->before};

    snprintf(values.kernel, sizeof values.kernel, "%s", f->kernel ? f->kernel : "");
    snprintf(values.until, sizeof values.until, "%s", f->until ? f->until : "");
    fault_flip_begin();
    return f->nth > 0 && add_rule(RULE_FLIP, f->device, NULL, &values);
}

/* "cpu:0/2.1:3:100:200": the numbers are behind the last colons that only numbers follow. Cuts them
 * off, the last one first. Returns how many there are, at most `most`; -1: something else is there.
 */
static int
cut_numbers(char *text, double *numbers, int most)
{
    int count = 0;

    while (count < most) {
        char *colon = strrchr(text, ':'), *end;

        /* "cpu:0" has a colon of its own. */
        if (!colon || colon - text <= 3)
            break;
        numbers[count] = strtod(colon + 1, &end);
        if (end == colon + 1 || *end)
            break;
        count++;
        *colon = '\0';
    }
    return count;
}

/* Step, launch, bit, and the last step; without that, once. */
static bool
parse_flip(char *text)
{
    double numbers[4];
    int count = cut_numbers(text, numbers, 4);
    fault_flip flip = {.device = text};

    if (count < 3)
        return false;
    flip.from = flip.to = (uint64_t)numbers[count - 1];
    flip.nth = (uint64_t)numbers[count - 2];
    flip.bit = (uint64_t)numbers[count - 3];
    if (count > 3)
        flip.to = (uint64_t)numbers[0];
    return fault_add_flip(&flip);
}

static bool
parse_slow(char *text)
{
    double numbers[3];
    int count = cut_numbers(text, numbers, 3);

    if (count < 2)
        return false;
    if (count == 2)
        return fault_add_slow(text, numbers[1], (uint64_t)numbers[0], UINT64_MAX);
    return fault_add_slow(text, numbers[2], (uint64_t)numbers[1], (uint64_t)numbers[0]);
}

static bool
parse_all(const char *text, bool (*parse)(char *))
{
    char *copy = strdup(text ? text : ""), *rest = copy, *item;
    bool good = copy != NULL;

    while (good && (item = strsep(&rest, ",")))
        good = !*item || parse(item);
    free(copy);
    return good;
}

bool
fault_device_environment(void)
{
    const char *kernel = getenv("YOKE_FAULT_STEP_KERNEL");
    bool good = parse_all(getenv("YOKE_SLOW"), parse_slow);

    good = parse_all(getenv("YOKE_FLIP"), parse_flip) && good;
    if (kernel && *kernel)
        step_kernel = strdup(kernel);
    return good;
}
