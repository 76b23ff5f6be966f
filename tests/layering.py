#!/usr/bin/env python3
"""Checks that the #include lines of src/ follow the dependencies that the CMakeLists.txt files draw, that includes within
src/ run one way, that those of kernels/ follow the order of their folders, and that unisono/unisono.hpp includes every
public header.

usage: layering.py ROOT

The drawing is the DEPENDS of each unisono_folder(); it must have no cycle, and a folder may include its own headers,
those of the folders it depends on (directly or through others), and public headers. A folder that has sub-folders says
in SUB_FOLDERS in which order they stand: each may include those ahead of it. A module is a header and the source of its
name; modules do not include one another in a circle, whichever of their two files it goes through. Neither do public
headers, and headers of kernels/; of these none is longer than MOST_LINES, and no line longer than MOST_COLUMNS.
Modules of the Python package import one another in one direction (imports within functions apart), and those that
docs/architecture.md puts in order stand in it.
"""
import ast
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


# Nothing may depend on a folder to its right; the reference stands beside the passes. docs/architecture.md draws it.
FORBIDDEN = {
    "support": ["ir", "passes", "plan", "codegen", "jit", "runtime", "reference", "network"],
    "ir": ["passes", "plan", "codegen", "jit", "runtime", "reference", "network"],
    "passes": ["plan", "codegen", "jit", "runtime", "reference", "network"],
    "plan": ["families", "lower", "tuning", "codegen", "jit", "runtime", "reference", "network"],
    "codegen": ["tensors", "products", "families", "lower", "tuning", "jit", "runtime", "reference", "network"],
    "products": ["tensors", "families", "lower", "tuning", "jit", "runtime", "reference", "network"],
    "tensors": ["products", "families", "lower", "tuning", "jit", "runtime", "reference", "network"],
    "tuning": ["lower", "jit", "runtime", "tuner", "reference", "network"],
    "lower": ["tuner", "reference", "network"],
    "jit": ["lower", "ir", "passes", "plan", "codegen", "runtime", "reference", "network"],
    "reference": ["passes", "plan", "codegen", "jit", "runtime", "network"],
    "reference/network": ["passes", "jit", "runtime"],  # evaluates networks, and is apart from the library
    "reference/onnx": ["passes", "jit", "runtime"],
    "runtime": ["reference", "network", "gradients", "training"],
    "network": ["gradients", "training"],
    "gradients": ["training"],
}


# Sub-folders of the folders of src/ that have some, "." for the folder itself: each may include those ahead of it. No
# family includes another: their DEPENDS say that.
SUB_FOLDERS = {
    "families": ["interface", "sm90", "plain", "mma", "cutlass_evt", "sm90_depthwise", "sm90_conv", "."],
    "reference": [".", "network", "onnx"],
    "network": [".", "onnx", "cuda", "cuda/tensor", "cuda/decide", "cuda/emit", "cuda/run"],
    "runtime": ["common", "cpu/vector", "cpu", "cpu/ops", "cudnn", "cuda"],
}

# Folders of kernels/unisono: each may include those ahead of it.
KERNELS = ["params", "ptx", "tile", "exchange", "mma", "epilogue", "load", "sm80", "sm90", "plain", "tensor", "update", "product", "check", "cutlass"]
MOST_LINES, MOST_COLUMNS = 300, 120

# Folders that ask families, or plan::Device, what a GPU can do, and compare no compute capabilities
ASK = ["codegen", "lower", "network", "passes", "tuner", "tuning"]
CAPABILITY = re.compile(r"\bdevice\.(major|minor)\b")

# What is included outside src/families
OF_ALL_FAMILIES = re.compile(r"families/(interface/\w+|registry|override|\w+/family)\.hpp")


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


def circle(graph):
    """Files or modules that include one another, or nothing."""
    done = set()

    def visit(header, path):
        if header in path:
            return path[path.index(header):] + [header]
        if header in done:
            return None
        for other in graph.get(header, []):
            if found := visit(other, path + [header]):
                return found
        done.add(header)
        return None

    return next((found for header in sorted(graph) if (found := visit(header, []))), None)


def one_way(root):
    """What is wrong with the includes within src/: circles of modules, and sub-folders that include later ones."""
    problems, modules, seen_folders = [], {}, set()
    for source in sorted((root / "src").rglob("*.[hc]pp")):
        name = source.relative_to(root / "src")
        top, folder = name.parts[0], "/".join(name.parts[1:-1]) or "."
        order = SUB_FOLDERS.get(top, ["."])
        seen_folders.add((top, folder))
        if len(name.parts) > 1 and folder not in order:
            problems.append(f"{source}: src/{top} does not say where its sub-folder {folder} stands")
            continue
        module = modules.setdefault(str(name.with_suffix("")), set())
        for number, header in includes(source):
            other = pathlib.PurePath(header)
            if header.startswith("unisono/") or other.suffix != ".hpp" or not (root / "src" / header).exists():
                continue
            module.add(str(other.with_suffix("")))
            others_folder = "/".join(other.parts[1:-1]) or "."
            if other.parts[0] == top and others_folder in order and order.index(others_folder) > order.index(folder):
                problems.append(f"{source}:{number}: src/{top}: {folder} stands before {others_folder}")
    for name, others in modules.items():
        others.discard(name)
    if found := circle({name: sorted(others) for name, others in modules.items()}):
        problems.append(f"modules of src/ include one another: {' -> '.join(found)}")
    for top in {folder for folder, _ in seen_folders} & SUB_FOLDERS.keys():
        problems += [f"src/{top}: there is no sub-folder {f}" for f in SUB_FOLDERS[top] if (top, f) not in seen_folders and f != "."]
    return problems


def capabilities(root):
    """Comparisons of compute capabilities where families are asked."""
    return [
        f"{source}:{number}: asks for a compute capability; ask the family, or plan::Device"
        for folder in ASK
        for source in sorted((root / "src" / folder).rglob("*.[hc]pp"))
        for number, line in enumerate(source.read_text().splitlines(), 1)
        if CAPABILITY.search(line)
    ]


def in_public(root):
    """Public headers that include one another."""
    public = root / "include"
    found = circle({str(h.relative_to(public)): [x for _, x in includes(h)] for h in sorted(public.rglob("*.hpp"))})
    return [f"public headers include one another: {' -> '.join(found)}"] if found else []


def in_kernels(root):
    """What is wrong with the device headers."""
    problems, graph = [], {}
    home = root / "kernels" / "unisono"
    for kernel in sorted(home.rglob("*.cuh")):
        name, folder = kernel.relative_to(root / "kernels"), kernel.parent.name
        lines = kernel.read_text().splitlines()
        if len(lines) > MOST_LINES:
            problems.append(f"{kernel}: {len(lines)} lines, of {MOST_LINES}")
        problems += [f"{kernel}:{n}: {len(line)} columns, of {MOST_COLUMNS}" for n, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS]
        if folder not in KERNELS:
            problems.append(f"{kernel}: {folder} has no place in the order of folders")
            continue
        graph[str(name)] = [header for _, header in includes(kernel)]
        for number, header in includes(kernel):
            parts = pathlib.PurePath(header).parts
            if len(parts) != 3 or parts[0] != "unisono" or parts[1] not in KERNELS:
                problems.append(f"{kernel}:{number}: {header} is no header of kernels/")
            elif KERNELS.index(parts[1]) > KERNELS.index(folder):
                problems.append(f"{kernel}:{number}: {folder} stands before {parts[1]}")
    if not graph:
        problems.append(f"no headers in {home}")
    if found := circle(graph):
        problems.append(f"headers include one another: {' -> '.join(found)}")
    return problems


def imports(source, package):
    """(line, module) of the package's own modules that a Python module imports. Not within functions, by which calls
    load the operators that they need."""
    for node in ast.parse(source.read_text(), str(source)).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            home = source.parent
            for _ in range(node.level - 1):
                home = home.parent
            target = home.joinpath(*(node.module or "").split(".")) if node.module else home
            named = [target.with_suffix(".py")] if node.module else [target / f"{name.name}.py" for name in node.names]
            for one in named:
                if one.exists() and package in one.parents:
                    yield node.lineno, one.relative_to(package)


def in_python(root):
    """Modules of the Python package import one another in one direction: that of docs/architecture.md."""
    package = root / "python" / "unisono"
    text = " ".join((root / "docs" / "architecture.md").read_text().split())
    order = re.search(r"import one another in the order ([\w, ]+) \(\[python\.md\]", text)
    if not order:
        return ["docs/architecture.md: in which order modules of the Python package stand is not said"]
    rank = {name: i for i, name in enumerate(order.group(1).split(", "))}
    graph, problems = {}, []
    for source in sorted(package.rglob("*.py")):
        if source.stem.startswith("__"):
            continue
        name = source.relative_to(package)
        graph[str(name)] = set()
        for number, other in imports(source, package):
            graph[str(name)].add(str(other))
            if rank.get(other.stem, -1) > rank.get(name.stem, len(rank)):
                problems.append(f"{source}:{number}: {name.stem} stands before {other.stem}")
    for name in rank:
        if not any(pathlib.Path(module).stem == name for module in graph):
            problems.append(f"docs/architecture.md: python/unisono has no module {name}")
    if not graph:
        problems.append(f"no modules in {package}")
    if found := circle(graph):
        problems.append(f"Python modules import one another: {' -> '.join(found)}")
    return problems


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
            if header.startswith("families/") and top != "families" and not OF_ALL_FAMILIES.fullmatch(header):
                problems.append(f"{source}:{number}: {header} is a family's own; others know families by their interface")
            stands = str(relative.parent) if str(relative.parent) in FORBIDDEN else top
            if home is not None and home.parts[0] in FORBIDDEN.get(stands, []):
                problems.append(f"{source}:{number}: src/{stands} stands before src/{home.parts[0]}")
    problems += capabilities(root)
    problems += one_way(root)
    problems += in_public(root)
    problems += in_kernels(root)
    problems += beyond_umbrella(root)
    problems += in_python(root)
    print("\n".join(problems) if problems else f"{seen} includes in {len(found)} folders follow the layering")
    if seen == 0:
        sys.exit("no includes found: wrong root?")
    sys.exit(1 if problems else 0)


main()
