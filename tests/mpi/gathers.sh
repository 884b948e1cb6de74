#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gathers.sh - a rank that fails while all ranks gather divided weights: its call of the transport fails,
# or its device is lost. Every rank ends, soon and by itself, with one sentence that tells of it.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_program "$YOKE_BUILDDIR/tests/mpi/train"
only_pocl
# No watchdog ends what hangs.
export YOKE_MPI_TIMEOUT=$((2 * launch_limit))
export SHARD=weights YOKE_BUCKET_BYTES=1024 POCL_MAX_PTHREAD_COUNT=2

all_say_fault even 3 1 call step 'the cable is cut'
all_say_fault even 2 0 call evaluation 'the cable is cut'
all_say_fault even 2 1 call reading 'the cable is cut'

# A device that is lost.
FAULT_LAYER=$YOKE_BUILDDIR/tests/faults/.libs/faultlayer.so
if [ -f "$FAULT_LAYER" ]; then
    export FAULT_LAYER
    all_say_fault even 3 2 device step '.* says CL_OUT_OF_RESOURCES'
elif [ "${YOKE_REQUIRE_ALL:-0}" = 1 ]; then
    fail "there is no fault layer"
else
    echo "no fault layer (it takes shared libraries): no device is lost"
fi

finish
