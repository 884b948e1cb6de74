/* SPDX-License-Identifier: Apache-2.0
 *
 * cores.c - how many of the host's cores this process may use: its affinity
 * mask (taskset, Slurm, cpusets) and the CPU quota of its control groups
 * (containers), version 1 or 2; and how much memory.
 *
 * Idea: OpenCL drivers count the cores of the machine and start as many threads. If
 * the process may use fewer cores, these threads wait for one another. They also
 * report the memory of the machine, whatever the limit of the control group.
 *
 * Any group between the process and the root of the mount may have a quota or a limit;
 * the smallest one holds. Groups outside the mount (above a container) cannot be seen.
 * Paths with blanks are not handled, because no system mounts control groups there.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

enum { PATH_SIZE = 4096 };

typedef struct cgroup {
    bool found;
    char path[PATH_SIZE];  /* the group of this process, as in /proc/self/cgroup */
    char root[PATH_SIZE];  /* the group that is mounted */
    char mount[PATH_SIZE]; /* where it is mounted */
} cgroup;

/* 0: not known. */
static double
affinity_cores(void)
{
    /* The kernel refuses a mask that is smaller than its own, so try larger ones until it fits. */
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        int count = 0;

        if (!set)
            return 0;
        if (sched_getaffinity(0, size, set) == 0)
            count = CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    return 0;
}

/* Finds a word such as "cpu" in a list such as "cpu,cpuacct". */
static bool
has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

static FILE *
open_under(const char *root, const char *folder, const char *file)
{
    char name[4 * PATH_SIZE];
    int length = snprintf(name, sizeof name, "%s%s/%s", root, folder, file);

    return length > 0 && (size_t)length < sizeof name ? fopen(name, "re") : NULL;
}

/* The lines of /proc/self/cgroup are "number:controllers:path"; for version 2, "0::path". */
static bool
find_own_group(const char *root, int version, const char *controller, cgroup *group)
{
    FILE *file = open_under(root, "/proc/self", "cgroup");
    char *line = NULL;
    size_t size = 0;
    bool found = false;

    while (file && !found && getline(&line, &size, file) > 0) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        path[strcspn(path, "\n")] = '\0';
        found = version == 2 ? *controllers == '\0' : has_word(controllers, controller);
        if (found)
            snprintf(group->path, sizeof group->path, "%s", path);
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* The lines of /proc/self/mountinfo have id, parent, device, root, mount point, options, any number
 * of tags, "-", type, source, and options of the file system. */
static bool
find_mount(const char *root, int version, const char *controller, cgroup *group)
{
    FILE *file = open_under(root, "/proc/self", "mountinfo");
    char *line = NULL;
    size_t size = 0;
    bool found = false;

    while (file && !found && getline(&line, &size, file) > 0) {
        char type[64], options[1024];
        char *tail = strstr(line, " - ");

        if (!tail || sscanf(tail, " - %63s %*s %1023s", type, options) != 2)
            continue;
        if (version == 2 ? strcmp(type, "cgroup2") != 0
                         : strcmp(type, "cgroup") != 0 || !has_word(options, controller))
            continue;
        found = sscanf(line, "%*s %*s %*s %4095s %4095s", group->root, group->mount) == 2;
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

static bool
read_numbers(const char *root, const char *folder, const char *name, double *a, double *b)
{
    FILE *file = open_under(root, folder, name);
    int count;

    if (!file)
        return false;
    count = b ? fscanf(file, "%lf %lf", a, b) : fscanf(file, "%lf", a);
    fclose(file);
    return count == (b ? 2 : 1);
}

/* The quota of one group in cores; 0: none. A group without one has "max" in cpu.max, or -1 in
 * cfs_quota_us. */
static double
folder_quota(const char *root, int version, const char *folder)
{
    double quota = 0, period = 0;
    bool known = version == 2 ? read_numbers(root, folder, "cpu.max", &quota, &period)
                              : read_numbers(root, folder, "cpu.cfs_quota_us", &quota, NULL) &&
                                    read_numbers(root, folder, "cpu.cfs_period_us", &period, NULL);

    return known && quota > 0 && period > 0 ? quota / period : 0;
}

/* The limit of one group in bytes; 0: none. Version 1 has a number near 2^63 for none. */
static double
folder_memory(const char *root, int version, const char *folder)
{
    double limit = 0;
    bool known = read_numbers(root, folder, version == 2 ? "memory.max" : "memory.limit_in_bytes",
                              &limit, NULL);

    return known && limit > 0 && limit < 0x1p62 ? limit : 0;
}

/* What one group allows; 0: as much as there is. */
typedef double (*folder_limit)(const char *root, int version, const char *folder);

/* The least limit from the process's own group up to the mounted one; 0: none. */
static double
least_limit(const char *root, int version, const char *controller, folder_limit limit_of)
{
    cgroup group = {0};
    char folder[2 * PATH_SIZE];
    const char *below;
    double least = 0;
    size_t top;

    if (!find_own_group(root, version, controller, &group) ||
        !find_mount(root, version, controller, &group))
        return 0;
    /* If the root of the mount is "/docker/x", the path "/docker/x" is the mount itself. */
    below = strcmp(group.root, "/") == 0 ? group.path
            : strncmp(group.path, group.root, strlen(group.root)) == 0
                ? group.path + strlen(group.root)
                : "";
    if (strstr(below, ".."))
        below = "";
    top = strlen(group.mount);
    snprintf(folder, sizeof folder, "%s%s", group.mount, below);
    while (true) {
        double limit = limit_of(root, version, folder);
        char *slash = strrchr(folder, '/');

        if (limit > 0 && (least == 0 || limit < least))
            least = limit;
        if (strlen(folder) <= top || !slash)
            return least;
        *slash = '\0';
    }
}

yki_tool_cores
yki_tool_usable_cores(const char *root)
{
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    yki_tool_cores cores = {all > 0 ? (double)all : 1, "the machine has no more"};
    double affinity = affinity_cores();

    if (affinity > 0 && affinity < cores.count)
        cores = (yki_tool_cores){affinity, "its affinity mask (taskset, cpuset)"};
    for (int version = 1; version <= 2; version++) {
        double quota = least_limit(root, version, "cpu", folder_quota);

        if (quota > 0 && quota < cores.count)
            cores = (yki_tool_cores){quota, "the CPU quota of its control group"};
    }
    return cores;
}

yki_tool_memory
yki_tool_usable_memory(const char *root)
{
    FILE *file = open_under(root, "/proc", "meminfo");
    yki_tool_memory memory = {0};
    char line[256];

    while (file && fgets(line, sizeof line, file)) {
        unsigned long long kib;

        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
            memory.total = kib * 1024;
        else if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            memory.available = kib * 1024;
    }
    if (file)
        fclose(file);
    for (int version = 1; version <= 2; version++) {
        uint64_t limit = (uint64_t)least_limit(root, version, "memory", folder_memory);

        if (limit && (!memory.limit || limit < memory.limit))
            memory.limit = limit;
    }
    return memory;
}
