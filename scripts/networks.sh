#!/usr/bin/env bash
# Exports networks of others into FOLDER, unless they are there, and judges what UNISONO computes for them.
# usage: scripts/networks.sh UNISONO FOLDER [options of python -m networks]     (make networks sets everything up first)
# NETWORKS_MODULE=networks.gpu: on a GPU (make networks-gpu)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
unisono=$1 folder=$2
shift 2
python=${NETWORKS_PYTHON:-${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-networks/bin/python}
PYTHONPATH=$here exec "$python" -m "${NETWORKS_MODULE:-networks}" "$unisono" "$folder" "$@"
