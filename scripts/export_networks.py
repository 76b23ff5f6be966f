#!/usr/bin/env python3
"""Exports networks of torchvision and segmentation-models-pytorch to ONNX, with random weights and both of PyTorch's
exporters, and lists them with the models inside rapidocr-onnxruntime in FOLDER/networks.json.

usage: export_networks.py FOLDER [NAME …]

A name is that of a network, such as resnet50; without names all are exported. The list is what compare_onnx.py --list
reads: [{"network", "exporter", "open", "file", "inputs": [{name: extents or a .npy file, …}, … a run each]}, …]. Needs
the packages of scripts/requirements-networks.txt (scripts/setup.sh networks).
"""
import argparse
import importlib.util
import json
import logging
import pathlib
import warnings
import zlib

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import segmentation_models_pytorch as smp
import torch
import torchvision.models as classification
import torchvision.models.segmentation as segmentation

OPSETS = {"dynamo": 18, "torchscript": 17}  # the newest that each exporter writes without converting


class OneOutput(torch.nn.Module):
    """torchvision's segmentation networks return a dictionary with the one output "out"."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def random(name):
    return name(weights=None)


def random_segmentation(name):
    return OneOutput(name(weights=None, weights_backbone=None, num_classes=21))


# name: (maker, image size, which extents a second export leaves open: "" none, "n" the batch, "nhw" the size too)
NETWORKS = {
    "resnet50": (lambda: random(classification.resnet50), 224, "n"),
    "mobilenet_v3_small": (lambda: random(classification.mobilenet_v3_small), 224, "nhw"),
    "mobilenet_v3_large": (lambda: random(classification.mobilenet_v3_large), 224, ""),
    "deeplabv3_resnet50": (lambda: random_segmentation(segmentation.deeplabv3_resnet50), 256, ""),
    "deeplabv3_mobilenet_v3_large":
        (lambda: random_segmentation(segmentation.deeplabv3_mobilenet_v3_large), 256, "nhw"),
    "fcn_resnet50": (lambda: random_segmentation(segmentation.fcn_resnet50), 256, "nhw"),
    "unet_resnet34": (lambda: smp.Unet("resnet34", encoder_weights=None, classes=3), 256, "nhw"),
}

# file inside rapidocr_onnxruntime/models: (height, width, lines) of the image, lines of text for a batch
OCR = {
    "ch_PP-OCRv4_det_infer.onnx": (320, 480, [["Fused epilogues", "one kernel, one launch", "2026-11-21"]]),
    "ch_PP-OCRv4_rec_infer.onnx": (48, 320, [["one kernel, one launch"], ["Conv2D + GroupNorm"]]),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": (48, 192, [["float32"], ["rounding"]]),
}


def randomise(net, size):
    """Makes BatchNorm do something, and keeps activations near 1 as training does: random scales and shifts, running
    statistics as this net has them on random images, then moved by a tenth."""
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for m in norms:
        torch.nn.init.uniform_(m.weight, 0.5, 1.5)
        torch.nn.init.normal_(m.bias, std=0.2)
        m.momentum = None  # running statistics are the mean over the batches below
        m.reset_running_stats()
    net.train()
    with torch.no_grad():
        for _ in range(2):
            net(torch.randn(4, 3, size, size))
        for m in norms:
            m.running_mean += 0.1 * m.running_var.sqrt() * torch.randn_like(m.running_mean)
            m.running_var *= torch.empty_like(m.running_var).uniform_(0.8, 1.25)
    return net.eval()


def make(name):
    maker, size, _ = NETWORKS[name]
    torch.manual_seed(zlib.crc32(name.encode()))  # the same weights whichever networks are exported
    return randomise(maker(), size), size


def open_axes(exporter, free):
    """What the exporters are told about extents that stay open; the size must be a multiple of 32 for the U-Net."""
    if not free:
        return {}
    names = {"n": {0: "batch"}, "nhw": {0: "batch", 2: "height", 3: "width"}}[free]
    if exporter == "torchscript":
        return {"dynamic_axes": {"image": names}}
    dims = {0: torch.export.Dim("batch", max=64)}
    if "h" in free:
        dims[2] = 32 * torch.export.Dim("rows", min=2, max=64)
        dims[3] = 32 * torch.export.Dim("columns", min=2, max=64)
    return {"dynamic_shapes": [dims]}


def export(net, size, exporter, free, file):
    # two images, so that no extent is the number 1 by chance
    image = torch.randn(2 if free else 1, 3, size, size)
    torch.onnx.export(net, (image,), str(file), dynamo=exporter == "dynamo", opset_version=OPSETS[exporter],
                      input_names=["image"], output_names=["out"],
                      **({"external_data": False, "verbose": False} if exporter == "dynamo" else {}),
                      **open_axes(exporter, free))


def runs(size, free):
    """The inputs of the runs: where extents are open, two of them, one that is not square."""
    if not free:
        return [{"image": [1, 3, size, size]}]
    other = [3, 3, size, size] if free == "n" else [1, 3, size - 32, size + 64]
    return [{"image": [2, 3, size, size]}, {"image": other}]


def text_image(height, width, lines):
    """Dark text on a light page as these models take it: (3, height, width), -1 to 1."""
    page = PIL.Image.new("RGB", (width, height), (235, 232, 225))
    step = height / len(lines)
    for i, line in enumerate(lines):
        font = PIL.ImageFont.load_default(size=min(0.7 * step, 40))
        PIL.ImageDraw.Draw(page).text((8, (i + 0.1) * step), line, font=font, fill=(30, 30, 60))
    return np.asarray(page, np.float32).transpose(2, 0, 1) / 127.5 - 1


def list_ocr(folder):
    models = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent / "models"
    for file, (height, width, batch) in OCR.items():
        name = file.removesuffix(".onnx")
        np.save(folder / f"{name}.npy", np.stack([text_image(height, width, lines) for lines in batch]))
        yield {"network": name, "exporter": "as shipped", "open": "", "file": str(models / file),
               "inputs": [{"x": f"{name}.npy"}]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    a = parser.parse_args()
    unknown = set(a.names) - set(NETWORKS)
    if unknown:
        parser.error(f"no network {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    warnings.filterwarnings("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # else it warns of operators that no network here has
    a.folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for name in a.names or NETWORKS:
        net, size = make(name)
        for free in ("", NETWORKS[name][2]) if NETWORKS[name][2] else ("",):
            for exporter in OPSETS:
                file = a.folder / f"{name}{'.' + free if free else ''}.{exporter}.onnx"
                export(net, size, exporter, free, file)
                print(f"exported {file}", flush=True)
                listed.append({"network": name, "exporter": exporter, "open": free, "file": file.name,
                               "inputs": runs(size, free)})
    listed += list_ocr(a.folder)
    (a.folder / "networks.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main()
