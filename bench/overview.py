"""The tables of all suites at a glance, in README.md and at the head of docs/performance.md, from the results that are
committed: bench/report.py writes them between `<!-- overview -->` and `<!-- end -->`."""
import re
import textwrap

from ratios import geomean, hot_speedup, network_speedup, ran, speedup

# suite, heading, the peers that do the same work; and whether README.md shows it. "PyTorch" is the faster of eager mode and
# torch.compile; max-autotune is among them where a suite's cases have its times (peers_of)
ROWS = (
    ("block", "Conv2d + bias + GroupNorm(32) + SiLU, one launch", "PyTorch", True),
    ("untuned", "the same, shapes not used for tuning; best of eight plans", "PyTorch", False),
    ("drawn", "the same, 30 shapes by a generator, the planner's first choice", "torch.compile", True),
    ("wide", "the same on large images: 3 shapes, by several plans, in f32 and bf16", "PyTorch", False),
    ("conv", "Conv2d without an epilogue", "cuDNN, PyTorch", True),
    ("epilogue", "Conv2d + bias, activation, residual", "PyTorch", True),
    ("gemm", "matrix product, with and without epilogues", "cuBLASLt, PyTorch", True),
    ("swiglu", "SwiGLU and similar gated units, one launch", "quack, PyTorch", True),
    ("rows", "product + LayerNorm, softmax or RMSNorm; 10 shapes, 3 by two plans", "PyTorch", True),
    ("drawn_products", "drawn products, with and without norms", "torch.compile", True),
    ("breadth", "strides, dilation, few channels, depthwise, tf32, other normalisations", "PyTorch", True),
    ("groups", "bare grouped convolutions of ResNeXt and RegNetY", "cuDNN, PyTorch", False),
    ("depthwise", "bare depthwise convolutions of ConvNeXt, MobileNetV3 and EfficientNet", "cuDNN, PyTorch", False),
)
NETWORKS = (("unet", "heatmap U-Net, one CUDA Graph"), ("diffusion", "diffusion stack, one CUDA Graph"))
NAMES = {"heatmap_unet": "heatmap U-Net"}


def span(values):
    """The least and the greatest, or both in one."""
    if f"{min(values):.2f}" == f"{max(values):.2f}":
        return f"{min(values):.2f}"
    return f"{min(values):.2f} to {max(values):.2f}"


def peers_of(peers, cases):
    """The peers, and whether max-autotune is among them: it compiles for a limited time, and may have been timed for some of a
    suite's cases only, or for none."""
    gains = [speedup(c) for c in cases if "torch_max_autotune" in c["peers"]]
    if not gains:
        return f"{peers} (no max-autotune)"
    if len(gains) < len(cases):
        return f"{peers} with max-autotune on {len(gains)} of {len(cases)} ({geomean(gains):.2f} over those)"
    return f"{peers} with max-autotune"


def gpu_rows(suites, short):
    for name, title, peers, in_short in ROWS:
        if name not in suites or (short and not in_short):
            continue
        cases = [c for c in ran(suites[name]) if speedup(c)]
        gains, hot = [speedup(c) for c in cases], [h for c in cases if (h := hot_speedup(c))]
        yield name, title, len(cases), peers_of(peers, cases), gains, hot
    for prefix, title in NETWORKS:
        cases = [c for c in ran(suites.get("network", {"cases": []})) if c["name"].startswith(prefix) and "max_autotune" in c["peers"]]
        if cases:
            yield "network", title, len(cases), "PyTorch with max-autotune", [network_speedup(c) for c in cases], []


def table(suites, short):
    """Lines of the table; `short`: for README.md, without links and without loads that do not pause."""
    heads = ["suite", "cases", "compared with the fastest of", "speed-up", "range"]
    lines = []
    for name, title, count, peers, gains, hot in gpu_rows(suites, short):
        cells = [title, str(count), peers, f"{geomean(gains):.2f}", span(gains)]
        if not short:
            cells += [f"{geomean(hot):.2f}" if len(hot) == count else "", suites[name]["commit"][:8]]
        lines.append(cells)
    heads += [] if short else ["under sustained load", "commit"]
    return ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *lines)]


def torch_sentence(rows):
    """What torch.compile(backend="unisono") gains over Inductor, of the forward passes."""
    forward = [r["ratio"] for r in rows if r["what"] == "forward"]
    steps = [f"{r['ratio']:.2f} ({NAMES.get(r['network'], r['network'])}, {r['what'].partition(', ')[2]})" for r in rows if r["what"] != "forward"]
    text = (f"`torch.compile(backend=\"unisono\")` runs {len(forward)} models at {span(forward)} times the speed of the better of "
            f"eager mode and Inductor, {geomean(forward):.2f} in the geometric mean, all in CUDA graphs.")
    return text + (f" A training step: {', '.join(steps)}." if steps else "")


def frozen_sentence(rows):
    """What a graph as one network gains over the better of eager mode and Inductor."""
    ratios = [r["ratio"] for r in rows if r.get("ratio")]
    return (f"With `frozen=True` {len(ratios)} models of timm, torchvision and transformers, most of them one network each, run at {span(ratios)} "
            f"times that speed at batch 8, {geomean(ratios):.2f} in the geometric mean.")


def fill(page, suites, short):
    """The page with its table; a page without the two lines stays as it is."""
    place = re.compile(r"(<!-- overview -->\n).*?(<!-- end -->)", re.S)
    lines = table(suites, short)
    if "torch" in suites:
        lines += ["", textwrap.fill(torch_sentence(suites["torch"]["rows"]), 100)]
    if "torch_frozen" in suites:
        lines += ["", textwrap.fill(frozen_sentence(suites["torch_frozen"]["rows"]), 100)]
    return place.sub(lambda m: m[1] + "\n".join(lines) + "\n" + m[2], page)
