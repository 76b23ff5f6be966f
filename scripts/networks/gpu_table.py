"""The rows of networks on a GPU as tables of a page."""
import math

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


def markdown(rows):
    lines = []
    for library in dict.fromkeys(r["library"] for r in rows):
        lines += [f"**{library}**", "",
                  "| network | exporter | precision | GPU | batch | is | error | bound | launches | host steps | Unisono, µs "
                  "| eager, µs | compile, µs | eager ÷ Unisono | compile ÷ Unisono |", "|" + "---|" * 15]
        lines += [f"| {' | '.join(cells(r))} |" for r in rows if r["library"] == library] + [""]
    notes = [r for r in rows if r["reason"] or r.get("on_host") or r.get("times_error")]
    if notes:
        lines += ["| network | what is lost, and why |", "|---|---|"]
        lines += [f"| {r['network']} ({r['exporter']}, {r['precision']}) | {note(r)} |" for r in notes] + [""]
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
