/* SPDX-License-Identifier: Apache-2.0
 *
 * open_null.h - puts a test on the null driver alone.
 */
#ifndef YOKE_TESTS_GPU_OPEN_NULL_H
#define YOKE_TESTS_GPU_OPEN_NULL_H

#include "gpu/null.h"

/* Before the first call of OpenCL in a process: from now on its devices are these, such as
 * "h200 h200" (null_devices.c). Needs an open scratch folder (support/scratch.h). */
const null_driver *null_open(const char *devices);

#endif
