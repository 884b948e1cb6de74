#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# aliases.sh PAGE... - a line "NAME PAGE" for every other name under which a page
# of section 3 is to be found: those in its NAME section, and the exported
# functions (`..._sized`) that it says its inline wrappers call.
set -eu
for page in "$@"; do
    base=${page##*/}
    awk -v page="$base" '
        $1 == ".Sh" { section = $2 }
        section == "NAME" && $1 == ".Nm" { print $2, page }
        ($1 == ".Fn" || $1 == ".Fo") && $2 ~ /_sized$/ { print $2, page }
    ' "$page"
done | sort -u | awk '$1 ".3" != $2'
