/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_drivers.c - a check of `yoke doctor`: whether each driver that the OpenCL loader
 * would take can be loaded.
 *
 * A driver that crashes takes every program with it that lists platforms, yoke too; one
 * that cannot be loaded is only left out. So each library is loaded in a child process
 * of its own.
 *
 * Which files the loader reads is told by its variables; the two loaders in use, ocl-icd
 * and Khronos', know them alike, but for OPENCL_VENDOR_PATH and OCL_ICD_FILENAMES, which
 * belong to one each.
 */
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

enum { NAME = 1024, ERROR = 1024 };

static const char VENDORS[] = "/etc/OpenCL/vendors";

/* ---- the files of the loader ---- */

/* What a child finds about a library. */
typedef struct library {
    char name[NAME];
    bool loaded, driver;
    unsigned platforms;
    char error[ERROR];
} library;

typedef void *(*find_function)(const char *name);
typedef int (*list_platforms)(unsigned room, void **platforms, unsigned *count);

/* In a child: does what the loader would do. */
static void
load_library(void *shared)
{
    library *lib = shared;
    void *handle = dlopen(lib->name, RTLD_NOW);
    find_function find;
    list_platforms list;

    if (!handle) {
        snprintf(lib->error, sizeof lib->error, "%s", dlerror());
        return;
    }
    lib->loaded = true;
    find = (find_function)dlsym(handle, "clGetExtensionFunctionAddress");
    list = find ? (list_platforms)find("clIcdGetPlatformIDsKHR") : NULL;
    lib->driver = list != NULL;
    if (list && list(0, NULL, &lib->platforms) != 0)
        lib->platforms = 0;
}

/* `from` is the .icd file, or the variable that names the library. */
static void
check_library(yki_tool_checkup *doctor, const char *from, const char *name)
{
    library *lib = yki_tool_doctor_share(doctor, sizeof *lib);
    char why[DOCTOR_WHY], advice[DOCTOR_ADVICE];

    if (!lib)
        return;
    snprintf(lib->name, sizeof lib->name, "%s", name);
    if (!yki_tool_doctor_apart(doctor->limit, load_library, lib, why)) {
        snprintf(advice, sizeof advice,
                 "update this driver or take it away from %s: it stops every OpenCL program", from);
        yki_tool_doctor_add(doctor, DOCTOR_PROBLEM, advice, "%s: loading %s %s", from, name, why);
    } else if (!lib->loaded) {
        yki_tool_doctor_packages(
            "install the driver again", name,
            "install the package that the library belongs to, or remove the file", advice);
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, advice,
                            "%s names %s, which cannot be loaded: %s", from, name, lib->error);
    } else if (!lib->driver) {
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "let the file name the library of a driver, or remove it",
                            "%s names %s, which is no OpenCL driver", from, name);
    } else {
        doctor->drivers++;
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "%s: %s loads%s", from, name,
                            lib->platforms ? "" : ", and finds no hardware");
    }
    yki_tool_doctor_forget(lib, sizeof *lib);
}

static void
check_file(yki_tool_checkup *doctor, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[NAME] = "";

    if (file && !fgets(line, sizeof line, file))
        line[0] = '\0';
    line[strcspn(line, " \t\r\n")] = '\0';
    if (!file)
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "make the file readable for all (as root: chmod a+r)",
                            "%s cannot be read", path);
    else if (!line[0])
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "write the name of the driver's library into its first line, or remove "
                            "it",
                            "%s names no library", path);
    else
        check_library(doctor, path, line);
    if (file)
        fclose(file);
}

static const char *
variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Checks all files that end in .icd, in the order of their names; returns how many there are. */
static size_t
check_folder(yki_tool_checkup *doctor, const char *folder)
{
    char pattern[NAME + 8];
    glob_t found = {0};
    size_t count = 0;

    snprintf(pattern, sizeof pattern, "%s/*.icd", folder);
    if (glob(pattern, 0, NULL, &found) == 0)
        count = found.gl_pathc;
    for (size_t i = 0; i < count; i++)
        check_file(doctor, found.gl_pathv[i]);
    globfree(&found);
    return count;
}

/* What OCL_ICD_VENDORS or its default stands for: a folder, a file, or a library. Returns false if
 * it reported that there is none of them. */
static bool
check_vendors(yki_tool_checkup *doctor)
{
    const char *given = variable("OCL_ICD_VENDORS"), *base = variable("OPENCL_VENDOR_PATH");
    const char *name = given ? "OCL_ICD_VENDORS" : base ? "OPENCL_VENDOR_PATH" : NULL;
    const char *place = given ? given : base ? base : VENDORS, *dot = strrchr(place, '.');
    char path[NAME], advice[DOCTOR_ADVICE] = DOCTOR_INSTALL;
    struct stat about;

    if (given && !strchr(given, '/')) {
        snprintf(path, sizeof path, "%s/%s", base ? base : VENDORS, given);
        if (access(path, F_OK) == 0)
            place = path;
    }
    if (stat(place, &about) == 0 && S_ISDIR(about.st_mode)) {
        if (check_folder(doctor, place) || variable("OCL_ICD_FILENAMES"))
            return true;
    } else if (given && !(dot && strcmp(dot, ".icd") == 0)) {
        check_library(doctor, name, given);
        return true;
    } else if (given && access(place, F_OK) == 0) {
        check_file(doctor, place);
        return true;
    }
    if (name)
        snprintf(advice, sizeof advice,
                 "unset %s, or let it name a folder with the .icd files of drivers", name);
    yki_tool_doctor_add(doctor, DOCTOR_PROBLEM, advice,
                        "%s has no file that ends in .icd, so the loader finds no driver", place);
    return false;
}

/* What is in a list with colons is loaded besides. */
static void
check_listed(yki_tool_checkup *doctor)
{
    const char *at = variable("OCL_ICD_FILENAMES");

    while (at && *at) {
        char name[NAME];

        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ":"), at);
        if (name[0])
            check_library(doctor, "OCL_ICD_FILENAMES", name);
        at += strcspn(at, ":");
        at += *at == ':';
    }
}

/* The driver of a host that a container uses comes without the file. */
static void
check_nvidia(yki_tool_checkup *doctor)
{
    library *lib;
    char why[DOCTOR_WHY];

    if (access("/dev/nvidiactl", F_OK) != 0 || access("/etc/OpenCL/vendors/nvidia.icd", F_OK) == 0)
        return;
    lib = yki_tool_doctor_share(doctor, sizeof *lib);
    if (!lib)
        return;
    strcpy(lib->name, "libnvidia-opencl.so.1");
    if (yki_tool_doctor_apart(doctor->limit, load_library, lib, why) && lib->loaded)
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "as root: echo libnvidia-opencl.so.1 >/etc/OpenCL/vendors/nvidia.icd",
                            "NVIDIA's OpenCL is installed, but the loader has no file that names "
                            "it");
    yki_tool_doctor_forget(lib, sizeof *lib);
}

void
yki_tool_doctor_drivers(yki_tool_checkup *doctor)
{
    bool some = check_vendors(doctor);

    check_listed(doctor);
    if (some && !doctor->drivers)
        yki_tool_doctor_add(doctor, DOCTOR_PROBLEM, DOCTOR_INSTALL,
                            "no OpenCL driver can be loaded");
    check_nvidia(doctor);
}
