"""What random modules are made of: pieces of the code that people write, each valid for values of some shapes.

A motif is given the generator of random numbers and the shape of $x and returns (statement, members): `statement` is code
in which $x is the value, $y another one, $m the prefix of this statement's members, and $o the name of the result;
`members` are {suffix: constructor}. It returns None where it does not fit. No extent of a batch, an image or a sequence is
written as a number, so that a module runs at other sizes, too; extents that members have are.
"""

from __future__ import annotations

import math
from random import Random

Shape = tuple[int, ...]


def _widths(r: Random, most: int = 32) -> int:
    return r.choice([w for w in (1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 24, 32) if w <= most])


def _divisor(r: Random, n: int) -> int:
    return r.choice([d for d in range(1, n + 1) if n % d == 0]) if n else 1


def unary(r, s):
    text = r.choice([
        "F.relu($x)", "F.silu($x)", "F.gelu($x)", "F.gelu($x, approximate='tanh')", "F.mish($x)", "F.elu($x)", "F.celu($x, 0.7)",
        "F.selu($x)", "F.hardswish($x)", "F.hardsigmoid($x)", "F.softplus($x)", "F.relu6($x)", "F.leaky_relu($x, 0.1)",
        "torch.tanh($x)", "torch.sigmoid($x)", "torch.square($x)", "torch.abs($x)", "$x.clamp(-0.5, 0.7)", "$x.clamp(min=0)",
        "torch.exp(-$x.abs())", "torch.log1p($x.abs())", "torch.sqrt($x.abs() + 0.1)", "torch.rsqrt($x.square() + 0.5)",
        "torch.erf($x)", "torch.sin($x)", "torch.cos($x)", "torch.reciprocal(1 + $x.square())", "F.logsigmoid($x)", "F.softsign($x)",
        "torch.where($x > 0, $x, 0.1 * $x)", "2 - $x / 3", "-$x", "$x * 0.5 + 1", "($x + 3).relu() / 6 * $x", "$x * torch.sigmoid(1.702 * $x)",
        "torch.maximum($x, 0.2 * $x)", "F.threshold($x, 0.0, 0.0)", "$x.pow(2) * 0.3", "F.hardtanh($x)", "F.tanhshrink($x)"])
    return f"$o = {text}", {}


def in_place(r, s):
    text = r.choice(["$o = F.relu($x, inplace=True)", "$o = F.silu($x, inplace=True)", "$o = F.leaky_relu($x, 0.2, inplace=True)",
                     "$x.mul_(0.5); $o = $x", "$x.add_(0.25); $o = $x", "$o = $x; $o += 1", "$o = $x; $o *= torch.sigmoid($x)",
                     "$o = $x.clone(); $o[..., :1] = 0", "$o = $x.clone(); $o[:1] += 1", "$o = $x.clamp_(-1, 1)", "$o = $x.clone(); $o.copy_(2 * $x)",
                     "$o = $x.clone(); $o.transpose(0, -1).mul_(0.3)", "$o = torch.zeros_like($x); $o.add_($x)"])
    return text, {}


def joined_in_place(r, s):
    return r.choice(["$o = $x; $o += $y", "$o = $x.add_($y, alpha=0.5)", "$o = $x.clone(); $o.mul_($y)"]), {}


def together(r, s):
    text = r.choice(["$x + $y", "$x - $y", "$x * torch.sigmoid($y)", "$x * $y", "torch.add($x, $y, alpha=0.5)", "F.relu($x + $y)",
                     "torch.lerp($x, $y, 0.3)", "torch.maximum($x, $y)", "$x / (1 + $y.abs())", "torch.where($y > 0, $x, $y)",
                     "torch.addcmul($x, $y, $y, value=0.3)", "F.silu($x) * $y", "torch.cat([$x, $y], 1)", "torch.cat([$y, $x], -1)",
                     "torch.stack([$x, $y], 1).mean(1)", "torch.hypot($x, 1 + $y.abs())"])
    return f"$o = {text}", {}


def learned(r, s):
    """A scale and a shift of one dimension's extent."""
    if not s:
        return None
    at = r.randrange(len(s))
    shape = [1] * len(s)
    shape[at] = s[at]
    if r.random() < 0.4:
        shape = shape[at:]
    p = "nn.Parameter(torch.randn(%s))" % ", ".join(map(str, shape))
    return r.choice([("$o = $x * (1 + 0.2 * $ma) + $mb", {"a": p, "b": p}), ("$o = $x + $ma", {"a": p}), ("$o = $x * $ma", {"a": p})])


def reduced(r, s):
    if not s:
        return None
    d = r.randrange(-len(s), len(s))
    return "$o = " + r.choice([
        f"$x.mean({d}, keepdim=True)", f"$x.mean({d})", f"$x - $x.mean({d}, keepdim=True)", f"$x - $x.amax({d}, keepdim=True)",
        f"$x * $x.square().mean({d}, keepdim=True).add(1e-5).rsqrt()", f"$x.mean({d}, keepdim=True).expand_as($x)",
        f"torch.softmax($x, {d})", f"torch.log_softmax($x, {d})", f"$x.sum({d}) * 0.2", f"F.normalize($x, dim={d})",
        f"$x.std({d}, keepdim=True, correction=0) + $x", f"$x.cumsum({d}) * 0.2", f"torch.softmax($x, {d}) * $x"]), {}


def moved(r, s):
    """Views, permutations, slices, copies."""
    n = len(s)
    if n < 2:
        return r.choice(["$o = $x[None]", "$o = $x.unsqueeze(-1)", "$o = $x.clone()"]), {}
    a, b = r.sample(range(n), 2)
    order = r.sample(range(n), n)
    choices = [f"$x.transpose({a}, {b})", f"$x.permute({', '.join(map(str, order))})", f"$x.flip({a})", f"$x.roll(1, {a})", "$x.contiguous()",
               f"$x.transpose({a}, {b}).contiguous().transpose({a}, {b})", f"$x.narrow({a}, 0, ($x.shape[{a}] + 1) // 2)",
               f"torch.cat([$x, $x * 0.5], {a})", f"$x.unsqueeze({a})", f"$x.squeeze({a})", f"$x.select({a}, 0)", f"$x.movedim({a}, {b})",
               f"$x.flatten({min(a, b)}, {max(a, b)})", f"$x.mean({a}, keepdim=True).expand_as($x)", "$x.clone()",
               "$x[..., ::2]", "$x[:, ::2]", "$x[..., None].expand(*$x.shape, 2).mean(-1)", "$x.reshape($x.shape[0], -1)",
               f"$x.repeat_interleave(2, {a})", "$x[None].expand(2, *$x.shape).reshape(2 * $x.shape[0], *$x.shape[1:])"]
    if n == 4:
        choices += ["$x.contiguous(memory_format=torch.channels_last)"] * 3 + ["$x.flatten(2).transpose(1, 2)"] * 4 + ["$x.permute(0, 2, 3, 1)"] * 4
    if n == 3:
        choices += ["$x.transpose(1, 2)"] * 3 + ["$x.transpose(1, 2).unsqueeze(-1)", "$x.unflatten(1, ($x.shape[1], 1))"] * 2
    at = r.choice([d for d in range(n)])
    if s[at] and s[at] % 2 == 0:
        choices += [f"$x.unflatten({at}, (2, -1))", f"$x.unflatten({at}, (-1, 2))", f"$x.unflatten({at}, (-1, 2)).transpose({at}, {at + 1}).flatten({at}, {at + 1})"] * 2
    return "$o = " + r.choice(choices), {}


def cut(r, s):
    """Parts of a value and what gates are made of."""
    n = len(s)
    dims = [d for d in range(n) if s[d] and s[d] % 2 == 0 and d]
    if not dims:
        return None
    d = r.choice(dims + dims[-1:] * 2)
    act = r.choice(["F.silu", "torch.sigmoid", "F.gelu", "torch.tanh", "F.relu"])
    return r.choice([
        f"$oa, $ob = $x.chunk(2, {d}); $o = $oa * {act}($ob)", f"$oa, $ob = $x.chunk(2, {d}); $o = {act}($oa) * $ob",
        f"$o, $ob = $x.chunk(2, {d})", f"$ob, $o = $x.split($x.shape[{d}] // 2, {d})", f"$o = F.glu($x, {d})",
        f"$oa, $ob = $x.unflatten({d}, (-1, 2)).unbind({d + 1}); $o = $oa * {act}($ob)",
        f"$oa, $ob = $x.chunk(2, {d}); $o = torch.cat([$ob, $oa], {d})", f"$oa, $ob = $x.chunk(2, {d}); $o = torch.cat([-$ob, $oa], {d}) + $x",
        f"$oa, $ob = $x.chunk(2, {d}); $o = $oa.transpose(0, {d}).contiguous().transpose(0, {d}) + {act}($ob)"]), {}


def linear(r, s):
    if len(s) < 2 or not 0 < s[-1] <= 64:
        return None
    o, bias = _widths(r), r.random() < 0.7
    return r.choice([
        ("$o = $ma($x)", {"a": f"nn.Linear({s[-1]}, {o}, bias={bias})"}),
        ("$o = $x @ $ma", {"a": f"nn.Parameter(torch.randn({s[-1]}, {o}))"}),
        ("$o = F.linear($x, $ma.t(), $mb)", {"a": f"nn.Parameter(torch.randn({s[-1]}, {o}))", "b": f"nn.Parameter(torch.randn({o}))"}),
        ("$o = torch.einsum('...c,oc->...o', $x, $ma)", {"a": f"nn.Parameter(torch.randn({o}, {s[-1]}))"}),
        ("$o = $mb($ma($x).unflatten(-1, (2, -1)).mean(-2))", {"a": f"nn.Linear({s[-1]}, {2 * o})", "b": f"nn.Linear({o}, {o})"}),
        ("$o = $mb($f($ma($x)))".replace("$f", r.choice(["F.gelu", "F.relu", "F.silu"])) + (" + $x" if r.random() < 0.6 else ""),
         {"a": f"nn.Linear({s[-1]}, {2 * s[-1]})", "b": f"nn.Linear({2 * s[-1]}, {s[-1]})"}),
        ("$oa, $ob = $ma($x).chunk(2, -1); $o = $mb($oa * F.gelu($ob))", {"a": f"nn.Linear({s[-1]}, {2 * o})", "b": f"nn.Linear({o}, {s[-1]})"}),
        ("$o = $mb(F.silu($ma($x)) * $mc($x))", {"a": f"nn.Linear({s[-1]}, {o}, bias=False)", "b": f"nn.Linear({o}, {s[-1]}, bias=False)", "c": f"nn.Linear({s[-1]}, {o}, bias=False)"}),
        ("$o = $x + $x.mean(-2, keepdim=True) @ $ma", {"a": f"nn.Parameter(torch.randn({s[-1]}, {s[-1]}))"})])


def product(r, s):
    """Products of two computed values."""
    if len(s) < 2:
        return None
    return "$o = " + r.choice(["$x @ $x.mT * 0.2", "$x.mT @ $x * 0.2", "torch.matmul($x, $x.transpose(-1, -2).contiguous()) * 0.1", "torch.softmax($x @ $x.mT, -1) @ $x"] + (
        ["torch.addmm($x, $x, $x.t() @ $x, beta=0.5, alpha=0.02)", "torch.mm($x, $x.t()) * 0.2"] if len(s) == 2 else []) + (
        ["torch.bmm($x, $x.transpose(1, 2)) * 0.2", "torch.einsum('btc,bsc->bts', $x, $x) * 0.2", "torch.baddbmm($x, $x, $x.mT @ $x, alpha=0.02)",
         "$x @ $x[:1].mT * 0.2"] if len(s) == 3 else [])), {}


def attention(r, s):
    if len(s) != 3 or s[-1] < 2 or s[-1] % 2 or s[-1] > 64:
        return None
    c, h = s[-1], r.choice([h for h in (1, 2, 4) if s[-1] % h == 0])
    heads = f"unflatten(-1, ({h}, -1)).transpose(1, 2)"
    core = r.choice(["F.scaled_dot_product_attention(q, k, v)", "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
                     f"torch.softmax(q @ k.mT * {(c // h) ** -0.5}, -1) @ v"])
    out = f"$o = $mb(({core}).transpose(1, 2).flatten(2))" + (" + $x" if r.random() < 0.5 else "")
    if r.random() < 0.5:
        return f"q, k, v = (t.{heads} for t in $ma($x).chunk(3, -1)); {out}", {"a": f"nn.Linear({c}, {3 * c})", "b": f"nn.Linear({c}, {c})"}
    return f"q, k, v = $ma($x).unflatten(-1, (3, {h}, -1)).permute(2, 0, 3, 1, 4).unbind(0); {out}", {"a": f"nn.Linear({c}, {3 * c}, bias=False)", "b": f"nn.Linear({c}, {c})"}


def convolution(r, s):
    n = len(s) - 2
    if not 1 <= n <= 3 or not 0 < s[1] <= 48:
        return None
    c = s[1]
    k = r.choice([1, 1, 3, 3, 3, 5] if n < 3 else [1, 3])
    groups = r.choice([1, 1, 1, c, _divisor(r, c)])
    o = r.choice([_widths(r), c, 2 * c]) if groups == 1 else groups * r.choice([1, c // groups, 2])
    stride, dilation = r.choice([1, 1, 1, 2]), r.choice([1, 1, 1, 2])
    padding = r.choice([str(k // 2 * dilation)] * 4 + ["0", "'same'" if stride == 1 else "1"])
    kind, mode = "" if r.random() < 0.85 else "Transpose", r.choice(["zeros"] * 8 + ["circular", "replicate"])
    if kind:
        make = f"nn.ConvTranspose{n}d({c}, {o}, {r.choice([2, 3, 4])}, stride={r.choice([1, 2, 2])}, padding={r.choice([0, 1])}, groups={groups}"
    else:
        make = f"nn.Conv{n}d({c}, {o}, {k}, stride={stride}, padding={padding}, dilation={dilation}, groups={groups}, padding_mode='{mode}'"
    text = r.choice(["$o = $ma($x)"] * 4 + ["$o = F.silu($ma($x))", "$o = $ma(F.relu($x))", "$o = $ma($x) + $x", "$o = F.relu($ma($x)).mul(0.7)"])
    return text, {"a": f"{make}, bias={r.random() < 0.6})"}


def norm(r, s):
    n = len(s)
    if n < 2 or not s[-1] or not s[1]:
        return None
    c = s[1]
    choices = [("$o = $ma($x)", {"a": f"nn.LayerNorm({s[-1]}, elementwise_affine={r.random() < 0.8})"}), ("$o = $ma($x)", {"a": f"nn.RMSNorm({s[-1]}, eps=1e-6)"}),
               ("$o = F.layer_norm($x, $x.shape[-1:])", {})]
    if n >= 3:
        choices += [("$o = $ma($x)", {"a": f"nn.GroupNorm({_divisor(r, c)}, {c}, affine={r.random() < 0.8})"}), ("$o = F.silu($ma($x))", {"a": f"nn.GroupNorm({_divisor(r, c)}, {c})"})] * 2
    if 3 <= n <= 5:
        choices += [("$o = $ma($x)", {"a": f"nn.BatchNorm{n - 2}d({c})"}), ("$o = $ma($x)", {"a": f"nn.InstanceNorm{n - 2}d({c}, affine={r.random() < 0.5})"})]
    if n == 4:
        choices += [("$o = $ma($x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)", {"a": f"nn.LayerNorm({c})"})]
    if n == 2:
        choices += [("$o = $ma($x)", {"a": f"nn.BatchNorm1d({c})"})]
    return r.choice(choices)


def block(r, s):
    """A contraction, a norm, an activation, and perhaps a residual, as networks have them."""
    n = len(s) - 2
    act = r.choice(["F.relu", "F.silu", "F.gelu", "F.mish", "F.leaky_relu"])
    if 1 <= n <= 3 and 0 < s[1] <= 32:
        c, o = s[1], r.choice([8, 16, s[1]])
        made = f"nn.Conv{n}d({c}, {o}, 3, padding=1)"
        norms = [f"nn.GroupNorm({_divisor(r, o)}, {o})", f"nn.BatchNorm{n}d({o})", f"nn.InstanceNorm{n}d({o}, affine=True)"]
        return r.choice([
            (f"$o = {act}($mb($ma($x)))", {"a": made, "b": r.choice(norms)}),
            (f"$o = $mb($ma($x)) + $x" if o == c else f"$o = $mb($ma($x)) + $mc($x)", {"a": made, "b": r.choice(norms), "c": f"nn.Conv{n}d({c}, {o}, 1)"}),
            (f"$o = {act}($mb($ma($x)) + $mc($x))", {"a": made, "b": r.choice(norms), "c": f"nn.Conv{n}d({c}, {o}, 1)"}),
            (f"$oa = $mb($ma($x)); $o = $oa * torch.sigmoid($mc($oa.mean({tuple(range(2, 2 + n))}, keepdim=True)))", {"a": made, "b": r.choice(norms), "c": f"nn.Conv{n}d({o}, {o}, 1)"}),
            (f"$oa = F.silu($ma($x)); $o = torch.cat([$oa, $x], 1)", {"a": made}),
            (f"$o = $ma($x); $o = {act}($o.add_($mc($x)))", {"a": made, "c": f"nn.Conv{n}d({c}, {o}, 1)"})])
    return None


def image(r, s):
    """Pools, resampling, padding, windows."""
    if len(s) != 4:
        return None
    c = s[1]
    choices = ["F.max_pool2d($x, 2)", "F.max_pool2d($x, 3, 1, 1)", "F.avg_pool2d($x, 2)", "F.adaptive_avg_pool2d($x, 1)", "F.interpolate($x, scale_factor=2)",
               "F.interpolate($x, scale_factor=2, mode='bilinear')", "F.interpolate($x, size=$x.shape[2:], mode='nearest')", "F.pad($x, (1, 1, 0, 1))",
               "F.pad($x, (0, 1, 0, 1), value=0.5)", "F.pad($x, (1, 1, 1, 1), mode='reflect')", "$x[:, :, 1:, :-1]", "$x.mean((2, 3))",
               "$x[:, :, ::2, 1::2]", "F.pixel_unshuffle($x, 2)", "$x.flatten(2).transpose(1, 2)"]
    if c % 4 == 0:
        choices += ["F.pixel_shuffle($x, 2)", "$x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)"]
    if s[2] % 2 == 0 and s[3] % 2 == 0:
        choices += ["$x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).permute(0, 2, 4, 3, 5, 1).flatten(3, 4).flatten(0, 2)"]
    return "$o = " + r.choice(choices), {}


def scaled(r, s):
    """Squeeze and excite, and conditions on a value of each channel."""
    if len(s) != 4 or not 0 < s[1] <= 32:
        return None
    c = s[1]
    return r.choice([
        ("$o = $x * torch.sigmoid($ma($x.mean((2, 3))))[:, :, None, None]", {"a": f"nn.Linear({c}, {c})"}),
        ("$oa, $ob = $ma($x.mean((2, 3))).chunk(2, 1); $o = $x * (1 + $oa[:, :, None, None]) + $ob[..., None, None]", {"a": f"nn.Linear({c}, {2 * c})"}),
        ("$o = $mb($x) + $ma(F.silu($x.mean((2, 3))))[:, :, None, None]", {"a": f"nn.Linear({c}, {c})", "b": f"nn.Conv2d({c}, {c}, 3, padding=1)"})])


def cast(r, s):
    return r.choice(["$o = F.silu($x.to($wide)).to($x.dtype)", "$o = torch.softmax($x.to($wide), -1)", "$o = $x.to($narrow)", "$o = $x.to($narrow).to($wide)",
                     "$o = $x.to($wide)"]), {}


MOTIFS = [(4, unary), (2, in_place), (2, learned), (3, reduced), (5, moved), (3, cut), (6, linear), (2, product), (3, attention), (6, convolution),
          (4, norm), (5, block), (2, image), (2, scaled), (1, cast)]
PAIRS = [(3, together), (1, joined_in_place)]


def weighted(r: Random, table: list) -> object:
    return r.choices([f for _, f in table], [w for w, _ in table])[0]


# ---- inputs ----------------------------------------------------------------------------------------------------------

KINDS = {"image": ("N", "C", "H", "W"), "tokens": ("N", "T", "C"), "signal": ("N", "C", "T"), "rows": ("T", "C"), "volume": ("N", "C", "D", "H", "W")}


def sizes(r: Random, dynamic: bool) -> dict:
    small = [1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 12] if not dynamic else [2, 3, 4, 5, 6, 7, 8, 9, 12]
    found = {"N": r.choice([1, 1, 2, 2, 3, 4] if not dynamic else [2, 3, 4]), "H": r.choice(small), "W": r.choice(small), "T": r.choice([*small, 16, 17]), "D": r.choice([1, 2, 3, 4])}
    if r.random() < 0.04:
        found[r.choice(list(found))] = 0
    return found


def laid(r: Random, dims: list[str]) -> str:
    """Code of a tensor with these extents, in some order of memory."""
    n, text = len(dims), ", ".join(dims)
    way = r.random()
    a, b = sorted(r.sample(range(n), 2))
    if way < 0.45:
        return f"randn({text})"
    if way < 0.6 and n in (4, 5):
        return f"randn({text}).contiguous(memory_format=torch.channels_last{'_3d' if n == 5 else ''})"
    if way < 0.72:
        turned = list(dims)
        turned[a], turned[b] = turned[b], turned[a]
        return f"randn({', '.join(turned)}).transpose({a}, {b})"
    if way < 0.8:
        twice = [f"2 * {d}" if i == b else d for i, d in enumerate(dims)]
        return f"randn({', '.join(twice)}).chunk(2, {b})[1]" if dims[b] != "0" else f"randn({text})"
    if way < 0.88:
        wide = [f"{d} + 3" if i == b else d for i, d in enumerate(dims)]
        return f"randn({', '.join(wide)}).narrow({b}, 1, {dims[b]})"
    if way < 0.93:
        twice = [f"2 * {d}" if i == n - 1 else d for i, d in enumerate(dims)]
        return f"randn({', '.join(twice)})[..., ::2]"
    one = ["1" if i == a else d for i, d in enumerate(dims)]
    return f"randn({', '.join(one)}).expand({text})"


def rms(tensor) -> float:
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 1.0


def calm(tensor) -> bool:
    """Whether numbers are such that a comparison says something: neither large, nor small, nor all the same."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    size = rms(tensor)
    return math.isfinite(size) and 1e-2 < size < 30 and float(tensor.abs().max()) < 300
