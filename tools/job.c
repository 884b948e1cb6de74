/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - joins the other processes if mpirun or srun started this one.
 *
 * Environment variables of the launchers tell that. The module is beside the program in
 * a build folder, and in libdir/yoke after installation.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job.h"

enum { PATH = 4096 };

/* Returns the variable by which a launcher shows that it started this process: Open MPI, Hydra
 * (MPICH, Intel) or srun; NULL: none did. Slurm sets its variables in batch scripts too, but there
 * SLURM_STEP_ID is not a number. */
static const char *
launcher(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK",
                                        "MPI_LOCALNRANKS"};
    const char *step = getenv("SLURM_STEP_ID"), *tasks = getenv("SLURM_STEP_NUM_TASKS");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            return names[i];
    return step && *step >= '0' && *step <= '9' && tasks && atoi(tasks) > 1 ? "SLURM_STEP_ID"
                                                                            : NULL;
}

/* ---- the module ---- */

static const char INSTALLED[] = TOOL_MODULE_DIR "/yoke-mpi.so";

static void *
open_beside_program(bool *there)
{
    char path[PATH];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
    char *slash;

    *there = false;
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    strcpy(slash + 1, "yoke-mpi.so");
    /* RTLD_GLOBAL: an MPI library loads plugins, which look for the symbols of the library. */
    *there = access(path, R_OK) == 0;
    return *there ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

const yki_tool_mpi *
yki_tool_job_load(bool *there, char why[JOB_WHY])
{
    void *module = open_beside_program(there);
    const yki_tool_mpi *mpi;

    if (!*there) {
        *there = access(INSTALLED, F_OK) == 0;
        module = dlopen(INSTALLED, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!module) {
        snprintf(why, JOB_WHY, "cannot be loaded (%s); a build without MPI has none", dlerror());
        return NULL;
    }
    mpi = (const yki_tool_mpi *)dlsym(module, "yki_tool_mpi_table");
    if (!mpi || strcmp(mpi->version, yoke_version()) != 0) {
        snprintf(why, JOB_WHY,
                 "is of another version than yoke, which is %s; install both from one build",
                 yoke_version());
        return NULL;
    }
    return mpi;
}

static const yki_tool_mpi *
load(const yki_tool_command *command, const char *variable)
{
    char why[JOB_WHY];
    bool there;
    const yki_tool_mpi *mpi = yki_tool_job_load(&there, why);

    if (!mpi)
        yki_tool_error(command,
                       "%s says that this is one of several processes, but the part of yoke that "
                       "joins them %s",
                       variable, why);
    return mpi;
}

/* ---- who speaks ---- */

static bool
redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    bool done = fd >= 0 && dup2(fd, to) >= 0;

    if (fd >= 0)
        close(fd);
    return done;
}

/* Only rank 0 writes results. With `log_dir` each process writes its messages to a file there. */
static int
choose_streams(const yki_tool_command *command, const char *log_dir, const yki_tool_job *job)
{
    char path[PATH];

    fflush(stdout);
    if (job->rank > 0 && !redirect("/dev/null", STDOUT_FILENO)) {
        yki_tool_error(command, "/dev/null cannot be opened: %s", strerror(errno));
        return TOOL_FAILURE;
    }
    if (!log_dir)
        return TOOL_OK;
    if (mkdir(log_dir, 0777) != 0 && errno != EEXIST) {
        yki_tool_error(command, "%s: the folder cannot be made: %s", log_dir, strerror(errno));
        return TOOL_FAILURE;
    }
    snprintf(path, sizeof path, "%s/rank-%d.log", log_dir, job->rank);
    if (!redirect(path, STDERR_FILENO)) {
        yki_tool_error(command, "%s: cannot be written: %s", path, strerror(errno));
        return TOOL_FAILURE;
    }
    return TOOL_OK;
}

int
yki_tool_job_start(const yki_tool_command *command, const char *log_dir, yki_tool_job *job)
{
    const char *variable = launcher();
    yoke_status failed;

    *job = (yki_tool_job){.ranks = 1};
    if (variable) {
        job->mpi = load(command, variable);
        if (!job->mpi)
            return TOOL_FAILURE;
        failed = job->mpi->start(&job->comm);
        if (failed)
            return yki_tool_job_end(job, yki_tool_fail(command, failed));
        job->rank = job->comm->rank;
        job->ranks = job->comm->ranks;
        yki_tool_speak_as(job->rank, job->ranks, job->comm->host, log_dir != NULL);
    }
    return choose_streams(command, log_dir, job);
}

int
yki_tool_job_end(yki_tool_job *job, int status)
{
    if (!job->mpi)
        return status;
    fflush(stdout);
    fflush(stderr);
    if (status != TOOL_OK && status != TOOL_STOPPED)
        job->mpi->abort(status);
    yoke_comm_destroy(job->comm);
    job->comm = NULL;
    job->mpi->finish();
    job->mpi = NULL;
    return status;
}
