"""Where networks on a GPU lose to PyTorch: their launches by what they do, compared with the GPU's peaks.

unisono_bench_onnx --kernels times launches one by one and lists them as {us, floor_us, name, what, how}; a slow row keeps their
sums and the worst in "losses". What a launch does follows from the first words of its "what".
"""
import re

KINDS = ("contraction", "attention", "normalisation", "movement", "elementwise")
# How `what` of a launch begins; the first pattern that matches decides
OF_KIND = (
    ("movement", r"(input|output|to host|from host|change of layout|reshape|flatten|transpose|concat|slice|split|expand|gather|scatter|pad|tile|"
                 r"resize|resample|upsample|identity|squeeze|unsqueeze|depth_to_space|space_to_depth|shape|where|col2im|roll|copy)"),
    ("movement", r"(max_pool|average_pool|global_average_pool|global_max_pool|lp_pool|grid_sample|roi_align)"),
    ("normalisation", r"(rows of|statistics of|joined statistics of)\b"),
    ("normalisation", r"(layer_norm|group_norm|instance_norm|rms_norm|batch_norm|softmax|log_softmax|lp_normalization|reduce_|top_k|arg_max|arg_min|cum_sum)"),
    ("elementwise", r"(elements of|cast)\b"),
    ("attention", r"attention"),
    ("contraction", r"(conv|gemm|matmul|product|einsum|lstm|gru|rnn|recurrence)"))
FAST = 1.1  # a ratio to the better of the peers from which a network is not looked at
BEHIND = 1.0
NAMED = 3  # launches that a cause names


def kind_of(what):
    return next((kind for kind, pattern in OF_KIND if re.match(pattern, what)), "elementwise")


def best_peer(row):
    """(name, microseconds) of the faster of PyTorch's two, or nothing."""
    times = {p: row[f"{p}_us"] for p in ("eager", "compile") if f"{p}_us" in row}
    return min(times.items(), key=lambda t: t[1]) if times else None


def ratio(row):
    """How many times as fast as the better peer; nothing where one side has no time."""
    peer = best_peer(row)
    return peer[1] / row["unisono_us"] if peer and row.get("unisono_us") else None


def by_kind(kernels):
    """{kind: {us, floor_us, launches}} of launches that were timed one by one."""
    kinds = {kind: {"us": 0.0, "floor_us": 0.0, "launches": 0} for kind in KINDS}
    for kernel in kernels:
        of = kinds[kind_of(kernel["what"])]
        of["us"] += kernel["us"]
        of["floor_us"] += kernel["floor_us"]
        of["launches"] += 1
    return {kind: of for kind, of in kinds.items() if of["launches"]}


def over_floor(of):
    return of["us"] - of["floor_us"]


def summary(kernels):
    """What a row keeps of its launches: {"kinds": as by_kind, "worst": launches furthest over their floor, of the kind that is}."""
    kinds = by_kind(kernels)
    worst = max(kinds, key=lambda kind: over_floor(kinds[kind]))
    return {"kinds": kinds, "worst": sorted((k for k in kernels if kind_of(k["what"]) == worst), key=over_floor, reverse=True)[:NAMED]}


def cause(row):
    """A sentence: the kind of launches that takes most over its floor, and its worst launches with the executor's reasons."""
    if "losses" not in row:
        return "its launches were not timed"
    losses = row["losses"]
    worst = kind_of(losses["worst"][0]["what"])
    of = losses["kinds"][worst]
    named = "; ".join(f"{k['us']:.1f} µs (floor {k['floor_us']:.1f}) {k['what']}: {k['how']}" for k in losses["worst"]).replace("|", "\\|")
    return f"{worst}: {of['us']:.0f} µs in {of['launches']} launches, floor {of['floor_us']:.0f}. {named}"


def lost(row):
    """Microseconds behind the better peer."""
    return row["unisono_us"] - best_peer(row)[1]


def cell(of):
    return f"{of['us']:.0f} / {of['floor_us']:.0f}" if of else ""


def markdown(rows):
    """Tables of the rows below FAST, by lost microseconds, and a cause for each that is behind."""
    slow = sorted((r for r in rows if (ratio(r) or FAST) < FAST), key=lost, reverse=True)
    timed = sum(ratio(r) is not None for r in rows)
    lines = [f"{len(slow)} of {timed} timed rows are below {FAST} times the better of eager mode and torch.compile, "
             f"{sum(ratio(r) < BEHIND for r in slow)} below {BEHIND:.0f}.", "",
             "| network | exporter | precision | Unisono, µs | better peer, µs | ratio | lost, µs | " + " | ".join(KINDS) + " |",
             "|" + "---|" * (7 + len(KINDS))]
    for r in slow:
        kinds = r.get("losses", {}).get("kinds", {})
        lines.append(f"| {r['network']} | {r['exporter']} | {r['precision']} | {r['unisono_us']:.0f} | {best_peer(r)[1]:.0f} ({best_peer(r)[0]}) "
                     f"| {ratio(r):.2f} | {lost(r):.0f} | " + " | ".join(cell(kinds.get(kind)) for kind in KINDS) + " |")
    behind = [r for r in slow if ratio(r) < BEHIND]
    if behind:
        lines += ["", "| behind | its largest loss |", "|---|---|"]
        lines += [f"| {r['network']} ({r['exporter']}, {r['precision']}) | {cause(r)} |" for r in behind]
    return [*lines, ""]


def write_page(rows, page):
    """Replaces the tables of the page."""
    text = page.read_text()
    begin, end = "<!-- results: losses -->\n", "<!-- end -->"
    before, rest = text.split(begin)
    page.write_text(before + begin + "\n".join(markdown(rows)) + rest[rest.index(end):])
