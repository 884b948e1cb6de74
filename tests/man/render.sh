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
    long=$(awk 'length > 100' "$page")
    [ -z "$long" ] || complain "$page: lines of more than 100 characters" "$long"
done
echo "$count pages formatted"
[ $count -gt 0 ] || exit 77
exit $status
