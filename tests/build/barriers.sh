#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# barriers.sh - no kernel leaves some work-items at a barrier: in a function or a macro of
# clkernels/, nothing returns above a barrier. Work-items that have nothing to do go on to
# the barrier and do nothing there.

set -u
cd "${YOKE_SRCDIR:?}" || exit 1

awk '
FNR == 1 || /^}/ || (macro && !/\\$/) { returned = 0; macro = 0 }
/^#define/ && /\\$/ { returned = 0; macro = 1 }
/[^a-z_]return[ ;(]/ { returned = FNR }
/barrier\(/ && returned && returned < FNR {
    printf "%s:%d: a barrier that some work-items may not reach: line %d returns\n", FILENAME, FNR, returned
    bad = 1
}
END { exit bad }' clkernels/*.cl
