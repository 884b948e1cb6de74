/* SPDX-License-Identifier: Apache-2.0
 *
 * check_sources.c - where the source of a program comes from: what is embedded, $YOKE_CL_DIR, and
 * included files; and that all of it compiles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/programs.h"
#include "device/sources.h"
#include "support/devices.h"
#include "support/scratch.h"

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
    ck_assert_int_eq(traits->f16, YKI_DOT_ROUNDED_F16);
    ck_assert(!traits->copies_ahead);
    ck_assert_uint_eq(
        scratch_log_count(YOKE_LOG_INFO, "as it should; products are made without it") > 0,
        candidate != YKI_DOT_ROUNDED);
    ASSERT_OK(yoke_device_get_info(first_device(), &info));
    ck_assert_str_eq(info.bf16, "");
    ck_assert_str_eq(info.tf32, "");
    ck_assert_str_eq(info.f16, "");
}
END_TEST

/* Copies to local memory are tried too, here on a processor that says it is a GPU
 * (tests/gpu/face.c): by the right kernel, and by one that computes something else, of which the
 * findings with the right one tell nothing. */
START_TEST(copies_that_miscompute_are_refused)
{
    static const char tile[] = "__kernel YKI_GROUP(128, 1) void yki_tile_probe(__global float *a,\n"
                               "    __global float *b, __global float *c)\n"
                               "{\n"
                               "    c[get_local_id(0)] = a[0] + b[0] + 0.5f;\n"
                               "}\n";

    if (test_in_matrix() || !test_put_on_face())
        return;
    setenv("YOKE_FACE_BESIDE", "0", 1);
    setenv("YOKE_FACE_GROUP", "128", 1);
    setenv("YOKE_FACE_COPIES", "1", 1);
    unsetenv("YOKE_CL_DIR");
    open_cached("face", "gpu:0");
    ck_assert(yki_device_get_traits(first_device())->copies_ahead);
    close_devices();
    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    scratch_write(scratch_path("tile_probe.cl"), tile, sizeof tile - 1);
    open_cached("face", "gpu:0");
    ck_assert(!yki_device_get_traits(first_device())->copies_ahead);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_INFO, "copies to local memory as it should"), 1);
    close_devices();
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

/* PoCL 3 to 6 read the functions that the kernels use, and not all that there are: these it reads
 * for a kernel that calls another one, and for a user's own. */
START_TEST(functions_that_kernels_use)
{
    static const char few[] =
        "#ifdef YKI_OWN_BUILTINS\n#define HERE 7\n#else\n#define HERE 8\n#endif\n"
        "__kernel void number(__global int *out)\n{\n    out[0] = HERE;\n}";
    static const char more[] =
        "#ifdef YKI_OWN_BUILTINS\n#define HERE 7\n#else\n#define HERE 8\n#endif\n"
        "__kernel void number(__global int *out)\n{\n"
        "    out[0] = mad24(out[0], 0, HERE);\n}";
    yki_program *program;
    yoke_device_info info;
    bool is_short;

    ASSERT_OK(yoke_device_get_info(first_device(), &info));
    is_short = strstr(info.platform, "Portable Computing") && atoi(info.driver) >= 3 &&
               atoi(info.driver) <= 6;
    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    scratch_write(scratch_path("fill.cl"), few, sizeof few - 1);
    scratch_write(scratch_path("copy.cl"), more, sizeof more - 1);
    ASSERT_OK(yki_program_get(first_device(), "fill.cl", "", &program));
    ck_assert_int_eq(run_program(0, program, "number"), is_short ? 7 : 8);
    yki_program_release(program);
    ASSERT_OK(yki_program_get(first_device(), "copy.cl", "", &program));
    ck_assert_int_eq(run_program(0, program, "number"), 8);
    yki_program_release(program);
    ASSERT_OK(yki_program_get_source(first_device(), "a user's", few, "", &program));
    ck_assert_int_eq(run_program(0, program, "number"), 8);
    yki_program_release(program);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("sources");
    TCase *sources = test_case(suite, "sources");

    tcase_add_checked_fixture(sources, set_up_cheap, tear_down);
    tcase_add_test(sources, embedded_bytes);
    tcase_add_test(sources, embedded_compile);
    tcase_add_test(sources, embedded_compile_otherwise);
    tcase_add_test(sources, unknown_file);
    tcase_add_test(sources, source_override);
    tcase_add_test(sources, source_of_a_trial);
    tcase_add_test(sources, a_unit_that_miscomputes_is_refused);
    tcase_add_test(sources, source_includes);
    tcase_add_test(sources, functions_that_kernels_use);
    sources = test_case(suite, "face");
    tcase_add_checked_fixture(sources, scratch_set_up, scratch_tear_down);
    tcase_add_test(sources, copies_that_miscompute_are_refused);
    return suite;
}
