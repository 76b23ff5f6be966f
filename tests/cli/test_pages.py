"""README.md, the cookbook and the three entrances: every block of code runs somewhere, and the commands in their text run here.

Console blocks and their output are test_cookbook.py's.
"""

import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import zipfile

import onnx_file as f
from command import SOURCES, Case, main, npy

EMULATOR = pathlib.Path(sys.argv[4])
PAGES = ("README.md", "docs/cookbook.md", "docs/start-pytorch.md", "docs/start-onnx.md", "docs/start-kernels.md")
# What runs the blocks of a language
RUN = {
    "console": "tests/cli/test_cookbook.py",
    "python": "python/tests/test_entrance.py",
    "cpp": "examples/CMakeLists.txt",
    "cmake": "tests/package/cookbook.sh",
}
# {(page, beginning of a block without a language): the test below that runs it, or why it does not run}
PLAIN = {
    ("README.md", "h = acc + bias[n]"): "test_the_epilogue_of_the_readme",
    ("README.md", "make demo"): "they install packages and build everything: CI runs them, test_targets_and_scripts finds their targets",
    ("README.md", "unisono explain model.onnx"): "test_the_commands_of_the_readme",
}


def blocks(page):
    """(language, text) of each block."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", (SOURCES / page).read_text(), re.M | re.S)


def inline(page):
    """Code within lines."""
    text = re.sub(r"^```.*?^```", "", (SOURCES / page).read_text(), flags=re.M | re.S)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def small_network():
    constant = f.constant("w", f.FLOAT, [8, 8, 3, 3], struct.pack("<576f", *[0.01 * (i % 7 - 3) for i in range(576)]))
    nodes = [f.node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), f.node("Relu", ["c"], ["y"])]
    return f.model(nodes, [f.value_info("x", f.FLOAT, [1, 8, 6, 6])], [f.value_info("y", f.FLOAT, [1, 8, 6, 6])], constants=[constant])


class Pages(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "models").symlink_to(SOURCES / "models")
        (self.folder / "model.onnx").write_bytes(small_network())
        with zipfile.ZipFile(self.folder / "in.npz", "w") as archive:
            archive.writestr("x.npy", npy((1, 8, 6, 6), [i % 5 - 2.0 for i in range(288)]))
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        self.env = dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(EMULATOR / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="8")

    def run_line(self, line):
        program, *arguments = shlex.split(line, comments=True)
        self.assertEqual(program, "unisono")
        if len(arguments) == 1 and arguments[0] != "doctor":  # a subcommand that the text names
            arguments.append("--help")
        with self.subTest(line):
            self.unisono(*arguments, env=self.env)

    def test_every_block_runs_or_says_why_not(self):
        plain = set()
        for page in PAGES:
            for language, text in blocks(page):
                if language:
                    self.assertIn(language, RUN, f"{page}: {text}")
                    self.assertTrue((SOURCES / RUN[language]).exists())
                    continue
                keys = [key for key in PLAIN if key[0] == page and text.startswith(key[1])]
                self.assertEqual(len(keys), 1, f"{page}: a block without a language that PLAIN does not have:\n{text}")
                plain.update(keys)
        self.assertEqual(plain, set(PLAIN))
        for how in PLAIN.values():
            self.assertTrue(" " in how or hasattr(self, how), how)
        self.assertEqual([page for page in PAGES for language, _ in blocks(page) if language == "cpp"], ["README.md", "docs/start-onnx.md"])
        self.assertEqual([page for page in PAGES for language, _ in blocks(page) if language == "cmake"], ["docs/cookbook.md"])

    def test_the_epilogue_of_the_readme(self):
        (text,) = [text for language, text in blocks("README.md") if text.startswith("h = acc + bias[n]")]
        (self.folder / "block.txt").write_text(text)
        shown = self.json("run", "block.txt", "--conv", "2,8,8,16->64,3x3", "--random", "--check", "--repeat", 0)
        self.assertEqual([check["ok"] for check in shown["check"]], [True] * 3)

    def test_the_commands_of_the_readme(self):
        (text,) = [text for language, text in blocks("README.md") if text.startswith("unisono explain model.onnx")]
        self.assertEqual(len(text.splitlines()), 3)
        for line in text.splitlines():
            self.run_line(line)

    def test_the_commands_in_the_text(self):
        found = set()
        for page in PAGES:
            for code in inline(page):
                if re.match(r"unisono [a-zA-Z]", code):
                    found.add(code)
                    self.run_line(code.replace("…", "'store mish(acc) as y : bf16'"))
        self.assertGreater(len(found), 6)

    def test_targets_and_scripts(self):
        """What the text says of make, scripts/ and others is there."""
        code = {c for page in PAGES for c in inline(page)}
        (install,) = [text for _, text in blocks("README.md") if text.startswith("make demo")]
        code |= {line.split("  ")[0] for line in install.splitlines()}
        targets = {c.split()[1] for c in code if c.startswith("make ")}
        self.assertLessEqual({"demo", "test", "docs"}, targets)
        for target in targets:
            done = subprocess.run(["make", "-n", target], cwd=SOURCES, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        for path in {c.split()[0] for c in code if re.match(r"(scripts|tests|src|kernels|docs|examples|include|models)/\S+", c)}:
            self.assertTrue((SOURCES / path).exists(), path)
        self.assertIn("pip install .", code)  # tests/package/wheel.py installs what that makes


main()
