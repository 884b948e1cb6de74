# SPDX-License-Identifier: Apache-2.0
"""Runs the peer's own measurement of one model under several settings of PyTorch.

  peer_settings.py PEER MODEL BATCH SECONDS THREADS,LAYOUT...

PEER is a file that measures models in PyTorch: it has MODELS, rows that begin with
(name, build, ...), and run(rank, world, arguments), which prints an object of JSON
with "step_ms". LAYOUT is default or channels_last. Prints `THREADS,LAYOUT MS` lines,
`version V` first. What is measured is the peer's; only the layout of the model and of the
images is changed here, before it begins.
"""
import argparse, contextlib, importlib.util, io, json, sys
import torch


def load(path):
    spec = importlib.util.spec_from_file_location("peer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_layout(layout):
    """Models are built, and images drawn, in this layout."""
    random, rows = torch.randn, peer.MODELS

    def images(*shape, **options):
        x = random(*shape, **options)
        return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x

    def converted(build):
        return lambda: build().to(memory_format=torch.channels_last)

    @contextlib.contextmanager
    def changed():
        if layout == "channels_last":
            torch.randn = images
            peer.MODELS = [(row[0], converted(row[1])) + tuple(row[2:]) for row in rows]
        yield
        torch.randn, peer.MODELS = random, rows
    return changed()


path, model, batch, seconds = sys.argv[1:5]
peer = load(path)
print("version", torch.__version__)
for setting in sys.argv[5:]:
    threads, layout = setting.split(",")
    output = io.StringIO()
    arguments = argparse.Namespace(threads=int(threads), only=model, batch=int(batch),
                                   seconds=float(seconds), ddp=1, port=0)
    with in_layout(layout), contextlib.redirect_stdout(output):
        peer.run(0, 1, arguments)
    print(setting, json.loads(output.getvalue())["step_ms"], flush=True)
