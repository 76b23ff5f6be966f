#!/usr/bin/env python3
"""What networks lack of the training graphs of bench/peers/torch_models.py: forward and backward part as AOTAutograd and the
min-cut partitioner make them, on fake tensors, in the operators that networks are written from.

usage: PYTHONPATH=build/ci/python scripts/training_graphs.py [NETWORK…]

A JSON line for each part: {"network", "part", "operators", "contractions": products, convolutions and gradients of these,
"convolution_backward", "results", "given": results that are inputs, "refused": {operator: times}, of those that are read,
"networks": into how many the part would be cut, "taken": contractions in them}.
"""
import collections
import json
import pathlib
import sys

import torch
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench" / "peers"))


def parts_of(name):
    """The forward and the backward graph."""
    from torch_models import NETWORKS
    from unisono.pytorch.training import decompositions
    make, inputs, *_ = NETWORKS[name]
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = make().train()
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        weights = {n: t.detach().requires_grad_(t.requires_grad) for n, t in tensors.items()}

        def call(*given):
            result = torch.func.functional_call(model, dict(zip(weights, given)), given[len(weights):])
            return tuple(result) if isinstance(result, (tuple, list)) else (result,)

        given = (*weights.values(), *inputs(1))
        joint = aot_export_joint_simple(call, given, trace_joint=True, decompositions=decompositions())
        return min_cut_rematerialization_partition(joint, None, num_fwd_outputs=len(call(*given)))


def row(name, part, graph):
    from unisono.pytorch.parts import cut, results_of
    from unisono.pytorch.program import CONTRACTIONS
    from unisono.pytorch.training import Traced
    program = Traced(graph)
    calls = [n.target for n in graph.nodes if n.op == "call_function"]
    results = [n for n in results_of(graph) if isinstance(n, torch.fx.Node)]
    made = [n for n in results if n.op != "placeholder"]
    networks = [s for s in cut(graph, made, program.served, set(), CONTRACTIONS) if s.is_network]
    live = {n for s in cut(graph, made, program.served, set(), CONTRACTIONS) for n in s.nodes}
    refused = collections.Counter(str(n.target) for n in program.refused if n in live and isinstance(n.target, torch._ops.OpOverload))
    return {"network": name, "part": part, "operators": len(calls), "contractions": sum(c in CONTRACTIONS for c in calls),
            "convolution_backward": calls.count(torch.ops.aten.convolution_backward.default), "results": len(results),
            "given": len(results) - len(made), "refused": dict(refused), "networks": len(networks),
            "taken": sum(n.target in CONTRACTIONS for s in networks for n in s.nodes)}


def main():
    from torch_models import NETWORKS
    for name in sys.argv[1:] or NETWORKS:
        for part, module in zip(("forward", "backward"), parts_of(name)):
            print(json.dumps(row(name, part, module.graph)), flush=True)


if __name__ == "__main__":
    main()
