/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c - gates: events that the host completes.
 *
 * With them a thread of the host does something in the midst of a device's work, while the one
 * that enqueues goes on. OpenCL calls a gate a user event. Not all drivers have them without bugs:
 * traits.gates tells. Some hold the thread that enqueues a command, or other queues, until the gate
 * opens. Whoever opens it after that would wait for ever, so each GPU is tried before.
 *
 * A gate never fails. OpenCL promises nothing of what is in a queue behind a command that has
 * failed, and PoCL (3.1) aborts where such a command has no event.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "device/internal.h"
#include "device/runtime.h"

yoke_status
yki_gate_create(yoke_device *device, yki_event *gate)
{
    cl_int error;
    cl_event cl = clCreateUserEvent(device->space->cl, &error);

    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clCreateUserEvent", device, "making a gate");
    *gate = (yki_event){cl, NULL, 0};
    return YOKE_OK;
}

/* Behind a gate that stays shut the device would wait for ever. */
static void
open_gate(cl_event gate)
{
    enum { TRIES = 3 };

    for (int i = 0; i < TRIES; i++)
        if (clSetUserEventStatus(gate, CL_COMPLETE) == CL_SUCCESS)
            return;
    yki_log(YOKE_LOG_ERROR, "the driver does not complete an event of the host "
                            "(clSetUserEventStatus); what waits for it may wait for ever");
}

void
yki_gate_open(const yki_event *gate)
{
    open_gate(gate->cl);
}

/* ---- a trial ---- */

/* What a thread opens later, to hold nobody for ever. */
typedef struct trial {
    cl_event gate;
    useconds_t delay;
    atomic_bool opened;
} trial;

static void
open_later(void *user)
{
    trial *t = user;

    usleep(t->delay);
    atomic_store(&t->opened, true);
    open_gate(t->gate);
}

/* A command behind a gate goes to one queue, and one that waits for nothing to the other. */
typedef struct trial_queues {
    cl_command_queue queue, other;
    cl_mem behind, beside;
} trial_queues;

/* Whether both calls came back, and the other queue did its work, before the gate opened. */
static bool
try_gate(cl_context cl, const trial_queues *q, useconds_t delay)
{
    static const cl_uint sent = 7; /* read after a failure, too */
    cl_uint got = 0;
    trial t = {.delay = delay};
    yki_thread *thread;
    cl_int error;
    bool passed;

    t.gate = clCreateUserEvent(cl, &error);
    if (error != CL_SUCCESS)
        return false;
    if (yki_thread_start(open_later, &t, "that tries a gate", &thread) != YOKE_OK) {
        open_gate(t.gate);
        clReleaseEvent(t.gate);
        return false;
    }
    passed = clEnqueueWriteBuffer(q->queue, q->behind, CL_FALSE, 0, sizeof sent, &sent, 1, &t.gate,
                                  NULL) == CL_SUCCESS &&
             clFlush(q->queue) == CL_SUCCESS &&
             clEnqueueReadBuffer(q->other, q->beside, CL_TRUE, 0, sizeof got, &got, 0, NULL,
                                 NULL) == CL_SUCCESS &&
             !atomic_load(&t.opened);
    yki_thread_join(thread);
    passed = clEnqueueReadBuffer(q->queue, q->behind, CL_TRUE, 0, sizeof got, &got, 0, NULL,
                                 NULL) == CL_SUCCESS &&
             got == sent && passed;
    clReleaseEvent(t.gate);
    return passed;
}

/* A busy machine may hold a thread up, so a later trial takes longer. */
static bool
try_gates(cl_context cl, const trial_queues *q)
{
    static const useconds_t delays[] = {20000, 80000, 320000};

    for (size_t i = 0; i < YKI_COUNT(delays); i++)
        if (try_gate(cl, q, delays[i]))
            return true;
    return false;
}

bool
yki_gate_probe(const yki_root *root, cl_context cl, cl_command_queue queue)
{
    cl_uint zero = 0;
    const cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    trial_queues q = {.queue = queue};
    cl_int made, behind, beside;
    bool good;

    q.other = clCreateCommandQueue(cl, root->id, 0, &made);
    q.behind = clCreateBuffer(cl, flags, sizeof zero, &zero, &behind);
    q.beside = clCreateBuffer(cl, flags, sizeof zero, &zero, &beside);
    good = made == CL_SUCCESS && behind == CL_SUCCESS && beside == CL_SUCCESS && try_gates(cl, &q);
    if (!good)
        yki_log(YOKE_LOG_INFO,
                "%s: the driver holds what does not wait for an event of the host; a thread that "
                "trains on several GPUs waits for sums of gradients",
                root->info.id);
    if (beside == CL_SUCCESS)
        clReleaseMemObject(q.beside);
    if (behind == CL_SUCCESS)
        clReleaseMemObject(q.behind);
    if (made == CL_SUCCESS)
        clReleaseCommandQueue(q.other);
    return good;
}
