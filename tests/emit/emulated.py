"""Compiles what `unisono emit` wrote for the emulated GPU: its host function is the one that a user compiles, its kernel's
instructions without a name in C++ are the emulator's, as for kernels that the library compiles there."""

import pathlib
import re
import subprocess

OPENING, CLOSING, ABOVE = "// ---- unisono/", "// ---- end of unisono/", "// ---- above: unisono/"


def headers_of(text):
    """(the text with #include lines in place of the headers that it holds, {name: text of a header})."""
    headers, open_ones = {}, [("", [])]
    for line in text.splitlines(keepends=True):
        name = line.strip().rpartition(" ")[2]
        if line.startswith(OPENING):
            open_ones[-1][1].append(f'#include "{name}"\n')
            open_ones.append((name, ["#pragma once\n"]))
        elif line.startswith(CLOSING):
            ended, lines = open_ones.pop()
            assert ended == name, f"{ended} ends as {name}"
            headers[ended] = "".join(lines)
        elif line.startswith(ABOVE):
            open_ones[-1][1].append(f'#include "{name}"\n')
        else:
            open_ones[-1][1].append(line)
    assert len(open_ones) == 1, f"{open_ones[-1][0]} does not end"
    return "".join(open_ones[0][1]), headers


def renamed(text, name):
    """A header of the emulator's in the namespace of an emitted kernel."""
    text = re.sub(r"\bunisono::", f"unisono_{name}::", text)
    return re.sub(r"\bnamespace unisono\b(?!_)", f"namespace unisono_{name}", text)


def compiled(source, folder, root, cuda_include, compiler, options, behind=""):
    """What the compiler says of an emitted source for the emulator, with `behind` at its end."""
    folder.mkdir(parents=True)
    name, device = source.stem, root / "tests" / "emulator" / "device"
    text, headers = headers_of(source.read_text())
    for header, content in headers.items():
        own = device / pathlib.PurePath(header).relative_to("unisono")
        place = folder / header
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(renamed(own.read_text(), name) if own.exists() else content)
    program = folder / f"{name}.cpp"
    program.write_text(f"{text}\n{behind}\n")
    command = [compiler, "-std=c++20", "-ffp-contract=off", "-pthread",
               "-I", str(root / "tests" / "emulator" / "runtime"), "-I", str(root / "tests"), "-I", str(source.parent), "-I", str(folder),
               "-isystem", str(cuda_include), "-include", str(device / "prelude.hpp"), str(program), *options]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, f"{' '.join(command)}\n{made.stdout}{made.stderr[:4000]}"
    return made.stderr


def build(source, folder, root, toolkit, cuda_include, compiler):
    """The self check of an emitted source as a program for the emulator whose toolkit is given; returns its path."""
    # main() is behind the kernel: it must be known before main() runs, as a fat binary is
    kernel, output = f"{source.stem}_kernel", folder / source.stem
    compiled(source, folder, root, cuda_include, compiler,
             ["-O1", "-w", "-DUNISONO_SELF_CHECK", "-o", str(output), str(toolkit / "lib" / "libcuda.so.1"), "-ldl", f"-Wl,-rpath,{toolkit / 'lib'}"],
             f"UNISONO_EMULATED_LAUNCH({kernel})")
    return output
