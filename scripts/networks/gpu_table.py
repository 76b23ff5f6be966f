"""The rows of networks on a GPU: what a page says of them, and the cells of a table that has them all."""
import math
import textwrap

PEERS = ("eager", "compile")


def ratio(row, peer):
    return row[f"{peer}_us"] / row["unisono_us"] if f"{peer}_us" in row and "unisono_us" in row else None


def worst(row):
    pairs = list(zip(row.get("errors", ()), row.get("tolerances", ())))
    return max(pairs, key=lambda p: p[0] / max(p[1], 1e-300), default=None)


def cells(row):
    pair = worst(row)
    numbers = [f"{x:.1e}" for x in pair] if pair else ["", ""]
    times = [f"{row[f'{p}_us']:.0f}" if f"{p}_us" in row else "" for p in ("unisono", *PEERS)]
    ratios = [f"{ratio(row, p):.2f}" if ratio(row, p) else "" for p in PEERS]
    on_host = str(len(row["on_host"])) if "on_host" in row else ""
    gpu = next((word for word in row.get("gpu", "").split() if any(c.isdigit() for c in word)), "")  # H200
    return [row["network"], row["exporter"], row["precision"], gpu, str(row["batch"]), row["status"], *numbers,
            str(row.get("launches", "")), on_host, *times, *ratios]


def geomean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def summary(rows):
    counts = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    text = f"{len({r['network'] for r in rows})} networks, {len(rows)} rows: "
    text += ", ".join(f"{n} {s}" for s, n in counts.items())
    text += f"; {sum(bool(r.get('on_host')) for r in rows)} rows with host steps"
    for peer in PEERS:
        mean = geomean([ratio(r, peer) for r in rows])
        text += f"; {peer} takes {mean:.2f} times Unisono's time in the geometric mean" if mean else ""
    return text


COLUMNS = ("network", "exporter", "precision", "GPU", "batch", "is", "error", "bound", "launches", "host steps", "Unisono, µs",
           "eager, µs", "compile, µs", "eager ÷ Unisono", "compile ÷ Unisono")


def of_library(rows):
    """A line for all of a library's rows."""
    counts = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    means = []
    for peer in PEERS:
        known = [x for x in (ratio(r, peer) for r in rows) if x]
        span = f", {min(known):.2f} to {max(known):.2f} of {len(known)}" if len(known) > 1 else " of 1"
        means.append(f"{geomean(known):.2f}{span}" if known else "")
    others = ", ".join(f"{n} {s}" for s, n in counts.items() if s != "right")
    return [rows[0]["library"], str(len({r["network"] for r in rows})), str(counts.get("right", 0)), others,
            str(sum(bool(r.get("on_host")) for r in rows)), *means]


def markdown(rows):
    """A line a library, and the networks of which a row is not right: the JSON has every row."""
    lines = ["| library | networks | rows right | others | with host steps | eager ÷ Unisono | compile ÷ Unisono |", "|" + "---|" * 7]
    for library in dict.fromkeys(r["library"] for r in rows):
        lines.append(f"| {' | '.join(of_library([r for r in rows if r['library'] == library]))} |")
    return [*lines, "", *not_right(rows, "precision")]


def not_right(rows, variant):
    """A paragraph for each other verdict: networks, with the variant where one of several has it."""
    lines = []
    for status in dict.fromkeys(r["status"] for r in rows if r["status"] != "right"):
        names = {}
        for row in (r for r in rows if r["status"] == status):
            names.setdefault(row["network"], dict.fromkeys([])).update({row[variant]: None})
        text = ", ".join(n if len(v) > 1 else f"{n} ({', '.join(v)})" for n, v in names.items())
        lines += [*textwrap.wrap(f"**{status}:** {text}.", 100, break_long_words=False, break_on_hyphens=False), ""]
    return lines


def note(row):
    text = row["reason"].strip().splitlines()[-1] if row["reason"] else row.get("times_error", "")
    if row.get("on_host"):
        text = f"on the host: {row['on_host'][0]}" + (f" and {len(row['on_host']) - 1} more" if row["on_host"][1:] else "")
    return text.replace("|", "/")[:240]


def write_page(rows, page):
    text = page.read_text()
    begin, end = "<!-- results: networks-gpu -->\n", "<!-- end -->"
    before, rest = text.split(begin)
    page.write_text(before + begin + summary(rows) + ".\n\n" + "\n".join(markdown(rows)) + rest[rest.index(end):])
