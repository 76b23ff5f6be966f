"""The commands of docs/cookbook.md and of the entrances, and what the pages say that comes out."""

import re
import shlex

from command import SOURCES, Case, main

PAGES = {name: (SOURCES / "docs" / name).read_text() for name in ("cookbook.md", "start-onnx.md", "start-kernels.md")}


def transcripts(page):
    """(arguments, lines that come out, exit code) of each command in the page's console blocks."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.splitlines()
            code = int(lines.pop().removeprefix("exit code ")) if lines and lines[-1].startswith("exit code ") else 0
            yield shlex.split(command), lines, code


def line_pattern(line):
    """A whole line of output; the page's … is anything, or nothing."""
    return re.compile(".*".join(map(re.escape, line.rstrip().split("…"))) + r"\s*")


def first_missing(lines, output):
    """The first line of the page that does not come out after those before it."""
    rest = iter(output.splitlines())
    for line in lines:
        if line.strip() != "…" and not any(line_pattern(line).fullmatch(given) for given in rest):
            return line
    return None


class Cookbook(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "models").symlink_to(SOURCES / "models")

    def run_transcript(self, command, lines, code):
        program, *arguments = command
        if program == "cat":  # a file that the next command reads
            (self.folder / arguments[0]).write_text("\n".join(lines) + "\n")
            return
        self.assertEqual(program, "unisono")
        out, error = self.unisono(*arguments, code=code)
        missing = first_missing(lines, error if code else out)
        self.assertIsNone(missing, f"{arguments}\n{out}\n{error}")

    def test_every_command_does_what_the_page_says(self):
        for page, least in (("cookbook.md", 16), ("start-onnx.md", 1), ("start-kernels.md", 1)):
            found = list(transcripts(PAGES[page]))
            self.assertGreaterEqual(len(found), least)
            for command, lines, code in found:
                with self.subTest(" ".join(command), page=page):
                    self.run_transcript(command, lines, code)

    def test_what_does_not_come_out_is_found(self):
        self.assertIsNone(first_missing(["a … c", "…", "d"], "x\na b c\nmore\nd\n"))
        self.assertEqual(first_missing(["d", "a … c"], "a b c\nd\n"), "a … c")
        self.assertEqual(first_missing(["a"], "ab\n"), "a")
        self.assertEqual(list(transcripts("```console\n$ unisono run 'a b'\nx\nexit code 2\n```\n")), [(["unisono", "run", "a b"], ["x"], 2)])


main()
