#!/usr/bin/env python3
"""Checks the words of code, comments, messages and pages.

usage: language.py ROOT, or language.py --self-test

Private words are those for which the field has one of its own: a word of WORDS stands nowhere but in logs of measurements
(docs/notes), in CUDA's own identifiers, and where ALLOWED names the file and the text. No comment begins with "Of": a
sentence has a subject. FOREIGN counts phrases of a translation in pages, comments and help. Pages of docs/ are wrapped at 100 columns;
tables, code and pictures are not. Tests pin names and numbers of messages, not sentences: no string of a test has more than PINNED
plain words in a row that a message has, too.
"""
import ast
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import tokenize

# (what is searched, what the field says)
WORDS = [
    (r"copy[-_ ]?engine", "TMA"),
    (r"second[-_ ]level[-_ ]cache", "L2"),
    (r"first[-_ ]level[-_ ]cache", "L1"),
    (r"multi[-_ ]?processor", "SM"),
    (r"(?<!r)unfold", "im2col in shared memory"),
    (r"patches[ _]across|\bkPatch|\bPatchRows|Load::patch", "halo tile, or two-dimensional tile"),
    (r"Load::runs|\bRunRows", "im2col tile, or consecutive pixels"),
    (r"(?:Order|Schedule)::pairs", "pingpong2"),
    (r"equal in power", "that it expresses everything the other can"),
    (r"NaN if one (?:is|of)\b", "NaN propagates"),
]
CUDA = re.compile(r"\bcudaDevAttr\w*|\bCU_DEVICE_ATTRIBUTE_\w+|\bcu(?:da)?Occupancy\w+|\bmultiProcessorCount\b")
# (file, text): a format that is stored keeps its words, and those that it had are still read
ALLOWED = [
    ("src/tuning/database.cpp", "device, multiprocessors, "),
    ("src/tuning/database.cpp", "multiprocessors INTEGER"),
    ("src/tuning/database.cpp", "multiprocessors, kernels"),
    ("src/tuning/database.cpp", "multiprocessors=?"),
    ("src/families/sm90/fields.cpp", '"unfold"'),
    ("tests/unit/families/sm90_conv/override_test.cpp", "load=unfold"),
    ("tests/unit/families/sm90_conv/override_test.cpp", '"unfold"'),
    ("docs/plan.md", "`unfold`"),
]
SKIPPED = ("docs/notes/", "bench/results/", "tests/golden/", "tests/fuzz/corpus/", "tests/language.py")
SOURCES = {".cpp", ".hpp", ".h", ".cuh", ".cu", ".inc", ".py", ".sh", ".cmake", ".txt", ".yml", ".toml"}
COMMENT = {"//": re.compile(r"//[/!]?<?\s*Of\b"), "#": re.compile(r"(?:^|\s)#+\s*Of\b")}
# Where a comment behind a member does not begin with a lower-case "of" either
MEMBERS = ("include/", "kernels/", "src/", "tools/")
MEMBER = re.compile(r"///<\s*of\b", re.IGNORECASE)
COLUMNS = 100
# Phrases of a translation, and how often 100,000 words of oneDNN's documentation have them. What TEXTS names may have
# each no more often.
FOREIGN = {
    r"\bbeside\b": 5.3,
    r"\bbehind\b": 1.5,
    r"\bahead of\b(?! time)": 2.3,
    r"\bof (?:its|their) own\b(?! (?:group|image)\b)": 0,
    r"(?<!there )\b(?:is|are) none\b": 1.5,
    r"\bso many\b": 0,
    r"\b(?:whoever|whatever)\b": 6,
    r"\bin silence\b": 0,
    r"\banyhow\b": 0,
}


def pages(root):
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def comments(folder, suffixes):
    """The comments of sources whose comments begin with //."""
    for path in sorted(p for p in folder.rglob("*") if p.suffix in suffixes):
        yield "\n".join(line[line.index("//"):] for line in path.read_text().splitlines() if "//" in line)


def messages(*folders):
    """The string literals of C++ sources, but names and raw strings."""
    for path in sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in {".cpp", ".hpp"}):
        text = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.MULTILINE)
        found = re.findall(r'R"(\w*)\(.*?\)\1"|//[^\n]*|(?<!\')"((?:\\.|[^"\\\n])*)"', text, re.DOTALL)
        yield "\n".join(literal for _, literal in found if " " in literal)


def strings(folder):
    """The comments, docstrings and messages of Python sources."""
    for path in sorted(folder.rglob("*.py")):
        with path.open() as file:
            yield "\n".join(t.string for t in tokenize.generate_tokens(file.readline)
                            if t.type in (tokenize.COMMENT, tokenize.STRING))


# {what is read: its texts}
TEXTS = {
    "README.md and docs/*.md": lambda root: [p.read_text() for p in pages(root)],
    "comments of include/": lambda root: comments(root / "include", {".hpp", ".def"}),
    "comments of kernels/": lambda root: comments(root / "kernels", {".cuh", ".hpp", ".cu"}),
    "comments and strings of python/unisono/": lambda root: strings(root / "python" / "unisono"),
    "messages and help of src/ and tools/": lambda root: messages(root / "src", root / "tools"),
}

PINNED = 4
PLAIN = re.compile(r"[A-Za-z]?[a-z]+(?:'s)?|a")
LITERAL = re.compile(r'''R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|//[^\n]*|/\*.*?\*/|(?<!')"(?P<text>(?:\\.|[^"\\\n])*)"''', re.S)
MESSAGES = ("src", "tools", "include", "python/unisono", "python/bindings")
TESTS = ("tests", "python/tests")
# Files whose strings are messages of their own, or names of faults, and pin none
OWN_WORDS = ("tests/language.py", "tests/emulator/compiler.cpp", "tests/emulator/seeded_faults.py", "tests/gpu/main.cpp", "tests/jit_storm/storm.cpp", "tests/onnx/gpu_run.cpp")
# Names: of counts in a report, and of a kind of launch
NAMES = ("change of layout and type", "filters packed at each call", "tensors copied before each launch")


ANY_WORD = re.compile("|".join(f"(?:{word})" for word, _ in WORDS), re.IGNORECASE)


def private_words(line):
    """What the field says instead of each private word of the line."""
    if not ANY_WORD.search(line):  # as most lines
        return []
    rest = CUDA.sub("", line)
    return [field for word, field in WORDS if re.search(word, rest, re.IGNORECASE)]


def begins_with_of(line, suffix, name=""):
    """Whether a comment of the line begins with "Of", or in file `name` of MEMBERS with "of" behind a member."""
    if suffix not in SOURCES:
        return False
    mark = "//" if suffix in {".cpp", ".hpp", ".h", ".cuh", ".cu", ".inc"} else "#"
    return bool(COMMENT[mark].search(line)) or (name.startswith(MEMBERS) and bool(MEMBER.search(line)))


def wide_lines(text):
    """Numbers of the lines of a page beyond COLUMNS that could be wrapped."""
    code = results = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        results = line.startswith("<!-- results") or (results and not line.startswith("<!-- end"))
        whole = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda m: m[0].replace(" ", "_"), line).split()  # cannot be broken
        fits = len(whole) <= 1 or max(map(len, whole)) > COLUMNS - 10
        if not (code or results or line.startswith(("|", "![", "#", "    ")) or len(line) <= COLUMNS or fits):
            yield number


def foreign(what, texts):
    """Phrases that stand too often in texts."""
    texts = list(texts)
    words = sum(len(text.split()) for text in texts)
    for phrase, rate in FOREIGN.items():
        count, most = sum(len(re.findall(phrase, text, re.IGNORECASE)) for text in texts), math.ceil(rate * words / 100_000)
        if count > most:
            yield (f"{phrase} stands {count} times in the {words} words of {what}, at oneDNN's rate {most} times; write next to, "
                   "after, before, own, is not a, any")


def literals(path):
    """(line, text) of a source's strings; those that follow one another are one."""
    text = path.read_text()
    if path.suffix == ".py":
        tree = ast.parse(text)
        documented = (n.body[0].value for n in ast.walk(tree) if hasattr(n, "body") and isinstance(n.body, list) and n.body
                      and isinstance(n.body[0], ast.Expr))
        docstrings = set(map(id, documented))
        return [(n.lineno, n.value) for n in ast.walk(tree)
                if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docstrings]
    if path.suffix == ".txt":
        return list(enumerate(text.splitlines(), 1))
    found, end = [], 0
    for m in LITERAL.finditer(text):
        if m["raw"] is None and m["text"] is None:
            continue
        words = m["raw"] if m["text"] is None else m["text"].replace("\\n", "\n").replace('\\"', '"')
        if found and text[end:m.start()].isspace():
            found[-1] = (found[-1][0], found[-1][1] + words)
        else:
            found.append((text.count("\n", 0, m.start()) + 1, words))
        end = m.end()
    return found


def plain_runs(text):
    """Runs of plain words: names, numbers and marks end one."""
    run = []
    for token in re.sub(r"\{[^}]*\}", " {} ", text.replace("\\", "")).split():
        if token.startswith("("):
            yield run
            run = []
        if PLAIN.fullmatch(word := token.strip(".,;:()")):
            run.append(word.lower())
        if word != token.lstrip("(") or not PLAIN.fullmatch(word):
            yield run
            run = []
    yield run


def stretches(text):
    """Each PINNED + 1 plain words in a row."""
    for run in plain_runs(text):
        yield from (tuple(run[i:i + PINNED + 1]) for i in range(len(run) - PINNED))


def sources(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".cpp", ".hpp", ".inc", ".def", ".py"} or path.parent.name == "text":  # tests/errors/text
                yield path


def pinned(root):
    """Strings of tests that repeat a sentence of a message."""
    said = {words for path in sources(root, MESSAGES) for _, text in literals(path) for words in stretches(text)}
    for path in sources(root, TESTS):
        name = str(path.relative_to(root))
        for line, text in [] if name in OWN_WORDS else literals(path):
            words = next((w for w in stretches(text) if w in said), None)
            if words and text not in NAMES:
                yield f"{name}:{line}: pins a sentence of a message, '{' '.join(words)}': pin its names and numbers (… stands for words between)"


def complaints(root):
    yield from pinned(root)
    for what, texts in TEXTS.items():
        yield from foreign(what, texts(root))
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        path = root / name
        if name.startswith(SKIPPED) or path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # a picture, an archive, weights
        for field in private_words(name):
            yield f"{name}: the file's name; the field says {field}"
        allowed = [part for file, part in ALLOWED if file == name]
        for number, line in enumerate(text.splitlines(), 1):
            for part in allowed:
                line = line.replace(part, "")
            for field in private_words(line):
                yield f"{name}:{number}: a private word; the field says {field}"
            if begins_with_of(line, path.suffix, name):
                yield f"{name}:{number}: a comment begins with \"Of\"; say what the thing is"
        if path.suffix == ".md" and (name == "README.md" or path.parent == root / "docs"):
            for number in wide_lines(text):
                yield f"{name}:{number}: more than {COLUMNS} columns"


def self_test():
    assert private_words("loads by the copy engine") == ["TMA"]
    assert private_words("if (c.stores != Stores::copy_engine)") == ["TMA"] == private_words("Stores::kCopyEngine")
    assert private_words("a second-level cache, 132 multiprocessors") == ["L2", "SM"]
    assert private_words("cudaDevAttrMultiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT") == []
    assert private_words("cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 128, 0)") == []
    assert private_words("Load::unfold, a patch of the image") == ["im2col in shared memory"]
    assert private_words("class RunFolder") == []
    assert private_words("g.patches_across") == private_words("Load::patch") != []
    assert private_words("case Order::pairs:") == ["pingpong2"] and private_words("loaded in pairs") == []
    assert private_words("132 SMs, L2, TMA") == [] == private_words("NaN if either is")
    assert private_words("the largest; NaN if one is") == ["NaN propagates"]
    assert begins_with_of("  /// Of a tile.", ".hpp") and begins_with_of("int n;  ///< Of a tile.", ".cuh")
    assert begins_with_of("int n;  ///< of a tile", ".hpp", "src/plan/a.hpp")
    assert begins_with_of("int n;  ///< of a tile", ".hpp", "tools/bench/a.hpp")
    assert not begins_with_of("int n;  ///< of a tile", ".hpp", "tests/a.hpp")
    assert begins_with_of("# Of a case", ".py") and not begins_with_of("# Of a case", ".md")
    assert not begins_with_of("// Offsets of a tile", ".cpp") and not begins_with_of('text = "#Of"', ".cpp")
    said = lambda count, words: [c for c in foreign("a page", ["a beside b " * count + "word " * (words - 3 * count)]) if "beside" in c]
    assert said(0, 0) == said(6, 100_000) == [] and "at oneDNN's rate 6 times" in said(7, 100_000)[0]
    assert said(1, 10) == [] and len(said(2, 10)) == 1
    assert [len(list(foreign("a page", [text]))) for text in ("at so many", "where there is none, ahead of time", "it is none " * 2)] == [1, 0, 1]
    assert list(stretches("size: the number of output pixels is 7, at most 5")) == [("the", "number", "of", "output", "pixels"), ("number", "of", "output", "pixels", "is")]
    assert list(stretches("one two three four (five); six {x} seven eight nine")) == []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {"src/a.cpp": 'fail("the tile is not " \n  "a power of two: {}", 5);', "tests/b.cpp": '// says\nHasSubstr("is not a power of two")',
                           "tests/c.cpp": 'Says("tile … power of two: 5")', "python/tests/d.py": '"""the tile is not a power"""\nmatch="the tile is not a"'}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        assert [c.split(": ")[0] for c in pinned(root)] == ["tests/b.cpp:2", "python/tests/d.py:2"], list(pinned(root))
    words = "word " * 25
    assert list(wide_lines(f"{words}\n| {words}|\n```\n{words}\n```\n    {words}\n{words}")) == [1, 7]
    assert list(wide_lines(f"[text]({'x' * 120})\n`{'a b ' * 40}`")) == []


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    root = pathlib.Path(sys.argv[1]).resolve()
    if subprocess.run(["git", "-C", root, "rev-parse"], capture_output=True).returncode != 0:
        print("not a git checkout: nothing to list the files by")
        sys.exit(77)
    found = list(complaints(root))
    print("\n".join(found))
    sys.exit(f"{len(found)} complaints" if found else 0)


if __name__ == "__main__":
    main()
