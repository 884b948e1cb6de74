/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-mpi.h - makes the processes of an MPI program the yoke_comm of a team.
 *
 * The application initialises and finalises MPI. It must be compiled with the MPI that libyoke-mpi
 * was built with. See yoke_mpi_comm(3) and yoke-mpi(7).
 */
#ifndef YOKE_MPI_H
#define YOKE_MPI_H

#include <mpi.h>
#include <yoke.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How gradients are reduced. Another mode may change the last bits of a sum. All ranks use the mode
 * of rank 0. */
typedef enum yoke_mpi_mode {
    YOKE_MPI_AUTO = 0,     /* $YOKE_MPI_MODE; if unset, each trainer measures the possible ones */
    YOKE_MPI_BLOCKING = 1, /* MPI_Allreduce, on a thread of its own if MPI allows it */
    YOKE_MPI_NONBLOCKING = 2, /* MPI_Iallreduce, polled with sleeps */
    YOKE_MPI_REDUCE_BROADCAST =
        3, /* MPI_Reduce and MPI_Bcast: all ranks get the same bits by construction */
    YOKE_MPI_SHARED =
        4 /* sums in shared memory on each host, then MPI between one rank of each host */
} yoke_mpi_mode;

typedef struct yoke_mpi_options {
    /* Seconds that ranks may wait for another one: after warn_seconds the log names it, after
     * error_seconds every call fails. 0: $YOKE_MPI_WARN, else 60, and $YOKE_MPI_TIMEOUT, else 300.
     * -1: never. */
    double warn_seconds, error_seconds;
    yoke_mpi_mode mode;
    uint64_t chunk_bytes; /* the most bytes for one call of MPI; 0: $YOKE_MPI_CHUNK, else 1 GiB */
    bool allow_single; /* do not refuse several launched tasks that are each an MPI world of one */
} yoke_mpi_options;

/* Makes a comm on duplicates of `mpi`. All processes of `mpi` must call it. MPI must be initialised
 * with MPI_THREAD_FUNNELED or more; MPI_THREAD_MULTIPLE is best. Destroy the comm with
 * yoke_comm_destroy, before MPI_Finalize. Waits. */
YOKE_API yoke_status yoke_mpi_comm_create_sized(MPI_Comm mpi, const yoke_mpi_options *options,
                                                size_t size, yoke_comm **comm);
static inline yoke_status
yoke_mpi_comm_create(MPI_Comm mpi, const yoke_mpi_options *options, yoke_comm **comm)
{
    return yoke_mpi_comm_create_sized(mpi, options, sizeof(yoke_mpi_options), comm);
}
/* The same for a communicator's handle in Fortran, with the default options. */
YOKE_API yoke_status yoke_mpi_comm_from_fortran(MPI_Fint mpi, yoke_comm **comm);

#ifdef __cplusplus
}
#endif

#endif
