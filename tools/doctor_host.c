/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_host.c - checks of `yoke doctor` that look at this host alone: nodes of devices,
 * cores, memory, and the cache of compiled kernels.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "doctor.h"
#include "table.h"

enum { PATH = 4096 };

/* ---- nodes of devices ---- */

/* Drivers of GPUs open these, for reading and writing. */
static const char *const node_patterns[] = {"/dev/dri/renderD*", "/dev/kfd",
                                            "/dev/dxg",          "/dev/nvidiactl",
                                            "/dev/nvidia[0-9]*", "/dev/nvidia-uvm"};

static void
check_node(yki_tool_checkup *doctor, const char *path, unsigned *good)
{
    char advice[DOCTOR_ADVICE];
    struct stat about;
    const struct group *group;

    if (stat(path, &about) != 0)
        return;
    if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0) {
        ++*good;
        return;
    }
    group = getgrgid(about.st_gid);
    if ((about.st_mode & 060) != 060)
        snprintf(advice, sizeof advice,
                 "as root, let a group open it (a rule of udev; until the next start: chmod g+rw)");
    else if (group)
        snprintf(advice, sizeof advice,
                 "as root: usermod -a -G %s USER, with your name for USER; then log in again",
                 group->gr_name);
    else
        snprintf(advice, sizeof advice, "start the container with --group-add=%u",
                 (unsigned)about.st_gid);
    yki_tool_doctor_add(doctor, DOCTOR_WARNING, advice,
                        "%s is there, but this user may not read and write it; it belongs to the "
                        "group %s",
                        path, group ? group->gr_name : "of a host that has no name here");
}

void
yki_tool_doctor_nodes(yki_tool_checkup *doctor, const char *root)
{
    unsigned good = 0, warnings = doctor->counts[DOCTOR_WARNING];

    for (size_t i = 0; i < sizeof node_patterns / sizeof node_patterns[0]; i++) {
        char pattern[PATH];
        glob_t found = {0};

        snprintf(pattern, sizeof pattern, "%s%s", root, node_patterns[i]);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++)
                check_node(doctor, found.gl_pathv[k], &good);
        globfree(&found);
    }
    if (good)
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "%u node%s of GPUs can be opened", good,
                            good == 1 ? "" : "s");
    else if (warnings == doctor->counts[DOCTOR_WARNING])
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL,
                            "no GPU has a node in /dev (dri/renderD*, kfd, dxg, nvidia*)");
}

/* ---- cores and memory ---- */

static void
write_core_advice(const yoke_device_info *info, unsigned whole, char advice[DOCTOR_ADVICE])
{
    if (strstr(info->platform, "Portable Computing"))
        snprintf(advice, DOCTOR_ADVICE, "set POCL_MAX_PTHREAD_COUNT=%u", whole);
    else if ((info->partition & YOKE_PARTITION_BY_COUNTS) && info->compute_units > whole)
        snprintf(advice, DOCTOR_ADVICE, "select a part of it, the first of %s/%u+%u", info->id,
                 whole, (unsigned)info->compute_units - whole);
    else
        snprintf(advice, DOCTOR_ADVICE,
                 "let this process use more cores, or train on another device");
}

void
yki_tool_doctor_cores(yki_tool_checkup *doctor, const char *root)
{
    const yki_tool_cores cores = yki_tool_usable_cores(root);
    bool fits = true;

    for (size_t i = 0; i < doctor->device_count; i++) {
        const yoke_device_info *info = &doctor->devices[i];
        char advice[DOCTOR_ADVICE];

        if (info->type != YOKE_DEVICE_CPU || info->compute_units <= cores.count)
            continue;
        fits = false;
        write_core_advice(info, cores.count < 1 ? 1 : (unsigned)cores.count, advice);
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, advice,
                            "%s runs %u compute units, but this process may use %g cores: %s",
                            info->id, (unsigned)info->compute_units, cores.count, cores.reason);
    }
    if (fits)
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "this process may use %g core%s: %s",
                            cores.count, cores.count == 1 ? "" : "s", cores.reason);
}

void
yki_tool_doctor_memory(yki_tool_checkup *doctor, const char *root)
{
    const uint64_t little = UINT64_C(1) << 30;
    const yki_tool_memory memory = yki_tool_usable_memory(root);
    bool limited = memory.limit && memory.limit < memory.total, fits = true;
    uint64_t usable = limited && memory.limit < memory.available ? memory.limit : memory.available;
    char free_text[32], total[32], limit[32], advice[DOCTOR_ADVICE];

    yki_tool_bytes(usable, free_text);
    yki_tool_bytes(memory.total, total);
    yki_tool_bytes(memory.limit, limit);
    for (size_t i = 0; limited && i < doctor->device_count; i++) {
        const yoke_device_info *info = &doctor->devices[i];
        char claimed[32];

        if (!info->host_memory || info->memory <= memory.limit)
            continue;
        fits = false;
        snprintf(advice, sizeof advice,
                 "give it a quota below the limit, such as --devices=%s@%lluMiB", info->id,
                 (unsigned long long)(memory.limit >> 20) * 3 / 4);
        yki_tool_doctor_add(
            doctor, DOCTOR_WARNING, advice,
            "%s reports %s, but this process is killed above the %s of its control group", info->id,
            yki_tool_bytes(info->memory, claimed), limit);
    }
    if (memory.available && usable < little)
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "end other programs, or train with a small --batch and --accumulate",
                            "only %s of memory can be used, of %s", free_text, total);
    else if (fits && memory.available)
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "%s of %s can be used%s%s", free_text, total,
                            limited ? "; the limit of the control group is " : "",
                            limited ? limit : "");
    else if (fits)
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "/proc/meminfo does not tell");
}

/* ---- the cache of compiled kernels ---- */

static const char ELSEWHERE[] = "set YOKE_CACHE_DIR to a folder of your own on a local disk";

static const struct {
    uint32_t type;
    const char *name;
} networks[] = {
    {0x6969, "NFS"},        {0x517b, "SMB"},        {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB"},    {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
    {0x19830326, "BeeGFS"}, {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},
};

/* What a child finds: a file system of another host may hang. */
typedef struct folder {
    char path[PATH];
    bool made; /* it is not there yet */
    char refusal[128];
    const char *network; /* a constant text, at the same address in the child */
    uint64_t left, bytes;
    unsigned files;
} folder;

/* The bytes of its files; the folder has no folders. */
static uint64_t
folder_bytes(const char *path, unsigned *files)
{
    DIR *stream = opendir(path);
    const struct dirent *entry;
    uint64_t sum = 0;

    *files = 0;
    while (stream && (entry = readdir(stream)) != NULL) {
        struct stat about;

        if (fstatat(dirfd(stream), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(about.st_mode)) {
            sum += (uint64_t)about.st_size;
            ++*files;
        }
    }
    if (stream)
        closedir(stream);
    return sum;
}

/* Cuts the path to the part of it that exists; false: it was there as a whole. */
static bool
cut_to_existing(char path[PATH])
{
    bool cut = false;
    char *slash;

    while (access(path, F_OK) != 0 && errno == ENOENT && (slash = strrchr(path, '/')) != NULL) {
        cut = true;
        slash[slash == path] = '\0';
        if (slash == path)
            break;
    }
    return cut;
}

/* Why the library would not keep kernels there; NULL: it would. */
static const char *
refusal(const char *path, bool made)
{
    char name[PATH + 32];
    struct stat about;
    int fd;

    if (stat(path, &about) != 0)
        return strerror(errno);
    if (!S_ISDIR(about.st_mode))
        return strerror(ENOTDIR);
    if (!made && about.st_uid != geteuid())
        return "it belongs to another user";
    if (!made && (about.st_mode & 022))
        return "others can write to it, so its files are not trusted";
    snprintf(name, sizeof name, "%s/tmp-doctor-XXXXXX", path);
    fd = mkstemp(name);
    if (fd < 0)
        return strerror(errno);
    close(fd);
    unlink(name);
    return NULL;
}

static void
look_at_folder(void *shared)
{
    folder *f = shared;
    char existing[PATH];
    struct statfs about;
    const char *why;

    strcpy(existing, f->path);
    f->made = cut_to_existing(existing);
    why = refusal(existing, f->made);
    if (!why && statfs(existing, &about) != 0)
        why = strerror(errno);
    if (why) {
        snprintf(f->refusal, sizeof f->refusal, "%s", why);
        return;
    }
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if ((uint32_t)about.f_type == networks[i].type)
            f->network = networks[i].name;
    f->left = (uint64_t)about.f_bavail * (uint64_t)about.f_bsize;
    f->bytes = folder_bytes(f->path, &f->files);
}

static void
report_folder(yki_tool_checkup *doctor, const folder *f)
{
    const uint64_t little = UINT64_C(64) << 20;
    char size[32], room[32];

    yki_tool_bytes(f->left, room);
    if (f->refusal[0])
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, ELSEWHERE,
                            "kernels are compiled anew each time, as %s cannot keep them: %s",
                            f->path, f->refusal);
    else if (f->left < little)
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, ELSEWHERE, "%s has room for only %s more",
                            f->path, room);
    else if (f->network)
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, ELSEWHERE,
                            "%s is on a network (%s), where files are slow and locks may fail",
                            f->path, f->network);
    else if (f->made)
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "%s will be made; %s are free", f->path,
                            room);
    else
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "%s has %u file%s, %s; %s are free", f->path,
                            f->files, f->files == 1 ? "" : "s", yki_tool_bytes(f->bytes, size),
                            room);
}

/* Where the library keeps compiled kernels (yoke_context(3)). */
static bool
find_cache(char path[PATH])
{
    const char *given = getenv("YOKE_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (given && *given)
        snprintf(path, PATH, "%s", given);
    else if (xdg && *xdg == '/')
        snprintf(path, PATH, "%s/yoke", xdg);
    else if (home && *home == '/')
        snprintf(path, PATH, "%s/.cache/yoke", home);
    else
        return false;
    return true;
}

void
yki_tool_doctor_cache(yki_tool_checkup *doctor)
{
    folder *f = yki_tool_doctor_share(doctor, sizeof *f);
    char why[DOCTOR_WHY];

    if (!f)
        return;
    if (!find_cache(f->path))
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, ELSEWHERE,
                            "kernels are compiled anew each time, as none of YOKE_CACHE_DIR, "
                            "XDG_CACHE_HOME and HOME names a folder");
    else if (!yki_tool_doctor_apart(doctor->limit, look_at_folder, f, why))
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, ELSEWHERE, "looking at %s %s", f->path, why);
    else
        report_folder(doctor, f);
    yki_tool_doctor_forget(f, sizeof *f);
}
