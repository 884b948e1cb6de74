/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks_mpi.c - who takes part: every rank of an MPI program, its host and its devices.
 *
 *   mpicc ranks_mpi.c -o ranks_mpi $(pkg-config --cflags --libs yoke-mpi)
 *   mpirun -n 2 ./ranks_mpi
 *
 * Run it before a long training: it shows what the launcher made of its options.
 */
#include <stdio.h>
#include <string.h>

#include <yoke-mpi.h>

/* "alpha 0 of 1: cpu:0 (Intel Xeon), gpu:0 (...)" */
static yoke_status
describe(const yoke_comm *comm, char *text, size_t size)
{
    yoke_context *context = NULL;
    yoke_selection *devices = NULL;
    yoke_status status = yoke_context_create(NULL, &context);

    if (status == YOKE_OK) /* NULL: $YOKE_DEVICES, else all of them */
        status = yoke_selection_create(context, NULL, NULL, &devices);
    snprintf(text, size, "%s, %d of %d:", comm->host, (int)comm->local_rank,
             (int)comm->local_ranks);
    for (size_t i = 0; status == YOKE_OK && i < yoke_selection_count(devices); i++) {
        size_t length = strlen(text);
        yoke_device_info info;

        status = yoke_device_get_info(yoke_selection_get(devices, i), &info);
        if (status == YOKE_OK)
            snprintf(text + length, size - length, " %s (%s)", info.id, info.name);
    }
    yoke_selection_destroy(devices);
    yoke_context_destroy(context);
    return status;
}

static yoke_status
report(yoke_comm *comm)
{
    static char mine[512], all[512 * 1024];
    yoke_status status = describe(comm, mine, sizeof mine);

    if (status != YOKE_OK) {
        comm->fail(comm, yoke_last_error()); /* the others hear of it */
        return status;
    }
    if ((size_t)comm->ranks > sizeof all / sizeof mine)
        return yoke_fail(YOKE_ERROR_UNSUPPORTED, "more ranks than this example has room for");
    status = comm->allgather(comm, mine, sizeof mine, all);
    for (int r = 0; status == YOKE_OK && comm->rank == 0 && r < comm->ranks; r++)
        printf("rank %d: %s\n", r, all + (size_t)r * sizeof mine);
    return status;
}

int
main(int argc, char **argv)
{
    yoke_comm *comm = NULL;
    yoke_status status;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    status = yoke_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm);
    if (status == YOKE_OK)
        status = report(comm);
    if (status != YOKE_OK) {
        fprintf(stderr, "ranks_mpi: %s: %s\n", yoke_status_string(status), yoke_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1); /* leaving without it would leave the others waiting */
    }
    yoke_comm_destroy(comm);
    MPI_Finalize();
    return 0;
}
