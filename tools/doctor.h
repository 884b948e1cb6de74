/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.h - what the checks of `yoke doctor` share: where findings go, work in a child
 * process, and the devices that one check found for the others.
 */
#ifndef YOKE_TOOLS_DOCTOR_H
#define YOKE_TOOLS_DOCTOR_H

#include "json.h"
#include "tool.h"

/* A problem stands in the way of yoke; a warning costs time, memory, or a part of the hardware. */
typedef enum yki_tool_level { DOCTOR_FINE, DOCTOR_WARNING, DOCTOR_PROBLEM } yki_tool_level;

enum { DOCTOR_DEVICES = 64 };

typedef struct yki_tool_checkup {
    FILE *stream;
    bool as_json;
    yki_tool_json json;
    const char *check;   /* the name of the one that runs */
    unsigned counts[3];  /* findings by level */
    unsigned limit;      /* seconds that a driver may take */
    unsigned drivers;    /* that load */
    size_t device_count; /* of those that compute */
    yoke_device_info devices[DOCTOR_DEVICES];
} yki_tool_checkup;

/* Writes what was found and, unless all is fine, one sentence that says what to do. */
void yki_tool_doctor_add(yki_tool_checkup *doctor, yki_tool_level level, const char *advice,
                         const char *format, ...) TOOL_PRINTF(4, 5);

enum { DOCTOR_ADVICE = 512 };
#define DOCTOR_INSTALL                                                                             \
    "install a driver, such as PoCL, which runs on every CPU (Debian, Ubuntu: apt install "        \
    "pocl-opencl-icd; Fedora: dnf install pocl; Arch: pacman -S pocl), or that of your GPU"
/* Writes `what` and the packages of the driver that a library or a platform of this name belongs
 * to; if they are not known, `otherwise`. */
void yki_tool_doctor_packages(const char *what, const char *name, const char *otherwise,
                              char advice[DOCTOR_ADVICE]);

/* ---- doctor_apart.c ---- */

enum { DOCTOR_WHY = 512 };
/* Makes memory, filled with zeros, that this process and a child see both. NULL: there is none,
 * which it reports. */
void *yki_tool_doctor_share(yki_tool_checkup *doctor, size_t size);
void yki_tool_doctor_forget(void *shared, size_t size);
/* Runs `work` in a child process, so that what crashes or hangs there ends the child alone. Returns
 * false if the child did not end in order within `seconds`; `why` then completes a sentence: "was
 * ended by signal 11 (Segmentation fault)". */
bool yki_tool_doctor_apart(unsigned seconds, void (*work)(void *shared), void *shared,
                           char why[DOCTOR_WHY]);

/* ---- the checks ---- */

/* doctor_drivers.c */
void yki_tool_doctor_drivers(yki_tool_checkup *doctor);
/* doctor_devices.c */
void yki_tool_doctor_devices(yki_tool_checkup *doctor);
/* doctor_host.c; `root` is put before /dev, /proc and /sys; it is "" except in tests. */
void yki_tool_doctor_nodes(yki_tool_checkup *doctor, const char *root);
void yki_tool_doctor_cores(yki_tool_checkup *doctor, const char *root);
void yki_tool_doctor_memory(yki_tool_checkup *doctor, const char *root);
void yki_tool_doctor_cache(yki_tool_checkup *doctor);
/* doctor_mpi.c */
void yki_tool_doctor_mpi(yki_tool_checkup *doctor);

#endif
