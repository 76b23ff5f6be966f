#!/usr/bin/env python3
"""Pictures and tables of the GPU suites, from the results that are committed.

For each of bench/results/{conv,block,epilogue}.json: a picture docs/performance-SUITE.svg, and sentences between the lines
`<!-- results: SUITE -->` and `<!-- end -->` of docs/performance.md; for network.json, attention.json and volumes.json a table. A suite
without results leaves its place empty. The site has a table of every case (docs/site/tables.py). All suites at a glance, there and in README.md: bench/overview.py.

usage: bench/report.py [--results bench/results] [--docs docs] [--check]
--check writes nothing and fails if the page is not what the results say.
"""
import argparse
import json
import pathlib
import re
import sys
import textwrap
from xml.sax.saxutils import escape

import overview
import roofline
from ratios import geomean, hot_speedup, over_bare, ran, rivals, speedup

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = (
    "conv",
    "block",
    "untuned",
    "drawn",
    "drawn_products",
    "nchw",
    "wide",
    "epilogue",
    "gemm",
    "swiglu",
    "rows",
    "breadth",
    "groups",
    "depthwise",
    "backward",
    "evt",
)
USUAL = {"H200", "cuDNN 9.19.0", "cuBLASLt 13.1.0", "PyTorch 2.11.0+cu130"}  # what the head of the page names
NOISE = 0.01  # ratios of the same kernel timed twice that a page does not mention
PRODUCTS = ("gemm", "swiglu", "rows", "drawn_products")
SHAPES = {**dict.fromkeys(PRODUCTS, "M,N,K"), "evt": "M,N,K or N,H,W,C,K,R"}
PEER_NAMES = {
    "cudnn": "cuDNN, bare",
    "cublaslt": "cuBLASLt",
    "cublaslt_bare": "cuBLASLt, bare",
    "cutlass_sm90a": "CUTLASS, sm_90a",
    "cutlass_sm80": "CUTLASS, sm_80",
    "torch_eager": "eager",
    "torch_compile": "compile",
    "torch_max_autotune": "max-autotune",
    "quack": "quack",
}


def columns(suite):
    """(heading, cell of a case) pairs; a column that no case fills is left out."""
    peers = [p for p in PEER_NAMES if any(p in c["peers"] for c in ran(suite))]
    show = lambda form: lambda value: "–" if value is None else form.format(value)
    us, times = show("{:.1f}"), show("{:.2f}")
    result = [(SHAPES.get(suite["suite"], "N,H,W,C,K,R"), lambda c: c["name"]), ("Unisono", lambda c: us(c["unisono_us"])),
              ("spread", lambda c: show("{:.1%}")(c["spread"])), ("kernels", lambda c: show("{:g}")(c.get("launches")))]
    if all(c.get("conv", {}).get("groups", 1) > 1 for c in ran(suite)):
        result[1:1] = [("groups", lambda c: str(c["conv"]["groups"])), ("stride", lambda c: str(c["conv"]["stride"][0]))]
    if any("unisono_bare_us" in c and not c.get("bare") for c in ran(suite)):
        result.append(("Unisono, bare", lambda c: us(c.get("unisono_bare_us"))))
    wrong = lambda c, p: "" if c.get("peer_checked", {}).get(p, {}).get("agrees", True) else " **wrong**"
    result += [(PEER_NAMES[p], lambda c, p=p: us(c["peers"].get(p)) + wrong(c, p)) for p in peers]
    result.append(("best rival ÷ Unisono", lambda c: times(speedup(c))))
    if any(hot_speedup(c) for c in ran(suite)):
        result.append(("the same, hot", lambda c: times(hot_speedup(c))))
    if any(over_bare(c) for c in ran(suite)):
        result.append(("Unisono ÷ Unisono, bare", lambda c: times(over_bare(c))))
    result += [("floor", lambda c: us(c["floor_us"])), ("% of roofline", lambda c: show("{:.0%}")(c["share_of_floor"])),
               ("error ÷ tolerance", lambda c: times(c.get("error_over_tolerance")) + ("" if c.get("agrees", True) else " **wrong**"))]
    return result


def summary(suite):
    """Sentences on the ratios of a suite, and on its cases that failed."""
    lines = []
    gains = [s for c in ran(suite) if (s := speedup(c))]
    if gains:
        lines.append(f"Best rival ÷ Unisono: geometric mean {geomean(gains):.2f}, {min(gains):.2f} to {max(gains):.2f}, over {len(gains)} cases.")
    hot = [s for c in ran(suite) if (s := hot_speedup(c))]
    if hot:
        lines.append(f"Hot: {geomean(hot):.2f}, {min(hot):.2f} to {max(hot):.2f}.")
    bare = [r for c in ran(suite) if (r := over_bare(c))]
    if bare:
        lines.append(f"Unisono ÷ Unisono, bare: {geomean(bare):.2f}, {min(bare):.2f} to {max(bare):.2f}.")
    layouts = {c["name"]: c["unisono_us"] for c in ran(suite)}
    first = [t / layouts[n] for name, t in layouts.items() if name.endswith("_nchw") and (n := name[:-5] + "_nhwc") in layouts]
    if first:
        lines.append(f"Channels first ÷ channels last: {geomean(first):.2f}, {min(first):.2f} to {max(first):.2f}.")
    noise = [c["unisono_again_us"] / c["unisono_us"] for c in ran(suite) if "unisono_again_us" in c]
    if noise and max(map(abs, (n - 1 for n in noise))) > NOISE:
        lines.append(f"The same kernel timed twice: ratios of {min(noise):.3f} to {max(noise):.3f}.")
    lines += [f"{c['name']}: no result: {c['error'].splitlines()[0]}." for c in suite["cases"] if "error" in c]
    return lines + absences(suite)


def absences(suite):
    """Why a peer has no time: a line a reason."""
    why = {}
    for c in ran(suite):
        for p, e in c.get("peer_errors", {}).items():
            reason = re.sub(r"compiling had taken \d+ s", "compiling took too long", e.splitlines()[0])
            why.setdefault((PEER_NAMES.get(p, p), reason), []).append(c["name"])
    return [f"{peer}, {names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {textwrap.shorten(reason, 60, placeholder=' …')}." for (peer, reason), names in why.items()]


def provenance(suite):
    ceilings = suite["ceilings"]
    return ", ".join([*measured(suite), f"driver {suite['driver']}", f"ceilings {ceilings['matmul_tflops']:.0f} TFLOP/s and {ceilings['copy_tbps']:.2f} TB/s"])


def measured(suite):
    """On what, by which versions, at which commit and when."""
    libraries = [f"cuBLASLt {suite['cublaslt']}"] if suite["suite"] in PRODUCTS else [f"cuDNN {suite['cudnn']}"]
    if suite["suite"] == "evt":
        libraries = [f"cuBLASLt {suite['cublaslt']}", *libraries, "CUTLASS 4.2"]
    parts = [suite["gpu"].removeprefix("NVIDIA "), *libraries]
    if "torch" in suite:
        parts.append(f"PyTorch {suite['torch']}")
    return [*parts, suite["commit"][:8], suite["date"]]


def markdown(suite):
    """What the page says of a suite; the table of its cases is the site's (docs/site/tables.py)."""
    said = " ".join(summary(suite))
    lines = [textwrap.fill(f"{said} {', '.join(p for p in measured(suite) if p not in USUAL)}.", 100, break_long_words=False, break_on_hyphens=False), "", f"![{suite['suite']}](performance-{suite['suite']}.svg)"]
    return "\n".join(lines)


def text_table(suite):
    cols = columns(suite)
    rows = [[h for h, _ in cols]] + [[cell(c) for _, cell in cols] for c in ran(suite)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(cols))]
    lines = ["  ".join(v.ljust(w) if i == 0 else v.rjust(w) for i, (v, w) in enumerate(zip(r, widths))) for r in rows]
    return "\n".join([f"suite {suite['suite']}: {provenance(suite)}"] + lines + summary(suite))


def svg(suite):
    """Bars: the time of each contender over Unisono's; the line is Unisono. Beyond it a rival takes longer."""
    cases = [c for c in ran(suite) if c["peers"] or "unisono_bare_us" in c]
    width, row, left, right = 820, 17, 330, 70
    bars = []  # (case or "", label, ratio, colour)
    for c in cases:
        mine = [(PEER_NAMES[p], us / c["unisono_us"], "#999999" if p not in rivals(c) else "#2a7f62" if us >= c["unisono_us"] else "#b3541e")
                for p, us in c["peers"].items()]
        if over_bare(c):
            mine.append(("Unisono, bare", 1 / over_bare(c), "#bbbbbb"))
        mine.append(("floor", c["share_of_floor"], "#dddddd"))
        bars += [(c["name"] if i == 0 else "", *b) for i, b in enumerate(mine)]
    most = min(max([b[2] for b in bars] + [1.2]), 4.0)
    scale, y, body = (width - left - right) / most, 44, []
    for name, label, ratio, colour in bars:
        y += 10 if name else 0
        if name:
            body.append(f'<text x="10" y="{y + 12}">{escape(name)}</text>')
        length = min(ratio, most) * scale
        body.append(f'<text x="{left - 6}" y="{y + 12}" text-anchor="end" fill="#555">{escape(label)}</text>')
        body.append(f'<rect x="{left}" y="{y + 2}" width="{length:.1f}" height="{row - 4}" fill="{colour}"/>')
        body.append(f'<text x="{left + length + 4:.1f}" y="{y + 12}">{ratio:.2f}</text>')
        y += row
    height = y + 12
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="10" y="18" font-size="13" font-weight="bold">Suite {escape(suite["suite"])}: times over Unisono\'s (the line is Unisono, longer is slower)</text>',
            f'<text x="10" y="34" fill="#555">{escape(suite["gpu"])}, {escape(suite["date"])}</text>']
    line = f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="42" y2="{height - 6}" stroke="#333" stroke-dasharray="4 3"/>'
    return "\n".join(head + body + [line, "</svg>"]) + "\n"


UNCOUNTED = "\\* Measured before the kernels' workspaces, inputs and outputs were counted: intermediate tensors and weights alone."


def network_memory(case):
    """Megabytes on the GPU as PyTorch counts its own: weights, intermediate tensors, the kernels' workspaces, inputs and outputs."""
    if "workspace_bytes" not in case:
        return f"{(case['arena_bytes'] + case['constant_bytes']) / 1e6:.0f}\\*"
    return f"{sum(case[f'{what}_bytes'] for what in ('workspace', 'constant', 'input', 'output')) / 1e6:.0f}"


def network_table(results):
    """Lines of the table of whole networks: microseconds a step, megabytes."""
    cases = ran(results)
    peers = [p for p in ("eager", "compile", "max_autotune") if any(p in c.get("peers", {}) for c in cases)]
    times = lambda x: "–" if x is None else f"{x:.2f}"
    ratio = lambda c, p: c["peers"][p] / c["unisono_us"] if p in c.get("peers", {}) else None
    rows = [["network", "Unisono", "spread", "kernels", *(PEER_NAMES[f"torch_{p}"] for p in peers), *(f"{PEER_NAMES[f'torch_{p}']} ÷ Unisono" for p in peers),
             "convolutions' floor", "host", "memory", "PyTorch's least"]]
    for c in cases:
        memory = min(c["peer_peak_bytes"].values(), default=None) if c.get("peer_peak_bytes") else None
        rows.append([c["name"], f"{c['unisono_us']:.0f}", f"{c['spread']:.1%}", str(c["launches"]),
                     *(f"{c['peers'][p]:.0f}" if p in c.get("peers", {}) else "–" for p in peers), *(times(ratio(c, p)) for p in peers),
                     f"{c['floor_us']:.0f}", f"{c['host_us']:.1f}", network_memory(c),
                     "–" if memory is None else f"{memory / 1e6:.0f}"])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    lines.append("")
    versions = f", {results['peer_versions']}" if "peer_versions" in results else ""
    lines.append(textwrap.fill(f"{results['gpu']}, driver of {results['driver']}{versions}, commit {results['commit'][:12]}, "
                               f"{results['date'][:10]}.", 100))
    if any("workspace_bytes" not in c for c in cases):
        lines.append(textwrap.fill(UNCOUNTED, 100))
    return lines + absent(cases)


def attention_table(results):
    """Lines of the table of attention: microseconds a call."""
    cases = ran(results)
    peers = [("sdpa", "PyTorch"), ("cudnn", "cuDNN")]
    within = any("us" in c.get("cudnn_within", {}) for c in cases)
    rows = [["batch, heads, queries, keys, width", "Unisono", *(["by cuDNN within"] * within), "again", "launches", "TFLOP/s",
             *(name for _, name in peers),
             *(f"{name} ÷ Unisono" for _, name in peers), "error", "PyTorch's"]]
    for c in cases:
        time = lambda p: c["peers"].get(p)
        by_cudnn = c.get("cudnn_within", {}).get("us")
        rows.append([c["name"], f"{c['unisono_us']:.1f}", *([f"{by_cudnn:.1f}" if by_cudnn else "–"] * within), f"{c['unisono_again_us']:.1f}", f"{c['launches']:.0f}", f"{c['tflops']:.0f}",
                     *(f"{time(p):.1f}" if time(p) else "–" for p, _ in peers),
                     *(f"{time(p) / c['unisono_us']:.2f}" if time(p) else "–" for p, _ in peers),
                     f"{c['max_error']:.1e}", f"{min(c['peers_max_error'].values(), default=0):.1e}"])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    ratios = [min(c["peers"].values()) / c["unisono_us"] for c in cases if c["peers"]]
    lines += ["", textwrap.fill(f"The faster of both takes {geomean(ratios):.2f} times Unisono's time in the geometric mean ({min(ratios):.2f} to "
                                f"{max(ratios):.2f}). {results['gpu']}, PyTorch {results['torch']}, commit {results['commit'][:12]}.", 100),
              *absent(cases)]
    return lines


def volumes_table(results):
    """Returns the lines of the table of volumes: microseconds of a block and of its convolution alone."""
    cases = ran(results)

    def ratio(over, c):
        return over / c if over and c else None

    def cell(x, digits):
        return "–" if x is None else f"{x:.{digits}f}"

    rows = [["N,T,H,W,C,K,norm", "Unisono", "launches", "eager", "compile", "compile ÷ Unisono", "Unisono, bare",
             "cuDNN, bare", "cuDNN ÷ bare", "over own bare", "floor", "plan"]]
    for c in cases:
        peer = c["peers"].get
        rows.append([c["name"], cell(c["unisono_us"], 0), str(c["launches"]), cell(peer("eager"), 0), cell(peer("compile"), 0),
                     cell(ratio(peer("compile"), c["unisono_us"]), 2), cell(c["bare_us"], 0), cell(peer("cudnn"), 0),
                     cell(ratio(peer("cudnn"), c["bare_us"]), 2), cell(c["unisono_us"] / c["bare_us"], 2), cell(c["floor_us"], 0),
                     c["plan"].split(",")[0]])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    whole = [min(c["peers"][p] for p in ("eager", "compile") if p in c["peers"]) / c["unisono_us"] for c in cases]
    bare = [c["peers"]["cudnn"] / c["bare_us"] for c in cases if "cudnn" in c["peers"]]
    lines += ["", textwrap.fill(f"The faster of eager mode and torch.compile takes {geomean(whole):.2f} of Unisono's time "
                                f"({min(whole):.2f} to {max(whole):.2f}), cuDNN alone {geomean(bare):.2f} of our bare convolution's "
                                f"({min(bare):.2f} to {max(bare):.2f}). PyTorch {results['torch']}, layouts: {results['layouts']}; "
                                f"{results['gpu']}, {results['commit'][:8]}.", 100)]
    return lines + absent(cases)


def torch_table(suite):
    """torch.compile with this backend beside Inductor, a row for each measurement of bench/torch_suite.py."""
    lines = [
        f"PyTorch {suite['torch']}, cuDNN {suite['cudnn']}; CUDA graphs, channels last, bf16; µs.",
        "",
        "| network | GPU, commit | eager | Inductor | Unisono | best other ÷ Unisono | error ÷ Inductor's "
        "| share of FLOP | compiled in, and Inductor's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in suite["rows"]:
        us, error, seconds = r["us"], r.get("error"), r["compile_s"]
        what = r["network"] + ("" if r["what"] == "forward" else f", {r['what']}")
        beside = f"{error['unisono'] / error['compile']:.2f}" if error else "–"  # of a step the losses are compared
        lines.append(
            f"| {what} | {r['gpu'].replace('NVIDIA ', '').split()[0]}, {r['commit'][:8]} "
            f"| {us.get('eager', '–')} | {us['compile']} | {us['unisono']} "
            f"| **{r['ratio']:.2f}** | {beside} | {r['share_of_flop']:.3f} "
            f"| {seconds['unisono']}, {seconds['compile']} s |"
        )
    return lines


def frozen_table(suite):
    """A row for each measurement of bench/torch_frozen.py, the lowest ratio to the peers first."""
    lines = [
        f"PyTorch {suite['torch']}, cuDNN {suite['cudnn']}; CUDA graphs, channels last, bf16; µs.",
        "",
        "| network, batch | GPU, commit | eager | Inductor | regions | one network | best of eager and Inductor ÷ one network "
        "| error ÷ Inductor's | compile time, Inductor's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = [r for r in suite["rows"] if r.get("ratio")]
    for r in sorted(rows, key=lambda r: r["ratio"]):
        us, error, seconds = r["us"], r["error"], r["compile_s"]
        lines.append(
            f"| {r['network']}, {r['batch']}{' (regions: ' + r['note'][:60] + ' …)' if r['note'] else ''} "
            f"| {r['gpu'].replace('NVIDIA ', '').split()[0]}, {r['commit'][:8]} "
            f"| {us.get('eager', '–')} | {us.get('compile', '–')} | {us.get('regions', '–')} | {us['frozen']} | **{r['ratio']:.2f}** "
            f"| {error['frozen'] / error['compile']:.2f} | {seconds['frozen']}, {seconds['compile']} s |"
        )
    ratios = [r["ratio"] for r in rows]
    return lines + ["", f"{len(rows)} networks, {geomean(ratios):.2f} times in the geometric mean ({min(ratios):.2f} to {max(ratios):.2f})."]


# suites with a table of their own and no picture
TABLES = {"network": network_table, "attention": attention_table, "volumes": volumes_table, "torch": torch_table,
          "torch_frozen": frozen_table}
SUMMED_UP = ("attention", "torch_frozen", "volumes")  # whose rows the site has, and not the page


def split_table(lines):
    """The cells of a table's rows, headings first, and the lines outside the table."""
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|") and not line.startswith("|---")]
    return rows, [line for line in lines if not line.startswith("|")]


def place_of(name, suite):
    if name in SUITES:
        return markdown(suite) + "\n"
    lines = TABLES[name](suite)
    return "\n".join(split_table(lines)[1] if name in SUMMED_UP else lines).strip("\n") + "\n"


def absent(cases):
    """A line on the peers that have no time, if there are any."""
    missing = [f"{p.replace('_', '-')} for {c['name']} ({why})" for c in cases for p, why in c.get("peer_errors", {}).items()]
    return [f"Absent: {'; '.join(missing)}."] if missing else []


def update_page(page, suites):
    """The page with every suite's place filled; a place without results is emptied. Fails for a suite without a place."""
    for name in (*SUITES, *TABLES):
        place = re.compile(rf"(<!-- results: {name} -->\n).*?(<!-- end -->)", re.S)
        if not place.search(page):
            sys.exit(f"docs/performance.md has no lines '<!-- results: {name} -->' and '<!-- end -->' for the table of suite {name}")
        table = place_of(name, suites[name]) if name in suites else ""
        page = place.sub(lambda m: m[1] + table + m[2], page)
    return page


def read_results(folder):
    found = {}
    for name in (*SUITES, *TABLES):
        path = pathlib.Path(folder) / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text())
    return found


def write(results, docs, check=False):
    """Returns True if all files are now (or, to be checked, were) what the results say."""
    suites, docs = read_results(results), pathlib.Path(docs)
    docs.mkdir(parents=True, exist_ok=True)
    wanted = {docs / f"performance-{name}.svg": svg(suite) for name, suite in suites.items() if name in SUITES}
    if picture := roofline.svg({name: s for name, s in suites.items() if name in SUITES}, rivals):
        wanted[docs / "performance-roofline.svg"] = picture
    if (page := docs / "performance.md").exists():  # elsewhere than in the sources there are pictures alone
        wanted[page] = overview.fill(update_page(page.read_text(), suites), suites, short=False)
        if (readme := docs.parent / "README.md").exists():
            wanted[readme] = overview.fill(readme.read_text(), suites, short=True)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path} is not what the results say; run bench/report.py", file=sys.stderr)
        else:
            path.write_text(wanted[path])
    return not (check and stale)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default=ROOT / "bench/results")
    parser.add_argument("--docs", default=ROOT / "docs")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    sys.exit(0 if write(args.results, args.docs, args.check) else 1)


if __name__ == "__main__":
    main()
