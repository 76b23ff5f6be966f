"""Loss scaling in `unisono train` beside torch.amp.GradScaler with PyTorch's optimisers, on the CPU.

usage: scaling_beside_pytorch.py COMMAND      (needs torch, onnx and numpy)

Gradients are infinite in steps whose examples have such pixels, and where the scale has grown beyond what f32 holds. Scales
and skipped updates must be equal, parameters equal but for rounding.
"""

import itertools
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
from beside_pytorch import initializers, judge
from shuffles import batch_of
from torch import nn

EXAMPLES, BATCH, STEPS, SEED = 24, 2, 54, 7
SCALINGS = [{"initial": 65536, "interval": 5}, {"initial": 2.0**100, "growth": 1024, "backoff": 2.0**-9, "interval": 2}, {"initial": 3e4, "growth": 1.7, "backoff": 0.3, "interval": 1}]
OPTIMISERS = [
    ({"kind": "adamw", "weight_decay": 0.1}, lambda p, rate: torch.optim.AdamW(p, lr=rate, weight_decay=0.1)),
    ({"kind": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, lambda p, rate: torch.optim.SGD(p, lr=rate, momentum=0.9, nesterov=True, weight_decay=0.01)),
]


def module_and_data():
    torch.manual_seed(3)
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.SiLU(), nn.Conv2d(4, 1, 1))
    x, target = 30 * torch.randn(EXAMPLES, 2, 6, 5), 20 * torch.randn(EXAMPLES, 1, 4, 3)
    for example, pixel in ((1, float("inf")), (8, float("nan")), (17, -float("inf"))):
        x[example, 1, 2, 3] = pixel
    return module, x, target


def by_pytorch(module, x, target, optimiser, scaling, accumulate, clip):
    """The scale of each step, and how many updates there were and were skipped."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scaling["initial"], growth_factor=scaling.get("growth", 2.0), backoff_factor=scaling.get("backoff", 0.5), growth_interval=scaling["interval"])
    scales, made = [], 0
    optimiser.register_step_post_hook(lambda *_: counted.append(1))
    counted = []
    for step in range(STEPS):
        which = batch_of(step, EXAMPLES, BATCH, SEED)
        scales.append(scaler.get_scale())
        scaler.scale(F.mse_loss(module(x[which]), target[which]) / accumulate).backward()
        if (step + 1) % accumulate:
            continue
        made += 1
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(module.parameters(), clip)
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad()
    return scales, len(counted), made - len(counted)


def by_command(command, folder, config):
    (folder / "c.json").write_text(json.dumps(config))
    subprocess.run([command, "train", "c.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (folder / "out" / "log.jsonl").read_text().splitlines()]
    with open(folder / "out" / "checkpoint.safetensors", "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        metadata = json.loads(file.read(size))["__metadata__"]
    return [line["loss_scale"] for line in lines], int(metadata["unisono.updates"]), int(metadata["unisono.loss_scale_skipped"])


def complaints(command, scaling, given, of_pytorch, accumulate):
    module, x, target = module_and_data()
    rate, clip = 1e-3, 5.0
    config = {"model": "m.onnx", "folder": "out", "batch": BATCH, "steps": STEPS, "seed": SEED, "threads": 1, "report_every": 1,
              "data": {"training": "d.npz", "inputs": {"x": {"array": "x"}, "target": {"array": "target"}}}, "loss": {"kind": "mean_squared_error"},
              "optimiser": {**given, "accumulate": accumulate, "clip_norm": clip}, "learning_rate": {"rate": rate}, "loss_scaling": scaling}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        torch.onnx.export(module, (x[:BATCH],), folder / "m.onnx", input_names=["x"], output_names=["y"], dynamo=False, opset_version=17)
        numpy.savez(folder / "d.npz", x=x.numpy(), target=target.numpy())
        told = by_command(command, folder, config)
        after = initializers(folder / "out" / "model.onnx")
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    expected = by_pytorch(module, x, target, of_pytorch(module.parameters(), rate), scaling, accumulate, clip)
    for what, a, b in zip(("the scales", "the number of updates", "the number of skipped updates"), told, expected):
        if a != b:
            yield f"{what}: {a}, expected {b}"
    if min(expected[1:]) < 2:
        yield f"{expected[1]} updates and {expected[2]} skipped ones show nothing"
    for name, p in module.named_parameters():
        moved, error = (p.detach() - before[name]).abs().max().item(), numpy.abs(after[name] - p.detach().numpy()).max()
        if not error <= 1e-4 * moved:
            yield f"{name} is off by {error:.3g} and has moved by {moved:.3g}"


if __name__ == "__main__":
    judge("trainings", [(f"{scaling}, {given['kind']}, accumulate {accumulate}", complaints(sys.argv[1], scaling, given, of_pytorch, accumulate))
                        for scaling, (given, of_pytorch), accumulate in itertools.product(SCALINGS, OPTIMISERS, (1, 3))])
