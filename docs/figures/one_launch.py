#!/usr/bin/env python3
"""The pictures of docs/one-launch.md: python3 docs/figures/one_launch.py writes four SVGs beside itself.

Plain Python, no packages. Times in microseconds come from bench/results/, clocks from the table below.
"""
import json
import pathlib

from svg import FAINT, INK, SOFT, Page

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = ["#3b6fb6", "#d9822b", "#3f8f5f"]  # three images
LIGHT = ["#dbe6f4", "#fae6cf", "#dcefe3"]
MAIN, STATISTICS, WAIT, FINISH, KEEP, OTHER = "#3b6fb6", "#c9524a", "#e3e7ec", "#3f8f5f", "#8a63a8", "#8a94a0"

# Clocks of a tile of 256 pixels x 64 channels, operands swapped, 128 input channels, 3x3, ping-pong, beside the other consumer group's main loop:
# notes/hopper-conv.md, "An epilogue, clock by clock". Streamed: waiting for columns, normalising a kept tile, spilling one, loading one back at the end.
CLOCKS = {"main": 10000, "statistics": 1600, "exchange": 9000, "from registers": 3500, "keep": 1600, "columns": 2700, "again": 6800, "spill": 3300, "drain": 5000}

SHAPE = "8,64,64,320,320,3"  # of the upper half of the timeline


def measured(suite):
    """The case of SHAPE in bench/results/SUITE.json."""
    cases = json.loads((HERE / "../../bench/results" / f"{suite}.json").read_text())["cases"]
    return next(case for case in cases if case["name"] == SHAPE)


def grid():
    """Tiles of images dealt to CTAs and warpgroups."""
    page = Page(1000, 470, "Tiles of images dealt to CTAs and warpgroups")
    page.text(24, 34, "How tiles are dealt", 17, bold=True)
    page.text(24, 56, "Here: 3 images of 6 tiles, 4 CTAs in ping-pong. On an H200: 132 CTAs, one on each SM.", 13, SOFT)
    side, left = 44, 52
    for image in range(3):
        top = 92 + image * 122
        page.rect(left - 8, top - 8, 2 * side + 18, 3 * 32 + 18, LIGHT[image], IMAGES[image])
        for tile in range(6):
            page.box(left + tile % 2 * (side + 2), top + tile // 2 * 34, side, 32, IMAGES[image], str(6 * image + tile), 14, bold=True)
        page.text(left + 2 * side + 22, top + 20, f"image {image}", 13, IMAGES[image], bold=True)
        if image == 0:
            page.lines(left + 2 * side + 22, top + 40, ["rows: pixels", "columns: channels"], 12, 16, fill=SOFT)

    x0, y0, width, step = 436, 92, 104, 66
    for block in range(4):
        top = y0 + block * (step + 12)
        page.rect(x0 - 136, top - 6, 676, step + 2, "#f6f8fa", FAINT)
        page.text(x0 - 126, top + 33, f"CTA {block}", 14, bold=True)
        for lane in range(2):
            page.text(x0 - 10, top + 18 + lane * 30, f"group {'AB'[lane]}", 12, SOFT, "end")
        for k, item in enumerate(range(block, 18, 4)):
            page.box(x0 + k * width, top + k % 2 * 30 + 1, width - 8, 25, IMAGES[item // 6], f"tile {item}", 13)
    page.line([(x0, 411), (x0 + 490, 411)], arrow=True)
    page.text(x0 + 498, 415, "time", 12, SOFT)
    page.text(x0 - 136, 440, "6 tiles an image ≤ 8 consumer groups (4 CTAs × 2): no group is dealt two tiles of one image,", 13)
    page.text(x0 - 136, 458, "so whoever waits for an image has already published all that the image needs of it.", 13)
    page.save(HERE / "one_launch_grid.svg")


def pipeline():
    """What the warps of one CTA do."""
    page = Page(1000, 590, "The pipeline of one CTA")
    page.text(24, 34, "One CTA: 384 threads, 227 KB of shared memory, one CTA on each SM", 17, bold=True)
    page.rect(200, 54, 776, 312, "#f6f8fa", FAINT, 6)
    page.rect(24, 110, 136, 150, "#eef1f4", FAINT)
    page.lines(92, 150, ["memory", "and L2"], 14, 19, anchor="middle", bold=True)
    page.lines(92, 218, ["activations", "filters"], 12, 17, anchor="middle", fill=SOFT)

    page.text(216, 76, "warpgroup 0", 13, SOFT)
    page.box(216, 86, 150, 44, OTHER, "producer: 1 thread", 13)
    page.box(216, 286, 150, 60, STATISTICS, "3 spare warps", 13)
    page.lines(380, 318, ["merge the statistics of other CTAs"], 12, 16, fill=SOFT)

    page.text(404, 76, "rings of stages, filled by TMA", 13, SOFT)
    for row, (name, count, fill) in enumerate((("patches of activations", 3, "#6d94c9"), ("filters, one tap and 64 channels", 6, "#9db8dc"))):
        top = 96 + row * 88
        for i in range(count):
            wide = 232 / count - 5
            used = i < count - 1 - row
            page.rect(404 + i * (wide + 5), top, wide, 42, fill if used else "#ffffff", "#6d94c9", dash=None if used else "4 3")
        page.text(404, top + 60, name, 12, SOFT)
    page.line([(160, 160), (398, 160)], arrow=True, width=2)
    page.line([(160, 206), (398, 206)], arrow=True, width=2)
    page.text(236, 153, "im2col or tiled loads", 12, SOFT)
    page.text(236, 199, "multicast in a cluster", 12, SOFT)

    for lane, top in enumerate((86, 226)):
        page.rect(700, top, 260, 112, LIGHT[0], MAIN)
        page.text(714, top + 23, f"consumer warpgroup {'AB'[lane]}", 14, bold=True)
        page.lines(714, top + 45, ["wgmma from shared memory", "128 × 160 accumulators in registers", "visitors, statistics, normalise, store"], 12, 18)
    for y in (117, 205):
        page.line([(640, y), (664, y)], width=2)
    page.line([(664, 116), (664, 283)], width=2)
    for y in (142, 282):
        page.line([(664, y), (694, y)], arrow=True, width=2)
    page.line([(824, 201), (824, 223)], arrow=True)
    page.line([(838, 223), (838, 201)], arrow=True)
    page.text(850, 216, "order", 12, SOFT)
    page.text(404, 266, "full: its bytes have arrived", 12, SOFT)
    page.text(404, 282, "empty: all its readers have released it", 12, SOFT)

    # Lanes in time: the tensor cores never idle, a consumer group's epilogue hides behind the other's main loop.
    x0, unit, top = 200, 150, 396
    page.text(24, top + 4, "In time (ping-pong):", 14, bold=True)
    lanes = [("producer", [(k, 1, OTHER, f"loads {k}") for k in range(5)], -0.12),
             ("group A", [(0, 1, MAIN, "main loop 0"), (1, 0.8, FINISH, "epilogue 0"), (2, 1, MAIN, "main loop 2"), (3, 0.8, FINISH, "epilogue 2"), (4, 1, MAIN, "main loop 4")], 0),
             ("group B", [(1, 1, MAIN, "main loop 1"), (2, 0.8, FINISH, "epilogue 1"), (3, 1, MAIN, "main loop 3"), (4, 0.8, FINISH, "epilogue 3")], 0),
             ("spare warps", [(1.45, 0.35, STATISTICS, "merge"), (2.45, 0.35, STATISTICS, "merge"), (3.45, 0.35, STATISTICS, "merge"), (4.45, 0.35, STATISTICS, "merge")], 0)]
    for i, (name, spans, shift) in enumerate(lanes):
        y = top + 18 + i * 36
        page.text(180, y + 19, name, 13, INK, "end")
        for start, length, fill, label in spans:
            page.box(x0 + 20 + (start + shift) * unit, y, length * unit - 4, 28, fill, label, 12)
    page.line([(x0 + 2, top + 166), (x0 + 770, top + 166)], arrow=True)
    page.text(x0 + 770, top + 184, "time", 12, SOFT, "end")
    page.save(HERE / "one_launch_block.svg")


def exchange():
    """From a warpgroup's rows to an image's statistics."""
    page = Page(1000, 512, "The exchange of statistics")
    page.text(24, 34, "The statistics exchange: slots, groups of slots, image", 17, bold=True)
    page.text(24, 56, "One image of 9 slots (the rows of a warpgroup each) and 6 units of channels; 3 groups of 3 slots.", 13, SOFT)
    shades = ["#3b6fb6", "#d9822b", "#3f8f5f"]
    cell, x, y = 30, 118, 118
    page.text(x + 90, 88, "slots", 14, bold=True, anchor="middle")
    page.text(x + 90, 106, "units of channels", 12, SOFT, "middle")
    for slot in range(9):
        top = y + slot * cell + slot // 3 * 10
        page.text(x - 10, top + 20, f"slot {slot}", 12, SOFT, "end")
        for unit in range(6):
            page.rect(x + unit * cell, top, cell - 3, cell - 3, shades[slot // 3])
    for group in range(3):
        top = y + group * (3 * cell + 10)
        page.rect(x + 2 * cell - 3, top - 3, 2 * cell + 3, 3 * cell + 3, "none", INK, 4, line=2)
        page.line([(x + 6 * cell + 4, top + 43), (396, top + 43)], arrow=True, width=2)
    page.lines(24, 428, ["Each warpgroup writes its slot after its main loop.", "Outlined: what the second member of each group merges."], 12, 16, fill=SOFT)

    x2 = 404
    page.text(x2 + 90, 88, "groups", 14, bold=True, anchor="middle")
    page.text(x2 + 90, 106, "by the spare warps", 12, SOFT, "middle")
    for group in range(3):
        top = y + group * (3 * cell + 10) + cell
        for unit in range(6):
            page.rect(x2 + unit * cell, top, cell - 3, cell - 3, shades[group], radius=6)
        page.line([(x2 + 6 * cell + 4, top + 13), (664, y + 4 * cell + 23 + (group - 1) * 14)], arrow=True, width=2)
    page.text(x2, 428, "A warp takes a unit, a lane a slot.", 12, SOFT)

    x3 = 672
    page.text(x3 + 100, 88, "groups of the image", 14, bold=True, anchor="middle")
    page.text(x3 + 100, 106, "by each warpgroup that normalises", 12, SOFT, "middle")
    for group in range(3):
        page.box(x3 + group * 66, y + 4 * cell - 6, 62, 56, "#5f6b7a", f"group {group}", 12)
    page.lines(x3, y + 6 * cell + 14, ["groups are merged in a fixed order, then the", "units of a group: mean and variance, then for", "each channel of the tile a factor and a shift"], 12, 17)

    page.rect(24, 458, 952, 42, "#f6f8fa", FAINT)
    page.text(36, 484, "an entry, 16 bytes, one store:", 13, bold=True)
    for i, (name, fill) in enumerate((("mean", "#6d94c9"), ("M2", "#6d94c9"), ("count", "#6d94c9"), ("tag = epoch + 1", STATISTICS))):
        page.box(256 + i * 74, 465, 70 if i < 3 else 120, 28, fill, name, 12)
    page.text(620, 476, "Readers poll the entry until the tag is this launch's:", 12, SOFT)
    page.text(620, 492, "no counter, no fence, no memset between replays.", 12, SOFT)
    page.save(HERE / "one_launch_exchange.svg")


def dealt(mode, tiles):
    """Spans (group, start, length, colour) of a CTA's first tiles: ping-pong's main loops take the tensor cores one after the other."""
    after = {"resident": [("statistics", STATISTICS), ("exchange", WAIT), ("from registers", FINISH)],
             "kept": [("statistics", STATISTICS), ("columns", WAIT), ("again", FINISH), ("keep", KEEP)],
             "spilled": [("statistics", STATISTICS), ("spill", OTHER), ("keep", KEEP)]}[mode]
    spans, free, cores_free = [], [0, 0], 0
    for tile in range(tiles):
        group = tile % 2
        start = max(free[group], cores_free)
        cores_free = start + CLOCKS["main"]
        spans.append((group, start, CLOCKS["main"], MAIN, str(tile)))
        now = cores_free
        for name, fill in after:
            if tile < 2 and name in ("columns", "again", "spill"):
                continue  # nothing is kept yet
            finished = tile - 2 if mode == "kept" else tile
            spans.append((group, now, CLOCKS[name], fill, str(finished) if fill == FINISH else ""))
            now += CLOCKS[name]
        free[group] = now
    return spans, free


def timeline():
    """One launch beside PyTorch's, and the modes in clocks."""
    page = Page(1000, 800, "One launch beside PyTorch's launches, and the modes")
    page.text(24, 34, "(8,64,64,320) to 320 channels, 3×3: convolution, bias, GroupNorm(32), SiLU", 17, bold=True)
    page.text(24, 56, "bf16, one H200, one run, medians of graph replays (no launch overhead in them), µs.", 13, SOFT)
    x0, scale = 176, 2.78

    def bar(y, name, spans):
        page.text(x0 - 12, y + 22, name, 13, INK, "end")
        x = x0
        for label, us, fill in spans:
            page.box(x, y, us * scale - 2, 34, fill, label, 12)
            x += us * scale
        total = sum(us for _, us, _ in spans)
        page.text(x + 6, y + 22, f"{total:.1f}", 13, bold=True)

    block, peers = measured("block"), measured("block")["peers"]
    convolution = measured("conv")["peers"]["torch_eager"]
    bar(76, "PyTorch, eager", [("convolution (cuDNN)", convolution, MAIN),
                               ("bias, GroupNorm (copy, statistics, columns, affine), SiLU", peers["torch_eager"] - convolution, FINISH)])
    bar(120, "torch.compile", [("convolution, then generated kernels", peers["torch_compile"], OTHER)])
    bar(164, "max-autotune", [("the same, tuned", peers["torch_max_autotune"], OTHER)])
    bar(208, "Unisono, one launch", [("all of it, resident", block["unisono_us"], MAIN)])
    page.line([(x0, 256), (x0 + 280 * scale, 256)])
    for us in range(0, 281, 40):
        page.line([(x0 + us * scale, 256), (x0 + us * scale, 261)])
        page.text(x0 + us * scale, 276, str(us) if us < 280 else "280 µs", 12, SOFT, "middle")

    page.text(24, 322, "Inside one CTA: tiles of 256 pixels × 64 channels, 128 input channels, 3×3", 17, bold=True)
    page.text(24, 344, "To scale, phases as traced; the two rows of a mode are the two consumer groups, the numbers the CTA's tiles; white: waiting for the tensor cores.", 13, SOFT)
    names = [(MAIN, "main loop"), (STATISTICS, "visitors, statistics"), (WAIT, "wait for the image"), (FINISH, "normalise, SiLU, store"), (KEEP, "keep centred values"), (OTHER, "spill")]
    for x, (fill, name) in zip((132, 236, 396, 546, 716, 880), names):
        page.rect(x, 358, 14, 14, fill)
        page.text(x + 20, 370, name, 12)

    x0, clock, end = 132, 832 / 64000, 64000

    def draw(spans, top, shift=0.0, limit=end):
        for group, start, length, fill, label in spans:
            start += shift
            if start >= limit:
                continue
            wide = (min(start + length, limit) - start) * clock
            if wide < 3:
                continue  # the first clocks of a phase that the limit cuts off
            page.rect(x0 + start * clock, top + group * 34, wide - 1.5, 29, fill, radius=2)
            if label and wide > 30:
                page.text(x0 + start * clock + wide / 2, top + group * 34 + 19, label, 13, "#ffffff", "middle", True)

    def row(top, mode, notes):
        page.text(24, top + 16, mode, 15, bold=True)
        page.lines(24, top + 34, notes, 12, 15, fill=SOFT)

    row(392, "resident", ["values wait", "in registers"])
    draw(dealt("resident", 8)[0], 392)
    row(498, "streamed", ["a later image", "follows: in smem"])
    draw(dealt("kept", 8)[0], 498)
    row(604, "streamed", ["one image:", "spilled"])
    # The first tiles, a gap, the last tiles' end, the image's last merge, second passes.
    cut, gap = 37000, 3000
    draw(dealt("spilled", 4)[0], 604, 0, cut)
    tail = [(group, cut + gap, CLOCKS["exchange"], WAIT, "") for group in range(2)]
    first = cut + gap + CLOCKS["exchange"]
    tail += [(group, first + i * CLOCKS["drain"], CLOCKS["drain"] - 150, FINISH, str(2 * i + group)) for i in range(3) for group in range(2)]
    draw(tail, 604)
    page.lines(x0 + (cut + gap / 2) * clock, 632, ["…", "…"], 18, 24, anchor="middle", fill=SOFT)

    page.line([(x0, 690), (x0 + end * clock, 690)])
    for kilo in range(0, 65, 8):
        x = x0 + kilo * 1000 * clock
        page.line([(x, 690), (x, 695)])
        page.text(x, 710, f"{kilo},000" if kilo else "0", 12, SOFT, "middle")
    page.text(x0 + end * clock, 728, "clocks", 12, SOFT, "end")
    page.lines(24, 752, ["A later image follows: after its statistics, tile 2 finishes tile 0; the first two tiles of a CTA have nothing to finish.",
                         "One image: tiles are spilled. The gap stands for the rest of them; behind it the axis gives lengths only."], 12, 18, fill=SOFT)
    page.save(HERE / "one_launch_timeline.svg")


if __name__ == "__main__":
    for picture in (grid, pipeline, exchange, timeline):
        picture()
