# SPDX-License-Identifier: Apache-2.0
"""machine_code.py - reads what compilers make of kernels for GPUs: the instructions, the loops, the
registers, and how many groups a core can hold.

NVIDIA's come as SASS from cuobjdump, with the log of ptxas; AMD's as the assembly that clang writes.
"""
import collections
import re

# What an instruction is. FMA counts multiply-adds of one work-item; MATRIX too, of a unit that multiplies
# matrices.
FMA, MATRIX, LOAD, STORE, LOCAL_LOAD, LOCAL_STORE, PRIVATE, BARRIER, OTHER = range(9)


class Kernel:
    """`code` has a pair for each instruction that the vector units issue (two for a packed one): what
    it is, and the number of multiply-adds or of bits moved. `loops` are pairs of indices: first, and
    behind the last. Behind `end` is only what is called, such as divisions."""

    def __init__(self, name):
        self.name = name
        self.code, self.loops, self.end = [], [], 0
        self.words = []  # their names, beside `code`
        self.packed = []  # where in it the second halves of packed multiply-adds are
        self.waits = set()  # how many rounds of copies (LDGSTS) may be under way where it waits
        self.registers = self.local = 0
        self.occupancy = 0.0

    def sum(self, part, *what):
        return sum(number for kind, number in self.code[part[0]:part[1]] if kind in what)

    def count(self, part, *what):
        return sum(kind in what for kind, _ in self.code[part[0]:part[1]])

    def macs(self, part):
        return self.sum(part, FMA, MATRIX)

    def packed_share(self, part):
        """Percent of the multiply-adds that are of packed instructions."""
        return 100 * 2 * sum(part[0] <= at < part[1] for at in self.packed) // max(self.macs(part), 1)

    def mix(self, part):
        """What is most of it: (name, number), the most first."""
        return collections.Counter(self.words[part[0]:part[1]]).most_common()

    def inside(self, part):
        """The loops directly in a part: those in no other loop of it."""
        loops = [l for l in self.loops if l != part and part[0] <= l[0] and l[1] <= part[1]]
        return [l for l in loops
                if not any(o != l and o[0] <= l[0] and l[1] <= o[1] for o in loops)]

    def product_loop(self):
        """The loop along the summed axis: the innermost with most multiply-adds; if that reads local
        memory, the smallest around it in which groups wait until that is filled."""
        found = max((l for l in self.loops if self.macs(l) and not self.inside(l)),
                    key=lambda l: (self.macs(l), l[0] - l[1]), default=(0, self.end))
        if self.count(found, LOCAL_LOAD):
            around = [l for l in self.loops
                      if l[0] <= found[0] and found[1] <= l[1] and self.count(l, BARRIER)]
            found = min(around, key=lambda l: l[1] - l[0], default=found)
        return found

    def stream_loop(self, widest=False):
        """The innermost loop that moves most bytes at a time; where none does, the whole kernel. With
        `widest` it is one of those with the widest loads."""
        moving = [l for l in self.loops if not self.inside(l) and self.moved(l)]
        return max(moving, key=lambda l: (widest and self.width(l, LOAD), self.moved(l), l[0] - l[1]),
                   default=(0, self.end))

    def moved(self, part):
        """Bits that a work-item loads from global memory and stores to it."""
        return self.sum(part, LOAD, STORE)

    def width(self, part, kind):
        """The width in bits of the loads that carry most of what is loaded; 0: none."""
        sums = {}
        for what, bits in self.code[part[0]:part[1]]:
            if what == kind:
                sums[bits] = sums.get(bits, 0) + bits
        return max(sums, key=lambda bits: (sums[bits], bits), default=0)

    def issued(self, part, unit=0, stage=0):
        """Instructions of one iteration of a product's loop, and its multiply-adds. The loops inside
        it count once, unless it is known what an iteration does: `unit` multiply-adds, most of them
        in the inner loop that has most of them; the others are remainders. Loops that fill local
        memory then run until they have stored `stage` values."""
        instructions, fma = part[1] - part[0], self.macs(part)
        if not unit:
            return instructions, fma
        inner = self.inside(part)
        main = max(inner, key=lambda l: self.macs(l), default=part)
        for l in inner:
            own, stores, turns = self.macs(l), self.count(l, LOCAL_STORE), 1
            if own:
                outside = fma - sum(self.macs(o) for o in inner)
                turns = (unit - outside) / own if l == main else 0
            elif stores:
                turns = stage / stores
            instructions += (turns - 1) * (l[1] - l[0])
        return instructions, unit


def bits_of(word):
    found = re.search(r'\.(128|64|U16|S16|U8|S8)\b', word)
    return {'128': 128, '64': 64, 'U16': 16, 'S16': 16, 'U8': 8, 'S8': 8}[found[1]] if found else 32


def nvidia_kind(text):
    """The name of an instruction, and what `code` has of it."""
    word = re.sub(r'^@!?U?P\w+\s+', '', text).split()[0]
    base = word.split('.')[0]
    name = '.'.join(word.split('.')[:2]) if base == 'IMAD' else base  # it also moves and shifts
    # LDGSTS copies to local memory: what it moves comes from global memory.
    kinds = {'LDG': LOAD, 'LD': LOAD, 'LDGSTS': LOAD, 'STG': STORE, 'ST': STORE, 'LDS': LOCAL_LOAD,
             'STS': LOCAL_STORE, 'LDL': PRIVATE, 'STL': PRIVATE}
    if base == 'FFMA':
        return name, FMA, 1
    if base == 'HMMA':  # of rows x columns x terms, by a warp: HMMA.1688 has 16 x 8 x 8
        rows, columns, terms = re.search(r'HMMA\.(16)(8)(8|16)\b', word).groups()
        return name, MATRIX, int(rows) * int(columns) * int(terms) // 32
    if base in kinds:
        return name, kinds[base], bits_of(word)
    return name, BARRIER if base == 'BAR' else OTHER, 0


def read_nvidia(sass, log, groups, local_of_core):
    """Reads cuobjdump's text and ptxas's log. `groups`: by kernel, the work-items of a group.
    Gives the kernels by name."""
    kernels, kernel, places, branches = {}, None, {}, []

    def finish():
        for at, target in branches:
            if target in places and places[target] <= at:
                kernel.loops.append((places[target], at + 1))
        kernel.loops = sorted(set(kernel.loops))

    for line in sass.split('\n'):
        found = re.search(r'Function : (\S+)', line)
        if found:
            if kernel:
                finish()
            kernel, places, branches = Kernel(found[1]), {}, []
            kernels[kernel.name] = kernel
            continue
        found = re.match(r'\s+/\*([0-9a-f]{4,5})\*/\s+(.*?);', line)
        if not found or not kernel:
            continue
        text = found[2].strip()
        branch = re.search(r'\bBRA\b.*?0x([0-9a-f]+)', text)
        places[int(found[1], 16)] = len(kernel.code)
        if branch:
            branches.append((len(kernel.code), int(branch[1], 16)))
        waits = re.match(r'DEPBAR\.LE SB0, 0x([0-9a-f]+)', text)
        if waits:
            kernel.waits.add(int(waits[1], 16))
        if not re.search(r'\bNOP\b', text):
            word, *kind = nvidia_kind(text)
            kernel.words.append(word)
            kernel.code.append(tuple(kind))
        if re.search(r'\bEXIT\b', text):
            kernel.end = len(kernel.code)
    if kernel:
        finish()
    for name, text in re.findall(r"Compiling entry function '(\S+)'(.*?Used \d+ registers[^\n]*)", log, re.S):
        kernel = kernels[name]
        shared = re.search(r'(\d+) bytes smem', text)
        kernel.registers = int(re.search(r'Used (\d+) registers', text)[1])
        kernel.local = int(shared[1]) if shared else 0
        warps = -(-groups.get(name, 32) // 32)
        by_registers = 65536 // (max(kernel.registers + 7, 16) // 8 * 8 * 32 * warps)
        by_local = local_of_core // (kernel.local + 1024)
        kernel.occupancy = min(32, 64 // warps, by_registers, by_local) * warps / 64
    return kernels


def amd_kind(word):
    """None: for the scalar unit, which issues beside the vector units. Of a packed instruction it is
    one of two halves."""
    moved = {'b128': 128, 'x4': 128, 'b96': 96, 'x3': 96, 'b64': 64, 'x2': 64}
    bits = next((bits for end, bits in moved.items() if word.endswith(end)), 32)
    if re.match(r'v_(pk_|dual_)?(fma|fmac|mad|mac)_(legacy_)?f32', word):
        return FMA, 1
    if re.match(r'ds_(read|load)', word):
        return LOCAL_LOAD, bits * (2 if re.match(r'ds_(read2|load_2addr)', word) else 1)
    if re.match(r'ds_(write|store)', word):
        return LOCAL_STORE, bits
    if re.match(r'scratch_|buffer_(load|store)', word):
        return PRIVATE, bits
    if re.match(r'(global|flat)_load', word):
        return LOAD, bits
    if re.match(r'(global|flat)_store', word):
        return STORE, bits
    if word == 's_barrier':
        return BARRIER, 0
    return None if word.startswith('s_') else (OTHER, 0)


def read_amd(assembly, waves):
    """Reads clang's assembly; `waves` is how many a core's part holds at most. An instruction that
    does two things, packed (v_pk_fma_f32) or dual (v_dual_fmac_f32), counts as two: so shares are of
    what there is to do, and the same whether a compiler finds pairs or not."""
    kernels, kernel, places, branches = {}, None, {}, []
    for line in assembly.split('\n'):
        found = re.match(r'(\w+):\s+; @', line)
        if found:
            kernel, places, branches = Kernel(found[1]), {}, []
            kernels[kernel.name] = kernel
            continue
        if not kernel:
            continue
        found = re.match(r'(\.LBB\w+):', line)
        if found:
            places[found[1]] = len(kernel.code)
            continue
        found = re.match(r'; (NumVgprs|TotalNumVgprs|LDSByteSize|Occupancy): (\d+)', line)
        if found and found[1].endswith('Vgprs'):
            kernel.registers = max(kernel.registers, int(found[2]))
        elif found and found[1] == 'LDSByteSize':
            kernel.local = int(found[2])
        elif found:
            kernel.occupancy, kernel.end = int(found[2]) / waves, len(kernel.code)
            kernel.loops = sorted({(places[t], at) for at, t in branches if places.get(t, at) < at})
        if not re.match(r'\t[a-z]', line):
            continue
        text = line.split(';')[0].strip()
        branch = re.match(r's_c?branch\w*\s+(\.LBB\w+)', text)
        if branch:
            branches.append((len(kernel.code), branch[1]))
        for part in text.split('::'):
            word = part.split()[0]
            kind = amd_kind(word)
            halves = 2 if re.match(r'v_pk_(\w+_f32|mov_b32)', word) else 1
            if kind:
                kernel.code += [kind] * halves
                kernel.words += [re.sub(r'_e(32|64)$', '', word)] * halves
            if kind and halves == 2 and kind[0] == FMA:
                kernel.packed.append(len(kernel.code) - 1)
    return kernels
