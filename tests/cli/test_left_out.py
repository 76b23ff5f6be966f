"""unisono explain of models with operators that are not supported: the rest is explained, and they are named."""

import json
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
            self.assertIn("left out: 1 operator\n  Foo 'y': ", out)

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

    def test_an_attribute_that_is_not_supported(self):
        for name, attributes, said in (("Softmax", dict(axis=9), "axis is 9"),
                                       ("Relu", dict(slope=1), "has no attribute 'slope'"),
                                       ("Transpose", dict(perm=[0, 1, 2, 7]), "axis is 7")):
            with self.subTest(name=name):
                shown = self.explain(Chain().conv().add("Sigmoid", "s").add(name, "y", **attributes).file())
                self.assertEqual((self.named(shown), self.contractions(shown)), ([(name, "y")], ["s"]))
                self.assertIn(said, shown["left_out"][0]["reason"])
                self.refused("run", "m.onnx", "--random", says=(f"{name} 'y'", said), code=WRONG)

    def test_a_type_that_is_not_supported(self):
        nodes = [f.node("Conv", ["x", "w0"], ["c"], pads=[1, 1, 1, 1]), f.node("Foo", ["x"], ["words"]), f.node("Concat", ["words"], ["more"], axis=0)]
        infos = [f.value_info("words", 8, [3])]  # of text
        shown = self.explain(f.model(nodes, [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info("c", f.FLOAT, KNOWN), f.value_info("more", 8, [3])],
                                     constants=[weights("w0")], infos=infos))
        self.assertEqual((self.named(shown), self.contractions(shown)), ([("Foo", "words"), ("Concat", "more")], ["c"]))

    def test_integers_of_a_foreign_operator(self):
        """They are the shape that a Reshape makes, which nobody knows before the run."""
        nodes = [f.node("Conv", ["x", "w0"], ["c"], pads=[1, 1, 1, 1]), f.node("Foo", ["x"], ["s"]), f.node("Reshape", ["c", "s"], ["y"])]
        for infos in ((), [f.value_info("s", f.INT64, [4])]):
            data = f.model(nodes, [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info("y", f.FLOAT, ["a", "b", "h", "w"])], constants=[weights("w0")], infos=infos)
            for device in ("cpu", "cuda"):
                shown = self.explain(data, "--device", device)
                self.assertEqual((self.named(shown), self.contractions(shown)), ([("Foo", "s"), ("Reshape", "y")], ["c"]))

    def test_nodes_without_a_name(self):
        nodes = [f.node("Conv", ["x", "w0"], ["c"], pads=[1, 1, 1, 1]), f.node("Foo", ["c"], []), f.node("Foo", ["c"], [""]),
                 f.node("Foo", ["c"], ["", "second"]), f.node("Foo", ["c"], ["a", "b"], called="mine")]
        shown = self.explain(f.model(nodes, [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info("c", f.FLOAT, KNOWN)], constants=[weights("w0")]))
        self.assertEqual(self.named(shown), [("Foo", "node 2"), ("Foo", "node 3"), ("Foo", "second"), ("Foo", "mine")])

    def test_a_node_that_fails_after_its_first_result(self):
        """Its results are not there, and what reads them is left out too."""
        split = f.node("Split", ["c"], ["p", "q"], axis=1, num_outputs=2, slope=1)
        nodes = [f.node("Conv", ["x", "w0"], ["c"], pads=[1, 1, 1, 1]), split, f.node("Relu", ["p"], ["y"])]
        shown = self.explain(f.model(nodes, [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info("y", f.FLOAT, [1, 4, 6, 5])], constants=[weights("w0")]))
        self.assertEqual((self.named(shown), self.contractions(shown)), ([("Split", "p"), ("Relu", "y")], ["c"]))

    def within_a_function(self, inner, **options):
        """conv, then a call of a function with a convolution, `inner` and another convolution, then Tanh."""
        body = [f.node("Conv", ["a", "v"], ["b"], pads=[1, 1, 1, 1]), f.node("Relu", ["b"], ["r"]), inner,
                f.node("Conv", ["g", "v"], ["d"], pads=[1, 1, 1, 1])]
        nodes = [f.node("Conv", ["x", "w0"], ["c"], pads=[1, 1, 1, 1]), f.node("Block", ["c", "w0"], ["z"], domain="local", called="call"),
                 f.node("Tanh", ["z"], ["y"])]
        return f.model(nodes, [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info("y", f.FLOAT, KNOWN)], constants=[weights("w0")],
                       functions=[f.function("Block", ["a", "v"], ["d"], body)], **options)

    def test_within_a_function(self):
        for inner, name in ((f.node("Foo", ["r"], ["g"]), "Foo"), (f.node("Relu", ["r"], ["g"], slope=1), "Relu")):
            data = self.within_a_function(inner)
            shown = self.explain(data)
            self.assertEqual(self.named(shown), [(name, "call/g"), ("Conv", "call/d"), ("Tanh", "y")])
            self.assertEqual(self.contractions(shown), ["c", "call/r"])
            self.assertIn("--shape call/g=AxBxC", shown["left_out"][1]["reason"])
            self.assertIn("--shape z=AxBxC", shown["left_out"][2]["reason"])
            shown = self.explain(data, "--shape", "call/g=1x8x6x5")
            self.assertEqual((self.named(shown), self.contractions(shown)), ([(name, "call/g")], ["c", "call/r", "y"]))
            for known in (dict(arguments=("--shape", "z=1x8x6x5")), dict(infos=[f.value_info("z", f.FLOAT, KNOWN)])):
                shown = self.explain(self.within_a_function(inner, infos=known.get("infos", ())), *known.get("arguments", ()))
                self.assertEqual(self.named(shown), [(name, "call/g"), ("Conv", "call/d")])
                self.assertEqual(shown["shapes"]["z"], KNOWN)

    def test_the_shape_that_is_asked_for_can_be_given(self):
        """A function and a branch read what a node outside of them was to make: by the name that it has there."""
        then = [f.node("Relu", ["d"], ["t"])]
        inside = {"Block": f.node("Block", ["d"], ["y"], domain="local", called="call"),
                  "If": f.node("If", ["yes"], ["y"], **{f"{way}_branch": f.graph(then, [], [f.value_info("t", f.FLOAT, KNOWN)])
                                                         for way in ("then", "else")})}
        for kind, node in inside.items():
            with self.subTest(kind=kind):
                block = f.function("Block", ["a"], ["b"], [f.node("Relu", ["a"], ["b"])])
                data = f.model([f.node("Conv", ["x", "w0"], ["c"], pads=[1, 1, 1, 1]), f.node("Foo", ["c"], ["d"]), node], [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info("y", f.FLOAT, KNOWN)],
                               constants=[weights("w0"), f.constant("yes", f.BOOL, [], b"\x01")], functions=[block])
                shown = self.explain(data)
                self.assertRegex(json.dumps(shown["left_out"]), "reads 'd', .*--shape d=AxBxC")
                self.assertEqual(self.named(self.explain(data, "--shape", "d=1x8x6x5")), [("Foo", "d")])

    def test_a_result_of_a_function_that_does_not_depend_on_it(self):
        """Of two results one is made without the foreign operator, and what reads that one is explained."""
        body = [f.node("Conv", ["a", "v"], ["b"], pads=[1, 1, 1, 1]), f.node("Foo", ["b"], ["g"])]
        nodes = [f.node("Two", ["x", "w0"], ["p", "q"], domain="local"), f.node("Relu", ["p"], ["y"]), f.node("Relu", ["q"], ["z"])]
        shown = self.explain(f.model(nodes, [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info(n, f.FLOAT, KNOWN) for n in "yz"], constants=[weights("w0")],
                                     functions=[f.function("Two", ["a", "v"], ["b", "g"], body)]))
        self.assertEqual(self.named(shown), [("Foo", "p/g"), ("Relu", "z")])
        self.assertEqual(len(self.contractions(shown)), 1)

    def test_drawn_functions(self):
        """A chain whose nodes are in functions, and some in functions of these, has the parts that it has without them."""
        value = lambda name: f.value_info(name, f.FLOAT, KNOWN)

        def made(op, read, name):
            return f.node("Conv", [read, "w"], [name], pads=[1, 1, 1, 1]) if op == "conv" else f.node(op, [read], [name])

        for seed in range(30):
            draw = random.Random(seed)
            ops = [draw.choice(("conv", "conv", "Relu", "Foo", "Sigmoid")) for _ in range(draw.randint(4, 10))]
            functions = []

            def nodes_of(part, read, depth):
                """A list of nodes, some of which are calls, and the name of its result."""
                nodes = []
                while part:
                    size = draw.randint(1, len(part)) if depth < 3 and draw.random() < 0.6 else 0
                    name = f"t{len(ops) - len(part)}_{depth}"
                    if size:
                        inner, result = nodes_of(part[:size], "a", depth + 1)
                        functions.append(f.function(f"F{len(functions)}", ["a", "w"], [result], inner))
                        nodes.append(f.node(f"F{len(functions) - 1}", [read, "w"], [name], domain="local"))
                    else:
                        nodes.append(made(part[0], read, name))
                    part, read = part[max(size, 1):], name
                return nodes, read

            flat = [made(op, f"t{i - 1}" if i else "x", f"t{i}") for i, op in enumerate(ops)]
            nested, last = nodes_of(ops, "x", 0)
            shown = []
            for nodes, result in ((flat, f"t{len(ops) - 1}"), (nested, last)):
                data = f.model(nodes, [value("x")], [value(result)], constants=[weights("w")], functions=functions)
                (self.folder / "m.onnx").write_bytes(data)
                out, _ = self.unisono("explain", "m.onnx", "--json", code=None)
                shown.append((len(self.contractions(json.loads(out))), [l["operator"] for l in json.loads(out)["left_out"]]) if out else None)
            with self.subTest(seed=seed, ops=ops):
                self.assertEqual(shown[0], shown[1])

    def test_damaged_files(self):
        """Names and bytes that are wrong anywhere: explain says what is left out, or what is wrong with the file."""
        branch = lambda op: f.graph([f.node("Conv", ["c", "w"], ["b1"], pads=[1, 1, 1, 1]), f.node(op, ["b1"], ["bo"])], [],
                                    [f.value_info("bo", f.FLOAT, KNOWN)], constants=[weights("w2")])
        body = [f.node("Conv", ["a", "v"], ["b"], pads=[1, 1, 1, 1]), f.node("Split", ["b"], ["p", "q"], axis=1, num_outputs=2),
                f.node("Concat", ["p", "q"], ["d"], axis=1)]
        nodes = [f.node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), f.node("Block", ["c", "w"], ["z"], domain="local"),
                 f.node("Shape", ["z"], ["s"]), f.node("Reshape", ["z", "s"], ["r"]),
                 f.node("If", ["t"], ["i"], then_branch=branch("Relu"), else_branch=branch("Tanh")), f.node("Add", ["r", "i"], ["y"])]
        whole = f.model(nodes, [f.value_info("x", f.FLOAT, KNOWN)], [f.value_info("y", f.FLOAT, KNOWN)], functions=[f.function("Block", ["a", "v"], ["d"], body)],
                        constants=[weights("w"), f.constant("t", f.BOOL, [], b"\1")])
        names = (b"Relu", b"Conv", b"Split", b"Concat", b"Reshape", b"Add", b"Tanh", b"axis", b"num_outputs", b"Block", b"pads")
        partly = 0
        for seed in range(60):
            draw, data = random.Random(seed), bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                name = draw.choice(names)
                places = [i for i in range(len(data)) if data.startswith(name, i)]
                if draw.random() < 0.7 and places:
                    data[draw.choice(places)] = draw.choice(b"xyzXYZ")
                else:
                    data[draw.randrange(len(data))] = draw.randrange(256)
            (self.folder / "m.onnx").write_bytes(bytes(data))
            with self.subTest(seed=seed):
                out, error = self.unisono("explain", "m.onnx", "--json", code=None)
                if out:
                    partly += bool(json.loads(out)["left_out"])
                else:
                    self.assertTrue(error.startswith("unisono: ") and "m.onnx" in error, error)
                    self.assertNotIn("please report", error)
        self.assertGreater(partly, 25)

    @unittest.skipIf(browser.program() is None, "no Chromium")
    def test_the_page_names_them(self):
        (self.folder / "m.onnx").write_bytes(Chain().conv().add("Relu", "r").add("Foo", "y").file())
        self.unisono("explain", "m.onnx", "--html", "m.html")
        page = browser.Page(self.folder / "m.html")
        self.addCleanup(page.close)
        self.assertEqual(page.faults, [])
        self.assertEqual(page.texts("#left-out summary"), ["1 operator left out"])
        page.click("#left-out summary")
        (item,) = page.texts("#left-out li")
        self.assertRegex(item, "^Foo y: .*not supported$")


if __name__ == "__main__":
    main()
