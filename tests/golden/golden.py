#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of this folder: small networks trained by PyTorch.

For each: parameters before and after 10 steps of SGD, or of AdamW for language models, the
data of each step, and the losses. check_golden.c trains the same networks from the same start and
compares. Run it only to make the files anew; the tests need no Python.

A file: lines of text "name type rank sizes...", each followed by that many
little-endian 4-byte values.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, BATCH = 10, 8

# An argument of relu within rounding of 0 is switched by another order of sums, and a whole
# channel's gradient with it. So a seed is taken for which none comes nearer to 0 than this.
MARGIN = 2e-6
nearest = [1.0]


def relu(x):
    nearest[0] = min(nearest[0], float(x.detach().abs().min()))
    return F.relu(x)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(12, 16)
        self.fc2 = nn.Linear(16, 5)

    def forward(self, x):
        return self.fc2(relu(self.fc1(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 5, stride=2, padding=2, groups=2)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv3 = nn.Conv2d(12, 12, 3, padding=2, dilation=2, groups=12, bias=False)
        self.fc1 = nn.Linear(12, 4)

    def forward(self, x):
        x = F.max_pool2d(relu(self.conv1(x)), 2)
        x = F.silu(self.bn1(self.conv2(x)))
        x = F.leaky_relu(self.conv3(x), 0.1)
        return self.fc1(x.mean(dim=(2, 3)))


class Block(nn.Module):
    def __init__(self, cin, cout, stride, act):
        super().__init__()
        self.act = act
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False),
                                            nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
        return self.act(y + (x if self.downsample is None else self.downsample(x)))


class Residual(nn.Module):
    """16 and 32 channels: enough for Winograd."""

    def __init__(self, act=relu):
        super().__init__()
        self.act = act
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1, act))
        self.layer2 = nn.Sequential(Block(16, 32, 2, act))
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(self.act(self.bn1(self.conv1(x)))))
        return self.fc(x.mean(dim=(2, 3)))


class Sequence(nn.Module):
    """Embedding, layer norm, gelu, a product of two computed matrices; regression."""

    def __init__(self):
        super().__init__()
        self.embedding1 = nn.Embedding(11, 8)
        self.ln1 = nn.LayerNorm([6, 8])
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        x = self.ln1(self.embedding1(x))
        y = F.gelu(self.fc1(x))
        scores = torch.softmax(y @ x.transpose(1, 2) * 0.5, dim=2)
        return self.fc2(torch.tanh(scores @ y))


WIDTH, HEADS, SHARED, TOKENS, LENGTH = 16, 4, 2, 19, 7


def attend(q, k, v):
    """Causal; heads of q in groups share those of k and v."""
    q, k, v = (x.unflatten(2, (-1, WIDTH // HEADS)).transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(HEADS // x.shape[1], dim=1) for x in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).flatten(2)


class GptBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(WIDTH, 3 * WIDTH), "c_proj": nn.Linear(WIDTH, WIDTH)})
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(WIDTH, 4 * WIDTH), "c_proj": nn.Linear(4 * WIDTH, WIDTH)})

    def forward(self, x):
        y = attend(*self.attn["c_attn"](self.ln_1(x)).split(WIDTH, dim=2))
        x = x + self.attn["c_proj"](y)
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2 with a head tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(TOKENS, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList([GptBlock(), GptBlock()])
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.wte(x) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * (x.square().mean(dim=-1, keepdim=True) + 1e-5).rsqrt() * self.weight


def turned(x):
    """Rotary positions; the pairs are half a head apart."""
    size = WIDTH // HEADS
    angles = torch.outer(torch.arange(LENGTH).double(), 1e4 ** (-2 * torch.arange(size // 2).double() / size))
    sine, cosine = (f(angles).float().repeat(1, 2) for f in (torch.sin, torch.cos))
    x = x.unflatten(2, (-1, size)).transpose(1, 2)
    a, b = x.chunk(2, dim=3)
    return (x * cosine + torch.cat((-b, a), dim=3) * sine).transpose(1, 2).flatten(2)


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = WIDTH // HEADS * SHARED
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.qkv = nn.Linear(WIDTH, WIDTH + 2 * self.keys, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up = nn.Linear(WIDTH, 2 * 24, bias=False)
        self.down = nn.Linear(24, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).split((WIDTH, self.keys, self.keys), dim=2)
        x = x + self.out(attend(turned(q), turned(k), v))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=2)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    """RMSNorm, rotary positions, SwiGLU, two heads of keys for four of queries."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList([LlamaBlock(), LlamaBlock()])
        self.norm = RmsNorm()
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, x):
        x = self.embed(x)
        for block in self.layers:
            x = block(x)
        return self.head(self.norm(x))


def image(*shape):
    return lambda: torch.randn(BATCH, *shape)


def labels(count):
    return lambda: torch.randint(0, count, (BATCH,), dtype=torch.int32)


def cross_entropy(y, t):
    return F.cross_entropy(y, t.long())


def tokens():
    return torch.randint(0, TOKENS, (BATCH, LENGTH), dtype=torch.int32)


def next_tokens():
    """One in each sample does not count."""
    t = tokens()
    t[torch.arange(BATCH), torch.arange(BATCH) % LENGTH] = -1
    return t


def token_loss(y, t):
    return F.cross_entropy(y.flatten(0, 1), t.long().flatten(), ignore_index=-1)


NETWORKS = [
    ("mlp", Mlp, image(12), labels(5), cross_entropy),
    ("conv", Conv, image(3, 9, 9), labels(4), cross_entropy),
    ("residual", Residual, image(3, 12, 12), labels(10), cross_entropy),
    ("smooth", lambda: Residual(F.silu), image(3, 12, 12), labels(10), cross_entropy),
    ("sequence", Sequence, lambda: torch.randint(0, 11, (BATCH, 6), dtype=torch.int32),
     image(6, 3), F.mse_loss),
    ("gpt", Gpt, tokens, next_tokens, token_loss),
    ("llama", Llama, tokens, next_tokens, token_loss),
]


def write(file, name, tensor):
    array = np.ascontiguousarray(tensor.detach().numpy())
    kind = "i32" if array.dtype == np.int32 else "f32"
    array = array.astype("<i4" if kind == "i32" else "<f4")
    header = " ".join([name, kind, str(array.ndim)] + [str(n) for n in array.shape])
    file.write(header.encode() + b"\n" + array.tobytes())


def state(model):
    return [(n, t) for n, t in model.state_dict().items() if not n.endswith("num_batches_tracked")]


def optimizer_for(model):
    """Of AdamW an epsilon above the rounding of gradients: those of a bias of keys are 0 but for that."""
    if isinstance(model, (Gpt, Llama)):
        return torch.optim.AdamW(model.parameters(), lr=2e-3, eps=1e-5, weight_decay=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)


def train(file, seed, build, make_x, make_t, loss_of):
    torch.manual_seed(seed)
    model = build()
    optimizer = optimizer_for(model)
    losses = []
    nearest[0] = 1.0
    for key, tensor in state(model):
        write(file, "before:" + key, tensor)
    for step in range(STEPS):
        x, t = make_x(), make_t()
        write(file, "x:%d" % step, x)
        write(file, "t:%d" % step, t)
        optimizer.zero_grad()
        loss = loss_of(model(x), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    write(file, "losses", torch.stack(losses))
    for key, tensor in state(model):
        write(file, "after:" + key, tensor)
    model.eval()
    write(file, "evaluated", model(x))


def main(folder, *names):
    torch.set_num_threads(1)
    for name, *network in [n for n in NETWORKS if not names or n[0] in names]:
        for seed in range(1, 1000):
            with open(os.path.join(folder, name + ".golden"), "wb") as file:
                train(file, seed, *network)
            if nearest[0] > MARGIN:
                print("%s: seed %d, nearest to a kink %.2g" % (name, seed, nearest[0]))
                break


if __name__ == "__main__":
    main(*(sys.argv[1:] or [os.path.dirname(os.path.abspath(__file__))]))
