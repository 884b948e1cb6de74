/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - the processes of one job: this one alone, or all that mpirun started.
 *
 * The code that uses MPI is a module of its own, yoke-mpi.so. It is loaded only if a
 * launcher of MPI started this process, so that otherwise yoke never touches MPI.
 */
#ifndef YOKE_TOOLS_JOB_H
#define YOKE_TOOLS_JOB_H

#include "tool.h"

/* The module exports this table, under the name yki_tool_mpi_table. */
typedef struct yki_tool_mpi {
    const char *version; /* yoke_version() of the yoke that it was built with */
    /* Initialises MPI and makes a comm of all processes. */
    yoke_status (*start)(yoke_comm **comm);
    /* Ends MPI in order; called after the comm is destroyed. */
    void (*finish)(void);
    /* Ends all processes with this status; does not return. */
    void (*abort)(int status);
} yki_tool_mpi;

typedef struct yki_tool_job {
    yoke_comm *comm; /* NULL: one process */
    int rank, ranks;
    const yki_tool_mpi *mpi; /* NULL: one process */
} yki_tool_job;

enum { JOB_WHY = 1024 };
/* Loads the module. If that fails it returns NULL, `why` completes the sentence "the part of yoke
 * that joins processes ...", and `*there` says whether there is such a file at all. */
const yki_tool_mpi *yki_tool_job_load(bool *there, char why[JOB_WHY]);
/* Joins the job, if there is one. Afterwards only rank 0 writes to standard output, and only rank 0
 * writes notes. With `log_dir` each process writes its notes and errors to a file of its own in
 * that folder. Returns TOOL_OK or the exit status. */
int yki_tool_job_start(const yki_tool_command *command, const char *log_dir, yki_tool_job *job);
/* Leaves the job; a `status` of failure ends the other processes too. Returns `status`. */
int yki_tool_job_end(yki_tool_job *job, int status);

#endif
