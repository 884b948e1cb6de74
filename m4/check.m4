# SPDX-License-Identifier: Apache-2.0
# Check, the unit test library; without it `make check` has less to run.
AC_DEFUN([AX_YOKE_CHECK], [
  PKG_CHECK_MODULES([CHECK], [check >= 0.11], [have_check=yes], [have_check=no])
  AM_CONDITIONAL([HAVE_CHECK], [test "x$have_check" = xyes])
])
