"""rapidocr: three trained models as their package ships them, on images of printed text."""
import importlib.util
import pathlib

from .entry import Entry

MODELS = {  # (height, width, lines of text for each image of the batch)
    "ch_PP-OCRv4_det_infer": (320, 480, [["Fused epilogues", "one kernel, one launch", "2026-11-21"]]),
    "ch_PP-OCRv4_rec_infer": (48, 320, [["one kernel, one launch"], ["Conv2D + GroupNorm"]]),
    "ch_ppocr_mobile_v2.0_cls_infer": (48, 192, [["float32"], ["rounding"]])}


def text_image(height, width, lines):
    """Dark text on a light page as these models take it: (3, height, width), -1 to 1."""
    import numpy as np
    import PIL.Image
    import PIL.ImageDraw
    import PIL.ImageFont
    page = PIL.Image.new("RGB", (width, height), (235, 232, 225))
    step = height / len(lines)
    for i, line in enumerate(lines):
        font = PIL.ImageFont.load_default(size=min(0.7 * step, 40))
        PIL.ImageDraw.Draw(page).text((8, (i + 0.1) * step), line, font=font, fill=(30, 30, 60))
    return np.asarray(page, np.float32).transpose(2, 0, 1) / 127.5 - 1


def shipped(name):
    """(the model's file, its inputs)"""
    import numpy as np
    height, width, batch = MODELS[name]
    folder = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent / "models"
    return folder / f"{name}.onnx", {"x": np.stack([text_image(height, width, lines) for lines in batch])}


ENTRIES = [Entry("rapidocr", name, shipped, (name,)) for name in MODELS]
