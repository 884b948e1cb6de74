# SPDX-License-Identifier: Apache-2.0
# libpng and libjpeg-turbo, for folders of images. Each is used where it is found: without one, yoke
# builds and says that it cannot read such files.
#
# AX_YOKE_IMAGES_ONE(VARIABLE, name, module, header, package)
AC_DEFUN([AX_YOKE_IMAGES_ONE], [
  AC_ARG_WITH([$2],
    [AS_HELP_STRING([--without-$2], [do not read $1 files (default: read them if $2 is there)])],
    [], [with_$2=check])
  have_$2=no
  $1_PC=
  AS_IF([test "x$with_$2" != xno],
    [PKG_CHECK_MODULES([$1], [$3], [have_$2=yes], [have_$2=no])])
  AS_IF([test "x$have_$2" = xyes], [
    yoke_saved_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $$1_CFLAGS"
    AC_CHECK_HEADER([$4], [], [have_$2=no], [#include <stdio.h>])
    CPPFLAGS=$yoke_saved_CPPFLAGS])
  AS_IF([test "x$have_$2" = xyes],
    [$1_PC="$3"
     AC_DEFINE([YOKE_HAVE_$1], [1], [Define to 1 to read $1 files.])],
    [$1_CFLAGS= $1_LIBS=
     AS_IF([test "x$with_$2" = xyes],
       [AC_MSG_ERROR([--with-$2 is given, but $2 is missing: install $5, or leave it out])])])
  AC_SUBST([$1_PC])
])
AC_DEFUN([AX_YOKE_IMAGES], [
  AX_YOKE_IMAGES_ONE([PNG], [libpng], [libpng], [png.h],
    [libpng-dev (Debian), libpng-devel (Fedora) or libpng (Arch)])
  AX_YOKE_IMAGES_ONE([JPEG], [libjpeg], [libjpeg], [jpeglib.h],
    [libjpeg62-turbo-dev (Debian), libjpeg-turbo-devel (Fedora) or libjpeg-turbo (Arch)])
])
