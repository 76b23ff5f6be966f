#!/usr/bin/env python3
"""Checks that every file of bench/results was written by a program: that it has what its writer always writes, and nothing
that stands in no writer's text.

usage: bench_results.py ROOT, or bench_results.py --self-test

RULES names the writers of each file. A file without a rule, a writer that is gone, a key that is missing or that no writer
knows, a commit that is no hash, a time that is no positive number: each is a complaint.
"""
import dataclasses
import fnmatch
import json
import pathlib
import re
import sys

SUITE = ("tools/bench/*.cpp", "bench/run_gpu.py", "bench/torch_suite.py", "bench/peers/*.py", "bench/gpu_main.cpp")
NETWORK = ("bench/network*.cpp", "bench/run_networks.py", "bench/peers/*.py")
OTHERS = ("scripts/networks/*.py",)
TIMED = "name unisono_us launches"


@dataclasses.dataclass(frozen=True)
class Rule:
    files: str  # names, some with *
    writers: tuple  # their sources
    head: str  # keys that the file always has
    rows: str = ""  # where its rows are
    row: str = ""  # keys that every row has
    made: str = "$^"  # a pattern of keys that writers put together


SUITE_RULE = Rule("", SUITE, "suite gpu driver cudnn cublaslt commit date l2_bytes rounds replays pause_s rest_s plans_tried ceilings",
                  "cases", TIMED + " unisono_again_us spread text dtype bytes flop floor_us plan predicted_us registers spill_bytes sets times "
                  "tflops share_of_floor operands epilogue peers peer_errors peer_spread", r"\w+_engine")
RULES = (
    *(dataclasses.replace(SUITE_RULE, files=name) for name in (
        "*/block.json", "*/breadth.json", "*/conv.json", "*/epilogue.json", "*/gemm.json", "backward.json", "block.json",
        "breadth.json", "conv.json", "depthwise.json", "drawn.json", "drawn_products.json", "epilogue.json", "evt.json", "gemm.json", "groups.json", "nchw.json", "nchw_ways.json",
        "rows.json", "swiglu.json", "untuned.json", "wide.json")),
    Rule("attention.json", ("bench/run_attention.py", "bench/peers/*.py", "bench/onnx.cpp"), "suite gpu commit torch", "cases",
         TIMED + " unisono_again_us dtype flop kernels max_error tolerance peers peer_errors tflops"),
    Rule("volumes.json", ("bench/volumes.py", "bench/peers/*.py", "bench/onnx.cpp"), "suite gpu commit torch cudnn layouts", "cases",
         "name dtype flop bytes floor_us peers peer_layouts peer_errors"),
    Rule("cpu.json", ("bench/run.py", "bench/cpu.cpp", "bench/onnx.cpp", "bench/peers/*.py"), "suite cpu threads commit date rounds seconds missing",
         "cases", TIMED + " best_us spread commit dtype kind operators arena_bytes peers largest_difference"),
    Rule("evt_compiled.json", ("scripts/evt_ahead.py",), "", "*", "compiled compilers seconds bytes kernels_with_spills revision date"),
    Rule("filter_gradients.json", ("bench/filter_gradients.cpp",), "suite gpu cudnn commit ceilings geomean_over_cudnn least_over_cudnn", "cases",
         TIMED + " best_us best_plan bytes checked dtype error_over_tolerance flop floor_us plan predicted_us repeatable spread swept"),
    Rule("jit.json", ("bench/jit.cpp", "tools/bench/*.cpp"), "suite compiler cpu cores commit date runs cold_ms cold_cpu_ms warm_ms hit_ms batch", "cases",
         "name kernel dtype cold_ms cold_cpu_ms warm_ms hit_ms spread registers spill_bytes cubin_bytes"),
    Rule("launch.json", ("bench/launch.cpp",), "suite what gpu commit date cuLaunchKernelEx_us Launch_enqueue_us Executable_enqueue_us over_us"),
    Rule("network*.json", NETWORK, "suite gpu driver commit date", "cases", TIMED + " network batch size dtype spread compile_s arena_bytes "
         "constant_bytes kernels host_us host_after_sleep_us repeats replays flop floor_us"),
    Rule("networks.json", OTHERS, "suite networks threads rows_by_status faults_drawn faults_missed silent_nodes good text", "rows",
         "network library exporter open convolutional key status reason runs commit", r"geomean_\w+"),
    Rule("networks-gpu.json", OTHERS, "suite", "rows",
         "network library exporter precision batch convolutional status reason gpu commit"),
    Rule("torch.json", ("bench/torch_suite.py", "bench/torch_rows.py", "bench/peers/*.py"), "torch cudnn", "rows",
         "network what us ratio spread regions share_of_flop compile_s gpu commit"),
    Rule("torch_frozen.json", ("bench/torch_frozen.py", "bench/torch_suite.py", "bench/torch_rows.py"), "torch cudnn", "rows",
         "network what batch us ratio spread error compile_s gpu commit"),
    Rule("training_steps.json", ("bench/training_steps.py",), "suite torch gpu cudnn", "rows",
         "network precision rest verdict raised commit contiguous", r"eager_\d"),
    Rule("training_curves.json", ("bench/training_curves.py",), "suite torch gpu commit device steps batch examples window verdicts outside", "rows",
         "seed torch_curve unisono_curve"),
    Rule("torch_host_time.json", ("bench/torch_host_time.py", "bench/torch_rows.py"), "gpu torch commit operators", "rows", "case us over"),
    Rule("torch_ranks.json", ("bench/torch_ranks.py", "bench/torch_rows.py"), "torch", "rows", "what ranks gpu commit"),
)  # yapf: disable


def rule_of(name):
    """The first that names the file itself, or by a pattern."""
    exact = [r for r in RULES if r.files == name]
    return (exact + [r for r in RULES if fnmatch.fnmatch(name, r.files)] + [None])[0]


def values(tree, key=""):
    """(key, value) of every number and text in a tree."""
    if isinstance(tree, dict):
        for k, v in tree.items():
            yield from values(v, k)
    elif isinstance(tree, list):
        for v in tree:
            yield from values(v, key)
    else:
        yield key, tree


def complaints(name, content, text_of):
    """text_of(pattern): the text of the sources that it names."""
    rule = rule_of(name)
    if rule is None:
        yield "no program is known to write it; name one in tests/bench_results.py"
        return
    texts = {pattern: text_of(pattern) for pattern in rule.writers}
    yield from (f"its writer {pattern} is not there" for pattern, text in texts.items() if not text)
    rows = list(content.values()) if rule.rows == "*" else content.get(rule.rows, []) if rule.rows else []
    if rule.rows and not rows:
        yield f"no rows in '{rule.rows}'"
    heads = set() if rule.rows == "*" else set(content)
    yield from (f"no '{key}', which its writer always writes" for key in rule.head.split() if key not in content)
    for i, row in enumerate(rows):
        yield from (f"row {i} has no '{key}', which its writer always writes" for key in rule.row.split() if key not in row)
    known = "\n".join(texts.values())
    for key in sorted(heads.union(*map(set, rows))):
        if not re.search(rf"\b{re.escape(key)}\b", known) and not re.fullmatch(rule.made, key):
            yield f"'{key}' stands in no writer's text"
    for key, value in values(content):
        if key in ("commit", "revision") and not re.fullmatch(r"[0-9a-f]{7,40}(\.\.[0-9a-f]{7,40})?(-dirty)?", str(value)):
            yield f"{key} '{value}'; expected a commit's hash, or two of a run between them"
        if key == "date" and not re.match(r"\d{4}-\d{2}-\d{2}", str(value)):
            yield f"date '{value}'; expected year-month-day"
        if (key.endswith("_us") or key.endswith("_ms")) and value is not None and not (isinstance(value, (int, float)) and value > 0):
            yield f"{key} is {value!r}; expected a positive number"


def check(root):
    def text_of(pattern):
        return "\n".join(p.read_text() for p in sorted(root.glob(pattern)))

    folder, found = root / "bench/results", []
    for path in sorted(folder.rglob("*.json")):
        name = str(path.relative_to(folder))
        found += [f"bench/results/{name}: {c}" for c in complaints(name, json.loads(path.read_text()), text_of)]
    return found


def self_test():
    good = {"sm100a": {"compiled": 40, "compilers": ["nvcc"], "seconds": 2.5, "bytes": 5, "kernels_with_spills": 0,
                       "revision": "ca8eac03", "date": "2026-11-26"}}
    text = "compiled compilers seconds bytes kernels_with_spills revision date"

    def of(name="evt_compiled.json", content=good, written=text):
        return list(complaints(name, content, lambda _: written))

    def changed(**fields):
        return {"sm100a": {k: v for k, v in {**good["sm100a"], **fields}.items() if v is not None}}

    assert of() == []
    assert of("other.json") == ["no program is known to write it; name one in tests/bench_results.py"]
    assert of(content=changed(seconds=None)) == ["row 0 has no 'seconds', which its writer always writes"]
    assert of(content=changed(typed=1)) == ["'typed' stands in no writer's text"]
    assert of(content=changed(revision="a build ahead of it")) == ["revision 'a build ahead of it'; expected a commit's hash, or two of a run between them"]
    assert of(content=changed(date="today")) == ["date 'today'; expected year-month-day"]
    assert of(content={}) == ["no rows in '*'"]
    assert "its writer scripts/evt_ahead.py is not there" in of(written="")
    launch = {k: 1.0 for k in rule_of("launch.json").head.split()} | {"commit": "0123456", "date": "2026-01-01", "over_us": -1}
    assert of("launch.json", launch, " ".join(launch)) == ["over_us is -1; expected a positive number"]
    print("good")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found + [f"{len(found)} complaints"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
