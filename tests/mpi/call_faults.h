/* SPDX-License-Identifier: Apache-2.0
 *
 * call_faults.h - lets a call of the transport fail, or the device while such a call is under way.
 */
#ifndef TESTS_MPI_CALL_FAULTS_H
#define TESTS_MPI_CALL_FAULTS_H

#include <dlfcn.h>

#include <yoke-mpi.h>

#include "faults/layer.h"
#include "strike.h"

static struct {
    const fault_layer *layer;
    bool call; /* the transport fails; else the device */
    int left;  /* gathers or messages before that */
    yoke_status (*gather)(yoke_comm *, int32_t, const void *, void *, const size_t *, void **);
    yoke_status (*send)(yoke_comm *, const void *, size_t, int32_t, int32_t, void **);
} fault;

/* Before OpenCL is touched. */
static void
open_layer(void)
{
    const char *path = getenv("FAULT_LAYER");
    void *module = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = module ? dlsym(module, FAULT_LAYER_SYMBOL) : NULL;
    const fault_layer *(*get)(void);

    if (!symbol)
        return;
    memcpy(&get, &symbol, sizeof get);
    setenv("OPENCL_LAYERS", path, 1);
    fault.layer = get();
}

/* The gather itself is under way when the device is lost. */
static yoke_status
gather_with_fault(yoke_comm *table, int32_t type, const void *in, void *out, const size_t *counts,
                  void **request)
{
    const bool now = fault.left-- == 0;
    yoke_status status;

    if (now)
        note_time("");
    if (now && fault.call)
        return yoke_fail(YOKE_ERROR_COMM, "the cable is cut");
    status = fault.gather(table, type, in, out, counts, request);
    if (now)
        fault.layer->arm(1, -5, true); /* CL_OUT_OF_RESOURCES */
    return status;
}

static yoke_status
send_with_fault(yoke_comm *table, const void *data, size_t bytes, int32_t peer, int32_t tag,
                void **request)
{
    if (fault.left-- == 0) {
        note_time("");
        if (fault.call)
            return yoke_fail(YOKE_ERROR_COMM, "the cable is cut");
        fault.layer->arm(1, -5, true);
    }
    return fault.send(table, data, bytes, peer, tag, request);
}

static void
prepare_fault(yoke_comm *comm, const char *what)
{
    fault.call = strcmp(what, "call") == 0;
    fault.left = 2;
    if (!fault.call && !(fault.layer && fault.layer->active())) {
        fprintf(stderr, "train: there is no fault layer\n");
        MPI_Abort(MPI_COMM_WORLD, 13);
    }
    fault.gather = comm->allgather_start;
    comm->allgather_start = gather_with_fault;
    fault.send = comm->send_start;
    comm->send_start = send_with_fault;
    fault.left = getenv("STAGES") ? 0 : fault.left;
}

#endif
