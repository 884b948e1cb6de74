/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c - gates: events that the host completes.
 *
 * With them a thread of the host does something in the midst of a device's work, while the one
 * that enqueues goes on. OpenCL calls a gate a user event. Not all drivers have them without bugs:
 * traits.gates tells.
 *
 * A gate never fails. OpenCL promises nothing of what is in a queue behind a command that has
 * failed, and PoCL (3.1) aborts where such a command has no event.
 */
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

void
yki_gate_open(const yki_event *gate)
{
    enum { TRIES = 3 };

    /* Behind a gate that stays shut the device would wait for ever. */
    for (int i = 0; i < TRIES; i++)
        if (clSetUserEventStatus(gate->cl, CL_COMPLETE) == CL_SUCCESS)
            return;
}
