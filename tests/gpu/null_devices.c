/* SPDX-License-Identifier: Apache-2.0
 *
 * null_devices.c - which GPUs the null driver pretends to be, and what they answer.
 *
 * YOKE_NULL_DEVICES="h200 h200" lists them; one H200 unless told otherwise. The answers are those
 * of the vendors' drivers, as far as yoke and CLBlast ask.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/null_internal.h"

enum {
    QUERY_PCI_BUS_INFO_KHR = 0x410F,
    /* of cl_nv_device_attribute_query, which CLBlast asks for */
    CAPABILITY_MAJOR = 0x4000,
    CAPABILITY_MINOR
};

#define ROUNDING (CL_FP_ROUND_TO_NEAREST | CL_FP_ROUND_TO_ZERO | CL_FP_ROUND_TO_INF)
#define EXACT    (CL_FP_DENORM | CL_FP_INF_NAN | ROUNDING | CL_FP_FMA)

/* Two of one kind: what they have in common. */
#define NVIDIA_EXTENSIONS                                                                          \
    "cl_khr_fp64 cl_khr_byte_addressable_store cl_khr_pci_bus_info cl_nv_device_attribute_query"
#define HOPPER                                                                                     \
    .vendor = "NVIDIA Corporation", .driver = "580.159.03", .version = "OpenCL 3.0 CUDA",          \
    .type = CL_DEVICE_TYPE_GPU, .vendor_id = 0x10de, .units = 132, .clock = 1980, .align = 4096,   \
    .line = 128, .cache = 4325376, .local = 49152, .group = 1024,                                  \
    .single = EXACT | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, .twice = EXACT

static const null_model models[] = {
    {HOPPER, .name = "h200", .device = "NVIDIA H200", .extensions = NVIDIA_EXTENSIONS,
     .memory = 150000000000, .allocation = 37500000000},
    {HOPPER, .name = "h100", .device = "NVIDIA H100 80GB HBM3",
     .extensions = NVIDIA_EXTENSIONS " cl_nv_compiler_options", .memory = 85017493504,
     .allocation = 21254373376},
    {.name = "mi300x",
     .device = "gfx942:sramecc+:xnack-",
     .vendor = "Advanced Micro Devices, Inc.",
     .driver = "3635.0 (HSA1.1,LC)",
     .version = "OpenCL 2.0 ",
     .extensions = "cl_khr_fp64 cl_khr_fp16 cl_khr_byte_addressable_store cl_khr_pci_bus_info",
     .type = CL_DEVICE_TYPE_GPU,
     .vendor_id = 0x1002,
     .units = 304,
     .clock = 2100,
     .align = 1024,
     .line = 128,
     .memory = 206141652992,
     .allocation = 175220405043,
     .cache = 32768,
     .local = 65536,
     .group = 256,
     .single = EXACT | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT,
     .twice = EXACT},
    {.name = "arc",
     .device = "Intel(R) Arc(TM) A770 Graphics",
     .vendor = "Intel(R) Corporation",
     .driver = "25.18.33578",
     .version = "OpenCL 3.0 NEO ",
     .extensions = "cl_khr_fp16 cl_khr_byte_addressable_store cl_khr_pci_bus_info",
     .type = CL_DEVICE_TYPE_GPU,
     .vendor_id = 0x8086,
     .units = 512,
     .clock = 2400,
     .align = 1024,
     .line = 64,
     .memory = 16225243136,
     .allocation = 4294959104,
     .cache = 16777216,
     .local = 65536,
     .group = 1024,
     .single = EXACT | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
    {.name = "mali",
     .device = "Mali-G610 r0p0",
     .vendor = "ARM",
     .driver = "3.0",
     .version = "OpenCL 3.0 v1.g6p0-01eac0",
     .extensions = "cl_khr_fp16 cl_khr_byte_addressable_store",
     .type = CL_DEVICE_TYPE_GPU,
     .vendor_id = 0xa8670000,
     .units = 4,
     .clock = 1000,
     .align = 1024,
     .line = 64,
     .memory = 8000000000,
     .allocation = 8000000000,
     .cache = 1048576,
     .local = 32768,
     .group = 256,
     .host_memory = CL_TRUE,
     .single = EXACT | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
    {.name = "adreno",
     .device = "QUALCOMM Adreno(TM)",
     .vendor = "QUALCOMM",
     .driver = "OpenCL 3.0 QUALCOMM build: commit unknown Compiler E031.45.02.16",
     .version = "OpenCL 3.0 Adreno(TM) 740",
     .extensions = "cl_khr_fp16 cl_khr_byte_addressable_store",
     .type = CL_DEVICE_TYPE_GPU,
     .vendor_id = 0xbf4d3c4b,
     .units = 3,
     .clock = 680,
     .align = 1024,
     .line = 64,
     .memory = 7500000000,
     .allocation = 1073741824,
     .cache = 131072,
     .local = 32768,
     .group = 1024,
     .host_memory = CL_TRUE,
     .single = CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST}, /* neither denormals nor fma */
    {.name = "embedded",
     .device = "a GPU that rounds to zero",
     .vendor = "yoke",
     .driver = "1",
     .version = "OpenCL 1.2 null",
     .extensions = "cl_khr_byte_addressable_store",
     .type = CL_DEVICE_TYPE_GPU,
     .units = 4,
     .clock = 500,
     .align = 1024,
     .line = 64,
     .memory = 1000000000,
     .allocation = 250000000,
     .cache = 65536,
     .local = 32768,
     .group = 256,
     .single = CL_FP_INF_NAN | CL_FP_ROUND_TO_ZERO},
    {.name = "cpu",
     .device = "a processor",
     .vendor = "yoke",
     .driver = "1",
     .version = "OpenCL 1.2 null",
     .extensions = "cl_khr_fp64 cl_khr_byte_addressable_store",
     .type = CL_DEVICE_TYPE_CPU,
     .units = 2,
     .clock = 2000,
     .align = 1024,
     .line = 64,
     .memory = 8000000000,
     .allocation = 8000000000,
     .cache = 16777216,
     .local = 32768,
     .group = 4096,
     .host_memory = CL_TRUE,
     .single = EXACT | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT,
     .twice = EXACT},
};

static struct _cl_device_id devices[NULL_MOST_DEVICES];
static cl_uint device_count;

static const null_model *
model_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (strlen(models[i].name) == length && memcmp(models[i].name, name, length) == 0)
            return &models[i];
    fprintf(stderr, "null driver: YOKE_NULL_DEVICES has %.*s, which it does not know\n",
            (int)length, name);
    exit(EXIT_FAILURE);
}

static void
list_devices(void)
{
    const char *names = getenv("YOKE_NULL_DEVICES");

    if (!names || !*names)
        names = "h200";
    for (size_t length; *(names += strspn(names, " ")) && device_count < NULL_MOST_DEVICES;
         names += length) {
        length = strcspn(names, " ");
        devices[device_count] =
            (struct _cl_device_id){&null_table, model_of(names, length), device_count, 0};
        device_count++;
    }
}

cl_int CL_API_CALL
null_platform_info(cl_platform_id platform, cl_platform_info what, size_t size, void *value,
                   size_t *wrote)
{
    (void)platform;
    switch (what) {
    case CL_PLATFORM_NAME:
        NULL_SAY_TEXT("Null");
    case CL_PLATFORM_VENDOR:
        NULL_SAY_TEXT("yoke");
    case CL_PLATFORM_VERSION:
        NULL_SAY_TEXT("OpenCL 1.2 null");
    case CL_PLATFORM_PROFILE:
        NULL_SAY_TEXT("FULL_PROFILE");
    case CL_PLATFORM_EXTENSIONS:
        NULL_SAY_TEXT("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        NULL_SAY_TEXT("NULL");
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
get_device_ids(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *ids,
               cl_uint *count)
{
    (void)platform;
    if (type != CL_DEVICE_TYPE_ALL && !(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)))
        return CL_DEVICE_NOT_FOUND;
    if (count)
        *count = device_count;
    for (cl_uint i = 0; ids && i < n && i < device_count; i++)
        ids[i] = &devices[i];
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
get_device_info(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *wrote)
{
    const null_model *m = device->model;

    switch (what) {
    case CL_DEVICE_TYPE:
        NULL_SAY(cl_device_type, m->type);
    case CL_DEVICE_NAME:
        NULL_SAY_TEXT(m->device);
    case CL_DEVICE_VENDOR:
        NULL_SAY_TEXT(m->vendor);
    case CL_DRIVER_VERSION:
        NULL_SAY_TEXT(m->driver);
    case CL_DEVICE_VERSION:
        NULL_SAY_TEXT(m->version);
    case CL_DEVICE_OPENCL_C_VERSION:
        NULL_SAY_TEXT("OpenCL C 1.2 ");
    case CL_DEVICE_PROFILE:
        NULL_SAY_TEXT("FULL_PROFILE");
    case CL_DEVICE_EXTENSIONS:
        NULL_SAY_TEXT(m->extensions);
    case QUERY_PCI_BUS_INFO_KHR: {
        struct {
            cl_uint domain, bus, device, function;
        } address = {0, device->index + 1, 0, 0};

        return null_answer(&address, sizeof address, size, value, wrote);
    }
    case CAPABILITY_MAJOR:
    case CAPABILITY_MINOR:
        if (!strstr(m->extensions, "cl_nv_device_attribute_query"))
            return CL_INVALID_VALUE;
        NULL_SAY(cl_uint, what == CAPABILITY_MAJOR ? 9 : 0);
    case CL_DEVICE_PLATFORM:
        NULL_SAY(cl_platform_id, &null_platform);
    case CL_DEVICE_VENDOR_ID:
        NULL_SAY(cl_uint, m->vendor_id);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        NULL_SAY(cl_uint, m->units);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
        NULL_SAY(cl_uint, m->type == CL_DEVICE_TYPE_CPU ? 8 : 1);
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
        NULL_SAY(cl_uint, m->clock);
    case CL_DEVICE_ADDRESS_BITS:
        NULL_SAY(cl_uint, 64);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        NULL_SAY(cl_uint, m->align);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        NULL_SAY(cl_ulong, m->memory);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        NULL_SAY(cl_ulong, m->allocation);
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
        NULL_SAY(cl_ulong, m->cache);
    case CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE:
        NULL_SAY(cl_uint, m->line);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        NULL_SAY(cl_ulong, m->local);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        NULL_SAY(cl_device_local_mem_type, CL_LOCAL);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        NULL_SAY(size_t, m->group);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
        NULL_SAY(cl_uint, 3);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: {
        const size_t most[3] = {m->group, m->group, 64};

        return null_answer(most, sizeof most, size, value, wrote);
    }
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        NULL_SAY(cl_bool, m->host_memory);
    case CL_DEVICE_SINGLE_FP_CONFIG:
        NULL_SAY(cl_device_fp_config, m->single);
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        NULL_SAY(cl_device_fp_config, m->twice);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        NULL_SAY(cl_bool, CL_TRUE);
    case CL_DEVICE_PARTITION_PROPERTIES: /* as vendors of GPUs say it: none */
        NULL_SAY(cl_device_partition_property, 0);
    case CL_DEVICE_PARTITION_AFFINITY_DOMAIN:
        NULL_SAY(cl_device_affinity_domain, 0);
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES:
        NULL_SAY(cl_uint, 1);
    case CL_DEVICE_PROFILING_TIMER_RESOLUTION:
        NULL_SAY(size_t, 1000);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
create_sub_devices(cl_device_id device, const cl_device_partition_property *properties, cl_uint n,
                   cl_device_id *parts, cl_uint *count)
{
    (void)device, (void)properties, (void)n, (void)parts, (void)count;
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL
keep_device(cl_device_id device)
{
    (void)device;
    return CL_SUCCESS;
}

void
null_fill_devices(cl_icd_dispatch *table)
{
    list_devices();
    table->clGetPlatformInfo = null_platform_info;
    table->clGetDeviceIDs = get_device_ids;
    table->clGetDeviceInfo = get_device_info;
    table->clCreateSubDevices = create_sub_devices;
    table->clRetainDevice = keep_device;
    table->clReleaseDevice = keep_device;
}
