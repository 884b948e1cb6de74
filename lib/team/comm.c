/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - keeps a yoke_comm alive, and takes memory from it.
 *
 * Idea: a transport (libyoke-mpi, or the application) makes a yoke_comm, a table of functions, and
 * knows how to free it. The table begins as zeros, so `holders` counts the teams that hold it
 * beside the maker: who gives it back when it is 0 is the last. Nothing here communicates.
 */
#include "team/team.h"

yoke_comm *
yki_comm_retain(yoke_comm *comm)
{
    if (comm)
        __atomic_fetch_add(&comm->holders, 1, __ATOMIC_RELAXED);
    return comm;
}

void
yoke_comm_destroy(yoke_comm *comm)
{
    if (comm && __atomic_fetch_sub(&comm->holders, 1, __ATOMIC_ACQ_REL) == 0 && comm->destroy)
        comm->destroy(comm);
}

void *
yki_comm_alloc(yoke_comm *comm, size_t bytes, size_t algorithm, const char *what)
{
    void *memory;

    if (!comm || !comm->alloc)
        return yki_alloc_aligned(4096, bytes, what);
    memory = comm->alloc(comm, bytes, algorithm);
    if (!memory)
        yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for %s (%zu bytes)", what, bytes);
    return memory;
}

void
yki_comm_release(yoke_comm *comm, void *memory)
{
    if (!memory)
        return;
    if (!comm || !comm->alloc)
        yki_free_aligned(memory);
    else if (comm->release)
        comm->release(comm, memory);
}
