#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# quickstart.sh - what quickstart decides, on systems that are made of stubs.
#
# PATH holds a few tools of a minimal system, and programs of ours that stand for
# the package manager, id, sudo and the build tools; they write down how they are
# called. What it does with real ones is tried on bare systems, not here.

set -eu

work=$YOKE_BUILDDIR/tests/build/quickstart.tmp
rm -rf "$work"
mkdir -p "$work"
status=0

fail() {
    echo "FAIL: $1"
    sed 's/^/    /' "$work/output"
    status=1
}

# stub NAME LINE...: a program that notes its call, then does the lines
stub() {
    stub_name=$1
    shift
    {
        echo '#!/bin/sh'
        echo "echo \"$stub_name \$*\" >>'$work/calls'"
        printf '%s\n' "$@"
    } >"$work/bin/$stub_name"
    chmod +x "$work/bin/$stub_name"
}

# A clone and a minimal PATH. Build tools appear when the package manager "installs".
fresh() {
    rm -rf "${work:?}/bin" "$work/tree" "$work/calls"
    mkdir -p "$work/bin" "$work/tree/m4"
    : >"$work/calls"
    for tool in sh cat cksum cut dirname env find grep ls mkdir sed sort tail tr xargs rm nproc \
        touch chmod printf cp awk; do
        path=$(command -v $tool) && case $path in /*) ln -s "$path" "$work/bin/$tool" ;; esac
    done
    cp "$YOKE_SRCDIR/quickstart" "$YOKE_SRCDIR/configure.ac" "$YOKE_SRCDIR/Makefile.am" "$work/tree"
    cp "$YOKE_SRCDIR/m4/check.m4" "$work/tree/m4"
    chmod -R u+w "$work/tree"
    stub id "echo ${1:-0}"
}

# Makes the build tools, as installing would.
cat >"$work/provide" <<END
#!/bin/sh
cd "$work/bin"
for tool in cc c++ xz automake autoconf libtoolize pkg-config oclgrind mpicc mpirun; do
    { echo '#!/bin/sh'; echo 'exit 0'; } >\$tool
done
{ echo '#!/bin/sh'; echo "echo autoreconf >>'$work/calls'"; echo "cp '$work/configure' configure"; } >autoreconf
{ echo '#!/bin/sh'; echo "echo make \\"\\\$@\\" >>'$work/calls'"; } >make
chmod +x *
END
cat >"$work/configure" <<END
#!/bin/sh
echo configure "\$@" >>'$work/calls'
touch Makefile
END
chmod +x "$work/provide" "$work/configure"

quickstart() {
    (cd "$work/tree" && env -i PATH="$work/bin" ./quickstart "$@") >"$work/output" 2>&1
}

called() {
    grep -q -e "$1" "$work/calls"
}

# An unknown system is told what is missing, and stays as it is.
fresh
before=$(cd "$work/tree" && find . | sort)
if quickstart check; then
    fail "succeeds without a package manager"
fi
for what in 'C compiler' make OpenCL automake Check 'nothing was changed'; do
    grep -q "$what" "$work/output" || fail "unknown system: does not say \"$what\""
done
[ "$before" = "$(cd "$work/tree" && find . | sort)" ] || fail "unknown system: changes the tree"

# Where everything is there, no package manager is needed.
fresh
"$work/provide"
quickstart || fail "unknown system with everything installed"
called autoreconf || fail "does not run autoreconf in a clone"
called '^make -s -C build' || fail "does not build"

# Neither root nor sudo: says what to run, and runs nothing.
fresh 1000
stub apt-get
stub apt-cache
stub dpkg-query 'exit 1'
if quickstart; then
    fail "succeeds with nothing installed and no root"
fi
grep -q 'apt-get .*install .*automake' "$work/output" || fail "no root: does not say what to run"
! called apt-get || fail "no root: runs apt-get"

# With sudo it installs through it, the tests' needs only when asked to check.
fresh 1000
stub sudo "exec \"\$@\""
stub apt-get "case \$* in *install*) '$work/provide' ;; esac"
stub apt-cache 'echo "  Candidate: 1"'
stub dpkg-query 'exit 1'
quickstart || fail "apt with sudo"
called '^sudo .*apt-get .*install.* gcc .*autoconf' || fail "apt: does not install through sudo"
! called 'apt-get.* update' || fail "apt: fetches lists though the packages are known"
! called '^apt-get.*install.* check' || fail "apt: installs what only tests need"

# A second run does nothing but make.
: >"$work/calls"
quickstart || fail "second run"
if called 'apt-get\|autoreconf\|configure'; then
    fail "second run: does needless work: $(cat "$work/calls")"
fi
# A changed input of automake: configures again.
echo '# changed' >>"$work/tree/Makefile.am"
quickstart || fail "run after a change"
{ called autoreconf && called configure; } || fail "does not configure again after a change"

# Unknown packages: the lists are fetched first.
fresh
stub apt-get "case \$* in *install*) '$work/provide' ;; esac"
stub apt-cache
stub dpkg-query 'exit 1'
quickstart check || fail "apt as root"
called 'apt-get .*update' || fail "apt: does not fetch the lists"
called '^apt-get .*install.* check' || fail "apt: does not install what tests need"
! called '^apt-get .*install.* oclgrind' || fail "apt: installs what the system does not have"
grep -q 'no package oclgrind' "$work/output" || fail "apt: does not say which tests are skipped"
# What scripts of the tests call, and a minimal system has not.
for package in procps iproute2 python3; do
    grep -q "no package $package" "$work/output" || fail "apt: does not look for $package"
done
called '^make -C build check' || fail "check: does not run the tests"

# Some folders of tests alone: those of the Makefile's list.
fresh
"$work/provide"
{
    echo '#!/bin/sh'
    echo "echo make \"\$@\" >>'$work/calls'"
    echo "case \$* in *all-tests*) echo tests/device/check_a tests/man/b.sh tests/deviceless/c.sh ;; esac"
} >"$work/bin/make"
mkdir -p "$work/tree/tests/device" "$work/tree/tests/man" "$work/tree/tests/op"
touch "$work/tree/tests/device/Makemodule.am" "$work/tree/tests/man/Makemodule.am"
quickstart check device || fail "check device"
called '^make -C build check-some TESTS=tests/device/check_a $' || fail "check device: runs $(cat "$work/calls")"
quickstart check device man || fail "check device man"
called '^make -C build check-some TESTS=tests/device/check_a tests/man/b.sh $' || fail "check device man"
touch "$work/tree/tests/man/b.sh"
quickstart check man/b.sh || fail "check man/b.sh"
called '^make -C build check-some TESTS=tests/man/b.sh $' || fail "check man/b.sh: runs $(cat "$work/calls")"
! quickstart check nothing || fail "check takes a folder that is not there"
grep -q 'no folder tests/nothing' "$work/output" || fail "check nothing: does not say what is missing"

# The other two.
fresh
stub dnf "case \$* in *install*) '$work/provide' ;; esac"
stub rpm 'exit 1'
quickstart || fail "dnf"
called '^dnf -y install .* gcc .*ocl-icd-devel' || fail "dnf: does not install"
fresh
stub pacman "case \$* in -Q*) exit 1 ;; -S\\ *|-Sy\\ *) '$work/provide' ;; esac"
quickstart || fail "pacman"
called '^pacman -Sy .* gcc .*ocl-icd' || fail "pacman: does not install"

# Arguments.
fresh
quickstart --help || fail "--help fails"
grep -q "usage: ./quickstart" "$work/output" || fail "--help shows no usage"
if quickstart wrong || quickstart build device; then
    fail "takes a wrong argument"
fi

[ $status = 0 ] && rm -rf "$work"
exit $status
