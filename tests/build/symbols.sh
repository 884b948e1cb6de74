#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# symbols.sh - what the libraries export and what they call.
#
# Exported by libyoke.so: exactly tests/symbols, all of version YOKE_0. Defined
# globally in libyoke.a: yoke_ and yki_ names only. Never called: anything that
# prints, ends the process, or is MPI's.

set -eu

cd "$YOKE_BUILDDIR"
list=$YOKE_SRCDIR/tests/symbols
shared=.libs/libyoke.so
static=.libs/libyoke.a
work=tests/build/symbols.tmp
mkdir -p tests/build
status=0
ran=no

fail() {
    echo "$1"
    status=1
}

if ! command -v "${NM%% *}" >/dev/null; then
    echo "no nm"
    exit 77
fi

LC_ALL=C sort -c -u "$list" || fail "tests/symbols is not sorted, or names a symbol twice"

if [ -f $shared ]; then
    ran=yes
    # The version node itself is an absolute symbol, YOKE_0@@YOKE_0 or YOKE_0.
    $NM -D --defined-only $shared | awk '$2 != "A" { print $3 }' | LC_ALL=C sort >$work
    if grep -v '@@YOKE_0$' $work; then
        fail "^ exported without version YOKE_0"
    fi
    sed 's/@.*//' $work >$work.names
    diff "$list" $work.names || fail "exports (>) differ from tests/symbols (<)"

    $NM -D --undefined-only $shared | awk '{ print $2 }' | sed 's/@.*//' >$work.calls
    if grep -E '^(_?exit|_Exit|quick_exit|abort|__assert_fail|MPI_.*|v?printf|__v?printf_chk|puts|putchar|perror|psignal|stdout|stderr|system|signal|sigaction)$' \
        $work.calls; then
        fail "^ called by the library, which must not end the process, print, handle signals or know MPI"
    fi
fi

if [ -f $static ]; then
    ran=yes
    $NM --defined-only -g $static | awk 'NF == 3 && !/__odr_asan/ { print $3 }' |
        LC_ALL=C sort >$work
    if grep -v -E '^(yoke|yki)_' $work; then
        fail "^ global in libyoke.a without the prefix yoke_ or yki_"
    fi
    uniq -d $work >$work.names
    if [ -s $work.names ]; then
        cat $work.names
        fail "^ defined twice in libyoke.a"
    fi
fi

# libyoke-mpi: one function of its own, which leaves it to the application to begin and to end.
shared=.libs/libyoke-mpi.so
if [ -f $shared ]; then
    $NM -D --defined-only $shared | awk '$2 != "A" { print $3 }' >$work
    [ "$(tr '\n' ' ' <$work)" = "yoke_mpi_comm_create_sized@@YOKE_MPI_0 yoke_mpi_comm_from_fortran@@YOKE_MPI_0 " ] || fail "exports of libyoke-mpi: $(cat $work)"
    if $NM -D --undefined-only $shared | awk '{ print $2 }' | sed 's/@.*//' |
        grep -E '^(MPI_(Init|Init_thread|Finalize|Abort)|_?exit|abort|v?printf|__v?printf_chk|puts|putchar|stdout|stderr)$'; then
        fail "^ called by libyoke-mpi"
    fi
fi
if [ -f .libs/libyoke-mpi.a ]; then
    if $NM --defined-only -g .libs/libyoke-mpi.a | awk 'NF == 3 && !/__odr_asan/ { print $3 }' |
        grep -v -E '^(yoke|yki)_mpi_'; then
        fail "^ global in libyoke-mpi.a without the prefix yoke_mpi_ or yki_mpi_"
    fi
fi

rm -f $work $work.names $work.calls
[ $ran = yes ] || exit 77
exit $status
