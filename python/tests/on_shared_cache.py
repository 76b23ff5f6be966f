"""usage: on_shared_cache.py GRAPHS VERSION…    compiles GRAPHS, names with commas between them, as each of these
versions of the package: a graph by Inductor alone, by the backend, by the backend with an option, and a functional call
by Inductor. Prints for each whether it was found on disk. Run by test_cache_key.py."""

import sys

import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

import unisono as u
from unisono.pytorch import backend, texts

x, w = torch.ones(3, 8), torch.ones(8, 8)
layer = (lambda x, w: F.silu(x @ w))
GRAPHS = {"inductor": lambda: torch.compile(layer),
          "region": lambda: torch.compile(layer, backend=backend.unisono, options={"networks": "frozen"}),
          "none": lambda: torch.compile(layer, backend=backend.unisono, options={"without": ("products",)}),
          "call": lambda: torch.compile(lambda x, w: u.gemm(x, w, "silu(acc)"))}


def found(compiled):
    torch._dynamo.reset()
    counters.clear()
    with torch.no_grad():
        compiled()(x, w)
    # AOTAutograd's cache has the whole graph, Inductor's what comes out of AOTAutograd
    return "miss" if counters["inductor"]["fxgraph_cache_miss"] else "hit"


for version in sys.argv[2:]:
    texts.VERSION = backend.VERSION = f"|version={version}"
    print(version, *(f"{name}:{found(GRAPHS[name])}" for name in sys.argv[1].split(",")))
