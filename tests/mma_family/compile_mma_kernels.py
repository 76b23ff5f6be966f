"""Kernels of family mma through nvcc and ptxas, for every architecture that runs them: registers, spills, shared memory.

usage: compile_mma_kernels.py COMMAND SOURCES NVCC [--all] [--table FILE]

Each kernel is planned for a GPU of its architecture by name. Without --all, each goes to one architecture in turn; with it to
all. Fails if one does not compile, takes more than 255 registers or more shared memory than its GPU has, or spills.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

COMMAND, SOURCES, NVCC = sys.argv[1:4]
GPUS = {"sm_80": "A100", "sm_86": "RTX 3090", "sm_89": "RTX 4090", "sm_90": "H200", "sm_100": "B200", "sm_103": "B300", "sm_120": "RTX 5090"}
SHARED = {"sm_80": 166912, "sm_86": 101376, "sm_89": 101376, "sm_90": 232448, "sm_100": 232448, "sm_103": 232448, "sm_120": 101376}
BIAS = "store silu(acc + bias[n]) as y : bf16"
NORM = "store silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])) as y : bf16"
MISH = "store mish(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])) as y : f32"
RESIDUAL = "operand r[m,n] : bf16\nh = acc + bias[n] + t[b,n]\nstore h as h : bf16\nstore silu(h) + r as y : bf16"
CONV = ("--conv", "8,64,64,320->320,3x3")
# A group norm's backward pass, without its activation
BACKWARD = ("operand h[m,n] : bf16\ndh = acc * gamma[n]\n"
            "store rstd[b,g32] * (dh - mean(dh, over=(m,n), per=b, groups=32) - h * mean(dh * h, over=(m,n), per=b, groups=32)) as dx : bf16\n"
            "store sum(acc * h, over=m) as dgamma : f32\nstore sum(acc, over=m) as dbeta : f32")
CENTRED = "store acc - mean(acc, over=m, per=b) as y : bf16\nstore acc * max(acc, over=m) as z : bf16"
# An epilogue, its shape, and what is fixed of the plan
KERNELS = [
    (BIAS, CONV, "tile=128x128x64 stages=3"),
    (BIAS, CONV, "tile=128x160x32 stages=3"),
    (BIAS, ("--gemm", "4096,4096->4096,nn"), "tile=256x128x32 stages=3 warps=8"),
    (BIAS, ("--gemm", "4096,4096->4096,tt"), "tile=128x64x64"),
    (NORM, CONV, "tile=128x64x64 stages=2"),
    (NORM, CONV, "tile=128x128x32 stages=3 mode=streamed"),
    (MISH, ("--conv", "8,64,64,320->320,3x3,dtype=f16"), "tile=128x128x32 stages=3"),
    (RESIDUAL, CONV, "tile=128x128x32 stages=3"),
    ("store softmax(acc + bias[n], over=n) as y : bf16", ("--gemm", "4096,512->512,nt"), "tile=64x128x64"),
    ("store layer_norm(acc + bias[n]) as y : bf16", ("--gemm", "4096,512->1024,nt"), "tile=128x128x32"),
    ("store relu(acc) as y : bf16\nstore sum(relu(acc), over=m) as s : f32", ("--conv", "8,32,32,64->128,3x3"), "tile=128x64x32"),
    (BIAS, ("--conv", "8,224,224,3->64,7x7,stride=2"), "tile=128x64x32"),
    (BIAS, ("--gemm", "4096,4096->4096,nt,dtype=f32"), "tile=128x128x16"),
    (BIAS, ("--conv", "8,32,32,12->64,3x3"), "tile=64x64x32"),
    ("store silu(acc0) * acc1 as y : bf16", ("--gemm", "4096,4096->4096,nt"), "tile=128x64x64 stages=3"),
    (BIAS, ("--conv", "2,8,8,1280->1280,3x3"), "tile=128x128x32 stages=3 parts=4"),
    (BIAS, ("--conv", "8,64,64,320->320,3x3,stride=2,transposed"), "tile=128x128x64 stages=3"),
    (NORM, ("--conv", "8,32,32,6->64,3x3"), "tile=64x64x32 mode=streamed"),
    (BACKWARD, ("--conv", "8,128,128,64->256,3x3"), "tile=128x64x32 mode=streamed"),
    (CENTRED, ("--conv", "8,128,128,64->256,3x3"), "tile=64x64x32 mode=general"),
    ("store softmax(acc, over=n) as y : bf16", ("--gemm", "64,512->131072"), "tile=64x64x32 mode=general"),
]


def compiled(text, shape, plan, arch, folder):
    command = [COMMAND, "explain", text, *shape, "--device", "cuda", "--gpu", GPUS[arch], "--plan", f"family=mma {plan}", "--json"]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    source = pathlib.Path(folder, "kernel.cu")
    source.write_text(shown["source"])
    done = subprocess.run([NVCC, "-std=c++20", "--expt-relaxed-constexpr", f"-arch={arch}", f"-I{SOURCES}/kernels", "-cubin", "-Xptxas", "-v",
                           "-o", f"{folder}/kernel.cubin", str(source)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{arch}: {shown['plan']}\n{done.stderr}")
    registers = int(re.search(r"Used (\d+) registers", done.stderr)[1])
    spilled = int(re.search(r"(\d+) bytes spill stores", done.stderr)[1])
    kilobytes = int(re.search(r"(\d+) KB", shown["plan"])[1])
    return {"arch": arch, "plan": shown["plan"], "registers": registers, "spilled_bytes": spilled, "shared_kb": kilobytes}


def main():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for i, (text, shape, plan) in enumerate(KERNELS):
            for arch in GPUS if "--all" in sys.argv else [list(GPUS)[i % len(GPUS)]]:
                rows.append(compiled(text, shape, plan, arch, folder))
                print("{arch}: {registers} registers, {spilled_bytes} bytes spilled, {plan}".format(**rows[-1]), flush=True)
    if "--table" in sys.argv:
        pathlib.Path(sys.argv[sys.argv.index("--table") + 1]).write_text(json.dumps(rows, indent=1) + "\n")
    bad = [r for r in rows if r["spilled_bytes"] > 0 or r["registers"] > 255 or r["shared_kb"] * 1024 > SHARED[r["arch"]]]
    sys.exit("\n".join(["these spill, or take more than there is:", *map(str, bad)]) if bad else 0)


main()
