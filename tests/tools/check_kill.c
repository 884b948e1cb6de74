/* SPDX-License-Identifier: Apache-2.0
 *
 * check_kill.c - `yoke train` is killed (SIGKILL) at random moments, many of them while
 * it saves, and goes on each time: at most one interval of steps is lost, no checkpoint
 * is damaged, and in the end weights and log are those of a training that was left alone.
 *
 * That a process died inside a save is seen by what it left: the file that a save writes
 * aside has another name until it is whole. Some kills wait for such a file to appear and
 * then a random part of the time that a save takes; the others come at a random moment from
 * the start of the process on. YOKE_TEST_SEED sets the random numbers.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "command.h"
#include "support/scratch.h"
#include "support/support.h"

enum {
    EVERY = 5,
    STEPS = 230, /* 1437 samples, 64 at a time, 10 times */
    KILLS = 50,
    INSIDE = 15,
    QUICK_KILLS = 10,
    QUICK_INSIDE = 3,
    TRIES = 8, /* times as many: moments inside a save are short */
    PATH = 512,
    LINE = 4096
};

/* One training, which may take many processes. */
typedef struct training {
    char dir[PATH], log[PATH], out[PATH], errors[PATH];
    int watch; /* inotify of the folder */
    int64_t newest;
} training;

/* What a log says: losses as they are written. */
typedef struct story {
    char loss[STEPS + 1][40], epoch[STEPS + 1][80];
    int64_t last;
} story;

typedef struct times {
    double first, save, all; /* to the first save, of a save, of it all */
    double reach;            /* how late in a save a kill comes at most: less after one too late */
} times;

static uint32_t seed, drawn;

/* In [0, 1). */
static double
draw(void)
{
    const uint32_t key[2] = {seed, 0x6b696c6c}, counter[4] = {drawn++, 0, 0, 0};
    uint32_t words[4];

    yki_philox(key, counter, words);
    return words[0] / 4294967296.0;
}

static bool
quick(void)
{
    return getenv("YOKE_TEST_QUICK") != NULL;
}

/* ---- a training ---- */

static void
begin(training *t, const char *name)
{
    snprintf(t->dir, PATH, "%s/%s", scratch_dir(), name);
    snprintf(t->log, PATH, "%s/%s.log", scratch_dir(), name);
    snprintf(t->out, PATH, "%s/%s.safetensors", scratch_dir(), name);
    snprintf(t->errors, PATH, "%s/%s.errors", scratch_dir(), name);
    t->newest = 0;
    ck_assert_int_eq(mkdir(t->dir, 0777), 0);
    t->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ck_assert_int_ge(t->watch, 0);
    ck_assert_int_ge(inotify_add_watch(t->watch, t->dir, IN_CREATE | IN_MOVED_TO), 0);
}

static pid_t
start(const training *t)
{
    char checkpoint[PATH + 32], log[PATH + 32], out[PATH + 32];
    const char *arguments[] = {"train",
                               "--model=tiny",
                               command_data(),
                               "--devices=cpu:0",
                               "--reproducible=runs",
                               "--seed=7",
                               "--batch=64",
                               "--epochs=10",
                               "--every=5",
                               checkpoint,
                               log,
                               out,
                               "--resume",
                               NULL};

    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s", t->dir);
    snprintf(log, sizeof log, "--log=%s", t->log);
    snprintf(out, sizeof out, "--out=%s", t->out);
    return command_start(arguments, "/dev/null", t->errors);
}

/* Waits for a file to be made that a save writes aside, or (`moved`) to get its name. False: the
 * process has ended, or it takes longer than anything. */
static bool
wait_for_save(const training *t, pid_t process, bool moved)
{
    double end = command_now() + 60;
    char events[LINE] __attribute__((aligned(8)));

    while (command_now() < end) {
        struct pollfd ready = {.fd = t->watch, .events = POLLIN};
        ssize_t size = poll(&ready, 1, 20) > 0 ? read(t->watch, events, sizeof events) : 0;

        for (ssize_t at = 0; at < size;) {
            const struct inotify_event *e = (const struct inotify_event *)(events + at);

            at += (ssize_t)(sizeof *e + e->len);
            if (e->len && (moved ? (e->mask & IN_MOVED_TO) != 0
                                 : (e->mask & IN_CREATE) && strncmp(e->name, ".yoke-", 6) == 0))
                return true;
        }
        if (size <= 0 && !command_runs(process))
            return false;
    }
    return false;
}

/* What earlier saves said is old. */
static void
forget_saves(const training *t)
{
    char events[LINE];

    while (read(t->watch, events, sizeof events) > 0)
        continue;
}

/* ---- what is found afterwards ---- */

static bool
take_text(const char *line, const char *name, char *out, size_t size)
{
    const char *found = strstr(line, name);

    if (!found)
        return false;
    found += strlen(name);
    snprintf(out, size, "%.*s", (int)strcspn(found, ",}\n"), found);
    return true;
}

/* Every step and every epoch is there once and in order, but for those behind the end. */
static void
read_log(const training *t, story *s)
{
    FILE *in = fopen(t->log, "r");
    char line[LINE], step[40], test[40];
    int64_t number;

    memset(s, 0, sizeof *s);
    while (in && fgets(line, sizeof line, in)) {
        if (!strchr(line, '\n') || !take_text(line, "\"step\": ", step, sizeof step))
            continue;
        number = strtoll(step, NULL, 10);
        ck_assert_msg(number >= 1 && number <= STEPS, "seed %u: step %s in the log", seed, step);
        if (strstr(line, "\"kind\": \"epoch\"")) {
            ck_assert_msg(number == s->last && !s->epoch[number][0],
                          "seed %u: an epoch ends at step %s behind step %lld", seed, step,
                          (long long)s->last);
            ck_assert(take_text(line, "\"loss\": ", s->epoch[number], 40));
            ck_assert(take_text(line, "\"test_loss\": ", test, sizeof test));
            strcat(strcat(s->epoch[number], " "), test);
            continue;
        }
        ck_assert_msg(number == s->last + 1, "seed %u: step %s behind step %lld", seed, step,
                      (long long)s->last);
        s->last = number;
        ck_assert(take_text(line, "\"loss\": ", s->loss[number], sizeof s->loss[number]));
    }
    if (in)
        fclose(in);
}

/* The step of the newest checkpoint; whether `process` left an unfinished one. */
static int64_t
look_into(const training *t, pid_t process, bool *unfinished)
{
    DIR *folder = opendir(t->dir);
    struct dirent *entry;
    int64_t newest = 0;
    char own[40];

    ck_assert_ptr_nonnull(folder);
    snprintf(own, sizeof own, ".yoke-%ld-", (long)process);
    *unfinished = false;
    while ((entry = readdir(folder)) != NULL) {
        long long step;

        ck_assert_msg(!strstr(entry->d_name, ".damaged"), "seed %u: %s", seed, entry->d_name);
        *unfinished |= strncmp(entry->d_name, own, strlen(own)) == 0;
        if (sscanf(entry->d_name, "checkpoint-%lld.safetensors", &step) == 1 && step > newest)
            newest = step;
    }
    closedir(folder);
    return newest;
}

static void
same_files(const char *a, const char *b)
{
    size_t size_a, size_b;
    char *first = scratch_read(a, &size_a), *second = scratch_read(b, &size_b);

    ck_assert_msg(size_a == size_b && memcmp(first, second, size_a) == 0,
                  "seed %u: %s and %s differ", seed, a, b);
    free(first);
    free(second);
}

/* A training that came to its end is as if it had been left alone. */
static void
compare(const training *t, const training *whole)
{
    story a, b;

    same_files(t->out, whole->out);
    read_log(t, &a);
    read_log(whole, &b);
    ck_assert_int_eq(a.last, STEPS);
    for (int i = 1; i <= STEPS; i++) {
        ck_assert_str_eq(a.loss[i], b.loss[i]);
        ck_assert_str_eq(a.epoch[i], b.epoch[i]);
    }
}

/* ---- the kills ---- */

static void
run_whole(training *t, const char *name, times *took)
{
    double begun = command_now();
    pid_t process;

    begin(t, name);
    process = start(t);
    ck_assert(wait_for_save(t, process, false));
    took->first = command_now() - begun;
    ck_assert(wait_for_save(t, process, true));
    took->save = command_now() - begun - took->first;
    ck_assert_int_eq(command_wait(process), 0);
    took->reach = took->save;
    took->all = command_now() - begun;
    close(t->watch);
}

/* Lets a process train and kills it; false: it came to its end before. */
static bool
kill_one(training *t, times *took, bool inside, bool *was_inside)
{
    int64_t before = t->newest;
    pid_t process;
    story s;
    int status;

    forget_saves(t);
    process = start(t);
    if (inside) {
        for (int saves = 1 + (int)(3 * draw()); saves > 0; saves--)
            (void)wait_for_save(t, process, false);
        command_sleep(took->reach * draw());
    } else {
        command_sleep((took->first + 0.4 * (took->all - took->first)) * draw());
    }
    kill(process, SIGKILL);
    status = command_wait(process);
    ck_assert_msg(status == 0 || status == -SIGKILL, "seed %u: exit status %d, see %s", seed,
                  status, t->errors);
    t->newest = look_into(t, process, was_inside);
    ck_assert_msg(t->newest >= before, "seed %u: a checkpoint of step %lld was lost", seed,
                  (long long)before);
    read_log(t, &s);
    ck_assert_msg(s.last - t->newest <= EVERY,
                  "seed %u: step %lld was trained, the checkpoint is of step %lld", seed,
                  (long long)s.last, (long long)t->newest);
    if (inside && !*was_inside)
        took->reach *= 0.8;
    return status != 0;
}

static void
finish(training *t, const training *whole, bool running)
{
    if (running)
        ck_assert_int_eq(command_wait(start(t)), 0);
    close(t->watch);
    compare(t, whole);
}

START_TEST(goes_on)
{
    int kills = quick() ? QUICK_KILLS : KILLS, inside = quick() ? QUICK_INSIDE : INSIDE;
    int killed = 0, caught = 0, trainings = 0;
    training whole, t;
    times took;
    char name[40];

    if (!command_usable())
        TEST_SKIP("no PoCL");
    seed = getenv("YOKE_TEST_SEED") ? (uint32_t)strtoul(getenv("YOKE_TEST_SEED"), NULL, 10)
                                    : (uint32_t)time(NULL);
    drawn = 0;
    run_whole(&whole, "first", &took); /* compiles */
    run_whole(&whole, "whole", &took);
    for (bool running = false; killed < kills || caught < inside;) {
        bool was_inside, was_killed;

        ck_assert_msg(killed < TRIES * kills, "seed %u: only %d of %d kills came inside a save",
                      seed, caught, killed);
        if (!running) {
            snprintf(name, sizeof name, "training%d", trainings++);
            begin(&t, name);
        }
        /* As many again as are needed: some come too late. */
        was_killed = kill_one(&t, &took, caught < inside && (killed % 2 == 0 || killed >= kills),
                              &was_inside);
        killed += was_killed;
        caught += was_killed && was_inside;
        running = was_killed;
        if (!was_killed || (killed >= kills && caught >= inside))
            finish(&t, &whole, running);
    }
    printf("# %d kills, %d of them inside a save, %d trainings; a save takes %.1f ms; seed %u\n",
           killed, caught, trainings, 1e3 * took.save, seed);
    fflush(stdout);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("kill");
    TCase *tcase = test_case(suite, "train");

    tcase_set_timeout(tcase, 200);
    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_test(tcase, goes_on);
    return suite;
}
