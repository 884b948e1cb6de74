# SPDX-License-Identifier: Apache-2.0
"""Times whole training steps of one model in PyTorch, under several settings.

  peer_torch.py MODEL[@SIZE] BATCH SECONDS THREADS,LAYOUT,MODE,TYPE...

The models are those of `yoke bench`: layers, loss, optimizer, random data; SIZE is that of images.
LAYOUT is default or channels_last, of the model and of the images; MODE eager, compile or, on a GPU,
graphs (compiled, and replayed as one graph of launches); TYPE float32 or bfloat16, by autocast, or
tf32. The THREADS gpu mean the GPU that PyTorch finds first. With the THREADS 1+1, two processes of one thread share the batch
(DistributedDataParallel, gloo); with 1+1x3 the second computes its gradients three times, as one
does that is three times as slow. Prints `version V W`, of PyTorch and oneDNN, then a line
`THREADS,LAYOUT,MODE,TYPE MS` each: the median of the steps that go into SECONDS, at least 3, after
those that are not counted, 3 or, if they are slow, 2. On a GPU it is the mean of as many steps that
are queued with one wait at the end; as many go before that are not counted.
"""
import os, re, statistics, sys, time
import torch
from torch import nn
from torch.nn import functional


def conv_norm(inputs, outputs, size, stride, groups=1):
    return (nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs))


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


class Bottleneck(Residual):
    """1x1, 3x3 on a quarter of the channels, 1x1, and such a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__(inputs, outputs, stride)
        self.body = nn.Sequential(*conv_norm(inputs, outputs // 4, 1, 1), nn.ReLU(),
                                  *conv_norm(outputs // 4, outputs // 4, 3, stride), nn.ReLU(),
                                  *conv_norm(outputs // 4, outputs, 1, 1))


class InvertedResidual(nn.Module):
    """1x1 to `expansion` times the channels, 3x3 depthwise, 1x1."""

    def __init__(self, inputs, outputs, expansion, stride):
        super().__init__()
        inner = expansion * inputs
        expand = (*conv_norm(inputs, inner, 1, 1), nn.ReLU()) if expansion > 1 else ()
        self.body = nn.Sequential(*expand, *conv_norm(inner, inner, 3, stride, groups=inner),
                                  nn.ReLU(), *conv_norm(inner, outputs, 1, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def resnet(block, counts, factor, large):
    layers, width = [*conv_norm(3, 64, *((7, 2) if large else (3, 1))), nn.ReLU()], 64
    if large:
        layers.append(nn.MaxPool2d(3, 2, 1))
    for stage, count in enumerate(counts):
        for number in range(count):
            outputs = factor * 64 << stage
            layers.append(block(width, outputs, 2 if stage and not number else 1))
            width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def resnet18(large=False):
    return resnet(Residual, (2, 2, 2, 2), 1, large)


def resnet50(large=False):
    return resnet(Bottleneck, (3, 4, 6, 3), 4, large)


def mobilenet(large=False):
    first = 2 if large else 1
    layers, width = [*conv_norm(3, 32, 3, first), nn.ReLU()], 32
    for expansion, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, first), (6, 32, 3, 2),
                                              (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                              (6, 320, 1, 1)):
        for number in range(count):
            layers.append(InvertedResidual(width, outputs, expansion, 1 if number else stride))
            width = outputs
    return nn.Sequential(*layers, *conv_norm(width, 1280, 1, 1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 10))


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
          "resnet18": (resnet18, (3, 32, 32), sgd), "resnet50": (resnet50, (3, 32, 32), sgd),
          "mobilenet": (mobilenet, (3, 32, 32), sgd)}


def task_of(name, batch, device):
    """A model, inputs, targets, the loss of results and targets, and the optimizer."""
    name, _, size = name.partition("@")
    build, shape, optimizer_of = MODELS[name]
    if size:
        shape = (shape[0], int(size), int(size))
    # From this size on yoke's models are torchvision's: they begin with strides (lib/zoo/layers.c).
    model = build(large=True) if len(shape) == 3 and shape[-1] >= 112 else build()
    model, x = model.to(device), torch.randn(batch, *shape, device=device)
    y = (torch.randn(batch, 1) if name == "tiny" else torch.randint(10, (batch,))).to(device)
    loss_of = functional.mse_loss if name == "tiny" else functional.cross_entropy
    return model, x, y, loss_of, optimizer_of(model.parameters())


def step_of(task, name, batch, layout, mode, type, processes=1, work=1, device="cpu"):
    """A function that makes a step, of this process's part of the batch."""
    torch.manual_seed(0)
    model, x, y, loss_of, optimizer = task(name, batch // processes, device)
    if layout == "channels_last" and x.dim() == 4:
        model, x = (t.to(memory_format=torch.channels_last) for t in (model, x))
    if processes > 1:
        model = nn.parallel.DistributedDataParallel(model)

    def forward(x, y):
        return loss_of(model(x), y)

    update = optimizer.step
    if mode != "eager":
        torch._dynamo.reset()
        how = "reduce-overhead" if mode == "graphs" else "default"
        forward, update = torch.compile(forward, mode=how), torch.compile(update)

    def gradients():
        with torch.autocast(device, torch.bfloat16, enabled=type == "bfloat16"):
            loss = forward(x, y)
        loss.backward()

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        for _ in range(work - 1):
            with model.no_sync():
                gradients()
        gradients()
        update()
        return time.perf_counter() - begin

    return step


def measure_gpu(task, setting, name, batch, seconds):
    """Milliseconds of a queued step."""
    _, layout, mode, type = setting.split(",")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = type == "tf32"
    torch.backends.cudnn.benchmark = True
    step = step_of(task, name, batch, layout, mode, type, device="cuda")

    def several(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / count

    several(3)
    count = max(3, min(1000, int(seconds / several(3))))
    several(count)
    return f"{setting} {1e3 * several(count):.4f}"


def measure(task, setting, name, batch, seconds, processes=1, work=1):
    threads, layout, mode, type = setting.split(",")
    if threads == "gpu":
        return measure_gpu(task, setting, name, batch, seconds)
    torch.set_num_threads(int(threads) if processes == 1 else 1)
    step = step_of(task, name, batch, layout, mode, type, processes, work)
    last = max(step(), step())
    if last < seconds:
        last = step()
    count = torch.tensor(max(3, min(300, int(seconds / last))))
    if processes > 1:
        torch.distributed.broadcast(count, 0)
    return f"{setting} {1e3 * statistics.median(step() for _ in range(int(count))):.4f}"


def rank(rank, work, *what):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PEER_PORT", "29511"))
    os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[rank]])
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    line = measure(*what, 2, work if rank == 1 else 1)
    torch.distributed.barrier()
    if rank == 0:
        print(line, flush=True)
    os._exit(0)  # destroying the group now and then ends in an abort


def main(task):
    name, batch, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    onednn = re.search(r"MKL-DNN v([0-9.]+)", torch.__config__.show())
    print("version", torch.__version__, onednn[1] if onednn else "-", flush=True)
    for setting in sys.argv[4:]:
        processes = re.match(r"1\+1(x(\d+))?,", setting)
        if processes:
            work = int(processes[2] or 1)
            torch.multiprocessing.spawn(rank, (work, task, setting, name, batch, seconds), nprocs=2)
        else:
            print(measure(task, setting, name, batch, seconds), flush=True)


if __name__ == "__main__":
    main(task_of)
