#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# scale.sh - `make check-scale`: libyoke-mpi on 2 to 1024 simulated ranks.
#
# mpi/*.c is compiled as it is, against SimGrid's SMPI. Two networks, each with one switch to
# which every host has a cable (a cluster with full bisection); gradients of two models; compute
# replaced by the times below. A line for each: step time, efficiency against compute alone, and
# the same without overlap. SCALE_RANKS="2 16" and SCALE_NETWORKS run some only. From SCALE_FEW (256)
# ranks on one reduction of a step is simulated, and the others taken to be like it; SCALE_FEW=2
# shows, for fewer ranks, that it makes no difference. 1,024 ranks take ten minutes.

set -eu

command -v smpicc >/dev/null && command -v smpirun >/dev/null || {
    echo "there is no smpicc: install libsimgrid-dev"
    [ "${YOKE_REQUIRE_ALL:-0}" != 1 ] || exit 1
    exit 77
}
work=$YOKE_BUILDDIR/tests/mpi/scale.tmp${SCALE_NETWORKS:+.$SCALE_NETWORKS}
rm -rf "$work"
mkdir -p "$work"
cd "$work"

# The functions of libyoke that mpi/ calls; and what SMPI lacks: it does not tell the thread level,
# duplicates communicators by the blocking call alone, and MPI_Test never finds its non-blocking
# collectives, nor the request that is none, done. None of it is inside a step here, whose reductions block.
cat >library.c <<'END'
#include <mpi.h>
#include <stdio.h>
#include <yoke.h>
int scale_query_thread(int *l) { *l = MPI_THREAD_FUNNELED; return MPI_SUCCESS; }
int scale_is_main(int *yes) { *yes = 1; return MPI_SUCCESS; }
int scale_idup(MPI_Comm c, MPI_Comm *d, MPI_Request *r) { *r = MPI_REQUEST_NULL; return MPI_Comm_dup(c, d); }
int scale_test(MPI_Request *r, int *done, MPI_Status *s)
{ if (*r != MPI_REQUEST_NULL) return MPI_Test(r, done, s); *done = 1; return MPI_SUCCESS; }
int scale_iallgather(const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, MPI_Comm c,
                     MPI_Request *r) { *r = MPI_REQUEST_NULL; return MPI_Allgather(in, n, t, out, m, u, c); }
int scale_ibcast(void *p, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r)
{ *r = MPI_REQUEST_NULL; return MPI_Bcast(p, n, t, root, c); }
int scale_ibarrier(MPI_Comm c, MPI_Request *r) { *r = MPI_REQUEST_NULL; return MPI_Barrier(c); }
static char said[1024];
yoke_status yoke_fail(yoke_status s, const char *t) { snprintf(said, sizeof said, "%s", t); return s; }
const char *yoke_last_error(void) { return said; }
const char *yoke_status_string(yoke_status s) { (void)s; return "failed"; }
void yoke_log_write(yoke_log_level l, const char *t) { (void)l; (void)t; }
void yoke_comm_destroy(yoke_comm *c) { if (c) c->destroy(c); }
END
lacks=
for pair in Query_thread=query_thread Is_thread_main=is_main Comm_idup=idup Iallgather=iallgather \
    Ibcast=ibcast Ibarrier=ibarrier Test=test; do
    lacks="$lacks -DMPI_${pair%=*}=scale_${pair#*=}"
done
# shellcheck disable=SC2086 # words
{
    smpicc -O2 -c -I"$YOKE_SRCDIR/lib" library.c &&
        smpicc -O2 -D_GNU_SOURCE $lacks -I"$YOKE_SRCDIR/lib" -I"$YOKE_SRCDIR/mpi" library.o \
            "$YOKE_SRCDIR"/mpi/*.c "$YOKE_SRCDIR/tests/mpi/scale/scale.c" -o scale
} 2>build.log || {
    cat build.log
    exit 1
}

# platform NAME BANDWIDTH LATENCY
platform() {
    cat >"$1.xml" <<END
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="host" suffix="" radical="0-1023" speed="100Gf" bw="$2" lat="$3"/>
</platform>
END
}
platform ethernet10 1.25GBps 25us
platform fabric100 12.5GBps 1us
i=0
while [ $i -lt 1024 ]; do
    echo "host$i"
    i=$((i + 1))
done >hostfile

# simulate NETWORK RANKS ARGUMENT...: a line for each model, of ranks and seconds
simulate() {
    simulated=$2
    platform=$1.xml
    shift 2
    smpirun -np "$simulated" -platform "$platform" -hostfile hostfile --log=root.threshold:error \
        --cfg=smpi/host-speed:100Gf --cfg=smpi/simulate-computation:no \
        --cfg=smpi/coll-selector:ompi --cfg=contexts/stack-size:512 \
        --cfg=smpi/privatization:dlopen ./scale "$@" 2>run.log
}

# row NETWORK MODEL COMPUTE: from a line
row() {
    awk -v network="$1" -v model="$2" -v compute="$3" '
        NF == 3 { printf "| %s | %s | %d | %.1f | %.0f %% | %.1f | %.0f %% |\n", network, model, $1,
                  1e3 * $2, 100 * compute / $2, 1e3 * $3, 100 * compute / $3; ok = 1 }
        END { exit !ok }' || {
        cat run.log
        exit 1
    }
}

swapped() {
    awk '{ print $1, $3, $2 }'
}

# Buckets of both models are of the same size within 0.3 %: one reduction tells of both.
few() {
    simulate "$1" "$2" 11689512 11 0.050 0.100 1 24 0.100 0.200 >lines
    tail -n 1 lines | row "$1" ResNet-18 0.150
    tail -n 2 lines | head -n 1 | row "$1" ResNet-50 0.300
}

echo "| network | model | ranks | step, ms | efficiency | without overlap, ms | efficiency |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
for network in ${SCALE_NETWORKS:-ethernet10 fabric100}; do
    for n in ${SCALE_RANKS:-2 8 32 128 512 1024}; do
        if [ "$n" -ge "${SCALE_FEW:-256}" ]; then
            few "$network" "$n"
            continue
        fi
        simulate "$network" "$n" 11689512 11 0.050 0.100 | tail -n 1 | row "$network" ResNet-18 0.150
        simulate "$network" "$n" 25557032 24 0.100 0.200 | tail -n 1 | row "$network" ResNet-50 0.300
    done
done

# Integers of 16 bits, which are half as many bytes, after backward (any-split), from hosts that add up
# what their devices have before.
if [ -n "${SCALE_HOSTS-128}" ]; then
    echo
    echo "| network | model | hosts | int16, ms, after backward | efficiency | while backward runs | efficiency |"
    echo "| --- | --- | --- | --- | --- | --- | --- |"
    for network in ${SCALE_NETWORKS:-ethernet10 fabric100}; do
        simulate "$network" "${SCALE_HOSTS-128}" 5844756 11 0.050 0.100 | tail -n 1 | swapped | row "$network" ResNet-18 0.150
        simulate "$network" "${SCALE_HOSTS-128}" 12778516 24 0.100 0.200 | tail -n 1 | swapped | row "$network" ResNet-50 0.300
    done
fi

# A cluster whose devices have these speeds, over and over. As much is to do as if each had speed 1; by
# speed it would take so many milliseconds if nothing had to be sent.
set -- ${SCALE_SPEEDS-4 2 1 1}
[ $# -gt 0 ] || exit 0
export SCALE_SPEEDS="$*" SCALE_SHARES
echo
echo "| network | 64 devices of speeds $SCALE_SPEEDS | even shares, ms | shares by speed, ms | times | of the sum of speeds |"
echo "| --- | --- | --- | --- | --- | --- |"
# mixed MODEL VALUES BUCKETS FORWARD BACKWARD
mixed() {
    model=$1
    shift
    SCALE_SHARES=even
    even=$(simulate "$network" 64 "$@" | tail -n 1)
    SCALE_SHARES=speed
    echo "$even $(simulate "$network" 64 "$@" | tail -n 1)" | awk -v network="$network" -v model="$model" \
        -v compute="$3" -v backward="$4" '
        BEGIN { n = split(ENVIRON["SCALE_SPEEDS"], speed, " ")
                for (i = 1; i <= n; i++) sum += speed[i] / n }
        NF == 6 { printf "| %s | %s | %.1f | %.1f | %.2f | %.0f %% |\n", network, model, 1e3 * $2, 1e3 * $5,
                  $2 / $5, 100 * (compute + backward) / sum / $5; ok = 1 }
        END { exit !ok }' || {
        cat run.log
        exit 1
    }
}
for network in ${SCALE_NETWORKS:-ethernet10 fabric100}; do
    mixed ResNet-18 11689512 11 0.050 0.100
    mixed ResNet-50 25557032 24 0.100 0.200
done
rm -rf "$work"
