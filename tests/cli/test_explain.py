"""unisono explain, of epilogues and of models."""

import json
import os
import re
import xml.etree.ElementTree

import onnx_file
from command import MODEL, SOURCES, UNSUPPORTED, WRONG, Case, main

BLOCK = "y = mish(group_norm(acc + bias[n], groups=4)); store y : bf16"


class ExplainText(Case):
    def test_shows_every_pass_and_the_stages(self):
        out, error = self.unisono("explain", BLOCK)
        self.assertEqual(error, "")
        for words in ("as written", "1. ", "(unchanged)", "split_normalisations", "stage 1 of 2", "stage 2 of 2", "stores: y : bf16"):
            self.assertIn(words, out)

    def test_text_file_standard_input_and_argument_are_the_same(self):
        (self.folder / "block.txt").write_text(BLOCK)
        expected = self.unisono("explain", BLOCK)[0]
        self.assertEqual(self.unisono("explain", "block.txt")[0], expected)
        self.assertEqual(self.unisono("explain", "-", input=BLOCK)[0], expected)

    def test_the_header_for_a_kernel_of_ones_own(self):
        out, error = self.unisono("explain", "store gelu(acc + bias[n]) as y : bf16", "--gemm", "64,16->32", "--visitor", "own")
        self.assertEqual(error, "")
        self.assertTrue(out.startswith("// An epilogue"), out)
        for words in ("// main: y [m,n], bf16", "namespace unisono::own {", "using Epilogue = "):
            self.assertIn(words, out)
        for wrong, said in (((), "--visitor needs --conv or --gemm"), (("--gemm", "64,16->32", "--json"), "nothing else"),
                            (("--gemm", "64,16->32", "--plan", "tile=64x64"), "--plan and --accurate need --device cuda")):
            self.assertIn(said, self.unisono("explain", "store acc as y : bf16", "--visitor", "own", *wrong, code=WRONG)[1])
        self.assertIn("'math' cannot be the name", self.unisono("explain", "store acc as y : bf16", "--gemm", "64,16->32", "--visitor", "math", code=WRONG)[1])
        self.assertIn("element at a time", self.unisono("explain", BLOCK, "--gemm", "64,16->32", "--visitor", "own", code=UNSUPPORTED)[1])
        self.assertIn("for one epilogue's text", self.unisono("explain", MODEL, "--visitor", "own", code=WRONG)[1])

    def test_json_with_names_of_control_characters(self):
        for name in ("x\x85y", "x\u202e", "x\x9b31m", "xö"):
            tensor = onnx_file.value_info(name, onnx_file.FLOAT, [1, 4])
            (self.folder / "m.onnx").write_bytes(onnx_file.model([onnx_file.node("Relu", [name], ["y"])], [tensor],
                                                                 [onnx_file.value_info("y", onnx_file.FLOAT, [1, 4])]))
            out, _ = self.unisono("run", "m.onnx", "--random", "--repeat", 0, "--json", "--profile")
            self.assertIn(name, json.dumps(json.loads(out), ensure_ascii=False))
            self.assertTrue(name == "xö" or name not in out)

    def test_a_plan_that_no_family_has(self):
        plan = lambda text: ("explain", "store acc as y : bf16", "--device", "cuda", "--conv", "1,8,8,16->16,1x1", "--plan", text)
        self.refused(*plan("family=plain arch=sm80"), code=UNSUPPORTED, says="plain: its plans have no arch, but ")
        self.refused(*plan("arch=sm80"), code=UNSUPPORTED, says=("cutlass_evt: ", "add family=cutlass_evt"))

    def test_a_lone_call_is_a_text(self):
        self.refused("explain", "keep(acc)", says="line 1, column 1")

    def test_json(self):
        shown = self.json("explain", BLOCK)
        self.assertEqual(shown["kind"], "epilogue")
        self.assertTrue(any(p["changed"] for p in shown["passes"]))
        self.assertEqual(len(shown["stages"]), 2)
        self.assertEqual(shown["stages"][1]["stores"], ["y : bf16"])

    def test_drawings(self):
        self.unisono("explain", BLOCK, "--svg", "a.svg", "--dot", "a.dot")
        text = self.assert_svg(self.folder / "a.svg")
        self.assertIn("stage 1", text)
        self.assertIn("store y : bf16", text)
        self.assertTrue((self.folder / "a.dot").read_text().startswith("digraph"))

    def test_error_shows_the_place(self):
        error = self.refused("explain", "y = silo(acc)\nstore y : f32", says=("line 1", "silo", "silu", "^"))
        (self.folder / "wrong.txt").write_text("store acc : f33")
        self.assertIn("wrong.txt", self.refused("explain", "wrong.txt", says="f33"))
        self.assertIn("standard input", self.refused("explain", "-", input="store", says="line 1"))
        self.assertNotIn("standard input", error)

    def test_hostile_text_is_refused(self):
        self.refused("explain", "-", input="")
        self.refused("explain", "-", input="x = " + "(" * 100000)
        (self.folder / "large.txt").write_text("#" * (2 << 20))
        self.refused("explain", "large.txt", says="large.txt")
        (self.folder / "binary.txt").write_bytes(bytes(range(256)))
        self.refused("explain", "binary.txt")

    def test_what_is_neither_file_nor_text(self):
        self.refused("explain", "no_such_file.txt", says="no_such_file.txt")
        self.refused("explain", "absent.onnx", says="absent.onnx")
        self.refused("explain", "/dev/null")

    def test_unwritable_drawings(self):
        self.refused("explain", BLOCK, "--svg", "no/such/folder/a.svg", says="no/such/folder/a.svg")
        self.refused("explain", BLOCK, "--dot", "/dev/full", says="No space left")

    def test_options_of_models_are_refused(self):
        self.refused("explain", BLOCK, "--region", "1", says="--region")
        self.refused("explain", BLOCK, "--dim", "batch=2", says="--dim")


class ExplainKernel(Case):
    NORM = "y = silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])); store y : bf16"
    SHAPE = "8,64,64,320->320,3x3,pad=1"

    def test_plan_and_source(self):
        out, error = self.unisono("explain", "--device", "cuda", self.NORM, "--conv", self.SHAPE)
        self.assertEqual(error, "")
        for words in ("conv2d 8x64x64x320 -> 320, 3x3, pad 1, bf16", "plan: ", "predicted: ", "operand gamma[n] : f32",
                      "#include <unisono/sm90/conv_fprop.cuh>", "extern \"C\" __global__"):
            self.assertIn(words, out)

    def test_json_and_plan(self):
        shown = self.json("explain", "--device", "cuda", self.NORM, "--conv", self.SHAPE, "--plan", "tile=128x128 mode=streamed")
        self.assertEqual(shown["kind"], "cuda")
        self.assertIn("128x128", shown["plan"])
        self.assertGreater(shown["predicted_tflops"], 10)
        self.assertTrue(5 < shown["roofline_percent"] < 100, shown)
        self.assertIn("streamed", shown["plan"])
        if not shown["device_present"]:  # an H200's
            self.assertEqual((shown["roofline"]["tflops"], shown["roofline"]["tbps"]), (800, 4.2))
        self.assertEqual({f["name"] for f in shown["fields"]}, {"bias", "gamma", "beta"})
        self.assertEqual(shown["device_present"], not shown["device_note"])
        if not shown["device_present"]:
            self.assertEqual(shown["device"], "NVIDIA H200")

    def test_accurate_functions(self):
        arguments = ("explain", "--device", "cuda", "store silu(acc) as y : bf16", "--conv", "1,8,8,16->16,1x1")
        self.assertNotEqual(self.unisono(*arguments)[0], self.unisono(*arguments, "--accurate")[0])

    def test_functions_with_vector_forms(self):
        scalar = "__device__ float bend(float x, int n) { return x + n; }\n"
        (self.folder / "bend.cu").write_text(
            scalar
            + "__device__ float4 bend(float4 x, int n) { return {x.x + n, x.y + n + 1, x.z + n + 2, x.w + n + 3}; }\n"
        )
        (self.folder / "wrong.cu").write_text(scalar + "__device__ float4 bend(float2 x, int n) { return {}; }\n")
        given = (
            "explain",
            "--device",
            "cuda",
            "store bend(acc, index(n)) as y : bf16",
            "--gemm",
            "64,64->40",
            "--function",
        )
        for plan, said in (
            ((), "functions: bend: 4 channels a call"),
            (("--plan", "epilogue=registers"), "one element a call; in registers"),
        ):
            self.assertIn(said, self.unisono(*given, "bend.cu", *plan)[0])
        self.assertIn("  2 | __device__ float4 bend(float2 x, int n) { return {}; }\n    |            ^^^^^^\n",
                      self.unisono(*given, "wrong.cu", code=WRONG)[1])
        self.assertIn(
            "epilogue: shared; mode none",
            self.unisono(
                "explain",
                "--device",
                "cuda",
                "store acc as y : bf16",
                "--gemm",
                "64,64->40",
                "--plan",
                "epilogue=shared",
                code=UNSUPPORTED,
            )[1],
        )

    def test_linear_layer(self):
        out, _ = self.unisono("explain", "--device", "cuda", "store gelu(acc + bias[n]) as y : bf16", "--gemm", "512,1024->4096")
        for words in ("TFLOP/s", "% of roofline", "to read the plan", "128x128        a tile of ", "gemm", "512", "4096", "plan: ", "operand bias[n] : f32", "extern \"C\" __global__"):
            self.assertIn(words, out)
        for shape in ("512,1024", "512->4096", "512,1024->4096,pad=1", "512,x->4096", "512,0->8", "512,1024->4096,dtype=bf15"):
            self.refused("explain", "--device", "cuda", "store acc as y : bf16", "--gemm", shape)
        self.refused("explain", "--device", "cuda", "store acc as y : bf16", "--gemm", "3000000000,8->8", says="3000000000")
        self.refused("explain", "--device", "cuda", "store acc as y : bf16", "--gemm", "512,1024->4096", "--conv", self.SHAPE, says="--gemm")

    def test_reductions(self):
        out, _ = self.unisono("explain", "--device", "cuda", "store sum(softplus(acc)) as loss : f32", "--gemm", "512,1024->4096")
        for words in ("mode: general", "1 reductions over rows", "store loss[] : f32", "kTileFolds = 1"):
            self.assertIn(words, out)

    def test_convolutions_that_are_none(self):
        for shape in ("8,64,64,320", "8,64,64->320,3x3", "8,64,64,320->320", "8,64,64,320->320,3", "8,64,64,x->320,3x3",
                      "8,64,64,320->320,3x3,pad", "8,64,64,320->320,3x3,pad=1.2", "8,64,64,320->320,3x3,colour=1",
                      "8,64,64,320->320,3x3,dtype=bf15", "8,64,64,320->320,3x3,stride=0", "1,2,2,8->8,3x3,pad=0"):
            self.refused("explain", "--device", "cuda", self.NORM, "--conv", shape)
        self.assertIn("'pad'", self.refused("explain", "--device", "cuda", self.NORM, "--conv", "1,8,8,8->8,3x3,pad", says="8,64,64,320->320,3x3,pad=1"))

        for shape in ("1,5,6,7,8->12,3x3", "1,5,6,7,8->12,3x3x3,pad=1x1", "1,5,6,7,8->12,3x3x3,pad=1.1.1", "1,5,6,7,8->12,3x3x3,layout=nchw",
                      "1,5,6,7,8->12,3x3x3,transposed", "1,5,6,7,8->12,3x3x3,stride=1x0x1", "1,2,2,2,8->8,3x3x3,pad=0", "1,5,6,7,8->12,3x3x3,pad=1,pad=1"):
            self.refused("explain", self.NORM, "--conv", shape)

    def test_volumes(self):
        out = self.unisono("explain", "store acc as y : bf16", "--conv", "1,5,6,7,8->12,3x3x3,pad=2.1.1.0.1.1,stride=1x2x1,groups=4")[0]
        self.assertIn("conv3d 1x5x6x7x8 -> 12, 3x3x3, stride 1x2x1, pad 2x1x1 to 0x1x1, groups 4", out)
        self.assertIn("conv3d", self.unisono("explain", "store acc as y : bf16", "--device", "cuda", "--conv", "1,5,6,7,8->16,3x3x3")[0])

    def test_what_does_not_go_together(self):
        self.refused("explain", "--device", "cuda", self.NORM, says="--conv")
        self.refused("explain", self.NORM, "--plan", "tile=128x160", says="--device cuda")
        self.refused("explain", "--device", "cuda", MODEL, "--conv", self.SHAPE, says="one epilogue")
        self.refused("explain", "--device", "cuda", self.NORM, "--conv", self.SHAPE, "--svg", "a.svg", says="--svg")
        self.refused("explain", "--device", "gpu", self.NORM, "--conv", self.SHAPE, says="gpu")
        self.refused("explain", "--device", "cuda", self.NORM, "--conv", self.SHAPE, "--plan", "tiel=1x1", says="tile")

    def test_what_no_kernel_serves(self):
        self.refused("explain", "--device", "cuda", "store acc : f64", "--conv", self.SHAPE, code=UNSUPPORTED, says="f64")
        self.refused("explain", "--device", "cuda", self.NORM, "--conv", "1,8,8,16->32,1x1,dtype=i32", code=UNSUPPORTED)


class OperatorsOfAGpu(Case):
    """The table of operators by backend in docs/networks-onnx.md, for those that need one input alone."""

    UNARY = {"Abs", "Neg", "Exp", "Log", "Sqrt", "Sin", "Cos", "Erf", "Reciprocal", "Clip", "Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
             "Mish", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh", "Softmax", "Identity", "Flatten", "Dropout", "GlobalAveragePool", "Transpose",
             "Acos", "Atanh", "Tan", "Sinh", "Ceil", "Floor", "Round", "Sign", "Trilu", "GlobalMaxPool", "GlobalLpPool", "LpNormalization", "LogSoftmax",
             "MeanVarianceNormalization", "ReduceMax", "ReduceSum", "ReduceL2", "ArgMax", "IsNaN", "Hardmax"}

    def served(self):
        page = (SOURCES / "docs" / "networks-onnx.md").read_text()
        operators = lambda text: set(re.findall("`([A-Z][A-Za-z0-9]+)`", text))
        families = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page[page.index("| Family | Operators |"):page.index("**By backend.**")], re.M))
        table = page[page.index("| On a GPU | Operators |"):page.index("Numbers that are known")]
        self.assertIn("elementwise, fused", families)
        fused = operators(families["elementwise, fused"] + families["activations, fused"])
        return fused | operators(table[:table.index("| the host, ")])

    def test_the_table(self):
        served, found = self.served(), set()
        f = onnx_file
        for op in sorted(self.UNARY):
            kind = {"ArgMax": f.INT64, "IsNaN": f.BOOL}.get(op, f.FLOAT)
            (self.folder / "m.onnx").write_bytes(f.model([f.node(op, ["x"], ["y"])], [f.value_info("x", f.FLOAT, [1, 4, 8, 8])],
                                                         [f.value_info("y", kind, ["a", "b", "c", "d"])], opset=20))
            self.unisono("explain", "m.onnx")
            out, _ = self.unisono("explain", "m.onnx", "--device", "cuda", "--strict", code=None)
            if out:
                found.add(op)
            else:
                self.assertIn("host step: ", self.unisono("explain", "m.onnx", "--device", "cuda")[0], op)
        self.assertEqual(found, served & self.UNARY)

    def test_host_steps(self):
        f = onnx_file
        nodes = [f.node("Relu", ["x"], ["a"]), f.node("Trilu", ["a"], ["b"]), f.node("Trilu", ["b"], ["c"], upper=0), f.node("Relu", ["c"], ["y"])]
        (self.folder / "m.onnx").write_bytes(f.model(nodes, [f.value_info("x", f.FLOAT, [2, 8])], [f.value_info("y", f.FLOAT, [2, 8])]))
        env = dict(os.environ, UNISONO_HOST_STEPS="lower_triangle,upper_triangle")
        launches = self.json("explain", "m.onnx", "--device", "cuda", env=env)["cuda"]["launches"]
        self.assertEqual([l["on_host"] for l in launches], [False, False, False, True, False, False, False])
        out, _ = self.unisono("explain", "m.onnx", "--device", "cuda", env=env)
        for words in ("6 launches and 1 host step for ", "upper_triangle (2,8) -> (2,8) and 1 more operator", "64 bytes there, 64 bytes back",
                      "host step of 2 operators: reads 'a'; makes 'c'"):
            self.assertIn(words, out)
        self.refused("explain", "m.onnx", "--device", "cuda", "--strict", env=env, code=UNSUPPORTED, says=("NetworkOptions::strict", "  lower_triangle '", "  upper_triangle '"))


class ExplainModel(Case):
    def test_says_what_was_fused_and_what_was_not(self):
        out, _ = self.unisono("explain", MODEL)
        for words in ("conv2d + group_norm + mish", "max_pool", "epilogue", "memory for image (1,3,192,192)", "in one arena"):
            self.assertIn(words, out)

    def test_json(self):
        shown = self.json("explain", MODEL / "heatmap_unet.onnx", "--dim", "batch=2")
        self.assertEqual(shown["kind"], "network")
        self.assertEqual(shown["shapes"], {"image": [2, 3, 192, 192]})
        self.assertLess(shown["kernels"], shown["operators"])
        fused = [r for r in shown["regions"] if r["kind"] == "contraction"]
        self.assertEqual(len(fused), 19)
        self.assertEqual(fused[0]["operators"], ["conv2d", "group_norm", "mish"])
        alone = [r for r in shown["regions"] if r["kind"] == "single"]
        self.assertTrue(alone and all(r["note"] for r in alone))
        self.assertLess(shown["memory"]["arena_bytes"], shown["memory"]["without_reuse_bytes"])

    def test_launches_of_a_gpu(self):
        shown = self.json("explain", MODEL, "--device", "cuda", "--precision", "f16")
        launches = shown["cuda"]["launches"]
        kernels = [l["how"] for l in launches if "CTAs of" in l["how"]]
        self.assertEqual(len(kernels), 19)  # every convolution with all behind it
        self.assertEqual(launches[0]["name"], "input image")
        self.assertIn("padded with zeros to 16", launches[1]["how"])
        self.assertEqual(shown["precision"], "f16")
        out, _ = self.unisono("explain", MODEL, "--device", "cuda", "--dim", "batch=2")
        for words in ("launches for", "max_pool", "plain kernel", "memory for image (2,3,192,192)"):
            self.assertIn(words, out)
        decided = shown["cuda"]["decisions"]
        self.assertEqual(decided.count("  contraction: one kernel, "), 19)
        self.assertRegex(out, r"for each region\n(input .*\n)?kernel 1 '")
        self.refused("explain", MODEL, "--device", "cuda", "--gemm", "8,8->8", says="epilogue")

    def numbers_of_a_picture(self, path):
        """{number: what the box of this kernel computes}"""
        texts = [t.text for t in xml.etree.ElementTree.parse(path).getroot().iter() if t.text and re.match(r"\d+\. ", t.text)]
        return {int(number): what for number, what in (t.split(". ", 1) for t in texts)}

    def test_one_numbering(self):
        for gpu in (False, True):
            arguments = ("explain", MODEL, *(("--device", "cuda") if gpu else ()))
            shown = self.json(*arguments, "--svg", "net.svg")
            kernels = {r["kernel"]: r for r in shown["regions"] if r["kind"] != "free"}
            self.assertEqual(list(kernels), list(range(1, shown["kernels"] + 1)))
            heads = {k: r["contraction"] or "epilogue over " + r["name"] for k, r in kernels.items()}
            self.assertEqual(self.numbers_of_a_picture(self.folder / "net.svg"), heads)
            if not gpu:
                continue
            numbers = {r["name"]: k for k, r in kernels.items()}
            for launch in shown["cuda"]["launches"]:
                self.assertEqual(launch["kernel"], numbers.get(launch["name"]), launch)
            out = self.unisono(*arguments)[0]
            launches, decided = out.split("\nwhat was decided")[0], out.split("\nwhat was decided")[1].split("\nwhat was fused")[0]
            for number, name in re.findall(r"^ *(\d+)  .*\n.*\n       -> (.*)$", launches, re.M) + re.findall(r"^kernel (\d+) '(.*)'$", decided, re.M):
                self.assertEqual(numbers[name], int(number), name)
            self.assertIn("constants      ", out)
            self.assertNotIn("constants      0 B", out)
            self.assertGreater(shown["memory"]["constant_bytes"], 400_000)

    def test_a_region_of_a_gpu(self):
        region = next(r for r in self.json("explain", MODEL, "--device", "cuda")["regions"] if r["kernel"] == 2)
        out = self.unisono("explain", MODEL, "--device", "cuda", "--region", 2)[0]
        self.assertIn(region["contraction"] + "\n", out)

    def test_one_region(self):
        out, _ = self.unisono("explain", MODEL, "--region", "1")
        self.assertIn("stage 2 of 2", out)
        name = self.json("explain", MODEL)["regions"][0]["name"]
        self.assertEqual(self.unisono("explain", MODEL, "--region", name)[0], out)
        self.assertEqual(json.loads(self.unisono("explain", MODEL, "--region", "1", "--json")[0])["kind"], "epilogue")
        self.refused("explain", MODEL, "--region", "0", says="1 to")
        self.refused("explain", MODEL, "--region", "99", says="99")
        self.refused("explain", MODEL, "--region", "3", says="no epilogue")  # the pooling

    def test_drawings(self):
        self.unisono("explain", MODEL, "--svg", "net.svg", "--dot", "net.dot")
        text = self.assert_svg(self.folder / "net.svg")
        self.assertIn("conv2d + group_norm + mish", text)
        self.assertIn("heatmaps", text)
        self.assertTrue((self.folder / "net.dot").read_text().startswith("digraph"))

    def test_wrong_dims(self):
        self.refused("explain", MODEL, "--dim", "depth=3", says=("depth", "batch"))

    def test_damaged_models(self):
        data = (MODEL / "heatmap_unet.onnx").read_bytes()
        for name, content in (("empty", b""), ("cut", data[:len(data) // 2]), ("noise", bytes(range(256)) * 64), ("text", b"hello")):
            (self.folder / f"{name}.onnx").write_bytes(content)
            self.refused("explain", f"{name}.onnx", says=f"{name}.onnx")

    def test_folder_without_a_description(self):
        self.refused("explain", self.folder, says="model.json")


if __name__ == "__main__":
    main()
