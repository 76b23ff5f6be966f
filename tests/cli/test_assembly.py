"""--asm: the machine code of kernels. Where this machine has a compiler of NVIDIA's and nvdisasm, that of real kernels."""

import os
import pathlib
import re
import shutil
import struct
import sys
import unittest

import onnx_file as f
from command import UNSUPPORTED, WRONG, Case, main

EMULATOR = pathlib.Path(sys.argv[4])
COMPILER_FAILED = 4
DEPS = os.environ.get("UNISONO_DEPS_DIR", str(pathlib.Path.home() / ".cache/unisono/deps/venv"))
TEXT = ("store gelu(acc + bias[n]) as y : bf16", "--device", "cuda", "--gemm", "64,64->64")


def nvdisasm():
    """On PATH, in a toolkit, or in the Triton that comes with PyTorch; None."""
    places = [pathlib.Path(p) for p in (shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm") if p]
    places += pathlib.Path(DEPS + "-python").glob("lib/python3*/site-packages/triton/backends/nvidia/bin/nvdisasm")
    return next((p for p in places if p.exists()), None)


def network():
    """conv, relu, transpose, conv: two kernels of one plan may share a binary."""
    floats = lambda name, shape: f.constant(name, f.FLOAT, shape, struct.pack("<9216f", *[0.01 * (i % 7 - 3) for i in range(9216)]))
    nodes = [f.node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1]), f.node("Relu", ["c0"], ["r"]),
             f.node("Transpose", ["r"], ["t"], perm=[0, 1, 3, 2]), f.node("Conv", ["t", "w1"], ["y"], pads=[1, 1, 1, 1])]
    return f.model(nodes, [f.value_info("x", f.FLOAT, [1, 32, 16, 24])], [f.value_info("y", f.FLOAT, [1, 32, 24, 16])],
                   constants=[floats("w0", [32, 32, 3, 3]), floats("w1", [32, 32, 3, 3])])


class Assembly(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        bare = {k: v for k, v in os.environ.items() if k not in ("UNISONO_PACKS", "UNISONO_TUNING", "CUDA_PATH")}
        self.env = dict(bare, UNISONO_CACHE_DIR=str(self.folder / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="8")
        self.emulated = dict(self.env, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), UNISONO_CACHE_DIR=str(EMULATOR / "cache"))

    def tool(self, script):
        """A program of the name nvdisasm that comes first on PATH."""
        path = self.folder / "bin" / "nvdisasm"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        for env in (self.env, self.emulated):
            env["PATH"] = f"{path.parent}:{os.environ['PATH']}"

    def listing(self, *arguments):
        """What --asm writes; skips where there is nothing to compile or to disassemble with."""
        found = nvdisasm()
        if found is None:
            self.skipTest("no nvdisasm: pip install nvidia-cuda-nvdisasm")
        env = dict(self.env, PATH=f"{found.parent}:{os.environ['PATH']}")
        out, error = self.unisono(*arguments, "--asm", "out.sass", env=env, code=None)
        if "no NVRTC was found" in error or "no nvcc was found" in error:
            self.skipTest("no compiler of NVIDIA's")
        self.assertEqual(error if "unisono: compiler" in error or not out else "", "")
        return (self.folder / "out.sass").read_text()

    def test_of_an_epilogue(self):
        text = self.listing("explain", *TEXT)
        self.assertRegex(text, r"\A// gemm 64x64x64.*\n// kernel unisono_kernel for sm_90a: \d+ registers, 0 bytes of spills")
        self.assertIn(".target\tsm_90a", text)
        for instruction in ("HGMMA", "EXIT"):
            self.assertRegex(text, rf"/\*[0-9a-f]{{4,}}\*/ .*\b{instruction}")

    def test_of_another_gpu(self):
        text = self.listing("explain", *TEXT, "--gpu", "A100")
        self.assertIn(".target\tsm_80", text)
        self.assertRegex(text, r"\bHMMA\.")
        self.assertNotIn("HGMMA", text)

    def test_of_a_model_each_launch_has_its_number(self):
        (self.folder / "m.onnx").write_bytes(network())
        text = self.listing("explain", "m.onnx", "--device", "cuda")
        launches = self.json("explain", "m.onnx", "--device", "cuda", env=self.env)["cuda"]["launches"]
        expected = [f"{l['kernel']}: {l['what']} -> {l['name']}" if l["kernel"] else f"{l['what']} -> {l['name']}" for l in launches]
        self.assertEqual(sorted(re.findall(r"^// launch (.*)$", text, re.M)), sorted(expected))
        self.assertEqual(len(re.findall(r"^// kernel ", text, re.M)), len(set(re.findall(r"^// .*\n(?:// launch .*\n)+// kernel .*\n", text, re.M))))

    def test_without_nvdisasm(self):
        if pathlib.Path("/usr/local/cuda/bin/nvdisasm").exists():
            self.skipTest("the toolkit is looked at too, and has one")
        env = dict(self.env, PATH=str(self.folder / "bin"), CUDA_HOME=str(self.folder))
        self.refused("explain", *TEXT, "--asm", "out.sass", env=env, code=COMPILER_FAILED,
                     says=("no nvdisasm was found", str(self.folder / "bin" / "nvdisasm"), "pip install nvidia-cuda-nvdisasm"))
        self.assertFalse((self.folder / "out.sass").exists())

    def test_on_the_emulated_gpu(self):
        self.tool("exit 0")
        for arguments in (("explain", *TEXT), ("run", *TEXT, "--random", "--repeat", 0)):
            out, error = self.unisono(*arguments, "--asm", "out.sass", env=self.emulated, code=UNSUPPORTED)
            self.assertIn("--asm: 'gemm 64x64x64", error)
            self.assertIn("for an emulated GPU", error)
        (self.folder / "m.onnx").write_bytes(network())
        self.assertIn("for an emulated GPU", self.unisono("run", "m.onnx", "--device", "cuda", "--random", "--repeat", 0, "--asm", "out.sass",
                                                          env=self.emulated, code=UNSUPPORTED)[1])
        self.assertFalse((self.folder / "out.sass").exists())

    def test_what_is_asked_for_without_a_gpu(self):
        (self.folder / "m.onnx").write_bytes(network())
        for arguments in (("explain", "store acc as y", "--gemm", "8,8->8"), ("run", "store acc as y", "--gemm", "8,8->8", "--random"),
                          ("explain", "m.onnx"), ("run", "m.onnx", "--random")):
            self.refused(*arguments, "--asm", "out.sass", says="--asm needs --device cuda", code=WRONG)
        self.refused("explain", *TEXT, "--visitor", "v", "--asm", "out.sass", says="--asm", code=WRONG)

    def test_a_tool_that_fails_is_quoted(self):
        self.tool("echo cannot read this >&2; exit 7")
        out, error = self.unisono("explain", *TEXT, "--asm", "out.sass", env=self.env, code=None)
        if "no NVRTC was found" in error:
            self.skipTest("no compiler of NVIDIA's")
        for words in ("exit code 7", "cannot read this", "newer GPU"):
            self.assertIn(words, error)
        self.assertFalse((self.folder / "out.sass").exists())


if __name__ == "__main__":
    main()
