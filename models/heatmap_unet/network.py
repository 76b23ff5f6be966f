"""The heatmap U-Net: two Conv3x3 -> GroupNorm -> Mish a level, skips by concatenation, one heatmap a class."""

import torch
import torch.nn.functional as F
from torch import nn

CHANNELS = (16, 32, 64, 96, 128)  # per level; the resolution halves from one to the next
GROUPS = 8


class Block(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(GROUPS, outputs), nn.Mish())


def _level(inputs, outputs):
    return nn.Sequential(Block(inputs, outputs), Block(outputs, outputs))


class HeatmapUNet(nn.Module):
    """[batch, 3, H, W] in 0..1 -> [batch, classes, H, W] in 0..1; H and W are multiples of 16."""

    def __init__(self, classes):
        super().__init__()
        self.down = nn.ModuleList(_level(i, o) for i, o in zip((3, *CHANNELS[:-1]), CHANNELS))
        self.up = nn.ModuleList(_level(below + skip, skip)
                                for below, skip in reversed(list(zip(CHANNELS[1:], CHANNELS[:-1]))))
        self.head = nn.Conv2d(CHANNELS[0], classes, 1)
        nn.init.constant_(self.head.bias, -4.6)  # sigmoid = 0.01: nearly every pixel is background

    def logits(self, image):
        skips = []
        x = image
        for level in self.down[:-1]:
            skips.append(level(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.down[-1](x)
        for level in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = level(torch.cat((x, skips.pop()), 1))
        return self.head(x)

    def forward(self, image):
        return torch.sigmoid(self.logits(image))
