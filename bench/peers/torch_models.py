"""The networks of suite `torch`, written out in PyTorch so that a machine needs nothing but PyTorch to time them.

Layers, sizes and order are those of the models named; weights are random. `parameters` in NETWORKS is the number that the
original has, which torch_suite.py --check compares.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResnetBlock(nn.Module):
    """GroupNorm → SiLU → Conv, a time embedding, GroupNorm → SiLU → Conv, and a shortcut."""

    def __init__(self, i, o, time=None, eps=1e-5):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, i, eps), nn.Conv2d(i, o, 3, padding=1)
        self.time = nn.Linear(time, o) if time else None
        self.n2, self.c2 = nn.GroupNorm(32, o, eps), nn.Conv2d(o, o, 3, padding=1)
        self.shortcut = nn.Conv2d(i, o, 1) if i != o else None

    def forward(self, x, t=None):
        h = self.c1(F.silu(self.n1(x)))
        if self.time is not None:
            h = h + self.time(F.silu(t))[:, :, None, None]
        h = self.c2(F.silu(self.n2(h)))
        return h + (x if self.shortcut is None else self.shortcut(x))


class Down(nn.Module):
    def __init__(self, c, padding=1):
        super().__init__()
        self.c, self.padding = nn.Conv2d(c, c, 3, stride=2, padding=padding), padding

    def forward(self, x):
        return self.c(x if self.padding else F.pad(x, (0, 1, 0, 1)))


class Up(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return self.c(F.interpolate(x, scale_factor=2, mode="nearest"))


class Attention(nn.Module):
    def __init__(self, c, heads, context=None, bias=False):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(i, c, bias=bias) for i in (c, context or c, context or c))
        self.out = nn.Linear(c, c)

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = (f(t).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, t in ((self.q, x), (self.k, context), (self.v, context)))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """Self-attention, attention to a context and GEGLU, between two 1×1 convolutions."""

    def __init__(self, c, heads=8, context=768):
        super().__init__()
        self.norm, self.i, self.o = nn.GroupNorm(32, c, 1e-6), nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)
        self.n1, self.n2, self.n3 = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
        self.own, self.cross = Attention(c, heads), Attention(c, heads, context)
        self.gate, self.down = nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

    def forward(self, x, context):
        h = self.i(self.norm(x))
        size = h.shape[2:]
        h = h.flatten(2).transpose(1, 2)
        h = h + self.own(self.n1(h))
        h = h + self.cross(self.n2(h), context)
        value, gate = self.gate(self.n3(h)).chunk(2, -1)
        h = h + self.down(value * F.gelu(gate))
        return self.o(h.transpose(1, 2).unflatten(2, size)) + x


class ImageAttention(nn.Module):
    """Attention of one head over the pixels of an image, as DDPM's and the VAE's."""

    def __init__(self, c, heads=1, eps=1e-6):
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(32, c, eps), Attention(c, heads, bias=True)

    def forward(self, x):
        h = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(h).transpose(1, 2).unflatten(2, x.shape[2:])


def embedded(t, width, shift=0, sine_first=False):
    """Sinusoidal embedding of time steps (N,) as (N, width)."""
    half = width // 2
    angles = t[:, None].float() * torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / (half - shift))
    return torch.cat([angles.sin(), angles.cos()] if sine_first else [angles.cos(), angles.sin()], -1)


class DiffusionUNet(nn.Module):
    """Of Stable Diffusion 1.5 (context: 768) and of DDPM (none)."""

    def __init__(self, channels, widths, attends, context=None, eps=1e-5, padding=1):
        super().__init__()
        time = 4 * widths[0]
        self.width, self.context = widths[0], context
        self.i, self.t1, self.t2 = nn.Conv2d(channels, widths[0], 3, padding=1), nn.Linear(widths[0], time), nn.Linear(time, time)
        def attention(c):
            return Transformer(c, context=context) if context else ImageAttention(c, eps=eps)
        self.down, self.up, skips, c = nn.ModuleList(), nn.ModuleList(), [widths[0]], widths[0]
        for level, width in enumerate(widths):
            for _ in range(2):
                self.down.append(nn.ModuleList([ResnetBlock(c, width, time, eps), attention(width) if attends[level] else nn.Identity()]))
                c = width
                skips.append(c)
            if level + 1 < len(widths):
                self.down.append(nn.ModuleList([Down(c, padding)]))
                skips.append(c)
        self.middle = nn.ModuleList([ResnetBlock(c, c, time, eps), attention(c), ResnetBlock(c, c, time, eps)])
        for level, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(nn.ModuleList([ResnetBlock(c + skips.pop(), width, time, eps), attention(width) if attends[level] else nn.Identity()]))
                c = width
            if level:
                self.up.append(nn.ModuleList([Up(c)]))
        self.norm, self.o = nn.GroupNorm(32, c, eps), nn.Conv2d(c, channels, 3, padding=1)

    def attend(self, layer, x, context):
        return layer(x, context) if isinstance(layer, Transformer) else layer(x)

    def forward(self, x, t, context=None):
        t = embedded(t, self.width, 0 if self.context else 1, not self.context).to(x.dtype)
        t = self.t2(F.silu(self.t1(t)))
        h = self.i(x)
        skips = [h]
        for layers in self.down:
            h = layers[0](h) if len(layers) == 1 else self.attend(layers[1], layers[0](h, t), context)
            skips.append(h)
        h = self.middle[2](self.attend(self.middle[1], self.middle[0](h, t), context), t)
        for layers in self.up:
            h = layers[0](h) if len(layers) == 1 else self.attend(layers[1], layers[0](torch.cat([h, skips.pop()], 1), t), context)
        return self.o(F.silu(self.norm(h)))


class VaeDecoder(nn.Module):
    def __init__(self, widths=(512, 512, 256, 128)):
        super().__init__()
        eps, c = 1e-6, widths[0]
        self.post, self.i = nn.Conv2d(4, 4, 1), nn.Conv2d(4, c, 3, padding=1)
        layers = [ResnetBlock(c, c, eps=eps), ImageAttention(c), ResnetBlock(c, c, eps=eps)]
        for level, width in enumerate(widths):
            for _ in range(3):
                layers.append(ResnetBlock(c, width, eps=eps))
                c = width
            if level + 1 < len(widths):
                layers.append(Up(c))
        self.layers, self.norm, self.o = nn.Sequential(*layers), nn.GroupNorm(32, c, eps), nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, z):
        return self.o(F.silu(self.norm(self.layers(self.i(self.post(z))))))


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride):
        super().__init__()
        o = 4 * width
        self.c1, self.n1 = nn.Conv2d(i, width, 1, bias=False), nn.GroupNorm(32, width)
        self.c2, self.n2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.GroupNorm(32, width)
        self.c3, self.n3 = nn.Conv2d(width, o, 1, bias=False), nn.GroupNorm(32, o)
        self.shortcut = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.GroupNorm(32, o)) if stride > 1 or i != o else None

    def forward(self, x):
        h = F.relu(self.n1(self.c1(x)))
        h = self.n3(self.c3(F.relu(self.n2(self.c2(h)))))
        return F.relu(h + (x if self.shortcut is None else self.shortcut(x)))


class Resnet50GroupNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.n = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.GroupNorm(32, 64)
        layers, c = [], 64
        for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(depth):
                layers.append(Bottleneck(c, width, stride if i == 0 else 1))
                c = 4 * width
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(c, 1000)

    def forward(self, x):
        return self.fc(self.layers(F.max_pool2d(F.relu(self.n(self.c(x))), 3, 2, 1)).mean((2, 3)))


class ConvNextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.n = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c, 1e-6)
        self.up, self.down, self.scale = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Parameter(torch.full((c,), 1e-6))

    def forward(self, x):
        h = self.n(self.c(x).permute(0, 2, 3, 1))
        return x + (self.down(F.gelu(self.up(h))) * self.scale).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextTiny(nn.Module):
    def __init__(self):
        super().__init__()
        widths, layers = (96, 192, 384, 768), [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, 1e-6)]
        for i, (width, depth) in enumerate(zip(widths, (3, 3, 9, 3))):
            if i:
                layers += [ChannelNorm(widths[i - 1], 1e-6), nn.Conv2d(widths[i - 1], width, 2, 2)]
            layers += [ConvNextBlock(width) for _ in range(depth)]
        self.layers, self.norm, self.fc = nn.Sequential(*layers), nn.LayerNorm(768, 1e-6), nn.Linear(768, 1000)

    def forward(self, x):
        return self.fc(self.norm(self.layers(x).mean((2, 3))))


class NnUNet(nn.Module):
    """nnU-Net's plain 2-D network: seven stages, two Conv → InstanceNorm → LeakyReLU each, transposed convolutions up."""

    def __init__(self, channels=1, classes=3, widths=(32, 64, 128, 256, 512, 512, 512)):
        super().__init__()
        def stage(i, o, stride=1):
            return nn.Sequential(*(layer for n in (0, 1) for layer in (
                nn.Conv2d(i if n == 0 else o, o, 3, stride if n == 0 else 1, 1), nn.InstanceNorm2d(o, 1e-5, affine=True), nn.LeakyReLU(inplace=True))))
        self.down = nn.ModuleList(stage(channels if i == 0 else widths[i - 1], w, 1 if i == 0 else 2) for i, w in enumerate(widths))
        pairs = list(zip(widths[:-1], widths[1:]))[::-1]
        self.wide = nn.ModuleList(nn.ConvTranspose2d(deep, wide, 2, 2) for wide, deep in pairs)
        self.up = nn.ModuleList(stage(2 * wide, wide) for wide, _ in pairs)
        self.heads = nn.ModuleList(nn.Conv2d(wide, classes, 1) for wide, _ in pairs)  # all but the last are for training

    def forward(self, x):
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
        for i, (wide, stage) in enumerate(zip(self.wide, self.up)):
            x = stage(torch.cat([wide(x), skips[-2 - i]], 1))
        return self.heads[-1](x)


class Mlp(nn.Module):
    """BERT's: Linear → GELU → Linear, a residual and LayerNorm."""

    def __init__(self, c=768, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.LayerNorm(c, 1e-12)]) for _ in range(layers))

    def forward(self, x):
        for up, down, norm in self.layers:
            x = norm(down(F.gelu(up(x))) + x)
        return x


class GatedMlp(nn.Module):
    """Llama's: RMSNorm, SwiGLU, a residual."""

    def __init__(self, c=4096, wide=11008, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.RMSNorm(c, 1e-5), *(nn.Linear(i, o, bias=False) for i, o in ((c, wide), (c, wide), (wide, c)))])
                                    for _ in range(layers))

    def forward(self, x):
        for norm, gate, up, down in self.layers:
            h = norm(x)
            x = x + down(F.silu(gate(h)) * up(h))
        return x


class UNetBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.c, self.n = nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(min(32, o // 4), o)

    def forward(self, x):
        return F.mish(self.n(self.c(x)))


class HeatmapUNet(nn.Module):
    """The baseline U-Net: five levels, two Conv → GroupNorm → Mish a level, 17 heat maps."""

    def __init__(self, channels=8, widths=(64, 128, 256, 512, 1024), maps=17):
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(UNetBlock(a, b), UNetBlock(b, b)) for a, b in zip((channels, *widths[:-1]), widths))
        self.narrow = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in zip(widths[:-1], widths[1:]))
        self.up = nn.ModuleList(nn.Sequential(UNetBlock(2 * a, a), UNetBlock(a, a)) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], maps, 1)

    def forward(self, x):
        skips = []
        for i, stage in enumerate(self.down):
            x = stage(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.up[i](torch.cat([skips[i], self.narrow[i](F.interpolate(x, scale_factor=2, mode="nearest"))], 1))
        return self.head(x)


def _sd15():
    return DiffusionUNet(4, (320, 640, 1280, 1280), (True, True, True, False), 768)


def _sd15_inputs(n, scale=1):
    return torch.randn(n, 4, 64 // scale, 64 // scale), torch.full((n,), 500), torch.randn(n, 77, 768)


# {name: (model, inputs of a scale: sizes are divided by it, parameters of the original, the bar over the best peer)}
NETWORKS = {
    "sd15_unet_2": (_sd15, lambda s: _sd15_inputs(2, s), 859_520_964, 1.15),
    "sd15_unet_8": (_sd15, lambda s: _sd15_inputs(8, s), 859_520_964, 1.15),
    "vae_decoder": (VaeDecoder, lambda s: (torch.randn(1, 4, 64 // s, 64 // s),), 49_490_199, 1.4),
    "ddpm_256": (lambda: DiffusionUNet(3, (128, 128, 256, 256, 512, 512), (False,) * 4 + (True, False), eps=1e-6, padding=0),
                 lambda s: (torch.randn(2, 3, 256 // s, 256 // s), torch.full((2,), 500)), 113_673_219, 1.4),
    "resnet50_gn": (Resnet50GroupNorm, lambda s: (torch.randn(32 // s, 3, 224 // s, 224 // s),), 25_557_032, 1.5),
    "nnunet_2d": (NnUNet, lambda s: (torch.randn(max(1, 12 // s), 1, 512 // s, 512 // s),), None, 1.5),
    "convnext_tiny": (ConvNextTiny, lambda s: (torch.randn(32 // s, 3, 224 // s, 224 // s),), 28_589_128, 1.0),
    "bert_mlp": (Mlp, lambda s: (torch.randn(8, 512 // s, 768),), None, 1.0),
    "llama_mlp": (GatedMlp, lambda s: (torch.randn(1, 4096 // s, 4096),), None, 1.0),
    "heatmap_unet": (HeatmapUNet, lambda s: (torch.randn(8, 8, 256 // s, 256 // s),), None, None),
}
