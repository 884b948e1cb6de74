#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# manpages.sh - the manual says what there is, and nothing else.
#
# Every function that yoke.h declares, inline ones too, can be found under its
# name, and its page shows the parameters that the header has; every name in a
# page is in the header; every status code has its line. Every command in --help
# has a page, and every option in either is in the other.

set -u

cd "$YOKE_SRCDIR" || exit
work=$YOKE_BUILDDIR/tests/man/manpages.tmp
rm -rf "$work"
mkdir -p "$work"
failures=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# same WHAT A B: two sorted lists are equal
same() {
    diff "$2" "$3" >"$work/diff" && return
    fail "$1"
    cat "$work/diff"
}

headers="lib/yoke*.h mpi/yoke-mpi.h"

# Prototypes of the headers, a line each: the compiler drops comments (system headers are left out),
# then bodies and structs go. What has
# matching parentheses after a name of ours, and a semicolon after them, is a declaration.
grep -hv '^#include' $headers | $CC -E -P -x c - | awk '
    { text = text " " $0 }
    END {
        while (gsub(/\{[^{}]*\}/, ";", text))
            ;
        gsub(/[ \t]+/, " ", text)
        while (match(text, /yoke_[a-z0-9_]+ ?\(/)) {
            depth = 1
            for (i = RSTART + RLENGTH; depth && i <= length(text); i++) {
                c = substr(text, i, 1)
                depth += (c == "(") - (c == ")")
            }
            line = substr(text, RSTART, i - RSTART)
            text = substr(text, i)
            if (text ~ /^ ?;/)
                print line
        }
    }' | sed -e 's/ *(/(/' -e 's/( /(/' | sort -u >"$work/declared"
# A macro that is used like a function has a page like one.
sed -n 's/^#define \(yoke_[a-z0-9_]*\)(.*/\1/p' $headers >"$work/macros"
sed 's/(.*//' "$work/declared" | sort -u - "$work/macros" >"$work/functions"
[ "$(wc -l <"$work/functions")" -ge 20 ] || fail "the headers could not be read"

# ---- section 3 ----

sh man/aliases.sh man/*.3 >"$work/aliases"
{
    cut -d' ' -f1 "$work/aliases"
    # a page may be called after an object, or after a function
    for page in man/*.3; do
        basename "$page" .3
    done | grep -F -x -f "$work/functions"
} | sort >"$work/names"
uniq -d "$work/names" >"$work/twice"
[ ! -s "$work/twice" ] || fail "in more than one page: $(cat "$work/twice")"
same "functions of the headers (<) and names of pages (>) differ" "$work/functions" "$work/names"

# Synopses of the pages in the form of a prototype. `.Fo`, `.Fa`..., `.Fc` or `.Fn` with words in
# quotes; the _sized functions, which pages mention but do not show, are left out.
awk '
    $1 == ".Sh" { synopsis = $2 == "SYNOPSIS" }
    !synopsis { next }
    $1 == ".Fo" { line = $2 "("; between = "" }
    $1 == ".Fa" { sub(/^\.Fa "?/, ""); sub(/"$/, ""); line = line between $0; between = ", " }
    $1 == ".Fc" { print line ")" }
    $1 == ".Fn" {
        line = $2 "("
        sub(/^\.Fn [a-z0-9_]+ /, "")
        gsub(/" "/, ", ")
        gsub(/"/, "")
        print line $0 ")"
    }' man/*.3 | sort >"$work/synopses"
grep -v '^[a-z0-9_]*_sized(' "$work/declared" | sort >"$work/shown"
same "prototypes of the headers (<) and synopses of pages (>) differ" "$work/shown" "$work/synopses"

sed -n 's/^ *X(\(-\{0,1\}[0-9]*\), \([A-Z_]*\), .*/YOKE_\2 \1/p' lib/yoke-device.h | sort >"$work/codes"
sed -n 's/^\.It Dv \(YOKE_[A-Z_]*\) Pq \(.*\)/\1 \2/p' man/yoke_status.3 | sort >"$work/lines"
[ -s "$work/codes" ] || fail "no status codes in yoke.h"
same "codes of yoke.h (<) and of yoke_status(3) (>) differ" "$work/codes" "$work/lines"

# Names of constants and members of structs that pages speak of exist.
for page in man/*.[37]; do
    sed -n -e '/^\.Sh EXAMPLES/,$d' -e 's/^\.Dv /, &/p' -e 's/^\.It Dv /, .Dv /p' "$page" |
        grep -o 'YOKE_[A-Z0-9_]*' | sort -u | while read -r name; do
        cat $headers | grep -q -E "\\b($name|${name#YOKE_})\\b" ||
            grep -q -w -r -e "\"$name\"" lib mpi || echo "$page: $name is in no header"
    done
done >"$work/strange"
[ ! -s "$work/strange" ] || fail "$(cat "$work/strange")"

# The reverse: every constant of the header and every member of its structs stands in a page.
# Without comments and prototypes what has the form `name[8], other;` inside braces is members.
sed -n -e 's/^#define \(YOKE_[A-Z0-9_]*\) .*/\1/p' \
    -e 's/^    \(YOKE_[A-Z0-9_]*\)\( = [^,]*\)\{0,1\},\{0,1\}\( .*\)\{0,1\}$/\1/p' $headers |
    grep -v -E '^YOKE_(API|[A-Z]*_?H|STATUS_MAP|STATUS_ENUM|STATUS_RESERVED)$' >"$work/words"
awk '
    /^typedef struct [a-z0-9_]* \{/ { inside = 1; next }
    /^}/ { inside = 0 }
    inside {
        if (comment) { comment = !/\*\//; next }
        comment = /\/\*/ && !/\*\//
        sub(/\/\*.*/, "")
        if (!/;/) next
        sub(/;.*/, "")
        gsub(/\[[^]]*\]/, "")
        gsub(/[(*)]/, " ")
        n = split($0, names, /,/)
        for (i = 1; i <= n; i++) {
            k = split(names[i], words, / +/)
            while (k > 1 && words[k] == "") k--
            print words[k]
        }
    }' $headers >>"$work/words"
[ "$(wc -l <"$work/words")" -ge 30 ] || fail "no constants and members in yoke.h"
sort -u "$work/words" | while read -r word; do
    grep -q -w -e "$word" man/*.3 || echo "$word of the headers is in no page"
done >"$work/untold"
[ ! -s "$work/untold" ] || fail "$(cat "$work/untold")"

# ---- references: to a page that is here, or to one of the system ----

cat man/*.[1-9] | sed -n 's/^\.Xr \([^ ]*\) \([0-9]\).*/\1.\2/p' | sort -u | while read -r page; do
    case $page in
    yoke*) [ -f "man/$page" ] || grep -q "^${page%.3} " "$work/aliases" || echo "$page" ;;
    esac
done >"$work/missing"
[ ! -s "$work/missing" ] || fail "pages refer to $(cat "$work/missing")"

# ---- commands and their options ----

# options FILE: the options of a --help, "-x" and "--long=ARG", a line each
help_options() {
    sed -n '/^Options:/,$p' "$1" | grep -o -E '^ +(-[a-zA-Z], )?--[a-z0-9-]+(=[A-Z|]+)?' |
        tr ', ' '\n\n' | grep . | sort -u
}

# The same of a page: items of its lists that begin with Fl.
page_options() {
    sed -n 's/^\.It Fl //p' "$1" | sed -e 's/ Ns = Ns Ar /=/g' -e 's/ Ns | Ns Ar /|/g' | awk '{
        n = split($0, words, / , Fl /)
        for (i = 1; i <= n; i++) print "-" words[i]
    }' | sort -u
}

# commands FILE: what a --help lists
commands() {
    sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z0-9-]*\) .*/\1/p' "$1"
}

. "$YOKE_SRCDIR/tests/support/command.sh"
if [ -x "$yoke" ]; then
    "$yoke" --help >"$work/help" || fail "yoke --help"
    help_options "$work/help" >"$work/a"
    page_options man/yoke.1 >"$work/b"
    same "options of yoke --help (<) and yoke(1) (>) differ" "$work/a" "$work/b"
    commands "$work/help" | sort >"$work/commands"
    [ -s "$work/commands" ] || fail "yoke --help lists no command"
    sed -n 's/^\.It Cm \([a-z-]*\)$/\1/p' man/yoke.1 | sort >"$work/b"
    same "commands of yoke --help (<) and yoke(1) (>) differ" "$work/commands" "$work/b"
    for page in man/yoke-*.1; do
        page=${page#man/yoke-}
        echo "${page%.1}"
    done | sort >"$work/b"
    same "commands (<) and their pages (>) differ" "$work/commands" "$work/b"

    while read -r command; do
        page=man/yoke-$command.1
        [ -f "$page" ] || continue
        "$yoke" "$command" --help >"$work/help" || fail "yoke $command --help"
        help_options "$work/help" >"$work/a"
        commands "$work/help" | sort >"$work/subcommands"
        while read -r sub; do
            "$yoke" "$command" "$sub" --help >"$work/help" || fail "yoke $command $sub --help"
            help_options "$work/help" >>"$work/a"
            grep -q "^\\.It Cm $sub\$" "$page" || fail "$page does not speak of $sub"
        done <"$work/subcommands"
        sort -u "$work/a" >"$work/a.sorted"
        page_options "$page" >"$work/b"
        same "options of yoke $command --help (<) and $page (>) differ" "$work/a.sorted" "$work/b"
    done <"$work/commands"

    # Every built-in model has a place in each list of them. (The program names one and lists the others.)
    for model in lenet $("$yoke" info lenet | sed -n 's/^others *//p'); do
        for list in README.md docs/tour.md man/yoke-train.1 man/yoke-bench.1 man/yoke_zoo.3; do
            grep -q -w -e "$model" $list || fail "$list does not list the model $model"
        done
    done
else
    echo "without the command: its pages are not checked"
fi

echo "$(wc -l <"$work/functions") functions, $failures failures"
[ $failures -gt 0 ] || rm -rf "$work"
[ $failures -eq 0 ]
