"""Run by test_emulated_gpu.py, with the emulated GPU for the driver: a rank that builds a kernel and runs it, or is killed."""

import sys

import numpy as np

import on_emulated_gpu as gpu
import unisono as u


def main(scale):
    """Says "building" and compiles a kernel; prints "right" if it computes what the CPU does."""
    gpu.context()
    contraction = u.Gemm(m=64, n=64, k=32, dtype_a=u.DType.f16, dtype_b=u.DType.f16)
    graph = u.parse(f"store silu(acc * {scale}) as y : f16\n")
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((64, 32), (32, 64)))
    y = np.zeros((64, 64), np.float16)
    u.compile(contraction, graph).run(a, b, outputs={"y": y})
    print("building", flush=True)
    kernel = u.compile(contraction, graph, device=u.Device.cuda)
    result = gpu.Memory(np.full((64, 64), np.nan, np.float16), u.DType.f16)
    kernel.run(gpu.Memory(a, u.DType.f16).tensor(), gpu.Memory(b, u.DType.f16).tensor(), outputs={"y": result.tensor()})
    error = np.abs(result.get().astype(np.float64) - y.astype(np.float64)).max()
    print("right" if error <= 2.0**-9 * np.abs(y).max() else f"off by {error}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
