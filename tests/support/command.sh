# SPDX-License-Identifier: Apache-2.0
#
# command.sh - $yoke, the command that was built: without libtool's script around it, which takes
# three times as long to start. To be read by a script.

yoke=$YOKE_BUILDDIR/tools/yoke
if [ -x "$YOKE_BUILDDIR/tools/.libs/yoke" ] && [ "$(head -c 2 "$yoke")" = '#!' ]; then
    yoke=$YOKE_BUILDDIR/tools/.libs/yoke
    LD_LIBRARY_PATH=$YOKE_BUILDDIR/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
fi
