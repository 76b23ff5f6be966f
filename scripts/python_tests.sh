#!/usr/bin/env bash
# Builds the Python package into a build folder and runs its tests. usage: scripts/python_tests.sh FOLDER JOBS [PYTEST ARGUMENTS]
# scripts/setup.sh python sets it up; UNISONO_TEST_PYTHON may name another Python, with nanobind, pytest, pytest-xdist, numpy,
# onnx and torch. JOBS tests run at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 jobs=$2; shift 2
mkdir -p "$folder"
python=${UNISONO_TEST_PYTHON:-${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-python/bin/python}
cmake -B "$folder" -DUNISONO_PYTHON=ON -DPython_EXECUTABLE="$python" > "$folder/python-configure.log" 2>&1 || { cat "$folder/python-configure.log"; exit 1; }
cmake --build "$folder" -j "$jobs" --target unisono_python unisono_python_stub
PYTHONPATH=$folder/python "$python" -m pytest -q -p no:cacheprovider -n "$jobs" --dist worksteal python/tests "$@"
