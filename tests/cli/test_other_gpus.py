"""GPUs other than Hopper's, emulated: families mma and plain serve epilogues and networks there, and every report says so."""

import os
import pathlib
import re
import struct
import sys

import onnx_file as f
from command import SOURCES, UNSUPPORTED, Case, main

EMULATOR = pathlib.Path(sys.argv[4])
BLOCK = "store silu(group_norm(acc + bias[n], groups=4, scale=gamma[n], shift=beta[n])) + r[m,n] as y : bf16"
POINTWISE = "store gelu(acc + bias[n]) as y : f16\nstore acc > 0 as up : bool"


class OtherGpus(Case):
    def setUp(self):
        super().setUp()
        self.env = self.env_of(75)

    def env_of(self, capability):
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        return dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder), XDG_RUNTIME_DIR=str(self.folder),
                    UNISONO_CACHE_DIR=str(EMULATOR / "cache"), UNISONO_EMULATOR_SMS="8", UNISONO_EMULATOR_CAPABILITY=str(capability))

    def test_explains_who_serves_and_how_much_slower(self):
        out = self.unisono("explain", BLOCK, "--conv", "2,9,7,12->16,3x3,stride=2", "--device", "cuda", env=self.env)[0]
        self.assertIn("plan: plain ", out)
        self.assertIn("family: plain, the last of all: ordinary multiply-adds of f32; predicted", out)
        self.assertIn("tensor cores would take", out)
        self.assertRegex(out, "compute capability 7.5; the convolution kernels .* 9.0")
        self.assertIn("has compute capability 7.5; the kernels by mma.sync are for 8.0 and later", out)
        ampere = self.unisono("explain", BLOCK, "--conv", "2,9,7,12->16,3x3,stride=2", "--device", "cuda", env=self.env_of(86))[0]
        self.assertIn("plan: mma.sync ", ampere)
        self.assertIn("family: mma, tensor cores by mma.sync", ampere)
        hopper = self.unisono("explain", BLOCK, "--conv", "2,9,7,16->16,3x3", "--device", "cuda", env=self.env_of(90))[0]
        self.assertNotIn("plain", hopper.split("refused:")[0])

    def test_doctor_says_what_plans_reckon_with(self):
        for capability, tflops, tbps in ((90, 800 * 8 / 132, 4.2), (80, 0.8 * 8 * 2048 * 1.98e-3, 0.85 * 4.814304)):
            gpu, = self.json("doctor", env=self.env_of(capability))["cuda"]["gpus"]
            self.assertEqual((gpu["sms"], gpu["l2_bytes"]), (8, 60 << 20))
            self.assertAlmostEqual(gpu["tensor_tflops"], tflops)
            self.assertAlmostEqual(gpu["memory_tbps"], tbps)
        self.assertIn("plans reckon with 48.5 TFLOP/s of bf16, 4.2 TB/s, 1.755 GHz, 61440 KiB of L2",
                      self.unisono("doctor", env=self.env_of(90))[0])

    def test_computes(self):
        for text, shape, ampere in ((BLOCK, ("--conv", "2,9,7,12->16,3x3,stride=2,groups=2"), "plain"), (POINTWISE, ("--gemm", "33,20->19,tn"), "mma.sync"),
                                    (POINTWISE, ("--conv", "2,9,7,24->24,3x3,stride=2,groups=24"), "depthwise"),
                                    (POINTWISE, ("--conv", "1,9,11,17->34,5x5,groups=17"), "depthwise")):
            for capability in (75, 86):
                served = ampere if capability == 86 else "plain"
                shown = self.json("run", text, *shape, "--device", "cuda", "--repeat", 1, "--random", "--check", env=self.env_of(capability))
                self.assertIn(served, shown["kernel"])
                for check in shown["check"]:
                    self.assertEqual((check["ok"], check["outside"]), (True, 0))

    def test_refuses_with_what_would_be_served(self):
        self.refused("run", "store softmax(acc, over=n) as y : bf16", "--gemm", "8,8->8", "--device", "cuda", "--random", env=self.env, code=UNSUPPORTED,
                     says=("Family plain serves", "elements, rows and columns"))
        self.refused("run", POINTWISE, "--gemm", "8,8->8", "--device", "cuda", "--random", env=self.env_of(61), code=UNSUPPORTED,
                     says="compute capability 6.1; the kernels are for 7.5 and later")

    def test_serves_a_network(self):
        weights = lambda n: b"".join(struct.pack("<f", (i * 7 % 5 - 2) / 4) for i in range(n))
        nodes = [f.node("Conv", ["x", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]), f.node("Relu", ["a"], ["c"]), f.node("Conv", ["c", "w1"], ["y"])]
        constants = [f.constant("w0", f.FLOAT, [16, 8, 3, 3], weights(1152)), f.constant("b0", f.FLOAT, [16], weights(16)),
                     f.constant("w1", f.FLOAT, [8, 16, 1, 1], weights(128))]
        data = f.model(nodes, [f.value_info("x", f.FLOAT, [2, 8, 6, 5])], [f.value_info("y", f.FLOAT, [2, 8, 6, 5])], constants=constants)
        (self.folder / "m.onnx").write_bytes(data)
        for capability, kernels in ((75, "bf16 by bf16 without tensor cores"), (86, "mma.sync")):
            text = self.unisono("explain", "m.onnx", "--device", "cuda", env=self.env_of(capability))[0]
            launches = text.partition("what was decided")[0]
            self.assertEqual(launches.count(kernels), 2, text)
            out, _ = self.unisono("run", "m.onnx", "--random", "--device", "cuda", "--check", "--repeat", 1, env=self.env_of(capability))
            self.assertIn("agree", out)

    def test_the_demo_has_as_many_launches_as_on_hopper(self):
        launches = {}
        for gpu in ("H200", "A100", "RTX 4090"):
            text = self.unisono("explain", SOURCES / "models/heatmap_unet", "--device", "cuda", "--gpu", gpu, env=self.env_of(90))[0].partition("how to read")[0]
            launches[gpu] = int(re.search(r"(\d+) launches for", text)[1])
            self.assertNotRegex(text, "without tensor cores|outputs? a thread")
            self.assertEqual(text.count("mma.sync") == 19, gpu != "H200", text)  # all its convolutions
            self.assertEqual(launches[gpu], launches["H200"])

    def test_stores_pooled_and_upsampled_results_too(self):
        weights = lambda n: b"".join(struct.pack("<f", (i * 7 % 5 - 2) / 4) for i in range(n))
        norm = lambda x, y: f.node("InstanceNormalization", [x, "one", "zero"], [y])
        nodes = [f.node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]), norm("a", "b"), f.node("Relu", ["b"], ["c"]),
                 f.node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 f.node("Conv", ["p", "w1"], ["d"], pads=[1, 1, 1, 1]), norm("d", "e"), f.node("Relu", ["e"], ["g"]),
                 f.node("Resize", ["g", "", "scales"], ["u"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
                 f.node("Conv", ["u", "w1"], ["y"], pads=[1, 1, 1, 1]), f.node("Conv", ["c", "w1"], ["z"])]
        constants = [f.constant("w0", f.FLOAT, [16, 8, 3, 3], weights(1152)), f.constant("w1", f.FLOAT, [16, 16, 3, 3], weights(2304)),
                     f.constant("one", f.FLOAT, [16], struct.pack("<16f", *[1.0] * 16)), f.constant("zero", f.FLOAT, [16], bytes(64)),
                     f.constant("scales", f.FLOAT, [4], struct.pack("<4f", 1, 1, 2, 2))]
        for height, width in ((18, 22), (17, 13), (3, 5)):
            shape = [2, 8, height, width]
            outputs = [f.value_info("y", f.FLOAT, [2, 16, height // 2 * 2, width // 2 * 2]), f.value_info("z", f.FLOAT, [2, 16, height - 2, width - 2])]
            (self.folder / "m.onnx").write_bytes(f.model(nodes, [f.value_info("x", f.FLOAT, shape)], outputs, constants=constants))
            text = self.unisono("explain", "m.onnx", "--device", "cuda", env=self.env_of(80))[0].partition("what was decided")[0]
            self.assertIn(" pooled", text)
            self.assertIn(" upsampled", text)
            out, _ = self.unisono("run", "m.onnx", "--random", "--device", "cuda", "--check", "--repeat", 1, env=self.env_of(80))
            self.assertIn("agree", out)


if __name__ == "__main__":
    main()
