"""unisono pack: a model's kernels compiled ahead by the emulated GPU's compiler, then run where there is no compiler."""

import os
import pathlib
import random
import shutil
import subprocess
import sys

import onnx_file
from command import UNSUPPORTED, WRONG, Case, main

EMULATOR = pathlib.Path(sys.argv[4])  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13
TEXT = "store relu(acc + bias[n]) as y : bf16"
SHAPE = ("--conv", "1,8,8,16->16,1x1")


class Pack(Case):
    def setUp(self):
        super().setUp()
        self.pack = self.folder / "pack"
        self.bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME")}
        self.env = dict(self.bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(self.folder / "cache"), XDG_RUNTIME_DIR=str(self.folder))

    def packed(self, *arguments):
        return self.json("pack", *arguments, "--out", self.pack, env=self.env)

    def test_epilogue_and_again(self):
        first = self.packed(TEXT, *SHAPE)
        self.assertEqual((first["requested"], first["compiled"], first["entries"]), (1, 1, 1))
        self.assertGreater(first["bytes"], 1000)
        self.assertEqual(self.packed(TEXT, *SHAPE)["compiled"], 0)
        self.assertEqual([p.name for p in self.pack.iterdir() if len(p.name) != 32], ["unisono-kernels"])  # entries, and what marks it
        self.assertFalse((self.folder / "cache").exists())  # the user's own is left alone
        self.assertIn("0 of 1 entry broken", self.unisono("cache", "verify", "--folder", self.pack, env=self.env)[0])

    def test_from_a_program(self):
        def pack(text):
            result = subprocess.run([sys.argv[5], self.pack, text], env=self.env, capture_output=True, text=True, timeout=120)
            return result.stdout.strip() + result.stderr.strip()
        self.assertEqual(pack(TEXT), "1 requested, 1 compiled, 1 there, 1 told")
        self.assertEqual(pack(TEXT), "1 requested, 0 compiled, 1 there, 1 told")
        self.assertEqual(self.packed(TEXT, *SHAPE)["compiled"], 0)  # the same kernel
        self.assertTrue(pack("store acc as y : f64").startswith("unisono: "))

    def test_folder_of_something_else(self):
        thesis = self.pack / "tmp" / "thesis"
        thesis.parent.mkdir(parents=True)
        thesis.write_text("x")
        out = ("--out", self.pack)
        self.refused("pack", TEXT, *SHAPE, *out, env=self.env, says=("folder of compiled kernels", "tmp/thesis"))
        self.assertEqual(thesis.read_text(), "x")
        thesis.unlink()
        self.assertEqual(self.packed(TEXT, *SHAPE)["entries"], 1)  # what is left might be a cache's
        self.pack.chmod(0o777)
        self.refused("pack", TEXT, *SHAPE, *out, env=self.env, says="chmod go-w")
        # for a program that finds it in its environment it is a warning
        env = dict(self.env, UNISONO_PACKS=str(self.pack))
        f = onnx_file
        (self.folder / "m.onnx").write_bytes(f.model([f.node("Relu", ["x"], ["y"])], [f.value_info("x", f.FLOAT, [1, 8, 4, 4])],
                                                     [f.value_info("y", f.FLOAT, [1, 8, 4, 4])]))
        _, error = self.unisono("run", "m.onnx", "--random", "--device", "cuda", "--repeat", 0, env=env)
        self.assertIn("pack is not used", error)
        self.assertEqual(error.count("chmod go-w"), 1)

    def test_suite(self):
        cases = self.folder / "cases.txt"
        cases.write_text(f"# a comment\nsuite s\nepilogue e\n  {TEXT}\ncase 1,8,8,16,16,1\ncase 64,16,16\n")
        self.assertEqual(self.packed(cases)["requested"], 2)

    def test_model_runs_without_a_compiler(self):
        f = onnx_file
        (self.folder / "m.onnx").write_bytes(f.model([f.node("Relu", ["x"], ["y"])], [f.value_info("x", f.FLOAT, [1, 8, 4, 4])],
                                                     [f.value_info("y", f.FLOAT, [1, 8, 4, 4])]))
        self.assertGreater(self.packed("m.onnx")["compiled"], 0)
        driver = self.folder / "driver"
        driver.mkdir()
        (driver / "libcuda.so.1").symlink_to(EMULATOR / "lib" / "libcuda.so.1")
        env = dict(self.env, LD_LIBRARY_PATH=str(driver), CUDA_HOME="/nonexistent", UNISONO_PACKS=f"/nonexistent:{self.pack}")
        out, _ = self.unisono("run", "m.onnx", "--random", "--device", "cuda", "--check", "--repeat", 1, env=env)
        self.assertIn("agree", out)
        self.assertEqual(self.json("cache", "list", env=env)["entries"], [])  # nothing was compiled
        (self.folder / "other.onnx").write_bytes(f.model([f.node("Tanh", ["x"], ["y"])], [f.value_info("x", f.FLOAT, [1, 8, 4, 4])],
                                                         [f.value_info("y", f.FLOAT, [1, 8, 4, 4])]))
        # an error, also where NVIDIA's compiler is there beside the emulated driver: its kernels are not the emulator's
        _, error = self.unisono("run", "other.onnx", "--random", "--device", "cuda", "--repeat", 0, code=None, env=env)
        self.assertTrue(error.strip().splitlines()[-1].startswith("unisono: "), error)

    def test_damaged_packs(self):
        """Whatever happened to its files: a line that names the entry, and the kernels are compiled. Seeds say what happened."""
        f = onnx_file
        (self.folder / "m.onnx").write_bytes(f.model([f.node("Relu", ["x"], ["y"])], [f.value_info("x", f.FLOAT, [1, 8, 4, 4])],
                                                     [f.value_info("y", f.FLOAT, [1, 8, 4, 4])]))
        self.packed("m.onnx")
        run = ("run", "m.onnx", "--random", "--device", "cuda", "--check", "--repeat", 0)
        self.unisono(*run, env=self.env)  # so that the cache has them
        for seed in range(24):
            numbers, damaged = random.Random(seed), self.folder / f"damaged{seed}"
            shutil.copytree(self.pack, damaged)
            file = numbers.choice(sorted(p for name in ("kernel.cubin", "entry.json") for p in damaged.glob("*/" + name)))
            data = bytearray(file.read_bytes())
            how = numbers.choice(("bit", "end", "more", "zeros", "absent", "version", "other"))
            if how == "bit":
                data[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
            elif how == "end":
                del data[numbers.randrange(len(data)):]
            elif how == "more":
                data += b"}x"
            elif how == "zeros":
                data = bytearray(len(data))
            elif how == "version":
                file = file.with_name("entry.json")
                data = file.read_bytes().replace(b'"format": 1', b'"format": 2')
            file.write_bytes(data)
            if how == "absent":
                file.unlink()
            if how == "other":  # another kernel's entry by this one's name
                file.parent.rename(damaged / ("0" * 32))
            out, error = self.unisono(*run, env=dict(self.env, UNISONO_PACKS=str(damaged)))
            self.assertIn("agree", out, (seed, how))
            self.assertEqual(error.count("the pack's entry"), 1, (seed, how, str(file), error))

    def test_wrong_input(self):
        out = ("--out", self.pack)
        self.refused("pack", TEXT, *out, says="--conv", env=self.env)
        self.refused("pack", "absent.onnx", *out, says="absent.onnx", env=self.env)
        self.refused("pack", TEXT, *SHAPE, "--dim", "n=1", *out, says="--dim", env=self.env)
        self.refused("pack", TEXT, "--conv", "1,8,8,16->16,1x1,dtype=i32", *out, code=UNSUPPORTED, says="dtype", env=self.env)
        self.unisono("pack", TEXT, *SHAPE, code=WRONG, env=self.env)
        plan = (TEXT, *SHAPE, "--plan", "mode=resident", *out)
        self.refused("pack", *plan, code=UNSUPPORTED, says="mode", env=self.env)


if __name__ == "__main__":
    main()
