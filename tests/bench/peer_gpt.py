# SPDX-License-Identifier: Apache-2.0
"""Times whole training steps of a language model in PyTorch: peer_torch.py with other models.

  peer_gpt.py MODEL@LENGTH BATCH SECONDS THREADS,default,MODE,TYPE...

The models are char and gpt2 of `yoke bench`: norms before the layers, GELU by tanh, learned
positions, a head tied to the embedding, no dropout; random tokens; AdamW, gradients clipped at norm 1.
What it prints, and the settings, are as there.
"""
import torch
from torch import nn
from torch.nn import functional

import peer_torch

# Layers, heads, width, context, vocabulary.
SIZES = {"char": (6, 6, 384, 256, 65), "gpt2": (12, 12, 768, 1024, 50257)}


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention_in, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.attention_in(self.attention_norm(x)).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


class Language(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.empty(context, width))
        self.blocks = nn.Sequential(*(Block(heads, width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, 0, 0.02)

    def forward(self, x):
        x = self.blocks(self.tokens(x) + self.positions[:x.shape[1]])
        return functional.linear(self.norm(x), self.tokens.weight)


class ClippedAdamW(torch.optim.AdamW):
    def step(self):
        nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 1)
        super().step()


def loss_of(y, labels):
    return functional.cross_entropy(y.flatten(0, 1).float(), labels.flatten())


def task_of(name, batch, device):
    name, _, length = name.partition("@")
    model = Language(*SIZES[name]).to(device)
    tokens = torch.randint(SIZES[name][-1], (batch, int(length) + 1), device=device)
    optimizer = ClippedAdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    return model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), loss_of, optimizer


if __name__ == "__main__":
    peer_torch.main(task_of)
