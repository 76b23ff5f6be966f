#!/usr/bin/env python3
"""Checks that the files of requirements pin one version of a library, which all bounds on it admit, and that the version of
Unisono stands in CMakeLists.txt alone, with a section in the changelog.

usage: pins.py ROOT, or pins.py --self-test
"""
import pathlib
import re
import sys

FILES = ("scripts/requirements-*.txt", "models/*/requirements.txt")
MAY_NAME_VERSION = ("pyproject.toml", "README.md", "Dockerfile", "scripts/*.sh", "docs/**/*.md", "docs/site/*", "python/**/*.py", "tests/**/*.py", "tests/**/*.sh")

# (library, file): why this file has another version
OTHERS = {
    ("onnx", "scripts/requirements-test.txt"): "the last version that ships models and data of its node tests as files",
}


def requirements(text):
    """[(library, [(comparison, version)])] of a file."""
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, bounds = re.fullmatch(r"([\w.-]+)\s*(.*)", line).groups()
            yield re.sub(r"[-_.]+", "-", name).lower(), re.findall(r"(==|>=|<=|!=|~=|<|>)\s*([\w.]+)", bounds)


def number(version):
    """Ends in zeros, so that 1 and 1.0 are the same."""
    parts = [int(p) for p in re.findall(r"\d+", version)]
    return parts + [0] * (6 - len(parts))


def admits(bound, pin):
    how, version = bound
    a, b = number(pin), number(version)
    return {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, "<": a < b, ">": a > b}.get(how, False)


def complaints(files, others):
    """`files`: {name: text}."""
    pins, bounds, used = {}, [], set()
    for name, text in files.items():
        for library, those in requirements(text):
            if (library, name) in others:
                used.add((library, name))
                continue
            for how, version in those:
                if how == "==":
                    pins.setdefault(library, {}).setdefault(version, []).append(name)
                else:
                    bounds.append((library, (how, version), name))
    for library, versions in sorted(pins.items()):
        if len(versions) > 1:
            yield f"{library} is pinned to " + " and to ".join(f"{v} in {', '.join(n)}" for v, n in versions.items())
    for library, bound, name in bounds:
        for pin in pins.get(library, {}):
            if not admits(bound, pin):
                yield f"{name} wants {library}{''.join(bound)}, and {', '.join(pins[library][pin])} {pin}"
    for library, name in sorted(set(others) - used):
        yield f"{name} does not name {library}: pins.py has an exception for it"


def of_unisono(cmake, changelog, others):
    """Complaints about the version of Unisono. `others`: {name: text} of files that must not repeat it."""
    version = re.search(r"^project\(unisono VERSION (\d+\.\d+\.\d+) ", cmake, re.M)
    if not version:
        yield "CMakeLists.txt: project(unisono VERSION …) has no version of three numbers"
        return
    newest = re.search(r"^## (\S+)", changelog, re.M)
    if not newest or newest[1] != version[1]:
        yield f"CHANGELOG.md begins with {newest[1] if newest else 'no version'}, and CMakeLists.txt has {version[1]}"
    for name, text in others.items():
        if re.search(rf"(?i)(version|unisono)\W[^\n]{{0,20}}\b{re.escape(version[1])}\b", text):
            yield f"{name} repeats the version {version[1]}: read it from CMakeLists.txt"


def self_test():
    same = {"a": "torch==2.15.0\nnumpy>=1.26,<3  # words", "b": "Torch==2.15.0\nnumpy==2.4.6\nx_y==1\n# x-y==2", "c": "x-y==1"}
    assert not list(complaints(same, {}))
    two = {"a": "torch==2.15.0", "b": "torch==2.11.0"}
    assert list(complaints(two, {})) == ["torch is pinned to 2.15.0 in a and to 2.11.0 in b"]
    assert not list(complaints(two, {("torch", "b"): "why"}))
    assert len(list(complaints({"a": "torch==2.15.0"}, {("torch", "b"): "why"}))) == 1
    for bound, bad in ((">=2.16", True), ("<2.15", True), (">=2.11,<3", False), ("!=2.15.0", True), ("~=2.15", True)):
        assert bool(list(complaints({"a": "torch==2.15.0", "b": f"torch{bound}"}, {}))) is bad, bound
    cmake = "project(unisono VERSION 1.2.3 LANGUAGES CXX"
    assert not list(of_unisono(cmake, "# Changelog\n## 1.2.3 (not released)\n## 1.2.2", {"a": "pad 1.2.3", "b": "version = 1.2.30"}))
    assert len(list(of_unisono(cmake, "## 1.2.2", {"a": 'version = "1.2.3"', "b": "unisono-1.2.3.whl"}))) == 3
    assert len(list(of_unisono("project(unisono LANGUAGES CXX", "## 1.2.2", {}))) == 1


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1])
    files = {str(f.relative_to(root)): f.read_text() for pattern in FILES for f in sorted(root.glob(pattern))}
    others = [f for pattern in MAY_NAME_VERSION for f in root.glob(pattern) if f.is_file()]
    read = {str(f.relative_to(root)): f.read_text() for f in others}
    found = [*complaints(files, OTHERS), *of_unisono((root / "CMakeLists.txt").read_text(), (root / "CHANGELOG.md").read_text(), read)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
