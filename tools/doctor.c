/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.c - `yoke doctor`: looks at all that yoke needs of this machine, and says
 * what to do where something is missing.
 *
 * Each check is a row of a table below. It reports findings as it goes, so what a slow
 * one finds is seen at once. What drivers do runs in child processes with a time limit
 * (doctor_apart.c), because drivers crash and hang. This process itself never calls
 * OpenCL or MPI.
 *
 * Not here: how fast the devices are (yoke bench), and whether they compute the same
 * (yoke verify).
 */
#include <stdarg.h>

#include "doctor.h"
#include "options.h"
#include "table.h"

enum { MOST_SECONDS = 3600, USUAL_SECONDS = 60, TEXT = 2048 };

typedef struct request {
    bool json;
    unsigned limit;
} request;

static const yki_tool_option options[] = {
    TOOL_ROW_JSON(request),
    {"limit", 'l', "SECONDS", "how long a driver or a device may take (default: 60)",
     TOOL_COUNT(request, limit, 1, MOST_SECONDS)},
    {0},
};

/* ---- the checks ---- */

static void
nodes(yki_tool_checkup *doctor)
{
    yki_tool_doctor_nodes(doctor, "");
}

static void
cores(yki_tool_checkup *doctor)
{
    yki_tool_doctor_cores(doctor, "");
}

static void
memory(yki_tool_checkup *doctor)
{
    yki_tool_doctor_memory(doctor, "");
}

/* In the order in which they run: cores and memory are compared with what the devices claim. */
static const struct {
    const char *name;
    void (*run)(yki_tool_checkup *doctor);
} checks[] = {
    {"drivers", yki_tool_doctor_drivers},
    {"nodes", nodes},
    {"devices", yki_tool_doctor_devices},
    {"cores", cores},
    {"memory", memory},
    {"cache", yki_tool_doctor_cache},
    {"mpi", yki_tool_doctor_mpi},
};

/* ---- findings ---- */

static const char *const levels[] = {"ok", "warning", "problem"};

void
yki_tool_doctor_add(yki_tool_checkup *doctor, yki_tool_level level, const char *advice,
                    const char *format, ...)
{
    char found[TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(found, sizeof found, format, args);
    va_end(args);
    doctor->counts[level]++;
    if (doctor->as_json) {
        yki_tool_json_open_object(&doctor->json, NULL);
        yki_tool_json_string(&doctor->json, "check", doctor->check);
        yki_tool_json_string(&doctor->json, "level", levels[level]);
        yki_tool_json_string(&doctor->json, "found", found);
        yki_tool_json_string(&doctor->json, "advice", advice);
        yki_tool_json_close_object(&doctor->json);
        return;
    }
    fprintf(doctor->stream, "%-9s%-9s", levels[level], doctor->check);
    yki_tool_print_clean(found, doctor->stream);
    if (advice) {
        fprintf(doctor->stream, "\n%18s", "");
        yki_tool_print_clean(advice, doctor->stream);
    }
    fputc('\n', doctor->stream);
    fflush(doctor->stream);
}

static void
begin(yki_tool_checkup *doctor)
{
    if (!doctor->as_json)
        return;
    yki_tool_json_start(&doctor->json, doctor->stream);
    yki_tool_json_open_object(&doctor->json, NULL);
    yki_tool_json_string(&doctor->json, "version", yoke_version());
    yki_tool_json_open_array(&doctor->json, "findings");
}

static void
end(yki_tool_checkup *doctor)
{
    unsigned warnings = doctor->counts[DOCTOR_WARNING], problems = doctor->counts[DOCTOR_PROBLEM];

    if (doctor->as_json) {
        yki_tool_json_close_array(&doctor->json);
        yki_tool_json_integer(&doctor->json, "warnings", warnings);
        yki_tool_json_integer(&doctor->json, "problems", problems);
        yki_tool_json_close_object(&doctor->json);
        yki_tool_json_end(&doctor->json);
    } else {
        fprintf(doctor->stream, "\n%u problem%s, %u warning%s\n", problems,
                problems == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
    }
}

/* ---- the command ---- */

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.limit = USUAL_SECONDS};
    yki_tool_checkup doctor = {.stream = stdout};
    int status = yki_tool_read(self, argc, argv, &wanted);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, NULL, NULL, NULL);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    doctor.as_json = wanted.json;
    doctor.limit = wanted.limit;
    begin(&doctor);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        doctor.check = checks[i].name;
        checks[i].run(&doctor);
    }
    end(&doctor);
    return doctor.counts[DOCTOR_PROBLEM] ? TOOL_FAILURE : TOOL_OK;
}

const yki_tool_command yki_tool_doctor = {
    .name = "yoke doctor",
    .synopsis = "[OPTION]...",
    .summary = "look for what is wrong with this machine, and say what to do",
    .description =
        "Check OpenCL drivers, device nodes, devices (each compiles and runs a kernel), cores,\n"
        "memory, the cache of kernels, and MPI. Each finding is ok, a warning or a problem; a\n"
        "sentence says what to do. The exit status is 1 if there is a problem.",
    .options = options,
    .run = run,
    .example = "yoke doctor --limit=300",
};
