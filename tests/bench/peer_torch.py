# SPDX-License-Identifier: Apache-2.0
"""Times whole training steps of one model in PyTorch, in eager mode, under several settings.

  peer_torch.py MODEL BATCH SECONDS THREADS,LAYOUT...

The models are those of `yoke bench`: layers, loss, optimizer, random data. LAYOUT is default or
channels_last, of the model and of the images. Prints `version V`, then a line `THREADS,LAYOUT MS`
each: the median of the steps that go into SECONDS, at least 3, after 3 that are not counted.
"""
import statistics, sys, time
import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is projected where shapes differ."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(*conv_norm(inputs, outputs, 3, stride), nn.ReLU(),
                                  *conv_norm(outputs, outputs, 3, 1))
        self.shortcut = nn.Sequential(*(conv_norm(inputs, outputs, 1, stride)
                                        if stride > 1 or inputs != outputs else ()))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def conv_norm(inputs, outputs, size, stride):
    return (nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
            nn.BatchNorm2d(outputs))


def resnet18():
    layers, width = [*conv_norm(3, 64, 3, 1), nn.ReLU()], 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        layers += [Residual(width, outputs, 2 if stage else 1), Residual(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def tiny():
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))


def mlp():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def simplecnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(32 * 14 * 14, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5),
                         nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(),
                         nn.Linear(128, 10))


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


MODELS = {"tiny": (tiny, (10,), adam), "mlp": (mlp, (784,), adam),
          "simplecnn": (simplecnn, (1, 28, 28), adam), "lenet": (lenet, (1, 28, 28), sgd),
          "resnet18": (resnet18, (3, 32, 32), sgd)}


def step_ms(name, batch, seconds, layout):
    build, shape, optimizer_of = MODELS[name]
    torch.manual_seed(0)
    model, x = build(), torch.randn(batch, *shape)
    if layout == "channels_last" and x.dim() == 4:
        model, x = (t.to(memory_format=torch.channels_last) for t in (model, x))
    y = torch.randn(batch, 1) if name == "tiny" else torch.randint(10, (batch,))
    loss = functional.mse_loss if name == "tiny" else functional.cross_entropy
    optimizer = optimizer_of(model.parameters())

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        return time.perf_counter() - begin

    last = [step() for _ in range(3)][-1]
    return 1e3 * statistics.median(step() for _ in range(max(3, min(300, int(seconds / last)))))


model, batch, seconds = sys.argv[1:4]
print("version", torch.__version__)
for setting in sys.argv[4:]:
    threads, layout = setting.split(",")
    torch.set_num_threads(int(threads))
    print(setting, f"{step_ms(model, int(batch), float(seconds), layout):.4f}", flush=True)
