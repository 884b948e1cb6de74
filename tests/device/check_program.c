/* SPDX-License-Identifier: Apache-2.0
 *
 * check_program.c - programs on the devices at hand: the table, the cache across contexts and
 * processes, build errors. check_sources.c has where their source comes from.
 *
 * Each test starts with no cache of yoke's. The driver's own is that of all tests: it only makes
 * builds faster, and each of them is counted.
 */
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/cache.h"
#include "device/programs.h"
#include "support/scratch.h"

static void
set_up_cold(void)
{
    scratch_set_up_cold();
    unsetenv("YOKE_CL_DIR");
    open_devices(test_selector());
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

/* Makes a process that stops its parent most of the time, as if the machine were busy, until *over.
 */
static pid_t
start_disturber(atomic_bool *over)
{
    const struct timespec stopped = {0, 40000000}, runs = {0, 3000000};
    const pid_t parent = getpid(), child = fork();

    ck_assert_int_ge(child, 0);
    if (child > 0)
        return child;
    while (!atomic_load(over) && kill(parent, SIGSTOP) == 0) {
        nanosleep(&stopped, NULL);
        kill(parent, SIGCONT);
        nanosleep(&runs, NULL);
    }
    _exit(0);
}

/* A build from the driver's own cache that takes long because the machine is busy. */
START_TEST(a_busy_machine_asks_for_nothing)
{
    atomic_bool *over =
        mmap(NULL, sizeof *over, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child;

    if (!strstr(first_root()->info.platform, "Portable Computing"))
        TEST_NOT_HERE("it has no cache of its own");
    ck_assert_ptr_ne(over, MAP_FAILED);
    ASSERT_OK(yki_program_set_asking(first_device(), 1));
    ck_assert_uint_eq(pair_builds(25), 1);
    reopen(test_selector());
    child = start_disturber(over);
    ck_assert_uint_eq(pair_builds(25), 1);
    atomic_store(over, true);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    reopen(test_selector());
    ck_assert_msg(pair_builds(25) == 1, "a binary was asked for: %s", scratch_log());
    munmap(over, sizeof *over);
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
    tcase_add_test(cold, a_busy_machine_asks_for_nothing);
    tcase_add_checked_fixture(processes, scratch_set_up, scratch_tear_down);
    tcase_set_timeout(processes, 300); /* 32 processes, which a machine may have to run in turn */
    tcase_add_test(processes, many_processes);
    return suite;
}
