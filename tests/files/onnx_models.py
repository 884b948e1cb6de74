#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# onnx_models.py FOLDER - writes small models of random weights as PyTorch exports them to ONNX, and what
# PyTorch computes with them in double precision: FOLDER/NAME.onnx and FOLDER/NAME-io.safetensors
# with data, outputs, labels and the gradients of the sum of cross-entropies. residual, masked, words
# and grown are of the older exporter, images and attention of the one on torch.export. They are kept in
# the tree: the tests need no Python.
import json
import logging
import struct
import sys
import warnings

try:
    import onnxscript  # noqa: F401
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

TYPES = {torch.float32: "F32", torch.int32: "I32"}


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Residual(nn.Module):
    """A stem, a block with a shortcut, batch norms, and means over an image."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        x = F.avg_pool2d(F.gelu(self.bn1(self.conv1(x))), 2)
        x = F.silu(self.bn2(self.conv2(x)) + x)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Images(nn.Module):
    """Groups, dilation, uneven padding, a transposed convolution, and elements."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=2, dilation=2, groups=2)
        self.up = nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1)
        self.slope = nn.PReLU(3)
        self.scale = nn.Parameter(torch.ones(3, 1, 1))
        self.fc1 = nn.Linear(3, 6)
        self.fc2 = nn.Linear(6, 5)

    def forward(self, x):
        x = F.pad(F.elu(self.conv(x)), (1, 0, 0, 1))
        x = F.max_pool2d(self.slope(self.up(x)) * self.scale, 3, 2, 1)
        x = torch.tanh(self.fc1(x.mean((2, 3))))
        return F.log_softmax(self.fc2(torch.exp(x) / (1 + x * x).sqrt()), 1)


class Attention(nn.Module):
    """A block of a transformer over rows of floats, with a causal mask and a class token: PyTorch's
    function, or what it computes by hand."""

    def __init__(self, by_hand, width=8, heads=2, rows=4):
        super().__init__()
        self.by_hand = by_hand
        self.heads = heads
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, rows + 1, width))
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, 5)
        self.register_buffer("mask", torch.tril(torch.ones(rows + 1, rows + 1)))
        self.register_buffer("seen", torch.arange(width) % 3 > 0)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if self.by_hand:
            scores = (q @ k.transpose(-2, -1)) * 0.5
            scores = scores.masked_fill(self.mask[:t, :t] == 0, float("-inf"))
            y = torch.softmax(scores, -1) @ v
            x = torch.where(self.seen, x, 0.25)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head((x + self.out(y.transpose(1, 2).reshape(n, t, c)))[:, -1])


class Words(nn.Module):
    """Rows of a table, which is the matrix of the last layer too."""

    def __init__(self, words=5, width=6):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.table(x).mean(1)
        y = y + self.back(F.gelu(self.wide(self.norm(y)), approximate="tanh"))
        return y @ self.table.weight.transpose(0, 1)


class Grown(nn.Module):
    """Upsampling, nearest and between the centres of pixels."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 2, 3)
        self.fc = nn.Linear(2 * 12 * 6, 5)

    def forward(self, x):
        x = F.interpolate(torch.tanh(self.first(x)), scale_factor=(2, 2), mode="nearest")
        x = F.interpolate(self.second(x), scale_factor=(2, 1), mode="bilinear")
        return self.fc(torch.flatten(x, 1))


def export(model, x, path, dynamo):
    # So weights keep their names, and batch norms are not folded into the convolutions before them.
    mode = torch.onnx.TrainingMode.PRESERVE
    if dynamo:
        torch.onnx.export(model, (x,), path, dynamo=True, opset_version=18, external_data=False, verbose=False,
                          optimize=False, dynamic_shapes=({0: torch.export.Dim("batch")},))
    else:
        torch.onnx.export(model, (x,), path, dynamo=False, opset_version=13, training=mode, do_constant_folding=False,
                          input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})


def strip(path):
    """Leaves out what exporters note for people: it is most of a small file."""
    import onnx

    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in list(model.graph.input) + list(model.graph.output) + list(model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.value_info[:]
    del model.metadata_props[:]
    onnx.save(model, path)


def make(folder, name, model, x, dynamo):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p + 0.3 * torch.randn_like(p))
        for key, b in model.named_buffers():
            if "running" in key:
                b.copy_(torch.rand_like(b) + 0.5)
    model.eval()
    path = folder + "/" + name + ".onnx"
    export(model, x, path, dynamo)
    strip(path)
    model.double()
    data = x.double() if x.is_floating_point() else x
    label = torch.randint(0, 5, (len(x),))
    out = {"x": x if x.is_floating_point() else x.int(), "y": model(data).float(), "label": label.int()}
    model.train()
    F.cross_entropy(model(data), label, reduction="sum").backward()
    for key, p in model.named_parameters():
        out["gradient." + key] = p.grad.float()
    write(folder + "/" + name + "-io.safetensors", out)


warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
torch.manual_seed(3)
make(sys.argv[1], "residual", Residual(), torch.randn(4, 2, 8, 8), False)
make(sys.argv[1], "images", Images(), torch.randn(4, 2, 6, 5), True)
make(sys.argv[1], "attention", Attention(False), torch.randn(4, 4, 8), True)
make(sys.argv[1], "masked", Attention(True), torch.randn(4, 4, 8), False)
make(sys.argv[1], "words", Words(), torch.randint(0, 5, (4, 7)), False)
make(sys.argv[1], "grown", Grown(), torch.randn(4, 2, 4, 4), False)
