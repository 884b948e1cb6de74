#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# commits.sh - the subjects of the newest 20 commits are `area: what changes`, of at most 72
# characters (HACKING.md, "Rules of the house"). Skipped where the sources are no clone, or git is missing.

set -u
cd "${YOKE_SRCDIR:?}" || exit 1
skip() {
    echo "$*"
    exit 77
}

command -v git >/dev/null || skip "there is no git"
[ -e .git ] || skip "the sources are no clone"
subjects=$(git log --no-merges -n 20 --format=%s 2>/dev/null) || skip "git cannot read the log"

echo "$subjects" | LC_ALL=C awk '
    BEGIN { area = "[A-Za-z][A-Za-z0-9_./-]*" }
    $0 !~ "^" area "(, " area ")*: [^ ]" { print "FAIL: no area: " $0; bad = 1 }
    length($0) > 72 { print "FAIL: " length($0) " characters: " $0; bad = 1 }
    END { exit bad }'
