# SPDX-License-Identifier: Apache-2.0
#
# check.py FILE - reads a file of weights that yoke wrote, with Python's safetensors
# where that is installed and with a reader of its own always, and compares: every
# element i of the tensor number k is k + i / 8.
import json
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length].decode("utf-8"))
    texts = header.pop("__metadata__", {})
    start, at = 8 + length, 0
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == at and entry["dtype"] == "F32", name
        at = end
        tensors[name] = (entry["shape"],
                         struct.unpack("<%df" % ((end - begin) // 4), data[start + begin:start + end]))
    assert start + at == len(data)
    return texts, tensors


texts, tensors = read(sys.argv[1])
names = ["conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", "dense1.weight", "dense1.bias",
         "bn1.running_mean", "bn1.running_var"]
assert list(tensors) == names, list(tensors)
assert tensors["conv1.weight"][0] == [3, 2, 3, 3], tensors["conv1.weight"][0]
for number, name in enumerate(names):
    for i, value in enumerate(tensors[name][1]):
        assert value == number + i / 8, (name, i, value)
graph = json.loads(texts["yoke.graph"])
assert [node["op"] for node in graph["nodes"]][:3] == ["input", "target", "conv2d"]
assert json.loads(texts["yoke.classes"]) == ["one", "two"]
assert json.loads(texts["yoke.input"])["type"] == "u8"
try:
    from safetensors import safe_open
except ImportError:
    sys.exit(0)
with safe_open(sys.argv[1], framework="np") as file:
    assert sorted(file.keys()) == sorted(names)
    assert file.metadata() == texts
    for name in names:
        assert file.get_tensor(name).reshape(-1).tolist() == list(tensors[name][1]), name
