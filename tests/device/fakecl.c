/* SPDX-License-Identifier: Apache-2.0
 *
 * fakecl.c - an OpenCL driver that runs nothing but can claim to be any device: for
 * what discovery must tell apart and no test machine has. The loader opens it when
 * OCL_ICD_VENDORS is its path; YOKE_FAKECL picks one of the scenes below.
 *
 * clCreateSubDevices aborts where no partition is offered, as a driver that has a
 * null entry there would. Everything that would build or run fails with
 * CL_INVALID_OPERATION. Of the scenes "crash", "exit" and "hang" nothing comes back when the
 * loader asks for platforms.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl_icd.h>

#define EXPORT   __attribute__((visibility("default")))
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct _cl_platform_id {
    const cl_icd_dispatch *dispatch;
    const char *name, *scene;
    cl_int devices_error; /* of clGetDeviceIDs */
};

struct _cl_device_id {
    const cl_icd_dispatch *dispatch;
    const char *platform, *name, *version, *extensions;
    cl_device_type type;
    cl_uint units;
    cl_ulong memory;
    cl_bool unavailable, no_compiler;
    cl_device_partition_property partition; /* the one type that is offered; 0: none */
    cl_uint parts;                          /* by affinity */
    cl_uint pci[4];                         /* domain, bus, device, function */
    unsigned char uuid;                     /* repeated 16 times */
    cl_device_id parent;
};

struct _cl_context {
    const cl_icd_dispatch *dispatch;
};

static cl_icd_dispatch table;
static int live; /* sub-devices and contexts */

#define GIB        (UINT64_C(1) << 30)
#define PCI        "cl_khr_byte_addressable_store cl_khr_pci_bus_info"
#define NVIDIA     "cl_nv_device_attribute_query cl_nv_copy_opts"
#define AMD        "cl_amd_device_attribute_query"
#define UUID       "cl_khr_device_uuid"
#define VERSION_12 "OpenCL 1.2 fake"

static struct _cl_platform_id platforms[] = {
    {&table, "NVIDIA CUDA", "gpus", CL_SUCCESS},
    {&table, "AMD Accelerated Parallel Processing", "gpus", CL_SUCCESS},
    {&table, "other", "gpus", CL_SUCCESS},
    {&table, "clvk", "gpus", CL_SUCCESS},
    {&table, "numa", "numa", CL_SUCCESS},
    {&table, "tester", "simulator", CL_SUCCESS},
    {&table, "graphics", "simulator", CL_SUCCESS},
    {&table, "broken", "broken", CL_OUT_OF_RESOURCES},
    {&table, "empty", "broken", CL_SUCCESS},
    {&table, "odd", "broken", CL_SUCCESS},
    {&table, "good", "broken", CL_SUCCESS},
    {&table, "good", "twice", CL_SUCCESS},
    {&table, "good", "twice", CL_SUCCESS},
    {&table, "broken", "nothing", CL_OUT_OF_RESOURCES},
    {&table, "empty", "nothing", CL_SUCCESS},
};

static struct _cl_device_id devices[] = {
    {&table,
     "NVIDIA CUDA",
     "  Fake RTX  ",
     "OpenCL 3.0 CUDA",
     NVIDIA,
     CL_DEVICE_TYPE_GPU,
     132,
     16 * GIB,
     0,
     0,
     0,
     0,
     {0x10, 0x81, 2, 1},
     0,
     NULL},
    {&table,
     "AMD Accelerated Parallel Processing",
     "gfx-fake",
     "OpenCL 2.0 AMD",
     AMD,
     CL_DEVICE_TYPE_GPU,
     36,
     8 * GIB,
     0,
     0,
     0,
     0,
     {0, 3, 0, 0},
     0,
     NULL},
    {&table,
     "other",
     "Fake RTX by another",
     "OpenCL 3.0",
     PCI " " UUID,
     CL_DEVICE_TYPE_GPU,
     132,
     16 * GIB,
     0,
     0,
     0,
     0,
     {0x10, 0x81, 2, 1},
     0x5a,
     NULL},
    {&table,
     "other",
     "no address",
     VERSION_12,
     UUID,
     CL_DEVICE_TYPE_GPU,
     4,
     GIB,
     0,
     0,
     0,
     0,
     {0},
     0x77,
     NULL},
    {&table,
     "other",
     "nothing known",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_GPU,
     4,
     GIB,
     0,
     0,
     0,
     0,
     {0},
     0x77,
     NULL},
    {&table,
     "clvk",
     "gfx-fake",
     "OpenCL 3.0 clvk",
     PCI,
     CL_DEVICE_TYPE_GPU,
     1,
     8 * GIB,
     0,
     0,
     0,
     0,
     {0, 3, 0, 0},
     0,
     NULL},
    {&table,
     "numa",
     "two sockets",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_CPU,
     8,
     4 * GIB,
     0,
     0,
     CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN,
     2,
     {0},
     0,
     NULL},
    {&table,
     "numa",
     "equal only",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_CPU,
     7,
     4 * GIB,
     0,
     0,
     CL_DEVICE_PARTITION_EQUALLY,
     0,
     {0},
     0,
     NULL},
    {&table,
     "tester",
     "claims all",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_ALL & 0xf,
     1,
     GIB,
     0,
     0,
     0,
     0,
     {0},
     0,
     NULL},
    {&table,
     "graphics",
     "a GPU",
     VERSION_12,
     PCI,
     CL_DEVICE_TYPE_GPU,
     1,
     GIB,
     0,
     0,
     0,
     0,
     {0, 1, 0, 0},
     0,
     NULL},
    {&table,
     "odd",
     "unavailable",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_GPU,
     1,
     GIB,
     CL_TRUE,
     0,
     0,
     0,
     {0},
     0,
     NULL},
    {&table,
     "odd",
     "compilerless",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_GPU,
     1,
     GIB,
     0,
     CL_TRUE,
     0,
     0,
     {0},
     0,
     NULL},
    {&table,
     "odd",
     "old",
     "OpenCL 1.1 x",
     "",
     CL_DEVICE_TYPE_GPU,
     1,
     GIB,
     0,
     0,
     0,
     0,
     {0},
     0,
     NULL},
    {&table, "odd", "nonsense", "Vulkan", "", CL_DEVICE_TYPE_GPU, 1, GIB, 0, 0, 0, 0, {0}, 0, NULL},
    {&table,
     "odd",
     "custom",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_CUSTOM,
     1,
     GIB,
     0,
     0,
     0,
     0,
     {0},
     0,
     NULL},
    {&table,
     "odd",
     "memoryless",
     VERSION_12,
     "",
     CL_DEVICE_TYPE_GPU,
     1,
     0,
     0,
     0,
     0,
     0,
     {0},
     0,
     NULL},
    {&table, "good", "works", VERSION_12, "", CL_DEVICE_TYPE_GPU, 1, GIB, 0, 0, 0, 0, {0}, 0, NULL},
};

/* ---- answers ---- */

static cl_int
answer(const void *data, size_t length, size_t size, void *value, size_t *size_ret)
{
    if (value && size < length)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, data, length);
    if (size_ret)
        *size_ret = length;
    return CL_SUCCESS;
}

#define ANSWER(type, ...)                                                                          \
    do {                                                                                           \
        type answer_value = __VA_ARGS__;                                                           \
        return answer(&answer_value, sizeof answer_value, size, value, size_ret);                  \
    } while (0)
#define ANSWER_TEXT(text) return answer(text, strlen(text) + 1, size, value, size_ret)

static cl_int CL_API_CALL
platform_ids(cl_uint entries, cl_platform_id *ids, cl_uint *count)
{
    const char *scene = getenv("YOKE_FAKECL");
    cl_uint found = 0;

    for (size_t i = 0; scene && i < COUNT(platforms); i++)
        if (strcmp(platforms[i].scene, scene) == 0) {
            if (ids && found < entries)
                ids[found] = &platforms[i];
            found++;
        }
    if (count)
        *count = found;
    return found ? CL_SUCCESS : -1001;
}

static cl_int CL_API_CALL
platform_info(cl_platform_id platform, cl_platform_info what, size_t size, void *value,
              size_t *size_ret)
{
    switch (what) {
    case CL_PLATFORM_NAME:
        ANSWER_TEXT(platform->name);
    case CL_PLATFORM_VENDOR:
        ANSWER_TEXT("yoke's tests");
    case CL_PLATFORM_VERSION:
        ANSWER_TEXT(VERSION_12);
    case CL_PLATFORM_PROFILE:
        ANSWER_TEXT("FULL_PROFILE");
    case CL_PLATFORM_EXTENSIONS:
        ANSWER_TEXT("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        ANSWER_TEXT("FAKE");
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
device_ids(cl_platform_id platform, cl_device_type type, cl_uint entries, cl_device_id *ids,
           cl_uint *count)
{
    cl_uint found = 0;

    if (platform->devices_error)
        return platform->devices_error;
    for (size_t i = 0; i < COUNT(devices); i++)
        if (strcmp(devices[i].platform, platform->name) == 0 && (devices[i].type & type)) {
            if (ids && found < entries)
                ids[found] = &devices[i];
            found++;
        }
    if (count)
        *count = found;
    return found ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

/* cl_device_topology_amd of a PCIe device. */
typedef struct topology {
    cl_uint type;
    unsigned char unused[17], bus, device, function;
} topology;

static cl_int
extension_info(cl_device_id d, cl_device_info what, size_t size, void *value, size_t *size_ret)
{
    bool nvidia = strstr(d->extensions, "cl_nv_device_attribute_query") != NULL;
    unsigned char uuid[16];

    memset(uuid, d->uuid, sizeof uuid);
    if (what == 0x4008 && nvidia)
        ANSWER(cl_uint, d->pci[1]);
    if (what == 0x4009 && nvidia)
        ANSWER(cl_uint, d->pci[2] << 3 | d->pci[3]);
    if (what == 0x400A && nvidia)
        ANSWER(cl_uint, d->pci[0]);
    if (what == 0x4037 && strstr(d->extensions, "cl_amd_device_attribute_query"))
        ANSWER(
            topology,
            {1, {0}, (unsigned char)d->pci[1], (unsigned char)d->pci[2], (unsigned char)d->pci[3]});
    if (what == 0x410F && strstr(d->extensions, "cl_khr_pci_bus_info"))
        return answer(d->pci, sizeof d->pci, size, value, size_ret);
    if (what == 0x106A && strstr(d->extensions, "cl_khr_device_uuid"))
        return answer(uuid, sizeof uuid, size, value, size_ret);
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL
device_info(cl_device_id d, cl_device_info what, size_t size, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_DEVICE_NAME:
        ANSWER_TEXT(d->name);
    case CL_DEVICE_VENDOR:
        ANSWER_TEXT("yoke's tests");
    case CL_DRIVER_VERSION:
        ANSWER_TEXT("0");
    case CL_DEVICE_VERSION:
        ANSWER_TEXT(d->version);
    case CL_DEVICE_EXTENSIONS:
        ANSWER_TEXT(d->extensions);
    case CL_DEVICE_TYPE:
        ANSWER(cl_device_type, d->type);
    case CL_DEVICE_AVAILABLE:
        ANSWER(cl_bool, !d->unavailable);
    case CL_DEVICE_COMPILER_AVAILABLE:
        ANSWER(cl_bool, !d->no_compiler);
    case CL_DEVICE_ENDIAN_LITTLE:
        ANSWER(cl_bool, CL_TRUE);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        ANSWER(cl_bool, CL_FALSE);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        ANSWER(cl_uint, d->units);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        ANSWER(cl_ulong, d->memory);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        ANSWER(cl_ulong, d->memory / 4);
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES: /* a maximum is no promise */
        ANSWER(cl_uint, 36);
    case CL_DEVICE_PARTITION_PROPERTIES:
        ANSWER(cl_device_partition_property, d->partition);
    case CL_DEVICE_PARTITION_AFFINITY_DOMAIN:
        ANSWER(cl_device_affinity_domain, CL_DEVICE_AFFINITY_DOMAIN_NUMA);
    default:
        return extension_info(d, what, size, value, size_ret);
    }
}

/* ---- sub-devices ---- */

static cl_int CL_API_CALL
create_subdevices(cl_device_id d, const cl_device_partition_property *properties, cl_uint entries,
                  cl_device_id *ids, cl_uint *count)
{
    cl_uint found;

    if (!d->partition || properties[0] != d->partition)
        abort();
    found =
        d->partition == CL_DEVICE_PARTITION_EQUALLY ? d->units / (cl_uint)properties[1] : d->parts;
    if (count)
        *count = found;
    for (cl_uint i = 0; ids && i < found; i++) {
        if (entries < found)
            return CL_INVALID_VALUE;
        ids[i] = malloc(sizeof *ids[i]);
        if (!ids[i])
            abort();
        live++;
        *ids[i] = *d;
        ids[i]->parent = d;
        ids[i]->units = d->partition == CL_DEVICE_PARTITION_EQUALLY ? (cl_uint)properties[1]
                                                                    : d->units / d->parts;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
release_device(cl_device_id d)
{
    if (d->parent) {
        live--;
        free(d);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
retain_device(cl_device_id d)
{
    (void)d;
    return CL_SUCCESS;
}

/* ---- contexts, and what does not work ---- */

static cl_context CL_API_CALL
create_context(const cl_context_properties *properties, cl_uint count, const cl_device_id *ids,
               void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
               cl_int *error)
{
    cl_context context = malloc(sizeof *context);

    (void)properties, (void)count, (void)ids, (void)notify, (void)user;
    if (context) {
        live++;
        context->dispatch = &table;
    }
    if (error)
        *error = context ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return context;
}

static cl_int CL_API_CALL
release_context(cl_context context)
{
    live--;
    free(context);
    return CL_SUCCESS;
}

static cl_command_queue CL_API_CALL
create_queue(cl_context context, cl_device_id d, cl_command_queue_properties properties,
             cl_int *error)
{
    (void)context, (void)d, (void)properties;
    if (error)
        *error = CL_INVALID_OPERATION;
    return NULL;
}

static cl_program CL_API_CALL
create_program(cl_context context, cl_uint count, const char **strings, const size_t *lengths,
               cl_int *error)
{
    (void)context, (void)count, (void)strings, (void)lengths;
    if (error)
        *error = CL_INVALID_OPERATION;
    return NULL;
}

EXPORT int fakecl_live(void);

/* For the tests: what was made and not released. */
EXPORT int
fakecl_live(void)
{
    return live;
}

EXPORT cl_int CL_API_CALL
clIcdGetPlatformIDsKHR(cl_uint entries, cl_platform_id *ids, cl_uint *count)
{
    const char *scene = getenv("YOKE_FAKECL");

    if (scene && strcmp(scene, "crash") == 0) {
        fprintf(stderr, "fakecl: no thunder\nfakecl: no lightning\n");
        abort();
    }
    if (scene && strcmp(scene, "exit") == 0) {
        fprintf(stderr, "fakecl: no thunder\nfakecl: good bye\n");
        exit(0);
    }
    while (scene && strcmp(scene, "hang") == 0)
        sleep(1);
    table.clGetPlatformIDs = platform_ids;
    table.clGetPlatformInfo = platform_info;
    table.clGetDeviceIDs = device_ids;
    table.clGetDeviceInfo = device_info;
    table.clCreateSubDevices = create_subdevices;
    table.clRetainDevice = retain_device;
    table.clReleaseDevice = release_device;
    table.clCreateContext = create_context;
    table.clReleaseContext = release_context;
    table.clCreateCommandQueue = create_queue;
    table.clCreateProgramWithSource = create_program;
    return platform_ids(entries, ids, count);
}

EXPORT cl_int CL_API_CALL
clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *value,
                  size_t *size_ret)
{
    return platform_info(platform, what, size, value, size_ret);
}

EXPORT void *CL_API_CALL
clGetExtensionFunctionAddress(const char *name)
{
    union {
        cl_int(CL_API_CALL *function)(cl_uint, cl_platform_id *, cl_uint *);
        void *address;
    } entry = {clIcdGetPlatformIDsKHR};

    return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? entry.address : NULL;
}
