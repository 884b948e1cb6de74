/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - makes built programs of kernel source: from the space's table, else
 * from the cache on disk (cache.c), else from the compiler, which one process of a
 * host uses for a program, while the others wait for it (lock.c).
 *
 * Idea: a program is named by a hash of everything that the compiler sees: source,
 * options, device, driver, platform and yoke's version. The table and the disk use
 * the same key. A program stays in its space's table until the space ends, so
 * planning again compiles nothing.
 *
 * A program is built for the devices of its space. A cl_context may have those of other
 * roots, which get programs of their own, with other options.
 *
 * The binary of one device is kept and given to all devices of a space, because they
 * belong to one chip. (A binary of PoCL serves the whole device and sub-devices of any
 * size.) If the driver refuses a binary, or finds no kernels in it, the program is
 * built from source and the binary replaced. If asking for a binary takes long and
 * building again does not, none is kept.
 *
 * Kernels are built without fast-math. If the device can round division and square
 * root correctly, the options ask for it.
 *
 * Not here: kernels and their arguments (kernel.c), and where source comes from
 * (sources.c).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cache.h"
#include "device/internal.h"

#include "config.h"

/* Bytes of a compiler's log in an error's detail, which has 8192 bytes. */
enum { LOG_SIZE = 6000 };
/* Seconds of compiling between two lines of the log. */
#define REPORT_EVERY 2.0
/* The part of a build's time that a thread works if it only waits for a compiler. */
#define IDLE 0.002

static atomic_uint_fast64_t builds;

/* The program that is wanted, and the device that asks for it. */
typedef struct request {
    yoke_device *device;
    yki_space *space;
    const char *name;
    char *source;                       /* the whole text, common.cl first */
    char *options;                      /* with the standard ones */
    char *short_source, *short_options; /* the same with builtins.cl, or NULL */
    char *key;
    cl_device_id *ids; /* of the space */
    cl_uint id_count;
} request;

uint64_t
yki_program_builds(void)
{
    return atomic_load(&builds);
}

/* ---- the request ---- */

static void
request_clear(request *want)
{
    yki_free(want->ids);
    yki_free(want->key);
    yki_free(want->short_options);
    yki_free(want->short_source);
    yki_free(want->options);
    yki_free(want->source);
}

/* Writes the options of every kernel, then the caller's. Only a kernel that has no required group
 * heeds the most registers (common.cl). */
static yoke_status
make_options(request *want, const char *options)
{
    static const char most_registers[] = "-DYKI_REGISTERS=";
    const yki_root *root = want->space->root;
    const char *asked = options ? strstr(options, most_registers) : NULL;
    bool rounded = root->traits.rounded;
    char cap[64] = "";

    if (asked && root->caps_registers)
        snprintf(cap, sizeof cap, " -cl-nv-maxrregcount=%d -DYKI_ANY_GROUP",
                 atoi(asked + sizeof most_registers - 1));
    want->options =
        yki_format("-cl-std=CL1.2%s -DYKI_WIDTH=%u -DYKI_HAVE_FMA=%d -DYKI_ROUNDED_DIVIDE=%d%s%s%s",
                   rounded ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
                   YKI_MAX(root->traits.vector_width, 1u), root->traits.fma, rounded, cap,
                   options && *options ? " " : "", options ? options : "");
    return want->options ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

/* Whether clang's header of all functions can be left out (clkernels/builtins.cl): in PoCL 3 to 6.
 * Of these, 4 and 5 were not tried; they read it as 6 does. */
static bool
reads_a_header(const yki_root *root)
{
    return !strcmp(root->info.platform, "Portable Computing Language") &&
           root->info.driver[0] >= '3' && root->info.driver[0] <= '6' &&
           root->info.driver[1] == '.';
}

/* The header takes most of a build. PoCL leaves it out where it seems to have been read. */
static yoke_status
shorten(request *want)
{
    if (!reads_a_header(want->space->root))
        return YOKE_OK;
    YKI_TRY(yki_source_behind_builtins(want->source, &want->short_source));
    want->short_options = yki_format("%s -D_OPENCL_H_ -DYKI_OWN_BUILTINS", want->options);
    return want->short_options ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

/* Hashes all that may change what the driver makes of the source, or which driver can load it. */
static yoke_status
make_key(request *want)
{
    const yki_root *root = want->space->root;
    const char *source = want->short_source ? want->short_source : want->source;
    const char *const parts[] = {
        PACKAGE_VERSION,
        source,
        want->options,
        root->info.name,
        root->info.vendor,
        root->info.driver,
        root->info.platform,
        root->info.version,
        sizeof(void *) == 8 ? "64" : "32",
    };
    char version[256] = "";
    yki_hash hash;
    cl_int error;

    error =
        clGetPlatformInfo(root->platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clGetPlatformInfo", want->device, want->name);
    want->key = yki_alloc(1, 33, "a program's key");
    if (!want->key)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_hash_start(&hash);
    for (size_t i = 0; i < YKI_COUNT(parts); i++)
        yki_hash_string(&hash, parts[i]);
    yki_hash_string(&hash, version);
    yki_hash_hex(&hash, want->key);
    return YOKE_OK;
}

static yoke_status
list_devices(request *want)
{
    if (!want->space->cl)
        return yki_fail(YOKE_ERROR_STATE, "%s: %s is only listed; select it to work on it",
                        want->name, yki_device_id(want->device));
    want->ids = yki_alloc(want->space->device_count, sizeof *want->ids, "a list of devices");
    if (!want->ids)
        return YOKE_ERROR_OUT_OF_MEMORY;
    want->id_count = yki_space_list(want->space, want->ids);
    return YOKE_OK;
}

/* ---- building ---- */

/* Returns the start of the first line of `log` that says "error"; without one, `log`. */
static const char *
first_error(const char *log)
{
    for (const char *line = log; line && *line; line = strchr(line, '\n')) {
        size_t length;

        line += *line == '\n';
        length = strcspn(line, "\n");
        for (size_t i = 0; i + 5 <= length; i++)
            if (!strncmp(line + i, "error", 5) || !strncmp(line + i, "Error", 5) ||
                !strncmp(line + i, "ERROR", 5))
                return line;
    }
    return log;
}

/* Cuts a log, in place, to the size that an error's detail can hold. If it is too long, it begins
 * with the first error and ends with a whole line. */
static void
trim_log(char *log)
{
    static const char more[] = "\n[...]";
    size_t length;

    while (*log && isspace((unsigned char)log[strlen(log) - 1]))
        log[strlen(log) - 1] = '\0';
    length = strlen(log);
    if (length <= LOG_SIZE)
        return;
    memmove(log, first_error(log), strlen(first_error(log)) + 1);
    if (strlen(log) <= LOG_SIZE)
        return;
    length = LOG_SIZE - sizeof more;
    for (size_t end = length; end > length / 2; end--)
        if (log[end] == '\n') {
            length = end;
            break;
        }
    strcpy(log + length, more);
}

/* Returns the compiler's log of the first device that has one, or NULL. */
static char *
build_log(const request *want, cl_program program)
{
    for (cl_uint i = 0; i < want->id_count; i++) {
        size_t size = 0;
        char *log;

        if (clGetProgramBuildInfo(program, want->ids[i], CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
                CL_SUCCESS ||
            size < 2)
            continue;
        log = yki_alloc(1, size + 1, "a compiler's log");
        if (!log)
            return NULL;
        if (clGetProgramBuildInfo(program, want->ids[i], CL_PROGRAM_BUILD_LOG, size, log, NULL) ==
            CL_SUCCESS) {
            trim_log(log);
            if (*log)
                return log;
        }
        yki_free(log);
    }
    return NULL;
}

static yoke_status
build_failure(const request *want, cl_program program, cl_int error)
{
    bool ours = error == CL_BUILD_PROGRAM_FAILURE || error == CL_COMPILE_PROGRAM_FAILURE ||
                error == CL_LINK_PROGRAM_FAILURE || error == CL_INVALID_BUILD_OPTIONS ||
                error == CL_INVALID_COMPILER_OPTIONS;
    yoke_status status;
    char *log;

    if (!ours)
        return yki_cl_fail(error, "clBuildProgram", want->device, want->name);
    log = build_log(want, program);
    status = yki_fail(YOKE_ERROR_BUILD, "%s does not compile for %s with \"%.1500s\" (%s): %s",
                      want->name, yki_device_id(want->device), want->options,
                      yki_cl_error_name(error), log ? log : "the compiler gave no log");
    yki_free(log);
    return status;
}

/* Writes a line to the log if compiling takes long, before the next file is compiled. */
static void
report(const request *want)
{
    yki_space *space = want->space;

    if (space->compiled.seconds - space->compiled.reported < REPORT_EVERY)
        return;
    space->compiled.reported = space->compiled.seconds;
    yki_log(YOKE_LOG_INFO, "%s: compiled %u kernel files in %.0f s, now %s; %s", space->layout,
            space->compiled.count, space->compiled.seconds, want->name,
            space->root->context->cache_dir ? "later runs find them" : "there is no cache");
}

/* Gives the seconds since `wall` and, of the processor for this thread, since `cpu`. */
static void
take_times(double *wall, double *cpu)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    *cpu = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - *cpu;
    *wall = yki_now() - *wall;
}

static yoke_status
compile(const request *want, const char *source, const char *options, cl_program *program)
{
    yoke_status status;
    cl_program made;
    cl_int error;

    made = clCreateProgramWithSource(want->space->cl, 1, &source, NULL, &error);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clCreateProgramWithSource", want->device, want->name);
    error = clBuildProgram(made, want->id_count, want->ids, options, NULL, NULL);
    if (error != CL_SUCCESS) {
        status = build_failure(want, made, error);
        clReleaseProgram(made);
        return status;
    }
    *program = made;
    return YOKE_OK;
}

/* *seconds are what the compiler worked: other work of the machine does not count. If this thread
 * did next to nothing, a compiler elsewhere did the work. */
static yoke_status
build_source(const request *want, cl_program *program, double *seconds)
{
    yoke_status status = YOKE_ERROR_BUILD;
    cl_program made = NULL;
    double wall = 0, cpu = 0;

    atomic_fetch_add(&builds, 1);
    report(want);
    take_times(&wall, &cpu);
    if (want->short_source)
        status = compile(want, want->short_source, want->short_options, &made);
    if (status == YOKE_ERROR_BUILD) {
        if (want->short_source)
            yki_log(YOKE_LOG_DEBUG, "built with all functions of OpenCL: %s", yoke_last_error());
        status = compile(want, want->source, want->options, &made);
    }
    YKI_TRY(status);
    take_times(&wall, &cpu);
    *seconds = cpu < IDLE * wall ? wall : YKI_MIN(cpu, wall);
    want->space->compiled.count++;
    want->space->compiled.seconds += wall;
    yki_log(YOKE_LOG_DEBUG, "%s compiled for %s in %.3f s (%s)", want->name, want->space->layout,
            wall, want->options);
    *program = made;
    return YOKE_OK;
}

/* ---- binaries ---- */

/* Returns the number of kernels; 0 if the driver does not say. */
static size_t
kernel_count(cl_program program)
{
    size_t count = 0;

    if (clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof count, &count, NULL) != CL_SUCCESS)
        return 0;
    return count;
}

/* Makes a program from a binary of the cache. *program is NULL if the driver refuses the binary.
 * Fails only for lack of memory. */
static yoke_status
build_binary(const request *want, const void *binary, size_t size, yoke_log_level level,
             cl_program *program)
{
    const unsigned char **binaries =
        yki_alloc(want->id_count, sizeof *binaries, "the binaries of a program");
    size_t *sizes = yki_alloc(want->id_count, sizeof *sizes, "the binaries of a program");
    cl_program made = NULL;
    cl_int error;

    *program = NULL;
    if (!binaries || !sizes) {
        yki_free(sizes);
        yki_free(binaries);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (cl_uint i = 0; i < want->id_count; i++) {
        binaries[i] = binary;
        sizes[i] = size;
    }
    made = clCreateProgramWithBinary(want->space->cl, want->id_count, want->ids, sizes, binaries,
                                     NULL, &error);
    if (error == CL_SUCCESS)
        error = clBuildProgram(made, want->id_count, want->ids, want->options, NULL, NULL);
    else
        made = NULL;
    if (error == CL_SUCCESS && kernel_count(made)) {
        yki_log(YOKE_LOG_DEBUG, "%s for %s from the cache", want->name, want->space->layout);
        *program = made;
    } else {
        yki_log(level, "compiled kernel %s/%s.bin ignored: the driver of %s does not take it (%s)",
                want->space->root->context->cache_dir, want->key, want->space->layout,
                error == CL_SUCCESS ? "no kernels" : yki_cl_error_name(error));
        if (made)
            clReleaseProgram(made);
    }
    yki_free(sizes);
    yki_free(binaries);
    return YOKE_OK;
}

/* What a driver gives when it is asked for the binaries of a program. It decides how many there
 * are: PoCL has one for any number of sub-devices. */
typedef struct answer {
    unsigned char *data; /* all binaries; NULL: the driver gives none */
    size_t *sizes;
    size_t count;
    cl_int error;
    double seconds; /* that the driver took */
} answer;

static void
answer_clear(answer *a)
{
    yki_free(a->data);
    yki_free(a->sizes);
}

/* Copies out all binaries, because drivers check that there is room for each. */
static yoke_status
copy_binaries(cl_program program, answer *a, size_t total)
{
    unsigned char **binaries = yki_alloc(a->count, sizeof *binaries, "the binaries of a program");
    size_t before = 0;

    a->data = yki_alloc(1, total, "a compiled kernel");
    if (!a->data || !binaries) {
        yki_free(binaries);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < a->count; i++) {
        binaries[i] = a->data + before;
        before += a->sizes[i];
    }
    a->error =
        clGetProgramInfo(program, CL_PROGRAM_BINARIES, a->count * sizeof *binaries, binaries, NULL);
    yki_free(binaries);
    return YOKE_OK;
}

/* Fails only for lack of memory. */
static yoke_status
ask(cl_program program, answer *a)
{
    double start = yki_now();
    size_t bytes = 0, total = 0;

    *a = (answer){.data = NULL};
    a->error = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, 0, NULL, &bytes);
    a->count = bytes / sizeof *a->sizes;
    if (a->error != CL_SUCCESS || !a->count || !kernel_count(program))
        return YOKE_OK;
    a->sizes = yki_alloc(a->count, sizeof *a->sizes, "the binaries of a program");
    if (!a->sizes)
        return YOKE_ERROR_OUT_OF_MEMORY;
    a->error = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, bytes, a->sizes, NULL);
    for (size_t i = 0; i < a->count && a->error == CL_SUCCESS; i++)
        total += a->sizes[i];
    if (a->error != CL_SUCCESS || !total)
        return YOKE_OK;
    YKI_TRY(copy_binaries(program, a, total));
    a->seconds = yki_now() - start;
    if (a->error != CL_SUCCESS) {
        yki_free(a->data);
        a->data = NULL;
    }
    return YOKE_OK;
}

/* Keeps the program on disk if it can: the first binary that is not empty. *asked receives the
 * seconds that the driver took to give the binaries. Fails only for lack of memory. */
static yoke_status
store_program(const request *want, cl_program program, double *asked)
{
    answer a;
    yoke_status status = ask(program, &a);
    size_t begin = 0;

    if (status == YOKE_OK && !a.data)
        yki_log(YOKE_LOG_DEBUG, "%s: the driver of %s gives no binary to keep (%s)", want->name,
                want->space->layout, yki_cl_error_name(a.error));
    for (size_t i = 0; i < a.count && status == YOKE_OK && a.data; begin += a.sizes[i++])
        if (a.sizes[i]) {
            yki_cache_store(want->space->root->context, want->key, a.data + begin, a.sizes[i]);
            break;
        }
    *asked = a.seconds;
    answer_clear(&a);
    return status;
}

/* ---- whether to ask for a binary ---- */

/* Some drivers copy a binary out. Others (PoCL) first translate every kernel of the program, for
 * any launch, which takes seconds for each program, and later translate the launched ones once
 * more. Such drivers tend to keep a cache of their own, so that the next process gets its programs
 * from source in no time. yoke measures both:
 *
 * - The time to ask, for each kernel. At first a trial gives it. The least is kept in the cache,
 *   under a key of the driver.
 * - The time to build again. If asking is expensive, a program leaves a note with its build time in
 *   place of a binary. A later process that finds the note and builds no faster concludes that the
 *   driver keeps nothing, and asks for the binary: so it finds out, too, where a copy only seemed
 *   expensive because the machine was busy.
 */

/* Asking is expensive above so many seconds a kernel: no copy takes longer, no translation less. */
#define DEAR 0.004
/* A build is as good as a binary if it takes less than this fraction of the first build, ... */
#define SOONER 0.5
/* ... whose time counts as this many seconds at least. */
#define LEAST_BUILT 0.5

/* Makes the cache key of the driver: that of a program without source and options. */
static yoke_status
asking_key(const request *want, char key[33])
{
    request driver = *want;
    yoke_status status;

    driver.source = driver.options = "";
    driver.short_source = driver.key = NULL;
    status = make_key(&driver);
    if (status == YOKE_OK)
        memcpy(key, driver.key, 33);
    yki_free(driver.key);
    return status;
}

/* Measures the seconds to ask, with one small kernel that the driver has in no cache: its source is
 * of this folder and this version. 0 if the trial fails: then nothing tells against asking. Fails
 * only for lack of memory. */
static yoke_status
measure_asking(const request *want, const char *key, double *asking)
{
    char text[160], own[33];
    const char *source = text;
    yoke_status status = YOKE_OK;
    cl_program trial;
    cl_int error;
    yki_hash hash;
    answer a;

    *asking = 0;
    yki_hash_start(&hash);
    yki_hash_string(&hash, key);
    yki_hash_string(&hash, want->space->root->context->cache_dir);
    yki_hash_hex(&hash, own);
    snprintf(text, sizeof text, "__kernel void yki_ask(__global ulong *x) { x[0] = 0x%.16sul; }",
             own);
    trial = clCreateProgramWithSource(want->space->cl, 1, &source, NULL, &error);
    if (error != CL_SUCCESS)
        return YOKE_OK;
    if (clBuildProgram(trial, want->id_count, want->ids, "", NULL, NULL) == CL_SUCCESS) {
        status = ask(trial, &a);
        *asking = a.seconds;
        answer_clear(&a);
    }
    clReleaseProgram(trial);
    return status;
}

/* Loads the seconds to ask for a kernel, or measures and keeps them. Fails only for lack of memory.
 */
static yoke_status
asking_load(const request *want, const char *key, double *asking)
{
    yoke_context *context = want->space->root->context;
    size_t size;
    void *data;
    bool known;

    YKI_TRY(yki_cache_load(context, key, YOKE_LOG_DEBUG, &data, &size));
    known = data && size == sizeof *asking;
    if (known)
        memcpy(asking, data, sizeof *asking);
    yki_free(data);
    if (known)
        return YOKE_OK;
    YKI_TRY(measure_asking(want, key, asking));
    if (*asking > 0)
        yki_cache_store(context, key, asking, sizeof *asking);
    return YOKE_OK;
}

yoke_status
yki_program_set_asking(yoke_device *device, double seconds)
{
    request want = {.device = device, .space = yki_device_space(device), .name = "asking"};
    char key[33];

    YKI_TRY(asking_key(&want, key));
    yki_cache_store(want.space->root->context, key, &seconds, sizeof seconds);
    return YOKE_OK;
}

/* Keeps the binary of a program that took `seconds` to build, or a note, or neither. `before` is
 * the time of the first build, from a note; 0: this build is the first. */
static yoke_status
keep_program(const request *want, cl_program program, double seconds, double before)
{
    yoke_context *context = want->space->root->context;
    size_t kernels = YKI_MAX(kernel_count(program), (size_t)1);
    double asking, asked = 0;
    char key[33];

    if (before > 0 && seconds < SOONER * before)
        return YOKE_OK;
    YKI_TRY(asking_key(want, key));
    YKI_TRY(asking_load(want, key, &asking));
    if (before <= 0 && asking > DEAR) {
        yki_unasked note = {YKI_UNASKED, YKI_MAX(seconds, LEAST_BUILT)};

        yki_cache_store(context, want->key, &note, sizeof note);
        return YOKE_OK;
    }
    YKI_TRY(store_program(want, program, &asked));
    asked /= (double)kernels;
    if (asked > 0 && asked < asking)
        yki_cache_store(context, key, &asked, sizeof asked);
    return YOKE_OK;
}

/* Loads the program from the disk. Without one *program is NULL, and *before has the seconds of a
 * note, or 0. An entry that cannot be used is logged at `level`, lower for the second try. */
static yoke_status
load_program(const request *want, yoke_log_level level, cl_program *program, double *before)
{
    yki_unasked note = {.built = 0};
    yoke_status status = YOKE_OK;
    size_t size = 0;
    void *binary = NULL;

    *program = NULL;
    *before = 0;
    YKI_TRY(yki_cache_load(want->space->root->context, want->key, level, &binary, &size));
    if (binary && size == sizeof note)
        memcpy(&note, binary, size);
    if (!strcmp(note.text, YKI_UNASKED))
        *before = note.built;
    else if (binary)
        status = build_binary(want, binary, size, level, program);
    yki_free(binary);
    return status;
}

/* Gets the program from the disk or the compiler. Without a cache no lock is taken, because waiting
 * for other processes would gain nothing. */
static yoke_status
build_program(const request *want, cl_program *program)
{
    yoke_context *context = want->space->root->context;
    cl_program made = NULL;
    yoke_status status;
    double seconds, before;
    yki_lock lock;

    if (!context->cache_dir)
        return build_source(want, program, &seconds);
    YKI_TRY(load_program(want, YOKE_LOG_WARNING, &made, &before));
    if (!made) {
        yki_cache_lock(context, want->key, &lock);
        /* The last holder of the lock may have built it. */
        status = load_program(want, YOKE_LOG_DEBUG, &made, &before);
        if (status == YOKE_OK && !made) {
            status = build_source(want, &made, &seconds);
            if (status == YOKE_OK)
                status = keep_program(want, made, seconds, before);
        }
        yki_lock_release(&lock);
        if (status != YOKE_OK) {
            if (made)
                clReleaseProgram(made);
            return status;
        }
    }
    *program = made;
    return YOKE_OK;
}

/* ---- the table ---- */

/* The caller holds space->programs_lock. */
static yki_program *
find_program(yki_space *space, const char *key)
{
    for (yki_program *program = space->programs; program; program = program->next)
        if (!strcmp(program->key, key))
            return program;
    return NULL;
}

/* The program of a file, found without putting its text together and hashing that: a plan has
 * hundreds of kernels. A folder of the user's may have another text by now. The caller holds the
 * lock. */
static yki_program *
find_file(const request *want)
{
    if (yki_secure_env("YOKE_CL_DIR"))
        return NULL;
    for (yki_program *program = want->space->programs; program; program = program->next)
        if (program->file_options && !strcmp(program->name, want->name) &&
            !strcmp(program->file_options, want->options))
            return program;
    return NULL;
}

/* Builds the wanted program and puts it into the table, with no reference yet. The caller holds
 * the lock. */
static yoke_status
add_program(request *want, const char *own, yki_program **added)
{
    yki_program *program = yki_alloc(1, sizeof *program, "a program");
    yoke_status status;

    if (!program)
        return YOKE_ERROR_OUT_OF_MEMORY;
    program->name = yki_strdup(want->name, "a program's name");
    status = program->name ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = list_devices(want);
    if (status == YOKE_OK)
        status = build_program(want, &program->cl);
    if (status != YOKE_OK) {
        yki_free(program->name);
        yki_free(program);
        return status;
    }
    program->space = want->space;
    program->key = want->key;
    want->key = NULL;
    if (!own) {
        program->file_options = want->options;
        want->options = NULL;
    }
    program->next = want->space->programs;
    want->space->programs = program;
    *added = program;
    return YOKE_OK;
}

/* Completes the request and finds its program, or builds it. */
static yoke_status
find_or_add(request *want, const char *own, yki_program **found)
{
    YKI_TRY(own ? yki_source_of_text(want->name, own, &want->source)
                : yki_source_of_file(want->name, &want->source));
    if (!own) /* a text of the caller's may call any function of OpenCL */
        YKI_TRY(shorten(want));
    YKI_TRY(make_key(want));
    *found = find_program(want->space, want->key);
    return *found ? YOKE_OK : add_program(want, own, found);
}

/* `own` is a text of the caller's, or NULL: then `name` is a file. */
static yoke_status
get(yoke_device *device, const char *name, const char *own, const char *options,
    yki_program **program)
{
    request want = {.device = device, .space = yki_device_space(device), .name = name};
    yki_program *found = NULL;
    yoke_status status = make_options(&want, options);

    if (status == YOKE_OK) {
        pthread_mutex_lock(&want.space->programs_lock);
        if (!own)
            found = find_file(&want);
        if (!found)
            status = find_or_add(&want, own, &found);
        if (found)
            yki_program_retain(found);
        pthread_mutex_unlock(&want.space->programs_lock);
    }
    request_clear(&want);
    if (status == YOKE_OK)
        *program = found;
    return status;
}

yoke_status
yki_program_get(yoke_device *device, const char *file, const char *options, yki_program **program)
{
    return get(device, file, NULL, options, program);
}

yoke_status
yki_program_get_source(yoke_device *device, const char *name, const char *source,
                       const char *options, yki_program **program)
{
    return get(device, name, source, options, program);
}

yki_program *
yki_program_retain(yki_program *program)
{
    atomic_fetch_add(&program->references, 1);
    yki_space_retain(program->space);
    return program;
}

void
yki_program_release(yki_program *program)
{
    if (!program)
        return;
    atomic_fetch_sub(&program->references, 1);
    yki_space_release(program->space); /* the last reference may free the space and its programs */
}

void
yki_programs_free(yki_space *space)
{
    while (space->programs) {
        yki_program *program = space->programs;

        space->programs = program->next;
        if (program->cl)
            clReleaseProgram(program->cl);
        yki_free(program->file_options);
        yki_free(program->key);
        yki_free(program->name);
        yki_free(program);
    }
}
