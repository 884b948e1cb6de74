/* SPDX-License-Identifier: Apache-2.0
 *
 * check_doctor.c - checks of `yoke doctor` on made-up hosts: nodes that cannot be opened,
 * devices that claim more cores or memory than this process may use.
 */
#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tools/doctor.h"
#include "support/support.h"

static char root[64], found[1024], advised[1024];
static yki_tool_checkup doctor;

/* Stands for that of doctor.c: keeps the last finding. */
void
yki_tool_doctor_add(yki_tool_checkup *checkup, yki_tool_level level, const char *advice,
                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(found, sizeof found, format, args);
    va_end(args);
    snprintf(advised, sizeof advised, "%s", advice ? advice : "");
    checkup->counts[level]++;
    ck_assert_int_eq(level == DOCTOR_FINE, advice == NULL);
}

static void
set_up(void)
{
    memset(&doctor, 0, sizeof doctor);
    found[0] = advised[0] = '\0';
    strcpy(root, "/tmp/yoke-doctor-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(chmod(root, 0755), 0);
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
put(const char *path, const char *content, mode_t mode)
{
    char name[512];
    FILE *file;

    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        ck_assert(mkdir(name, 0755) == 0 || errno == EEXIST);
        *at = '/';
    }
    file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(content, file), 0);
    fclose(file);
    ck_assert_int_eq(chmod(name, mode), 0);
}

static void
assert_counts(unsigned fine, unsigned warnings)
{
    ck_assert_msg(doctor.counts[DOCTOR_FINE] == fine && doctor.counts[DOCTOR_WARNING] == warnings &&
                      doctor.counts[DOCTOR_PROBLEM] == 0,
                  "%u, %u; the last: %s", doctor.counts[DOCTOR_FINE], doctor.counts[DOCTOR_WARNING],
                  found);
}

static void
assert_says(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" does not say \"%s\"", text, part);
}

static void
add_device(const char *platform, uint32_t units, uint64_t memory)
{
    yoke_device_info *info = &doctor.devices[doctor.device_count++];

    *info = (yoke_device_info){.type = YOKE_DEVICE_CPU,
                               .partition = YOKE_PARTITION_BY_COUNTS,
                               .compute_units = units,
                               .host_memory = true,
                               .memory = memory};
    strcpy(info->id, "cpu:0");
    snprintf(info->platform, sizeof info->platform, "%s", platform);
}

/* ---- nodes ---- */

START_TEST(no_node)
{
    yki_tool_doctor_nodes(&doctor, root);
    assert_counts(1, 0);
    assert_says(found, "no GPU has a node");
}
END_TEST

/* Root may open everything, so another user looks. */
static void
be_nobody(void)
{
    if (geteuid() == 0)
        ck_assert_int_eq(setgroups(0, NULL) || setegid(65534) || seteuid(65534), 0);
}

START_TEST(open_nodes)
{
    put("/dev/dri/renderD128", "", 0666);
    put("/dev/nvidia0", "", 0666);
    be_nobody();
    yki_tool_doctor_nodes(&doctor, root);
    assert_counts(1, 0);
    assert_says(found, "2 nodes");
    ck_assert_int_eq(seteuid(getuid()), 0);
}
END_TEST

/* As nobody: the group of the node may open it, and one who is not in it may not. As any other
 * user: an owner who may not open it. */
START_TEST(shut_node)
{
    put("/dev/dri/renderD128", "", 0060);
    be_nobody();
    yki_tool_doctor_nodes(&doctor, root);
    ck_assert_int_eq(seteuid(getuid()), 0);
    assert_counts(0, 1);
    assert_says(found, "/dev/dri/renderD128 is there, but this user may not");
    ck_assert_msg(strstr(advised, "usermod -a -G ") || strstr(advised, "--group-add="), "%s",
                  advised);
}
END_TEST

START_TEST(open_beside_shut)
{
    put("/dev/dri/renderD128", "", 0060);
    put("/dev/kfd", "", 0666);
    be_nobody();
    yki_tool_doctor_nodes(&doctor, root);
    ck_assert_int_eq(seteuid(getuid()), 0);
    assert_counts(1, 1);
}
END_TEST

START_TEST(node_of_root_alone)
{
    put("/dev/kfd", "", 0000);
    be_nobody();
    yki_tool_doctor_nodes(&doctor, root);
    ck_assert_int_eq(seteuid(getuid()), 0);
    assert_counts(0, 1);
    assert_says(advised, "udev");
}
END_TEST

/* ---- cores ---- */

START_TEST(enough_cores)
{
    add_device("Portable Computing Language", 1, 0);
    yki_tool_doctor_cores(&doctor, root);
    assert_counts(1, 0);
}
END_TEST

START_TEST(more_units_than_cores)
{
    add_device("Portable Computing Language", 4000, 0);
    yki_tool_doctor_cores(&doctor, root);
    assert_counts(0, 1);
    assert_says(found, "cpu:0 runs 4000 compute units, but this process may use ");
    assert_says(advised, "POCL_MAX_PTHREAD_COUNT=");
    doctor.device_count = 0;
    add_device("another", 4000, 0);
    yki_tool_doctor_cores(&doctor, root);
    assert_counts(0, 2);
    assert_says(advised, "cpu:0/");
}
END_TEST

/* ---- memory ---- */

#define V2_MOUNT "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n"

static void
put_memory(const char *available, const char *limit)
{
    char text[128];

    snprintf(text, sizeof text, "MemTotal: 16777216 kB\nMemAvailable: %s kB\n", available);
    put("/proc/meminfo", text, 0644);
    put("/proc/self/cgroup", "0::/\n", 0644);
    put("/proc/self/mountinfo", V2_MOUNT, 0644);
    put("/sys/fs/cgroup/memory.max", limit, 0644);
}

START_TEST(enough_memory)
{
    put_memory("8388608", "max\n");
    add_device("any", 1, UINT64_C(16) << 30);
    yki_tool_doctor_memory(&doctor, root);
    assert_counts(1, 0);
    assert_says(found, "8 GiB of 16 GiB");
}
END_TEST

START_TEST(little_memory)
{
    put_memory("524288", "max\n");
    yki_tool_doctor_memory(&doctor, root);
    assert_counts(0, 1);
    assert_says(found, "only 512 MiB");
    assert_says(advised, "--batch");
}
END_TEST

/* Drivers report the memory of the machine; beyond the limit of the group is the end. */
START_TEST(limited_memory)
{
    put_memory("8388608", "4294967296\n");
    add_device("any", 1, UINT64_C(2) << 30);
    yki_tool_doctor_memory(&doctor, root);
    assert_counts(1, 0);
    assert_says(found, "4 GiB of 16 GiB can be used; the limit of the control group is 4 GiB");
    add_device("any", 1, UINT64_C(16) << 30);
    yki_tool_doctor_memory(&doctor, root);
    assert_counts(1, 1);
    assert_says(found, "cpu:0 reports 16 GiB");
    assert_says(advised, "--devices=cpu:0@3072MiB");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("doctor");
    TCase *tcase = test_case(suite, "host");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, no_node);
    tcase_add_test(tcase, open_nodes);
    tcase_add_test(tcase, shut_node);
    tcase_add_test(tcase, open_beside_shut);
    tcase_add_test(tcase, node_of_root_alone);
    tcase_add_test(tcase, enough_cores);
    tcase_add_test(tcase, more_units_than_cores);
    tcase_add_test(tcase, enough_memory);
    tcase_add_test(tcase, little_memory);
    tcase_add_test(tcase, limited_memory);
    return suite;
}
