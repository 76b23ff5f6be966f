"""Prepares the training of a smaller heatmap U-Net by `unisono train` (make train-demo).

    python train_demo.py FOLDER [--crops N] [--steps N] [--threads N]

Writes into FOLDER: shards/ and validation/ (.npz files of crops of generated scenes with their heatmaps; the held-out
scenes are never read), network.onnx with random weights, train.json for `unisono train`, and model/, which `unisono demo`
takes once model.onnx lies there. What is there already stays.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dataset import CLASSES, SIZE, Scenes

CROP = 96  # pixels; the network is convolutional, and is run on whole scenes
SIGMA = 2.5  # of the gaussian at a digit's centre, as in train.py
CHANNELS = (12, 24, 32)  # per level
GROUPS = 4
SHARD = 500  # crops
SEED = 11


def heatmaps(truth, left, top):
    """[digits, (class, x, y)] -> uint8 [classes, CROP, CROP], 255 at the pixel of a centre."""
    maps = np.zeros((len(CLASSES), CROP, CROP), np.float32)
    pixel = np.arange(CROP)
    for kind, x, y in truth:
        if kind < 0:
            continue
        across = np.exp(-((pixel - (round(float(x)) - left)) ** 2) / (2 * SIGMA**2))
        along = np.exp(-((pixel - (round(float(y)) - top)) ** 2) / (2 * SIGMA**2))
        maps[int(kind)] = np.maximum(maps[int(kind)], along[:, None] * across[None, :])
    return np.round(maps * 255).astype(np.uint8)


def crops(split, count):
    """Half of a scene's side, around a digit where there is one."""
    scenes = Scenes(split, SEED, count)
    for index in range(count):
        image, truth = scenes[index]
        rng = np.random.default_rng((SEED, index))
        left, top = rng.integers(0, SIZE - CROP + 1, 2)
        digits = truth[truth[:, 0] >= 0]
        if len(digits):
            x, y = digits[rng.integers(len(digits)), 1:]
            left, top = (int(np.clip(v - rng.uniform(0.15, 0.85) * CROP, 0, SIZE - CROP)) for v in (x, y))
        yield image[top:top + CROP, left:left + CROP].transpose(2, 0, 1), heatmaps(truth, left, top)


def write_shards(folder, split, count):
    if folder.exists():
        return
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    images, maps, shards = [], [], 0
    for number, (image, target) in enumerate(crops(split, count), 1):
        images.append(image), maps.append(target)
        if len(images) == SHARD or number == count:
            np.savez_compressed(part / f"{shards:04}.npz", images=np.stack(images), heatmaps=np.stack(maps))
            images, maps, shards = [], [], shards + 1
    part.rename(folder)


def network(channels=CHANNELS, groups=GROUPS, seed=SEED):
    """Conv3x3 -> GroupNorm -> Mish blocks, two a level, with skips; outputs heatmaps, and their logits by name."""
    random = np.random.default_rng(seed)
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def op(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def conv(x, name, into, out, taps, bias=0.0):
        weight = random.standard_normal((out, into, taps, taps)) * np.sqrt(2 / (into * taps * taps))
        return op("Conv", [x, constant(f"{name}.weight", weight), constant(f"{name}.bias", np.full(out, bias))], name, pads=[taps // 2] * 4)

    def block(x, name, into, out):
        h = conv(x, f"{name}.conv", into, out, 3)
        h = op("GroupNormalization", [h, constant(f"{name}.scale", np.ones(out)), constant(f"{name}.shift", np.zeros(out))], f"{name}.norm",
               num_groups=groups)
        return op("Mish", [h], f"{name}.mish")

    def level(x, name, into, out):
        return block(block(x, f"{name}.0", into, out), f"{name}.1", out, out)

    skips, x, last = [], "image", 3
    for depth, width in enumerate(channels):
        if depth:
            x = op("MaxPool", [x], f"pool{depth}", kernel_shape=[2, 2], strides=[2, 2])
        x = level(x, f"down{depth}", last, width)
        skips.append(x)
        last = width
    scales = constant("scales", [1, 1, 2, 2])
    for depth in reversed(range(len(channels) - 1)):
        x = op("Resize", [x, "", scales], f"upsampled{depth}", mode="nearest", coordinate_transformation_mode="asymmetric",
               nearest_mode="floor")
        x = op("Concat", [x, skips[depth]], f"joined{depth}", axis=1)
        x = level(x, f"up{depth}", last + channels[depth], channels[depth])
        last = channels[depth]
    conv(x, "logits", last, len(CLASSES), 1, bias=-4.6)  # sigmoid = 0.01: nearly every pixel is background
    op("Sigmoid", ["logits"], "heatmaps")
    graph = helper.make_graph(
        nodes, "heatmap_unet_small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])],
        [helper.make_tensor_value_info("heatmaps", TensorProto.FLOAT, ["batch", len(CLASSES), "height", "width"])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--crops", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    folder, here = arguments.folder, Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    write_shards(folder / "shards", "train", arguments.crops)
    write_shards(folder / "validation", "validation", 96)
    onnx.save(network(), folder / "network.onnx")
    config = {
        "model": "network.onnx", "folder": "run", "batch": 8, "steps": arguments.steps, "seed": SEED, "threads": arguments.threads,
        "data": {"training": "shards", "validation": "validation",
                 "inputs": {"image": {"array": "images", "scale": 1 / 255}, "target": {"array": "heatmaps", "scale": 1 / 255}}},
        "extents": {"height": CROP, "width": CROP},
        "loss": {"kind": "heatmap_focal", "prediction": "logits"},
        "optimiser": {"kind": "adamw", "weight_decay": 0.02, "clip_norm": 5},
        "learning_rate": {"rate": 0.004, "schedule": "cosine", "warm_up": arguments.steps // 20},
        "report_every": 50, "validate_every": 500, "checkpoint_every": 250,
    }
    (folder / "train.json").write_text(json.dumps(config, indent=1) + "\n")
    model = folder / "model"
    shutil.copytree(here / "heldout", model / "heldout", dirs_exist_ok=True)
    sidecar = json.loads((here / "model.json").read_text())
    sidecar.update(file="model.onnx", threshold=0.4)
    (model / "model.json").write_text(json.dumps(sidecar, indent=1) + "\n")


if __name__ == "__main__":
    main()
