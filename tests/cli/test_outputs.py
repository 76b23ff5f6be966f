"""Every command that cannot write what it promised ends with exit code 2, says which file it was and why, and leaves nothing half written."""

import os
import pathlib
import resource
import sys

import command
import onnx_file
from command import FAILED, MODEL, WRONG, Case

FILL = sys.argv[3]  # makes entries of a cache: FILL FOLDER TITLE…
EMULATOR = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13
TEXT = "store relu(acc + bias[n]) as y : f32"
CONV = ("--conv", "1,8,8,16->16,1x1")

# Arguments, and where the output goes: a file in OUT, or OUT itself
FILES = {
    "run, the results of a network": (["run", "m.onnx", "--random", "--repeat", 0, "--out"], "y.npz"),
    "run, one result": (["run", "m.onnx", "--random", "--repeat", 0, "--out"], "y.npy"),
    "run, a picture of the network": (["run", "m.onnx", "--random", "--repeat", 1, "--out", "results", "--svg"], "n.svg"),
    "run, a page": (["run", "m.onnx", "--random", "--repeat", 1, "--out", "results", "--html"], "n.html"),
    "run, a trace": (["run", "m.onnx", "--random", "--repeat", 1, "--out", "results", "--trace"], "t.json"),
    "run, the results of an epilogue": (["run", TEXT, *CONV, "--random", "--repeat", 0, "--out"], "y.npy"),
    "explain, a graph": (["explain", TEXT, "--dot"], "g.dot"),
    "explain, a picture": (["explain", TEXT, "--svg"], "g.svg"),
    "explain, a model's graph": (["explain", "m.onnx", "--dot"], "g.dot"),
    "explain, a model's picture": (["explain", "m.onnx", "--svg"], "g.svg"),
    "explain, a page": (["explain", TEXT, "--html"], "g.html"),
    "tune, exported plans": (["tune", "--database", "t.db", "--export"], "plans.txt"),
    "tune, imported plans": (["tune", "--import", "plans.txt", "--database"], "new.db"),
    "tune, what it finds": (["tune", TEXT.replace("f32", "bf16"), *CONV, "--candidates", 1, "--rotate", 0, "--database"], "new.db"),
    "bench, results": (["bench", "suite.txt", "--no-cudnn", "--matmul-tflops", 100, "--copy-tbps", 1, "--json"], "results.json"),
}
COMPILING = ("pack", "tune, what it finds", "bench, results")
OWN_FILES = ("tune, exported plans", "tune, imported plans")  # SQLite's, beside the database: no file may be written at all
FOLDERS = {
    "run, results in a folder": ["run", "m.onnx", "--random", "--repeat", 0, "--out"],
    "demo": ["demo", "--model", MODEL, "--out"],
    "emit": ["emit", TEXT.replace("f32", "bf16"), *CONV, "--out"],
    "pack": ["pack", TEXT.replace("f32", "bf16"), *CONV, "--out"],
}
PRINTED = [["explain", TEXT], ["explain", TEXT, "--json"], ["explain", "m.onnx", "--json"], ["run", "m.onnx", "--random", "--json"], ["doctor"],
           ["doctor", "--json"], ["cache", "path"], ["cache", "list", "--json"], ["emit", TEXT, *CONV],
           ["--version"], ["--help"]]


def no_bytes():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


class Outputs(Case):
    def setUp(self):
        super().setUp()
        f = onnx_file
        tensor = lambda name: f.value_info(name, f.FLOAT, [1, 8, 4, 4])
        (self.folder / "m.onnx").write_bytes(f.model([f.node("Relu", ["x"], ["y"])], [tensor("x")], [tensor("y")]))
        (self.folder / "file").write_text("no folder")
        (self.folder / "cache").mkdir(mode=0o700)
        (self.folder / "plans.txt").write_text("")
        (self.folder / "suite.txt").write_text("suite s\nepilogue e\n  store acc as y : bf16\ncase 1,8,8,64,64,1\n")
        self.env = dict(os.environ, UNISONO_CACHE_DIR=str(self.folder / "cache"), XDG_RUNTIME_DIR=str(self.folder / "cache"))
        self.compiling = dict(self.env, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=f"{EMULATOR}/lib", UNISONO_EMULATOR_SMS="8")
        self.unisono("tune", "--import", "plans.txt", "--database", "t.db", env=self.env)

    def commands(self, place, within, compiles):
        """Each command, with its output in `place`, or `place` itself."""
        for name, (arguments, file) in FILES.items():
            if compiles or name not in COMPILING:
                yield name, [*arguments, place / file if within else place]
        for name, arguments in FOLDERS.items():
            if within and (compiles or name not in COMPILING):
                yield name, [*arguments, place]

    def files(self):
        return {p.relative_to(self.folder) for p in self.folder.rglob("*") if p.is_file() and "cache" not in p.parts and "results" not in p.parts}

    def cannot_write(self, place, within, reasons, compiles=EMULATOR is not None, but=(), **options):
        before = self.files()
        for name, arguments in self.commands(place, within, compiles):
            if name in but:
                continue
            with self.subTest(name, place=str(place)):
                _, error = self.unisono(*arguments, code=WRONG, env=self.compiling if name in COMPILING else self.env, **options)
                last = error.rstrip().splitlines()[-1]
                self.assertRegex(last, f"^unisono: .*({place}|results/y.npy)")  # what cannot be written first
                self.assertTrue(any(r in last for r in reasons), last)
                self.assertNotIn("filesystem error", error)
                self.assertEqual(self.files() - before, set(), "left behind")

    def test_a_file_in_place_of_the_folder(self):
        self.cannot_write(self.folder / "file" / "out", True, ["Not a directory"])

    def test_a_folder_that_takes_no_files(self):
        if not os.path.isdir("/sys/kernel"):
            self.skipTest("no /sys")
        self.cannot_write(pathlib.Path("/sys/kernel/unisono"), True, ["No such file", "Permission denied", "Operation not permitted", "Read-only", "unable to open database file"])

    def test_a_full_disk(self):
        self.cannot_write(pathlib.Path("/dev/full"), False, ["No space left on device", "cannot make the folder '/dev/full': Not a directory",
                                                            "'/dev/full' is a character device; expected a regular file"])

    def test_a_limit_of_files(self):
        (self.folder / "out").mkdir(mode=0o700)
        self.cannot_write(self.folder / "out", True, ["File too large"], compiles=False, but=OWN_FILES, preexec_fn=no_bytes)

    def test_kernels_that_cannot_be_kept(self):
        if EMULATOR is None:
            self.skipTest("no compiler")
        cache = self.folder / "file" / "cache"
        error = self.unisono("bench", "suite.txt", "--precompile", code=WRONG, env=dict(self.compiling, UNISONO_CACHE_DIR=str(cache)))[1]
        self.assertRegex(error.splitlines()[-1], f"^unisono: 2 of 3 kernels .*: .*{cache.parent}: Not a directory")
        # with a cache, what does not compile (the emulated GPU has no streaming loads) is not said to be in it
        out, error = self.unisono("bench", "suite.txt", "--precompile", code=FAILED, env=dict(self.compiling, UNISONO_CACHE_DIR=str(self.folder / "kept")))
        self.assertRegex(out, "2 kernels of 1 suites .*; 1 do not compile, 0 cases refused")
        self.assertIn("does not compile: a copy", error)

    def test_entries_that_cannot_be_removed(self):
        cache = self.folder / "entries"
        env = dict(self.env, UNISONO_CACHE_DIR=str(cache))
        command.subprocess.run([FILL, cache, "one", "two"], check=True, env=env)
        (cache / "tmp").rmdir()
        (cache / "tmp").write_text("what is removed would be moved here first")
        out, error = self.unisono("cache", "prune", "--all", code=WRONG, env=env)
        self.assertIn("removed 0 entries and 0 leftovers, 0 B; kept 2 entries", out)
        for line in error.splitlines():
            self.assertRegex(line, f"^unisono: cannot remove {cache}/[0-9a-f]{{32}}: .*Not a directory")
        self.assertEqual(len(error.splitlines()), 2)

    def test_standard_output_that_is_full(self):
        for arguments in PRINTED:
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                result = command.subprocess.run([command.COMMAND, *map(str, arguments)], stdout=full, stderr=command.subprocess.PIPE, text=True, timeout=120,
                                                cwd=self.folder, env=self.env, stdin=command.subprocess.DEVNULL)
                self.assertEqual(result.returncode, WRONG, result.stderr)
                self.assertIn("standard output: No space left on device", result.stderr)

    def test_a_model_that_cannot_be_read(self):
        (self.folder / "loop.onnx").symlink_to("loop.onnx")
        for path in ("loop.onnx", "file/m.onnx", "none.onnx", "x" * 300 + ".onnx"):
            error = self.refused("run", path, "--random", says=path)
            self.assertNotIn("filesystem error", error)


command.main()
