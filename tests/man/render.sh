#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# render.sh - every page is formatted without a complaint, by each formatter that
# is installed: groff with all warnings, man, mandoc's lint.
#
# groff formats with a ragged right edge (AD=l): groff 1.23 complains of each line of one word that it
# cannot stretch to the edge, and a synopsis has many.

set -u

cd "$YOKE_SRCDIR/man" || exit
unset MANPAGER PAGER MANOPT
status=0
count=0

complain() {
    echo "FAIL: $1"
    echo "$2" | sed 's/^/    /'
    status=1
}

for page in *.[1-9]; do
    if command -v groff >/dev/null; then
        count=$((count + 1))
        said=$(groff -mandoc -dAD=l -Tascii -ww -z "$page" 2>&1)
        [ -z "$said" ] || complain "groff $page" "$said"
    fi
    if command -v mandoc >/dev/null; then
        count=$((count + 1))
        said=$(mandoc -T lint -W warning "$page" 2>&1) || complain "mandoc $page" "$said"
    fi
    if man --version 2>/dev/null | grep -q '^man '; then
        count=$((count + 1))
        said=$(man --warnings -l "$page" 2>&1 >/dev/null) || complain "man $page" "$said"
        [ -z "$said" ] || complain "man $page" "$said"
    fi
    # Words of English that are macros of mdoc, where a line begins with a macro, vanish or are
    # set in brackets ("In mid-run" becomes "<mid-run>"): quoted, or "\&" before them, they are words.
    taken=$(awk '/^\.(Sh|Ss|Nd) / && / (A[dnt]|Do|E[mns]|I[nc]|L[bi]|N[mos]|Op|S[oy]) / ||
        !/^\.In / && /^\.[A-Z][a-z] (.* )?(A[dnt]|Bx|D[ox]|E[nso]|Fr|Hf|In|L[bk]|Ms|O[tx]|S[ot]|Tn) /' "$page")
    [ -z "$taken" ] || complain "$page: words that mdoc takes for macros" "$taken"
    if command -v groff >/dev/null; then
        # What such a slip leaves behind: a word as if it were a header, a quote inside a quote.
        odd=$(groff -mandoc -Tascii -P-cbou "$page" |
            grep -n -E "<[^>]*>|[[:alnum:]]\"\"|'[a-z]+='[a-z]+''" | grep -v -E '<[a-z/-]+\.h>|<\|[a-z_]+\|>')
        [ -z "$odd" ] || complain "$page: renders oddly" "$odd"
    fi
    long=$(awk 'length > 100' "$page")
    [ -z "$long" ] || complain "$page: lines of more than 100 characters" "$long"
done
echo "$count pages formatted"
[ $count -gt 0 ] || exit 77
exit $status
