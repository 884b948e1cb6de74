# SPDX-License-Identifier: Apache-2.0
# POSIX threads: part of libc on new systems, -pthread elsewhere.
AC_DEFUN([AX_YOKE_THREADS], [
  AC_SEARCH_LIBS([pthread_create], [pthread], [], [AC_MSG_ERROR([POSIX threads are needed])])
  AC_SEARCH_LIBS([dlopen], [dl])
  AC_SEARCH_LIBS([sqrt], [m])
])
