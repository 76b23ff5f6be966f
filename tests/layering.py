#!/usr/bin/env python3
"""Checks that the #include lines of src/ follow the dependencies that the CMakeLists.txt files draw, and that
unisono/unisono.hpp includes every public header.

usage: layering.py ROOT

The drawing is the DEPENDS of each unisono_folder(); it must have no cycle, and a folder may include its own headers,
those of the folders it depends on (directly or through others), and public headers.
"""
import pathlib
import re
import sys


def folders(root):
    """{target: (folder, direct dependencies)} from src/**/CMakeLists.txt."""
    found = {}
    for listing in sorted((root / "src").rglob("CMakeLists.txt")):
        text = re.sub(r"#.*", "", listing.read_text())
        for name, body in re.findall(r"unisono_folder\(\s*(\w+)(.*?)\)", text, re.S):
            depends = re.search(r"\bDEPENDS\b(.*?)(?:\bPRIVATE_DEPENDS\b|\bSOURCES\b|$)", body, re.S)
            private = re.search(r"\bPRIVATE_DEPENDS\b(.*?)(?:\bDEPENDS\b|\bSOURCES\b|$)", body, re.S)
            words = ((depends.group(1) if depends else "") + (private.group(1) if private else "")).split()
            found["unisono_" + name] = (listing.parent.relative_to(root / "src"), [w for w in words if w.startswith("unisono_")])
    return found


def closure(found, target, path=()):
    """All targets that `target` may include; reports a cycle."""
    if target in path:
        sys.exit(f"cycle: {' -> '.join(path + (target,))}")
    result = {target}
    for d in found.get(target, (None, []))[1]:
        if d in found:
            result |= closure(found, d, path + (target,))
    return result


# What DESIGN draws: nothing may depend on a folder to its right, and reference stands beside the passes.
FORBIDDEN = {
    "support": ["ir", "passes", "plan", "codegen", "jit", "runtime", "reference", "network"],
    "ir": ["passes", "plan", "codegen", "jit", "runtime", "reference", "network"],
    "passes": ["plan", "codegen", "jit", "runtime", "reference", "network"],
    "plan": ["families", "lower", "tuning", "codegen", "jit", "runtime", "reference", "network"],
    "codegen": ["families", "lower", "tuning", "jit", "runtime", "reference", "network"],
    "tuning": ["lower", "jit", "runtime", "tuner", "reference", "network"],
    "lower": ["tuner", "reference", "network"],
    "jit": ["lower", "ir", "passes", "plan", "codegen", "runtime", "reference", "network"],
    "reference": ["passes", "plan", "codegen", "jit", "runtime", "network"],
    "runtime": ["reference", "network"],
}


def includes(path):
    """(line number, header) of every #include in quotes."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if match:
            yield number, match.group(1)


def beyond_umbrella(root):
    """Public headers that unisono.hpp does not reach."""
    public, reached, waiting = root / "include", set(), ["unisono/unisono.hpp"]
    while waiting:
        header = waiting.pop()
        if header in reached:
            continue
        reached.add(header)
        waiting += [h for _, h in includes(public / header) if h.startswith("unisono/")]
    everything = {str(h.relative_to(public)) for h in public.rglob("*.hpp")}
    return [f"include/{h}: unisono/unisono.hpp does not include it" for h in sorted(everything - reached)]


def main():
    root = pathlib.Path(sys.argv[1])
    found = folders(root)
    by_folder = {folder: target for target, (folder, _) in found.items()}
    problems, seen = [], 0
    for source in sorted((root / "src").rglob("*.[hc]pp")):
        relative = source.relative_to(root / "src")
        owner = next((by_folder[p] for p in relative.parents if p in by_folder), None)
        if owner is None:
            continue  # src/compile.cpp: shows the whole way
        allowed = {found[t][0] for t in closure(found, owner)}
        for number, header in includes(source):
            seen += 1
            if header.startswith("unisono/"):
                continue
            home = next((p for p in pathlib.PurePath(header).parents if pathlib.Path(p) in by_folder), None)
            if home is None:
                if not (root / "src" / header).exists():
                    continue  # generated code and headers of other libraries
                problems.append(f"{source}:{number}: {header} belongs to no folder")
            elif pathlib.Path(home) not in allowed:
                problems.append(f"{source}:{number}: {owner} may not include {header}")
            top = relative.parts[0]
            if home is not None and home.parts[0] in FORBIDDEN.get(top, []):
                problems.append(f"{source}:{number}: src/{top} stands before src/{home.parts[0]}")
    for kernel in sorted((root / "kernels").rglob("*.cuh")):
        for number, header in includes(kernel):
            if "src/" in header or (root / "src" / header).exists():
                problems.append(f"{kernel}:{number}: kernels/ may not include {header} of src/")
    problems += beyond_umbrella(root)
    print("\n".join(problems) if problems else f"{seen} includes in {len(found)} folders follow the layering")
    if seen == 0:
        sys.exit("no includes found: wrong root?")
    sys.exit(1 if problems else 0)


main()
