#!/usr/bin/env python3
"""Checks the docs: how many words they have, that every link within the tree leads somewhere, that the C++ reference
has every public header, and that pages which describe a structure have a picture.

usage: pages.py ROOT, or pages.py --self-test

All pages of docs/ but the notes have ALL words at most, the notes NOTES, and a page PAGE; where more stands today, the
ceiling is below. A ceiling may only fall: one that the words have left behind by more than SLACK is a complaint, too.
README.md has README words at most. Words are what white
space separates, if it has a letter or a digit: the lines of a table do not count.
"""
import pathlib
import re
import sys
import urllib.parse

ALL, NOTES, PAGE, README, SLACK = 55_000, 25_000, 4_000, 900, 2_000
# Where there are more today
CEILINGS = {}
# Pages that describe a structure: each has a picture that a script of docs/figures draws
PICTURED = ("architecture", "codegen", "cpu-backend", "cuda-backend", "evt", "jit", "networks", "networks-kernels", "one-launch", "one-launch-protocol",
            "passes", "plan", "plan-families", "plan-loads", "pytorch", "volumes")


def words(path):
    return sum(any(c.isalnum() for c in word) for word in path.read_text().split())


def counts(root):
    """{what: (words, most)}: sums, and pages."""
    pages = sorted((root / "docs").rglob("*.md"))
    notes = [p for p in pages if p.parent.name == "notes"]
    found = {"docs": (sum(words(p) for p in pages if p not in notes), ALL), "docs/notes": (sum(map(words, notes)), NOTES),
             "README.md": (words(root / "README.md"), README)}
    return found | {str(p.relative_to(root)): (words(p), PAGE) for p in pages}


def too_long(found, ceilings):
    for name, (count, most) in found.items():
        ceiling = ceilings.get(name, most)
        if count > ceiling:
            yield f"{name}: {count} words, at most {ceiling}"
        elif name in ceilings and (count <= most or count < ceiling - SLACK):
            yield f"{name}: {count} words: {'its ceiling is not needed any more' if count <= most else f'lower its ceiling of {ceiling}'}"
    yield from (f"{name}: there is no such page" for name in ceilings if name not in found)


def anchor(heading):
    """As GitHub and MyST name it: lower case, without marks, blanks as hyphens."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S))


def anchors(text):
    found = [anchor(h) for h in re.findall(r"^#+ (.*)$", re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S), re.M)]
    return {a if found[:i].count(a) == 0 else f"{a}-{found[:i].count(a)}" for i, a in enumerate(found)}


def broken(root, page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        parts = urllib.parse.urlsplit(link)
        if parts.scheme:
            continue
        target = page.parent / urllib.parse.unquote(parts.path) if parts.path else page
        if not target.exists():
            yield f"{page.relative_to(root)}: {link} leads nowhere"
        elif parts.fragment and target.suffix == ".md" and parts.fragment not in anchors(target.read_text()):
            yield f"{page.relative_to(root)}: {link}: no such heading"


def undocumented(root):
    """Public headers that the C++ reference leaves out, but those that include others alone."""
    page = (root / "docs" / "api" / "cpp.md").read_text()
    for header in sorted((root / "include" / "unisono").rglob("*.hpp")):
        name = str(header.relative_to(root / "include" / "unisono"))
        if f"{{doxygenfile}} {name.replace('/', '_')}\n" not in page and name not in ("unisono.hpp", "network.hpp"):
            yield f"docs/api/cpp.md: include/unisono/{name} is not there"


def unpictured(pages, pictured, figures):
    """`pages`: {name: text}; `figures`: names of the pictures that there are."""
    shown = {name: set(re.findall(r"!\[[^\]]+\]\(figures/([\w-]+)\.svg\)", text)) for name, text in pages.items()}
    for name in pictured:
        if not shown.get(name, set()) & figures:
            yield f"docs/{name}.md: a page that describes a structure has no picture of docs/figures"
    for figure in sorted(figures - set().union(*shown.values())):
        yield f"docs/figures/{figure}.svg: no page shows it"


def complaints(root):
    pages = [p for p in [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]]
    of_docs = {str(p.relative_to(root / "docs"))[:-3]: p.read_text() for p in (root / "docs").rglob("*.md")}
    figures = {p.stem for p in (root / "docs" / "figures").glob("*.svg")}
    return [*too_long(counts(root), CEILINGS), *undocumented(root), *unpictured(of_docs, PICTURED, figures),
            *(c for p in pages for c in broken(root, p))]


def self_test():
    assert list(too_long({"a": (10, 9)}, {})) == ["a: 10 words, at most 9"]
    assert list(too_long({"a": (10, 9)}, {"a": 10})) == []
    assert list(too_long({"a": (11, 9)}, {"a": 10})) == ["a: 11 words, at most 10"]
    assert list(too_long({"a": (9, 9)}, {"a": 10})) == ["a: 9 words: its ceiling is not needed any more"]
    assert list(too_long({"a": (1000, 9)}, {"a": 4000})) == ["a: 1000 words: lower its ceiling of 4000"]
    assert list(too_long({}, {"a": 10})) == ["a: there is no such page"]
    pages = {"a": "![what](figures/x.svg)", "b": "![](figures/x.svg)", "c": "![what](other/x.svg)"}
    assert len(list(unpictured(pages, ("a", "b", "c", "d"), {"x"}))) == 3
    assert list(unpictured(pages, (), {"x", "y"})) == ["docs/figures/y.svg: no page shows it"]
    assert anchor("3. Plans: `src/plan/` and [b](c.md)") == "3-plans-srcplan-and-b"
    assert anchors("# A\n```\n# no\n```\n## A\n### é f\n") == {"a", "a-1", "é-f"}
    assert without_code("a `[x](y)` [b](c)\n```\n[d](e)\n```\n") == "a  [b](c)\n\n"


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    found = complaints(pathlib.Path(sys.argv[1]).resolve())
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
