"""PyTorch: operators of the dispatcher with fake kernels and autograd formulas.

Imported by itself when `unisono.conv2d` or `unisono.gemm` meets a PyTorch tensor that requires a gradient, or is
traced.
"""
