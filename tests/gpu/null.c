/* SPDX-License-Identifier: Apache-2.0
 *
 * null.c - the null driver, as the loader of OpenCL drivers finds it: its table of functions.
 *
 * It is an OpenCL 1.2 driver with what yoke and CLBlast call. A function that it lacks is a null
 * entry of the table.
 */
#include "gpu/null_internal.h"

#define EXPORT __attribute__((visibility("default")))

cl_icd_dispatch null_table;
struct _cl_platform_id null_platform = {&null_table};

EXPORT cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *ids, cl_uint *count);
cl_int CL_API_CALL
clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *ids, cl_uint *count)
{
    if (!null_table.clGetPlatformIDs) {
        null_fill_devices(&null_table);
        null_fill_objects(&null_table);
        null_fill_programs(&null_table);
        null_fill_queues(&null_table);
        null_table.clGetPlatformIDs = clIcdGetPlatformIDsKHR;
    }
    if (count)
        *count = 1;
    if (ids && n)
        ids[0] = &null_platform;
    return CL_SUCCESS;
}

/* The loader asks for the two functions that it needs before it has a platform. */
EXPORT void *CL_API_CALL clGetExtensionFunctionAddress(const char *name);
void *CL_API_CALL
clGetExtensionFunctionAddress(const char *name)
{
    cl_int(CL_API_CALL * platforms)(cl_uint, cl_platform_id *, cl_uint *) = clIcdGetPlatformIDsKHR;
    cl_int(CL_API_CALL * info)(cl_platform_id, cl_platform_info, size_t, void *, size_t *) =
        null_platform_info;
    void *address = NULL;

    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        memcpy(&address, &platforms, sizeof address);
    if (strcmp(name, "clGetPlatformInfo") == 0)
        memcpy(&address, &info, sizeof address);
    return address;
}
