#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# onnx_runtime.py FOLDER - compares what onnxruntime computes with each FOLDER/NAME.onnx, which yoke
# wrote, with the outputs that yoke computed (NAME-io.safetensors): for all samples, for the first
# one, and of causal sequences for the first rows; and lets the package onnx check the file.
import glob
import json
import struct
import sys

import numpy
import onnx
import onnxruntime

KINDS = {"F32": numpy.float32, "I32": numpy.int32}
TOLERANCE = 1e-5


def read(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = numpy.frombuffer(raw[8 + size + begin:8 + size + end],
                                             KINDS[entry["dtype"]]).reshape(entry["shape"])
    return tensors


onnxruntime.set_default_logger_severity(3)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
paths = sorted(glob.glob(sys.argv[1] + "/*.onnx"))
failures = 0
for path in paths:
    io = read(path[:-len(".onnx")] + "-io.safetensors")
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    x = io["x"].astype(numpy.int64 if given.type == "tensor(int64)" else numpy.float32)
    sequence = len(given.shape) > 1 and given.shape[1] == "T"
    for count, rows in (len(x), None), (1, None), (2, 5):
        if rows and not sequence:
            continue
        part = x[:count, :rows] if rows else x[:count]
        y = session.run(None, {given.name: part})[0]
        wanted = io["y"].reshape((len(x),) + (x.shape[1:2] if sequence else ()) + (-1,))[:count]
        wanted = (wanted[:, :rows] if rows else wanted).reshape(-1)
        y = y.reshape(-1)
        error = numpy.abs(y - wanted).max() / max(numpy.abs(wanted).max(), 1e-30)
        if y.shape != wanted.shape or not error < TOLERANCE:
            print(f"{path}: {count} samples: error {error}")
            failures += 1
print(f"{len(paths)} models")
sys.exit(1 if failures or len(paths) < 40 else 0)
