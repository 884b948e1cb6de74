# SPDX-License-Identifier: Apache-2.0
# zlib, for data files that are compressed (.gz).
AC_DEFUN([AX_YOKE_ZLIB], [
  PKG_CHECK_MODULES([ZLIB], [zlib], [ZLIB_PC=zlib],
    [AC_CHECK_LIB([z], [inflateInit2_], [ZLIB_LIBS=-lz],
       [AC_MSG_ERROR([zlib is missing: install zlib1g-dev (Debian), zlib-devel (Fedora) or zlib (Arch)])])])
  yoke_saved_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $ZLIB_CFLAGS"
  AC_CHECK_HEADER([zlib.h], [],
    [AC_MSG_ERROR([zlib.h is missing: install zlib1g-dev (Debian), zlib-devel (Fedora) or zlib (Arch)])])
  CPPFLAGS=$yoke_saved_CPPFLAGS
  ZLIB_PC_LIBS=
  AS_IF([test "x$ZLIB_PC" = x], [ZLIB_PC_LIBS=$ZLIB_LIBS])
  AC_SUBST([ZLIB_PC])
  AC_SUBST([ZLIB_PC_LIBS])
])
