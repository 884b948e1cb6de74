/* SPDX-License-Identifier: Apache-2.0
 *
 * cl.h - the OpenCL headers, at the version that yoke targets. Only lib/device and
 * the one file of lib/op that calls CLBlast include it.
 */
#ifndef YKI_CL_H
#define YKI_CL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#endif
