"""bench/report.py, bench/run_gpu.py and bench/peers/torch_gpu.py, as far as they need neither a GPU nor PyTorch."""

import copy
import importlib.util
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report = load(ROOT / "bench/report.py")
run_gpu = load(ROOT / "bench/run_gpu.py")
torch_gpu = load(ROOT / "bench/peers/torch_gpu.py")
quack_gpu = load(ROOT / "bench/peers/quack_gpu.py")

CASE = {
    "name": "8,64,64,320,320,3", "dtype": "bf16", "bare": False, "unisono_us": 100.0, "unisono_again_us": 101.0, "spread": 0.01,
    "unisono_bare_us": 80.0, "launches": 1, "floor_us": 50.0, "share_of_floor": 0.5, "error_over_tolerance": 0.4, "agrees": True,
    "peers": {"cudnn": 90.0, "torch_eager": 300.0, "torch_max_autotune": 150.0}, "peer_errors": {},
}
SUITE = {
    "suite": "block", "gpu": "NVIDIA H200 <&>", "driver": "580.1", "cudnn": "9.19.0", "commit": "0123456789abcdef", "date": "2026-11-21",
    "ceilings": {"matmul_tflops": 790.0, "copy_tbps": 4.2}, "cases": [CASE],
}


def suite(*changes):
    result = copy.deepcopy(SUITE)
    result["cases"] = [{**copy.deepcopy(CASE), **c} for c in changes] or result["cases"]
    return result


class Quack(unittest.TestCase):
    def test_epilogues_are_recognised_as_the_cases_write_them(self):
        text = (ROOT / "bench/cases/swiglu.txt").read_text()
        epilogues = [e.split("\ncase")[0].split("\n", 1)[1].format(dtype="bf16") for e in text.split("\nepilogue ")[1:]]
        known = [quack_gpu.GATED.get(quack_gpu.plain(e)) for e in epilogues]
        self.assertEqual(known, [("swiglu", False), ("geglu", False), None, ("swiglu", True)])
        for function, name in (("silu", "silu"), ("relu", "relu"), ("gelu_tanh", "gelu_tanh_approx")):
            single = quack_gpu.plain(f"operand bias[n] : bf16; store {function}( acc + bias[n] ) as y : bf16  # a comment")
            self.assertEqual(quack_gpu.SINGLE[single], name)

    def test_what_it_cannot_compute_is_said(self):
        with self.assertRaisesRegex(NotImplementedError, "products alone"):
            quack_gpu.make_function(None, {"text": "store acc as y : bf16"})

    def test_its_results_have_a_name_of_their_own(self):
        self.assertEqual([torch_gpu.named(p) for p in torch_gpu.PEERS], ["torch_eager", "torch_compile", "torch_max_autotune", "quack"])


class Report(unittest.TestCase):
    def test_rivals_of_a_block_do_its_work(self):
        self.assertEqual(report.speedup(CASE), 1.5)  # max-autotune; cuDNN's bare convolution is no rival
        self.assertEqual(report.speedup({**CASE, "bare": True}), 0.9)
        self.assertIsNone(report.speedup({**CASE, "peers": {"cudnn": 1.0}}))
        self.assertEqual(report.over_bare(CASE), 1.25)

    def test_a_rival_that_is_wrong_does_not_count(self):
        case = {**CASE, "peers": {"cutlass_sm90a": 50.0, "cutlass_sm80": 120.0, "cublaslt_bare": 10.0}}
        self.assertEqual(report.speedup(case), 50.0 / CASE["unisono_us"])
        checked = {"cutlass_sm90a": {"agrees": False}, "cutlass_sm80": {"agrees": True}}
        self.assertEqual(report.speedup({**case, "peer_checked": checked}), 120.0 / CASE["unisono_us"])
        text = report.text_table(
            {**SUITE, "suite": "evt", "cublaslt": "13", "cases": [{**case, "peer_checked": checked}]}
        )
        self.assertRegex(text, r"50\.0 \*\*wrong\*\* +120\.0")
        self.assertIn("CUTLASS", text)

    def test_a_table_has_a_cell_for_every_column(self):
        cases = suite({}, {"name": "b", "peers": {}}, {"name": "c", "error": "it hung\nfor a minute"})
        columns = report.columns(cases)
        for case in report.ran(cases):
            self.assertTrue(all(isinstance(cell(case), str) for _, cell in columns))
        self.assertEqual(len(report.ran(cases)), 2)
        text = " ".join(report.markdown(cases).split())
        self.assertIn("c: no result: it hung.", text)
        self.assertIn("geometric mean 1.50", text)
        self.assertNotIn("|", text)  # the table is the site's
        self.assertNotIn("compile", [heading for heading, _ in columns])  # no case has it

    def test_times_under_load(self):
        hot = suite({"unisono_hot_us": 120.0, "peers_hot": {"torch_compile": 180.0}, "peers": {"torch_compile": 150.0}})
        self.assertIn("the same, hot", report.text_table(hot))
        self.assertIn("Hot: 1.50, 1.50 to 1.50", report.markdown(hot))
        self.assertNotIn("Hot", report.markdown(suite({"unisono_hot_us": 120.0, "peers_hot": {}})))

    def test_noise_is_mentioned_where_it_is_large(self):
        self.assertIn("timed twice: ratios of 1.020 to 1.020", report.markdown(suite({"unisono_again_us": 102.0})))
        self.assertNotIn("timed twice", report.markdown(suite({"unisono_again_us": 100.5})))

    def test_disagreement_is_shown(self):
        self.assertIn("**wrong**", report.text_table(suite({"agrees": False, "error_over_tolerance": None})))

    def test_picture_is_well_formed(self):
        for s in (suite(), suite({"name": "<&>"}, {"error": "x"}), suite({"peers": {"torch_eager": 4000.0}})):
            root = xml.etree.ElementTree.fromstring(report.svg(s))
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            width = float(root.get("width"))
            for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
                if rect.get("x"):
                    self.assertLessEqual(float(rect.get("x")) + float(rect.get("width")), width)

    def test_roofline(self):
        s = suite({"flop": 1e12, "bytes": 1e9}, {"name": "<&>", "flop": 1e10, "bytes": 1e9, "peers": {}}, {"error": "x"}, {"name": "no bytes"})
        text = report.roofline.svg({"block": s, "conv": {**s, "ceilings": {}}}, report.rivals)
        root = xml.etree.ElementTree.fromstring(text)
        circles = list(root.iter("{http://www.w3.org/2000/svg}circle"))
        self.assertEqual(len(circles), 2 + 1 + 1)  # two kernels, a rival, and the legend
        for c in circles:
            self.assertLess(float(c.get("cx")), float(root.get("width")))
            self.assertLess(float(c.get("cy")), float(root.get("height")))
        higher, lower = (float(c.get("cy")) for c in circles if c.find("{http://www.w3.org/2000/svg}title") is not None)
        self.assertLess(higher, lower)  # a hundred times the TFLOP/s
        self.assertIsNone(report.roofline.svg({"block": SUITE}, report.rivals))

    def test_page_is_filled_and_emptied(self):
        page = "".join(f"# {n}\n<!-- results: {n} -->\n<!-- end -->\nafter {n}\n" for n in (*report.SUITES, *report.TABLES))
        filled = report.update_page(page, {"block": SUITE})
        self.assertIn("![block](performance-block.svg)", filled)
        self.assertIn("after conv", filled)
        self.assertEqual(report.update_page(filled, {"block": SUITE}), filled)
        self.assertEqual(report.update_page(filled, {}), page)
        with self.assertRaises(SystemExit):
            report.update_page("no place", {})

    def test_rows_of_pytorch_take_the_place_of_earlier_ones(self):
        torch_rows = load(ROOT / "bench/torch_rows.py")
        old = {"torch": "2.10", "cudnn": "9", "rows": [{"network": "a", "what": "forward", "us": 1, "commit": "0"},
                                                       {"network": "b", "what": "forward", "us": 2, "commit": "0"}]}
        lines = [{"suite": "torch", "what": "machine", "torch": "2.11", "gpu": "a GPU"},
                 {"suite": "torch", "network": "a", "what": "forward", "us": 3},
                 {"suite": "torch", "network": "a", "what": "training step", "us": 4}]
        merged = torch_rows.merged(old, lines, "1234567")
        self.assertEqual((merged["torch"], merged["cudnn"]), ("2.11", "9"))
        self.assertEqual([(r["network"], r["what"], r["us"], r["commit"]) for r in merged["rows"]],
                         [("a", "forward", 3, "1234567"), ("b", "forward", 2, "0"), ("a", "training step", 4, "1234567")])

    def test_training_curves_are_judged_by_the_range_of_other_seeds(self):
        curves = load(ROOT / "bench/training_curves.py")
        self.assertEqual(curves.curve([1, 3, 5, 7, 9], 2), [2, 6])
        peers = [[4.0, 1.0], [5.0, 2.0], [6.0, 1.5]]
        self.assertEqual(curves.judged(peers, [[5.5, 1.2], [4.5, 2.2]]), (True, {"torch": [2, 1, 1], "unisono": [1, 1]}))
        self.assertEqual(curves.judged(peers, [[6.5, 1.5], [6.1, 1.6]])[0], False)
        self.assertEqual([round(curves.learning_rate(step, 40), 5) for step in (1, 2, 21, 40)], [0.002, 0.004, 0.002, 0.0])

    def test_overview(self):
        more = {"peers": {"torch_eager": 300.0}, "name": "other"}
        torch = {"rows": [{"network": "ddpm_256", "what": "forward", "ratio": 1.5}, {"network": "new", "what": "step, batch 8", "ratio": 1.25}]}
        lines = report.overview.table({"block": suite({}, more)}, short=True)
        self.assertIn("| 2 | PyTorch with max-autotune on 1 of 2 (1.50 over those) | 2.12 | 1.50 to 3.00 |", lines[2])
        page = report.overview.fill("a\n<!-- overview -->\nold\n<!-- end -->\nb\n", {"block": SUITE, "torch": torch}, short=False)
        self.assertIn("| 1 | PyTorch with max-autotune | 1.50 | 1.50 |  | 01234567 |", page)
        self.assertIn("runs 1 models at 1.50 times", page.replace("\n", " "))
        self.assertIn("A training step: 1.25 (new, batch 8)", page.replace("\n", " "))
        self.assertNotIn("old", page)
        self.assertEqual(report.overview.fill("no place", {"block": SUITE}, short=True), "no place")

    def test_networks_have_a_table(self):
        case = {"name": "unet", "unisono_us": 100.0, "spread": 0.01, "launches": 25, "floor_us": 50.0, "host_us": 4.0, "arena_bytes": 2e6, "constant_bytes": 1e6,
                "peers": {"eager": 600.0, "compile": 250.0}, "peer_errors": {"max_autotune": "not measured: the limit"}, "peer_peak_bytes": {"eager": 9e6, "compile": 4e6}}
        results = {"gpu": "H200", "driver": "CUDA 13.0", "commit": "0123456789abcdef", "date": "2026-11-21T00:00:00Z", "cases": [case]}
        lines = report.network_table(results)
        self.assertIn("| unet | 100 | 1.0% | 25 | 600 | 250 | 6.00 | 2.50 | 50 | 4.0 | 3\\* | 4 |", lines)
        self.assertIn("\\* Measured before", "\n".join(lines))
        counted = results | {"cases": [case | {"workspace_bytes": 3e6, "input_bytes": 5e6, "output_bytes": 7e6}]}  # 1 MB of weights
        self.assertIn("| 16 | 4 |", "\n".join(report.network_table(counted)))
        self.assertNotIn("Measured before", "\n".join(report.network_table(counted)))
        self.assertIn("max-autotune for unet (not measured: the limit)", lines[-1])
        page = "".join(f"<!-- results: {n} -->\n<!-- end -->\n" for n in (*report.SUITES, *report.TABLES))
        self.assertIn("| unet |", report.update_page(page, {"network": results}))

    def test_attention_has_a_table(self):
        case = {"name": "2,8,64,64,40", "unisono_us": 10.0, "unisono_again_us": 10.1, "launches": 1.0, "tflops": 100.0, "max_error": 2e-3,
                "peers": {"sdpa": 12.0}, "peer_errors": {"cudnn": "too wide"}, "peers_max_error": {"sdpa": 2.1e-3}}
        lines = report.attention_table({"gpu": "H200", "torch": "2.11", "commit": "0123456789abcdef", "cases": [case]})
        self.assertIn("| 2,8,64,64,40 | 10.0 | 10.1 | 1 | 100 | 12.0 | – | 1.20 | – | 2.0e-03 | 2.1e-03 |", lines)
        self.assertIn("cudnn for 2,8,64,64,40 (too wide)", lines[-1])

    def test_files_and_their_check(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "block.json").write_text(json.dumps(SUITE))
            (folder / "performance.md").write_text((ROOT / "docs/performance.md").read_text())
            self.assertFalse(report.write(folder, folder, check=True))
            self.assertTrue(report.write(folder, folder))
            self.assertTrue(report.write(folder, folder, check=True))
            self.assertTrue((folder / "performance-block.svg").exists())

    def test_committed_page_is_what_the_results_say(self):
        self.assertTrue(report.write(ROOT / "bench/results", ROOT / "docs", check=True))


class Peers(unittest.TestCase):
    """What becomes of a contender that did not answer, and of the requests of unisono_gpu_bench."""

    def test_absent_peers_are_named(self):
        ran = suite({"peers": {"torch_compile": 160.0}, "peer_errors": {"torch_max_autotune": "no", "beside": "it ended"}}, {"peers": {}})
        run_gpu.note_missing(ran, ["eager", "compile", "max_autotune"])
        first, second = ran["cases"]
        self.assertEqual(first["peer_errors"], {"torch_max_autotune": "no", "torch_eager": "not measured: it ended"})
        self.assertEqual(set(second["peer_errors"].values()), {"not measured: its program did not come so far"})

    def test_a_program_that_ends_is_started_again(self):
        with tempfile.TemporaryDirectory() as folder:
            beside = run_gpu.TorchBeside(types.SimpleNamespace(peers="eager", limit=1.0), folder)
            beside.command = [sys.executable, "-c", f"open({folder + '/starts'!r}, 'a').write('x')"]
            with beside:
                beside.thread.join(60)  # three times at once, and no more
                self.assertFalse(beside.thread.is_alive())
            self.assertEqual((pathlib.Path(folder) / "starts").read_text(), "xxx")

    def test_requests(self):
        class Torch:
            class cuda:
                empty_cache = staticmethod(lambda: None)
        server = torch_gpu.Server(Torch, ["eager"], 10.0)
        self.assertIn("unknown request", server.answer({"what": 1})["error"])
        self.assertIn("KeyError", server.answer({"time": "torch_eager"})["error"])  # nothing is prepared
        server.contenders["torch_eager"] = types.SimpleNamespace(time=lambda: 2.5)
        self.assertEqual(server.answer({"time": "torch_eager"}), {"us": 2.5})
        self.assertEqual(server.answer({"release": True}), {})
        self.assertEqual(server.contenders, {})
        said = server.answer({"prepare": {"name": "a"}, "suite": "block"})  # not a case
        self.assertEqual((said["contenders"], list(said["errors"])), ([], ["torch_eager"]))

    def test_a_peer_that_has_compiled_for_too_long(self):
        class Torch:
            class cuda:
                empty_cache = staticmethod(lambda: None)
        server = torch_gpu.Server(Torch, ["eager"], 10.0)
        server.seconds["eager"] = 11.0
        make, torch_gpu.make_function, torch_gpu.make_sets = (torch_gpu.make_function, torch_gpu.make_sets), lambda *_: None, lambda *_: [()]
        try:
            said = server.answer({"prepare": {"name": "a"}})
        finally:
            torch_gpu.make_function, torch_gpu.make_sets = make
        self.assertEqual(said, {"contenders": [], "errors": {"torch_eager": "not measured: compiling had taken 11 s, the limit is 10"}})


class Translate(unittest.TestCase):
    def body(self, text, operands=(), product=False):
        """Lines of the function: the contraction, then the statements."""
        case = {"text": text, "operands": [{"name": n, "axes": a} for n, a in dict(operands).items()],
                "conv": {"stride": [1, 1], "pad": [1, 1, 1, 1], "dilation": [1, 1], "k": 8}}
        if product:
            case["product"] = case.pop("conv")
        source = torch_gpu.source_of(case)
        compile(source, "run", "exec")
        lines = [line.strip() for line in source.splitlines()]
        return lines[next(i for i, line in enumerate(lines) if line.startswith("acc =")):]

    CONV = "acc = F.conv2d(x, w, {}, [1, 1], [1, 1], [1, 1], 1)"

    def test_bare(self):
        self.assertEqual(self.body("store acc as y : bf16"), [self.CONV.format("None"), "y = acc", "return (y,)"])

    def test_bias_becomes_the_convolutions_own(self):
        self.assertEqual(self.body("store silu(acc + bias[n]) as y : bf16", {"bias": "[n]"}),
                         [self.CONV.format("bias_vector"), "y = F.silu(acc)", "return (y,)"])

    def test_other_operands_are_added(self):
        text = "operand r[m,n] : bf16\nh = acc + bias[n] + t[b,n]   # both\nstore -silu(h) * 2 + r as y : bf16\nstore h : bf16"
        self.assertEqual(self.body(text, {"bias": "[n]", "t": "[b,n]", "r": "[m,n]"}),
                         [self.CONV.format("bias_vector"), "h = (acc + t)", "y = (((-F.silu(h)) * 2) + r)", "h = h", "return (y, h,)"])

    def test_normalisations(self):
        text = "store mish(group_norm(acc, groups=4, scale=gamma[n], shift=beta[n], eps=1e-6)) as y"
        self.assertEqual(self.body(text, {"gamma": "[n]", "beta": "[n]"})[1], "y = F.mish(F.group_norm(acc, 4, gamma_vector, beta_vector, 1e-06))")
        self.assertEqual(self.body("store instance_norm(acc) as y")[1], "y = F.group_norm(acc, channels, None, None, 1e-5)")

    def test_normalisations_of_rows(self):
        text = "store layer_norm(acc + bias[n], scale=gamma[n]) + rms_norm(acc, eps=1e-6) + softmax(acc, over=n) as y"
        self.assertEqual(self.body(text, {"bias": "[n]", "gamma": "[n]"}, product=True),
                         ["acc = F.linear(x, w, bias_vector)",
                          "y = ((F.layer_norm(acc, (acc.shape[-1],), gamma_vector, None, 1e-5) + F.rms_norm(acc, (acc.shape[-1],), None, 1e-06))"
                          " + torch.softmax(acc, channel_axis))", "return (y,)"])
        self.assertIn("F.batch_norm(acc, None, None, None, None, True, 0.1, 1e-5)", self.body("store batch_norm(acc) as y")[1])
        with self.assertRaises(NotImplementedError):
            self.body("store layer_norm(acc) as y")

    def test_what_cannot_be_translated_is_said(self):
        for text in ("store frob(acc) as y", "store leaky_relu(acc, slope=0.1) as y", "store acc < 1 as y",
                     "store group_norm(acc, groups=4, scale=1 + s[b,n]) as y"):
            with self.assertRaises(NotImplementedError, msg=text):
                self.body(text, {"s": "[b,n]"})

    def test_committed_cases(self):
        for name in sorted(set(report.SUITES) - {"backward"}):  # its peer is cuDNN, which takes no text
            lines = (ROOT / f"bench/cases/{name}.txt").read_text().splitlines()
            starts = [i for i, line in enumerate(lines) if line.startswith("epilogue")]
            for i in starts:
                text = "\n".join(line.strip() for line in lines[i + 1:lines.index("", i)]).replace("{dtype}", "bf16")
                operands = {"bias": "[n]", "gamma": "[n]", "beta": "[n]", "temb": "[b,n]", "residual": "[m,n]", "target": "[m,n]"}
                stores = re.findall(r"^store (?:.* as )?(\w+) :", text, re.M)
                self.assertEqual(self.body(text, operands, name in ("breadth", "rows", "drawn_products"))[-1], f"return ({', '.join(stores)},)")


unittest.main()
