# SPDX-License-Identifier: Apache-2.0
#
# read_tensorboard.py FOLDER STEPS SPLIT - reads what `yoke train --tensorboard` wrote, in two runs of
# which the second went on after step SPLIT, with TensorBoard's own reader.
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder, steps, split = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
board = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0, "images": 0})
board.Reload()
tags = board.Tags()
for tag in ("train/loss", "train/accuracy", "train/learning_rate", "train/samples_per_second"):
    found = [event.step for event in board.Scalars(tag)]
    assert found == list(range(1, steps + 1)), (tag, found)
shares = [tag for tag in tags["scalars"] if tag.startswith("shares/")]
assert len(shares) == 2, shares
for k in range(steps):
    assert sum(board.Scalars(tag)[k].value for tag in shares) in (8, steps % 8 or 8), k
for tag in ("epoch/loss", "test/loss", "test/accuracy"):
    found = [event.step for event in board.Scalars(tag)]
    assert found[-1] == steps and split in found, (tag, found)
for name, count in (("conv1.weight", 180), ("fc2.bias", 10)):
    for event in board.Histograms("weights/" + name):
        h = event.histogram_value
        assert h.num == count == sum(h.bucket) and h.min < h.max, (name, h)
for i in range(1, 5) if tags["images"] else []:
    image = board.Images("samples/%d" % i)[0]
    assert (image.height, image.width) == (8, 8) and image.step == 0, image.step
    assert image.encoded_image_string[:4] == b"\x89PNG"
