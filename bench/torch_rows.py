#!/usr/bin/env python3
"""Merges the JSON lines of torch_suite.py, torch_frozen.py and others into a file of bench/results.

usage: bench/torch_rows.py LINES.json bench/results/torch.json [--commit HASH]

A row of the same network, case or test (and numbers of ranks, sizes) takes the place of an earlier one. Each gets the GPU of
the run and the commit (default: that of this tree).
"""
import argparse
import json
import pathlib

from run_gpu import commit

SAME = ("network", "what", "case", "ranks", "size", "batch")


def merged(results, lines, revision):
    """The file's content with the lines' rows; the line "machine" has versions and the GPU."""
    machine = next(line for line in lines if line.get("what") == "machine")
    about = {"gpu": machine.get("gpu") or machine.get("device"), "commit": revision}
    known = {tuple(row.get(k) for k in SAME): row for row in results.get("rows", [])}
    for line in lines:
        if line.get("what") != "machine":
            row = {k: v for k, v in line.items() if k != "suite"}
            known[tuple(row.get(k) for k in SAME)] = {**row, **about}
    cudnn = machine.get("cudnn")  # 91900 is 9.19.0
    versions = {"torch": machine["torch"]} | ({"cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"} if cudnn else {})
    return {**results, **versions, "rows": list(known.values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    results = json.loads(given.results.read_text()) if given.results.exists() else {}
    lines = [json.loads(line) for line in given.lines.read_text().splitlines() if line.strip()]
    given.results.write_text(json.dumps(merged(results, lines, given.commit or commit()), indent=1) + "\n")


if __name__ == "__main__":
    main()
