#!/usr/bin/env python3
"""Compiles the kernels of `unisono_gpu_tests --evt`, or of a benchmark suite with rivals by CUTLASS, into a folder, ahead
of a machine with a GPU, and writes down what was reached. Needs nvcc and CUTLASS's headers, no GPU. It can be ended and
started again at any time: what is in the folder is not compiled twice.

usage: scripts/evt_ahead.py PROGRAM FOLDER [ARCH …] [--jobs N] [--results FILE] [--pack FILE.tar.xz]
  scripts/evt_ahead.py build/ci/tests/gpu/unisono_gpu_tests build/evt sm90a sm80 --pack build/evt.tar.xz
  scripts/evt_ahead.py build/ci/tests/gpu/unisono_gpu_tests build/evt sm100a sm120 --results bench/results/evt_compiled.json
  scripts/evt_ahead.py build/ci/bench/unisono_gpu_bench build/evt-bench --cases bench/cases/evt.txt --pack build/evt-bench.tar.xz

On the machine with the GPU, which needs neither nvcc nor CUTLASS then, and whatever compilers it has:
  mkdir -m 700 kernels && tar -C kernels -xJf evt.tar.xz
  UNISONO_PACKS=$PWD/kernels unisono_gpu_tests --evt --arch sm90a
  UNISONO_PACKS=$PWD/kernels unisono_gpu_bench bench/cases/evt.txt --json bench/results/evt.json
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

ARCHITECTURES = ("sm90a", "sm80", "sm100a", "sm120")
IN_A_PACK = ("kernel.cubin", "entry.json")  # what is read; the source and the log stay here


def entries_of(folder, keys=None):
    """What the folder's entries say, by architecture; of the keys alone, if some are given: a folder may also hold
    kernels of other revisions. The tests' own kernels, which fill and compare memory, are "tests"."""
    found = {arch: [] for arch in (*ARCHITECTURES, "tests")}
    for path in sorted(folder.glob("*/entry.json")):
        entry = json.loads(path.read_text())["entry"]
        if keys is not None and path.parent.name not in keys:
            continue
        named = re.search(r"CUTLASS (sm\d+a?) ", entry["title"])
        found[named.group(1) if named and "CUTLASS" in entry["compiler"] else "tests"].append((path.parent, entry))
    return found


def compiled(program, folder, arch, jobs):
    """Compiles what is missing, and shows the program's progress.

    Returns (kernels but for the tests' own one, keys of those that there are, lines that say what failed).
    """
    environment = dict(os.environ, UNISONO_CACHE_DIR=str(folder), UNISONO_PACKS="")
    command = [str(program), "--evt", "--arch", arch, "--precompile", "--verbose", "--jobs", str(jobs)]
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    keys = set(re.findall(r"^kernel ([0-9a-f]{32}): ", result.stdout, re.M))
    print(re.sub(r"^kernel .*\n", "", result.stdout, flags=re.M), end="", flush=True)
    counted = re.search(r"^(?:\d+ of )?(\d+) kernels", result.stdout, re.M)
    if not counted:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}, and no count of kernels")
    return int(counted.group(1)) - 1, keys, re.findall(r"^FAILED (.*)", result.stdout, re.M)


def compiled_suites(program, folder, cases, jobs):
    """Compiles all that the suites' cases need into the folder, which should hold nothing else. Whether all compile."""
    environment = dict(os.environ, UNISONO_CACHE_DIR=str(folder), UNISONO_PACKS="")
    command = [str(program), *map(str, cases), "--precompile", "--jobs", str(jobs)]
    return subprocess.run(command, env=environment).returncode == 0


def summary(entries):
    """Of one architecture."""
    kernels = [next(iter(e["kernels"].values()), {}) for _, e in entries]
    spills = [k for k in kernels if k.get("spill_store_bytes", 0) + k.get("spill_load_bytes", 0) > 0]
    return {
        "compiled": len(entries),
        "compilers": sorted(
            {re.sub(r" \(/[^)]*\)", "", e["compiler"]) for _, e in entries}
        ),  # without this machine's paths
        "seconds": round(sum(e["seconds"] for _, e in entries), 1),
        "bytes": sum(e["files"]["kernel.cubin"]["bytes"] for _, e in entries),
        "kernels_with_spills": len(spills),
    }


def revision():
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent
    )
    return git.stdout.strip()


def write_pack(folder, file, entries):
    """The folder as an archive that UNISONO_PACKS reads once it is unpacked, without sources and logs."""
    with tarfile.open(file, "w:xz") as archive:
        archive.add(folder / "unisono-kernels", "unisono-kernels")
        for path, _ in entries:
            for name in IN_A_PACK:
                archive.add(path / name, f"{path.name}/{name}")
    print(f"{file}: {len(entries)} kernels, {file.stat().st_size / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description="Compiles kernels by CUTLASS ahead.")
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("arch", nargs="*", help=f"of {', '.join(ARCHITECTURES)}; all, unless some are named")
    parser.add_argument("--jobs", type=int, default=1, help="compilations at once")
    parser.add_argument("--cases", type=pathlib.Path, nargs="+", help="suites; PROGRAM is unisono_gpu_bench then")
    parser.add_argument("--results", type=pathlib.Path, help="a JSON file; what it says of other architectures stays")
    parser.add_argument("--pack", type=pathlib.Path, help="an archive of the folder's kernels of these architectures")
    parser.add_argument("--only-report", action="store_true", help="compile nothing: say what is there")
    given = parser.parse_args()
    unknown = set(given.arch) - set(ARCHITECTURES)
    if unknown:
        parser.error(f"no such architecture: {', '.join(sorted(unknown))}; expected some of {', '.join(ARCHITECTURES)}")
    program, folder = given.program.resolve(), given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if given.cases:
        good = given.only_report or compiled_suites(program, folder, given.cases, given.jobs)
        if given.pack:
            write_pack(folder, given.pack, [entry for found in entries_of(folder).values() for entry in found])
        return 0 if good else 1
    results = json.loads(given.results.read_text()) if given.results and given.results.exists() else {}
    failed, all_entries = False, []
    for arch in given.arch or ARCHITECTURES:
        said, keys = {}, None
        if not given.only_report:
            wanted, keys, failures = compiled(program, folder, arch, given.jobs)
            said = {"kernels": wanted, "failed": failures}
            failed = failed or bool(failures)
        found = entries_of(folder, keys)
        entries = found[arch]
        all_entries += [e for e in entries + found["tests"] if e not in all_entries]
        results[arch] = {**results.get(arch, {}), **said, **summary(entries), "revision": revision(),
                         "date": datetime.date.today().isoformat()}
        print(f"{arch}: {json.dumps(results[arch])}", flush=True)
        if given.results:
            given.results.write_text(json.dumps(results, indent=2) + "\n")
    if given.pack:
        write_pack(folder, given.pack, all_entries)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
