"""Exports networks of others to ONNX with random weights and judges what unisono computes for them.

usage: python -m networks UNISONO FOLDER [--only REGEX] [--quick] [--times] …

A network at a time is made, exported by both exporters and evaluated in float64 in a process of its own; unisono runs
what was exported. A row is right if every output is as near to PyTorch's in float64 as the tolerance asks. What was
done is kept in FOLDER and done again only if what it is made of, or the sources of kernels and importer, have changed, so
that a run that was stopped goes on. Rows of other runs stay in the JSON, each with its commit.
The exit code is 1 if a row is wrong, broken, or blind to a seeded fault. docs/notes/networks.md has the results.
"""
import argparse
import json
import os
import pathlib
import re
import sys
import time

from .catalogue import ENTRIES
from .judge import Judge
from .kept import read_row
from .making import EXPORTERS, made
from .sources import commit, state
from .table import describe, first_line, summary, write_tables



def variants(entry, about):
    """(exporter, what stays open, the model's file below the network's folder)"""
    if entry.library == "rapidocr":
        yield "as shipped", "", pathlib.Path(about.get("file", ""))
        return
    for free in dict.fromkeys(("", entry.open)):
        for exporter in about["exporters"]:
            yield exporter, free, pathlib.Path(exporter + (f".{free}" if free else ""), "model.onnx")


def judged(entry, name, about, exporter, free, model, options):
    """The row of a network by one exporter: what is known of it, and what has to be found out."""
    folder = options.folder / name
    file = folder / f"row.{exporter.replace(' ', '_')}{'.' + free if free else ''}.json"
    old = read_row(file)
    head = {"network": name, "library": entry.library, "exporter": exporter, "open": free,
            "convolutional": entry.convolutional, "key": about["key"], "sources": state("cpu"), "commit": options.commit}
    if old and old["key"] != head["key"]:
        old = None
    current = old and (old["sources"] == head["sources"] or (options.trust_right and old["status"] == "right"))
    what = exporter + (f".{free}" if free else "")
    if "unmade" in about or what in about["failures"]:
        row = head | {"status": "not exported", "reason": about.get("unmade") or about["failures"][what], "runs": []}
    elif current:
        row = old
    else:
        row = head | Judge(options.unisono, folder, about, options.threads).correctness(folder / model, free)
    if row["status"] == "right" and not free and (folder / model).is_file():
        judge = Judge(options.unisono, folder, about, options.threads)
        # a shipped model's folder is its package's: nothing is written there
        if options.faults and "faults" not in row and exporter in EXPORTERS:
            row["faults"] = judge.faults(folder / model, options.faults)
        if options.times and "unisono_ms" not in row:
            row |= judge.times(folder / model)
    if folder.is_dir():
        file.write_text(json.dumps(row, indent=1) + "\n")
    return row


def settled(entry, folder, options):
    """The rows of a network if nothing is left to find out, also when its files are gone; else nothing."""
    rows = [read_row(f) for f in sorted(folder.glob("row.*.json"))]

    def is_done(row):
        right = row["status"] == "right"
        asked = right and not row["open"]
        return (row["key"] == entry.key() and (row["sources"] == state("cpu") or (options.trust_right and right))
                and (not asked or not options.times or "unisono_ms" in row)
                and (not asked or not options.faults or "faults" in row or row["exporter"] not in EXPORTERS))
    exporters = ("as shipped",) if entry.library == "rapidocr" else options.exporters
    wanted = {(e, free) for e in exporters for free in ("", entry.open)}
    complete = {(r["exporter"], r["open"]) for r in rows} == wanted
    return rows if complete and all(map(is_done, rows)) else []


def tidy(folder, rows, options):
    """Removes the files of a network that came out right, if they take more room than is to be kept."""
    files = [f for f in folder.glob("*/model*") if f.is_file()]
    size = sum(f.stat().st_size for f in files) / 2**20
    if size > options.keep_below and all(r["status"] == "right" for r in rows):
        for f in files + [folder / "about.json"]:
            f.unlink(missing_ok=True)


def write_list(folder):
    """networks.json, by which bench/run.py finds the files of all networks that were made."""
    listed = []
    for row in map(read_row, sorted(folder.glob("*/row.*.json"))):
        about = read_row(folder / row["network"] / "about.json") or {}
        what = row["exporter"] + (f".{row['open']}" if row["open"] else "")
        file = about.get("file") or f"{row['network']}/{what}/model.onnx"
        if (folder / file).is_file():
            listed.append({k: row[k] for k in ("network", "exporter", "open")} | {"file": file})
    (folder / "networks.json").write_text(json.dumps(listed, indent=1) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unisono", type=os.path.abspath)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a regular expression: networks that have it in their name")
    parser.add_argument("--library", default="", help="a regular expression for the library")
    parser.add_argument("--exporters", default=",".join(EXPORTERS))
    parser.add_argument("--quick", action="store_true", help="the first exporter alone, no faults")
    parser.add_argument("--large", action="store_true", help="networks with gigabytes of weights, too")
    parser.add_argument("--times", action="store_true", help="time unisono and ONNX Runtime in turn (on an idle machine)")
    parser.add_argument("--faults", type=int, default=10, help="seeded faults a network (default 10)")
    parser.add_argument("--trust-right", action="store_true", help="keep rows that other sources got right")
    parser.add_argument("--rows", action="store_true", help="judge nothing: write tables of the rows that are there")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--export-limit", type=int, default=1800, help="seconds for one network")
    parser.add_argument("--keep-below", type=float, default=1000, help="megabytes of a network that are kept")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the results")
    parser.add_argument("--commit", default=commit(), help="of the sources, for rows that are judged now")
    parser.add_argument("--docs", type=pathlib.Path, help="a page whose tables are replaced")
    options = parser.parse_args()
    options.faults = 0 if options.quick else options.faults
    options.exporters = options.exporters.split(",")[:1 if options.quick else None]
    return options


def main():
    options = arguments()
    rows = []
    chosen = {n: e for n, e in ENTRIES.items() if re.search(options.only, n) and re.search(options.library, e.library)}
    for number, (name, entry) in enumerate(chosen.items(), 1):
        folder = options.folder / name
        if options.rows:
            rows += [read_row(f) for f in sorted(folder.glob("row.*.json"))]
            continue
        if entry.large and not options.large:
            continue
        start = time.monotonic()
        mine = settled(entry, folder, options)
        if not mine:
            about = made(entry, name, folder, options.exporters, options.export_limit)
            mine = [judged(entry, name, about, *variant, options) for variant in variants(entry, about)]
        for row in mine:
            print(f"[{number}/{len(chosen)}, {time.monotonic() - start:.0f} s] {describe(shown(row))}", flush=True)
        tidy(folder, mine, options)
        rows += mine
    write_list(options.folder)
    return write_results(rows, options)


def shown(row):
    """The row as the results have it: of its reason the first line; how many faults were drawn, which of them were not
    found, and how many nodes were silent."""
    faults = row.get("faults")
    found = {"drawn": len(faults["drawn"]), "missed": faults["blind"], "silent": len(faults["silent"])} if faults else {}
    return row | {"reason": first_line(row["reason"])} | ({"faults": found} if faults else {})


def with_those_of(file, rows):
    """The rows, with those of other runs in a file of results, in the order of the list."""
    def key(row):
        return row["network"], row["exporter"], row["open"]
    known = {key(r): r for r in (read_row(file) or {"rows": []})["rows"]} if file else {}
    known |= {key(r): r for r in rows}
    order = {name: i for i, name in enumerate(ENTRIES)}
    return sorted(known.values(), key=lambda r: (order.get(r["network"], len(order)), *key(r)))


def write_results(rows, options):
    mine = [shown(r) for r in rows]
    merged = with_those_of(options.json, mine)
    whole = summary(merged) | {"suite": "networks", "threads": options.threads, "rows": merged}
    for file in (options.folder / "results.json", options.json):
        if file:
            file.write_text(json.dumps(whole, indent=1) + "\n")
    if options.docs:
        write_tables(merged, options.docs)
    print(whole["text"])
    return 0 if mine and summary(mine)["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
