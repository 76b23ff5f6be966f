"""Pictures of whole pages of docs/: the way of a graph, the choice of a plan, a tile of family mma, a network's launches, what is
done once and what for each launch, and what the PyTorch backend makes of a graph. structures.py draws them."""
from svg import FAINT, INK, SOFT

BLUE, ORANGE, GREEN, RED, VIOLET, GREY = "#3b6fb6", "#d9822b", "#3f8f5f", "#c9524a", "#8a63a8", "#8a94a0"
PALE_BLUE, PALE_ORANGE, PALE_GREEN, PALE_RED, PALE_GREY = "#dbe6f4", "#fae6cf", "#dcefe3", "#f6d9d6", "#eef1f4"


def heading(page, title, below):
    page.text(24, 34, title, 17, bold=True)
    page.text(24, 56, below, 13, SOFT)


def folder(page, x, y, w, name, what, fill=BLUE, h=52):
    """A box with a name and what it does."""
    page.rect(x, y, w, h, fill)
    page.text(x + w / 2, y + 21, name, 13, "#ffffff", "middle", bold=True)
    page.text(x + w / 2, y + 39, what, 11.5, "#ffffff", "middle")


def way_of_a_graph(page):
    """The folders of src/ in the order in which a graph passes them."""
    heading(page, "The way of a graph", "Each box is a folder of src/. Blue: what every kernel passes. Green: what runs it. Violet: networks.")
    folder(page, 24, 84, 190, "text, C++ builder", "one contraction", GREY)
    folder(page, 24, 164, 190, "ONNX, network builder", "a whole network", GREY)
    folder(page, 254, 164, 180, "network/", "regions, memory, launches", VIOLET)
    folder(page, 254, 244, 180, "gradients/, training/", "networks of gradients", VIOLET)
    folder(page, 254, 84, 180, "ir/", "graph, types, parser")
    folder(page, 474, 84, 170, "passes/", "optimise, cut into stages")
    page.rect(474, 156, 502, 152, "#f6f8fa", FAINT, 6)
    page.text(576, 174, "lower/: the one way from a graph to a kernel's text", 12, SOFT)
    folder(page, 486, 184, 146, "plan/", "analysis of the graph")
    folder(page, 660, 184, 146, "families/", "plans and kernels")
    folder(page, 830, 184, 134, "codegen/", "visitors as text")
    page.box(660, 264, 146, 32, ORANGE, "tuning/: measured", 12)
    folder(page, 660, 336, 146, "jit/", "compiler, cache")
    folder(page, 830, 336, 146, "runtime/cuda/", "load, bind, launch", GREEN)
    folder(page, 830, 84, 146, "runtime/cpu/", "oneDNN, strip by strip", GREEN)
    folder(page, 254, 336, 180, "tensors/, products/", "kernels of networks alone", VIOLET)
    for points in ([(214, 110), (252, 110)], [(214, 190), (252, 190)], [(344, 164), (344, 138)], [(344, 244), (344, 218)], [(434, 110), (472, 110)],
                   [(644, 110), (828, 110)], [(559, 136), (559, 182)], [(632, 210), (658, 210)], [(806, 210), (828, 210)],
                   [(733, 264), (733, 238)], [(897, 236), (897, 322), (733, 322), (733, 334)], [(806, 362), (828, 362)], [(434, 362), (658, 362)]):
        page.line(points, arrow=True)
    page.line([(254, 200), (240, 200), (240, 362), (252, 362)], arrow=True)
    page.text(350, 155, "epilogues of regions", 11.5, SOFT)
    page.lines(24, 420, ["reference/ evaluates the same graphs in float64 and defines the numerics; support/ has types, hashes, files and locks."], 13)


def choice_of_a_plan(page):
    """From a problem to one plan."""
    heading(page, "How a plan is chosen", "On the host, in about a millisecond. Without a GPU, for the description of one.")
    page.rect(24, 84, 200, 190, PALE_GREY, FAINT, 6)
    page.text(38, 108, "the problem", 14, bold=True)
    page.lines(38, 134, ["contraction: extents,", "layouts, types", "graph: operands,", "reductions, stores", "device: SMs, memories, rates", "fields that the caller fixes"], 12, 21)
    page.rect(258, 84, 264, 190, PALE_BLUE, BLUE, 6)
    page.text(270, 108, "candidates, family by family", 13, bold=True)
    for i, (name, what) in enumerate((("sm90_depthwise", "groups of one channel"), ("sm90_conv", "wgmma and TMA"), ("cutlass_evt", "only if it is named"), ("mma", "from sm_80 on"), ("plain", "without tensor cores"))):
        page.box(270, 120 + i * 30, 116, 25, BLUE if i != 2 else GREY, name, 12)
        page.text(394, 137 + i * 30, what, 11, SOFT)
    page.rect(556, 84, 186, 84, PALE_RED, RED, 6)
    page.text(566, 108, "refused, with reasons", 13, RED, bold=True)
    page.lines(566, 128, ["shared memory, registers,", "TMA; tiles that would wait", "and are not all in flight"], 11.5, 16)
    page.rect(556, 190, 186, 84, PALE_GREEN, GREEN, 6)
    page.text(566, 214, "legal", 13, GREEN, bold=True)
    page.lines(566, 234, ["predicted time: loads,", "tensor cores, epilogue,", "exchange, waves of tiles"], 11.5, 16)
    page.rect(772, 190, 204, 84, GREEN, radius=6)
    page.text(874, 220, "the fastest predicted", 13, "#ffffff", "middle", bold=True)
    page.text(874, 242, "of the first family with one", 12, "#ffffff", "middle")
    page.rect(772, 84, 204, 84, ORANGE, radius=6)
    page.text(874, 114, "a measured plan", 13, "#ffffff", "middle", bold=True)
    page.text(874, 136, "of this problem goes first", 12, "#ffffff", "middle")
    for points in ([(224, 180), (256, 180)], [(522, 126), (554, 126)], [(522, 232), (554, 232)], [(742, 232), (770, 232)]):
        page.line(points, arrow=True)
    page.line([(874, 168), (874, 188)], arrow=True)
    page.line([(648, 168), (648, 179), (540, 179), (540, 300), (532, 300)], stroke=RED, dash="4 3")
    page.text(524, 304, "no family has a legal plan: Unsupported, with every reason", 12.5, RED, "end", bold=True)
    page.lines(24, 340, ["unisono explain --device cuda prints all of this: the plan and where it comes from, the next best ones with times, the refused ones by reason.",
                         "--plan fixes fields of the candidates."], 12.5, 19)


def mma_tile(page):
    """A tile of family mma: who copies, who multiplies, what waits."""
    heading(page, "A tile of family mma: 128 rows × 64 channels, 4 warps, 3 stages", "The plan mma.sync 128x64x64/3. No TMA and no warp roles: every thread copies, multiplies and runs the epilogue.")
    page.rect(24, 90, 130, 240, PALE_GREY, FAINT, 6)
    page.lines(89, 190, ["memory", "and L2"], 14, 19, anchor="middle", bold=True)
    page.lines(89, 244, ["image, by taps", "and channels", "filters (K,R,S,C)"], 12, 17, anchor="middle", fill=SOFT)
    page.text(214, 82, "shared memory: 3 stages of a k-step", 13, bold=True)
    for i, (fill, label) in enumerate(((BLUE, "k-step 0: multiplied"), ("#6d94c9", "k-step 1: has arrived"), ("#9db8dc", "k-step 2: on its way"))):
        y = 96 + i * 82
        page.box(214, y, 150, 66, fill, "128 rows × 64", 12)
        page.box(370, y, 84, 66, fill, "64 × 64", 12)
        page.text(214, y + 78, label, 11.5, SOFT)
    page.line([(154, 210), (212, 290)], arrow=True, width=2)
    page.text(24, 350, "cp.async: 16, 8, 4 or 2 bytes", 12, SOFT)
    page.text(24, 367, "a thread, as channels allow", 12, SOFT)
    x0, y0 = 560, 96
    page.text(x0, 82, "accumulators: rows of each warp", 13, bold=True)
    shades = (BLUE, GREEN, ORANGE, VIOLET)
    for block in range(2):
        for warp in range(4):
            page.box(x0, y0 + (block * 4 + warp) * 30 + block * 8, 170, 27, shades[warp], f"warp {warp}: 16 rows, all channels", 11)
    page.lines(x0 + 184, y0 + 50, ["first 64 rows"], 12, fill=SOFT)
    page.lines(x0 + 184, y0 + 178, ["next 64 rows"], 12, fill=SOFT)
    page.line([(454, 130), (556, 160)], arrow=True, width=2)
    page.text(470, 118, "ldmatrix,", 12, SOFT)
    page.text(466, 186, "mma.sync", 12, SOFT)
    page.rect(846, 96, 142, 244, PALE_GREEN, GREEN, 6)
    page.lines(860, 122, ["the epilogue,", "on registers:"], 13, 18, bold=True)
    page.lines(860, 168, ["operands,", "visitors,", "statistics that CTAs", "exchange,", "stores of 16 bytes"], 12, 19)
    page.line([(730, 216), (844, 216)], arrow=True, width=2)
    page.lines(24, 400, ["A barrier begins each k-step, then the stage of the one before is filled again. With 8 warps a second warpgroup has the other half of the rows and reads",
                         "the same filters. A warp has whole rows, so a normalisation over the channels of a row needs no other warp. parts=2 to 8: CTAs share the k-steps."], 12.5, 19)


def network_launches(page):
    """What a transformer's block and a convolution become on a GPU."""
    heading(page, "From operators to launches", "Above: operators of a file. Below: the launches that serve them, with a CUDA graph between two host steps.")
    groups = ((("MatMul q", "MatMul k", "MatMul v"), "stacked product", "ranges of columns", BLUE),
              (("scale, mask", "MatMul, Softmax", "MatMul"), "attention", "wgmma or mma.sync", VIOLET),
              (("MatMul", "+ bias", "+ residual"), "product", "its epilogue", BLUE),
              (("MatMul a", "MatMul b", "a · gelu(b)"), "dual product", "one matrix, two weights", BLUE),
              (("no kernel for it",), "host step", "on the CPU", GREY),
              (("Conv", "GroupNorm", "SiLU"), "convolution", "exchanges statistics", BLUE))
    width, gap, top = 146, 14, 92
    for i, (operators, launch, what, fill) in enumerate(groups):
        x = 24 + i * (width + gap)
        for j, name in enumerate(operators):
            page.box(x, top + j * 34, width, 28, PALE_ORANGE if fill == GREY else PALE_GREY, name, 12, INK, FAINT)
        page.line([(x + width / 2, top + len(operators) * 34 + 2), (x + width / 2, 228)], arrow=True)
        folder(page, x, 230, width, launch, what, fill)
    for begin, end, label in ((0, 4, "CUDA graph 1"), (5, 6, "graph 2")):
        x = 24 + begin * (width + gap) - 7
        page.rect(x, 220, (end - begin) * (width + gap), 96, "none", BLUE, 6, dash="6 4")
        page.text(x + 12, 306, label, 12, BLUE, bold=True)
    page.text(24 + 4 * (width + gap) + 2, 306, "copies there and back", 11, SOFT)
    page.line([(24, 342), (970, 342)], arrow=True)
    page.text(970, 332, "time", 12, SOFT, "end")
    page.lines(24, 372, ["Passes fill in a plan of each region, one decision a file: which products are stacked or gated, who stores into a concatenation, which type",
                         "a tensor has, which kernel computes attention. What stays alone is moved, reduced, gathered or mapped by the tensor kernels."], 12.5, 19)


def compile_bind_launch(page):
    """What the CUDA backend does once for a kernel, once for tensors, and for each launch."""
    heading(page, "What is done once, and what each time", "What lies further right is done more often, and does less.")
    columns = (("compile(contraction, graph)", "once for a kernel: seconds, or from the cache", PALE_GREY, GREY,
                ("check the graph; passes", "choose a plan", "write the text", "compile, or read the cubin", "load it with the driver")),
               ("bind(arguments)", "once for tensors: microseconds", PALE_BLUE, BLUE,
                ("check names, shapes, dtypes", "check addresses and overlap", "encode tensor maps for TMA", "fill in the kernel's parameter", "take a workspace, zeroed once")),
               ("Launch::enqueue(stream)", "each time: one call of the driver", PALE_GREEN, GREEN,
                ("no allocation, no lock", "one cuLaunchKernelEx", "may start before the last one ends", "can be captured in a graph", "")))
    for i, (call, often, pale, fill, steps) in enumerate(columns):
        x = 24 + i * 326
        page.rect(x, 84, 300, 256, pale, fill, 6)
        page.box(x + 14, 98, 272, 32, fill, call, 13, bold=True)
        page.text(x + 150, 150, often, 12, SOFT, "middle")
        for j, step in enumerate(steps):
            if step:
                page.box(x + 14, 162 + j * 34, 272, 28, "#ffffff", step, 12, INK, FAINT)
        if i < 2:
            page.line([(x + 300, 212), (x + 324, 212)], arrow=True, width=2)
    page.lines(24, 372, ["run(arguments) checks, launches and waits; enqueue(arguments, stream) does not wait. rebind(slot, address) changes one address of a bound",
                         "launch. A message names the argument that is wrong, before anything is launched."], 12.5, 19)


def pytorch_backend(page):
    """What becomes of a graph that Dynamo hands to the backend."""
    heading(page, "What torch.compile(backend=\"unisono\") makes of a graph", "Each graph that Dynamo finds takes this way; training has a forward and a backward graph.")
    folder(page, 24, 96, 160, "your model", "Python", GREY)
    folder(page, 24, 196, 160, "Dynamo, AOT", "ATen graphs", GREY)
    page.line([(104, 148), (104, 194)], arrow=True)
    page.rect(222, 84, 320, 262, PALE_BLUE, BLUE, 6)
    page.text(236, 108, "Unisono: a region for each contraction", 13, bold=True)
    for i, (label, fill) in enumerate((("convolution or product", BLUE), ("+ bias, normalisation, activation, …", BLUE), ("end: another contraction, no gain, …", RED))):
        page.box(236, 122 + i * 40, 292, 30, fill, label, 11)
    page.lines(236, 262, ["the epilogue is written as text", "regions that follow one another: channels last", "backward: gradients of images as regions, with", "the backward of what came before them"], 12, 20)
    page.line([(184, 222), (220, 222)], arrow=True, width=2)
    page.rect(582, 84, 394, 78, PALE_GREEN, GREEN, 6)
    page.text(596, 108, "a kernel for each region", 13, GREEN, bold=True)
    page.lines(596, 130, ["an operator of PyTorch's dispatcher,", "on a GPU one launch"], 12, 18)
    page.rect(582, 176, 394, 78, PALE_GREY, GREY, 6)
    page.text(596, 200, "the rest: Inductor, or eager mode", 13, bold=True)
    page.lines(596, 222, ["operators that belong to no region; regions that are", "predicted to be slower than PyTorch's kernels"], 12, 18)
    page.rect(582, 268, 394, 78, PALE_ORANGE, ORANGE, 6)
    page.text(596, 292, "or the whole graph as networks", 13, ORANGE, bold=True)
    page.lines(596, 314, ["frozen=True, networks=\"any\", convolutions on a CPU: one", "executable with its own memory plan, on a GPU one CUDA graph"], 12, 18)
    for y in (122, 214, 306):
        page.line([(542, y), (580, y)], arrow=True, width=2)
    page.lines(24, 380, ["reports()[-1] says what each kernel includes, why its region ends there, the plan and the predicted times, and what was left to PyTorch and why."], 12.5)


def cpu_strips(page):
    """A convolution with a GroupNorm on the CPU: strips of an image, and what a worker does with one."""
    heading(page, "Strips: the epilogue meets its accumulators in L2", "Here a convolution with a GroupNorm by two threads; acc is kept, and stage 2 needs the sums of the whole image.")
    page.text(24, 84, "image", 13, bold=True)
    for i in range(8):
        page.box(24, 94 + i * 31, 130, 28, (BLUE, GREEN)[i % 2], f"strip {i}: output rows", 11)
    page.text(24, 360, "two threads share them", 12, SOFT)
    page.rect(196, 94, 780, 116, PALE_BLUE, BLUE, 6)
    page.text(210, 116, "stage 1, strip by strip", 13, bold=True)
    for x, w, fill, label in ((210, 150, GREY, "input rows, or packed"), (386, 150, BLUE, "oneDNN: one strip"), (562, 196, ORANGE, "at most 256 KiB, in L2"), (784, 178, RED, "program: + bias, sums")):
        page.box(x, 130, w, 34, fill, label, 12)
    for x in (360, 536, 758):
        page.line([(x, 147), (x + 24, 147)], arrow=True)
    page.text(210, 194, "A program is vector instructions over blocks of 16 rows. No barrier stands between contraction and epilogue.", 12, SOFT)
    page.box(430, 226, 300, 32, VIOLET, "sums of segments are merged in their order", 11)
    page.line([(580, 210), (580, 224)], arrow=True)
    page.line([(580, 258), (580, 274)], arrow=True)
    page.rect(196, 276, 780, 76, PALE_GREEN, GREEN, 6)
    page.text(210, 298, "stage 2, backwards over the kept accumulators", 13, bold=True)
    page.box(210, 308, 260, 32, GREEN, "normalise, activate: the same machine", 11.5)
    page.box(500, 308, 220, 32, ORANGE, "stores, in any dtype and layout", 11.5)
    page.line([(470, 324), (498, 324)], arrow=True)


def kernel_lookup(page):
    """Where a kernel's binary comes from."""
    heading(page, "Where a binary comes from", "The first that has it ends the search. A hit in the cache takes 0.1 ms, a compilation seconds.")
    steps = (("the text", "source, headers, options", GREY), ("packs", "compiled ahead", BLUE), ("cache", "entries by key", BLUE),
             ("another thread", "its result is shared", VIOLET), ("another process", "holds the lock: wait", VIOLET), ("compile", "NVRTC or nvcc", ORANGE))
    for i, (name, what, fill) in enumerate(steps):
        x = 24 + i * 162
        folder(page, x, 92, 142, name, what, fill)
        if i:
            page.line([(x - 20, 118), (x - 2, 118)], arrow=True)
            if i < 5:
                page.line([(x + 71, 144), (x + 71, 208)], arrow=True)
    page.text(24, 166, "hashed: the key", 12, SOFT)
    page.rect(186, 210, 628, 40, PALE_GREEN, GREEN, 6)
    page.text(500, 235, "the cubin, with registers, spills and stack of each kernel", 13, INK, "middle", bold=True)
    page.line([(905, 144), (905, 230), (816, 230)], arrow=True)
    page.lines(842, 262, ["tmp/, fsync, rename:", "a name is a whole entry"], 11.5, 16, fill=SOFT)


OVERVIEWS = {"cpu_strips": (cpu_strips, 1000, 380), "kernel_lookup": (kernel_lookup, 1010, 296),
             "way_of_a_graph": (way_of_a_graph, 1000, 444), "choice_of_a_plan": (choice_of_a_plan, 1004, 380), "mma_tile": (mma_tile, 1010, 436),
             "network_launches": (network_launches, 1000, 410), "compile_bind_launch": (compile_bind_launch, 1000, 410),
             "pytorch_backend": (pytorch_backend, 1000, 400)}
