#!/usr/bin/env python3
"""Compares the machine code, registers and spills of the kernels in two folders.

usage: compare_sass.py OLD NEW [--nvdisasm PATH] [--write FOLDER]

A folder is a kernel cache (a folder a kernel: kernel.cubin, compile.log, entry.json), or holds files NAME.cubin, each
with the output of ptxas -v in NAME.log. Masked are addresses, offsets of constants and symbols: what a change of a
name or of the parameters' layout moves. Kernels of equal code are found whatever they are called; the others are
paired by title (else by name) and listed. --write puts the code of those in a folder, to be read with diff.

Exit code 0: every kernel has an equal one; 1: some have none; 2: the folders or nvdisasm cannot be read.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ADDRESS = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s*")
CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[[^\]]*\]")
SYMBOL = re.compile(r"@(lo|hi|fdesc)\([^()]*\)|`\((?!\.L)[^()]*\)")
REGISTERS = re.compile(r"Used (\d+) registers")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


class Unreadable(Exception):
    pass


def masked(disassembly):
    """The instructions of `nvdisasm -c`, one a line."""
    lines = []
    for line in disassembly.splitlines():
        if not ADDRESS.match(line):
            continue
        line = CONSTANT.sub(r"c[\1][#]", ADDRESS.sub("", line))
        lines.append(SYMBOL.sub(lambda m: f"@{m[1]}(#)" if m[1] else "`(#)", line).rstrip())
    return "\n".join(lines)


def resources(log):
    """Registers and spilled bytes (stores, loads) of ptxas -v; of several functions the most. None: it does not say."""
    registers = [int(n) for n in REGISTERS.findall(log)]
    spills = [(int(stores), int(loads)) for stores, loads in SPILLS.findall(log)]
    return (max(registers) if registers else None, max(spills) if spills else None)


@dataclasses.dataclass(frozen=True)
class Kernel:
    title: str
    sass: str
    registers: int | None
    spills: tuple[int, int] | None

    def key(self):
        return self.sass, self.registers, self.spills

    def __str__(self):
        digest = hashlib.sha256(self.sass.encode()).hexdigest()[:12]
        spills = "unknown" if self.spills is None else "{} + {} bytes".format(*self.spills)
        return f"{len(self.sass.splitlines())} instructions ({digest}), {self.registers} registers, spills {spills}"


def text_of(path):
    return path.read_text(errors="replace") if path.exists() else ""


def read_kernel(cubin, nvdisasm):
    try:
        done = subprocess.run([nvdisasm, "-c", str(cubin)], capture_output=True, text=True)
    except OSError as error:
        raise Unreadable(f"cannot run nvdisasm '{nvdisasm}': {error.strerror}; it is part of the CUDA toolkit, "
                         "or name it by --nvdisasm") from error
    if done.returncode != 0:
        raise Unreadable(f"nvdisasm cannot read '{cubin}': {done.stderr.strip()[:300]}")
    sass = masked(done.stdout)
    if not sass:
        raise Unreadable(f"'{cubin}' holds no instructions")
    if cubin.name == "kernel.cubin":  # an entry of a cache
        entry = json.loads(text_of(cubin.parent / "entry.json") or "{}").get("entry", {})
        title, log = entry.get("title") or cubin.parent.name, text_of(cubin.parent / "compile.log")
    else:
        title, log = cubin.stem, text_of(cubin.with_suffix(".log"))
    return Kernel(title, sass, *resources(log))


def read_folder(folder, nvdisasm):
    folder = pathlib.Path(folder)
    cubins = sorted(folder.glob("*/kernel.cubin")) or sorted(folder.glob("*.cubin"))
    if not cubins:
        raise Unreadable(f"'{folder}' holds no kernels: expected */kernel.cubin or *.cubin")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda cubin: read_kernel(cubin, nvdisasm), cubins))


def rest(kernels, others, key):
    """The kernels that have no equal one of the others."""
    left = collections.Counter(map(key, others))
    for kernel in kernels:
        if left[key(kernel)] > 0:
            left[key(kernel)] -= 1
        else:
            yield kernel


def unmatched(old, new):
    """The kernels of each list that have no equal one in the other: of the same title, then of any."""
    for key in (lambda kernel: (kernel.title, kernel.key()), Kernel.key):
        old, new = list(rest(old, new, key)), list(rest(new, old, key))
    return old, new


def differences(old, new):
    """A line a kernel without an equal one, those of one title together."""
    for title in sorted({k.title for k in old + new}):
        yield title
        for side, kernels in (("old", old), ("new", new)):
            for kernel in kernels:
                if kernel.title == title:
                    yield f"  {side}: {kernel}"


def write(folder, side, kernels):
    for number, kernel in enumerate(kernels):
        name = re.sub(r"[^\w.=,-]+", "_", kernel.title)[:100]
        path = pathlib.Path(folder) / side / f"{name}.{number}.sass"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kernel.sass + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--write", metavar="FOLDER")
    options = parser.parse_args()
    try:
        old, new = (read_folder(folder, options.nvdisasm) for folder in (options.old, options.new))
    except (Unreadable, json.JSONDecodeError) as error:
        print(f"compare_sass.py: {error}", file=sys.stderr)
        return 2
    only_old, only_new = unmatched(old, new)
    print(f"{len(old)} and {len(new)} kernels; {len(old) - len(only_old)} are equal in code, registers and spills")
    for line in differences(only_old, only_new):
        print(line)
    if options.write:
        write(options.write, "old", only_old)
        write(options.write, "new", only_new)
    return 1 if only_old or only_new else 0


if __name__ == "__main__":
    sys.exit(main())
