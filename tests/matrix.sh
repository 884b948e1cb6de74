#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# matrix.sh - the unit tests on every OpenCL implementation we hold ourselves to.
#
# `make check-matrix` runs it in the build folder; MATRIX="NAME..." picks some of the
# table below. Each implementation is isolated with
# OCL_ICD_VENDORS, and YOKE_TEST_DEVICES tells the tests which devices to use.
#
# For each program and implementation it leaves a log and a .trs file, as automake
# does, under tests/matrix/, and prints one line an implementation. One that is not
# installed is a skip; with YOKE_REQUIRE_ALL=1 (CI) it is a failure. Intel's is a skip even then: no
# system packages it. It is taken from YOKE_INTEL_RUNTIME, the folder of libintelocl.so, else from where
# `make intel-runtime` puts it, else from the .icd file of an installation.
# The rows that begin with "face" are PoCL behind the GPU face (tests/gpu/face.c): GPUs of several
# sizes. They run only if they are named, as `make check-gpu-face` does; "face" is a part of "face-128"
# for every day, "face-pair" of "face-two". So is "rusticl" of "rusticl-all", which `make check-rusticl` runs.
#
# YOKE_MATRIX_SHORT=1 (CI) leaves out the programs that take an interpreter or a compiler longest, what
# `make check` has on PoCL too, and in tests of operators most of the times that the same text of kernels
# runs with other sizes (only_repeats() in tests/op/harness.c); then nothing says that all kernels ran.
#
# From make: UNIT_TESTS (programs). YOKE_MATRIX_TIMEOUT: seconds for one
# program, default 1500, which ends what hangs. YOKE_MATRIX_JOBS: programs at a time, default one a core: most of
# them wait for a compiler, or for an interpreter, of one thread.

set -u

. "$YOKE_SRCDIR/tests/support/implementations.sh"

out=tests/matrix
limit=${YOKE_MATRIX_TIMEOUT:-1500}
short=${YOKE_MATRIX_SHORT:-0}
jobs=${YOKE_MATRIX_JOBS:-$(nproc 2>/dev/null || echo 1)}
total_failed=0
layer=$PWD/tests/faults/.libs/faultlayer.so # none in a build without shared libraries
face=$PWD/tests/gpu/.libs/face.so           # likewise

# What Oclgrind writes when a kernel does wrong; its exit status tells nothing. Calls that it
# finds wrong are in the log, but do not count: tests provoke errors, and see their status.
oclgrind_complaint='^(Invalid (read|write|memory|barrier)|Uninitialized|.*data race|Work-group divergence|Index .* out of range)'

# run DEVICES SETTINGS PROGRAM LOG
run() {
    case $icd in
    */matrix/face-two/* | */matrix/face-pair/* | */matrix/face-beside/*) export POCL_DEVICES='pthread pthread' ;; # PoCL is two devices then
    *) unset POCL_DEVICES ;;
    esac
    settings="OCL_ICD_VENDORS=$icd YOKE_TEST_DEVICES=$1"
    [ "$2" = - ] || settings="$settings $2"
    # The libraries that it loads lie beside it.
    if [ -f "$icd/intel.icd" ]; then
        settings="$settings LD_LIBRARY_PATH=$(dirname "$(cat "$icd/intel.icd")")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    fi
    case $icd:$3 in
    # What is known of the processor is no wisdom for the GPU that it says it is.
    */matrix/face*/*)
        settings="$settings OPENCL_LAYERS=$face XDG_CACHE_HOME=$PWD/$out/face.cache YOKE_TEST_QUICK=1"
        # A group of work-items takes PoCL long to optimise, and its kernels run for a moment.
        [ "${YOKE_TEST_THOROUGH:-}" = 1 ] || settings="$settings POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable"
        # For every day the networks with attention.
        case $icd:$3 in */face/*:tests/golden/*) settings="$settings CK_RUN_CASE=language" ;; esac
        ;;
    # Small cases: an interpreter. The fault layer notes the kernels that are launched. (Oclgrind
    # could, with --inst-counts, but writes beyond its own memory then.)
    */oclgrind/*:tests/op/* | */oclgrind/*:tests/device/check_*kernels)
        settings="$settings YOKE_TEST_QUICK=1 YOKE_FAULT_KERNELS=$PWD/$out/oclgrind/$(basename "$3").launches"
        [ ! -f "$layer" ] || settings="$settings OPENCL_LAYERS=$layer"
        ;;
    # These compilers are slow; some cases of a test take a minute on a busy machine.
    */rusticl*/*:tests/op/* | */intel/*:tests/op/* | */rusticl*/*:tests/device/check_kernels)
        settings="$settings YOKE_TEST_QUICK=1"
        ;;
    esac
    # shellcheck disable=SC2086 # words
    timeout -k 5 "$limit" env CK_TIMEOUT_MULTIPLIER=10 $settings "./$3" >"$4" 2>&1
}

# judge STATUS LOG TRS: TAP lines to results. A program that died, was cut short, ran fewer
# tests than its plan, or displeased Oclgrind adds one failure.
judge() {
    awk -v status="$1" -v complaint="$oclgrind_complaint" '
        /^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; planned = 1 }
        /^(not )?ok/ {
            seen++
            if (/# *[Ss][Kk][Ii][Pp]/) result = "SKIP"
            else if (/^not ok/) { result = "FAIL"; failed++ }
            else result = "PASS"
            print ":test-result: " result " " $0
        }
        $0 ~ complaint { complaints++; if (complaints == 1) first = $0 }
        END {
            if (status == 77 && !seen) print ":test-result: SKIP whole program"
            else if (status == 124 || status == 137) print ":test-result: FAIL cut short"
            else if (!planned || seen != plan)
                print ":test-result: FAIL " seen + 0 " results of " plan + 0 " planned, exit " status
            else if (status != 0 && !failed) print ":test-result: FAIL exit status " status
            if (complaints) print ":test-result: FAIL Oclgrind complains " complaints " times: " first
        }' "$2" >"$3"
}

# The kernels that Oclgrind ran are all of the embedded table, and no other of yoke's.
compare_kernels() {
    dir=$out/oclgrind
    [ -f "$layer" ] || return
    # A compiler's warnings are no kernels.
    if ! OCL_ICD_VENDORS=$icd ./tests/device/list_kernels >"$dir/kernels.listed" 2>"$dir/kernels.log"; then
        cat "$dir/kernels.log"
        echo ":test-result: FAIL the kernels cannot be listed" >"$dir/kernels.trs"
        echo "  oclgrind: the kernels cannot be listed"
        return
    fi
    sort -u "$dir/kernels.listed" >"$dir/kernels"
    cat "$dir"/*.launches | grep '^yki_' | sort -u >"$dir/kernels.run"
    {
        comm -23 "$dir/kernels" "$dir/kernels.run" | sed 's/.*/FAIL kernel &: never run/'
        comm -13 "$dir/kernels" "$dir/kernels.run" | sed 's/.*/FAIL kernel &: not in the table/'
        [ -s "$dir/kernels" ] || echo "FAIL no kernel in the table"
    } | sed 's/^/:test-result: /' >"$dir/kernels.trs"
    [ -s "$dir/kernels.trs" ] || echo ":test-result: PASS all kernels were run" >"$dir/kernels.trs"
    sed -n 's|^:test-result: FAIL|  oclgrind:|p' "$dir/kernels.trs"
}

count() {
    cat "$2"/*.trs 2>/dev/null | grep -c "^:test-result: $1"
}

# Whether this implementation runs this program.
wanted() {
    name=$1
    program=$2
    case $short:$name:$program in
    1:oclgrind:tests/op/check_attention | 1:oclgrind:tests/op/check_canonical) return 1 ;;
    1:oclgrind:tests/op/check_joined_layers | 1:oclgrind:tests/op/check_winograd) return 1 ;;
    1:oclgrind:tests/device/check_program | 1:rusticl:tests/device/check_program) return 1 ;;
    1:oclgrind:tests/device/check_sources | 1:rusticl:tests/device/check_sources) return 1 ;;
    1:rusticl:tests/op/check_joined_layers | 1:rusticl:tests/op/check_long) return 1 ;;
    1:rusticl:tests/team/check_team_results | 1:face:tests/train/check_any_split) return 1 ;;
    # What is neither an operator nor a device is the same on PoCL, and of the other programs one of a
    # family remains, as of Winograd's.
    1:rusticl:tests/op/check_joined | 1:rusticl:tests/op/check_composed | 1:rusticl:tests/op/check_winograd) return 1 ;;
    1:rusticl:tests/device/check_buffer | 1:rusticl:tests/device/check_queue | 1:rusticl:tests/train/check_fit) return 1 ;;
    1:rusticl:tests/op/check_loss | 1:rusticl:tests/device/check_update_kernels) return 1 ;;
    # Two such GPUs have a row, and whole networks on one take long to compile.
    1:face:tests/team/check_team_results | 1:face:tests/train/check_granules) return 1 ;;
    1:face:tests/plan/check_fusion_images) return 1 ;;
    # On PoCL make check has them; that devices are found and cut.
    1:pocl*:tests/device/check_selection | 1:pocl-half:tests/plan/check_plan) ;;
    1:two-platforms:tests/device/check_selection | 1:two-platforms:tests/device/check_context) ;;
    1:two-platforms:tests/device/check_link) ;;
    1:pocl*:* | 1:two-platforms:*) return 1 ;;
    esac
    case $name:$program in
    *:tests/gpu/*) return 1 ;; # has a driver of its own
    # Operators, what is made of them, and training of the models that come along.
    face:tests/op/* | face:tests/device/check_kept_spaces | face:tests/plan/check_plan | face:tests/plan/check_canonical_plans | face:tests/plan/check_fusion*) ;;
    face:tests/team/check_team_results | face:tests/train/check_fit) ;;
    face:tests/train/check_granules | face:tests/train/check_any_split | face:tests/train/check_models) ;;
    face:tests/replica/check_generator | face:tests/replica/check_sequences | face:tests/golden/check_golden) ;;
    face:*) return 1 ;;
    # Likewise where a compiler takes most of the time: kernels, what the driver itself does, and
    # that the pieces fit. Programs that take long are left to rusticl-all.
    rusticl:tests/op/check_canonical | rusticl:tests/op/check_matmul | rusticl:tests/op/check_rows) return 1 ;;
    rusticl:tests/op/check_attention | rusticl:tests/op/check_bf16) return 1 ;;
    rusticl:tests/op/* | rusticl:tests/device/* | rusticl:tests/plan/check_plan) ;;
    rusticl:tests/team/check_team_results | rusticl:tests/train/check_fit | rusticl:tests/replica/check_loader) ;;
    rusticl:*) return 1 ;;
    # Whole networks take long to compile, as what files of weights are read for: on one size of GPU.
    face-128:tests/train/check_models | face-128:tests/files/*) ;;
    face*:tests/train/check_models) return 1 ;;
    # Inputs and results where memory is the host's; the kernels are those of face-128.
    face-shared:tests/replica/* | face-shared:tests/team/check_team_results | face-shared:tests/train/check_fit) ;;
    face-shared:tests/device/check_buffer | face-shared:tests/device/check_context) ;;
    face-shared:*) return 1 ;;
    # What a GPU computes; what devices and files are is as on the processor.
    face-pair:tests/team/check_team_results | face-pair:tests/team/check_landing | face-pair:tests/train/check_fit) ;;
    face-pair:*) return 1 ;;
    # One set of weights for a processor and a GPU: what a team does.
    face-beside:tests/device/check_link | face-beside:tests/team/check_team | face-beside:tests/team/check_team_results) ;;
    face-beside:tests/team/check_array | face-beside:tests/team/check_place | face-beside:tests/train/check_fit) ;;
    face-beside:tests/train/check_granules | face-beside:tests/train/check_any_split) ;;
    face-beside:tests/train/check_checkpoint | face-beside:tests/train/check_average) ;;
    face-beside:*) return 1 ;;
    face-two:tests/team/* | face-two:tests/train/*) ;;
    face-two:*) return 1 ;;
    face*:tests/op/* | face*:tests/plan/* | face*:tests/replica/* | face*:tests/team/*) ;;
    face*:tests/train/* | face*:tests/golden/*) ;;
    face*) return 1 ;;
    *:tests/base/* | *:tests/shares/* | *:tests/graph/* | *:tests/data/* | *:tests/fuzz/* | *:tests/tools/*) return 1 ;; # touch no device
    # Operators, plans and replicas compute on one device: the whole CPU is make check's;
    # plans and replicas are run on its halves too, operators on the other implementations.
    pocl:tests/op/* | pocl-*:tests/op/* | two-platforms:tests/op/*) return 1 ;;
    pocl:tests/plan/* | pocl-uneven:tests/plan/* | two-platforms:tests/plan/*) return 1 ;;
    pocl:tests/replica/* | pocl-uneven:tests/replica/* | two-platforms:tests/replica/*) return 1 ;;
    pocl:tests/team/* | pocl-uneven:tests/team/* | two-platforms:tests/team/*) return 1 ;;
    pocl:tests/train/* | pocl-uneven:tests/train/* | two-platforms:tests/train/*) return 1 ;;
    pocl:tests/golden/* | pocl-uneven:tests/golden/* | two-platforms:tests/golden/*) return 1 ;;
    pocl:tests/zoo/* | pocl-uneven:tests/zoo/* | two-platforms:tests/zoo/*) return 1 ;;
    # It compiles every kernel anew, which takes minutes: make check did on PoCL.
    pocl*:tests/device/check_program | two-platforms:tests/device/check_program) return 1 ;;
    pocl*:tests/device/check_sources | two-platforms:tests/device/check_sources) return 1 ;;
    # Of the kernels each platform has a row of its own.
    two-platforms:tests/device/check_*kernels) return 1 ;;
    # make check has sub-devices in its teams, so of halves it is enough that the pieces fit, unless
    # YOKE_TEST_THOROUGH=1.
    pocl-half:tests/device/* | pocl-half:tests/golden/* | pocl-half:tests/plan/check_plan) ;;
    pocl-half:tests/plan/check_canonical_plans | pocl-half:tests/replica/check_replicas) ;;
    pocl-half:tests/team/check_team_results | pocl-half:tests/train/check_fit) ;;
    pocl-half:tests/train/check_granules | pocl-half:tests/train/check_shards) ;;
    pocl-half:tests/faults/*) return 1 ;;
    pocl-half:*) [ "${YOKE_TEST_THOROUGH:-}" = 1 ] ;;
    # It compiles every training anew, of which these are dozens, or whole ResNets; granules and
    # canonical plans have programs of their own. With YOKE_TEST_THOROUGH=1 they run, as does
    # attention.
    rusticl-all:tests/train/check_any_split | rusticl-all:tests/zoo/*) [ "${YOKE_TEST_THOROUGH:-}" = 1 ] ;;
    # An interpreter: whole networks take hours, but not bringing data to their inputs.
    oclgrind:tests/replica/check_loader) ;;
    oclgrind:tests/plan/* | oclgrind:tests/replica/* | oclgrind:tests/team/*) return 1 ;;
    oclgrind:tests/train/* | oclgrind:tests/golden/* | oclgrind:tests/files/*) return 1 ;;
    oclgrind:tests/zoo/*) return 1 ;;
    # The fault loops, run by make check on PoCL, need one more driver, not all set-ups;
    # and the layer's own test needs a clock of events, which Rusticl has not.
    rusticl-all:tests/faults/check_faults) ;;
    *:tests/faults/*) return 1 ;;
    esac
}

# one NAME DEVICES SETTINGS PROGRAM: runs and judges it; a line for each failure
one() {
    icd=$PWD/$out/$1/vendors
    base=$out/$1/$(basename "$4")
    run "$2" "$3" "$4" "$base.log" </dev/null
    judge $? "$base.log" "$base.trs"
    if grep ':test-result: FAIL' "$base.trs" | sed "s|^:test-result: FAIL|  $1/$(basename "$4"):|"; then
        grep -E "$oclgrind_complaint" "$base.log" | sort | uniq -c | sort -rn | head -n 5
    fi
}

if [ "${1:-}" = --one ]; then # called by itself, below
    shift
    one "$@"
    exit 0
fi

while read -r name drivers devices settings; do
    if [ $# -gt 0 ]; then
        case " $* " in *" $name "*) ;; *) continue ;; esac
    else
        case $name in face* | rusticl-all) continue ;; esac
    fi
    if ! setup "$name" "$drivers"; then
        if [ "${YOKE_REQUIRE_ALL:-0}" = 1 ] && [ "$name" != intel ]; then
            echo ":test-result: FAIL $drivers is not installed" >"$out/$name/missing.trs"
            echo "matrix: $name: FAILED, not installed"
            total_failed=$((total_failed + 1))
        else
            echo ":test-result: SKIP $drivers is not installed" >"$out/$name/missing.trs"
            echo "matrix: $name: skipped, not installed"
        fi
        continue
    fi
    start=$(date +%s)
    for program in ${UNIT_TESTS:-}; do
        wanted "$name" "$program" && echo "$program"
    done | xargs -P "$jobs" -I PROGRAM sh "$0" --one "$name" "$devices" "$settings" PROGRAM
    [ "$short:$name" != 0:oclgrind ] || compare_kernels
    failed=$(count FAIL "$out/$name")
    total_failed=$((total_failed + failed))
    echo "matrix: $name ($devices): $(count PASS "$out/$name") passed, $failed failed," \
        "$(count SKIP "$out/$name") skipped, $(($(date +%s) - start)) s"
done <<END
$(table)
END
[ "$total_failed" -eq 0 ]
