"""Rows of the networks on a GPU that earlier runs left, and what they leave to be judged."""
import json
import re
import zlib

from .catalogue import BY_DYNAMO, GPU_ENTRIES
from .sources import state


def read_row(file):
    return json.loads(file.read_text()) if file.is_file() else None


def exporters_of(name, options):
    """As asked for, or by TorchScript, and some networks by Dynamo, too."""
    if GPU_ENTRIES[name].library == "rapidocr":
        return ["as shipped"]
    if options.exporters:
        return options.exporters.split(",")
    return ["torchscript", "dynamo"] if name in BY_DYNAMO else ["torchscript"]


def seen_gpu(gpu):
    """What makes a process see one GPU; of one alone, whose number is empty, nothing: an empty list would hide it."""
    return {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}


def all_unmade(rows, count):
    """Whether `count` networks or more were begun and none could be made: the machine is at fault, not a network."""
    return len({r["network"] for r in rows}) >= count and all(r["status"] == "not exported" for r in rows)


def key_of(row):
    return row["network"], row["exporter"], row["precision"]


def in_turn(chosen, options):
    """Networks that have something to be judged: without a row, then not right, then right at other sources. The first and the
    last come in the order of a hash, so that a run that is cut short has some of every library."""
    rows = {key_of(r): r for r in (read_row(options.json) or {"rows": []})["rows"]} if options.json else {}
    order = {rank: [] for rank in ("missing", "failed", "stale")}
    for name in chosen:
        mine = [rows.get((name, e, p)) for e in exporters_of(name, options) for p in options.precisions]
        current = {"sources": state("cuda"), "key": GPU_ENTRIES[name].key()}
        if not all(mine):
            order["missing"].append(name)
        elif all(r.get(k) == v for r in mine for k, v in current.items()) and not options.again:
            continue
        else:
            order["stale" if all(r["status"] == "right" for r in mine) else "failed"].append(name)
    def mixed(names):
        return sorted(names, key=lambda name: zlib.crc32(name.encode()))
    return mixed(order["missing"]) + order["failed"] + (mixed(order["stale"]) if options.stale else [])


def without_folders(text):
    """A reason without the folders of the machine on which it was given."""
    return re.sub(r"(?<![\w.])/(?:tmp|opt|root|home|usr|work)/(?:[\w.+-]+/)*", "", text)


def merge(rows, file):
    """Adds rows to those of earlier runs in the file. A row that was not timed again keeps no times of another build."""
    old = read_row(file) if file and file.is_file() else None
    known = {key_of(r): r for r in (old["rows"] if old else [])}
    known |= {key_of(r): {k: v for k, v in r.items() if k != "model"} for r in rows}
    known = {key: {**r, "reason": without_folders(r.get("reason", ""))} for key, r in known.items()}
    order = {name: i for i, name in enumerate(GPU_ENTRIES)}
    merged = sorted(known.values(), key=lambda r: (order.get(r["network"], len(order)), r["exporter"], r["precision"]))
    if file:
        file.write_text(json.dumps({"suite": "networks-gpu", "rows": merged}, indent=1) + "\n")
    return merged
