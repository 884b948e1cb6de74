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
        self.bounds = {'h200': words[1].split(','), 'mi300x': words[2].split(',')}
        self.options = dict((w.split('=', 1) + [''])[:2] for w in words[3:])
        for bounds in self.bounds.values():
            if len(bounds) != len(FIGURES) and bounds != ['?']:
                raise on_gpu.Failure(f'kernels.txt: {self.name} needs {len(FIGURES)} figures')

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
    most. None: the table does not know it."""
    options = set(launch.program.title().split())
    fitting = [row for row in rows.values() if row.kernel == launch.kernel and row.wanted <= options]
    return max(fitting, key=lambda row: len(row.wanted), default=None)
