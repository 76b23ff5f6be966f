"""One network on a GPU: made, exported, and what PyTorch is off by in float32, bfloat16 and float16.

Runs in a process of its own. The weights are those of the CPU's rows (by the seed of the name); the batch is larger.
"""
import copy
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
from torch.utils._python_dispatch import TorchDispatchMode

from . import onnx_reference
from .catalogue import GPU_ENTRIES
from .checked import check
from .errors import relative_error
from .export import OPSETS
from .making import EXPORTERS
from .randomise import randomise
from .verdict import DRAWS, draw_name, one_input_says_little
from .widened import evaluate

DEVICE = "cuda"
PRECISIONS = {"bf16": torch.bfloat16, "f16": torch.float16}


class WidenedThere(TorchDispatchMode):
    """Sees whether a network itself makes float32 of tensors of 16 bits. An export of the network in float32 does not say
    where: the cast changes nothing there."""

    def __init__(self):
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and result.dtype is torch.float32 and result.numel() > 1:
            self.found = self.found or args[0].dtype in PRECISIONS.values()
        return result


class InPrecision(torch.nn.Module):
    """A network of 16 bits between float32 tensors."""

    def __init__(self, net, dtype):
        super().__init__()
        self.net, self.dtype = net.to(dtype), dtype

    def forward(self, *inputs):
        return [y.float() for y in self.net(*[x.to(self.dtype) if x.is_floating_point() else x for x in inputs])]


def drawn_anew(x):
    """Floats of the same mean and spread; a single one stays as it is."""
    return torch.randn_like(x) * x.std() + x.mean() if x.numel() > 1 else x


def enlarged(inputs, batch):
    """`batch` times as many along the first axis: floats drawn anew, integers repeated."""
    def more(x):
        if x.is_floating_point():
            return torch.cat([x] + [drawn_anew(x) for _ in range(batch - 1)])
        return torch.cat([x] * batch)
    return {k: more(x) if x.ndim else x for k, x in inputs.items()}


def make_network(entry, batch):
    """(the module in float32 on the CPU, its inputs)"""
    torch.manual_seed(zlib.crc32(entry.name.encode()))
    net, inputs = entry.maker(*entry.arguments)
    randomise(net, inputs)
    return net, enlarged(inputs, batch)


def moved(inputs, dtype):
    """On the GPU, floats in `dtype` and images channels last."""
    def move(x):
        x = x.to(DEVICE).to(dtype) if x.is_floating_point() else x.to(DEVICE)
        return x.to(memory_format=torch.channels_last) if x.ndim == 4 else x
    return [move(x) for x in inputs.values()]


def channels_last(net):
    """Filters of images with the channels innermost; PyTorch refuses to ask that of those of volumes, and keeps
    them."""
    volumes = any(p.ndim == 5 for p in net.parameters())
    return net if volumes else net.to(memory_format=torch.channels_last)


def outputs_by_autocast(net, inputs, dtype):
    """What PyTorch's mixed precision computes: weights of float32, and `dtype` where it thinks that good enough."""
    net = channels_last(net.to(DEVICE))
    with torch.no_grad(), torch.autocast(DEVICE, dtype):
        return [y.double().cpu().numpy() for y in net(*moved(inputs, torch.float32))]


def outputs_in(net, inputs, dtype):
    """What PyTorch's eager mode computes in `dtype` on the GPU."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    net = channels_last(net.to(DEVICE, dtype))
    with torch.no_grad():
        return [y.double().cpu().numpy() for y in net(*moved(inputs, dtype))]


def nearest_in(net, inputs, name, dtype):
    """What PyTorch computes in a precision: eager, and by autocast a network that eager mode cannot run in it (one that
    makes places of pixels in float32 and samples images of 16 bits there). Nothing where neither can."""
    ways = [outputs_in] if dtype is torch.float32 else [outputs_in, outputs_by_autocast]
    for way in ways:
        try:
            return way(copy.deepcopy(net), inputs, dtype)
        except Exception as error:  # an operator that PyTorch lacks in this precision
            print(f"{name}, {way.__name__}: {type(error).__name__}: {error}", flush=True)
    return None


def references(net, inputs, folder, precisions, draw=0):
    """Keeps inputs and float64 outputs; {precision: error of each output}."""
    singles = {}
    for name, dtype in precisions.items():
        outputs = nearest_in(net, inputs, name, dtype)
        if outputs is not None:
            singles[name] = outputs
    exact = [y.cpu().numpy() for y in evaluate(copy.deepcopy(net).to(DEVICE), [x.to(DEVICE) for x in inputs.values()])]
    np.savez(folder / draw_name("inputs", draw), **{k: v.numpy() for k, v in inputs.items()})
    np.savez(folder / draw_name("exact", draw), **{f"out{k}": e for k, e in enumerate(exact)})
    return {name: [relative_error(y, e) for y, e in zip(all_of, exact)] for name, all_of in singles.items()}


def further_draws(net, inputs, folder, errors):
    """{precision: [error of each output] for each further draw of inputs} where the first says little."""
    with np.load(folder / "exact.npz") as exact:
        sizes = [exact[f"out{i}"].size for i in range(len(exact))]
    far = {p: dtype for p, dtype in PRECISIONS.items() if one_input_says_little(errors.get(p, ()), sizes, p)}
    draws = {p: [] for p in far}
    for draw in range(1, DRAWS) if far else ():
        torch.manual_seed(draw)
        drawn = {k: drawn_anew(x) if x.is_floating_point() else x for k, x in inputs.items()}
        for p, of_outputs in references(net, drawn, folder, far, draw).items():
            draws[p].append(of_outputs)
    return {p: all_of for p, all_of in draws.items() if len(all_of) == DRAWS - 1}


def widens(net, inputs, dtype):
    """Whether eager mode in `dtype` computes parts of the network in float32 because the network says so."""
    try:
        with torch.no_grad(), WidenedThere() as seen:
            copy.deepcopy(net).to(DEVICE, dtype)(*moved(inputs, dtype))
    except Exception:  # it does not run in this precision, as nearest_in has printed
        return False
    return seen.found


def export_in_precisions(net, inputs, exporters, folder):
    """{precision: exporters} of a network that widens tensors itself: EXPORTER.PRECISION has its casts."""
    made = {}
    for precision, dtype in PRECISIONS.items():
        for exporter in exporters if widens(net, inputs, dtype) else ():
            what = f"{exporter}.{precision}"
            try:
                export(InPrecision(copy.deepcopy(net), dtype), inputs, what, folder)
                made.setdefault(precision, []).append(exporter)
            except Exception as error:  # exporters raise anything
                print(f"{what}: {type(error).__name__}: {error}", flush=True)
                shutil.rmtree(folder / what, ignore_errors=True)
    return made


def export(net, inputs, exporter, folder):
    """From the GPU, where the exporters' own evaluations are quick; from the CPU a network that the exporter's tracing
    leaves with constants there."""
    (folder / exporter).mkdir()
    try:
        export_from(DEVICE, net, inputs, exporter, folder)
    except RuntimeError as error:
        if "device" not in str(error):
            raise
        export_from("cpu", net, inputs, exporter, folder)
    check(folder / exporter / "model.onnx")


def export_from(device, net, inputs, exporter, folder):
    net, inputs = copy.deepcopy(net).to(device), {k: v.to(device) for k, v in inputs.items()}
    with torch.no_grad():
        outputs = [f"out{i}" for i in range(len(net(*inputs.values())))]
    name = exporter.split(".")[0]
    dynamo = name == "dynamo"
    torch.onnx.export(net, tuple(inputs.values()), str(folder / exporter / "model.onnx"), dynamo=dynamo,
                      opset_version=OPSETS[name], input_names=list(inputs), output_names=outputs,
                      **({"external_data": True, "verbose": False} if dynamo else {}))


def make_exported(entry, batch, folder, exporters):
    """by the exporters that are asked for, and by the other one if they fail"""
    net, inputs = make_network(entry, batch)
    tried, failures = [], {}
    for exporter in dict.fromkeys((*exporters, *EXPORTERS)):
        if exporter not in exporters and len(failures) < len(tried):
            break
        tried.append(exporter)
        try:
            export(net, inputs, exporter, folder)
        except Exception as error:  # exporters raise anything
            failures[exporter] = f"{type(error).__name__}: {error}"
            shutil.rmtree(folder / exporter, ignore_errors=True)
    typed = export_in_precisions(net, inputs, [e for e in tried if e not in failures], folder)
    errors = references(net, inputs, folder, {"f32": torch.float32, **PRECISIONS})
    return {"exporters": tried, "failures": failures, "typed": typed, "errors": errors,
            "draws": further_draws(net, inputs, folder, errors)}


def make_shipped(entry, folder):
    """A model that exists as a file alone has no PyTorch to be compared with: the bound is that of its precision."""
    file, inputs = entry.maker(*entry.arguments)
    exact = onnx_reference.evaluate(file, inputs, np.float64)
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "exact.npz", **{f"out{k}": e for k, e in enumerate(exact)})
    return {"file": str(file), "failures": {}, "errors": {}}


def make(name, batch, folder, exporters):
    """about.json of a network's folder."""
    folder = pathlib.Path(folder)
    with open(folder / "export.log", "w") as log:
        os.dup2(log.fileno(), 1)  # the TorchScript exporter prints its graph from C++
        os.dup2(log.fileno(), 2)
        try:
            warnings.filterwarnings("ignore")
            logging.disable(logging.WARNING)
            torch.set_num_threads(2)
            torch.backends.mha.set_fastpath_enabled(False)  # the TorchScript exporter has no name for its operator
            entry = GPU_ENTRIES[name]
            shipped = entry.library == "rapidocr"
            made = make_shipped(entry, folder) if shipped else make_exported(entry, batch, folder, exporters)
            (folder / "about.json").write_text(json.dumps({"asked": exporters, "exporters": exporters, "batch": batch, "key": entry.key()} | made) + "\n")
        except Exception:
            traceback.print_exc()
            sys.exit(1)
