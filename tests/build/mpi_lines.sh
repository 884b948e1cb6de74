#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mpi_lines.sh - a program becomes one of many processes by the lines that speak of MPI, and no other:
# between examples/lenet.c and examples/lenet_mpi.c nothing else differs but the head of the file,
# which says how each is called. The head of each example begins with its name.

set -eu

examples=$YOKE_SRCDIR/examples
work=$YOKE_BUILDDIR/tests/build/mpi_lines.tmp
mkdir -p "$work"
for name in lenet lenet_mpi; do
    sed '1,/^ \*\/$/d' "$examples/$name.c" >"$work/$name.c"
done
for file in "$examples"/*.c; do
    sed -n 3p "$file" | grep -q "^ \* ${file##*/} - " || {
        echo "$file: its head does not begin with its name"
        exit 1
    }
done
difference=$(diff "$work/lenet.c" "$work/lenet_mpi.c") && {
    echo "they are the same"
    exit 1
}
rm -r "$work"
added=$(echo "$difference" | sed -n 's/^> *//p')
removed=$(echo "$difference" | sed -n 's/^< *//p')

# What goes: the header and the team without a communicator, which stand there in another form.
[ "$removed" = '#include <yoke.h>
status = yoke_team_create(context, NULL, NULL, &team);' ] || {
    echo "only in lenet.c: $removed"
    exit 1
}

# What comes: MPI, its communicator, who speaks, and the statements that they stand in.
others=$(echo "$added" | grep -vE 'MPI|mpi|comm|^int provided;$|^fit\.on_epoch = NULL;$|^if \(!?status\)$' || true)
[ -z "$others" ] || {
    echo "in lenet_mpi.c without speaking of MPI: $others"
    exit 1
}
[ "$(echo "$added" | wc -l)" -le 20 ] || {
    echo "$(echo "$added" | wc -l) lines for MPI"
    exit 1
}
