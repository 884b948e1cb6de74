#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# embed.sh - clkernels/embed.sh gives the bytes of a file back, whatever is in it: each
# nasty file is embedded, compiled (with trigraphs, in strict C11), printed and compared.
# With every awk and shell at hand.
set -eu
: "${YOKE_SRCDIR:=.}" "${CC:=cc}"
embed=$YOKE_SRCDIR/clkernels/embed.sh
dir=$(mktemp -d "${TMPDIR:-/tmp}/yoke-embed-XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail()
{
    echo "embed.sh: $*" >&2
    exit 1
}

# Prints the strings of the table from the second on: the first must be the #line.
cat >"$dir/print.c" <<'END'
#include <stdio.h>
#include <string.h>
#include "device/sources.h"
int main(int argc, char **argv)
{
    for (size_t i = 0; i < yki_kernel_source_count; i++) {
        char name[256], first[300];
        FILE *out;
        snprintf(name, sizeof name, "%s.out", yki_kernel_sources[i].file);
        snprintf(first, sizeof first, "#line 1 \"%s\"\n", yki_kernel_sources[i].file);
        if (strcmp(yki_kernel_sources[i].lines[0], first) || !(out = fopen(name, "wb")))
            return 1;
        for (size_t j = 1; j < yki_kernel_sources[i].line_count; j++) {
            if (strlen(yki_kernel_sources[i].lines[j]) > 4095)
                return 2; /* what a C compiler need take */
            fputs(yki_kernel_sources[i].lines[j], out);
        }
        if (fclose(out))
            return 1;
    }
    return argc < 1 || !argv || yki_kernel_source_count == 0;
}
END

mkdir "$dir/in" "$dir/in/clkernels"
in=$dir/in/clkernels
printf 'plain\nlines\n' >"$in/plain.cl"
: >"$in/empty.cl"
printf '\n' >"$in/newline.cl"
printf '\n\n\n' >"$in/newlines.cl"
printf 'no end' >"$in/no-end.cl"
printf 'no end but a backslash \\' >"$in/no_end_backslash.cl"
printf 'ends with a return\r' >"$in/return.cl"
printf 'dos\r\nlines\r\n\r\nhere\r\n' >"$in/dos.cl"
printf '\\ \\\\ \\n \\t \\" \\\n#define A \\\n  1 \\\\\n' >"$in/backslash.cl"
printf '"quoted" \047single\047 "\\"" %%s %%d %%%% & && \\& $HOME `x` $(x)\n' >"$in/quote.cl"
printf '??= ??( ??/ ??/\n??) ??'"'"' ??< ??! ??> ??- ???= ? ??\n' >"$in/trigraph.cl"
printf '\ttab\t\v\f\a end \n  spaces  \n' >"$in/space.cl"
printf '\303\244 \342\202\254 UTF-8\n' >"$in/bytes.cl"
# Long lines, also where the cut falls beside what is escaped, and without an end.
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "\\\"?"; print ""
             for (n = 995; n < 1006; n++) { for (i = 0; i < n; i++) printf "x"; print "\\\"??=" }
             for (i = 0; i < 50000; i++) printf "long "; }' >"$in/long.cl"
files=$(cd "$dir/in" && ls clkernels/*.cl)

tried=0
for shell in sh dash bash "busybox sh" ksh; do
    command -v "${shell%% *}" >/dev/null || continue
    for awk in awk mawk gawk original-awk bwk; do
        command -v "$awk" >/dev/null || continue
        # shellcheck disable=SC2086 # words are meant
        AWK=$awk $shell "$embed" "$dir/in" $files >"$dir/sources.c" ||
            fail "$shell with $awk: it fails"
        # shellcheck disable=SC2086
        $CC -std=c11 -pedantic-errors -I"$YOKE_SRCDIR/lib" -o "$dir/print" "$dir/print.c" \
            "$dir/sources.c" || fail "$shell with $awk: the table does not compile"
        rm -f "$dir"/*.out
        (cd "$dir" && ./print) || fail "$shell with $awk: the table is wrong"
        for file in $files; do
            cmp "$dir/in/$file" "$dir/${file##*/}.out" ||
                fail "$shell with $awk: ${file##*/} differs"
        done
        tried=$((tried + 1))
    done
done
[ "$tried" -gt 0 ] || fail "no shell and awk to try"

# What cannot be embedded is refused, not skipped.
sh "$embed" "$dir/in" clkernels/missing.cl >"$dir/out" 2>&1 && fail "a missing file is taken"
cp "$in/plain.cl" "$in/a\"b.cl"
sh "$embed" "$dir/in" 'clkernels/a"b.cl' >"$dir/out" 2>&1 && fail "a bad name is taken"
cp "$in/plain.cl" "$in/plain.c"
sh "$embed" "$dir/in" clkernels/plain.c >"$dir/out" 2>&1 && fail "another suffix is taken"

# Each kernel says how its groups are by YKI_GROUP: without the hint in it Intel's compiler makes a
# second version of each, of several work-items at once, which takes five times as long.
bare=$(grep -n '__kernel' "$YOKE_SRCDIR"/clkernels/*.cl | grep -v 'YKI_GROUP(') || true
[ -z "$bare" ] || fail "kernels without YKI_GROUP: $bare"
grep -q '^#define YKI_GROUP.*vec_type_hint' "$YOKE_SRCDIR/clkernels/common.cl" || fail "YKI_GROUP has no hint"
echo "$tried combinations of shell and awk"
