/* SPDX-License-Identifier: Apache-2.0
 *
 * cl.h - the OpenCL headers, at the version we target. Included by lib/device
 * and by the one file of lib/op that calls CLBlast, by nobody else.
 */
#ifndef YKI_CL_H
#define YKI_CL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#endif
