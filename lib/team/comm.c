/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - what the library itself has to do with a table of communication.
 *
 * Idea: a yoke_comm is made and filled in by a transport (libyoke-mpi, or the application), which
 * knows how to take it down again. Nothing here communicates.
 */
#include "replica/updater.h"

void
yoke_comm_destroy(yoke_comm *comm)
{
    if (comm && comm->destroy)
        comm->destroy(comm);
}
