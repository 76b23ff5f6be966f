"""What the backend makes of a network on an H200, without one: its graph on fake CUDA tensors, in bf16 and channels last, kernels by
the cost model. Attention is one operator that nobody looks into.

usage: planned.py NETWORK…    prints the reports of networks of bench/peers/torch_models.py
"""

import contextlib
import pathlib
import sys
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from unisono.pytorch import concatenations, layouts
from unisono.pytorch.decompositions import written_out
from unisono.pytorch.flow import of_regions
from unisono.pytorch.fuse import Limits, fuse
from unisono.pytorch.judge import Kernels
from unisono.pytorch.report import Report, count

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "peers"))
LAST = torch.channels_last


@torch.library.custom_op("unisono_tests::attention", mutates_args=())
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return q.clone()


@attention.register_fake
def _(q, k, v):
    return torch.empty_like(q)


@contextlib.contextmanager
def like_a_gpu():
    """Convolutions of fake tensors lie channels last, as cuDNN's do, though this machine has no cuDNN to ask."""
    with mock.patch.object(torch._C, "_conv_determine_backend_memory_format", lambda *_: LAST), \
            mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", lambda q, k, v, *_, **__: attention(q, k, v)):
        yield


def short(x, dtype):
    x = x.detach().to(dtype) if x.is_floating_point() else x.detach()
    return x.contiguous(memory_format=LAST) if x.dim() == 4 else x


def graph_of(make, dtype=torch.bfloat16):
    """make() -> (module, inputs). The functional graph as Inductor would hand it over, with weights as inputs."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, like_a_gpu():
        with torch.device("cuda"):
            module, inputs = make()
        weights = {n: short(t.cuda(), dtype) for n, t in (*module.eval().named_parameters(), *module.named_buffers())}
        inputs = [short(t.cuda(), dtype) for t in inputs]

        def call(*given):
            result = torch.func.functional_call(module, dict(zip(weights, given)), given[len(weights):])
            return (result,) if isinstance(result, torch.Tensor) else tuple(result)

        with torch.fx.traceback.preserve_node_meta():  # as AOTAutograd traces: which operator of the program a node comes from
            graph = make_fx(torch.func.functionalize(call, remove="mutations"), decomposition_table=written_out())(*weights.values(), *inputs)
        graph.graph.eliminate_dead_code()
        layouts.relax(graph, [*weights.values(), *inputs], mode)
    return graph


def planned(make, **limits):
    """The report of the regions, and the graph with the calls in it."""
    graph, kernels = graph_of(make), Kernels()
    rows = fuse(graph, Limits(**{"minimum_operators": 0, **limits}), kernels)
    layouts.simplify(graph)
    counts = count(graph, rows)
    counts["concatenations without copies"] = concatenations.place(graph)
    nodes = of_regions(graph, rows, counts["standalone after a contraction"])
    return Report(rows, "", "inference", counts, nodes=nodes, problems=kernels.problems), graph


def benchmark(name):
    from torch_models import NETWORKS
    make, inputs, _, _ = NETWORKS[name]
    return lambda: (make(), inputs(1))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        report, _ = planned(benchmark(name))
        ours, theirs = (sum(row.get(key, 0) for row in report.rows if row["taken"]) for key in ("predicted_us", "predicted_us_of_pytorch"))
        print(f"{name}: {ours:.0f} µs predicted for regions, {theirs:.0f} µs for PyTorch's kernels, {report.share_of_flop:.3f} of the FLOP\n{report}\n")
