"""Family mma on an emulated GPU of compute capability 8.0 with four SMs, by tiles that leave several of them to each problem.

usage: test_mma_family.py COMMAND SOURCES - EMULATOR Elements|Reductions|Operands|Contractions|Faults

Faults puts faults into the kernels' headers, one at a time, and expects the check to find each.
"""

import os
import pathlib
import random
import struct
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli"), str(TESTS / "emulator")]
import onnx_file
from command import FAILED, SOURCES, UNSUPPORTED, Case, main
from seeded_faults import with_fault

EMULATOR = pathlib.Path(sys.argv[4])  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13
# Two images of 99 pixels: tiles of 64 and 35 rows; 48 channels: tiles of 32 and 16. All four tiles of an image are in flight
BLOCK = ("--conv", "2,9,11,24->48,3x3")
ODD = ("--conv", "2,7,9,16->35,3x3")  # one tile of 63 rows an image; 35 channels: tiles of 32 and 3
LARGE = ("--conv", "3,12,13,8->96,1x1")  # three images of 156 pixels: tiles of 64, 64, 28 rows; three across
UP = ("--conv", "2,9,11,24->48,3x3,stride=2,transposed")  # two images of 17x21: four phases of 9x11 pixels or fewer, 1 to 4 taps
PRODUCT = ("--gemm", "150,40->34,nt")
BIAS = "store silu(acc + bias[n]) as y : bf16"
NORM = "store silu(group_norm(acc + bias[n], groups={}, scale=gamma[n], shift=beta[n])) as y : bf16"
MISH = "store mish(group_norm(acc + bias[n], groups=8, scale=gamma[n], shift=beta[n])) as y : f32"
SOFTMAX = "store softmax(acc + bias[n], over=n) as y : bf16"
CROSS_ENTROPY = ("operand label[m] : i32\nloss = -sum(one_hot(label) * log(softmax(acc + bias[n], over=n)), over=n)\n"
                 "store loss as of_row : f32\nstore mean(loss, over=m) as loss : f32")
LAYER_NORM = "store silu(layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n])) as y : bf16"
GATED = "store silu(acc0) * acc1 as y : bf16"
RESIDUAL = "operand r[m,n] : bf16\nh = acc + bias[n] + t[b,n]\nstore h as h : bf16\nstore silu(h) + r as y : bf16"
LOSS = ("operand c[m,n] : bf16\np = sigmoid(0.5 * (acc + bias[n]))\nloss = -(c * log(p) + (1 - c) * log(1 - p))\n"
        "store sum(loss) as loss : f32")
SUMS = ("store relu(acc) as y : bf16\nstore sum(relu(acc), over=m) as s : f32\nstore sum(acc, over=m, per=b) as of_image : f32\n"
        "store variance(acc, over=(m,n), groups=2) as v : f32\nstore max(acc, over=all, per=b) as top : f32")
# Behind the next layer's data gradient: back through SiLU and a GroupNorm whose input and statistics the forward pass has
# stored. Two sums of a group, which elements read again, and three of a channel
BACKWARD = """operand x[m,n] : bf16
h = (x - mu[b,g{0}]) * rstd[b,g{0}]
z = h * gamma[n] + beta[n]
s = sigmoid(z)
dz = acc * (s * (1 + z * (1 - s)))
dh = dz * gamma
dx = rstd * (dh - mean(dh, over=(m,n), per=b, groups={0}) - h * mean(dh * h, over=(m,n), per=b, groups={0}))
store dx as dx : bf16
store sum(dz * h, over=m) as dgamma : f32
store sum(dz, over=m) as dbeta : f32
store sum(dx, over=m) as dbias : f32"""
CENTRED = "store acc - mean(acc, over=m, per=b) as y : bf16\nstore acc * max(acc, over=m) as z : bf16"


# A normalisation and, behind it, what reads the largest of its results
CHAIN = ("h = acc - mean(acc, over=m, per=b)\nz = h * rsqrt(mean(h * h, over=(m,n), per=b, groups=4) + 1e-5)\n"
         "store z * max(z, over=m, per=b) as y : bf16\nstore sum(z, over=m) as s : f32")
KEPT = "p = acc - max(acc, over=n)\nstore p - mean(p, over=m, per=b) as y : bf16"
NORMED = "h = acc + bias[n]\ny = group_norm(h, groups={}, scale=gamma[n])\nstore silu(y) as y : bf16"
AHEAD = "\nstore sum(h, over=m) as s : f32\nstore variance(h, over=(m,n), per=b, groups=2) as v : f32"
BEHIND = "\nstore sum(y, over=m, per=b) as t : f32\nstore max(y, over=all) as top : f32"
# Ten rows of tiles and two across an image: more than the 12 or 16 CTAs that are in flight
MANY = ("--conv", "3,24,25,24->48,3x3")

TILE = ("--plan", "tile=64x32x32 stages=2")
GENERAL = ("--plan", "tile=64x32x32 stages=2 mode=general")
EIGHT = ("--plan", "tile=128x32x32 stages=2 warps=8 mode=general")
STREAM = ("--plan", "tile=64x32x32 stages=2 mode=streamed")


class OnFourSms(Case):
    def setUp(self):
        super().setUp()
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        self.env = dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(EMULATOR / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="4", UNISONO_EMULATOR_CAPABILITY="80")

    def outputs(self, text, *shape, seed, check=(), plan=TILE, **options):
        """What a run says, and the bytes of its results, with warps in an order of the seed's."""
        out = self.folder / f"out{seed}"
        shown = self.json("run", text, *shape, *plan, "--device", "cuda", "--repeat", 1, "--random", "--out", out, *check,
                          env=dict(self.env, UNISONO_EMULATOR_SEED=str(seed)), **options)
        return shown, {path.name: path.read_bytes() for path in sorted(out.iterdir())}

    def agrees(self, text, *shape, kind="mma.sync", elements=2 * 99 * 48, plan=TILE):
        """Every value is the reference's, none is missing, and other orders of warps give the same bits."""
        shown, first = self.outputs(text, *shape, seed=1, check=("--check",), plan=plan)
        for words in kind.split(" ", 1):
            self.assertIn(words, shown["kernel"])
        for check in shown["check"]:
            self.assertEqual((check["ok"], check["outside"], check["unclaimed"]), (True, 0, 0), check)
        self.assertIn(elements, [check["elements"] for check in shown["check"]])
        self.assertEqual(first, self.outputs(text, *shape, seed=2, plan=plan)[1])

    def volumes(self, n, channels, extents, filters, taps, norm, seed=1, code=0, **given):
        """What a run of a convolution of volumes says, and what `explain` does."""
        draw = random.Random(7)

        def constant(name, *shape, size=1):
            for extent in shape:
                size *= extent
            return onnx_file.constant(name, 1, shape, struct.pack(f"<{size}f", *[draw.gauss(0, 0.2) for _ in range(size)]))
        nodes = [onnx_file.node("Conv", ["x", "w", "b"], ["c"], **given)]
        nodes += [onnx_file.node("InstanceNormalization", ["c", "scale", "shift"], ["y"])] if norm else [onnx_file.node("Relu", ["c"], ["y"])]
        constants = [constant("w", filters, channels, *taps), constant("b", filters), constant("scale", filters), constant("shift", filters)]
        (self.folder / "m.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.value_info("x", 1, [n, channels, *extents])],
                                                             [onnx_file.value_info("y", 1, [n, filters, "d", "h", "w"])], constants=constants[:4 if norm else 2]))
        env = dict(self.env, UNISONO_EMULATOR_SEED=str(seed))
        return (self.json("run", "m.onnx", "--device", "cuda", "--repeat", 0, "--random", "--check", env=env, code=code),
                self.unisono("explain", "m.onnx", "--device", "cuda", env=env)[0])


class Elements(OnFourSms):
    def test_bias_and_silu(self):
        self.agrees(BIAS, *BLOCK)
        self.agrees(BIAS, *PRODUCT, elements=150 * 34)
        self.agrees(BIAS.replace("bf16", "f16"), "--conv", "2,9,11,24->48,3x3,stride=2,dtype=f16", elements=2 * 30 * 48)

    def test_a_residual_and_two_stores(self):
        self.agrees(RESIDUAL, *BLOCK)
        self.agrees(RESIDUAL, *ODD, elements=2 * 63 * 35)

    def test_group_norm_in_one_launch(self):
        for groups in (1, 2, 6, 24):  # one group over both tiles, one that ends within a tile, several in each
            self.agrees(NORM.format(groups), *BLOCK, kind="mma.sync resident")
        self.agrees(NORM.format(5), *ODD, kind="mma.sync resident", elements=2 * 63 * 35)

    def test_group_norm_of_tiles_that_wait_in_memory(self):
        for groups in (1, 6, 24):
            self.agrees(NORM.format(groups), *MANY, kind="mma.sync streamed, 16 CTAs", elements=3 * 600 * 48, plan=STREAM)
        self.agrees(NORM.format(5), *ODD, kind="mma.sync streamed", elements=2 * 63 * 35, plan=STREAM)
        self.agrees("store silu(batch_norm(acc + bias[n], scale=gamma[n])) as y : bf16", *LARGE, kind="streamed", elements=3 * 156 * 96, plan=STREAM)
        # More messages than a warpgroup reads at once: slots form segments
        self.agrees(NORM.format(8), "--conv", "1,96,96,8->48,1x1", kind="streamed", elements=9216 * 48, plan=("--plan", "tile=64x48x32 mode=streamed"))

    def test_results_of_32_bits_behind_a_group_norm(self):
        for mode in ("resident", "streamed"):
            plan = ("--plan", f"tile=64x32x32 mode={mode}")
            self.agrees(MISH, "--conv", "2,9,11,24->48,3x3,dtype=f16", kind=mode, plan=plan)
            self.agrees("h = group_norm(acc + bias[n], groups=8)\nstore h as a : f32\nstore silu(h) * s[m] as y : bf16", *BLOCK, kind=mode, plan=plan)

    def test_two_stores_around_a_group_norm(self):
        self.agrees("operand r[m,n] : bf16\nh = acc + bias[n] + t[b,n]\nstore h as h : bf16\n"
                    "store silu(group_norm(h, groups=4, scale=gamma[n])) + r as y : bf16", *BLOCK, kind="mma.sync resident")

    def test_statistics_are_stored(self):
        self.agrees("m = mean(acc, over=(m,n), per=b, groups=4)\nstore m as means : f32\n"
                    "store (acc - m) * rsqrt(variance(acc, over=(m,n), per=b, groups=4) + 1e-5) as y : bf16", *BLOCK, kind="mma.sync resident")

    def test_refuses_with_reasons(self):
        plan = ("--device", "cuda", "--plan", "family=mma tile=64x32 mode=resident")
        self.refused("explain", NORM.format(2), "--conv", "1,40,40,24->48,3x3", *plan, env=self.env, code=UNSUPPORTED,
                     says=("resident: 50 tiles", "16 CTAs in flight"))


class Reductions(OnFourSms):
    def test_a_softmax_of_rows(self):
        self.agrees(SOFTMAX, *BLOCK, kind="mma.sync rows")
        self.agrees(SOFTMAX, *LARGE, kind="mma.sync rows", elements=3 * 156 * 96)
        self.agrees(SOFTMAX, *PRODUCT, kind="mma.sync rows", elements=150 * 34)
        self.agrees(SOFTMAX, *ODD, kind="mma.sync rows", elements=2 * 63 * 35)
        self.agrees(SOFTMAX, "--gemm", "70,40->30,nt", kind="mma.sync rows", elements=70 * 30)  # one tile across
        self.agrees("p = softmax(acc + bias[n], over=n)\nstore p as y : bf16\nstore p * s[m] as z : f32", *BLOCK, kind="mma.sync rows")
        self.agrees(CROSS_ENTROPY, *BLOCK, kind="mma.sync general", elements=2 * 99)

    def test_a_layer_norm_of_rows(self):
        self.agrees(LAYER_NORM, *BLOCK, kind="mma.sync rows")
        self.agrees(LAYER_NORM, *ODD, kind="mma.sync rows", elements=2 * 63 * 35)

    def test_a_summed_loss(self):
        self.agrees(LOSS, *BLOCK, kind="mma.sync general", elements=1)
        self.agrees(LOSS, *LARGE, kind="mma.sync general", elements=1)
        self.agrees(LOSS, *ODD, kind="mma.sync general", elements=1)

    def test_reductions_over_columns_groups_and_all(self):
        self.agrees(SUMS, *BLOCK, kind="mma.sync general")
        self.agrees(SUMS, *LARGE, kind="mma.sync general", elements=3 * 156 * 96)

    def test_reductions_over_rows_that_elements_read(self):
        self.agrees(CENTRED, "--conv", "1,9,11,24->48,3x3", kind="mma.sync general", elements=99 * 48)

    def test_the_backward_pass_of_a_group_norm(self):
        for groups in (2, 6, 24):
            self.agrees(BACKWARD.format(groups), *BLOCK, kind="mma.sync resident")
            self.agrees(BACKWARD.format(groups), *BLOCK, kind="mma.sync general", plan=GENERAL)
        self.agrees(BACKWARD.format(5), *ODD, kind="mma.sync general", elements=2 * 63 * 35)  # an odd number of channels
        self.agrees(BACKWARD.format(2), *UP, kind="by phases resident", elements=2 * 357 * 48, plan=("--plan", "tile=128x64x32 mode=resident"))

    def test_reductions_over_a_row(self):
        self.agrees("store acc - mean(acc, over=n, groups=6) as y : bf16\nstore sum(acc, over=n) as s : f32\n"
                    "store sqrt(sum_squares(acc, over=n)) * w[m] as length : f32", *BLOCK, kind="mma.sync general")


class Waiting(OnFourSms):
    def test_the_backward_pass_of_a_group_norm_whose_tiles_wait_in_memory(self):
        for groups in (2, 6, 24):
            self.agrees(BACKWARD.format(groups), *MANY, kind="mma.sync streamed, 12 CTAs", elements=3 * 600 * 48, plan=STREAM)
        self.agrees(BACKWARD.format(2), *UP, kind="by phases streamed", elements=2 * 357 * 48, plan=STREAM)
        # More messages than a warpgroup reads at once, two entries each
        four = BACKWARD.format(8) + "\nstore dx + mean(acc, over=(m,n), per=b, groups=8) - max(dh, over=(m,n), per=b, groups=8) as e : f32"
        self.agrees(four, "--conv", "1,96,96,8->48,1x1", kind="streamed", elements=9216 * 48, plan=("--plan", "tile=64x48x32 mode=streamed"))

    def test_accumulators_that_wait_in_memory(self):
        spilled = "mma.sync general spilled"
        for text in (CENTRED, BACKWARD.format(6), CHAIN):  # over all images; an image in one pass; in two
            self.agrees(text, *MANY, kind=spilled, elements=3 * 600 * 48, plan=GENERAL)
        self.agrees(CENTRED, "--conv", "3,24,25,24->35,3x3", kind=spilled, elements=3 * 600 * 35, plan=GENERAL)
        self.agrees(CENTRED, *MANY, kind="mma.sync 8 warps general spilled", elements=3 * 600 * 48, plan=EIGHT)
        # 60 tiles of a row: more than are in flight; and rows of which a tile has all channels, whose sums are kept
        self.agrees(SOFTMAX, "--gemm", "70,40->1920,nt", kind=spilled, elements=70 * 1920, plan=("--plan", "tile=64x32x32 stages=2"))
        self.agrees(KEPT, "--conv", "2,48,25,8->48,1x1", kind=spilled, elements=2 * 1200 * 48, plan=("--plan", "tile=64x48x32 mode=general"))

    def test_reductions_that_are_stored_with_a_group_norm(self):
        for stored in (AHEAD, BEHIND, AHEAD + BEHIND):
            for shape, plan, elements in ((BLOCK, TILE, 2 * 99 * 48), (MANY, STREAM, 3 * 600 * 48)):
                self.agrees(NORMED.format(6) + stored, *shape, kind="mma.sync streamed" if plan is STREAM else "mma.sync resident", elements=elements, plan=plan)


class Operands(OnFourSms):
    """Layouts, types, steps and tiles, with the epilogue of elements."""

    def test_layouts_of_products(self):
        for layouts in ("nt", "nn", "tt", "tn"):
            self.agrees(BIAS, "--gemm", f"150,40->34,{layouts}", elements=150 * 34)
            self.agrees(BIAS, "--gemm", f"3,72,96->64,{layouts}", elements=3 * 72 * 64)
            self.agrees(BIAS, "--gemm", f"37,33->21,{layouts}", elements=37 * 21)

    def test_copies_of_every_width(self):
        for channels in (1, 3, 6, 12, 20, 40):
            self.agrees(BIAS, "--conv", f"2,9,11,{channels}->48,3x3,stride=2", elements=2 * 30 * 48)

    def test_strides_borders_and_dilation(self):
        self.agrees(BIAS, "--conv", "3,13,8,8->32,5x3,stride=2,pad=2,dilation=2", elements=3 * 5 * 4 * 32)
        self.agrees(BIAS, "--conv", "1,1,1,24->48,3x3", elements=48)
        self.agrees(BIAS, "--conv", "2,9,11,24->48,1x1,stride=2", elements=2 * 30 * 48)
        self.agrees(BIAS, "--conv", "2,9,11,48->96,3x3,groups=3", elements=2 * 99 * 96)

    def test_types(self):
        self.agrees(BIAS, "--conv", "2,9,11,12->48,3x3,dtype=f32", plan=("--plan", "tile=64x32x16"))
        self.agrees(BIAS, "--gemm", "70,21->34,nt,dtype=f32", plan=("--plan", "tile=64x32x32"), elements=70 * 34)
        self.agrees("store mish(acc + bias[n]) as y : f32", "--conv", "2,9,11,24->48,3x3,dtype=f16", kind="mma.sync general")

    def test_tiles_of_every_kind(self):
        for tile in ("64x16x32", "64x80x64", "128x48x64", "128x128x32", "256x32x32", "128x160x64"):
            for rest in ("stages=2", "stages=4", "stages=3 warps=8"):
                if tile.startswith("256") == ("warps" in rest):
                    self.agrees(RESIDUAL, "--conv", "1,17,19,24->176,3x3", plan=("--plan", f"tile={tile} {rest}"), elements=323 * 176)
        self.agrees(NORM.format(4), "--conv", "2,17,19,24->64,3x3", plan=("--plan", "tile=128x64x32 warps=8"), elements=2 * 323 * 64, kind="resident")
        self.agrees(SUMS, "--conv", "2,17,19,24->64,3x3", plan=("--plan", "tile=256x32x32 warps=8"), elements=2 * 323 * 64, kind="general")


class Contractions(OnFourSms):
    """Transposed convolutions, two products of one operand, tiles that several CTAs share."""

    def test_transposed_convolutions_by_phases(self):
        kind = "mma.sync by phases"
        self.agrees(BIAS, *UP, kind=kind, elements=2 * 357 * 48)
        for shape, elements in (("3,5,7,8->34,2x2,stride=2,pad=0,transposed", 3 * 140 * 34),  # no pixel has two taps
                                ("2,7,5,20->32,4x5,stride=2,pad=2,output_pad=1,transposed", 2 * 13 * 10 * 32),
                                ("1,6,5,16->48,3x2,stride=2,dilation=2,pad=0,transposed", 15 * 11 * 48),  # every other phase has no tap
                                ("2,4,5,3->32,5x3,stride=3,pad=1,transposed", 2 * 12 * 13 * 32),
                                ("2,5,6,32->64,3x3,pad=2,groups=2,transposed", 2 * 3 * 4 * 64),
                                ("1,3,4,16->32,3x3,stride=4,pad=0,transposed,dtype=f16", 11 * 15 * 32)):
            self.agrees(BIAS, "--conv", shape, kind=kind, elements=elements)
        self.agrees(NORM.format(6), *UP, kind=kind + " resident", elements=2 * 357 * 48, plan=("--plan", "tile=128x64x32 mode=resident"))
        self.agrees(NORM.format(6), *UP, kind=kind + " streamed", elements=2 * 357 * 48, plan=("--plan", "tile=64x32x32 mode=streamed"))
        self.agrees(RESIDUAL, *UP, kind=kind, elements=2 * 357 * 48)
        self.agrees(SUMS, *UP, kind=kind, elements=2 * 357 * 48)
        self.agrees(SOFTMAX, *UP, kind=kind + " rows", elements=2 * 357 * 48)

    def test_volumes(self):
        for n, channels, extents, filters, taps, norm, given, elements in (
                (2, 12, [5, 7, 9], 48, [3, 2, 3], False, {"strides": [2, 1, 2], "pads": [1, 0, 2, 2, 1, 1], "dilations": [1, 2, 1]}, 2 * 48 * 90),
                (1, 3, [3, 5, 6], 34, [3, 3, 3], False, {"pads": [1] * 6}, 34 * 90),  # copies of two bytes
                (2, 16, [4, 6, 5], 24, [2, 3, 1], False, {"pads": [2, 1, 0, 0, 1, 0], "dilations": [2, 1, 1]}, 2 * 24 * 120),
                (2, 16, [4, 5, 6], 48, [3, 3, 3], True, {"pads": [1] * 6}, 2 * 48 * 120)):
            shown, plan = self.volumes(n, channels, extents, filters, taps, norm, **given)
            self.assertRegex(plan, "mma.sync [0-9x/]+ volumes" + (" resident" if norm else ","))
            self.assertEqual([(c["ok"], c["outside"], c["unclaimed"], c["elements"]) for c in shown["check"]], [(True, 0, 0, elements)])

    def test_two_products_of_one_operand(self):
        kind = "mma.sync dual"
        for layouts in ("nt", "nn", "tt", "tn"):
            self.agrees(GATED, "--gemm", f"3,72,33->34,{layouts}", kind=kind, elements=3 * 72 * 34)
        self.agrees(GATED, *BLOCK, kind=kind)
        self.agrees(GATED, *ODD, kind=kind, elements=2 * 63 * 35)
        self.agrees(GATED, "--conv", "2,9,11,48->96,3x3,groups=3", kind=kind, elements=2 * 99 * 96)
        self.agrees(GATED, "--gemm", "70,21->34,nt,dtype=f32", kind=kind, plan=("--plan", "tile=64x32x32"), elements=70 * 34)
        gated = "h = silu(acc0) * acc1 + bias[n]\n"
        self.agrees(gated + "operand r[m,n] : bf16\nstore h as h : bf16\nstore acc1 + r * acc0 as y : f32", *BLOCK, kind=kind + " general")
        self.agrees(gated + "store sum(h, over=m) as s : f32\nstore h - mean(acc1, over=n) as y : bf16", *BLOCK, kind=kind + " general")
        self.agrees(gated + "store softmax(h, over=n) as y : bf16", *BLOCK, kind=kind + " rows")
        for mode in ("resident", "streamed"):
            self.agrees(gated + "store silu(group_norm(h, groups=6, scale=gamma[n])) as y : bf16", *BLOCK, kind=f"{kind} {mode}",
                        plan=("--plan", f"tile=64x32x32 mode={mode}"))
        for tile in ("64x16x64", "128x64x32 stages=3", "256x32x32 warps=8"):
            self.agrees(GATED, "--conv", "1,17,19,24->176,3x3", kind=kind, plan=("--plan", "tile=" + tile), elements=323 * 176)

    def test_tiles_that_several_ctas_share(self):
        deep, outputs = "2,5,6,70->64,3x3", 2 * 30 * 64  # k = 630: 20 steps, the last of them 22 deep
        for parts in (2, 3, 4):
            self.agrees(BIAS, "--conv", deep, kind=f"mma.sync {parts} parts", elements=outputs, plan=("--plan", f"tile=64x32x32 parts={parts}"))
        self.agrees(BIAS, "--conv", deep, kind="mma.sync 3 parts", elements=outputs, plan=("--plan", "tile=128x64x32 warps=8 parts=3"))
        for layouts in ("nt", "nn", "tt", "tn"):
            self.agrees(BIAS, "--gemm", f"70,333->64,{layouts}", kind="mma.sync 2 parts", elements=70 * 64, plan=("--plan", "tile=64x64x32 parts=2"))
        self.agrees(BIAS, "--gemm", "70,333->34,nt,dtype=f32", kind="mma.sync 4 parts", elements=70 * 34, plan=("--plan", "tile=64x64x16 parts=4"))
        self.agrees(GATED, "--gemm", "70,333->34,nt", kind="mma.sync dual 2 parts", elements=70 * 34, plan=("--plan", "tile=64x32x32 parts=2"))
        # One phase has all taps, so that the others' parts have no steps
        self.agrees(BIAS, "--conv", "1,6,7,160->64,3x3,stride=2,dilation=2,transposed", kind="mma.sync by phases 2 parts", elements=11 * 13 * 64,
                    plan=("--plan", "tile=64x32x32 parts=2"))
        self.agrees(NORM.format(8), "--conv", deep, kind="resident 3 parts", elements=outputs, plan=("--plan", "tile=64x32x32 parts=3 mode=resident"))
        self.agrees(SOFTMAX, "--conv", deep, kind="rows 2 parts", elements=outputs, plan=("--plan", "tile=64x32x32 parts=2"))
        self.agrees(SUMS, "--conv", deep, kind="general 2 parts", elements=outputs, plan=("--plan", "tile=64x32x32 parts=2"))
        self.agrees(CENTRED, "--conv", "1,5,6,70->64,3x3", kind="general 4 parts", elements=30 * 64, plan=("--plan", "tile=64x32x32 parts=4"))


DEEP, SHARED = ("--conv", "2,5,6,70->64,3x3"), ("--plan", "tile=64x32x32 parts=3")
# What is wrong; the header; what is replaced by what; the epilogue; its shape; the plan
FAULTS = [
    ("columns are read before they are there", "epilogue/fragment_epilogue.cuh", "of_tile.put(*this, at); sync();", "of_tile.put(*this, at);", BIAS, BLOCK),
    ("a group has the first image's statistics", "epilogue/normalise.cuh", "tile.epoch, at.image,", "tile.epoch, 0,", NORM.format(2), BLOCK),
    ("rows beyond the image count", "epilogue/general_elements.cuh", "const bool exists = at.rows.valid(row_of(r)) &&", "const bool exists =", LOSS, BLOCK),
    ("channels beyond the last count", "epilogue/row_statistics.cuh", "Tile::kTogether == 8 ||", "true ||", LAYER_NORM, ODD),
    ("a row has the statistics of another", "epilogue/fragment.cuh", "return 2 * (pair / kPairsOfBlock) + (pair & 1);", "return 2 * (pair / kPairsOfBlock);", LAYER_NORM, BLOCK),
    ("warps' sums are added before they are there", "epilogue/fold_columns.cuh", "tail.sync(); const size_t plane", "const size_t plane", SUMS, BLOCK),
    ("a warp reads columns before results reach them", "epilogue/general_rows.cuh", "tail.columns()[c * Tail::kN + n] = column[c]; } tail.sync();",
     "tail.columns()[c * Tail::kN + n] = column[c]; }", CENTRED, ("--conv", "1,9,11,24->48,3x3")),
    ("a group has the sums of the first image", "epilogue/returned.cuh", "domain.per_image ? image : 0", "0", BACKWARD.format(6), BLOCK, GENERAL),
    ("a pair's second channel adds nothing to what tiles exchange", "epilogue/exchanged.cuh", "if (kWidth == 2) value[0][i] = join(kind, value[0][i], value[1][i]);",
     "", BACKWARD.format(6), BLOCK),
    ("what tiles exchange is of one channel", "epilogue/exchanged.cuh", "float(tile.norm.group_channels), all.values, column + n, kN);",
     "1.f, all.values, column + n, kN);", BACKWARD.format(6), MANY, STREAM),
    ("a tile that waits counts itself in twice", "epilogue/pass_folds.cuh", "if constexpr (!kIsAhead || !PassFolds<Visitor>::kBehind) columns.count_in(at);",
     "columns.count_in(at);", NORMED.format(6) + AHEAD + BEHIND, MANY, STREAM),
    ("the last to come merges the tiles before it alone", "epilogue/fold_columns.cuh", "== u32(parties - 1);", "== 0u;", BACKWARD.format(6), BLOCK, GENERAL),
    ("copies are not waited for", "sm80/main_loop.cuh", "copy_async_wait<kAhead - 1>();", "", BIAS, BLOCK),
    ("a stage is overwritten while it is read", "sm80/main_loop.cuh", "__syncthreads();", "", BIAS, BLOCK),
    ("pixels beyond the border are read", "sm80/sights.cuh", "u32(column_of(row.place) + tap.beside) < u32(width)", "true", BIAS, BLOCK),
    ("a tap begins at the wrong channel", "sm80/taps.cuh", "channel -= channels;", "channel = 0;", BIAS, ("--conv", "2,9,11,24->48,3x3")),
    ("a phase begins at another's pixel", "sm80/taps.cuh", "(p + g.pad_h - vertical.first * g.dilation_h) / g.stride_h", "p / g.stride_h", BIAS, UP),
    ("a phase has its neighbour's taps", "sm80/loads.cuh", "taps.horizontal.first * of_tap", "0", BIAS, UP),
    ("a line of filters is that of the copy before", "sm80/loads.cuh", "k.advance(kBy, channels, columns);", ";", BIAS, UP),
    ("pixels that a phase does not have count", "sm80/taps.cuh", "first + m < end && place.p < g.height && place.q < g.width", "first + m < end", "store sum(acc + 1, over=m) as s : f32", UP),
    ("parts are added before they are there", "mma/split_k.cuh", "if (load_acquire(p.flags + part) == epoch + 1) break;", "break;", BIAS, DEEP, SHARED),
    ("each part begins at the first k", "sm80/loads.cuh", "TapOfK::of(first + Mine::byte() / kElement, f, taps)", "TapOfK::of(Mine::byte() / kElement, f, taps)", BIAS, DEEP, SHARED),
    ("all parts but the first have one place", "sm80/shares.cuh", "first + i * warpgroups", "first", BIAS, DEEP, SHARED),
    ("both products have the filters of the first", "sm80/main_loop.cuh", "f.filters[i]", "f.filters[0]", GATED, BLOCK),
    ("the second product has the first's fragments", "sm80/main_loop.cuh", "j / kEach * B::Tile::kSize", "0", GATED, BLOCK),
    ("a pair's second sums are those of its first channel", "epilogue/tile.cuh", "Fragment::value(tile.acc, p, 1, i)", "Fragment::value(tile.acc, p, 0, i)", GATED, BLOCK),
    ("tiles that wait are brought back as others", "sm80/waiting_tiles.cuh", "load_sums<kQuads>(place(first), tail.acc);", "load_sums<kQuads>(place(int(blockIdx.x)), tail.acc);", NORM.format(2), MANY, STREAM),
    ("both warpgroups have one place in memory", "sm80/waiting_tiles.cuh", "spilled{tail, int(threadIdx.x) / 128}", "spilled{tail, 0}", CENTRED, MANY, EIGHT),
    ("a CTA's next tile is its first", "sm80/waiting_tiles.cuh", "blockIdx.x + i * gridDim.x", "blockIdx.x", CENTRED, MANY, GENERAL),
    ("lanes store another's channels", "epilogue/fragment_stores.cuh", "run[c] = lane & 1 ? other : own[0]", "run[c] = lane & 1 ? own[0] : other", BIAS, BLOCK),
    ("the odd channel of a row is not stored", "epilogue/fragment_stores.cuh", "if (next) to[1]", "if (false) to[1]", RESIDUAL, ODD),
]


VOLUME_FAULTS = [
    ("planes beyond a volume are read", "sm80/sights.cuh", "u32(row.plane + tap.deeper) < u32(depth) &&", ""),
    ("a plane's taps are those of the first", "sm80/sights.cuh", "((deeper * height + below) * width + beside) * pitch", "(below * width + beside) * pitch"),
]


class Faults(OnFourSms):
    def put(self, folder, _, header, good, bad):
        original = (SOURCES / "kernels" / "unisono" / header).read_text()
        faulty = with_fault(original, good, bad)
        self.assertNotEqual(faulty, original, f"{header} has no '{good}' any more; put the fault elsewhere")
        path = pathlib.Path(folder, header)
        path.parent.mkdir()
        path.write_text(faulty)
        self.env.update(UNISONO_EMULATOR_HEADERS=folder, UNISONO_CACHE_DIR=folder + "/cache")

    def test_seeded_faults_are_found(self):
        for *fault, text, shape, plan in [(*row, TILE)[:7] for row in FAULTS]:
            with self.subTest(fault[0]), tempfile.TemporaryDirectory() as folder:
                self.put(folder, *fault)
                shown = self.outputs(text, *shape, seed=1, check=("--check",), code=FAILED, plan=plan)[0]
                self.assertIn(False, [check["ok"] for check in shown["check"]])

    def test_seeded_faults_of_volumes_are_found(self):
        for fault in VOLUME_FAULTS:
            with self.subTest(fault[0]), tempfile.TemporaryDirectory() as folder:
                self.put(folder, *fault)
                shown, _ = self.volumes(2, 16, [4, 5, 6], 48, [3, 3, 3], False, code=FAILED, pads=[1] * 6)
                self.assertIn(False, [check["ok"] for check in shown["check"]])


if __name__ == "__main__":
    main(sys.argv[5])
