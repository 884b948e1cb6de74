# SPDX-License-Identifier: Apache-2.0
# jansson, for JSON: graphs and the headers of safetensors files. 2.8 keeps the order of members.
AC_DEFUN([AX_YOKE_JANSSON], [
  PKG_CHECK_MODULES([JANSSON], [jansson >= 2.8], [JANSSON_PC=jansson],
    [AC_CHECK_LIB([jansson], [json_loadb], [JANSSON_LIBS=-ljansson JANSSON_PC_LIBS=-ljansson],
       [AC_MSG_ERROR([jansson is missing: install libjansson-dev (Debian), jansson-devel (Fedora) or jansson (Arch)])])])
  yoke_saved_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $JANSSON_CFLAGS"
  AC_CHECK_HEADER([jansson.h], [],
    [AC_MSG_ERROR([jansson.h is missing: install libjansson-dev (Debian), jansson-devel (Fedora) or jansson (Arch)])])
  CPPFLAGS=$yoke_saved_CPPFLAGS
  AC_SUBST([JANSSON_PC])
  AC_SUBST([JANSSON_PC_LIBS])
])
