/* SPDX-License-Identifier: Apache-2.0
 *
 * info.c - asks OpenCL devices what they are: properties, traits for the planner, the
 * identity of the hardware, and what only a trial can tell.
 *
 * Identity: yoke must see when two drivers reach one chip. The identity is "host-cpu"
 * for all that runs on this host's processor. Otherwise it is the PCI address
 * (cl_khr_pci_bus_info, NVIDIA's and AMD's own queries), else the UUID
 * (cl_khr_device_uuid), else platform, name and a number, which only one device of one
 * driver has.
 *
 * Tried, not asked: fp16 is compiled, because drivers that have it do not always say
 * so. Host pointers of buffers are tested in both directions, because no query tells
 * whether host and kernels see each other's writes without a map. The iterations of a
 * loop are counted, because drivers that limit them do not say so. Dot units are run (dot.c).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "device/cache.h"
#include "device/internal.h"

#include "config.h"

/* Queries of extensions. Not every cl_ext.h has them. */
enum {
    QUERY_PCI_BUS_INFO_KHR = 0x410F, /* 4 cl_uint: domain, bus, device, function */
    QUERY_UUID_KHR = 0x106A,         /* 16 bytes */
    QUERY_PCI_BUS_ID_NV = 0x4008,
    QUERY_PCI_SLOT_ID_NV = 0x4009, /* device * 8 + function */
    QUERY_PCI_DOMAIN_ID_NV = 0x400A,
    QUERY_TOPOLOGY_AMD = 0x4037
};

/* cl_device_topology_amd when its type is 1 (PCIe). */
typedef struct amd_topology {
    cl_uint type;
    unsigned char unused[17], bus, device, function;
} amd_topology;

/* Asks for a value of `size` bytes. If the driver gives fewer, `value` may be only partly set, over
 * zeros. */
static bool
query(cl_device_id id, cl_device_info what, size_t size, void *value)
{
    size_t got = 0;

    memset(value, 0, size);
    return clGetDeviceInfo(id, what, size, value, &got) == CL_SUCCESS && got == size;
}

static cl_uint
query_uint(cl_device_id id, cl_device_info what)
{
    cl_uint value;

    return query(id, what, sizeof value, &value) ? value : 0;
}

static cl_ulong
query_ulong(cl_device_id id, cl_device_info what)
{
    cl_ulong value;

    return query(id, what, sizeof value, &value) ? value : 0;
}

static size_t
query_size(cl_device_id id, cl_device_info what)
{
    size_t value;

    return query(id, what, sizeof value, &value) ? value : 0;
}

static bool
query_bool(cl_device_id id, cl_device_info what)
{
    cl_bool value;

    return query(id, what, sizeof value, &value) && value;
}

/* Returns the whole string, which the caller frees. Without memory it returns NULL and sets the
 * detail. */
static char *
query_string(cl_device_id id, cl_device_info what)
{
    size_t size = 0;
    char *text;

    if (clGetDeviceInfo(id, what, 0, NULL, &size) != CL_SUCCESS)
        size = 0;
    text = yki_alloc(size + 1, 1, "a device's description");
    if (text && size && clGetDeviceInfo(id, what, size, text, NULL) != CL_SUCCESS)
        text[0] = '\0';
    return text;
}

/* Copies a string, cut to `room`, without the blanks that some drivers put around names. */
static yoke_status
query_text(cl_device_id id, cl_device_info what, char *out, size_t room)
{
    char *text = query_string(id, what), *start = text;
    size_t length;

    if (!text)
        return YOKE_ERROR_OUT_OF_MEMORY;
    while (*start == ' ')
        start++;
    length = strlen(start);
    while (length && start[length - 1] == ' ')
        start[--length] = '\0';
    snprintf(out, room, "%s", start);
    yki_free(text);
    return YOKE_OK;
}

/* Whether `words`, separated by blanks, contain `word`. */
static bool
has_word(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool
contains(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

/* ---- what it is ---- */

/* Counts the types that a device claims. Simulators claim all three. */
static unsigned
claimed_types(cl_device_type type)
{
    return !!(type & CL_DEVICE_TYPE_GPU) + !!(type & CL_DEVICE_TYPE_CPU) +
           !!(type & CL_DEVICE_TYPE_ACCELERATOR);
}

static yoke_device_type
device_type(cl_device_type type)
{
    if (claimed_types(type) != 1)
        return YOKE_DEVICE_ACCELERATOR;
    if (type & CL_DEVICE_TYPE_GPU)
        return YOKE_DEVICE_GPU;
    return type & CL_DEVICE_TYPE_CPU ? YOKE_DEVICE_CPU : YOKE_DEVICE_ACCELERATOR;
}

static bool
name_is_one_of(const char *text, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (contains(text, names[i]))
            return true;
    return false;
}

static yki_driver_rank
driver_rank(const yoke_device_info *info, cl_device_type type)
{
    static const char *const simulators[] = {"oclgrind", "simulator"};
    static const char *const renderers[] = {"llvmpipe",    "softpipe", "swrast",
                                            "swiftshader", "lavapipe", "basic render"};
    static const char *const layers[] = {"clvk", "openclon12", "clon12", "ancle"};

    if (claimed_types(type) > 1 ||
        name_is_one_of(info->platform, simulators, YKI_COUNT(simulators)) ||
        name_is_one_of(info->name, simulators, YKI_COUNT(simulators)))
        return YKI_DRIVER_SIMULATOR;
    if (name_is_one_of(info->name, renderers, YKI_COUNT(renderers)))
        return YKI_DRIVER_SOFTWARE;
    if (name_is_one_of(info->platform, layers, YKI_COUNT(layers)) || contains(info->name, "zink"))
        return YKI_DRIVER_LAYERED;
    /* PoCL is native on the CPU only. It drives other devices through another API. */
    if (contains(info->platform, "portable computing") && info->type != YOKE_DEVICE_CPU)
        return YKI_DRIVER_LAYERED;
    return YKI_DRIVER_NATIVE;
}

/* ---- whose hardware ---- */

static void
write_pci(yki_root *root, unsigned domain, unsigned bus, unsigned device, unsigned function)
{
    snprintf(root->pci, sizeof root->pci, "%04x:%02x:%02x.%x", domain & 0xffffffffu, bus & 0xffu,
             device & 0x1fu, function & 0x7u);
}

static void
query_pci(yki_root *root, const char *extensions)
{
    cl_device_id id = root->id;
    cl_uint address[4], slot;
    amd_topology topology;

    if (has_word(extensions, "cl_khr_pci_bus_info") &&
        query(id, QUERY_PCI_BUS_INFO_KHR, sizeof address, address)) {
        write_pci(root, address[0], address[1], address[2], address[3]);
    } else if (has_word(extensions, "cl_nv_device_attribute_query") &&
               query(id, QUERY_PCI_BUS_ID_NV, sizeof address[1], &address[1])) {
        slot = query_uint(id, QUERY_PCI_SLOT_ID_NV);
        write_pci(root, query_uint(id, QUERY_PCI_DOMAIN_ID_NV), address[1], slot >> 3, slot & 7);
    } else if (has_word(extensions, "cl_amd_device_attribute_query") &&
               query(id, QUERY_TOPOLOGY_AMD, sizeof topology, &topology) && topology.type == 1) {
        write_pci(root, 0, topology.bus, topology.device, topology.function);
    }
}

static void
query_uuid(yki_root *root, const char *extensions)
{
    unsigned char uuid[16], any = 0;

    if (!has_word(extensions, "cl_khr_device_uuid") ||
        !query(root->id, QUERY_UUID_KHR, sizeof uuid, uuid))
        return;
    for (size_t i = 0; i < sizeof uuid; i++)
        any |= uuid[i];
    for (size_t i = 0; any && i < sizeof uuid; i++)
        snprintf(root->uuid + 2 * i, 3, "%02x", uuid[i]);
}

static void
identify(yki_root *root)
{
    yoke_device_info *info = &root->info;
    bool on_host = info->type == YOKE_DEVICE_CPU || root->rank >= YKI_DRIVER_SOFTWARE;

    if (on_host) /* a renderer's UUID identifies the renderer, not the hardware */
        snprintf(info->hardware, sizeof info->hardware, "host-cpu");
    else if (root->pci[0])
        snprintf(info->hardware, sizeof info->hardware, "pci:%s", root->pci);
    else if (root->uuid[0])
        snprintf(info->hardware, sizeof info->hardware, "uuid:%s", root->uuid);
    else
        snprintf(info->hardware, sizeof info->hardware, "driver:%.24s:%.24s:%zu", info->platform,
                 info->name, root->found);
    if (on_host)
        root->pci[0] = root->uuid[0] = '\0';
}

/* ---- what it can do ---- */

/* Returns the partitions that the driver offers. It does not look at the maximum of sub-devices:
 * AMD reports one and offers no type. Without a type, clCreateSubDevices may be a null entry. */
static uint32_t
query_partition(cl_device_id id)
{
    enum { MOST = 16 };
    cl_device_partition_property types[MOST] = {0};
    cl_device_affinity_domain domains = 0;
    uint32_t partition = 0;
    size_t size = 0;

    if (clGetDeviceInfo(id, CL_DEVICE_PARTITION_PROPERTIES, sizeof types, types, &size) !=
        CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < size / sizeof types[0]; i++) {
        if (types[i] == CL_DEVICE_PARTITION_EQUALLY)
            partition |= YOKE_PARTITION_EQUALLY;
        else if (types[i] == CL_DEVICE_PARTITION_BY_COUNTS)
            partition |= YOKE_PARTITION_BY_COUNTS;
        else if (types[i] == CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN &&
                 query(id, CL_DEVICE_PARTITION_AFFINITY_DOMAIN, sizeof domains, &domains) &&
                 (domains & CL_DEVICE_AFFINITY_DOMAIN_NUMA))
            partition |= YOKE_PARTITION_NUMA;
    }
    return partition;
}

static void
query_traits(yki_root *root)
{
    cl_device_id id = root->id;
    yoke_device_info *info = &root->info;
    yki_device_traits *traits = &root->traits;
    cl_device_fp_config single = 0, twice = 0;
    cl_device_local_mem_type local = 0;
    /* Asked outside YKI_MAX, which would ask twice; the second query may fail. */
    cl_uint units = query_uint(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    cl_uint width = query_uint(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    cl_uint align = query_uint(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    cl_ulong allocation = query_ulong(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    size_t group = query_size(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);

    query(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single);
    query(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof twice, &twice);
    query(id, CL_DEVICE_LOCAL_MEM_TYPE, sizeof local, &local);
    info->compute_units = YKI_MAX(units, 1u);
    info->vector_width = YKI_MAX(width, 1u);
    info->memory = query_ulong(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_allocation = YKI_MIN(allocation, info->memory);
    info->host_memory = query_bool(id, CL_DEVICE_HOST_UNIFIED_MEMORY);
    info->fp64 = twice != 0;
    info->partition = query_partition(id);

    traits->type = info->type;
    traits->compute_units = info->compute_units;
    traits->vector_width = info->vector_width;
    traits->memory = info->memory;
    traits->max_allocation = info->max_allocation;
    traits->host_memory = info->host_memory;
    traits->fp64 = info->fp64;
    traits->local_memory = query_ulong(id, CL_DEVICE_LOCAL_MEM_SIZE);
    traits->local_is_real = local == CL_LOCAL;
    traits->max_group = (uint32_t)YKI_MAX(group, 1u);
    traits->cache = query_ulong(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    traits->base_align = YKI_MAX(align, 4u);
    traits->fma = (single & CL_FP_FMA) != 0;
    traits->inf_nan = (single & CL_FP_INF_NAN) != 0;
    traits->denormals = (single & CL_FP_DENORM) != 0;
    traits->rounded = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    traits->to_nearest = (single & CL_FP_ROUND_TO_NEAREST) != 0;
}

/* Returns why a device cannot be used, or NULL. */
static const char *
refusal(const yki_root *root, cl_device_type type)
{
    static const int host_is_little = 1;
    const char *version = root->info.version;
    unsigned major = 0, minor = 0;

    if (!claimed_types(type))
        return "is a custom device, which runs no kernels";
    if (!query_bool(root->id, CL_DEVICE_AVAILABLE))
        return "is not available";
    if (!query_bool(root->id, CL_DEVICE_COMPILER_AVAILABLE))
        return "has no compiler";
    if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 || major < 1 ||
        (major == 1 && minor < 2))
        return "has no OpenCL 1.2";
    if (query_bool(root->id, CL_DEVICE_ENDIAN_LITTLE) != (*(const char *)&host_is_little == 1))
        return "has another byte order than this host";
    if (!root->info.memory || !root->info.max_allocation)
        return "reports no memory";
    return NULL;
}

yoke_status
yki_root_query(cl_platform_id platform, const char *platform_name, cl_device_id id, yki_root *root)
{
    yoke_device_info *info = &root->info;
    cl_device_type type = 0;
    char *extensions;
    const char *reason;

    root->platform = platform;
    root->id = id;
    snprintf(info->platform, sizeof info->platform, "%s", platform_name);
    YKI_TRY(query_text(id, CL_DEVICE_NAME, info->name, sizeof info->name));
    YKI_TRY(query_text(id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor));
    YKI_TRY(query_text(id, CL_DRIVER_VERSION, info->driver, sizeof info->driver));
    YKI_TRY(query_text(id, CL_DEVICE_VERSION, info->version, sizeof info->version));
    query(id, CL_DEVICE_TYPE, sizeof type, &type);
    info->type = device_type(type);
    info->virtual_kind = YOKE_VIRTUAL_NONE;
    query_traits(root);
    reason = refusal(root, type);
    if (reason)
        return yki_fail(YOKE_ERROR_NO_DEVICE, "%s %s", info->name[0] ? info->name : "a device",
                        reason);
    extensions = query_string(id, CL_DEVICE_EXTENSIONS);
    if (!extensions)
        return YOKE_ERROR_OUT_OF_MEMORY;
    query_pci(root, extensions);
    query_uuid(root, extensions);
    root->caps_registers = has_word(extensions, "cl_nv_compiler_options");
    root->costly_events = has_word(extensions, "cl_nv_device_attribute_query");
    yki_free(extensions);
    root->rank = driver_rank(info, type);
    /* Rusticl and Oclgrind hang (docs/drivers.md). GPUs are tried (probe). */
    root->traits.gates = root->rank != YKI_DRIVER_SIMULATOR && !contains(info->platform, "rusticl");
    identify(root);
    return YOKE_OK;
}

/* ---- what only a trial tells ---- */

static cl_context
probe_context(const yki_root *root)
{
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                          (cl_context_properties)root->platform, 0};
    cl_int error;
    cl_context cl = clCreateContext(properties, 1, &root->id, NULL, NULL, &error);

    return error == CL_SUCCESS ? cl : NULL;
}

cl_program
yki_probe_program(cl_context cl, cl_device_id id, const char *source)
{
    cl_int error;
    cl_program program = clCreateProgramWithSource(cl, 1, &source, NULL, &error);

    if (error != CL_SUCCESS)
        return NULL;
    if (clBuildProgram(program, 1, &id, "", NULL, NULL) != CL_SUCCESS) {
        clReleaseProgram(program);
        return NULL;
    }
    return program;
}

static bool
has_fp16_extension(const yki_root *root)
{
    char *extensions = query_string(root->id, CL_DEVICE_EXTENSIONS);
    bool has = extensions && has_word(extensions, "cl_khr_fp16");

    yki_free(extensions);
    return has;
}

static bool
probe_fp16(const yki_root *root)
{
    static const char source[] =
        "#ifdef cl_khr_fp16\n"
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
        "#endif\n"
        "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void\n"
        "yki_probe_fp16(__global half *x)\n"
        "{ half a = x[0]; half4 v = (half4)(a, a, a, a); x[1] = fma(a, v.s1, a) + v.s2; }\n";
    /* Only where the extension is named: the compilers of PoCL and NVIDIA write to stderr how many
     * errors they found, and a library must not write there. */
    cl_context cl = has_fp16_extension(root) ? probe_context(root) : NULL;
    cl_program program = cl ? yki_probe_program(cl, root->id, source) : NULL;
    cl_int error = CL_INVALID_PROGRAM;
    cl_kernel kernel = program ? clCreateKernel(program, "yki_probe_fp16", &error) : NULL;

    if (error == CL_SUCCESS)
        clReleaseKernel(kernel);
    if (program)
        clReleaseProgram(program);
    if (cl)
        clReleaseContext(cl);
    return error == CL_SUCCESS;
}

/* A CPU makes PROBE_TURNS iterations in a millisecond or two. */
enum { PROBE_WORDS = 4096, PROBE_TURNS = 1 << 19 };

/* The first kernel copies every word of the first half to the second half and then adds one to it.
 * The second kernel counts the iterations of a loop whose end no compiler can know. */
static const char probe_source[] =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void\n"
    "yki_probe_direct(__global uint *x, uint n)\n"
    "{ uint i = (uint)get_global_id(0); x[n + i] = x[i]; x[i] += 1u; }\n"
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void\n"
    "yki_probe_iterations(__global uint *x, uint n)\n"
    "{ uint k = 0, v = x[0] | 1u;\n"
    "  while (k < n && v != 0u) { v ^= v << 13; v ^= v >> 17; v ^= v << 5; k++; }\n"
    "  x[0] = k; x[1] = v; }\n";

static bool
run_direct(cl_command_queue queue, cl_kernel kernel)
{
    size_t global = PROBE_WORDS, local = 64;

    return clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL) ==
               CL_SUCCESS &&
           clFinish(queue) == CL_SUCCESS;
}

/* In each of two rounds, the kernel must see what the host wrote before the launch, and the host
 * what the kernel wrote, without a map in between. */
static bool
exchange_direct(cl_command_queue queue, cl_kernel kernel, volatile cl_uint *words)
{
    for (cl_uint round = 0; round < 2; round++) {
        cl_uint seed = 0x9e3779b9u * (round + 1);

        for (cl_uint i = 0; i < PROBE_WORDS; i++)
            words[i] = seed + i;
        if (!run_direct(queue, kernel))
            return false;
        for (cl_uint i = 0; i < PROBE_WORDS; i++)
            if (words[i] != seed + i + 1 || words[PROBE_WORDS + i] != seed + i)
                return false;
    }
    return true;
}

/* Frees the memory of the probe's buffer when the driver no longer uses it. If a wait fails, that
 * may be later than the release of the buffer. */
static void CL_CALLBACK
free_words(cl_mem buffer, void *words)
{
    (void)buffer;
    yki_free_aligned(words);
}

/* Makes the probe's buffer on host memory, and writes its address to `words`. */
static cl_mem
direct_buffer(cl_context cl, cl_uint **words)
{
    enum { PAGE = 4096 };
    size_t size = 2 * PROBE_WORDS * sizeof **words;
    cl_uint *memory = yki_alloc_aligned(PAGE, size, "a probe");
    cl_mem buffer;
    cl_int error;

    if (!memory)
        return NULL;
    buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, memory, &error);
    if (error != CL_SUCCESS) {
        yki_free_aligned(memory);
        return NULL;
    }
    if (clSetMemObjectDestructorCallback(buffer, free_words, memory) != CL_SUCCESS) {
        clReleaseMemObject(buffer); /* nothing uses it yet */
        yki_free_aligned(memory);
        return NULL;
    }
    *words = memory;
    return buffer;
}

static bool
try_direct(cl_context cl, cl_command_queue queue, cl_program program)
{
    const cl_uint count = PROBE_WORDS;
    cl_int kernel_error;
    cl_kernel kernel = clCreateKernel(program, "yki_probe_direct", &kernel_error);
    cl_uint *words = NULL;
    cl_mem buffer = direct_buffer(cl, &words);
    bool direct = kernel_error == CL_SUCCESS && buffer &&
                  clSetKernelArg(kernel, 0, sizeof buffer, &buffer) == CL_SUCCESS &&
                  clSetKernelArg(kernel, 1, sizeof count, &count) == CL_SUCCESS &&
                  exchange_direct(queue, kernel, words);

    if (buffer)
        clReleaseMemObject(buffer);
    if (kernel_error == CL_SUCCESS)
        clReleaseKernel(kernel);
    return direct;
}

static bool
count_iterations(cl_command_queue queue, cl_kernel kernel, cl_mem buffer, cl_uint *counted)
{
    const size_t one = 1;
    const cl_uint wanted = PROBE_TURNS, zero = 0;

    return clSetKernelArg(kernel, 0, sizeof buffer, &buffer) == CL_SUCCESS &&
           clSetKernelArg(kernel, 1, sizeof wanted, &wanted) == CL_SUCCESS &&
           clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof zero, &zero, 0, NULL, NULL) ==
               CL_SUCCESS &&
           clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) ==
               CL_SUCCESS &&
           clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof *counted, counted, 0, NULL,
                               NULL) == CL_SUCCESS;
}

/* Gives the number of iterations after which the driver ends a loop, or 0. Drivers do not report
 * it (llvmpipe's is 65535). Returns false if something failed. */
static bool
try_iterations(cl_context cl, cl_command_queue queue, cl_program program, uint32_t *limit)
{
    cl_int kernel_error, error;
    cl_kernel kernel = clCreateKernel(program, "yki_probe_iterations", &kernel_error);
    cl_mem buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE, 2 * sizeof(cl_uint), NULL, &error);
    cl_uint counted = PROBE_TURNS;
    bool done = kernel_error == CL_SUCCESS && error == CL_SUCCESS &&
                count_iterations(queue, kernel, buffer, &counted);

    if (error == CL_SUCCESS)
        clReleaseMemObject(buffer);
    if (kernel_error == CL_SUCCESS)
        clReleaseKernel(kernel);
    *limit = done && counted < PROBE_TURNS ? counted : 0;
    return done;
}

/* What a trial found, as the cache keeps it. */
typedef struct findings {
    uint32_t direct, limit, bf16, tf32, f16, copies_ahead, gates;
} findings;

/* Hashes all that the findings may depend on. */
static void
findings_key(const yki_root *root, char key[33])
{
    const yoke_device_info *info = &root->info;
    const char *const parts[] = {PACKAGE_VERSION, probe_source,   info->name,   info->vendor,
                                 info->driver,    info->platform, info->version};
    static const char *const trials[] = {"dot_probe.cl", "tile_probe.cl"};
    const yki_dot_unit candidate = yki_dot_candidate(root);
    yki_hash hash;

    yki_hash_start(&hash);
    for (size_t i = 0; i < YKI_COUNT(parts); i++)
        yki_hash_string(&hash, parts[i]);
    for (size_t i = 0; i < YKI_COUNT(trials); i++) {
        char *text;

        if (yki_source_of_file(trials[i], &text) == YOKE_OK) {
            yki_hash_string(&hash, text);
            yki_free(text);
        }
    }
    yki_hash_add(&hash, &root->traits.host_memory, sizeof root->traits.host_memory);
    yki_hash_add(&hash, &candidate, sizeof candidate);
    yki_hash_hex(&hash, key);
}

static bool
load_findings(yki_root *root, const char *key)
{
    findings *kept;
    size_t size;
    void *data;
    bool good;

    if (!root->context->cache_dir ||
        yki_cache_load(root->context, key, YOKE_LOG_DEBUG, &data, &size) != YOKE_OK)
        return false;
    kept = data;
    good = kept && size == sizeof *kept;
    if (good) {
        root->traits.direct_host = kept->direct;
        root->traits.loop_limit = kept->limit;
        root->traits.bf16 = (yki_dot_unit)kept->bf16;
        root->traits.tf32 = (yki_dot_unit)kept->tf32;
        root->traits.f16 = (yki_dot_unit)kept->f16;
        root->traits.copies_ahead = kept->copies_ahead;
        root->traits.gates = kept->gates;
    }
    yki_free(data);
    return good;
}

static bool
is_gpu(const yki_root *root)
{
    return root->info.type == YOKE_DEVICE_GPU;
}

/* What failed, or may have, is not kept: the next context tries again. */
static void
probe(yki_root *root, cl_context cl, bool gates, const char *key)
{
    bool host = root->traits.host_memory, counted, settled;
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(cl, root->id, 0, &error);
    cl_program program = error == CL_SUCCESS ? yki_probe_program(cl, root->id, probe_source) : NULL;

    if (program) {
        root->traits.direct_host = host && try_direct(cl, queue, program);
        counted = try_iterations(cl, queue, program, &root->traits.loop_limit);
        settled = yki_dot_probe(root, cl, queue);
        root->traits.gates = gates && (!is_gpu(root) || yki_gate_probe(root, cl, queue));
        if (root->context->cache_dir && counted && root->traits.direct_host == host && settled)
            yki_cache_store(root->context, key,
                            &(findings){root->traits.direct_host, root->traits.loop_limit,
                                        root->traits.bf16, root->traits.tf32, root->traits.f16,
                                        root->traits.copies_ahead, root->traits.gates},
                            sizeof(findings));
        clReleaseProgram(program);
    }
    if (error == CL_SUCCESS) {
        clFinish(queue);
        clReleaseCommandQueue(queue);
    }
}

void
yki_root_probe(yki_root *root)
{
    yoke_context *context = root->context;
    bool gates;
    char key[33] = "";
    cl_context cl;

    pthread_mutex_lock(&context->probe_lock);
    if (!root->probed)
        findings_key(root, key);
    gates = root->traits.gates;
    if (!root->probed && is_gpu(root))
        root->traits.gates = false; /* until it is tried */
    /* A simulator watches every access but does not see those of the host, and each iteration takes
     * it long. */
    if (!root->probed && root->rank != YKI_DRIVER_SIMULATOR && !load_findings(root, key)) {
        cl = probe_context(root);
        if (cl) {
            probe(root, cl, gates, key);
            clReleaseContext(cl);
        }
    }
    root->probed = true;
    pthread_mutex_unlock(&context->probe_lock);
}

/* ---- public functions ---- */

yoke_status
yoke_device_get_info_sized(yoke_device *device, yoke_device_info *info, size_t size)
{
    yoke_device_info result;
    yki_root *root;

    if (!device || !info)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_device_get_info: %s is NULL",
                        device ? "info" : "device");
    root = device->root;
    yki_root_probe(root);
    pthread_mutex_lock(&root->context->probe_lock);
    if (!root->fp16_known) {
        root->info.fp16 = probe_fp16(root);
        root->fp16_known = true;
    }
    result = root->info;
    pthread_mutex_unlock(&root->context->probe_lock);
    memcpy(result.id, device->id, sizeof result.id);
    result.virtual_kind = device->kind;
    result.compute_units = device->traits.compute_units;
    if (device->kind != YOKE_VIRTUAL_NONE)
        result.partition = 0; /* sub-devices and slices cannot be split again */
    result.quota = device->quota;
    if (yki_has_bf16(&root->traits))
        snprintf(result.bf16, sizeof result.bf16, "%s", yki_dot_unit_name(root->traits.bf16));
    if (yki_has_tf32(&root->traits))
        snprintf(result.tf32, sizeof result.tf32, "%s", yki_dot_unit_name(root->traits.tf32));
    if (yki_has_f16(&root->traits))
        snprintf(result.f16, sizeof result.f16, "%s", yki_dot_unit_name(root->traits.f16));
    memcpy(info, &result, YKI_MIN(size, sizeof result));
    return YOKE_OK;
}

const yki_device_traits *
yki_device_get_traits(const yoke_device *device)
{
    return &device->traits;
}

void
yki_device_describe(const yoke_device *device, char *text, size_t size)
{
    const yoke_device_info *info = &device->root->info;

    snprintf(text, size, "%s; %s; %s; %u units x %u", info->name, info->driver, info->platform,
             device->traits.compute_units, device->traits.vector_width);
}
