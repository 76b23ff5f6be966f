"""coda explain, of epilogues and of models."""

import json

from command import MODEL, Case, main

BLOCK = "y = mish(group_norm(acc + bias[n], groups=4)); store y : bf16"


class ExplainText(Case):
    def test_shows_every_pass_and_the_stages(self):
        out, error = self.coda("explain", BLOCK)
        self.assertEqual(error, "")
        for words in ("as written", "1. ", "(unchanged)", "split_normalisations", "stage 1 of 2", "stage 2 of 2", "stores: y : bf16"):
            self.assertIn(words, out)

    def test_text_file_standard_input_and_argument_are_the_same(self):
        (self.folder / "block.txt").write_text(BLOCK)
        expected = self.coda("explain", BLOCK)[0]
        self.assertEqual(self.coda("explain", "block.txt")[0], expected)
        self.assertEqual(self.coda("explain", "-", input=BLOCK)[0], expected)

    def test_json(self):
        shown = self.json("explain", BLOCK)
        self.assertEqual(shown["kind"], "epilogue")
        self.assertTrue(any(p["changed"] for p in shown["passes"]))
        self.assertEqual(len(shown["stages"]), 2)
        self.assertEqual(shown["stages"][1]["stores"], ["y : bf16"])

    def test_drawings(self):
        self.coda("explain", BLOCK, "--svg", "a.svg", "--dot", "a.dot")
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


class ExplainModel(Case):
    def test_says_what_was_fused_and_what_was_not(self):
        out, _ = self.coda("explain", MODEL)
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

    def test_one_region(self):
        out, _ = self.coda("explain", MODEL, "--region", "1")
        self.assertIn("stage 2 of 2", out)
        name = self.json("explain", MODEL)["regions"][0]["name"]
        self.assertEqual(self.coda("explain", MODEL, "--region", name)[0], out)
        self.assertEqual(json.loads(self.coda("explain", MODEL, "--region", "1", "--json")[0])["kind"], "epilogue")
        self.refused("explain", MODEL, "--region", "0", says="1 to")
        self.refused("explain", MODEL, "--region", "99", says="99")
        self.refused("explain", MODEL, "--region", "3", says="no epilogue")  # the pooling

    def test_drawings(self):
        self.coda("explain", MODEL, "--svg", "net.svg", "--dot", "net.dot")
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
