/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-mpi.h - the processes of an MPI program as the yoke_comm of a team.
 *
 * The application initialises and finalises MPI, and compiles with the same MPI
 * that libyoke-mpi was built with. See yoke_mpi_comm(3) and yoke-mpi(7).
 */
#ifndef YOKE_MPI_H
#define YOKE_MPI_H

#include <mpi.h>
#include <yoke.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How gradients are reduced. Which one it is may change the last bits of a sum; rank 0's choice is
 * everybody's. */
typedef enum yoke_mpi_mode {
    YOKE_MPI_AUTO = 0,             /* $YOKE_MPI_MODE, else each trainer measures what there is */
    YOKE_MPI_BLOCKING = 1,         /* MPI_Allreduce, on a thread of its own where MPI allows it */
    YOKE_MPI_NONBLOCKING = 2,      /* MPI_Iallreduce, polled with sleeps */
    YOKE_MPI_REDUCE_BROADCAST = 3, /* MPI_Reduce and MPI_Bcast: same bits by construction */
    YOKE_MPI_SHARED = 4 /* within a host in shared memory, then one rank of each host as above */
} yoke_mpi_mode;

typedef struct yoke_mpi_options {
    /* Seconds that ranks may wait for another before the log says so, and before every call fails;
     * 0: $YOKE_MPI_WARN, else 60, and $YOKE_MPI_TIMEOUT, else 300; -1: never. */
    double warn_seconds, error_seconds;
    yoke_mpi_mode mode;
    uint64_t chunk_bytes; /* the most one MPI call is given; 0: $YOKE_MPI_CHUNK, else 1 GiB */
    bool allow_single;    /* several tasks launched, each an MPI world of one, are what is meant */
} yoke_mpi_options;

/* Duplicates `mpi`; all its processes call it. MPI must have been initialised with
 * MPI_THREAD_FUNNELED or more, best MPI_THREAD_MULTIPLE. Destroy before MPI_Finalize. Waits. */
YOKE_API yoke_status yoke_mpi_comm_create_sized(MPI_Comm mpi, const yoke_mpi_options *options,
                                                size_t size, yoke_comm **comm);
static inline yoke_status
yoke_mpi_comm_create(MPI_Comm mpi, yoke_comm **comm)
{
    return yoke_mpi_comm_create_sized(mpi, NULL, 0, comm);
}
static inline yoke_status
yoke_mpi_comm_create_with(MPI_Comm mpi, const yoke_mpi_options *options, yoke_comm **comm)
{
    return yoke_mpi_comm_create_sized(mpi, options, sizeof(yoke_mpi_options), comm);
}

#ifdef __cplusplus
}
#endif

#endif
