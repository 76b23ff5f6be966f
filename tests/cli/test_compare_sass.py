"""scripts/compare_sass.py, with a program in nvdisasm's place that prints the file.

usage: test_compare_sass.py ROOT
"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv.pop(1)) / "scripts" / "compare_sass.py"
spec = importlib.util.spec_from_file_location("compare_sass", SCRIPT)
compare_sass = importlib.util.module_from_spec(spec)
sys.modules["compare_sass"] = compare_sass
spec.loader.exec_module(compare_sass)

CODE = """\t.section\t.text.first,"ax",@progbits
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   MOV R2, 32@lo(first) ;
        /*0020*/                   CALL.REL.NOINC `(first_part) ;
.L_x_0:
        /*0030*/              @!P0 BRA `(.L_x_0);
        /*0040*/                   LDC.64 R2, c[0x3][R4+0x8] ;
"""
LOG = "ptxas info    : Used 168 registers, used 9 barriers\n    0 bytes stack frame, {} bytes spill stores, 8 bytes spill loads\n"


class Masked(unittest.TestCase):
    def test_addresses_offsets_and_symbols_are_masked_and_labels_are_not(self):
        self.assertEqual(compare_sass.masked(CODE).splitlines(),
                         ["LDC R1, c[0x0][#] ;", "MOV R2, 32@lo(#) ;", "CALL.REL.NOINC `(#) ;",
                          "@!P0 BRA `(.L_x_0);", "LDC.64 R2, c[0x3][#] ;"])

    def test_banks_registers_and_immediates_count(self):
        for old, new in (("c[0x0]", "c[0x4]"), ("R2", "R3"), ("32@lo", "32@hi"), (".L_x_0)", ".L_x_1)")):
            self.assertNotEqual(compare_sass.masked(CODE), compare_sass.masked(CODE.replace(old, new)), old)

    def test_resources(self):
        self.assertEqual(compare_sass.resources(LOG.format(4)), (168, (4, 8)))
        self.assertEqual(compare_sass.resources(LOG.format(4) + LOG.replace("168", "40").format(0)), (168, (4, 8)))
        self.assertEqual(compare_sass.resources(""), (None, None))


class Folders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.nvdisasm = self.root / "nvdisasm"
        self.nvdisasm.write_text('#!/bin/sh\ncat "$2"\n')
        self.nvdisasm.chmod(0o755)

    def entry(self, side, name, code=CODE, spills=0, title="conv"):
        """A kernel of a cache."""
        folder = self.root / side / name
        folder.mkdir(parents=True)
        (folder / "kernel.cubin").write_text(code)
        (folder / "compile.log").write_text(LOG.format(spills))
        (folder / "entry.json").write_text(json.dumps({"entry": {"title": title}}))

    def compare(self, *options, exit_code):
        done = subprocess.run([sys.executable, SCRIPT, self.root / "old", self.root / "new", "--nvdisasm", self.nvdisasm,
                               *options], capture_output=True, text=True)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_equal_but_for_symbols_and_keys(self):
        self.entry("old", "aa")
        self.entry("new", "bb", CODE.replace("first", "second").replace("0x28", "0x30"))
        self.assertEqual(self.compare(exit_code=0),
                         "1 and 1 kernels; 1 are equal in code, registers and spills\n")

    def test_code_that_differs(self):
        self.entry("old", "aa")
        self.entry("old", "bb", title="gemm")
        self.entry("new", "aa", CODE.replace("R1", "R9"))
        self.entry("new", "bb", title="gemm")
        said = self.compare("--write", self.root / "sass", exit_code=1)
        self.assertRegex(said, r"2 and 2 kernels; 1 are equal.*\nconv\n  old: 5 instructions \(\w+\), 168 registers, "
                               r"spills 0 \+ 8 bytes\n  new: 5 instructions")
        self.assertNotIn("gemm", said)
        self.assertIn("LDC R9", (self.root / "sass/new/conv.0.sass").read_text())

    def test_spills_that_differ_and_kernels_that_are_gone(self):
        self.entry("old", "aa")
        self.entry("new", "aa", spills=16)
        self.assertIn("spills 16 + 8 bytes", self.compare(exit_code=1))
        self.entry("old", "bb", spills=16)  # now one kernel of each spills 16, and one of the old spills none
        self.assertIn("2 and 1 kernels; 1 are equal", self.compare(exit_code=1))

    def test_plain_files(self):
        for side in ("old", "new"):
            (self.root / side).mkdir()
            (self.root / side / "conv.cubin").write_text(CODE)
        self.assertIn("1 and 1 kernels; 1 are equal", self.compare(exit_code=0))
        (self.root / "new" / "conv.log").write_text(LOG.format(0))
        self.assertIn("None registers, spills unknown", self.compare(exit_code=1))

    def test_what_cannot_be_read(self):
        self.entry("old", "aa")
        self.assertIn("holds no kernels: expected */kernel.cubin or *.cubin", self.compare(exit_code=2))
        self.entry("new", "aa", "nothing\n")
        self.assertIn("holds no instructions", self.compare(exit_code=2))
        self.nvdisasm.unlink()
        self.assertIn("name it by --nvdisasm", self.compare(exit_code=2))


if __name__ == "__main__":
    unittest.main()
