/* SPDX-License-Identifier: Apache-2.0
 *
 * check_cores.c - how many cores and how much memory this process may use, from made-up
 * /proc and /sys trees with control groups of both versions, and from the real affinity.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tools/tool.h"
#include "support/support.h"

static char root[64];

static void
set_up(void)
{
    strcpy(root, "/tmp/yoke-cores-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void
tear_down(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

/* Writes a file below the root, with the folders it needs. */
static void
put(const char *path, const char *content)
{
    char name[512];
    FILE *file;

    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        ck_assert(mkdir(name, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(content, file), 0);
    fclose(file);
}

/* Quotas here are below one core, so that they hold on any machine. */
static void
assert_quota(double expected)
{
    yki_tool_cores cores = yki_tool_usable_cores(root);

    ck_assert_msg(cores.count == expected, "%g cores instead of %g", cores.count, expected);
    ck_assert_ptr_nonnull(strstr(cores.reason, "quota"));
}

static void
assert_no_quota(void)
{
    ck_assert_ptr_null(strstr(yki_tool_usable_cores(root).reason, "quota"));
}

#define V2_MOUNT "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n"

START_TEST(version_2_own_group)
{
    put("/proc/self/cgroup", "0::/user/job\n");
    put("/proc/self/mountinfo", "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n" V2_MOUNT);
    put("/sys/fs/cgroup/user/job/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/user/cpu.max", "max 100000\n");
    assert_quota(0.5);
}
END_TEST

/* The least quota on the way up holds. */
START_TEST(version_2_parent)
{
    put("/proc/self/cgroup", "0::/user/job\n");
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/sys/fs/cgroup/user/job/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/user/cpu.max", "25000 100000\n");
    put("/sys/fs/cgroup/cpu.max", "75000 100000\n");
    assert_quota(0.25);
}
END_TEST

START_TEST(version_2_none)
{
    put("/proc/self/cgroup", "0::/user\n");
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/sys/fs/cgroup/user/cpu.max", "max 100000\n");
    assert_no_quota();
}
END_TEST

START_TEST(version_1)
{
    put("/proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/job\n3:cpuset:/x\n0::/\n");
    put("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "20000\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "40000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_quota(0.5);
}
END_TEST

/* In a container /proc names the group as the host sees it, and the mount begins there. */
START_TEST(version_1_container)
{
    put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n");
    put("/proc/self/mountinfo",
        "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "75000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_quota(0.75);
}
END_TEST

START_TEST(nothing_mounted)
{
    assert_no_quota();
    put("/proc/self/cgroup", "garbage\n0:\n\n");
    put("/proc/self/mountinfo", "garbage\n - cgroup2\n");
    assert_no_quota();
}
END_TEST

START_TEST(affinity)
{
    cpu_set_t all, one;
    int first = 0;

    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        return;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert(yki_tool_usable_cores(root).count == 1);
    ck_assert_ptr_nonnull(strstr(yki_tool_usable_cores(root).reason, "affinity"));
}
END_TEST

START_TEST(memory)
{
    yki_tool_memory found = yki_tool_usable_memory(root);

    ck_assert_uint_eq(found.total, 0);
    ck_assert_uint_eq(found.limit, 0);
    put("/proc/meminfo", "MemTotal: 8192 kB\nMemFree: 1 kB\nMemAvailable: 4096 kB\n");
    put("/proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/job\n0::/user/job\n");
    put("/proc/self/mountinfo",
        "33 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" V2_MOUNT);
    put("/sys/fs/cgroup/user/job/memory.max", "max\n");
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    found = yki_tool_usable_memory(root);
    ck_assert_uint_eq(found.total, 8192 * 1024);
    ck_assert_uint_eq(found.available, 4096 * 1024);
    ck_assert_uint_eq(found.limit, 0);
    put("/sys/fs/cgroup/user/memory.max", "2097152\n");
    ck_assert_uint_eq(yki_tool_usable_memory(root).limit, 2097152);
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1048576\n");
    ck_assert_uint_eq(yki_tool_usable_memory(root).limit, 1048576);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("cores");
    TCase *tcase = test_case(suite, "cores");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, version_2_own_group);
    tcase_add_test(tcase, version_2_parent);
    tcase_add_test(tcase, version_2_none);
    tcase_add_test(tcase, version_1);
    tcase_add_test(tcase, version_1_container);
    tcase_add_test(tcase, nothing_mounted);
    tcase_add_test(tcase, affinity);
    tcase_add_test(tcase, memory);
    return suite;
}
