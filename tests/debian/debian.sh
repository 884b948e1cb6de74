#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# debian.sh [packages] [VERSION...] - from a bare Debian to a tested yoke, as somebody new does it.
#
# For each version (12 and 13 unless told otherwise) debootstrap makes a bare system in a folder of the
# build tree. The tree as it is committed goes in, and nothing that was built. Then `./quickstart`,
# `./quickstart check` and `make installcheck` run there, as root and without HOME. The logs and results of
# the tests are left in output-VERSION. The mirror, the proxies and the keys are those of this system's
# apt. Where no such system can be made it exits with 77, after the reason.
#
# With "packages", it builds those of debian/ instead, as Debian does, asks lintian about them, installs
# them and runs their tests.
#
# environment:
#   DEBIAN_FOLDERS   check only these folders and tests of tests/, such as "device tools/doctor.sh"
#   DEBIAN_CONFIGURE arguments for configure there
#   DEBIAN_KEEP      1: leave the system there afterwards
#   YOKE_TEST_QUICK  1: tests there take fewer cases
#
# Mounts and processes live in namespaces of their own, which end with the script, however that
# ends. The bare system and the packages are kept in the build folder for the next run.

set -euo pipefail

source=$(cd -- "${YOKE_SRCDIR:-${0%/*}/../..}" && pwd)
work=${YOKE_BUILDDIR:-$source/build}/tests/debian
mkdir -p "$work"
work=$(cd -- "$work" && pwd)
folder=
status=0

# The reason; what failed before it stays a failure.
skip() {
    echo "SKIPPED: $1"
    [ $status = 0 ] || exit 1
    exit 77
}

code_name() {
    case $1 in
    12) echo bookworm ;;
    13) echo trixie ;;
    *) return 1 ;;
    esac
}

# The mirror of Debian that this system's apt uses: it has the other versions, too.
find_mirror() {
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 !~ /-/ && $3 == "main" { print $4; exit }'
}

# What makes apt reach its mirror from here: proxies, limits, certificates.
apt_network() {
    apt-config dump | grep -E '^Acquire::(http|https|ftp|Retries|Queue|Check|Max|Force|AllowI)' || true
}

# possible: sets mirror, or skips with the reason
possible() {
    [ "$(id -u)" = 0 ] || skip "only root can make a Debian in a folder"
    command -v debootstrap >/dev/null || skip "debootstrap is not installed"
    command -v apt-get >/dev/null || skip "there is no apt, whose mirror would be used"
    git -C "$source" rev-parse --verify -q HEAD >/dev/null || skip "this is not a clone: nothing says what is committed"
    unshare --mount --pid --fork mount -t tmpfs none /mnt 2>/dev/null ||
        skip "this system lets root mount nothing, and tests need /proc and /dev/shm"
    mirror=$(find_mirror) || true
    [ -n "$mirror" ] || { apt-get -q update >/dev/null && mirror=$(find_mirror); } || true
    [ -n "$mirror" ] || skip "apt has no mirror of Debian"
}

# bootstrap VERSION FOLDER: a bare system, from the one of the last run if there is one
bootstrap() {
    local base=$work/base-$1.tar name proxy include=
    name=$(code_name "$1")
    rm -rf "$2"
    mkdir -p "$2"
    if [ ! -f "$base" ]; then
        proxy=$(apt-config dump | sed -n 's/^Acquire::http::Proxy "\(.*\)";$/\1/p')
        case $mirror in https:*) include=--include=ca-certificates ;; esac
        echo "debian.sh: making a bare Debian $1 from $mirror"
        env ${proxy:+http_proxy="$proxy"} debootstrap --variant=minbase $include "$name" "$2" "$mirror" \
            >"$work/debootstrap-$1.log" 2>&1 || {
            tail -n 5 "$work/debootstrap-$1.log"
            skip "the mirror $mirror gives no Debian $1"
        }
        rm -f "$2"/var/cache/apt/archives/*.deb
        tar -C "$2" -cf "$base.part" . && mv "$base.part" "$base"
    else
        tar -C "$2" -xf "$base"
    fi
}

# furnish FOLDER: what lets it reach the mirror, and the tree as it is committed
furnish() {
    apt_network >"$1/etc/apt/apt.conf.d/90network" || return 1
    cp -L /etc/resolv.conf /etc/hosts "$1/etc/" 2>/dev/null || true
    if [ -d /etc/apt/auth.conf.d ]; then cp -R /etc/apt/auth.conf.d "$1/etc/apt/"; fi
    mkdir -p "$1/src/yoke" && git -C "$source" archive HEAD | tar -C "$1/src/yoke" -xf -
}

# inside FOLDER COMMAND...: in a namespace of its own, so that no mount and no process is left
inside() {
    local folder=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --pid --fork --kill-child bash -euc '
        mount --bind "$0" "$0" # ip netns wants / to be a mount
        cd "$0"
        mount -t proc proc proc
        mount --bind /sys sys && mount -o remount,bind,ro sys
        mount -t tmpfs -o mode=1777 shm dev/shm
        mount -t devpts -o newinstance,ptmxmode=0666,gid=5,mode=0620 devpts dev/pts
        ln -sf pts/ptmx dev/ptmx
        mount --bind "$1" var/cache/apt/archives
        shift
        trap "exit 1" TERM INT HUP
        chroot . env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${http_proxy+http_proxy="$http_proxy"} ${https_proxy+https_proxy="$https_proxy"} \
            ${YOKE_TEST_QUICK+YOKE_TEST_QUICK="$YOKE_TEST_QUICK"} \
            ${DEBIAN_CONFIGURE+YOKE_CONFIGURE_ARGS="$DEBIAN_CONFIGURE"} \
            bash -c "cd /src/yoke && \"\$@\"" inside "$@"
    ' "$folder" "$archives" "$@"
}

# The results of tests, for those who read them when the system is gone.
keep_results() {
    [ ! -d "$1/src/yoke/build/tests" ] ||
        (cd "$1/src/yoke/build" && find tests -name '*.log' -o -name '*.trs' 2>/dev/null) |
        tar -C "$1/src/yoke/build" -cf - -T - | tar -C "$2" -xf -
}

# It trains on two processes, not on what is left when these fail, and well.
trained() {
    [ "$(grep -c '^quickstart: training:' "$1")" = 1 ] && grep -q '^quickstart: training: mpirun ' "$1" &&
        awk '/^test accuracy/ { good = $3 >= 96 } END { exit !good }' "$1"
}

# step WHAT COMMAND...: says what became of it, and after how many seconds
step() {
    local what=$1 status=0
    shift
    "$@" || status=$?
    echo "debian.sh: $what in Debian $version: exit $status, $((SECONDS - start)) s after the start"
    return $status
}

first_use() {
    inside "$folder" ./quickstart | tee "$output/quickstart.output" && trained "$output/quickstart.output"
}

install_check() {
    inside "$folder" sh -c 'make -s -C build install >/dev/null && ldconfig && make -s -C build installcheck'
}

# shellcheck disable=SC2016 # expanded inside
build_packages() {
    inside "$folder" bash -euc '
        export DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS="parallel=$(nproc)"
        install="apt-get -q -y --no-install-recommends"
        apt-get -q update
        $install install build-essential lintian autopkgtest
        $install build-dep .
        dpkg-buildpackage -us -uc'
}

packages() {
    step "the build of packages" build_packages >"$output/build.log" 2>&1 || {
        tail -n 30 "$output/build.log"
        return 1
    }
    step lintian inside "$folder" bash -c 'lintian --fail-on error,warning ../yoke_*.changes' || return 1
    step "the tests of packages" inside "$folder" bash -c 'autopkgtest --no-built-binaries ../*.deb . -- null' \
        >"$output/tests.log" 2>&1 || {
        tail -n 30 "$output/tests.log"
        return 1
    }
}

first_to_last() {
    # shellcheck disable=SC2086 # words
    step ./quickstart first_use && step "./quickstart check" inside "$folder" ./quickstart check ${DEBIAN_FOLDERS-} &&
        step "make installcheck" install_check
}

# try VERSION: true if all succeeds in it
try() {
    local start=$SECONDS version=$1 failed=0
    folder=$work/system-$1
    output=$work/output-$1
    archives=$work/archives-$1
    rm -rf "$output"
    mkdir -p "$output" "$archives"
    bootstrap "$1" "$folder" && furnish "$folder" || return 1
    $what || failed=1
    keep_results "$folder" "$output"
    [ "${DEBIAN_KEEP:-0}" = 1 ] || rm -rf "$folder"
    return $failed
}

[ "${DEBIAN_KEEP:-0}" = 1 ] || trap '[ -z "$folder" ] || rm -rf "$folder"' EXIT
trap 'exit 1' TERM INT HUP
possible
what=first_to_last
if [ "${1-}" = packages ]; then
    what=packages
    shift
fi
for version in ${*:-12 13}; do
    code_name "$version" >/dev/null || {
        echo "debian.sh: Debian $version is not known; 12 and 13 are"
        exit 2
    }
    try "$version" || status=1
done
exit $status
