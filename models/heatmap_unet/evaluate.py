"""Chooses the threshold on validation scenes, then measures the exported network once on held-out scenes.

Needs ONNX Runtime and no PyTorch. Writes metrics.json, model.json and heldout/ beside the ONNX file.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

import detect
from dataset import CLASSES, DIGIT_RANGE, PHOTOGRAPHS, SIZE, Scenes

SEED = 20240  # of validation and held-out scenes; training uses another
LOWEST_THRESHOLD = 0.1
SHOWN = 8  # the first held-out scenes, written as files for the demo


def tally(session, scenes, batch=4):
    result = detect.Tally(len(CLASSES))
    for first in range(0, len(scenes), batch):
        items = [scenes[i] for i in range(first, min(first + batch, len(scenes)))]
        images = np.stack([image for image, _ in items]).transpose(0, 3, 1, 2).astype(np.float32) / 255
        for heatmaps, (_, truth) in zip(session.run(None, {"image": images})[0], items):
            result.add(detect.peaks(heatmaps, LOWEST_THRESHOLD), truth)
        if first % 100 == 0:
            print(f"  {first}/{len(scenes)} scenes", flush=True)
    return result


def choose_threshold(validation):
    """The threshold of the best F1 over all classes."""
    candidates = np.round(np.arange(LOWEST_THRESHOLD, 0.9, 0.01), 2)
    f1 = [detect.scores(*(count.sum() for count in validation.counts(t)))["f1"] for t in candidates]
    return float(candidates[int(np.argmax(f1))])


def summary(result, scenes, threshold):
    counts = result.counts(threshold)
    return {"scenes": len(scenes), **detect.scores(*(count.sum() for count in counts)),
            "per_class": {name: detect.scores(*row) for name, *row in zip(CLASSES, *counts)}}


def write_heldout(folder, scenes):
    folder.mkdir(exist_ok=True)
    truth = {}
    for index in range(SHOWN):
        image, rows = scenes[index]
        name = f"scene_{index:02d}.png"
        Image.fromarray(image).save(folder / name, optimize=True)
        truth[name] = [{"class": int(c), "x": round(float(x), 2), "y": round(float(y), 2)}
                       for c, x, y in rows if c >= 0]
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def model_description(threshold):
    return {
        "file": "heatmap_unet.onnx",
        "input": {"name": "image", "dtype": "float32", "layout": "NCHW", "shape": ["batch", 3, SIZE, SIZE],
                  "channels": "RGB", "normalisation": {"scale": 1 / 255, "offset": 0.0}},
        "output": {"name": "heatmaps", "dtype": "float32", "layout": "NCHW",
                   "shape": ["batch", len(CLASSES), SIZE, SIZE], "stride": 1},
        "classes": list(CLASSES),
        "threshold": threshold,
        "nms_radius": detect.NMS_RADIUS,
        "match_radius": detect.MATCH_RADIUS,
        "heldout": {"folder": "heldout", "truth": "heldout/truth.json"},
    }


def evaluate(folder, validation_count, heldout_count):
    session = onnxruntime.InferenceSession(folder / "heatmap_unet.onnx", providers=["CPUExecutionProvider"])
    validation_scenes = Scenes("validation", SEED, validation_count)
    validation = tally(session, validation_scenes)
    threshold = choose_threshold(validation)
    heldout_scenes = Scenes("heldout", SEED, heldout_count)
    heldout = tally(session, heldout_scenes)
    metrics = {
        "threshold": threshold,
        "threshold_chosen_by": "best F1 on the validation scenes",
        "match_radius": detect.MATCH_RADIUS,
        "nms_radius": detect.NMS_RADIUS,
        "scene_seed": SEED,
        "digit_samples": DIGIT_RANGE,
        "photographs": PHOTOGRAPHS,
        "validation": summary(validation, validation_scenes, threshold),
        "heldout": summary(heldout, heldout_scenes, threshold),
    }
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    (folder / "model.json").write_text(json.dumps(model_description(threshold), indent=1) + "\n")
    write_heldout(folder / "heldout", heldout_scenes)
    return metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where heatmap_unet.onnx is")
    parser.add_argument("--validation-scenes", type=int, default=500)
    parser.add_argument("--heldout-scenes", type=int, default=1000)
    arguments = parser.parse_args()
    metrics = evaluate(arguments.folder, arguments.validation_scenes, arguments.heldout_scenes)
    for split in ("validation", "heldout"):
        print(split, {key: value for key, value in metrics[split].items() if key != "per_class"})
    for name, row in metrics["heldout"]["per_class"].items():
        print(f"  {name}: precision {row['precision']:.3f}, recall {row['recall']:.3f}, {row['digits']} digits")


if __name__ == "__main__":
    main()
