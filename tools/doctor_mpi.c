/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_mpi.c - a check of `yoke doctor`: whether several processes can be started and
 * joined.
 *
 * The module that uses MPI is loaded in a child process, but MPI is not started, and
 * mpirun is looked for, but not run: both may wait for ever.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "job.h"

enum { PATH = 4096 };

/* What a child finds about the module that joins processes. */
typedef struct module {
    bool there, loads, open_mpi;
    char why[JOB_WHY];
} module;

static void
load_module(void *shared)
{
    module *m = shared;

    m->loads = yki_tool_job_load(&m->there, m->why) != NULL;
    m->open_mpi = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL;
}

/* Finds a program as a shell does. */
static bool
find_program(const char *name, char path[PATH])
{
    const char *at = getenv("PATH");

    while (at && *at) {
        size_t length = strcspn(at, ":");

        snprintf(path, PATH, "%.*s/%s", (int)length, at, name);
        if (access(path, X_OK) == 0)
            return true;
        at += length;
        at += *at == ':';
    }
    return false;
}

static bool
is_one(const char *name)
{
    const char *value = getenv(name);

    return value && strcmp(value, "1") == 0;
}

static void
check_launcher(yki_tool_checkup *doctor, bool open_mpi)
{
    bool unbound = getenv("OMPI_MCA_hwloc_base_binding_policy") ||
                   getenv("PRTE_MCA_hwloc_default_binding_policy");
    char path[PATH];

    if (!find_program("mpirun", path)) {
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "install it (Debian, Ubuntu: apt install openmpi-bin; Fedora: dnf "
                            "install openmpi; Arch: pacman -S openmpi) or add its folder to PATH, "
                            "such as /usr/lib64/openmpi/bin",
                            "there is no mpirun in PATH");
        return;
    }
    yki_tool_doctor_add(
        doctor, DOCTOR_FINE, NULL, "%s starts processes%s", path,
        open_mpi && !unbound ? "; it may bind each to one core, unless given --bind-to none" : "");
    if (open_mpi && geteuid() == 0 &&
        !(is_one("OMPI_ALLOW_RUN_AS_ROOT") && is_one("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")))
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "be another user or, in a container, set OMPI_ALLOW_RUN_AS_ROOT=1 and "
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                            "Open MPI refuses to start processes as root");
}

/* A process that Open MPI started, and bound to fewer cores than its part of the host. */
static void
check_binding(yki_tool_checkup *doctor)
{
    const char *ranks = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    const long all = sysconf(_SC_NPROCESSORS_ONLN), count = ranks ? atol(ranks) : 0;
    const double cores = yki_tool_usable_cores("").count;

    if (count > 0 && (cores + 1) * (double)count <= (double)all)
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, "start mpirun with --bind-to none",
                            "this rank may use %g of %ld cores, and the host has %ld rank%s", cores,
                            all, count, count == 1 ? "" : "s");
}

void
yki_tool_doctor_mpi(yki_tool_checkup *doctor)
{
    module *m = yki_tool_doctor_share(doctor, sizeof *m);
    char why[DOCTOR_WHY];

    if (!m)
        return;
    if (!yki_tool_doctor_apart(doctor->limit, load_module, m, why))
        yki_tool_doctor_add(doctor, DOCTOR_WARNING, "install MPI again, and build yoke with it",
                            "loading MPI %s", why);
    else if (!m->there)
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL,
                            "this yoke was built without MPI; it trains in one process");
    else if (!m->loads)
        yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                            "install the MPI that yoke was built with (Debian, Ubuntu: apt install "
                            "openmpi-bin; Fedora: dnf install openmpi; Arch: pacman -S openmpi)",
                            "the part of yoke that joins processes %s", m->why);
    else {
        check_launcher(doctor, m->open_mpi);
        check_binding(doctor);
    }
    yki_tool_doctor_forget(m, sizeof *m);
}
