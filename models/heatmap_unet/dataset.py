"""Scenes of handwritten digits over photographs, with the digits' classes and centres as truth.

Digits are scikit-learn's load_digits (8x8, UCI optical recognition of handwritten digits); photographs are
those that the scikit-image and scikit-learn wheels carry. A scene is a pure function of (split, seed, index).
"""

import numpy as np
from PIL import Image, ImageFilter

SIZE = 192  # scenes are SIZE x SIZE pixels
CLASSES = tuple("0123456789")
MAX_DIGITS = 8  # per scene
DIGIT_PIXELS = (16.0, 40.0)  # side of a digit's 8x8 box in the scene
MIN_CONTRAST = 0.3  # of luma, between a digit's ink and the mean of what it covers

# Samples keep load_digits' order, in which those of one writer seem to stand together (it has no writer labels):
# contiguous splits share fewer writers than shuffled ones. A photograph belongs to one split only.
DIGIT_RANGE = {"train": (0, 1257), "validation": (1257, 1527), "heldout": (1527, 1797)}
PHOTOGRAPHS = {
    "train": ("astronaut", "brick", "cell", "china.jpg", "coins", "grass", "hubble_deep_field",
              "immunohistochemistry", "moon", "retina"),
    "validation": ("camera", "flower.jpg", "rocket"),
    "heldout": ("chelsea", "coffee", "gravel"),
}
_SPLIT_KEY = {"train": 0, "validation": 1, "heldout": 2}  # part of each scene's random key

_CELL = 4  # a digit's 8x8 cells are kept at 4x4 pixels each
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def load_digit_masks(split):
    """(classes [N], masks: N greyscale images of 40x40: a digit's 8x8 cells inside a margin of one cell)."""
    from sklearn.datasets import load_digits

    first, last = DIGIT_RANGE[split]
    digits = load_digits()
    masks = []
    for cells in digits.images[first:last]:
        padded = np.pad(cells * (255 / 16), 1).round().astype(np.uint8)
        masks.append(Image.fromarray(padded).resize((10 * _CELL, 10 * _CELL), Image.Resampling.BICUBIC))
    return digits.target[first:last], masks


def load_photographs(split):
    """The split's photographs as RGB images."""
    import skimage.data
    from sklearn.datasets import load_sample_image

    images = []
    for name in PHOTOGRAPHS[split]:
        pixels = load_sample_image(name) if name.endswith(".jpg") else getattr(skimage.data, name)()
        images.append(Image.fromarray(pixels).convert("RGB"))
    return images


class Scenes:
    """`count` scenes; item i is (uint8 [SIZE, SIZE, 3], float32 [MAX_DIGITS, 3] rows of class, x, y).

    x and y are the centre of the digit's box in pixels, (0, 0) being the centre of the top left pixel.
    Unused rows have class -1.
    """

    def __init__(self, split, seed, count):
        self.key = (seed, _SPLIT_KEY[split])
        self.count = count
        self.classes, self.masks = load_digit_masks(split)
        self.photographs = load_photographs(split)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        rng = np.random.default_rng((*self.key, index))
        scene = _background(rng, self.photographs)
        truth = np.full((MAX_DIGITS, 3), -1, np.float32)
        for row, (x, y, side) in enumerate(_places(rng)):
            sample = rng.integers(len(self.masks))
            _draw_digit(rng, scene, self.masks[sample], x, y, side)
            truth[row] = self.classes[sample], x, y
        return _camera(rng, scene), truth


def _background(rng, photographs):
    """A random square of a random photograph, mirrored or not, its colours changed; float32 in 0..1."""
    photograph = photographs[rng.integers(len(photographs))]
    short = min(photograph.size)
    side = np.exp(rng.uniform(np.log(min(128, short)), np.log(short)))
    left, top = rng.uniform(0, photograph.width - side), rng.uniform(0, photograph.height - side)
    crop = photograph.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    pixels = np.asarray(crop, np.float32) / 255
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
    gain = rng.uniform(0.6, 1.2) * rng.uniform(0.8, 1.2, 3).astype(np.float32)
    return np.clip(pixels * gain.astype(np.float32) + np.float32(rng.uniform(-0.1, 0.2)), 0, 1)


def _places(rng):
    """Up to MAX_DIGITS of (x, y, side), inside the scene and apart from one another."""
    places = []
    for _ in range(rng.integers(0, MAX_DIGITS + 1)):
        side = rng.uniform(*DIGIT_PIXELS)
        for _ in range(20):
            x, y = rng.uniform(0.6 * side, SIZE - 1 - 0.6 * side, 2)
            if all(np.hypot(x - u, y - v) > 0.65 * (side + other) for u, v, other in places):
                places.append((x, y, side))
                break
    return places


def _draw_digit(rng, scene, mask, x, y, side):
    """Blends one digit into `scene`: turned by up to 15 degrees, sheared, stretched, in one colour."""
    angle, shear = np.deg2rad(rng.uniform(-15, 15)), rng.uniform(-0.15, 0.15)
    stretch = np.exp(rng.uniform(-0.15, 0.15))
    cos, sin = np.cos(angle), np.sin(angle)
    forward = np.array([[cos, -sin], [sin, cos]]) @ np.array([[stretch, shear], [0, 1 / stretch]])
    inverse = np.linalg.inv(forward * (side / (8 * _CELL)))  # scene pixels -> mask pixels

    reach = int(np.ceil(0.9 * side))
    left, top = max(0, int(x) - reach), max(0, int(y) - reach)
    right, bottom = min(SIZE, int(x) + reach + 1), min(SIZE, int(y) + reach + 1)
    centre = 5 * _CELL - inverse @ (x + 0.5 - left, y + 0.5 - top)  # PIL's pixel centres are at 0.5
    affine = (*inverse[0], centre[0], *inverse[1], centre[1])
    warped = mask.transform((right - left, bottom - top), Image.Transform.AFFINE, affine,
                            Image.Resampling.BILINEAR)

    low, high = rng.uniform(0.1, 0.35), rng.uniform(0.7, 1)  # stroke width and softness
    alpha = np.clip((np.asarray(warped, np.float32) / 255 - low) / (high - low), 0, 1)[..., None]
    patch = scene[top:bottom, left:right]
    covered = float((patch * alpha).sum((0, 1)) @ _LUMA) / max(float(alpha.sum()), 1e-6)
    ink = _ink(rng, covered)
    alpha = alpha * np.float32(rng.uniform(0.8, 1))
    patch += alpha * (ink - patch)


def _ink(rng, covered_luma):
    for _ in range(20):
        colour = rng.random(3, np.float32)
        if abs(float(colour @ _LUMA) - covered_luma) >= MIN_CONTRAST:
            return colour
    return np.full(3, 0 if covered_luma > 0.5 else 1, np.float32)


def _camera(rng, scene):
    """Blur and noise over the whole scene, then 8 bits."""
    image = scene
    if rng.random() < 0.3:
        eight_bit = Image.fromarray((scene * 255).round().astype(np.uint8))
        blurred = eight_bit.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.9)))
        image = np.asarray(blurred, np.float32) / 255
    noise = rng.standard_normal(scene.shape, np.float32) * np.float32(rng.uniform(0, 0.03))
    return (np.clip(image + noise, 0, 1) * 255).round().astype(np.uint8)
