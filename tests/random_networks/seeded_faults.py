"""Faults put into the library one at a time, as text in one of its sources; random networks have to find each.

usage: seeded_faults.py BUILD JUDGE SOURCES

BUILD is a build folder of Ninja, JUDGE the program in it, SOURCES the root of the tree. The source with the fault is compiled
by its own command, or that of the file it is joined in, without optimisation. It is linked ahead of the library that has the
right one: calls of functions that others see go to the first of their name. One seed that shows a fault is written beside it,
which takes half a second; if it does not show the fault any more, 800 seeds are asked and the one to write is named.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

# what goes wrong, file, the text there, what stands in its place, a seed that shows it
FAULTS = [
    ("a broadcast: every image has the first one's vector", "src/runtime/cpu/binding.cpp", "return {row, 0, 0, col};", "return {0, 0, 0, col};", 23),
    ("a broadcast: operands are aligned at the first axis", "src/network/tensor_step.cpp",
     "strides[shape.size() - x.shape.size() + i] = x.strides[i]", "strides[i] = x.strides[i]", 15),
    ("an alias: what is read later is written over", "src/network/storage.cpp", "return last_use_[root_[from]] <= step && ", "return ", 22),
    ("a swapped axis: transposed by the inverse order", "src/network/single_step.cpp", "permuted.push_back(from[static_cast<std::size_t>(i)]);",
     "permuted.push_back(from[std::size_t(std::find(order.order.begin(), order.order.end(), int(permuted.size())) - order.order.begin())]);", 20),
    ("a swapped axis in the importer, which the reference shares: pads behind are those before", "src/network/onnx/windows.cpp",
     "f.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());",
     "f.after.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));", 22),
]
HERE = pathlib.Path(__file__).parent


def ninja(build, *arguments):
    return subprocess.run(["ninja", "-C", str(build), *arguments], check=True, capture_output=True, text=True).stdout


def compiles(compilation, source, root):
    """Whether the entry of a compilation database compiles this source, by itself or joined with others (UNISONO_JOIN)."""
    if " -c " not in compilation["command"]:
        return False
    file = pathlib.Path(compilation["directory"], compilation["file"])
    return file == source or (file.parent.name == "joined" and f'"{source.relative_to(root)}"' in file.read_text())


def with_fault(build, program, first, compilation, source, text, folder):
    """The program, in this folder, with this text in place of the source. `first`: how the name of one of its own objects
    ends. The text's place in the build folder follows from the text, so that ccache has the object."""
    place = pathlib.Path("seeded_faults", hashlib.sha256(text.encode()).hexdigest()[:16])
    changed, built = place / source.name, place / "faulty.o"
    (build / place).mkdir(parents=True, exist_ok=True)
    (build / changed).write_text('#include <algorithm>\n' + text)
    words, skip = [], False
    for word in compilation["command"].split():
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT"):
            skip = True
        elif word not in ("-MD", "-c", compilation["file"]):
            words.append(word)
    subprocess.run(" ".join(words) + f" -O0 -w -I{source.parent} -o {built} -c {changed}", shell=True, check=True, cwd=build)
    target = program.relative_to(build)
    link = ninja(build, "-t", "commands", "-s", str(target)).strip().splitlines()[-1]
    faulty = folder / program.name
    own = next(w for w in link.split() if w.endswith(first))
    link = link.replace(own, f"-Wl,-z,muldefs {built} {own}", 1).replace(f"-o {target}", f"-o {faulty}", 1)
    subprocess.run(link, shell=True, check=True, cwd=build)
    return faulty


def networks(program, work, *seeds):
    return subprocess.run([sys.executable, str(HERE / "run.py"), "--judge", str(program), *seeds, "--jobs", "1", "--work", work, "--no-shrinking",
                           "--until-bad"], capture_output=True, text=True)


def missed(build, judge, root, fault, compilations):
    """What is wrong with finding this fault, or None."""
    what, file, good, bad, seed = fault
    source = root / file
    text = source.read_text()
    if text.count(good) != 1:
        return f"{what}: {file} does not have '{good}' once any more; put the fault elsewhere"
    with tempfile.TemporaryDirectory() as folder:
        compilation = next(c for c in compilations if compiles(c, source, root))
        program = with_fault(build, judge, "main.cpp.o", compilation, source, text.replace(good, bad), pathlib.Path(folder))
        done = networks(program, folder + "/first", "--seeds", str(seed))
        if done.returncode == 0:
            done = networks(program, folder + "/all", "--count", "800")
            if done.returncode == 1:
                return f"{what}: seed {seed} does not show it any more; write the one that does:\n{done.stdout}"
    if done.returncode == 1 and ("wrong" in done.stdout or "disputed" in done.stdout):
        print(f"{what}: found; {done.stdout.strip().splitlines()[-1].strip()[:160]}", flush=True)
        return None
    return f"{what}: not found (exit code {done.returncode}):\n{done.stdout}{done.stderr}"


def main():
    build, judge, root = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    compilations = json.loads(ninja(build, "-t", "compdb"))
    failures = [m for m in (missed(build, judge, root, f, compilations) for f in FAULTS) if m]
    print("\n".join(failures) if failures else f"{len(FAULTS)} seeded faults, all found")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
