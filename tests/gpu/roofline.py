# SPDX-License-Identifier: Apache-2.0
"""roofline.py - predicts what steps take on an H200, from what they launch and the machine code of that:
one of training ResNet-18 (batch 128, 32x32), and the one in which gpt2 writes a token, a single stream at
the end of its context. Prints a table of each; the status is 1 if a step takes longer than its budget, or
if instructions keep a kernel without products, of those that take a hundredth of a step of training, from
the bandwidth.

A kernel takes as long as its instructions, or its bytes: whichever is more.
- A product's instructions are those of its loop, for each multiply-add that its work-items make, wasted
  ones included (kernels.txt says how many); those of other kernels are those of their loop, for each
  byte that it moves. Those outside of the loop come once for each warp.
- Bytes are those of its buffers, each read or written once.
It knows nothing of caches, of latency, or of what a driver does between kernels but for a constant, so
it is right to +-40 %. What it is good for is to compare.
"""
import collections
import sys

import kernel_table
import launches as on_gpu

# Milliseconds: what they take today. The goal of ResNet-18 was 15.
BUDGETS = {'resnet18.128': 6.2, 'write-gpt2.1': 0.35}
WRITES = 'write-'

CORES, ISSUE, CLOCK = 132, 4, 1.83e9  # of an H200: instructions of a warp a clock; sustained
EFFICIENCY = 0.80  # of issue slots
BANDWIDTH = 4.8e12 * 0.88
SATURATED, LEAST = 0.85, 0.80  # of it: the goal of kernels without products, and what there is today
LAUNCH = 1.3e-6  # seconds between two kernels
WARP = 32


def up(value, multiple):
    return -(-value // multiple) * multiple


def moved(launch, row):
    return launch.moved('updates' in row.options, row.options.get('without', '').split(','))


def slots_of(launch, row):
    """Instructions of warps, and the multiply-adds that work-items make."""
    kernel = launch.program.compiled['sm_90'][launch.kernel]
    groups = on_gpu.product(launch.groups)
    warps = groups * up(launch.items(), WARP) // WARP
    part, macs = kernel.stream_loop('widest' in row.options), 0
    if row.is_product():
        part = kernel.product_loop()
        names = {**launch.program.numbers(), **launch.ints(), 'items': groups * launch.items(), 'up': up}
        macs = eval(row.options['macs'], {'__builtins__': {}}, names)  # pylint: disable=eval-used
        instructions, fma = kernel.issued(part, row.number('unit'), row.number('stage'))
        turns = macs / WARP / fma
    else:
        instructions = part[1] - part[0]
        turns = 8 * moved(launch, row) * float(row.options.get('passes', 1)) / WARP / max(kernel.moved(part), 1)
    return turns * instructions + warps * (kernel.end - (part[1] - part[0])), macs


def seconds_of(launch, row):
    """By instructions and by bytes; and the multiply-adds."""
    groups = on_gpu.product(launch.groups)
    slots, macs = slots_of(launch, row)
    busiest = slots / groups * -(-groups // CORES)  # of the core with most groups
    return (busiest / (ISSUE * CLOCK * EFFICIENCY),
            moved(launch, row) / BANDWIDTH, macs)


def totals_of(launches):
    """By row of the table: launches, seconds, those by instructions and by bytes, FLOPs, and twice the
    multiply-adds that are made."""
    rows, unknown = kernel_table.read(), set()
    total = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0, 0])
    for launch in launches:
        row = kernel_table.row_of(rows, launch)
        if not row:
            unknown.add(launch.kernel)
            continue
        issue, memory, macs = seconds_of(launch, row)
        figures = (1, max(issue, memory), issue, memory, launch.flops, 2 * macs)
        total[row.name] = [a + b for a, b in zip(total[row.name], figures)]
    if unknown:
        raise on_gpu.Failure(f'kernels.txt has no row for {", ".join(sorted(unknown))}')
    return total


def predict(model, launches):
    """Prints the table of a step. Whether it is slower than it has to be."""
    total, slow = totals_of(launches), []
    kernels = sum(t[1] for t in total.values())
    between = 1e3 * LAUNCH * len(launches)
    step = 1e3 * kernels + between
    print(f'{model}:\n')
    print('| kernel | launches | ms | share | TFLOP/s | useful | of bandwidth | bound by |')
    print('| --- | --- | --- | --- | --- | --- | --- | --- |')
    for name, (count, seconds, issue, memory, flops, done) in sorted(
            total.items(), key=lambda item: -item[1][1]):
        bound = max((issue, 'instructions'), (memory, "bytes"), (LAUNCH * count, 'launches'))[1]
        rate = f'{flops / seconds / 1e12:.1f}' if done else ''
        useful = f'{100 * flops / done:.0f} %' if done else ''
        reached = '' if done else f'{100 * memory / seconds:.0f} %'
        print(f'| {name} | {count} | {1e3 * seconds:.3f} | {0.1 * seconds / kernels * 1e3:.1f} % '
              f'| {rate} | {useful} | {reached} | {bound} |')
        if not done and memory < SATURATED * seconds and seconds > 0.01 * kernels:
            slow.append((memory / seconds, f'{name} ({reached})'))
    print(f'| between {len(launches)} launches | | {between:.3f} | | | | | |')
    if model.startswith(WRITES):
        bytes_alone = 1e3 * sum(t[3] for t in total.values())
        print(f'\nA token: {step:.3f} ms, so {1e3 / step:.0f} a second; its bytes alone take '
              f'{bytes_alone:.3f} ms, {100 * bytes_alone / step:.0f} % of that.')
        slow = []  # what one row of numbers takes is the launch
    else:
        print(f'\nA step: {step:.1f} ms, of {sum(l.flops for l in launches) / 1e9:.0f} GFLOP.')
    if step > BUDGETS[model]:
        print(f'FAIL the budget is {BUDGETS[model]} ms')
    for part, what in slow:
        print(f'{"FAIL" if part < LEAST else "#"} below the goal of {100 * SATURATED:.0f} % of the bandwidth: {what}')
    print()
    return step > BUDGETS[model] or any(part < LEAST for part, _ in slow)


def main():
    runs = on_gpu.read('h200', BUDGETS)
    on_gpu.compile_all(runs, ['sm_90'])
    return any([predict(model, launches) for model, launches in runs.items()])


try:
    sys.exit(main())
except on_gpu.Failure as failure:
    sys.exit(f'roofline.py: {failure}')
