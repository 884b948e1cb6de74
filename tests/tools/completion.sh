#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# completion.sh - what bash offers after `yoke`: commands, options, models, files.

if [ -z "${BASH_VERSION-}" ]; then
    command -v bash >/dev/null || exit 77
    exec bash "$0"
fi
set -u
# shellcheck source=/dev/null
. "$YOKE_SRCDIR/tools/completion/yoke" || exit 1
. "$YOKE_SRCDIR/tests/support/command.sh"
failures=0

# offers WORD... : the last one is being typed
offers() {
    COMP_WORDS=(yoke "$@")
    COMP_CWORD=$#
    _yoke "$yoke" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
    echo " ${COMPREPLY[*]-} "
}

expect() {
    local wanted=$1
    shift
    case $(offers "$@") in
    *" $wanted "*) ;;
    *)
        echo "FAIL: 'yoke $*' offers '$(offers "$@")', without '$wanted'"
        failures=$((failures + 1))
        ;;
    esac
}

expect train tr
expect devices ''
expect --devices= train --dev
expect --json bench tiny --js
expect lenet train --model = le
for model in $("$yoke" bench --help | sed -n 's/.*built-in model //p'); do
    expect "$model" train --model = ''
done
expect tiny train --model = ti
expect resnet18 bench res
expect resnet34 train --model = res
expect resnet50 train --model = res
expect help he
expect train help tr
expect "$YOKE_SRCDIR/README.md" train --data = "$YOKE_SRCDIR/READ"
[ $failures -eq 0 ]
