# SPDX-License-Identifier: Apache-2.0
"""check_kernels.py - judges the machine code of every kernel that the plans of the models launch on
two GPUs, by the table kernels.txt. Prints the figures; the status is 1 if one is missed.

A figure of a kernel is its worst over the programs and the two targets of a vendor.
"""
import os
import sys

import kernel_table
import launches as on_gpu
from machine_code import LOAD, LOCAL_LOAD, MATRIX, PRIVATE

GOAL = 80  # percent of multiply-adds in the inner loops of products
# The same of units for matrices: one of an H100 takes 4 clocks for an instruction, so more is no gain.
UNIT_GOAL = 25
ENOUGH = 50  # percent of warps: more is no bound


def figures_of(kernel, row, target):
    """The four figures, and how many instructions of the inner loop use private memory."""
    part = kernel.product_loop() if row.is_product() else kernel.stream_loop()
    share = 100
    if row.is_product():
        instructions, fma = kernel.issued(part, row.number('unit'), row.number('stage'))
        share = 100 * (kernel.count(part, MATRIX) or fma) / instructions
    may_spill = target in row.options.get('spills', '').split(',')
    return [int(share), int(100 * kernel.occupancy), kernel.width(part, LOCAL_LOAD),
            kernel.width(part, LOAD), 0 if may_spill else kernel.count(part, PRIVATE)]


def waits_wrongly(kernel, program):
    """Whether a kernel with copies ahead reads a round that may not have come yet (tile_ahead.cl)."""
    rounds = program.numbers().get('TILE_ROUNDS')
    return rounds and kernel.waits != {rounds - 2}


def worst(a, b):
    """A width of 0 means that nothing is loaded."""
    widths = [min(x or y, y or x) for x, y in zip(a[2:4], b[2:4])]
    return [min(a[0], b[0]), min(a[1], b[1]), *widths, max(a[4], b[4])]


def look_at(device, rows, wrong):
    """The worst figures of each kernel; prints those of each program and target. None: not judged.
    Adds sentences to `wrong`."""
    runs = on_gpu.read(device)
    found, seen = {}, set()
    on_gpu.compile_all(runs, on_gpu.TARGETS[device])
    print(f'{device + ":":28} {"target":8} {"registers":>9} {"local":>6} {"share":>6} {"occup.":>6} '
          f'{"loads, bits":>11} {"private":>7}  options')
    for launch in (l for name in runs for l in runs[name]):
        row = kernel_table.row_of(rows, launch) or kernel_table.Row([launch.kernel, '?', '?'])
        rows.setdefault(row.name, row)
        found.setdefault(row.name, None)
        for target, kernels in launch.program.compiled.items():
            key = row.name, target, id(launch.program)
            if key in seen or not kernels:
                continue
            seen.add(key)
            kernel = kernels[launch.kernel]
            figures = figures_of(kernel, row, target)
            share = f'{figures[0]} %' if row.is_product() else '-'
            if target.startswith('sm_') and row.is_product() and waits_wrongly(kernel, launch.program):
                wrong.append(f'{launch.kernel} with {launch.program.title()}: where it waits, '
                             f'{sorted(kernel.waits)} rounds of copies may be under way')
            print(f'{launch.kernel:28} {target:8} {kernel.registers:9} {kernel.local:6} {share:>6} '
                  f'{figures[1]:4} % {figures[2] or "-":>5} {figures[3] or "-":>5} '
                  f'{figures[4] or "-":>7}  {launch.program.title()}')
            found[row.name] = worst(found[row.name] or figures, figures)
    return found


def text_of(row, found):
    """The row with the figures that were found, as it would stand in the table."""
    texts = []
    for device, bounds in row.bounds.items():
        figures = found[device].get(row.name)
        if not figures:
            texts.append(','.join(bounds))
            continue
        figures = [figures[0] if row.is_product() else 0, min(figures[1], ENOUGH), *figures[2:4]]
        if len(bounds) == len(figures):
            figures = [0 if b == '-' else f for f, b in zip(figures, bounds)]
        texts.append(','.join(str(f or '-') for f in figures))
    options = ' '.join(f'{name}={value}' if value else name for name, value in row.options.items())
    return f'{row.name:28} {texts[0]:16} {texts[1]:16} {options}'.rstrip()


def judge(row, found):
    """What is wrong with a kernel, in sentences."""
    known = [device for device in found if row.name in found[device]]
    if not known and not os.environ.get('MODELS'):
        yield f'{row.name}: no plan launches it; kernels.txt needs no row for it'
    for device in known:
        figures = found[device][row.name]
        if row.bounds[device] == ['?']:
            yield f'{row.name}: a plan for {device} launches it, and kernels.txt has no figures'
        if row.bounds[device] == ['?'] or not figures:
            continue
        if figures[4]:
            yield (f'{row.name} on {device}: {figures[4]} instructions of its inner loop use private '
                   'memory: spills, or an array')
        for name, bound, figure in zip(kernel_table.FIGURES, row.bounds[device], figures):
            if bound != '-' and (0 < figure or name == 'share') and figure < int(bound):
                yield f'{row.name} on {device}: {name} {figure}, and not {bound}'


def main():
    rows = kernel_table.read()
    found, wrong = {}, []
    for device in on_gpu.TARGETS:
        found[device] = look_at(device, rows, wrong)
        print()
    print('# as rows of kernels.txt')
    for row in rows.values():
        print(text_of(row, found))
        goal = UNIT_GOAL if 'DOT=' in row.name else GOAL
        below = [f'{found[d][row.name][0]} % on {d}' for d in found
                 if row.is_product() and found[d].get(row.name) and found[d][row.name][0] < goal]
        if below:
            print(f'# below the goal of {goal} %: {", ".join(below)}')
    wrong += [sentence for row in rows.values() for sentence in judge(row, found)]
    for line in wrong:
        print('FAIL', line)
    return 1 if wrong else 0


try:
    sys.exit(main())
except on_gpu.Failure as failure:
    sys.exit(f'check_kernels.py: {failure}')
