/* SPDX-License-Identifier: Apache-2.0
 *
 * check_cache.c - the compiled kernels on disk and the build locks, without OpenCL:
 * what is believed, what is ignored, and that nothing going wrong is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/cache.h"
#include "device/internal.h"
#include "support/scratch.h"
#include "support/support.h"

static const char KEY[] = "0123456789abcdef0123456789abcdef";
static const char OTHER_KEY[] = "fedcba9876543210fedcba9876543210";
static const char PAYLOAD[] = "not really a kernel";

/* All that cache.c looks at in a context. */
static struct yoke_context context;
static char cache_dir[PATH_MAX];

static void
set_up(void)
{
    scratch_set_up();
    unsetenv("YOKE_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    memset(&context, 0, sizeof context);
    snprintf(cache_dir, sizeof cache_dir, "%s", scratch_path("a/b/cache"));
    context.cache_dir = cache_dir;
}

static void
fresh_context(void)
{
    atomic_store(&context.cache_reported, false);
    atomic_store(&context.lock_given_up, false);
    scratch_log_clear();
}

static const char *
entry(const char *key)
{
    static char path[PATH_MAX + 64];

    snprintf(path, sizeof path, "%s/%s.bin", cache_dir, key);
    return path;
}

/* Whether an entry of that payload is found. */
static bool
hit(const char *key, const void *payload, size_t size)
{
    void *data = NULL;
    size_t got = 1;
    bool good;

    ASSERT_OK(yki_cache_load(&context, key, YOKE_LOG_WARNING, &data, &got));
    ck_assert_msg(data || !got, "no data, but a size");
    good = data && got == size && !memcmp(data, payload, size);
    ck_assert_msg(good || !data, "another payload was found");
    yki_free(data);
    return good;
}

static bool
found(void)
{
    return hit(KEY, PAYLOAD, sizeof PAYLOAD);
}

static void
store(void)
{
    yki_cache_store(&context, KEY, PAYLOAD, sizeof PAYLOAD);
}

/* ---- where ---- */

static void
assert_choice(const char *option, bool none, const char *expected)
{
    char *dir = (char *)"unset";

    ASSERT_OK(yki_cache_choose(option, none, &dir));
    if (expected)
        ck_assert_str_eq(dir, expected);
    else
        ck_assert_ptr_null(dir);
    yki_free(dir);
}

START_TEST(places)
{
    char here[PATH_MAX], below[PATH_MAX + 16];

    assert_choice(NULL, false, NULL);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "compiled kernels are not kept"), 1);
    setenv("HOME", "/home/h", 1);
    assert_choice(NULL, false, "/home/h/.cache/yoke");
    setenv("XDG_CACHE_HOME", "relative", 1); /* as the XDG rules have it */
    assert_choice(NULL, false, "/home/h/.cache/yoke");
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    assert_choice(NULL, false, "/xdg/yoke");
    setenv("YOKE_CACHE_DIR", "", 1);
    assert_choice(NULL, false, "/xdg/yoke");
    setenv("YOKE_CACHE_DIR", "/env", 1);
    assert_choice(NULL, false, "/env");
    assert_choice("", false, "/env");
    assert_choice("/option", false, "/option");
    assert_choice("/option", true, NULL);
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    snprintf(below, sizeof below, "%s/x/y", here);
    assert_choice("x/y", false, below);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_DEBUG, ""), 1);
}
END_TEST

/* ---- entries ---- */

START_TEST(round_trip)
{
    struct stat about;
    size_t large = 3 << 20;
    char *data = malloc(large);

    umask(0277); /* even then */
    ck_assert(!found());
    store();
    umask(022);
    ck_assert_msg(found(), "%s", scratch_log());
    ck_assert(!hit(OTHER_KEY, PAYLOAD, sizeof PAYLOAD));
    ck_assert_int_eq(stat(entry(KEY), &about), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0600);

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < large; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    yki_cache_store(&context, KEY, data, large); /* takes the place of the first */
    ck_assert(hit(KEY, data, large));
    free(data);
    ck_assert_uint_eq(yki_cache_trim(cache_dir, UINT64_MAX), large + 120);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_DEBUG, ""), 0);
}
END_TEST

START_TEST(private_directories)
{
    const char *const made[] = {"a", "a/b", "a/b/cache"};

    umask(0);
    store();
    for (size_t i = 0; i < YKI_COUNT(made); i++) {
        struct stat about;

        ck_assert_int_eq(stat(scratch_path(made[i]), &about), 0);
        ck_assert_uint_eq(about.st_mode & 07777, 0700);
    }
}
END_TEST

/* Every byte counts, and so does every length. */
START_TEST(damaged_entry)
{
    size_t size;
    char *good;

    store();
    good = scratch_read(entry(KEY), &size);
    for (size_t i = 0; i < size; i++) {
        scratch_log_clear();
        good[i] ^= 0x10;
        scratch_write(entry(KEY), good, size);
        ck_assert_msg(!found(), "byte %zu of %zu may be wrong", i, size);
        ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "ignored: damaged"), 1);
        good[i] ^= 0x10;
    }
    for (size_t length = 0; length < size; length++) {
        scratch_log_clear();
        scratch_write(entry(KEY), good, length);
        ck_assert_msg(!found(), "%zu of %zu bytes are enough", length, size);
        ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "ignored"), 1);
    }
    scratch_write(entry(KEY), good, size);
    ck_assert(found());
    /* A good entry under another's name. */
    ck_assert_int_eq(rename(entry(KEY), scratch_path("moved")), 0);
    ck_assert_int_eq(rename(scratch_path("moved"), entry(OTHER_KEY)), 0);
    ck_assert(!hit(OTHER_KEY, PAYLOAD, sizeof PAYLOAD));
    free(good);
}
END_TEST

static void
assert_ignored(const char *reason)
{
    scratch_log_clear();
    ck_assert_msg(!found(), "an entry was used though it is %s", reason);
    ck_assert_msg(scratch_log_count(YOKE_LOG_WARNING, reason) == 1, "%s", scratch_log());
    /* Storing again heals it. */
    store();
    ck_assert_msg(found(), "%s", scratch_log());
}

START_TEST(untrusted_entry)
{
    store();
    ck_assert_int_eq(chmod(entry(KEY), 0620), 0);
    assert_ignored("others can write");
    ck_assert_int_eq(chmod(entry(KEY), 0602), 0);
    assert_ignored("others can write");
    ck_assert_int_eq(rename(entry(KEY), scratch_path("target")), 0);
    ck_assert_int_eq(symlink(scratch_path("target"), entry(KEY)), 0);
    assert_ignored("symbolic link");
    ck_assert_int_eq(unlink(entry(KEY)), 0);
    ck_assert_int_eq(mkfifo(entry(KEY), 0600), 0);
    assert_ignored("not a plain file");
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(entry(KEY), 12345, 0), 0);
        assert_ignored("another user");
    }
}
END_TEST

START_TEST(untrusted_directory)
{
    store();
    for (unsigned mode = 0720; mode; mode = mode == 0720 ? 0702 : 0) {
        fresh_context();
        ck_assert_int_eq(chmod(cache_dir, mode), 0);
        ck_assert(!found());
        store();
        ck_assert(!found());
        ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "others can write"), 1);
        ck_assert_int_eq(chmod(cache_dir, 0700), 0);
        ck_assert(found());
    }
    if (geteuid() == 0) {
        fresh_context();
        ck_assert_int_eq(chown(cache_dir, 12345, 0), 0);
        ck_assert(!found());
        ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "another user"), 1);
    }
}
END_TEST

/* ---- no working cache ---- */

static void
assert_one_line(void)
{
    yki_lock lock;

    fresh_context();
    for (int i = 0; i < 3; i++) {
        ck_assert(!found());
        yki_cache_lock(&context, KEY, &lock);
        store();
        yki_lock_release(&lock);
        ck_assert(!found());
    }
    ck_assert_msg(scratch_log_count(YOKE_LOG_WARNING, "") == 1, "%s", scratch_log());
}

START_TEST(no_place)
{
    yki_lock lock;

    scratch_write(scratch_path("file"), "", 0);
    snprintf(cache_dir, sizeof cache_dir, "%s", scratch_path("file/cache"));
    assert_one_line();
    snprintf(cache_dir, sizeof cache_dir, "/proc/self/none/yoke"); /* nothing can be made there */
    assert_one_line();
    memset(cache_dir, 'x', sizeof cache_dir - 1);
    cache_dir[0] = '/';
    assert_one_line();

    context.cache_dir = NULL;
    fresh_context();
    ck_assert(!found());
    store();
    yki_cache_lock(&context, KEY, &lock);
    ck_assert_int_eq(lock.fd, -1);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_DEBUG, ""), 0);
}
END_TEST

static unsigned
count_files(void)
{
    char command[PATH_MAX + 64];
    unsigned count = 0;
    FILE *list;

    snprintf(command, sizeof command, "ls -A '%s' | grep -vc lock", cache_dir);
    list = popen(command, "r");
    ck_assert_ptr_nonnull(list);
    ck_assert_int_eq(fscanf(list, "%u", &count), 1);
    pclose(list);
    return count;
}

/* A disk that is full after some bytes, as far as a test can have one. */
START_TEST(full_disk)
{
    struct rlimit limit;

    store();
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 120 + sizeof PAYLOAD; room += 23) {
        fresh_context();
        ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = room;
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        yki_cache_store(&context, OTHER_KEY, PAYLOAD, sizeof PAYLOAD);
        limit.rlim_cur = limit.rlim_max;
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "cannot be written"), 1);
        ck_assert_uint_eq(count_files(), 1);
        ck_assert(found());
    }
}
END_TEST

START_TEST(no_descriptors)
{
    struct rlimit limit, none;

    store();
    fresh_context();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t room = 3; room < 8; room++) {
        void *data = NULL;
        size_t size;
        yki_lock lock;

        none = limit;
        none.rlim_cur = room;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        ASSERT_OK(yki_cache_load(&context, KEY, YOKE_LOG_WARNING, &data, &size));
        yki_cache_lock(&context, KEY, &lock);
        store();
        yki_lock_release(&lock);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        yki_free(data);
    }
    ck_assert(found());
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(no_memory)
{
    void *data = (void *)1;
    size_t size = 77;

    store();
    yki_alloc_fail_at(1);
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_MEMORY,
                  yki_cache_load(&context, KEY, YOKE_LOG_WARNING, &data, &size));
    yki_alloc_fail_at(0);
    ck_assert_ptr_eq(data, (void *)1);
    ck_assert_uint_eq(size, 77);
    ck_assert(found());
}
END_TEST

/* ---- size ---- */

static void
set_age(const char *path, time_t age)
{
    struct timeval times[2] = {{time(NULL) - age, 0}, {time(NULL) - age, 0}};

    ck_assert_int_eq(utimes(path, times), 0);
}

START_TEST(oldest_go)
{
    static const char data[10000];
    uint64_t each = sizeof data + 120, all;
    char key[33], path[PATH_MAX + 64];
    struct stat about;
    yki_lock lock;

    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "%032d", i);
        yki_cache_store(&context, key, data, sizeof data);
        set_age(entry(key), 100000 + 1000 * ((i * 7) % 10)); /* 7 i mod 10: the oldest is 7 */
    }
    yki_cache_lock(&context, KEY, &lock);
    yki_lock_release(&lock);
    snprintf(path, sizeof path, "%s/tmp-orphan", cache_dir);
    scratch_write(path, "x", 1);
    set_age(path, 7200);
    /* Reading makes an entry young. */
    snprintf(key, sizeof key, "%032d", 7);
    ck_assert(hit(key, data, sizeof data));

    all = yki_cache_trim(cache_dir, 10 * each);
    ck_assert_uint_eq(all, 10 * each);
    ck_assert_int_eq(stat(path, &about), -1);
    all = yki_cache_trim(cache_dir, 7 * each + 1);
    ck_assert_uint_eq(all, 7 * each);
    for (int i = 0; i < 10; i++) {
        int age = (i * 7) % 10;

        snprintf(key, sizeof key, "%032d", i);
        ck_assert_msg(hit(key, data, sizeof data) == (age < 6 || i == 7), "entry %d, age %d", i,
                      age);
    }
    ck_assert_uint_eq(yki_cache_trim(cache_dir, 0), 0);
    ck_assert_uint_eq(count_files(), 0);
    ck_assert_uint_eq(yki_cache_trim("/nonexistent", 0), 0);
}
END_TEST

/* ---- the lock ---- */

static int
open_scratch(void)
{
    int fd = open(scratch_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    return fd;
}

/* A process that has the lock until it is killed, or gets it anew all the time. */
static pid_t
start_holder(int dir, bool again)
{
    int ready[2];
    pid_t child;
    char byte;

    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        yki_lock lock;

        if (yki_lock_take(dir, KEY, 1, &lock) != YKI_LOCK_TAKEN || write(ready[1], "", 1) != 1)
            _exit(1);
        /* Another holder comes, as far as anybody can see. */
        while (again) {
            usleep(20000);
            futimens(lock.fd, NULL);
        }
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void
stop(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(lock_dies_with_holder)
{
    int dir = open_scratch();
    pid_t child = start_holder(dir, false);
    yki_lock lock;

    ck_assert_int_eq(yki_lock_take(dir, KEY, 0, &lock), YKI_LOCK_STUCK);
    ck_assert_int_eq(lock.fd, -1);
    ck_assert_int_eq(yki_lock_take(dir, KEY, 0.2, &lock), YKI_LOCK_STUCK);
    stop(child);
    ck_assert_int_eq(yki_lock_take(dir, KEY, 5, &lock), YKI_LOCK_TAKEN);
    yki_lock_release(&lock);
    yki_lock_release(&lock);
    close(dir);
}
END_TEST

/* A queue of builders that each take their time is no reason to give up. */
START_TEST(lock_is_patient_with_the_busy)
{
    int dir = open_scratch();
    pid_t child = start_holder(dir, true), killer;
    double start = yki_now();
    yki_lock lock;

    killer = fork();
    ck_assert_int_ge(killer, 0);
    if (!killer) {
        usleep(5000000);
        kill(child, SIGKILL);
        _exit(0);
    }
    /* Longer than a busy machine keeps the holder from its stamp, shorter than that holds. */
    ck_assert_int_eq(yki_lock_take(dir, KEY, 3, &lock), YKI_LOCK_TAKEN);
    ck_assert(yki_now() - start > 3);
    yki_lock_release(&lock);
    waitpid(child, NULL, 0);
    waitpid(killer, NULL, 0);
    close(dir);
}
END_TEST

static atomic_int inside, overlaps, turns;

static void *
take_turns(void *argument)
{
    int dir = *(int *)argument;

    for (int i = 0; i < 10; i++) {
        yki_lock lock;

        if (yki_lock_take(dir, KEY, 30, &lock) != YKI_LOCK_TAKEN)
            continue;
        if (atomic_fetch_add(&inside, 1))
            atomic_fetch_add(&overlaps, 1);
        usleep(1000);
        atomic_fetch_sub(&inside, 1);
        atomic_fetch_add(&turns, 1);
        yki_lock_release(&lock);
    }
    return NULL;
}

/* Two contexts of one process are as far apart as two processes. */
START_TEST(lock_between_threads)
{
    pthread_t threads[4];
    int dir = open_scratch();

    for (size_t i = 0; i < YKI_COUNT(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_turns, &dir), 0);
    for (size_t i = 0; i < YKI_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&overlaps), 0);
    ck_assert_int_eq(atomic_load(&turns), 40);
    close(dir);
}
END_TEST

/* A child forked while the lock is held does not keep it. */
START_TEST(lock_is_not_inherited)
{
    int dir = open_scratch();
    yki_lock lock, again;
    pid_t child;

    ck_assert_int_eq(yki_lock_take(dir, KEY, 0, &lock), YKI_LOCK_TAKEN);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child)
        for (;;)
            pause();
    yki_lock_release(&lock);
    ck_assert_int_eq(yki_lock_take(dir, KEY, 0, &again), YKI_LOCK_TAKEN);
    yki_lock_release(&again);
    stop(child);
    close(dir);
}
END_TEST

/* Two processes build two programs at once, and one program one after the other. */
START_TEST(locks_of_two_keys)
{
    int dir = open_scratch();
    pid_t child = start_holder(dir, false);
    yki_lock lock;

    ck_assert_int_eq(yki_lock_take(dir, OTHER_KEY, 0, &lock), YKI_LOCK_TAKEN);
    yki_lock_release(&lock);
    ck_assert_int_eq(yki_lock_take(dir, KEY, 0, &lock), YKI_LOCK_STUCK);
    stop(child);
    close(dir);
}
END_TEST

START_TEST(lock_cannot_be_had)
{
    int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    yki_lock lock;

    ck_assert_int_ge(dir, 0);
    ck_assert_int_eq(yki_lock_take(dir, KEY, 0, &lock), YKI_LOCK_BROKEN);
    ck_assert_int_eq(lock.fd, -1);
    close(dir);
    ck_assert_int_eq(yki_lock_take(-1, KEY, 0, &lock), YKI_LOCK_BROKEN);
    yki_lock_release(&lock);
}
END_TEST

/* Who waited in vain once only tries from then on. */
START_TEST(stuck_holder_is_waited_for_once)
{
    double start = yki_now();
    pid_t child;
    yki_lock lock;
    int dir;

    store();
    dir = open(cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    child = start_holder(dir, false);
    atomic_store(&context.lock_given_up, true);
    for (int i = 0; i < 3; i++) {
        yki_cache_lock(&context, KEY, &lock);
        ck_assert_int_eq(lock.fd, -1);
    }
    ck_assert(yki_now() - start < 100); /* one wait takes 120 s */
    stop(child);
    yki_cache_lock(&context, KEY, &lock);
    ck_assert_int_ge(lock.fd, 0);
    yki_lock_release(&lock);
    close(dir);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("cache");
    TCase *entries = test_case(suite, "entries"), *locks = test_case(suite, "lock");

    tcase_add_checked_fixture(entries, set_up, scratch_tear_down);
    tcase_add_test(entries, places);
    tcase_add_test(entries, round_trip);
    tcase_add_test(entries, private_directories);
    tcase_add_test(entries, damaged_entry);
    tcase_add_test(entries, untrusted_entry);
    tcase_add_test(entries, untrusted_directory);
    tcase_add_test(entries, no_place);
    tcase_add_test(entries, full_disk);
    tcase_add_test(entries, no_descriptors);
    tcase_add_test(entries, no_memory);
    tcase_add_test(entries, oldest_go);
    tcase_add_checked_fixture(locks, set_up, scratch_tear_down);
    tcase_add_test(locks, lock_dies_with_holder);
    tcase_add_test(locks, lock_is_patient_with_the_busy);
    tcase_add_test(locks, lock_between_threads);
    tcase_add_test(locks, lock_is_not_inherited);
    tcase_add_test(locks, locks_of_two_keys);
    tcase_add_test(locks, lock_cannot_be_had);
    tcase_add_test(locks, stuck_holder_is_waited_for_once);
    return suite;
}
