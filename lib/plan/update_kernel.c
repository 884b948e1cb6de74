/* SPDX-License-Identifier: Apache-2.0
 *
 * update_kernel.c - kernels of update.cl for a plan: what runs once at the end of a section or a
 * step.
 */
#include <stdio.h>

#include "op/flat.h"
#include "plan/plan.h"

yoke_status
yki_plan_update_kernel(yoke_device *device, const char *name, yki_kernel **kernel)
{
    yki_flat flat = yki_flat_for(yki_device_get_traits(device));
    char options[128];

    snprintf(options, sizeof options, "-DVEC=%u -DWG=%u", flat.vector, flat.group);
    return yki_kernel_get(device, "update.cl", options, name, kernel);
}

uint32_t
yki_plan_update_group(const yoke_device *device)
{
    return yki_flat_for(yki_device_get_traits(device)).group;
}
