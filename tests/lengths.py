#!/usr/bin/env python3
"""Checks how long functions and files are.

usage: lengths.py ROOT [--list N], or lengths.py --self-test

A function counts from the first line of its declaration to its closing brace; a lambda belongs to the function around
it. A function has MOST_LINES lines at most, one that EXCEPTIONS or KERNELS names LONGEST; half of all functions
have MEDIAN at most.
A file of src/, kernels/ or tools/ has FILE_LINES lines at most, one of SHORT_FOLDERS SHORT_FILE_LINES. An exception
that is not needed any more is a complaint too. Python of COLUMNS_HELD has COLUMNS columns at most; clang-format holds C++.
--list shows the N longest functions.
"""
import pathlib
import re
import statistics
import sys
import tempfile

MOST_LINES, LONGEST, MEDIAN = 40, 60, 10
FILE_LINES, SHORT_FILE_LINES = 400, 300
COLUMNS, COLUMNS_HELD = 120, "python/unisono"
FOLDERS = ["src", "kernels", "tools", "include"]
SHORT_FOLDERS = ("src/plan/", "src/families/", "src/codegen/", "kernels/")
SUFFIXES = {".cpp", ".hpp", ".cuh", ".cu", ".h"}

# {file: why it is longer}
LONG_FILES = {}
# {file: {function: why it is one piece}}
EXCEPTIONS = {
    "tools/bench/command_line.cpp": {"add_options": "a table: a line or two an option"},
    "src/reference/unary.cpp": {"evaluate_unary": "a case for each row of the table of operations, by macros"},
    "src/runtime/cpu/vector/kernels.cpp": {"make_unit": "a table: a line an instruction"},
}
# The same of kernels. The compiler allocates registers to a whole role of a kernel, and a part that is taken out (forced
# inline) may be scheduled in another order. So they are cut only where SASS stays equal. Comments mark their steps.
ROLE = "a warp's whole role: its loop carries the state of the pipeline in registers"
UNROLLED = "one unrolled pass over a tile's accumulators, which must stay in registers"
KERNELS = {
    "kernels/unisono/sm90/consumer.cuh": {"ConvFprop<Config, Visitor>::consume": ROLE},
    "kernels/unisono/sm90/warp_roles.cuh": {"ConvFprop<Config, Visitor>::run": "deals the roles out, and their barriers"},
    "kernels/unisono/load/sm90_producer_warps.cuh": {"Producer<Kernel>::explicit_im2col": ROLE},
    "kernels/unisono/load/direct.cuh": {"multiply": UNROLLED},
    "kernels/unisono/exchange/warp_moments.cuh": {"warp_moments": UNROLLED},
    "kernels/unisono/epilogue/sm90_epilogue_stores.cuh": {"Epilogue<Config, Visitor>::store": UNROLLED},
    "kernels/unisono/epilogue/sm90_second_pass_normalise.cuh": {"SecondPass<Config, Visitor>::normalise": UNROLLED},
    "kernels/unisono/epilogue/fold_results.cuh": {
        "FoldColumns<Tail, List>::finish_column": UNROLLED,
        "FoldColumns<Tail, List>::finish_group": UNROLLED,
    },
    "kernels/unisono/plain/border_tile.cuh": {"transpose_border": "a tile read, turned in shared memory and written"},
    "kernels/unisono/plain/plain_graph.cuh": {"partials": "a CTA's rows folded, its warps joined, the state written"},
}

# What is blanked before braces are counted: comments, raw strings, strings, characters and directives
BLANKED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"""
    r"""|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.S | re.M,
)
SCOPE = re.compile(r"^(?:inline\s+)?namespace\b|^extern$")
TYPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:typedef\s+)?(?:class|struct|union|enum)\b", re.S)
NAME = re.compile(r"((?:\w+(?:<[^<>()]*>)?::)*(?:operator\s*(?:\(\)|[^\s\w(]+|[\w:<>&* ]+)|~?\w+))\s*\(")
LABEL = re.compile(r"^(?:public|private|protected)\s*:\s*")
BODY = re.compile(r"(?:\)|\]|\b(?:const|noexcept|override|final|mutable|try)|&|->[^;{}()]*(?:\([^()]*\)[^;{}()]*)*)$", re.S)


def blanked(text):
    """The text with the same lines, without what is no code."""
    return BLANKED.sub(lambda m: ("" if m[0].lstrip()[:1] in "/#" else '""') + "\n" * m[0].count("\n"), text)


def initialised(header):
    """Whether what stands before a brace ends within a constructor's list of members: `T(int a) : a_` """
    depth = 0
    for i, c in enumerate(header):
        depth += (c in "([") - (c in ")]")
        if c == ":" and depth == 0 and header[i - 1] != ":" and header[i + 1 : i + 2] != ":" and ")" in header[:i]:
            return re.search(r"[\w>]\s*$", header[i:]) is not None
    return False


def name_of(header):
    """The name of the function whose declaration `header` is, or nothing."""
    header = re.sub(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)|\b(?:alignas|requires|decltype|explicit|noexcept)\s*\((?:[^()]|\([^()]*\))*\)", "", header)
    found = NAME.search(re.sub(r"^template\s*<[^{};]*?>\s*(?=[\w\[:~])", "", header))
    return re.sub(r"\s+", " ", found[1]) if found else None


def functions(text):
    """(name, line, lines) of each function that the text defines."""
    code, open_braces = blanked(text), []  # of each open brace: what it is, its name and the line of its beginning
    start, line, outer = None, 1, ""  # of the present declaration
    parens, inside = 0, False  # inside: of a function
    for c in code:
        if c == "\n":
            line += 1
        if c == "{" and not inside:
            header = LABEL.sub("", outer.strip())
            if open_braces and open_braces[-1][0] == "value" or parens > 0 or (initialised(header) and ")" in header):
                open_braces.append(("value", None, line, outer))
            elif SCOPE.match(header.replace('""', "").strip()) or (TYPE.match(header) and not header.endswith(")")):
                open_braces.append(("scope", None, line, ""))
                outer, start = "", None
            elif name_of(header) and not re.search(r"=\s*$", header) and (BODY.search(header) or ")" in header):
                open_braces.append(("function", name_of(header), start, ""))
                inside = True
            else:
                open_braces.append(("value", None, line, outer))
            continue
        if c == "{":
            open_braces.append(("inner", None, line, ""))
            continue
        if c == "}":
            if not open_braces:
                raise ValueError(f"line {line}: a brace too many")
            kind, name, first, before = open_braces.pop()
            if kind == "function":
                inside = False
                yield name, first, line - first + 1
            if kind in ("function", "scope"):
                outer, start, parens = "", None, 0
            if kind == "value":
                outer = before + "{}"
            continue
        if inside:
            continue
        parens += (c == "(") - (c == ")")
        if c == ";" and parens == 0:
            outer, start = "", None
            continue
        if start is None and not c.isspace():
            start = line
        if not (open_braces and open_braces[-1][0] == "value"):
            outer += c
            if LABEL.fullmatch(outer.strip() + " ") or LABEL.fullmatch(outer.strip()):
                outer, start = "", None
    if open_braces:
        raise ValueError(f"a brace of line {open_braces[-1][2]} is not closed")


def sources(root):
    """(name, path) of each file that is looked at."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield str(path.relative_to(root)), path


def long_files(root):
    for name, path in sources(root):
        most = SHORT_FILE_LINES if name.startswith(SHORT_FOLDERS) else FILE_LINES
        if (lines := len(path.read_text().splitlines())) > most:
            yield f"{name}: {lines} lines; at most {most}: split it where its subject changes"


def wide_lines(root):
    for path in sorted((root / COLUMNS_HELD).rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > COLUMNS:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns; at most {COLUMNS}"


def excepted(exceptions, all_functions):
    """Complaints about exceptions, and the (file, function) that they cover."""
    lengths = {(file, function): 0 for file, functions in exceptions.items() for function in functions}
    for length, file, function, _ in all_functions:
        if (file, function) in lengths:
            lengths[file, function] = max(length, lengths[file, function])
    unneeded = [
        f"{file}: {function} has {length} lines and needs no exception"
        for (file, function), length in lengths.items()
        if length <= MOST_LINES
    ]
    return unneeded, set(lengths)


def complaints(root):
    everything = [(length, name, function, line) for name, path in sources(root) for function, line, length in functions(path.read_text())]
    if not everything:
        yield f"no functions in {root}: wrong root?"
        return
    yield from long_files(root)
    yield from wide_lines(root)
    unneeded, left = excepted(EXCEPTIONS | KERNELS, everything)
    yield from unneeded
    for length, name, function, line in sorted(everything, reverse=True):
        most = LONGEST if (name, function) in left else MOST_LINES
        if length <= most:
            continue
        yield f"{name}:{line}: {function} has {length} lines; at most {most}: take a part out that has a name"
    if (median := statistics.median(length for length, *_ in everything)) > MEDIAN:
        yield f"half of all functions have more than {median} lines; at most {MEDIAN}"


def self_test():
    def found(text):
        return [(name, line, length) for name, line, length in functions(text)]

    assert found("int f() { return 1; }\n") == [("f", 1, 1)]
    assert found("namespace a {\nint f(int x,\n      int y) {\n  return x;\n}\n}\n") == [("f", 2, 4)]
    assert found('struct S {\n  S() : a_{1}, b_(f({2})) {\n  }\n  int a_{}, b_ = {3};\n};\n') == [("S", 2, 2)]
    assert found('const char* s = R"x( { } " )x";  // {\nvoid f() { g("{", \'{\'); /* } */ }\n') == [("f", 2, 1)]
    assert found("#define M(x) { \\\n  {\nauto T::operator()(int) const -> int {\n  auto g = [] { return 1; };\n}\n") == [("T::operator()", 3, 3)]
    assert found("template <class T>\nvoid A<T>::run() {\n}\nint table[] = {{1}, {2}};\nenum class E { a, b };\n") == [("A<T>::run", 1, 3)]
    assert found("int f(S s = {}) {\n  if (s) {\n  }\n}\nextern \"C\" {\nvoid g() {}\n}\n") == [("f", 1, 4), ("g", 6, 1)]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / COLUMNS_HELD).mkdir(parents=True)
        (root / COLUMNS_HELD / "a.py").write_text("µ" * COLUMNS + "\n" + "x" * (COLUMNS + 1))
        assert list(wide_lines(root)) == [f"{COLUMNS_HELD}/a.py:2: {COLUMNS + 1} columns; at most {COLUMNS}"]
    for broken in ("void f() {\n", "}\n"):
        try:
            found(broken)
        except ValueError:
            continue
        raise AssertionError(broken)


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    root = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:3] == ["--list"]:
        everything = [(length, f"{name}:{line}: {function}") for name, path in sources(root) for function, line, length in functions(path.read_text())]
        print("\n".join(f"{length:4} {where}" for length, where in sorted(everything, reverse=True)[: int(sys.argv[3])]))
        return
    found = list(complaints(root))
    print("\n".join(found))
    sys.exit(f"{len(found)} complaints" if found else 0)


if __name__ == "__main__":
    main()
