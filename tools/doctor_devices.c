/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_devices.c - a check of `yoke doctor`: the devices that yoke finds, and whether
 * each compiles a kernel, runs it, and gives the right numbers.
 *
 * One child process lists them, and one tries each. The kernel of a trial has a number
 * in it that changes from run to run, and nothing is kept, so no cache of compiled
 * kernels hides that a compiler is missing.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "options.h"

static const char OTHERWISE[] =
    "update its driver, or leave the device out of YOKE_VISIBLE_DEVICES";

enum { SENTENCE = 1024, LINE = 400, LINES = 24, VALUES = 1000 };

/* ---- the packages of drivers ---- */

/* By a word in the name of the library or the platform. A platform is asked for when it cannot
 * compile, and PoCL's compiler is clang. */
static const struct {
    const char *word, *apt, *dnf, *pacman;
} packages[] = {
    {"pocl", "pocl-opencl-icd", "pocl", "pocl"},
    {"Portable Computing", "pocl-opencl-icd clang", "pocl clang", "pocl clang"},
    {"usticl", "mesa-opencl-icd", "mesa-libOpenCL", "opencl-mesa"},
    {"MesaOpenCL", "mesa-opencl-icd", "mesa-libOpenCL", "opencl-mesa"},
    {"nvidia", "nvidia-opencl-icd", "xorg-x11-drv-nvidia-cuda", "opencl-nvidia"},
    {"igdrcl", "intel-opencl-icd", "intel-compute-runtime", "intel-compute-runtime"},
};

void
yki_tool_doctor_packages(const char *what, const char *name, const char *otherwise,
                         char advice[DOCTOR_ADVICE])
{
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++) {
        if (!strstr(name, packages[i].word))
            continue;
        snprintf(advice, DOCTOR_ADVICE,
                 "%s (Debian, Ubuntu: apt install --reinstall %s; Fedora: dnf install %s; Arch: "
                 "pacman -S %s)",
                 what, packages[i].apt, packages[i].dnf, packages[i].pacman);
        return;
    }
    snprintf(advice, DOCTOR_ADVICE, "%s", otherwise);
}

/* ---- the list ---- */

/* What the child that lists devices finds. */
typedef struct listing {
    yoke_status status, selects;
    char error[SENTENCE], why_not[SENTENCE];
    unsigned count, selected;
    unsigned lines;
    bool warns[LINES];
    char line[LINES][LINE];
} listing;

/* What the library has to say of platforms and of devices that it leaves out. */
static void
take_line(void *user, yoke_log_level level, const char *line)
{
    listing *list = user;

    if (list->lines == LINES)
        return;
    list->warns[list->lines] = level <= YOKE_LOG_WARNING;
    snprintf(list->line[list->lines++], LINE, "%s", line);
}

/* In a child. Nothing is compiled, so the cache is left alone. */
static void
list_devices(void *shared)
{
    listing *list = shared;
    yoke_context *context = NULL;
    yoke_selection *selection = NULL;

    yoke_log_set(take_line, list, YOKE_LOG_INFO);
    list->status = yoke_context_create(&(yoke_context_options){.no_cache = true}, &context);
    if (list->status) {
        snprintf(list->error, sizeof list->error, "%s", yoke_last_error());
        return;
    }
    list->count = (unsigned)yoke_context_device_count(context);
    list->selects = yoke_selection_create(context, NULL, NULL, &selection);
    if (list->selects)
        snprintf(list->why_not, sizeof list->why_not, "%s", yoke_last_error());
    list->selected = (unsigned)yoke_selection_count(selection);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

static void
report_lines(yki_tool_checkup *doctor, const listing *list)
{
    for (unsigned i = 0; i < list->lines; i++) {
        const char *line = list->line[i];
        char advice[DOCTOR_ADVICE];

        if (strstr(line, "YOKE_VISIBLE_DEVICES")) {
            yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                                "unset YOKE_VISIBLE_DEVICES to use every device", "%s", line);
        } else if (strstr(line, "has no compiler")) {
            yki_tool_doctor_packages("install a build of the driver with its compiler", line,
                                     "install a build of the driver with its compiler", advice);
            yki_tool_doctor_add(doctor, DOCTOR_WARNING, advice, "%s", line);
        } else if (list->warns[i]) {
            yki_tool_doctor_add(doctor, DOCTOR_WARNING,
                                "update this driver, or remove its .icd file if you do not need it",
                                "%s", line);
        } else {
            yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "%s", line);
        }
    }
}

static void
report_selection(yki_tool_checkup *doctor, const listing *list)
{
    const char *given = getenv("YOKE_DEVICES");

    if (list->selects)
        yki_tool_doctor_add(doctor, DOCTOR_PROBLEM,
                            given && *given
                                ? "unset YOKE_DEVICES, or let it name devices that there are"
                                : "name the devices to use with --devices or YOKE_DEVICES",
                            "no devices are selected: %s", list->why_not);
    else if (given && *given)
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "YOKE_DEVICES=%s selects %u device%s", given,
                            list->selected, list->selected == 1 ? "" : "s");
}

/* ---- a trial ---- */

typedef struct trial {
    unsigned index;
    const char *stage; /* what was begun last: a constant text, at the same address in the child */
    yoke_device_info info;
    yoke_status status; /* YOKE_OK only once all was done: a driver may end the process with 0 */
    bool wrong;         /* the kernel ran and gave another number */
    char error[SENTENCE];
} trial;

/* y = x + number, where the number is another one in each run; floats hold all of them exactly. */
static yoke_status
build_graph(unsigned number, yoke_graph **graph)
{
    char source[512];
    yoke_custom_options o = {.name = "doctor", .source = source, .no_backward = true};
    yoke_status status = yoke_graph_create(graph);
    yoke_node *x;

    if (status)
        return status;
    snprintf(source, sizeof source,
             "__kernel void doctor_forward(__global const float *x, __global float *y, int n,\n"
             "                             int size_x, int size_y)\n"
             "{ for (int i = get_global_id(0); i < n * size_y; i += get_global_size(0))\n"
             "      y[i] = x[i] + %u.f; }\n",
             number);
    x = yoke_input(*graph, "x", YOKE_F32, yoke_shape(VALUES));
    yoke_graph_set_output(*graph, "y", yoke_custom(*graph, &x, 1, &o));
    return yoke_graph_status(*graph);
}

static yoke_status
compute(trial *t, yoke_replica *replica, unsigned number)
{
    float x[VALUES], y[VALUES];
    yoke_status status;

    for (int i = 0; i < VALUES; i++)
        x[i] = (float)i;
    status = yoke_replica_set_input(replica, 1, yoke_feed_f32("x", x, VALUES));
    if (!status)
        status = yoke_replica_evaluate(replica, 1);
    if (!status)
        status = yoke_replica_read_output(replica, "y", y, VALUES);
    for (int i = 0; !status && i < VALUES && !t->wrong; i++) {
        t->wrong = y[i] != x[i] + (float)number;
        if (t->wrong)
            snprintf(t->error, sizeof t->error, "%.9g + %u gave %.9g", x[i], number, y[i]);
    }
    return status;
}

static yoke_status
try_on(trial *t, yoke_device *device)
{
    unsigned number = (unsigned)(time(NULL) ^ ((long)getpid() << 8)) % 1000000 + 1;
    yoke_replica_options o = {.batch = 1, .evaluation_only = true, .level = YOKE_PLAN_ESTIMATE};
    yoke_replica *replica = NULL;
    yoke_graph *graph = NULL;
    yoke_status status = build_graph(number, &graph);

    if (!status) {
        t->stage = "compiling a kernel";
        status = yoke_replica_create(device, graph, &o, &replica);
    }
    if (!status) {
        t->stage = "running a kernel";
        status = compute(t, replica, number);
    }
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
    return status;
}

/* In a child. */
static void
try_device(void *shared)
{
    trial *t = shared;
    yoke_context *context = NULL;
    yoke_selection *selection = NULL;
    yoke_status status;

    setenv("POCL_KERNEL_CACHE", "0", 1);
    t->stage = "finding it again";
    status = yoke_context_create(&(yoke_context_options){.no_cache = true}, &context);
    if (!status) {
        t->stage = "compiling small kernels to learn what it can";
        status = yoke_device_get_info(yoke_context_get_device(context, t->index), &t->info);
    }
    if (!status)
        status = yoke_selection_create(context, t->info.id, NULL, &selection);
    if (!status)
        status = try_on(t, yoke_selection_get(selection, 0));
    if (status)
        snprintf(t->error, sizeof t->error, "%s", yoke_last_error());
    t->status = status;
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

/* What to do if a device did not compute; the platform is not known if it failed early. */
static void
write_advice(const yoke_device_info *info, char advice[DOCTOR_ADVICE])
{
    bool known = info->platform[0] != '\0';

    yki_tool_doctor_packages(
        known
            ? "install its driver again, with its compiler"
            : "install its driver again, with its compiler, which for PoCL is clang with a linker",
        known ? info->platform : "Portable Computing", OTHERWISE, advice);
}

static void
check_device(yki_tool_checkup *doctor, unsigned index, unsigned count)
{
    trial *t = yki_tool_doctor_share(doctor, sizeof *t);
    char why[DOCTOR_WHY], name[2 * DOCTOR_WHY], advice[DOCTOR_ADVICE];
    double start = yki_tool_now();
    yki_tool_level level;

    if (!t)
        return;
    t->index = index;
    t->stage = "a process for it"; /* if there can be none */
    t->status = YOKE_ERROR_DEVICE;
    if (!yki_tool_doctor_apart(doctor->limit, try_device, t, why))
        t->status = YOKE_ERROR_DEVICE;
    else
        snprintf(why, sizeof why, "failed");
    /* `all` leaves out a second driver of one chip. */
    level = strcmp(t->info.preferred, t->info.id) == 0 ? DOCTOR_PROBLEM : DOCTOR_WARNING;
    if (t->info.id[0])
        snprintf(name, sizeof name, "%s (%s, %s)", t->info.id, t->info.name, t->info.platform);
    else
        snprintf(name, sizeof name, "device %u of %u", index + 1, count);
    write_advice(&t->info, advice);
    if (t->wrong) {
        yki_tool_doctor_add(doctor, level, OTHERWISE, "%s computes wrongly: %s", name, t->error);
    } else if (t->status) {
        yki_tool_doctor_add(doctor, level, advice, "%s: %s %s%s%s", name, t->stage, why,
                            t->error[0] ? ": " : "", t->error);
    } else {
        yki_tool_doctor_add(doctor, DOCTOR_FINE, NULL, "%s compiles and computes, in %.1f s", name,
                            yki_tool_now() - start);
        if (doctor->device_count < DOCTOR_DEVICES)
            doctor->devices[doctor->device_count++] = t->info;
    }
    yki_tool_doctor_forget(t, sizeof *t);
}

void
yki_tool_doctor_devices(yki_tool_checkup *doctor)
{
    listing *list = yki_tool_doctor_share(doctor, sizeof *list);
    char why[DOCTOR_WHY];
    bool ended;

    if (!list)
        return;
    ended = yki_tool_doctor_apart(doctor->limit, list_devices, list, why);
    report_lines(doctor, list);
    if (list->status)
        yki_tool_doctor_add(doctor, DOCTOR_PROBLEM,
                            strstr(list->error, "YOKE_VISIBLE_DEVICES")
                                ? "unset YOKE_VISIBLE_DEVICES, or let it name devices that there "
                                  "are"
                                : "see to the drivers first: without one, yoke has no device",
                            "%s", list->error);
    else if (!ended && !list->count)
        yki_tool_doctor_add(doctor, DOCTOR_PROBLEM,
                            "let OCL_ICD_VENDORS name the .icd file of a driver that works",
                            "the process that listed the devices %s", why);
    else if (!ended)
        snprintf(list->why_not, sizeof list->why_not, "the process that selected them %s", why);
    if (list->count) {
        list->selects = ended ? list->selects : YOKE_ERROR_DEVICE;
        report_selection(doctor, list);
    }
    for (unsigned i = 0; i < list->count; i++)
        check_device(doctor, i, list->count);
    yki_tool_doctor_forget(list, sizeof *list);
}
