/* SPDX-License-Identifier: Apache-2.0
 *
 * programs.h - for tests of programs: the devices at hand with a cache of their own, and a kernel
 * to be run.
 */
#ifndef YKI_TEST_PROGRAMS_H
#define YKI_TEST_PROGRAMS_H

#include "device/internal.h"
#include "support/support.h"

/* A kernel told apart by its number; the tests run it to see whose it is. */
#define NUMBER_SOURCE                                                                              \
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void number(__global int *out)\n"     \
    "{\n"                                                                                          \
    "    out[0] = NUMBER;\n"                                                                       \
    "}\n"

extern yoke_context *context;
extern yoke_selection *selection;

/* Opens context and selection, with a cache in this folder of the scratch folder, or in "cache". */
void open_cached(const char *cache, const char *selector);
void open_devices(const char *selector);
void close_devices(void);
/* Where binaries seem cheap, each program leaves one. */
void make_cheap(void);
/* Fixtures: the devices of the tests, with an empty cache, where binaries seem cheap. */
void set_up_cheap(void);
void tear_down(void);

yoke_device *first_device(void);
const yki_root *first_root(void);
/* Runs a kernel that writes one int. */
int run_program(size_t device, yki_program *program, const char *name);

#endif
