"""Runs the unisono command for tests. Each test file takes: COMMAND SOURCES."""

import ast
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

COMMAND = sys.argv[1]
SOURCES = pathlib.Path(sys.argv[2])
MODEL = SOURCES / "models" / "heatmap_unet"
SCENE = MODEL / "heldout" / "scene_00.png"

OK, FAILED, WRONG, UNSUPPORTED = 0, 1, 2, 3


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="unisono_cli_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def unisono(self, *arguments, code=OK, **options):
        """Runs `unisono ARGUMENTS` and checks the exit code, unless it is None; returns (stdout, stderr)."""
        options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
        if options["stdin"] is None:
            del options["stdin"]
        result = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                                cwd=self.folder, **options)
        self.assertEqual(result.returncode, result.returncode if code is None else code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result.stdout, result.stderr

    def refused(self, *arguments, code=WRONG, says=(), **options):
        """The command fails with a readable message on standard error and nothing on standard output."""
        out, error = self.unisono(*arguments, code=code, **options)
        self.assertEqual(out, "")
        self.assertTrue(error.startswith("unisono: "), error)
        for noise in ("terminate", "what()", "std::", "Aborted", "json.exception"):
            self.assertNotIn(noise, error)
        for words in (says,) if isinstance(says, str) else says:
            self.assertIn(words, error)
        return error

    def json(self, *arguments, **options):
        return json.loads(self.unisono(*arguments, "--json", **options)[0])

    def assert_svg(self, path):
        """The text of a drawing, whose legend has the colours of its boxes."""
        root = xml.etree.ElementTree.parse(path).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        rects = [r for r in root.iter() if r.tag.endswith("rect") and r.get("width") != "100%"]
        legend = {r.get("fill") for r in rects if r.get("width") == r.get("height") == "12.0"}
        self.assertLessEqual(legend, {r.get("fill") for r in rects if r.get("height") != "12.0"})
        return "".join(root.itertext())


# struct's codes of NumPy's types
CODES = {"<f4": "f", "<f8": "d", "<f2": "e", "<i4": "i", "<i8": "q", "|u1": "B", "|b1": "?"}


def parse_npy(data):
    """(type, shape, values) of a .npy file in C order."""
    assert data[:6] == b"\x93NUMPY" and data[6] == 1
    length = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + length].decode().strip())
    assert not header["fortran_order"]
    values = struct.unpack(f"<{math.prod(header['shape'])}{CODES[header['descr']]}", data[10 + length:])
    return header["descr"], header["shape"], values


def read_npy(path):
    """(shape, values) of a float32 .npy file in C order."""
    kind, shape, values = parse_npy(pathlib.Path(path).read_bytes())
    assert kind == "<f4"
    return shape, values


def npy(shape, values, kind="<f4"):
    header = repr({"descr": kind, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{CODES[kind]}", *values)


def write_npy(path, shape, values, kind="<f4"):
    path.write_bytes(npy(shape, values, kind))


def main(*names):
    unittest.main(argv=[*sys.argv[:1], *names], verbosity=2)
