/* SPDX-License-Identifier: Apache-2.0
 *
 * check_program.c - programs on the devices at hand: embedded sources, the table, the
 * cache across contexts and processes, build errors, $YOKE_CL_DIR.
 *
 * Each test starts with no cache of yoke's. The driver's own is that of all tests: it only makes
 * builds faster, and each of them is counted.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/cache.h"
#include "device/internal.h"
#include "device/sources.h"
#include "support/scratch.h"
#include "support/support.h"

/* An own kernel, told apart by its number; the tests run it to see whose it is. */
static const char NUMBER_SOURCE[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void number(__global int *out)\n"
    "{\n"
    "    out[0] = NUMBER;\n"
    "}\n";

static yoke_context *context;
static yoke_selection *selection;

static void
open_cached(const char *cache, const char *selector)
{
    yoke_context_options options = {.cache_dir = scratch_path(cache)};

    ASSERT_OK(yoke_context_create(&options, &context));
    ASSERT_OK(yoke_selection_create(context, selector, NULL, &selection));
}

static void
open_devices(const char *selector)
{
    open_cached("cache", selector);
}

static void
close_devices(void)
{
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

static void
set_up(void)
{
    scratch_set_up();
    unsetenv("YOKE_CL_DIR");
    open_devices(test_selector());
}

static void
set_up_cold(void)
{
    scratch_set_up_cold();
    unsetenv("YOKE_CL_DIR");
    open_devices(test_selector());
}

/* Where binaries seem cheap, each program leaves one. */
static void
make_cheap(void)
{
    for (size_t d = 0; d < yoke_selection_count(selection); d++)
        ASSERT_OK(yki_program_set_asking(yoke_selection_get(selection, d), 1e-4));
}

static void
set_up_cheap(void)
{
    set_up();
    make_cheap();
}

static void
tear_down(void)
{
    close_devices();
    scratch_tear_down();
}

static yoke_device *
first_device(void)
{
    return yoke_selection_get(selection, 0);
}

static const yki_root *
first_root(void)
{
    return yki_device_space(first_device())->root;
}

/* The program NUMBER_SOURCE with this number, on a device of the selection. */
static yki_program *
get_number(size_t device, int number)
{
    char options[32];
    yki_program *program = NULL;

    snprintf(options, sizeof options, "-DNUMBER=%d", number);
    ASSERT_OK(yki_program_get_source(yoke_selection_get(selection, device), "number.cl",
                                     NUMBER_SOURCE, options, &program));
    ck_assert_ptr_nonnull(program);
    return program;
}

/* Runs a kernel that writes one int. */
static int
run_program(size_t device, yki_program *program, const char *name)
{
    cl_device_id id = yoke_selection_get(selection, device)->cl;
    cl_int error, value = -1;
    cl_kernel kernel = clCreateKernel(program->cl, name, &error);
    cl_command_queue queue;
    cl_mem memory;

    ck_assert_msg(error == CL_SUCCESS, "kernel %s: %s", name, yki_cl_error_name(error));
    queue = clCreateCommandQueue(program->space->cl, id, 0, &error);
    ck_assert_int_eq(error, CL_SUCCESS);
    memory = clCreateBuffer(program->space->cl, CL_MEM_READ_WRITE, sizeof value, NULL, &error);
    ck_assert_int_eq(error, CL_SUCCESS);
    ck_assert_int_eq(clSetKernelArg(kernel, 0, sizeof memory, &memory), CL_SUCCESS);
    ck_assert_int_eq(clEnqueueTask(queue, kernel, 0, NULL, NULL), CL_SUCCESS);
    ck_assert_int_eq(
        clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL),
        CL_SUCCESS);
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    clReleaseKernel(kernel);
    return value;
}

/* How many builds it takes to get and run that program. */
static uint64_t
number_builds(size_t device, int number)
{
    uint64_t before = yki_program_builds(), built;
    yki_program *program = get_number(device, number);

    built = yki_program_builds() - before;
    ck_assert_int_eq(run_program(device, program, "number"), number);
    yki_program_release(program);
    return built;
}

/* ---- sources ---- */

START_TEST(embedded_bytes)
{
    const char *top = getenv("YOKE_SRCDIR");

    ck_assert_msg(top != NULL, "YOKE_SRCDIR is not set: run by make check");
    ck_assert_uint_gt(yki_kernel_source_count, 1);
    for (size_t i = 0; i < yki_kernel_source_count; i++) {
        const yki_kernel_source *source = &yki_kernel_sources[i];
        char path[1024], first[128], *bytes, *at;
        size_t size;

        snprintf(path, sizeof path, "%s/clkernels/%s", top, source->file);
        snprintf(first, sizeof first, "#line 1 \"%s\"\n", source->file);
        ck_assert_str_eq(source->lines[0], first);
        at = bytes = scratch_read(path, &size);
        for (size_t j = 1; j < source->line_count; j++) {
            size_t length = strlen(source->lines[j]);

            ck_assert_msg(!strncmp(at, source->lines[j], length), "%s, line %zu", path, j);
            at += length;
        }
        ck_assert_msg(at == bytes + size, "%s is longer than what is embedded", path);
        free(bytes);
    }
}
END_TEST

/* Each by itself, with nothing before it but common.cl, and without a warning. Without a cache, for
 * which some drivers would translate kernels too, in minutes. */
START_TEST(embedded_compile)
{
    yoke_context_options options = {.no_cache = true};

    close_devices();
    ASSERT_OK(yoke_context_create(&options, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t d = 0; d < yoke_selection_count(selection); d++)
        for (size_t i = 0; i < yki_kernel_source_count; i++) {
            yki_program *program;

            ASSERT_OK(yki_program_get(yoke_selection_get(selection, d), yki_kernel_sources[i].file,
                                      "-Werror", &program));
            yki_program_release(program);
        }
}
END_TEST

/* The compiler alone: a file with what stands before it, options. */
static void
assert_compiles(const char *file, const char *options)
{
    char log[4096] = "", *text;
    cl_program program;
    cl_int error;

    ASSERT_OK(yki_source_of_file(file, &text));
    program = clCreateProgramWithSource(yki_device_space(first_device())->cl, 1,
                                        (const char **)&text, NULL, &error);
    yki_free(text);
    ck_assert_int_eq(error, CL_SUCCESS);
    error = clBuildProgram(program, 0, NULL, options, NULL, NULL);
    clGetProgramBuildInfo(program, first_device()->cl, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log,
                          NULL);
    ck_assert_msg(error == CL_SUCCESS, "%s with %s: %s: %s", file, options,
                  yki_cl_error_name(error), log);
    clReleaseProgram(program);
}

/* And for devices that are not at hand, or by hand, which a second look at the same sources (by
 * sanitizers of the host's code) leaves out. */
START_TEST(embedded_compile_otherwise)
{
    for (size_t i = 0; i < yki_kernel_source_count; i++) {
        const char *file = yki_kernel_sources[i].file;

        assert_compiles(file, "-cl-std=CL1.2");
        if (getenv("YOKE_TEST_QUICK"))
            continue;
        assert_compiles(file, "-cl-std=CL1.2 -DYKI_WIDTH=1 -DYKI_HAVE_FMA=0");
        assert_compiles(file, "-cl-std=CL1.2 -DYKI_WIDTH=8 -DYKI_ROUNDED_DIVIDE=1");
    }
}
END_TEST

START_TEST(unknown_file)
{
    yki_program *program = (void *)1;

    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  yki_program_get(first_device(), "nothing.cl", "", &program));
    ASSERT_DETAIL("\"nothing.cl\"");
    /* Not a way to a file of the disk, either. */
    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    scratch_write(scratch_path("nothing.cl"), NUMBER_SOURCE, sizeof NUMBER_SOURCE - 1);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  yki_program_get(first_device(), "nothing.cl", "", &program));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  yki_program_get(first_device(), "../clkernels/fill.cl", "", &program));
    ck_assert_ptr_eq(program, (void *)1);
}
END_TEST

/* What a user's file says takes part; a relative path and a missing file do not. */
START_TEST(source_override)
{
    static const char text[] = "__kernel void number(__global int *out)\n{\n    out[0] = MINE;\n}";
    yki_program *ours, *theirs;

    scratch_write(scratch_path("fill.cl"), text, sizeof text - 1);
    setenv("YOKE_CL_DIR", ".", 1);
    ck_assert_int_eq(chdir(scratch_dir()), 0);
    ASSERT_OK(yki_program_get(first_device(), "fill.cl", "-DMINE=7", &ours));
    ck_assert_uint_ge(scratch_log_count(YOKE_LOG_WARNING, "not an absolute path"), 1);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, "taken from"), 0);

    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    ASSERT_OK(yki_program_get(first_device(), "fill.cl", "-DMINE=7", &theirs));
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, scratch_path("fill.cl")), 1);
    ck_assert_ptr_ne(ours, theirs);
    ck_assert_int_eq(run_program(0, theirs, "number"), 7);
    yki_program_release(theirs);

    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(unlink(scratch_path("fill.cl")), 0);
    ASSERT_OK(yki_program_get(first_device(), "fill.cl", "-DMINE=7", &theirs));
    ck_assert_ptr_eq(ours, theirs);
    yki_program_release(theirs);
    yki_program_release(ours);

    ck_assert_int_eq(mkdir(scratch_path("fill.cl"), 0700), 0);
    ASSERT_STATUS(YOKE_ERROR_IO, yki_program_get(first_device(), "fill.cl", "", &theirs));
    ASSERT_DETAIL("YOKE_CL_DIR");
    ck_assert_int_eq(rmdir(scratch_path("fill.cl")), 0);

    /* common.cl as well, for every other file. */
    scratch_write(scratch_path("common.cl"), "#define MINE 8", 14);
    ASSERT_OK(yki_program_get_source(first_device(), "own.cl", text, "", &theirs));
    ck_assert_int_eq(run_program(0, theirs, "number"), 8);
    yki_program_release(theirs);
}
END_TEST

/* A dot unit whose trial failed, here by a user's file, is tried again: the cache does not keep it.
 */
START_TEST(source_of_a_trial)
{
    const yki_dot_unit unit = yki_device_get_traits(first_device())->bf16;

    close_devices();
    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    scratch_write(scratch_path("dot_probe.cl"), "nonsense;", 9);
    open_cached("other", test_selector());
    ck_assert_int_eq(yki_device_get_traits(first_device())->bf16,
                     YKI_MIN(unit, YKI_DOT_ROUNDED)); /* simulators: none is tried */
    close_devices();
    ck_assert_int_eq(unlink(scratch_path("dot_probe.cl")), 0);
    open_cached("other", test_selector());
    ck_assert_int_eq(yki_device_get_traits(first_device())->bf16, unit);
}
END_TEST

/* Kernels of trials that compile, and compute something else: the unit is not used, and why is
 * said.
 */
START_TEST(a_unit_that_miscomputes_is_refused)
{
    static const char lanes[] =
        "#include \"dot.cl\"\n"
        "__kernel YKI_GROUP(1, 1) void yki_dot_probe(__global const uint *a,\n"
        "    __global const uint *b, __global float *c)\n"
        "{\n"
        "    for (int i = 0; i < W; i++)\n"
        "        c[i] += a[0] == b[i] ? 2.f : 1.f;\n"
        "}\n"
        "DOT_END\n";
    static const char tile[] = "__kernel YKI_GROUP(128, 1) void yki_tile_probe(__global float *a,\n"
                               "    __global float *b, __global float *c)\n"
                               "{\n"
                               "    c[get_local_id(0)] = a[0] + b[0] + 0.5f;\n"
                               "}\n";
    const yki_dot_unit candidate = yki_dot_candidate(first_root());
    const yki_device_traits *traits;
    yoke_device_info info;

    close_devices();
    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    scratch_write(scratch_path("dot_probe.cl"), lanes, sizeof lanes - 1);
    scratch_write(scratch_path("tile_probe.cl"), tile, sizeof tile - 1);
    scratch_log_clear();
    open_cached("other", test_selector());
    traits = yki_device_get_traits(first_device());
    if (traits->bf16 == YKI_DOT_FMA) /* simulators: none is tried */
        return;
    ck_assert_int_eq(traits->bf16, YKI_DOT_ROUNDED);
    ck_assert_int_eq(traits->tf32, YKI_DOT_ROUNDED_TF32);
    ck_assert_uint_eq(
        scratch_log_count(YOKE_LOG_INFO, "as it should; products are made without it") > 0,
        candidate != YKI_DOT_ROUNDED);
    ASSERT_OK(yoke_device_get_info(first_device(), &info));
    ck_assert_str_eq(info.bf16, "");
    ck_assert_str_eq(info.tf32, "");
}
END_TEST

/* An included file takes part in the key, has its own names in messages, and may be the user's. */
START_TEST(source_includes)
{
    static const char outer[] = "__constant int before = 1;\n#include \"copy.cl\"\n"
                                "__kernel void number(__global int *out)\n{\n"
                                "    out[0] = MINE * 1000 + __LINE__;\n}";
    yki_program *program;

    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    scratch_write(scratch_path("common.cl"), "\n", 1);
    scratch_write(scratch_path("fill.cl"), outer, sizeof outer - 1);
    for (int mine = 7; mine <= 8; mine++) {
        scratch_write(scratch_path("copy.cl"), mine == 7 ? "#define MINE 7" : "#define MINE 8", 14);
        ASSERT_OK(yki_program_get(first_device(), "fill.cl", "", &program));
        ck_assert_int_eq(run_program(0, program, "number"), mine * 1000 + 5);
        yki_program_release(program);
    }
    scratch_write(scratch_path("copy.cl"), "\n\nnonsense;\n", 12);
    ASSERT_STATUS(YOKE_ERROR_BUILD, yki_program_get(first_device(), "fill.cl", "", &program));
    if (yki_device_get_traits(first_device())->type != YOKE_DEVICE_ACCELERATOR)
        ASSERT_DETAIL("copy.cl:3"); /* the simulator's compiler does not follow #line */
    /* Only kernel files of the library, and no more than one level. */
    scratch_write(scratch_path("fill.cl"), "#include \"own.cl\"", 17);
    scratch_write(scratch_path("own.cl"), "\n", 1);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yki_program_get(first_device(), "fill.cl", "", &program));
    ASSERT_DETAIL("\"own.cl\"");
    scratch_write(scratch_path("fill.cl"), "#include \"fill.cl\"", 18);
    ASSERT_STATUS(YOKE_ERROR_BUILD, yki_program_get(first_device(), "fill.cl", "", &program));
}
END_TEST

/* ---- the table ---- */

START_TEST(table)
{
    yki_program *first, *second;
    uint64_t before;

    for (size_t d = 0; d < yoke_selection_count(selection); d++) {
        number_builds(d, 1);
        before = yki_program_builds();
        first = get_number(d, 1);
        second = get_number(d, 1);
        ck_assert_ptr_eq(first, second);
        ck_assert_uint_eq(yki_program_builds(), before);
        yki_program_release(second);
        second = get_number(d, 2);
        ck_assert_ptr_ne(first, second);
        ck_assert_int_eq(run_program(d, first, "number"), 1);
        ck_assert_int_eq(run_program(d, second, "number"), 2);
        ck_assert_ptr_eq(yki_program_retain(second), second);
        yki_program_release(second);
        yki_program_release(second);
        yki_program_release(first);
    }
    yki_program_release(NULL);
}
END_TEST

/* A program holds what it was built for. */
START_TEST(outlives_its_parents)
{
    yki_program *program = get_number(0, 3);

    close_devices();
    ck_assert_str_eq(program->name, "number.cl");
    ck_assert_int_eq(clRetainProgram(program->cl), CL_SUCCESS);
    ck_assert_int_eq(clReleaseProgram(program->cl), CL_SUCCESS);
    yki_program_release(program);
    open_devices(test_selector());
}
END_TEST

START_TEST(device_only_listed)
{
    yki_program *program;

    ASSERT_STATUS(YOKE_ERROR_STATE,
                  yki_program_get(yoke_context_get_device(context, 0), "fill.cl", "", &program));
    ASSERT_DETAIL("select");
}
END_TEST

/* ---- the cache ---- */

static void
reopen(const char *selector)
{
    close_devices();
    open_devices(selector);
}

START_TEST(second_context)
{
    size_t count = yoke_selection_count(selection);
    uint64_t cold = 0, warm = 0;

    for (size_t d = 0; d < count; d++)
        cold += number_builds(d, 4);
    ck_assert_uint_ge(cold, 1);
    reopen(test_selector());
    for (size_t d = 0; d < count; d++)
        warm += number_builds(d, 4);
    ck_assert_msg(!warm, "%s", scratch_log());
    ck_assert_uint_eq(number_builds(0, 5), 1);
}
END_TEST

START_TEST(no_cache)
{
    yoke_context_options options = {.cache_dir = scratch_path("none"), .no_cache = true};
    struct stat about;

    for (int i = 0; i < 2; i++) {
        close_devices();
        ASSERT_OK(yoke_context_create(&options, &context));
        ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
        ck_assert_uint_eq(number_builds(0, 4), 1);
    }
    ck_assert_int_eq(stat(scratch_path("none"), &about), -1);
    reopen(test_selector());
}
END_TEST

/* Who waits is told why, every two seconds of compiling. */
START_TEST(long_compiling)
{
    int64_t start = time(NULL);
    int number = 1000;

    scratch_log_clear();
    number_builds(0, number);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, "compiled"), 0);
    while (!scratch_log_count(YOKE_LOG_INFO, "compiled") && time(NULL) - start < 60)
        number_builds(0, ++number);
    if (time(NULL) - start >= 60)
        return; /* a driver that compiles in no time */
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, "now number.cl; later runs find them"), 1);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, ": compiled "), 1);
}
END_TEST

/* Every entry of the cache: the bytes on disk become those. */
static unsigned
overwrite_entries(const void *data, size_t size)
{
    DIR *dir = opendir(scratch_path("cache"));
    struct dirent *entry;
    unsigned count = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)))
        if (strstr(entry->d_name, ".bin")) {
            char path[512];

            snprintf(path, sizeof path, "cache/%s", entry->d_name);
            scratch_write(scratch_path(path), data, size);
            count++;
        }
    closedir(dir);
    return count;
}

START_TEST(damaged_entry)
{
    unsigned entries;

    number_builds(0, 6);
    /* The program, what a trial found, and what a binary costs. */
    entries = overwrite_entries("YOKECLB, but not for long", 25);
    ck_assert_msg(entries >= 1 && entries <= 3, "%u entries", entries);
    reopen(test_selector());
    make_cheap();
    scratch_log_clear();
    ck_assert_uint_eq(number_builds(0, 6), 1);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "ignored"), 1);
    reopen(test_selector());
    ck_assert_uint_eq(number_builds(0, 6), 0);
}
END_TEST

/* A sound entry that the driver does not take. Rusticl cannot be asked: it aborts. */
START_TEST(rejected_binary)
{
    yki_program *program = get_number(0, 7);
    char key[33];

    snprintf(key, sizeof key, "%s", program->key);
    yki_program_release(program);
    if (strstr(first_root()->info.platform, "rusticl"))
        return;
    yki_cache_store(context, key, "neither this nor that", 21);
    reopen(test_selector());
    scratch_log_clear();
    ck_assert_uint_eq(number_builds(0, 7), 1);
    ck_assert_msg(scratch_log_count(YOKE_LOG_WARNING, "does not take it") == 1, "%s",
                  scratch_log());
    reopen(test_selector());
    ck_assert_uint_eq(number_builds(0, 7), 0);
}
END_TEST

/* Asked for only where that is cheap. */
static uint64_t
pair_builds(int number)
{
    static const char source[] = "__kernel void one(__global int *out) { out[0] = NUMBER; }\n"
                                 "__kernel void two(__global int *out) { out[0] = 2 * NUMBER; }\n";
    uint64_t before = yki_program_builds();
    yki_program *program;
    char options[32];

    snprintf(options, sizeof options, "-DNUMBER=%d", number);
    ASSERT_OK(yki_program_get_source(first_device(), "pair.cl", source, options, &program));
    ck_assert_int_eq(run_program(0, program, "two"), 2 * number);
    yki_program_release(program);
    return yki_program_builds() - before;
}

START_TEST(cheap_binaries)
{
    ASSERT_OK(yki_program_set_asking(first_device(), 1e-4));
    ck_assert_uint_eq(pair_builds(20), 1);
    reopen(test_selector());
    ck_assert_msg(pair_builds(20) == 0, "%s", scratch_log());
}
END_TEST

/* Not asked for, and built again; but not for ever where that takes as long as the first time. */
START_TEST(dear_binaries)
{
    yki_unasked note = {YKI_UNASKED, 1e-9};
    char key[33];

    ASSERT_OK(yki_program_set_asking(first_device(), 1));
    ck_assert_uint_eq(pair_builds(21), 1);
    snprintf(key, sizeof key, "%s", first_device()->space->programs->key);
    ck_assert_uint_eq(number_builds(0, 21), 1);
    reopen(test_selector());
    ck_assert_uint_eq(pair_builds(21), 1);
    ck_assert_uint_eq(number_builds(0, 21), 1);

    yki_cache_store(context, key, &note, sizeof note);
    reopen(test_selector());
    ck_assert_uint_eq(pair_builds(21), 1);
    reopen(test_selector());
    ck_assert_msg(pair_builds(21) == 0, "%s", scratch_log());
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, ""), 0);
}
END_TEST

/* That asking is dear is known before the first program, also where the driver has all programs in
 * a cache of its own. */
START_TEST(dear_binaries_are_never_asked_for)
{
    if (!strstr(first_root()->info.platform, "Portable Computing"))
        TEST_NOT_HERE("it gives its binaries at once");
    for (int i = 0; i < 3; i++) {
        close_devices();
        open_cached(i == 0 ? "one" : "another", test_selector());
        ck_assert_uint_eq(pair_builds(22), 1);
        ck_assert_uint_eq(pair_builds(23), 1);
    }
}
END_TEST

/* One entry serves a device and its parts, be they sub-devices or slices. */
START_TEST(parts_share)
{
    char halves[80], id[64];

    snprintf(id, sizeof id, "%s", first_root()->info.id);
    snprintf(halves, sizeof halves, "%s/2", id);
    if (first_root()->info.compute_units < 2)
        return;
    reopen(halves);
    ck_assert_uint_eq(yoke_selection_count(selection), 2);
    ck_assert_uint_eq(number_builds(0, 8), 1);
    ck_assert_uint_eq(number_builds(1, 8), 0);
    reopen(id);
    ck_assert_msg(number_builds(0, 8) == 0, "%s", scratch_log());
    ck_assert_uint_eq(number_builds(0, 9), 1);
    reopen(halves);
    ck_assert_msg(number_builds(1, 9) == 0, "%s", scratch_log());
    ck_assert_uint_eq(number_builds(0, 9), 0);
}
END_TEST

/* Kernels are built with no place to keep them, too. */
START_TEST(unusable_cache)
{
    yoke_context_options options = {.cache_dir = "/proc/self/none"};

    close_devices();
    scratch_log_clear();
    ASSERT_OK(yoke_context_create(&options, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    ck_assert_uint_eq(number_builds(0, 1), 1);
    ck_assert_uint_eq(number_builds(0, 2), 1);
    ck_assert_msg(scratch_log_count(YOKE_LOG_WARNING, "") == 1, "%s", scratch_log());
}
END_TEST

enum { PROCESSES = 16, KERNELS = 10 };

/* Gets all kernels, runs one of them, and reports how many it built itself. */
static void
cold_start(int go, int result, int own)
{
    yki_program *programs[KERNELS];
    unsigned char built, byte;

    if (read(go, &byte, 1) != 0) /* all start when the parent closes its end */
        _exit(1);
    open_devices(test_selector());
    make_cheap();
    for (int i = 0; i < KERNELS; i++)
        programs[i] = get_number(0, 100 + i);
    built = (unsigned char)yki_program_builds();
    ck_assert_int_eq(run_program(0, programs[own], "number"), 100 + own);
    for (int i = 0; i < KERNELS; i++)
        yki_program_release(programs[i]);
    close_devices();
    if (write(result, &built, 1) != 1)
        _exit(1);
    _exit(0);
}

static void
start_together(unsigned expected)
{
    int go[2], result[2], status, failed = 0;
    unsigned total = 0;
    unsigned char built;
    pid_t children[PROCESSES];

    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(result), 0);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (!children[i]) {
            close(go[1]);
            cold_start(go[0], result[1], i % KERNELS);
        }
    }
    close(go[1]);
    close(result[1]);
    while (read(result[0], &built, 1) == 1)
        total += built;
    for (int i = 0; i < PROCESSES; i++)
        failed += waitpid(children[i], &status, 0) != children[i] || status;
    close(go[0]);
    close(result[0]);
    ck_assert_msg(!failed, "%d of %d processes failed", failed, PROCESSES);
    ck_assert_msg(total == expected, "%u builds in all instead of %u", total, expected);
}

/* No failure, and no kernel built twice. OpenCL must not be up before the fork. */
START_TEST(many_processes)
{
    start_together(KERNELS);
    start_together(0);
}
END_TEST

static void *
get_all(void *argument)
{
    uint64_t *failed = argument;

    for (int i = 0; i < KERNELS; i++) {
        char options[32];
        yki_program *program;

        snprintf(options, sizeof options, "-DNUMBER=%d", 200 + i);
        if (yki_program_get_source(first_device(), "number.cl", NUMBER_SOURCE, options, &program) !=
            YOKE_OK)
            ++*failed;
        else
            yki_program_release(program);
    }
    return NULL;
}

START_TEST(many_threads)
{
    uint64_t failed[4] = {0}, before = yki_program_builds();
    pthread_t threads[YKI_COUNT(failed)];

    for (size_t i = 0; i < YKI_COUNT(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_all, &failed[i]), 0);
    for (size_t i = 0; i < YKI_COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        ck_assert_uint_eq(failed[i], 0);
    }
    ck_assert_uint_eq(yki_program_builds() - before, KERNELS);
}
END_TEST

/* ---- failures ---- */

START_TEST(build_error)
{
    static const char source[] = "\n__kernel void broken(__global int *out)\n{\n"
                                 "    out[0] = yki_oops;\n}\n";

    for (size_t d = 0; d < yoke_selection_count(selection); d++) {
        yoke_device *device = yoke_selection_get(selection, d);
        yki_program *program = (void *)1;

        /* Twice: an error is not kept. */
        for (int i = 0; i < 2; i++) {
            ASSERT_STATUS(YOKE_ERROR_BUILD, yki_program_get_source(device, "broken.cl", source,
                                                                   "-DSEEN=1", &program));
            ASSERT_DETAIL("broken.cl does not compile");
            ASSERT_DETAIL(yki_device_id(device));
            ASSERT_DETAIL("-DSEEN=1");
            ASSERT_DETAIL("yki_oops");
            /* Oclgrind has its own idea of lines. */
            if (!strstr(device->root->info.platform, "Oclgrind"))
                ASSERT_DETAIL("broken.cl:4:");
        }
        ck_assert_ptr_eq(program, (void *)1);
    }
    ck_assert_uint_eq(number_builds(0, 1), 1);
}
END_TEST

/* The first error of a log that is longer than the detail can be. */
START_TEST(long_log)
{
    enum { WARNINGS = 400, SIZE = 65536 };
    char *source = malloc(SIZE);
    size_t length = 0;
    yki_program *program;

    ck_assert_ptr_nonnull(source);
    for (int i = 0; i < WARNINGS; i++)
        length += (size_t)snprintf(source + length, SIZE - length,
                                   "#warning number %d of what nobody wants to read at all\n", i);
    snprintf(source + length, SIZE - length, "__kernel void k() { yki_oops; }\n");
    ASSERT_STATUS(YOKE_ERROR_BUILD,
                  yki_program_get_source(first_device(), "long.cl", source, "", &program));
    ASSERT_DETAIL("yki_oops");
    ck_assert_uint_lt(strlen(yoke_last_error()), 8000);
    free(source);
}
END_TEST

START_TEST(bad_options)
{
    yki_program *program;
    yoke_status status =
        yki_program_get(first_device(), "fill.cl", "-no-such-option-at-all", &program);

    /* Oclgrind takes anything. */
    if (status == YOKE_OK) {
        yki_program_release(program);
        return;
    }
    ck_assert_int_eq(status, YOKE_ERROR_BUILD);
    ASSERT_DETAIL("-no-such-option-at-all");
    ASSERT_DETAIL("fill.cl");
}
END_TEST

/* A name is text for messages, whatever is in it. */
START_TEST(strange_name)
{
    yki_program *program;

    ASSERT_OK(yki_program_get_source(first_device(), "a \"quoted\\\n#error name", NUMBER_SOURCE,
                                     "-DNUMBER=1", &program));
    ck_assert_int_eq(run_program(0, program, "number"), 1);
    yki_program_release(program);
}
END_TEST

/* Out of memory at each allocation in turn: says so, and leaves nothing half done. */
START_TEST(out_of_memory)
{
    yki_program *program = NULL;
    unsigned failures = 0;

    for (int warm = 0; warm < 2; warm++) {
        for (uint64_t n = 1;; n++) {
            yoke_status status;

            yki_alloc_fail_at(n);
            status = yki_program_get(first_device(), "fill.cl", "", &program);
            if (status == YOKE_OK)
                break;
            failures++;
            ck_assert_int_eq(status, YOKE_ERROR_OUT_OF_MEMORY);
            ck_assert_ptr_null(program);
        }
        yki_alloc_fail_at(0);
        yki_program_release(program);
        program = NULL;
        reopen(test_selector()); /* the second time from the disk */
    }
    ck_assert_uint_gt(failures, 20);
    printf("# %u allocations failed\n", failures);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("program");
    TCase *programs = test_case(suite, "program"), *processes = test_case(suite, "processes");
    TCase *cold = test_case(suite, "cold");

    tcase_add_checked_fixture(programs, set_up_cheap, tear_down);
    tcase_add_test(programs, embedded_bytes);
    tcase_add_test(programs, embedded_compile);
    tcase_add_test(programs, embedded_compile_otherwise);
    tcase_add_test(programs, unknown_file);
    tcase_add_test(programs, source_override);
    tcase_add_test(programs, source_of_a_trial);
    tcase_add_test(programs, a_unit_that_miscomputes_is_refused);
    tcase_add_test(programs, source_includes);
    tcase_add_test(programs, table);
    tcase_add_test(programs, outlives_its_parents);
    tcase_add_test(programs, device_only_listed);
    tcase_add_test(programs, second_context);
    tcase_add_test(programs, no_cache);
    tcase_add_test(programs, damaged_entry);
    tcase_add_test(programs, rejected_binary);
    tcase_add_test(programs, cheap_binaries);
    tcase_add_test(programs, dear_binaries);
    tcase_add_test(programs, parts_share);
    tcase_add_test(programs, unusable_cache);
    tcase_add_test(programs, many_threads);
    tcase_add_test(programs, build_error);
    tcase_add_test(programs, long_log);
    tcase_add_test(programs, bad_options);
    tcase_add_test(programs, strange_name);
    tcase_add_test(programs, out_of_memory);
    tcase_add_checked_fixture(cold, set_up_cold, tear_down);
    tcase_add_test(cold, long_compiling);
    tcase_add_test(cold, dear_binaries_are_never_asked_for);
    tcase_add_checked_fixture(processes, scratch_set_up, scratch_tear_down);
    tcase_set_timeout(processes, 300); /* 32 processes, which a machine may have to run in turn */
    tcase_add_test(processes, many_processes);
    return suite;
}
