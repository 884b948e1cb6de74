/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_module.c - the part of the yoke command that uses MPI: a module that job.c loads.
 */
#include <stdio.h>
#include <stdlib.h>

#include <yoke-mpi.h>

#include "job.h"

static yoke_status
start(yoke_comm **comm)
{
    int given, done = 0;

    /* A process that waits inside MPI leaves the processor to those that compute on it. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    /* If this call fails, MPI by default ends the process itself, with its own message. */
    MPI_Initialized(&done);
    if (!done && MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given) != MPI_SUCCESS)
        return yoke_fail(YOKE_ERROR_COMM, "MPI_Init_thread failed");
    return yoke_mpi_comm_create(MPI_COMM_WORLD, NULL, comm);
}

static void
finish(void)
{
    MPI_Finalize();
}

static void
end_all(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

YOKE_API extern const yki_tool_mpi yki_tool_mpi_table;
/* job.c looks for this name. */
YOKE_API const yki_tool_mpi yki_tool_mpi_table = {
    .version = YOKE_MODULE_VERSION,
    .start = start,
    .finish = finish,
    .abort = end_all,
};
