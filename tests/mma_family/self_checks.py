"""Programs that run kernels of family mma and check every element, as portable code (compute_80) that the driver compiles for
whatever GPU from sm_80 on there is: an A100's and an RTX 3090's plans, with their shared memory and SMs, on a Hopper card.

usage: self_checks.py COMMAND NVCC FOLDER       writes FOLDER/check_0, …; needs no GPU
       for f in FOLDER/check_*; do "$f" || echo "WRONG $f"; done       on one
"""

import pathlib
import subprocess
import sys

COMMAND, NVCC, FOLDER = sys.argv[1:4]
BIAS = "store silu(acc + bias[n]) as y : bf16"
NORM = "store silu(group_norm(acc + bias[n], groups={}, scale=gamma[n], shift=beta[n])) as y : bf16"
MISH = "store mish(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])) as y : f32"
RESIDUAL = "operand r[m,n] : bf16\nh = acc + bias[n] + t[b,n]\nstore h as h : bf16\nstore silu(h) + r as y : bf16"
SUMS = "store relu(acc) as y : bf16\nstore sum(relu(acc), over=m) as s : f32\nstore max(acc, over=all, per=b) as top : f32"
BACKWARD = ("operand h[m,n] : bf16\ndh = acc * gamma[n]\n"
            "store rstd[b,g32] * (dh - mean(dh, over=(m,n), per=b, groups=32) - h * mean(dh * h, over=(m,n), per=b, groups=32)) as dx : bf16\n"
            "store sum(acc * h, over=m) as dgamma : f32\nstore sum(acc, over=m) as dbeta : f32")
CENTRED = "store acc - mean(acc, over=m, per=b) as y : bf16\nstore acc * max(acc, over=m) as z : bf16"
PROGRAMS = [
    (BIAS, "--conv", "2,33,31,64->96,3x3", ""),
    (BIAS, "--conv", "2,33,31,3->64,7x7,stride=2", ""),
    (BIAS, "--conv", "2,17,19,12->40,3x3,dilation=2", ""),
    (BIAS, "--conv", "2,17,19,64->96,3x3,groups=2", ""),
    (BIAS, "--conv", "2,17,19,64->96,3x3,stride=2,transposed", ""),
    (NORM.format(32), "--conv", "2,33,31,24->96,5x4,stride=3,transposed", ""),
    (BIAS, "--gemm", "1000,520->1032,nt", ""),
    (BIAS, "--gemm", "3,264,520->512,tn", ""),
    (BIAS, "--gemm", "250,333->129,nt", ""),
    (BIAS, "--gemm", "250,3333->129,nt", "tile=64x64 parts=4"),
    (NORM.format(32), "--conv", "2,8,8,640->640,3x3", "mode=resident parts=2"),
    (BIAS, "--gemm", "500,333->260,nt,dtype=f32", ""),
    (RESIDUAL, "--conv", "2,33,31,64->96,3x3", ""),
    ("store silu(acc0) * acc1 as y : bf16", "--gemm", "1000,520->1032,nt", ""),
    ("store silu(acc0) * acc1 as y : bf16", "--conv", "2,33,31,24->96,3x3", ""),
    (NORM.format(32), "--conv", "2,64,64,64->320,3x3", "mode=resident"),
    (NORM.format(32), "--conv", "4,96,96,64->320,3x3", "mode=streamed"),
    (NORM.format(5), "--conv", "2,33,31,9->35,3x3", ""),
    (BACKWARD, "--conv", "2,96,96,64->64,3x3", "tile=64x64x32 mode=streamed"),
    (CENTRED, "--conv", "2,192,192,8->64,1x1", "tile=64x16x32 mode=general"),
    ("store softmax(acc, over=n) as y : bf16", "--gemm", "70,64->16384,nt", "tile=64x16x32 mode=general"),
    (MISH, "--conv", "2,64,64,64->128,3x3,dtype=f16", "tile=128x128x32 stages=3"),
    ("store softmax(acc + bias[n], over=n) as y : bf16", "--gemm", "1000,256->1000,nt", ""),
    ("store layer_norm(acc + bias[n]) as y : bf16", "--gemm", "1000,256->1024,nt", ""),
    (SUMS, "--conv", "2,33,31,64->96,3x3", ""),
    (BIAS, "--conv", "2,64,64,64->320,3x3", "tile=256x128x32 warps=8"),
    (BIAS, "--conv", "2,64,64,64->320,3x3", "tile=128x160x64 stages=4"),
]


def build(i, gpu, text, kind, shape, plan):
    name = f"check_{i}"
    subprocess.run([COMMAND, "emit", text, kind, shape, "--gpu", gpu, "--plan", f"family=mma {plan}", "--name", name, "--out", FOLDER], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([NVCC, "-std=c++17", "-O2", "--expt-relaxed-constexpr", "-gencode", "arch=compute_80,code=compute_80", "-DUNISONO_SELF_CHECK",
                    f"{FOLDER}/{name}.cu", "-o", f"{FOLDER}/{name}"], check=True)
    print(name, gpu, kind, shape, plan, flush=True)


pathlib.Path(FOLDER).mkdir(parents=True, exist_ok=True)
for i, program in enumerate(PROGRAMS):
    build(i, "RTX 3090" if i % 3 == 2 and "stages=4" not in program[3] else "A100", *program)
