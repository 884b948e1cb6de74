#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# resnet.py FOLDER - writes resnet.safetensors, the state_dict of a ResNet-18 with
# torchvision's names, 2 channels wide instead of 64, and resnet-io.safetensors, an
# input and the logits that PyTorch computes for it in double precision. Convolutions
# are stored in float16. The files are kept in the tree: tests need no Python.
#
# The writer stands here, so that the files are not ours.
import json
import struct
import sys

import torch
from torch import nn

TYPES = {torch.float32: "F32", torch.float16: "F16", torch.int64: "I64"}


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.downsample = None
        if stride != 1 or channels != filters:
            self.downsample = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False),
                                            nn.BatchNorm2d(filters))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for layer in range(4):
            filters = width << layer
            blocks = [Block(channels, filters, 1 if layer == 0 else 2), Block(filters, filters, 1)]
            setattr(self, "layer%d" % (layer + 1), nn.Sequential(*blocks))
            channels = filters
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for layer in range(4):
            x = getattr(self, "layer%d" % (layer + 1))(x)
        return self.fc(x.mean((2, 3)))


torch.manual_seed(6)
model = ResNet(2, 10)
state = model.state_dict()
for name, value in state.items():
    if name.endswith("running_var") or name.endswith("bn1.weight"):
        value.uniform_(0.5, 1.5)
    elif name.endswith("running_mean"):
        value.uniform_(-0.2, 0.2)
    elif name.endswith("num_batches_tracked"):
        value.fill_(1234)
stored = {name: value.half() if value.dim() == 4 else value for name, value in state.items()}
model.load_state_dict({name: value.float() if value.dim() == 4 else value
                       for name, value in stored.items()})
x = torch.randn(2, 3, 40, 36)
with torch.no_grad():
    logits = model.double().eval()(x.double())
write(sys.argv[1] + "/resnet.safetensors", stored)
write(sys.argv[1] + "/resnet-io.safetensors", {"input": x, "logits": logits.float()})
