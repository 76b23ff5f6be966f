#!/usr/bin/env python3
"""layering.py reports what it is there to find: each case is a small tree with one wrong include.

usage: layering_test.py LAYERING
"""
import pathlib
import subprocess
import sys
import tempfile

RIGHT = {
    "src/support/CMakeLists.txt": "unisono_folder(support\n  SOURCES a.cpp)\n",
    "src/network/CMakeLists.txt": "unisono_folder(network\n  SOURCES b.cpp\n  DEPENDS unisono_support)\n",
    "src/support/a.hpp": "",
    "src/support/a.cpp": '#include "support/a.hpp"\n',
    "src/network/b.hpp": '#include "support/a.hpp"\n',
    "src/network/b.cpp": '#include "network/b.hpp"\n',
    "src/network/onnx/c.cpp": '#include "network/b.hpp"\n',
    "src/network/cuda/d.hpp": "",
    "src/network/cuda/tensor/t.hpp": '#include "network/cuda/d.hpp"\n',
    "src/network/cuda/decide/e.hpp": '#include "network/cuda/tensor/t.hpp"\n#include "network/cuda/d.hpp"\n',
    "src/network/cuda/emit/f.hpp": '#include "network/cuda/decide/e.hpp"\n',
    "src/network/cuda/run/g.hpp": '#include "network/cuda/emit/f.hpp"\n',
    "include/unisono/unisono.hpp": '#include "unisono/graph.hpp"\n',
    "include/unisono/graph.hpp": "",
    "kernels/unisono/ptx/h.cuh": "",
    "docs/architecture.md": "Modules import one another in the order\nlow, high ([python.md](python.md)).\n",
    "python/unisono/low.py": "",
    "python/unisono/pytorch/high.py": "from ..low import one\n",
}

# What each case adds, and what is reported
WRONG = [
    ({"src/support/a.hpp": '#include "network/b.hpp"\n'}, "unisono_support may not include network/b.hpp"),
    ({"src/network/cuda/d.cpp": '#include "network/cuda/decide/e.hpp"\n'}, "src/network: cuda stands before cuda/decide"),
    ({"src/network/b.cpp": '#include "network/cuda/d.hpp"\n'}, "src/network: . stands before cuda"),
    ({"src/network/other/i.hpp": ""}, "src/network does not say where its sub-folder other stands"),
    ({"src/families/sm90/i.hpp": ""}, "src/families: there is no sub-folder plain"),
    ({"src/support/part/i.hpp": ""}, "src/support does not say where its sub-folder part stands"),
    # neither header includes the other, and yet the modules are one knot
    ({"src/support/x.cpp": '#include "support/y.hpp"\n', "src/support/x.hpp": "",
      "src/support/y.cpp": '#include "support/x.hpp"\n', "src/support/y.hpp": ""},
     "modules of src/ include one another: support/x -> support/y -> support/x"),
    ({"include/unisono/graph.hpp": '#include "unisono/unisono.hpp"\n'}, "public headers include one another"),
    ({"include/unisono/lost.hpp": ""}, "unisono/unisono.hpp does not include it"),
    ({"kernels/unisono/ptx/h.cuh": '#include "unisono/load/k.cuh"\n'}, "ptx stands before load"),
    ({"python/unisono/low.py": "from .pytorch.high import one\n"}, "low stands before high"),
    ({"python/unisono/low.py": "from .other import one\n", "python/unisono/other.py": "from .low import one\n"},
     "Python modules import one another"),
    ({"docs/architecture.md": "Modules import one another in the order low, high, lost ([python.md](python.md)).\n"},
     "python/unisono has no module lost"),
]


def report(layering, files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        ran = subprocess.run([sys.executable, layering, folder], capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr


def main():
    failed = 0
    code, text = report(sys.argv[1], RIGHT)
    if code != 0:
        failed += 1
        print(f"nothing is wrong, and it says:\n{text}")
    for added, expected in WRONG:
        code, text = report(sys.argv[1], {**RIGHT, **added})
        if code == 0 or expected not in text:
            failed += 1
            print(f"expected '{expected}'; it says ({code}):\n{text}")
    sys.exit(1 if failed else 0)


main()
