#!/usr/bin/env python3
"""Checks that files and tests which a page of notes names exist.

usage: named_tests.py ROOT, or named_tests.py --self-test

In docs/notes/defects.md, `Suite.Name` is a GoogleTest test, `test_file.test_name` a method of tests/cli/test_file.py or a
function of python/tests/test_file.py, `a/path` a file, and `name` a CTest test. Every row names at least one test, or says "none".
"""
import pathlib
import re
import sys

PAGE = "docs/notes/defects.md"


def tests_of(root):
    """Names of all tests, by their sources' texts."""
    names = set()
    for path in (*(root / "tests").rglob("*"), *(root / "python/tests").glob("*.py")):
        if path.suffix == ".cpp":
            found = re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.M)
            names |= {".".join(test) for test in found}
        elif path.suffix == ".py":
            names |= {f"{path.stem}.{method}" for method in re.findall(r"^(?:    )?def (test_\w+)", path.read_text(), re.M)}
        elif path.name == "CMakeLists.txt":
            text = path.read_text()
            added = re.findall(r"add_test\(NAME (\S+)", text)
            items = re.findall(r'"(\w+)\|', text)  # foreach(test IN ITEMS "name|arguments" …)
            added = [name.removesuffix("_${part}") for name in added]
            names |= {full for name in added for full in [name] + [name.replace("${name}", item) for item in items]}
    return names


def complaints(page, tests, exists):
    for number, line in enumerate(page.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[0] in ("what was wrong", "---"):
            continue
        named = re.findall(r"`([^`]+)`", cells[2])
        if not named and not cells[2].startswith("none"):
            yield f"{PAGE}:{number}: names no test"
        yield from (f"{PAGE}:{number}: there is no test {test}" for test in named if test not in tests)
        files = [file for file in re.findall(r"`([^`]+)`", cells[1]) if "/" in file]
        yield from (f"{PAGE}:{number}: there is no file {file}" for file in files if not exists(file))


def self_test():
    page = ("| what was wrong | mended in | test |\n|---|---|---|\n| a | `x/y` | `A.B` |\n"
            "| b | `x/z` | `A.C`, `d` |\n| c | | |\n| d | | none |")
    found = list(complaints(page, {"A.B", "d"}, lambda file: file == "x/y"))
    expected = [f"{PAGE}:4: there is no test A.C", f"{PAGE}:4: there is no file x/z", f"{PAGE}:5: names no test"]
    assert found == expected, found


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    found = list(complaints((root / PAGE).read_text(), tests_of(root), lambda file: (root / file).is_file()))
    print("\n".join(found))
    sys.exit(f"{len(found)} complaints" if found else 0)


if __name__ == "__main__":
    main()
