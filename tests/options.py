#!/usr/bin/env python3
"""Checks that pages of docs/ name every field of the public options.

usage: options.py ROOT, or options.py --self-test

A field is documented where its name stands in backquotes: alone, with a value (`device = Device::cuda`), or after the
struct's (`CompileOptions::spare_sms`). Fields behind the line "// Device::cuda" stand in a row of a table of the page.
"""
import pathlib
import re
import sys

# (header, struct, page)
OPTIONS = [
    ("include/unisono/executable.hpp", "CompileOptions", "docs/cuda-backend.md"),
    ("include/unisono/network/executable.hpp", "NetworkOptions", "docs/networks.md"),
]


def fields(header, struct):
    """[(name, whether it is for CUDA)] of a struct."""
    body = re.search(rf"\nstruct {struct} {{\n(.*?)\n}};", header, re.DOTALL)[1]
    cuda = False
    for line in body.splitlines():
        cuda = cuda or line.strip() == "// Device::cuda"
        code = line.split("//")[0].strip()
        if code and (match := re.search(r"(\w+)(?: = [^;]*)?;$", code)):
            yield match[1], cuda


def is_named(page, struct, name):
    return re.search(rf"`(?:{struct}::)?{name}(?: = [^`]*)?`", page) is not None


def has_row(page, struct, name):
    return any(is_named(line.split("|")[1], struct, name) for line in page.splitlines() if line.startswith("|"))


def complaints(header, struct, page, other=""):
    """`other`: further pages, which may name what is not for CUDA."""
    for name, cuda in fields(header, struct):
        if cuda and not has_row(page, struct, name):
            yield f"{struct}::{name} stands in no row of a table"
        if not cuda and not is_named(page + other, struct, name):
            yield f"{struct}::{name} is named on no page"


def self_test():
    header = """
struct Options {
  int threads = 0;  ///< how many
  /// A list; of two
  std::map<std::string, DType> storage = {};
  std::function<void(const std::string& pass, int)> on_pass = {};

  // Device::cuda

  int spare_sms = 0;
};
"""
    assert list(fields(header, "Options")) == [("threads", False), ("storage", False), ("on_pass", False), ("spare_sms", True)]
    page = "`threads` and `storage`, `Options::on_pass`\n| field | meaning |\n|---|---|\n| `other`, `spare_sms` | SMs |\n"
    assert list(complaints(header, "Options", page)) == []
    assert list(complaints(header, "Options", page.replace("| `other`, ", ""))) == ["Options::spare_sms stands in no row of a table"]
    assert list(complaints(header, "Options", page.replace("`storage`", "storage"))) == ["Options::storage is named on no page"]
    assert list(complaints(header, "Options", page.replace("`storage`", ""), "`storage`")) == []


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    root = pathlib.Path(sys.argv[1])
    pages = "".join(page.read_text() for page in (root / "docs").glob("*.md"))
    count = 0
    for header, struct, page in OPTIONS:
        for complaint in complaints((root / header).read_text(), struct, (root / page).read_text(), pages):
            print(f"{page}: {complaint}")
            count += 1
    print(f"{count} complaints")
    sys.exit(count != 0)


if __name__ == "__main__":
    main()
