/* SPDX-License-Identifier: Apache-2.0
 *
 * check_signals.c - `yoke train` is told to save or to stop, finds its disk full or not to be
 * written: what it says, how it exits (yoke-train(1)), and that nothing is lost.
 *
 * Full disks are small file systems in memory, which exist for the process of a test alone; where
 * they cannot be mounted (it takes root), those tests are skipped.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "support/scratch.h"
#include "support/support.h"

enum { PATH = 512, STOPPED = 3, FAILED = 1, PATIENCE = 600 };

/* An option and its path: "--log=/tmp/.../log"; of one of a few static buffers. */
static const char *
option(const char *name, const char *file)
{
    static char texts[8][PATH + 64];
    static int next;
    char *text = texts[next++ % 8];

    snprintf(text, sizeof texts[0], "--%s=%s", name, *file == '/' ? file : scratch_path(file));
    return text;
}

/* Training on the digits with these more options, up to NULL. */
static pid_t
start(const char *more, ...)
{
    const char *arguments[COMMAND_ARGUMENTS] = {
        "train",           "--model=tiny",       command_data(), "--seed=3", "--reproducible=runs",
        "--devices=cpu:0", "--schedule=constant"};
    size_t count = 7;
    va_list list;

    va_start(list, more);
    for (const char *one = more; one && count + 1 < COMMAND_ARGUMENTS; one = va_arg(list, char *))
        arguments[count++] = one;
    va_end(list);
    return command_start(arguments, scratch_path("output"), scratch_path("errors"));
}

static bool
contains(const char *file, const char *part)
{
    char *text;
    bool found;

    if (access(file, R_OK) != 0)
        return false;
    text = scratch_read(file, &(size_t){0});
    found = strstr(text, part) != NULL;
    free(text);
    return found;
}

static void
check_said(const char *part)
{
    char *text = scratch_read(scratch_path("errors"), &(size_t){0});

    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in \"%s\"", part, text);
    free(text);
}

/* Until the file says so; the process still runs then. */
static void
wait_for(pid_t process, const char *file, const char *part)
{
    double end = command_now() + PATIENCE;

    while (!contains(file, part)) {
        ck_assert_msg(command_now() < end && command_runs(process), "no \"%s\" in %s", part, file);
        command_sleep(0.002);
    }
}

/* The step of the newest checkpoint; 0: none. */
static long long
newest(const char *dir)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    long long step, last = 0;

    while (folder && (entry = readdir(folder)) != NULL)
        if (sscanf(entry->d_name, "checkpoint-%lld.safetensors", &step) == 1 && step > last)
            last = step;
    if (folder)
        closedir(folder);
    return last;
}

static bool
has_leftovers(const char *dir)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    bool found = false;

    while (folder && (entry = readdir(folder)) != NULL)
        found |= strncmp(entry->d_name, ".yoke-", 6) == 0;
    if (folder)
        closedir(folder);
    return found;
}

static void
check_same(const char *a, const char *b)
{
    size_t size_a, size_b;
    char *first = scratch_read(a, &size_a), *second = scratch_read(b, &size_b);

    ck_assert_msg(size_a == size_b && memcmp(first, second, size_a) == 0, "%s and %s differ", a, b);
    free(first);
    free(second);
}

/* Paths of scratch_path are overwritten by those after them. */
static void
keep_path(char path[PATH], const char *name)
{
    snprintf(path, PATH, "%s", scratch_path(name));
}

/* ---- signals ---- */

/* SIGUSR2 saves and goes on; Ctrl-C stops at the end of a step, saves, and says how to resume. */
START_TEST(save_and_stop)
{
    char dir[PATH];
    double end = command_now() + PATIENCE;
    long long saved, stopped;
    char said[PATH];
    pid_t process;

    if (!command_usable())
        TEST_SKIP("no PoCL");
    keep_path(dir, "saved");
    process = start("--batch=64", "--epochs=100000", "--every=1000000", option("checkpoint", dir),
                    option("log", "log"), NULL);
    wait_for(process, scratch_path("log"), "\"step\": 3,");
    ck_assert_int_eq(newest(dir), 0);
    kill(process, SIGUSR2);
    while (!newest(dir)) {
        ck_assert_msg(command_now() < end && command_runs(process), "SIGUSR2 saved nothing");
        command_sleep(0.002);
    }
    saved = newest(dir);
    snprintf(said, sizeof said, "\"step\": %lld,", saved + 5);
    wait_for(process, scratch_path("log"), said); /* it goes on */
    ck_assert_int_eq(newest(dir), saved);
    kill(process, SIGINT);
    ck_assert_int_eq(command_wait(process), STOPPED);
    stopped = newest(dir);
    ck_assert_int_gt(stopped, saved);
    check_said("yoke: stopping after this step; once more ends it at once");
    snprintf(said, sizeof said, "stopped after step %lld; to go on: yoke train --model=tiny",
             stopped);
    check_said(said);
    check_said("--resume");
    snprintf(said, sizeof said, "\"step\": %lld,", stopped);
    ck_assert(contains(scratch_path("log"), said));
    snprintf(said, sizeof said, "\"step\": %lld,", stopped + 1);
    ck_assert(!contains(scratch_path("log"), said));
    ck_assert(!has_leftovers(dir));
}
END_TEST

/* Steps that take long: the second one does not wait for the end of it. */
START_TEST(stop_at_once)
{
    pid_t process;

    if (!command_usable())
        TEST_SKIP("no PoCL");
    process = start("--batch=1437", "--accumulate=1437", "--epochs=100000",
                    option("checkpoint", "saved"), option("log", "log"), NULL);
    wait_for(process, scratch_path("log"), "\"step\": 1,");
    kill(process, SIGINT);
    wait_for(process, scratch_path("errors"), "once more ends it at once");
    kill(process, SIGINT);
    ck_assert_int_eq(command_wait(process), -SIGINT);
}
END_TEST

/* ---- disks ---- */

/* A file system of `bytes` in this process's view alone; false: not allowed. */
static bool
mount_small(const char *path, const char *size)
{
    char options[64];

    snprintf(options, sizeof options, "size=%s", size);
    return mkdir(path, 0777) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", path, "tmpfs", 0, options) == 0;
}

/* Until nothing more goes in; returns the name of what fills it. */
static const char *
fill(const char *dir)
{
    static char path[PATH + 16];
    static const char zeros[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/filler", dir);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    setvbuf(file, NULL, _IONBF, 0);
    while (fwrite(zeros, sizeof zeros, 1, file) == 1)
        continue;
    fclose(file);
    return path;
}

/* Checkpoints, model and log, each on the disk that is full: the others are written, the older ones
 * stay, and where there is room again it goes on to what it would have been. */
START_TEST(full_disk)
{
    char disk[PATH], dir[PATH + 16], first[PATH + 64], out[PATH + 16], log[PATH + 16];
    const char *filler;
    char *old;
    size_t size;

    if (!command_usable())
        TEST_SKIP("no PoCL");
    keep_path(disk, "disk");
    if (!mount_small(disk, "256k"))
        TEST_NOT_HERE("file systems cannot be mounted: %s", strerror(errno));
    snprintf(dir, sizeof dir, "%s/saved", disk);
    snprintf(first, sizeof first, "%s/checkpoint-000000000023.safetensors", dir);
    snprintf(out, sizeof out, "%s/model", disk);
    snprintf(log, sizeof log, "%s/log", disk);
    ck_assert_int_eq(command_wait(start("--batch=64", "--epochs=2", option("out", "whole"), NULL)),
                     0);
    ck_assert_int_eq(command_wait(start("--batch=64", "--epochs=1", option("checkpoint", dir),
                                        option("out", out), NULL)),
                     0);
    old = scratch_read(out, &size);
    scratch_write(scratch_path("old"), old, size);
    free(old);
    filler = fill(disk);
    /* a checkpoint */
    ck_assert_int_eq(command_wait(start("--batch=64", "--epochs=2", "--every=10",
                                        option("checkpoint", dir), "--resume", NULL)),
                     FAILED);
    check_said("no checkpoint of step 30: ");
    check_said("No space left on device");
    ck_assert_int_eq(newest(dir), 23);
    ck_assert(!has_leftovers(dir));
    /* the model */
    ck_assert_int_eq(command_wait(start("--batch=64", "--epochs=2", option("out", out), NULL)),
                     FAILED);
    check_said("No space left on device");
    ck_assert(!has_leftovers(disk));
    check_same(out, scratch_path("old"));
    /* the log: what else was asked for is there */
    ck_assert_int_eq(command_wait(start("--batch=64", "--epochs=2", option("log", log),
                                        option("out", "second"), NULL)),
                     FAILED);
    check_said("log: the log cannot be written: No space left on device");
    check_same(scratch_path("second"), scratch_path("whole"));
    /* room */
    ck_assert_int_eq(unlink(filler), 0);
    ck_assert_int_eq(command_wait(start("--batch=64", "--epochs=2", option("checkpoint", dir),
                                        "--resume", option("out", "third"), NULL)),
                     0);
    check_same(scratch_path("third"), scratch_path("whole"));
    ck_assert_int_eq(access(first, F_OK), 0);
}
END_TEST

/* Known before anything is trained. */
START_TEST(no_permission)
{
    static const char *const names[] = {"out", "log", "checkpoint"};
    char disk[PATH], path[PATH + 16];

    if (!command_usable())
        TEST_SKIP("no PoCL");
    keep_path(disk, "disk");
    if (geteuid() != 0) {
        ck_assert_int_eq(mkdir(disk, 0555), 0);
    } else if (!mount_small(disk, "64k") ||
               mount("none", disk, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) != 0) {
        TEST_NOT_HERE("root may write everywhere, and file systems cannot be mounted");
    }
    snprintf(path, sizeof path, "%s/new", disk);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_int_eq(command_wait(start("--epochs=1", option(names[i], path), NULL)), FAILED);
        check_said(path);
        check_said(geteuid() ? "Permission denied" : "Read-only file system");
        ck_assert(!contains(scratch_path("errors"), "epoch 1/1"));
    }
    /* a file where a folder should be, and the other way */
    scratch_write(scratch_path("file"), "x", 1);
    ck_assert_int_eq(command_wait(start("--epochs=1", option("checkpoint", "file"), NULL)), FAILED);
    check_said("is no folder; must be one for checkpoints");
    ck_assert_int_eq(command_wait(start("--epochs=1", option("out", scratch_dir()), NULL)), FAILED);
    check_said("is a folder; must be a file for --out");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("signals");
    TCase *signals = test_case(suite, "signals"), *disks = test_case(suite, "disks");

    tcase_add_checked_fixture(signals, scratch_set_up, scratch_tear_down);
    tcase_add_checked_fixture(disks, scratch_set_up, scratch_tear_down);
    tcase_add_test(signals, save_and_stop);
    tcase_add_test(signals, stop_at_once);
    tcase_add_test(disks, full_disk);
    tcase_add_test(disks, no_permission);
    return suite;
}
