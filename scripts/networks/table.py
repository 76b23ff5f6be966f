"""Results: lines as networks are judged, what a page says of all, and the cells of a table that has them all."""
import math
import re

from .gpu_table import not_right

ORDER = ("right", "refused", "wrong", "broken", "not exported")


def worst(row):
    """The output that is nearest to its tolerance, or furthest beyond it."""
    outputs = [o for run in row["runs"] for o in run["outputs"]]
    return max(outputs, key=lambda o: o["error"] / o["tolerance"], default=None)


def name_of(row):
    free = {"": "", "n": ", open batch", "nhw": ", open batch and size"}[row["open"]]
    return f"{row['network']} ({row['exporter']}{free})"


def describe(row):
    text = f"{name_of(row)}: {row['status']}"
    output = worst(row)
    if output:
        text += f", error {output['error']:.1e} of {output['tolerance']:.1e}"
        if output["onnxruntime_error"] is not None:
            text += f" (ONNX Runtime {output['onnxruntime_error']:.1e})"
    if "faults" in row:
        count = row["faults"]["drawn"]
        text += f", {count - len(row['faults']['missed'])} of {count} faults found"
    if "unisono_ms" in row:
        text += f", {row['unisono_ms']:.1f} ms (ONNX Runtime {row['onnxruntime_ms']:.1f})"
    return text + (f": {first_line(row['reason'])}" if row["reason"] else "")


def first_line(reason):
    """What a reason says first, without the file's name and the list of what is supported."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return re.sub(r"^unisono: \S+\.onnx: |; supported are .*", "", lines[0])[:240] if lines else ""


def geomean(rows):
    shares = [math.log(r["unisono_ms"] / r["onnxruntime_ms"]) for r in rows if "unisono_ms" in r]
    return math.exp(sum(shares) / len(shares)) if shares else None


def summary(rows):
    """{good, networks, right, …, text}"""
    counts = {status: sum(r["status"] == status for r in rows) for status in ORDER}
    drawn = sum(r["faults"]["drawn"] for r in rows if "faults" in r)
    blind = sum(len(r["faults"]["missed"]) for r in rows if "faults" in r)
    silent = sum(r["faults"].get("silent", 0) for r in rows if "faults" in r)
    networks = len({r["network"] for r in rows})
    whole = {"networks": networks, "rows_by_status": counts, "faults_drawn": drawn, "faults_missed": blind,
             "silent_nodes": silent,
             "good": not (counts["wrong"] or counts["broken"] or blind)}
    text = f"{networks} networks, {len(rows)} rows: " + ", ".join(f"{n} {s}" for s, n in counts.items() if n)
    text += f"; {drawn - blind} of {drawn} seeded faults found"
    text += f", {silent} silent nodes passed over" if silent else ""
    for key, group in (("convolutional", [r for r in rows if r["convolutional"]]),
                       ("others", [r for r in rows if not r["convolutional"]])):
        whole[f"geomean_{key}"] = geomean(group)
        if whole[f"geomean_{key}"]:
            text += f"; {key}: {whole[f'geomean_{key}']:.2f} of ONNX Runtime's time"
    return whole | {"text": text}


def cells(row):
    output, faults = worst(row), row.get("faults")
    numbers = [f"{output[k]:.1e}" if output and output[k] is not None else ""
               for k in ("error", "tolerance", "onnxruntime_error")]
    found = f"{faults['drawn'] - len(faults['missed'])}/{faults['drawn']}" if faults else ""
    times = [f"{row[k]:.1f}" if k in row else "" for k in ("unisono_ms", "onnxruntime_ms")]
    exporter = row["exporter"] + {"": "", "n": ", open batch", "nhw": ", open size"}[row["open"]]
    return [row["network"], exporter, row["status"], *numbers, found, *times]


COLUMNS = ("network", "exporter", "is", "error", "tolerance", "ONNX Runtime's error", "faults found", "ms", "ONNX Runtime, ms")


def of_library(rows):
    """A line for all of a library's rows."""
    counts = {status: sum(r["status"] == status for r in rows) for status in ORDER}
    drawn = sum(r["faults"]["drawn"] for r in rows if "faults" in r)
    missed = sum(len(r["faults"]["missed"]) for r in rows if "faults" in r)
    others = ", ".join(f"{n} {s}" for s, n in counts.items() if n and s != "right")
    mean, timed = geomean(rows), sum("unisono_ms" in r for r in rows)
    return [rows[0]["library"], str(len({r["network"] for r in rows})), str(counts["right"]), others,
            f"{drawn - missed} of {drawn}" if drawn else "", f"{mean:.2f} of {timed}" if mean else ""]


def markdown(rows):
    """A line a library, and the networks of which a row is not right: the JSON has every row."""
    lines = ["| library | networks | rows right | others | faults found | of ONNX Runtime's time |", "|" + "---|" * 6]
    for library in dict.fromkeys(r["library"] for r in rows):
        lines.append(f"| {' | '.join(of_library([r for r in rows if r['library'] == library]))} |")
    return [*lines, "", *not_right(rows, "exporter")]


def write_tables(rows, page):
    text = page.read_text()
    begin, end = "<!-- results: networks -->\n", "<!-- end -->"
    before, rest = text.split(begin)
    after = rest[rest.index(end):]
    page.write_text(before + begin + summary(rows)["text"] + ".\n\n" + "\n".join(markdown(rows)) + after)
