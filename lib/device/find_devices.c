/* SPDX-License-Identifier: Apache-2.0
 *
 * find_devices.c - makes a context: finds the devices of every OpenCL platform.
 *
 * A platform that is broken or empty, or a device that cannot be used, becomes a
 * problem of the context: it is logged, and the application can read it. Only having
 * no device at all is an error. Nothing is compiled here and no OpenCL object is made,
 * so listing is quick.
 */
#include <stdio.h>
#include <string.h>

#include "device/internal.h"

/* What to install when there is no driver. */
#define INSTALL                                                                                    \
    "install a driver, such as PoCL, which runs on every CPU (Debian, Ubuntu: apt install "        \
    "pocl-opencl-icd; Fedora: dnf install pocl; Arch: pacman -S pocl), or that of your GPU"

/* Logs the sentence and keeps it. Takes ownership of it; NULL means that memory ran out. */
static yoke_status
add_problem(yoke_context *context, yoke_log_level level, char *problem)
{
    void *problems = context->problems;
    yoke_status status;

    if (!problem)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_grow(&problems, &context->problem_capacity, context->problem_count + 1,
                      sizeof *context->problems, "the list of problems");
    context->problems = problems;
    if (status != YOKE_OK) {
        yki_free(problem);
        return status;
    }
    context->problems[context->problem_count++] = problem;
    yki_log(level, "%s", problem);
    return YOKE_OK;
}

static char *
platform_name(cl_platform_id platform)
{
    size_t size = 0;
    char *name;

    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, &size) != CL_SUCCESS)
        size = 0;
    name = yki_alloc(size + 1, 1, "a platform's name");
    if (name && size &&
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, size, name, NULL) != CL_SUCCESS)
        name[0] = '\0';
    if (name && !name[0]) {
        yki_free(name);
        name = yki_strdup("unnamed platform", "a platform's name");
    }
    return name;
}

/* Two ICD files of the loader may name the same driver library. */
static bool
is_known(const yoke_context *context, cl_device_id id)
{
    for (size_t i = 0; i < context->root_count; i++)
        if (context->roots[i].id == id)
            return true;
    return false;
}

static yoke_status
add_device(yoke_context *context, cl_platform_id platform, const char *name, cl_device_id id)
{
    void *roots = context->roots;
    yki_root *root;
    yoke_status status;

    if (is_known(context, id))
        return YOKE_OK;
    YKI_TRY(yki_grow(&roots, &context->root_capacity, context->root_count + 1,
                     sizeof *context->roots, "the list of devices"));
    context->roots = roots;
    root = &context->roots[context->root_count];
    memset(root, 0, sizeof *root);
    root->context = context;
    root->found = context->root_count;
    status = yki_root_query(platform, name, id, root);
    if (status == YOKE_ERROR_NO_DEVICE)
        return add_problem(context, YOKE_LOG_WARNING,
                           yki_format("platform %s: %s", name, yoke_last_error()));
    if (status == YOKE_OK)
        context->root_count++;
    return status;
}

static yoke_status
add_devices(yoke_context *context, cl_platform_id platform, const char *name)
{
    cl_uint count = 0;
    cl_device_id *ids;
    cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    yoke_status status = YOKE_OK;

    /* A driver without its hardware is common and no fault. */
    if (error == CL_DEVICE_NOT_FOUND || (error == CL_SUCCESS && !count))
        return add_problem(context, YOKE_LOG_INFO,
                           yki_format("platform %s has no device%s", name,
                                      strcmp(name, "rusticl") == 0
                                          ? " (RUSTICL_ENABLE lists the drivers it may use)"
                                          : ""));
    if (error != CL_SUCCESS)
        return add_problem(context, YOKE_LOG_WARNING,
                           yki_format("platform %s does not list its devices: "
                                      "clGetDeviceIDs says %s (%d)",
                                      name, yki_cl_error_name(error), (int)error));
    ids = yki_alloc(count, sizeof *ids, "a platform's devices");
    if (!ids)
        return YOKE_ERROR_OUT_OF_MEMORY;
    error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL);
    if (error != CL_SUCCESS)
        status = add_problem(context, YOKE_LOG_WARNING,
                             yki_format("platform %s does not list its devices: "
                                        "clGetDeviceIDs says %s (%d)",
                                        name, yki_cl_error_name(error), (int)error));
    for (cl_uint i = 0; error == CL_SUCCESS && status == YOKE_OK && i < count; i++)
        status = add_device(context, platform, name, ids[i]);
    yki_free(ids);
    return status;
}

static yoke_status
find_platforms(cl_platform_id **platforms, cl_uint *count)
{
    enum { PLATFORM_NOT_FOUND = -1001 };
    cl_uint found = 0;
    cl_int error = clGetPlatformIDs(0, NULL, &found);
    cl_platform_id *list;

    if (error == PLATFORM_NOT_FOUND || (error == CL_SUCCESS && !found))
        return yki_fail(YOKE_ERROR_NO_OPENCL, "no OpenCL platform was found: " INSTALL);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clGetPlatformIDs", NULL, "looking for OpenCL platforms");
    list = yki_alloc(found, sizeof *list, "the list of platforms");
    if (!list)
        return YOKE_ERROR_OUT_OF_MEMORY;
    error = clGetPlatformIDs(found, list, NULL);
    if (error != CL_SUCCESS) {
        yki_free(list);
        return yki_cl_fail(error, "clGetPlatformIDs", NULL, "looking for OpenCL platforms");
    }
    *platforms = list;
    *count = found;
    return YOKE_OK;
}

static yoke_status
no_device(const yoke_context *context)
{
    return yki_fail(YOKE_ERROR_NO_DEVICE,
                    "no OpenCL platform has a device that can be used "
                    "(%s%s): " INSTALL,
                    context->problem_count ? context->problems[0] : "",
                    context->problem_count > 1 ? ", and more" : "");
}

static yoke_status
find_devices(yoke_context *context)
{
    cl_platform_id *platforms = NULL;
    cl_uint count = 0;
    yoke_status status;

    YKI_TRY(find_platforms(&platforms, &count));
    status = YOKE_OK;
    for (cl_uint i = 0; status == YOKE_OK && i < count; i++) {
        char *name = platform_name(platforms[i]);

        status = name ? add_devices(context, platforms[i], name) : YOKE_ERROR_OUT_OF_MEMORY;
        yki_free(name);
    }
    yki_free(platforms);
    YKI_TRY(status);
    if (!context->root_count)
        return no_device(context);
    yki_roots_order(context->roots, context->root_count);
    YKI_TRY(yki_context_hide(context));
    context->tried = yki_alloc(context->root_count, context->root_count, "the list of devices");
    if (!context->tried)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < context->root_count; i++)
        YKI_TRY(yki_space_create_lent(&context->roots[i]));
    return YOKE_OK;
}

yoke_status
yoke_context_create_sized(const yoke_context_options *given, size_t size, yoke_context **context)
{
    yoke_context_options options = {0};
    yoke_context *result;
    yoke_status status;

    if (!context)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_context_create: context is NULL");
    if (given)
        memcpy(&options, given, YKI_MIN(size, sizeof options));
    result = yki_alloc(1, sizeof *result, "a context");
    if (!result)
        return YOKE_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&result->lock, NULL);
    pthread_mutex_init(&result->probe_lock, NULL);
    atomic_init(&result->references, 1);
    status = yki_cache_choose(options.cache_dir, options.no_cache, &result->cache_dir);
    if (status == YOKE_OK)
        status = find_devices(result);
    if (status != YOKE_OK) {
        yki_context_release(result);
        return status;
    }
    *context = result;
    return YOKE_OK;
}
