# SPDX-License-Identifier: Apache-2.0
# MPI for libyoke-mpi only. Its flags are asked of mpicc, which every MPI has, or of
# pkg-config (ompi-c, mpich); the compiler stays the one of everything else.
#
#   --without-mpi      no libyoke-mpi
#   --with-mpi=DIR     the MPI in DIR/bin
#   MPICC=mpicc.mpich  the MPI of that command; mpirun.mpich is taken for the tests
AC_DEFUN([AX_YOKE_MPI], [
  AC_ARG_WITH([mpi],
    [AS_HELP_STRING([--with-mpi=DIR], [MPI in DIR/bin, for libyoke-mpi])
AS_HELP_STRING([--without-mpi], [do not build libyoke-mpi])],
    [], [with_mpi=yes])
  AC_ARG_VAR([MPICC], [C compiler for MPI programs])
  AC_ARG_VAR([MPIRUN], [launcher of MPI programs, for the tests])
  AC_ARG_VAR([MPI_CFLAGS], [C compiler flags for MPI, overriding mpicc])
  AC_ARG_VAR([MPI_LIBS], [linker flags for MPI, overriding mpicc])
  have_mpi=no
  AS_IF([test "x$with_mpi" = xno], [have_mpi=no],
    [test ! -f "$srcdir/mpi/Makemodule.am"], [have_mpi="no, not part of this version"],
    [AS_IF([test "x$with_mpi" != xyes],
       [AS_IF([test -x "$with_mpi/bin/mpicc"], [],
          [AC_MSG_ERROR([there is no $with_mpi/bin/mpicc])])
        MPICC=$with_mpi/bin/mpicc])
     AC_CHECK_PROGS([MPICC], [mpicc mpicc.openmpi mpicc.mpich])
     AS_IF([test -z "$MPI_CFLAGS$MPI_LIBS" && test -n "$MPICC"],
       [AC_MSG_CHECKING([what $MPICC adds])
        AX_YOKE_MPI_FLAGS([$($MPICC -show 2>/dev/null)])
        AC_MSG_RESULT([$MPI_CFLAGS $MPI_LIBS])])
     AS_IF([test -z "$MPI_LIBS"],
       [PKG_CHECK_MODULES([MPI], [ompi-c], [:], [PKG_CHECK_MODULES([MPI], [mpich], [:], [:])])])
     AX_YOKE_MPI_TRY
     AS_IF([test "x$have_mpi" != xyes],
       [AC_MSG_ERROR([MPI is missing: install libopenmpi-dev (Debian), openmpi-devel (Fedora) or openmpi (Arch), or configure --without-mpi])])
     # The launcher of the same MPI: mpicc.mpich, mpirun.mpich.
     AS_IF([test -z "$MPIRUN"],
       [mpirun_name=$(AS_ECHO(["${MPICC:-mpicc}"]) | $SED 's/mpicc\([[^/]]*\)$/mpirun\1/')
        AC_CHECK_PROGS([MPIRUN], [$mpirun_name mpirun mpiexec])])])
  AM_CONDITIONAL([WITH_MPI], [test "x$have_mpi" = xyes])
])

# AX_YOKE_MPI_FLAGS(COMMAND LINE): its words, without the compiler, sorted by what they are for.
AC_DEFUN([AX_YOKE_MPI_FLAGS], [
  mpi_first=yes
  for mpi_word in $1; do
    AS_IF([test $mpi_first = yes], [mpi_first=no],
      [AS_CASE([$mpi_word],
         [-I*|-D*], [MPI_CFLAGS="$MPI_CFLAGS $mpi_word"],
         [-pthread], [MPI_CFLAGS="$MPI_CFLAGS $mpi_word"; MPI_LIBS="$MPI_LIBS $mpi_word"],
         [-L*|-l*|-Wl,*|*.so|*.a], [MPI_LIBS="$MPI_LIBS $mpi_word"])])
  done
])

AC_DEFUN([AX_YOKE_MPI_TRY], [
  mpi_saved_cflags=$CFLAGS
  mpi_saved_libs=$LIBS
  CFLAGS="$CFLAGS $MPI_CFLAGS"
  LIBS="$MPI_LIBS $LIBS"
  AC_MSG_CHECKING([for MPI 3 or later])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#if MPI_VERSION < 3
#error too old
#endif
]], [[MPI_Comm c; MPI_Request r; return MPI_Comm_idup(MPI_COMM_WORLD, &c, &r);]])],
    [have_mpi=yes], [have_mpi=no])
  AC_MSG_RESULT([$have_mpi])
  CFLAGS=$mpi_saved_cflags
  LIBS=$mpi_saved_libs
])
