#!/usr/bin/env bash
# Exports networks into FOLDER (2 GB), unless they are there, and compares CODA with ONNX Runtime and float64 on them.
# usage: scripts/networks.sh CODA FOLDER [options of compare_onnx.py]     (make networks sets everything up first)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
coda=$1 folder=$2
shift 2
python=${NETWORKS_PYTHON:-${CODA_DEPS_DIR:-$HOME/.cache/coda/deps/venv}-networks/bin/python}
made="$folder/made-by"
by=$(cat "$here/export_networks.py" "$here/requirements-networks.txt" | sha256sum)
if [ ! -f "$made" ] || [ "$(cat "$made")" != "$by" ]; then
  "$python" "$here/export_networks.py" "$folder"
  echo "$by" > "$made"
fi
exec "$python" "$here/compare_onnx.py" "$coda" --list "$folder/networks.json" --float64 \
     --json "$folder/results.json" "$@"
