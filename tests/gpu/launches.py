# SPDX-License-Identifier: Apache-2.0
"""launches.py - what models launch on a GPU (list_launches), and the programs of that, compiled for
GPUs.

The folder WORK has a folder for each run, DEVICE.MODEL.BATCH, with the file `launches` and the
programs as the null driver keeps them. Compilers come from the environment: CLANG, CLC (the folder of
libclc's bitcode), PTXAS, CUOBJDUMP; the last two may be empty. STATIC_TARGETS has what CLANG knows.
"""
import concurrent.futures
import hashlib
import os
import re
import subprocess

import machine_code

WORK = os.environ['WORK']
# The GPUs that the null driver pretends to be, and for what their programs are compiled.
TARGETS = {'h200': ['sm_80', 'sm_90'], 'mi300x': ['gfx90a', 'gfx1100']}
LOCAL_OF_CORE = {'sm_80': 164 << 10, 'sm_90': 228 << 10}
WAVES = {'gfx90a': 8, 'gfx1100': 16}


class Failure(Exception):
    pass


class Program:
    def __init__(self, path):
        with open(path) as file:
            self.options, self.source = file.read().split('\n', 1)
        self.options = self.options[2:].split()
        self.groups = {}  # by kernel: the size of its group, in each dimension
        self.compiled = {}  # by target: kernels by name
        self.text = None

    def key(self):
        text = '\n'.join([*self.options, self.source, str(sorted(self.groups.items()))])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def title(self):
        """The options that solvers chose."""
        return ' '.join(o[2:] for o in self.options if o.startswith('-D') and not o.startswith('-DYKI_'))

    def numbers(self):
        """Those of the options that are numbers, by name."""
        return {name: int(value) for name, value in re.findall(r'-D(\w+)=(\d+)', ' '.join(self.options))}

    def preprocessed(self):
        if self.text is None:
            self.text = run([os.environ['CLANG'], *self.options, '-x', 'cl', '-E', '-P', '-target',
                             'nvptx64-nvidia-nvcl', '-'], self.source)
        return self.text

    def parameters(self, kernel):
        """(name, what it is) of each parameter: 'read' and 'write' are buffers, others ''."""
        found = re.search(r'__kernel\b[^{;]*\b' + kernel + r'\s*\(([^)]*)\)', self.preprocessed())
        if not found:
            raise Failure(f'{kernel}: its parameters are not found')
        return [(re.search(r'(\w+)\s*$', p)[1],
                 '' if '*' not in p else 'read' if 'const' in p else 'write')
                for p in found[1].split(',')]


class Launch:
    def __init__(self, line, programs, folder):
        words = line.split()
        self.flops, self.solver = int(words[0]) if words[0] != '-' else 0, words[2]
        self.kernel = words[5]
        self.groups, self.local = ([int(n) for n in w.split('x')] for w in words[6:8])
        number = words[9][1:]
        path = f'{folder}/{number}.cl'
        if path not in programs:
            programs[path] = Program(path)
        self.program = programs[path]
        self.program.groups[self.kernel] = self.local
        self.arguments = words[10:]

    def items(self):
        return product(self.local)

    def ints(self):
        """The ints by name of the parameter."""
        named = zip(self.program.parameters(self.kernel), self.arguments)
        return {name: int(a) for (name, _), a in named if re.match(r'-?\d+$', a)}

    def moved(self, updates, without):
        """Bytes of the buffers that it reads and writes, each once. With `updates` those that it
        writes are read too; parameters in `without` do not count."""
        sizes = {}
        for (name, what), a in zip(self.program.parameters(self.kernel), self.arguments):
            if what and a[0] == 'm' and name not in without:
                number, size = a[1:].split(':')
                sizes[number, what] = int(size)
                if updates and what == 'write':
                    sizes[number, 'read'] = int(size)
        return sum(sizes.values())


def product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result


def run(command, text=''):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f'{" ".join(command)}: {done.stderr[:2000]}')
    return done.stdout


def clang(program, target, cpu, library):
    """Compiles to assembly: the text."""
    return run([os.environ['CLANG'], *program.options, '-x', 'cl', '-target', target, '-Xclang',
                '-target-cpu', '-Xclang', cpu, '-Xclang', '-finclude-default-header', '-Xclang',
                '-mlink-builtin-bitcode', '-Xclang', f'{os.environ["CLC"]}/{library}', '-nogpulib',
                '-Wno-linker-warnings', '-w', '-O3', '-S', '-o', '-', '-'], program.source)


def with_groups(ptx, groups):
    """Says the size of a group where clang did not: versions up to 14 leave it out."""
    for name, local in groups.items():
        local = (local + [1, 1])[:3]
        ptx = re.sub(r'(\.entry ' + name + r'\([^)]*\)\s*)\{',
                     rf'\1.reqntid {local[0]}, {local[1]}, {local[2]}\n{{', ptx, count=1)
    return ptx


def kept(name, make):
    """The text of a file in WORK, which `make` gives if it is not there."""
    path = f'{WORK}/compiled/{name}'
    if not os.path.exists(path):
        text = make()
        with open(path + '.new', 'w') as file:
            file.write(text)
        os.rename(path + '.new', path)
    with open(path) as file:
        return file.read()


def compile_for(program, target):
    key = program.key()
    if target.startswith('gfx'):
        text = kept(f'{key}.{target}.s',
                    lambda: clang(program, 'amdgcn-amd-amdhsa', target, 'amdgcn--amdhsa.bc'))
        return machine_code.read_amd(text, WAVES[target])
    path = f'{WORK}/compiled/{key}'
    kept(f'{key}.ptx',
         lambda: with_groups(clang(program, 'nvptx64-nvidia-nvcl', 'sm_80', 'nvptx64--nvidiacl.bc'),
                             program.groups))
    if not os.environ['PTXAS']:
        return {}

    def assemble():
        command = [os.environ['PTXAS'], f'-arch={target}', '-v', '-O3', f'{path}.ptx', '-o',
                   f'{path}.{target}.cubin']
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f'{" ".join(command)}: {done.stderr[:2000]}')
        return done.stderr

    log = kept(f'{key}.{target}.log', assemble)
    sass = kept(f'{key}.{target}.sass',
                lambda: run([os.environ['CUOBJDUMP'], '-sass', f'{path}.{target}.cubin']))
    items = {name: product(local) for name, local in program.groups.items()}
    return machine_code.read_nvidia(sass, log, items, LOCAL_OF_CORE[target])


def read(device, models=None):
    """The launches on a device by run, such as "resnet18.128"."""
    runs, programs = {}, {}
    for folder in sorted(os.listdir(WORK)):
        if folder.startswith(device + '.') and (not models or folder.split('.', 1)[1] in models):
            with open(f'{WORK}/{folder}/launches') as file:
                runs[folder.split('.', 1)[1]] = [Launch(line, programs, f'{WORK}/{folder}')
                                                 for line in file]
    return runs


def compile_all(runs, targets):
    """Compiles the programs of all launches; the same one in several runs becomes one."""
    unique = {}
    for launch in (l for launches in runs.values() for l in launches):
        same = (*launch.program.options, launch.program.source)
        found = unique.setdefault(same, launch.program)
        found.groups.update(launch.program.groups)
        launch.program = found
    os.makedirs(f'{WORK}/compiled', exist_ok=True)

    def compile_one(program):
        for target in (t for t in targets if t in os.environ['STATIC_TARGETS'].split()):
            program.compiled[target] = compile_for(program, target)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, unique.values()))
