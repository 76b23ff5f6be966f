"""quack's products with an epilogue (quack-kernels of PyPI, written in CUTLASS's Python language), as a peer of
torch_gpu.py. Needs pip install "quack-kernels[cu13]" cloudpickle; a case whose epilogue is none of quack's is an
error with its text.
"""
import re

# an epilogue's text, without blanks and the types of stores -> (quack's activation, whether gate and up are stored too)
GATED = {
    "store silu(acc0)*acc1 as y": ("swiglu", False),
    "store acc0 as gate; store acc1 as up; store silu(acc0)*acc1 as y": ("swiglu", True),
    "store gelu_tanh(acc0+gate_bias[n])*(acc1+up_bias[n]) as y": ("geglu", False),
}
SINGLE = {
    "store silu(acc+bias[n]) as y": "silu",
    "store relu(acc+bias[n]) as y": "relu",
    "store gelu_tanh(acc+bias[n]) as y": "gelu_tanh_approx",
}


def plain(text):
    """A text as the keys above have it: no declarations, comments, types or blanks around operators."""
    lines = [line.split("#")[0].strip() for line in re.split(r"[\n;]", text)]
    lines = [re.sub(r"\s*:\s*\w+$", "", line) for line in lines if line and not line.startswith("operand ")]
    unnamed = re.compile(r"store (?!.* as \w+$)")
    named = [line + " as y" if unnamed.match(line) else line for line in lines]
    return "; ".join(re.sub(r"\s*([*+(,])\s*|\s+(?=\))", r"\1", line) for line in named)


def make_function(torch, case):
    """f(x (m,k), w (n,k) or (2n,k), operands (n)…), checked once against PyTorch. quack takes gate and up as every
    other column of the product; columns are random here, so only what the check expects is ordered so."""
    if "product" not in case:
        raise NotImplementedError("quack has products alone")
    from quack.gemm_interface import gated_to_pytorch_fn_map, gemm_act, gemm_gated
    text = plain(case["text"])
    if case["product"].get("products", 1) == 2:
        if text not in GATED:
            raise NotImplementedError(f"quack has no epilogue {text}")
        activation, stored = GATED[text]

        def run(x, w, *biases):
            bias = torch.stack(biases, 1).flatten() if biases else None
            return gemm_gated(x, w.mT, bias=bias, activation=activation, store_preact=stored)

        def expected(x, w, *biases):
            h = x.float() @ w.float().mT + (torch.stack(biases, 1).flatten().float() if biases else 0)
            return gated_to_pytorch_fn_map[activation](h[:, ::2], h[:, 1::2])
    elif text in SINGLE:
        import torch.nn.functional as F
        activation = SINGLE[text]

        def run(x, w, bias):
            return gemm_act(x, w.mT, bias=bias, activation=activation, store_preact=False)

        def expected(x, w, bias):
            h = x.float() @ w.float().mT + bias.float()
            gelu = lambda t: F.gelu(t, approximate="tanh")  # noqa: E731
            return {"silu": F.silu, "relu": F.relu, "gelu_tanh_approx": gelu}[activation](h)
    else:
        raise NotImplementedError(f"quack has no epilogue {text}")
    return Checked(torch, run, expected)


class Checked:
    """Compares its first result, and only that, with PyTorch's in f32."""

    def __init__(self, torch, run, expected):
        self.torch, self.run, self.expected = torch, run, expected

    def __call__(self, *operands):
        result = self.run(*operands)
        if self.expected:
            y, right = result[-1].float(), self.expected(*operands)
            error = ((y - right).norm() / right.norm()).item()
            if not error < 1e-2:
                raise ArithmeticError(f"quack's result differs from PyTorch's: relative L2 {error:.3g}")
            self.expected = None
        return result
