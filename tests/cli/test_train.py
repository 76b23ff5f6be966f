"""unisono train: a tiny network to a bound, resumed bit for bit, interrupted and killed."""

import json
import random
import resource
import signal
import struct
import subprocess
import time
import unittest

import browser
import onnx_file as f
from command import COMMAND, OK, WRONG, Case, main, npy
from test_run_arrays import npz

SIZE, BATCH = 16, 4


def floats(random_, count, scale):
    return struct.pack(f"<{count}f", *(random_.gauss(0, scale) for _ in range(count)))


def tiny_unet():
    """Convolutions, a max pool, an upsampling and a skip: image (batch,1,16,16) to logits (batch,1,16,16)."""
    r = random.Random(1)
    filters = {"top": (6, 1, 3), "low": (8, 6, 3), "up": (6, 14, 3), "head": (1, 6, 1)}
    constants = []
    for name, (out, into, taps) in filters.items():
        constants.append(f.constant(f"{name}.weight", f.FLOAT, [out, into, taps, taps], floats(r, out * into * taps * taps, (into * taps * taps) ** -0.5)))
        constants.append(f.constant(f"{name}.bias", f.FLOAT, [out], bytes(4 * out)))
    constants.append(f.constant("scales", f.FLOAT, [4], struct.pack("<4f", 1, 1, 2, 2)))

    def conv(x, name, y):
        return f.node("Conv", [x, f"{name}.weight", f"{name}.bias"], [y], pads=[1, 1, 1, 1] if name != "head" else [0, 0, 0, 0])

    nodes = [conv("image", "top", "t0"), f.node("Relu", ["t0"], ["t"]), f.node("MaxPool", ["t"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             conv("p", "low", "l0"), f.node("Relu", ["l0"], ["l"]), f.node("Resize", ["l", "", "scales"], ["r"], mode="nearest"),
             f.node("Concat", ["r", "t"], ["c"], axis=1), conv("c", "up", "u0"), f.node("Relu", ["u0"], ["u"]), conv("u", "head", "logits")]
    return f.model(nodes, [f.value_info("image", f.FLOAT, ["batch", 1, SIZE, SIZE])], [f.value_info("logits", f.FLOAT, ["batch", 1, SIZE, SIZE])],
                   constants=constants)


def squares(seed, count):
    """Bright squares in noise, and where they are."""
    r = random.Random(seed)
    images, targets = [], []
    for _ in range(count):
        left, top, side = r.randrange(SIZE - 6), r.randrange(SIZE - 6), r.randrange(3, 7)
        for y in range(SIZE):
            for x in range(SIZE):
                inside = left <= x < left + side and top <= y < top + side
                images.append(min(255, max(0, int(r.gauss(170 if inside else 80, 30)))))
                targets.append(inside)
    shape = (count, 1, SIZE, SIZE)
    return [("images.npy", npy(shape, images, "|u1")), ("masks.npy", npy(shape, targets, "|u1"))]


def lines(folder):
    """The log without what depends on the clock."""
    all_lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    for line in all_lines:
        line.pop("images_per_second", None)
    return all_lines


class TrainCase(Case):
    """A tiny U-Net, shards, and configurations."""

    def setUp(self):
        super().setUp()
        (self.folder / "tiny.onnx").write_bytes(tiny_unet())
        (self.folder / "shards").mkdir()
        npz(self.folder / "shards" / "a.npz", squares(1, 40))
        npz(self.folder / "shards" / "b.npz", squares(2, 24))
        npz(self.folder / "held.npz", squares(3, 8))

    def config(self, name="c.json", **changed):
        config = {"model": "tiny.onnx", "folder": "out", "batch": BATCH, "steps": 40, "seed": 3,
                  "data": {"training": "shards", "validation": "held.npz",
                           "inputs": {"image": {"array": "images", "scale": 1 / 255}, "target": {"array": "masks"}}},
                  "loss": {"kind": "binary_cross_entropy"},
                  "optimiser": {"kind": "adamw", "weight_decay": 0.01, "clip_norm": 1, "average": 0.5, "groups": [{"names": "*.bias", "weight_decay": 0}]},
                  "learning_rate": {"rate": 0.02, "schedule": "cosine", "warm_up": 5},
                  "report_every": 10, "validate_every": 20, "checkpoint_every": 15, "threads": 2, **changed}
        (self.folder / name).write_text(json.dumps(config))
        return name

    def names(self, folder):
        return sorted(p.name for p in (self.folder / folder).iterdir())

    def start(self, config, *arguments, **options):
        return subprocess.Popen([COMMAND, "train", config, *arguments], cwd=self.folder, **options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for(self, path, process):
        end = time.monotonic() + 60
        while not (self.folder / path).exists():
            self.assertIsNone(process.poll(), path)
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)


class Train(TrainCase):
    def test_a_tiny_unet_learns(self):
        out, _ = self.unisono("train", self.config(steps=300, validate_every=100))
        self.assertIn("step 300 of 300: loss", out)
        self.assertIn("images/s", out)
        self.assertEqual(self.names("out"), [".lock", "checkpoint.safetensors", "curves.png", "log.jsonl", "model.onnx"])
        log = lines(self.folder / "out")
        first, last = log[0], [line for line in log if "validation_loss" in line][-1]
        self.assertGreater(first["loss"], 0.3)
        self.assertLess(last["validation_loss"], 0.09)  # 0.28 where all pixels are given the mean
        self.assertTrue((self.folder / "out" / "curves.png").read_bytes().startswith(b"\x89PNG"))
        # the trained model runs, and finds the squares of held.npz
        (self.folder / "x.npy").write_bytes(npy((1, 1, SIZE, SIZE), [80 / 255] * SIZE * SIZE))
        self.assertIn("agree", self.unisono("run", "out/model.onnx", "--input", "x.npy", "--check", "--repeat", "0", "--out", "y.npy")[0])

    def test_the_same_twice_and_resumed(self):
        self.unisono("train", self.config())
        self.unisono("train", self.config("again.json", folder="again"))
        whole = (self.folder / "out" / "checkpoint.safetensors").read_bytes()
        self.assertEqual(whole, (self.folder / "again" / "checkpoint.safetensors").read_bytes())
        self.assertEqual(lines(self.folder / "out"), lines(self.folder / "again"))
        # interrupted once, and then again in the middle of the rest
        process = self.start(self.config("parts.json", folder="parts", checkpoint_every=1))
        self.wait_for("parts/checkpoint.safetensors", process)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, error)
        self.assertRegex(error, r"interrupted after step \d+ of 40; go on with: unisono train parts.json --resume")
        self.refused("train", "parts.json", says=("has a checkpoint", "--resume"))
        self.unisono("train", "parts.json", "--resume")
        self.assertEqual(whole, (self.folder / "parts" / "checkpoint.safetensors").read_bytes())
        self.assertEqual(lines(self.folder / "out"), lines(self.folder / "parts"))
        model = (self.folder / "out" / "model.onnx").read_bytes()
        self.assertEqual(model, (self.folder / "parts" / "model.onnx").read_bytes())

    def test_loss_scaling_skips_and_resumes(self):
        scaled = {"loss_scaling": {"initial": 1e30, "growth": 1e4, "backoff": 1e-4, "interval": 4}, "precision": "f16", "report_every": 3, "learning_rate": {"rate": 1e-5},
                  "data": {"training": "shards", "inputs": {"image": {"array": "images", "scale": 1e6}, "target": {"array": "masks"}}}}
        out, err = self.unisono("train", self.config(**scaled))
        self.assertRegex(err, "note: c.json: precision .* device \"cpu\", .* f32")
        self.assertRegex(out, r"step 39 of 40: loss [^,]+, scale 1e\+\d+, \d+ skipped")
        log = lines(self.folder / "out")
        self.assertGreater(log[-1]["skipped"], 1)
        self.assertGreater(len({line["loss_scale"] for line in log}), 1)
        process = self.start(self.config("parts.json", folder="parts", checkpoint_every=1, **scaled))
        self.wait_for("parts/checkpoint.safetensors", process)
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate(timeout=60), process.returncode)[1], 130)
        self.unisono("train", "parts.json", "--resume")
        self.assertEqual(log, lines(self.folder / "parts"))
        self.assertEqual(*[(self.folder / folder / "checkpoint.safetensors").read_bytes() for folder in ("out", "parts")])

    def test_killed_during_checkpoints(self):
        self.unisono("train", self.config())
        whole = (self.folder / "out" / "checkpoint.safetensors").read_bytes()
        config, arguments, kills = self.config("k.json", folder="k", checkpoint_every=1), [], 0
        r = random.Random(5)
        while True:
            process = self.start(config, *arguments)
            try:
                process.communicate(timeout=0.05 + r.random() * 0.3 * (1 + kills / 10))
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
            arguments = ["--resume"] if (self.folder / "k" / "checkpoint.safetensors").exists() else []
            self.assertLess(kills, 200)
        self.assertEqual(process.returncode, OK)
        self.assertEqual(whole, (self.folder / "k" / "checkpoint.safetensors").read_bytes())
        self.assertEqual(lines(self.folder / "out"), lines(self.folder / "k"))
        self.assertEqual(self.names("k"), [".lock", "checkpoint.safetensors", "curves.png", "log.jsonl", "model.onnx"])

    def test_one_process_a_folder(self):
        process = self.start(self.config(steps=100000, checkpoint_every=1))
        self.wait_for("out/checkpoint.safetensors", process)
        self.refused("train", "c.json", "--resume", says="another process is training")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    def test_a_full_disk(self):
        config = self.config(steps=20, checkpoint_every=10)
        self.unisono("train", config)
        size = (self.folder / "out" / "checkpoint.safetensors").stat().st_size
        before = (self.folder / "out" / "checkpoint.safetensors").read_bytes()
        self.config("full.json", steps=20, checkpoint_every=10)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

        self.refused("train", "full.json", "--resume", says="File too large", preexec_fn=limit)
        self.assertEqual(before, (self.folder / "out" / "checkpoint.safetensors").read_bytes())
        self.assertEqual([n for n in self.names("out") if n.startswith(".checkpoint")], [])

    def test_initializers_of_exporters(self):
        """Equal ones are one, with Identity nodes; scales of group norms have lost axes of extent 1."""
        one = f.constant("a.weight", f.FLOAT, [2], struct.pack("<2f", 1, 1))
        more = [f.constant("ones", f.FLOAT, [2], struct.pack("<2f", 1, 1)), f.constant("zeros", f.FLOAT, [2], bytes(8)),
                f.constant("shape", f.INT64, [3], struct.pack("<3q", 0, 2, -1)), f.constant("back", f.INT64, [4], struct.pack("<4q", 0, 2, 16, 16)),
                f.constant("axes", f.INT64, [2], struct.pack("<2q", 1, 2))]
        nodes = [f.node("Identity", ["a.weight"], ["b.weight"]), f.node("Concat", ["image", "image"], ["x"], axis=1)]
        for name, x in (("a", "x"), ("b", "a")):
            nodes += [f.node("Reshape", [x, "shape"], [f"{name}0"]), f.node("InstanceNormalization", [f"{name}0", "ones", "zeros"], [f"{name}1"]),
                      f.node("Reshape", [f"{name}1", "back"], [f"{name}2"]), f.node("Unsqueeze", [f"{name}.weight", "axes"], [f"{name}3"]),
                      f.node("Mul", [f"{name}2", f"{name}3"], [name])]
        nodes.append(f.node("ReduceMean", ["b"], ["y"], axes=[1]))
        (self.folder / "tiny.onnx").write_bytes(f.model(nodes, [f.value_info("image", f.FLOAT, ["batch", 1, SIZE, SIZE])],
                                                        [f.value_info("y", f.FLOAT, ["batch", 1, SIZE, SIZE])], opset=17, constants=[one, *more]))
        config = self.config(steps=8, optimiser={"kind": "sgd"}, data={"training": "shards", "inputs": {"image": {"array": "images"}, "target": {"array": "masks"}}})
        self.unisono("train", config)
        model = (self.folder / "out" / "model.onnx").read_bytes()
        self.assertIn(b"b.weight", model)
        self.assertNotIn(b"Identity", model)
        self.assertNotIn(one, model)  # it was learnt

    def test_a_page_shows_a_step_and_the_losses(self):
        self.unisono("train", self.config(folder="plain"))
        self.unisono("train", self.config(steps=20, folder="out"), "--html", "page.html")
        first = browser.data_of((self.folder / "page.html").read_text())
        self.assertEqual((first["training"]["steps"], first["training"]["of"]), (20, 20))
        self.unisono("train", self.config(folder="shown"), "--html", "page.html")
        same = ("checkpoint.safetensors", "model.onnx")  # the page's step moves nothing
        self.assertEqual(*[[(self.folder / folder / name).read_bytes() for name in same] for folder in ("plain", "shown")])
        data = browser.data_of((self.folder / "page.html").read_text())
        log = [json.loads(line) for line in (self.folder / "shown" / "log.jsonl").read_text().splitlines()]
        self.assertEqual(data["training"]["lines"], log)
        self.assertTrue(data["measured"] and data["complete"])
        self.assertTrue(all(l["measured_us"] > 0 for l in data["launches"]))
        self.assertEqual(sum("filter_gradient" in l["what"] for l in data["launches"]), 4)
        self.assertEqual(set(data["shapes"]), {"image", "target"})
        self.unisono("train", self.config(folder="shown"), "--resume", "--html", "again.html")  # nothing is left to do
        self.assertEqual(browser.data_of((self.folder / "again.html").read_text())["training"]["lines"], log)
        self.refused("train", self.config(folder="nowhere"), "--html", "none/page.html", says="none/page.html")

    @unittest.skipIf(browser.program() is None, "no Chromium")
    def test_a_reader_of_the_page_finds_the_losses(self):
        self.unisono("train", self.config(), "--html", "page.html")
        page = browser.Page(self.folder / "page.html")
        self.addCleanup(page.close)
        self.assertEqual((page.faults, len(page.requests)), ([], 1))
        page.click("#tab-training")
        log = lines(self.folder / "out")
        self.assertEqual(page.evaluate("document.querySelectorAll('#steps tbody tr').length"), len(log))
        for key, name in (("loss", "loss"), ("validation_loss", "validation_loss")):
            points = page.evaluate(f"document.querySelector('.curve.{name}').getAttribute('d').split(/[ML]/).length - 1")
            self.assertEqual(points, sum(key in line for line in log))
        page.click("#steps th[data-column='loss'] button")  # the largest first
        self.assertEqual(page.texts("#steps tbody tr td:first-child")[0], str(max((l for l in log if "loss" in l), key=lambda l: l["loss"])["step"]))

    def test_a_move_without_inputs_is_an_error(self):
        nodes = [f.node("Transpose", [], ["w"]), f.node("MatMul", ["image", "w"], ["y"])]
        (self.folder / "tiny.onnx").write_bytes(f.model(nodes, [f.value_info("image", f.FLOAT, ["batch", 2])], [f.value_info("y", f.FLOAT, ["batch", 2])]))
        self.refused("train", self.config(), says="has 0 inputs; expected 1 (data)", code=WRONG)

    def test_errors_name_file_and_key(self):
        self.refused("train", "none.json", says="none.json")
        self.refused("train", self.config(bach=4), says=("c.json: bach is not known", "batch"))
        self.refused("train", self.config(batch="4"), says="c.json: batch is \"4\"; expected an integer")
        self.refused("train", self.config(batch=9), says="batch is 9; there are 8 examples for validation")
        self.refused("train", self.config(loss={"kind": "binary_cross_entropy", "prediction": "logit"}), says="a tensor 'logit'")
        self.refused("train", self.config(data={"training": "shards"}), says="has no array 'image' for input 'image'")
        self.refused("train", self.config(extents={"batch": 8}), says="extents.batch is 8; 'batch' is the batch, 4")
        self.refused("train", self.config(loss={"kind": "mean_squared_error", "prediction": "top.bias"}), says="'target' has shape (6)")
        self.refused("train", self.config(precision="f32"), says=("precision is \"f32\"", "f16"))
        self.refused("train", self.config(loss_scaling={"scale": 2}), says="c.json: loss_scaling.scale is not known")
        self.refused("train", self.config(loss_scaling={"growth": 1}), says="growth is 1; expected a number above 1")
        self.refused("train", self.config(), "--resume", says="has no checkpoint")
        self.unisono("train", self.config(steps=8))
        self.refused("train", self.config(steps=8, seed=9), "--resume", says="another training: config differs")
        (self.folder / "out" / "checkpoint.safetensors").write_bytes(b"no checkpoint")
        self.refused("train", self.config(steps=8), "--resume", says="checkpoint.safetensors")


if __name__ == "__main__":
    main()
