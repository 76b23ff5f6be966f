"""Judges and times what unisono computes on a GPU for the networks of others, beside PyTorch there.

usage: python -m networks.gpu UNISONO FOLDER [--only REGEX] [--times BENCH] [--json FILE] [--docs FILE] …

Networks are made, exported and evaluated as those of the CPU's list are, some at a time, at a larger batch. A row, a network
by one exporter in one precision, is right if the error of every output against PyTorch's float64 is at most 1.5 times the one
that PyTorch's eager mode makes in the same precision; where that is no number, nothing is claimed. Where eager mode is far
off and the row is over the bound, both compute more inputs (verdict.py). A network that itself computes parts in float32 says so in an export in the
precision alone: where the one in float32 is off, that is judged, and the row is "typed". Where ONNX's
interpreter says that the exporter wrote another network (other_network.py), the row is "not exported". Rows are kept in the JSON, where
those of other runs stay. A network is judged again if the sources, or what it is made of, have changed: first those without
a row, then those that are not right, then the others. The exit code is 1 if a row is wrong or broken.
docs/notes/networks-gpu.md has the results.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy as np

from .catalogue import GPU_ENTRIES
from .errors import relative_error
from .gpu_table import write_page
from . import losses
from .judge import output_names
from .kept import all_unmade, exporters_of, in_turn, merge, read_row, seen_gpu
from .gpu_times import PROCESSES, add_times
from .making import EXPORTERS
from .other_network import why_other
from .runs import Broken, Refused
from .sources import commit, state
from .verdict import MARGIN, UNITS, asks_for_more, draw_name, is_right, no_bound, over_all

SHIPPED = 8  # units of rounding, for a model without a PyTorch to compare with
ANOTHER = 0.05  # what another network than the module is off by, at least: rounding is off by less


def export_network(name, batch, folder, exporters, gpu):
    os.environ.update(seen_gpu(gpu))  # PyTorch is not imported yet
    from .gpu_row import make
    make(name, batch, folder, exporters)


def made(name, folder, gpu, options):
    """about.json of a network, which is made first if need be; a reason in "unmade" if that fails."""
    entry, exporters = GPU_ENTRIES[name], exporters_of(name, options)
    batch = entry.gpu_batch or options.batch
    about = read_row(folder / "about.json")
    if about and about["batch"] == batch and about["asked"] == exporters and about["key"] == entry.key():
        return about
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    process = PROCESSES.Process(target=export_network, args=(name, batch, str(folder), exporters, gpu))
    process.start()
    process.join(options.export_limit)
    failure = f"exit code {process.exitcode}" if process.exitcode else ""
    if process.is_alive():
        process.kill()
        process.join()
        failure = f"took more than {options.export_limit} s"
    if not failure:
        return read_row(folder / "about.json")
    log = folder / "export.log"
    tail = log.read_text().strip().splitlines()[-1:] if log.exists() else []
    return {"unmade": " ".join([failure, *tail]), "batch": batch, "exporters": exporters}


def run_unisono(command, limit_s, gpu=""):
    """What the command printed, as JSON."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, env=os.environ | seen_gpu(gpu))
    except subprocess.TimeoutExpired:
        raise Broken(f"ran for more than {limit_s} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if not line.endswith(" s so far")]
        text = "\n".join(lines) or f"exit code {done.returncode}"
        raise Refused(text) if done.returncode in (2, 3) else Broken(f"exit code {done.returncode}: {text}")
    return json.loads(done.stdout)


def outputs_of(model, folder, precision, gpu, options, draw=0):
    """{output: array} by unisono on the GPU"""
    out = folder / f"out.{precision}.npz"
    run_unisono([options.unisono, "run", str(model), "--device", "cuda", "--precision", precision, "--input",
                 str(folder / draw_name("inputs", draw)), "--out", str(out), "--repeat", "0", "--threads", str(options.threads),
                 "--json"], options.run_limit, gpu)
    with np.load(out) as arrays:
        outputs = dict(arrays)
    out.unlink()
    return outputs


def launches_of(model, precision, gpu, options):
    """(launches, what the host computes)"""
    explained = run_unisono([options.unisono, "explain", str(model), "--device", "cuda", "--precision", precision,
                             "--json"], options.run_limit, gpu)
    on_host = [f"{step['what']}: {step['how']}" for step in explained["cuda"]["launches"] if step["on_host"]]
    return len(explained["cuda"]["launches"]) - len(on_host), on_host


def exact_of(folder, draw=0):
    """The network's outputs, by PyTorch in float64."""
    with np.load(folder / draw_name("exact", draw)) as arrays:
        return [arrays[f"out{i}"] for i in range(len(arrays))]


def errors_of(model, folder, precision, gpu, options, draw=0):
    """What unisono is off by, output by output."""
    ours, exact = outputs_of(model, folder, precision, gpu, options, draw), exact_of(folder, draw)
    return [relative_error(ours.get(name), e) for name, e in zip(output_names(model), exact, strict=True)]


def judged(model, folder, about, precision, gpu, options):
    """{status, reason, errors, tolerances, draws, launches, on_host}"""
    theirs = about["errors"].get(precision)
    try:
        launches, on_host = launches_of(model, precision, gpu, options)
        errors = errors_of(model, folder, precision, gpu, options)
        more = about.get("draws", {}).get(precision, ())
        draws = 1
        if more and asks_for_more(errors, theirs):
            all_ours = [errors] + [errors_of(model, folder, precision, gpu, options, i) for i in range(1, len(more) + 1)]
            draws, errors, theirs = len(all_ours), over_all(all_ours), over_all([theirs, *more])
    except Refused as error:
        return {"status": "refused", "reason": str(error)}
    except Broken as error:
        return {"status": "broken", "reason": str(error)}
    launched = {"launches": launches, "on_host": on_host}
    if theirs and (reason := no_bound(theirs, precision)):
        return {"status": "no bound", "reason": reason} | launched
    tolerances = [MARGIN * e for e in theirs] if theirs else [SHIPPED * UNITS[precision]] * len(errors)
    right = is_right(errors, theirs) if theirs else all(e <= t for e, t in zip(errors, tolerances, strict=True))
    if not right and max(errors) > ANOTHER:
        ours = outputs_of(model, folder, precision, gpu, options)
        names = output_names(model)
        if reason := why_other(model, folder / draw_name("inputs", 0), exact_of(folder), [ours.get(n) for n in names], tolerances):
            return {"status": "not exported", "reason": reason}
    return {"status": "right" if right else "wrong", "reason": "", "errors": errors, "tolerances": tolerances,
            **({"draws": draws} if draws > 1 else {})} | launched


def rows_of(name, gpu, options):
    """The rows of one network, judged on one GPU (its number; of one alone, nothing)."""
    entry, folder = GPU_ENTRIES[name], options.folder / name
    about = made(name, folder, gpu, options)
    rows = []
    for exporter in about["exporters"]:
        for precision in options.precisions:
            head = {"network": name, "library": entry.library, "exporter": exporter, "precision": precision,
                    "batch": about["batch"], "convolutional": entry.convolutional, "key": entry.key(),
                    "sources": state("cuda")}
            failure = about.get("unmade") or about["failures"].get(exporter)
            model = pathlib.Path(about.get("file") or folder / exporter / "model.onnx")
            row = {"status": "not exported", "reason": failure} if failure else \
                judged(model, folder, about, precision, gpu, options)
            if row["status"] == "wrong" and exporter in about.get("typed", {}).get(precision, ()):
                model = folder / f"{exporter}.{precision}" / "model.onnx"
                row = judged(model, folder, about, precision, gpu, options) | {"typed": True}
            rows.append(head | row | {"gpu": options.gpu, "commit": options.commit, "model": str(model)})
    # what is left to time, or to look at, keeps its files
    if not options.times and all(r["status"] == "right" for r in rows):
        shutil.rmtree(folder)
    return rows


def describe(row):
    text = f"{row['network']} ({row['exporter']}, {row['precision']}): {row['status']}"
    if row.get("errors"):
        worst = max(range(len(row["errors"])), key=lambda i: row["errors"][i] / max(row["tolerances"][i], 1e-300))
        text += f", error {row['errors'][worst]:.1e} of {row['tolerances'][worst]:.1e}, {row['launches']} launches"
        text += f", {len(row['on_host'])} host steps" if row["on_host"] else ""
    for peer in ("unisono", "eager", "compile"):
        text += f", {peer} {row[f'{peer}_us']:.0f} us" if f"{peer}_us" in row else ""
    return text + (f": {row['reason'].strip().splitlines()[-1][:200]}" if row["reason"] else "")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unisono", type=os.path.abspath)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a regular expression: networks that have it in their name")
    parser.add_argument("--library", default="", help="a regular expression for the library")
    parser.add_argument("--exporters", default="", help=f"of {','.join(EXPORTERS)} (default: torchscript, and dynamo for some)")
    parser.add_argument("--precisions", default="bf16,f16")
    parser.add_argument("--batch", type=int, default=8, help="times the batch of the CPU's list, where a network does not say")
    parser.add_argument("--large", action="store_true", help="networks with gigabytes of weights, too")
    parser.add_argument("--processes", type=int, default=max(2, (os.cpu_count() or 2) // 2), help="networks at a time")
    parser.add_argument("--threads", type=int, default=4, help="kernels of one network that are compiled at a time")
    parser.add_argument("--again", action="store_true", help="judge what is of these sources, too")
    parser.add_argument("--stale", action=argparse.BooleanOptionalAction, default=True,
                        help="judge again what was right at other sources, after the others")
    parser.add_argument("--export-limit", type=int, default=600, help="seconds for one network")
    parser.add_argument("--run-limit", type=int, default=600, help="seconds for one run")
    parser.add_argument("--seconds", type=float, default=0, help="begin no network after so long; 0: no limit")
    parser.add_argument("--times", help="unisono_bench_onnx: time what came out right, beside PyTorch")
    parser.add_argument("--together", type=int, default=8, help="networks that PyTorch compiles at a time, before they are timed")
    parser.add_argument("--peers", default="eager,compile", help="of PyTorch; none: empty")
    parser.add_argument("--judge", action=argparse.BooleanOptionalAction, default=True,
                        help="judge anew, or time what was judged")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the results, to which rows are added")
    parser.add_argument("--commit", default=commit(), help="of the sources, for the rows")
    parser.add_argument("--docs", type=pathlib.Path, help="a page whose tables are replaced")
    parser.add_argument("--losses", type=pathlib.Path, help="a page whose tables of what is slow are replaced")
    options = parser.parse_args()
    options.precisions = options.precisions.split(",")
    return options


def gpus():
    """(what they are called, their numbers; of one alone nothing, as it is the one that is taken)"""
    import torch
    count = torch.cuda.device_count()
    return torch.cuda.get_device_name(), [str(i) for i in range(count)] if count > 1 else [""]


def judge_all(chosen, options):
    """Rows of all networks, some networks at a time."""
    rows, start = [], time.monotonic()

    def one(name, gpu):
        late = options.seconds and time.monotonic() - start > options.seconds
        return [] if late else rows_of(name, gpu, options)
    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        work = {pool.submit(one, name, options.gpus[i % len(options.gpus)]): name for i, name in enumerate(chosen)}
        for number, done in enumerate(concurrent.futures.as_completed(work), 1):
            mine = done.result()
            (options.folder / f"{work[done]}.rows.json").write_text(json.dumps(mine))
            for row in mine:
                print(f"[{number}/{len(chosen)}, {time.monotonic() - start:.0f} s] {describe(row)}", flush=True)
            rows += mine
            merge(mine, options.json)  # a run that is cut short keeps what it has
            if all_unmade(rows, 12):
                pool.shutdown(cancel_futures=True)
                raise SystemExit(f"none of the first networks could be made; the last one: {rows[-1]['reason']}")
    return rows


def main():
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = [n for n, e in GPU_ENTRIES.items() if re.search(options.only, n) and re.search(options.library, e.library)
              and (options.large or not e.large)]
    options.gpu, options.gpus = gpus()
    earlier = (read_row(options.json) or {"rows": []})["rows"] if options.json else []
    if options.judge:
        rows = judge_all(in_turn(chosen, options), options)
    else:
        rows = [r for n in chosen for r in read_row(options.folder / f"{n}.rows.json") or []]
    if options.times:
        merge(rows, options.json)
        add_times(rows, earlier, options)
    merged = merge(rows, options.json)
    if options.docs:
        write_page(merged, options.docs)
    if options.losses:
        losses.write_page(merged, options.losses)
    counts = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    print(f"{len(rows)} rows: " + ", ".join(f"{n} {s}" for s, n in counts.items())
          + f"; {sum(bool(r.get('on_host')) for r in rows)} with host steps")
    return 0 if not (counts.get("wrong") or counts.get("broken")) else 1


if __name__ == "__main__":
    sys.exit(main())
