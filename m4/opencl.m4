# SPDX-License-Identifier: Apache-2.0
# The OpenCL ICD loader and its headers. OPENCL_PC and OPENCL_PC_LIBS are for yoke.pc: a
# loader without a pkg-config file must be named by its library there.
AC_DEFUN([AX_YOKE_OPENCL], [
  PKG_CHECK_MODULES([OPENCL], [OpenCL], [OPENCL_PC=OpenCL],
    [AC_CHECK_LIB([OpenCL], [clGetPlatformIDs], [OPENCL_LIBS=-lOpenCL OPENCL_PC_LIBS=-lOpenCL],
       [AC_MSG_ERROR([the OpenCL ICD loader is missing: install ocl-icd-opencl-dev (Debian), ocl-icd-devel (Fedora) or ocl-icd (Arch)])])])
  yoke_saved_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $OPENCL_CFLAGS"
  AC_CHECK_HEADER([CL/cl.h], [],
    [AC_MSG_ERROR([OpenCL headers are missing: install opencl-c-headers (Debian) or opencl-headers (Fedora, Arch)])])
  CPPFLAGS=$yoke_saved_CPPFLAGS
  AC_SUBST([OPENCL_PC])
  AC_SUBST([OPENCL_PC_LIBS])
])
