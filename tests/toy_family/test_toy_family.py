"""A family that the library does not know serves epilogues and networks on the emulated GPU, and the command shows, tunes and packs it."""

import os
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import onnx_file
from command import UNSUPPORTED, Case, main

EMULATOR = pathlib.Path(sys.argv[4])  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13
TEXT = "store silu(acc * gain[] + bias[n]) + r[m,n] as y : bf16"
SHAPE = ("--gemm", "24,40->16,nt")
CONVOLUTION = ("--conv", "1,8,16,64->16,3x3")


class ToyFamily(Case):
    def setUp(self):
        super().setUp()
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        self.env = dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(EMULATOR / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="8")

    def explained(self, *arguments):
        return self.unisono("explain", *arguments, "--device", "cuda", env=self.env)[0]

    def network(self):
        """Two 1x1 convolutions, with a 3x3 one between them, which the family does not serve."""
        f = onnx_file
        weights = lambda n: b"".join(struct.pack("<f", (i * 7 % 5 - 2) / 4) for i in range(n))
        nodes = [f.node("Conv", ["x", "w0", "b0"], ["a"]), f.node("Relu", ["a"], ["c"]),
                 f.node("Conv", ["c", "w1"], ["d"], pads=[1, 1, 1, 1]), f.node("Sigmoid", ["d"], ["e"]), f.node("Conv", ["e", "w2"], ["y"])]
        constants = [f.constant("w0", f.FLOAT, [16, 8, 1, 1], weights(128)), f.constant("b0", f.FLOAT, [16], weights(16)),
                     f.constant("w1", f.FLOAT, [16, 16, 3, 3], weights(2304)), f.constant("w2", f.FLOAT, [8, 16, 1, 1], weights(128))]
        data = f.model(nodes, [f.value_info("x", f.FLOAT, [2, 8, 6, 5])], [f.value_info("y", f.FLOAT, [2, 8, 6, 5])], constants=constants)
        (self.folder / "m.onnx").write_bytes(data)
        return "m.onnx"

    def test_is_explained(self):
        text = self.explained(TEXT, *SHAPE)
        self.assertIn("plan: scalar, 3 CTAs of 128 threads\n", text)
        self.assertIn("loads: each element by itself\n", text)
        self.assertNotIn("plan: scalar", self.explained(TEXT, *SHAPE, "--plan", "family=sm90_conv"))

    def test_has_fields_of_its_own(self):
        self.assertIn("fixed by: --plan 'family=scalar_gemm threads=128'\n", self.explained(TEXT, *SHAPE))
        text = self.explained(TEXT, *SHAPE, "--plan", "threads=64")
        self.assertIn("plan: scalar, 6 CTAs of 64 threads\n", text)
        self.assertIn("fixed by: --plan 'family=scalar_gemm threads=64'\n", text)
        self.refused("explain", TEXT, *SHAPE, "--device", "cuda", "--plan", "threads=65", env=self.env,
                     says="plan override: threads=65: expected 128, 64 or 256")
        self.refused("explain", TEXT, *SHAPE, "--device", "cuda", "--plan", "thread=64", env=self.env, says="thread=64: expected ROWSxPIXELSxCHANNELS")
        self.refused("explain", TEXT, *SHAPE, "--device", "cuda", "--plan", "threats=64", env=self.env, says=("known are family, threads, tile", "did you mean 'threads'?"))

    def test_refuses_with_reasons(self):
        text = self.explained("store acc as y : bf16", *CONVOLUTION)
        self.assertNotIn("plan: scalar", text)
        self.assertIn("contraction: a convolution of more than one tap", text)
        self.refused("explain", "store acc as y : bf16", *CONVOLUTION, "--device", "cuda", "--plan", "family=scalar_gemm", env=self.env,
                     code=UNSUPPORTED, says="contraction: a convolution of more than one tap")

    def test_computes(self):
        shown = self.json("run", TEXT, *SHAPE, "--device", "cuda", "--repeat", 1, "--random", "--check", env=self.env)
        self.assertIn("scalar", shown["kernel"])
        (check,) = shown["check"]
        self.assertEqual((check["ok"], check["elements"], check["outside"], check["unclaimed"]), (True, 24 * 16, 0, 0))

    def test_is_tuned(self):
        report = self.json("tune", TEXT, *SHAPE, "--candidates", 2, "--rotate", 0, "--jobs", 2, env=self.env)
        (problem,) = report["problems"]
        self.assertRegex(problem["plan"], "^family=scalar_gemm threads=(128|64|256)$")
        self.assertEqual((problem["error"], problem["rejected"]), ("", []))
        self.assertIn("plan chosen by: tuned", self.explained(TEXT, *SHAPE))

    def test_serves_regions_of_a_network(self):
        model = self.network()
        text = self.explained(model)
        launches, _, decisions = text.partition("what was decided")
        self.assertEqual((launches.count("scalar, "), decisions.count("one kernel, scalar, ")), (2, 2), text)
        out, _ = self.unisono("run", model, "--random", "--device", "cuda", "--check", "--repeat", 1, env=self.env)
        self.assertIn("agree", out)

    def test_is_packed(self):
        model, pack = self.network(), self.folder / "pack"
        self.json("pack", model, "--out", pack, env=self.env)
        texts = [p.read_text() for p in pack.rglob("*.cu")]
        self.assertEqual(sum("struct ScalarGemm" in t for t in texts), 2)
        driver = self.folder / "driver"
        driver.mkdir()
        (driver / "libcuda.so.1").symlink_to(EMULATOR / "lib" / "libcuda.so.1")
        env = dict(self.env, LD_LIBRARY_PATH=str(driver), CUDA_HOME="/nonexistent", UNISONO_PACKS=str(pack), UNISONO_CACHE_DIR=str(self.folder / "cache"))
        out, _ = self.unisono("run", model, "--random", "--device", "cuda", "--check", "--repeat", 1, env=env)
        self.assertIn("agree", out)


if __name__ == "__main__":
    main()
