#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# hosts.sh - a training across two hosts, which are network namespaces joined by a cable.
#
# mpirun is started in one and enters the other by an agent in place of ssh; they share nothing
# but TCP. The weights are those of one device; a cable that is cut is noticed, and the rank behind
# it named. Needs the right to make namespaces, and Open MPI.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_program "$YOKE_BUILDDIR/tests/mpi/train"
[ $flavour = openmpi ] || skip "its agent is for Open MPI"
if "$MPIRUN" --version | grep -q 'Open MPI) [5-9]'; then
    echo "its agent is for Open MPI 4: 5 has another launcher"
    exit 77 # also where nothing may be missing: no package would help
fi
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! unshare -n true 2>/dev/null; then
    skip "no right to make network namespaces, or no ip"
fi

tag=yk$$
a=${tag}a
b=${tag}b
# end_all SIGNAL: to all that runs on the two hosts
end_all() {
    for space in $a $b; do
        # shellcheck disable=SC2046 # words
        kill "-$1" $(ip netns pids $space 2>/dev/null) 2>/dev/null
    done
}
clean() {
    end_all KILL
    for space in $a $b; do
        ip netns del $space 2>/dev/null
    done
}
trap clean EXIT
trap 'exit 1' INT TERM

cable() {
    ip netns add $a && ip netns add $b &&
        ip link add ${tag}v netns $a type veth peer name ${tag}w netns $b &&
        ip -n $a address add 10.199.7.1/24 dev ${tag}v && ip -n $b address add 10.199.7.2/24 dev ${tag}w &&
        ip -n $a link set lo up && ip -n $b link set lo up &&
        ip -n $a link set ${tag}v up && ip -n $b link set ${tag}w up
}
cable 2>"$work/output" || skip "no namespaces: $(cat "$work/output")"

# Who is asked for, then the command, as ssh has it.
cat >"$work/agent" <<END
#!/bin/sh
while :; do
    case \$1 in
    -*) shift ;;
    *) break ;;
    esac
done
shift
exec ip netns exec $b sh -c "\$*"
END
chmod +x "$work/agent"

only_pocl

# across FILE ARGUMENT...: rank 0 here, rank 1 there
across() {
    timeout -k 5 $launch_limit ip netns exec $a "$MPIRUN" --host 10.199.7.1:1,10.199.7.2:1 -n 2 \
        --mca plm_rsh_agent "$work/agent" --mca plm rsh --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include 10.199.7.0/24 --mca oob_tcp_if_include 10.199.7.0/24 \
        -x OCL_ICD_VENDORS -x XDG_CACHE_HOME -x YOKE_MPI_TIMEOUT -x YOKE_MPI_WARN -x RANK_DEVICES \
        "$program" "$@" >"$work/output" 2>&1 </dev/null
}

export RANK_DEVICES="" YOKE_MPI_TIMEOUT=20 YOKE_MPI_WARN=10
launch 1 "$work/one" 30 48 even || fail "one process: exit $?"
if across "$work/two" 30 48 2,1; then
    far=$(difference "$work/one" "$work/two")
    echo "two hosts: $far of the largest weight"
    is_within "$far" 1e-5 || fail "differs by $far"
else
    fail "two hosts: exit $?"
fi
# Bytes that went over the cable.
received() {
    ip netns exec $b cat /sys/class/net/${tag}w/statistics/rx_bytes 2>/dev/null || echo 0
}

[ "$(received)" -gt 100000 ] || fail "only $(received) bytes went over the cable"

trains() {
    grep -q 'rank 1:' "$work/output" && [ "$(received)" -gt "$enough" ]
}

named() {
    grep -q 'train: .*rank 1 (' "$work/output"
}

# The cable is cut while they train. Whether mpirun itself ends without its daemon is its own affair.
export YOKE_MPI_TIMEOUT=3 YOKE_MPI_WARN=2
enough=$(($(received) + 200000))
: >"$work/output"
across "$work/lost" 1000000 48 even &
launcher=$!
wait_until trains || fail "a cable to be cut: they do not train"
ip -n $b link set ${tag}w down
wait_until named || fail "a cut cable: nobody names rank 1"
end_all TERM
sleep 2
end_all KILL
wait $launcher && fail "a cut cable is taken for a success"

clean
finish
