"""unisono emit: the files, what is refused, and programs that check themselves on the emulated GPU: for every example of
examples/epilogues and each family of ours, compiled from the file that a user gets.

usage: test_emit.py COMMAND SOURCES TOOLKIT CUDA_INCLUDE COMPILER [I/N]

I/N: every N-th of the programs, from the I-th on (0 to N - 1), and nothing else."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import emulated
from command import SOURCES, UNSUPPORTED, Case, main

TOOLKIT, CUDA_INCLUDE, COMPILER = pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5]
EXAMPLES, GOLDEN = SOURCES / "examples" / "epilogues", SOURCES / "tests" / "golden" / "emit"
DENSE = ("store relu(acc + bias[n]) as y : bf16", "--gemm", "96,72->64")

# A shape, and a plan, for each of examples/epilogues
SHAPES = {
    "linear_combination": ("--gemm", "96,72->64,nn"),
    "bias_gelu_aux": ("--gemm", "100,72->64"),
    "clamp_limits": ("--gemm", "96,72->64"),
    "cross_entropy": ("--gemm", "96,72->64"),
    "cross_entropy_transposed": ("--gemm", "64,72->96,tn"),
    "cross_entropy_gradient": ("--gemm", "96,72->64"),
    "three_residuals": ("--gemm", "96,72->64"),
    "silu_half": ("--gemm", "2,40,72->64"),
    "swiglu": ("--gemm", "64,128->96"),
    "conv_mish_residual": ("--conv", "1,12,12,32->64,3x3"),
    "conv_group_norm": ("--conv", "2,16,16,64->64,3x3", "--plan", "mode=resident"),
    "depthwise_relu": ("--conv", "1,16,16,64->64,3x3,groups=64"),
}
# What they do not have: other ways to normalise, load and store, types, and family plain
FURTHER = {
    "streamed": (
        "y = silu(group_norm(acc + bias[n], groups=8)); store y : bf16",
        "--conv",
        "2,16,16,64->64,3x3",
        "--plan",
        "mode=streamed",
    ),
    "gated_convolution": (
        "x = sigmoid(acc0 + bias[n]) * acc1; store x as gated : bf16; store silu(group_norm(x, groups=8)) as y : bf16",
        "--conv",
        "2,16,16,64->64,3x3",
        "--plan",
        "mode=resident load=halo",
    ),
    "plain_dense": ("store relu(acc + bias[n]) as y : f32", "--gemm", "50,40->30", "--plan", "family=plain"),
    "plain_norm": (
        "store group_norm(acc, groups=3, scale=g[n]) as y : f16",
        "--conv",
        "1,7,9,5->12,3x3,stride=2,layout=nchw,dtype=f16",
        "--plan",
        "family=plain",
    ),
    "stem": (
        "store relu(acc + bias[n]) as y : bf16",
        "--conv",
        "1,20,20,3->32,3x3,stride=2,layout=nchw",
        "--plan",
        "load=gather",
    ),
    "planes": (
        "store relu(acc + bias[n]) as y : bf16",
        "--conv",
        "2,12,12,20->32,3x3,layout=nchw",
        "--plan",
        "load=im2col",
    ),
    "planes_norm": (
        "store silu(group_norm(acc, groups=8, scale=gamma[n], shift=beta[n])) as y : bf16",
        "--conv",
        "2,16,16,64->64,3x3,layout=nchw",
        "--plan",
        "load=im2col",
    ),
    "enlarging": (
        "operand bias[n] = 0.5; store silu(acc + bias) as y : bf16",
        "--conv",
        "1,8,8,16->32,2x2,transposed,stride=2,pad=0",
    ),
    "kinds": (
        "operand label[m] : i32; y = acc * one_hot(label) + pos[h,w]; store y : f32; store acc > 0 as p : bool; "
        "store index(n) + index(m) as k : i32; store max(y, over=n) as most : f32",
        "--conv",
        "1,8,8,32->64,1x1",
    ),
    "integers": (
        "k = index(n) - 7; l = index(m) * 3; store abs(k) + square(k) + max(k, 3)*min(k, l) - relu(k) + (-l)*k + k as i : i32; "
        "store select(k < l, acc, cast(k, f32)) as y : f32; store !(k == l) & (acc > 0.5) as b : bool",
        "--gemm",
        "40,32->48",
    ),
    "rounded": (
        "h = cast(acc, f16); g = cast(h * h, bf16); store h - g as y : bf16; store cast(acc, tf32) as t : f32",
        "--gemm",
        "40,32->48",
    ),
    "attention": ("store softmax(acc*0.125) as p : bf16", "--gemm", "2,64,32->48"),
}


class Emitting(Case):
    def emitted(self, *arguments, name="kernel"):
        out = self.unisono("emit", *arguments, "--name", name, "--out", "out")[0]
        self.assertEqual(out, f"out/{name}.cu\nout/{name}.h\n")
        return self.folder / "out" / f"{name}.cu"

    def built(self, source, *replaced):
        """The self check for the emulated GPU; `replaced`: pairs of texts, the second in place of the first."""
        text = source.read_text()
        for before, after in replaced:
            self.assertIn(before, text)
            text = text.replace(before, after)
        source.write_text(text)
        return emulated.build(source, self.folder / f"build_{source.stem}_{len(replaced)}", SOURCES, TOOLKIT, CUDA_INCLUDE, COMPILER)

    def run_check(self, program, **environment):
        return subprocess.run([program], capture_output=True, text=True, timeout=300, env=dict(os.environ, UNISONO_EMULATOR_SMS="132", **environment))

    def assert_checks(self, source):
        result = self.run_check(self.built(source))
        self.assertEqual(result.returncode, 0, f"{source.stem}: {result.stdout}{result.stderr}")
        self.assertRegex(result.stdout, r": 0 of \d+ elements differ")


class Emit(Emitting):
    # ---- The files

    def test_same_text_again_and_over_its_own(self):
        first = self.emitted(*DENSE)
        texts = first.read_text(), first.with_suffix(".h").read_text()
        self.assertEqual((self.emitted(*DENSE).read_text(), first.with_suffix(".h").read_text()), texts)
        self.emitted("store acc as y : bf16", "--gemm", "96,72->64")
        self.assertNotEqual(first.read_text(), texts[0])

    def test_leaves_files_of_others(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "kernel.h").write_text("int mine;\n")
        self.refused("emit", *DENSE, "--out", "out", says="out/kernel.h exists")
        self.assertEqual([p.name for p in (self.folder / "out").iterdir()], ["kernel.h"])

    def test_names(self):
        for name in ("2nd", "a-b", "", "int", "math", "cuda"):
            self.refused("emit", *DENSE, "--name", name, says="--name: ")

    def test_members_are_names_of_c(self):
        text = (
            "operand left[m,n] : bf16; operand left_operand[m,n] : bf16; operand class[m,n] : bf16; "
            "operand m[m,n] : bf16; z = acc * NULL[] + left + left_operand + class + m + errno[n] + restrict[]; "
            "store z as y : bf16; store acc as d : f32; store relu(z) as side : f32"
        )
        for name, plan in (("own", ""), ("cutlass", "family=cutlass_evt"), ("old", "family=cutlass_evt arch=sm80")):
            header = self.emitted(text, "--gemm", "96,72->64", "--plan", plan, name=name).with_suffix(".h")
            compiled = subprocess.run(
                [
                    COMPILER,
                    "-x",
                    "c",
                    "-std=c99",
                    "-Wall",
                    "-Werror",
                    "-fsyntax-only",
                    "-include",
                    "errno.h",
                    "-include",
                    str(header),
                    os.devnull,
                ],
                capture_output=True,
                text=True,
            )
            self.assertEqual(compiled.returncode, 0, f"{compiled.stderr}\n{header.read_text()}")
        self.assertRegex(header.read_text(), r"void\* d; +/\* output (y|d|side)\[m,n\], ")

    def test_dual_products_of_cutlass(self):
        source = self.emitted(
            EXAMPLES / "swiglu.txt", "--gemm", "64,128->96", "--plan", "family=cutlass_evt", name="gated"
        )
        text = source.read_text()
        self.assertIn("using Kernel = DualWithVisitors<", text)
        self.assertIn("    const void* b1;  /* the second B, ", source.with_suffix(".h").read_text())
        self.assertNotRegex(text, r"\bunisono::|namespace unisono\b")  # two such files may meet in one program

    def test_gradients_of_cutlass(self):
        text = "operand c[m,n] : f32; store alpha[] * acc + beta[] * c as dw : f32"
        source = self.emitted(text, "--conv", "2,17,13,64->72,3x2,stride=1x2,wgrad", "--plan", "family=cutlass_evt", name="gradient")
        self.assertIn("Operator::kWgrad", source.read_text())
        self.assertIn("OneExtentOfColumns", source.read_text())
        self.assertIn("p.window = {2, 17, 13, 17, 6, 3, 2, 1, 2, 1, 0, 1, 0, 1, 1, 0};", source.read_text())
        self.assertIn("A is dY (images, p, q, m)", source.with_suffix(".h").read_text())
        self.assertNotRegex(source.read_text(), r"\bunisono::|namespace unisono\b")
        self.refused("emit", text, "--conv", "2,17,13,64->72,3x2,wgrad", code=UNSUPPORTED, says="plan=family=cutlass_evt")
        self.refused("emit", text, "--conv", "2,17,13,64->72,3x2,wgrad,groups=2", says="leave out transposed, groups")

    def test_grouped_products_of_cutlass(self):
        text = "store silu(acc + bias[n]) * weight[m] as y : bf16"
        source = self.emitted(text, "--gemm", "100+28+300,128->256", "--plan", "family=cutlass_evt", name="grouped")
        self.assertIn("KernelPtrArrayTmaWarpSpecialized", source.read_text())
        for rows in (100, 28, 300):
            self.assertIn(f"p.groups.rows[p.groups.count++] = {rows};", source.read_text())
        self.assertIn("    int groups, unused_groups;\n    int group_rows[256];\n", source.with_suffix(".h").read_text())
        other = self.emitted(text, "--gemm", "100+28,128->256", "--plan", "family=cutlass_evt arch=sm100a", name="grouped100")
        self.assertIn("KernelPtrArrayTmaWarpSpecialized1SmSm100", other.read_text())
        self.assertIn("epilogue::PtrArrayTmaWarpSpecialized1Sm", other.read_text())
        self.refused("emit", text, "--gemm", "100+28,128->256", code=UNSUPPORTED, says="a grouped product")
        self.refused("emit", text, "--gemm", "100+0,128->256", says="rows of a group is 0")
        self.refused("emit", text, "--gemm", "2,100+28,128->256", says="grouped product has batch 1")
        self.refused("emit", text, "--gemm", "100+,128->256", says="is not understood")

    def test_architectures_of_cutlass(self):
        for arch, code in (("sm90a", "compute_90a,code=sm_90a"), ("sm80", "compute_80,code=compute_80"),
                           ("sm100a", "compute_100a,code=sm_100a"), ("sm120", "compute_120,code=sm_120")):
            text = self.emitted(*DENSE, "--plan", f"family=cutlass_evt arch={arch}", name=arch).read_text()
            self.assertIn(f"-gencode=arch={code} ", text)
            tested = {"sm90a": "run and checked", "sm80": "run and checked"}.get(arch, "compiled, never run")
            self.assertIn("for this architecture: " + tested, text)

    def test_limits_of_cutlass_differ(self):
        text = self.emitted(
            EXAMPLES / "clamp_limits.txt", "--gemm", "96,72->64", "--plan", "family=cutlass_evt"
        ).read_text()
        self.assertRegex(text, r"value\d+ = 0\.25f;[^;]*;[^;]*value\d+ = 1\.5f;")

    def test_paths(self):
        (self.folder / "a b").mkdir()
        (self.folder / "a b" / "my text.txt").write_text(DENSE[0])
        self.unisono("emit", "a b/my text.txt", *DENSE[1:], "--out", 'a b/"y"')
        self.assertTrue((self.folder / "a b" / '"y"' / "kernel.cu").exists())
        (self.folder / "file").write_text("")
        self.refused("emit", *DENSE, "--out", "file", code=None, says="file")
        self.refused("emit", *DENSE, "--out", "/proc/nowhere", code=None, says="/proc/nowhere")
        (self.folder / "out" / "kernel.cu").mkdir(parents=True)
        self.refused("emit", *DENSE, "--out", "out", code=None, says="kernel.cu")

    def test_subjects(self):
        self.refused("emit", SOURCES / "models" / "heatmap_unet", says="kernel of one epilogue")
        self.refused("emit", SOURCES / "bench" / "cases" / "gemm.txt", says="has several cases")
        self.refused("emit", DENSE[0], says="--gemm")
        self.assertFalse((self.folder / "kernel.cu").exists())

    def test_what_no_kernel_serves(self):
        self.refused("emit", "store acc as y : f64", *DENSE[1:], code=None, says="f64")
        self.refused("emit", *DENSE, "--plan", "family=cutlass_evt tile=128x7", code=None, says="tile")
        self.refused(
            "emit",
            DENSE[0],
            "--conv",
            "1,8,8,16->16,3x3,groups=2",
            "--plan",
            "family=cutlass_evt",
            code=UNSUPPORTED,
            says="of one group",
        )

    def test_functions_of_the_user(self):
        (self.folder / "f.cu").write_text("__device__ float twice(float x) { return 2 * x; }\n"
                                          "__device__ float looked_up(float x, int n, const float* table) { return x + table[n]; }\n")
        source = self.emitted("store twice(acc) as y : bf16", *DENSE[1:], "--function", "f.cu")
        self.assertIn('#error "the epilogue calls twice, which has no float64 form: no self check"\n', source.read_text())
        source = self.emitted("store looked_up(acc, index(n)) as y : bf16", *DENSE[1:], "--function", "f.cu")
        self.assertIn("  void* table;  /* captured pointer table */\n", source.with_suffix(".h").read_text())

    def test_one_file_of_functions_in_two_kernels(self):
        (self.folder / "f.cu").write_text("#include <math.h>\n__device__ float half(float x) { return x / 2; }\n"
                                          "__device__ float halved(float x) { return ::half(fabsf(x)); }\n")
        objects = []
        for name, plan in (("one", "family=plain"), ("other", "family=plain"), ("cutlass", "family=cutlass_evt")):
            source = self.emitted("store halved(acc) as y : bf16", *DENSE[1:], "--plan", plan, "--function", "f.cu", name=name)
            self.assertRegex(source.read_text(), rf"#include <math.h>\ninline namespace unisono_{name}_functions {{\n__device__ float half")
            if plan == "family=plain":
                objects.append(str(self.folder / f"{name}.o"))
                # diagnostics are as before behind the file
                said = emulated.compiled(source, self.folder / f"object_{name}", SOURCES, CUDA_INCLUDE, COMPILER,
                                         ["-O0", "-fPIC", "-Wunused-parameter", "-c", "-o", objects[-1]], "static int behind(int mine) { return 0; }")
                self.assertEqual(re.findall(r"unused parameter .(\w+)", said), ["mine"], said)
        linked = subprocess.run([COMPILER, "-shared", *objects, "-o", str(self.folder / "both.so")], capture_output=True, text=True)
        self.assertEqual(linked.returncode, 0, linked.stderr)

    def test_stands_by_itself(self):
        text = self.emitted(*DENSE, name="alone").read_text()
        self.assertEqual(sorted(set(re.findall(r"#include\s+(\S+)", text))),
                         ['"alone.h"', "<algorithm>", "<cuda.h>", "<cuda_runtime.h>", "<functional>", "<initializer_list>", "<limits>", "<math.h>",
                          "<stdint.h>", "<stdio.h>", "<stdlib.h>", "<string.h>", "<thread>", "<vector>"])
        self.assertNotRegex(text, r"\bunisono::|namespace unisono\b")  # two such files may meet in one program

    def test_recorded(self):
        recorded = {"dense": DENSE, "block": ((EXAMPLES / "conv_group_norm.txt"), *SHAPES["conv_group_norm"]),
                    "depthwise": ((EXAMPLES / "depthwise_relu.txt"), *SHAPES["depthwise_relu"]), "plain": FURTHER["plain_norm"]}
        for name, arguments in recorded.items():
            source = self.emitted(*arguments, name=name)
            for file, text in ((source.name, emulated.headers_of(source.read_text())[0]), (f"{name}.h", source.with_suffix(".h").read_text())):
                if os.environ.get("UNISONO_WRITE_GOLDEN"):
                    GOLDEN.mkdir(parents=True, exist_ok=True)
                    (GOLDEN / file).write_text(text)
                self.assertEqual(text, (GOLDEN / file).read_text(), f"tests/golden/emit/{file}; UNISONO_WRITE_GOLDEN=1 writes it anew")

    # ---- Programs

    def test_every_example_has_a_shape(self):
        self.assertEqual({p.stem for p in EXAMPLES.glob("*.txt")}, set(SHAPES))

    def test_every_function(self):
        table = (SOURCES / "include" / "unisono" / "functions.def").read_text()
        names = re.findall(r"^UNISONO_FUNCTION(?:_\d)?\((\w+)", table, re.M)
        self.assertGreater(len(names), 20)
        limits = {"clamp": ", lower=0.25, upper=0.75"}
        sums = " + ".join(f"{name}(x{limits.get(name, '')})" for name in names)
        text = f"x = 0.5 + abs(acc) * 0.01; store {sums} as y : f32; store pow(x, 1.5) / min(x, 0.75) - max(x, 0.5) as z : f32"
        self.assert_checks(self.emitted(text, "--gemm", "40,32->48", name="functions"))

    def test_find_faults(self):
        source = self.emitted(EXAMPLES / "bias_gelu_aux.txt", *SHAPES["bias_gelu_aux"], name="faulty")
        first = "constexpr Map maps_elements[] = {\n    {0, 0, 0, "  # the left matrix, from another element on
        program = self.built(source, (first, first.replace("{0, 0, 0,", "{0, 0, 64,")))
        result = self.run_check(program)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("WRONG", result.stdout)

    def test_say_what_is_wrong(self):
        source = self.emitted(EXAMPLES / "conv_group_norm.txt", *SHAPES["conv_group_norm"], name="misused")
        whole = source.read_text()
        program = self.built(source, ("a.workspace_bytes = misused_workspace_bytes();", "a.workspace_bytes = misused_workspace_bytes(); misused_ask();"),
                             ("int main() {", MISUSES + "int main() {"))
        source.write_text(whole)
        said = self.run_check(program).stdout.splitlines()
        self.assertEqual(said[:2], ["no arguments were given", "image: null; expected bf16 (2,16,16,64) in GPU memory"])
        self.assertRegex(said[2], "^gamma: .* multiple of 4 bytes$")
        self.assertRegex(said[3], r"^workspace: fewer than \d+ bytes$")
        other = self.run_check(program, UNISONO_EMULATOR_CAPABILITY="86")
        self.assertIn("the current device is not of compute capability 9.0, which the kernel is for", other.stdout)


class Programs(Emitting):
    def test_check_themselves(self):
        programs = [(name, EXAMPLES / f"{name}.txt", *shape) for name, shape in SHAPES.items()]
        programs += [(name, *arguments) for name, arguments in FURTHER.items()]
        first, step = (int(n) for n in sys.argv[6].split("/"))
        for name, *arguments in programs[first::step]:
            self.assert_checks(self.emitted(*arguments, name=name))


MISUSES = """static void misused_ask() {
  static float memory[64];
  const auto say = [](int status) { printf("%s\\n", misused_text(status)); };
  misused_arguments a{};
  say(misused_run(nullptr, nullptr));
  say(misused_run(&a, nullptr));
  a.image = a.filter = a.bias = a.beta = a.y = a.workspace = reinterpret_cast<void*>(4096);
  a.gamma = reinterpret_cast<char*>(memory) + 2;
  say(misused_run(&a, nullptr));
  a.gamma = memory;
  say(misused_run(&a, nullptr));
}
"""

if __name__ == "__main__":
    main("Programs" if len(sys.argv) > 6 else "Emit")
