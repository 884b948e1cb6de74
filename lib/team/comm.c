/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - destroys a yoke_comm.
 *
 * Idea: a transport (libyoke-mpi, or the application) makes a yoke_comm, a table of functions, and
 * knows how to free it. Nothing here communicates.
 */
#include "replica/updater.h"

void
yoke_comm_destroy(yoke_comm *comm)
{
    if (comm && comm->destroy)
        comm->destroy(comm);
}
