#!/usr/bin/env bash
# Runs the CPU suite with the Python of the dependencies' environment. Arguments go to bench/run.py.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}/bin/python" bench/run.py "$@"
