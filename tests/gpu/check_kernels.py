# SPDX-License-Identifier: Apache-2.0
"""check_kernels.py - judges the machine code of every kernel that the plans of the models launch on
two GPUs, by the table kernels.txt. Prints the figures; the status is 1 if one is missed.

A figure of a kernel is its worst over the programs, for each target.
"""
import os
import sys

import kernel_table
import launches as on_gpu
from machine_code import LOAD, LOCAL_LOAD, MATRIX, PRIVATE

GOAL = 80  # percent of multiply-adds in the inner loops of products
MIX = 8  # kinds of instructions that are told of a loop below the goal
# The same of units for matrices: one of an H100 takes 4 clocks for an instruction, so more is no gain.
UNIT_GOAL = 25
ENOUGH = 50  # percent of warps: more is no bound
PAIRS = ['gfx90a']  # where a packed instruction has two multiply-adds for the time of one


def figures_of(kernel, row, target):
    """The inner loop, and its figures: the four of the table, and how many instructions use private
    memory."""
    part = kernel.product_loop() if row.is_product() else kernel.stream_loop('widest' in row.options)
    share = 100
    if row.is_product():
        instructions, fma = kernel.issued(part, row.number('unit'), row.number('stage'))
        share = 100 * (kernel.count(part, MATRIX) or fma) / instructions
    may_spill = target in row.options.get('spills', '').split(',')
    return part, [int(share), int(100 * kernel.occupancy), kernel.width(part, LOCAL_LOAD),
                  kernel.width(part, LOAD), 0 if may_spill else kernel.count(part, PRIVATE)]


def waits_wrongly(kernel, program):
    """Whether a kernel with copies ahead reads a round that may not have come yet (tile_ahead.cl)."""
    rounds = program.numbers().get('TILE_ROUNDS')
    return rounds and kernel.waits != {rounds - 2}


def worst(a, b):
    """A width of 0 means that nothing is loaded."""
    widths = [min(x or y, y or x) for x, y in zip(a[2:4], b[2:4])]
    return [min(a[0], b[0]), min(a[1], b[1]), *widths, max(a[4], b[4])]


def goal_of(row):
    return UNIT_GOAL if 'DOT=' in row.name else GOAL


class Found:
    """What the programs of a row are like on a device: by target the worst figures, and the
    instructions of the loop of the program with the least share."""

    def __init__(self):
        self.figures, self.mix = {}, {}

    def add(self, target, figures, kernel, part):
        least = self.figures.get(target, figures)
        self.figures[target] = worst(least, figures)
        if figures[0] <= least[0]:
            self.mix[target] = f'of {part[1] - part[0]}: ' + ', '.join(
                f'{number} {word}' for word, number in kernel.mix(part)[:MIX])

    def below_goal(self, row):
        for target, figures in self.figures.items():
            if row.is_product() and figures[0] < goal_of(row):
                yield f'{figures[0]} % on {target}, {self.mix[target]}'


def look_at(device, rows, wrong):
    """What is found for each row; prints the figures of each program and target. Adds sentences to
    `wrong`."""
    runs = on_gpu.read(device)
    found, seen = {}, set()
    on_gpu.compile_all(runs, on_gpu.TARGETS[device])
    print(f'{device + ":":28} {"target":8} {"registers":>9} {"local":>6} {"share":>6} {"occup.":>6} '
          f'{"loads, bits":>11} {"private":>7}  options')
    for launch in (l for name in runs for l in runs[name]):
        row = kernel_table.row_of(rows, launch) or kernel_table.Row([launch.kernel, '?', '?'])
        rows.setdefault(row.name, row)
        found.setdefault(row.name, Found())
        for target, kernels in launch.program.compiled.items():
            key = row.name, target, id(launch.program)
            if key in seen or not kernels:
                continue
            seen.add(key)
            kernel = kernels[launch.kernel]
            part, figures = figures_of(kernel, row, target)
            share = f'{figures[0]} %' if row.is_product() else '-'
            if target.startswith('sm_') and row.is_product() and waits_wrongly(kernel, launch.program):
                wrong.append(f'{launch.kernel} with {launch.program.title()}: where it waits, '
                             f'{sorted(kernel.waits)} rounds of copies may be under way')
            packed = kernel.packed_share(part)
            if target in PAIRS and row.is_product() and packed < int(row.options.get('packed', 100)):
                wrong.append(f'{launch.kernel} with {launch.program.title()}: {packed} % of its '
                             f'multiply-adds on {target} are packed')
            print(f'{launch.kernel:28} {target:8} {kernel.registers:9} {kernel.local:6} {share:>6} '
                  f'{figures[1]:4} % {figures[2] or "-":>5} {figures[3] or "-":>5} '
                  f'{figures[4] or "-":>7}  {launch.program.title()}')
            found[row.name].add(target, figures, kernel, part)
    return found


def text_of(row, found):
    """The row with the figures that were found, as it would stand in the table."""
    texts = []
    for device, old in row.texts.items():
        known = found[device][row.name].figures if row.name in found[device] else {}
        words = []
        for target, figures in known.items():
            figures = [figures[0] if row.is_product() else 0, min(figures[1], ENOUGH), *figures[2:4]]
            bounds = row.bounds[target] or figures
            words.append(['-' if b == '-' else str(f or '-') for f, b in zip(figures, bounds)])
        texts.append(','.join('/'.join(dict.fromkeys(w)) for w in zip(*words)) or old)
    options = ' '.join(f'{name}={value}' if value else name for name, value in row.options.items())
    return f'{row.name:28} {texts[0]:16} {texts[1]:16} {options}'.rstrip()


def judge(row, found):
    """What is wrong with a kernel, in sentences."""
    known = [device for device in found if row.name in found[device]]
    if not known and not os.environ.get('MODELS'):
        yield f'{row.name}: no plan launches it; kernels.txt needs no row for it'
    for device in known:
        if row.texts[device] == '?':
            yield f'{row.name}: a plan for {device} launches it, and kernels.txt has no figures'
            continue
        for target, figures in found[device][row.name].figures.items():
            if figures[4]:
                yield (f'{row.name} on {target}: {figures[4]} instructions of its inner loop use private '
                       'memory: spills, or an array')
            for name, bound, figure in zip(kernel_table.FIGURES, row.bounds[target], figures):
                if bound != '-' and (0 < figure or name == 'share') and figure < int(bound):
                    yield f'{row.name} on {target}: {name} {figure}, and not {bound}'


def main():
    rows = kernel_table.read()
    found, wrong = {}, []
    for device in on_gpu.TARGETS:
        found[device] = look_at(device, rows, wrong)
        print()
    print('# as rows of kernels.txt')
    for row in rows.values():
        print(text_of(row, found))
        for below in (b for d in found if row.name in found[d] for b in found[d][row.name].below_goal(row)):
            print(f'# below the goal of {goal_of(row)} %: {below}')
    wrong += [sentence for row in rows.values() for sentence in judge(row, found)]
    for line in wrong:
        print('FAIL', line)
    return 1 if wrong else 0


try:
    sys.exit(main())
except on_gpu.Failure as failure:
    sys.exit(f'check_kernels.py: {failure}')
