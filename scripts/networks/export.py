"""Makes one network, evaluates it in float32 and float64, and exports it by both of PyTorch's exporters.

about.json in the network's folder says what was made; the results of PyTorch are in inputs.RUN.npz and exact.RUN.npz.
"""
import json
import logging
import os
import pathlib
import shutil
import sys
import traceback
import warnings
import zlib

import numpy as np
import torch

from . import onnx_reference
from .catalogue import ENTRIES
from .checked import check
from .errors import relative_error
from .randomise import randomise
from .widened import evaluate

OPSETS = {"dynamo": 18, "torchscript": 17}  # the newest that each exporter writes without converting


def runs_of(entry, inputs):
    """{what stays open: [inputs of a run, …]}; where extents are open, two runs, one of another size."""
    runs = {"": [inputs]}
    if entry.open:
        (name, x), = inputs.items()
        n, c, h, w = x.shape
        other = (3, c, h, w) if entry.open == "n" else (1, c, h - 32, w + 64)
        # two images, so that no extent is the number 1 by chance
        runs[entry.open] = [{name: torch.randn(2, c, h, w)}, {name: torch.randn(other)}]
    return runs


def open_axes(name, exporter, free):
    """What the exporters are told about extents that stay open; sizes are multiples of 32, as U-Nets need."""
    if not free:
        return {}
    names = {"n": {0: "batch"}, "nhw": {0: "batch", 2: "height", 3: "width"}}[free]
    if exporter == "torchscript":
        return {"dynamic_axes": {name: names}}
    dims = {0: torch.export.Dim("batch", max=64)}
    if "h" in free:
        dims[2] = 32 * torch.export.Dim("rows", min=2, max=64)
        dims[3] = 32 * torch.export.Dim("columns", min=2, max=64)
    return {"dynamic_shapes": [dims]}


def export(net, inputs, outputs, exporter, free, folder):
    folder.mkdir(parents=True, exist_ok=True)
    dynamo = exporter == "dynamo"
    torch.onnx.export(net, tuple(inputs.values()), str(folder / "model.onnx"), dynamo=dynamo,
                      opset_version=OPSETS[exporter], input_names=list(inputs), output_names=outputs,
                      **({"external_data": True, "verbose": False} if dynamo else {}),
                      **open_axes(next(iter(inputs)), exporter, free))
    check(folder / "model.onnx")


def largest_activation(net, inputs):
    """(outputs in float32, the largest magnitude that any layer gives)"""
    largest = [0.0]

    def look(module, arguments, result):
        if isinstance(result, torch.Tensor) and result.is_floating_point() and result.numel():
            magnitude = float(result.abs().max())
            largest[0] = magnitude if magnitude != magnitude else max(largest[0], magnitude)
    hooks = [m.register_forward_hook(look) for m in net.modules() if not list(m.children())]
    with torch.no_grad():
        outputs = net(*inputs)
    for hook in hooks:
        hook.remove()
    return outputs, largest[0]


def references(net, runs, folder):
    """Evaluates every run in float32, then in float64, and keeps inputs and results."""
    about, singles = [], []
    for free, several in runs.items():
        for inputs in several:
            outputs, largest = largest_activation(net, inputs.values())
            spread = [float(y.std()) if y.numel() > 1 else float(y.abs()) for y in outputs]
            if not all(0.01 < s < 1e4 for s in spread) or not largest < 1e5:
                raise ValueError(f"random weights give outputs of spread {spread} and activations up to {largest:.3g}")
            about.append({"open": free, "largest_activation": largest, "spread": spread,
                          "inputs": {k: list(v.shape) for k, v in inputs.items()}})
            singles.append((inputs, [y.numpy() for y in outputs]))
    for i, (inputs, single) in enumerate(singles):
        exact = [y.numpy() for y in evaluate(net, list(inputs.values()))]
        about[i]["float32_error"] = [relative_error(y, e) for y, e in zip(single, exact)]
        np.savez(folder / f"inputs.{i}.npz", **{k: v.numpy() for k, v in inputs.items()})
        np.savez(folder / f"exact.{i}.npz", **{f"out{k}": e for k, e in enumerate(exact)})
    return about


def make_exported(entry, folder, exporters):
    torch.manual_seed(zlib.crc32(entry.name.encode()))  # the same weights whichever networks are exported
    net, inputs = entry.maker(*entry.arguments)
    randomise(net, inputs)
    runs = runs_of(entry, inputs)
    with torch.no_grad():
        outputs = [f"out{i}" for i in range(len(net(*inputs.values())))]
    failures = {}
    for exporter in exporters:
        for free, several in runs.items():
            what = exporter + (f".{free}" if free else "")
            try:
                export(net, several[0], outputs, exporter, free, folder / what)
            except Exception as error:  # exporters raise anything
                failures[what] = f"{type(error).__name__}: {error}"
                shutil.rmtree(folder / what, ignore_errors=True)
            print(f"{entry.name}: {what} {'failed' if what in failures else 'exported'}", flush=True)
    return {"runs": references(net, runs, folder), "failures": failures,
            "parameters": sum(p.numel() for p in net.parameters())}


def make_shipped(entry, folder):
    """A model that exists as a file alone: its operators by PyTorch in float64, and in float32 in its place."""
    file, inputs = entry.maker(*entry.arguments)
    exact = onnx_reference.evaluate(file, inputs, np.float64)
    single = onnx_reference.evaluate(file, inputs, np.float32)
    np.savez(folder / "inputs.0.npz", **inputs)
    np.savez(folder / "exact.0.npz", **{f"out{k}": e for k, e in enumerate(exact)})
    return {"file": str(file), "failures": {},
            "runs": [{"open": "", "inputs": {k: list(v.shape) for k, v in inputs.items()},
                      "float32_error": [relative_error(y, e) for y, e in zip(single, exact)]}]}


def make(name, folder, exporters):
    """Everything about one network; runs in a process of its own."""
    with open(folder / "export.log", "w") as log:
        os.dup2(log.fileno(), 1)  # the TorchScript exporter prints its graph from C++
        os.dup2(log.fileno(), 2)
        try:
            warnings.filterwarnings("ignore")
            logging.disable(logging.WARNING)
            torch.set_num_threads(1)
            torch.backends.mha.set_fastpath_enabled(False)  # the TorchScript exporter has no name for its operator
            entry = ENTRIES[name]
            shipped = entry.library == "rapidocr"
            made = make_shipped(entry, folder) if shipped else make_exported(entry, folder, exporters)
            made |= {"key": entry.key(), "network": name, "exporters": exporters}
            (folder / "about.json").write_text(json.dumps(made, indent=1) + "\n")
        except Exception:
            traceback.print_exc()
            sys.exit(1)
