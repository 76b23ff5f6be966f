#!/usr/bin/env bash
# Builds the Python package and judges random modules. usage: scripts/random_modules.sh FOLDER JOBS [OPTIONS OF scripts/random_modules.py …]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 jobs=$2; shift 2
mkdir -p "$folder"
python=${UNISONO_TEST_PYTHON:-${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-python/bin/python}
cmake -B "$folder" -DUNISONO_PYTHON=ON -DPython_EXECUTABLE="$python" > "$folder/python-configure.log" 2>&1 || { cat "$folder/python-configure.log"; exit 1; }
cmake --build "$folder" -j "$jobs" --target unisono_python unisono_python_stub
PYTHONPATH=$folder/python exec "$python" scripts/random_modules.py --jobs "$jobs" "$@"
