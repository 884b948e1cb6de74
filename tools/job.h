/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - the processes of one job: alone, or as many as mpirun started.
 *
 * The part that knows MPI is a module of its own, yoke-mpi.so, which is loaded
 * only where a launcher of MPI started this process: alone, yoke never touches MPI.
 */
#ifndef YOKE_TOOLS_JOB_H
#define YOKE_TOOLS_JOB_H

#include "tool.h"

/* What the module exports, under the name yki_tool_mpi_table. */
typedef struct yki_tool_mpi {
    const char *version; /* yoke_version() of what it was built with */
    /* Initialises MPI and makes a comm of all processes. */
    yoke_status (*start)(yoke_comm **comm);
    /* After the comm was destroyed: the orderly end. */
    void (*finish)(void);
    /* Ends all processes with this status; does not return. */
    void (*abort)(int status);
} yki_tool_mpi;

typedef struct yki_tool_job {
    yoke_comm *comm; /* NULL: alone */
    int rank, ranks;
    const yki_tool_mpi *mpi; /* NULL: alone */
} yki_tool_job;

/* Joins the job, if there is one. Afterwards only rank 0 writes to standard output, and only it
 * gives notes; with `log_dir` each process writes its notes and errors to a file of its own there.
 * TOOL_OK, or what to exit with. */
int yki_tool_job_start(const yki_tool_command *command, const char *log_dir, yki_tool_job *job);
/* Leaves it; a failure ends the other processes too. Returns `status`. */
int yki_tool_job_end(yki_tool_job *job, int status);

#endif
