"""Kernels by mma.sync, whose epilogue is the library's through their fragment alone, on the emulated GPU with four CTAs."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from command import UNSUPPORTED, Case, main

EMULATOR = pathlib.Path(sys.argv[4])  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13
# Two images of 99 pixels: tiles of 64 and 35 rows; 48 channels: tiles of 32 and 16. All four tiles of an image are in flight
BLOCK = ("--conv", "2,9,11,24->48,3x3")
BIAS = "store silu(acc + bias[n]) as y : bf16"
NORM = "store silu(group_norm(acc + bias[n], groups={}, scale=gamma[n], shift=beta[n])) as y : bf16"


class MmaFamily(Case):
    def setUp(self):
        super().setUp()
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        self.env = dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(EMULATOR / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="4")

    def agrees(self, text, *shape, kind="mma.sync", elements=2 * 99 * 48):
        shown = self.json("run", text, *shape, "--device", "cuda", "--repeat", 1, "--random", "--check", env=self.env)
        self.assertIn(kind, shown["kernel"])
        for check in shown["check"]:
            self.assertEqual((check["ok"], check["outside"], check["unclaimed"]), (True, 0, 0), check)
        self.assertIn(elements, [check["elements"] for check in shown["check"]])

    def test_bias_and_silu(self):
        self.agrees(BIAS, *BLOCK)
        self.agrees(BIAS.replace("bf16", "f16"), "--conv", "2,9,11,24->48,3x3,stride=2,dtype=f16", elements=2 * 30 * 48)

    def test_a_product(self):
        self.agrees(BIAS, "--gemm", "70,40->50,nt", elements=70 * 50)

    def test_a_residual_and_two_stores(self):
        self.agrees("operand r[m,n] : bf16\nh = acc + bias[n] + t[b,n]\nstore h as h : bf16\nstore silu(h) + r as y : bf16", *BLOCK)

    def test_group_norm_in_one_launch(self):
        for groups in (1, 2, 6, 24):  # one group over both tiles, one that ends within a tile, several in each
            self.agrees(NORM.format(groups), *BLOCK, kind="mma.sync resident, 4 CTAs")

    def test_two_stores_around_a_group_norm(self):
        self.agrees("operand r[m,n] : bf16\nh = acc + bias[n] + t[b,n]\nstore h as h : bf16\n"
                    "store silu(group_norm(h, groups=4, scale=gamma[n])) + r as y : bf16", *BLOCK, kind="mma.sync resident")

    def test_statistics_are_stored(self):
        self.agrees("m = mean(acc, over=(m,n), per=b, groups=4)\nstore m as means : f32\n"
                    "store (acc - m) * rsqrt(variance(acc, over=(m,n), per=b, groups=4) + 1e-5) as y : bf16", *BLOCK, kind="mma.sync resident")

    def test_refuses_with_reasons(self):
        plan = ("--device", "cuda", "--plan", "family=mma_conv")
        self.refused("explain", "store softmax(acc) as y : bf16", *BLOCK, *plan, env=self.env, code=UNSUPPORTED, says="epilogue: ")
        self.refused("explain", NORM.format(2), "--conv", "1,40,40,24->48,3x3", *plan, env=self.env, code=UNSUPPORTED,
                     says="resident: 50 tiles of an image, and 4 CTAs in flight")


if __name__ == "__main__":
    main()
