# SPDX-License-Identifier: Apache-2.0
"""Times whole training steps of llm.c's program for processors, train_gpt2.c, by hand: the models of
peer_gpt.py.

  peer_llmc.py LLMC MODEL@LENGTH BATCH [THREADS]

LLMC is a folder with the sources of llm.c. The program is built in a folder of its own, for the sizes
that are asked for, with random weights and tokens in its formats, and trains for six steps; it does
not evaluate, and writes no text. CC (cc) compiles it, with CFLAGS (-Ofast -march=native). Prints a line
`llm.c,float32 MS`: the median of all steps but the first. It does not clip gradients.
"""
import os, re, shutil, statistics, subprocess, sys, tempfile
import numpy as np

# Layers, heads, width, context, vocabulary, and the vocabulary as llm.c pads it.
SIZES = {"char": (6, 6, 384, 256, 65, 128), "gpt2": (12, 12, 768, 1024, 50257, 50304)}
STEPS = 6
ZERO, ONE, RANDOM = range(3)


def write_weights(path, layers, heads, width, context, vocabulary, padded):
    tensors = [(padded * width, RANDOM), (context * width, RANDOM)]
    for count, kind in ((1, ONE), (1, ZERO), (3 * width, RANDOM), (3, ZERO), (width, RANDOM), (1, ZERO),
                        (1, ONE), (1, ZERO), (4 * width, RANDOM), (4, ZERO), (4 * width, RANDOM), (1, ZERO)):
        tensors.append((layers * width * count, kind))
    tensors += [(width, ONE), (width, ZERO)]
    head = np.zeros(256, "<i4")
    head[:8] = 20240326, 3, context, vocabulary, layers, heads, width, padded
    random = np.random.default_rng(1)
    with open(path, "wb") as file:
        head.tofile(file)
        for count, kind in tensors:
            if kind == RANDOM:
                (0.02 * random.standard_normal(count, "f4")).astype("<f4").tofile(file)
            else:
                np.full(count, kind, "<f4").tofile(file)


def write_tokens(path, count, vocabulary):
    head = np.zeros(256, "<i4")
    head[:3] = 20240520, 1, count
    with open(path, "wb") as file:
        head.tofile(file)
        np.random.default_rng(2).integers(0, vocabulary, count).astype("<u2").tofile(file)


def edited(source, length, batch):
    for pattern, text in ((r"int B = 4;", "int B = %d;" % batch), (r"int T = 64;", "int T = %d;" % length),
                          (r"step <= 40;", "step < %d;" % STEPS), (r"if \(step % 10 == 0\)", "if (0)"),
                          (r"if \(step > 0 && step % 20 == 0\)", "if (0)")):
        source, found = re.subn(pattern, text, source)
        if found != 1:
            sys.exit("peer_llmc: train_gpt2.c has %d times %s; must be once" % (found, pattern))
    return source


def main():
    folder, (model, length), batch = sys.argv[1], sys.argv[2].split("@"), int(sys.argv[3])
    sizes, data = SIZES[model], "dev/data/tinyshakespeare"
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(os.path.join(folder, "llmc"), os.path.join(work, "llmc"))
        with open(os.path.join(folder, "train_gpt2.c")) as file:
            source = edited(file.read(), int(length), batch)
        with open(os.path.join(work, "train.c"), "w") as file:
            file.write(source)
        os.makedirs(os.path.join(work, data))
        for part in "train", "val":
            write_tokens("%s/%s/tiny_shakespeare_%s.bin" % (work, data, part),
                         (STEPS + 1) * batch * int(length) + 1, sizes[4])
        write_weights(os.path.join(work, "gpt2_124M.bin"), *sizes)
        flags = os.environ.get("CFLAGS", "-Ofast -march=native").split()
        subprocess.run([os.environ.get("CC", "cc"), *flags, "-fopenmp", "-w", "train.c", "-o", "train", "-lm"],
                       cwd=work, check=True)
        threads = sys.argv[4] if len(sys.argv) > 4 else "2"
        said = subprocess.run(["./train"], cwd=work, check=True, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": threads}).stdout
    times = [float(ms) for ms in re.findall(r"\(took ([0-9.]+) ms\)", said)]
    print("llm.c,float32 %.4f" % statistics.median(times[1:]))


main()
