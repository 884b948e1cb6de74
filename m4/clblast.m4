# SPDX-License-Identifier: Apache-2.0
# CLBlast, the BLAS for OpenCL. Its pkg-config file does not say that it needs the C++ library
# where it is linked statically: CLBLAST_PC_LIBS brings that to yoke.pc.
AC_DEFUN([AX_YOKE_CLBLAST], [
  PKG_CHECK_MODULES([CLBLAST], [clblast], [CLBLAST_PC=clblast],
    [AC_CHECK_LIB([clblast], [CLBlastSgemmWithTempBuffer], [CLBLAST_LIBS=-lclblast],
       [AC_MSG_ERROR([CLBlast is missing: install libclblast-dev (Debian), clblast-devel (Fedora) or clblast (Arch)])],
       [-lstdc++])])
  yoke_saved_CPPFLAGS=$CPPFLAGS
  yoke_saved_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $OPENCL_CFLAGS $CLBLAST_CFLAGS"
  LIBS="$CLBLAST_LIBS $OPENCL_LIBS $LIBS"
  AC_CHECK_HEADER([clblast_c.h], [],
    [AC_MSG_ERROR([clblast_c.h is missing: install libclblast-dev (Debian), clblast-devel (Fedora) or clblast (Arch)])])
  AC_CHECK_FUNC([CLBlastOverrideParameters], [],
    [AC_MSG_ERROR([CLBlast is too old: 1.5.0 is needed, for CLBlastOverrideParameters])])
  CPPFLAGS=$yoke_saved_CPPFLAGS
  LIBS=$yoke_saved_LIBS
  CLBLAST_PC_LIBS=-lstdc++
  AS_IF([test "x$CLBLAST_PC" = x], [CLBLAST_PC_LIBS="$CLBLAST_LIBS -lstdc++"])
  AC_SUBST([CLBLAST_PC])
  AC_SUBST([CLBLAST_PC_LIBS])
])
