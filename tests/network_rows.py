#!/usr/bin/env python3
"""The list of others' networks, and which rows of it are judged again. Needs no package.

usage: network_rows.py ROOT
"""
import argparse
import dataclasses
import json
import pathlib
import random
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop()).resolve()
sys.path.insert(0, str(ROOT / "scripts"))

from networks import gpu_times, kept, losses, sources, verdict  # noqa: E402
from networks.catalogue import BY_DYNAMO, ENTRIES, GPU_ENTRIES  # noqa: E402


class Catalogue(unittest.TestCase):
    def test_holds_enough(self):
        self.assertGreaterEqual(len(ENTRIES), 240)
        self.assertGreaterEqual(len(BY_DYNAMO), 60)

    def test_keys_are_of_the_network_alone(self):
        keys = {entry.key() for entry in GPU_ENTRIES.values()}
        self.assertEqual(len(keys), len(GPU_ENTRIES))
        entry = ENTRIES["resnet50"]
        self.assertNotEqual(entry.key(), dataclasses.replace(entry, arguments=("resnet50", 256)).key())
        self.assertEqual(entry.key(), dataclasses.replace(entry, convolutional=False).key())


class Rows(unittest.TestCase):
    def options(self, file, **fields):
        return argparse.Namespace(**{"json": file, "exporters": "torchscript", "precisions": ["bf16"], "again": False,
                                     "stale": True} | fields)

    def test_what_is_left_is_judged_in_turn(self):
        names = ["resnet18", "resnet50", "alexnet", "bert"]

        def row(name, **fields):
            return {"network": name, "exporter": "torchscript", "precision": "bf16", "status": "right",
                    "sources": sources.state("cuda"), "key": GPU_ENTRIES[name].key()} | fields
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "rows.json")
            rows = [row("resnet18", sources="others"), row("resnet50"), row("alexnet", sources="others", status="wrong")]
            file.write_text(json.dumps({"rows": rows}))
            self.assertEqual(kept.in_turn(names, self.options(file)), ["bert", "alexnet", "resnet18"])
            self.assertEqual(kept.in_turn(names, self.options(file, stale=False)), ["bert", "alexnet"])
            self.assertEqual(kept.in_turn(names, self.options(file, again=True)), ["bert", "alexnet", "resnet50", "resnet18"])
            merged = kept.merge([row("bert"), row("alexnet")], file)
            self.assertEqual([r["network"] for r in merged], ["resnet18", "resnet50", "alexnet", "bert"])
            self.assertEqual(kept.in_turn(names, self.options(file)), ["resnet18"])

    def test_reasons_name_no_folders(self):
        self.assertEqual(kept.without_folders("at /opt/torch/.venv/lib/functional.py:5430:0, '/net/conv/Pad', 3 / 4"),
                         "at functional.py:5430:0, '/net/conv/Pad', 3 / 4")

    def test_one_gpu_is_not_hidden(self):
        self.assertEqual(kept.seen_gpu(""), {})
        self.assertEqual(kept.seen_gpu("1"), {"CUDA_VISIBLE_DEVICES": "1"})

    def test_a_machine_that_makes_nothing_is_found(self):
        rows = [{"network": str(i), "status": "not exported"} for i in range(4)]
        self.assertTrue(kept.all_unmade(rows, 4))
        self.assertFalse(kept.all_unmade(rows, 5))
        self.assertFalse(kept.all_unmade([*rows, {"network": "4", "status": "refused"}], 4))

    def test_kernels_are_sources_of_a_gpus_rows_alone(self):
        before, root = {d: sources.state(d) for d in sources.FOLDERS}, sources.ROOT
        with tempfile.TemporaryDirectory() as folder:
            for name in set(sum(sources.FOLDERS.values(), ())):
                pathlib.Path(folder, name).mkdir(parents=True)
            pathlib.Path(folder, "kernels", "a.cuh").write_text("1")
            try:
                sources.ROOT = pathlib.Path(folder)
                sources.state.cache_clear()
                first = {d: sources.state(d) for d in sources.FOLDERS}
                pathlib.Path(folder, "kernels", "a.cuh").write_text("2")
                sources.state.cache_clear()
                second = {d: sources.state(d) for d in sources.FOLDERS}
            finally:
                sources.ROOT = root
                sources.state.cache_clear()
        self.assertNotEqual(first["cuda"], second["cuda"])
        self.assertEqual(first["cpu"], second["cpu"])
        self.assertEqual(before, {d: sources.state(d) for d in sources.FOLDERS})
        for folder in set(sum(sources.FOLDERS.values(), ())):
            self.assertTrue(any((ROOT / folder).rglob("*.?pp")) or any((ROOT / folder).rglob("*.cuh")), folder)


class Verdicts(unittest.TestCase):
    """Of a network that amplifies roundings: eager mode is off by 0.09, one draw of a wide distribution."""

    def verdict(self, generator, ours, spread=0.35):
        """Right, as gpu.judged() decides it of errors that are `ours` times PyTorch's in the mean; and by the first inputs alone."""
        def drawn(scale):
            return [0.09 * scale * generator.lognormvariate(0, spread)]
        mine, theirs = [[drawn(scale) for _ in range(verdict.DRAWS)] for scale in (ours, 1)]
        self.assertTrue(verdict.one_input_says_little(theirs[0], [1000], "f16"))
        first = verdict.is_right(mine[0], theirs[0])
        if first or not verdict.asks_for_more(mine[0], theirs[0]):
            return first, first
        return verdict.is_right(verdict.over_all(mine), verdict.over_all(theirs)), first

    def shares(self, ours):
        generator = random.Random(7)
        both = [self.verdict(generator, ours) for _ in range(2000)]
        return [sum(b[i] for b in both) / len(both) for i in (0, 1)]

    def test_chance_is_not_called_wrong(self):
        right, by_one = self.shares(1.0)
        self.assertLess(by_one, 0.85)  # the rule before: one row in five was called wrong by chance
        self.assertGreater(right, 0.97)

    def test_what_is_worse_is_wrong(self):
        right, by_one = self.shares(3.0)
        self.assertLess(right, by_one + 0.005)  # more inputs let hardly any wrong row pass that one would have stopped
        self.assertLess(right, 0.1)
        self.assertFalse(verdict.asks_for_more([0.3], [0.09]))  # far beyond chance: wrong by the first inputs

    def test_every_output_counts(self):
        self.assertTrue(verdict.asks_for_more([0.1, 0.16], [0.1, 0.1]))
        self.assertFalse(verdict.asks_for_more([0.1, 0.1], [0.1, 0.1]))
        self.assertFalse(verdict.asks_for_more([0.16, 0.5], [0.1, 0.1]))
        self.assertEqual(verdict.over_all([[3.0, 1.0], [4.0, 1.0]]), [12.5 ** 0.5, 1.0])
        self.assertFalse(verdict.is_right([0.1, 0.16], [0.1, 0.1]))
        self.assertFalse(verdict.is_right([float("inf")], [0.1]))

    def test_eager_mode_that_is_near_asks_for_nothing(self):
        self.assertFalse(verdict.one_input_says_little([0.01], [1000], "f16"))
        self.assertFalse(verdict.one_input_says_little([0.09], [1000], "bf16"))
        self.assertTrue(verdict.one_input_says_little([0.01, 0.63], [1000, 1000], "bf16"))
        self.assertTrue(verdict.one_input_says_little([0.001, 0.001], [1000, 4], "f16"))
        self.assertFalse(verdict.one_input_says_little([], [4], "f16"))  # eager mode does not run in it

    def test_noise_bounds_nothing(self):
        self.assertEqual(verdict.no_bound([0.09, 0.4], "bf16"), "")
        self.assertEqual(verdict.no_bound([], "bf16"), "")
        self.assertIn("off by 63% of its norm", verdict.no_bound([0.01, 0.63], "bf16"))
        self.assertIn("is not finite", verdict.no_bound([float("nan"), 0.1], "f16"))


class Losses(unittest.TestCase):
    def kernel(self, what, us, floor_us=1.0, how="plain kernel"):
        return {"what": what, "us": us, "floor_us": floor_us, "how": how, "name": "n"}

    def row(self, **fields):
        return {"network": "bert", "exporter": "torchscript", "precision": "bf16", "batch": 8, "gpu": "H200", "key": "k",
                "status": "right", "on_host": [], "unisono_us": 100.0, "eager_us": 90.0, "compile_us": 80.0} | fields

    def test_launches_have_a_kind(self):
        for what, kind in (("conv2d (1,3,8,8) -> 4, 3x3", "contraction"), ("gemm 8x8x8", "contraction"), ("lstm of 'x'", "contraction"),
                           ("attention, 8 heads", "attention"), ("rows of softmax (8,8)", "normalisation"),
                           ("joined statistics of group_norm", "normalisation"), ("reduce_mean (8,8)", "normalisation"),
                           ("change of layout and type", "movement"), ("transpose (8,8)", "movement"), ("gathers 'x'", "movement"),
                           ("average_pool (1,3,8,8)", "movement"), ("elements of conv2d", "elementwise"), ("cast (8)", "elementwise"),
                           ("mul (8)", "elementwise"), ("reduce_sum (8)", "normalisation")):
            self.assertEqual(losses.kind_of(what), kind, what)

    def test_a_cause_names_the_kind_that_loses_most(self):
        kernels = [self.kernel("gemm 8x8x8", 50, 45), self.kernel("transpose (8,8)", 10), self.kernel("concat (8,8)", 12, how="moved"),
                   self.kernel("attention", 4)]
        row = self.row(losses=losses.summary(kernels))
        self.assertEqual([k["what"] for k in row["losses"]["worst"]], ["concat (8,8)", "transpose (8,8)"])
        self.assertEqual(losses.cause(row)[:66], "movement: 22 µs in 2 launches, floor 2. 12.0 µs (floor 1.0) concat"[:66])
        self.assertEqual(losses.ratio(row), 0.8)
        fast = self.row(network="gpt2", unisono_us=70.0)
        untimed = self.row(network="vit")
        del untimed["unisono_us"]
        page = "\n".join(losses.markdown([fast, row, untimed]))
        self.assertIn("1 of 2 timed rows are below 1.1", page)
        self.assertIn("| bert | torchscript | bf16 | 100 | 80 (compile) | 0.80 | 20 | 50 / 45 | 4 / 1 |  | 22 / 2 |  |", page)
        self.assertNotIn("gpt2", page)

    def test_times_of_peers_are_kept_for_the_same_alone(self):
        old, new = self.row(peers="H200, PyTorch 2.11"), self.row()
        for field in ("eager_us", "compile_us", "unisono_us"):
            del new[field]
        self.assertEqual(gpu_times.kept_times(new, old, "H200, PyTorch 2.11"), {"eager_us": 90.0, "compile_us": 80.0, "peers": "H200, PyTorch 2.11"})
        self.assertEqual(gpu_times.kept_times(new, old, "H200, PyTorch 2.15"), {})
        self.assertEqual(gpu_times.kept_times(new | {"batch": 1}, old, "H200, PyTorch 2.11"), {})
        self.assertEqual(gpu_times.kept_times(new, None, "H200, PyTorch 2.11"), {})
        one = {k: v for k, v in old.items() if k != "compile_us"}
        self.assertEqual(gpu_times.kept_times(new, one, "H200, PyTorch 2.11"), {})
        failed = one | {"compile_error": "does not compile"}
        self.assertEqual(gpu_times.kept_times(new, failed, "H200, PyTorch 2.11"), {"eager_us": 90.0, "compile_error": "does not compile", "peers": "H200, PyTorch 2.11"})

    def test_what_is_slow_is_timed_beside_its_peers(self):
        rows = [self.row(network=str(i), unisono_us=100.0 if i < 3 else 10.0) for i in range(100)]
        again = gpu_times.timed_again(rows, "dcafc334")
        self.assertTrue(all(r in again for r in rows[:3]))
        self.assertGreaterEqual(len(again), gpu_times.DRAWN)
        self.assertLessEqual(len(again), gpu_times.DRAWN + 3)
        self.assertEqual(again, gpu_times.timed_again(rows, "dcafc334"))
        self.assertNotEqual(again, gpu_times.timed_again(rows, "338170d5"))


if __name__ == "__main__":
    unittest.main()
