#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# reasons.sh - where debian.sh can make no Debian it says why, with status 77, and leaves nothing.

set -u

work=$YOKE_BUILDDIR/tests/debian/reasons.tmp
rm -rf "$work"
mkdir -p "$work/bin" "$work/build"
failures=0
for tool in bash sh mkdir rm cat awk sed grep; do
    path=$(command -v $tool) && ln -s "$path" "$work/bin/$tool"
done

# stub NAME LINE
stub() {
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

# expect REASON [VERSION]
expect() {
    PATH=$work/bin YOKE_BUILDDIR=$work/build bash "$YOKE_SRCDIR/tests/debian/debian.sh" ${2:-13} >"$work/output" 2>&1
    status=$?
    [ $status = 77 ] && grep -q "^SKIPPED: .*$1" "$work/output" && [ -z "$(ls "$work/build/tests/debian")" ] && return
    echo "FAIL: exit $status, not 77 with \"$1\":"
    cat "$work/output"
    failures=$((failures + 1))
}

stub id 'echo 1000'
expect 'only root'
stub id 'echo 0'
expect 'debootstrap is not installed'
stub debootstrap 'exit 1'
expect 'no apt'
stub apt-get 'exit 1'
stub git 'exit 1'
expect 'not a clone'
stub git 'exit 0'
stub unshare 'exit 1'
expect 'mount nothing'
stub unshare 'exit 0'
expect 'no mirror'
[ $failures -gt 0 ] || rm -rf "$work"
[ $failures -eq 0 ]
