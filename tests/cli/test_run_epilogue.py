"""unisono run and explain of an epilogue's text, over one convolution or product."""

import zipfile

import onnx_file
from command import FAILED, MODEL, UNSUPPORTED, Case, main, npy, read_npy, write_npy

BLOCK = "y = silu(group_norm(acc + bias[n], groups=4)); store y"


class RunEpilogue(Case):
    def run_text(self, text, *arguments, **options):
        return self.unisono("run", text, "--repeat", "1", *arguments, **options)

    def test_random_data_are_checked_and_written(self):
        out, _ = self.run_text(BLOCK, "--conv", "2,9,9,8->16,3x3,dtype=f32", "--random", "--check", "--out", "out")
        for words in ("conv2d 2x9x9x8 -> 16, 3x3, pad 1", "all 2,592 values agree with the float64 reference", "GFLOP/s", "out/y.npy"):
            self.assertIn(words, out)
        self.assertEqual(read_npy(self.folder / "out" / "y.npy")[0], (2, 9, 9, 16))

    def test_a_file_and_standard_input_are_texts_too(self):
        (self.folder / "block.txt").write_text(BLOCK.replace("; ", "\n"))
        for subject, given in (("block.txt", {}), ("-", {"input": BLOCK})):
            out, _ = self.unisono("run", subject, "--gemm", "5,6->8", "--random", "--check", "--repeat", "0", **given)
            self.assertIn("all 40 values agree", out)
        self.refused("run", "block.txt", "--random", says=("--conv", "--gemm"))

    def test_arrays_are_multiplied(self):
        write_npy(self.folder / "left.npy", (2, 3), [1, 2, 3, 4, 5, 6])
        write_npy(self.folder / "right.npy", (3, 2), [1, 0, 0, 1, 1, 1])
        write_npy(self.folder / "bias.npy", (2,), [10, 20])
        self.run_text("store acc + bias[n] as y", "--gemm", "2,3->2,nn,dtype=f32", "--input", "left=left.npy", "--input", "right=right.npy",
                      "--input", "bias=bias.npy", "--check", "--out", "y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy"), ((2, 2), (14, 25, 20, 31)))

    def test_numbers_are_scalars_by_value(self):
        write_npy(self.folder / "left.npy", (2, 3), [1, 2, 3, 4, 5, 6])
        write_npy(self.folder / "right.npy", (3, 2), [1, 0, 0, 1, 1, 1])
        arrays = ("--gemm", "2,3->2,nn,dtype=f32", "--input", "left=left.npy", "--input", "right=right.npy")
        text = "store clamp(leaky_relu(alpha[]*acc, slope=slope[]), upper=limit[]) as y"
        for alpha, slope, limit, expected in ((1, 0.5, 8, (4, 5, 8, 8)), (-2, 0.5, 8, (-4, -5, -10, -11)), (0.5, 0, 5, (2, 2.5, 5, 5))):
            given = ("--input", f"alpha={alpha}", "--input", f"slope={slope}", "--input", f"limit={limit}")
            self.run_text(text, *arrays, *given, "--check", "--out", "y.npy")
            self.assertEqual(read_npy(self.folder / "y.npy"), ((2, 2), expected))
        self.refused("run", text, *arrays, "--input", "alpha=1", "--input", "slope=1", says=("limit: float32 ()", "--input NAME=NUMBER"))
        self.refused("run", text, *arrays, "--input", "alpha=1", "--input", "slop=1", says=("no 'slop'", "slope: float32 ()"))
        self.refused("run", "store acc + bias[n] as y", *arrays, "--input", "bias=1", says=("'bias' is given as ()", "expected (2)"))
        self.refused("run", "operand n : i32; store acc*n as y", *arrays, "--input", "n=0.5", says=("the number 0.5", "int32"))

    def test_numbers_beside_random_data(self):
        text, shape = "store clamp(acc, lower=lower[], upper=lower) as y", ("--gemm", "2,3->2,dtype=f32")
        self.run_text(text, *shape, "--random", "--input", "lower=0.25", "--check", "--out", "y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy"), ((2, 2), (0.25,) * 4))
        self.refused("run", text, *shape, "--random", "--input", "lower=lower.npy", says="NAME=NUMBER")

    def test_a_transposed_factor_is_read_as_it_lies(self):
        write_npy(self.folder / "left.npy", (3, 2), [1, 4, 2, 5, 3, 6])
        write_npy(self.folder / "right.npy", (2, 3), [1, 0, 1, 0, 1, 1])
        self.run_text("store acc as y", "--gemm", "2,3->2,tt,dtype=f32", "--input", "left=left.npy", "--input", "right=right.npy",
                      "--out", "y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy"), ((2, 2), (4, 5, 10, 11)))

    def test_batches_layouts_and_transposed_convolutions(self):
        for shape, says, extents in ((("--gemm", "3,4,5->6,nn"), "gemm", (3, 4, 6)),
                                     (("--conv", "1,6,5,4->8,3x3,layout=nchw"), "nchw", (1, 8, 6, 5)),
                                     (("--conv", "1,6,5,4->8,3x3,transposed,stride=2,output_pad=1"), "transpose", (1, 12, 10, 8))):
            out, _ = self.run_text("store relu(acc) as y", *shape, "--random", "--check", "--out", "y.npy")
            self.assertIn("agree with the float64 reference", out)
            self.assertIn(says, out.lower())
            self.assertEqual(read_npy(self.folder / "y.npy")[0], extents)

    def test_operands_of_some_coordinates_have_their_own_shapes(self):
        for shape, extents in (
            (("--gemm", "3,2->2,nn,dtype=f32"), (3, 1, 2)),
            (("--conv", "2,1,3,2->2,1x1,dtype=f32"), (1, 3, 2)),
        ):
            text = "store acc * pos[h,w] + c[h,w,n] + e[h,n] - f[w,n] as y"
            out, _ = self.run_text(text, *shape, "--random", "--check")
            self.assertIn("agree with the float64 reference", out)
            write_npy(self.folder / "c.npy", (1, 2), [1, 2])
            self.refused(
                "run", "store acc + c[h,w,n] as y", *shape, "--input", "c=c.npy", says="({},{},{})".format(*extents)
            )

    def test_pooled_and_upsampled_stores(self):
        text = "y = relu(acc); store y : f32; store max_pool_2x2(y) as p : f32; store upsample_2x2(y) as e : f32"
        out, _ = self.run_text(text, "--conv", "1,6,5,4->8,3x3,dtype=f32", "--random", "--check", "--out", "out")
        self.assertIn("agree with the float64 reference", out)
        self.assertEqual(read_npy(self.folder / "out" / "p.npy")[0], (1, 3, 2, 8))
        self.assertEqual(read_npy(self.folder / "out" / "e.npy")[0], (1, 12, 10, 8))
        self.refused("run", text, "--gemm", "5,6->8", "--random", says=("max_pool_2x2", "has no image; expected a convolution"))

    def test_json(self):
        shown = self.json("run", BLOCK, "--gemm", "5,6->8,dtype=f32", "--random", "--check", "--repeat", "3")
        self.assertEqual(shown["kind"], "epilogue")
        self.assertEqual(shown["inputs"]["bias"], {"shape": [8], "dtype": "float32"})
        self.assertEqual(shown["outputs"], {"y": {"shape": [5, 8], "dtype": "float32"}})
        self.assertEqual(shown["time"]["runs"], 3)
        self.assertTrue(shown["check"][0]["ok"])
        self.assertLessEqual(shown["check"][0]["of_bound"], 1)

    def test_refusals_say_what_is_read(self):
        write_npy(self.folder / "x.npy", (5, 6), [0] * 30)
        error = self.refused("run", BLOCK, "--gemm", "5,6->8", "--input", "left=x.npy", says=("right: bfloat16 (8,6)", "bias: float32 (8)"))
        self.assertNotIn("left:", error)
        self.refused("run", BLOCK, "--gemm", "5,6->8", "--input", "x=x.npy", says=("no 'x'", "left: bfloat16 (5,6)"))
        self.refused("run", BLOCK, "--gemm", "6,5->8", "--input", "left=x.npy", says=("(5,6)", "expected (6,5)"))
        self.refused("run", BLOCK, "--random", says=("--conv '8,64,64,320->320,3x3'", "--gemm"))
        self.refused("run", BLOCK, "--gemm", "5,6->8", "--random", "--profile", says="for models")
        self.refused("run", BLOCK, "--gemm", "5,6->8,xy", "--random", says=("'xy' is not understood", "[,nn|nt|tn|tt]"))

    def test_options_that_do_not_go_together(self):
        shape = ("--gemm", "5,6->8")
        self.refused("run", BLOCK, *shape, "--conv", "1,4,4,4->4,3x3", "--random", says=("'5,6->8'", "'1,4,4,4->4,3x3'", "both given"))
        self.refused("run", BLOCK, *shape, *shape, "--random", says="--gemm")
        self.refused("run", BLOCK, *shape, "--random", "--plan", "tile=64x64", says="--device cuda")
        self.refused("run", MODEL, *shape, "--random", says=("--gemm", "is a model"))
        for option in (("--precision", "f16"), ("--dim", "n=2"), ("--shape", "x=2x3"), ("--memory-limit", "1G"), ("--trace", "a"), ("--svg", "a")):
            self.refused("run", BLOCK, *shape, "--random", *option, says=(option[0], "for models"))
        self.refused("run", BLOCK, *shape, "--random", "--out", "y.png", says="y.png")
        self.refused("run", BLOCK + "; z = acc * 2; store z", *shape, "--random", "--out", "y.npy", says="2 outputs")
        self.refused("run", "store acc + left[n] as y", *shape, "--random", says="operand left")

    def test_shapes_that_are_none(self):
        for option, shape, says in (("--gemm", "5,6->8,nn,tt", "'tt' sets again"), ("--gemm", "5,6->8,dtype=f32,dtype=f16", "'dtype=f16' sets again"),
                                    ("--gemm", "1,2,3,4->5", "'1,2,3,4' is not understood"), ("--gemm", "5,6->8,", "'' is not understood"),
                                    ("--gemm", "99999999999999999999,5->6", "is not understood"), ("--gemm", "5,-6->8", "k is -6"),
                                    ("--conv", "1,4,4,4->4,3x3,pad=1,pad=2", "'pad=2' sets again"), ("--conv", "1,4,4,4->4,3x3,layout=chwn", "layout=nchw"),
                                    ("--conv", "1,4,4,4->4,3x3,output_pad=1", "needs 'transposed'"), ("--conv", "1,4,4,4->4,3x3,groups=3", "groups=3"),
                                    ("--conv", "1,4,4,4->4,3x3,transposed,stride=2,output_pad=2", "output_pad is 2"),
                                    ("--conv", "1,4,4,4->4,3x3,dgrad,wgrad", "leave out wgrad"), ("--conv", "1,4,4,4->4,3x3,dgrad,transposed", "leave out transposed"),
                                    ("--conv", "1,4,4,4->4,9223372036854775807x3,dilation=9223372036854775807", "expected 1 to 2^31")):
            self.refused("run", "store acc as y", option, shape, "--random", says=(says,))

    def test_what_memory_does_not_hold(self):
        self.refused("run", "store acc as y", "--gemm", "1000000,8->60000000", "--random", says=("GiB", "this machine has"))

    def test_archives_bind_members_by_their_names(self):
        arrays = {"left": ((2, 3), [1, 2, 3, 4, 5, 6]), "right": ((2, 3), [1, 0, 1, 0, 1, 1]), "bias": ((2,), [10, 20])}
        with zipfile.ZipFile(self.folder / "all.npz", "w") as archive:
            for name, array in arrays.items():
                archive.writestr(f"{name}.npy", npy(*array))
        text, shape = "store acc + bias[n] as y", ("--gemm", "2,3->2,dtype=f32")
        self.run_text(text, *shape, "--input", "all.npz", "--out", "y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy"), ((2, 2), (14, 25, 20, 31)))
        write_npy(self.folder / "bias.npy", *arrays["bias"])
        self.run_text(text, *shape, "--input", "left=all.npz", "--input", "right=all.npz", "--input", "bias=bias.npy", "--out", "y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy")[1], (14, 25, 20, 31))
        self.refused("run", text, *shape, "--input", "all.npz", "--input", "bias=bias.npy", says=("'bias' is given twice", "bias.npy"))
        self.refused("run", "store acc as y", *shape, "--input", "all.npz", says=("'bias' is given by 'all.npz'", "reads no 'bias'"))
        self.refused("run", "store acc + c[n] as y", *shape, "--input", "c=all.npz", says=("no member 'c'", "left, right, bias"))
        self.refused("run", text, *shape, "--input", "bias.npy", says="--input NAME=bias.npy")
        self.refused("run", text, *shape, "--input", "left=none.npy", says="none.npy")

    def test_values_without_a_bound_are_not_said_to_agree(self):
        out, _ = self.unisono("run", "store 1/(acc - acc) as y", "--gemm", "5,6->8", "--random", "--check", code=FAILED)
        self.assertIn("NOTHING WAS COMPARED", out)

    def test_the_kernel_of_a_shape_is_explained(self):
        out, _ = self.unisono("explain", BLOCK, "--gemm", "64,64->64,dtype=f32")
        self.assertIn("gemm 64x64x64, B transposed, f32 on the CPU", out)
        self.assertIn("oneDNN", self.json("explain", BLOCK, "--conv", "1,8,8,16->16,3x3")["kernel"])

    def test_a_function_from_a_file(self):
        (self.folder / "gain.cu").write_text("// gain\n__device__ inline float twice(float x) { return 2.f * x; }\n"
                                             "__device__ float gain(float x, const float y) { return twice(x) * y; }\n")
        text = "store gain(acc, bias[n]) as y : bf16"
        out, _ = self.unisono("explain", text, "--device", "cuda", "--conv", "1,8,8,16->16,3x3", "--function", "gain.cu")
        self.assertIn("return twice(x) * y;", out)
        self.assertIn("::gain(", out)
        self.refused("run", text, "--gemm", "5,6->8", "--random", "--function", "gain.cu", code=UNSUPPORTED, says="gain has CUDA text only")
        self.refused("run", text, "--gemm", "5,6->8", "--random", "--device", "cuda", "--check", "--function", "gain.cu", code=UNSUPPORTED, says="leave --check out")
        for name, content in (("none.cu", None), ("empty.cu", ""), ("host.cu", "float gain(float x) { return x; }"), ("kernel.cu", "__global__ void k() {}")):
            if content is not None:
                (self.folder / name).write_text(content)
            self.refused("explain", text, "--function", name, says=name)
        self.refused("explain", text, "--function", "gain.cu", "--function", "gain.cu", says="is defined twice")
        (self.folder / "gain.cu").write_text("__device__ float gain(double x) { return x; }\n")
        self.refused("explain", text, "--function", "gain.cu", says=("--function gain.cu", "the parameters of gain are not all float"))

    def test_functions_with_integers_and_captured_memory(self):
        (self.folder / "two.cu").write_text("__device__ float at_row(float x, long long row, const float* table) { return x + table[row]; }\n"
                                            "__device__ float half(float x) { return 0.5f * x; }\n")
        out, _ = self.unisono("explain", "store half(at_row(acc, index(m))) as y : bf16", "--device", "cuda", "--gemm", "64,64->64",
                              "--function", "two.cu")
        self.assertIn("::at_row(acc, static_cast<long long>(row.", out)
        self.assertIn("static_cast<const float*>(u.captured__table))", out)
        self.assertIn("::half(", out)


class Symbols(Case):
    """A model whose inputs have several symbols."""

    def setUp(self):
        super().setUp()
        self.model = self.folder / "two.onnx"
        shape = ("batch", "height", "width")
        info = [onnx_file.value_info(name, onnx_file.FLOAT, shape) for name in ("x", "y", "sum")]
        self.model.write_bytes(onnx_file.model([onnx_file.node("Add", ["x", "y"], ["sum"])], info[:2], info[2:]))

    def test_all_missing_symbols_are_named_at_once(self):
        self.refused("run", self.model, "--random", says=("'height', 'width'", "--dim height=NUMBER --dim width=NUMBER"))

    def test_a_misspelt_symbol_is_named_before_those_that_are_missing(self):
        self.refused("run", self.model, "--random", "--dim", "hieght=3", says=("no symbol 'hieght'", "batch, height, width"))

    def test_shapes_give_the_symbols(self):
        shown = self.json("run", self.model, "--random", "--shape", "x=2x3x4", "--repeat", "1")
        self.assertEqual(shown["inputs"]["y"]["shape"], [2, 3, 4])
        self.refused("run", self.model, "--random", "--shape", "x=2x3", says=("--shape x=2x3", "(batch,height,width)"))
        self.refused("run", self.model, "--random", "--shape", "z=2x3x4", says=("no such input", "'x', 'y'"))
        self.refused("run", self.model, "--random", "--shape", "x=2x3x4", "--shape", "y=2x3x5", says=("'width' would be 5", "given as 4"))
        for shape in ("x=2x", "x", "x=", "=2x3", "x=2x0", "x=2,3", "x=99999999999999999999"):
            self.refused("run", self.model, "--random", "--shape", shape, says="NAME=AxBxC")
        self.refused("run", self.model, "--random", "--shape", "x=2x3x4", "--shape", "x=2x3x4", says="'x' is given twice")
        self.refused("run", self.model, "--random", "--dim", "batch=2", "--dim", "batch=3", says="'batch' is given as 2 and as 3")
        self.assertEqual(self.json("explain", self.model, "--shape", "x=2x3x4")["kind"], "network")


if __name__ == "__main__":
    main()
