"""Trains the heatmap U-Net, exports it to ONNX, chooses the threshold and measures the exported file.

    python train.py                       # a GPU if there is one
    python train.py --steps 20 --batch 8  # a dry run, also on the CPU
"""

import argparse
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from dataset import CLASSES, SIZE, Scenes
from evaluate import evaluate
from network import HeatmapUNet

SIGMA = 2.5  # pixels, of the gaussian at a digit's centre
OPSET = 21  # the first whose GroupNormalization has a scale and a bias per channel
TRAINING_SEED = 1


def target_heatmaps(truth):
    """[batch, digits, (class, x, y)] -> [batch, classes, SIZE, SIZE], exactly 1 at the pixel of a centre."""
    batch = torch.arange(len(truth), device=truth.device)
    pixel = torch.arange(SIZE, device=truth.device)
    unused = len(CLASSES)  # a last map takes the rows without a digit and is dropped
    heatmaps = torch.zeros(len(truth), unused + 1, SIZE, SIZE, device=truth.device)
    for digit in truth.unbind(1):
        index = torch.where(digit[:, 0] >= 0, digit[:, 0], unused).long()
        x, y = digit[:, 1].round(), digit[:, 2].round()
        across = torch.exp(-((pixel - x[:, None]) ** 2) / (2 * SIGMA**2))
        along = torch.exp(-((pixel - y[:, None]) ** 2) / (2 * SIGMA**2))
        heatmaps[batch, index] = torch.maximum(heatmaps[batch, index], along[:, :, None] * across[:, None, :])
    return heatmaps[:, :unused]


def focal_loss(logits, target):
    """CenterNet's penalty-reduced focal loss (Zhou et al. 2019, equation 1), alpha 2, beta 4."""
    p = torch.sigmoid(logits)
    centre = target == 1
    at_centre = -((1 - p) ** 2) * F.logsigmoid(logits)
    elsewhere = -((1 - target) ** 4) * p**2 * F.logsigmoid(-logits)
    return torch.where(centre, at_centre, elsewhere).sum() / centre.sum().clamp(min=1)


def learning_rate_factor(progress):
    """Rises over the first twentieth, then falls to 0 as a cosine."""
    return min(progress / 0.05, 0.5 + 0.5 * math.cos(math.pi * max(0, progress - 0.05) / 0.95))


def train(network, device, arguments):
    scenes = Scenes("train", TRAINING_SEED, arguments.steps * arguments.batch)
    loader = DataLoader(scenes, arguments.batch, num_workers=arguments.workers, pin_memory=device == "cuda")
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.lr, weight_decay=0.02)
    network.train()
    start, done, recent = time.monotonic(), 0, []
    for step, (images, truth) in enumerate(loader, 1):
        elapsed = time.monotonic() - start
        progress = max(step / arguments.steps, elapsed / (60 * arguments.minutes))
        if progress > 1:
            break
        optimizer.param_groups[0]["lr"] = arguments.lr * learning_rate_factor(progress)
        images = images.to(device, non_blocking=True).permute(0, 3, 1, 2).float() / 255
        target = target_heatmaps(truth.to(device, non_blocking=True))
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = network.logits(images)
        loss = focal_loss(logits.float(), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        done = step
        recent.append(loss.detach())
        if step % 100 == 0 or step == arguments.steps:
            mean = float(torch.stack(recent).mean())
            recent = []
            rate = step * arguments.batch / (time.monotonic() - start)
            print(f"step {step}/{arguments.steps}: loss {mean:.4f}, {rate:.0f} scenes/s", flush=True)
    return done, time.monotonic() - start


def export(network, path):
    """Writes one float32 file with the batch free, and checks it against PyTorch."""
    network = network.cpu().float().eval()
    batch = torch.export.Dim("batch", min=1, max=4096)
    torch.onnx.export(network, (torch.zeros(2, 3, SIZE, SIZE),), path, input_names=["image"],
                      output_names=["heatmaps"], opset_version=OPSET, dynamo=True, external_data=False,
                      dynamic_shapes={"image": {0: batch}})
    model = onnx.load(path)
    remove_trace(model)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for count in (1, 3):
        image = torch.rand(count, 3, SIZE, SIZE)
        with torch.no_grad():
            expected = network(image).numpy()
        worst = max(worst, float(np.abs(session.run(None, {"image": image.numpy()})[0] - expected).max()))
    if not worst < 1e-4:
        raise SystemExit(f"ONNX Runtime and PyTorch differ by {worst} (at most 1e-4 was expected)")
    return worst


def remove_trace(model):
    """Drops the exporter's record of Python stack traces, which holds the paths of the machine."""
    graph = model.graph
    holders = [model, graph, *graph.node, *graph.value_info, *graph.initializer, *graph.input, *graph.output]
    for holder in holders:
        del holder.metadata_props[:]
        holder.doc_string = ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    parser.add_argument("--steps", type=int, default=4700)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--minutes", type=float, default=math.inf, help="shortens the schedule to end by then")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that compose scenes")
    parser.add_argument("--validation-scenes", type=int, default=500)
    parser.add_argument("--heldout-scenes", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(TRAINING_SEED)
    torch.backends.cudnn.benchmark = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = HeatmapUNet(len(CLASSES)).to(device)
    steps, seconds = train(network, device, arguments)
    difference = export(network, arguments.output / "heatmap_unet.onnx")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, 3, SIZE, SIZE))
    training = {
        "parameters": sum(p.numel() for p in network.parameters()),
        "gflop_per_image": round(counter.get_total_flops() / 1e9, 3),
        "steps": steps, "batch": arguments.batch, "lr": arguments.lr, "seed": TRAINING_SEED,
        "seconds": round(seconds), "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "torch": torch.__version__, "onnxruntime_max_abs_difference": difference,
    }
    (arguments.output / "training.json").write_text(json.dumps(training, indent=1) + "\n")
    print(training)
    metrics = evaluate(arguments.output, arguments.validation_scenes, arguments.heldout_scenes)
    for split in ("validation", "heldout"):
        print(split, {key: value for key, value in metrics[split].items() if key != "per_class"})


if __name__ == "__main__":
    main()
