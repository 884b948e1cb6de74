#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# installcheck.sh - the installed library as a user meets it.
#
# Compiles every installed example and the programs of docs/from-*.md, and a C++ caller where there
# is a C++ compiler,
# against the installed header and library, found through pkg-config alone; once
# with the shared library and once with libyoke.a (the rest stays shared: Debian
# has no static OpenCL loader). Runs them where a driver is installed. Where there is CMake, an
# example is built through find_package(), too; where there is a Fortran compiler, the module.
#
# From make: DESTDIR, CMAKEDIR, INCLUDEDIR, LIBDIR, BINDIR, PKGCONFIGDIR, EXAMPLESDIR, PKG_CONFIG, CC,
# VERSION, MPI_CFLAGS,
# MPI_LIBS.

set -eu

work=$YOKE_BUILDDIR/tests/install/work
rm -rf "$work"
mkdir -p "$work"
PKG_CONFIG_PATH=$DESTDIR$PKGCONFIGDIR${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
# Under DESTDIR the paths in yoke.pc are not yet true.
if [ -n "$DESTDIR" ]; then
    PKG_CONFIG_SYSROOT_DIR=$DESTDIR
    export PKG_CONFIG_SYSROOT_DIR
fi
warnings="-pedantic -Wall -Wextra -Werror"
# Programs of MPI are run as one rank.
. "${0%/*}/../support/launcher.sh"
programs=0
runs=0

die() {
    echo "installcheck: $*" >&2
    exit 1
}

# build COMPILER STANDARD SOURCE NAME: NAME.shared and NAME.static
build() {
    module=yoke
    if grep -q '<yoke-mpi.h>' "$3"; then
        module=yoke-mpi
        [ -e "$DESTDIR$PKGCONFIGDIR/yoke-mpi.pc" ] || return 0
    fi
    cflags=$($PKG_CONFIG --cflags $module)
    libs=$($PKG_CONFIG --libs $module)
    # What is not ours does not lie under DESTDIR, where pkg-config has it now.
    mpi_libs=
    if [ $module = yoke-mpi ] && [ -n "$DESTDIR" ]; then
        cflags="$cflags $MPI_CFLAGS"
        mpi_libs=$MPI_LIBS
    fi
    # shellcheck disable=SC2086 # words
    if [ -e "$DESTDIR$LIBDIR/libyoke.so" ]; then
        $1 -std="$2" $warnings $cflags "$3" -o "$work/$4.shared" $libs $mpi_libs ||
            die "$3 does not build against the shared library"
        programs=$((programs + 1))
    fi
    if [ -e "$DESTDIR$LIBDIR/libyoke.a" ]; then
        libs=$($PKG_CONFIG --static --libs $module |
            sed -e 's/-lyoke-mpi\>/-l:libyoke-mpi.a/g' -e 's/-lyoke\>/-l:libyoke.a/g')
        # shellcheck disable=SC2086 # words
        $1 -std="$2" $warnings $cflags "$3" -o "$work/$4.static" $libs $mpi_libs ||
            die "$3 does not build against libyoke.a with $libs"
        programs=$((programs + 1))
    fi
}

# configure_with_cmake VERSION NAME...: configures a project that wants these components.
configure_with_cmake() {
    version=$1
    shift
    rm -rf "$work/cmake"
    mkdir "$work/cmake"
    cat >"$work/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(caller C)
find_package(yoke $version REQUIRED COMPONENTS $*)
add_executable(first "$DESTDIR$EXAMPLESDIR/first.c")
target_link_libraries(first yoke::yoke)
if(TARGET yoke::mpi)
    add_executable(ranks "$DESTDIR$EXAMPLESDIR/ranks_mpi.c")
    target_link_libraries(ranks yoke::mpi)
endif()
END
    CC=$CC cmake -S "$work/cmake" -B "$work/cmake" -Dyoke_DIR="$DESTDIR$CMAKEDIR" >"$work/output" 2>&1
}

build_with_cmake() {
    command -v cmake >/dev/null || {
        echo "installcheck: no CMake, so its package is not tried"
        return 0
    }
    component=
    [ ! -e "$DESTDIR$PKGCONFIGDIR/yoke-mpi.pc" ] || component=mpi
    ! configure_with_cmake 0.0.1 || die "find_package() takes version $VERSION for 0.0.1"
    ! configure_with_cmake "${VERSION%.*}" none || die "find_package() finds a component \"none\""
    configure_with_cmake "${VERSION%.*}" $component && cmake --build "$work/cmake" >>"$work/output" 2>&1 || {
        cat "$work/output"
        die "an example does not build through find_package()"
    }
    mv "$work/cmake/first" "$work/first_of_cmake.shared"
    programs=$((programs + 1))
    [ -z "$component" ] || {
        mv "$work/cmake/ranks" "$work/ranks_of_cmake.shared"
        programs=$((programs + 1))
    }
}

# The module for Fortran: its types are C's, and the example learns.
build_fortran() {
    fortran=${FC:-gfortran}
    command -v "${fortran%% *}" >/dev/null || {
        echo "installcheck: no Fortran compiler, so its module is not tried"
        return 0
    }
    # A newer compiler may warn of more: that is no reason to fail.
    flags="-std=f2018 -pedantic -Wall -Wextra -J$work"
    includes=$DESTDIR$INCLUDEDIR
    # shellcheck disable=SC2046,SC2086 # words
    $CC $($PKG_CONFIG --cflags yoke) -c "$YOKE_SRCDIR/tests/install/sizes.c" -o "$work/sizes.o" &&
        $fortran $flags "$includes/yoke.f90" "$YOKE_SRCDIR/tests/install/sizes.f90" "$work/sizes.o" \
            -o "$work/sizes.shared" $($PKG_CONFIG --libs yoke) || die "the module for Fortran does not build"
    programs=$((programs + 1))
    if [ -e "$DESTDIR$PKGCONFIGDIR/yoke-mpi.pc" ] && command -v mpif90 >/dev/null; then
        # mpif90 knows where its module is, and what else is to be linked.
        # shellcheck disable=SC2046,SC2086 # words
        mpif90 $flags "$includes/yoke.f90" "$DESTDIR$EXAMPLESDIR/insitu_mpi.f90" -o "$work/insitu_mpi.shared" \
            $($PKG_CONFIG --libs yoke) -lyoke-mpi || die "insitu_mpi.f90 does not build"
        programs=$((programs + 1))
    fi
}

# The whole programs of the documents for those who come from elsewhere.
build_documents() {
    for page in "$YOKE_SRCDIR"/docs/from-*.md; do
        name=$(basename "$page" .md)
        sed -n '/^```c$/,/^```$/ { /^```/d; p }' "$page" >"$work/$name.c"
        grep -q 'int$' "$work/$name.c" || die "${page##*/} has no program"
        build "$CC" c11 "$work/$name.c" "$name"
    done
}

# What needs libyoke.so is only what was built so.
check_linkage() {
    command -v readelf >/dev/null || return 0
    for program in "$work"/*.shared; do
        [ -e "$program" ] || continue
        readelf -d "$program" | grep -q 'NEEDED.*libyoke\.so\.' ||
            die "$program is not linked to the installed shared library"
    done
    for program in "$work"/*.static; do
        [ -e "$program" ] || continue
        if readelf -d "$program" | grep -q 'NEEDED.*libyoke'; then
            die "$program needs the shared library, though linked to libyoke.a"
        fi
    done
}

# chat PROGRAM: it answers each line with one, in the letters of its model, which has no large ones
chat() {
    [ -x "$DESTDIR$BINDIR/yoke" ] || return 0
    [ -s "$work/rhyme.safetensors" ] || {
        for line in 1 2 3 4 5 6 7 8 9 10 11 12; do
            echo "he yokes the two before the plough"
        done >"$work/rhyme.txt"
        "$DESTDIR$BINDIR/yoke" train --model=gpt --layers=1 --heads=1 --width=16 --context=16 --epochs=1 \
            --level=estimate --data="$work/rhyme.txt" --tokenizer=characters \
            --out="$work/rhyme.safetensors" >"$work/training" 2>&1 || die "yoke train: $(cat "$work/training")"
    }
    for line in 1 2 3 4 5 6 7 8; do
        echo "he yokes"
    done | "$1" "$work/rhyme.safetensors" >"$work/answers" 2>&1 || die "${1##*/} with a model: $(cat "$work/answers")"
    ! grep -q -v '^[a-z ]*$' "$work/answers" || die "${1##*/} writes other letters: $(cat "$work/answers")"
    [ "$(wc -l <"$work/answers")" = 8 ] || die "${1##*/} does not stop at the end of a line: $(cat "$work/answers")"
    echo HE | "$1" "$work/rhyme.safetensors" >"$work/answers" 2>&1
    grep -q 'HE\|character' "$work/answers" || die "${1##*/} takes letters its model does not have: $(cat "$work/answers")"
}

# Only where something can run: not for another machine, not without a driver.
run_programs() {
    LD_LIBRARY_PATH=$DESTDIR$LIBDIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    for program in "$work"/*.shared "$work"/*.static; do
        [ -e "$program" ] || continue
        # Where the examples' data lies; those that read what one types have a line.
        if ! (cd "$DESTDIR$EXAMPLESDIR" && echo hello | "$program") >"$work/output" 2>"$work/errors"; then
            if cat "$work/output" "$work/errors" | grep -q 'no OpenCL driver is installed'; then
                echo "installcheck: no OpenCL driver, so nothing is run"
                return 0
            fi
            cat "$work/output" "$work/errors"
            die "${program##*/} failed"
        fi
        case ${program##*/} in
        chat.*)
            [ "$(tr -d '\n' <"$work/output" | wc -c)" -gt 0 ] || die "${program##*/} answers nothing"
            chat "$program"
            ;;
        big.*)
            grep -q '^whole on each device: .*quota' "$work/output" &&
                awk '/^step/ { if (!first) first = $4; last = $4 } END { exit !(last > 0 && last < first / 2) }' "$work/output" ||
                die "${program##*/} is not too large for one device, or does not learn: $(cat "$work/output")"
            ;;
        gpt.*) # from 8 bits, and nothing known of the text
            grep -q '^step 150: 0\.[0-4]' "$work/output" || die "${program##*/} has not learned: $(cat "$work/output")"
            ;;
        esac
        runs=$((runs + 1))
    done
    if [ -x "$DESTDIR$BINDIR/yoke" ]; then
        "$DESTDIR$BINDIR/yoke" devices >"$work/output" 2>&1 || {
            cat "$work/output"
            die "the installed yoke command fails"
        }
        runs=$((runs + 1))
    fi
}

[ "$($PKG_CONFIG --modversion yoke)" = "$VERSION" ] || die "yoke.pc is not of version $VERSION"
for file in README train-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz; do
    [ -s "$DESTDIR$EXAMPLESDIR/data/$file" ] || die "the examples' data is not installed: $file"
done
for source in "$DESTDIR$EXAMPLESDIR"/*.c; do
    [ -e "$source" ] || die "no example is installed"
    name=${source##*/}
    build "$CC" c11 "$source" "${name%.c}"
done
cxx=${CXX:-c++}
if command -v "${cxx%% *}" >/dev/null; then
    build "$cxx" c++11 "$YOKE_SRCDIR/tests/install/caller.cpp" caller
else
    echo "installcheck: no C++ compiler, so no C++ caller"
fi
build_documents
if [ -e "$DESTDIR$LIBDIR/libyoke.so" ]; then
    build_with_cmake
    build_fortran
fi
[ $programs -gt 0 ] || die "no library is installed"
check_linkage
run_programs
rm -rf "$work"
echo "installcheck: $programs programs built, $runs run"
