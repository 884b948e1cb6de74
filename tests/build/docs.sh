#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs.sh - what the documents name exists: relative links and the headings they point at, files
# and folders of the tree, functions and types called yki_x or yoke_x, and functions in the files
# that are named for them. Every file of docs/ is in the release.

set -eu
export LC_ALL=C

work=${YOKE_BUILDDIR:?}/tests/build/docs.tmp
rm -rf "$work"
mkdir -p "$work"
cd "${YOKE_SRCDIR:?}"
status=0

fail() {
    echo "$1"
    status=1
}

documents=$(ls README.md HACKING.md BENCHMARKS.md CONTRIBUTING.md SECURITY.md docs/*.md docs/*/*.md)

# One finding a line: DOCUMENT WORD. Words hold no blanks.
find_words() {
    for document in $documents; do
        grep -oE -e "$1" "$document" | sort -u | sed "s|^|$document |" || true
    done
}

# The anchors of a page, as GitHub and GitLab make them of its headings.
anchors_of() {
    sed -n '/^```/,/^```/d; s/^##* *//p' "$1" | tr '[:upper:]' '[:lower:]' |
        sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# ---- links ----

find_words '\]\([^) ]+\)' | sed 's/\](\(.*\))$/\1/' >"$work/links"
while read -r document link; do
    case $link in
    *://* | mailto:*) continue ;;
    esac
    file=${link%%#*}
    target=$document
    [ -z "$file" ] || target=$(dirname "$document")/$file
    if [ ! -e "$target" ]; then
        fail "$document: the link to $link leads nowhere"
    elif [ "$link" != "$file" ] && ! anchors_of "$target" | grep -qxF -e "${link#*#}"; then
        fail "$document: $target has no heading for the link to $link"
    fi
done <"$work/links"

# ---- files and folders ----

folders='(lib|mpi|tools|examples|tests|man|docs|clkernels|m4)'
find_words "(^|[^A-Za-z0-9_./-])$folders/[A-Za-z0-9_./*<>-]*[A-Za-z0-9_/*]" |
    sed 's/ [^A-Za-z]*\([A-Za-z]\)/ \1/' | sort -u >"$work/paths"
while read -r document path; do
    case $path in
    *'<'* | */NAME) continue ;; # whatever the reader calls it
    esac
    for found in $path; do # a pattern may be meant, or a program of the tests
        [ -e "$found" ] || [ -e "$found.c" ] || fail "$document: there is no $path"
        break
    done
done <"$work/paths"

# Names alone, as `step.c`, are those of some file.
find lib mpi tools examples tests clkernels -type f | sed 's|.*/||' | sort -u >"$work/files"
find_words '`[A-Za-z0-9_]+\.(c|h|cl|sh)`' | tr -d '`' >"$work/names"
while read -r document name; do
    grep -qxF -e "$name" "$work/files" || fail "$document: no file is called $name"
done <"$work/names"

# `function` (`file`) says where it is; in a table and across a line, too.
for document in $documents; do
    tr '\n' ' ' <"$document" | tr -s ' ' |
        grep -oE '`[a-z_0-9]+` \(`(lib|mpi|tools|clkernels)/[A-Za-z0-9_/.]+`' |
        tr -d '`(' | sed "s|^|$document |" || true
done >"$work/homes"
while read -r document name file; do
    [ ! -f "$file" ] || grep -qE "\b$name\b" "$file" || fail "$document: $name is not in $file"
done <"$work/homes"

# ---- functions and types ----

grep -rhoE --include='*.[ch]' --include='*.cl' '\b(yki|yoke)_[A-Za-z0-9_]+' \
    lib mpi clkernels tools |
    sort -u >"$work/known"
sed 's/_sized$//' tests/symbols >>"$work/known" # of inline functions that macros make
find man -name 'yoke*.[137]' | sed 's|man/\(.*\)\.[137]$|\1|' >>"$work/known"
find_words '\b(yki|yoke)_[A-Za-z0-9_]*[A-Za-z0-9]' >"$work/functions"
while read -r document name; do
    grep -qxF -e "$name" "$work/known" || fail "$document: nothing in lib/, mpi/, clkernels/ or tools/ is called $name"
done <"$work/functions"

# Other names of the code stand in backquotes and hold an underscore: static functions, members.
grep -IrhoE '[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+' lib mpi clkernels tools tests examples | sort -u >"$work/all"
find_words '`[a-z][a-z0-9]*(_[a-z0-9]+)+`' | tr -d '`' >"$work/members"
while read -r document name; do
    grep -qxF -e "$name" "$work/all" || fail "$document: nothing in the code is called $name"
done <"$work/members"

# ---- the release ----

find docs -type f ! -name Makemodule.am ! -name '*~' | sort >"$work/there"
sed -n 's|^EXTRA_DIST += \(docs/.*\)|\1|p' docs/Makemodule.am | sort >"$work/released"
diff "$work/there" "$work/released" >"$work/difference" ||
    fail "docs/ (<) is not what docs/Makemodule.am releases (>):
$(cat "$work/difference")"

# A test that finds nothing to look at would be silent, too.
for list in links paths names functions members; do
    [ "$(wc -l <"$work/$list")" -ge 5 ] || fail "$list: next to none were found"
done
[ $status -ne 0 ] || rm -rf "$work"
exit $status
