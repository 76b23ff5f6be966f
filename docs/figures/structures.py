#!/usr/bin/env python3
"""The pictures of structures in docs/: halo tile, taps of a volume, stages of an epilogue, memory plan, what fuses in a block, a visitor's
tree, and those of overviews.py.

usage: docs/figures/structures.py [--check]
--check writes nothing and fails if a picture is not what this script draws. Plain Python, no packages.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from overviews import OVERVIEWS  # noqa: E402
from svg import FAINT, INK, SOFT, Page  # noqa: E402

BLUE, ORANGE, GREEN, RED, VIOLET, GREY = "#3b6fb6", "#d9822b", "#3f8f5f", "#c9524a", "#8a63a8", "#8a94a0"
PALE_BLUE, PALE_ORANGE, PALE_GREEN, PALE_RED, PALE_GREY = "#dbe6f4", "#fae6cf", "#dcefe3", "#f6d9d6", "#eef1f4"


def halo_tile(page):
    """A tile of 8 x 16 pixels of a 3x3 convolution: the pixels that it loads, and what one tap reads of them."""
    page.text(24, 34, "A halo tile: one load for all filter taps", 17, bold=True)
    page.text(24, 56, "Here 8 x 16 output pixels of a 3x3 convolution with padding 1: 10 x 18 pixels, 1.4 times the tile.", 13, SOFT)
    side, x0, y0 = 17, 60, 90
    for row in range(18):
        for column in range(10):
            inner = 0 < row < 17 and 0 < column < 9
            page.rect(x0 + column * side, y0 + row * side, side - 1, side - 1, PALE_BLUE if inner else PALE_ORANGE, "#b8c4d4", 1, line=0.6)
    page.rect(x0 + side - 1, y0 + side - 1, 8 * side + 1, 16 * side + 1, stroke=BLUE, line=2.2, radius=1)
    page.rect(x0 + 2 * side - 1, y0 + 2 * side - 1, 8 * side + 1, 16 * side + 1, stroke=RED, line=2.2, radius=1, dash="5 3")
    page.lines(x0 + 10 * side + 20, y0 + 30, ["output pixels of the tile (128 rows of the matrix)"], 13, fill=BLUE, bold=True)
    page.lines(x0 + 10 * side + 20, y0 + 54, ["halo: pixels of neighbouring tiles, or zeros beyond the image"], 13, fill=ORANGE, bold=True)
    page.lines(x0 + 10 * side + 20, y0 + 78, ["what the tap at the lower right reads: the same memory, 1 image row and 1 pixel further"], 13, fill=RED, bold=True)
    page.lines(x0 + 10 * side + 20, y0 + 120, [
        "TMA loads the tile once for each 64 input channels, 128 bytes a pixel.",
        "The 9 taps are 9 starting addresses of a matrix descriptor: a group of 8 pixels",
        "lies in 8 rows of 128 bytes, and the next group begins one image row further,",
        "10 x 128 bytes. No pixel is moved and none is loaded again.", "",
        "An im2col tile instead loads 128 pixels for each tap: 9 x 128 pixels of 128 bytes,",
        "1,152 in place of 180. For 64 input channels that is 147 KB in place of 23 KB from L2,",
        "which delivers about 53 bytes a clock to an SM."], 13, 19)


def volume_taps(page):
    """A tile of 8 x 16 voxels of a 3x3x3 convolution that is causal in time: what its 27 taps read of three planes."""
    page.text(24, 34, "The 27 taps of a 3x3x3 convolution, causal in time", 17, bold=True)
    page.text(24, 56, "A tile of 8 x 16 output voxels of frame t reads the same 10 x 18 voxels of the frames t-2, t-1 and t.", 13, SOFT)
    side, y0 = 13, 110
    for plane, name in enumerate(("frame t-2", "frame t-1", "frame t")):
        x0 = 40 + plane * 170
        page.text(x0, y0 - 14, name + (": zeros, or a cache" if plane == 0 else ""), 12.5, bold=True)
        for row in range(18):
            for column in range(10):
                inner = 0 < row < 17 and 0 < column < 9
                fill = PALE_BLUE if plane == 2 and inner else PALE_GREEN if inner else PALE_ORANGE
                page.rect(x0 + column * side, y0 + row * side, side - 1, side - 1, fill, "#b8c4d4", 1, line=0.6)
        if plane == 2:
            page.rect(x0 + side - 1, y0 + side - 1, 8 * side + 1, 16 * side + 1, stroke=BLUE, line=2.2, radius=1)
        page.rect(x0 + 2 * side - 1, y0 + 2 * side - 1, 8 * side + 1, 16 * side + 1, stroke=RED, line=2.2, radius=1, dash="5 3")
    page.lines(570, y0 - 10, ["output voxels of the tile (128 rows of the matrix)"], 13, fill=BLUE, bold=True)
    page.lines(570, y0 + 14, ["what the taps at the lower right read, one in each plane"], 13, fill=RED, bold=True)
    page.lines(570, y0 + 38, ["halo: voxels of neighbouring tiles, or zeros"], 13, fill=ORANGE, bold=True)
    page.lines(570, y0 + 80, [
        "Im2col tiles load the red box once for each tap:",
        f"27 x 128 = {27 * 128:,} voxels for each 64 input channels.", "",
        "A halo tile loads each plane once, for its nine taps:",
        f"3 x 10 x 18 = {3 * 180} voxels, {27 * 128 / 540:.1f} times fewer.", "",
        "In memory the planes lie one below the other, so a tap is",
        "an offset: plane, image row and voxel."], 13, 19)


def epilogue_stages(page):
    """h = acc + bias; y = silu(group_norm(h)); store y; store sum(h, over=m), cut into stages."""
    page.text(24, 34, "The stages of an epilogue", 17, bold=True)
    page.text(24, 56, "h = acc + bias[n];  y = silu(group_norm(h, groups=8));  store y;  store sum(h, over=m)", 13, SOFT)
    for x, fill, title in ((24, PALE_BLUE, "stage 1: over every tile, as it is multiplied"), (560, PALE_GREEN, "stage 2: once all tiles of the image are done")):
        page.rect(x, 78, 496 if x == 24 else 416, 300, fill, FAINT, 6)
        page.text(x + 14, 100, title, 13, bold=True)
    page.box(50, 150, 130, 34, GREY, "acc")
    page.box(50, 224, 130, 34, BLUE, "h = acc + bias[n]", 12)
    page.line([(115, 184), (115, 222)], arrow=True)
    for i, (label, fill) in enumerate((("mean over (m, n), per image and group", RED), ("variance, the same", RED), ("sum over m: a store", ORANGE))):
        page.box(226, 166 + i * 58, 272, 34, fill, label, 12)
        page.line([(180, 241), (202, 241), (202, 183 + i * 58), (224, 183 + i * 58)], arrow=True)
    page.lines(50, 350, ["Reductions: tiles give what they have of them, and CTAs exchange it."], 13, fill=SOFT)
    page.box(586, 166, 150, 34, GREEN, "(h − mean) · rstd", 12)
    page.box(586, 236, 150, 34, GREEN, "· gamma[n] + beta[n]", 12)
    page.box(586, 306, 150, 34, GREEN, "y = silu(…): a store", 12)
    page.line([(661, 200), (661, 234)], arrow=True)
    page.line([(661, 270), (661, 304)], arrow=True)
    page.line([(498, 183), (584, 183)], arrow=True)
    page.line([(498, 241), (540, 241), (540, 190), (584, 190)], arrow=True)
    page.line([(50, 241), (36, 241), (36, 122), (661, 122), (661, 164)], stroke=VIOLET, width=2.2, arrow=True)
    page.text(380, 142, "h is kept: in registers, shared memory or L2", 13, VIOLET, "middle", bold=True)
    page.lines(756, 186, ["A value that only stage 2", "needs is computed there,", "unless keeping it takes", "fewer bytes: a minimum", "cut decides. Here one", "value is kept: h."], 13, 19, fill=SOFT)


def placed(buffers):
    """Offsets by size, largest first, each in the smallest gap among those alive with it: src/network/arena.hpp."""
    offsets = {}
    for name, size, first, last in sorted(buffers, key=lambda b: -b[1]):
        busy = sorted((offsets[n], offsets[n] + s) for n, s, f, l in buffers if n in offsets and f <= last and first <= l)
        best, end = None, 0
        for begin, finish in busy:
            if begin - end >= size and (best is None or begin - end < best[0]):
                best = (begin - end, end)
            end = max(end, finish)
        offsets[name] = best[1] if best else end
    return offsets


def unet_buffers():
    """Tensors of a U-Net of three levels in bf16: (name, KiB, first step, last step); a skip lives in its concatenation."""
    sizes = [(64, 128), (128, 64), (256, 32)]  # channels, pixels a side
    kib = lambda channels, side: channels * side * side * 2 // 1024
    buffers, step = [], 0
    for level, (channels, side) in enumerate(sizes):
        buffers.append((f"level {level}, conv 1", kib(channels, side), step, step + 1))
        last = level == len(sizes) - 1
        wide = f"concatenation {level}" if not last else f"level {level}, conv 2"
        until = step + 2 if last else 2 * len(sizes) * 2 - 2 * level - 2
        buffers.append((wide, kib(channels + (0 if last else sizes[level + 1][0]), side), step + 1, until))
        if not last:
            buffers.append((f"pooled {level}", kib(channels, side // 2), step + 1, step + 2))
        step += 2
    for level in range(len(sizes) - 2, -1, -1):
        channels, side = sizes[level]
        buffers.append((f"level {level}, conv 3", kib(channels, side), step, step + 1))
        step += 2
    return buffers


def memory_plan(page):
    """The arena of a small U-Net: time across, addresses down."""
    buffers = unet_buffers()
    offsets = placed(buffers)
    steps, total = max(b[3] for b in buffers) + 1, max(offsets[b[0]] + b[1] for b in buffers)
    page.text(24, 34, "A network's memory plan", 17, bold=True)
    page.text(24, 56, f"Intermediates of a U-Net of three levels, 64 to 256 channels, 128² pixels, bf16: one arena of {total / 1024:.1f} MiB "
              f"instead of {sum(b[1] for b in buffers) / 1024:.1f} MiB.", 13, SOFT)
    x0, y0, width, height = 76, 84, 880, 330
    across, down = width / steps, height / total
    fills = {"conc": ORANGE, "pool": GREEN}
    for name, size, first, last in buffers:
        x, y, w, h = x0 + first * across, y0 + offsets[name] * down, (last - first + 1) * across, size * down
        page.rect(x + 1, y + 1, w - 2, max(h - 2, 2), fills.get(name[:4], BLUE), radius=2)
        if h > 13:
            page.text(x + w / 2, y + h / 2 + 4, f"{name}, {size / 1024:g} MiB" if w > 150 else name, 12 if w > 150 else 10, "#ffffff", "middle")
    page.rect(x0, y0, width, height, stroke=SOFT, radius=0)
    for i in range(steps):
        page.text(x0 + (i + 0.5) * across, y0 + height + 17, str(i + 1), 11, SOFT, "middle")
    page.text(x0 + width / 2, y0 + height + 36, "step", 12, SOFT, "middle")
    page.text(x0 - 12, y0 + height / 2, "address in the arena", 12, SOFT, "middle", turn=-90)
    page.lines(x0, y0 + height + 58, [
        "The largest is placed first, each into the smallest gap among tensors that live at the same time. A skip connection is stored in its",
        "concatenation (orange), which therefore lives from the skip's producer on; its pooled copy (green) is stored by the same kernel."], 13, fill=INK)


def unet_block(page):
    """What becomes one kernel in a residual block of a U-Net, forward and backward."""
    page.text(24, 34, "What fuses in a block of a U-Net", 17, bold=True)
    page.text(24, 56, "A dashed box is one launch. Each contraction takes what follows it, up to the next contraction.", 13, SOFT)
    rows = (("forward", 84, ((("conv 3x3", BLUE), ("+ bias", GREY), ("+ time[b,n]", GREY), ("GroupNorm", RED), ("SiLU", GREEN)),
                             (("conv 3x3", BLUE), ("+ bias", GREY), ("+ residual: stored", GREY), ("GroupNorm", RED), ("SiLU", GREEN)))),
            ("backward", 226, ((("dgrad of conv 2", BLUE), ("SiLU'", GREEN), ("GroupNorm'", RED)),
                               (("wgrad of conv 2: PyTorch's", GREY),),
                               (("dgrad of conv 1", BLUE), ("+ residual's gradient", GREY)))))
    for title, top, kernels in rows:
        page.text(24, top + 14, title, 14, bold=True)
        x = 24
        for number, parts in enumerate(kernels):
            widths = [18 + 7.3 * len(label) for label, _ in parts]
            total = sum(widths) + 8 * (len(parts) - 1) + 24
            own = parts[0][1] != GREY
            page.rect(x, top + 26, total, 84, PALE_BLUE if own else PALE_GREY, BLUE if own else SOFT, 6, dash="6 4")
            at = x + 12
            for (label, fill), w in zip(parts, widths):
                page.box(at, top + 42, w, 32, fill, label, 12)
                at += w + 8
            page.text(x + 12, top + 98, "one launch; CTAs exchange the statistics in it" if any("Norm" in p[0] for p in parts) and own
                      else "one launch" if own else "another library's kernel", 12, SOFT)
            x += total + 16
    page.lines(24, 366, [
        "Forward: two launches for ten operators. A GroupNorm by itself is two passes over memory. The second launch has two outputs: the sum, which is the",
        "next residual, and its normalisation. If the norm reads a concatenation instead, statistics come from the kernels that store its parts.",
        "Backward: the gradient of an image takes the backward pass of what came before it. Gradients of filters are PyTorch's kernels."], 12.5, 19, fill=INK)


def visitor_tree(page):
    """loss(acc + bias, target) as CUTLASS's tree and as our visitor."""
    page.text(24, 34, "One graph, two shapes", 17, bold=True)
    page.text(24, 56, "f = acc + bias[n];  y = (target − 1) · f + log(clamp(sigmoid(f)));  store y;  store sum(y, over=m)", 13, SOFT)
    page.text(24, 92, "CUTLASS: a tree of visitor types", 14, bold=True)
    nodes = {"sum": (250, 110, 150, "RowReduction: store"), "fma": (250, 168, 150, "Compute fma"), "t": (24, 226, 140, "Compute target − 1"),
             "log": (420, 226, 130, "Compute log"), "clamp": (420, 284, 130, "Compute clamp"), "sig": (420, 342, 130, "Compute sigmoid"),
             "f": (232, 400, 186, "Compute +: f, read twice"), "acc": (190, 458, 110, "AccFetch"), "bias": (330, 458, 150, "RowBroadcast bias"), "target": (24, 284, 140, "SrcFetch target")}
    colours = {"sum": ORANGE, "f": RED, "acc": GREY, "bias": GREY, "target": GREY}
    for child, parent in (("fma", "sum"), ("t", "fma"), ("log", "fma"), ("clamp", "log"), ("sig", "clamp"), ("f", "sig"), ("acc", "f"), ("bias", "f"), ("target", "t")):
        x, y, w, _ = nodes[child]
        px, py, pw, _ = nodes[parent]
        page.line([(x + w / 2, y), (px + pw / 2, py + 34)], arrow=True)
    page.line([(325, 400), (325, 204)], stroke=RED, width=2, arrow=True)
    for name, (x, y, w, label) in nodes.items():
        page.box(x, y, w, 32, colours.get(name, BLUE), label, 12)
    page.lines(24, 520, ["f has two readers, so a topological visitor stands around what is between: a tuple of", "index sequences says which visitor reads which."], 13, fill=SOFT)
    page.text(610, 92, "Ours: one function of an element", 14, bold=True)
    code = ["Result element(float acc, const float* column,", "               const float* tensor, float* value) {", "  const float f = acc + column[0];", "  const float v5 = tensor[0] - 1.f;",
            "  const float v6 = sigmoid(f);", "  const float p = clamp(v6, 0.001f, 0.999f);", "  const float y = fma(f, v5, log(p));", "  result.r0 = y;      // stored as bf16", "  value[0] = y;       // summed over rows", "}"]
    page.rect(600, 110, 388, 236, PALE_GREY, FAINT, 6)
    for i, text in enumerate(code):
        page.parts.append(f'<text x="612" y="{136 + i * 21}" font-size="12" fill="{INK}" xml:space="preserve" font-family="ui-monospace, monospace">{text.replace("&", "&amp;").replace("<", "&lt;")}</text>')
    page.lines(610, 376, ["The kernel loads columns and operands, calls it for each", "element of its fragment, and reduces `value`.", "What is read twice is a variable."], 13, fill=SOFT)


def exchange_in_time(page):
    """Three CTAs that share an image: what each publishes, polls and finishes, over time (resident)."""
    page.text(24, 34, "The exchange of statistics, in time", 17, bold=True)
    page.text(24, 56, "Three CTAs have the tiles of one image (resident: accumulators stay in registers). All of them are on the GPU at once.", 13, SOFT)
    lanes = ((0, 330, 74), (40, 290, 74), (90, 330, 74))  # start, main loop, statistics
    latest = max(a + b + c for a, b, c in lanes)
    x0, finish = 110, 150
    for i, (start, main_loop, statistics) in enumerate(lanes):
        y = 86 + i * 84
        page.text(24, y + 24, f"CTA {i}", 14, bold=True)
        x = x0 + start
        page.box(x, y, main_loop, 38, BLUE, "main loop: TMA and wgmma", 12)
        page.box(x + main_loop, y, statistics, 38, RED, "statistics", 12)
        published = x + main_loop + statistics
        ready = x0 + latest + 70
        page.rect(published, y, ready - published, 38, "#e3e7ec")
        page.text((published + ready) / 2, y + 24, "polls" if ready - published < 130 else "polls the entries of all", 12, SOFT, "middle")
        page.box(ready, y, 66, 38, VIOLET, "columns", 12)
        page.box(ready + 66, y, finish, 38, GREEN, "normalise, store", 12)
        page.line([(published, y + 38), (published + 8, 336)], stroke=RED, width=1.6, arrow=True)
        page.line([(x0 + latest + 40, 336), (ready - 4, y + 42)], stroke=VIOLET, width=1.4, dash="4 3", arrow=True)
    page.rect(430, 338, 300, 46, PALE_RED, RED, 5)
    page.text(580, 358, "workspace: a slot for each warpgroup", 12, anchor="middle", bold=True)
    page.text(580, 375, "16 bytes: value and tag (epoch + 1), one store", 12, SOFT, "middle")
    page.line([(x0, 410), (960, 410)], arrow=True)
    page.text(968, 414, "time", 12, SOFT)
    page.lines(24, 440, [
        "An entry is complete when its tag is this launch's: there is no counter, no atomic and no fence between writer and reader. A CTA publishes before it waits,",
        "and no consumer group has two tiles of one image, so nobody waits for work behind its own wait. Streamed, the tile waits in shared memory instead and the next",
        "main loop fills the gap. Whoever merges reads all entries in the same order, so all CTAs have the same bits."], 12.5, 18, fill=INK)


PICTURES = {"halo_tile": (halo_tile, 1000, 420), "volume_taps": (volume_taps, 1000, 380),
            "epilogue_stages": (epilogue_stages, 1000, 400), "memory_plan": (memory_plan, 1000, 500),
            "unet_block": (unet_block, 1060, 430), "visitor_tree": (visitor_tree, 1000, 560), "exchange_in_time": (exchange_in_time, 1010, 500), **OVERVIEWS}


def main():
    stale = []
    for name, (draw, width, height) in PICTURES.items():
        page = Page(width, height, draw.__doc__.split("\n")[0])
        draw(page)
        path = HERE / f"{name}.svg"
        before = path.read_text() if path.exists() else ""
        if "--check" in sys.argv:
            scratch = HERE / f".{name}.svg"
            page.save(scratch)
            if scratch.read_text() != before:
                stale.append(path.name)
            scratch.unlink()
        else:
            page.save(path)
    print(*(f"{name} is not what docs/figures/structures.py draws" for name in stale), sep="\n", end="\n" if stale else "")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
