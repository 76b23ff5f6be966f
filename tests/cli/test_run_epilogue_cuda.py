"""unisono run of an epilogue on the emulated GPU."""

import os
import pathlib
import sys

from command import WRONG, Case, main, read_npy, write_npy

EMULATOR = pathlib.Path(sys.argv[4])  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13


class RunEpilogueOnGpu(Case):
    def setUp(self):
        super().setUp()
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        self.env = dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(EMULATOR / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="8")

    def run_text(self, text, *arguments):
        return self.json("run", text, "--device", "cuda", "--repeat", 1, *arguments, env=self.env)

    def test_a_convolution_is_checked(self):
        shown = self.run_text("store silu(acc * gain[] + bias[n]) as y : bf16",
                              "--conv", "1,8,16,64->16,3x3", "--random", "--check")
        self.assertEqual(shown["device"], "cuda")
        self.assertIn("emulated GPU", shown["kernel"])
        (check,) = shown["check"]
        self.assertTrue(check["ok"])
        self.assertEqual((check["elements"], check["outside"], check["unclaimed"]), (2048, 0, 0))
        self.assertEqual(shown["time"]["runs"], 1)

    def test_a_product_of_files(self):
        identity = [float(i == j) for i in range(64) for j in range(64)]
        numbers = [float(i % 17 - 8) for i in range(64 * 64)]
        write_npy(self.folder / "left.npy", (64, 64), numbers)
        write_npy(self.folder / "right.npy", (64, 64), identity)
        shown = self.run_text("store acc + acc as y : bf16", "--gemm", "64,64->64,nn", "--input", "left=left.npy", "--input", "right=right.npy",
                              "--check", "--plan", "order=cooperative", "--out", "y.npy")
        self.assertTrue(shown["check"][0]["ok"])
        self.assertIn("cooperative", shown["kernel"])
        self.assertEqual(read_npy(self.folder / "y.npy"), ((64, 64), tuple(2 * x for x in numbers)))

    def test_a_function_from_a_file(self):
        (self.folder / "gain.cu").write_text("__device__ float gain(float x) { return 3.f * x; }\n")
        write_npy(self.folder / "left.npy", (64, 64), [float(i % 5 - 2) for i in range(64 * 64)])
        write_npy(self.folder / "right.npy", (64, 64), [float(i == j) for i in range(64) for j in range(64)])
        self.run_text("store gain(acc) as y : bf16", "--gemm", "64,64->64,nn", "--function", "gain.cu", "--input", "left=left.npy", "--input",
                      "right=right.npy", "--out", "y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy")[1], tuple(3.0 * (i % 5 - 2) for i in range(64 * 64)))

    def test_plans_that_are_none(self):
        self.refused("run", "store acc as y : bf16", "--gemm", "64,64->64", "--random", "--device", "cuda", "--plan", "tiel=1", env=self.env,
                     code=WRONG, says="tiel")


if __name__ == "__main__":
    main()
