# SPDX-License-Identifier: Apache-2.0
"""kernel_table.py - reads kernels.txt, which says what its columns are."""
import os

import launches as on_gpu

FIGURES = ('share', 'occupancy', 'local loads', 'global loads')


class Row:
    def __init__(self, words):
        self.name = words[0]
        self.kernel, _, wanted = words[0].partition(':')
        self.wanted = set(wanted.split(',')) - {''}
        self.texts = {'h200': words[1], 'mi300x': words[2]}
        self.bounds = {}  # by target: four words, or None where plans do not launch it
        self.options = dict((w.split('=', 1) + [''])[:2] for w in words[3:])
        for device, text in self.texts.items():
            figures = text.split(',')
            if len(figures) != len(FIGURES) and text != '?':
                raise on_gpu.Failure(f'kernels.txt: {self.name} needs {len(FIGURES)} figures')
            for at, target in enumerate(on_gpu.TARGETS[device]):
                of_target = [f.split('/')[min(at, f.count('/'))] for f in figures]
                self.bounds[target] = of_target if text != '?' else None

    def number(self, option):
        return int(self.options.get(option, 0))

    def is_product(self):
        return 'macs' in self.options


def read():
    rows = {}
    with open(os.path.join(os.path.dirname(__file__), 'kernels.txt')) as file:
        for line in file:
            words = line.split('#')[0].split()
            if words:
                rows[words[0]] = Row(words)
    return rows


def row_of(rows, launch):
    """The row of a launch: of those of its kernel whose options its program all has, the one with the
    most. Programs for units for matrices (DOT) have rows that say so. None: the table does not know
    it."""
    options = set(launch.program.title().split())
    units = {o for o in options if o.startswith('DOT=')}
    fitting = [row for row in rows.values()
               if row.kernel == launch.kernel and units <= row.wanted <= options]
    return max(fitting, key=lambda row: len(row.wanted), default=None)
