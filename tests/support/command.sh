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

# write_graph FILE [LAYERS]: a dense layer, behind these, for the digits of examples/data
write_graph() {
    cat >"$1" <<END
{"nodes": [
  {"op": "input", "name": "image", "type": "f32", "shape": [1, 8, 8]},
  {"op": "flatten"}, ${2:-}
  {"op": "dense", "name": "fc", "units": 10},
  {"op": "target", "name": "label", "type": "i32", "shape": []},
  {"op": "softmax_cross_entropy", "name": "ce", "inputs": ["fc", "label"]},
  {"op": "accuracy", "name": "acc", "inputs": ["fc", "label"]}],
 "outputs": {"logits": "fc"}, "loss": "ce", "metrics": {"accuracy": "acc"}}
END
}
