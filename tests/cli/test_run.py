"""unisono run."""

import json
import os
import resource
import signal
import struct
import subprocess
import zlib

import onnx_file
from command import COMMAND, FAILED, MODEL, SCENE, WRONG, Case, main, read_npy, write_npy

IMAGE = "image"


def png(width, height, colour):
    """A PNG of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(colour) * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Run(Case):
    def run_model(self, *arguments, **options):
        return self.unisono("run", MODEL, "--repeat", "1", *arguments, **options)

    def test_image_gives_heatmaps_a_figure_and_detections(self):
        out, error = self.run_model("--image", SCENE, "--out", "out", "--check")
        # on a busy machine there is progress to report, and nothing else
        self.assertTrue(all(line.endswith(" so far") for line in error.splitlines()), error)
        for words in ("agree with the float64 reference", "detections", "5  ", "out/heatmaps.npy", "out/figure.png", "group_norm + mish"):
            self.assertIn(words, out)
        shape, values = read_npy(self.folder / "out" / "heatmaps.npy")
        self.assertEqual(shape, (1, 10, 192, 192))
        self.assertTrue(all(0 <= v <= 1 for v in values))
        self.assertEqual((self.folder / "out" / "figure.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_json(self):
        shown = self.json("run", MODEL, "--repeat", "2", "--image", SCENE, "--check", "--profile")
        self.assertEqual(shown["inputs"], {IMAGE: {"shape": [1, 3, 192, 192], "dtype": "float32"}})
        self.assertEqual(shown["outputs"], {"heatmaps": {"shape": [1, 10, 192, 192], "dtype": "float32"}})
        self.assertEqual(shown["time"]["runs"], 2)
        times = [shown["time"][name] for name in ("fastest_ms", "median_ms", "p90_ms", "p99_ms")]
        self.assertEqual(times, sorted(times))
        self.assertAlmostEqual(times[1], (times[0] + times[3]) / 2)  # of two runs
        self.assertTrue(shown["check"][0]["ok"])
        self.assertLessEqual(shown["check"][0]["largest_error"], shown["check"][0]["tolerance"])
        self.assertLess(shown["check"][0]["tolerance"], 0.01)
        self.assertGreater(len(shown["profile"]), shown["kernels"] - 1)
        self.assertGreater(shown["memory"]["peak_process_bytes"], 0)
        peaks = shown["detections"][0]["peaks"]
        self.assertEqual(sorted(p["name"] for p in peaks), ["1", "4", "5", "5", "9"])
        self.assertTrue(all(p["score"] >= 0.56 for p in peaks))

    def test_the_profile_adds_up(self):
        shown = self.json("run", MODEL, "--repeat", "10", "--dim", "batch=2", "--random", "--profile")
        steps, totals, time = shown["profile"], shown["profile_totals"], shown["time"]
        for step in steps:
            times = [step[name] for name in ("fastest_ms", "ms", "p90_ms", "p99_ms")]
            self.assertEqual(times, sorted(times))
        self.assertAlmostEqual(time["per_second"], 2000 / time["median_ms"], places=6)  # a batch of two
        self.assertAlmostEqual(totals["steps_ms"], sum(s["ms"] for s in steps), places=9)
        self.assertAlmostEqual(totals["between_ms"], time["median_ms"] - totals["steps_ms"], places=9)
        for kind in totals["kinds"]:
            mine = [s for s in steps if s["kind"] == kind["kind"]]
            self.assertEqual((kind["steps"], kind["flop"]), (len(mine), sum(s["flop"] for s in mine)))
            self.assertAlmostEqual(kind["ms"], sum(s["ms"] for s in mine), places=9)
        self.assertEqual(sum(k["steps"] for k in totals["kinds"]), len(steps))
        self.assertEqual(steps[0]["flop"], 2 * 2 * 192 * 192 * 16 * 3 * 9)  # conv2d (2,3,192,192) -> 16, 3x3
        out, _ = self.unisono("run", MODEL, "--repeat", "10", "--random", "--dim", "batch=2", "--profile", "--sort", "time")
        self.assertRegex(out, r"ms a run \(median of 10; fastest [^)]*p90 [\d.]+\), the first [\d.]+ ms; [\d.]+ images/s")
        self.assertRegex(out, r"kernel +ms +share +fastest +p90 +GFLOP/s +step")
        self.assertRegex(out, r"by kind\n +steps +ms")
        self.assertRegex(out, r"ms in steps, [\d.]+ ms the median run: [\d.]+ ms (between|less)")
        table = out[out.index("GFLOP/s  step"):out.index("by kind")].splitlines()[1:]
        listed = [float(line.split()[1]) for line in table]
        self.assertEqual((listed, len(listed)), (sorted(listed, reverse=True), len(steps)))
        self.refused("run", MODEL, "--random", "--sort", "time", says="--profile", code=WRONG)
        self.refused("run", MODEL, "--random", "--profile", "--sort", "size", says="--sort", code=WRONG)

    def test_an_interrupt_ends_the_run_and_writes_nothing(self):
        for kind in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([COMMAND, "run", str(MODEL), "--random", "--repeat", "1000000", "--out", "out"], cwd=self.folder,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for line in process.stderr:  # it runs for a second
                if "running" in line:
                    break
            process.send_signal(kind)
            _, error = process.communicate(timeout=60)
            self.assertEqual((process.returncode, error.splitlines()[-1]), (130, "unisono: interrupted; nothing was written"))
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_trace_and_picture_of_the_times(self):
        shown = self.json("run", MODEL, "--repeat", "1", "--image", SCENE, "--trace", "trace.json", "--svg", "times.svg")
        self.assertLessEqual({"trace.json", "times.svg"}, set(shown["files"]))
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        steps = [e for e in events if e["ph"] == "X"]
        self.assertGreater(len(steps), 18)
        for before, after in zip(steps, steps[1:]):
            self.assertAlmostEqual(before["ts"] + before["dur"], after["ts"], places=3)
        self.assertTrue(all(e["dur"] >= 0 and e["args"]["what"] for e in steps))
        kernels = {r["name"]: r["kernel"] for r in self.json("explain", MODEL)["regions"]}
        profile = self.json("run", MODEL, "--repeat", "1", "--image", SCENE, "--profile")["profile"]
        self.assertEqual([s["kernel"] for s in profile], [kernels.get(s["name"]) for s in profile])
        self.assertEqual([e["name"] for e in steps], [(f"{s['kernel']}. " if s["kernel"] else "") + s["name"] for s in profile])
        text = self.assert_svg(self.folder / "times.svg")
        self.assertIn("% of all", text)
        self.assertIn("us one by one", text)
        self.refused("run", MODEL, "--random", "--dim", "batch=1", "--trace", "no/such/folder/t.json", says="no/such/folder/t.json")

    def test_batch_and_one_by_one_are_the_same(self):
        scenes = [MODEL / "heldout" / f"scene_{i:02d}.png" for i in range(3)]
        self.run_model("--image", *scenes, "--out", "single.npy")
        self.run_model("--image", *scenes, "--batch", "--out", "batch.npy")
        shape, single = read_npy(self.folder / "single.npy")
        self.assertEqual(shape, (3, 10, 192, 192))
        batch = read_npy(self.folder / "batch.npy")[1]
        self.assertLess(max(abs(a - b) for a, b in zip(single, batch)), 1e-4)

    def test_runs_repeat_bit_by_bit(self):
        for name in ("a.npy", "b.npy"):
            self.run_model("--random", "--seed", "3", "--threads", "2", "--out", name)
        self.run_model("--random", "--seed", "4", "--threads", "2", "--out", "c.npy")
        self.assertEqual((self.folder / "a.npy").read_bytes(), (self.folder / "b.npy").read_bytes())
        self.assertNotEqual((self.folder / "a.npy").read_bytes(), (self.folder / "c.npy").read_bytes())

    def test_arrays(self):
        write_npy(self.folder / "x.npy", (2, 3, 192, 192), [0.25] * (2 * 3 * 192 * 192))
        out, _ = self.run_model("--input", f"{IMAGE}=x.npy", "--out", "out")
        self.assertIn("(2,10,192,192)", out)
        self.assertFalse((self.folder / "out" / "figure.png").exists())
        write_npy(self.folder / "small.npy", (1, 3, 100, 192), [0.0] * (3 * 100 * 192))
        self.refused("run", MODEL, "--input", f"{IMAGE}=small.npy", says="192")
        self.refused("run", MODEL, "--input", "picture=x.npy", says="image")
        (self.folder / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
        self.refused("run", MODEL, "--input", f"{IMAGE}=bad.npy", says="bad.npy")

    def test_dims(self):
        self.assertIn("(3,10,192,192)", self.run_model("--random", "--dim", "batch=3", "--out", "out")[0])
        self.refused("run", MODEL, "--random", "--dim", "time=3", says=("time", "batch"))
        self.refused("run", MODEL, "--random", "--dim", "batch=9000000000000000000", says="limit")

    def test_image_of_another_size_is_scaled_and_said_so(self):
        (self.folder / "blue.png").write_bytes(png(60, 30, (20, 40, 200)))
        out, error = self.run_model("--image", "blue.png", "--out", "out")
        self.assertIn("blue.png' is scaled from 60 x 30 to 192 x 192", error)
        self.assertIn("blue.png: none", out)

    def test_damaged_and_missing_images(self):
        data = SCENE.read_bytes()
        (self.folder / "cut.png").write_bytes(data[:len(data) // 2])
        self.refused("run", MODEL, "--image", "cut.png", says="cut.png")
        (self.folder / "text.png").write_text("no image")
        self.refused("run", MODEL, "--image", "text.png", says=("text.png", "PNG"))
        self.refused("run", MODEL, "--image", "absent.png", says=("absent.png", "No such file"))
        self.refused("run", MODEL, "--image", self.folder, says="directory")
        (self.folder / "huge.png").write_bytes(png(1, 1, (0, 0, 0)).replace(struct.pack(">II", 1, 1), struct.pack(">II", 1 << 20, 1 << 20)))
        self.refused("run", MODEL, "--image", "huge.png", says="huge.png")

    def test_pipes_and_devices_are_refused_at_once(self):
        os.mkfifo(self.folder / "fifo.onnx")
        os.mkfifo(self.folder / "fifo.npy")
        os.mkfifo(self.folder / "model.json")
        self.refused("run", "fifo.onnx", "--random", says=("model.json", "is a FIFO"))
        (self.folder / "model.json").unlink()
        self.refused("run", "fifo.onnx", "--random", says=("fifo.onnx", "is a FIFO", "write what comes out"))
        self.refused("run", MODEL, "--image", "fifo.npy", says=("fifo.npy", "is a FIFO"))
        self.refused("run", MODEL, "--input", "fifo.npy", says=("fifo.npy", "is a FIFO"))
        self.refused("run", MODEL, "--image", "/dev/zero", says="character device")

    def test_a_result_takes_the_place_of_an_earlier_one(self):
        (self.folder / "kept.npy").write_bytes(b"earlier" * 10000)
        (self.folder / "link.npy").symlink_to("kept.npy")
        (self.folder / "kept.npy").chmod(0o640)
        self.unisono("run", MODEL, "--random", "--repeat", "0", "--out", "link.npy")
        self.assertTrue((self.folder / "link.npy").is_symlink())
        self.assertEqual((self.folder / "kept.npy").stat().st_mode & 0o777, 0o640)
        read_npy(self.folder / "kept.npy")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["kept.npy", "link.npy"])
        # what a terminal or a pipe is cannot be replaced
        out, _ = self.unisono("run", MODEL, "--random", "--repeat", "1", "--profile", "--svg", "/dev/stdout", "--out", "link.npy")
        self.assertIn("</svg>", out)

    def test_outputs_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        self.refused("run", MODEL, "--random", "--repeat", "0", "--out", "file/below", says="file/below")
        self.refused("run", MODEL, "--random", "--repeat", "0", "--out", "absent/a.npy", says="absent/a.npy")
        self.refused("run", MODEL, "--random", "--repeat", "0", "--out", "a.png", says="--image")
        self.refused("run", MODEL, "--random", "--batch", says="--batch")

    def small_model(self, name="m.onnx", op="Relu", shape=(2, 4)):
        f = onnx_file
        (self.folder / name).write_bytes(f.model([f.node(op, ["x"], ["y"])], [f.value_info("x", f.FLOAT, shape)],
                                                 [f.value_info("y", f.FLOAT, [])]))

    def test_nothing_compared_is_no_agreement(self):
        f = onnx_file  # the largest of four quotients that are all 1
        (self.folder / "m.onnx").write_bytes(f.model(
            [f.node("Div", ["x", "x"], ["q"]), f.node("ArgMax", ["q"], ["y"], axis=1)],
            [f.value_info("x", f.FLOAT, [2, 4])], [f.value_info("y", f.INT64, [2, 1])]))
        out, _ = self.unisono("run", "m.onnx", "--random", "--check", code=FAILED)
        self.assertIn("y: NOTHING WAS COMPARED: all 2 values depend on rounding", out)
        self.assertFalse(json.loads(self.unisono("run", "m.onnx", "--random", "--check", "--json", code=FAILED)[0])["check"][0]["ok"])

    def test_other_peoples_model_json(self):
        self.small_model()
        for text in ('{"model_type": "bert"}', "[1, 2]", "no JSON", '{"file": 3}', '{"file": "other.onnx"}', " " * (2 << 20)):
            (self.folder / "model.json").write_text(text)
            self.unisono("run", "m.onnx", "--random")
        (self.folder / "model.json").write_text('{"file": "m.onnx"}')  # of this model, and not complete
        self.refused("run", "m.onnx", "--random", says=("model.json", "not a valid description"))

    def test_memory_limit(self):
        f = onnx_file
        (self.folder / "m.onnx").write_bytes(f.model(
            [f.node("Add", ["x", "c"], ["y"])], [f.value_info("x", f.FLOAT, [1 << 19])], [f.value_info("y", f.FLOAT, [])],
            constants=[f.constant("c", f.FLOAT, [1 << 19], bytes(4 << 19))]))
        for command in (("run", "m.onnx", "--random"), ("explain", "m.onnx")):
            self.unisono(*command, "--memory-limit", "2M")
            self.refused(*command, "--memory-limit", "1M", says=("tensor 'c': ", "limit of 262144"))
            self.refused(*command, "--memory-limit", "much", says="--memory-limit")

    def test_outputs_beyond_the_memory(self):
        f = onnx_file
        shape = struct.pack("<2q", 1 << 31, 4)
        (self.folder / "m.onnx").write_bytes(f.model(
            [f.node("Expand", ["x", "s"], ["y"])], [f.value_info("x", f.FLOAT, [1])], [f.value_info("y", f.FLOAT, [])],
            constants=[f.constant("s", f.INT64, [2], shape)]))
        limited = lambda: resource.setrlimit(resource.RLIMIT_AS, (6 << 30, resource.RLIM_INFINITY))
        self.refused("run", "m.onnx", "--random", preexec_fn=limited,
                     says=("a run takes 343597", "this process may use 6442450944 (outputs 34359738368, "))

    def test_limit_of_threads(self):
        self.small_model(op="Exp", shape=(512, 512))
        self.refused("run", "m.onnx", "--random", "--threads", "4096", says="--threads: expected an integer from 0 to 256; found 4096")
        self.assertIn("(0 to 256; default 0)", " ".join(self.unisono("run", "--help")[0].split()))
        # a stack larger than the address space: no thread can be started, and the first one does all the work
        limited = lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.RLIM_INFINITY))
        self.unisono("run", "m.onnx", "--random", "--threads", "8", preexec_fn=limited)

    def test_messages_are_safe_for_terminals(self):
        self.small_model()
        header = "{'descr': '\x1b]0;title\x07\x1b[31m<f4', 'fortran_order': False, 'shape': (2, 4), }\n".encode()
        (self.folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(32))
        error = self.refused("run", "m.onnx", "--input", "x=x.npy", says="\\x1b]0;title\\x07\\x1b[31m<f4")
        self.assertFalse([c for c in error if ord(c) < 32 and c != "\n"])

    def test_missing_models(self):
        self.refused("run", "absent.onnx", "--random", says="absent.onnx")
        self.refused("run", self.folder, "--random", says="model.json")
        (self.folder / "model.json").write_text('{"file": "absent.onnx"}')
        self.refused("run", self.folder, "--random", says="absent.onnx")


if __name__ == "__main__":
    main()
