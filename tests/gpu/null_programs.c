/* SPDX-License-Identifier: Apache-2.0
 *
 * null_programs.c - programs and kernels of the null driver.
 *
 * Building runs the C preprocessor, with the options of the build, so a source that says #error
 * does not build, and names that macros make are found. Of a kernel it takes the number of its
 * parameters and the size of its groups. CC names the compiler.
 *
 * YOKE_NULL_DUMP=FOLDER keeps what a compiler would get: FOLDER/<number>.cl is the source, behind a
 * comment with the options. The log names a kernel's program by that number.
 */
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/null_internal.h"

static cl_program CL_API_CALL
create_program(cl_context context, cl_uint n, const char **texts, const size_t *lengths,
               cl_int *error)
{
    static atomic_int made;
    cl_program program = calloc(1, sizeof *program);
    size_t size = 1;

    for (cl_uint i = 0; i < n; i++)
        size += lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
    if (program)
        program->source = calloc(1, size);
    if (!program || !program->source) {
        free(program);
        *error = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    for (cl_uint i = 0; i < n; i++)
        strncat(program->source, texts[i], lengths && lengths[i] ? lengths[i] : strlen(texts[i]));
    program->table = &null_table;
    program->references = 1;
    program->number = ++made;
    program->context = context;
    *error = CL_SUCCESS;
    return program;
}

/* It gives no binaries, so it takes none. */
static cl_program CL_API_CALL
create_from_binary(cl_context context, cl_uint n, const cl_device_id *devices,
                   const size_t *lengths, const unsigned char **binaries, cl_int *status,
                   cl_int *error)
{
    (void)context, (void)n, (void)devices, (void)lengths, (void)binaries, (void)status;
    *error = CL_INVALID_BINARY;
    return NULL;
}

/* Appends the options that the preprocessor knows, in quotes for a shell. */
static void
add_options(char *command, size_t size, const char *options)
{
    size_t used = strlen(command), length;

    for (; *(options += strspn(options, " ")); options += length) {
        length = strcspn(options, " ");
        if (strncmp(options, "-D", 2) == 0 || strncmp(options, "-U", 2) == 0)
            used += (size_t)snprintf(command + used, size - used, " '%.*s'", (int)length, options);
        if (used >= size)
            abort();
    }
}

/* Appends the macros of a device: its extensions and what OpenCL C defines. */
static void
add_device(char *command, size_t size, cl_device_id device)
{
    size_t used = strlen(command), length;

    used +=
        (size_t)snprintf(command + used, size - used,
                         " -D__OPENCL_VERSION__=120 -D__OPENCL_C_VERSION__=120 "
                         "-D__ENDIAN_LITTLE__=1%s",
                         strstr(device->model->vendor, "NVIDIA") ? " -D__NV_CL_C_VERSION=120" : "");
    for (const char *e = device->model->extensions; *(e += strspn(e, " ")) && used < size;
         e += length) {
        length = strcspn(e, " ");
        used += (size_t)snprintf(command + used, size - used, " -D%.*s=1", (int)length, e);
    }
    if (used >= size)
        abort();
}

static char *
read_all(FILE *file)
{
    char *text = NULL;
    size_t used = 0, size = 0, got;

    do {
        if (size - used < 2)
            text = realloc(text, size = size ? 2 * size : 1 << 16);
        if (!text)
            abort();
        got = fread(text + used, 1, size - used - 1, file);
        used += got;
    } while (got);
    text[used] = '\0';
    return text;
}

/* Keeps the source if that is wanted. */
static bool
dump(cl_program program, const char *options)
{
    const char *folder = getenv("YOKE_NULL_DUMP");
    char path[4096];
    FILE *file;

    if (!folder || !*folder)
        return true;
    snprintf(path, sizeof path, "%s/%d.cl", folder, program->number);
    file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file, "// %s\n%s", options, program->source);
    return fclose(file) == 0;
}

static cl_int CL_API_CALL
build_program(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
              void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    const char *compiler = getenv("CC");
    char command[8192], path[] = "/tmp/yoke-null-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool is_faulty = null_injected.builds > 0 && null_injected.builds-- > 0;

    (void)notify, (void)user;
    program->device = n ? devices[0] : program->context->devices[0];
    if (!file)
        return CL_OUT_OF_HOST_MEMORY;
    if (!dump(program, options ? options : "")) {
        fclose(file);
        return CL_OUT_OF_HOST_MEMORY;
    }
    fputs(program->source, file);
    fclose(file);
    snprintf(command, sizeof command, "%s -E -P -x c -undef",
             compiler && *compiler ? compiler : "cc");
    add_device(command, sizeof command, program->device);
    add_options(command, sizeof command, options ? options : "");
    snprintf(command + strlen(command), sizeof command - strlen(command), " %s 2>/dev/null", path);
    file = popen(command, "r");
    free(program->text);
    program->text = file ? read_all(file) : NULL;
    n = file && pclose(file) == 0;
    unlink(path);
    return n && !is_faulty ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

static cl_int CL_API_CALL
retain_program(cl_program program)
{
    program->references++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
release_program(cl_program program)
{
    if (!NULL_LAST(program))
        return CL_SUCCESS;
    free(program->source);
    free(program->text);
    free(program);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
get_program_info(cl_program program, cl_program_info what, size_t size, void *value, size_t *wrote)
{
    static const size_t none[NULL_MOST_DEVICES];

    switch (what) {
    case CL_PROGRAM_NUM_DEVICES:
        NULL_SAY(cl_uint, program->context->count);
    case CL_PROGRAM_NUM_KERNELS:
        NULL_SAY(size_t, 1);
    case CL_PROGRAM_BINARY_SIZES:
        return null_answer(none, program->context->count * sizeof none[0], size, value, wrote);
    case CL_PROGRAM_BINARIES: /* CLBlast asks for them even so: nothing is written */
        return CL_SUCCESS;
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
get_build_info(cl_program program, cl_device_id device, cl_program_build_info what, size_t size,
               void *value, size_t *wrote)
{
    (void)program, (void)device;
    if (what != CL_PROGRAM_BUILD_LOG)
        return CL_INVALID_VALUE;
    NULL_SAY_TEXT("");
}

/* ---- kernels ---- */

static bool
is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Finds the definition `name(` of a kernel, behind "__kernel", and gives where that begins and
 * where the parameters do. */
static bool
find_kernel(const char *text, const char *name, const char **begin, const char **parameters)
{
    size_t length = strlen(name);

    for (const char *k = text; (k = strstr(k, "__kernel")) != NULL; k++) {
        const char *end = strchr(k, '{'), *at = k;

        while (end && (at = strstr(at, name)) != NULL && at < end) {
            const char *after = at + length;

            after += strspn(after, " \n\t");
            if (!is_word(at[-1]) && *after == '(') {
                *begin = k;
                *parameters = after + 1;
                return true;
            }
            at++;
        }
    }
    return false;
}

/* Commas outside of parentheses, and one more. */
static cl_uint
count_parameters(const char *at)
{
    cl_uint count = 1;

    for (int depth = 0; *at && (depth > 0 || *at != ')'); at++) {
        depth += (*at == '(') - (*at == ')');
        count += *at == ',' && depth == 0;
    }
    return count;
}

static cl_kernel CL_API_CALL
create_kernel(cl_program program, const char *name, cl_int *error)
{
    cl_kernel kernel;
    const char *begin, *parameters, *group;

    if (!program->text || !find_kernel(program->text, name, &begin, &parameters)) {
        *error = CL_INVALID_KERNEL_NAME;
        return NULL;
    }
    kernel = calloc(1, sizeof *kernel);
    if (!kernel) {
        *error = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    kernel->table = &null_table;
    kernel->references = 1;
    kernel->program = program;
    program->references++;
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->count = count_parameters(parameters);
    group = strstr(begin, "reqd_work_group_size");
    if (group && group < parameters)
        sscanf(group, "reqd_work_group_size ( %zu , %zu , %zu", &kernel->required[0],
               &kernel->required[1], &kernel->required[2]);
    *error = CL_SUCCESS;
    return kernel;
}

static cl_int CL_API_CALL
retain_kernel(cl_kernel kernel)
{
    kernel->references++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
release_kernel(cl_kernel kernel)
{
    if (!NULL_LAST(kernel))
        return CL_SUCCESS;
    release_program(kernel->program);
    free(kernel);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
get_kernel_info(cl_kernel kernel, cl_kernel_info what, size_t size, void *value, size_t *wrote)
{
    switch (what) {
    case CL_KERNEL_NUM_ARGS:
        NULL_SAY(cl_uint, kernel->count);
    case CL_KERNEL_FUNCTION_NAME:
        NULL_SAY_TEXT(kernel->name);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
get_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t size,
               void *value, size_t *wrote)
{
    const null_model *model = (device ? device : kernel->program->device)->model;

    switch (what) {
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return null_answer(kernel->required, sizeof kernel->required, size, value, wrote);
    case CL_KERNEL_WORK_GROUP_SIZE:
        NULL_SAY(size_t, null_fails(null_injected.narrow, kernel->name) ? null_injected.narrow_group
                                                                        : model->group);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        NULL_SAY(size_t, null_injected.multiple ? null_injected.multiple : 32);
    case CL_KERNEL_LOCAL_MEM_SIZE:
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        NULL_SAY(cl_ulong, 0);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (index >= kernel->count || index >= NULL_MOST_ARGUMENTS)
        return CL_INVALID_ARG_INDEX;
    null_count_argument();
    kernel->argument[index].size = size;
    memset(kernel->argument[index].value, 0, sizeof kernel->argument[index].value);
    if (value)
        memcpy(kernel->argument[index].value, value,
               size < sizeof kernel->argument[index].value ? size
                                                           : sizeof kernel->argument[index].value);
    return CL_SUCCESS;
}

void
null_fill_programs(cl_icd_dispatch *table)
{
    table->clCreateProgramWithSource = create_program;
    table->clCreateProgramWithBinary = create_from_binary;
    table->clBuildProgram = build_program;
    table->clRetainProgram = retain_program;
    table->clReleaseProgram = release_program;
    table->clGetProgramInfo = get_program_info;
    table->clGetProgramBuildInfo = get_build_info;
    table->clCreateKernel = create_kernel;
    table->clRetainKernel = retain_kernel;
    table->clReleaseKernel = release_kernel;
    table->clGetKernelInfo = get_kernel_info;
    table->clGetKernelWorkGroupInfo = get_group_info;
    table->clSetKernelArg = set_argument;
}
