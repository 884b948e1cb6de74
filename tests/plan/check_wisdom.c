/* SPDX-License-Identifier: Apache-2.0
 *
 * check_wisdom.c - the file of measured times: what is written is read again,
 * writers lose nothing of each other's, and no file does any harm.
 */
#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plan/plan.h"
#include "support/scratch.h"
#include "support/support.h"

enum { WRITERS = 8, ROUNDS = 5, EACH = 20, LINES = 6, MAX_ENTRIES = 100000 };

static yoke_context *context;
static yoke_device *device;

static void
open_device(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    device = yoke_context_get_device(context, 0);
}

static void
close_device(void)
{
    yoke_context_destroy(context);
}

static void
problem_of(int i, char text[64])
{
    snprintf(text, 64, "matmul | f32 N %d -> f32 N 7 @256", i);
}

static double
seconds_of(int i)
{
    return 1e-6 * (i + 1);
}

static void
put(yki_wisdom *w, int i)
{
    char text[64];

    problem_of(i, text);
    ASSERT_OK(yki_wisdom_put(w, device, text, "gemm-x", (unsigned)i % 3, seconds_of(i)));
}

/* Whether entry i is known, with exactly what put() gave. */
static bool
knows(yki_wisdom *w, int i)
{
    char text[64];
    double seconds = 0;

    problem_of(i, text);
    return yki_wisdom_get(w, device, text, "gemm-x", (unsigned)i % 3, &seconds) &&
           seconds > seconds_of(i) - 1e-9 && seconds < seconds_of(i) + 1e-9;
}

static yki_wisdom *
opened(const char *path)
{
    yki_wisdom *w;

    ASSERT_OK(yki_wisdom_open(path, &w));
    return w;
}

/* A file with entries 0 .. LINES - 1; its text, to be freed. */
static char *
make_file(const char *path, size_t *size)
{
    yki_wisdom *w = opened(path);

    for (int i = 0; i < LINES; i++)
        put(w, i);
    ASSERT_OK(yki_wisdom_save(w));
    yki_wisdom_close(w);
    return scratch_read(path, size);
}

/* Nothing but the file and its lock is there. */
static void
assert_tidy(const char *name)
{
    DIR *folder = opendir(scratch_dir());
    const struct dirent *entry;

    ck_assert_ptr_nonnull(folder);
    while ((entry = readdir(folder))) {
        const char *rest = entry->d_name + strlen(name);

        if (strncmp(entry->d_name, name, strlen(name)) == 0 && *rest)
            ck_assert_msg(strcmp(rest, ".lock") == 0, "%s was left behind", entry->d_name);
    }
    closedir(folder);
}

START_TEST(wisdom_is_read_as_it_was_written)
{
    const char *path = scratch_path("w");
    double seconds;
    yki_wisdom *w;
    size_t size;
    char *text;

    open_device();
    /* The decimal point is the locale's for printf and strtod; not here. */
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        setlocale(LC_NUMERIC, "");
    text = make_file(path, &size);
    ck_assert_msg(strncmp(text, "yoke wisdom 1\ndevice ", 21) == 0, "%s", text);
    ck_assert_ptr_nonnull(
        strstr(text, "\n0.000001000 gemm-x 0 matmul | f32 N 0 -> f32 N 7 @256\n"));
    w = opened(path);
    for (int i = 0; i < LINES; i++)
        ck_assert_msg(knows(w, i), "entry %d", i);
    ck_assert(!knows(w, LINES));
    /* Another tuning is another entry; a new time replaces the old one. */
    ck_assert(
        !yki_wisdom_get(w, device, "matmul | f32 N 0 -> f32 N 7 @256", "gemm-x", 1, &seconds));
    ASSERT_OK(yki_wisdom_put(w, device, "matmul | f32 N 0 -> f32 N 7 @256", "gemm-x", 0, 2.5));
    ASSERT_OK(yki_wisdom_save(w));
    yki_wisdom_close(w);
    w = opened(path);
    ck_assert(yki_wisdom_get(w, device, "matmul | f32 N 0 -> f32 N 7 @256", "gemm-x", 0, &seconds));
    ck_assert(seconds == 2.5);
    yki_wisdom_close(w);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "wisdom"), 0);
    assert_tidy("w");
    free(text);
    close_device();
}
END_TEST

START_TEST(wisdom_refuses_times_that_are_none)
{
    yki_wisdom *w;

    open_device();
    w = opened(NULL);
    ASSERT_STATUS(YOKE_ERROR_VALUE, yki_wisdom_put(w, device, "p -> q", "s", 0, 0));
    ASSERT_STATUS(YOKE_ERROR_VALUE, yki_wisdom_put(w, device, "p -> q", "s", 0, -1));
    ASSERT_STATUS(YOKE_ERROR_VALUE, yki_wisdom_put(w, device, "p -> q", "s", 0, 0.0 / 0.0));
    ASSERT_OK(yki_wisdom_save(w)); /* memory only: nothing to do */
    yki_wisdom_close(w);
    close_device();
}
END_TEST

/* Two that opened the same file before either wrote it. */
START_TEST(wisdom_of_two_writers_is_merged)
{
    const char *path = scratch_path("w");
    yki_wisdom *a, *b;
    char text[64];
    double seconds;

    open_device();
    a = opened(path);
    b = opened(path);
    put(a, 1);
    put(b, 2);
    problem_of(3, text);
    ASSERT_OK(yki_wisdom_put(a, device, text, "gemm-x", 0, 3));
    ASSERT_OK(yki_wisdom_put(b, device, text, "gemm-x", 0, 4));
    ASSERT_OK(yki_wisdom_save(a));
    ASSERT_OK(yki_wisdom_save(b));
    ck_assert(knows(b, 1)); /* learnt while saving */
    yki_wisdom_close(a);
    yki_wisdom_close(b);
    a = opened(path);
    ck_assert(knows(a, 1) && knows(a, 2));
    ck_assert(yki_wisdom_get(a, device, text, "gemm-x", 0, &seconds));
    ck_assert(seconds == 4); /* the later writer's */
    yki_wisdom_close(a);
    close_device();
}
END_TEST

static void
write_from_child(const char *path, int writer, int gate)
{
    yki_wisdom *w;
    char byte;

    open_device();
    w = opened(path);
    if (read(gate, &byte, 1) < 0)
        _exit(2);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++)
            put(w, (writer * ROUNDS + round) * EACH + i);
        if (yki_wisdom_save(w) != YOKE_OK)
            _exit(1);
    }
    _exit(0);
}

START_TEST(wisdom_of_eight_processes_is_complete)
{
    const char *path = scratch_path("w");
    pid_t children[WRITERS];
    yki_wisdom *w;
    int gate[2];

    ck_assert_int_eq(pipe(gate), 0);
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork(); /* OpenCL was not touched yet */
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            close(gate[1]);
            write_from_child(path, i, gate[0]);
        }
    }
    close(gate[1]); /* all at once */
    for (int i = 0; i < WRITERS; i++) {
        int status;

        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "writer %d: %d", i, status);
    }
    close(gate[0]);
    open_device();
    w = opened(path);
    for (int i = 0; i < WRITERS * ROUNDS * EACH; i++)
        ck_assert_msg(knows(w, i), "entry %d of writer %d is lost", i, i / (ROUNDS * EACH));
    yki_wisdom_close(w);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "wisdom"), 0);
    assert_tidy("w");
    close_device();
}
END_TEST

/* Where the line of entry i ends in the text. */
static size_t
end_of(const char *text, int i)
{
    const char *at = strchr(strchr(text, '\n') + 1, '\n'); /* of the device */

    for (int line = 0; line <= i; line++)
        at = strchr(at + 1, '\n');
    return (size_t)(at - text) + 1;
}

START_TEST(wisdom_cut_anywhere_keeps_its_whole_lines)
{
    const char *path = scratch_path("w");
    size_t size;
    char *text;

    open_device();
    text = make_file(path, &size);
    for (size_t cut = 0; cut <= size; cut++) {
        yki_wisdom *w;

        scratch_log_clear();
        scratch_write(path, text, cut);
        w = opened(path);
        for (int i = 0; i < LINES; i++)
            ck_assert_msg(knows(w, i) == (cut >= end_of(text, i)), "cut at %zu, entry %d", cut, i);
        /* A cut within a line is reported, once. */
        ck_assert_msg(scratch_log_count(YOKE_LOG_WARNING, "wisdom") ==
                          (cut > 0 && text[cut - 1] != '\n'),
                      "cut at %zu: %s", cut, scratch_log());
        if (cut % 29 == 0) { /* and it heals */
            for (int i = 0; i < LINES; i++)
                put(w, i);
            ASSERT_OK(yki_wisdom_save(w));
            yki_wisdom_close(w);
            scratch_log_clear();
            w = opened(path);
            for (int i = 0; i < LINES; i++)
                ck_assert_msg(knows(w, i), "cut at %zu, entry %d after saving", cut, i);
            ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "wisdom"), 0);
        }
        yki_wisdom_close(w);
    }
    free(text);
    close_device();
}
END_TEST

START_TEST(wisdom_with_a_flipped_bit_keeps_the_lines_before)
{
    const char *path = scratch_path("w");
    size_t size;
    char *text;

    open_device();
    text = make_file(path, &size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        size_t at = bit / 8;
        yki_wisdom *w;

        text[at] = (char)(text[at] ^ 1 << bit % 8);
        scratch_write(path, text, size);
        text[at] = (char)(text[at] ^ 1 << bit % 8);
        w = opened(path);
        for (int i = 0; i < LINES; i++)
            if (at >= end_of(text, i))
                ck_assert_msg(knows(w, i), "bit %zu, entry %d", bit, i);
        yki_wisdom_close(w);
    }
    free(text);
    close_device();
}
END_TEST

/* Bad lines in the middle: reported once, and the next device's are read. */
START_TEST(wisdom_with_garbage_is_read_around_it)
{
    static const char *const bad[] = {"nonsense\n",          "\n",
                                      "-1.0 s 0 p -> q\n",   "0.0 s 0 p -> q\n",
                                      "nan s 0 p -> q\n",    "1e3 s 0 p -> q\n",
                                      "0.5 s zero p -> q\n", "0.5 s 0 no arrow\n",
                                      "0.5  0 p -> q\n",     "0.5 s 0 p -> q\r\n",
                                      "0.5,5 s 0 p -> q\n",  "99999999999999 s 0 p -> q\n",
                                      "0.5 s 0 \001 -> q\n", "0.5",
                                      "\377\376\375\n"};
    const char *path = scratch_path("w");
    size_t size;
    char *text;

    open_device();
    text = make_file(path, &size);
    for (size_t b = 0; b < YKI_COUNT(bad) + 3; b++) {
        size_t garbage = b < YKI_COUNT(bad) ? strlen(bad[b]) : 3u << 20;
        char *file = malloc(size + garbage + size), *at = file;
        const char *devices = strchr(text, '\n') + 1;
        yki_wisdom *w;

        memcpy(at, text, size);
        if (b < YKI_COUNT(bad))
            memcpy(at + size, bad[b], garbage);
        for (size_t i = 0; b >= YKI_COUNT(bad) && i < garbage; i++) {
            static uint32_t state = 1;

            state = state * 1664525u + 1013904223u;
            /* A line of 3 MB; zeros; random bytes. */
            at[size + i] = b == YKI_COUNT(bad)      ? 'x'
                           : b > YKI_COUNT(bad) + 1 ? (char)(state >> 24)
                                                    : '\0';
        }
        at[size + garbage - 1] = '\n';
        at += size + garbage;
        memcpy(at, devices, size - (size_t)(devices - text));
        *strstr(at, "f32 N 0 ->") = 'g'; /* something only the later part has */
        scratch_write(path, file, (size_t)(at - file) + size - (size_t)(devices - text));
        scratch_log_clear();
        w = opened(path);
        for (int i = 0; i < LINES; i++)
            ck_assert_msg(knows(w, i), "garbage %zu, entry %d", b, i);
        ck_assert_msg(yki_wisdom_get(w, device, "matmul | g32 N 0 -> f32 N 7 @256", "gemm-x", 0,
                                     &(double){0}),
                      "garbage %zu hides the next device", b);
        ck_assert_msg(scratch_log_count(YOKE_LOG_WARNING, "line 9 makes no sense") == 1,
                      "garbage %zu: %s", b, scratch_log());
        yki_wisdom_close(w);
        free(file);
    }
    free(text);
    close_device();
}
END_TEST

/* Entries after a damaged line may belong to a device whose line it was. */
START_TEST(wisdom_after_a_damaged_device_is_nobodys)
{
    const char *path = scratch_path("w");
    yki_wisdom *w;
    size_t size;
    char *text;

    open_device();
    text = make_file(path, &size);
    *strstr(text, "device ") = 'D';
    scratch_write(path, text, size);
    w = opened(path);
    for (int i = 0; i < LINES; i++)
        ck_assert(!knows(w, i));
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "line 2 makes no sense"), 1);
    yki_wisdom_close(w);
    free(text);
    close_device();
}
END_TEST

/* A file that is not ours is neither read nor replaced. */
START_TEST(wisdom_leaves_other_files_alone)
{
    static const char *const contents[] = {"int main(void) { return 0; }\n", "yoke wisdom 2\n",
                                           "yoke wisdom 1 \n", "\n", "PNG\r\n"};
    const char *path = scratch_path("w");

    open_device();
    for (size_t c = 0; c < YKI_COUNT(contents); c++) {
        yki_wisdom *w;
        size_t size;
        char *text;

        scratch_log_clear();
        scratch_write(path, contents[c], strlen(contents[c]));
        w = opened(path);
        if (strcmp(contents[c], "\n") != 0)
            ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "does not begin with"), 1);
        put(w, 1);
        ck_assert(knows(w, 1));
        if (strcmp(contents[c], "\n") != 0) {
            ASSERT_STATUS(YOKE_ERROR_FORMAT, yki_wisdom_save(w));
            ASSERT_DETAIL(path);
            text = scratch_read(path, &size);
            ck_assert_str_eq(text, contents[c]);
            free(text);
        }
        yki_wisdom_close(w);
        assert_tidy("w");
    }
    close_device();
}
END_TEST

static void
cannot_save(const char *path, yoke_status expected)
{
    yki_wisdom *w = opened(path);

    put(w, 1);
    ck_assert(knows(w, 1)); /* it serves this process all the same */
    ASSERT_STATUS(expected, yki_wisdom_save(w));
    ASSERT_DETAIL(path);
    yki_wisdom_close(w);
}

START_TEST(wisdom_paths_that_cannot_be_used)
{
    char path[512];
    yki_wisdom *w;

    open_device();
    snprintf(path, sizeof path, "%s/missing/w", scratch_dir());
    cannot_save(path, YOKE_ERROR_IO);
    cannot_save(scratch_dir(), YOKE_ERROR_FORMAT);
    cannot_save("/dev/zero", YOKE_ERROR_FORMAT);
    cannot_save("", YOKE_ERROR_IO);
    ck_assert_int_ne(access(".lock", F_OK), 0);
    /* A pipe nobody writes to: opening it must not wait. */
    ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    cannot_save(scratch_path("pipe"), YOKE_ERROR_FORMAT);
    ck_assert_uint_ge(scratch_log_count(YOKE_LOG_WARNING, "cannot be read"), 3);

    if (geteuid() != 0) { /* root may read and write anything */
        free(make_file(scratch_path("w"), &(size_t){0}));
        ck_assert_int_eq(chmod(scratch_path("w"), 0), 0);
        cannot_save(scratch_path("w"), YOKE_ERROR_FORMAT);
        ck_assert_int_eq(chmod(scratch_dir(), 0500), 0);
        cannot_save(scratch_path("v"), YOKE_ERROR_IO);
        ck_assert_int_eq(chmod(scratch_dir(), 0700), 0);
    }
    /* A lock that cannot be taken costs at most what others write at the same time. */
    snprintf(path, sizeof path, "%s.lock", scratch_path("u"));
    ck_assert_int_eq(mkdir(path, 0700), 0);
    w = opened(scratch_path("u"));
    put(w, 1);
    ASSERT_OK(yki_wisdom_save(w));
    yki_wisdom_close(w);
    close_device();
}
END_TEST

/* Who has the old file open still sees all of it. */
START_TEST(wisdom_is_replaced_not_overwritten)
{
    const char *path = scratch_path("w");
    struct stat before, after;
    yki_wisdom *w;
    size_t size;
    char *text, *seen;
    FILE *reader;

    open_device();
    text = make_file(path, &size);
    seen = calloc(size + 1, 1);
    reader = fopen(path, "r");
    ck_assert_int_eq(stat(path, &before), 0);
    w = opened(path);
    put(w, 77);
    ASSERT_OK(yki_wisdom_save(w));
    ASSERT_OK(yki_wisdom_save(w)); /* unchanged: nothing is written */
    yki_wisdom_close(w);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert(before.st_ino != after.st_ino);
    ck_assert_uint_eq(fread(seen, 1, size, reader), size);
    ck_assert_str_eq(seen, text);
    fclose(reader);
    free(seen);
    free(text);
    close_device();
}
END_TEST

static void
count_entry(void *user, unsigned tuning, const char *problem, double seconds)
{
    (void)tuning;
    (void)problem;
    (void)seconds;
    ++*(size_t *)user;
}

START_TEST(wisdom_has_a_limit)
{
    const char *path = scratch_path("w");
    size_t size, count = 0;
    yki_wisdom *w;
    FILE *file;

    open_device();
    free(make_file(path, &size));
    file = fopen(path, "a");
    for (int i = LINES; i < MAX_ENTRIES + 500; i++) {
        char problem[64];

        problem_of(i, problem);
        fprintf(file, "0.%06d gemm-x %d %s\n", i + 1, i % 3, problem);
    }
    fclose(file);
    w = opened(path);
    yki_wisdom_each(w, device, "gemm-x", count_entry, &count);
    ck_assert_uint_eq(count, MAX_ENTRIES);
    for (int i = 0; i < MAX_ENTRIES; i++)
        ck_assert_msg(knows(w, i), "entry %d", i);
    put(w, MAX_ENTRIES + 1); /* not kept, and no failure */
    ck_assert(!knows(w, MAX_ENTRIES + 1));
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "are kept"), 1);
    yki_wisdom_close(w);
    close_device();
}
END_TEST

/* ---- between processes ---- */

static void
put_seconds(yki_wisdom *w, const char *problem, const char *solver, double seconds)
{
    ASSERT_OK(yki_wisdom_put(w, device, problem, solver, 0, seconds));
}

/* 0: not known */
static double
seconds_for(yki_wisdom *w, const char *problem, const char *solver)
{
    double seconds = 0;

    return yki_wisdom_get(w, device, problem, solver, 0, &seconds) ? seconds : 0;
}

static const char BOTH[] = "both -> f32", OURS[] = "ours -> f32", THEIRS[] = "theirs -> f32";

/* Of a problem that the other knows its times alone count, of others our own. Our file stays ours,
 * and gets what we measure. Speeds of a device are not told. */
START_TEST(wisdom_of_another_process_is_followed)
{
    const char *path = scratch_path("w");
    yki_wisdom *leader[2], *w;
    char *text;

    open_device();
    leader[0] = opened(NULL);
    leader[1] = opened(NULL);
    w = opened(path);
    put_seconds(leader[0], BOTH, "gemm", 0.25);
    put_seconds(leader[1], BOTH, "gemm", 0.75); /* the first one counts */
    put_seconds(leader[1], THEIRS, "gemm", 0.5);
    put_seconds(leader[1], BOTH, YKI_WISDOM_OWN, 7);
    put_seconds(w, BOTH, "gemm", 2);
    put_seconds(w, BOTH, "other", 3); /* which the leader has not measured */
    put_seconds(w, OURS, "gemm", 4);
    put_seconds(w, OURS, YKI_WISDOM_OWN, 5);
    ASSERT_OK(yki_wisdom_tell(leader, 2, &text));
    for (int i = 0; i < 2; i++) { /* told again it is the same */
        ASSERT_OK(yki_wisdom_follow(w, text));
        ck_assert_double_eq_tol(seconds_for(w, BOTH, "gemm"), 0.25, 1e-9);
        ck_assert_double_eq(seconds_for(w, BOTH, "other"), 0);
        ck_assert_double_eq(seconds_for(w, BOTH, YKI_WISDOM_OWN), 0);
        ck_assert_double_eq_tol(seconds_for(w, THEIRS, "gemm"), 0.5, 1e-9);
        ck_assert_double_eq(seconds_for(w, OURS, "gemm"), 4);
        ck_assert_double_eq(seconds_for(w, OURS, YKI_WISDOM_OWN), 5);
    }
    put_seconds(w, BOTH, "third", 6);
    ck_assert_double_eq(seconds_for(w, BOTH, "third"), 6);
    ASSERT_OK(yki_wisdom_save(w));
    yki_wisdom_close(w);
    w = opened(path);
    ck_assert_double_eq(seconds_for(w, BOTH, "gemm"), 2);
    ck_assert_double_eq(seconds_for(w, BOTH, "other"), 3);
    ck_assert_double_eq(seconds_for(w, BOTH, "third"), 6);
    ck_assert_double_eq(seconds_for(w, THEIRS, "gemm"), 0);
    yki_wisdom_close(w);
    for (int i = 0; i < 2; i++)
        yki_wisdom_close(leader[i]);
    free(text);
    close_device();
}
END_TEST

/* Of other kinds of devices nothing changes. */
START_TEST(wisdom_of_other_devices_is_not_for_us)
{
    static const char text[] = "yoke wisdom 1\ndevice a pocket calculator\n"
                               "0.500000000 gemm 0 both -> f32\n";
    yki_wisdom *w = opened(NULL);

    open_device();
    put_seconds(w, BOTH, "gemm", 2);
    ASSERT_OK(yki_wisdom_follow(w, text));
    ck_assert_double_eq(seconds_for(w, BOTH, "gemm"), 2);
    yki_wisdom_close(w);
    close_device();
}
END_TEST

/* What another process has written since the file was opened. */
START_TEST(wisdom_is_read_again)
{
    const char *path = scratch_path("w");
    yki_wisdom *w = opened(path), *other;

    open_device();
    put_seconds(w, OURS, "gemm", 2);
    other = opened(path);
    put_seconds(other, OURS, "gemm", 3);
    put_seconds(other, THEIRS, "gemm", 4);
    ASSERT_OK(yki_wisdom_save(other));
    ASSERT_OK(yki_wisdom_refresh(w));
    ck_assert_double_eq(seconds_for(w, OURS, "gemm"), 2); /* ours is as good */
    ck_assert_double_eq(seconds_for(w, THEIRS, "gemm"), 4);
    yki_wisdom_close(w);
    yki_wisdom_close(other);
    close_device();
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("wisdom");
    TCase *tcase = test_case(suite, "wisdom");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_test(tcase, wisdom_is_read_as_it_was_written);
    tcase_add_test(tcase, wisdom_refuses_times_that_are_none);
    tcase_add_test(tcase, wisdom_of_two_writers_is_merged);
    tcase_add_test(tcase, wisdom_of_eight_processes_is_complete);
    tcase_add_test(tcase, wisdom_cut_anywhere_keeps_its_whole_lines);
    tcase_add_test(tcase, wisdom_with_a_flipped_bit_keeps_the_lines_before);
    tcase_add_test(tcase, wisdom_with_garbage_is_read_around_it);
    tcase_add_test(tcase, wisdom_after_a_damaged_device_is_nobodys);
    tcase_add_test(tcase, wisdom_leaves_other_files_alone);
    tcase_add_test(tcase, wisdom_paths_that_cannot_be_used);
    tcase_add_test(tcase, wisdom_is_replaced_not_overwritten);
    tcase_add_test(tcase, wisdom_has_a_limit);
    tcase_add_test(tcase, wisdom_of_another_process_is_followed);
    tcase_add_test(tcase, wisdom_of_other_devices_is_not_for_us);
    tcase_add_test(tcase, wisdom_is_read_again);
    return suite;
}
