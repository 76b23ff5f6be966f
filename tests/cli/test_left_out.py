"""unisono explain of models with operators that are not supported: the rest is explained, and they are named."""

import random
import struct
import unittest

import browser
import onnx_file as f
from command import WRONG, Case, main

CHANNELS = 8
KNOWN = [1, CHANNELS, 6, 5]


def weights(name):
    count = CHANNELS * CHANNELS * 9
    return f.constant(name, f.FLOAT, [CHANNELS, CHANNELS, 3, 3], struct.pack(f"<{count}f", *[0.01 * (i % 7 - 3) for i in range(count)]))


class Chain:
    """Convolutions and activations one after the other, with operators of others among them."""

    def __init__(self):
        self.nodes, self.constants, self.infos, self.last, self.convolutions = [], [], [], "x", 0

    def add(self, op_type, name, inputs=(), **attributes):
        self.nodes.append(f.node(op_type, [self.last, *inputs], [name], **attributes))
        self.last = name
        return self

    def conv(self):
        name = f"c{self.convolutions}"
        self.constants.append(weights(f"w{self.convolutions}"))
        self.convolutions += 1
        return self.add("Conv", name, [f"w{self.convolutions - 1}"], pads=[1, 1, 1, 1])

    def known(self):
        """The file has the shape of the last result."""
        self.infos.append(f.value_info(self.last, f.FLOAT, KNOWN))
        return self

    def file(self, outputs=()):
        values = [f.value_info(name, f.FLOAT, KNOWN) for name in (*outputs, self.last)]
        return f.model(self.nodes, [f.value_info("x", f.FLOAT, KNOWN)], values, constants=self.constants, infos=self.infos)


class LeftOut(Case):
    def explain(self, data, *arguments):
        (self.folder / "m.onnx").write_bytes(data)
        return self.json("explain", "m.onnx", *arguments)

    def named(self, shown):
        return [(l["operator"], l["name"]) for l in shown["left_out"]]

    def contractions(self, shown):
        return [r["name"] for r in shown["regions"] if r["kind"] == "contraction"]

    def test_nothing_is_left_out_of_a_supported_model(self):
        self.assertEqual(self.explain(Chain().conv().add("Relu", "r").file())["left_out"], [])

    def test_at_the_end(self):
        data = Chain().conv().add("Relu", "r").add("Foo", "y").file()
        for device in ("cpu", "cuda"):
            shown = self.explain(data, "--device", device)
            self.assertEqual(self.named(shown), [("Foo", "y")])
            self.assertIn("not supported", shown["left_out"][0]["reason"])
            self.assertEqual(self.contractions(shown), ["r"])
            out, _ = self.unisono("explain", "m.onnx", "--device", device)
            self.assertIn("left out: 1 operator\n  Foo 'y': this operator is not supported\n", out)

    def test_at_the_start(self):
        data = Chain().add("Foo", "f").known().conv().add("Relu", "r").file()
        shown = self.explain(data)
        self.assertEqual((self.named(shown), self.contractions(shown), shown["shapes"]["f"]), ([("Foo", "f")], ["r"], KNOWN))
        unknown = Chain().add("Foo", "f").conv().add("Relu", "r").file()
        (self.folder / "m.onnx").write_bytes(unknown)
        self.refused("explain", "m.onnx", says="Foo 'f'", code=WRONG)
        shown = self.explain(unknown, "--shape", "f=1x8x6x5")
        self.assertEqual((self.named(shown), self.contractions(shown)), ([("Foo", "f")], ["r"]))

    def test_in_the_middle_without_a_shape(self):
        chain = Chain().conv().add("Relu", "r").add("Foo", "f").conv().add("Sigmoid", "s")
        shown = self.explain(chain.file())
        self.assertEqual(self.named(shown), [("Foo", "f"), ("Conv", "c1"), ("Sigmoid", "s")])
        self.assertEqual(shown["left_out"][0]["unknown"], ["f"])
        self.assertIn("--shape f=AxBxC", shown["left_out"][1]["reason"])
        self.assertEqual(self.contractions(shown), ["r"])
        shown = self.explain(chain.file(), "--shape", "f=1x8x6x5")
        self.assertEqual((self.named(shown), self.contractions(shown)), ([("Foo", "f")], ["r", "s"]))

    def test_a_run_is_still_refused(self):
        (self.folder / "m.onnx").write_bytes(Chain().conv().add("Foo", "y").file())
        self.refused("run", "m.onnx", "--random", says="Foo 'y'", code=WRONG)

    def test_drawn_chains(self):
        """What comes out is what a model of its own gives for each part between the foreign operators."""
        for seed in range(30):
            draw = random.Random(seed)
            chain, foreign, parts, reached = Chain(), [], 0, True
            for i in range(draw.randint(2, 7)):
                if draw.random() < 0.35:
                    chain.add(draw.choice(("Foo", "NonZero", "QuantizeLinear", "Bernoulli")), f"f{i}")
                    foreign.append(chain.last)
                    reached = draw.random() < 0.6
                    if reached:
                        chain.known()
                elif reached:
                    chain.conv().add(draw.choice(("Relu", "Sigmoid", "Tanh")), f"a{i}")
                    parts += 1
                else:
                    chain.add("Relu", f"a{i}")
                    foreign.append(chain.last)
            data = chain.file()
            with self.subTest(seed=seed):
                (self.folder / "m.onnx").write_bytes(data)
                if parts == 0:
                    self.unisono("explain", "m.onnx", code=WRONG if foreign else 0)
                    continue
                shown = self.json("explain", "m.onnx", "--html", "m.html")
                self.assertEqual([name for _, name in self.named(shown)], foreign)
                self.assertEqual(len(self.contractions(shown)), parts)
                page = browser.data_of((self.folder / "m.html").read_text())
                self.assertEqual(page["left_out"], shown["left_out"])
                self.assertEqual(len([l for l in page["launches"] if l["kind"] == "contraction"]), parts)

    def test_within_a_branch(self):
        branch = lambda op: f.graph([f.node(op, ["c0"], [op])], [], [f.value_info(op, f.FLOAT, KNOWN)])
        chain = Chain().conv()
        chain.nodes.append(f.node("If", ["p"], ["y"], then_branch=branch("Relu"), else_branch=branch("Foo")))
        data = f.model(chain.nodes, [f.value_info("x", f.FLOAT, KNOWN), f.value_info("p", f.BOOL, [])], [f.value_info("y", f.FLOAT, KNOWN)], constants=chain.constants)
        shown = self.explain(data)
        self.assertEqual(self.named(shown), [("If", "y")])
        self.assertIn("has Foo in a branch", shown["left_out"][0]["reason"])

    @unittest.skipIf(browser.program() is None, "no Chromium")
    def test_the_page_names_them(self):
        (self.folder / "m.onnx").write_bytes(Chain().conv().add("Relu", "r").add("Foo", "y").file())
        self.unisono("explain", "m.onnx", "--html", "m.html")
        page = browser.Page(self.folder / "m.html")
        self.addCleanup(page.close)
        self.assertEqual(page.faults, [])
        self.assertEqual(page.texts("#left-out summary"), ["1 operator left out"])
        page.click("#left-out summary")
        self.assertEqual(page.texts("#left-out li"), ["Foo y: this operator is not supported"])


if __name__ == "__main__":
    main()
